// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory as a program meets it: mapped and touched. Beside it what the kernel
 * offers otherwise: anonymous memory, memfd, and dma-heap's "system" where
 * there is one.
 */
#include <sys/mman.h>

#include <linux/dma-heap.h>

#include "bench.h"

#define CHUNK (2 * MIB)
#define PAGE 4096
#define TRIES 5

/* Whatever works in the background has done it by then. */
#define SETTLE_USEC 200000

static int heap;

static void touch(char *p, uint64_t bytes)
{
	uint64_t i;

	for (i = 0; i < bytes; i += PAGE)
		*(volatile char *)(p + i) = 1;
}

static void *map(int fd, uint64_t offset, uint64_t bytes)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, offset);

	if (p == MAP_FAILED)
		bench_die("mmap of %" PRIu64 " bytes", bytes);
	return p;
}

/* Aligned as a huge entry needs it. */
static char *map_aligned(int fd, uint64_t offset, uint64_t bytes)
{
	uintptr_t p = (uintptr_t)mmap(NULL, bytes + CHUNK, PROT_NONE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	void *at = (void *)((p + CHUNK - 1) / CHUNK * CHUNK);
	int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);

	if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags, fd, offset) == MAP_FAILED)
		bench_die("mmap of %" PRIu64 " bytes", bytes);
	return at;
}

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

static double anonymous(uint64_t bytes, int advice)
{
	char *p = map_aligned(-1, 0, bytes);
	double cost;

	/* EINVAL: a kernel without huge pages */
	if (madvise(p, bytes, advice) && errno != EINVAL)
		bench_die("madvise");
	cost = first_touch(p, bytes);
	munmap(p, bytes);
	return cost;
}

static void chunks(int fd)
{
	uint64_t bytes = 64 * MIB;
	uint64_t addr = bench_alloc(fd, bench_default_pool, bytes);
	char *p;

	p = map_aligned(fd, addr, bytes);
	bench_put(first_touch(p, bytes), "map.touch.devpool");
	munmap(p, bytes);
	/* A page off, where no huge entry fits: chunk by chunk all the same */
	p = map_aligned(fd, addr + PAGE, bytes - CHUNK);
	bench_put(first_touch(p + CHUNK - PAGE, bytes - 2 * CHUNK), "map.touch.small");
	munmap(p, bytes - CHUNK);
	bench_free(fd, addr);

	bench_put(anonymous(bytes, MADV_NOHUGEPAGE), "map.touch.anonymous");
	bench_put(anonymous(bytes, MADV_HUGEPAGE), "map.touch.anonymous_huge");
}

static int heap_alloc(uint64_t bytes)
{
	struct dma_heap_allocation_data data = {
		.len = bytes,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};

	if (ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data))
		bench_die("DMA_HEAP_IOCTL_ALLOC of %" PRIu64 " bytes", bytes);
	return data.fd;
}

static void heap_pair(uint64_t bytes)
{
	close(heap_alloc(bytes));
}

static void heaps(void)
{
	static const uint64_t sizes[] = { 4 * KIB, 1 * MIB, 16 * MIB };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		bench_put(BENCH(1, (heap_pair(sizes[i]), 0)), "map.heap.%" PRIu64, sizes[i]);
}

static void use_file(int fd, uint64_t offset, uint64_t bytes)
{
	void *p = map(fd, offset, bytes);

	touch(p, bytes);
	munmap(p, bytes);
}

static void whole_devpool(int fd, uint64_t bytes)
{
	uint64_t addr = bench_alloc(fd, bench_default_pool, bytes);

	use_file(fd, addr, bytes);
	bench_free(fd, addr);
}

static void whole_heap(int fd, uint64_t bytes)
{
	fd = heap_alloc(bytes);
	use_file(fd, 0, bytes);
	close(fd);
}

static void whole_memfd(int fd, uint64_t bytes)
{
	fd = memfd_create("bench", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, bytes))
		bench_die("memfd");
	use_file(fd, 0, bytes);
	close(fd);
}

static void whole_anonymous(int fd, uint64_t bytes)
{
	use_file(-1, 0, bytes);
}

/* Allocates, maps, touches each page, unmaps and frees. */
static void measure(const char *name, void (*use)(int fd, uint64_t bytes), int fd, bool cold)
{
	struct devpool_empty_cache empty = { .size = sizeof(empty) };
	uint64_t least = UINT64_MAX, begin;
	int i;

	bench_overhead();
	for (i = 0; i < TRIES; i++) {
		if (cold && ioctl(fd, DEVPOOL_IOC_EMPTY_CACHE, &empty))
			bench_die("EMPTY_CACHE");
		usleep(SETTLE_USEC);
		begin = bench_now();
		use(fd, 64 * MIB);
		bench_least(&least, begin, bench_now());
	}
	bench_put(least, "map.whole.%s", name);
}

int main(void)
{
	int fd = bench_open("sysmem");

	chunks(fd);
	measure("cold", whole_devpool, fd, true);
	measure("warm", whole_devpool, fd, false);
	measure("anonymous", whole_anonymous, -1, false);
	measure("memfd", whole_memfd, -1, false);
	heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	if (heap < 0)
		return 0;
	heaps();
	measure("heap", whole_heap, -1, false);
	return 0;
}
