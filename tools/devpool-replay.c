// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * devpool-replay: plays a trace of allocations through the library and says
 * what it cost.
 *
 * A trace is text: lines "op,id,size,stream" with op "a" or "f", and comments
 * that begin with "#". It is read whole and checked before anything is played,
 * and ids and streams become small indices on the way, so that the playing does
 * nothing but the calls.
 *
 * A trace has no times. Where streams are played, work that uses a block is
 * submitted just before the block is freed, and done some events later: how many is
 * drawn at random, out of a seed. So each run is the same.
 */
#define _GNU_SOURCE
#include <devpool.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXIT_USAGE	2
#define PAGE		4096
#define PROGRESS_EVENTS	256
#define DEFAULT_DELAY	64

/**
 * struct block - an allocation of the trace
 * @id: its name there
 * @size: bytes to ask for
 * @stream: index into &struct trace.streams
 * @live: while the trace is read: not freed yet; while it is played: @ptr is good
 * @ptr: where it is
 */
struct block {
	uint64_t id;
	uint64_t size;
	uint32_t stream;
	bool live;
	void *ptr;
};

/**
 * struct event - a line of the trace
 * @block: index into &struct trace.blocks
 * @line: its number in the file
 * @alloc: or else free
 */
struct event {
	uint32_t block;
	uint32_t line : 31;
	uint32_t alloc : 1;
};

/* Open addressing from a number to a small index + 1; 0 is an empty slot. */
struct index {
	uint64_t *key;
	uint32_t *value;
	uint32_t used;
	uint32_t slots;
};

struct trace {
	const char *file;
	struct event *events;
	struct block *blocks;
	uint32_t nr_events;
	uint32_t nr_blocks;
	uint32_t nr_streams;
	uint32_t nr_allocs;
	uint64_t peak_live;
	struct index ids;
	struct index streams;
};

struct options {
	const char *device;
	uint64_t multiply;
	uint64_t divide;
	bool check;
	bool keep_going;
	bool pool_per_stream;
	bool streams;
	uint64_t delay;
	uint64_t seed;
	bool json;
};

/**
 * struct work - work on a stream that is not done yet
 * @point: its number there
 * @due: when it is done
 * @block: the block that it uses, which is freed
 * @addr: where that was
 * @reused: a later block of the same stream is there, or was
 */
struct work {
	uint64_t point;
	uint64_t due;
	struct block *block;
	uint64_t addr;
	bool reused;
};

/**
 * struct line - a stream that is played
 * @stream: its number in the device
 * @work: what is not done yet begins at @first, in its order, and ends before @end
 * @first: see @work
 * @end: see @work
 * @due: when the latest of it is done
 */
struct line {
	uint32_t stream;
	struct work *work;
	uint32_t first;
	uint32_t end;
	uint64_t due;
};

/**
 * struct player - what plays
 * @lines: a line for each stream of the trace, if streams are played
 * @nr_lines: those that are there
 * @now: events that were played, and for how many more requests had to wait
 * @next: when the next work is done, UINT64_MAX if there is none
 * @random: what is drawn next
 * @points: points that were submitted
 * @stalled: requests that had to wait for work
 * @overlaps: blocks handed out where another stream's work was not done
 */
