// SPDX-License-Identifier: GPL-2.0-only
/*
 * The library: what <devpool.h> promises of ids, attributes, attached pools,
 * retained blocks, routes and snapshots, and that it does not believe everything.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "library_test.h"

/*
 * What the kernel answers passes through here, so that a test can have it answer
 * something else.
 */
static int (*answer_instead)(unsigned long request, void *arg);
static void (*refused_to_map)(void);

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;
	int ret;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	ret = syscall(SYS_ioctl, fd, request, arg);
	return ret < 0 || !answer_instead ? ret : answer_instead(request, arg);
}

void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	void *p = (void *)syscall(SYS_mmap, addr, bytes, prot, flags, fd, offset);

	if (p == MAP_FAILED && errno == ENOENT && refused_to_map)
		refused_to_map();
	return p;
}

#define new_client(node)							\
({										\
	struct devpool *_client = NULL;						\
										\
	ASSERT_EQ(0, devpool_open(node, &_client));				\
	_client;								\
})

#define attach(dev, fd)								\
({										\
	struct devpool_pool *_attached = NULL;					\
										\
	ASSERT_EQ(0, devpool_pool_attach(dev, fd, &_attached));			\
	ASSERT_NE(NULL, _attached);						\
	_attached;								\
})

#define close_pool(pool)							\
({										\
	struct devpool_result _result;						\
										\
	memset(&_result, POISON_BYTE, sizeof(_result));				\
	ASSERT_EQ(0, devpool_pool_close(pool, 0, &_result));			\
	EXPECT_EQ(0, _result.__reserved);					\
	_result;								\
})

#define stat_of(pool)								\
({										\
	struct devpool_pool_stat _stat;						\
										\
	ASSERT_EQ(0, devpool_pool_stat(pool, &_stat));				\
	_stat;									\
})

#define pointer_to(dev, addr)							\
({										\
	void *_at = NULL;							\
										\
	ASSERT_EQ(0, devpool_ptr(dev, addr, &_at));				\
	(char *)_at;								\
})

/* A descriptor that is free, hence the same as before if none was leaked */
static int next_fd(void)
{
	int fd = dup(0);

	close(fd);
	return fd;
}

static bool same_id(struct devpool_pool_id a, struct devpool_pool_id b)
{
	return a.first == b.first && a.second == b.second;
}

static int ignore(const struct devpool_snapshot_entry *entry, void *arg)
{
	return 0;
}

/* What is refused */

TEST_F(library, null_arguments_are_einval)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_pool_id id = devpool_pool_id(pool), none = {};
	struct devpool_pool *p = (void *)1;
	uint64_t value = 4711;

	EXPECT_EQ(-EINVAL, devpool_retain(NULL, 4096));
	EXPECT_EQ(-EINVAL, devpool_pool_attach(self->dev, devpool_pool_fd(pool), NULL));
	EXPECT_EQ(-EINVAL, devpool_pool_attach(NULL, devpool_pool_fd(pool), NULL));
	EXPECT_EQ(-EINVAL, devpool_pool_id_new(NULL, 0, &id));
	EXPECT_EQ(-EINVAL, devpool_pool_id_new(self->dev, 0, NULL));
	EXPECT_EQ(-EINVAL, devpool_pool_get(NULL, &id));
	EXPECT_EQ(-EINVAL, devpool_pool_get(self->dev, NULL));
	EXPECT_EQ(-EINVAL, devpool_pool_get(self->dev, &none));
	EXPECT_EQ(-EINVAL, devpool_pool_put(NULL, &id));
	EXPECT_EQ(-EINVAL, devpool_pool_put(self->dev, NULL));
	EXPECT_EQ(-EINVAL, devpool_pool_put(self->dev, &none));
	EXPECT_EQ(-EINVAL, devpool_pool_set(NULL, DEVPOOL_ATTR_LIMIT, 0));
	EXPECT_EQ(-EINVAL, devpool_pool_attr(NULL, DEVPOOL_ATTR_LIMIT, &value));
	EXPECT_EQ(-EINVAL, devpool_pool_attr(pool, DEVPOOL_ATTR_LIMIT, NULL));
	EXPECT_EQ(-EINVAL, devpool_route_begin(NULL, DEVPOOL_SCOPE_ALL, 0));
	EXPECT_EQ(-EINVAL, devpool_route_end(NULL, DEVPOOL_SCOPE_ALL, 0));
	EXPECT_EQ(-EINVAL, devpool_snapshot(NULL, NULL, ignore, NULL));
	EXPECT_EQ(-EINVAL, devpool_snapshot(self->dev, NULL, NULL, NULL));
	EXPECT_EQ(4711, value);
	EXPECT_EQ((void *)1, p);
	EXPECT_EQ(1, stat_of(pool).out_use_count);
}

TEST_F(library, errno_is_never_changed_by_these_either)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *pool = new_pool(other), *attached;
	struct devpool_pool_id id, wrong = { 0, 12345 };
	struct devpool_result result;

	errno = 4711;
	EXPECT_EQ(-EBADF, devpool_pool_attach(self->dev, -1, &attached));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(-EBADF, devpool_pool_attach(NULL, 0, &attached));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(0, devpool_pool_attach(NULL, devpool_pool_fd(pool), &attached));
	EXPECT_EQ(4711, errno);
	*new_block(attached, MIB) = 1;
	EXPECT_EQ(0, devpool_pool_close(attached, 0, &result));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(-ENOENT, devpool_pool_get(self->dev, &wrong));
	EXPECT_EQ(-ENOENT, devpool_pool_put(self->dev, &wrong));
	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_id_new(self->dev, 1U << 31, &id));
	EXPECT_EQ(-ENOENT, devpool_retain(self->dev, 4096));
	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_set(pool, 77, 0));
	EXPECT_EQ(-EOPNOTSUPP, devpool_route_begin(pool, 77, 0));
	EXPECT_EQ(-ENOENT, devpool_snapshot(self->dev, &wrong, ignore, NULL));
	EXPECT_EQ(0, devpool_snapshot(self->dev, NULL, ignore, NULL));
	EXPECT_EQ(4711, errno);
	devpool_close(other);
}

/* Ids and references */

TEST_F(library, ids_are_minted_in_order)
{
	struct devpool_pool_id id[4];

	ASSERT_EQ(0, devpool_pool_id_new(self->dev, 0, &id[0]));
	ASSERT_EQ(0, devpool_pool_id_new(self->dev, DEVPOOL_POOL_ID_CAPTURE, &id[1]));
	ASSERT_EQ(0, devpool_pool_id_new(self->dev, 0, &id[2]));
	id[3] = devpool_pool_id(new_pool(self->dev));
	EXPECT_EQ(0, id[0].first);
	EXPECT_EQ(0, id[1].second);
	EXPECT_EQ(0, id[2].first);
	EXPECT_LT(id[0].second, id[1].first);
	EXPECT_LT(id[1].first, id[2].second);
	EXPECT_LT(id[2].second, id[3].second);
}

TEST_F(library, an_id_that_cannot_be_had_is_left_alone)
{
	struct devpool_pool_id id = { 47, 11 };

	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_id_new(self->dev, 1 << 1, &id));
	EXPECT_EQ(47, id.first);
	EXPECT_EQ(11, id.second);
}

TEST_F(library, get_makes_the_pool_of_a_new_id_and_put_leaves_its_cache)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	uint64_t chunk = self->info.out_chunk;
	struct devpool_result result;
	struct devpool_pool_id id;
	void *ptr;

	ASSERT_EQ(0, devpool_pool_id_new(self->dev, DEVPOOL_POOL_ID_CAPTURE, &id));
	opts.pool = id;
	EXPECT_EQ(-ENOENT, devpool_alloc(self->dev, chunk, &opts, &ptr));
	EXPECT_EQ(-ENOENT, devpool_pool_put(self->dev, &id));
	ASSERT_EQ(0, devpool_pool_get(self->dev, &id));
	ASSERT_EQ(0, devpool_pool_get(self->dev, &id));
	EXPECT_EQ(2, test_use_count(devpool_fd(self->dev), id));
	ASSERT_EQ(0, devpool_alloc(self->dev, chunk, &opts, &ptr));
	memset(ptr, 0x5a, chunk);
	ASSERT_EQ(0, devpool_free(self->dev, ptr));
	ASSERT_EQ(0, devpool_pool_put(self->dev, &id));
	ASSERT_EQ(0, devpool_pool_put(self->dev, &id));
	EXPECT_EQ(-ENOENT, devpool_pool_put(self->dev, &id));

	/* With what it has cached it comes back, and at the end it is given back. */
	ASSERT_EQ(0, devpool_pool_get(self->dev, &id));
	ASSERT_EQ(0, devpool_alloc(self->dev, chunk, &opts, &ptr));
	EXPECT_EQ(0x5a, *(char *)ptr);
	ASSERT_EQ(0, devpool_free(self->dev, ptr));
	ASSERT_EQ(0, devpool_pool_put(self->dev, &id));
	ASSERT_EQ(0, devpool_empty_cache(self->dev, NULL, 0, &result));
	EXPECT_EQ(chunk, result.freed);
	EXPECT_EQ(-ENOENT, devpool_empty_cache(self->dev, &id, 0, &result));
}

