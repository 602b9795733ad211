// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools: their life, whose cache goes when, and that it is nobody else's.
 */
#include "devpool_test.h"

FIXTURE(pool)
{
	struct devpool_info info;
	struct test_base base;
	__u64 chunk;
	int index;
	int fd;
};

FIXTURE_VARIANT(pool)
{
	enum test_kind kind;
	/* what P01 takes */
	__u64 much;
};

FIXTURE_VARIANT_ADD(pool, sysmem) { .kind = TEST_SYSMEM, .much = 64 * MIB };
FIXTURE_VARIANT_ADD(pool, null) { .kind = TEST_NULL, .much = GIB };

FIXTURE_SETUP(pool)
{
	test_setup(self, variant->kind);
	self->chunk = self->info.out_chunk;
}

FIXTURE_TEARDOWN(pool)
{
	close(self->fd);
}

#define USED() ((__u64)devpool_sysfs(self->index, "used"))

TEST_F(pool, P01_a_live_pool_keeps_its_cache_until_its_close)
{
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, variant->much));
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(variant->much, test_resident(self->fd, id));
	EXPECT_EQ(DEVPOOL_STATE_LIVE, test_pool_stat(self->fd, id).out_state);
	EXPECT_EQ(1, test_pool_stat(self->fd, id).out_use_count);
	EXPECT_EQ(variant->much, USED());
	close(pool);
	EXPECT_EQ(0, test_stats(self->fd).out_resident.current);
	EXPECT_EQ(0, USED());
	test_err_pool_stat(ENOENT, self->fd, id);
}

TEST_F(pool, P02_create_and_close)
{
	struct devpool_stats before = test_stats(self->fd);
	struct test_base base = test_base(self->index);
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	EXPECT_EQ(0, test_resident(self->fd, id));
	EXPECT_EQ(0, USED());
	ASSERT_EQ(0, close(pool));
	EXPECT_BASE(base, self->index);
	EXPECT_SAME(before, test_stats(self->fd));
	test_err_pool_stat(ENOENT, self->fd, id);
	test_err_empty_cache(ENOENT, self->fd, id, 0);
	test_err_alloc(ENOENT, self->fd, id, 1);
}

TEST_F(pool, P03_the_default_pool_s_cache_is_not_the_closed_pool_s)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	int pool;

	test_free(self->fd, test_alloc(self->fd, default_pool, 20 * MIB));
	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 20 * MIB));
	before = test_pool_stat(self->fd, default_pool);
	EXPECT_EQ(20 * MIB, before.out_resident.current);
	EXPECT_EQ(40 * MIB, USED());
	close(pool);
	EXPECT_SAME(before, test_pool_stat(self->fd, default_pool));
	EXPECT_EQ(20 * MIB, USED());
	EXPECT_EQ(20 * MIB, test_stats(self->fd).out_resident.current);
	test_err_pool_stat(ENOENT, self->fd, id);
}

/* Everybody but P: the default pool, another pool, another client's both */
struct others {
	struct devpool_pool_stat stat[4];
	struct devpool_stats stats;
};

FIXTURE(neighbours)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id p, q, r;
	struct others before;
	int p_fd, q_fd, r_fd;
	int other;
	int index;
	int fd;
};

FIXTURE_VARIANT(neighbours)
{
	enum test_kind kind;
};

