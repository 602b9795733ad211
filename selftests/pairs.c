// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every pair of commands at once on one pool, for a moment each: by two threads
 * of one client, by two clients, and by a client that comes to know the pool and
 * stops knowing it all the time. Each answer must be one that the command has,
 * and in the end all is as it was.
 */
#include <pthread.h>

#include "fence_test.h"

/* DEVPOOL_PAIR_MS: how long a pair is at it */
#define PAIR_MS 10
/* of one fixture, over all pairs */
#define PAIRS_TIMEOUT 60

/* as long as a test waits for what a driver is done with, ns */
#define PATIENCE 5000000000LL

#define BLOCKS 4
#define SHARED 8
#define X_BYTES (64 * KIB)
#define X_TAG 0x5a5a000000000000ULL

struct scene {
	struct devpool_pool_id id;
	/* a block of the holder's, which lives all the time */
	__u64 x;
	/* where blocks of the actors are, or were */
	__u64 shared[SHARED];
	pthread_barrier_t barrier;
	__u64 deadline;
	__u64 chunk;
	int index;
	int pool;
	/* a client that holds the pool and X, and does nothing more */
	int holder;
};

struct actor {
	const struct act *act;
	struct scene *s;
	__u64 random;
	/* its blocks, and what it has written there */
	__u64 addr[BLOCKS];
	__u64 bytes[BLOCKS];
	char *p[BLOCKS];
	/* references that it got, less those that it put */
	long references;
	/* the same of routes for all */
	long routes;
	unsigned long calls;
	/* it has not made the pool, so that it may not know it */
	bool foreign;
	/* the other actor is of the same client */
	bool together;
	/* limits are being set, by itself or by the other one */
	bool limited;
	/* a user stream of its client's, and the last point that it has submitted */
	__u32 stream;
	__u64 point;
	struct test_fences fences;
	/* 0, or where what was answered */
	int line;
	int ret;
	int fd;
};

/* What an actor does once, and what it has to do at the end */
struct act {
	const char *name;
	void (*once)(struct actor *a);
	void (*end)(struct actor *a);
	bool limits;
};

#define WRONG(a, what)								\
do {										\
	(a)->ret = (what);							\
	(a)->line = __LINE__;							\
	return;									\
} while (0)

static __u64 dice(struct actor *a, __u64 n)
{
	return test_random(&a->random) % n;
}

/* Attaches, or gets by the id */
static int get(struct actor *a)
{
	struct devpool_pool_id id;
	int ret;

	if (a->foreign || dice(a, 2)) {
		ret = devpool_pool_attach_raw(a->fd, a->s->pool, &id);
		if (ret > 0 && !test_is_id(id, a->s->id))
			return -EPROTO;
	} else {
		ret = devpool_pool_get_raw(a->fd, a->s->id);
	}
	if (ret > 0)
		a->references++;
	return ret;
}

/* A foreign member that finds itself to be none attaches, and all is well. */
static bool excused(struct actor *a, int ret)
{
	return ret == -ENOENT && a->foreign && get(a) > 0;
}

/* What streams still use counts, and would be worth waiting for. */
static bool by_limit(const struct actor *a, int ret)
{
	return (ret == -EDQUOT || ret == -EAGAIN) && a->limited;
}

static void share(struct actor *a, __u64 addr)
{
	__atomic_store_n(&a->s->shared[dice(a, SHARED)], addr, __ATOMIC_RELAXED);
}

static __u64 shared(struct actor *a)
{
	return __atomic_load_n(&a->s->shared[dice(a, SHARED)], __ATOMIC_RELAXED);
}

/* Its own block holds what it wrote, whatever the other one does. */
static void free_block(struct actor *a, int i)
{
	volatile __u64 *first, *last;
	int ret;

	if (a->p[i]) {
		first = (__u64 *)a->p[i];
		last = (__u64 *)(a->p[i] + a->bytes[i]) - 1;
		if (*first != a->addr[i] || *last != ~a->addr[i])
			WRONG(a, 0);
		test_unmap(a->p[i], a->bytes[i]);
		a->p[i] = NULL;
	}
	ret = devpool_free_raw(a->fd, a->addr[i]);
	a->addr[i] = 0;
	if (ret)
		WRONG(a, ret);
}

