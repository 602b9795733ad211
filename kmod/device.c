// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices: the nodes, their address spaces, and what sysfs shows of them.
 */
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/pseudo_fs.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "compat.h"
#include "private.h"

#define DEVPOOL_MAX_DEVICES 64
/* "dvpl" */
#define DEVPOOL_FS_MAGIC 0x6476706c

static struct class *devpool_class;
static dev_t devpool_devt;
static struct devpool_device *devpool_devices[DEVPOOL_MAX_DEVICES];
static unsigned int devpool_nr_devices;

bool devpool_is_loaded;

static struct vfsmount *devpool_mount;
static int devpool_mount_count;

static int devpool_fs_init(struct fs_context *fc)
{
	return init_pseudo(fc, DEVPOOL_FS_MAGIC) ? 0 : -ENOMEM;
}

/* Without an owner: the mount is the module's own and must not pin it. */
static struct file_system_type devpool_fs_type = {
	.name = "devpool",
	.init_fs_context = devpool_fs_init,
	.kill_sb = kill_anon_super,
};

static struct devpool_device *to_devpool(struct device *dev)
{
	return container_of(dev, struct devpool_device, dev);
}

static ssize_t bytes_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%llu\n", devpool_device_bytes(to_devpool(dev)));
}
static DEVICE_ATTR_RO(bytes);

static ssize_t chunk_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%llu\n", devpool_chunk_size(to_devpool(dev)));
}
static DEVICE_ATTR_RO(chunk);

static ssize_t backend_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%s\n", to_devpool(dev)->backend->name);
}
static DEVICE_ATTR_RO(backend);

static ssize_t used_show(struct device *dev, struct device_attribute *attr,
			 char *buf)
{
	struct devpool_device *device = to_devpool(dev);
	struct devpool_supply *supply = &device->supply;
	u64 used;

	spin_lock(&supply->lock);
	used = supply->nr_chunks - supply->nr_free;
	spin_unlock(&supply->lock);
	return sysfs_emit(buf, "%llu\n", used << device->chunk_shift);
}
static DEVICE_ATTR_RO(used);

static ssize_t clean_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	struct devpool_device *device = to_devpool(dev);

	return sysfs_emit(buf, "%llu\n", READ_ONCE(device->supply.nr_clean)
					 << device->chunk_shift);
}
static DEVICE_ATTR_RO(clean);

static ssize_t dirty_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	struct devpool_device *device = to_devpool(dev);

	return sysfs_emit(buf, "%llu\n", READ_ONCE(device->supply.nr_dirty)
					 << device->chunk_shift);
}
static DEVICE_ATTR_RO(dirty);

static ssize_t clients_show(struct device *dev, struct device_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&to_devpool(dev)->nr_clients));
}
static DEVICE_ATTR_RO(clients);

static ssize_t pools_show(struct device *dev, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%d\n", atomic_read(&to_devpool(dev)->nr_pools));
}
static DEVICE_ATTR_RO(pools);

static ssize_t trim_store(struct device *dev, struct device_attribute *attr,
			  const char *buf, size_t count)
{
	struct devpool_device *device = to_devpool(dev);
	u64 keep;

	if (kstrtou64(buf, 0, &keep))
		return -EINVAL;
	devpool_heap_trim(device);
	devpool_supply_trim(device, keep >> device->chunk_shift);
	return count;
}
static DEVICE_ATTR_WO(trim);

static struct attribute *devpool_attrs[] = {
	&dev_attr_backend.attr,
	&dev_attr_bytes.attr,
	&dev_attr_chunk.attr,
	&dev_attr_clean.attr,
	&dev_attr_clients.attr,
	&dev_attr_dirty.attr,
	&dev_attr_pools.attr,
	&dev_attr_trim.attr,
	&dev_attr_used.attr,
	NULL
};
ATTRIBUTE_GROUPS(devpool);

static char *devpool_devnode(devpool_devnode_device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0660;
	return NULL;
}

static void devpool_device_release(struct device *dev)
{
	struct devpool_device *device = to_devpool(dev);

	xa_destroy(&device->low.ranges);
	xa_destroy(&device->high.ranges);
	kfree(device);
}

