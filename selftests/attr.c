// SPDX-License-Identifier: GPL-2.0-only
/*
 * What pools, clients and requests can be told: limits, thresholds, flags, and
 * chunks that are kept as spares.
 */
#include "devpool_test.h"

FIXTURE(attr)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 chunk;
	int pool;
	int index;
	int fd;
};

FIXTURE_VARIANT(attr)
{
	enum test_kind kind;
};

FIXTURE_VARIANT_ADD(attr, sysmem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(attr, null) { .kind = TEST_NULL };

FIXTURE_SETUP(attr)
{
	test_setup(self, variant->kind);
	self->chunk = self->info.out_chunk;
	self->pool = test_pool_create(self->fd, &self->id);
	test_catch();
}

FIXTURE_TEARDOWN(attr)
{
}

#define MEMORY (variant->kind != TEST_NULL)
#define CHUNKS(n) ((n) * self->chunk)
#define USED() ((__u64)devpool_sysfs(self->index, "used"))

/* Of the fixture's pool */
#define STAT() test_pool_stat(self->pool, default_pool)
#define RESIDENT() (STAT().out_resident.current)
#define SPARE() (STAT().out_spare.current)
#define ALLOC(bytes) test_alloc(self->fd, self->id, bytes)
#define FREE(addr) test_free(self->fd, addr)
#define GET(attr) test_pool_get_attr(self->pool, default_pool, attr)
#define SET(attr, to) test_pool_set_attr(self->pool, default_pool, attr, to)
#define TRIM(flags, keep)							\
	test_empty_cache(self->pool, default_pool, DEVPOOL_EMPTY_TRIM | (flags), keep)

#define LIMIT DEVPOOL_ATTR_LIMIT
#define THRESHOLD DEVPOOL_ATTR_RELEASE_THRESHOLD
#define KEEP_PHYSICAL DEVPOOL_EMPTY_KEEP_PHYSICAL

/* A request that a limit forbids: nothing but the count of such is changed. */
#define EXPECT_QUOTA(fd, id, bytes)						\
do {										\
	struct devpool_pool_stat _was = test_pool_stat(fd, id);			\
										\
	test_err_alloc(EDQUOT, fd, id, bytes);					\
	_was.out_ooms++;							\
	EXPECT_SAME(_was, test_pool_stat(fd, id));				\
} while (0)

/* Attributes as such */

TEST_F(attr, each_is_what_it_was_set_to)
{
	struct devpool_pool_id other;

	test_pool_create(self->fd, &other);
	EXPECT_EQ(0, GET(LIMIT));
	EXPECT_EQ(-1ULL, GET(THRESHOLD));
	EXPECT_EQ(CHUNKS(8), SET(LIMIT, CHUNKS(8)));
	EXPECT_EQ(12345, SET(THRESHOLD, 12345));
	/* By file, by id, and for nobody else */
	EXPECT_EQ(CHUNKS(8), GET(LIMIT));
	EXPECT_EQ(12345, GET(THRESHOLD));
	EXPECT_EQ(CHUNKS(8), test_pool_get_attr(self->fd, self->id, LIMIT));
	EXPECT_EQ(12345, test_pool_get_attr(self->fd, self->id, THRESHOLD));
	EXPECT_EQ(0, test_pool_get_attr(self->fd, other, LIMIT));
	EXPECT_EQ(-1ULL, test_pool_get_attr(self->fd, other, THRESHOLD));
	EXPECT_EQ(0, test_pool_get_attr(self->fd, default_pool, LIMIT));
	EXPECT_EQ(-1ULL, test_pool_get_attr(self->fd, default_pool, THRESHOLD));
	EXPECT_EQ(CHUNKS(3), test_pool_set_attr(self->fd, self->id, LIMIT, CHUNKS(3)));
	EXPECT_EQ(CHUNKS(3), GET(LIMIT));
	EXPECT_EQ(0, SET(LIMIT, 0));
	EXPECT_EQ(0, GET(LIMIT));
	EXPECT_EQ(-1ULL, SET(THRESHOLD, -1ULL));
	EXPECT_EQ(-1ULL, GET(THRESHOLD));
}

/* {0,0} on a device file is a pool like others. */
TEST_F(attr, the_default_pool_has_them_too)
{
	int other;

	other = test_open(self->index);
	EXPECT_EQ(CHUNKS(4), test_pool_set_attr(self->fd, default_pool, LIMIT, CHUNKS(4)));
	EXPECT_EQ(CHUNKS(1), test_pool_set_attr(self->fd, default_pool, THRESHOLD, CHUNKS(1)));
	EXPECT_EQ(0, GET(LIMIT));
	EXPECT_EQ(0, test_pool_get_attr(other, default_pool, LIMIT));
	EXPECT_QUOTA(self->fd, default_pool, CHUNKS(4) + 1);
	FREE(test_alloc(self->fd, default_pool, CHUNKS(4)));
	EXPECT_EQ(CHUNKS(1), test_resident(self->fd, default_pool));
	ALLOC(CHUNKS(6));
	test_alloc(other, default_pool, CHUNKS(6));
}

/* A pool that comes after it under the same id begins anew. */
TEST_F(attr, they_end_with_their_pool)
{
	SET(LIMIT, CHUNKS(1));
	SET(THRESHOLD, 0);
	close(self->pool);
	ASSERT_EQ(0, devpool_pool_create_raw(self->fd, &self->id, &self->pool));
	EXPECT_EQ(0, GET(LIMIT));
	EXPECT_EQ(-1ULL, GET(THRESHOLD));
	FREE(ALLOC(CHUNKS(2)));
	EXPECT_EQ(CHUNKS(2), RESIDENT());
}

TEST_F(attr, those_of_a_freeable_pool)
{
	struct devpool_pool_id id = test_pool_id(self->fd, 0);

	test_err_pool_attr(ENOENT, self->fd, id, 0, LIMIT, 0);
	test_pool_get(self->fd, id);
	FREE(test_alloc(self->fd, id, CHUNKS(4)));
	EXPECT_EQ(0, test_pool_put(self->fd, id));
	EXPECT_EQ(CHUNKS(2), test_pool_set_attr(self->fd, id, LIMIT, CHUNKS(2)));
	EXPECT_EQ(CHUNKS(4), test_resident(self->fd, id));
	EXPECT_EQ(1, test_pool_get(self->fd, id));
	EXPECT_EQ(CHUNKS(2), test_pool_get_attr(self->fd, id, LIMIT));
}

/* The limit of a pool */

static const struct {
	/* chunks, and bytes more or less */
	int chunks, more;
	int rounded;
} roundings[] = {
	{ 0, 1, 1 }, { 1, -1, 1 }, { 1, 0, 1 }, { 1, 1, 2 }, { 5, -4096, 5 }, { 5, 512, 6 },
};

TEST_F(attr, LIMIT_is_rounded_up_to_chunks)
{
	struct devpool_pool_id id;
	__u64 limit;
	int pool;
	int i;

	for (i = 0; i < ARRAY_SIZE(roundings); i++) {
		limit = CHUNKS(roundings[i].chunks) + roundings[i].more;
		EXPECT_EQ(CHUNKS(roundings[i].rounded), SET(LIMIT, limit));
		EXPECT_EQ(CHUNKS(roundings[i].rounded), GET(LIMIT));
		pool = test_pool_create_opts(self->fd, &id, .limit = limit);
		EXPECT_EQ(CHUNKS(roundings[i].rounded),
			  test_pool_get_attr(pool, default_pool, LIMIT));
		FREE(test_alloc(self->fd, id, CHUNKS(roundings[i].rounded)));
		EXPECT_QUOTA(self->fd, id, CHUNKS(roundings[i].rounded) + 1);
		close(pool);
	}
}

/* The largest number that is a whole number of chunks, and one more */
TEST_F(attr, LIMIT_that_overflows)
{
	static const __u64 over[] = { 1, 2, 4096 };
	struct devpool_pool_id id;
	int i;

	SET(LIMIT, CHUNKS(2));
	for (i = 0; i < ARRAY_SIZE(over); i++) {
		test_err_pool_attr(EINVAL, self->pool, default_pool, DEVPOOL_POOL_ATTR_SET,
				   LIMIT, -self->chunk + over[i]);
		test_err_pool_create_opts(EINVAL, self->fd, .limit = -self->chunk + over[i]);
	}
	test_err_pool_attr(EINVAL, self->pool, default_pool, DEVPOOL_POOL_ATTR_SET, LIMIT, -1ULL);
	test_err_pool_create_opts(EINVAL, self->fd, .limit = -1ULL);
	EXPECT_EQ(CHUNKS(2), GET(LIMIT));
	EXPECT_EQ(-self->chunk, SET(LIMIT, -self->chunk));
	ALLOC(CHUNKS(8));
	test_pool_create_opts(self->fd, &id, .limit = -self->chunk);
	test_alloc(self->fd, id, CHUNKS(8));
}

TEST_F(attr, LIMIT_exactly_and_one_byte_more)
{
	SET(LIMIT, CHUNKS(8));
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(8) + 1);
	EXPECT_EQ(0, STAT().out_resident.peak);
	FREE(ALLOC(CHUNKS(8)));
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(8) + 1);
	ALLOC(CHUNKS(8));
	EXPECT_QUOTA(self->fd, self->id, 1);
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(1));
	EXPECT_EQ(CHUNKS(8), STAT().out_resident.peak);
	EXPECT_EQ(4, STAT().out_ooms);
}

