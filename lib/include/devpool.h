/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * libdevpool: a device's memory as reference-counted pools.
 */
#ifndef DEVPOOL_H
#define DEVPOOL_H

#include <linux/devpool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * DOC: rules of the library
 *
 * Results. A function that can fail returns 0, or a negative errno with the
 * meaning of <linux/devpool.h>, and stores its result through its last
 * argument, which it leaves alone when it fails. errno itself is never changed
 * and nothing is ever printed. A NULL object or result pointer is -EINVAL.
 *
 * Ownership. struct devpool is one client of a device: all that is taken
 * through it belongs to its file, and returns when the last descriptor of that
 * file is closed, by whatever end of the process. struct devpool_pool belongs
 * to the caller until devpool_pool_close(), which has to come before the
 * devpool_close() of its device. A descriptor that is passed in stays the
 * caller's; one that is handed out stays the library's.
 *
 * Pointers. A block's memory is mapped when the block is handed out, and a
 * pointer to it is good until the client has freed the block. The library maps
 * whole surroundings of blocks and keeps them for as long as the client knows
 * their pool, and until devpool_close() at the latest: those of a pool that was
 * closed are unmapped at once where that ended it for this client, else some
 * time later. A pointer that is used after that is a fault (SIGBUS or SIGSEGV),
 * never a view of someone else's memory. On a device without memory (no
 * DEVPOOL_FEATURE_MMAP) a pointer is only a name: touching it is SIGBUS.
 *
 * Threads. All functions may be called at once from any number of threads, on
 * the same objects too; only the call that closes an object must be the last
 * one upon it. None of them is for signal handlers.
 *
 * Signals. No call ends early with -EINTR: timeouts are points in time, so an
 * interrupted command is started again. Where a signal ends the wait of giving
 * memory back, the result says what is still in use (@pending), as it does at the
 * timeout.
 *
 * Fork. Mappings do not pass to a forked child, the client does. In the child
 * the library notices by itself and maps anew what is asked for: addresses
 * (devpool_addr(), before the fork) are good there, pointers of the parent are
 * not, and devpool_ptr() turns the one into the other. Parent and child then
 * share one client and its pools: what one frees or closes is freed or closed for
 * both, but for the client itself, which lives until both have closed it.
 *
 * Growth. Option structs begin with their own size, @sz; what a caller leaves
 * zero is the default, and a program that was built against a newer library
 * gets -E2BIG for an option that this one does not know. The structs of
 * <linux/devpool.h> that are filled here are those of this header: when one
 * grows, the function gets a new version in the shared library and old programs
 * go on with theirs.
 */

#define DEVPOOL_MUST_CHECK __attribute__((warn_unused_result))

/** struct devpool - a device node, opened: one client. Opaque. */
struct devpool;

/** struct devpool_pool - a private pool, created or attached here. Opaque. */
struct devpool_pool;

/**
 * struct devpool_alloc_opts - how a block is to be
 * @sz: sizeof(struct devpool_alloc_opts)
 * @align: alignment of the block's address, a power of two up to the chunk
 *	size of the device; 0 for none beyond the granule
 * @pool: the pool to take it from, see devpool_pool_id(); {0,0} for where a route
 *	of the client leads, without one its default pool
 * @timeout: until when to wait for memory that streams still use, where there is
 *	not enough without: a point on CLOCK_MONOTONIC in ns; 0 does not wait,
 *	INT64_MAX waits for ever
 * @stream: the stream that will use it, see devpool_stream_create(); 0 is the host
 * @flags: bits of &enum devpool_alloc_flags
 *
 * Without options the block comes from where {0,0} leads, and the request waits
 * up to 10 seconds. With options it waits only if @timeout says so.
 */
struct devpool_alloc_opts {
	size_t sz;
	uint64_t align;
	struct devpool_pool_id pool;
	int64_t timeout;
	uint32_t stream;
	uint32_t flags;
};

