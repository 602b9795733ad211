// SPDX-License-Identifier: GPL-2.0-only
/*
 * Blocks as dma-bufs: for drivers that are not devpool's, and for who has nothing of
 * devpool's open. The driver here is vgem.
 */
#include <linux/udmabuf.h>
#include <pthread.h>
#include <sys/resource.h>

#include "fence_test.h"

FIXTURE(export)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	struct test_fences fences;
	int pool;
	int index;
	int fd;
};

FIXTURE_SETUP(export)
{
	test_setup(self, TEST_SYSMEM);
	self->fences = (struct test_fences){ .file = test_open_vgem() };
	/* All kernels have vgem: without it nothing is tested. */
	ASSERT_LE(0, self->fences.file);
	self->pool = test_pool_create(self->fd, &self->id);
	test_catch();
}

/* The tests close what they made, these two but for those that say so. */
FIXTURE_TEARDOWN(export)
{
	if (self->pool >= 0)
		close(self->pool);
	if (self->fd >= 0)
		close(self->fd);
	close(self->fences.file);
	EXPECT_SOON(!devpool_sysfs(self->index, "pools"));
	EXPECT_SOON(devpool_sysfs(self->index, "used") == self->base.used);
	EXPECT_BASE(self->base, self->index);
}

#define USED() ((__u64)devpool_sysfs(self->index, "used"))
#define VGEM (self->fences.file)

/* Closes all that leads to the pool but dma-bufs and mappings of them. */
#define CLOSE_ALL()								\
do {										\
	close(self->pool);							\
	close(self->fd);							\
	self->pool = -1;							\
	self->fd = -1;								\
} while (0)

#define EXPORTABLE(size)							\
({										\
	struct devpool_alloc _alloc = {						\
		.bytes = size,							\
		.flags = DEVPOOL_ALLOC_EXPORTABLE,				\
		.pool = self->id,						\
	};									\
										\
	ASSERT_EQ(0, devpool_alloc_opts_raw(self->fd, &_alloc));		\
	_alloc.out_addr;							\
})

static inline __u64 inode(int fd)
{
	struct stat stat;

	return fstat(fd, &stat) ? 0 : stat.st_ino;
}

TEST_F(export, the_dma_buf_is_the_block)
{
	const __u64 sizes[] = { 4 * KIB, 12 * KIB, MIB, MIB + 4 * KIB, 2 * MIB, 10 * MIB };
	unsigned int i;

	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		__u64 addr = EXPORTABLE(sizes[i]);
		int buf = test_export(self->fd, addr);
		char *block = test_map(self->fd, addr, sizes[i]);
		char *p = test_map(buf, 0, sizes[i]);
		char *last = test_map(buf, sizes[i] - TEST_PAGE, TEST_PAGE);

		EXPECT_EQ(sizes[i], lseek(buf, 0, SEEK_END));
		test_fill(block, sizes[i], i << 20);
		EXPECT_EQ(-1, test_differs(p, sizes[i], i << 20));
		test_fill(p, sizes[i], i << 24);
		EXPECT_EQ(-1, test_differs(block, sizes[i], i << 24));
		EXPECT_EQ(-1, test_differs(last, TEST_PAGE, (i << 24) +
					   (sizes[i] - TEST_PAGE) / sizeof(__u64)));
		munmap(last, TEST_PAGE);
		munmap(p, sizes[i]);
		munmap(block, sizes[i]);
		close(buf);
		test_free(self->fd, addr);
	}
}

TEST_F(export, a_block_has_one_dma_buf)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int buf = test_export(self->fd, addr);
	int again = test_export(self->fd, addr);
	__u64 first = inode(buf);

	EXPECT_NE(buf, again);
	EXPECT_EQ(first, inode(again));
	close(buf);
	EXPECT_EQ(first, inode(again));
	buf = test_export(self->fd, addr);
	EXPECT_EQ(first, inode(buf));
	close(buf);
	close(again);
	/* All of it is gone. */
	buf = test_export(self->fd, addr);
	EXPECT_NE(first, inode(buf));
	close(buf);
	test_free(self->fd, addr);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

TEST_F(export, the_descriptor_is_as_asked_for)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int buf, other;

	ASSERT_EQ(0, devpool_export_raw(self->fd, addr, O_RDONLY, &buf));
	EXPECT_EQ(0, fcntl(buf, F_GETFD));
	EXPECT_EQ(O_RDONLY, fcntl(buf, F_GETFL) & O_ACCMODE);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, buf, 0));
	EXPECT_EQ(EACCES, errno);
	test_err_export(EBUSY, self->fd, addr, O_RDWR);
	ASSERT_EQ(0, devpool_export_raw(self->fd, addr, O_RDONLY | O_CLOEXEC, &other));
	EXPECT_EQ(FD_CLOEXEC, fcntl(other, F_GETFD));
	close(other);
	close(buf);
	buf = test_export(self->fd, addr);
	EXPECT_EQ(O_RDWR, fcntl(buf, F_GETFL) & O_ACCMODE);
	test_err_export(EBUSY, self->fd, addr, O_RDONLY);
	close(buf);
}

