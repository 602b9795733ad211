// SPDX-License-Identifier: GPL-2.0-only
/*
 * User streams: memory that somebody still uses, who gets it when, and who waits
 * for whom. Fenced streams are in fence.c.
 */
#include <pthread.h>

#include "devpool_test.h"

FIXTURE(stream)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u32 s1, s2;
	__u64 chunk;
	int pool;
	int index;
	int fd;
};

FIXTURE_VARIANT(stream)
{
	enum test_kind kind;
	/* what S4 is measured in */
	__u64 unit;
};

FIXTURE_VARIANT_ADD(stream, sysmem) { .kind = TEST_SYSMEM, .unit = 8 * MIB };
FIXTURE_VARIANT_ADD(stream, null) { .kind = TEST_NULL, .unit = 40 * MIB };

FIXTURE_SETUP(stream)
{
	test_setup(self, variant->kind);
	self->chunk = self->info.out_chunk;
	self->pool = test_pool_create(self->fd, &self->id);
	self->s1 = test_stream(self->fd, 0);
	self->s2 = test_stream(self->fd, 0);
}

FIXTURE_TEARDOWN(stream)
{
	struct devpool_pool_stat stat = test_pool_stat(self->fd, self->id);

	EXPECT_POOL_SOUND(stat);
	close(self->pool);
	close(self->fd);
	EXPECT_BASE(self->base, self->index);
}

#define USED() ((__u64)devpool_sysfs(self->index, "used"))
#define MS 1000000LL
#define FOREVER INT64_MAX

/* A block of P that S2 uses when it is freed: pending until the point. */
#define MAKE_PENDING(bytes, point)						\
({										\
	__u64 _x = test_alloc(self->fd, self->id, bytes);			\
										\
	*(point) = test_submit(self->fd, self->s2);				\
	test_record(self->fd, _x, self->s2);					\
	test_free(self->fd, _x);						\
	_x;									\
})

/* A cached block of P that is S1's until the point. */
#define MAKE_GUARDED(bytes, point)						\
({										\
	__u64 _x = test_alloc_on(self->fd, self->id, bytes, self->s1);		\
										\
	*(point) = test_submit(self->fd, self->s1);				\
	test_free(self->fd, _x);						\
	_x;									\
})

/* Whatever somebody else does a moment later */
struct later {
	pthread_t thread;
	int ms;
	int ret;
	int fd;
	__u64 addr;
	__u32 stream;
	__u64 point;
	struct devpool_pool_id id;
	int (*act)(struct later *later);
};

static int later_signals(struct later *later)
{
	return devpool_stream_signal_raw(later->fd, later->stream, later->point);
}

static int later_frees(struct later *later)
{
	return devpool_free_raw(later->fd, later->addr);
}

static int later_destroys(struct later *later)
{
	return devpool_stream_destroy_raw(later->fd, later->stream);
}

static int later_closes(struct later *later)
{
	return close(later->fd);
}

/* The limit of the pool file's pool, or of the client */
static int later_raises(struct later *later)
{
	__u64 value;

	return devpool_pool_attr_raw(later->fd, default_pool, DEVPOOL_POOL_ATTR_SET,
				     DEVPOOL_ATTR_LIMIT, later->addr, &value);
}

static int later_raises_all(struct later *later)
{
	return devpool_limit_raw(later->fd, later->addr);
}

static void *run_later(void *arg)
{
	struct later *later = arg;

	usleep(later->ms * 1000);
	later->ret = later->act(later);
	return NULL;
}

#define START(later) ASSERT_EQ(0, pthread_create(&(later)->thread, NULL, run_later, later))

#define JOIN(later)								\
do {										\
	ASSERT_EQ(0, pthread_join((later)->thread, NULL));			\
	EXPECT_EQ(0, (later)->ret);						\
} while (0)

TEST_F(stream, S1_another_address_until_the_recorded_stream_is_done)
{
	__u64 x, y, point;

	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_allocated.current);
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_blocks.current);
	test_err_free(ENOENT, self->fd, x);
	test_err_record(ENOENT, self->fd, x, self->s2);
	test_err_retain(ENOENT, self->fd, x);
	y = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	EXPECT_NE(x, y);
	test_signal(self->fd, self->s2, point);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s1));
}

TEST_F(stream, S1_nor_does_the_recorded_stream_get_it)
{
	__u64 x, point;

	x = MAKE_PENDING(4 * MIB, &point);
	EXPECT_NE(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s2));
	test_signal(self->fd, self->s2, point);
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s2));
}

TEST_F(stream, S2_any_address_inside_protects_the_whole)
{
	__u64 x, point;

	x = test_alloc(self->fd, self->id, 4 * MIB);
	test_err_record(ENOENT, self->fd, x - 1, self->s2);
	test_err_record(ENOENT, self->fd, x + 4 * MIB, self->s2);
	point = test_submit(self->fd, self->s2);
	test_record(self->fd, x + 4 * MIB - 1, self->s2);
	test_free(self->fd, x);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	EXPECT_NE(x, test_alloc(self->fd, self->id, self->info.out_granule_large));
	test_signal(self->fd, self->s2, point);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

TEST_F(stream, S3_its_own_stream_and_the_host_are_recorded_for_nothing)
{
	__u64 x;

	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	test_submit(self->fd, self->s1);
	test_record(self->fd, x, self->s1);
	test_record(self->fd, x, 0);
	test_free(self->fd, x);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_active.current);
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s1));
}

TEST_F(stream, S3_a_stream_without_work_protects_nothing)
{
	__u64 x, point;

	x = test_alloc(self->fd, self->id, 4 * MIB);
	test_record(self->fd, x, self->s1);
	point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_signal(self->fd, self->s2, point);
	test_free(self->fd, x);
	/* What comes after the FREE is no use of it. */
	test_submit(self->fd, self->s1);
	test_submit(self->fd, self->s2);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
}

/*
 * Memory that only a stream can have stands where it is, so that what it spares its
 * request counts: here 3 of 5 chunks, while the place behind Y spares half of one.
 */
TEST_F(stream, a_place_with_its_own_memory_is_the_cheapest)
{
	__u64 x, hole, y, chunk = self->chunk;

	x = test_alloc_on(self->fd, self->id, 3 * chunk, self->s1);
	hole = test_alloc(self->fd, self->id, 5 * chunk);
	y = test_alloc(self->fd, self->id, 3 * chunk + chunk / 2);
	ASSERT_EQ(x + 3 * chunk, hole);
	ASSERT_EQ(x + 8 * chunk, y);
	test_free(self->fd, hole);
	test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0);
	test_submit(self->fd, self->s1);
	test_free(self->fd, x);
	EXPECT_EQ(7 * chunk, test_pool_stat(self->fd, self->id).out_resident.current);

	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 9 * chunk);
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * chunk + chunk / 4, self->s1));
	EXPECT_EQ(9 * chunk, test_pool_stat(self->fd, self->id).out_resident.current);
}

#define ROUNDS 100

struct worker {
	int fd;
	__u32 stream;
	int wrong;
};

/* Signals each point a moment after it was there. */
static void *work_off(void *arg)
{
	struct worker *worker = arg;
	__u64 point;

	for (point = 1; point <= ROUNDS; point++) {
		while (devpool_stream_signal_raw(worker->fd, worker->stream, point))
			usleep(1000);
		usleep(2000);
	}
	return NULL;
}

TEST_F_TIMEOUT(stream, S4_a_request_waits_for_what_is_being_worked_on, 60)
{
	struct worker worker = { .fd = self->fd, .stream = self->s2 };
	__u64 size = 4 * variant->unit, cap = 10 * variant->unit;
	struct devpool_pool_stat stat;
	pthread_t thread;
	int i;

	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, cap);
	ASSERT_EQ(0, pthread_create(&thread, NULL, work_off, &worker));
	for (i = 0; i < ROUNDS; i++) {
		__u64 x = test_alloc_opts(self->fd, .pool = self->id, .bytes = size,
					  .timeout = FOREVER).out_addr;

		ASSERT_EQ(i + 1, test_submit(self->fd, self->s2));
		test_record(self->fd, x, self->s2);
		test_free(self->fd, x);
	}
	pthread_join(thread, NULL);
	stat = test_pool_stat(self->fd, self->id);
	EXPECT_LE(stat.out_resident.peak, cap);
	EXPECT_LT(0, stat.out_waits);
	EXPECT_EQ(0, stat.out_ooms);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

TEST_F(stream, S5_a_flush_waits_for_its_own_pool_only)
{
	struct later later = {
		.act = later_signals, .ms = 100, .fd = self->fd, .stream = self->s2,
	};
	struct devpool_empty_cache r;
	struct devpool_pool_id q;
	__u64 x, begin;
	int q_fd;

	q_fd = test_pool_create(self->fd, &q);
	x = test_alloc(self->fd, q, 4 * MIB);
	test_submit(self->fd, self->s1);
	test_record(self->fd, x, self->s1);
	test_free(self->fd, x);
	MAKE_PENDING(8 * MIB, &later.point);
	begin = test_now();
	START(&later);
	r = test_empty_until(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0, FOREVER);
	EXPECT_LE(begin + 100 * MS, test_now());
	EXPECT_EQ(8 * MIB, r.out_freed);
	EXPECT_EQ(0, r.out_pending);
	EXPECT_EQ(0, r.out_kept);
	JOIN(&later);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, q));
	close(q_fd);
}

