// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fenced streams: memory that drivers still use. The fences are those of drivers
 * that are not devpool's, and whoever made them may be dead by then.
 */
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "fence_test.h"

FIXTURE(fence)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	/* two sources, whose fences are in no order with each other */
	struct test_fences fences, more;
	__u32 stream;
	int pool;
	int index;
	int fd;
};

FIXTURE_VARIANT(fence)
{
	enum test_kind kind;
	bool timeline;
};

FIXTURE_VARIANT_ADD(fence, sysmem_vgem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(fence, null_vgem) { .kind = TEST_NULL };
FIXTURE_VARIANT_ADD(fence, sysmem_sw_sync) { .kind = TEST_SYSMEM, .timeline = true };

/* The stock kernels have no sw_sync. All have vgem: without it nothing is tested. */
#define open_fences(fences)							\
do {										\
	(fences)->timeline = variant->timeline;					\
	(fences)->last = 0;							\
	if (variant->timeline && test_slow() == 1 && access(TEST_SW_SYNC, F_OK)) \
		SKIP(return, "there is no sw_sync");				\
	(fences)->file = variant->timeline ?					\
		open(TEST_SW_SYNC, O_RDWR | O_CLOEXEC) : test_open_vgem();	\
	ASSERT_LE(0, (fences)->file)						\
		TH_LOG("no %s", variant->timeline ? "sw_sync" : "vgem");	\
} while (0)

FIXTURE_SETUP(fence)
{
	test_setup(self, variant->kind);
	open_fences(&self->fences);
	open_fences(&self->more);
	self->pool = test_pool_create(self->fd, &self->id);
	self->stream = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
}

FIXTURE_TEARDOWN(fence)
{
	struct devpool_pool_stat stat = test_pool_stat(self->fd, self->id);

	EXPECT_POOL_SOUND(stat);
	close(self->pool);
	close(self->fd);
	/* Whose fences signal when the last of their files is closed */
	close(self->fences.file);
	close(self->more.file);
	EXPECT_SOON(!devpool_sysfs(self->index, "pools"));
	EXPECT_BASE(self->base, self->index);
}

#define USED() ((__u64)devpool_sysfs(self->index, "used"))
#define MS 1000000LL
#define FOREVER INT64_MAX

/* A point that ends with a fence; the answer is the command's. */
#define SUBMIT(on, file, more_flags)						\
	test_submit_opts(self->fd, .stream = on, .in_fence = file,		\
			 .flags = DEVPOOL_SUBMIT_FENCE_IN | (more_flags))

/* The same, of a fence of which nothing else is kept */
#define SUBMIT_FENCE(fences, fence)						\
({										\
	int _sync_file = test_fence(fences, fence);				\
	__u64 _at = SUBMIT(self->stream, _sync_file, 0).out_point;		\
										\
	close(_sync_file);							\
	_at;									\
})

/* A block that the stream uses when it is freed */
#define MAKE_PENDING(bytes)							\
({										\
	__u64 _x = test_alloc(self->fd, self->id, bytes);			\
										\
	test_record(self->fd, _x, self->stream);				\
	test_free(self->fd, _x);						\
	_x;									\
})

TEST_F(fence, a_block_is_pending_until_the_fence_signals)
{
	__u32 fence;
	__u64 x;

	EXPECT_EQ(1, SUBMIT_FENCE(&self->fences, &fence));
	x = MAKE_PENDING(4 * MIB);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	EXPECT_NE(x, test_alloc(self->fd, self->id, 4 * MIB));
	usleep(50000);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
}

/* Nobody asks: the worker alone does it. */
TEST_F(fence, S6_a_closed_pool_goes_when_the_fence_signals)
{
	struct devpool_pool_stat stat;
	struct devpool_pool_id q;
	__u64 x, begin;
	__u32 fence;
	int q_fd;

	q_fd = test_pool_create(self->fd, &q);
	SUBMIT_FENCE(&self->fences, &fence);
	x = test_alloc(self->fd, q, 6 * MIB);
	test_record(self->fd, x, self->stream);
	test_free(self->fd, x);
	begin = test_now();
	close(q_fd);
	EXPECT_GT(begin + 1000 * MS * test_slow(), test_now());
	EXPECT_EQ(6 * MIB, USED());
	test_fence_signal(&self->fences, fence);
	/* The pool goes when the last chunk has left, which is a moment after it is free. */
	EXPECT_SOON(!USED());
	EXPECT_SOON(devpool_pool_stat_raw(self->fd, q, &stat) == -ENOENT);
}

TEST_F(fence, a_point_has_signalled_when_those_before_it_have)
{
	__u32 first, second;
	__u64 x, y;

	EXPECT_EQ(1, SUBMIT_FENCE(&self->fences, &first));
	x = MAKE_PENDING(4 * MIB);
	EXPECT_EQ(2, SUBMIT_FENCE(&self->more, &second));
	y = MAKE_PENDING(6 * MIB);
	test_fence_signal(&self->more, second);
	usleep(50000);
	EXPECT_EQ(10 * MIB, test_pending(self->fd, self->id));
	test_fence_signal(&self->fences, first);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
	EXPECT_EQ(y, test_alloc(self->fd, self->id, 6 * MIB));
}

TEST_F(fence, a_later_point_keeps_what_came_later)
{
	__u32 first, second;

	SUBMIT_FENCE(&self->fences, &first);
	MAKE_PENDING(4 * MIB);
	SUBMIT_FENCE(&self->more, &second);
	MAKE_PENDING(6 * MIB);
	test_fence_signal(&self->fences, first);
	EXPECT_SOON(test_pending(self->fd, self->id) == 6 * MIB);
	usleep(50000);
	EXPECT_EQ(6 * MIB, test_pending(self->fd, self->id));
	test_fence_signal(&self->more, second);
	EXPECT_SOON(!test_pending(self->fd, self->id));
}

TEST_F(fence, a_fence_that_has_signalled_before)
{
	__u32 fence;
	int sync;

	sync = test_fence(&self->fences, &fence);
	test_fence_signal(&self->fences, fence);
	EXPECT_EQ(1, test_sync_status(sync));
	EXPECT_EQ(1, SUBMIT(self->stream, sync, 0).out_point);
	EXPECT_EQ(2, SUBMIT(self->stream, sync, 0).out_point);
	MAKE_PENDING(4 * MIB);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	close(sync);
}

TEST_F(fence, one_fence_for_many_points_and_streams)
{
	__u32 stream[16], fence;
	__u64 x, i, j;
	int sync;

	sync = test_fence(&self->fences, &fence);
	x = test_alloc(self->fd, self->id, 4 * MIB);
	for (i = 0; i < ARRAY_SIZE(stream); i++) {
		stream[i] = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
		for (j = 1; j <= 16; j++)
			EXPECT_EQ(j, SUBMIT(stream[i], sync, 0).out_point);
		test_record(self->fd, x, stream[i]);
	}
	close(sync);
	test_free(self->fd, x);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!test_pending(self->fd, self->id));
}

