// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices as dma-heaps, as programs use them that were written for the kernel's own.
 */
#include <sys/resource.h>

#include "fence_test.h"

FIXTURE(heap)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int heap;
	int fd;
};

FIXTURE_VARIANT(heap)
{
	enum test_kind kind;
};

FIXTURE_VARIANT_ADD(heap, sysmem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(heap, small) { .kind = TEST_SMALL };

static int open_system_heap(void)
{
	return open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
}

#define USED() ((__u64)devpool_sysfs(self->index, "used"))

FIXTURE_SETUP(heap)
{
	test_setup(self, variant->kind);
	ASSERT_EQ(0, test_trim(self->index));
	ASSERT_EQ(0, USED());
	self->base.used = 0;
	self->heap = test_open_heap(self->index);
	ASSERT_LE(0, self->heap)
		TH_LOG("no heap of device %d: %s", self->index, strerror(errno));
}

FIXTURE_TEARDOWN(heap)
{
	close(self->heap);
	close(self->fd);
	EXPECT_EQ(0, test_trim(self->index));
	EXPECT_SOON(!USED());
	EXPECT_BASE(self->base, self->index);
}

static int heap_alloc_raw(int heap, __u64 len, __u32 fd_flags, __u64 heap_flags, __u32 fd)
{
	struct dma_heap_allocation_data data = {
		.len = len,
		.fd = fd,
		.fd_flags = fd_flags,
		.heap_flags = heap_flags,
	};

	if (ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data))
		return -errno;
	return data.fd;
}

#define HEAP_ALLOC(bytes)							\
({										\
	int _buf = heap_alloc_raw(self->heap, bytes, O_RDWR | O_CLOEXEC, 0, 0);	\
										\
	ASSERT_LE(0, _buf)							\
		TH_LOG("%llu bytes: %s", (unsigned long long)(bytes), strerror(-_buf)); \
	_buf;									\
})

/* The calls of bad input, and what the kernel's heaps answer */
static const struct {
	__u64 len;
	__u32 fd_flags;
	__u64 heap_flags;
	__u32 fd;
	int err;
} bad[] = {
	{ 0, O_RDWR, 0, 0, EINVAL },
	{ UINT64_MAX, O_RDWR, 0, 0, EINVAL },
	{ UINT64_MAX - TEST_PAGE + 2, O_RDWR, 0, 0, EINVAL },
	{ TEST_PAGE, O_RDWR, 1, 0, EINVAL },
	{ TEST_PAGE, O_RDWR, 1ULL << 63, 0, EINVAL },
	{ TEST_PAGE, O_RDWR | O_NONBLOCK, 0, 0, EINVAL },
	{ TEST_PAGE, ~0U, 0, 0, EINVAL },
	{ TEST_PAGE, O_RDWR, 0, 1, EINVAL },
	{ TEST_PAGE, O_RDWR, 0, ~0U, EINVAL },
};

TEST_F(heap, errors_are_those_of_the_kernels_heaps)
{
	int theirs = open_system_heap();
	struct dma_heap_allocation_data data = { .len = TEST_PAGE };
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		EXPECT_EQ(-bad[i].err, heap_alloc_raw(self->heap, bad[i].len, bad[i].fd_flags,
						      bad[i].heap_flags, bad[i].fd));
		if (theirs >= 0) {
			EXPECT_EQ(-bad[i].err,
				  heap_alloc_raw(theirs, bad[i].len, bad[i].fd_flags,
						 bad[i].heap_flags, bad[i].fd));
		}
	}
	EXPECT_EQ(-1, ioctl(self->heap, _IO('H', 1), &data));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, ioctl(self->heap, DMA_HEAP_IOCTL_ALLOC, NULL));
	EXPECT_EQ(EFAULT, errno);
	if (theirs >= 0) {
		EXPECT_EQ(-1, ioctl(theirs, _IO('H', 1), &data));
		EXPECT_EQ(EINVAL, errno);
		close(theirs);
	}
	EXPECT_EQ(0, USED());
}

