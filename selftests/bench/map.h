/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the benchmarks of mapped memory share.
 */
#ifndef BENCH_MAP_H
#define BENCH_MAP_H

#include <sys/mman.h>

#include "bench.h"

#define CHUNK (2 * MIB)
#define PAGE 4096

static inline void touch(char *p, uint64_t bytes)
{
	uint64_t i;

	for (i = 0; i < bytes; i += PAGE)
		*(volatile char *)(p + i) = 1;
}

/* In place of whatever is there; no file: anonymous memory */
static inline void map_at(void *at, int fd, uint64_t offset, uint64_t bytes)
{
	int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);

	if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags, fd, offset) == MAP_FAILED)
		bench_die("mmap of %" PRIu64 " bytes", bytes);
}

/* Addresses aligned as a huge entry needs it, with nothing there */
static inline char *map_reserve(uint64_t bytes)
{
	char *p = mmap(NULL, bytes + CHUNK, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		bench_die("addresses");
	return p + (CHUNK - (uintptr_t)p % CHUNK) % CHUNK;
}

static inline char *map_aligned(int fd, uint64_t offset, uint64_t bytes)
{
	char *p = map_reserve(bytes);

	map_at(p, fd, offset, bytes);
	return p;
}

#endif
