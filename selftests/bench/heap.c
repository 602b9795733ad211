// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers of a dma-heap, taken and closed: out of devpool's and out of the kernel's,
 * by the same ioctl.
 *
 * In a burst there was a rest before each, in which whatever works in the background
 * has done it; sustained is one buffer after the other, and all that the CPU does
 * counts.
 */
#include <linux/dma-heap.h>

#include "bench.h"

#define REST_USEC 200000
#define BURSTS 16
#define SUSTAINED 1000

/* Kinds of heap, and where they are */
static const struct {
	const char *name;
	const char *node;
} heaps[] = {
	{ "devpool", "/dev/dma_heap/devpool0" },
	{ "system", "/dev/dma_heap/system" },
};

static const uint64_t sizes[] = { 4 * KIB, 1 * MIB, 32 * MIB };

static void alloc_close(int heap, uint64_t bytes)
{
	struct dma_heap_allocation_data data = {
		.len = bytes,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};

	if (ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data))
		bench_die("DMA_HEAP_IOCTL_ALLOC of %" PRIu64 " bytes", bytes);
	close(data.fd);
}

static double burst(int heap, uint64_t bytes)
{
	uint64_t least = UINT64_MAX, begin;
	int i;

	bench_overhead();
	for (i = 0; i < BURSTS; i++) {
		usleep(REST_USEC);
		begin = bench_now();
		alloc_close(heap, bytes);
		bench_least(&least, begin, bench_now());
	}
	return least;
}

static double sustained(int heap, uint64_t bytes)
{
	uint64_t begin, end;
	int i;

	/* Until what is left to the background is the same before and after */
	for (i = 0; i < SUSTAINED / 10; i++)
		alloc_close(heap, bytes);
	begin = bench_now();
	for (i = 0; i < SUSTAINED; i++)
		alloc_close(heap, bytes);
	end = bench_now();
	return (double)(end - begin) / SUSTAINED;
}

int main(void)
{
	size_t i, j;
	int heap;

	for (i = 0; i < ARRAY_SIZE(heaps); i++) {
		heap = open(heaps[i].node, O_RDONLY | O_CLOEXEC);
		if (heap < 0) {
			if (errno != ENOENT)
				bench_die("%s", heaps[i].node);
			continue;
		}
		for (j = 0; j < ARRAY_SIZE(sizes); j++) {
			bench_put(burst(heap, sizes[j]), "heap.burst.%" PRIu64 ".%s", sizes[j],
				  heaps[i].name);
			bench_put(sustained(heap, sizes[j]), "heap.sustained.%" PRIu64 ".%s",
				  sizes[j], heaps[i].name);
		}
		close(heap);
	}
	return 0;
}
