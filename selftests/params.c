// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loading and unloading: parameters, refusals with a reason, and that nothing
 * stays behind. DEVPOOL_KO is the module; at the end it is loaded again with
 * DEVPOOL_PARAMS, for whatever comes after.
 */
#include <sys/klog.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "fence_test.h"

#define KLOG_READ_ALL 3
#define KLOG_SIZE 10

static int load(const char *params)
{
	const char *file = getenv("DEVPOOL_KO");
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return -errno;
	ret = syscall(SYS_finit_module, fd, params, 0) ? -errno : 0;
	close(fd);
	return ret;
}

static int unload(void)
{
	return syscall(SYS_delete_module, "devpool", O_NONBLOCK) ? -errno : 0;
}

static bool loaded(void)
{
	struct stat st;

	return !stat("/sys/module/devpool/initstate", &st);
}

static bool node_exists(int index)
{
	struct stat st;
	char path[32];

	snprintf(path, sizeof(path), "/dev/devpool%d", index);
	return !stat(path, &st);
}

static void mark(const char *what)
{
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		dprintf(fd, "devpool test: %s\n", what);
		close(fd);
	}
}

/*
 * Whether the kernel's log, behind the last mark, has a line of the module that
 * has the word in it.
 */
static bool log_says(const char *word)
{
	int size = klogctl(KLOG_SIZE, NULL, 0);
	char *text = malloc(size + 1);
	char *line, *next, *last;
	bool says = false;
	int n;

	n = klogctl(KLOG_READ_ALL, text, size);
	text[n < 0 ? 0 : n] = 0;
	last = text;
	for (line = text; (line = strstr(line, "devpool test: ")); line++)
		last = line;
	last = strchr(last, '\n');
	for (line = last; line && *++line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next = 0;
		if (strstr(line, "devpool: ") && strstr(line, word))
			says = true;
	}
	free(text);
	return says;
}

FIXTURE(params)
{
	int fd;
};

FIXTURE_SETUP(params)
{
	if (!getenv("DEVPOOL_KO"))
		SKIP(return, "DEVPOOL_KO is not set");
	if (loaded())
		ASSERT_EQ(0, unload());
}

FIXTURE_TEARDOWN(params)
{
}

/* Refused with EINVAL, for a reason that names the parameter */
#define EXPECT_BAD(name, params)						\
do {										\
	mark(params);								\
	EXPECT_EQ(-EINVAL, load(params))					\
		TH_LOG("%s", params);						\
	EXPECT_TRUE(log_says(name))						\
		TH_LOG("%s: the log does not say why", params);			\
	EXPECT_FALSE(loaded());							\
	EXPECT_FALSE(node_exists(0));						\
	if (loaded())								\
		unload();							\
} while (0)

TEST_F(params, sysmem_that_does_not_parse)
{
	EXPECT_BAD("sysmem", "sysmem=abc");
	EXPECT_BAD("sysmem", "sysmem=64M,xyz");
	EXPECT_BAD("sysmem", "sysmem=64M,,64M");
	EXPECT_BAD("sysmem", "sysmem=64M,");
	EXPECT_BAD("sysmem", "sysmem=,64M");
	EXPECT_BAD("sysmem", "sysmem=64Q");
	EXPECT_BAD("sysmem", "sysmem=64MM");
	EXPECT_BAD("sysmem", "sysmem=-64M");
	EXPECT_BAD("sysmem", "sysmem=64M;64M");
	EXPECT_BAD("sysmem", "sysmem=M");
}

TEST_F(params, null_that_does_not_parse)
{
	EXPECT_BAD("null", "sysmem= null=xyz");
	EXPECT_BAD("null", "sysmem= null=64T,xyz");
	EXPECT_BAD("null", "sysmem= null=-1");
}

TEST_F(params, chunk_that_does_not_parse)
{
	EXPECT_BAD("chunk", "chunk=zz");
	EXPECT_BAD("chunk", "chunk=");
	EXPECT_BAD("chunk", "chunk=2M,2M");
	EXPECT_BAD("chunk", "chunk=-2M");
}

TEST_F(params, clean_target_that_does_not_parse)
{
	EXPECT_BAD("clean_target", "sysmem=64M clean_target=zz");
	EXPECT_BAD("clean_target", "sysmem=64M clean_target=");
	EXPECT_BAD("clean_target", "sysmem=64M clean_target=-1");
	/* Even if no device would ask for it */
	EXPECT_BAD("clean_target", "sysmem= null=1G clean_target=zz");
	EXPECT_BAD("clean_target", "sysmem= clean_target=zz");
}

TEST_F(params, numbers_that_do_not_parse)
{
	EXPECT_BAD("max_pools", "sysmem=64M max_pools=zz");
	EXPECT_BAD("max_blocks", "sysmem=64M max_blocks=zz");
	EXPECT_BAD("max_blocks", "sysmem=64M max_blocks=-1");
	EXPECT_BAD("max_routes", "sysmem=64M max_routes=zz");
	EXPECT_BAD("max_routes", "sysmem=64M max_routes=");
	EXPECT_BAD("max_routes", "sysmem=64M max_routes=-1");
	EXPECT_BAD("max_streams", "sysmem=64M max_streams=zz");
	EXPECT_BAD("max_streams", "sysmem=64M max_streams=-1");
	EXPECT_BAD("max_streams", "sysmem=64M max_streams=2147483648");
	EXPECT_BAD("max_points", "sysmem=64M max_points=zz");
	EXPECT_BAD("max_points", "sysmem=64M max_points=-1");
}

