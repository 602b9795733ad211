// SPDX-License-Identifier: GPL-2.0-only
/*
 * The demonstration: what a pool that is a file is good for, in three acts, with
 * every number read from the running kernel. Exits with 1 if one of them is not
 * what was promised.
 *
 * The other processes are this program again, so that they have nothing of it:
 *
 *	demo TRACE NODE		the demonstration
 *	demo --victim NODE	holds memory, says so, and waits to be killed
 *	demo --holder SOCKET	is sent a pool's file, and asked about it
 */
#include <devpool.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ULL << 20)
#define PAGE 4096

static int broken;
static unsigned int device;

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("demo: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(EXIT_FAILURE);
}

static void must(int err, const char *what)
{
	if (err < 0)
		die("%s: %s", what, strerror(-err));
}

static void must_sys(long ret, const char *what)
{
	if (ret < 0)
		die("%s: %s", what, strerror(errno));
}

/* A line of the outcome; the demonstration goes on and ends with 1. */
static void promise(bool kept, const char *what)
{
	printf("  %s %s\n", kept ? "ok:    " : "BROKEN:", what);
	if (!kept)
		broken++;
}

static uint64_t sysfs(const char *name)
{
	uint64_t value;
	char path[80];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/devpool/devpool%u/%s", device, name);
	f = fopen(path, "re");
	if (!f || fscanf(f, "%" SCNu64, &value) != 1)
		die("cannot read %s", path);
	fclose(f);
	return value;
}

/* Bytes that all pools of all processes own. */
static uint64_t used(void)
{
	return sysfs("used");
}

static void heading(const char *first, const char *second, const char *third)
{
	printf("\n  %-34s %14s %14s", "bytes", first, second);
	if (third)
		printf(" %14s", third);
	printf("\n");
}

static void row(const char *what, uint64_t first, uint64_t second)
{
	printf("  %-34s %14" PRIu64 " %14" PRIu64 "\n", what, first, second);
}

static void row3(const char *what, uint64_t first, uint64_t second, uint64_t third)
{
	printf("  %-34s %14" PRIu64 " %14" PRIu64 " %14" PRIu64 "\n", what, first, second, third);
}

static struct devpool_pool_stat stat_of(struct devpool_pool *pool)
{
	struct devpool_pool_stat stat;

	must(devpool_pool_stat(pool, &stat), "POOL_STAT");
	return stat;
}

/*
 * What the kernel says is resident in the pool of that name. A pool that is
 * gone is unknown by then, and has nothing.
 */
static uint64_t resident_by_id(struct devpool *dev, struct devpool_pool_id id)
{
	struct devpool_pool_stat stat = { .size = sizeof(stat), .pool = id };

	if (ioctl(devpool_fd(dev), DEVPOOL_IOC_POOL_STAT, &stat)) {
		if (errno != ENOENT)
			die("POOL_STAT: %s", strerror(errno));
		return 0;
	}
	return stat.out_resident.current;
}

static void *get(struct devpool *dev, struct devpool_pool *pool, size_t bytes)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts), .pool = devpool_pool_id(pool) };
	void *p;

	must(devpool_alloc(dev, bytes, &opts, &p), "ALLOC");
	return p;
}

static void put(struct devpool *dev, void *p)
{
	must(devpool_free(dev, p), "FREE");
}

static void fill(void *p, size_t bytes, unsigned char value)
{
	size_t i;

	for (i = 0; i < bytes; i += PAGE)
		((volatile unsigned char *)p)[i] = value;
}

static bool is_filled(const void *p, size_t bytes, unsigned char value)
{
	size_t i;

	for (i = 0; i < bytes; i += PAGE)
		if (((const volatile unsigned char *)p)[i] != value)
			return false;
	return true;
}

/* As devpoolctl prints it */
static void name_pool(char *name, size_t room, struct devpool_pool_id id)
{
	snprintf(name, room, " %" PRIu64 ":%" PRIu64 " ", (uint64_t)id.first, (uint64_t)id.second);
}

/*
 * What devpoolctl shows an administrator meanwhile. Where it is not installed
 * there is nothing to promise.
 */
