// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is refused, with which errno, and that it changes nothing: one fault
 * per call, the outputs poisoned before, every counter read again after.
 */
#include <pthread.h>
#include <sys/resource.h>

#include "devpool_test.h"

#define POOLS 5
#define FILES 5
#define ATTRS 2

/* All that a command could change by mistake */
struct world {
	struct devpool_pool_stat stat[POOLS];
	__u64 attr[POOLS][ATTRS];
	struct devpool_stats stats[2];
	struct test_base base;
	char fdinfo[FILES][2048];
	/* the lowest free descriptor */
	int next_fd;
};

/* What commands name */
struct names {
	/* a pool of the client's own, and another client's that it has attached */
	struct devpool_pool_id id, shared;
	/* blocks in these, each its creator's */
	__u64 block, shared_block;
	/* a user stream of the client's, and its last point, which is open */
	__u32 stream;
	__u64 point;
};

/*
 * Two clients, each with a pool that has a live block and a cache; and one more
 * pool of the second, that both know.
 */
#define SCENE									\
	struct devpool_info info;						\
	struct test_base base;							\
	struct names names;							\
	struct devpool_pool_id id, other_id;					\
	int pool, other_pool, shared_pool;					\
	__u64 block, other_block;						\
	int other;								\
	int index;								\
	int fd;									\
	struct world world;							\
	/* two pages, and one that is not there */				\
	char *page

static int lowest_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

#define WORLD(s)								\
({										\
	struct devpool_pool_id _id[POOLS] = {					\
		default_pool, (s)->id,						\
		default_pool, (s)->other_id, (s)->names.shared,			\
	};									\
	int _file[FILES] = {							\
		(s)->fd, (s)->pool, (s)->other, (s)->other_pool, (s)->shared_pool, \
	};									\
	struct world _w = {};							\
	int _i, _j;								\
										\
	for (_i = 0; _i < POOLS; _i++) {					\
		int _of = _i < 2 ? (s)->fd : (s)->other;			\
										\
		_w.stat[_i] = test_pool_stat(_of, _id[_i]);			\
		for (_j = 0; _j < ATTRS; _j++)					\
			_w.attr[_i][_j] = test_pool_get_attr(_of, _id[_i], _j);	\
	}									\
	for (_i = 0; _i < FILES; _i++)						\
		ASSERT_LT(0, test_fdinfo(_file[_i], _w.fdinfo[_i],		\
					 sizeof(_w.fdinfo[_i])));		\
	_w.stats[0] = test_stats((s)->fd);					\
	_w.stats[1] = test_stats((s)->other);					\
	_w.base = test_base((s)->index);					\
	_w.next_fd = lowest_fd();						\
	_w;									\
})

#define EXPECT_WORLD(s)								\
do {										\
	struct world _now = WORLD(s);						\
	int _w;									\
										\
	for (_w = 0; _w < POOLS; _w++) {					\
		EXPECT_SAME((s)->world.stat[_w], _now.stat[_w]);		\
		EXPECT_EQ((s)->world.attr[_w][0], _now.attr[_w][0]);		\
		EXPECT_EQ((s)->world.attr[_w][1], _now.attr[_w][1]);		\
	}									\
	for (_w = 0; _w < 2; _w++)						\
		EXPECT_SAME((s)->world.stats[_w], _now.stats[_w]);		\
	for (_w = 0; _w < FILES; _w++)						\
		EXPECT_STREQ((s)->world.fdinfo[_w], _now.fdinfo[_w]);		\
	EXPECT_SAME((s)->world.base, _now.base);				\
	EXPECT_EQ((s)->world.next_fd, _now.next_fd);				\
} while (0)

#define scene_setup(s, kind)							\
do {										\
	test_setup(s, kind);							\
	(s)->other = test_open((s)->index);					\
	(s)->pool = test_pool_create((s)->fd, &(s)->id);			\
	(s)->other_pool = test_pool_create((s)->other, &(s)->other_id);		\
	(s)->shared_pool = test_pool_create((s)->other, &(s)->names.shared);	\
	test_pool_attach((s)->fd, (s)->shared_pool, &(s)->names.shared);	\
	test_free((s)->fd, test_alloc((s)->fd, default_pool, 8 * KIB));		\
	test_free((s)->fd, test_alloc((s)->fd, (s)->id, 5 * MIB));		\
	test_free((s)->other, test_alloc((s)->other, default_pool, 3 * MIB));	\
	test_free((s)->other, test_alloc((s)->other, (s)->other_id, 3 * MIB));	\
	test_free((s)->other, test_alloc((s)->other, (s)->names.shared, 3 * MIB)); \
	(s)->block = test_alloc((s)->fd, (s)->id, 4 * KIB);			\
	(s)->other_block = test_alloc((s)->other, (s)->other_id, 4 * KIB);	\
	(s)->names.shared_block = test_alloc((s)->other, (s)->names.shared, 4 * KIB); \
	(s)->names.block = (s)->block;						\
	(s)->names.id = (s)->id;						\
	(s)->page = mmap(NULL, 3 * TEST_PAGE, PROT_READ | PROT_WRITE,		\
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);			\
	ASSERT_NE(MAP_FAILED, (s)->page);					\
	munmap((s)->page + 2 * TEST_PAGE, TEST_PAGE);				\
	(s)->world = WORLD(s);							\
} while (0)

/* The matrix: every command on every kind of file */

FIXTURE(command)
{
	SCENE;
};

FIXTURE_VARIANT(command)
{
	unsigned int nr;
	/* of the struct, which is the least a caller may give so far */
	__u32 size;
	/* on a pool file */
	bool on_pool;
	/* not a command of the other kind of file */
	bool only;
	/* has outputs */
	bool answers;
	/* flags that it knows */
	__u32 flags;
	/* offset of the member __reserved, 0 if there is none */
	__u32 reserved;
};

FIXTURE_VARIANT_ADD(command, info)
{
	.nr = DEVPOOL_CMD_INFO,
	.size = sizeof(struct devpool_info),
	.answers = true,
};

FIXTURE_VARIANT_ADD(command, info_on_pool)
{
	.nr = DEVPOOL_CMD_INFO,
	.size = sizeof(struct devpool_info),
	.on_pool = true,
	.answers = true,
};

FIXTURE_VARIANT_ADD(command, alloc)
{
	.nr = DEVPOOL_CMD_ALLOC,
	.size = sizeof(struct devpool_alloc),
	.only = true,
	.answers = true,
	.flags = DEVPOOL_ALLOC_ZERO | DEVPOOL_ALLOC_EXPORTABLE,
	.reserved = offsetof(struct devpool_alloc, __reserved),
};

FIXTURE_VARIANT_ADD(command, free)
{
	.nr = DEVPOOL_CMD_FREE,
	.size = sizeof(struct devpool_free),
	.only = true,
};

FIXTURE_VARIANT_ADD(command, batch)
{
	.nr = DEVPOOL_CMD_BATCH,
	.size = sizeof(struct devpool_batch),
	.only = true,
	.answers = true,
	.reserved = offsetof(struct devpool_batch, __reserved),
};

FIXTURE_VARIANT_ADD(command, retain)
{
	.nr = DEVPOOL_CMD_RETAIN,
	.size = sizeof(struct devpool_retain),
	.only = true,
};

FIXTURE_VARIANT_ADD(command, pool_id)
{
	.nr = DEVPOOL_CMD_POOL_ID,
	.size = sizeof(struct devpool_pool_id_new),
	.only = true,
	.answers = true,
	.flags = DEVPOOL_POOL_ID_CAPTURE,
};

FIXTURE_VARIANT_ADD(command, pool_create)
{
	.nr = DEVPOOL_CMD_POOL_CREATE,
	.size = sizeof(struct devpool_pool_create),
	.only = true,
	.answers = true,
	.flags = DEVPOOL_POOL_STABLE | DEVPOOL_POOL_NO_SPLIT | DEVPOOL_POOL_THRESHOLD,
	.reserved = offsetof(struct devpool_pool_create, __reserved),
};

FIXTURE_VARIANT_ADD(command, pool_get)
{
	.nr = DEVPOOL_CMD_POOL_GET,
	.size = sizeof(struct devpool_pool_get),
	.only = true,
	.answers = true,
	.flags = DEVPOOL_POOL_GET_FD,
};

FIXTURE_VARIANT_ADD(command, pool_put)
{
	.nr = DEVPOOL_CMD_POOL_PUT,
	.size = sizeof(struct devpool_pool_put),
	.only = true,
	.answers = true,
	.reserved = offsetof(struct devpool_pool_put, __reserved),
};

