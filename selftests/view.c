// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looking inside, and the administrator's ways in: fdinfo, sysfs, debugfs, trace
 * events, and memory that is wanted back.
 */
#include <pthread.h>

#include "devpool_test.h"

#define TRACEFS "/sys/kernel/tracing"

FIXTURE(view)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	__u64 chunk;
	int pool;
	int index;
	int fd;
};

FIXTURE_VARIANT(view)
{
	enum test_kind kind;
};

FIXTURE_VARIANT_ADD(view, sysmem) { .kind = TEST_SYSMEM };
FIXTURE_VARIANT_ADD(view, null) { .kind = TEST_NULL };

FIXTURE_SETUP(view)
{
	test_setup(self, variant->kind);
	self->chunk = self->info.out_chunk;
	self->pool = test_pool_create(self->fd, &self->id);
}

FIXTURE_TEARDOWN(view)
{
}

#define CHUNKS(n) ((n) * self->chunk)

/* A file in one go: 0, or -errno */
static int write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, strlen(text)) == strlen(text) ? 0 : -errno;
	close(fd);
	return ret;
}

/* All of a file, -1 if it cannot be read or does not fit */
static int read_from(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t ret = 1;
	size_t n = 0;

	if (fd < 0)
		return -1;
	while (n < size - 1 && ret > 0) {
		ret = read(fd, text + n, size - 1 - n);
		n += ret > 0 ? ret : 0;
	}
	close(fd);
	text[n] = 0;
	return ret ? -1 : n;
}

/* fdinfo */

/* Counters of either kind, as the file has them */
#define EXPECT_FDINFO(fd, stat)							\
do {										\
	const __typeof__(stat) _is = (stat);					\
										\
	EXPECT_EQ(_is.out_allocated.current, test_fdinfo_number(fd, "allocated")); \
	EXPECT_EQ(_is.out_requested.current, test_fdinfo_number(fd, "requested")); \
	EXPECT_EQ(_is.out_active.current, test_fdinfo_number(fd, "active"));	\
	EXPECT_EQ(_is.out_resident.current, test_fdinfo_number(fd, "resident")); \
	EXPECT_EQ(_is.out_resident.peak, test_fdinfo_number(fd, "peak-resident")); \
	EXPECT_EQ(_is.out_spare.current, test_fdinfo_number(fd, "spare"));	\
	EXPECT_EQ(_is.out_blocks.current, test_fdinfo_number(fd, "blocks"));	\
	EXPECT_EQ(_is.out_hits, test_fdinfo_number(fd, "hits"));		\
	EXPECT_EQ(_is.out_recycles, test_fdinfo_number(fd, "recycles"));	\
	EXPECT_EQ(_is.out_grows, test_fdinfo_number(fd, "grows"));		\
	EXPECT_EQ(_is.out_fallbacks, test_fdinfo_number(fd, "fallbacks"));	\
	EXPECT_EQ(_is.out_reclaims, test_fdinfo_number(fd, "reclaims"));	\
	EXPECT_EQ(_is.out_waits, test_fdinfo_number(fd, "waits"));		\
	EXPECT_EQ(_is.out_ooms, test_fdinfo_number(fd, "ooms"));		\
	EXPECT_EQ(_is.out_flushes, test_fdinfo_number(fd, "flushes"));		\
	EXPECT_EQ(_is.out_zeroed_bytes, test_fdinfo_number(fd, "zeroed-bytes")); \
} while (0)

#define EXPECT_FDINFO_BOTH()							\
do {										\
	EXPECT_FDINFO(self->pool, test_pool_stat(self->pool, default_pool));	\
	EXPECT_FDINFO(self->fd, test_stats(self->fd));				\
} while (0)

TEST_F(view, fdinfo_says_what_the_counters_say)
{
	__u64 addr[3];
	__u64 spare;
	int i;

	EXPECT_FDINFO_BOTH();
	for (i = 0; i < 3; i++)
		addr[i] = test_alloc(self->fd, self->id, CHUNKS(2) - 100);
	EXPECT_FDINFO_BOTH();
	test_free(self->fd, addr[0]);
	test_free(self->fd, addr[2]);
	EXPECT_FDINFO_BOTH();
	test_alloc(self->fd, self->id, CHUNKS(4));
	EXPECT_FDINFO_BOTH();
	test_free(self->fd, addr[1]);
	addr[1] = test_alloc_opts(self->fd, .pool = self->id, .bytes = CHUNKS(1),
				  .flags = DEVPOOL_ALLOC_ZERO).out_addr;
	EXPECT_FDINFO_BOTH();
	test_empty_cache(self->pool, default_pool,
			 DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, 0);
	EXPECT_FDINFO_BOTH();
	test_err_alloc(ENOSPC, self->fd, self->id, self->info.out_bytes + 1);
	test_free(self->fd, test_alloc(self->fd, default_pool, CHUNKS(3)));
	EXPECT_FDINFO_BOTH();
	/* Takes the spares, and from the default pool */
	spare = test_pool_stat(self->pool, default_pool).out_spare.current;
	EXPECT_NE(0, spare);
	test_limit(self->fd, test_stats(self->fd).out_resident.current + spare);
	test_alloc(self->fd, self->id, spare + CHUNKS(2));
	EXPECT_FDINFO_BOTH();
	test_empty_cache(self->pool, default_pool, DEVPOOL_EMPTY_TRIM, 0);
	EXPECT_FDINFO_BOTH();
	EXPECT_NE(0, test_pool_stat(self->pool, default_pool).out_recycles);
	EXPECT_NE(0, test_pool_stat(self->pool, default_pool).out_reclaims);
}

