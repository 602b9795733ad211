// SPDX-License-Identifier: GPL-2.0-only
/*
 * Torture: processes of several threads do whatever there is to do with a device,
 * at random and all at once, and are killed at random. What must hold all the time:
 *
 * - What a block's owner writes there stays, until its FREE.
 * - At each multiple of 512 a pool's memory begins with 0 or with this pool's tag,
 *   since nobody writes anything else: memory that comes from another pool would show
 *   that pool's tag.
 * - Whoever has a reference on a block can touch it and can free it.
 * - Nobody gets memory that a stream still uses, but that stream what is in order.
 * - A block's dma-buf shows what the block had, also when that is freed; a buffer of the
 *   device's heap is zero at first.
 * - Every answer is one that the command's description has.
 *
 * In the end the device is as it was.
 *
 *	torture [--seed=N] [--seconds=N] [--processes=N] [--threads=N]
 *
 * A process that is about to be killed is marked before, so that the others trust
 * nothing any more that it has offered, nor that its user streams still use anything.
 * Fences are of a driver's file that outlives them all.
 */
#include "fence_test.h"

#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>

#define MAX_PROCESSES 256
#define MAX_THREADS 16
#define POOLS 24
#define BLOCKS 24
#define OFFERS 64
/* Unless DEVPOOL_TORTURE_SECONDS says otherwise */
#define TORTURE_SECONDS 20
/* Places of a block that are looked at, at the most */
#define PLACES 48
#define PLACE 512ULL
/* Of a process at a time; streams that only one thread has come on top. */
#define STREAMS 6
#define FENCES 8
#define GUARDS 24
/* Dma-bufs that a thread has */
#define BUFS 4
/* Streams that are recorded on a block */
#define BATCH 12
#define USES 3
/* As long as a fence surely does not end by itself, ns */
#define FENCE_LASTS ((TEST_FENCE_SECONDS - 1) * 1000000000ULL)

/* A block that another client may RETAIN; serial 0 for none */
struct offer {
	__u64 serial;
	__u64 addr;
	__u64 bytes;
	__u64 tag;
	unsigned int process;
	unsigned int life;
};

/*
 * Work of a stream that is not done: of a user stream up to the point that was
 * submitted last, of a fenced one a fence. It is done when somebody begins to say so,
 * so what is not done here is not done for devpool either.
 */
struct work {
	/* 0 for none; no two have the same */
	__u64 serial;
	__u64 submitted;
	__u64 signalled;
	/* of a fence: from when on it may have ended by itself; 0 for a user stream */
	__u64 ends;
	/* of a fence: its name, as the driver has it */
	__u32 fence;
};

/* Memory that is free and that work protects */
struct guard {
	/* 0 while it is being written, and for none; of the work */
	__u64 serial;
	__u64 addr;
	__u64 bytes;
	__u64 point;
	/* of the stream that may have it all the same, 0 for none */
	__u64 stream;
	unsigned int work;
};

enum op {
	OP_ALLOC,
	OP_FREE,
	OP_CHECK,
	OP_POOL_CREATE,
	OP_POOL_CLOSE,
	OP_POOL_GET,
	OP_POOL_PUT,
	OP_PASS,
	OP_RECEIVE,
	OP_RETAIN,
	OP_ROUTE,
	OP_EMPTY,
	OP_ATTR,
	OP_LIMIT,
	OP_VIEW,
	OP_SNAPSHOT,
	OP_BAD,
	OP_WINDOW,
	OP_FORK,
	OP_STREAM_CREATE,
	OP_STREAM_DESTROY,
	OP_SUBMIT,
	OP_SIGNAL,
	OP_RECORD,
	OP_BATCH,
	OP_STREAM_ROUTE,
	OP_EXPORT,
	OP_HEAP,
	OP_KILL,
	OPS,
};

static const struct {
	const char *name;
	unsigned int weight;
} ops[OPS] = {
	[OP_ALLOC] = { "alloc", 300 },
	[OP_FREE] = { "free", 220 },
	[OP_CHECK] = { "check", 100 },
	[OP_POOL_CREATE] = { "pool_create", 24 },
	[OP_POOL_CLOSE] = { "pool_close", 20 },
	[OP_POOL_GET] = { "pool_get", 16 },
	[OP_POOL_PUT] = { "pool_put", 16 },
	[OP_PASS] = { "pass", 16 },
	[OP_RECEIVE] = { "receive", 20 },
	[OP_RETAIN] = { "retain", 40 },
	[OP_ROUTE] = { "route", 24 },
	[OP_EMPTY] = { "empty_cache", 40 },
	[OP_ATTR] = { "pool_attr", 16 },
	[OP_LIMIT] = { "limit", 6 },
	[OP_VIEW] = { "stat", 24 },
	[OP_SNAPSHOT] = { "snapshot", 10 },
	[OP_BAD] = { "bad", 20 },
	[OP_WINDOW] = { "window", 16 },
	[OP_FORK] = { "fork", 4 },
	[OP_STREAM_CREATE] = { "stream_create", 16 },
	[OP_STREAM_DESTROY] = { "stream_destroy", 8 },
	[OP_SUBMIT] = { "stream_submit", 80 },
	[OP_SIGNAL] = { "stream_signal", 60 },
	[OP_RECORD] = { "record", 100 },
	[OP_BATCH] = { "batch", 40 },
	[OP_STREAM_ROUTE] = { "stream_route", 16 },
	[OP_EXPORT] = { "export", 60 },
	[OP_HEAP] = { "heap", 60 },
	/* The supervisor's */
	[OP_KILL] = { "kill", 0 },
};

/* What all processes share */
struct shared {
	unsigned int stop;
	unsigned int wrong;
	char message[256];
	unsigned long done[OPS];
	unsigned int doomed[MAX_PROCESSES];
	struct offer offer[OFFERS];
	/* Of user streams, then of fences */
	struct work work[MAX_PROCESSES][STREAMS + FENCES];
	struct guard guard[MAX_PROCESSES][GUARDS];
	unsigned long guarded;
};

struct pool {
	struct devpool_pool_id id;
	__u64 tag;
	/* Its file, or -1 */
	int fd;
	bool known;
};

/* Of all threads, but for one that a single thread uses, which is only in its hands */
struct stream {
	/* 0 for none */
	__u32 number;
	__u64 serial;
	bool fenced;
	bool alone;
	/* of a user stream its own work, of a fenced one that of its last fence */
	unsigned int work;
	__u64 last;
};

struct block {
	/* of its stream, 0 for the host or another process's */
	__u64 stream;
	/* the streams that were recorded */
	__u64 use[USES];
	__u64 addr;
	__u64 bytes;
	__u64 tag;
	__u64 serial;
	struct offer *offer;
	char *p;
};