/* Waits for nobody, however many others wait: else it hangs here. */
TEST(S5_with_a_thousand_other_pools_in_use)
{
	enum { POOLS = 1000 };
	static struct devpool_pool_id id[POOLS];
	struct devpool_empty_cache r;
	struct devpool_pool_id p;
	__u32 stream, own;
	int index, fd;
	__u64 x, point;
	int i;

	index = test_find(TEST_NULL);
	ASSERT_LE(0, index);
	fd = test_open(index);
	for (i = 0; i < POOLS; i++) {
		stream = test_stream(fd, 0);
		id[i] = test_pool_id(fd, 0);
		test_pool_get(fd, id[i]);
		x = test_alloc(fd, id[i], 2 * MIB);
		test_submit(fd, stream);
		test_record(fd, x, stream);
		test_free(fd, x);
	}
	test_pool_create(fd, &p);
	own = test_stream(fd, 0);
	x = test_alloc(fd, p, 2 * MIB);
	point = test_submit(fd, own);
	test_record(fd, x, own);
	test_free(fd, x);
	test_signal(fd, own, point);
	r = test_empty_until(fd, p, DEVPOOL_EMPTY_TRIM, 0, FOREVER);
	EXPECT_EQ(2 * MIB, r.out_freed);
	EXPECT_EQ(0, r.out_pending);
	for (i = 0; i < POOLS; i++)
		ASSERT_EQ(2 * MIB, test_pending(fd, id[i]));
	/* Nor does {0,0} look at pools that are live. */
	r = test_empty_until(fd, default_pool, 0, 0, FOREVER);
	EXPECT_EQ(0, r.out_pending);
}

TEST_F(stream, S6_closing_a_pool_waits_for_nobody)
{
	struct devpool_pool_id q;
	__u64 x, point, begin;
	int q_fd;

	q_fd = test_pool_create(self->fd, &q);
	x = test_alloc(self->fd, q, 6 * MIB);
	test_free(self->fd, test_alloc(self->fd, q, 4 * MIB));
	point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	EXPECT_EQ(10 * MIB, USED());
	begin = test_now();
	close(q_fd);
	EXPECT_GT(begin + 1000 * MS * test_slow(), test_now());
	EXPECT_EQ(6 * MIB, USED());
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, test_pool_stat(self->fd, q).out_state);
	EXPECT_EQ(6 * MIB, test_pending(self->fd, q));
	test_err_alloc(ENOENT, self->fd, q, 4 * KIB);
	test_signal(self->fd, self->s2, point);
	EXPECT_EQ(0, USED());
	test_err_pool_stat(ENOENT, self->fd, q);
}

/* Recorded on k streams, which signal in some order: kept to the last of them */
#define USED_BY(k, order)							\
do {										\
	static const int _order[] = { order };					\
	__u64 _point[k], _x;							\
	__u32 _s[k];								\
	int _i;									\
										\
	_x = test_alloc(self->fd, self->id, 4 * MIB);				\
	for (_i = 0; _i < (k); _i++) {						\
		_s[_i] = test_stream(self->fd, 0);				\
		_point[_i] = test_submit(self->fd, _s[_i]);			\
		test_record(self->fd, _x, _s[_i]);				\
		test_record(self->fd, _x, _s[_i]);				\
	}									\
	test_free(self->fd, _x);						\
	for (_i = 0; _i < (k); _i++) {						\
		ASSERT_EQ(4 * MIB, test_pending(self->fd, self->id));		\
		test_signal(self->fd, _s[_order[_i]], _point[_order[_i]]);	\
	}									\
	ASSERT_EQ(0, test_pending(self->fd, self->id));				\
	ASSERT_EQ(_x, test_alloc(self->fd, self->id, 4 * MIB));			\
	test_free(self->fd, _x);						\
} while (0)
#define ORDER(...) __VA_ARGS__

TEST_F(stream, S7_reusable_only_after_all_of_two)
{
	USED_BY(2, ORDER(0, 1));
	USED_BY(2, ORDER(1, 0));
}

TEST_F(stream, S7_reusable_only_after_all_of_four)
{
	USED_BY(4, ORDER(0, 1, 2, 3));
	USED_BY(4, ORDER(3, 2, 1, 0));
	USED_BY(4, ORDER(2, 0, 3, 1));
}

TEST_F(stream, S7_the_last_point_at_the_free_counts)
{
	__u64 x, first, last;

	x = test_alloc(self->fd, self->id, 4 * MIB);
	first = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	last = test_submit(self->fd, self->s2);
	test_free(self->fd, x);
	test_submit(self->fd, self->s2);
	test_signal(self->fd, self->s2, first);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	test_signal(self->fd, self->s2, last);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

TEST_F(stream, S8_freed_into_its_pool_although_the_route_is_gone)
{
	__u64 x, point;

	test_route_stream_begin(self->fd, self->id, self->s1);
	x = test_alloc_on(self->fd, default_pool, 4 * MIB, self->s1);
	EXPECT_EQ(4 * MIB, test_pool_stat(self->fd, self->id).out_allocated.current);
	point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	test_route_stream_end(self->fd, self->id, self->s1);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	test_signal(self->fd, self->s2, point);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(4 * MIB, test_resident(self->fd, self->id));
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
}

/* A block of all that the pool may have, pending */
#define FULL(point)								\
({										\
	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 8 * MIB);	\
	MAKE_PENDING(8 * MIB, point);						\
})

TEST_F(stream, S9_without_a_timeout_it_says_that_it_would_have_to_wait)
{
	__u64 x, point;

	x = FULL(&point);
	test_err_alloc_opts(EAGAIN, self->fd, .pool = self->id, .bytes = 8 * MIB);
	test_err_alloc_opts(EAGAIN, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = 1);
	test_err_alloc_opts(EAGAIN, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = -1);
	test_err_alloc_opts(EAGAIN, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = INT64_MIN);
	test_err_alloc_opts(EAGAIN, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = test_now());
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_waits);
	EXPECT_EQ(5, test_pool_stat(self->fd, self->id).out_ooms);
	EXPECT_EQ(8 * MIB, test_pending(self->fd, self->id));
	test_signal(self->fd, self->s2, point);
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 8 * MIB));
	/* Nobody uses it any more who could be waited for. */
	test_err_alloc_opts(EDQUOT, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = FOREVER);
}

TEST_F(stream, S9_it_waits_until_its_timeout)
{
	__u64 point, until;

	FULL(&point);
	until = test_now() + 50 * MS;
	test_err_alloc_opts(ETIME, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = until);
	EXPECT_LE(until, test_now());
	EXPECT_EQ(1, test_pool_stat(self->fd, self->id).out_waits);
	EXPECT_EQ(1, test_pool_stat(self->fd, self->id).out_ooms);
	EXPECT_EQ(8 * MIB, test_pending(self->fd, self->id));
}

TEST_F(stream, S9_it_waits_until_the_point_signals)
{
	struct later later = {
		.act = later_signals, .ms = 50, .fd = self->fd, .stream = self->s2,
	};
	__u64 x, begin;

	x = FULL(&later.point);
	begin = test_now();
	START(&later);
	EXPECT_EQ(x, test_alloc_opts(self->fd, .pool = self->id, .bytes = 8 * MIB,
				     .timeout = FOREVER).out_addr);
	EXPECT_LE(begin + 50 * MS, test_now());
	JOIN(&later);
	EXPECT_EQ(1, test_pool_stat(self->fd, self->id).out_waits);
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_ooms);
}

TEST_F(stream, S9_it_waits_until_the_stream_is_destroyed)
{
	struct later later = {
		.act = later_destroys, .ms = 50, .fd = self->fd, .stream = self->s2,
	};
	__u64 x;

	x = FULL(&later.point);
	START(&later);
	EXPECT_EQ(x, test_alloc_opts(self->fd, .pool = self->id, .bytes = 8 * MIB,
				     .timeout = FOREVER).out_addr);
	JOIN(&later);
}

TEST_F(stream, S9_it_waits_for_a_guard_too)
{
	struct later later = {
		.act = later_signals, .ms = 50, .fd = self->fd, .stream = self->s1,
	};
	__u64 x;

	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 8 * MIB);
	x = MAKE_GUARDED(8 * MIB, &later.point);
	test_err_alloc_on(EAGAIN, self->fd, self->id, 8 * MIB, self->s2);
	START(&later);
	EXPECT_EQ(x, test_alloc_opts(self->fd, .pool = self->id, .bytes = 8 * MIB,
				     .stream = self->s2, .timeout = FOREVER).out_addr);
	JOIN(&later);
}

