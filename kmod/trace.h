/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trace events: what happens to pools, blocks and chunks. Pools are told by their
 * device and their id; sizes are in bytes.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM devpool

#if !defined(DEVPOOL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DEVPOOL_TRACE_H

#include <linux/tracepoint.h>

#include "private.h"

DECLARE_EVENT_CLASS(devpool_block_class,
	TP_PROTO(const struct devpool_pool *pool, const struct devpool_block *block),
	TP_ARGS(pool, block),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u64, first)
		__field(u64, second)
		__field(u64, addr)
		__field(u64, bytes)
		__field(u64, requested)
	),
	TP_fast_assign(
		__entry->device = pool->device->index;
		__entry->first = pool->id.first;
		__entry->second = pool->id.second;
		__entry->addr = block->addr;
		__entry->bytes = block->size;
		__entry->requested = block->requested;
	),
	TP_printk("device=%u pool=%llu:%llu addr=0x%llx bytes=%llu requested=%llu",
		  __entry->device, __entry->first, __entry->second, __entry->addr,
		  __entry->bytes, __entry->requested)
);

/* A block is handed out. */
DEFINE_EVENT(devpool_block_class, devpool_alloc,
	TP_PROTO(const struct devpool_pool *pool, const struct devpool_block *block),
	TP_ARGS(pool, block)
);

/* The last reference on a block is dropped. */
DEFINE_EVENT(devpool_block_class, devpool_free,
	TP_PROTO(const struct devpool_pool *pool, const struct devpool_block *block),
	TP_ARGS(pool, block)
);

/* The last reference on a block is dropped, and streams that were recorded use it. */
DEFINE_EVENT(devpool_block_class, devpool_pending,
	TP_PROTO(const struct devpool_pool *pool, const struct devpool_block *block),
	TP_ARGS(pool, block)
);

/* A stream has come to a point, and does not use so many of a pool's blocks any more. */
TRACE_EVENT(devpool_reap,
	TP_PROTO(const struct devpool_pool *pool, u32 stream, u64 point,
		 unsigned long blocks),
	TP_ARGS(pool, stream, point, blocks),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u64, first)
		__field(u64, second)
		__field(u32, stream)
		__field(u64, point)
		__field(unsigned long, blocks)
	),
	TP_fast_assign(
		__entry->device = pool->device->index;
		__entry->first = pool->id.first;
		__entry->second = pool->id.second;
		__entry->stream = stream;
		__entry->point = point;
		__entry->blocks = blocks;
	),
	TP_printk("device=%u pool=%llu:%llu stream=%u point=%llu blocks=%lu",
		  __entry->device, __entry->first, __entry->second, __entry->stream,
		  __entry->point, __entry->blocks)
);

DECLARE_EVENT_CLASS(devpool_chunks_class,
	TP_PROTO(const struct devpool_pool *pool, u64 chunks),
	TP_ARGS(pool, chunks),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u64, first)
		__field(u64, second)
		__field(u64, bytes)
	),
	TP_fast_assign(
		__entry->device = pool->device->index;
		__entry->first = pool->id.first;
		__entry->second = pool->id.second;
		__entry->bytes = chunks << pool->device->chunk_shift;
	),
	TP_printk("device=%u pool=%llu:%llu bytes=%llu", __entry->device,
		  __entry->first, __entry->second, __entry->bytes)
);

/* Chunks become a pool's, from the device or from other pools. */
DEFINE_EVENT(devpool_chunks_class, devpool_chunks_in,
	TP_PROTO(const struct devpool_pool *pool, u64 chunks),
	TP_ARGS(pool, chunks)
);

/* Chunks are a pool's no more. */
DEFINE_EVENT(devpool_chunks_class, devpool_chunks_out,
	TP_PROTO(const struct devpool_pool *pool, u64 chunks),
	TP_ARGS(pool, chunks)
);

/* A pool has given cache back to the device: the sum of its devpool_chunks_out. */
DEFINE_EVENT(devpool_chunks_class, devpool_flush,
	TP_PROTO(const struct devpool_pool *pool, u64 chunks),
	TP_ARGS(pool, chunks)
);

/* Another pool's request has taken cache from a pool. */
DEFINE_EVENT(devpool_chunks_class, devpool_reclaim,
	TP_PROTO(const struct devpool_pool *pool, u64 chunks),
	TP_ARGS(pool, chunks)
);

DECLARE_EVENT_CLASS(devpool_pool_class,
	TP_PROTO(const struct devpool_pool *pool),
	TP_ARGS(pool),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u64, first)
		__field(u64, second)
		__field(u32, use_count)
	),
	TP_fast_assign(
		__entry->device = pool->device->index;
		__entry->first = pool->id.first;
		__entry->second = pool->id.second;
		__entry->use_count = pool->use_count;
	),
	TP_printk("device=%u pool=%llu:%llu use_count=%u", __entry->device,
		  __entry->first, __entry->second, __entry->use_count)
);

/* A pool is there. */
DEFINE_EVENT(devpool_pool_class, devpool_pool_create,
	TP_PROTO(const struct devpool_pool *pool),
	TP_ARGS(pool)
);

/* One reference more, by POOL_GET. */
DEFINE_EVENT(devpool_pool_class, devpool_pool_get,
	TP_PROTO(const struct devpool_pool *pool),
	TP_ARGS(pool)
);

/* One reference less, by POOL_PUT. */
DEFINE_EVENT(devpool_pool_class, devpool_pool_put,
	TP_PROTO(const struct devpool_pool *pool),
	TP_ARGS(pool)
);

/* Nothing is left of a pool. */
DEFINE_EVENT(devpool_pool_class, devpool_pool_gone,
	TP_PROTO(const struct devpool_pool *pool),
	TP_ARGS(pool)
);

/* A request fails for want of memory or by a limit. */
TRACE_EVENT(devpool_oom,
	TP_PROTO(const struct devpool_pool *pool, u64 bytes, int err),
	TP_ARGS(pool, bytes, err),
	TP_STRUCT__entry(
		__field(u32, device)
		__field(u64, first)
		__field(u64, second)
		__field(u64, bytes)
		__field(int, err)
	),
	TP_fast_assign(
		__entry->device = pool->device->index;
		__entry->first = pool->id.first;
		__entry->second = pool->id.second;
		__entry->bytes = bytes;
		__entry->err = err;
	),
	TP_printk("device=%u pool=%llu:%llu bytes=%llu error=%d", __entry->device,
		  __entry->first, __entry->second, __entry->bytes, __entry->err)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
