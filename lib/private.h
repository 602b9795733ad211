/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef DEVPOOL_PRIVATE_H
#define DEVPOOL_PRIVATE_H

#include <devpool.h>
#include <pthread.h>
#include <stdbool.h>

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, v)	__atomic_store_n(&(x), v, __ATOMIC_RELAXED)
#define load_acquire(x)		__atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define store_release(x, v)	__atomic_store_n(&(x), v, __ATOMIC_RELEASE)

struct devpool_table;

/* A place in a list, or a list: a ring, alone if it points to itself. */
struct devpool_link {
	struct devpool_link *next;
	struct devpool_link *prev;
};

/**
 * struct devpool_once - what a forked child must find as new
 * @lock: serialises whoever changes what is mapped. Found zero it is unlocked:
 *	PTHREAD_MUTEX_INITIALIZER is zeros on every C library of Linux
 * @alive: 0 in a child that has not noticed yet
 *
 * A page of its own, which the kernel wipes at fork. So a child is told by one
 * load, and finds the lock free whoever held it in the parent.
 */
struct devpool_once {
	pthread_mutex_t lock;
	uint32_t alive;
};

/**
 * struct devpool - a client
 * @fd: the device file
 * @max_batch: most operations of one BATCH, as INFO says; 0 if it knows none
 * @unit: spans begin and end on multiples of this
 * @once: see there
 * @seq: odd while the tables are being changed. Readers take no lock: what they
 *	find counts if this has not moved meanwhile
 * @by_addr: finds a span by device address
 * @by_ptr: finds a span by pointer
 * @owners: finds a pool's spans by the pool's id
 * @loose: spans whose pool the client may not know any more
 * @unused: span structs to use again. They are never given back before the
 *	close, since a reader may still look at one
 * @hint: lowest address of the last span; the next is tried below it
 * @mapped: bytes of all spans
 * @busy: someone held the lock: in a child, the rest may be half changed
 *
 * All from @seq on is changed under @once->lock only.
 */
struct devpool {
	int fd;
	uint32_t max_batch;
	uint64_t unit;
	struct devpool_once *once;
	uint32_t seq;
	bool busy;
	struct devpool_table *by_addr;
	struct devpool_table *by_ptr;
	struct devpool_table *owners;
	struct devpool_link loose;
	struct devpool_link unused;
	uintptr_t hint;
	uint64_t mapped;
};

/**
 * struct devpool_pool - a pool
 * @dev: the client, which outlives it
 * @fd: the pool file, owned
 * @id: its id
 * @attached: the client has a reference for this object, and the pool file is not
 *	this object's to release
 * @owns_dev: the client was opened for this object and ends with it
 */
struct devpool_pool {
	struct devpool *dev;
	int fd;
	struct devpool_pool_id id;
	bool attached;
	bool owns_dev;
};

int devpool_ioctl(int fd, unsigned long request, void *arg);

/* The one way into the kernel: with size filled in. */
#define devpool_call(fd, name, cmd) \
	((cmd)->size = sizeof(*(cmd)), devpool_ioctl(fd, DEVPOOL_IOC_ ## name, cmd))

int devpool_check_tail(const void *opts, size_t sz, size_t known);

static inline int devpool_check_opts(const void *opts, size_t sz, size_t known)
{
	return likely(sz == known) ? 0 : devpool_check_tail(opts, sz, known);
}

int devpool_get_info(int fd, struct devpool_info *info);
int devpool_empty(int fd, struct devpool_empty_cache *cmd, struct devpool_result *result);

int devpool_map_init(struct devpool *dev);
void devpool_map_exit(struct devpool *dev);
bool devpool_map_by_addr(struct devpool *dev, uint64_t addr, uint64_t bytes, void **ptr);
bool devpool_map_by_ptr(struct devpool *dev, const void *ptr, uint64_t *addr);
int devpool_map_add(struct devpool *dev, uint64_t addr, uint64_t bytes,
		    const struct devpool_pool_id *pool, void **ptr);
void devpool_map_loosen(struct devpool *dev, const struct devpool_pool_id *id);
void devpool_map_close_pool(struct devpool *dev, const struct devpool_pool_id *id);

#endif
