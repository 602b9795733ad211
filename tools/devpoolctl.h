/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The parts of devpoolctl:
 *
 *	devpoolctl.c		the commands
 *	devpoolctl-look.c	what there is: sysfs, and the fdinfo of processes
 *	devpoolctl-print.c	tables for people, JSON for programs
 */
#ifndef DEVPOOLCTL_H
#define DEVPOOLCTL_H

#include <devpool.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *must(void *p);

bool parse_number(const char *text, uint64_t *number);
bool parse_pool(const char *text, struct devpool_pool_id *id);

/* What devpoolctl-look.c finds */

/** struct device - a device, by its folder in sysfs */
struct device {
	unsigned int index;
	char name[24];
	char node[256];
	char backend[24];
	uint64_t bytes;
	uint64_t chunk;
	uint64_t used;
	uint64_t clean;
	uint64_t dirty;
	uint64_t clients;
	uint64_t pools;
};

struct devices {
	struct device *at;
	unsigned int nr;
};

/** struct holder - a process that has a file open */
struct holder {
	pid_t pid;
	char comm[64];
};

struct holders {
	struct holder *at;
	unsigned int nr;
};

/* Numbers that fdinfo tells of a client or of a pool */
enum number {
	N_ALLOCATED,
	N_REQUESTED,
	N_ACTIVE,
	N_RESIDENT,
	N_SPARE,
	N_BLOCKS,
	N_PEAK_RESIDENT,
	N_HITS,
	N_RECYCLES,
	N_GROWS,
	N_RECLAIMS,
	N_WAITS,
	N_OOMS,
	N_FLUSHES,
	N_LIMIT,
	N_RELEASE_THRESHOLD,
	N_USE_COUNT,
	N_POOLS,
	N_BLOCKS_HELD,
	N_STREAMS,
	N_PENDING,
	NR_NUMBERS,
};

/**
 * struct object - a client or a pool
 * @device: index of its device
 * @client: number of the client; of a pool, of the one that made it
 * @id: of a pool; {0,0} is the default pool of the client
 * @known: bits of those of @number that are known
 * @number: see enum number
 * @state: of a pool, empty if it is not known
 * @has_owner: @pid and @comm are known
 * @pid: process that opened the client, 0 if it cannot be seen from here
 * @comm: name that the process had then
 * @holders: processes that were found to have the file
 */
struct object {
	unsigned int device;
	uint64_t client;
	struct devpool_pool_id id;
	uint32_t known;
	uint64_t number[NR_NUMBERS];
	char state[16];
	bool has_owner;
	int64_t pid;
	char comm[64];
	struct holders holders;
};

/* Objects in the order of device, client and id, once they are sorted */
struct objects {
	void *tree;
	struct object **at;
	unsigned int nr;
};

struct world {
	struct objects clients;
	struct objects pools;
};

int look_devices(struct devices *devices);
int look_device(const char *which, struct device *device);
int look_again(struct device *device);
int look_trim(const struct device *device, uint64_t bytes);
int look_processes(struct world *world);
int look_blocks(struct devpool *dev, devpool_snapshot_fn *each, void *arg);

struct object *get_object(struct objects *objects, const struct object *like);
void add_number(struct object *object, enum number number, uint64_t value);
void sort_objects(struct objects *objects);
void free_objects(struct objects *objects);

/* How devpoolctl-print.c prints */

struct style {
	bool json;
	bool exact;
	bool one_line;
};

enum kind {
	/* any text, of which nothing is trusted */
	KIND_TEXT,
	KIND_COUNT,
	KIND_BYTES,
	KIND_ADDRESS,
	KIND_POOL,
	KIND_HOLDERS,
};

/**
 * struct field - a member of a JSON object, a column of a table
 * @key: name of the member
 * @head: above the column; NULL for a member that is in no table
 * @kind: what its values are
 */
struct field {
	const char *key;
	const char *head;
	enum kind kind;
};

struct value {
	bool known;
	union {
		uint64_t number;
		const char *text;
		struct devpool_pool_id pool;
		const struct holders *holders;
	};
};

static inline struct value value_number(uint64_t number)
{
	return (struct value){ .known = true, .number = number };
}

static inline struct value value_text(const char *text)
{
	return (struct value){ .known = true, .text = text };
}

struct table;

extern struct style style;

struct table *table_begin(const char *key, const struct field *fields, unsigned int nr);
void table_row(struct table *table, const struct value *values);
void table_end(struct table *table);

void json_begin(const char *key, char bracket);
void json_end(char bracket);
void json_value(const char *key, enum kind kind, struct value value);

void print_value(int width, enum kind kind, struct value value);
int print_flush(void);

#endif
