// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the kernel's own memory costs for a block and for a chunk: what the slab
 * caches grew by, whole slabs, all of the kernel's.
 */
#include "bench.h"

#define BLOCKS 1000000ULL
#define CHUNKS (1ULL << 20)

/* The bytes in all slabs */
static uint64_t slabs(void)
{
	unsigned long count, pages;
	uint64_t sum = 0;
	char line[512];
	char *data;
	FILE *f;

	f = fopen("/proc/slabinfo", "re");
	if (!f)
		bench_die("/proc/slabinfo");
	while (fgets(line, sizeof(line), f)) {
		data = strstr(line, ": slabdata");
		if (!data || *line == '#')
			continue;
		if (sscanf(line, "%*s %*u %*u %*u %*u %lu", &pages) != 1 ||
		    sscanf(data, ": slabdata %*u %lu", &count) != 1)
			bench_die("/proc/slabinfo: %s", line);
		sum += (uint64_t)count * pages * sysconf(_SC_PAGESIZE);
	}
	fclose(f);
	return sum;
}

/* The size of a struct as the cache of that name has it */
static void put_struct(const char *cache, const char *name)
{
	unsigned int size;
	char path[80];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/object_size", cache);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%u", &size) != 1)
		bench_die("%s", path);
	fclose(f);
	bench_put(size, "memory.%s.struct", name);
}

int main(void)
{
	int fd = bench_open("null");
	uint64_t before, i;

	/* The first of everything, arenas included */
	bench_fill(fd, bench_default_pool, 512);
	bench_fill(fd, bench_default_pool, 2 * MIB);

	before = slabs();
	for (i = 0; i < BLOCKS; i++)
		bench_alloc(fd, bench_default_pool, 512);
	bench_put((double)(slabs() - before) / BLOCKS, "memory.block");
	put_struct("devpool_block", "block");

	before = slabs();
	bench_alloc(fd, bench_default_pool, CHUNKS * 2 * MIB);
	bench_put((double)(slabs() - before) / CHUNKS, "memory.chunk");
	put_struct("devpool_chunk", "chunk");
	return 0;
}
