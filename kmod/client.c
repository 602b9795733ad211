// SPDX-License-Identifier: GPL-2.0-only
/*
 * Clients: what one open file of a device node owns.
 */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/slab.h>

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

	xa_destroy(&client->members);
	put_device(&client->device->dev);
	kfree(client);
}

/**
 * devpool_client_mint - a new pool id
 * @client: the client
 * @id: set to the id
 *
 * Nothing is stored: the number tells who minted it, and the client counts.
 *
 * Context: process; does not sleep.
 * Return: 0, or -ENOSPC if the client has used up its numbers.
 */
int devpool_client_mint(struct devpool_client *client, struct devpool_pool_id *id)
{
	int err = 0;

	spin_lock(&client->lock);
	if (client->nr_minted == (1U << DEVPOOL_MINT_BITS) - 1)
		err = -ENOSPC;
	else
		client->nr_minted++;
	id->first = 0;
	id->second = client->serial << DEVPOOL_MINT_BITS | client->nr_minted;
	spin_unlock(&client->lock);
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
	unsigned long count = devpool_id_count(id);
	int err = 0;

	if (id->first || id->second >> DEVPOOL_MINT_BITS != client->serial)
		return -ENOENT;
	spin_lock(&client->lock);
	if (!count || count > client->nr_minted)
		err = -ENOENT;
	spin_unlock(&client->lock);
	return err;
}

static bool is_default_pool(const struct devpool_pool_id *id)
{
	return !id->first && !id->second;
}

