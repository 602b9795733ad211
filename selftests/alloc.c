// SPDX-License-Identifier: GPL-2.0-only
/*
 * ALLOC and FREE: sizes, places, what is counted, and that a request is served
 * as long as there is memory.
 */
#include "devpool_test.h"

FIXTURE(alloc)
{
	struct devpool_info info;
	struct test_base base;
	__u64 chunk;
	int index;
	int fd;
};

FIXTURE_VARIANT(alloc)
{
	enum test_kind kind;
};

FIXTURE_VARIANT_ADD(alloc, sysmem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(alloc, null) { .kind = TEST_NULL };

FIXTURE_SETUP(alloc)
{
	test_setup(self, variant->kind);
	self->chunk = self->info.out_chunk;
}

FIXTURE_TEARDOWN(alloc)
{
	close(self->fd);
}

TEST_F(alloc, A08_one_byte_and_back)
{
	struct devpool_pool_stat stat;
	__u64 addr, again, bytes;

	ASSERT_EQ(0, devpool_alloc_align_raw(self->fd, default_pool, 1, 0, &addr, &bytes));
	EXPECT_EQ(512, bytes);
	stat = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(512, stat.out_allocated.current);
	EXPECT_EQ(1, stat.out_requested.current);
	EXPECT_EQ(512, stat.out_active.current);
	EXPECT_EQ(self->chunk, stat.out_resident.current);
	EXPECT_EQ(1, stat.out_blocks.current);
	EXPECT_EQ(1, stat.out_grows);

	test_free(self->fd, addr);
	stat = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(0, stat.out_allocated.current);
	EXPECT_EQ(0, stat.out_requested.current);
	EXPECT_EQ(0, stat.out_active.current);
	EXPECT_EQ(self->chunk, stat.out_resident.current);
	EXPECT_EQ(0, stat.out_blocks.current);

	again = test_alloc(self->fd, default_pool, 1);
	EXPECT_EQ(addr, again);
	stat = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(1, stat.out_requested.current);
	EXPECT_EQ(2, stat.out_requested.in);
	EXPECT_EQ(1, stat.out_requested.out);
	EXPECT_EQ(1, stat.out_requested.peak);
	EXPECT_EQ(1, stat.out_hits);
	EXPECT_EQ(1, stat.out_grows);
}

static const struct {
	__u64 bytes;
	int err;
} impossible[] = {
	{ 800000000ULL * GIB, ENOSPC },
	{ (1ULL << 60) + 1, ENOSPC },
	{ -1ULL, EINVAL },
	{ 0, EINVAL },
};

TEST_F(alloc, A09_sizes_that_cannot_be)
{
	struct devpool_pool_stat before;
	int i;

	test_alloc(self->fd, default_pool, 3 * MIB);
	for (i = 0; i < ARRAY_SIZE(impossible); i++) {
		before = test_pool_stat(self->fd, default_pool);
		test_err_alloc(impossible[i].err, self->fd, default_pool, impossible[i].bytes);
		if (impossible[i].err == ENOSPC)
			before.out_ooms++;
		EXPECT_SAME(before, test_pool_stat(self->fd, default_pool));
		test_free(self->fd, test_alloc(self->fd, default_pool, MIB));
	}
}

/* The last size that can be rounded up, and the first that cannot */
TEST_F(alloc, A09_sizes_that_overflow)
{
	test_err_alloc(ENOSPC, self->fd, default_pool, -TEST_PAGE);
	test_err_alloc(EINVAL, self->fd, default_pool, -TEST_PAGE + 1);
	test_err_alloc(ENOSPC, self->fd, default_pool, 1ULL << 63);
	test_err_alloc(ENOSPC, self->fd, default_pool, (1ULL << 63) - 1);
}

TEST_F(alloc, A09_more_than_the_device)
{
	test_err_alloc(ENOSPC, self->fd, default_pool, self->info.out_bytes + 1);
	test_err_alloc(ENOSPC, self->fd, default_pool, self->info.out_bytes + self->chunk);
	EXPECT_EQ(0, test_pool_stat(self->fd, default_pool).out_resident.peak);
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
}

/* FREE of what is not a live block of this client: ENOENT, and no change */
#define test_free_refused(fd, addr)						\
do {										\
	struct devpool_pool_stat _before = test_pool_stat(fd, default_pool);	\
	struct devpool_stats _all = test_stats(fd);				\
										\
	test_err_free(ENOENT, fd, addr);					\
	EXPECT_SAME(_before, test_pool_stat(fd, default_pool));			\
	EXPECT_SAME(_all, test_stats(fd));					\
} while (0)

TEST_F(alloc, A10_free_twice)
{
	__u64 small = test_alloc(self->fd, default_pool, 4096);
	__u64 large = test_alloc(self->fd, default_pool, 4 * MIB);

	test_free(self->fd, small);
	test_free_refused(self->fd, small);
	test_free(self->fd, large);
	test_free_refused(self->fd, large);
}

TEST_F(alloc, A10_free_of_an_interior_address)
{
	__u64 small = test_alloc(self->fd, default_pool, 64 * KIB);
	__u64 large = test_alloc(self->fd, default_pool, 4 * MIB);

	test_free_refused(self->fd, small + 1);
	test_free_refused(self->fd, small + 512);
	test_free_refused(self->fd, small + 4096);
	test_free_refused(self->fd, small + 64 * KIB);
	test_free_refused(self->fd, small - 1);
	test_free_refused(self->fd, large + 4096);
	test_free_refused(self->fd, large + self->chunk);
	test_free_refused(self->fd, large + 4 * MIB);
	test_free(self->fd, small);
	test_free(self->fd, large);
}

TEST_F(alloc, A10_free_of_another_client_s_block)
{
	struct devpool_pool_stat before;
	__u64 theirs, ours;
	int other;

	other = test_open(self->index);
	theirs = test_alloc(other, default_pool, 4096);
	ours = test_alloc(self->fd, default_pool, 4096);
	EXPECT_NE(theirs, ours);
	before = test_pool_stat(other, default_pool);
	test_free_refused(self->fd, theirs);
	EXPECT_SAME(before, test_pool_stat(other, default_pool));
	test_free(other, theirs);
	test_free(self->fd, ours);
}

TEST_F(alloc, A10_free_of_a_cached_block)
{
	__u64 addr[3];
	int i;

	for (i = 0; i < 3; i++)
		addr[i] = test_alloc(self->fd, default_pool, 2 * MIB);
	/* The second becomes the middle of a free run. */
	for (i = 0; i < 3; i++)
		test_free(self->fd, addr[i]);
	for (i = 0; i < 3; i++)
		test_free_refused(self->fd, addr[i]);
}

TEST_F(alloc, A10_free_of_what_never_was)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4096);

	test_free_refused(self->fd, 0);
	test_free_refused(self->fd, -1ULL);
	test_free_refused(self->fd, 1ULL << 63);
	test_free_refused(self->fd, 1ULL << 62);
	test_free_refused(self->fd, addr + GIB);
	test_free_refused(self->fd, addr ^ TIB);
}

