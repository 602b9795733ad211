// SPDX-License-Identifier: GPL-2.0-only
/*
 * Dma-bufs: blocks for drivers, and for processes that know nothing of devpool.
 *
 * A dma-buf is a use of its block as a stream is one: a block that is freed
 * meanwhile is pending, and becomes cached by the same way when its uses are over.
 * That is when the last reference on the dma-buf is gone and every fence has
 * signalled that drivers have left in its reservation object. The object is not the
 * dma-buf's own, so that it can outlive that: of its fences one at a time has the
 * callback, and when that has signalled the next one gets it.
 *
 * Until then the block keeps its memory, so it can be looked at without a lock.
 *
 *	dma-buf				block
 *	EXPORT				live, has a use
 *	is mapped, has fences
 *					FREE: pending
 *	last close: is gone
 *	fences signal, one by one
 *					no use: cached
 *
 * A heap's buffer is freed by the last close, and is pending until it is zero again.
 *
 * Whatever the end needs is in one struct, so it allocates nothing. Callbacks run
 * under the locks of other drivers, and only queue.
 */
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/iosys-map.h>
#include <linux/kthread.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "compat.h"
#include "private.h"
#include "trace.h"

/**
 * struct devpool_dmabuf - what a block has by being exported
 * @use: the use of the block
 * @pool: its pool, with a reference
 * @heap: the heap whose reference on the block goes with the dma-buf; NULL if none's
 *	does
 * @resv: the reservation object of its dma-bufs
 * @buf: its dma-buf; NULL if it has none; this and the next two under the pool's lock
 * @nr_bufs: dma-bufs that are not released: one beside @buf may be about to be, or
 *	not be one yet
 * @drains: @fence or @drain will look after it, with a reference on the module
 * @fence: drains: the fence that is waited for, with a reference
 * @callback: on @fence
 * @drain: goes on when @fence has signalled
 * @scrub: of a heap's: zeroes the block when it has drained, and @drain is over
 * @lock: protects all below
 * @attachments: the &struct devpool_attachment of importers
 *
 * It stays while there is a dma-buf or it drains. Nothing else has a pointer to it but
 * the block.
 */
struct devpool_dmabuf {
	struct devpool_use use;
	struct devpool_pool *pool;
	struct devpool_heap *heap;
	struct dma_resv resv;
	struct dma_buf *buf;
	unsigned int nr_bufs;
	bool drains;
	struct dma_fence *fence;
	struct dma_fence_cb callback;
	union {
		struct work_struct drain;
		struct kthread_work scrub;
	};

	struct mutex lock;
	struct list_head attachments;
};

/**
 * struct devpool_attachment - an importer's device
 * @link: in &devpool_dmabuf.attachments
 * @device: the device
 * @table: the block's memory; as the device sees it while it is mapped
 * @mapped: it is mapped; under the lock of the &struct devpool_dmabuf
 */
struct devpool_attachment {
	struct list_head link;
	struct device *device;
	struct sg_table table;
	bool mapped;
};

static void devpool_dmabuf_free(struct devpool_dmabuf *export)
{
	dma_resv_fini(&export->resv);
	mutex_destroy(&export->lock);
	kfree(export);
}

/* A fence that has not signalled, with a reference, or NULL. */
static struct dma_fence *devpool_dmabuf_open_fence(struct devpool_dmabuf *export)
{
	struct dma_resv_iter cursor;
	struct dma_fence *fence;

	dma_resv_iter_begin(&cursor, &export->resv, DMA_RESV_USAGE_BOOKKEEP);
	fence = dma_fence_get(dma_resv_iter_first_unlocked(&cursor));
	dma_resv_iter_end(&cursor);
	return fence;
}

/* Under the locks of others, and in an interrupt maybe. */
static void devpool_dmabuf_signalled(struct dma_fence *fence, struct dma_fence_cb *callback)
{
	struct devpool_dmabuf *export;

	export = container_of(callback, struct devpool_dmabuf, callback);
	queue_work(devpool_reaper, &export->drain);
}

/*
 * There is no fence left to wait for. It ends, and with it the use of the block; if
 * there is a dma-buf again its release will see to that. Lets go of the lock.
 */
