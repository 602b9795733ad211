// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clients: what one open file of a device node owns.
 */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "compat.h"
#include "private.h"

static atomic64_t devpool_serial = ATOMIC64_INIT(0);

/**
 * devpool_client_free - the last reference of a client is gone
 * @ref: its reference count
 *
 * Context: may sleep, allocates nothing.
 */
void devpool_client_free(struct kref *ref)
{
	struct devpool_client *client = container_of(ref, struct devpool_client, ref);

	put_pid(client->opener);
	put_device(&client->device->dev);
	kfree(client);
}

/**
 * devpool_client_mint - a new pool id
 * @client: the client
 * @capture: the id is for a graph capture
 * @id: set to the id
 *
 * Nothing is stored: the number tells who minted it and what for, and the client
 * counts.
 *
 * Context: process; does not sleep.
 * Return: 0, or -ENOSPC if the client has used up its numbers.
 */
int devpool_client_mint(struct devpool_client *client, bool capture,
			struct devpool_pool_id *id)
{
	u64 number;
	int err = 0;

	spin_lock(&client->lock);
	if (client->nr_minted[capture] == (1U << DEVPOOL_MINT_BITS) - 1)
		err = -ENOSPC;
	else
		client->nr_minted[capture]++;
	number = client->serial << DEVPOOL_SERIAL_SHIFT |
		 client->nr_minted[capture] << 1 | capture;
	spin_unlock(&client->lock);
	id->first = capture ? number : 0;
	id->second = capture ? 0 : number;
	return err;
}

/**
 * devpool_client_check_minted - is this an id of the client's own
 * @client: the client
 * @id: any id
 *
 * Context: process; does not sleep.
 * Return: 0, or -ENOENT if it has not minted it.
 */
int devpool_client_check_minted(struct devpool_client *client,
				const struct devpool_pool_id *id)
{
	u64 number = devpool_id_number(id);
	bool capture = number & 1;
	u32 count;
	int err = 0;

	if (number >> DEVPOOL_SERIAL_SHIFT != client->serial ||
	    (capture ? id->second : id->first))
		return -ENOENT;
	count = number >> 1 & ((1U << DEVPOOL_MINT_BITS) - 1);
	spin_lock(&client->lock);
	if (!count || count > client->nr_minted[capture])
		err = -ENOENT;
	spin_unlock(&client->lock);
	return err;
}

/**
 * devpool_client_count_pool - one more pool of the client's making
 * @client: the client
 *
 * Context: process; does not sleep.
 * Return: 0, or -EDQUOT if it has as many as it can have at a time.
 */
int devpool_client_count_pool(struct devpool_client *client)
{
	int err = 0;

	spin_lock(&client->lock);
	if (client->nr_pools >= devpool_max_pools)
		err = -EDQUOT;
	else
		client->nr_pools++;
	spin_unlock(&client->lock);
	return err;
}

/**
 * devpool_client_uncount_pool - undoes devpool_client_count_pool()
 * @client: the client
 *
 * Context: process; does not sleep.
 */
void devpool_client_uncount_pool(struct devpool_client *client)
{
	spin_lock(&client->lock);
	client->nr_pools--;
	spin_unlock(&client->lock);
}

static struct devpool_member *to_member(struct rb_node *node)
{
	return rb_entry_safe(node, struct devpool_member, by_number);
}

static int compare_number(const void *number, const struct rb_node *node)
{
	u64 other = rb_entry(node, struct devpool_member, by_number)->pool->number;

	return *(const u64 *)number < other ? -1 : *(const u64 *)number > other;
}

static int compare_members(struct rb_node *node, const struct rb_node *other)
{
	return compare_number(&to_member(node)->pool->number, other);
}

/* The client's share in the private pool of that number. */
static struct devpool_member *devpool_client_find_member(struct devpool_client *client,
							 u64 number)
{
	lockdep_assert_held(&client->lock);
	return to_member(rb_find(&number, &client->members, compare_number));
}

/**
 * devpool_client_get_member - finds the client's share in a pool
 * @client: the client
 * @id: the pool, {0,0} for the default pool
 *
 * Context: process; does not sleep.
 * Return: the member, to be put with devpool_client_put_member(), or NULL if the
 * client knows no such pool or that is gone.
 */
