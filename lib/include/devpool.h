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
 * devpool_close() of its device.
 *
 * Pointers. A block's memory is mapped when the block is handed out, and a
 * pointer to it is good until the block is freed. The library maps whole
 * surroundings of blocks and keeps them: those of a pool until the pool is
 * closed and gone, the others until devpool_close(). A pointer that is used
 * after that is a fault (SIGBUS or SIGSEGV), never a view of someone else's
 * memory. On a device without memory (no DEVPOOL_FEATURE_MMAP) a pointer is
 * only a name: touching it is SIGBUS.
 *
 * Threads. All functions may be called at once from any number of threads, on
 * the same objects too; only the call that closes an object must be the last
 * one upon it. None of them is for signal handlers.
 *
 * Signals. No call ends early with -EINTR: timeouts are points in time, so an
 * interrupted command is started again.
 *
 * Fork. Mappings do not pass to a forked child, the client does. In the child
 * the library notices by itself and maps anew what is asked for: addresses
 * (devpool_addr(), before the fork) are good there, pointers of the parent are
 * not, and devpool_ptr() turns the one into the other. Parent and child then
 * share one client; what one frees is freed for both, and it lives until both
 * have closed it.
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

/** struct devpool_pool - a private pool, held by its pool file. Opaque. */
struct devpool_pool;

/**
 * struct devpool_alloc_opts - how a block is to be
 * @sz: sizeof(struct devpool_alloc_opts)
 * @align: alignment of the block's address, a power of two up to the chunk
 *	size of the device; 0 for none beyond the granule
 * @pool: the pool to take it from, see devpool_pool_id(); {0,0} is the client's
 *	default pool
 * @timeout: until when to wait for memory that is still in use: a point on
 *	CLOCK_MONOTONIC in ns; 0 does not wait, INT64_MAX waits for ever
 * @stream: the stream that will use it; 0 is the host
 * @flags: must be 0
 *
 * Without options the block comes from the default pool and the request waits
 * up to 10 seconds.
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
 * @limit: must be 0
 * @reserve: must be 0
 * @release_threshold: must be 0
 * @flags: must be 0
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
 * @pending: of blocks in them that hardware still uses
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
 * stream); -ENOSPC; -EDQUOT; -EAGAIN; -ETIME; -ENODEV; -ENOMEM (in the kernel,
 * or no room in this process's address space); -EPROTO (an answer that makes no
 * sense).
 */
int devpool_alloc(struct devpool *dev, size_t bytes, const struct devpool_alloc_opts *opts,
		  void **ptr) DEVPOOL_MUST_CHECK;

/**
 * devpool_free() - gives a block back to its pool
 * @dev: the client that owns the block
 * @ptr: what devpool_alloc() gave, or devpool_ptr() for the block's address
 *
 * Return: 0; -EINVAL (NULL); -ENOENT (not the beginning of a live block of this
 * client, or not mapped in this process); -ENODEV.
 */
int devpool_free(struct devpool *dev, void *ptr) DEVPOOL_MUST_CHECK;

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
 * maps them if they are not mapped yet, and keeps that mapping until
 * devpool_close(). All of the block's memory follows @ptr. That there is a
 * block is not looked at: where there is none, touching is SIGBUS.
 *
 * Return: 0; -EINVAL; -ENODEV; -ENOMEM; what mmap(2) says of an address that is
 * not in a pool of this client's.
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
 * devpool_pool_close() - gives the pool up, and its cache back
 * @pool: the pool. It is gone for the caller whatever is returned, but for
 *	-EINVAL
 * @timeout: until when to wait for its fences, a point on CLOCK_MONOTONIC in ns;
 *	0 does not wait, INT64_MAX waits for ever
 * @result: what was given back, and what is still in use
 *
 * If nobody else refers to the pool, exactly its cache returns to the device
 * before this returns. Blocks that are still live stay good until they are
 * freed, and their memory returns then.
 *
 * The pool file is released, not just closed here: for whoever else has it, by
 * dup(2), fork or SCM_RIGHTS, it is a file without a pool from then on.
 *
 * Threads: must be the last call on @pool.
 *
 * Return: 0; -EINVAL (a NULL argument: nothing was done); -ENOENT (someone has
 * released the pool file already); -ENODEV.
 */
int devpool_pool_close(struct devpool_pool *pool, int64_t timeout,
		       struct devpool_result *result) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_fd() - the pool file, for ioctl(2) and for other processes
 * @pool: the pool, which goes on owning the descriptor
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
 * devpool_pool_device() - the client that a pool was made with
 * @pool: the pool
 *
 * Return: the client, still its owner's; NULL for NULL.
 */
struct devpool *devpool_pool_device(const struct devpool_pool *pool) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_trim() - gives back a pool's cache, the pool stays
 * @pool: the pool
 * @keep: resident bytes at which to stop
 * @result: what was given back, and what stands
 *
 * Live blocks stay where they are. Does not wait for fences.
 *
 * Return: 0, -EINVAL, -ENOENT (the pool file was released) or -ENODEV.
 */
int devpool_pool_trim(struct devpool_pool *pool, uint64_t keep,
		      struct devpool_result *result) DEVPOOL_MUST_CHECK;

/**
 * devpool_pool_stat() - the counters of a pool, of one instant
 * @pool: the pool
 * @stat: filled in
 *
 * Return: 0, -EINVAL, -ENOENT (the pool file was released) or -ENODEV.
 */
int devpool_pool_stat(struct devpool_pool *pool,
		      struct devpool_pool_stat *stat) DEVPOOL_MUST_CHECK;

/**
 * devpool_empty_cache() - gives back what is cached and not held
 * @dev: the client
 * @id: a pool that the client knows; NULL or {0,0} for the client's default
 *	pool and all pools that it knows and nobody refers to any more
 * @timeout: until when to wait for fences of these pools, a point on
 *	CLOCK_MONOTONIC in ns; 0 does not wait, INT64_MAX waits for ever
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
 * devpool_stats() - the counters of a client, over all its pools
 * @dev: the client
 * @flags: must be 0
 * @stats: filled in
 *
 * Return: 0, -EINVAL, -EOPNOTSUPP (a flag that is not known) or -ENODEV.
 */
int devpool_stats(struct devpool *dev, uint32_t flags,
		  struct devpool_stats *stats) DEVPOOL_MUST_CHECK;

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
 * Like DEVPOOL_AUTO; does not wait for fences. Variables end in the reverse of
 * their order, so a pool is declared behind its device.
 */
#define DEVPOOL_POOL_AUTO __attribute__((cleanup(devpool_auto_pool_close)))

#ifdef __cplusplus
}
#endif

#endif
