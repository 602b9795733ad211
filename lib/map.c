// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What is mapped where.
 *
 * The kernel deals addresses in ranges, which do not change while they exist.
 * The first block of a range has the whole range mapped, as one span: that
 * costs nothing, since memory comes by fault, and blocks of any size then lie
 * in one piece. How far the range goes is found by trying. Where the address
 * space of the process is too short for that, a span is shorter, and spans may
 * overlap.
 *
 * A table finds the span of an address. It is a hash over pieces: a span is cut
 * into as few pieces as go, each a power of two long and aligned to its length,
 * so a span of any length has few entries, and a lookup probes once for each
 * length in use.
 *
 * Spans of a pool go when the pool is gone. There is nothing live in it then,
 * so nobody has a right to be looking them up; and the kernel does not deal the
 * range again before it is unmapped, so no new block can meet an old entry.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "private.h"

/* Pieces are 2^level windows long. */
#define WINDOW_SHIFT	26
#define MAX_LEVEL	(64 - WINDOW_SHIFT)
_Static_assert(DEVPOOL_WINDOW == 1ULL << WINDOW_SHIFT, "a piece is made of windows");

/* Enough for the pieces of one span: two of each length. */
#define SPAN_PIECES	(2 * MAX_LEVEL)
#define MIN_TABLE_SHIFT	8

/*
 * Once a client's spans fill that much of the process's address space, new ones
 * are no longer than they must be: the rest is for others.
 */
#define MAPPED_MAX	(1ULL << (sizeof(void *) == 8 ? 45 : 30))

/* Closed pools to look at each time there is work on spans anyway. */
#define REAP_BATCH	2

/**
 * struct devpool_span - a mapping
 * @addr: first device address, a multiple of DEVPOOL_WINDOW
 * @end: behind the last
 * @ptr: where it is mapped, a multiple of DEVPOOL_WINDOW
 * @next: the next of the same owner
 *
 * Readers look at @addr, @end and @ptr without a lock.
 */
struct devpool_span {
	uint64_t addr;
	uint64_t end;
	uintptr_t ptr;
	struct devpool_span *next;
};

/**
 * struct devpool_owner - the spans of a pool
 * @id: its id
 * @spans: its spans
 * @closed: in &devpool.closed
 * @next: the next there
 */
struct devpool_owner {
	struct devpool_pool_id id;
	struct devpool_span *spans;
	bool closed;
	struct devpool_owner *next;
};

/**
 * struct devpool_table - a hash table
 * @levels: a bit for each level that has entries
 * @count: entries by level
 * @used: entries
 * @shift: 64 - log2 of the number of slots
 * @mask: the number of slots - 1
 * @older: a smaller table that this one replaced; readers may be in it still
 * @slot: a key of 0 is an empty slot
 */
struct devpool_table {
	uint64_t levels;
	uint32_t count[MAX_LEVEL];
	uint32_t used;
	uint32_t shift;
	size_t mask;
	struct devpool_table *older;
	struct {
		uint64_t key;
		void *value;
	} slot[];
};

static inline uint64_t piece_key(uint64_t where, unsigned int level)
{
	return (where >> WINDOW_SHIFT >> level << 6 | level) + 1;
}

/* Keys that follow each other are the rule: the upper bits of the product are
 * well mixed.
 */
static inline size_t table_start(uint32_t shift, uint64_t key)
{
	return key * 0x9e3779b97f4a7c15ULL >> shift;
}

static inline void *table_get(const struct devpool_table *table, uint64_t key)
{
	size_t i = table_start(table->shift, key);
	uint64_t k;

	while ((k = READ_ONCE(table->slot[i].key)) != key) {
		if (!k)
			return NULL;
		i = (i + 1) & table->mask;
	}
	return READ_ONCE(table->slot[i].value);
}

static void table_set(struct devpool_table *table, uint64_t key, void *value)
{
	size_t i = table_start(table->shift, key);

	while (table->slot[i].key && table->slot[i].key != key)
		i = (i + 1) & table->mask;
	if (!table->slot[i].key)
		table->used++;
	WRITE_ONCE(table->slot[i].value, value);
	WRITE_ONCE(table->slot[i].key, key);
}

