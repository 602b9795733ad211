// SPDX-License-Identifier: GPL-2.0-only
/*
 * Routes: which requests they are for, which of several wins, and what they
 * hold for how long.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "devpool_test.h"

#define THREAD DEVPOOL_SCOPE_THREAD
#define ALL DEVPOOL_SCOPE_ALL

FIXTURE(route)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id p, q, r;
	int p_fd, q_fd, r_fd;
	int index;
	int fd;
};

FIXTURE_VARIANT(route)
{
	enum test_kind kind;
	__u32 scope;
};

FIXTURE_VARIANT_ADD(route, thread) { .kind = TEST_SYSMEM, .scope = THREAD };
FIXTURE_VARIANT_ADD(route, all) { .kind = TEST_NULL, .scope = ALL };

FIXTURE_SETUP(route)
{
	test_setup(self, variant->kind);
	self->p_fd = test_pool_create(self->fd, &self->p);
	self->q_fd = test_pool_create(self->fd, &self->q);
	self->r_fd = test_pool_create(self->fd, &self->r);
}

FIXTURE_TEARDOWN(route)
{
}

#define USED() ((__u64)devpool_sysfs(self->index, "used"))

/* A request that names no pool: this one gets it. */
#define EXPECT_ROUTED(fd, id)							\
do {										\
	__u64 _in = test_pool_stat(fd, id).out_blocks.in;			\
	__u64 _addr = test_alloc(fd, default_pool, 4096);			\
										\
	EXPECT_EQ(_in + 1, test_pool_stat(fd, id).out_blocks.in);		\
	test_free(fd, _addr);							\
} while (0)

/* Another thread, which does what it is told to */
enum work {
	WORK_BEGIN,
	WORK_END,
	WORK_ALLOC,
	WORK_EXIT,
};

struct worker {
	pthread_barrier_t barrier;
	pthread_t thread;
	enum work todo;
	struct devpool_pool_id id;
	__u32 scope;
	__u64 addr;
	int result;
	pid_t tid;
	int fd;
};

static void *worker_run(void *p)
{
	struct worker *w = p;

	w->tid = syscall(SYS_gettid);
	for (;;) {
		pthread_barrier_wait(&w->barrier);
		switch (w->todo) {
		case WORK_BEGIN:
			w->result = devpool_route_begin_raw(w->fd, w->id, w->scope);
			break;
		case WORK_END:
			w->result = devpool_route_end_raw(w->fd, w->id, w->scope);
			break;
		case WORK_ALLOC:
			w->result = devpool_alloc_raw(w->fd, default_pool, 4096, &w->addr);
			break;
		case WORK_EXIT:
			return NULL;
		}
		pthread_barrier_wait(&w->barrier);
	}
}

static int worker_start(struct worker *w, int fd)
{
	w->fd = fd;
	pthread_barrier_init(&w->barrier, NULL, 2);
	return pthread_create(&w->thread, NULL, worker_run, w);
}

static int worker_do(struct worker *w, enum work todo, struct devpool_pool_id id, __u32 scope)
{
	w->todo = todo;
	w->id = id;
	w->scope = scope;
	pthread_barrier_wait(&w->barrier);
	pthread_barrier_wait(&w->barrier);
	return w->result;
}

/* A thread that was joined is not dead yet: it only does not run the program. */
static bool is_dead(pid_t tid)
{
	int i;

	for (i = 0; i < 1000; i++) {
		if (syscall(SYS_tgkill, getpid(), tid, 0) < 0)
			return errno == ESRCH;
		usleep(1000);
	}
	return false;
}

static bool worker_die(struct worker *w)
{
	w->todo = WORK_EXIT;
	pthread_barrier_wait(&w->barrier);
	pthread_join(w->thread, NULL);
	return is_dead(w->tid);
}

/* Its requests that name no pool go to this one. */
#define EXPECT_WORKER_ROUTED(w, id)						\
do {										\
	__u64 _in = test_pool_stat((w)->fd, id).out_blocks.in;			\
										\
	ASSERT_EQ(0, worker_do(w, WORK_ALLOC, default_pool, 0));		\
	EXPECT_EQ(_in + 1, test_pool_stat((w)->fd, id).out_blocks.in);		\
	test_free((w)->fd, (w)->addr);						\
} while (0)

TEST_F(route, P05_use_count_of_a_route)
{
	EXPECT_EQ(1, test_use_count(self->fd, self->p));
	test_route_begin(self->fd, self->p, variant->scope);
	EXPECT_EQ(2, test_use_count(self->fd, self->p));
	EXPECT_ROUTED(self->fd, self->p);
	EXPECT_EQ(2, test_use_count(self->fd, self->p));
	test_route_end(self->fd, self->p, variant->scope);
	EXPECT_EQ(1, test_use_count(self->fd, self->p));
	EXPECT_ROUTED(self->fd, default_pool);
}

TEST_F(route, P10_begun_twice)
{
	struct devpool_pool_stat before;

	test_route_begin(self->fd, self->p, variant->scope);
	test_alloc(self->fd, default_pool, 3 * MIB);
	before = test_pool_stat(self->fd, self->p);
	EXPECT_EQ(2, before.out_use_count);
	test_err_route_begin(EBUSY, self->fd, self->p, variant->scope);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->p));
	test_route_end(self->fd, self->p, variant->scope);
	EXPECT_EQ(1, test_use_count(self->fd, self->p));
	test_err_route_end(ENOENT, self->fd, self->p, variant->scope);
	EXPECT_EQ(1, test_use_count(self->fd, self->p));
}

TEST_F(route, P10_begun_twice_and_ended_once)
{
	struct test_base base = test_base(self->index);

	test_route_begin(self->fd, self->p, variant->scope);
	test_free(self->fd, test_alloc(self->fd, default_pool, 3 * MIB));
	test_err_route_begin(EBUSY, self->fd, self->p, variant->scope);
	test_route_end(self->fd, self->p, variant->scope);
	EXPECT_EQ(base.used + 4 * MIB, USED());
	close(self->p_fd);
	test_err_pool_stat(ENOENT, self->fd, self->p);
	EXPECT_EQ(base.pools - 1, devpool_sysfs(self->index, "pools"));
	EXPECT_EQ(base.used, USED());
}

