// SPDX-License-Identifier: GPL-2.0-only
/*
 * The library: what <devpool.h> promises of devices, blocks and pools, function
 * by function. What the kernel does is tested elsewhere.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "library_test.h"

/* The program that README.md shows */
#define main first_example
#include "../lib/examples/first.c"
#undef main

/* Opening and closing */

TEST(open_without_result_is_einval)
{
	EXPECT_EQ(-EINVAL, devpool_open("/dev/null", NULL));
}

TEST(open_of_a_missing_node_is_enoent)
{
	struct devpool *dev = (void *)1;

	EXPECT_EQ(-ENOENT, devpool_open("/dev/devpool-none", &dev));
	EXPECT_EQ((void *)1, dev);
}

TEST(open_of_another_node_is_enotty)
{
	struct devpool *dev = (void *)1;

	EXPECT_EQ(-ENOTTY, devpool_open("/dev/null", &dev));
	EXPECT_EQ((void *)1, dev);
}

TEST_F(library, open_without_node_takes_the_environment)
{
	struct devpool_info info;
	struct devpool *dev;

	ASSERT_EQ(0, setenv("DEVPOOL_DEVICE", "/dev/devpool-none", 1));
	EXPECT_EQ(-ENOENT, devpool_open(NULL, &dev));
	ASSERT_EQ(0, setenv("DEVPOOL_DEVICE", self->node, 1));
	ASSERT_EQ(0, devpool_open(NULL, &dev));
	ASSERT_EQ(0, devpool_info(dev, &info));
	EXPECT_EQ(self->info.out_index, info.out_index);
	devpool_close(dev);
}

TEST_F(library, open_without_node_or_environment_takes_the_first)
{
	struct devpool_info info;
	struct devpool *dev;

	unsetenv("DEVPOOL_DEVICE");
	ASSERT_EQ(0, devpool_open(NULL, &dev));
	ASSERT_EQ(0, devpool_info(dev, &info));
	EXPECT_EQ(0, info.out_index);
	devpool_close(dev);
}

TEST_F(library, a_failed_open_leaves_no_descriptor)
{
	struct devpool *dev;
	int before = dup(0), after;

	close(before);
	EXPECT_EQ(-ENOTTY, devpool_open("/dev/null", &dev));
	after = dup(0);
	EXPECT_EQ(before, after);
	close(after);
}

TEST_F(library, files_are_close_on_exec)
{
	struct devpool_pool *pool = new_pool(self->dev);

	EXPECT_EQ(FD_CLOEXEC, fcntl(devpool_fd(self->dev), F_GETFD));
	EXPECT_EQ(FD_CLOEXEC, fcntl(devpool_pool_fd(pool), F_GETFD));
}

TEST(close_takes_null)
{
	devpool_close(NULL);
}

TEST_F(library, close_unmaps_and_gives_all_back)
{
	struct devpool_pool *pool;
	struct devpool *dev;
	int before = mappings();
	long long used = devpool_sysfs(self->info.out_index, "used");

	ASSERT_EQ(0, devpool_open(self->node, &dev));
	pool = new_pool(dev);
	*new_block(pool, MIB) = 1;
	*new_default_block(dev, 3 * MIB) = 1;
	EXPECT_LT(before, mappings());
	EXPECT_LT(used, devpool_sysfs(self->info.out_index, "used"));
	close(devpool_pool_fd(pool));
	devpool_close(dev);
	EXPECT_EQ(before, mappings());
	/* But for this test's own client. */
	self->base.clients++;
	EXPECT_BASE(self->base, self->info.out_index);
}

TEST_F(library, AUTO_closes_at_the_end_of_the_scope)
{
	{
		struct devpool *dev DEVPOOL_AUTO = NULL;
		struct devpool_pool *pool DEVPOOL_POOL_AUTO = NULL;

		ASSERT_EQ(0, devpool_open(self->node, &dev));
		ASSERT_EQ(0, devpool_pool_create(dev, NULL, &pool));
		*new_block(pool, MIB) = 1;
		EXPECT_LT(0, devpool_sysfs(self->info.out_index, "used"));
	}
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->info.out_index, "clients"));
}

/* What is refused */

