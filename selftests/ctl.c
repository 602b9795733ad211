// SPDX-License-Identifier: GPL-2.0-only
/*
 * devpoolctl: what it shows is what there is, whoever asks.
 *
 * It is run as a user would run it, by a shell; what it prints as JSON is read by
 * jq. Processes with what there is to see are made here.
 */
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mount.h>

#include "devpool_test.h"

/* Who runs a command: root, root without CAP_SYS_ADMIN, or a user of that number */
#define ROOT 0
#define NO_ADMIN -1
#define USER 1000
#define OTHER 1001

/* The last command, and what it printed */
static char command_line[2048];
static char out[1 << 20];
static char err[1 << 14];

static void read_back(int fd, char *text, size_t room)
{
	ssize_t n = pread(fd, text, room - 1, 0);

	text[n > 0 ? n : 0] = 0;
	close(fd);
}

/* Ends with 0 only if it worked. */
static int become(int who)
{
	if (who == ROOT)
		return 0;
	if (who == NO_ADMIN)
		return prctl(PR_CAPBSET_DROP, CAP_SYS_ADMIN) || test_drop_admin();
	return setgroups(0, NULL) || setgid(who) || setuid(who) || prctl(PR_SET_DUMPABLE, 1);
}

/* The status of a command, minus the signal that ended it; -1000 if there was none */
static int __attribute__((format(printf, 2, 3))) run(int who, const char *format, ...)
{
	int fd[2] = { memfd_create("out", 0), memfd_create("err", 0) };
	va_list args;
	int status;
	pid_t pid;

	va_start(args, format);
	vsnprintf(command_line, sizeof(command_line), format, args);
	va_end(args);
	pid = test_fork();
	if (!pid) {
		if (dup2(fd[0], 1) < 0 || dup2(fd[1], 2) < 0 || become(who))
			_exit(126);
		execl("/bin/sh", "sh", "-c", command_line, NULL);
		_exit(127);
	}
	status = pid < 0 ? -1000 : test_wait(pid);
	read_back(fd[0], out, sizeof(out));
	read_back(fd[1], err, sizeof(err));
	return status;
}

#define EXPECT_RUN(status, who, ...)						\
do {										\
	int _status = run(who, __VA_ARGS__);					\
										\
	EXPECT_EQ(status, _status)						\
		TH_LOG("%s\nstdout:\n%s\nstderr:\n%s", command_line, out, err);	\
} while (0)

/* No character but those that print, and ends of lines */
static bool is_clean(const char *text)
{
	for (; *text; text++)
		if (*text != '\n' && (*text < ' ' || *text > '~'))
			return false;
	return true;
}