/**
 * struct devpool_pool_opts - how a pool is to be
 * @sz: sizeof(struct devpool_pool_opts)
 * @pool: an id that this client has minted, or {0,0} to mint one
 * @limit: most bytes of memory that it may have, see DEVPOOL_ATTR_LIMIT; 0 for no
 *	limit
 * @reserve: must be 0
 * @release_threshold: most bytes of cache that it keeps, see
 *	DEVPOOL_ATTR_RELEASE_THRESHOLD; counts with the flag DEVPOOL_POOL_THRESHOLD
 *	and must be 0 without it
 * @flags: bits of &enum devpool_pool_flags
 * @__reserved: must be 0
 */
struct devpool_pool_opts {
	size_t sz;
	struct devpool_pool_id pool;
	uint64_t limit;
	uint64_t reserve;
	uint64_t release_threshold;
	uint32_t flags;
	uint32_t __reserved;
};

/**
 * struct devpool_result - what giving memory back came to, in bytes
 * @freed: given back to the device by this call
 * @kept: still resident in the pools concerned
 * @pending: free in them, but streams still use it
 * @live: of blocks in them that are not freed
 * @state: of the pool that was named, one of &enum devpool_state
 * @__reserved: 0
 */
struct devpool_result {
	uint64_t freed;
	uint64_t kept;
	uint64_t pending;
	uint64_t live;
	uint32_t state;
	uint32_t __reserved;
};

/**
 * typedef devpool_snapshot_fn - what devpool_snapshot() calls for each block
 * @entry: the block, good until the function returns
 * @arg: what devpool_snapshot() was given
 *
 * May call any function of the library.
 *
 * Return: 0 to go on; anything else ends the snapshot and becomes its result.
 */
typedef int devpool_snapshot_fn(const struct devpool_snapshot_entry *entry, void *arg);

/* The library hides all else that it has. */
#pragma GCC visibility push(default)

/**
 * devpool_open() - becomes a client of a device
 * @node: the device node; NULL for $DEVPOOL_DEVICE, and /dev/devpool0 where
 *	that is not set (or not to be trusted, in a set-user-ID program)
 * @dev: the client. The caller owns it and ends it by devpool_close()
 *
 * The descriptor is close-on-exec.
 *
 * Return: 0; what open(2) says; -ENOTTY if the node is none of devpool's;
 * -ENODEV if the device is gone; -ENOMEM.
 */
int devpool_open(const char *node, struct devpool **dev) DEVPOOL_MUST_CHECK;

/**
 * devpool_close() - ends a client
 * @dev: the client, NULL for none
 *
 * Unmaps what the library has mapped, then closes the file. Unless another
 * process shares it, all blocks, caches and references of the client are back
 * in the device when this returns. The client's pools are to be closed before.
 *
 * Threads: must be the last call on @dev.
 */
void devpool_close(struct devpool *dev);

/**
 * devpool_fd() - the file of a client, for ioctl(2) and for other processes
 * @dev: the client, which goes on owning the descriptor
 *
 * Return: the descriptor, or -EINVAL.
 */
int devpool_fd(const struct devpool *dev) DEVPOOL_MUST_CHECK;

/**
 * devpool_info() - what the device is
 * @dev: the client
 * @info: filled in
 *
 * Return: 0, -EINVAL or -ENODEV.
 */
int devpool_info(struct devpool *dev, struct devpool_info *info) DEVPOOL_MUST_CHECK;