struct devpool_member *devpool_client_get_member(struct devpool_client *client,
						 const struct devpool_pool_id *id)
{
	struct devpool_member *member;

	/* The file that the caller came by keeps its client's home. */
	if (devpool_id_is_none(id))
		return client->home;

	rcu_read_lock();
	member = READ_ONCE(client->recent);
	if (member && (!devpool_id_is_same(&member->pool->id, id) ||
		       !kref_get_unless_zero(&member->ref)))
		member = NULL;
	rcu_read_unlock();
	if (member)
		return member;

	spin_lock(&client->lock);
	member = devpool_client_find_member(client, devpool_id_number(id));
	if (member && devpool_id_is_same(&member->pool->id, id))
		kref_get(&member->ref);
	else
		member = NULL;
	spin_unlock(&client->lock);
	return member;
}

/**
 * devpool_client_put_member - undoes devpool_client_get_member()
 * @client: the client
 * @member: the member
 *
 * Context: may sleep, no lock held.
 */
void devpool_client_put_member(struct devpool_client *client,
			       struct devpool_member *member)
{
	if (member != client->home)
		kref_put(&member->ref, devpool_member_release);
}

/**
 * devpool_client_next_member - walks over the client's shares in private pools
 * @client: the client
 * @number: where to begin; set to what to go on with
 *
 * Context: process; does not sleep.
 * Return: the member whose pool has the least number from there on, with a
 * reference, or NULL at the end.
 */
