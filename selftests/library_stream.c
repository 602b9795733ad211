// SPDX-License-Identifier: GPL-2.0-only
/*
 * The library: what <devpool.h> promises of streams, of memory that they still use,
 * and of timeouts. What drivers' fences do is tested elsewhere.
 */
#include <pthread.h>

#include "library_test.h"

/* Long enough for nothing to be over by then, and short enough to be waited for */
#define A_WHILE	(100 * 1000 * 1000LL)

#define new_stream(dev, flags)							\
({										\
	uint32_t _stream = 0;							\
										\
	ASSERT_EQ(0, devpool_stream_create(dev, flags, &_stream));		\
	ASSERT_NE(0, _stream);							\
	_stream;								\
})

#define submit(dev, stream)							\
({										\
	uint64_t _point = 0;							\
										\
	ASSERT_EQ(0, devpool_stream_submit(dev, stream, -1, &_point, NULL));	\
	ASSERT_NE(0, _point);							\
	_point;									\
})

#define stat_of(pool)								\
({										\
	struct devpool_pool_stat _stat;						\
										\
	ASSERT_EQ(0, devpool_pool_stat(pool, &_stat));				\
	_stat;									\
})

/* A pool that has memory for one block of 2 MiB only */
#define new_tight_pool(dev)							\
({										\
	const struct devpool_pool_opts _opts = {				\
		.sz = sizeof(_opts), .limit = 2 * MIB,				\
	};									\
	struct devpool_pool *_pool = NULL;					\
										\
	ASSERT_EQ(0, devpool_pool_create(dev, &_opts, &_pool));			\
	_pool;									\
})

static int alloc_on(struct devpool_pool *pool, size_t bytes, uint32_t stream, int64_t timeout,
		    void **ptr)
{
	const struct devpool_alloc_opts opts = {
		.sz = sizeof(opts), .pool = devpool_pool_id(pool), .stream = stream,
		.timeout = timeout,
	};

	return devpool_alloc(devpool_pool_device(pool), bytes, &opts, ptr);
}

#define new_block_on(pool, bytes, stream)					\
({										\
	void *_ptr = NULL;							\
										\
	ASSERT_EQ(0, alloc_on(pool, bytes, stream, 0, &_ptr));			\
	ASSERT_NE(NULL, _ptr);							\
	(char *)_ptr;								\
})

/**
 * struct later - a point that a thread signals after a while
 * @dev: the client
 * @stream: the stream
 * @point: the point
 * @ret: what came of it
 */
struct later {
	struct devpool *dev;
	uint32_t stream;
	uint64_t point;
	int ret;
};

static void *signal_later(void *arg)
{
	struct later *later = arg;

	usleep(A_WHILE / 1000);
	later->ret = devpool_stream_signal(later->dev, later->stream, later->point);
	return NULL;
}

/* What is refused */

TEST_F(library, null_arguments_are_einval)
{
	uint64_t point = 4711;
	uint32_t stream = 47;
	int fence = 11;

	EXPECT_EQ(-EINVAL, devpool_stream_create(NULL, 0, &stream));
	EXPECT_EQ(-EINVAL, devpool_stream_create(self->dev, 0, NULL));
	EXPECT_EQ(-EINVAL, devpool_stream_destroy(NULL, 1));
	EXPECT_EQ(-EINVAL, devpool_stream_submit(NULL, 1, -1, &point, &fence));
	EXPECT_EQ(-EINVAL, devpool_stream_submit(self->dev, 1, -1, NULL, &fence));
	EXPECT_EQ(-EINVAL, devpool_stream_signal(NULL, 1, 1));
	EXPECT_EQ(-EINVAL, devpool_record(NULL, &point, 1));
	EXPECT_EQ(-EINVAL, devpool_record(self->dev, NULL, 1));
	EXPECT_EQ(47, stream);
	EXPECT_EQ(4711, point);
	EXPECT_EQ(11, fence);
}

