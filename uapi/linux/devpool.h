/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * devpool: a device's memory as reference-counted pools.
 */
#ifndef _UAPI_LINUX_DEVPOOL_H
#define _UAPI_LINUX_DEVPOOL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DEVPOOL_TYPE - the ioctl type byte
 *
 * Free in Documentation/userspace-api/ioctl/ioctl-number.rst of Linux 6.12
 * but for 0x04/0xDC, which is another type byte. Numbers are plain _IO():
 * a struct's size travels in its first member, so it can grow.
 */
#define DEVPOOL_TYPE 0xDC

/**
 * DOC: ioctl format
 *
 * Every argument is a pointer to a struct that begins with ``__u32 size`` and
 * ``__u32 flags``. The caller sets size to the size of the struct it was
 * compiled with. A kernel that knows a shorter struct accepts the longer one
 * as long as what it does not know is zero; a kernel that knows a longer one
 * takes what is missing as zero and answers only what there is room for.
 *
 * Inputs have plain names. Outputs have names that begin with ``out_``; what
 * is in them on entry is ignored. Every bit of flags and every reserved member
 * that is not described must be 0. A member whose feature this device does not
 * have (&struct devpool_info.out_features) must be 0 as well.
 *
 * Timeouts are absolute CLOCK_MONOTONIC nanoseconds. 0 and the past do not
 * wait, the largest value (INT64_MAX) waits for ever.
 *
 * errno has one meaning everywhere:
 *
 * ==========  ===============================================================
 * ENOTTY      unknown command, or not a command of this kind of file
 * E2BIG       size is above a page, or the struct is newer than the kernel
 *             and what the kernel does not know of it is not zero
 * EOPNOTSUPP  a flag or value that this kernel or device does not know
 * EINVAL      understood, but wrong
 * EFAULT      a bad pointer
 * ENOENT      no such pool, block, stream or route for this client
 * ENOSPC      the device, or its address space, is full
 * EDQUOT      a limit is reached
 * ENOMEM      no kernel memory
 * EBUSY       it is so already
 * EAGAIN      it would have to wait
 * ETIME       it waited in vain
 * EINTR       a signal came first
 * ENODEV      the device is gone
 * EBADF       not a file of the kind asked for
 * EPERM       a capability is missing
 * ==========  ===============================================================
 *
 * A call that fails changes no block, reference, pool or attribute. Counters
 * of events may differ, and caches may have been given back on the way. The
 * only exception: an EMPTY_CACHE whose report cannot be copied out returns
 * EFAULT with the act done.
 */

/*
 * Numbers are grouped (0x00 blocks, 0x10 pools, 0x20 streams, 0x30 views) and
 * are never used again for something else.
 */
enum {
	DEVPOOL_CMD_INFO = 0x00,
	DEVPOOL_CMD_ALLOC = 0x01,
	DEVPOOL_CMD_FREE = 0x02,
	DEVPOOL_CMD_POOL_CREATE = 0x11,
	DEVPOOL_CMD_POOL_STAT = 0x15,
	DEVPOOL_CMD_EMPTY_CACHE = 0x16,
	DEVPOOL_CMD_STATS = 0x30,
};

/**
 * DEVPOOL_WINDOW - alignment of what mmap() can always cover, in bytes
 *
 * An arena consists of address ranges that begin and end on multiples of this
 * (or of the chunk size, if that is larger). So the DEVPOOL_WINDOW-aligned
 * surroundings of a block can be mapped in one piece.
 */
#define DEVPOOL_WINDOW (1ULL << 26)

/**
 * struct devpool_pool_id - names a pool
 * @first: 0 for pools that users made, else the number of a graph capture's
 * @second: the number of a user's pool, else 0
 *
 * {0,0} names no pool: the default pool of the client. Ids are never used
 * twice while the module is loaded.
 */
struct devpool_pool_id {
	__aligned_u64 first;
	__aligned_u64 second;
};

/**
 * enum devpool_feature - bits of &struct devpool_info.out_features
 * @DEVPOOL_FEATURE_MMAP: blocks of this device can be mapped
 * @DEVPOOL_FEATURE_HUGE_MAP: a fault brings in a whole PMD_SIZE of memory by
 *	one entry where the memory and the mapping allow it
 */
enum devpool_feature {
	DEVPOOL_FEATURE_MMAP = 1 << 0,
	DEVPOOL_FEATURE_HUGE_MAP = 1 << 1,
};