/* 2^64 and more is not what it is modulo 2^64. */
TEST_F(params, sizes_that_do_not_fit)
{
	EXPECT_BAD("null", "sysmem= null=17592186044480M");
	EXPECT_BAD("null", "sysmem= null=18446744073776660480");
	EXPECT_BAD("null", "sysmem= null=16E");
	EXPECT_BAD("null", "sysmem= null=8E");
	EXPECT_BAD("sysmem", "sysmem=17592186044480M");
	EXPECT_BAD("chunk", "sysmem=64M chunk=17592186044418M");
}

TEST_F(params, a_device_of_no_bytes)
{
	EXPECT_BAD("sysmem", "sysmem=0");
	EXPECT_BAD("sysmem", "sysmem=64M,0");
	EXPECT_BAD("null", "sysmem= null=0");
}

TEST_F(params, a_device_of_no_whole_chunk)
{
	EXPECT_BAD("sysmem", "sysmem=1M");
	EXPECT_BAD("sysmem", "sysmem=1M chunk=2M");
	EXPECT_BAD("sysmem", "sysmem=2097151");
	EXPECT_BAD("null", "sysmem= null=1023M chunk=1G");
	EXPECT_BAD("sysmem", "sysmem=64M,1M");
}

TEST_F(params, a_chunk_that_is_none)
{
	EXPECT_BAD("chunk", "sysmem=64M chunk=3M");
	EXPECT_BAD("chunk", "sysmem=64M chunk=2G");
	EXPECT_BAD("chunk", "sysmem=64M chunk=1K");
	EXPECT_BAD("chunk", "sysmem=64M chunk=2048");
	EXPECT_BAD("chunk", "sysmem=64M chunk=0");
	EXPECT_BAD("chunk", "sysmem=64M chunk=1");
	EXPECT_BAD("chunk", "sysmem=64M chunk=4097");
}

/* In KiB */
static unsigned long memory(void)
{
	unsigned long kib = 0;
	FILE *f = fopen("/proc/meminfo", "re");

	if (!f || fscanf(f, "MemTotal: %lu", &kib) != 1)
		kib = 0;
	if (f)
		fclose(f);
	return kib;
}

TEST_F(params, more_memory_than_the_machine_has)
{
	char params[80];

	EXPECT_BAD("sysmem", "sysmem=64T");
	snprintf(params, sizeof(params), "sysmem=%luK", memory() + memory() / 10);
	EXPECT_BAD("sysmem", params);
	/* All devices together */
	snprintf(params, sizeof(params), "sysmem=%luK,%luK", memory() / 2 + memory() / 20,
		 memory() / 2 + memory() / 20);
	EXPECT_BAD("sysmem", params);
}

/* A load that was refused is no hindrance to the next. */
TEST_F(params, after_a_refusal)
{
	EXPECT_BAD("null", "sysmem=64M,64M null=64T,0");
	ASSERT_EQ(0, load("sysmem=64M"));
	EXPECT_TRUE(node_exists(0));
	EXPECT_FALSE(node_exists(1));
	ASSERT_EQ(0, unload());
	EXPECT_FALSE(node_exists(0));
}

TEST_F(params, none_gives_a_quarter_of_the_memory)
{
	struct devpool_info info;
	int fd;

	ASSERT_EQ(0, load(""));
	EXPECT_FALSE(node_exists(1));
	fd = test_open(0);
	info = test_info(fd);
	EXPECT_STREQ("sysmem", (char *)info.out_backend);
	EXPECT_EQ(2 * MIB, info.out_chunk);
	EXPECT_EQ(0, info.out_bytes % info.out_chunk);
	/* MemTotal is a little less than what the kernel calls the memory. */
	EXPECT_LE(memory() / 4 / 1024 * MIB * 9 / 10, info.out_bytes);
	EXPECT_GE(memory() / 4 / 1024 * MIB * 11 / 10, info.out_bytes);
	/* Loading takes no memory for chunks. */
	EXPECT_EQ(0, devpool_sysfs(0, "clean") + devpool_sysfs(0, "dirty"));
	close(fd);
	ASSERT_EQ(0, unload());
}

TEST_F(params, an_empty_list_gives_none)
{
	ASSERT_EQ(0, load("sysmem="));
	EXPECT_TRUE(loaded());
	EXPECT_FALSE(node_exists(0));
	ASSERT_EQ(0, unload());
	ASSERT_EQ(0, load("sysmem= null=1T"));
	EXPECT_TRUE(node_exists(0));
	EXPECT_FALSE(node_exists(1));
	EXPECT_EQ(TIB, devpool_sysfs(0, "bytes"));
	EXPECT_EQ(0, devpool_find("null", true));
	EXPECT_EQ(-1, devpool_find("sysmem", true));
	ASSERT_EQ(0, unload());
}