TEST_F(library, errno_is_never_changed_by_these)
{
	uint32_t stream = new_stream(self->dev, 0);
	char *p = new_default_block(self->dev, 1);
	uint64_t point;

	errno = 4711;
	EXPECT_EQ(-EOPNOTSUPP, devpool_stream_create(self->dev, 1U << 31, &stream));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(0, devpool_stream_submit(self->dev, stream, -1, &point, NULL));
	EXPECT_EQ(-EINVAL, devpool_stream_submit(self->dev, stream, 0, &point, NULL));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(-EINVAL, devpool_stream_signal(self->dev, stream, 2));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(0, devpool_record(self->dev, p, stream));
	EXPECT_EQ(-ENOENT, devpool_record(self->dev, &point, stream));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(0, devpool_stream_destroy(self->dev, stream));
	EXPECT_EQ(-ENOENT, devpool_stream_destroy(self->dev, stream));
	EXPECT_EQ(4711, errno);
}

TEST_F(library, flags_that_are_not_known_are_refused)
{
	uint32_t stream = 47;

	EXPECT_EQ(-EOPNOTSUPP, devpool_stream_create(self->dev, 1U << 31, &stream));
	EXPECT_EQ(47, stream);
}

TEST_F(library, a_stream_that_the_client_does_not_have_is_enoent)
{
	struct devpool_pool *pool = new_pool(self->dev);
	char *p = new_block(pool, 1);
	void *ptr = (void *)1;
	uint64_t point = 4711;
	struct devpool *other;
	uint32_t stream;

	ASSERT_EQ(0, devpool_open(self->node, &other));
	stream = new_stream(other, 0);
	/* The numbers of one client say nothing to another. */
	EXPECT_EQ(-ENOENT, devpool_stream_submit(self->dev, stream, -1, &point, NULL));
	EXPECT_EQ(-ENOENT, devpool_stream_signal(self->dev, stream, 1));
	EXPECT_EQ(-ENOENT, devpool_stream_destroy(self->dev, stream));
	EXPECT_EQ(-ENOENT, devpool_record(self->dev, p, stream));
	EXPECT_EQ(-ENOENT, alloc_on(pool, 1, stream, 0, &ptr));
	EXPECT_EQ(-ENOENT, devpool_route_begin(pool, DEVPOOL_SCOPE_STREAM, stream));
	/* The host has no work. */
	EXPECT_EQ(-ENOENT, devpool_stream_submit(self->dev, 0, -1, &point, NULL));
	EXPECT_EQ(-ENOENT, devpool_stream_signal(self->dev, 0, 1));
	EXPECT_EQ(-ENOENT, devpool_stream_destroy(self->dev, 0));
	EXPECT_EQ(4711, point);
	EXPECT_EQ((void *)1, ptr);
	EXPECT_EQ(1, submit(other, stream));
	devpool_close(other);
}

TEST_F(library, fences_are_for_fenced_streams)
{
	uint32_t user = new_stream(self->dev, 0);
	uint32_t fenced = new_stream(self->dev, DEVPOOL_STREAM_FENCED);
	int file = memfd_create("no sync_file", MFD_CLOEXEC), closed = dup(file), fence = 11;
	uint64_t point = 4711;

	close(closed);
	EXPECT_EQ(-EINVAL, devpool_stream_submit(self->dev, user, file, &point, NULL));
	EXPECT_EQ(-EOPNOTSUPP, devpool_stream_submit(self->dev, user, -1, &point, &fence));
	EXPECT_EQ(-EINVAL, devpool_stream_submit(self->dev, fenced, -1, &point, NULL));
	EXPECT_EQ(-EINVAL, devpool_stream_submit(self->dev, fenced, -1, &point, &fence));
	EXPECT_EQ(-EBADF, devpool_stream_submit(self->dev, fenced, file, &point, &fence));
	EXPECT_EQ(-EBADF, devpool_stream_submit(self->dev, fenced, closed, &point, &fence));
	EXPECT_EQ(-EBADF, devpool_stream_submit(self->dev, fenced, -2, &point, NULL));
	EXPECT_EQ(-EINVAL, devpool_stream_signal(self->dev, fenced, 1));
	EXPECT_EQ(4711, point);
	EXPECT_EQ(11, fence);
	/* Nothing was submitted by any of these. */
	EXPECT_EQ(1, submit(self->dev, user));
	close(file);
}

/* Streams and points */