static void alloc_once(struct actor *a)
{
	int i = dice(a, BLOCKS);
	int ret;

	if (a->addr[i]) {
		free_block(a, i);
		return;
	}
	a->bytes[i] = (1 + dice(a, dice(a, 2) ? 4 : 768)) * TEST_PAGE;
	ret = devpool_alloc_align_raw(a->fd, a->s->id, a->bytes[i], TEST_PAGE, &a->addr[i], NULL);
	if (ret) {
		a->addr[i] = 0;
		if (!excused(a, ret) && !by_limit(a, ret))
			WRONG(a, ret);
		return;
	}
	share(a, a->addr[i]);
	if (dice(a, 4))
		return;
	/* Known by the block, if by nothing else */
	a->p[i] = devpool_map_raw(a->fd, a->addr[i], a->bytes[i]);
	if (!a->p[i])
		WRONG(a, -errno);
	ret = test_write(a->p[i], a->addr[i]);
	if (ret)
		WRONG(a, ret);
	ret = test_write(a->p[i] + a->bytes[i] - 8, ~a->addr[i]);
	if (ret)
		WRONG(a, ret);
}

static void alloc_end(struct actor *a)
{
	int i;

	for (i = 0; i < BLOCKS && !a->line; i++)
		if (a->addr[i])
			free_block(a, i);
}

static void get_once(struct actor *a)
{
	int ret;

	/* Not as many as there is time for */
	if (a->references > 100) {
		ret = devpool_pool_put_raw(a->fd, a->s->id);
		if (ret >= 0)
			a->references--;
		else if (ret != -ENOENT)
			WRONG(a, ret);
		return;
	}
	ret = get(a);
	if (ret < 3)
		WRONG(a, ret);
}

static void put_once(struct actor *a)
{
	int ret;

	ret = devpool_pool_put_raw(a->fd, a->s->id);
	if (ret > 0) {
		a->references--;
		return;
	}
	/* The file and the holder have one each. */
	if (ret != -ENOENT)
		WRONG(a, ret);
	ret = get(a);
	if (ret < 3)
		WRONG(a, ret);
}

static void route_once(struct actor *a)
{
	__u32 scope = dice(a, 2) ? DEVPOOL_SCOPE_ALL : DEVPOOL_SCOPE_THREAD;
	bool all = scope == DEVPOOL_SCOPE_ALL;
	__u64 addr;
	int ret;

	ret = devpool_route_begin_raw(a->fd, a->s->id, scope);
	if (!ret)
		a->routes += all;
	else if (excused(a, ret))
		return;
	else if (ret != -EBUSY || !all || !a->together)
		WRONG(a, ret);
	ret = devpool_alloc_raw(a->fd, default_pool, (1 + dice(a, 512)) * TEST_PAGE, &addr);
	if (!ret) {
		share(a, addr);
		ret = devpool_free_raw(a->fd, addr);
		if (ret)
			WRONG(a, ret);
	} else if (!by_limit(a, ret)) {
		WRONG(a, ret);
	}
	ret = devpool_route_end_raw(a->fd, a->s->id, scope);
	if (!ret)
		a->routes -= all;
	else if (ret != -ENOENT || !all || !a->together)
		WRONG(a, ret);
}

static void retain_once(struct actor *a)
{
	bool x = dice(a, 2);
	__u64 addr = x ? a->s->x : shared(a);
	int ret;

	if (!addr)
		return;
	ret = devpool_retain_raw(a->fd, addr);
	if (!ret) {
		/* What this client has allocated it has a reference on. */
		if (!x && a->together)
			WRONG(a, ret);
		ret = devpool_free_raw(a->fd, addr);
		if (ret)
			WRONG(a, ret);
		return;
	}
	if (ret == -EBUSY && a->together)
		return;
	if (ret == -ENOENT && !x)
		return;
	if (!excused(a, ret))
		WRONG(a, ret);
}