static void show_pools(struct devpool_pool_id one, struct devpool_pool_id other)
{
	char command[128], names[2][48], line[512];
	bool found[2] = {};
	int status, i;
	FILE *p;

	name_pool(names[0], sizeof(names[0]), one);
	name_pool(names[1], sizeof(names[1]), other);
	snprintf(command, sizeof(command), "command -v devpoolctl >/dev/null || exit 127\n"
		 "devpoolctl pools devpool%u 2>&1", device);
	printf("\n");
	fflush(stdout);
	p = popen(command, "r");
	if (!p)
		die("popen: %s", strerror(errno));
	while (fgets(line, sizeof(line), p)) {
		printf("  %s", line);
		for (i = 0; i < 2; i++)
			found[i] |= !!strstr(line, names[i]);
	}
	status = pclose(p);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return;
	printf("\n");
	promise(!status && found[0] && found[1], "devpoolctl shows both pools, and whose they are");
	printf("\n");
}

/* The trace: devpool-replay is the tool for that; this one trusts the file. */

struct row {
	bool alloc;
	uint32_t id;
	uint64_t size;
};

struct trace {
	struct row *rows;
	void **blocks;
	size_t nr;
	uint32_t max_id;
	uint64_t peak;
};

static void read_trace(struct trace *trace, const char *file)
{
	uint64_t live = 0, size;
	size_t room = 0, len = 0;
	char *line = NULL, op;
	uint32_t id;
	FILE *in;

	in = fopen(file, "re");
	if (!in)
		die("trace '%s': %s", file, strerror(errno));
	while (getline(&line, &len, in) > 0) {
		if (*line == '#')
			continue;
		if (sscanf(line, "%c,%" SCNu32 ",%" SCNu64 ",", &op, &id, &size) != 3 ||
		    id == UINT32_MAX)
			die("%s: not a trace: %s", file, line);
		if (trace->nr == room) {
			room = room ? 2 * room : 4096;
			trace->rows = reallocarray(trace->rows, room, sizeof(*trace->rows));
			if (!trace->rows)
				die("out of memory");
		}
		trace->rows[trace->nr++] = (struct row) {
			.alloc = op == 'a', .id = id, .size = size,
		};
		if (id > trace->max_id)
			trace->max_id = id;
		live += op == 'a' ? size : -size;
		if (live > trace->peak)
			trace->peak = live;
	}
	free(line);
	fclose(in);
	trace->blocks = calloc(trace->max_id + 1UL, sizeof(*trace->blocks));
	if (!trace->nr || !trace->blocks)
		die("%s: no trace, or too large a one", file);
}

static void play(struct devpool *dev, struct devpool_pool *pool, struct trace *trace,
		 unsigned int divide)
{
	struct row *r;
	uint64_t size;
	void **p;

	for (r = trace->rows; r < trace->rows + trace->nr; r++) {
		p = &trace->blocks[r->id];
		if (!r->alloc) {
			put(dev, *p);
			*p = NULL;
			continue;
		}
		size = r->size / divide ? r->size / divide : 1;
		*p = get(dev, pool, size);
		*(volatile char *)*p = 1;
		((volatile char *)*p)[size - 1] = 1;
	}
}

static void free_rest(struct devpool *dev, struct trace *trace)
{
	size_t i;

	for (i = 0; i <= trace->max_id; i++)
		if (trace->blocks[i])
			put(dev, trace->blocks[i]);
}

/*
 * Act 1: a trace is played into one pool beside a neighbour that has blocks and
 * a cache of its own. The first is closed.
 */