TEST_F(library, streams_have_numbers_of_their_own)
{
	uint32_t a = new_stream(self->dev, 0), b = new_stream(self->dev, DEVPOOL_STREAM_FENCED);

	EXPECT_NE(a, b);
	EXPECT_EQ(0, devpool_stream_destroy(self->dev, a));
	EXPECT_EQ(-ENOENT, devpool_stream_destroy(self->dev, a));
	EXPECT_EQ(0, devpool_stream_destroy(self->dev, b));
}

TEST_F(library, points_are_signalled_with_all_before_them)
{
	uint32_t stream = new_stream(self->dev, 0);

	EXPECT_EQ(-EINVAL, devpool_stream_signal(self->dev, stream, 1));
	EXPECT_EQ(1, submit(self->dev, stream));
	EXPECT_EQ(2, submit(self->dev, stream));
	EXPECT_EQ(3, submit(self->dev, stream));
	EXPECT_EQ(-EINVAL, devpool_stream_signal(self->dev, stream, 0));
	EXPECT_EQ(-EINVAL, devpool_stream_signal(self->dev, stream, 4));
	EXPECT_EQ(0, devpool_stream_signal(self->dev, stream, 2));
	EXPECT_EQ(-EINVAL, devpool_stream_signal(self->dev, stream, 1));
	EXPECT_EQ(-EINVAL, devpool_stream_signal(self->dev, stream, 2));
	EXPECT_EQ(0, devpool_stream_signal(self->dev, stream, 3));
	EXPECT_EQ(4, submit(self->dev, stream));
}

/* What streams protect */

TEST_F(library, a_block_is_had_again_on_its_stream_at_once_and_later_by_others)
{
	struct devpool_pool *pool = new_pool(self->dev);
	uint32_t stream = new_stream(self->dev, 0);
	char *p = new_block_on(pool, 2 * MIB, stream), *other;
	uint64_t point = submit(self->dev, stream);

	EXPECT_EQ(0, devpool_free(self->dev, p));
	other = new_block_on(pool, 2 * MIB, 0);
	EXPECT_NE(p, other);
	EXPECT_EQ(0, devpool_free(self->dev, other));
	EXPECT_EQ(p, new_block_on(pool, 2 * MIB, stream));
	EXPECT_EQ(0, devpool_free(self->dev, p));
	/* All there is but for this is taken. */
	EXPECT_EQ(other, new_block_on(pool, 2 * MIB, 0));
	EXPECT_EQ(0, devpool_stream_signal(self->dev, stream, point));
	EXPECT_EQ(p, new_block_on(pool, 2 * MIB, 0));
}

TEST_F(library, a_recorded_block_is_pending_until_the_stream_is_done)
{
	struct devpool_pool *pool = new_pool(self->dev);
	uint32_t stream = new_stream(self->dev, 0);
	char *p = new_block(pool, 4 * MIB);
	uint64_t point;

	/* Any pointer into the block says which it is. */
	EXPECT_EQ(0, devpool_record(self->dev, p + 3 * MIB, stream));
	EXPECT_EQ(0, devpool_record(self->dev, p, stream));
	EXPECT_EQ(0, devpool_record(self->dev, p, 0));
	submit(self->dev, stream);
	point = submit(self->dev, stream);
	EXPECT_EQ(0, devpool_free(self->dev, p));
	EXPECT_EQ(-ENOENT, devpool_record(self->dev, p, stream));
	EXPECT_EQ(4 * MIB, stat_of(pool).out_active.current);
	EXPECT_EQ(0, stat_of(pool).out_allocated.current);
	/* Of work that comes later the block knows nothing. */
	submit(self->dev, stream);
	EXPECT_EQ(0, devpool_stream_signal(self->dev, stream, point - 1));
	EXPECT_EQ(4 * MIB, stat_of(pool).out_active.current);
	EXPECT_EQ(0, devpool_stream_signal(self->dev, stream, point));
	EXPECT_EQ(0, stat_of(pool).out_active.current);
	EXPECT_EQ(p, new_block(pool, 4 * MIB));
}

