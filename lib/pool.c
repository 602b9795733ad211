// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "private.h"

int devpool_pool_create(struct devpool *dev, const struct devpool_pool_opts *opts,
			struct devpool_pool **out)
{
	struct devpool_pool_create cmd = { .out_fd = -1 };
	struct devpool_pool *pool;
	int ret;

	if (!dev || !out)
		return -EINVAL;
	if (opts) {
		ret = devpool_check_opts(opts, opts->sz, sizeof(*opts));
		if (ret)
			return ret;
		if (opts->__reserved)
			return -EOPNOTSUPP;
		cmd.flags = opts->flags;
		cmd.pool = opts->pool;
		cmd.limit = opts->limit;
		cmd.reserve = opts->reserve;
		cmd.release_threshold = opts->release_threshold;
	}
	/* Before there is something to undo. */
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return -ENOMEM;
	ret = devpool_call(dev->fd, POOL_CREATE, &cmd);
	if (!ret && (cmd.out_fd < 0 || !(cmd.out_pool.first | cmd.out_pool.second)))
		ret = -EPROTO;
	if (ret) {
		free(pool);
		return ret;
	}
	pool->dev = dev;
	pool->fd = cmd.out_fd;
	pool->id = cmd.out_pool;
	*out = pool;
	return 0;
}

int devpool_pool_close(struct devpool_pool *pool, int64_t timeout, struct devpool_result *result)
{
	struct devpool_empty_cache cmd = { .flags = DEVPOOL_EMPTY_RELEASE, .timeout = timeout };
	int ret, saved = errno;

	if (!pool || !result)
		return -EINVAL;
	ret = devpool_empty(pool->fd, &cmd, result);
	close(pool->fd);
	devpool_map_close_pool(pool->dev, &pool->id, !ret && result->state == DEVPOOL_STATE_GONE);
	free(pool);
	errno = saved;
	return ret;
}

int devpool_pool_fd(const struct devpool_pool *pool)
{
	return pool ? pool->fd : -EINVAL;
}

struct devpool_pool_id devpool_pool_id(const struct devpool_pool *pool)
{
	struct devpool_pool_id none = { 0, 0 };

	return pool ? pool->id : none;
}

struct devpool *devpool_pool_device(const struct devpool_pool *pool)
{
	return pool ? pool->dev : NULL;
}

int devpool_pool_trim(struct devpool_pool *pool, uint64_t keep, struct devpool_result *result)
{
	struct devpool_empty_cache cmd = { .flags = DEVPOOL_EMPTY_TRIM, .keep = keep };

	if (!pool || !result)
		return -EINVAL;
	return devpool_empty(pool->fd, &cmd, result);
}

int devpool_pool_stat(struct devpool_pool *pool, struct devpool_pool_stat *stat)
{
	struct devpool_pool_stat cmd = { .flags = 0 };
	int ret;

	if (!pool || !stat)
		return -EINVAL;
	ret = devpool_call(pool->fd, POOL_STAT, &cmd);
	if (!ret)
		*stat = cmd;
	return ret;
}
