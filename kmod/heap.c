// SPDX-License-Identifier: GPL-2.0-only
/*
 * Heaps: each device as a dma-heap, for programs that know nothing of devpool.
 *
 * The node answers what those of the kernel's heaps do, with the same errors. Behind it
 * is one client for all who have it open, whose default pool has the buffers: so small
 * ones share chunks, and what is closed is used again. A buffer is a block that only its
 * dma-buf has; whoever had it before, it is zero when it is handed out.
 *
 * What the pool caches is no more than the device keeps in stock. Any request that lacks
 * chunks may take it, and trimming the device gives it back.
 */
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <uapi/linux/dma-heap.h>

#include "compat.h"
#include "private.h"
#include "trace.h"

/**
 * struct devpool_heap - a device as a dma-heap
 * @misc: the node
 * @client: has the buffers in its default pool
 * @name: of @misc
 * @nodename: of @misc
 * @has_node: @misc is registered
 */
struct devpool_heap {
	struct miscdevice misc;
	struct devpool_client *client;
	char name[32];
	char nodename[48];
	bool has_node;
};

static int devpool_heap_open(struct inode *inode, struct file *file)
{
	struct miscdevice *misc = file->private_data;

	/* Pairs with devpool_devices_publish(). */
	if (!smp_load_acquire(&devpool_is_loaded))
		return -ENODEV;
	file->private_data = container_of(misc, struct devpool_heap, misc);
	return nonseekable_open(inode, file);
}

/* What a heap answers where there is not enough, whatever the reason */
static int devpool_heap_errno(int err)
{
	return err == -ENOSPC || err == -EDQUOT || err == -EAGAIN ? -ENOMEM : err;
}

/* A buffer as a dma-buf, which alone has it. */
static struct dma_buf *devpool_heap_alloc(struct devpool_client *client, u64 len, u32 mode)
{
	struct devpool_member *member = client->home;
	struct devpool_request request = {
		.size = PAGE_ALIGN(len),
		.align = PAGE_SIZE,
		.requested = len,
	};
	struct devpool_block *block;
	struct dma_buf *buf;
	int err;

	if (!request.size)
		return ERR_PTR(-EINVAL);
	if (request.size > devpool_device_bytes(client->device))
		return ERR_PTR(devpool_pool_refuse(member->pool, request.size, -ENOMEM));
	if (!atomic_add_unless(&client->nr_blocks, 1, devpool_max_blocks))
		return ERR_PTR(devpool_pool_refuse(member->pool, request.size, -ENOMEM));
	err = devpool_pool_reserve(member, &request, &block);
	if (err)
		goto uncount;
	err = devpool_pool_zero(member->pool, block);
	if (err)
		goto unreserve;
	buf = devpool_dmabuf_make(block, client, mode);
	if (IS_ERR(buf)) {
		err = PTR_ERR(buf);
		goto unreserve;
	}
	trace_devpool_alloc(member->pool, block);
	/* From now on it is freed when the dma-buf is released. */
	devpool_pool_publish(member, block);
	return buf;

unreserve:
	devpool_pool_unreserve(member, block);
uncount:
	atomic_dec(&client->nr_blocks);
	return ERR_PTR(devpool_heap_errno(err));
}

/*
 * As the kernel's heaps do it, the caller's struct may be shorter or longer than ours:
 * what is missing is 0, and what is more is left alone.
 */
static long devpool_heap_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	size_t size = min_t(size_t, _IOC_SIZE(cmd), sizeof(struct dma_heap_allocation_data));
	struct devpool_heap *heap = file->private_data;
	struct dma_heap_allocation_data data = {};
	void __user *user = (void __user *)arg;
	struct dma_buf *buf;
	int fd, err;

	if (_IOC_NR(cmd) != _IOC_NR(DMA_HEAP_IOCTL_ALLOC))
		return -EINVAL;
	if (cmd & IOC_IN && copy_from_user(&data, user, size))
		return -EFAULT;
	if (data.fd || data.fd_flags & ~DMA_HEAP_VALID_FD_FLAGS ||
	    data.heap_flags & ~DMA_HEAP_VALID_HEAP_FLAGS)
		return -EINVAL;
	fd = get_unused_fd_flags(data.fd_flags & O_CLOEXEC);
	if (fd < 0)
		return fd;
	buf = devpool_heap_alloc(heap->client, data.len, data.fd_flags & O_ACCMODE);
	if (IS_ERR(buf)) {
		err = PTR_ERR(buf);
		goto put_fd;
	}
	data.fd = fd;
	err = -EFAULT;
	if (cmd & IOC_OUT && copy_to_user(user, &data, size))
		goto put_buf;
	/* The descriptor gets the reference. */
	fd_install(fd, buf->file);
	return 0;