static int lines(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

static bool has(const char *text, const char *what)
{
	return strstr(text, what);
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n = write(fd, text, strlen(text));

	close(fd);
	return n == (ssize_t)strlen(text);
}

#define JSON "/tmp/ctl.json"

/* What is to be true of the JSON that was printed, for EXPECT_WANTED() */
static char subject[512];
static char wanted[8192];
static int nr_wanted;

/* What it is to be true of, a filter of jq's; the whole until this is told */
static void __attribute__((format(printf, 1, 2))) about(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(subject, sizeof(subject), format, args);
	va_end(args);
}

static void __attribute__((format(printf, 1, 2))) want(const char *format, ...)
{
	size_t len = strlen(wanted);
	va_list args;

	len += snprintf(wanted + len, sizeof(wanted) - len, "%s(%s | ", nr_wanted ? ",\n" : "",
			*subject ? subject : ".");
	va_start(args, format);
	len += vsnprintf(wanted + len, sizeof(wanted) - len, format, args);
	va_end(args);
	snprintf(wanted + len, sizeof(wanted) - len, ")");
	nr_wanted++;
}

/*
 * A command printed JSON, all of it ASCII, of which jq finds true what is wanted:
 * each of it once, for a filter that selects nothing is not true. All at a time,
 * since jq takes long to begin.
 */
#define EXPECT_WANTED()								\
do {										\
	EXPECT_TRUE(is_clean(out));						\
	ASSERT_TRUE(write_file(JSON, out));					\
	EXPECT_EQ(0, run(ROOT, "jq -c '[\n%s\n] | ., (all and length == %d or error(\"no\"))' " \
			 JSON " && rm " JSON, wanted, nr_wanted))		\
		TH_LOG("%s\n%s%s", command_line, out, err);			\
	*subject = 0;								\
	*wanted = 0;								\
	nr_wanted = 0;								\
} while (0)

#define EXPECT_JSON(...)							\
do {										\
	want(__VA_ARGS__);							\
	EXPECT_WANTED();							\
} while (0)

/* A process of that user, which has what its parent has until it is killed */
static pid_t hold_as(int who)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready))
		return -1;
	pid = test_fork();
	if (!pid) {
		if (!become(who) && write(ready[1], "", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1) {
		test_kill(pid);
		pid = -1;
	}
	close(ready[0]);
	return pid;
}

FIXTURE(ctl)
{
	struct devpool_info info;
	struct test_base base;
	/* of the device and of the pool, as devpoolctl prints them */
	char name[16];
	char pool_name[48];
	struct devpool_pool_id id;
	__u64 client;
	int pool;
	int index;
	int fd;
};

/* A client with a pool that has a block of 3 MiB and 4 MiB of cache */
FIXTURE_SETUP(ctl)
{
	__u64 addr;

	if (run(ROOT, "jq --version"))
		SKIP(return, "there is no jq");
	if (run(ROOT, "devpoolctl --version"))
		SKIP(return, "there is no devpoolctl on PATH");
	test_setup(self, TEST_SYSMEM);
	snprintf(self->name, sizeof(self->name), "devpool%d", self->index);
	self->client = test_fdinfo_number(self->fd, "client-id");
	self->pool = test_pool_create(self->fd, &self->id);
	snprintf(self->pool_name, sizeof(self->pool_name), "%llu:%llu", self->id.first,
		 self->id.second);
	test_alloc(self->fd, self->id, 3 * MIB);
	addr = test_alloc(self->fd, self->id, 4 * MIB);
	test_free(self->fd, addr);
}

FIXTURE_TEARDOWN(ctl)
{
}

TEST_F(ctl, list_shows_what_sysfs_shows)
{
	static const char *const number[] = {
		"bytes", "chunk", "used", "clean", "dirty", "clients", "pools",
	};
	char used[32];
	__u64 addr;
	int i;

	/* So that there is a stock, and nothing of it still to be zeroed */
	addr = test_alloc(self->fd, default_pool, 4 * MIB);
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	ASSERT_LT(0, test_settled_stock(self->index));
	EXPECT_RUN(0, ROOT, "devpoolctl list --json");
	EXPECT_STREQ("", err);
	about(".[] | select(.device == \"%s\")", self->name);
	want(".backend == \"sysmem\"");
	for (i = 0; i < ARRAY_SIZE(number); i++)
		want(".%s == %lld", number[i], devpool_sysfs(self->index, number[i]));
	EXPECT_WANTED();

	EXPECT_RUN(0, ROOT, "devpoolctl list --bytes");
	snprintf(used, sizeof(used), "%lld", devpool_sysfs(self->index, "used"));
	EXPECT_TRUE(has(out, used));
	EXPECT_EQ(0, strncmp(out, "DEVICE ", 7));
	EXPECT_RUN(0, USER, "devpoolctl list");
	EXPECT_TRUE(has(out, self->name));
	EXPECT_STREQ("", err);
}

TEST_F(ctl, info_shows_what_info_says)
{
	EXPECT_RUN(0, ROOT, "devpoolctl info --json %s", self->name);
	EXPECT_STREQ("", err);
	want("length == 1");
	about(".[0]");
	want(".device == \"%s\"", self->name);
	want(".backend == \"%s\"", (char *)self->info.out_backend);
	want(".bytes == %llu", self->info.out_bytes);
	want(".chunk == %llu", self->info.out_chunk);
	want(".granule_small == %llu", self->info.out_granule_small);
	want(".granule_large == %llu", self->info.out_granule_large);
	want(".max_pools == %u", self->info.out_max_pools);
	want(".max_routes == %u", self->info.out_max_routes);
	want(".max_blocks == %u", self->info.out_max_blocks);
	want(".max_streams == %u", self->info.out_max_streams);
	about(".[0].features");
	want("length == %d", __builtin_popcountll(self->info.out_features));
	want("index(\"mmap\") != null");
	want("map(select(startswith(\"bit-\"))) == []");
	EXPECT_WANTED();

	EXPECT_RUN(0, ROOT, "devpoolctl info %s", self->name);
	EXPECT_TRUE(has(out, "backend         sysmem\n"))
		TH_LOG("%s", out);
	EXPECT_TRUE(has(out, " snapshot"));
	/* The node is not for everybody. */
	EXPECT_RUN(1, USER, "devpoolctl info --json %s", self->name);
	EXPECT_STREQ("[]\n", out);
	EXPECT_TRUE(has(err, "Permission denied"));
}

TEST_F(ctl, devices_are_found_by_any_node)
{
	struct stat sb;
	char node[32];

	snprintf(node, sizeof(node), "/dev/%s", self->name);
	ASSERT_EQ(0, stat(node, &sb));
	unlink("/tmp/a node");
	ASSERT_EQ(0, mknod("/tmp/a node", S_IFCHR | 0600, sb.st_rdev));
	EXPECT_RUN(0, ROOT, "devpoolctl info --json '/tmp/a node'");
	about(".[0]");
	want(".device == \"%s\"", self->name);
	want(".node == \"/tmp/a node\"");
	EXPECT_WANTED();
	unlink("/tmp/a node");
}

TEST_F(ctl, without_a_name_all_devices_are_meant)
{
	static const char *const command[] = { "list", "info", "stats" };
	int n = 0;
	int i;

	while (devpool_sysfs(n, "bytes") >= 0)
		n++;
	for (i = 0; i < ARRAY_SIZE(command); i++) {
		EXPECT_RUN(0, ROOT, "devpoolctl %s --json", command[i]);
		EXPECT_JSON("map(.device) == [range(%d) | \"devpool\\(.)\"]", n);
	}
}

TEST_F(ctl, a_pool_is_told_once_however_many_have_its_file)
{
	struct devpool_pool_stat stat = test_pool_stat(self->fd, self->id);
	char comm[16];
	pid_t pid;

	ASSERT_LE(0, dup(self->pool));
	ASSERT_LE(0, dup(self->fd));
	pid = hold_as(ROOT);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, prctl(PR_GET_NAME, comm));

	EXPECT_RUN(0, ROOT, "devpoolctl pools --json %s", self->name);
	EXPECT_STREQ("", err);
	want("map(select(.pool == \"%s\")) | length == 1", self->pool_name);
	about(".[] | select(.pool == \"%s\")", self->pool_name);
	want(".device == \"%s\"", self->name);
	want(".state == \"live\"");
	want(".use_count == %u", stat.out_use_count);
	want(".client == %llu", self->client);
	want(".pid == %d", getpid());
	want(".comm == \"%s\"", comm);
	want(".resident == %llu", stat.out_resident.current);
	want(".peak_resident == %llu", stat.out_resident.peak);
	want(".allocated == %llu", stat.out_allocated.current);
	want(".requested == %llu", stat.out_requested.current);
	want(".active == %llu", stat.out_active.current);
	want(".spare == %llu", stat.out_spare.current);
	want(".blocks == %llu", stat.out_blocks.current);
	want(".hits == %llu", stat.out_hits);
	want(".grows == %llu", stat.out_grows);
	want(".limit == null");
	want(".release_threshold == null");
	want(".holders | map(.pid) | sort == ([%d,%d] | sort)", getpid(), pid);
	EXPECT_WANTED();
	EXPECT_RUN(0, ROOT, "devpoolctl stats --json %s", self->name);
	EXPECT_JSON(".[0].clients | map(select(.client == %llu)) | length == 1", self->client);
	test_kill(pid);

	EXPECT_RUN(0, ROOT, "devpoolctl pools %s | grep -c '  %s  live  '", self->name,
		   self->pool_name);
	EXPECT_STREQ("1\n", out);
}