TEST_F(params, lists)
{
	ASSERT_EQ(0, load("sysmem=64M,32M null=64T,1G"));
	EXPECT_EQ(64 * MIB, devpool_sysfs(0, "bytes"));
	EXPECT_EQ(32 * MIB, devpool_sysfs(1, "bytes"));
	EXPECT_EQ(64 * TIB, devpool_sysfs(2, "bytes"));
	EXPECT_EQ(GIB, devpool_sysfs(3, "bytes"));
	EXPECT_EQ(0, devpool_find("sysmem", false));
	EXPECT_EQ(1, devpool_find("sysmem", true));
	EXPECT_EQ(2, devpool_find("null", false));
	EXPECT_EQ(3, devpool_find("null", true));
	EXPECT_FALSE(node_exists(4));
	ASSERT_EQ(0, unload());
	EXPECT_FALSE(node_exists(0));
	EXPECT_FALSE(node_exists(3));
}

/* What is over a whole number of chunks is left out. */
TEST_F(params, a_size_is_rounded_down)
{
	ASSERT_EQ(0, load("sysmem=67108863"));
	EXPECT_EQ(62 * MIB, devpool_sysfs(0, "bytes"));
	ASSERT_EQ(0, unload());
	ASSERT_EQ(0, load("sysmem=2M"));
	EXPECT_EQ(2 * MIB, devpool_sysfs(0, "bytes"));
	ASSERT_EQ(0, unload());
}

/* A block, its contents, its end, with chunks of every kind */
static int live_with(__u64 chunk)
{
	__u64 bytes = 2 * chunk + chunk / 2 / 4096 * 4096 + 4096;
	struct devpool_empty_cache empty;
	struct devpool_pool_stat stat;
	__u64 addr, again;
	int fd = devpool_open_node(0);
	char *p;

	if (fd < 0 || devpool_alloc_raw(fd, default_pool, bytes, &addr))
		return __LINE__;
	p = devpool_map_raw(fd, addr, bytes);
	if (!p || test_not_zero(p, bytes) != -1)
		return __LINE__;
	test_fill(p, bytes, 77);
	if (test_differs(p, bytes, 77) != -1)
		return __LINE__;
	if (devpool_pool_stat_raw(fd, default_pool, &stat) ||
	    stat.out_resident.current != round_to(bytes, chunk))
		return __LINE__;
	if (devpool_free_raw(fd, addr) ||
	    devpool_empty_cache_raw(fd, default_pool, 0, 0, &empty) ||
	    empty.out_freed != round_to(bytes, chunk))
		return __LINE__;
	if (test_touch(p) != SIGBUS || test_touch(p + bytes - 8) != SIGBUS)
		return __LINE__;
	if (devpool_alloc_raw(fd, default_pool, bytes, &again) || again != addr)
		return __LINE__;
	if (test_not_zero(p, bytes) != -1)
		return __LINE__;
	munmap(p, bytes);
	close(fd);
	return 0;
}

TEST_F_TIMEOUT(params, chunks_of_every_size, 60)
{
	static const char *const sizes[] = { "4K", "8K", "64K", "1M", "2M", "4M", "32M" };
	struct devpool_info info;
	char params[64];
	int fd, i;

	test_catch();
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		snprintf(params, sizeof(params), "sysmem=128M chunk=%s", sizes[i]);
		ASSERT_EQ(0, load(params))
			TH_LOG("%s", params);
		fd = test_open(0);
		info = test_info(fd);
		close(fd);
		EXPECT_EQ(0, live_with(info.out_chunk))
			TH_LOG("%s", params);
		EXPECT_EQ(0, devpool_sysfs(0, "used"));
		EXPECT_EQ(0, unload());
	}
	ASSERT_EQ(0, load("sysmem= null=64T chunk=1G"));
	fd = test_open(0);
	test_alloc(fd, default_pool, 1);
	EXPECT_EQ(GIB, test_resident(fd, default_pool));
	test_alloc_align(fd, default_pool, 3 * GIB, GIB);
	EXPECT_EQ(4 * GIB, test_resident(fd, default_pool));
	close(fd);
	ASSERT_EQ(0, unload());
}

/* What the worker has in its hands is neither clean nor dirty. */
static bool wait_for_clean(__u64 bytes)
{
	int i;

	for (i = 0; i < 500; i++) {
		if (!devpool_sysfs(0, "dirty") && devpool_sysfs(0, "clean") == bytes)
			return true;
		usleep(10000);
	}
	printf("# clean %lld, dirty %lld\n", devpool_sysfs(0, "clean"),
	       devpool_sysfs(0, "dirty"));
	return false;
}

/* How much of the stock is kept zeroed, and what goes back to the system */
TEST_F(params, clean_target)
{
	__u64 addr;
	int fd;

	ASSERT_EQ(0, load("sysmem=64M clean_target=8M"));
	fd = test_open(0);
	addr = test_alloc(fd, default_pool, 32 * MIB);
	test_free(fd, addr);
	test_empty_cache(fd, default_pool, 0, 0);
	EXPECT_EQ(0, devpool_sysfs(0, "used"));
	EXPECT_TRUE(wait_for_clean(8 * MIB));
	close(fd);
	ASSERT_EQ(0, unload());
	ASSERT_EQ(0, load("sysmem=64M clean_target=0"));
	fd = test_open(0);
	test_alloc(fd, default_pool, 32 * MIB);
	close(fd);
	EXPECT_TRUE(wait_for_clean(0));
	ASSERT_EQ(0, unload());
	/* A sixteenth of the device is the default. */
	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	test_alloc(fd, default_pool, 32 * MIB);
	close(fd);
	EXPECT_TRUE(wait_for_clean(4 * MIB));
	ASSERT_EQ(0, unload());
}

