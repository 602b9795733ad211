// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory as a process sees it: what can be mapped, what it shows, and that it
 * is taken away when its pool does not own it any more.
 */
#include <sys/resource.h>
#include <sys/uio.h>

#include "devpool_test.h"

FIXTURE(mapping)
{
	struct devpool_info info;
	struct test_base base;
	__u64 chunk;
	int index;
	int fd;
};

FIXTURE_VARIANT(mapping)
{
	/* whether huge entries are possible */
	bool congruent;
};

FIXTURE_VARIANT_ADD(mapping, aligned) { .congruent = true };
FIXTURE_VARIANT_ADD(mapping, odd) { .congruent = false };

FIXTURE_SETUP(mapping)
{
	test_setup(self, TEST_SYSMEM);
	self->chunk = self->info.out_chunk;
	test_catch();
}

FIXTURE_TEARDOWN(mapping)
{
}

#define MAP(addr, bytes)							\
({										\
	void *_p = devpool_map_at_raw(self->fd, addr, bytes, variant->congruent); \
										\
	ASSERT_NE(NULL, _p)							\
		TH_LOG("mmap: %s", strerror(errno));				\
	(char *)_p;								\
})

#define USED() devpool_sysfs(self->index, "used")

/* Every page of it, and the last byte */
static int touch_all(const char *p, __u64 bytes)
{
	__u64 i;
	int sig;

	for (i = 0; i < bytes; i += TEST_PAGE) {
		sig = test_touch(p + i);
		if (sig)
			return sig;
	}
	return test_touch(p + bytes - 8);
}

/* 0 if every page of it answers with that signal */
static int touch_none(const char *p, __u64 bytes, int sig)
{
	__u64 i;

	for (i = 0; i < bytes; i += TEST_PAGE)
		if (test_touch(p + i) != sig)
			return 1;
	return 0;
}

TEST_F(mapping, a_block_holds_what_is_written)
{
	__u64 small, large;
	char *s, *l;

	small = test_alloc(self->fd, default_pool, 300 * KIB);
	large = test_alloc(self->fd, default_pool, 7 * MIB);
	s = MAP(small, 300 * KIB);
	l = MAP(large, 7 * MIB);
	EXPECT_EQ(-1, test_not_zero(s, 300 * KIB));
	EXPECT_EQ(-1, test_not_zero(l, 7 * MIB));
	test_fill(s, 300 * KIB, 0x100);
	test_fill(l, 7 * MIB, 0x2000000);
	EXPECT_EQ(-1, test_differs(s, 300 * KIB, 0x100));
	EXPECT_EQ(-1, test_differs(l, 7 * MIB, 0x2000000));
}

/* Two mappings of one block, one of them in another process */
TEST_F(mapping, all_mappings_show_the_same)
{
	__u64 addr;
	char *p, *q;
	pid_t pid;

	addr = test_alloc(self->fd, default_pool, 5 * MIB);
	p = MAP(addr, 5 * MIB);
	q = test_map(self->fd, addr + MIB, 4 * MIB);
	test_fill(p, 5 * MIB, 1);
	EXPECT_EQ(-1, test_differs(q, 4 * MIB, 1 + MIB / 8));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		q = devpool_map_raw(self->fd, addr, 5 * MIB);
		if (!q || test_differs(q, 5 * MIB, 1) != -1)
			_exit(1);
		test_fill(q, 5 * MIB, 7);
		_exit(0);
	}
	EXPECT_EQ(0, test_wait(pid));
	EXPECT_EQ(-1, test_differs(p, 5 * MIB, 7));
}

TEST_F(mapping, a_fault_brings_in_a_whole_chunk)
{
	struct rusage before, after;
	__u64 addr;
	char *p;

	addr = test_alloc(self->fd, default_pool, 32 * MIB);
	p = MAP(addr, 32 * MIB);
	EXPECT_EQ(0, test_touch(p));
	getrusage(RUSAGE_SELF, &before);
	EXPECT_EQ(0, touch_all(p, 32 * MIB));
	getrusage(RUSAGE_SELF, &after);
	EXPECT_GE(32 * MIB / (self->chunk < TEST_PMD ? self->chunk : TEST_PMD) + 4,
		  after.ru_minflt - before.ru_minflt);
}