TEST_F(fence, a_merged_sync_file)
{
	__u32 first, second;
	int a, b, both;

	a = test_fence(&self->fences, &first);
	b = test_fence(&self->more, &second);
	both = test_sync_merge(a, b);
	ASSERT_LE(0, both);
	SUBMIT(self->stream, both, 0);
	close(a);
	close(b);
	close(both);
	MAKE_PENDING(4 * MIB);
	test_fence_signal(&self->more, second);
	usleep(50000);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	test_fence_signal(&self->fences, first);
	EXPECT_SOON(!test_pending(self->fd, self->id));
}

TEST_F(fence, a_guard_ends_with_its_fence)
{
	__u32 other, fence;
	__u64 x;

	other = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->stream);
	SUBMIT_FENCE(&self->fences, &fence);
	test_free(self->fd, x);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(4 * MIB, test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_pending);
	EXPECT_NE(x, test_alloc_on(self->fd, self->id, 4 * MIB, other));
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, self->stream));
	test_free(self->fd, x);
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!test_empty_cache(self->fd, self->id, 0, 0).out_pending);
	EXPECT_EQ(x, test_alloc_on(self->fd, self->id, 4 * MIB, other));
}

struct later {
	pthread_t thread;
	struct test_fences *fences;
	__u32 fence;
	int ret;
};

static void *signal_later(void *arg)
{
	struct later *later = arg;

	usleep(50000);
	later->ret = test_fence_signal_raw(later->fences, later->fence);
	return NULL;
}