TEST_F(alloc, A10_free_of_a_flushed_block)
{
	__u64 addr = test_alloc(self->fd, default_pool, 4 * MIB);

	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	test_free_refused(self->fd, addr);
}

static const struct {
	__u64 bytes;
	__u64 block;
	__u64 resident;
} worked[] = {
	{ 1, 512, 2 * MIB },
	{ 512, 512, 2 * MIB },
	{ MIB, MIB, 2 * MIB },
	{ MIB + 1, MIB + 4 * KIB, 2 * MIB },
	{ 2 * MIB, 2 * MIB, 2 * MIB },
	{ 10 * MIB, 10 * MIB, 10 * MIB },
	{ 16 * MIB, 16 * MIB, 16 * MIB },
	{ 20 * MIB, 20 * MIB, 20 * MIB },
	{ GIB, GIB, GIB },
	{ 10 * MIB + 512, 10 * MIB + 4 * KIB, 12 * MIB },
};

/* The table of DESIGN section 4 */
TEST_F(alloc, A11_worked_sizes)
{
	struct devpool_pool_stat stat;
	struct devpool_pool_id id;
	__u64 addr, got;
	int pool;
	int i;

	if (self->chunk != 2 * MIB)
		SKIP(return, "the table is for chunks of 2 MiB");
	for (i = 0; i < ARRAY_SIZE(worked); i++) {
		if (worked[i].resident > self->info.out_bytes)
			continue;
		pool = test_pool_create(self->fd, &id);
		ASSERT_EQ(0, devpool_alloc_align_raw(self->fd, id, worked[i].bytes, 0,
						     &addr, &got));
		stat = test_pool_stat(pool, default_pool);
		EXPECT_EQ(worked[i].block, got);
		EXPECT_EQ(worked[i].block, stat.out_allocated.current);
		EXPECT_EQ(worked[i].bytes, stat.out_requested.current);
		EXPECT_EQ(worked[i].resident, stat.out_resident.current)
			TH_LOG("%llu bytes", worked[i].bytes);
		EXPECT_EQ(worked[i].resident / self->chunk, stat.out_grows);
		EXPECT_EQ(worked[i].resident, devpool_sysfs(self->index, "used"));
		test_free(self->fd, addr);
		close(pool);
	}
}

TEST_F(alloc, A11_a_larger_request_extends_what_is_free)
{
	struct devpool_pool_stat stat;

	test_free(self->fd, test_alloc(self->fd, default_pool, 60 * MIB));
	test_alloc(self->fd, default_pool, 70 * MIB);
	stat = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(70 * MIB, stat.out_resident.current);
	EXPECT_EQ(70 * MIB, stat.out_resident.peak);
	EXPECT_EQ(70 * MIB / self->chunk, stat.out_grows);
	EXPECT_EQ(70 * MIB, devpool_sysfs(self->index, "used"));
}

TEST_F(alloc, A16_what_is_free_here_and_there_serves_a_large_request)
{
	struct devpool_pool_stat stat;
	__u64 addr[3];
	int i;

	for (i = 0; i < 3; i++)
		addr[i] = test_alloc(self->fd, default_pool, 20 * MIB);
	test_free(self->fd, addr[0]);
	test_free(self->fd, addr[2]);
	test_alloc(self->fd, default_pool, 40 * MIB);
	stat = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(60 * MIB, stat.out_resident.current);
	EXPECT_EQ(60 * MIB, stat.out_resident.peak);
	EXPECT_EQ(60 * MIB, stat.out_allocated.current);
	EXPECT_EQ(60 * MIB / self->chunk, stat.out_grows);
	/* At least what had to move, at most all that was free */
	EXPECT_LE(20 * MIB / self->chunk, stat.out_recycles);
	EXPECT_GE(40 * MIB / self->chunk, stat.out_recycles);
	EXPECT_EQ(0, stat.out_reclaims);
	/* The one in between stays what it was. */
	test_free(self->fd, addr[1]);
}

/* Blocks of up to 1 MiB share chunks with each other, never with larger ones. */
TEST_F(alloc, small_and_large_blocks_share_no_chunk)
{
	__u64 small, large;

	small = test_alloc(self->fd, default_pool, 512);
	large = test_alloc(self->fd, default_pool, MIB + 1);
	EXPECT_EQ(2 * self->chunk, test_resident(self->fd, default_pool));
	EXPECT_NE(small / self->chunk, large / self->chunk);
	EXPECT_EQ(small / self->chunk,
		  test_alloc(self->fd, default_pool, 512) / self->chunk);
}

TEST_F(alloc, small_blocks_share_a_chunk)
{
	__u64 n = self->chunk / 512;
	__u64 addr;
	__u64 i;

	addr = test_alloc(self->fd, default_pool, 1);
	for (i = 1; i < n; i++)
		EXPECT_EQ(addr / self->chunk,
			  test_alloc(self->fd, default_pool, 1) / self->chunk);
	EXPECT_EQ(self->chunk, test_resident(self->fd, default_pool));
	test_alloc(self->fd, default_pool, 1);
	EXPECT_EQ(2 * self->chunk, test_resident(self->fd, default_pool));
}

