// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel's own memory costs: at most 160 bytes for a block and 64 for
 * a chunk, all of it counted. Of streams, what each of them costs, each of the pools
 * that it has to do with, each block that waits for it, and each open point.
 */
#include "fence_test.h"

#define PER_BLOCK 160
#define PER_CHUNK 64
#define PER_STREAM 224
#define PER_LANE 224
#define PER_USE 64
/* Of a fenced stream: the point, and its node of the kernel's fence chain */
#define PER_POINT 224
#define BLOCKS 1000000ULL
/* What the machine itself does meanwhile */
#define NOISE (512LL * 1024)

/* One cache of /proc/slabinfo */
struct cache {
	char name[48];
	__u64 bytes;
};

#define CACHES 512

struct caches {
	struct cache cache[CACHES];
	int n;
};

static bool read_caches(struct caches *c)
{
	unsigned long per_slab, slabs;
	char line[512];
	char *data;
	FILE *f;

	c->n = 0;
	f = fopen("/proc/slabinfo", "re");
	if (!f)
		return false;
	while (c->n < CACHES && fgets(line, sizeof(line), f)) {
		struct cache *cache = &c->cache[c->n];

		data = strstr(line, ": slabdata");
		if (!data || line[0] == '#')
			continue;
		if (sscanf(line, "%47s %*u %*u %*u %*u %lu", cache->name, &per_slab) != 2 ||
		    sscanf(data, ": slabdata %*u %lu", &slabs) != 1)
			continue;
		cache->bytes = slabs * per_slab * TEST_PAGE;
		c->n++;
	}
	fclose(f);
	return c->n > 0;
}

static __u64 bytes_of(const struct caches *c, const char *name)
{
	int i;

	for (i = 0; i < c->n; i++)
		if (!strcmp(c->cache[i].name, name))
			return c->cache[i].bytes;
	return 0;
}

/* All that can be kernel memory: what the process itself uses is not in it. */
static long long kernel_bytes(void)
{
	return test_meminfo("Slab") + test_meminfo("VmallocUsed") + test_meminfo("Percpu") +
	       test_meminfo("KernelStack");
}

/* Where the addresses are noted: made and touched before anything is counted */
static __u64 addr[BLOCKS];

FIXTURE(bookkeeping)
{
	struct devpool_info info;
	struct test_base base;
	struct caches before, after;
	long long kernel;
	long long free;
	int index;
	int fd;
};

FIXTURE_SETUP(bookkeeping)
{
	test_setup(self, TEST_NULL);
	if (!read_caches(&self->before))
		SKIP(return, "no /proc/slabinfo");
	memset(addr, 1, sizeof(addr));
	/* The first of everything: the client, its default pool, both arenas */
	test_free(self->fd, test_alloc(self->fd, default_pool, 512));
	test_free(self->fd, test_alloc(self->fd, default_pool, 4 * MIB));
	test_empty_cache(self->fd, default_pool, 0, 0);
	read_caches(&self->before);
	self->kernel = kernel_bytes();
	self->free = test_meminfo("MemFree");
}

FIXTURE_TEARDOWN(bookkeeping)
{
}

/* Prints which caches grew, and returns the sum. */
#define GROWTH()								\
({										\
	long long _sum = 0;							\
	int _i;									\
										\
	ASSERT_TRUE(read_caches(&self->after));					\
	for (_i = 0; _i < self->after.n; _i++) {				\
		const char *_name = self->after.cache[_i].name;			\
		long long _more = self->after.cache[_i].bytes -			\
				  bytes_of(&self->before, _name);		\
										\
		_sum += _more;							\
		if (_more > 256 * 1024)						\
			TH_LOG("%s: %lld bytes more", _name, _more);		\
	}									\
	_sum;									\
})

TEST_F_TIMEOUT(bookkeeping, of_a_million_blocks, 240)
{
	__u64 chunks = BLOCKS * 512 / self->info.out_chunk + 1;
	long long most = BLOCKS * PER_BLOCK + chunks * PER_CHUNK + NOISE;
	long long grown;
	__u64 i;

	for (i = 0; i < BLOCKS; i++)
		addr[i] = test_alloc(self->fd, default_pool, 512);
	grown = GROWTH();
	TH_LOG("%lld bytes per block in slabs", grown / (long long)BLOCKS);
	/* They are somewhere: else this looks at the wrong thing. */
	EXPECT_LT(BLOCKS * 32, grown);
	EXPECT_GE(most, grown);
	EXPECT_GE(most, kernel_bytes() - self->kernel);
	/* And nowhere else: pages, which no list has, too */
	EXPECT_GE(most + 8 * NOISE, self->free - test_meminfo("MemFree"));

	/* Giving them back needs nothing. */
	for (i = 0; i < BLOCKS; i += 2)
		test_free(self->fd, addr[i]);
	EXPECT_GE(most, GROWTH());
	EXPECT_EQ(BLOCKS / 2, test_stats(self->fd).out_blocks.current);
	close(self->fd);
	EXPECT_BASE(self->base, self->index);
	EXPECT_GE(NOISE, GROWTH());
	EXPECT_GE(NOISE, kernel_bytes() - self->kernel);
}