TEST_F(view, fdinfo_of_a_device_file)
{
	struct devpool_pool_id ids[3];
	char comm[16] = {};
	char name[16];
	__u64 client;
	int other;
	int i;

	prctl(PR_GET_NAME, comm);
	snprintf(name, sizeof(name), "devpool%d", self->index);
	EXPECT_STREQ(name, devpool_fdinfo(self->fd, "device"));
	EXPECT_EQ(getpid(), test_fdinfo_number(self->fd, "pid"));
	EXPECT_STREQ(comm, devpool_fdinfo(self->fd, "comm"));
	client = test_fdinfo_number(self->fd, "client-id");
	EXPECT_NE(0, client);
	EXPECT_EQ(client, test_fdinfo_number(dup(self->fd), "client-id"));
	other = test_open(self->index);
	EXPECT_LT(client, test_fdinfo_number(other, "client-id"));
	EXPECT_EQ(0, test_fdinfo_number(other, "pools"));
	for (i = 0; i < 3; i++)
		test_pool_create(other, &ids[i]);
	EXPECT_EQ(3, test_fdinfo_number(other, "pools"));
	EXPECT_EQ(1, test_fdinfo_number(self->fd, "pools"));
	EXPECT_EQ(0, test_fdinfo_number(other, "limit"));
	test_limit(other, CHUNKS(5) - 1);
	EXPECT_EQ(CHUNKS(5), test_fdinfo_number(other, "limit"));
	EXPECT_EQ(0, test_fdinfo_number(self->fd, "limit"));
	test_limit(other, 0);
	EXPECT_EQ(0, test_fdinfo_number(other, "limit"));
}

/* Blocks that a client holds, whoever's they are */
TEST_F(view, fdinfo_of_a_peer)
{
	struct devpool_pool_id id;
	__u64 addr[2];
	int other;

	other = test_open(self->index);
	test_pool_attach(other, self->pool, &id);
	EXPECT_EQ(0, test_fdinfo_number(other, "blocks-held"));
	addr[0] = test_alloc(self->fd, self->id, CHUNKS(1));
	addr[1] = test_alloc(other, id, CHUNKS(1));
	test_retain(other, addr[0]);
	EXPECT_EQ(2, test_fdinfo_number(other, "blocks-held"));
	EXPECT_EQ(1, test_fdinfo_number(self->fd, "blocks-held"));
	/* The pool is its creator's, and so are its bytes. */
	EXPECT_EQ(0, test_fdinfo_number(other, "allocated"));
	EXPECT_EQ(CHUNKS(2), test_fdinfo_number(self->fd, "allocated"));
	EXPECT_EQ(0, test_fdinfo_number(other, "pools"));
	test_free(other, addr[0]);
	test_free(other, addr[1]);
	EXPECT_EQ(0, test_fdinfo_number(other, "blocks-held"));
	EXPECT_EQ(1, test_fdinfo_number(self->fd, "blocks-held"));
}