static void attr_once(struct actor *a)
{
	__u32 attr = dice(a, 2) ? DEVPOOL_ATTR_LIMIT : DEVPOOL_ATTR_RELEASE_THRESHOLD;
	__u64 value = dice(a, 4) ? dice(a, 64) * a->s->chunk : -(attr != DEVPOOL_ATTR_LIMIT);
	__u64 out;
	int ret;

	ret = devpool_pool_attr_raw(a->fd, a->s->id, DEVPOOL_POOL_ATTR_SET, attr, value, &out);
	if (!ret && out != value)
		WRONG(a, ret);
	if (!ret)
		ret = devpool_pool_attr_raw(a->s->pool, default_pool, 0, attr, 0, &out);
	if (ret && !excused(a, ret))
		WRONG(a, ret);
}

static void attr_end(struct actor *a)
{
	__u64 out;
	int ret;

	ret = devpool_pool_attr_raw(a->s->pool, default_pool, DEVPOOL_POOL_ATTR_SET,
				    DEVPOOL_ATTR_LIMIT, 0, &out);
	if (ret)
		WRONG(a, ret);
}

static void limit_once(struct actor *a)
{
	int ret;

	ret = devpool_limit_raw(a->fd, dice(a, 64) * a->s->chunk);
	if (ret)
		WRONG(a, ret);
}

static void limit_end(struct actor *a)
{
	int ret;

	ret = devpool_limit_raw(a->fd, 0);
	if (ret)
		WRONG(a, ret);
}

/* By the id or by the file; the client's own cache now and then; it may wait a bit */
static void empty(struct actor *a, __u32 flags)
{
	__s64 until = dice(a, 2) ? 0 : test_now() + dice(a, 1000000);
	bool by_id = dice(a, 2);
	struct devpool_empty_cache e;
	int ret;

	if (!dice(a, 4)) {
		ret = devpool_empty_until_raw(a->fd, default_pool, flags, 0, until, &e);
		if (ret)
			WRONG(a, ret);
		return;
	}
	ret = devpool_empty_until_raw(by_id ? a->fd : a->s->pool,
				      by_id ? a->s->id : default_pool, flags,
				      dice(a, 4) * a->s->chunk, until, &e);
	if (ret) {
		if (!by_id || !excused(a, ret))
			WRONG(a, ret);
		return;
	}
	if (e.out_state != DEVPOOL_STATE_LIVE || e.out_live < X_BYTES ||
	    e.out_kept < e.out_live || e.out_freed % a->s->chunk ||
	    (flags & DEVPOOL_EMPTY_KEEP_PHYSICAL && e.out_freed))
		WRONG(a, 0);
}

static void trim_once(struct actor *a)
{
	empty(a, DEVPOOL_EMPTY_TRIM);
}

static void keep_once(struct actor *a)
{
	empty(a, DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL);
}

static void stat_once(struct actor *a)
{
	bool by_id = dice(a, 2);
	struct devpool_pool_stat stat;
	struct devpool_stats stats;
	int ret;

	ret = devpool_pool_stat_raw(by_id ? a->fd : a->s->pool, by_id ? a->s->id : default_pool,
				    &stat);
	if (ret) {
		if (!by_id || !excused(a, ret))
			WRONG(a, ret);
		return;
	}
	if (test_counters_wrong(&stat.out_allocated) || stat.out_use_count < 2 ||
	    stat.out_state != DEVPOOL_STATE_LIVE || stat.out_allocated.current < X_BYTES)
		WRONG(a, 0);
	ret = devpool_stats_raw(a->fd, &stats);
	if (ret || test_counters_wrong(&stats.out_allocated))
		WRONG(a, ret);
}

#define ENTRIES 256