FIXTURE_VARIANT_ADD(neighbours, sysmem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(neighbours, null) { .kind = TEST_NULL };

#define OTHERS()								\
({										\
	struct others _o;							\
										\
	_o.stat[0] = test_pool_stat(self->fd, default_pool);			\
	_o.stat[1] = test_pool_stat(self->fd, self->q);				\
	_o.stat[2] = test_pool_stat(self->other, default_pool);			\
	_o.stat[3] = test_pool_stat(self->other, self->r);			\
	_o.stats = test_stats(self->other);					\
	_o;									\
})

/* All have 4 live and 16 cached. */
FIXTURE_SETUP(neighbours)
{
	test_setup(self, variant->kind);
	self->other = test_open(self->index);
	self->p_fd = test_pool_create(self->fd, &self->p);
	self->q_fd = test_pool_create(self->fd, &self->q);
	self->r_fd = test_pool_create(self->other, &self->r);
	test_free(self->fd, test_alloc(self->fd, default_pool, 16 * MIB));
	test_free(self->fd, test_alloc(self->fd, self->p, 16 * MIB));
	test_free(self->fd, test_alloc(self->fd, self->q, 16 * MIB));
	test_free(self->other, test_alloc(self->other, default_pool, 16 * MIB));
	test_free(self->other, test_alloc(self->other, self->r, 16 * MIB));
	test_alloc(self->fd, default_pool, 4 * MIB);
	test_alloc(self->fd, self->q, 4 * MIB);
	test_alloc(self->other, default_pool, 4 * MIB);
	test_alloc(self->other, self->r, 4 * MIB);
	self->before = OTHERS();
	EXPECT_EQ(16 * MIB, self->before.stat[1].out_resident.current);
	EXPECT_EQ(4 * MIB, self->before.stat[1].out_allocated.current);
}

FIXTURE_TEARDOWN(neighbours)
{
	EXPECT_SAME(self->before, OTHERS());
	EXPECT_EQ(4 * 16 * MIB, devpool_sysfs(self->index, "used"));
}

TEST_F(neighbours, P04_trim_by_id)
{
	struct devpool_empty_cache r;

	r = test_empty_cache(self->fd, self->p, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(16 * MIB, r.out_freed);
	EXPECT_EQ(0, r.out_kept);
	EXPECT_EQ(0, r.out_pending);
	EXPECT_EQ(0, r.out_live);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, r.out_state);
	EXPECT_EQ(0, test_resident(self->fd, self->p));
}

TEST_F(neighbours, P04_trim_by_pool_file)
{
	struct devpool_empty_cache r;

	r = test_empty_cache(self->p_fd, default_pool, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(16 * MIB, r.out_freed);
	EXPECT_EQ(0, test_resident(self->fd, self->p));
}

TEST_F(neighbours, P04_release)
{
	struct devpool_empty_cache r;

	r = test_empty_cache(self->p_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_EQ(16 * MIB, r.out_freed);
	EXPECT_EQ(0, r.out_kept);
	EXPECT_EQ(0, r.out_live);
	EXPECT_EQ(DEVPOOL_STATE_GONE, r.out_state);
	test_err_pool_stat(ENOENT, self->fd, self->p);
}

TEST_F(neighbours, P04_close)
{
	close(self->p_fd);
	test_err_pool_stat(ENOENT, self->fd, self->p);
}

/* The pool is freeable and flushes itself: EMPTY_CACHE finds nothing more. */
TEST_F(neighbours, P04_empty_of_a_freeable_pool)
{
	struct devpool_empty_cache r;
	__u64 addr;

	addr = test_alloc(self->fd, self->p, 2 * MIB);
	close(self->p_fd);
	EXPECT_EQ(2 * MIB, test_resident(self->fd, self->p));
	r = test_empty_cache(self->fd, self->p, 0, 0);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(2 * MIB, r.out_kept);
	EXPECT_EQ(2 * MIB, r.out_live);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, r.out_state);
	test_free(self->fd, addr);
	test_err_empty_cache(ENOENT, self->fd, self->p, 0);
}

TEST_F(neighbours, P04_a_live_pool_that_is_named_keeps_its_cache)
{
	struct devpool_pool_stat before = test_pool_stat(self->fd, self->p);
	struct devpool_empty_cache r;

	r = test_empty_cache(self->fd, self->p, 0, 0);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(16 * MIB, r.out_kept);
	EXPECT_EQ(0, r.out_live);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, r.out_state);
	r = test_empty_cache(self->p_fd, default_pool, 0, 0);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->p));
	/* leave nothing, as the others do */
	close(self->p_fd);
}