TEST_F(library, null_objects_and_results_are_einval)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_pool_stat stat;
	struct devpool_result result;
	struct devpool_stats stats;
	struct devpool_info info;
	struct devpool_pool *p;
	uint64_t addr;
	void *ptr;

	EXPECT_EQ(-EINVAL, devpool_fd(NULL));
	EXPECT_EQ(-EINVAL, devpool_info(NULL, &info));
	EXPECT_EQ(-EINVAL, devpool_info(self->dev, NULL));
	EXPECT_EQ(-EINVAL, devpool_alloc(NULL, 1, NULL, &ptr));
	EXPECT_EQ(-EINVAL, devpool_alloc(self->dev, 1, NULL, NULL));
	EXPECT_EQ(-EINVAL, devpool_free(NULL, &ptr));
	EXPECT_EQ(-EINVAL, devpool_free(self->dev, NULL));
	EXPECT_EQ(-EINVAL, devpool_addr(NULL, &ptr, &addr));
	EXPECT_EQ(-EINVAL, devpool_addr(self->dev, NULL, &addr));
	EXPECT_EQ(-EINVAL, devpool_addr(self->dev, &ptr, NULL));
	EXPECT_EQ(-EINVAL, devpool_ptr(NULL, 4096, &ptr));
	EXPECT_EQ(-EINVAL, devpool_ptr(self->dev, 0, &ptr));
	EXPECT_EQ(-EINVAL, devpool_ptr(self->dev, 4096, NULL));
	EXPECT_EQ(-EINVAL, devpool_pool_create(NULL, NULL, &p));
	EXPECT_EQ(-EINVAL, devpool_pool_create(self->dev, NULL, NULL));
	EXPECT_EQ(-EINVAL, devpool_pool_close(NULL, 0, &result));
	EXPECT_EQ(-EINVAL, devpool_pool_close(pool, 0, NULL));
	EXPECT_EQ(-EINVAL, devpool_pool_fd(NULL));
	EXPECT_EQ(NULL, devpool_pool_device(NULL));
	EXPECT_EQ(0, devpool_pool_id(NULL).first);
	EXPECT_EQ(0, devpool_pool_id(NULL).second);
	EXPECT_EQ(-EINVAL, devpool_pool_trim(NULL, 0, &result));
	EXPECT_EQ(-EINVAL, devpool_pool_trim(pool, 0, NULL));
	EXPECT_EQ(-EINVAL, devpool_pool_stat(NULL, &stat));
	EXPECT_EQ(-EINVAL, devpool_pool_stat(pool, NULL));
	EXPECT_EQ(-EINVAL, devpool_empty_cache(NULL, NULL, 0, &result));
	EXPECT_EQ(-EINVAL, devpool_empty_cache(self->dev, NULL, 0, NULL));
	EXPECT_EQ(-EINVAL, devpool_stats(NULL, 0, &stats));
	EXPECT_EQ(-EINVAL, devpool_stats(self->dev, 0, NULL));
	/* None of them has closed it. */
	EXPECT_EQ(0, devpool_pool_stat(pool, &stat));
}

TEST_F(library, alloc_passes_the_kernels_errors_on)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	void *ptr = (void *)1;

	EXPECT_EQ(-EINVAL, devpool_alloc(self->dev, 0, NULL, &ptr));
	EXPECT_EQ(-EINVAL, devpool_alloc(self->dev, SIZE_MAX, NULL, &ptr));
	EXPECT_EQ(-ENOSPC, devpool_alloc(self->dev, (1ULL << 60) + 1, NULL, &ptr));
	opts.align = 3;
	EXPECT_EQ(-EINVAL, devpool_alloc(self->dev, 1, &opts, &ptr));
	opts.align = 0;
	opts.pool.second = 12345;
	EXPECT_EQ(-ENOENT, devpool_alloc(self->dev, 1, &opts, &ptr));
	opts.pool.second = 0;
	opts.stream = 1;
	EXPECT_EQ(-ENOENT, devpool_alloc(self->dev, 1, &opts, &ptr));
	opts.stream = 0;
	opts.flags = 1U << 31;
	EXPECT_EQ(-EOPNOTSUPP, devpool_alloc(self->dev, 1, &opts, &ptr));
	/* And none of them has touched the result. */
	EXPECT_EQ((void *)1, ptr);
}

struct future_alloc_opts {
	struct devpool_alloc_opts known;
	char more[8];
};

TEST_F(library, alloc_options_of_the_future_are_taken_when_zero)
{
	struct future_alloc_opts opts = { .known.sz = sizeof(opts) };
	void *ptr;

	EXPECT_EQ(0, devpool_alloc(self->dev, 1, &opts.known, &ptr));
}

TEST_F(library, alloc_options_of_the_future_are_e2big_when_used)
{
	struct future_alloc_opts opts = { .known.sz = sizeof(opts) };
	void *ptr = NULL;
	size_t i;

	for (i = 0; i < sizeof(opts.more); i++) {
		memset(opts.more, 0, sizeof(opts.more));
		opts.more[i] = 1;
		EXPECT_EQ(-E2BIG, devpool_alloc(self->dev, 1, &opts.known, &ptr));
	}
	EXPECT_EQ(NULL, ptr);
}

TEST_F(library, alloc_options_without_size_are_einval)
{
	struct devpool_alloc_opts opts = { .sz = 0 };
	void *ptr;

	EXPECT_EQ(-EINVAL, devpool_alloc(self->dev, 1, &opts, &ptr));
	opts.sz = sizeof(opts) - 1;
	EXPECT_EQ(-EINVAL, devpool_alloc(self->dev, 1, &opts, &ptr));
}

TEST_F(library, pool_options_are_checked_like_the_others)
{
	struct {
		struct devpool_pool_opts known;
		char more[8];
	} opts = { .known.sz = sizeof(opts) };
	struct devpool_pool *pool;

	EXPECT_EQ(0, devpool_pool_create(self->dev, &opts.known, &pool));
	pool = NULL;
	opts.more[7] = 1;
	EXPECT_EQ(-E2BIG, devpool_pool_create(self->dev, &opts.known, &pool));
	opts.known.sz = sizeof(opts.known) - 1;
	EXPECT_EQ(-EINVAL, devpool_pool_create(self->dev, &opts.known, &pool));
	opts.known.sz = 0;
	EXPECT_EQ(-EINVAL, devpool_pool_create(self->dev, &opts.known, &pool));
	opts.known.sz = sizeof(opts.known);
	opts.known.__reserved = 1;
	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_create(self->dev, &opts.known, &pool));
	opts.known.__reserved = 0;
	opts.known.flags = 1U << 31;
	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_create(self->dev, &opts.known, &pool));
	opts.known.flags = 0;
	opts.known.pool.second = 12345;
	EXPECT_EQ(-ENOENT, devpool_pool_create(self->dev, &opts.known, &pool));
	EXPECT_EQ(NULL, pool);
}

