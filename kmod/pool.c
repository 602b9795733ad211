// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools: where requests are served, and where caches end.
 *
 * A request goes through the attempts in the order of their cost: what is
 * resident, with what streams are done with by now; the pool's own returnable
 * chunks, moved behind other addresses; its spare chunks; new chunks from the
 * device; caches of the client's that nobody was promised; and if streams use what
 * is missing it waits until they do not.
 */
#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat.h"
#include "private.h"
#include "trace.h"

/* Block structs allocated beyond those in want, so that not each ALLOC does. */
#define DEVPOOL_STOCK_BATCH 8
/* Chunks that are taken out at a time, before others may have the pool. */
#define DEVPOOL_FLUSH_BATCH 4096UL
/* Blocks that are parked at a time. See devpool_pool_unpark(). */
#define DEVPOOL_MAX_PARKED 256
/* Larger ones are not: the best place for them is worth more than a quick one. */
#define DEVPOOL_PARKED_MAX (64ULL << 10)
/* Blocks that a client's close frees before it lets others have the pool. */
#define DEVPOOL_CLOSE_BATCH 1024

static struct kmem_cache *devpool_block_cache;

static_assert(sizeof(struct devpool_block) <= 128);

static struct devpool_arena *devpool_pool_arena(struct devpool_pool *pool, u64 size)
{
	return &pool->arenas[size > DEVPOOL_SMALL_MAX];
}

/**
 * devpool_pool_pending - bytes that are free, but which streams still use
 * @pool: the pool, locked
 *
 * Context: under the lock of the pool.
 * Return: those of pending blocks, and of cached ones that are one stream's only.
 */
u64 devpool_pool_pending(struct devpool_pool *pool)
{
	devpool_pool_unpark(pool);
	return pool->tally.active.now - pool->tally.allocated.now +
	       pool->arenas[0].guarded + pool->arenas[1].guarded;
}

static unsigned long devpool_pool_returnable(struct devpool_pool *pool)
{
	devpool_pool_unpark(pool);
	return pool->arenas[0].nr_returnable + pool->arenas[1].nr_returnable;
}

static u64 devpool_pool_spare(const struct devpool_pool *pool)
{
	return pool->tally.spare.now >> pool->device->chunk_shift;
}

/* Chunks of its own that a request may move behind other addresses. */
static unsigned long devpool_pool_movable(struct devpool_pool *pool)
{
	return pool->flags & DEVPOOL_POOL_STABLE ? 0 : devpool_pool_returnable(pool);
}

static bool devpool_pool_is_empty(struct devpool_pool *pool)
{
	devpool_pool_unpark(pool);
	return !pool->arenas[0].nr_busy && !pool->arenas[1].nr_busy &&
	       !pool->tally.resident.now && !pool->tally.spare.now &&
	       !pool->nr_leaving;
}

/**
 * devpool_pool_state - where in its life a pool is
 * @pool: the pool, locked
 *
 * Context: under the lock of the pool.
 * Return: one of &enum devpool_state.
 */
u32 devpool_pool_state(const struct devpool_pool *pool)
{
	lockdep_assert_held(&pool->lock);
	if (pool->use_count)
		return DEVPOOL_STATE_LIVE;
	return pool->gone ? DEVPOOL_STATE_GONE : DEVPOOL_STATE_FREEABLE;
}

/*
 * Takes @nr of the returnable chunks, those of @first before the other arena's,
 * makes sure that nobody sees them any more, and adds them to a list. Lets go of
 * the pool's lock in between.
 */
static void devpool_pool_take_out(struct devpool_pool *pool,
				  struct devpool_arena *first, unsigned long nr,
				  struct list_head *chunks)
{
	struct devpool_arena *other;
	unsigned long taken;
	LIST_HEAD(leaving);

	lockdep_assert_held(&pool->lock);
	other = first == pool->arenas ? pool->arenas + 1 : pool->arenas;
	taken = devpool_arena_detach(first, nr, &leaving);
	devpool_arena_detach(other, nr - taken, &leaving);
	mutex_unlock(&pool->lock);

	devpool_device_zap(pool->device, &leaving);

	mutex_lock(&pool->lock);
	devpool_arena_detached(first, &leaving);
	devpool_arena_detached(other, &leaving);
	list_splice_tail(&leaving, chunks);
	wake_up_all(&pool->flushed);
}

/* Chunks count as something else, for the pool and for who is behind it. */
static void devpool_pool_move(struct devpool_pool *pool, enum devpool_account from,
			      enum devpool_account to, unsigned long nr)
{
	u64 bytes = (u64)nr << pool->device->chunk_shift;

	lockdep_assert_held(&pool->lock);
	if (!nr)
		return;
	if (from == DEVPOOL_ACCOUNT_RESIDENT)
		devpool_counter_sub(&pool->tally.resident, bytes);
	else if (from == DEVPOOL_ACCOUNT_SPARE)
		devpool_counter_sub(&pool->tally.spare, bytes);
	if (to == DEVPOOL_ACCOUNT_RESIDENT)
		devpool_counter_add(&pool->tally.resident, bytes);
	else if (to == DEVPOOL_ACCOUNT_SPARE)
		devpool_counter_add(&pool->tally.spare, bytes);
	devpool_client_move(pool->creator, from, to, nr);
}

/* Takes @nr of the spare chunks, which are there, and adds them to a list. */
static void devpool_pool_take_spares(struct devpool_pool *pool, unsigned long nr,
				     struct list_head *chunks)
{
	lockdep_assert_held(&pool->lock);
	while (nr--)
		list_move_tail(pool->spares.next, chunks);
}

/* So many chunks are on their way no more. */
static void devpool_pool_have_left(struct devpool_pool *pool, unsigned long nr)
{
	lockdep_assert_held(&pool->lock);
	pool->nr_leaving -= nr;
	wake_up_all(&pool->flushed);
}

/*
 * Gives up to @max_spare spare chunks back, then up to @max returnable ones, some
 * at a time. Lets go of the pool's lock.
 */
static unsigned long devpool_pool_flush(struct devpool_pool *pool, u64 max_spare,
					u64 max)
{
	unsigned long flushed = 0, spares, nr;
	LIST_HEAD(chunks);

	lockdep_assert_held(&pool->lock);
	for (;;) {
		spares = min3(max_spare, devpool_pool_spare(pool),
			      (u64)DEVPOOL_FLUSH_BATCH);
		nr = min3(max, (u64)devpool_pool_returnable(pool),
			  (u64)DEVPOOL_FLUSH_BATCH);
		if (!spares && !nr)
			break;
		max_spare -= spares;
		max -= nr;
		/* At no time are they neither the pool's nor free. */
		devpool_supply_announce(pool->device, spares + nr);
		devpool_pool_move(pool, DEVPOOL_ACCOUNT_SPARE, DEVPOOL_ACCOUNT_NONE,
				  spares);
		devpool_pool_move(pool, DEVPOOL_ACCOUNT_RESIDENT, DEVPOOL_ACCOUNT_NONE,
				  nr);
		pool->nr_leaving += spares + nr;
		pool->nr_flushed += spares + nr;
		devpool_pool_take_spares(pool, spares, &chunks);
		devpool_pool_take_out(pool, pool->arenas, nr, &chunks);
		mutex_unlock(&pool->lock);

		trace_devpool_chunks_out(pool, spares + nr);
		devpool_supply_put(pool->device, &chunks);
		cond_resched();

		mutex_lock(&pool->lock);
		devpool_pool_have_left(pool, spares + nr);
		flushed += spares + nr;
	}
	if (flushed) {
		pool->tally.flushes++;
		trace_devpool_flush(pool, flushed);
	}
	return flushed;
}

/*
 * Makes up to @max returnable chunks spare: nothing shows them any more, but they
 * stay the pool's. Lets go of the pool's lock.
 */
static void devpool_pool_unmap(struct devpool_pool *pool, u64 max)
{
	unsigned long nr;
	LIST_HEAD(chunks);

	lockdep_assert_held(&pool->lock);
	for (;;) {
		nr = min3(max, (u64)devpool_pool_returnable(pool),
			  (u64)DEVPOOL_FLUSH_BATCH);
		if (!nr)
			break;
		max -= nr;
		devpool_pool_take_out(pool, pool->arenas, nr, &chunks);
		devpool_pool_move(pool, DEVPOOL_ACCOUNT_RESIDENT, DEVPOOL_ACCOUNT_SPARE,
				  nr);
		list_splice_init(&chunks, &pool->spares);
	}
}