TEST_F(fence, S9_a_request_waits_for_the_fence)
{
	struct later later = { .fences = &self->fences };
	__u64 x;

	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 8 * MIB);
	SUBMIT_FENCE(&self->fences, &later.fence);
	x = MAKE_PENDING(8 * MIB);
	test_err_alloc(EAGAIN, self->fd, self->id, 8 * MIB);
	test_err_alloc_opts(ETIME, self->fd, .pool = self->id, .bytes = 8 * MIB,
			    .timeout = test_now() + 20 * MS);
	ASSERT_EQ(0, pthread_create(&later.thread, NULL, signal_later, &later));
	EXPECT_EQ(x, test_alloc_opts(self->fd, .pool = self->id, .bytes = 8 * MIB,
				     .timeout = FOREVER).out_addr);
	pthread_join(later.thread, NULL);
	EXPECT_EQ(0, later.ret);
}

TEST_F(fence, S5_a_flush_waits_for_its_own_fences)
{
	struct later later = { .fences = &self->fences };
	struct devpool_empty_cache r;
	struct devpool_pool_id q;
	__u32 other, fence;
	int q_fd, sync;
	__u64 x;

	q_fd = test_pool_create(self->fd, &q);
	other = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
	SUBMIT_FENCE(&self->fences, &later.fence);
	sync = test_fence(&self->more, &fence);
	SUBMIT(other, sync, 0);
	close(sync);
	x = test_alloc(self->fd, q, 4 * MIB);
	test_record(self->fd, x, other);
	test_free(self->fd, x);
	MAKE_PENDING(8 * MIB);
	ASSERT_EQ(0, pthread_create(&later.thread, NULL, signal_later, &later));
	r = test_empty_until(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0, FOREVER);
	pthread_join(later.thread, NULL);
	EXPECT_EQ(8 * MIB, r.out_freed);
	EXPECT_EQ(0, r.out_pending);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, q));
	close(q_fd);
	EXPECT_EQ(4 * MIB, USED());
	test_fence_signal(&self->more, fence);
	EXPECT_SOON(!USED());
}

TEST_F(fence, a_point_as_a_sync_file)
{
	__u32 first, second;
	int a, b, out;

	a = test_fence(&self->fences, &first);
	b = test_fence(&self->more, &second);
	out = SUBMIT(self->stream, a, DEVPOOL_SUBMIT_FENCE_OUT).out_fence;
	close(out);
	out = SUBMIT(self->stream, b, DEVPOOL_SUBMIT_FENCE_OUT).out_fence;
	EXPECT_EQ(FD_CLOEXEC, fcntl(out, F_GETFD));
	EXPECT_EQ(0, test_sync_status(out));
	test_fence_signal(&self->more, second);
	EXPECT_SOON(test_sync_status(b) == 1);
	/* It is the point that it tells of, not the fence that came in. */
	EXPECT_EQ(0, test_sync_status(out));
	test_fence_signal(&self->fences, first);
	EXPECT_SOON(test_sync_status(out) == 1);
	close(a);
	close(b);
	close(out);
}

/* Whoever has it may have it as long as he likes. */
TEST_F(fence, a_sync_file_outlives_stream_and_client)
{
	__u32 fence;
	int other, sync;
	struct devpool_stream_submit cmd;

	other = test_open(self->index);
	sync = test_fence(&self->fences, &fence);
	cmd = test_submit_opts(other, .stream = test_stream(other, DEVPOOL_STREAM_FENCED),
			       .flags = DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT,
			       .in_fence = sync);
	close(sync);
	close(other);
	EXPECT_EQ(0, test_sync_status(cmd.out_fence));
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(test_sync_status(cmd.out_fence) == 1);
	close(cmd.out_fence);
}

#define DEEP 1000

/* Each stream's point is what the next one's waits for. */
TEST_F_TIMEOUT(fence, a_thousand_points_inside_each_other, 60)
{
	__u32 stream = 0, fence;
	/* On a debug kernel vgem's fence is over before so many. */
	int deep = variant->timeline ? DEEP : test_times(DEEP);
	int sync, out;
	__u64 x;
	int i;

	sync = test_fence(&self->fences, &fence);
	for (i = 0; i < deep; i++) {
		if (stream)
			test_stream_destroy(self->fd, stream);
		stream = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
		out = SUBMIT(stream, sync, DEVPOOL_SUBMIT_FENCE_OUT).out_fence;
		close(sync);
		sync = out;
	}
	x = test_alloc(self->fd, self->id, 4 * MIB);
	test_record(self->fd, x, stream);
	test_free(self->fd, x);
	EXPECT_EQ(0, test_sync_status(sync));
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(test_sync_status(sync) == 1);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	close(sync);
}

