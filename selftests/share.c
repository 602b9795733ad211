// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools in several hands: who attaches to a pool knows it, whose blocks are
 * whose, and what a retained block outlives.
 */
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "devpool_test.h"

/* A pool, its creator, and a peer that has nothing yet but the pool file */
FIXTURE(share)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 chunk;
	int index;
	int pool;
	int peer;
	int fd;
};

FIXTURE_VARIANT(share)
{
	enum test_kind kind;
};

FIXTURE_VARIANT_ADD(share, sysmem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(share, null) { .kind = TEST_NULL };

FIXTURE_SETUP(share)
{
	test_setup(self, variant->kind);
	self->chunk = self->info.out_chunk;
	self->peer = test_open(self->index);
	self->pool = test_pool_create(self->fd, &self->id);
}

FIXTURE_TEARDOWN(share)
{
}

#define USED() ((__u64)devpool_sysfs(self->index, "used"))

/* Attaches the peer, and expects what it finds. */
#define ATTACH(fd)								\
do {										\
	struct devpool_pool_id _id;						\
										\
	EXPECT_EQ(test_use_count(self->pool, default_pool) + 1,			\
		  test_pool_attach(fd, self->pool, &_id));			\
	EXPECT_TRUE(test_is_id(self->id, _id));					\
} while (0)

/* Everything that an id is good for is refused. */
#define EXPECT_UNKNOWN(fd, id, addr)						\
do {										\
	test_err_pool_stat(ENOENT, fd, id);					\
	test_err_alloc(ENOENT, fd, id, 512);					\
	test_err_empty_cache(ENOENT, fd, id, DEVPOOL_EMPTY_TRIM);		\
	test_err_pool_get(ENOENT, fd, id);					\
	test_err_pool_put(ENOENT, fd, id);					\
	test_err_pool_create(ENOENT, fd, id);					\
	test_err_route_begin(ENOENT, fd, id, DEVPOOL_SCOPE_ALL);		\
	test_err_route_end(ENOENT, fd, id, DEVPOOL_SCOPE_ALL);			\
	test_err_retain(ENOENT, fd, addr);					\
	test_err_free(ENOENT, fd, addr);					\
	test_err_map(ENOENT, fd, addr & ~(TEST_PAGE - 1), TEST_PAGE);		\
} while (0)

TEST_F(share, attached_by_its_file)
{
	struct devpool_pool_stat stat;
	struct test_base base = test_base(self->index);
	__u64 addr;

	addr = test_alloc(self->fd, self->id, 3 * MIB);
	/* Having the descriptor is not knowing the pool. */
	EXPECT_UNKNOWN(self->peer, self->id, addr);
	ATTACH(self->peer);
	stat = test_pool_stat(self->peer, self->id);
	EXPECT_EQ(2, stat.out_use_count);
	EXPECT_EQ(3 * MIB, stat.out_allocated.current);
	EXPECT_SAME(stat, test_pool_stat(self->fd, self->id));
	/* There is still one pool, which is its creator's. */
	EXPECT_EQ(base.pools, devpool_sysfs(self->index, "pools"));
	EXPECT_EQ(0, test_stats(self->peer).out_allocated.in);
	EXPECT_EQ(3 * MIB, test_stats(self->fd).out_allocated.current);
	EXPECT_EQ(1, test_pool_put(self->peer, self->id));
	EXPECT_UNKNOWN(self->peer, self->id, addr);
}

TEST_F(share, each_attach_is_a_reference)
{
	__u64 addr = test_alloc(self->fd, self->id, 512);
	struct devpool_pool_id id;
	int i;

	for (i = 0; i < 10; i++)
		ATTACH(self->peer);
	/* By the id, since it is known, and by one's own file */
	EXPECT_EQ(12, test_pool_get(self->peer, self->id));
	EXPECT_EQ(13, test_pool_attach(self->fd, self->pool, &id));
	EXPECT_TRUE(test_is_id(self->id, id));
	for (i = 0; i < 11; i++)
		EXPECT_EQ(12 - i, test_pool_put(self->peer, self->id));
	/* The last two are the file's and the creator's. */
	EXPECT_UNKNOWN(self->peer, self->id, addr);
	EXPECT_EQ(1, test_pool_put(self->fd, self->id));
	test_err_pool_put(ENOENT, self->fd, self->id);
}

/* The pool file stays the caller's, and is needed no more. */
TEST_F(share, the_file_is_not_needed_after_an_attach)
{
	ATTACH(self->peer);
	EXPECT_EQ(FD_CLOEXEC, fcntl(self->pool, F_GETFD));
	close(self->pool);
	EXPECT_EQ(1, test_use_count(self->peer, self->id));
	test_alloc(self->peer, self->id, MIB);
	test_alloc(self->fd, self->id, MIB);
	EXPECT_EQ(2 * MIB, test_pool_stat(self->fd, self->id).out_allocated.current);
	EXPECT_EQ(2, test_pool_get(self->fd, self->id));
}

/* Cache and memory are the pool's, blocks are their client's. */
TEST_F(share, a_peer_allocates_and_frees)
{
	struct devpool_pool_stat before;
	__u64 ours, theirs;

	ATTACH(self->peer);
	ours = test_alloc(self->fd, self->id, 3 * MIB);
	theirs = test_alloc(self->peer, self->id, 3 * MIB);
	EXPECT_NE(ours, theirs);
	before = test_pool_stat(self->fd, self->id);
	EXPECT_EQ(6 * MIB, before.out_allocated.current);
	EXPECT_EQ(2, before.out_blocks.current);
	test_err_free(ENOENT, self->fd, theirs);
	test_err_free(ENOENT, self->peer, ours);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	test_free(self->peer, theirs);
	/* What a peer has freed serves the creator, and the other way round. */
	EXPECT_EQ(theirs, test_alloc(self->fd, self->id, 3 * MIB));
	test_free(self->fd, ours);
	EXPECT_EQ(ours, test_alloc(self->peer, self->id, 3 * MIB));
	EXPECT_EQ(before.out_hits + 2, test_pool_stat(self->fd, self->id).out_hits);
	test_free(self->peer, ours);
	test_free(self->fd, theirs);
	EXPECT_EQ(before.out_resident.current, test_resident(self->peer, self->id));
}

TEST_F(share, a_peer_trims)
{
	struct devpool_empty_cache e;
	__u64 addr;

	ATTACH(self->peer);
	test_free(self->fd, test_alloc(self->fd, self->id, 16 * MIB));
	addr = test_alloc(self->fd, self->id, 2 * MIB);
	e = test_empty_cache(self->peer, self->id, 0, 0);
	EXPECT_EQ(0, e.out_freed);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, e.out_state);
	/* Of no concern to who empties its own */
	e = test_empty_cache(self->peer, default_pool, 0, 0);
	EXPECT_EQ(0, e.out_freed);
	e = test_empty_cache(self->peer, self->id, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_EQ(14 * MIB, e.out_freed);
	EXPECT_EQ(2 * MIB, e.out_live);
	EXPECT_EQ(2 * MIB, USED());
	test_free(self->fd, addr);
}

/* Where there is memory to be seen */
FIXTURE(memory)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_SETUP(memory)
{
	test_setup(self, TEST_SYSMEM);
	close(self->fd);
}

FIXTURE_TEARDOWN(memory)
{
}

/* All members see the same: they trust each other. */
TEST_F(memory, of_a_pool_is_seen_by_its_peers)
{
	struct devpool_pool_id id, same;
	int fd, peer, pool;
	__u64 addr;
	char *p, *q;

	fd = test_open(self->index);
	peer = test_open(self->index);
	pool = test_pool_create(fd, &id);
	addr = test_alloc(fd, id, 3 * MIB);
	test_err_map(ENOENT, peer, addr, 3 * MIB);
	EXPECT_EQ(2, test_pool_attach(peer, pool, &same));
	p = test_map(fd, addr, 3 * MIB);
	q = test_map(peer, addr, 3 * MIB);
	test_fill(p, 3 * MIB, 0xa000000000000000ULL);
	EXPECT_EQ(-1, test_differs(q, 3 * MIB, 0xa000000000000000ULL));
	test_fill(q, 3 * MIB, 0xb000000000000000ULL);
	EXPECT_EQ(-1, test_differs(p, 3 * MIB, 0xb000000000000000ULL));
}

/* What makes a pool known, when it is the last thing that does */

enum hold {
	BY_REFERENCE,
	BY_BLOCK,
	BY_ROUTE,
	BY_RETAINED,
};

FIXTURE(knows)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 addr;
	char *map;
	int index;
	int pool;
	int peer;
	int fd;
};

