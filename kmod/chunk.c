// SPDX-License-Identifier: GPL-2.0-only
/*
 * The supply of a device: who has its chunks, and the stock of those that nobody
 * has.
 *
 * A chunk is handed out zeroed, so that no owner sees what another one wrote. It
 * comes back dirty. The worker zeroes what is in the stock, so that the next
 * request need not; what is beyond the target goes back to where it came from,
 * if the backend can take it.
 */
#include <linux/list.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "compat.h"
#include "private.h"

static struct kmem_cache *devpool_chunk_cache;

static_assert(sizeof(struct devpool_chunk) <= 64);

/* Drops the record of a chunk whose memory is gone; there may be a new one. */
static void devpool_chunk_forget(struct devpool_supply *supply)
{
	spin_lock(&supply->lock);
	supply->nr_made--;
	spin_unlock(&supply->lock);
	wake_up(&supply->arrived);
}

static void devpool_chunk_unmake(struct devpool_device *device,
				 struct devpool_chunk *chunk)
{
	device->backend->give(chunk, device->chunk_shift);
	kmem_cache_free(devpool_chunk_cache, chunk);
	devpool_chunk_forget(&device->supply);
}

static int devpool_chunk_make(struct devpool_device *device,
			      struct devpool_chunk **out)
{
	struct devpool_chunk *chunk;
	int err;

	chunk = kmem_cache_zalloc(devpool_chunk_cache, DEVPOOL_GFP);
	if (!chunk)
		return -ENOMEM;
	err = device->backend->take(chunk, device->chunk_shift);
	if (err) {
		kmem_cache_free(devpool_chunk_cache, chunk);
		return err;
	}
	INIT_LIST_HEAD(&chunk->link);
	*out = chunk;
	return 0;
}

static struct devpool_chunk *devpool_stock_pop(struct devpool_supply *supply)
{
	struct devpool_chunk *chunk = NULL;

	lockdep_assert_held(&supply->lock);
	if (!list_empty(&supply->clean)) {
		chunk = list_first_entry(&supply->clean, struct devpool_chunk, link);
		supply->nr_clean--;
	} else if (!list_empty(&supply->dirty)) {
		chunk = list_first_entry(&supply->dirty, struct devpool_chunk, link);
		supply->nr_dirty--;
	}
	if (chunk)
		list_del_init(&chunk->link);
	return chunk;
}

/*
 * Puts a chunk into the stock. Returns false if that has enough and the backend
 * would have the memory back; then the chunk stays the caller's.
 */
static bool devpool_stock_push(struct devpool_device *device,
			       struct devpool_chunk *chunk)
{
	struct devpool_supply *supply = &device->supply;
	bool pushed = true;

	spin_lock(&supply->lock);
	if (device->backend->returns_memory &&
	    supply->nr_clean + supply->nr_dirty >= supply->clean_target) {
		pushed = false;
	} else if (chunk->flags & DEVPOOL_CHUNK_CLEAN) {
		list_add(&chunk->link, &supply->clean);
		supply->nr_clean++;
	} else {
		list_add(&chunk->link, &supply->dirty);
		supply->nr_dirty++;
	}
	spin_unlock(&supply->lock);
	if (pushed)
		wake_up(&supply->arrived);
	return pushed;
}

/* Gets one of the chunks that the caller has reserved. */
static int devpool_supply_take_one(struct devpool_device *device,
				   struct devpool_chunk **out)
{
	struct devpool_supply *supply = &device->supply;
	DEFINE_WAIT(wait);
	bool make = false;
	int err = 0;

	*out = NULL;
	for (;;) {
		/* Queued before it looks, so that no arrival is missed. */
		prepare_to_wait_exclusive(&supply->arrived, &wait, TASK_KILLABLE);
		spin_lock(&supply->lock);
		*out = devpool_stock_pop(supply);
		if (!*out && supply->nr_made < supply->nr_chunks) {
			supply->nr_made++;
			make = true;
		}
		spin_unlock(&supply->lock);
		if (*out || make)
			break;
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			break;
		}
		schedule();
	}
	finish_wait(&supply->arrived, &wait);
	/* A wake-up may have come that is another one's by now. */
	wake_up(&supply->arrived);
	if (!make)
		return err;

	err = devpool_chunk_make(device, out);
	if (err)
		devpool_chunk_forget(supply);
	return err;
}

/**
 * devpool_supply_take - gets chunks for a pool
 * @device: the device
 * @nr: how many
 * @chunks: list to which they are added, not zeroed yet
 * @missing: set to how many more would have to be free where the answer is
 *	-ENOSPC, to @nr for -ENOMEM
 *
 * All or nothing. May wait for chunks that are on their way into the stock.
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOSPC if the device has not that many free, -ENOMEM if the
 * backend or the kernel is short of memory, -EINTR if the caller is dying.
 */
int devpool_supply_take(struct devpool_device *device, u64 nr,
			struct list_head *chunks, u64 *missing)
{
	struct devpool_supply *supply = &device->supply;
	LIST_HEAD(taken);
	u64 i;

	spin_lock(&supply->lock);
	if (supply->nr_free < nr) {
		*missing = nr - supply->nr_free;
		spin_unlock(&supply->lock);
		return -ENOSPC;
	}
	supply->nr_free -= nr;
	spin_unlock(&supply->lock);