/**
 * struct devpool_info - ioctl(DEVPOOL_IOC_INFO)
 * @size: sizeof(struct devpool_info)
 * @flags: must be 0
 * @out_bytes: size of the device
 * @out_chunk: size of a chunk, the unit in which pools take memory
 * @out_granule_small: blocks of up to 1 MiB are rounded up to this
 * @out_granule_large: larger blocks are rounded up to this
 * @out_features: what there is, bits of &enum devpool_feature
 * @out_index: N of /dev/devpoolN
 * @out_node: NUMA node of the memory, -1 if it has none
 * @out_backend: name of what supplies the memory, NUL-terminated
 * @out_max_pools: most pools that one client can have created at a time
 * @out_max_streams: most streams of a client, 0 where there are none
 * @out_max_points: most open points of a stream, 0 where there are none
 * @out_max_routes: most routes of a client, 0 where there are none
 * @out_max_blocks: most blocks that one client can hold at a time
 * @out_max_batch: most operations of a batch, 0 where there are none
 *
 * On a device file and on a pool file: what the device is. Changes nothing.
 *
 * Errors: those of every command.
 */
struct devpool_info {
	__u32 size;
	__u32 flags;
	__aligned_u64 out_bytes;
	__aligned_u64 out_chunk;
	__aligned_u64 out_granule_small;
	__aligned_u64 out_granule_large;
	__aligned_u64 out_features;
	__u32 out_index;
	__s32 out_node;
	__u8 out_backend[16];
	__u32 out_max_pools;
	__u32 out_max_streams;
	__u32 out_max_points;
	__u32 out_max_routes;
	__u32 out_max_blocks;
	__u32 out_max_batch;
};
#define DEVPOOL_IOC_INFO _IO(DEVPOOL_TYPE, DEVPOOL_CMD_INFO)

/**
 * struct devpool_alloc - ioctl(DEVPOOL_IOC_ALLOC)
 * @size: sizeof(struct devpool_alloc)
 * @flags: must be 0
 * @bytes: size of the block wanted
 * @align: alignment of its address, a power of two up to the chunk size;
 *	0 for none beyond the granule
 * @pool: the pool to take it from, {0,0} for the client's default pool
 * @stream: the stream that will use it; 0, the host, is the only one
 * @__reserved: must be 0
 * @timeout: how long to wait for memory that is still in use
 * @user_addr: must be 0
 * @out_addr: address of the block: what FREE takes, and the mmap() offset
 * @out_bytes: size of the block, @bytes rounded up to the granule
 *
 * On a device file: takes a block from a pool. The client owns the block until
 * it frees it or its file is closed. What the block holds is zero or what this
 * pool last wrote there.
 *
 * Errors: EINVAL (no bytes, an alignment that is none, a size that overflows),
 * ENOENT (a pool that the client does not know or that nothing refers to, a
 * stream that is not there), ENOSPC, EDQUOT (blocks), ENOMEM.
 */
struct devpool_alloc {
	__u32 size;
	__u32 flags;
	__aligned_u64 bytes;
	__aligned_u64 align;
	struct devpool_pool_id pool;
	__u32 stream;
	__u32 __reserved;
	__aligned_s64 timeout;
	__aligned_u64 user_addr;
	__aligned_u64 out_addr;
	__aligned_u64 out_bytes;
};
#define DEVPOOL_IOC_ALLOC _IO(DEVPOOL_TYPE, DEVPOOL_CMD_ALLOC)

/**
 * struct devpool_free - ioctl(DEVPOOL_IOC_FREE)
 * @size: sizeof(struct devpool_free)
 * @flags: must be 0
 * @addr: address of a block of this client, as ALLOC returned it
 *
 * On a device file: the block goes back to its pool's cache. Never allocates
 * memory and, for a block of this client, never fails.
 *
 * Errors: ENOENT (not the address of a live block that this client owns).
 */
struct devpool_free {
	__u32 size;
	__u32 flags;
	__aligned_u64 addr;
};
#define DEVPOOL_IOC_FREE _IO(DEVPOOL_TYPE, DEVPOOL_CMD_FREE)

