// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first touch of memory that is there but not mapped yet: what faults cost.
 * Beside it anonymous memory, whose faults have to allocate and zero.
 */
#include <sys/mman.h>

#include "map.h"

#define BYTES (64 * MIB)

/* The least for one chunk of touching every page of many */
static uint64_t touch_chunks(char *p, uint64_t bytes)
{
	uint64_t least = UINT64_MAX, begin, i;

	bench_overhead();
	for (i = 0; i < bytes; i += CHUNK) {
		begin = bench_now();
		touch(p + i, CHUNK);
		bench_least(&least, begin, bench_now());
	}
	return least;
}

/* The first time, less what the touching itself costs */
static double first_touch(char *p, uint64_t bytes)
{
	uint64_t first = touch_chunks(p, bytes);

	return first - touch_chunks(p, bytes);
}

static double anonymous(int advice)
{
	char *p = map_aligned(-1, 0, BYTES);
	double cost;

	/* EINVAL: a kernel without huge pages */
	if (madvise(p, BYTES, advice) && errno != EINVAL)
		bench_die("madvise");
	cost = first_touch(p, BYTES);
	munmap(p, BYTES);
	return cost;
}

int main(void)
{
	struct devpool_info info = { .size = sizeof(info) };
	int fd = bench_open("sysmem");
	uint64_t addr = bench_alloc(fd, bench_default_pool, BYTES);
	char *p;

	if (ioctl(fd, DEVPOOL_IOC_INFO, &info))
		bench_die("INFO");
	if (info.out_features & DEVPOOL_FEATURE_HUGE_MAP) {
		p = map_aligned(fd, addr, BYTES);
		bench_put(first_touch(p, BYTES), "touch.huge");
		munmap(p, BYTES);
	}
	/* A page off, where no huge entry fits: chunk by chunk all the same */
	p = map_aligned(fd, addr + PAGE, BYTES - CHUNK);
	bench_put(first_touch(p + CHUNK - PAGE, BYTES - 2 * CHUNK), "touch.pages");
	munmap(p, BYTES - CHUNK);
	bench_free(fd, addr);

	bench_put(anonymous(MADV_NOHUGEPAGE), "touch.anonymous");
	bench_put(anonymous(MADV_HUGEPAGE), "touch.anonymous_huge");
	return 0;
}