struct devpool_member *devpool_client_next_member(struct devpool_client *client,
						  u64 *number)
{
	struct devpool_member *found = NULL;
	struct rb_node *node;

	spin_lock(&client->lock);
	node = client->members.rb_node;
	while (node) {
		if (compare_number(number, node) <= 0) {
			found = to_member(node);
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	if (found) {
		kref_get(&found->ref);
		*number = found->pool->number + 1;
	}
	spin_unlock(&client->lock);
	return found;
}

/**
 * devpool_client_add_member - the client knows a pool from now on
 * @client: the client
 * @member: its share, of which its table gets the first reference
 *
 * Context: under the lock of the member's pool.
 * Return: NULL, or the share in a pool of that number which it has already.
 */
struct devpool_member *devpool_client_add_member(struct devpool_client *client,
						 struct devpool_member *member)
{
	struct rb_node *node;

	lockdep_assert_held(&member->pool->lock);
	spin_lock(&client->lock);
	node = rb_find_add(&member->by_number, &client->members, compare_members);
	spin_unlock(&client->lock);
	return to_member(node);
}

/**
 * devpool_client_drop_member - undoes devpool_client_add_member()
 * @client: the client
 * @member: its share; the table's reference is the caller's to put
 *
 * Context: under the lock of the member's pool.
 */
void devpool_client_drop_member(struct devpool_client *client,
				struct devpool_member *member)
{
	lockdep_assert_held(&member->pool->lock);
	/* If another one takes its place meanwhile, that hint is lost. */
	if (READ_ONCE(client->recent) == member)
		WRITE_ONCE(client->recent, NULL);
	if (member == client->home)
		return;
	spin_lock(&client->lock);
	rb_erase(&member->by_number, &client->members);
	spin_unlock(&client->lock);
}

/**
 * devpool_client_knows - may the client name this pool's addresses
 * @client: the client
 * @pool: a pool of its device
 *
 * Context: process; does not sleep.
 * Return: true if the pool is its default pool or one that it has a share in.
 */
bool devpool_client_knows(struct devpool_client *client,
			  const struct devpool_pool *pool)
{
	struct devpool_member *member;
	bool knows;

	if (pool == client->home->pool)
		return true;
	spin_lock(&client->lock);
	member = devpool_client_find_member(client, pool->number);
	knows = member && member->pool == pool;
	spin_unlock(&client->lock);
	return knows;
}

/*
 * The range that an address is in, with a reference on its pool. The pool of which the
 * client got a block last is looked at first, without the device's table.
 */
static __always_inline struct devpool_range *
devpool_client_find_range(struct devpool_client *client, u64 addr)
{
	struct devpool_range *range = NULL;
	struct devpool_member *recent;
	unsigned int i;

	rcu_read_lock();
	recent = READ_ONCE(client->recent);
	for (i = 0; recent && !range && i < ARRAY_SIZE(recent->pool->arenas); i++) {
		range = READ_ONCE(recent->pool->arenas[i].first);
		if (range && addr - range->base >= range->size)
			range = NULL;
	}
	if (!range)
		range = devpool_device_find_range(client->device, addr);
	if (range && !kref_get_unless_zero(&range->pool->ref))
		range = NULL;
	rcu_read_unlock();
	return range;
}

/**
 * devpool_client_get_range - finds the range that an address is in
 * @client: a client of the device; the range need not be of a pool that it knows
 * @addr: any number
 *
 * Context: process; does not sleep.
 * Return: the range, with a reference on its pool, or NULL.
 */
struct devpool_range *devpool_client_get_range(struct devpool_client *client, u64 addr)
{
	return devpool_client_find_range(client, addr);
}

static u64 devpool_holdings_sum(const struct devpool_holdings *holdings)
{
	return holdings->reserved + holdings->resident.now + holdings->spare.now;
}

static void devpool_holdings_move(struct devpool_holdings *holdings,
				  enum devpool_account from, enum devpool_account to,
				  u64 nr)
{
	if (from == DEVPOOL_ACCOUNT_RESERVED)
		holdings->reserved -= nr;
	else if (from == DEVPOOL_ACCOUNT_RESIDENT)
		devpool_counter_sub(&holdings->resident, nr);
	else if (from == DEVPOOL_ACCOUNT_SPARE)
		devpool_counter_sub(&holdings->spare, nr);

	if (to == DEVPOOL_ACCOUNT_RESIDENT)
		devpool_counter_add(&holdings->resident, nr);
	else if (to == DEVPOOL_ACCOUNT_SPARE)
		devpool_counter_add(&holdings->spare, nr);
}

/**
 * devpool_client_reserve - makes sure of a place for chunks within the limit
 * @client: the client that made the pool which is to get them
 * @nr: how many
 * @over: set to how many too many they are where the answer is -EDQUOT
 *
 * Context: process; does not sleep.
 * Return: 0 or -EDQUOT.
 */
int devpool_client_reserve(struct devpool_client *client, u64 nr, u64 *over)
{
	u64 sum;
	int err = 0;

	spin_lock(&client->lock);
	sum = devpool_holdings_sum(&client->holdings) + nr;
	if (sum > client->limit) {
		*over = sum - client->limit;
		err = -EDQUOT;
	} else {
		client->holdings.reserved += nr;
	}
	spin_unlock(&client->lock);
	return err;
}

/**
 * devpool_client_move - chunks count as something else
 * @client: the client that made the pool which they are or were of
 * @from: what they counted as
 * @to: what they count as; not what devpool_client_reserve() is for
 * @nr: how many
 *
 * Keeps the accounts of the client and of its device.
 *
 * Context: process; does not sleep.
 */
void devpool_client_move(struct devpool_client *client, enum devpool_account from,
			 enum devpool_account to, u64 nr)
{
	struct devpool_device *device = client->device;

	spin_lock(&client->lock);
	devpool_holdings_move(&client->holdings, from, to, nr);
	spin_unlock(&client->lock);

	/* What is reserved is the client's business alone. */
	if (from == DEVPOOL_ACCOUNT_RESERVED)
		from = DEVPOOL_ACCOUNT_NONE;
	spin_lock(&device->lock);
	devpool_holdings_move(&device->holdings, from, to, nr);
	spin_unlock(&device->lock);
}

/**
 * devpool_client_held - how many chunks the client's pools have
 * @client: the client
 *
 * Context: process; does not sleep.
 * Return: chunks in its default pool and the pools of its making.
 */
u64 devpool_client_held(struct devpool_client *client)
{
	u64 chunks;

	spin_lock(&client->lock);
	chunks = devpool_holdings_sum(&client->holdings);
	spin_unlock(&client->lock);
	return chunks;
}

/**
 * devpool_client_set_limit - LIMIT
 * @client: the client
 * @limit: chunks, %U64_MAX for no limit
 *
 * Context: process; does not sleep.
 */
void devpool_client_set_limit(struct devpool_client *client, u64 limit)
{
	spin_lock(&client->lock);
	client->limit = limit;
	spin_unlock(&client->lock);
	devpool_supply_wake(client->device);
}

/**
 * devpool_client_retire_pool - a pool of the client's making is gone
 * @client: the client
 * @pool: the pool
 * @tally: its counters
 *
 * Context: under the lock of the pool.
 */
void devpool_client_retire_pool(struct devpool_client *client,
				const struct devpool_pool *pool,
				const struct devpool_tally *tally)
{
	spin_lock(&client->lock);
	devpool_tally_add(&client->retired, tally);
	client->nr_retired++;
	if (!devpool_id_is_none(&pool->id))
		client->nr_pools--;
	spin_unlock(&client->lock);
}

/* Makes the pool of an id that the client has minted, with a reference of its own. */
static int devpool_client_make_pool(struct devpool_client *client,
				    const struct devpool_pool_id *id,
				    struct devpool_member **out, u32 *use_count)
{
	struct devpool_member *member;
	int err;

	err = devpool_client_count_pool(client);
	if (err)
		return err;
	member = devpool_pool_create(client, id, 0);
	if (!member) {
		devpool_client_uncount_pool(client);
		return -ENOMEM;
	}
	/* The use count of 1 is the client's. */
	member->gets = 1;
	member->ties++;
	kref_get(&member->ref);
	err = devpool_pool_add(member);
	if (err) {
		kref_put(&member->ref, devpool_member_release);
		kref_put(&member->ref, devpool_member_release);
		devpool_client_uncount_pool(client);
		return err;
	}
	*out = member;
	*use_count = 1;
	return 0;
}

/**
 * devpool_client_get_pool - POOL_GET by id
 * @client: the client
 * @id: the pool, not {0,0}
 * @out: set to the client's share, to be put with devpool_client_put_member()
 * @use_count: set to the pool's references, the new one included
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT (a pool that the client does not know), -EDQUOT or -ENOMEM.
 */
int devpool_client_get_pool(struct devpool_client *client,
			    const struct devpool_pool_id *id,
			    struct devpool_member **out, u32 *use_count)
{
	int err;

	do {
		*out = devpool_client_get_member(client, id);
		if (*out) {
			err = devpool_member_get(*out, use_count);
			if (!err)
				return 0;
			devpool_client_put_member(client, *out);
			if (err != -ENOENT)
				return err;
		}
		/* There is none, or none any more. */
		err = devpool_client_check_minted(client, id);
		if (!err)
			err = devpool_client_make_pool(client, id, out, use_count);
		/* Somebody else may have been faster. */
	} while (err == -EBUSY);
	return err;
}

/**
 * devpool_client_attach - POOL_GET by pool file
 * @client: the client
 * @pool: a pool of its device
 * @out: set to the client's share, to be put with devpool_client_put_member()
 * @use_count: set to the pool's references, the new one included
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT if the pool file was released, -EDQUOT or -ENOMEM.
 */
int devpool_client_attach(struct devpool_client *client, struct devpool_pool *pool,
			  struct devpool_member **out, u32 *use_count)
{
	struct devpool_member *member;

	member = devpool_member_create(client, pool);
	if (!member)
		return -ENOMEM;
	return devpool_member_attach(member, out, use_count);
}

/**
 * devpool_client_free_block - FREE
 * @client: the client
 * @addr: any number
 *
 * Context: may sleep. Allocates nothing.
 * Return: 0, or -ENOENT if that is not the address of a live block on which the
 * client has a reference.
 */
int devpool_client_free_block(struct devpool_client *client, u64 addr)
{
	struct devpool_range *range;
	struct devpool_pool *pool;
	int err;

	range = devpool_client_find_range(client, addr);
	if (!range)
		return -ENOENT;
	pool = range->pool;
	err = devpool_pool_free(range, client, addr);
	devpool_pool_put(pool);
	if (!err)
		atomic_dec(&client->nr_blocks);
	return err;
}

/**
 * devpool_client_retain_block - RETAIN
 * @client: the client
 * @addr: any number
 *
 * Context: may sleep.
 * Return: 0, -ENOENT if that is not the address of a live block of a pool that the
 * client knows, -EBUSY if it has a reference on it, -EDQUOT or -ENOMEM.
 */
int devpool_client_retain_block(struct devpool_client *client, u64 addr)
{
	struct devpool_member *member;
	struct devpool_range *range;
	struct devpool_pool *pool;
	int err = -ENOENT;

	range = devpool_client_get_range(client, addr);
	if (!range)
		return -ENOENT;
	pool = range->pool;
	member = devpool_client_get_member(client, &pool->id);
	if (!member)
		goto put_pool;
	if (member->pool == pool)
		err = devpool_pool_retain(range, member, addr);
	devpool_client_put_member(client, member);
put_pool:
	devpool_pool_put(pool);
	return err;
}

/**
 * devpool_client_record_use - RECORD
 * @client: the client
 * @addr: any number
 * @stream: the stream; NULL for the host
 *
 * Context: may sleep.
 * Return: 0, -ENOENT if that is not inside a live block on which the client has a
 * reference, or -ENOMEM.
 */
int devpool_client_record_use(struct devpool_client *client, u64 addr,
			      struct devpool_stream *stream)
{
	struct devpool_range *range;
	struct devpool_pool *pool;
	int err;

	range = devpool_client_get_range(client, addr);
	if (!range)
		return -ENOENT;
	pool = range->pool;
	err = devpool_pool_record(range, client, addr, stream);
	devpool_pool_put(pool);
	return err;
}

/**
 * devpool_client_export_block - EXPORT
 * @client: the client
 * @addr: any number
 * @mode: access mode of the dma-buf, as of open()
 * @out: set to the dma-buf of the block, with a reference
 *
 * Context: may sleep.
 * Return: 0, -ENOENT if that is not the address of a live block on which the client
 * has a reference, or what devpool_dmabuf_get() says.
 */
int devpool_client_export_block(struct devpool_client *client, u64 addr, u32 mode,
				struct dma_buf **out)
{
	struct devpool_range *range;
	struct devpool_pool *pool;
	int err;

	range = devpool_client_get_range(client, addr);
	if (!range)
		return -ENOENT;
	pool = range->pool;
	err = devpool_dmabuf_get(range, client, addr, mode, out);
	devpool_pool_put(pool);
	return err;
}

/**
 * devpool_client_count_stream - a number for a stream of the client's
 * @client: the client
 * @number: set to the number
 *
 * Context: may sleep.
 * Return: 0, -EDQUOT if it has as many streams as it can have, or -ENOMEM.
 */
int devpool_client_count_stream(struct devpool_client *client, u32 *number)
{
	int err;

	if (!atomic_add_unless(&client->nr_streams, 1, devpool_max_streams))
		return -EDQUOT;
	/* Not to be found yet. Numbers go round, so that an old one is noticed. */
	err = xa_alloc_cyclic(&client->streams, number, NULL, xa_limit_32b,
			      &client->next_stream, GFP_KERNEL_ACCOUNT);
	if (err >= 0)
		return 0;
	atomic_dec(&client->nr_streams);
	return err == -EBUSY ? -EDQUOT : err;
}

/**
 * devpool_client_uncount_stream - undoes devpool_client_count_stream()
 * @client: the client
 * @number: the number
 *
 * Context: process; does not sleep.
 */
void devpool_client_uncount_stream(struct devpool_client *client, u32 number)
{
	xa_erase(&client->streams, number);
	atomic_dec(&client->nr_streams);
}

/**
 * devpool_client_add_stream - the client has a stream from now on
 * @client: the client
 * @number: its number, from devpool_client_count_stream()
 * @stream: the stream, whose first reference becomes the client's
 *
 * Context: process; does not sleep.
 */
void devpool_client_add_stream(struct devpool_client *client, u32 number,
			       struct devpool_stream *stream)
{
	stream->number = number;
	/* The place is reserved, so this allocates nothing. */
	xa_store(&client->streams, number, stream, 0);
}

/**
 * devpool_client_get_stream - finds a stream
 * @client: the client
 * @number: any number
 *
 * Context: process; does not sleep.
 * Return: the stream, with a reference, or NULL.
 */
struct devpool_stream *devpool_client_get_stream(struct devpool_client *client,
						 u32 number)
{
	struct devpool_stream *stream;

	rcu_read_lock();
	stream = devpool_xa_load(&client->streams, number);
	if (stream && !kref_get_unless_zero(&stream->ref))
		stream = NULL;
	rcu_read_unlock();
	return stream;
}

/* A stream that the client has no more. No route of it begins once it has ended. */
static void devpool_client_drop_stream(struct devpool_client *client,
				       struct devpool_stream *stream)
{
	devpool_stream_end(stream);
	/* For requests that wait on it; no pool's lock stands for a barrier here. */
	wake_up_all(&client->device->supply.arrived);
	devpool_routes_end_stream(client, stream);
	devpool_lanes_end(stream);
	devpool_stream_put(stream);
}

/**
 * devpool_client_end_stream - STREAM_DESTROY
 * @client: the client
 * @number: any number
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: 0, or -ENOENT if the client has no such stream.
 */
int devpool_client_end_stream(struct devpool_client *client, u32 number)
{
	struct devpool_stream *stream;

	/* What is only reserved is NULL, and stays. */
	xa_lock(&client->streams);
	stream = xa_load(&client->streams, number);
	if (stream)
		__xa_erase(&client->streams, number);
	xa_unlock(&client->streams);
	if (!stream)
		return -ENOENT;
	atomic_dec(&client->nr_streams);
	devpool_client_drop_stream(client, stream);
	return 0;
}

/**
 * devpool_client_awaits - do streams use anything of the client's other caches
 * @client: the client
 *
 * Looks at the pools that devpool_client_reclaim() takes from.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: true if so.
 */
bool devpool_client_awaits(struct devpool_client *client)
{
	bool awaits = devpool_pool_awaits(client->home->pool);
	struct devpool_member *member;
	u64 number = 0;

	while (!awaits && (member = devpool_client_next_member(client, &number))) {
		if (!READ_ONCE(member->pool->use_count))
			awaits = devpool_pool_awaits(member->pool);
		devpool_client_put_member(client, member);
	}
	return awaits;
}

/**
 * devpool_client_empty - EMPTY_CACHE of {0,0}
 * @client: the client
 * @flags: %DEVPOOL_EMPTY_KEEP_PHYSICAL or none
 * @timeout: how long to wait for streams
 * @keep: resident bytes at which to stop, in each pool
 * @emptied: the report
 *
 * The default pool and every freeable pool that the client knows; live private
 * pools are not touched and not reported.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_client_empty(struct devpool_client *client, u32 flags, s64 timeout,
			  u64 keep, struct devpool_emptied *emptied)
{
	struct devpool_pool *home = client->home->pool;
	struct devpool_member *member;
	u64 number = 0;

	/* What need not wait does not wait for what has to. */
	if (timeout) {
		struct devpool_emptied first = {};

		devpool_client_empty(client, flags, 0, keep, &first);
		emptied->freed += first.freed;
	}
	while ((member = devpool_client_next_member(client, &number))) {
		if (!READ_ONCE(member->pool->use_count))
			devpool_pool_empty(member->pool, flags, timeout, keep, emptied);
		devpool_client_put_member(client, member);
	}
	devpool_pool_empty(home, flags | DEVPOOL_EMPTY_TRIM, timeout, keep, emptied);
}

/**
 * devpool_client_reclaim - takes chunks out of the client's other caches
 * @client: the client
 * @requester: the pool that needs them
 * @nr: how many
 * @chunks: list to which they are added; they are the caller's
 *
 * One pass over the default pool and the freeable pools, which promised nobody
 * to keep their caches.
 *
 * Context: may sleep, no lock held.
 * Return: how many were taken.
 */
u64 devpool_client_reclaim(struct devpool_client *client,
			   const struct devpool_pool *requester, u64 nr,
			   struct list_head *chunks)
{
	struct devpool_pool *home = client->home->pool;
	struct devpool_member *member;
	u64 number = 0;
	u64 taken = 0;

	if (home != requester)
		taken = devpool_pool_reclaim(home, nr, chunks);
	while (taken < nr &&
	       (member = devpool_client_next_member(client, &number))) {
		struct devpool_pool *pool = member->pool;

		if (pool != requester && !READ_ONCE(pool->use_count))
			taken += devpool_pool_reclaim(pool, nr - taken, chunks);
		devpool_client_put_member(client, member);
	}
	return taken;
}

/**
 * devpool_client_create - a client without a file
 * @device: its device
 * @opener: the process that it is for, or NULL
 * @comm: what it is called
 *
 * Context: may sleep.
 * Return: the client, or an ERR_PTR() of -ENOMEM or -ENOSPC.
 */
struct devpool_client *devpool_client_create(struct devpool_device *device,
					     struct pid *opener, const char *comm)
{
	static const struct devpool_pool_id default_pool;
	struct devpool_client *client;

	client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);
	if (!client)
		return ERR_PTR(-ENOMEM);
	client->serial = atomic64_inc_return(&devpool_serial);
	if (client->serial >> DEVPOOL_SERIAL_BITS) {
		kfree(client);
		return ERR_PTR(-ENOSPC);
	}
	kref_init(&client->ref);
	xa_init_flags(&client->streams, XA_FLAGS_ALLOC1);
	spin_lock_init(&client->lock);
	client->members = RB_ROOT;
	INIT_LIST_HEAD(&client->routes);
	atomic_set(&client->nr_blocks, 0);
	atomic_set(&client->nr_streams, 0);
	client->limit = U64_MAX;
	client->opener = get_pid(opener);
	strscpy(client->comm, comm, sizeof(client->comm));
	get_device(&device->dev);
	client->device = device;

	client->home = devpool_pool_create(client, &default_pool, 0);
	if (!client->home) {
		kref_put(&client->ref, devpool_client_free);
		return ERR_PTR(-ENOMEM);
	}
	devpool_device_add_pool(device, client->home->pool);
	return client;
}