TEST_F(alloc, every_alignment)
{
	static const __u64 sizes[] = { 1, 4096, MIB, MIB + 1, 4 * MIB };
	__u64 align, addr;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (align = 1; align <= self->chunk; align *= 2) {
			/* So that the next free address has none by chance */
			test_alloc(self->fd, default_pool, sizes[i] <= MIB ? 512 : MIB + 1);
			addr = test_alloc_align(self->fd, default_pool, sizes[i], align);
			EXPECT_EQ(0, addr % align)
				TH_LOG("%llu bytes at %llx, align %llx", sizes[i], addr, align);
			EXPECT_EQ(0, addr % (sizes[i] <= MIB ? 512 : TEST_PAGE));
		}
	}
	EXPECT_POOL_SOUND(test_pool_stat(self->fd, default_pool));
}

/* Those that were freed last, the last one first */
TEST_F(alloc, what_was_freed_last_fits_best)
{
	__u64 addr[300];
	int i;

	for (i = 0; i < ARRAY_SIZE(addr); i++)
		addr[i] = test_alloc(self->fd, default_pool, 4 * KIB);
	for (i = 0; i < ARRAY_SIZE(addr); i += 3)
		test_free(self->fd, addr[i]);
	for (i -= 3; i >= ARRAY_SIZE(addr) - 100; i -= 3)
		EXPECT_EQ(addr[i], test_alloc(self->fd, default_pool, 4 * KIB));
	EXPECT_POOL_SOUND(test_pool_stat(self->fd, default_pool));
}

TEST_F(alloc, what_was_freed_last_but_not_aligned)
{
	__u64 x, y;

	test_alloc(self->fd, default_pool, 512);
	x = test_alloc(self->fd, default_pool, 4 * KIB);
	ASSERT_NE(0, x % (4 * KIB));
	test_free(self->fd, x);
	y = test_alloc_align(self->fd, default_pool, 4 * KIB, 4 * KIB);
	EXPECT_EQ(0, y % (4 * KIB));
}

/* For whatever else they are one block with what is around them. */
TEST_F(alloc, what_was_freed_last_is_joined)
{
	__u64 addr[600], x;
	int i;

	for (i = 0; i < ARRAY_SIZE(addr); i++)
		addr[i] = test_alloc(self->fd, default_pool, 512);
	for (i = 0; i < ARRAY_SIZE(addr); i++)
		test_free(self->fd, addr[i]);
	x = test_alloc(self->fd, default_pool, 600 * 512);
	EXPECT_EQ(addr[0], x);
	test_free(self->fd, x);
	EXPECT_EQ(self->chunk, test_resident(self->fd, default_pool));
	x = test_alloc(self->fd, default_pool, 512);
	test_free(self->fd, x);
	EXPECT_EQ(self->chunk, test_empty_cache(self->fd, default_pool, 0, 0).out_freed);
}

TEST_F(alloc, an_alignment_is_a_power_of_two_up_to_the_chunk)
{
	static const __u64 bad[] = { 3, 5, 511, 513, 6 * KIB, (1ULL << 63) + 1, -1ULL };
	struct devpool_pool_stat before = test_pool_stat(self->fd, default_pool);
	__u64 addr;
	int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(-EINVAL, devpool_alloc_align_raw(self->fd, default_pool, 1, bad[i],
							   &addr, NULL));
	EXPECT_EQ(-EINVAL, devpool_alloc_align_raw(self->fd, default_pool, 1, 2 * self->chunk,
						   &addr, NULL));
	EXPECT_EQ(-EINVAL, devpool_alloc_align_raw(self->fd, default_pool, 1, self->chunk - 1,
						   &addr, NULL));
	EXPECT_EQ(-EINVAL, devpool_alloc_align_raw(self->fd, default_pool, 1, self->chunk + 1,
						   &addr, NULL));
	EXPECT_EQ(-EINVAL, devpool_alloc_align_raw(self->fd, default_pool, 1, 1ULL << 63,
						   &addr, NULL));
	EXPECT_SAME(before, test_pool_stat(self->fd, default_pool));
}

/* The smallest free run that fits, the lowest address among equals */
TEST_F(alloc, best_fit)
{
	static const __u64 sizes[] = { 8 * MIB, 4 * MIB, 4 * MIB, 6 * MIB };
	__u64 addr[ARRAY_SIZE(sizes)];
	struct devpool_pool_stat stat;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		addr[i] = test_alloc(self->fd, default_pool, sizes[i]);
		/* keeps them apart */
		test_alloc(self->fd, default_pool, MIB + 4 * KIB);
	}
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		test_free(self->fd, addr[i]);
	stat = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(addr[1] < addr[2] ? addr[1] : addr[2],
		  test_alloc(self->fd, default_pool, 3 * MIB));
	EXPECT_EQ(addr[1] < addr[2] ? addr[2] : addr[1],
		  test_alloc(self->fd, default_pool, 4 * MIB));
	EXPECT_EQ(addr[3], test_alloc(self->fd, default_pool, 4 * MIB));
	EXPECT_EQ(addr[0], test_alloc(self->fd, default_pool, 8 * MIB));
	EXPECT_EQ(stat.out_hits + 4, test_pool_stat(self->fd, default_pool).out_hits);
	EXPECT_EQ(stat.out_resident.current, test_resident(self->fd, default_pool));
}

TEST_F(alloc, free_neighbours_become_one)
{
	static const int order[] = { 3, 0, 2, 1, 4 };
	__u64 addr[ARRAY_SIZE(order)];
	__u64 low = -1ULL;
	int round, i;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < ARRAY_SIZE(order); i++) {
			addr[i] = test_alloc(self->fd, default_pool, 2 * MIB + 4 * KIB);
			low = addr[i] < low ? addr[i] : low;
		}
		for (i = 0; i < ARRAY_SIZE(order); i++)
			test_free(self->fd, addr[order[i]]);
		EXPECT_EQ(low, test_alloc(self->fd, default_pool, 10 * MIB + 20 * KIB));
		test_free(self->fd, low);
	}
	EXPECT_EQ(round_to(10 * MIB + 20 * KIB, self->chunk),
		  test_pool_stat(self->fd, default_pool).out_resident.peak);
}

/* As torch's allocators: what a block was split off from is whole again. */
TEST_F(alloc, small_neighbours_become_one)
{
	__u64 addr[64];
	int i;

	for (i = 0; i < ARRAY_SIZE(addr); i++)
		addr[i] = test_alloc(self->fd, default_pool, 16 * KIB);
	for (i = 0; i < ARRAY_SIZE(addr); i += 2)
		test_free(self->fd, addr[i]);
	for (i = 1; i < ARRAY_SIZE(addr); i += 2)
		test_free(self->fd, addr[i]);
	EXPECT_EQ(addr[0], test_alloc(self->fd, default_pool, MIB));
	EXPECT_EQ(self->chunk, test_resident(self->fd, default_pool));
}