put_buf:
	dma_buf_put(buf);
put_fd:
	put_unused_fd(fd);
	return err;
}

static const struct file_operations devpool_heap_fops = {
	.owner = THIS_MODULE,
	.open = devpool_heap_open,
	.unlocked_ioctl = devpool_heap_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

/**
 * devpool_heap_make - makes a heap of a device that has memory
 * @device: the device, which has its name; its @heap is set
 *
 * Context: module load.
 * Return: 0 or -ENOMEM.
 */
int devpool_heap_make(struct devpool_device *device)
{
	u64 keep = device->supply.clean_target << device->chunk_shift;
	struct devpool_heap *heap;

	if (!device->backend->pfn)
		return 0;
	heap = kzalloc(sizeof(*heap), GFP_KERNEL);
	if (!heap)
		return -ENOMEM;
	heap->client = devpool_client_create(device, NULL, "dma_heap");
	if (IS_ERR(heap->client)) {
		int err = PTR_ERR(heap->client);

		kfree(heap);
		return err;
	}
	devpool_pool_set_attr(heap->client->home->pool, DEVPOOL_ATTR_RELEASE_THRESHOLD, keep);
	snprintf(heap->name, sizeof(heap->name), "%s", dev_name(&device->dev));
	snprintf(heap->nodename, sizeof(heap->nodename), "dma_heap/%s", heap->name);
	heap->misc = (struct miscdevice){
		.minor = MISC_DYNAMIC_MINOR,
		.name = heap->name,
		.nodename = heap->nodename,
		.mode = 0660,
		.fops = &devpool_heap_fops,
	};
	device->heap = heap;
	return 0;
}

/**
 * devpool_heap_publish - makes the node
 * @device: the device
 *
 * Context: module load. Whoever opens it gets nothing until that is over.
 * Return: 0 or what the misc core says.
 */
int devpool_heap_publish(struct devpool_device *device)
{
	struct devpool_heap *heap = device->heap;
	int err;

	if (!heap)
		return 0;
	err = misc_register(&heap->misc);
	heap->has_node = !err;
	return err;
}

/**
 * devpool_heap_unpublish - undoes devpool_heap_publish()
 * @device: the device
 *
 * Context: module unload, or a load that failed.
 */
void devpool_heap_unpublish(struct devpool_device *device)
{
	struct devpool_heap *heap = device->heap;

	if (!heap || !heap->has_node)
		return;
	misc_deregister(&heap->misc);
	heap->has_node = false;
}

/**
 * devpool_heap_remove - undoes devpool_heap_make()
 * @device: the device, its heap unpublished
 *
 * Context: module unload, or a load that failed: no buffer is left, since each holds the
 * module.
 */
void devpool_heap_remove(struct devpool_device *device)
{
	struct devpool_heap *heap = device->heap;

	if (!heap)
		return;
	device->heap = NULL;
	devpool_client_end(heap->client);
	kfree(heap);
}

/**
 * devpool_heap_reclaim - takes chunks that the heap of a device has cached
 * @device: the device
 * @requester: the pool that needs them; not the heap's own
 * @nr: how many at the most
 * @chunks: list to which they are added; they are the caller's
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: how many were taken.
 */
u64 devpool_heap_reclaim(struct devpool_device *device, const struct devpool_pool *requester,
			 u64 nr, struct list_head *chunks)
{
	struct devpool_heap *heap = device->heap;

	if (!heap || heap->client->home->pool == requester)
		return 0;
	return devpool_pool_reclaim(heap->client->home->pool, nr, chunks);
}

/**
 * devpool_heap_held - how many chunks the heap of a device has
 * @device: the device
 *
 * Context: process; does not sleep.
 * Return: chunks in its pool.
 */
u64 devpool_heap_held(struct devpool_device *device)
{
	return device->heap ? devpool_client_held(device->heap->client) : 0;
}

/**
 * devpool_heap_trim - gives back what the heap of a device has cached
 * @device: the device
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_heap_trim(struct devpool_device *device)
{
	if (device->heap)
		devpool_pool_empty(device->heap->client->home->pool, DEVPOOL_EMPTY_TRIM, 0, 0,
				   NULL);
}
