// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A program of torch.cuda.MemPool, ported: library code that knows nothing of pools
 * is led into one; the pool ends under a tensor that lives on.
 */
#include <devpool.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define MIB (1ULL << 20)

static void check(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(-ret));
	exit(1);
}

/* out = torch.zeros(6 MiB), by way of tmp = torch.empty(24 MiB) */
static int forward(struct devpool *dev, unsigned char **out)
{
	const struct devpool_alloc_opts zeroed = {
		.sz = sizeof(zeroed), .flags = DEVPOOL_ALLOC_ZERO,
	};
	void *tmp, *block;
	int ret;

	ret = devpool_alloc(dev, 24 * MIB, NULL, &tmp);
	if (ret)
		return ret;
	memset(tmp, 0xa5, 24 * MIB);
	ret = devpool_alloc(dev, 6 * MIB, &zeroed, &block);
	if (!ret)
		*out = block;
	check(devpool_free(dev, tmp), "free");
	return ret;
}

/* for block in pool.snapshot() */
static int show_block(const struct devpool_snapshot_entry *entry, void *unused)
{
	(void)unused;
	printf("block of %llu MiB, %s\n", entry->bytes / MIB,
	       entry->state == DEVPOOL_BLOCK_LIVE ? "live" : "cached");
	return 0;
}

int main(void)
{
	DEVPOOL_AUTO struct devpool *dev = NULL;
	struct devpool_limit limit = { .size = sizeof(limit) };
	struct devpool_result result;
	struct devpool_pool_stat stat;
	struct devpool_stats stats;
	struct devpool_pool_id id;
	struct devpool_pool *pool;
	struct devpool_info info;
	unsigned char *out = NULL;

	check(devpool_open(NULL, &dev), "open");

	/* torch.cuda.set_per_process_memory_fraction(0.5) */
	check(devpool_info(dev, &info), "info");
	limit.bytes = info.out_bytes / 2;
	check(ioctl(devpool_fd(dev), DEVPOOL_IOC_LIMIT, &limit) ? -errno : 0, "limit");

	/* pool = torch.cuda.MemPool() */
	check(devpool_pool_create(dev, NULL, &pool), "pool");
	id = devpool_pool_id(pool);

	/* with torch.cuda.use_mem_pool(pool): out = forward() */
	check(devpool_route_begin(pool, DEVPOOL_SCOPE_THREAD, 0), "route");
	check(forward(dev, &out), "forward");
	check(devpool_route_end(pool, DEVPOOL_SCOPE_THREAD, 0), "end of the route");

	/* pool.use_count(), torch.cuda.memory_stats() */
	check(devpool_pool_stat(pool, &stat), "stat");
	printf("use count %u, %llu MiB allocated, %llu MiB resident\n", stat.out_use_count,
	       stat.out_allocated.current / MIB, stat.out_resident.current / MIB);

	/* torch.cuda.empty_cache(), which leaves live pools alone */
	check(devpool_empty_cache(dev, NULL, 0, &result), "empty_cache");
	printf("empty_cache: %llu MiB came back\n", (unsigned long long)(result.freed / MIB));

	/* What MemPool has no call for */
	check(devpool_pool_trim(pool, 0, &result), "trim");
	printf("trim: %llu MiB came back\n", (unsigned long long)(result.freed / MIB));
	check(devpool_snapshot(dev, &id, show_block, NULL), "snapshot");

	/* del pool */
	check(devpool_pool_close(pool, 0, &result), "close");
	printf("pool closed: %llu MiB are live\n", (unsigned long long)(result.live / MIB));

	/* The tensor is as good as before; del out */
	out[6 * MIB - 1] += 1;
	printf("its last byte is %d\n", out[6 * MIB - 1]);
	check(devpool_free(dev, out), "free");
	check(devpool_stats(dev, 0, &stats), "stats");
	printf("tensor freed: %llu MiB resident\n", stats.out_resident.current / MIB);
	return 0;
}
