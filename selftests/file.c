// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a file owns, and that all of it comes back when its last holder goes,
 * however it goes.
 */
#include <pthread.h>

#include "fence_test.h"

FIXTURE(file)
{
	struct devpool_info info;
	struct test_base base;
	__u64 chunk;
	int index;
	int fd;
};

FIXTURE_SETUP(file)
{
	test_setup(self, TEST_SYSMEM);
	self->chunk = self->info.out_chunk;
	/* The tests count clients from none. */
	close(self->fd);
}

FIXTURE_TEARDOWN(file)
{
}

/*
 * A life of everything there is, in steps. The process that lives it reports
 * the step at which it is to stop and waits there for its end.
 */
/* What is left of it when it ends now, in memory that both have */
struct life_after {
	/* the names of fences that it has made */
	__u32 fence[2];
	/* bytes that these keep */
	__u64 held;
	/* it has to do with the heap, which keeps a chunk */
	bool heap;
};

struct life {
	int index;
	int report;
	int stop;
	int step;
	/* of whoever waits for its end, which go on after it */
	struct test_fences fences;
	struct life_after *after;
};

static void life_step(struct life *l)
{
	int here = l->step++;

	if (here != l->stop)
		return;
	if (write(l->report, &here, sizeof(here)) != sizeof(here))
		_exit(2);
	for (;;)
		pause();
}

#define LIFE(call)								\
do {										\
	if ((call) < 0)								\
		_exit(3);							\
	life_step(l);								\
} while (0)

static int life_map(int fd, __u64 addr, __u64 bytes, char **p)
{
	*p = devpool_map_raw(fd, addr, bytes);
	return *p ? 0 : -1;
}

static int life_write(char *p, __u64 bytes)
{
	__u64 i;

	for (i = 0; i < bytes; i += TEST_PAGE)
		p[i] = i;
	return 0;
}

static void life(struct life *l)
{
	struct devpool_pool_id p = {}, q = {};
	struct devpool_empty_cache empty;
	struct devpool_pool_stat stat;
	struct devpool_info info;
	struct devpool_pool_id r, any;
	__u64 a, b, c, d, e;
	int fd, other, p_fd, q_fd;
	char *m, *n;

	LIFE(fd = devpool_open_node(l->index));
	LIFE(devpool_info_raw(fd, &info));
	LIFE(devpool_alloc_raw(fd, default_pool, 4096, &a));
	LIFE(devpool_alloc_raw(fd, default_pool, 7 * MIB, &b));
	LIFE(life_map(fd, b, 7 * MIB, &m));
	LIFE(life_write(m, 7 * MIB));
	LIFE(devpool_pool_create_raw(fd, &p, &p_fd));
	LIFE(devpool_alloc_raw(fd, p, 5 * MIB, &c));
	LIFE(life_map(fd, c, 5 * MIB, &n));
	LIFE(life_write(n, 5 * MIB));
	LIFE(devpool_free_raw(fd, b));
	LIFE(devpool_alloc_raw(fd, default_pool, 8 * MIB, &b));
	LIFE(devpool_alloc_raw(fd, p, 2 * MIB, &d));
	LIFE(devpool_free_raw(fd, c));
	/* recycles */
	LIFE(devpool_alloc_raw(fd, p, 7 * MIB, &c));
	LIFE(devpool_free_raw(fd, c));
	LIFE(devpool_empty_cache_raw(fd, p, DEVPOOL_EMPTY_TRIM, 0, &empty));
	LIFE(devpool_alloc_raw(fd, p, 5 * MIB, &c));
	LIFE(devpool_free_raw(fd, b));
	LIFE(devpool_empty_cache_raw(fd, default_pool, 0, 0, &empty));
	LIFE(devpool_pool_create_raw(fd, &q, &q_fd));
	LIFE(devpool_alloc_raw(fd, q, 512, &e));
	LIFE(devpool_pool_stat_raw(fd, q, &stat));
	LIFE(close(q_fd));
	LIFE(devpool_free_raw(fd, e));
	LIFE(devpool_pool_create_raw(fd, &q, &q_fd));
	LIFE(devpool_alloc_raw(fd, q, 3 * MIB, &e));
	LIFE(devpool_free_raw(fd, e));
	LIFE(other = devpool_open_node(l->index));
	LIFE(devpool_alloc_raw(other, default_pool, 3 * MIB, &e));
	/* A pool without a file, which is freeable for a while */
	LIFE(devpool_pool_id_raw(fd, DEVPOOL_POOL_ID_CAPTURE, &r));
	LIFE(devpool_pool_get_raw(fd, r));
	LIFE(devpool_alloc_raw(fd, r, 3 * MIB, &b));
	LIFE(devpool_pool_put_raw(fd, r));
	LIFE(devpool_free_raw(fd, b));
	LIFE(devpool_pool_get_raw(fd, r));
	/* Routes in routes */
	LIFE(devpool_route_begin_raw(fd, r, DEVPOOL_SCOPE_THREAD));
	LIFE(devpool_alloc_raw(fd, default_pool, 5 * MIB, &b));
	LIFE(devpool_route_begin_raw(fd, q, DEVPOOL_SCOPE_ALL));
	LIFE(devpool_alloc_raw(fd, default_pool, 5 * MIB, &d));
	LIFE(devpool_pool_put_raw(fd, r));
	LIFE(devpool_route_end_raw(fd, r, DEVPOOL_SCOPE_THREAD));
	/* The other client has a share in a pool, and a block in common. */
	LIFE(devpool_pool_attach_raw(other, q_fd, &any));
	LIFE(devpool_retain_raw(other, d));
	LIFE(devpool_alloc_raw(other, q, 512, &e));
	LIFE(devpool_route_begin_raw(other, q, DEVPOOL_SCOPE_ALL));
	LIFE(devpool_pool_put_raw(other, q));
	LIFE(devpool_free_raw(fd, d));
	LIFE(devpool_empty_cache_raw(p_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0, &empty));
	LIFE(close(fd));
	/* The first client lives on in its mappings. */
	LIFE(munmap(m, 7 * MIB));
	LIFE(munmap(n, 5 * MIB));
	LIFE(devpool_route_end_raw(other, q, DEVPOOL_SCOPE_ALL));
	LIFE(devpool_free_raw(other, d));
	LIFE(close(other));
	LIFE(close(p_fd));
	LIFE(close(q_fd));
}