TEST_F(heap, what_is_too_much)
{
	__u64 bytes = self->info.out_bytes;
	int bufs[4096];
	int nr = 0;

	/* The kernel's heap is not asked: it takes all that there is before it says so. */
	EXPECT_EQ(-ENOMEM, heap_alloc_raw(self->heap, bytes + TEST_PAGE, O_RDWR, 0, 0));
	EXPECT_EQ(-ENOMEM, heap_alloc_raw(self->heap, 1ULL << 62, O_RDWR, 0, 0));
	EXPECT_EQ(0, USED());
	while (nr < 4096 && (bufs[nr] = heap_alloc_raw(self->heap, 3 * MIB, O_RDWR, 0, 0)) >= 0)
		nr++;
	EXPECT_EQ(-ENOMEM, bufs[nr]);
	EXPECT_LT(0, nr);
	EXPECT_GE(4 * MIB, bytes - USED());
	close(bufs[--nr]);
	bufs[nr++] = HEAP_ALLOC(3 * MIB);
	while (nr)
		close(bufs[--nr]);
}

/* Programs are older and newer than the kernel. */
TEST_F(heap, structs_of_other_sizes)
{
	struct {
		struct dma_heap_allocation_data data;
		__u64 more;
	} longer = { .data = { .len = TEST_PAGE, .fd_flags = O_RDWR }, .more = POISON };
	/* Without the flags of the heap */
	struct {
		__u64 len;
		__u32 fd;
		__u32 fd_flags;
	} shorter = { .len = TEST_PAGE, .fd_flags = O_RDWR };

	ASSERT_EQ(0, ioctl(self->heap, _IOWR('H', 0, typeof(longer)), &longer));
	EXPECT_EQ(POISON, longer.more);
	EXPECT_EQ(TEST_PAGE, lseek(longer.data.fd, 0, SEEK_END));
	close(longer.data.fd);
	ASSERT_EQ(0, ioctl(self->heap, _IOWR('H', 0, typeof(shorter)), &shorter));
	EXPECT_EQ(TEST_PAGE, lseek(shorter.fd, 0, SEEK_END));
	close(shorter.fd);
}

/* A longer struct has to be there as a whole, as for the kernel's heaps. */
TEST_F(heap, the_end_of_a_struct_is_missing)
{
	struct longer {
		struct dma_heap_allocation_data data;
		__u64 more;
	} *longer;
	int theirs = open_system_heap();
	char *p;

	p = mmap(NULL, 2 * TEST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, munmap(p + TEST_PAGE, TEST_PAGE));
	longer = (void *)(p + TEST_PAGE - sizeof(longer->data));
	longer->data = (struct dma_heap_allocation_data){ .len = TEST_PAGE, .fd_flags = O_RDWR };
	EXPECT_EQ(-1, ioctl(self->heap, _IOWR('H', 0, struct longer), longer));
	EXPECT_EQ(EFAULT, errno);
	if (theirs >= 0) {
		EXPECT_EQ(-1, ioctl(theirs, _IOWR('H', 0, struct longer), longer));
		EXPECT_EQ(EFAULT, errno);
		close(theirs);
	}
	EXPECT_EQ(0, USED());
	ASSERT_EQ(0, ioctl(self->heap, DMA_HEAP_IOCTL_ALLOC, &longer->data));
	close(longer->data.fd);
	munmap(p, TEST_PAGE);
}

/* There is no room for the answer: there is no buffer and no descriptor. */
TEST_F(heap, the_struct_is_read_only)
{
	struct dma_heap_allocation_data *data;
	int before, after;

	data = mmap(NULL, TEST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, data);
	*data = (struct dma_heap_allocation_data){ .len = 4 * MIB, .fd_flags = O_RDWR };
	ASSERT_EQ(0, mprotect(data, TEST_PAGE, PROT_READ));
	before = dup(self->fd);
	close(before);
	EXPECT_EQ(-1, ioctl(self->heap, DMA_HEAP_IOCTL_ALLOC, data));
	EXPECT_EQ(EFAULT, errno);
	after = dup(self->fd);
	close(after);
	EXPECT_EQ(before, after);
	EXPECT_EQ(0, test_trim(self->index));
	EXPECT_EQ(0, USED());
	munmap(data, TEST_PAGE);
}

