// SPDX-License-Identifier: GPL-2.0-only
/*
 * BATCH: many operations in a call, each as its command alone.
 */
#include <pthread.h>

#include "devpool_test.h"

#define OPS 64

static struct devpool_batch_op op_alloc(struct devpool_pool_id pool, __u64 bytes)
{
	return (struct devpool_batch_op){
		.command = DEVPOOL_CMD_ALLOC,
		.bytes = bytes,
		.pool = pool,
		.out_err = 1,
		.out_addr = POISON,
		.out_bytes = POISON,
	};
}

static struct devpool_batch_op op_free(__u64 addr)
{
	return (struct devpool_batch_op){
		.command = DEVPOOL_CMD_FREE,
		.addr = addr,
		.out_err = 1,
	};
}

static struct devpool_batch_op op_record(__u64 addr, __u32 stream)
{
	return (struct devpool_batch_op){
		.command = DEVPOOL_CMD_RECORD,
		.addr = addr,
		.stream = stream,
		.out_err = 1,
	};
}

static int batch_raw(int fd, const void *ops, __u32 count, __u32 op_size, __u32 *done)
{
	struct devpool_batch batch = {
		.size = sizeof(batch),
		.ops = (uintptr_t)ops,
		.count = count,
		.op_size = op_size,
		.out_done = 0xa5a5a5a5,
	};
	int ret = ioctl(fd, DEVPOOL_IOC_BATCH, &batch) ? -errno : 0;

	*done = batch.out_done;
	return ret;
}

/* All of them are run. */
#define test_batch(fd, ops, count)						\
do {										\
	__u32 _done;								\
										\
	ASSERT_EQ(0, batch_raw(fd, ops, count, sizeof(*(ops)), &_done));	\
	ASSERT_EQ(count, _done);						\
} while (0)

#define test_err_batch(err, fd, ops, count, op_size)				\
do {										\
	__u32 _done;								\
										\
	EXPECT_EQ(-(err), batch_raw(fd, ops, count, op_size, &_done));		\
} while (0)

FIXTURE(batch)
{
	int fd;
	int index;
	struct devpool_info info;
	struct test_base base;
	int pool;
	struct devpool_pool_id id;
	/* Three pages, of which the last is not there */
	char *page;
};

FIXTURE_SETUP(batch)
{
	test_setup(self, TEST_SYSMEM);
	self->pool = test_pool_create(self->fd, &self->id);
	self->page = mmap(NULL, 3 * TEST_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->page);
	munmap(self->page + 2 * TEST_PAGE, TEST_PAGE);
}

FIXTURE_TEARDOWN(batch)
{
}

#define live(s) (test_pool_stat((s)->fd, (s)->id).out_blocks.current)

TEST_F(batch, each_is_run_and_answered)
{
	struct devpool_batch_op ops[OPS], frees[OPS];
	struct devpool_pool_stat stat;
	int i, j;

	for (i = 0; i < OPS; i++)
		ops[i] = op_alloc(self->id, (i + 1) * 700);
	test_batch(self->fd, ops, OPS);
	for (i = 0; i < OPS; i++) {
		EXPECT_EQ(0, ops[i].out_err);
		EXPECT_EQ(round_to((i + 1) * 700, 512), ops[i].out_bytes);
		for (j = 0; j < i; j++)
			EXPECT_TRUE(ops[j].out_addr + ops[j].out_bytes <= ops[i].out_addr ||
				    ops[i].out_addr + ops[i].out_bytes <= ops[j].out_addr);
		frees[i] = op_free(ops[i].out_addr);
	}
	EXPECT_EQ(OPS, live(self));
	test_batch(self->fd, frees, OPS);
	for (i = 0; i < OPS; i++)
		EXPECT_EQ(0, frees[i].out_err);
	stat = test_pool_stat(self->fd, self->id);
	EXPECT_EQ(0, stat.out_blocks.current);
	EXPECT_EQ(0, stat.out_requested.current);
	EXPECT_EQ(OPS, stat.out_blocks.out);
	EXPECT_EQ(stat.out_resident.current,
		  test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM, 0).out_freed);
}