TEST_F(alloc, a_hit_takes_nothing_from_the_device)
{
	struct devpool_pool_stat before, after;
	__u64 addr;
	int i;

	addr = test_alloc(self->fd, default_pool, 6 * MIB);
	test_free(self->fd, addr);
	before = test_pool_stat(self->fd, default_pool);
	for (i = 0; i < 100; i++) {
		EXPECT_EQ(addr, test_alloc(self->fd, default_pool, 6 * MIB));
		test_free(self->fd, addr);
	}
	after = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(before.out_hits + 100, after.out_hits);
	EXPECT_EQ(before.out_grows, after.out_grows);
	EXPECT_EQ(before.out_recycles, after.out_recycles);
	EXPECT_EQ(before.out_allocated.in + 600 * MIB, after.out_allocated.in);
	EXPECT_EQ(before.out_blocks.out + 100, after.out_blocks.out);
	EXPECT_EQ(1, after.out_blocks.peak);
	EXPECT_EQ(0, memcmp(&before.out_resident, &after.out_resident,
			    sizeof(before.out_resident)));
}

/*
 * What is always true, after every step of a life with three pools and a
 * second client: resident >= active >= allocated >= requested, current is in
 * minus out, and a client is the sum of its pools.
 */
#define SOUND()									\
do {										\
	struct devpool_pool_stat _stat[3];					\
	struct devpool_stats _all;						\
	int _k, _c;								\
										\
	step++;									\
	for (_k = 0; _k < 3; _k++) {						\
		_stat[_k] = test_pool_stat(self->fd, id[_k]);			\
		EXPECT_POOL_SOUND(_stat[_k]);					\
		EXPECT_EQ(0, _stat[_k].out_resident.current % self->chunk);	\
		EXPECT_EQ(_stat[_k].out_allocated.current,			\
			  _stat[_k].out_active.current);			\
		EXPECT_EQ(0, _stat[_k].out_spare.peak);				\
	}									\
	_all = test_stats(self->fd);						\
	EXPECT_CLIENT_SOUND(_all, _stat, 3);					\
	/* All three pools are as old as the client: so sums are sums. */	\
	for (_c = 0; _c < TEST_COUNTERS; _c++) {				\
		EXPECT_EQ((&_stat[0].out_allocated)[_c].in +			\
			  (&_stat[1].out_allocated)[_c].in +			\
			  (&_stat[2].out_allocated)[_c].in,			\
			  (&_all.out_allocated)[_c].in)				\
			TH_LOG("counter %d", _c);				\
		EXPECT_GE((&_stat[0].out_allocated)[_c].peak +			\
			  (&_stat[1].out_allocated)[_c].peak +			\
			  (&_stat[2].out_allocated)[_c].peak,			\
			  (&_all.out_allocated)[_c].peak)			\
			TH_LOG("counter %d", _c);				\
	}									\
	for (_c = 0; _c < TEST_EVENTS; _c++)					\
		EXPECT_EQ((&_stat[0].out_hits)[_c] + (&_stat[1].out_hits)[_c] +	\
			  (&_stat[2].out_hits)[_c],				\
			  (&_all.out_hits)[_c])					\
			TH_LOG("event %d", _c);					\
	EXPECT_EQ(_all.out_resident.current + test_stats(other).out_resident.current, \
		  devpool_sysfs(self->index, "used"));				\
	if (_metadata->exit_code)						\
		TH_LOG("step %d", step);					\
} while (0)

TEST_F(alloc, always_true_at_every_step)
{
	struct devpool_pool_id id[3] = {};
	int step = 0;
	__u64 a[8];
	int other;
	int p, q;
	int i;

	other = test_open(self->index);
	test_alloc(other, default_pool, 3 * MIB);
	p = test_pool_create(self->fd, &id[1]);
	q = test_pool_create(self->fd, &id[2]);
	SOUND();
	for (i = 0; i < 6; i++) {
		a[i] = test_alloc(self->fd, id[i % 3], i % 2 ? 5 * MIB + i : 100 * KIB + i);
		SOUND();
	}
	test_err_alloc(ENOSPC, self->fd, id[1], self->info.out_bytes + 1);
	SOUND();
	test_err_alloc(EINVAL, self->fd, id[1], 0);
	SOUND();
	test_err_free(ENOENT, self->fd, a[0] + 1);
	SOUND();
	for (i = 0; i < 6; i += 2) {
		test_free(self->fd, a[i]);
		SOUND();
	}
	/* hits, recycles, grows */
	a[0] = test_alloc(self->fd, id[0], 1);
	SOUND();
	test_free(self->fd, a[1]);
	SOUND();
	a[1] = test_alloc(self->fd, id[1], 9 * MIB);
	SOUND();
	a[2] = test_alloc(self->fd, id[1], 2 * MIB);
	SOUND();
	a[6] = test_alloc(self->fd, id[1], 3 * MIB);
	SOUND();
	a[7] = test_alloc(self->fd, id[1], 5 * MIB);
	SOUND();
	test_free(self->fd, a[2]);
	SOUND();
	test_free(self->fd, a[7]);
	SOUND();
	a[2] = test_alloc(self->fd, id[1], 7 * MIB);
	SOUND();
	test_empty_cache(self->fd, id[1], 0, 0);
	SOUND();
	test_empty_cache(self->fd, id[1], DEVPOOL_EMPTY_TRIM, 0);
	SOUND();
	test_empty_cache(q, default_pool, DEVPOOL_EMPTY_TRIM, 2 * MIB);
	SOUND();
	test_empty_cache(self->fd, default_pool, 0, 0);
	SOUND();
	test_free(self->fd, a[3]);
	SOUND();
	test_free(self->fd, a[5]);
	SOUND();
	test_free(self->fd, a[6]);
	SOUND();
	test_free(self->fd, a[0]);
	SOUND();
	test_empty_cache(self->fd, default_pool, DEVPOOL_EMPTY_TRIM, 0);
	SOUND();
	test_free(self->fd, a[1]);
	SOUND();
	test_free(self->fd, a[2]);
	SOUND();
	test_empty_cache(p, default_pool, DEVPOOL_EMPTY_TRIM, 0);
	SOUND();
	test_empty_cache(q, default_pool, DEVPOOL_EMPTY_TRIM, 0);
	SOUND();
	EXPECT_EQ(0, test_stats(self->fd).out_resident.current);
	EXPECT_EQ(0, test_stats(self->fd).out_allocated.current);
	close(p);
	close(q);
}

