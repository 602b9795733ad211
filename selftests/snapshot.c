// SPDX-License-Identifier: GPL-2.0-only
/*
 * SNAPSHOT and STATS: every block once, and their sums are the counters.
 */
#include <pthread.h>
#include <sched.h>

#include "devpool_test.h"

/* What one call tells at most */
#define MOST 16384
/* Room for what a test makes: few blocks, or more than that */
#define ENTRIES 1000
#define MANY 20000

static struct devpool_snapshot_entry entry[MANY];
static struct devpool_snapshot_entry again[MANY];

FIXTURE(snapshot)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 client;
	__u64 chunk;
	int pool;
	int index;
	int fd;
};

FIXTURE_VARIANT(snapshot)
{
	enum test_kind kind;
};

FIXTURE_VARIANT_ADD(snapshot, sysmem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(snapshot, null) { .kind = TEST_NULL };

FIXTURE_SETUP(snapshot)
{
	test_setup(self, variant->kind);
	self->chunk = self->info.out_chunk;
	self->client = test_fdinfo_number(self->fd, "client-id");
	self->pool = test_pool_create(self->fd, &self->id);
}

FIXTURE_TEARDOWN(snapshot)
{
}

#define ALL default_pool
#define DEVICE DEVPOOL_SNAPSHOT_DEVICE

/* What is wrong with some entries, NULL if nothing is */
static const char *entries_wrong(const struct devpool_snapshot_entry *e, int n)
{
	static char what[120];
	int i;

	for (i = 0; i < n; i++) {
		const char *why = NULL;

		if (!e[i].addr || !e[i].bytes)
			why = "nothing";
		else if (i && e[i].addr < e[i - 1].addr + e[i - 1].bytes)
			why = "not behind the one before";
		else if (e[i].state != DEVPOOL_BLOCK_LIVE && e[i].state != DEVPOOL_BLOCK_CACHED)
			why = "in no state";
		else if (e[i].state == DEVPOOL_BLOCK_CACHED && e[i].requested)
			why = "cached, but requested";
		else if (e[i].state == DEVPOOL_BLOCK_LIVE &&
			 (!e[i].requested || e[i].requested > e[i].bytes))
			why = "live with a wrong size";
		else if (e[i].stream || e[i].__reserved)
			why = "not 0 in its zeroes";
		else if (!e[i].client)
			why = "nobody's";
		else if (!memchr(e[i].comm, 0, sizeof(e[i].comm)))
			why = "not terminated";
		if (!why)
			continue;
		snprintf(what, sizeof(what), "entry %d of %d, %llu bytes at %llx: %s", i, n,
			 e[i].bytes, e[i].addr, why);
		return what;
	}
	return NULL;
}

#define EXPECT_ENTRIES(e, n)							\
do {										\
	const char *_wrong = entries_wrong(e, n);				\
										\
	EXPECT_EQ(NULL, _wrong)							\
		TH_LOG("%s", _wrong);						\
} while (0)

/* The sums over entries: of one client, of one pool, or of all */
struct sums {
	__u64 allocated;
	__u64 requested;
	__u64 resident;
	__u64 blocks;
};

static struct sums sum_up(const struct devpool_snapshot_entry *e, int n, __u64 client,
			  const struct devpool_pool_id *pool)
{
	struct sums s = {};
	int i;

	for (i = 0; i < n; i++) {
		if (client && e[i].client != client)
			continue;
		if (pool && !test_is_id(e[i].pool, *pool))
			continue;
		s.resident += e[i].bytes;
		if (e[i].state != DEVPOOL_BLOCK_LIVE)
			continue;
		s.allocated += e[i].bytes;
		s.requested += e[i].requested;
		s.blocks++;
	}
	return s;
}

/* Counters of any kind against them */
#define EXPECT_SUMS(recount, stat)						\
do {										\
	const struct sums _sums = (recount);					\
	const __typeof__(stat) _is = (stat);					\
										\
	EXPECT_EQ(_is.out_allocated.current, _sums.allocated);			\
	EXPECT_EQ(_is.out_active.current, _sums.allocated);			\
	EXPECT_EQ(_is.out_requested.current, _sums.requested);			\
	EXPECT_EQ(_is.out_resident.current, _sums.resident);			\
	EXPECT_EQ(_is.out_blocks.current, _sums.blocks);			\
} while (0)

/* Some of everything, in several pools: live and cached, small and large */
#define FURNISH(fd, id)								\
do {										\
	__u64 _addr[24];							\
	int _i;									\
										\
	for (_i = 0; _i < 24; _i++)						\
		_addr[_i] = test_alloc(fd, id, _i % 3 ? 700 * (_i + 1) :	\
				       MIB + 4096 * (_i + 1));			\
	for (_i = 0; _i < 24; _i += 1 + _i % 2)					\
		test_free(fd, _addr[_i]);					\
} while (0)

TEST_F(snapshot, of_nothing)
{
	struct devpool_snapshot cmd;

	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, 0, entry, 1, &cmd));
	EXPECT_EQ(0, cmd.out_count);
	EXPECT_EQ(0, cmd.out_cursor);
	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, self->id, 0, 0, entry, 1, &cmd));
	EXPECT_EQ(0, cmd.out_count);
	/* There is nothing to put there. */
	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, 0, NULL, 1000, &cmd));
	EXPECT_EQ(0, cmd.out_count);
}