FIXTURE_VARIANT(knows)
{
	enum hold hold;
};

FIXTURE_VARIANT_ADD(knows, by_a_reference) { .hold = BY_REFERENCE };
FIXTURE_VARIANT_ADD(knows, by_a_block) { .hold = BY_BLOCK };
FIXTURE_VARIANT_ADD(knows, by_a_route) { .hold = BY_ROUTE };
FIXTURE_VARIANT_ADD(knows, by_a_retained_block) { .hold = BY_RETAINED };

#define TAG 0xc000000000000000ULL

FIXTURE_SETUP(knows)
{
	struct devpool_pool_id id;

	test_setup(self, TEST_SYSMEM);
	test_catch();
	self->peer = test_open(self->index);
	self->pool = test_pool_create(self->fd, &self->id);
	self->addr = test_alloc(self->fd, self->id, 4 * MIB);
	EXPECT_EQ(2, test_pool_attach(self->peer, self->pool, &id));
	self->map = test_map(self->peer, self->addr, 4 * MIB);
	/* The other half is not touched before. */
	test_fill(self->map, 2 * MIB, TAG);
}

FIXTURE_TEARDOWN(knows)
{
}

TEST_F(knows, a_pool_until_its_end)
{
	__u64 own = 0;

	switch (variant->hold) {
	case BY_REFERENCE:
		break;
	case BY_BLOCK:
		own = test_alloc(self->peer, self->id, MIB);
		EXPECT_EQ(1, test_pool_put(self->peer, self->id));
		break;
	case BY_ROUTE:
		test_route_begin(self->peer, self->id, DEVPOOL_SCOPE_ALL);
		EXPECT_EQ(2, test_pool_put(self->peer, self->id));
		break;
	case BY_RETAINED:
		test_retain(self->peer, self->addr);
		EXPECT_EQ(1, test_pool_put(self->peer, self->id));
		break;
	}
	/* All of it works. */
	EXPECT_SAME(test_pool_stat(self->fd, self->id), test_pool_stat(self->peer, self->id));
	test_free(self->peer, test_alloc(self->peer, self->id, 512));
	test_empty_cache(self->peer, self->id, DEVPOOL_EMPTY_TRIM, 0);
	test_unmap(test_map(self->peer, self->addr, 4 * MIB), 4 * MIB);
	if (variant->hold != BY_RETAINED) {
		test_retain(self->peer, self->addr);
		test_free(self->peer, self->addr);
	}
	/* With a reference that comes and goes as well */
	test_pool_get(self->peer, self->id);
	test_pool_put(self->peer, self->id);
	test_pool_stat(self->peer, self->id);

	switch (variant->hold) {
	case BY_REFERENCE:
		EXPECT_EQ(1, test_pool_put(self->peer, self->id));
		break;
	case BY_BLOCK:
		test_free(self->peer, own);
		break;
	case BY_ROUTE:
		test_route_end(self->peer, self->id, DEVPOOL_SCOPE_ALL);
		break;
	case BY_RETAINED:
		test_free(self->peer, self->addr);
		break;
	}
	EXPECT_UNKNOWN(self->peer, self->id, self->addr);
	/* What is mapped stays so, and shows the pool for as long as that lives. */
	EXPECT_EQ(-1, test_differs(self->map, 2 * MIB, TAG));
	test_fill(self->map, 2 * MIB, TAG + 1);
	EXPECT_EQ(-1, test_differs(self->map, 2 * MIB, TAG + 1));
	EXPECT_EQ(0, test_touch(self->map + 3 * MIB));
	EXPECT_EQ(1, test_use_count(self->fd, self->id));
	test_free(self->fd, self->addr);
	close(self->pool);
	EXPECT_EQ(SIGBUS, test_touch(self->map));
	EXPECT_EQ(SIGBUS, test_touch(self->map + 3 * MIB));
}