/* {0,0} is the default pool: its own cache goes, no live pool's. */
TEST_F(pool, P04_empty_of_the_default_pool)
{
	struct devpool_pool_stat p, theirs;
	struct devpool_empty_cache r;
	struct devpool_pool_id id;
	int other;

	other = test_open(self->index);
	test_pool_create(self->fd, &id);
	test_free(other, test_alloc(other, default_pool, 8 * MIB));
	test_free(self->fd, test_alloc(self->fd, id, 8 * MIB));
	test_free(self->fd, test_alloc(self->fd, default_pool, 16 * MIB));
	test_alloc(self->fd, default_pool, 3 * MIB);
	p = test_pool_stat(self->fd, id);
	theirs = test_pool_stat(other, default_pool);
	r = test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(12 * MIB, r.out_freed);
	EXPECT_EQ(4 * MIB, r.out_kept);
	EXPECT_EQ(3 * MIB, r.out_live);
	EXPECT_EQ(0, r.out_pending);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, r.out_state);
	EXPECT_EQ(4 * MIB, test_resident(self->fd, default_pool));
	EXPECT_EQ(1, test_pool_stat(self->fd, default_pool).out_flushes);
	EXPECT_SAME(p, test_pool_stat(self->fd, id));
	EXPECT_SAME(theirs, test_pool_stat(other, default_pool));
}

TEST_F(pool, P07_a_block_outlives_its_pool)
{
	struct devpool_pool_stat stat;
	struct devpool_pool_id id;
	struct test_base base;
	char *x = NULL;
	__u64 addr;
	int pool;

	test_pool_stat(self->fd, default_pool);
	base = test_base(self->index);
	pool = test_pool_create(self->fd, &id);
	addr = test_alloc(self->fd, id, 3 * MIB);
	if (variant->kind == TEST_SYSMEM) {
		x = test_map(self->fd, addr, 3 * MIB);
		test_fill(x, 3 * MIB, 0x7000000000000000ULL);
	}
	close(pool);
	stat = test_pool_stat(self->fd, id);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, stat.out_state);
	EXPECT_EQ(0, stat.out_use_count);
	EXPECT_EQ(3 * MIB, stat.out_allocated.current);
	EXPECT_EQ(4 * MIB, stat.out_resident.current);
	if (x) {
		EXPECT_EQ(-1, test_differs(x, 3 * MIB, 0x7000000000000000ULL));
		test_fill(x, 3 * MIB, 0x7100000000000000ULL);
		EXPECT_EQ(-1, test_differs(x, 3 * MIB, 0x7100000000000000ULL));
	}
	test_free(self->fd, addr);
	/* Without another call */
	EXPECT_BASE(base, self->index);
	test_err_pool_stat(ENOENT, self->fd, id);
}

/* What other allocators split off from a segment pins the segment. */
TEST_F(pool, P12_a_block_out_of_a_larger_one_outlives_its_pool)
{
	struct devpool_pool_stat stat;
	struct devpool_pool_id id;
	__u64 addr;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 60 * MIB));
	addr = test_alloc(self->fd, id, 2 * MIB);
	close(pool);
	test_empty_cache(self->fd, default_pool, 0, 0);
	stat = test_pool_stat(self->fd, id);
	EXPECT_EQ(2 * MIB, stat.out_allocated.current);
	EXPECT_EQ(2 * MIB, stat.out_resident.current);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, stat.out_state);
	if (variant->kind == TEST_SYSMEM) {
		char *p = test_map(self->fd, addr, 2 * MIB);

		test_fill(p, 2 * MIB, 1);
		EXPECT_EQ(-1, test_differs(p, 2 * MIB, 1));
	}
	test_free(self->fd, addr);
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_EQ(0, USED());
}

TEST_F(pool, P13_merged_blocks_leave_no_zombie)
{
	struct test_base base = test_base(self->index);
	struct devpool_pool_id id;
	__u64 a, b;
	int pool;

	pool = test_pool_create(self->fd, &id);
	a = test_alloc(self->fd, id, 20 * MIB);
	b = test_alloc(self->fd, id, 20 * MIB);
	test_free(self->fd, a);
	test_free(self->fd, b);
	close(pool);
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_BASE(base, self->index);
}