/* Chunks count, not bytes; and both arenas together do. */
TEST_F(attr, LIMIT_counts_chunks)
{
	__u64 i;

	SET(LIMIT, CHUNKS(3));
	ALLOC(MIB + 1);
	ALLOC(1);
	ALLOC(1);
	EXPECT_EQ(CHUNKS(2), RESIDENT());
	ALLOC(CHUNKS(1));
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(1));
	/* There is room in the small one. */
	for (i = 1; i < self->chunk / (64 * KIB); i++)
		ALLOC(64 * KIB);
	EXPECT_QUOTA(self->fd, self->id, 64 * KIB);
}

TEST_F(attr, LIMIT_is_met_by_what_the_pool_has)
{
	__u64 addr[3];
	int i;

	SET(LIMIT, CHUNKS(6));
	for (i = 0; i < 3; i++)
		addr[i] = ALLOC(CHUNKS(2));
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(1));
	FREE(addr[0]);
	FREE(addr[2]);
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(4) + 1);
	/* By moving what is free */
	ALLOC(CHUNKS(4));
	EXPECT_EQ(CHUNKS(6), STAT().out_resident.peak);
	EXPECT_EQ(6, STAT().out_grows);
}

TEST_F(attr, LIMIT_counts_spares)
{
	__u64 grows, addr;

	SET(LIMIT, CHUNKS(8));
	FREE(ALLOC(CHUNKS(8)));
	TRIM(KEEP_PHYSICAL, 0);
	EXPECT_EQ(CHUNKS(8), SPARE());
	grows = STAT().out_grows;
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(8) + 1);
	EXPECT_EQ(CHUNKS(8), SPARE());
	addr = ALLOC(CHUNKS(3));
	EXPECT_EQ(CHUNKS(5), SPARE());
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(5) + 1);
	ALLOC(CHUNKS(5));
	EXPECT_EQ(0, SPARE());
	EXPECT_EQ(grows, STAT().out_grows);
	EXPECT_QUOTA(self->fd, self->id, 1);
	FREE(addr);
	ALLOC(CHUNKS(3));
}

/* Nothing is taken away, what is there can be used, and no more comes. */
TEST_F(attr, LIMIT_below_what_is_held)
{
	struct devpool_pool_stat before;
	__u64 live, cached;

	live = ALLOC(CHUNKS(4));
	cached = ALLOC(CHUNKS(4));
	FREE(cached);
	before = STAT();
	EXPECT_EQ(CHUNKS(2), SET(LIMIT, CHUNKS(2)));
	EXPECT_SAME(before, STAT());
	EXPECT_EQ(CHUNKS(8), USED());
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(4) + 1);
	EXPECT_EQ(cached, ALLOC(CHUNKS(4)));
	EXPECT_QUOTA(self->fd, self->id, 1);
	FREE(live);
	FREE(cached);
	EXPECT_EQ(CHUNKS(8), RESIDENT());
	TRIM(0, 0);
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(2) + 1);
	ALLOC(CHUNKS(2));
	EXPECT_QUOTA(self->fd, self->id, 1);
	/* And without it */
	SET(LIMIT, 0);
	ALLOC(CHUNKS(6));
}

TEST_F(attr, LIMIT_of_one_pool_is_no_other_s)
{
	struct devpool_pool_id other;

	test_pool_create_opts(self->fd, &other, .limit = CHUNKS(2));
	ALLOC(CHUNKS(4));
	test_alloc(self->fd, default_pool, CHUNKS(4));
	EXPECT_QUOTA(self->fd, other, CHUNKS(2) + 1);
	test_alloc(self->fd, other, CHUNKS(2));
	ALLOC(CHUNKS(4));
}

/* Its own limit is no reason to take from the client's other pools. */
TEST_F(attr, LIMIT_of_a_pool_takes_nothing_from_others)
{
	struct devpool_pool_stat before;

	SET(LIMIT, CHUNKS(2));
	FREE(test_alloc(self->fd, default_pool, CHUNKS(4)));
	before = test_pool_stat(self->fd, default_pool);
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(3));
	EXPECT_SAME(before, test_pool_stat(self->fd, default_pool));
}

/* Whoever asks */
TEST_F(attr, LIMIT_binds_a_peer)
{
	struct devpool_pool_id id;
	int other;

	SET(LIMIT, CHUNKS(4));
	other = test_open(self->index);
	test_pool_attach(other, self->pool, &id);
	test_alloc(other, id, CHUNKS(3));
	EXPECT_QUOTA(other, id, CHUNKS(2));
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(2));
	ALLOC(CHUNKS(1));
	EXPECT_QUOTA(other, id, 1);
	/* Each can set it. */
	EXPECT_EQ(CHUNKS(5), test_pool_set_attr(other, id, LIMIT, CHUNKS(5)));
	ALLOC(CHUNKS(1));
}

/* The limit of a client */

TEST_F(attr, client_LIMIT_exactly_and_one_byte_more)
{
	__u64 addr;

	test_limit(self->fd, CHUNKS(8));
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(8) + 1);
	EXPECT_QUOTA(self->fd, default_pool, CHUNKS(8) + 1);
	addr = ALLOC(CHUNKS(8));
	EXPECT_QUOTA(self->fd, self->id, 1);
	EXPECT_QUOTA(self->fd, default_pool, 1);
	FREE(addr);
	/* Its cache is its own. */
	EXPECT_QUOTA(self->fd, default_pool, 1);
	ALLOC(CHUNKS(8));
	EXPECT_EQ(CHUNKS(8), test_stats(self->fd).out_resident.peak);
}

TEST_F(attr, client_LIMIT_is_rounded_up_to_chunks)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(roundings); i++) {
		test_limit(self->fd, CHUNKS(roundings[i].chunks) + roundings[i].more);
		EXPECT_QUOTA(self->fd, self->id, CHUNKS(roundings[i].rounded) + 1);
		FREE(ALLOC(CHUNKS(roundings[i].rounded)));
		TRIM(0, 0);
	}
}

TEST_F(attr, client_LIMIT_that_overflows)
{
	test_limit(self->fd, CHUNKS(2));
	test_err_limit(EINVAL, self->fd, -self->chunk + 1);
	test_err_limit(EINVAL, self->fd, -1ULL);
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(3));
	test_limit(self->fd, -self->chunk);
	ALLOC(CHUNKS(3));
}

TEST_F(attr, client_LIMIT_over_several_pools)
{
	struct devpool_pool_id p, q;
	__u64 a, b;

	test_limit(self->fd, CHUNKS(10));
	test_pool_create(self->fd, &p);
	test_pool_create_opts(self->fd, &q, .limit = CHUNKS(2));
	test_alloc(self->fd, default_pool, CHUNKS(3));
	a = test_alloc(self->fd, p, CHUNKS(3));
	b = ALLOC(CHUNKS(3));
	/* Of two limits the lower one */
	EXPECT_QUOTA(self->fd, q, CHUNKS(2));
	test_alloc(self->fd, q, CHUNKS(1));
	EXPECT_QUOTA(self->fd, q, CHUNKS(1));
	EXPECT_QUOTA(self->fd, p, 1);
	EXPECT_QUOTA(self->fd, self->id, 1);
	EXPECT_EQ(CHUNKS(10), test_stats(self->fd).out_resident.current);
	FREE(a);
	test_empty_cache(self->fd, p, DEVPOOL_EMPTY_TRIM, 0);
	test_alloc(self->fd, default_pool, CHUNKS(3));
	FREE(b);
	close(self->pool);
	EXPECT_QUOTA(self->fd, q, CHUNKS(2));
	test_alloc(self->fd, q, CHUNKS(1));
	test_alloc(self->fd, default_pool, CHUNKS(2));
	EXPECT_QUOTA(self->fd, default_pool, 1);
	EXPECT_EQ(CHUNKS(10), test_stats(self->fd).out_resident.peak);
}

TEST_F(attr, client_LIMIT_counts_spares)
{
	struct devpool_pool_id p;

	test_limit(self->fd, CHUNKS(6));
	test_pool_create(self->fd, &p);
	FREE(ALLOC(CHUNKS(4)));
	TRIM(KEEP_PHYSICAL, 0);
	EXPECT_EQ(CHUNKS(4), SPARE());
	/* The spares of a live pool are not for others. */
	EXPECT_QUOTA(self->fd, p, CHUNKS(3));
	EXPECT_EQ(CHUNKS(4), SPARE());
	test_alloc(self->fd, p, CHUNKS(2));
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(5));
	ALLOC(CHUNKS(4));
	EXPECT_EQ(0, SPARE());
}

/* What the default pool has cached need not be kept. */
TEST_F(attr, client_LIMIT_takes_the_default_pool_s_cache_first)
{
	struct devpool_pool_stat stat;
	__u64 live;

	test_limit(self->fd, CHUNKS(10));
	live = test_alloc(self->fd, default_pool, CHUNKS(2));
	FREE(test_alloc(self->fd, default_pool, CHUNKS(6)));
	EXPECT_EQ(CHUNKS(8), test_resident(self->fd, default_pool));
	ALLOC(CHUNKS(8));
	stat = STAT();
	EXPECT_EQ(CHUNKS(8), stat.out_resident.current);
	EXPECT_EQ(6, stat.out_reclaims);
	EXPECT_EQ(8, stat.out_grows);
	EXPECT_EQ(0, stat.out_ooms);
	EXPECT_EQ(CHUNKS(2), test_resident(self->fd, default_pool));
	EXPECT_EQ(CHUNKS(10), test_stats(self->fd).out_resident.peak);
	EXPECT_QUOTA(self->fd, self->id, 1);
	FREE(live);
}