static int later_puts(struct later *later)
{
	return devpool_pool_put_raw(later->fd, later->id);
}

/* Would hang here if it waited in a pool that nobody uses. */
TEST_F(stream, S9_it_ends_with_the_pool)
{
	struct later later = { .act = later_closes, .ms = 50 };
	struct devpool_pool_id q;
	__u64 x;

	later.fd = test_pool_create(self->fd, &q);
	test_pool_set_attr(self->fd, q, DEVPOOL_ATTR_LIMIT, 8 * MIB);
	x = test_alloc(self->fd, q, 8 * MIB);
	test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	START(&later);
	test_err_alloc_opts(ENOENT, self->fd, .pool = q, .bytes = 8 * MIB,
			    .timeout = FOREVER);
	JOIN(&later);

	later = (struct later){ .act = later_puts, .ms = 50, .fd = self->fd };
	later.id = test_pool_id(self->fd, 0);
	test_pool_get(self->fd, later.id);
	test_pool_set_attr(self->fd, later.id, DEVPOOL_ATTR_LIMIT, 8 * MIB);
	x = test_alloc(self->fd, later.id, 8 * MIB);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	START(&later);
	test_err_alloc_opts(ENOENT, self->fd, .pool = later.id, .bytes = 8 * MIB,
			    .timeout = FOREVER);
	JOIN(&later);
}

TEST_F(stream, S9_it_ends_with_its_own_stream)
{
	struct later later = {
		.act = later_destroys, .ms = 50, .fd = self->fd, .stream = self->s1,
	};
	__u64 point;

	FULL(&point);
	START(&later);
	test_err_alloc_opts(ENOENT, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .stream = self->s1, .timeout = FOREVER);
	JOIN(&later);
	EXPECT_EQ(8 * MIB, test_pending(self->fd, self->id));
}

TEST_F(stream, S9_it_takes_what_is_freed_meanwhile)
{
	struct later later = { .act = later_frees, .ms = 50, .fd = self->fd };
	__u64 point;

	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 8 * MIB);
	later.addr = test_alloc(self->fd, self->id, 4 * MIB);
	MAKE_PENDING(4 * MIB, &point);
	START(&later);
	EXPECT_EQ(later.addr, test_alloc_opts(self->fd, .pool = self->id, .bytes = 4 * MIB,
					      .timeout = FOREVER).out_addr);
	JOIN(&later);
	/* The stream has done nothing. */
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
}

TEST_F(stream, S9_it_takes_what_a_peer_leaves)
{
	struct later later = { .act = later_closes, .ms = 50 };
	struct devpool_pool_id q;
	__u64 x, point;

	later.fd = test_open(self->index);
	test_pool_attach(later.fd, self->pool, &q);
	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 8 * MIB);
	x = test_alloc(later.fd, q, 4 * MIB);
	MAKE_PENDING(4 * MIB, &point);
	START(&later);
	EXPECT_EQ(x, test_alloc_opts(self->fd, .pool = self->id, .bytes = 4 * MIB,
				     .timeout = FOREVER).out_addr);
	JOIN(&later);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
}

TEST_F(stream, S9_it_sees_a_higher_limit)
{
	struct later later = { .act = later_raises, .ms = 50, .addr = 8 * MIB };
	__u64 point;

	later.fd = self->pool;
	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 4 * MIB);
	MAKE_PENDING(4 * MIB, &point);
	START(&later);
	test_alloc_opts(self->fd, .pool = self->id, .bytes = 4 * MIB, .timeout = FOREVER);
	JOIN(&later);
	ASSERT_EQ(0, devpool_limit_raw(self->fd, 8 * MIB));
	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 0);
	later = (struct later){
		.act = later_raises_all, .ms = 50, .fd = self->fd, .addr = 12 * MIB,
	};
	START(&later);
	test_alloc_opts(self->fd, .pool = self->id, .bytes = 4 * MIB, .timeout = FOREVER);
	JOIN(&later);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
}

TEST_F(stream, S9_what_no_signal_can_give_is_not_waited_for)
{
	struct later later = {
		.act = later_signals, .ms = 50, .fd = self->fd, .stream = self->s2,
	};

	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 8 * MIB);
	test_alloc(self->fd, self->id, 4 * MIB);
	MAKE_PENDING(4 * MIB, &later.point);
	/* More than the pool may ever have */
	test_err_alloc_opts(EDQUOT, self->fd, .pool = self->id, .bytes = 16 * MIB,
			    .timeout = FOREVER);
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_waits);
	/* In use by someone who is no stream: known when the streams are done */
	test_err_alloc(EAGAIN, self->fd, self->id, 8 * MIB);
	START(&later);
	test_err_alloc_opts(EDQUOT, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = FOREVER);
	JOIN(&later);
	EXPECT_EQ(1, test_pool_stat(self->fd, self->id).out_waits);
}

TEST_F(stream, S9_it_waits_for_the_client_s_caches)
{
	struct later later = {
		.act = later_signals, .ms = 50, .fd = self->fd, .stream = self->s2,
	};
	__u64 x;

	test_limit(self->fd, 8 * MIB);
	x = test_alloc(self->fd, default_pool, 8 * MIB);
	later.point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	test_err_alloc(EAGAIN, self->fd, self->id, 8 * MIB);
	START(&later);
	test_alloc_opts(self->fd, .pool = self->id, .bytes = 8 * MIB, .timeout = FOREVER);
	JOIN(&later);
	EXPECT_EQ(0, test_resident(self->fd, default_pool));
}

TEST_F(stream, S9_but_not_for_those_of_a_pool_that_may_keep_them)
{
	struct devpool_pool_id q;
	__u64 x, point;
	int q_fd;

	test_limit(self->fd, 8 * MIB);
	q_fd = test_pool_create(self->fd, &q);
	x = test_alloc(self->fd, q, 8 * MIB);
	point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	test_err_alloc_opts(EDQUOT, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = FOREVER);
	test_signal(self->fd, self->s2, point);
	test_err_alloc(EDQUOT, self->fd, self->id, 8 * MIB);
	close(q_fd);
}

/* The device is full: what another client gives back is had as well. */
TEST(S9_it_takes_chunks_that_come_in_meanwhile)
{
	struct later later = { .act = later_closes, .ms = 100 };
	struct devpool_pool_id id;
	struct devpool_info info;
	__u64 half, x, point;
	__u32 stream;
	int index, fd;

	index = test_find(TEST_SMALL);
	ASSERT_LE(0, index);
	fd = test_open(index);
	later.fd = test_open(index);
	info = test_info(fd);
	half = info.out_bytes / 2;
	test_pool_create(fd, &id);
	stream = test_stream(fd, 0);
	x = test_alloc(fd, id, half);
	test_alloc(later.fd, default_pool, half);
	test_submit(fd, stream);
	test_record(fd, x, stream);
	test_free(fd, x);
	test_err_alloc(EAGAIN, fd, id, half);
	START(&later);
	test_alloc_opts(fd, .pool = id, .bytes = half, .timeout = FOREVER);
	JOIN(&later);
	EXPECT_EQ(half, test_pending(fd, id));
	EXPECT_EQ(1, test_pool_stat(fd, id).out_waits);
	/* And if the stream is done, that. */
	test_err_alloc(EAGAIN, fd, id, half);
	point = 1;
	test_signal(fd, stream, point);
	EXPECT_EQ(x, test_alloc(fd, id, half));
	test_err_alloc_opts(ENOSPC, fd, .pool = id, .bytes = half, .timeout = FOREVER);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	alarms++;
}

/* A signal after so many milliseconds, in spite of SA_RESTART */
static void signal_later(int ms)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerspec spec = {
		.it_value = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS },
		/* Whoever is not asleep yet is woken by a later one. */
		.it_interval = { .tv_nsec = 50 * MS },
	};
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	timer_t timer;

	alarms = 0;
	sigaction(SIGUSR1, &action, NULL);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &spec, NULL);
}

TEST_F(stream, S9_a_signal_ends_the_wait_and_nothing_is_lost)
{
	struct devpool_pool_stat before, after;
	__u64 x, point;

	x = FULL(&point);
	before = test_pool_stat(self->fd, self->id);
	signal_later(50);
	test_err_alloc_opts(EINTR, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = FOREVER);
	EXPECT_LT(0, alarms);
	after = test_pool_stat(self->fd, self->id);
	EXPECT_EQ(1, after.out_waits);
	after.out_waits = before.out_waits;
	EXPECT_SAME(before, after);
	test_signal(self->fd, self->s2, point);
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 8 * MIB));
}

TEST_F(stream, S9_whoever_waits_can_be_killed)
{
	__u64 point;
	pid_t child;

	FULL(&point);
	child = test_fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct devpool_alloc cmd = {
			.pool = self->id, .bytes = 8 * MIB, .timeout = FOREVER,
		};

		devpool_alloc_opts_raw(self->fd, &cmd);
		_exit(1);
	}
	while (!test_pool_stat(self->fd, self->id).out_waits)
		usleep(1000);
	EXPECT_EQ(-SIGKILL, test_kill(child));
	EXPECT_EQ(8 * MIB, test_pending(self->fd, self->id));
	test_signal(self->fd, self->s2, point);
}