/* Gives back what the pool has cached beyond its threshold. */
static void devpool_pool_release_excess(struct devpool_pool *pool)
{
	u64 cache, excess, spares;

	lockdep_assert_held(&pool->lock);
	cache = pool->tally.resident.now + pool->tally.spare.now -
		pool->tally.active.now;
	if (cache <= pool->release_threshold)
		return;
	excess = DIV_ROUND_UP_ULL(cache - pool->release_threshold,
				  devpool_chunk_size(pool->device));
	spares = min(excess, devpool_pool_spare(pool));
	devpool_pool_flush(pool, spares, excess - spares);
}

/* The client of a share knows the pool no more, but for a block that it maps. */
static void devpool_member_leave(struct devpool_member *member)
{
	lockdep_assert_held(&member->pool->lock);
	list_del_init(&member->link);
	devpool_client_drop_member(member->client, member);
	kref_put(&member->ref, devpool_member_release);
}

/*
 * Ends a share that nothing is left of. The caller has a reference on the pool, and
 * on the member if it goes on using that.
 */
static void devpool_member_settle(struct devpool_member *member)
{
	lockdep_assert_held(&member->pool->lock);
	if (unlikely(!member->ties) && hlist_empty(&member->blocks) &&
	    hlist_empty(&member->holds) && !list_empty(&member->link))
		devpool_member_leave(member);
}

/* The pool has nothing and nobody left. */
static void devpool_pool_retire(struct devpool_pool *pool)
{
	struct devpool_member *member, *next;
	struct devpool_tally tally;

	lockdep_assert_held(&pool->lock);
	pool->gone = true;
	trace_devpool_pool_gone(pool);

	devpool_pool_read(pool, &tally);
	devpool_device_retire_pool(pool->device, pool, &tally);
	devpool_client_retire_pool(pool->creator, pool, &tally);
	/* Its creator's share last: then the creator may create it anew. */
	list_for_each_entry_safe(member, next, &pool->members, link)
		if (member->client != pool->creator)
			devpool_member_leave(member);
	list_for_each_entry_safe(member, next, &pool->members, link)
		devpool_member_leave(member);
}

/**
 * devpool_pool_settle - does what follows from a pool's state
 * @pool: the pool, of which the caller has a reference
 *
 * To be called at the end of whatever may have changed that: gives back what nobody
 * is to have any more, and retires a pool that has nothing left.
 *
 * Context: under the lock of the pool, which is let go of; may sleep. Allocates
 * nothing.
 * Return: chunks given back.
 */
unsigned long devpool_pool_settle(struct devpool_pool *pool)
{
	unsigned long flushed = 0;

	lockdep_assert_held(&pool->lock);
	if (pool->release_threshold != U64_MAX)
		devpool_pool_release_excess(pool);
	while (pool->flushes_itself && !pool->use_count &&
	       (devpool_pool_returnable(pool) || pool->tally.spare.now))
		flushed += devpool_pool_flush(pool, U64_MAX, U64_MAX);
	if (!pool->use_count && !pool->gone && devpool_pool_is_empty(pool))
		devpool_pool_retire(pool);
	return flushed;
}

/**
 * devpool_pool_reaped - more of a pool's memory is free
 * @pool: the pool
 *
 * Context: under the lock of the pool.
 */
void devpool_pool_reaped(struct devpool_pool *pool)
{
	wake_up_all(&pool->flushed);
	devpool_supply_wake(pool->device);
}

/**
 * devpool_member_create - a client's share in a pool
 * @client: the client
 * @pool: the pool, of which the caller has a reference
 *
 * Nobody can find it yet. It has a reference on the pool, and the caller's is the
 * first one on itself.
 *
 * Context: may sleep.
 * Return: the member, or NULL if there is no memory.
 */
struct devpool_member *devpool_member_create(struct devpool_client *client,
					     struct devpool_pool *pool)
{
	struct devpool_member *member;

	member = kzalloc(sizeof(*member), GFP_KERNEL_ACCOUNT);
	if (!member)
		return NULL;
	kref_init(&member->ref);
	member->client = client;
	devpool_pool_get(pool);
	member->pool = pool;
	INIT_LIST_HEAD(&member->link);
	INIT_HLIST_HEAD(&member->blocks);
	INIT_HLIST_HEAD(&member->holds);
	return member;
}

/**
 * devpool_pool_create - a pool with a use count of 1, and its creator's share
 * @client: the creator
 * @id: its id; {0,0} for the client's default pool
 * @flags: bits of &enum devpool_pool_flags
 *
 * The reference that the count stands for is the caller's to give to whom it is
 * for. Nobody can find the pool yet: see devpool_pool_add().
 *
 * Context: may sleep.
 * Return: the member, or NULL if there is no memory.
 */
struct devpool_member *devpool_pool_create(struct devpool_client *client,
					   const struct devpool_pool_id *id, u32 flags)
{
	struct devpool_member *member;
	struct devpool_pool *pool;
	unsigned int i;

	pool = kzalloc(sizeof(*pool), GFP_KERNEL_ACCOUNT);
	if (!pool)
		return NULL;
	kref_init(&pool->ref);
	pool->device = client->device;
	kref_get(&client->ref);
	pool->creator = client;
	pool->id = *id;
	pool->number = devpool_id_number(id) ?: client->serial << DEVPOOL_SERIAL_SHIFT;
	pool->flags = flags;
	mutex_init(&pool->lock);
	pool->use_count = 1;
	pool->release_threshold = U64_MAX;
	pool->limit = U64_MAX;
	INIT_LIST_HEAD(&pool->spares);
	init_waitqueue_head(&pool->flushed);
	INIT_LIST_HEAD(&pool->members);
	devpool_lanes_init(pool);
	for (i = 0; i < ARRAY_SIZE(pool->arenas); i++)
		devpool_arena_init(&pool->arenas[i], client->device->chunk_shift,
				   flags & DEVPOOL_POOL_NO_SPLIT,
				   flags & DEVPOOL_POOL_STABLE);

	member = devpool_member_create(client, pool);
	if (member) {
		list_add(&member->link, &pool->members);
		member->ties = 1;
	}
	/* From now on it is the member's. */
	devpool_pool_put(pool);
	return member;
}

/**
 * devpool_pool_add - puts a private pool where it can be found
 * @member: its creator's share, of which the creator's table gets the first
 *	reference
 *
 * Context: may sleep, no lock held.
 * Return: 0, or -EBUSY if the creator has a pool of that id.
 */
int devpool_pool_add(struct devpool_member *member)
{
	struct devpool_pool *pool = member->pool;
	int err = 0;

	mutex_lock(&pool->lock);
	if (devpool_client_add_member(member->client, member)) {
		err = -EBUSY;
	} else {
		atomic_inc(&pool->device->nr_pools);
		devpool_device_add_pool(pool->device, pool);
		trace_devpool_pool_create(pool);
	}
	mutex_unlock(&pool->lock);
	return err;
}

/**
 * devpool_member_tie - one more reference on a pool, by which a client knows it
 * @member: the client's share
 *
 * Context: under the lock of the pool.
 * Return: 0, -ENOENT if the client does not know the pool any more, or -EDQUOT.
 */
int devpool_member_tie(struct devpool_member *member)
{
	struct devpool_pool *pool = member->pool;

	lockdep_assert_held(&pool->lock);
	if (list_empty(&member->link))
		return -ENOENT;
	if (pool->use_count == DEVPOOL_MAX_USE_COUNT)
		return -EDQUOT;
	/* Whoever was emptying it because nobody uses it has nothing to wait for. */
	if (!pool->use_count)
		wake_up_all(&pool->flushed);
	WRITE_ONCE(pool->use_count, pool->use_count + 1);
	member->ties++;
	return 0;
}

/* So many references less. Who waits for memory of a pool that nobody uses is told. */
static void devpool_pool_drop_uses(struct devpool_pool *pool, u32 nr)
{
	lockdep_assert_held(&pool->lock);
	WRITE_ONCE(pool->use_count, pool->use_count - nr);
	if (!pool->use_count)
		devpool_supply_wake(pool->device);
}

/**
 * devpool_member_untie - undoes devpool_member_tie()
 * @member: the client's share, of which the caller has a reference
 *
 * Context: under the lock of the pool, which is given up by devpool_pool_unlock().
 */