TEST_F(view, fdinfo_of_a_pool_file)
{
	struct devpool_pool_id id;
	char text[64];
	int pool;

	snprintf(text, sizeof(text), "devpool%d", self->index);
	EXPECT_STREQ(text, devpool_fdinfo(self->pool, "device"));
	snprintf(text, sizeof(text), "%llu:%llu", self->id.first, self->id.second);
	EXPECT_STREQ(text, devpool_fdinfo(self->pool, "pool"));
	EXPECT_EQ(test_fdinfo_number(self->fd, "client-id"),
		  test_fdinfo_number(self->pool, "client-id"));
	EXPECT_STREQ("live", devpool_fdinfo(self->pool, "state"));
	EXPECT_EQ(1, test_fdinfo_number(self->pool, "use-count"));
	test_pool_get(self->fd, self->id);
	EXPECT_EQ(2, test_fdinfo_number(self->pool, "use-count"));
	EXPECT_EQ(0, test_fdinfo_number(self->pool, "limit"));
	EXPECT_EQ(-1ULL, test_fdinfo_number(self->pool, "release-threshold"));
	test_pool_set_attr(self->pool, default_pool, DEVPOOL_ATTR_LIMIT, CHUNKS(3) + 1);
	test_pool_set_attr(self->pool, default_pool, DEVPOOL_ATTR_RELEASE_THRESHOLD, 777);
	EXPECT_EQ(CHUNKS(4), test_fdinfo_number(self->pool, "limit"));
	EXPECT_EQ(777, test_fdinfo_number(self->pool, "release-threshold"));
	/* Released, whether the pool lives on or not */
	test_empty_cache(self->pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_STREQ("released", devpool_fdinfo(self->pool, "state"));
	pool = test_pool_create(self->fd, &id);
	test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	EXPECT_STREQ("released", devpool_fdinfo(pool, "state"));
}

/* Whoever may look at a process sees what its files hold, and by whom they are. */
TEST_F(view, fdinfo_of_another_process)
{
	char path[64], line[64];
	char text[4096];
	int ready[2];
	char byte;
	pid_t pid;
	int fd;

	ASSERT_EQ(0, pipe(ready));
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		__u64 addr;

		fd = devpool_open_node(self->index);
		if (fd < 0 || devpool_alloc_raw(fd, default_pool, CHUNKS(3), &addr) ||
		    write(ready[1], &fd, sizeof(fd)) != sizeof(fd))
			_exit(1);
		pause();
	}
	ASSERT_EQ(sizeof(fd), read(ready[0], &fd, sizeof(fd)));
	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", pid, fd);
	ASSERT_LT(0, read_from(path, text, sizeof(text)));
	snprintf(line, sizeof(line), "\ndevpool-allocated:\t%llu\n", CHUNKS(3));
	EXPECT_NE(NULL, strstr(text, line));
	snprintf(line, sizeof(line), "\ndevpool-pid:\t%d\n", pid);
	EXPECT_NE(NULL, strstr(text, line));
	EXPECT_EQ(-SIGKILL, test_kill(pid));
	EXPECT_GT(0, read_from(path, &byte, 1));
}

/* A name cannot make a line of its own. */
TEST_F(view, fdinfo_of_a_client_with_a_strange_name)
{
	const char *comm;
	int fd;

	prctl(PR_SET_NAME, "a\ndevpool-x:\t1");
	fd = test_open(self->index);
	EXPECT_STREQ("", devpool_fdinfo(fd, "x"));
	comm = devpool_fdinfo(fd, "comm");
	EXPECT_EQ('a', comm[0]);
	EXPECT_EQ(NULL, strchr(comm, '\t'));
	EXPECT_LT(1, strlen(comm));
}

/* Pools come and go while somebody reads. */
struct life {
	bool stop;
	int rounds;
	int wrong;
	int index;
	int fd;
};

/* A pool of one client's, which ends with a block of it */
static int live_once(int fd)
{
	struct devpool_pool_id id = {};
	__u64 addr;
	int pool;

	if (devpool_pool_create_raw(fd, &id, &pool))
		return __LINE__;
	if (devpool_alloc_raw(fd, id, MIB, &addr))
		return __LINE__;
	close(pool);
	return devpool_free_raw(fd, addr) ? __LINE__ : 0;
}

static void *live_and_die(void *arg)
{
	struct life *l = arg;

	while (!__atomic_load_n(&l->stop, __ATOMIC_RELAXED)) {
		struct devpool_pool_id id = {};
		int fd = devpool_open_node(l->index);
		__u64 addr;
		int pool;

		l->wrong = l->wrong ?: live_once(l->fd);
		/* And one that outlives its client */
		if (fd < 0 || devpool_pool_create_raw(fd, &id, &pool) ||
		    devpool_alloc_raw(fd, id, MIB, &addr)) {
			l->wrong = __LINE__;
			break;
		}
		close(fd);
		close(pool);
		__atomic_add_fetch(&l->rounds, 1, __ATOMIC_RELAXED);
	}
	/* For whoever waits for so many */
	__atomic_store_n(&l->rounds, INT_MAX, __ATOMIC_RELAXED);
	return NULL;
}