/* And then it attaches anew. */
TEST_F(knows, a_pool_again)
{
	struct devpool_pool_id id;

	EXPECT_EQ(1, test_pool_put(self->peer, self->id));
	test_err_pool_stat(ENOENT, self->peer, self->id);
	EXPECT_EQ(2, test_pool_attach(self->peer, self->pool, &id));
	EXPECT_TRUE(test_is_id(self->id, id));
	test_alloc(self->peer, self->id, MIB);
	close(self->peer);
	/* The mapping holds the client, and so its block. */
	EXPECT_EQ(5 * MIB, test_pool_stat(self->pool, default_pool).out_allocated.current);
	test_unmap(self->map, 4 * MIB);
	EXPECT_EQ(4 * MIB, test_pool_stat(self->pool, default_pool).out_allocated.current);
	EXPECT_EQ(1, test_use_count(self->pool, default_pool));
}

/* Ends: of the creator, of the file, of the peer */

#define ENDED()									\
do {										\
	EXPECT_EQ(0, devpool_sysfs(self->index, "pools"));			\
	EXPECT_EQ(0, USED());							\
} while (0)

TEST_F(share, P22_the_creator_dies_and_the_peer_puts)
{
	__u64 addr;

	ATTACH(self->peer);
	test_free(self->fd, test_alloc(self->fd, self->id, 8 * MIB));
	test_alloc(self->fd, self->id, 512);
	addr = test_alloc(self->peer, self->id, 2 * MIB);
	close(self->pool);
	close(self->fd);
	EXPECT_EQ(1, test_use_count(self->peer, self->id));
	/* The creator's block is cached now, as is all that is not the peer's. */
	EXPECT_EQ(2 * MIB, test_pool_stat(self->peer, self->id).out_allocated.current);
	EXPECT_EQ(8 * MIB, test_resident(self->peer, self->id));
	test_free(self->peer, test_alloc(self->peer, self->id, 20 * MIB));
	test_free(self->peer, addr);
	EXPECT_EQ(0, test_pool_put(self->peer, self->id));
	ENDED();
	EXPECT_UNKNOWN(self->peer, self->id, addr);
}

TEST_F(share, P22_the_creator_dies_and_the_peer_does)
{
	ATTACH(self->peer);
	test_route_begin(self->peer, self->id, DEVPOOL_SCOPE_ALL);
	test_free(self->fd, test_alloc(self->fd, self->id, 8 * MIB));
	test_alloc(self->peer, default_pool, 4 * MIB);
	close(self->fd);
	close(self->pool);
	EXPECT_EQ(2, test_use_count(self->peer, self->id));
	EXPECT_EQ(8 * MIB, USED());
	close(self->peer);
	EXPECT_BASE(self->base, self->index);
}

/* The peer's block outlives all references. */
TEST_F(share, P22_a_peers_block_is_the_last)
{
	struct devpool_pool_stat stat;
	__u64 addr;

	ATTACH(self->peer);
	addr = test_alloc(self->peer, self->id, 2 * MIB);
	test_alloc(self->fd, self->id, 8 * MIB);
	close(self->pool);
	close(self->fd);
	EXPECT_EQ(0, test_pool_put(self->peer, self->id));
	stat = test_pool_stat(self->peer, self->id);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, stat.out_state);
	EXPECT_EQ(2 * MIB, stat.out_allocated.current);
	EXPECT_EQ(2 * MIB, stat.out_resident.current);
	test_err_alloc(ENOENT, self->peer, self->id, 512);
	/* It is known by the block, so it can be had again. */
	EXPECT_EQ(1, test_pool_get(self->peer, self->id));
	test_free(self->peer, test_alloc(self->peer, self->id, 4 * MIB));
	EXPECT_EQ(0, test_pool_put(self->peer, self->id));
	EXPECT_EQ(2 * MIB, USED());
	test_free(self->peer, addr);
	ENDED();
	/* But not by who has not minted it, once it is gone. */
	test_err_pool_get(ENOENT, self->peer, self->id);
}

/* Once its creator is gone, a file that is open still leads to the pool. */
TEST_F(share, attached_after_the_creators_death)
{
	__u64 addr;

	test_free(self->fd, test_alloc(self->fd, self->id, 4 * MIB));
	close(self->fd);
	EXPECT_EQ(1, test_use_count(self->pool, default_pool));
	ATTACH(self->peer);
	addr = test_alloc(self->peer, self->id, 4 * MIB);
	EXPECT_EQ(1, test_pool_stat(self->peer, self->id).out_hits);
	test_alloc(self->peer, self->id, 8 * MIB);
	EXPECT_EQ(12 * MIB, USED());
	EXPECT_EQ(1, test_pool_put(self->peer, self->id));
	close(self->pool);
	test_free(self->peer, addr);
	EXPECT_EQ(8 * MIB, USED());
	close(self->peer);
	EXPECT_BASE(self->base, self->index);
}

/* What a peer does to a pool goes to the account of who created it. */
TEST_F(share, the_creator_accounts)
{
	struct devpool_stats before, stats;

	ATTACH(self->peer);
	before = test_stats(self->peer);
	test_alloc(self->peer, self->id, 4 * MIB);
	EXPECT_SAME(before, test_stats(self->peer));
	stats = test_stats(self->fd);
	EXPECT_EQ(4 * MIB, stats.out_resident.current);
	EXPECT_EQ(4 * MIB, stats.out_allocated.current);
	EXPECT_EQ(1, stats.out_blocks.current);
	test_empty_cache(self->peer, self->id, DEVPOOL_EMPTY_TRIM, 0);
	close(self->peer);
	stats = test_stats(self->fd);
	EXPECT_EQ(0, stats.out_blocks.current);
	EXPECT_EQ(4 * MIB, stats.out_resident.current);
	close(self->pool);
	EXPECT_EQ(0, test_stats(self->fd).out_resident.current);
	EXPECT_EQ(4 * MIB, test_stats(self->fd).out_resident.out);
	EXPECT_EQ(1, test_stats(self->fd).out_blocks.in);
}

TEST_F(share, P25_released_while_a_peer_has_a_reference)
{
	struct devpool_empty_cache e;
	struct devpool_pool_stat before;

	ATTACH(self->peer);
	test_free(self->fd, test_alloc(self->fd, self->id, 8 * MIB));
	e = test_empty_cache(self->pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_EQ(0, e.out_freed);
	EXPECT_EQ(8 * MIB, e.out_kept);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, e.out_state);
	EXPECT_EQ(1, test_use_count(self->peer, self->id));
	test_err_pool_attach(ENOENT, self->peer, self->pool);
	before = test_pool_stat(self->peer, self->id);
	close(self->pool);
	EXPECT_SAME(before, test_pool_stat(self->peer, self->id));
	EXPECT_EQ(0, test_pool_put(self->peer, self->id));
	ENDED();
	test_err_pool_stat(ENOENT, self->fd, self->id);
}