TEST_F(library, errno_is_never_changed)
{
	struct devpool_pool *pool;
	struct devpool *dev;
	void *ptr;

	errno = 4711;
	EXPECT_EQ(-ENOENT, devpool_open("/dev/devpool-none", &dev));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(-ENOTTY, devpool_open("/dev/null", &dev));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(-EINVAL, devpool_alloc(self->dev, 0, NULL, &ptr));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(0, devpool_alloc(self->dev, 1, NULL, &ptr));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(-ENOENT, devpool_free(self->dev, &ptr));
	EXPECT_EQ(4711, errno);
	EXPECT_GT(0, devpool_ptr(self->dev, 1ULL << 50, &ptr));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(0, devpool_pool_create(self->dev, NULL, &pool));
	EXPECT_EQ(4711, errno);
}

TEST_F(library, stats_refuses_unknown_flags)
{
	struct devpool_stats stats;

	EXPECT_EQ(-EOPNOTSUPP, devpool_stats(self->dev, 1U << 31, &stats));
}

/* Blocks and pointers */

TEST_F(library, a_block_can_be_written_to_its_end)
{
	char *p = new_default_block(self->dev, 5 * MIB);

	memset(p, 0x5a, 5 * MIB);
	EXPECT_EQ(0x5a, p[5 * MIB - 1]);
	EXPECT_EQ(0, devpool_free(self->dev, p));
}

TEST_F(library, options_reach_the_kernel)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts), .align = self->info.out_chunk };
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_pool_stat stat;
	void *a, *b;

	opts.pool = devpool_pool_id(pool);
	ASSERT_EQ(0, devpool_alloc(self->dev, 512, &opts, &a));
	ASSERT_EQ(0, devpool_alloc(self->dev, 512, &opts, &b));
	EXPECT_EQ(0, addr_of(self->dev, a) % self->info.out_chunk);
	EXPECT_EQ(0, addr_of(self->dev, b) % self->info.out_chunk);
	ASSERT_EQ(0, devpool_pool_stat(pool, &stat));
	EXPECT_EQ(1024, stat.out_requested.current);
	EXPECT_EQ(2, stat.out_blocks.current);
}

TEST_F(library, address_and_pointer_turn_into_each_other)
{
	char *p = new_default_block(self->dev, 3 * MIB);
	uint64_t addr = addr_of(self->dev, p);
	void *back;

	EXPECT_EQ(addr + 12345, addr_of(self->dev, p + 12345));
	ASSERT_EQ(0, devpool_ptr(self->dev, addr, &back));
	EXPECT_EQ(p, back);
	ASSERT_EQ(0, devpool_ptr(self->dev, addr + 12345, &back));
	EXPECT_EQ(p + 12345, back);
}

TEST_F(library, a_pointer_to_something_else_is_enoent)
{
	uint64_t addr = 4711;
	int x;

	new_default_block(self->dev, 1);
	EXPECT_EQ(-ENOENT, devpool_addr(self->dev, &x, &addr));
	EXPECT_EQ(4711, addr);
	EXPECT_EQ(-ENOENT, devpool_free(self->dev, &x));
}

TEST_F(library, ptr_of_an_address_of_nobody_is_enoent)
{
	void *ptr = (void *)1;

	EXPECT_EQ(-ENOENT, devpool_ptr(self->dev, 1ULL << 61, &ptr));
	EXPECT_EQ(-EINVAL, devpool_ptr(self->dev, 1ULL << 62, &ptr));
	EXPECT_EQ(-EINVAL, devpool_ptr(self->dev, UINT64_MAX, &ptr));
	EXPECT_EQ((void *)1, ptr);
}

TEST_F(library, ptr_of_an_address_of_another_client_is_enoent)
{
	struct devpool *other;
	uint64_t addr;
	void *ptr;

	ASSERT_EQ(0, devpool_open(self->node, &other));
	addr = addr_of(other, new_default_block(other, MIB));
	EXPECT_EQ(-ENOENT, devpool_ptr(self->dev, addr, &ptr));
	devpool_close(other);
}

TEST_F(library, ptr_maps_all_of_a_block_that_came_by_ioctl)
{
	uint64_t bytes = 150 * MIB, at, addr;
	void *ptr;
	char *p;

	if (self->info.out_bytes < 200 * MIB)
		SKIP(return, "the device is too small");
	addr = test_alloc(devpool_fd(self->dev), default_pool, bytes);
	ASSERT_EQ(0, devpool_ptr(self->dev, addr, &ptr));
	p = ptr;
	for (at = 0; at < bytes; at += 8 * MIB)
		p[at] = at / MIB;
	p[bytes - 1] = 99;
	for (at = 0; at < bytes; at += 8 * MIB)
		ASSERT_EQ((char)(at / MIB), p[at]);
	EXPECT_EQ(addr + bytes - 1, addr_of(self->dev, p + bytes - 1));
	EXPECT_EQ(0, devpool_free(self->dev, p));
}

TEST_F(library, free_twice_is_enoent)
{
	char *p = new_default_block(self->dev, MIB);

	EXPECT_EQ(0, devpool_free(self->dev, p));
	EXPECT_EQ(-ENOENT, devpool_free(self->dev, p));
}