TEST_F_TIMEOUT(view, everything_while_pools_and_clients_come_and_go, 120)
{
	struct life l = { .index = self->index, .fd = self->fd };
	struct devpool_pool_stat before;
	static char text[1 << 16];
	pthread_t thread;
	char path[64];
	int reads = 0;

	snprintf(path, sizeof(path), "/sys/kernel/debug/devpool/devpool%d/pools", self->index);
	test_alloc(self->fd, self->id, CHUNKS(2));
	before = test_pool_stat(self->pool, default_pool);
	ASSERT_EQ(0, pthread_create(&thread, NULL, live_and_die, &l));
	while (reads < 50 || __atomic_load_n(&l.rounds, __ATOMIC_RELAXED) < 50) {
		EXPECT_EQ(CHUNKS(2), test_fdinfo_number(self->pool, "resident"));
		EXPECT_LE(CHUNKS(2), test_fdinfo_number(self->fd, "resident"));
		EXPECT_LE(2, devpool_sysfs(self->index, "pools") + 1);
		EXPECT_LE(CHUNKS(2), devpool_sysfs(self->index, "used"));
		EXPECT_LE(CHUNKS(2), test_stats_device(self->fd).out_resident.current);
		if (!access(path, R_OK))
			EXPECT_LT(0, read_from(path, text, sizeof(text)));
		reads++;
	}
	__atomic_store_n(&l.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, l.wrong);
	EXPECT_SAME(before, test_pool_stat(self->pool, default_pool));
}

/* sysfs: what is to stay in stock */

static void trim_path(char *path, size_t size, int index)
{
	snprintf(path, size, "/sys/class/devpool/devpool%d/trim", index);
}

static int trim(int index, __u64 bytes)
{
	char path[64], text[32];

	trim_path(path, sizeof(path), index);
	snprintf(text, sizeof(text), "%llu\n", bytes);
	return write_to(path, text);
}

#define STOCK() ((__u64)(devpool_sysfs(self->index, "clean") +			\
			 devpool_sysfs(self->index, "dirty")))

/* Chunks come into the stock and are clean in the end. */
#define FILL_STOCK()								\
({										\
	test_free(self->fd, test_alloc(self->fd, default_pool, CHUNKS(16)));	\
	test_empty_cache(self->fd, default_pool, 0, 0);				\
	test_settled_stock(self->index);						\
})

TEST_F(view, trim_leaves_so_many_bytes_in_stock)
{
	__u64 stock;

	if (variant->kind == TEST_NULL) {
		/* No memory, so none to give back */
		stock = STOCK();
		EXPECT_EQ(0, trim(self->index, 0));
		EXPECT_EQ(stock, STOCK());
		return;
	}
	test_settled_stock(self->index);
	EXPECT_EQ(0, trim(self->index, 0));
	EXPECT_EQ(0, STOCK());
	stock = FILL_STOCK();
	ASSERT_LE(CHUNKS(4), stock);
	EXPECT_EQ(0, trim(self->index, -1ULL));
	EXPECT_EQ(stock, STOCK());
	EXPECT_EQ(0, trim(self->index, stock));
	EXPECT_EQ(stock, STOCK());
	EXPECT_EQ(0, trim(self->index, CHUNKS(3)));
	EXPECT_EQ(CHUNKS(3), STOCK());
	/* A part of a chunk is not left. */
	EXPECT_EQ(0, trim(self->index, CHUNKS(2) - 1));
	EXPECT_EQ(CHUNKS(1), STOCK());
	EXPECT_EQ(0, trim(self->index, 0));
	EXPECT_EQ(0, STOCK());
}

/* What pools own is not stock. */
TEST_F(view, trim_leaves_pools_alone)
{
	struct devpool_pool_stat before;
	struct devpool_stats stats;
	char *p = NULL;
	__u64 live;

	live = test_alloc(self->fd, self->id, CHUNKS(2));
	test_free(self->fd, test_alloc(self->fd, self->id, CHUNKS(3)));
	if (variant->kind != TEST_NULL) {
		p = test_map(self->fd, live, CHUNKS(2));
		test_fill(p, CHUNKS(2), 9);
	}
	FILL_STOCK();
	before = test_pool_stat(self->pool, default_pool);
	stats = test_stats(self->fd);
	EXPECT_EQ(0, trim(self->index, 0));
	EXPECT_SAME(before, test_pool_stat(self->pool, default_pool));
	EXPECT_SAME(stats, test_stats(self->fd));
	EXPECT_EQ(CHUNKS(5), devpool_sysfs(self->index, "used"));
	if (p)
		EXPECT_EQ(-1, test_differs(p, CHUNKS(2), 9));
	/* The next request takes new memory. */
	test_alloc(self->fd, self->id, CHUNKS(8));
}

TEST_F(view, trim_of_nonsense)
{
	static const char nonsense[][32] = {
		"\n", " ", "x", "abc", "-1", "-0", "+-1", "1 2", "1x", "0x", "1.5", "1M", "2M\n\n",
		"18446744073709551616", "99999999999999999999999999", "0x1ffffffffffffffff", "#",
	};
	char path[64];
	__u64 stock = 0;
	int fd, i;

	trim_path(path, sizeof(path), self->index);
	if (variant->kind != TEST_NULL)
		stock = FILL_STOCK();
	else
		stock = STOCK();
	for (i = 0; i < ARRAY_SIZE(nonsense); i++)
		EXPECT_EQ(-EINVAL, write_to(path, nonsense[i]))
			TH_LOG("\"%s\"", nonsense[i]);
	/* Bytes that are no text */
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, write(fd, "\377\377", 2));
	EXPECT_EQ(EINVAL, errno);
	close(fd);
	EXPECT_EQ(stock, STOCK());
}