void devpool_member_untie(struct devpool_member *member)
{
	struct devpool_pool *pool = member->pool;

	lockdep_assert_held(&pool->lock);
	devpool_pool_drop_uses(pool, 1);
	member->ties--;
	devpool_member_settle(member);
}

/**
 * devpool_member_get - one more reference for the client, by POOL_GET
 * @member: its share
 * @use_count: set to the pool's references, this one included
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT if the client does not know the pool any more, or -EDQUOT.
 */
int devpool_member_get(struct devpool_member *member, u32 *use_count)
{
	struct devpool_pool *pool = member->pool;
	int err;

	mutex_lock(&pool->lock);
	err = devpool_member_tie(member);
	if (!err) {
		member->gets++;
		*use_count = pool->use_count;
		trace_devpool_pool_get(pool);
	}
	devpool_pool_unlock(pool);
	return err;
}

/**
 * devpool_member_put - one reference of the client's less, POOL_PUT
 * @member: its share, of which the caller has a reference
 * @use_count: set to the pool's references that are left
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: 0, or -ENOENT if it has none by POOL_GET.
 */
int devpool_member_put(struct devpool_member *member, u32 *use_count)
{
	struct devpool_pool *pool = member->pool;
	int err = -ENOENT;

	mutex_lock(&pool->lock);
	if (member->gets) {
		member->gets--;
		devpool_member_untie(member);
		*use_count = pool->use_count;
		trace_devpool_pool_put(pool);
		err = 0;
	}
	devpool_pool_unlock(pool);
	return err;
}

/**
 * devpool_member_attach - a reference for a client that came by the pool's file
 * @member: a share for it, made by devpool_member_create() and used up
 * @out: set to the client's share, that one or the one that it has, with a
 *	reference for the caller
 * @use_count: set to the pool's references, this one included
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT if the pool file was released, or -EDQUOT.
 */
int devpool_member_attach(struct devpool_member *member,
			  struct devpool_member **out, u32 *use_count)
{
	struct devpool_pool *pool = member->pool;
	struct devpool_member *share;
	int err = 0;

	mutex_lock(&pool->lock);
	if (!pool->file_open)
		err = -ENOENT;
	else if (pool->use_count == DEVPOOL_MAX_USE_COUNT)
		err = -EDQUOT;
	if (!err) {
		share = devpool_client_add_member(member->client, member);
		if (!share) {
			share = member;
			kref_get(&share->ref);
			list_add(&share->link, &pool->members);
		}
		devpool_member_tie(share);
		share->gets++;
		kref_get(&share->ref);
		*out = share;
		*use_count = pool->use_count;
		trace_devpool_pool_get(pool);
	}
	mutex_unlock(&pool->lock);
	/* Its table has one by now, or the share was not wanted. */
	kref_put(&member->ref, devpool_member_release);
	return err;
}

/**
 * devpool_pool_release - the last reference of a pool is gone
 * @ref: its reference count
 *
 * Context: may sleep, allocates nothing. The pool is gone: it has no block and
 * no chunk, and no mapping.
 */
void devpool_pool_release(struct kref *ref)
{
	struct devpool_pool *pool = container_of(ref, struct devpool_pool, ref);
	struct devpool_range *range, *next;
	struct devpool_block *block;
	struct hlist_node *spare;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pool->arenas); i++) {
		struct devpool_arena *arena = &pool->arenas[i];

		list_for_each_entry_safe(range, next, &arena->ranges, link) {
			block = devpool_arena_remove_range(arena, range);
			kmem_cache_free(devpool_block_cache, block);
			devpool_device_drop_range(pool->device, range);
		}
		hlist_for_each_entry_safe(block, spare, &arena->stock, node)
			kmem_cache_free(devpool_block_cache, block);
	}
	devpool_lanes_exit(pool);
	mutex_destroy(&pool->lock);
	kref_put(&pool->creator->ref, devpool_client_free);
	kfree_rcu(pool, rcu);
}

/**
 * devpool_member_release - the last reference of a member is gone
 * @ref: its reference count
 *
 * Context: may sleep, allocates nothing.
 */
void devpool_member_release(struct kref *ref)
{
	struct devpool_member *member = container_of(ref, struct devpool_member, ref);

	devpool_pool_put(member->pool);
	kfree_rcu(member, rcu);
}

/* Gives the arena the block structs that it lacks. Lets go of the lock. */
static int devpool_pool_stock_up(struct devpool_pool *pool,
				 struct devpool_arena *arena, unsigned long nr)
{
	struct devpool_block *block;
	struct hlist_node *next;
	HLIST_HEAD(blocks);
	int err = 0;

	lockdep_assert_held(&pool->lock);
	mutex_unlock(&pool->lock);
	for (nr += DEVPOOL_STOCK_BATCH; nr; nr--) {
		block = kmem_cache_alloc(devpool_block_cache, DEVPOOL_GFP);
		if (!block) {
			err = -ENOMEM;
			break;
		}
		hlist_add_head(&block->node, &blocks);
	}
	mutex_lock(&pool->lock);
	hlist_for_each_entry_safe(block, next, &blocks, node)
		devpool_arena_donate(arena, block);
	return err;
}

/*
 * Gets the arena a free run of addresses. If some are about to become free it
 * waits for these. Lets go of the lock.
 */
static int devpool_pool_more_addresses(struct devpool_pool *pool,
				       struct devpool_arena *arena, u64 size)
{
	struct devpool_range *range;
	struct devpool_block *block;
	int err;

	lockdep_assert_held(&pool->lock);
	if (arena->nr_leaving) {
		mutex_unlock(&pool->lock);
		err = wait_event_killable(pool->flushed,
					  /* A hint: looked at again under the lock. */
					  !data_race(arena->nr_leaving));
		mutex_lock(&pool->lock);
		return err ? -EINTR : 0;
	}
	mutex_unlock(&pool->lock);

	block = kmem_cache_alloc(devpool_block_cache, DEVPOOL_GFP);
	if (block)
		range = devpool_device_deal_range(pool->device, pool, arena, size);
	else
		range = ERR_PTR(-ENOMEM);

	mutex_lock(&pool->lock);
	if (IS_ERR(range)) {
		if (block)
			kmem_cache_free(devpool_block_cache, block);
		return PTR_ERR(range);
	}
	devpool_arena_add_range(arena, range, block);
	return 0;
}

static void devpool_unreserve_pieces(struct devpool_range *range,
				     const struct devpool_placement *place,
				     unsigned long nr)
{
	unsigned long piece = devpool_range_piece(range, place->hole);

	while (nr--) {
		xa_release(&range->pieces, piece + nr);
		cond_resched();
	}
}

/* Makes room in the range's table of pieces for the holes of a placement. */
static int devpool_reserve_pieces(struct devpool_range *range,
				  const struct devpool_placement *place)
{
	unsigned long piece = devpool_range_piece(range, place->hole);
	unsigned long i;
	int err;

	for (i = 0; i < place->nr_holes; i++) {
		err = xa_reserve(&range->pieces, piece + i, DEVPOOL_GFP);
		if (!err && fatal_signal_pending(current)) {
			i++;
			err = -EINTR;
		}
		if (err) {
			devpool_unreserve_pieces(range, place, i);
			return err;
		}
		cond_resched();
	}
	return 0;
}

/* What a request had to do for its chunks: see &struct devpool_tally. */
struct devpool_gathered {
	u64 fallbacks;
	u64 reclaims;
	u64 zeroed_bytes;
};

/*
 * Gets chunks for a pool that are zero: new ones, for what the device lacks or the
 * limit of the pool's creator does not allow out of the client's other caches, and
 * for what the device lacks then out of its heap's. All or nothing; then they are
 * reserved.
 */
static int devpool_gather(struct devpool_pool *pool, struct devpool_client *client,
			  u64 nr, struct list_head *chunks,
			  struct devpool_gathered *gathered)
{
	struct devpool_device *device = pool->device;
	s64 mark = devpool_heap_mark(device);
	u64 got = 0, missing, more;
	struct devpool_chunk *chunk;
	bool reserved = false, settled;
	LIST_HEAD(taken);
	int err = 0;