FIXTURE_VARIANT_ADD(command, pool_attr)
{
	.nr = DEVPOOL_CMD_POOL_ATTR,
	.size = sizeof(struct devpool_pool_attr),
	.answers = true,
	.flags = DEVPOOL_POOL_ATTR_SET,
	.reserved = offsetof(struct devpool_pool_attr, __reserved),
};

FIXTURE_VARIANT_ADD(command, pool_attr_on_pool)
{
	.nr = DEVPOOL_CMD_POOL_ATTR,
	.size = sizeof(struct devpool_pool_attr),
	.on_pool = true,
	.answers = true,
	.flags = DEVPOOL_POOL_ATTR_SET,
	.reserved = offsetof(struct devpool_pool_attr, __reserved),
};

FIXTURE_VARIANT_ADD(command, pool_stat)
{
	.nr = DEVPOOL_CMD_POOL_STAT,
	.size = sizeof(struct devpool_pool_stat),
	.answers = true,
};

FIXTURE_VARIANT_ADD(command, pool_stat_on_pool)
{
	.nr = DEVPOOL_CMD_POOL_STAT,
	.size = sizeof(struct devpool_pool_stat),
	.on_pool = true,
	.answers = true,
};

FIXTURE_VARIANT_ADD(command, empty_cache)
{
	.nr = DEVPOOL_CMD_EMPTY_CACHE,
	.size = sizeof(struct devpool_empty_cache),
	.answers = true,
	.flags = DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL | DEVPOOL_EMPTY_RELEASE,
	.reserved = offsetof(struct devpool_empty_cache, __reserved),
};

FIXTURE_VARIANT_ADD(command, empty_cache_on_pool)
{
	.nr = DEVPOOL_CMD_EMPTY_CACHE,
	.size = sizeof(struct devpool_empty_cache),
	.on_pool = true,
	.answers = true,
	.flags = DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL | DEVPOOL_EMPTY_RELEASE,
	.reserved = offsetof(struct devpool_empty_cache, __reserved),
};

FIXTURE_VARIANT_ADD(command, route_begin)
{
	.nr = DEVPOOL_CMD_ROUTE_BEGIN,
	.size = sizeof(struct devpool_route_begin),
	.only = true,
};

FIXTURE_VARIANT_ADD(command, route_end)
{
	.nr = DEVPOOL_CMD_ROUTE_END,
	.size = sizeof(struct devpool_route_end),
	.only = true,
};

FIXTURE_VARIANT_ADD(command, record)
{
	.nr = DEVPOOL_CMD_RECORD,
	.size = sizeof(struct devpool_record),
	.only = true,
	.reserved = offsetof(struct devpool_record, __reserved),
};

FIXTURE_VARIANT_ADD(command, stream_create)
{
	.nr = DEVPOOL_CMD_STREAM_CREATE,
	.size = sizeof(struct devpool_stream_create),
	.only = true,
	.answers = true,
	.flags = DEVPOOL_STREAM_FENCED,
	.reserved = offsetof(struct devpool_stream_create, __reserved),
};

FIXTURE_VARIANT_ADD(command, stream_destroy)
{
	.nr = DEVPOOL_CMD_STREAM_DESTROY,
	.size = sizeof(struct devpool_stream_destroy),
	.only = true,
	.reserved = offsetof(struct devpool_stream_destroy, __reserved),
};

FIXTURE_VARIANT_ADD(command, stream_submit)
{
	.nr = DEVPOOL_CMD_STREAM_SUBMIT,
	.size = sizeof(struct devpool_stream_submit),
	.only = true,
	.answers = true,
	.flags = DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT,
	.reserved = offsetof(struct devpool_stream_submit, __reserved),
};

FIXTURE_VARIANT_ADD(command, stream_signal)
{
	.nr = DEVPOOL_CMD_STREAM_SIGNAL,
	.size = sizeof(struct devpool_stream_signal),
	.only = true,
	.reserved = offsetof(struct devpool_stream_signal, __reserved),
};

FIXTURE_VARIANT_ADD(command, export)
{
	.nr = DEVPOOL_CMD_EXPORT,
	.size = sizeof(struct devpool_export),
	.only = true,
	.answers = true,
};

FIXTURE_VARIANT_ADD(command, stats)
{
	.nr = DEVPOOL_CMD_STATS,
	.size = sizeof(struct devpool_stats),
	.only = true,
	.answers = true,
	.flags = DEVPOOL_STATS_DEVICE,
};

FIXTURE_VARIANT_ADD(command, snapshot)
{
	.nr = DEVPOOL_CMD_SNAPSHOT,
	.size = sizeof(struct devpool_snapshot),
	.only = true,
	.answers = true,
	.flags = DEVPOOL_SNAPSHOT_DEVICE,
};

FIXTURE_VARIANT_ADD(command, limit)
{
	.nr = DEVPOOL_CMD_LIMIT,
	.size = sizeof(struct devpool_limit),
	.only = true,
};

/* What has no memory cannot be exported; all else needs none. */
FIXTURE_SETUP(command)
{
	scene_setup(self, variant->nr == DEVPOOL_CMD_EXPORT ? TEST_SYSMEM : TEST_NULL);
	self->names.stream = test_stream(self->fd, 0);
	self->names.point = test_submit(self->fd, self->names.stream);
	if (variant->nr == DEVPOOL_CMD_ROUTE_END)
		test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_ALL);
	self->world = WORLD(self);
}

FIXTURE_TEARDOWN(command)
{
}

#define CMD _IO(DEVPOOL_TYPE, variant->nr)
#define FD (variant->on_pool ? self->pool : self->fd)

#define FILL_ENTRIES 64

/* A call that works, its outputs poisoned */
static void fill(void *arg, unsigned int nr, __u32 size, const struct names *names)
{
	static const struct devpool_batch_op free_op = { .command = DEVPOOL_CMD_FREE };
	static struct devpool_snapshot_entry entry[FILL_ENTRIES];
	static struct devpool_batch_op op;
	struct devpool_stream_destroy *destroy = arg;
	struct devpool_stream_submit *submit = arg;
	struct devpool_stream_signal *signal = arg;
	struct devpool_stream_create *made = arg;
	struct devpool_pool_create *create = arg;
	struct devpool_record *record = arg;
	struct devpool_empty_cache *empty = arg;
	struct devpool_snapshot *snapshot = arg;
	struct devpool_route_begin *route = arg;
	struct devpool_pool_attr *attr = arg;
	struct devpool_pool_stat *stat = arg;
	struct devpool_export *export = arg;
	struct devpool_retain *retain = arg;
	struct devpool_batch *batch = arg;
	struct devpool_alloc *alloc = arg;
	struct devpool_limit *limit = arg;
	struct devpool_pool_get *get = arg;
	struct devpool_pool_put *put = arg;
	struct devpool_free *free = arg;

	memset(arg, POISON_BYTE, size);
	((__u32 *)arg)[0] = size;
	((__u32 *)arg)[1] = 0;
	switch (nr) {
	case DEVPOOL_CMD_ALLOC:
		memset(arg + 8, 0, offsetof(struct devpool_alloc, out_addr) - 8);
		alloc->bytes = 4096;
		break;
	case DEVPOOL_CMD_FREE:
		free->addr = names->block;
		break;
	case DEVPOOL_CMD_BATCH:
		op = free_op;
		op.addr = names->block;
		batch->ops = (uintptr_t)&op;
		batch->count = 1;
		batch->op_size = sizeof(op);
		batch->__reserved = 0;
		break;
	case DEVPOOL_CMD_RETAIN:
		retain->addr = names->shared_block;
		break;
	case DEVPOOL_CMD_POOL_CREATE:
		memset(arg + 8, 0, offsetof(struct devpool_pool_create, out_pool) - 8);
		create->__reserved = 0;
		break;
	case DEVPOOL_CMD_POOL_GET:
		get->pool = names->id;
		get->fd = 0;
		break;
	case DEVPOOL_CMD_POOL_PUT:
		put->pool = names->shared;
		put->__reserved = 0;
		break;
	case DEVPOOL_CMD_POOL_ATTR:
		attr->flags = DEVPOOL_POOL_ATTR_SET;
		attr->pool = names->id;
		attr->attr = DEVPOOL_ATTR_LIMIT;
		attr->__reserved = 0;
		attr->value = GIB;
		break;
	case DEVPOOL_CMD_POOL_STAT:
		stat->pool = names->id;
		break;
	case DEVPOOL_CMD_EMPTY_CACHE:
		empty->flags = DEVPOOL_EMPTY_TRIM;
		empty->pool = names->id;
		empty->timeout = 0;
		empty->keep = 0;
		empty->__reserved = 0;
		break;
	case DEVPOOL_CMD_ROUTE_BEGIN:
	case DEVPOOL_CMD_ROUTE_END:
		route->pool = names->id;
		route->scope = DEVPOOL_SCOPE_ALL;
		route->stream = 0;
		break;
	case DEVPOOL_CMD_RECORD:
		record->addr = names->block;
		record->stream = names->stream;
		record->__reserved = 0;
		break;
	case DEVPOOL_CMD_STREAM_CREATE:
		made->__reserved = 0;
		break;
	case DEVPOOL_CMD_STREAM_DESTROY:
		destroy->stream = names->stream;
		destroy->__reserved = 0;
		break;
	case DEVPOOL_CMD_STREAM_SUBMIT:
		submit->stream = names->stream;
		submit->in_fence = 0;
		submit->__reserved = 0;
		break;
	case DEVPOOL_CMD_STREAM_SIGNAL:
		signal->stream = names->stream;
		signal->point = names->point;
		signal->__reserved = 0;
		break;
	case DEVPOOL_CMD_EXPORT:
		export->addr = names->block;
		export->fd_flags = O_RDWR | O_CLOEXEC;
		break;
	case DEVPOOL_CMD_SNAPSHOT:
		snapshot->pool = names->id;
		snapshot->cursor = 0;
		snapshot->array = (uintptr_t)entry;
		snapshot->count = FILL_ENTRIES;
		break;
	case DEVPOOL_CMD_LIMIT:
		limit->bytes = GIB;
		break;
	}
}