/* What each has sent the other is in what comes back: it does not grow by that. */
TEST_F_TIMEOUT(fence, two_streams_that_feed_each_other, 60)
{
	__u32 stream[2], fence;
	int sync, out;
	__u64 x;
	int i;

	stream[0] = self->stream;
	stream[1] = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
	sync = test_fence(&self->fences, &fence);
	for (i = 0; i < 200; i++) {
		out = SUBMIT(stream[i % 2], sync, DEVPOOL_SUBMIT_FENCE_OUT).out_fence;
		close(sync);
		sync = out;
	}
	x = MAKE_PENDING(4 * MIB);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
	close(sync);
}

TEST_F(fence, destroying_a_stream_leaves_its_points_open)
{
	__u32 fence;
	__u64 x, y;

	x = test_alloc_on(self->fd, self->id, 4 * MIB, self->stream);
	SUBMIT_FENCE(&self->fences, &fence);
	y = MAKE_PENDING(6 * MIB);
	test_free(self->fd, x);
	test_stream_destroy(self->fd, self->stream);
	test_err_submit(ENOENT, self->fd, .stream = self->stream);
	EXPECT_EQ(6 * MIB, test_pending(self->fd, self->id));
	EXPECT_EQ(10 * MIB,
		  test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_pending);
	EXPECT_NE(x, test_alloc(self->fd, self->id, 4 * MIB));
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!test_empty_cache(self->fd, self->id, 0, 0).out_pending);
	EXPECT_EQ(x, test_alloc(self->fd, self->id, 4 * MIB));
	EXPECT_EQ(y, test_alloc(self->fd, self->id, 6 * MIB));
}

#define DEVICE_PENDING()							\
({										\
	struct devpool_stats _s = test_stats_device(self->fd);			\
										\
	_s.out_active.current - _s.out_allocated.current;			\
})

/* Leaves 4 pending in a pool, 6 in the default pool, 8 guarded; then dies. */
static void die_with_fences(int index, int sync)
{
	int fd = devpool_open_node(index);
	struct devpool_pool_id id[2] = {};
	struct devpool_stream_submit cmd = {
		.flags = DEVPOOL_SUBMIT_FENCE_IN,
		.in_fence = sync,
	};
	__u64 addr[3], bytes[3] = { 4 * MIB, 6 * MIB, 8 * MIB };
	int pool, i;

	if (devpool_pool_create_raw(fd, &id[0], &pool) ||
	    devpool_stream_create_raw(fd, DEVPOOL_STREAM_FENCED, &cmd.stream) ||
	    devpool_stream_submit_raw(fd, &cmd))
		_exit(1);
	for (i = 0; i < 3; i++) {
		struct devpool_alloc alloc = {
			.pool = id[i % 2], .bytes = bytes[i], .stream = i == 2 ? cmd.stream : 0,
		};

		if (devpool_alloc_opts_raw(fd, &alloc))
			_exit(2);
		addr[i] = alloc.out_addr;
	}
	for (i = 0; i < 3; i++)
		if (devpool_record_raw(fd, addr[i], cmd.stream) ||
		    (i && devpool_free_raw(fd, addr[i])))
			_exit(3);
	/* One it has still got: closing frees it. */
	raise(SIGKILL);
}

TEST_F(fence, whoever_dies_leaves_what_drivers_use)
{
	struct devpool_snapshot_entry entry[64];
	__u64 pending = 0;
	__u32 fence;
	pid_t child;
	int sync;
	int i, n;

	sync = test_fence(&self->fences, &fence);
	child = test_fork();
	ASSERT_LE(0, child);
	if (!child)
		die_with_fences(self->index, sync);
	EXPECT_EQ(-SIGKILL, test_wait(child));
	close(sync);
	EXPECT_EQ(18 * MIB, USED());
	EXPECT_EQ(10 * MIB, DEVICE_PENDING());
	n = test_snapshot(self->fd, default_pool, DEVPOOL_SNAPSHOT_DEVICE, entry, 64);
	for (i = 0; i < n; i++) {
		EXPECT_NE(DEVPOOL_BLOCK_LIVE, entry[i].state);
		if (entry[i].state == DEVPOOL_BLOCK_PENDING)
			pending += entry[i].bytes;
	}
	EXPECT_EQ(10 * MIB, pending);
	usleep(50000);
	EXPECT_EQ(18 * MIB, USED());
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!USED());
	EXPECT_EQ(0, DEVICE_PENDING());
}

