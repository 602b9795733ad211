/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What passes between devpool-record and the object it preloads.
 *
 * Each recorded program image writes one raw log, DIR/PID.N: a header, then
 * fixed-size rows. The image maps the log and stores into it, so whatever ends
 * the process, SIGKILL included, the rows stored so far are in the page cache;
 * a row is published by its op, stored last, so it is there whole or not at
 * all. The launcher only ever reads the logs, and may do so while an image
 * still runs.
 */
#ifndef DEVPOOL_RECORD_H
#define DEVPOOL_RECORD_H

#include <stdint.h>

#define RECORD_ENV_DIR	"DEVPOOL_RECORD_DIR"
#define RECORD_ENV_MIN	"DEVPOOL_RECORD_MIN"

#define RECORD_MAGIC	0x3144524f43455244ull

/* Both are multiples of 64 KiB, the largest page size Linux maps files in. */
#define RECORD_HEADER	65536u
#define RECORD_WINDOW	8192u

struct record_row {
	uint64_t id;
	uint64_t size;
	uint32_t stream;
	uint32_t op;
};

/*
 * @unseen: blocks whose address was handed out again although their free never
 *          came by; their 'f' row stands just before the new block's 'a' row.
 * @error:  errno that stopped the recording early, or 0.
 * @argv:   the command line, its words separated by zeros.
 */
struct record_header {
	uint64_t magic;
	uint64_t unseen;
	int32_t error;
	uint32_t argv_len;
	char argv[RECORD_HEADER - 24];
};

_Static_assert(sizeof(struct record_row) == 24, "rows have no holes");
_Static_assert(sizeof(struct record_header) == RECORD_HEADER, "header is whole pages");
_Static_assert(RECORD_WINDOW * sizeof(struct record_row) % 65536 == 0, "windows are whole pages");

#endif
