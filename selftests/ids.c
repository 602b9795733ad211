// SPDX-License-Identifier: GPL-2.0-only
/*
 * A client mints all the ids that it can.
 */
#include "devpool_test.h"

FIXTURE(ids)
{
	struct devpool_info info;
	struct test_base base;
	int index;
	int fd;
};

FIXTURE_SETUP(ids)
{
	test_setup(self, TEST_NULL);
}

FIXTURE_TEARDOWN(ids)
{
	close(self->fd);
	EXPECT_BASE(self->base, self->index);
}

/* One of the limits in Documentation/userspace-api/devpool.rst. */
#define MOST_IDS ((1 << 24) - 1)

TEST_F_TIMEOUT(ids, are_used_up, 300)
{
	struct devpool_pool_id_new mint = { .size = sizeof(mint) };
	struct devpool_pool_id id = {}, other;
	int fd, pool, i;

	fd = test_open(self->index);
	other = test_pool_id(fd, DEVPOOL_POOL_ID_CAPTURE);
	for (i = 0; i < MOST_IDS; i++)
		if (ioctl(fd, DEVPOOL_IOC_POOL_ID, &mint))
			break;
	ASSERT_EQ(MOST_IDS, i);
	test_err_pool_id(ENOSPC, fd, 0);
	EXPECT_EQ(-ENOSPC, devpool_pool_create_raw(fd, &id, &pool));
	test_err_pool_id(ENOSPC, fd, 0);
	/* The last one is good, and so are those of other kinds and clients. */
	EXPECT_EQ(1, test_pool_get(fd, mint.out_pool));
	EXPECT_EQ(0, test_pool_put(fd, mint.out_pool));
	EXPECT_LT(other.first, test_pool_id(fd, DEVPOOL_POOL_ID_CAPTURE).first);
	test_pool_id(self->fd, 0);
	close(fd);
}

TEST_HARNESS_MAIN