struct process {
	unsigned int nr;
	unsigned int life;
	int fd;
	int heap;
	struct devpool_info info;
	__u64 tag;
	__u64 serial;
	pthread_mutex_t lock;
	struct pool pool[POOLS];
	struct stream stream[STREAMS];
};

/* What @block was when it was exported, mapped by its dma-buf; or a heap's buffer */
struct buf {
	struct block block;
	int fd;
};

struct thread {
	struct process *process;
	__u64 random;
	struct block block[BLOCKS];
	struct buf buf[BUFS];
};

static struct shared *shared;
static int device = -1;
static struct test_fences fences = { .file = -1 };
static int passing[2];
static unsigned int processes = 64;
static unsigned int threads = 3;

static void wrong(const char *format, ...)
{
	va_list args;

	if (__atomic_fetch_add(&shared->wrong, 1, __ATOMIC_SEQ_CST))
		return;
	va_start(args, format);
	vsnprintf(shared->message, sizeof(shared->message), format, args);
	va_end(args);
}

/* Is the answer one of these? The list ends with 0, which is always good. */
static void allow(enum op op, int ret, ...)
{
	va_list args;
	int err;

	if (!ret)
		return;
	va_start(args, ret);
	while ((err = va_arg(args, int)))
		if (ret == -err)
			break;
	va_end(args);
	if (!err)
		wrong("%s answers %s", ops[op].name, strerror(-ret));
}

static unsigned int pick(struct thread *t, unsigned int n)
{
	return test_random(&t->random) % n;
}

static __u64 mix(__u64 x)
{
	x ^= x >> 31;
	x *= 0x7fb5d329728ea185ULL;
	x ^= x >> 27;
	x *= 0x81dadef4bc2dd44dULL;
	return (x ^ x >> 33) | 1;
}

static __u64 tag_of(struct devpool_pool_id id)
{
	return mix(id.first * 3 + id.second);
}

/* The distance between the places of a block that are written and looked at */
static __u64 stride(const struct block *b)
{
	__u64 step = round_to(b->bytes / PLACES + 1, PLACE);

	return b->bytes > MIB ? round_to(step, TEST_PAGE) : step;
}

static bool look(const struct block *b, __u64 at, int word, __u64 *value)
{
	int sig = test_read(b->p + at + word * sizeof(__u64), value);

	if (sig)
		wrong("a live block of %llu bytes at 0x%llx: signal %d at %llu",
		      b->bytes, b->addr, sig, at);
	return !sig;
}

static void check_fresh(const struct block *b, bool zero)
{
	__u64 at, value;

	for (at = 0; at < b->bytes; at += stride(b)) {
		if (!look(b, at, 0, &value))
			return;
		if (value && (zero || value != b->tag)) {
			wrong("a fresh block of %llu bytes at 0x%llx%s: 0x%llx at %llu, not 0x%llx",
			      b->bytes, b->addr, zero ? ", to be zero" : "", value, at,
			      b->tag);
			return;
		}
	}
}

static void write_block(const struct block *b)
{
	__u64 at;
	int sig = 0;

	for (at = 0; at < b->bytes && !sig; at += stride(b)) {
		sig = test_write(b->p + at, b->tag);
		if (!sig)
			sig = test_write(b->p + at + sizeof(__u64), b->serial + at);
	}
	if (sig)
		wrong("a live block of %llu bytes at 0x%llx: signal %d when written", b->bytes,
		      b->addr, sig);
}

static void check_block(const struct block *b)
{
	__u64 at, tag, serial;

	for (at = 0; b->p && at < b->bytes; at += stride(b)) {
		if (!look(b, at, 0, &tag) || !look(b, at, 1, &serial))
			return;
		if (tag != b->tag || serial != b->serial + at) {
			wrong("a live block of %llu at 0x%llx: 0x%llx, 0x%llx at %llu",
			      b->bytes, b->addr, tag, serial, at);
			wrong("it should have 0x%llx, 0x%llx there", b->tag, b->serial + at);
			return;
		}
	}
}

/* A pool of the process, which another thread may close at any time */
static struct pool some_pool(struct thread *t)
{
	struct process *p = t->process;
	struct pool pool = { .tag = p->tag, .fd = -1, .known = true };
	unsigned int i, n;

	if (!pick(t, 4))
		return pool;
	pthread_mutex_lock(&p->lock);
	for (i = pick(t, POOLS), n = 0; n < POOLS; n++, i = (i + 1) % POOLS) {
		if (p->pool[i].known) {
			pool = p->pool[i];
			break;
		}
	}
	pthread_mutex_unlock(&p->lock);
	return pool;
}

/* Closes @fd if there is no room. */
static void add_pool(struct process *p, struct devpool_pool_id id, int fd)
{
	unsigned int i;

	pthread_mutex_lock(&p->lock);
	for (i = 0; i < POOLS; i++)
		if (!p->pool[i].known)
			break;
	if (i < POOLS) {
		p->pool[i] = (struct pool){
			.id = id,
			.tag = tag_of(id),
			.fd = fd,
			.known = true,
		};
		fd = -1;
	}
	pthread_mutex_unlock(&p->lock);
	if (fd >= 0)
		close(fd);
}

static struct pool take_pool(struct thread *t)
{
	struct process *p = t->process;
	struct pool pool = { .fd = -1 };
	unsigned int i = pick(t, POOLS);

	pthread_mutex_lock(&p->lock);
	if (p->pool[i].known) {
		pool = p->pool[i];
		p->pool[i].known = false;
	}
	pthread_mutex_unlock(&p->lock);
	return pool;
}

static struct block *some_block(struct thread *t, bool used)
{
	unsigned int i = pick(t, BLOCKS), n;

	for (n = 0; n < BLOCKS; n++, i = (i + 1) % BLOCKS)
		if (!!t->block[i].bytes == used)
			return &t->block[i];
	return NULL;
}

/* What no two threads of all have; the same for blocks and for streams */
static __u64 new_serial(struct process *p)
{
	return __atomic_add_fetch(&p->serial, 0x10000000, __ATOMIC_RELAXED);
}

static __u64 load(const __u64 *value)
{
	return __atomic_load_n(value, __ATOMIC_SEQ_CST);
}

static void store(__u64 *value, __u64 now)
{
	__atomic_store_n(value, now, __ATOMIC_SEQ_CST);
}

/*
 * Does it protect its memory, at some moment of this call? The mark of a process comes
 * before its work is cleared and goes after that: so where the work is still there at
 * the end, the process was not marked for another life's sake.
 */
static bool is_open(unsigned int nr, const struct guard *guard)
{
	const struct work *work = &shared->work[nr][guard->work];
	bool doomed = __atomic_load_n(&shared->doomed[nr], __ATOMIC_SEQ_CST);
	__u64 ends = load(&work->ends);

	if ((doomed && !ends) || load(&work->signalled) >= guard->point ||
	    load(&work->serial) != guard->serial)
		return false;
	return !ends || test_now() < ends;
}

