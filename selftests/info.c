// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a device says of itself, and the layout of the ABI.
 */
#include "devpool_test.h"

/* The same on every architecture, 32 bit too, and for ever. */
#define LAYOUT(type, member, offset) \
	static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define SIZE(type, bytes) static_assert(sizeof(struct type) == (bytes), #type)

SIZE(devpool_pool_id, 16);
SIZE(devpool_counter, 32);

SIZE(devpool_info, 96);
LAYOUT(devpool_info, out_bytes, 8);
LAYOUT(devpool_info, out_chunk, 16);
LAYOUT(devpool_info, out_granule_small, 24);
LAYOUT(devpool_info, out_granule_large, 32);
LAYOUT(devpool_info, out_features, 40);
LAYOUT(devpool_info, out_index, 48);
LAYOUT(devpool_info, out_node, 52);
LAYOUT(devpool_info, out_backend, 56);
LAYOUT(devpool_info, out_max_pools, 72);
LAYOUT(devpool_info, out_max_routes, 84);
LAYOUT(devpool_info, out_max_blocks, 88);
LAYOUT(devpool_info, out_max_batch, 92);

SIZE(devpool_alloc, 80);
LAYOUT(devpool_alloc, bytes, 8);
LAYOUT(devpool_alloc, align, 16);
LAYOUT(devpool_alloc, pool, 24);
LAYOUT(devpool_alloc, stream, 40);
LAYOUT(devpool_alloc, __reserved, 44);
LAYOUT(devpool_alloc, timeout, 48);
LAYOUT(devpool_alloc, user_addr, 56);
LAYOUT(devpool_alloc, out_addr, 64);
LAYOUT(devpool_alloc, out_bytes, 72);

SIZE(devpool_free, 16);
LAYOUT(devpool_free, addr, 8);

SIZE(devpool_batch_op, 88);
LAYOUT(devpool_batch_op, addr, 8);
LAYOUT(devpool_batch_op, bytes, 16);
LAYOUT(devpool_batch_op, align, 24);
LAYOUT(devpool_batch_op, pool, 32);
LAYOUT(devpool_batch_op, stream, 48);
LAYOUT(devpool_batch_op, out_err, 52);
LAYOUT(devpool_batch_op, timeout, 56);
LAYOUT(devpool_batch_op, user_addr, 64);
LAYOUT(devpool_batch_op, out_addr, 72);
LAYOUT(devpool_batch_op, out_bytes, 80);

SIZE(devpool_batch, 32);
LAYOUT(devpool_batch, ops, 8);
LAYOUT(devpool_batch, count, 16);
LAYOUT(devpool_batch, op_size, 20);
LAYOUT(devpool_batch, out_done, 24);
LAYOUT(devpool_batch, __reserved, 28);

SIZE(devpool_retain, 16);
LAYOUT(devpool_retain, addr, 8);

SIZE(devpool_pool_id_new, 24);
LAYOUT(devpool_pool_id_new, out_pool, 8);

SIZE(devpool_pool_create, 72);
LAYOUT(devpool_pool_create, pool, 8);
LAYOUT(devpool_pool_create, limit, 24);
LAYOUT(devpool_pool_create, reserve, 32);
LAYOUT(devpool_pool_create, release_threshold, 40);
LAYOUT(devpool_pool_create, out_pool, 48);
LAYOUT(devpool_pool_create, out_fd, 64);
LAYOUT(devpool_pool_create, __reserved, 68);

SIZE(devpool_pool_get, 48);
LAYOUT(devpool_pool_get, pool, 8);
LAYOUT(devpool_pool_get, fd, 24);
LAYOUT(devpool_pool_get, out_use_count, 28);
LAYOUT(devpool_pool_get, out_pool, 32);

SIZE(devpool_pool_put, 32);
LAYOUT(devpool_pool_put, pool, 8);
LAYOUT(devpool_pool_put, out_use_count, 24);
LAYOUT(devpool_pool_put, __reserved, 28);

SIZE(devpool_pool_attr, 48);
LAYOUT(devpool_pool_attr, pool, 8);
LAYOUT(devpool_pool_attr, attr, 24);
LAYOUT(devpool_pool_attr, __reserved, 28);
LAYOUT(devpool_pool_attr, value, 32);
LAYOUT(devpool_pool_attr, out_value, 40);

SIZE(devpool_pool_stat, 296);
LAYOUT(devpool_pool_stat, pool, 8);
LAYOUT(devpool_pool_stat, out_use_count, 24);
LAYOUT(devpool_pool_stat, out_state, 28);
LAYOUT(devpool_pool_stat, out_allocated, 32);
LAYOUT(devpool_pool_stat, out_hits, 224);
LAYOUT(devpool_pool_stat, out_zeroed_bytes, 288);

SIZE(devpool_empty_cache, 80);
LAYOUT(devpool_empty_cache, pool, 8);
LAYOUT(devpool_empty_cache, timeout, 24);
LAYOUT(devpool_empty_cache, keep, 32);
LAYOUT(devpool_empty_cache, out_freed, 40);
LAYOUT(devpool_empty_cache, out_live, 64);
LAYOUT(devpool_empty_cache, out_state, 72);
LAYOUT(devpool_empty_cache, __reserved, 76);

SIZE(devpool_route_begin, 32);
LAYOUT(devpool_route_begin, pool, 8);
LAYOUT(devpool_route_begin, scope, 24);
LAYOUT(devpool_route_begin, stream, 28);
SIZE(devpool_route_end, 32);
LAYOUT(devpool_route_end, pool, 8);
LAYOUT(devpool_route_end, scope, 24);
LAYOUT(devpool_route_end, stream, 28);

SIZE(devpool_snapshot_entry, 80);
LAYOUT(devpool_snapshot_entry, addr, 0);
LAYOUT(devpool_snapshot_entry, bytes, 8);
LAYOUT(devpool_snapshot_entry, requested, 16);
LAYOUT(devpool_snapshot_entry, pool, 24);
LAYOUT(devpool_snapshot_entry, stream, 40);
LAYOUT(devpool_snapshot_entry, state, 44);
LAYOUT(devpool_snapshot_entry, client, 48);
LAYOUT(devpool_snapshot_entry, pid, 56);
LAYOUT(devpool_snapshot_entry, __reserved, 60);
LAYOUT(devpool_snapshot_entry, comm, 64);

SIZE(devpool_snapshot, 56);
LAYOUT(devpool_snapshot, pool, 8);
LAYOUT(devpool_snapshot, cursor, 24);
LAYOUT(devpool_snapshot, array, 32);
LAYOUT(devpool_snapshot, count, 40);
LAYOUT(devpool_snapshot, out_count, 44);
LAYOUT(devpool_snapshot, out_cursor, 48);

SIZE(devpool_limit, 16);
LAYOUT(devpool_limit, bytes, 8);

SIZE(devpool_stats, 272);
LAYOUT(devpool_stats, out_allocated, 8);
LAYOUT(devpool_stats, out_hits, 200);
LAYOUT(devpool_stats, out_zeroed_bytes, 264);

static_assert(DEVPOOL_IOC_INFO == 0xdc00, "INFO");
static_assert(DEVPOOL_IOC_ALLOC == 0xdc01, "ALLOC");
static_assert(DEVPOOL_IOC_FREE == 0xdc02, "FREE");
static_assert(DEVPOOL_IOC_RETAIN == 0xdc04, "RETAIN");
static_assert(DEVPOOL_IOC_POOL_ID == 0xdc10, "POOL_ID");
static_assert(DEVPOOL_IOC_POOL_CREATE == 0xdc11, "POOL_CREATE");
static_assert(DEVPOOL_IOC_POOL_GET == 0xdc12, "POOL_GET");
static_assert(DEVPOOL_IOC_POOL_PUT == 0xdc13, "POOL_PUT");
static_assert(DEVPOOL_IOC_POOL_ATTR == 0xdc14, "POOL_ATTR");
static_assert(DEVPOOL_IOC_POOL_STAT == 0xdc15, "POOL_STAT");
static_assert(DEVPOOL_IOC_EMPTY_CACHE == 0xdc16, "EMPTY_CACHE");
static_assert(DEVPOOL_IOC_ROUTE_BEGIN == 0xdc18, "ROUTE_BEGIN");
static_assert(DEVPOOL_IOC_ROUTE_END == 0xdc19, "ROUTE_END");
static_assert(DEVPOOL_IOC_STATS == 0xdc30, "STATS");
static_assert(DEVPOOL_IOC_SNAPSHOT == 0xdc31, "SNAPSHOT");
static_assert(DEVPOOL_IOC_LIMIT == 0xdc32, "LIMIT");

FIXTURE(info)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_VARIANT(info)
{
	enum test_kind kind;
	const char *backend;
};

FIXTURE_VARIANT_ADD(info, sysmem) { .kind = TEST_SYSMEM, .backend = "sysmem" };
FIXTURE_VARIANT_ADD(info, null) { .kind = TEST_NULL, .backend = "null" };

FIXTURE_SETUP(info)
{
	test_setup(self, variant->kind);
}

FIXTURE_TEARDOWN(info)
{
	close(self->fd);
}

TEST_F(info, size_is_whole_chunks)
{
	ASSERT_NE(0, self->info.out_bytes);
	ASSERT_NE(0, self->info.out_chunk);
	EXPECT_EQ(0, self->info.out_bytes % self->info.out_chunk);
}

TEST_F(info, chunk_is_a_power_of_two_of_pages)
{
	__u64 chunk = self->info.out_chunk;

	EXPECT_EQ(0, chunk & (chunk - 1));
	EXPECT_LE(TEST_PAGE, chunk);
	EXPECT_GE(GIB, chunk);
}

TEST_F(info, granules)
{
	EXPECT_EQ(512, self->info.out_granule_small);
	EXPECT_EQ(TEST_PAGE, self->info.out_granule_large);
}

TEST_F(info, index_is_the_node_s)
{
	EXPECT_EQ(self->index, self->info.out_index);
}

TEST_F(info, backend_is_a_terminated_name)
{
	int i = strlen(variant->backend);

	EXPECT_STREQ(variant->backend, (char *)self->info.out_backend);
	for (; i < sizeof(self->info.out_backend); i++)
		EXPECT_EQ(0, self->info.out_backend[i]);
}

/* What comes with later steps is absent, and says so. */
TEST_F(info, only_what_there_is)
{
	const __u64 all = DEVPOOL_FEATURE_ZERO | DEVPOOL_FEATURE_EXPORTABLE |
			  DEVPOOL_FEATURE_SHARE | DEVPOOL_FEATURE_ROUTES |
			  DEVPOOL_FEATURE_LIMITS | DEVPOOL_FEATURE_STABLE |
			  DEVPOOL_FEATURE_NO_SPLIT | DEVPOOL_FEATURE_SPARES |
			  DEVPOOL_FEATURE_SNAPSHOT | DEVPOOL_FEATURE_STREAMS |
			  DEVPOOL_FEATURE_FENCES | DEVPOOL_FEATURE_BATCH;
	const __u64 some = DEVPOOL_FEATURE_MMAP | DEVPOOL_FEATURE_HUGE_MAP |
			   DEVPOOL_FEATURE_EXPORT;

	EXPECT_EQ(all, self->info.out_features & ~some);
	EXPECT_EQ(variant->kind == TEST_SYSMEM,
		  !!(self->info.out_features & DEVPOOL_FEATURE_MMAP));
	EXPECT_EQ(variant->kind == TEST_SYSMEM,
		  !!(self->info.out_features & DEVPOOL_FEATURE_EXPORT));
}

TEST_F(info, bounds_are_told)
{
	EXPECT_NE(0, self->info.out_max_pools);
	EXPECT_NE(0, self->info.out_max_blocks);
	EXPECT_NE(0, self->info.out_max_batch);
	EXPECT_NE(0, self->info.out_max_routes);
	EXPECT_NE(0, self->info.out_max_streams);
	EXPECT_NE(0, self->info.out_max_points);
	EXPECT_NE((__u32)POISON, self->info.out_max_pools);
	EXPECT_NE((__u32)POISON, self->info.out_max_blocks);
	EXPECT_NE((__u32)POISON, self->info.out_max_routes);
	EXPECT_NE((__u32)POISON, self->info.out_max_streams);
	EXPECT_NE((__u32)POISON, self->info.out_max_points);
}

TEST_F(info, node_is_none_or_one_that_exists)
{
	struct stat st;
	char path[64];

	if (self->info.out_node == -1)
		return;
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", self->info.out_node);
	EXPECT_EQ(0, stat(path, &st));
}

TEST_F(info, the_same_on_a_pool_file)
{
	struct devpool_pool_id id;
	struct devpool_info info;
	int pool;

	pool = test_pool_create(self->fd, &id);
	info = test_info(pool);
	EXPECT_SAME(self->info, info);
}

TEST_F(info, sysfs_says_the_same)
{
	char path[80];
	char name[16];
	FILE *f;

	EXPECT_EQ(self->info.out_bytes, devpool_sysfs(self->index, "bytes"));
	EXPECT_EQ(self->info.out_chunk, devpool_sysfs(self->index, "chunk"));
	snprintf(path, sizeof(path), "/sys/class/devpool/devpool%d/backend", self->index);
	f = fopen(path, "re");
	ASSERT_NE(NULL, f);
	ASSERT_EQ(1, fscanf(f, "%15s", name));
	fclose(f);
	EXPECT_STREQ(variant->backend, name);
}

TEST_F(info, sysfs_is_for_reading)
{
	static const char *const names[] = {
		"bytes", "chunk", "backend", "used", "clean", "dirty", "clients", "pools",
	};
	struct stat st;
	char path[80];
	int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "/sys/class/devpool/devpool%d/%s",
			 self->index, names[i]);
		ASSERT_EQ(0, stat(path, &st))
			TH_LOG("%s", path);
		EXPECT_EQ(0444, st.st_mode & 0777)
			TH_LOG("%s", path);
	}
}

