/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests share. Each command comes in three spellings:
 *
 *	devpool_xxx_raw(fd, ...)	0 or -errno, as the kernel answered
 *	test_xxx(fd, ...)		asserts that it works
 *	test_err_xxx(errno, fd, ...)	expects this errno
 *
 * All go straight to ioctl(2): the library has tests of its own. Every output
 * is poisoned before the call. Each test runs in a process of its own, and all
 * that it holds in the kernel goes when that exits.
 */
#ifndef DEVPOOL_TEST_H
#define DEVPOOL_TEST_H

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/devpool.h>
#include <linux/dma-heap.h>

/* How many times longer things may take here: debug kernels are slow. */
static inline unsigned int test_slow(void)
{
	const char *text = getenv("DEVPOOL_SLOW");

	return text ? atoi(text) : 1;
}

/* How often something is done that stock kernels do so many times */
static inline unsigned int test_times(unsigned int times)
{
	return (times + test_slow() - 1) / test_slow();
}

/* So is the harness's timeout for a test. */
#define alarm(seconds) alarm((seconds) * test_slow())
#include "kselftest_harness.h"
#undef alarm

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define TIB (1ULL << 40)

#define POISON_BYTE 0xa5
#define POISON 0xa5a5a5a5a5a5a5a5ULL

#define DEVPOOL_NODES 16

#ifndef offsetofend
#define offsetofend(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
#endif

static const struct devpool_pool_id default_pool;

static inline __u64 round_to(__u64 x, __u64 unit)
{
	return (x + unit - 1) / unit * unit;
}

/* Nodes and what sysfs says of them */

static inline int devpool_open_node_flags(int index, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/devpool%d", index);
	return open(path, flags);
}

static inline int devpool_open_node(int index)
{
	return devpool_open_node_flags(index, O_RDWR | O_CLOEXEC);
}

/* A number in sysfs, -1 if it is not there. */
static inline long long devpool_sysfs(int index, const char *name)
{
	long long value;
	char path[80];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "/sys/class/devpool/devpool%d/%s", index, name);
	f = fopen(path, "re");
	if (!f)
		return -1;
	n = fscanf(f, "%lld", &value);
	fclose(f);
	return n == 1 ? value : -1;
}

/* What the device's heap and its stock keep goes back. */
static inline int test_trim(int index)
{
	char path[64];
	int fd, ret;

	snprintf(path, sizeof(path), "/sys/class/devpool/devpool%d/trim", index);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ret = write(fd, "0", 1);
	close(fd);
	return ret == 1 ? 0 : -EIO;
}

/* The device as a dma-heap */
static inline int test_open_heap(int index)
{
	char path[64];

	snprintf(path, sizeof(path), "/dev/dma_heap/devpool%d", index);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* A buffer of a heap, or -errno */
static inline int test_heap_alloc_raw(int heap, __u64 len)
{
	struct dma_heap_allocation_data data = {
		.len = len,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};

	return ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data) ? -errno : (int)data.fd;
}