/* The same with a failed begin in between that was not the last word */
TEST_F(route, P10_a_failed_begin_does_not_make_it_the_latest)
{
	test_route_begin(self->fd, self->p, variant->scope);
	test_route_begin(self->fd, self->q, variant->scope);
	test_err_route_begin(EBUSY, self->fd, self->p, variant->scope);
	EXPECT_ROUTED(self->fd, self->q);
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

/* Everything is back, nothing refers to anything, however it ends. */
TEST_F(route, P11_killed_in_a_route)
{
	struct test_base base = test_base(self->index);
	struct devpool_pool_id id = {};
	int ready[2];
	__u64 addr;
	int fd, pool;
	pid_t pid;
	int i;

	ASSERT_EQ(0, pipe(ready));
	for (i = 0; i < 3; i++) {
		pid = test_fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			fd = devpool_open_node(self->index);
			if (fd < 0 || devpool_pool_create_raw(fd, &id, &pool) ||
			    devpool_route_begin_raw(fd, id, variant->scope) ||
			    devpool_alloc_raw(fd, default_pool, 5 * MIB, &addr))
				_exit(1);
			/* Held by the route alone; or by nothing, and the block there. */
			if (i >= 1)
				close(pool);
			if (i == 2)
				_exit(0);
			tell(ready[1]);
			for (;;)
				pause();
		}
		if (i < 2) {
			hear(ready[0]);
			EXPECT_EQ(base.pools + 1, devpool_sysfs(self->index, "pools"));
			EXPECT_EQ(base.used + 6 * MIB, USED());
			ASSERT_EQ(-SIGKILL, test_kill(pid));
		} else {
			ASSERT_EQ(0, test_wait(pid));
		}
		EXPECT_BASE(base, self->index);
	}
}

TEST_F(route, P15_entered_and_left_a_thousand_times)
{
	struct devpool_pool_stat stat;
	int i;

	for (i = 0; i < 1000; i++) {
		test_route_begin(self->fd, self->p, variant->scope);
		test_free(self->fd, test_alloc(self->fd, default_pool, 2 * MIB));
		ASSERT_EQ(2, test_use_count(self->fd, self->p));
		test_route_end(self->fd, self->p, variant->scope);
	}
	stat = test_pool_stat(self->fd, self->p);
	EXPECT_EQ(1, stat.out_use_count);
	EXPECT_EQ(2 * MIB, stat.out_resident.peak);
	EXPECT_EQ(1000, stat.out_blocks.in);
	close(self->p_fd);
	test_err_pool_stat(ENOENT, self->fd, self->p);
	EXPECT_EQ(0, test_stats(self->fd).out_resident.current);
	EXPECT_EQ(0, USED());
}

TEST_F(route, P18_the_innermost_wins)
{
	test_route_begin(self->fd, self->p, variant->scope);
	EXPECT_ROUTED(self->fd, self->p);
	test_route_begin(self->fd, self->q, variant->scope);
	EXPECT_ROUTED(self->fd, self->q);
	test_route_begin(self->fd, self->r, variant->scope);
	EXPECT_ROUTED(self->fd, self->r);
	test_route_end(self->fd, self->r, variant->scope);
	EXPECT_ROUTED(self->fd, self->q);
	test_route_end(self->fd, self->q, variant->scope);
	EXPECT_ROUTED(self->fd, self->p);
	test_route_end(self->fd, self->p, variant->scope);
	EXPECT_ROUTED(self->fd, default_pool);
}

/* All orders in which three routes can be begun and ended */
TEST_F(route, P18_the_latest_of_those_that_are_left_wins)
{
	static const int order[6][3] = {
		{ 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 },
	};
	const struct devpool_pool_id id[3] = { self->p, self->q, self->r };
	int begin, end, i, j;
	bool left[3];

	for (begin = 0; begin < 6; begin++) {
		for (end = 0; end < 6; end++) {
			for (i = 0; i < 3; i++) {
				test_route_begin(self->fd, id[order[begin][i]], variant->scope);
				left[order[begin][i]] = true;
			}
			for (i = 0; i < 3; i++) {
				test_route_end(self->fd, id[order[end][i]], variant->scope);
				left[order[end][i]] = false;
				for (j = 2; j >= 0 && !left[order[begin][j]]; j--)
					;
				EXPECT_ROUTED(self->fd,
					      j < 0 ? default_pool : id[order[begin][j]]);
			}
			if (_metadata->exit_code)
				TH_LOG("begun %d, ended %d", begin, end);
		}
	}
	for (i = 0; i < 3; i++)
		EXPECT_EQ(1, test_use_count(self->fd, id[i]));
}

/* What matches is looked at, and then only when it was begun. */
TEST_F(route, the_latest_wins_whatever_its_scope)
{
	__u32 other = variant->scope == ALL ? THREAD : ALL;

	test_route_begin(self->fd, self->p, variant->scope);
	test_route_begin(self->fd, self->q, other);
	EXPECT_ROUTED(self->fd, self->q);
	test_route_begin(self->fd, self->r, variant->scope);
	EXPECT_ROUTED(self->fd, self->r);
	test_route_end(self->fd, self->r, variant->scope);
	EXPECT_ROUTED(self->fd, self->q);
	test_route_end(self->fd, self->q, other);
	EXPECT_ROUTED(self->fd, self->p);
	/* Begun again it is the latest. */
	test_route_begin(self->fd, self->q, other);
	test_route_end(self->fd, self->p, variant->scope);
	test_route_begin(self->fd, self->p, variant->scope);
	EXPECT_ROUTED(self->fd, self->p);
}

/* Routes that differ in their scope are two. */
TEST_F(route, one_pool_in_both_scopes)
{
	test_route_begin(self->fd, self->p, THREAD);
	test_route_begin(self->fd, self->p, ALL);
	EXPECT_EQ(3, test_use_count(self->fd, self->p));
	test_err_route_begin(EBUSY, self->fd, self->p, THREAD);
	test_err_route_begin(EBUSY, self->fd, self->p, ALL);
	test_route_end(self->fd, self->p, variant->scope);
	test_err_route_end(ENOENT, self->fd, self->p, variant->scope);
	EXPECT_EQ(2, test_use_count(self->fd, self->p));
	EXPECT_ROUTED(self->fd, self->p);
	test_route_end(self->fd, self->p, variant->scope == ALL ? THREAD : ALL);
	EXPECT_EQ(1, test_use_count(self->fd, self->p));
	EXPECT_ROUTED(self->fd, default_pool);
}

TEST_F(route, P19_empty_cache_inside_a_route)
{
	struct devpool_pool_stat before;
	struct devpool_empty_cache e;

	test_free(self->fd, test_alloc(self->fd, default_pool, 8 * MIB));
	test_route_begin(self->fd, self->p, variant->scope);
	test_free(self->fd, test_alloc(self->fd, default_pool, 4 * MIB));
	before = test_pool_stat(self->fd, self->p);
	EXPECT_EQ(4 * MIB, before.out_resident.current);
	e = test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(8 * MIB, e.out_freed);
	EXPECT_EQ(0, e.out_kept);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->p));
	EXPECT_EQ(0, test_resident(self->fd, default_pool));
	EXPECT_EQ(4 * MIB, USED());
}