/**
 * devpool_alloc() - a block of mapped memory
 * @dev: the client, which owns the block until devpool_free() or its own end
 * @bytes: size wanted; rounded up to the granule of the device
 * @opts: options, or NULL
 * @ptr: the block
 *
 * What the block holds is zero or what its pool last wrote there. If the block
 * cannot be mapped it is freed again.
 *
 * Return: 0; -EINVAL (no bytes, an alignment that is none, a size that
 * overflows); -E2BIG or -EOPNOTSUPP (an option that is not known); -ENOENT (a
 * pool that the client does not know or that nothing refers to, no such
 * stream); -ENOSPC; -EDQUOT (a limit of the pool or of the client that created
 * it, or too many blocks); -EAGAIN (streams use memory of these pools, and the
 * timeout is 0 or past); -ETIME (they do so still at the timeout); -ENODEV;
 * -ENOMEM (in the kernel, or no room in this process's address space); -EOVERFLOW
 * (a 32-bit program, whose mmap(2) does not reach that far); -EPROTO (an answer
 * that makes no sense).
 */
int devpool_alloc(struct devpool *dev, size_t bytes, const struct devpool_alloc_opts *opts,
		  void **ptr) DEVPOOL_MUST_CHECK;

/**
 * devpool_free() - gives a block back to its pool
 * @dev: the client that owns the block
 * @ptr: what devpool_alloc() gave, or devpool_ptr() for the block's address
 *
 * Gives up the client's own reference. Where another client has retained the
 * block, it lives on for that one. Nothing has to be waited for: memory that a
 * stream still uses, the one that the block was allocated on or one of
 * devpool_record(), is handed to nobody else before that is over.
 *
 * Return: 0; -EINVAL (NULL); -ENOENT (not the beginning of a live block on which
 * this client has a reference, or not mapped in this process); -ENODEV.
 */
int devpool_free(struct devpool *dev, void *ptr) DEVPOOL_MUST_CHECK;

/**
 * devpool_record() - a stream uses a block
 * @dev: the client, which has a reference on the block
 * @ptr: a pointer into the block, wherever in it
 * @stream: the stream, see devpool_stream_create()
 *
 * For other streams than the one that the block was allocated on. Once the block is
 * freed it is pending until all that was submitted to @stream by then is done.
 * Stream 0, the block's own stream and one that is recorded already change nothing.
 *
 * Return: 0; -EINVAL (NULL); -ENOENT (not in a live block on which this client has
 * a reference, not mapped in this process, or a stream that it does not have);
 * -ENODEV; -ENOMEM.
 */
int devpool_record(struct devpool *dev, const void *ptr, uint32_t stream) DEVPOOL_MUST_CHECK;

/**
 * devpool_batch() - runs many operations
 * @dev: the client
 * @ops: the operations, see &struct devpool_batch_op; what came of each is in its
 *	@out_err, and of an ALLOC in @out_addr and @out_bytes
 * @count: how many
 *
 * In as few calls as the kernel allows, one operation after the other; one that fails
 * stops no other. Blocks are named by their addresses and are not mapped: see
 * devpool_ptr().
 *
 * Return: how many were run, all of them unless one could not be read or answered; if
 * none was: -EINVAL (NULL, a @count of 0 or above INT_MAX); -EFAULT; -ENOTTY (a kernel
 * that knows no BATCH); -ENODEV; -EPROTO (an answer that makes no sense).
 */
int devpool_batch(struct devpool *dev, struct devpool_batch_op *ops,
		  unsigned int count) DEVPOOL_MUST_CHECK;

/**
 * devpool_retain() - a reference on a block that another client has allocated
 * @dev: the client
 * @addr: the block's address, as the other client's devpool_addr() tells it
 *
 * The client has to know the pool: see devpool_pool_attach(). Where the block is
 * mapped in this process is devpool_ptr()'s to say. The reference is given up by
 * devpool_free(), or with the client.
 *
 * Return: 0; -EINVAL (NULL); -ENOENT (not the address of a live block of a pool
 * that the client knows); -EBUSY (it has a reference, as it has on what it
 * allocated); -EDQUOT (too many blocks); -ENODEV; -ENOMEM.
 */
int devpool_retain(struct devpool *dev, uint64_t addr) DEVPOOL_MUST_CHECK;