	for (;;) {
		/* Before it is looked at what is free: it may be by then. */
		settled = devpool_heap_is_settled(device, mark);
		if (!reserved) {
			err = devpool_client_reserve(pool->creator, nr, &missing);
			/* What would not help is not taken. */
			if (err && (client != pool->creator || missing > nr - got))
				break;
			reserved = !err;
		}
		if (reserved) {
			err = devpool_supply_take(device, nr - got, &taken, &missing);
			if (err != -ENOSPC && err != -ENOMEM)
				break;
		}
		more = devpool_client_reclaim(client, pool, missing, &taken);
		/* What the heap has is nobody's, and counts against no limit of theirs. */
		if (reserved && more < missing)
			more += devpool_heap_reclaim(device, pool, missing - more, &taken);
		if (!more && (!reserved || settled || devpool_heap_settle(device, mark)))
			break;
		got += more;
	}
	if (err) {
		if (reserved)
			devpool_client_move(pool->creator, DEVPOOL_ACCOUNT_RESERVED,
					    DEVPOOL_ACCOUNT_NONE, nr);
		devpool_supply_announce(device, got);
		devpool_supply_put(device, &taken);
		return err;
	}
	gathered->reclaims += got;
	gathered->zeroed_bytes += devpool_chunks_clean(device, &taken);
	list_for_each_entry(chunk, &taken, link) {
		gathered->fallbacks += !!(chunk->flags & DEVPOOL_CHUNK_FALLBACK);
		cond_resched();
	}
	list_splice_tail(&taken, chunks);
	return 0;
}

/* Makes sure of a place for new chunks within the pool's limit. */
static int devpool_pool_reserve_chunks(struct devpool_pool *pool, u64 nr)
{
	unsigned int shift = pool->device->chunk_shift;
	u64 sum;

	lockdep_assert_held(&pool->lock);
	sum = (pool->tally.resident.now >> shift) + devpool_pool_spare(pool);
	if (sum + pool->nr_reserved + nr > pool->limit)
		return -EDQUOT;
	pool->nr_reserved += nr;
	return 0;
}

/* Puts chunks behind the holes of a placement and completes it. */
static struct devpool_block *devpool_pool_fill(struct devpool_pool *pool,
					       struct devpool_arena *arena,
					       struct devpool_placement *place,
					       struct list_head *chunks)
{
	struct devpool_range *range = place->block->range;
	struct devpool_chunk *chunk, *next;
	u64 addr = place->hole;

	lockdep_assert_held(&pool->lock);
	list_for_each_entry_safe(chunk, next, chunks, link) {
		list_del_init(&chunk->link);
		/* What the pool had itself mostly is as it was written. */
		if (!(chunk->flags & DEVPOOL_CHUNK_CLEAN))
			place->block->zero = false;
		chunk->flags &= ~DEVPOOL_CHUNK_CLEAN;
		devpool_arena_fill(range, addr, chunk);
		addr += devpool_chunk_size(pool->device);
		cond_resched();
	}
	return devpool_arena_commit(arena, place);
}

/*
 * Serves a request at a place with holes. What the pool has itself is counted
 * again each time that the lock was let go, and taken last, when mostly nothing can
 * fail any more: only if that takes several turns, and somebody else takes what was
 * left meanwhile, it can. Lets go of the lock.
 */
static int devpool_pool_grow(struct devpool_pool *pool, struct devpool_client *client,
			     struct devpool_arena *arena,
			     struct devpool_placement *place,
			     struct devpool_block **out)
{
	unsigned long have = 0, grown = 0, moved = 0, spares = 0, missing, nr;
	struct devpool_range *range = place->block->range;
	struct devpool_tally *tally = &pool->tally;
	struct devpool_gathered gathered = {};
	LIST_HEAD(chunks);
	int err;

	lockdep_assert_held(&pool->lock);
	mutex_unlock(&pool->lock);
	err = devpool_reserve_pieces(range, place);
	mutex_lock(&pool->lock);
	if (err)
		goto undo;

	while (have < place->nr_holes) {
		unsigned long movable = devpool_pool_movable(pool);
		u64 spare = devpool_pool_spare(pool);

		missing = place->nr_holes - have;
		if (movable + spare < missing) {
			nr = missing - movable - spare;
			err = devpool_pool_reserve_chunks(pool, nr);
			if (err)
				goto give_back;
			mutex_unlock(&pool->lock);
			err = devpool_gather(pool, client, nr, &chunks, &gathered);
			mutex_lock(&pool->lock);
			if (err) {
				pool->nr_reserved -= nr;
				goto give_back;
			}
			grown += nr;
		} else if (movable) {
			nr = min3(missing, movable, DEVPOOL_FLUSH_BATCH);
			devpool_pool_take_out(pool, arena, nr, &chunks);
			moved += nr;
		} else {
			nr = missing;
			devpool_pool_take_spares(pool, nr, &chunks);
			devpool_pool_move(pool, DEVPOOL_ACCOUNT_SPARE,
					  DEVPOOL_ACCOUNT_RESIDENT, nr);
			spares += nr;
		}
		have += nr;
	}
	pool->nr_reserved -= grown;
	devpool_pool_move(pool, DEVPOOL_ACCOUNT_RESERVED, DEVPOOL_ACCOUNT_RESIDENT, grown);
	*out = devpool_pool_fill(pool, arena, place, &chunks);

	tally->recycles += moved;
	tally->grows += grown;
	tally->fallbacks += gathered.fallbacks;
	tally->reclaims += gathered.reclaims;
	tally->zeroed_bytes += gathered.zeroed_bytes;
	if (grown)
		trace_devpool_chunks_in(pool, grown);
	return 0;

give_back:
	pool->nr_reserved -= grown;
	devpool_supply_announce(pool->device, have);
	devpool_pool_move(pool, DEVPOOL_ACCOUNT_RESERVED, DEVPOOL_ACCOUNT_NONE, grown);
	devpool_pool_move(pool, DEVPOOL_ACCOUNT_RESIDENT, DEVPOOL_ACCOUNT_NONE,
			  moved + spares);
	mutex_unlock(&pool->lock);
	/* While the addresses are still nobody else's. */
	devpool_unreserve_pieces(range, place, place->nr_holes);
	devpool_supply_put(pool->device, &chunks);
	mutex_lock(&pool->lock);
undo:
	devpool_block_unhold(place->block,
			     min_not_zero(place->point_below, place->point_above));
	devpool_arena_undo(arena, place);
	return err;
}

/*
 * Could the request be served if all went well? What cannot is refused before it
 * takes addresses and makes room for pieces, of which it may want a lot.
 */
static int devpool_pool_could_have(struct devpool_pool *pool,
				   struct devpool_client *client, u64 size)
{
	/* Wherever it goes, the first and the last piece may be there already. */
	u64 needed = size >> pool->device->chunk_shift;
	u64 available;

	lockdep_assert_held(&pool->lock);
	if (needed > pool->limit)
		return -EDQUOT;
	/* In the order in which a flush moves chunks from the one to the other. */
	available = devpool_pool_movable(pool) + devpool_pool_spare(pool);
	available += devpool_client_held(client);
	available += devpool_heap_held(pool->device);
	available += devpool_supply_free(pool->device) + 1;
	if (needed > available)
		return -ENOSPC;
	return 0;
}

/**
 * devpool_pool_refuse - counts a request that is refused before it is tried
 * @pool: the pool
 * @bytes: of the request
 * @err: why
 *
 * Context: may sleep, no lock held.
 * Return: @err.
 */
int devpool_pool_refuse(struct devpool_pool *pool, u64 bytes, int err)
{
	mutex_lock(&pool->lock);
	pool->tally.ooms++;
	trace_devpool_oom(pool, bytes, err);
	mutex_unlock(&pool->lock);
	return err;
}

/* The guards whose memory a request can have, of those of its stream. */
static struct devpool_guards *devpool_request_usable(const struct devpool_request *request,
						     struct devpool_guards *guards)
{
	/* Zeroing is work of the host, which is in order with no stream. */
	return request->zero ? NULL : guards;
}

/*
 * What devpool_pool_reserve() does where the pool has to get something first.
 * Lets go of the lock.
 */
static int devpool_pool_reserve_slow(struct devpool_member *member,
				     struct devpool_arena *arena,
				     const struct devpool_request *request,
				     struct devpool_stream *stream,
				     struct devpool_block **out)
{
	struct devpool_client *client = member->client;
	struct devpool_pool *pool = member->pool;
	struct devpool_guards *guards = NULL, *usable;
	struct devpool_placement place;
	unsigned long wants;
	int err = 0;