/**
 * struct devpool_pool_create - ioctl(DEVPOOL_IOC_POOL_CREATE)
 * @size: sizeof(struct devpool_pool_create)
 * @flags: must be 0
 * @pool: an id that this client has minted, or {0,0} to mint one
 * @limit: must be 0
 * @reserve: must be 0
 * @release_threshold: must be 0
 * @out_pool: id of the pool
 * @out_fd: the pool file, opened with O_CLOEXEC
 * @__reserved: must be 0
 *
 * On a device file: makes a pool with a use count of 1, which the pool file
 * holds. When the last descriptor of the pool file is closed and nothing else
 * refers to the pool, its cache returns to the device.
 *
 * Errors: ENOENT (an id that this client has not minted), EBUSY (the id's pool
 * exists), EDQUOT (pools), ENOSPC (ids are used up), ENOMEM, EMFILE, ENFILE.
 */
struct devpool_pool_create {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id pool;
	__aligned_u64 limit;
	__aligned_u64 reserve;
	__aligned_u64 release_threshold;
	struct devpool_pool_id out_pool;
	__s32 out_fd;
	__u32 __reserved;
};
#define DEVPOOL_IOC_POOL_CREATE _IO(DEVPOOL_TYPE, DEVPOOL_CMD_POOL_CREATE)

/**
 * enum devpool_state - the life of a pool
 * @DEVPOOL_STATE_LIVE: its use count is above 0
 * @DEVPOOL_STATE_FREEABLE: its use count is 0, but it has a block or a chunk
 * @DEVPOOL_STATE_GONE: its use count is 0 and it has nothing
 */
enum devpool_state {
	DEVPOOL_STATE_LIVE = 0,
	DEVPOOL_STATE_FREEABLE = 1,
	DEVPOOL_STATE_GONE = 2,
};

/**
 * struct devpool_counter - one quantity over time
 * @current: its value now
 * @peak: the largest value it has had
 * @in: the sum of all that was ever added
 * @out: the sum of all that was ever taken away
 *
 * Always @current = @in - @out.
 */
struct devpool_counter {
#ifdef __KERNEL__
	/* private: current is a macro in kernel code, which says now */
	__aligned_u64 now;
	/* public: */
#else
	__aligned_u64 current;
#endif
	__aligned_u64 peak;
	__aligned_u64 in;
	__aligned_u64 out;
};

/**
 * struct devpool_pool_stat - ioctl(DEVPOOL_IOC_POOL_STAT)
 * @size: sizeof(struct devpool_pool_stat)
 * @flags: must be 0
 * @pool: the pool; {0,0} is the client's default pool, and on a pool file it
 *	must be {0,0} and means that file's pool
 * @out_use_count: references on the pool
 * @out_state: one of &enum devpool_state
 * @out_allocated: bytes of live blocks
 * @out_requested: bytes that were asked for in these, before rounding
 * @out_active: bytes of live and of pending blocks
 * @out_resident: bytes of memory behind the pool's addresses
 * @out_spare: bytes of memory kept without an address
 * @out_blocks: number of live blocks
 * @out_hits: requests served out of the resident cache as it stood
 * @out_recycles: chunks moved inside the pool to serve a request
 * @out_grows: chunks taken from the device to serve a request
 * @out_fallbacks: chunks of these that are not one run of physical memory
 * @out_reclaims: chunks of these that came out of another pool's cache
 * @out_waits: requests that waited for a fence
 * @out_ooms: requests that failed for want of memory or by a limit
 * @out_flushes: times that cached chunks were given back
 * @out_zeroed_bytes: bytes that devpool zeroed while a request waited for them
 *
 * On a device file and on a pool file: the counters of one pool, exact and
 * taken at one instant. Always resident >= active >= allocated >= requested.
 *
 * Errors: ENOENT (a pool that the client does not know, a pool file that was
 * released), EINVAL (an id on a pool file).
 */
struct devpool_pool_stat {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id pool;
	__u32 out_use_count;
	__u32 out_state;
	struct devpool_counter out_allocated;
	struct devpool_counter out_requested;
	struct devpool_counter out_active;
	struct devpool_counter out_resident;
	struct devpool_counter out_spare;
	struct devpool_counter out_blocks;
	__aligned_u64 out_hits;
	__aligned_u64 out_recycles;
	__aligned_u64 out_grows;
	__aligned_u64 out_fallbacks;
	__aligned_u64 out_reclaims;
	__aligned_u64 out_waits;
	__aligned_u64 out_ooms;
	__aligned_u64 out_flushes;
	__aligned_u64 out_zeroed_bytes;
};
#define DEVPOOL_IOC_POOL_STAT _IO(DEVPOOL_TYPE, DEVPOOL_CMD_POOL_STAT)