TEST_F_TIMEOUT(bookkeeping, of_a_million_chunks, 120)
{
	const __u64 chunks = 1 << 20;
	long long most = chunks * PER_CHUNK + NOISE;
	long long grown;
	__u64 block;

	block = test_alloc(self->fd, default_pool, chunks * self->info.out_chunk);
	grown = GROWTH();
	TH_LOG("%lld bytes per chunk in slabs", grown / (long long)chunks);
	EXPECT_LT(chunks * 16, grown);
	EXPECT_GE(most, grown);
	EXPECT_GE(most, kernel_bytes() - self->kernel);
	EXPECT_GE(most + 8 * NOISE, self->free - test_meminfo("MemFree"));
	test_free(self->fd, block);
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
	EXPECT_GE(NOISE, GROWTH());
}

/* What is freed by RCU takes a moment to be free. */
#define EXPECT_NO_GROWTH()							\
do {										\
	long long _grown;							\
	int _tries;								\
										\
	for (_tries = 0; _tries < 50; _tries++) {				\
		_grown = GROWTH();						\
		if (_grown <= NOISE)						\
			break;							\
		usleep(100000);							\
	}									\
	EXPECT_GE(NOISE, _grown);						\
} while (0)

/* Addresses that are given back cost nothing any more. */
TEST_F_TIMEOUT(bookkeeping, of_addresses, 60)
{
	struct devpool_pool_id id;
	int pool;
	int i;

	/* In many pools, one after the other */
	for (i = 0; i < 300; i++) {
		pool = test_pool_create(self->fd, &id);
		test_free(self->fd, test_alloc(self->fd, id, 256 * MIB));
		close(pool);
	}
	EXPECT_NO_GROWTH();
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
}

/*
 * Nor do clients, pools, blocks and mappings whose time is over: one struct of
 * 256 bytes in each round would be too many.
 */
TEST_F_TIMEOUT(bookkeeping, of_lives_that_are_over, 120)
{
	struct devpool_pool_id id;
	int fd, pool;
	__u64 block;
	char *p;
	int i;

	for (i = 0; i < 4000; i++) {
		fd = test_open(self->index);
		pool = test_pool_create(fd, &id);
		block = test_alloc(fd, id, 8 * KIB);
		p = test_map(fd, block, 8 * KIB);
		/* Two mappings, where there was one */
		munmap(p, 4 * KIB);
		if (i % 2)
			test_free(fd, block);
		if (i % 3)
			close(pool);
		munmap(p + 4 * KIB, 4 * KIB);
		close(fd);
		if (i % 3 == 0)
			close(pool);
	}
	EXPECT_NO_GROWTH();
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
}

/* What is pending, until it is not. */
TEST_F_TIMEOUT(bookkeeping, of_pending_blocks, 120)
{
	enum { PENDING = 200000 };
	__u64 chunks = PENDING * 512 / self->info.out_chunk + 1;
	long long most = PENDING * (PER_BLOCK + PER_USE) + chunks * PER_CHUNK + NOISE;
	__u32 stream = test_stream(self->fd, 0);
	long long grown;
	__u64 point;
	int i;

	point = test_submit(self->fd, stream);
	for (i = 0; i < PENDING; i++) {
		addr[i] = test_alloc(self->fd, default_pool, 512);
		test_record(self->fd, addr[i], stream);
	}
	for (i = 0; i < PENDING; i++)
		test_free(self->fd, addr[i]);
	EXPECT_EQ(PENDING * 512, test_pending(self->fd, default_pool));
	grown = GROWTH();
	TH_LOG("%lld bytes per pending block in slabs", grown / PENDING);
	EXPECT_LT(PENDING * 64, grown);
	EXPECT_GE(most, grown);
	EXPECT_GE(most, kernel_bytes() - self->kernel);
	test_signal(self->fd, stream, point);
	EXPECT_EQ(0, test_pending(self->fd, default_pool));
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_NO_GROWTH();
}