TEST_F(library, free_inside_a_block_is_enoent)
{
	char *p = new_default_block(self->dev, MIB);

	EXPECT_EQ(-ENOENT, devpool_free(self->dev, p + 512));
	EXPECT_EQ(0, devpool_free(self->dev, p));
}

TEST_F(library, blocks_of_one_range_share_a_mapping)
{
	int before = mappings(), i;
	void *p[100];

	for (i = 0; i < 100; i++)
		p[i] = new_default_block(self->dev, 1000);
	EXPECT_EQ(before + 1, mappings());
	for (i = 0; i < 100; i++)
		EXPECT_EQ(0, devpool_free(self->dev, p[i]));
	for (i = 0; i < 1000; i++) {
		p[0] = new_default_block(self->dev, 1000);
		EXPECT_EQ(0, devpool_free(self->dev, p[0]));
	}
	EXPECT_EQ(before + 1, mappings());
}

/*
 * Blocks over the borders of what is mapped at a time, in ranges of any length:
 * every one is in one piece, and none shares a byte of address space.
 */
TEST_F(library, large_blocks_are_in_one_piece)
{
	static const uint64_t sizes[] = {
		70 * MIB, 3 * MIB, 64 * MIB, 130 * MIB, 2 * MIB, 1 * GIB, 5 * GIB, 66 * MIB,
		60 * MIB, 512, 100 * GIB, 64 * MIB + 4096, 200 * GIB,
	};
	uint64_t addr[ARRAY_SIZE(sizes)];
	char *p[ARRAY_SIZE(sizes)];
	struct devpool *dev = open_null();
	void *back;
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		p[i] = new_default_block(dev, sizes[i]);
		addr[i] = addr_of(dev, p[i]);
		for (j = 0; j < i; j++)
			EXPECT_TRUE(p[i] + sizes[i] <= p[j] || p[j] + sizes[j] <= p[i]);
	}
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (j = 0; j <= 16; j++)
			EXPECT_EQ(addr[i] + (sizes[i] - 1) / 16 * j,
				  addr_of(dev, p[i] + (sizes[i] - 1) / 16 * j));
		EXPECT_EQ(addr[i] + sizes[i] - 1, addr_of(dev, p[i] + sizes[i] - 1));
		ASSERT_EQ(0, devpool_ptr(dev, addr[i], &back));
		EXPECT_EQ(p[i], back);
	}
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		EXPECT_EQ(0, devpool_free(dev, p[i]));
	devpool_close(dev);
}

/* The first block to be mapped need not be the first of its range. */
TEST_F(library, a_mapping_reaches_down_as_well)
{
	struct devpool *dev = open_null();
	uint64_t first, last;
	void *p, *q;
	int before;

	first = test_alloc(devpool_fd(dev), default_pool, 130 * MIB);
	last = test_alloc(devpool_fd(dev), default_pool, 3 * MIB);
	ASSERT_EQ(first + 130 * MIB, last);
	before = mappings();
	ASSERT_EQ(0, devpool_ptr(dev, last, &q));
	ASSERT_EQ(0, devpool_ptr(dev, first, &p));
	EXPECT_EQ(q, (char *)p + 130 * MIB);
	EXPECT_EQ(before + 1, mappings());
	devpool_close(dev);
}

TEST_F(library, random_blocks_keep_their_places)
{
	enum { SLOTS = 200, STEPS = 4000 };
	struct devpool *dev = open_null();
	struct { char *p; uint64_t addr, bytes; } slot[SLOTS] = {};
	struct devpool_pool *pool = new_pool(dev);
	__u64 random = test_seed(), bytes;
	int i, s, most = 0, before = mappings();

	for (i = 0; i < STEPS; i++) {
		s = test_random(&random) % SLOTS;
		if (slot[s].p) {
			EXPECT_EQ(slot[s].addr, addr_of(dev, slot[s].p));
			EXPECT_EQ(slot[s].addr + slot[s].bytes - 1,
				  addr_of(dev, slot[s].p + slot[s].bytes - 1));
			ASSERT_EQ(0, devpool_free(dev, slot[s].p));
			slot[s].p = NULL;
			continue;
		}
		bytes = 1 + (test_random(&random) >> 20) % (1ULL << (test_random(&random) % 32));
		slot[s].p = new_block(pool, bytes);
		slot[s].bytes = bytes;
		slot[s].addr = addr_of(dev, slot[s].p);
		if (mappings() > most)
			most = mappings();
	}
	/* Not one for each block. */
	EXPECT_GT(before + 20, most)
		TH_LOG("%d mappings", most - before);
	devpool_close(dev);
}

/* Where a large mapping is refused, a short one will do. */
TEST_F(library, a_short_address_space_is_enough)
{
	struct rlimit limit;
	struct devpool *dev = open_null();
	char *p[8], *q;
	void *none;
	int i;

	limit.rlim_cur = 3 * GIB;
	limit.rlim_max = limit.rlim_cur;
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
	/* The second range of an arena is much larger than that. */
	for (i = 0; i < 8; i++)
		p[i] = new_default_block(dev, 100 * MIB);
	q = new_default_block(dev, 200 * MIB);
	EXPECT_EQ(0, devpool_free(dev, q));
	for (i = 0; i < 8; i++)
		EXPECT_EQ(0, devpool_free(dev, p[i]));
	EXPECT_EQ(-ENOMEM, devpool_alloc(dev, 4 * GIB, NULL, &none));
	devpool_close(dev);
}