TEST_F(ctl, a_pool_file_tells_of_its_maker)
{
	struct devpool_pool_id id;
	__u64 client;
	char comm[16];
	int fd;

	fd = test_open(self->index);
	client = test_fdinfo_number(fd, "client-id");
	test_pool_create(fd, &id);
	close(fd);
	ASSERT_EQ(0, prctl(PR_GET_NAME, comm));
	EXPECT_RUN(0, ROOT, "devpoolctl pools --json %s", self->name);
	about(".[] | select(.pool == \"%llu:%llu\")", id.first, id.second);
	want(".state == \"live\"");
	want(".resident == 0");
	want(".client == %llu", client);
	want(".pid == %d", getpid());
	want(".comm == \"%s\"", comm);
	EXPECT_WANTED();
}

TEST_F(ctl, limits_are_shown)
{
	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_LIMIT, 64 * MIB);
	test_pool_set_attr(self->fd, self->id, DEVPOOL_ATTR_RELEASE_THRESHOLD, 8 * MIB);
	test_limit(self->fd, 128 * MIB);
	EXPECT_RUN(0, ROOT, "devpoolctl pools --json %s", self->name);
	about(".[] | select(.pool == \"%s\")", self->pool_name);
	want(".limit == %llu", 64 * MIB);
	want(".release_threshold == %llu", 8 * MIB);
	EXPECT_WANTED();
	EXPECT_RUN(0, ROOT, "devpoolctl stats --json %s", self->name);
	about(".[0].clients[] | select(.client == %llu)", self->client);
	EXPECT_JSON(".limit == %llu", 128 * MIB);
}