TEST_F(export, F7_a_block_lives_by_its_dma_buf)
{
	__u64 addr = test_alloc(self->fd, self->id, 6 * MIB);
	char *p = test_map(self->fd, addr, 6 * MIB);
	int buf = test_export(self->fd, addr);

	test_fill(p, 6 * MIB, 7);
	munmap(p, 6 * MIB);
	test_free(self->fd, addr);
	EXPECT_EQ(6 * MIB, test_pending(self->fd, self->id));
	test_err_free(ENOENT, self->fd, addr);
	test_err_export(ENOENT, self->fd, addr, O_RDWR);
	CLOSE_ALL();
	EXPECT_EQ(6 * MIB, USED());

	p = test_map(buf, 0, 6 * MIB);
	EXPECT_EQ(-1, test_differs(p, 6 * MIB, 7));
	test_fill(p, 6 * MIB, 8);
	close(buf);
	EXPECT_EQ(6 * MIB, USED());
	EXPECT_EQ(-1, test_differs(p, 6 * MIB, 8));
	munmap(p, 6 * MIB);
	EXPECT_EQ(0, USED());
}

TEST_F(export, a_live_block_outlives_its_dma_buf)
{
	__u64 addr = test_alloc(self->fd, self->id, 6 * MIB);
	struct devpool_pool_stat stat;

	close(test_export(self->fd, addr));
	stat = test_pool_stat(self->fd, self->id);
	EXPECT_EQ(6 * MIB, stat.out_allocated.current);
	test_free(self->fd, addr);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(addr, test_alloc(self->fd, self->id, 6 * MIB));
}

TEST_F(export, a_pending_block_is_cached_when_the_dma_buf_goes)
{
	__u64 addr = test_alloc(self->fd, self->id, 6 * MIB);
	int buf = test_export(self->fd, addr);
	struct devpool_pool_stat stat;

	test_free(self->fd, addr);
	stat = test_pool_stat(self->fd, self->id);
	EXPECT_EQ(0, stat.out_allocated.current);
	EXPECT_EQ(6 * MIB, stat.out_active.current);
	EXPECT_POOL_SOUND(stat);
	close(buf);
	stat = test_pool_stat(self->fd, self->id);
	EXPECT_EQ(0, stat.out_active.current);
	EXPECT_EQ(6 * MIB, stat.out_resident.current);
	EXPECT_POOL_SOUND(stat);
	EXPECT_EQ(addr, test_alloc(self->fd, self->id, 6 * MIB));
}

TEST_F(export, the_block_stays_where_it_is)
{
	__u64 before = test_alloc(self->fd, self->id, 4 * MIB);
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	__u64 behind = test_alloc(self->fd, self->id, 4 * MIB);
	int buf = test_export(self->fd, addr);
	char *p = test_map(buf, 0, 4 * MIB);
	struct devpool_empty_cache emptied;

	test_fill(p, 4 * MIB, 3);
	test_free(self->fd, before);
	test_free(self->fd, addr);
	test_free(self->fd, behind);
	/* What is around it is moved behind other addresses, then taken away. */
	behind = test_alloc(self->fd, self->id, 8 * MIB);
	EXPECT_EQ(12 * MIB, test_resident(self->fd, self->id));
	test_free(self->fd, behind);
	emptied = test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(8 * MIB, emptied.out_freed);
	EXPECT_EQ(4 * MIB, emptied.out_pending);
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 3));
	munmap(p, 4 * MIB);
	close(buf);
	emptied = test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(4 * MIB, emptied.out_freed);
}

TEST_F(export, what_cannot_be_exported)
{
	__u64 small = test_alloc(self->fd, self->id, 512);
	__u64 odd = test_alloc_align(self->fd, self->id, 4608, TEST_PAGE);
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int other = test_open(self->index);
	int null = devpool_find("null", false);
	__u64 nowhere;

	test_err_export(EINVAL, self->fd, small, O_RDWR);
	test_err_export(EINVAL, self->fd, odd, O_RDWR);
	test_err_export(ENOENT, self->fd, addr + TEST_PAGE, O_RDWR);
	test_err_export(ENOENT, self->fd, 0, O_RDWR);
	test_err_export(ENOENT, self->fd, UINT64_MAX, O_RDWR);
	test_err_export(ENOENT, other, addr, O_RDWR);
	test_err_export(EOPNOTSUPP, self->fd, addr, O_RDWR | O_NONBLOCK);
	test_err_export(EOPNOTSUPP, self->fd, addr, O_RDWR | 1U << 31);
	test_err_export(EINVAL, self->fd, addr, O_ACCMODE);
	EXPECT_EQ(-ENOTTY, devpool_export_raw(self->pool, addr, O_RDWR, &(int){ 0 }));
	test_free(self->fd, addr);
	test_err_export(ENOENT, self->fd, addr, O_RDWR);
	close(other);

	ASSERT_LE(0, null);
	other = test_open(null);
	nowhere = test_alloc(other, default_pool, 4 * MIB);
	test_err_export(EOPNOTSUPP, other, nowhere, O_RDWR);
	EXPECT_FALSE(test_info(other).out_features & DEVPOOL_FEATURE_EXPORT);
	EXPECT_TRUE(self->info.out_features & DEVPOOL_FEATURE_EXPORT);
	close(other);
}