/* The same with the close after the pool's end, and a new pool of its number */
TEST_F(share, P25_closed_after_the_pools_end)
{
	struct devpool_pool_stat before;
	int again;

	ATTACH(self->peer);
	test_empty_cache(self->pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_EQ(0, test_pool_put(self->peer, self->id));
	ENDED();
	ASSERT_EQ(0, devpool_pool_create_raw(self->fd, &self->id, &again));
	test_alloc(self->fd, self->id, MIB);
	before = test_pool_stat(self->fd, self->id);
	close(self->pool);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	/* The peer knows nothing of the new one. */
	test_err_pool_stat(ENOENT, self->peer, self->id);
	test_err_pool_attach(EBADF, self->peer, self->pool);
	self->pool = again;
	ATTACH(self->peer);
	EXPECT_EQ(MIB, test_pool_stat(self->peer, self->id).out_allocated.current);
}

TEST_F(share, many_peers)
{
	int peer[64];
	__u64 addr[64];
	int i, left;

	for (i = 0; i < 64; i++) {
		peer[i] = test_open(self->index);
		ATTACH(peer[i]);
		addr[i] = test_alloc(peer[i], self->id, 4096 * (i + 1));
	}
	EXPECT_EQ(65, test_use_count(self->fd, self->id));
	EXPECT_EQ(64, test_pool_stat(self->fd, self->id).out_blocks.current);
	EXPECT_EQ(4096 * 64 * 65 / 2,
		  test_pool_stat(self->fd, self->id).out_allocated.current);
	/* 37 and 64 have no divisor in common: each once, in an order of their own */
	for (left = 63; left >= 0; left--) {
		i = left * 37 % 64;
		if (left % 2) {
			test_err_free(ENOENT, peer[i], addr[(i + 1) % 64]);
			test_free(peer[i], addr[i]);
		}
		close(peer[i]);
		EXPECT_EQ(1 + left, test_use_count(self->fd, self->id));
		EXPECT_EQ(left, test_pool_stat(self->fd, self->id).out_blocks.current);
	}
	close(self->pool);
	ENDED();
}

/* What cannot be answered is not done; POOL_PUT's exception is. */
TEST_F(share, answers_that_have_nowhere_to_go)
{
	struct devpool_pool_stat before;
	struct test_base base;
	void *cmd;

	cmd = mmap(NULL, TEST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, cmd);
	test_free(self->fd, test_alloc(self->fd, self->id, MIB));
	before = test_pool_stat(self->fd, self->id);
	base = test_base(self->index);
	*(struct devpool_pool_get *)cmd = (struct devpool_pool_get){
		.size = sizeof(struct devpool_pool_get),
		.flags = DEVPOOL_POOL_GET_FD,
		.fd = self->pool,
	};
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->peer, DEVPOOL_IOC_POOL_GET, cmd));
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	test_err_pool_stat(ENOENT, self->peer, self->id);

	/* By id, where there is a pool and where there is none */
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ | PROT_WRITE));
	*(struct devpool_pool_get *)cmd = (struct devpool_pool_get){
		.size = sizeof(struct devpool_pool_get),
		.pool = self->id,
	};
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->fd, DEVPOOL_IOC_POOL_GET, cmd));
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ | PROT_WRITE));
	((struct devpool_pool_get *)cmd)->pool = test_pool_id(self->fd, 0);
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->fd, DEVPOOL_IOC_POOL_GET, cmd));
	test_err_pool_stat(ENOENT, self->fd, ((struct devpool_pool_get *)cmd)->pool);
	EXPECT_BASE(base, self->index);

	ATTACH(self->peer);
	ATTACH(self->peer);
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ | PROT_WRITE));
	*(struct devpool_pool_put *)cmd = (struct devpool_pool_put){
		.size = sizeof(struct devpool_pool_put),
		.pool = self->id,
	};
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->peer, DEVPOOL_IOC_POOL_PUT, cmd));
	EXPECT_EQ(2, test_use_count(self->peer, self->id));
	EXPECT_EQ(-EFAULT, devpool_raw(self->peer, DEVPOOL_IOC_POOL_PUT, cmd));
	EXPECT_EQ(1, test_use_count(self->fd, self->id));
	EXPECT_EQ(-ENOENT, devpool_raw(self->peer, DEVPOOL_IOC_POOL_PUT, cmd));
}

/* Retained blocks */

TEST_F(share, a_retained_block_has_two_references)
{
	struct devpool_pool_stat before;
	__u64 addr, next;

	ATTACH(self->peer);
	addr = test_alloc(self->fd, self->id, 3 * MIB);
	before = test_pool_stat(self->fd, self->id);
	test_retain(self->peer, addr);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	test_err_retain(EBUSY, self->peer, addr);
	test_err_retain(EBUSY, self->fd, addr);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	/* The first FREE is one client's, and no event of the pool's. */
	test_free(self->fd, addr);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	test_err_free(ENOENT, self->fd, addr);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	next = test_alloc(self->fd, self->id, 3 * MIB);
	EXPECT_NE(addr, next);
	test_free(self->fd, next);
	/* Who has given it up can have it again, as long as it lives. */
	test_retain(self->fd, addr);
	test_free(self->peer, addr);
	test_err_free(ENOENT, self->peer, addr);
	test_free(self->fd, addr);
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_blocks.current);
	test_err_retain(ENOENT, self->fd, addr);
	test_err_retain(ENOENT, self->peer, addr);
}

TEST_F(share, retained_by_many)
{
	int peer[16];
	__u64 addr;
	int i;

	addr = test_alloc(self->fd, self->id, 512);
	for (i = 0; i < 16; i++) {
		peer[i] = test_open(self->index);
		ATTACH(peer[i]);
		test_retain(peer[i], addr);
	}
	test_free(self->fd, addr);
	for (i = 0; i < 16; i++) {
		EXPECT_EQ(1, test_pool_stat(self->fd, self->id).out_blocks.current);
		test_err_retain(EBUSY, peer[i], addr);
		if (i % 2) {
			test_free(peer[i], addr);
			test_err_free(ENOENT, peer[i], addr);
		}
		close(peer[i]);
	}
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_blocks.current);
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_allocated.current);
}