struct player {
	struct devpool *dev;
	struct devpool_info info;
	struct devpool_pool **pools;
	struct devpool_alloc_opts *opts;
	uint32_t nr_pools;
	struct line *lines;
	uint32_t nr_lines;
	uint64_t now;
	uint64_t next;
	uint64_t random;
	uint64_t points;
	uint64_t stalled;
	uint64_t overlaps;
	uint64_t failed;
	uint64_t mismatches;
	uint64_t pages;
	uint64_t left;
	double seconds;
	struct devpool_stats stats;
	struct devpool_result closed;
};

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("devpool-replay: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

static void *grow(void *old, uint32_t used, size_t each)
{
	void *new;

	/* Doubles whenever a power of two is full. */
	if (used & (used - 1))
		return old;
	new = reallocarray(old, used ? 2 * (size_t)used : 1, each);
	if (!new) {
		complain("out of memory");
		exit(EXIT_FAILURE);
	}
	return new;
}

static uint32_t *index_slot(struct index *index, uint64_t key)
{
	uint32_t i = (uint32_t)(key * 0x9e3779b97f4a7c15ULL >> 32) & (index->slots - 1);

	while (index->value[i] && index->key[i] != key)
		i = (i + 1) & (index->slots - 1);
	index->key[i] = key;
	return &index->value[i];
}

static void index_resize(struct index *index)
{
	struct index old = *index;
	uint32_t i;

	index->slots = old.slots ? 2 * old.slots : 1024;
	index->key = calloc(index->slots, sizeof(*index->key));
	index->value = calloc(index->slots, sizeof(*index->value));
	if (!index->key || !index->value) {
		complain("out of memory");
		exit(EXIT_FAILURE);
	}
	for (i = 0; i < old.slots; i++)
		if (old.value[i])
			*index_slot(index, old.key[i]) = old.value[i];
	free(old.key);
	free(old.value);
}

/* The index of a number + 1, or 0 in a slot that the caller may fill. */
static uint32_t *index_find(struct index *index, uint64_t key)
{
	if (2 * index->used >= index->slots)
		index_resize(index);
	return index_slot(index, key);
}

static void index_free(struct index *index)
{
	free(index->key);
	free(index->value);
}

/* A plain decimal number and what has to follow it */
static bool parse_number(char **at, char end, uint64_t max, uint64_t *value)
{
	char *p = *at;
	uint64_t v = 0;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
			return false;
	if (*p != end || v > max)
		return false;
	*at = p + 1;
	*value = v;
	return true;
}

static const char *parse_alloc(struct trace *trace, uint64_t id, uint64_t size,
			       uint64_t stream, uint32_t *out)
{
	uint32_t *id_slot = index_find(&trace->ids, id);
	uint32_t *stream_slot = index_find(&trace->streams, stream);
	struct block *block;

	if (*id_slot)
		return "the id was allocated before";
	if (!*stream_slot) {
		*stream_slot = ++trace->nr_streams;
		trace->streams.used++;
	}
	trace->blocks = grow(trace->blocks, trace->nr_blocks, sizeof(*block));
	block = &trace->blocks[trace->nr_blocks];
	*block = (struct block) {
		.id = id, .size = size, .stream = *stream_slot - 1, .live = true,
	};
	*out = trace->nr_blocks++;
	*id_slot = trace->nr_blocks;
	trace->ids.used++;
	trace->nr_allocs++;
	return NULL;
}

static const char *parse_free(struct trace *trace, uint64_t id, uint64_t size,
			      uint64_t stream, uint32_t *out)
{
	uint32_t i = *index_find(&trace->ids, id);
	uint32_t s = *index_find(&trace->streams, stream);
	struct block *block;

	if (!i)
		return "the id was never allocated";
	block = &trace->blocks[i - 1];
	if (!block->live)
		return "the id was freed before";
	if (block->size != size || !s || block->stream != s - 1)
		return "size or stream is not that of the allocation";
	block->live = false;
	*out = i - 1;
	return NULL;
}

static const char *parse_line(struct trace *trace, char *line, uint32_t number)
{
	uint64_t id, size, stream;
	const char *err;
	char *at = line;
	uint32_t block;
	bool alloc;

	if ((*at != 'a' && *at != 'f') || at[1] != ',')
		return "not a line 'op,id,size,stream' with op a or f";
	alloc = *at == 'a';
	at += 2;
	if (!parse_number(&at, ',', UINT64_MAX, &id))
		return "the id is not a number";
	if (!parse_number(&at, ',', INT64_MAX, &size) || !size)
		return "the size is not a number above 0";
	if (!parse_number(&at, '\0', UINT32_MAX - 1, &stream))
		return "the stream is not a number";
	err = (alloc ? parse_alloc : parse_free)(trace, id, size, stream, &block);
	if (err)
		return err;
	if (trace->nr_events == INT32_MAX)
		return "the trace is too long";
	trace->events = grow(trace->events, trace->nr_events, sizeof(*trace->events));
	trace->events[trace->nr_events++] = (struct event) {
		.block = block, .line = number, .alloc = alloc,
	};
	return NULL;
}

static int read_trace(struct trace *trace, const char *file)
{
	const char *err = NULL;
	char *line = NULL;
	uint32_t number = 0;
	size_t room = 0;
	ssize_t len;
	FILE *in;

	trace->file = file;
	in = strcmp(file, "-") ? fopen(file, "re") : stdin;
	if (!in) {
		complain("%s: %s", file, strerror(errno));
		return -1;
	}
	while (!err && (len = getline(&line, &room, in)) >= 0) {
		number++;
		if (len && line[len - 1] == '\n')
			line[--len] = '\0';
		if (len && line[len - 1] == '\r')
			line[--len] = '\0';
		if (!len || *line == '#')
			continue;
		if (strlen(line) != (size_t)len)
			err = "a NUL byte";
		else
			err = parse_line(trace, line, number);
	}
	if (!err && ferror(in))
		err = "cannot read further";
	if (!err && !trace->nr_events)
		err = "the trace has no events";
	if (err)
		complain("%s:%u: %s", file, number, err);
	free(line);
	if (in != stdin)
		fclose(in);
	return err ? -1 : 0;
}

/* Sizes as they are to be asked for, and the most that is alive at a time */
static int scale_trace(struct trace *trace, const struct options *options)
{
	uint64_t live = 0;
	struct event *event;
	struct block *block;
	uint32_t i;

	for (i = 0; i < trace->nr_blocks; i++) {
		block = &trace->blocks[i];
		block->live = false;
		if (__builtin_mul_overflow(block->size, options->multiply, &block->size) ||
		    block->size > SIZE_MAX) {
			complain("%s: block %" PRIu64 " is too large when scaled",
				 trace->file, block->id);
			return -1;
		}
		block->size /= options->divide;
		if (!block->size)
			block->size = 1;
	}
	for (i = 0; i < trace->nr_events; i++) {
		event = &trace->events[i];
		block = &trace->blocks[event->block];
		if (!event->alloc) {
			live -= block->size;
			continue;
		}
		if (__builtin_add_overflow(live, block->size, &live)) {
			complain("%s: more than 2^64 bytes are alive", trace->file);
			return -1;
		}
		if (live > trace->peak_live)
			trace->peak_live = live;
	}
	return 0;
}

static void free_trace(struct trace *trace)
{
	free(trace->events);
	free(trace->blocks);
	index_free(&trace->ids);
	index_free(&trace->streams);
}

/* What stands in page @page of a block: says whose it is, and which page. */
static uint64_t tag(const struct block *block, uint64_t page)
{
	return (block->id + 1) * 0x9e3779b97f4a7c15ULL ^ page * 0xd6e8feb86659fd93ULL;
}

static size_t tag_bytes(const struct block *block, uint64_t offset)
{
	return block->size - offset < sizeof(uint64_t) ? block->size - offset : sizeof(uint64_t);
}

static void write_tags(struct player *player, struct block *block)
{
	uint64_t offset, value;

	for (offset = 0; offset < block->size; offset += PAGE) {
		value = tag(block, offset / PAGE);
		memcpy((char *)block->ptr + offset, &value, tag_bytes(block, offset));
		player->pages++;
	}
}

static void check_tags(struct player *player, const struct trace *trace,
		       const struct block *block, uint32_t line)
{
	uint64_t offset, value, found;

	for (offset = 0; offset < block->size; offset += PAGE) {
		value = tag(block, offset / PAGE);
		if (!memcmp((char *)block->ptr + offset, &value, tag_bytes(block, offset)))
			continue;
		found = 0;
		memcpy(&found, (char *)block->ptr + offset, tag_bytes(block, offset));
		if (player->mismatches++ < 10)
			complain("%s:%u: block %" PRIu64 " of %" PRIu64 " bytes has, at %" PRIu64
				 ", %016" PRIx64 " instead of %016" PRIx64, trace->file, line,
				 block->id, block->size, offset, found, value);
		return;
	}
}

static int fail(int err, const char *what)
{
	complain("%s: %s", what, strerror(-err));
	return -1;
}

static int make_pools(struct player *player, const struct trace *trace, bool per_stream)
{
	uint32_t n = per_stream ? trace->nr_streams : 1, i;
	int err;

	player->pools = calloc(n, sizeof(struct devpool_pool *));
	player->opts = calloc(trace->nr_streams, sizeof(*player->opts));
	if (!player->pools || !player->opts)
		return fail(-ENOMEM, "pools");
	for (i = 0; i < n; i++) {
		err = devpool_pool_create(player->dev, NULL, &player->pools[i]);
		if (err)
			return fail(err, "making a pool");
		player->nr_pools++;
	}
	for (i = 0; i < trace->nr_streams; i++) {
		player->opts[i].sz = sizeof(player->opts[i]);
		player->opts[i].pool = devpool_pool_id(player->pools[per_stream ? i : 0]);
		/* What is in use is done by this program, which cannot do it while it waits. */
		player->opts[i].timeout = 0;
	}
	return 0;
}

static int make_streams(struct player *player, const struct trace *trace)
{
	uint32_t i;
	int err;

	player->lines = calloc(trace->nr_streams, sizeof(*player->lines));
	if (!player->lines)
		return fail(-ENOMEM, "streams");
	for (i = 0; i < trace->nr_streams; i++) {
		err = devpool_stream_create(player->dev, 0, &player->lines[i].stream);
		if (err)
			return fail(err, "making a stream");
		player->nr_lines++;
		player->opts[i].stream = player->lines[i].stream;
	}
	return 0;
}

/* splitmix64 */
static uint64_t draw(struct player *player)
{
	uint64_t v = player->random += 0x9e3779b97f4a7c15ULL;

	v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ULL;
	v = (v ^ v >> 27) * 0x94d049bb133111ebULL;
	return v ^ v >> 31;
}

/* What the work has used is still there until it is done, unless its stream has it. */
static void check_work(struct player *player, const struct trace *trace, const struct work *work,
		       uint32_t event)
{
	if (!work->reused)
		check_tags(player, trace, work->block, trace->events[event].line);
}

/* Does what is due of a line. */
static void do_line(struct player *player, const struct trace *trace, struct line *line,
		    uint32_t event, bool check)
{
	uint64_t point = 0;
	int err;

	for (; line->first < line->end && line->work[line->first].due <= player->now;
	     line->first++) {
		if (check)
			check_work(player, trace, &line->work[line->first], event);
		point = line->work[line->first].point;
	}
	if (!point)
		return;
	err = devpool_stream_signal(player->dev, line->stream, point);
	if (err) {
		player->failed++;
		complain("%s:%u: signalling a point: %s", trace->file, trace->events[event].line,
			 strerror(-err));
	}
	/* Half of it at least is free, so each entry is moved once at most. */
	if (line->first >= line->end - line->first) {
		line->end -= line->first;
		memmove(line->work, line->work + line->first, line->end * sizeof(*line->work));
		line->first = 0;
	}
}

/* Does what is due by now, and sees what comes next. */
static void do_work(struct player *player, const struct trace *trace, uint32_t event, bool check)
{
	struct line *line;
	uint32_t i;

	if (player->now < player->next)
		return;
	player->next = UINT64_MAX;
	for (i = 0; i < player->nr_lines; i++) {
		line = &player->lines[i];
		do_line(player, trace, line, event, check);
		if (line->first < line->end && line->work[line->first].due < player->next)
			player->next = line->work[line->first].due;
	}
}

/* Waits for the next work. Whether there was some */
static bool wait_for_work(struct player *player, const struct trace *trace, uint32_t event,
			  bool check)
{
	if (player->next == UINT64_MAX)
		return false;
	player->now = player->next;
	do_work(player, trace, event, check);
	return true;
}

/* Whether a block that was handed out is where other streams' work is not done */
static void check_place(struct player *player, const struct trace *trace,
			const struct block *block, uint32_t event)
{
	struct work *work;
	uint64_t addr;
	uint32_t i, j;

	if (!player->nr_lines || devpool_addr(player->dev, block->ptr, &addr))
		return;
	for (i = 0; i < player->nr_lines; i++) {
		for (j = player->lines[i].first; j < player->lines[i].end; j++) {
			work = &player->lines[i].work[j];
			if (addr >= work->addr + work->block->size ||
			    work->addr >= addr + block->size)
				continue;
			work->reused = true;
			if (i != block->stream && player->overlaps++ < 10)
				complain("%s:%u: block %" PRIu64 " is where block %" PRIu64
					 " is still in use", trace->file,
					 trace->events[event].line, block->id, work->block->id);
		}
	}
}

/* More work on a block's stream, which uses the block */
static int submit_work(struct player *player, const struct trace *trace, struct block *block,
		       uint32_t event, const struct options *options)
{
	struct line *line = &player->lines[block->stream];
	struct work work = { .block = block };
	int err;

	do {
		err = devpool_stream_submit(player->dev, line->stream, -1, &work.point, NULL);
	} while (err == -EDQUOT && wait_for_work(player, trace, event, options->check));
	if (!err)
		err = devpool_addr(player->dev, block->ptr, &work.addr);
	if (err)
		return err;
	player->points++;
	work.due = player->now + draw(player) % (options->delay + 1);
	if (work.due < line->due)
		work.due = line->due;
	line->due = work.due;
	if (work.due < player->next)
		player->next = work.due;
	line->work = grow(line->work, line->end, sizeof(*line->work));
	line->work[line->end++] = work;
	return 0;
}

/* What is left is done by that. */
static int end_streams(struct player *player, const struct trace *trace, bool check)
{
	struct line *line;
	int err, ret = 0;
	uint32_t i;

	for (i = 0; i < player->nr_lines; i++) {
		line = &player->lines[i];
		for (; check && line->first < line->end; line->first++)
			check_work(player, trace, &line->work[line->first], trace->nr_events - 1);
		err = devpool_stream_destroy(player->dev, line->stream);
		if (err)
			ret = fail(err, "ending a stream");
		free(line->work);
	}
	player->nr_lines = 0;
	free(player->lines);
	player->lines = NULL;
	return ret;
}

static void progress(uint32_t done, uint32_t all)
{
	fprintf(stderr, "\r%3u %%", (unsigned int)(100ULL * done / all));
	if (done == all)
		fputs("\r     \r", stderr);
	fflush(stderr);
}

static int try_alloc(struct player *player, struct block *block)
{
	return devpool_alloc(player->dev, block->size, &player->opts[block->stream], &block->ptr);
}

static void play_alloc(struct player *player, struct trace *trace, uint32_t event, bool check)
{
	struct block *block = &trace->blocks[trace->events[event].block];
	int err;

	err = try_alloc(player, block);
	player->stalled += err == -EAGAIN;
	while (err == -EAGAIN && wait_for_work(player, trace, event, check))
		err = try_alloc(player, block);
	if (err) {
		player->failed++;
		complain("%s:%u: a request of %" PRIu64 " bytes: %s", trace->file,
			 trace->events[event].line, block->size, strerror(-err));
		return;
	}
	block->live = true;
	check_place(player, trace, block, event);
	if (check)
		write_tags(player, block);
}

/* @in_use: its stream goes on using it */
static void play_free(struct player *player, const struct trace *trace, struct block *block,
		      uint32_t event, bool in_use, const struct options *options)
{
	uint32_t line = trace->events[event].line;
	int err = 0;

	/* Its request failed. */
	if (!block->live)
		return;
	if (options->check)
		check_tags(player, trace, block, line);
	block->live = false;
	if (in_use)
		err = submit_work(player, trace, block, event, options);
	if (!err)
		err = devpool_free(player->dev, block->ptr);
	if (err) {
		player->failed++;
		complain("%s:%u: freeing block %" PRIu64 ": %s", trace->file, line, block->id,
			 strerror(-err));
	}
}

static void play(struct player *player, struct trace *trace, const struct options *options)
{
	bool terminal = isatty(STDERR_FILENO);
	const struct event *event;
	struct timespec t0, t1;
	uint32_t i;

	clock_gettime(CLOCK_MONOTONIC, &t0);
	for (i = 0; i < trace->nr_events; i++) {
		event = &trace->events[i];
		do_work(player, trace, i, options->check);
		if (event->alloc) {
			play_alloc(player, trace, i, options->check);
			if (player->failed && !options->keep_going)
				break;
		} else {
			play_free(player, trace, &trace->blocks[event->block], i, options->streams,
				  options);
		}
		player->now++;
		if (terminal && !(i % PROGRESS_EVENTS))
			progress(i, trace->nr_events);
	}
	clock_gettime(CLOCK_MONOTONIC, &t1);
	if (terminal)
		progress(trace->nr_events, trace->nr_events);
	player->seconds = (t1.tv_sec - t0.tv_sec) + (t1.tv_nsec - t0.tv_nsec) / 1e9;
}

static void free_rest(struct player *player, struct trace *trace, const struct options *options)
{
	uint32_t i;

	for (i = 0; i < trace->nr_blocks; i++) {
		if (!trace->blocks[i].live)
			continue;
		player->left++;
		play_free(player, trace, &trace->blocks[i], trace->nr_events - 1, false, options);
	}
}

static int close_pools(struct player *player)
{
	struct devpool_result result;
	int err, ret = 0;
	uint32_t i;

	for (i = 0; i < player->nr_pools; i++) {
		err = devpool_pool_close(player->pools[i], 0, &result);
		if (err) {
			ret = fail(err, "closing a pool");
			continue;
		}
		player->closed.freed += result.freed;
		player->closed.kept += result.kept;
		player->closed.pending += result.pending;
		player->closed.live += result.live;
	}
	player->nr_pools = 0;
	return ret;
}

/* Text for a reader: the number, and in words he knows. */
static const char *human(uint64_t bytes, char *buf, size_t room)
{
	static const char * const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = bytes;
	unsigned int i = 0;

	while (value >= 1024 && i < sizeof(units) / sizeof(units[0]) - 1) {
		value /= 1024;
		i++;
	}
	snprintf(buf, room, i ? "%.2f %s" : "%.0f %s", value, units[i]);
	return buf;
}

static void show_bytes(const char *name, uint64_t bytes)
{
	char buf[32];

	printf("%-15s %" PRIu64 " (%s)\n", name, bytes, human(bytes, buf, sizeof(buf)));
}

static double ratio(const struct player *player, const struct trace *trace)
{
	return (double)player->stats.out_resident.peak / trace->peak_live;
}

static void show(const struct player *player, const struct trace *trace,
		 const struct options *options)
{
	const struct devpool_stats *stats = &player->stats;
	char a[32], b[32];

	printf("%-15s %s\n", "trace", trace->file);
	printf("%-15s devpool%u: %s, %s in chunks of %s\n", "device", player->info.out_index,
	       (const char *)player->info.out_backend,
	       human(player->info.out_bytes, a, sizeof(a)),
	       human(player->info.out_chunk, b, sizeof(b)));
	printf("%-15s %u: %u allocations, %u frees; %u stream%s, %s\n", "events",
	       trace->nr_events, trace->nr_allocs, trace->nr_events - trace->nr_allocs,
	       trace->nr_streams, trace->nr_streams == 1 ? "" : "s",
	       options->pool_per_stream ? "a pool for each" : "one pool");
	if (options->multiply != 1)
		printf("%-15s times %" PRIu64 "\n", "sizes", options->multiply);
	if (options->divide != 1)
		printf("%-15s divided by %" PRIu64 "\n", "sizes", options->divide);
	show_bytes("peak live", trace->peak_live);
	show_bytes("peak resident", stats->out_resident.peak);
	/* Of a run that was cut short it would say nothing. */
	if (player->failed)
		printf("%-15s -\n", "ratio");
	else
		printf("%-15s %.4f\n", "ratio", ratio(player, trace));
	printf("%-15s %" PRIu64 "\n", "hits", (uint64_t)stats->out_hits);
	printf("%-15s %" PRIu64 "\n", "recycles", (uint64_t)stats->out_recycles);
	printf("%-15s %" PRIu64 "\n", "grows", (uint64_t)stats->out_grows);
	if (options->streams) {
		printf("%-15s %" PRIu64 ", each done up to %" PRIu64 " events later, seed %" PRIu64
		       "\n", "points", player->points, options->delay, options->seed);
		printf("%-15s %" PRIu64 " requests waited for a point\n", "stalled",
		       player->stalled);
		printf("%-15s %" PRIu64 " blocks handed out while in use\n", "overlaps",
		       player->overlaps);
	}
	printf("%-15s %" PRIu64 "\n", "failed", player->failed);
	if (options->check)
		printf("%-15s %" PRIu64 " pages tagged, %" PRIu64 " blocks damaged\n", "check",
		       player->pages, player->mismatches);
	printf("%-15s %" PRIu64 " block%s, freed then\n", "live at the end", player->left,
	       player->left == 1 ? "" : "s");
	printf("%-15s %.3f s\n", "time", player->seconds);
	show_bytes("closing freed", player->closed.freed);
	show_bytes("closing kept", player->closed.kept);
}

static void json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		if ((unsigned char)*s < 0x20)
			printf("\\u%04x", *s);
		else
			putchar(*s);
	}
	putchar('"');
}