/* As mmap() of that file does not give it either */
TEST_F(export, no_more_than_the_file_was_opened_for)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int reader, buf;
	char path[32];

	snprintf(path, sizeof(path), "/dev/devpool%d", self->index);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, reader);
	ASSERT_EQ(2, devpool_pool_attach_raw(reader, self->pool, &(struct devpool_pool_id){}));
	test_retain(reader, addr);
	test_err_export(EACCES, reader, addr, O_RDWR);
	test_err_export(EACCES, reader, addr, O_WRONLY);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, reader, addr));
	EXPECT_EQ(EACCES, errno);
	ASSERT_EQ(0, devpool_export_raw(reader, addr, O_RDONLY, &buf));
	close(buf);
	close(reader);
	buf = test_export(self->fd, addr);
	close(buf);
	test_free(self->fd, addr);
}

/* A member that only retains the block may export it; nobody else. */
TEST_F(export, who_has_a_reference_may_export)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int member = test_open(self->index);
	struct devpool_pool_id id;
	int mine, theirs;

	test_pool_attach(member, self->pool, &id);
	test_err_export(ENOENT, member, addr, O_RDWR);
	test_retain(member, addr);
	theirs = test_export(member, addr);
	mine = test_export(self->fd, addr);
	EXPECT_EQ(inode(mine), inode(theirs));
	test_free(self->fd, addr);
	test_err_export(ENOENT, self->fd, addr, O_RDWR);
	EXPECT_EQ(4 * MIB, test_pool_stat(self->fd, self->id).out_allocated.current);
	close(member);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	close(mine);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	close(theirs);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

TEST_F(export, F4_mappings_of_a_dma_buf)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int buf = test_export(self->fd, addr);
	char *p;

	test_err_map(EINVAL, buf, 0, 4 * MIB + TEST_PAGE);
	test_err_map(EINVAL, buf, 4 * MIB, TEST_PAGE);
	test_err_map(EINVAL, buf, 4 * MIB - TEST_PAGE, 2 * TEST_PAGE);
	test_err_map(EINVAL, buf, addr, TEST_PAGE);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, buf, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MIB, PROT_READ | PROT_EXEC, MAP_SHARED, buf, 0));
	EXPECT_EQ(EPERM, errno);

	p = test_map(buf, 0, 4 * MIB);
	test_fill(p, 4 * MIB, 9);
	EXPECT_EQ(-1, mprotect(p, MIB, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(MAP_FAILED, mremap(p, 4 * MIB, 6 * MIB, MREMAP_MAYMOVE));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, madvise(p, 4 * MIB, MADV_DOFORK));
	EXPECT_EQ(EINVAL, errno);
	/* A hole in the middle, and what is left is still right. */
	EXPECT_EQ(0, munmap(p + MIB, MIB));
	EXPECT_EQ(SIGSEGV, test_touch(p + MIB));
	EXPECT_EQ(-1, test_differs(p, MIB, 9));
	EXPECT_EQ(-1, test_differs(p + 2 * MIB, 2 * MIB, 9 + 2 * MIB / sizeof(__u64)));
	munmap(p, 4 * MIB);
	close(buf);
}

static int order_of(int n, int place)
{
	static const int factorial[] = { 1, 1, 2, 6, 24, 120 };
	int left[6] = { 0, 1, 2, 3, 4, 5 };
	int i, pick;

	for (i = 0;; i++) {
		pick = n / factorial[5 - i];
		n %= factorial[5 - i];
		if (i == place)
			return left[pick];
		memmove(&left[pick], &left[pick + 1], (5 - pick) * sizeof(*left));
	}
}

