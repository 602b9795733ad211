// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * devpool-record: run a program and write what it does with its heap as a trace,
 * in the format devpool-replay plays.
 *
 * The work is done inside the program by devpool-record.so; this launcher gives
 * it a private directory for its raw logs, waits, and turns each log into a
 * trace. Logs are only read, so a daemon that outlives the command is no danger
 * to the result: its rows until then are written, later ones go nowhere.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "devpool-record.h"

/* As env(1), nice(1) and their kind: failures no command can be blamed for. */
enum {
	EXIT_USAGE = 2,
	EXIT_RECORDER = 125,
	EXIT_CANNOT_RUN = 126,
	EXIT_NOT_FOUND = 127,
};

static const char help[] =
"Usage: devpool-record -o OUT [--min BYTES] [--] COMMAND [ARG...]\n"
"\n"
"Runs COMMAND and writes its heap allocations to OUT as a trace for\n"
"devpool-replay: lines 'op,id,size,stream', op 'a' alloc or 'f' free, one id per\n"
"block, one stream per thread. A resize is a free and an alloc.\n"
"\n"
"  -o, --output=OUT   the trace to write\n"
"  -m, --min=BYTES    leave out requests of fewer bytes (default 1)\n"
"  -h, --help         this text\n"
"\n"
"OUT holds the first program that runs in COMMAND's process. Each further one\n"
"has a trace of its own: OUT.PID for a child, forked or executed; OUT.PID.N for\n"
"the Nth program after it in the same process. A child without a recorded block\n"
"has none. The recording ends when COMMAND ends.\n"
"\n"
"Exit status: that of COMMAND, 128+N if signal N ended it; 2 wrong usage; 125 the\n"
"recording failed or is incomplete (nothing can be recorded of a statically\n"
"linked or setuid program); 126 COMMAND cannot be run; 127 it was not found.\n";

static volatile sig_atomic_t command;
static const char *out;
static char dir[PATH_MAX];
static size_t min_size = 1;

static void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *fmt, ...)
{
	va_list args;

	fputs("devpool-record: ", stderr);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
}

static int usage(void)
{
	fputs("Try 'devpool-record --help'.\n", stderr);
	return EXIT_USAGE;
}

/* Beside the launcher in the build tree, in ../lib/devpool when installed. */
static int find_preload(char *path, size_t size)
{
	static const char * const places[] = { "", "../lib/devpool/" };
	char self[PATH_MAX], *slash;
	ssize_t len;
	size_t i;

	len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0)
		return -errno;
	self[len] = '\0';
	slash = strrchr(self, '/');
	slash[1] = '\0';
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if ((size_t)snprintf(path, size, "%s%sdevpool-record.so", self, places[i]) >= size)
			return -ENAMETOOLONG;
		/* The dynamic linker splits LD_PRELOAD at these and knows no quoting. */
		if (strpbrk(path, " :"))
			return -EINVAL;
		if (!access(path, R_OK))
			return 0;
	}
	return -ENOENT;
}

/* An LD_PRELOAD that the user set stays in force, behind ours. */
static int set_environment(const char *preload)
{
	const char *theirs = getenv("LD_PRELOAD");
	char min[32], *list;
	int err;

	snprintf(min, sizeof(min), "%zu", min_size);
	if (asprintf(&list, "%s%s%s", preload, theirs ? ":" : "", theirs ? theirs : "") < 0)
		return -ENOMEM;
	err = setenv("LD_PRELOAD", list, 1) || setenv(RECORD_ENV_DIR, dir, 1) ||
	      setenv(RECORD_ENV_MIN, min, 1);
	free(list);
	return err ? -ENOMEM : 0;
}

/* Beside OUT, for a rename from there replaces OUT at once or not at all. */
static int make_dir(void)
{
	char *given, *path, *slash;
	struct stat sb;
	int err = 0;

	if (!stat(out, &sb) && !S_ISREG(sb.st_mode)) {
		errno = S_ISDIR(sb.st_mode) ? EISDIR : EINVAL;
		return -1;
	}
	given = strdup(out);
	if (!given)
		return -1;
	slash = strrchr(given, '/');
	if (slash)
		slash[slash == given] = '\0';
	path = realpath(slash ? given : ".", NULL);
	free(given);
	if (!path)
		return -1;
	if ((size_t)snprintf(dir, sizeof(dir), "%s/.devpool-record.XXXXXX", path) >= sizeof(dir)) {
		errno = ENAMETOOLONG;
		err = -1;
	} else if (!mkdtemp(dir)) {
		err = -1;
	}
	free(path);
	return err;
}