/* In the order of their addresses, and X is there once */
static void snapshot_once(struct actor *a)
{
	struct devpool_snapshot_entry entry[ENTRIES];
	int i, n, seen = 0;
	__u64 end = 0;

	n = devpool_snapshot_all_raw(a->fd, a->s->id, 0, entry, ENTRIES, ENTRIES);
	if (n < 0) {
		if (!excused(a, n))
			WRONG(a, n);
		return;
	}
	for (i = 0; i < n; i++) {
		if (entry[i].addr < end || !entry[i].bytes)
			WRONG(a, i);
		end = entry[i].addr + entry[i].bytes;
		if (entry[i].addr == a->s->x && entry[i].bytes == X_BYTES &&
		    entry[i].state == DEVPOOL_BLOCK_LIVE)
			seen++;
	}
	if (seen != 1)
		WRONG(a, seen);
}

/* The pool is there already: nobody gets another one. */
static void create_once(struct actor *a)
{
	struct devpool_pool_id id = a->s->id;
	int ret, pool;

	ret = devpool_pool_create_raw(a->fd, &id, &pool);
	if (ret != (a->foreign ? -ENOENT : -EBUSY) || pool != -1)
		WRONG(a, ret);
}

/* Not the last descriptor */
static void close_once(struct actor *a)
{
	struct devpool_pool_stat stat;
	int twin, ret;

	twin = dup(a->s->pool);
	if (twin < 0)
		WRONG(a, -errno);
	ret = devpool_pool_stat_raw(twin, default_pool, &stat);
	if (ret)
		WRONG(a, ret);
	if (close(twin))
		WRONG(a, -errno);
}

/* A third member comes, and leaves everything behind. */
static void peer_once(struct actor *a)
{
	struct devpool_pool_id id;
	__u64 addr;
	int fd, ret;

	fd = devpool_open_node(a->s->index);
	if (fd < 0)
		WRONG(a, -errno);
	ret = devpool_pool_attach_raw(fd, a->s->pool, &id);
	if (ret < 3)
		WRONG(a, ret);
	ret = devpool_route_begin_raw(fd, id, DEVPOOL_SCOPE_ALL);
	if (ret)
		WRONG(a, ret);
	ret = devpool_alloc_raw(fd, default_pool, 64 * KIB, &addr);
	if (ret && !by_limit(a, ret))
		WRONG(a, ret);
	ret = devpool_retain_raw(fd, a->s->x);
	if (ret)
		WRONG(a, ret);
	if (close(fd))
		WRONG(a, -errno);
}

static void fdinfo_once(struct actor *a)
{
	char text[4096];

	if (test_fdinfo(dice(a, 2) ? a->fd : a->s->pool, text, sizeof(text)) <= 0)
		WRONG(a, -errno);
}

/* X through a mapping that is new each time, and somebody's block */
static void touch_once(struct actor *a)
{
	__u64 addr = shared(a);
	__u64 word = 0;
	__u64 i;
	char *p;
	int sig;

	p = devpool_map_raw(a->fd, a->s->x, X_BYTES);
	if (!p) {
		if (!excused(a, -errno))
			WRONG(a, -errno);
		return;
	}
	i = dice(a, X_BYTES / TEST_PAGE) * TEST_PAGE;
	sig = test_read(p + i, &word);
	test_unmap(p, X_BYTES);
	if (sig || word != X_TAG + i / 8)
		WRONG(a, sig);
	if (!addr)
		return;
	/* The address may be cached, flushed, or the default pool's. */
	p = devpool_map_raw(a->fd, addr, TEST_PAGE);
	if (!p) {
		if (errno != ENOENT || !a->foreign)
			WRONG(a, -errno);
		return;
	}
	sig = test_read(p, &word);
	test_unmap(p, TEST_PAGE);
	if (sig && sig != SIGBUS)
		WRONG(a, sig);
}