static void devpool_addresses_init(struct devpool_addresses *addresses,
				   unsigned long first, unsigned long end)
{
	xa_init(&addresses->ranges);
	addresses->first = first;
	addresses->end = end;
	addresses->next = first;
}

/* The inode whose address_space all mappings of the device are in. */
static int devpool_device_make_inode(struct devpool_device *device)
{
	int err;

	err = simple_pin_fs(&devpool_fs_type, &devpool_mount, &devpool_mount_count);
	if (err)
		return err;
	device->inode = alloc_anon_inode(devpool_mount->mnt_sb);
	if (IS_ERR(device->inode)) {
		simple_release_fs(&devpool_mount, &devpool_mount_count);
		return PTR_ERR(device->inode);
	}
	return 0;
}

/**
 * devpool_device_make - makes a device that nobody can find yet
 * @backend: what supplies its memory
 * @bytes: its size; what is over a whole number of chunks stays unused
 * @chunk_shift: log2 of the chunk size
 * @clean_target: bytes to be kept zeroed
 *
 * Context: module load.
 * Return: 0, -ENOMEM, -ENOSPC (too many devices) or what the device core says.
 */
int devpool_device_make(const struct devpool_backend *backend, u64 bytes,
			unsigned int chunk_shift, u64 clean_target)
{
	struct devpool_device *device;
	int err;

	if (devpool_nr_devices == DEVPOOL_MAX_DEVICES)
		return -ENOSPC;
	device = kzalloc(sizeof(*device), GFP_KERNEL);
	if (!device)
		return -ENOMEM;

	device->backend = backend;
	device->index = devpool_nr_devices;
	device->chunk_shift = chunk_shift;
	/* Slot 0 is never dealt: 0 is no address. */
	devpool_addresses_init(&device->low, 1,
			       DEVPOOL_LOW_END >> DEVPOOL_LOW_SLOT_SHIFT);
	devpool_addresses_init(&device->high,
			       DEVPOOL_LOW_END >> DEVPOOL_HIGH_SLOT_SHIFT,
			       DEVPOOL_ADDR_END >> DEVPOOL_HIGH_SLOT_SHIFT);
	devpool_supply_init(device, bytes >> chunk_shift, clean_target >> chunk_shift);
	spin_lock_init(&device->lock);
	device->pools = RB_ROOT;

	device_initialize(&device->dev);
	device->dev.class = devpool_class;
	device->dev.devt = MKDEV(MAJOR(devpool_devt), device->index);
	device->dev.groups = devpool_groups;
	device->dev.release = devpool_device_release;
	err = dev_set_name(&device->dev, "devpool%u", device->index);
	if (err)
		goto put_device;
	err = devpool_device_make_inode(device);
	if (err)
		goto put_device;
	err = devpool_supply_make_shrinkable(device);
	if (err)
		goto put_inode;
	err = devpool_heap_make(device);
	if (err)
		goto supply_exit;
	devpool_debugfs_add(device);

	cdev_init(&device->cdev, &devpool_client_fops);
	device->cdev.owner = THIS_MODULE;
	devpool_devices[devpool_nr_devices++] = device;
	return 0;

supply_exit:
	devpool_supply_exit(device);
put_inode:
	iput(device->inode);
	simple_release_fs(&devpool_mount, &devpool_mount_count);
put_device:
	put_device(&device->dev);
	return err;
}

static void devpool_device_unpublish(struct devpool_device *device)
{
	devpool_heap_unpublish(device);
	if (device->has_node)
		cdev_device_del(&device->cdev, &device->dev);
	device->has_node = false;
}

static int devpool_device_publish(struct devpool_device *device)
{
	int err;

	err = cdev_device_add(&device->cdev, &device->dev);
	if (err)
		return err;
	device->has_node = true;
	err = devpool_heap_publish(device);
	if (err)
		devpool_device_unpublish(device);
	return err;
}

