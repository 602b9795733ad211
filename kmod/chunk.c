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

static void devpool_chunk_free(struct devpool_device *device,
			       struct devpool_chunk *chunk)
{
	device->backend->give(chunk, device->chunk_shift);
	kmem_cache_free(devpool_chunk_cache, chunk);
}

static void devpool_chunk_unmake(struct devpool_device *device,
				 struct devpool_chunk *chunk)
{
	devpool_chunk_free(device, chunk);
	devpool_chunk_forget(&device->supply);
}

/* Kinds of fault of a backend. */
enum devpool_fault {
	DEVPOOL_FAULT_TAKE,
};

/* Tells the log, once for each kind of fault. */
static void devpool_supply_fault(struct devpool_device *device,
				 enum devpool_fault fault, int err)
{
	static const char *const kinds[] = {
		[DEVPOOL_FAULT_TAKE] = "gave no memory",
	};

	if (!test_and_set_bit(fault, &device->supply.faults))
		dev_err(&device->dev, "backend %s %s: error %d\n",
			device->backend->name, kinds[fault], err);
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
		if (err != -ENOMEM)
			devpool_supply_fault(device, DEVPOOL_FAULT_TAKE, err);
		return -ENOMEM;
	}
	INIT_LIST_HEAD(&chunk->link);
	*out = chunk;
	return 0;
}

static struct devpool_chunk *devpool_stock_pop_clean(struct devpool_supply *supply)
{
	struct devpool_chunk *chunk;

	lockdep_assert_held(&supply->lock);
	chunk = list_first_entry_or_null(&supply->clean, struct devpool_chunk, link);
	if (chunk) {
		list_del_init(&chunk->link);
		supply->nr_clean--;
	}
	return chunk;
}

static struct devpool_chunk *devpool_stock_pop_dirty(struct devpool_supply *supply)
{
	struct devpool_chunk *chunk;

	lockdep_assert_held(&supply->lock);
	chunk = list_first_entry_or_null(&supply->dirty, struct devpool_chunk, link);
	if (chunk) {
		list_del_init(&chunk->link);
		supply->nr_dirty--;
	}
	return chunk;
}

static u64 devpool_stock_size(const struct devpool_supply *supply)
{
	return READ_ONCE(supply->nr_clean) + READ_ONCE(supply->nr_dirty);
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
	    devpool_stock_size(supply) >= supply->clean_target) {
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
		*out = devpool_stock_pop_clean(supply) ?: devpool_stock_pop_dirty(supply);
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

static void devpool_chunk_zero(struct devpool_device *device,
			       struct devpool_chunk *chunk)
{
	device->backend->zero(chunk, device->chunk_shift, 0, devpool_chunk_size(device));
	chunk->flags |= DEVPOOL_CHUNK_CLEAN;
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
		devpool_chunk_zero(device, chunk);
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
		chunk = devpool_stock_pop_dirty(supply);
		spin_unlock(&supply->lock);
		if (!chunk)
			return;

		devpool_chunk_zero(device, chunk);
		if (!devpool_stock_push(device, chunk))
			devpool_chunk_unmake(device, chunk);
		cond_resched();
	}
}

/**
 * devpool_supply_trim - gives memory of the stock back to where it came from
 * @device: the device
 * @keep: chunks that may stay
 *
 * Does nothing where the backend cannot take memory back.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_supply_trim(struct devpool_device *device, u64 keep)
{
	struct devpool_supply *supply = &device->supply;
	struct devpool_chunk *chunk;

	do {
		chunk = NULL;
		spin_lock(&supply->lock);
		if (device->backend->returns_memory && devpool_stock_size(supply) > keep)
			chunk = devpool_stock_pop_dirty(supply) ?:
				devpool_stock_pop_clean(supply);
		spin_unlock(&supply->lock);
		if (chunk)
			devpool_chunk_unmake(device, chunk);
		cond_resched();
	} while (chunk);
}

/* The stock, in pages. */
static unsigned long devpool_shrinker_count(struct shrinker *shrinker,
					    struct shrink_control *sc)
{
	struct devpool_device *device = devpool_shrinker_data(shrinker);

	return devpool_stock_size(&device->supply) << (device->chunk_shift - PAGE_SHIFT) ?:
	       SHRINK_EMPTY;
}

/*
 * Runs in whatever ran out of memory, which may be within this module: so it does
 * without what it cannot lock at once. A chunk counts as unmade a moment before its
 * memory is given back, so that one lock is enough.
 */
static unsigned long devpool_shrinker_scan(struct shrinker *shrinker,
					   struct shrink_control *sc)
{
	struct devpool_device *device = devpool_shrinker_data(shrinker);
	unsigned long pages = 1UL << (device->chunk_shift - PAGE_SHIFT);
	struct devpool_supply *supply = &device->supply;
	struct devpool_chunk *chunk;
	unsigned long freed = 0;

	while (freed < sc->nr_to_scan) {
		if (!spin_trylock(&supply->lock))
			break;
		chunk = devpool_stock_pop_dirty(supply) ?:
			devpool_stock_pop_clean(supply);
		if (chunk)
			supply->nr_made--;
		spin_unlock(&supply->lock);
		if (!chunk)
			break;
		devpool_chunk_free(device, chunk);
		freed += pages;
	}
	/* Who waits for a chunk can make one. */
	wake_up(&supply->arrived);
	/* Reclaim that counts no page as progress ends with the OOM killer. */
	mm_account_reclaimed_pages(freed);
	sc->nr_scanned = freed;
	return freed ?: SHRINK_STOP;
}

/**
 * devpool_supply_make_shrinkable - the stock may be taken where memory is short
 * @device: the device, which has its name
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int devpool_supply_make_shrinkable(struct devpool_device *device)
{
	static const struct shrinker shrinker = {
		.count_objects = devpool_shrinker_count,
		.scan_objects = devpool_shrinker_scan,
		.seeks = DEFAULT_SEEKS,
	};

	/* What is not pages does not help the system. */
	if (!device->backend->returns_memory || !device->backend->pfn)
		return 0;
	return devpool_shrinker_register(&device->supply.shrinker, &shrinker,
					 dev_name(&device->dev), device);
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

	devpool_shrinker_unregister(&supply->shrinker);
	kthread_cancel_work_sync(&supply->scrub);
	do {
		spin_lock(&supply->lock);
		chunk = devpool_stock_pop_clean(supply) ?: devpool_stock_pop_dirty(supply);
		spin_unlock(&supply->lock);
		if (chunk)
			devpool_chunk_unmake(device, chunk);
	} while (chunk);
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