/* How far a range goes is tried before the place for it is looked for. */
TEST_F(library, what_is_tried_may_be_too_much_in_the_end)
{
	struct rlimit limit = { .rlim_cur = 8 * GIB, .rlim_max = 8 * GIB };
	struct devpool *dev = open_null();
	char *p;

	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
	p = new_default_block(dev, 5 * GIB);
	EXPECT_EQ(addr_of(dev, p) + 5 * GIB - 1, addr_of(dev, p + 5 * GIB - 1));
	devpool_close(dev);
}

TEST_F(library, a_block_that_cannot_be_mapped_is_freed_again)
{
	struct devpool_stats stats;
	struct rlimit limit;
	struct devpool *dev = open_null();
	void *ptr = (void *)1;

	limit.rlim_cur = GIB;
	limit.rlim_max = limit.rlim_cur;
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
	EXPECT_EQ(-ENOMEM, devpool_alloc(dev, 2 * GIB, NULL, &ptr));
	EXPECT_EQ((void *)1, ptr);
	ASSERT_EQ(0, devpool_stats(dev, 0, &stats));
	EXPECT_EQ(0, stats.out_blocks.current);
	EXPECT_EQ(2 * GIB, stats.out_allocated.peak);
	devpool_close(dev);
}

static void touch(void *p)
{
	signal(SIGBUS, SIG_DFL);
	*(volatile char *)p = 1;
}

static void touch_null(void *node)
{
	struct devpool *dev;
	void *p;

	CHILD(!devpool_open(node, &dev));
	CHILD(!devpool_alloc(dev, 1, NULL, &p));
	touch(p);
}

TEST(a_pointer_into_a_device_without_memory_is_sigbus)
{
	int index = test_find(TEST_NULL), status;
	char node[32];

	if (index < 0)
		SKIP(return, "there is no null device");
	snprintf(node, sizeof(node), "/dev/devpool%d", index);
	status = in_child(touch_null, node);
	ASSERT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(SIGBUS, WTERMSIG(status));
}

/* Pools */

TEST_F(library, a_pool_knows_what_it_is)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_info info;

	EXPECT_EQ(self->dev, devpool_pool_device(pool));
	EXPECT_EQ(0, devpool_pool_id(pool).first);
	EXPECT_NE(0, devpool_pool_id(pool).second);
	ASSERT_EQ(0, devpool_info_raw(devpool_pool_fd(pool), &info));
	EXPECT_EQ(self->info.out_index, info.out_index);
}

TEST_F(library, pool_close_reports_what_went_back)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_result result;
	int fd = devpool_pool_fd(pool);

	memset(&result, POISON_BYTE, sizeof(result));
	EXPECT_EQ(0, devpool_free(self->dev, new_block(pool, 5 * MIB)));
	EXPECT_EQ(0, devpool_pool_close(pool, 0, &result));
	EXPECT_EQ(round_to(5 * MIB, self->info.out_chunk), result.freed);
	EXPECT_EQ(0, result.kept);
	EXPECT_EQ(0, result.pending);
	EXPECT_EQ(0, result.live);
	EXPECT_EQ(DEVPOOL_STATE_GONE, result.state);
	EXPECT_EQ(0, result.__reserved);
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
}

TEST_F(library, pool_close_unmaps_what_the_pool_had)
{
	int before = mappings();
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_result result;
	uint64_t addr;
	char *p;

	p = new_block(pool, 1000);
	EXPECT_EQ(0, devpool_free(self->dev, new_block(pool, 5 * MIB)));
	EXPECT_EQ(before + 2, mappings());
	EXPECT_EQ(0, devpool_free(self->dev, p));
	EXPECT_EQ(0, devpool_pool_close(pool, 0, &result));
	EXPECT_EQ(before, mappings());
	EXPECT_EQ(-ENOENT, devpool_addr(self->dev, p, &addr));
	EXPECT_EQ(-ENOENT, devpool_free(self->dev, p));
}

TEST_F(library, a_block_outlives_the_close_of_its_pool)
{
	int before = mappings();
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_result result;
	char *p;

	p = new_block(pool, 3 * MIB);
	memset(p, 0x5a, 3 * MIB);
	EXPECT_EQ(0, devpool_pool_close(pool, 0, &result));
	EXPECT_EQ(3 * MIB, result.live);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, result.state);
	EXPECT_EQ(before + 1, mappings());
	EXPECT_EQ(0x5a, p[0]);
	EXPECT_EQ(0x5a, p[3 * MIB - 1]);
	p[3 * MIB - 1] = 1;
	EXPECT_EQ(0, devpool_free(self->dev, p));
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
	/* What it was mapped by goes with the next pool. */
	EXPECT_EQ(0, devpool_pool_close(new_pool(self->dev), 0, &result));
	EXPECT_EQ(before, mappings());
}

TEST_F(library, pools_that_come_and_go_leave_no_mapping)
{
	struct devpool_pool *pool[3];
	int before = mappings(), i, j;
	struct devpool_result result;
	void *p[3];

	for (i = 0; i < 200; i++) {
		for (j = 0; j < 3; j++) {
			pool[j] = new_pool(self->dev);
			p[j] = new_block(pool[j], (j + 1) * 700000);
			*(char *)p[j] = 1;
		}
		/* One with nothing live, one with, one freed in between. */
		EXPECT_EQ(0, devpool_free(self->dev, p[0]));
		EXPECT_EQ(0, devpool_pool_close(pool[0], 0, &result));
		EXPECT_EQ(0, devpool_pool_close(pool[1], 0, &result));
		EXPECT_EQ(0, devpool_free(self->dev, p[2]));
		EXPECT_EQ(0, devpool_pool_close(pool[2], 0, &result));
		EXPECT_EQ(0, devpool_free(self->dev, p[1]));
	}
	EXPECT_GT(before + 5, mappings());
}