/* Nobody signals it: vgem's own timeout does, when all are dead. */
TEST_F_TIMEOUT(fence, whoever_dies_leaves_it_until_the_driver_s_timeout, 60)
{
	__u64 begin = test_now();
	__u32 fence;
	pid_t child;
	int sync;

	if (variant->timeline)
		/* Has no timeout: what ends it is that its file is closed. */
		begin -= TEST_FENCE_SECONDS * 1000 * MS;
	sync = test_fence(&self->fences, &fence);
	child = test_fork();
	ASSERT_LE(0, child);
	if (!child)
		die_with_fences(self->index, sync);
	EXPECT_EQ(-SIGKILL, test_wait(child));
	EXPECT_EQ(18 * MIB, USED());
	if (variant->timeline)
		close(self->fences.file);
	while (USED() && test_now() < begin + 3 * TEST_FENCE_SECONDS * 1000 * MS)
		usleep(10000);
	EXPECT_EQ(0, USED());
	EXPECT_LE(begin + (TEST_FENCE_SECONDS - 1) * 1000 * MS, test_now());
	EXPECT_NE(0, test_sync_status(sync));
	close(sync);
}

TEST_F(fence, a_driver_that_goes_ends_its_fences)
{
	__u32 fence;
	int sync;

	sync = test_fence(&self->fences, &fence);
	SUBMIT(self->stream, sync, 0);
	MAKE_PENDING(4 * MIB);
	close(self->fences.file);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	/* sw_sync's with an error, which is as good as any other end. */
	EXPECT_EQ(variant->timeline ? -ENOENT : 1, test_sync_status(sync));
	close(sync);
}

/* Bad input */

struct state {
	struct devpool_pool_stat stat;
	struct devpool_stats stats;
	char fdinfo[2048];
};

#define STATE()									\
({										\
	struct state _s = {};							\
										\
	_s.stat = test_pool_stat(self->fd, self->id);				\
	_s.stats = test_stats(self->fd);					\
	ASSERT_LT(0, test_fdinfo(self->fd, _s.fdinfo, sizeof(_s.fdinfo)));	\
	_s;									\
})

#define EXPECT_STATE(before)							\
do {										\
	struct state _now = STATE();						\
										\
	EXPECT_SAME((before).stat, _now.stat);					\
	EXPECT_SAME((before).stats, _now.stats);				\
	EXPECT_STREQ((before).fdinfo, _now.fdinfo);				\
} while (0)

TEST_F(fence, what_is_no_sync_file)
{
	int wrong[] = { -1, 9999, self->fd, self->pool, self->fences.file, eventfd(0, 0) };
	struct state before = STATE();
	int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		test_err_submit(EBADF, self->fd, .stream = self->stream,
				.flags = DEVPOOL_SUBMIT_FENCE_IN, .in_fence = wrong[i]);
		test_err_submit(EBADF, self->fd, .stream = self->stream,
				.flags = DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT,
				.in_fence = wrong[i]);
	}
	EXPECT_STATE(before);
}

TEST_F(fence, a_fenced_stream_is_not_the_user_s)
{
	struct state before;
	__u32 user, fence;
	int sync;

	user = test_stream(self->fd, 0);
	sync = test_fence(&self->fences, &fence);
	before = STATE();
	test_err_submit(EINVAL, self->fd, .stream = self->stream);
	test_err_submit(EINVAL, self->fd, .stream = self->stream,
			.flags = DEVPOOL_SUBMIT_FENCE_OUT);
	test_err_submit(EINVAL, self->fd, .stream = self->stream, .in_fence = sync);
	test_err_submit(EINVAL, self->fd, .stream = self->stream, .in_fence = sync,
			.flags = DEVPOOL_SUBMIT_FENCE_IN, .__reserved = 1);
	test_err_submit(EINVAL, self->fd, .stream = user, .in_fence = sync,
			.flags = DEVPOOL_SUBMIT_FENCE_IN);
	test_err_submit(EOPNOTSUPP, self->fd, .stream = user, .in_fence = sync,
			.flags = DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT);
	EXPECT_STATE(before);
	EXPECT_EQ(1, SUBMIT(self->stream, sync, 0).out_point);
	MAKE_PENDING(4 * MIB);
	before = STATE();
	test_err_signal(EINVAL, self->fd, self->stream, 0);
	test_err_signal(EINVAL, self->fd, self->stream, 1);
	test_err_signal(EINVAL, self->fd, self->stream, 2);
	EXPECT_STATE(before);
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	test_err_signal(EINVAL, self->fd, self->stream, 1);
	EXPECT_EQ(2, SUBMIT(self->stream, sync, 0).out_point);
	close(sync);
}