TEST_F(pool, P14_only_what_is_live_stays_resident)
{
	struct devpool_pool_stat stat;
	struct devpool_pool_id id;
	__u64 a, b, c;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 140 * MIB));
	a = test_alloc(self->fd, id, 20 * MIB);
	b = test_alloc(self->fd, id, 40 * MIB);
	c = test_alloc(self->fd, id, 20 * MIB);
	test_free(self->fd, b);
	EXPECT_EQ(140 * MIB, test_resident(self->fd, id));
	close(pool);
	test_empty_cache(self->fd, id, 0, 0);
	stat = test_pool_stat(self->fd, id);
	EXPECT_EQ(40 * MIB, stat.out_allocated.current);
	EXPECT_EQ(40 * MIB, stat.out_resident.current);
	test_free(self->fd, a);
	EXPECT_EQ(20 * MIB, test_resident(self->fd, id));
	test_free(self->fd, c);
	test_err_pool_stat(ENOENT, self->fd, id);
}

TEST_F(pool, P26_release_twice)
{
	struct devpool_empty_cache r;
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	r = test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_EQ(4 * MIB, r.out_freed);
	test_err_empty_cache(ENOENT, pool, default_pool, DEVPOOL_EMPTY_RELEASE);
}

TEST_F(pool, P26_every_command_after_release)
{
	struct devpool_pool_id id;
	struct test_base base;
	int pool;

	base = test_base(self->index);
	pool = test_pool_create(self->fd, &id);
	test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_BASE(base, self->index);
	test_err_info(ENOENT, pool);
	test_err_pool_stat(ENOENT, pool, default_pool);
	test_err_empty_cache(ENOENT, pool, default_pool, 0);
	test_err_empty_cache(ENOENT, pool, default_pool, DEVPOOL_EMPTY_TRIM);
	test_err_empty_cache(ENOENT, pool, default_pool, DEVPOOL_EMPTY_RELEASE);
	test_err_pool_stat(ENOENT, self->fd, id);
	test_err_alloc(ENOENT, self->fd, id, 1);
	EXPECT_BASE(base, self->index);
	ASSERT_EQ(0, close(pool));
	EXPECT_BASE(base, self->index);
}

/* The file has nothing to give up any more: not even of the pool's successor. */
TEST_F(pool, P26_close_after_release)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	int pool, again;

	pool = test_pool_create(self->fd, &id);
	test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	ASSERT_EQ(0, devpool_pool_create_raw(self->fd, &id, &again));
	test_alloc(self->fd, id, MIB);
	before = test_pool_stat(self->fd, id);
	EXPECT_EQ(1, before.out_use_count);
	test_err_pool_stat(ENOENT, pool, default_pool);
	close(pool);
	EXPECT_SAME(before, test_pool_stat(self->fd, id));
	close(again);
}

TEST_F(pool, P26_close_after_release_under_a_live_block)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	__u64 addr;
	int pool;

	pool = test_pool_create(self->fd, &id);
	addr = test_alloc(self->fd, id, 3 * MIB);
	test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	before = test_pool_stat(self->fd, id);
	EXPECT_EQ(0, before.out_use_count);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, before.out_state);
	close(pool);
	EXPECT_SAME(before, test_pool_stat(self->fd, id));
	test_free(self->fd, addr);
	test_err_pool_stat(ENOENT, self->fd, id);
}

TEST_F(pool, release_under_a_live_block)
{
	struct devpool_empty_cache r;
	struct devpool_pool_id id;
	__u64 addr;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 60 * MIB));
	addr = test_alloc(self->fd, id, 3 * MIB);
	r = test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_EQ(56 * MIB, r.out_freed);
	EXPECT_EQ(4 * MIB, r.out_kept);
	EXPECT_EQ(3 * MIB, r.out_live);
	EXPECT_EQ(0, r.out_pending);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, r.out_state);
	test_err_pool_stat(ENOENT, pool, default_pool);
	EXPECT_EQ(3 * MIB, test_pool_stat(self->fd, id).out_allocated.current);
	test_free(self->fd, addr);
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_EQ(0, USED());
}