/* Closes the gap, so that no probe ends too early and no slot is lost. */
static void table_del(struct devpool_table *table, uint64_t key)
{
	size_t mask = table->mask;
	size_t i = table_start(table->shift, key);
	size_t gap, home;

	while (table->slot[i].key != key)
		i = (i + 1) & mask;
	gap = i;
	for (;;) {
		i = (i + 1) & mask;
		if (!table->slot[i].key)
			break;
		home = table_start(table->shift, table->slot[i].key);
		/* May move back unless its home lies behind the gap. */
		if (((i - home) & mask) >= ((i - gap) & mask)) {
			WRITE_ONCE(table->slot[gap].key, table->slot[i].key);
			WRITE_ONCE(table->slot[gap].value, table->slot[i].value);
			gap = i;
		}
	}
	WRITE_ONCE(table->slot[gap].key, 0);
	WRITE_ONCE(table->slot[gap].value, NULL);
	table->used--;
}

/* Makes room for @more entries: at most half of the slots are ever used. */
static int table_reserve(struct devpool_table **tablep, size_t more)
{
	struct devpool_table *old = *tablep, *new;
	unsigned int bits = MIN_TABLE_SHIFT;
	size_t need = (more + (old ? old->used : 0)) * 2, i;

	if (old && need <= old->mask + 1)
		return 0;
	while ((size_t)1 << bits < need)
		bits++;
	new = calloc(1, sizeof(*new) + sizeof(new->slot[0]) * ((size_t)1 << bits));
	if (!new)
		return -ENOMEM;
	new->shift = 64 - bits;
	new->mask = ((size_t)1 << bits) - 1;
	if (old) {
		new->levels = old->levels;
		memcpy(new->count, old->count, sizeof(new->count));
		for (i = 0; i <= old->mask; i++)
			if (old->slot[i].key)
				table_set(new, old->slot[i].key, old->slot[i].value);
	}
	new->older = old;
	store_release(*tablep, new);
	return 0;
}

static void table_free(struct devpool_table *table)
{
	struct devpool_table *older;

	for (; table; table = older) {
		older = table->older;
		free(table);
	}
}

/* The longest piece that starts at @from and does not go beyond @to */
static unsigned int piece_level(uint64_t from, uint64_t to)
{
	unsigned int level = 63 - __builtin_clzll((to - from) >> WINDOW_SHIFT);
	uint64_t index = from >> WINDOW_SHIFT;

	if (index && (unsigned int)__builtin_ctzll(index) < level)
		level = __builtin_ctzll(index);
	return level;
}

static void table_add_span(struct devpool_table *table, uint64_t from, uint64_t to,
			   struct devpool_span *span)
{
	unsigned int level;
	uint64_t key;

	for (; from < to; from += DEVPOOL_WINDOW << level) {
		level = piece_level(from, to);
		key = piece_key(from, level);
		if (!table_get(table, key) && !table->count[level]++)
			WRITE_ONCE(table->levels, table->levels | 1ULL << level);
		/* Of two spans that overlap the newer one is the longer one. */
		table_set(table, key, span);
	}
}

static void table_del_span(struct devpool_table *table, uint64_t from, uint64_t to,
			   struct devpool_span *span)
{
	unsigned int level;
	uint64_t key;

	for (; from < to; from += DEVPOOL_WINDOW << level) {
		level = piece_level(from, to);
		key = piece_key(from, level);
		if (table_get(table, key) != span)
			continue;
		table_del(table, key);
		if (!--table->count[level])
			WRITE_ONCE(table->levels, table->levels & ~(1ULL << level));
	}
}

static inline bool find_by_addr(struct devpool *dev, uint64_t addr, uint64_t bytes, void **ptr)
{
	const struct devpool_table *table = load_acquire(dev->by_addr);
	const struct devpool_span *span;
	uint64_t levels, start, end;

	if (!table)
		return false;
	for (levels = READ_ONCE(table->levels); levels; levels &= levels - 1) {
		span = table_get(table, piece_key(addr, __builtin_ctzll(levels)));
		if (!span)
			continue;
		start = READ_ONCE(span->addr);
		end = READ_ONCE(span->end);
		if (addr >= start && addr < end && bytes <= end - addr) {
			*ptr = (void *)(READ_ONCE(span->ptr) + (uintptr_t)(addr - start));
			return true;
		}
	}
	return false;
}

static inline bool find_by_ptr(struct devpool *dev, uintptr_t ptr, uint64_t *addr)
{
	const struct devpool_table *table = load_acquire(dev->by_ptr);
	const struct devpool_span *span;
	uint64_t levels, start, end;
	uintptr_t base;

	if (!table)
		return false;
	for (levels = READ_ONCE(table->levels); levels; levels &= levels - 1) {
		span = table_get(table, piece_key(ptr, __builtin_ctzll(levels)));
		if (!span)
			continue;
		start = READ_ONCE(span->addr);
		end = READ_ONCE(span->end);
		base = READ_ONCE(span->ptr);
		if (ptr >= base && ptr - base < end - start) {
			*addr = start + (ptr - base);
			return true;
		}
	}
	return false;
}