/* Only an ALLOC that names no pool is routed. */
TEST_F(route, nothing_else_is_routed)
{
	struct devpool_pool_stat before;
	__u64 addr;

	addr = test_alloc(self->fd, default_pool, 3 * MIB);
	test_route_begin(self->fd, self->p, variant->scope);
	before = test_pool_stat(self->fd, self->p);
	EXPECT_EQ(3 * MIB, test_pool_stat(self->fd, default_pool).out_allocated.current);
	EXPECT_EQ(3 * MIB, test_empty_cache(self->fd, default_pool, 0, 0).out_live);
	test_err_pool_put(EINVAL, self->fd, default_pool);
	test_alloc(self->fd, self->q, MIB);
	EXPECT_EQ(MIB, test_pool_stat(self->fd, self->q).out_allocated.current);
	test_free(self->fd, addr);
	EXPECT_EQ(0, test_pool_stat(self->fd, default_pool).out_allocated.current);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->p));
}

TEST_F(route, P21_the_file_is_closed_inside_the_route)
{
	struct test_base base = test_base(self->index);
	struct devpool_pool_stat stat;

	test_free(self->fd, test_alloc(self->fd, self->p, 8 * MIB));
	test_route_begin(self->fd, self->p, variant->scope);
	close(self->p_fd);
	stat = test_pool_stat(self->fd, self->p);
	EXPECT_EQ(1, stat.out_use_count);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, stat.out_state);
	EXPECT_EQ(8 * MIB, stat.out_resident.current);
	/* It goes on as before: the request takes what is cached. */
	EXPECT_ROUTED(self->fd, self->p);
	EXPECT_EQ(8 * MIB, USED());
	test_route_end(self->fd, self->p, variant->scope);
	EXPECT_EQ(base.used, USED());
	EXPECT_EQ(base.pools - 1, devpool_sysfs(self->index, "pools"));
	test_err_pool_stat(ENOENT, self->fd, self->p);
	test_err_route_end(ENOENT, self->fd, self->p, variant->scope);
	EXPECT_ROUTED(self->fd, default_pool);
}

TEST_F(route, P21_the_file_is_released_inside_the_route)
{
	struct devpool_empty_cache e;
	__u64 addr;

	test_route_begin(self->fd, self->p, variant->scope);
	test_free(self->fd, test_alloc(self->fd, default_pool, 8 * MIB));
	e = test_empty_cache(self->p_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_EQ(0, e.out_freed);
	EXPECT_EQ(8 * MIB, e.out_kept);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, e.out_state);
	addr = test_alloc(self->fd, default_pool, 2 * MIB);
	test_route_end(self->fd, self->p, variant->scope);
	EXPECT_EQ(2 * MIB, test_resident(self->fd, self->p));
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, test_pool_stat(self->fd, self->p).out_state);
	test_free(self->fd, addr);
	test_err_pool_stat(ENOENT, self->fd, self->p);
	EXPECT_EQ(0, USED());
}

/* It takes a reference like POOL_GET, and drops it like POOL_PUT. */
TEST_F(route, a_freeable_pool_is_live_inside_a_route)
{
	struct devpool_pool_id id;

	id = test_pool_id(self->fd, 0);
	test_err_route_begin(ENOENT, self->fd, id, variant->scope);
	test_pool_get(self->fd, id);
	test_free(self->fd, test_alloc(self->fd, id, 4 * MIB));
	EXPECT_EQ(0, test_pool_put(self->fd, id));
	test_err_alloc(ENOENT, self->fd, id, 512);
	test_route_begin(self->fd, id, variant->scope);
	EXPECT_EQ(1, test_use_count(self->fd, id));
	EXPECT_EQ(DEVPOOL_STATE_LIVE, test_pool_stat(self->fd, id).out_state);
	test_free(self->fd, test_alloc(self->fd, default_pool, 4 * MIB));
	EXPECT_EQ(1, test_pool_stat(self->fd, id).out_hits);
	/* The reference is the route's. */
	test_err_pool_put(ENOENT, self->fd, id);
	test_route_end(self->fd, id, variant->scope);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, test_pool_stat(self->fd, id).out_state);
	/* It never had a file, and keeps its cache. */
	EXPECT_EQ(4 * MIB, test_resident(self->fd, id));
}

/* A pool with nothing in it is gone at the end of the last route. */
TEST_F(route, an_empty_pool_is_gone_at_the_end)
{
	struct test_base base = test_base(self->index);
	struct devpool_pool_id id;

	id = test_pool_id(self->fd, 0);
	test_pool_get(self->fd, id);
	test_route_begin(self->fd, id, variant->scope);
	EXPECT_EQ(1, test_pool_put(self->fd, id));
	EXPECT_EQ(base.pools + 1, devpool_sysfs(self->index, "pools"));
	test_route_end(self->fd, id, variant->scope);
	EXPECT_BASE(base, self->index);
	test_err_pool_stat(ENOENT, self->fd, id);
}

/* A route leads to its pool, whether there is room in it or not. */
TEST_F(route, a_request_that_fails_fails_in_the_routes_pool)
{
	struct devpool_pool_stat before = test_pool_stat(self->fd, default_pool);

	test_route_begin(self->fd, self->p, variant->scope);
	test_err_alloc(ENOSPC, self->fd, default_pool, self->info.out_bytes + 1);
	EXPECT_EQ(1, test_pool_stat(self->fd, self->p).out_ooms);
	EXPECT_SAME(before, test_pool_stat(self->fd, default_pool));
	EXPECT_ROUTED(self->fd, self->p);
}

TEST_F(route, other_threads)
{
	struct worker w;

	ASSERT_EQ(0, worker_start(&w, self->fd));
	test_route_begin(self->fd, self->p, variant->scope);
	EXPECT_WORKER_ROUTED(&w, variant->scope == ALL ? self->p : default_pool);
	/* Another thread can begin the same one if it is not the same one. */
	EXPECT_EQ(variant->scope == ALL ? -EBUSY : 0,
		  worker_do(&w, WORK_BEGIN, self->p, variant->scope));
	EXPECT_EQ(variant->scope == ALL ? 2 : 3, test_use_count(self->fd, self->p));
	EXPECT_EQ(0, worker_do(&w, WORK_END, self->p, variant->scope));
	EXPECT_EQ(variant->scope == ALL ? 1 : 2, test_use_count(self->fd, self->p));
	EXPECT_EQ(-ENOENT, worker_do(&w, WORK_END, self->p, variant->scope));
	EXPECT_ROUTED(self->fd, variant->scope == ALL ? default_pool : self->p);
	EXPECT_WORKER_ROUTED(&w, default_pool);
	EXPECT_TRUE(worker_die(&w));
}