	lockdep_assert_held(&pool->lock);
	while (!err) {
		if (!pool->use_count || list_empty(&member->link))
			return -ENOENT;
		if (!llist_empty(&pool->told))
			devpool_pool_reap(pool);
		devpool_pool_unpark(pool);
		if (stream) {
			guards = devpool_pool_find_guards(pool, arena, stream);
			if (!guards) {
				err = devpool_pool_add_lane(pool, stream);
				continue;
			}
		}
		wants = devpool_arena_wants(arena, request->size);
		if (wants) {
			err = devpool_pool_stock_up(pool, arena, wants);
			continue;
		}
		usable = devpool_request_usable(request, guards);
		*out = devpool_arena_fit(arena, usable, request->size, request->align);
		if (*out) {
			pool->tally.hits++;
			devpool_block_hold(*out, guards);
			return 0;
		}
		err = devpool_pool_could_have(pool, client, request->size);
		if (err)
			return err;
		if (devpool_arena_place(arena, usable, request->size, request->align,
					&place)) {
			/* Keeps the guards where the lock is let go. */
			devpool_block_hold(place.block, guards);
			return devpool_pool_grow(pool, client, arena, &place, out);
		}
		err = devpool_pool_more_addresses(pool, arena, request->size);
	}
	return err;
}

/*
 * Is there anything that the client could be served with when streams are done with
 * it? Looks at the pool, which is locked, then at the client's caches that could be
 * taken. Lets go of the lock.
 */
static bool devpool_member_awaits(struct devpool_member *member)
{
	struct devpool_pool *pool = member->pool;
	bool awaits;

	lockdep_assert_held(&pool->lock);
	if (devpool_pool_pending(pool))
		return true;
	mutex_unlock(&pool->lock);
	awaits = devpool_client_awaits(member->client);
	mutex_lock(&pool->lock);
	return awaits;
}

static bool devpool_has_passed(s64 timeout)
{
	return timeout != S64_MAX && ktime_get_ns() >= (u64)max(timeout, 0LL);
}

/* Time until a moment in jiffies, at least one. */
static long devpool_time_left(s64 timeout)
{
	s64 left = timeout - (s64)ktime_get_ns();

	if (timeout == S64_MAX)
		return MAX_SCHEDULE_TIMEOUT;
	return left <= 0 ? 1 : min(nsecs_to_jiffies64(left) + 1,
				   (u64)MAX_SCHEDULE_TIMEOUT - 1);
}

/*
 * Tries, and where streams use what is missing waits until they do not. After the
 * first try it is asked before each whether they do, so that nothing that happens
 * meanwhile is missed. Lets go of the lock.
 */
static noinline int devpool_pool_reserve_waiting(struct devpool_member *member,
						 const struct devpool_request *request,
						 struct devpool_block **out)
{
	wait_queue_head_t *arrived = &member->pool->device->supply.arrived;
	struct devpool_pool *pool = member->pool;
	struct devpool_arena *arena = devpool_pool_arena(pool, request->size);
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	struct devpool_stream *stream = NULL;
	bool awaits, waits = false;
	int err;

	lockdep_assert_held(&pool->lock);
	if (request->stream) {
		stream = devpool_client_get_stream(member->client, request->stream);
		if (!stream)
			return -ENOENT;
	}
	err = devpool_pool_reserve_slow(member, arena, request, stream, out);
	while (err == -ENOSPC || err == -EDQUOT) {
		/* What cannot be had is not waited for. */
		if (devpool_pool_could_have(pool, member->client, request->size))
			break;
		awaits = devpool_member_awaits(member);
		err = devpool_pool_reserve_slow(member, arena, request, stream, out);
		if ((err != -ENOSPC && err != -EDQUOT) || !awaits)
			break;
		if (stream && READ_ONCE(stream->ended)) {
			err = -ENOENT;
			break;
		}
		if (devpool_has_passed(request->timeout)) {
			err = waits ? -ETIME : -EAGAIN;
			break;
		}
		if (signal_pending(current)) {
			err = -EINTR;
			break;
		}
		mutex_unlock(&pool->lock);
		if (!waits)
			add_wait_queue(arrived, &wait);
		else
			wait_woken(&wait, TASK_INTERRUPTIBLE,
				   devpool_time_left(request->timeout));
		mutex_lock(&pool->lock);
		pool->tally.waits += !waits;
		waits = true;
	}
	if (waits)
		remove_wait_queue(arrived, &wait);
	if (stream) {
		devpool_pool_settle_lane(pool, stream);
		devpool_stream_put(stream);
	}
	return err;
}

/**
 * devpool_pool_awaits - does a stream use anything that is free
 * @pool: the pool, of which the caller has a reference
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: true if so.
 */
bool devpool_pool_awaits(struct devpool_pool *pool)
{
	bool awaits;

	devpool_pool_lock(pool);
	awaits = devpool_pool_pending(pool);
	devpool_pool_unlock(pool);
	return awaits;
}

/*
 * The block that was freed last, if it is just what is asked for, or else the best fit,
 * if that needs no more block structs than there are.
 */
static __always_inline struct devpool_block *
devpool_pool_hit(struct devpool_member *member, const struct devpool_request *request)
{
	struct devpool_pool *pool = member->pool;
	struct devpool_arena *arena = devpool_pool_arena(pool, request->size);
	struct hlist_node *parked = pool->parked.first;
	struct devpool_block *block = hlist_entry_safe(parked, struct devpool_block, node);
	struct devpool_guards *guards = NULL;

	if (unlikely(request->stream)) {
		guards = devpool_pool_recent_guards(pool, arena, member->client,
						    request->stream);
		if (!guards)
			return NULL;
	}
	if (likely(block) && block->size == request->size && block->guards == guards &&
	    !(block->addr & (request->align - 1)) && !(request->zero && block->point)) {
		__hlist_del(parked);
		pool->nr_parked--;
		return block;
	}

	devpool_pool_unpark(pool);
	if (devpool_arena_wants(arena, request->size))
		return NULL;
	/* The stream may have ended, and its lane with what was parked. */
	if (unlikely(request->stream)) {
		guards = devpool_pool_recent_guards(pool, arena, member->client,
						    request->stream);
		if (!guards)
			return NULL;
	}
	block = devpool_arena_fit(arena, devpool_request_usable(request, guards),
				  request->size, request->align);
	if (block && unlikely(guards))
		devpool_block_hold(block, guards);
	return block;
}

/* A request has got a block. */
static __always_inline void devpool_pool_account(struct devpool_member *member,
						 const struct devpool_request *request,
						 struct devpool_block *block)
{
	struct devpool_tally *tally = &member->pool->tally;

	block->requested = request->requested;
	hlist_add_head(&block->node, &member->blocks);
	devpool_counter_add(&tally->allocated, block->size);
	devpool_counter_add(&tally->requested, request->requested);
	devpool_counter_add(&tally->active, block->size);
	devpool_counter_add(&tally->blocks, 1);
	if (READ_ONCE(member->client->recent) != member)
		WRITE_ONCE(member->client->recent, member);
}

static __always_inline struct devpool_block *
__devpool_pool_serve(struct devpool_member *member, const struct devpool_request *request)
{
	struct devpool_pool *pool = member->pool;
	struct devpool_block *block;

	lockdep_assert_held(&pool->lock);
	if (unlikely(!pool->use_count || list_empty(&member->link)))
		return NULL;
	block = devpool_pool_hit(member, request);
	if (likely(block)) {
		pool->tally.hits++;
		devpool_pool_account(member, request, block);
	}
	return block;
}

/**
 * devpool_pool_serve - a block for a request, if the cache has it as it stands
 * @member: who asks
 * @request: what is asked for
 *
 * Context: under the lock of the pool.
 * Return: the block, as of devpool_pool_reserve(), or NULL.
 */
struct devpool_block *devpool_pool_serve(struct devpool_member *member,
					 const struct devpool_request *request)
{
	return __devpool_pool_serve(member, request);
}

/**
 * devpool_pool_reserve - finds memory for a block
 * @member: who asks; the client's other caches may be taken
 * @request: what is asked for
 * @out: set to the block. Nobody can free it until devpool_pool_publish(); it goes
 *	back by devpool_pool_unreserve()
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT if nobody uses the pool any more or the client does not know
 * it any more, -ENOSPC, -EDQUOT, -ENOMEM, -EAGAIN, -ETIME, or -EINTR for a signal.
 */
int devpool_pool_reserve(struct devpool_member *member,
			 const struct devpool_request *request,
			 struct devpool_block **out)
{
	struct devpool_pool *pool = member->pool;
	struct devpool_block *block;
	int err = 0;