/* A block has been handed out to this stream: nobody else's work is in its way. */
static void check_guards(__u64 addr, __u64 bytes, __u64 stream)
{
	struct guard *guard, copy;
	unsigned int nr, i;

	for (nr = 0; nr < processes; nr++) {
		for (i = 0; i < GUARDS; i++) {
			guard = &shared->guard[nr][i];
			copy.serial = load(&guard->serial);
			if (!copy.serial)
				continue;
			copy.addr = load(&guard->addr);
			copy.bytes = load(&guard->bytes);
			copy.point = load(&guard->point);
			copy.stream = load(&guard->stream);
			copy.work = __atomic_load_n(&guard->work, __ATOMIC_SEQ_CST);
			if (load(&guard->serial) != copy.serial)
				continue;
			if (copy.addr >= addr + bytes || addr >= copy.addr + copy.bytes ||
			    (copy.stream && copy.stream == stream) || !is_open(nr, &copy))
				continue;
			wrong("%llu bytes at 0x%llx are handed out, of which %llu at 0x%llx are %s",
			      bytes, addr, copy.bytes, copy.addr,
			      copy.stream ? "another stream's" : "in use");
		}
	}
}

/* From now on, under the process's lock; not if there is no room. */
static void add_guard(struct process *p, const struct guard *new)
{
	struct guard *guard;
	unsigned int i;

	if (!is_open(p->nr, new))
		return;
	for (i = 0; i < GUARDS; i++) {
		guard = &shared->guard[p->nr][i];
		if (guard->serial && is_open(p->nr, guard))
			continue;
		store(&guard->serial, 0);
		store(&guard->addr, new->addr);
		store(&guard->bytes, new->bytes);
		store(&guard->point, new->point);
		store(&guard->stream, new->stream);
		__atomic_store_n(&guard->work, new->work, __ATOMIC_SEQ_CST);
		store(&guard->serial, new->serial);
		__atomic_add_fetch(&shared->guarded, 1, __ATOMIC_RELAXED);
		return;
	}
}

/* What work a stream has outstanding by now, under the process's lock */
static bool outstanding(struct process *p, __u64 stream, struct guard *guard)
{
	struct stream *s;
	unsigned int i;

	for (i = 0; i < STREAMS; i++) {
		s = &p->stream[i];
		if (!stream || !s->number || s->serial != stream)
			continue;
		guard->work = s->work;
		guard->serial = s->last;
		guard->point = load(&shared->work[p->nr][s->work].submitted);
		return s->last && is_open(p->nr, guard);
	}
	return false;
}

/* A stream of the process's, which another thread may end at any time */
static struct stream some_stream(struct thread *t)
{
	struct process *p = t->process;
	struct stream stream = {};
	unsigned int i, n;

	pthread_mutex_lock(&p->lock);
	for (i = pick(t, STREAMS), n = 0; n < STREAMS; n++, i = (i + 1) % STREAMS) {
		if (p->stream[i].number && !p->stream[i].alone) {
			stream = p->stream[i];
			break;
		}
	}
	pthread_mutex_unlock(&p->lock);
	return stream;
}

static struct stream *find_stream(struct process *p, __u64 serial)
{
	unsigned int i;

	for (i = 0; i < STREAMS; i++)
		if (p->stream[i].number && p->stream[i].serial == serial)
			return &p->stream[i];
	return NULL;
}

/* None if there is no room. */
static struct stream create_stream(struct thread *t, bool fenced, bool alone)
{
	struct process *p = t->process;
	struct stream stream = {
		.fenced = fenced,
		.alone = alone,
		.serial = new_serial(p),
	};
	unsigned int i;
	__u32 number;
	int ret;

	ret = devpool_stream_create_raw(p->fd, fenced ? DEVPOOL_STREAM_FENCED : 0, &number);
	allow(OP_STREAM_CREATE, ret, EDQUOT, ENOMEM, 0);
	if (ret)
		return stream;
	pthread_mutex_lock(&p->lock);
	for (i = 0; i < STREAMS; i++)
		if (!p->stream[i].number)
			break;
	if (i < STREAMS) {
		stream.number = number;
		if (!fenced) {
			stream.work = i;
			stream.last = stream.serial;
			store(&shared->work[p->nr][i].submitted, 0);
			store(&shared->work[p->nr][i].signalled, 0);
			store(&shared->work[p->nr][i].serial, stream.serial);
		}
		p->stream[i] = stream;
	}
	pthread_mutex_unlock(&p->lock);
	if (i == STREAMS)
		devpool_stream_destroy_raw(p->fd, number);
	return stream;
}

static void destroy_stream(struct thread *t, struct stream stream)
{
	struct process *p = t->process;
	struct stream *s;
	int ret;

	pthread_mutex_lock(&p->lock);
	s = find_stream(p, stream.serial);
	if (s) {
		/* What fences protect they go on protecting. */
		if (!s->fenced)
			store(&shared->work[p->nr][s->work].serial, 0);
		s->number = 0;
	}
	pthread_mutex_unlock(&p->lock);
	if (!s)
		return;
	ret = devpool_stream_destroy_raw(p->fd, stream.number);
	if (ret)
		wrong("stream_destroy answers %s", strerror(-ret));
}

/* Under the process's lock. It may have ended by itself before. */
static void signal_fence(struct work *work)
{
	if (!work->serial)
		return;
	store(&work->serial, 0);
	test_fence_signal_raw(&fences, work->fence);
}

static void submit_fence(struct thread *t, struct stream stream)
{
	struct devpool_stream_submit cmd = {
		.stream = stream.number,
		.flags = DEVPOOL_SUBMIT_FENCE_IN | (pick(t, 2) ? DEVPOOL_SUBMIT_FENCE_OUT : 0),
	};
	unsigned int at = STREAMS + pick(t, FENCES);
	struct process *p = t->process;
	struct work *work = &shared->work[p->nr][at];
	__u64 serial = new_serial(p), ends;
	struct stream *s;
	__u32 fence = 0;
	int ret;

	ends = test_now() + FENCE_LASTS;
	ret = test_fence_raw(&fences, &fence);
	if (ret < 0) {
		allow(OP_SUBMIT, ret, ENOMEM, EMFILE, ENFILE, 0);
		return;
	}
	cmd.in_fence = ret;
	ret = devpool_stream_submit_raw(p->fd, &cmd);
	allow(OP_SUBMIT, ret, ENOENT, EDQUOT, ENOMEM, EMFILE, ENFILE, 0);
	close(cmd.in_fence);
	if (!ret && cmd.flags & DEVPOOL_SUBMIT_FENCE_OUT)
		close(cmd.out_fence);
	pthread_mutex_lock(&p->lock);
	signal_fence(work);
	work->fence = fence;
	store(&work->submitted, 1);
	store(&work->signalled, 0);
	store(&work->ends, ends);
	store(&work->serial, serial);
	s = ret ? NULL : find_stream(p, stream.serial);
	if (s) {
		s->work = at;
		s->last = serial;
	} else {
		signal_fence(work);
	}
	pthread_mutex_unlock(&p->lock);
}