#define FREES 10000

TEST_F_TIMEOUT(stream, S10_what_is_pending_is_found_and_used, 60)
{
	struct later later = {
		.act = later_signals, .ms = 50, .fd = self->fd, .stream = self->s2,
	};
	static __u64 addr[FREES];
	__u64 bytes = FREES * 512ULL, resident;
	int i;

	for (i = 0; i < FREES; i++)
		addr[i] = test_alloc(self->fd, self->id, 512);
	resident = test_resident(self->fd, self->id);
	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, resident);
	for (i = 0; i < FREES; i++) {
		later.point = test_submit(self->fd, self->s2);
		test_record(self->fd, addr[i], self->s2);
		test_free(self->fd, addr[i]);
	}
	EXPECT_EQ(bytes, test_pending(self->fd, self->id));
	/* A large one, which needs chunks that these are in */
	test_err_alloc(EAGAIN, self->fd, self->id, resident);
	START(&later);
	test_alloc_opts(self->fd, .pool = self->id, .bytes = resident, .timeout = FOREVER);
	JOIN(&later);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(resident, test_pool_stat(self->fd, self->id).out_resident.peak);
}

/* Longer than any timeout that a driver has for its fences */
#define LONG 60

FIXTURE(endless)
{
};

FIXTURE_SETUP(endless)
{
}

FIXTURE_TEARDOWN(endless)
{
}

TEST_F_TIMEOUT(endless, S11_a_point_without_an_end, 2 * LONG)
{
	enum test_kind kind[] = { TEST_SYSMEM, TEST_NULL };
	struct devpool_pool_id id[2];
	__u64 x[2], point[2];
	__u32 stream[2];
	int fd[2];
	int i, s;

	for (i = 0; i < 2; i++) {
		int index = test_find(kind[i]);

		ASSERT_LE(0, index);
		fd[i] = test_open(index);
		test_pool_create(fd[i], &id[i]);
		stream[i] = test_stream(fd[i], 0);
		x[i] = test_alloc(fd[i], id[i], 4 * MIB);
		point[i] = test_submit(fd[i], stream[i]);
		test_record(fd[i], x[i], stream[i]);
		test_free(fd[i], x[i]);
	}
	for (s = 0; s < LONG; s++) {
		for (i = 0; i < 2; i++)
			ASSERT_EQ(4 * MIB, test_pending(fd[i], id[i]));
		sleep(1);
	}
	for (i = 0; i < 2; i++) {
		EXPECT_NE(x[i], test_alloc(fd[i], id[i], 4 * MIB));
		test_signal(fd[i], stream[i], point[i]);
		EXPECT_EQ(0, test_pending(fd[i], id[i]));
		EXPECT_EQ(x[i], test_alloc(fd[i], id[i], 4 * MIB));
	}
}

TEST_F(stream, S12_user_space_makes_no_fence)
{
	__u64 point;

	test_err_submit(EOPNOTSUPP, self->fd, .stream = self->s1,
			.flags = DEVPOOL_SUBMIT_FENCE_OUT);
	/* Whatever else is wrong */
	test_err_submit(EOPNOTSUPP, self->fd, .stream = self->s1,
			.flags = DEVPOOL_SUBMIT_FENCE_OUT | DEVPOOL_SUBMIT_FENCE_IN,
			.in_fence = self->fd);
	point = test_submit(self->fd, self->s1);
	EXPECT_EQ(1, point);
}

/* Somebody who waits in EMPTY_CACHE of P */
static void *wait_in_empty_cache(void *arg)
{
	struct later *later = arg;
	struct devpool_empty_cache cmd;

	later->ret = devpool_empty_until_raw(later->fd, default_pool, DEVPOOL_EMPTY_TRIM, 0,
					     FOREVER, &cmd);
	/* So that it is seen whether it has waited */
	later->addr = cmd.out_freed;
	return NULL;
}

TEST_F(stream, F9_nobody_waits_for_one_who_waits)
{
	struct later waiter = { .fd = self->pool };
	struct devpool_pool_id q;
	__u64 x, point;
	int other, i;

	MAKE_PENDING(8 * MIB, &point);
	ASSERT_EQ(0, pthread_create(&waiter.thread, NULL, wait_in_empty_cache, &waiter));
	usleep(100000);
	for (i = 0; i < 100; i++) {
		other = test_open(self->index);
		test_free(other, test_alloc(other, default_pool, 4 * MIB));
		test_pool_attach(other, self->pool, &q);
		x = test_alloc(other, q, 4 * MIB);
		test_free(other, x);
		close(other);
		/* The pool itself, too */
		x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
		test_free(self->fd, x);
		ASSERT_LE(8 * MIB, test_empty_cache(self->fd, self->id, 0, 0).out_pending);
		close(test_pool_create(self->fd, &q));
	}
	ASSERT_EQ(8 * MIB, test_pending(self->fd, self->id));
	test_signal(self->fd, self->s2, point);
	pthread_join(waiter.thread, NULL);
	EXPECT_EQ(0, waiter.ret);
	EXPECT_LE(8 * MIB, waiter.addr);
}

/* EMPTY_CACHE and who it waits for */

TEST_F(stream, a_flush_says_what_is_pending)
{
	struct devpool_empty_cache r;
	__u64 p, g;

	MAKE_PENDING(4 * MIB, &p);
	MAKE_GUARDED(6 * MIB, &g);
	test_alloc(self->fd, self->id, 2 * MIB);
	r = test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(12 * MIB, r.out_kept);
	EXPECT_EQ(10 * MIB, r.out_pending);
	EXPECT_EQ(2 * MIB, r.out_live);
	test_signal(self->fd, self->s1, g);
	r = test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(6 * MIB, r.out_freed);
	EXPECT_EQ(4 * MIB, r.out_pending);
	test_signal(self->fd, self->s2, p);
	r = test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(4 * MIB, r.out_freed);
	EXPECT_EQ(0, r.out_pending);
	EXPECT_EQ(2 * MIB, r.out_kept);
}

TEST_F(stream, a_flush_whose_time_is_up_says_so_and_is_no_error)
{
	struct devpool_empty_cache r;
	__u64 point, until;

	MAKE_PENDING(4 * MIB, &point);
	until = test_now() + 50 * MS;
	r = test_empty_until(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0, until);
	EXPECT_LE(until, test_now());
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(4 * MIB, r.out_pending);
	r = test_empty_until(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0, INT64_MIN);
	EXPECT_EQ(4 * MIB, r.out_pending);
}

TEST_F(stream, a_flush_that_a_signal_ends_is_no_error)
{
	struct devpool_empty_cache r;
	__u64 point;

	MAKE_PENDING(4 * MIB, &point);
	signal_later(50);
	r = test_empty_until(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0, FOREVER);
	EXPECT_LT(0, alarms);
	EXPECT_EQ(4 * MIB, r.out_pending);
	EXPECT_EQ(4 * MIB, r.out_kept);
}

/* Would hang here if it did. */
TEST_F(stream, a_flush_does_not_wait_for_what_need_not_go)
{
	struct devpool_empty_cache r;
	__u64 point;

	MAKE_PENDING(4 * MIB, &point);
	r = test_empty_until(self->fd, self->id, 0, 0, FOREVER);
	EXPECT_EQ(4 * MIB, r.out_pending);
	r = test_empty_until(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 4 * MIB, FOREVER);
	EXPECT_EQ(4 * MIB, r.out_pending);
	EXPECT_EQ(4 * MIB, r.out_kept);
	r = test_empty_until(self->fd, default_pool, 0, 0, FOREVER);
	EXPECT_EQ(0, r.out_pending);
}

static int later_takes(struct later *later)
{
	struct devpool_alloc cmd = {
		.pool = later->id, .bytes = later->addr, .stream = later->stream,
	};

	return devpool_alloc_opts_raw(later->fd, &cmd);
}

/* So would it where nothing is left to be waited for. */
TEST_F(stream, a_flush_ends_when_the_stream_takes_what_is_its_own)
{
	struct later later = {
		.act = later_takes, .ms = 50, .fd = self->fd, .stream = self->s1,
		.id = self->id, .addr = 4 * MIB,
	};
	struct devpool_empty_cache r;
	__u64 point;

	MAKE_GUARDED(4 * MIB, &point);
	START(&later);
	r = test_empty_until(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0, FOREVER);
	JOIN(&later);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(0, r.out_pending);
	EXPECT_EQ(4 * MIB, r.out_live);
}

static int later_gets(struct later *later)
{
	/* The use count */
	return devpool_pool_get_raw(later->fd, later->id) - 1;
}