/* What a fence kept comes back a moment after it. */
static bool life_is(int index, long long used, long long pools)
{
	__u64 until = test_now() + TEST_SOON;

	do {
		if (devpool_sysfs(index, "used") == used &&
		    devpool_sysfs(index, "pools") == pools)
			return true;
		usleep(1000);
	} while (test_now() < until);
	return false;
}

/* A step after which fences keep so many bytes, whatever happens to the process */
#define LIFE_HOLDS(call, bytes)							\
do {										\
	if ((call) < 0)								\
		_exit(3);							\
	l->after->held = (bytes);						\
	life_step(l);								\
} while (0)

static int life_submit(int fd, __u32 stream, int sync, __u32 flags, __u64 *point, int *out)
{
	struct devpool_stream_submit cmd = {
		.stream = stream,
		.in_fence = sync,
		.flags = flags,
	};
	int ret = devpool_stream_submit_raw(fd, &cmd);

	*point = cmd.out_point;
	*out = cmd.out_fence;
	return ret;
}

static int life_alloc_on(int fd, struct devpool_pool_id pool, __u64 bytes, __u32 stream,
			 __u64 *addr)
{
	struct devpool_alloc cmd = { .bytes = bytes, .pool = pool, .stream = stream };
	int ret = devpool_alloc_opts_raw(fd, &cmd);

	*addr = cmd.out_addr;
	return ret;
}

