// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a 32-bit program gets of a 64-bit kernel: the same commands and structs, by
 * ioctl and by the library, and memory below 2^44.
 */
#include <devpool.h>

#include "fence_test.h"

static_assert(sizeof(void *) == 4, "this is for 32 bits");

/* Beyond it mmap() has no offset for such a program. */
#define MAP_END (1ULL << 44)

FIXTURE(abi32)
{
	int fd;
	int index;
	struct devpool_info info;
	struct test_base base;
	__u64 chunk;
};

FIXTURE_SETUP(abi32)
{
	test_setup(self, TEST_SYSMEM);
	self->chunk = self->info.out_chunk;
}

FIXTURE_TEARDOWN(abi32)
{
}

TEST_F(abi32, a_device_is_what_sysfs_says)
{
	EXPECT_EQ(devpool_sysfs(self->index, "bytes"), self->info.out_bytes);
	EXPECT_EQ(devpool_sysfs(self->index, "chunk"), self->info.out_chunk);
	EXPECT_EQ(self->index, self->info.out_index);
	EXPECT_STREQ("sysmem", (char *)self->info.out_backend);
}

TEST_F(abi32, a_life_by_ioctl)
{
	struct devpool_snapshot_entry entry[8];
	struct devpool_pool_stat stat;
	struct devpool_pool_id pool;
	int pool_fd, i, n, live = 0;
	__u64 addr, bytes = 3 * MIB;
	char *p;

	pool_fd = test_pool_create(self->fd, &pool);
	addr = test_alloc(self->fd, pool, bytes);
	EXPECT_GT(MAP_END, addr + bytes);
	p = devpool_map_raw(self->fd, addr, bytes);
	ASSERT_NE(NULL, p);
	EXPECT_EQ(-1, test_not_zero(p, bytes));
	test_fill(p, bytes, addr);
	EXPECT_EQ(-1, test_differs(p, bytes, addr));

	/* The array is on the stack, high up in the address space. */
	EXPECT_LT(1U << 31, (uintptr_t)entry);
	n = test_snapshot(self->fd, pool, 0, entry, 8);
	for (i = 0; i < n; i++) {
		if (entry[i].state != DEVPOOL_BLOCK_LIVE)
			continue;
		live++;
		EXPECT_EQ(addr, entry[i].addr);
		EXPECT_EQ(bytes, entry[i].bytes);
		EXPECT_EQ(bytes, entry[i].requested);
		EXPECT_TRUE(test_is_id(pool, entry[i].pool));
		EXPECT_EQ(getpid(), entry[i].pid);
	}
	EXPECT_EQ(1, live);
	stat = test_pool_stat(pool_fd, default_pool);
	EXPECT_POOL_SOUND(stat);
	EXPECT_EQ(bytes, stat.out_allocated.current);
	EXPECT_EQ(bytes, test_stats(self->fd).out_allocated.current);

	test_unmap(p, bytes);
	test_free(self->fd, addr);
	test_err_free(ENOENT, self->fd, addr);
	EXPECT_EQ(round_to(bytes, self->chunk),
		  test_empty_cache(pool_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0).out_freed);
	close(pool_fd);
	close(self->fd);
	EXPECT_BASE(self->base, self->index);
}