/* Block, pool file, device file, mapping, dma-buf and a peer, in every order */
TEST_F_TIMEOUT(export, A13_every_order_of_ending, 120)
{
	int order, i;

	CLOSE_ALL();
	for (order = 0; order < 720; order++) {
		int fd = test_open(self->index), peer = test_open(self->index), pool, buf;
		struct devpool_pool_id id;
		bool open = true;
		char *p, *q = NULL;
		__u64 addr;

		pool = test_pool_create(fd, &id);
		addr = test_alloc(fd, id, 2 * MIB);
		buf = test_export(fd, addr);
		test_pool_attach(peer, pool, &id);
		test_retain(peer, addr);
		p = test_map(buf, 0, 2 * MIB);
		test_fill(p, 2 * MIB, order);
		for (i = 0; i < 6; i++) {
			switch (order_of(order, i)) {
			case 0:
				if (open)
					test_free(fd, addr);
				break;
			case 1:
				close(pool);
				break;
			case 2:
				close(fd);
				open = false;
				break;
			case 3:
				EXPECT_EQ(-1, test_differs(p, 2 * MIB, order));
				munmap(p, 2 * MIB);
				break;
			case 4:
				q = test_map(buf, 0, TEST_PAGE);
				EXPECT_EQ(-1, test_differs(q, TEST_PAGE, order));
				munmap(q, TEST_PAGE);
				close(buf);
				break;
			case 5:
				q = test_map(peer, addr, TEST_PAGE);
				EXPECT_EQ(-1, test_differs(q, TEST_PAGE, order));
				munmap(q, TEST_PAGE);
				close(peer);
				break;
			}
		}
		ASSERT_EQ(0, USED())
			TH_LOG("order %d", order);
		EXPECT_EQ(0, devpool_sysfs(self->index, "pools"));
	}
}

/* What one client has shared and given up nobody else reads. */
TEST_F(export, F10_the_next_owner_reads_zero)
{
	__u64 addr = test_alloc(self->fd, self->id, 16 * MIB);
	int buf = test_export(self->fd, addr);
	char *p = test_map(buf, 0, 16 * MIB);
	int i, other;

	test_fill(p, 16 * MIB, 10);
	CLOSE_ALL();
	munmap(p, 16 * MIB);
	close(buf);
	EXPECT_EQ(0, USED());
	other = test_open(self->index);
	for (i = 0; i < 4; i++) {
		addr = test_alloc(other, default_pool, 16 * MIB);
		p = test_map(other, addr, 16 * MIB);
		EXPECT_EQ(-1, test_not_zero(p, 16 * MIB));
		munmap(p, 16 * MIB);
	}
	close(other);
}

/* A process that has nothing but the dma-buf, and its mapping of that */
TEST_F(export, F3_the_exporter_is_killed)
{
	int buf, sock[2];
	pid_t child;
	char *p;

	CLOSE_ALL();
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	child = test_fork();
	if (!child) {
		int fd = devpool_open_node(self->index), mine;
		__u64 addr;

		if (fd < 0 || devpool_alloc_raw(fd, default_pool, 4 * MIB, &addr) ||
		    devpool_export_raw(fd, addr, O_RDWR, &mine))
			_exit(1);
		p = devpool_map_raw(fd, addr, 4 * MIB);
		if (!p)
			_exit(2);
		test_fill(p, 4 * MIB, 11);
		test_send_fd(sock[1], mine);
		pause();
		_exit(3);
	}
	buf = test_receive_fd(sock[0]);
	ASSERT_LE(0, buf);
	p = test_map(buf, 0, 4 * MIB);
	EXPECT_EQ(-1, test_differs(p, 2 * MIB, 11));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 11));
	EXPECT_EQ(4 * MIB, USED());
	munmap(p, 4 * MIB);
	EXPECT_EQ(4 * MIB, USED());
	close(buf);
	EXPECT_EQ(0, USED());
	close(sock[0]);
	close(sock[1]);
}

/* What a member has exported lives on when the creator dies; the creator's is back. */
TEST_F(export, F5_members_export_and_the_creator_dies)
{
	int fd, pool, mine, sock[2];
	struct devpool_pool_id id;
	__u64 addr, other;
	pid_t child;
	char *p;

	CLOSE_ALL();
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	child = test_fork();
	if (!child) {
		int creator = devpool_open_node(self->index), file, buf;
		struct devpool_pool_id made = default_pool;

		if (creator < 0 || devpool_pool_create_raw(creator, &made, &file) ||
		    devpool_alloc_raw(creator, made, 4 * MIB, &addr) ||
		    devpool_export_raw(creator, addr, O_RDWR | O_CLOEXEC, &buf))
			_exit(1);
		test_send_fd(sock[1], file);
		pause();
		_exit(2);
	}
	pool = test_receive_fd(sock[0]);
	ASSERT_LE(0, pool);
	fd = test_open(self->index);
	test_pool_attach(fd, pool, &id);
	close(pool);
	addr = test_alloc(fd, id, 6 * MIB);
	mine = test_export(fd, addr);
	p = test_map(mine, 0, 6 * MIB);
	test_fill(p, 6 * MIB, 5);
	other = test_alloc(fd, id, 2 * MIB);
	test_free(fd, other);
	EXPECT_EQ(10 * MIB, test_pool_stat(fd, id).out_allocated.current);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	EXPECT_EQ(6 * MIB, test_pool_stat(fd, id).out_active.current);
	test_empty_cache(fd, id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(6 * MIB, USED());
	EXPECT_EQ(-1, test_differs(p, 6 * MIB, 5));
	test_free(fd, addr);
	EXPECT_EQ(6 * MIB, test_pending(fd, id));
	close(fd);
	EXPECT_EQ(-1, test_differs(p, 6 * MIB, 5));
	munmap(p, 6 * MIB);
	close(mine);
	EXPECT_EQ(0, USED());
	close(sock[0]);
	close(sock[1]);
}

/* The peer exports what it has only retained, when the owner has freed it and is gone. */
TEST_F(export, F6_the_peer_exports_what_the_owner_has_freed)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	char *p = test_map(self->fd, addr, 4 * MIB);
	int member = test_open(self->index), buf;
	struct devpool_pool_id id;

	test_fill(p, 4 * MIB, 6);
	munmap(p, 4 * MIB);
	test_pool_attach(member, self->pool, &id);
	test_retain(member, addr);
	test_free(self->fd, addr);
	CLOSE_ALL();
	buf = test_export(member, addr);
	p = test_map(buf, 0, 4 * MIB);
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 6));
	close(buf);
	test_free(member, addr);
	EXPECT_EQ(4 * MIB, test_pending(member, id));
	close(member);
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 6));
	munmap(p, 4 * MIB);
	EXPECT_EQ(0, USED());
}

