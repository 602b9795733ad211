// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "private.h"

/*
 * Where commands about a pool go. What another process has made may be released
 * there at any time, so a pool file that came from elsewhere is not asked: the
 * client knows the pool by its id.
 */
static int command_fd(const struct devpool_pool *pool, struct devpool_pool_id *id)
{
	if (!pool->attached)
		return pool->fd;
	*id = pool->id;
	return pool->dev->fd;
}

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

/* A client of the device that a pool file is of */
static int open_for(int fd, struct devpool **dev)
{
	struct devpool_info info;
	char node[32];
	int ret;

	ret = devpool_get_info(fd, &info);
	if (ret)
		return ret == -ENOTTY ? -EBADF : ret;
	snprintf(node, sizeof(node), "/dev/devpool%u", info.out_index);
	return devpool_open(node, dev);
}

static int attach(struct devpool_pool *pool)
{
	struct devpool_pool_get cmd = { .flags = DEVPOOL_POOL_GET_FD, .fd = pool->fd };
	int ret;

	if (!pool->dev) {
		ret = open_for(pool->fd, &pool->dev);
		if (ret)
			return ret;
		pool->owns_dev = true;
	}
	ret = devpool_call(pool->dev->fd, POOL_GET, &cmd);
	if (!ret && !(cmd.out_pool.first | cmd.out_pool.second))
		ret = -EPROTO;
	if (ret) {
		if (pool->owns_dev)
			devpool_close(pool->dev);
		return ret;
	}
	pool->id = cmd.out_pool;
	return 0;
}

int devpool_pool_attach(struct devpool *dev, int fd, struct devpool_pool **out)
{
	struct devpool_pool *pool;
	int ret, saved = errno;

	if (!out)
		return -EINVAL;
	pool = calloc(1, sizeof(*pool));
	if (!pool) {
		errno = saved;
		return -ENOMEM;
	}
	pool->dev = dev;
	pool->attached = true;
	pool->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (pool->fd < 0) {
		ret = -errno;
		goto err_free;
	}
	ret = attach(pool);
	if (ret)
		goto err_close;
	*out = pool;
	errno = saved;
	return 0;

err_close:
	close(pool->fd);
err_free:
	free(pool);
	errno = saved;
	return ret;
}

static int release(struct devpool_pool *pool, int64_t timeout, struct devpool_result *result)
{
	struct devpool_empty_cache cmd = { .flags = DEVPOOL_EMPTY_RELEASE, .timeout = timeout };
	int ret;

	ret = devpool_empty(pool->fd, &cmd, result);
	close(pool->fd);
	return ret;
}

/*
 * The kernel does not say what a POOL_PUT gives back. If nothing is in use before
 * the last one, it is all that there is.
 */
static int detach(struct devpool_pool *pool, struct devpool_result *result)
{
	struct devpool_pool_stat stat = { .pool = pool->id };
	struct devpool_pool_put put = { .pool = pool->id };
	struct devpool_empty_cache look = { .pool = pool->id };
	struct devpool_result found;
	int ret, put_ret;

	/* So that what is left after the put is others'. */
	close(pool->fd);
	ret = devpool_call(pool->dev->fd, POOL_STAT, &stat);
	/* The pool is live: this gives nothing back, and tells what streams use. */
	if (!ret)
		ret = devpool_empty(pool->dev->fd, &look, &found);
	put_ret = devpool_call(pool->dev->fd, POOL_PUT, &put);
	if (ret || put_ret)
		return ret ? ret : put_ret;

	found.state = DEVPOOL_STATE_LIVE;
	if (!put.out_use_count && (found.live || found.pending)) {
		found.state = DEVPOOL_STATE_FREEABLE;
	} else if (!put.out_use_count) {
		found.state = DEVPOOL_STATE_GONE;
		found.freed = found.kept + stat.out_spare.current;
		found.kept = 0;
	}
	*result = found;
	return 0;
}

int devpool_pool_close(struct devpool_pool *pool, int64_t timeout, struct devpool_result *result)
{
	int ret, saved = errno;

	if (!pool || !result)
		return -EINVAL;
	ret = pool->attached ? detach(pool, result) : release(pool, timeout, result);
	if (pool->owns_dev)
		devpool_close(pool->dev);
	else
		devpool_map_close_pool(pool->dev, &pool->id);
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
	return devpool_empty(command_fd(pool, &cmd.pool), &cmd, result);
}

int devpool_pool_stat(struct devpool_pool *pool, struct devpool_pool_stat *stat)
{
	struct devpool_pool_stat cmd = { .flags = 0 };
	int ret;

	if (!pool || !stat)
		return -EINVAL;
	ret = devpool_call(command_fd(pool, &cmd.pool), POOL_STAT, &cmd);
	if (!ret)
		*stat = cmd;
	return ret;
}

static int attribute(struct devpool_pool *pool, struct devpool_pool_attr *cmd)
{
	return devpool_call(command_fd(pool, &cmd->pool), POOL_ATTR, cmd);
}

int devpool_pool_set(struct devpool_pool *pool, uint32_t attr, uint64_t value)
{
	struct devpool_pool_attr cmd = {
		.flags = DEVPOOL_POOL_ATTR_SET, .attr = attr, .value = value,
	};

	return pool ? attribute(pool, &cmd) : -EINVAL;
}

int devpool_pool_attr(struct devpool_pool *pool, uint32_t attr, uint64_t *value)
{
	struct devpool_pool_attr cmd = { .attr = attr };
	int ret;

	if (!pool || !value)
		return -EINVAL;
	ret = attribute(pool, &cmd);
	if (!ret)
		*value = cmd.out_value;
	return ret;
}

int devpool_route_begin(struct devpool_pool *pool, uint32_t scope, uint32_t stream)
{
	struct devpool_route_begin cmd = { .scope = scope, .stream = stream };

	if (!pool)
		return -EINVAL;
	cmd.pool = pool->id;
	return devpool_call(pool->dev->fd, ROUTE_BEGIN, &cmd);
}

int devpool_route_end(struct devpool_pool *pool, uint32_t scope, uint32_t stream)
{
	struct devpool_route_end cmd = { .scope = scope, .stream = stream };

	if (!pool)
		return -EINVAL;
	cmd.pool = pool->id;
	return devpool_call(pool->dev->fd, ROUTE_END, &cmd);
}