/* Each thread's own, and one for all, which is now the latest and now is not */
TEST_F(route, a_thread_and_everybody)
{
	struct worker w;

	ASSERT_EQ(0, worker_start(&w, self->fd));
	EXPECT_EQ(0, worker_do(&w, WORK_BEGIN, self->p, THREAD));
	test_route_begin(self->fd, self->q, THREAD);
	test_route_begin(self->fd, self->r, ALL);
	EXPECT_WORKER_ROUTED(&w, self->r);
	EXPECT_ROUTED(self->fd, self->r);
	EXPECT_EQ(0, worker_do(&w, WORK_END, self->p, THREAD));
	EXPECT_EQ(0, worker_do(&w, WORK_BEGIN, self->p, THREAD));
	EXPECT_WORKER_ROUTED(&w, self->p);
	EXPECT_ROUTED(self->fd, self->r);
	EXPECT_EQ(0, worker_do(&w, WORK_END, self->r, ALL));
	EXPECT_WORKER_ROUTED(&w, self->p);
	EXPECT_ROUTED(self->fd, self->q);
	EXPECT_EQ(0, worker_do(&w, WORK_END, self->p, THREAD));
	EXPECT_EQ(-ENOENT, worker_do(&w, WORK_END, self->q, THREAD));
	EXPECT_WORKER_ROUTED(&w, default_pool);
	EXPECT_TRUE(worker_die(&w));
}

/* A route is of a client, whatever process or descriptor it is used by. */
TEST_F(route, other_clients_and_other_descriptors)
{
	int other, twin;

	other = test_open(self->index);
	twin = dup(self->fd);
	ASSERT_LE(0, twin);
	test_route_begin(self->fd, self->p, variant->scope);
	EXPECT_ROUTED(twin, self->p);
	EXPECT_ROUTED(other, default_pool);
	test_err_route_begin(EBUSY, twin, self->p, variant->scope);
	test_err_route_end(ENOENT, other, self->p, variant->scope);
	test_route_end(twin, self->p, variant->scope);
	EXPECT_ROUTED(self->fd, default_pool);
}

/* As a client of its own a member has routes of its own. */
TEST_F(route, a_peers_route)
{
	struct devpool_pool_id id;
	int peer;

	peer = test_open(self->index);
	EXPECT_EQ(2, test_pool_attach(peer, self->p_fd, &id));
	test_route_begin(peer, id, variant->scope);
	test_err_route_end(ENOENT, self->fd, id, variant->scope);
	EXPECT_ROUTED(self->fd, default_pool);
	EXPECT_ROUTED(peer, id);
	test_route_begin(self->fd, id, variant->scope);
	EXPECT_EQ(4, test_use_count(self->fd, id));
	test_route_end(peer, id, variant->scope);
	EXPECT_ROUTED(self->fd, id);
	EXPECT_EQ(3, test_use_count(self->fd, id));
	/* A client's close drops its routes. */
	test_route_begin(peer, id, variant->scope);
	close(peer);
	EXPECT_EQ(2, test_use_count(self->fd, id));
}

/* A forked child is another thread. */
TEST_F(route, a_forked_child)
{
	struct devpool_pool_stat p, own;
	pid_t pid;

	test_route_begin(self->fd, self->p, variant->scope);
	p = test_pool_stat(self->fd, self->p);
	own = test_pool_stat(self->fd, default_pool);
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		bool all = variant->scope == ALL;
		__u64 addr;

		if (devpool_alloc_raw(self->fd, default_pool, 4096, &addr))
			_exit(1);
		if (devpool_route_end_raw(self->fd, self->p, variant->scope) !=
		    (all ? 0 : -ENOENT))
			_exit(2);
		/* Left behind, to be found dead */
		if (!all && devpool_route_begin_raw(self->fd, self->q, THREAD))
			_exit(3);
		_exit(0);
	}
	ASSERT_EQ(0, test_wait(pid));
	p.out_blocks.in = test_pool_stat(self->fd, self->p).out_blocks.in - p.out_blocks.in;
	own.out_blocks.in = test_pool_stat(self->fd, default_pool).out_blocks.in -
			    own.out_blocks.in;
	EXPECT_EQ(variant->scope == ALL, p.out_blocks.in);
	EXPECT_EQ(variant->scope != ALL, own.out_blocks.in);
	EXPECT_ROUTED(self->fd, variant->scope == ALL ? default_pool : self->p);
	EXPECT_EQ(1, test_use_count(self->fd, self->q));
}

/* A thread that dies in its route */

/* What finds out that it has */
enum finder {
	BY_BEGIN,
	BY_END,
	BY_END_IN_VAIN,
	BY_ALLOC,
	BY_PUT,
	BY_CLOSE,
};

FIXTURE(dead)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id p, q;
	struct worker w;
	int p_fd, q_fd;
	int other;
	int index;
	int fd;
};

FIXTURE_VARIANT(dead)
{
	enum finder finder;
};

FIXTURE_VARIANT_ADD(dead, found_by_begin) { .finder = BY_BEGIN };
FIXTURE_VARIANT_ADD(dead, found_by_end) { .finder = BY_END };
FIXTURE_VARIANT_ADD(dead, found_by_end_in_vain) { .finder = BY_END_IN_VAIN };
FIXTURE_VARIANT_ADD(dead, found_by_alloc) { .finder = BY_ALLOC };
FIXTURE_VARIANT_ADD(dead, found_by_put) { .finder = BY_PUT };
FIXTURE_VARIANT_ADD(dead, found_by_close) { .finder = BY_CLOSE };

/* fd is the client's, other looks at the device once that is closed. */
FIXTURE_SETUP(dead)
{
	test_setup(self, TEST_NULL);
	self->other = self->fd;
	self->fd = test_open(self->index);
	self->p_fd = test_pool_create(self->fd, &self->p);
	self->q_fd = test_pool_create(self->fd, &self->q);
	test_pool_get(self->fd, self->q);
	test_route_begin(self->fd, self->q, ALL);
	ASSERT_EQ(0, worker_start(&self->w, self->fd));
}

FIXTURE_TEARDOWN(dead)
{
}

#define FIND()									\
do {										\
	switch (variant->finder) {						\
	case BY_BEGIN:								\
		test_route_begin(self->fd, self->q, THREAD);			\
		break;								\
	case BY_END:								\
		test_route_end(self->fd, self->q, ALL);				\
		break;								\
	case BY_END_IN_VAIN:							\
		test_err_route_end(ENOENT, self->fd, self->q, THREAD);		\
		break;								\
	case BY_ALLOC:								\
		EXPECT_ROUTED(self->fd, self->q);				\
		break;								\
	case BY_PUT:								\
		test_pool_put(self->fd, self->q);				\
		break;								\
	case BY_CLOSE:								\
		close(self->fd);						\
		break;								\
	}									\
} while (0)

TEST_F(dead, threads_leave_no_route)
{
	struct worker *w = &self->w;

	ASSERT_EQ(0, worker_do(w, WORK_BEGIN, self->p, THREAD));
	EXPECT_WORKER_ROUTED(w, self->p);
	test_free(self->fd, test_alloc(self->fd, self->p, 8 * MIB));
	EXPECT_EQ(2, test_use_count(self->p_fd, default_pool));
	ASSERT_TRUE(worker_die(w));
	FIND();
	EXPECT_EQ(1, test_use_count(self->p_fd, default_pool));
	/* The pool is as live as before. */
	EXPECT_EQ(8 * MIB, test_resident(self->p_fd, default_pool));
}

