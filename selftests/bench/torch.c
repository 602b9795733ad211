// SPDX-License-Identifier: GPL-2.0-only
/*
 * A model of the sizes of PyTorch's caching allocator, for how much device
 * memory it holds while a trace is played:
 *
 *	torch [OPTION]... FILE		plays a trace: what was reserved in the end
 *	torch [OPTION]... --size N	one request: block, segment, cached rest
 *
 *	--expandable	expandable segments, else classic ones
 *	--streams	as the trace has them, else all is one stream
 *	--scale N	multiplies sizes
 *	--pad N		bytes added to each request (torch_npu: 32)
 *
 * There are two pools, of small and of large blocks. A request gets the smallest
 * cached block of its pool and stream that is large enough, the lowest among
 * equals, else memory of the device. That is a segment by itself, or, with
 * expandable segments, whole pages behind the only segment of that pool and
 * stream. Cached neighbours of one segment are joined. Nothing is given back,
 * for the device is never full here, so the peak is what was reserved in the end.
 */
#include <getopt.h>
#include <sys/queue.h>

#include "bench.h"

#define MIN_BLOCK	512ULL
#define SMALL_BLOCK	MIB
#define SMALL_SEGMENT	(2 * MIB)
#define LARGE_SEGMENT	(20 * MIB)
/* From here on a segment is no larger than its request, but for rounding. */
#define MIN_ALONE	(10 * MIB)
#define ROUND_ALONE	(2 * MIB)
#define MAX_BLOCKS	(1U << 24)
#define MAX_STREAMS	4096

/**
 * struct block - a part of a segment
 * @link: in the list of cached blocks
 * @below: its neighbour at lower addresses in the segment
 * @above: that at higher ones
 * @addr: segments lie behind one another, as they were made
 * @size: bytes
 * @stream: whose it is
 * @small: the pool
 * @cached: free
 */
struct block {
	LIST_ENTRY(block) link;
	struct block *below;
	struct block *above;
	uint64_t addr;
	uint64_t size;
	struct stream *stream;
	bool small;
	bool cached;
};

/**
 * struct stream - a stream of the trace
 * @end: for large and for small blocks, the last one of the segment that can grow
 */
struct stream {
	struct block *end[2];
};

struct model {
	LIST_HEAD(, block) cached;
	uint64_t reserved;
	uint64_t segments;
	uint64_t last_segment;
	uint64_t pad;
	bool expandable;
};

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static struct block *new_block(uint64_t addr, uint64_t size, const struct block *like)
{
	struct block *block = malloc(sizeof(*block));

	if (!block)
		bench_die("block");
	*block = *like;
	block->addr = addr;
	block->size = size;
	return block;
}

static void cache(struct model *model, struct block *block)
{
	block->cached = true;
	LIST_INSERT_HEAD(&model->cached, block, link);
}

static void uncache(struct block *block)
{
	block->cached = false;
	LIST_REMOVE(block, link);
}

/* What stands at the end of a segment that can grow is as large as it could be. */
static uint64_t possible_size(const struct model *model, const struct block *block)
{
	return model->expandable && !block->above ? UINT64_MAX : block->size;
}

static bool fits_better(const struct model *model, const struct block *a, const struct block *b)
{
	uint64_t x = possible_size(model, a), y = possible_size(model, b);

	return x < y || (x == y && a->addr < b->addr);
}

static struct block *best_fit(struct model *model, const struct block *want)
{
	struct block *best = NULL, *block;

	LIST_FOREACH(block, &model->cached, link) {
		if (block->small != want->small || block->stream != want->stream ||
		    block->size < want->size)
			continue;
		if (!best || fits_better(model, block, best))
			best = block;
	}
	return best;
}

static struct block *new_segment(struct model *model, const struct block *want)
{
	uint64_t bytes;

	if (want->small)
		bytes = SMALL_SEGMENT;
	else if (want->size < MIN_ALONE)
		bytes = LARGE_SEGMENT;
	else
		bytes = round_up(want->size, ROUND_ALONE);
	model->last_segment = bytes;
	model->segments++;
	model->reserved += bytes;
	return new_block(model->reserved - bytes, bytes, want);
}

/* Pages behind the segment of that pool and stream, or its first ones */
static struct block *expand(struct model *model, const struct block *want)
{
	uint64_t page = want->small ? SMALL_SEGMENT : LARGE_SEGMENT;
	struct block **end = &want->stream->end[want->small];
	struct block *last = *end;
	uint64_t bytes;