TEST_F(library, an_id_that_the_client_does_not_know_is_enoent)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool_id id;

	ASSERT_EQ(0, devpool_pool_id_new(other, 0, &id));
	EXPECT_EQ(-ENOENT, devpool_pool_get(self->dev, &id));
	id = devpool_pool_id(new_pool(other));
	EXPECT_EQ(-ENOENT, devpool_pool_get(self->dev, &id));
	EXPECT_EQ(-ENOENT, devpool_pool_put(self->dev, &id));
	/* A pool file's reference is not this client's to put. */
	EXPECT_EQ(-ENOENT, devpool_pool_put(other, &id));
	devpool_close(other);
}

TEST_F(library, a_pool_is_created_with_an_id_of_ones_own)
{
	struct devpool_pool_opts opts = { .sz = sizeof(opts) };
	struct devpool_pool *pool, *again = (void *)1;

	ASSERT_EQ(0, devpool_pool_id_new(self->dev, 0, &opts.pool));
	ASSERT_EQ(0, devpool_pool_create(self->dev, &opts, &pool));
	EXPECT_TRUE(same_id(opts.pool, devpool_pool_id(pool)));
	EXPECT_EQ(-EBUSY, devpool_pool_create(self->dev, &opts, &again));
	EXPECT_EQ((void *)1, again);
	EXPECT_EQ(DEVPOOL_STATE_GONE, close_pool(pool).state);
	ASSERT_EQ(0, devpool_pool_create(self->dev, &opts, &again));
	EXPECT_TRUE(same_id(opts.pool, devpool_pool_id(again)));
}

TEST_F(library, a_reference_outlives_the_close_of_the_pool)
{
	uint64_t chunk = self->info.out_chunk;
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_pool_id id = devpool_pool_id(pool);
	struct devpool_result result;
	int before = mappings();

	ASSERT_EQ(0, devpool_pool_get(self->dev, &id));
	ASSERT_EQ(0, devpool_free(self->dev, new_block(pool, 3 * chunk)));
	result = close_pool(pool);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, result.state);
	EXPECT_EQ(0, result.freed);
	EXPECT_EQ(3 * chunk, result.kept);
	/* It has had a pool file, so it keeps nothing. */
	ASSERT_EQ(0, devpool_pool_put(self->dev, &id));
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
	/* The mapping goes when there is something to do on mappings again. */
	close_pool(new_pool(self->dev));
	EXPECT_EQ(before, mappings());
}

/* Options and attributes */

TEST_F(library, a_limit_at_create_holds)
{
	uint64_t chunk = self->info.out_chunk, value;
	struct devpool_pool_opts opts = { .sz = sizeof(opts), .limit = 2 * chunk - 1 };
	struct devpool_pool *pool;
	void *ptr = (void *)1;

	ASSERT_EQ(0, devpool_pool_create(self->dev, &opts, &pool));
	ASSERT_EQ(0, devpool_pool_attr(pool, DEVPOOL_ATTR_LIMIT, &value));
	EXPECT_EQ(2 * chunk, value);
	new_block(pool, 2 * chunk);
	EXPECT_EQ(-EDQUOT, alloc_in(pool, 2 * chunk, &ptr));
	EXPECT_EQ((void *)1, ptr);
	ASSERT_EQ(0, devpool_pool_set(pool, DEVPOOL_ATTR_LIMIT, 0));
	ASSERT_EQ(0, alloc_in(pool, 2 * chunk, &ptr));
	ASSERT_EQ(0, devpool_pool_attr(pool, DEVPOOL_ATTR_LIMIT, &value));
	EXPECT_EQ(0, value);
}

TEST_F(library, a_release_threshold_at_create_counts_with_its_flag)
{
	struct devpool_pool_opts opts = { .sz = sizeof(opts), .flags = DEVPOOL_POOL_THRESHOLD };
	uint64_t chunk = self->info.out_chunk, value;
	struct devpool_pool *pool;

	opts.release_threshold = chunk;
	ASSERT_EQ(0, devpool_pool_create(self->dev, &opts, &pool));
	ASSERT_EQ(0, devpool_pool_attr(pool, DEVPOOL_ATTR_RELEASE_THRESHOLD, &value));
	EXPECT_EQ(chunk, value);
	ASSERT_EQ(0, devpool_free(self->dev, new_block(pool, 3 * chunk)));
	EXPECT_EQ(chunk, stat_of(pool).out_resident.current);
	ASSERT_EQ(0, devpool_pool_set(pool, DEVPOOL_ATTR_RELEASE_THRESHOLD, 0));
	EXPECT_EQ(0, stat_of(pool).out_resident.current);

	pool = (void *)1;
	opts.flags = 0;
	EXPECT_EQ(-EINVAL, devpool_pool_create(self->dev, &opts, &pool));
	opts.flags = DEVPOOL_POOL_THRESHOLD | DEVPOOL_POOL_STABLE;
	EXPECT_EQ(-EINVAL, devpool_pool_create(self->dev, &opts, &pool));
	opts.flags = 0;
	opts.release_threshold = 0;
	opts.reserve = 1;
	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_create(self->dev, &opts, &pool));
	EXPECT_EQ((void *)1, pool);
}

TEST_F(library, flags_at_create_reach_the_kernel)
{
	struct devpool_pool_opts opts = { .sz = sizeof(opts), .flags = DEVPOOL_POOL_NO_SPLIT };
	uint64_t chunk = self->info.out_chunk;
	struct devpool_pool *pool;

	ASSERT_EQ(0, devpool_pool_create(self->dev, &opts, &pool));
	new_block(pool, 1);
	EXPECT_EQ(chunk, stat_of(pool).out_allocated.current);

	opts.flags = DEVPOOL_POOL_STABLE;
	ASSERT_EQ(0, devpool_pool_create(self->dev, &opts, &pool));
	EXPECT_EQ(-EINVAL, devpool_pool_set(pool, DEVPOOL_ATTR_RELEASE_THRESHOLD, chunk));
}

TEST_F(library, attributes_that_are_not_known_are_refused)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_pool *attached = attach(self->dev, devpool_pool_fd(pool));
	uint64_t value = 4711;

	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_attr(pool, 2, &value));
	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_attr(attached, UINT32_MAX, &value));
	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_set(pool, 2, 0));
	EXPECT_EQ(-EOPNOTSUPP, devpool_pool_set(attached, UINT32_MAX, 0));
	EXPECT_EQ(-EINVAL, devpool_pool_set(pool, DEVPOOL_ATTR_LIMIT, UINT64_MAX));
	EXPECT_EQ(4711, value);
}

TEST_F(library, attributes_of_a_released_pool_are_enoent)
{
	struct devpool_pool *pool = new_pool(self->dev);
	uint64_t value = 4711;

	test_empty_cache(devpool_pool_fd(pool), default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_EQ(-ENOENT, devpool_pool_attr(pool, DEVPOOL_ATTR_LIMIT, &value));
	EXPECT_EQ(-ENOENT, devpool_pool_set(pool, DEVPOOL_ATTR_LIMIT, 0));
	EXPECT_EQ(4711, value);
}

TEST_F(library, a_zero_block_is_zero_to_its_end)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts), .flags = DEVPOOL_ALLOC_ZERO };
	uint64_t bytes = 3 * MIB;
	struct devpool_pool *pool = new_pool(self->dev);
	void *ptr;
	char *p;

	p = new_block(pool, bytes);
	memset(p, 0x5a, bytes);
	ASSERT_EQ(0, devpool_free(self->dev, p));
	opts.pool = devpool_pool_id(pool);
	ASSERT_EQ(0, devpool_alloc(self->dev, bytes, &opts, &ptr));
	EXPECT_EQ(p, ptr);
	EXPECT_EQ(-1, test_not_zero(ptr, bytes));
	EXPECT_EQ(bytes, stat_of(pool).out_zeroed_bytes);
}

TEST_F(library, an_exportable_block_is_made_of_pages)
{
	struct devpool_alloc_opts opts = {
		.sz = sizeof(opts), .flags = DEVPOOL_ALLOC_EXPORTABLE,
	};
	struct devpool_pool *pool = new_pool(self->dev);
	void *ptr;

	new_block(pool, 512);
	opts.pool = devpool_pool_id(pool);
	ASSERT_EQ(0, devpool_alloc(self->dev, 512, &opts, &ptr));
	EXPECT_EQ(0, addr_of(self->dev, ptr) % TEST_PAGE);
	EXPECT_EQ(512 + TEST_PAGE, stat_of(pool).out_allocated.current);
}

/* Attached pools */