TEST_F(library, record_needs_a_block_of_ones_own)
{
	uint32_t stream = new_stream(self->dev, 0);
	char *p = new_default_block(self->dev, 2 * MIB);
	int local;

	EXPECT_EQ(-ENOENT, devpool_record(self->dev, &local, stream));
	/* Mapped, and no block */
	EXPECT_EQ(-ENOENT, devpool_record(self->dev, p + 2 * MIB, stream));
	EXPECT_EQ(0, devpool_record(self->dev, p + 2 * MIB - 1, stream));
}

TEST_F(library, destroying_a_stream_ends_what_it_protects)
{
	struct devpool_pool *pool = new_pool(self->dev);
	uint32_t stream = new_stream(self->dev, 0);
	char *recorded = new_block(pool, 2 * MIB), *own = new_block_on(pool, 4 * MIB, stream);

	EXPECT_EQ(0, devpool_record(self->dev, recorded, stream));
	submit(self->dev, stream);
	EXPECT_EQ(0, devpool_free(self->dev, recorded));
	EXPECT_EQ(0, devpool_free(self->dev, own));
	EXPECT_EQ(2 * MIB, stat_of(pool).out_active.current);
	EXPECT_EQ(0, devpool_stream_destroy(self->dev, stream));
	EXPECT_EQ(0, stat_of(pool).out_active.current);
	EXPECT_EQ(recorded, new_block(pool, 2 * MIB));
	EXPECT_EQ(own, new_block(pool, 4 * MIB));
}

TEST_F(library, a_route_of_a_stream_leads_its_requests)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	struct devpool_pool *pool = new_pool(self->dev), *host = new_pool(self->dev);
	uint32_t stream = new_stream(self->dev, 0);
	void *ptr;

	EXPECT_EQ(-EINVAL, devpool_route_begin(pool, DEVPOOL_SCOPE_ALL, stream));
	ASSERT_EQ(0, devpool_route_begin(pool, DEVPOOL_SCOPE_STREAM, stream));
	EXPECT_EQ(-EBUSY, devpool_route_begin(pool, DEVPOOL_SCOPE_STREAM, stream));
	EXPECT_EQ(0, devpool_alloc(self->dev, 1, &opts, &ptr));
	EXPECT_EQ(0, stat_of(pool).out_blocks.current);
	/* 0 is for requests on no stream. */
	ASSERT_EQ(0, devpool_route_begin(host, DEVPOOL_SCOPE_STREAM, 0));
	EXPECT_EQ(0, devpool_alloc(self->dev, 1, &opts, &ptr));
	EXPECT_EQ(1, stat_of(host).out_blocks.current);
	opts.stream = stream;
	EXPECT_EQ(0, devpool_alloc(self->dev, 1, &opts, &ptr));
	EXPECT_EQ(1, stat_of(pool).out_blocks.current);
	ASSERT_EQ(0, devpool_route_end(pool, DEVPOOL_SCOPE_STREAM, stream));
	EXPECT_EQ(-ENOENT, devpool_route_end(pool, DEVPOOL_SCOPE_STREAM, stream));
	EXPECT_EQ(0, devpool_alloc(self->dev, 1, &opts, &ptr));
	EXPECT_EQ(1, stat_of(pool).out_blocks.current);
	/* It ends with its stream, whose number is none then. */
	ASSERT_EQ(0, devpool_route_begin(pool, DEVPOOL_SCOPE_STREAM, stream));
	EXPECT_EQ(2, stat_of(pool).out_use_count);
	ASSERT_EQ(0, devpool_stream_destroy(self->dev, stream));
	EXPECT_EQ(1, stat_of(pool).out_use_count);
	ASSERT_EQ(0, devpool_route_end(host, DEVPOOL_SCOPE_STREAM, 0));
}

/* Who waits */