TEST_F(snapshot, tells_all_of_a_block)
{
	char comm[16] = {};
	__u64 addr;
	int n, i;

	prctl(PR_GET_NAME, comm);
	addr = test_alloc(self->fd, self->id, 5000);
	n = test_snapshot(self->fd, self->id, 0, entry, ENTRIES);
	EXPECT_ENTRIES(entry, n);
	ASSERT_EQ(2, n);
	i = entry[0].state == DEVPOOL_BLOCK_LIVE ? 0 : 1;
	EXPECT_EQ(addr, entry[i].addr);
	EXPECT_EQ(5120, entry[i].bytes);
	EXPECT_EQ(5000, entry[i].requested);
	EXPECT_EQ(DEVPOOL_BLOCK_LIVE, entry[i].state);
	EXPECT_EQ(DEVPOOL_BLOCK_CACHED, entry[!i].state);
	EXPECT_EQ(self->chunk - 5120, entry[!i].bytes);
	for (i = 0; i < n; i++) {
		EXPECT_TRUE(test_is_id(self->id, entry[i].pool));
		EXPECT_EQ(self->client, entry[i].client);
		EXPECT_EQ(getpid(), entry[i].pid);
		EXPECT_EQ(0, strncmp(comm, (char *)entry[i].comm, sizeof(comm)));
	}
	test_free(self->fd, addr);
	ASSERT_EQ(1, test_snapshot(self->fd, self->id, 0, entry, ENTRIES));
	EXPECT_EQ(DEVPOOL_BLOCK_CACHED, entry[0].state);
	EXPECT_EQ(self->chunk, entry[0].bytes);
	EXPECT_EQ(0, entry[0].requested);
	/* What has no memory is no block. */
	test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, 0);
	EXPECT_EQ(0, test_snapshot(self->fd, self->id, 0, entry, ENTRIES));
}

/* In calls for any number: the same, in the same order */
TEST_F(snapshot, goes_on_where_it_was)
{
	static const __u32 counts[] = { 1, 2, 3, 7, 64, MOST, MOST + 1, -1U };
	struct devpool_pool_id q;
	int n, i;

	test_pool_create(self->fd, &q);
	FURNISH(self->fd, default_pool);
	FURNISH(self->fd, self->id);
	FURNISH(self->fd, q);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	EXPECT_ENTRIES(entry, n);
	EXPECT_LE(60, n);
	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		ASSERT_EQ(n, devpool_snapshot_all_raw(self->fd, ALL, 0, again, ENTRIES,
						      counts[i]));
		EXPECT_EQ(0, memcmp(entry, again, n * sizeof(*entry)))
			TH_LOG("%u with each call", counts[i]);
	}
	/* Of one pool, too */
	n = test_snapshot(self->fd, q, 0, entry, ENTRIES);
	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		ASSERT_EQ(n, devpool_snapshot_all_raw(self->fd, q, 0, again, ENTRIES, counts[i]));
		EXPECT_EQ(0, memcmp(entry, again, n * sizeof(*entry)));
	}
}

/* No call puts more there than there is room for. */
TEST_F(snapshot, stays_within_its_room)
{
	struct devpool_snapshot cmd;
	int room;

	FURNISH(self->fd, self->id);
	for (room = 1; room < 8; room++) {
		memset(entry, POISON_BYTE, 16 * sizeof(*entry));
		ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, 0, entry, room, &cmd));
		EXPECT_EQ(room, cmd.out_count);
		EXPECT_NE(0, cmd.out_cursor);
		EXPECT_NE(POISON, entry[room - 1].addr);
		EXPECT_EQ(POISON, entry[room].addr);
		EXPECT_EQ(POISON, entry[room].client);
	}
}

/* More blocks than one call tells */
TEST_F(snapshot, of_many_blocks)
{
	struct devpool_snapshot cmd;
	int n, i;

	for (i = 0; i < MOST + 1000; i++)
		test_alloc(self->fd, self->id, 512);
	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, 0, entry, MANY, &cmd));
	EXPECT_NE(0, cmd.out_count);
	EXPECT_GE(MOST, cmd.out_count);
	EXPECT_NE(0, cmd.out_cursor);
	n = test_snapshot(self->fd, ALL, 0, entry, MANY);
	EXPECT_ENTRIES(entry, n);
	EXPECT_SUMS(sum_up(entry, n, self->client, NULL), test_stats(self->fd));
}

TEST_F(snapshot, of_one_pool_or_of_all)
{
	struct devpool_pool_id q;
	int n;

	test_pool_create(self->fd, &q);
	FURNISH(self->fd, default_pool);
	FURNISH(self->fd, self->id);
	FURNISH(self->fd, q);
	test_alloc(self->fd, q, 3 * MIB);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	EXPECT_SUMS(sum_up(entry, n, 0, &default_pool), test_pool_stat(self->fd, default_pool));
	EXPECT_SUMS(sum_up(entry, n, 0, &self->id), test_pool_stat(self->fd, self->id));
	EXPECT_SUMS(sum_up(entry, n, 0, &q), test_pool_stat(self->fd, q));
	EXPECT_SUMS(sum_up(entry, n, 0, NULL), test_stats(self->fd));
	n = test_snapshot(self->fd, q, 0, entry, ENTRIES);
	EXPECT_SUMS(sum_up(entry, n, 0, NULL), test_pool_stat(self->fd, q));
	EXPECT_SUMS(sum_up(entry, n, 0, &q), test_pool_stat(self->fd, q));
}

TEST_F(snapshot, of_a_freeable_pool)
{
	__u64 addr;
	int n;

	addr = test_alloc(self->fd, self->id, 3 * MIB);
	close(self->pool);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	EXPECT_SUMS(sum_up(entry, n, self->client, &self->id),
		    test_pool_stat(self->fd, self->id));
	EXPECT_EQ(n, test_snapshot(self->fd, self->id, 0, entry, ENTRIES));
	test_free(self->fd, addr);
	test_err_snapshot(ENOENT, self->fd, self->id, 0, entry, 1);
}