	devpool_pool_lock(pool);
	block = __devpool_pool_serve(member, request);
	if (unlikely(!block)) {
		/* Keeps the share where the lock is let go. */
		member->ties++;
		err = devpool_pool_reserve_waiting(member, request, &block);
		member->ties--;
		if (!err)
			devpool_pool_account(member, request, block);
	}
	if (unlikely(err)) {
		if (err == -ENOSPC || err == -EDQUOT || err == -ENOMEM ||
		    err == -EAGAIN || err == -ETIME) {
			pool->tally.ooms++;
			trace_devpool_oom(pool, request->size, err);
		}
		devpool_member_settle(member);
	}
	devpool_pool_unlock(pool);
	*out = block;
	return err;
}

/* Structs that merging has set free, beyond what may be needed again. */
static void devpool_pool_trim_stock(struct devpool_pool *pool,
				    struct devpool_arena *arena)
{
	unsigned int i;

	lockdep_assert_held(&pool->lock);
	/* A free sets at most two of them free. */
	for (i = 0; i < 2; i++) {
		struct devpool_block *block = devpool_arena_surplus(arena);

		if (likely(!block))
			return;
		kmem_cache_free(devpool_block_cache, block);
	}
}

/* A busy block becomes cached, for its stream alone until a point that is not 0. */
static void devpool_pool_cache_block(struct devpool_pool *pool,
				     struct devpool_block *block, u64 point)
{
	struct devpool_arena *arena = block->range->arena;

	lockdep_assert_held(&pool->lock);
	if (unlikely(block->guards))
		devpool_block_unhold(block, point);
	devpool_arena_free(arena, block, point);
	devpool_pool_trim_stock(pool, arena);
	devpool_supply_wake(pool->device);
}

/**
 * devpool_pool_unpark - what is free is all to be seen as such
 * @pool: the pool
 *
 * What is freed is mostly wanted again soon, by a request of the same size. So blocks
 * stay as they were, for the arena still busy, until somebody looks at what is free:
 * whoever does calls this first, under the same hold of the lock. Then everything is
 * as if they had been cached when they were freed.
 *
 * Context: under the lock of the pool, of which the caller has a reference; may sleep.
 * Allocates nothing.
 */
void devpool_pool_unpark(struct devpool_pool *pool)
{
	struct devpool_block *block;
	struct hlist_node *next;
	HLIST_HEAD(oldest_first);

	lockdep_assert_held(&pool->lock);
	if (likely(!pool->nr_parked))
		return;
	pool->nr_parked = 0;
	hlist_for_each_entry_safe(block, next, &pool->parked, node) {
		__hlist_del(&block->node);
		hlist_add_head(&block->node, &oldest_first);
	}
	hlist_for_each_entry_safe(block, next, &oldest_first, node)
		devpool_pool_cache_block(pool, block, block->point);
	/* Points may have signalled meanwhile. */
	if (!llist_empty(&pool->told))
		devpool_pool_reap(pool);
}

/* What is freed is parked, with the point that it will be guarded by. */
static __always_inline void devpool_pool_park(struct devpool_pool *pool,
					      struct devpool_block *block, u64 point)
{
	if (unlikely(pool->nr_parked == DEVPOOL_MAX_PARKED))
		devpool_pool_unpark(pool);
	block->member = NULL;
	block->point = point;
	hlist_add_head(&block->node, &pool->parked);
	pool->nr_parked++;
	devpool_supply_wake(pool->device);
}

/**
 * devpool_pool_end_pending - no stream that was recorded on a block uses it any more
 * @pool: its pool
 * @block: the block, pending
 *
 * Context: under the lock of the pool.
 */
void devpool_pool_end_pending(struct devpool_pool *pool, struct devpool_block *block)
{
	u64 point = block->point;

	devpool_counter_sub(&pool->tally.active, block->size);
	/* Its own stream may have come as far by now. */
	if (point && !devpool_block_is_open(block, point))
		point = 0;
	devpool_pool_cache_block(pool, block, point);
}

/**
 * devpool_pool_unguard - the stream of a cached block does not use it any more
 * @pool: its pool
 * @block: the block
 *
 * Context: under the lock of the pool.
 */
void devpool_pool_unguard(struct devpool_pool *pool, struct devpool_block *block)
{
	struct devpool_arena *arena = block->range->arena;

	lockdep_assert_held(&pool->lock);
	devpool_arena_unguard(arena, block);
	devpool_pool_trim_stock(pool, arena);
}

/**
 * devpool_pool_unreserve - undoes devpool_pool_reserve()
 * @member: whose it is
 * @block: the block
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_pool_unreserve(struct devpool_member *member,
			    struct devpool_block *block)
{
	struct devpool_pool *pool = member->pool;
	struct devpool_tally *tally = &pool->tally;

	mutex_lock(&pool->lock);
	devpool_counter_add_undo(&tally->allocated, block->size);
	devpool_counter_add_undo(&tally->requested, block->requested);
	devpool_counter_add_undo(&tally->active, block->size);
	devpool_counter_add_undo(&tally->blocks, 1);
	hlist_del(&block->node);
	/* For its stream alone as long as it was before. */
	devpool_pool_cache_block(pool, block, block->point);
	devpool_member_settle(member);
	devpool_pool_unlock(pool);
}

/**
 * devpool_block_clear - writes zero over a block
 * @block: the block, which nobody else looks at
 *
 * Context: may sleep, no lock held.
 * Return: 0, or -EINTR if the caller is dying.
 */
int devpool_block_clear(const struct devpool_block *block)
{
	const struct devpool_device *device = block->range->pool->device;
	const struct devpool_backend *backend = device->backend;
	u64 addr = block->addr, end = devpool_block_end(block);
	u64 chunk_size = devpool_chunk_size(device);
	unsigned int shift = device->chunk_shift;

	/* The pieces of a block that somebody has stay, so this needs no lock. */
	while (addr < end) {
		u64 next = min(ALIGN_DOWN(addr, chunk_size) + chunk_size, end);

		if (fatal_signal_pending(current))
			return -EINTR;
		backend->zero(devpool_range_chunk(block->range, addr), shift,
			      addr & (chunk_size - 1), next - addr);
		addr = next;
		cond_resched();
	}
	return 0;
}

/**
 * devpool_pool_zero - makes sure that a reserved block is zero
 * @pool: the pool
 * @block: the block, not published
 *
 * Context: may sleep, no lock held.
 * Return: 0, or -EINTR if the caller is dying.
 */
int devpool_pool_zero(struct devpool_pool *pool, struct devpool_block *block)
{
	int err;

	if (block->zero)
		return 0;
	err = devpool_block_clear(block);
	if (err)
		return err;
	mutex_lock(&pool->lock);
	block->zero = true;
	pool->tally.zeroed_bytes += block->size;
	mutex_unlock(&pool->lock);
	return 0;
}

/* What the last FREE does to a live block, its first owner's; is it zero? */
static __always_inline void devpool_pool_free_block(struct devpool_member *member,
						    struct devpool_block *block, bool zero)
{
	struct devpool_pool *pool = member->pool;
	struct devpool_tally *tally = &pool->tally;
	u64 point = 0;

	lockdep_assert_held(&pool->lock);
	devpool_counter_sub(&tally->allocated, block->size);
	devpool_counter_sub(&tally->requested, block->requested);
	devpool_counter_sub(&tally->blocks, 1);
	trace_devpool_free(pool, block);
	block->zero = zero;
	__hlist_del(&block->node);
	if (unlikely(block->guards))
		point = devpool_block_last_open(block);
	if (unlikely(block->uses) && devpool_block_pend(pool, block, point)) {
		trace_devpool_pending(pool, block);
	} else {
		devpool_counter_sub(&tally->active, block->size);
		if (block->size <= DEVPOOL_PARKED_MAX)
			devpool_pool_park(pool, block, point);
		else
			devpool_pool_cache_block(pool, block, point);
	}
	devpool_member_settle(member);
}

/* Takes a hold off its block's list and off its member's, and ends it. */
static void devpool_hold_end(struct devpool_hold *hold)
{
	struct devpool_hold **link = &hold->block->holds;

	lockdep_assert_held(&hold->member->pool->lock);
	while (*link != hold)
		link = &(*link)->next;
	*link = hold->next;
	hlist_del(&hold->node);
	kfree(hold);
}