static long page_tables(void)
{
	char line[128];
	long kib = -1;
	FILE *f;

	f = fopen("/proc/self/status", "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPTE: %ld kB", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

/*
 * Huge entries, where INFO says so and they fit: they need no page tables. A
 * kernel that does not know them must not be given one.
 */
TEST_F(mapping, a_fault_makes_a_huge_entry)
{
	bool huge = self->info.out_features & DEVPOOL_FEATURE_HUGE_MAP;
	long before;
	__u64 addr;
	char *p;

	addr = test_alloc(self->fd, default_pool, 64 * MIB);
	p = MAP(addr, 64 * MIB);
	before = page_tables();
	EXPECT_EQ(0, touch_all(p, 64 * MIB));
	/* 32 tables of 4 KiB, or none */
	EXPECT_EQ(huge && variant->congruent, page_tables() < before + 64);
}

/* Memory next to a mapping, below and above, is not the device's. */
TEST_F(mapping, a_fault_stays_inside_its_mapping)
{
	__u64 addr = test_alloc(self->fd, default_pool, 8 * MIB);
	char *p = MAP(addr, 8 * MIB);
	char *around, *q;
	__u64 i;

	test_fill(p, 8 * MIB, 9);
	around = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, around);
	madvise(around, 16 * MIB, MADV_NOHUGEPAGE);
	q = (char *)(((uintptr_t)around + 4 * MIB) & ~(TEST_PMD - 1)) + 3 * MIB +
	    (variant->congruent ? 0 : TEST_PAGE);
	ASSERT_EQ(q, mmap(q, 2 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			  self->fd, (addr & ~(TEST_PAGE - 1)) + 3 * MIB));
	/* From both of its ends */
	EXPECT_EQ(0, test_touch(q + 2 * MIB - 8));
	EXPECT_EQ(0, test_touch(q));
	EXPECT_EQ(-1, test_differs(q, 2 * MIB, 9 + 3 * MIB / 8));
	for (i = TEST_PAGE; i <= 2 * MIB; i += TEST_PAGE) {
		EXPECT_EQ(-1, test_not_zero(q - i, TEST_PAGE));
		EXPECT_EQ(-1, test_not_zero(q + 2 * MIB + i - TEST_PAGE, TEST_PAGE));
		if (_metadata->exit_code)
			break;
	}
	test_fill(q - MIB, MIB, 5);
	test_fill(q + 2 * MIB, MIB, 5);
	EXPECT_EQ(-1, test_differs(p, 8 * MIB, 9));
}

/* What is around a block can be mapped too: the library relies on it. */
TEST_F(mapping, a_window_around_any_block)
{
	static const __u64 sizes[] = { 512, MIB, MIB + 1, 5 * MIB };
	__u64 unit = self->chunk > DEVPOOL_WINDOW ? self->chunk : DEVPOOL_WINDOW;
	__u64 addr, start;
	char *p;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		addr = test_alloc(self->fd, default_pool, sizes[i]);
		start = addr / unit * unit;
		p = MAP(start, unit);
		EXPECT_EQ(0, test_touch(p + (addr - start)));
		munmap(p, unit);
	}
}

TEST_F(mapping, a_hole_is_a_bus_error)
{
	__u64 unit = self->chunk > DEVPOOL_WINDOW ? self->chunk : DEVPOOL_WINDOW;
	__u64 addr, start, i;
	int backed = 0;
	char *p;

	addr = test_alloc(self->fd, default_pool, 3 * self->chunk);
	start = addr / unit * unit;
	p = MAP(start, unit);
	for (i = 0; i < unit; i += self->chunk) {
		if (start + i + self->chunk > addr && start + i < addr + 3 * self->chunk) {
			EXPECT_EQ(0, touch_all(p + i, self->chunk));
			backed++;
		} else {
			EXPECT_EQ(SIGBUS, test_touch(p + i));
			EXPECT_EQ(SIGBUS, test_write(p + i + self->chunk - 8, 1));
		}
	}
	EXPECT_LE(1, backed);
	EXPECT_EQ(3 * self->chunk, USED());
}

/* What is free but resident shows what the pool left there. */
TEST_F(mapping, the_cache_is_readable)
{
	__u64 addr;
	char *p;

	addr = test_alloc(self->fd, default_pool, 4 * MIB);
	p = MAP(addr, 4 * MIB);
	test_fill(p, 4 * MIB, 3);
	test_free(self->fd, addr);
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 3));
}

TEST_F(mapping, F03_what_is_flushed_is_a_bus_error)
{
	__u64 addr;
	char *p;

	addr = test_alloc(self->fd, default_pool, 6 * MIB);
	p = MAP(addr, 6 * MIB);
	test_fill(p, 6 * MIB, 3);
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(0, touch_none(p, 6 * MIB, SIGBUS));
	EXPECT_EQ(SIGBUS, test_write(p, 1));
}

/* The same address again, with other memory behind it */
TEST_F(mapping, F03_what_is_flushed_and_allocated_again_is_zero)
{
	__u64 addr;
	char *p;

	addr = test_alloc(self->fd, default_pool, 6 * MIB);
	p = MAP(addr, 6 * MIB);
	test_fill(p, 6 * MIB, 3);
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	ASSERT_EQ(addr, test_alloc(self->fd, default_pool, 6 * MIB));
	EXPECT_EQ(-1, test_not_zero(p, 6 * MIB));
	test_fill(p, 6 * MIB, 4);
	EXPECT_EQ(-1, test_differs(p, 6 * MIB, 4));
}