/* A client sees the pools that it knows, and no others. */
TEST_F(snapshot, shows_no_other_client_s_pools)
{
	struct devpool_pool_id theirs, shared;
	__u64 addr, client;
	int n, other;
	int pool;

	other = test_open(self->index);
	client = test_fdinfo_number(other, "client-id");
	EXPECT_LT(self->client, client);
	pool = test_pool_create(other, &theirs);
	FURNISH(other, default_pool);
	FURNISH(other, theirs);
	EXPECT_EQ(0, test_snapshot(self->fd, ALL, 0, entry, ENTRIES));
	test_err_snapshot(ENOENT, self->fd, theirs, 0, entry, ENTRIES);
	FURNISH(self->fd, self->id);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	EXPECT_SUMS(sum_up(entry, n, 0, NULL), test_pool_stat(self->fd, self->id));
	/* Once attached it is known: still its creator's. */
	EXPECT_EQ(2, test_pool_attach(self->fd, pool, &shared));
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	EXPECT_SUMS(sum_up(entry, n, client, NULL), test_pool_stat(self->fd, shared));
	EXPECT_SUMS(sum_up(entry, n, self->client, NULL), test_stats(self->fd));
	addr = test_alloc(self->fd, shared, 5 * MIB);
	EXPECT_NE(0, test_snapshot(self->fd, shared, 0, entry, ENTRIES));
	EXPECT_EQ(client, entry[0].client);
	/* And then no more */
	test_pool_put(self->fd, shared);
	n = test_snapshot(self->fd, shared, 0, entry, ENTRIES);
	EXPECT_SUMS(sum_up(entry, n, client, NULL), test_pool_stat(other, theirs));
	test_free(self->fd, addr);
	test_err_snapshot(ENOENT, self->fd, shared, 0, entry, ENTRIES);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	EXPECT_EQ(0, sum_up(entry, n, client, NULL).resident);
}

TEST_F(snapshot, of_the_device)
{
	struct devpool_pool_id theirs;
	__u64 client;
	int n, other;

	other = test_open(self->index);
	client = test_fdinfo_number(other, "client-id");
	test_pool_create(other, &theirs);
	FURNISH(other, default_pool);
	FURNISH(other, theirs);
	FURNISH(self->fd, default_pool);
	FURNISH(self->fd, self->id);
	n = test_snapshot(self->fd, ALL, DEVICE, entry, ENTRIES);
	EXPECT_ENTRIES(entry, n);
	EXPECT_SUMS(sum_up(entry, n, self->client, NULL), test_stats(self->fd));
	EXPECT_SUMS(sum_up(entry, n, client, NULL), test_stats(other));
	EXPECT_SUMS(sum_up(entry, n, 0, NULL), test_stats_device(self->fd));
	EXPECT_EQ(devpool_sysfs(self->index, "used"),
		  test_stats_device(other).out_resident.current);
	ASSERT_EQ(n, devpool_snapshot_all_raw(other, ALL, DEVICE, again, ENTRIES, 1));
	EXPECT_EQ(0, memcmp(entry, again, n * sizeof(*entry)));
}

/* Other devices are other devices. */
TEST_F(snapshot, of_the_device_is_of_one)
{
	int index = test_find(variant->kind == TEST_NULL ? TEST_SYSMEM : TEST_NULL);
	int other;

	if (index < 0)
		SKIP(return, "there is no second device");
	other = test_open(index);
	FURNISH(other, default_pool);
	EXPECT_EQ(0, test_snapshot(self->fd, ALL, DEVICE, entry, ENTRIES));
	EXPECT_EQ(0, test_stats_device(self->fd).out_resident.current);
	FURNISH(self->fd, self->id);
	EXPECT_EQ(test_snapshot(self->fd, ALL, 0, entry, ENTRIES),
		  test_snapshot(self->fd, ALL, DEVICE, entry, ENTRIES));
}

TEST_F(snapshot, of_the_device_needs_a_capability)
{
	struct devpool_stats stats;
	int n, other;

	other = test_open(self->index);
	FURNISH(other, default_pool);
	FURNISH(self->fd, self->id);
	stats = test_stats(self->fd);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	EXPECT_LT(n, test_snapshot(self->fd, ALL, DEVICE, again, ENTRIES));
	ASSERT_EQ(0, test_drop_admin());
	memset(again, POISON_BYTE, ENTRIES * sizeof(*again));
	test_err_snapshot(EPERM, self->fd, ALL, DEVICE, again, ENTRIES);
	EXPECT_EQ(POISON, again[0].addr);
	test_err_stats_device(EPERM, self->fd);
	/* What is one's own needs none. */
	EXPECT_EQ(n, test_snapshot(self->fd, ALL, 0, again, ENTRIES));
	EXPECT_EQ(0, memcmp(entry, again, n * sizeof(*entry)));
	EXPECT_SAME(stats, test_stats(self->fd));
}

/* Nor is being root of a user namespace enough. */
TEST_F(snapshot, of_the_device_in_a_user_namespace)
{
	pid_t pid;

	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct devpool_snapshot cmd;
		struct devpool_stats stats;

		if (unshare(CLONE_NEWUSER))
			_exit(77);
		_exit(devpool_snapshot_raw(self->fd, ALL, DEVICE, 0, entry, 1, &cmd) != -EPERM ||
		      devpool_stats_flags_raw(self->fd, DEVPOOL_STATS_DEVICE, &stats) != -EPERM);
	}
	switch (test_wait(pid)) {
	case 0:
		return;
	case 77:
		SKIP(return, "there are no user namespaces");
	}
	EXPECT_TRUE(false);
}

/* Cursors and arrays */

/* Whatever it is: the answer is a part of the whole, in order. */
TEST_F(snapshot, any_cursor_is_good)
{
	struct devpool_snapshot cmd;
	__u64 cursors[64];
	int n, i, j, k;

	FURNISH(self->fd, default_pool);
	FURNISH(self->fd, self->id);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	for (i = 0; i < 16; i++) {
		k = i * n / 16;
		cursors[i] = entry[k].addr;
		cursors[16 + i] = entry[k].addr + 1;
		cursors[32 + i] = entry[k].addr + entry[k].bytes;
		cursors[48 + i] = ~0ULL >> 4 * i;
	}
	for (i = 0; i < ARRAY_SIZE(cursors); i++) {
		memset(again, POISON_BYTE, ENTRIES * sizeof(*again));
		ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, cursors[i], again, ENTRIES,
						  &cmd));
		ASSERT_GE(n, cmd.out_count);
		EXPECT_EQ(0, cmd.out_cursor);
		j = n - cmd.out_count;
		EXPECT_EQ(0, memcmp(entry + j, again, cmd.out_count * sizeof(*entry)))
			TH_LOG("cursor %llx", cursors[i]);
		EXPECT_EQ(POISON, again[cmd.out_count].addr);
		/* Nothing that lies behind it is left out. */
		if (j)
			EXPECT_GE(cursors[i], entry[j - 1].addr);
	}
	/* Beyond all */
	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, -1ULL, again, ENTRIES, &cmd));
	EXPECT_EQ(0, cmd.out_count);
	EXPECT_EQ(0, cmd.out_cursor);
}

