// SPDX-License-Identifier: GPL-2.0-only
/*
 * null: all of the bookkeeping and no memory, to plan, test and measure at sizes
 * that no machine at hand has.
 */
#include "devpool_backend.h"

static int devpool_null_take(struct devpool_chunk *chunk, unsigned int chunk_shift)
{
	chunk->flags = DEVPOOL_CHUNK_CLEAN;
	return 0;
}

static void devpool_null_give(struct devpool_chunk *chunk, unsigned int chunk_shift)
{
}

static void devpool_null_zero(const struct devpool_chunk *chunk,
			      unsigned int chunk_shift, u64 offset, u64 len)
{
}

const struct devpool_backend devpool_null_backend = {
	.name = "null",
	.returns_memory = true,
	.take = devpool_null_take,
	.give = devpool_null_give,
	.zero = devpool_null_zero,
};