/**
 * enum devpool_empty_flags - flags of &struct devpool_empty_cache
 * @DEVPOOL_EMPTY_TRIM: also give back the cache of a live pool; addresses of
 *	live blocks stay valid
 * @DEVPOOL_EMPTY_RELEASE: only on a pool file: first give up this file's
 *	reference, in one act with what follows
 */
enum devpool_empty_flags {
	DEVPOOL_EMPTY_TRIM = 1 << 0,
	DEVPOOL_EMPTY_RELEASE = 1 << 2,
};

/**
 * struct devpool_empty_cache - ioctl(DEVPOOL_IOC_EMPTY_CACHE)
 * @size: sizeof(struct devpool_empty_cache)
 * @flags: bits of &enum devpool_empty_flags
 * @pool: the pool. {0,0} on a device file: the client's default pool and every
 *	freeable pool that it knows. On a pool file it must be {0,0} and means
 *	that file's pool
 * @timeout: how long to wait for fences of the pools concerned
 * @keep: go on until at most so many bytes are resident, in each of the pools
 *	by itself; of no effect on a pool that flushes itself
 * @out_freed: bytes that this call gave back to the device
 * @out_kept: bytes that are still resident in the pools concerned
 * @out_pending: bytes of blocks in them that hardware still uses
 * @out_live: bytes of live blocks in them
 * @out_state: state of the named pool, one of &enum devpool_state
 * @__reserved: must be 0
 *
 * On a device file and on a pool file: gives every chunk without a live or
 * pending byte back to the device. Without DEVPOOL_EMPTY_TRIM a live pool that
 * is named keeps its cache, and the answer says what stands.
 *
 * With DEVPOOL_EMPTY_RELEASE the pool file gives up its reference; if that was
 * the last one the pool's cache is flushed, whatever @keep says; else
 * DEVPOOL_EMPTY_TRIM and @keep mean what they do without it. Every later command
 * on the file is ENOENT, and its close does nothing more.
 *
 * Errors: ENOENT (a pool that the client does not know, a pool file that was
 * released), EINVAL (an id on a pool file, RELEASE on a device file). EFAULT
 * where only the report could not be copied out: the act is done.
 */
struct devpool_empty_cache {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id pool;
	__aligned_s64 timeout;
	__aligned_u64 keep;
	__aligned_u64 out_freed;
	__aligned_u64 out_kept;
	__aligned_u64 out_pending;
	__aligned_u64 out_live;
	__u32 out_state;
	__u32 __reserved;
};
#define DEVPOOL_IOC_EMPTY_CACHE _IO(DEVPOOL_TYPE, DEVPOOL_CMD_EMPTY_CACHE)

/**
 * struct devpool_stats - ioctl(DEVPOOL_IOC_STATS)
 * @size: sizeof(struct devpool_stats)
 * @flags: must be 0
 * @out_allocated: as in &struct devpool_pool_stat, as are all that follow
 * @out_requested: see there
 * @out_active: see there
 * @out_resident: see there
 * @out_spare: see there
 * @out_blocks: see there
 * @out_hits: see there
 * @out_recycles: see there
 * @out_grows: see there
 * @out_fallbacks: see there
 * @out_reclaims: see there
 * @out_waits: see there
 * @out_ooms: see there
 * @out_flushes: see there
 * @out_zeroed_bytes: see there
 *
 * On a device file: the counters of this client, over its default pool and the
 * pools that it created, those that are gone included. Resident and spare
 * bytes are exact with their peaks. The others are sums over the pools made by
 * this call, each pool at an instant of its own; a peak among them is the sum
 * of the pools' peaks, which the true one never exceeds.
 *
 * Errors: those of every command.
 */
struct devpool_stats {
	__u32 size;
	__u32 flags;
	struct devpool_counter out_allocated;
	struct devpool_counter out_requested;
	struct devpool_counter out_active;
	struct devpool_counter out_resident;
	struct devpool_counter out_spare;
	struct devpool_counter out_blocks;
	__aligned_u64 out_hits;
	__aligned_u64 out_recycles;
	__aligned_u64 out_grows;
	__aligned_u64 out_fallbacks;
	__aligned_u64 out_reclaims;
	__aligned_u64 out_waits;
	__aligned_u64 out_ooms;
	__aligned_u64 out_flushes;
	__aligned_u64 out_zeroed_bytes;
};
#define DEVPOOL_IOC_STATS _IO(DEVPOOL_TYPE, DEVPOOL_CMD_STATS)

#endif