/* Blocks come and go between the calls; what stays is told once. */
TEST_F(snapshot, resumed_while_blocks_come_and_go)
{
	struct devpool_snapshot cmd = {};
	__u64 addr[100];
	int told[100] = {};
	__u64 extra = 0;
	int i, j, n = 0;
	int calls = 0;

	for (i = 0; i < 100; i++)
		addr[i] = test_alloc(self->fd, self->id, i % 4 ? 3000 : MIB + 4096);
	do {
		ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, cmd.out_cursor, entry, 6,
						  &cmd));
		for (i = 0; i < cmd.out_count; i++) {
			for (j = 0; j < 100; j++)
				told[j] += entry[i].addr == addr[j] &&
					   entry[i].state == DEVPOOL_BLOCK_LIVE;
		}
		/* Every tenth goes, one that was told or one that was not. */
		if (n < 100) {
			test_free(self->fd, addr[(n * 7) % 100]);
			addr[(n * 7) % 100] = 0;
			n += 10;
		}
		if (calls % 3 == 0)
			test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0);
		if (extra)
			test_free(self->fd, extra);
		extra = test_alloc(self->fd, self->id, 700 + calls);
		ASSERT_GT(200, ++calls);
	} while (cmd.out_cursor);
	for (j = 0; j < 100; j++)
		if (addr[j])
			EXPECT_EQ(1, told[j])
				TH_LOG("block %d", j);
}

/* A cursor into a pool that is gone by then */
TEST_F(snapshot, resumed_when_the_pool_is_gone)
{
	struct devpool_snapshot cmd;
	struct devpool_pool_id q;
	int n;

	FURNISH(self->fd, self->id);
	test_pool_create(self->fd, &q);
	test_alloc(self->fd, q, 3 * MIB);
	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, self->id, 0, 0, entry, 3, &cmd));
	EXPECT_NE(0, cmd.out_cursor);
	n = test_snapshot(self->fd, self->id, 0, entry, ENTRIES);
	while (n--)
		if (entry[n].state == DEVPOOL_BLOCK_LIVE)
			test_free(self->fd, entry[n].addr);
	close(self->pool);
	EXPECT_EQ(-ENOENT, devpool_snapshot_raw(self->fd, self->id, 0, cmd.out_cursor, entry, 3,
						&cmd));
	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, 4096, entry, ENTRIES, &cmd));
	EXPECT_EQ(0, cmd.out_cursor);
	EXPECT_SUMS(sum_up(entry, cmd.out_count, 0, NULL), test_stats(self->fd));
}

/* Three pages: one that can be written, one that cannot, one that is not there */
static char *pages_of_all_kinds(void)
{
	char *p = mmap(NULL, 3 * TEST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	memset(p, POISON_BYTE, 2 * TEST_PAGE);
	mprotect(p + TEST_PAGE, TEST_PAGE, PROT_READ);
	munmap(p + 2 * TEST_PAGE, TEST_PAGE);
	return p;
}

TEST_F(snapshot, into_an_array_that_is_none)
{
	struct devpool_stats before;
	char *p = pages_of_all_kinds();

	ASSERT_NE(NULL, p);
	FURNISH(self->fd, self->id);
	before = test_stats(self->fd);
	test_err_snapshot(EFAULT, self->fd, ALL, 0, NULL, 1);
	test_err_snapshot(EFAULT, self->fd, ALL, 0, NULL, -1U);
	test_err_snapshot(EFAULT, self->fd, ALL, 0, (void *)1UL, 10);
	test_err_snapshot(EFAULT, self->fd, ALL, 0, p + TEST_PAGE, 1);
	test_err_snapshot(EFAULT, self->fd, ALL, 0, p + 2 * TEST_PAGE, 1);
	test_err_snapshot(EFAULT, self->fd, ALL, 0, (void *)0xffff888000000000UL, 1);
	test_err_snapshot(EFAULT, self->fd, ALL, 0, (void *)-8UL, 2);
	test_err_snapshot(EFAULT, self->fd, ALL, DEVICE, p + TEST_PAGE, 1);
	EXPECT_SAME(before, test_stats(self->fd));
}

/* Room for less than what it is said to be */
TEST_F(snapshot, into_an_array_that_is_cut_off)
{
	struct devpool_snapshot cmd;
	char *p = pages_of_all_kinds();
	char *end = p + TEST_PAGE;
	int other;
	int i;

	ASSERT_NE(NULL, p);
	FURNISH(self->fd, self->id);
	for (i = 1; i < 5; i++)
		test_err_snapshot(EFAULT, self->fd, ALL, 0, end - i * sizeof(*entry) + 8, i);
	test_err_snapshot(EFAULT, self->fd, ALL, 0, end - 2 * sizeof(*entry), 3);
	test_err_snapshot(EFAULT, self->fd, ALL, 0, end - 2 * sizeof(*entry), -1U);
	/* To the last byte */
	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, 0, end - 2 * sizeof(*entry), 2,
					  &cmd));
	EXPECT_EQ(2, cmd.out_count);
	/* What is said to be there need not be, if it is not needed. */
	other = test_open(self->index);
	test_alloc(other, default_pool, self->chunk);
	ASSERT_EQ(0, devpool_snapshot_raw(other, ALL, 0, 0, end - sizeof(*entry), -1U, &cmd));
	EXPECT_EQ(1, cmd.out_count);
	EXPECT_EQ(0, cmd.out_cursor);
}

TEST_F(snapshot, into_an_array_at_an_odd_address)
{
	struct devpool_snapshot cmd;
	char *odd = (char *)again + 3;
	int n;

	FURNISH(self->fd, self->id);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	memset(again, POISON_BYTE, ENTRIES * sizeof(*again));
	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, 0, odd, ENTRIES - 1, &cmd));
	EXPECT_EQ(n, cmd.out_count);
	EXPECT_EQ(0, memcmp(entry, odd, n * sizeof(*entry)));
	EXPECT_EQ((char)POISON_BYTE, odd[-1]);
	EXPECT_EQ((char)POISON_BYTE, odd[n * sizeof(*entry)]);
}