/* The dead thread's route was all that the pool had. */
TEST_F(dead, threads_hold_no_pool)
{
	struct worker *w = &self->w;

	ASSERT_EQ(0, worker_do(w, WORK_BEGIN, self->p, THREAD));
	EXPECT_WORKER_ROUTED(w, self->p);
	close(self->p_fd);
	EXPECT_EQ(1, test_use_count(self->fd, self->p));
	close(self->q_fd);
	ASSERT_TRUE(worker_die(w));
	FIND();
	if (variant->finder == BY_CLOSE) {
		self->base.clients++;
		EXPECT_BASE(self->base, self->index);
		return;
	}
	test_err_pool_stat(ENOENT, self->fd, self->p);
	EXPECT_EQ(1, devpool_sysfs(self->index, "pools"));
}

/* A block that the thread has left there is the client's, not the thread's. */
TEST_F(dead, threads_leave_their_blocks)
{
	struct devpool_pool_stat stat;
	struct worker *w = &self->w;

	ASSERT_EQ(0, worker_do(w, WORK_BEGIN, self->p, THREAD));
	ASSERT_EQ(0, worker_do(w, WORK_ALLOC, default_pool, 0));
	close(self->p_fd);
	ASSERT_TRUE(worker_die(w));
	FIND();
	if (variant->finder == BY_CLOSE)
		return;
	stat = test_pool_stat(self->fd, self->p);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, stat.out_state);
	EXPECT_EQ(0, stat.out_use_count);
	EXPECT_EQ(4096, stat.out_allocated.current);
	test_free(self->fd, w->addr);
	test_err_pool_stat(ENOENT, self->fd, self->p);
}

/* Of several routes, of several threads: those of the living stay. */
TEST_F(dead, threads_and_living_ones)
{
	struct worker *w = &self->w;
	struct worker living;

	ASSERT_EQ(0, worker_start(&living, self->fd));
	ASSERT_EQ(0, worker_do(w, WORK_BEGIN, self->p, THREAD));
	ASSERT_EQ(0, worker_do(w, WORK_BEGIN, self->q, THREAD));
	ASSERT_EQ(0, worker_do(&living, WORK_BEGIN, self->p, THREAD));
	test_route_begin(self->fd, self->p, ALL);
	EXPECT_EQ(4, test_use_count(self->fd, self->p));
	EXPECT_EQ(4, test_use_count(self->fd, self->q));
	ASSERT_TRUE(worker_die(w));
	if (variant->finder == BY_ALLOC)
		EXPECT_ROUTED(self->fd, self->p);
	else
		FIND();
	if (variant->finder == BY_CLOSE) {
		EXPECT_EQ(1, test_use_count(self->p_fd, default_pool));
		EXPECT_EQ(1, test_use_count(self->q_fd, default_pool));
		return;
	}
	EXPECT_EQ(3, test_use_count(self->fd, self->p));
	EXPECT_WORKER_ROUTED(&living, self->p);
	EXPECT_EQ(0, worker_do(&living, WORK_END, self->p, THREAD));
	test_route_end(self->fd, self->p, ALL);
	EXPECT_EQ(1, test_use_count(self->fd, self->p));
	EXPECT_TRUE(worker_die(&living));
}

/* The routes of a process that is killed, while others have its file */
TEST_F(dead, processes_leave_no_route)
{
	int ready[2];
	pid_t pid;

	ASSERT_EQ(0, pipe(ready));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (devpool_route_begin_raw(self->fd, self->p, THREAD))
			_exit(1);
		tell(ready[1]);
		for (;;)
			pause();
	}
	hear(ready[0]);
	EXPECT_EQ(2, test_use_count(self->fd, self->p));
	ASSERT_EQ(-SIGKILL, test_kill(pid));
	FIND();
	EXPECT_EQ(1, test_use_count(self->p_fd, default_pool));
}

/* Dead is who does not come back, even if nobody has asked how it ended. */
TEST_F(dead, processes_that_nobody_waited_for)
{
	siginfo_t info;
	pid_t pid;

	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(devpool_route_begin_raw(self->fd, self->p, THREAD));
	ASSERT_EQ(0, waitid(P_PID, pid, &info, WEXITED | WNOWAIT));
	EXPECT_EQ(0, info.si_status);
	FIND();
	EXPECT_EQ(1, test_use_count(self->p_fd, default_pool));
	EXPECT_EQ(0, test_wait(pid));
}

static void *live_on(void *p)
{
	struct worker *w = p;
	char state = 0;
	char line[128];
	FILE *f;
	int i;

	/* The first thread of the process is dead once it is a zombie. */
	for (i = 0; i < 1000 && state != 'Z'; i++) {
		f = fopen("/proc/self/stat", "re");
		if (!f || !fgets(line, sizeof(line), f))
			_exit(8);
		fclose(f);
		state = strrchr(line, ')')[2];
		usleep(1000);
	}
	if (state != 'Z')
		_exit(9);
	tell(w->result);
	for (;;)
		pause();
}

TEST_F(dead, first_threads_of_their_processes)
{
	int ready[2];
	pid_t pid;

	/* The other thread has the file, so that a close of ours is not the last. */
	if (variant->finder == BY_CLOSE)
		return;
	ASSERT_EQ(0, pipe(ready));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct worker w = { .result = ready[1] };

		if (devpool_route_begin_raw(self->fd, self->p, THREAD) ||
		    pthread_create(&w.thread, NULL, live_on, &w))
			_exit(1);
		/* Not of the process: that lives on in its other thread. */
		syscall(SYS_exit, 0);
	}
	close(ready[1]);
	hear(ready[0]);
	EXPECT_EQ(2, test_use_count(self->p_fd, default_pool));
	FIND();
	EXPECT_EQ(1, test_use_count(self->p_fd, default_pool));
	ASSERT_EQ(-SIGKILL, test_kill(pid));
}

/*
 * A thread that gets a dead one's number gets none of its routes. Each of its
 * commands is tried as the first one.
 */
static bool set_next_tid(pid_t tid)
{
	char text[16];
	bool done;
	int fd;

	fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
	snprintf(text, sizeof(text), "%d", tid - 1);
	done = fd >= 0 && write(fd, text, strlen(text)) == strlen(text);
	close(fd);
	return done;
}