TEST_F(library, attach_takes_nothing_but_a_pool_file_of_its_device)
{
	struct devpool *null = open_null();
	struct devpool_pool *other = new_pool(null), *pool = (void *)1;
	int before, fds[2];

	ASSERT_EQ(0, pipe(fds));
	before = next_fd();
	EXPECT_EQ(-EBADF, devpool_pool_attach(self->dev, -1, &pool));
	EXPECT_EQ(-EBADF, devpool_pool_attach(NULL, -1, &pool));
	EXPECT_EQ(-EBADF, devpool_pool_attach(self->dev, fds[0], &pool));
	EXPECT_EQ(-EBADF, devpool_pool_attach(NULL, fds[0], &pool));
	EXPECT_EQ(-EBADF, devpool_pool_attach(self->dev, devpool_fd(self->dev), &pool));
	EXPECT_EQ(-EBADF, devpool_pool_attach(NULL, devpool_fd(self->dev), &pool));
	EXPECT_EQ(-EINVAL, devpool_pool_attach(self->dev, devpool_pool_fd(other), &pool));
	test_empty_cache(devpool_pool_fd(other), default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_EQ(-ENOENT, devpool_pool_attach(null, devpool_pool_fd(other), &pool));
	EXPECT_EQ(-ENOENT, devpool_pool_attach(NULL, devpool_pool_fd(other), &pool));
	/* None has left a descriptor, a client or a result. */
	EXPECT_EQ(before, next_fd());
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->info.out_index, "clients"));
	EXPECT_EQ((void *)1, pool);
	devpool_close(null);
}

TEST_F(library, attach_without_room_for_a_descriptor_is_emfile)
{
	struct devpool_pool *own = new_pool(self->dev), *pool = (void *)1;
	struct rlimit limit = {};

	limit.rlim_cur = next_fd();
	limit.rlim_max = limit.rlim_cur;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_EQ(-EMFILE, devpool_pool_attach(self->dev, devpool_pool_fd(own), &pool));
	EXPECT_EQ((void *)1, pool);
	EXPECT_EQ(1, stat_of(own).out_use_count);
}

TEST_F(library, the_descriptor_stays_the_callers)
{
	struct devpool_pool *own = new_pool(self->dev), *pool;
	int fd = dup(devpool_pool_fd(own));

	pool = attach(self->dev, fd);
	EXPECT_NE(fd, devpool_pool_fd(pool));
	EXPECT_EQ(FD_CLOEXEC, fcntl(devpool_pool_fd(pool), F_GETFD));
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(2, test_pool_stat(devpool_pool_fd(pool), default_pool).out_use_count);
	fd = devpool_pool_fd(pool);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, close_pool(pool).state);
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
	EXPECT_EQ(1, stat_of(own).out_use_count);
}

TEST_F(library, an_attached_pool_is_the_same_pool)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev);
	struct devpool_pool *pool = attach(other, devpool_pool_fd(own));
	uint64_t chunk = self->info.out_chunk, value;
	struct devpool_pool_stat stat;
	struct devpool_result result;
	char *p;

	EXPECT_EQ(other, devpool_pool_device(pool));
	EXPECT_TRUE(same_id(devpool_pool_id(own), devpool_pool_id(pool)));
	p = new_block(pool, 2 * chunk);
	*p = 7;
	EXPECT_EQ(7, *pointer_to(self->dev, addr_of(other, p)));
	ASSERT_EQ(0, devpool_free(other, new_block(pool, 3 * chunk)));
	stat = stat_of(own);
	EXPECT_EQ(2, stat.out_use_count);
	EXPECT_EQ(2 * chunk, stat.out_allocated.current);
	EXPECT_EQ(5 * chunk, stat.out_resident.current);
	EXPECT_SAME(stat.out_resident, stat_of(pool).out_resident);
	ASSERT_EQ(0, devpool_pool_trim(pool, 4 * chunk, &result));
	EXPECT_EQ(chunk, result.freed);
	EXPECT_EQ(4 * chunk, result.kept);
	EXPECT_EQ(2 * chunk, result.live);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, result.state);
	ASSERT_EQ(0, devpool_pool_set(pool, DEVPOOL_ATTR_LIMIT, 9 * chunk));
	ASSERT_EQ(0, devpool_pool_attr(own, DEVPOOL_ATTR_LIMIT, &value));
	EXPECT_EQ(9 * chunk, value);
	devpool_close(other);
}

TEST_F(library, an_attached_pool_goes_on_when_its_creator_has_closed_it)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev);
	struct devpool_pool *pool = attach(other, devpool_pool_fd(own));
	uint64_t chunk = self->info.out_chunk, value;
	struct devpool_result result;
	char *p;

	ASSERT_EQ(0, devpool_free(self->dev, new_block(own, 3 * chunk)));
	result = close_pool(own);
	EXPECT_EQ(0, result.freed);
	EXPECT_EQ(3 * chunk, result.kept);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, result.state);

	/* Its file is one without a pool, and everything else works. */
	test_err_pool_stat(ENOENT, devpool_pool_fd(pool), default_pool);
	EXPECT_EQ(1, stat_of(pool).out_use_count);
	p = new_block(pool, chunk);
	*p = 1;
	ASSERT_EQ(0, devpool_pool_trim(pool, 0, &result));
	EXPECT_EQ(2 * chunk, result.freed);
	EXPECT_EQ(chunk, result.live);
	ASSERT_EQ(0, devpool_pool_set(pool, DEVPOOL_ATTR_LIMIT, chunk));
	ASSERT_EQ(0, devpool_pool_attr(pool, DEVPOOL_ATTR_LIMIT, &value));
	EXPECT_EQ(chunk, value);
	ASSERT_EQ(0, devpool_route_begin(pool, DEVPOOL_SCOPE_ALL, 0));
	ASSERT_EQ(0, devpool_route_end(pool, DEVPOOL_SCOPE_ALL, 0));
	ASSERT_EQ(0, devpool_free(other, p));
	result = close_pool(pool);
	EXPECT_EQ(chunk, result.freed);
	EXPECT_EQ(DEVPOOL_STATE_GONE, result.state);
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
	devpool_close(other);
}

TEST_F(library, closing_an_attached_pool_leaves_it_to_the_others)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev);
	struct devpool_pool *pool = attach(other, devpool_pool_fd(own));
	uint64_t chunk = self->info.out_chunk;
	struct devpool_result result;
	struct devpool_pool_id id;

	new_block(own, 2 * chunk);
	ASSERT_EQ(0, devpool_free(other, new_block(pool, 3 * chunk)));
	id = devpool_pool_id(pool);
	result = close_pool(pool);
	EXPECT_EQ(0, result.freed);
	EXPECT_EQ(5 * chunk, result.kept);
	EXPECT_EQ(0, result.pending);
	EXPECT_EQ(2 * chunk, result.live);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, result.state);
	/* Who has closed it does not know it any more, and its creator has it whole. */
	EXPECT_EQ(-ENOENT, devpool_pool_get(other, &id));
	EXPECT_EQ(1, stat_of(own).out_use_count);
	EXPECT_EQ(5 * chunk, stat_of(own).out_resident.current);
	EXPECT_EQ(1, test_use_count(devpool_pool_fd(own), default_pool));
	devpool_close(other);
}

TEST_F(library, the_last_close_of_an_attached_pool_reports_what_it_had)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev);
	struct devpool_pool *pool = attach(other, devpool_pool_fd(own));
	uint64_t chunk = self->info.out_chunk;
	struct devpool_result result;

	ASSERT_EQ(0, devpool_free(other, new_block(pool, 3 * chunk)));
	/* Two chunks of it as spares */
	test_empty_cache(devpool_fd(other), devpool_pool_id(pool),
			 DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, chunk);
	EXPECT_EQ(2 * chunk, stat_of(pool).out_spare.current);
	/* As if its creator had died: the duplicate is the last descriptor. */
	close(devpool_pool_fd(own));
	result = close_pool(pool);
	EXPECT_EQ(3 * chunk, result.freed);
	EXPECT_EQ(0, result.kept);
	EXPECT_EQ(0, result.live);
	EXPECT_EQ(DEVPOOL_STATE_GONE, result.state);
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
	devpool_close(other);
}

TEST_F(library, the_last_close_of_an_attached_pool_leaves_blocks_alone)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev);
	struct devpool_pool *pool = attach(other, devpool_pool_fd(own));
	uint64_t chunk = self->info.out_chunk;
	struct devpool_result result;
	char *p;

	p = new_block(pool, 2 * chunk);
	p[2 * chunk - 1] = 7;
	ASSERT_EQ(0, devpool_free(other, new_block(pool, 3 * chunk)));
	close_pool(own);
	result = close_pool(pool);
	EXPECT_EQ(0, result.freed);
	EXPECT_EQ(5 * chunk, result.kept);
	EXPECT_EQ(2 * chunk, result.live);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, result.state);
	EXPECT_EQ(self->base.used + 2 * chunk, devpool_sysfs(self->info.out_index, "used"));
	EXPECT_EQ(7, p[2 * chunk - 1]);
	ASSERT_EQ(0, devpool_free(other, p));
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
	devpool_close(other);
}

