// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools: their life, whose cache goes when, and that it is nobody else's.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>

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
	struct devpool_pool_stat before, theirs;
	struct devpool_pool_id id, their_id;
	struct test_base base;
	__u64 addr;
	int index;
	int other;
	int pool;

	index = test_find(variant->kind == TEST_NULL ? TEST_SYSMEM : TEST_NULL);
	if (index < 0)
		SKIP(return, "there is no second device");
	pool = test_pool_create(self->fd, &id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	addr = test_alloc(self->fd, id, 512);
	before = test_pool_stat(pool, default_pool);
	other = test_open(index);
	test_pool_create(other, &their_id);
	theirs = test_pool_stat(other, their_id);
	base = test_base(index);
	test_err_pool_stat(ENOENT, other, id);
	test_err_alloc(ENOENT, other, id, 1);
	test_err_empty_cache(ENOENT, other, id, DEVPOOL_EMPTY_TRIM);
	test_err_pool_create(ENOENT, other, id);
	test_err_pool_get(ENOENT, other, id);
	test_err_pool_put(ENOENT, other, id);
	test_err_route_begin(ENOENT, other, id, DEVPOOL_SCOPE_ALL);
	test_err_route_end(ENOENT, other, id, DEVPOOL_SCOPE_ALL);
	test_err_pool_attach(EINVAL, other, pool);
	test_err_retain(ENOENT, other, addr);
	EXPECT_SAME(before, test_pool_stat(pool, default_pool));
	EXPECT_SAME(theirs, test_pool_stat(other, their_id));
	EXPECT_BASE(base, index);
	/* It is the same the other way round. */
	EXPECT_EQ(2, test_pool_get(self->fd, id));
	test_err_pool_put(ENOENT, other, id);
	EXPECT_EQ(1, test_pool_put(self->fd, id));
}

/* Both have a cache in the default pool, in a live and in a freeable one. */
TEST_F(pool, P17_empty_touches_one_device)
{
	struct devpool_pool_id live[2], freeable[2];
	struct devpool_pool_stat before[3];
	struct devpool_stats stats;
	struct test_base base;
	int index;
	int fd[2];
	int i;

	index = test_find(variant->kind == TEST_NULL ? TEST_SYSMEM : TEST_NULL);
	if (index < 0)
		SKIP(return, "there is no second device");
	fd[0] = self->fd;
	fd[1] = test_open(index);
	for (i = 0; i < 2; i++) {
		test_free(fd[i], test_alloc(fd[i], default_pool, 8 * MIB));
		test_pool_create(fd[i], &live[i]);
		test_free(fd[i], test_alloc(fd[i], live[i], 8 * MIB));
		freeable[i] = test_pool_id(fd[i], 0);
		test_pool_get(fd[i], freeable[i]);
		test_free(fd[i], test_alloc(fd[i], freeable[i], 8 * MIB));
		EXPECT_EQ(0, test_pool_put(fd[i], freeable[i]));
	}
	before[0] = test_pool_stat(fd[1], default_pool);
	before[1] = test_pool_stat(fd[1], live[1]);
	before[2] = test_pool_stat(fd[1], freeable[1]);
	stats = test_stats(fd[1]);
	base = test_base(index);
	EXPECT_EQ(16 * MIB, test_empty_cache(fd[0], default_pool, 0, 0).out_freed);
	EXPECT_EQ(8 * MIB, test_empty_cache(fd[0], live[0], DEVPOOL_EMPTY_TRIM, 0).out_freed);
	EXPECT_EQ(0, USED());
	EXPECT_SAME(before[0], test_pool_stat(fd[1], default_pool));
	EXPECT_SAME(before[1], test_pool_stat(fd[1], live[1]));
	EXPECT_SAME(before[2], test_pool_stat(fd[1], freeable[1]));
	EXPECT_SAME(stats, test_stats(fd[1]));
	EXPECT_BASE(base, index);
	EXPECT_EQ(24 * MIB, devpool_sysfs(index, "used"));
}

/* Ids and references by them, on a device without end */

FIXTURE(ids)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_SETUP(ids)
{
	test_setup(self, TEST_NULL);
}

FIXTURE_TEARDOWN(ids)
{
	close(self->fd);
}

#define MINTERS 4
#define MINTED 200

struct minter {
	pthread_barrier_t *barrier;
	struct devpool_pool_id id[MINTED];
	int error;
	int fd;
};