TEST_F(batch, as_many_as_info_says)
{
	__u32 max = self->info.out_max_batch;
	struct devpool_batch_op *ops = calloc(max + 1, sizeof(*ops));
	__u32 i;

	ASSERT_NE(NULL, ops);
	ASSERT_LE(256, max);
	for (i = 0; i <= max; i++)
		ops[i] = op_alloc(self->id, 512);
	test_err_batch(EINVAL, self->fd, ops, max + 1, sizeof(*ops));
	EXPECT_EQ(0, live(self));
	test_batch(self->fd, ops, max);
	EXPECT_EQ(max, live(self));
	EXPECT_EQ(1, ops[max].out_err);
}

/* A pool of the client, its default pool, one that is not split, another client's. */
TEST_F(batch, of_several_pools)
{
	int other = test_open(self->index);
	struct devpool_pool_id whole, foreign;
	struct devpool_batch_op ops[6], frees[6];
	__u64 theirs;
	int i;

	test_pool_create_opts(self->fd, &whole, .flags = DEVPOOL_POOL_NO_SPLIT);
	test_pool_create(other, &foreign);
	theirs = test_alloc(other, foreign, 512);
	ops[0] = op_alloc(self->id, 512);
	ops[1] = op_alloc(default_pool, 512);
	ops[2] = op_alloc(whole, 512);
	ops[3] = op_alloc(foreign, 512);
	ops[4] = op_alloc(self->id, 3 * MIB);
	ops[5] = op_free(theirs);
	test_batch(self->fd, ops, 6);
	EXPECT_EQ(0, ops[0].out_err);
	EXPECT_EQ(0, ops[1].out_err);
	EXPECT_EQ(0, ops[2].out_err);
	EXPECT_EQ(self->info.out_chunk, ops[2].out_bytes);
	EXPECT_EQ(-ENOENT, ops[3].out_err);
	EXPECT_EQ(0, ops[4].out_err);
	EXPECT_EQ(-ENOENT, ops[5].out_err);
	EXPECT_EQ(2, live(self));
	EXPECT_EQ(1, test_pool_stat(self->fd, default_pool).out_blocks.current);
	EXPECT_EQ(1, test_pool_stat(self->fd, whole).out_blocks.current);
	test_free(other, theirs);
	for (i = 0; i < 6; i++)
		frees[i] = op_free(ops[i].out_addr);
	test_batch(self->fd, frees, 6);
	for (i = 0; i < 6; i++)
		EXPECT_EQ(ops[i].out_err ? -ENOENT : 0, frees[i].out_err);
	EXPECT_EQ(0, test_stats(self->fd).out_blocks.current);
}

TEST_F(batch, where_routes_lead)
{
	struct devpool_batch_op ops[2] = {
		op_alloc(default_pool, 512), op_alloc(default_pool, 512),
	};

	test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_ALL);
	test_batch(self->fd, ops, 2);
	EXPECT_EQ(2, live(self));
	test_route_end(self->fd, self->id, DEVPOOL_SCOPE_ALL);
	test_batch(self->fd, ops, 2);
	EXPECT_EQ(2, live(self));
	EXPECT_EQ(2, test_pool_stat(self->fd, default_pool).out_blocks.current);
}