TEST_F(attr, client_LIMIT_takes_the_default_pool_s_spares_first)
{
	test_limit(self->fd, CHUNKS(8));
	FREE(test_alloc(self->fd, default_pool, CHUNKS(6)));
	test_empty_cache(self->fd, default_pool, KEEP_PHYSICAL, 0);
	EXPECT_EQ(CHUNKS(6), test_pool_stat(self->fd, default_pool).out_spare.current);
	ALLOC(CHUNKS(8));
	EXPECT_EQ(0, test_pool_stat(self->fd, default_pool).out_spare.current);
	EXPECT_EQ(CHUNKS(8), USED());
}

/* Nor what a pool has that nothing refers to */
TEST_F(attr, client_LIMIT_takes_the_cache_of_freeable_pools_first)
{
	struct devpool_pool_id id = test_pool_id(self->fd, 0);
	__u64 live;

	test_limit(self->fd, CHUNKS(10));
	test_pool_get(self->fd, id);
	live = test_alloc(self->fd, id, CHUNKS(2));
	FREE(test_alloc(self->fd, id, CHUNKS(6)));
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(8));
	EXPECT_EQ(CHUNKS(8), test_resident(self->fd, id));
	EXPECT_EQ(0, test_pool_put(self->fd, id));
	EXPECT_EQ(CHUNKS(8), test_resident(self->fd, id));
	ALLOC(CHUNKS(8));
	EXPECT_EQ(CHUNKS(2), test_resident(self->fd, id));
	EXPECT_EQ(6, STAT().out_reclaims);
	FREE(live);
}

/* What a live pool has cached is its own. */
TEST_F(attr, client_LIMIT_leaves_live_pools_alone)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id p;

	test_pool_create(self->fd, &p);
	FREE(test_alloc(self->fd, p, CHUNKS(6)));
	test_limit(self->fd, CHUNKS(8));
	before = test_pool_stat(self->fd, p);
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(3));
	EXPECT_QUOTA(self->fd, default_pool, CHUNKS(3));
	EXPECT_SAME(before, test_pool_stat(self->fd, p));
	test_alloc(self->fd, p, CHUNKS(6));
	ALLOC(CHUNKS(2));
}

TEST_F(attr, client_LIMIT_below_what_is_held)
{
	__u64 live, cached;

	live = ALLOC(CHUNKS(4));
	cached = ALLOC(CHUNKS(4));
	FREE(cached);
	test_limit(self->fd, CHUNKS(2));
	EXPECT_EQ(CHUNKS(8), RESIDENT());
	EXPECT_QUOTA(self->fd, default_pool, 1);
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(5));
	EXPECT_EQ(cached, ALLOC(CHUNKS(4)));
	FREE(live);
	FREE(cached);
	TRIM(0, 0);
	ALLOC(CHUNKS(2));
	EXPECT_QUOTA(self->fd, default_pool, 1);
	test_limit(self->fd, 0);
	ALLOC(CHUNKS(6));
}

TEST_F(attr, client_LIMIT_is_no_other_client_s)
{
	int other;

	test_limit(self->fd, CHUNKS(2));
	other = test_open(self->index);
	test_alloc(other, default_pool, CHUNKS(8));
	EXPECT_QUOTA(self->fd, default_pool, CHUNKS(3));
	test_alloc(self->fd, default_pool, CHUNKS(2));
}

/* A pool is its creator's, whoever allocates there. */
TEST_F(attr, client_LIMIT_binds_a_peer)
{
	struct devpool_pool_id id;
	int other;

	test_limit(self->fd, CHUNKS(4));
	other = test_open(self->index);
	test_pool_attach(other, self->pool, &id);
	test_alloc(other, id, CHUNKS(3));
	EXPECT_QUOTA(other, id, CHUNKS(2));
	EXPECT_QUOTA(self->fd, default_pool, CHUNKS(2));
	test_alloc(self->fd, default_pool, CHUNKS(1));
	EXPECT_QUOTA(other, id, 1);
	/* The peer's own limit has nothing to do with it. */
	test_limit(other, CHUNKS(1));
	test_limit(self->fd, CHUNKS(8));
	test_alloc(other, id, CHUNKS(4));
	EXPECT_QUOTA(other, default_pool, CHUNKS(2));
	EXPECT_EQ(CHUNKS(8), test_stats(self->fd).out_resident.current);
	EXPECT_EQ(0, test_stats(other).out_resident.current);
}

/* The threshold above which cache is given back */

TEST_F(attr, RELEASE_THRESHOLD_keeps_all_unless_told)
{
	FREE(ALLOC(CHUNKS(16)));
	EXPECT_EQ(CHUNKS(16), RESIDENT());
	EXPECT_EQ(0, STAT().out_flushes);
}

static const struct {
	/* chunks, and bytes more */
	int chunks, more;
	/* chunks that are kept of 8 */
	int kept;
} thresholds[] = {
	{ 0, 0, 0 }, { 1, -1, 0 }, { 1, 0, 1 }, { 3, -1, 2 }, { 3, 0, 3 }, { 3, 1, 3 },
	{ 8, -1, 7 }, { 8, 0, 8 }, { 8, 1, 8 }, { 100, 0, 8 },
};

/* At create, and later: there it takes effect at once. */
TEST_F(attr, RELEASE_THRESHOLD_is_what_stays)
{
	struct devpool_pool_id id;
	__u64 threshold;
	int pool;
	int i;

	for (i = 0; i < ARRAY_SIZE(thresholds); i++) {
		threshold = CHUNKS(thresholds[i].chunks) + thresholds[i].more;
		pool = test_pool_create_opts(self->fd, &id, .flags = DEVPOOL_POOL_THRESHOLD,
					     .release_threshold = threshold);
		EXPECT_EQ(threshold, test_pool_get_attr(pool, default_pool, THRESHOLD));
		FREE(test_alloc(self->fd, id, CHUNKS(8)));
		EXPECT_EQ(CHUNKS(thresholds[i].kept), test_resident(self->fd, id))
			TH_LOG("threshold %llu", threshold);
		EXPECT_EQ(CHUNKS(thresholds[i].kept), USED());
		EXPECT_EQ(thresholds[i].kept < 8, test_pool_stat(self->fd, id).out_flushes);
		close(pool);

		pool = test_pool_create(self->fd, &id);
		FREE(test_alloc(self->fd, id, CHUNKS(8)));
		EXPECT_EQ(CHUNKS(8), USED());
		EXPECT_EQ(threshold, test_pool_set_attr(pool, default_pool, THRESHOLD, threshold));
		EXPECT_EQ(CHUNKS(thresholds[i].kept), test_resident(self->fd, id))
			TH_LOG("threshold %llu", threshold);
		EXPECT_EQ(CHUNKS(thresholds[i].kept), USED());
		close(pool);
	}
}

/* Without the flag 0 is not a threshold of 0. */
TEST_F(attr, RELEASE_THRESHOLD_needs_its_flag)
{
	struct devpool_pool_id id;

	test_pool_create_opts(self->fd, &id, .limit = 0);
	EXPECT_EQ(-1ULL, test_pool_get_attr(self->fd, id, THRESHOLD));
	test_err_pool_create_opts(EINVAL, self->fd, .release_threshold = 1);
	test_err_pool_create_opts(EINVAL, self->fd, .release_threshold = -1ULL);
	test_pool_create_opts(self->fd, &id, .flags = DEVPOOL_POOL_THRESHOLD,
			      .release_threshold = -1ULL);
	FREE(test_alloc(self->fd, id, CHUNKS(2)));
	EXPECT_EQ(CHUNKS(2), test_resident(self->fd, id));
}

/* Live bytes are no cache: each FREE leaves as much. */
TEST_F(attr, RELEASE_THRESHOLD_after_each_free)
{
	__u64 addr[6];
	int i;

	SET(THRESHOLD, CHUNKS(3));
	for (i = 0; i < 6; i++)
		addr[i] = ALLOC(CHUNKS(2));
	for (i = 0; i < 6; i++) {
		FREE(addr[i]);
		EXPECT_EQ(CHUNKS(2) * (5 - i) + CHUNKS(i ? 3 : 2), RESIDENT());
	}
	EXPECT_EQ(5, STAT().out_flushes);
	/* And what was kept is of use. */
	ALLOC(CHUNKS(3));
	EXPECT_EQ(12, STAT().out_grows);
	EXPECT_EQ(CHUNKS(3), RESIDENT());
}

/* A chunk with a live byte stays, whatever else is free in it. */
TEST_F(attr, RELEASE_THRESHOLD_gives_back_whole_chunks)
{
	__u64 a, b;

	SET(THRESHOLD, 0);
	a = ALLOC(64 * KIB);
	b = ALLOC(64 * KIB);
	FREE(a);
	EXPECT_EQ(self->chunk, RESIDENT());
	EXPECT_EQ(0, STAT().out_flushes);
	a = ALLOC(CHUNKS(2));
	FREE(a);
	EXPECT_EQ(self->chunk, RESIDENT());
	FREE(b);
	EXPECT_EQ(0, RESIDENT());
}

