// SPDX-License-Identifier: GPL-2.0-only
/*
 * ALLOC and FREE that find what they need in the pool's cache, and calls that
 * are refused on their way there, which shows what the steps of that way cost.
 */
#include "bench.h"

static const uint64_t sizes[] = {
	512, 4 * KIB, 64 * KIB, 1 * MIB, 2 * MIB, 16 * MIB, 32 * MIB, 256 * MIB,
};

static void measure(struct bench_pair *pair, const char *name)
{
	uint64_t alloc = UINT64_MAX, free = UINT64_MAX, t[3];
	int i;

	bench_overhead();
	for (i = 0; i < 8 * BENCH_BATCHES; i++) {
		t[0] = bench_now();
		bench_pair_alloc(pair);
		t[1] = bench_now();
		bench_pair_free(pair);
		t[2] = bench_now();
		bench_least(&alloc, t[0], t[1]);
		bench_least(&free, t[1], t[2]);
	}
	bench_put(BENCH_PAIR(pair), "hit.%s.pair", name);
	bench_put(alloc, "hit.%s.alloc", name);
	bench_put(free, "hit.%s.free", name);
}

static void hits(int fd, struct devpool_pool_id pool, const char *kind)
{
	struct bench_pair pair;
	char name[48];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		bench_fill(fd, pool, sizes[i]);
		bench_pair_init(&pair, fd, pool, sizes[i]);
		snprintf(name, sizeof(name), "%s.%" PRIu64, kind, sizes[i]);
		measure(&pair, name);
	}
}

/* A hole of just this size: nothing is split, nothing coalesces. */
static void fit(int fd, struct devpool_pool_id pool)
{
	uint64_t addr[3];
	struct bench_pair pair;
	int i;

	for (i = 0; i < 3; i++)
		addr[i] = bench_alloc(fd, pool, 512);
	bench_free(fd, addr[1]);
	bench_pair_init(&pair, fd, pool, 512);
	measure(&pair, "hole.512");
	bench_free(fd, addr[0]);
	bench_free(fd, addr[2]);
}

/* Off a block that is much larger, in a pool that has nothing else */
static void split(int fd)
{
	struct devpool_pool_id pool;
	struct bench_pair pair;
	int file;

	file = bench_pool_create(fd, &pool);
	bench_fill(fd, pool, 64 * MIB);
	bench_pair_init(&pair, fd, pool, 3 * MIB);
	measure(&pair, "split.3145728");
	close(file);
}

/* A call that fails with this errno */
static int expect(int fd, unsigned long command, void *arg, int err)
{
	if (ioctl(fd, command, arg) != -1 || errno != err)
		bench_die("call 0x%lx is not refused with: %s", command, strerror(err));
	return 0;
}

static void steps(int fd, struct devpool_pool_id pool)
{
	struct devpool_alloc good = { .size = sizeof(good), .bytes = 512, .pool = pool };
	struct devpool_info info = { .size = sizeof(info) };
	struct devpool_alloc bad;
	struct devpool_free free = { .size = sizeof(free) };

	bench_put(BENCH(16, expect(fd, _IO(DEVPOOL_TYPE, 0xff), &bad, ENOTTY)), "step.command");
	bad = good;
	bad.size = 8;
	bench_put(BENCH(16, expect(fd, DEVPOOL_IOC_ALLOC, &bad, EINVAL)), "step.size");
	bad = good;
	bad.flags = 1U << 31;
	bench_put(BENCH(16, expect(fd, DEVPOOL_IOC_ALLOC, &bad, EOPNOTSUPP)), "step.copy");
	bad = good;
	bad.pool.second++;
	bench_put(BENCH(16, expect(fd, DEVPOOL_IOC_ALLOC, &bad, ENOENT)), "step.no_pool");
	bad = good;
	bad.bytes = 1ULL << 62;
	bench_put(BENCH(16, expect(fd, DEVPOOL_IOC_ALLOC, &bad, ENOSPC)), "step.pool");
	bad.pool = bench_default_pool;
	bench_put(BENCH(16, expect(fd, DEVPOOL_IOC_ALLOC, &bad, ENOSPC)), "step.default_pool");

	free.flags = 1U << 31;
	bench_put(BENCH(16, expect(fd, DEVPOOL_IOC_FREE, &free, EOPNOTSUPP)), "step.free_copy");
	free.flags = 0;
	free.addr = 1ULL << 60;
	bench_put(BENCH(16, expect(fd, DEVPOOL_IOC_FREE, &free, ENOENT)), "step.free_range");
	free.addr = bench_alloc(fd, pool, KIB) + 512;
	bench_put(BENCH(16, expect(fd, DEVPOOL_IOC_FREE, &free, ENOENT)), "step.free_block");
	bench_free(fd, free.addr - 512);

	bench_put(BENCH(16, ioctl(fd, DEVPOOL_IOC_INFO, &info)), "step.info");
}

int main(void)
{
	struct devpool_empty_cache empty = { .size = sizeof(empty) };
	int fd = bench_open("sysmem");
	struct devpool_pool_id pool;
	int file;

	file = bench_pool_create(fd, &pool);
	hits(fd, pool, "private");
	fit(fd, pool);
	close(file);
	split(fd);

	hits(fd, bench_default_pool, "default");
	if (ioctl(fd, DEVPOOL_IOC_EMPTY_CACHE, &empty))
		bench_die("EMPTY_CACHE");

	bench_pool_create(fd, &pool);
	bench_fill(fd, pool, KIB);
	bench_fill(fd, pool, 2 * MIB);
	steps(fd, pool);
	return 0;
}