/* A dma-buf alone keeps the module, and so does a fence in one that is gone. */
TEST_F(export, F12_the_module_is_in_use)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int buf = test_export(self->fd, addr), sync;
	__u32 fence;

	CLOSE_ALL();
	EXPECT_EQ(-1, syscall(SYS_delete_module, "devpool", O_NONBLOCK));
	EXPECT_EQ(EWOULDBLOCK, errno);
	sync = test_fence(&self->fences, &fence);
	EXPECT_EQ(0, test_buf_add_sync_raw(buf, sync));
	close(sync);
	close(buf);
	EXPECT_EQ(-1, syscall(SYS_delete_module, "devpool", O_NONBLOCK));
	EXPECT_EQ(EWOULDBLOCK, errno);
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!USED());
}

TEST_F(export, a_driver_keeps_what_it_imports)
{
	__u64 addr = test_alloc(self->fd, self->id, 6 * MIB);
	int buf = test_export(self->fd, addr);
	__u64 first = inode(buf);
	__u32 handle;
	char *p;

	p = test_map(self->fd, addr, 6 * MIB);
	test_fill(p, 6 * MIB, 12);
	munmap(p, 6 * MIB);
	handle = test_import(VGEM, buf);
	close(buf);
	test_free(self->fd, addr);
	CLOSE_ALL();
	EXPECT_EQ(6 * MIB, USED());
	buf = test_import_fd_raw(VGEM, handle);
	ASSERT_LE(0, buf);
	EXPECT_EQ(first, inode(buf));
	p = test_map(buf, 0, 6 * MIB);
	EXPECT_EQ(-1, test_differs(p, 6 * MIB, 12));
	munmap(p, 6 * MIB);
	close(buf);
	EXPECT_EQ(6 * MIB, USED());
	EXPECT_EQ(0, test_import_end_raw(VGEM, handle));
	EXPECT_EQ(0, USED());
}

TEST_F(export, cpu_access_of_what_a_driver_has_mapped)
{
	__u64 addr = test_alloc(self->fd, self->id, 6 * MIB);
	int buf = test_export(self->fd, addr);
	__u32 handle = test_import(VGEM, buf);
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_RW | DMA_BUF_SYNC_START };

	EXPECT_EQ(0, ioctl(buf, DMA_BUF_IOCTL_SYNC, &sync));
	sync.flags = DMA_BUF_SYNC_RW | DMA_BUF_SYNC_END;
	EXPECT_EQ(0, ioctl(buf, DMA_BUF_IOCTL_SYNC, &sync));
	EXPECT_EQ(0, test_import_end_raw(VGEM, handle));
	close(buf);
}

TEST_F(export, a_table_has_an_entry_for_each_run)
{
	const __u64 sizes[] = { 4 * KIB, MIB, 3 * MIB, 10 * MIB, 64 * MIB };
	int fd = test_open_importer();
	unsigned int i;

	ASSERT_LE(0, fd);
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		__u64 addr = EXPORTABLE(sizes[i]);
		struct importer arg = { .buf = test_export(self->fd, addr) };

		ASSERT_EQ(0, ioctl(fd, IMPORTER_TABLE, &arg));
		EXPECT_EQ(sizes[i] / TEST_PAGE, arg.pages);
		EXPECT_EQ(0, arg.unmerged);
		EXPECT_LT(0, arg.entries);
		/* Of chunks that are one run each */
		EXPECT_TRUE(test_pool_stat(self->fd, self->id).out_fallbacks ||
			    arg.entries <= 1 + sizes[i] / self->info.out_chunk);
		close(arg.buf);
		test_free(self->fd, addr);
	}
	close(fd);
}