/**
 * devpool_devices_publish - makes the nodes of all devices
 *
 * A load that fails does not wait for who has a node open, so nothing may fail
 * after this; and until it is over nobody gets a client. If making one of the
 * nodes fails, those before it are taken away again, and whoever was about to be
 * told that there is no device yet has left when this returns.
 *
 * Context: the last step of module load.
 * Return: 0 or what the device core says.
 */
int devpool_devices_publish(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < devpool_nr_devices; i++) {
		err = devpool_device_publish(devpool_devices[i]);
		if (err)
			goto unpublish;
	}
	/* Pairs with devpool_client_open(). */
	smp_store_release(&devpool_is_loaded, true);
	return 0;

unpublish:
	while (i--)
		devpool_device_unpublish(devpool_devices[i]);
	/* The one reference is that of the load itself. */
	while (module_refcount(THIS_MODULE) > 1)
		msleep(20);
	return err;
}

static void devpool_device_remove(struct devpool_device *device)
{
	devpool_device_unpublish(device);
	devpool_debugfs_remove(device);
	devpool_heap_remove(device);
	devpool_supply_exit(device);
	iput(device->inode);
	simple_release_fs(&devpool_mount, &devpool_mount_count);
	put_device(&device->dev);
}

/**
 * devpool_devices_remove - takes all devices apart
 *
 * Context: module unload, or a load that failed: no file is open, since an open
 *	file prevents the one and nobody could open one before the other.
 */
void devpool_devices_remove(void)
{
	while (devpool_nr_devices)
		devpool_device_remove(devpool_devices[--devpool_nr_devices]);
}

/**
 * devpool_class_init - the class and the numbers of the nodes
 *
 * Context: module load.
 * Return: 0 or what the device core says.
 */
int devpool_class_init(void)
{
	int err;

	err = alloc_chrdev_region(&devpool_devt, 0, DEVPOOL_MAX_DEVICES, "devpool");
	if (err)
		return err;
	devpool_class = devpool_class_create("devpool");
	if (IS_ERR(devpool_class)) {
		unregister_chrdev_region(devpool_devt, DEVPOOL_MAX_DEVICES);
		return PTR_ERR(devpool_class);
	}
	devpool_class->devnode = devpool_devnode;
	return 0;
}

/**
 * devpool_class_exit - undoes devpool_class_init()
 *
 * Context: module unload, all devices are gone.
 */
void devpool_class_exit(void)
{
	class_destroy(devpool_class);
	unregister_chrdev_region(devpool_devt, DEVPOOL_MAX_DEVICES);
}

static void devpool_slots_erase(struct devpool_addresses *addresses,
				unsigned long slot, unsigned long nr)
{
	while (nr--) {
		xa_erase(&addresses->ranges, slot++);
		cond_resched();
	}
}

/*
 * Puts a range into free slots. They are reserved first, and filled when nothing
 * can fail any more: who finds a range by an address may go on using it for as
 * long as its pool has a reference.
 */
static int devpool_slots_insert(struct devpool_addresses *addresses,
				unsigned int slot_shift,
				struct devpool_range *range)
{
	/* A range begins with a chunk, which may be larger than a slot. */
	u64 step = max_t(u64, devpool_arena_chunk(range->arena) >> slot_shift, 1);
	unsigned long nr = range->size >> slot_shift;
	unsigned long looked_at = 0;

	while (looked_at < addresses->end - addresses->first) {
		unsigned long slot, i;
		int err = 0;

		xa_lock(&addresses->ranges);
		slot = ALIGN(addresses->next, step);
		if (slot > addresses->end || nr > addresses->end - slot)
			slot = ALIGN(addresses->first, step);
		if (nr > addresses->end - slot) {
			xa_unlock(&addresses->ranges);
			return -ENOSPC;
		}
		addresses->next = slot + nr;
		xa_unlock(&addresses->ranges);

		for (i = 0; i < nr && !err; i++) {
			err = xa_insert(&addresses->ranges, slot + i, NULL,
					DEVPOOL_GFP);
			cond_resched();
		}
		if (!err) {
			range->base = (u64)slot << slot_shift;
			for (i = 0; i < nr; i++) {
				xa_store(&addresses->ranges, slot + i, range, 0);
				cond_resched();
			}
			return 0;
		}
		devpool_slots_erase(addresses, slot, i - 1);
		if (err != -EBUSY)
			return err;
		if (fatal_signal_pending(current))
			return -EINTR;
		looked_at += nr;
	}
	return -ENOSPC;
}