TEST_F(ctl, a_released_file_is_no_pool)
{
	test_empty_cache(self->pool, default_pool, DEVPOOL_EMPTY_RELEASE, 0);
	/* The block that is left keeps it there, as root sees. */
	EXPECT_RUN(0, ROOT, "devpoolctl pools --json %s", self->name);
	about(".[] | select(.pool == \"%s\")", self->pool_name);
	want(".state == null");
	want(".holders == []");
	want(".blocks == 1");
	want(".comm != null");
	EXPECT_WANTED();
	EXPECT_RUN(0, NO_ADMIN, "devpoolctl pools --json %s", self->name);
	EXPECT_JSON("map(select(.pool == \"%s\")) == []", self->pool_name);
}

TEST_F(ctl, the_administrator_sees_pools_without_a_file)
{
	struct devpool_pool_id id = test_pool_id(self->fd, 0);

	test_pool_get(self->fd, id);
	test_alloc(self->fd, id, 5 * MIB);
	test_alloc(self->fd, default_pool, 100);
	EXPECT_RUN(0, ROOT, "devpoolctl pools --json %s", self->name);
	EXPECT_STREQ("", err);
	about(".[] | select(.pool == \"%llu:%llu\")", id.first, id.second);
	want(".state == null");
	want(".allocated == %llu", 5 * MIB);
	want(".resident == %llu", 6 * MIB);
	want(".blocks == 1");
	want(".client == %llu", self->client);
	want(".pid == %d", getpid());
	about(".[] | select(.pool == \"0:0\" and .client == %llu)", self->client);
	want(".allocated == 512");
	want(".requested == 100");
	want(".resident == %llu", 2 * MIB);
	EXPECT_WANTED();
	EXPECT_RUN(0, ROOT, "devpoolctl pools %s", self->name);
	EXPECT_STREQ("", err);

	/* Without the capability there are only files, and it is said. */
	EXPECT_RUN(0, NO_ADMIN, "devpoolctl pools --json %s", self->name);
	EXPECT_STREQ("", err);
	EXPECT_JSON("map(.pool) == [\"%s\"]", self->pool_name);
	EXPECT_RUN(0, NO_ADMIN, "devpoolctl pools %s", self->name);
	EXPECT_TRUE(has(err, ": 1 of 2 pools are shown: "))
		TH_LOG("%s", err);
}

TEST_F(ctl, a_user_sees_what_his_own_processes_have)
{
	struct devpool_stats stats = test_stats(self->fd);
	pid_t pid = hold_as(USER);

	ASSERT_LT(0, pid);
	EXPECT_RUN(0, USER, "devpoolctl pools --json");
	EXPECT_STREQ("", err);
	want("length == 1");
	about(".[0]");
	want(".pool == \"%s\"", self->pool_name);
	want(".client == %llu", self->client);
	want(".pid == %d", getpid());
	want(".holders | map(.pid) == [%d]", pid);
	EXPECT_WANTED();
	EXPECT_RUN(0, USER, "devpoolctl stats --json %s", self->name);
	EXPECT_STREQ("", err);
	about(".[0]");
	want(".all == null");
	want(".nr_clients == 1");
	want(".clients | length == 1");
	about(".[0].clients[0]");
	want(".client == %llu", self->client);
	want(".resident == %llu", stats.out_resident.current);
	want(".allocated == %llu", stats.out_allocated.current);
	want(".blocks == %llu", stats.out_blocks.current);
	want(".pools == 1");
	want(".blocks_held == 1");
	EXPECT_WANTED();

	EXPECT_RUN(0, OTHER, "devpoolctl pools --json");
	EXPECT_STREQ("[]\n", out);
	EXPECT_RUN(0, OTHER, "devpoolctl pools %s", self->name);
	EXPECT_EQ(1, lines(out));
	EXPECT_TRUE(has(err, ": 0 of 1 pools are shown: "))
		TH_LOG("%s", err);
	EXPECT_RUN(0, OTHER, "devpoolctl stats %s", self->name);
	EXPECT_TRUE(has(out, ": 0 of 1 clients\n"))
		TH_LOG("%s", out);
	test_kill(pid);
}

/* What a process calls itself, and what that is in JSON */
#define HOSTILE "a\"\\\n\033[2J\t\377\303\251b\x7f"
#define HOSTILE_JSON "a\\\"\\\\\\n\\u001b[2J\\t\\ufffd\\u00e9b\\u007f"