static void submit(struct thread *t, struct stream stream)
{
	struct devpool_stream_submit cmd = { .stream = stream.number };
	struct process *p = t->process;
	struct work *work = &shared->work[p->nr][stream.work];
	int ret;

	if (!stream.number)
		return;
	if (stream.fenced) {
		submit_fence(t, stream);
		return;
	}
	ret = devpool_stream_submit_raw(p->fd, &cmd);
	allow(OP_SUBMIT, ret, ENOENT, EDQUOT, ENOMEM, 0);
	pthread_mutex_lock(&p->lock);
	if (!ret && find_stream(p, stream.serial) && work->submitted < cmd.out_point)
		store(&work->submitted, cmd.out_point);
	pthread_mutex_unlock(&p->lock);
}

static void do_signal(struct thread *t)
{
	struct stream stream = some_stream(t);
	struct process *p = t->process;
	struct work *work = &shared->work[p->nr][stream.work];
	__u64 point = 0;
	int ret;

	if (!stream.number)
		return;
	pthread_mutex_lock(&p->lock);
	if (stream.fenced) {
		signal_fence(&shared->work[p->nr][STREAMS + pick(t, FENCES)]);
	} else if (find_stream(p, stream.serial) && work->submitted > work->signalled) {
		point = work->submitted - pick(t, work->submitted - work->signalled);
		store(&work->signalled, point);
	}
	pthread_mutex_unlock(&p->lock);
	if (!point)
		return;
	ret = devpool_stream_signal_raw(p->fd, stream.number, point);
	/* Others have ended it meanwhile, or gone further. */
	allow(OP_SIGNAL, ret, ENOENT, EINVAL, 0);
}

static void do_record(struct thread *t)
{
	struct stream stream = some_stream(t);
	struct block *b = some_block(t, true);
	unsigned int i;
	int ret;

	if (!stream.number || !b)
		return;
	ret = devpool_record_raw(t->process->fd, b->addr + pick(t, b->bytes), stream.number);
	allow(OP_RECORD, ret, ENOENT, ENOMEM, 0);
	if (ret || stream.serial == b->stream)
		return;
	for (i = 0; i < USES; i++) {
		if (b->use[i] && b->use[i] != stream.serial)
			continue;
		b->use[i] = stream.serial;
		return;
	}
}

static bool is_offered(const struct offer *offer, const struct offer *copy)
{
	return __atomic_load_n(&offer->serial, __ATOMIC_SEQ_CST) == copy->serial &&
	       !__atomic_load_n(&shared->doomed[copy->process], __ATOMIC_SEQ_CST);
}

static void offer_block(struct thread *t, struct block *b)
{
	struct offer *offer = &shared->offer[pick(t, OFFERS)];
	__u64 none = 0;

	/* 1: it is being written */
	if (!__atomic_compare_exchange_n(&offer->serial, &none, 1, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_SEQ_CST))
		return;
	offer->addr = b->addr;
	offer->bytes = b->bytes;
	offer->tag = b->tag;
	offer->process = t->process->nr;
	offer->life = t->process->life;
	b->offer = offer;
	__atomic_store_n(&offer->serial, b->serial, __ATOMIC_SEQ_CST);
}

static void free_block(struct thread *t, struct block *b)
{
	struct process *p = t->process;
	struct guard guard[USES + 1];
	unsigned int i, n = 0;
	int ret;

	check_block(b);
	if (b->offer)
		__atomic_store_n(&b->offer->serial, 0, __ATOMIC_SEQ_CST);
	if (b->p)
		test_unmap(b->p, b->bytes);
	/* What is submitted before the call counts; what is submitted meanwhile may. */
	pthread_mutex_lock(&p->lock);
	for (i = 0; i <= USES; i++) {
		guard[n] = (struct guard){
			.addr = b->addr,
			.bytes = b->bytes,
			.stream = i < USES ? 0 : b->stream,
		};
		n += outstanding(p, i < USES ? b->use[i] : b->stream, &guard[n]);
	}
	pthread_mutex_unlock(&p->lock);
	ret = devpool_free_raw(p->fd, b->addr);
	if (ret)
		wrong("free of a live block of %llu bytes at 0x%llx answers %s", b->bytes,
		      b->addr, strerror(-ret));
	pthread_mutex_lock(&p->lock);
	for (i = 0; i < n; i++)
		add_guard(p, &guard[i]);
	pthread_mutex_unlock(&p->lock);
	*b = (struct block){};
}

static __u64 some_size(struct thread *t)
{
	switch (pick(t, 10)) {
	case 0:
		return 1 + pick(t, 6 * MIB);
	case 1:
	case 2:
		return 1 + pick(t, 2 * MIB);
	case 3:
	case 4:
		return 1 + pick(t, 64 * KIB);
	default:
		return 1 + pick(t, 4 * KIB);
	}
}

/* As long as a request or a flush waits for streams, if at all */
static __s64 some_timeout(struct thread *t)
{
	return pick(t, 4) ? 0 : test_now() + pick(t, 20000000);
}

/* NULL if there is none */
static struct block *alloc_block(struct thread *t, struct devpool_pool_id id, __u64 tag,
				 struct stream stream)
{
	struct process *p = t->process;
	struct block *b = some_block(t, false);
	struct devpool_alloc cmd = {
		.bytes = some_size(t),
		.pool = id,
		.flags = pick(t, 4) ? 0 : pick(t, 4),
		.align = pick(t, 8) ? 0 : PLACE << pick(t, 8),
		.stream = stream.number,
		.timeout = some_timeout(t),
	};
	int ret;

	if (!b)
		return NULL;
	ret = devpool_alloc_opts_raw(p->fd, &cmd);
	allow(OP_ALLOC, ret, ENOENT, ENOSPC, EDQUOT, ENOMEM, EAGAIN, ETIME, 0);
	if (ret)
		return NULL;
	check_guards(cmd.out_addr, cmd.out_bytes, stream.number ? stream.serial : 0);
	*b = (struct block){
		.stream = stream.number ? stream.serial : 0,
		.addr = cmd.out_addr,
		.bytes = cmd.out_bytes,
		.tag = tag,
		.serial = new_serial(p),
	};
	if (cmd.out_bytes < cmd.bytes || (cmd.align && cmd.out_addr % cmd.align))
		wrong("alloc of %llu bytes, aligned to %llu: %llu at 0x%llx",
		      (__u64)cmd.bytes, (__u64)cmd.align, b->bytes, b->addr);
	if (!(p->info.out_features & DEVPOOL_FEATURE_MMAP))
		return b;
	b->p = devpool_map_raw(p->fd, b->addr, b->bytes);
	/* A member that others have left may know the pool no more only without it. */
	if (!b->p) {
		if (errno != ENOMEM)
			wrong("mmap of a live block: %s", strerror(errno));
		return b;
	}
	check_fresh(b, cmd.flags & DEVPOOL_ALLOC_ZERO);
	write_block(b);
	if (id.first | id.second && !pick(t, 3))
		offer_block(t, b);
	return b;
}