TEST_F(mapping, F03_live_blocks_keep_their_contents_over_a_trim)
{
	__u64 addr[6];
	char *p[6];
	int i;

	for (i = 0; i < 6; i++) {
		addr[i] = test_alloc(self->fd, default_pool, 2 * MIB + 4096 * i);
		p[i] = MAP(addr[i], 2 * MIB);
		test_fill(p[i], 2 * MIB, i << 20);
	}
	for (i = 0; i < 6; i += 2)
		test_free(self->fd, addr[i]);
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_GT(14 * MIB, USED());
	for (i = 1; i < 6; i += 2)
		EXPECT_EQ(-1, test_differs(p[i], 2 * MIB, i << 20));
	/* The first chunk of the first block is nobody else's. */
	EXPECT_EQ(SIGBUS, test_touch(p[0]));
}

/* Chunks that move behind another address leave the old one empty. */
TEST_F(mapping, F03_recycled_chunks_are_not_where_they_were)
{
	__u64 addr[3], big;
	char *p[3], *q;
	int i;

	for (i = 0; i < 3; i++) {
		addr[i] = test_alloc(self->fd, default_pool, 4 * MIB);
		p[i] = MAP(addr[i], 4 * MIB);
		test_fill(p[i], 4 * MIB, i << 20);
	}
	test_free(self->fd, addr[0]);
	test_free(self->fd, addr[2]);
	big = test_alloc(self->fd, default_pool, 8 * MIB);
	EXPECT_EQ(12 * MIB, USED());
	q = MAP(big, 8 * MIB);
	test_fill(q, 8 * MIB, 0x77000000);
	EXPECT_EQ(-1, test_differs(p[1], 4 * MIB, 1 << 20));
	EXPECT_EQ(-1, test_differs(q, 8 * MIB, 0x77000000));
	for (i = 0; i < 3; i += 2) {
		/* Either it is a part of the new block, or it is a hole. */
		if (addr[i] >= big && addr[i] + 4 * MIB <= big + 8 * MIB) {
			EXPECT_EQ(-1, test_differs(p[i], 4 * MIB,
						   0x77000000 + (addr[i] - big) / 8));
		} else {
			EXPECT_EQ(0, touch_none(p[i], 4 * MIB, SIGBUS));
		}
	}
}

/* Pool file, device file, and only then the mappings */
TEST_F(mapping, F03_mappings_hold_the_client)
{
	struct devpool_pool_id id;
	__u64 live, cached;
	char *p, *q;
	int pool;

	pool = test_pool_create(self->fd, &id);
	live = test_alloc(self->fd, id, 4 * MIB);
	cached = test_alloc(self->fd, id, 4 * MIB);
	p = MAP(live, 4 * MIB);
	q = MAP(cached, 4 * MIB);
	test_fill(p, 4 * MIB, 5);
	test_fill(q, 4 * MIB, 6);
	test_free(self->fd, cached);
	EXPECT_EQ(8 * MIB, USED());
	close(pool);
	EXPECT_EQ(4 * MIB, USED());
	EXPECT_EQ(0, touch_none(q, 4 * MIB, SIGBUS));
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 5));
	close(self->fd);
	EXPECT_EQ(4 * MIB, USED());
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 5));
	test_fill(p, 4 * MIB, 8);
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 8));
	munmap(q, 4 * MIB);
	EXPECT_EQ(4 * MIB, USED());
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 8));
	munmap(p, 4 * MIB);
	EXPECT_BASE(self->base, self->index);
}

/* Parts of a mapping hold it as the whole did. */
TEST_F(mapping, F03_unmapped_piece_by_piece)
{
	__u64 addr;
	char *p;
	int i;

	addr = test_alloc(self->fd, default_pool, 6 * MIB);
	p = MAP(addr, 6 * MIB);
	test_fill(p, 6 * MIB, 5);
	close(self->fd);
	munmap(p + 2 * MIB + 4096, MIB);
	EXPECT_EQ(SIGSEGV, test_touch(p + 2 * MIB + 4096));
	EXPECT_EQ(-1, test_differs(p, 2 * MIB + 4096, 5));
	EXPECT_EQ(-1, test_differs(p + 3 * MIB + 4096, 3 * MIB - 4096,
				   5 + (3 * MIB + 4096) / 8));
	munmap(p, 2 * MIB + 4096);
	EXPECT_EQ(6 * MIB, USED());
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, touch_all(p + 4 * MIB, 2 * MIB));
	munmap(p + 3 * MIB + 4096, 3 * MIB - 4096);
	EXPECT_BASE(self->base, self->index);
}

