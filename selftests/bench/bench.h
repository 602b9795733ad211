/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the benchmarks share.
 *
 * Each is a program that prints lines "NAME VALUE"; what the names mean, and
 * how much the values may be, is in the file rows. In counted mode the clock
 * counts instructions, so that the least of several runs is exact: an interrupt
 * can only add.
 */
#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/devpool.h>

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#define BENCH_BATCHES 32
#define BENCH_NODES 16

static const struct devpool_pool_id bench_default_pool;

static inline void __attribute__((format(printf, 1, 2), noreturn))
bench_die(const char *format, ...)
{
	int err = errno;
	va_list args;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (%s)\n", strerror(err));
	exit(1);
}

static inline void __attribute__((format(printf, 2, 3)))
bench_put(double value, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" %.2f\n", value);
	fflush(stdout);
}

static inline uint64_t bench_now(void)
{
	uint32_t low, high;

	asm volatile("rdtsc" : "=a" (low), "=d" (high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* What reading the clock twice adds to what is between */
static inline uint64_t bench_overhead(void)
{
	static uint64_t least;
	uint64_t t;
	int i;

	if (least)
		return least;
	least = UINT64_MAX;
	for (i = 0; i < BENCH_BATCHES; i++) {
		t = bench_now();
		t = bench_now() - t;
		if (t < least)
			least = t;
	}
	return least;
}

static inline void bench_least(uint64_t *least, uint64_t begin, uint64_t end)
{
	uint64_t t = end - begin;
	uint64_t overhead = bench_overhead();

	t = t > overhead ? t - overhead : 0;
	if (t < *least)
		*least = t;
}

/* Cost of the expression: the least of some batches of so many. */
#define BENCH(ops, expression)							\
({										\
	uint64_t _least = UINT64_MAX;						\
	uint64_t _begin;							\
	int _batch, _op;							\
										\
	bench_overhead();							\
	for (_batch = 0; _batch < BENCH_BATCHES; _batch++) {			\
		_begin = bench_now();						\
		for (_op = 0; _op < (ops); _op++)				\
			(void)(expression);					\
		bench_least(&_least, _begin, bench_now());			\
	}									\
	(double)_least / (ops);							\
})

/* The device of this backend, opened: a client of its own */
static inline int bench_open(const char *backend)
{
	struct devpool_info info = { .size = sizeof(info) };
	char path[32];
	int i, fd;

	for (i = 0; i < BENCH_NODES; i++) {
		snprintf(path, sizeof(path), "/dev/devpool%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (ioctl(fd, DEVPOOL_IOC_INFO, &info))
			bench_die("%s: INFO", path);
		if (!strcmp((const char *)info.out_backend, backend))
			return fd;
		close(fd);
	}
	bench_die("no device of backend %s", backend);
}

static inline uint64_t bench_alloc(int fd, struct devpool_pool_id pool, uint64_t bytes)
{
	struct devpool_alloc alloc = {
		.size = sizeof(alloc),
		.bytes = bytes,
		.pool = pool,
	};

	if (ioctl(fd, DEVPOOL_IOC_ALLOC, &alloc))
		bench_die("ALLOC of %" PRIu64 " bytes", bytes);
	return alloc.out_addr;
}

static inline void bench_free(int fd, uint64_t addr)
{
	struct devpool_free arg = { .size = sizeof(arg), .addr = addr };

	if (ioctl(fd, DEVPOOL_IOC_FREE, &arg))
		bench_die("FREE of 0x%" PRIx64, addr);
}

/* Returns the pool file. */
static inline int bench_pool_create(int fd, struct devpool_pool_id *pool)
{
	struct devpool_pool_create create = { .size = sizeof(create) };

	if (ioctl(fd, DEVPOOL_IOC_POOL_CREATE, &create))
		bench_die("POOL_CREATE");
	*pool = create.out_pool;
	return create.out_fd;
}

/* Memory into the pool's cache */
static inline void bench_fill(int fd, struct devpool_pool_id pool, uint64_t bytes)
{
	bench_free(fd, bench_alloc(fd, pool, bytes));
}

/**
 * struct bench_pair - ALLOC and FREE of a size, again and again
 * @fd: the client
 * @alloc: argument of ALLOC
 * @free: argument of FREE
 */
struct bench_pair {
	int fd;
	struct devpool_alloc alloc;
	struct devpool_free free;
};

static inline void bench_pair_init(struct bench_pair *pair, int fd,
				   struct devpool_pool_id pool, uint64_t bytes)
{
	*pair = (struct bench_pair){
		.fd = fd,
		.alloc = { .size = sizeof(pair->alloc), .bytes = bytes, .pool = pool },
		.free = { .size = sizeof(pair->free) },
	};
}

/* No more than a program has to do that has its arguments at hand */
static inline void bench_pair_alloc(struct bench_pair *pair)
{
	if (ioctl(pair->fd, DEVPOOL_IOC_ALLOC, &pair->alloc))
		bench_die("ALLOC of %" PRIu64 " bytes", (uint64_t)pair->alloc.bytes);
	pair->free.addr = pair->alloc.out_addr;
}

static inline void bench_pair_free(struct bench_pair *pair)
{
	if (ioctl(pair->fd, DEVPOOL_IOC_FREE, &pair->free))
		bench_die("FREE of 0x%" PRIx64, (uint64_t)pair->free.addr);
}

#define BENCH_PAIR(pair) BENCH(16, (bench_pair_alloc(pair), bench_pair_free(pair)))

#endif