static void show_json(const struct player *player, const struct trace *trace)
{
	const struct devpool_stats *stats = &player->stats;

	fputs("{\"trace\": ", stdout);
	json_string(trace->file);
	fputs(", \"backend\": ", stdout);
	json_string((const char *)player->info.out_backend);
	printf(", \"events\": %u, \"allocs\": %u, \"streams\": %u",
	       trace->nr_events, trace->nr_allocs, trace->nr_streams);
	printf(", \"peak_live\": %" PRIu64 ", \"peak_resident\": %" PRIu64 ", \"ratio\": %.4f",
	       trace->peak_live, (uint64_t)stats->out_resident.peak, ratio(player, trace));
	printf(", \"hits\": %" PRIu64 ", \"recycles\": %" PRIu64 ", \"grows\": %" PRIu64,
	       (uint64_t)stats->out_hits, (uint64_t)stats->out_recycles,
	       (uint64_t)stats->out_grows);
	printf(", \"points\": %" PRIu64 ", \"stalled\": %" PRIu64 ", \"overlaps\": %" PRIu64,
	       player->points, player->stalled, player->overlaps);
	printf(", \"failed\": %" PRIu64 ", \"damaged\": %" PRIu64 ", \"left\": %" PRIu64,
	       player->failed, player->mismatches, player->left);
	printf(", \"seconds\": %.6f, \"closing_freed\": %" PRIu64 ", \"closing_kept\": %" PRIu64
	       "}\n", player->seconds, player->closed.freed, player->closed.kept);
}