/* Who has it open has it, whatever has become of the block. */
static void close_buf(struct buf *buf)
{
	check_block(&buf->block);
	test_unmap(buf->block.p, buf->block.bytes);
	close(buf->fd);
	*buf = (struct buf){};
}

/* A buffer for a place where there is none; what is there ends, and there is NULL. */
static struct buf *some_buf(struct thread *t)
{
	struct buf *buf = &t->buf[pick(t, BUFS)];

	if (!buf->block.p)
		return buf;
	close_buf(buf);
	return NULL;
}

static bool map_buf(struct buf *buf, int fd, const struct block *b)
{
	buf->block = *b;
	buf->block.p = devpool_map_raw(fd, 0, b->bytes);
	buf->fd = fd;
	if (buf->block.p)
		return true;
	if (errno != ENOMEM)
		wrong("mmap of a dma-buf: %s", strerror(errno));
	close(fd);
	return false;
}

static void do_export(struct thread *t)
{
	struct block *b = some_block(t, true);
	struct buf *buf = some_buf(t);
	int fd, ret;

	if (!buf || !b || !b->p)
		return;
	ret = devpool_export_raw(t->process->fd, b->addr, O_RDWR | O_CLOEXEC, &fd);
	allow(OP_EXPORT, ret, EINVAL, ENOMEM, EMFILE, ENFILE, 0);
	if ((ret == -EINVAL) != !!((b->addr | b->bytes) % TEST_PAGE))
		wrong("export of %llu bytes at 0x%llx answers %d", b->bytes, b->addr, ret);
	if (!ret && map_buf(buf, fd, b))
		check_block(&buf->block);
}

static void do_heap(struct thread *t)
{
	struct block block = {
		.bytes = round_to(some_size(t), TEST_PAGE),
		.tag = t->process->tag,
		.serial = new_serial(t->process),
	};
	struct buf *buf = some_buf(t);
	int fd;

	if (!buf)
		return;
	fd = test_heap_alloc_raw(t->process->heap, block.bytes);
	if (fd < 0)
		allow(OP_HEAP, fd, ENOMEM, EMFILE, ENFILE, 0);
	if (fd < 0 || !map_buf(buf, fd, &block))
		return;
	check_fresh(&buf->block, true);
	write_block(&buf->block);
}

static void do_route(struct thread *t)
{
	struct process *p = t->process;
	struct pool pool = some_pool(t);
	unsigned int i;
	int ret;

	if (!(pool.id.first | pool.id.second))
		return;
	ret = devpool_route_begin_raw(p->fd, pool.id, DEVPOOL_SCOPE_THREAD);
	allow(OP_ROUTE, ret, ENOENT, EDQUOT, ENOMEM, 0);
	if (ret)
		return;
	for (i = pick(t, 4); i; i--)
		alloc_block(t, default_pool, pool.tag,
			    pick(t, 2) ? some_stream(t) : (struct stream){});
	/* Nobody else can end it. */
	ret = devpool_route_end_raw(p->fd, pool.id, DEVPOOL_SCOPE_THREAD);
	if (ret)
		wrong("route_end answers %s", strerror(-ret));
}

/* A route of a stream that only this thread has; it ends by itself or with the stream. */
static void do_stream_route(struct thread *t)
{
	struct process *p = t->process;
	struct pool pool = some_pool(t);
	struct stream stream;
	struct block *b;
	unsigned int i;
	int ret;

	if (!(pool.id.first | pool.id.second))
		return;
	stream = create_stream(t, fences.file >= 0 && pick(t, 2), true);
	if (!stream.number)
		return;
	ret = devpool_route_stream_raw(p->fd, DEVPOOL_IOC_ROUTE_BEGIN, pool.id, stream.number);
	allow(OP_STREAM_ROUTE, ret, ENOENT, EDQUOT, ENOMEM, 0);
	if (!ret) {
		for (i = 1 + pick(t, 4); i; i--) {
			b = alloc_block(t, default_pool, pool.tag, stream);
			submit(t, stream);
			if (b && pick(t, 2))
				free_block(t, b);
		}
		if (pick(t, 2)) {
			ret = devpool_route_stream_raw(p->fd, DEVPOOL_IOC_ROUTE_END, pool.id,
						       stream.number);
			if (ret)
				wrong("route_end of a stream answers %s", strerror(-ret));
		}
	}
	destroy_stream(t, stream);
}

/* Blocks that live for two calls. Nobody else can free them. */
static void do_batch(struct thread *t)
{
	struct devpool_batch_op ops[BATCH], frees[BATCH];
	int i, nr = 0, ret;

	for (i = 0; i < BATCH; i++)
		ops[i] = (struct devpool_batch_op){
			.command = DEVPOOL_CMD_ALLOC,
			.bytes = some_size(t),
			.pool = some_pool(t).id,
			.flags = pick(t, 8) ? 0 : DEVPOOL_ALLOC_ZERO,
		};
	ret = devpool_batch_raw(t->process->fd, ops, BATCH);
	allow(OP_BATCH, ret < 0 ? ret : 0, 0);
	for (i = 0; i < ret; i++) {
		allow(OP_BATCH, ops[i].out_err, ENOENT, ENOSPC, EDQUOT, ENOMEM, EAGAIN, 0);
		if (ops[i].out_err)
			continue;
		check_guards(ops[i].out_addr, ops[i].out_bytes, 0);
		frees[nr++] = (struct devpool_batch_op){
			.command = DEVPOOL_CMD_FREE,
			.addr = ops[i].out_addr,
		};
	}
	if (!nr)
		return;
	ret = devpool_batch_raw(t->process->fd, frees, nr);
	if (ret != nr)
		wrong("batch runs %d of %d", ret, nr);
	for (i = 0; i < nr; i++)
		allow(OP_BATCH, frees[i].out_err, 0);
}

