// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counters, as they are read.
 */
#include <linux/mutex.h>
#include <linux/sched.h>
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
	devpool_counter_update(&pool->tally.resident);
	devpool_counter_update(&pool->tally.blocks);
	*tally = pool->tally;
	tally->active = tally->allocated;
}

/**
 * devpool_pool_tally - the counters of a pool at one instant
 * @pool: the pool
 * @tally: set to them
 * @use_count: set to its use count
 * @state: set to its state, one of &enum devpool_state
 *
 * Context: may sleep, no lock held.
 */
void devpool_pool_tally(struct devpool_pool *pool, struct devpool_tally *tally,
			u32 *use_count, u32 *state)
{
	mutex_lock(&pool->lock);
	devpool_pool_read(pool, tally);
	*use_count = pool->use_count;
	*state = devpool_pool_state(pool);
	mutex_unlock(&pool->lock);
}

/* One pass over the pools of a client's making that are not gone. */
static void devpool_client_tally_pools(struct devpool_client *client,
				       struct devpool_tally *sum)
{
	struct devpool_member *member;
	struct devpool_tally tally;
	unsigned long count = 0;
	u32 use_count, state;

	devpool_pool_tally(client->home->pool, &tally, &use_count, &state);
	devpool_tally_add(sum, &tally);
	while ((member = devpool_client_next_member(client, &count))) {
		if (member->pool->creator == client) {
			devpool_pool_tally(member->pool, &tally, &use_count, &state);
			if (state != DEVPOOL_STATE_GONE)
				devpool_tally_add(sum, &tally);
		}
		devpool_client_put_member(client, member);
		count++;
		cond_resched();
	}
}

/**
 * devpool_client_tally - the counters of a client
 * @client: the client
 * @tally: set to the sums over its default pool and the pools of its making
 *
 * Context: may sleep, no lock held.
 */
void devpool_client_tally(struct devpool_client *client, struct devpool_tally *tally)
{
	unsigned int shift = client->device->chunk_shift;
	unsigned int tries = 8;
	u64 nr_retired;
	bool again;

	/* Again if a pool went between the two sums, so that none is missed. */
	do {
		memset(tally, 0, sizeof(*tally));
		spin_lock(&client->lock);
		nr_retired = client->nr_retired;
		spin_unlock(&client->lock);

		devpool_client_tally_pools(client, tally);

		spin_lock(&client->lock);
		again = client->nr_retired != nr_retired;
		devpool_tally_add(tally, &client->retired);
		devpool_counter_update(&client->resident);
		tally->resident.now = client->resident.now << shift;
		tally->resident.peak = client->resident.peak << shift;
		tally->resident.in = client->resident.in << shift;
		tally->resident.out = client->resident.out << shift;
		spin_unlock(&client->lock);
	} while (again && --tries);
}