/* Makes room for one more call that works. */
static void make_ready(int fd, unsigned int nr, struct names *names)
{
	struct devpool_stream_submit submit = { .stream = names->stream };

	switch (nr) {
	case DEVPOOL_CMD_RETAIN:
		devpool_free_raw(fd, names->shared_block);
		break;
	case DEVPOOL_CMD_POOL_PUT:
		devpool_pool_get_raw(fd, names->shared);
		break;
	case DEVPOOL_CMD_ROUTE_BEGIN:
		devpool_route_end_raw(fd, names->id, DEVPOOL_SCOPE_ALL);
		break;
	case DEVPOOL_CMD_ROUTE_END:
		devpool_route_begin_raw(fd, names->id, DEVPOOL_SCOPE_ALL);
		break;
	case DEVPOOL_CMD_STREAM_DESTROY:
		devpool_stream_create_raw(fd, 0, &names->stream);
		break;
	case DEVPOOL_CMD_STREAM_SIGNAL:
		devpool_stream_submit_raw(fd, &submit);
		names->point = submit.out_point;
		break;
	}
}

/* On a pool file no pool is named. */
#define FILL(arg)								\
do {										\
	struct names _names = self->names;					\
										\
	if (variant->on_pool)							\
		_names.id = default_pool;					\
	fill(arg, variant->nr, variant->size, &_names);				\
} while (0)

/* A call that fails: the errno is this one, and its struct is left alone. */
#define EXPECT_REFUSED(err, fd, cmd, arg, bytes)				\
do {										\
	static char _was[2 * TEST_PAGE];					\
	__u64 _bytes = (bytes);							\
	void *_arg = (arg);							\
										\
	memcpy(_was, _arg, _bytes);						\
	EXPECT_EQ(-(err), devpool_raw(fd, cmd, _arg));				\
	EXPECT_EQ(0, memcmp(_was, _arg, _bytes));				\
} while (0)

/* That it is the one fault of each test which makes the call fail */
TEST_F(command, works)
{
	struct devpool_free *arg = (void *)self->page;
	__u32 i, poisoned = 0;

	FILL(arg);
	ASSERT_EQ(0, devpool_raw(FD, CMD, arg));
	EXPECT_EQ(variant->size, arg->size);
	/* Four bytes of poison in a row can be no answer. */
	for (i = 8; i + 4 <= variant->size; i += 4)
		poisoned += *(__u32 *)(self->page + i) == (__u32)POISON;
	EXPECT_EQ(0, poisoned);
}

TEST_F(command, pointer_is_null)
{
	EXPECT_EQ(-EFAULT, devpool_raw(FD, CMD, NULL));
	EXPECT_WORLD(self);
}

TEST_F(command, pointer_to_nothing)
{
	EXPECT_EQ(-EFAULT, devpool_raw(FD, CMD, self->page + 2 * TEST_PAGE));
	EXPECT_WORLD(self);
}

TEST_F(command, pointer_into_the_kernel)
{
	EXPECT_EQ(-EFAULT, devpool_raw(FD, CMD, (void *)0xffff888000000000UL));
	EXPECT_EQ(-EFAULT, devpool_raw(FD, CMD, (void *)-8UL));
	EXPECT_WORLD(self);
}

TEST_F(command, struct_is_cut_off)
{
	char *end = self->page + 2 * TEST_PAGE;
	static char whole[TEST_PAGE];
	__u32 there;

	FILL(whole);
	for (there = 4; there < variant->size; there += 4) {
		memcpy(end - there, whole, there);
		EXPECT_REFUSED(EFAULT, FD, CMD, end - there, there);
	}
	EXPECT_EQ(-EFAULT, devpool_raw(FD, CMD, end - 2));
	EXPECT_WORLD(self);
}

/* The last byte that is read is the last that is there. */
TEST_F(command, struct_ends_with_the_page)
{
	char *end = self->page + 2 * TEST_PAGE;

	FILL(end - variant->size);
	EXPECT_EQ(0, devpool_raw(FD, CMD, end - variant->size));
}

TEST_F(command, size_is_too_small)
{
	__u32 *arg = (void *)self->page;
	__u32 size;

	FILL(arg);
	for (size = 0; size < variant->size; size++) {
		arg[0] = size;
		EXPECT_REFUSED(EINVAL, FD, CMD, arg, variant->size);
	}
	EXPECT_WORLD(self);
}

TEST_F(command, size_is_larger_and_the_rest_is_zero)
{
	static const __u32 more[] = { 1, 4, 8, 100 };
	__u32 *arg = (void *)self->page;
	__u32 size, i;
	pid_t pid;

	for (i = 0; i <= ARRAY_SIZE(more); i++) {
		size = i < ARRAY_SIZE(more) ? variant->size + more[i] : TEST_PAGE;
		self->names.block = test_alloc(self->fd, self->id, 4 * KIB);
		make_ready(self->fd, variant->nr, &self->names);
		FILL(arg);
		memset(self->page + variant->size, 0, 2 * TEST_PAGE - variant->size);
		self->page[size] = 1;
		arg[0] = size;
		pid = test_fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			int ret = devpool_raw(FD, CMD, arg);
			__u32 j;

			if (ret)
				_exit(-ret);
			/* What the kernel does not know it does not write. */
			for (j = variant->size; j < size; j++)
				if (self->page[j])
					_exit(254);
			_exit(self->page[size] != 1 || arg[0] != size ? 253 : 0);
		}
		EXPECT_EQ(0, test_wait(pid))
			TH_LOG("size %u", size);
	}
}

TEST_F(command, size_is_larger_and_the_rest_is_not_zero)
{
	static const __u32 more[] = { 1, 4, 8, 100 };
	__u32 *arg = (void *)self->page;
	__u32 size, i;

	for (i = 0; i <= ARRAY_SIZE(more); i++) {
		size = i < ARRAY_SIZE(more) ? variant->size + more[i] : TEST_PAGE;
		FILL(arg);
		memset(self->page + variant->size, 0, 2 * TEST_PAGE - variant->size);
		arg[0] = size;
		self->page[variant->size] = 1;
		EXPECT_REFUSED(E2BIG, FD, CMD, arg, size);
		self->page[variant->size] = 0;
		self->page[size - 1] = 0x80;
		EXPECT_REFUSED(E2BIG, FD, CMD, arg, size);
	}
	EXPECT_WORLD(self);
}

TEST_F(command, size_is_larger_and_the_rest_is_not_there)
{
	char *end = self->page + 2 * TEST_PAGE;
	__u32 *arg = (void *)(end - variant->size);

	FILL(arg);
	arg[0] = variant->size + 8;
	EXPECT_REFUSED(EFAULT, FD, CMD, arg, variant->size);
	EXPECT_WORLD(self);
}

TEST_F(command, size_is_above_a_page)
{
	static const __u32 sizes[] = {
		TEST_PAGE + 1, TEST_PAGE + 8, 2 * TEST_PAGE, 0x7fffffff, 0x80000000, 0xffffffff,
	};
	__u32 *arg = (void *)self->page;
	int i;

	memset(self->page, 0, 2 * TEST_PAGE);
	FILL(arg);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		arg[0] = sizes[i];
		EXPECT_REFUSED(E2BIG, FD, CMD, arg, 2 * TEST_PAGE);
	}
	EXPECT_WORLD(self);
}