/* The bounds that INFO tells are the parameters', and one more is too many. */
TEST_F(params, most_pools)
{
	struct devpool_pool_id id[8], other_id;
	struct test_base base;
	int fd, other;
	int pool[8];
	__u64 addr;
	int i;

	ASSERT_EQ(0, load("sysmem=64M max_pools=8"));
	fd = test_open(0);
	other = test_open(0);
	EXPECT_EQ(8, test_info(fd).out_max_pools);
	for (i = 0; i < 8; i++)
		pool[i] = test_pool_create(fd, &id[i]);
	base = test_base(0);
	test_err_pool_create(EDQUOT, fd, default_pool);
	EXPECT_BASE(base, 0);
	/* The bound is of a client. */
	test_pool_create(other, &other_id);
	/* A pool that lives on in a block is one. */
	addr = test_alloc(fd, id[0], 512);
	close(pool[0]);
	test_err_pool_create(EDQUOT, fd, default_pool);
	test_free(fd, addr);
	test_pool_create(fd, &id[0]);
	test_err_pool_create(EDQUOT, fd, default_pool);
	test_empty_cache(pool[1], default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	test_pool_create(fd, &id[1]);
}

/* One that was not made holds no place. */
TEST_F(params, most_pools_after_failures)
{
	struct devpool_pool_create *cmd;
	struct rlimit limit, none;
	struct devpool_pool_id id;
	int fd;
	int i;

	ASSERT_EQ(0, load("sysmem=64M max_pools=8"));
	fd = test_open(0);
	cmd = mmap(NULL, TEST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, cmd);
	cmd->size = sizeof(*cmd);
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ));
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &limit));
	none = limit;
	none.rlim_cur = 0;
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
		test_err_pool_create(EMFILE, fd, default_pool);
		ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &limit));
		EXPECT_EQ(-EFAULT, devpool_raw(fd, DEVPOOL_IOC_POOL_CREATE, cmd));
		test_err_pool_create(ENOENT, fd, ((struct devpool_pool_id){ 0, 1 }));
	}
	EXPECT_EQ(0, devpool_sysfs(0, "pools"));
	for (i = 0; i < 8; i++)
		test_pool_create(fd, &id);
	test_err_pool_create(EDQUOT, fd, default_pool);
	EXPECT_EQ(8, devpool_sysfs(0, "pools"));
}

TEST_F(params, most_blocks)
{
	struct devpool_pool_stat before;
	struct devpool_pool_id id;
	struct devpool_alloc *cmd;
	__u64 addr[10];
	int fd, other;
	int i;

	ASSERT_EQ(0, load("sysmem=64M max_blocks=10"));
	fd = test_open(0);
	other = test_open(0);
	EXPECT_EQ(10, test_info(fd).out_max_blocks);
	test_pool_create(fd, &id);
	for (i = 0; i < 10; i++)
		addr[i] = test_alloc(fd, i % 2 ? id : default_pool, 512);
	before = test_pool_stat(fd, id);
	test_err_alloc(EDQUOT, fd, id, 512);
	before.out_ooms++;
	EXPECT_SAME(before, test_pool_stat(fd, id));
	test_alloc(other, default_pool, 512);
	test_free(fd, addr[3]);
	test_alloc(fd, default_pool, 512);
	test_err_alloc(EDQUOT, fd, default_pool, 512);
	/* A request that failed for another reason holds no place, */
	test_free(fd, addr[4]);
	for (i = 0; i < 20; i++)
		test_err_alloc(ENOSPC, fd, default_pool, GIB);
	/* nor does one whose answer had nowhere to go. */
	cmd = mmap(NULL, TEST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, cmd);
	cmd->size = sizeof(*cmd);
	cmd->bytes = 512;
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ));
	for (i = 0; i < 20; i++)
		EXPECT_EQ(-EFAULT, devpool_raw(fd, DEVPOOL_IOC_ALLOC, cmd));
	test_alloc(fd, default_pool, 512);
	test_err_alloc(EDQUOT, fd, default_pool, 512);
}

/* More than the client may have, in the middle of a batch */
TEST_F(params, most_blocks_of_a_batch)
{
	struct devpool_batch_op op = {
		.command = DEVPOOL_CMD_ALLOC,
		.bytes = 512,
	};
	struct devpool_batch_op ops[20];
	unsigned int i;
	int fd;

	ASSERT_EQ(0, load("sysmem=64M max_blocks=10"));
	fd = test_open(0);
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op;
	ASSERT_EQ(ARRAY_SIZE(ops), devpool_batch_raw(fd, ops, ARRAY_SIZE(ops)));
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		EXPECT_EQ(i < 10 ? 0 : -EDQUOT, ops[i].out_err);
	/* What is freed in a batch makes a place in it. */
	ops[0].command = DEVPOOL_CMD_FREE;
	ops[0].addr = ops[0].out_addr;
	ops[0].bytes = 0;
	ops[1] = op;
	ops[2] = op;
	ASSERT_EQ(3, devpool_batch_raw(fd, ops, 3));
	EXPECT_EQ(0, ops[0].out_err);
	EXPECT_EQ(0, ops[1].out_err);
	EXPECT_EQ(-EDQUOT, ops[2].out_err);
}