static void act_one(struct devpool *dev, const struct devpool_info *info, const char *file)
{
	struct devpool_pool_stat before, played, neighbour_before, neighbour_after;
	struct devpool_pool *pool, *neighbour;
	struct devpool_pool_id id;
	uint64_t used_before, used_after, left;
	struct trace trace = { .nr = 0 };
	struct devpool_result result;
	unsigned int divide = 1;
	const char *name;
	void *live, *cached;

	name = strrchr(file, '/');
	name = name ? name + 1 : file;
	read_trace(&trace, file);
	while (trace.peak / divide > info->out_bytes * 6 / 10)
		divide *= 2;

	printf("\n1. Closing a pool gives back exactly that pool's cache\n\n");
	printf("  The neighbour: a pool with a block of 8 MiB, and 24 MiB that were freed and\n"
	       "  that it keeps as its cache.\n");
	must(devpool_pool_create(dev, NULL, &neighbour), "POOL_CREATE");
	live = get(dev, neighbour, 8 * MIB);
	fill(live, 8 * MIB, 0x5a);
	cached = get(dev, neighbour, 24 * MIB);
	fill(cached, 24 * MIB, 0xa5);
	put(dev, cached);

	printf("  The pool: plays %s, %zu calls with at most %" PRIu64 " bytes alive", name,
	       trace.nr, trace.peak / divide);
	if (divide > 1)
		printf(" (sizes divided by %u)", divide);
	printf(".\n");
	fflush(stdout);
	must(devpool_pool_create(dev, NULL, &pool), "POOL_CREATE");
	id = devpool_pool_id(pool);
	play(dev, pool, &trace, divide);
	played = stat_of(pool);
	free_rest(dev, &trace);
	show_pools(devpool_pool_id(neighbour), id);

	before = stat_of(pool);
	neighbour_before = stat_of(neighbour);
	used_before = used();
	must(devpool_pool_close(pool, 0, &result), "closing the pool");
	left = resident_by_id(dev, id);
	neighbour_after = stat_of(neighbour);
	used_after = used();

	printf("  It served %" PRIu64 " requests out of its cache, and took %" PRIu64
	       " chunks of %" PRIu64 " bytes for\n  the others: at most %" PRIu64
	       " bytes. All is freed now, and it keeps its cache.\n",
	       (uint64_t)played.out_hits, (uint64_t)played.out_grows, (uint64_t)info->out_chunk,
	       (uint64_t)played.out_resident.peak);
	heading("before close", "after close", NULL);
	row("the pool has", before.out_resident.current, left);
	row("the neighbour has", neighbour_before.out_resident.current,
	    neighbour_after.out_resident.current);
	row("all pools of the device have", used_before, used_after);
	printf("\n  The close reported %" PRIu64 " bytes given back.\n", result.freed);
	promise(!left, "0 bytes of the closed pool are left");
	promise(before.out_resident.current && result.freed == before.out_resident.current &&
		used_before - used_after == result.freed,
		"what it had is what it reported is what came back");
	promise(!memcmp(&neighbour_before, &neighbour_after, sizeof(neighbour_before)),
		"the neighbour is unchanged, in each of its counters");
	promise(is_filled(live, 8 * MIB, 0x5a), "and what stands in its block too");

	put(dev, live);
	must(devpool_pool_close(neighbour, 0, &result), "closing the neighbour");
	free(trace.rows);
	free(trace.blocks);
}

/* Starts this program again, with nothing of this process but one end. */
static pid_t start(const char *role, const char *node, int fd)
{
	char number[16];
	pid_t pid;

	snprintf(number, sizeof(number), "%d", fd);
	fflush(stdout);
	pid = fork();
	must_sys(pid, "fork");
	if (pid)
		return pid;
	fcntl(fd, F_SETFD, 0);
	execl("/proc/self/exe", "demo", role, number, node, (char *)NULL);
	_exit(127);
}

static void pair(int fds[2])
{
	must_sys(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), "socketpair");
}

static void __attribute__((noreturn)) victim(int fd, const char *node)
{
	struct devpool_pool *pool;
	struct devpool *dev;
	void *p, *cached;

	must(devpool_open(node, &dev), node);
	must(devpool_alloc(dev, 40 * MIB, NULL, &p), "ALLOC");
	fill(p, 40 * MIB, 1);
	must(devpool_pool_create(dev, NULL, &pool), "POOL_CREATE");
	cached = get(dev, pool, 16 * MIB);
	fill(cached, 16 * MIB, 2);
	put(dev, cached);
	must_sys(write(fd, "", 1), "write");
	for (;;)
		pause();
}

/* Act 2: a process with blocks and caches is killed. */
static void act_two(const char *node)
{
	uint64_t baseline, during, after, clients, clients_after;
	int fds[2], status;
	pid_t pid;
	char c;

	printf("\n2. A process that is killed leaves nothing behind\n\n");
	printf("  Another process takes a block of 40 MiB, and a pool with a cache of 16 MiB.\n"
	       "  Then it is killed by SIGKILL: nothing in it can clean up.\n");
	pair(fds);
	baseline = used();
	clients = sysfs("clients");
	pid = start("--victim", node, fds[1]);
	close(fds[1]);
	if (read(fds[0], &c, 1) != 1)
		die("the other process did not get its memory");
	during = used();
	must_sys(kill(pid, SIGKILL), "kill");
	must_sys(waitpid(pid, &status, 0), "waitpid");
	after = used();
	clients_after = sysfs("clients");
	close(fds[0]);

	heading("before", "while it runs", "after the kill");
	row3("all pools of the device have", baseline, during, after);
	printf("\n");
	promise(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "it died by SIGKILL");
	promise(during >= baseline + 56 * MIB, "it had its 56 MiB");
	promise(after == baseline && clients_after == clients, "all of it came back");
}

static void send_file(int sock, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .header = {
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
		.cmsg_len = CMSG_LEN(sizeof(int)),
	} };
	char byte = 'f';
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room),
	};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	must_sys(sendmsg(sock, &msg, 0), "sendmsg");
}

