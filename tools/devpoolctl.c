// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * devpoolctl: shows devices, pools, clients and blocks, and trims devices.
 *
 * What other processes have is shown as far as the caller may know: by the
 * fdinfo of those whose files he may look at, and, with CAP_SYS_ADMIN, by what
 * the device tells of all clients.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "devpoolctl.h"

#define PROGRAM "devpoolctl"

#define MAX_SECONDS 1000000

/* Fields that a client or a pool can have */
#define MAX_FIELDS 32

/* Width of a column of counters */
#define COLUMN 12

enum {
	EXIT_USAGE = 2,
};

/**
 * struct request - what the command line asks for
 * @device: the device it names, NULL for all
 * @devices: these
 * @has_pool: only blocks of @pool
 * @pool: see @has_pool
 * @watch: seconds between two looks, 0 for one look
 * @count: looks, 0 for as many as there is time for
 * @keep: bytes to leave in the stock
 * @help: only help is wanted
 */
struct request {
	const char *device;
	struct devices devices;
	bool has_pool;
	struct devpool_pool_id pool;
	double watch;
	uint64_t count;
	uint64_t keep;
	bool help;
};

/**
 * struct command - one of devpoolctl's
 * @name: its name
 * @args: arguments, for its help; if there are any the first is a device
 * @summary: what it does, in a line
 * @help: what else there is to say
 * @options: letters of the options that it has
 * @takes_bytes: the last argument may be a number of bytes
 * @run: does it; 0, or -1 after a complaint
 */
struct command {
	const char *name;
	const char *args;
	const char *summary;
	const char *help;
	const char *options;
	bool takes_bytes;
	int (*run)(struct request *request);
};