/* A retained block is held as one's own is. */
TEST_F(params, most_blocks_of_a_peer)
{
	struct devpool_pool_id id, same;
	__u64 addr[4], own;
	int fd, other;
	int i, pool;

	ASSERT_EQ(0, load("sysmem=64M max_blocks=4"));
	fd = test_open(0);
	other = test_open(0);
	pool = test_pool_create(fd, &id);
	test_pool_attach(other, pool, &same);
	for (i = 0; i < 4; i++)
		addr[i] = test_alloc(fd, id, 512);
	own = test_alloc(other, default_pool, 512);
	for (i = 0; i < 3; i++)
		test_retain(other, addr[i]);
	test_err_retain(EDQUOT, other, addr[3]);
	test_err_alloc(EDQUOT, other, id, 512);
	/* What one has already is another error, whatever the count. */
	test_err_retain(EBUSY, other, addr[0]);
	test_err_retain(ENOENT, other, addr[0] + 512 * 100);
	test_free(other, own);
	test_retain(other, addr[3]);
	test_err_alloc(EDQUOT, other, id, 512);
}

TEST_F(params, most_routes)
{
	struct devpool_pool_id id[5], theirs;
	int fd, other;
	int i;

	ASSERT_EQ(0, load("sysmem=64M max_routes=4"));
	fd = test_open(0);
	other = test_open(0);
	EXPECT_EQ(4, test_info(fd).out_max_routes);
	for (i = 0; i < 5; i++)
		test_pool_create(fd, &id[i]);
	for (i = 0; i < 3; i++)
		test_route_begin(fd, id[i], DEVPOOL_SCOPE_ALL);
	test_route_begin(fd, id[0], DEVPOOL_SCOPE_THREAD);
	test_err_route_begin(EDQUOT, fd, id[3], DEVPOOL_SCOPE_ALL);
	test_err_route_begin(EDQUOT, fd, id[3], DEVPOOL_SCOPE_THREAD);
	EXPECT_EQ(1, test_use_count(fd, id[3]));
	/* What stands already is another error, and no more than it was. */
	test_err_route_begin(EBUSY, fd, id[0], DEVPOOL_SCOPE_ALL);
	EXPECT_EQ(3, test_use_count(fd, id[0]));
	/* The bound is of a client. */
	test_pool_create(other, &theirs);
	test_route_begin(other, theirs, DEVPOOL_SCOPE_ALL);
	/* One that failed for another reason holds no place. */
	test_route_end(fd, id[1], DEVPOOL_SCOPE_ALL);
	for (i = 0; i < 20; i++) {
		test_err_route_begin(ENOENT, fd, theirs, DEVPOOL_SCOPE_ALL);
		test_err_route_begin(EBUSY, fd, id[0], DEVPOOL_SCOPE_ALL);
		test_err_route_begin(EINVAL, fd, default_pool, DEVPOOL_SCOPE_ALL);
	}
	test_route_begin(fd, id[3], DEVPOOL_SCOPE_ALL);
	test_err_route_begin(EDQUOT, fd, id[4], DEVPOOL_SCOPE_ALL);
	EXPECT_EQ(1, test_use_count(fd, id[4]));
}

TEST_F(params, no_routes_at_all)
{
	struct devpool_pool_id id;
	int fd, pool;

	ASSERT_EQ(0, load("sysmem=64M max_routes=0"));
	fd = test_open(0);
	EXPECT_EQ(0, test_info(fd).out_max_routes);
	pool = test_pool_create(fd, &id);
	test_err_route_begin(EDQUOT, fd, id, DEVPOOL_SCOPE_ALL);
	test_err_route_end(ENOENT, fd, id, DEVPOOL_SCOPE_ALL);
	close(pool);
	close(fd);
	ASSERT_EQ(0, unload());
	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	EXPECT_EQ(1024, test_info(fd).out_max_routes);
}

TEST_F(params, most_streams_of_a_client)
{
	__u32 stream[3];
	int fd, other;
	int i;

	ASSERT_EQ(0, load("sysmem=64M max_streams=3"));
	fd = test_open(0);
	other = test_open(0);
	EXPECT_EQ(3, test_info(fd).out_max_streams);
	for (i = 0; i < 3; i++)
		stream[i] = test_stream(fd, 0);
	test_err_stream(EDQUOT, fd, 0);
	test_err_stream(EDQUOT, fd, DEVPOOL_STREAM_FENCED);
	/* The bound is of a client, and a stream that ends makes room for one. */
	test_stream(other, 0);
	test_stream_destroy(fd, stream[1]);
	test_err_stream_destroy(ENOENT, fd, stream[1]);
	test_stream(fd, DEVPOOL_STREAM_FENCED);
	test_err_stream(EDQUOT, fd, 0);
}

TEST_F(params, no_streams_at_all)
{
	int fd;

	ASSERT_EQ(0, load("sysmem=64M max_streams=0"));
	fd = test_open(0);
	EXPECT_EQ(0, test_info(fd).out_max_streams);
	test_err_stream(EDQUOT, fd, 0);
	test_free(fd, test_alloc(fd, default_pool, 4 * KIB));
	close(fd);
	ASSERT_EQ(0, unload());
	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	EXPECT_EQ(4096, test_info(fd).out_max_streams);
	EXPECT_EQ(65536, test_info(fd).out_max_points);
}