TEST_F(heap, the_descriptor_is_as_asked_for)
{
	int buf = heap_alloc_raw(self->heap, 100, O_RDONLY, 0, 0);

	ASSERT_LE(0, buf);
	EXPECT_EQ(0, fcntl(buf, F_GETFD));
	EXPECT_EQ(O_RDONLY, fcntl(buf, F_GETFL) & O_ACCMODE);
	EXPECT_EQ(TEST_PAGE, lseek(buf, 0, SEEK_END));
	close(buf);
	buf = HEAP_ALLOC(1);
	EXPECT_EQ(FD_CLOEXEC, fcntl(buf, F_GETFD));
	EXPECT_EQ(O_RDWR, fcntl(buf, F_GETFL) & O_ACCMODE);
	close(buf);
}

static const __u64 sizes[] = {
	4 * KIB, 8 * KIB, 64 * KIB, 256 * KIB, MIB, MIB + 4 * KIB, 2 * MIB, 3 * MIB,
};

#define NR_SIZES (sizeof(sizes) / sizeof(*sizes))

/* Each time another process, which dies with all that it has */
TEST_F(heap, F13_buffers_are_zero)
{
	unsigned int round, i;
	pid_t child;

	for (round = 0; round < 4; round++) {
		child = test_fork();
		ASSERT_LE(0, child);
		if (child) {
			EXPECT_EQ(0, test_wait(child));
			continue;
		}
		for (i = 0; i < 2 * NR_SIZES; i++) {
			__u64 size = sizes[(i + round) % NR_SIZES];
			int buf = heap_alloc_raw(self->heap, size, O_RDWR, 0, 0);
			char *p = buf < 0 ? NULL : devpool_map_raw(buf, 0, size);

			if (!p)
				_exit(1);
			if (test_not_zero(p, size) >= 0)
				_exit(2);
			test_fill(p, size, i + 1);
			/* Every other one is used again within the process. */
			munmap(p, size);
			if (i % 2)
				close(buf);
		}
		_exit(0);
	}
}

TEST_F(heap, small_buffers_share_chunks)
{
	int bufs[100];
	int i;

	for (i = 0; i < 100; i++)
		bufs[i] = HEAP_ALLOC(TEST_PAGE);
	EXPECT_EQ(self->info.out_chunk, USED());
	for (i = 0; i < 100; i++)
		close(bufs[i]);
}

TEST_F(heap, a_buffer_outlives_its_heap_file)
{
	int buf = HEAP_ALLOC(3 * MIB);
	char *p = test_map(buf, 0, 3 * MIB);

	test_fill(p, 3 * MIB, 2);
	close(self->heap);
	close(buf);
	EXPECT_EQ(0, test_trim(self->index));
	EXPECT_LE(3 * MIB, USED());
	EXPECT_EQ(-1, test_differs(p, 3 * MIB, 2));
	munmap(p, 3 * MIB);
	self->heap = test_open_heap(self->index);
	EXPECT_EQ(0, test_trim(self->index));
	EXPECT_EQ(0, USED());
}

/* What is kept is one chunk; the stock has what will be wanted again. */
TEST_F(heap, the_cache_is_bounded)
{
	int bufs[8];
	int i;

	for (i = 0; i < 8; i++)
		bufs[i] = HEAP_ALLOC(self->info.out_bytes / 16);
	for (i = 0; i < 8; i++)
		close(bufs[i]);
	EXPECT_SOON(USED() <= self->info.out_chunk);
	bufs[0] = HEAP_ALLOC(TEST_PAGE);
	close(bufs[0]);
	EXPECT_EQ(self->info.out_chunk, USED());
}

static __u64 zeroed_bytes(int fd)
{
	struct devpool_stats stats;

	if (devpool_stats_flags_raw(fd, DEVPOOL_STATS_DEVICE, &stats))
		return POISON;
	return stats.out_zeroed_bytes;
}

/* Not while somebody waits for the buffer, if there was time before */
TEST_F(heap, buffers_are_zeroed_when_they_are_closed)
{
	__u64 before = zeroed_bytes(self->fd);
	unsigned int i;
	char *p;
	int buf;

	for (i = 0; i < 3 * NR_SIZES; i++) {
		__u64 size = sizes[i / 3];

		buf = HEAP_ALLOC(size);
		p = test_map(buf, 0, size);
		EXPECT_EQ(-1, test_not_zero(p, size));
		test_fill(p, size, i + 1);
		munmap(p, size);
		close(buf);
		EXPECT_SOON(USED() <= self->info.out_chunk);
		test_settled_stock(self->index);
	}
	EXPECT_EQ(before, zeroed_bytes(self->fd));
}