static void do_pool_create(struct thread *t)
{
	static const __u32 flags[] = {
		0, 0, 0, DEVPOOL_POOL_STABLE, DEVPOOL_POOL_NO_SPLIT, DEVPOOL_POOL_THRESHOLD,
		DEVPOOL_POOL_STABLE | DEVPOOL_POOL_NO_SPLIT,
	};
	struct process *p = t->process;
	struct devpool_pool_create cmd = {
		.flags = flags[pick(t, sizeof(flags) / sizeof(*flags))],
		.limit = pick(t, 4) ? 0 : pick(t, 16 * MIB),
	};
	struct devpool_pool_id id;
	int ret;

	if (cmd.flags & DEVPOOL_POOL_THRESHOLD)
		cmd.release_threshold = pick(t, 8 * MIB);
	if (pick(t, 3)) {
		ret = devpool_pool_create_opts_raw(p->fd, &cmd);
		allow(OP_POOL_CREATE, ret, EDQUOT, ENOMEM, EMFILE, 0);
		if (!ret)
			add_pool(p, cmd.out_pool, cmd.out_fd);
		return;
	}
	ret = devpool_pool_id_raw(p->fd, pick(t, 2), &id);
	allow(OP_POOL_CREATE, ret, 0);
	if (!ret) {
		ret = devpool_pool_get_raw(p->fd, id);
		allow(OP_POOL_GET, ret < 0 ? ret : 0, EDQUOT, ENOMEM, 0);
		if (ret >= 0)
			add_pool(p, id, -1);
	}
}

static void do_pool_close(struct thread *t)
{
	struct pool pool = take_pool(t);
	struct devpool_empty_cache empty;

	if (!pool.known)
		return;
	if (pool.fd >= 0 && !pick(t, 2))
		allow(OP_POOL_CLOSE,
		      devpool_empty_until_raw(pool.fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0,
					      some_timeout(t), &empty), ENOENT, 0);
	if (pool.fd >= 0)
		close(pool.fd);
	else
		devpool_pool_put_raw(t->process->fd, pool.id);
}

static void do_pool_get(struct thread *t, bool put)
{
	struct pool pool = some_pool(t);
	int ret;

	if (!(pool.id.first | pool.id.second))
		return;
	if (put) {
		ret = devpool_pool_put_raw(t->process->fd, pool.id);
		allow(OP_POOL_PUT, ret < 0 ? ret : 0, ENOENT, 0);
	} else {
		ret = devpool_pool_get_raw(t->process->fd, pool.id);
		allow(OP_POOL_GET, ret < 0 ? ret : 0, ENOENT, EDQUOT, ENOMEM, 0);
	}
}

static void do_receive(struct thread *t)
{
	struct process *p = t->process;
	struct pollfd ready = { .fd = passing[1], .events = POLLIN };
	struct devpool_pool_id id;
	int fd, ret;

	if (poll(&ready, 1, 0) != 1)
		return;
	fd = test_receive_fd(passing[1]);
	if (fd < 0)
		return;
	ret = devpool_pool_attach_raw(p->fd, fd, &id);
	allow(OP_RECEIVE, ret < 0 ? ret : 0, ENOENT, ENOMEM, EDQUOT, 0);
	if (ret >= 0 && !pick(t, 2)) {
		add_pool(p, id, fd);
		return;
	}
	close(fd);
	if (ret >= 0)
		add_pool(p, id, -1);
}

static void do_retain(struct thread *t)
{
	struct process *p = t->process;
	struct offer *offer = &shared->offer[pick(t, OFFERS)];
	struct block *b = some_block(t, false);
	struct offer copy = *offer;
	int ret;

	if (!b || copy.serial <= 1 || copy.process >= MAX_PROCESSES)
		return;
	ret = devpool_retain_raw(p->fd, copy.addr);
	allow(OP_RETAIN, ret, ENOENT, EBUSY, EDQUOT, ENOMEM, 0);
	if (ret)
		return;
	*b = (struct block){ .addr = copy.addr, .bytes = copy.bytes };
	/* Whose block it is now is known only if it is still offered. */
	if (is_offered(offer, &copy)) {
		b->tag = copy.tag;
		b->serial = copy.serial;
		b->p = devpool_map_raw(p->fd, b->addr, b->bytes);
		if (!b->p && errno != ENOMEM)
			wrong("mmap of a retained block: %s", strerror(errno));
		check_block(b);
	}
}

static void do_empty(struct thread *t)
{
	struct pool pool = some_pool(t);
	__u64 keep = pick(t, 2) ? 0 : pick(t, 8 * MIB);
	__u32 flags = pick(t, 4);
	struct devpool_empty_cache empty;

	if (pool.fd >= 0 && pick(t, 2))
		allow(OP_EMPTY,
		      devpool_empty_until_raw(pool.fd, default_pool, flags, keep,
					      some_timeout(t), &empty),
		      ENOENT, EBADF, ENOTTY, EINVAL, 0);
	else
		allow(OP_EMPTY,
		      devpool_empty_until_raw(t->process->fd, pool.id, flags, keep,
					      some_timeout(t), &empty),
		      ENOENT, 0);
}

static void do_attr(struct thread *t)
{
	struct pool pool = some_pool(t);
	__u64 value = pick(t, 3) ? pick(t, 32 * MIB) : 0;
	__u32 attr = pick(t, 2);
	__u64 out;

	if (attr == DEVPOOL_ATTR_RELEASE_THRESHOLD && !value)
		value = ~0ULL;
	allow(OP_ATTR, devpool_pool_attr_raw(t->process->fd, pool.id, DEVPOOL_POOL_ATTR_SET, attr,
					     value, &out),
	      ENOENT, EINVAL, 0);
	allow(OP_ATTR, devpool_pool_attr_raw(t->process->fd, pool.id, 0, attr, 0, &out), ENOENT, 0);
}

static void do_view(struct thread *t)
{
	struct pool pool = some_pool(t);
	struct devpool_pool_stat stat;
	struct devpool_stats stats;
	int ret;

	ret = devpool_pool_stat_raw(t->process->fd, pool.id, &stat);
	allow(OP_VIEW, ret, ENOENT, 0);
	if (!ret && (stat.out_resident.current < stat.out_active.current ||
		     stat.out_active.current < stat.out_allocated.current ||
		     stat.out_allocated.current < stat.out_requested.current))
		wrong("stat: resident %llu, active %llu, allocated %llu, requested %llu",
		      (__u64)stat.out_resident.current, (__u64)stat.out_active.current,
		      (__u64)stat.out_allocated.current, (__u64)stat.out_requested.current);
	if (!pick(t, 4))
		allow(OP_VIEW, devpool_stats_flags_raw(t->process->fd,
						       pick(t, 8) ? 0 : DEVPOOL_STATS_DEVICE,
						       &stats), 0);
}