TEST_F(ctl, names_of_processes_do_no_harm)
{
	struct devpool_pool_id id;
	pid_t pid;
	int fd;

	_Static_assert(sizeof(HOSTILE) <= 16, "a whole name");
	ASSERT_EQ(0, prctl(PR_SET_NAME, HOSTILE));
	fd = test_open(self->index);
	test_pool_create(fd, &id);
	test_alloc(fd, id, 1);
	test_alloc(fd, default_pool, 1);
	/* Holders have such a name too. */
	pid = hold_as(ROOT);
	ASSERT_LT(0, pid);

	EXPECT_RUN(0, ROOT, "devpoolctl pools --json %s", self->name);
	want("map(select(.comm == \"" HOSTILE_JSON "\")) | length == 2");
	about(".[] | select(.pool == \"%llu:%llu\").holders", id.first, id.second);
	want("length == 2");
	want("all(.comm == \"" HOSTILE_JSON "\")");
	EXPECT_WANTED();
	EXPECT_RUN(0, ROOT, "devpoolctl stats --json %s", self->name);
	EXPECT_JSON(".[0].clients | map(.comm == \"" HOSTILE_JSON "\") | any");
	EXPECT_RUN(0, ROOT, "devpoolctl snapshot --json %s", self->name);
	about("map(select(.state == \"live\"))");
	EXPECT_JSON("map(select(.comm == \"" HOSTILE_JSON "\")) | length == 2");

	/* A line for each, whatever the name */
	EXPECT_RUN(0, ROOT, "devpoolctl pools %s", self->name);
	EXPECT_TRUE(is_clean(out))
		TH_LOG("%s", out);
	EXPECT_EQ(4, lines(out));
	EXPECT_TRUE(has(out, "a\"\\\\\\012\\033[2J\\011\\377\\303\\251b\\177"))
		TH_LOG("%s", out);
	EXPECT_RUN(0, ROOT, "devpoolctl stats %s", self->name);
	EXPECT_TRUE(is_clean(out));
	EXPECT_RUN(0, ROOT, "devpoolctl snapshot %s", self->name);
	EXPECT_TRUE(is_clean(out));
	test_kill(pid);
}

static void *sleep_on(void *unused)
{
	for (;;)
		pause();
	return NULL;
}

TEST_F(ctl, threads_keep_files_that_the_first_one_has_left)
{
	pthread_t thread;
	char state[64];
	pid_t pid;
	int i;

	pid = test_fork();
	if (!pid) {
		if (pthread_create(&thread, NULL, sleep_on, NULL))
			_exit(1);
		syscall(SYS_exit, 0);
	}
	snprintf(state, sizeof(state), "grep -q 'State:.Z' /proc/%d/status", pid);
	for (i = 0; i < 200 && run(ROOT, "%s", state); i++)
		usleep(10000);
	EXPECT_RUN(0, ROOT, "devpoolctl pools --json %s", self->name);
	about(".[] | select(.pool == \"%s\")", self->pool_name);
	EXPECT_JSON(".holders | map(.pid) | sort == ([%d,%d] | sort)", getpid(), pid);
	test_kill(pid);
}

TEST_F(ctl, stats_are_those_of_the_device)
{
	static const char *const counter[] = {
		"allocated", "requested", "active", "resident", "spare", "blocks",
	};
	static const char *const event[] = {
		"hits", "recycles", "grows", "fallbacks", "reclaims", "waits", "ooms", "flushes",
		"zeroed_bytes",
	};
	struct devpool_stats stats = test_stats_device(self->fd);
	const struct devpool_counter *c = &stats.out_allocated;
	const __u64 *e = &stats.out_hits;
	int i;

	EXPECT_RUN(0, ROOT, "devpoolctl stats --json %s", self->name);
	EXPECT_STREQ("", err);
	want("length == 1");
	about(".[0]");
	want(".device == \"%s\"", self->name);
	want(".nr_clients == 1");
	about(".[0].all");
	for (i = 0; i < TEST_COUNTERS; i++)
		want(".%s == {current: %llu, peak: %llu, in: %llu, out: %llu}", counter[i],
		     c[i].current, c[i].peak, c[i].in, c[i].out);
	for (i = 0; i < TEST_EVENTS; i++)
		want(".%s == %llu", event[i], e[i]);
	EXPECT_WANTED();

	EXPECT_RUN(0, ROOT, "devpoolctl stats %s", self->name);
	EXPECT_TRUE(has(out, ": all clients\n"));
	EXPECT_TRUE(has(out, ": 1 of 1 clients\n"));
	EXPECT_FALSE(has(out, "SINCE"));
	EXPECT_RUN(0, NO_ADMIN, "devpoolctl stats --json %s", self->name);
	EXPECT_JSON(".[0] | .all == null and (.clients | length == 1)");
}