TEST_F(abi32, every_other_command)
{
	int other = test_open(self->index), pool_fd;
	struct devpool_pool_id pool, id;
	__u64 addr;

	pool = test_pool_id(self->fd, 0);
	EXPECT_EQ(0, pool.first);
	EXPECT_EQ(1, test_pool_get(self->fd, pool));
	EXPECT_EQ(0, test_pool_put(self->fd, pool));
	/* Numbers that do not fit into 32 bits come through whole. */
	pool_fd = test_pool_create_opts(self->fd, &pool, .limit = 1ULL << 40);
	EXPECT_EQ(1ULL << 40, test_pool_get_attr(self->fd, pool, DEVPOOL_ATTR_LIMIT));
	EXPECT_EQ(UINT64_MAX, test_pool_get_attr(self->fd, pool, DEVPOOL_ATTR_RELEASE_THRESHOLD));
	test_pool_set_attr(pool_fd, default_pool, DEVPOOL_ATTR_LIMIT, self->chunk);
	EXPECT_EQ(self->chunk, test_pool_get_attr(self->fd, pool, DEVPOOL_ATTR_LIMIT));

	EXPECT_EQ(2, test_pool_attach(other, pool_fd, &id));
	EXPECT_TRUE(test_is_id(pool, id));
	test_route_begin(self->fd, pool, DEVPOOL_SCOPE_ALL);
	addr = test_alloc(self->fd, default_pool, self->chunk);
	test_err_alloc(EDQUOT, self->fd, default_pool, self->chunk);
	test_route_end(self->fd, pool, DEVPOOL_SCOPE_ALL);
	test_retain(other, addr);
	test_free(self->fd, addr);
	test_free(other, addr);
	test_limit(self->fd, 2 * self->chunk);
	test_err_alloc(EDQUOT, self->fd, default_pool, 2 * self->chunk);
	test_limit(self->fd, 0);
	EXPECT_LE(self->chunk, test_stats_device(self->fd).out_resident.current);
	EXPECT_EQ(1, test_pool_put(other, pool));
}

/* Points are 64 bits long, and so are timeouts. */
TEST_F(abi32, every_command_of_streams)
{
	__u32 stream = test_stream(self->fd, 0), fenced, twin, fence = 0;
	struct test_fences fences = { .file = test_open_vgem() };
	struct devpool_stream_submit submit;
	struct devpool_snapshot_entry entry[8];
	int pool_fd, sync, i, n, found = 0;
	struct devpool_pool_id pool;
	__u64 x, y, point, begin;

	pool_fd = test_pool_create(self->fd, &pool);
	x = test_alloc(self->fd, pool, self->chunk);
	test_record(self->fd, x + 4096, stream);
	point = test_submit(self->fd, stream);
	EXPECT_EQ(1, point);
	test_free(self->fd, x);
	n = test_snapshot(self->fd, pool, 0, entry, 8);
	for (i = 0; i < n; i++)
		found += entry[i].addr == x && entry[i].state == DEVPOOL_BLOCK_PENDING;
	EXPECT_EQ(1, found);
	/* More than 2^32 ns of time, of which 50 ms pass */
	begin = test_now();
	EXPECT_EQ(self->chunk, test_empty_until(self->fd, pool, DEVPOOL_EMPTY_TRIM, 0,
						begin + 50000000).out_pending);
	EXPECT_LE(begin + 50000000, test_now());
	test_err_signal(EINVAL, self->fd, stream, point + (1ULL << 32));
	test_signal(self->fd, stream, point);
	EXPECT_EQ(0, test_pending(self->fd, pool));

	/* Blocks and routes of a stream of their own */
	test_route_stream_begin(self->fd, pool, stream);
	y = test_alloc_on(self->fd, default_pool, self->chunk, stream);
	EXPECT_EQ(self->chunk, test_pool_stat(pool_fd, default_pool).out_allocated.current);
	test_route_stream_end(self->fd, pool, stream);
	test_submit(self->fd, stream);
	test_free(self->fd, y);
	EXPECT_NE(y, test_alloc(self->fd, pool, self->chunk));
	EXPECT_EQ(y, test_alloc_on(self->fd, pool, self->chunk, stream));
	test_stream_destroy(self->fd, stream);
	test_err_stream_destroy(ENOENT, self->fd, stream);

	ASSERT_LE(0, fences.file)
		TH_LOG("no vgem");
	fenced = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
	twin = test_stream(self->fd, DEVPOOL_STREAM_FENCED);
	sync = test_fence(&fences, &fence);
	submit = test_submit_opts(self->fd, .stream = fenced, .in_fence = sync,
				  .flags = DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT);
	EXPECT_EQ(1, submit.out_point);
	EXPECT_EQ(0, test_sync_status(submit.out_fence));
	test_submit_opts(self->fd, .stream = twin, .in_fence = submit.out_fence,
			 .flags = DEVPOOL_SUBMIT_FENCE_IN);
	test_record(self->fd, y, twin);
	test_free(self->fd, y);
	EXPECT_EQ(self->chunk, test_pending(self->fd, pool));
	test_fence_signal(&fences, fence);
	EXPECT_SOON(!test_pending(self->fd, pool));
	EXPECT_EQ(1, test_sync_status(submit.out_fence));
	close(submit.out_fence);
	close(sync);
	close(fences.file);
	close(pool_fd);
	close(self->fd);
	EXPECT_SOON(!devpool_sysfs(self->index, "used"));
	EXPECT_BASE(self->base, self->index);
}