/* By turns an id alone, an id with its pool, and an id whose pool is got. */
static void *mint(void *p)
{
	struct minter *m = p;
	int i, pool;

	pthread_barrier_wait(m->barrier);
	for (i = 0; i < MINTED && !m->error; i++) {
		switch (i % 3) {
		case 0:
			m->error = devpool_pool_id_raw(m->fd, 0, &m->id[i]);
			break;
		case 1:
			m->error = devpool_pool_create_raw(m->fd, &m->id[i], &pool);
			close(pool);
			break;
		case 2:
			m->error = devpool_pool_id_raw(m->fd, 0, &m->id[i]);
			if (!m->error && devpool_pool_get_raw(m->fd, m->id[i]) != 1)
				m->error = __LINE__;
			break;
		}
		sched_yield();
	}
	return NULL;
}

static int by_number(const void *p, const void *q)
{
	const struct devpool_pool_id *a = p, *b = q;

	return a->second < b->second ? -1 : a->second > b->second;
}

TEST_F(ids, P06_many_threads_mint_and_create)
{
	static struct devpool_pool_id all[MINTERS * MINTED];
	static struct minter m[MINTERS];
	pthread_barrier_t barrier;
	pthread_t thread[MINTERS];
	int i, j;

	pthread_barrier_init(&barrier, NULL, MINTERS);
	for (i = 0; i < MINTERS; i++) {
		m[i].barrier = &barrier;
		m[i].fd = self->fd;
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, mint, &m[i]));
	}
	for (i = 0; i < MINTERS; i++) {
		pthread_join(thread[i], NULL);
		ASSERT_EQ(0, m[i].error);
		for (j = 0; j < MINTED; j++) {
			EXPECT_EQ(0, m[i].id[j].first);
			if (j)
				EXPECT_LT(m[i].id[j - 1].second, m[i].id[j].second);
		}
		memcpy(&all[i * MINTED], m[i].id, sizeof(m[i].id));
	}
	qsort(all, MINTERS * MINTED, sizeof(all[0]), by_number);
	for (i = 1; i < MINTERS * MINTED; i++)
		EXPECT_NE(all[i - 1].second, all[i].second);
	EXPECT_EQ(self->base.pools + MINTERS * (MINTED / 3), devpool_sysfs(self->index, "pools"));
}

TEST_F(pool, P08_a_freeable_pool_is_got_again)
{
	struct devpool_pool_stat before, stat;
	struct devpool_pool_id id;
	char *x = NULL;
	__u64 addr;

	id = test_pool_id(self->fd, 0);
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_EQ(1, test_pool_get(self->fd, id));
	addr = test_alloc(self->fd, id, 3 * MIB);
	test_free(self->fd, test_alloc(self->fd, id, 8 * MIB));
	if (variant->kind == TEST_SYSMEM) {
		x = test_map(self->fd, addr, 3 * MIB);
		test_fill(x, 3 * MIB, 0x8000000000000000ULL);
	}
	before = test_pool_stat(self->fd, id);
	EXPECT_EQ(1, before.out_use_count);
	EXPECT_EQ(0, test_pool_put(self->fd, id));
	stat = test_pool_stat(self->fd, id);
	EXPECT_EQ(0, stat.out_use_count);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, stat.out_state);
	/* Nothing else has changed: the cache is kept. */
	stat.out_use_count = before.out_use_count;
	stat.out_state = before.out_state;
	EXPECT_SAME(before, stat);
	test_err_alloc(ENOENT, self->fd, id, 512);

	EXPECT_EQ(1, test_pool_get(self->fd, id));
	stat = test_pool_stat(self->fd, id);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, stat.out_state);
	EXPECT_SAME(before, stat);
	if (x)
		EXPECT_EQ(-1, test_differs(x, 3 * MIB, 0x8000000000000000ULL));
	test_alloc(self->fd, id, 8 * MIB);
	EXPECT_EQ(before.out_hits + 1, test_pool_stat(self->fd, id).out_hits);
	test_free(self->fd, addr);
	EXPECT_EQ(12 * MIB, test_resident(self->fd, id));
}

/* What nothing refers to and has nothing is gone, its number is not. */
TEST_F(pool, P08_a_pool_that_is_gone_is_made_anew)
{
	struct devpool_pool_stat stat;
	struct test_base base;
	struct devpool_pool_id id;
	int pool;
	int i;

	base = test_base(self->index);
	id = test_pool_id(self->fd, 0);
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(1, test_pool_get(self->fd, id));
		stat = test_pool_stat(self->fd, id);
		EXPECT_EQ(0, stat.out_blocks.in);
		EXPECT_EQ(0, stat.out_resident.peak);
		test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
		test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM, 0);
		EXPECT_EQ(base.pools + 1, devpool_sysfs(self->index, "pools"));
		EXPECT_EQ(0, test_pool_put(self->fd, id));
		EXPECT_BASE(base, self->index);
		test_err_pool_stat(ENOENT, self->fd, id);
		test_err_pool_put(ENOENT, self->fd, id);
	}
	/* By either command */
	ASSERT_EQ(0, devpool_pool_create_raw(self->fd, &id, &pool));
	test_err_pool_create(EBUSY, self->fd, id);
	close(pool);
	EXPECT_EQ(1, test_pool_get(self->fd, id));
	test_err_pool_create(EBUSY, self->fd, id);
}