TEST_F(stream, a_flush_ends_when_somebody_uses_the_pool_again)
{
	struct later later = { .act = later_gets, .ms = 50, .fd = self->fd };
	struct devpool_empty_cache r;
	__u64 x;

	later.id = test_pool_id(self->fd, 0);
	test_pool_get(self->fd, later.id);
	x = test_alloc(self->fd, later.id, 4 * MIB);
	test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	test_pool_put(self->fd, later.id);
	START(&later);
	r = test_empty_until(self->fd, later.id, 0, 0, FOREVER);
	JOIN(&later);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(4 * MIB, r.out_pending);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, r.out_state);
}

TEST_F(stream, a_flush_of_the_client_waits_for_its_default_pool)
{
	struct later later = {
		.act = later_signals, .ms = 50, .fd = self->fd, .stream = self->s2,
	};
	struct devpool_empty_cache r;
	__u64 x;

	x = test_alloc(self->fd, default_pool, 4 * MIB);
	later.point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	START(&later);
	r = test_empty_until(self->fd, default_pool, 0, 0, FOREVER);
	JOIN(&later);
	EXPECT_EQ(4 * MIB, r.out_freed);
	EXPECT_EQ(0, r.out_pending);
}

TEST_F(stream, a_release_waits)
{
	struct later later = {
		.act = later_signals, .ms = 50, .fd = self->fd, .stream = self->s2,
	};
	struct devpool_empty_cache r;
	struct devpool_pool_id q;
	int q_fd;
	__u64 x;

	q_fd = test_pool_create(self->fd, &q);
	x = test_alloc(self->fd, q, 4 * MIB);
	later.point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	START(&later);
	r = test_empty_until(q_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0, FOREVER);
	JOIN(&later);
	EXPECT_EQ(4 * MIB, r.out_freed);
	EXPECT_EQ(0, r.out_pending);
	EXPECT_EQ(0, r.out_kept);
	EXPECT_EQ(DEVPOOL_STATE_GONE, r.out_state);
	test_err_pool_stat(ENOENT, self->fd, q);
}

TEST_F(stream, a_release_without_time_leaves_the_rest_to_the_stream)
{
	struct devpool_empty_cache r;
	struct devpool_pool_id q;
	__u64 x, point;
	int q_fd;

	q_fd = test_pool_create(self->fd, &q);
	x = test_alloc(self->fd, q, 4 * MIB);
	point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	r = test_empty_until(q_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0, 0);
	EXPECT_EQ(4 * MIB, r.out_pending);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, r.out_state);
	close(q_fd);
	EXPECT_EQ(4 * MIB, USED());
	test_signal(self->fd, self->s2, point);
	EXPECT_EQ(0, USED());
}

/* Guards: what one stream has freed that still uses it */

#define CACHED(stat) ((stat).out_resident.current - (stat).out_active.current)

TEST_F(stream, guarded_memory_is_its_stream_s_alone)
{
	struct devpool_pool_stat stat;
	__u64 x, point;

	x = MAKE_GUARDED(4 * MIB, &point);
	stat = test_pool_stat(self->fd, self->id);
	EXPECT_EQ(0, stat.out_active.current);
	EXPECT_EQ(4 * MIB, stat.out_resident.current);
	EXPECT_NE(x, test_alloc(self->fd, self->id, 4 * MIB));
	EXPECT_NE(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s2));
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s1));
	test_free(self->fd, x);
	test_signal(self->fd, self->s1, point);
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s2));
}

/* devpool zeroes now, and the stream reads what it has freed until its point. */
TEST_F(stream, what_its_stream_still_uses_is_not_zeroed)
{
	__u64 x, point, zeroed, *p = NULL;

	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 6 * MIB);
	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	if (self->info.out_features & DEVPOOL_FEATURE_MMAP) {
		p = test_map(self->fd, x, 4 * MIB);
		*p = POISON;
	}
	point = test_submit(self->fd, self->s1);
	test_free(self->fd, x);
	zeroed = test_pool_stat(self->fd, self->id).out_zeroed_bytes;
	test_err_alloc_opts(EAGAIN, self->fd, .pool = self->id, .bytes = 4 * MIB,
			    .stream = self->s1, .flags = DEVPOOL_ALLOC_ZERO);
	EXPECT_EQ(zeroed, test_pool_stat(self->fd, self->id).out_zeroed_bytes);
	/* New memory, which is the stream's all the same */
	test_free(self->fd, test_alloc_opts(self->fd, .pool = self->id, .bytes = 2 * MIB,
					    .stream = self->s1,
					    .flags = DEVPOOL_ALLOC_ZERO).out_addr);
	EXPECT_EQ(6 * MIB, test_empty_cache(self->fd, self->id, 0, 0).out_pending);
	if (p)
		EXPECT_EQ(POISON, *p);
	test_signal(self->fd, self->s1, point);
	EXPECT_EQ(x, test_alloc_opts(self->fd, .pool = self->id, .bytes = 4 * MIB,
				     .stream = self->s1,
				     .flags = DEVPOOL_ALLOC_ZERO).out_addr);
	if (p) {
		EXPECT_EQ(0, *p);
		test_unmap(p, 4 * MIB);
	}
}

TEST_F(stream, a_part_of_guarded_memory_leaves_the_rest_guarded)
{
	__u64 x, y, point;

	x = MAKE_GUARDED(8 * MIB, &point);
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 2 * MIB, self->s1));
	y = test_alloc_on(self->fd, self->id, 6 * MIB, self->s2);
	EXPECT_TRUE(y >= x + 8 * MIB || y + 6 * MIB <= x);
	test_free(self->fd, y);
	/* And what comes back is as guarded as before. */
	test_free(self->fd, x);
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 8 * MIB, self->s1));
	test_free(self->fd, x);
	test_signal(self->fd, self->s1, point);
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 8 * MIB));
}

TEST_F(stream, of_neighbours_the_later_point_stays)
{
	__u64 x, y, first, last;

	x = test_alloc_on(self->fd, self->id, 8 * MIB, self->s1);
	test_free(self->fd, x);
	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	y = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	ASSERT_EQ(x + 4 * MIB, y);
	first = test_submit(self->fd, self->s1);
	test_free(self->fd, x);
	last = test_submit(self->fd, self->s1);
	test_free(self->fd, y);
	/* One block, which fits whole */
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 8 * MIB, self->s1));
	test_free(self->fd, x);
	test_signal(self->fd, self->s1, first);
	EXPECT_EQ(8 * MIB, test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_pending);
	EXPECT_NE(x, test_alloc(self->fd, self->id, 4 * MIB));
	test_signal(self->fd, self->s1, last);
	EXPECT_EQ(0, test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_pending);
}

/* The other way round: the block with the later point is the lower one. */
TEST_F(stream, of_neighbours_the_later_point_stays_whichever_is_freed_first)
{
	__u64 x, y, first, last;

	x = test_alloc_on(self->fd, self->id, 8 * MIB, self->s1);
	test_free(self->fd, x);
	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	y = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	first = test_submit(self->fd, self->s1);
	test_free(self->fd, y);
	last = test_submit(self->fd, self->s1);
	test_free(self->fd, x);
	test_signal(self->fd, self->s1, first);
	EXPECT_EQ(8 * MIB, test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_pending);
	test_signal(self->fd, self->s1, last);
	EXPECT_EQ(8 * MIB, test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_freed);
}

TEST_F(stream, neighbours_of_two_streams_are_two_blocks)
{
	__u64 x, y, p1, p2;

	x = test_alloc(self->fd, self->id, 8 * MIB);
	test_free(self->fd, x);
	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	y = test_alloc_on(self->fd, self->id, 4 * MIB, self->s2);
	ASSERT_EQ(x + 4 * MIB, y);
	p1 = test_submit(self->fd, self->s1);
	p2 = test_submit(self->fd, self->s2);
	test_free(self->fd, x);
	test_free(self->fd, y);
	EXPECT_EQ(y, test_alloc_on(self->fd, self->id, 4 * MIB, self->s2));
	test_free(self->fd, y);
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s1));
	test_free(self->fd, x);
	test_signal(self->fd, self->s1, p1);
	EXPECT_EQ(4 * MIB, test_empty_cache(self->fd, self->id, 0, 0).out_pending);
	test_signal(self->fd, self->s2, p2);
	/* Nobody's any more, and so one */
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 8 * MIB));
	EXPECT_EQ(8 * MIB, test_resident(self->fd, self->id));
}

TEST_F(stream, guarded_and_pending_chunks_do_not_leave)
{
	__u64 point[2];
	int i;

	MAKE_GUARDED(4 * MIB, &point[0]);
	MAKE_PENDING(4 * MIB, &point[1]);
	for (i = 0; i < 2; i++) {
		__u32 flags = DEVPOOL_EMPTY_TRIM | (i ? DEVPOOL_EMPTY_KEEP_PHYSICAL : 0);
		struct devpool_empty_cache r = test_empty_cache(self->fd, self->id, flags, 0);

		EXPECT_EQ(0, r.out_freed);
		EXPECT_EQ(8 * MIB, r.out_kept);
		EXPECT_EQ(8 * MIB, r.out_pending);
		EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_spare.current);
	}
	/* Nor are they moved behind other addresses for a larger block. */
	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 8 * MIB);
	test_err_alloc(EAGAIN, self->fd, self->id, 8 * MIB);
	test_signal(self->fd, self->s1, point[0]);
	test_err_alloc(EAGAIN, self->fd, self->id, 8 * MIB);
	test_signal(self->fd, self->s2, point[1]);
	test_alloc(self->fd, self->id, 8 * MIB);
	EXPECT_EQ(8 * MIB, test_resident(self->fd, self->id));
}