static void life_of_streams(struct life *l)
{
	const __u32 in = DEVPOOL_SUBMIT_FENCE_IN, both = in | DEVPOOL_SUBMIT_FENCE_OUT;
	struct devpool_pool_id p = {}, q = {}, any;
	int fd, other, p_fd, q_fd, first, second, out, none;
	__u32 s, t, f, g, *fence = l->after->fence;
	struct devpool_empty_cache empty;
	__u64 x, y, z, w, point;
	char *m;

	LIFE(fd = devpool_open_node(l->index));
	LIFE(other = devpool_open_node(l->index));
	LIFE(devpool_pool_create_raw(fd, &p, &p_fd));
	/* User streams: nothing of theirs outlives their client. */
	LIFE(devpool_stream_create_raw(fd, 0, &s));
	LIFE(devpool_stream_create_raw(fd, 0, &t));
	LIFE(devpool_alloc_raw(fd, p, 4 * MIB, &x));
	LIFE(life_map(fd, x, 4 * MIB, &m));
	LIFE(life_write(m, 4 * MIB));
	LIFE(devpool_record_raw(fd, x + 2 * MIB, s));
	LIFE(life_submit(fd, s, 0, 0, &point, &none));
	LIFE(devpool_free_raw(fd, x));
	LIFE(devpool_empty_until_raw(fd, p, DEVPOOL_EMPTY_TRIM, 0, test_now() + 1000000,
				     &empty));
	LIFE(life_alloc_on(fd, p, 4 * MIB, t, &y));
	LIFE(devpool_stream_signal_raw(fd, s, point));
	LIFE(life_submit(fd, t, 0, 0, &point, &none));
	LIFE(devpool_free_raw(fd, y));
	LIFE(life_alloc_on(fd, p, 4 * MIB, t, &y));
	LIFE(devpool_record_raw(fd, y, s));
	LIFE(life_submit(fd, s, 0, 0, &point, &none));
	LIFE(devpool_free_raw(fd, y));
	LIFE(devpool_route_stream_raw(fd, DEVPOOL_IOC_ROUTE_BEGIN, p, t));
	LIFE(life_alloc_on(fd, default_pool, 2 * MIB, t, &y));
	LIFE(close(p_fd));
	LIFE(devpool_stream_destroy_raw(fd, s));
	LIFE(devpool_free_raw(fd, y));
	LIFE(devpool_stream_destroy_raw(fd, t));
	LIFE(munmap(m, 4 * MIB));
	/* Fenced ones: what the fences keep stays, and nothing else. */
	LIFE(devpool_pool_create_raw(fd, &q, &q_fd));
	LIFE(devpool_pool_attach_raw(other, q_fd, &any));
	LIFE(devpool_stream_create_raw(fd, DEVPOOL_STREAM_FENCED, &f));
	LIFE(devpool_stream_create_raw(other, DEVPOOL_STREAM_FENCED, &g));
	LIFE(first = test_fence_raw(&l->fences, &fence[0]));
	LIFE(life_submit(fd, f, first, both, &point, &out));
	LIFE(close(first));
	LIFE(devpool_alloc_raw(fd, q, 6 * MIB, &z));
	LIFE(life_map(fd, z, 6 * MIB, &m));
	LIFE(life_write(m, 6 * MIB));
	LIFE_HOLDS(devpool_record_raw(fd, z, f), 6 * MIB);
	LIFE(devpool_retain_raw(other, z));
	LIFE(devpool_free_raw(fd, z));
	LIFE(second = test_fence_raw(&l->fences, &fence[1]));
	LIFE(life_submit(other, g, second, in, &point, &none));
	LIFE(devpool_record_raw(other, z, g));
	LIFE(devpool_free_raw(other, z));
	LIFE(devpool_empty_until_raw(fd, q, DEVPOOL_EMPTY_TRIM, 0, test_now() + 1000000,
				     &empty));
	LIFE_HOLDS(life_alloc_on(fd, q, 2 * MIB, f, &w), 8 * MIB);
	LIFE(devpool_free_raw(fd, w));
	LIFE_HOLDS(life_alloc_on(other, q, 4 * MIB, g, &w), 12 * MIB);
	LIFE(devpool_free_raw(other, w));
	LIFE(devpool_stream_destroy_raw(fd, f));
	LIFE(devpool_stream_destroy_raw(other, g));
	LIFE(devpool_empty_until_raw(q_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0, 0, &empty));
	LIFE(devpool_pool_put_raw(other, q));
	LIFE(close(q_fd));
	LIFE(close(fd));
	LIFE(munmap(m, 6 * MIB));
	/* Of f's, two MiB had no other use; z is g's as well. */
	l->after->held = 10 * MIB;
	LIFE(test_fence_signal_raw(&l->fences, fence[0]) ?: life_is(l->index, 10 * MIB, 1) - 1);
	LIFE(close(out));
	LIFE(close(other));
	l->after->held = 0;
	LIFE(test_fence_signal_raw(&l->fences, fence[1]) ?: life_is(l->index, 0, 0) - 1);
	LIFE(close(second));
}

static void life_of_dma_bufs(struct life *l)
{
	int fd, other, p_fd, heap, buf, same, sync;
	struct devpool_pool_id p = {}, any;
	struct devpool_empty_cache empty;
	__u32 *fence = l->after->fence;
	__u64 x, y;
	char *m;

	l->after->heap = true;
	LIFE(fd = devpool_open_node(l->index));
	LIFE(other = devpool_open_node(l->index));
	LIFE(devpool_pool_create_raw(fd, &p, &p_fd));
	/* Freed while it is exported, and while that is only mapped */
	LIFE(devpool_alloc_raw(fd, p, 4 * MIB, &x));
	LIFE(devpool_export_raw(fd, x, O_RDWR | O_CLOEXEC, &buf));
	LIFE(life_map(buf, 0, 4 * MIB, &m));
	LIFE(life_write(m, 4 * MIB));
	LIFE(devpool_free_raw(fd, x));
	LIFE(close(buf));
	LIFE(munmap(m, 4 * MIB));
	/* One dma-buf of two clients, and a fence that outlasts it */
	LIFE(devpool_alloc_raw(fd, p, 6 * MIB, &y));
	LIFE(devpool_export_raw(fd, y, O_RDWR | O_CLOEXEC, &buf));
	LIFE(devpool_pool_attach_raw(other, p_fd, &any));
	LIFE(devpool_retain_raw(other, y));
	LIFE(devpool_export_raw(other, y, O_RDWR | O_CLOEXEC, &same));
	LIFE(devpool_free_raw(fd, y));
	LIFE(sync = test_fence_raw(&l->fences, &fence[0]));
	LIFE_HOLDS(test_buf_add_sync_raw(buf, sync), 6 * MIB);
	LIFE(close(sync));
	LIFE(close(buf));
	LIFE(devpool_free_raw(other, y));
	LIFE(life_map(same, 0, 6 * MIB, &m));
	LIFE(close(same));
	LIFE(devpool_empty_cache_raw(p_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0, &empty));
	LIFE(devpool_pool_put_raw(other, p));
	LIFE(munmap(m, 6 * MIB));
	/* A heap's buffer belongs to no client. */
	LIFE(heap = test_open_heap(l->index));
	LIFE(buf = test_heap_alloc_raw(heap, 3 * MIB));
	LIFE(life_map(buf, 0, 3 * MIB, &m));
	LIFE(life_write(m, 3 * MIB));
	LIFE(close(heap));
	LIFE(close(buf));
	LIFE(munmap(m, 3 * MIB));
	LIFE(close(p_fd));
	LIFE(close(fd));
	LIFE(close(other));
	l->after->held = 0;
	LIFE(test_fence_signal_raw(&l->fences, fence[0]) ?: test_trim(l->index));
	LIFE(life_is(l->index, 0, 0) - 1);
}