static int run(struct player *player, struct trace *trace, const struct options *options)
{
	int err;

	err = devpool_open(options->device, &player->dev);
	if (err)
		return fail(err, options->device ? options->device : "opening the device");
	err = devpool_info(player->dev, &player->info);
	if (err)
		return fail(err, "asking the device");
	if (options->check && !(player->info.out_features & DEVPOOL_FEATURE_MMAP)) {
		complain("--check needs memory, and a device of backend %s has none",
			 (const char *)player->info.out_backend);
		return -1;
	}
	if (options->streams && !(player->info.out_features & DEVPOOL_FEATURE_STREAMS)) {
		complain("--streams needs streams, and this module has none");
		return -1;
	}
	if (make_pools(player, trace, options->pool_per_stream) ||
	    (options->streams && make_streams(player, trace)))
		return -1;
	play(player, trace, options);
	/*
	 * No one else has this client, so the client's peak is that of the sum
	 * of its pools, however many there are.
	 */
	err = devpool_stats(player->dev, 0, &player->stats);
	if (err)
		return fail(err, "asking for the counters");
	free_rest(player, trace, options);
	err = end_streams(player, trace, options->check);
	return close_pools(player) ?: err;
}

static int replay(const char *file, const struct options *options)
{
	struct player player = { .next = UINT64_MAX, .random = options->seed };
	struct trace trace = { .file = file };
	int ret = EXIT_USAGE;

	if (read_trace(&trace, file) || scale_trace(&trace, options))
		goto out;
	ret = EXIT_FAILURE;
	if (run(&player, &trace, options))
		goto out;
	if (options->json)
		show_json(&player, &trace);
	else
		show(&player, &trace, options);
	if (fflush(stdout) || ferror(stdout))
		complain("cannot write: %s", strerror(errno));
	else if (!player.failed && !player.mismatches && !player.overlaps)
		ret = EXIT_SUCCESS;
out:
	end_streams(&player, &trace, false);
	close_pools(&player);
	devpool_close(player.dev);
	free(player.pools);
	free(player.opts);
	free_trace(&trace);
	return ret;
}