TEST_F(command, each_unknown_flag)
{
	__u32 *arg = (void *)self->page;
	int bit;

	for (bit = 0; bit < 32; bit++) {
		if (variant->flags & 1U << bit)
			continue;
		FILL(arg);
		arg[1] |= 1U << bit;
		EXPECT_REFUSED(EOPNOTSUPP, FD, CMD, arg, variant->size);
		if (_metadata->exit_code)
			TH_LOG("bit %d", bit);
	}
	EXPECT_WORLD(self);
}

TEST_F(command, reserved_is_not_zero)
{
	__u32 *arg = (void *)self->page;
	int bit;

	if (!variant->reserved)
		return;
	for (bit = 0; bit < 32; bit++) {
		FILL(arg);
		arg[variant->reserved / 4] = 1U << bit;
		EXPECT_REFUSED(EINVAL, FD, CMD, arg, variant->size);
	}
	EXPECT_WORLD(self);
}

/* The six counters of all, but not what is a count of events. */
static void forget_events(struct world *w)
{
	int i;

	for (i = 0; i < POOLS; i++)
		memset(&w->stat[i].out_hits, 0, TEST_EVENTS * sizeof(__u64));
	for (i = 0; i < 2; i++)
		memset(&w->stats[i].out_hits, 0, TEST_EVENTS * sizeof(__u64));
	memset(w->fdinfo, 0, sizeof(w->fdinfo));
}

/*
 * There is no room for the answer: nothing is changed. EMPTY_CACHE and POOL_PUT
 * have done what they were told; some have nothing to answer.
 */
TEST_F(command, struct_is_read_only)
{
	struct world now;

	FILL(self->page);
	ASSERT_EQ(0, mprotect(self->page, TEST_PAGE, PROT_READ));
	EXPECT_EQ(variant->answers ? -EFAULT : 0, devpool_raw(FD, CMD, self->page));
	switch (variant->nr) {
	case DEVPOOL_CMD_FREE:
		EXPECT_EQ(0, test_pool_stat(self->fd, self->id).out_blocks.current);
		return;
	case DEVPOOL_CMD_RETAIN:
		test_free(self->fd, self->names.shared_block);
		return;
	case DEVPOOL_CMD_ROUTE_BEGIN:
		EXPECT_EQ(2, test_use_count(self->fd, self->id));
		return;
	case DEVPOOL_CMD_ROUTE_END:
		EXPECT_EQ(1, test_use_count(self->fd, self->id));
		return;
	case DEVPOOL_CMD_LIMIT:
		EXPECT_EQ(GIB, test_fdinfo_number(self->fd, "limit"));
		return;
	case DEVPOOL_CMD_RECORD:
		test_free(self->fd, self->names.block);
		EXPECT_EQ(4 * KIB, test_pool_stat(self->fd, self->id).out_active.current);
		return;
	case DEVPOOL_CMD_STREAM_DESTROY:
		test_err_stream_destroy(ENOENT, self->fd, self->names.stream);
		return;
	case DEVPOOL_CMD_STREAM_SIGNAL:
		test_err_signal(EINVAL, self->fd, self->names.stream, self->names.point);
		return;
	case DEVPOOL_CMD_EMPTY_CACHE:
		EXPECT_EQ(self->info.out_chunk, test_resident(self->fd, self->id));
		return;
	case DEVPOOL_CMD_POOL_PUT:
		EXPECT_EQ(1, test_use_count(self->other, self->names.shared));
		test_err_pool_stat(ENOENT, self->fd, self->names.shared);
		return;
	}
	ASSERT_TRUE(variant->answers);
	now = WORLD(self);
	forget_events(&now);
	forget_events(&self->world);
	EXPECT_SAME(self->world, now);
}

TEST_F(command, on_the_other_kind_of_file)
{
	int fd = variant->on_pool ? self->fd : self->pool;

	if (!variant->only)
		return;
	FILL(self->page);
	EXPECT_REFUSED(ENOTTY, fd, CMD, self->page, variant->size);
	EXPECT_EQ(-ENOTTY, devpool_raw(fd, CMD, NULL));
	EXPECT_WORLD(self);
}

TEST_F(command, on_a_file_of_another_kind)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int path = devpool_open_node_flags(self->index, O_PATH | O_CLOEXEC);

	ASSERT_LE(0, null);
	ASSERT_LE(0, path);
	FILL(self->page);
	EXPECT_REFUSED(ENOTTY, null, CMD, self->page, variant->size);
	EXPECT_REFUSED(EBADF, path, CMD, self->page, variant->size);
	close(null);
	close(path);
	EXPECT_WORLD(self);
}

/* Plain _IO() is the number: one with a size or a direction is another. */
TEST_F(command, number_with_a_size_or_direction)
{
	unsigned int nr = variant->nr;

	FILL(self->page);
	EXPECT_REFUSED(ENOTTY, FD, _IOC(_IOC_READ, DEVPOOL_TYPE, nr, 0), self->page,
		       variant->size);
	EXPECT_REFUSED(ENOTTY, FD, _IOC(_IOC_WRITE, DEVPOOL_TYPE, nr, 0), self->page,
		       variant->size);
	EXPECT_REFUSED(ENOTTY, FD, _IOC(_IOC_NONE, DEVPOOL_TYPE, nr, variant->size),
		       self->page, variant->size);
	EXPECT_REFUSED(ENOTTY, FD, _IOC(_IOC_READ | _IOC_WRITE, DEVPOOL_TYPE, nr, variant->size),
		       self->page, variant->size);
	EXPECT_REFUSED(ENOTTY, FD, _IO(DEVPOOL_TYPE + 1, nr), self->page, variant->size);
	EXPECT_REFUSED(ENOTTY, FD, _IO(DEVPOOL_TYPE - 1, nr), self->page, variant->size);
	EXPECT_WORLD(self);
}

TEST_F(command, after_close)
{
	int fd = dup(FD);

	close(fd);
	FILL(self->page);
	EXPECT_REFUSED(EBADF, fd, CMD, self->page, variant->size);
	EXPECT_REFUSED(EBADF, -1, CMD, self->page, variant->size);
	EXPECT_WORLD(self);
}