/* A block on a stream; 0 if there is none, which may be so */
static __u64 alloc_on(struct actor *a, struct devpool_pool_id id, __u32 stream)
{
	struct devpool_alloc cmd = {
		.bytes = (1 + dice(a, 512)) * TEST_PAGE,
		.pool = id,
		.stream = stream,
	};
	int ret = devpool_alloc_opts_raw(a->fd, &cmd);

	if (!ret) {
		share(a, cmd.out_addr);
		return cmd.out_addr;
	}
	if (!excused(a, ret) && !by_limit(a, ret)) {
		a->ret = ret;
		a->line = __LINE__;
	}
	return 0;
}

/* One more point of the client's stream, and mostly its end. The other actor may end it. */
static void submit_once(struct actor *a)
{
	struct devpool_stream_submit cmd = { .stream = a->stream };
	int ret = devpool_stream_submit_raw(a->fd, &cmd);

	if (ret && ret != -EDQUOT)
		WRONG(a, ret);
	if (!ret) {
		if (cmd.out_point <= a->point)
			WRONG(a, 0);
		a->point = cmd.out_point;
		if (!dice(a, 3))
			return;
	}
	ret = devpool_stream_signal_raw(a->fd, a->stream, a->point);
	if (ret && (ret != -EINVAL || !a->together))
		WRONG(a, ret);
}

/* Others get it when the stream is done, the stream at once. */
static void guard_once(struct actor *a)
{
	__u64 addr = alloc_on(a, a->s->id, a->stream);
	int ret;

	if (!addr)
		return;
	submit_once(a);
	ret = devpool_free_raw(a->fd, addr);
	if (ret)
		WRONG(a, ret);
}

/* As many operations as do not go into one group */
static void batch_once(struct actor *a)
{
	struct devpool_batch_op ops[12] = {};
	int i, ret;

	for (i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = (struct devpool_batch_op){
			.command = DEVPOOL_CMD_ALLOC,
			.bytes = (1 + dice(a, 16)) * TEST_PAGE,
			.pool = a->s->id,
		};
	ret = devpool_batch_raw(a->fd, ops, ARRAY_SIZE(ops));
	if (ret != ARRAY_SIZE(ops))
		WRONG(a, ret);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		ret = ops[i].out_err;
		if (ret && !excused(a, ret) && !by_limit(a, ret))
			WRONG(a, ret);
		ops[i] = (struct devpool_batch_op){
			.command = DEVPOOL_CMD_FREE,
			.addr = ret ? 0 : ops[i].out_addr,
			.out_err = ret,
		};
	}
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		if (ops[i].out_err)
			continue;
		ret = devpool_batch_raw(a->fd, &ops[i], 1);
		if (ret != 1 || ops[i].out_err)
			WRONG(a, ret);
	}
}

static void record_once(struct actor *a)
{
	__u64 addr = alloc_on(a, a->s->id, 0);
	int ret;

	if (!addr)
		return;
	ret = devpool_record_raw(a->fd, addr + dice(a, TEST_PAGE), a->stream);
	if (ret)
		WRONG(a, ret);
	submit_once(a);
	ret = devpool_free_raw(a->fd, addr);
	if (ret)
		WRONG(a, ret);
}

/* A stream of its own with a route, which ends before the stream or with it */
static void stream_once(struct actor *a)
{
	struct devpool_stream_submit cmd = {};
	__u64 addr = 0;
	__u32 stream;
	int ret;

	ret = devpool_stream_create_raw(a->fd, 0, &stream);
	if (ret)
		WRONG(a, ret);
	ret = devpool_route_stream_raw(a->fd, DEVPOOL_IOC_ROUTE_BEGIN, a->s->id, stream);
	if (!ret) {
		addr = alloc_on(a, default_pool, stream);
		if (dice(a, 2))
			ret = devpool_route_stream_raw(a->fd, DEVPOOL_IOC_ROUTE_END, a->s->id,
						       stream);
		if (ret)
			WRONG(a, ret);
	} else if (!excused(a, ret)) {
		WRONG(a, ret);
	}
	cmd.stream = stream;
	ret = devpool_stream_submit_raw(a->fd, &cmd);
	if (ret || cmd.out_point != 1)
		WRONG(a, ret);
	if (addr && dice(a, 2)) {
		ret = devpool_free_raw(a->fd, addr);
		if (ret)
			WRONG(a, ret);
		addr = 0;
	}
	ret = devpool_stream_destroy_raw(a->fd, stream);
	if (ret)
		WRONG(a, ret);
	ret = addr ? devpool_free_raw(a->fd, addr) : 0;
	if (ret)
		WRONG(a, ret);
}

