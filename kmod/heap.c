// SPDX-License-Identifier: GPL-2.0-only
/*
 * Heaps: each device as a dma-heap, for programs that know nothing of devpool.
 *
 * The node answers what those of the kernel's heaps do, with the same errors. Behind it
 * is one client for all who have it open, whose default pool has the buffers: so small
 * ones share chunks. A buffer is a block that only its dma-buf has; whoever had it
 * before, it is zero when it is handed out.
 *
 * What is closed is zeroed before it is free, and nobody can write to what is not handed
 * out: so the pool has cached what is zero, and chunks that it gives back are clean. It
 * gives back all but one, and the stock is where those are kept that will be wanted
 * again. Zeroing is left to the worker that does it for the stock, up to as many bytes
 * as that keeps clean; what is closed beyond that comes into the stock as it is. Whoever
 * lacks chunks waits for what is being zeroed.
 */
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/minmax.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
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
 * @deferred: bytes of closed buffers that the worker has to zero
 * @nr_deferred: how many buffers it was ever told of
 * @nr_settled: how many of these it is done with
 * @settled: waits for some of them
 * @name: of @misc
 * @nodename: of @misc
 * @has_node: @misc is registered
 */
struct devpool_heap {
	struct miscdevice misc;
	struct devpool_client *client;
	atomic64_t deferred;
	atomic64_t nr_deferred;
	atomic64_t nr_settled;
	wait_queue_head_t settled;
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

/**
 * devpool_heap_free - the last descriptor of a buffer is closed
 * @heap: the heap
 * @addr: its address
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_heap_free(struct devpool_heap *heap, u64 addr)
{
	devpool_client_free_block(heap->client, addr);
}

/**
 * devpool_heap_return - the same where nothing uses the buffer any more
 * @heap: the heap
 * @use: the use of it that its dma-buf was
 * @zero: it is zero
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_heap_return(struct devpool_heap *heap, struct devpool_use *use, bool zero)
{
	devpool_pool_return(heap->client->home, use, zero);
	atomic_dec(&heap->client->nr_blocks);
}

/**
 * devpool_heap_defer - is zeroing a closed buffer to be left to the worker
 * @heap: the heap
 * @bytes: of the buffer
 *
 * Context: any.
 * Return: true if so: then devpool_heap_deferred() follows; false if there is too much.
 */
bool devpool_heap_defer(struct devpool_heap *heap, u64 bytes)
{
	const struct devpool_device *device = heap->client->device;
	u64 most = device->supply.clean_target << device->chunk_shift;

	if (atomic64_add_return(bytes, &heap->deferred) > most) {
		atomic64_sub(bytes, &heap->deferred);
		return false;
	}
	atomic64_inc(&heap->nr_deferred);
	return true;
}

/**
 * devpool_heap_deferred - the worker is done with a closed buffer
 * @heap: the heap
 * @bytes: of the buffer, which is cached or back in the stock
 *
 * Context: any.
 */
void devpool_heap_deferred(struct devpool_heap *heap, u64 bytes)
{
	atomic64_sub(bytes, &heap->deferred);
	atomic64_inc(&heap->nr_settled);
	wake_up_all(&heap->settled);
}

/**
 * devpool_heap_mark - what a device's heap is having zeroed by now
 * @device: the device
 *
 * Context: any.
 * Return: a mark for devpool_heap_settle().
 */
s64 devpool_heap_mark(const struct devpool_device *device)
{
	return device->heap ? atomic64_read(&device->heap->nr_deferred) : 0;
}

/**
 * devpool_heap_is_settled - is nothing of that being zeroed any more
 * @device: the device
 * @mark: a mark
 *
 * Context: any.
 * Return: true if so.
 */
bool devpool_heap_is_settled(const struct devpool_device *device, s64 mark)
{
	return !device->heap || atomic64_read(&device->heap->nr_settled) >= mark;
}

/**
 * devpool_heap_settle - waits until that is so
 * @device: the device
 * @mark: a mark; what is closed later is not waited for, however much that is
 *
 * Context: may sleep, no lock held.
 * Return: 0, or -EINTR if the caller is dying.
 */
int devpool_heap_settle(struct devpool_device *device, s64 mark)
{
	if (!device->heap)
		return 0;
	return wait_event_killable(device->heap->settled,
				   devpool_heap_is_settled(device, mark)) ? -EINTR : 0;
}

/* What a heap answers where there is not enough, whatever the reason */
static int devpool_heap_errno(int err)
{
	return err == -ENOSPC || err == -EDQUOT || err == -EAGAIN ? -ENOMEM : err;
}

/*
 * Where the stock has not enough that is clean, what is being zeroed by now is what will
 * be so first.
 */
static void devpool_heap_prepare(struct devpool_device *device, u64 bytes)
{
	/* A hint: another one may be faster. */
	u64 clean = data_race(device->supply.nr_clean) << device->chunk_shift;

	if (bytes > DEVPOOL_HEAP_AT_ONCE && bytes > clean)
		devpool_heap_settle(device, devpool_heap_mark(device));
}

/* A buffer as a dma-buf, which alone has it. */
static struct dma_buf *devpool_heap_alloc(struct devpool_heap *heap, u64 len, u32 mode)
{
	struct devpool_client *client = heap->client;
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
	devpool_heap_prepare(client->device, request.size);
	err = devpool_pool_reserve(member, &request, &block);
	if (err)
		goto uncount;
	err = devpool_pool_zero(member->pool, block);
	if (err)
		goto unreserve;
	buf = devpool_dmabuf_make(block, heap, mode);
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
 * what is missing is 0, and what is more has to be there, and is left alone.
 */
static long devpool_heap_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	size_t size = min_t(size_t, _IOC_SIZE(cmd), sizeof(struct dma_heap_allocation_data));
	size_t rest = _IOC_SIZE(cmd) - size;
	struct devpool_heap *heap = file->private_data;
	struct dma_heap_allocation_data data = {};
	void __user *user = (void __user *)arg;
	struct dma_buf *buf;
	int fd, err;

	if (_IOC_NR(cmd) != _IOC_NR(DMA_HEAP_IOCTL_ALLOC))
		return -EINVAL;
	if (cmd & IOC_IN && (copy_from_user(&data, user, size) ||
			     (rest && fault_in_readable(user + size, rest))))
		return -EFAULT;
	if (data.fd || data.fd_flags & ~DMA_HEAP_VALID_FD_FLAGS ||
	    data.heap_flags & ~DMA_HEAP_VALID_HEAP_FLAGS)
		return -EINVAL;
	fd = get_unused_fd_flags(data.fd_flags & O_CLOEXEC);
	if (fd < 0)
		return fd;
	buf = devpool_heap_alloc(heap, data.len, data.fd_flags & O_ACCMODE);
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
	struct devpool_heap *heap;
	struct devpool_pool *pool;
	unsigned int i;

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
	init_waitqueue_head(&heap->settled);
	pool = heap->client->home->pool;
	for (i = 0; i < ARRAY_SIZE(pool->arenas); i++)
		pool->arenas[i].keeps_zero = true;
	/* So that one small buffer at a time takes no chunk each time */
	devpool_pool_set_attr(pool, DEVPOOL_ATTR_RELEASE_THRESHOLD, devpool_chunk_size(device));
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
	devpool_heap_settle(device, devpool_heap_mark(device));
	if (device->heap)
		devpool_pool_empty(device->heap->client->home->pool, DEVPOOL_EMPTY_TRIM, 0, 0,
				   NULL);
}