static void devpool_dmabuf_end(struct devpool_dmabuf *export)
{
	struct devpool_pool *pool = export->pool;
	bool ends = !export->nr_bufs;

	export->drains = false;
	if (ends && devpool_block_end_use(pool, &export->use))
		trace_devpool_reap(pool, 0, 0, 1);
	devpool_pool_reaped(pool);
	devpool_pool_unlock(pool);
	if (ends) {
		devpool_dmabuf_free(export);
		devpool_pool_put(pool);
	}
}

static void devpool_dmabuf_scrub(struct kthread_work *work)
{
	struct devpool_dmabuf *export = container_of(work, struct devpool_dmabuf, scrub);
	struct devpool_block *block = export->use.block;
	struct devpool_heap *heap = export->heap;
	u64 bytes = block->size;
	bool zero;

	zero = !devpool_block_clear(block);
	devpool_pool_lock(export->pool);
	block->zero = zero;
	devpool_dmabuf_end(export);
	devpool_heap_deferred(heap, bytes);
	/* Module exit waits for the worker. */
	module_put(THIS_MODULE);
}

/* Waits for the next fence, if there is one. */
static void devpool_dmabuf_drain(struct devpool_dmabuf *export)
{
	struct devpool_block *block = export->use.block;
	struct devpool_pool *pool = export->pool;

	for (;;) {
		devpool_pool_lock(pool);
		export->fence = NULL;
		if (!export->nr_bufs)
			export->fence = devpool_dmabuf_open_fence(export);
		if (!export->fence)
			break;
		devpool_pool_unlock(pool);
		if (!dma_fence_add_callback(export->fence, &export->callback,
					    devpool_dmabuf_signalled))
			return;
		dma_fence_put(export->fence);
		cond_resched();
	}
	/* Not if there was no dma-buf, and who wanted one still has the block. */
	if (export->heap && block->pending && devpool_heap_defer(export->heap, block->size)) {
		devpool_pool_unlock(pool);
		kthread_init_work(&export->scrub, devpool_dmabuf_scrub);
		kthread_queue_work(devpool_scrubber, &export->scrub);
		return;
	}
	devpool_dmabuf_end(export);
	/* This code stays: the caller has a file, or module exit waits for it. */
	module_put(THIS_MODULE);
}

static void devpool_dmabuf_drain_work(struct work_struct *work)
{
	struct devpool_dmabuf *export = container_of(work, struct devpool_dmabuf, drain);

	/* Takes the lock under which the callback may be running still. */
	dma_fence_remove_callback(export->fence, &export->callback);
	dma_fence_put(export->fence);
	devpool_dmabuf_drain(export);
}

/* One dma-buf less, @buf if it came to be one. */
static void devpool_dmabuf_drop(struct devpool_dmabuf *export, const struct dma_buf *buf)
{
	struct devpool_pool *pool = export->pool;
	bool drains;

	mutex_lock(&pool->lock);
	if (buf && export->buf == buf)
		export->buf = NULL;
	drains = !--export->nr_bufs && !export->drains;
	if (drains)
		export->drains = true;
	mutex_unlock(&pool->lock);
	if (drains) {
		__module_get(THIS_MODULE);
		devpool_dmabuf_drain(export);
	}
}

/*
 * A heap's buffer in which nobody has ever left a fence, and which is zeroed sooner than
 * a worker is told
 */
static bool devpool_dmabuf_return(struct devpool_dmabuf *export)
{
	struct devpool_block *block = export->use.block;
	struct devpool_pool *pool = export->pool;

	if (block->size > DEVPOOL_HEAP_AT_ONCE || rcu_access_pointer(export->resv.fences))
		return false;
	devpool_heap_return(export->heap, &export->use, !devpool_block_clear(block));
	devpool_dmabuf_free(export);
	devpool_pool_put(pool);
	return true;
}

static void devpool_dmabuf_release(struct dma_buf *buf)
{
	struct devpool_dmabuf *export = buf->priv;

	if (export->heap) {
		if (devpool_dmabuf_return(export))
			return;
		/* The use keeps it, now pending. */
		devpool_heap_free(export->heap, export->use.block->addr);
	}
	devpool_dmabuf_drop(export, buf);
}