/*
 * One member's reference on a block less, where it is not the only one: that of its
 * first owner, or a hold.
 */
static void devpool_pool_drop_hold(struct devpool_member *member,
				   struct devpool_block *block, struct devpool_hold *hold)
{
	lockdep_assert_held(&member->pool->lock);
	if (!hold) {
		/* One of those who hold it takes the first owner's place. */
		hold = block->holds;
		hlist_del(&block->node);
		hlist_add_head(&block->node, &hold->member->blocks);
		block->member = hold->member;
	}
	devpool_hold_end(hold);
	devpool_member_settle(member);
}

/* The live block that an address is inside, and the share of its first owner. */
static __always_inline struct devpool_block *
devpool_pool_find_around(struct devpool_range *range, u64 addr,
			 struct devpool_member **owner)
{
	struct devpool_block *block;

	lockdep_assert_held(&range->pool->lock);
	block = devpool_range_find(range, addr);
	if (!block || block->state != DEVPOOL_BLOCK_IS_BUSY)
		return NULL;
	/* Pairs with devpool_pool_publish(). */
	*owner = smp_load_acquire(&block->member);
	return *owner ? block : NULL;
}

/* The same where that is the block's address. */
static __always_inline struct devpool_block *
devpool_pool_find_live(struct devpool_range *range, u64 addr,
		       struct devpool_member **owner)
{
	struct devpool_block *block = devpool_pool_find_around(range, addr, owner);

	return block && block->addr == addr ? block : NULL;
}

/* The hold that a client has on a block. */
static struct devpool_hold *devpool_block_find_hold(const struct devpool_block *block,
						    const struct devpool_client *client)
{
	struct devpool_hold *hold = block->holds;

	while (hold && hold->member->client != client)
		hold = hold->next;
	return hold;
}

/**
 * devpool_pool_find_held - a block that a client has a reference on
 * @range: the range that the address is in; its pool has a reference
 * @client: the client
 * @addr: the address
 *
 * Context: under the lock of the pool.
 * Return: the live block of that address, or NULL.
 */
struct devpool_block *devpool_pool_find_held(struct devpool_range *range,
					     const struct devpool_client *client, u64 addr)
{
	struct devpool_member *owner;
	struct devpool_block *block;

	block = devpool_pool_find_live(range, addr, &owner);
	if (!block || (owner->client != client && !devpool_block_find_hold(block, client)))
		return NULL;
	return block;
}

static __always_inline int __devpool_pool_free(struct devpool_range *range,
					       struct devpool_client *client, u64 addr)
{
	struct devpool_member *owner;
	struct devpool_block *block;
	struct devpool_hold *hold;

	block = devpool_pool_find_live(range, addr, &owner);
	if (unlikely(!block))
		return -ENOENT;
	if (unlikely(owner->client != client)) {
		hold = devpool_block_find_hold(block, client);
		if (!hold)
			return -ENOENT;
		devpool_pool_drop_hold(hold->member, block, hold);
	} else if (unlikely(block->holds)) {
		devpool_pool_drop_hold(owner, block, NULL);
	} else {
		devpool_pool_free_block(owner, block, false);
	}
	return 0;
}

/**
 * devpool_pool_free_locked - drops a client's reference on a block
 * @range: the range that the address is in; its pool has a reference
 * @client: who asks
 * @addr: the address
 *
 * Context: under the lock of the pool, to be given up by devpool_pool_unlock().
 * Allocates nothing.
 * Return: 0, or -ENOENT if that is not the address of a live block on which the
 * client has a reference.
 */
int devpool_pool_free_locked(struct devpool_range *range, struct devpool_client *client,
			     u64 addr)
{
	return __devpool_pool_free(range, client, addr);
}

/**
 * devpool_pool_free - the same of an unlocked pool
 * @range: the range that the address is in; its pool has a reference
 * @client: who asks
 * @addr: the address
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: as devpool_pool_free_locked().
 */
int devpool_pool_free(struct devpool_range *range, struct devpool_client *client,
		      u64 addr)
{
	struct devpool_pool *pool = range->pool;
	int err;

	mutex_lock(&pool->lock);
	err = __devpool_pool_free(range, client, addr);
	devpool_pool_unlock(pool);
	return err;
}

/**
 * devpool_pool_return - a block goes back of which nobody else has ever known
 * @member: whose it is
 * @use: its only use, the caller's again
 * @zero: it is zero
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_pool_return(struct devpool_member *member, struct devpool_use *use, bool zero)
{
	struct devpool_pool *pool = member->pool;

	devpool_pool_lock(pool);
	devpool_block_end_use(pool, use);
	devpool_pool_free_block(member, use->block, zero);
	devpool_pool_unlock(pool);
}

/**
 * devpool_pool_retain - one more client has a reference on a block
 * @range: the range that the address is in; its pool has a reference
 * @member: the client's share in that pool
 * @addr: the address
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT if that is not the address of a live block or the client does
 * not know the pool any more, -EBUSY if it has a reference, -EDQUOT or -ENOMEM.
 */
int devpool_pool_retain(struct devpool_range *range, struct devpool_member *member,
			u64 addr)
{
	struct devpool_client *client = member->client;
	struct devpool_pool *pool = range->pool;
	struct devpool_member *owner;
	struct devpool_block *block;
	struct devpool_hold *hold;
	int err = 0;

	hold = kmalloc(sizeof(*hold), GFP_KERNEL_ACCOUNT);
	if (!hold)
		return -ENOMEM;
	mutex_lock(&pool->lock);
	block = devpool_pool_find_live(range, addr, &owner);
	if (!block || list_empty(&member->link)) {
		err = -ENOENT;
	} else if (owner->client == client || devpool_block_find_hold(block, client)) {
		err = -EBUSY;
	} else if (!atomic_add_unless(&client->nr_blocks, 1, devpool_max_blocks)) {
		err = -EDQUOT;
	} else {
		hold->member = member;
		hold->block = block;
		hold->next = block->holds;
		block->holds = hold;
		hlist_add_head(&hold->node, &member->holds);
		hold = NULL;
	}
	mutex_unlock(&pool->lock);
	kfree(hold);
	return err;
}

/**
 * devpool_pool_record - RECORD
 * @range: the range that the address is in; its pool has a reference
 * @client: who asks
 * @addr: the address, anywhere in a block
 * @stream: the stream; NULL for the host, which is recorded for nothing
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT if that is not inside a live block on which the client has a
 * reference, or -ENOMEM.
 */
int devpool_pool_record(struct devpool_range *range, struct devpool_client *client,
			u64 addr, struct devpool_stream *stream)
{
	struct devpool_pool *pool = range->pool;
	struct devpool_member *owner;
	struct devpool_block *block;
	struct devpool_use *use;
	int err;

	use = devpool_use_alloc();
	if (!use)
		return -ENOMEM;
	mutex_lock(&pool->lock);
	do {
		block = devpool_pool_find_around(range, addr, &owner);
		if (!block || (owner->client != client &&
			       !devpool_block_find_hold(block, client))) {
			err = -ENOENT;
			break;
		}
		err = stream ? devpool_block_record(pool, block, stream, &use) : 0;
		if (err == -EAGAIN)
			err = devpool_pool_add_lane(pool, stream) ?: -EAGAIN;
	} while (err == -EAGAIN);
	if (stream)
		devpool_pool_settle_lane(pool, stream);
	mutex_unlock(&pool->lock);
	kfree(use);
	return err;
}

/**
 * devpool_member_close - the client's file is closed
 * @member: one of its shares, with a reference if it is not that in its default
 *	pool, whose table's reference is given up
 *
 * Drops the client's references on blocks and on the pool.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_member_close(struct devpool_member *member)
{
	struct devpool_client *client = member->client;
	struct devpool_pool *pool = member->pool;
	struct devpool_block *block;
	struct devpool_hold *hold;
	unsigned int dropped = 0;

	devpool_pool_get(pool);
	mutex_lock(&pool->lock);
	/* Keeps the share while it gets empty. */
	member->ties++;
	for (;;) {
		block = hlist_entry_safe(member->blocks.first, struct devpool_block, node);
		hold = hlist_entry_safe(member->holds.first, struct devpool_hold, node);
		if (block && block->holds)
			devpool_pool_drop_hold(member, block, NULL);
		else if (block)
			devpool_pool_free_block(member, block, false);
		else if (hold)
			devpool_pool_drop_hold(member, hold->block, hold);
		else
			break;
		if (++dropped % DEVPOOL_CLOSE_BATCH == 0) {
			devpool_pool_unlock(pool);
			cond_resched();
			mutex_lock(&pool->lock);
		}
	}
	if (pool->creator == client)
		pool->flushes_itself = true;
	/* Not if the pool is gone by now: then the share has ended already. */
	if (!list_empty(&member->link)) {
		if (member == client->home) {
			devpool_pool_drop_uses(pool, pool->use_count);
		} else {
			devpool_pool_drop_uses(pool, member->gets);
			devpool_member_leave(member);
		}
	}
	devpool_pool_unlock(pool);
	devpool_pool_put(pool);
}