TEST_F(pool, release_is_not_for_a_device_file)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;

	test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	before = test_pool_stat(self->fd, id);
	test_err_empty_cache(EINVAL, self->fd, id, DEVPOOL_EMPTY_RELEASE);
	test_err_empty_cache(EINVAL, self->fd, default_pool, DEVPOOL_EMPTY_RELEASE);
	test_err_empty_cache(EINVAL, self->fd, id, DEVPOOL_EMPTY_RELEASE | DEVPOOL_EMPTY_TRIM);
	EXPECT_SAME(before, test_pool_stat(self->fd, id));
}

TEST_F(pool, release_with_trim)
{
	struct devpool_empty_cache r;
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	r = test_empty_cache(pool, default_pool,
			     DEVPOOL_EMPTY_RELEASE | DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(4 * MIB, r.out_freed);
	EXPECT_EQ(DEVPOOL_STATE_GONE, r.out_state);
	EXPECT_EQ(0, USED());
}

/* The file, not the descriptor, holds the pool. */
TEST_F(pool, the_last_descriptor_is_what_counts)
{
	struct devpool_pool_id id;
	int pool, twin;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	twin = dup(pool);
	close(pool);
	EXPECT_EQ(1, test_pool_stat(self->fd, id).out_use_count);
	EXPECT_EQ(4 * MIB, test_resident(twin, default_pool));
	close(twin);
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_EQ(0, USED());
}

TEST_F(pool, a_freeable_pool_returns_piece_by_piece)
{
	struct devpool_pool_id id;
	__u64 addr[4];
	int pool;
	int i;

	pool = test_pool_create(self->fd, &id);
	for (i = 0; i < 4; i++)
		addr[i] = test_alloc(self->fd, id, 2 * self->chunk);
	close(pool);
	for (i = 0; i < 4; i++) {
		EXPECT_EQ((4 - i) * 2 * self->chunk, USED());
		EXPECT_EQ((4 - i) * 2 * self->chunk, test_resident(self->fd, id));
		test_free(self->fd, addr[i]);
	}
	EXPECT_EQ(0, USED());
	test_err_pool_stat(ENOENT, self->fd, id);
}

/* A chunk with two blocks in it goes with the second. */
TEST_F(pool, a_freeable_pool_returns_whole_chunks)
{
	struct devpool_pool_id id;
	__u64 a, b;
	int pool;

	pool = test_pool_create(self->fd, &id);
	a = test_alloc(self->fd, id, 512);
	b = test_alloc(self->fd, id, 512);
	close(pool);
	test_free(self->fd, a);
	EXPECT_EQ(self->chunk, test_resident(self->fd, id));
	EXPECT_EQ(512, test_pool_stat(self->fd, id).out_allocated.current);
	test_free(self->fd, b);
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_EQ(0, USED());
}

TEST_F(pool, alloc_in_a_freeable_pool)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_alloc(self->fd, id, 512);
	close(pool);
	before = test_pool_stat(self->fd, id);
	test_err_alloc(ENOENT, self->fd, id, 512);
	EXPECT_SAME(before, test_pool_stat(self->fd, id));
}

TEST_F(pool, ids_are_users_and_never_twice)
{
	struct devpool_pool_id id, last = {};
	int other;
	int pool;
	int i;

	for (i = 0; i < 100; i++) {
		pool = test_pool_create(self->fd, &id);
		EXPECT_EQ(0, id.first);
		EXPECT_NE(0, id.second);
		EXPECT_LT(last.second, id.second);
		last = id;
		close(pool);
	}
	other = test_open(self->index);
	test_pool_create(other, &id);
	test_pool_create(self->fd, &last);
	EXPECT_NE(id.second, last.second);
}

TEST_F(pool, create_by_an_id_that_is_free_again)
{
	struct devpool_pool_stat stat;
	struct devpool_pool_id id, was;
	int pool;

	pool = test_pool_create(self->fd, &id);
	was = id;
	test_free(self->fd, test_alloc(self->fd, id, MIB));
	close(pool);
	ASSERT_EQ(0, devpool_pool_create_raw(self->fd, &id, &pool));
	EXPECT_SAME(was, id);
	stat = test_pool_stat(pool, default_pool);
	EXPECT_EQ(1, stat.out_use_count);
	EXPECT_EQ(0, stat.out_resident.peak);
	EXPECT_EQ(0, stat.out_blocks.in);
}