TEST_F(library, closing_an_attached_pool_without_its_reference_is_enoent)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev);
	struct devpool_pool *pool = attach(other, devpool_pool_fd(own));
	struct devpool_pool_id id = devpool_pool_id(pool);
	struct devpool_result result = { .freed = 4711 };
	int fd = devpool_pool_fd(pool);

	ASSERT_EQ(0, devpool_pool_put(other, &id));
	EXPECT_EQ(-ENOENT, devpool_pool_close(pool, 0, &result));
	EXPECT_EQ(4711, result.freed);
	EXPECT_EQ(-1, fcntl(fd, F_GETFD));
	devpool_close(other);
}

TEST_F(library, a_pool_is_attached_as_often_as_one_likes)
{
	struct devpool_pool *own = new_pool(self->dev);
	struct devpool_pool *a = attach(self->dev, devpool_pool_fd(own));
	struct devpool_pool *b = attach(self->dev, devpool_pool_fd(a));
	int before = mappings();

	EXPECT_EQ(3, stat_of(own).out_use_count);
	ASSERT_EQ(0, devpool_free(self->dev, new_block(b, MIB)));
	EXPECT_EQ(DEVPOOL_STATE_LIVE, close_pool(a).state);
	EXPECT_EQ(2, stat_of(own).out_use_count);
	/* The creator's close releases its own reference, and b goes on. */
	EXPECT_EQ(DEVPOOL_STATE_LIVE, close_pool(own).state);
	EXPECT_EQ(1, stat_of(b).out_use_count);
	ASSERT_EQ(0, devpool_free(self->dev, new_block(b, MIB)));
	EXPECT_EQ(DEVPOOL_STATE_GONE, close_pool(b).state);
	EXPECT_EQ(before, mappings());
}

TEST_F(library, attach_without_a_client_opens_one)
{
	struct devpool_pool *own = new_pool(self->dev), *pool;
	int before = next_fd(), maps = mappings();
	struct devpool_result result;
	struct devpool_info info;
	char *p;

	pool = attach(NULL, devpool_pool_fd(own));
	EXPECT_NE(self->dev, devpool_pool_device(pool));
	ASSERT_EQ(0, devpool_info(devpool_pool_device(pool), &info));
	EXPECT_EQ(self->info.out_index, info.out_index);
	EXPECT_EQ(self->base.clients + 2, devpool_sysfs(self->info.out_index, "clients"));
	p = new_block(pool, 3 * MIB);
	memset(p, 0x5a, 3 * MIB);
	*new_default_block(devpool_pool_device(pool), 1) = 1;
	result = close_pool(pool);
	EXPECT_EQ(3 * MIB, result.live);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, result.state);
	/* It ends with its blocks. */
	EXPECT_EQ(before, next_fd());
	EXPECT_EQ(maps, mappings());
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->info.out_index, "clients"));
	EXPECT_EQ(0, stat_of(own).out_blocks.current);
}

TEST_F(library, AUTO_closes_an_attached_pool_with_its_client)
{
	struct devpool_pool *own = new_pool(self->dev);

	{
		struct devpool_pool *pool DEVPOOL_POOL_AUTO = NULL;

		ASSERT_EQ(0, devpool_pool_attach(NULL, devpool_pool_fd(own), &pool));
		EXPECT_EQ(2, stat_of(own).out_use_count);
	}
	EXPECT_EQ(1, stat_of(own).out_use_count);
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->info.out_index, "clients"));
}

/* Whichever node it is: here that of a device that is not the first */
TEST_F(library, attach_without_a_client_finds_the_node_by_the_pool)
{
	struct devpool *null = open_null();
	struct devpool_pool *own = new_pool(null), *pool;
	struct devpool_info want, info;

	ASSERT_EQ(0, setenv("DEVPOOL_DEVICE", self->node, 1));
	ASSERT_EQ(0, devpool_info(null, &want));
	pool = attach(NULL, devpool_pool_fd(own));
	ASSERT_EQ(0, devpool_info(devpool_pool_device(pool), &info));
	EXPECT_EQ(want.out_index, info.out_index);
	close_pool(pool);
	devpool_close(null);
}

/* What is mapped of attached pools */

/* With others that wait for their last blocks, and are looked at one by one */
TEST_F(library, closing_an_attached_pool_unmaps_at_once)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev), *pool;
	int before, i;
	uint64_t addr;
	char *p;

	*new_block(own, MIB) = 1;
	for (i = 0; i < 10; i++) {
		pool = new_pool(other);
		new_block(pool, 1000);
		close_pool(pool);
	}
	before = mappings();
	for (i = 0; i < 3; i++) {
		pool = attach(other, devpool_pool_fd(own));
		p = new_block(pool, 1000);
		*p = 1;
		ASSERT_EQ(0, devpool_free(other, p));
		ASSERT_EQ(0, devpool_free(other, new_block(pool, 3 * MIB)));
		EXPECT_EQ(before + 2, mappings());
		close_pool(pool);
		EXPECT_EQ(before, mappings());
		EXPECT_EQ(-ENOENT, devpool_addr(other, p, &addr));
	}
	devpool_close(other);
}

TEST_F(library, a_block_of_an_attached_pool_outlives_its_close)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev);
	struct devpool_pool *pool = attach(other, devpool_pool_fd(own));
	int before = mappings();
	char *p;

	p = new_block(pool, 3 * MIB);
	memset(p, 0x5a, 3 * MIB);
	EXPECT_EQ(DEVPOOL_STATE_LIVE, close_pool(pool).state);
	EXPECT_EQ(before + 1, mappings());
	EXPECT_EQ(0x5a, p[0]);
	p[3 * MIB - 1] = 1;
	ASSERT_EQ(0, devpool_free(other, p));
	/* Now it is not known any more, which the next close finds out. */
	close_pool(new_pool(other));
	EXPECT_EQ(before, mappings());
	devpool_close(other);
}

TEST_F(library, putting_the_last_reference_ends_what_is_mapped)
{
	struct devpool *other = new_client(self->node);
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	struct devpool_pool *own = new_pool(self->dev);
	int before = mappings();
	void *ptr;

	test_pool_attach(devpool_fd(other), devpool_pool_fd(own), &opts.pool);
	ASSERT_EQ(0, devpool_alloc(other, 1000, &opts, &ptr));
	*(char *)ptr = 1;
	ASSERT_EQ(0, devpool_free(other, ptr));
	ASSERT_EQ(0, devpool_pool_put(other, &opts.pool));
	close_pool(new_pool(other));
	EXPECT_EQ(before, mappings());
	devpool_close(other);
}

/* They are mapped without the library knowing whose they are. */
TEST_F(library, blocks_that_a_route_led_to_a_pool_are_unmapped_with_it)
{
	struct devpool_result result;
	struct devpool_pool *pool;
	int i, most = 0, before;
	char *p;

	*new_default_block(self->dev, 3 * MIB) = 1;
	before = mappings();
	for (i = 0; i < 50; i++) {
		pool = new_pool(self->dev);
		ASSERT_EQ(0, devpool_route_begin(pool, DEVPOOL_SCOPE_THREAD, 0));
		p = new_default_block(self->dev, 3 * MIB);
		*p = 1;
		ASSERT_EQ(0, devpool_free(self->dev, p));
		ASSERT_EQ(0, devpool_route_end(pool, DEVPOOL_SCOPE_THREAD, 0));
		result = close_pool(pool);
		EXPECT_EQ(DEVPOOL_STATE_GONE, result.state);
		if (mappings() > most)
			most = mappings();
	}
	EXPECT_GT(before + 5, most);
}

TEST_F(library, a_pool_that_is_created_again_leaves_no_mapping)
{
	struct devpool_pool_opts opts = { .sz = sizeof(opts) };
	struct devpool_pool *pool;
	int i, before = mappings();
	char *p = NULL, *q;

	ASSERT_EQ(0, devpool_pool_id_new(self->dev, 0, &opts.pool));
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, devpool_pool_create(self->dev, &opts, &pool));
		q = new_block(pool, 1000);
		*q = 1;
		/* With the block the pool is there after its close, and gone then. */
		EXPECT_EQ(DEVPOOL_STATE_FREEABLE, close_pool(pool).state);
		ASSERT_EQ(0, devpool_free(self->dev, q));
		p = q;
	}
	EXPECT_NE(NULL, p);
	EXPECT_GT(before + 5, mappings());
}

/* Dma-bufs */

