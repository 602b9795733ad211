// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * How devpoolctl prints: tables for people, JSON for programs.
 *
 * Names of processes are whatever these chose. JSON is all ASCII, and tables
 * have no control character in them, nor anything that takes no room.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "devpoolctl.h"

/* Rows after which a table is printed, so that a long one takes no memory */
#define ROWS 1024

/* Objects and arrays in each other */
#define DEPTH 8

struct style style;

static bool json_used[DEPTH];
static unsigned int json_depth;

/*
 * One character of UTF-8, and its length. What is none is a byte: -1, 1. So is
 * what is longer than it has to be, a surrogate, or beyond the last one.
 */
static int32_t decode(const char *text, unsigned int *len)
{
	static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)text;
	unsigned int more, i;
	uint32_t c;

	*len = 1;
	if (*p < 0x80)
		return *p;
	more = *p >= 0xf0 ? 3 : *p >= 0xe0 ? 2 : 1;
	if (*p < 0xc2 || *p > 0xf4)
		return -1;
	c = *p & (0x3f >> more);
	for (i = 1; i <= more; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return -1;
		c = c << 6 | (p[i] & 0x3f);
	}
	if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return -1;
	*len = more + 1;
	return c;
}

static void json_text(const char *text)
{
	unsigned int len;
	int32_t c;

	putchar('"');
	for (; *text; text += len) {
		c = decode(text, &len);
		if (c < 0)
			fputs("\\ufffd", stdout);
		else if (c == '"' || c == '\\')
			printf("\\%c", (char)c);
		else if (c >= ' ' && c < 0x7f)
			putchar(c);
		else if (c < 0x10000)
			printf("\\u%04" PRIx32, (uint32_t)c);
		else
			printf("\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + ((uint32_t)c >> 10),
			       0xdc00 + ((uint32_t)c & 0x3ff));
	}
	putchar('"');
}

/* Elements of the whole have a line each, unless the whole is to be one. */
static void json_next(const char *key)
{
	if (json_depth) {
		if (json_used[json_depth])
			fputs(json_depth > 1 || style.one_line ? ", " : ",\n ", stdout);
		json_used[json_depth] = true;
	}
	if (key)
		printf("\"%s\": ", key);
}

/* An object or an array; @key is NULL in an array, and for the whole. */
void json_begin(const char *key, char bracket)
{
	json_next(key);
	putchar(bracket);
	json_used[++json_depth] = false;
}

void json_end(char bracket)
{
	putchar(bracket);
	if (!--json_depth)
		putchar('\n');
}

static void json_holders(const char *key, const struct holders *holders)
{
	unsigned int i;

	json_begin(key, '[');
	for (i = 0; i < holders->nr; i++) {
		json_begin(NULL, '{');
		json_value("pid", KIND_COUNT, value_number(holders->at[i].pid));
		json_value("comm", KIND_TEXT, value_text(holders->at[i].comm));
		json_end('}');
	}
	json_end(']');
}

void json_value(const char *key, enum kind kind, struct value value)
{
	if (kind == KIND_HOLDERS) {
		json_holders(key, value.holders);
		return;
	}
	json_next(key);
	if (!value.known) {
		fputs("null", stdout);
		return;
	}
	switch (kind) {
	case KIND_TEXT:
		json_text(value.text);
		break;
	case KIND_COUNT:
	case KIND_BYTES:
		printf("%" PRIu64, value.number);
		break;
	/* Readers take numbers for doubles, in which these do not fit. */
	case KIND_ADDRESS:
		printf("\"0x%" PRIx64 "\"", value.number);
		break;
	case KIND_POOL:
		printf("\"%" PRIu64 ":%" PRIu64 "\"", (uint64_t)value.pool.first,
		       (uint64_t)value.pool.second);
		break;
	case KIND_HOLDERS:
		break;
	}
}

static void put_text(FILE *f, const char *text)
{
	mbstate_t state;
	wchar_t c;
	size_t len, i;

	for (; *text; text += len) {
		memset(&state, 0, sizeof(state));
		len = mbrtowc(&c, text, strlen(text), &state);
		if (len == (size_t)-1 || len == (size_t)-2) {
			len = 1;
			c = 0;
		}
		if (c == '\\')
			fputs("\\\\", f);
		else if (c && iswprint(c) && wcwidth(c) > 0)
			fwrite(text, 1, len, f);
		else
			for (i = 0; i < len; i++)
				fprintf(f, "\\%03o", (unsigned char)text[i]);
	}
}

static void put_bytes(FILE *f, uint64_t bytes)
{
	static const char units[] = "KMGTPE";
	double value = bytes;
	int i = -1;

	if (style.exact || bytes < 1024) {
		fprintf(f, "%" PRIu64, bytes);
		return;
	}
	/* What would be rounded to 1024.0 of a unit is 1.0 of the next. */
	while (value >= 1023.95) {
		value /= 1024;
		i++;
	}
	fprintf(f, value == (unsigned int)value ? "%.0f%c" : "%.1f%c", value, units[i]);
}

static void put_holders(FILE *f, const struct holders *holders)
{
	unsigned int i;

	if (!holders->nr)
		putc('-', f);
	for (i = 0; i < holders->nr; i++) {
		fprintf(f, "%s%d(", i ? "," : "", (int)holders->at[i].pid);
		put_text(f, holders->at[i].comm);
		putc(')', f);
	}
}