TEST_F(command, after_release)
{
	if (!variant->on_pool)
		return;
	test_empty_cache(self->pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	FILL(self->page);
	EXPECT_REFUSED(ENOENT, FD, CMD, self->page, variant->size);
}

TEST_F(command, in_a_child)
{
	pid_t pid;

	FILL(self->page);
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(-devpool_raw(FD, CMD, self->page));
	EXPECT_EQ(0, test_wait(pid));
}

TEST_F(command, on_a_file_that_was_passed_on)
{
	int sock[2];
	int fd;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	ASSERT_EQ(0, test_send_fd(sock[1], FD));
	fd = test_receive_fd(sock[0]);
	ASSERT_LE(0, fd);
	FILL(self->page);
	EXPECT_EQ(0, devpool_raw(fd, CMD, self->page));
}

/* The file goes while another thread is at work on it. */
struct destroyed {
	struct names names;
	unsigned int nr;
	__u32 size;
	int wrong;
	int calls;
	int fd;
};

static void *use_until_closed(void *p)
{
	static __u64 arg[512];
	struct devpool_stream_create *made = (void *)arg;
	struct destroyed *d = p;
	int ret;

	for (;;) {
		make_ready(d->fd, d->nr, &d->names);
		fill(arg, d->nr, d->size, &d->names);
		ret = devpool_raw(d->fd, _IO(DEVPOOL_TYPE, d->nr), arg);
		__atomic_add_fetch(&d->calls, 1, __ATOMIC_RELAXED);
		if (ret == -EBADF)
			return NULL;
		if (!ret && d->nr == DEVPOOL_CMD_POOL_CREATE)
			close(((struct devpool_pool_create *)arg)->out_fd);
		if (!ret && d->nr == DEVPOOL_CMD_STREAM_CREATE)
			devpool_stream_destroy_raw(d->fd, made->out_stream);
		/* FREE and RETAIN find nothing; a pool may have been released. */
		if (ret && ret != -ENOENT && ret != -ENOSPC)
			d->wrong = ret;
	}
}

TEST_F(command, while_the_file_is_closed)
{
	struct destroyed d = { .nr = variant->nr, .size = variant->size };
	struct devpool_pool_id id = {};
	pthread_t thread;
	int fd, pool;
	int i;

	for (i = 0; i < 8; i++) {
		d.calls = 0;
		fd = test_open(self->index);
		pool = test_pool_create(fd, &id);
		test_free(fd, test_alloc(fd, id, 4 * MIB));
		d.fd = variant->on_pool ? pool : fd;
		d.names.stream = test_stream(fd, 0);
		d.names.id = variant->on_pool ? default_pool : id;
		d.names.shared = id;
		ASSERT_EQ(0, pthread_create(&thread, NULL, use_until_closed, &d));
		while (!__atomic_load_n(&d.calls, __ATOMIC_RELAXED))
			sched_yield();
		if (i % 2 && variant->on_pool)
			test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
		close(d.fd);
		ASSERT_EQ(0, pthread_join(thread, NULL));
		EXPECT_EQ(0, d.wrong);
		close(variant->on_pool ? fd : pool);
	}
	EXPECT_WORLD(self);
}

/* Single commands */

FIXTURE(refused)
{
	SCENE;
};

FIXTURE_SETUP(refused)
{
	scene_setup(self, TEST_NULL);
}

FIXTURE_TEARDOWN(refused)
{
}

/* Those of later steps, too: they are absent, not faked. */
TEST_F(refused, every_number_that_is_none)
{
	static const unsigned int on_device[] = {
		DEVPOOL_CMD_INFO, DEVPOOL_CMD_ALLOC, DEVPOOL_CMD_FREE, DEVPOOL_CMD_BATCH,
		DEVPOOL_CMD_RETAIN, DEVPOOL_CMD_RECORD, DEVPOOL_CMD_POOL_ID,
		DEVPOOL_CMD_POOL_CREATE, DEVPOOL_CMD_POOL_GET,
		DEVPOOL_CMD_POOL_PUT, DEVPOOL_CMD_POOL_ATTR, DEVPOOL_CMD_POOL_STAT,
		DEVPOOL_CMD_EMPTY_CACHE, DEVPOOL_CMD_ROUTE_BEGIN, DEVPOOL_CMD_ROUTE_END,
		DEVPOOL_CMD_STREAM_CREATE, DEVPOOL_CMD_STREAM_DESTROY,
		DEVPOOL_CMD_STREAM_SUBMIT, DEVPOOL_CMD_STREAM_SIGNAL,
		DEVPOOL_CMD_EXPORT,
		DEVPOOL_CMD_STATS, DEVPOOL_CMD_SNAPSHOT, DEVPOOL_CMD_LIMIT,
	};
	static const unsigned int on_pool[] = {
		DEVPOOL_CMD_INFO, DEVPOOL_CMD_POOL_ATTR, DEVPOOL_CMD_POOL_STAT,
		DEVPOOL_CMD_EMPTY_CACHE,
	};
	bool known[2][256] = {};
	int nr, i;

	for (i = 0; i < ARRAY_SIZE(on_device); i++)
		known[0][on_device[i]] = true;
	for (i = 0; i < ARRAY_SIZE(on_pool); i++)
		known[1][on_pool[i]] = true;
	memset(self->page, 0, TEST_PAGE);
	*(__u32 *)self->page = 64;
	for (i = 0; i < 2; i++) {
		for (nr = 0; nr < 256; nr++) {
			if (known[i][nr])
				continue;
			EXPECT_REFUSED(ENOTTY, i ? self->pool : self->fd,
				       _IO(DEVPOOL_TYPE, nr), self->page, 64);
		}
	}
	/* What the kernel's own layer may ask of any file */
	EXPECT_EQ(-ENOTTY, devpool_raw(self->fd, FIONREAD, self->page));
	EXPECT_EQ(-ENOTTY, devpool_raw(self->fd, TCGETS, self->page));
	EXPECT_WORLD(self);
}

/* Numbers are 32 bits wide, whatever ioctl(2) takes. */
TEST_F(refused, numbers_far_away)
{
	static const unsigned long far[] = { 0, 1, 2, 0xdc, 0xffffffff, 0x80000000, 0xdc01dc01 };
	int i;

	memset(self->page, 0, TEST_PAGE);
	for (i = 0; i < ARRAY_SIZE(far); i++) {
		/* The kernel's own FIBMAP and FIGETBSZ */
		if (far[i] == 1 || far[i] == 2)
			continue;
		EXPECT_EQ(-ENOTTY, devpool_raw(self->fd, far[i], self->page));
		EXPECT_EQ(-ENOTTY, devpool_raw(self->pool, far[i], self->page));
	}
	EXPECT_WORLD(self);
}

#define ALLOC_REFUSED(err, member, value)					\
do {										\
	struct devpool_alloc _cmd = {						\
		.size = sizeof(_cmd),						\
		.bytes = 4096,							\
		.out_addr = POISON,						\
		.out_bytes = POISON,						\
	};									\
										\
	_cmd.member = (value);							\
	EXPECT_REFUSED(err, self->fd, DEVPOOL_IOC_ALLOC, &_cmd, sizeof(_cmd));	\
} while (0)

/* Mapping at once comes later. */
TEST_F(refused, alloc_with_user_addr)
{
	ALLOC_REFUSED(EOPNOTSUPP, user_addr, 1);
	ALLOC_REFUSED(EOPNOTSUPP, user_addr, (uintptr_t)self->page);
	ALLOC_REFUSED(EOPNOTSUPP, user_addr, 1ULL << 63);
	EXPECT_WORLD(self);
}

TEST_F(refused, alloc_on_a_stream_that_is_not_there)
{
	ALLOC_REFUSED(ENOENT, stream, 1);
	ALLOC_REFUSED(ENOENT, stream, 0x80000000);
	ALLOC_REFUSED(ENOENT, stream, 0xffffffff);
	EXPECT_WORLD(self);
}

TEST_F(refused, alloc_with_an_alignment_that_is_none)
{
	ALLOC_REFUSED(EINVAL, align, 3);
	ALLOC_REFUSED(EINVAL, align, self->info.out_chunk - 1);
	ALLOC_REFUSED(EINVAL, align, self->info.out_chunk + 1);
	ALLOC_REFUSED(EINVAL, align, self->info.out_chunk * 2);
	ALLOC_REFUSED(EINVAL, align, 1ULL << 63);
	ALLOC_REFUSED(EINVAL, align, -1ULL);
	EXPECT_WORLD(self);
}

TEST_F(refused, alloc_of_no_bytes)
{
	ALLOC_REFUSED(EINVAL, bytes, 0);
	ALLOC_REFUSED(EINVAL, bytes, -1ULL);
	ALLOC_REFUSED(EINVAL, bytes, -TEST_PAGE + 1);
	EXPECT_WORLD(self);
}

/* Failed for want of memory: that is counted. */
TEST_F(refused, alloc_of_more_than_there_is)
{
	ALLOC_REFUSED(ENOSPC, bytes, self->info.out_bytes + 1);
	ALLOC_REFUSED(ENOSPC, bytes, -TEST_PAGE);
	self->world.stat[0].out_ooms += 2;
	self->world.stats[0].out_ooms += 2;
	/* fdinfo says so as well. */
	test_fdinfo(self->fd, self->world.fdinfo[0], sizeof(self->world.fdinfo[0]));
	EXPECT_WORLD(self);
}

/*
 * A block that nobody was told of was never there: not in a peak either, and its
 * memory is free again.
 */
TEST_F(refused, alloc_whose_answer_has_nowhere_to_go)
{
	struct devpool_alloc *cmd = (void *)self->page;
	struct world now;
	__u64 resident;

	fill(cmd, DEVPOOL_CMD_ALLOC, sizeof(*cmd), &self->names);
	cmd->bytes = MIB;
	ASSERT_EQ(0, mprotect(self->page, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->fd, DEVPOOL_IOC_ALLOC, cmd));
	now = WORLD(self);
	forget_events(&now);
	forget_events(&self->world);
	EXPECT_SAME(self->world, now);
	/* The same where the request needs new chunks: those may stay as a cache. */
	ASSERT_EQ(0, mprotect(self->page, TEST_PAGE, PROT_READ | PROT_WRITE));
	cmd->bytes = 64 * MIB;
	ASSERT_EQ(0, mprotect(self->page, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->fd, DEVPOOL_IOC_ALLOC, cmd));
	now = WORLD(self);
	EXPECT_EQ(0, memcmp(&self->world.stat[0].out_allocated, &now.stat[0].out_allocated,
			    3 * sizeof(struct devpool_counter)));
	EXPECT_EQ(0, memcmp(&self->world.stat[0].out_blocks, &now.stat[0].out_blocks,
			    sizeof(struct devpool_counter)));
	EXPECT_POOL_SOUND(now.stat[0]);
	test_empty_cache(self->fd, default_pool, 0, 0);
	resident = test_resident(self->fd, default_pool);
	EXPECT_EQ(0, resident);
}

/* The first output fits, the second does not: neither counts. */
TEST_F(refused, alloc_whose_answer_is_cut_off)
{
	struct devpool_alloc *cmd;
	struct world now;

	/* Inputs and the address in one page, which is writable; then none. */
	cmd = (void *)(self->page + TEST_PAGE - offsetof(struct devpool_alloc, out_bytes));
	fill(cmd, DEVPOOL_CMD_ALLOC, sizeof(*cmd), &self->names);
	ASSERT_EQ(0, mprotect(self->page + TEST_PAGE, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->fd, DEVPOOL_IOC_ALLOC, cmd));
	now = WORLD(self);
	forget_events(&now);
	forget_events(&self->world);
	EXPECT_SAME(self->world, now);
	test_err_free(ENOENT, self->fd, cmd->out_addr);
}

/* Every timeout is a time. */
TEST_F(refused, not_an_alloc_with_any_timeout)
{
	static const __s64 times[] = { 0, 1, -1, INT64_MAX, INT64_MIN, 1000000000 };
	int i;

	for (i = 0; i < ARRAY_SIZE(times); i++) {
		struct devpool_alloc cmd = {
			.size = sizeof(cmd),
			.bytes = 4096,
			.timeout = times[i],
		};

		EXPECT_EQ(0, devpool_raw(self->fd, DEVPOOL_IOC_ALLOC, &cmd));
	}
	/* There is nothing to wait for, so nothing waits. */
	test_err_alloc(ENOSPC, self->fd, default_pool, self->info.out_bytes + 1);
}

/* Ids that are not this client's pools, or not in this form */
#define FOR_EACH_WRONG_ID(id)							\
	for (const struct devpool_pool_id *id = (struct devpool_pool_id[]){	\
		self->other_id,							\
		{ 0, self->id.second + 1 },					\
		{ 0, self->id.second - 1 },					\
		{ 0, self->id.second + 2 },					\
		{ 0, 1ULL << 63 },						\
		{ 0, -1ULL },							\
		{ 1, self->id.second },						\
		{ self->id.second, 0 },						\
		{ self->id.second + 1, 0 },					\
		{ self->id.second, self->id.second },				\
		{ -1ULL, -1ULL },						\
		{ 1ULL << 32, self->id.second },				\
		{ 0, self->id.second ^ (1ULL << 32) },				\
		{ 0, self->id.second | (1ULL << 63) },				\
		{}								\
	}; (id)->first | (id)->second; (id)++)

TEST_F(refused, alloc_in_a_pool_that_is_not_known)
{
	FOR_EACH_WRONG_ID(id) {
		ALLOC_REFUSED(ENOENT, pool, *id);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_stat_of_a_pool_that_is_not_known)
{
	FOR_EACH_WRONG_ID(id) {
		test_err_pool_stat(ENOENT, self->fd, *id);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, empty_cache_of_a_pool_that_is_not_known)
{
	FOR_EACH_WRONG_ID(id) {
		test_err_empty_cache(ENOENT, self->fd, *id, 0);
		test_err_empty_cache(ENOENT, self->fd, *id, DEVPOOL_EMPTY_TRIM);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_create_of_an_id_that_is_not_minted)
{
	FOR_EACH_WRONG_ID(id) {
		/* A pool of this client that came before is a right one. */
		test_err_pool_create(ENOENT, self->fd, *id);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_get_of_a_pool_that_is_not_known)
{
	FOR_EACH_WRONG_ID(id) {
		test_err_pool_get(ENOENT, self->fd, *id);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_put_of_a_pool_that_is_not_known)
{
	FOR_EACH_WRONG_ID(id) {
		test_err_pool_put(ENOENT, self->fd, *id);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_attr_of_a_pool_that_is_not_known)
{
	FOR_EACH_WRONG_ID(id) {
		test_err_pool_attr(ENOENT, self->fd, *id, 0, DEVPOOL_ATTR_LIMIT, 0);
		test_err_pool_attr(ENOENT, self->fd, *id, DEVPOOL_POOL_ATTR_SET,
				   DEVPOOL_ATTR_LIMIT, MIB);
		test_err_pool_attr(ENOENT, self->fd, *id, DEVPOOL_POOL_ATTR_SET,
				   DEVPOOL_ATTR_RELEASE_THRESHOLD, 0);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, route_of_a_pool_that_is_not_known)
{
	FOR_EACH_WRONG_ID(id) {
		test_err_route_begin(ENOENT, self->fd, *id, DEVPOOL_SCOPE_THREAD);
		test_err_route_begin(ENOENT, self->fd, *id, DEVPOOL_SCOPE_ALL);
		test_err_route_end(ENOENT, self->fd, *id, DEVPOOL_SCOPE_THREAD);
		test_err_route_end(ENOENT, self->fd, *id, DEVPOOL_SCOPE_ALL);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, snapshot_of_a_pool_that_is_not_known)
{
	struct devpool_snapshot_entry entry[2] = {};

	FOR_EACH_WRONG_ID(id) {
		test_err_snapshot(ENOENT, self->fd, *id, 0, entry, 2);
	}
	EXPECT_EQ(0, entry[0].addr);
	EXPECT_WORLD(self);
}

/* Minted, but there is no pool of that id: only what creates it works. */
TEST_F(refused, what_is_not_there_yet)
{
	static const __u32 flags[] = { 0, DEVPOOL_POOL_ID_CAPTURE };
	struct devpool_snapshot_entry entry;
	struct devpool_pool_id id;
	int i;

	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		id = test_pool_id(self->fd, flags[i]);
		test_err_alloc(ENOENT, self->fd, id, 1);
		test_err_pool_stat(ENOENT, self->fd, id);
		test_err_empty_cache(ENOENT, self->fd, id, 0);
		test_err_pool_put(ENOENT, self->fd, id);
		test_err_pool_attr(ENOENT, self->fd, id, 0, DEVPOOL_ATTR_LIMIT, 0);
		test_err_route_begin(ENOENT, self->fd, id, DEVPOOL_SCOPE_ALL);
		test_err_route_end(ENOENT, self->fd, id, DEVPOOL_SCOPE_ALL);
		test_err_snapshot(ENOENT, self->fd, id, 0, &entry, 1);
		/* The other form of the number is no id. */
		test_err_pool_get(ENOENT, self->fd,
				  ((struct devpool_pool_id){ id.second, id.first }));
		test_err_pool_create(ENOENT, self->fd,
				     ((struct devpool_pool_id){ id.second, id.first }));
	}
	EXPECT_WORLD(self);
}

/* Where a pool with references is needed, the default pool is none. */
TEST_F(refused, no_pool_where_there_must_be_one)
{
	test_err_pool_get(EINVAL, self->fd, default_pool);
	test_err_pool_put(EINVAL, self->fd, default_pool);
	test_err_route_begin(EINVAL, self->fd, default_pool, DEVPOOL_SCOPE_THREAD);
	test_err_route_begin(EINVAL, self->fd, default_pool, DEVPOOL_SCOPE_ALL);
	test_err_route_end(EINVAL, self->fd, default_pool, DEVPOOL_SCOPE_THREAD);
	test_err_route_end(EINVAL, self->fd, default_pool, DEVPOOL_SCOPE_ALL);
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_get_of_an_id_and_a_descriptor)
{
	int bit;

	for (bit = 0; bit < 32; bit++)
		test_err_pool_get_any(EINVAL, self->fd, 0, self->id, 1U << bit);
	test_err_pool_get_any(EINVAL, self->fd, 0, self->id, self->pool);
	test_err_pool_get_any(EINVAL, self->fd, 0, default_pool, self->pool);
	test_err_pool_get_any(EINVAL, self->fd, DEVPOOL_POOL_GET_FD, self->id, self->pool);
	test_err_pool_get_any(EINVAL, self->fd, DEVPOOL_POOL_GET_FD, self->other_id, self->pool);
	test_err_pool_get_any(EINVAL, self->fd, DEVPOOL_POOL_GET_FD,
			      ((struct devpool_pool_id){ 1, 0 }), self->pool);
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_get_of_what_is_no_pool_file)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int path = devpool_open_node_flags(self->index, O_PATH | O_CLOEXEC);
	int pipes[2];

	ASSERT_LE(0, null);
	ASSERT_LE(0, path);
	ASSERT_EQ(0, pipe2(pipes, O_CLOEXEC));
	test_err_pool_attach(EBADF, self->fd, -1);
	test_err_pool_attach(EBADF, self->fd, INT_MIN);
	test_err_pool_attach(EBADF, self->fd, INT_MAX);
	test_err_pool_attach(EBADF, self->fd, AT_FDCWD);
	test_err_pool_attach(EBADF, self->fd, pipes[1] + 1);
	test_err_pool_attach(EBADF, self->fd, pipes[0]);
	test_err_pool_attach(EBADF, self->fd, null);
	test_err_pool_attach(EBADF, self->fd, path);
	test_err_pool_attach(EBADF, self->fd, self->fd);
	test_err_pool_attach(EBADF, self->fd, self->other);
	close(pipes[0]);
	close(pipes[1]);
	close(path);
	close(null);
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_get_of_a_pool_file_of_another_device)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	int index = test_find(TEST_SYSMEM);
	int fd, pool;

	if (index < 0)
		SKIP(return, "there is no second device");
	fd = test_open(index);
	pool = test_pool_create(fd, &id);
	before = test_pool_stat(pool, default_pool);
	test_err_pool_attach(EINVAL, self->fd, pool);
	test_err_pool_attach(EINVAL, fd, self->pool);
	EXPECT_SAME(before, test_pool_stat(pool, default_pool));
	close(pool);
	close(fd);
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_get_of_a_pool_file_that_was_released)
{
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create(self->other, &id);
	test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	test_err_pool_attach(ENOENT, self->fd, pool);
	test_err_pool_attach(ENOENT, self->other, pool);
	/* Nor if the pool lives */
	EXPECT_EQ(2, test_pool_attach(self->fd, self->pool, &id));
	test_empty_cache(self->pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	test_err_pool_attach(ENOENT, self->fd, self->pool);
	test_err_pool_attach(ENOENT, self->other, self->pool);
	EXPECT_EQ(1, test_use_count(self->fd, self->id));
}

/* The pool file's reference is the file's, a peer's is the peer's. */
TEST_F(refused, pool_put_of_what_was_not_got)
{
	test_err_pool_put(ENOENT, self->fd, self->id);
	test_err_pool_put(ENOENT, self->other, self->other_id);
	/* The creator has none; the reference is the peer's. */
	test_err_pool_put(ENOENT, self->other, self->names.shared);
	EXPECT_WORLD(self);
	EXPECT_EQ(1, test_pool_put(self->fd, self->names.shared));
	test_err_pool_put(ENOENT, self->fd, self->names.shared);
	EXPECT_EQ(1, test_use_count(self->other, self->names.shared));
}

/* A route's reference is the route's, too. */
TEST_F(refused, pool_put_of_a_route_s_reference)
{
	test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_ALL);
	self->world = WORLD(self);
	test_err_pool_put(ENOENT, self->fd, self->id);
	EXPECT_WORLD(self);
}

#define ROUTE_REFUSED(err, cmd, member, value)					\
do {										\
	struct devpool_route_begin _cmd = {					\
		.size = sizeof(_cmd),						\
		.pool = self->id,						\
	};									\
										\
	_cmd.member = (value);							\
	EXPECT_REFUSED(err, self->fd, cmd, &_cmd, sizeof(_cmd));		\
} while (0)

TEST_F(refused, route_of_a_scope_that_is_none)
{
	static const __u32 scopes[] = { 3, 4, 0x80000000, 0xffffffff };
	int i;

	for (i = 0; i < ARRAY_SIZE(scopes); i++) {
		ROUTE_REFUSED(EOPNOTSUPP, DEVPOOL_IOC_ROUTE_BEGIN, scope, scopes[i]);
		ROUTE_REFUSED(EOPNOTSUPP, DEVPOOL_IOC_ROUTE_END, scope, scopes[i]);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, route_on_a_stream)
{
	int bit;

	for (bit = 0; bit < 32; bit++) {
		ROUTE_REFUSED(EINVAL, DEVPOOL_IOC_ROUTE_BEGIN, stream, 1U << bit);
		ROUTE_REFUSED(EINVAL, DEVPOOL_IOC_ROUTE_END, stream, 1U << bit);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, route_that_stands)
{
	test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_ALL);
	test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_THREAD);
	self->world = WORLD(self);
	test_err_route_begin(EBUSY, self->fd, self->id, DEVPOOL_SCOPE_ALL);
	test_err_route_begin(EBUSY, self->fd, self->id, DEVPOOL_SCOPE_THREAD);
	EXPECT_WORLD(self);
}

static void *end_of_another_thread(void *arg)
{
	struct destroyed *d = arg;

	d->wrong = devpool_route_end_raw(d->fd, d->names.id, DEVPOOL_SCOPE_THREAD);
	return NULL;
}

TEST_F(refused, route_end_without_a_route)
{
	struct destroyed d = { .fd = self->fd, .names = self->names };
	pthread_t thread;

	test_err_route_end(ENOENT, self->fd, self->id, DEVPOOL_SCOPE_THREAD);
	test_err_route_end(ENOENT, self->fd, self->id, DEVPOOL_SCOPE_ALL);
	EXPECT_WORLD(self);
	/* Of another scope, pool, client or thread */
	test_route_begin(self->fd, self->id, DEVPOOL_SCOPE_THREAD);
	self->world = WORLD(self);
	test_err_route_end(ENOENT, self->fd, self->id, DEVPOOL_SCOPE_ALL);
	test_err_route_end(ENOENT, self->fd, self->names.shared, DEVPOOL_SCOPE_THREAD);
	test_err_route_end(ENOENT, self->other, self->id, DEVPOOL_SCOPE_THREAD);
	ASSERT_EQ(0, pthread_create(&thread, NULL, end_of_another_thread, &d));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(-ENOENT, d.wrong);
	EXPECT_WORLD(self);
	test_route_end(self->fd, self->id, DEVPOOL_SCOPE_THREAD);
	test_err_route_end(ENOENT, self->fd, self->id, DEVPOOL_SCOPE_THREAD);
}

#define ATTR_REFUSED(err, nr, value)						\
do {										\
	test_err_pool_attr(err, self->fd, self->id, DEVPOOL_POOL_ATTR_SET,	\
			   nr, value);						\
	test_err_pool_attr(err, self->pool, default_pool, DEVPOOL_POOL_ATTR_SET, \
			   nr, value);						\
} while (0)

/* A reserve comes later. */
TEST_F(refused, attribute_that_is_none)
{
	static const __u32 attrs[] = { 2, 3, 4, 0x80000000, 0xffffffff };
	int i;

	for (i = 0; i < ARRAY_SIZE(attrs); i++) {
		ATTR_REFUSED(EOPNOTSUPP, attrs[i], 0);
		test_err_pool_attr(EOPNOTSUPP, self->fd, self->id, 0, attrs[i], 0);
		test_err_pool_attr(EOPNOTSUPP, self->pool, default_pool, 0, attrs[i], 0);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, value_of_an_attribute_that_is_not_set)
{
	int bit;

	for (bit = 0; bit < 64; bit++) {
		test_err_pool_attr(EINVAL, self->fd, self->id, 0, DEVPOOL_ATTR_LIMIT,
				   1ULL << bit);
		test_err_pool_attr(EINVAL, self->pool, default_pool, 0,
				   DEVPOOL_ATTR_RELEASE_THRESHOLD, 1ULL << bit);
	}
	EXPECT_WORLD(self);
}

TEST_F(refused, limit_that_overflows)
{
	__u64 chunk = self->info.out_chunk;

	ATTR_REFUSED(EINVAL, DEVPOOL_ATTR_LIMIT, -1ULL);
	ATTR_REFUSED(EINVAL, DEVPOOL_ATTR_LIMIT, -chunk + 1);
	test_err_limit(EINVAL, self->fd, -1ULL);
	test_err_limit(EINVAL, self->fd, -chunk + 1);
	EXPECT_WORLD(self);
	/* The last that does not */
	EXPECT_EQ(-chunk, test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, -chunk));
	test_limit(self->fd, -chunk);
}

TEST_F(refused, threshold_of_a_stable_pool)
{
	struct devpool_pool_id id;
	int pool;

	pool = test_pool_create_opts(self->fd, &id, .flags = DEVPOOL_POOL_STABLE);
	test_err_pool_attr(EINVAL, pool, default_pool, DEVPOOL_POOL_ATTR_SET,
			   DEVPOOL_ATTR_RELEASE_THRESHOLD, 0);
	test_err_pool_attr(EINVAL, self->fd, id, DEVPOOL_POOL_ATTR_SET,
			   DEVPOOL_ATTR_RELEASE_THRESHOLD, MIB);
	EXPECT_EQ(-1ULL, test_pool_get_attr(pool, default_pool, DEVPOOL_ATTR_RELEASE_THRESHOLD));
}

TEST_F(refused, retain_of_what_is_not_a_live_block_of_a_known_pool)
{
	__u64 shared = self->names.shared_block;
	__u64 cached;

	test_err_retain(ENOENT, self->fd, 0);
	test_err_retain(ENOENT, self->fd, -1ULL);
	test_err_retain(ENOENT, self->fd, shared + 1);
	test_err_retain(ENOENT, self->fd, shared - 1);
	test_err_retain(ENOENT, self->fd, shared + 512);
	test_err_retain(ENOENT, self->fd, shared ^ (1ULL << 63));
	test_err_retain(ENOENT, self->fd, shared | (1ULL << 62));
	/* Of a pool that it does not know */
	test_err_retain(ENOENT, self->fd, self->other_block);
	EXPECT_WORLD(self);
	/* Not even its creator */
	cached = test_alloc(self->other, self->names.shared, 4096);
	test_free(self->other, cached);
	self->world = WORLD(self);
	test_err_retain(ENOENT, self->fd, cached);
	test_err_retain(ENOENT, self->other, cached);
	EXPECT_WORLD(self);
}

TEST_F(refused, retain_by_whoever_has_a_reference)
{
	test_err_retain(EBUSY, self->fd, self->block);
	test_err_retain(EBUSY, self->other, self->names.shared_block);
	EXPECT_WORLD(self);
	test_retain(self->fd, self->names.shared_block);
	self->world = WORLD(self);
	test_err_retain(EBUSY, self->fd, self->names.shared_block);
	test_err_retain(EBUSY, self->other, self->names.shared_block);
	EXPECT_WORLD(self);
}

TEST_F(refused, snapshot_for_no_entries)
{
	struct devpool_snapshot_entry entry = {};

	test_err_snapshot(EINVAL, self->fd, default_pool, 0, &entry, 0);
	test_err_snapshot(EINVAL, self->fd, self->id, 0, &entry, 0);
	test_err_snapshot(EINVAL, self->fd, default_pool, DEVPOOL_SNAPSHOT_DEVICE, &entry, 0);
	EXPECT_EQ(0, entry.addr);
	EXPECT_WORLD(self);
}

TEST_F(refused, snapshot_of_the_device_and_a_pool)
{
	struct devpool_snapshot_entry entry = {};

	test_err_snapshot(EINVAL, self->fd, self->id, DEVPOOL_SNAPSHOT_DEVICE, &entry, 1);
	test_err_snapshot(EINVAL, self->fd, self->other_id, DEVPOOL_SNAPSHOT_DEVICE, &entry, 1);
	EXPECT_EQ(0, entry.addr);
	EXPECT_WORLD(self);
}

TEST_F(refused, views_of_the_device_without_the_capability)
{
	struct devpool_snapshot_entry entry = {};

	ASSERT_EQ(0, test_drop_admin());
	test_err_snapshot(EPERM, self->fd, default_pool, DEVPOOL_SNAPSHOT_DEVICE, &entry, 1);
	test_err_stats_device(EPERM, self->fd);
	EXPECT_EQ(0, entry.addr);
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_create_of_a_pool_that_exists)
{
	test_err_pool_create(EBUSY, self->fd, self->id);
	EXPECT_WORLD(self);
}

TEST_F(refused, any_id_on_a_pool_file)
{
	test_err_pool_stat(EINVAL, self->pool, self->id);
	test_err_empty_cache(EINVAL, self->pool, self->id, DEVPOOL_EMPTY_TRIM);
	test_err_empty_cache(EINVAL, self->pool, self->id, DEVPOOL_EMPTY_RELEASE);
	test_err_pool_attr(EINVAL, self->pool, self->id, 0, DEVPOOL_ATTR_LIMIT, 0);
	FOR_EACH_WRONG_ID(id) {
		test_err_pool_attr(EINVAL, self->pool, *id, 0, DEVPOOL_ATTR_LIMIT, 0);
		test_err_pool_attr(EINVAL, self->pool, *id, DEVPOOL_POOL_ATTR_SET,
				   DEVPOOL_ATTR_LIMIT, MIB);
		test_err_pool_stat(EINVAL, self->pool, *id);
		test_err_empty_cache(EINVAL, self->pool, *id, 0);
	}
	EXPECT_WORLD(self);
}

#define CREATE_REFUSED(err, member, value)					\
do {										\
	struct devpool_pool_create _cmd = {					\
		.size = sizeof(_cmd),						\
		.out_pool = { POISON, POISON },					\
		.out_fd = (__s32)POISON,					\
	};									\
										\
	_cmd.member = (value);							\
	EXPECT_REFUSED(err, self->fd, DEVPOOL_IOC_POOL_CREATE, &_cmd,		\
		       sizeof(_cmd));						\
} while (0)

/* A reserve comes later; a threshold needs its flag. */
TEST_F(refused, pool_create_with_attributes)
{
	__u64 chunk = self->info.out_chunk;
	int bit;

	for (bit = 0; bit < 64; bit++) {
		CREATE_REFUSED(EOPNOTSUPP, reserve, 1ULL << bit);
		CREATE_REFUSED(EINVAL, release_threshold, 1ULL << bit);
	}
	CREATE_REFUSED(EINVAL, limit, -1ULL);
	CREATE_REFUSED(EINVAL, limit, -chunk + 1);
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_create_that_is_stable_and_has_a_threshold)
{
	test_err_pool_create_opts(EINVAL, self->fd,
				  .flags = DEVPOOL_POOL_STABLE | DEVPOOL_POOL_THRESHOLD);
	test_err_pool_create_opts(EINVAL, self->fd, .release_threshold = MIB,
				  .flags = DEVPOOL_POOL_STABLE | DEVPOOL_POOL_THRESHOLD);
	EXPECT_WORLD(self);
}

TEST_F(refused, pool_create_without_descriptors)
{
	struct rlimit limit, none;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = self->world.next_fd;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
	test_err_pool_create(EMFILE, self->fd, default_pool);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_WORLD(self);
}

/* An id is not used up by a create that failed. */
TEST_F(refused, pool_create_again_after_a_failure)
{
	struct devpool_pool_id id;
	struct rlimit limit, none;
	int pool;

	pool = test_pool_create(self->fd, &id);
	close(pool);
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = self->world.next_fd;
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
	test_err_pool_create(EMFILE, self->fd, id);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
	EXPECT_EQ(0, devpool_pool_create_raw(self->fd, &id, &pool));
	close(pool);
	/* Nor by one whose answer could not be copied out */
	fill(self->page, DEVPOOL_CMD_POOL_CREATE, sizeof(struct devpool_pool_create),
	     &self->names);
	((struct devpool_pool_create *)self->page)->pool = id;
	ASSERT_EQ(0, mprotect(self->page, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->fd, DEVPOOL_IOC_POOL_CREATE, self->page));
	EXPECT_EQ(0, devpool_pool_create_raw(self->fd, &id, &pool));
	EXPECT_EQ(1, test_pool_stat(self->fd, id).out_use_count);
}

TEST_F(refused, release_on_a_device_file)
{
	test_err_empty_cache(EINVAL, self->fd, default_pool, DEVPOOL_EMPTY_RELEASE);
	test_err_empty_cache(EINVAL, self->fd, self->id, DEVPOOL_EMPTY_RELEASE);
	EXPECT_WORLD(self);
}

TEST_F(refused, free_of_what_is_not_a_live_block_of_this_client)
{
	struct devpool_pool_id freeable;
	__u64 block;
	int pool;

	test_err_free(ENOENT, self->fd, 0);
	test_err_free(ENOENT, self->fd, -1ULL);
	test_err_free(ENOENT, self->fd, self->block + 1);
	test_err_free(ENOENT, self->fd, self->block - 1);
	test_err_free(ENOENT, self->fd, self->block + 512);
	test_err_free(ENOENT, self->fd, self->block ^ (1ULL << 63));
	test_err_free(ENOENT, self->fd, self->block | (1ULL << 62));
	test_err_free(ENOENT, self->fd, self->other_block);
	EXPECT_WORLD(self);
	/* A block of a freeable pool is another client's all the same. */
	pool = test_pool_create(self->other, &freeable);
	block = test_alloc(self->other, freeable, 4096);
	close(pool);
	self->world = WORLD(self);
	test_err_free(ENOENT, self->fd, block);
	EXPECT_WORLD(self);
	test_free(self->other, block);
}

/* Reading and writing are no ways to use it. */
TEST_F(refused, read_and_write)
{
	char byte = 0;

	EXPECT_EQ(-1, read(self->fd, &byte, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, write(self->fd, &byte, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, read(self->pool, &byte, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, write(self->pool, &byte, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_WORLD(self);
}

TEST_HARNESS_MAIN