/* Every life up to a step, one step longer each time */
#define KILL_AT_EVERY_STEP(lives, steps)					\
do {										\
	struct life _l = { .index = self->index };				\
	struct test_base _now;							\
	int _report[2];								\
	int _there;								\
	pid_t _pid;								\
	int _i;									\
										\
	_l.after = mmap(NULL, TEST_PAGE, PROT_READ | PROT_WRITE,			\
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);			\
	ASSERT_NE(MAP_FAILED, _l.after);						\
	_l.fences.file = test_open_vgem();					\
	ASSERT_LE(0, _l.fences.file)						\
		TH_LOG("no vgem");						\
	for (_l.stop = 0; ; _l.stop++) {					\
		memset(_l.after, 0, sizeof(*_l.after));				\
		ASSERT_EQ(0, pipe(_report));					\
		_pid = test_fork();						\
		ASSERT_LE(0, _pid);						\
		if (!_pid) {							\
			close(_report[0]);					\
			_l.report = _report[1];					\
			lives(&_l);						\
			/* As many steps as there are, and all at once at the end */ \
			_there = -1;						\
			_exit(write(_report[1], &_there, sizeof(_there)) !=	\
			      sizeof(_there));					\
		}								\
		close(_report[1]);						\
		ASSERT_EQ(sizeof(_there), read(_report[0], &_there, sizeof(_there))) \
			TH_LOG("step %d: status %d", _l.stop, test_wait(_pid));	\
		close(_report[0]);						\
		if (_there < 0)							\
			break;							\
		ASSERT_EQ(_l.stop, _there);					\
		ASSERT_EQ(-SIGKILL, test_kill(_pid));				\
		if (_l.after->heap)						\
			test_trim(self->index);					\
		_now = test_base(self->index);					\
		EXPECT_EQ(self->base.used + _l.after->held, _now.used);		\
		EXPECT_EQ(self->base.clients, _now.clients);			\
		EXPECT_EQ(self->base.pools + !!_l.after->held, _now.pools);	\
		for (_i = 0; _i < ARRAY_SIZE(_l.after->fence); _i++)		\
			test_fence_signal_raw(&_l.fences, _l.after->fence[_i]);	\
		EXPECT_TRUE(life_is(self->index, self->base.used, self->base.pools)); \
		ASSERT_EQ(0, _metadata->exit_code)				\
			TH_LOG("step %d", _l.stop);				\
	}									\
	ASSERT_EQ(0, test_wait(_pid));						\
	EXPECT_BASE(self->base, self->index);					\
	EXPECT_LT(steps, _l.stop);						\
	close(_l.fences.file);							\
} while (0)

TEST_F_TIMEOUT(file, F01_killed_at_every_step, 120)
{
	KILL_AT_EVERY_STEP(life, 50);
}

TEST_F_TIMEOUT(file, F01_killed_at_every_step_of_streams, 120)
{
	KILL_AT_EVERY_STEP(life_of_streams, 50);
}

/* Exit is as good an end as a signal. */
TEST_F_TIMEOUT(file, F01_killed_at_every_step_of_dma_bufs, 120)
{
	KILL_AT_EVERY_STEP(life_of_dma_bufs, 35);
}

TEST_F(file, F01_exit_with_everything_open)
{
	struct devpool_pool_id id = {};
	pid_t pid;

	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		__u64 addr;
		int pool;
		char *p;
		int fd;

		fd = devpool_open_node(self->index);
		if (devpool_pool_create_raw(fd, &id, &pool) ||
		    devpool_alloc_raw(fd, id, 5 * MIB, &addr) ||
		    life_map(fd, addr, 5 * MIB, &p))
			_exit(1);
		life_write(p, 5 * MIB);
		if (devpool_alloc_raw(fd, default_pool, 5 * MIB, &addr) ||
		    life_map(fd, addr, 5 * MIB, &p))
			_exit(1);
		life_write(p, 5 * MIB);
		_exit(0);
	}
	ASSERT_EQ(0, test_wait(pid));
	EXPECT_BASE(self->base, self->index);
}

/* A second client, which shares a pool and a block, and leaves some of it */
static void busy_peer(int index, int fd, __u64 random)
{
	struct devpool_pool_id id = {};
	int peer, pool;
	__u64 addr;

	peer = devpool_open_node(index);
	if (peer < 0)
		return;
	if (!devpool_pool_create_raw(fd, &id, &pool)) {
		if (!devpool_alloc_raw(fd, id, 2 * MIB, &addr) &&
		    devpool_pool_attach_raw(peer, pool, &id) > 0 &&
		    !devpool_retain_raw(peer, addr) && random & 1)
			devpool_free_raw(fd, addr);
		if (random & 2)
			close(pool);
	}
	if (random & 4)
		close(peer);
}

