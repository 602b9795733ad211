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
 * A span goes when the client does not know its pool any more: the kernel does
 * not let it be mapped then. Nothing of this client's is live in it, so nobody
 * has a right to be looking it up. Of that nobody tells; so spans are asked about
 * when their pool is closed here, and from then on (those of no pool in
 * particular: from the beginning) now and then, in turn.
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

/* So far does mmap() reach: 32-bit programs count pages in 32 bits. */
#define MAP_END		(1ULL << (sizeof(void *) == 8 ? 63 : 44))

/*
 * Once a client's spans fill that much of the process's address space, new ones
 * are no longer than they must be: the rest is for others.
 */
#define MAPPED_MAX	(1ULL << (sizeof(void *) == 8 ? 45 : 30))

/* Loose spans to ask about each time there is work on spans anyway. */
#define REAP_BATCH	2

#define span_of(link, member) \
	((struct devpool_span *)((char *)(link) - offsetof(struct devpool_span, member)))

/**
 * struct devpool_span - a mapping
 * @addr: first device address, a multiple of DEVPOOL_WINDOW
 * @end: behind the last
 * @ptr: where it is mapped, a multiple of DEVPOOL_WINDOW
 * @owner: the pool that it is of, NULL if that is not known
 * @kin: in &devpool_owner.spans, or in &devpool.unused
 * @loose: in &devpool.loose, if it is to be asked about
 *
 * Readers look at @addr, @end and @ptr without a lock.
 */
struct devpool_span {
	uint64_t addr;
	uint64_t end;
	uintptr_t ptr;
	struct devpool_owner *owner;
	struct devpool_link kin;
	struct devpool_link loose;
};

/**
 * struct devpool_owner - the spans of a pool, of which there is at least one
 * @id: its id
 * @spans: its spans
 */
struct devpool_owner {
	struct devpool_pool_id id;
	struct devpool_link spans;
};

static void link_init(struct devpool_link *link)
{
	link->next = link;
	link->prev = link;
}

static bool link_alone(const struct devpool_link *link)
{
	return link->next == link;
}

/* At the end of the list, if it is not in one. */
static void link_add(struct devpool_link *link, struct devpool_link *list)
{
	if (!link_alone(link))
		return;
	link->next = list;
	link->prev = list->prev;
	list->prev->next = link;
	list->prev = link;
}

static void link_del(struct devpool_link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link_init(link);
}

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

static void unmap(struct devpool_span *span)
{
	munmap((void *)span->ptr, span->end - span->addr);
}

static void free_span(struct devpool_span *span, bool mapped)
{
	link_del(&span->kin);
	link_del(&span->loose);
	if (mapped)
		unmap(span);
	free(span);
}

/* Lets go of everything; of the mappings only if they are this process's. */
static void forget(struct devpool *dev, bool mapped)
{
	struct devpool_owner *owner;
	size_t i;

	for (i = 0; dev->owners && i <= dev->owners->mask; i++) {
		owner = dev->owners->slot[i].value;
		if (!owner)
			continue;
		while (!link_alone(&owner->spans))
			free_span(span_of(owner->spans.next, kin), mapped);
		free(owner);
	}
	/* What has no owner is always loose. */
	while (!link_alone(&dev->loose))
		free_span(span_of(dev->loose.next, loose), mapped);
	while (!link_alone(&dev->unused))
		free_span(span_of(dev->unused.next, kin), false);
	table_free(dev->by_addr);
	table_free(dev->by_ptr);
	table_free(dev->owners);
}