TEST_F(pool, create_by_an_id_whose_pool_exists)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	struct test_base base;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_alloc(self->fd, id, MIB);
	before = test_pool_stat(self->fd, id);
	base = test_base(self->index);
	test_err_pool_create(EBUSY, self->fd, id);
	EXPECT_SAME(before, test_pool_stat(self->fd, id));
	EXPECT_BASE(base, self->index);
	/* Freeable, but it exists. */
	close(pool);
	before = test_pool_stat(self->fd, id);
	test_err_pool_create(EBUSY, self->fd, id);
	EXPECT_SAME(before, test_pool_stat(self->fd, id));
}

TEST_F(pool, create_by_an_id_that_was_not_minted)
{
	struct devpool_pool_id id, theirs;
	struct test_base base;
	int other;
	int pool;

	other = test_open(self->index);
	pool = test_pool_create(other, &theirs);
	test_pool_create(self->fd, &id);
	base = test_base(self->index);
	test_err_pool_create(ENOENT, self->fd, theirs);
	id.second++;
	test_err_pool_create(ENOENT, self->fd, id);
	id.second = -1ULL;
	test_err_pool_create(ENOENT, self->fd, id);
	id.first = 1;
	test_err_pool_create(ENOENT, self->fd, id);
	id.second = 0;
	test_err_pool_create(ENOENT, self->fd, id);
	EXPECT_BASE(base, self->index);
	/* Nor when its owner does not use it any more */
	close(pool);
	test_err_pool_create(ENOENT, self->fd, theirs);
}

TEST_F(pool, another_client_s_pool_is_unknown)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	int other;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	before = test_pool_stat(pool, default_pool);
	other = test_open(self->index);
	test_err_pool_stat(ENOENT, other, id);
	test_err_alloc(ENOENT, other, id, 1);
	test_err_empty_cache(ENOENT, other, id, 0);
	test_err_empty_cache(ENOENT, other, id, DEVPOOL_EMPTY_TRIM);
	EXPECT_SAME(before, test_pool_stat(pool, default_pool));
}

/* Each client has its own {0,0}. */
TEST_F(pool, default_pools_are_apart)
{
	int other;

	other = test_open(self->index);
	test_alloc(self->fd, default_pool, 4 * MIB);
	EXPECT_EQ(0, test_resident(other, default_pool));
	EXPECT_EQ(0, test_stats(other).out_allocated.in);
}

TEST_F(pool, a_pool_file_says_the_same_as_the_id)
{
	struct devpool_pool_stat by_id, by_file;
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_alloc(self->fd, id, 3 * MIB);
	by_id = test_pool_stat(self->fd, id);
	by_file = test_pool_stat(pool, default_pool);
	by_id.pool = by_file.pool;
	EXPECT_SAME(by_id, by_file);
}

TEST_F(pool, an_id_on_a_pool_file)
{
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	test_err_pool_stat(EINVAL, pool, id);
	test_err_empty_cache(EINVAL, pool, id, DEVPOOL_EMPTY_TRIM);
	test_err_empty_cache(EINVAL, pool, id, DEVPOOL_EMPTY_RELEASE);
	EXPECT_EQ(4 * MIB, test_resident(pool, default_pool));
}

TEST_F(pool, a_pool_file_closes_on_exec)
{
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->fd, &id);
	EXPECT_EQ(FD_CLOEXEC, fcntl(pool, F_GETFD));
}

/* Blocks stay where they are; what is around them goes. */
TEST_F(pool, trim_around_live_blocks)
{
	struct devpool_empty_cache r;
	struct devpool_pool_id id;
	__u64 addr[9];
	int i;

	test_pool_create(self->fd, &id);
	for (i = 0; i < 9; i++)
		addr[i] = test_alloc(self->fd, id, self->chunk);
	for (i = 0; i < 9; i++)
		if (i % 3)
			test_free(self->fd, addr[i]);
	r = test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(6 * self->chunk, r.out_freed);
	EXPECT_EQ(3 * self->chunk, r.out_kept);
	EXPECT_EQ(3 * self->chunk, r.out_live);
	EXPECT_EQ(3 * self->chunk, USED());
	/* The chunks are gone, so new ones come. */
	test_alloc(self->fd, id, 6 * self->chunk);
	EXPECT_EQ(9 * self->chunk, USED());
	EXPECT_EQ(15, test_pool_stat(self->fd, id).out_grows);
	for (i = 0; i < 9; i += 3)
		test_free(self->fd, addr[i]);
}