/*
 * How much of a block is one run of memory from @addr on, at most @max bytes, and
 * where that begins.
 */
static u64 devpool_block_run(const struct devpool_block *block, u64 addr, u64 max,
			     unsigned long *pfn)
{
	const struct devpool_device *device = block->range->pool->device;
	u64 within = devpool_chunk_size(device) - 1;
	u64 len = 0, run;

	max = min(max, devpool_block_end(block) - addr);
	while (len < max) {
		u64 at = addr + len;
		unsigned long next;

		next = device->backend->pfn(devpool_range_chunk(block->range, at),
					    device->chunk_shift, at & within, &run);
		if (!len)
			*pfn = next;
		else if (next != *pfn + (len >> PAGE_SHIFT))
			break;
		len += run;
		cond_resched();
	}
	return min(len, max);
}

/* The memory of a block, with one entry for each run. */
static int devpool_block_fill_table(const struct devpool_block *block, u64 max,
				    struct sg_table *table)
{
	u64 end = devpool_block_end(block);
	struct scatterlist *sg;
	unsigned int nr = 0, i;
	unsigned long pfn;
	u64 addr, len;
	int err;

	for (addr = block->addr; addr < end; nr++)
		addr += devpool_block_run(block, addr, max, &pfn);
	err = sg_alloc_table(table, nr, DEVPOOL_GFP);
	if (err)
		return err;
	addr = block->addr;
	for_each_sgtable_sg(table, sg, i) {
		len = devpool_block_run(block, addr, max, &pfn);
		sg_set_page(sg, pfn_to_page(pfn), len, 0);
		addr += len;
	}
	return 0;
}

static int devpool_dmabuf_attach(struct dma_buf *buf, struct dma_buf_attachment *attach)
{
	struct devpool_dmabuf *export = buf->priv;
	struct devpool_attachment *attachment;
	u64 max;
	int err;

	attachment = kzalloc(sizeof(*attachment), GFP_KERNEL_ACCOUNT);
	if (!attachment)
		return -ENOMEM;
	attachment->device = attach->dev;
	/* What bounces cannot be larger. */
	max = min_t(u64, dma_max_mapping_size(attach->dev), UINT_MAX) & PAGE_MASK;
	err = devpool_block_fill_table(export->use.block, max, &attachment->table);
	if (err) {
		kfree(attachment);
		return err;
	}
	attach->priv = attachment;
	mutex_lock(&export->lock);
	list_add(&attachment->link, &export->attachments);
	mutex_unlock(&export->lock);
	return 0;
}

static void devpool_dmabuf_detach(struct dma_buf *buf, struct dma_buf_attachment *attach)
{
	struct devpool_attachment *attachment = attach->priv;
	struct devpool_dmabuf *export = buf->priv;

	mutex_lock(&export->lock);
	list_del(&attachment->link);
	mutex_unlock(&export->lock);
	sg_free_table(&attachment->table);
	kfree(attachment);
}

static struct sg_table *devpool_dmabuf_map(struct dma_buf_attachment *attach,
					   enum dma_data_direction direction)
{
	struct devpool_attachment *attachment = attach->priv;
	struct devpool_dmabuf *export = attach->dmabuf->priv;
	int err;

	mutex_lock(&export->lock);
	err = dma_map_sgtable(attach->dev, &attachment->table, direction, 0);
	attachment->mapped = !err;
	mutex_unlock(&export->lock);
	return err ? ERR_PTR(err) : &attachment->table;
}

static void devpool_dmabuf_unmap(struct dma_buf_attachment *attach,
				 struct sg_table *table,
				 enum dma_data_direction direction)
{
	struct devpool_attachment *attachment = attach->priv;
	struct devpool_dmabuf *export = attach->dmabuf->priv;

	mutex_lock(&export->lock);
	attachment->mapped = false;
	dma_unmap_sgtable(attach->dev, table, direction, 0);
	mutex_unlock(&export->lock);
}

static int devpool_dmabuf_begin_cpu_access(struct dma_buf *buf,
					   enum dma_data_direction direction)
{
	struct devpool_dmabuf *export = buf->priv;
	struct devpool_attachment *attachment;