/* Free bytes next to live ones count as cache, too. */
TEST_F(attr, RELEASE_THRESHOLD_counts_every_free_byte)
{
	__u64 live, addr;

	SET(THRESHOLD, CHUNKS(2));
	live = ALLOC(512);
	addr = ALLOC(CHUNKS(2));
	FREE(addr);
	EXPECT_EQ(CHUNKS(2), RESIDENT());
	FREE(live);
	EXPECT_EQ(CHUNKS(2), RESIDENT());
}

TEST_F(attr, RELEASE_THRESHOLD_takes_spares_first)
{
	struct devpool_pool_stat stat;
	__u64 a, b;

	a = ALLOC(CHUNKS(4));
	b = ALLOC(CHUNKS(4));
	FREE(a);
	TRIM(KEEP_PHYSICAL, 0);
	SET(THRESHOLD, CHUNKS(6));
	stat = STAT();
	EXPECT_EQ(CHUNKS(4), stat.out_spare.current);
	EXPECT_EQ(CHUNKS(4), stat.out_resident.current);
	FREE(b);
	stat = STAT();
	EXPECT_EQ(CHUNKS(2), stat.out_spare.current);
	EXPECT_EQ(CHUNKS(4), stat.out_resident.current);
	SET(THRESHOLD, CHUNKS(3));
	stat = STAT();
	EXPECT_EQ(0, stat.out_spare.current);
	EXPECT_EQ(CHUNKS(3), stat.out_resident.current);
	EXPECT_EQ(CHUNKS(3), USED());
}

TEST_F(attr, RELEASE_THRESHOLD_is_of_one_pool)
{
	struct devpool_pool_id other;

	SET(THRESHOLD, 0);
	test_pool_create(self->fd, &other);
	FREE(test_alloc(self->fd, other, CHUNKS(4)));
	FREE(test_alloc(self->fd, default_pool, CHUNKS(4)));
	FREE(ALLOC(CHUNKS(4)));
	EXPECT_EQ(0, RESIDENT());
	EXPECT_EQ(CHUNKS(4), test_resident(self->fd, other));
	EXPECT_EQ(CHUNKS(4), test_resident(self->fd, default_pool));
}

/* A client that goes frees its blocks, as FREE does. */
TEST_F(attr, RELEASE_THRESHOLD_when_a_peer_goes)
{
	struct devpool_pool_id id;
	int other;

	SET(THRESHOLD, CHUNKS(1));
	other = test_open(self->index);
	test_pool_attach(other, self->pool, &id);
	test_alloc(other, id, CHUNKS(2));
	test_alloc(other, id, CHUNKS(2));
	EXPECT_EQ(CHUNKS(4), RESIDENT());
	close(other);
	EXPECT_EQ(0, STAT().out_allocated.current);
	EXPECT_EQ(CHUNKS(1), RESIDENT());
}

TEST_F(attr, RELEASE_THRESHOLD_is_not_for_stable_pools)
{
	struct devpool_pool_id id;
	int pool;

	test_err_pool_create_opts(EINVAL, self->fd, .release_threshold = CHUNKS(1),
				  .flags = DEVPOOL_POOL_STABLE | DEVPOOL_POOL_THRESHOLD);
	pool = test_pool_create_opts(self->fd, &id, .flags = DEVPOOL_POOL_STABLE);
	test_err_pool_attr(EINVAL, pool, default_pool, DEVPOOL_POOL_ATTR_SET, THRESHOLD, 0);
	EXPECT_EQ(-1ULL, test_pool_get_attr(pool, default_pool, THRESHOLD));
	FREE(test_alloc(self->fd, id, CHUNKS(2)));
	EXPECT_EQ(CHUNKS(2), test_resident(self->fd, id));
}

/* Spare chunks */

TEST_F(attr, A15_memory_without_an_address)
{
	struct devpool_pool_stat stat;
	struct devpool_empty_cache r;
	char *p = NULL;
	__u64 addr;

	addr = ALLOC(CHUNKS(30));
	if (MEMORY) {
		p = test_map(self->fd, addr, CHUNKS(30));
		EXPECT_EQ(0, test_write(p, 1));
	}
	FREE(addr);
	r = TRIM(KEEP_PHYSICAL, 0);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(0, r.out_kept);
	EXPECT_EQ(0, r.out_live);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, r.out_state);
	stat = STAT();
	EXPECT_EQ(0, stat.out_resident.current);
	EXPECT_EQ(CHUNKS(30), stat.out_spare.current);
	EXPECT_EQ(CHUNKS(30), stat.out_spare.in);
	EXPECT_EQ(CHUNKS(30), stat.out_spare.peak);
	EXPECT_EQ(CHUNKS(30), USED());
	EXPECT_EQ(CHUNKS(30), test_stats(self->fd).out_spare.current);
	EXPECT_EQ(0, test_stats(self->fd).out_resident.current);
	if (MEMORY) {
		EXPECT_EQ(SIGBUS, test_touch(p));
		EXPECT_EQ(SIGBUS, test_touch(p + CHUNKS(30) - 8));
	}
	ALLOC(CHUNKS(30));
	EXPECT_EQ(stat.out_grows, STAT().out_grows);
	stat = STAT();
	EXPECT_EQ(0, stat.out_spare.current);
	EXPECT_EQ(CHUNKS(30), stat.out_spare.out);
	EXPECT_EQ(CHUNKS(30), stat.out_resident.current);
	EXPECT_EQ(0, stat.out_hits);
	EXPECT_EQ(CHUNKS(30), USED());
	EXPECT_POOL_SOUND(stat);
}

TEST_F(attr, A15_kept_in_part)
{
	struct devpool_empty_cache r;

	FREE(ALLOC(CHUNKS(10)));
	r = TRIM(KEEP_PHYSICAL, CHUNKS(4));
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(CHUNKS(4), r.out_kept);
	EXPECT_EQ(CHUNKS(4), RESIDENT());
	EXPECT_EQ(CHUNKS(6), SPARE());
	/* More of them */
	r = TRIM(KEEP_PHYSICAL, CHUNKS(1));
	EXPECT_EQ(CHUNKS(1), r.out_kept);
	EXPECT_EQ(CHUNKS(9), SPARE());
	/* Without the flag all spares go, whatever is kept of the rest. */
	r = TRIM(0, -1ULL);
	EXPECT_EQ(CHUNKS(9), r.out_freed);
	EXPECT_EQ(CHUNKS(1), r.out_kept);
	EXPECT_EQ(0, SPARE());
	EXPECT_EQ(CHUNKS(1), USED());
}

/* What is cached first, then spares, then new ones */
TEST_F(attr, A15_taken_before_new_chunks)
{
	struct devpool_pool_stat stat;
	__u64 addr;

	FREE(ALLOC(CHUNKS(10)));
	TRIM(KEEP_PHYSICAL, CHUNKS(4));
	addr = ALLOC(CHUNKS(4));
	EXPECT_EQ(CHUNKS(6), SPARE());
	EXPECT_EQ(1, STAT().out_hits);
	FREE(addr);
	addr = ALLOC(CHUNKS(5));
	EXPECT_EQ(CHUNKS(5), SPARE());
	FREE(addr);
	ALLOC(CHUNKS(12));
	stat = STAT();
	EXPECT_EQ(0, stat.out_spare.current);
	EXPECT_EQ(CHUNKS(12), stat.out_resident.current);
	EXPECT_EQ(12, stat.out_grows);
	EXPECT_EQ(CHUNKS(12), USED());
	EXPECT_POOL_SOUND(stat);
}

/* A live pool that is named keeps its cache, its addresses too. */
TEST_F(attr, A15_of_a_live_pool_without_trim)
{
	struct devpool_pool_stat before;

	FREE(ALLOC(CHUNKS(4)));
	before = STAT();
	test_empty_cache(self->pool, default_pool, KEEP_PHYSICAL, 0);
	EXPECT_SAME(before, STAT());
	test_empty_cache(self->fd, self->id, KEEP_PHYSICAL, 0);
	EXPECT_SAME(before, STAT());
	test_empty_cache(self->fd, default_pool, KEEP_PHYSICAL, 0);
	EXPECT_SAME(before, STAT());
}

TEST_F(attr, A15_of_the_default_pool)
{
	struct devpool_empty_cache r;

	test_alloc(self->fd, default_pool, CHUNKS(1));
	FREE(test_alloc(self->fd, default_pool, CHUNKS(4)));
	r = test_empty_cache(self->fd, default_pool, KEEP_PHYSICAL, 0);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(CHUNKS(1), r.out_kept);
	EXPECT_EQ(CHUNKS(1), r.out_live);
	EXPECT_EQ(CHUNKS(4), test_pool_stat(self->fd, default_pool).out_spare.current);
	r = test_empty_cache(self->fd, default_pool, 0, 0);
	EXPECT_EQ(CHUNKS(4), r.out_freed);
	EXPECT_EQ(CHUNKS(1), USED());
}

/* Chunks with a live byte keep their address. */
TEST_F(attr, A15_around_live_blocks)
{
	__u64 addr[5];
	char *p = NULL;
	int i;

	for (i = 0; i < 5; i++)
		addr[i] = ALLOC(CHUNKS(1));
	if (MEMORY) {
		p = test_map(self->fd, addr[2], CHUNKS(1));
		test_fill(p, self->chunk, 5);
	}
	for (i = 0; i < 5; i++)
		if (i != 2)
			FREE(addr[i]);
	TRIM(KEEP_PHYSICAL, 0);
	EXPECT_EQ(CHUNKS(1), RESIDENT());
	EXPECT_EQ(CHUNKS(4), SPARE());
	ALLOC(CHUNKS(4));
	EXPECT_EQ(0, SPARE());
	EXPECT_EQ(5, STAT().out_grows);
	if (MEMORY)
		EXPECT_EQ(-1, test_differs(p, self->chunk, 5));
}

