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
 * is in them on entry is ignored, and what is in them after a call that failed
 * means nothing. Every bit of flags and every reserved member
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
 * EACCES      the file was not opened for reading, or writing, which this gives
 * ==========  ===============================================================
 *
 * A call that fails changes no block, reference, pool or attribute. Counters
 * of events may differ, and caches may have been given back on the way. The
 * only exception: an EMPTY_CACHE, a POOL_PUT or a BATCH whose report cannot be copied
 * out at its end returns EFAULT with the act done.
 */

/**
 * DOC: which pools a client knows
 *
 * An id is good only for who knows its pool. A client knows the pools whose ids
 * it minted, and those of which it is a member: in which it has a reference, a
 * block or a route. Any other id is ENOENT, whoever's it is. So is an id of the
 * client's own whose pool does not exist, or no longer exists, but for
 * POOL_CREATE and POOL_GET, which create it. {0,0} names no pool and means the
 * client's default pool, which has no references to be got or put: where a
 * command needs a pool that has, {0,0} is EINVAL.
 */

/**
 * DOC: streams and points
 *
 * A stream is an ordered line of work, and a point is a place on it: SUBMIT adds
 * the next one, and it has signalled when the work up to there is done. Points
 * are numbered from 1 on. Stream 0 is the host, which has no work outstanding.
 *
 * A *user stream* is completed by its owner, with SIGNAL. It is no fence, and no
 * driver ever waits for it: it protects memory only from being used again, and
 * for as long as it takes. A *fenced stream* is completed by fences of drivers:
 * each of its points has signalled when the fence that came with it, and all
 * points before it, have.
 *
 * A block that is freed while a stream that was recorded on it (RECORD) has work
 * outstanding is pending until the last points that these streams had then have
 * signalled. It belongs to nobody, and nobody gets it. After that it is cached.
 * A block that was allocated on a stream of its own (ALLOC) and is freed while
 * that has work outstanding can be used again on the same stream at once, which is
 * in order, and by others when the last point of that time has signalled. No chunk
 * leaves a pool before every point that protects a byte of it has.
 *
 * Whoever waits for points waits for those of the pools concerned and for no
 * others. Closing never waits: what is still in use then returns when its points
 * signal. A user stream is completed when it is destroyed and when its client's
 * file is closed. The points of a fenced stream end with their fences only,
 * whoever has died meanwhile.
 */

/*
 * Numbers are grouped (0x00 blocks, 0x10 pools, 0x20 streams, 0x28 dma-bufs, 0x30
 * views and limits) and are never used again for something else.
 */