TEST_F(view, trim_is_for_root_and_for_writing)
{
	struct stat st;
	char path[64];
	pid_t pid;

	trim_path(path, sizeof(path), self->index);
	ASSERT_EQ(0, stat(path, &st));
	EXPECT_EQ(0200, st.st_mode & 0777);
	EXPECT_EQ(0, st.st_uid);
	EXPECT_GT(0, open(path, O_RDONLY | O_CLOEXEC));
	EXPECT_EQ(EACCES, errno);
	pid = test_fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (setresuid(1000, 1000, 1000))
			_exit(255);
		_exit(-write_to(path, "0"));
	}
	EXPECT_EQ(EACCES, test_wait(pid));
}

/* Memory that the system wants back */

FIXTURE(pressure)
{
	struct devpool_info info;
	struct test_base base;
	struct devpool_pool_id id;
	struct devpool_stats stats;
	__u64 chunk;
	__u64 stock;
	char *p;
	int pool;
	int index;
	int fd;
};

/* Live, cached and spare chunks, and a stock */
FIXTURE_SETUP(pressure)
{
	__u64 live;

	test_setup(self, TEST_SYSMEM);
	self->chunk = self->info.out_chunk;
	self->pool = test_pool_create(self->fd, &self->id);
	live = test_alloc(self->fd, self->id, CHUNKS(4));
	self->p = test_map(self->fd, live, CHUNKS(4));
	test_fill(self->p, CHUNKS(4), 9);
	test_free(self->fd, test_alloc(self->fd, self->id, CHUNKS(2)));
	test_empty_cache(self->pool, default_pool,
			 DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, 0);
	test_free(self->fd, test_alloc(self->fd, self->id, CHUNKS(3)));
	self->stock = FILL_STOCK();
	ASSERT_LE(CHUNKS(4), self->stock);
	self->stats = test_stats(self->fd);
}

/* Only the stock went, and the device has as much to give as before. */
FIXTURE_TEARDOWN(pressure)
{
	if (self->fd < 0)
		return;
	EXPECT_SAME(self->stats, test_stats(self->fd));
	EXPECT_EQ(CHUNKS(7), devpool_sysfs(self->index, "used"));
	EXPECT_EQ(-1, test_differs(self->p, CHUNKS(4), 9));
	test_free(self->fd, test_alloc(self->fd, default_pool, CHUNKS(32)));
}

TEST_F(pressure, dropped_caches_are_the_stock)
{
	if (write_to("/proc/sys/vm/drop_caches", "2"))
		SKIP(return, "there is no drop_caches");
	EXPECT_EQ(0, STOCK());
}