TEST_F(library, a_dma_buf_keeps_its_block)
{
	struct devpool_pool *pool = new_pool(self->dev);
	char *p = new_block(pool, 3 * MIB), *q;
	char *small = new_block(pool, 512);
	int buf, again;

	memset(p, 0x5a, 3 * MIB);
	buf = devpool_export(self->dev, p, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, buf);
	EXPECT_EQ(FD_CLOEXEC, fcntl(buf, F_GETFD));
	again = devpool_export(self->dev, p, O_RDWR);
	ASSERT_LE(0, again);
	close(again);
	EXPECT_EQ(-EBUSY, devpool_export(self->dev, p, O_RDONLY));
	EXPECT_EQ(-EOPNOTSUPP, devpool_export(self->dev, p, O_RDWR | O_APPEND));
	EXPECT_EQ(-EINVAL, devpool_export(self->dev, p, O_ACCMODE));
	EXPECT_EQ(-EINVAL, devpool_export(self->dev, small, O_RDWR));
	EXPECT_EQ(-EINVAL, devpool_export(self->dev, NULL, O_RDWR));
	EXPECT_EQ(-EINVAL, devpool_export(NULL, p, O_RDWR));
	EXPECT_EQ(-ENOENT, devpool_export(self->dev, p + 4096, O_RDWR));
	EXPECT_EQ(-ENOENT, devpool_export(self->dev, &buf, O_RDWR));

	ASSERT_EQ(0, devpool_free(self->dev, small));
	ASSERT_EQ(0, devpool_free(self->dev, p));
	EXPECT_EQ(-ENOENT, devpool_export(self->dev, p, O_RDWR));
	EXPECT_EQ(3 * MIB, close_pool(pool).pending);
	q = mmap(NULL, 3 * MIB, PROT_READ, MAP_SHARED, buf, 0);
	ASSERT_NE(MAP_FAILED, q);
	close(buf);
	EXPECT_EQ(0x5a, q[0]);
	EXPECT_EQ(0x5a, q[3 * MIB - 1]);
	munmap(q, 3 * MIB);
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
}

/* Retained blocks */

/* More than the kernel takes in a call */
TEST_F(library, a_batch_is_run_in_several_calls)
{
	unsigned int max = self->info.out_max_batch, count = 2 * max + 3, i;
	struct devpool_batch_op *ops = calloc(count, sizeof(*ops));
	void *ptr;

	ASSERT_NE(NULL, ops);
	for (i = 0; i < count; i++) {
		ops[i].command = DEVPOOL_CMD_ALLOC;
		ops[i].bytes = 512;
		ops[i].out_err = 1;
	}
	ASSERT_EQ(count, devpool_batch(self->dev, ops, count));
	for (i = 0; i < count; i++)
		ASSERT_EQ(0, ops[i].out_err);
	ASSERT_EQ(0, devpool_ptr(self->dev, ops[count - 1].out_addr, &ptr));
	EXPECT_EQ(0, devpool_free(self->dev, ptr));
	for (i = 0; i < count; i++) {
		ops[i] = (struct devpool_batch_op){
			.command = DEVPOOL_CMD_FREE,
			.addr = ops[i].out_addr,
		};
	}
	ASSERT_EQ(count, devpool_batch(self->dev, ops, count));
	for (i = 0; i < count; i++)
		ASSERT_EQ(i == count - 1 ? -ENOENT : 0, ops[i].out_err);
}

static void on_alarm(int sig)
{
}

/* It goes on where the signals end a call. */
TEST_F(library, a_batch_under_signals)
{
	static struct devpool_batch_op ops[4096];
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = {};
	struct sigaction action = { .sa_handler = on_alarm };
	unsigned int i, round;

	ASSERT_EQ(0, sigaction(SIGALRM, &action, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
	for (round = 0; round < 20; round++) {
		for (i = 0; i < ARRAY_SIZE(ops); i++)
			ops[i] = (struct devpool_batch_op){
				.command = DEVPOOL_CMD_ALLOC,
				.bytes = 512,
			};
		EXPECT_EQ(ARRAY_SIZE(ops), devpool_batch(self->dev, ops, ARRAY_SIZE(ops)));
		for (i = 0; i < ARRAY_SIZE(ops); i++)
			ops[i] = (struct devpool_batch_op){
				.command = DEVPOOL_CMD_FREE,
				.addr = ops[i].out_addr,
			};
		EXPECT_EQ(ARRAY_SIZE(ops), devpool_batch(self->dev, ops, ARRAY_SIZE(ops)));
		for (i = 0; i < ARRAY_SIZE(ops); i++)
			ASSERT_EQ(0, ops[i].out_err);
	}
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &never, NULL));
}

TEST_F(library, a_batch_of_nothing)
{
	struct devpool_batch_op op = { .command = DEVPOOL_CMD_FREE };

	EXPECT_EQ(-EINVAL, devpool_batch(NULL, &op, 1));
	EXPECT_EQ(-EINVAL, devpool_batch(self->dev, NULL, 1));
	EXPECT_EQ(-EINVAL, devpool_batch(self->dev, &op, 0));
	EXPECT_EQ(-EINVAL, devpool_batch(self->dev, &op, ~0U));
	EXPECT_EQ(-EFAULT, devpool_batch(self->dev, (void *)8, 1));
	EXPECT_EQ(1, devpool_batch(self->dev, &op, 1));
	EXPECT_EQ(-ENOENT, op.out_err);
}

TEST_F(library, a_retained_block_lives_on)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev), *pool;
	uint64_t addr;
	char *p, *q;

	p = new_block(own, 3 * MIB);
	memset(p, 0x5a, 3 * MIB);
	addr = addr_of(self->dev, p);
	EXPECT_EQ(-EBUSY, devpool_retain(self->dev, addr));
	EXPECT_EQ(-ENOENT, devpool_retain(other, addr));
	pool = attach(other, devpool_pool_fd(own));
	EXPECT_EQ(-ENOENT, devpool_retain(other, addr + 512));
	EXPECT_EQ(-ENOENT, devpool_retain(other, 0));
	ASSERT_EQ(0, devpool_retain(other, addr));
	EXPECT_EQ(-EBUSY, devpool_retain(other, addr));
	q = pointer_to(other, addr);

	ASSERT_EQ(0, devpool_free(self->dev, p));
	EXPECT_EQ(-ENOENT, devpool_free(self->dev, p));
	EXPECT_EQ(DEVPOOL_STATE_LIVE, close_pool(own).state);
	EXPECT_EQ(DEVPOOL_STATE_FREEABLE, close_pool(pool).state);
	EXPECT_EQ(0x5a, q[0]);
	EXPECT_EQ(0x5a, q[3 * MIB - 1]);
	ASSERT_EQ(0, devpool_free(other, q));
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
	devpool_close(other);
}

/* Routes */

TEST_F(library, a_route_leads_where_it_should)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	struct devpool_pool *a = new_pool(self->dev), *b = new_pool(self->dev);
	void *ptr;

	ASSERT_EQ(0, devpool_route_begin(a, DEVPOOL_SCOPE_ALL, 0));
	EXPECT_EQ(-EBUSY, devpool_route_begin(a, DEVPOOL_SCOPE_ALL, 0));
	EXPECT_EQ(2, stat_of(a).out_use_count);
	ASSERT_EQ(0, devpool_route_begin(b, DEVPOOL_SCOPE_THREAD, 0));
	new_default_block(self->dev, 1);
	EXPECT_EQ(1, stat_of(b).out_blocks.current);
	ASSERT_EQ(0, devpool_route_end(b, DEVPOOL_SCOPE_THREAD, 0));
	ASSERT_EQ(0, devpool_alloc(self->dev, 1, &opts, &ptr));
	EXPECT_EQ(1, stat_of(a).out_blocks.current);
	/* A pool that is named is taken. */
	new_block(b, 1);
	EXPECT_EQ(2, stat_of(b).out_blocks.current);
	ASSERT_EQ(0, devpool_route_end(a, DEVPOOL_SCOPE_ALL, 0));
	EXPECT_EQ(-ENOENT, devpool_route_end(a, DEVPOOL_SCOPE_ALL, 0));
	new_default_block(self->dev, 1);
	EXPECT_EQ(1, test_pool_stat(devpool_fd(self->dev), default_pool).out_blocks.current);
	EXPECT_EQ(1, stat_of(a).out_use_count);
	EXPECT_EQ(1, stat_of(b).out_use_count);
}

static void *allocates_default(void *arg)
{
	void *ptr;

	return devpool_alloc(arg, 1, NULL, &ptr) ? NULL : ptr;
}

TEST_F(library, a_route_of_a_thread_is_of_no_other)
{
	struct devpool_pool *pool = new_pool(self->dev);
	pthread_t thread;
	void *ptr;

	ASSERT_EQ(0, devpool_route_begin(pool, DEVPOOL_SCOPE_THREAD, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, allocates_default, self->dev));
	ASSERT_EQ(0, pthread_join(thread, &ptr));
	ASSERT_NE(NULL, ptr);
	EXPECT_EQ(0, stat_of(pool).out_blocks.current);
	ASSERT_EQ(0, devpool_route_end(pool, DEVPOOL_SCOPE_THREAD, 0));
	ASSERT_EQ(0, devpool_route_begin(pool, DEVPOOL_SCOPE_ALL, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, allocates_default, self->dev));
	ASSERT_EQ(0, pthread_join(thread, &ptr));
	EXPECT_EQ(1, stat_of(pool).out_blocks.current);
}