/* Streams, then what each has to do with a pool, which ends with the stream. */
TEST_F_TIMEOUT(bookkeeping, of_streams, 120)
{
	enum { CLIENTS = 16, STREAMS = 4000, ALL = CLIENTS * STREAMS };
	static __u32 stream[CLIENTS][STREAMS];
	long long grown, lanes;
	int fd[CLIENTS];
	int i, k;

	for (i = 0; i < CLIENTS; i++) {
		fd[i] = test_open(self->index);
		for (k = 0; k < STREAMS; k++)
			stream[i][k] = test_stream(fd[i], 0);
	}
	grown = GROWTH();
	TH_LOG("%lld bytes per stream in slabs", grown / ALL);
	EXPECT_LT(ALL * 64, grown);
	EXPECT_GE(ALL * PER_STREAM + NOISE, grown);

	for (i = 0; i < CLIENTS; i++)
		for (k = 0; k < STREAMS; k++)
			test_free(fd[i], test_alloc_on(fd[i], default_pool, 512, stream[i][k]));
	lanes = GROWTH() - grown;
	TH_LOG("%lld bytes per pool of a stream in slabs", lanes / ALL);
	EXPECT_LT(ALL * 64, lanes);
	EXPECT_GE(ALL * PER_LANE + NOISE, lanes);
	EXPECT_GE(ALL * (PER_STREAM + PER_LANE) + 2 * NOISE, kernel_bytes() - self->kernel);

	/* They go with the stream, or with the pool. */
	for (i = 0; i < CLIENTS; i += 2)
		for (k = 0; k < STREAMS; k++)
			test_stream_destroy(fd[i], stream[i][k]);
	for (i = 1; i < CLIENTS; i += 2)
		close(fd[i]);
	for (i = 0; i < CLIENTS; i += 2)
		test_empty_cache(fd[i], default_pool, 0, 0);
	EXPECT_NO_GROWTH();
	for (i = 0; i < CLIENTS; i += 2)
		close(fd[i]);
}

/* A point of a user stream is a number, open or not. */
TEST_F_TIMEOUT(bookkeeping, of_points, 120)
{
	enum { STREAMS = 16 };
	__u32 stream[STREAMS];
	__u64 point = 0;
	int i;
	__u32 k;

	for (i = 0; i < STREAMS; i++) {
		stream[i] = test_stream(self->fd, 0);
		for (k = 0; k < self->info.out_max_points; k++)
			point = test_submit(self->fd, stream[i]);
		ASSERT_EQ(self->info.out_max_points, point);
	}
	EXPECT_GE(NOISE, GROWTH());
	for (i = 0; i < STREAMS; i++)
		test_signal(self->fd, stream[i], point);
	for (i = 0; i < 100000; i++)
		test_signal(self->fd, stream[0], test_submit(self->fd, stream[0]));
	EXPECT_NO_GROWTH();
}

/* Points that end with this fence, on a fenced stream */
#define SUBMIT_FENCED(on, nr, fence)						\
do {										\
	int _k;									\
										\
	for (_k = 0; _k < (nr); _k++)						\
		test_submit_opts(self->fd, .stream = on, .in_fence = fence,	\
				 .flags = DEVPOOL_SUBMIT_FENCE_IN);		\
} while (0)

/* One of a fenced stream is there until it has signalled. */
TEST_F_TIMEOUT(bookkeeping, of_fenced_points, 120)
{
	enum { STREAMS = 12, POINTS = 4000, ALL = STREAMS * POINTS };
	struct test_fences fences = { .file = test_open_vgem() };
	__u32 stream[STREAMS], fence;
	long long grown;
	int sync, i;

	ASSERT_LE(0, fences.file)
		TH_LOG("no vgem");
	for (i = 0; i < STREAMS; i++)
		stream[i] = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
	sync = test_fence(&fences, &fence);
	for (i = 0; i < STREAMS; i++)
		SUBMIT_FENCED(stream[i], POINTS, sync);
	grown = GROWTH();
	EXPECT_EQ(0, test_sync_status(sync));
	TH_LOG("%lld bytes per open point of a fenced stream in slabs", grown / ALL);
	EXPECT_LT(ALL * 64, grown);
	EXPECT_GE(ALL * PER_POINT + NOISE, grown);
	test_fence_signal(&fences, fence);
	EXPECT_NO_GROWTH();
	/* Those that have signalled before they come */
	SUBMIT_FENCED(stream[0], 2 * ALL, sync);
	EXPECT_NO_GROWTH();
	close(sync);
	close(fences.file);
}

TEST_HARNESS_MAIN