/**
 * devpool_client_end - gives back all that a client owns
 * @client: the client, of whom no command is running and no mapping is left
 *
 * It is a route or a stream, or hangs on one of its members.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_client_end(struct devpool_client *client)
{
	struct devpool_stream *stream;
	struct devpool_member *member;
	unsigned long index;
	u64 number = 0;

	devpool_routes_close(client);
	/* First, so that what its user streams used is cached at once. */
	xa_for_each(&client->streams, index, stream)
		devpool_client_drop_stream(client, stream);
	xa_destroy(&client->streams);
	while ((member = devpool_client_next_member(client, &number))) {
		devpool_member_close(member);
		kref_put(&member->ref, devpool_member_release);
	}
	devpool_member_close(client->home);
	kref_put(&client->ref, devpool_client_free);
}

static int devpool_client_open(struct inode *inode, struct file *file)
{
	struct devpool_device *device;
	struct devpool_client *client;
	char comm[TASK_COMM_LEN];

	/* Pairs with devpool_devices_publish(). */
	if (!smp_load_acquire(&devpool_is_loaded))
		return -ENODEV;
	device = container_of(inode->i_cdev, struct devpool_device, cdev);
	get_task_comm(comm, current->group_leader);
	client = devpool_client_create(device, task_tgid(current), comm);
	if (IS_ERR(client))
		return PTR_ERR(client);
	atomic_inc(&device->nr_clients);
	file->private_data = client;
	/* Nodes of one device may have inodes of their own; its pages have one. */
	file->f_mapping = device->inode->i_mapping;
	return nonseekable_open(inode, file);
}

/* The last close */
static int devpool_client_close(struct inode *inode, struct file *file)
{
	struct devpool_client *client = file->private_data;
	struct devpool_device *device = client->device;

	devpool_client_end(client);
	/* The file has the module, and so the device. */
	atomic_dec(&device->nr_clients);
	return 0;
}

const struct file_operations devpool_client_fops = {
	.owner = THIS_MODULE,
	.open = devpool_client_open,
	.release = devpool_client_close,
	.unlocked_ioctl = devpool_client_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = devpool_mmap_file,
	.show_fdinfo = devpool_client_show_fdinfo,
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	.get_unmapped_area = thp_get_unmapped_area,
#endif
};
