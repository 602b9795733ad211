// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an ALLOC and a FREE cost beside many live blocks, which lie one behind
 * the other or have a hole behind each of them.
 */
#include "bench.h"

#define SIZE 512ULL
#define PLACES 255

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * The median of a FREE of a block here or there and an ALLOC that gets another
 * place, or the same if there is no other.
 */
static uint64_t places(struct bench_pair *pair, uint64_t *addr, uint64_t n, uint64_t step)
{
	uint64_t cost[PLACES], begin, random = 1;
	int i;

	bench_overhead();
	for (i = 0; i < PLACES; i++) {
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		cost[i] = UINT64_MAX;
		pair->free.addr = addr[(random >> 33) % n * step];
		begin = bench_now();
		bench_pair_free(pair);
		bench_pair_alloc(pair);
		bench_least(&cost[i], begin, bench_now());
		addr[(random >> 33) % n * step] = pair->free.addr;
	}
	qsort(cost, PLACES, sizeof(cost[0]), compare);
	return cost[PLACES / 2];
}

static void measure(uint64_t n, bool holes)
{
	const char *kind = holes ? "holes" : "full";
	uint64_t step = holes ? 2 : 1, i;
	int fd = bench_open("null");
	struct devpool_pool_id pool;
	struct bench_pair pair;
	uint64_t *addr;
	int file;

	addr = malloc(n * step * sizeof(*addr));
	if (!addr)
		bench_die("addresses");
	file = bench_pool_create(fd, &pool);
	for (i = 0; i < n * step; i++)
		addr[i] = bench_alloc(fd, pool, SIZE);
	for (i = 1; i < n * step; i += 2)
		if (holes)
			bench_free(fd, addr[i]);

	/* Out of a hole if there are holes, else off what is left at the end */
	bench_pair_init(&pair, fd, pool, SIZE);
	bench_put(BENCH_PAIR(&pair), "live.%s.%" PRIu64 ".pair", kind, n);
	bench_put(places(&pair, addr, n, step), "live.%s.%" PRIu64 ".places", kind, n);
	/* Fits no hole. */
	bench_pair_init(&pair, fd, pool, 4 * SIZE);
	bench_put(BENCH_PAIR(&pair), "live.%s.%" PRIu64 ".larger", kind, n);
	close(file);
	close(fd);
	free(addr);
}

int main(void)
{
	static const uint64_t counts[] = { 1000, 10000, 100000, 1000000 };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		measure(counts[i], false);
		measure(counts[i], true);
	}
	return 0;
}