TEST_F(params, most_open_points_of_a_stream)
{
	__u32 stream, another;
	__u64 point;
	int fd;

	ASSERT_EQ(0, load("sysmem=64M max_points=2"));
	fd = test_open(0);
	EXPECT_EQ(2, test_info(fd).out_max_points);
	stream = test_stream(fd, 0);
	another = test_stream(fd, 0);
	point = test_submit(fd, stream);
	test_submit(fd, stream);
	test_err_submit(EDQUOT, fd, .stream = stream);
	/* The bound is of a stream, and a point that signals makes room for one. */
	test_submit(fd, another);
	test_signal(fd, stream, point);
	EXPECT_EQ(point + 2, test_submit(fd, stream));
	test_err_submit(EDQUOT, fd, .stream = stream);
}

/* F12: not while somebody has it */

TEST_F(params, F12_unload_while_a_device_file_is_open)
{
	int fd;

	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	EXPECT_EQ(-EAGAIN, unload());
	EXPECT_EQ(0, devpool_free_raw(fd, test_alloc(fd, default_pool, 512)));
	close(fd);
	EXPECT_EQ(0, unload());
}

TEST_F(params, F12_unload_while_a_pool_file_is_open)
{
	struct devpool_pool_id id;
	int fd, pool;

	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	pool = test_pool_create(fd, &id);
	test_free(fd, test_alloc(fd, id, 4 * MIB));
	close(fd);
	EXPECT_EQ(-EAGAIN, unload());
	EXPECT_EQ(4 * MIB, test_resident(pool, default_pool));
	close(pool);
	EXPECT_EQ(0, unload());
}

TEST_F(params, F12_unload_while_a_mapping_stands)
{
	__u64 addr;
	char *p;
	int fd;

	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	addr = test_alloc(fd, default_pool, 4 * MIB);
	p = test_map(fd, addr, 4 * MIB);
	test_fill(p, 4 * MIB, 3);
	close(fd);
	EXPECT_EQ(-EAGAIN, unload());
	EXPECT_EQ(-1, test_differs(p, 4 * MIB, 3));
	munmap(p, 4 * MIB);
	EXPECT_EQ(0, unload());
}

/* Nobody has it any more but a driver, whose work goes on in what a client left. */
TEST_F(params, F12_unload_while_a_fence_is_open)
{
	struct test_fences fences = { .file = test_open_vgem() };
	__u32 stream, fence;
	__u64 addr;
	int fd, sync;

	ASSERT_LE(0, fences.file);
	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	stream = test_stream(fd, DEVPOOL_STREAM_FENCED);
	sync = test_fence(&fences, &fence);
	test_submit_opts(fd, .flags = DEVPOOL_SUBMIT_FENCE_IN, .stream = stream,
			 .in_fence = sync);
	close(sync);
	addr = test_alloc(fd, default_pool, 4 * MIB);
	test_record(fd, addr, stream);
	close(fd);
	EXPECT_EQ(4 * MIB, devpool_sysfs(0, "used"));
	EXPECT_EQ(-EAGAIN, unload());
	test_fence_signal(&fences, fence);
	EXPECT_SOON(!devpool_sysfs(0, "used"));
	EXPECT_EQ(0, unload());
}

/* Of a block that nobody has any more */
TEST_F(params, F12_unload_while_a_dma_buf_is_open)
{
	__u64 addr;
	int fd, buf;
	char *p;

	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	addr = test_alloc(fd, default_pool, 4 * MIB);
	buf = test_export(fd, addr);
	close(fd);
	EXPECT_EQ(-EAGAIN, unload());
	p = test_map(buf, 0, 4 * MIB);
	close(buf);
	EXPECT_EQ(-EAGAIN, unload());
	test_fill(p, 4 * MIB, 5);
	munmap(p, 4 * MIB);
	EXPECT_EQ(0, devpool_sysfs(0, "used"));
	EXPECT_EQ(0, unload());
}

/* Nobody has a dma-buf any more, but a driver works on its memory. */
TEST_F(params, F12_unload_while_a_dma_buf_has_a_fence)
{
	struct test_fences fences = { .file = test_open_vgem() };
	int fd, buf, sync;
	__u32 fence;

	ASSERT_LE(0, fences.file);
	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	buf = test_export(fd, test_alloc(fd, default_pool, 4 * MIB));
	sync = test_fence(&fences, &fence);
	ASSERT_EQ(0, test_buf_add_sync_raw(buf, sync));
	close(sync);
	close(buf);
	close(fd);
	EXPECT_EQ(4 * MIB, devpool_sysfs(0, "used"));
	EXPECT_EQ(-EAGAIN, unload());
	test_fence_signal(&fences, fence);
	EXPECT_SOON(!devpool_sysfs(0, "used"));
	/* The reference on the module is the last thing to go. */
	EXPECT_SOON(!unload() || !loaded());
}