/* A pool that never had a file keeps its cache, whoever empties another one. */
TEST_F(pool, P08_a_freeable_pool_keeps_its_cache_until_it_is_emptied)
{
	struct devpool_empty_cache r;
	struct devpool_pool_id p, q;
	__u64 addr;

	p = test_pool_id(self->fd, 0);
	q = test_pool_id(self->fd, 0);
	test_pool_get(self->fd, p);
	test_pool_get(self->fd, q);
	test_free(self->fd, test_alloc(self->fd, p, 8 * MIB));
	test_free(self->fd, test_alloc(self->fd, q, 4 * MIB));
	addr = test_alloc(self->fd, p, 4 * MIB);
	test_pool_put(self->fd, p);
	test_pool_put(self->fd, q);
	/* FREE in a freeable pool of this kind fills its cache. */
	test_free(self->fd, addr);
	EXPECT_EQ(8 * MIB, test_resident(self->fd, p));
	r = test_empty_cache(self->fd, q, 0, 0);
	EXPECT_EQ(4 * MIB, r.out_freed);
	EXPECT_EQ(DEVPOOL_STATE_GONE, r.out_state);
	test_err_pool_stat(ENOENT, self->fd, q);
	EXPECT_EQ(8 * MIB, test_resident(self->fd, p));
	EXPECT_EQ(8 * MIB, USED());
	r = test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(8 * MIB, r.out_freed);
	test_err_pool_stat(ENOENT, self->fd, p);
	EXPECT_EQ(0, USED());
}

TEST_F(pool, P08_a_freeable_pool_goes_with_its_client)
{
	struct devpool_pool_id id;
	struct test_base base;
	int other;

	base = test_base(self->index);
	other = test_open(self->index);
	id = test_pool_id(other, 0);
	test_pool_get(other, id);
	test_free(other, test_alloc(other, id, 8 * MIB));
	test_alloc(other, id, 512);
	test_pool_put(other, id);
	EXPECT_EQ(base.pools + 1, devpool_sysfs(self->index, "pools"));
	close(other);
	EXPECT_BASE(base, self->index);
}

/* And so does a live one that has no file. */
TEST_F(pool, a_live_pool_without_a_file_goes_with_its_client)
{
	struct devpool_pool_id id;
	struct test_base base;
	int other;

	base = test_base(self->index);
	other = test_open(self->index);
	id = test_pool_id(other, DEVPOOL_POOL_ID_CAPTURE);
	test_pool_get(other, id);
	test_pool_get(other, id);
	test_free(other, test_alloc(other, id, 8 * MIB));
	EXPECT_EQ(8 * MIB, USED());
	close(other);
	EXPECT_BASE(base, self->index);
}

/* A pool that has had a file flushes itself, whichever reference was last. */
TEST_F(pool, a_put_flushes_a_pool_that_had_a_file)
{
	struct devpool_pool_id id;
	struct test_base base;
	__u64 addr;
	int pool;

	base = test_base(self->index);
	pool = test_pool_create(self->fd, &id);
	EXPECT_EQ(2, test_pool_get(self->fd, id));
	test_free(self->fd, test_alloc(self->fd, id, 8 * MIB));
	close(pool);
	EXPECT_EQ(8 * MIB, test_resident(self->fd, id));
	EXPECT_EQ(DEVPOOL_STATE_LIVE, test_pool_stat(self->fd, id).out_state);
	addr = test_alloc(self->fd, id, 2 * MIB);
	EXPECT_EQ(0, test_pool_put(self->fd, id));
	EXPECT_EQ(2 * MIB, test_resident(self->fd, id));
	EXPECT_EQ(1, test_pool_get(self->fd, id));
	/* Live again, it keeps its cache again, */
	test_free(self->fd, addr);
	EXPECT_EQ(2 * MIB, USED());
	/* and flushes itself again. */
	EXPECT_EQ(0, test_pool_put(self->fd, id));
	EXPECT_BASE(base, self->index);
	test_err_pool_stat(ENOENT, self->fd, id);
	/* What is made anew by GET never had a file. */
	EXPECT_EQ(1, test_pool_get(self->fd, id));
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	EXPECT_EQ(0, test_pool_put(self->fd, id));
	EXPECT_EQ(4 * MIB, test_resident(self->fd, id));
}