/* As much as all that is free, in small steps, until the stock goes or all is gone. */
TEST_F_TIMEOUT(pressure, a_machine_without_memory_gets_the_stock, 120)
{
	const size_t step = 4 * MIB;
	long long least;
	char text[32];
	size_t i, j, n;
	char *p;

	ASSERT_LT(0, read_from("/proc/sys/vm/min_free_kbytes", text, sizeof(text)));
	/* Half of what the kernel itself would never go below */
	least = strtoll(text, NULL, 10) * 1024 / 2;
	n = test_meminfo("MemTotal") / step;
	p = mmap(NULL, n * step, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	/* Fewer faults, where there are huge pages */
	madvise(p, n * step, MADV_HUGEPAGE);
	for (i = 0; i < n && STOCK() >= self->stock; i++) {
		ASSERT_LT(least, test_meminfo("MemFree"))
			TH_LOG("there is no memory, but a stock of %llu bytes", STOCK());
		for (j = 0; j < step; j += TEST_PAGE)
			p[i * step + j] = 1;
		if (test_meminfo("MemFree") < 4 * least)
			usleep(20000);
	}
	TH_LOG("%zu MiB taken, %llu bytes of %llu left in stock", i * step / MIB, STOCK(),
	       self->stock);
	EXPECT_GT(self->stock, STOCK());
	munmap(p, n * step);
}

/* debugfs: a line for each pool */

/* The line of a pool in what was read, cut off there; NULL if there is none */
static char *pool_line(char *text, struct devpool_pool_id id, __u64 client)
{
	char head[80];
	char *line;

	snprintf(head, sizeof(head), "%llu:%llu client=%llu ", id.first, id.second, client);
	line = text;
	while (line && strncmp(line, head, strlen(head))) {
		line = strchr(line, '\n');
		line += !!line;
	}
	if (line)
		line[strcspn(line, "\n")] = 0;
	return line;
}

#define EXPECT_SAYS(line, ...)							\
do {										\
	char _word[64];								\
										\
	snprintf(_word, sizeof(_word), " " __VA_ARGS__);			\
	EXPECT_NE(NULL, strstr(line, _word))					\
		TH_LOG("no \"%s\" in \"%s\"", _word, line);			\
} while (0)

#define READ_POOLS()								\
({										\
	char _path[64];								\
										\
	snprintf(_path, sizeof(_path), "/sys/kernel/debug/devpool/devpool%d/pools", \
		 self->index);							\
	if (access(_path, R_OK))						\
		SKIP(return, "there is no debugfs");				\
	ASSERT_LT(0, read_from(_path, text, sizeof(text)));			\
	text;									\
})

TEST_F(view, debugfs_lists_the_pools)
{
	__u64 client = test_fdinfo_number(self->fd, "client-id");
	struct devpool_pool_stat stat;
	struct devpool_pool_id id;
	static char text[1 << 16];
	char *line;
	int other;

	other = test_open(self->index);
	test_alloc(self->fd, self->id, CHUNKS(3));
	test_free(self->fd, test_alloc(self->fd, self->id, CHUNKS(2)));
	test_empty_cache(self->fd, self->id, DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, 0);
	test_pool_get(self->fd, self->id);
	line = pool_line(READ_POOLS(), self->id, client);
	ASSERT_NE(NULL, line);
	stat = test_pool_stat(self->pool, default_pool);
	EXPECT_EQ(CHUNKS(2), stat.out_spare.current);
	EXPECT_SAYS(line, "pid=%d ", getpid());
	EXPECT_SAYS(line, "state=live ");
	EXPECT_SAYS(line, "use_count=2 ");
	EXPECT_SAYS(line, "blocks=1 ");
	EXPECT_SAYS(line, "allocated=%llu ", stat.out_allocated.current);
	EXPECT_SAYS(line, "resident=%llu ", stat.out_resident.current);
	EXPECT_SAYS(line, "spare=%llu", stat.out_spare.current);
	/* Default pools are there as well, each client's own. */
	EXPECT_NE(NULL, pool_line(READ_POOLS(), default_pool, client));
	EXPECT_NE(NULL, pool_line(READ_POOLS(), default_pool,
				  test_fdinfo_number(other, "client-id")));
	/* One that is gone is not. */
	close(test_pool_create(self->fd, &id));
	EXPECT_EQ(NULL, pool_line(READ_POOLS(), id, client));
}

/* It says what no other client is to know. */
TEST_F(view, debugfs_is_for_root)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/sys/kernel/debug/devpool/devpool%d/pools", self->index);
	if (access(path, F_OK))
		SKIP(return, "there is no debugfs");
	ASSERT_EQ(0, stat(path, &st));
	EXPECT_EQ(0400, st.st_mode & 0777);
	EXPECT_EQ(0, st.st_uid);
}

/* Trace events */

static char trace[1 << 20];

static void clear_trace(void)
{
	close(open(TRACEFS "/trace", O_WRONLY | O_TRUNC | O_CLOEXEC));
}

#define TRACE_BEGIN()								\
do {										\
	if (access(TRACEFS "/events/devpool/enable", W_OK))			\
		SKIP(return, "there is no tracefs");				\
	clear_trace();								\
	ASSERT_EQ(0, write_to(TRACEFS "/events/devpool/enable", "1"));		\
	ASSERT_EQ(0, write_to(TRACEFS "/tracing_on", "1"));			\
} while (0)

/* What came since, in trace */
#define TRACE_END()								\
do {										\
	ASSERT_EQ(0, write_to(TRACEFS "/events/devpool/enable", "0"));		\
	ASSERT_LT(0, read_from(TRACEFS "/trace", trace, sizeof(trace)));	\
	clear_trace();								\
} while (0)

/* How many events there are that begin so */
static int events(const char *what)
{
	const char *p = trace;
	int n = 0;

	while ((p = strstr(p, what))) {
		p += strlen(what);
		/* A number that goes on is another one. */
		n += *p == ' ' || *p == '\n';
	}
	return n;
}

#define EXPECT_EVENTS(n, name, id, ...)						\
do {										\
	char _event[160];							\
	int _len;								\
										\
	_len = snprintf(_event, sizeof(_event), ": devpool_" name		\
			": device=%d pool=%llu:%llu", self->index,		\
			(id).first, (id).second);				\
	snprintf(_event + _len, sizeof(_event) - _len, " " __VA_ARGS__);	\
	EXPECT_EQ(n, events(_event))						\
		TH_LOG("%s", _event);						\
} while (0)