/* A line of /proc/meminfo, in bytes; below 0 if there is none */
static inline long long test_meminfo(const char *name)
{
	long long kib = -1;
	char line[128];
	FILE *f;

	f = fopen("/proc/meminfo", "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			kib = strtoll(line + strlen(name) + 1, NULL, 10);
	fclose(f);
	return kib * 1024;
}

/* What a device owes to its clients: all 0 when there are none. */
struct test_base {
	long long used;
	long long clients;
	long long pools;
};

static inline struct test_base test_base(int index)
{
	return (struct test_base){
		.used = devpool_sysfs(index, "used"),
		.clients = devpool_sysfs(index, "clients"),
		.pools = devpool_sysfs(index, "pools"),
	};
}

#define EXPECT_BASE(base, index)						\
do {										\
	struct test_base _was = (base), _is = test_base(index);			\
										\
	EXPECT_EQ(_was.used, _is.used);						\
	EXPECT_EQ(_was.clients, _is.clients);					\
	EXPECT_EQ(_was.pools, _is.pools);					\
} while (0)

static inline __u64 test_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

/* Waits until the worker has zeroed or given back all that was dirty. */
static inline bool test_wait_clean(int index)
{
	int i;

	for (i = 0; i < 3000; i++) {
		if (!devpool_sysfs(index, "dirty"))
			return true;
		usleep(10000);
	}
	return false;
}

/*
 * Waits until nothing comes into a device's stock any more, and all of it is clean. The
 * chunk that is being zeroed is in neither number. Returns the stock in bytes.
 */
static inline long long test_settled_stock(int index)
{
	long long clean = -1, was;
	int same = 0;
	int i;

	for (i = 0; i < 3000 && same < 25; i++) {
		usleep(10000);
		was = clean;
		clean = devpool_sysfs(index, "clean");
		same = clean == was && !devpool_sysfs(index, "dirty") ? same + 1 : 0;
	}
	return clean;
}

static inline unsigned int test_env(const char *name, unsigned int otherwise)
{
	const char *s = getenv(name);

	return s && *s ? strtoul(s, NULL, 0) : otherwise;
}

/* xorshift64*: the same numbers wherever it runs */
static inline __u64 test_random(__u64 *state)
{
	__u64 x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * 0x2545f4914f6cdd1dULL;
}

/* DEVPOOL_SEED, or another one each time; printed, so that it can be set */
#define test_seed()								\
({										\
	unsigned int _seed = test_env("DEVPOOL_SEED", test_now() & 0x7fffffff);	\
										\
	TH_LOG("DEVPOOL_SEED=%u", _seed);					\
	(__u64)_seed << 17 | 0x9e37;						\
})

/* The commands */

static inline int devpool_raw(int fd, unsigned long cmd, void *arg)
{
	int ret = ioctl(fd, cmd, arg);

	return ret < 0 ? -errno : ret;
}

static inline int devpool_info_raw(int fd, struct devpool_info *info)
{
	memset(info, POISON_BYTE, sizeof(*info));
	info->size = sizeof(*info);
	info->flags = 0;
	return devpool_raw(fd, DEVPOOL_IOC_INFO, info);
}

static inline int devpool_alloc_align_raw(int fd, struct devpool_pool_id pool, __u64 bytes,
					  __u64 align, __u64 *addr, __u64 *got)
{
	struct devpool_alloc cmd = {
		.size = sizeof(cmd),
		.bytes = bytes,
		.align = align,
		.pool = pool,
		.out_addr = POISON,
		.out_bytes = POISON,
	};
	int ret = devpool_raw(fd, DEVPOOL_IOC_ALLOC, &cmd);

	*addr = cmd.out_addr;
	if (got)
		*got = cmd.out_bytes;
	return ret;
}

static inline int devpool_alloc_raw(int fd, struct devpool_pool_id pool, __u64 bytes,
				    __u64 *addr)
{
	return devpool_alloc_align_raw(fd, pool, bytes, 0, addr, NULL);
}

static inline int devpool_free_raw(int fd, __u64 addr)
{
	struct devpool_free cmd = { .size = sizeof(cmd), .addr = addr };

	return devpool_raw(fd, DEVPOOL_IOC_FREE, &cmd);
}

/* A pool of the id given, {0,0} for a new one, which is then in *pool. */
static inline int devpool_pool_create_raw(int fd, struct devpool_pool_id *pool, int *pool_fd)
{
	struct devpool_pool_create cmd = {
		.size = sizeof(cmd),
		.pool = *pool,
		.out_pool = { POISON, POISON },
		.out_fd = -1,
	};
	int ret = devpool_raw(fd, DEVPOOL_IOC_POOL_CREATE, &cmd);

	if (!ret)
		*pool = cmd.out_pool;
	*pool_fd = cmd.out_fd;
	return ret;
}

static inline int devpool_pool_stat_raw(int fd, struct devpool_pool_id pool,
					struct devpool_pool_stat *stat)
{
	memset(stat, POISON_BYTE, sizeof(*stat));
	stat->size = sizeof(*stat);
	stat->flags = 0;
	stat->pool = pool;
	return devpool_raw(fd, DEVPOOL_IOC_POOL_STAT, stat);
}

static inline int devpool_empty_cache_raw(int fd, struct devpool_pool_id pool, __u32 flags,
					  __u64 keep, struct devpool_empty_cache *cmd)
{
	memset(cmd, POISON_BYTE, sizeof(*cmd));
	cmd->size = sizeof(*cmd);
	cmd->flags = flags;
	cmd->pool = pool;
	cmd->timeout = 0;
	cmd->keep = keep;
	cmd->__reserved = 0;
	return devpool_raw(fd, DEVPOOL_IOC_EMPTY_CACHE, cmd);
}

static inline int devpool_stats_raw(int fd, struct devpool_stats *stats)
{
	memset(stats, POISON_BYTE, sizeof(*stats));
	stats->size = sizeof(*stats);
	stats->flags = 0;
	return devpool_raw(fd, DEVPOOL_IOC_STATS, stats);
}

#define test_open(index)							\
({										\
	int _fd = devpool_open_node(index);					\
										\
	ASSERT_LE(0, _fd)							\
		TH_LOG("/dev/devpool%d: %s", (int)(index), strerror(errno));	\
	_fd;									\
})

#define test_info(fd)								\
({										\
	struct devpool_info _info;						\
										\
	ASSERT_EQ(0, devpool_info_raw(fd, &_info));				\
	_info;									\
})

#define test_err_info(err, fd)							\
({										\
	struct devpool_info _info;						\
										\
	EXPECT_EQ(-(err), devpool_info_raw(fd, &_info));			\
})

/* The block's address */
#define test_alloc(fd, pool, bytes)						\
({										\
	__u64 _addr;								\
										\
	ASSERT_EQ(0, devpool_alloc_raw(fd, pool, bytes, &_addr));		\
	ASSERT_NE(0, _addr);							\
	ASSERT_NE(POISON, _addr);						\
	_addr;									\
})

#define test_alloc_align(fd, pool, bytes, align)				\
({										\
	__u64 _addr;								\
										\
	ASSERT_EQ(0, devpool_alloc_align_raw(fd, pool, bytes, align, &_addr,	\
					     NULL));				\
	ASSERT_NE(0, _addr);							\
	_addr;									\
})

#define test_err_alloc(err, fd, pool, bytes)					\
({										\
	__u64 _addr;								\
										\
	EXPECT_EQ(-(err), devpool_alloc_raw(fd, pool, bytes, &_addr));		\
	EXPECT_EQ(POISON, _addr);						\
})

#define test_free(fd, addr) ASSERT_EQ(0, devpool_free_raw(fd, addr))

#define test_err_free(err, fd, addr) EXPECT_EQ(-(err), devpool_free_raw(fd, addr))

/* The pool file; the id is in *pool. */
#define test_pool_create(fd, pool)						\
({										\
	int _pool_fd;								\
										\
	*(pool) = default_pool;							\
	ASSERT_EQ(0, devpool_pool_create_raw(fd, pool, &_pool_fd));		\
	ASSERT_LE(0, _pool_fd);							\
	_pool_fd;								\
})

#define test_err_pool_create(err, fd, id)					\
({										\
	struct devpool_pool_id _id = (id);					\
	int _pool_fd;								\
										\
	EXPECT_EQ(-(err), devpool_pool_create_raw(fd, &_id, &_pool_fd));	\
	EXPECT_EQ(-1, _pool_fd);						\
})

#define test_pool_stat(fd, pool)						\
({										\
	struct devpool_pool_stat _stat;						\
										\
	ASSERT_EQ(0, devpool_pool_stat_raw(fd, pool, &_stat));			\
	_stat;									\
})

#define test_err_pool_stat(err, fd, pool)					\
({										\
	struct devpool_pool_stat _stat;						\
										\
	EXPECT_EQ(-(err), devpool_pool_stat_raw(fd, pool, &_stat));		\
})

#define test_empty_cache(fd, pool, flags, keep)					\
({										\
	struct devpool_empty_cache _cmd;					\
										\
	ASSERT_EQ(0, devpool_empty_cache_raw(fd, pool, flags, keep, &_cmd));	\
	_cmd;									\
})

#define test_err_empty_cache(err, fd, pool, flags)				\
({										\
	struct devpool_empty_cache _cmd;					\
										\
	EXPECT_EQ(-(err), devpool_empty_cache_raw(fd, pool, flags, 0, &_cmd));	\
})

#define test_stats(fd)								\
({										\
	struct devpool_stats _stats;						\
										\
	ASSERT_EQ(0, devpool_stats_raw(fd, &_stats));				\
	_stats;									\
})

#define test_err_stats(err, fd)							\
({										\
	struct devpool_stats _stats;						\
										\
	EXPECT_EQ(-(err), devpool_stats_raw(fd, &_stats));			\
})

#define test_resident(fd, pool) (test_pool_stat(fd, pool).out_resident.current)

static inline size_t test_first_difference(const void *a, const void *b, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (((const char *)a)[i] != ((const char *)b)[i])
			break;
	return i;
}

/* Two states of one pool or client that must not differ in any byte */
#define EXPECT_SAME(a, b)							\
do {										\
	__typeof__(a) _a = (a);							\
	__typeof__(b) _b = (b);							\
										\
	EXPECT_EQ(0, memcmp(&_a, &_b, sizeof(_a)))				\
		TH_LOG("%s is not what it was: byte %zu", #a,			\
		       test_first_difference(&_a, &_b, sizeof(_a)));		\
} while (0)

/* Ids, references, routes, attached pools */

static inline bool test_is_id(struct devpool_pool_id a, struct devpool_pool_id b)
{
	return a.first == b.first && a.second == b.second;
}

static inline int devpool_pool_id_raw(int fd, __u32 flags, struct devpool_pool_id *pool)
{
	struct devpool_pool_id_new cmd = {
		.size = sizeof(cmd),
		.flags = flags,
		.out_pool = { POISON, POISON },
	};
	int ret = devpool_raw(fd, DEVPOOL_IOC_POOL_ID, &cmd);

	*pool = cmd.out_pool;
	return ret;
}

/* What all spellings of POOL_GET come down to: the answer is in *cmd. */
static inline int devpool_pool_get_any_raw(int fd, __u32 flags, struct devpool_pool_id pool,
					   int pool_fd, struct devpool_pool_get *cmd)
{
	memset(cmd, POISON_BYTE, sizeof(*cmd));
	cmd->size = sizeof(*cmd);
	cmd->flags = flags;
	cmd->pool = pool;
	cmd->fd = pool_fd;
	return devpool_raw(fd, DEVPOOL_IOC_POOL_GET, cmd);
}

/* By id: the use count, or an errno */
static inline int devpool_pool_get_raw(int fd, struct devpool_pool_id pool)
{
	struct devpool_pool_get cmd;
	int ret = devpool_pool_get_any_raw(fd, 0, pool, 0, &cmd);

	return ret ? ret : cmd.out_use_count;
}

/* By pool file: the use count, or an errno. The id is in *pool. */
static inline int devpool_pool_attach_raw(int fd, int pool_fd, struct devpool_pool_id *pool)
{
	struct devpool_pool_get cmd;
	int ret = devpool_pool_get_any_raw(fd, DEVPOOL_POOL_GET_FD, default_pool, pool_fd, &cmd);

	*pool = cmd.out_pool;
	return ret ? ret : cmd.out_use_count;
}

/* The references that are left, or an errno */
static inline int devpool_pool_put_raw(int fd, struct devpool_pool_id pool)
{
	struct devpool_pool_put cmd = {
		.size = sizeof(cmd),
		.pool = pool,
		.out_use_count = (__u32)POISON,
	};
	int ret = devpool_raw(fd, DEVPOOL_IOC_POOL_PUT, &cmd);

	return ret ? ret : cmd.out_use_count;
}

static inline int devpool_route_begin_raw(int fd, struct devpool_pool_id pool, __u32 scope)
{
	struct devpool_route_begin cmd = { .size = sizeof(cmd), .pool = pool, .scope = scope };

	return devpool_raw(fd, DEVPOOL_IOC_ROUTE_BEGIN, &cmd);
}

static inline int devpool_route_end_raw(int fd, struct devpool_pool_id pool, __u32 scope)
{
	struct devpool_route_end cmd = { .size = sizeof(cmd), .pool = pool, .scope = scope };

	return devpool_raw(fd, DEVPOOL_IOC_ROUTE_END, &cmd);
}

static inline int devpool_retain_raw(int fd, __u64 addr)
{
	struct devpool_retain cmd = { .size = sizeof(cmd), .addr = addr };

	return devpool_raw(fd, DEVPOOL_IOC_RETAIN, &cmd);
}

#define test_pool_id(fd, flags)							\
({										\
	struct devpool_pool_id _new;						\
										\
	ASSERT_EQ(0, devpool_pool_id_raw(fd, flags, &_new));			\
	ASSERT_NE(POISON, _new.first);						\
	ASSERT_NE(POISON, _new.second);						\
	_new;									\
})

#define test_err_pool_id(err, fd, flags)					\
({										\
	struct devpool_pool_id _new;						\
										\
	EXPECT_EQ(-(err), devpool_pool_id_raw(fd, flags, &_new));		\
	EXPECT_EQ(POISON, _new.first);						\
	EXPECT_EQ(POISON, _new.second);						\
})

/* The use count */
#define test_pool_get(fd, pool)							\
({										\
	const struct devpool_pool_id _wanted = (pool);				\
	struct devpool_pool_get _cmd;						\
										\
	ASSERT_EQ(0, devpool_pool_get_any_raw(fd, 0, _wanted, 0, &_cmd));	\
	EXPECT_TRUE(test_is_id(_wanted, _cmd.out_pool));			\
	_cmd.out_use_count;							\
})

/* Any call, such as no correct caller makes */
#define test_err_pool_get_any(err, fd, flags, pool, pool_fd)			\
({										\
	struct devpool_pool_get _cmd;						\
										\
	EXPECT_EQ(-(err), devpool_pool_get_any_raw(fd, flags, pool, pool_fd,	\
						   &_cmd));			\
	EXPECT_EQ((__u32)POISON, _cmd.out_use_count);				\
	EXPECT_EQ(POISON, _cmd.out_pool.first);					\
	EXPECT_EQ(POISON, _cmd.out_pool.second);				\
})

#define test_err_pool_get(err, fd, pool)					\
	test_err_pool_get_any(err, fd, 0, pool, 0)

/* The use count; the id is in *pool. */
#define test_pool_attach(fd, pool_fd, pool)					\
({										\
	int _count = devpool_pool_attach_raw(fd, pool_fd, pool);		\
										\
	ASSERT_LT(0, _count);							\
	_count;									\
})

#define test_err_pool_attach(err, fd, pool_fd)					\
	test_err_pool_get_any(err, fd, DEVPOOL_POOL_GET_FD, default_pool, pool_fd)

/* The references that are left */
#define test_pool_put(fd, pool)							\
({										\
	int _left = devpool_pool_put_raw(fd, pool);				\
										\
	ASSERT_LE(0, _left);							\
	_left;									\
})

#define test_err_pool_put(err, fd, pool)					\
	EXPECT_EQ(-(err), devpool_pool_put_raw(fd, pool))

#define test_route_begin(fd, pool, scope)					\
	ASSERT_EQ(0, devpool_route_begin_raw(fd, pool, scope))

#define test_err_route_begin(err, fd, pool, scope)				\
	EXPECT_EQ(-(err), devpool_route_begin_raw(fd, pool, scope))

#define test_route_end(fd, pool, scope)						\
	ASSERT_EQ(0, devpool_route_end_raw(fd, pool, scope))

#define test_err_route_end(err, fd, pool, scope)				\
	EXPECT_EQ(-(err), devpool_route_end_raw(fd, pool, scope))

#define test_retain(fd, addr) ASSERT_EQ(0, devpool_retain_raw(fd, addr))

#define test_err_retain(err, fd, addr) EXPECT_EQ(-(err), devpool_retain_raw(fd, addr))

#define test_use_count(fd, pool) (test_pool_stat(fd, pool).out_use_count)

/* Attributes, limits, options and snapshots */

static inline int devpool_pool_attr_raw(int fd, struct devpool_pool_id pool, __u32 flags,
					__u32 attr, __u64 value, __u64 *out)
{
	struct devpool_pool_attr cmd = {
		.size = sizeof(cmd),
		.flags = flags,
		.pool = pool,
		.attr = attr,
		.value = value,
		.out_value = POISON,
	};
	int ret = devpool_raw(fd, DEVPOOL_IOC_POOL_ATTR, &cmd);

	*out = cmd.out_value;
	return ret;
}

static inline int devpool_limit_raw(int fd, __u64 bytes)
{
	struct devpool_limit cmd = { .size = sizeof(cmd), .bytes = bytes };

	return devpool_raw(fd, DEVPOOL_IOC_LIMIT, &cmd);
}

/* What is asked for is in the struct; so is the answer. */
static inline int devpool_alloc_opts_raw(int fd, struct devpool_alloc *cmd)
{
	cmd->size = sizeof(*cmd);
	cmd->out_addr = POISON;
	cmd->out_bytes = POISON;
	return devpool_raw(fd, DEVPOOL_IOC_ALLOC, cmd);
}

/* Returns how many operations were run, or -errno. */
static inline int devpool_batch_raw(int fd, struct devpool_batch_op *ops, __u32 count)
{
	struct devpool_batch cmd = {
		.size = sizeof(cmd),
		.ops = (uintptr_t)ops,
		.count = count,
		.op_size = sizeof(*ops),
		.out_done = (__u32)POISON,
	};
	int ret = devpool_raw(fd, DEVPOOL_IOC_BATCH, &cmd);

	return ret ? ret : cmd.out_done;
}

static inline int devpool_pool_create_opts_raw(int fd, struct devpool_pool_create *cmd)
{
	cmd->size = sizeof(*cmd);
	cmd->out_pool = (struct devpool_pool_id){ POISON, POISON };
	cmd->out_fd = -1;
	return devpool_raw(fd, DEVPOOL_IOC_POOL_CREATE, cmd);
}

static inline int devpool_stats_flags_raw(int fd, __u32 flags, struct devpool_stats *stats)
{
	memset(stats, POISON_BYTE, sizeof(*stats));
	stats->size = sizeof(*stats);
	stats->flags = flags;
	return devpool_raw(fd, DEVPOOL_IOC_STATS, stats);
}

/* One call; the array is the caller's to poison. */
static inline int devpool_snapshot_raw(int fd, struct devpool_pool_id pool, __u32 flags,
				       __u64 cursor, void *array, __u32 count,
				       struct devpool_snapshot *cmd)
{
	*cmd = (struct devpool_snapshot){
		.size = sizeof(*cmd),
		.flags = flags,
		.pool = pool,
		.cursor = cursor,
		.array = (uintptr_t)array,
		.count = count,
		.out_count = (__u32)POISON,
		.out_cursor = POISON,
	};
	return devpool_raw(fd, DEVPOOL_IOC_SNAPSHOT, cmd);
}

/* All there is, at most so many with each call. Returns how many, or -errno. */
static inline int devpool_snapshot_all_raw(int fd, struct devpool_pool_id pool, __u32 flags,
					   struct devpool_snapshot_entry *entry, int room,
					   __u32 count)
{
	struct devpool_snapshot cmd = {};
	int n = 0;
	int ret;

	memset(entry, POISON_BYTE, room * sizeof(*entry));
	do {
		if (n == room)
			return -ENOBUFS;
		ret = devpool_snapshot_raw(fd, pool, flags, cmd.out_cursor, entry + n,
					   count < room - n ? count : room - n, &cmd);
		if (ret)
			return ret;
		if (cmd.out_count > cmd.count)
			return -EPROTO;
		n += cmd.out_count;
	} while (cmd.out_cursor);
	return n;
}

/* The value */
#define test_pool_get_attr(fd, pool, attr)					\
({										\
	__u64 _value;								\
										\
	ASSERT_EQ(0, devpool_pool_attr_raw(fd, pool, 0, attr, 0, &_value));	\
	_value;									\
})

/* The value that the attribute has then */
#define test_pool_set_attr(fd, pool, attr, to)					\
({										\
	__u64 _value;								\
										\
	ASSERT_EQ(0, devpool_pool_attr_raw(fd, pool, DEVPOOL_POOL_ATTR_SET,	\
					   attr, to, &_value));			\
	_value;									\
})

#define test_err_pool_attr(err, fd, pool, flags, attr, to)			\
({										\
	__u64 _value;								\
										\
	EXPECT_EQ(-(err), devpool_pool_attr_raw(fd, pool, flags, attr, to,	\
						&_value));			\
	EXPECT_EQ(POISON, _value);						\
})

#define test_limit(fd, bytes) ASSERT_EQ(0, devpool_limit_raw(fd, bytes))

#define test_err_limit(err, fd, bytes) EXPECT_EQ(-(err), devpool_limit_raw(fd, bytes))

/* The command with its answer; what is asked for as .member = value */
#define test_alloc_opts(fd, ...)						\
({										\
	struct devpool_alloc _cmd = { __VA_ARGS__ };				\
										\
	ASSERT_EQ(0, devpool_alloc_opts_raw(fd, &_cmd));			\
	ASSERT_NE(0, _cmd.out_addr);						\
	ASSERT_NE(POISON, _cmd.out_addr);					\
	_cmd;									\
})

#define test_err_alloc_opts(err, fd, ...)					\
({										\
	struct devpool_alloc _cmd = { __VA_ARGS__ };				\
										\
	EXPECT_EQ(-(err), devpool_alloc_opts_raw(fd, &_cmd));			\
	EXPECT_EQ(POISON, _cmd.out_addr);					\
	EXPECT_EQ(POISON, _cmd.out_bytes);					\
})

/* The pool file; the id is in *id. */
#define test_pool_create_opts(fd, id, ...)					\
({										\
	struct devpool_pool_create _cmd = { __VA_ARGS__ };			\
										\
	ASSERT_EQ(0, devpool_pool_create_opts_raw(fd, &_cmd));			\
	ASSERT_LE(0, _cmd.out_fd);						\
	*(id) = _cmd.out_pool;							\
	_cmd.out_fd;								\
})

#define test_err_pool_create_opts(err, fd, ...)					\
({										\
	struct devpool_pool_create _cmd = { __VA_ARGS__ };			\
										\
	EXPECT_EQ(-(err), devpool_pool_create_opts_raw(fd, &_cmd));		\
	EXPECT_EQ(POISON, _cmd.out_pool.first);					\
	EXPECT_EQ(POISON, _cmd.out_pool.second);				\
	EXPECT_EQ(-1, _cmd.out_fd);						\
})

/* Of the whole device */
#define test_stats_device(fd)							\
({										\
	struct devpool_stats _stats;						\
										\
	ASSERT_EQ(0, devpool_stats_flags_raw(fd, DEVPOOL_STATS_DEVICE, &_stats)); \
	_stats;									\
})

#define test_err_stats_device(err, fd)						\
({										\
	struct devpool_stats _stats;						\
										\
	EXPECT_EQ(-(err), devpool_stats_flags_raw(fd, DEVPOOL_STATS_DEVICE,	\
						  &_stats));			\
})

/* How many entries there are, all of them in the array */
#define test_snapshot(fd, pool, flags, entry, room)				\
({										\
	int _n = devpool_snapshot_all_raw(fd, pool, flags, entry, room, room);	\
										\
	ASSERT_LE(0, _n);							\
	_n;									\
})

#define test_err_snapshot(err, fd, pool, flags, array, count)			\
({										\
	struct devpool_snapshot _cmd;						\
										\
	EXPECT_EQ(-(err), devpool_snapshot_raw(fd, pool, flags, 0, array,	\
					       count, &_cmd));			\
	EXPECT_EQ((__u32)POISON, _cmd.out_count);				\
	EXPECT_EQ(POISON, _cmd.out_cursor);					\
})

/* What /proc says of a descriptor; how many bytes, -1 if there is no telling */
static inline int test_fdinfo(int fd, char *text, size_t size)
{
	char path[40];
	int n = 0;
	int info;
	int ret;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	if (info < 0)
		return -1;
	do {
		ret = read(info, text + n, size - 1 - n);
		n += ret > 0 ? ret : 0;
	} while (ret > 0);
	close(info);
	text[n] = 0;
	return ret ? -1 : n;
}

/* One line of it: what stands behind "devpool-NAME:\t", "" if there is none */
static inline const char *devpool_fdinfo(int fd, const char *name)
{
	static char text[4096];
	char key[48];
	char *line;

	snprintf(key, sizeof(key), "\ndevpool-%s:\t", name);
	if (test_fdinfo(fd, text, sizeof(text)) < 0)
		return "";
	line = strstr(text, key);
	if (!line)
		return "";
	line += strlen(key);
	line[strcspn(line, "\n")] = 0;
	return line;
}

#define test_fdinfo_number(fd, name)						\
({										\
	const char *_text = devpool_fdinfo(fd, name);				\
	char *_end;								\
	__u64 _number = strtoull(_text, &_end, 10);				\
										\
	ASSERT_TRUE(*_text && !*_end)						\
		TH_LOG("devpool-%s: \"%s\"", name, _text);			\
	_number;								\
})

/* Streams */

static inline int devpool_stream_create_raw(int fd, __u32 flags, __u32 *stream)
{
	struct devpool_stream_create cmd = {
		.size = sizeof(cmd),
		.flags = flags,
		.out_stream = (__u32)POISON,
	};
	int ret = devpool_raw(fd, DEVPOOL_IOC_STREAM_CREATE, &cmd);

	*stream = cmd.out_stream;
	return ret;
}

static inline int devpool_stream_destroy_raw(int fd, __u32 stream)
{
	struct devpool_stream_destroy cmd = { .size = sizeof(cmd), .stream = stream };

	return devpool_raw(fd, DEVPOOL_IOC_STREAM_DESTROY, &cmd);
}

/* What is asked for is in the struct; so is the answer. */
static inline int devpool_stream_submit_raw(int fd, struct devpool_stream_submit *cmd)
{
	cmd->size = sizeof(*cmd);
	cmd->out_point = POISON;
	cmd->out_fence = (__s32)POISON;
	return devpool_raw(fd, DEVPOOL_IOC_STREAM_SUBMIT, cmd);
}

static inline int devpool_stream_signal_raw(int fd, __u32 stream, __u64 point)
{
	struct devpool_stream_signal cmd = {
		.size = sizeof(cmd),
		.stream = stream,
		.point = point,
	};

	return devpool_raw(fd, DEVPOOL_IOC_STREAM_SIGNAL, &cmd);
}

static inline int devpool_record_raw(int fd, __u64 addr, __u32 stream)
{
	struct devpool_record cmd = { .size = sizeof(cmd), .addr = addr, .stream = stream };

	return devpool_raw(fd, DEVPOOL_IOC_RECORD, &cmd);
}

/* ROUTE_BEGIN and ROUTE_END of a stream */
static inline int devpool_route_stream_raw(int fd, unsigned long ioc,
					   struct devpool_pool_id pool, __u32 stream)
{
	struct devpool_route_begin cmd = {
		.size = sizeof(cmd),
		.pool = pool,
		.scope = DEVPOOL_SCOPE_STREAM,
		.stream = stream,
	};

	static_assert(sizeof(cmd) == sizeof(struct devpool_route_end), "the same");
	return devpool_raw(fd, ioc, &cmd);
}

static inline int devpool_empty_until_raw(int fd, struct devpool_pool_id pool, __u32 flags,
					  __u64 keep, __s64 timeout,
					  struct devpool_empty_cache *cmd)
{
	memset(cmd, POISON_BYTE, sizeof(*cmd));
	cmd->size = sizeof(*cmd);
	cmd->flags = flags;
	cmd->pool = pool;
	cmd->timeout = timeout;
	cmd->keep = keep;
	cmd->__reserved = 0;
	return devpool_raw(fd, DEVPOOL_IOC_EMPTY_CACHE, cmd);
}

/* Its number */
static inline int devpool_export_raw(int fd, __u64 addr, __u32 fd_flags, int *buf)
{
	struct devpool_export cmd = {
		.size = sizeof(cmd),
		.addr = addr,
		.fd_flags = fd_flags,
		.out_fd = -1,
	};
	int ret = devpool_raw(fd, DEVPOOL_IOC_EXPORT, &cmd);

	*buf = cmd.out_fd;
	return ret;
}

/* The dma-buf */
#define test_export(fd, addr)							\
({										\
	int _buf;								\
										\
	ASSERT_EQ(0, devpool_export_raw(fd, addr, O_RDWR | O_CLOEXEC, &_buf));	\
	ASSERT_LE(0, _buf);							\
	_buf;									\
})

#define test_err_export(err, fd, addr, flags)					\
({										\
	int _buf;								\
										\
	EXPECT_EQ(-(err), devpool_export_raw(fd, addr, flags, &_buf));		\
	EXPECT_EQ(-1, _buf);							\
})

#define test_stream(fd, flags)							\
({										\
	__u32 _stream;								\
										\
	ASSERT_EQ(0, devpool_stream_create_raw(fd, flags, &_stream));		\
	ASSERT_NE(0, _stream);							\
	ASSERT_NE((__u32)POISON, _stream);					\
	_stream;								\
})

#define test_err_stream(err, fd, flags)						\
({										\
	__u32 _stream;								\
										\
	EXPECT_EQ(-(err), devpool_stream_create_raw(fd, flags, &_stream));	\
	EXPECT_EQ((__u32)POISON, _stream);					\
})

#define test_stream_destroy(fd, stream)						\
	ASSERT_EQ(0, devpool_stream_destroy_raw(fd, stream))

#define test_err_stream_destroy(err, fd, stream)				\
	EXPECT_EQ(-(err), devpool_stream_destroy_raw(fd, stream))

/* The command with its answer; what is asked for as .member = value */
#define test_submit_opts(fd, ...)						\
({										\
	struct devpool_stream_submit _cmd = { __VA_ARGS__ };			\
										\
	ASSERT_EQ(0, devpool_stream_submit_raw(fd, &_cmd));			\
	ASSERT_NE(0, _cmd.out_point);						\
	ASSERT_NE(POISON, _cmd.out_point);					\
	if (_cmd.flags & DEVPOOL_SUBMIT_FENCE_OUT) {				\
		ASSERT_LE(0, _cmd.out_fence);					\
	} else {								\
		ASSERT_EQ(-1, _cmd.out_fence);					\
	}									\
	_cmd;									\
})

/* The point, of a user stream */
#define test_submit(fd, on)							\
({										\
	__u64 _point = test_submit_opts(fd, .stream = on).out_point;		\
										\
	_point;									\
})

#define test_err_submit(err, fd, ...)						\
({										\
	struct devpool_stream_submit _cmd = { __VA_ARGS__ };			\
										\
	EXPECT_EQ(-(err), devpool_stream_submit_raw(fd, &_cmd));		\
	EXPECT_EQ(POISON, _cmd.out_point);					\
	EXPECT_EQ((__s32)POISON, _cmd.out_fence);				\
})

#define test_signal(fd, stream, point)						\
	ASSERT_EQ(0, devpool_stream_signal_raw(fd, stream, point))

#define test_err_signal(err, fd, stream, point)					\
	EXPECT_EQ(-(err), devpool_stream_signal_raw(fd, stream, point))

#define test_record(fd, addr, stream) ASSERT_EQ(0, devpool_record_raw(fd, addr, stream))

#define test_err_record(err, fd, addr, stream)					\
	EXPECT_EQ(-(err), devpool_record_raw(fd, addr, stream))

/* The block's address */
#define test_alloc_on(fd, from, size, on)					\
({										\
	__u64 _addr = test_alloc_opts(fd, .pool = from, .bytes = size,		\
				      .stream = on).out_addr;			\
										\
	_addr;									\
})

#define test_err_alloc_on(err, fd, from, size, on)				\
	test_err_alloc_opts(err, fd, .pool = from, .bytes = size, .stream = on)

#define test_route_stream_begin(fd, pool, stream)				\
	ASSERT_EQ(0, devpool_route_stream_raw(fd, DEVPOOL_IOC_ROUTE_BEGIN, pool, stream))

#define test_err_route_stream_begin(err, fd, pool, stream)			\
	EXPECT_EQ(-(err), devpool_route_stream_raw(fd, DEVPOOL_IOC_ROUTE_BEGIN,	\
						   pool, stream))

#define test_route_stream_end(fd, pool, stream)					\
	ASSERT_EQ(0, devpool_route_stream_raw(fd, DEVPOOL_IOC_ROUTE_END, pool, stream))

#define test_err_route_stream_end(err, fd, pool, stream)			\
	EXPECT_EQ(-(err), devpool_route_stream_raw(fd, DEVPOOL_IOC_ROUTE_END,	\
						   pool, stream))

/* EMPTY_CACHE that waits */
#define test_empty_until(fd, pool, flags, keep, timeout)			\
({										\
	struct devpool_empty_cache _cmd;					\
										\
	ASSERT_EQ(0, devpool_empty_until_raw(fd, pool, flags, keep, timeout,	\
					     &_cmd));				\
	_cmd;									\
})

/* Bytes of blocks that are pending */
static inline __u64 devpool_pending_of(const struct devpool_pool_stat *stat)
{
	return stat->out_active.current - stat->out_allocated.current;
}

#define test_pending(fd, pool)							\
({										\
	struct devpool_pool_stat _of = test_pool_stat(fd, pool);		\
										\
	devpool_pending_of(&_of);						\
})

/* From here on this thread cannot do what only an administrator may. */
static inline int test_drop_admin(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	__u32 bit = CAP_TO_MASK(CAP_SYS_ADMIN);

	if (syscall(SYS_capget, &head, data))
		return -errno;
	data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective &= ~bit;
	data[CAP_TO_INDEX(CAP_SYS_ADMIN)].permitted &= ~bit;
	data[CAP_TO_INDEX(CAP_SYS_ADMIN)].inheritable &= ~bit;
	return syscall(SYS_capset, &head, data) ? -errno : 0;
}

/* Devices */

/*
 * A device with that backend: the largest or the smallest there is. Returns
 * its index, -1 if there is none.
 */
static inline int devpool_find(const char *backend, bool smallest)
{
	struct devpool_info info;
	__u64 bytes = 0;
	int best = -1;
	int fd;
	int i;

	for (i = 0; i < DEVPOOL_NODES; i++) {
		fd = devpool_open_node(i);
		if (fd < 0)
			continue;
		if (!devpool_info_raw(fd, &info) &&
		    !strncmp((char *)info.out_backend, backend, sizeof(info.out_backend)) &&
		    (best < 0 || (smallest ? info.out_bytes < bytes : info.out_bytes > bytes))) {
			best = i;
			bytes = info.out_bytes;
		}
		close(fd);
	}
	return best;
}

/* The kinds of device that a suite runs over */
enum test_kind {
	/* memory, plenty of it */
	TEST_SYSMEM,
	/* memory that a test can use up */
	TEST_SMALL,
	/* no memory, and no end of it */
	TEST_NULL,
};

static inline int test_find(enum test_kind kind)
{
	return devpool_find(kind == TEST_NULL ? "null" : "sysmem", kind == TEST_SMALL);
}

/*
 * The head of a fixture that has fd, index and info: opens a device of that
 * kind, or skips the test.
 */
#define test_setup(self, kind)							\
do {										\
	(self)->fd = -1;							\
	(self)->index = test_find(kind);					\
	if ((self)->index < 0)							\
		SKIP(return, "there is no %s device",				\
		     (kind) == TEST_NULL ? "null" : "sysmem");			\
	(self)->base = test_base((self)->index);				\
	(self)->fd = test_open((self)->index);					\
	(self)->info = test_info((self)->fd);					\
} while (0)

/* Counters */

/* The six counters lie side by side, in a pool's report and in a client's. */
#define TEST_COUNTERS 6
static_assert(offsetof(struct devpool_pool_stat, out_hits) -
	      offsetof(struct devpool_pool_stat, out_allocated) ==
	      TEST_COUNTERS * sizeof(struct devpool_counter), "six counters");
static_assert(offsetof(struct devpool_stats, out_hits) -
	      offsetof(struct devpool_stats, out_allocated) ==
	      TEST_COUNTERS * sizeof(struct devpool_counter), "six counters");
/* And then come nine numbers. */
#define TEST_EVENTS 9
static_assert(sizeof(struct devpool_pool_stat) - offsetof(struct devpool_pool_stat, out_hits) ==
	      TEST_EVENTS * sizeof(__u64), "nine numbers");
static_assert(sizeof(struct devpool_stats) - offsetof(struct devpool_stats, out_hits) ==
	      TEST_EVENTS * sizeof(__u64), "nine numbers");

static inline const char *test_counters_wrong(const struct devpool_counter *c)
{
	static const char *const names[TEST_COUNTERS] = {
		"allocated", "requested", "active", "resident", "spare", "blocks",
	};
	/* by size, the largest first */
	static const int order[] = { 3, 2, 0, 1 };
	static char what[160];
	int i;

	for (i = 0; i < TEST_COUNTERS; i++) {
		if (c[i].current == c[i].in - c[i].out && c[i].peak >= c[i].current &&
		    c[i].in >= c[i].peak)
			continue;
		snprintf(what, sizeof(what), "%s: current %llu peak %llu in %llu out %llu",
			 names[i], c[i].current, c[i].peak, c[i].in, c[i].out);
		return what;
	}
	for (i = 0; i < 3; i++) {
		if (c[order[i]].current >= c[order[i + 1]].current)
			continue;
		snprintf(what, sizeof(what), "%s %llu is less than %s %llu",
			 names[order[i]], c[order[i]].current,
			 names[order[i + 1]], c[order[i + 1]].current);
		return what;
	}
	return NULL;
}

/* What is always true of a pool */
#define EXPECT_POOL_SOUND(stat)							\
do {										\
	const struct devpool_pool_stat _s = (stat);				\
	const char *_wrong = test_counters_wrong(&_s.out_allocated);		\
										\
	EXPECT_EQ(NULL, _wrong)							\
		TH_LOG("%s", _wrong);						\
	EXPECT_LE(_s.out_active.peak, _s.out_resident.peak);			\
	EXPECT_LE(_s.out_allocated.peak, _s.out_active.peak);			\
	EXPECT_LE(_s.out_requested.peak, _s.out_allocated.peak);		\
} while (0)

/*
 * What is always true of a client: its counters are the sums over its pools.
 * That goes for what is there now; peaks and sums need all pools that it ever
 * had.
 */
#define EXPECT_CLIENT_SOUND(stats, stat, count)					\
do {										\
	const struct devpool_stats _c = (stats);				\
	const struct devpool_counter *_all = &_c.out_allocated;			\
	const char *_wrong = test_counters_wrong(_all);				\
	__u64 _sum;								\
	int _i, _j;								\
										\
	EXPECT_EQ(NULL, _wrong)							\
		TH_LOG("%s", _wrong);						\
	for (_i = 0; _i < TEST_COUNTERS; _i++) {				\
		_sum = 0;							\
		for (_j = 0; _j < (count); _j++)				\
			_sum += (&(stat)[_j].out_allocated)[_i].current;	\
		EXPECT_EQ(_sum, _all[_i].current)				\
			TH_LOG("counter %d", _i);				\
	}									\
} while (0)

/* Memory */

#define TEST_PAGE 4096ULL

/*
 * Maps the pages of a block. The answer points to the block itself, NULL is a
 * failure.
 */
static inline void *devpool_map_raw(int fd, __u64 addr, __u64 bytes)
{
	__u64 start = addr & ~(TEST_PAGE - 1);
	__u64 end = round_to(addr + bytes, TEST_PAGE);
	char *p;

	p = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_SHARED, fd, start);
	return p == MAP_FAILED ? NULL : p + (addr - start);
}