	if (last && last->cached) {
		bytes = round_up(want->size - last->size, page);
		uncache(last);
		last->size += bytes;
	} else {
		bytes = round_up(want->size, page);
		*end = new_block(last ? last->addr + last->size : 0, bytes, want);
		(*end)->below = last;
		if (last)
			last->above = *end;
		else
			model->segments++;
	}
	model->last_segment = bytes;
	model->reserved += bytes;
	return *end;
}

static bool should_split(const struct model *model, const struct block *block, uint64_t rest)
{
	if (block->small || model->expandable)
		return rest >= MIN_BLOCK;
	return rest > SMALL_BLOCK;
}

static struct block *take(struct model *model, struct stream *stream, uint64_t bytes)
{
	struct block want = { .size = round_up(bytes + model->pad, MIN_BLOCK), .stream = stream };
	struct block *block, *rest;

	want.small = want.size <= SMALL_BLOCK;
	block = best_fit(model, &want);
	if (block)
		uncache(block);
	else if (model->expandable)
		block = expand(model, &want);
	else
		block = new_segment(model, &want);

	if (should_split(model, block, block->size - want.size)) {
		rest = new_block(block->addr + want.size, block->size - want.size, block);
		rest->below = block;
		if (rest->above)
			rest->above->below = rest;
		else
			stream->end[want.small] = rest;
		block->above = rest;
		block->size = want.size;
		cache(model, rest);
	}
	return block;
}

/* Joins two neighbours of which neither is in the list. */
static struct block *join(struct block *low, struct block *high)
{
	low->size += high->size;
	low->above = high->above;
	if (low->above)
		low->above->below = low;
	else
		low->stream->end[low->small] = low;
	free(high);
	return low;
}

static void give(struct model *model, struct block *block)
{
	if (block->below && block->below->cached) {
		uncache(block->below);
		block = join(block->below, block);
	}
	if (block->above && block->above->cached) {
		uncache(block->above);
		block = join(block, block->above);
	}
	cache(model, block);
}

static void play(struct model *model, const char *file, uint64_t scale, bool streams)
{
	/* Both are mostly not touched. */
	struct stream *all = calloc(MAX_STREAMS, sizeof(*all));
	struct block **blocks = calloc(MAX_BLOCKS, sizeof(struct block *));
	unsigned int id, stream;
	char *line = NULL;
	uint64_t bytes;
	size_t room = 0;
	FILE *f;
	char op;

	f = fopen(file, "re");
	if (!f || !all || !blocks)
		bench_die("%s", file);
	while (getline(&line, &room, f) > 0) {
		if (*line == '#')
			continue;
		if (sscanf(line, "%c,%u,%" SCNu64 ",%u", &op, &id, &bytes, &stream) != 4 ||
		    id >= MAX_BLOCKS || stream >= MAX_STREAMS || !bytes ||
		    op != (blocks[id] ? 'f' : 'a'))
			bench_die("%s: %s", file, line);
		if (!streams)
			stream = 0;
		if (op == 'a') {
			blocks[id] = take(model, &all[stream], bytes * scale);
		} else {
			give(model, blocks[id]);
			blocks[id] = NULL;
		}
	}
	fclose(f);
	free(line);
	printf("reserved %" PRIu64 " segments %" PRIu64 "\n", model->reserved, model->segments);
}

static void request(struct model *model, uint64_t bytes)
{
	struct stream stream = { };
	struct block *block = take(model, &stream, bytes);

	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", block->size, model->last_segment,
	       block->above ? block->above->size : 0);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "expandable", no_argument, NULL, 'e' },
		{ "streams", no_argument, NULL, 't' },
		{ "scale", required_argument, NULL, 'x' },
		{ "pad", required_argument, NULL, 'p' },
		{ "size", required_argument, NULL, 's' },
		{ }
	};
	struct model model = { .cached = LIST_HEAD_INITIALIZER(model.cached) };
	uint64_t scale = 1, size = 0;
	bool streams = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'e':
			model.expandable = true;
			break;
		case 't':
			streams = true;
			break;
		case 'x':
			scale = strtoull(optarg, NULL, 0);
			break;
		case 'p':
			model.pad = strtoull(optarg, NULL, 0);
			break;
		case 's':
			size = strtoull(optarg, NULL, 0);
			break;
		default:
			return 2;
		}
	}
	if (!scale || argc - optind != (size ? 0 : 1)) {
		fputs("usage: torch [OPTION]... FILE | torch [OPTION]... --size N\n", stderr);
		return 2;
	}
	if (size)
		request(&model, size);
	else
		play(&model, argv[optind], scale, streams);
	return 0;
}