TEST_F(snapshot, for_no_entries_or_more_than_there_can_be)
{
	struct devpool_snapshot cmd;
	int n;

	FURNISH(self->fd, self->id);
	test_err_snapshot(EINVAL, self->fd, ALL, 0, entry, 0);
	test_err_snapshot(EINVAL, self->fd, self->id, 0, entry, 0);
	test_err_snapshot(EINVAL, self->fd, ALL, DEVICE, entry, 0);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	ASSERT_EQ(0, devpool_snapshot_raw(self->fd, ALL, 0, 0, again, -1U, &cmd));
	EXPECT_EQ(n, cmd.out_count);
	EXPECT_EQ(-1U, cmd.count);
	EXPECT_EQ(0, memcmp(entry, again, n * sizeof(*entry)));
}

TEST_F(snapshot, of_the_device_names_no_pool)
{
	FURNISH(self->fd, self->id);
	test_err_snapshot(EINVAL, self->fd, self->id, DEVICE, entry, ENTRIES);
	test_err_snapshot(EINVAL, self->fd, ((struct devpool_pool_id){ 0, 1 }), DEVICE, entry, 1);
}

/* Who opened it */

TEST_F(snapshot, tells_who_opened_the_client)
{
	__u64 client;
	int sock[2];
	int n, i, fd;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_NAME, "an opener of it");
		fd = devpool_open_node(self->index);
		/* What it is called later does not count. */
		prctl(PR_SET_NAME, "somebody else");
		if (fd < 0 || test_send_fd(sock[1], fd))
			_exit(1);
		pause();
		_exit(0);
	}
	fd = test_receive_fd(sock[0]);
	ASSERT_LE(0, fd);
	client = test_fdinfo_number(fd, "client-id");
	test_alloc(fd, default_pool, 3 * MIB);
	test_alloc(self->fd, self->id, 3 * MIB);
	n = test_snapshot(fd, ALL, 0, entry, ENTRIES);
	EXPECT_NE(0, n);
	for (i = 0; i < n; i++) {
		EXPECT_EQ(client, entry[i].client);
		EXPECT_EQ(pid, entry[i].pid);
		EXPECT_STREQ("an opener of it", (char *)entry[i].comm);
	}
	n = test_snapshot(self->fd, ALL, DEVICE, entry, ENTRIES);
	for (i = 0; i < n; i++)
		EXPECT_EQ(entry[i].client == client ? pid : getpid(), entry[i].pid);
	/* Its name is known even when it is dead. */
	EXPECT_EQ(-SIGKILL, test_kill(pid));
	n = test_snapshot(fd, ALL, 0, entry, ENTRIES);
	EXPECT_NE(0, n);
	EXPECT_STREQ("an opener of it", (char *)entry[0].comm);
	EXPECT_EQ(client, entry[0].client);
}

/* Process ids are as the caller sees them. */
TEST_F(snapshot, tells_no_pid_that_the_caller_does_not_see)
{
	struct devpool_snapshot cmd;
	pid_t pid;

	test_alloc(self->fd, self->id, 3 * MIB);
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (unshare(CLONE_NEWPID))
			_exit(77);
		pid = fork();
		if (!pid) {
			int ret = 0;
			__u64 addr;
			int fd;

			if (getpid() != 1 ||
			    devpool_snapshot_raw(self->fd, ALL, 0, 0, entry, 1, &cmd) ||
			    cmd.out_count != 1 || entry[0].pid != 0 || !entry[0].comm[0])
				ret |= 1;
			fd = devpool_open_node(self->index);
			if (fd < 0 || devpool_alloc_raw(fd, default_pool, 1, &addr) ||
			    devpool_snapshot_raw(fd, ALL, 0, 0, entry, 1, &cmd) ||
			    cmd.out_count != 1 || entry[0].pid != 1)
				ret |= 2;
			_exit(ret);
		}
		_exit(test_wait(pid));
	}
	switch (test_wait(pid)) {
	case 0:
		return;
	case 77:
		SKIP(return, "there are no process id namespaces");
	}
	EXPECT_TRUE(false);
}

/* A name of the full length */
TEST_F(snapshot, tells_a_name_that_is_long)
{
	int fd;

	prctl(PR_SET_NAME, "123456789abcdefghi");
	fd = test_open(self->index);
	test_alloc(fd, default_pool, 1);
	EXPECT_NE(0, test_snapshot(fd, ALL, 0, entry, ENTRIES));
	EXPECT_STREQ("123456789abcdef", (char *)entry[0].comm);
}

/* While others are at work */

struct worker {
	struct devpool_pool_id id;
	bool stop;
	int rounds;
	int wrong;
	int fd;
};

/* How many calls meet how many rounds, at the least */
#define CALLS test_times(150)

#define STOPPED(w) __atomic_load_n(&(w)->stop, __ATOMIC_RELAXED)
#define ROUND(w) __atomic_add_fetch(&(w)->rounds, 1, __ATOMIC_RELAXED)
#define ROUNDS(w) __atomic_load_n(&(w)->rounds, __ATOMIC_RELAXED)

static void *make_and_close(void *arg)
{
	struct worker *w = arg;
	__u64 addr[6];
	int pool;
	int i;

	while (!STOPPED(w)) {
		struct devpool_pool_id id = {};

		if (devpool_pool_create_raw(w->fd, &id, &pool)) {
			w->wrong = __LINE__;
			/* For whoever waits for so many */
			__atomic_store_n(&w->rounds, INT_MAX, __ATOMIC_RELAXED);
			break;
		}
		__atomic_store_n(&w->id.second, id.second, __ATOMIC_RELAXED);
		for (i = 0; i < 6; i++)
			if (devpool_alloc_raw(w->fd, id, i % 2 ? 4096 : 3 * MIB, &addr[i]))
				w->wrong = __LINE__;
		for (i = 0; i < 6; i += 2)
			if (devpool_free_raw(w->fd, addr[i]))
				w->wrong = __LINE__;
		/* Freeable in every second round */
		if (ROUND(w) % 2)
			close(pool);
		for (i = 1; i < 6; i += 2)
			if (devpool_free_raw(w->fd, addr[i]))
				w->wrong = __LINE__;
		if (w->rounds % 2 == 0)
			close(pool);
	}
	return NULL;
}

