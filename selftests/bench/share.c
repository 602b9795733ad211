// SPDX-License-Identifier: GPL-2.0-only
/*
 * What sharing costs: a consumer's first touch of memory that another process has
 * filled, and EXPORT.
 */
#include <sys/wait.h>

#include "map.h"

#define BYTES (64 * MIB)

static void look(char *p, uint64_t bytes)
{
	uint64_t i;

	for (i = 0; i < bytes; i += PAGE)
		(void)*(volatile char *)(p + i);
}

/* Maps and touches each page the first time, less what the touching itself costs */
static uint64_t first_touch(int fd, uint64_t offset, bool writes)
{
	void (*visit)(char *, uint64_t) = writes ? touch : look;
	char *p = map_reserve(BYTES);
	uint64_t begin, middle;

	begin = bench_now();
	map_at(p, fd, offset, BYTES);
	visit(p, BYTES);
	middle = bench_now();
	visit(p, BYTES);
	return middle - begin - (bench_now() - middle);
}

/* That of another process than the one that has filled it */
static double consume(int fd, uint64_t offset, bool writes)
{
	uint64_t cost;
	int out[2];
	pid_t pid;
	char *p;

	p = map_aligned(fd, offset, BYTES);
	touch(p, BYTES);
	munmap(p, BYTES);
	if (pipe(out))
		bench_die("pipe");
	pid = fork();
	if (!pid) {
		cost = first_touch(fd, offset, writes);
		_exit(write(out[1], &cost, sizeof(cost)) != sizeof(cost));
	}
	close(out[1]);
	if (pid < 0 || read(out[0], &cost, sizeof(cost)) != sizeof(cost))
		bench_die("consumer");
	close(out[0]);
	waitpid(pid, NULL, 0);
	return cost;
}

static void consume_both(int fd, uint64_t offset, const char *entries, const char *name)
{
	bench_put(consume(fd, offset, false), "share.%s.read.%s", entries, name);
	bench_put(consume(fd, offset, true), "share.%s.write.%s", entries, name);
}

static int export_block(int fd, uint64_t addr)
{
	struct devpool_export export = {
		.size = sizeof(export),
		.addr = addr,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};

	if (ioctl(fd, DEVPOOL_IOC_EXPORT, &export))
		bench_die("EXPORT");
	return export.out_fd;
}

int main(void)
{
	static const uint64_t sizes[] = { 2 * MIB, 64 * MIB, 256 * MIB };
	struct devpool_info info = { .size = sizeof(info) };
	int fd = bench_open("sysmem");
	const char *entries = "pages";
	int buf, memfd;
	uint64_t addr;
	size_t i;

	if (ioctl(fd, DEVPOOL_IOC_INFO, &info))
		bench_die("INFO");
	if (info.out_features & DEVPOOL_FEATURE_HUGE_MAP)
		entries = "huge";
	addr = bench_alloc(fd, bench_default_pool, BYTES);
	consume_both(fd, addr, entries, "devpool");
	buf = export_block(fd, addr);
	consume_both(buf, 0, entries, "dmabuf");
	close(buf);
	bench_free(fd, addr);

	memfd = memfd_create("bench", MFD_CLOEXEC);
	if (memfd < 0 || ftruncate(memfd, BYTES))
		bench_die("memfd");
	consume_both(memfd, 0, entries, "memfd");
	close(memfd);

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		addr = bench_alloc(fd, bench_default_pool, sizes[i]);
		bench_put(BENCH(16, close(export_block(fd, addr))), "share.export.%" PRIu64,
			  sizes[i]);
		bench_free(fd, addr);
	}
	return 0;
}