static void print_usage(FILE *out)
{
	fputs("usage: devpool-replay [OPTION]... FILE\n"
	      "Plays a trace of allocations (lines \"op,id,size,stream\"; - is standard input)\n"
	      "through devpool and says what it cost.\n"
	      "\n"
	      "  -d, --device NODE      the device ($DEVPOOL_DEVICE, else /dev/devpool0)\n"
	      "  -c, --check            write a tag into every page, verify it before the free\n"
	      "  -p, --pool-per WHAT    none: one private pool for all (default);\n"
	      "                         stream: one for each stream\n"
	      "  -s, --scale N|1/N      multiply or divide sizes (never below 1 byte)\n"
	      "  -S, --streams          play streams: a block is in use until some time after\n"
	      "                         its free\n"
	      "  -D, --delay EVENTS     with --streams: at most so many events (64)\n"
	      "  -e, --seed NUMBER      with --streams: what the delays are drawn from (1)\n"
	      "  -k, --keep-going       go on after a request that failed\n"
	      "  -j, --json             print one JSON object\n"
	      "  -h, --help             print this\n"
	      "\n"
	      "Exit status: 0; 1 if a request failed, a tag was lost, memory in use was handed\n"
	      "out or the device is not there; 2 for a wrong use or a trace that is not one.\n",
	      out);
}

