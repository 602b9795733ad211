// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdlib.h>

#include "private.h"

#define FEWEST_ENTRIES	512
#define MOST_ENTRIES	16384

/*
 * What one command tells of a pool is of one instant. So one that has no room for
 * all is given again, with more.
 */
static int fetch(struct devpool *dev, struct devpool_snapshot *cmd,
		 struct devpool_snapshot_entry **entry)
{
	struct devpool_snapshot_entry *more;
	int ret;

	for (;;) {
		cmd->array = (uintptr_t)*entry;
		ret = devpool_call(dev->fd, SNAPSHOT, cmd);
		if (ret)
			return ret;
		/* Else this might never end. */
		if (cmd->out_count > cmd->count ||
		    (!cmd->out_count && cmd->out_cursor && cmd->out_cursor == cmd->cursor))
			return -EPROTO;
		if (cmd->out_count < cmd->count || !cmd->out_cursor ||
		    cmd->count == MOST_ENTRIES)
			return 0;
		more = realloc(*entry, 2 * cmd->count * sizeof(*more));
		if (!more)
			return -ENOMEM;
		*entry = more;
		cmd->count *= 2;
	}
}

static int call_each(const struct devpool_snapshot_entry *entry, uint32_t count,
		     devpool_snapshot_fn *callback, void *arg)
{
	uint32_t i;
	int ret;

	for (i = 0; i < count; i++) {
		ret = callback(&entry[i], arg);
		if (ret)
			return ret;
	}
	return 0;
}

int devpool_snapshot(struct devpool *dev, const struct devpool_pool_id *id,
		     devpool_snapshot_fn *callback, void *arg)
{
	struct devpool_snapshot cmd = { .count = FEWEST_ENTRIES };
	struct devpool_snapshot_entry *entry;
	int ret, saved = errno;

	if (!dev || !callback)
		return -EINVAL;
	if (id)
		cmd.pool = *id;
	entry = malloc(FEWEST_ENTRIES * sizeof(*entry));
	if (!entry) {
		errno = saved;
		return -ENOMEM;
	}
	do {
		ret = fetch(dev, &cmd, &entry);
		errno = saved;
		if (!ret)
			ret = call_each(entry, cmd.out_count, callback, arg);
		cmd.cursor = cmd.out_cursor;
	} while (!ret && cmd.cursor);
	free(entry);
	return ret;
}