TEST_F(batch, one_that_fails_stops_no_other)
{
	struct devpool_batch_op ops[] = {
		op_alloc(self->id, 512),
		op_alloc(self->id, 0),
		op_free(12345),
		{ .command = DEVPOOL_CMD_POOL_CREATE },
		{ .command = ~0U },
		op_alloc(self->id, 512),
		op_alloc(self->id, 1ULL << 61),
		op_alloc(self->id, 512),
		op_alloc(self->id, 512),
		op_alloc(self->id, 512),
		op_alloc(self->id, 512),
		op_free(self->id.second),
		op_alloc(self->id, 512),
	};
	static const int want[ARRAY_SIZE(ops)] = {
		0, -EINVAL, -ENOENT, -EOPNOTSUPP, -EOPNOTSUPP, 0, -ENOSPC,
		[11] = -ENOENT,
	};
	int i;

	ops[7].flags = 1U << 31;
	ops[8].align = 3;
	ops[9].addr = 1;
	ops[10].user_addr = 1;
	test_batch(self->fd, ops, ARRAY_SIZE(ops));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		int err = i == 7 || i == 10 ? -EOPNOTSUPP :
			  i == 8 || i == 9 ? -EINVAL : want[i];

		EXPECT_EQ(err, ops[i].out_err)
			TH_LOG("operation %d", i);
		if (ops[i].command == DEVPOOL_CMD_ALLOC && err)
			EXPECT_EQ(POISON, ops[i].out_addr);
	}
	EXPECT_EQ(3, live(self));
}

/* What is not of the command */
TEST_F(batch, members_of_other_commands)
{
	__u64 addr = test_alloc(self->fd, self->id, 512);
	__u32 stream = test_stream(self->fd, 0);
	struct devpool_batch_op ops[16];
	int i, nr = 0;

	for (i = 0; i < 8; i++) {
		struct devpool_batch_op op = op_free(addr);

		if (i == 0)
			op.bytes = 1;
		if (i == 1)
			op.align = 1;
		if (i == 2)
			op.pool.first = 1;
		if (i == 3)
			op.pool.second = 1;
		if (i == 4)
			op.timeout = 1;
		if (i == 5)
			op.user_addr = 1;
		if (i == 6)
			op.stream = stream;
		if (i == 7)
			op.flags = 1;
		ops[nr++] = op;
		op.command = DEVPOOL_CMD_RECORD;
		if (i != 6)
			ops[nr++] = op;
	}
	test_batch(self->fd, ops, nr);
	for (i = 0; i < nr; i++)
		EXPECT_EQ(ops[i].flags ? -EOPNOTSUPP : -EINVAL, ops[i].out_err)
			TH_LOG("operation %d", i);
	EXPECT_EQ(1, live(self));
}

TEST_F(batch, records_and_streams)
{
	__u32 own = test_stream(self->fd, 0), s = test_stream(self->fd, 0);
	__u64 addr = test_alloc(self->fd, self->id, 512), point, own_point;
	struct devpool_batch_op ops[5] = {
		op_record(addr + 100, s), op_free(addr), op_record(addr, s),
		op_alloc(self->id, 4 * KIB), op_alloc(self->id, 4 * KIB),
	};

	ops[3].stream = own;
	ops[4].stream = own + s + 1;
	point = test_submit(self->fd, s);
	own_point = test_submit(self->fd, own);
	test_batch(self->fd, ops, 5);
	EXPECT_EQ(0, ops[0].out_err);
	EXPECT_EQ(0, ops[1].out_err);
	EXPECT_EQ(-ENOENT, ops[2].out_err);
	EXPECT_EQ(0, ops[3].out_err);
	EXPECT_EQ(-ENOENT, ops[4].out_err);
	EXPECT_EQ(512 + 4 * KIB, test_pool_stat(self->fd, self->id).out_active.current);
	test_signal(self->fd, s, point);
	EXPECT_EQ(4 * KIB, test_pool_stat(self->fd, self->id).out_active.current);
	/* Its memory is the stream's alone until then. */
	ops[3] = op_free(ops[3].out_addr);
	test_batch(self->fd, ops + 3, 1);
	EXPECT_EQ(4 * KIB, test_empty_cache(self->fd, self->id, 0, 0).out_pending);
	test_signal(self->fd, own, own_point);
	EXPECT_EQ(0, test_empty_cache(self->fd, self->id, 0, 0).out_pending);
}