void complain(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs(PROGRAM ": ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

void *must(void *p)
{
	if (p)
		return p;
	complain("out of memory");
	exit(EXIT_FAILURE);
}

/* What the kernel refuses to those who may not see everything */
static bool is_refusal(int err)
{
	return err == -EACCES || err == -EPERM;
}

static void free_world(struct world *world)
{
	free_objects(&world->clients);
	free_objects(&world->pools);
}

/* The device, opened. Complains, but of refusals only where that is asked for. */
static int open_device(const struct device *device, bool of_refusals, struct devpool **dev)
{
	int err;

	err = devpool_open(device->node, dev);
	if (err && (of_refusals || !is_refusal(err)))
		complain("%s: %s", device->node, strerror(-err));
	return err;
}

/* list */

static int run_list(struct request *request)
{
	static const struct field fields[] = {
		{ "device", "DEVICE", KIND_TEXT },
		{ "backend", "BACKEND", KIND_TEXT },
		{ "bytes", "SIZE", KIND_BYTES },
		{ "chunk", "CHUNK", KIND_BYTES },
		{ "used", "USED", KIND_BYTES },
		{ "clean", "CLEAN", KIND_BYTES },
		{ "dirty", "DIRTY", KIND_BYTES },
		{ "clients", "CLIENTS", KIND_COUNT },
		{ "pools", "POOLS", KIND_COUNT },
	};
	struct table *table;
	unsigned int i;

	table = table_begin(NULL, fields, ARRAY_SIZE(fields));
	for (i = 0; i < request->devices.nr; i++) {
		const struct device *device = &request->devices.at[i];
		const struct value values[ARRAY_SIZE(fields)] = {
			value_text(device->name),
			value_text(device->backend),
			value_number(device->bytes),
			value_number(device->chunk),
			value_number(device->used),
			value_number(device->clean),
			value_number(device->dirty),
			value_number(device->clients),
			value_number(device->pools),
		};

		table_row(table, values);
	}
	table_end(table);
	return 0;
}

/* info */

/* The name of a feature, or of a bit that this program is too old for */
static const char *feature_name(unsigned int bit, char *buf, size_t room)
{
	static const char * const names[] = {
		"mmap", "huge-map", "zero", "exportable", "share", "routes", "limits", "stable",
		"no-split", "spares", "snapshot", "streams", "fences", "export",
		"batch",
	};

	if (bit < ARRAY_SIZE(names))
		return names[bit];
	snprintf(buf, room, "bit-%u", bit);
	return buf;
}

static void show_features(uint64_t features)
{
	unsigned int bit;
	char name[16];

	if (style.json)
		json_begin("features", '[');
	else
		printf("  %-15s", "features");
	for (bit = 0; bit < 64; bit++) {
		if (!(features >> bit & 1))
			continue;
		if (style.json)
			json_value(NULL, KIND_TEXT,
				   value_text(feature_name(bit, name, sizeof(name))));
		else
			printf(" %s", feature_name(bit, name, sizeof(name)));
	}
	if (style.json)
		json_end(']');
	else
		printf("%s\n", features ? "" : " -");
}

static void show_info(const struct device *device, const struct devpool_info *info)
{
	struct value numa = value_number(info->out_node);
	unsigned int i;

	numa.known = info->out_node >= 0;

	const struct {
		const char *key;
		enum kind kind;
		struct value value;
	} values[] = {
		{ "node", KIND_TEXT, value_text(device->node) },
		{ "backend", KIND_TEXT, value_text((const char *)info->out_backend) },
		{ "bytes", KIND_BYTES, value_number(info->out_bytes) },
		{ "chunk", KIND_BYTES, value_number(info->out_chunk) },
		{ "granule_small", KIND_BYTES, value_number(info->out_granule_small) },
		{ "granule_large", KIND_BYTES, value_number(info->out_granule_large) },
		{ "numa_node", KIND_COUNT, numa },
		{ "max_pools", KIND_COUNT, value_number(info->out_max_pools) },
		{ "max_streams", KIND_COUNT, value_number(info->out_max_streams) },
		{ "max_points", KIND_COUNT, value_number(info->out_max_points) },
		{ "max_routes", KIND_COUNT, value_number(info->out_max_routes) },
		{ "max_blocks", KIND_COUNT, value_number(info->out_max_blocks) },
		{ "max_batch", KIND_COUNT, value_number(info->out_max_batch) },
	};

	if (style.json) {
		json_begin(NULL, '{');
		json_value("device", KIND_TEXT, value_text(device->name));
	} else {
		printf("%s\n", device->name);
	}
	for (i = 0; i < ARRAY_SIZE(values); i++) {
		if (style.json) {
			json_value(values[i].key, values[i].kind, values[i].value);
			continue;
		}
		printf("  %-15s ", values[i].key);
		print_value(0, values[i].kind, values[i].value);
		putchar('\n');
	}
	show_features(info->out_features);
	if (style.json)
		json_end('}');
}

static int run_info(struct request *request)
{
	struct devpool_info info;
	struct devpool *dev;
	int err, ret = 0;
	unsigned int i;

	if (style.json)
		json_begin(NULL, '[');
	for (i = 0; i < request->devices.nr; i++) {
		const struct device *device = &request->devices.at[i];

		if (open_device(device, true, &dev)) {
			ret = -1;
			continue;
		}
		err = devpool_info(dev, &info);
		devpool_close(dev);
		if (err) {
			complain("%s: INFO: %s", device->node, strerror(-err));
			ret = -1;
			continue;
		}
		show_info(device, &info);
	}
	if (style.json)
		json_end(']');
	return ret;
}

/* pools */

/* Where blocks of all clients are added up */
struct sum {
	const struct device *device;
	struct world *world;
};

static int add_block(const struct devpool_snapshot_entry *entry, void *arg)
{
	const struct sum *sum = arg;
	const struct object like = {
		.device = sum->device->index,
		.client = entry->client,
		.id = entry->pool,
	};
	struct object *pool = get_object(&sum->world->pools, &like);
	bool live = entry->state == DEVPOOL_BLOCK_LIVE;
	bool pending = entry->state == DEVPOOL_BLOCK_PENDING;
	/* What is cached for one stream is in use by that. */
	bool in_use = pending || (entry->state == DEVPOOL_BLOCK_CACHED && entry->stream);

	if (!pool->has_owner) {
		pool->has_owner = true;
		pool->pid = entry->pid;
		snprintf(pool->comm, sizeof(pool->comm), "%s", (const char *)entry->comm);
	}
	/* Its file has told all, and of one instant. */
	if (pool->holders.nr)
		return 0;
	add_number(pool, N_RESIDENT, entry->bytes);
	add_number(pool, N_ALLOCATED, live ? entry->bytes : 0);
	add_number(pool, N_REQUESTED, live ? entry->requested : 0);
	add_number(pool, N_ACTIVE, live || pending ? entry->bytes : 0);
	add_number(pool, N_PENDING, in_use ? entry->bytes : 0);
	add_number(pool, N_BLOCKS, live);
	return 0;
}

/*
 * Adds what no file tells, if the caller may know it; *all says whether he may.
 * Complains; 0 or -1.
 */
static int look_pools(const struct device *device, struct world *world, bool *all)
{
	struct sum sum = { .device = device, .world = world };
	struct devpool *dev;
	int err;

	*all = false;
	err = open_device(device, false, &dev);
	if (err)
		return is_refusal(err) ? 0 : -1;
	err = look_blocks(dev, add_block, &sum);
	devpool_close(dev);
	*all = !err;
	if (!err || is_refusal(err))
		return 0;
	complain("%s: SNAPSHOT: %s", device->node, strerror(-err));
	return -1;
}

/* What a field of a client or a pool comes from: a number of it, or one of these */
enum from {
	FROM_DEVICE = NR_NUMBERS,
	FROM_POOL,
	FROM_STATE,
	FROM_CLIENT,
	FROM_PID,
	FROM_COMM,
	FROM_HOLDERS,
};

static struct value object_value(const struct object *object, const struct device *device,
				 unsigned int from)
{
	struct value value = { .known = true };

	switch (from) {
	case FROM_DEVICE:
		value.text = device->name;
		break;
	case FROM_POOL:
		value.pool = object->id;
		break;
	case FROM_STATE:
		value.text = object->state;
		value.known = *object->state;
		break;
	case FROM_CLIENT:
		value.number = object->client;
		break;
	case FROM_PID:
		value.number = object->pid;
		value.known = object->pid;
		break;
	case FROM_COMM:
		value.text = object->comm;
		value.known = object->has_owner;
		break;
	case FROM_HOLDERS:
		value.holders = &object->holders;
		break;
	default:
		value.number = object->number[from];
		value.known = object->known >> from & 1;
		/* These stand for none. */
		if ((from == N_LIMIT && !value.number) ||
		    (from == N_RELEASE_THRESHOLD && value.number == UINT64_MAX))
			value.known = false;
	}
	return value;
}

/* A field, and where it comes from */
struct object_field {
	struct field field;
	unsigned int from;
};

/* A table of objects */
struct object_table {
	struct table *table;
	const struct object_field *fields;
	unsigned int nr;
	struct field plain[MAX_FIELDS];
};

static void objects_begin(struct object_table *table, const char *key,
			  const struct object_field *fields, unsigned int nr)
{
	unsigned int i;

	table->fields = fields;
	table->nr = nr;
	for (i = 0; i < nr; i++)
		table->plain[i] = fields[i].field;
	table->table = table_begin(key, table->plain, nr);
}

static void objects_row(struct object_table *table, const struct object *object,
			const struct device *device)
{
	struct value values[MAX_FIELDS];
	unsigned int i;

	for (i = 0; i < table->nr; i++)
		values[i] = object_value(object, device, table->fields[i].from);
	table_row(table->table, values);
}

static const struct object_field pool_fields[] = {
	{ { "device", "DEVICE", KIND_TEXT }, FROM_DEVICE },
	{ { "pool", "POOL", KIND_POOL }, FROM_POOL },
	{ { "state", "STATE", KIND_TEXT }, FROM_STATE },
	{ { "use_count", "USES", KIND_COUNT }, N_USE_COUNT },
	{ { "resident", "RESIDENT", KIND_BYTES }, N_RESIDENT },
	{ { "allocated", "ALLOCATED", KIND_BYTES }, N_ALLOCATED },
	{ { "requested", NULL, KIND_BYTES }, N_REQUESTED },
	{ { "active", NULL, KIND_BYTES }, N_ACTIVE },
	{ { "pending", "PENDING", KIND_BYTES }, N_PENDING },
	{ { "spare", "SPARE", KIND_BYTES }, N_SPARE },
	{ { "peak_resident", NULL, KIND_BYTES }, N_PEAK_RESIDENT },
	{ { "blocks", "BLOCKS", KIND_COUNT }, N_BLOCKS },
	{ { "limit", "LIMIT", KIND_BYTES }, N_LIMIT },
	{ { "release_threshold", NULL, KIND_BYTES }, N_RELEASE_THRESHOLD },
	{ { "hits", NULL, KIND_COUNT }, N_HITS },
	{ { "recycles", NULL, KIND_COUNT }, N_RECYCLES },
	{ { "grows", NULL, KIND_COUNT }, N_GROWS },
	{ { "reclaims", NULL, KIND_COUNT }, N_RECLAIMS },
	{ { "waits", NULL, KIND_COUNT }, N_WAITS },
	{ { "ooms", NULL, KIND_COUNT }, N_OOMS },
	{ { "flushes", NULL, KIND_COUNT }, N_FLUSHES },
	{ { "client", "CLIENT", KIND_COUNT }, FROM_CLIENT },
	{ { "pid", "PID", KIND_COUNT }, FROM_PID },
	{ { "comm", "COMM", KIND_TEXT }, FROM_COMM },
	{ { "holders", "HELD BY", KIND_HOLDERS }, FROM_HOLDERS },
};

/* What is said of a device is said even if its blocks cannot be looked at. */
static int show_pools(struct object_table *table, struct world *world, const struct device *device)
{
	uint64_t shown = 0;
	unsigned int i;
	bool all;
	int ret;

	ret = look_pools(device, world, &all);
	sort_objects(&world->pools);
	for (i = 0; i < world->pools.nr; i++) {
		struct object *pool = world->pools.at[i];

		if (pool->device != device->index)
			continue;
		objects_row(table, pool, device);
		shown += pool->id.first || pool->id.second;
	}
	if (!style.json && shown < device->pools)
		complain("%s: %" PRIu64 " of %" PRIu64 " pools are shown: %s", device->name, shown,
			 device->pools, all ? "the others have no block, and no open file"
					    : "the files of the others cannot be read");
	return ret;
}

static int run_pools(struct request *request)
{
	struct object_table table;
	struct world world = {};
	unsigned int i;
	int ret;

	ret = look_processes(&world);
	objects_begin(&table, NULL, pool_fields, ARRAY_SIZE(pool_fields));
	for (i = 0; i < request->devices.nr; i++)
		if (show_pools(&table, &world, &request->devices.at[i]))
			ret = -1;
	table_end(table.table);
	free_world(&world);
	return ret;
}

/* stats */

static const struct object_field client_fields[] = {
	{ { "client", "CLIENT", KIND_COUNT }, FROM_CLIENT },
	{ { "resident", "RESIDENT", KIND_BYTES }, N_RESIDENT },
	{ { "peak_resident", "PEAK", KIND_BYTES }, N_PEAK_RESIDENT },
	{ { "allocated", "ALLOCATED", KIND_BYTES }, N_ALLOCATED },
	{ { "requested", NULL, KIND_BYTES }, N_REQUESTED },
	{ { "active", NULL, KIND_BYTES }, N_ACTIVE },
	{ { "pending", "PENDING", KIND_BYTES }, N_PENDING },
	{ { "spare", "SPARE", KIND_BYTES }, N_SPARE },
	{ { "blocks", "BLOCKS", KIND_COUNT }, N_BLOCKS },
	{ { "blocks_held", NULL, KIND_COUNT }, N_BLOCKS_HELD },
	{ { "pools", "POOLS", KIND_COUNT }, N_POOLS },
	{ { "streams", "STREAMS", KIND_COUNT }, N_STREAMS },
	{ { "limit", "LIMIT", KIND_BYTES }, N_LIMIT },
	{ { "pid", "PID", KIND_COUNT }, FROM_PID },
	{ { "comm", "COMM", KIND_TEXT }, FROM_COMM },
	{ { "holders", "HELD BY", KIND_HOLDERS }, FROM_HOLDERS },
};

/**
 * struct sample - the counters of a device, at two looks
 * @known: there are some; else the caller may not know
 * @had: there are also those of the look before
 * @now: the counters
 * @then: those of the look before
 */
struct sample {
	bool known;
	bool had;
	struct devpool_stats now;
	struct devpool_stats then;
};

#define STAT(name, kind) { #name, kind, offsetof(struct devpool_stats, out_##name) }

struct stat_field {
	const char *name;
	enum kind kind;
	size_t offset;
};

static const struct stat_field counter_fields[] = {
	STAT(allocated, KIND_BYTES),
	STAT(requested, KIND_BYTES),
	STAT(active, KIND_BYTES),
	STAT(resident, KIND_BYTES),
	STAT(spare, KIND_BYTES),
	STAT(blocks, KIND_COUNT),
};

static const struct stat_field event_fields[] = {
	STAT(hits, KIND_COUNT),
	STAT(recycles, KIND_COUNT),
	STAT(grows, KIND_COUNT),
	STAT(fallbacks, KIND_COUNT),
	STAT(reclaims, KIND_COUNT),
	STAT(waits, KIND_COUNT),
	STAT(ooms, KIND_COUNT),
	STAT(flushes, KIND_COUNT),
	STAT(zeroed_bytes, KIND_BYTES),
};

static const struct devpool_counter *counter_of(const struct devpool_stats *stats,
						const struct stat_field *field)
{
	return (const void *)((const char *)stats + field->offset);
}

static uint64_t event_of(const struct devpool_stats *stats, const struct stat_field *field)
{
	return *(const __u64 *)((const char *)stats + field->offset);
}

static void json_stats(const struct sample *sample)
{
	unsigned int i;

	if (!sample->known) {
		json_value("all", KIND_COUNT, (struct value){});
		return;
	}
	json_begin("all", '{');
	for (i = 0; i < ARRAY_SIZE(counter_fields); i++) {
		const struct stat_field *field = &counter_fields[i];
		const struct devpool_counter *counter = counter_of(&sample->now, field);

		json_begin(field->name, '{');
		json_value("current", field->kind, value_number(counter->current));
		json_value("peak", field->kind, value_number(counter->peak));
		json_value("in", field->kind, value_number(counter->in));
		json_value("out", field->kind, value_number(counter->out));
		json_end('}');
	}
	for (i = 0; i < ARRAY_SIZE(event_fields); i++)
		json_value(event_fields[i].name, event_fields[i].kind,
			   value_number(event_of(&sample->now, &event_fields[i])));
	json_end('}');
}

/* In a column of its width, behind another one */
static void print_number(enum kind kind, uint64_t number)
{
	fputs("  ", stdout);
	print_value(COLUMN, kind, value_number(number));
}

static void print_stats(const struct sample *sample)
{
	unsigned int i;

	printf("%-12s  %*s  %*s  %*s  %*s\n", "COUNTER", COLUMN, "CURRENT", COLUMN, "PEAK",
	       COLUMN, "IN", COLUMN, "OUT");
	for (i = 0; i < ARRAY_SIZE(counter_fields); i++) {
		const struct stat_field *field = &counter_fields[i];
		const struct devpool_counter *counter = counter_of(&sample->now, field);

		printf("%-12s", field->name);
		print_number(field->kind, counter->current);
		print_number(field->kind, counter->peak);
		print_number(field->kind, counter->in);
		print_number(field->kind, counter->out);
		putchar('\n');
	}
	printf("%-12s  %*s", "EVENT", COLUMN, "TOTAL");
	if (sample->had)
		printf("  %*s", COLUMN, "SINCE");
	putchar('\n');
	for (i = 0; i < ARRAY_SIZE(event_fields); i++) {
		const struct stat_field *field = &event_fields[i];
		uint64_t now = event_of(&sample->now, field);

		printf("%-12s", field->name);
		print_number(field->kind, now);
		if (sample->had)
			print_number(field->kind, now - event_of(&sample->then, field));
		putchar('\n');
	}
}

/* Complains; 0 or -1. That the caller may not know is no failure. */
static int take_sample(const struct device *device, struct sample *sample)
{
	struct devpool *dev;
	int err;

	sample->had = sample->known;
	sample->then = sample->now;
	sample->known = false;
	err = open_device(device, false, &dev);
	if (err)
		return is_refusal(err) ? 0 : -1;
	err = devpool_stats(dev, DEVPOOL_STATS_DEVICE, &sample->now);
	devpool_close(dev);
	sample->known = !err;
	if (!err || is_refusal(err))
		return 0;
	complain("%s: STATS: %s", device->node, strerror(-err));
	return -1;
}

static void show_clients(const struct world *world, const struct device *device)
{
	struct object_table table;
	unsigned int i;

	objects_begin(&table, "clients", client_fields, ARRAY_SIZE(client_fields));
	for (i = 0; i < world->clients.nr; i++)
		if (world->clients.at[i]->device == device->index)
			objects_row(&table, world->clients.at[i], device);
	table_end(table.table);
}

static void show_stats(const struct world *world, const struct device *device,
		       const struct sample *sample)
{
	unsigned int seen = 0, i;

	if (style.json) {
		json_begin(NULL, '{');
		json_value("device", KIND_TEXT, value_text(device->name));
		json_value("nr_clients", KIND_COUNT, value_number(device->clients));
		json_stats(sample);
		show_clients(world, device);
		json_end('}');
		return;
	}
	for (i = 0; i < world->clients.nr; i++)
		seen += world->clients.at[i]->device == device->index;
	if (sample->known) {
		printf("%s: all clients\n", device->name);
		print_stats(sample);
	}
	printf("%s: %u of %" PRIu64 " clients\n", device->name, seen, device->clients);
	show_clients(world, device);
}

/* One look at all devices */
static int look_stats(struct devices *devices, struct sample *samples)
{
	struct world world = {};
	unsigned int i;
	int ret;

	ret = look_processes(&world);
	sort_objects(&world.clients);
	if (style.json)
		json_begin(NULL, '[');
	for (i = 0; i < devices->nr; i++) {
		struct device *device = &devices->at[i];

		/* Before this process is a client itself */
		if (look_again(device)) {
			ret = -1;
			continue;
		}
		if (take_sample(device, &samples[i]))
			ret = -1;
		if (!style.json && i)
			putchar('\n');
		show_stats(&world, device, &samples[i]);
	}
	if (style.json)
		json_end(']');
	free_world(&world);
	return ret;
}

static void wait_seconds(double seconds)
{
	struct timespec left = {
		.tv_sec = seconds,
		.tv_nsec = (seconds - (time_t)seconds) * 1e9,
	};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static int run_stats(struct request *request)
{
	bool terminal = isatty(STDOUT_FILENO) && !style.json;
	struct sample *samples;
	uint64_t looks = 0;
	int ret = 0;

	samples = must(calloc(request->devices.nr + 1, sizeof(*samples)));
	style.one_line = request->watch > 0;
	do {
		if (looks)
			wait_seconds(request->watch);
		if (request->watch > 0 && terminal)
			/* To the top, and the rest is cleared. */
			fputs("\033[H\033[J", stdout);
		else if (looks && !style.json)
			putchar('\n');
		if (look_stats(&request->devices, samples))
			ret = -1;
		if (print_flush())
			exit(EXIT_FAILURE);
		looks++;
	} while (request->watch > 0 && looks != request->count);
	free(samples);
	return ret;
}

/* trim */

static int run_trim(struct request *request)
{
	struct device *device;
	struct device before;
	unsigned int i;
	int ret = 0;

	for (i = 0; i < request->devices.nr; i++) {
		device = &request->devices.at[i];
		before = *device;
		if (look_trim(device, request->keep) || look_again(device)) {
			ret = -1;
			continue;
		}
		printf("%s: ", device->name);
		print_value(0, KIND_BYTES, value_number(device->clean + device->dirty));
		printf(" in stock, was ");
		print_value(0, KIND_BYTES, value_number(before.clean + before.dirty));
		putchar('\n');
	}
	return ret;
}

/* snapshot */

struct snapshot {
	const struct device *device;
	const struct request *request;
	struct table *table;
};

static const struct field block_fields[] = {
	{ "device", "DEVICE", KIND_TEXT },
	{ "addr", "ADDRESS", KIND_ADDRESS },
	{ "bytes", "BYTES", KIND_BYTES },
	{ "requested", "REQUESTED", KIND_BYTES },
	{ "pool", "POOL", KIND_POOL },
	{ "stream", "STREAM", KIND_COUNT },
	{ "state", "STATE", KIND_TEXT },
	{ "client", "CLIENT", KIND_COUNT },
	{ "pid", "PID", KIND_COUNT },
	{ "comm", "COMM", KIND_TEXT },
};

static const char *block_state(uint32_t state, char *buf, size_t room)
{
	switch (state) {
	case DEVPOOL_BLOCK_LIVE:
		return "live";
	case DEVPOOL_BLOCK_PENDING:
		return "pending";
	case DEVPOOL_BLOCK_CACHED:
		return "cached";
	default:
		snprintf(buf, room, "state-%" PRIu32, state);
		return buf;
	}
}

static int show_block(const struct devpool_snapshot_entry *entry, void *arg)
{
	const struct snapshot *snapshot = arg;
	const struct request *request = snapshot->request;
	char state[24];
	const struct value values[ARRAY_SIZE(block_fields)] = {
		value_text(snapshot->device->name),
		value_number(entry->addr),
		value_number(entry->bytes),
		{ .known = entry->state == DEVPOOL_BLOCK_LIVE, .number = entry->requested },
		{ .known = true, .pool = entry->pool },
		value_number(entry->stream),
		value_text(block_state(entry->state, state, sizeof(state))),
		value_number(entry->client),
		{ .known = entry->pid, .number = entry->pid },
		value_text((const char *)entry->comm),
	};

	if (!request->has_pool || (entry->pool.first == request->pool.first &&
				   entry->pool.second == request->pool.second))
		table_row(snapshot->table, values);
	return 0;
}

static int run_snapshot(struct request *request)
{
	struct snapshot snapshot = { .request = request };
	struct devpool *dev;
	int err, ret = 0;
	unsigned int i;

	snapshot.table = table_begin(NULL, block_fields, ARRAY_SIZE(block_fields));
	for (i = 0; i < request->devices.nr; i++) {
		snapshot.device = &request->devices.at[i];
		if (open_device(snapshot.device, true, &dev)) {
			ret = -1;
			continue;
		}
		err = look_blocks(dev, show_block, &snapshot);
		devpool_close(dev);
		if (err) {
			complain("%s: SNAPSHOT: %s", snapshot.device->node,
				 err == -EPERM ? "needs CAP_SYS_ADMIN" : strerror(-err));
			ret = -1;
		}
	}
	table_end(snapshot.table);
	return ret;
}

/* The command line */

static const struct command commands[] = {
	{
		.name = "list",
		.args = "",
		.summary = "list the devices",
		.options = "bj",
		.run = run_list,
	}, {
		.name = "info",
		.args = "[DEV]",
		.summary = "show what a device is and can do",
		.options = "bj",
		.run = run_info,
	}, {
		.name = "pools",
		.args = "[DEV]",
		.summary = "show pools, and whose they are",
		.help = "Without CAP_SYS_ADMIN: the pools whose files the caller's processes have\n"
			"open. With it, also those that only have blocks; 0:0 is the default pool\n"
			"of a client. '-' is what is not known, or not set.\n",
		.options = "bj",
		.run = run_pools,
	}, {
		.name = "stats",
		.args = "[DEV]",
		.summary = "show counters, of all clients and of each",
		.help = "Without CAP_SYS_ADMIN: of the clients whose files the caller's processes\n"
			"have open.\n",
		.options = "bjwn",
		.run = run_stats,
	}, {
		.name = "trim",
		.args = "[DEV] [BYTES]",
		.summary = "give memory that no pool has back to the system",
		.help = "BYTES, 0 unless told, stay in the stock of the device. They begin with a\n"
			"digit and may end in K, M, G, T, P or E.\n",
		.options = "",
		.takes_bytes = true,
		.run = run_trim,
	}, {
		.name = "snapshot",
		.args = "[DEV]",
		.summary = "show every block of all clients",
		.help = "Needs CAP_SYS_ADMIN.\n",
		.options = "bjp",
		.run = run_snapshot,
	},
};

static const struct {
	struct option option;
	const char *help;
} options[] = {
	{ { "bytes", no_argument, NULL, 'b' },
	  "  -b, --bytes            print sizes as plain numbers\n" },
	{ { "json", no_argument, NULL, 'j' },
	  "  -j, --json             print JSON\n" },
	{ { "watch", optional_argument, NULL, 'w' },
	  "  -w, --watch[=SECONDS]  look again every so many seconds (2), for ever\n" },
	{ { "count", required_argument, NULL, 'n' },
	  "  -n, --count=N          with --watch: N times only\n" },
	{ { "pool", required_argument, NULL, 'p' },
	  "  -p, --pool=ID          only blocks of this pool, as 'pools' prints it\n" },
	{ { "help", no_argument, NULL, 'h' },
	  "  -h, --help             print this\n" },
};

static bool has_option(const struct command *command, char letter)
{
	return letter == 'h' || strchr(command->options, letter);
}

static void print_help(FILE *out)
{
	unsigned int i;

	fputs("Usage: " PROGRAM " COMMAND [OPTION]... [ARG]...\n"
	      "Shows the devices of the module devpool and what is in them, and trims them.\n"
	      "\n", out);
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(out, "  %-8s %-14s %s\n", commands[i].name, commands[i].args,
			commands[i].summary);
	fputs("\n"
	      "DEV is a name such as devpool0, or a path to a node; without it all devices\n"
	      "are meant.\n"
	      "\n"
	      "'" PROGRAM " COMMAND --help' tells more, '" PROGRAM " --version' the version.\n"
	      "\n"
	      "Exit status: 0; 1 if something could not be done; 2 for a wrong use.\n", out);
}

static void print_command_help(const struct command *command)
{
	unsigned int i;

	printf("Usage: " PROGRAM " %s [OPTION]...%s%s\n", command->name,
	       *command->args ? " " : "", command->args);
	printf("%c%s.\n", command->summary[0] - 'a' + 'A', command->summary + 1);
	if (command->help)
		printf("\n%s", command->help);
	putchar('\n');
	for (i = 0; i < ARRAY_SIZE(options); i++)
		if (has_option(command, options[i].option.val))
			fputs(options[i].help, stdout);
}

static int usage(const struct command *command)
{
	fprintf(stderr, "Try '" PROGRAM "%s%s --help'.\n", command ? " " : "",
		command ? command->name : "");
	return EXIT_USAGE;
}

static bool parse_seconds(const char *text, double *seconds)
{
	char *end;

	errno = 0;
	*seconds = strtod(text, &end);
	return !errno && end != text && !*end && *seconds >= 0.01 && *seconds <= MAX_SECONDS;
}

static bool parse_bytes(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGTPE";
	size_t len = strspn(text, "0123456789");
	const char *unit = text[len] ? strchr(units, text[len]) : NULL;
	char number[32];

	if (len >= sizeof(number) || (text[len] && (!unit || text[len + 1])))
		return false;
	memcpy(number, text, len);
	number[len] = '\0';
	return parse_number(number, bytes) &&
	       !__builtin_mul_overflow(*bytes, unit ? 1ULL << 10 * (unit - units + 1) : 1, bytes);
}

/* 0 or an exit status, after a complaint */
static int parse_option(struct request *request, const struct command *command, int letter)
{
	switch (letter) {
	case 'b':
		style.exact = true;
		return 0;
	case 'j':
		style.json = true;
		return 0;
	case 'w':
		request->watch = 2;
		if (!optarg || parse_seconds(optarg, &request->watch))
			return 0;
		complain("--watch: '%s' is not 0.01 to %d seconds", optarg, MAX_SECONDS);
		break;
	case 'n':
		if (parse_number(optarg, &request->count) && request->count)
			return 0;
		complain("--count: '%s' is not a number above 0", optarg);
		break;
	case 'p':
		request->has_pool = true;
		if (parse_pool(optarg, &request->pool))
			return 0;
		complain("--pool: '%s' is not an id such as 0:33554434", optarg);
		break;
	}
	return usage(command);
}

/* 0 or an exit status, after a complaint. What is asked for may be help. */
static int parse_options(struct request *request, const struct command *command, int argc,
			 char **argv)
{
	struct option known[ARRAY_SIZE(options) + 1] = {};
	char letters[3 * ARRAY_SIZE(options) + 1];
	unsigned int i, nr = 0;
	char *at = letters;
	char name[32];
	int c, ret;

	for (i = 0; i < ARRAY_SIZE(options); i++) {
		if (!has_option(command, options[i].option.val))
			continue;
		known[nr++] = options[i].option;
		at += sprintf(at, "%c%.*s", options[i].option.val, options[i].option.has_arg, "::");
	}
	/* So getopt complains in our name. */
	snprintf(name, sizeof(name), PROGRAM " %s", command->name);
	argv[0] = name;
	while ((c = getopt_long(argc, argv, letters, known, NULL)) != -1) {
		if (c == 'h') {
			request->help = true;
			return 0;
		}
		ret = parse_option(request, command, c);
		if (ret)
			return ret;
	}
	argv += optind;
	argc -= optind;
	if (request->count && !request->watch) {
		complain("--count is of no use without --watch");
		return usage(command);
	}
	if (command->takes_bytes && argc && strchr("0123456789", *argv[argc - 1]) &&
	    *argv[argc - 1]) {
		if (!parse_bytes(argv[--argc], &request->keep)) {
			complain("'%s' is not a number of bytes", argv[argc]);
			return usage(command);
		}
	}
	if (argc && *command->args) {
		request->device = *argv++;
		argc--;
	}
	if (!argc)
		return 0;
	complain("too many arguments: '%s'", *argv);
	return usage(command);
}

static int run(const struct command *command, struct request *request)
{
	struct devices *devices = &request->devices;
	int ret;

	if (request->device) {
		devices->at = must(calloc(1, sizeof(*devices->at)));
		devices->nr = 1;
		ret = look_device(request->device, devices->at);
	} else {
		ret = look_devices(devices);
	}
	if (!ret)
		ret = command->run(request);
	free(devices->at);
	return ret;
}

int main(int argc, char **argv)
{
	const struct command *command = NULL;
	struct request request = {};
	unsigned int i;
	int ret = 0;

	setlocale(LC_CTYPE, "");
	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			command = &commands[i];
	if (command) {
		ret = parse_options(&request, command, argc - 1, argv + 1);
		if (ret)
			return ret;
		if (request.help)
			print_command_help(command);
		else
			ret = run(command, &request);
	} else if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		print_help(stdout);
	} else if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		puts(PROGRAM " " DEVPOOL_VERSION);
	} else {
		complain("'%s' is not a command", argv[1]);
		return usage(NULL);
	}
	if (print_flush())
		ret = -1;
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