/* What a client did in a pool that is gone is not forgotten. */
TEST_F(alloc, a_client_s_sums_outlive_its_pools)
{
	struct devpool_stats before, after;
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	before = test_stats(self->fd);
	close(pool);
	test_err_pool_stat(ENOENT, self->fd, id);
	after = test_stats(self->fd);
	EXPECT_EQ(0, after.out_resident.current);
	EXPECT_EQ(before.out_resident.in, after.out_resident.in);
	EXPECT_EQ(before.out_resident.peak, after.out_resident.peak);
	EXPECT_EQ(before.out_allocated.in, after.out_allocated.in);
	EXPECT_EQ(before.out_blocks.out, after.out_blocks.out);
	EXPECT_EQ(before.out_hits, after.out_hits);
	EXPECT_EQ(before.out_grows, after.out_grows);
}

/* A client's resident peak is its own, not the sum of its pools'. */
TEST_F(alloc, a_client_s_resident_peak_is_exact)
{
	struct devpool_pool_id id;
	int i;

	for (i = 0; i < 4; i++) {
		int pool = test_pool_create(self->fd, &id);

		test_alloc(self->fd, default_pool, 2 * MIB);
		test_free(self->fd, test_alloc(self->fd, id, 10 * MIB));
		close(pool);
	}
	EXPECT_EQ(8 * MIB, test_stats(self->fd).out_resident.current);
	EXPECT_EQ(18 * MIB, test_stats(self->fd).out_resident.peak);
	EXPECT_EQ(48 * MIB, test_stats(self->fd).out_resident.in);
}

/* Requests as large as the device, on one that can be used up */

FIXTURE(full)
{
	struct devpool_info info;
	struct test_base base;
	__u64 chunk;
	__u64 cap;
	int index;
	int fd;
};

FIXTURE_SETUP(full)
{
	test_setup(self, TEST_SMALL);
	self->chunk = self->info.out_chunk;
	self->cap = self->info.out_bytes;
	if (self->cap > 256 * MIB)
		SKIP(return, "no sysmem device is small enough");
	if (self->cap / self->chunk < 32)
		SKIP(return, "a device of 32 chunks is wanted");
}

FIXTURE_TEARDOWN(full)
{
	close(self->fd);
}

/* n eightieths of the device: so that 80 is all of it, as in the cases */
#define PART(n) (self->cap * (n) / 80 / self->chunk * self->chunk)

TEST_F(full, A01_a_live_pool_s_cache_counts_for_its_next_request)
{
	struct devpool_pool_stat stat;
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, PART(60)));
	test_alloc(self->fd, id, PART(70));
	stat = test_pool_stat(pool, default_pool);
	EXPECT_EQ(PART(70), stat.out_resident.current);
	EXPECT_EQ(PART(70), stat.out_resident.peak);
	EXPECT_EQ(PART(70), devpool_sysfs(self->index, "used"));
}

TEST_F(full, A02_the_default_pool_s_cache_serves_another_pool)
{
	struct devpool_pool_stat was, stat;
	struct devpool_pool_id id;

	test_free(self->fd, test_alloc(self->fd, default_pool, PART(60)));
	test_pool_create(self->fd, &id);
	was = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(PART(60), was.out_resident.current);
	test_alloc(self->fd, id, PART(60));
	stat = test_pool_stat(self->fd, id);
	EXPECT_EQ(PART(60), stat.out_resident.current);
	EXPECT_LE((2 * PART(60) - self->cap) / self->chunk, stat.out_reclaims);
	EXPECT_GE(self->cap, test_stats(self->fd).out_resident.peak);
	EXPECT_GE(self->cap - PART(60), test_resident(self->fd, default_pool));
}

/* 11.4 MiB and the like are a quarter of the case's. */
TEST_F(full, A04_small_ones_out_of_the_hole_of_a_big_one)
{
	static const __u64 small[] = { 4224 * KIB, 4224 * KIB, 2920 * KIB, 4660 * KIB };
	__u64 sum = 0;
	__u64 big;
	int i;

	for (i = 0; i < ARRAY_SIZE(small); i++)
		sum += small[i];
	big = self->cap - round_to(sum, self->chunk);
	test_free(self->fd, test_alloc(self->fd, default_pool, big));
	for (i = 0; i < ARRAY_SIZE(small); i++)
		test_alloc(self->fd, default_pool, small[i]);
	EXPECT_EQ(big, test_resident(self->fd, default_pool));
	test_alloc(self->fd, default_pool, big);
	EXPECT_EQ(self->cap, test_resident(self->fd, default_pool));
}

/* Every second chunk is free: that is half of the device. */
TEST_F(full, no_request_fails_while_enough_chunks_are_free)
{
	__u64 n = self->cap / self->chunk;
	struct devpool_pool_stat stat;
	__u64 addr[512];
	__u64 i;

	ASSERT_GE(ARRAY_SIZE(addr), n);
	for (i = 0; i < n; i++)
		addr[i] = test_alloc(self->fd, default_pool, self->chunk);
	test_err_alloc(ENOSPC, self->fd, default_pool, 1);
	for (i = 0; i < n; i += 2)
		test_free(self->fd, addr[i]);
	test_err_alloc(ENOSPC, self->fd, default_pool, (n + 1) / 2 * self->chunk + 1);
	EXPECT_EQ(self->cap, test_resident(self->fd, default_pool));
	test_alloc(self->fd, default_pool, (n + 1) / 2 * self->chunk);
	stat = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(self->cap, stat.out_resident.current);
	EXPECT_EQ(self->cap, stat.out_allocated.current);
	EXPECT_EQ(2, stat.out_ooms);
	for (i = 1; i < n; i += 2)
		test_free(self->fd, addr[i]);
}