TEST_F(fence, no_descriptor_is_left_for_the_point)
{
	struct rlimit was, none;
	struct state before;
	__u32 fence;
	int sync;

	sync = test_fence(&self->fences, &fence);
	before = STATE();
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &was));
	none = was;
	none.rlim_cur = 0;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
	test_err_submit(EMFILE, self->fd, .stream = self->stream, .in_fence = sync,
			.flags = DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &was));
	EXPECT_STATE(before);
	EXPECT_EQ(1, SUBMIT(self->stream, sync, 0).out_point);
	close(sync);
}

/* See out_max_points in the header. */
#define MOST (self->info.out_max_points < 4096 ? self->info.out_max_points : 4096)

#define TRIES 3

/* As many as there may be, all of which end at once */
TEST_F_TIMEOUT(fence, no_more_open_points_than_info_says, 120)
{
	__u32 max = MOST, tries, i, fence;
	struct state before;
	__u64 last = 0;
	int sync;

	/* vgem's fence may be over before a slow machine has so many: then all are. */
	for (tries = 1; tries <= TRIES; tries++) {
		sync = test_fence(&self->fences, &fence);
		for (i = 0; i < max; i++)
			last = SUBMIT(self->stream, sync, 0).out_point;
		if (!test_sync_status(sync))
			break;
		MAKE_PENDING(4 * MIB);
		EXPECT_SOON(!test_pending(self->fd, self->id));
		close(sync);
	}
	ASSERT_GE(TRIES, tries);
	ASSERT_EQ((__u64)tries * max, last);
	before = STATE();
	test_err_submit(EDQUOT, self->fd, .stream = self->stream, .in_fence = sync,
			.flags = DEVPOOL_SUBMIT_FENCE_IN);
	EXPECT_STATE(before);
	MAKE_PENDING(4 * MIB);
	test_fence_signal_raw(&self->fences, fence);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	EXPECT_EQ(last + 1, SUBMIT(self->stream, sync, 0).out_point);
	close(sync);
}

/* Several at once on one stream: every point is somebody's, once. */

#define THREADS 4
#define POINTS 500

struct submitter {
	pthread_t thread;
	int fd;
	int sync;
	__u32 stream;
	__u64 point[POINTS];
	int ret;
};

static void *submit_many(void *arg)
{
	struct submitter *s = arg;
	struct devpool_stream_submit cmd;
	int i;

	for (i = 0; i < POINTS && !s->ret; i++) {
		cmd = (struct devpool_stream_submit){
			.stream = s->stream,
			.in_fence = s->sync,
			.flags = DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT,
		};
		s->ret = devpool_stream_submit_raw(s->fd, &cmd);
		s->point[i] = cmd.out_point;
		close(cmd.out_fence);
	}
	return NULL;
}

TEST_F_TIMEOUT(fence, several_submit_at_once, 60)
{
	static struct submitter s[THREADS];
	static bool seen[THREADS * POINTS + 1];
	__u32 fence;
	int sync;
	int i, j;

	sync = test_fence(&self->fences, &fence);
	for (i = 0; i < THREADS; i++) {
		s[i] = (struct submitter){
			.fd = self->fd, .sync = sync, .stream = self->stream,
		};
		ASSERT_EQ(0, pthread_create(&s[i].thread, NULL, submit_many, &s[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(s[i].thread, NULL);
		ASSERT_EQ(0, s[i].ret);
	}
	for (i = 0; i < THREADS; i++) {
		for (j = 0; j < POINTS; j++) {
			ASSERT_GE(THREADS * POINTS, s[i].point[j]);
			ASSERT_FALSE(seen[s[i].point[j]]);
			seen[s[i].point[j]] = true;
			/* In order */
			ASSERT_TRUE(!j || s[i].point[j - 1] < s[i].point[j]);
		}
	}
	MAKE_PENDING(4 * MIB);
	test_fence_signal_raw(&self->fences, fence);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	EXPECT_EQ(THREADS * POINTS + 1, SUBMIT(self->stream, sync, 0).out_point);
	close(sync);
}

TEST_HARNESS_MAIN