/* One that outlives its pool shows nothing of what comes later. */
TEST_F(mapping, F03_a_mapping_outlives_its_pool)
{
	struct devpool_pool_id id;
	__u64 addr, other;
	char *p, *q;
	int pool;

	pool = test_pool_create(self->fd, &id);
	addr = test_alloc(self->fd, id, 8 * MIB);
	p = MAP(addr, 8 * MIB);
	test_fill(p, 8 * MIB, 5);
	test_free(self->fd, addr);
	close(pool);
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_EQ(0, touch_none(p, 8 * MIB, SIGBUS));
	other = test_alloc(self->fd, default_pool, 64 * MIB);
	q = test_map(self->fd, other, 64 * MIB);
	test_fill(q, 64 * MIB, 0x5ec4e70000000000ULL);
	EXPECT_EQ(0, touch_none(p, 8 * MIB, SIGBUS));
	/* Nor are its addresses dealt again. */
	pool = test_pool_create(self->fd, &id);
	EXPECT_NE(addr, test_alloc(self->fd, id, 8 * MIB));
	EXPECT_EQ(0, touch_none(p, 8 * MIB, SIGBUS));
	munmap(p, 8 * MIB);
	EXPECT_EQ(-1, test_differs(q, 64 * MIB, 0x5ec4e70000000000ULL));
}

/* A mapping made before there was memory behind it */
TEST_F(mapping, memory_comes_to_a_mapping_that_is_there)
{
	__u64 unit = self->chunk > DEVPOOL_WINDOW ? self->chunk : DEVPOOL_WINDOW;
	__u64 addr, start;
	char *p;

	addr = test_alloc(self->fd, default_pool, 2 * MIB);
	start = addr / unit * unit;
	p = MAP(start, unit);
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(SIGBUS, test_touch(p + (addr - start)));
	addr = test_alloc(self->fd, default_pool, 8 * MIB);
	ASSERT_LE(start, addr);
	ASSERT_GE(start + unit, addr + 8 * MIB);
	test_fill(p + (addr - start), 8 * MIB, 2);
	EXPECT_EQ(-1, test_differs(p + (addr - start), 8 * MIB, 2));
}

/* F04: what cannot be had */

#define EXPECT_MMAP_ERR(err, bytes, prot, flags, fd, addr)			\
do {										\
	errno = 0;								\
	EXPECT_EQ(MAP_FAILED, mmap(NULL, bytes, prot, flags, fd, addr));	\
	EXPECT_EQ(err, errno);							\
} while (0)

static bool devpool_map_fails(int fd, __u64 addr, __u64 bytes)
{
	void *p = devpool_map_raw(fd, addr, bytes);

	if (p)
		test_unmap(p, bytes);
	return !p;
}

TEST_F(mapping, F04_beyond_a_range)
{
	__u64 unit = self->chunk > DEVPOOL_WINDOW ? self->chunk : DEVPOOL_WINDOW;
	__u64 small, large, low, high, bytes;

	small = test_alloc(self->fd, default_pool, 4096);
	large = test_alloc(self->fd, default_pool, 4 * MIB);
	low = (small < large ? small : large) & ~(TEST_PAGE - 1);
	high = (small < large ? large : small) & ~(TEST_PAGE - 1);
	test_err_map(EINVAL, self->fd, large, 1ULL << 46);
	test_err_map(EINVAL, self->fd, small & ~(TEST_PAGE - 1), 1ULL << 46);
	/* From one arena into the other */
	test_err_map(EINVAL, self->fd, low, high - low + TEST_PAGE);
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->index, "clients"));

	/* As large as the range, from its last page on */
	small &= ~(unit - 1);
	for (bytes = 0; !devpool_map_fails(self->fd, small + bytes, TEST_PAGE); bytes += unit)
		;
	test_err_map(EINVAL, self->fd, small + bytes - TEST_PAGE, 2 * TEST_PAGE);
}

TEST_F(mapping, F04_an_address_that_is_none)
{
	__u64 addr;

	test_err_map(ENOENT, self->fd, 0, TEST_PAGE);
	test_err_map(ENOENT, self->fd, TEST_PAGE, TEST_PAGE);
	test_err_map(ENOENT, self->fd, 1ULL << 61, TEST_PAGE);
	test_err_map(ENOENT, self->fd, 1ULL << 62, TEST_PAGE);
	addr = test_alloc(self->fd, default_pool, 4 * MIB);
	test_err_map(ENOENT, self->fd, 0, TEST_PAGE);
	test_err_map(ENOENT, self->fd, addr ^ (1ULL << 61), TEST_PAGE);
	/* Refused before the driver is asked */
	test_err_map(EOVERFLOW, self->fd, -TEST_PAGE, 2 * TEST_PAGE);
	test_err_map(EINVAL, self->fd, addr + 1, TEST_PAGE);
	test_err_map(EINVAL, self->fd, addr, 0);
}

TEST_F(mapping, F04_another_client_s_address)
{
	struct devpool_pool_id id;
	__u64 addr;
	int other;

	other = test_open(self->index);
	addr = test_alloc(other, default_pool, 4 * MIB);
	test_err_map(ENOENT, self->fd, addr, 4 * MIB);
	test_pool_create(other, &id);
	addr = test_alloc(other, id, 4 * MIB);
	test_err_map(ENOENT, self->fd, addr, 4 * MIB);
	test_map(other, addr, 4 * MIB);
	test_err_map(ENOENT, self->fd, addr, 4 * MIB);
}