TEST_F(batch, zeroed)
{
	struct devpool_batch_op op = op_alloc(self->id, 64 * KIB);
	__u64 addr = test_alloc(self->fd, self->id, 64 * KIB);
	char *p = devpool_map_raw(self->fd, addr, 64 * KIB);

	ASSERT_NE(NULL, p);
	test_fill(p, 64 * KIB, 1);
	test_free(self->fd, addr);
	op.flags = DEVPOOL_ALLOC_ZERO;
	test_batch(self->fd, &op, 1);
	EXPECT_EQ(addr, op.out_addr);
	EXPECT_EQ(-1, test_not_zero(p, 64 * KIB));
}

/* Nobody could know the address, but it can be guessed. */
TEST_F(batch, what_it_allocates_it_does_not_free)
{
	__u64 addr = test_alloc(self->fd, self->id, 512);
	struct devpool_batch_op ops[] = {
		op_free(addr), op_alloc(self->id, 512), op_free(addr), op_free(addr),
	};

	test_batch(self->fd, ops, 4);
	EXPECT_EQ(addr, ops[1].out_addr);
	EXPECT_EQ(-ENOENT, ops[2].out_err);
	EXPECT_EQ(-ENOENT, ops[3].out_err);
	test_free(self->fd, addr);
}

TEST_F(batch, bad_arrays)
{
	struct devpool_batch_op op = op_alloc(self->id, 512);
	struct devpool_batch batch = {
		.size = sizeof(batch),
		.ops = (uintptr_t)&op,
		.count = 1,
		.op_size = sizeof(op),
		.__reserved = 1,
	};

	test_err_batch(EINVAL, self->fd, &op, 0, sizeof(op));
	test_err_batch(EINVAL, self->fd, &op, ~0U, sizeof(op));
	test_err_batch(EINVAL, self->fd, &op, 1, 0);
	test_err_batch(EINVAL, self->fd, &op, 1, sizeof(op) - 1);
	test_err_batch(E2BIG, self->fd, &op, 1, TEST_PAGE + 1);
	test_err_batch(E2BIG, self->fd, &op, 1, ~0U);
	test_err_batch(EFAULT, self->fd, NULL, 1, sizeof(op));
	test_err_batch(EFAULT, self->fd, (void *)~0UL, 1, sizeof(op));
	test_err_batch(EFAULT, self->fd, self->page + 2 * TEST_PAGE, 1, sizeof(op));
	EXPECT_EQ(-1, ioctl(self->fd, DEVPOOL_IOC_BATCH, &batch));
	EXPECT_EQ(EINVAL, errno);
	batch.__reserved = 0;
	batch.flags = 1;
	EXPECT_EQ(-1, ioctl(self->fd, DEVPOOL_IOC_BATCH, &batch));
	EXPECT_EQ(EOPNOTSUPP, errno);
	EXPECT_EQ(1, op.out_err);
	EXPECT_EQ(0, live(self));
}

/* Up to the end of what is there, for each place in a group */
TEST_F(batch, arrays_that_end_early)
{
	struct devpool_batch_op *ops;
	__u32 done, i, n;

	for (n = 0; n < 20; n++) {
		ops = (void *)(self->page + 2 * TEST_PAGE - n * sizeof(*ops) - 8);
		for (i = 0; i < n; i++)
			ops[i] = op_alloc(self->id, 512);
		memset(&ops[n], 0, 8);
		EXPECT_EQ(n ? 0 : -EFAULT, batch_raw(self->fd, ops, 20, sizeof(*ops), &done));
		EXPECT_EQ(n, done);
		EXPECT_EQ(n, live(self));
		for (i = 0; i < n; i++) {
			ASSERT_EQ(0, ops[i].out_err);
			test_free(self->fd, ops[i].out_addr);
		}
	}
}