static bool seq_begin(struct devpool *dev, uint32_t *seq)
{
	*seq = load_acquire(dev->seq);
	return !(*seq & 1);
}

static bool seq_good(struct devpool *dev, uint32_t seq)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return READ_ONCE(dev->seq) == seq;
}

static void change_begin(struct devpool *dev)
{
	WRITE_ONCE(dev->seq, dev->seq + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

static void change_end(struct devpool *dev)
{
	store_release(dev->seq, dev->seq + 1);
}

static void lock(struct devpool *dev)
{
	pthread_mutex_lock(&dev->once->lock);
	WRITE_ONCE(dev->busy, true);
}

static void unlock(struct devpool *dev)
{
	WRITE_ONCE(dev->busy, false);
	pthread_mutex_unlock(&dev->once->lock);
}

static void free_spans(struct devpool_span *span, bool mapped)
{
	struct devpool_span *next;

	for (; span; span = next) {
		next = span->next;
		if (mapped)
			munmap((void *)span->ptr, span->end - span->addr);
		free(span);
	}
}

/* Lets go of everything; of the mappings only if they are this process's. */
static void forget(struct devpool *dev, bool mapped)
{
	struct devpool_owner *owner;
	size_t i;

	if (dev->owners) {
		for (i = 0; i <= dev->owners->mask; i++) {
			owner = dev->owners->slot[i].value;
			if (!owner)
				continue;
			free_spans(owner->spans, mapped);
			free(owner);
		}
	}
	free_spans(dev->unowned, mapped);
	free_spans(dev->unused, false);
	table_free(dev->by_addr);
	table_free(dev->by_ptr);
	table_free(dev->owners);
}

static void reset(struct devpool *dev)
{
	dev->by_addr = NULL;
	dev->by_ptr = NULL;
	dev->owners = NULL;
	dev->unowned = NULL;
	dev->unused = NULL;
	dev->closed = NULL;
	dev->closed_tail = &dev->closed;
	dev->hint = 0;
	dev->mapped = 0;
	dev->seq = 0;
}

/*
 * In a forked child, which has none of the mappings: something else may stand
 * where they were. What a thread of the parent was changing at that moment is
 * left alone, and lost.
 */
static void __attribute__((noinline, cold)) forked(struct devpool *dev)
{
	pthread_mutex_lock(&dev->once->lock);
	if (!READ_ONCE(dev->once->alive)) {
		if (!dev->busy)
			forget(dev, false);
		dev->busy = false;
		reset(dev);
		store_release(dev->once->alive, 1);
	}
	pthread_mutex_unlock(&dev->once->lock);
}

static inline void notice_fork(struct devpool *dev)
{
	if (unlikely(!load_acquire(dev->once->alive)))
		forked(dev);
}

static bool fits(uint64_t bytes)
{
	return bytes <= PTRDIFF_MAX;
}

/* Whether the device lets [from, to) be mapped, and there is room for it */
static bool try_map(struct devpool *dev, uint64_t from, uint64_t to)
{
	void *p;

	if (!fits(to - from))
		return false;
	p = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED, dev->fd, from);
	if (p == MAP_FAILED)
		return false;
	munmap(p, to - from);
	return true;
}

/*
 * How much farther than [from, to) a mapping can go, upwards or downwards: in
 * steps that double while they succeed, then halve.
 */
static uint64_t reach(struct devpool *dev, uint64_t from, uint64_t to, bool up)
{
	uint64_t limit = up ? INT64_MAX - to : from;
	uint64_t step = dev->unit, got = 0;

#define CAN_GO(more) ((more) <= limit && \
	try_map(dev, from - (up ? 0 : (more)), to + (up ? (more) : 0)))
	while (step <= limit && CAN_GO(got + step)) {
		got += step;
		step *= 2;
	}
	for (step /= 2; step >= dev->unit; step /= 2)
		if (CAN_GO(got + step))
			got += step;
#undef CAN_GO
	return got;
}

/*
 * Maps [from, to) on a multiple of DEVPOOL_WINDOW, as the tables and huge
 * entries want it.
 */