/* A chunk with one live byte stays, whatever else is free in it. */
TEST_F(pool, trim_takes_whole_chunks_only)
{
	struct devpool_empty_cache r;
	__u64 addr[3];

	addr[0] = test_alloc(self->fd, default_pool, self->chunk - 4096);
	addr[1] = test_alloc(self->fd, default_pool, self->chunk + 8192);
	addr[2] = test_alloc(self->fd, default_pool, self->chunk - 4096);
	EXPECT_EQ(3 * self->chunk, test_resident(self->fd, default_pool));
	test_free(self->fd, addr[1]);
	r = test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(self->chunk, r.out_freed);
	EXPECT_EQ(2 * self->chunk, r.out_kept);
	EXPECT_EQ(2 * self->chunk - 8192, r.out_live);
}

TEST_F(pool, keep_some)
{
	struct devpool_empty_cache r;
	struct devpool_pool_id id;

	test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 20 * self->chunk));
	r = test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM, -1ULL);
	EXPECT_EQ(0, r.out_freed);
	r = test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM, 20 * self->chunk);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(20 * self->chunk, r.out_kept);
	r = test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM, 12 * self->chunk);
	EXPECT_EQ(8 * self->chunk, r.out_freed);
	EXPECT_EQ(12 * self->chunk, r.out_kept);
	EXPECT_EQ(12 * self->chunk, test_resident(self->fd, id));
	/* Down to that many bytes: a part of a chunk is not kept. */
	r = test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM, 5 * self->chunk - 1);
	EXPECT_EQ(4 * self->chunk, r.out_kept);
	EXPECT_EQ(4 * self->chunk, USED());
}

/* What is live counts for what is to be kept. */
TEST_F(pool, keep_some_around_live_blocks)
{
	struct devpool_empty_cache r;
	__u64 addr;

	addr = test_alloc(self->fd, default_pool, 10 * self->chunk);
	test_alloc(self->fd, default_pool, 4 * self->chunk);
	test_free(self->fd, addr);
	r = test_empty_cache(self->fd, default_pool, 0, 6 * self->chunk);
	EXPECT_EQ(8 * self->chunk, r.out_freed);
	EXPECT_EQ(6 * self->chunk, r.out_kept);
	r = test_empty_cache(self->fd, default_pool, 0, 2 * self->chunk);
	EXPECT_EQ(2 * self->chunk, r.out_freed);
	EXPECT_EQ(4 * self->chunk, r.out_kept);
	EXPECT_EQ(4 * self->chunk, r.out_live);
}

TEST_F(pool, flushes_are_counted_when_something_goes)
{
	struct devpool_pool_id id;

	test_pool_create(self->fd, &id);
	test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(0, test_pool_stat(self->fd, id).out_flushes);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	test_empty_cache(self->fd, id, 0, 0);
	EXPECT_EQ(0, test_pool_stat(self->fd, id).out_flushes);
	test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(1, test_pool_stat(self->fd, id).out_flushes);
}

/* A block is freed by its address alone, whatever pool it is in. */
TEST_F(pool, addresses_of_different_pools_differ)
{
	struct devpool_pool_id id[3] = {};
	struct devpool_pool_stat stat;
	__u64 addr[3][8];
	int i, j;

	for (i = 1; i < 3; i++)
		test_pool_create(self->fd, &id[i]);
	for (j = 0; j < 8; j++)
		for (i = 0; i < 3; i++)
			addr[i][j] = test_alloc(self->fd, id[i], 4096);
	for (j = 0; j < 8; j++)
		for (i = 0; i < 3; i++)
			test_free(self->fd, addr[i][j]);
	for (i = 0; i < 3; i++) {
		stat = test_pool_stat(self->fd, id[i]);
		EXPECT_EQ(0, stat.out_allocated.current);
		EXPECT_EQ(8, stat.out_blocks.in);
		EXPECT_EQ(8, stat.out_blocks.out);
	}
}