TEST_F(pool, every_reference_counts)
{
	struct devpool_pool_id id;
	int pool;
	int i;

	pool = test_pool_create(self->fd, &id);
	for (i = 1; i <= 1000; i++)
		ASSERT_EQ(1 + i, test_pool_get(self->fd, id));
	close(pool);
	EXPECT_EQ(1000, test_use_count(self->fd, id));
	for (i = 999; i >= 0; i--)
		ASSERT_EQ(i, test_pool_put(self->fd, id));
	test_err_pool_put(ENOENT, self->fd, id);
	test_err_pool_stat(ENOENT, self->fd, id);
}

/* A call that fails leaves the pool, its client and the device as they were. */
#define UNCHANGED(id, call)							\
do {										\
	struct devpool_pool_stat _pool = test_pool_stat(self->fd, id);		\
	struct devpool_stats _all = test_stats(self->fd);			\
	struct test_base _base = test_base(self->index);			\
										\
	call;									\
	EXPECT_SAME(_pool, test_pool_stat(self->fd, id));			\
	EXPECT_SAME(_all, test_stats(self->fd));				\
	EXPECT_BASE(_base, self->index);					\
} while (0)

TEST_F(pool, P09_a_put_beyond_one_s_own_references)
{
	struct devpool_pool_id p, q;
	int pool;

	/* One reference is the file's. */
	pool = test_pool_create(self->fd, &p);
	test_alloc(self->fd, p, MIB);
	UNCHANGED(p, test_err_pool_put(ENOENT, self->fd, p));
	EXPECT_EQ(2, test_pool_get(self->fd, p));
	EXPECT_EQ(1, test_pool_put(self->fd, p));
	UNCHANGED(p, test_err_pool_put(ENOENT, self->fd, p));
	/* Another one is a route's. */
	test_route_begin(self->fd, p, DEVPOOL_SCOPE_ALL);
	UNCHANGED(p, test_err_pool_put(ENOENT, self->fd, p));
	test_route_end(self->fd, p, DEVPOOL_SCOPE_ALL);
	/* A freeable pool has none at all. */
	close(pool);
	UNCHANGED(p, test_err_pool_put(ENOENT, self->fd, p));
	q = test_pool_id(self->fd, 0);
	test_pool_get(self->fd, q);
	test_alloc(self->fd, q, MIB);
	EXPECT_EQ(0, test_pool_put(self->fd, q));
	UNCHANGED(q, test_err_pool_put(ENOENT, self->fd, q));
}

TEST_F(pool, P09_a_put_of_another_client_s_reference)
{
	struct devpool_pool_id id;
	int other;

	other = test_open(self->index);
	id = test_pool_id(self->fd, 0);
	test_pool_get(self->fd, id);
	test_pool_get(self->fd, id);
	test_alloc(self->fd, id, MIB);
	UNCHANGED(id, test_err_pool_put(ENOENT, other, id));
	UNCHANGED(id, test_err_pool_get(ENOENT, other, id));
	EXPECT_EQ(2, test_use_count(self->fd, id));
}

/* As two libraries of one process do that share a descriptor's number */
TEST_F(pool, P09_closed_twice)
{
	struct devpool_pool_id id, other;
	int pool, twin;

	pool = test_pool_create(self->fd, &id);
	test_pool_get(self->fd, id);
	test_alloc(self->fd, id, MIB);
	twin = dup(pool);
	ASSERT_LE(0, twin);
	test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	UNCHANGED(id, test_err_empty_cache(ENOENT, twin, default_pool, DEVPOOL_EMPTY_RELEASE));
	close(pool);
	UNCHANGED(id, test_err_empty_cache(ENOENT, twin, default_pool, DEVPOOL_EMPTY_RELEASE));
	UNCHANGED(id, close(twin));
	EXPECT_EQ(-EBADF, devpool_pool_stat_raw(twin, default_pool,
						&(struct devpool_pool_stat){}));
	EXPECT_EQ(1, test_use_count(self->fd, id));
	/* The number is another pool's by now: that one's reference is its own. */
	pool = test_pool_create(self->fd, &other);
	EXPECT_EQ(0, test_pool_put(self->fd, id));
	UNCHANGED(other, test_err_pool_put(ENOENT, self->fd, id));
}