TEST_F(library, a_request_waits_until_its_timeout)
{
	struct devpool_pool *pool = new_tight_pool(self->dev);
	struct later later = { .dev = self->dev };
	pthread_t thread;
	void *ptr = (void *)1;
	__u64 before;
	char *p;

	later.stream = new_stream(self->dev, 0);
	p = new_block_on(pool, 2 * MIB, later.stream);
	later.point = submit(self->dev, later.stream);
	EXPECT_EQ(0, devpool_free(self->dev, p));
	EXPECT_EQ(-EAGAIN, alloc_on(pool, 2 * MIB, 0, 0, &ptr));
	EXPECT_EQ(-EAGAIN, alloc_on(pool, 2 * MIB, 0, 1, &ptr));
	before = test_now();
	EXPECT_EQ(-ETIME, alloc_on(pool, 2 * MIB, 0, before + A_WHILE, &ptr));
	EXPECT_LE(before + A_WHILE, test_now());
	EXPECT_EQ((void *)1, ptr);
	ASSERT_EQ(0, pthread_create(&thread, NULL, signal_later, &later));
	EXPECT_EQ(0, alloc_on(pool, 2 * MIB, 0, INT64_MAX, &ptr));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, later.ret);
	EXPECT_EQ(p, ptr);
	/* Nothing is in use any more, so there is nothing to wait for. */
	EXPECT_EQ(-EDQUOT, alloc_on(pool, 2 * MIB, 0, INT64_MAX, &ptr));
}

TEST_F(library, a_request_without_options_waits)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	struct later later = { .dev = self->dev };
	pthread_t thread;
	void *ptr, *again;

	test_limit(devpool_fd(self->dev), 2 * MIB);
	later.stream = new_stream(self->dev, 0);
	opts.stream = later.stream;
	ASSERT_EQ(0, devpool_alloc(self->dev, 2 * MIB, &opts, &ptr));
	later.point = submit(self->dev, later.stream);
	EXPECT_EQ(0, devpool_free(self->dev, ptr));
	ASSERT_EQ(0, pthread_create(&thread, NULL, signal_later, &later));
	EXPECT_EQ(0, devpool_alloc(self->dev, 2 * MIB, NULL, &again));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, later.ret);
	EXPECT_EQ(ptr, again);
}

TEST_F(library, pool_close_waits_and_says_what_came_back)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct later later = { .dev = self->dev };
	struct devpool_result result;
	pthread_t thread;
	char *p;

	later.stream = new_stream(self->dev, 0);
	p = new_block_on(pool, 4 * MIB, later.stream);
	later.point = submit(self->dev, later.stream);
	EXPECT_EQ(0, devpool_free(self->dev, p));
	ASSERT_EQ(0, pthread_create(&thread, NULL, signal_later, &later));
	EXPECT_EQ(0, devpool_pool_close(pool, INT64_MAX, &result));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, later.ret);
	EXPECT_EQ(4 * MIB, result.freed);
	EXPECT_EQ(0, result.pending);
	EXPECT_EQ(DEVPOOL_STATE_GONE, result.state);
}

TEST_F(library, pool_close_says_what_is_in_use_at_its_timeout)
{
	struct devpool_pool *pool = new_pool(self->dev);
	uint32_t stream = new_stream(self->dev, 0);
	char *own = new_block_on(pool, 4 * MIB, stream), *recorded = new_block(pool, 2 * MIB);
	struct devpool_result result;
	uint64_t point;
	__u64 before;

	EXPECT_EQ(0, devpool_free(self->dev, new_block(pool, 6 * MIB)));
	EXPECT_EQ(0, devpool_record(self->dev, recorded, stream));
	point = submit(self->dev, stream);
	EXPECT_EQ(0, devpool_free(self->dev, own));
	EXPECT_EQ(0, devpool_free(self->dev, recorded));
	before = test_now();
	EXPECT_EQ(0, devpool_pool_close(pool, before + A_WHILE, &result));
	EXPECT_LE(before + A_WHILE, test_now());
	EXPECT_EQ(6 * MIB, result.freed);
	EXPECT_EQ(6 * MIB, result.pending);
	EXPECT_EQ(6 * MIB, result.kept);
	EXPECT_EQ(0, result.live);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, result.state);
	EXPECT_EQ(self->base.used + 6 * MIB, devpool_sysfs(self->info.out_index, "used"));
	EXPECT_EQ(0, devpool_stream_signal(self->dev, stream, point));
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
}