/**
 * devpool_addr() - the address of mapped memory
 * @dev: the client
 * @ptr: a pointer into memory that the library has mapped
 * @addr: the address in the device, by which the block is known to the kernel
 *	and to other processes
 *
 * Return: 0; -EINVAL; -ENOENT (@ptr is not in what the library has mapped).
 */
int devpool_addr(struct devpool *dev, const void *ptr, uint64_t *addr) DEVPOOL_MUST_CHECK;

/**
 * devpool_ptr() - mapped memory at an address
 * @dev: the client
 * @addr: an address in a block of a pool that the client knows
 * @ptr: where it is mapped
 *
 * For blocks that came otherwise than by devpool_alloc(), or before a fork:
 * maps them if they are not mapped yet. All of the block's memory follows @ptr.
 * That there is a block is not looked at: where there is none, touching is
 * SIGBUS. Without a reference of its own on the block the client has no say in
 * how long it stays there.
 *
 * Return: 0; -EINVAL; -ENOENT (not in a pool that the client knows); -ENODEV;
 * -ENOMEM; -EOVERFLOW (a 32-bit program, whose mmap(2) does not reach that far).
 */
int devpool_ptr(struct devpool *dev, uint64_t addr, void **ptr) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_create() - a new private pool
 * @dev: the client that it belongs to, which must outlive @pool
 * @opts: options, or NULL
 * @pool: the pool. The caller owns it and ends it by devpool_pool_close()
 *
 * Return: 0; -EINVAL; -E2BIG or -EOPNOTSUPP (an option that is not known);
 * -ENOENT (an id that this client has not minted); -EBUSY (the id's pool
 * exists); -EDQUOT (too many pools); -EMFILE; -ENFILE; -ENOSPC; -ENODEV;
 * -ENOMEM; -EPROTO (an answer that makes no sense).
 */
int devpool_pool_create(struct devpool *dev, const struct devpool_pool_opts *opts,
			struct devpool_pool **pool) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_attach() - a pool that came as a pool file
 * @dev: the client that is to know the pool; NULL for a new client of the pool's
 *	own device
 * @fd: a descriptor of the pool file, by SCM_RIGHTS or inherited. It stays the
 *	caller's, who may close it: the library keeps a duplicate
 * @pool: the pool. The caller owns it and ends it by devpool_pool_close()
 *
 * The client gets a reference on the pool, so the pool is there for it even when
 * its creator releases the pool file or dies. It may be attached more than once,
 * and by the client that has created it.
 *
 * Without @dev the library opens /dev/devpoolN, with the N of the pool's device.
 * That client belongs to the pool: devpool_pool_device() tells it, it is not to
 * be closed by devpool_close(), and devpool_pool_close() ends it with all its
 * blocks.
 *
 * Return: 0; -EINVAL (NULL; a pool of another device than @dev); -EBADF (not a
 * pool file); -ENOENT (the pool file was released); -EDQUOT (too many
 * references); -EMFILE; -ENODEV; -ENOMEM; -EPROTO (an answer that makes no
 * sense); without @dev what devpool_open() says of the node.
 */