static struct devpool_addresses *devpool_addresses_of(struct devpool_device *device,
						      u64 addr,
						      unsigned int *slot_shift)
{
	if (addr < DEVPOOL_LOW_END) {
		*slot_shift = DEVPOOL_LOW_SLOT_SHIFT;
		return &device->low;
	}
	*slot_shift = DEVPOOL_HIGH_SLOT_SHIFT;
	return &device->high;
}

/**
 * devpool_device_deal_range - addresses for an arena
 * @device: the device
 * @pool: the pool
 * @arena: its arena that they are for; the first range of an arena is low
 * @size: bytes that have to fit into it
 *
 * The range can be found by its addresses at once, but has no block yet, so that
 * the caller must have one at hand.
 *
 * Context: may sleep, no lock held.
 * Return: the range, or an ERR_PTR() of -ENOSPC, -ENOMEM or -EINTR.
 */
struct devpool_range *devpool_device_deal_range(struct devpool_device *device,
						struct devpool_pool *pool,
						struct devpool_arena *arena,
						u64 size)
{
	bool low = !READ_ONCE(arena->nr_ranges) && size <= DEVPOOL_LOW_RANGE_MAX;
	struct devpool_range *range;
	int err = -ENOSPC;

	range = kmalloc(sizeof(*range), GFP_KERNEL_ACCOUNT);
	if (!range)
		return ERR_PTR(-ENOMEM);
	range->pool = pool;
	size = ALIGN(size, devpool_chunk_size(device));

	if (low) {
		u64 least = arena == pool->arenas ? 0 : DEVPOOL_LARGE_RANGE_MIN;

		devpool_range_init(range, arena, 0,
				   ALIGN(max(size, least), 1ULL << DEVPOOL_LOW_SLOT_SHIFT));
		err = devpool_slots_insert(&device->low, DEVPOOL_LOW_SLOT_SHIFT,
					   range);
	}
	if (err == -ENOSPC) {
		devpool_range_init(range, arena, 0,
				   ALIGN(size, 1ULL << DEVPOOL_HIGH_SLOT_SHIFT));
		err = devpool_slots_insert(&device->high, DEVPOOL_HIGH_SLOT_SHIFT,
					   range);
	}
	if (err) {
		kfree(range);
		return ERR_PTR(err);
	}
	return range;
}

/**
 * devpool_device_drop_range - the addresses are free again
 * @device: the device
 * @range: the range, in no arena any more; freed
 *
 * Context: allocates nothing.
 */
void devpool_device_drop_range(struct devpool_device *device,
			       struct devpool_range *range)
{
	struct devpool_addresses *addresses;
	unsigned int slot_shift;

	addresses = devpool_addresses_of(device, range->base, &slot_shift);
	devpool_slots_erase(addresses, range->base >> slot_shift,
			    range->size >> slot_shift);
	kfree_rcu(range, rcu);
}

/**
 * devpool_device_find_range - finds the range that an address is in
 * @device: the device
 * @addr: any number
 *
 * Context: RCU read-side section, which protects the range and its pool.
 * Return: the range, or NULL.
 */
struct devpool_range *devpool_device_find_range(struct devpool_device *device,
						u64 addr)
{
	struct devpool_addresses *addresses;
	unsigned int slot_shift;

	if (addr >= DEVPOOL_ADDR_END)
		return NULL;
	addresses = devpool_addresses_of(device, addr, &slot_shift);
	return devpool_xa_load(&addresses->ranges, addr >> slot_shift);
}

/**
 * devpool_device_next_range - walks over the ranges of all pools
 * @device: the device
 * @addr: any number
 *
 * Context: RCU read-side section, which protects the range and its pool.
 * Return: the range of the lowest addresses, the last of which is not below @addr,
 * or NULL.
 */