TEST_F(info, sysfs_counts_clients_and_pools)
{
	struct test_base base = test_base(self->index);
	struct devpool_pool_id id;
	int pool;
	int fd;

	EXPECT_EQ(1, base.clients);
	fd = test_open(self->index);
	EXPECT_EQ(2, devpool_sysfs(self->index, "clients"));
	base = test_base(self->index);
	pool = test_pool_create(fd, &id);
	EXPECT_EQ(base.pools + 1, devpool_sysfs(self->index, "pools"));
	close(pool);
	EXPECT_BASE(base, self->index);
	close(fd);
	EXPECT_EQ(1, devpool_sysfs(self->index, "clients"));
}

TEST_F(info, sysfs_used_is_what_pools_own)
{
	struct devpool_pool_id id;
	int pool;

	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
	pool = test_pool_create(self->fd, &id);
	test_alloc(self->fd, id, 3 * self->info.out_chunk);
	test_alloc(self->fd, default_pool, 1);
	EXPECT_EQ(4 * self->info.out_chunk, devpool_sysfs(self->index, "used"));
	close(pool);
	EXPECT_EQ(4 * self->info.out_chunk, devpool_sysfs(self->index, "used"));
}

TEST_F(info, node_is_not_for_everyone)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/dev/devpool%d", self->index);
	ASSERT_EQ(0, stat(path, &st));
	EXPECT_TRUE(S_ISCHR(st.st_mode));
	EXPECT_EQ(0660, st.st_mode & 07777);
	EXPECT_EQ(0, st.st_uid);
	EXPECT_EQ(0, st.st_gid);
}