static void print_command(FILE *csv, const struct record_header *header)
{
	uint32_t i, len = header->argv_len;

	if (len > sizeof(header->argv))
		len = sizeof(header->argv);
	while (len && !header->argv[len - 1])
		len--;
	fputs("# command: ", csv);
	for (i = 0; i < len; i++) {
		unsigned char c = header->argv[i];

		/* A newline in an argument would otherwise end the comment. */
		if (!c)
			c = ' ';
		fputc(c < ' ' || c == 127 ? '?' : c, csv);
	}
	fputc('\n', csv);
}

/* Goes through the rows; prints them if @csv is not NULL, else counts them. */
static uint64_t each_row(FILE *raw, FILE *csv, uint64_t *streams, uint64_t *peak)
{
	uint64_t rows = 0, live = 0;
	struct record_row row;

	if (fseeko(raw, RECORD_HEADER, SEEK_SET))
		return 0;
	for (; fread(&row, sizeof(row), 1, raw) == 1 && row.op; rows++) {
		if (csv) {
			fprintf(csv, "%c,%llu,%llu,%u\n", row.op, (unsigned long long)row.id,
				(unsigned long long)row.size, row.stream);
			continue;
		}
		live += row.op == 'a' ? row.size : -row.size;
		if (live > *peak)
			*peak = live;
		if (row.stream >= *streams)
			*streams = row.stream + 1;
	}
	return rows;
}

static int write_trace(FILE *raw, FILE *csv, const struct record_header *header)
{
	uint64_t streams = 0, peak = 0, rows;

	errno = 0;
	rows = each_row(raw, NULL, &streams, &peak);
	fputs("# devpool-record: heap allocations of one program\n", csv);
	print_command(csv, header);
	fprintf(csv, "# min: %zu  (requests of fewer bytes are not here)\n", min_size);
	fprintf(csv, "# streams: %llu  (threads, by their first recorded block)\n",
		(unsigned long long)streams);
	fprintf(csv, "# rows: %llu\n", (unsigned long long)rows);
	fprintf(csv, "# peak live: %llu bytes\n", (unsigned long long)peak);
	if (header->unseen)
		fprintf(csv, "# frees not seen: %llu  (row written when the address came back)\n",
			(unsigned long long)header->unseen);
	if (header->error)
		fprintf(csv, "# incomplete: the recording stopped here: %s\n",
			strerror(header->error));
	fputs("# columns: op,id,size,stream\n", csv);
	each_row(raw, csv, NULL, NULL);
	if (!fflush(csv) && !ferror(csv) && !ferror(raw))
		return 0;
	return errno ? -errno : -EIO;
}

/*
 * Turns the log @name into the trace @to; 0, or an exit status after a message.
 * A log without its magic is about to be begun if its process lives: nothing is
 * in it then. Else the process could not begin it, as on a full disk.
 */
static int convert(const char *name, const char *to)
{
	char from[PATH_MAX + NAME_MAX + 2], tmp[PATH_MAX + 8];
	static struct record_header header;
	FILE *csv, *raw;
	int err;

	snprintf(from, sizeof(from), "%s/%s", dir, name);
	snprintf(tmp, sizeof(tmp), "%s/csv", dir);
	raw = fopen(from, "re");
	unlink(from);
	if (!raw || fread(&header, sizeof(header), 1, raw) != 1 || header.magic != RECORD_MAGIC) {
		if (raw)
			fclose(raw);
		if (!kill(atoi(name), 0))
			return 0;
		complain("%s: the program could not begin its log", to);
		return EXIT_RECORDER;
	}
	csv = fopen(tmp, "we");
	err = csv ? write_trace(raw, csv, &header) : -errno;
	fclose(raw);
	if (csv && fclose(csv) && !err)
		err = -errno;
	if (!err && rename(tmp, to))
		err = -errno;
	if (err) {
		unlink(tmp);
		complain("%s: cannot write: %s", to, strerror(-err));
		return EXIT_RECORDER;
	}
	if (header.error)
		complain("%s: the recording stopped early: %s", to, strerror(header.error));
	return header.error ? EXIT_RECORDER : 0;
}