/* What a client knows it can map, and no longer than it knows it. */
TEST_F(mapping, F04_an_address_of_a_pool_that_is_shared)
{
	struct devpool_pool_id id, same;
	__u64 addr, own;
	int other, pool;
	char *p, *q;

	other = test_open(self->index);
	pool = test_pool_create(other, &id);
	addr = test_alloc(other, id, 4 * MIB);
	test_err_map(ENOENT, self->fd, addr, 4 * MIB);
	test_pool_attach(self->fd, pool, &same);
	p = MAP(addr, 4 * MIB);
	test_fill(p, 4 * MIB, 9);
	/* Its creator's default pool is not shared. */
	test_err_map(ENOENT, self->fd, test_alloc(other, default_pool, 4 * MIB), 4 * MIB);
	own = test_alloc(self->fd, same, 4 * MIB);
	test_pool_put(self->fd, same);
	/* A block of its own, then a route, make it known. */
	munmap(MAP(addr, 4 * MIB), 4 * MIB);
	test_route_begin(self->fd, same, DEVPOOL_SCOPE_ALL);
	test_free(self->fd, own);
	munmap(MAP(addr, 4 * MIB), 4 * MIB);
	test_route_end(self->fd, same, DEVPOOL_SCOPE_ALL);
	test_err_map(ENOENT, self->fd, addr, 4 * MIB);
	/* A mapping that was made stays, and shows what is there. */
	q = test_map(other, addr, 4 * MIB);
	EXPECT_EQ(-1, test_differs(q, 4 * MIB, 9));
	test_fill(q, 4 * MIB, 10);
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 10));
	test_free(other, addr);
	test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(0, touch_none(p, 4 * MIB, SIGBUS));
}

/* Two arenas of two pools, however close they are */
TEST_F(mapping, F04_across_pools)
{
	struct devpool_pool_id id[2];
	__u64 addr[2], low, high;
	int i;

	for (i = 0; i < 2; i++) {
		test_pool_create(self->fd, &id[i]);
		addr[i] = test_alloc(self->fd, id[i], 4 * MIB);
	}
	low = addr[0] < addr[1] ? addr[0] : addr[1];
	high = addr[0] < addr[1] ? addr[1] : addr[0];
	test_err_map(EINVAL, self->fd, low, high - low + TEST_PAGE);
	EXPECT_EQ(0, touch_all(MAP(addr[0], 4 * MIB), 4 * MIB));
}

/* An address whose memory was taken from behind it: a hole like any other */
TEST_F(mapping, F04_an_address_without_memory)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p;

	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, DEVPOOL_EMPTY_KEEP_PHYSICAL, 0);
	p = MAP(addr, 4 * MIB);
	EXPECT_EQ(0, touch_none(p, 4 * MIB, SIGBUS));
	ASSERT_EQ(addr, test_alloc(self->fd, default_pool, 4 * MIB));
	EXPECT_EQ(0, touch_all(p, 4 * MIB));
}

TEST_F(mapping, F04_a_pool_that_is_gone)
{
	struct devpool_pool_id id;
	__u64 addr;
	int pool;

	pool = test_pool_create(self->fd, &id);
	addr = test_alloc(self->fd, id, 4 * MIB);
	close(pool);
	/* Freeable, and known by its block */
	munmap(MAP(addr, 4 * MIB), 4 * MIB);
	test_free(self->fd, addr);
	test_err_map(ENOENT, self->fd, addr, 4 * MIB);
}

TEST_F(mapping, F04_a_pool_file)
{
	struct devpool_pool_id id;
	__u64 addr;
	int pool;

	pool = test_pool_create(self->fd, &id);
	addr = test_alloc(self->fd, id, 4 * MIB);
	test_err_map(ENODEV, pool, addr, 4 * MIB);
	test_err_map(ENODEV, pool, 0, TEST_PAGE);
}

TEST_F(mapping, F04_private)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	int reader;

	EXPECT_MMAP_ERR(EINVAL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, self->fd, addr);
	EXPECT_MMAP_ERR(EINVAL, 4 * MIB, PROT_READ, MAP_PRIVATE, self->fd, addr);
	EXPECT_MMAP_ERR(EINVAL, 4 * MIB, PROT_NONE, MAP_PRIVATE, self->fd, addr);
	reader = devpool_open_node_flags(self->index, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, reader);
	addr = test_alloc(reader, default_pool, 4 * MIB);
	EXPECT_MMAP_ERR(EINVAL, 4 * MIB, PROT_READ, MAP_PRIVATE, reader, addr);
}