TEST_F(view, trace_events_say_what_happens)
{
	struct devpool_pool_id id, minted;
	__u64 addr, bytes;
	int pool;

	TRACE_BEGIN();
	pool = test_pool_create_opts(self->fd, &id, .limit = CHUNKS(10));
	ASSERT_EQ(0, devpool_alloc_align_raw(self->fd, id, CHUNKS(3) - 100, 0, &addr, &bytes));
	test_free(self->fd, addr);
	test_pool_get(self->fd, id);
	test_pool_put(self->fd, id);
	test_empty_cache(pool, default_pool, DEVPOOL_EMPTY_TRIM, 0);
	test_err_alloc(ENOSPC, self->fd, id, self->info.out_bytes + 1);
	test_err_alloc(EDQUOT, self->fd, id, CHUNKS(11));
	/* Takes what it needs of the default pool's cache */
	test_free(self->fd, test_alloc(self->fd, default_pool, CHUNKS(4)));
	test_limit(self->fd, CHUNKS(5));
	test_alloc(self->fd, id, CHUNKS(3));
	close(pool);
	minted = test_pool_id(self->fd, DEVPOOL_POOL_ID_CAPTURE);
	test_pool_get(self->fd, minted);
	test_pool_put(self->fd, minted);
	TRACE_END();

	EXPECT_EVENTS(1, "pool_create", id, "use_count=1");
	EXPECT_EVENTS(2, "chunks_in", id, "bytes=%llu", CHUNKS(3));
	EXPECT_EVENTS(1, "alloc", id, "addr=0x%llx bytes=%llu requested=%llu", addr, bytes,
		      CHUNKS(3) - 100);
	EXPECT_EVENTS(1, "free", id, "addr=0x%llx bytes=%llu requested=%llu", addr, bytes,
		      CHUNKS(3) - 100);
	EXPECT_EVENTS(1, "pool_get", id, "use_count=2");
	EXPECT_EVENTS(1, "pool_put", id, "use_count=1");
	EXPECT_EVENTS(1, "flush", id, "bytes=%llu", CHUNKS(3));
	EXPECT_EVENTS(1, "oom", id, "bytes=%llu error=%d",
		      round_to(self->info.out_bytes + 1, TEST_PAGE), -ENOSPC);
	EXPECT_EVENTS(1, "oom", id, "bytes=%llu error=%d", CHUNKS(11), -EDQUOT);
	EXPECT_EVENTS(1, "chunks_in", default_pool, "bytes=%llu", CHUNKS(4));
	EXPECT_EVENTS(1, "reclaim", default_pool, "bytes=%llu", CHUNKS(2));
	/* A block keeps it. */
	EXPECT_EVENTS(0, "pool_gone", id, "use_count=0");
	EXPECT_EVENTS(1, "pool_create", minted, "use_count=1");
	EXPECT_EVENTS(1, "pool_put", minted, "use_count=0");
	EXPECT_EVENTS(1, "pool_gone", minted, "use_count=0");
	/* Others' pools had no part in it. */
	EXPECT_EVENTS(0, "chunks_in", self->id, "bytes=%llu", CHUNKS(3));
}

/* The line of the first event that begins so, NULL if there is none */
static const char *event_line(const char *what)
{
	const char *p = strstr(trace, what);

	while (p && p > trace && p[-1] != '\n')
		p--;
	return p;
}

/* Is it of this thread? Its name is the kernel's business, which may have missed it. */
static bool event_is_mine(const char *line)
{
	char tail[16];
	const char *p;

	snprintf(tail, sizeof(tail), "-%d ", (int)gettid());
	p = line ? strstr(line, tail) : NULL;
	return p && p < strchr(line, '[');
}

TEST_F(view, trace_events_of_a_pending_block)
{
	const char *allocated, *freed, *pending, *reaped;
	__u64 addr, other, bytes = CHUNKS(1) - TEST_PAGE, asked = bytes - 100, first, last;
	__u32 stream;

	stream = test_stream(self->fd, 0);
	TRACE_BEGIN();
	addr = test_alloc(self->fd, self->id, asked);
	other = test_alloc(self->fd, self->id, 512);
	test_record(self->fd, addr, stream);
	test_record(self->fd, other, stream);
	first = test_submit(self->fd, stream);
	test_free(self->fd, addr);
	last = test_submit(self->fd, stream);
	test_free(self->fd, other);
	test_signal(self->fd, stream, first);
	test_signal(self->fd, stream, last);
	/* The stream has nothing outstanding: these are pending no more. */
	test_free(self->fd, test_alloc(self->fd, self->id, asked));
	TRACE_END();

	EXPECT_EVENTS(1, "pending", self->id, "addr=0x%llx bytes=%llu requested=%llu", addr,
		      bytes, asked);
	EXPECT_EVENTS(1, "pending", self->id, "addr=0x%llx bytes=512 requested=512", other);
	EXPECT_EVENTS(1, "reap", self->id, "stream=%u point=%llu blocks=1", stream, first);
	EXPECT_EVENTS(1, "reap", self->id, "stream=%u point=%llu blocks=1", stream, last);
	EXPECT_EQ(2, events(": devpool_pending:"));
	EXPECT_EQ(2, events(": devpool_reap:"));

	allocated = event_line(": devpool_alloc:");
	freed = event_line(": devpool_free:");
	pending = event_line(": devpool_pending:");
	reaped = event_line(": devpool_reap:");
	EXPECT_TRUE(event_is_mine(allocated));
	EXPECT_TRUE(event_is_mine(freed));
	EXPECT_TRUE(event_is_mine(pending));
	EXPECT_TRUE(event_is_mine(reaped));
	EXPECT_LT(allocated, freed);
	EXPECT_LT(freed, pending);
	EXPECT_LT(pending, reaped);
}