/* Adds what stands in the pool to a report. */
static void devpool_pool_report(struct devpool_pool *pool,
				struct devpool_emptied *emptied)
{
	lockdep_assert_held(&pool->lock);
	emptied->kept += pool->tally.resident.now;
	emptied->pending += devpool_pool_pending(pool);
	emptied->live += pool->tally.allocated.now;
	emptied->state = devpool_pool_state(pool);
}

/*
 * Gives back, or makes spare, what EMPTY_CACHE is to, if that is anything now.
 * Returns whether there would be more if streams were done with it. Lets go of the
 * lock.
 */
static bool devpool_pool_empty_once(struct devpool_pool *pool, u32 flags, u64 keep,
				    unsigned long *flushed)
{
	unsigned int shift = pool->device->chunk_shift;
	u64 resident, excess;
	bool empties;

	lockdep_assert_held(&pool->lock);
	resident = pool->tally.resident.now >> shift;
	excess = resident - min(resident, keep >> shift);
	empties = flags & DEVPOOL_EMPTY_TRIM || !pool->use_count;
	if (empties) {
		if (flags & DEVPOOL_EMPTY_KEEP_PHYSICAL)
			devpool_pool_unmap(pool, excess);
		else
			*flushed += devpool_pool_flush(pool, U64_MAX, excess);
	}
	*flushed += devpool_pool_settle(pool);
	return empties && devpool_pool_pending(pool) &&
	       pool->tally.resident.now >> shift > keep >> shift;
}

/**
 * devpool_pool_empty - EMPTY_CACHE of one pool, and what closing its file does
 * @pool: the pool, of which the caller has a reference
 * @flags: bits of &enum devpool_empty_flags
 * @timeout: how long to wait for streams
 * @keep: resident bytes at which to stop
 * @emptied: report, to which is added; NULL for none
 *
 * With %DEVPOOL_EMPTY_RELEASE the pool file gives up its reference in the same
 * act. If that was the last one, the cache goes back to the device now and
 * whenever more becomes free.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: 0, or -ENOENT if the pool file had been released before.
 */
int devpool_pool_empty(struct devpool_pool *pool, u32 flags, s64 timeout, u64 keep,
		       struct devpool_emptied *emptied)
{
	DEFINE_WAIT_FUNC(wait, woken_wake_function);
	unsigned long flushed = 0;
	u64 before;

	add_wait_queue(&pool->flushed, &wait);
	devpool_pool_lock(pool);
	if (flags & DEVPOOL_EMPTY_RELEASE) {
		if (!pool->file_open) {
			devpool_pool_unlock(pool);
			remove_wait_queue(&pool->flushed, &wait);
			return -ENOENT;
		}
		WRITE_ONCE(pool->file_open, false);
		devpool_pool_drop_uses(pool, 1);
		pool->flushes_itself = true;
	}
	while (devpool_pool_empty_once(pool, flags, keep, &flushed) &&
	       !devpool_has_passed(timeout) && !signal_pending(current)) {
		before = pool->nr_flushed;
		mutex_unlock(&pool->lock);
		wait_woken(&wait, TASK_INTERRUPTIBLE, devpool_time_left(timeout));
		devpool_pool_lock(pool);
		/* What went back by itself meanwhile. */
		flushed += pool->nr_flushed - before;
	}
	/* What somebody else is giving back meanwhile is told of as given back. */
	while (emptied && !pool->use_count && pool->nr_leaving &&
	       !fatal_signal_pending(current)) {
		mutex_unlock(&pool->lock);
		wait_event_killable(pool->flushed,
				    /* A hint: looked at again under the lock. */
				    !data_race(pool->nr_leaving));
		devpool_pool_lock(pool);
		devpool_pool_settle(pool);
	}
	if (emptied) {
		emptied->freed += (u64)flushed << pool->device->chunk_shift;
		devpool_pool_report(pool, emptied);
	}
	mutex_unlock(&pool->lock);
	remove_wait_queue(&pool->flushed, &wait);
	return 0;
}

/**
 * devpool_pool_reclaim - takes chunks out of a pool's cache for another pool
 * @pool: the pool, of which the caller has a reference
 * @nr: how many at the most
 * @chunks: list to which they are added; they are the caller's
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: how many were taken.
 */
u64 devpool_pool_reclaim(struct devpool_pool *pool, u64 nr, struct list_head *chunks)
{
	unsigned long part;
	u64 taken;

	devpool_pool_lock(pool);
	taken = min(nr, devpool_pool_spare(pool));
	devpool_pool_move(pool, DEVPOOL_ACCOUNT_SPARE, DEVPOOL_ACCOUNT_NONE, taken);
	devpool_pool_take_spares(pool, taken, chunks);
	for (;;) {
		part = min3(nr - taken, (u64)devpool_pool_returnable(pool),
			    (u64)DEVPOOL_FLUSH_BATCH);
		if (!part)
			break;
		devpool_pool_move(pool, DEVPOOL_ACCOUNT_RESIDENT, DEVPOOL_ACCOUNT_NONE,
				  part);
		pool->nr_leaving += part;
		devpool_pool_take_out(pool, pool->arenas, part, chunks);
		devpool_pool_have_left(pool, part);
		taken += part;
	}
	if (taken) {
		pool->tally.flushes++;
		trace_devpool_reclaim(pool, taken);
		trace_devpool_chunks_out(pool, taken);
	}
	devpool_pool_unlock(pool);
	return taken;
}

/**
 * devpool_pool_get_attr - reads an attribute
 * @pool: the pool
 * @attr: one of &enum devpool_attr
 *
 * Context: may sleep, no lock held.
 * Return: its value.
 */
u64 devpool_pool_get_attr(struct devpool_pool *pool, u32 attr)
{
	u64 value;

	mutex_lock(&pool->lock);
	if (attr == DEVPOOL_ATTR_RELEASE_THRESHOLD)
		value = pool->release_threshold;
	else if (pool->limit == U64_MAX)
		value = 0;
	else
		value = pool->limit << pool->device->chunk_shift;
	mutex_unlock(&pool->lock);
	return value;
}

/**
 * devpool_pool_set_attr - sets an attribute, which takes effect at once
 * @pool: the pool, of which the caller has a reference
 * @attr: one of &enum devpool_attr
 * @value: its value; a limit in whole chunks
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_pool_set_attr(struct devpool_pool *pool, u32 attr, u64 value)
{
	mutex_lock(&pool->lock);
	if (attr == DEVPOOL_ATTR_RELEASE_THRESHOLD)
		pool->release_threshold = value;
	else
		pool->limit = value ? value >> pool->device->chunk_shift : U64_MAX;
	devpool_supply_wake(pool->device);
	devpool_pool_unlock(pool);
}

static int devpool_pool_close(struct inode *inode, struct file *file)
{
	struct devpool_pool *pool = file->private_data;

	devpool_pool_empty(pool, DEVPOOL_EMPTY_RELEASE, 0, 0, NULL);
	devpool_pool_put(pool);
	return 0;
}

const struct file_operations devpool_pool_fops = {
	.owner = THIS_MODULE,
	.release = devpool_pool_close,
	.unlocked_ioctl = devpool_pool_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.show_fdinfo = devpool_pool_show_fdinfo,
};

/**
 * devpool_pool_cache_init - at load
 *
 * Context: module load.
 * Return: 0 or -ENOMEM.
 */
int devpool_pool_cache_init(void)
{
	devpool_block_cache = KMEM_CACHE(devpool_block, DEVPOOL_SLAB_FLAGS);
	return devpool_block_cache ? 0 : -ENOMEM;
}

/**
 * devpool_pool_cache_exit - at unload
 *
 * Context: module unload, all pools are gone.
 */
void devpool_pool_cache_exit(void)
{
	kmem_cache_destroy(devpool_block_cache);
}
