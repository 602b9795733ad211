// SPDX-License-Identifier: GPL-2.0-only
/*
 * Mappings: a part of an arena in a process, filled by faults.
 *
 * What is behind an address can go away and come back at any time, so an entry
 * may be set only while the pool's lock says that the chunk is there, and a chunk
 * leaves its pool in three steps:
 *
 *	flush				fault
 *	lock
 *	  piece is leaving
 *	unlock
 *					lock
 *					  piece is leaving: SIGBUS
 *					unlock
 *	zap all page tables
 *	lock
 *	  piece is a hole
 *	unlock
 *
 * A fault that found the chunk still there has set its entry before the zap and
 * loses it there. The piece gets no new chunk before the zap is over, so that no
 * entry of the old one is in the way of the new one's.
 *
 * Page tables are allocated before the pool's lock is taken. Between a table and
 * a huge entry, which exclude each other, the mapping's own lock decides.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pgtable.h>
#include <linux/slab.h>

#include "compat.h"
#include "private.h"

/**
 * struct devpool_mapping - one mmap() and what became of it
 * @ref: one for each VMA; they multiply by splitting
 * @pool: the pool, with a reference, which keeps the range
 * @range: the range that the mapping is a part of
 * @lock: held while a page table is made or a huge entry is set
 */
struct devpool_mapping {
	struct kref ref;
	struct devpool_pool *pool;
	struct devpool_range *range;
	struct mutex lock;
};

static void devpool_mapping_release(struct kref *ref)
{
	struct devpool_mapping *mapping;

	mapping = container_of(ref, struct devpool_mapping, ref);
	devpool_pool_put(mapping->pool);
	mutex_destroy(&mapping->lock);
	kfree(mapping);
}

static void devpool_vma_open(struct vm_area_struct *vma)
{
	struct devpool_mapping *mapping = vma->vm_private_data;

	kref_get(&mapping->ref);
}

static void devpool_vma_close(struct vm_area_struct *vma)
{
	struct devpool_mapping *mapping = vma->vm_private_data;

	kref_put(&mapping->ref, devpool_mapping_release);
}

/**
 * struct devpool_fill - the part of a page table that a fault is going to set
 * @vma: the VMA
 * @backend: the device's
 * @chunk: the chunk
 * @chunk_shift: log2 of its size
 * @start: virtual address of the first page
 * @offset: offset of that page in the chunk
 * @pfn: frame of the next page
 * @run: bytes from there on that are one run of memory
 */
struct devpool_fill {
	struct vm_area_struct *vma;
	const struct devpool_backend *backend;
	const struct devpool_chunk *chunk;
	unsigned int chunk_shift;
	unsigned long start;
	u64 offset;
	unsigned long pfn;
	u64 run;
};

/* Sets one entry where there is none, as vmf_insert_pfn() would. */
static int devpool_set_entry(pte_t *pte, unsigned long addr, void *data)
{
	struct devpool_fill *fill = data;

	if (!fill->run)
		fill->pfn = fill->backend->pfn(fill->chunk, fill->chunk_shift,
					       fill->offset + (addr - fill->start),
					       &fill->run);
	if (pte_none(*pte))
		set_pte_at(fill->vma->vm_mm, addr, pte,
			   pte_mkspecial(pfn_pte(fill->pfn,
						 fill->vma->vm_page_prot)));
	fill->pfn++;
	fill->run -= PAGE_SIZE;
	return 0;
}

/*
 * Fills [start, end), which is a part of one piece. The tables are there after the
 * first call, so the second one allocates nothing. (A function that runs over
 * existing tables only would not be called for empty entries.)
 */