/* What cannot be answered is not done. */
TEST_F(batch, arrays_that_cannot_be_written)
{
	struct devpool_batch_op *ops;
	__u64 addr[20];
	__u32 done, i, n;

	for (n = 0; n < 20; n++) {
		ops = (void *)(self->page + TEST_PAGE - n * sizeof(*ops) - 8);
		for (i = 0; i < 20; i++) {
			addr[i] = test_alloc(self->fd, self->id, 512);
			ops[i] = i % 2 ? op_alloc(self->id, 4 * KIB) : op_free(addr[i]);
		}
		ASSERT_EQ(0, mprotect(self->page + TEST_PAGE, TEST_PAGE, PROT_READ));
		EXPECT_EQ(n ? 0 : -EFAULT, batch_raw(self->fd, ops, 20, sizeof(*ops), &done));
		ASSERT_EQ(0, mprotect(self->page + TEST_PAGE, TEST_PAGE,
				      PROT_READ | PROT_WRITE));
		EXPECT_EQ(n, done);
		EXPECT_EQ(20 - (n + 1) / 2 + n / 2, live(self));
		for (i = 0; i < 20; i++) {
			if (i < n && i % 2)
				test_free(self->fd, ops[i].out_addr);
			if (i >= n || i % 2)
				test_free(self->fd, addr[i]);
		}
		ASSERT_EQ(0, live(self));
	}
}

/* A longer operation, as a newer program has it */
TEST_F(batch, operations_of_another_size)
{
	struct {
		struct devpool_batch_op op;
		__u64 more;
	} ops[10];
	__u32 done;
	int i;

	for (i = 0; i < 10; i++) {
		ops[i].op = op_alloc(self->id, 512);
		ops[i].more = 0;
	}
	EXPECT_EQ(0, batch_raw(self->fd, ops, 10, sizeof(ops[0]), &done));
	EXPECT_EQ(10, done);
	for (i = 0; i < 10; i++) {
		EXPECT_EQ(0, ops[i].op.out_err);
		EXPECT_EQ(512, ops[i].op.out_bytes);
		ops[i].op = op_free(ops[i].op.out_addr);
	}
	ops[9].more = 1;
	EXPECT_EQ(0, batch_raw(self->fd, ops, 10, sizeof(ops[0]), &done));
	EXPECT_EQ(9, done);
	EXPECT_EQ(1, live(self));
	ops[0].more = 1;
	EXPECT_EQ(-E2BIG, batch_raw(self->fd, ops, 10, sizeof(ops[0]), &done));
}

TEST_F(batch, out_done_cannot_be_written)
{
	struct devpool_batch *batch = (void *)self->page;
	struct devpool_batch_op op = op_alloc(self->id, 512);

	*batch = (struct devpool_batch){
		.size = sizeof(*batch),
		.ops = (uintptr_t)&op,
		.count = 1,
		.op_size = sizeof(op),
	};
	ASSERT_EQ(0, mprotect(self->page, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-1, ioctl(self->fd, DEVPOOL_IOC_BATCH, batch));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(1, op.out_err);
	EXPECT_EQ(0, live(self));
}

static void on_alarm(int sig)
{
}

/* The signal comes while the second operation waits for a stream. */
TEST_F(batch, a_signal_in_the_middle)
{
	struct sigaction action = { .sa_handler = on_alarm };
	struct devpool_batch_op ops[20];
	__u32 stream = test_stream(self->fd, 0), done;
	__u64 addr;
	int i;

	/* All of the pool that it may have is used by a stream. */
	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, self->info.out_chunk);
	addr = test_alloc_on(self->fd, self->id, self->info.out_chunk, stream);
	test_submit(self->fd, stream);
	test_free(self->fd, addr);
	for (i = 0; i < 20; i++)
		ops[i] = op_alloc(default_pool, 512);
	ops[1] = op_alloc(self->id, self->info.out_chunk);
	ops[1].timeout = INT64_MAX;
	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	ualarm(300000, 0);
	EXPECT_EQ(0, batch_raw(self->fd, ops, 20, sizeof(ops[0]), &done));
	EXPECT_EQ(0, ops[0].out_err);
	EXPECT_EQ(-EINTR, ops[1].out_err);
	EXPECT_LT(1, done);
	EXPECT_GT(20, done);
	EXPECT_EQ(1, ops[done].out_err);
	EXPECT_EQ(done - 1, test_pool_stat(self->fd, default_pool).out_blocks.current);
}

