// SPDX-License-Identifier: GPL-2.0-only
/*
 * The whole life of a buffer: taken, mapped, every page touched, unmapped and
 * given back; for devpool and for what the kernel offers otherwise.
 *
 * Memory comes from the device or the kernel each time, but for the kind "warm",
 * which has it out of the pool's cache. In a burst there was a rest before, in
 * which whatever works in the background has done it; sustained is one buffer
 * after the other, and all that the CPU does counts.
 */
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>

#include "map.h"

#define MOST (64 * MIB)
#define REST_USEC 200000
#define BURSTS 5

/* Until what is left to the background is the same before and after a buffer */
#define SUSTAINED_BEFORE (2 * MOST)
#define SUSTAINED (4 * MOST)

/*
 * DRM's buffers without a display, as in drm/drm.h, which Debian has in the
 * package of libdrm.
 */
struct drm_mode_create_dumb {
	uint32_t height;
	uint32_t width;
	uint32_t bpp;
	uint32_t flags;
	uint32_t handle;
	uint32_t pitch;
	uint64_t size;
};

struct drm_mode_map_dumb {
	uint32_t handle;
	uint32_t pad;
	uint64_t offset;
};

#define DRM_IOCTL_MODE_CREATE_DUMB _IOWR('d', 0xb2, struct drm_mode_create_dumb)
#define DRM_IOCTL_MODE_MAP_DUMB _IOWR('d', 0xb3, struct drm_mode_map_dumb)
#define DRM_IOCTL_MODE_DESTROY_DUMB _IOWR('d', 0xb4, uint32_t)

struct buffer {
	uint64_t bytes;
	uint64_t offset;
	uint32_t handle;
	int fd;
	int memfd;
};

/**
 * struct kind - a way to get memory
 * @name: in the names of its figures
 * @take: sets the file to map, and where in it
 * @give: gives back what @take took
 * @node: what it needs, or NULL; without it the kernel has no such kind
 * @backend: or else the backend of the device
 * @setting: a file of the kernel's
 * @on: what has to be there while it is used
 * @off: and afterwards
 * @pair: @take alone gets the memory
 */
struct kind {
	const char *name;
	void (*take)(struct buffer *buffer);
	void (*give)(struct buffer *buffer);
	const char *node;
	const char *backend;
	const char *setting;
	const char *on;
	const char *off;
	bool pair;
};

/* The node of the kind, opened, or the client */
static int node;
static char *window;

static void take_devpool(struct buffer *buffer)
{
	buffer->fd = node;
	buffer->offset = bench_alloc(node, bench_default_pool, buffer->bytes);
}

static void give_devpool(struct buffer *buffer)
{
	bench_free(node, buffer->offset);
}

/* To the device, not into the cache */
static void return_devpool(struct buffer *buffer)
{
	struct devpool_empty_cache empty = { .size = sizeof(empty) };

	bench_free(node, buffer->offset);
	if (ioctl(node, DEVPOOL_IOC_EMPTY_CACHE, &empty))
		bench_die("EMPTY_CACHE");
}

static void take_anonymous(struct buffer *buffer)
{
	buffer->fd = -1;
}

static void give_anonymous(struct buffer *buffer)
{
}

static int new_memfd(uint64_t bytes, unsigned int flags)
{
	int fd = memfd_create("bench", MFD_CLOEXEC | flags);

	if (fd < 0 || ftruncate(fd, bytes))
		bench_die("memfd");
	return fd;
}

static void take_memfd(struct buffer *buffer)
{
	buffer->fd = new_memfd(buffer->bytes, 0);
}

static void take_hugetlb(struct buffer *buffer)
{
	buffer->fd = new_memfd(buffer->bytes, MFD_HUGETLB);
}

static void close_file(struct buffer *buffer)
{
	close(buffer->fd);
}

static void take_heap(struct buffer *buffer)
{
	struct dma_heap_allocation_data data = {
		.len = buffer->bytes,
		.fd_flags = O_RDWR | O_CLOEXEC,
	};

	if (ioctl(node, DMA_HEAP_IOCTL_ALLOC, &data))
		bench_die("DMA_HEAP_IOCTL_ALLOC of %" PRIu64 " bytes", buffer->bytes);
	buffer->fd = data.fd;
}