/* Somewhere in the middle of a call, by chance */
static void *busy(void *arg)
{
	__u64 random = test_now() | 1;
	struct devpool_empty_cache empty;
	struct life *l = arg;
	__u64 addr[8] = {};
	int fd = l->report;

	for (;;) {
		struct devpool_pool_id id = {};
		int i = test_random(&random) % 8;
		__u64 bytes;
		int pool;
		char *p;

		switch (test_random(&random) % 11) {
		case 0 ... 3:
			bytes = 512 + test_random(&random) % (3 * MIB);
			if (addr[i] || devpool_alloc_raw(fd, default_pool, bytes, &addr[i]))
				break;
			p = devpool_map_raw(fd, addr[i], bytes);
			if (p)
				life_write(p, bytes);
			if (p && test_random(&random) % 2)
				test_unmap(p, bytes);
			break;
		case 4 ... 5:
			if (addr[i])
				devpool_free_raw(fd, addr[i]);
			addr[i] = 0;
			break;
		case 6:
			devpool_empty_cache_raw(fd, default_pool, 0, 0, &empty);
			break;
		case 7:
			if (devpool_pool_create_raw(fd, &id, &pool))
				break;
			if (!devpool_alloc_raw(fd, id, 5 * MIB, &bytes) &&
			    test_random(&random) % 2)
				devpool_free_raw(fd, bytes);
			if (test_random(&random) % 4)
				close(pool);
			break;
		case 8:
			if (devpool_pool_id_raw(fd, 0, &id) || devpool_pool_get_raw(fd, id) < 0)
				break;
			if (test_random(&random) % 2)
				devpool_alloc_raw(fd, id, 3 * MIB, &bytes);
			if (test_random(&random) % 4)
				devpool_pool_put_raw(fd, id);
			break;
		case 9:
			if (devpool_pool_create_raw(fd, &id, &pool))
				break;
			i = test_random(&random) % 2 ? DEVPOOL_SCOPE_ALL : DEVPOOL_SCOPE_THREAD;
			if (!devpool_route_begin_raw(fd, id, i) &&
			    !devpool_alloc_raw(fd, default_pool, 3 * MIB, &bytes) &&
			    test_random(&random) % 2)
				devpool_free_raw(fd, bytes);
			close(pool);
			if (test_random(&random) % 4)
				devpool_route_end_raw(fd, id, i);
			break;
		case 10:
			busy_peer(l->index, fd, test_random(&random));
			break;
		}
	}
	return NULL;
}

TEST_F_TIMEOUT(file, F01_killed_at_any_time, 120)
{
	struct life l = { .index = self->index };
	__u64 random = test_seed();
	pthread_t thread;
	pid_t pid;
	int i;

	for (i = 0; i < 40; i++) {
		pid = test_fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			l.report = devpool_open_node(self->index);
			if (pthread_create(&thread, NULL, busy, &l))
				_exit(1);
			busy(&l);
		}
		usleep(test_random(&random) % 60000);
		ASSERT_EQ(-SIGKILL, test_kill(pid));
		EXPECT_BASE(self->base, self->index);
		if (_metadata->exit_code)
			TH_LOG("round %d", i);
	}
}

/* F02: a file in several hands */

/* What the opener leaves to the others: 3 MiB live in a pool, 4 MiB cached */
static int opener(int index, int *pool, __u64 *addr)
{
	struct devpool_pool_id id = {};
	__u64 cached;
	int fd;

	fd = devpool_open_node(index);
	if (fd < 0 || devpool_pool_create_raw(fd, &id, pool) ||
	    devpool_alloc_raw(fd, id, 3 * MIB, addr) ||
	    devpool_alloc_raw(fd, default_pool, 4 * MIB, &cached) ||
	    devpool_free_raw(fd, cached))
		_exit(1);
	return fd;
}

static void tell(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(9);
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(9);
}

TEST_F(file, F02_passed_by_fork)
{
	int to[2], from[2];
	__u64 addr = 0;
	int fd, pool;
	pid_t pid;

	ASSERT_EQ(0, pipe(to));
	ASSERT_EQ(0, pipe(from));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		fd = opener(self->index, &pool, &addr);
		if (!fork()) {
			struct devpool_stats stats;

			alarm(20);
			tell(from[1]);
			hear(to[0]);
			/* The opener is dead by now. */
			if (devpool_stats_raw(fd, &stats) ||
			    stats.out_allocated.current != 3 * MIB ||
			    devpool_free_raw(fd, addr) ||
			    devpool_alloc_raw(fd, default_pool, 512, &addr))
				_exit(1);
			tell(from[1]);
			hear(to[0]);
			close(pool);
			close(fd);
			tell(from[1]);
			hear(to[0]);
			_exit(0);
		}
		for (;;)
			pause();
	}
	hear(from[0]);
	ASSERT_EQ(-SIGKILL, test_kill(pid));
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->index, "clients"));
	EXPECT_EQ(8 * MIB, devpool_sysfs(self->index, "used"));
	tell(to[1]);
	hear(from[0]);
	EXPECT_EQ(8 * MIB, devpool_sysfs(self->index, "used"));
	tell(to[1]);
	hear(from[0]);
	EXPECT_BASE(self->base, self->index);
	tell(to[1]);
}