TEST_F(route, a_reused_thread_number)
{
	struct worker w, heir = {};
	enum work todo;
	int i;

	for (todo = WORK_BEGIN; todo <= WORK_ALLOC; todo++) {
		ASSERT_EQ(0, worker_start(&w, self->fd));
		ASSERT_EQ(0, worker_do(&w, WORK_BEGIN, self->p, THREAD));
		ASSERT_TRUE(worker_die(&w));
		for (i = 0; i < 100; i++) {
			if (!set_next_tid(w.tid))
				SKIP(return, "thread numbers cannot be chosen");
			ASSERT_EQ(0, worker_start(&heir, self->fd));
			/* Anything that leaves the routes alone, but has its answer */
			while (!__atomic_load_n(&heir.tid, __ATOMIC_RELAXED))
				usleep(100);
			if (heir.tid == w.tid)
				break;
			ASSERT_TRUE(worker_die(&heir));
			heir.tid = 0;
		}
		ASSERT_EQ(w.tid, heir.tid);
		switch (todo) {
		case WORK_BEGIN:
			EXPECT_EQ(0, worker_do(&heir, WORK_BEGIN, self->p, THREAD));
			EXPECT_EQ(0, worker_do(&heir, WORK_END, self->p, THREAD));
			break;
		case WORK_END:
			EXPECT_EQ(-ENOENT, worker_do(&heir, WORK_END, self->p, THREAD));
			break;
		default:
			EXPECT_WORKER_ROUTED(&heir, default_pool);
			break;
		}
		EXPECT_EQ(1, test_use_count(self->fd, self->p));
		EXPECT_TRUE(worker_die(&heir));
		heir.tid = 0;
	}
}

/* Many threads, each with a pool and a route of its own */

#define THREADS 16
#define ROUNDS 50

struct router {
	struct devpool_pool_id id;
	/* what it has allocated where its route leads, and where there is none */
	__u64 routed, unrouted;
	pid_t tid;
	int error;
	int fd;
};

static void *go_by_route(void *p)
{
	struct router *r = p;
	__u64 addr[2];
	int i;

	r->tid = syscall(SYS_gettid);
	for (i = 0; i < ROUNDS && !r->error; i++) {
		if (devpool_route_begin_raw(r->fd, r->id, THREAD) ||
		    devpool_alloc_raw(r->fd, default_pool, 4096, &addr[0]) ||
		    devpool_route_end_raw(r->fd, r->id, THREAD) ||
		    devpool_alloc_raw(r->fd, default_pool, 4096, &addr[1]) ||
		    devpool_free_raw(r->fd, addr[0]) ||
		    devpool_free_raw(r->fd, addr[1]))
			r->error = __LINE__;
		r->routed++;
		r->unrouted++;
	}
	/* dies in its route */
	if (devpool_route_begin_raw(r->fd, r->id, THREAD) ||
	    devpool_alloc_raw(r->fd, default_pool, 4096, &addr[0]))
		r->error = __LINE__;
	r->routed++;
	return NULL;
}

TEST_F_TIMEOUT(route, many_threads_have_their_own, 60)
{
	__u64 before = test_pool_stat(self->fd, default_pool).out_blocks.in;
	struct router r[THREADS] = {};
	pthread_t thread[THREADS];
	struct devpool_pool_stat stat;
	int pool[THREADS];
	int i;

	for (i = 0; i < THREADS; i++) {
		r[i].fd = self->fd;
		pool[i] = test_pool_create(self->fd, &r[i].id);
	}
	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, go_by_route, &r[i]));
	for (i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (i = 0; i < THREADS; i++) {
		EXPECT_EQ(0, r[i].error)
			TH_LOG("line %d", r[i].error);
		EXPECT_TRUE(is_dead(r[i].tid));
		stat = test_pool_stat(self->fd, r[i].id);
		EXPECT_EQ(r[i].routed, stat.out_blocks.in);
		EXPECT_EQ(1, stat.out_blocks.current);
		before += r[i].unrouted;
	}
	EXPECT_EQ(before, test_pool_stat(self->fd, default_pool).out_blocks.in);
	test_err_route_end(ENOENT, self->fd, r[0].id, THREAD);
	for (i = 0; i < THREADS; i++) {
		EXPECT_EQ(1, test_use_count(self->fd, r[i].id));
		close(pool[i]);
		EXPECT_EQ(0, test_use_count(self->fd, r[i].id));
	}
}

/*
 * A request that names no pool has one to go to, even where its route ends under
 * its hands and takes the pool along.
 */
struct requester {
	unsigned long served;
	bool over;
	int error;
	int fd;
};