/* What nobody was told of did not happen. */
TEST_F(view, trace_of_an_answer_that_has_nowhere_to_go)
{
	struct devpool_alloc *cmd;

	cmd = mmap(NULL, TEST_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, cmd);
	*cmd = (struct devpool_alloc){
		.size = sizeof(*cmd),
		.bytes = 4096,
		.pool = self->id,
	};
	TRACE_BEGIN();
	EXPECT_EQ(0, devpool_raw(self->fd, DEVPOOL_IOC_ALLOC, cmd));
	ASSERT_EQ(0, mprotect(cmd, TEST_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, devpool_raw(self->fd, DEVPOOL_IOC_ALLOC, cmd));
	TRACE_END();
	EXPECT_EQ(1, events(": devpool_alloc:"));
	EXPECT_EQ(0, events(": devpool_free:"));
}

/* The sum of one number of one pool's events; a pool's own line each */
static __u64 sum_of(const char *event, struct devpool_pool_id id, const char *member)
{
	char head[80], key[16];
	const char *p = trace;
	__u64 sum = 0;

	snprintf(head, sizeof(head), ": devpool_%s: device=", event);
	snprintf(key, sizeof(key), " %s=", member);
	while ((p = strstr(p, head))) {
		__u64 first, second;

		p += strlen(head);
		if (sscanf(p, "%*u pool=%llu:%llu", &first, &second) != 2 ||
		    first != id.first || second != id.second)
			continue;
		p = strstr(p, key);
		sum += strtoull(p + strlen(key), NULL, 10);
	}
	return sum;
}

/* Whoever only listens can keep the accounts. */
TEST_F(view, trace_events_add_up)
{
	struct devpool_pool_id id[4] = {};
	struct devpool_pool_stat stat;
	__u64 random = test_seed();
	__u64 addr[40];
	int n = 0;
	int i, j;

	id[1] = self->id;
	TRACE_BEGIN();
	test_pool_create_opts(self->fd, &id[2], .flags = DEVPOOL_POOL_STABLE);
	test_pool_create_opts(self->fd, &id[3], .flags = DEVPOOL_POOL_NO_SPLIT |
			      DEVPOOL_POOL_THRESHOLD, .release_threshold = CHUNKS(2));
	for (i = 0; i < 400; i++) {
		__u64 r = test_random(&random);

		if (r % 8 == 0) {
			test_empty_cache(self->fd, id[r / 8 % 4], DEVPOOL_EMPTY_TRIM |
					 (r / 32 % 2 ? DEVPOOL_EMPTY_KEEP_PHYSICAL : 0),
					 CHUNKS(r / 64 % 3));
		} else if (n && (n == ARRAY_SIZE(addr) || r % 2)) {
			j = r / 8 % n;
			test_free(self->fd, addr[j]);
			addr[j] = addr[--n];
		} else {
			addr[n++] = test_alloc(self->fd, id[r / 8 % 4],
					       1 + r / 64 % (r / 32 % 2 ? 5 * MIB : 50 * KIB));
		}
	}
	TRACE_END();
	for (i = 0; i < 4; i++) {
		stat = test_pool_stat(self->fd, id[i]);
		EXPECT_EQ(stat.out_resident.current + stat.out_spare.current,
			  sum_of("chunks_in", id[i], "bytes") -
			  sum_of("chunks_out", id[i], "bytes"));
		EXPECT_EQ(CHUNKS(stat.out_grows), sum_of("chunks_in", id[i], "bytes"));
		EXPECT_EQ(stat.out_allocated.in, sum_of("alloc", id[i], "bytes"));
		EXPECT_EQ(stat.out_allocated.out, sum_of("free", id[i], "bytes"));
		EXPECT_EQ(stat.out_requested.in, sum_of("alloc", id[i], "requested"));
		EXPECT_EQ(stat.out_requested.out, sum_of("free", id[i], "requested"));
		EXPECT_EQ(sum_of("chunks_out", id[i], "bytes"), sum_of("flush", id[i], "bytes"));
		EXPECT_NE(0, stat.out_grows);
	}
}

TEST_HARNESS_MAIN