TEST_F(ctl, watch_looks_again)
{
	EXPECT_RUN(0, ROOT, "devpoolctl stats --watch=0.05 --count=3 --json %s", self->name);
	EXPECT_EQ(3, lines(out));
	EXPECT_RUN(0, ROOT, "devpoolctl stats -w0.05 -n3 -j %s | jq -es '%s'", self->name,
		   "map(.[0].all.blocks.current) == [1,1,1]");
	EXPECT_RUN(0, ROOT, "devpoolctl stats --watch=0.05 --count=2 %s", self->name);
	EXPECT_TRUE(has(out, "SINCE"));
	EXPECT_FALSE(has(out, "\033"));
	/* For ever, but for a signal */
	EXPECT_RUN(143, ROOT, "devpoolctl stats --watch=0.05 & sleep 0.5; kill $!; wait $!");
	EXPECT_LT(30, lines(out));
}

TEST_F(ctl, a_reader_that_goes_away_ends_it)
{
	/* By SIGPIPE, as it ends all others, */
	EXPECT_RUN(0, ROOT, "{ devpoolctl stats --watch=0.05; echo $? >/tmp/status; } | head -n 1");
	EXPECT_EQ(1, lines(out));
	EXPECT_RUN(0, ROOT, "cat /tmp/status");
	EXPECT_STREQ("141\n", out);
	/* and where that is ignored, with what happened. */
	EXPECT_RUN(0, ROOT, "trap '' PIPE; { sleep 1; %s; echo $? >/tmp/status; } | true",
		   "devpoolctl list");
	EXPECT_STREQ("devpoolctl: cannot write: Broken pipe\n", err);
	EXPECT_RUN(0, ROOT, "cat /tmp/status");
	EXPECT_STREQ("1\n", out);
	EXPECT_RUN(1, ROOT, "devpoolctl list >/dev/full");
	EXPECT_STREQ("devpoolctl: cannot write: No space left on device\n", err);
	EXPECT_RUN(1, ROOT, "devpoolctl --version >/dev/full");
	EXPECT_RUN(1, ROOT, "devpoolctl stats --watch=0.05 >/dev/full");
}

TEST_F(ctl, trim_gives_the_stock_back)
{
	__u64 addr;
	long long stock;

	addr = test_alloc(self->fd, default_pool, 12 * MIB);
	test_free(self->fd, addr);
	test_empty_cache(self->fd, default_pool, 0, 0);
	stock = test_settled_stock(self->index);
	ASSERT_LE(12 * MIB, stock);

	/* Not for everybody, and not by mistake */
	EXPECT_RUN(1, USER, "devpoolctl trim %s", self->name);
	EXPECT_TRUE(has(err, "/trim: Permission denied"));
	EXPECT_RUN(2, ROOT, "devpoolctl trim %s 5X", self->name);
	EXPECT_RUN(2, ROOT, "devpoolctl trim %s 1MiB", self->name);
	EXPECT_RUN(2, ROOT, "devpoolctl trim %s 16E", self->name);
	EXPECT_RUN(2, ROOT, "devpoolctl trim %s 18446744073709551616", self->name);
	EXPECT_RUN(2, ROOT, "devpoolctl trim %s 1 2", self->name);
	EXPECT_EQ(stock, devpool_sysfs(self->index, "clean"));

	EXPECT_RUN(0, ROOT, "devpoolctl trim %s 6M", self->name);
	EXPECT_STREQ("", err);
	EXPECT_TRUE(has(out, ": 6M in stock, was "))
		TH_LOG("%s", out);
	EXPECT_EQ(6 * MIB, devpool_sysfs(self->index, "clean"));
	EXPECT_RUN(0, ROOT, "devpoolctl trim");
	EXPECT_EQ(0, devpool_sysfs(self->index, "clean"));
	/* What pools have is theirs. */
	EXPECT_EQ(8 * MIB, devpool_sysfs(self->index, "used"));
}

TEST_F(ctl, snapshot_shows_every_block)
{
	struct devpool_pool_stat stat = test_pool_stat(self->fd, self->id);

	test_alloc(self->fd, default_pool, 100);
	EXPECT_RUN(0, ROOT, "devpoolctl snapshot --json %s", self->name);
	EXPECT_STREQ("", err);
	want("map(.addr) | all(test(\"^0x[0-9a-f]+$\"))");
	want("map(select(.state == \"cached\") | .requested) | unique == [null]");
	about("map(select(.pool == \"%s\"))", self->pool_name);
	want("all(.client == %llu)", self->client);
	want("all(.pid == %d)", getpid());
	want("all(.stream == 0)");
	want("map(.bytes) | add == %llu", stat.out_resident.current);
	want("map(select(.state == \"live\").requested) == [%llu]", 3 * MIB);
	EXPECT_WANTED();
	EXPECT_RUN(0, ROOT, "devpoolctl snapshot --json --pool=%s", self->pool_name);
	EXPECT_JSON("length >= 2 and all(.pool == \"%s\")", self->pool_name);
	EXPECT_RUN(0, ROOT, "devpoolctl snapshot --json --pool 0:0 %s", self->name);
	EXPECT_JSON("length == 2 and all(.pool == \"0:0\")");
	EXPECT_RUN(0, ROOT, "devpoolctl snapshot --json --pool=1:1");
	EXPECT_STREQ("[]\n", out);

	EXPECT_RUN(1, USER, "devpoolctl snapshot --json %s", self->name);
	EXPECT_STREQ("[]\n", out);
	EXPECT_TRUE(has(err, "Permission denied"));
	EXPECT_RUN(1, NO_ADMIN, "devpoolctl snapshot --json %s", self->name);
	EXPECT_STREQ("[]\n", out);
	EXPECT_TRUE(has(err, "needs CAP_SYS_ADMIN"));
}