/* Memory that is being zeroed is not missing. */
TEST_F(heap, a_client_waits_for_what_is_being_zeroed)
{
	__u64 part = self->info.out_bytes / 32, bytes = self->info.out_bytes, addr;
	int bufs[32];
	int i;

	for (i = 0; i < 32; i++)
		bufs[i] = HEAP_ALLOC(part);
	test_err_alloc(ENOSPC, self->fd, default_pool, 4 * MIB);
	for (i = 0; i < 32; i++)
		close(bufs[i]);
	addr = test_alloc(self->fd, default_pool, bytes);
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
}

/* Nobody is refused what the heap only keeps. */
TEST_F(heap, a_client_gets_what_the_heap_has_cached)
{
	__u64 addr;

	close(HEAP_ALLOC(self->info.out_bytes / 2));
	EXPECT_LT(0, USED());
	addr = test_alloc(self->fd, default_pool, self->info.out_bytes);
	EXPECT_EQ(self->info.out_bytes, USED());
	test_free(self->fd, addr);
	/* And the other way round, as for every client's cache that is not promised */
	EXPECT_EQ(-ENOMEM, heap_alloc_raw(self->heap, 4 * MIB, O_RDWR, 0, 0));
	test_empty_cache(self->fd, default_pool, 0, 0);
	close(HEAP_ALLOC(4 * MIB));
}

TEST_F(heap, a_fence_keeps_a_buffer)
{
	struct test_fences fences = { .file = test_open_vgem() };
	const __u64 sizes[] = { TEST_PAGE, 4 * MIB };
	__u32 handle, fence = 0;
	int buf, i;

	ASSERT_LE(0, fences.file);
	for (i = 0; i < 2; i++) {
		buf = HEAP_ALLOC(sizes[i]);
		handle = test_import(fences.file, buf);
		ASSERT_EQ(0, test_import_fence_raw(fences.file, handle, &fence));
		EXPECT_EQ(0, test_import_end_raw(fences.file, handle));
		close(buf);
		EXPECT_EQ(0, test_trim(self->index));
		EXPECT_EQ(round_to(sizes[i], self->info.out_chunk), USED());
		test_fence_signal(&fences, fence);
		EXPECT_SOON(!test_trim(self->index) && !USED());
	}
	close(fences.file);
}

TEST_F(heap, descriptors_run_out)
{
	struct rlimit was, limit;
	int bufs[64];
	int nr = 0;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &was));
	limit = was;
	limit.rlim_cur = 64;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	while ((bufs[nr] = heap_alloc_raw(self->heap, TEST_PAGE, O_RDWR, 0, 0)) >= 0)
		nr++;
	EXPECT_EQ(-EMFILE, bufs[nr]);
	EXPECT_LT(0, nr);
	while (nr)
		close(bufs[--nr]);
	setrlimit(RLIMIT_NOFILE, &was);
}

/* No address of a client's leads to what the heap has. */
TEST_F(heap, a_buffer_is_no_block_of_a_client)
{
	int buf = HEAP_ALLOC(4 * MIB);
	struct devpool_snapshot_entry entry[4];
	char *p = test_map(buf, 0, 4 * MIB);
	__u64 addr;
	int nr;

	nr = test_snapshot(self->fd, default_pool, DEVPOOL_SNAPSHOT_DEVICE, entry, 4);
	ASSERT_EQ(1, nr);
	addr = entry[0].addr;
	EXPECT_EQ(4 * MIB, entry[0].bytes);
	EXPECT_STREQ("dma_heap", (char *)entry[0].comm);
	test_err_free(ENOENT, self->fd, addr);
	test_err_retain(ENOENT, self->fd, addr);
	test_err_export(ENOENT, self->fd, addr, O_RDWR);
	test_err_map(ENOENT, self->fd, addr, TEST_PAGE);
	munmap(p, 4 * MIB);
	close(buf);
}

TEST(a_device_without_memory_has_no_heap)
{
	int null = devpool_find("null", false);

	ASSERT_LE(0, null);
	EXPECT_EQ(-1, test_open_heap(null));
	EXPECT_EQ(ENOENT, errno);
}

TEST_HARNESS_MAIN