/* Nobody empties it: the reference that goes last takes all along. */
TEST_F(share, spares_go_with_the_last_reference)
{
	ATTACH(self->peer);
	test_free(self->peer, test_alloc(self->peer, self->id, 4 * MIB));
	close(self->pool);
	test_empty_cache(self->peer, self->id,
			 DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, 0);
	EXPECT_EQ(4 * MIB, test_pool_stat(self->peer, self->id).out_spare.current);
	EXPECT_EQ(0, test_pool_put(self->peer, self->id));
	test_err_pool_stat(ENOENT, self->peer, self->id);
	EXPECT_EQ(0, devpool_sysfs(self->index, "used"));
}

/* A client knows its own default pool, and nobody else's. */
TEST_F(share, retain_of_what_cannot_be)
{
	struct devpool_pool_stat before;
	struct devpool_stats stats;
	__u64 small, large, cached, flushed, own, theirs;

	ATTACH(self->peer);
	small = test_alloc(self->fd, self->id, 64 * KIB);
	large = test_alloc(self->fd, self->id, 4 * MIB);
	flushed = test_alloc(self->fd, self->id, 4 * MIB);
	test_free(self->fd, flushed);
	test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0);
	cached = test_alloc(self->fd, self->id, 2 * MIB);
	test_free(self->fd, cached);
	own = test_alloc(self->peer, default_pool, 4096);
	theirs = test_alloc(self->fd, default_pool, 4096);
	before = test_pool_stat(self->fd, self->id);
	stats = test_stats(self->peer);
	test_err_retain(ENOENT, self->peer, small + 512);
	test_err_retain(ENOENT, self->peer, small + 1);
	test_err_retain(ENOENT, self->peer, small - 1);
	test_err_retain(ENOENT, self->peer, small + 64 * KIB);
	test_err_retain(ENOENT, self->peer, large + 4096);
	test_err_retain(ENOENT, self->peer, large + self->chunk);
	test_err_retain(ENOENT, self->peer, large + 4 * MIB + 2 * self->chunk);
	test_err_retain(ENOENT, self->peer, cached);
	test_err_retain(ENOENT, self->peer, cached + self->chunk);
	test_err_retain(ENOENT, self->peer, 0);
	test_err_retain(ENOENT, self->peer, -1ULL);
	test_err_retain(ENOENT, self->peer, 1ULL << 62);
	test_err_retain(ENOENT, self->peer, large ^ TIB);
	test_err_retain(ENOENT, self->peer, theirs);
	test_err_retain(EBUSY, self->peer, own);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	EXPECT_SAME(stats, test_stats(self->peer));
	/* So none of them has a reference too many. */
	test_err_free(ENOENT, self->peer, small);
	test_err_free(ENOENT, self->peer, large);
	test_err_free(ENOENT, self->peer, theirs);
	test_free(self->peer, own);
	test_err_free(ENOENT, self->peer, own);
}

/* Neither RETAIN nor FREE finds a block before its ALLOC has answered. */
struct slow_alloc {
	struct devpool_alloc *cmd;
	int result;
	int fd;
};

static void *alloc_slowly(void *p)
{
	struct slow_alloc *s = p;

	s->result = devpool_raw(s->fd, DEVPOOL_IOC_ALLOC, s->cmd);
	return NULL;
}

static int wp_fault(void *page)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	struct uffdio_register range = {
		.range = { (uintptr_t)page, TEST_PAGE },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)page, TEST_PAGE },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};
	int fd;

	fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range) ||
	    ioctl(fd, UFFDIO_WRITEPROTECT, &wp))
		return -1;
	return fd;
}