static bool is_same_id(const struct devpool_pool_id *a,
		       const struct devpool_pool_id *b)
{
	return a->first == b->first && a->second == b->second;
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
	if (is_default_pool(id))
		return client->home;

	rcu_read_lock();
	member = READ_ONCE(client->recent);
	if (!member || !is_same_id(&member->pool->id, id))
		member = devpool_xa_load(&client->members, devpool_id_count(id));
	if (member && (!is_same_id(&member->pool->id, id) ||
		       !kref_get_unless_zero(&member->ref)))
		member = NULL;
	rcu_read_unlock();
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
 * @count: where to begin; set to the count in the id of what was found
 *
 * Context: process; does not sleep.
 * Return: the member, with a reference, or NULL at the end.
 */
struct devpool_member *devpool_client_next_member(struct devpool_client *client,
						  unsigned long *count)
{
	struct devpool_member *member;

	rcu_read_lock();
	for (member = xa_find(&client->members, count, ULONG_MAX, XA_PRESENT);
	     member && !kref_get_unless_zero(&member->ref);
	     member = xa_find_after(&client->members, count, ULONG_MAX, XA_PRESENT))
		;
	rcu_read_unlock();
	return member;
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
	if (is_default_pool(&pool->id))
		return false;
	rcu_read_lock();
	member = devpool_xa_load(&client->members, devpool_id_count(&pool->id));
	knows = member && member->pool == pool;
	rcu_read_unlock();
	return knows;
}

/**
 * devpool_client_forget - a member is about to leave
 * @client: its client
 * @member: the member
 *
 * Context: under the lock of the member's pool.
 */
void devpool_client_forget(struct devpool_client *client,
			   const struct devpool_member *member)
{
	lockdep_assert_held(&member->pool->lock);
	/* If another one takes its place meanwhile, that hint is lost. */
	if (READ_ONCE(client->recent) == member)
		WRITE_ONCE(client->recent, NULL);
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
 * devpool_client_charge - chunks became resident
 * @client: the client that made their pool
 * @chunks: how many
 *
 * Context: under the lock of the pool.
 */
void devpool_client_charge(struct devpool_client *client, u64 chunks)
{
	spin_lock(&client->lock);
	devpool_counter_add(&client->resident, chunks);
	spin_unlock(&client->lock);
}

/**
 * devpool_client_uncharge - chunks are resident no more
 * @client: the client that made their pool
 * @chunks: how many
 *
 * Context: under the lock of the pool.
 */
void devpool_client_uncharge(struct devpool_client *client, u64 chunks)
{
	spin_lock(&client->lock);
	devpool_counter_sub(&client->resident, chunks);
	spin_unlock(&client->lock);
}

/**
 * devpool_client_resident - how many chunks the client's pools have
 * @client: the client
 *
 * Context: process; does not sleep.
 * Return: chunks resident in its default pool and the pools of its making.
 */
u64 devpool_client_resident(struct devpool_client *client)
{
	u64 chunks;

	spin_lock(&client->lock);
	chunks = client->resident.now;
	spin_unlock(&client->lock);
	return chunks;
}

/**
 * devpool_client_free_block - FREE
 * @client: the client
 * @addr: any number
 *
 * Context: may sleep. Allocates nothing.
 * Return: 0, or -ENOENT if that is not the address of a live block that the
 * client owns.
 */
int devpool_client_free_block(struct devpool_client *client, u64 addr)
{
	struct devpool_range *range;
	struct devpool_pool *pool;
	int err;

	range = devpool_client_get_range(client, addr);
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
 * devpool_client_empty - EMPTY_CACHE of {0,0}
 * @client: the client
 * @keep: resident bytes at which to stop, in each pool
 * @emptied: the report
 *
 * The default pool and every freeable pool that the client knows; live private
 * pools are not touched and not reported.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_client_empty(struct devpool_client *client, u64 keep,
			  struct devpool_emptied *emptied)
{
	struct devpool_member *member;
	unsigned long count = 0;

	while ((member = devpool_client_next_member(client, &count))) {
		if (!READ_ONCE(member->pool->use_count))
			devpool_pool_empty(member->pool, 0, keep, emptied);
		devpool_client_put_member(client, member);
		count++;
	}
	devpool_pool_empty(client->home->pool, DEVPOOL_EMPTY_TRIM, keep, emptied);
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
	unsigned long count = 0;
	u64 taken = 0;

	if (home != requester)
		taken = devpool_pool_reclaim(home, nr, chunks);
	while (taken < nr &&
	       (member = devpool_client_next_member(client, &count))) {
		struct devpool_pool *pool = member->pool;

		if (pool != requester && !READ_ONCE(pool->use_count))
			taken += devpool_pool_reclaim(pool, nr - taken, chunks);
		devpool_client_put_member(client, member);
		count++;
	}
	return taken;
}

static int devpool_client_open(struct inode *inode, struct file *file)
{
	static const struct devpool_pool_id default_pool;
	struct devpool_device *device;
	struct devpool_client *client;

	/* Pairs with devpool_devices_publish(). */
	if (!smp_load_acquire(&devpool_is_loaded))
		return -ENODEV;
	device = container_of(inode->i_cdev, struct devpool_device, cdev);
	client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);
	if (!client)
		return -ENOMEM;
	client->serial = atomic64_inc_return(&devpool_serial);
	if (client->serial >> DEVPOOL_SERIAL_BITS) {
		kfree(client);
		return -ENOSPC;
	}
	kref_init(&client->ref);
	spin_lock_init(&client->lock);
	xa_init(&client->members);
	atomic_set(&client->nr_blocks, 0);
	get_device(&device->dev);
	client->device = device;

	client->home = devpool_pool_create(client, &default_pool);
	if (!client->home) {
		kref_put(&client->ref, devpool_client_free);
		return -ENOMEM;
	}
	atomic_inc(&device->nr_clients);
	file->private_data = client;
	/* Nodes of one device may have inodes of their own; its pages have one. */
	file->f_mapping = device->inode->i_mapping;
	return nonseekable_open(inode, file);
}

/*
 * The last close: no command is running and no mapping is left. Whatever the
 * client owns hangs on one of its members.
 */
static int devpool_client_close(struct inode *inode, struct file *file)
{
	struct devpool_client *client = file->private_data;
	struct devpool_member *member;
	unsigned long count = 0;

	while ((member = devpool_client_next_member(client, &count))) {
		devpool_member_close(member);
		kref_put(&member->ref, devpool_member_release);
		count++;
	}
	devpool_member_close(client->home);
	atomic_dec(&client->device->nr_clients);
	kref_put(&client->ref, devpool_client_free);
	return 0;
}

const struct file_operations devpool_client_fops = {
	.owner = THIS_MODULE,
	.open = devpool_client_open,
	.release = devpool_client_close,
	.unlocked_ioctl = devpool_client_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = devpool_mmap_file,
#ifdef CONFIG_TRANSPARENT_HUGEPAGE
	.get_unmapped_area = thp_get_unmapped_area,
#endif
};