TEST_F(export, the_kernel_maps_the_block)
{
	const __u64 sizes[] = { 4 * KIB, MIB, 3 * MIB, 10 * MIB };
	int fd = test_open_importer();
	unsigned int i;

	ASSERT_LE(0, fd);
	for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		__u64 addr = EXPORTABLE(sizes[i]);
		struct importer arg = {
			.buf = test_export(self->fd, addr),
			.tag = 77 << i,
		};
		char *p = test_map(self->fd, addr, sizes[i]);

		EXPECT_EQ(0, ioctl(fd, IMPORTER_FILL, &arg));
		EXPECT_EQ(-1, test_differs(p, sizes[i], arg.tag));
		test_fill(p, sizes[i], 5);
		arg.tag = 5;
		EXPECT_EQ(0, ioctl(fd, IMPORTER_LOOK, &arg));
		EXPECT_EQ(0, arg.differs);
		munmap(p, sizes[i]);
		close(arg.buf);
		test_free(self->fd, addr);
	}
	close(fd);
}

TEST_F(export, an_attached_device_keeps_the_block)
{
	__u64 addr = test_alloc(self->fd, self->id, 6 * MIB);
	struct importer arg = { .buf = test_export(self->fd, addr) };
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_RW | DMA_BUF_SYNC_START };
	int fd = test_open_importer();

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ioctl(fd, IMPORTER_HOLD, &arg));
	EXPECT_EQ(0, ioctl(arg.buf, DMA_BUF_IOCTL_SYNC, &sync));
	sync.flags = DMA_BUF_SYNC_RW | DMA_BUF_SYNC_END;
	EXPECT_EQ(0, ioctl(arg.buf, DMA_BUF_IOCTL_SYNC, &sync));
	close(arg.buf);
	test_free(self->fd, addr);
	CLOSE_ALL();
	EXPECT_EQ(6 * MIB, USED());
	close(fd);
	EXPECT_EQ(0, USED());
}

/* The importer's work goes on when it has let go of the dma-buf. */
TEST_F(export, a_fence_of_the_importer_keeps_the_block_pending)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int buf = test_export(self->fd, addr);
	__u32 handle = test_import(VGEM, buf), fence = 0;

	ASSERT_EQ(0, test_import_fence_raw(VGEM, handle, &fence));
	EXPECT_EQ(0, test_import_end_raw(VGEM, handle));
	close(buf);
	test_free(self->fd, addr);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	usleep(50000);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	EXPECT_EQ(0, test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_freed);
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	EXPECT_EQ(addr, test_alloc(self->fd, self->id, 4 * MIB));
}

/* Whoever is gone: the memory waits for the fence, then goes back by itself. */
TEST_F(export, a_fence_keeps_what_nobody_has)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int buf = test_export(self->fd, addr), sync;
	__u32 fence;

	sync = test_fence(&self->fences, &fence);
	EXPECT_EQ(0, test_buf_add_sync_raw(buf, sync));
	close(sync);
	close(buf);
	CLOSE_ALL();
	usleep(50000);
	EXPECT_EQ(4 * MIB, USED());
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!USED());
}

#define NR_FENCES 8

TEST_F(export, all_fences_are_waited_for)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int buf = test_export(self->fd, addr), sync;
	struct test_fences more[NR_FENCES];
	__u32 fence[NR_FENCES];
	int i;

	/* Of files of their own, so that they are in no order */
	for (i = 0; i < NR_FENCES; i++) {
		more[i] = (struct test_fences){ .file = test_open_vgem() };
		ASSERT_LE(0, more[i].file);
		sync = test_fence(&more[i], &fence[i]);
		EXPECT_EQ(0, test_buf_add_sync_raw(buf, sync));
		close(sync);
	}
	close(buf);
	test_free(self->fd, addr);
	for (i = 0; i < NR_FENCES; i++) {
		EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
		test_fence_signal(&more[(i * 3) % NR_FENCES], fence[(i * 3) % NR_FENCES]);
		usleep(5000);
	}
	EXPECT_SOON(!test_pending(self->fd, self->id));
	for (i = 0; i < NR_FENCES; i++)
		close(more[i].file);
}

/* A live block whose dma-buf has gone and comes back: who imports it then waits too. */
TEST_F(export, a_new_dma_buf_has_the_fences_of_the_old_one)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int buf = test_export(self->fd, addr), sync;
	__u64 first = inode(buf);
	__u32 fence;
	int i;

	sync = test_fence(&self->fences, &fence);
	EXPECT_EQ(0, test_buf_add_sync_raw(buf, sync));
	close(sync);
	for (i = 0; i < 3; i++) {
		close(buf);
		buf = test_export(self->fd, addr);
		EXPECT_NE(first, inode(buf));
		sync = test_buf_sync_raw(buf);
		ASSERT_LE(0, sync);
		EXPECT_EQ(0, test_sync_status(sync));
		close(sync);
	}
	test_free(self->fd, addr);
	test_fence_signal(&self->fences, fence);
	usleep(50000);
	/* The dma-buf is still there. */
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	close(buf);
	EXPECT_SOON(!test_pending(self->fd, self->id));
}

