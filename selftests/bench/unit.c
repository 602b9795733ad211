// SPDX-License-Identifier: GPL-2.0-only
/*
 * What everything else is compared with: the clock itself, calls that do next
 * to nothing, and the C library's malloc.
 */
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "bench.h"

#define LOOPS 1000

/* Two instructions each time round */
static void loop(void)
{
	unsigned long n = LOOPS;

	asm volatile("1: dec %0\n\tjnz 1b" : "+r" (n) : : "cc");
}

static void malloc_pair(size_t bytes)
{
	void *p = malloc(bytes);

	asm volatile("" : "+r" (p) : : "memory");
	free(p);
}

/* A file of its own, without memory behind it */
static int open_close(int fd)
{
	return fd < 0 ? fd : close(fd);
}

int main(void)
{
	int event = eventfd(0, EFD_CLOEXEC);
	int fds[2], n;

	if (event < 0 || pipe2(fds, O_CLOEXEC))
		bench_die("eventfd or pipe");
	bench_put(BENCH(1, loop()) / (2 * LOOPS), "unit.control");
	bench_put(BENCH(16, ioctl(fds[0], FIONREAD, &n)), "unit.fionread");
	bench_put(BENCH(16, syscall(SYS_getppid)), "unit.getppid");
	bench_put(BENCH(16, ioctl(event, FIONREAD, &n)), "unit.rejected");
	bench_put(BENCH(16, open_close(eventfd(0, EFD_CLOEXEC))), "unit.eventfd");
	bench_put(BENCH(16, open_close(memfd_create("bench", MFD_CLOEXEC))), "unit.memfd");
	bench_put(BENCH(16, malloc_pair(512)), "unit.malloc.512");
	bench_put(BENCH(16, malloc_pair(64 * KIB)), "unit.malloc.65536");
	bench_put(BENCH(1, malloc_pair(32 * MIB)), "unit.malloc.33554432");
	return 0;
}
