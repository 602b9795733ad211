// SPDX-License-Identifier: GPL-2.0-only
/*
 * What it costs to close a pool, and to ask for its counters, with nothing else
 * there and beside many other pools and cached blocks.
 */
#include <sys/resource.h>

#include "bench.h"

#define FEW 100
#define MOST 10000
#define BLOCKS 100000
#define TRIES 16

static const uint64_t cached[] = { 0, 2 * MIB, 64 * MIB, 1 * GIB };

static void measure(int fd, int others)
{
	struct devpool_empty_cache empty = {
		.size = sizeof(empty),
		.flags = DEVPOOL_EMPTY_RELEASE,
	};
	struct devpool_pool_stat stat = { .size = sizeof(stat) };
	struct devpool_stats stats = { .size = sizeof(stats) };
	struct devpool_pool_id pool;
	uint64_t least, t;
	int file, k;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(cached); i++) {
		least = UINT64_MAX;
		for (k = 0; k < TRIES; k++) {
			file = bench_pool_create(fd, &pool);
			if (cached[i])
				bench_fill(fd, pool, cached[i]);
			t = bench_now();
			close(file);
			bench_least(&least, t, bench_now());
		}
		bench_put(least, "close.%" PRIu64 ".%d", (uint64_t)(cached[i] / MIB), others);
	}

	least = UINT64_MAX;
	for (k = 0; k < TRIES; k++) {
		file = bench_pool_create(fd, &pool);
		bench_fill(fd, pool, 64 * MIB);
		t = bench_now();
		if (ioctl(file, DEVPOOL_IOC_EMPTY_CACHE, &empty))
			bench_die("RELEASE");
		bench_least(&least, t, bench_now());
		if (empty.out_freed != 64 * MIB)
			bench_die("RELEASE gave %" PRIu64 " bytes back", (uint64_t)empty.out_freed);
		close(file);
	}
	bench_put(least, "close.release.%d", others);

	least = UINT64_MAX;
	for (k = 0; k < TRIES; k++) {
		t = bench_now();
		file = bench_pool_create(fd, &pool);
		close(file);
		bench_least(&least, t, bench_now());
	}
	bench_put(least, "close.create.%d", others);

	file = bench_pool_create(fd, &pool);
	bench_fill(fd, pool, 64 * MIB);
	stat.pool = pool;
	bench_put(BENCH(16, ioctl(fd, DEVPOOL_IOC_POOL_STAT, &stat)), "stat.device.%d", others);
	stat.pool = bench_default_pool;
	bench_put(BENCH(16, ioctl(file, DEVPOOL_IOC_POOL_STAT, &stat)), "stat.pool.%d", others);
	bench_put(BENCH(1, ioctl(fd, DEVPOOL_IOC_STATS, &stats)), "stat.client.%d", others);
	close(file);
}

/* Cached blocks of another pool; what is live in between keeps them apart. */
static void add_blocks(int fd)
{
	static uint64_t addr[BLOCKS];
	struct devpool_pool_id pool;
	int i;

	bench_pool_create(fd, &pool);
	for (i = 0; i < BLOCKS; i++) {
		addr[i] = bench_alloc(fd, pool, 512);
		bench_alloc(fd, pool, 512);
	}
	for (i = 0; i < BLOCKS; i++)
		bench_free(fd, addr[i]);
}

static void add_pools(int fd, int n)
{
	struct devpool_pool_id pool;

	while (n--) {
		bench_pool_create(fd, &pool);
		bench_fill(fd, pool, 2 * MIB);
	}
}

int main(void)
{
	struct rlimit files = { MOST + 100, MOST + 100 };
	int fd = bench_open("null");

	if (setrlimit(RLIMIT_NOFILE, &files))
		bench_die("RLIMIT_NOFILE");
	measure(fd, 0);
	add_pools(fd, FEW);
	measure(fd, FEW);
	add_pools(fd, MOST - FEW - 1);
	add_blocks(fd);
	measure(fd, MOST);
	return 0;
}
