// SPDX-License-Identifier: GPL-2.0-only
/*
 * Snapshots: every block that has memory, in the order of the addresses.
 *
 * Addresses are the device's, so one of them is all that is needed to go on, and
 * whatever happens in between cannot make it a wrong one.
 */
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "private.h"

/*
 * The range that comes next at or after an address, of whatever pool, with a
 * reference on its pool. Sets @addr behind those that are about to go.
 */
static struct devpool_range *devpool_snapshot_range(struct devpool_device *device,
						    u64 *addr)
{
	struct devpool_range *range;

	rcu_read_lock();
	while ((range = devpool_device_next_range(device, *addr))) {
		if (kref_get_unless_zero(&range->pool->ref))
			break;
		*addr = range->base + range->size;
	}
	rcu_read_unlock();
	return range;
}

static void devpool_snapshot_block(const struct devpool_pool *pool,
				   const struct devpool_block *block,
				   struct devpool_snapshot_entry *entry)
{
	const struct devpool_client *creator = pool->creator;
	bool live = block->state == DEVPOOL_BLOCK_IS_BUSY && !block->pending;

	*entry = (struct devpool_snapshot_entry){
		.addr = block->addr,
		.bytes = block->size,
		.requested = live ? block->requested : 0,
		.pool = pool->id,
		.stream = devpool_block_stream(block),
		.state = live ? DEVPOOL_BLOCK_LIVE :
			 block->pending ? DEVPOOL_BLOCK_PENDING : DEVPOOL_BLOCK_CACHED,
		.client = creator->serial,
		.pid = pid_vnr(creator->opener),
	};
	strscpy(entry->comm, creator->comm, sizeof(entry->comm));
}

/* Is there memory behind all of it? A request may still be getting it some. */
static bool devpool_snapshot_shows(const struct devpool_block *block)
{
	return block->state == DEVPOOL_BLOCK_IS_CACHED ||
	       (block->state == DEVPOOL_BLOCK_IS_BUSY && block->requested);
}

/* A snapshot that is being taken. */
struct devpool_snapshot_walk {
	struct devpool_snapshot_entry *entries;
	u32 nr;
	u32 filled;
	u64 addr;
};

/*
 * Tells of the blocks of a range from the walk's address on, which goes on to what
 * was not told. Returns whether that is all of the range.
 */
static bool devpool_snapshot_fill(struct devpool_snapshot_walk *walk,
				  const struct devpool_pool *pool,
				  struct devpool_range *range)
{
	struct devpool_block *block;

	lockdep_assert_held(&pool->lock);
	block = devpool_range_find(range, max(walk->addr, range->base));
	/* One that began before was told then, or is not the same. */
	if (block && block->addr < walk->addr)
		block = devpool_range_next(block);
	for (; block && walk->filled < walk->nr; block = devpool_range_next(block))
		if (devpool_snapshot_shows(block))
			devpool_snapshot_block(pool, block,
					       &walk->entries[walk->filled++]);
	walk->addr = block ? block->addr : range->base + range->size;
	return !block;
}

/* The range of a pool that comes next at or after an address. */
static struct devpool_range *devpool_pool_next_range(struct devpool_pool *pool, u64 addr)
{
	struct devpool_range *range, *found = NULL;
	unsigned int i;

	lockdep_assert_held(&pool->lock);
	for (i = 0; i < ARRAY_SIZE(pool->arenas); i++)
		list_for_each_entry(range, &pool->arenas[i].ranges, link)
			if (range->base + range->size > addr &&
			    (!found || range->base < found->base))
				found = range;
	return found;
}

static void devpool_snapshot_pool(struct devpool_snapshot_walk *walk,
				  struct devpool_pool *pool)
{
	struct devpool_range *range;

	devpool_pool_lock(pool);
	devpool_pool_unpark(pool);
	do {
		range = devpool_pool_next_range(pool, walk->addr);
	} while (range && devpool_snapshot_fill(walk, pool, range));
	devpool_pool_unlock(pool);
	if (!range)
		walk->addr = 0;
}

/*
 * Tells of a pool's blocks as far as its ranges follow upon each other, @range being
 * the first one. Gives up the reference on the pool that came with it, and returns
 * what comes next, or NULL where the call is to end: it has no more room, or it has
 * told of the pool before and that was another instant.
 */
static struct devpool_range *devpool_snapshot_ranges(struct devpool_snapshot_walk *walk,
						     struct devpool_range *range,
						     u64 start)
{
	struct devpool_pool *pool = range->pool;
	struct devpool_range *first, *next = NULL;

	devpool_pool_lock(pool);
	devpool_pool_unpark(pool);
	first = devpool_pool_next_range(pool, start);
	if (first && first->base < range->base) {
		walk->addr = range->base;
		goto unlock;
	}
	while (devpool_snapshot_fill(walk, pool, range)) {
		next = devpool_snapshot_range(pool->device, &walk->addr);
		if (!next)
			walk->addr = 0;
		if (!next || next->pool != pool)
			break;
		range = next;
		next = NULL;
		devpool_pool_put(pool);
	}
unlock:
	devpool_pool_unlock(pool);
	devpool_pool_put(pool);
	return next;
}

static int devpool_snapshot_all(struct devpool_snapshot_walk *walk,
				struct devpool_client *client, bool everybody)
{
	struct devpool_device *device = client->device;
	struct devpool_range *range;
	u64 start = walk->addr;
	int err = 0;

	range = devpool_snapshot_range(device, &walk->addr);
	if (!range)
		walk->addr = 0;
	while (range) {
		if (everybody || devpool_client_knows(client, range->pool)) {
			range = devpool_snapshot_ranges(walk, range, start);
		} else {
			walk->addr = range->base + range->size;
			devpool_pool_put(range->pool);
			range = devpool_snapshot_range(device, &walk->addr);
			if (!range)
				walk->addr = 0;
		}
		if (range && fatal_signal_pending(current)) {
			devpool_pool_put(range->pool);
			range = NULL;
			err = -EINTR;
		}
		cond_resched();
	}
	return err;
}

/**
 * devpool_snapshot - tells of blocks
 * @client: who asks
 * @pool: the pool; NULL for all that the client knows
 * @everybody: all pools of the device, whoever knows them
 * @cursor: address from which on; set to where to go on, 0 at the end
 * @entries: where to put what there is
 * @nr: room in there
 * @filled: set to how much of it was used
 *
 * What it tells of a pool is of one instant.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: 0, or -EINTR if the caller is dying.
 */
int devpool_snapshot(struct devpool_client *client, struct devpool_pool *pool,
		     bool everybody, u64 *cursor,
		     struct devpool_snapshot_entry *entries, u32 nr, u32 *filled)
{
	struct devpool_snapshot_walk walk = {
		.entries = entries,
		.nr = nr,
		.addr = *cursor,
	};
	int err = 0;

	if (pool)
		devpool_snapshot_pool(&walk, pool);
	else
		err = devpool_snapshot_all(&walk, client, everybody);
	*cursor = walk.addr;
	*filled = walk.filled;
	return err;
}