#define test_map(fd, addr, bytes)						\
({										\
	void *_p = devpool_map_raw(fd, addr, bytes);				\
										\
	ASSERT_NE(NULL, _p)							\
		TH_LOG("mmap: %s", strerror(errno));				\
	_p;									\
})

#define TEST_PMD (2 * MIB)

/*
 * The same at a place of our own choice: congruent to the address, as a huge
 * entry needs it, or just not.
 */
static inline void *devpool_map_at_raw(int fd, __u64 addr, __u64 bytes, bool congruent)
{
	__u64 start = addr & ~(TEST_PAGE - 1);
	__u64 end = round_to(addr + bytes, TEST_PAGE);
	__u64 room = end - start + 2 * TEST_PMD;
	__u64 at, p;
	void *q;

	q = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (q == MAP_FAILED)
		return NULL;
	p = (uintptr_t)q;
	at = p + ((start - p) & (TEST_PMD - 1)) + (congruent ? 0 : TEST_PAGE);
	q = mmap((void *)(uintptr_t)at, end - start, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, fd, start);
	if (q == MAP_FAILED) {
		munmap((void *)(uintptr_t)p, room);
		return NULL;
	}
	/* The rest goes back. */
	if (at > p)
		munmap((void *)(uintptr_t)p, at - p);
	at += end - start;
	munmap((void *)(uintptr_t)at, p + room - at);
	return (char *)q + (addr - start);
}

