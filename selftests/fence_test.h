/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Drivers that are not devpool's. Fences are vgem's, which end by themselves after ten
 * seconds, and sw_sync's, where a debug kernel has that, which never do. Dma-bufs are
 * imported by vgem, and by a driver of these tests.
 */
#ifndef FENCE_TEST_H
#define FENCE_TEST_H

#include <drm/drm.h>
#include <drm/drm_mode.h>
#include <drm/vgem_drm.h>
#include <linux/dma-buf.h>
#include <linux/sync_file.h>

#include "devpool_test.h"
#include "modules/importer/importer.h"

#define TEST_FENCE_SECONDS 10

/* How far a driver's fences are made: one source, and one fence after another */
struct test_fences {
	/* a file of vgem's, or a timeline of sw_sync's */
	int file;
	bool timeline;
	__u32 last;
};

/* sw_sync has no header for user space. */
struct test_sw_sync_create {
	__u32 value;
	char name[32];
	__s32 fence;
};

#define TEST_SW_SYNC_CREATE _IOWR('W', 0, struct test_sw_sync_create)
#define TEST_SW_SYNC_INC _IOW('W', 1, __u32)
#define TEST_SW_SYNC "/sys/kernel/debug/sync/sw_sync"

static inline int test_open_vgem(void)
{
	char name[16], path[32];
	struct drm_version version;
	int fd;
	int i;

	for (i = 0; i < 16; i++) {
		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			continue;
		memset(name, 0, sizeof(name));
		memset(&version, 0, sizeof(version));
		version.name = name;
		version.name_len = sizeof(name) - 1;
		if (!ioctl(fd, DRM_IOCTL_VERSION, &version) && !strcmp(name, "vgem"))
			return fd;
		close(fd);
	}
	return -ENODEV;
}

/* A sync_file of a fence that has not signalled, or -errno; *fence is its name. */
static inline int test_fence_raw(struct test_fences *fences, __u32 *fence)
{
	struct drm_mode_create_dumb dumb = { .width = 64, .height = 64, .bpp = 32 };
	struct dma_buf_export_sync_file export = { .flags = DMA_BUF_SYNC_READ };
	struct drm_vgem_fence_attach attach = { .flags = VGEM_FENCE_WRITE };
	struct drm_prime_handle prime = { .flags = DRM_CLOEXEC | DRM_RDWR };
	struct drm_gem_close gem = {};
	int ret = 0;

	if (fences->timeline) {
		struct test_sw_sync_create create = { .value = ++fences->last };

		if (ioctl(fences->file, TEST_SW_SYNC_CREATE, &create))
			return -errno;
		*fence = create.value;
		return create.fence;
	}
	if (ioctl(fences->file, DRM_IOCTL_MODE_CREATE_DUMB, &dumb))
		return -errno;
	attach.handle = dumb.handle;
	prime.handle = dumb.handle;
	gem.handle = dumb.handle;
	if (ioctl(fences->file, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime)) {
		ret = -errno;
		goto close_gem;
	}
	if (ioctl(fences->file, DRM_IOCTL_VGEM_FENCE_ATTACH, &attach) ||
	    ioctl(prime.fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export))
		ret = -errno;
	close(prime.fd);
close_gem:
	ioctl(fences->file, DRM_IOCTL_GEM_CLOSE, &gem);
	*fence = attach.out_fence;
	return ret ? ret : export.fd;
}

/* A driver that is made for these tests: it tells what it sees, and has vmap(). */
static inline int test_open_importer(void)
{
	const char *file = getenv("DEVPOOL_IMPORTER_KO");
	int fd;

	if (access("/dev/devpool_importer", F_OK) && file) {
		fd = open(file, O_RDONLY | O_CLOEXEC);
		syscall(SYS_finit_module, fd, "", 0);
		close(fd);
	}
	return open("/dev/devpool_importer", O_RDWR | O_CLOEXEC);
}

