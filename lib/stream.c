// SPDX-License-Identifier: LGPL-2.1-or-later
#include <errno.h>

#include "private.h"

int devpool_stream_create(struct devpool *dev, uint32_t flags, uint32_t *stream)
{
	struct devpool_stream_create cmd = { .flags = flags };
	int ret;

	if (!dev || !stream)
		return -EINVAL;
	ret = devpool_call(dev->fd, STREAM_CREATE, &cmd);
	if (ret)
		return ret;
	if (!cmd.out_stream)
		return -EPROTO;
	*stream = cmd.out_stream;
	return 0;
}

int devpool_stream_destroy(struct devpool *dev, uint32_t stream)
{
	struct devpool_stream_destroy cmd = { .stream = stream };

	if (!dev)
		return -EINVAL;
	return devpool_call(dev->fd, STREAM_DESTROY, &cmd);
}

int devpool_stream_submit(struct devpool *dev, uint32_t stream, int in_fence, uint64_t *point,
			  int *out_fence)
{
	struct devpool_stream_submit cmd = { .stream = stream, .out_fence = -1 };
	int ret;

	if (!dev || !point)
		return -EINVAL;
	if (in_fence != -1) {
		cmd.flags |= DEVPOOL_SUBMIT_FENCE_IN;
		cmd.in_fence = in_fence;
	}
	if (out_fence)
		cmd.flags |= DEVPOOL_SUBMIT_FENCE_OUT;
	ret = devpool_call(dev->fd, STREAM_SUBMIT, &cmd);
	if (ret)
		return ret;
	if (!cmd.out_point || (out_fence && cmd.out_fence < 0))
		return -EPROTO;
	*point = cmd.out_point;
	if (out_fence)
		*out_fence = cmd.out_fence;
	return 0;
}

int devpool_stream_signal(struct devpool *dev, uint32_t stream, uint64_t point)
{
	struct devpool_stream_signal cmd = { .stream = stream, .point = point };

	if (!dev)
		return -EINVAL;
	return devpool_call(dev->fd, STREAM_SIGNAL, &cmd);
}