static vm_fault_t devpool_fault_pages(struct vm_fault *vmf, u64 addr,
				      unsigned long start, unsigned long end)
{
	struct devpool_mapping *mapping = vmf->vma->vm_private_data;
	struct devpool_pool *pool = mapping->pool;
	struct mm_struct *mm = vmf->vma->vm_mm;
	vm_fault_t ret = VM_FAULT_SIGBUS;
	struct devpool_fill fill = {
		.vma = vmf->vma,
		.backend = pool->device->backend,
		.chunk_shift = pool->device->chunk_shift,
		.start = start,
	};

	mutex_lock(&mapping->lock);
	if (pmd_leaf(READ_ONCE(*vmf->pmd))) {
		mutex_unlock(&mapping->lock);
		return VM_FAULT_NOPAGE;
	}
	if (apply_to_page_range(mm, start, end - start, NULL, NULL)) {
		mutex_unlock(&mapping->lock);
		return VM_FAULT_OOM;
	}

	mutex_lock(&pool->lock);
	fill.chunk = devpool_range_chunk(mapping->range, addr);
	if (fill.chunk && fill.backend->pfn) {
		fill.offset = addr & (devpool_chunk_size(pool->device) - 1);
		apply_to_page_range(mm, start, end - start, devpool_set_entry, &fill);
		ret = VM_FAULT_NOPAGE;
	}
	mutex_unlock(&pool->lock);
	mutex_unlock(&mapping->lock);
	return ret;
}

/*
 * Brings in the chunk, at most PMD_SIZE of it, as far as the VMA has it. That can
 * take two page tables, but only where addresses and virtual addresses are not
 * aligned alike, so that there are no huge entries in the VMA.
 */
static vm_fault_t devpool_vma_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct devpool_mapping *mapping = vma->vm_private_data;
	u64 part = min_t(u64, devpool_chunk_size(mapping->pool->device), PMD_SIZE);
	unsigned long at = vmf->address & PAGE_MASK;
	u64 addr = (u64)vmf->pgoff << PAGE_SHIFT;
	u64 below, above;

	below = min_t(u64, addr & (part - 1), at - vma->vm_start);
	above = min_t(u64, part - (addr & (part - 1)), vma->vm_end - at);
	return devpool_fault_pages(vmf, addr - below, at - below, at + above);
}

#if DEVPOOL_HUGE_MAP
/*
 * One entry for PMD_SIZE of a chunk. The VMA must have all of it, at the same
 * alignment as the device has.
 */
static vm_fault_t devpool_vma_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	struct vm_area_struct *vma = vmf->vma;
	struct devpool_mapping *mapping = vma->vm_private_data;
	struct devpool_pool *pool = mapping->pool;
	const struct devpool_backend *backend = pool->device->backend;
	unsigned int chunk_shift = pool->device->chunk_shift;
	unsigned long start = vmf->address & PMD_MASK;
	vm_fault_t ret = VM_FAULT_FALLBACK;
	struct devpool_chunk *chunk;
	unsigned long pfn;
	u64 addr, run;

	if (order != PMD_ORDER || start < vma->vm_start ||
	    start + PMD_SIZE > vma->vm_end || !backend->pfn)
		return VM_FAULT_FALLBACK;
	addr = ((u64)vma->vm_pgoff << PAGE_SHIFT) + (start - vma->vm_start);
	if (addr & ~PMD_MASK)
		return VM_FAULT_FALLBACK;

	mutex_lock(&mapping->lock);
	if (!pmd_none(READ_ONCE(*vmf->pmd))) {
		mutex_unlock(&mapping->lock);
		return VM_FAULT_FALLBACK;
	}
	mutex_lock(&pool->lock);
	chunk = devpool_range_chunk(mapping->range, addr);
	if (chunk) {
		pfn = backend->pfn(chunk, chunk_shift,
				   addr & ((1ULL << chunk_shift) - 1), &run);
		if (run >= PMD_SIZE && IS_ALIGNED(pfn, PMD_SIZE >> PAGE_SHIFT))
			ret = vmf_insert_pfn_pmd(vmf, __pfn_to_pfn_t(pfn, PFN_DEV),
						 vma->vm_flags & VM_WRITE);
	}
	mutex_unlock(&pool->lock);
	mutex_unlock(&mapping->lock);
	return ret;
}
#endif