/* No id but those that were minted, and these by whom and as they were minted */
TEST_F(pool, P09_ids_that_are_none)
{
	struct devpool_pool_id p, user, capture, theirs, id[12];
	int n = 0;
	int other;
	int i;

	other = test_open(self->index);
	test_pool_create(self->fd, &p);
	theirs = test_pool_id(other, 0);
	user = test_pool_id(self->fd, 0);
	capture = test_pool_id(self->fd, DEVPOOL_POOL_ID_CAPTURE);
	/* another client's, with a pool and without */
	id[n++] = theirs;
	/* one's own, the wrong way round, and both ways at once */
	id[n++] = (struct devpool_pool_id){ user.second, 0 };
	id[n++] = (struct devpool_pool_id){ 0, capture.first };
	id[n++] = (struct devpool_pool_id){ user.second, user.second };
	id[n++] = (struct devpool_pool_id){ capture.first, capture.first };
	id[n++] = (struct devpool_pool_id){ p.second, 0 };
	id[n++] = (struct devpool_pool_id){ capture.first, user.second };
	/* not yet minted */
	id[n++] = (struct devpool_pool_id){ 0, user.second + 2 };
	id[n++] = (struct devpool_pool_id){ capture.first + 2, 0 };
	/* no client's */
	id[n++] = (struct devpool_pool_id){ 0, 1 };
	id[n++] = (struct devpool_pool_id){ -1ULL, 0 };
	id[n++] = (struct devpool_pool_id){ 0, -1ULL };
	for (i = 0; i < n; i++) {
		UNCHANGED(p, test_err_pool_get(ENOENT, self->fd, id[i]));
		UNCHANGED(p, test_err_pool_put(ENOENT, self->fd, id[i]));
		UNCHANGED(p, test_err_pool_create(ENOENT, self->fd, id[i]));
		UNCHANGED(p, test_err_pool_stat(ENOENT, self->fd, id[i]));
		UNCHANGED(p, test_err_alloc(ENOENT, self->fd, id[i], 512));
		UNCHANGED(p, test_err_empty_cache(ENOENT, self->fd, id[i], DEVPOOL_EMPTY_TRIM));
		UNCHANGED(p, test_err_route_begin(ENOENT, self->fd, id[i], DEVPOOL_SCOPE_ALL));
		UNCHANGED(p, test_err_route_end(ENOENT, self->fd, id[i], DEVPOOL_SCOPE_ALL));
		if (_metadata->exit_code)
			TH_LOG("id %d: {%llx,%llx}", i, id[i].first, id[i].second);
	}
	/* Nor with a pool behind it */
	test_pool_get(other, theirs);
	UNCHANGED(p, test_err_pool_get(ENOENT, self->fd, theirs));
	UNCHANGED(p, test_err_route_begin(ENOENT, self->fd, theirs, DEVPOOL_SCOPE_THREAD));
	EXPECT_EQ(1, test_use_count(other, theirs));
}

/* Of an id whose pool is not there only its making works. */
TEST_F(pool, P09_ids_that_are_minted_and_not_used)
{
	struct devpool_pool_id p, id;
	int i;

	test_pool_create(self->fd, &p);
	for (i = 0; i < 2; i++) {
		id = test_pool_id(self->fd, i ? DEVPOOL_POOL_ID_CAPTURE : 0);
		UNCHANGED(p, test_err_pool_put(ENOENT, self->fd, id));
		UNCHANGED(p, test_err_pool_stat(ENOENT, self->fd, id));
		UNCHANGED(p, test_err_alloc(ENOENT, self->fd, id, 512));
		UNCHANGED(p, test_err_empty_cache(ENOENT, self->fd, id, 0));
		UNCHANGED(p, test_err_route_begin(ENOENT, self->fd, id, DEVPOOL_SCOPE_ALL));
		UNCHANGED(p, test_err_route_end(ENOENT, self->fd, id, DEVPOOL_SCOPE_ALL));
		EXPECT_EQ(1, test_pool_get(self->fd, id));
	}
}

TEST_F(pool, no_pool_is_named)
{
	struct devpool_pool_id p;
	int pool;

	pool = test_pool_create(self->fd, &p);
	UNCHANGED(p, test_err_pool_get(EINVAL, self->fd, default_pool));
	UNCHANGED(p, test_err_pool_put(EINVAL, self->fd, default_pool));
	/* An id and a file; a file without the flag that names it */
	UNCHANGED(p, test_err_pool_get_any(EINVAL, self->fd, DEVPOOL_POOL_GET_FD, p, pool));
	UNCHANGED(p, test_err_pool_get_any(EINVAL, self->fd, 0, p, pool));
	UNCHANGED(p, test_err_pool_get_any(EINVAL, self->fd, 0, p, -1));
	UNCHANGED(p, test_err_pool_get_any(EINVAL, self->fd, 0, default_pool, pool));
}