	for (i = 0; i < nr; i++) {
		struct devpool_chunk *chunk;
		int err;

		err = devpool_supply_take_one(device, &chunk);
		if (!err && fatal_signal_pending(current)) {
			list_add_tail(&chunk->link, &taken);
			err = -EINTR;
		}
		if (err) {
			devpool_supply_announce(device, nr);
			devpool_supply_put(device, &taken);
			*missing = nr;
			return err;
		}
		list_add_tail(&chunk->link, &taken);
		cond_resched();
	}
	list_splice_tail(&taken, chunks);
	return 0;
}

/**
 * devpool_supply_free - how many chunks nobody has
 * @device: the device
 *
 * Context: process; does not sleep.
 * Return: their number, at this moment.
 */
u64 devpool_supply_free(struct devpool_device *device)
{
	u64 nr;

	spin_lock(&device->supply.lock);
	nr = device->supply.nr_free;
	spin_unlock(&device->supply.lock);
	return nr;
}

/**
 * devpool_supply_announce - chunks are on their way into the stock
 * @device: the device
 * @nr: how many; the caller will bring them by devpool_supply_put(), for which
 *	it waits for nothing that a request could hold
 *
 * Context: process; does not sleep.
 */
void devpool_supply_announce(struct devpool_device *device, u64 nr)
{
	spin_lock(&device->supply.lock);
	device->supply.nr_free += nr;
	spin_unlock(&device->supply.lock);
}

/**
 * devpool_supply_put - brings chunks into the stock
 * @device: the device
 * @chunks: chunks that have been announced; empty afterwards
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_supply_put(struct devpool_device *device, struct list_head *chunks)
{
	struct devpool_chunk *chunk, *next;
	bool scrub = false;

	list_for_each_entry_safe(chunk, next, chunks, link) {
		list_del_init(&chunk->link);
		if (!devpool_stock_push(device, chunk))
			devpool_chunk_unmake(device, chunk);
		else
			scrub = true;
		cond_resched();
	}
	if (scrub)
		kthread_queue_work(devpool_scrubber, &device->supply.scrub);
}

/**
 * devpool_chunks_clean - zeroes what is not zero yet
 * @device: the device
 * @chunks: chunks of the caller's
 *
 * Context: may sleep, no lock held.
 * Return: bytes zeroed.
 */
u64 devpool_chunks_clean(struct devpool_device *device, struct list_head *chunks)
{
	struct devpool_chunk *chunk;
	u64 bytes = 0;

	list_for_each_entry(chunk, chunks, link) {
		if (chunk->flags & DEVPOOL_CHUNK_CLEAN)
			continue;
		device->backend->zero(chunk, device->chunk_shift);
		chunk->flags |= DEVPOOL_CHUNK_CLEAN;
		bytes += devpool_chunk_size(device);
		cond_resched();
	}
	return bytes;
}

static void devpool_supply_scrub(struct kthread_work *work)
{
	struct devpool_supply *supply;
	struct devpool_device *device;
	struct devpool_chunk *chunk;

	supply = container_of(work, struct devpool_supply, scrub);
	device = container_of(supply, struct devpool_device, supply);
	for (;;) {
		spin_lock(&supply->lock);
		chunk = list_first_entry_or_null(&supply->dirty,
						 struct devpool_chunk, link);
		if (chunk) {
			list_del_init(&chunk->link);
			supply->nr_dirty--;
		}
		spin_unlock(&supply->lock);
		if (!chunk)
			return;

		device->backend->zero(chunk, device->chunk_shift);
		chunk->flags |= DEVPOOL_CHUNK_CLEAN;
		if (!devpool_stock_push(device, chunk))
			devpool_chunk_unmake(device, chunk);
		cond_resched();
	}
}

/**
 * devpool_supply_init - a supply with nothing in stock
 * @device: the device
 * @nr_chunks: how many chunks it has
 * @clean_target: how many to keep clean
 *
 * Context: nobody can find the device yet.
 */
void devpool_supply_init(struct devpool_device *device, u64 nr_chunks,
			 u64 clean_target)
{
	struct devpool_supply *supply = &device->supply;

	spin_lock_init(&supply->lock);
	supply->nr_chunks = nr_chunks;
	supply->nr_free = nr_chunks;
	supply->clean_target = clean_target;
	INIT_LIST_HEAD(&supply->clean);
	INIT_LIST_HEAD(&supply->dirty);
	init_waitqueue_head(&supply->arrived);
	kthread_init_work(&supply->scrub, devpool_supply_scrub);
}

/**
 * devpool_supply_exit - gives the stock back
 * @device: the device, of which no pool is left
 *
 * Context: may sleep; no client and no pool is left.
 */
void devpool_supply_exit(struct devpool_device *device)
{
	struct devpool_supply *supply = &device->supply;
	struct devpool_chunk *chunk;

	kthread_cancel_work_sync(&supply->scrub);
	for (;;) {
		spin_lock(&supply->lock);
		chunk = devpool_stock_pop(supply);
		spin_unlock(&supply->lock);
		if (!chunk)
			break;
		devpool_chunk_unmake(device, chunk);
	}
	WARN_ON(supply->nr_made || supply->nr_free != supply->nr_chunks);
}

/**
 * devpool_chunk_cache_init - at load
 *
 * Context: module load.
 * Return: 0 or -ENOMEM.
 */
int devpool_chunk_cache_init(void)
{
	devpool_chunk_cache = KMEM_CACHE(devpool_chunk, DEVPOOL_SLAB_FLAGS);
	return devpool_chunk_cache ? 0 : -ENOMEM;
}

/**
 * devpool_chunk_cache_exit - at unload
 *
 * Context: module unload, all devices are gone.
 */
void devpool_chunk_cache_exit(void)
{
	kmem_cache_destroy(devpool_chunk_cache);
}