#define test_err_map(err, fd, addr, bytes)					\
({										\
	errno = 0;								\
	EXPECT_EQ(MAP_FAILED, mmap(NULL, bytes, PROT_READ | PROT_WRITE,		\
				   MAP_SHARED, fd, addr));			\
	EXPECT_EQ(err, errno);							\
})

static inline void test_unmap(void *p, __u64 bytes)
{
	__u64 start = (uintptr_t)p & ~(TEST_PAGE - 1);
	__u64 end = round_to((uintptr_t)p + bytes, TEST_PAGE);

	munmap((void *)(uintptr_t)start, end - start);
}

/* A pattern that tells where it was written, and by whom */
static inline void test_fill(void *p, __u64 bytes, __u64 tag)
{
	volatile __u64 *word = p;
	__u64 i;

	for (i = 0; i < bytes / sizeof(*word); i++)
		word[i] = tag + i;
}

/* The index of the first word that is not the pattern's, -1 if there is none */
static inline long long test_differs(const void *p, __u64 bytes, __u64 tag)
{
	const volatile __u64 *word = p;
	__u64 i;

	for (i = 0; i < bytes / sizeof(*word); i++)
		if (word[i] != tag + i)
			return i;
	return -1;
}

/* The index of the first word that is not 0, -1 if there is none */
static inline long long test_not_zero(const void *p, __u64 bytes)
{
	const volatile __u64 *word = p;
	__u64 i;

	for (i = 0; i + 4 <= bytes / sizeof(*word); i += 4)
		if (word[i] | word[i + 1] | word[i + 2] | word[i + 3])
			break;
	for (; i < bytes / sizeof(*word); i++)
		if (word[i])
			return i;
	return -1;
}