TEST_F(pool, files_that_are_no_pool_files)
{
	struct devpool_pool_id p;
	int file[9];
	int ends[2];
	int n = 0;
	int i;

	test_pool_create(self->fd, &p);
	ASSERT_EQ(0, pipe2(ends, O_CLOEXEC));
	file[n++] = open("/dev/null", O_RDWR | O_CLOEXEC);
	file[n++] = open("/", O_PATH | O_CLOEXEC);
	file[n++] = eventfd(0, EFD_CLOEXEC);
	file[n++] = ends[0];
	file[n++] = self->fd;
	/* a number that was a pool file's */
	file[n] = test_pool_create(self->fd, &p);
	test_pool_get(self->fd, p);
	close(file[n++]);
	file[n++] = -1;
	file[n++] = INT_MAX;
	file[n++] = INT_MIN;
	for (i = 0; i < n; i++) {
		UNCHANGED(p, test_err_pool_attach(EBADF, self->fd, file[i]));
		if (_metadata->exit_code)
			TH_LOG("file %d", i);
	}
}

TEST_F(pool, a_pool_file_that_was_released_leads_nowhere)
{
	struct devpool_pool_id id;
	int other;
	int pool;

	other = test_open(self->index);
	pool = test_pool_create(self->fd, &id);
	test_alloc(self->fd, id, MIB);
	test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	UNCHANGED(id, test_err_pool_attach(ENOENT, self->fd, pool));
	UNCHANGED(id, test_err_pool_attach(ENOENT, other, pool));
	test_err_pool_stat(ENOENT, other, id);
	/* Not even when the pool lives on */
	test_pool_get(self->fd, id);
	UNCHANGED(id, test_err_pool_attach(ENOENT, other, pool));
}

/* An id for a capture names a pool like any other. */
TEST_F(pool, ids_for_captures)
{
	struct devpool_pool_id id, last = {};
	__u64 user = 0;
	int pool;
	int i;

	/* Each is larger than those of its kind before, and none is both. */
	for (i = 0; i < 100; i++) {
		id = test_pool_id(self->fd, i % 3 ? DEVPOOL_POOL_ID_CAPTURE : 0);
		if (i % 3) {
			EXPECT_EQ(0, id.second);
			EXPECT_LT(last.first, id.first);
			EXPECT_NE(user, id.first);
			last = id;
		} else {
			EXPECT_EQ(0, id.first);
			EXPECT_LT(user, id.second);
			EXPECT_NE(last.first, id.second);
			user = id.second;
		}
	}
	EXPECT_EQ(0, devpool_sysfs(self->index, "pools"));
	ASSERT_EQ(0, devpool_pool_create_raw(self->fd, &last, &pool));
	EXPECT_LT(0, last.first);
	EXPECT_EQ(0, last.second);
	EXPECT_EQ(2, test_pool_get(self->fd, last));
	test_alloc(self->fd, last, 3 * MIB);
	EXPECT_EQ(3 * MIB, test_pool_stat(pool, default_pool).out_allocated.current);
	close(pool);
	EXPECT_EQ(0, test_pool_put(self->fd, last));
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, test_pool_stat(self->fd, last).out_state);
}

static __u64 by_stat(int fd, int pool, int info)
{
	struct devpool_pool_stat stat;

	return devpool_pool_stat_raw(pool, default_pool, &stat) ? -1ULL :
	       stat.out_resident.current;
}

/* Text has no number to check, and no end without one. */
static __u64 by_fdinfo(int fd, int pool, int info)
{
	char text[4096];

	return pread(info, text, sizeof(text), 0) > 0;
}

/* Nanoseconds of 100 calls, when nothing else came in between */
static __u64 cost_of(__u64 (*ask)(int fd, int pool, int info), int fd, int pool, int info)
{
	__u64 least = -1ULL, start, spent;
	int i, j;

	for (i = 0; i < 50; i++) {
		start = test_now();
		for (j = 0; j < 100; j++)
			if (!ask(fd, pool, info))
				return 0;
		spent = test_now() - start;
		least = spent < least ? spent : least;
	}
	return least;
}