TEST_F(stream, one_guarded_byte_keeps_its_chunk)
{
	__u64 x, y, point;

	x = test_alloc(self->fd, self->id, 512);
	y = test_alloc_on(self->fd, self->id, 512, self->s1);
	ASSERT_EQ(x + 512, y);
	point = test_submit(self->fd, self->s1);
	test_free(self->fd, y);
	test_free(self->fd, x);
	EXPECT_EQ(0, test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_freed);
	EXPECT_EQ(self->chunk, test_resident(self->fd, self->id));
	test_signal(self->fd, self->s1, point);
	EXPECT_EQ(self->chunk,
		  test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_freed);
}

TEST_F(stream, a_keep_with_pending_memory)
{
	struct devpool_empty_cache r;
	__u64 point;

	MAKE_PENDING(4 * MIB, &point);
	test_free(self->fd, test_alloc(self->fd, self->id, 6 * MIB));
	r = test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 6 * MIB);
	EXPECT_EQ(4 * MIB, r.out_freed);
	EXPECT_EQ(6 * MIB, r.out_kept);
	r = test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 2 * MIB);
	EXPECT_EQ(2 * MIB, r.out_freed);
	EXPECT_EQ(4 * MIB, r.out_kept);
	test_signal(self->fd, self->s2, point);
	r = test_empty_cache(self->fd, self->id,
			     DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, 2 * MIB);
	EXPECT_EQ(2 * MIB, r.out_kept);
	EXPECT_EQ(2 * MIB, test_pool_stat(self->fd, self->id).out_spare.current);
}

TEST_F(stream, a_threshold_holds_when_points_have_signalled)
{
	__u64 p, g;

	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_RELEASE_THRESHOLD, 2 * MIB);
	MAKE_PENDING(6 * MIB, &p);
	EXPECT_EQ(6 * MIB, test_resident(self->fd, self->id));
	test_signal(self->fd, self->s2, p);
	EXPECT_EQ(2 * MIB, test_resident(self->fd, self->id));
	test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0);

	MAKE_GUARDED(6 * MIB, &g);
	EXPECT_EQ(6 * MIB, test_resident(self->fd, self->id));
	test_signal(self->fd, self->s1, g);
	EXPECT_EQ(2 * MIB, test_resident(self->fd, self->id));
}

TEST_F(stream, a_pool_that_is_not_split_with_streams)
{
	struct devpool_pool_id q;
	__u64 x, y, point;
	int q_fd;

	q_fd = test_pool_create_opts(self->fd, &q, .flags = DEVPOOL_POOL_NO_SPLIT);
	x = test_alloc_on(self->fd, q, 4 * self->chunk, self->s1);
	point = test_submit(self->fd, self->s1);
	test_free(self->fd, x);
	EXPECT_NE(x, test_alloc(self->fd, q, self->chunk));
	/* Whole, to whom it may concern */
	y = test_alloc_on(self->fd, q, 2 * self->chunk, self->s1);
	EXPECT_EQ(x, y);
	EXPECT_EQ(5 * self->chunk, test_pool_stat(self->fd, q).out_allocated.current);
	test_free(self->fd, y);
	test_signal(self->fd, self->s1, point);
	EXPECT_EQ(x, test_alloc(self->fd, q, 3 * self->chunk));
	close(q_fd);
}

TEST_F(stream, a_stable_pool_with_streams)
{
	struct devpool_pool_id q;
	__u64 x, point;
	int q_fd;

	q_fd = test_pool_create_opts(self->fd, &q, .flags = DEVPOOL_POOL_STABLE);
	x = test_alloc_on(self->fd, q, 4 * self->chunk, self->s1);
	point = test_submit(self->fd, self->s1);
	test_free(self->fd, x);
	EXPECT_EQ(x, test_alloc_on(self->fd, q, 4 * self->chunk, self->s1));
	test_record(self->fd, x, self->s2);
	test_submit(self->fd, self->s2);
	test_free(self->fd, x);
	EXPECT_EQ(4 * self->chunk, test_pending(self->fd, q));
	test_signal(self->fd, self->s1, point);
	test_signal(self->fd, self->s2, 1);
	EXPECT_EQ(4 * self->chunk, test_resident(self->fd, q));
	EXPECT_EQ(x, test_alloc(self->fd, q, 4 * self->chunk));
	close(q_fd);
}

/* Freed on s1, pending behind s2: guarded when s2 is done, idle when s1 is. */
TEST_F(stream, after_pending_comes_the_guard)
{
	__u64 x, p1, p2;

	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	p1 = test_submit(self->fd, self->s1);
	p2 = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	EXPECT_NE(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s1));
	test_signal(self->fd, self->s2, p2);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_NE(x, test_alloc(self->fd, self->id, 4 * MIB));
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s1));
	test_free(self->fd, x);
	test_signal(self->fd, self->s1, p1);
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
}

/* The end of streams and of clients */

TEST_F(stream, destroying_a_stream_completes_it)
{
	__u64 p, g, x, y;

	x = MAKE_PENDING(4 * MIB, &p);
	y = MAKE_GUARDED(6 * MIB, &g);
	test_stream_destroy(self->fd, self->s2);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
	test_stream_destroy(self->fd, self->s1);
	EXPECT_EQ(y, test_alloc(self->fd, self->id, 6 * MIB));
	test_err_stream_destroy(ENOENT, self->fd, self->s1);
	test_err_signal(ENOENT, self->fd, self->s2, p);
	/* A block of its that is live stays and is nobody's when it is freed. */
	self->s1 = test_stream(self->fd, 0);
	x = test_alloc_on(self->fd, self->id, 2 * MIB, self->s1);
	test_submit(self->fd, self->s1);
	test_record(self->fd, x, self->s1);
	test_stream_destroy(self->fd, self->s1);
	test_free(self->fd, x);
	EXPECT_EQ(0, test_empty_cache(self->fd, self->id, 0, 0).out_pending);
}

TEST_F(stream, numbers_are_not_used_again_soon)
{
	__u32 last = self->s2, stream;
	int i;

	EXPECT_EQ(1, self->s1);
	EXPECT_EQ(2, self->s2);
	for (i = 0; i < 100; i++) {
		stream = test_stream(self->fd, 0);
		EXPECT_LT(last, stream);
		last = stream;
		test_stream_destroy(self->fd, stream);
	}
}

TEST_F(stream, a_route_ends_with_its_stream)
{
	struct devpool_pool_id q;
	__u64 x;

	q = test_pool_id(self->fd, 0);
	test_pool_get(self->fd, q);
	test_route_stream_begin(self->fd, q, self->s1);
	test_err_route_stream_begin(EBUSY, self->fd, q, self->s1);
	test_route_stream_begin(self->fd, q, 0);
	EXPECT_EQ(3, test_use_count(self->fd, q));
	/* Who is on another stream, or on none, is not meant. */
	test_alloc_on(self->fd, default_pool, 4 * MIB, self->s2);
	EXPECT_EQ(0, test_pool_stat(self->fd, q).out_allocated.current);
	x = test_alloc_on(self->fd, default_pool, 4 * MIB, self->s1);
	EXPECT_EQ(4 * MIB, test_pool_stat(self->fd, q).out_allocated.current);
	test_free(self->fd, x);
	test_alloc(self->fd, default_pool, 2 * MIB);
	EXPECT_EQ(2 * MIB, test_pool_stat(self->fd, q).out_allocated.current);
	test_stream_destroy(self->fd, self->s1);
	EXPECT_EQ(2, test_use_count(self->fd, q));
	test_err_route_stream_end(ENOENT, self->fd, q, self->s1);
	test_route_stream_end(self->fd, q, 0);
	test_err_route_stream_end(ENOENT, self->fd, q, 0);
	EXPECT_EQ(1, test_use_count(self->fd, q));
}

/* A kernel that looks for the route's pool for ever cannot be ended from here. */
TEST_F(stream, a_route_finds_no_stream_that_the_client_does_not_have)
{
	__u32 gone = test_stream(self->fd, 0);

	test_stream_destroy(self->fd, gone);
	test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_ALL);
	test_err_alloc_on(ENOENT, self->fd, default_pool, 4 * MIB, gone);
	test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_THREAD);
	test_err_alloc_on(ENOENT, self->fd, default_pool, 4 * MIB, gone + 1);
	EXPECT_EQ(0, test_resident(self->fd, self->id));
	test_alloc_on(self->fd, default_pool, 4 * MIB, self->s1);
	EXPECT_EQ(4 * MIB, test_resident(self->fd, self->id));
	test_route_end(self->fd, self->id, DEVPOOL_SCOPE_THREAD);
	test_route_end(self->fd, self->id, DEVPOOL_SCOPE_ALL);
}