/* With others that wait for their last blocks, and are looked at one by one */
TEST_F(library, pool_close_unmaps_at_once)
{
	struct devpool_result result;
	struct devpool_pool *pool;
	int i, before;

	for (i = 0; i < 10; i++) {
		pool = new_pool(self->dev);
		new_block(pool, 1000);
		ASSERT_EQ(0, devpool_pool_close(pool, 0, &result));
	}
	before = mappings();
	for (i = 0; i < 3; i++) {
		pool = new_pool(self->dev);
		ASSERT_EQ(0, devpool_free(self->dev, new_block(pool, 1000)));
		ASSERT_EQ(0, devpool_pool_close(pool, 0, &result));
		EXPECT_EQ(before, mappings());
	}
}

TEST_F(library, many_pools_are_told_apart)
{
	int pools = test_times(500);
	struct devpool_pool *pool[pools];
	struct devpool *dev = open_null();
	uint64_t addr[pools];
	struct devpool_result result;
	int i, before = mappings();
	__u64 random = test_seed();
	char *p[pools];
	void *back;

	for (i = 0; i < pools; i++) {
		pool[i] = new_pool(dev);
		/* So that their places follow no rule. */
		p[i] = new_block(pool[i], 1 + (test_random(&random) >> 20) % GIB);
		addr[i] = addr_of(dev, p[i]);
	}
	EXPECT_EQ(before + pools, mappings());
	for (i = 0; i < pools; i += 3) {
		ASSERT_EQ(0, devpool_free(dev, p[i]));
		ASSERT_EQ(0, devpool_pool_close(pool[i], 0, &result));
		p[i] = NULL;
	}
	for (i = 0; i < pools; i++) {
		if (!p[i])
			continue;
		ASSERT_EQ(addr[i], addr_of(dev, p[i]));
		ASSERT_EQ(0, devpool_ptr(dev, addr[i], &back));
		ASSERT_EQ(p[i], back);
	}
	EXPECT_EQ(before + pools - (pools + 2) / 3, mappings());
	for (i = 0; i < pools; i++) {
		if (!p[i])
			continue;
		ASSERT_EQ(0, devpool_free(dev, p[i]));
		ASSERT_EQ(0, devpool_pool_close(pool[i], 0, &result));
	}
	EXPECT_EQ(before, mappings());
	devpool_close(dev);
}

TEST_F(library, pool_close_ends_the_object_even_if_it_was_released)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_result result = { .freed = 4711 };
	int fd = devpool_pool_fd(pool);

	test_empty_cache(fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_EQ(-ENOENT, devpool_pool_close(pool, 0, &result));
	EXPECT_EQ(4711, result.freed);
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
}

TEST_F(library, pool_trim_keeps_what_it_is_told_to)
{
	struct devpool_pool *pool = new_pool(self->dev);
	uint64_t chunk = self->info.out_chunk;
	struct devpool_result result;
	char *live;

	live = new_block(pool, 2 * chunk);
	*live = 5;
	EXPECT_EQ(0, devpool_free(self->dev, new_block(pool, 6 * chunk)));
	ASSERT_EQ(0, devpool_pool_trim(pool, 5 * chunk, &result));
	EXPECT_EQ(3 * chunk, result.freed);
	EXPECT_EQ(5 * chunk, result.kept);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, result.state);
	ASSERT_EQ(0, devpool_pool_trim(pool, 0, &result));
	EXPECT_EQ(3 * chunk, result.freed);
	EXPECT_EQ(2 * chunk, result.kept);
	EXPECT_EQ(2 * chunk, result.live);
	EXPECT_EQ(5, *live);
}

TEST_F(library, memory_is_mapped_again_after_a_trim)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_result result;
	char *p;
	int i;

	for (i = 0; i < 20; i++) {
		p = new_block(pool, 3 * MIB);
		EXPECT_EQ(0, p[3 * MIB - 1]);
		memset(p, 0x5a, 3 * MIB);
		EXPECT_EQ(0, devpool_free(self->dev, p));
		ASSERT_EQ(0, devpool_pool_trim(pool, 0, &result));
		EXPECT_EQ(0, result.kept);
	}
}

TEST_F(library, empty_cache_without_id_empties_the_default_pool)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_pool_stat stat;
	struct devpool_result result;

	EXPECT_EQ(0, devpool_free(self->dev, new_default_block(self->dev, 3 * MIB)));
	EXPECT_EQ(0, devpool_free(self->dev, new_block(pool, 3 * MIB)));
	ASSERT_EQ(0, devpool_empty_cache(self->dev, NULL, 0, &result));
	EXPECT_EQ(round_to(3 * MIB, self->info.out_chunk), result.freed);
	EXPECT_EQ(0, result.kept);
	ASSERT_EQ(0, devpool_pool_stat(pool, &stat));
	EXPECT_EQ(round_to(3 * MIB, self->info.out_chunk), stat.out_resident.current);
}