static void *map_aligned(struct devpool *dev, uint64_t from, uint64_t to)
{
	size_t len = to - from, room;
	uintptr_t start, at;
	void *p;

	if (!fits(to - from) || !fits(to - from + DEVPOOL_WINDOW))
		return MAP_FAILED;
	if (dev->hint > len) {
		at = (dev->hint - len) & ~(uintptr_t)(DEVPOOL_WINDOW - 1);
		p = mmap((void *)at, len, PROT_READ | PROT_WRITE, MAP_SHARED, dev->fd, from);
		if (p == MAP_FAILED || !((uintptr_t)p & (DEVPOOL_WINDOW - 1)))
			return p;
		munmap(p, len);
	}

	room = len + DEVPOOL_WINDOW;
	p = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return p;
	start = (uintptr_t)p;
	at = (start + DEVPOOL_WINDOW - 1) & ~(uintptr_t)(DEVPOOL_WINDOW - 1);
	p = mmap((void *)at, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, dev->fd, from);
	if (p == MAP_FAILED) {
		munmap((void *)start, room);
		return p;
	}
	if (at > start)
		munmap((void *)start, at - start);
	munmap((void *)(at + len), start + room - (at + len));
	return p;
}

static struct devpool_span *map_span(struct devpool *dev, uint64_t addr, uint64_t bytes)
{
	uint64_t lo = addr - addr % dev->unit;
	uint64_t hi = addr + (bytes ? bytes : 1), up = 0, down = 0;
	struct devpool_span *span;
	void *p;

	hi += (dev->unit - hi % dev->unit) % dev->unit;
	span = dev->unused;
	if (span) {
		dev->unused = span->next;
	} else {
		span = calloc(1, sizeof(*span));
		if (!span) {
			errno = ENOMEM;
			return NULL;
		}
	}

	if (dev->mapped < MAPPED_MAX || !bytes)
		up = reach(dev, lo, hi, true);
	if (dev->mapped < MAPPED_MAX)
		down = reach(dev, lo, hi + up, false);
	p = map_aligned(dev, lo - down, hi + up);
	if (p == MAP_FAILED && (up || down)) {
		up = 0;
		down = 0;
		p = map_aligned(dev, lo, hi);
	}
	if (p == MAP_FAILED) {
		span->next = dev->unused;
		dev->unused = span;
		return NULL;
	}
	WRITE_ONCE(span->addr, lo - down);
	WRITE_ONCE(span->end, hi + up);
	WRITE_ONCE(span->ptr, (uintptr_t)p);
	dev->hint = (uintptr_t)p;
	dev->mapped += span->end - span->addr;
	return span;
}

static void unmap_spans(struct devpool *dev, struct devpool_span *spans)
{
	struct devpool_span *span, *next;

	change_begin(dev);
	for (span = spans; span; span = span->next) {
		table_del_span(dev->by_addr, span->addr, span->end, span);
		table_del_span(dev->by_ptr, span->ptr, span->ptr + (span->end - span->addr),
			       span);
	}
	change_end(dev);
	for (span = spans; span; span = next) {
		next = span->next;
		munmap((void *)span->ptr, span->end - span->addr);
		dev->mapped -= span->end - span->addr;
		span->next = dev->unused;
		dev->unused = span;
	}
}

/* One of the two halves of an id is 0. */
static uint64_t owner_key(const struct devpool_pool_id *id)
{
	return id->first | id->second;
}

static struct devpool_owner *find_owner(struct devpool *dev, const struct devpool_pool_id *id)
{
	struct devpool_owner *owner;

	if (!dev->owners || !owner_key(id))
		return NULL;
	owner = table_get(dev->owners, owner_key(id));
	if (owner && (owner->id.first != id->first || owner->id.second != id->second))
		return NULL;
	return owner;
}

/* Where the spans of a pool are kept: with none of their own until the close. */
static struct devpool_span **owned_by(struct devpool *dev, const struct devpool_pool_id *id)
{
	struct devpool_owner *owner = find_owner(dev, id);

	if (owner)
		return &owner->spans;
	if (!owner_key(id) || table_reserve(&dev->owners, 1) ||
	    table_get(dev->owners, owner_key(id)))
		return &dev->unowned;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return &dev->unowned;
	owner->id = *id;
	table_set(dev->owners, owner_key(id), owner);
	return &owner->spans;
}

static void remove_owner(struct devpool *dev, struct devpool_owner *owner)
{
	unmap_spans(dev, owner->spans);
	table_del(dev->owners, owner_key(&owner->id));
	free(owner);
}