/* Routes onto a stream until it is not there any more */
static void *route_until_gone(void *arg)
{
	struct later *later = arg;
	int ret;

	do {
		ret = devpool_route_stream_raw(later->fd, DEVPOOL_IOC_ROUTE_BEGIN,
					       later->id, later->stream);
	} while (!ret || ret == -EBUSY);
	later->ret = ret == -ENOENT ? 0 : ret;
	return NULL;
}

TEST_F_TIMEOUT(stream, no_route_outlives_its_stream, 60)
{
	struct later later = { .fd = self->fd, .id = self->id };
	int i;

	for (i = 0; i < 2000 && !_metadata->exit_code; i++) {
		later.stream = test_stream(self->fd, 0);
		ASSERT_EQ(0, pthread_create(&later.thread, NULL, route_until_gone, &later));
		sched_yield();
		test_stream_destroy(self->fd, later.stream);
		JOIN(&later);
		EXPECT_EQ(1, test_use_count(self->fd, self->id));
	}
}

/* Another client's streams, in a pool that both have */
TEST_F(stream, two_clients_with_streams_of_their_own)
{
	struct devpool_pool_id q;
	__u64 x, y, mine, theirs;
	__u32 stream;
	int other;

	other = test_open(self->index);
	test_pool_attach(other, self->pool, &q);
	stream = test_stream(other, 0);
	/* The same number, and yet another one */
	EXPECT_EQ(self->s1, stream);
	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	mine = test_submit(self->fd, self->s1);
	test_free(self->fd, x);
	EXPECT_NE(x, test_alloc_on(other, q, 4 * MIB, stream));
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->s1));

	test_retain(other, x);
	theirs = test_submit(other, stream);
	test_record(other, x, stream);
	test_free(self->fd, x);
	test_signal(self->fd, self->s1, mine);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	test_free(other, x);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	EXPECT_EQ(4 * MIB, test_pending(other, q));
	y = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	EXPECT_NE(x, y);
	/* Nobody else can say that it is done. */
	test_err_signal(ENOENT, self->fd, 77, theirs);
	test_signal(other, stream, theirs);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	close(other);
}

TEST_F(stream, a_client_that_goes_completes_its_streams)
{
	struct devpool_pool_id q;
	__u64 x, y;
	__u32 stream;
	int other;

	other = test_open(self->index);
	test_pool_attach(other, self->pool, &q);
	stream = test_stream(other, 0);
	x = test_alloc(self->fd, self->id, 4 * MIB);
	test_retain(other, x);
	test_submit(other, stream);
	test_record(other, x, stream);
	test_free(other, x);
	test_free(self->fd, x);
	y = test_alloc_on(other, q, 6 * MIB, stream);
	test_free(other, y);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	EXPECT_EQ(10 * MIB, test_empty_cache(self->fd, self->id, 0, 0).out_pending);
	close(other);
	EXPECT_EQ(0, test_empty_cache(self->fd, self->id, 0, 0).out_pending);
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
	EXPECT_EQ(y, test_alloc(self->fd, self->id, 6 * MIB));
}

TEST_F(stream, used_and_freed_by_several)
{
	enum { CLIENTS = 4 };
	struct devpool_pool_id q;
	__u32 stream[CLIENTS];
	int other[CLIENTS];
	__u64 x;
	int i;

	x = test_alloc(self->fd, self->id, 4 * MIB);
	for (i = 0; i < CLIENTS; i++) {
		other[i] = test_open(self->index);
		test_pool_attach(other[i], self->pool, &q);
		stream[i] = test_stream(other[i], 0);
		/* Whoever has no reference cannot record. */
		test_err_record(ENOENT, other[i], x, stream[i]);
		test_retain(other[i], x);
		test_submit(other[i], stream[i]);
		test_record(other[i], x + i, stream[i]);
	}
	test_free(self->fd, x);
	for (i = 0; i < CLIENTS; i++) {
		EXPECT_EQ(4 * MIB, test_pool_stat(self->fd, self->id).out_allocated.current);
		test_free(other[i], x);
	}
	for (i = 0; i < CLIENTS; i++) {
		EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
		if (i % 2)
			close(other[i]);
		else
			test_signal(other[i], stream[i], 1);
	}
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
	close(other[0]);
	close(other[2]);
}

/* A client's blocks that it drops by closing are as pending as others. */
TEST_F(stream, blocks_that_a_dying_client_has_wait_for_others)
{
	struct devpool_pool_id q;
	__u64 x, point;
	int other;

	other = test_open(self->index);
	test_pool_attach(other, self->pool, &q);
	x = test_alloc(other, q, 4 * MIB);
	test_retain(self->fd, x);
	point = test_submit(self->fd, self->s2);
	test_record(self->fd, x, self->s2);
	test_free(self->fd, x);
	close(other);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	test_signal(self->fd, self->s2, point);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

/* Bad input: each errno, and that nothing has changed */

struct state {
	struct devpool_pool_stat stat[2];
	struct devpool_stats stats;
	char fdinfo[2048];
};

#define STATE()									\
({										\
	struct state _s = {};							\
										\
	_s.stat[0] = test_pool_stat(self->fd, self->id);			\
	_s.stat[1] = test_pool_stat(self->fd, default_pool);			\
	_s.stats = test_stats(self->fd);					\
	ASSERT_LT(0, test_fdinfo(self->fd, _s.fdinfo, sizeof(_s.fdinfo)));	\
	_s;									\
})

#define EXPECT_STATE(before)							\
do {										\
	struct state _now = STATE();						\
										\
	EXPECT_SAME((before).stat[0], _now.stat[0]);				\
	EXPECT_SAME((before).stat[1], _now.stat[1]);				\
	EXPECT_SAME((before).stats, _now.stats);				\
	EXPECT_STREQ((before).fdinfo, _now.fdinfo);				\
} while (0)

TEST_F(stream, a_stream_that_the_client_does_not_have)
{
	__u32 wrong[] = { 3, 77, 1U << 31, ~0U, 0, 0 };
	struct state before;
	__u64 x, p, g;
	int other;
	int i;

	other = test_open(self->index);
	for (i = 0; i < 5; i++)
		wrong[4] = test_stream(other, 0);
	wrong[5] = test_stream(self->fd, 0);
	wrong[0] = wrong[5] + 1;
	test_stream_destroy(self->fd, wrong[5]);
	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	MAKE_PENDING(4 * MIB, &p);
	MAKE_GUARDED(4 * MIB, &g);
	before = STATE();
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		test_err_alloc_on(ENOENT, self->fd, self->id, 4 * MIB, wrong[i]);
		test_err_alloc_on(ENOENT, self->fd, default_pool, 4 * MIB, wrong[i]);
		test_err_record(ENOENT, self->fd, x, wrong[i]);
		test_err_submit(ENOENT, self->fd, .stream = wrong[i]);
		test_err_signal(ENOENT, self->fd, wrong[i], 1);
		test_err_stream_destroy(ENOENT, self->fd, wrong[i]);
		test_err_route_stream_begin(ENOENT, self->fd, self->id, wrong[i]);
		test_err_route_stream_end(ENOENT, self->fd, self->id, wrong[i]);
	}
	/* The host is no stream of anybody's. */
	test_err_submit(ENOENT, self->fd, .stream = 0);
	test_err_signal(ENOENT, self->fd, 0, 1);
	test_err_stream_destroy(ENOENT, self->fd, 0);
	EXPECT_STATE(before);
	close(other);
}

TEST_F(stream, a_point_that_cannot_be_signalled)
{
	struct state before;
	__u64 point;

	before = STATE();
	test_err_signal(EINVAL, self->fd, self->s2, 0);
	test_err_signal(EINVAL, self->fd, self->s2, 1);
	EXPECT_STATE(before);
	MAKE_PENDING(4 * MIB, &point);
	EXPECT_EQ(1, point);
	EXPECT_EQ(2, test_submit(self->fd, self->s2));
	EXPECT_EQ(3, test_submit(self->fd, self->s2));
	before = STATE();
	test_err_signal(EINVAL, self->fd, self->s2, 4);
	test_err_signal(EINVAL, self->fd, self->s2, ~0ULL);
	test_err_signal(EINVAL, self->fd, self->s2, 1ULL << 63);
	test_err_signal(EINVAL, self->fd, self->s2, (1ULL << 32) + 1);
	test_err_signal(EINVAL, self->fd, self->s2, 0);
	/* Nor a stream's of another number */
	test_err_signal(EINVAL, self->fd, self->s1, 1);
	EXPECT_STATE(before);
	test_signal(self->fd, self->s2, 2);
	before = STATE();
	test_err_signal(EINVAL, self->fd, self->s2, 1);
	test_err_signal(EINVAL, self->fd, self->s2, 2);
	EXPECT_STATE(before);
	test_signal(self->fd, self->s2, 3);
	test_err_signal(EINVAL, self->fd, self->s2, 3);
	EXPECT_EQ(4, test_submit(self->fd, self->s2));
}