TEST_F_TIMEOUT(snapshot, while_pools_come_and_go, 120)
{
	struct worker w = { .fd = self->fd };
	struct devpool_pool_id id = {};
	int n, named = 0, gone = 0;
	int calls = 0;
	struct sums sums;
	pthread_t thread;

	FURNISH(self->fd, self->id);
	n = test_snapshot(self->fd, self->id, 0, entry, ENTRIES);
	sums = sum_up(entry, n, 0, NULL);
	ASSERT_EQ(0, pthread_create(&thread, NULL, make_and_close, &w));
	while (calls++ < CALLS || ROUNDS(&w) < CALLS) {
		n = devpool_snapshot_all_raw(self->fd, ALL, calls % 2 ? DEVICE : 0, entry,
					     ENTRIES, 1 + calls % 20);
		ASSERT_LE(0, n);
		EXPECT_ENTRIES(entry, n);
		/* The one that stays is told in full. */
		EXPECT_SUMS(sum_up(entry, n, self->client, &self->id),
			    test_pool_stat(self->fd, self->id));
		id.second = __atomic_load_n(&w.id.second, __ATOMIC_RELAXED);
		if (!id.second)
			continue;
		n = devpool_snapshot_all_raw(self->fd, id, 0, again, ENTRIES, ENTRIES);
		if (n == -ENOENT) {
			gone++;
			continue;
		}
		ASSERT_LE(0, n);
		EXPECT_ENTRIES(again, n);
		EXPECT_EQ(sum_up(again, n, 0, NULL).resident,
			  sum_up(again, n, self->client, &id).resident);
		named++;
		if (_metadata->exit_code)
			break;
	}
	__atomic_store_n(&w.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, w.wrong);
	TH_LOG("%d pools found, %d gone", named, gone);
	EXPECT_NE(0, named);
	n = test_snapshot(self->fd, ALL, 0, entry, ENTRIES);
	EXPECT_SUMS(sum_up(entry, n, 0, NULL), test_stats(self->fd));
	EXPECT_EQ(sums.resident, sum_up(entry, n, 0, NULL).resident);
}

/* Its memory stays what it was, whatever becomes of its blocks. */
static void *move_about(void *arg)
{
	struct worker *w = arg;
	__u64 random = 12345;
	__u64 addr[16] = {};
	int i;

	while (!STOPPED(w)) {
		__u64 r = test_random(&random);

		i = r % ARRAY_SIZE(addr);
		if (addr[i]) {
			if (devpool_free_raw(w->fd, addr[i]))
				w->wrong = __LINE__;
			addr[i] = 0;
		} else if (devpool_alloc_raw(w->fd, w->id, 512 + r / 64 % (32 * KIB), &addr[i])) {
			w->wrong = __LINE__;
		}
		ROUND(w);
	}
	return NULL;
}

/* What one call tells of a pool is of one instant. */
TEST_F_TIMEOUT(snapshot, while_blocks_come_and_go, 120)
{
	struct worker w = { .fd = self->fd, .id = self->id };
	struct devpool_snapshot cmd;
	int different = 0, calls = 0;
	pthread_t thread;
	__u64 last = 0;

	test_free(self->fd, test_alloc(self->fd, self->id, 1));
	ASSERT_EQ(0, pthread_create(&thread, NULL, move_about, &w));
	/* A worker that has to wait for its turn may do nothing for a few calls. */
	while (calls < CALLS || ROUNDS(&w) < CALLS || (different < 2 && calls < 150)) {
		struct sums sums;

		ASSERT_EQ(0, devpool_snapshot_raw(self->fd, calls % 2 ? self->id : ALL, 0, 0,
						  entry, ENTRIES, &cmd));
		ASSERT_EQ(0, cmd.out_cursor);
		EXPECT_ENTRIES(entry, cmd.out_count);
		sums = sum_up(entry, cmd.out_count, self->client, &self->id);
		/* Not a byte twice, and none that is missing */
		ASSERT_EQ(self->chunk, sums.resident);
		different += sums.allocated != last;
		last = sums.allocated;
		calls++;
	}
	__atomic_store_n(&w.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, w.wrong);
	TH_LOG("%d calls, %d different", calls, different);
	EXPECT_LT(1, different);
}

/* One chunk, now behind small addresses, now behind large ones */
static void *move_a_chunk(void *arg)
{
	struct worker *w = arg;
	__u64 addr;
	int i;

	for (i = 0; !STOPPED(w); i++) {
		if (devpool_alloc_raw(w->fd, w->id, i % 2 ? MIB + 4096 : 4096, &addr) ||
		    devpool_free_raw(w->fd, addr))
			w->wrong = __LINE__;
		ROUND(w);
	}
	return NULL;
}

TEST_F_TIMEOUT(snapshot, while_chunks_move_about, 120)
{
	struct worker w = { .fd = self->fd, .id = self->id };
	struct devpool_pool_stat stat;
	struct devpool_snapshot cmd;
	pthread_t thread;
	int calls = 0;

	test_pool_set_attr(self->pool, default_pool, DEVPOOL_ATTR_LIMIT, self->chunk);
	ASSERT_EQ(0, pthread_create(&thread, NULL, move_a_chunk, &w));
	while (calls++ < CALLS || ROUNDS(&w) < CALLS) {
		ASSERT_EQ(0, devpool_snapshot_raw(self->fd, self->id, 0, 0, entry, ENTRIES, &cmd));
		ASSERT_EQ(0, cmd.out_cursor);
		EXPECT_ENTRIES(entry, cmd.out_count);
		/* On its way it is behind none, and never behind two. */
		EXPECT_GE(self->chunk, sum_up(entry, cmd.out_count, 0, NULL).resident);
		if (_metadata->exit_code)
			break;
	}
	__atomic_store_n(&w.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, w.wrong);
	stat = test_pool_stat(self->pool, default_pool);
	EXPECT_EQ(self->chunk, stat.out_resident.peak);
	EXPECT_EQ(1, stat.out_grows);
	EXPECT_LT(CALLS / 2, stat.out_recycles);
}