TEST_F(library, empty_cache_of_a_live_pool_says_what_stands)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_pool_id id = devpool_pool_id(pool);
	struct devpool_result result;

	EXPECT_EQ(0, devpool_free(self->dev, new_block(pool, 3 * MIB)));
	ASSERT_EQ(0, devpool_empty_cache(self->dev, &id, 0, &result));
	EXPECT_EQ(0, result.freed);
	EXPECT_EQ(round_to(3 * MIB, self->info.out_chunk), result.kept);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, result.state);
	id.second++;
	EXPECT_EQ(-ENOENT, devpool_empty_cache(self->dev, &id, 0, &result));
}

TEST_F(library, counters_are_the_kernels)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_pool_stat stat;
	struct devpool_stats stats;

	new_block(pool, 1000);
	new_default_block(self->dev, 2000);
	ASSERT_EQ(0, devpool_pool_stat(pool, &stat));
	EXPECT_SAME(stat, test_pool_stat(devpool_pool_fd(pool), default_pool));
	EXPECT_EQ(1000, stat.out_requested.current);
	EXPECT_EQ(1, stat.out_use_count);
	ASSERT_EQ(0, devpool_stats(self->dev, 0, &stats));
	EXPECT_SAME(stats, test_stats(devpool_fd(self->dev)));
	EXPECT_EQ(3000, stats.out_requested.current);
}

/* Fork */

struct fork_state {
	struct devpool *dev;
	struct devpool_pool *pool;
	char *p;
	uint64_t addr;
};

static void child_uses_pointers(void *arg)
{
	struct fork_state *s = arg;
	uint64_t addr;
	void *ptr;
	char *q;

	/* The parent's pointer is none here, its address is. */
	CHILD(devpool_addr(s->dev, s->p, &addr) == -ENOENT);
	CHILD(devpool_free(s->dev, s->p) == -ENOENT);
	CHILD(!devpool_ptr(s->dev, s->addr, &ptr));
	q = ptr;
	CHILD(q[0] == 0x5a && q[3 * MIB - 1] == 0x5a);
	CHILD(!devpool_addr(s->dev, q + 1, &addr) && addr == s->addr + 1);
	q[0] = 1;
}

TEST_F(library, a_forked_child_maps_by_address)
{
	struct fork_state s = { .dev = self->dev, .pool = new_pool(self->dev) };

	s.p = new_block(s.pool, 3 * MIB);
	memset(s.p, 0x5a, 3 * MIB);
	s.addr = addr_of(self->dev, s.p);
	EXPECT_EQ(0, in_child(child_uses_pointers, &s));
	/* It is one memory. */
	EXPECT_EQ(1, s.p[0]);
	EXPECT_EQ(0, devpool_free(self->dev, s.p));
}

static void child_allocates(void *arg)
{
	struct fork_state *s = arg;
	void *a, *b;

	CHILD(!alloc_in(s->pool, 3 * MIB, &a));
	memset(a, 7, 3 * MIB);
	CHILD(!devpool_alloc(s->dev, 1000, NULL, &b));
	memset(b, 7, 1000);
	CHILD(!devpool_free(s->dev, a));
	CHILD(!devpool_free(s->dev, b));
}

TEST_F(library, a_forked_child_allocates_on_its_own)
{
	struct fork_state s = { .dev = self->dev, .pool = new_pool(self->dev) };
	struct devpool_stats stats;

	s.p = new_block(s.pool, 3 * MIB);
	memset(s.p, 0x5a, 3 * MIB);
	EXPECT_EQ(0, in_child(child_allocates, &s));
	EXPECT_EQ(0x5a, s.p[0]);
	EXPECT_EQ(0x5a, s.p[3 * MIB - 1]);
	/* In the one client that both are. */
	ASSERT_EQ(0, devpool_stats(self->dev, 0, &stats));
	EXPECT_EQ(3, stats.out_blocks.in);
	EXPECT_EQ(1, stats.out_blocks.current);
}

/*
 * The library must not unmap in a child what it had mapped in the parent:
 * something else may stand there by then.
 */
