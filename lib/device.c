// SPDX-License-Identifier: LGPL-2.1-or-later
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "private.h"

#define DEFAULT_NODE "/dev/devpool0"

/* Starting again is right for every command: one that fails did nothing. */
int devpool_ioctl(int fd, unsigned long request, void *arg)
{
	int saved = errno, ret = 0;

	while (unlikely(ioctl(fd, request, arg) < 0)) {
		ret = -errno;
		errno = saved;
		if (ret != -EINTR)
			return ret;
	}
	return 0;
}

/* A struct of another size than ours: what we do not know of it must be 0. */
int devpool_check_tail(const void *opts, size_t sz, size_t known)
{
	const unsigned char *p = opts;

	if (sz < known)
		return -EINVAL;
	for (; known < sz; known++)
		if (p[known])
			return -E2BIG;
	return 0;
}

static int open_node(const char *node)
{
	int fd;

	if (!node)
		node = secure_getenv("DEVPOOL_DEVICE");
	if (!node || !*node)
		node = DEFAULT_NODE;
	do {
		fd = open(node, O_RDWR | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

int devpool_get_info(int fd, struct devpool_info *info)
{
	int ret;

	memset(info, 0, sizeof(*info));
	ret = devpool_call(fd, INFO, info);
	if (ret)
		return ret;
	info->out_backend[sizeof(info->out_backend) - 1] = 0;
	return 0;
}

static int init(struct devpool *dev)
{
	struct devpool_info info;
	int ret;

	ret = devpool_get_info(dev->fd, &info);
	if (ret)
		return ret;
	dev->max_batch = info.out_max_batch;
	dev->unit = DEVPOOL_WINDOW;
	if (info.out_chunk > dev->unit)
		dev->unit = info.out_chunk;
	/* What follows counts on it. */
	if (dev->unit & (dev->unit - 1))
		return -EPROTO;
	return devpool_map_init(dev);
}

static int open_device(const char *node, struct devpool **out)
{
	struct devpool *dev;
	int ret;

	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return -ENOMEM;
	dev->fd = open_node(node);
	if (dev->fd < 0) {
		ret = dev->fd;
		goto err_free;
	}
	ret = init(dev);
	if (ret)
		goto err_close;
	*out = dev;
	return 0;

err_close:
	close(dev->fd);
err_free:
	free(dev);
	return ret;
}

int devpool_open(const char *node, struct devpool **dev)
{
	int saved = errno, ret;

	if (!dev)
		return -EINVAL;
	ret = open_device(node, dev);
	errno = saved;
	return ret;
}

void devpool_close(struct devpool *dev)
{
	int saved = errno;

	if (!dev)
		return;
	/* A mapping holds the file: with it, closing would end nothing. */
	devpool_map_exit(dev);
	close(dev->fd);
	free(dev);
	errno = saved;
}

int devpool_fd(const struct devpool *dev)
{
	return dev ? dev->fd : -EINVAL;
}

int devpool_info(struct devpool *dev, struct devpool_info *info)
{
	struct devpool_info got;
	int ret;

	if (!dev || !info)
		return -EINVAL;
	ret = devpool_get_info(dev->fd, &got);
	if (!ret)
		*info = got;
	return ret;
}

int devpool_pool_id_new(struct devpool *dev, uint32_t flags, struct devpool_pool_id *id)
{
	struct devpool_pool_id_new cmd = { .flags = flags };
	int ret;

	if (!dev || !id)
		return -EINVAL;
	ret = devpool_call(dev->fd, POOL_ID, &cmd);
	if (ret)
		return ret;
	if (!(cmd.out_pool.first | cmd.out_pool.second))
		return -EPROTO;
	*id = cmd.out_pool;
	return 0;
}

int devpool_pool_get(struct devpool *dev, const struct devpool_pool_id *id)
{
	struct devpool_pool_get cmd = { .flags = 0 };

	if (!dev || !id)
		return -EINVAL;
	cmd.pool = *id;
	return devpool_call(dev->fd, POOL_GET, &cmd);
}

int devpool_pool_put(struct devpool *dev, const struct devpool_pool_id *id)
{
	struct devpool_pool_put cmd = { .flags = 0 };
	int ret;

	if (!dev || !id)
		return -EINVAL;
	cmd.pool = *id;
	ret = devpool_call(dev->fd, POOL_PUT, &cmd);
	if (!ret)
		devpool_map_loosen(dev, id);
	return ret;
}

int devpool_stats(struct devpool *dev, uint32_t flags, struct devpool_stats *stats)
{
	struct devpool_stats cmd = { .flags = flags };
	int ret;

	if (!dev || !stats)
		return -EINVAL;
	ret = devpool_call(dev->fd, STATS, &cmd);
	if (!ret)
		*stats = cmd;
	return ret;
}

/* On either kind of file */
int devpool_empty(int fd, struct devpool_empty_cache *cmd, struct devpool_result *result)
{
	int ret;

	ret = devpool_call(fd, EMPTY_CACHE, cmd);
	if (ret)
		return ret;
	memset(result, 0, sizeof(*result));
	result->freed = cmd->out_freed;
	result->kept = cmd->out_kept;
	result->pending = cmd->out_pending;
	result->live = cmd->out_live;
	result->state = cmd->out_state;
	return 0;
}

int devpool_empty_cache(struct devpool *dev, const struct devpool_pool_id *id, int64_t timeout,
			struct devpool_result *result)
{
	struct devpool_empty_cache cmd = { .timeout = timeout };

	if (!dev || !result)
		return -EINVAL;
	if (id)
		cmd.pool = *id;
	return devpool_empty(dev->fd, &cmd, result);
}