static void do_snapshot(struct thread *t)
{
	struct devpool_snapshot_entry entry[64];
	struct devpool_snapshot cmd = {};
	struct pool pool = some_pool(t);
	unsigned int i, calls;
	__u64 before = 0;
	int ret;

	for (calls = 1 + pick(t, 16); calls; calls--) {
		ret = devpool_snapshot_raw(t->process->fd, pool.id, 0, cmd.out_cursor, entry,
					   1 + pick(t, 64), &cmd);
		allow(OP_SNAPSHOT, ret, ENOENT, ENOMEM, 0);
		if (ret)
			return;
		for (i = 0; i < cmd.out_count; i++) {
			if (entry[i].addr < before || !entry[i].bytes)
				wrong("snapshot: %llu bytes at 0x%llx after 0x%llx",
				      (__u64)entry[i].bytes, (__u64)entry[i].addr, before);
			before = entry[i].addr + entry[i].bytes;
		}
		if (!cmd.out_cursor)
			return;
	}
}

static void do_bad(struct thread *t)
{
	struct process *p = t->process;
	struct devpool_pool_id id = { test_random(&t->random), test_random(&t->random) };
	struct block *b = some_block(t, true);
	int ret;

	switch (pick(t, 4)) {
	case 0:
		ret = devpool_free_raw(p->fd, test_random(&t->random) | 1);
		if (ret != -ENOENT)
			wrong("free of nothing answers %d", ret);
		break;
	case 1:
		ret = devpool_pool_put_raw(p->fd, id);
		if (ret != -ENOENT)
			wrong("pool_put of no pool answers %d", ret);
		break;
	case 2:
		if (!b || b->bytes <= PLACE)
			return;
		ret = devpool_free_raw(p->fd, b->addr + PLACE);
		if (ret != -ENOENT)
			wrong("free inside a live block answers %d", ret);
		break;
	default:
		if (!b)
			return;
		ret = devpool_retain_raw(p->fd, b->addr);
		if (ret != -EBUSY)
			wrong("retain of an own block answers %d", ret);
	}
}

/* A mapping of all around a block, of which some may not be there */
static void do_window(struct thread *t)
{
	struct block *b = some_block(t, true);
	__u64 start;
	unsigned int i;
	char *p;

	if (!b)
		return;
	start = b->addr & ~(DEVPOOL_WINDOW - 1);
	p = devpool_map_raw(t->process->fd, start, DEVPOOL_WINDOW);
	if (!p)
		return;
	for (i = 0; i < 8; i++)
		test_touch(p + pick(t, DEVPOOL_WINDOW / TEST_PAGE) * TEST_PAGE);
	check_block(b);
	test_unmap(p, DEVPOOL_WINDOW);
}

/* A child with the same client: what it takes is the client's, whatever ends it. */
static void do_fork(struct thread *t)
{
	int fd = t->process->fd;
	bool killed = pick(t, 2);
	__u64 addr[4];
	unsigned int i;
	pid_t pid;

	pid = test_fork();
	if (pid < 0)
		return;
	if (!pid) {
		for (i = 0; i < 4; i++)
			if (devpool_alloc_raw(fd, default_pool, 512 << i, &addr[i]))
				addr[i] = 0;
			else
				check_guards(addr[i], 512 << i, 0);
		for (i = 0; i < 4; i++)
			if (addr[i] && devpool_free_raw(fd, addr[i]))
				wrong("free in a forked child fails");
		if (killed)
			pause();
		_exit(0);
	}
	if (killed) {
		usleep(pick(t, 20000));
		test_kill(pid);
	} else if (test_wait(pid)) {
		wrong("a forked child fails");
	}
}

static void step(struct thread *t)
{
	static unsigned int sum;
	struct pool pool;
	struct block *b;
	unsigned int n;
	enum op op;

	if (!sum)
		for (op = 0, n = 0; op < OPS; n += ops[op++].weight)
			__atomic_store_n(&sum, n + ops[op].weight, __ATOMIC_RELAXED);
	n = pick(t, sum);
	for (op = 0; n >= ops[op].weight; op++)
		n -= ops[op].weight;
	__atomic_add_fetch(&shared->done[op], 1, __ATOMIC_RELAXED);

	switch (op) {
	case OP_ALLOC:
		pool = some_pool(t);
		alloc_block(t, pool.id, pool.tag,
			    pick(t, 3) ? (struct stream){} : some_stream(t));
		break;
	case OP_FREE:
		b = some_block(t, true);
		if (b)
			free_block(t, b);
		break;
	case OP_CHECK:
		b = some_block(t, true);
		if (b)
			check_block(b);
		break;
	case OP_POOL_CREATE:
		do_pool_create(t);
		break;
	case OP_POOL_CLOSE:
		do_pool_close(t);
		break;
	case OP_POOL_GET:
		do_pool_get(t, false);
		break;
	case OP_POOL_PUT:
		do_pool_get(t, true);
		break;
	case OP_PASS:
		pool = some_pool(t);
		if (pool.fd >= 0)
			test_send_fd(passing[0], pool.fd);
		break;
	case OP_RECEIVE:
		do_receive(t);
		break;
	case OP_RETAIN:
		do_retain(t);
		break;
	case OP_ROUTE:
		do_route(t);
		break;
	case OP_EMPTY:
		do_empty(t);
		break;
	case OP_ATTR:
		do_attr(t);
		break;
	case OP_LIMIT:
		allow(OP_LIMIT, devpool_limit_raw(t->process->fd, pick(t, 2) ? 0 : 32 * MIB), 0);
		break;
	case OP_VIEW:
		do_view(t);
		break;
	case OP_SNAPSHOT:
		do_snapshot(t);
		break;
	case OP_BAD:
		do_bad(t);
		break;
	case OP_WINDOW:
		do_window(t);
		break;
	case OP_FORK:
		do_fork(t);
		break;
	case OP_STREAM_CREATE:
		create_stream(t, fences.file >= 0 && pick(t, 2), false);
		break;
	case OP_STREAM_DESTROY:
		destroy_stream(t, some_stream(t));
		break;
	case OP_SUBMIT:
		submit(t, some_stream(t));
		break;
	case OP_SIGNAL:
		do_signal(t);
		break;
	case OP_RECORD:
		do_record(t);
		break;
	case OP_BATCH:
		do_batch(t);
		break;
	case OP_STREAM_ROUTE:
		do_stream_route(t);
		break;
	case OP_EXPORT:
		do_export(t);
		break;
	case OP_HEAP:
		do_heap(t);
		break;
	default:
		break;
	}
}

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	unsigned int i;

	while (!__atomic_load_n(&shared->stop, __ATOMIC_RELAXED) &&
	       !__atomic_load_n(&shared->wrong, __ATOMIC_RELAXED))
		step(t);
	for (i = 0; i < BLOCKS; i++)
		if (t->block[i].bytes)
			free_block(t, &t->block[i]);
	for (i = 0; i < BUFS; i++)
		if (t->buf[i].block.p)
			close_buf(&t->buf[i]);
	return NULL;
}