/*
 * After every step of a life of everything: the counters of pools, clients and
 * the device are what a recount of their blocks gives. Two clients, a and b; c
 * looks at all of the device.
 */
struct witness {
	struct devpool_pool_id id[8];
	__u64 client[2];
	int ids;
	int fd[2];
	int index;
	int admin;
	int step;
};

/* One client: all that it knows together, and each pool that it knows. */
static void recount_client(struct __test_metadata *_metadata, struct witness *w, int k)
{
	struct devpool_stats stats = test_stats(w->fd[k]);
	struct devpool_pool_stat stat;
	int all, one, i, ret;

	EXPECT_EQ(NULL, test_counters_wrong(&stats.out_allocated));
	all = test_snapshot(w->fd[k], ALL, 0, entry, ENTRIES);
	EXPECT_ENTRIES(entry, all);
	EXPECT_SUMS(sum_up(entry, all, w->client[k], NULL), stats);
	EXPECT_SUMS(sum_up(entry, all, w->client[k], &default_pool),
		    test_pool_stat(w->fd[k], default_pool));
	for (i = 0; i < w->ids; i++) {
		ret = devpool_pool_stat_raw(w->fd[k], w->id[i], &stat);
		if (ret) {
			EXPECT_EQ(-ENOENT, ret);
			test_err_snapshot(ENOENT, w->fd[k], w->id[i], 0, again, 1);
			continue;
		}
		EXPECT_POOL_SOUND(stat);
		EXPECT_SUMS(sum_up(entry, all, 0, &w->id[i]), stat);
		one = test_snapshot(w->fd[k], w->id[i], 0, again, ENTRIES);
		EXPECT_SUMS(sum_up(again, one, 0, NULL), stat);
	}
}

static void recount(struct __test_metadata *_metadata, struct witness *w)
{
	struct devpool_stats stats = test_stats_device(w->admin);
	int n, k;

	w->step++;
	EXPECT_EQ(NULL, test_counters_wrong(&stats.out_allocated));
	EXPECT_EQ(devpool_sysfs(w->index, "used"),
		  stats.out_resident.current + stats.out_spare.current);
	n = test_snapshot(w->admin, ALL, DEVICE, entry, ENTRIES);
	EXPECT_ENTRIES(entry, n);
	EXPECT_SUMS(sum_up(entry, n, 0, NULL), stats);
	for (k = 0; k < 2; k++)
		if (w->fd[k] >= 0)
			EXPECT_SUMS(sum_up(entry, n, w->client[k], NULL), test_stats(w->fd[k]));
	for (k = 0; k < 2; k++)
		if (w->fd[k] >= 0)
			recount_client(_metadata, w, k);
	if (_metadata->exit_code)
		TH_LOG("step %d", w->step);
}

#define RECOUNT(w) recount(_metadata, w)

#define KNOWN(w, pool) ((w)->id[(w)->ids++] = (pool))