TEST_F(library, routes_that_are_not_known_are_refused)
{
	struct devpool_pool *pool = new_pool(self->dev);

	EXPECT_EQ(-EOPNOTSUPP, devpool_route_begin(pool, 3, 0));
	EXPECT_EQ(-EINVAL, devpool_route_begin(pool, DEVPOOL_SCOPE_ALL, 1));
	EXPECT_EQ(-EOPNOTSUPP, devpool_route_end(pool, 3, 0));
	EXPECT_EQ(-EINVAL, devpool_route_end(pool, DEVPOOL_SCOPE_ALL, 1));
	EXPECT_EQ(-ENOENT, devpool_route_end(pool, DEVPOOL_SCOPE_ALL, 0));
	EXPECT_EQ(1, stat_of(pool).out_use_count);
}

/* Counters and snapshots */

TEST_F(library, stats_of_the_device_need_an_administrator)
{
	struct devpool *other = new_client(self->node);
	struct devpool_stats stats, mine;

	new_default_block(self->dev, 5 * MIB);
	new_default_block(other, 3 * MIB);
	ASSERT_EQ(0, devpool_stats(self->dev, 0, &mine));
	EXPECT_EQ(5 * MIB, mine.out_allocated.current);
	ASSERT_EQ(0, devpool_stats(self->dev, DEVPOOL_STATS_DEVICE, &stats));
	EXPECT_SAME(stats, test_stats_device(devpool_fd(self->dev)));
	EXPECT_LE(8 * MIB, stats.out_allocated.current);
	ASSERT_EQ(0, test_drop_admin());
	EXPECT_EQ(-EPERM, devpool_stats(self->dev, DEVPOOL_STATS_DEVICE, &stats));
	EXPECT_LE(8 * MIB, stats.out_allocated.current);
	ASSERT_EQ(0, devpool_stats(self->dev, 0, &stats));
	EXPECT_SAME(mine, stats);
	devpool_close(other);
}

struct told {
	struct devpool *dev;
	struct devpool_snapshot_entry entry[8];
	int count;
	int stop_at;
	int answer;
	uint64_t last;
	uint64_t bytes;
	bool disorder;
};

static int tell(const struct devpool_snapshot_entry *entry, void *arg)
{
	struct told *told = arg;

	if (told->count < ARRAY_SIZE(told->entry))
		told->entry[told->count] = *entry;
	told->count++;
	told->bytes += entry->bytes;
	if (entry->addr < told->last)
		told->disorder = true;
	told->last = entry->addr;
	return told->count == told->stop_at ? told->answer : 0;
}

TEST_F(library, a_snapshot_tells_what_there_is)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct devpool_pool_id id = devpool_pool_id(pool), none = {};
	uint64_t chunk = self->info.out_chunk;
	struct told one = {}, all = {}, zero = {};
	int i, found = 0;
	char *p;

	p = new_block(pool, chunk + 1);
	ASSERT_EQ(0, devpool_snapshot(self->dev, &id, tell, &one));
	EXPECT_EQ(2, one.count);
	EXPECT_EQ(addr_of(self->dev, p), one.entry[0].addr);
	EXPECT_EQ(chunk + TEST_PAGE, one.entry[0].bytes);
	EXPECT_EQ(chunk + 1, one.entry[0].requested);
	EXPECT_EQ(DEVPOOL_BLOCK_LIVE, one.entry[0].state);
	EXPECT_TRUE(same_id(id, one.entry[0].pool));
	EXPECT_EQ(DEVPOOL_BLOCK_CACHED, one.entry[1].state);
	EXPECT_EQ(2 * chunk, one.bytes);

	p = new_default_block(self->dev, chunk);
	ASSERT_EQ(0, devpool_snapshot(self->dev, NULL, tell, &all));
	EXPECT_EQ(3, all.count);
	EXPECT_FALSE(all.disorder);
	EXPECT_EQ(3 * chunk, all.bytes);
	for (i = 0; i < all.count; i++)
		found += all.entry[i].addr == addr_of(self->dev, p) &&
			 same_id(none, all.entry[i].pool);
	EXPECT_EQ(1, found);
	ASSERT_EQ(0, devpool_snapshot(self->dev, &none, tell, &zero));
	EXPECT_EQ(3, zero.count);
}

TEST_F(library, a_snapshot_of_nothing_calls_nobody)
{
	struct told told = {};

	EXPECT_EQ(0, devpool_snapshot(self->dev, NULL, tell, &told));
	EXPECT_EQ(0, told.count);
}

TEST_F(library, a_snapshot_of_a_pool_that_is_not_known_is_enoent)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *pool = new_pool(other);
	struct devpool_pool_id id = devpool_pool_id(pool);
	struct told told = {};

	new_block(pool, 1);
	EXPECT_EQ(-ENOENT, devpool_snapshot(self->dev, &id, tell, &told));
	EXPECT_EQ(0, told.count);
	devpool_close(other);
}

TEST_F(library, the_callback_ends_the_snapshot)
{
	struct told told = { .stop_at = 2, .answer = 4711 };
	int i;

	for (i = 0; i < 4; i++)
		new_default_block(self->dev, self->info.out_chunk);
	EXPECT_EQ(4711, devpool_snapshot(self->dev, NULL, tell, &told));
	EXPECT_EQ(2, told.count);
	told = (struct told){ .stop_at = 3, .answer = -EDOM };
	EXPECT_EQ(-EDOM, devpool_snapshot(self->dev, NULL, tell, &told));
	EXPECT_EQ(3, told.count);
	told = (struct told){ .stop_at = 4, .answer = 1 };
	EXPECT_EQ(1, devpool_snapshot(self->dev, NULL, tell, &told));
	EXPECT_EQ(4, told.count);
}

static int frees(const struct devpool_snapshot_entry *entry, void *arg)
{
	struct devpool *dev = arg;
	void *ptr;
	int ret;

	if (entry->state != DEVPOOL_BLOCK_LIVE)
		return 0;
	ret = devpool_ptr(dev, entry->addr, &ptr);
	return ret ? ret : devpool_free(dev, ptr);
}

TEST_F(library, the_callback_may_call_the_library)
{
	struct devpool_stats stats;
	int i;

	for (i = 0; i < 20; i++)
		new_default_block(self->dev, 100000);
	EXPECT_EQ(0, devpool_snapshot(self->dev, NULL, frees, self->dev));
	ASSERT_EQ(0, devpool_stats(self->dev, 0, &stats));
	EXPECT_EQ(0, stats.out_blocks.current);
}

TEST_F(library, a_snapshot_leaves_no_memory_behind)
{
	struct rlimit limit = { .rlim_cur = 512 * MIB, .rlim_max = 512 * MIB };
	enum { TIMES = 20000 };
	struct told told = {};
	int i, ret = 0;

	new_default_block(self->dev, self->info.out_chunk);
	ASSERT_EQ(0, setrlimit(RLIMIT_AS, &limit));
	for (i = 0; i < TIMES && !ret; i++)
		ret = devpool_snapshot(self->dev, NULL, tell, &told);
	EXPECT_EQ(0, ret);
	EXPECT_EQ(TIMES, told.count);
}

/* More than one command tells */
TEST_F_TIMEOUT(library, a_large_snapshot_tells_each_block_once, 60)
{
	enum { BLOCKS = 40000 };
	struct told told = {};
	int i;

	if (self->info.out_bytes < BLOCKS * 512 + 8 * MIB)
		SKIP(return, "the device is too small");
	for (i = 0; i < BLOCKS; i++)
		test_alloc(devpool_fd(self->dev), default_pool, 512);
	ASSERT_EQ(0, devpool_snapshot(self->dev, NULL, tell, &told));
	EXPECT_LE(BLOCKS, told.count);
	EXPECT_GT(BLOCKS + 10, told.count);
	EXPECT_FALSE(told.disorder);
	EXPECT_EQ(test_resident(devpool_fd(self->dev), default_pool), told.bytes);
}

static int commands;
static int commands_before_telling;

static int counts_commands(unsigned long request, void *arg)
{
	commands += request == DEVPOOL_IOC_SNAPSHOT;
	return 0;
}

static int tell_when(const struct devpool_snapshot_entry *entry, void *arg)
{
	struct told *told = arg;

	if (!told->count)
		commands_before_telling = commands;
	return tell(entry, arg);
}

/* What does not fit is not told, but asked for again. */
TEST_F(library, a_snapshot_is_of_one_instant)
{
	struct told told = {};
	int i;

	for (i = 0; i < 2000; i++)
		test_alloc(devpool_fd(self->dev), default_pool, 512);
	answer_instead = counts_commands;
	ASSERT_EQ(0, devpool_snapshot(self->dev, NULL, tell_when, &told));
	EXPECT_EQ(2001, told.count);
	EXPECT_EQ(test_resident(devpool_fd(self->dev), default_pool), told.bytes);
	EXPECT_LT(1, commands);
	EXPECT_EQ(commands, commands_before_telling);
}

/* Answers that make no sense, and calls that a signal interrupts */

static unsigned long lied_about;
static int lies;

