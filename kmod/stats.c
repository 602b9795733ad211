// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters, as they are read.
 */
#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "private.h"

static void devpool_counter_merge(struct devpool_counter *sum,
				  const struct devpool_counter *counter)
{
	sum->now += counter->now;
	sum->peak += counter->peak;
	sum->in += counter->in;
	sum->out += counter->out;
}

/**
 * devpool_tally_add - adds counters up
 * @sum: where to
 * @tally: what
 *
 * Context: any; the caller protects both.
 */
void devpool_tally_add(struct devpool_tally *sum, const struct devpool_tally *tally)
{
	devpool_counter_merge(&sum->allocated, &tally->allocated);
	devpool_counter_merge(&sum->requested, &tally->requested);
	devpool_counter_merge(&sum->active, &tally->active);
	devpool_counter_merge(&sum->resident, &tally->resident);
	devpool_counter_merge(&sum->spare, &tally->spare);
	devpool_counter_merge(&sum->blocks, &tally->blocks);
	sum->hits += tally->hits;
	sum->recycles += tally->recycles;
	sum->grows += tally->grows;
	sum->fallbacks += tally->fallbacks;
	sum->reclaims += tally->reclaims;
	sum->waits += tally->waits;
	sum->ooms += tally->ooms;
	sum->flushes += tally->flushes;
	sum->zeroed_bytes += tally->zeroed_bytes;
}

/**
 * devpool_pool_read - the counters of a pool, with what is derived
 * @pool: the pool, locked
 * @tally: set to them
 *
 * Context: under the lock of the pool.
 */
void devpool_pool_read(struct devpool_pool *pool, struct devpool_tally *tally)
{
	lockdep_assert_held(&pool->lock);
	devpool_counter_update(&pool->tally.allocated);
	devpool_counter_update(&pool->tally.requested);
	devpool_counter_update(&pool->tally.active);
	devpool_counter_update(&pool->tally.resident);
	devpool_counter_update(&pool->tally.spare);
	devpool_counter_update(&pool->tally.blocks);
	*tally = pool->tally;
}

/**
 * devpool_pool_tally - the counters of a pool at one instant
 * @pool: the pool
 * @tally: set to them
 * @pending: set to the bytes that are free, but which streams still use
 * @use_count: set to its use count
 * @state: set to its state, one of &enum devpool_state
 *
 * Context: may sleep, no lock held.
 */
void devpool_pool_tally(struct devpool_pool *pool, struct devpool_tally *tally, u64 *pending,
			u32 *use_count, u32 *state)
{
	devpool_pool_lock(pool);
	devpool_pool_read(pool, tally);
	*pending = devpool_pool_pending(pool);
	*use_count = pool->use_count;
	*state = devpool_pool_state(pool);
	devpool_pool_unlock(pool);
}

/* Adds up the pools of a device from one number to another. */
static void devpool_device_tally_pools(struct devpool_device *device, u64 number, u64 end,
				       struct devpool_tally *sum, u64 *all_pending)
{
	struct devpool_tally tally;
	struct devpool_pool *pool;
	u32 use_count, state;
	u64 pending;

	*all_pending = 0;
	while ((pool = devpool_device_next_pool(device, &number, end))) {
		devpool_pool_tally(pool, &tally, &pending, &use_count, &state);
		*all_pending += pending;
		if (state != DEVPOOL_STATE_GONE)
			devpool_tally_add(sum, &tally);
		devpool_pool_put(pool);
		cond_resched();
	}
}

static void devpool_counter_in_bytes(struct devpool_counter *bytes,
				     struct devpool_counter *chunks, unsigned int shift)
{
	devpool_counter_update(chunks);
	bytes->now = chunks->now << shift;
	bytes->peak = chunks->peak << shift;
	bytes->in = chunks->in << shift;
	bytes->out = chunks->out << shift;
}

/* One that is told of twice or not at all, since it goes meanwhile, is seen so. */
#define DEVPOOL_TALLY_TRIES 8

/**
 * devpool_client_tally - the counters of a client
 * @client: the client
 * @tally: set to the sums over its default pool and the pools of its making
 * @pending: set to the bytes in these that are free, but which streams still use
 *
 * Context: may sleep, no lock held.
 */
void devpool_client_tally(struct devpool_client *client, struct devpool_tally *tally,
			  u64 *pending)
{
	unsigned int shift = client->device->chunk_shift;
	u64 first = client->serial << DEVPOOL_SERIAL_SHIFT;
	u64 end = (client->serial + 1) << DEVPOOL_SERIAL_SHIFT;
	unsigned int tries = DEVPOOL_TALLY_TRIES;
	u64 nr_retired;
	bool again;

	do {
		memset(tally, 0, sizeof(*tally));
		spin_lock(&client->lock);
		nr_retired = client->nr_retired;
		spin_unlock(&client->lock);

		devpool_device_tally_pools(client->device, first, end, tally, pending);

		spin_lock(&client->lock);
		again = client->nr_retired != nr_retired;
		devpool_tally_add(tally, &client->retired);
		devpool_counter_in_bytes(&tally->resident, &client->holdings.resident,
					 shift);
		devpool_counter_in_bytes(&tally->spare, &client->holdings.spare, shift);
		spin_unlock(&client->lock);
	} while (again && --tries);
}

/**
 * devpool_device_tally - the counters of a device
 * @device: the device
 * @tally: set to the sums over all pools that it has and has had
 *
 * Context: may sleep, no lock held.
 */