static bool pool_is_gone(struct devpool *dev, const struct devpool_pool_id *id)
{
	struct devpool_pool_stat cmd = { .pool = *id };
	int ret = devpool_call(dev->fd, POOL_STAT, &cmd);

	return ret == -ENOENT || (!ret && cmd.out_state == DEVPOOL_STATE_GONE);
}

/*
 * Pools that had something in use when they were closed are gone some time
 * later, of which nobody tells.
 */
static void reap_closed(struct devpool *dev)
{
	struct devpool_owner *owner;
	int i;

	for (i = 0; i < REAP_BATCH && dev->closed; i++) {
		owner = dev->closed;
		dev->closed = owner->next;
		if (!dev->closed)
			dev->closed_tail = &dev->closed;
		if (pool_is_gone(dev, &owner->id)) {
			remove_owner(dev, owner);
			continue;
		}
		owner->next = NULL;
		*dev->closed_tail = owner;
		dev->closed_tail = &owner->next;
	}
}

int devpool_map_init(struct devpool *dev)
{
	size_t page = sysconf(_SC_PAGESIZE);
	int ret;

	dev->once = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (dev->once == MAP_FAILED)
		return -errno;
	if (madvise(dev->once, page, MADV_WIPEONFORK)) {
		ret = -errno;
		munmap(dev->once, page);
		return ret;
	}
	dev->once->alive = 1;
	reset(dev);
	return 0;
}

void devpool_map_exit(struct devpool *dev)
{
	notice_fork(dev);
	forget(dev, true);
	munmap(dev->once, sysconf(_SC_PAGESIZE));
}

bool devpool_map_by_addr(struct devpool *dev, uint64_t addr, uint64_t bytes, void **ptr)
{
	uint32_t seq;
	void *p;

	notice_fork(dev);
	if (unlikely(!seq_begin(dev, &seq) || !find_by_addr(dev, addr, bytes, &p) ||
		     !seq_good(dev, seq)))
		return false;
	*ptr = p;
	return true;
}

static bool __attribute__((noinline)) locked_by_ptr(struct devpool *dev, const void *ptr,
						    uint64_t *addr)
{
	bool found;

	lock(dev);
	found = find_by_ptr(dev, (uintptr_t)ptr, addr);
	unlock(dev);
	return found;
}

bool devpool_map_by_ptr(struct devpool *dev, const void *ptr, uint64_t *addr)
{
	uint32_t seq;

	notice_fork(dev);
	if (likely(seq_begin(dev, &seq) && find_by_ptr(dev, (uintptr_t)ptr, addr) &&
		   seq_good(dev, seq)))
		return true;
	return locked_by_ptr(dev, ptr, addr);
}

/*
 * Maps what devpool_map_by_addr() did not find. @bytes is 0 where that is not
 * known: then up to the end of the range.
 */
int devpool_map_add(struct devpool *dev, uint64_t addr, uint64_t bytes,
		    const struct devpool_pool_id *pool, void **ptr)
{
	struct devpool_span *span, **spans;
	int ret = 0, saved = errno;

	lock(dev);
	if (find_by_addr(dev, addr, bytes, ptr))
		goto out;
	reap_closed(dev);
	ret = -ENOMEM;
	if (table_reserve(&dev->by_addr, SPAN_PIECES) || table_reserve(&dev->by_ptr, SPAN_PIECES))
		goto out;
	span = map_span(dev, addr, bytes);
	if (!span) {
		ret = -errno;
		goto out;
	}
	spans = owned_by(dev, pool);
	span->next = *spans;
	*spans = span;

	change_begin(dev);
	table_add_span(dev->by_addr, span->addr, span->end, span);
	table_add_span(dev->by_ptr, span->ptr, span->ptr + (span->end - span->addr), span);
	change_end(dev);
	*ptr = (void *)(span->ptr + (uintptr_t)(addr - span->addr));
	ret = 0;
out:
	unlock(dev);
	errno = saved;
	return ret;
}

/* Ends the spans of a pool that was closed, at once or once it is gone. */
void devpool_map_close_pool(struct devpool *dev, const struct devpool_pool_id *id, bool gone)
{
	struct devpool_owner *owner;
	int saved = errno;

	notice_fork(dev);
	lock(dev);
	owner = find_owner(dev, id);
	if (owner && gone && !owner->closed) {
		remove_owner(dev, owner);
	} else if (owner && !owner->closed) {
		owner->closed = true;
		*dev->closed_tail = owner;
		dev->closed_tail = &owner->next;
	}
	reap_closed(dev);
	unlock(dev);
	errno = saved;
}