static void reset(struct devpool *dev)
{
	dev->by_addr = NULL;
	dev->by_ptr = NULL;
	dev->owners = NULL;
	link_init(&dev->loose);
	link_init(&dev->unused);
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

	if (!fits(to - from) || !fits(to - from + DEVPOOL_WINDOW)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
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
	if (!link_alone(&dev->unused)) {
		span = span_of(dev->unused.next, kin);
		link_del(&span->kin);
	} else {
		span = calloc(1, sizeof(*span));
		if (!span) {
			errno = ENOMEM;
			return NULL;
		}
		link_init(&span->kin);
		link_init(&span->loose);
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
		link_add(&span->kin, &dev->unused);
		return NULL;
	}
	WRITE_ONCE(span->addr, lo - down);
	WRITE_ONCE(span->end, hi + up);
	WRITE_ONCE(span->ptr, (uintptr_t)p);
	dev->hint = (uintptr_t)p;
	dev->mapped += span->end - span->addr;
	return span;
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

/* Who is to own a new span of that pool: nobody, where that cannot be told. */
static struct devpool_owner *get_owner(struct devpool *dev, const struct devpool_pool_id *id)
{
	struct devpool_owner *owner = find_owner(dev, id);

	if (owner)
		return owner;
	if (!owner_key(id) || table_reserve(&dev->owners, 1) ||
	    table_get(dev->owners, owner_key(id)))
		return NULL;
	owner = calloc(1, sizeof(*owner));
	if (!owner)
		return NULL;
	owner->id = *id;
	link_init(&owner->spans);
	table_set(dev->owners, owner_key(id), owner);
	return owner;
}

/* Whether the client knows the pool that a span is of. Tried with one page. */
static bool is_known(struct devpool *dev, const struct devpool_span *span)
{
	void *p;

	p = mmap(NULL, 1, PROT_READ, MAP_SHARED, dev->fd, span->addr);
	if (p == MAP_FAILED)
		return errno != ENOENT;
	munmap(p, 1);
	return true;
}

/*
 * Unmaps a span if the client does not know its pool any more.
 *
 * Another thread may make the pool known again at any time, and get a block there.
 * So the question is asked while lookups do not count: one that has counted had
 * its block before, which the kernel knows of, and one that comes later has to
 * wait, and will find nothing.
 */
static void drop_if_unknown(struct devpool *dev, struct devpool_span *span)
{
	struct devpool_owner *owner = span->owner;
	bool known;

	change_begin(dev);
	known = is_known(dev, span);
	if (!known) {
		table_del_span(dev->by_addr, span->addr, span->end, span);
		table_del_span(dev->by_ptr, span->ptr, span->ptr + (span->end - span->addr),
			       span);
	}
	change_end(dev);
	if (known)
		return;

	unmap(span);
	dev->mapped -= span->end - span->addr;
	link_del(&span->kin);
	link_del(&span->loose);
	link_add(&span->kin, &dev->unused);
	if (owner && link_alone(&owner->spans)) {
		table_del(dev->owners, owner_key(&owner->id));
		free(owner);
	}
}

static void reap_loose(struct devpool *dev)
{
	struct devpool_span *span;
	int i;

	for (i = 0; i < REAP_BATCH && !link_alone(&dev->loose); i++) {
		span = span_of(dev->loose.next, loose);
		link_del(&span->loose);
		link_add(&span->loose, &dev->loose);
		drop_if_unknown(dev, span);
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
	struct devpool_owner *owner;
	struct devpool_span *span;
	int ret = 0, saved = errno;

	if (addr >= MAP_END || bytes > MAP_END - addr)
		return -EOVERFLOW;
	lock(dev);
	if (find_by_addr(dev, addr, bytes, ptr))
		goto out;
	reap_loose(dev);
	ret = -ENOMEM;
	if (table_reserve(&dev->by_addr, SPAN_PIECES) || table_reserve(&dev->by_ptr, SPAN_PIECES))
		goto out;
	span = map_span(dev, addr, bytes);
	if (!span) {
		ret = -errno;
		goto out;
	}
	owner = get_owner(dev, pool);
	span->owner = owner;
	if (owner)
		link_add(&span->kin, &owner->spans);
	else
		link_add(&span->loose, &dev->loose);

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

/* From now on the client may forget that pool without telling. */
void devpool_map_loosen(struct devpool *dev, const struct devpool_pool_id *id)
{
	struct devpool_owner *owner;
	struct devpool_link *link;

	notice_fork(dev);
	lock(dev);
	owner = find_owner(dev, id);
	if (owner)
		for (link = owner->spans.next; link != &owner->spans; link = link->next)
			link_add(&span_of(link, kin)->loose, &dev->loose);
	unlock(dev);
}

/*
 * Ends the spans of a pool that was closed, at once or once it is not known. May
 * change errno.
 */
void devpool_map_close_pool(struct devpool *dev, const struct devpool_pool_id *id)
{
	struct devpool_owner *owner;
	struct devpool_link *link, *next;
	bool last;

	notice_fork(dev);
	lock(dev);
	owner = find_owner(dev, id);
	if (owner) {
		/* The owner goes with the last of them. */
		link = owner->spans.next;
		do {
			next = link->next;
			last = next == &owner->spans;
			link_add(&span_of(link, kin)->loose, &dev->loose);
			drop_if_unknown(dev, span_of(link, kin));
			link = next;
		} while (!last);
	}
	reap_loose(dev);
	unlock(dev);
}