/* P27 and the others: opening and asking needs no beginning, and holds no memory. */
TEST_F(info, P27_each_command_as_the_very_first)
{
	struct devpool_snapshot_entry entry;
	struct devpool_pool_id id;
	int pool;
	int fd;

	fd = test_open(self->index);
	test_info(fd);
	close(fd);
	fd = test_open(self->index);
	test_stats(fd);
	close(fd);
	fd = test_open(self->index);
	test_pool_stat(fd, default_pool);
	close(fd);
	fd = test_open(self->index);
	test_empty_cache(fd, default_pool, 0, 0);
	close(fd);
	fd = test_open(self->index);
	pool = test_pool_create(fd, &id);
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
	close(pool);
	close(fd);
	fd = test_open(self->index);
	id = test_pool_id(fd, 0);
	close(fd);
	fd = test_open(self->index);
	test_err_pool_get(ENOENT, fd, id);
	close(fd);
	fd = test_open(self->index);
	test_err_pool_put(ENOENT, fd, id);
	close(fd);
	fd = test_open(self->index);
	pool = test_pool_create(self->fd, &id);
	EXPECT_EQ(2, test_pool_attach(fd, pool, &id));
	close(fd);
	close(pool);
	fd = test_open(self->index);
	EXPECT_EQ(0, test_pool_get_attr(fd, default_pool, DEVPOOL_ATTR_LIMIT));
	close(fd);
	fd = test_open(self->index);
	test_err_route_begin(ENOENT, fd, id, DEVPOOL_SCOPE_ALL);
	close(fd);
	fd = test_open(self->index);
	test_err_route_end(ENOENT, fd, id, DEVPOOL_SCOPE_ALL);
	close(fd);
	fd = test_open(self->index);
	EXPECT_EQ(0, test_snapshot(fd, default_pool, 0, &entry, 1));
	close(fd);
	fd = test_open(self->index);
	test_limit(fd, MIB);
	close(fd);
	fd = test_open(self->index);
	test_err_retain(ENOENT, fd, 4096);
	close(fd);
	fd = test_open(self->index);
	test_err_free(ENOENT, fd, 4096);
	close(fd);
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
}

TEST_HARNESS_MAIN