/* A block that a driver uses for a moment, longer than there is the stream */
static void fence_once(struct actor *a)
{
	struct devpool_stream_submit cmd = {
		.flags = DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT,
	};
	__u32 stream, fence = 0;
	__u64 addr;
	int ret;

	ret = devpool_stream_create_raw(a->fd, DEVPOOL_STREAM_FENCED, &stream);
	if (ret)
		WRONG(a, ret);
	cmd.stream = stream;
	cmd.in_fence = test_fence_raw(&a->fences, &fence);
	if (cmd.in_fence < 0)
		WRONG(a, cmd.in_fence);
	ret = devpool_stream_submit_raw(a->fd, &cmd);
	if (ret)
		WRONG(a, ret);
	addr = alloc_on(a, a->s->id, dice(a, 2) ? stream : 0);
	if (addr) {
		ret = devpool_record_raw(a->fd, addr, stream);
		if (ret)
			WRONG(a, ret);
		ret = devpool_free_raw(a->fd, addr);
		if (ret)
			WRONG(a, ret);
	}
	if (test_sync_status(cmd.out_fence))
		WRONG(a, test_sync_status(cmd.out_fence));
	ret = devpool_stream_destroy_raw(a->fd, stream);
	if (ret)
		WRONG(a, ret);
	ret = test_fence_signal_raw(&a->fences, fence);
	if (ret)
		WRONG(a, ret);
	close(cmd.in_fence);
	close(cmd.out_fence);
}

/* A block whose dma-buf stays a moment longer, and has what was written there */
static void export_once(struct actor *a)
{
	struct devpool_alloc cmd = {
		.bytes = (1 + dice(a, 512)) * TEST_PAGE,
		.flags = DEVPOOL_ALLOC_EXPORTABLE,
		.pool = a->s->id,
	};
	volatile __u64 *last;
	int buf, ret;
	char *p;

	ret = devpool_alloc_opts_raw(a->fd, &cmd);
	if (ret) {
		if (!excused(a, ret) && !by_limit(a, ret))
			WRONG(a, ret);
		return;
	}
	share(a, cmd.out_addr);
	ret = devpool_export_raw(a->fd, cmd.out_addr, O_RDWR | O_CLOEXEC, &buf);
	if (ret)
		WRONG(a, ret);
	p = devpool_map_raw(buf, 0, cmd.bytes);
	if (!p)
		WRONG(a, -errno);
	last = (__u64 *)(p + cmd.bytes) - 1;
	ret = test_write((char *)last, ~cmd.out_addr);
	if (ret)
		WRONG(a, ret);
	ret = devpool_free_raw(a->fd, cmd.out_addr);
	if (ret)
		WRONG(a, ret);
	if (*last != ~cmd.out_addr)
		WRONG(a, 0);
	close(buf);
	test_unmap(p, cmd.bytes);
}

static const struct act acts[] = {
	{ "ALLOC/FREE", alloc_once, alloc_end },
	{ "POOL_GET", get_once },
	{ "POOL_PUT", put_once },
	{ "ROUTE", route_once },
	{ "RETAIN/FREE", retain_once },
	{ "POOL_ATTR", attr_once, attr_end, .limits = true },
	{ "LIMIT", limit_once, limit_end, .limits = true },
	{ "TRIM", trim_once },
	{ "KEEP_PHYSICAL", keep_once },
	{ "STAT", stat_once },
	{ "SNAPSHOT", snapshot_once },
	{ "POOL_CREATE", create_once },
	{ "close", close_once },
	{ "a third client", peer_once },
	{ "fdinfo", fdinfo_once },
	{ "touch", touch_once },
	{ "SUBMIT/SIGNAL", submit_once },
	{ "ALLOC on a stream", guard_once },
	{ "RECORD/FREE", record_once },
	{ "BATCH", batch_once },
	{ "STREAM_CREATE/DESTROY", stream_once },
	{ "a fenced stream", fence_once },
	{ "EXPORT", export_once },
};