TEST_F(file, F02_passed_through_a_socket)
{
	__u64 addr = 0;
	int sock[2];
	int fd, pool;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		fd = opener(self->index, &pool, &addr);
		if (test_send_fd(sock[1], fd) || test_send_fd(sock[1], pool) ||
		    write(sock[1], &addr, sizeof(addr)) != sizeof(addr))
			_exit(1);
		for (;;)
			pause();
	}
	fd = test_receive_fd(sock[0]);
	pool = test_receive_fd(sock[0]);
	ASSERT_LE(0, fd);
	ASSERT_LE(0, pool);
	ASSERT_EQ(sizeof(addr), read(sock[0], &addr, sizeof(addr)));
	ASSERT_EQ(-SIGKILL, test_kill(pid));
	EXPECT_EQ(3 * MIB, test_stats(fd).out_allocated.current);
	EXPECT_EQ(3 * MIB, test_pool_stat(pool, default_pool).out_allocated.current);
	close(fd);
	/* That was the client's end, with its block. The pool is the file's. */
	EXPECT_EQ(0, test_pool_stat(pool, default_pool).out_allocated.current);
	EXPECT_EQ(4 * MIB, test_resident(pool, default_pool));
	EXPECT_EQ(self->base.clients, devpool_sysfs(self->index, "clients"));
	close(pool);
	EXPECT_BASE(self->base, self->index);
}

/* A pool file that two processes hold: the first close changes nothing. */
TEST_F(file, F02_a_pool_file_passed_through_a_socket)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	int fd, pool, twin;
	int sock[2];
	__u64 addr;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	fd = test_open(self->index);
	pool = test_pool_create(fd, &id);
	addr = test_alloc(fd, id, 4 * MIB);
	test_free(fd, addr);
	before = test_pool_stat(fd, id);
	ASSERT_EQ(0, test_send_fd(sock[1], pool));
	close(pool);
	EXPECT_SAME(before, test_pool_stat(fd, id));
	twin = test_receive_fd(sock[0]);
	ASSERT_LE(0, twin);
	EXPECT_SAME(before, test_pool_stat(fd, id));
	close(twin);
	test_err_pool_stat(ENOENT, fd, id);
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
}

/*
 * Routes and references are the file's, whoever made them: but for the routes of
 * a thread, which end with it.
 */
TEST_F(file, F02_routes_and_references_passed_through_a_socket)
{
	struct devpool_pool_id id = {};
	int fd, pool;
	int sock[2];
	__u64 addr;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		fd = opener(self->index, &pool, &addr);
		if (devpool_pool_attach_raw(fd, pool, &id) != 2 ||
		    devpool_route_begin_raw(fd, id, DEVPOOL_SCOPE_ALL) ||
		    devpool_route_begin_raw(fd, id, DEVPOOL_SCOPE_THREAD) ||
		    test_send_fd(sock[1], fd) || write(sock[1], &id, sizeof(id)) != sizeof(id))
			_exit(1);
		for (;;)
			pause();
	}
	fd = test_receive_fd(sock[0]);
	ASSERT_LE(0, fd);
	ASSERT_EQ(sizeof(id), read(sock[0], &id, sizeof(id)));
	EXPECT_EQ(4, test_use_count(fd, id));
	/* It is no route of ours. */
	test_err_route_end(ENOENT, fd, id, DEVPOOL_SCOPE_THREAD);
	ASSERT_EQ(-SIGKILL, test_kill(pid));
	test_alloc(fd, default_pool, MIB);
	EXPECT_EQ(4 * MIB, test_pool_stat(fd, id).out_allocated.current);
	/* The pool file is closed, the thread is dead. */
	EXPECT_EQ(2, test_use_count(fd, id));
	test_route_end(fd, id, DEVPOOL_SCOPE_ALL);
	test_alloc(fd, default_pool, MIB);
	EXPECT_EQ(4 * MIB, test_pool_stat(fd, id).out_allocated.current);
	EXPECT_EQ(0, test_pool_put(fd, id));
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, test_pool_stat(fd, id).out_state);
	close(fd);
	EXPECT_BASE(self->base, self->index);
}