int devpool_pool_attach(struct devpool *dev, int fd,
			struct devpool_pool **pool) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_close() - gives the pool up, and its cache back
 * @pool: the pool. It is gone for the caller whatever is returned, but for
 *	-EINVAL
 * @timeout: until when to wait for streams that still use memory of the pool which
 *	is to go back, a point on CLOCK_MONOTONIC in ns; 0 does not wait, INT64_MAX
 *	waits for ever. Of no effect on a pool that was attached
 * @result: what was given back, and what is still in use
 *
 * If nobody else refers to the pool, exactly its cache returns to the device
 * before this returns. Blocks that are still live stay good until they are
 * freed, and their memory returns then. What a stream still uses at @timeout
 * (@pending) returns when that is over.
 *
 * A pool that was created here: the pool file is released, not just closed, and
 * for whoever else has it, by dup(2), fork or SCM_RIGHTS, it is a file without a
 * pool from then on. Who has attached the pool keeps it. @result is of the same
 * instant.
 *
 * A pool that was attached: one reference of the client's is dropped and the
 * duplicate of the pool file is closed, which for the others stays what it is.
 * @result says what there was just before:
 *
 * - DEVPOOL_STATE_LIVE: others refer to the pool. Nothing went back (@freed 0).
 * - DEVPOOL_STATE_GONE: nobody did, and no block was in use. All that the pool
 *   had went back (@freed).
 * - DEVPOOL_STATE_FREEABLE: nobody did, but blocks were in use (@live, @pending).
 *   What these do not need of @kept went back, uncounted (@freed 0).
 *
 * With a client that was opened for the pool, its blocks are freed after that.
 *
 * Threads: must be the last call on @pool.
 *
 * Return: 0; -EINVAL (a NULL argument: nothing was done); -ENOENT (the pool file
 * was released already, or, of an attached pool, the client's reference was
 * dropped); -ENODEV.
 */
int devpool_pool_close(struct devpool_pool *pool, int64_t timeout,
		       struct devpool_result *result) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_fd() - the pool file, for ioctl(2) and for other processes
 * @pool: the pool, which goes on owning the descriptor
 *
 * Of a pool that was attached this is a duplicate. It is a file without a pool
 * once the creator has closed the pool; what takes @pool itself goes on working.
 *
 * Return: the descriptor, or -EINVAL.
 */
int devpool_pool_fd(const struct devpool_pool *pool) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_id() - the name of a pool, as options and commands take it
 * @pool: the pool
 *
 * Return: the id; {0,0} for NULL.
 */
struct devpool_pool_id devpool_pool_id(const struct devpool_pool *pool) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_device() - the client that a pool was created or attached with
 * @pool: the pool
 *
 * Return: the client, still its owner's (that is @pool if devpool_pool_attach() was
 * given none); NULL for NULL.
 */
struct devpool *devpool_pool_device(const struct devpool_pool *pool) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_id_new() - mints an id, for a pool that is to be created
 * @dev: the client
 * @flags: bits of &enum devpool_pool_id_flags
 * @id: the id, whose number is larger than that of any id that this client has
 *	minted before
 *
 * Holds nothing. devpool_pool_create() makes its pool, with a pool file, or
 * devpool_pool_get(), without one.
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP (a flag that is not known); -ENOSPC (ids are
 * used up); -ENODEV; -EPROTO (an answer that makes no sense).
 */
int devpool_pool_id_new(struct devpool *dev, uint32_t flags,
			struct devpool_pool_id *id) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_get() - a reference on a pool, by its id
 * @dev: the client, which has the reference until devpool_pool_put() or its end
 * @id: an id that this client has minted, whose pool is created if there is none,
 *	or that of a pool that it knows
 *
 * A pool that nothing referred to is live again, with what it has cached.
 *
 * Return: 0; -EINVAL (NULL, {0,0}); -ENOENT (an id that the client does not
 * know); -EDQUOT (too many pools or references); -ENODEV; -ENOMEM.
 */
int devpool_pool_get(struct devpool *dev, const struct devpool_pool_id *id) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_put() - drops a reference that devpool_pool_get() has got
 * @dev: the client
 * @id: the pool's id
 *
 * The references of pools that were attached count among these. With the last of
 * all references the cache returns to the device if the pool has had a pool file;
 * else the pool keeps it until devpool_empty_cache(), until memory is short, or
 * until the client's end. Blocks stay good until they are freed.
 *
 * Return: 0; -EINVAL (NULL, {0,0}); -ENOENT (a pool that the client does not
 * know, or on which it has no such reference); -ENODEV.
 */