/* Streams and a dma-buf use a block at the same time, and end in either order. */
TEST_F(export, streams_and_a_dma_buf)
{
	__u32 stream = test_stream(self->fd, 0);
	__u64 addr, point;
	int buf, first;

	for (first = 0; first < 2; first++) {
		addr = test_alloc(self->fd, self->id, 4 * MIB);
		buf = test_export(self->fd, addr);
		test_record(self->fd, addr, stream);
		point = test_submit(self->fd, stream);
		test_free(self->fd, addr);
		EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
		if (first) {
			close(buf);
			EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
			test_signal(self->fd, stream, point);
		} else {
			test_signal(self->fd, stream, point);
			EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
			close(buf);
		}
		EXPECT_EQ(0, test_pending(self->fd, self->id));
	}

	/* The block's own stream guards it behind the dma-buf. */
	addr = test_alloc_on(self->fd, self->id, 4 * MIB, stream);
	buf = test_export(self->fd, addr);
	point = test_submit(self->fd, stream);
	test_free(self->fd, addr);
	EXPECT_EQ(4 * MIB, test_pending(self->fd, self->id));
	close(buf);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_NE(addr, test_alloc(self->fd, self->id, 4 * MIB));
	EXPECT_EQ(addr, test_alloc_on(self->fd, self->id, 4 * MIB, stream));
	test_signal(self->fd, stream, point);
}

/* Dma-bufs of the kernel's own, or -errno */
static int system_buf(__u64 bytes)
{
	int heap = open("/dev/dma_heap/system", O_RDONLY | O_CLOEXEC);
	int ret;

	if (heap < 0)
		return -errno;
	ret = test_heap_alloc_raw(heap, bytes);
	close(heap);
	return ret;
}

static int memfd_buf(__u64 bytes)
{
	int memfd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct udmabuf_create create = {
		.memfd = memfd,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = bytes,
	};
	int node = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int ret = -ENODEV;

	if (node >= 0 && !ftruncate(memfd, bytes) && !fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK)) {
		ret = ioctl(node, UDMABUF_CREATE, &create);
		if (ret < 0)
			ret = -errno;
	}
	close(node);
	close(memfd);
	return ret;
}

/* One program, one importer, one fence: our dma-bufs are among others as these are. */
TEST_F(export, beside_dma_bufs_of_the_kernel)
{
	const __u64 size = 4 * MIB;
	int bufs[3], importer, sync, i;
	__u32 handle[3], fence;
	struct importer arg;
	char *p[3] = {};
	__u64 addr;

	bufs[0] = system_buf(size);
	bufs[2] = memfd_buf(size);
	if (bufs[0] < 0 && bufs[2] < 0)
		SKIP(return, "this kernel has neither udmabuf nor the system heap");
	addr = test_alloc(self->fd, self->id, size);
	bufs[1] = test_export(self->fd, addr);
	sync = test_fence(&self->fences, &fence);
	importer = test_open_importer();
	ASSERT_LE(0, importer);
	for (i = 0; i < 3; i++) {
		if (bufs[i] < 0)
			continue;
		p[i] = test_map(bufs[i], 0, size);
		test_fill(p[i], size, i << 20);
		handle[i] = test_import(VGEM, bufs[i]);
		EXPECT_EQ(0, test_buf_add_sync_raw(bufs[i], sync));
	}
	for (i = 0; i < 3; i++) {
		if (!p[i])
			continue;
		arg = (struct importer){ .buf = bufs[i], .tag = i << 20 };
		EXPECT_EQ(0, ioctl(importer, IMPORTER_LOOK, &arg));
		EXPECT_EQ(0, arg.differs);
		arg.tag = (i + 3) << 20;
		EXPECT_EQ(0, ioctl(importer, IMPORTER_FILL, &arg));
	}
	for (i = 0; i < 3; i++) {
		if (!p[i])
			continue;
		EXPECT_EQ(-1, test_differs(p[i], size, (i + 3) << 20));
		munmap(p[i], size);
		EXPECT_EQ(0, test_import_end_raw(VGEM, handle[i]));
		close(bufs[i]);
	}
	test_free(self->fd, addr);
	/* What the fence is of is not what has it. */
	EXPECT_EQ(size, test_pending(self->fd, self->id));
	test_fence_signal(&self->fences, fence);
	EXPECT_SOON(!test_pending(self->fd, self->id));
	close(sync);
	close(importer);
}