TEST_F(mapping, F04_executable)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p;

	EXPECT_MMAP_ERR(EPERM, 4 * MIB, PROT_READ | PROT_EXEC, MAP_SHARED, self->fd, addr);
	EXPECT_MMAP_ERR(EPERM, 4 * MIB, PROT_EXEC, MAP_SHARED, self->fd, addr);
	p = MAP(addr, 4 * MIB);
	EXPECT_EQ(-1, mprotect(p, 4 * MIB, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(0, touch_all(p, 4 * MIB));
}

/* A file opened for reading maps for reading. */
TEST_F(mapping, F04_writable_on_a_file_for_reading)
{
	__u64 addr;
	int reader;
	char *p;

	reader = devpool_open_node_flags(self->index, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, reader);
	addr = test_alloc(reader, default_pool, 4 * MIB);
	EXPECT_MMAP_ERR(EACCES, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED, reader, addr);
	p = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, reader, addr);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(-1, test_not_zero(p, 4 * MIB));
	EXPECT_EQ(SIGSEGV, test_write(p, 1));
	EXPECT_EQ(-1, mprotect(p, 4 * MIB, PROT_READ | PROT_WRITE));
	EXPECT_EQ(EACCES, errno);
}

TEST_F(mapping, F04_mremap_to_grow)
{
	__u64 addr = test_alloc(self->fd, default_pool, 8 * MIB);
	char *p = MAP(addr, 4 * MIB);

	EXPECT_EQ(MAP_FAILED, mremap(p, 4 * MIB, 8 * MIB, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(MAP_FAILED, mremap(p, 4 * MIB, 4 * MIB + TEST_PAGE, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	/* A size of 0 asks for a second mapping. */
	EXPECT_EQ(MAP_FAILED, mremap(p, 0, 4 * MIB, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(0, touch_all(p, 4 * MIB));
}

TEST_F(mapping, F04_mremap_to_shrink_and_move)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);
	char *to, *q;
	int i;

	test_fill(p, 4 * MIB, 9);
	EXPECT_EQ(p, mremap(p, 4 * MIB, 3 * MIB, 0));
	EXPECT_EQ(SIGSEGV, test_touch(p + 3 * MIB));
	to = mmap(NULL, 32 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, to);
	/* To where huge entries are possible, and to where they are not */
	for (i = 0; i < 4; i++) {
		q = (char *)(((uintptr_t)to + (2 + 4 * i) * MIB) & ~(TEST_PMD - 1)) +
		    (i % 2 ? TEST_PAGE : 0);
		ASSERT_EQ(q, mremap(p, 3 * MIB, 3 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, q));
		EXPECT_EQ(SIGSEGV, test_touch(p));
		EXPECT_EQ(-1, test_differs(q, 3 * MIB, 9));
		p = q;
	}
	/* Where it is now it can be taken away, too. */
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(0, touch_none(q, 3 * MIB, SIGBUS));
	close(self->fd);
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->index, "clients"));
	munmap(q, 3 * MIB);
	EXPECT_BASE(self->base, self->index);
}

/* Two mappings that share a huge page's worth of addresses */
TEST_F(mapping, mapped_side_by_side)
{
	__u64 addr = test_alloc(self->fd, default_pool, 6 * MIB);
	char *p = MAP(addr, 6 * MIB);
	char *q;

	test_fill(p, 6 * MIB, 9);
	munmap(p + 3 * MIB, 3 * MIB);
	EXPECT_EQ(-1, test_differs(p, 3 * MIB, 9));
	q = mmap(p + 3 * MIB, 3 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 self->fd, (addr & ~(TEST_PAGE - 1)) + 3 * MIB);
	ASSERT_EQ(p + 3 * MIB, q);
	EXPECT_EQ(-1, test_differs(q, 3 * MIB, 9 + 3 * MIB / 8));
	EXPECT_EQ(-1, test_differs(p, 3 * MIB, 9));
	/* The other way round */
	munmap(p, 6 * MIB);
	p = MAP(addr, 6 * MIB);
	EXPECT_EQ(0, test_touch(p + 5 * MIB));
	q = mmap(p + MIB, 3 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 self->fd, (addr & ~(TEST_PAGE - 1)) + MIB);
	ASSERT_EQ(p + MIB, q);
	EXPECT_EQ(-1, test_differs(p, 6 * MIB, 9));
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(0, touch_none(p, 6 * MIB, SIGBUS));
}

TEST_F(mapping, F04_mprotect)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);

	test_fill(p, 4 * MIB, 9);
	ASSERT_EQ(0, mprotect(p, MIB, PROT_READ));
	EXPECT_EQ(SIGSEGV, test_write(p, 1));
	EXPECT_EQ(0, test_write(p + MIB, 9 + MIB / 8));
	ASSERT_EQ(0, mprotect(p, 4 * MIB, PROT_NONE));
	EXPECT_EQ(0, touch_none(p, 4 * MIB, SIGSEGV));
	ASSERT_EQ(0, mprotect(p, 4 * MIB, PROT_READ | PROT_WRITE));
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 9));
	EXPECT_EQ(0, test_write(p, 9));
}

/* A fault in one part, before and after the mapping was cut there */
TEST_F(mapping, F04_mprotect_before_the_first_touch)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);

	ASSERT_EQ(0, mprotect(p + MIB, MIB, PROT_READ));
	EXPECT_EQ(0, test_write(p, 1));
	EXPECT_EQ(0, test_touch(p + MIB));
	EXPECT_EQ(SIGSEGV, test_write(p + MIB, 1));
	EXPECT_EQ(0, test_write(p + 2 * MIB, 1));
	EXPECT_EQ(0, touch_all(p, 4 * MIB));
	EXPECT_EQ(SIGSEGV, test_write(p + 2 * MIB - 8, 1));
}