	mutex_lock(&export->lock);
	list_for_each_entry(attachment, &export->attachments, link)
		if (attachment->mapped)
			dma_sync_sgtable_for_cpu(attachment->device, &attachment->table,
						 direction);
	mutex_unlock(&export->lock);
	return 0;
}

static int devpool_dmabuf_end_cpu_access(struct dma_buf *buf,
					 enum dma_data_direction direction)
{
	struct devpool_dmabuf *export = buf->priv;
	struct devpool_attachment *attachment;

	mutex_lock(&export->lock);
	list_for_each_entry(attachment, &export->attachments, link)
		if (attachment->mapped)
			dma_sync_sgtable_for_device(attachment->device,
						    &attachment->table, direction);
	mutex_unlock(&export->lock);
	return 0;
}

/* The mapping keeps the dma-buf's file, and with it the block. */
static int devpool_dmabuf_mmap(struct dma_buf *buf, struct vm_area_struct *vma)
{
	struct devpool_dmabuf *export = buf->priv;
	const struct devpool_block *block = export->use.block;

	/* From here on it is a part of the device's address_space. */
	vma->vm_pgoff += block->addr >> PAGE_SHIFT;
	return devpool_mmap_range(block->range, vma);
}

static int devpool_dmabuf_vmap(struct dma_buf *buf, struct iosys_map *map)
{
	struct devpool_dmabuf *export = buf->priv;
	const struct devpool_block *block = export->use.block;
	unsigned long nr = block->size >> PAGE_SHIFT, filled = 0;
	struct page **pages;
	unsigned long pfn;
	void *vaddr;
	u64 len;

	pages = kvmalloc_array(nr, sizeof(*pages), DEVPOOL_GFP);
	if (!pages)
		return -ENOMEM;
	while (filled < nr) {
		len = devpool_block_run(block, block->addr + ((u64)filled << PAGE_SHIFT),
					U64_MAX, &pfn);
		for (; len; len -= PAGE_SIZE)
			pages[filled++] = pfn_to_page(pfn++);
	}
	vaddr = vmap(pages, nr, VM_MAP, PAGE_KERNEL);
	kvfree(pages);
	if (!vaddr)
		return -ENOMEM;
	iosys_map_set_vaddr(map, vaddr);
	return 0;
}

static void devpool_dmabuf_vunmap(struct dma_buf *buf, struct iosys_map *map)
{
	vunmap(map->vaddr);
}

static const struct dma_buf_ops devpool_dmabuf_ops = {
	.attach = devpool_dmabuf_attach,
	.detach = devpool_dmabuf_detach,
	.map_dma_buf = devpool_dmabuf_map,
	.unmap_dma_buf = devpool_dmabuf_unmap,
	.release = devpool_dmabuf_release,
	.begin_cpu_access = devpool_dmabuf_begin_cpu_access,
	.end_cpu_access = devpool_dmabuf_end_cpu_access,
	.mmap = devpool_dmabuf_mmap,
	.vmap = devpool_dmabuf_vmap,
	.vunmap = devpool_dmabuf_vunmap,
};

static struct devpool_dmabuf *devpool_dmabuf_alloc(struct devpool_pool *pool)
{
	struct devpool_dmabuf *export;

	export = kzalloc(sizeof(*export), GFP_KERNEL_ACCOUNT);
	if (!export)
		return NULL;
	export->pool = pool;
	dma_resv_init(&export->resv);
	INIT_WORK(&export->drain, devpool_dmabuf_drain_work);
	mutex_init(&export->lock);
	INIT_LIST_HEAD(&export->attachments);
	return export;
}

/* What a block has by being exported, or NULL if it is not. */
static struct devpool_dmabuf *devpool_block_dmabuf(const struct devpool_block *block)
{
	struct devpool_use *use = block->uses;

	lockdep_assert_held(&block->range->pool->lock);
	while (use && use->lane)
		use = use->next;
	return use ? container_of(use, struct devpool_dmabuf, use) : NULL;
}

/* The dma-buf that there is, with a reference, unless it is about to be released. */
static struct dma_buf *devpool_dmabuf_get_buf(struct devpool_dmabuf *export)
{
	struct dma_buf *buf = export->buf;

	lockdep_assert_held(&export->pool->lock);
	/* A file is freed after the release, which takes the pool's lock. */
	return buf && atomic_long_inc_not_zero(&buf->file->f_count) ? buf : NULL;
}