int devpool_pool_put(struct devpool *dev, const struct devpool_pool_id *id) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_set() - sets an attribute of a pool
 * @pool: the pool
 * @attr: one of &enum devpool_attr
 * @value: its value; takes effect at once
 *
 * Return: 0; -EINVAL (NULL, or a value that is none); -EOPNOTSUPP (an attribute
 * that is not known); -ENOENT (the pool file was released, or, of an attached
 * pool, the client does not know the pool any more); -ENODEV.
 */
int devpool_pool_set(struct devpool_pool *pool, uint32_t attr,
		     uint64_t value) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_attr() - an attribute of a pool
 * @pool: the pool
 * @attr: one of &enum devpool_attr
 * @value: what it is now
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP (an attribute that is not known); -ENOENT (as
 * for devpool_pool_set()); -ENODEV.
 */
int devpool_pool_attr(struct devpool_pool *pool, uint32_t attr,
		      uint64_t *value) DEVPOOL_MUST_CHECK;

/**
 * devpool_route_begin() - leads requests that name no pool to a pool
 * @pool: the pool
 * @scope: which requests of the pool's client: DEVPOOL_SCOPE_THREAD, those of the
 *	calling thread, DEVPOOL_SCOPE_STREAM, those on a stream, or DEVPOOL_SCOPE_ALL
 * @stream: with DEVPOOL_SCOPE_STREAM the stream, 0 for requests on none; otherwise 0
 *
 * devpool_alloc() without options, or with {0,0} for the pool, takes the block
 * from @pool from now on. Of several routes that match the latest counts. The
 * route has a reference of its own on the pool until devpool_route_end(), until
 * the client's end, the thread's or the stream's: it outlasts devpool_pool_close().
 *
 * Return: 0; -EINVAL (NULL, a stream with another scope); -EOPNOTSUPP (a scope
 * that is not known); -EBUSY (there is this route already); -ENOENT (the client
 * does not know the pool any more, or does not have the stream); -EDQUOT (too many
 * routes or references); -ENODEV; -ENOMEM.
 */
int devpool_route_begin(struct devpool_pool *pool, uint32_t scope,
			uint32_t stream) DEVPOOL_MUST_CHECK;

/**
 * devpool_route_end() - ends a route
 * @pool: as it was given to devpool_route_begin()
 * @scope: as well; of the calling thread, if it is DEVPOOL_SCOPE_THREAD
 * @stream: as well
 *
 * Return: 0; -EINVAL (NULL, a stream with another scope); -EOPNOTSUPP (a scope
 * that is not known); -ENOENT (there is no such route); -ENODEV.
 */
int devpool_route_end(struct devpool_pool *pool, uint32_t scope,
		      uint32_t stream) DEVPOOL_MUST_CHECK;

/**
 * devpool_stream_create() - a new line of work that uses memory
 * @dev: the client, which has the stream until devpool_stream_destroy() or its end
 * @flags: bits of &enum devpool_stream_flags
 * @stream: its number, which options and calls take. Never 0, which is the host
 *
 * With DEVPOOL_STREAM_FENCED the fences of drivers say what is done, which come
 * with devpool_stream_submit(). Without, the program says it, by
 * devpool_stream_signal().
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP (a flag that is not known); -EDQUOT (too many
 * streams); -ENODEV; -ENOMEM; -EPROTO (an answer that makes no sense).
 */
int devpool_stream_create(struct devpool *dev, uint32_t flags,
			  uint32_t *stream) DEVPOOL_MUST_CHECK;

/**
 * devpool_stream_destroy() - ends a stream
 * @dev: the client
 * @stream: the stream
 *
 * Ends the routes that are for its requests. All that was submitted to a stream
 * without DEVPOOL_STREAM_FENCED is done by that. What was submitted with a fence
 * goes on protecting memory until the fence says so. Blocks that were allocated on
 * the stream stay as they are.
 *
 * Return: 0; -EINVAL (NULL); -ENOENT (a stream that the client does not have; 0);
 * -ENODEV.
 */