static int zero_answer(unsigned long request, void *arg)
{
	if (request != lied_about)
		return 0;
	lies++;
	if (request == DEVPOOL_IOC_ALLOC)
		((struct devpool_alloc *)arg)->out_addr = 0;
	else if (request == DEVPOOL_IOC_POOL_ID)
		((struct devpool_pool_id_new *)arg)->out_pool = default_pool;
	else if (request == DEVPOOL_IOC_POOL_CREATE)
		((struct devpool_pool_create *)arg)->out_pool = default_pool;
	else if (request == DEVPOOL_IOC_POOL_GET)
		((struct devpool_pool_get *)arg)->out_pool = default_pool;
	else if (request == DEVPOOL_IOC_STREAM_CREATE)
		((struct devpool_stream_create *)arg)->out_stream = 0;
	else if (request == DEVPOOL_IOC_STREAM_SUBMIT)
		((struct devpool_stream_submit *)arg)->out_point = 0;
	return 0;
}

TEST_F(library, an_answer_without_a_name_is_eproto)
{
	struct devpool_pool *own = new_pool(self->dev), *pool = (void *)1;
	struct devpool_pool_id id = { 47, 11 };
	void *ptr = (void *)1;
	uint64_t point = 4711;
	uint32_t stream = 47, user;

	ASSERT_EQ(0, devpool_stream_create(self->dev, 0, &user));
	answer_instead = zero_answer;
	lied_about = DEVPOOL_IOC_ALLOC;
	EXPECT_EQ(-EPROTO, devpool_alloc(self->dev, 1, NULL, &ptr));
	lied_about = DEVPOOL_IOC_POOL_ID;
	EXPECT_EQ(-EPROTO, devpool_pool_id_new(self->dev, 0, &id));
	lied_about = DEVPOOL_IOC_POOL_CREATE;
	EXPECT_EQ(-EPROTO, devpool_pool_create(self->dev, NULL, &pool));
	lied_about = DEVPOOL_IOC_POOL_GET;
	EXPECT_EQ(-EPROTO, devpool_pool_attach(self->dev, devpool_pool_fd(own), &pool));
	EXPECT_EQ(-EPROTO, devpool_pool_attach(NULL, devpool_pool_fd(own), &pool));
	lied_about = DEVPOOL_IOC_STREAM_CREATE;
	EXPECT_EQ(-EPROTO, devpool_stream_create(self->dev, 0, &stream));
	lied_about = DEVPOOL_IOC_STREAM_SUBMIT;
	EXPECT_EQ(-EPROTO, devpool_stream_submit(self->dev, user, -1, &point, NULL));
	EXPECT_EQ(7, lies);
	EXPECT_EQ(47, stream);
	EXPECT_EQ(4711, point);
	EXPECT_EQ((void *)1, ptr);
	EXPECT_EQ((void *)1, pool);
	EXPECT_EQ(47, id.first);
}

static int too_many_entries(unsigned long request, void *arg)
{
	if (request == DEVPOOL_IOC_SNAPSHOT)
		((struct devpool_snapshot *)arg)->out_count =
			((struct devpool_snapshot *)arg)->count + 1;
	return 0;
}

static int no_end(unsigned long request, void *arg)
{
	if (request != DEVPOOL_IOC_SNAPSHOT)
		return 0;
	((struct devpool_snapshot *)arg)->out_count = 0;
	((struct devpool_snapshot *)arg)->out_cursor = 4096;
	if (++lies < 100)
		return 0;
	/* So that the test ends in any case */
	errno = ENODEV;
	return -1;
}

static int nothing_done(unsigned long request, void *arg)
{
	if (request == DEVPOOL_IOC_BATCH)
		((struct devpool_batch *)arg)->out_done = 0;
	return 0;
}

static int more_than_there_are(unsigned long request, void *arg)
{
	if (request == DEVPOOL_IOC_BATCH)
		((struct devpool_batch *)arg)->out_done = 2;
	return 0;
}

TEST_F(library, a_batch_believes_no_counts)
{
	struct devpool_batch_op op = { .command = DEVPOOL_CMD_FREE };

	answer_instead = nothing_done;
	EXPECT_EQ(-EPROTO, devpool_batch(self->dev, &op, 1));
	answer_instead = more_than_there_are;
	EXPECT_EQ(-EPROTO, devpool_batch(self->dev, &op, 1));
}

TEST_F(library, a_snapshot_believes_no_counts)
{
	struct told told = {};

	new_default_block(self->dev, 1);
	answer_instead = too_many_entries;
	EXPECT_EQ(-EPROTO, devpool_snapshot(self->dev, NULL, tell, &told));
	answer_instead = no_end;
	EXPECT_EQ(-EPROTO, devpool_snapshot(self->dev, NULL, tell, &told));
	EXPECT_EQ(0, told.count);
}

static int interrupts(unsigned long request, void *arg)
{
	if (request != lied_about || lies++ >= 3)
		return 0;
	errno = EINTR;
	return -1;
}

TEST_F(library, an_interrupted_command_is_started_again)
{
	struct told told = {};

	new_default_block(self->dev, self->info.out_chunk);
	answer_instead = interrupts;
	lied_about = DEVPOOL_IOC_SNAPSHOT;
	errno = 4711;
	EXPECT_EQ(0, devpool_snapshot(self->dev, NULL, tell, &told));
	EXPECT_EQ(4711, errno);
	EXPECT_EQ(4, lies);
	EXPECT_EQ(1, told.count);
}

/* Other processes */

struct message {
	uint64_t addr;
	struct devpool_pool_id id;
};

/* Starts as a stranger would: with a socket. */
static int stranger(int sock)
{
	struct devpool_pool_stat stat;
	struct devpool_result result;
	struct devpool_pool *pool;
	struct message m;
	struct devpool *dev;
	int fd;
	char *p;
	void *ptr;

	fd = test_receive_fd(sock);
	CHILD(fd >= 0);
	CHILD(read(sock, &m, sizeof(m)) == sizeof(m));
	CHILD(!devpool_pool_attach(NULL, fd, &pool));
	close(fd);
	dev = devpool_pool_device(pool);
	CHILD(same_id(m.id, devpool_pool_id(pool)));
	CHILD(!devpool_retain(dev, m.addr));
	CHILD(!devpool_ptr(dev, m.addr, &ptr));
	p = ptr;
	CHILD(p[0] == 0x5a && p[3 * MIB - 1] == 0x5a);
	p[0] = 1;
	/* The other one frees it meanwhile. */
	CHILD(write(sock, "", 1) == 1);
	CHILD(read(sock, &m, 1) == 1);
	CHILD(p[0] == 1 && p[3 * MIB - 1] == 0x5a);
	CHILD(!devpool_free(dev, p));
	CHILD(!alloc_in(pool, 5 * MIB, &ptr));
	*(char *)ptr = 1;
	CHILD(!devpool_pool_stat(pool, &stat) && stat.out_blocks.current == 1);
	CHILD(write(sock, "", 1) == 1);
	CHILD(read(sock, &m, 1) == 1);
	CHILD(!devpool_pool_close(pool, 0, &result));
	CHILD(result.live == 5 * MIB);
	return 0;
}

static pid_t start_stranger(int *sock)
{
	int fds[2], fd;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		return -1;
	fflush(stdout);
	pid = test_fork();
	if (pid) {
		close(fds[1]);
		*sock = fds[0];
		return pid;
	}
	/* Nothing is inherited that would be a share in the parent's client. */
	for (fd = 3; fd < 64; fd++)
		if (fd != fds[1])
			close(fd);
	_exit(stranger(fds[1]));
}

TEST_F(library, a_pool_is_attached_by_another_process)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct message m = { .id = devpool_pool_id(pool) };
	int sock;
	pid_t pid;
	char byte;
	char *p;

	p = new_block(pool, 3 * MIB);
	memset(p, 0x5a, 3 * MIB);
	m.addr = addr_of(self->dev, p);
	pid = start_stranger(&sock);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, test_send_fd(sock, devpool_pool_fd(pool)));
	ASSERT_EQ(sizeof(m), write(sock, &m, sizeof(m)));
	ASSERT_EQ(1, read(sock, &byte, 1));
	EXPECT_EQ(1, p[0]);
	EXPECT_EQ(2, stat_of(pool).out_use_count);
	ASSERT_EQ(0, devpool_free(self->dev, p));
	EXPECT_EQ(1, stat_of(pool).out_blocks.current);
	ASSERT_EQ(1, write(sock, "", 1));
	ASSERT_EQ(1, read(sock, &byte, 1));
	EXPECT_EQ(5 * MIB, stat_of(pool).out_allocated.current);
	ASSERT_EQ(1, write(sock, "", 1));
	EXPECT_EQ(0, test_wait(pid));
	EXPECT_EQ(1, stat_of(pool).out_use_count);
	EXPECT_EQ(0, stat_of(pool).out_blocks.current);
}