static void make_udmabuf(struct buffer *buffer, unsigned int flags)
{
	struct udmabuf_create create = {
		.memfd = new_memfd(buffer->bytes, MFD_ALLOW_SEALING | flags),
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = buffer->bytes,
	};

	if (fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		bench_die("F_SEAL_SHRINK");
	buffer->memfd = create.memfd;
	buffer->fd = ioctl(node, UDMABUF_CREATE, &create);
	if (buffer->fd < 0)
		bench_die("UDMABUF_CREATE of %" PRIu64 " bytes", buffer->bytes);
}

static void take_udmabuf(struct buffer *buffer)
{
	make_udmabuf(buffer, 0);
}

static void take_udmabuf_hugetlb(struct buffer *buffer)
{
	make_udmabuf(buffer, MFD_HUGETLB);
}

static void give_udmabuf(struct buffer *buffer)
{
	close(buffer->fd);
	close(buffer->memfd);
}

static void take_vgem(struct buffer *buffer)
{
	struct drm_mode_create_dumb create = {
		.width = 1024,
		.height = buffer->bytes / 4096,
		.bpp = 32,
	};
	struct drm_mode_map_dumb map = { };

	if (ioctl(node, DRM_IOCTL_MODE_CREATE_DUMB, &create))
		bench_die("DRM_IOCTL_MODE_CREATE_DUMB of %" PRIu64 " bytes", buffer->bytes);
	map.handle = create.handle;
	if (ioctl(node, DRM_IOCTL_MODE_MAP_DUMB, &map))
		bench_die("DRM_IOCTL_MODE_MAP_DUMB");
	buffer->fd = node;
	buffer->handle = create.handle;
	buffer->offset = map.offset;
}

static void give_vgem(struct buffer *buffer)
{
	if (ioctl(node, DRM_IOCTL_MODE_DESTROY_DUMB, &buffer->handle))
		bench_die("DRM_IOCTL_MODE_DESTROY_DUMB");
}

#define SHMEM_HUGE "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
#define HUGE_PAGES "/proc/sys/vm/nr_hugepages"

static const struct kind kinds[] = {
	{ "devpool", take_devpool, return_devpool, .backend = "sysmem" },
	{ "devpool_warm", take_devpool, give_devpool, .backend = "sysmem" },
	{ "anonymous", take_anonymous, give_anonymous },
	{ "memfd", take_memfd, close_file },
	{ "memfd_huge", take_memfd, close_file,
	  .setting = SHMEM_HUGE, .on = "always", .off = "never" },
	{ "hugetlb", take_hugetlb, close_file,
	  .setting = HUGE_PAGES, .on = "64", .off = "0" },
	{ "heap", take_heap, close_file, .node = "/dev/dma_heap/system", .pair = true },
	{ "udmabuf", take_udmabuf, give_udmabuf, .node = "/dev/udmabuf", .pair = true },
	{ "udmabuf_hugetlb", take_udmabuf_hugetlb, give_udmabuf, .node = "/dev/udmabuf",
	  .setting = HUGE_PAGES, .on = "64", .off = "0" },
	{ "vgem", take_vgem, give_vgem, .node = "/dev/dri/card0" },
};

static void use(const struct kind *kind, uint64_t bytes)
{
	struct buffer buffer = { .bytes = bytes };

	kind->take(&buffer);
	map_at(window, buffer.fd, buffer.offset, bytes);
	touch(window, bytes);
	munmap(window, bytes);
	kind->give(&buffer);
}

static void pair(const struct kind *kind, uint64_t bytes)
{
	struct buffer buffer = { .bytes = bytes };

	kind->take(&buffer);
	kind->give(&buffer);
}

static double burst(const struct kind *kind, uint64_t bytes)
{
	uint64_t least = UINT64_MAX, begin;
	int i;

	bench_overhead();
	for (i = 0; i < BURSTS; i++) {
		usleep(REST_USEC);
		begin = bench_now();
		use(kind, bytes);
		bench_least(&least, begin, bench_now());
	}
	return least;
}

static double sustained(const struct kind *kind, uint64_t bytes)
{
	uint64_t begin, i;

	for (i = 0; i < SUSTAINED_BEFORE; i += bytes)
		use(kind, bytes);
	begin = bench_now();
	for (i = 0; i < SUSTAINED; i += bytes)
		use(kind, bytes);
	return (double)(bench_now() - begin) / (SUSTAINED / bytes);
}

static void set(const char *file, const char *value)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		bench_die("%s to %s", value, file);
	close(fd);
}

static void measure(const struct kind *kind)
{
	static const uint64_t pairs[] = { 4 * KIB, 1 * MIB, 16 * MIB };
	static const uint64_t sizes[] = { 2 * MIB, 64 * MIB };
	size_t i;

	if (kind->setting)
		set(kind->setting, kind->on);
	for (i = 0; i < ARRAY_SIZE(pairs) && kind->pair; i++)
		bench_put(BENCH(1, (pair(kind, pairs[i]), 0)), "pair.%s.%" PRIu64, kind->name,
			  pairs[i]);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		bench_put(burst(kind, sizes[i]), "whole.burst.%" PRIu64 ".%s", sizes[i],
			  kind->name);
		bench_put(sustained(kind, sizes[i]), "whole.sustained.%" PRIu64 ".%s", sizes[i],
			  kind->name);
	}
	if (kind->setting)
		set(kind->setting, kind->off);
}

int main(void)
{
	const struct kind *kind;

	window = map_reserve(MOST);
	for (kind = kinds; kind < kinds + ARRAY_SIZE(kinds); kind++) {
		node = -1;
		if (kind->backend)
			node = bench_open(kind->backend);
		else if (kind->node)
			node = open(kind->node, O_RDWR | O_CLOEXEC);
		if (kind->node && node < 0) {
			if (errno != ENOENT)
				bench_die("%s", kind->node);
			continue;
		}
		measure(kind);
		close(node);
	}
	return 0;
}