static void *actor_run(void *p)
{
	struct actor *a = p;

	pthread_barrier_wait(&a->s->barrier);
	do {
		a->act->once(a);
		a->calls++;
	} while (!a->line && test_now() < a->s->deadline);
	pthread_barrier_wait(&a->s->barrier);
	if (!a->line && a->act->end)
		a->act->end(a);
	return NULL;
}

/* Who the two are */
enum who {
	ONE_CLIENT,
	TWO_CLIENTS,
	ONE_PEER,
};

FIXTURE(pairs)
{
	struct devpool_info info;
	struct test_base base;
	struct scene s;
	struct actor a[2];
	/* of each actor */
	struct test_fences fences[2];
	int creator;
	int peer;
	int index;
	int fd;
};

FIXTURE_VARIANT(pairs)
{
	enum who who;
};

FIXTURE_VARIANT_ADD(pairs, of_one_client) { .who = ONE_CLIENT };
FIXTURE_VARIANT_ADD(pairs, of_two_clients) { .who = TWO_CLIENTS };
FIXTURE_VARIANT_ADD(pairs, of_a_peer_that_comes_and_goes) { .who = ONE_PEER };

FIXTURE_SETUP(pairs)
{
	test_setup(self, TEST_SYSMEM);
	close(self->fd);
	test_catch();
	pthread_barrier_init(&self->s.barrier, NULL, 2);
	self->fences[0].file = test_open_vgem();
	self->fences[1].file = test_open_vgem();
	ASSERT_LE(0, self->fences[1].file)
		TH_LOG("no vgem");
}

FIXTURE_TEARDOWN(pairs)
{
}