/* Makes the dma-buf that was counted before. Somebody else may be faster. */
static struct dma_buf *devpool_dmabuf_make_buf(struct devpool_dmabuf *export, u32 mode)
{
	struct devpool_pool *pool = export->pool;
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct dma_buf *buf, *other;

	info.ops = &devpool_dmabuf_ops;
	info.size = export->use.block->size;
	info.flags = mode;
	info.resv = &export->resv;
	info.priv = export;
	buf = dma_buf_export(&info);
	if (IS_ERR(buf)) {
		devpool_dmabuf_drop(export, NULL);
		return buf;
	}
	/* All mappings of the device are in one address_space, so that zaps reach them. */
	buf->file->f_mapping = pool->device->inode->i_mapping;
	/* Nobody else finds a block that a heap is about to hand out. */
	if (export->heap)
		return buf;

	mutex_lock(&pool->lock);
	other = devpool_dmabuf_get_buf(export);
	if (!other)
		export->buf = buf;
	mutex_unlock(&pool->lock);
	if (!other)
		return buf;
	dma_buf_put(buf);
	return other;
}

/**
 * devpool_dmabuf_get - the dma-buf of a block, EXPORT
 * @range: the range that the address is in; its pool has a reference
 * @client: who asks
 * @addr: the address
 * @mode: access mode, as of open()
 * @out: set to the dma-buf, with a reference
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT if that is not the address of a live block on which the client
 * has a reference, -EINVAL if the block does not begin and end on a page, -EBUSY if it
 * has a dma-buf with another access mode, -ENFILE or -ENOMEM.
 */
int devpool_dmabuf_get(struct devpool_range *range, struct devpool_client *client, u64 addr,
		       u32 mode, struct dma_buf **out)
{
	struct devpool_pool *pool = range->pool;
	struct devpool_dmabuf *export, *spare;
	struct devpool_block *block;
	struct dma_buf *buf = NULL;
	int err = 0;

	spare = devpool_dmabuf_alloc(pool);
	if (!spare)
		return -ENOMEM;
	mutex_lock(&pool->lock);
	block = devpool_pool_find_held(range, client, addr);
	if (!block) {
		err = -ENOENT;
	} else if (!PAGE_ALIGNED(block->addr | block->size)) {
		err = -EINVAL;
	} else {
		export = devpool_block_dmabuf(block);
		if (!export) {
			export = spare;
			spare = NULL;
			devpool_pool_get(pool);
			devpool_block_add_use(block, &export->use);
		}
		buf = devpool_dmabuf_get_buf(export);
		if (!buf)
			export->nr_bufs++;
	}
	mutex_unlock(&pool->lock);
	if (spare)
		devpool_dmabuf_free(spare);
	if (err)
		return err;

	if (!buf)
		buf = devpool_dmabuf_make_buf(export, mode);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	if ((buf->file->f_flags & O_ACCMODE) != mode) {
		dma_buf_put(buf);
		return -EBUSY;
	}
	*out = buf;
	return 0;
}

/**
 * devpool_dmabuf_make - a dma-buf that alone has its block
 * @block: the block, reserved. If this works it is to be published
 * @heap: the heap whose client it is published for: its release frees the block for
 *	that, and then it is zeroed
 * @mode: access mode, as of open()
 *
 * Context: may sleep, no lock held.
 * Return: the dma-buf, or an ERR_PTR() of -ENFILE or -ENOMEM: then the block is as it
 * was.
 */
struct dma_buf *devpool_dmabuf_make(struct devpool_block *block, struct devpool_heap *heap,
				    u32 mode)
{
	struct devpool_pool *pool = block->range->pool;
	struct devpool_dmabuf *export;

	export = devpool_dmabuf_alloc(pool);
	if (!export)
		return ERR_PTR(-ENOMEM);
	export->heap = heap;
	export->nr_bufs = 1;
	devpool_pool_get(pool);
	/* Nobody looks at a reserved block, so this needs no lock. */
	devpool_block_add_use(block, &export->use);
	return devpool_dmabuf_make_buf(export, mode);
}

MODULE_IMPORT_NS(DMA_BUF);