TEST_F(abi32, no_other_command)
{
	struct devpool_info info;
	unsigned int nr;

	for (nr = 0x33; nr < 0x100; nr++) {
		info.size = sizeof(info);
		info.flags = 0;
		EXPECT_EQ(-ENOTTY, devpool_raw(self->fd, _IO(DEVPOOL_TYPE, nr), &info));
	}
}

TEST_F(abi32, a_life_by_the_library)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts), .flags = DEVPOOL_ALLOC_ZERO };
	struct devpool_pool *pool, *attached;
	struct devpool_result result;
	struct devpool *dev;
	char node[32];
	uint64_t addr;
	void *p, *q;

	snprintf(node, sizeof(node), "/dev/devpool%d", self->index);
	ASSERT_EQ(0, devpool_open(node, &dev));
	ASSERT_EQ(0, devpool_pool_create(dev, NULL, &pool));
	opts.pool = devpool_pool_id(pool);
	ASSERT_EQ(0, devpool_alloc(dev, 20 * MIB, &opts, &p));
	memset(p, 0x5a, 20 * MIB);
	ASSERT_EQ(0, devpool_addr(dev, p, &addr));
	ASSERT_EQ(0, devpool_pool_attach(NULL, devpool_pool_fd(pool), &attached));
	ASSERT_EQ(0, devpool_retain(devpool_pool_device(attached), addr));
	ASSERT_EQ(0, devpool_ptr(devpool_pool_device(attached), addr, &q));
	EXPECT_EQ(0x5a, ((char *)q)[20 * MIB - 1]);
	ASSERT_EQ(0, devpool_free(dev, p));
	ASSERT_EQ(0, devpool_pool_close(attached, 0, &result));
	EXPECT_EQ(20 * MIB, result.live);
	ASSERT_EQ(0, devpool_pool_close(pool, 0, &result));
	EXPECT_EQ(round_to(20 * MIB, self->chunk), result.freed);
	EXPECT_EQ(DEVPOOL_STATE_GONE, result.state);
	devpool_close(dev);
	close(self->fd);
	EXPECT_BASE(self->base, self->index);
}

/* Addresses are 64 bits long. A block that cannot be mapped here is freed again. */
TEST_F(abi32, memory_too_high_to_map_is_refused)
{
	int index = test_find(TEST_NULL), i;
	struct devpool_stats stats;
	void *ptr = (void *)1;
	struct devpool *dev;
	__u64 addr = 0;
	char node[32];

	if (index < 0)
		SKIP(return, "there is no null device");
	snprintf(node, sizeof(node), "/dev/devpool%d", index);
	ASSERT_EQ(0, devpool_open(node, &dev));
	/* More than there is room for, wherever it is */
	EXPECT_EQ(-ENOMEM, devpool_alloc(dev, 3 * GIB, NULL, &ptr));
	/* What lies below is used up first. */
	for (i = 0; i < 10000 && addr < MAP_END; i++)
		addr = test_alloc(devpool_fd(dev), default_pool, GIB);
	ASSERT_LE(MAP_END, addr);
	EXPECT_EQ(NULL, devpool_map_raw(devpool_fd(dev), addr, self->chunk));
	EXPECT_EQ(-EOVERFLOW, devpool_ptr(dev, addr, &ptr));
	ASSERT_EQ(0, devpool_stats(dev, 0, &stats));
	i = stats.out_blocks.current;
	EXPECT_EQ(-EOVERFLOW, devpool_alloc(dev, GIB, NULL, &ptr));
	EXPECT_EQ((void *)1, ptr);
	ASSERT_EQ(0, devpool_stats(dev, 0, &stats));
	EXPECT_EQ(i, stats.out_blocks.current);
	devpool_close(dev);
}

TEST_HARNESS_MAIN