static bool parse_scale(char *text, struct options *options)
{
	char *at = text;

	options->multiply = 1;
	options->divide = 1;
	if (!strncmp(text, "1/", 2)) {
		at += 2;
		return parse_number(&at, '\0', UINT64_MAX, &options->divide) && options->divide;
	}
	return parse_number(&at, '\0', UINT64_MAX, &options->multiply) && options->multiply;
}

static bool parse_pool_per(const char *text, struct options *options)
{
	options->pool_per_stream = !strcmp(text, "stream");
	return options->pool_per_stream || !strcmp(text, "none");
}

/* All digits */
static bool parse_whole(char *text, uint64_t max, uint64_t *value)
{
	return parse_number(&text, '\0', max, value);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "device", required_argument, NULL, 'd' },
		{ "check", no_argument, NULL, 'c' },
		{ "pool-per", required_argument, NULL, 'p' },
		{ "scale", required_argument, NULL, 's' },
		{ "streams", no_argument, NULL, 'S' },
		{ "delay", required_argument, NULL, 'D' },
		{ "seed", required_argument, NULL, 'e' },
		{ "keep-going", no_argument, NULL, 'k' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ }
	};
	struct options options = {
		.multiply = 1, .divide = 1, .delay = DEFAULT_DELAY, .seed = 1,
	};
	const char *for_streams = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "d:cp:s:SD:e:kjh", long_options, NULL)) != -1) {
		switch (c) {
		case 'd':
			options.device = optarg;
			break;
		case 'c':
			options.check = true;
			break;
		case 'p':
			if (parse_pool_per(optarg, &options))
				break;
			complain("--pool-per: '%s' is neither stream nor none", optarg);
			return EXIT_USAGE;
		case 's':
			if (parse_scale(optarg, &options))
				break;
			complain("--scale: '%s' is neither N nor 1/N", optarg);
			return EXIT_USAGE;
		case 'S':
			options.streams = true;
			break;
		case 'D':
			for_streams = "--delay";
			if (parse_whole(optarg, UINT32_MAX, &options.delay))
				break;
			complain("--delay: '%s' is not a number of events", optarg);
			return EXIT_USAGE;
		case 'e':
			for_streams = "--seed";
			if (parse_whole(optarg, UINT64_MAX, &options.seed))
				break;
			complain("--seed: '%s' is not a number", optarg);
			return EXIT_USAGE;
		case 'k':
			options.keep_going = true;
			break;
		case 'j':
			options.json = true;
			break;
		case 'h':
			print_usage(stdout);
			return EXIT_SUCCESS;
		default:
			fputs("Try 'devpool-replay --help'.\n", stderr);
			return EXIT_USAGE;
		}
	}
	if (for_streams && !options.streams) {
		complain("%s is of no use without --streams", for_streams);
		return EXIT_USAGE;
	}
	if (argc - optind != 1) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	return replay(argv[optind], &options);
}