/* A pool file of another's, which nobody has open by a descriptor of their own */
TEST_F(params, F12_unload_while_a_file_is_in_a_socket)
{
	struct devpool_pool_id id;
	int fd, pool;
	int sock[2];

	ASSERT_EQ(0, load("sysmem=64M"));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	fd = test_open(0);
	pool = test_pool_create(fd, &id);
	test_alloc(fd, id, 4 * MIB);
	ASSERT_EQ(0, test_send_fd(sock[1], pool));
	close(pool);
	close(fd);
	EXPECT_EQ(-EAGAIN, unload());
	pool = test_receive_fd(sock[0]);
	ASSERT_LE(0, pool);
	EXPECT_EQ(4 * MIB, test_resident(pool, default_pool));
	EXPECT_EQ(-EAGAIN, unload());
	close(pool);
	EXPECT_EQ(0, unload());
}

/* A peer's share outlives the creator, and so does the module. */
TEST_F(params, F12_unload_while_a_peer_has_a_block)
{
	struct devpool_pool_id id;
	int fd, other, pool;
	__u64 addr;

	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	other = test_open(0);
	pool = test_pool_create(fd, &id);
	test_pool_attach(other, pool, &id);
	addr = test_alloc(fd, id, 4 * MIB);
	test_retain(other, addr);
	close(pool);
	close(fd);
	test_pool_put(other, id);
	EXPECT_EQ(-EAGAIN, unload());
	EXPECT_EQ(4 * MIB, devpool_sysfs(0, "used"));
	test_free(other, addr);
	EXPECT_EQ(0, devpool_sysfs(0, "used"));
	EXPECT_EQ(-EAGAIN, unload());
	close(other);
	EXPECT_EQ(0, unload());
}

/* Spares, routes, limits and ids are no hindrance once the file is closed. */
TEST_F(params, F12_unload_after_a_client_that_left_everything)
{
	struct devpool_pool_id id[3];
	int fd, i;

	ASSERT_EQ(0, load("sysmem=64M"));
	for (i = 0; i < 3; i++) {
		fd = test_open(0);
		id[0] = test_pool_id(fd, 0);
		id[1] = test_pool_id(fd, DEVPOOL_POOL_ID_CAPTURE);
		test_pool_get(fd, id[0]);
		test_pool_get(fd, id[1]);
		close(test_pool_create(fd, &id[2]));
		test_route_begin(fd, id[0], DEVPOOL_SCOPE_ALL);
		test_route_begin(fd, id[1], DEVPOOL_SCOPE_THREAD);
		test_free(fd, test_alloc(fd, default_pool, 6 * MIB));
		test_alloc(fd, default_pool, 512);
		test_free(fd, test_alloc(fd, id[0], 6 * MIB));
		test_empty_cache(fd, id[0], DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, 0);
		test_pool_put(fd, id[1]);
		test_limit(fd, MIB);
		EXPECT_EQ(-EAGAIN, unload());
		close(fd);
	}
	EXPECT_EQ(0, devpool_sysfs(0, "used"));
	EXPECT_EQ(0, devpool_sysfs(0, "pools"));
	EXPECT_EQ(0, unload());
}

/* Views are not uses: what they show goes, and a read says so. */
TEST_F(params, F12_unload_while_somebody_looks_at_it)
{
	char text[4096];
	int fd, sysfs;

	ASSERT_EQ(0, load("sysmem=64M"));
	fd = test_open(0);
	test_alloc(fd, default_pool, 512);
	sysfs = open("/sys/class/devpool/devpool0/used", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, sysfs);
	ASSERT_LT(0, read(sysfs, text, sizeof(text)));
	close(fd);
	EXPECT_EQ(0, unload());
	EXPECT_EQ(-1, pread(sysfs, text, sizeof(text), 0));
	EXPECT_EQ(ENODEV, errno);
	close(sysfs);
	ASSERT_EQ(0, load("sysmem=64M"));
	EXPECT_EQ(0, devpool_sysfs(0, "used"));
}

#define DEBUGFS "/sys/kernel/debug/devpool/devpool0/pools"

/* The module's own code is at work as long as this file is open. */
TEST_F(params, F12_unload_while_the_debug_file_is_open)
{
	char text[4096];
	int fd, debug;
	int ret;

	ASSERT_EQ(0, load("sysmem=64M"));
	debug = open(DEBUGFS, O_RDONLY | O_CLOEXEC);
	if (debug < 0)
		SKIP(return, "there is no debugfs");
	fd = test_open(0);
	EXPECT_LT(0, read(debug, text, sizeof(text)));
	close(fd);
	ret = unload();
	EXPECT_TRUE(!ret || ret == -EAGAIN)
		TH_LOG("%d", ret);
	read(debug, text, sizeof(text));
	close(debug);
	if (ret)
		EXPECT_EQ(0, unload());
	EXPECT_NE(0, access(DEBUGFS, F_OK));
}

#define EVENTS "/sys/kernel/tracing/events/devpool"

static int write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

/* Whoever listens does not hold it, and hears nothing of the next one. */
TEST_F(params, F12_unload_while_its_events_are_traced)
{
	int i;

	test_catch();
	ASSERT_EQ(0, load("sysmem=64M"));
	if (access(EVENTS, F_OK))
		SKIP(return, "there is no tracefs");
	ASSERT_EQ(0, unload());
	EXPECT_NE(0, access(EVENTS, F_OK));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, load("sysmem=64M"));
		ASSERT_EQ(0, write_to(EVENTS "/enable", "1"));
		EXPECT_EQ(0, live_with(2 * MIB));
		EXPECT_EQ(0, unload());
		EXPECT_NE(0, access(EVENTS, F_OK));
	}
}