TEST_F(share, a_block_that_is_not_published)
{
	struct uffdio_writeprotect wp = {};
	struct devpool_pool_stat before;
	struct slow_alloc slow;
	struct uffd_msg msg;
	pthread_t thread;
	struct pollfd p;
	char *page;
	__u64 addr;

	ATTACH(self->peer);
	/* The next block of that size is this one. */
	addr = test_alloc(self->fd, self->id, 3 * MIB);
	test_free(self->fd, addr);
	page = mmap(NULL, 2 * TEST_PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	slow.cmd = (void *)(page + TEST_PAGE - offsetof(struct devpool_alloc, out_addr));
	*slow.cmd = (struct devpool_alloc){
		.size = sizeof(*slow.cmd),
		.bytes = 3 * MIB,
		.pool = self->id,
		.out_addr = POISON,
	};
	slow.fd = self->fd;
	p.fd = wp_fault(page + TEST_PAGE);
	if (p.fd < 0)
		SKIP(return, "no userfaultfd that protects from writing");
	p.events = POLLIN;
	ASSERT_EQ(0, pthread_create(&thread, NULL, alloc_slowly, &slow));
	ASSERT_EQ(1, poll(&p, 1, 10000));
	ASSERT_EQ(sizeof(msg), read(p.fd, &msg, sizeof(msg)));
	EXPECT_EQ(UFFD_EVENT_PAGEFAULT, msg.event);
	/* It stands in the middle of writing its answer. */
	EXPECT_EQ(POISON, slow.cmd->out_addr);
	before = test_pool_stat(self->fd, self->id);
	test_err_retain(ENOENT, self->peer, addr);
	test_err_retain(ENOENT, self->fd, addr);
	test_err_free(ENOENT, self->peer, addr);
	test_err_free(ENOENT, self->fd, addr);
	EXPECT_SAME(before, test_pool_stat(self->fd, self->id));
	/* Others are served meanwhile, elsewhere. */
	EXPECT_NE(addr, test_alloc(self->peer, self->id, 3 * MIB));
	/* Only now is there an answer. */
	wp.range.start = (uintptr_t)page + TEST_PAGE;
	wp.range.len = TEST_PAGE;
	ASSERT_EQ(0, ioctl(p.fd, UFFDIO_WRITEPROTECT, &wp));
	pthread_join(thread, NULL);
	EXPECT_EQ(0, slow.result);
	EXPECT_EQ(addr, slow.cmd->out_addr);
	test_retain(self->peer, addr);
	test_free(self->fd, addr);
	test_free(self->peer, addr);
}

/* Several processes */

static void tell(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(9);
}

static void hear(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(9);
}

/* How the owner, and then the peer, comes to its end */
enum end {
	BY_FREE,
	BY_CLOSING,
	BY_KILL,
};

FIXTURE(retained)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_VARIANT(retained)
{
	enum end owner;
	enum end peer;
};

FIXTURE_VARIANT_ADD(retained, freed_and_freed) { .owner = BY_FREE, .peer = BY_FREE };
FIXTURE_VARIANT_ADD(retained, freed_and_closed) { .owner = BY_FREE, .peer = BY_CLOSING };
FIXTURE_VARIANT_ADD(retained, freed_and_killed) { .owner = BY_FREE, .peer = BY_KILL };
FIXTURE_VARIANT_ADD(retained, closed_and_freed) { .owner = BY_CLOSING, .peer = BY_FREE };
FIXTURE_VARIANT_ADD(retained, closed_and_closed) { .owner = BY_CLOSING, .peer = BY_CLOSING };
FIXTURE_VARIANT_ADD(retained, closed_and_killed) { .owner = BY_CLOSING, .peer = BY_KILL };
FIXTURE_VARIANT_ADD(retained, killed_and_freed) { .owner = BY_KILL, .peer = BY_FREE };
FIXTURE_VARIANT_ADD(retained, killed_and_closed) { .owner = BY_KILL, .peer = BY_CLOSING };
FIXTURE_VARIANT_ADD(retained, killed_and_killed) { .owner = BY_KILL, .peer = BY_KILL };

FIXTURE_SETUP(retained)
{
	test_setup(self, TEST_SYSMEM);
	close(self->fd);
}

FIXTURE_TEARDOWN(retained)
{
}

#define X_BYTES (3 * MIB)
#define X_TAG 0xf000000000000000ULL

/* Hands out its pool file and X, and does as it is told. */
static void retained_owner(int index, int sock, enum end end)
{
	struct devpool_pool_id id = {};
	__u64 addr, other;
	int fd, pool;
	char *p;

	fd = devpool_open_node(index);
	if (fd < 0 || devpool_pool_create_raw(fd, &id, &pool) ||
	    devpool_alloc_raw(fd, id, X_BYTES, &addr) ||
	    devpool_alloc_raw(fd, id, 8 * MIB, &other))
		_exit(1);
	p = devpool_map_raw(fd, addr, X_BYTES);
	if (!p)
		_exit(2);
	test_fill(p, X_BYTES, X_TAG);
	if (test_send_fd(sock, pool) || write(sock, &addr, sizeof(addr)) != sizeof(addr))
		_exit(3);
	close(pool);
	/* It is retained by now. */
	hear(sock);
	if (end == BY_FREE && devpool_free_raw(fd, addr))
		_exit(4);
	if (end != BY_KILL) {
		munmap(p, X_BYTES);
		close(fd);
	}
	tell(sock);
	for (;;)
		pause();
}

/* Attaches, retains, and looks at X whenever it is asked to. */
static void retained_peer(int index, int sock, enum end end)
{
	struct devpool_pool_id id;
	__u64 addr;
	int fd, pool;
	char *p;

	pool = test_receive_fd(sock);
	if (pool < 0 || read(sock, &addr, sizeof(addr)) != sizeof(addr))
		_exit(1);
	fd = devpool_open_node(index);
	if (devpool_pool_attach_raw(fd, pool, &id) < 0 || devpool_retain_raw(fd, addr))
		_exit(2);
	close(pool);
	tell(sock);
	/* The owner is dead by now. */
	hear(sock);
	p = devpool_map_raw(fd, addr, X_BYTES);
	if (!p || test_differs(p, X_BYTES, X_TAG) != -1)
		_exit(3);
	test_fill(p, X_BYTES, X_TAG + 1);
	if (test_differs(p, X_BYTES, X_TAG + 1) != -1)
		_exit(4);
	/* Without the pool it lives on as well. */
	if (devpool_pool_put_raw(fd, id) || test_differs(p, X_BYTES, X_TAG + 1) != -1)
		_exit(5);
	tell(sock);
	hear(sock);
	munmap(p, X_BYTES);
	if (end == BY_FREE && devpool_free_raw(fd, addr))
		_exit(6);
	if (end == BY_CLOSING)
		close(fd);
	tell(sock);
	for (;;)
		pause();
}

TEST_F(retained, F06_block_outlives_its_owner)
{
	int owner[2], peer[2];
	pid_t pid[2];
	__u64 addr;
	int pool;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, owner));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, peer));
	pid[0] = test_fork();
	ASSERT_LE(0, pid[0]);
	if (!pid[0])
		retained_owner(self->index, owner[1], variant->owner);
	pool = test_receive_fd(owner[0]);
	ASSERT_LE(0, pool);
	ASSERT_EQ(sizeof(addr), read(owner[0], &addr, sizeof(addr)));
	pid[1] = test_fork();
	ASSERT_LE(0, pid[1]);
	if (!pid[1]) {
		close(pool);
		retained_peer(self->index, peer[1], variant->peer);
	}
	ASSERT_EQ(0, test_send_fd(peer[0], pool));
	ASSERT_EQ(sizeof(addr), write(peer[0], &addr, sizeof(addr)));
	close(pool);
	hear(peer[0]);
	EXPECT_EQ(12 * MIB, devpool_sysfs(self->index, "used"));
	tell(owner[0]);
	hear(owner[0]);
	ASSERT_EQ(-SIGKILL, test_kill(pid[0]));
	EXPECT_EQ(1, devpool_sysfs(self->index, "clients"));
	EXPECT_EQ(1, devpool_sysfs(self->index, "pools"));
	EXPECT_EQ(12 * MIB, devpool_sysfs(self->index, "used"));
	tell(peer[0]);
	hear(peer[0]);
	/* X is all that is left. */
	EXPECT_EQ(4 * MIB, devpool_sysfs(self->index, "used"));
	EXPECT_EQ(1, devpool_sysfs(self->index, "pools"));
	tell(peer[0]);
	hear(peer[0]);
	if (variant->peer == BY_FREE) {
		EXPECT_EQ(self->base.used, devpool_sysfs(self->index, "used"));
		EXPECT_EQ(self->base.pools, devpool_sysfs(self->index, "pools"));
	}
	if (variant->peer == BY_CLOSING)
		EXPECT_BASE(self->base, self->index);
	ASSERT_EQ(-SIGKILL, test_kill(pid[1]));
	EXPECT_BASE(self->base, self->index);
}

