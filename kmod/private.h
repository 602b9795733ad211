/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * devpool: what the parts of the module share.
 *
 * Calls go one way: ioctl -> client -> pool -> arena, pool -> chunk -> backend.
 * Nothing below knows what is above it.
 *
 * Lock order, outermost first:
 *
 *	mmap_lock (or a VMA's lock)
 *	  devpool_mapping.lock	page table against huge entry; alone may be held
 *				over the allocation of a page table
 *	    devpool_pool.lock
 *	      devpool_client.lock
 *	      devpool_supply.lock
 *	      xa_lock of any xarray here
 *
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
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include <linux/devpool.h>

#include "arena.h"
#include "devpool_backend.h"

/*
 * For what grows with a request, which can be huge: it is charged to who asks, and
 * a request that is too large for the machine fails and has nobody killed.
 */
#define DEVPOOL_GFP (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Blocks up to this size, in bytes, are of the small arena. */
#define DEVPOOL_SMALL_MAX (1ULL << 20)
#define DEVPOOL_SMALL_GRANULE 512ULL
#define DEVPOOL_CHUNK_MAX (1ULL << 30)

/*
 * Addresses. Low ones can be mapped by 32-bit callers, whose mmap2() takes 32
 * bits of 4 KiB pages. Both halves are dealt out in slots of a fixed size, so
 * that an address leads to its range by one look-up.
 */
#define DEVPOOL_LOW_END (1ULL << 44)
#define DEVPOOL_ADDR_END (1ULL << 62)
#define DEVPOOL_LOW_SLOT_SHIFT 26
#define DEVPOOL_HIGH_SLOT_SHIFT 36
/* A first range of at most this many bytes is low. */
#define DEVPOOL_LOW_RANGE_MAX (1ULL << 32)

/* The number in a pool id: 40 bits of the client's serial, 24 of its own. */
#define DEVPOOL_SERIAL_BITS 40
#define DEVPOOL_MINT_BITS 24

/**
 * struct devpool_tally - the counters of a pool
 * @allocated: bytes of live blocks
 * @requested: bytes asked for in these
 * @active: bytes of live and pending blocks; the same as @allocated, and set when
 *	it is read, as long as there is nothing to be pending on
 * @resident: bytes of memory behind addresses
 * @spare: bytes of memory without an address
 * @blocks: live blocks
 * @hits: requests served out of the cache as it stood
 * @recycles: chunks moved
 * @grows: chunks taken
 * @fallbacks: chunks of these that are not one run of memory
 * @reclaims: chunks of these that came from another pool
 * @waits: requests that waited for a fence
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
 * @arrived: a chunk came into the stock, or one more may be made
 * @scrub: the worker's job: make dirty chunks clean
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
};

/**
 * struct devpool_client - one open file of a device node
 * @ref: the file has one, each pool that it created has one
 * @device: the device
 * @serial: makes the ids that it mints its own
 * @home: its share in its default pool; constant
 * @members: its shares in the pools whose ids it minted, by the count in the id:
 *	small numbers make a table of few levels. Looked up under RCU
 * @nr_blocks: blocks that it owns or is about to
 * @recent: the member that last got a block, a hint for look-ups under RCU. Set and
 *	cleared under the lock of the member's pool: it is never one that has left
 * @lock: protects all below
 * @nr_minted: how many ids it has minted
 * @nr_pools: pools of its making that exist
 * @nr_retired: pools of its making that are gone
 * @resident: chunks resident in its default pool and the pools of its making
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
	struct devpool_member *home;
	struct xarray members;
	atomic_t nr_blocks;
	struct devpool_member *recent;

	spinlock_t lock;
	u32 nr_minted;
	u32 nr_pools;
	u64 nr_retired;
	struct devpool_counter resident;
	struct devpool_tally retired;
};

/**
 * struct devpool_member - one client's share in one pool
 * @ref: the client's table (or &devpool_client.home) has one; look-ups take one
 * @client: whose share; valid while the member is in @link
 * @pool: the pool, with a reference
 * @link: in &devpool_pool.members; under the pool's lock
 * @blocks: the client's blocks in the pool; under the pool's lock
 * @rcu: look-ups by RCU readers
 */
struct devpool_member {
	struct kref ref;
	struct devpool_client *client;
	struct devpool_pool *pool;
	struct list_head link;
	struct hlist_head blocks;
	struct rcu_head rcu;
};

/**
 * struct devpool_pool - a private cache of blocks
 * @ref: lifetime of the struct and of its addresses: members, the pool file,
 *	mappings, and whoever has just looked it up. Not the use count
 * @device: the device
 * @creator: the client that its chunks are accounted to, with a reference
 * @id: its name; {0,0} for a default pool
 * @lock: protects all below and the blocks
 * @use_count: references of users
 * @file_open: its pool file exists and has not been released
 * @flushes_itself: what becomes returnable while nobody uses the pool is given
 *	back at once
 * @gone: nothing is left of it but this struct
 * @nr_leaving: chunks on their way from here to the device
 * @flushed: waits for an arena's pieces to stop leaving
 * @members: all &struct devpool_member
 * @arenas: the addresses of small and of large blocks
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

	struct mutex lock;
	u32 use_count;
	bool file_open;
	bool flushes_itself;
	bool gone;
	unsigned long nr_leaving;
	wait_queue_head_t flushed;
	struct list_head members;
	struct devpool_arena arenas[2];
	struct devpool_tally tally;
	struct rcu_head rcu;
};

/**
 * struct devpool_emptied - report of an EMPTY_CACHE
 * @freed: bytes given back
 * @kept: bytes still resident
 * @live: bytes of live blocks
 * @state: of the last pool looked at
 */
struct devpool_emptied {
	u64 freed;
	u64 kept;
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

/* The part of it that the minting client counts; never 0. */
static inline unsigned long devpool_id_count(const struct devpool_pool_id *id)
{
	return devpool_id_number(id) & ((1U << DEVPOOL_MINT_BITS) - 1);
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

/* client.c */
extern const struct file_operations devpool_client_fops;
void devpool_client_free(struct kref *ref);
int devpool_client_mint(struct devpool_client *client, struct devpool_pool_id *id);
int devpool_client_check_minted(struct devpool_client *client,
				const struct devpool_pool_id *id);
struct devpool_member *devpool_client_get_member(struct devpool_client *client,
						 const struct devpool_pool_id *id);
void devpool_client_put_member(struct devpool_client *client,
			       struct devpool_member *member);
struct devpool_member *devpool_client_next_member(struct devpool_client *client,
						  unsigned long *count);
bool devpool_client_knows(struct devpool_client *client,
			  const struct devpool_pool *pool);
void devpool_client_forget(struct devpool_client *client,
			   const struct devpool_member *member);
struct devpool_range *devpool_client_get_range(struct devpool_client *client, u64 addr);
void devpool_client_charge(struct devpool_client *client, u64 chunks);
void devpool_client_uncharge(struct devpool_client *client, u64 chunks);
int devpool_client_free_block(struct devpool_client *client, u64 addr);
void devpool_client_empty(struct devpool_client *client, u64 keep,
			  struct devpool_emptied *emptied);
u64 devpool_client_resident(struct devpool_client *client);
u64 devpool_client_reclaim(struct devpool_client *client,
			   const struct devpool_pool *requester, u64 nr,
			   struct list_head *chunks);

/* pool.c */
extern const struct file_operations devpool_pool_fops;
int devpool_pool_cache_init(void);
void devpool_pool_cache_exit(void);
struct devpool_member *devpool_pool_create(struct devpool_client *client,
					   const struct devpool_pool_id *id);
void devpool_pool_release(struct kref *ref);
void devpool_member_release(struct kref *ref);
void devpool_member_close(struct devpool_member *member);
int devpool_pool_refuse(struct devpool_pool *pool, int err);
int devpool_pool_reserve(struct devpool_member *member, u64 size, u64 align,
			 u64 requested, struct devpool_block **out);
void devpool_pool_unreserve(struct devpool_member *member,
			    struct devpool_block *block);
int devpool_pool_free(struct devpool_range *range, struct devpool_client *client,
		      u64 addr);
int devpool_pool_empty(struct devpool_pool *pool, u32 flags, u64 keep,
		       struct devpool_emptied *emptied);
u64 devpool_pool_reclaim(struct devpool_pool *pool, u64 nr,
			 struct list_head *chunks);
u32 devpool_pool_state(const struct devpool_pool *pool);

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

/* chunk.c */
int devpool_chunk_cache_init(void);
void devpool_chunk_cache_exit(void);
void devpool_supply_init(struct devpool_device *device, u64 nr_chunks,
			 u64 clean_target);
void devpool_supply_exit(struct devpool_device *device);
int devpool_supply_take(struct devpool_device *device, u64 nr,
			struct list_head *chunks, u64 *missing);
u64 devpool_supply_free(struct devpool_device *device);
void devpool_supply_announce(struct devpool_device *device, u64 nr);
void devpool_supply_put(struct devpool_device *device, struct list_head *chunks);
u64 devpool_chunks_clean(struct devpool_device *device, struct list_head *chunks);

/* mmap.c */
int devpool_mmap_file(struct file *file, struct vm_area_struct *vma);

/* stats.c */
void devpool_pool_read(struct devpool_pool *pool, struct devpool_tally *tally);
void devpool_pool_tally(struct devpool_pool *pool, struct devpool_tally *tally,
			u32 *use_count, u32 *state);
void devpool_client_tally(struct devpool_client *client,
			  struct devpool_tally *tally);
void devpool_tally_add(struct devpool_tally *sum, const struct devpool_tally *tally);

#endif