/* The worker may be in the middle of it. */
TEST_F(params, F12_unload_with_dirty_chunks)
{
	int fd, i;

	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, load("sysmem=64M clean_target=64M"));
		fd = test_open(0);
		test_alloc(fd, default_pool, 32 * MIB);
		close(fd);
		usleep(i * 5000);
		ASSERT_EQ(0, unload());
	}
}

/* What the kernel's caches hold, in bytes, and whether one of ours is there */
static long long slab_bytes(bool *ours)
{
	unsigned long active, size;
	long long sum = 0;
	char line[512];
	char name[64];
	FILE *f;

	*ours = false;
	f = fopen("/proc/slabinfo", "re");
	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%63s %lu %*u %lu", name, &active, &size) != 3)
			continue;
		sum += active * size;
		if (!strncmp(name, "devpool", 7))
			*ours = true;
	}
	fclose(f);
	return sum;
}

#define LOADS test_times(100)

/* A life between loading and unloading */
static int load_live_unload(void)
{
	struct devpool_pool_id id = {};
	int fd, pool, ret;
	__u64 a, b;
	char *p;

	ret = load("sysmem=64M,64M null=64T");
	if (ret)
		return ret;
	fd = devpool_open_node(0);
	if (fd < 0 || devpool_pool_create_raw(fd, &id, &pool) ||
	    devpool_alloc_raw(fd, id, 5 * MIB, &a) ||
	    devpool_alloc_raw(fd, default_pool, 512, &b))
		return -EIO;
	p = devpool_map_raw(fd, a, 5 * MIB);
	if (!p)
		return -EIO;
	test_fill(p, 5 * MIB, 1);
	munmap(p, 5 * MIB);
	close(pool);
	close(fd);
	return unload();
}

/* A load that fails does not wait for whoever has a node open by then. */
TEST_F_TIMEOUT(params, a_load_that_fails_shows_no_node, 120)
{
	pid_t pid;
	int i;

	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		for (;;) {
			if (open("/dev/devpool0", O_RDWR | O_CLOEXEC) >= 0)
				_exit(1);
		}
	}
	for (i = 0; i < test_times(40); i++)
		EXPECT_EQ(-EINVAL, load("sysmem=8M,8M,8M,8M,8M,8M,8M,8M null=64T,xyz"));
	EXPECT_EQ(-SIGKILL, test_kill(pid));
}

/* A request that takes long ends when its process does. */
TEST_F_TIMEOUT(params, a_huge_request_can_be_killed, 120)
{
	struct devpool_info info;
	__u64 addr;
	pid_t pid;
	int fd;

	ASSERT_EQ(0, load("sysmem= null=64T chunk=4K"));
	fd = open("/dev/devpool0", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	info = test_info(fd);
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		devpool_alloc_raw(fd, default_pool, info.out_bytes, &addr);
		_exit(1);
	}
	sleep(1);
	EXPECT_EQ(-SIGKILL, test_kill(pid));
	EXPECT_EQ(0, devpool_sysfs(0, "used"));
	close(fd);
}

TEST_F_TIMEOUT(params, nothing_stays_behind, 120)
{
	long long slabs, before, after = 0, free, lost = 0;
	bool ours;
	int i;

	/* What the first ones take for good is the kernel's own. */
	for (i = 0; i < LOADS / 2; i++)
		ASSERT_EQ(0, load_live_unload());
	slabs = slab_bytes(&ours);
	EXPECT_FALSE(ours);
	if (slabs < 0)
		SKIP(return, "no /proc/slabinfo");
	usleep(200000);
	before = slab_bytes(&ours) + test_meminfo("VmallocUsed") + test_meminfo("Percpu");
	free = test_meminfo("MemFree");
	for (i = 0; i < LOADS; i++) {
		ASSERT_EQ(0, load_live_unload());
		/* And one that fails half-way */
		ASSERT_EQ(-EINVAL, load("sysmem=64M,64M null=64T,xyz"));
	}
	/*
	 * Some memory comes back a moment later, and each processor keeps some huge
	 * pages that are free but not MemFree. One chunk lost by each load would be
	 * twice the bound, for good.
	 */
	for (i = 0; i < 50; i++) {
		usleep(200000);
		after = slab_bytes(&ours) + test_meminfo("VmallocUsed") + test_meminfo("Percpu");
		lost = free - test_meminfo("MemFree");
		if (after - before < LOADS * 4096 && lost < LOADS * 1024 * 1024)
			break;
	}
	EXPECT_FALSE(ours);
	TH_LOG("slabs and vmalloc %+lld, free memory %+lld bytes", after - before, -lost);
	EXPECT_GT(LOADS * 4096, after - before);
	EXPECT_GT(LOADS * 1024 * 1024, lost);
}

/* For whatever comes after this program */
static pid_t first;

static void load_again(void)
{
	const char *params = getenv("DEVPOOL_PARAMS");
	int ret;

	if (getpid() != first || !getenv("DEVPOOL_KO"))
		return;
	if (loaded())
		unload();
	ret = load(params ?: "");
	if (ret)
		printf("# loading again: %s\n", strerror(-ret));
}

int main(int argc, char **argv)
{
	first = getpid();
	atexit(load_again);
	return test_harness_run(argc, argv);
}