/* They go with the pool. */
TEST_F(attr, A15_spares_of_a_pool_that_is_closed)
{
	FREE(ALLOC(CHUNKS(4)));
	TRIM(KEEP_PHYSICAL, 0);
	EXPECT_EQ(CHUNKS(4), USED());
	close(self->pool);
	EXPECT_EQ(0, USED());
	EXPECT_EQ(0, test_stats(self->fd).out_spare.current);
	test_err_pool_stat(ENOENT, self->fd, self->id);
}

/* A pool that flushes itself keeps nothing. */
TEST_F(attr, A15_released_and_kept)
{
	struct devpool_empty_cache r;
	__u64 addr;

	addr = ALLOC(CHUNKS(1));
	FREE(ALLOC(CHUNKS(4)));
	r = test_empty_cache(self->pool, default_pool,
			     DEVPOOL_EMPTY_RELEASE | DEVPOOL_EMPTY_TRIM | KEEP_PHYSICAL, -1ULL);
	EXPECT_EQ(CHUNKS(4), r.out_freed);
	EXPECT_EQ(CHUNKS(1), r.out_kept);
	EXPECT_EQ(CHUNKS(1), USED());
	EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_spare.current);
	FREE(addr);
	EXPECT_EQ(0, USED());
}

/* A freeable pool exists as long as it has a chunk, with an address or without. */
TEST_F(attr, A15_of_a_freeable_pool)
{
	struct devpool_pool_id id = test_pool_id(self->fd, 0);
	struct devpool_empty_cache r;
	__u64 grows;

	test_pool_get(self->fd, id);
	FREE(test_alloc(self->fd, id, CHUNKS(4)));
	test_pool_put(self->fd, id);
	r = test_empty_cache(self->fd, id, KEEP_PHYSICAL, 0);
	EXPECT_EQ(0, r.out_freed);
	EXPECT_EQ(0, r.out_kept);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, r.out_state);
	EXPECT_EQ(CHUNKS(4), test_pool_stat(self->fd, id).out_spare.current);
	EXPECT_EQ(CHUNKS(4), USED());
	grows = test_pool_stat(self->fd, id).out_grows;
	EXPECT_EQ(1, test_pool_get(self->fd, id));
	FREE(test_alloc(self->fd, id, CHUNKS(4)));
	EXPECT_EQ(grows, test_pool_stat(self->fd, id).out_grows);
	test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM | KEEP_PHYSICAL, 0);
	EXPECT_EQ(0, test_pool_put(self->fd, id));
	r = test_empty_cache(self->fd, id, 0, 0);
	EXPECT_EQ(CHUNKS(4), r.out_freed);
	EXPECT_EQ(DEVPOOL_STATE_GONE, r.out_state);
	test_err_pool_stat(ENOENT, self->fd, id);
	EXPECT_EQ(0, USED());
}

TEST_F(attr, A15_of_a_stable_pool)
{
	struct devpool_pool_id id;
	__u64 grows;

	test_pool_create_opts(self->fd, &id, .flags = DEVPOOL_POOL_STABLE);
	FREE(test_alloc(self->fd, id, CHUNKS(4)));
	test_empty_cache(self->fd, id, DEVPOOL_EMPTY_TRIM | KEEP_PHYSICAL, 0);
	EXPECT_EQ(CHUNKS(4), test_pool_stat(self->fd, id).out_spare.current);
	grows = test_pool_stat(self->fd, id).out_grows;
	test_alloc(self->fd, id, CHUNKS(3));
	EXPECT_EQ(grows, test_pool_stat(self->fd, id).out_grows);
	EXPECT_EQ(CHUNKS(1), test_pool_stat(self->fd, id).out_spare.current);
}

/* Stable pools */

FIXTURE(stable)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 chunk;
	int pool;
	int index;
	int fd;
};

FIXTURE_VARIANT(stable)
{
	enum test_kind kind;
};

FIXTURE_VARIANT_ADD(stable, sysmem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(stable, null) { .kind = TEST_NULL };

FIXTURE_SETUP(stable)
{
	test_setup(self, variant->kind);
	self->chunk = self->info.out_chunk;
	self->pool = test_pool_create_opts(self->fd, &self->id, .flags = DEVPOOL_POOL_STABLE);
	test_catch();
}

FIXTURE_TEARDOWN(stable)
{
}

TEST_F(stable, A16_addresses_keep_their_memory)
{
	struct devpool_pool_stat stat;
	char *p[3] = {};
	__u64 addr[3];
	__u64 big;
	int i;

	for (i = 0; i < 3; i++) {
		addr[i] = ALLOC(CHUNKS(10));
		if (MEMORY) {
			p[i] = test_map(self->fd, addr[i], CHUNKS(10));
			test_fill(p[i], self->chunk, i << 24);
		}
	}
	FREE(addr[0]);
	FREE(addr[2]);
	big = ALLOC(CHUNKS(20));
	stat = STAT();
	/* One of the free runs is extended, the other one stays. */
	EXPECT_EQ(CHUNKS(40), stat.out_resident.current);
	EXPECT_EQ(40, stat.out_grows);
	EXPECT_EQ(0, stat.out_recycles);
	for (i = 0; MEMORY && i < 3; i++)
		EXPECT_EQ(-1, test_differs(p[i], self->chunk, i << 24))
			TH_LOG("block %d", i);
	FREE(big);
	EXPECT_EQ(CHUNKS(40), RESIDENT());
	for (i = 0; MEMORY && i < 3; i++)
		EXPECT_EQ(-1, test_differs(p[i], self->chunk, i << 24));
	FREE(addr[1]);
}

TEST_F(stable, a_freed_block_is_reused_where_it_is)
{
	__u64 addr[4];
	int i;

	for (i = 0; i < 4; i++)
		addr[i] = ALLOC(CHUNKS(2 + i));
	for (i = 0; i < 4; i += 2)
		FREE(addr[i]);
	for (i = 0; i < 4; i += 2)
		EXPECT_EQ(addr[i], ALLOC(CHUNKS(2 + i)));
	EXPECT_EQ(CHUNKS(14), RESIDENT());
}

/* No request moves chunks, even if there are no others. */
TEST_F(stable, what_is_cached_elsewhere_is_no_help)
{
	__u64 a, b;

	SET(LIMIT, CHUNKS(12));
	a = ALLOC(CHUNKS(4));
	b = ALLOC(CHUNKS(4));
	ALLOC(CHUNKS(4));
	FREE(a);
	EXPECT_QUOTA(self->fd, self->id, CHUNKS(5));
	EXPECT_EQ(a, ALLOC(CHUNKS(4)));
	FREE(a);
	FREE(b);
	/* Neighbours are one. */
	EXPECT_EQ(a < b ? a : b, ALLOC(CHUNKS(8)));
}

TEST_F(stable, only_a_trim_takes_memory_away)
{
	struct devpool_pool_stat before;
	struct devpool_empty_cache r;
	__u64 live;

	live = ALLOC(CHUNKS(1));
	FREE(ALLOC(CHUNKS(4)));
	before = STAT();
	test_empty_cache(self->fd, default_pool, 0, 0);
	test_empty_cache(self->fd, self->id, 0, 0);
	test_empty_cache(self->pool, default_pool, 0, 0);
	EXPECT_SAME(before, STAT());
	r = TRIM(0, 0);
	EXPECT_EQ(CHUNKS(4), r.out_freed);
	EXPECT_EQ(CHUNKS(1), r.out_kept);
	FREE(live);
}

/* Stable as long as it is live */
TEST_F(stable, its_close_gives_all_back)
{
	__u64 addr;

	addr = ALLOC(CHUNKS(1));
	FREE(ALLOC(CHUNKS(4)));
	close(self->pool);
	EXPECT_EQ(CHUNKS(1), USED());
	FREE(addr);
	EXPECT_EQ(0, USED());
	test_err_pool_stat(ENOENT, self->fd, self->id);
}

/* As few new chunks as the place allows: what lies next to free ones */
TEST_F(stable, a_place_is_where_the_fewest_chunks_are_missing)
{
	__u64 a, b, c;

	a = ALLOC(CHUNKS(4));
	b = ALLOC(CHUNKS(2));
	c = ALLOC(CHUNKS(6));
	FREE(a);
	FREE(c);
	/* At the end of the last one, not beyond it */
	EXPECT_EQ(c, ALLOC(CHUNKS(8)));
	EXPECT_EQ(CHUNKS(14), RESIDENT());
	FREE(b);
	EXPECT_EQ(a, ALLOC(CHUNKS(6)));
	EXPECT_EQ(CHUNKS(14), RESIDENT());
}

/* Pools whose blocks are whole chunks */

FIXTURE(no_split)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 chunk;
	int pool;
	int index;
	int fd;
};

FIXTURE_VARIANT(no_split)
{
	enum test_kind kind;
};