/* A pool file that is passed on is all that a stranger needs. */
TEST_F(file, F02_a_pool_file_passed_to_another_client)
{
	struct devpool_info info;
	struct devpool_pool_id id;
	int fd, pool;
	int sock[2];
	__u64 addr;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		pool = test_receive_fd(sock[1]);
		/* It finds the device, and then the pool. */
		if (pool < 0 || devpool_info_raw(pool, &info))
			_exit(1);
		fd = devpool_open_node(info.out_index);
		if (devpool_pool_attach_raw(fd, pool, &id) != 2 ||
		    devpool_route_begin_raw(fd, id, DEVPOOL_SCOPE_THREAD) ||
		    devpool_alloc_raw(fd, default_pool, 4 * MIB, &addr))
			_exit(2);
		close(pool);
		tell(sock[1]);
		for (;;)
			pause();
	}
	close(sock[1]);
	fd = test_open(self->index);
	pool = test_pool_create(fd, &id);
	ASSERT_EQ(0, test_send_fd(sock[0], pool));
	close(pool);
	hear(sock[0]);
	EXPECT_EQ(2, test_use_count(fd, id));
	EXPECT_EQ(4 * MIB, test_pool_stat(fd, id).out_allocated.current);
	EXPECT_EQ(self->base.clients + 2, devpool_sysfs(self->index, "clients"));
	ASSERT_EQ(-SIGKILL, test_kill(pid));
	test_err_pool_stat(ENOENT, fd, id);
	EXPECT_EQ(self->base.used, devpool_sysfs(self->index, "used"));
	EXPECT_EQ(self->base.pools, devpool_sysfs(self->index, "pools"));
}

/* Nobody holds the file but the socket's queue. */
TEST_F(file, F02_lost_in_a_socket)
{
	int fd, pool;
	int sock[2];
	__u64 addr;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	fd = opener(self->index, &pool, &addr);
	ASSERT_EQ(0, test_send_fd(sock[1], fd));
	ASSERT_EQ(0, test_send_fd(sock[1], pool));
	close(fd);
	close(pool);
	EXPECT_EQ(8 * MIB, devpool_sysfs(self->index, "used"));
	close(sock[0]);
	close(sock[1]);
	EXPECT_BASE(self->base, self->index);
}

/* A child's end is not the client's. */
TEST_F(file, F02_a_child_that_dies_takes_nothing_along)
{
	struct devpool_stats before;
	__u64 addr;
	int fd, pool;
	pid_t pid;

	fd = opener(self->index, &pool, &addr);
	before = test_stats(fd);
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid)
		for (;;)
			pause();
	ASSERT_EQ(-SIGKILL, test_kill(pid));
	EXPECT_SAME(before, test_stats(fd));
	test_free(fd, addr);
}

/* Each open is a client; dup is not. */
TEST_F(file, a_client_is_an_open_file)
{
	int a, b, c;

	a = test_open(self->index);
	b = test_open(self->index);
	c = dup(a);
	EXPECT_EQ(self->base.clients + 2, devpool_sysfs(self->index, "clients"));
	test_alloc(a, default_pool, 512);
	EXPECT_EQ(512, test_stats(c).out_allocated.current);
	EXPECT_EQ(0, test_stats(b).out_allocated.current);
	close(a);
	EXPECT_EQ(self->base.clients + 2, devpool_sysfs(self->index, "clients"));
	EXPECT_EQ(512, test_stats(c).out_allocated.current);
	close(c);
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->index, "clients"));
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
}

/* F11: one of many clients goes */

#define CLIENTS 100

struct client_state {
	struct devpool_pool_stat pool;
	struct devpool_pool_stat own;
	struct devpool_stats stats;
};

FIXTURE(clients)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id[CLIENTS];
	struct client_state state[CLIENTS];
	int client[CLIENTS];
	int pool[CLIENTS];
	int index;
	int fd;
};

FIXTURE_SETUP(clients)
{
	test_setup(self, TEST_NULL);
}

FIXTURE_TEARDOWN(clients)
{
}

#define CLIENT_STATE(i)								\
({										\
	struct client_state _state;						\
										\
	_state.pool = test_pool_stat(self->client[i], default_pool);		\
	_state.own = test_pool_stat(self->client[i], self->id[i]);		\
	_state.stats = test_stats(self->client[i]);				\
	_state;									\
})

TEST_F(clients, F11_one_of_100_goes)
{
	static const int going[] = { 50, 0, 99, 51 };
	__u64 used;
	int i, j;

	for (i = 0; i < CLIENTS; i++) {
		self->client[i] = test_open(self->index);
		self->pool[i] = test_pool_create(self->client[i], &self->id[i]);
		test_free(self->client[i],
			  test_alloc(self->client[i], default_pool, (i + 1) * 3 * MIB));
		test_alloc(self->client[i], default_pool, (i + 1) * 1000);
		test_free(self->client[i],
			  test_alloc(self->client[i], self->id[i], (i + 1) * 4 * MIB));
		test_alloc(self->client[i], self->id[i], 3 * MIB);
		self->state[i] = CLIENT_STATE(i);
	}
	for (j = 0; j < ARRAY_SIZE(going); j++) {
		used = devpool_sysfs(self->index, "used");
		close(self->client[going[j]]);
		close(self->pool[going[j]]);
		EXPECT_EQ(used - self->state[going[j]].stats.out_resident.current,
			  devpool_sysfs(self->index, "used"));
		self->client[going[j]] = -1;
		for (i = 0; i < CLIENTS; i++) {
			if (self->client[i] < 0)
				continue;
			EXPECT_SAME(self->state[i], CLIENT_STATE(i));
		}
	}
	for (i = 0; i < CLIENTS; i++) {
		if (self->client[i] < 0)
			continue;
		test_err_pool_stat(ENOENT, self->client[i], self->id[going[0]]);
		close(self->client[i]);
		close(self->pool[i]);
	}
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
}