TEST_F(ctl, streams_and_what_they_use_are_shown)
{
	struct devpool_stream_create create[2] = {
		{ .size = sizeof(*create) }, { .size = sizeof(*create) },
	};
	struct devpool_stream_submit submit = { .size = sizeof(submit) };
	struct devpool_stream_signal signal = { .size = sizeof(signal) };
	struct devpool_record record = { .size = sizeof(record) };
	struct devpool_alloc block;
	int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, ioctl(self->fd, DEVPOOL_IOC_STREAM_CREATE, &create[i]));
		submit.stream = create[i].out_stream;
		ASSERT_EQ(0, ioctl(self->fd, DEVPOOL_IOC_STREAM_SUBMIT, &submit));
	}
	/* 6 MiB that a stream has recorded, 2 MiB of another one, and these by default too */
	record.addr = test_alloc(self->fd, self->id, 6 * MIB);
	record.stream = create[0].out_stream;
	ASSERT_EQ(0, ioctl(self->fd, DEVPOOL_IOC_RECORD, &record));
	test_free(self->fd, record.addr);
	block = test_alloc_opts(self->fd, .bytes = 2 * MIB, .pool = self->id,
				.stream = create[1].out_stream);
	test_free(self->fd, block.out_addr);
	block = test_alloc_opts(self->fd, .bytes = 4 * MIB, .stream = create[1].out_stream);
	test_free(self->fd, block.out_addr);

	EXPECT_RUN(0, ROOT, "devpoolctl info --json %s", self->name);
	EXPECT_JSON(".[0].features | contains([\"streams\", \"fences\"])");
	EXPECT_RUN(0, ROOT, "devpoolctl pools --json %s", self->name);
	about(".[] | select(.pool == \"%s\")", self->pool_name);
	want(".pending == %llu", 8 * MIB);
	want(".active == %llu", 9 * MIB);
	want(".allocated == %llu", 3 * MIB);
	about(".[] | select(.pool == \"0:0\")");
	want(".pending == %llu", 4 * MIB);
	want(".active == 0");
	EXPECT_WANTED();
	EXPECT_RUN(0, ROOT, "devpoolctl stats --json %s", self->name);
	about(".[0].clients[0]");
	want(".streams == 2");
	want(".pending == %llu", 12 * MIB);
	EXPECT_WANTED();
	EXPECT_RUN(0, ROOT, "devpoolctl snapshot --json --pool=%s", self->pool_name);
	about("map(select(.state == \"pending\"))");
	want("map(.bytes) == [%llu]", 6 * MIB);
	want("map(.requested) == [null]");
	want("map(.stream) == [0]");
	about("map(select(.state == \"cached\" and .stream == %u))", create[1].out_stream);
	want("map(.bytes) == [%llu]", 2 * MIB);
	EXPECT_WANTED();
	EXPECT_RUN(0, ROOT, "devpoolctl pools %s | head -n 1 | grep -c ' PENDING '", self->name);
	EXPECT_RUN(0, ROOT, "devpoolctl stats %s | grep -c ' PENDING .* STREAMS '", self->name);

	signal.stream = create[0].out_stream;
	signal.point = 1;
	ASSERT_EQ(0, ioctl(self->fd, DEVPOOL_IOC_STREAM_SIGNAL, &signal));
	EXPECT_RUN(0, ROOT, "devpoolctl pools --json %s", self->name);
	about(".[] | select(.pool == \"%s\")", self->pool_name);
	want(".pending == %llu", 2 * MIB);
	want(".active == %llu", 3 * MIB);
	EXPECT_WANTED();
}

/* More than one call tells, and more than one table is kept of */
#define MANY 16500

TEST_F_TIMEOUT(ctl, snapshot_goes_on_to_the_end, 60)
{
	struct devpool_pool_stat stat;
	char text[64];
	int i;

	for (i = 0; i < MANY; i++)
		test_alloc(self->fd, self->id, 512);
	stat = test_pool_stat(self->fd, self->id);
	EXPECT_RUN(0, ROOT, "devpoolctl snapshot --bytes %s | awk '%s'", self->name,
		   "/ADDRESS/ { h++ } $7 == \"live\" { n++; s += $3 } END { print h, n, s }");
	snprintf(text, sizeof(text), "1 %llu %llu\n", stat.out_blocks.current,
		 stat.out_allocated.current);
	EXPECT_STREQ(text, out);
}

