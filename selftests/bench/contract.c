// SPDX-License-Identifier: GPL-2.0-only
/*
 * What references, attaching and routes cost beyond INFO, and what it costs to ask a
 * pool with much in its cache.
 */
#include "bench.h"

#define CACHED 100000

static struct devpool_info info = { .size = sizeof(info) };
static struct devpool_pool_get get = { .size = sizeof(get) };
static struct devpool_pool_put put = { .size = sizeof(put) };
static struct devpool_route_begin begin = { .size = sizeof(begin) };
static struct devpool_route_end end = { .size = sizeof(end) };
static struct devpool_pool_stat stat_arg = { .size = sizeof(stat_arg) };
static uint64_t block[2 * CACHED];
static int fd, peer, pool;

static void call(int file, unsigned long cmd, void *arg, const char *name)
{
	if (ioctl(file, cmd, arg))
		bench_die("%s", name);
}

/* The least cost of the first of two calls, of which the second undoes it */
static uint64_t first_of(int file, unsigned long cmd, void *arg, unsigned long undo,
			 void *undo_arg, uint64_t *second)
{
	uint64_t least = UINT64_MAX, begun, middle;
	unsigned int i;

	*second = UINT64_MAX;
	for (i = 0; i < 64; i++) {
		begun = bench_now();
		call(file, cmd, arg, "the first of a pair");
		middle = bench_now();
		bench_least(&least, begun, middle);
		call(file, undo, undo_arg, "the second of a pair");
		bench_least(second, middle, bench_now());
	}
	return least;
}

static void put_pair(const char *first, const char *second, uint64_t cost_info, uint64_t a,
		     uint64_t b)
{
	bench_put(a, "contract.%s", first);
	bench_put(a > cost_info ? a - cost_info : 0, "contract.%s.more", first);
	bench_put(b, "contract.%s", second);
	bench_put(b > cost_info ? b - cost_info : 0, "contract.%s.more", second);
}

static void read_fdinfo(int file)
{
	char text[4096];

	if (pread(file, text, sizeof(text), 0) <= 0)
		bench_die("fdinfo");
}

static void ask(const char *name)
{
	char path[64];
	int file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pool);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		bench_die("%s", path);
	bench_put(BENCH(16, call(pool, DEVPOOL_IOC_POOL_STAT, &stat_arg, "POOL_STAT")),
		  "contract.stat.%s", name);
	bench_put(BENCH(16, read_fdinfo(file)), "contract.fdinfo.%s", name);
	close(file);
}

int main(void)
{
	struct devpool_pool_id id;
	uint64_t a, b, cost_info;
	unsigned int i;

	fd = bench_open("null");
	peer = bench_open("null");
	pool = bench_pool_create(fd, &id);

	cost_info = BENCH(16, call(fd, DEVPOOL_IOC_INFO, &info, "INFO"));
	bench_put(cost_info, "contract.info");

	get.pool = id;
	put.pool = id;
	a = first_of(fd, DEVPOOL_IOC_POOL_GET, &get, DEVPOOL_IOC_POOL_PUT, &put, &b);
	put_pair("get", "put", cost_info, a, b);

	get = (struct devpool_pool_get){
		.size = sizeof(get),
		.flags = DEVPOOL_POOL_GET_FD,
		.fd = pool,
	};
	a = first_of(peer, DEVPOOL_IOC_POOL_GET, &get, DEVPOOL_IOC_POOL_PUT, &put, &b);
	put_pair("attach", "leave", cost_info, a, b);

	begin.pool = id;
	end.pool = id;
	a = first_of(fd, DEVPOOL_IOC_ROUTE_BEGIN, &begin, DEVPOOL_IOC_ROUTE_END, &end, &b);
	put_pair("route_begin", "route_end", cost_info, a, b);

	/* One cached block, then many: a live one between each two keeps them apart. */
	bench_fill(fd, id, 512);
	ask("1");
	for (i = 0; i < 2 * CACHED; i++)
		block[i] = bench_alloc(fd, id, 512);
	for (i = 0; i < 2 * CACHED; i += 2)
		bench_free(fd, block[i]);
	ask("many");
	return 0;
}