TEST_F(mapping, F04_a_forked_child_has_no_mapping)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);
	pid_t pid;

	test_fill(p, 4 * MIB, 9);
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(touch_none(p, 4 * MIB, SIGSEGV));
	EXPECT_EQ(0, test_wait(pid));
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 9));
}

TEST_F(mapping, F04_dofork_is_refused)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);
	pid_t pid;

	test_fill(p, 4 * MIB, 9);
	EXPECT_EQ(-1, madvise(p, 4 * MIB, MADV_DOFORK));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, madvise(p, TEST_PAGE, MADV_DOFORK));
	EXPECT_EQ(EINVAL, errno);
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(touch_none(p, 4 * MIB, SIGSEGV));
	EXPECT_EQ(0, test_wait(pid));
}

/* Whatever it answers, the memory stays. */
TEST_F(mapping, F04_other_advice_is_harmless)
{
	static const int advice[] = {
		MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, MADV_DONTNEED,
		MADV_FREE, MADV_REMOVE, MADV_DONTFORK, MADV_MERGEABLE, MADV_UNMERGEABLE,
		MADV_HUGEPAGE, MADV_NOHUGEPAGE, MADV_DONTDUMP, MADV_DODUMP, MADV_COLD,
		MADV_PAGEOUT, MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_POPULATE_READ,
		MADV_POPULATE_WRITE,
#ifdef MADV_COLLAPSE
		MADV_COLLAPSE,
#endif
	};
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);
	int i;

	test_fill(p, 4 * MIB, 9);
	for (i = 0; i < ARRAY_SIZE(advice); i++) {
		madvise(p, 4 * MIB, advice[i]);
		EXPECT_EQ(-1, test_differs(p, 4 * MIB, 9))
			TH_LOG("advice %d", advice[i]);
	}
	mlock(p, 4 * MIB);
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 9));
	munlock(p, 4 * MIB);
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 9));
}

TEST_F(mapping, F04_populate_and_lock)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p;

	p = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_POPULATE | MAP_LOCKED, self->fd, addr);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(0, touch_all(p, 4 * MIB));
}

/* What the kernel itself says of the mapping */
TEST_F(mapping, F04_flags)
{
	static const char set[][4] = { " pf", " dc", " de", " dd", " io", " sh" };
	static const char unset[][4] = { " ex", " me", " mm" };
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);
	bool ours = false;
	char line[256];
	char head[32];
	FILE *f;
	int i;

	snprintf(head, sizeof(head), "%lx-", (unsigned long)p);
	f = fopen("/proc/self/smaps", "re");
	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, head, strlen(head)))
			ours = true;
		if (ours && !strncmp(line, "VmFlags:", 8))
			break;
	}
	fclose(f);
	ASSERT_EQ(0, strncmp(line, "VmFlags:", 8));
	for (i = 0; i < ARRAY_SIZE(set); i++)
		EXPECT_NE(NULL, strstr(line, set[i]))
			TH_LOG("no%s: %s", set[i], line);
	for (i = 0; i < ARRAY_SIZE(unset); i++)
		EXPECT_EQ(NULL, strstr(line, unset[i]))
			TH_LOG("%s: %s", unset[i], line);
}

/* A debugger's way to it */
TEST_F(mapping, readable_through_proc)
{
	__u64 addr = test_alloc(self->fd, default_pool, 6 * MIB);
	char *p = MAP(addr, 6 * MIB);
	__u64 words[1024];
	__u64 value = 77;
	int mem;
	int i;

	/* Also where nothing was touched yet */
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, mem);
	ASSERT_EQ(sizeof(words), pread(mem, words, sizeof(words), (uintptr_t)p + 4 * MIB));
	EXPECT_EQ(-1, test_not_zero(words, sizeof(words)));
	test_fill(p, 6 * MIB, 9);
	/* Across a page, and across a chunk */
	ASSERT_EQ(sizeof(words), pread(mem, words, sizeof(words), (uintptr_t)p + 2048));
	EXPECT_EQ(-1, test_differs(words, sizeof(words), 9 + 2048 / 8));
	ASSERT_EQ(sizeof(words), pread(mem, words, sizeof(words), (uintptr_t)p + 2 * MIB - 2048));
	EXPECT_EQ(-1, test_differs(words, sizeof(words), 9 + (2 * MIB - 2048) / 8));
	ASSERT_EQ(sizeof(value), pwrite(mem, &value, sizeof(value), (uintptr_t)p + 3 * MIB));
	EXPECT_EQ(77, *(volatile __u64 *)(p + 3 * MIB));
	/* No more than there is */
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	for (i = 0; i < 3; i++) {
		errno = 0;
		EXPECT_EQ(-1, pread(mem, words, sizeof(words), (uintptr_t)p + i * 2 * MIB));
		EXPECT_EQ(EIO, errno);
	}
	EXPECT_EQ(-1, pwrite(mem, &value, sizeof(value), (uintptr_t)p));
	EXPECT_EQ(EIO, errno);
}