/* A dma-buf becomes one of vgem's objects. */
static inline int test_import_raw(int vgem, int buf, __u32 *handle)
{
	struct drm_prime_handle prime = { .fd = buf };

	if (ioctl(vgem, DRM_IOCTL_PRIME_FD_TO_HANDLE, &prime))
		return -errno;
	*handle = prime.handle;
	return 0;
}

#define test_import(vgem, buf)							\
({										\
	__u32 _handle;								\
										\
	ASSERT_EQ(0, test_import_raw(vgem, buf, &_handle));			\
	_handle;								\
})

static inline int test_import_end_raw(int vgem, __u32 handle)
{
	struct drm_gem_close gem = { .handle = handle };

	return ioctl(vgem, DRM_IOCTL_GEM_CLOSE, &gem) ? -errno : 0;
}

/* A descriptor of the dma-buf that an object came from, or -errno */
static inline int test_import_fd_raw(int vgem, __u32 handle)
{
	struct drm_prime_handle prime = {
		.handle = handle,
		.flags = DRM_CLOEXEC | DRM_RDWR,
	};

	return ioctl(vgem, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime) ? -errno : prime.fd;
}

/* vgem says that it works on an object until that fence. */
static inline int test_import_fence_raw(int vgem, __u32 handle, __u32 *fence)
{
	struct drm_vgem_fence_attach attach = {
		.handle = handle,
		.flags = VGEM_FENCE_WRITE,
	};

	if (ioctl(vgem, DRM_IOCTL_VGEM_FENCE_ATTACH, &attach))
		return -errno;
	*fence = attach.out_fence;
	return 0;
}

/* All fences of a dma-buf as one sync_file, or -errno */
static inline int test_buf_sync_raw(int buf)
{
	struct dma_buf_export_sync_file export = { .flags = DMA_BUF_SYNC_RW };

	return ioctl(buf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &export) ? -errno : export.fd;
}

/* Somebody works on a dma-buf until that fence. */
static inline int test_buf_add_sync_raw(int buf, int sync)
{
	struct dma_buf_import_sync_file import = { .flags = DMA_BUF_SYNC_WRITE, .fd = sync };

	return ioctl(buf, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &import) ? -errno : 0;
}

/* Of sw_sync: all up to that one. */
static inline int test_fence_signal_raw(struct test_fences *fences, __u32 fence)
{
	struct drm_vgem_fence_signal signal = { .fence = fence };
	__u32 one = 1;

	if (!fences->timeline)
		return ioctl(fences->file, DRM_IOCTL_VGEM_FENCE_SIGNAL, &signal) ? -errno : 0;
	return ioctl(fences->file, TEST_SW_SYNC_INC, &one) ? -errno : 0;
}

/* The sync_file; its name is in *fence. */
#define test_fence(fences, fence)						\
({										\
	int _sync = test_fence_raw(fences, fence);				\
										\
	ASSERT_LE(0, _sync)							\
		TH_LOG("no fence: %s", strerror(-_sync));			\
	_sync;									\
})

#define test_fence_signal(fences, fence)					\
	ASSERT_EQ(0, test_fence_signal_raw(fences, fence))

/* 1 signalled, 0 not yet, below 0 signalled with an error */
static inline int test_sync_status(int sync)
{
	struct sync_file_info info = {};

	return ioctl(sync, SYNC_IOC_FILE_INFO, &info) ? -errno : info.status;
}

/* One sync_file of two, as user space merges them; they stay the caller's. */
static inline int test_sync_merge(int a, int b)
{
	struct sync_merge_data merge = { .name = "merged", .fd2 = b };

	return ioctl(a, SYNC_IOC_MERGE, &merge) ? -errno : merge.fence;
}

/* What a worker does comes a moment after the fence. */
#define TEST_SOON (10 * 1000000000ULL * test_slow())

#define EXPECT_SOON(cond)							\
do {										\
	__u64 _end = test_now() + TEST_SOON;					\
										\
	while (!(cond) && test_now() < _end)					\
		usleep(1000);							\
	EXPECT_TRUE(cond);							\
} while (0)

#endif