/* A pool that its last block ends in the middle of a batch */
TEST_F(batch, a_pool_that_goes)
{
	struct devpool_batch_op ops[3];
	__u64 x = test_alloc(self->fd, self->id, 512);
	__u64 y = test_alloc(self->fd, default_pool, 512);

	close(self->pool);
	ops[0] = op_free(x);
	ops[1] = op_alloc(self->id, 512);
	ops[2] = op_free(y);
	test_batch(self->fd, ops, 3);
	EXPECT_EQ(0, ops[0].out_err);
	EXPECT_EQ(-ENOENT, ops[1].out_err);
	EXPECT_EQ(0, ops[2].out_err);
	test_err_pool_stat(ENOENT, self->fd, self->id);
}

/* Whoever is killed while a block is being zeroed has not got it. */
TEST_F_TIMEOUT(batch, killed_while_it_zeroes, 60)
{
	const __u64 bytes = 16 * MIB;
	struct devpool_batch_op ops[8];
	struct devpool_pool_id id;
	unsigned int i, round;
	__u64 addr[8];
	pid_t pid;
	int fd;

	for (round = 0; round < 20; round++) {
		/* Apart, and what was used is zeroed when it is asked for. */
		for (i = 0; i < 8; i++) {
			addr[i] = test_alloc(self->fd, self->id, bytes);
			if (!round)
				test_alloc(self->fd, self->id, 2 * MIB);
		}
		for (i = 0; i < 8; i++)
			test_free(self->fd, addr[i]);
		pid = test_fork();
		if (!pid) {
			fd = test_open(self->index);
			test_pool_attach(fd, self->pool, &id);
			for (i = 0; i < 8; i++) {
				ops[i] = op_alloc(id, bytes);
				ops[i].flags = DEVPOOL_ALLOC_ZERO;
			}
			devpool_batch_raw(fd, ops, 8);
			pause();
		}
		usleep(round * 5000 * test_slow());
		test_kill(pid);
		EXPECT_EQ(16 * MIB, test_pool_stat(self->fd, self->id).out_active.current);
		EXPECT_EQ(8 * bytes + 16 * MIB,
			  test_pool_stat(self->fd, self->id).out_grows * self->info.out_chunk);
	}
}

struct hammer {
	int fd;
	struct devpool_pool_id id;
	unsigned int wrong;
};

static void *hammer_run(void *p)
{
	struct hammer *h = p;
	struct devpool_batch_op ops[OPS];
	unsigned int i, round, rounds = test_times(200);
	__u32 done;

	for (round = 0; round < rounds; round++) {
		for (i = 0; i < OPS; i++)
			ops[i] = op_alloc(i % 3 ? h->id : default_pool, 512 << i % 4);
		if (batch_raw(h->fd, ops, OPS, sizeof(ops[0]), &done) || done != OPS)
			__atomic_add_fetch(&h->wrong, 1, __ATOMIC_RELAXED);
		for (i = 0; i < OPS; i++)
			ops[i] = op_free(ops[i].out_err ? 0 : ops[i].out_addr);
		if (batch_raw(h->fd, ops, OPS, sizeof(ops[0]), &done) || done != OPS)
			__atomic_add_fetch(&h->wrong, 1, __ATOMIC_RELAXED);
		for (i = 0; i < OPS; i++)
			if (ops[i].out_err)
				__atomic_add_fetch(&h->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

TEST_F_TIMEOUT(batch, from_several_threads, 60)
{
	struct hammer h = { .fd = self->fd, .id = self->id };
	pthread_t threads[4];
	int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, hammer_run, &h));
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	EXPECT_EQ(0, h.wrong);
	EXPECT_EQ(0, test_stats(self->fd).out_blocks.current);
}

TEST_HARNESS_MAIN