struct devpool_range *devpool_device_next_range(struct devpool_device *device, u64 addr)
{
	struct devpool_range *range = NULL;
	unsigned long slot;

	/* A range is in each of its slots. */
	if (addr < DEVPOOL_LOW_END) {
		slot = addr >> DEVPOOL_LOW_SLOT_SHIFT;
		range = xa_find(&device->low.ranges, &slot, ULONG_MAX, XA_PRESENT);
		addr = DEVPOOL_LOW_END;
	}
	if (!range) {
		slot = addr >> DEVPOOL_HIGH_SLOT_SHIFT;
		range = xa_find(&device->high.ranges, &slot, ULONG_MAX, XA_PRESENT);
	}
	return range;
}

static int compare_pools(struct rb_node *node, const struct rb_node *other)
{
	u64 a = rb_entry(node, struct devpool_pool, by_number)->number;
	u64 b = rb_entry(other, struct devpool_pool, by_number)->number;

	return a < b ? -1 : a > b;
}

/**
 * devpool_device_add_pool - a pool becomes one that the device has
 * @device: the device
 * @pool: the pool
 *
 * Context: process; does not sleep.
 */
void devpool_device_add_pool(struct devpool_device *device, struct devpool_pool *pool)
{
	struct rb_node *other;

	spin_lock(&device->lock);
	other = rb_find_add(&pool->by_number, &device->pools, compare_pools);
	spin_unlock(&device->lock);
	/* Its creator has made sure that there is no other of that number. */
	WARN_ON(other);
}

/**
 * devpool_device_retire_pool - a pool is gone
 * @device: the device
 * @pool: the pool
 * @tally: its counters
 *
 * Context: under the lock of the pool.
 */
void devpool_device_retire_pool(struct devpool_device *device, struct devpool_pool *pool,
				const struct devpool_tally *tally)
{
	spin_lock(&device->lock);
	rb_erase(&pool->by_number, &device->pools);
	devpool_tally_add(&device->retired, tally);
	device->nr_retired++;
	spin_unlock(&device->lock);
	if (!devpool_id_is_none(&pool->id))
		atomic_dec(&device->nr_pools);
}

/**
 * devpool_device_next_pool - walks over the pools that are not gone
 * @device: the device
 * @number: where to begin; set to what to go on with
 * @end: number behind the last one wanted, 0 for all
 *
 * Context: process; does not sleep.
 * Return: the pool of the least number from there on, with a reference, or NULL at
 * the end.
 */
struct devpool_pool *devpool_device_next_pool(struct devpool_device *device, u64 *number,
					      u64 end)
{
	struct devpool_pool *pool, *found = NULL;
	struct rb_node *node;

	spin_lock(&device->lock);
	node = device->pools.rb_node;
	while (node) {
		pool = rb_entry(node, struct devpool_pool, by_number);
		if (pool->number >= *number) {
			found = pool;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	if (found && end && found->number >= end)
		found = NULL;
	if (found) {
		*number = found->number + 1;
		/* It has one of its members' as long as it is in here. */
		devpool_pool_get(found);
	}
	spin_unlock(&device->lock);
	return found;
}

/**
 * devpool_device_zap - takes chunks out of all page tables
 * @device: the device
 * @chunks: chunks that are leaving, neighbours in order
 *
 * Context: may sleep, no lock held.
 */
void devpool_device_zap(struct devpool_device *device, struct list_head *chunks)
{
	u64 chunk_size = devpool_chunk_size(device);
	struct devpool_chunk *chunk;
	u64 addr = 0, size = 0;

	list_for_each_entry(chunk, chunks, link) {
		cond_resched();
		if (size && chunk->addr == addr + size) {
			size += chunk_size;
			continue;
		}
		if (size)
			unmap_mapping_range(device->inode->i_mapping, addr, size, 1);
		addr = chunk->addr;
		size = chunk_size;
	}
	if (size)
		unmap_mapping_range(device->inode->i_mapping, addr, size, 1);
}