TEST_F(stream, a_submission_that_is_none)
{
	struct state before;
	int bit;

	before = STATE();
	test_err_submit(EINVAL, self->fd, .stream = self->s2,
			.flags = DEVPOOL_SUBMIT_FENCE_IN, .in_fence = self->fd);
	test_err_submit(EINVAL, self->fd, .stream = self->s2,
			.flags = DEVPOOL_SUBMIT_FENCE_IN);
	test_err_submit(EINVAL, self->fd, .stream = self->s2, .in_fence = self->fd);
	test_err_submit(EINVAL, self->fd, .stream = self->s2, .in_fence = -1);
	test_err_submit(EINVAL, self->fd, .stream = self->s2, .__reserved = 1);
	for (bit = 2; bit < 32; bit++)
		test_err_submit(EOPNOTSUPP, self->fd, .stream = self->s2, .flags = 1U << bit);
	for (bit = 1; bit < 32; bit++)
		test_err_stream(EOPNOTSUPP, self->fd, 1U << bit);
	EXPECT_STATE(before);
	EXPECT_EQ(1, test_submit(self->fd, self->s2));
}

TEST_F(stream, a_record_of_what_is_no_live_block_of_its_own)
{
	struct state before;
	__u64 x, y, z, point;
	int other;

	other = test_open(self->index);
	x = test_alloc(self->fd, self->id, 4 * MIB);
	y = test_alloc(other, default_pool, 4 * MIB);
	z = MAKE_PENDING(4 * MIB, &point);
	test_free(self->fd, x);
	before = STATE();
	test_err_record(ENOENT, self->fd, x, self->s2);
	test_err_record(ENOENT, self->fd, y, self->s2);
	test_err_record(ENOENT, self->fd, z, self->s2);
	test_err_record(ENOENT, self->fd, 0, self->s2);
	test_err_record(ENOENT, self->fd, ~0ULL, self->s2);
	test_err_record(ENOENT, self->fd, x, 0);
	EXPECT_STATE(before);
	close(other);
}

TEST_F_TIMEOUT(stream, no_more_streams_than_info_says, 60)
{
	__u32 max = self->info.out_max_streams, i, stream = 0;
	struct state before;

	ASSERT_LT(2, max);
	for (i = 2; i < max; i++)
		stream = test_stream(self->fd, 0);
	before = STATE();
	test_err_stream(EDQUOT, self->fd, 0);
	test_err_stream(EDQUOT, self->fd, DEVPOOL_STREAM_FENCED);
	EXPECT_STATE(before);
	test_stream_destroy(self->fd, stream);
	EXPECT_LT(stream, test_stream(self->fd, 0));
	test_err_stream(EDQUOT, self->fd, 0);
}

TEST_F_TIMEOUT(stream, no_more_open_points_than_info_says, 60)
{
	__u32 max = self->info.out_max_points, i;
	struct state before;

	ASSERT_LT(0, max);
	for (i = 1; i <= max; i++)
		ASSERT_EQ(i, test_submit(self->fd, self->s2));
	before = STATE();
	test_err_submit(EDQUOT, self->fd, .stream = self->s2);
	EXPECT_STATE(before);
	EXPECT_EQ(1, test_submit(self->fd, self->s1));
	test_signal(self->fd, self->s2, 1);
	EXPECT_EQ(max + 1ULL, test_submit(self->fd, self->s2));
	test_err_submit(EDQUOT, self->fd, .stream = self->s2);
	test_signal(self->fd, self->s2, max + 1ULL);
	EXPECT_EQ(max + 2ULL, test_submit(self->fd, self->s2));
}

/* Looking inside */

#define ENTRIES 64

/* The blocks of P, and that their bytes are what POOL_STAT says */
#define SNAPSHOT(entry)								\
({										\
	struct devpool_pool_stat _stat = test_pool_stat(self->fd, self->id);	\
	int _n = test_snapshot(self->fd, self->id, 0, entry, ENTRIES);		\
	__u64 _sum[3] = {};							\
	int _i;									\
										\
	for (_i = 0; _i < _n; _i++) {						\
		ASSERT_GE(DEVPOOL_BLOCK_CACHED, (entry)[_i].state);		\
		_sum[(entry)[_i].state] += (entry)[_i].bytes;			\
	}									\
	EXPECT_EQ(_stat.out_allocated.current, _sum[DEVPOOL_BLOCK_LIVE]);	\
	EXPECT_EQ(devpool_pending_of(&_stat), _sum[DEVPOOL_BLOCK_PENDING]);	\
	EXPECT_EQ(CACHED(_stat), _sum[DEVPOOL_BLOCK_CACHED]);			\
	_n;									\
})

TEST_F(stream, a_snapshot_tells_states_and_streams)
{
	struct devpool_snapshot_entry entry[ENTRIES];
	__u64 live, pending, guarded, p, g;
	int seen = 0;
	int i, n;

	live = test_alloc_on(self->fd, self->id, 4 * MIB, self->s1);
	pending = test_alloc_on(self->fd, self->id, 8 * MIB, self->s1);
	p = test_submit(self->fd, self->s2);
	test_record(self->fd, pending, self->s2);
	test_free(self->fd, pending);
	guarded = MAKE_GUARDED(6 * MIB, &g);
	n = SNAPSHOT(entry);
	for (i = 0; i < n; i++) {
		if (entry[i].addr == live) {
			EXPECT_EQ(DEVPOOL_BLOCK_LIVE, entry[i].state);
			EXPECT_EQ(4 * MIB, entry[i].requested);
			EXPECT_EQ(self->s1, entry[i].stream);
			seen |= 1;
		} else if (entry[i].addr == guarded) {
			EXPECT_EQ(DEVPOOL_BLOCK_CACHED, entry[i].state);
			EXPECT_EQ(6 * MIB, entry[i].bytes);
			EXPECT_EQ(0, entry[i].requested);
			EXPECT_EQ(self->s1, entry[i].stream);
			seen |= 2;
		} else if (entry[i].addr == pending) {
			EXPECT_EQ(DEVPOOL_BLOCK_PENDING, entry[i].state);
			EXPECT_EQ(8 * MIB, entry[i].bytes);
			EXPECT_EQ(0, entry[i].requested);
			EXPECT_EQ(self->s1, entry[i].stream);
			seen |= 4;
		}
	}
	EXPECT_EQ(7, seen);
	test_signal(self->fd, self->s1, g);
	test_signal(self->fd, self->s2, p);
	n = SNAPSHOT(entry);
	for (i = 0; i < n; i++) {
		if (entry[i].addr == live)
			continue;
		EXPECT_EQ(DEVPOOL_BLOCK_CACHED, entry[i].state);
		EXPECT_EQ(0, entry[i].stream);
	}
}

TEST_F(stream, fdinfo_tells_streams_and_what_they_use)
{
	__u64 p, g;

	EXPECT_EQ(2, test_fdinfo_number(self->fd, "streams"));
	EXPECT_EQ(0, test_fdinfo_number(self->fd, "pending"));
	MAKE_PENDING(4 * MIB, &p);
	MAKE_GUARDED(6 * MIB, &g);
	EXPECT_EQ(10 * MIB, test_fdinfo_number(self->fd, "pending"));
	EXPECT_EQ(10 * MIB, test_fdinfo_number(self->pool, "pending"));
	test_signal(self->fd, self->s1, g);
	EXPECT_EQ(4 * MIB, test_fdinfo_number(self->fd, "pending"));
	EXPECT_EQ(4 * MIB, test_fdinfo_number(self->pool, "pending"));
	test_stream_destroy(self->fd, self->s2);
	EXPECT_EQ(1, test_fdinfo_number(self->fd, "streams"));
	EXPECT_EQ(0, test_fdinfo_number(self->fd, "pending"));
	EXPECT_EQ(0, test_fdinfo_number(self->pool, "pending"));
}

TEST_F(stream, counters_of_memory_that_is_pending)
{
	struct devpool_pool_stat a, b;
	__u64 point;

	a = test_pool_stat(self->fd, self->id);
	MAKE_PENDING(4 * MIB, &point);
	b = test_pool_stat(self->fd, self->id);
	EXPECT_EQ(a.out_active.in + 4 * MIB, b.out_active.in);
	EXPECT_EQ(a.out_active.out, b.out_active.out);
	EXPECT_EQ(a.out_allocated.out + 4 * MIB, b.out_allocated.out);
	EXPECT_EQ(a.out_blocks.out + 1, b.out_blocks.out);
	EXPECT_POOL_SOUND(b);
	EXPECT_EQ(4 * MIB, test_stats(self->fd).out_active.current);
	test_signal(self->fd, self->s2, point);
	b = test_pool_stat(self->fd, self->id);
	EXPECT_EQ(a.out_active.out + 4 * MIB, b.out_active.out);
	EXPECT_EQ(0, test_stats(self->fd).out_active.current);
}

TEST_HARNESS_MAIN