FIXTURE_VARIANT_ADD(no_split, sysmem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(no_split, null) { .kind = TEST_NULL };

FIXTURE_SETUP(no_split)
{
	test_setup(self, variant->kind);
	self->chunk = self->info.out_chunk;
	self->pool = test_pool_create_opts(self->fd, &self->id, .flags = DEVPOOL_POOL_NO_SPLIT);
}

/* Whatever happened, no block shares a chunk with another. */
FIXTURE_TEARDOWN(no_split)
{
	struct devpool_snapshot_entry entry[64];
	int n, i;

	if (self->fd < 0 || devpool_pool_stat_raw(self->fd, self->id,
						  &(struct devpool_pool_stat){}) == -ENOENT)
		return;
	n = test_snapshot(self->fd, self->id, 0, entry, ARRAY_SIZE(entry));
	for (i = 0; i < n; i++) {
		EXPECT_EQ(0, entry[i].addr % self->chunk);
		EXPECT_EQ(0, entry[i].bytes % self->chunk);
	}
	EXPECT_POOL_SOUND(STAT());
}

/* A request and what came of it */
#define WHOLE(wanted, chunks)							\
({										\
	struct devpool_alloc _a = test_alloc_opts(self->fd, .pool = self->id,	\
						  .bytes = (wanted));		\
										\
	EXPECT_EQ(CHUNKS(chunks), _a.out_bytes);				\
	EXPECT_EQ(0, _a.out_addr % self->chunk);				\
	_a.out_addr;								\
})

TEST_F(no_split, A07_a_reused_block_is_whole)
{
	struct devpool_pool_stat stat;
	__u64 a, b, c;

	a = WHOLE(CHUNKS(2), 2);
	b = WHOLE(CHUNKS(2), 2);
	FREE(a);
	FREE(b);
	c = WHOLE(CHUNKS(3) / 2, 2);
	EXPECT_TRUE(c == a || c == b);
	stat = STAT();
	EXPECT_EQ(CHUNKS(2), stat.out_allocated.current);
	EXPECT_EQ(CHUNKS(3) / 2, stat.out_requested.current);
	EXPECT_EQ(CHUNKS(4), stat.out_resident.current);
	EXPECT_EQ(1, stat.out_hits);
	/* And so is the other one. */
	EXPECT_EQ(c == a ? b : a, WHOLE(1, 2));
	EXPECT_EQ(CHUNKS(4), STAT().out_resident.peak);
	WHOLE(1, 1);
	EXPECT_EQ(CHUNKS(5), RESIDENT());
}

TEST_F(no_split, A07_free_blocks_do_not_join)
{
	struct devpool_snapshot_entry entry[8];
	__u64 addr[3];
	int n, i;

	for (i = 0; i < 3; i++)
		addr[i] = WHOLE(CHUNKS(2), 2);
	for (i = 0; i < 3; i++)
		FREE(addr[i]);
	n = test_snapshot(self->fd, self->id, 0, entry, ARRAY_SIZE(entry));
	EXPECT_EQ(3, n);
	for (i = 0; i < n; i++) {
		EXPECT_EQ(CHUNKS(2), entry[i].bytes);
		EXPECT_EQ(DEVPOOL_BLOCK_CACHED, entry[i].state);
	}
	/* Their chunks serve a larger request all the same: they move. */
	WHOLE(CHUNKS(6), 6);
	EXPECT_EQ(CHUNKS(6), STAT().out_resident.peak);
	EXPECT_EQ(0, STAT().out_hits);
}

TEST_F(no_split, A07_small_blocks_share_no_chunk)
{
	__u64 a, b, c;

	a = WHOLE(1, 1);
	b = WHOLE(512, 1);
	c = WHOLE(MIB, round_to(MIB, self->chunk) / self->chunk);
	EXPECT_NE(a / self->chunk, b / self->chunk);
	EXPECT_NE(a / self->chunk, c / self->chunk);
	EXPECT_NE(b / self->chunk, c / self->chunk);
	EXPECT_EQ(3, STAT().out_blocks.current);
	EXPECT_EQ(1 + 512 + MIB, STAT().out_requested.current);
	EXPECT_EQ(RESIDENT(), STAT().out_allocated.current);
	FREE(a);
	EXPECT_EQ(a, WHOLE(5000, 1));
}

TEST_F(no_split, A07_the_smallest_that_fits)
{
	static const int sizes[] = { 8, 4, 6, 4 };
	__u64 addr[ARRAY_SIZE(sizes)];
	__u64 low, high;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		addr[i] = WHOLE(CHUNKS(sizes[i]), sizes[i]);
	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		FREE(addr[i]);
	low = addr[1] < addr[3] ? addr[1] : addr[3];
	high = addr[1] < addr[3] ? addr[3] : addr[1];
	EXPECT_EQ(low, WHOLE(CHUNKS(3), 4));
	EXPECT_EQ(high, WHOLE(1, 4));
	EXPECT_EQ(addr[2], WHOLE(1, 6));
	EXPECT_EQ(addr[0], WHOLE(CHUNKS(7), 8));
	EXPECT_EQ(4, STAT().out_hits);
	EXPECT_EQ(CHUNKS(22), STAT().out_resident.peak);
}

TEST_F(no_split, A07_what_is_kept_is_cut)
{
	struct devpool_empty_cache r;

	FREE(WHOLE(CHUNKS(8), 8));
	r = TRIM(0, CHUNKS(3));
	EXPECT_EQ(CHUNKS(5), r.out_freed);
	EXPECT_EQ(CHUNKS(3), RESIDENT());
	WHOLE(CHUNKS(1), 3);
	SET(THRESHOLD, CHUNKS(2));
	FREE(WHOLE(CHUNKS(5), 5));
	EXPECT_EQ(CHUNKS(5), RESIDENT());
}

/* The last size that can be rounded up to chunks, and the first that cannot */
TEST_F(no_split, A07_sizes_that_overflow)
{
	struct devpool_pool_stat before = STAT();

	test_err_alloc(EINVAL, self->fd, self->id, -self->chunk + 1);
	test_err_alloc(EINVAL, self->fd, self->id, -TEST_PAGE);
	test_err_alloc(EINVAL, self->fd, self->id, -1ULL);
	test_err_alloc(EINVAL, self->fd, self->id, 0);
	EXPECT_SAME(before, STAT());
	test_err_alloc(ENOSPC, self->fd, self->id, -self->chunk);
	test_err_alloc(ENOSPC, self->fd, self->id, self->info.out_bytes + 1);
	WHOLE(CHUNKS(1) + 1, 2);
}

TEST_F(no_split, A07_with_every_alignment)
{
	__u64 align;

	for (align = 1; align <= self->chunk; align *= 2)
		EXPECT_EQ(0, test_alloc_align(self->fd, self->id, 1, align) % self->chunk);
}

TEST_F(no_split, A07_within_a_limit)
{
	__u64 a, b;

	SET(LIMIT, CHUNKS(3));
	a = WHOLE(1, 1);
	b = WHOLE(1, 1);
	WHOLE(1, 1);
	EXPECT_QUOTA(self->fd, self->id, 1);
	FREE(a);
	FREE(b);
	WHOLE(CHUNKS(2), 2);
	EXPECT_QUOTA(self->fd, self->id, 1);
}

/* And stable as well: then nothing is moved, either. */
TEST_F(no_split, A07_and_A16_together)
{
	struct devpool_pool_id id;
	__u64 a, b, c;

	test_pool_create_opts(self->fd, &id, .flags = DEVPOOL_POOL_NO_SPLIT | DEVPOOL_POOL_STABLE);
	a = test_alloc(self->fd, id, CHUNKS(2));
	b = test_alloc(self->fd, id, CHUNKS(2));
	FREE(a);
	FREE(b);
	c = test_alloc(self->fd, id, CHUNKS(4));
	EXPECT_EQ(CHUNKS(8), test_resident(self->fd, id));
	EXPECT_EQ(0, test_pool_stat(self->fd, id).out_recycles);
	EXPECT_NE(a, c);
	EXPECT_NE(b, c);
	FREE(c);
	EXPECT_EQ(a < b ? a : b, test_alloc(self->fd, id, 1));
	EXPECT_EQ(CHUNKS(2), test_pool_stat(self->fd, id).out_allocated.current);
}

/* A device that can be used up */

FIXTURE(scarce)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 chunk;
	__u64 all;
	int pool;
	int index;
	int fd;
};

FIXTURE_SETUP(scarce)
{
	test_setup(self, TEST_SMALL);
	self->chunk = self->info.out_chunk;
	self->all = self->info.out_bytes / self->chunk;
	if (self->info.out_bytes > 256 * MIB || self->all < 16)
		SKIP(return, "no sysmem device is small enough");
	self->pool = test_pool_create(self->fd, &self->id);
}

FIXTURE_TEARDOWN(scarce)
{
}

TEST_F(scarce, the_spares_of_the_default_pool_serve_another)
{
	FREE(test_alloc(self->fd, default_pool, CHUNKS(self->all)));
	test_empty_cache(self->fd, default_pool, KEEP_PHYSICAL, 0);
	EXPECT_EQ(CHUNKS(self->all), USED());
	ALLOC(CHUNKS(4));
	EXPECT_EQ(4, STAT().out_reclaims);
	EXPECT_EQ(CHUNKS(self->all - 4),
		  test_pool_stat(self->fd, default_pool).out_spare.current);
}

