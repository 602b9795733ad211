// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools: where requests are served, and where caches end.
 *
 * A request goes through the attempts in the order of their cost: what is
 * resident; the pool's own returnable chunks, moved behind other addresses; new
 * chunks from the device; caches of the client's that nobody was promised.
 */
#include <linux/anon_inodes.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat.h"
#include "private.h"

/* Block structs allocated beyond those in want, so that not each ALLOC does. */
#define DEVPOOL_STOCK_BATCH 8
/* Chunks that are taken out at a time, before others may have the pool. */
#define DEVPOOL_FLUSH_BATCH 4096UL
/* Blocks that a client's close frees before it lets others have the pool. */
#define DEVPOOL_CLOSE_BATCH 1024

static struct kmem_cache *devpool_block_cache;

static_assert(sizeof(struct devpool_block) <= 160);

static struct devpool_arena *devpool_pool_arena(struct devpool_pool *pool, u64 size)
{
	return &pool->arenas[size > DEVPOOL_SMALL_MAX];
}

static unsigned long devpool_pool_returnable(const struct devpool_pool *pool)
{
	return pool->arenas[0].nr_returnable + pool->arenas[1].nr_returnable;
}

static bool devpool_pool_is_empty(const struct devpool_pool *pool)
{
	return !pool->arenas[0].nr_busy && !pool->arenas[1].nr_busy &&
	       !pool->tally.resident.now && !pool->nr_leaving;
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

/* The chunks are not the pool's any more: the books, before they are moved. */
static void devpool_pool_uncharge(struct devpool_pool *pool, unsigned long nr)
{
	lockdep_assert_held(&pool->lock);
	devpool_counter_sub(&pool->tally.resident, (u64)nr << pool->device->chunk_shift);
	devpool_client_uncharge(pool->creator, nr);
}

/* Gives up to @max chunks back, some at a time. Lets go of the pool's lock. */
static unsigned long devpool_pool_flush(struct devpool_pool *pool, unsigned long max)
{
	unsigned long flushed = 0, nr;
	LIST_HEAD(chunks);

	lockdep_assert_held(&pool->lock);
	for (;;) {
		nr = min3(max - flushed, devpool_pool_returnable(pool),
			  DEVPOOL_FLUSH_BATCH);
		if (!nr)
			break;
		/* At no time are they neither resident nor free. */
		devpool_supply_announce(pool->device, nr);
		devpool_pool_uncharge(pool, nr);
		pool->nr_leaving += nr;
		devpool_pool_take_out(pool, pool->arenas, nr, &chunks);
		mutex_unlock(&pool->lock);

		devpool_supply_put(pool->device, &chunks);
		cond_resched();

		mutex_lock(&pool->lock);
		pool->nr_leaving -= nr;
		flushed += nr;
	}
	if (flushed)
		pool->tally.flushes++;
	return flushed;
}

/* The pool has nothing and nobody left. */
static void devpool_pool_retire(struct devpool_pool *pool)
{
	struct devpool_client *creator = pool->creator;
	struct devpool_member *member, *next;
	struct devpool_tally tally;

	lockdep_assert_held(&pool->lock);
	pool->gone = true;

	list_for_each_entry_safe(member, next, &pool->members, link) {
		list_del_init(&member->link);
		devpool_client_forget(member->client, member);
		if (member != member->client->home)
			xa_erase(&member->client->members,
				 devpool_id_count(&pool->id));
		kref_put(&member->ref, devpool_member_release);
	}

	devpool_pool_read(pool, &tally);
	spin_lock(&creator->lock);
	devpool_tally_add(&creator->retired, &tally);
	creator->nr_retired++;
	if (devpool_id_number(&pool->id))
		creator->nr_pools--;
	spin_unlock(&creator->lock);
	if (devpool_id_number(&pool->id))
		atomic_dec(&pool->device->nr_pools);
}

/*
 * Does what follows from a pool's state, at the end of whatever may have changed
 * it: gives back what nobody is to have any more, and retires a pool that has
 * nothing left. The caller has a reference on the pool. May let go of the lock.
 */
static unsigned long devpool_pool_settle(struct devpool_pool *pool)
{
	unsigned long flushed = 0;

	lockdep_assert_held(&pool->lock);
	while (pool->flushes_itself && !pool->use_count &&
	       devpool_pool_returnable(pool))
		flushed += devpool_pool_flush(pool, ULONG_MAX);
	if (!pool->use_count && !pool->gone && devpool_pool_is_empty(pool))
		devpool_pool_retire(pool);
	return flushed;
}

static void devpool_pool_unlock(struct devpool_pool *pool)
{
	if (unlikely(!pool->use_count))
		devpool_pool_settle(pool);
	mutex_unlock(&pool->lock);
}

/**
 * devpool_pool_create - a pool with a use count of 1, and the client's share
 * @client: the client
 * @id: its id; {0,0} for the client's default pool
 *
 * The reference that the count stands for is the caller's to give to whom it is
 * for. Nobody can find the pool yet.
 *
 * Context: may sleep.
 * Return: the member, or NULL if there is no memory.
 */
struct devpool_member *devpool_pool_create(struct devpool_client *client,
					   const struct devpool_pool_id *id)
{
	struct devpool_member *member;
	struct devpool_pool *pool;
	unsigned int i;

	pool = kzalloc(sizeof(*pool), GFP_KERNEL_ACCOUNT);
	member = kzalloc(sizeof(*member), GFP_KERNEL_ACCOUNT);
	if (!pool || !member) {
		kfree(member);
		kfree(pool);
		return NULL;
	}

	kref_init(&pool->ref);
	pool->device = client->device;
	kref_get(&client->ref);
	pool->creator = client;
	pool->id = *id;
	mutex_init(&pool->lock);
	pool->use_count = 1;
	init_waitqueue_head(&pool->flushed);
	INIT_LIST_HEAD(&pool->members);
	for (i = 0; i < ARRAY_SIZE(pool->arenas); i++)
		devpool_arena_init(&pool->arenas[i], client->device->chunk_shift);

	/* The first reference of the pool is the member's. */
	kref_init(&member->ref);
	member->client = client;
	member->pool = pool;
	INIT_HLIST_HEAD(&member->blocks);
	list_add(&member->link, &pool->members);
	return member;
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
 * Gets chunks for a pool that are zero: new ones, for what the device lacks out
 * of the client's other caches. All or nothing.
 */
static int devpool_gather(struct devpool_pool *pool, struct devpool_client *client,
			  u64 nr, struct list_head *chunks,
			  struct devpool_gathered *gathered)
{
	struct devpool_device *device = pool->device;
	u64 got = 0, missing, more;
	struct devpool_chunk *chunk;
	LIST_HEAD(taken);
	int err;

	for (;;) {
		err = devpool_supply_take(device, nr - got, &taken, &missing);
		if (err != -ENOSPC && err != -ENOMEM)
			break;
		more = devpool_client_reclaim(client, pool, missing, &taken);
		if (!more)
			break;
		got += more;
	}
	if (err) {
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
		chunk->flags &= ~DEVPOOL_CHUNK_CLEAN;
		devpool_arena_fill(range, addr, chunk);
		addr += devpool_chunk_size(pool->device);
		cond_resched();
	}
	return devpool_arena_commit(arena, place);
}

/*
 * Serves a request at a place with holes. What the pool can recycle is counted
 * again each time that the lock was let go, and moved last, when mostly nothing
 * can fail any more: only if that takes several turns, and somebody else takes
 * what was left meanwhile, it can. Lets go of the lock.
 */
static int devpool_pool_grow(struct devpool_pool *pool, struct devpool_client *client,
			     struct devpool_arena *arena,
			     struct devpool_placement *place,
			     struct devpool_block **out)
{
	struct devpool_range *range = place->block->range;
	unsigned long have = 0, moved = 0, missing, nr;
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
		missing = place->nr_holes - have;
		nr = devpool_pool_returnable(pool);
		if (nr >= missing) {
			nr = min(missing, DEVPOOL_FLUSH_BATCH);
			devpool_pool_take_out(pool, arena, nr, &chunks);
			moved += nr;
		} else {
			nr = missing - nr;
			mutex_unlock(&pool->lock);
			err = devpool_gather(pool, client, nr, &chunks, &gathered);
			mutex_lock(&pool->lock);
			if (err)
				goto give_back;
		}
		have += nr;
	}
	*out = devpool_pool_fill(pool, arena, place, &chunks);

	tally->recycles += moved;
	tally->grows += have - moved;
	tally->fallbacks += gathered.fallbacks;
	tally->reclaims += gathered.reclaims;
	tally->zeroed_bytes += gathered.zeroed_bytes;
	if (have > moved) {
		devpool_counter_add(&tally->resident,
				    (u64)(have - moved) << pool->device->chunk_shift);
		devpool_client_charge(pool->creator, have - moved);
	}
	return 0;

give_back:
	devpool_supply_announce(pool->device, have);
	if (moved)
		devpool_pool_uncharge(pool, moved);
	mutex_unlock(&pool->lock);
	/* While the addresses are still nobody else's. */
	devpool_unreserve_pieces(range, place, place->nr_holes);
	devpool_supply_put(pool->device, &chunks);
	mutex_lock(&pool->lock);
undo:
	devpool_arena_undo(arena, place);
	return err;
}

/*
 * Could the request be served if all went well? What cannot is refused before it
 * takes addresses and makes room for pieces, of which it may want a lot.
 */
static bool devpool_pool_could_have(struct devpool_pool *pool,
				    struct devpool_client *client, u64 size)
{
	/* Wherever it goes, the first and the last piece may be there already. */
	u64 needed = size >> pool->device->chunk_shift;
	u64 available;

	lockdep_assert_held(&pool->lock);
	/* In the order in which a flush moves chunks from the one to the other. */
	available = devpool_pool_returnable(pool) + devpool_client_resident(client);
	available += devpool_supply_free(pool->device) + 1;
	return needed <= available;
}

/**
 * devpool_pool_refuse - counts a request that is refused before it is tried
 * @pool: the pool
 * @err: why
 *
 * Context: may sleep, no lock held.
 * Return: @err.
 */
int devpool_pool_refuse(struct devpool_pool *pool, int err)
{
	mutex_lock(&pool->lock);
	pool->tally.ooms++;
	mutex_unlock(&pool->lock);
	return err;
}

/*
 * What devpool_pool_reserve() does where the pool has to get something first.
 * Lets go of the lock.
 */
static noinline int devpool_pool_reserve_slow(struct devpool_pool *pool,
					      struct devpool_client *client,
					      struct devpool_arena *arena, u64 size,
					      u64 align, struct devpool_block **out)
{
	struct devpool_placement place;
	unsigned long wants;
	int err = 0;

	lockdep_assert_held(&pool->lock);
	while (!err) {
		if (!pool->use_count)
			return -ENOENT;
		wants = devpool_arena_wants(arena, size);
		if (wants) {
			err = devpool_pool_stock_up(pool, arena, wants);
			continue;
		}
		*out = devpool_arena_fit(arena, size, align);
		if (*out) {
			pool->tally.hits++;
			return 0;
		}
		if (!devpool_pool_could_have(pool, client, size))
			return -ENOSPC;
		if (devpool_arena_place(arena, size, align, &place))
			return devpool_pool_grow(pool, client, arena, &place, out);
		err = devpool_pool_more_addresses(pool, arena, size);
	}
	return err;
}

/**
 * devpool_pool_reserve - finds memory for a block
 * @member: who asks; the client's other caches may be taken
 * @size: bytes, rounded up to the granule
 * @align: alignment of the address, a power of two of at least the granule and
 *	at most the chunk size
 * @requested: bytes before rounding
 * @out: set to the block. Nobody can free it until devpool_pool_publish(); it goes
 *	back by devpool_pool_unreserve()
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT if nobody uses the pool any more, -ENOSPC, -ENOMEM, or
 * -EINTR if the caller is dying.
 */
int devpool_pool_reserve(struct devpool_member *member, u64 size, u64 align,
			 u64 requested, struct devpool_block **out)
{
	struct devpool_pool *pool = member->pool;
	struct devpool_arena *arena = devpool_pool_arena(pool, size);
	struct devpool_tally *tally = &pool->tally;
	struct devpool_block *block = NULL;
	int err = 0;

	mutex_lock(&pool->lock);
	if (likely(pool->use_count && !devpool_arena_wants(arena, size)))
		block = devpool_arena_fit(arena, size, align);
	if (likely(block))
		tally->hits++;
	else
		err = devpool_pool_reserve_slow(pool, member->client, arena, size,
						align, &block);
	if (likely(!err)) {
		block->requested = requested;
		hlist_add_head(&block->node, &member->blocks);
		devpool_counter_add(&tally->allocated, size);
		devpool_counter_add(&tally->requested, requested);
		devpool_counter_add(&tally->blocks, 1);
		if (READ_ONCE(member->client->recent) != member)
			WRITE_ONCE(member->client->recent, member);
		*out = block;
	} else if (err == -ENOSPC || err == -ENOMEM) {
		tally->ooms++;
	}
	devpool_pool_unlock(pool);
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

static void devpool_pool_drop_block(struct devpool_pool *pool,
				    struct devpool_block *block)
{
	struct devpool_arena *arena = block->range->arena;

	lockdep_assert_held(&pool->lock);
	hlist_del(&block->node);
	devpool_arena_free(arena, block);
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
	devpool_counter_add_undo(&tally->blocks, 1);
	devpool_pool_drop_block(pool, block);
	devpool_pool_unlock(pool);
}

/* What a FREE does to a live block, and the close of its client. */
static void devpool_pool_free_block(struct devpool_pool *pool,
				    struct devpool_block *block)
{
	struct devpool_tally *tally = &pool->tally;

	lockdep_assert_held(&pool->lock);
	devpool_counter_sub(&tally->allocated, block->size);
	devpool_counter_sub(&tally->requested, block->requested);
	devpool_counter_sub(&tally->blocks, 1);
	devpool_pool_drop_block(pool, block);
}

/**
 * devpool_pool_free - frees a block
 * @range: the range that the address is in; its pool has a reference
 * @client: who asks
 * @addr: the address
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: 0, or -ENOENT if that is not the address of a live block of the
 * client's.
 */
int devpool_pool_free(struct devpool_range *range, struct devpool_client *client,
		      u64 addr)
{
	struct devpool_pool *pool = range->pool;
	struct devpool_member *member = NULL;
	struct devpool_block *block;

	mutex_lock(&pool->lock);
	block = devpool_range_find(range, addr);
	if (block && block->state == DEVPOOL_BLOCK_IS_BUSY && block->addr == addr)
		/* Pairs with devpool_pool_publish(). */
		member = smp_load_acquire(&block->member);
	if (unlikely(!member || member->client != client)) {
		mutex_unlock(&pool->lock);
		return -ENOENT;
	}
	devpool_pool_free_block(pool, block);
	devpool_pool_unlock(pool);
	return 0;
}

/**
 * devpool_member_close - the client's file is closed
 * @member: one of its shares; its table's reference is given up, and that on
 *	the pool of a default pool's owner
 *
 * Frees the client's blocks.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_member_close(struct devpool_member *member)
{
	struct devpool_client *client = member->client;
	struct devpool_pool *pool = member->pool;
	struct devpool_block *block;
	unsigned int freed = 0;

	devpool_pool_get(pool);
	mutex_lock(&pool->lock);
	while ((block = hlist_entry_safe(member->blocks.first, struct devpool_block,
					 node))) {
		devpool_pool_free_block(pool, block);
		if (++freed % DEVPOOL_CLOSE_BATCH == 0) {
			devpool_pool_unlock(pool);
			cond_resched();
			mutex_lock(&pool->lock);
		}
	}
	/* Not if the pool is gone by now: then it has left the table already. */
	if (!list_empty(&member->link)) {
		if (member == client->home) {
			WRITE_ONCE(pool->use_count, 0);
			pool->flushes_itself = true;
		} else {
			list_del_init(&member->link);
			devpool_client_forget(client, member);
			xa_erase(&client->members, devpool_id_count(&pool->id));
			kref_put(&member->ref, devpool_member_release);
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
	emptied->live += pool->tally.allocated.now;
	emptied->state = devpool_pool_state(pool);
}

/**
 * devpool_pool_empty - EMPTY_CACHE of one pool, and what closing its file does
 * @pool: the pool, of which the caller has a reference
 * @flags: bits of &enum devpool_empty_flags
 * @keep: resident bytes at which to stop
 * @emptied: report, to which is added
 *
 * With %DEVPOOL_EMPTY_RELEASE the pool file gives up its reference in the same
 * act. If that was the last one, the cache goes back to the device now and
 * whenever more becomes free.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: 0, or -ENOENT if the pool file had been released before.
 */
int devpool_pool_empty(struct devpool_pool *pool, u32 flags, u64 keep,
		       struct devpool_emptied *emptied)
{
	unsigned int shift = pool->device->chunk_shift;
	unsigned long flushed = 0;
	u64 resident;

	mutex_lock(&pool->lock);
	if (flags & DEVPOOL_EMPTY_RELEASE) {
		if (!pool->file_open) {
			mutex_unlock(&pool->lock);
			return -ENOENT;
		}
		WRITE_ONCE(pool->file_open, false);
		WRITE_ONCE(pool->use_count, pool->use_count - 1);
		pool->flushes_itself = true;
	}
	resident = pool->tally.resident.now >> shift;
	if ((flags & DEVPOOL_EMPTY_TRIM || !pool->use_count) &&
	    resident > keep >> shift)
		flushed = devpool_pool_flush(pool, resident - (keep >> shift));
	flushed += devpool_pool_settle(pool);
	emptied->freed += (u64)flushed << shift;
	devpool_pool_report(pool, emptied);
	mutex_unlock(&pool->lock);
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
	u64 taken = 0;

	mutex_lock(&pool->lock);
	for (;;) {
		part = min3((unsigned long)min_t(u64, nr - taken, ULONG_MAX),
			    devpool_pool_returnable(pool), DEVPOOL_FLUSH_BATCH);
		if (!part)
			break;
		devpool_pool_uncharge(pool, part);
		pool->nr_leaving += part;
		devpool_pool_take_out(pool, pool->arenas, part, chunks);
		pool->nr_leaving -= part;
		taken += part;
	}
	if (taken)
		pool->tally.flushes++;
	devpool_pool_unlock(pool);
	return taken;
}

static int devpool_pool_close(struct inode *inode, struct file *file)
{
	struct devpool_pool *pool = file->private_data;
	struct devpool_emptied unread = {};

	devpool_pool_empty(pool, DEVPOOL_EMPTY_RELEASE, 0, &unread);
	devpool_pool_put(pool);
	return 0;
}

const struct file_operations devpool_pool_fops = {
	.owner = THIS_MODULE,
	.release = devpool_pool_close,
	.unlocked_ioctl = devpool_pool_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
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