enum {
	DEVPOOL_CMD_INFO = 0x00,
	DEVPOOL_CMD_ALLOC = 0x01,
	DEVPOOL_CMD_FREE = 0x02,
	DEVPOOL_CMD_BATCH = 0x03,
	DEVPOOL_CMD_RETAIN = 0x04,
	DEVPOOL_CMD_RECORD = 0x05,
	DEVPOOL_CMD_POOL_ID = 0x10,
	DEVPOOL_CMD_POOL_CREATE = 0x11,
	DEVPOOL_CMD_POOL_GET = 0x12,
	DEVPOOL_CMD_POOL_PUT = 0x13,
	DEVPOOL_CMD_POOL_ATTR = 0x14,
	DEVPOOL_CMD_POOL_STAT = 0x15,
	DEVPOOL_CMD_EMPTY_CACHE = 0x16,
	DEVPOOL_CMD_ROUTE_BEGIN = 0x18,
	DEVPOOL_CMD_ROUTE_END = 0x19,
	DEVPOOL_CMD_STREAM_CREATE = 0x20,
	DEVPOOL_CMD_STREAM_DESTROY = 0x21,
	DEVPOOL_CMD_STREAM_SUBMIT = 0x22,
	DEVPOOL_CMD_STREAM_SIGNAL = 0x23,
	DEVPOOL_CMD_EXPORT = 0x28,
	DEVPOOL_CMD_STATS = 0x30,
	DEVPOOL_CMD_SNAPSHOT = 0x31,
	DEVPOOL_CMD_LIMIT = 0x32,
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
 * {0,0} names no pool: the default pool of the client. No id is minted twice
 * while the module is loaded; whoever minted one may create its pool anew after
 * that is gone.
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
 * @DEVPOOL_FEATURE_ZERO: ALLOC knows DEVPOOL_ALLOC_ZERO
 * @DEVPOOL_FEATURE_EXPORTABLE: ALLOC knows DEVPOOL_ALLOC_EXPORTABLE
 * @DEVPOOL_FEATURE_SHARE: pools can be attached (POOL_GET), blocks retained
 *	(RETAIN)
 * @DEVPOOL_FEATURE_ROUTES: there are ROUTE_BEGIN and ROUTE_END
 * @DEVPOOL_FEATURE_LIMITS: there is LIMIT, and pools have DEVPOOL_ATTR_LIMIT and
 *	DEVPOOL_ATTR_RELEASE_THRESHOLD
 * @DEVPOOL_FEATURE_STABLE: pools can be DEVPOOL_POOL_STABLE
 * @DEVPOOL_FEATURE_NO_SPLIT: pools can be DEVPOOL_POOL_NO_SPLIT
 * @DEVPOOL_FEATURE_SPARES: EMPTY_CACHE knows DEVPOOL_EMPTY_KEEP_PHYSICAL
 * @DEVPOOL_FEATURE_SNAPSHOT: there is SNAPSHOT, and STATS of the whole device
 * @DEVPOOL_FEATURE_STREAMS: there are STREAM_CREATE and the other commands of
 *	streams, RECORD, and streams other than 0 for ALLOC and routes
 * @DEVPOOL_FEATURE_FENCES: streams can be DEVPOOL_STREAM_FENCED
 * @DEVPOOL_FEATURE_EXPORT: there is EXPORT
 * @DEVPOOL_FEATURE_BATCH: there is BATCH
 */
enum devpool_feature {
	DEVPOOL_FEATURE_MMAP = 1 << 0,
	DEVPOOL_FEATURE_HUGE_MAP = 1 << 1,
	DEVPOOL_FEATURE_ZERO = 1 << 2,
	DEVPOOL_FEATURE_EXPORTABLE = 1 << 3,
	DEVPOOL_FEATURE_SHARE = 1 << 4,
	DEVPOOL_FEATURE_ROUTES = 1 << 5,
	DEVPOOL_FEATURE_LIMITS = 1 << 6,
	DEVPOOL_FEATURE_STABLE = 1 << 7,
	DEVPOOL_FEATURE_NO_SPLIT = 1 << 8,
	DEVPOOL_FEATURE_SPARES = 1 << 9,
	DEVPOOL_FEATURE_SNAPSHOT = 1 << 10,
	DEVPOOL_FEATURE_STREAMS = 1 << 11,
	DEVPOOL_FEATURE_FENCES = 1 << 12,
	DEVPOOL_FEATURE_EXPORT = 1 << 13,
	DEVPOOL_FEATURE_BATCH = 1 << 14,
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
 * @out_max_streams: most streams of a client at a time, stream 0 not counted
 * @out_max_points: most points of a stream that have not signalled yet; of a fenced
 *	stream never more than 4096
 * @out_max_routes: most routes of a client at a time
 * @out_max_blocks: most blocks that one client can hold references on at a time
 * @out_max_batch: most operations of one BATCH
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
 * enum devpool_alloc_flags - flags of &struct devpool_alloc
 * @DEVPOOL_ALLOC_ZERO: every byte of the block is zero when the call returns, so it
 *	is of no memory that a stream still uses, not even of the block's own stream
 * @DEVPOOL_ALLOC_EXPORTABLE: the block begins and ends on a page, so that it can
 *	be shared page by page
 */
enum devpool_alloc_flags {
	DEVPOOL_ALLOC_ZERO = 1 << 0,
	DEVPOOL_ALLOC_EXPORTABLE = 1 << 1,
};

/**
 * struct devpool_alloc - ioctl(DEVPOOL_IOC_ALLOC)
 * @size: sizeof(struct devpool_alloc)
 * @flags: bits of &enum devpool_alloc_flags
 * @bytes: size of the block wanted
 * @align: alignment of its address, a power of two up to the chunk size;
 *	0 for none beyond the granule
 * @pool: the pool to take it from; {0,0} for where the client's latest route that
 *	matches leads (ROUTE_BEGIN), without one the client's default pool
 * @stream: the stream that will use it, 0 for the host
 * @__reserved: must be 0
 * @timeout: how long to wait for memory that streams still use, where there is not
 *	enough without
 * @user_addr: must be 0
 * @out_addr: address of the block: what FREE takes, and the mmap() offset
 * @out_bytes: size of the block: @bytes rounded up to the granule, to the page
 *	size with DEVPOOL_ALLOC_EXPORTABLE; in a pool that is DEVPOOL_POOL_NO_SPLIT
 *	whole chunks, of which there may be more than asked for
 *
 * On a device file: takes a block from a pool. The client has a reference on the
 * block until it frees it or its file is closed. What the block holds is zero or
 * what this pool last wrote there.
 *
 * Where there is not enough it waits, as long as a stream uses memory of the pool
 * or of the client's caches that may be taken, until @timeout. It waits for chunks
 * and for blocks that are freed as well.
 *
 * Errors: EINVAL (no bytes, an alignment that is none, a size that overflows),
 * ENOENT (a pool that the client does not know or that nothing refers to, a
 * stream that the client does not have), ENOSPC, EDQUOT (blocks, the pool's limit,
 * the limit of the client that created the pool), ENOMEM, EAGAIN (streams use
 * memory of these pools, and @timeout is 0 or past), ETIME (they do so still at
 * @timeout), EINTR.
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
 * @addr: address of a block on which this client has a reference
 *
 * On a device file: gives the client's reference up. With the last one, whoever
 * had it, the block goes back to its pool's cache. Never allocates memory and,
 * where there is a reference, never fails.
 *
 * Errors: ENOENT (not the address of a live block on which this client has a
 * reference).
 */
struct devpool_free {
	__u32 size;
	__u32 flags;
	__aligned_u64 addr;
};
#define DEVPOOL_IOC_FREE _IO(DEVPOOL_TYPE, DEVPOOL_CMD_FREE)

/**
 * struct devpool_batch_op - one operation of a BATCH
 * @command: DEVPOOL_CMD_ALLOC, DEVPOOL_CMD_FREE or DEVPOOL_CMD_RECORD
 * @flags: flags of that command
 * @addr: FREE, RECORD: as there
 * @bytes: ALLOC: as there, as are all of the following
 * @align: alignment of the address
 * @pool: the pool to take it from
 * @stream: ALLOC, RECORD: as there
 * @out_err: 0, or the negative errno that the command alone would have answered
 * @timeout: how long to wait for memory that streams still use
 * @user_addr: must be 0
 * @out_addr: address of the block
 * @out_bytes: size of the block
 *
 * What is not of its command must be 0.
 */
struct devpool_batch_op {
	__u32 command;
	__u32 flags;
	__aligned_u64 addr;
	__aligned_u64 bytes;
	__aligned_u64 align;
	struct devpool_pool_id pool;
	__u32 stream;
	__s32 out_err;
	__aligned_s64 timeout;
	__aligned_u64 user_addr;
	__aligned_u64 out_addr;
	__aligned_u64 out_bytes;
};

/**
 * struct devpool_batch - ioctl(DEVPOOL_IOC_BATCH)
 * @size: sizeof(struct devpool_batch)
 * @flags: must be 0
 * @ops: address of an array of &struct devpool_batch_op
 * @count: its length, at most &struct devpool_info.out_max_batch
 * @op_size: sizeof(struct devpool_batch_op)
 * @out_done: how many of them were run
 * @__reserved: must be 0
 *
 * On a device file: runs operations one after the other, each as its command alone
 * would: it succeeds or fails by itself, and says so in its @out_err. A block that was
 * allocated can be named by others only when its operation has been answered, so
 * nothing in the same batch can.
 *
 * Once one operation has run the call returns 0. It ends early where the next
 * operation cannot be read or answered, or a signal has come: see @out_done. What has
 * not run is left as it was. An ALLOC whose answer cannot be written is undone. If
 * somebody else takes the array away at that moment, a few of the operations behind it
 * may have run: FREE is not undone.
 *
 * Errors: EINVAL (no operations or more than out_max_batch, @op_size too small,
 * @__reserved), E2BIG (@op_size above a page; for the first operation: what the kernel
 * does not know of it is not zero), EFAULT (the first operation), EINTR (a signal
 * before the first). For an operation: EOPNOTSUPP (a @command that no batch knows),
 * EINVAL (something that is not of its command), and those of its command.
 */
struct devpool_batch {
	__u32 size;
	__u32 flags;
	__aligned_u64 ops;
	__u32 count;
	__u32 op_size;
	__u32 out_done;
	__u32 __reserved;
};
#define DEVPOOL_IOC_BATCH _IO(DEVPOOL_TYPE, DEVPOOL_CMD_BATCH)

/**
 * struct devpool_retain - ioctl(DEVPOOL_IOC_RETAIN)
 * @size: sizeof(struct devpool_retain)
 * @flags: must be 0
 * @addr: address of a live block of a pool that this client knows
 *
 * On a device file: gives this client a reference of its own on a block that
 * another client has allocated. It drops it by FREE, or when its file is closed.
 *
 * Errors: ENOENT (not the address of a live block of a pool that the client
 * knows), EBUSY (it has a reference), EDQUOT (blocks), ENOMEM.
 */
struct devpool_retain {
	__u32 size;
	__u32 flags;
	__aligned_u64 addr;
};
#define DEVPOOL_IOC_RETAIN _IO(DEVPOOL_TYPE, DEVPOOL_CMD_RETAIN)

/**
 * enum devpool_pool_id_flags - flags of &struct devpool_pool_id_new
 * @DEVPOOL_POOL_ID_CAPTURE: an id for a graph capture, {n,0}, instead of {0,n}
 */
enum devpool_pool_id_flags {
	DEVPOOL_POOL_ID_CAPTURE = 1 << 0,
};

/**
 * struct devpool_record - ioctl(DEVPOOL_IOC_RECORD)
 * @size: sizeof(struct devpool_record)
 * @flags: must be 0
 * @addr: any address inside the block
 * @stream: the stream that uses the block
 * @__reserved: must be 0
 *
 * On a device file: the block is in use by a stream. When its last reference is
 * dropped it is pending until the last point that this stream has then has
 * signalled. The client must have a reference on the block. The stream that the
 * block was allocated on is in order anyway and recorded for nothing, as is
 * stream 0; a stream that is recorded already stays so once.
 *
 * Errors: EINVAL (@__reserved), ENOENT (not inside a live block on which this
 * client has a reference, a stream that the client does not have), ENOMEM.
 */
struct devpool_record {
	__u32 size;
	__u32 flags;
	__aligned_u64 addr;
	__u32 stream;
	__u32 __reserved;
};
#define DEVPOOL_IOC_RECORD _IO(DEVPOOL_TYPE, DEVPOOL_CMD_RECORD)

/**
 * struct devpool_pool_id_new - ioctl(DEVPOOL_IOC_POOL_ID)
 * @size: sizeof(struct devpool_pool_id_new)
 * @flags: bits of &enum devpool_pool_id_flags
 * @out_pool: the id
 *
 * On a device file: mints an id, whose number is larger than that of any id of
 * the same kind that this client has minted before. There is no pool yet, and
 * nothing is held for one: POOL_CREATE or POOL_GET makes it.
 *
 * Errors: ENOSPC (ids are used up).
 */
struct devpool_pool_id_new {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id out_pool;
};
#define DEVPOOL_IOC_POOL_ID _IO(DEVPOOL_TYPE, DEVPOOL_CMD_POOL_ID)

/**
 * enum devpool_pool_flags - flags of &struct devpool_pool_create
 * @DEVPOOL_POOL_STABLE: an address that was handed out keeps its memory, with
 *	what is in it, for as long as the pool is live, free or not: requests move
 *	no chunks, and only DEVPOOL_EMPTY_TRIM takes some away
 * @DEVPOOL_POOL_NO_SPLIT: every block begins and ends on a chunk. No request
 *	takes a part of a free block, and free blocks do not become one. (What
 *	gives back some chunks, such as &struct devpool_empty_cache.keep, cuts free
 *	blocks.)
 * @DEVPOOL_POOL_THRESHOLD: release_threshold counts
 */
enum devpool_pool_flags {
	DEVPOOL_POOL_STABLE = 1 << 0,
	DEVPOOL_POOL_NO_SPLIT = 1 << 1,
	DEVPOOL_POOL_THRESHOLD = 1 << 4,
};

/**
 * struct devpool_pool_create - ioctl(DEVPOOL_IOC_POOL_CREATE)
 * @size: sizeof(struct devpool_pool_create)
 * @flags: bits of &enum devpool_pool_flags
 * @pool: an id that this client has minted, or {0,0} to mint one
 * @limit: see DEVPOOL_ATTR_LIMIT
 * @reserve: must be 0
 * @release_threshold: see DEVPOOL_ATTR_RELEASE_THRESHOLD; must be 0 without
 *	DEVPOOL_POOL_THRESHOLD
 * @out_pool: id of the pool
 * @out_fd: the pool file, opened with O_CLOEXEC
 * @__reserved: must be 0
 *
 * On a device file: makes a pool with a use count of 1, which the pool file
 * holds. When the last descriptor of the pool file is closed and nothing else
 * refers to the pool, its cache returns to the device.
 *
 * Errors: EINVAL (a limit that overflows, a threshold without its flag or for a
 * stable pool), ENOENT (an id that this client has not minted), EBUSY (the id's
 * pool exists), EDQUOT (pools), ENOSPC (ids are used up), ENOMEM, EMFILE, ENFILE.
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
 * enum devpool_pool_get_flags - flags of &struct devpool_pool_get
 * @DEVPOOL_POOL_GET_FD: the pool is that of a pool file
 */
enum devpool_pool_get_flags {
	DEVPOOL_POOL_GET_FD = 1 << 0,
};

/**
 * struct devpool_pool_get - ioctl(DEVPOOL_IOC_POOL_GET)
 * @size: sizeof(struct devpool_pool_get)
 * @flags: bits of &enum devpool_pool_get_flags
 * @pool: the pool; {0,0} with DEVPOOL_POOL_GET_FD
 * @fd: with DEVPOOL_POOL_GET_FD: a descriptor of the pool file, which stays the
 *	caller's; otherwise 0
 * @out_use_count: references on the pool, this one included
 * @out_pool: id of the pool
 *
 * On a device file: gives this client a reference on a pool, until POOL_PUT or
 * until its file is closed. By id: the pool is created if this client has minted
 * the id and there is none; one that nothing referred to is live again, with what
 * it had cached. By pool file (to *attach*): the client knows the pool from now
 * on, whoever created it.
 *
 * Only a pool that never had a pool file keeps its cache when nothing refers to
 * it any more.
 *
 * Errors: EINVAL ({0,0}; an id or a descriptor where it is not asked for; a pool
 * file of another device), EBADF (not a pool file), ENOENT (a pool that the client
 * does not know, a pool file that was released), EDQUOT (pools, references),
 * ENOMEM.
 */
struct devpool_pool_get {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id pool;
	__s32 fd;
	__u32 out_use_count;
	struct devpool_pool_id out_pool;
};
#define DEVPOOL_IOC_POOL_GET _IO(DEVPOOL_TYPE, DEVPOOL_CMD_POOL_GET)

/**
 * struct devpool_pool_put - ioctl(DEVPOOL_IOC_POOL_PUT)
 * @size: sizeof(struct devpool_pool_put)
 * @flags: must be 0
 * @pool: the pool
 * @out_use_count: references that are left
 * @__reserved: must be 0
 *
 * On a device file: drops a reference that this client has got by POOL_GET. If
 * that was the last of all, and the pool has had a pool file, its cache returns to
 * the device; a pool that never had one keeps it until EMPTY_CACHE, until memory
 * is short, or until the client's file is closed. A pool with nothing in it is
 * gone. Never allocates memory.
 *
 * Errors: EINVAL ({0,0}), ENOENT (a pool that the client does not know, or on
 * which it has no such reference). EFAULT where only the report could not be
 * copied out: the act is done.
 */
struct devpool_pool_put {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id pool;
	__u32 out_use_count;
	__u32 __reserved;
};
#define DEVPOOL_IOC_POOL_PUT _IO(DEVPOOL_TYPE, DEVPOOL_CMD_POOL_PUT)

/**
 * enum devpool_attr - attributes of a pool
 * @DEVPOOL_ATTR_LIMIT: bytes that may be resident or spare in the pool, rounded up
 *	to whole chunks; 0 for no limit, which is the default. A request that needs
 *	more is EDQUOT. Set below what there is, it takes nothing away
 * @DEVPOOL_ATTR_RELEASE_THRESHOLD: bytes of cache that the pool may keep. After a
 *	FREE, and when it is set, chunks without a live or pending byte are given
 *	back until no more than that is resident or spare without being live or
 *	pending. The default, the largest number, keeps all. Not for a pool that is
 *	DEVPOOL_POOL_STABLE
 */
enum devpool_attr {
	DEVPOOL_ATTR_LIMIT = 0,
	DEVPOOL_ATTR_RELEASE_THRESHOLD = 1,
};

/**
 * enum devpool_pool_attr_flags - flags of &struct devpool_pool_attr
 * @DEVPOOL_POOL_ATTR_SET: sets the attribute
 */
enum devpool_pool_attr_flags {
	DEVPOOL_POOL_ATTR_SET = 1 << 0,
};

/**
 * struct devpool_pool_attr - ioctl(DEVPOOL_IOC_POOL_ATTR)
 * @size: sizeof(struct devpool_pool_attr)
 * @flags: bits of &enum devpool_pool_attr_flags
 * @pool: the pool; {0,0} is the client's default pool, and on a pool file it must
 *	be {0,0} and means that file's pool
 * @attr: one of &enum devpool_attr
 * @__reserved: must be 0
 * @value: with DEVPOOL_POOL_ATTR_SET: the value; otherwise 0
 * @out_value: the value that the attribute has now
 *
 * On a device file and on a pool file: reads or sets an attribute of a pool. It
 * takes effect at once.
 *
 * Errors: EOPNOTSUPP (an attribute that is not known), EINVAL (a value that is
 * none, or without the flag; an id on a pool file), ENOENT (a pool that the client
 * does not know, a pool file that was released).
 */
struct devpool_pool_attr {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id pool;
	__u32 attr;
	__u32 __reserved;
	__aligned_u64 value;
	__aligned_u64 out_value;
};
#define DEVPOOL_IOC_POOL_ATTR _IO(DEVPOOL_TYPE, DEVPOOL_CMD_POOL_ATTR)

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
 * @out_waits: requests that waited for a stream
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
 * @DEVPOOL_EMPTY_KEEP_PHYSICAL: take the memory from behind its addresses only.
 *	It stays the pool's, as spare chunks, which requests take before new ones;
 *	an EMPTY_CACHE without this flag gives them back
 * @DEVPOOL_EMPTY_RELEASE: only on a pool file: first give up this file's
 *	reference, in one act with what follows
 */
enum devpool_empty_flags {
	DEVPOOL_EMPTY_TRIM = 1 << 0,
	DEVPOOL_EMPTY_KEEP_PHYSICAL = 1 << 1,
	DEVPOOL_EMPTY_RELEASE = 1 << 2,
};

/**
 * struct devpool_empty_cache - ioctl(DEVPOOL_IOC_EMPTY_CACHE)
 * @size: sizeof(struct devpool_empty_cache)
 * @flags: bits of &enum devpool_empty_flags
 * @pool: the pool. {0,0} on a device file: the client's default pool and every
 *	freeable pool that it knows. On a pool file it must be {0,0} and means
 *	that file's pool
 * @timeout: how long to wait for streams that still use memory which is to go
 * @keep: go on until at most so many bytes are resident, in each of the pools
 *	by itself; of no effect on a pool that flushes itself
 * @out_freed: bytes that this call gave back to the device
 * @out_kept: bytes that are still resident in the pools concerned
 * @out_pending: bytes in them that are free, but which a stream still uses
 * @out_live: bytes of live blocks in them
 * @out_state: state of the named pool, one of &enum devpool_state
 * @__reserved: must be 0
 *
 * On a device file and on a pool file: gives every chunk without a live or
 * pending byte back to the device. Without DEVPOOL_EMPTY_TRIM a live pool that
 * is named keeps its cache, and the answer says what stands.
 *
 * Until @timeout it waits for the points that keep something from going, those of
 * the pools concerned alone. When the time is up, or a signal comes, the answer is
 * 0 with what stands then.
 *
 * With DEVPOOL_EMPTY_RELEASE the pool file gives up its reference; if that was
 * the last one the pool's cache is flushed, whatever @keep and
 * DEVPOOL_EMPTY_KEEP_PHYSICAL say; else the other flags and @keep mean what they
 * do without it. Every later command on the file is ENOENT, and its close does
 * nothing more.
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
 * enum devpool_scope - which requests a route is for
 * @DEVPOOL_SCOPE_THREAD: those of the calling thread
 * @DEVPOOL_SCOPE_STREAM: those on a stream
 * @DEVPOOL_SCOPE_ALL: all of the client's
 */
enum devpool_scope {
	DEVPOOL_SCOPE_THREAD = 0,
	DEVPOOL_SCOPE_STREAM = 1,
	DEVPOOL_SCOPE_ALL = 2,
};

/**
 * struct devpool_route_begin - ioctl(DEVPOOL_IOC_ROUTE_BEGIN)
 * @size: sizeof(struct devpool_route_begin)
 * @flags: must be 0
 * @pool: the pool
 * @scope: one of &enum devpool_scope
 * @stream: with DEVPOOL_SCOPE_STREAM the stream, 0 for the host; otherwise 0
 *
 * On a device file: from now on the client's ALLOCs that name no pool, as far as
 * they are in the scope, are served by this pool. Of several routes that match the
 * latest wins. The route has a reference on the pool until ROUTE_END, until the
 * client's file is closed, until its stream is destroyed, or until its thread is
 * dead (which the client's next command that has to do with routes, or its next
 * POOL_PUT, finds out).
 *
 * Errors: EOPNOTSUPP (a scope that is not known), EINVAL ({0,0}, a stream with
 * another scope), ENOENT (a pool or a stream that the client does not know), EBUSY
 * (there is this route already, and no reference was taken), EDQUOT (routes,
 * references), ENOMEM.
 */
struct devpool_route_begin {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id pool;
	__u32 scope;
	__u32 stream;
};
#define DEVPOOL_IOC_ROUTE_BEGIN _IO(DEVPOOL_TYPE, DEVPOOL_CMD_ROUTE_BEGIN)

/**
 * struct devpool_route_end - ioctl(DEVPOOL_IOC_ROUTE_END)
 * @size: sizeof(struct devpool_route_end)
 * @flags: must be 0
 * @pool: the pool
 * @scope: one of &enum devpool_scope
 * @stream: with DEVPOOL_SCOPE_STREAM the stream, 0 for the host; otherwise 0
 *
 * On a device file: ends the route that a ROUTE_BEGIN with the same arguments has
 * begun (of the same thread, if that is its scope) and drops its reference.
 *
 * Errors: EOPNOTSUPP (a scope that is not known), EINVAL ({0,0}, a stream with
 * another scope), ENOENT (there is no such route).
 */
struct devpool_route_end {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id pool;
	__u32 scope;
	__u32 stream;
};
#define DEVPOOL_IOC_ROUTE_END _IO(DEVPOOL_TYPE, DEVPOOL_CMD_ROUTE_END)

/**
 * enum devpool_stream_flags - flags of &struct devpool_stream_create
 * @DEVPOOL_STREAM_FENCED: fences of drivers complete its points, not SIGNAL
 */
enum devpool_stream_flags {
	DEVPOOL_STREAM_FENCED = 1 << 0,
};

/**
 * struct devpool_stream_create - ioctl(DEVPOOL_IOC_STREAM_CREATE)
 * @size: sizeof(struct devpool_stream_create)
 * @flags: bits of &enum devpool_stream_flags
 * @out_stream: number of the stream, never 0
 * @__reserved: must be 0
 *
 * On a device file: makes a stream, which is this client's alone. It has no point
 * yet.
 *
 * Errors: EINVAL (@__reserved), EDQUOT (streams), ENOMEM.
 */
struct devpool_stream_create {
	__u32 size;
	__u32 flags;
	__u32 out_stream;
	__u32 __reserved;
};
#define DEVPOOL_IOC_STREAM_CREATE _IO(DEVPOOL_TYPE, DEVPOOL_CMD_STREAM_CREATE)

/**
 * struct devpool_stream_destroy - ioctl(DEVPOOL_IOC_STREAM_DESTROY)
 * @size: sizeof(struct devpool_stream_destroy)
 * @flags: must be 0
 * @stream: the stream
 * @__reserved: must be 0
 *
 * On a device file: ends a stream and the routes of its scope. A user stream is
 * completed. The open points of a fenced stream go on protecting memory until they
 * signal. Blocks that were allocated on it stay, and are recorded on it no more
 * than before; an ALLOC that waits on it is refused with ENOENT. Its number is not
 * used again soon. Never allocates memory.
 *
 * Errors: EINVAL (@__reserved), ENOENT (a stream that the client does not have;
 * stream 0).
 */
struct devpool_stream_destroy {
	__u32 size;
	__u32 flags;
	__u32 stream;
	__u32 __reserved;
};
#define DEVPOOL_IOC_STREAM_DESTROY _IO(DEVPOOL_TYPE, DEVPOOL_CMD_STREAM_DESTROY)

/**
 * enum devpool_submit_flags - flags of &struct devpool_stream_submit
 * @DEVPOOL_SUBMIT_FENCE_IN: @in_fence says when the work is done
 * @DEVPOOL_SUBMIT_FENCE_OUT: hand the point out as a sync_file
 */
enum devpool_submit_flags {
	DEVPOOL_SUBMIT_FENCE_IN = 1 << 0,
	DEVPOOL_SUBMIT_FENCE_OUT = 1 << 1,
};

/**
 * struct devpool_stream_submit - ioctl(DEVPOOL_IOC_STREAM_SUBMIT)
 * @size: sizeof(struct devpool_stream_submit)
 * @flags: bits of &enum devpool_submit_flags
 * @stream: the stream
 * @in_fence: with DEVPOOL_SUBMIT_FENCE_IN: a descriptor of a sync_file of any
 *	driver, which stays the caller's; otherwise 0
 * @out_point: number of the point
 * @out_fence: with DEVPOOL_SUBMIT_FENCE_OUT: a sync_file that signals with the
 *	point, opened with O_CLOEXEC; otherwise -1
 * @__reserved: must be 0
 *
 * On a device file: adds the next point to a stream. A fenced stream needs
 * DEVPOOL_SUBMIT_FENCE_IN; the point has signalled when that fence and all points
 * before it have, with an error or without. A user stream takes no flag: user
 * space can make no fence.
 *
 * Errors: EOPNOTSUPP (DEVPOOL_SUBMIT_FENCE_OUT on a user stream), EINVAL
 * (@__reserved, a descriptor without its flag, a fence on a user stream, none on a
 * fenced one), EBADF (not a sync_file), ENOENT (a stream that the client does not
 * have; stream 0), EDQUOT (points that are open, or fences in the sync_file, above
 * @out_max_points of &struct devpool_info; on a fenced stream above 4096), ENOMEM,
 * EMFILE, ENFILE.
 */
struct devpool_stream_submit {
	__u32 size;
	__u32 flags;
	__u32 stream;
	__s32 in_fence;
	__aligned_u64 out_point;
	__s32 out_fence;
	__u32 __reserved;
};
#define DEVPOOL_IOC_STREAM_SUBMIT _IO(DEVPOOL_TYPE, DEVPOOL_CMD_STREAM_SUBMIT)

/**
 * struct devpool_stream_signal - ioctl(DEVPOOL_IOC_STREAM_SIGNAL)
 * @size: sizeof(struct devpool_stream_signal)
 * @flags: must be 0
 * @stream: the stream, a user stream
 * @__reserved: must be 0
 * @point: the point
 *
 * On a device file: the point and all before it have signalled. What they alone
 * protected is cached when the call returns, or has gone back to the device.
 * Never allocates memory.
 *
 * Errors: EINVAL (@__reserved, a point that was not submitted or has signalled
 * already, a fenced stream), ENOENT (a stream that the client does not have;
 * stream 0).
 */
struct devpool_stream_signal {
	__u32 size;
	__u32 flags;
	__u32 stream;
	__u32 __reserved;
	__aligned_u64 point;
};
#define DEVPOOL_IOC_STREAM_SIGNAL _IO(DEVPOOL_TYPE, DEVPOOL_CMD_STREAM_SIGNAL)

/**
 * struct devpool_export - ioctl(DEVPOOL_IOC_EXPORT)
 * @size: sizeof(struct devpool_export)
 * @flags: must be 0
 * @addr: address of a block on which this client has a reference
 * @fd_flags: O_RDONLY, O_WRONLY or O_RDWR, and O_CLOEXEC or not, as of open(2)
 * @out_fd: a new descriptor of the block's dma-buf
 *
 * On a device file: makes a dma-buf of a block that begins and ends on a page, for
 * drivers and for processes that know nothing of devpool. DEVPOOL_ALLOC_EXPORTABLE
 * gets such a block whatever its size; what is larger than 1 MiB always is one.
 *
 * A block has one dma-buf at a time. If it has one already, that is what the new
 * descriptor is of, and the access mode must be the same. The dma-buf holds the
 * block where it is: a block that is freed meanwhile, or whose client's file is
 * closed, is pending until the dma-buf has gone and the fences in its reservation
 * object have signalled. A dma-buf that is made of the block before that has them
 * too.
 *
 * Errors: EOPNOTSUPP (a bit of @fd_flags that is none of these, a device without
 * memory), ENOENT (no block of that address on which the client has a reference),
 * EINVAL (the block does not begin and end on a page, no access mode), EBUSY (the
 * block's dma-buf has another access mode), EACCES (an access mode that the device
 * file was not opened for), EMFILE and ENFILE as of open(2), ENOMEM.
 */
struct devpool_export {
	__u32 size;
	__u32 flags;
	__aligned_u64 addr;
	__u32 fd_flags;
	__s32 out_fd;
};
#define DEVPOOL_IOC_EXPORT _IO(DEVPOOL_TYPE, DEVPOOL_CMD_EXPORT)

/**
 * enum devpool_stats_flags - flags of &struct devpool_stats
 * @DEVPOOL_STATS_DEVICE: over all clients of the device; needs CAP_SYS_ADMIN
 */
enum devpool_stats_flags {
	DEVPOOL_STATS_DEVICE = 1 << 0,
};

/**
 * struct devpool_stats - ioctl(DEVPOOL_IOC_STATS)
 * @size: sizeof(struct devpool_stats)
 * @flags: bits of &enum devpool_stats_flags
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
 * With DEVPOOL_STATS_DEVICE the same over all pools that the device has and has
 * had.
 *
 * Errors: EPERM (DEVPOOL_STATS_DEVICE without CAP_SYS_ADMIN).
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

/**
 * enum devpool_block_state - what a block is
 * @DEVPOOL_BLOCK_LIVE: somebody has a reference on it
 * @DEVPOOL_BLOCK_PENDING: nobody has, but a stream that was recorded on it uses it
 * @DEVPOOL_BLOCK_CACHED: nobody has, and its memory is there
 */
enum devpool_block_state {
	DEVPOOL_BLOCK_LIVE = 0,
	DEVPOOL_BLOCK_PENDING = 1,
	DEVPOOL_BLOCK_CACHED = 2,
};

/**
 * struct devpool_snapshot_entry - one block, as SNAPSHOT tells
 * @addr: its address
 * @bytes: its size
 * @requested: live: bytes that were asked for; otherwise 0
 * @pool: its pool
 * @stream: live and pending: the stream that it was allocated on, 0 for the host.
 *	Cached: the stream that can have it at once, 0 for any. The number is the
 *	stream's client's, and may be of a stream that was destroyed
 * @state: one of &enum devpool_block_state
 * @client: number of the client that created the pool; larger than that of any
 *	that was opened before
 * @pid: process that opened this client, as the caller sees it, 0 if it does not
 * @__reserved: 0
 * @comm: name that the process had then, NUL-terminated
 */
struct devpool_snapshot_entry {
	__aligned_u64 addr;
	__aligned_u64 bytes;
	__aligned_u64 requested;
	struct devpool_pool_id pool;
	__u32 stream;
	__u32 state;
	__aligned_u64 client;
	__s32 pid;
	__u32 __reserved;
	__u8 comm[16];
};

/**
 * enum devpool_snapshot_flags - flags of &struct devpool_snapshot
 * @DEVPOOL_SNAPSHOT_DEVICE: of all clients of the device; needs CAP_SYS_ADMIN
 */
enum devpool_snapshot_flags {
	DEVPOOL_SNAPSHOT_DEVICE = 1 << 0,
};

/**
 * struct devpool_snapshot - ioctl(DEVPOOL_IOC_SNAPSHOT)
 * @size: sizeof(struct devpool_snapshot)
 * @flags: bits of &enum devpool_snapshot_flags
 * @pool: the pool, {0,0} for all that the client knows; {0,0} with
 *	DEVPOOL_SNAPSHOT_DEVICE
 * @cursor: where to go on: 0 at first, then what @out_cursor was
 * @array: where to put entries, an array of &struct devpool_snapshot_entry
 * @count: entries that there is room for, at least 1
 * @out_count: entries that were put there, which can be fewer before the end too
 * @out_cursor: where to go on, 0 at the end
 *
 * On a device file: the blocks, in the order of their addresses. What one call
 * tells of a pool is of one instant. A block that is there all the time is told
 * exactly once, unless it is split or joined meanwhile. The bytes of all blocks of
 * a pool are its resident bytes, those of its live ones its allocated bytes. Any
 * @cursor is good.
 *
 * Errors: EINVAL (no room, a pool with DEVPOOL_SNAPSHOT_DEVICE), ENOENT (a pool
 * that the client does not know), EPERM (DEVPOOL_SNAPSHOT_DEVICE without
 * CAP_SYS_ADMIN), ENOMEM, EINTR (the caller is dying).
 */
struct devpool_snapshot {
	__u32 size;
	__u32 flags;
	struct devpool_pool_id pool;
	__aligned_u64 cursor;
	__aligned_u64 array;
	__u32 count;
	__u32 out_count;
	__aligned_u64 out_cursor;
};
#define DEVPOOL_IOC_SNAPSHOT _IO(DEVPOOL_TYPE, DEVPOOL_CMD_SNAPSHOT)

/**
 * struct devpool_limit - ioctl(DEVPOOL_IOC_LIMIT)
 * @size: sizeof(struct devpool_limit)
 * @flags: must be 0
 * @bytes: bytes that may be resident or spare in the client's default pool and the
 *	pools that it created together, rounded up to whole chunks; 0 for no limit
 *
 * On a device file: a request that would need more is EDQUOT; what the client's
 * pools have cached and need not keep (its default pool, and pools that nothing
 * refers to) is taken for it before. Set below what there is, it takes nothing
 * away.
 *
 * Errors: EINVAL (a size that overflows).
 */
struct devpool_limit {
	__u32 size;
	__u32 flags;
	__aligned_u64 bytes;
};
#define DEVPOOL_IOC_LIMIT _IO(DEVPOOL_TYPE, DEVPOOL_CMD_LIMIT)

#endif