TEST_F(scarce, the_spares_of_a_live_pool_serve_nobody_else)
{
	FREE(ALLOC(CHUNKS(self->all)));
	TRIM(KEEP_PHYSICAL, 0);
	test_err_alloc(ENOSPC, self->fd, default_pool, 1);
	EXPECT_EQ(CHUNKS(self->all), SPARE());
	ALLOC(CHUNKS(self->all));
}

TEST_F(scarce, a_stable_pool_moves_nothing)
{
	__u64 addr[4], part = CHUNKS(self->all / 4);
	struct devpool_pool_id id;
	int i;

	close(self->pool);
	test_pool_create_opts(self->fd, &id, .flags = DEVPOOL_POOL_STABLE);
	for (i = 0; i < 4; i++)
		addr[i] = test_alloc(self->fd, id, part);
	FREE(addr[0]);
	FREE(addr[2]);
	test_err_alloc(ENOSPC, self->fd, id, 2 * part);
	test_err_alloc(ENOSPC, self->fd, default_pool, CHUNKS(self->all % 4) + 1);
	EXPECT_EQ(addr[0], test_alloc(self->fd, id, part));
	EXPECT_EQ(addr[2], test_alloc(self->fd, id, part));
	EXPECT_EQ(0, test_pool_stat(self->fd, id).out_recycles);
}

/* Blocks that are zero */

FIXTURE(zero)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 chunk;
	int pool;
	int index;
	int fd;
};

FIXTURE_VARIANT(zero)
{
	__u32 flags;
};

FIXTURE_VARIANT_ADD(zero, plain) { };
FIXTURE_VARIANT_ADD(zero, stable) { .flags = DEVPOOL_POOL_STABLE };
FIXTURE_VARIANT_ADD(zero, no_split) { .flags = DEVPOOL_POOL_NO_SPLIT };

FIXTURE_SETUP(zero)
{
	test_setup(self, TEST_SYSMEM);
	self->chunk = self->info.out_chunk;
	self->pool = test_pool_create_opts(self->fd, &self->id, .flags = variant->flags);
	ASSERT_TRUE(test_wait_clean(self->index));
}

FIXTURE_TEARDOWN(zero)
{
}

/* A block that has to be zero; the answer is the whole command. */
#define ZEROED(wanted)								\
({										\
	struct devpool_alloc _a = test_alloc_opts(self->fd, .pool = self->id,	\
						  .bytes = (wanted),		\
						  .flags = DEVPOOL_ALLOC_ZERO);	\
	void *_m = test_map(self->fd, _a.out_addr, _a.out_bytes);		\
										\
	EXPECT_EQ(-1, test_not_zero(_m, _a.out_bytes))				\
		TH_LOG("%llu bytes", (__u64)(wanted));				\
	test_unmap(_m, _a.out_bytes);						\
	_a;									\
})

/* A block with something in all of it */
#define WRITTEN(wanted)								\
({										\
	struct devpool_alloc _a = test_alloc_opts(self->fd, .pool = self->id,	\
						  .bytes = (wanted));		\
	void *_m = test_map(self->fd, _a.out_addr, _a.out_bytes);		\
										\
	test_fill(_m, _a.out_bytes, _a.out_addr);				\
	test_unmap(_m, _a.out_bytes);						\
	_a;									\
})

#define EXPECT_STILL_WRITTEN(a)							\
do {										\
	const struct devpool_alloc *_a = (a);					\
	void *_m = test_map(self->fd, _a->out_addr, _a->out_bytes);		\
										\
	EXPECT_EQ(-1, test_differs(_m, _a->out_bytes, _a->out_addr));		\
	test_unmap(_m, _a->out_bytes);						\
} while (0)

#define ZEROED_BYTES() (STAT().out_zeroed_bytes)

TEST_F(zero, of_a_used_block)
{
	static const __u64 sizes[] = { 512, 5000, MIB, MIB + 1, 5 * MIB };
	struct devpool_alloc a, b;
	int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		__u64 before = ZEROED_BYTES();

		a = WRITTEN(sizes[i]);
		FREE(a.out_addr);
		b = ZEROED(sizes[i]);
		EXPECT_EQ(a.out_addr, b.out_addr);
		EXPECT_EQ(before + b.out_bytes, ZEROED_BYTES());
		FREE(b.out_addr);
		TRIM(0, 0);
		ASSERT_TRUE(test_wait_clean(self->index));
	}
}

/* Chunks come zeroed: that is not done again. */
TEST_F(zero, of_fresh_memory)
{
	ZEROED(CHUNKS(3));
	EXPECT_EQ(0, ZEROED_BYTES());
	ZEROED(64 * KIB);
	EXPECT_EQ(0, ZEROED_BYTES());
	/* The rest of a chunk that nobody had is fresh, too. */
	ZEROED(64 * KIB);
	EXPECT_EQ(0, ZEROED_BYTES());
	WRITTEN(64 * KIB);
	ZEROED(64 * KIB);
	EXPECT_EQ(0, ZEROED_BYTES());
}

/* Zeroed on its way out of the stock, and then not again */
TEST_F(zero, of_chunks_that_were_dirty)
{
	__u64 before;
	int i;

	for (i = 0; i < 4; i++) {
		FREE(WRITTEN(CHUNKS(4)).out_addr);
		before = ZEROED_BYTES();
		TRIM(0, 0);
		FREE(ZEROED(CHUNKS(4)).out_addr);
		EXPECT_GE(before + CHUNKS(4), ZEROED_BYTES());
		TRIM(0, 0);
	}
}

/* What was handed out may have been written: nobody can tell. */
TEST_F(zero, of_what_was_handed_out)
{
	struct devpool_alloc a;

	a = ZEROED(CHUNKS(2));
	FREE(a.out_addr);
	EXPECT_EQ(a.out_addr, ZEROED(CHUNKS(2)).out_addr);
	EXPECT_EQ(CHUNKS(2), ZEROED_BYTES());
}

/* The block and not a byte more */
TEST_F(zero, leaves_the_neighbours_alone)
{
	struct devpool_alloc a[3];
	int i;

	for (i = 0; i < 3; i++)
		a[i] = WRITTEN(1536);
	FREE(a[1].out_addr);
	EXPECT_EQ(a[1].out_addr, ZEROED(1536).out_addr);
	EXPECT_STILL_WRITTEN(&a[0]);
	EXPECT_STILL_WRITTEN(&a[2]);
	for (i = 0; i < 3; i++)
		a[i] = WRITTEN(CHUNKS(1) + 4096);
	FREE(a[1].out_addr);
	EXPECT_EQ(a[1].out_addr, ZEROED(CHUNKS(1) + 4096).out_addr);
	EXPECT_STILL_WRITTEN(&a[0]);
	EXPECT_STILL_WRITTEN(&a[2]);
}

/* As much as is asked for, not all of what it is taken from */
TEST_F(zero, of_a_part_of_a_used_block)
{
	struct devpool_alloc a, b;
	__u64 before;

	a = WRITTEN(CHUNKS(4));
	FREE(a.out_addr);
	before = ZEROED_BYTES();
	b = ZEROED(MIB + 4096);
	EXPECT_EQ(a.out_addr, b.out_addr);
	EXPECT_EQ(before + b.out_bytes, ZEROED_BYTES());
	/* What is left of it was used as well. */
	ZEROED(MIB + 4096);
	ZEROED(CHUNKS(1));
}

/* What was used and what was not become one free block, from either side. */
TEST_F(zero, of_used_and_fresh_memory_in_one)
{
	struct devpool_alloc a, b, c;
	__u64 before;

	a = WRITTEN(64 * KIB);
	b = WRITTEN(64 * KIB);
	c = WRITTEN(64 * KIB);
	FREE(a.out_addr);
	FREE(c.out_addr);
	/* c and some of what comes behind it, then a */
	FREE(ZEROED(192 * KIB).out_addr);
	ZEROED(64 * KIB);
	FREE(b.out_addr);
	before = ZEROED_BYTES();
	a = ZEROED(MIB);
	EXPECT_GE(before + a.out_bytes, ZEROED_BYTES());
}

/* Chunks that moved, or had no address for a while, bring what is in them. */
TEST_F(zero, of_chunks_that_came_from_elsewhere)
{
	struct devpool_alloc a, b, c;

	a = WRITTEN(CHUNKS(2));
	b = WRITTEN(CHUNKS(2));
	c = WRITTEN(CHUNKS(2));
	FREE(a.out_addr);
	FREE(c.out_addr);
	a = ZEROED(CHUNKS(4));
	EXPECT_STILL_WRITTEN(&b);
	FREE(a.out_addr);
	FREE(b.out_addr);
	FREE(WRITTEN(CHUNKS(4)).out_addr);
	TRIM(KEEP_PHYSICAL, 0);
	EXPECT_LE(CHUNKS(6), SPARE());
	ZEROED(CHUNKS(1));
	ZEROED(64 * KIB);
	ZEROED(64 * KIB);
	ZEROED(CHUNKS(4));
	EXPECT_NE(0, ZEROED_BYTES());
}

/* Without the flag, the pool's own bytes are still there. */
TEST_F(zero, is_not_done_unasked)
{
	struct devpool_alloc a, b;
	char *p;

	a = WRITTEN(CHUNKS(1));
	FREE(a.out_addr);
	b = test_alloc_opts(self->fd, .pool = self->id, .bytes = CHUNKS(1));
	ASSERT_EQ(a.out_addr, b.out_addr);
	p = test_map(self->fd, b.out_addr, b.out_bytes);
	EXPECT_EQ(-1, test_differs(p, b.out_bytes, a.out_addr));
	EXPECT_EQ(0, ZEROED_BYTES());
}