TEST_F(pool, many_pools_and_each_has_its_own)
{
	const int n = variant->kind == TEST_NULL ? 500 : 32;
	struct devpool_pool_id id[500];
	struct devpool_pool_stat stat;
	__u64 addr[500];
	int fd[500];
	int i;

	for (i = 0; i < n; i++) {
		fd[i] = test_pool_create(self->fd, &id[i]);
		addr[i] = test_alloc(self->fd, id[i], 512 * (i + 1));
	}
	for (i = 0; i < n; i++) {
		stat = test_pool_stat(self->fd, id[i]);
		EXPECT_EQ(512 * (i + 1), stat.out_allocated.current);
		EXPECT_EQ(self->chunk, stat.out_resident.current);
	}
	for (i = 0; i < n; i += 2)
		close(fd[i]);
	EXPECT_EQ(n * self->chunk, USED());
	for (i = 0; i < n; i++)
		test_free(self->fd, addr[i]);
	EXPECT_EQ(n / 2 * self->chunk, USED());
	for (i = 1; i < n; i += 2)
		close(fd[i]);
	EXPECT_EQ(0, USED());
}

/* The client goes first, the pool file lives on. */
TEST_F(pool, a_pool_file_outlives_its_client)
{
	struct devpool_pool_stat stat;
	struct devpool_empty_cache r;
	struct devpool_pool_id id;
	struct test_base base;
	int other;
	int pool;

	base = test_base(self->index);
	other = test_open(self->index);
	pool = test_pool_create(other, &id);
	test_alloc(other, id, 4 * MIB);
	test_alloc(other, default_pool, 4 * MIB);
	close(other);
	/* Its blocks are gone, the pool and its cache are not. */
	stat = test_pool_stat(pool, default_pool);
	EXPECT_EQ(0, stat.out_allocated.current);
	EXPECT_EQ(0, stat.out_blocks.current);
	EXPECT_EQ(4 * MIB, stat.out_resident.current);
	EXPECT_EQ(1, stat.out_use_count);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, stat.out_state);
	EXPECT_EQ(4 * MIB, USED());
	r = test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(4 * MIB, r.out_freed);
	EXPECT_EQ(0, USED());
	test_info(pool);
	close(pool);
	EXPECT_BASE(base, self->index);
}

/* Where pools of two devices have the same number */
TEST_F(pool, P16_a_pool_of_another_device)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	int index;
	int other;
	int pool;

	index = test_find(variant->kind == TEST_NULL ? TEST_SYSMEM : TEST_NULL);
	if (index < 0)
		SKIP(return, "there is no second device");
	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	before = test_pool_stat(pool, default_pool);
	other = test_open(index);
	test_err_pool_stat(ENOENT, other, id);
	test_err_alloc(ENOENT, other, id, 1);
	test_err_empty_cache(ENOENT, other, id, DEVPOOL_EMPTY_TRIM);
	test_err_pool_create(ENOENT, other, id);
	EXPECT_SAME(before, test_pool_stat(pool, default_pool));
}

TEST_F(pool, P17_empty_touches_one_device)
{
	struct devpool_pool_stat before;
	struct devpool_stats stats;
	int index;
	int other;

	index = test_find(variant->kind == TEST_NULL ? TEST_SYSMEM : TEST_NULL);
	if (index < 0)
		SKIP(return, "there is no second device");
	other = test_open(index);
	test_free(other, test_alloc(other, default_pool, 8 * MIB));
	test_free(self->fd, test_alloc(self->fd, default_pool, 8 * MIB));
	before = test_pool_stat(other, default_pool);
	stats = test_stats(other);
	test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(0, USED());
	EXPECT_SAME(before, test_pool_stat(other, default_pool));
	EXPECT_SAME(stats, test_stats(other));
	EXPECT_EQ(8 * MIB, devpool_sysfs(index, "used"));
}

TEST_HARNESS_MAIN