TEST_F(full, a_request_of_the_whole_device)
{
	struct devpool_pool_id id;
	__u64 addr;

	addr = test_alloc(self->fd, default_pool, self->cap);
	EXPECT_EQ(self->cap, devpool_sysfs(self->index, "used"));
	test_pool_create(self->fd, &id);
	test_err_alloc(ENOSPC, self->fd, default_pool, 1);
	test_err_alloc(ENOSPC, self->fd, id, 1);
	EXPECT_EQ(1, test_pool_stat(self->fd, id).out_ooms);
	EXPECT_EQ(0, test_pool_stat(self->fd, id).out_resident.peak);
	test_free(self->fd, addr);
	EXPECT_EQ(addr, test_alloc(self->fd, default_pool, self->cap));
}

/* A request that fails changes nothing but the count of such. */
TEST_F(full, a_request_in_vain)
{
	struct devpool_pool_stat before, other;
	struct devpool_pool_id id;

	test_pool_create(self->fd, &id);
	test_alloc(self->fd, id, PART(40));
	test_alloc(self->fd, default_pool, PART(30));
	before = test_pool_stat(self->fd, default_pool);
	other = test_pool_stat(self->fd, id);
	test_err_alloc(ENOSPC, self->fd, default_pool, PART(30));
	before.out_ooms++;
	EXPECT_SAME(before, test_pool_stat(self->fd, default_pool));
	EXPECT_SAME(other, test_pool_stat(self->fd, id));
	EXPECT_EQ(1, test_stats(self->fd).out_ooms);
	test_alloc(self->fd, default_pool, self->cap - PART(40) - PART(30));
}

/* Live private pools are not for others to take from. */
TEST_F(full, a_live_pool_keeps_its_cache_from_others)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id p, q;
	int other;

	test_pool_create(self->fd, &p);
	test_pool_create(self->fd, &q);
	test_free(self->fd, test_alloc(self->fd, p, PART(60)));
	before = test_pool_stat(self->fd, p);
	test_err_alloc(ENOSPC, self->fd, default_pool, PART(60));
	test_err_alloc(ENOSPC, self->fd, q, PART(60));
	other = test_open(self->index);
	test_err_alloc(ENOSPC, other, default_pool, PART(60));
	EXPECT_SAME(before, test_pool_stat(self->fd, p));
	test_alloc(self->fd, p, PART(60));
}

/* The cache of another client is not reclaimed yet: its own is. */
TEST_F(full, reclaim_stays_within_the_client)
{
	struct devpool_pool_stat before;
	int other;

	other = test_open(self->index);
	test_free(other, test_alloc(other, default_pool, PART(60)));
	before = test_pool_stat(other, default_pool);
	test_err_alloc(ENOSPC, self->fd, default_pool, PART(60));
	EXPECT_SAME(before, test_pool_stat(other, default_pool));
	test_alloc(self->fd, default_pool, self->cap - PART(60));
}

/* Only as much as the request needs leaves a cache that lies in between. */
TEST_F(full, reclaim_leaves_live_blocks_alone)
{
	struct devpool_pool_id id;
	__u64 live, addr;
	char *p;

	addr = test_alloc(self->fd, default_pool, PART(20));
	live = test_alloc(self->fd, default_pool, PART(20));
	test_free(self->fd, addr);
	p = test_map(self->fd, live, PART(20));
	test_fill(p, PART(20), 0x1122334455660000ULL);
	test_pool_create(self->fd, &id);
	addr = test_alloc(self->fd, id, self->cap - PART(20));
	EXPECT_EQ(PART(20), test_resident(self->fd, default_pool));
	EXPECT_EQ(-1, test_differs(p, PART(20), 0x1122334455660000ULL));
	test_free(self->fd, live);
}

/* What no machine at hand has */

FIXTURE(large)
{
	struct devpool_info info;
	struct test_base base;
	__u64 chunk;
	int index;
	int fd;
};

FIXTURE_SETUP(large)
{
	test_setup(self, TEST_NULL);
	self->chunk = self->info.out_chunk;
}

FIXTURE_TEARDOWN(large)
{
	close(self->fd);
}

TEST_F(large, A04_at_full_size)
{
	static const __u64 small[] = { 16896 * KIB, 16896 * KIB, 11676 * KIB, 18640 * KIB };
	const __u64 big = 11643387904ULL;
	__u64 sum = 0;
	int i;

	test_free(self->fd, test_alloc(self->fd, default_pool, big));
	for (i = 0; i < ARRAY_SIZE(small); i++) {
		test_alloc(self->fd, default_pool, small[i]);
		sum += small[i];
	}
	EXPECT_EQ(round_to(big, self->chunk), test_resident(self->fd, default_pool));
	test_alloc(self->fd, default_pool, big);
	EXPECT_GE(round_to(big + sum, self->chunk) + self->chunk,
		  test_resident(self->fd, default_pool));
}

/* Layer by layer, each replaced by a slightly larger one */
TEST_F(large, A12_layers_that_grow)
{
	const __u64 layer = 20 * MIB, grown = layer + 512 * KIB;
	struct devpool_pool_stat stat;
	struct devpool_pool_id id;
	__u64 addr[100];
	__u64 bigger;
	int i;

	test_pool_create(self->fd, &id);
	for (i = 0; i < ARRAY_SIZE(addr); i++)
		addr[i] = test_alloc(self->fd, id, layer);
	for (i = 0; i < ARRAY_SIZE(addr); i++) {
		bigger = test_alloc(self->fd, id, grown);
		test_free(self->fd, addr[i]);
		addr[i] = bigger;
	}
	stat = test_pool_stat(self->fd, id);
	EXPECT_EQ(ARRAY_SIZE(addr) * grown, stat.out_allocated.current);
	EXPECT_GE(stat.out_allocated.peak + 2 * grown, stat.out_resident.peak);
	EXPECT_POOL_SOUND(stat);
}