int devpool_stream_destroy(struct devpool *dev, uint32_t stream) DEVPOOL_MUST_CHECK;

/**
 * devpool_stream_submit() - more work on a stream
 * @dev: the client
 * @stream: the stream
 * @in_fence: what says when the work is done: a descriptor of a sync_file of any
 *	driver, which stays the caller's; -1 for none. A stream that is
 *	DEVPOOL_STREAM_FENCED needs one, others take none
 * @point: the number that the work has on the stream. The first one is 1
 * @out_fence: a new sync_file that says when this work and all before it on the
 *	stream is done, close-on-exec and the caller's to close; NULL if that is not
 *	wanted. Only a stream that is DEVPOOL_STREAM_FENCED can have it
 *
 * Memory that is freed from now on is protected until the work is done, if it was
 * allocated on the stream or recorded for it.
 *
 * Return: 0; -EINVAL (NULL; a fence for a stream that takes none, none for one that
 * needs it); -EOPNOTSUPP (@out_fence of a stream that cannot have it); -EBADF (not
 * a sync_file); -ENOENT (a stream that the client does not have; 0); -EDQUOT (too
 * much that is not done yet); -EMFILE; -ENFILE; -ENODEV; -ENOMEM; -EPROTO (an
 * answer that makes no sense).
 */
int devpool_stream_submit(struct devpool *dev, uint32_t stream, int in_fence, uint64_t *point,
			  int *out_fence) DEVPOOL_MUST_CHECK;

/**
 * devpool_stream_signal() - work on a stream is done
 * @dev: the client
 * @stream: the stream, one without DEVPOOL_STREAM_FENCED
 * @point: the number of the work. All before it is done too
 *
 * What this alone has protected is cached when this returns, or is back in the
 * device.
 *
 * Return: 0; -EINVAL (NULL; work that was not submitted or is done already; a
 * stream that is DEVPOOL_STREAM_FENCED); -ENOENT (a stream that the client does not
 * have; 0); -ENODEV.
 */
int devpool_stream_signal(struct devpool *dev, uint32_t stream,
			  uint64_t point) DEVPOOL_MUST_CHECK;

/**
 * devpool_export() - the dma-buf of a block
 * @dev: the client
 * @ptr: what devpool_alloc() or devpool_ptr() returned, of a block on which this
 *	client has a reference, and which begins and ends on a page: whatever is larger
 *	than 1 MiB does, anything else with DEVPOOL_ALLOC_EXPORTABLE
 * @flags: O_RDONLY, O_WRONLY or O_RDWR, and O_CLOEXEC or not
 *
 * For drivers and for processes that know nothing of devpool. The block stays where it
 * is while anybody has its dma-buf, even if it is freed and @dev is closed meanwhile.
 * A block has one dma-buf at a time; if there is one, the descriptor is of that.
 *
 * Return: a new descriptor, the caller's to close; -EINVAL (NULL, a block that does
 * not begin and end on a page, no access mode); -ENOENT (no block of this client's);
 * -EOPNOTSUPP (other flags; a device without memory); -EBUSY (the dma-buf that there
 * is has another access mode); -EMFILE; -ENFILE; -ENODEV; -ENOMEM; -EPROTO (an answer
 * that makes no sense).
 */
int devpool_export(struct devpool *dev, const void *ptr, int flags) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_trim() - gives back a pool's cache, the pool stays
 * @pool: the pool
 * @keep: resident bytes at which to stop
 * @result: what was given back, and what stands
 *
 * Live blocks stay where they are. Does not wait for streams: what they still use
 * stays too. What is cached is the pool's, whoever uses it: so it is given back for
 * all who have attached it.
 *
 * Return: 0; -EINVAL; -ENOENT (as for devpool_pool_set()); -ENODEV.
 */