/* For debuggers: within one chunk; the caller goes on from there. */
static int devpool_vma_access(struct vm_area_struct *vma, unsigned long at,
			      void *buf, int len, int write)
{
	struct devpool_mapping *mapping = vma->vm_private_data;
	struct devpool_pool *pool = mapping->pool;
	const struct devpool_backend *backend = pool->device->backend;
	u64 chunk_size = devpool_chunk_size(pool->device);
	struct devpool_chunk *chunk;
	u64 addr, offset;

	/* Who may force a write elsewhere may not do so to shared memory. */
	if (len <= 0 || !backend->copy || (write && !(vma->vm_flags & VM_WRITE)))
		return -EFAULT;
	addr = ((u64)vma->vm_pgoff << PAGE_SHIFT) + (at - vma->vm_start);
	offset = addr & (chunk_size - 1);
	len = min3((u64)len, chunk_size - offset, (u64)(vma->vm_end - at));

	mutex_lock(&pool->lock);
	chunk = devpool_range_chunk(mapping->range, addr);
	if (chunk)
		backend->copy(chunk, pool->device->chunk_shift, offset, buf, len,
			      write);
	mutex_unlock(&pool->lock);
	return chunk ? len : -EFAULT;
}

static const struct vm_operations_struct devpool_vm_ops = {
	.open = devpool_vma_open,
	.close = devpool_vma_close,
	.fault = devpool_vma_fault,
#if DEVPOOL_HUGE_MAP
	.huge_fault = devpool_vma_huge_fault,
#endif
	.access = devpool_vma_access,
};

static int devpool_validate_vma(const struct vm_area_struct *vma)
{
	if (is_cow_mapping(vma->vm_flags))
		return -EINVAL;
	return vma->vm_flags & VM_EXEC ? -EPERM : 0;
}

/* What is in it is there to stay: the range, by a reference on its pool. */
static int devpool_vma_init(struct vm_area_struct *vma, struct devpool_range *range)
{
	struct devpool_mapping *mapping;

	mapping = kmalloc(sizeof(*mapping), GFP_KERNEL_ACCOUNT);
	if (!mapping)
		return -ENOMEM;
	kref_init(&mapping->ref);
	mapping->pool = range->pool;
	mapping->range = range;
	mutex_init(&mapping->lock);
	vm_flags_mod(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP |
			  VM_DONTCOPY, VM_MAYEXEC);
#if DEVPOOL_HUGE_MAP
	vm_flags_mod(vma, VM_HUGEPAGE, VM_NOHUGEPAGE);
#endif
	vma->vm_private_data = mapping;
	vma->vm_ops = &devpool_vm_ops;
	return 0;
}

/**
 * devpool_mmap_range - mmap() of a part of a range
 * @range: the range, of whose pool the caller has a reference
 * @vma: the new mapping; its offset is an address, and it is inside the range. The
 *	mapping of its file is the device's
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -EINVAL (a private mapping), -EPERM (executable) or -ENOMEM.
 */
int devpool_mmap_range(struct devpool_range *range, struct vm_area_struct *vma)
{
	int err;

	err = devpool_validate_vma(vma);
	if (err)
		return err;
	devpool_pool_get(range->pool);
	err = devpool_vma_init(vma, range);
	if (err)
		devpool_pool_put(range->pool);
	return err;
}

/**
 * devpool_mmap_file - mmap() of a device file
 * @file: the file
 * @vma: the new mapping; its offset is an address
 *
 * The mapping keeps the file, and with it the client, so that the last close
 * comes after the last munmap().
 *
 * A child does not inherit it: fork() copies huge entries of page frames without
 * regard to a zap that is under way. Without VM_IO madvise() could undo that.
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -EINVAL (a private mapping, or one that is not inside one range),
 * -EPERM (executable), -ENOENT (no address of a pool that the client knows) or
 * -ENOMEM. An address too high for a 32-bit caller does not get here.
 */
int devpool_mmap_file(struct file *file, struct vm_area_struct *vma)
{
	struct devpool_client *client = file->private_data;
	u64 size = vma->vm_end - vma->vm_start;
	struct devpool_range *range;
	u64 addr;
	int err;

	err = devpool_validate_vma(vma);
	if (err)
		return err;
	addr = (u64)vma->vm_pgoff << PAGE_SHIFT;

	range = devpool_client_get_range(client, addr);
	if (!range)
		return -ENOENT;
	err = -ENOENT;
	if (!devpool_client_knows(client, range->pool))
		goto put_pool;
	err = -EINVAL;
	if (size > range->size - (addr - range->base))
		goto put_pool;
	err = devpool_vma_init(vma, range);
	if (!err)
		return 0;

put_pool:
	devpool_pool_put(range->pool);
	return err;
}