void devpool_device_tally(struct devpool_device *device, struct devpool_tally *tally)
{
	unsigned int shift = device->chunk_shift;
	unsigned int tries = DEVPOOL_TALLY_TRIES;
	u64 nr_retired, pending;
	bool again;

	do {
		memset(tally, 0, sizeof(*tally));
		spin_lock(&device->lock);
		nr_retired = device->nr_retired;
		spin_unlock(&device->lock);

		devpool_device_tally_pools(device, 0, 0, tally, &pending);

		spin_lock(&device->lock);
		again = device->nr_retired != nr_retired;
		devpool_tally_add(tally, &device->retired);
		devpool_counter_in_bytes(&tally->resident, &device->holdings.resident,
					 shift);
		devpool_counter_in_bytes(&tally->spare, &device->holdings.spare, shift);
		spin_unlock(&device->lock);
	} while (again && --tries);
}

/**
 * devpool_state_name - a pool's state in a word
 * @state: one of &enum devpool_state
 *
 * Context: any.
 * Return: the word.
 */
const char *devpool_state_name(u32 state)
{
	switch (state) {
	case DEVPOOL_STATE_LIVE:
		return "live";
	case DEVPOOL_STATE_FREEABLE:
		return "freeable";
	default:
		return "gone";
	}
}

/* What both kinds of file show, in bytes but for the blocks. */
static void devpool_show_tally(struct seq_file *m, const struct devpool_tally *tally,
			       u64 pending)
{
	seq_printf(m, "devpool-allocated:\t%llu\n", tally->allocated.now);
	seq_printf(m, "devpool-requested:\t%llu\n", tally->requested.now);
	seq_printf(m, "devpool-active:\t%llu\n", tally->active.now);
	seq_printf(m, "devpool-pending:\t%llu\n", pending);
	seq_printf(m, "devpool-resident:\t%llu\n", tally->resident.now);
	seq_printf(m, "devpool-spare:\t%llu\n", tally->spare.now);
	seq_printf(m, "devpool-blocks:\t%llu\n", tally->blocks.now);
	seq_printf(m, "devpool-peak-resident:\t%llu\n", tally->resident.peak);
	seq_printf(m, "devpool-hits:\t%llu\n", tally->hits);
	seq_printf(m, "devpool-recycles:\t%llu\n", tally->recycles);
	seq_printf(m, "devpool-grows:\t%llu\n", tally->grows);
	seq_printf(m, "devpool-fallbacks:\t%llu\n", tally->fallbacks);
	seq_printf(m, "devpool-reclaims:\t%llu\n", tally->reclaims);
	seq_printf(m, "devpool-waits:\t%llu\n", tally->waits);
	seq_printf(m, "devpool-ooms:\t%llu\n", tally->ooms);
	seq_printf(m, "devpool-flushes:\t%llu\n", tally->flushes);
	seq_printf(m, "devpool-zeroed-bytes:\t%llu\n", tally->zeroed_bytes);
}

static void devpool_show_client(struct seq_file *m, const struct devpool_client *client)
{
	seq_printf(m, "devpool-device:\t%s\n", dev_name(&client->device->dev));
	seq_printf(m, "devpool-client-id:\t%llu\n", client->serial);
	seq_printf(m, "devpool-pid:\t%d\n",
		   pid_nr_ns(client->opener, proc_pid_ns(file_inode(m->file)->i_sb)));
	seq_puts(m, "devpool-comm:\t");
	seq_escape(m, client->comm, "\n\t\\");
	seq_putc(m, '\n');
}

/**
 * devpool_client_show_fdinfo - /proc/PID/fdinfo of a device file
 * @m: where to
 * @file: the file
 *
 * Context: may sleep, no lock held.
 */
void devpool_client_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct devpool_client *client = file->private_data;
	unsigned int shift = client->device->chunk_shift;
	struct devpool_tally tally;
	u32 nr_pools;
	u64 limit, pending;

	devpool_client_tally(client, &tally, &pending);
	spin_lock(&client->lock);
	nr_pools = client->nr_pools;
	limit = client->limit;
	spin_unlock(&client->lock);

	devpool_show_client(m, client);
	seq_printf(m, "devpool-pools:\t%u\n", nr_pools);
	seq_printf(m, "devpool-streams:\t%d\n", atomic_read(&client->nr_streams));
	seq_printf(m, "devpool-blocks-held:\t%d\n", atomic_read(&client->nr_blocks));
	seq_printf(m, "devpool-limit:\t%llu\n", limit == U64_MAX ? 0 : limit << shift);
	devpool_show_tally(m, &tally, pending);
}

/**
 * devpool_pool_show_fdinfo - /proc/PID/fdinfo of a pool file
 * @m: where to
 * @file: the file
 *
 * Context: may sleep, no lock held.
 */
void devpool_pool_show_fdinfo(struct seq_file *m, struct file *file)
{
	struct devpool_pool *pool = file->private_data;
	struct devpool_tally tally;
	u32 use_count, state;
	u64 pending;

	devpool_pool_tally(pool, &tally, &pending, &use_count, &state);
	devpool_show_client(m, pool->creator);
	seq_printf(m, "devpool-pool:\t%llu:%llu\n", pool->id.first, pool->id.second);
	seq_printf(m, "devpool-state:\t%s\n", READ_ONCE(pool->file_open) ?
		   devpool_state_name(state) : "released");
	seq_printf(m, "devpool-use-count:\t%u\n", use_count);
	seq_printf(m, "devpool-limit:\t%llu\n",
		   devpool_pool_get_attr(pool, DEVPOOL_ATTR_LIMIT));
	seq_printf(m, "devpool-release-threshold:\t%llu\n",
		   devpool_pool_get_attr(pool, DEVPOOL_ATTR_RELEASE_THRESHOLD));
	devpool_show_tally(m, &tally, pending);
}