TEST_F(mapping, readable_through_proc_up_to_a_hole)
{
	__u64 unit = self->chunk > DEVPOOL_WINDOW ? self->chunk : DEVPOOL_WINDOW;
	__u64 addr, start, words[1024];
	char *p;
	int mem;

	addr = test_alloc(self->fd, default_pool, 2 * MIB);
	start = addr / unit * unit;
	p = MAP(start, unit);
	p += addr - start;
	test_fill(p, 2 * MIB, 9);
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, mem);
	EXPECT_EQ(2048, pread(mem, words, sizeof(words), (uintptr_t)p + 2 * MIB - 2048));
	EXPECT_EQ(-1, test_differs(words, 2048, 9 + (2 * MIB - 2048) / 8));
}

/* What was opened for reading is not written by a detour. */
TEST_F(mapping, a_read_only_mapping_stays_so_through_proc)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);
	__u64 word = 77;
	char *q;
	int mem;

	test_fill(p, 4 * MIB, 9);
	q = mmap(NULL, 4 * MIB, PROT_READ, MAP_SHARED, self->fd, addr);
	ASSERT_NE(MAP_FAILED, q);
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, mem);
	EXPECT_EQ(-1, pwrite(mem, &word, sizeof(word), (uintptr_t)q));
	EXPECT_EQ(EIO, errno);
	EXPECT_EQ(sizeof(word), pread(mem, &word, sizeof(word), (uintptr_t)q));
	EXPECT_EQ(-1, test_differs(&word, sizeof(word), 9));
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 9));
}

/* Nobody takes references on such pages. */
TEST_F(mapping, pages_are_not_to_be_had)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);
	struct iovec local, remote;
	int pipefd[2];
	char byte;

	test_fill(p, 4 * MIB, 9);
	local = (struct iovec){ .iov_base = &byte, .iov_len = 1 };
	remote = (struct iovec){ .iov_base = p, .iov_len = 1 };
	EXPECT_EQ(-1, process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
	EXPECT_EQ(EFAULT, errno);
	ASSERT_EQ(0, pipe(pipefd));
	remote.iov_len = TEST_PAGE;
	EXPECT_EQ(-1, vmsplice(pipefd[1], &remote, 1, 0));
	EXPECT_EQ(EFAULT, errno);
}

/* Copying is fine. */
TEST_F(mapping, read_and_write_work_on_it)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = MAP(addr, 4 * MIB);
	int pipefd[2];

	test_fill(p, 4096, 9);
	ASSERT_EQ(0, pipe(pipefd));
	ASSERT_EQ(4096, write(pipefd[1], p, 4096));
	ASSERT_EQ(4096, read(pipefd[0], p + 2 * MIB, 4096));
	EXPECT_EQ(-1, test_differs(p + 2 * MIB, 4096, 9));
	/* A hole is no place to read to. */
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(-1, write(pipefd[1], p, 4096));
	EXPECT_EQ(EFAULT, errno);
}

/* One node can have several inodes: revocation reaches them all. */
TEST_F(mapping, another_inode_of_the_node)
{
	struct stat st;
	__u64 addr;
	char *p;
	int fd;

	ASSERT_EQ(0, fstat(self->fd, &st));
	ASSERT_EQ(0, mknod("/tmp/devpool-test", S_IFCHR | 0600, st.st_rdev));
	fd = open("/tmp/devpool-test", O_RDWR | O_CLOEXEC);
	unlink("/tmp/devpool-test");
	ASSERT_LE(0, fd);
	addr = test_alloc(fd, default_pool, 4 * MIB);
	p = devpool_map_at_raw(fd, addr, 4 * MIB, variant->congruent);
	ASSERT_NE(NULL, p);
	test_fill(p, 4 * MIB, 1);
	test_free(fd, addr);
	test_empty_cache(fd, default_pool, 0, 0);
	EXPECT_EQ(0, touch_none(p, 4 * MIB, SIGBUS));
}

/* A device without memory: it maps, and there is nothing to touch. */

FIXTURE(nothing)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_SETUP(nothing)
{
	test_setup(self, TEST_NULL);
	test_catch();
}

FIXTURE_TEARDOWN(nothing)
{
}

TEST_F(nothing, touching_is_a_bus_error)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);
	char *p = test_map(self->fd, addr, 4 * MIB);
	__u64 word;
	int mem;

	EXPECT_EQ(0, touch_none(p, 4 * MIB, SIGBUS));
	EXPECT_EQ(SIGBUS, test_write(p, 1));
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, mem);
	EXPECT_EQ(-1, pread(mem, &word, sizeof(word), (uintptr_t)p));
	EXPECT_EQ(EIO, errno);
	test_free(self->fd, addr);
}

TEST_HARNESS_MAIN