/*
 * Touching memory that may not be there. Needs test_catch() once in the
 * process; every thread has its own way back.
 */
static __thread sigjmp_buf test_touch_back;
static __thread volatile sig_atomic_t test_touching;

static inline void test_touch_handler(int sig)
{
	if (test_touching)
		siglongjmp(test_touch_back, sig);
	signal(sig, SIG_DFL);
	raise(sig);
}

static inline void test_catch(void)
{
	struct sigaction action = {
		.sa_handler = test_touch_handler,
		/* Stays unblocked, so that the way back restores no mask. */
		.sa_flags = SA_NODEFER,
	};

	sigaction(SIGBUS, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
}

/* 0, or the signal that came */
static __attribute__((noinline, unused)) int test_read(const volatile void *p, __u64 *value)
{
	int sig = sigsetjmp(test_touch_back, 0);

	if (!sig) {
		test_touching = 1;
		*value = *(const volatile __u64 *)p;
	}
	test_touching = 0;
	return sig;
}

static __attribute__((noinline, unused)) int test_write(volatile void *p, __u64 value)
{
	int sig = sigsetjmp(test_touch_back, 0);

	if (!sig) {
		test_touching = 1;
		*(volatile __u64 *)p = value;
	}
	test_touching = 0;
	return sig;
}

static inline int test_touch(const volatile void *p)
{
	__u64 value;

	return test_read(p, &value);
}

/* Processes */

/* A child that does not outlive its parent */
static inline pid_t test_fork(void)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(0);
	}
	return pid;
}

/* The status a child exits with, or minus the signal that ended it */
static inline int test_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1000;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static inline int test_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	return test_wait(pid);
}

static inline int test_send_fd(int sock, int fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {};
	char byte = 0;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	return sendmsg(sock, &msg, 0) == 1 ? 0 : -errno;
}

static inline int test_receive_fd(int sock)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {};
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *head;
	int fd;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1)
		return -errno;
	head = CMSG_FIRSTHDR(&msg);
	if (!head || head->cmsg_type != SCM_RIGHTS)
		return -EBADF;
	memcpy(&fd, CMSG_DATA(head), sizeof(fd));
	return fd;
}

#endif