static void put_value(FILE *f, enum kind kind, struct value value)
{
	if (!value.known) {
		putc('-', f);
		return;
	}
	switch (kind) {
	case KIND_TEXT:
		put_text(f, value.text);
		break;
	case KIND_COUNT:
		fprintf(f, "%" PRIu64, value.number);
		break;
	case KIND_BYTES:
		put_bytes(f, value.number);
		break;
	case KIND_ADDRESS:
		fprintf(f, "0x%" PRIx64, value.number);
		break;
	case KIND_POOL:
		fprintf(f, "%" PRIu64 ":%" PRIu64, (uint64_t)value.pool.first,
			(uint64_t)value.pool.second);
		break;
	case KIND_HOLDERS:
		put_holders(f, value.holders);
		break;
	}
}

static FILE *open_text(char **text, size_t *size)
{
	return must(open_memstream(text, size));
}

/* Without memory a stream in memory has lost what was put there. */
static void check_text(FILE *f)
{
	if (fflush(f) || ferror(f))
		must(NULL);
}

/* A value by itself, for people, at the right of so many columns */
void print_value(int width, enum kind kind, struct value value)
{
	char *text = NULL;
	size_t size;
	FILE *f;

	f = open_text(&text, &size);
	put_value(f, kind, value);
	check_text(f);
	printf("%*s", width, text);
	fclose(f);
	free(text);
}

/**
 * struct table - rows, each of a value for each field
 * @fields: what they are
 * @nr: how many fields
 * @rows: rows that are not printed yet
 * @has_head: the head is printed
 * @f: where @text is written
 * @text: what stands in the cells of these rows, one after the other
 * @size: of @text
 * @width: of each column so far
 */
struct table {
	const struct field *fields;
	unsigned int nr;
	unsigned int rows;
	bool has_head;
	FILE *f;
	char *text;
	size_t size;
	unsigned int *width;
};

static unsigned int width_of(const char *text)
{
	unsigned int width = 0;
	mbstate_t state = {};
	wchar_t c;
	size_t len;

	/* put_text() let through only what has a width. */
	for (; *text; text += len) {
		len = mbrtowc(&c, text, strlen(text), &state);
		if (len == (size_t)-1 || len == (size_t)-2)
			break;
		width += wcwidth(c);
	}
	return width;
}

static bool is_left(enum kind kind)
{
	return kind == KIND_TEXT || kind == KIND_POOL || kind == KIND_HOLDERS;
}

/* Goes over the cells of a row that begin at @text, and returns what follows. */
static const char *widen_row(struct table *table, const char *text)
{
	unsigned int width, i;

	for (i = 0; i < table->nr; i++) {
		if (!table->fields[i].head)
			continue;
		width = width_of(text);
		if (width > table->width[i])
			table->width[i] = width;
		text += strlen(text) + 1;
	}
	return text;
}

/* The same; NULL for the head. Nothing stands behind the last column. */
static const char *print_row(const struct table *table, const char *text)
{
	unsigned int owed = 0, room, i;
	const char *cell;

	for (i = 0; i < table->nr; i++) {
		if (!table->fields[i].head)
			continue;
		cell = text ?: table->fields[i].head;
		room = table->width[i] - width_of(cell);
		if (is_left(table->fields[i].kind)) {
			printf("%*s%s", (int)owed, "", cell);
			owed = room + 2;
		} else {
			printf("%*s%s", (int)(owed + room), "", cell);
			owed = 2;
		}
		if (text)
			text += strlen(text) + 1;
	}
	putchar('\n');
	return text;
}

/* The head stands above the first rows. */
static void table_flush(struct table *table)
{
	const char *text;
	unsigned int i;

	check_text(table->f);
	for (i = 0, text = table->text; i < table->rows; i++)
		text = widen_row(table, text);
	if (!table->has_head)
		print_row(table, NULL);
	table->has_head = true;
	for (i = 0, text = table->text; i < table->rows; i++)
		text = print_row(table, text);
	rewind(table->f);
	table->rows = 0;
}

/* A JSON array, or a table, in which @key is not told. */
struct table *table_begin(const char *key, const struct field *fields, unsigned int nr)
{
	struct table *table = must(calloc(1, sizeof(*table)));
	unsigned int i;

	table->fields = fields;
	table->nr = nr;
	if (style.json) {
		json_begin(key, '[');
		return table;
	}
	table->f = open_text(&table->text, &table->size);
	table->width = must(calloc(nr, sizeof(*table->width)));
	for (i = 0; i < nr; i++)
		if (fields[i].head)
			table->width[i] = strlen(fields[i].head);
	return table;
}

void table_row(struct table *table, const struct value *values)
{
	unsigned int i;

	if (style.json) {
		json_begin(NULL, '{');
		for (i = 0; i < table->nr; i++)
			json_value(table->fields[i].key, table->fields[i].kind, values[i]);
		json_end('}');
		return;
	}
	for (i = 0; i < table->nr; i++) {
		if (!table->fields[i].head)
			continue;
		put_value(table->f, table->fields[i].kind, values[i]);
		putc('\0', table->f);
	}
	if (++table->rows == ROWS)
		table_flush(table);
}

void table_end(struct table *table)
{
	if (style.json) {
		json_end(']');
	} else {
		table_flush(table);
		fclose(table->f);
		free(table->text);
		free(table->width);
	}
	free(table);
}

/* What could not be written is a failure. Complains; 0 or -1. */
int print_flush(void)
{
	errno = 0;
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	complain("cannot write: %s", strerror(errno ?: EIO));
	return -1;
}