static void process_main(unsigned int nr, unsigned int life, __u64 seed)
{
	static struct process process;
	static struct thread thread[MAX_THREADS];
	pthread_t id[MAX_THREADS];
	unsigned int i;

	process.nr = nr;
	process.life = life;
	process.tag = mix(seed ^ (__u64)nr << 40 ^ (__u64)life << 16);
	process.serial = (__u64)(nr + 1) << 48 | (__u64)(life & 0xff) << 40;
	pthread_mutex_init(&process.lock, NULL);
	test_catch();
	/* That of a socket whose other end is gone */
	signal(SIGPIPE, SIG_IGN);
	process.fd = devpool_open_node(device);
	process.heap = test_open_heap(device);
	if (process.fd < 0 || process.heap < 0 || devpool_info_raw(process.fd, &process.info))
		_exit(2);
	for (i = 0; i < threads; i++) {
		thread[i].process = &process;
		thread[i].random = mix(seed + nr * 0x10001ULL + life * 0x100000001ULL + i);
		if (pthread_create(&id[i], NULL, thread_main, &thread[i]))
			_exit(3);
	}
	for (i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	/* Pools, references, routes and streams are left to the exit. */
	for (i = 0; i < STREAMS; i++)
		store(&shared->work[nr][i].serial, 0);
	_exit(0);
}

static pid_t start(unsigned int nr, unsigned int life, __u64 seed)
{
	pid_t pid;

	__atomic_store_n(&shared->doomed[nr], 0, __ATOMIC_SEQ_CST);
	pid = test_fork();
	if (!pid)
		process_main(nr, life, seed);
	return pid;
}

/* What a process has offered is not trusted from its mark on, and may be dropped. */
static void kill_process(unsigned int nr, pid_t pid)
{
	unsigned int i;

	__atomic_store_n(&shared->doomed[nr], 1, __ATOMIC_SEQ_CST);
	test_kill(pid);
	for (i = 0; i < OFFERS; i++)
		if (shared->offer[i].serial && shared->offer[i].process == nr)
			__atomic_store_n(&shared->offer[i].serial, 0, __ATOMIC_SEQ_CST);
	/* Its user streams are done, and its fences go on. */
	for (i = 0; i < STREAMS; i++)
		store(&shared->work[nr][i].serial, 0);
	__atomic_add_fetch(&shared->done[OP_KILL], 1, __ATOMIC_RELAXED);
}

static bool is_base(const struct test_base *base)
{
	struct test_base now;
	unsigned int i;

	/* Descriptors on their way are closed by a worker of the kernel's. */
	for (i = 0; i < 1000 * test_slow(); i++) {
		/* The heap keeps a chunk. */
		test_trim(device);
		now = test_base(device);
		if (!memcmp(&now, base, sizeof(now)))
			return true;
		usleep(10000);
	}
	ksft_print_msg("used %lld, clients %lld, pools %lld; before: %lld, %lld, %lld\n", now.used,
		       now.clients, now.pools, base->used, base->clients, base->pools);
	return false;
}

static bool nothing_is_left(void)
{
	struct devpool_snapshot_entry entry[16];
	struct devpool_snapshot cmd;
	struct devpool_stats stats;
	int fd = devpool_open_node(device);
	bool nothing;

	nothing = fd >= 0 &&
		  !devpool_snapshot_raw(fd, default_pool, DEVPOOL_SNAPSHOT_DEVICE, 0, entry, 16,
					&cmd) &&
		  !cmd.out_count && !cmd.out_cursor &&
		  !devpool_stats_flags_raw(fd, DEVPOOL_STATS_DEVICE, &stats) &&
		  !stats.out_allocated.current && !stats.out_requested.current &&
		  !stats.out_blocks.current && !stats.out_resident.current &&
		  !stats.out_spare.current && stats.out_allocated.in == stats.out_allocated.out;
	close(fd);
	return nothing;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 't' },
		{ "processes", required_argument, NULL, 'p' },
		{ "threads", required_argument, NULL, 'n' },
		{},
	};
	unsigned int life[MAX_PROCESSES] = {}, i;
	unsigned int seconds = test_env("DEVPOOL_TORTURE_SECONDS", TORTURE_SECONDS);
	unsigned int seed = test_env("DEVPOOL_SEED", test_now() & 0x7fffffff);
	pid_t pid[MAX_PROCESSES];
	bool ended_well = true;
	struct test_base base;
	struct thread dice = {};
	__u64 end;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (opt) {
		case 's':
			seed = strtoul(optarg, NULL, 0);
			break;
		case 't':
			seconds = strtoul(optarg, NULL, 0);
			break;
		case 'p':
			processes = strtoul(optarg, NULL, 0);
			break;
		case 'n':
			threads = strtoul(optarg, NULL, 0);
			break;
		default:
			return KSFT_FAIL;
		}
	}
	ksft_print_header();
	ksft_set_plan(4);
	ksft_print_msg("DEVPOOL_SEED=%u\n", seed);
	if (!processes || processes > MAX_PROCESSES || !threads || threads > MAX_THREADS)
		ksft_exit_fail_msg("at most %d processes of %d threads\n", MAX_PROCESSES,
				   MAX_THREADS);
	device = test_find(TEST_SYSMEM);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (device < 0 || shared == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, passing))
		ksft_exit_fail_msg("nothing to torture\n");

	fences.file = test_open_vgem();
	if (fences.file < 0)
		ksft_print_msg("no vgem: streams are not fenced\n");
	base = test_base(device);
	dice.random = mix(seed);
	for (i = 0; i < processes; i++)
		pid[i] = start(i, 0, seed);
	end = test_now() + seconds * 1000000000ULL;
	while (test_now() < end && !__atomic_load_n(&shared->wrong, __ATOMIC_RELAXED)) {
		usleep(20000 + pick(&dice, 200000));
		i = pick(&dice, processes);
		kill_process(i, pid[i]);
		pid[i] = start(i, ++life[i], seed);
	}
	__atomic_store_n(&shared->stop, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < processes; i++)
		ended_well &= !test_wait(pid[i]);
	close(passing[0]);
	close(passing[1]);
	/* Ends all the fences that are still open */
	close(fences.file);

	for (i = 0; i < OPS; i++)
		ksft_print_msg("%s: %lu\n", ops[i].name, shared->done[i]);
	ksft_print_msg("freed while streams used it: %lu\n", shared->guarded);
	if (shared->wrong)
		ksft_print_msg("%s (and %u more)\n", shared->message, shared->wrong - 1);
	ksft_test_result(!shared->wrong, "contents and answers are right\n");
	ksft_test_result(ended_well, "every process ends by itself\n");
	ksft_test_result(is_base(&base), "the device's counters are as before\n");
	ksft_test_result(nothing_is_left(), "no block and no byte is left\n");
	ksft_finished();
}
