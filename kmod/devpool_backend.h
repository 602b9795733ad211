/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a backend, the supplier of a device's memory, implements.
 */
#ifndef DEVPOOL_BACKEND_H
#define DEVPOOL_BACKEND_H

#include <linux/bits.h>
#include <linux/list.h>
#include <linux/types.h>

struct devpool_range;

/**
 * enum devpool_chunk_flags - what is known of a chunk
 * @DEVPOOL_CHUNK_CLEAN: every byte of it is zero
 * @DEVPOOL_CHUNK_FALLBACK: it is not one run of physical memory
 */
enum devpool_chunk_flags {
	DEVPOOL_CHUNK_CLEAN = BIT(0),
	DEVPOOL_CHUNK_FALLBACK = BIT(1),
};

/**
 * struct devpool_chunk - the unit in which memory moves
 * @link: in the list of whoever holds the chunk at the moment: the stock, a
 *	request, a flush. Unused while it is resident
 * @range: resident or leaving: the range that it is a part of
 * @addr: resident or leaving: the address that it stands behind
 * @memory: for the backend
 * @shift: for the backend
 * @flags: bits of &enum devpool_chunk_flags, set by the backend's take()
 *
 * A chunk has exactly one holder, and whoever holds it may change it.
 */
struct devpool_chunk {
	struct list_head link;
	struct devpool_range *range;
	u64 addr;
	void *memory;
	u32 shift;
	u32 flags;
};

/**
 * struct devpool_backend - a kind of memory
 * @name: shown to users, at most 15 characters
 * @returns_memory: memory that is not in use can go back to where it came
 *	from; otherwise every chunk stays in the stock
 * @take: gets memory of 1 << @chunk_shift bytes for a chunk and says with its
 *	flags what is known of it. Process context, may sleep; 0 or -ENOMEM
 * @give: takes the memory back. May be called where no memory can be allocated;
 *	cannot fail
 * @zero: writes zero over @len bytes from an offset of a chunk on, both of which
 *	are multiples of 512. May sleep; cannot fail
 * @pfn: page frame at a page-aligned offset of a chunk. @run is set to the
 *	number of bytes from there on that are one run of physical memory. NULL if
 *	there is no memory to be mapped
 * @copy: copies between a buffer and the chunk, for debuggers. Atomic context.
 *	NULL if @pfn is
 *
 * devpool calls none of these with a lock held, but for @pfn and @copy.
 */
struct devpool_backend {
	const char *name;
	bool returns_memory;
	int (*take)(struct devpool_chunk *chunk, unsigned int chunk_shift);
	void (*give)(struct devpool_chunk *chunk, unsigned int chunk_shift);
	void (*zero)(const struct devpool_chunk *chunk, unsigned int chunk_shift,
		     u64 offset, u64 len);
	unsigned long (*pfn)(const struct devpool_chunk *chunk,
			     unsigned int chunk_shift, u64 offset, u64 *run);
	void (*copy)(const struct devpool_chunk *chunk, unsigned int chunk_shift,
		     u64 offset, void *buf, size_t len, bool write);
};

extern const struct devpool_backend devpool_sysmem_backend;
extern const struct devpool_backend devpool_null_backend;

#endif