/* F10: what one wrote, another never reads */

enum how {
	BY_CLOSE,
	BY_FLUSH,
	BY_KILL,
	BY_POOL_CLOSE,
	BY_TRIM,
	BY_RELEASE,
	BY_RECLAIM,
};

FIXTURE(bytes)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_VARIANT(bytes)
{
	enum how how;
	/* the worker has zeroed them, or has not yet */
	bool clean;
};

#define BYTES_VARIANT(name, by)							\
FIXTURE_VARIANT_ADD(bytes, name##_dirty) { .how = by };				\
FIXTURE_VARIANT_ADD(bytes, name##_clean) { .how = by, .clean = true }

BYTES_VARIANT(close, BY_CLOSE);
BYTES_VARIANT(flush, BY_FLUSH);
BYTES_VARIANT(kill, BY_KILL);
BYTES_VARIANT(pool_close, BY_POOL_CLOSE);
BYTES_VARIANT(trim, BY_TRIM);
BYTES_VARIANT(release, BY_RELEASE);
FIXTURE_VARIANT_ADD(bytes, reclaim) { .how = BY_RECLAIM };

FIXTURE_SETUP(bytes)
{
	test_setup(self, TEST_SMALL);
	if (self->info.out_bytes > 256 * MIB)
		SKIP(return, "no sysmem device is small enough");
}

FIXTURE_TEARDOWN(bytes)
{
	close(self->fd);
}

/* Takes the whole device and writes in all of it. */
static int secret(int fd, struct devpool_pool_id id, __u64 bytes, __u64 *addr)
{
	char *p;

	if (devpool_alloc_raw(fd, id, bytes, addr))
		return 1;
	p = devpool_map_raw(fd, *addr, bytes);
	if (!p)
		return 2;
	test_fill(p, bytes, 0x5ec4e70000000000ULL);
	if (test_differs(p + bytes / 2, 4096, 0x5ec4e70000000000ULL + bytes / 2 / 8) != -1)
		return 3;
	munmap(p, bytes);
	return 0;
}

TEST_F_TIMEOUT(bytes, F10_are_never_seen_by_others, 60)
{
	struct devpool_pool_id from = {}, to = {};
	__u64 bytes = self->info.out_bytes;
	int writer = self->fd;
	int reader = self->fd;
	int pool = -1;
	int report[2];
	__u64 addr;
	pid_t pid;
	char *p;

	switch (variant->how) {
	case BY_CLOSE:
		reader = test_open(self->index);
		ASSERT_EQ(0, secret(writer, default_pool, bytes, &addr));
		close(writer);
		break;
	case BY_FLUSH:
		reader = test_open(self->index);
		ASSERT_EQ(0, secret(writer, default_pool, bytes, &addr));
		test_free(writer, addr);
		test_empty_cache(writer, default_pool, 0, 0);
		break;
	case BY_KILL:
		ASSERT_EQ(0, pipe(report));
		pid = test_fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			writer = devpool_open_node(self->index);
			if (secret(writer, default_pool, bytes, &addr) ||
			    write(report[1], "", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		close(report[1]);
		ASSERT_EQ(1, read(report[0], &addr, 1));
		ASSERT_EQ(-SIGKILL, test_kill(pid));
		break;
	case BY_POOL_CLOSE:
	case BY_TRIM:
	case BY_RELEASE:
		/* From pool to pool, all of one client */
		pool = test_pool_create(self->fd, &from);
		test_pool_create(self->fd, &to);
		ASSERT_EQ(0, secret(writer, from, bytes, &addr));
		test_free(writer, addr);
		if (variant->how == BY_POOL_CLOSE)
			close(pool);
		else
			test_empty_cache(pool, default_pool, variant->how == BY_TRIM ?
					 DEVPOOL_EMPTY_TRIM : DEVPOOL_EMPTY_RELEASE, 0);
		break;
	case BY_RECLAIM:
		/* Straight from one pool's cache into another pool */
		test_pool_create(self->fd, &to);
		ASSERT_EQ(0, secret(writer, default_pool, bytes, &addr));
		test_free(writer, addr);
		break;
	}
	if (variant->clean)
		ASSERT_TRUE(test_wait_clean(self->index));
	addr = test_alloc(reader, to, bytes);
	p = test_map(reader, addr, bytes);
	EXPECT_EQ(-1, test_not_zero(p, bytes));
}

/* Within a pool a block holds what that pool wrote there. */
TEST_F(file, F10_within_a_pool_they_may_be_seen)
{
	int fd = test_open(self->index);
	__u64 addr;
	char *p;

	addr = test_alloc(fd, default_pool, 2 * MIB);
	p = test_map(fd, addr, 2 * MIB);
	EXPECT_EQ(-1, test_not_zero(p, 2 * MIB));
	test_fill(p, 2 * MIB, 0x1000);
	test_free(fd, addr);
	EXPECT_EQ(addr, test_alloc(fd, default_pool, 2 * MIB));
	EXPECT_EQ(-1, test_differs(p, 2 * MIB, 0x1000));
}

TEST_HARNESS_MAIN