TEST_F(library, closing_an_attached_pool_says_what_is_in_use)
{
	struct devpool_pool *pool = new_pool(self->dev), *attached;
	uint32_t stream = new_stream(self->dev, 0);
	struct devpool_result result;
	uint64_t point;

	ASSERT_EQ(0, devpool_pool_attach(self->dev, devpool_pool_fd(pool), &attached));
	EXPECT_EQ(0, devpool_pool_close(pool, 0, &result));
	EXPECT_EQ(DEVPOOL_STATE_LIVE, result.state);
	point = submit(self->dev, stream);
	/* Cached, and for its stream alone */
	EXPECT_EQ(0, devpool_free(self->dev, new_block_on(attached, 4 * MIB, stream)));
	EXPECT_EQ(0, devpool_free(self->dev, new_block(attached, 2 * MIB)));
	EXPECT_EQ(0, devpool_pool_close(attached, 0, &result));
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, result.state);
	EXPECT_EQ(0, result.freed);
	EXPECT_EQ(6 * MIB, result.kept);
	EXPECT_EQ(4 * MIB, result.pending);
	EXPECT_EQ(0, result.live);
	EXPECT_EQ(self->base.used + 4 * MIB, devpool_sysfs(self->info.out_index, "used"));
	EXPECT_EQ(0, devpool_stream_signal(self->dev, stream, point));
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
}

TEST_F(library, empty_cache_waits_for_what_is_to_go)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	struct devpool_pool *busy = new_pool(self->dev);
	struct later later = { .dev = self->dev };
	uint32_t other = new_stream(self->dev, 0);
	struct devpool_result result;
	pthread_t thread;
	void *ptr;

	/* In another pool, for ever: nobody waits for that. */
	submit(self->dev, other);
	EXPECT_EQ(0, devpool_free(self->dev, new_block_on(busy, 2 * MIB, other)));

	later.stream = new_stream(self->dev, 0);
	opts.stream = later.stream;
	ASSERT_EQ(0, devpool_alloc(self->dev, 4 * MIB, &opts, &ptr));
	later.point = submit(self->dev, later.stream);
	EXPECT_EQ(0, devpool_free(self->dev, ptr));
	EXPECT_EQ(0, devpool_empty_cache(self->dev, NULL, 0, &result));
	EXPECT_EQ(0, result.freed);
	EXPECT_EQ(4 * MIB, result.pending);
	EXPECT_EQ(4 * MIB, result.kept);
	EXPECT_EQ(0, devpool_empty_cache(self->dev, NULL, test_now() + A_WHILE, &result));
	EXPECT_EQ(4 * MIB, result.pending);
	ASSERT_EQ(0, pthread_create(&thread, NULL, signal_later, &later));
	EXPECT_EQ(0, devpool_empty_cache(self->dev, NULL, INT64_MAX, &result));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, later.ret);
	EXPECT_EQ(4 * MIB, result.freed);
	EXPECT_EQ(0, result.pending);
}

TEST_F(library, a_trim_leaves_what_is_in_use)
{
	struct devpool_pool *pool = new_pool(self->dev);
	uint32_t stream = new_stream(self->dev, 0);
	struct devpool_result result;

	submit(self->dev, stream);
	EXPECT_EQ(0, devpool_free(self->dev, new_block_on(pool, 4 * MIB, stream)));
	EXPECT_EQ(0, devpool_free(self->dev, new_block(pool, 2 * MIB)));
	EXPECT_EQ(0, devpool_pool_trim(pool, 0, &result));
	EXPECT_EQ(2 * MIB, result.freed);
	EXPECT_EQ(4 * MIB, result.kept);
	EXPECT_EQ(4 * MIB, result.pending);
}

TEST_F(library, a_client_that_closes_waits_for_nothing)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	struct devpool *dev;
	uint32_t stream;
	void *ptr;

	ASSERT_EQ(0, devpool_open(self->node, &dev));
	stream = new_stream(dev, 0);
	opts.stream = stream;
	ASSERT_EQ(0, devpool_alloc(dev, 4 * MIB, &opts, &ptr));
	submit(dev, stream);
	EXPECT_EQ(0, devpool_free(dev, ptr));
	devpool_close(dev);
	self->base.clients++;
	EXPECT_BASE(self->base, self->info.out_index);
}

TEST_HARNESS_MAIN