static void *request(void *p)
{
	struct requester *r = p;
	__u64 addr;

	while (!__atomic_load_n(&r->over, __ATOMIC_RELAXED) && !r->error) {
		r->error = devpool_alloc_raw(r->fd, default_pool, 4096, &addr);
		if (!r->error)
			r->error = devpool_free_raw(r->fd, addr);
		__atomic_fetch_add(&r->served, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* In somebody's way at the pool's lock */
static void *look(void *p)
{
	struct requester *r = p;
	struct devpool_pool_stat stat;

	while (!__atomic_load_n(&r->over, __ATOMIC_RELAXED) && !r->error)
		r->error = devpool_pool_stat_raw(r->fd, default_pool, &stat);
	return NULL;
}

TEST_F_TIMEOUT(route, requests_amid_the_ends_of_routes, 120)
{
	__u64 deadline = test_now() + 1000000000ULL;
	struct requester r = {}, looker = {};
	struct devpool_pool_id id;
	unsigned long rounds = 0;
	unsigned long served;
	pthread_t thread[2];
	__u64 unrouted;
	int fd, pool;
	int i;

	fd = test_open(self->index);
	r.fd = fd;
	looker.fd = self->p_fd;
	ASSERT_EQ(0, pthread_create(&thread[0], NULL, request, &r));
	ASSERT_EQ(0, pthread_create(&thread[1], NULL, look, &looker));
	do {
		/* The route alone is what the client knows the pool by. */
		switch (rounds++ % 3) {
		case 0:
			test_pool_attach(fd, self->p_fd, &id);
			test_route_begin(fd, id, ALL);
			test_pool_put(fd, id);
			break;
		case 1:
			pool = test_pool_create(fd, &id);
			test_route_begin(fd, id, ALL);
			close(pool);
			break;
		case 2:
			id = test_pool_id(fd, 0);
			test_pool_get(fd, id);
			test_route_begin(fd, id, ALL);
			test_pool_put(fd, id);
			break;
		}
		/* Every second one until somebody has gone by it */
		served = __atomic_load_n(&r.served, __ATOMIC_RELAXED);
		for (i = 0; rounds % 2 && i < 100; i++) {
			if (__atomic_load_n(&r.served, __ATOMIC_RELAXED) > served + 1)
				break;
			sched_yield();
		}
		test_route_end(fd, id, ALL);
	} while (!r.error && (test_now() < deadline || rounds < 200 || served < 200));
	__atomic_store_n(&r.over, true, __ATOMIC_RELAXED);
	__atomic_store_n(&looker.over, true, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	EXPECT_EQ(0, r.error);
	EXPECT_EQ(0, looker.error);
	unrouted = test_pool_stat(fd, default_pool).out_blocks.in;
	TH_LOG("%lu rounds, %lu requests, %llu of them not routed", rounds, r.served, unrouted);
	/* Not a race of nothing */
	EXPECT_LT(unrouted, r.served);
	EXPECT_NE(0, unrouted);
	EXPECT_EQ(0, test_stats(fd).out_blocks.current);
	EXPECT_EQ(1, test_use_count(self->fd, self->p));
	test_empty_cache(fd, default_pool, 0, 0);
	EXPECT_EQ(3, devpool_sysfs(self->index, "pools"));
}

/* Threads of which each dies in its route, while others look at the routes */
struct mortal {
	struct devpool_pool_id id;
	pid_t tid;
	int error;
	int fd;
};

static void *live_and_die(void *p)
{
	struct mortal *m = p;
	__u64 addr;

	m->tid = syscall(SYS_gettid);
	m->error = devpool_route_begin_raw(m->fd, m->id, THREAD);
	if (!m->error)
		m->error = devpool_alloc_raw(m->fd, default_pool, 4096, &addr);
	if (!m->error)
		m->error = devpool_free_raw(m->fd, addr);
	return NULL;
}

TEST_F_TIMEOUT(route, threads_die_amid_others, 60)
{
	struct requester r = { .fd = self->fd };
	struct mortal m[8] = {};
	pthread_t thread[9];
	int round, i;

	ASSERT_EQ(0, pthread_create(&thread[8], NULL, request, &r));
	for (round = 0; round < 25; round++) {
		for (i = 0; i < 8; i++) {
			m[i].id = i % 2 ? self->p : self->q;
			m[i].fd = self->fd;
			ASSERT_EQ(0, pthread_create(&thread[i], NULL, live_and_die, &m[i]));
		}
		test_route_begin(self->fd, self->r, variant->scope);
		test_err_route_end(ENOENT, self->fd, self->p, variant->scope);
		test_err_pool_put(ENOENT, self->fd, self->p);
		test_route_end(self->fd, self->r, variant->scope);
		for (i = 0; i < 8; i++) {
			pthread_join(thread[i], NULL);
			EXPECT_EQ(0, m[i].error);
			EXPECT_TRUE(is_dead(m[i].tid));
		}
	}
	__atomic_store_n(&r.over, true, __ATOMIC_RELAXED);
	pthread_join(thread[8], NULL);
	EXPECT_EQ(0, r.error);
	test_err_pool_put(ENOENT, self->fd, self->p);
	EXPECT_EQ(1, test_use_count(self->fd, self->p));
	EXPECT_EQ(1, test_use_count(self->fd, self->q));
	EXPECT_EQ(1, test_use_count(self->fd, self->r));
	/* The latest route can have been that for all. */
	EXPECT_LE(200, test_pool_stat(self->fd, self->p).out_blocks.in +
		       test_pool_stat(self->fd, self->q).out_blocks.in +
		       test_pool_stat(self->fd, self->r).out_blocks.in);
}

/* The bound that INFO tells, and one more */
TEST_F_TIMEOUT(route, as_many_as_there_can_be, 60)
{
	unsigned int most = self->info.out_max_routes;
	struct devpool_pool_stat before;
	struct devpool_pool_id *id;
	struct test_base base;
	unsigned int i;
	int other;

	ASSERT_LE(1, most);
	if (most > 4096)
		SKIP(return, "%u routes are too many to try", most);
	id = calloc(most + 1, sizeof(*id));
	ASSERT_NE(NULL, id);
	for (i = 0; i <= most; i++) {
		id[i] = test_pool_id(self->fd, 0);
		test_pool_get(self->fd, id[i]);
	}
	for (i = 0; i < most; i++)
		test_route_begin(self->fd, id[i], variant->scope);
	EXPECT_ROUTED(self->fd, id[most - 1]);
	before = test_pool_stat(self->fd, id[most]);
	base = test_base(self->index);
	test_err_route_begin(EDQUOT, self->fd, id[most], variant->scope);
	test_err_route_begin(EDQUOT, self->fd, id[most], variant->scope == ALL ? THREAD : ALL);
	EXPECT_SAME(before, test_pool_stat(self->fd, id[most]));
	EXPECT_BASE(base, self->index);
	/* The bound is of a client. */
	other = test_open(self->index);
	test_pool_attach(other, self->p_fd, &self->p);
	test_route_begin(other, self->p, variant->scope);
	test_route_end(self->fd, id[most / 2], variant->scope);
	test_route_begin(self->fd, id[most], variant->scope);
	EXPECT_ROUTED(self->fd, id[most]);
	test_err_route_begin(EDQUOT, self->fd, id[most / 2], variant->scope);
	for (i = 0; i <= most; i++)
		EXPECT_EQ(i == most / 2 ? 1 : 2, test_use_count(self->fd, id[i]));
}

/* The routes of the dead do not count. */
TEST_F_TIMEOUT(route, as_many_as_there_can_be_of_a_dead_thread, 60)
{
	unsigned int most = self->info.out_max_routes;
	struct devpool_pool_id *id;
	struct worker w;
	unsigned int i;

	if (most > 4096)
		SKIP(return, "%u routes are too many to try", most);
	id = calloc(most, sizeof(*id));
	ASSERT_NE(NULL, id);
	ASSERT_EQ(0, worker_start(&w, self->fd));
	for (i = 0; i < most; i++) {
		id[i] = test_pool_id(self->fd, 0);
		test_pool_get(self->fd, id[i]);
		ASSERT_EQ(0, worker_do(&w, WORK_BEGIN, id[i], THREAD));
	}
	test_err_route_begin(EDQUOT, self->fd, self->p, variant->scope);
	ASSERT_TRUE(worker_die(&w));
	test_route_begin(self->fd, self->p, variant->scope);
	for (i = 0; i < most; i++)
		EXPECT_EQ(1, test_use_count(self->fd, id[i]));
}

/* What is refused: the pool, the scope, the stream, and what is not there */

#define REFUSED(call)								\
do {										\
	struct devpool_pool_stat _p = test_pool_stat(self->fd, self->p);	\
	struct devpool_pool_stat _own = test_pool_stat(self->fd, default_pool);	\
	struct test_base _base = test_base(self->index);			\
										\
	call;									\
	EXPECT_SAME(_p, test_pool_stat(self->fd, self->p));			\
	EXPECT_SAME(_own, test_pool_stat(self->fd, default_pool));		\
	EXPECT_BASE(_base, self->index);					\
} while (0)

TEST_F(route, refused_scopes)
{
	static const __u32 scopes[] = { 3, 4, 1U << 31, -1U };
	int round, i;

	/* Without a route, and with one */
	for (round = 0; round < 2; round++) {
		for (i = 0; i < ARRAY_SIZE(scopes); i++) {
			REFUSED(test_err_route_begin(EOPNOTSUPP, self->fd, self->p, scopes[i]));
			REFUSED(test_err_route_end(EOPNOTSUPP, self->fd, self->p, scopes[i]));
		}
		if (!round)
			test_route_begin(self->fd, self->p, variant->scope);
	}
	test_route_end(self->fd, self->p, variant->scope);
}

TEST_F(route, refused_streams)
{
	struct devpool_route_begin begin = { .size = sizeof(begin), .pool = self->p,
					     .scope = variant->scope };
	struct devpool_route_end end = { .size = sizeof(end), .pool = self->p,
					 .scope = variant->scope };
	static const __u32 streams[] = { 1, 2, 1U << 31, -1U };
	int round, i;

	for (round = 0; round < 2; round++) {
		for (i = 0; i < ARRAY_SIZE(streams); i++) {
			begin.stream = streams[i];
			end.stream = streams[i];
			REFUSED(EXPECT_EQ(-EINVAL, devpool_raw(self->fd, DEVPOOL_IOC_ROUTE_BEGIN,
							       &begin)));
			REFUSED(EXPECT_EQ(-EINVAL, devpool_raw(self->fd, DEVPOOL_IOC_ROUTE_END,
							       &end)));
		}
		if (!round)
			test_route_begin(self->fd, self->p, variant->scope);
	}
	test_route_end(self->fd, self->p, variant->scope);
}

TEST_F(route, refused_pools)
{
	struct devpool_pool_id theirs, minted;
	int other;

	other = test_open(self->index);
	test_pool_create(other, &theirs);
	minted = test_pool_id(self->fd, 0);
	REFUSED(test_err_route_begin(EINVAL, self->fd, default_pool, variant->scope));
	REFUSED(test_err_route_end(EINVAL, self->fd, default_pool, variant->scope));
	REFUSED(test_err_route_begin(ENOENT, self->fd, theirs, variant->scope));
	REFUSED(test_err_route_end(ENOENT, self->fd, theirs, variant->scope));
	REFUSED(test_err_route_begin(ENOENT, self->fd, minted, variant->scope));
	REFUSED(test_err_route_end(ENOENT, self->fd, minted, variant->scope));
	EXPECT_EQ(1, test_use_count(other, theirs));
	/* A route of the client's that leads elsewhere */
	test_route_begin(self->fd, self->q, variant->scope);
	REFUSED(test_err_route_end(ENOENT, self->fd, self->p, variant->scope));
	REFUSED(test_err_route_end(ENOENT, self->fd, self->q,
				   variant->scope == ALL ? THREAD : ALL));
	EXPECT_EQ(2, test_use_count(self->fd, self->q));
}

/* Routes and recovery are separate things. */

FIXTURE(full)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id p;
	__u64 chunk;
	__u64 cap;
	int index;
	int fd;
};

FIXTURE_VARIANT(full)
{
	__u32 scope;
};

FIXTURE_VARIANT_ADD(full, thread) { .scope = THREAD };
FIXTURE_VARIANT_ADD(full, all) { .scope = ALL };

FIXTURE_SETUP(full)
{
	test_setup(self, TEST_SMALL);
	self->chunk = self->info.out_chunk;
	self->cap = self->info.out_bytes;
	if (self->cap > 256 * MIB)
		SKIP(return, "no sysmem device is small enough");
	if (self->cap / self->chunk < 32)
		SKIP(return, "a device of 32 chunks is wanted");
	test_pool_create(self->fd, &self->p);
}

FIXTURE_TEARDOWN(full)
{
}

/* n eightieths of the device */
#define PART(n) (self->cap * (n) / 80 / self->chunk * self->chunk)

TEST_F(full, A02_the_default_pools_cache_serves_a_route)
{
	struct devpool_pool_stat stat;

	test_free(self->fd, test_alloc(self->fd, default_pool, PART(60)));
	test_route_begin(self->fd, self->p, variant->scope);
	test_alloc(self->fd, default_pool, PART(60));
	stat = test_pool_stat(self->fd, self->p);
	EXPECT_EQ(PART(60), stat.out_allocated.current);
	EXPECT_EQ(PART(60), stat.out_resident.current);
	EXPECT_LE((2 * PART(60) - self->cap) / self->chunk, stat.out_reclaims);
	EXPECT_GE(self->cap - PART(60), test_resident(self->fd, default_pool));
	EXPECT_GE(self->cap, test_stats(self->fd).out_resident.peak);
}

TEST_F(full, A03_most_of_what_is_free)
{
	__u64 half = self->cap / 2 / self->chunk * self->chunk;
	__u64 most = self->cap / 8 * 7;

	/* In the default pool: its own cache is extended. */
	test_free(self->fd, test_alloc(self->fd, default_pool, half));
	test_free(self->fd, test_alloc(self->fd, default_pool, most));
	test_empty_cache(self->fd, default_pool, 0, 0);
	/* By a route: the default pool's cache is taken. */
	test_free(self->fd, test_alloc(self->fd, default_pool, half));
	test_route_begin(self->fd, self->p, variant->scope);
	test_alloc(self->fd, default_pool, most);
	EXPECT_EQ(round_to(most, TEST_PAGE),
		  test_pool_stat(self->fd, self->p).out_allocated.current);
	EXPECT_GE(self->cap - round_to(most, self->chunk),
		  test_resident(self->fd, default_pool));
}

TEST_F(full, A03_what_a_freeable_pool_has)
{
	__u64 most = self->cap / 8 * 7;
	struct devpool_pool_id id;

	id = test_pool_id(self->fd, 0);
	test_pool_get(self->fd, id);
	test_free(self->fd, test_alloc(self->fd, id, PART(40)));
	test_pool_put(self->fd, id);
	EXPECT_EQ(PART(40), test_resident(self->fd, id));
	test_route_begin(self->fd, self->p, variant->scope);
	test_alloc(self->fd, default_pool, most);
	EXPECT_LT(0, test_pool_stat(self->fd, self->p).out_reclaims);
}

/* All of a freeable pool's cache is taken: so it is gone. */
TEST_F(full, a_freeable_pool_is_gone_with_its_cache)
{
	struct devpool_pool_id id;

	id = test_pool_id(self->fd, 0);
	test_pool_get(self->fd, id);
	test_free(self->fd, test_alloc(self->fd, id, PART(40)));
	test_pool_put(self->fd, id);
	test_route_begin(self->fd, self->p, variant->scope);
	test_alloc(self->fd, default_pool, self->cap);
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_EQ(1, devpool_sysfs(self->index, "pools"));
}

/* A live pool's cache is its own, inside its route and outside. */
TEST_F(full, a_live_pools_cache_is_not_taken)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id q;

	test_pool_create(self->fd, &q);
	test_free(self->fd, test_alloc(self->fd, q, PART(40)));
	before = test_pool_stat(self->fd, q);
	test_route_begin(self->fd, self->p, variant->scope);
	test_err_alloc(ENOSPC, self->fd, default_pool, PART(60));
	EXPECT_EQ(1, test_pool_stat(self->fd, self->p).out_ooms);
	EXPECT_EQ(0, test_pool_stat(self->fd, default_pool).out_ooms);
	EXPECT_SAME(before, test_pool_stat(self->fd, q));
	test_alloc(self->fd, default_pool, PART(30));
}

TEST_HARNESS_MAIN
