// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "private.h"

#define NSEC_PER_SEC	1000000000LL
#define DEFAULT_WAIT	(10 * NSEC_PER_SEC)
/* No address lies at or beyond it. */
#define ADDRESSES_END	(1ULL << 62)

/*
 * To the tick, which is fine enough here, and costs no system call whatever the
 * machine's clock is.
 */
static int64_t default_timeout(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec + DEFAULT_WAIT;
}

static int free_addr(struct devpool *dev, uint64_t addr)
{
	struct devpool_free cmd = { .addr = addr };

	return devpool_call(dev->fd, FREE, &cmd);
}

static bool makes_sense(const struct devpool_alloc *cmd)
{
	return cmd->out_addr && cmd->out_bytes >= cmd->bytes &&
	       cmd->out_addr < ADDRESSES_END && cmd->out_bytes <= ADDRESSES_END - cmd->out_addr;
}

int devpool_alloc(struct devpool *dev, size_t bytes, const struct devpool_alloc_opts *opts,
		  void **ptr)
{
	struct devpool_alloc cmd = { .bytes = bytes };
	int ret;

	if (unlikely(!dev || !ptr))
		return -EINVAL;
	if (opts) {
		ret = devpool_check_opts(opts, opts->sz, sizeof(*opts));
		if (unlikely(ret))
			return ret;
		cmd.flags = opts->flags;
		cmd.align = opts->align;
		cmd.pool = opts->pool;
		cmd.stream = opts->stream;
		cmd.timeout = opts->timeout;
	} else {
		cmd.timeout = default_timeout();
	}
	ret = devpool_call(dev->fd, ALLOC, &cmd);
	if (unlikely(ret))
		return ret;
	if (unlikely(!makes_sense(&cmd))) {
		ret = -EPROTO;
	} else {
		if (likely(devpool_map_by_addr(dev, cmd.out_addr, cmd.out_bytes, ptr)))
			return 0;
		ret = devpool_map_add(dev, cmd.out_addr, cmd.out_bytes, &cmd.pool, ptr);
	}
	if (unlikely(ret))
		(void)free_addr(dev, cmd.out_addr);
	return ret;
}

int devpool_free(struct devpool *dev, void *ptr)
{
	uint64_t addr;

	if (unlikely(!dev || !ptr))
		return -EINVAL;
	if (unlikely(!devpool_map_by_ptr(dev, ptr, &addr)))
		return -ENOENT;
	return free_addr(dev, addr);
}

int devpool_batch(struct devpool *dev, struct devpool_batch_op *ops, unsigned int count)
{
	unsigned int done = 0;
	int ret = 0;

	if (!dev || !ops || !count || count > INT_MAX)
		return -EINVAL;
	while (done < count) {
		struct devpool_batch cmd = {
			.ops = (uintptr_t)(ops + done),
			.count = count - done,
			.op_size = sizeof(*ops),
		};

		if (cmd.count > dev->max_batch && dev->max_batch)
			cmd.count = dev->max_batch;
		/* What a signal has ended early goes on with the next. */
		ret = devpool_call(dev->fd, BATCH, &cmd);
		if (ret)
			break;
		if (!cmd.out_done || cmd.out_done > cmd.count) {
			ret = -EPROTO;
			break;
		}
		done += cmd.out_done;
	}
	return done ? (int)done : ret;
}

int devpool_retain(struct devpool *dev, uint64_t addr)
{
	struct devpool_retain cmd = { .addr = addr };

	if (!dev)
		return -EINVAL;
	return devpool_call(dev->fd, RETAIN, &cmd);
}

int devpool_record(struct devpool *dev, const void *ptr, uint32_t stream)
{
	struct devpool_record cmd = { .stream = stream };
	uint64_t addr;

	if (!dev || !ptr)
		return -EINVAL;
	if (!devpool_map_by_ptr(dev, ptr, &addr))
		return -ENOENT;
	cmd.addr = addr;
	return devpool_call(dev->fd, RECORD, &cmd);
}

int devpool_addr(struct devpool *dev, const void *ptr, uint64_t *addr)
{
	uint64_t found;

	if (!dev || !ptr || !addr)
		return -EINVAL;
	if (!devpool_map_by_ptr(dev, ptr, &found))
		return -ENOENT;
	*addr = found;
	return 0;
}

int devpool_export(struct devpool *dev, const void *ptr, int flags)
{
	struct devpool_export cmd = { .fd_flags = flags, .out_fd = -1 };
	uint64_t addr;
	int ret;

	if (!dev || !ptr)
		return -EINVAL;
	if (!devpool_map_by_ptr(dev, ptr, &addr))
		return -ENOENT;
	cmd.addr = addr;
	ret = devpool_call(dev->fd, EXPORT, &cmd);
	if (ret)
		return ret;
	return cmd.out_fd < 0 ? -EPROTO : cmd.out_fd;
}

int devpool_ptr(struct devpool *dev, uint64_t addr, void **ptr)
{
	static const struct devpool_pool_id unknown;

	if (!dev || !addr || addr >= ADDRESSES_END || !ptr)
		return -EINVAL;
	if (devpool_map_by_addr(dev, addr, 1, ptr))
		return 0;
	return devpool_map_add(dev, addr, 0, &unknown, ptr);
}