/* More than the noise of a busy machine, far less than a walk over the blocks. */
TEST_F_TIMEOUT(ids, P20_asking_costs_the_same_with_100000_cached_blocks, 120)
{
	int cached = test_times(100000), blocks = 2 * cached + 1;
	__u64 stat[2], fdinfo[2], client[2];
	struct devpool_pool_id id;
	int i, pool, info, own;
	char path[64];
	__u64 *addr;

	addr = calloc(blocks, sizeof(*addr));
	ASSERT_NE(NULL, addr);
	pool = test_pool_create(self->fd, &id);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pool);
	info = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, info);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->fd);
	own = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, own);
	for (i = 0; i < blocks; i++)
		addr[i] = test_alloc(self->fd, id, 512);
	test_free(self->fd, addr[0]);
	stat[0] = cost_of(by_stat, self->fd, pool, info);
	fdinfo[0] = cost_of(by_fdinfo, self->fd, pool, info);
	client[0] = cost_of(by_fdinfo, self->fd, pool, own);
	for (i = 2; i < blocks; i += 2)
		test_free(self->fd, addr[i]);
	EXPECT_EQ(cached, test_pool_stat(pool, default_pool).out_blocks.current);
	stat[1] = cost_of(by_stat, self->fd, pool, info);
	fdinfo[1] = cost_of(by_fdinfo, self->fd, pool, info);
	client[1] = cost_of(by_fdinfo, self->fd, pool, own);
	TH_LOG("100 POOL_STAT %llu ns, then %llu ns", stat[0], stat[1]);
	TH_LOG("100 fdinfo of the pool file %llu ns, then %llu ns", fdinfo[0], fdinfo[1]);
	TH_LOG("100 fdinfo of the device file %llu ns, then %llu ns", client[0], client[1]);
	EXPECT_NE(0, stat[0]);
	EXPECT_NE(0, fdinfo[0]);
	EXPECT_NE(0, client[0]);
	/* A debug kernel's own work takes what time it likes. */
	if (test_slow() > 1)
		return;
	EXPECT_GT(10 * stat[0], stat[1]);
	EXPECT_GT(10 * fdinfo[0], fdinfo[1]);
	EXPECT_GT(10 * client[0], client[1]);
}

/* An id is a number. What one took to note it would be 8 bytes at the least. */
TEST_F_TIMEOUT(ids, P23_ids_hold_nothing, 60)
{
	struct devpool_stats before = test_stats(self->fd);
	struct test_base base = test_base(self->index);
	struct devpool_pool_id id;
	__u64 number, last = 0;
	long long kernel;
	int i;

	kernel = test_meminfo("Slab") + test_meminfo("VmallocUsed");
	for (i = 0; i < 100000; i++) {
		id = test_pool_id(self->fd, i & 1 ? DEVPOOL_POOL_ID_CAPTURE : 0);
		number = id.first | id.second;
		ASSERT_LT(last, number);
		last = number;
	}
	EXPECT_GT(512 * 1024, test_meminfo("Slab") + test_meminfo("VmallocUsed") - kernel);
	EXPECT_BASE(base, self->index);
	EXPECT_SAME(before, test_stats(self->fd));
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_EQ(1, test_pool_get(self->fd, id));
}

/*
 * Two threads make or get the pool of one id in the same moment. They go through
 * some ids together, and each time wait until both have arrived.
 */
#define MADE 100

struct maker {
	const struct devpool_pool_id *id;
	int *arrived;
	bool create;
	int fd;
	int result[MADE];
	int pool[MADE];
};

static void *make(void *p)
{
	struct maker *m = p;
	int i, spins;

	for (i = 0; i < MADE; i++) {
		struct devpool_pool_id id = m->id[i];

		__atomic_fetch_add(m->arrived, 1, __ATOMIC_SEQ_CST);
		for (spins = 1; __atomic_load_n(m->arrived, __ATOMIC_SEQ_CST) < 2 * i + 2; spins++)
			if (spins % 20000 == 0)
				/* The other one may have no processor. */
				usleep(50);
		m->result[i] = m->create ?
			       devpool_pool_create_raw(m->fd, &id, &m->pool[i]) :
			       devpool_pool_get_raw(m->fd, id);
	}
	return NULL;
}