/* F05: a creator and a peer, each with blocks that nobody else may touch */

#define F05_BLOCKS 16

struct life {
	struct devpool_pool_id id;
	__u64 addr[F05_BLOCKS];
	__u64 bytes[F05_BLOCKS];
	char *p[F05_BLOCKS];
	__u64 random;
	__u64 tag;
	int trims;
	int fd;
};

static __u64 life_tag(const struct life *l, int i)
{
	return l->tag << 56 | (l->addr[i] & 0xffffffffffffULL);
}

/* 0, or a line where something was wrong */
static int life_step(struct life *l)
{
	int i = test_random(&l->random) % F05_BLOCKS;
	struct devpool_empty_cache empty;
	int ret;

	if (l->p[i]) {
		if (test_differs(l->p[i], l->bytes[i], life_tag(l, i)) != -1)
			return __LINE__;
		test_unmap(l->p[i], l->bytes[i]);
		l->p[i] = NULL;
		return devpool_free_raw(l->fd, l->addr[i]) ? __LINE__ : 0;
	}
	if (test_random(&l->random) % 8 == 0) {
		l->trims++;
		return devpool_empty_cache_raw(l->fd, l->id, DEVPOOL_EMPTY_TRIM, 0, &empty) ?
		       __LINE__ : 0;
	}
	l->bytes[i] = (1 + test_random(&l->random) % (i ? 64 : 768)) * TEST_PAGE;
	ret = devpool_alloc_raw(l->fd, l->id, l->bytes[i], &l->addr[i]);
	if (ret == -ENOSPC)
		return 0;
	if (ret)
		return __LINE__;
	l->p[i] = devpool_map_raw(l->fd, l->addr[i], l->bytes[i]);
	if (!l->p[i])
		return __LINE__;
	test_fill(l->p[i], l->bytes[i], life_tag(l, i));
	return 0;
}

TEST_F_TIMEOUT(memory, F05_the_creator_dies_amid_its_work, 60)
{
	struct devpool_pool_stat stat;
	struct life l = { .random = test_seed(), .tag = 0x0e };
	__u64 bytes = 0;
	int blocks = 0;
	__u64 deadline;
	int sock[2];
	int i, line;
	int pool;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		l.tag = 0x0c;
		l.random = test_now() | 1;
		l.fd = devpool_open_node(self->index);
		if (l.fd < 0 || devpool_pool_create_raw(l.fd, &l.id, &pool) ||
		    test_send_fd(sock[1], pool))
			_exit(1);
		while (!(line = life_step(&l)))
			;
		fprintf(stderr, "# creator: line %d\n", line);
		_exit(2);
	}
	pool = test_receive_fd(sock[0]);
	ASSERT_LE(0, pool);
	l.fd = test_open(self->index);
	EXPECT_EQ(2, test_pool_attach(l.fd, pool, &l.id));
	close(pool);
	deadline = test_now() + 1000000000ULL;
	while (test_now() < deadline || l.trims < 10) {
		line = life_step(&l);
		ASSERT_EQ(0, line);
	}
	ASSERT_EQ(-SIGKILL, test_kill(pid));
	for (i = 0; i < F05_BLOCKS; i++) {
		if (!l.p[i])
			continue;
		bytes += l.bytes[i];
		blocks++;
		EXPECT_EQ(-1, test_differs(l.p[i], l.bytes[i], life_tag(&l, i)));
	}
	stat = test_pool_stat(l.fd, l.id);
	EXPECT_POOL_SOUND(stat);
	EXPECT_EQ(bytes, stat.out_allocated.current);
	EXPECT_EQ(blocks, stat.out_blocks.current);
	EXPECT_EQ(1, stat.out_use_count);
	EXPECT_EQ(1, devpool_sysfs(self->index, "clients"));
	/* And it goes on. */
	for (i = 0; i < 200; i++) {
		line = life_step(&l);
		ASSERT_EQ(0, line);
	}
	for (i = 0; i < F05_BLOCKS; i++) {
		if (!l.p[i])
			continue;
		EXPECT_EQ(-1, test_differs(l.p[i], l.bytes[i], life_tag(&l, i)));
		test_unmap(l.p[i], l.bytes[i]);
		test_free(l.fd, l.addr[i]);
	}
	EXPECT_EQ(0, test_pool_put(l.fd, l.id));
	close(l.fd);
	EXPECT_BASE(self->base, self->index);
}

/*
 * A13: everything that there is, taken apart in every order. What must be there
 * after each step follows from what is left.
 */
enum part {
	PART_BLOCK,
	PART_POOL,
	PART_CLIENT,
	PART_MAPPING,
	PART_RETAINED,
	PART_PEER,
	PART_ROUTE,
	PART_REFERENCE,
	PARTS,
};

static const char *const part_names[PARTS] = {
	"block", "pool", "client", "mapping", "retained block", "peer", "route", "reference",
};

struct parts {
	struct devpool_pool_id id;
	bool left[PARTS];
	__u64 addr;
	char *map;
	int pool;
	int peer;
	int fd;
};

/* 0, or the line that failed */
static int parts_make(struct parts *p, int index, __u64 bytes)
{
	struct devpool_pool_id id;

	p->id = default_pool;
	p->fd = devpool_open_node(index);
	p->peer = devpool_open_node(index);
	if (p->fd < 0 || p->peer < 0)
		return __LINE__;
	if (devpool_pool_create_raw(p->fd, &p->id, &p->pool))
		return __LINE__;
	if (devpool_alloc_raw(p->fd, p->id, bytes, &p->addr))
		return __LINE__;
	if (p->left[PART_MAPPING]) {
		p->map = devpool_map_raw(p->fd, p->addr, bytes);
		if (!p->map || test_write(p->map, p->addr))
			return __LINE__;
	}
	if ((p->left[PART_REFERENCE] || p->left[PART_RETAINED]) &&
	    devpool_pool_attach_raw(p->peer, p->pool, &id) < 0)
		return __LINE__;
	if (p->left[PART_RETAINED] && devpool_retain_raw(p->peer, p->addr))
		return __LINE__;
	if (!p->left[PART_REFERENCE] && p->left[PART_RETAINED] &&
	    devpool_pool_put_raw(p->peer, p->id) < 0)
		return __LINE__;
	if (!p->left[PART_BLOCK] && devpool_free_raw(p->fd, p->addr))
		return __LINE__;
	if (p->left[PART_ROUTE] && devpool_route_begin_raw(p->fd, p->id, DEVPOOL_SCOPE_ALL))
		return __LINE__;
	if (!p->left[PART_PEER])
		close(p->peer);
	return 0;
}