TEST_F(ctl, wrong_use_is_2_with_a_message)
{
	static const char *const wrong[] = {
		"", "nonsense", "--nonsense", "-x", "list devpool0", "list --watch", "list -n1",
		"info devpool0 devpool1", "info --pool=0:0", "pools --watch", "pools -p 0:0",
		"stats --count=1", "stats --watch --count=0", "stats --watch --count=x",
		"stats --watch --count", "stats --watch=", "stats --watch=0", "stats --watch=-1",
		"stats --watch=x", "stats --watch=1x", "stats --watch=nan", "stats --watch=inf",
		"stats --watch=1e9", "trim --json", "trim --bytes", "trim devpool0 1 2",
		"trim devpool0 devpool0", "trim 1 devpool0", "trim 1.5", "trim 1K2", "trim 0x10",
		"snapshot --pool", "snapshot --pool=", "snapshot --pool=5", "snapshot --pool=0:",
		"snapshot --pool=:1", "snapshot --pool=0:1:2", "snapshot --pool=0:-1",
		"snapshot --pool=0:18446744073709551616", "snapshot --watch",
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		EXPECT_RUN(2, ROOT, "devpoolctl %s", wrong[i]);
		EXPECT_STREQ("", out);
		EXPECT_TRUE(has(err, "devpoolctl"))
			TH_LOG("%s: %s", wrong[i], err);
	}
}

TEST_F(ctl, what_cannot_be_done_is_1_with_a_message)
{
	static const char *const command[] = { "info", "pools", "stats", "trim", "snapshot" };
	static const char *const device[] = {
		"devpool99", "devpool", "devpool-1", "devpool00x", "nonsense", "''", "..",
		"/dev/null", "/nonexistent", "/etc/tests", "/", "/dev/devpool0/x",
	};
	int i, j;

	for (i = 0; i < ARRAY_SIZE(command); i++) {
		for (j = 0; j < ARRAY_SIZE(device); j++) {
			EXPECT_RUN(1, ROOT, "devpoolctl %s %s", command[i], device[j]);
			EXPECT_STREQ("", out);
			EXPECT_EQ(0, strncmp(err, "devpoolctl: ", 12));
			EXPECT_EQ(1, lines(err));
		}
	}
	EXPECT_RUN(1, ROOT, "devpoolctl info /dev/null");
	EXPECT_STREQ("devpoolctl: /dev/null: not the node of a devpool device\n", err);
	EXPECT_RUN(1, ROOT, "devpoolctl info devpool99");
	EXPECT_STREQ("devpoolctl: devpool99: no such device\n", err);
}

TEST_F(ctl, help_and_version)
{
	static const char *const command[] = {
		"", "list", "info", "pools", "stats", "trim", "snapshot",
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(command); i++) {
		EXPECT_RUN(0, USER, "devpoolctl %s --help", command[i]);
		EXPECT_EQ(0, strncmp(out, "Usage: devpoolctl ", 18));
		EXPECT_TRUE(has(out, command[i]));
		EXPECT_STREQ("", err);
	}
	EXPECT_RUN(0, ROOT, "devpoolctl --version");
	EXPECT_EQ(0, strncmp(out, "devpoolctl ", 11));
	EXPECT_EQ(1, lines(out));
	/* The version is that of the module. */
	EXPECT_RUN(0, ROOT, "devpoolctl -V | sed 's/^devpoolctl //' | diff - %s",
		   "/sys/module/devpool/version");
}

/* With a sysfs of our own: the module without a device, and no module */
TEST_F(ctl, no_device_and_no_module)
{
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	ASSERT_EQ(0, mount("none", "/sys/class/devpool", "tmpfs", 0, NULL));
	EXPECT_RUN(0, ROOT, "devpoolctl list --json");
	EXPECT_STREQ("[]\n", out);
	EXPECT_RUN(0, ROOT, "devpoolctl pools");
	EXPECT_EQ(1, lines(out));
	EXPECT_RUN(1, ROOT, "devpoolctl info %s", self->name);
	EXPECT_TRUE(has(err, "no such device"));

	ASSERT_EQ(0, mount("none", "/sys/class", "tmpfs", 0, NULL));
	EXPECT_RUN(1, ROOT, "devpoolctl list");
	EXPECT_STREQ("devpoolctl: the module devpool is not loaded\n", err);
	EXPECT_STREQ("", out);
}

TEST_HARNESS_MAIN