#define PAIR(first, second)							\
do {										\
	struct scene *_s = &self->s;						\
	struct devpool_pool_stat _stat;						\
	struct devpool_pool_id _id;						\
	struct actor *_a = self->a;						\
	pthread_t _thread;							\
	__u32 _stream[2];							\
	long _got, _put;							\
	char *_p;								\
	int _i;									\
										\
	self->creator = test_open(self->index);					\
	self->peer = test_open(self->index);					\
	_s->holder = test_open(self->index);					\
	_s->index = self->index;						\
	_s->chunk = self->info.out_chunk;					\
	_s->pool = test_pool_create(self->creator, &_s->id);			\
	test_pool_attach(_s->holder, _s->pool, &_id);				\
	_s->x = test_alloc(_s->holder, _s->id, X_BYTES);			\
	_p = test_map(_s->holder, _s->x, X_BYTES);				\
	test_fill(_p, X_BYTES, X_TAG);						\
	test_unmap(_p, X_BYTES);						\
	_stream[0] = test_stream(self->creator, 0);				\
	_stream[1] = test_stream(self->peer, 0);				\
	memset(_s->shared, 0, sizeof(_s->shared));				\
	memset(_a, 0, sizeof(self->a));						\
	for (_i = 0; _i < 2; _i++) {						\
		_a[_i].act = &acts[_i ? (second) : (first)];			\
		_a[_i].s = _s;							\
		_a[_i].random = test_random(&random);				\
		_a[_i].foreign = variant->who == ONE_PEER ||			\
				 (variant->who == TWO_CLIENTS && _i);		\
		_a[_i].together = variant->who != TWO_CLIENTS;			\
		_a[_i].limited = acts[first].limits || acts[second].limits;	\
		_a[_i].fd = _a[_i].foreign ? self->peer : self->creator;	\
		_a[_i].stream = _stream[_a[_i].foreign];			\
		_a[_i].fences = self->fences[_i];				\
	}									\
	_s->deadline = test_now() + ms * 1000000ULL;				\
	ASSERT_EQ(0, pthread_create(&_thread, NULL, actor_run, &_a[1]));	\
	actor_run(&_a[0]);							\
	pthread_join(_thread, NULL);						\
	for (_i = 0; _i < 2; _i++) {						\
		EXPECT_EQ(0, _a[_i].line)					\
			TH_LOG("line %d: %d", _a[_i].line, _a[_i].ret);		\
		EXPECT_LT(0, _a[_i].calls);					\
		calls += _a[_i].calls;						\
	}									\
	/* Whoever began a route, somebody has ended it. */			\
	EXPECT_EQ(0, _a[0].routes + _a[1].routes);				\
	test_err_route_end(ENOENT, _a[0].fd, _s->id, DEVPOOL_SCOPE_ALL);	\
	test_err_route_end(ENOENT, _a[1].fd, _s->id, DEVPOOL_SCOPE_ALL);	\
	/* What drivers use comes back when the work is done, and so does the rest. */ \
	test_stream_destroy(self->creator, _stream[0]);				\
	test_stream_destroy(self->peer, _stream[1]);				\
	EXPECT_EQ(0, test_empty_until(_s->pool, default_pool, DEVPOOL_EMPTY_TRIM, 0, \
				      test_now() + PATIENCE).out_pending);	\
	/* There are as many references as they say. */				\
	_got = _a[0].references + _a[1].references;				\
	_stat = test_pool_stat(_s->pool, default_pool);				\
	EXPECT_EQ(2 + _got, _stat.out_use_count);				\
	_put = 0;								\
	for (_i = 0; _i < 2; _i++)						\
		while (devpool_pool_put_raw(_a[_i].fd, _s->id) >= 0)		\
			_put++;							\
	EXPECT_EQ(_got, _put);							\
	/* X is all that lives, and nobody has written there. */		\
	_stat = test_pool_stat(_s->pool, default_pool);				\
	EXPECT_POOL_SOUND(_stat);						\
	EXPECT_EQ(2, _stat.out_use_count);					\
	EXPECT_EQ(1, _stat.out_blocks.current);					\
	EXPECT_EQ(X_BYTES, _stat.out_allocated.current);			\
	EXPECT_EQ(X_BYTES, _stat.out_requested.current);			\
	_p = test_map(_s->holder, _s->x, X_BYTES);				\
	EXPECT_EQ(-1, test_differs(_p, X_BYTES, X_TAG));			\
	test_unmap(_p, X_BYTES);						\
	test_free(_s->holder, _s->x);						\
	close(_s->pool);							\
	EXPECT_EQ(0, test_pool_put(_s->holder, _s->id));			\
	test_err_pool_stat(ENOENT, self->creator, _s->id);			\
	close(_s->holder);							\
	close(self->peer);							\
	close(self->creator);							\
	EXPECT_BASE(self->base, self->index);					\
} while (0)

TEST_F_TIMEOUT(pairs, all_of_them, PAIRS_TIMEOUT)
{
	unsigned int ms = test_env("DEVPOOL_PAIR_MS", PAIR_MS);
	__u64 random = test_seed();
	unsigned long calls = 0;
	unsigned int i, j;
	int pairs = 0;

	for (i = 0; i < ARRAY_SIZE(acts); i++) {
		/* Where both are alike their order says nothing. */
		for (j = variant->who == TWO_CLIENTS ? 0 : i; j < ARRAY_SIZE(acts); j++) {
			PAIR(i, j);
			if (_metadata->exit_code) {
				TH_LOG("%s and %s", acts[i].name, acts[j].name);
				return;
			}
			pairs++;
		}
	}
	TH_LOG("%d pairs, %lu calls", pairs, calls);
}

TEST_HARNESS_MAIN
