// SPDX-License-Identifier: GPL-2.0-only
/*
 * sysmem: pages of this machine.
 *
 * A chunk is one run of pages where the page allocator has one, up to the size
 * of a huge page. Where it has not, or where chunks are larger than that, the
 * chunk is an array of equal units of the largest size that could be had.
 */
#include <linux/gfp.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "devpool_backend.h"

/* The order of a huge page on x86-64: what a single entry can map. */
#define DEVPOOL_RUN_ORDER 9

static struct page *devpool_sysmem_unit(const struct devpool_chunk *chunk,
					unsigned int chunk_shift, u64 offset)
{
	struct page **units;

	if (chunk->shift == chunk_shift)
		return chunk->memory;
	units = chunk->memory;
	return units[offset >> chunk->shift];
}

static void devpool_sysmem_give(struct devpool_chunk *chunk,
				unsigned int chunk_shift)
{
	unsigned int order = chunk->shift - PAGE_SHIFT;
	u64 offset;

	for (offset = 0; offset < 1ULL << chunk_shift;
	     offset += 1ULL << chunk->shift) {
		struct page *page = devpool_sysmem_unit(chunk, chunk_shift, offset);

		if (page)
			__free_pages(page, order);
		cond_resched();
	}
	if (chunk->shift != chunk_shift)
		kvfree(chunk->memory);
}

static struct page *devpool_sysmem_page(unsigned int order)
{
	gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN;

	/* A large run is not worth reclaiming for; no page is worth a kill. */
	gfp |= order ? __GFP_NORETRY : __GFP_RETRY_MAYFAIL;
	return alloc_pages(gfp, order);
}

static int devpool_sysmem_take_units(struct devpool_chunk *chunk,
				     unsigned int chunk_shift, unsigned int shift)
{
	u64 nr_units = 1ULL << (chunk_shift - shift);
	struct page **units;
	u64 i;

	units = kvcalloc(nr_units, sizeof(*units), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!units)
		return -ENOMEM;
	chunk->memory = units;
	chunk->shift = shift;
	chunk->flags = DEVPOOL_CHUNK_CLEAN | DEVPOOL_CHUNK_FALLBACK;

	for (i = 0; i < nr_units; i++) {
		if (!fatal_signal_pending(current))
			units[i] = devpool_sysmem_page(shift - PAGE_SHIFT);
		if (!units[i]) {
			devpool_sysmem_give(chunk, chunk_shift);
			return -ENOMEM;
		}
		cond_resched();
	}
	return 0;
}

static int devpool_sysmem_take(struct devpool_chunk *chunk, unsigned int chunk_shift)
{
	unsigned int shift = min_t(unsigned int, chunk_shift,
				   PAGE_SHIFT + DEVPOOL_RUN_ORDER);
	int err;

	if (shift == chunk_shift) {
		chunk->memory = devpool_sysmem_page(shift - PAGE_SHIFT);
		chunk->shift = shift;
		chunk->flags = DEVPOOL_CHUNK_CLEAN;
		if (chunk->memory)
			return 0;
		if (shift == PAGE_SHIFT)
			return -ENOMEM;
		shift--;
	}

	/* Half of what failed, a quarter, an eighth, then pages. */
	for (;;) {
		err = devpool_sysmem_take_units(chunk, chunk_shift, shift);
		if (!err || shift == PAGE_SHIFT || fatal_signal_pending(current))
			return err;
		shift = shift > PAGE_SHIFT + 3 ? shift - 3 : PAGE_SHIFT;
	}
}

/* What is behind an offset, and how much of @len bytes is one run from there on. */
static void *devpool_sysmem_memory(const struct devpool_chunk *chunk,
				   unsigned int chunk_shift, u64 offset, u64 *len)
{
	u64 within = offset & ((1ULL << chunk->shift) - 1);

	*len = min(*len, (1ULL << chunk->shift) - within);
	return page_address(devpool_sysmem_unit(chunk, chunk_shift, offset)) + within;
}

static void devpool_sysmem_zero(const struct devpool_chunk *chunk,
				unsigned int chunk_shift, u64 offset, u64 len)
{
	u64 part, i;

	for (; len; offset += part, len -= part) {
		void *memory;

		/* No more at a time than what a huge page has. */
		part = min_t(u64, len, PAGE_SIZE << DEVPOOL_RUN_ORDER);
		memory = devpool_sysmem_memory(chunk, chunk_shift, offset, &part);
		if (PAGE_ALIGNED(offset | part))
			for (i = 0; i < part; i += PAGE_SIZE)
				clear_page(memory + i);
		else
			memset(memory, 0, part);
		cond_resched();
	}
}

static unsigned long devpool_sysmem_pfn(const struct devpool_chunk *chunk,
					unsigned int chunk_shift, u64 offset,
					u64 *run)
{
	u64 unit = 1ULL << chunk->shift;
	u64 within = offset & (unit - 1);

	*run = unit - within;
	return page_to_pfn(devpool_sysmem_unit(chunk, chunk_shift, offset)) +
	       (within >> PAGE_SHIFT);
}

static void devpool_sysmem_copy(const struct devpool_chunk *chunk,
				unsigned int chunk_shift, u64 offset, void *buf,
				size_t len, bool write)
{
	u64 part;

	for (; len; offset += part, buf += part, len -= part) {
		void *memory;

		part = len;
		memory = devpool_sysmem_memory(chunk, chunk_shift, offset, &part);
		if (write)
			memcpy(memory, buf, part);
		else
			memcpy(buf, memory, part);
	}
}

const struct devpool_backend devpool_sysmem_backend = {
	.name = "sysmem",
	.returns_memory = true,
	.take = devpool_sysmem_take,
	.give = devpool_sysmem_give,
	.zero = devpool_sysmem_zero,
	.pfn = devpool_sysmem_pfn,
	.copy = devpool_sysmem_copy,
};