static int open_files(void)
{
	int fd, n = 0;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#define test_make_at_once(batches, first, second, check)			\
do {										\
	struct maker _m[2] = { { .create = first }, { .create = second } };	\
	struct test_base _base = test_base(self->index);			\
	struct devpool_pool_id _id[MADE];					\
	int _files = open_files();						\
	int _arrived, _batch, _i;						\
	pthread_t _thread;							\
										\
	for (_batch = 0; _batch < (batches); _batch++) {				\
		for (_i = 0; _i < MADE; _i++)					\
			_id[_i] = test_pool_id(self->fd, 0);			\
		_arrived = 0;							\
		for (_i = 0; _i < 2; _i++) {					\
			_m[_i].id = _id;					\
			_m[_i].arrived = &_arrived;				\
			_m[_i].fd = self->fd;					\
		}								\
		ASSERT_EQ(0, pthread_create(&_thread, NULL, make, &_m[1]));	\
		make(&_m[0]);							\
		pthread_join(_thread, NULL);					\
		EXPECT_EQ(_base.pools + MADE,					\
			  devpool_sysfs(self->index, "pools"));			\
		for (_i = 0; _i < MADE; _i++)					\
			check(_id[_i], _m[0].result[_i], _m[1].result[_i],	\
			      (_m[0].result[_i] ? _m[1] : _m[0]).pool[_i]);	\
		EXPECT_BASE(_base, self->index);				\
		/* Who has failed has no file. */				\
		EXPECT_EQ(_files, open_files());				\
	}									\
	TH_LOG("the first was first in %d of %d", won, (batches) * MADE);		\
} while (0)

/* file: that of the one who has created the pool, if any of them has */
#define CHECK_GETS(id, a, b, file)						\
do {										\
	(void)(file);								\
	EXPECT_EQ(3, (a) + (b));						\
	EXPECT_EQ(2, (a) * (b));						\
	won += (a) == 1;							\
	EXPECT_EQ(2, test_use_count(self->fd, id));				\
	EXPECT_EQ(1, test_pool_put(self->fd, id));				\
	EXPECT_EQ(0, test_pool_put(self->fd, id));				\
	test_err_pool_put(ENOENT, self->fd, id);				\
} while (0)

TEST_F_TIMEOUT(ids, P24_got_twice_at_once, 60)
{
	int won = 0;

	test_make_at_once(10, false, false, CHECK_GETS);
}

#define CHECK_CREATES(id, a, b, file)						\
do {										\
	EXPECT_EQ(-EBUSY, (a) + (b));						\
	EXPECT_EQ(0, (a) * (b));						\
	won += !(a);								\
	EXPECT_EQ(1, test_use_count(self->fd, id));				\
	EXPECT_EQ(0, close(file));						\
	test_err_pool_stat(ENOENT, self->fd, id);				\
} while (0)

TEST_F_TIMEOUT(ids, P24_created_twice_at_once, 60)
{
	int won = 0;

	test_make_at_once(3, true, true, CHECK_CREATES);
}

/* Either it is created and then got, or got and then cannot be created. */
#define CHECK_MIX(id, a, b, file)						\
do {										\
	EXPECT_EQ((a) ? -EBUSY : 0, a);						\
	EXPECT_EQ((a) ? 1 : 2, b);						\
	EXPECT_EQ(b, test_use_count(self->fd, id));				\
	won += !(a);								\
	if (!(a))								\
		close(file);							\
	EXPECT_EQ(0, test_pool_put(self->fd, id));				\
} while (0)

TEST_F_TIMEOUT(ids, P24_created_and_got_at_once, 60)
{
	int won = 0;

	test_make_at_once(3, true, false, CHECK_MIX);
}

TEST_F(ids, P27_each_command_as_the_very_first)
{
	struct devpool_pool_id id, theirs;
	struct devpool_stats stats;
	struct test_base base;
	int fd, pool;

	pool = test_pool_create(self->fd, &id);
	base = test_base(self->index);
	fd = test_open(self->index);
	theirs = test_pool_id(fd, 0);
	EXPECT_EQ(1, test_pool_get(fd, theirs));
	close(fd);
	fd = test_open(self->index);
	test_pool_id(fd, DEVPOOL_POOL_ID_CAPTURE);
	close(fd);
	fd = test_open(self->index);
	close(test_pool_create(fd, &theirs));
	close(fd);
	fd = test_open(self->index);
	EXPECT_EQ(2, test_pool_attach(fd, pool, &theirs));
	EXPECT_TRUE(test_is_id(id, theirs));
	close(fd);
	fd = test_open(self->index);
	stats = test_stats(fd);
	EXPECT_EQ(0, stats.out_resident.in);
	EXPECT_EQ(0, stats.out_blocks.in);
	close(fd);
	/* And what cannot work */
	fd = test_open(self->index);
	test_err_pool_get(ENOENT, fd, id);
	close(fd);
	fd = test_open(self->index);
	test_err_pool_put(ENOENT, fd, id);
	close(fd);
	fd = test_open(self->index);
	test_err_route_begin(ENOENT, fd, id, DEVPOOL_SCOPE_THREAD);
	close(fd);
	fd = test_open(self->index);
	test_err_route_end(ENOENT, fd, id, DEVPOOL_SCOPE_THREAD);
	close(fd);
	fd = test_open(self->index);
	test_err_retain(ENOENT, fd, 1ULL << 26);
	close(fd);
	EXPECT_BASE(base, self->index);
	EXPECT_EQ(1, test_use_count(self->fd, id));
}

TEST_HARNESS_MAIN