/* As torch's trace of a model that is loaded, saved and loaded again */
TEST_F(large, A12_layers_that_grow_in_any_order)
{
	const __u64 layer = 20 * MIB, grown = layer + 512 * KIB;
	struct devpool_pool_stat stat;
	__u64 addr[100];
	__u64 bigger;
	int i, j;

	for (i = 0; i < ARRAY_SIZE(addr); i++)
		addr[i] = test_alloc(self->fd, default_pool, layer);
	for (i = 0; i < ARRAY_SIZE(addr); i++) {
		j = i * 37 % ARRAY_SIZE(addr);
		bigger = test_alloc(self->fd, default_pool, grown);
		test_free(self->fd, addr[j]);
		addr[j] = bigger;
	}
	stat = test_pool_stat(self->fd, default_pool);
	EXPECT_GE(stat.out_allocated.peak + 2 * grown, stat.out_resident.peak);
	EXPECT_POOL_SOUND(stat);
}

TEST_F(large, a_terabyte_in_one_block)
{
	/* Debug kernels need a minute for the chunks of a terabyte. */
	__u64 bytes = test_slow() > 1 ? 64 * GIB : TIB;
	__u64 addr;

	addr = test_alloc(self->fd, default_pool, bytes);
	EXPECT_EQ(bytes, test_resident(self->fd, default_pool));
	test_free(self->fd, addr);
	EXPECT_EQ(addr, test_alloc(self->fd, default_pool, bytes / 2));
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(bytes / 2, test_resident(self->fd, default_pool));
}

/* A14: steps by chance against a model of what must come out */

#define MODEL_BLOCKS 512
#define MODEL_POOLS 512
#define MODEL_SLOTS 4
#define MODEL_WINDOWS 64

struct model_pool {
	struct devpool_pool_id id;
	__u64 allocated;
	__u64 requested;
	__u64 blocks;
	/* -1: closed, it lives on in its blocks */
	int fd;
};

struct model_block {
	__u64 addr;
	__u64 bytes;
	__u64 requested;
	__u64 serial;
	int pool;
};

struct model {
	struct model_block block[MODEL_BLOCKS];
	struct model_pool pool[MODEL_POOLS];
	struct {
		__u64 start;
		char *p;
	} window[MODEL_WINDOWS];
	/* which pools new blocks go to; slot 0 is the default pool */
	int slot[MODEL_SLOTS];
	__u64 window_bytes;
	__u64 random;
	__u64 serial;
	__u64 chunk;
	__u64 cap;
	__u64 live;
	int windows;
	int blocks;
	int pools;
	int fd;
};

static struct model model;

/* The tag tells the pool, the block and the place. */
static __u64 model_tag(const struct model_block *b, __u64 addr)
{
	return (__u64)(b->pool + 1) << 48 | (b->serial & 0xffffffff) << 16 |
	       ((addr / 8 * 0x9e37) & 0xffff);
}

/* Windows are kept, so that flushes and re-use meet old mappings. */
static char *model_at(struct model *m, __u64 addr)
{
	__u64 start = addr & ~(m->window_bytes - 1);
	char *p;
	int i;

	for (i = 0; i < m->windows; i++)
		if (m->window[i].start == start)
			return m->window[i].p + (addr - start);
	if (m->windows == MODEL_WINDOWS) {
		munmap(m->window[0].p, m->window_bytes);
		m->window[0] = m->window[--m->windows];
	}
	p = mmap(NULL, m->window_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, start);
	if (p == MAP_FAILED)
		return NULL;
	m->window[m->windows].start = start;
	m->window[m->windows++].p = p;
	return p + (addr - start);
}

/* The next place in a block that has a tag: its ends and the start of each page */
static __u64 model_next(const struct model_block *b, __u64 addr)
{
	__u64 last = b->addr + b->bytes - 8;
	__u64 next = (addr & ~(TEST_PAGE - 1)) + TEST_PAGE;

	if (addr == last)
		return 0;
	return next < last ? next : last;
}

/* What a new block holds is zero or was written in the same pool. */
static const char *model_take(struct model *m, const struct model_block *b)
{
	static char why[128];
	volatile __u64 *p;
	__u64 addr;

	for (addr = b->addr; addr; addr = model_next(b, addr)) {
		p = (__u64 *)model_at(m, addr);
		if (!p)
			return "mmap";
		if (*p && *p >> 48 != b->pool + 1) {
			snprintf(why, sizeof(why), "pool %d got %llx at %llx",
				 b->pool + 1, *p, addr);
			return why;
		}
		*p = model_tag(b, addr);
	}
	return NULL;
}

static const char *model_check(struct model *m, const struct model_block *b)
{
	static char why[128];
	volatile __u64 *p;
	__u64 addr;

	for (addr = b->addr; addr; addr = model_next(b, addr)) {
		p = (__u64 *)model_at(m, addr);
		if (!p)
			return "mmap";
		if (*p == model_tag(b, addr))
			continue;
		snprintf(why, sizeof(why), "%llx at %llx instead of %llx", *p, addr,
			 model_tag(b, addr));
		return why;
	}
	return NULL;
}

static __u64 model_size(struct model *m)
{
	__u64 r = test_random(&m->random);
	__u64 bits;

	switch (r % 10) {
	case 0 ... 3:
		bits = 3 + r / 16 % 10;
		break;
	case 4 ... 6:
		bits = 12 + r / 16 % 9;
		break;
	default:
		bits = 20 + r / 16 % 3;
	}
	return 8 + test_random(&m->random) % (1ULL << bits);
}

static int model_choose(struct model *m, int n)
{
	return test_random(&m->random) % n;
}

static bool model_overlaps(struct model *m, const struct model_block *b)
{
	int i;

	for (i = 0; i < m->blocks; i++)
		if (m->block[i].addr < b->addr + b->bytes &&
		    b->addr < m->block[i].addr + m->block[i].bytes)
			return true;
	return false;
}

#define MODEL_POOL_CHECK(p)							\
do {										\
	struct devpool_pool_stat _stat;						\
										\
	_stat = test_pool_stat(m->fd, m->pool[p].id);				\
	EXPECT_POOL_SOUND(_stat);						\
	ASSERT_EQ(m->pool[p].allocated, _stat.out_allocated.current);		\
	ASSERT_EQ(m->pool[p].requested, _stat.out_requested.current);		\
	ASSERT_EQ(m->pool[p].blocks, _stat.out_blocks.current);			\
	ASSERT_EQ(m->pool[p].fd >= 0 || !(p) ? DEVPOOL_STATE_LIVE :		\
		  DEVPOOL_STATE_FREEABLE, _stat.out_state);			\
} while (0)