/* Whoever had it mapped sees the same memory, now zero. */
TEST_F(zero, through_a_mapping_that_was_there)
{
	__u64 addr = ALLOC(CHUNKS(2));
	char *p = test_map(self->fd, addr, CHUNKS(2));

	test_fill(p, CHUNKS(2), 1);
	FREE(addr);
	ASSERT_EQ(addr, ZEROED(CHUNKS(2)).out_addr);
	EXPECT_EQ(-1, test_not_zero(p, CHUNKS(2)));
	test_fill(p, CHUNKS(2), 2);
	EXPECT_EQ(-1, test_differs(p, CHUNKS(2), 2));
}

/* An answer that has nowhere to go leaves a free block, which may be zero. */
TEST_F(zero, without_a_place_for_the_answer)
{
	struct devpool_pool_stat before, after;
	struct devpool_alloc *cmd;

	FREE(WRITTEN(CHUNKS(2)).out_addr);
	before = STAT();
	cmd = mmap(NULL, TEST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, cmd);
	*cmd = (struct devpool_alloc){
		.size = sizeof(*cmd),
		.flags = DEVPOOL_ALLOC_ZERO,
		.bytes = CHUNKS(2),
		.pool = self->id,
	};
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->fd, DEVPOOL_IOC_ALLOC, cmd));
	after = STAT();
	EXPECT_EQ(0, memcmp(&before.out_allocated, &after.out_allocated,
			    TEST_COUNTERS * sizeof(struct devpool_counter)));
	ZEROED(CHUNKS(2));
}

struct random_block {
	struct devpool_alloc a;
	__u64 tag;
	char *p;
};

/* Any mixture of all this, the seed printed */
TEST_F_TIMEOUT(zero, A14_random_steps, 120)
{
	unsigned int steps = test_env("DEVPOOL_STEPS", test_times(3000)) / 2;
	struct random_block block[40], *b;
	__u64 random = test_seed();
	unsigned int zeroed = 0;
	unsigned int step, n = 0;
	__u64 r;

	for (step = 0; step < steps; step++) {
		r = test_random(&random);
		b = &block[n];
		if (r % 16 == 0) {
			TRIM(r / 16 % 2 ? KEEP_PHYSICAL : 0, r / 64 % 4 * self->chunk);
			continue;
		}
		if (n && (n == ARRAY_SIZE(block) || r % 2)) {
			b = &block[r / 16 % n];
			ASSERT_EQ(-1, test_differs(b->p, b->a.out_bytes, b->tag))
				TH_LOG("step %u", step);
			test_unmap(b->p, b->a.out_bytes);
			FREE(b->a.out_addr);
			*b = block[--n];
			continue;
		}
		b->a = (struct devpool_alloc){
			.pool = self->id,
			.bytes = 1 + r / 64 % (r / 16 % 8 ? 40 * KIB : 3 * MIB),
			.flags = r / 4 % 4 ? DEVPOOL_ALLOC_ZERO : 0,
		};
		ASSERT_EQ(0, devpool_alloc_opts_raw(self->fd, &b->a));
		b->p = test_map(self->fd, b->a.out_addr, b->a.out_bytes);
		if (b->a.flags) {
			ASSERT_EQ(-1, test_not_zero(b->p, b->a.out_bytes))
				TH_LOG("step %u: %llu bytes", step, b->a.bytes);
			zeroed++;
		}
		b->tag = r;
		test_fill(b->p, b->a.out_bytes, b->tag);
		n++;
	}
	/* Not a test of nothing */
	EXPECT_LT(steps / 8, zeroed);
	EXPECT_NE(0, ZEROED_BYTES());
	EXPECT_POOL_SOUND(STAT());
}

/* On a device without memory it is counted, as all else is. */
TEST_F(attr, ZERO_of_a_used_block)
{
	struct devpool_alloc a;

	if (!(self->info.out_features & DEVPOOL_FEATURE_ZERO)) {
		test_err_alloc_opts(EOPNOTSUPP, self->fd, .pool = self->id, .bytes = 4096,
				    .flags = DEVPOOL_ALLOC_ZERO);
		return;
	}
	FREE(ALLOC(CHUNKS(2)));
	a = test_alloc_opts(self->fd, .pool = self->id, .bytes = CHUNKS(2),
			    .flags = DEVPOOL_ALLOC_ZERO);
	EXPECT_EQ(CHUNKS(2), a.out_bytes);
	EXPECT_EQ(1, STAT().out_hits);
	EXPECT_EQ(CHUNKS(2), STAT().out_zeroed_bytes);
}

/* Blocks that can be shared page by page */

static const struct {
	__u64 wanted;
	__u64 got;
} exportable[] = {
	{ 1, 4096 },
	{ 512, 4096 },
	{ 4095, 4096 },
	{ 4096, 4096 },
	{ 4097, 8192 },
	{ 5000, 8192 },
	{ MIB - 1, MIB },
	{ MIB, MIB },
	{ MIB + 1, MIB + 4096 },
	{ 3 * MIB + 5, 3 * MIB + 4096 },
};

TEST_F(attr, EXPORTABLE_begins_and_ends_on_a_page)
{
	struct devpool_pool_stat before, after;
	struct devpool_alloc a;
	int i;

	for (i = 0; i < ARRAY_SIZE(exportable); i++) {
		/* So that no page begins here by chance */
		ALLOC(512);
		before = STAT();
		a = test_alloc_opts(self->fd, .pool = self->id, .bytes = exportable[i].wanted,
				    .flags = DEVPOOL_ALLOC_EXPORTABLE);
		after = STAT();
		EXPECT_EQ(exportable[i].got, a.out_bytes)
			TH_LOG("%llu bytes", exportable[i].wanted);
		EXPECT_EQ(0, a.out_addr % TEST_PAGE);
		EXPECT_EQ(before.out_allocated.current + exportable[i].got,
			  after.out_allocated.current);
		EXPECT_EQ(before.out_requested.current + exportable[i].wanted,
			  after.out_requested.current);
		/* Nobody else has a part of its pages. */
		EXPECT_NE(a.out_addr / TEST_PAGE, ALLOC(512) / TEST_PAGE);
		EXPECT_NE((a.out_addr + a.out_bytes - 1) / TEST_PAGE, ALLOC(512) / TEST_PAGE);
	}
	EXPECT_POOL_SOUND(STAT());
}

TEST_F(attr, EXPORTABLE_with_an_alignment)
{
	struct devpool_alloc a;
	__u64 align;

	for (align = 1; align <= self->chunk; align *= 2) {
		ALLOC(512);
		a = test_alloc_opts(self->fd, .pool = self->id, .bytes = 1, .align = align,
				    .flags = DEVPOOL_ALLOC_EXPORTABLE);
		EXPECT_EQ(TEST_PAGE, a.out_bytes);
		EXPECT_EQ(0, a.out_addr % (align > TEST_PAGE ? align : TEST_PAGE));
	}
	test_err_alloc_opts(EINVAL, self->fd, .pool = self->id, .bytes = 1, .align = 3,
			    .flags = DEVPOOL_ALLOC_EXPORTABLE);
}

TEST_F(attr, EXPORTABLE_of_sizes_that_overflow)
{
	struct devpool_pool_stat before = STAT();

	test_err_alloc_opts(EINVAL, self->fd, .pool = self->id, .bytes = -TEST_PAGE + 1,
			    .flags = DEVPOOL_ALLOC_EXPORTABLE);
	test_err_alloc_opts(EINVAL, self->fd, .pool = self->id, .bytes = 0,
			    .flags = DEVPOOL_ALLOC_EXPORTABLE);
	EXPECT_SAME(before, STAT());
	test_err_alloc_opts(ENOSPC, self->fd, .pool = self->id, .bytes = -TEST_PAGE,
			    .flags = DEVPOOL_ALLOC_EXPORTABLE);
}

TEST_F(attr, EXPORTABLE_and_zero)
{
	struct devpool_alloc a, b;
	char *p;

	if (!MEMORY)
		return;
	a = test_alloc_opts(self->fd, .pool = self->id, .bytes = 10000,
			    .flags = DEVPOOL_ALLOC_EXPORTABLE);
	p = test_map(self->fd, a.out_addr, a.out_bytes);
	test_fill(p, a.out_bytes, 7);
	FREE(a.out_addr);
	b = test_alloc_opts(self->fd, .pool = self->id, .bytes = 10000,
			    .flags = DEVPOOL_ALLOC_EXPORTABLE | DEVPOOL_ALLOC_ZERO);
	ASSERT_EQ(a.out_addr, b.out_addr);
	/* What it was rounded up by is a part of the block. */
	EXPECT_EQ(12288, b.out_bytes);
	EXPECT_EQ(-1, test_not_zero(p, 12288));
}

TEST_F(attr, EXPORTABLE_in_a_pool_of_whole_chunks)
{
	struct devpool_pool_id id;
	struct devpool_alloc a;

	test_pool_create_opts(self->fd, &id, .flags = DEVPOOL_POOL_NO_SPLIT);
	a = test_alloc_opts(self->fd, .pool = id, .bytes = 1, .flags = DEVPOOL_ALLOC_EXPORTABLE);
	EXPECT_EQ(self->chunk, a.out_bytes);
	EXPECT_EQ(0, a.out_addr % self->chunk);
}

TEST_HARNESS_MAIN