/*
 * Under another name no process finds the folder any more: none that outlives
 * COMMAND can begin a log, or go on with a new window of one, behind our back.
 */
static void close_dir(void)
{
	char closed[PATH_MAX + 8];

	snprintf(closed, sizeof(closed), "%s.end", dir);
	if (strlen(closed) < sizeof(dir) && !rename(dir, closed))
		strcpy(dir, closed);
}

/*
 * Logs are named PID.N. The lowest N of COMMAND's own process is OUT: not always
 * 0, when COMMAND itself could not be recorded but something it executed could.
 */
static int collect(pid_t child)
{
	int first = INT_MAX, n, others = 0, pid, status = 0;
	char to[PATH_MAX + 32], name[32];
	struct dirent *entry;
	DIR *d;

	d = opendir(dir);
	if (!d) {
		complain("%s: %s", dir, strerror(errno));
		return EXIT_RECORDER;
	}
	while ((entry = readdir(d)))
		if (sscanf(entry->d_name, "%d.%d", &pid, &n) == 2 && pid == child && n < first)
			first = n;
	rewinddir(d);
	while ((entry = readdir(d))) {
		if (sscanf(entry->d_name, "%d.%d", &pid, &n) != 2)
			continue;
		if (pid == child && n == first)
			continue;
		snprintf(to, sizeof(to), n ? "%s.%d.%d" : "%s.%d", out, pid, n);
		others++;
		if (convert(entry->d_name, to))
			status = EXIT_RECORDER;
	}
	closedir(d);
	if (others)
		complain("further programs recorded beside %s: %d", out, others);
	if (first == INT_MAX) {
		complain("nothing was recorded: statically linked, setuid or of another machine");
		return EXIT_RECORDER;
	}
	snprintf(name, sizeof(name), "%d.%d", (int)child, first);
	return convert(name, out) ? EXIT_RECORDER : status;
}

static void forward(int sig)
{
	int err = errno;

	if (command > 0)
		kill(command, sig);
	errno = err;
}

/*
 * The pid that COMMAND had, or a negative errno.
 *
 * A key on the terminal reaches the command by itself; the launcher outlives it.
 */
static pid_t run(char **argv, int *status)
{
	struct sigaction act = { .sa_handler = forward, .sa_flags = SA_RESTART };
	pid_t pid;
	int err;

	err = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	if (err)
		return -err;
	command = pid;
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGHUP, &act, NULL);
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	/* Its pid may be another's from here on. */
	command = 0;
	return pid;
}

static int parse_min(const char *text)
{
	char *end;

	errno = 0;
	min_size = strtoull(text, &end, 10);
	return *text < '0' || *text > '9' || *end || errno || !min_size ? -EINVAL : 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "min", required_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int err, failed, opt, status = 0;
	char preload[PATH_MAX];
	pid_t child;

	/* '+': the first word that is no option begins COMMAND, with options its own. */
	while ((opt = getopt_long(argc, argv, "+o:m:h", options, NULL)) != -1) {
		switch (opt) {
		case 'o':
			out = optarg;
			break;
		case 'm':
			if (parse_min(optarg)) {
				complain("--min wants a number of bytes, 1 or more: '%s'", optarg);
				return usage();
			}
			break;
		case 'h':
			fputs(help, stdout);
			return fflush(stdout) ? EXIT_RECORDER : 0;
		default:
			return usage();
		}
	}
	if (!out || !*out || optind == argc) {
		complain(optind == argc ? "no command given" : "no output file given (-o)");
		return usage();
	}
	err = find_preload(preload, sizeof(preload));
	if (err) {
		complain("devpool-record.so: %s", err == -EINVAL ?
			 "its path has a space or a colon in it" : strerror(-err));
		return EXIT_RECORDER;
	}
	if (make_dir()) {
		complain("%s: %s", out, errno == EINVAL ? "not a regular file" : strerror(errno));
		return EXIT_USAGE;
	}
	err = set_environment(preload);
	child = err ? err : run(&argv[optind], &status);
	if (child < 0) {
		complain("%s: %s", argv[optind], strerror(-child));
		rmdir(dir);
		return child == -ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
	}
	close_dir();
	failed = collect(child);
	rmdir(dir);
	if (failed)
		return failed;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
