/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * devpool: what the parts of the module share.
 *
 * Calls go one way: ioctl -> client -> pool -> arena, pool -> chunk -> backend,
 * pool -> stream.
 * Nothing below knows what is above it.
 *
 * Lock order, outermost first:
 *
 *	mmap_lock (or a VMA's lock)
 *	  devpool_mapping.lock	page table against huge entry; alone may be held
 *				over the allocation of a page table
 *	    devpool_pool.lock
 *	      devpool_client.lock
 *	      devpool_device.lock
 *	      devpool_supply.lock
 *	      xa_lock of any xarray here
 *	      devpool_stream.lock
 *
 * devpool_dmabuf.lock is taken within the lock of a reservation object, and with none
 * of these.
 *
 * Those from devpool_client.lock on are innermost, each of them taken alone.
 * No two pools' locks are ever held together. Nothing but the mapping's lock is
 * held over page allocation, and nothing at all over zeroing, zapping, copies
 * to and from user space and waits.
 */
#ifndef DEVPOOL_PRIVATE_H
#define DEVPOOL_PRIVATE_H

#include <linux/atomic.h>
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/gfp.h>
#include <linux/kref.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <linux/devpool.h>

#include "arena.h"
#include "compat.h"
#include "devpool_backend.h"
#include "stream.h"

struct devpool_heap;
struct dma_buf;

/*
 * For what grows with a request, which can be huge: it is charged to who asks, and
 * a request that is too large for the machine fails and has nobody killed.
 */
#define DEVPOOL_GFP (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Blocks up to this size, in bytes, are of the small arena. */
#define DEVPOOL_SMALL_MAX (1ULL << 20)
#define DEVPOOL_SMALL_GRANULE 512ULL
#define DEVPOOL_NR_ARENAS 2
#define DEVPOOL_CHUNK_MAX (1ULL << 30)

/*
 * A heap's buffers up to this size, in bytes, are zeroed by who closes them: larger ones
 * take longer than it takes to tell a worker.
 */
#define DEVPOOL_HEAP_AT_ONCE (64ULL << 10)

/*
 * Addresses. Low ones can be mapped by 32-bit callers, whose mmap2() takes 32
 * bits of 4 KiB pages. Both halves are dealt out in slots of a fixed size, so
 * that an address leads to its range by one look-up.
 */
#define DEVPOOL_LOW_END (1ULL << 44)
#define DEVPOOL_ADDR_END (1ULL << 62)
#define DEVPOOL_LOW_SLOT_SHIFT 26
#define DEVPOOL_HIGH_SLOT_SHIFT 36
/*
 * The least size of a first range of large blocks: enough for some of them to be
 * extended where they stand.
 */
#define DEVPOOL_LARGE_RANGE_MIN (1ULL << 28)
/* A first range of at most this many bytes is low. */
#define DEVPOOL_LOW_RANGE_MAX (1ULL << 32)

/*
 * The number in a pool id, from the top: the client's serial number, what it has
 * counted, and whether it is for a capture.
 */
#define DEVPOOL_SERIAL_BITS 39
#define DEVPOOL_MINT_BITS 24
#define DEVPOOL_SERIAL_SHIFT (DEVPOOL_MINT_BITS + 1)

/* References on a pool, of all kinds: one more is refused. */
#define DEVPOOL_MAX_USE_COUNT INT_MAX

/**
 * struct devpool_tally - the counters of a pool
 * @allocated: bytes of live blocks
 * @requested: bytes asked for in these
 * @active: bytes of live and pending blocks
 * @resident: bytes of memory behind addresses
 * @spare: bytes of memory without an address
 * @blocks: live blocks
 * @hits: requests served out of the cache as it stood
 * @recycles: chunks moved
 * @grows: chunks taken
 * @fallbacks: chunks of these that are not one run of memory
 * @reclaims: chunks of these that came from another pool
 * @waits: requests that waited for a stream
 * @ooms: requests that failed for want of memory
 * @flushes: times that cached chunks were given back
 * @zeroed_bytes: bytes zeroed while a request waited
 *
 * In the order of &struct devpool_pool_stat and &struct devpool_stats.
 */
struct devpool_tally {
	struct devpool_counter allocated;
	struct devpool_counter requested;
	struct devpool_counter active;
	struct devpool_counter resident;
	struct devpool_counter spare;
	struct devpool_counter blocks;
	u64 hits;
	u64 recycles;
	u64 grows;
	u64 fallbacks;
	u64 reclaims;
	u64 waits;
	u64 ooms;
	u64 flushes;
	u64 zeroed_bytes;
};

/**
 * enum devpool_account - what a chunk counts as for a pool, its client, the device
 * @DEVPOOL_ACCOUNT_NONE: it is none of theirs
 * @DEVPOOL_ACCOUNT_RESERVED: a request is about to get it
 * @DEVPOOL_ACCOUNT_RESIDENT: it stands behind an address
 * @DEVPOOL_ACCOUNT_SPARE: it is the pool's and behind no address
 */
enum devpool_account {
	DEVPOOL_ACCOUNT_NONE,
	DEVPOOL_ACCOUNT_RESERVED,
	DEVPOOL_ACCOUNT_RESIDENT,
	DEVPOOL_ACCOUNT_SPARE,
};

/**
 * struct devpool_holdings - the chunks that a client or a device has in pools
 * @reserved: chunks that requests are about to get
 * @resident: chunks behind addresses
 * @spare: chunks of pools behind no address
 */
struct devpool_holdings {
	u64 reserved;
	struct devpool_counter resident;
	struct devpool_counter spare;
};

/**
 * struct devpool_supply - the chunks of a device
 * @lock: protects all below; innermost
 * @nr_chunks: how many the device has
 * @nr_free: how many no pool and no request owns; those that are still leaving
 *	a pool or being zeroed count as free
 * @nr_made: how many have memory behind them; the others exist as a number only
 * @nr_clean: length of @clean
 * @nr_dirty: length of @dirty
 * @clean_target: how many the worker keeps clean
 * @clean: the stock, zeroed
 * @dirty: the stock, not zeroed
 * @arrived: a chunk came into the stock, one more may be made, a pool has more
 *	memory to spare, or a limit was set: for requests that wait for chunks, and for
 *	those that wait for anything that they could be served with
 * @scrub: the worker's job: make dirty chunks clean
 * @shrinker: gives the stock back where the machine is short of memory
 * @faults: kinds of fault of the backend that the log has told of, by bit
 *
 * A request first reserves its whole number of chunks by taking it off
 * @nr_free. After that each of them is in the stock, can be made, or is on its
 * way here with somebody who waits for nothing that the request could hold.
 */
struct devpool_supply {
	spinlock_t lock;
	u64 nr_chunks;
	u64 nr_free;
	u64 nr_made;
	u64 nr_clean;
	u64 nr_dirty;
	u64 clean_target;
	struct list_head clean;
	struct list_head dirty;
	wait_queue_head_t arrived;
	struct kthread_work scrub;
	struct devpool_shrinker shrinker;
	unsigned long faults;
};

/**
 * struct devpool_addresses - one half of a device's address space
 * @ranges: the &struct devpool_range of each slot in use
 * @first: first slot
 * @end: slot behind the last
 * @next: where to look for free slots next; under the lock of @ranges
 *
 * The cursor goes round, so that a slot that was freed is dealt again only
 * after all others have had their turn.
 */
struct devpool_addresses {
	struct xarray ranges;
	unsigned long first;
	unsigned long end;
	unsigned long next;
};

/**
 * struct devpool_device - one memory to be pooled
 * @dev: in sysfs; its reference count is the device's
 * @cdev: the node
 * @backend: what supplies the memory
 * @index: N of /dev/devpoolN
 * @has_node: its node exists
 * @chunk_shift: log2 of the chunk size
 * @inode: owns the address_space that all opens share, whatever inode they came
 *	through, so that one zap reaches every mapping
 * @low: addresses below %DEVPOOL_LOW_END
 * @high: the others
 * @nr_clients: open files
 * @nr_pools: pools that exist, default ones not counted
 * @supply: its chunks
 * @heap: itself as a dma-heap, NULL if it has no memory
 * @debugfs: its directory there
 * @lock: protects all below
 * @pools: all pools that are not gone, by &devpool_pool.number
 * @nr_retired: pools that are gone
 * @holdings: chunks in pools
 * @retired: sums over the pools that are gone
 *
 * Made at load, taken apart at unload, which open files prevent. All but the
 * counters and what has a lock of its own is constant in between.
 */
struct devpool_device {
	struct device dev;
	struct cdev cdev;
	const struct devpool_backend *backend;
	u32 index;
	bool has_node;
	unsigned int chunk_shift;
	struct inode *inode;
	struct devpool_addresses low;
	struct devpool_addresses high;
	atomic_t nr_clients;
	atomic_t nr_pools;
	struct devpool_supply supply;
	struct devpool_heap *heap;
	struct dentry *debugfs;

	spinlock_t lock;
	struct rb_root pools;
	u64 nr_retired;
	struct devpool_holdings holdings;
	struct devpool_tally retired;
};

/**
 * struct devpool_client - one open file of a device node, or a heap
 * @ref: the file has one, each pool that it created has one
 * @device: the device
 * @serial: makes the ids that it mints its own
 * @opener: the process that opened it, NULL for a heap's
 * @comm: name of that process then
 * @home: its share in its default pool; constant
 * @nr_blocks: references on blocks that it has or is about to
 * @recent: the member that last got a block, a hint for look-ups under RCU. Set and
 *	cleared under the lock of the member's pool: it is never one that has left
 * @lock: protects all below
 * @members: its shares in all other pools that it knows, by the pool's number
 * @nr_streams: streams that it has or is about to
 * @streams: these by number; with a lock of its own
 * @next_stream: number to look from for the next stream's; under that lock
 * @routes: its &struct devpool_route, the latest first; whether there is any may be
 *	looked at without the lock
 * @nr_routes: length of @routes
 * @nr_minted: how many ids it has minted, for users and for captures
 * @nr_pools: pools of its making that exist
 * @nr_retired: pools of its making that are gone
 * @limit: chunks that @holdings may be, %U64_MAX for no limit
 * @holdings: chunks in its default pool and the pools of its making
 * @retired: sums over the pools that are gone
 *
 * What a client owns is given back when its file is closed for the last time,
 * whichever process does that. The struct stays for as long as a pool of its
 * making, since that accounts to it.
 */
struct devpool_client {
	struct kref ref;
	struct devpool_device *device;
	u64 serial;
	struct pid *opener;
	char comm[TASK_COMM_LEN];
	struct devpool_member *home;
	atomic_t nr_blocks;
	struct devpool_member *recent;
	atomic_t nr_streams;
	struct xarray streams;
	u32 next_stream;

	spinlock_t lock;
	struct rb_root members;
	struct list_head routes;
	u32 nr_routes;
	u32 nr_minted[2];
	u32 nr_pools;
	u64 nr_retired;
	u64 limit;
	struct devpool_holdings holdings;
	struct devpool_tally retired;
};

/**
 * struct devpool_member - one client's share in one pool
 * @ref: the client's table (or &devpool_client.home) has one, each of its routes to
 *	the pool too; look-ups take one
 * @client: whose share; valid while the member is in @link
 * @pool: the pool, with a reference
 * @by_number: in &devpool_client.members; under the client's lock
 * @link: in &devpool_pool.members as long as the client knows the pool; this and
 *	all below under the pool's lock
 * @gets: references on the pool that the client has by POOL_GET
 * @ties: why the client knows the pool: @gets, its routes, and one if it has minted
 *	the pool's id
 * @blocks: the blocks of the pool that are the client's in the first place
 * @holds: the client's &struct devpool_hold on other blocks of the pool
 * @rcu: look-ups by RCU readers
 *
 * A share without a tie, a block and a hold ends.
 */
struct devpool_member {
	struct kref ref;
	struct devpool_client *client;
	struct devpool_pool *pool;
	struct rb_node by_number;
	struct list_head link;
	u32 gets;
	u32 ties;
	struct hlist_head blocks;
	struct hlist_head holds;
	struct rcu_head rcu;
};

/**
 * struct devpool_hold - one more reference on a block, made by RETAIN
 * @node: in &devpool_member.holds
 * @next: next one in &devpool_block.holds
 * @member: whose reference
 * @block: the block
 *
 * A block is on its first owner's list. Who has a reference beside has one of
 * these; when the first one goes, another takes the place. Protected by the pool's
 * lock.
 */
struct devpool_hold {
	struct hlist_node node;
	struct devpool_hold *next;
	struct devpool_member *member;
	struct devpool_block *block;
};

/**
 * struct devpool_pool - a private cache of blocks
 * @ref: lifetime of the struct and of its addresses: members, the pool file,
 *	mappings, and whoever has just looked it up. Not the use count
 * @device: the device
 * @creator: the client that its chunks are accounted to, with a reference
 * @id: its name; {0,0} for a default pool
 * @number: the number in the id; for a default pool one of its creator's that no id
 *	has
 * @flags: bits of &enum devpool_pool_flags
 * @by_number: in &devpool_device.pools; under the device's lock
 * @lock: protects all below and the blocks
 * @use_count: references of users: those of its file, of POOL_GET, of routes
 * @file_open: its pool file exists and has not been released
 * @flushes_itself: what becomes returnable while nobody uses the pool is given
 *	back at once
 * @gone: nothing is left of it but this struct
 * @release_threshold: bytes of cache that it may keep
 * @limit: chunks that may be resident or spare, %U64_MAX for no limit
 * @nr_reserved: chunks that requests are about to get from the device
 * @nr_leaving: chunks on their way from here to the device
 * @spares: chunks behind no address
 * @nr_flushed: chunks that it has given back, ever
 * @flushed: waits for chunks to have left, and for streams to stop using something
 * @members: all &struct devpool_member
 * @lanes: the &struct devpool_lane of streams that it has to do with
 * @recent_lane: the one that a request was last for, a hint
 * @told: those of them of whose stream a point has signalled; may be added to without
 *	the lock
 * @reap: sees to @told; has a reference on the pool when it is queued
 * @arenas: the addresses of small and of large blocks
 * @parked: small blocks that were freed last and are kept as they were, for the
 *	next requests of their size: see devpool_pool_unpark()
 * @nr_parked: number of these
 * @tally: the counters
 * @rcu: look-ups by RCU readers
 *
 * Live while @use_count is above 0, freeable until it has neither a chunk nor a
 * block, then gone for good.
 */
struct devpool_pool {
	struct kref ref;
	struct devpool_device *device;
	struct devpool_client *creator;
	struct devpool_pool_id id;
	u64 number;
	u32 flags;
	struct rb_node by_number;

	struct mutex lock;
	u32 use_count;
	bool file_open;
	bool flushes_itself;
	bool gone;
	u64 release_threshold;
	u64 limit;
	u64 nr_reserved;
	unsigned long nr_leaving;
	struct list_head spares;
	u64 nr_flushed;
	wait_queue_head_t flushed;
	struct list_head members;
	struct rb_root lanes;
	struct devpool_lane *recent_lane;
	struct llist_head told;
	struct work_struct reap;
	struct devpool_arena arenas[DEVPOOL_NR_ARENAS];
	struct hlist_head parked;
	unsigned int nr_parked;
	struct devpool_tally tally;
	struct rcu_head rcu;
};

/**
 * struct devpool_request - a block that is wanted
 * @size: bytes, rounded up to the granule
 * @align: alignment of the address, a power of two of at least the granule and
 *	at most the chunk size
 * @requested: bytes before rounding
 * @stream: number of the client's stream that will use it, 0 for the host
 * @zero: it is going to be zeroed, so that not even its own stream may use it still
 * @timeout: how long to wait for memory that streams still use
 */
struct devpool_request {
	u64 size;
	u64 align;
	u64 requested;
	u32 stream;
	bool zero;
	s64 timeout;
};

/**
 * struct devpool_use - a stream or a dma-buf that uses a block
 * @next: next one in &devpool_block.uses, until the block is pending
 * @link: of a stream: in &devpool_lane.pending from then on
 * @lane: what the stream has to do with the pool, NULL for a dma-buf
 * @block: the block
 * @point: of a stream, the block pending: the point to wait for
 *
 * A block that is freed while it has any is pending until they are over.
 */
struct devpool_use {
	struct devpool_use *next;
	struct list_head link;
	struct devpool_lane *lane;
	struct devpool_block *block;
	u64 point;
};

/**
 * struct devpool_emptied - report of an EMPTY_CACHE
 * @freed: bytes given back
 * @kept: bytes still resident
 * @pending: bytes that are free but still used by streams
 * @live: bytes of live blocks
 * @state: of the last pool looked at
 */
struct devpool_emptied {
	u64 freed;
	u64 kept;
	u64 pending;
	u64 live;
	u32 state;
};

static inline u64 devpool_chunk_size(const struct devpool_device *device)
{
	return 1ULL << device->chunk_shift;
}

/* The number in an id, which alone tells pools apart; 0 for a default pool. */
static inline u64 devpool_id_number(const struct devpool_pool_id *id)
{
	return id->first | id->second;
}

static inline bool devpool_id_is_none(const struct devpool_pool_id *id)
{
	return !devpool_id_number(id);
}

static inline bool devpool_id_is_same(const struct devpool_pool_id *a,
				      const struct devpool_pool_id *b)
{
	return a->first == b->first && a->second == b->second;
}

/*
 * xa_load() for a caller that is in an RCU read-side section already, as those are
 * who go on to take a reference.
 */
static inline void *devpool_xa_load(struct xarray *xa, unsigned long index)
{
	XA_STATE(xas, xa, index);
	void *entry;

	do {
		entry = xas_load(&xas);
		if (xa_is_zero(entry))
			return NULL;
	} while (xas_retry(&xas, entry));
	return entry;
}

static inline u64 devpool_device_bytes(const struct devpool_device *device)
{
	return device->supply.nr_chunks << device->chunk_shift;
}

/*
 * Counters. What can be derived is: the peak is brought up to date before
 * something is taken away and when it is read, so that what is added and taken
 * back leaves no trace; and what went in is there or went out.
 */
static inline void devpool_counter_add(struct devpool_counter *counter, u64 n)
{
	counter->now += n;
}

static inline void devpool_counter_add_undo(struct devpool_counter *counter, u64 n)
{
	counter->now -= n;
}

static inline void devpool_counter_sub(struct devpool_counter *counter, u64 n)
{
	if (counter->now > counter->peak)
		counter->peak = counter->now;
	counter->now -= n;
	counter->out += n;
}

static inline void devpool_counter_update(struct devpool_counter *counter)
{
	if (counter->now > counter->peak)
		counter->peak = counter->now;
	counter->in = counter->now + counter->out;
}

/* main.c */
extern unsigned int devpool_max_pools;
extern unsigned int devpool_max_streams;
extern unsigned int devpool_max_routes;
extern unsigned int devpool_max_blocks;
extern struct kthread_worker *devpool_scrubber;

/* ioctl.c */
long devpool_client_ioctl(struct file *file, unsigned int cmd, unsigned long arg);
long devpool_pool_ioctl(struct file *file, unsigned int cmd, unsigned long arg);

/* device.c */
extern bool devpool_is_loaded;
int devpool_class_init(void);
void devpool_class_exit(void);
int devpool_device_make(const struct devpool_backend *backend, u64 bytes,
			unsigned int chunk_shift, u64 clean_target);
int devpool_devices_publish(void);
void devpool_devices_remove(void);
struct devpool_range *devpool_device_deal_range(struct devpool_device *device,
						struct devpool_pool *pool,
						struct devpool_arena *arena,
						u64 size);
void devpool_device_drop_range(struct devpool_device *device,
			       struct devpool_range *range);
struct devpool_range *devpool_device_find_range(struct devpool_device *device,
						u64 addr);
void devpool_device_zap(struct devpool_device *device, struct list_head *chunks);
void devpool_device_add_pool(struct devpool_device *device, struct devpool_pool *pool);
void devpool_device_retire_pool(struct devpool_device *device, struct devpool_pool *pool,
				const struct devpool_tally *tally);
struct devpool_pool *devpool_device_next_pool(struct devpool_device *device, u64 *number,
					      u64 end);
struct devpool_range *devpool_device_next_range(struct devpool_device *device, u64 addr);

/* client.c */
extern const struct file_operations devpool_client_fops;
struct devpool_client *devpool_client_create(struct devpool_device *device,
					     struct pid *opener, const char *comm);
void devpool_client_end(struct devpool_client *client);
void devpool_client_free(struct kref *ref);
int devpool_client_mint(struct devpool_client *client, bool capture,
			struct devpool_pool_id *id);
int devpool_client_check_minted(struct devpool_client *client,
				const struct devpool_pool_id *id);
int devpool_client_count_pool(struct devpool_client *client);
void devpool_client_uncount_pool(struct devpool_client *client);
struct devpool_member *devpool_client_get_member(struct devpool_client *client,
						 const struct devpool_pool_id *id);
void devpool_client_put_member(struct devpool_client *client,
			       struct devpool_member *member);
struct devpool_member *devpool_client_next_member(struct devpool_client *client,
						  u64 *number);
struct devpool_member *devpool_client_add_member(struct devpool_client *client,
						 struct devpool_member *member);
void devpool_client_drop_member(struct devpool_client *client,
				struct devpool_member *member);
bool devpool_client_knows(struct devpool_client *client,
			  const struct devpool_pool *pool);
struct devpool_range *devpool_client_get_range(struct devpool_client *client, u64 addr);
int devpool_client_reserve(struct devpool_client *client, u64 nr, u64 *over);
void devpool_client_move(struct devpool_client *client, enum devpool_account from,
			 enum devpool_account to, u64 nr);
void devpool_client_retire_pool(struct devpool_client *client,
				const struct devpool_pool *pool,
				const struct devpool_tally *tally);
int devpool_client_get_pool(struct devpool_client *client,
			    const struct devpool_pool_id *id,
			    struct devpool_member **out, u32 *use_count);
int devpool_client_attach(struct devpool_client *client, struct devpool_pool *pool,
			  struct devpool_member **out, u32 *use_count);
int devpool_client_free_block(struct devpool_client *client, u64 addr);
int devpool_client_retain_block(struct devpool_client *client, u64 addr);
int devpool_client_record_use(struct devpool_client *client, u64 addr,
			      struct devpool_stream *stream);
int devpool_client_export_block(struct devpool_client *client, u64 addr, u32 mode,
				struct dma_buf **out);
int devpool_client_count_stream(struct devpool_client *client, u32 *number);
void devpool_client_uncount_stream(struct devpool_client *client, u32 number);
void devpool_client_add_stream(struct devpool_client *client, u32 number,
			       struct devpool_stream *stream);
struct devpool_stream *devpool_client_get_stream(struct devpool_client *client,
						 u32 number);
int devpool_client_end_stream(struct devpool_client *client, u32 number);
bool devpool_client_awaits(struct devpool_client *client);
void devpool_client_empty(struct devpool_client *client, u32 flags, s64 timeout,
			  u64 keep, struct devpool_emptied *emptied);
u64 devpool_client_held(struct devpool_client *client);
void devpool_client_set_limit(struct devpool_client *client, u64 limit);
u64 devpool_client_reclaim(struct devpool_client *client,
			   const struct devpool_pool *requester, u64 nr,
			   struct list_head *chunks);

/* route.c */
int devpool_route_begin(struct devpool_client *client, const struct devpool_pool_id *id,
			u32 scope, struct devpool_stream *stream);
int devpool_route_end(struct devpool_client *client, const struct devpool_pool_id *id,
		      u32 scope, const struct devpool_stream *stream);
struct devpool_member *devpool_route_find(struct devpool_client *client, u32 number);
void devpool_routes_end_stream(struct devpool_client *client,
			       const struct devpool_stream *stream);
void devpool_routes_reap(struct devpool_client *client);
void devpool_routes_close(struct devpool_client *client);

/* pool.c */
extern const struct file_operations devpool_pool_fops;
int devpool_pool_cache_init(void);
void devpool_pool_cache_exit(void);
struct devpool_member *devpool_pool_create(struct devpool_client *client,
					   const struct devpool_pool_id *id, u32 flags);
struct devpool_member *devpool_member_create(struct devpool_client *client,
					     struct devpool_pool *pool);
int devpool_pool_add(struct devpool_member *member);
void devpool_pool_release(struct kref *ref);
void devpool_member_release(struct kref *ref);
int devpool_member_get(struct devpool_member *member, u32 *use_count);
int devpool_member_put(struct devpool_member *member, u32 *use_count);
int devpool_member_attach(struct devpool_member *member,
			  struct devpool_member **out, u32 *use_count);
int devpool_member_tie(struct devpool_member *member);
void devpool_member_untie(struct devpool_member *member);
void devpool_member_close(struct devpool_member *member);
unsigned long devpool_pool_settle(struct devpool_pool *pool);
void devpool_pool_unpark(struct devpool_pool *pool);
u64 devpool_pool_pending(struct devpool_pool *pool);
int devpool_pool_refuse(struct devpool_pool *pool, u64 bytes, int err);
bool devpool_pool_awaits(struct devpool_pool *pool);
struct devpool_block *devpool_pool_serve(struct devpool_member *member,
					 const struct devpool_request *request);
int devpool_pool_reserve(struct devpool_member *member,
			 const struct devpool_request *request,
			 struct devpool_block **out);
void devpool_pool_unreserve(struct devpool_member *member,
			    struct devpool_block *block);
void devpool_pool_return(struct devpool_member *member, struct devpool_use *use, bool zero);
int devpool_block_clear(const struct devpool_block *block);
int devpool_pool_zero(struct devpool_pool *pool, struct devpool_block *block);
int devpool_pool_free_locked(struct devpool_range *range, struct devpool_client *client,
			     u64 addr);
int devpool_pool_free(struct devpool_range *range, struct devpool_client *client,
		      u64 addr);
int devpool_pool_retain(struct devpool_range *range, struct devpool_member *member,
			u64 addr);
int devpool_pool_record(struct devpool_range *range, struct devpool_client *client,
			u64 addr, struct devpool_stream *stream);
struct devpool_block *devpool_pool_find_held(struct devpool_range *range,
					     const struct devpool_client *client, u64 addr);
void devpool_pool_end_pending(struct devpool_pool *pool, struct devpool_block *block);
void devpool_pool_unguard(struct devpool_pool *pool, struct devpool_block *block);
void devpool_pool_reaped(struct devpool_pool *pool);
int devpool_pool_empty(struct devpool_pool *pool, u32 flags, s64 timeout, u64 keep,
		       struct devpool_emptied *emptied);
u64 devpool_pool_reclaim(struct devpool_pool *pool, u64 nr,
			 struct list_head *chunks);
u32 devpool_pool_state(const struct devpool_pool *pool);
u64 devpool_pool_get_attr(struct devpool_pool *pool, u32 attr);
void devpool_pool_set_attr(struct devpool_pool *pool, u32 attr, u64 value);

static inline void devpool_pool_get(struct devpool_pool *pool)
{
	kref_get(&pool->ref);
}

static inline void devpool_pool_put(struct devpool_pool *pool)
{
	kref_put(&pool->ref, devpool_pool_release);
}

/*
 * Makes a reserved block a live one: from now on its client may free it. Needs no
 * lock, since until then nobody but the ALLOC uses the block.
 */
static inline void devpool_pool_publish(struct devpool_member *member,
					struct devpool_block *block)
{
	/* The answer was written before: pairs with devpool_pool_free(). */
	smp_store_release(&block->member, member);
}

/* lane.c */
void devpool_lanes_init(struct devpool_pool *pool);
void devpool_lanes_exit(struct devpool_pool *pool);
void devpool_lanes_end(struct devpool_stream *stream);
int devpool_pool_add_lane(struct devpool_pool *pool, struct devpool_stream *stream);
void devpool_pool_settle_lane(struct devpool_pool *pool,
			      const struct devpool_stream *stream);
void devpool_pool_reap(struct devpool_pool *pool);
struct devpool_guards *devpool_pool_recent_guards(struct devpool_pool *pool,
						  const struct devpool_arena *arena,
						  const struct devpool_client *client,
						  u32 number);
struct devpool_guards *devpool_pool_find_guards(struct devpool_pool *pool,
						const struct devpool_arena *arena,
						const struct devpool_stream *stream);
void devpool_block_hold(struct devpool_block *block, struct devpool_guards *guards);
void devpool_block_unhold(const struct devpool_block *block, u64 point);
u32 devpool_block_stream(const struct devpool_block *block);
u64 devpool_block_last_open(const struct devpool_block *block);
bool devpool_block_is_open(const struct devpool_block *block, u64 point);
struct devpool_use *devpool_use_alloc(void);
void devpool_block_add_use(struct devpool_block *block, struct devpool_use *use);
bool devpool_block_end_use(struct devpool_pool *pool, struct devpool_use *use);
int devpool_block_record(struct devpool_pool *pool, struct devpool_block *block,
			 const struct devpool_stream *stream, struct devpool_use **spare);
bool devpool_block_pend(struct devpool_pool *pool, struct devpool_block *block, u64 point);

/**
 * devpool_pool_lock - takes a pool's lock, where it is to be as it is by now
 * @pool: the pool, of which the caller has a reference; its lock is to be given up by
 *	devpool_pool_unlock()
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
static inline void devpool_pool_lock(struct devpool_pool *pool)
{
	mutex_lock(&pool->lock);
	if (unlikely(!llist_empty(&pool->told)))
		devpool_pool_reap(pool);
}

/**
 * devpool_pool_unlock - lets go of a pool's lock, with what follows from its state
 * @pool: the pool, of which the caller has a reference
 *
 * Context: under the lock of the pool; may sleep. Allocates nothing.
 */
static inline void devpool_pool_unlock(struct devpool_pool *pool)
{
	if (unlikely(!pool->use_count || pool->release_threshold != U64_MAX))
		devpool_pool_settle(pool);
	mutex_unlock(&pool->lock);
}

/* chunk.c */
int devpool_chunk_cache_init(void);
void devpool_chunk_cache_exit(void);
void devpool_supply_init(struct devpool_device *device, u64 nr_chunks,
			 u64 clean_target);
int devpool_supply_make_shrinkable(struct devpool_device *device);
void devpool_supply_exit(struct devpool_device *device);
int devpool_supply_take(struct devpool_device *device, u64 nr,
			struct list_head *chunks, u64 *missing);
u64 devpool_supply_free(struct devpool_device *device);
void devpool_supply_announce(struct devpool_device *device, u64 nr);
void devpool_supply_put(struct devpool_device *device, struct list_head *chunks);
u64 devpool_chunks_clean(struct devpool_device *device, struct list_head *chunks);
void devpool_supply_trim(struct devpool_device *device, u64 keep);

/**
 * devpool_supply_wake - requests that wait may be served now
 * @device: the device
 *
 * To be called when the lock has been taken under which the request will look at
 * what has changed, whether or not it is still held: then it has been found in the
 * queue, or will find what is new.
 *
 * Context: any.
 */
static inline void devpool_supply_wake(struct devpool_device *device)
{
	/* That lock stands for the barrier. */
	if (unlikely(waitqueue_active(&device->supply.arrived)))
		wake_up_all(&device->supply.arrived);
}

/* mmap.c */
int devpool_mmap_file(struct file *file, struct vm_area_struct *vma);
int devpool_mmap_range(struct devpool_range *range, struct vm_area_struct *vma);

/* dmabuf.c */
int devpool_dmabuf_get(struct devpool_range *range, struct devpool_client *client, u64 addr,
		       u32 mode, struct dma_buf **out);
struct dma_buf *devpool_dmabuf_make(struct devpool_block *block, struct devpool_heap *heap,
				    u32 mode);

/* heap.c */
int devpool_heap_make(struct devpool_device *device);
int devpool_heap_publish(struct devpool_device *device);
void devpool_heap_unpublish(struct devpool_device *device);
void devpool_heap_remove(struct devpool_device *device);
u64 devpool_heap_reclaim(struct devpool_device *device, const struct devpool_pool *requester,
			 u64 nr, struct list_head *chunks);
u64 devpool_heap_held(struct devpool_device *device);
void devpool_heap_free(struct devpool_heap *heap, u64 addr);
void devpool_heap_return(struct devpool_heap *heap, struct devpool_use *use, bool zero);
bool devpool_heap_defer(struct devpool_heap *heap, u64 bytes);
void devpool_heap_deferred(struct devpool_heap *heap, u64 bytes);
s64 devpool_heap_mark(const struct devpool_device *device);
bool devpool_heap_is_settled(const struct devpool_device *device, s64 mark);
int devpool_heap_settle(struct devpool_device *device, s64 mark);
void devpool_heap_trim(struct devpool_device *device);

/* snapshot.c */
int devpool_snapshot(struct devpool_client *client, struct devpool_pool *pool,
		     bool everybody, u64 *cursor,
		     struct devpool_snapshot_entry *entries, u32 nr, u32 *filled);

/* debugfs.c */
void devpool_debugfs_init(void);
void devpool_debugfs_exit(void);
void devpool_debugfs_add(struct devpool_device *device);
void devpool_debugfs_remove(struct devpool_device *device);

/* stats.c */
void devpool_pool_read(struct devpool_pool *pool, struct devpool_tally *tally);
void devpool_pool_tally(struct devpool_pool *pool, struct devpool_tally *tally, u64 *pending,
			u32 *use_count, u32 *state);
void devpool_client_tally(struct devpool_client *client, struct devpool_tally *tally,
			  u64 *pending);
void devpool_device_tally(struct devpool_device *device,
			  struct devpool_tally *tally);
void devpool_tally_add(struct devpool_tally *sum, const struct devpool_tally *tally);
const char *devpool_state_name(u32 state);
void devpool_client_show_fdinfo(struct seq_file *m, struct file *file);
void devpool_pool_show_fdinfo(struct seq_file *m, struct file *file);

#endif