int devpool_pool_trim(struct devpool_pool *pool, uint64_t keep,
		      struct devpool_result *result) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_stat() - the counters of a pool, of one instant
 * @pool: the pool
 * @stat: filled in: of the whole pool, whoever uses it
 *
 * Return: 0; -EINVAL; -ENOENT (as for devpool_pool_set()); -ENODEV.
 */
int devpool_pool_stat(struct devpool_pool *pool,
		      struct devpool_pool_stat *stat) DEVPOOL_MUST_CHECK;

/**
 * devpool_empty_cache() - gives back what is cached and not held
 * @dev: the client
 * @id: a pool that the client knows; NULL or {0,0} for the client's default
 *	pool and all pools that it knows and nobody refers to any more
 * @timeout: until when to wait for streams that still use memory of these pools
 *	which is to go back, a point on CLOCK_MONOTONIC in ns; 0 does not wait,
 *	INT64_MAX waits for ever
 * @result: what was given back, and what stands
 *
 * A named pool that is still referred to keeps its cache: devpool_pool_trim()
 * is for that.
 *
 * Return: 0, -EINVAL, -ENOENT (no pool of this client's) or -ENODEV.
 */
int devpool_empty_cache(struct devpool *dev, const struct devpool_pool_id *id, int64_t timeout,
			struct devpool_result *result) DEVPOOL_MUST_CHECK;

/**
 * devpool_stats() - the counters of a client, or of a device
 * @dev: the client
 * @flags: 0 for the client's default pool and the pools that it created;
 *	DEVPOOL_STATS_DEVICE for all pools of the device
 * @stats: filled in
 *
 * Return: 0; -EINVAL; -EOPNOTSUPP (a flag that is not known); -EPERM (the device's
 * without CAP_SYS_ADMIN); -ENODEV.
 */
int devpool_stats(struct devpool *dev, uint32_t flags,
		  struct devpool_stats *stats) DEVPOOL_MUST_CHECK;

/**
 * devpool_snapshot() - every block, by its pool, size and state
 * @dev: the client
 * @id: a pool that the client knows; NULL or {0,0} for all of them, its default
 *	pool included
 * @callback: called for each block, in the order of their addresses
 * @arg: passed to @callback
 *
 * Blocks are told in portions of up to 16384, and what one portion tells of a pool
 * is of one instant. A block that is there all the time is told exactly once,
 * unless it is split or joined meanwhile. Those of all clients are told by the
 * command alone: ioctl(2) on devpool_fd() with DEVPOOL_SNAPSHOT_DEVICE.
 *
 * Return: 0; what @callback returned; -EINVAL; -ENOENT (a pool that the client
 * does not know); -ENODEV; -ENOMEM; -EPROTO (an answer that makes no sense). A
 * failure can come after some blocks were told.
 */
int devpool_snapshot(struct devpool *dev, const struct devpool_pool_id *id,
		     devpool_snapshot_fn *callback, void *arg) DEVPOOL_MUST_CHECK;

#pragma GCC visibility pop

static inline void devpool_auto_close(struct devpool **dev)
{
	devpool_close(*dev);
}

static inline void devpool_auto_pool_close(struct devpool_pool **pool)
{
	struct devpool_result result;

	if (*pool && devpool_pool_close(*pool, 0, &result))
		*pool = NULL;
}

/**
 * DEVPOOL_AUTO - closes a client where its variable's scope is left
 *
 * In front of the variable, which must be initialised::
 *
 *	DEVPOOL_AUTO struct devpool *dev = NULL;
 */
#define DEVPOOL_AUTO __attribute__((cleanup(devpool_auto_close)))

/**
 * DEVPOOL_POOL_AUTO - closes a pool where its variable's scope is left
 *
 * Like DEVPOOL_AUTO; does not wait for streams. Variables end in the reverse of
 * their order, so a pool is declared behind its device.
 */
#define DEVPOOL_POOL_AUTO __attribute__((cleanup(devpool_auto_pool_close)))

#ifdef __cplusplus
}
#endif

#endif