TEST_F_TIMEOUT(snapshot, a_recount_gives_the_counters_at_every_step, 120)
{
	struct witness w = { .index = self->index };
	struct devpool_pool_id p = self->id, q, r, s, t, u;
	int a = self->fd, b;
	int p_fd = self->pool, q_fd, r_fd, t_fd;
	__u64 x[20], y[12];
	int i;

	b = test_open(self->index);
	w.admin = test_open(self->index);
	w.fd[0] = a;
	w.fd[1] = b;
	for (i = 0; i < 2; i++)
		w.client[i] = test_fdinfo_number(w.fd[i], "client-id");
	KNOWN(&w, p);
	RECOUNT(&w);

	/* Blocks of all sizes, in pools of all kinds */
	q_fd = test_pool_create_opts(a, &q, .flags = DEVPOOL_POOL_STABLE);
	KNOWN(&w, q);
	RECOUNT(&w);
	r_fd = test_pool_create_opts(a, &r, .flags = DEVPOOL_POOL_NO_SPLIT);
	KNOWN(&w, r);
	for (i = 0; i < 20; i++) {
		static const __u64 sizes[] = { 1, 700, 64 * KIB, MIB + 1, 5 * MIB + 5 };
		struct devpool_pool_id to[] = { default_pool, p, q, r };

		x[i] = test_alloc_opts(a, .pool = to[i % 4], .bytes = sizes[i % 5],
				       .flags = i % 3 ? 0 : DEVPOOL_ALLOC_ZERO |
				       DEVPOOL_ALLOC_EXPORTABLE).out_addr;
		RECOUNT(&w);
	}
	test_err_alloc(ENOSPC, a, p, self->info.out_bytes + 1);
	RECOUNT(&w);
	test_err_free(ENOENT, a, x[0] + 1);
	RECOUNT(&w);
	for (i = 0; i < 20; i += 2) {
		test_free(a, x[i]);
		RECOUNT(&w);
	}
	/* Hits, moves, new chunks */
	for (i = 0; i < 20; i += 2) {
		x[i] = test_alloc(a, i % 4 ? q : p, i % 3 ? 600 * KIB : 6 * MIB);
		RECOUNT(&w);
	}
	for (i = 1; i < 20; i += 4) {
		test_free(a, x[i]);
		x[i] = test_alloc(a, p, 7 * MIB);
		RECOUNT(&w);
	}

	/* A limit that is reached, and one below what is held */
	test_pool_set_attr(a, p, DEVPOOL_ATTR_LIMIT, 1);
	RECOUNT(&w);
	test_err_alloc(EDQUOT, a, p, 40 * MIB);
	RECOUNT(&w);
	test_pool_set_attr(a, p, DEVPOOL_ATTR_LIMIT, 0);
	test_free(a, test_alloc(a, default_pool, 8 * MIB));
	RECOUNT(&w);
	test_limit(a, test_stats(a).out_resident.current);
	/* Takes the default pool's cache */
	y[0] = test_alloc(a, p, 8 * MIB);
	RECOUNT(&w);
	test_err_alloc(EDQUOT, a, r, 100 * MIB);
	RECOUNT(&w);
	test_limit(a, 0);

	/* Flushes of all kinds */
	test_free(a, y[0]);
	RECOUNT(&w);
	test_empty_cache(a, p, DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, 4 * MIB);
	RECOUNT(&w);
	y[0] = test_alloc(a, p, 5 * MIB);
	RECOUNT(&w);
	test_empty_cache(a, p, DEVPOOL_EMPTY_TRIM, 6 * MIB);
	RECOUNT(&w);
	test_empty_cache(q_fd, default_pool, DEVPOOL_EMPTY_TRIM, 0);
	RECOUNT(&w);
	test_empty_cache(a, default_pool, DEVPOOL_EMPTY_KEEP_PHYSICAL, 0);
	RECOUNT(&w);
	test_empty_cache(a, default_pool, 0, 0);
	RECOUNT(&w);
	test_pool_set_attr(r_fd, default_pool, DEVPOOL_ATTR_RELEASE_THRESHOLD, 0);
	RECOUNT(&w);
	for (i = 3; i < 20; i += 4) {
		test_free(a, x[i]);
		RECOUNT(&w);
	}

	/* References by id, and a pool without a file */
	s = test_pool_id(a, 0);
	KNOWN(&w, s);
	RECOUNT(&w);
	test_pool_get(a, s);
	y[1] = test_alloc(a, s, 3 * MIB);
	test_free(a, test_alloc(a, s, 5 * MIB));
	RECOUNT(&w);
	EXPECT_EQ(0, test_pool_put(a, s));
	RECOUNT(&w);
	test_pool_get(a, s);
	RECOUNT(&w);
	test_pool_put(a, s);
	test_empty_cache(a, default_pool, DEVPOOL_EMPTY_KEEP_PHYSICAL, 0);
	RECOUNT(&w);
	test_empty_cache(a, s, 0, 0);
	RECOUNT(&w);
	test_free(a, y[1]);
	RECOUNT(&w);
	test_empty_cache(a, default_pool, 0, 0);
	RECOUNT(&w);

	/* Routes */
	t_fd = test_pool_create(a, &t);
	KNOWN(&w, t);
	test_route_begin(a, t, DEVPOOL_SCOPE_THREAD);
	y[2] = test_alloc(a, default_pool, 3 * MIB);
	RECOUNT(&w);
	test_route_begin(a, p, DEVPOOL_SCOPE_ALL);
	y[3] = test_alloc(a, default_pool, 3 * MIB);
	RECOUNT(&w);
	close(t_fd);
	RECOUNT(&w);
	test_route_end(a, p, DEVPOOL_SCOPE_ALL);
	test_route_end(a, t, DEVPOOL_SCOPE_THREAD);
	RECOUNT(&w);
	test_free(a, y[2]);
	RECOUNT(&w);
	test_free(a, y[3]);
	RECOUNT(&w);

	/* A peer in p, which is a's */
	test_pool_attach(b, p_fd, &u);
	RECOUNT(&w);
	for (i = 4; i < 8; i++) {
		y[i] = test_alloc(b, i % 2 ? u : default_pool, 900 * KIB * (i - 3));
		RECOUNT(&w);
	}
	test_retain(b, y[0]);
	RECOUNT(&w);
	test_free(a, y[0]);
	RECOUNT(&w);
	test_free(b, y[5]);
	RECOUNT(&w);
	test_empty_cache(b, u, DEVPOOL_EMPTY_TRIM, 0);
	RECOUNT(&w);
	test_retain(a, y[7]);
	test_free(b, y[7]);
	RECOUNT(&w);

	/* Ends */
	test_empty_cache(q_fd, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	RECOUNT(&w);
	close(r_fd);
	RECOUNT(&w);
	close(p_fd);
	RECOUNT(&w);
	test_free(a, y[7]);
	RECOUNT(&w);
	test_pool_put(b, u);
	RECOUNT(&w);
	/* The creator goes, a block of its pool lives on with the peer. */
	w.fd[0] = -1;
	close(a);
	RECOUNT(&w);
	EXPECT_NE(0, test_pool_stat(b, u).out_allocated.current);
	test_free(b, y[0]);
	RECOUNT(&w);
	test_err_pool_stat(ENOENT, b, u);
	test_free(b, y[4]);
	RECOUNT(&w);
	w.fd[1] = -1;
	close(b);
	RECOUNT(&w);
	EXPECT_EQ(0, test_stats_device(w.admin).out_resident.current);
}

/* What was in pools and with clients that are gone */
TEST_F(snapshot, the_device_s_sums_outlive_all)
{
	struct devpool_stats before, after;
	struct devpool_pool_id id;
	int other, pool;

	before = test_stats_device(self->fd);
	other = test_open(self->index);
	pool = test_pool_create(other, &id);
	test_free(other, test_alloc(other, id, 4 * self->chunk));
	test_alloc(other, default_pool, self->chunk);
	after = test_stats_device(self->fd);
	EXPECT_EQ(before.out_allocated.in + 5 * self->chunk, after.out_allocated.in);
	EXPECT_EQ(before.out_blocks.in + 2, after.out_blocks.in);
	EXPECT_EQ(before.out_grows + 5, after.out_grows);
	EXPECT_EQ(before.out_resident.current + 5 * self->chunk, after.out_resident.current);
	close(pool);
	close(other);
	after = test_stats_device(self->fd);
	EXPECT_EQ(before.out_resident.current, after.out_resident.current);
	EXPECT_EQ(before.out_resident.in + 5 * self->chunk, after.out_resident.in);
	EXPECT_EQ(before.out_resident.out + 5 * self->chunk, after.out_resident.out);
	EXPECT_EQ(before.out_allocated.in + 5 * self->chunk, after.out_allocated.in);
	EXPECT_EQ(before.out_blocks.out + 2, after.out_blocks.out);
	EXPECT_EQ(before.out_grows + 5, after.out_grows);
	EXPECT_LE(5 * self->chunk, after.out_resident.peak);
}

TEST_HARNESS_MAIN