TEST_F_TIMEOUT(full, A14_random_steps, 300)
{
	unsigned int steps = test_env("DEVPOOL_STEPS", test_times(10000));
	struct model *m = &model;
	struct devpool_empty_cache empty;
	struct model_block b;
	unsigned int served = 0, pressed = 0;
	struct devpool_stats stats;
	struct model_pool *p;
	unsigned int step;
	const char *wrong;
	__u64 used;
	int i, ret;

	m->random = test_seed();
	m->fd = self->fd;
	m->cap = self->cap;
	m->chunk = self->chunk;
	m->window_bytes = self->chunk > DEVPOOL_WINDOW ? self->chunk : DEVPOOL_WINDOW;
	m->pool[0].fd = -1;
	m->pools = 1;
	for (i = 1; i < MODEL_SLOTS; i++) {
		m->slot[i] = m->pools;
		m->pool[m->pools].fd = test_pool_create(m->fd, &m->pool[m->pools].id);
		m->pools++;
	}

	for (step = 0; step < steps; step++) {
		int what = model_choose(m, 1000);

		/* More come than go, so that it is mostly as full as it may be. */
		if (what < 560) {
			b.pool = m->slot[model_choose(m, MODEL_SLOTS)];
			b.requested = model_size(m);
			b.serial = ++m->serial;
			if (m->blocks == MODEL_BLOCKS || m->live + b.requested > m->cap * 3 / 5)
				goto free;
			p = &m->pool[b.pool];
			ret = devpool_alloc_align_raw(m->fd, p->id, b.requested, 0, &b.addr,
						      &b.bytes);
			if (ret == -ENOSPC) {
				/* Live pools keep what they cache. Now they do not. */
				pressed++;
				for (i = 1; i < MODEL_SLOTS; i++)
					test_empty_cache(m->fd, m->pool[m->slot[i]].id,
							 DEVPOOL_EMPTY_TRIM, 0);
				test_empty_cache(m->fd, default_pool, 0, 0);
				used = devpool_sysfs(self->index, "used");
				ret = devpool_alloc_align_raw(m->fd, p->id, b.requested, 0,
							      &b.addr, &b.bytes);
				if (ret == -ENOSPC &&
				    used + round_to(b.requested, m->chunk) > m->cap)
					continue;
			}
			ASSERT_EQ(0, ret)
				TH_LOG("step %u: %llu bytes", step, b.requested);
			ASSERT_EQ(round_to(b.requested, b.requested <= MIB ? 512 : TEST_PAGE),
				  b.bytes);
			ASSERT_FALSE(model_overlaps(m, &b));
			wrong = model_take(m, &b);
			ASSERT_EQ(NULL, wrong)
				TH_LOG("step %u: %s", step, wrong);
			m->block[m->blocks++] = b;
			p->allocated += b.bytes;
			p->requested += b.requested;
			p->blocks++;
			m->live += b.bytes;
			served++;
		} else if (what < 960) {
free:
			if (!m->blocks)
				continue;
			i = model_choose(m, m->blocks);
			b = m->block[i];
			p = &m->pool[b.pool];
			wrong = model_check(m, &b);
			ASSERT_EQ(NULL, wrong)
				TH_LOG("step %u: %s", step, wrong);
			test_free(m->fd, b.addr);
			m->block[i] = m->block[--m->blocks];
			p->allocated -= b.bytes;
			p->requested -= b.requested;
			p->blocks--;
			m->live -= b.bytes;
			if (b.pool && p->fd < 0 && !p->blocks)
				test_err_pool_stat(ENOENT, m->fd, p->id);
		} else if (what < 965) {
			i = model_choose(m, MODEL_SLOTS);
			p = &m->pool[m->slot[i]];
			empty = test_empty_cache(m->fd, p->id, DEVPOOL_EMPTY_TRIM,
						 test_random(&m->random) % (8 * MIB));
			/* {0,0} means the closed ones as well. */
			if (i)
				ASSERT_EQ(p->allocated, empty.out_live);
		} else if (what < 968 && m->pools < MODEL_POOLS) {
			i = 1 + model_choose(m, MODEL_SLOTS - 1);
			p = &m->pool[m->slot[i]];
			close(p->fd);
			p->fd = -1;
			if (!p->blocks)
				test_err_pool_stat(ENOENT, m->fd, p->id);
			else
				MODEL_POOL_CHECK(m->slot[i]);
			m->slot[i] = m->pools;
			m->pool[m->pools].fd = test_pool_create(m->fd, &m->pool[m->pools].id);
			m->pools++;
		} else if (what < 975) {
			if (!m->windows)
				continue;
			i = model_choose(m, m->windows);
			munmap(m->window[i].p, m->window_bytes);
			m->window[i] = m->window[--m->windows];
		} else {
			for (i = 0; i < MODEL_SLOTS; i++)
				MODEL_POOL_CHECK(m->slot[i]);
			for (i = 0; i < m->blocks; i++) {
				wrong = model_check(m, &m->block[i]);
				ASSERT_EQ(NULL, wrong)
					TH_LOG("step %u: %s", step, wrong);
			}
			ASSERT_EQ(m->live, test_stats(m->fd).out_allocated.current);
			ASSERT_EQ(m->blocks, test_stats(m->fd).out_blocks.current);
			ASSERT_EQ(devpool_sysfs(self->index, "used"),
				  test_stats(m->fd).out_resident.current);
		}
	}
	stats = test_stats(m->fd);
	TH_LOG("served %u, not without a trim %u, peak of %llu MiB, recycles %llu", served,
	       pressed, stats.out_resident.peak / MIB, stats.out_recycles);
	/* Not a test of nothing */
	EXPECT_LT(steps / 4, served);
	EXPECT_NE(0, stats.out_recycles);
	while (m->blocks) {
		b = m->block[--m->blocks];
		wrong = model_check(m, &b);
		ASSERT_EQ(NULL, wrong)
			TH_LOG("%s", wrong);
		test_free(m->fd, b.addr);
	}
	for (i = 1; i < MODEL_SLOTS; i++)
		close(m->pool[m->slot[i]].fd);
	test_empty_cache(m->fd, default_pool, 0, 0);
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
}

TEST_HARNESS_MAIN