TEST_F(export, a_pending_block_is_told_of)
{
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int buf = test_export(self->fd, addr);
	struct devpool_snapshot_entry entry[4];

	EXPECT_EQ(1, test_snapshot(self->fd, self->id, 0, entry, 4));
	EXPECT_EQ(DEVPOOL_BLOCK_LIVE, entry[0].state);
	test_free(self->fd, addr);
	EXPECT_EQ(1, test_snapshot(self->fd, self->id, 0, entry, 4));
	EXPECT_EQ(DEVPOOL_BLOCK_PENDING, entry[0].state);
	EXPECT_EQ(addr, entry[0].addr);
	close(buf);
	EXPECT_EQ(1, test_snapshot(self->fd, self->id, 0, entry, 4));
	EXPECT_EQ(DEVPOOL_BLOCK_CACHED, entry[0].state);
}

TEST_F(export, descriptors_run_out)
{
	struct rlimit was, limit;
	__u64 addr = test_alloc(self->fd, self->id, 4 * MIB);
	int bufs[64];
	int nr = 0;
	int ret;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &was));
	limit = was;
	limit.rlim_cur = 64;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	while (!(ret = devpool_export_raw(self->fd, addr, O_RDWR, &bufs[nr])))
		nr++;
	EXPECT_EQ(-EMFILE, ret);
	EXPECT_LT(0, nr);
	while (nr)
		close(bufs[--nr]);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &was));
	test_free(self->fd, addr);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
}

/* Many dma-bufs at a time, and then one too many */
TEST_F(export, ten_thousand_exports)
{
	const int nr = test_times(10000);
	struct rlimit was, limit;
	__u64 *addr = calloc(nr, sizeof(*addr));
	int *buf = calloc(nr, sizeof(*buf));
	struct devpool_pool_stat stat;
	int i, used;

	ASSERT_NE(NULL, addr);
	ASSERT_NE(NULL, buf);
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &was));
	limit = (struct rlimit){ nr + 100, nr + 100 };
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	for (i = 0; i < nr; i++) {
		addr[i] = EXPORTABLE(TEST_PAGE);
		buf[i] = test_export(self->fd, addr[i]);
	}
	/* As many descriptors as there are now */
	used = dup(self->fd);
	close(used);
	limit.rlim_cur = used;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	stat = test_pool_stat(self->fd, self->id);
	for (i = 0; i < nr; i += nr / 10)
		test_err_export(EMFILE, self->fd, addr[i], O_RDWR);
	EXPECT_SAME(stat, test_pool_stat(self->fd, self->id));
	for (i = 0; i < nr; i++)
		test_free(self->fd, addr[i]);
	EXPECT_EQ(nr * TEST_PAGE, test_pending(self->fd, self->id));
	for (i = 0; i < nr; i++)
		close(buf[i]);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	setrlimit(RLIMIT_NOFILE, &was);
	free(addr);
	free(buf);
}

/* EXPORT against FREE, close and EXPORT, of one block at a time */
struct export_race {
	int fd;
	struct devpool_pool_id id;
	__u64 addr;
	__u64 end;
	int wrong;
	unsigned long exports;
};

static void *race_exports(void *arg)
{
	struct export_race *race = arg;
	unsigned long exports = 0;
	int bufs[2], ret, i;

	while (test_now() < race->end) {
		__u64 addr = __atomic_load_n(&race->addr, __ATOMIC_RELAXED);

		for (i = 0; i < 2; i++) {
			bufs[i] = -1;
			ret = devpool_export_raw(race->fd, addr, O_RDWR | O_CLOEXEC,
						 &bufs[i]);
			if (ret && ret != -ENOENT)
				__atomic_store_n(&race->wrong, ret, __ATOMIC_RELAXED);
			exports += !ret;
		}
		for (i = 0; i < 2; i++)
			if (bufs[i] >= 0)
				close(bufs[i]);
	}
	__atomic_add_fetch(&race->exports, exports, __ATOMIC_RELAXED);
	return NULL;
}

TEST_F(export, exports_against_free_and_close)
{
	struct export_race race = { .fd = self->fd, .id = self->id };
	pthread_t thread[3];
	__u64 addr;
	int i;

	race.addr = test_alloc(self->fd, self->id, 2 * MIB);
	race.end = test_now() + 2000000000ULL;
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, race_exports, &race));
	while (test_now() < race.end) {
		addr = race.addr;
		test_free(self->fd, addr);
		__atomic_store_n(&race.addr, test_alloc(self->fd, self->id, 2 * MIB),
				 __ATOMIC_RELAXED);
		usleep(100);
	}
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	EXPECT_EQ(0, race.wrong);
	EXPECT_LT(0, race.exports);
	test_free(self->fd, race.addr);
	EXPECT_EQ(0, test_pending(self->fd, self->id));
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_active.current);
}

TEST_HARNESS_MAIN