TEST_F(library, a_dead_process_leaves_an_attached_pool)
{
	struct devpool_pool *pool = new_pool(self->dev);
	struct message m = { .id = devpool_pool_id(pool) };
	int sock;
	pid_t pid;
	char byte;
	char *p;

	p = new_block(pool, 3 * MIB);
	memset(p, 0x5a, 3 * MIB);
	m.addr = addr_of(self->dev, p);
	pid = start_stranger(&sock);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, test_send_fd(sock, devpool_pool_fd(pool)));
	ASSERT_EQ(sizeof(m), write(sock, &m, sizeof(m)));
	ASSERT_EQ(1, read(sock, &byte, 1));
	EXPECT_EQ(-SIGKILL, test_kill(pid));
	EXPECT_EQ(1, stat_of(pool).out_use_count);
	EXPECT_EQ(0x5a, p[1]);
	ASSERT_EQ(0, devpool_free(self->dev, p));
	EXPECT_EQ(0, stat_of(pool).out_blocks.current);
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->info.out_index, "clients"));
}

static void child_closes(void *arg)
{
	struct devpool_result result;

	CHILD(!devpool_pool_close(arg, 0, &result));
	CHILD(result.state == DEVPOOL_STATE_LIVE);
}

TEST_F(library, a_forked_child_closes_an_attached_pool_for_both)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev);
	struct devpool_pool *pool = attach(other, devpool_pool_fd(own));
	struct devpool_result result;
	char *p;

	p = new_block(pool, 3 * MIB);
	*p = 1;
	EXPECT_EQ(0, in_child(child_closes, pool));
	EXPECT_EQ(1, stat_of(own).out_use_count);
	EXPECT_EQ(1, *p);
	EXPECT_EQ(-ENOENT, devpool_pool_close(pool, 0, &result));
	EXPECT_EQ(1, *p);
	ASSERT_EQ(0, devpool_free(other, p));
	devpool_close(other);
}

TEST_F(library, a_forked_child_ends_its_share_of_a_client_that_attach_opened)
{
	struct devpool_pool *own = new_pool(self->dev), *pool;
	struct devpool_result result;
	char *p;

	pool = attach(NULL, devpool_pool_fd(own));
	p = new_block(pool, 3 * MIB);
	*p = 1;
	EXPECT_EQ(0, in_child(child_closes, pool));
	/* The client lives until both have closed it. */
	EXPECT_EQ(1, *p);
	EXPECT_EQ(self->base.clients + 2, devpool_sysfs(self->info.out_index, "clients"));
	EXPECT_EQ(-ENOENT, devpool_pool_close(pool, 0, &result));
	EXPECT_EQ(self->base.clients + 1, devpool_sysfs(self->info.out_index, "clients"));
	EXPECT_EQ(0, stat_of(own).out_blocks.current);
}

/* Threads */

struct attacher {
	struct devpool *dev;
	int pool_fd;
	uint64_t number;
	int rounds;
	int line;
};

#define ATTACHER(a, cond)							\
do {										\
	if (!(cond)) {								\
		(a)->line = __LINE__;						\
		return NULL;							\
	}									\
} while (0)

static void *attaches(void *arg)
{
	struct attacher *a = arg;
	struct devpool_result result;
	struct devpool_pool *pool;
	uint64_t *p[4], addr;
	void *ptr;
	int i, j;

	for (i = 0; i < a->rounds; i++) {
		ATTACHER(a, !devpool_pool_attach(a->dev, a->pool_fd, &pool));
		for (j = 0; j < ARRAY_SIZE(p); j++) {
			ATTACHER(a, !alloc_in(pool, 300 << 4 * j, &ptr));
			ATTACHER(a, !devpool_addr(a->dev, ptr, &addr));
			p[j] = ptr;
			*p[j] = addr ^ a->number << 56;
		}
		/* In turns, blocks outlive the pool. */
		if (i & 1)
			ATTACHER(a, !devpool_pool_close(pool, 0, &result));
		for (j = 0; j < ARRAY_SIZE(p); j++) {
			ATTACHER(a, !devpool_addr(a->dev, p[j], &addr));
			ATTACHER(a, *p[j] == (addr ^ a->number << 56));
			ATTACHER(a, !devpool_free(a->dev, p[j]));
		}
		if (!(i & 1))
			ATTACHER(a, !devpool_pool_close(pool, 0, &result));
	}
	return a;
}

/*
 * One thread's last close makes the client forget the pool, and its mappings go,
 * while another attaches it anew and gets blocks at the same addresses.
 */
TEST_F_TIMEOUT(library, threads_that_attach_and_forget_one_pool, 120)
{
	enum { THREADS = 4 };
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev);
	struct attacher a[THREADS];
	pthread_t thread[THREADS];
	int i, before = mappings();
	void *ret;

	for (i = 0; i < THREADS; i++) {
		a[i] = (struct attacher){
			.dev = other, .pool_fd = devpool_pool_fd(own), .number = i,
			.rounds = test_times(300),
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, attaches, &a[i]));
	}
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(thread[i], &ret));
		EXPECT_EQ(&a[i], ret)
			TH_LOG("thread %d: line %d", i, a[i].line);
	}
	EXPECT_EQ(1, stat_of(own).out_use_count);
	EXPECT_EQ(0, stat_of(own).out_blocks.current);
	close_pool(new_pool(other));
	EXPECT_GT(before + 5, mappings());
	devpool_close(other);
	EXPECT_EQ(before, mappings());
}

static struct {
	struct devpool *dev;
	int pool_fd;
	sem_t asked;
	sem_t done;
	char *p;
	struct devpool_pool *pool;
} meanwhile;

/* While the answer is on its way, so to speak */
static void wait_for_the_other(void)
{
	struct timespec t;
	int saved = errno;

	refused_to_map = NULL;
	sem_post(&meanwhile.asked);
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += test_slow();
	sem_timedwait(&meanwhile.done, &t);
	errno = saved;
}

static void *attaches_meanwhile(void *arg)
{
	void *ptr;

	sem_wait(&meanwhile.asked);
	if (!devpool_pool_attach(meanwhile.dev, meanwhile.pool_fd, &meanwhile.pool) &&
	    !alloc_in(meanwhile.pool, 1000, &ptr))
		meanwhile.p = ptr;
	sem_post(&meanwhile.done);
	return NULL;
}

/*
 * The same at the worst moment: the kernel has said that the client does not know
 * the pool, and before the mapping goes another thread has it know the pool, and
 * has a block there.
 */
TEST_F(library, a_pool_that_is_attached_while_it_is_forgotten)
{
	struct devpool *other = new_client(self->node);
	struct devpool_pool *own = new_pool(self->dev), *pool;
	pthread_t thread;

	test_catch();
	/* Another block keeps the range. */
	new_block(own, 1000);
	meanwhile.dev = other;
	meanwhile.pool_fd = devpool_pool_fd(own);
	sem_init(&meanwhile.asked, 0, 0);
	sem_init(&meanwhile.done, 0, 0);
	pool = attach(other, devpool_pool_fd(own));
	ASSERT_EQ(0, devpool_free(other, new_block(pool, 1000)));
	ASSERT_EQ(0, pthread_create(&thread, NULL, attaches_meanwhile, NULL));
	refused_to_map = wait_for_the_other;
	close_pool(pool);
	EXPECT_EQ(NULL, refused_to_map);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_NE(NULL, meanwhile.p);
	EXPECT_EQ(0, test_write(meanwhile.p, 1));
	EXPECT_EQ(0, devpool_free(other, meanwhile.p));
	close_pool(meanwhile.pool);
	devpool_close(other);
}

static void *routes(void *arg)
{
	struct attacher *a = arg;
	struct devpool_pool *pool;
	struct devpool_result result;
	uint64_t addr, *p;
	void *ptr;
	int i;

	for (i = 0; i < a->rounds; i++) {
		ATTACHER(a, !devpool_pool_create(a->dev, NULL, &pool));
		ATTACHER(a, !devpool_route_begin(pool, DEVPOOL_SCOPE_THREAD, 0));
		ATTACHER(a, !devpool_alloc(a->dev, 3000, NULL, &ptr));
		p = ptr;
		ATTACHER(a, !devpool_addr(a->dev, p, &addr));
		*p = addr ^ a->number << 56;
		ATTACHER(a, !devpool_route_end(pool, DEVPOOL_SCOPE_THREAD, 0));
		ATTACHER(a, !devpool_pool_close(pool, 0, &result));
		ATTACHER(a, result.live == 3072);
		ATTACHER(a, *p == (addr ^ a->number << 56));
		ATTACHER(a, !devpool_free(a->dev, p));
	}
	return a;
}

TEST_F_TIMEOUT(library, threads_that_lead_to_pools_of_their_own, 120)
{
	enum { THREADS = 4 };
	struct attacher a[THREADS];
	pthread_t thread[THREADS];
	int i, before = mappings();
	void *ret;

	for (i = 0; i < THREADS; i++) {
		a[i] = (struct attacher){
			.dev = self->dev, .number = i, .rounds = test_times(200),
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, routes, &a[i]));
	}
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(thread[i], &ret));
		EXPECT_EQ(&a[i], ret)
			TH_LOG("thread %d: line %d", i, a[i].line);
	}
	EXPECT_EQ(self->base.used, devpool_sysfs(self->info.out_index, "used"));
	/* Each close looks at some. */
	for (i = 0; i < THREADS; i++)
		close_pool(new_pool(self->dev));
	EXPECT_GT(before + 5, mappings());
}

TEST_HARNESS_MAIN