static int receive_file(int sock)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof(control.room),
	};
	int fd;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&msg))
		die("no file came");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* Answers 's' with what is resident in the pool it was sent, 'c' by closing it. */
static int holder(int sock)
{
	struct devpool_pool_stat stat = { .size = sizeof(stat) };
	uint64_t answer;
	int pool_fd;
	char c;

	pool_fd = receive_file(sock);
	while (read(sock, &c, 1) == 1) {
		answer = 0;
		if (c == 's') {
			must_sys(ioctl(pool_fd, DEVPOOL_IOC_POOL_STAT, &stat), "POOL_STAT");
			answer = stat.out_resident.current;
		} else {
			must_sys(close(pool_fd), "close");
		}
		must_sys(write(sock, &answer, sizeof(answer)), "write");
	}
	return 0;
}

static uint64_t ask(int sock, char question)
{
	uint64_t answer;

	must_sys(write(sock, &question, 1), "write");
	if (read(sock, &answer, sizeof(answer)) != sizeof(answer))
		die("the other process does not answer");
	return answer;
}

/* Act 3: two processes hold one pool's file. */
static void act_three(struct devpool *dev)
{
	struct devpool_alloc_opts opts = { .sz = sizeof(opts) };
	struct devpool_pool_create create = { .size = sizeof(create) };
	uint64_t had, theirs, left, used_had, used_first, used_last, baseline;
	int fds[2], status;
	pid_t pid;
	void *p;

	printf("\n3. A pool lives as long as anyone holds its file\n\n");
	printf("  A pool with a cache of 32 MiB. Its file is sent to another process, so two\n"
	       "  hold it now. First this one closes it, then the other one.\n");
	baseline = used();
	/*
	 * By hand: the library's devpool_pool_close() gives up the reference that
	 * all holders of the file share, and here it is their own ends that count.
	 */
	must_sys(ioctl(devpool_fd(dev), DEVPOOL_IOC_POOL_CREATE, &create), "POOL_CREATE");
	opts.pool = create.out_pool;
	must(devpool_alloc(dev, 32 * MIB, &opts, &p), "ALLOC");
	fill(p, 32 * MIB, 3);
	put(dev, p);
	pair(fds);
	pid = start("--holder", "", fds[1]);
	close(fds[1]);
	send_file(fds[0], create.out_fd);
	/* So that it has the file, not just the socket's queue. */
	had = ask(fds[0], 's');
	used_had = used();

	must_sys(close(create.out_fd), "close");
	theirs = ask(fds[0], 's');
	used_first = used();
	ask(fds[0], 'c');
	left = resident_by_id(dev, create.out_pool);
	used_last = used();
	close(fds[0]);
	must_sys(waitpid(pid, &status, 0), "waitpid");

	heading("both hold it", "first closed", "both closed");
	row3("the pool has", had, theirs, left);
	row3("all pools of the device have", used_had, used_first, used_last);
	printf("\n");
	promise(had >= 32 * MIB && theirs == had && used_first == used_had,
		"the first close changed nothing");
	promise(!left && used_last == baseline, "the last one gave all back");
	promise(WIFEXITED(status) && !WEXITSTATUS(status), "the other process ended well");
}

int main(int argc, char **argv)
{
	struct devpool_info info;
	struct devpool *dev;
	uint64_t start_used;

	if (argc == 4 && !strcmp(argv[1], "--victim"))
		victim(atoi(argv[2]), argv[3]);
	if (argc == 4 && !strcmp(argv[1], "--holder"))
		return holder(atoi(argv[2]));
	if (argc != 3)
		die("usage: demo TRACE NODE");

	must(devpool_open(argv[2], &dev), argv[2]);
	must(devpool_info(dev, &info), "INFO");
	device = info.out_index;
	start_used = used();
	printf("devpool%u: %" PRIu64 " bytes of %s in chunks of %" PRIu64 "; its pools have %"
	       PRIu64 " bytes.\n", device, (uint64_t)info.out_bytes, (char *)info.out_backend,
	       (uint64_t)info.out_chunk, start_used);

	act_one(dev, &info, argv[1]);
	act_two(argv[2]);
	act_three(dev);
	devpool_close(dev);

	printf("\nAt the end, all pools of the device have %" PRIu64 " bytes.\n", used());
	promise(used() == start_used, "as at the start");
	if (broken)
		printf("\n%d promises BROKEN\n", broken);
	else
		printf("\nAll promises kept.\n");
	return broken ? EXIT_FAILURE : EXIT_SUCCESS;
}