/* The client lives in its file and in its mapping. */
static bool parts_client(const struct parts *p)
{
	return p->left[PART_CLIENT] || p->left[PART_MAPPING];
}

/* Whom a part belongs to can be dead before it: then the part is gone too. */
static int parts_drop(struct parts *p, enum part which, __u64 bytes)
{
	bool was = p->left[which];
	int ret = 0;

	p->left[which] = false;
	switch (which) {
	case PART_BLOCK:
		if (was && p->left[PART_CLIENT])
			ret = devpool_free_raw(p->fd, p->addr);
		else if (was && parts_client(p))
			/* No descriptor is left to free it by. */
			p->left[which] = true;
		break;
	case PART_POOL:
		ret = close(p->pool);
		break;
	case PART_CLIENT:
		ret = close(p->fd);
		break;
	case PART_MAPPING:
		test_unmap(p->map, bytes);
		break;
	case PART_RETAINED:
		if (was)
			ret = devpool_free_raw(p->peer, p->addr);
		break;
	case PART_PEER:
		ret = close(p->peer);
		p->left[PART_RETAINED] = false;
		p->left[PART_REFERENCE] = false;
		break;
	case PART_ROUTE:
		if (was && p->left[PART_CLIENT])
			ret = devpool_route_end_raw(p->fd, p->id, DEVPOOL_SCOPE_ALL);
		else if (was && parts_client(p))
			p->left[which] = true;
		break;
	case PART_REFERENCE:
		if (was)
			ret = devpool_pool_put_raw(p->peer, p->id) < 0;
		break;
	default:
		break;
	}
	if (!parts_client(p)) {
		p->left[PART_BLOCK] = false;
		p->left[PART_ROUTE] = false;
	}
	return ret;
}

FIXTURE(apart)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_VARIANT(apart)
{
	enum test_kind kind;
	int nr;
	enum part parts[PARTS];
};

FIXTURE_VARIANT_ADD(apart, one_client)
{
	.kind = TEST_SYSMEM,
	.nr = 4,
	.parts = { PART_BLOCK, PART_POOL, PART_CLIENT, PART_MAPPING },
};

FIXTURE_VARIANT_ADD(apart, one_client_in_a_route)
{
	.kind = TEST_SYSMEM,
	.nr = 5,
	.parts = { PART_BLOCK, PART_POOL, PART_CLIENT, PART_MAPPING, PART_ROUTE },
};

FIXTURE_VARIANT_ADD(apart, a_peer_has_a_reference)
{
	.kind = TEST_SYSMEM,
	.nr = 6,
	.parts = { PART_BLOCK, PART_POOL, PART_CLIENT, PART_MAPPING, PART_PEER, PART_REFERENCE },
};

FIXTURE_VARIANT_ADD(apart, a_peer_has_the_block)
{
	.kind = TEST_SYSMEM,
	.nr = 6,
	.parts = { PART_BLOCK, PART_POOL, PART_CLIENT, PART_MAPPING, PART_PEER, PART_RETAINED },
};

FIXTURE_VARIANT_ADD(apart, a_peer_has_all_and_there_is_a_route)
{
	.kind = TEST_NULL,
	.nr = 6,
	.parts = { PART_POOL, PART_CLIENT, PART_RETAINED, PART_PEER, PART_ROUTE, PART_REFERENCE },
};

FIXTURE_SETUP(apart)
{
	test_setup(self, variant->kind);
	test_catch();
}

FIXTURE_TEARDOWN(apart)
{
}

/* The next permutation in lexical order; false behind the last one */
static bool next_order(int *order, int n)
{
	int i, j, t;

	for (i = n - 2; i >= 0 && order[i] > order[i + 1]; i--)
		;
	if (i < 0)
		return false;
	for (j = n - 1; order[j] < order[i]; j--)
		;
	t = order[i];
	order[i] = order[j];
	order[j] = t;
	for (i++, j = n - 1; i < j; i++, j--) {
		t = order[i];
		order[i] = order[j];
		order[j] = t;
	}
	return true;
}

TEST_F_TIMEOUT(apart, A13_in_every_order, 120)
{
	struct test_base base = test_base(self->index);
	int order[PARTS] = { 0, 1, 2, 3, 4, 5, 6, 7 };
	__u64 bytes = 2 * self->info.out_chunk;
	bool live, used, block;
	struct parts p = {};
	int orders = 0;
	int i;

	do {
		/* Where it is slow in strides of 19, a prime: they meet each part at each step. */
		if (orders++ % (2 * test_slow() - 1))
			continue;
		for (i = 0; i < variant->nr; i++)
			p.left[variant->parts[i]] = true;
		ASSERT_EQ(0, parts_make(&p, self->index, bytes));
		for (i = 0; i < variant->nr; i++) {
			enum part which = variant->parts[order[i]];
			__u64 word = 0;

			EXPECT_EQ(0, parts_drop(&p, which, bytes));
			block = p.left[PART_BLOCK] || p.left[PART_RETAINED];
			live = p.left[PART_POOL] || p.left[PART_ROUTE] || p.left[PART_REFERENCE];
			used = block || live;
			EXPECT_EQ(base.used + (used ? bytes : 0),
				  devpool_sysfs(self->index, "used"));
			EXPECT_EQ(base.pools + used, devpool_sysfs(self->index, "pools"));
			EXPECT_EQ(base.clients + parts_client(&p) + p.left[PART_PEER],
				  devpool_sysfs(self->index, "clients"));
			/* Mapped is what has memory, and it holds what it held. */
			if (p.left[PART_MAPPING]) {
				EXPECT_EQ(used ? 0 : SIGBUS, test_read(p.map, &word));
				EXPECT_EQ(used ? p.addr : 0, word);
			}
			if (_metadata->exit_code) {
				TH_LOG("order %d, step %d: %s", orders - 1, i, part_names[which]);
				return;
			}
		}
		EXPECT_BASE(base, self->index);
	} while (next_order(order, variant->nr));
	for (i = variant->nr; i > 1; i--)
		orders /= i;
	EXPECT_EQ(1, orders);
}

TEST_HARNESS_MAIN