static void child_closes(void *arg)
{
	struct fork_state *s = arg;
	char *mine;

	mine = mmap(s->p, 3 * MIB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHILD(mine == s->p);
	*mine = 9;
	devpool_close(s->dev);
	CHILD(*mine == 9);
	*mine = 10;
}

TEST_F(library, a_forked_child_closes_only_its_own)
{
	struct fork_state s = { .dev = self->dev, .pool = new_pool(self->dev) };

	s.p = new_block(s.pool, 3 * MIB);
	memset(s.p, 0x5a, 3 * MIB);
	EXPECT_EQ(0, in_child(child_closes, &s));
	EXPECT_EQ(0x5a, s.p[3 * MIB - 1]);
	EXPECT_EQ(0, devpool_free(self->dev, s.p));
}

static void child_closes_the_pool(void *arg)
{
	struct fork_state *s = arg;
	struct devpool_result result;
	char *mine;

	mine = mmap(s->p, 3 * MIB, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHILD(mine == s->p);
	CHILD(!devpool_pool_close(s->pool, 0, &result));
	*mine = 10;
}

TEST_F(library, a_forked_child_closes_a_pool_without_unmapping)
{
	struct fork_state s = { .dev = self->dev, .pool = new_pool(self->dev) };
	struct devpool_result result;

	s.p = new_block(s.pool, 3 * MIB);
	EXPECT_EQ(0, devpool_free(self->dev, s.p));
	EXPECT_EQ(0, in_child(child_closes_the_pool, &s));
	/* They share the pool file, so it was released for both. */
	EXPECT_EQ(-ENOENT, devpool_pool_close(s.pool, 0, &result));
}

struct forker {
	struct devpool *dev;
	bool stop;
	int failed;
	int rounds;
};

static void *maps_all_the_time(void *arg)
{
	struct forker *f = arg;
	struct devpool_pool *pool;
	struct devpool_result result;
	void *p;

	while (!__atomic_load_n(&f->stop, __ATOMIC_RELAXED)) {
		if (devpool_pool_create(f->dev, NULL, &pool) || alloc_in(pool, 1000, &p) ||
		    devpool_free(f->dev, p) || devpool_pool_close(pool, 0, &result))
			f->failed = 1;
		f->rounds++;
	}
	return NULL;
}

static void child_allocates_default(void *arg)
{
	struct devpool *dev = arg;
	void *p;

	alarm(20);
	CHILD(!devpool_alloc(dev, 1000, NULL, &p));
	*(char *)p = 1;
	CHILD(!devpool_free(dev, p));
}

/* Whatever the other thread was doing at that moment, the child can go on. */
TEST_F_TIMEOUT(library, fork_amid_the_mapping_of_another_thread, 60)
{
	struct forker f = { .dev = self->dev };
	pthread_t thread;
	int i;

	ASSERT_EQ(0, pthread_create(&thread, NULL, maps_all_the_time, &f));
	for (i = 0; i < 100; i++)
		EXPECT_EQ(0, in_child(child_allocates_default, self->dev));
	__atomic_store_n(&f.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, f.failed);
	EXPECT_LT(0, f.rounds);
}

/* Threads */

struct worker {
	struct devpool *dev;
	struct devpool_pool *shared;
	__u64 random;
	uint64_t number;
	int failed;
	int line;
};

#define WORKER(w, cond)								\
do {										\
	if (!(cond)) {								\
		if (!(w)->failed++)						\
			(w)->line = __LINE__;					\
		return;								\
	}									\
} while (0)

/* Some blocks tagged by their own address and thread, in the pool given. */
static void work_in(struct worker *w, struct devpool_pool *pool, int steps)
{
	enum { SLOTS = 16 };
	uint64_t *p[SLOTS] = {}, addr;
	void *ptr, *back;
	int i, s;

	for (i = 0; i < steps; i++) {
		s = test_random(&w->random) % SLOTS;
		if (!p[s]) {
			WORKER(w, !alloc_in(pool, 8 + test_random(&w->random) %
					    (1ULL << (4 + test_random(&w->random) % 18)), &ptr));
			p[s] = ptr;
			WORKER(w, !devpool_addr(w->dev, ptr, &addr));
			WORKER(w, !devpool_ptr(w->dev, addr, &back) && back == ptr);
			*p[s] = addr ^ w->number << 56;
		} else {
			WORKER(w, !devpool_addr(w->dev, p[s], &addr));
			WORKER(w, *p[s] == (addr ^ w->number << 56));
			WORKER(w, !devpool_free(w->dev, p[s]));
			p[s] = NULL;
		}
	}
	for (s = 0; s < SLOTS; s++)
		WORKER(w, !p[s] || !devpool_free(w->dev, p[s]));
}

static void work(struct worker *w)
{
	struct devpool_pool *own;
	struct devpool_result result;
	int i;

	for (i = 0; i < 20; i++) {
		WORKER(w, !devpool_pool_create(w->dev, NULL, &own));
		work_in(w, own, 60);
		work_in(w, w->shared, 60);
		WORKER(w, !devpool_pool_close(own, 0, &result));
		WORKER(w, result.state == DEVPOOL_STATE_GONE && !result.live);
	}
}

static void *worker(void *arg)
{
	work(arg);
	return NULL;
}

/*
 * Pools come and go, so spans are mapped and unmapped, while others look theirs
 * up in the same tables.
 */
TEST_F_TIMEOUT(library, many_threads_in_one_client, 60)
{
	enum { THREADS = 6 };
	struct devpool_result result;
	struct worker w[THREADS];
	pthread_t thread[THREADS];
	struct devpool_pool *shared = new_pool(self->dev);
	__u64 seed = test_seed();
	int i;

	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker) {
			.dev = self->dev, .shared = shared, .random = seed + i, .number = i,
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, worker, &w[i]));
	}
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
		EXPECT_EQ(0, w[i].failed)
			TH_LOG("thread %d: line %d", i, w[i].line);
	}
	EXPECT_EQ(0, devpool_pool_close(shared, 0, &result));
	EXPECT_EQ(0, result.kept);
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
	EXPECT_EQ(0, mappings());
}

/* The example of README.md */

TEST_F(library, the_example_says_what_went_back)
{
	char out[100] = "";
	int fds[2], saved;
	ssize_t n;
	int ret;

	ASSERT_EQ(0, setenv("DEVPOOL_DEVICE", self->node, 1));
	ASSERT_EQ(0, pipe(fds));
	fflush(stdout);
	saved = dup(1);
	dup2(fds[1], 1);
	ret = first_example();
	fflush(stdout);
	dup2(saved, 1);
	n = read(fds[0], out, sizeof(out) - 1);
	EXPECT_EQ(0, ret);
	EXPECT_LT(0, n);
	EXPECT_STREQ("20971520 bytes went back\n", out);
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
}

TEST_HARNESS_MAIN
