// SPDX-License-Identifier: GPL-2.0-only
/*
 * Streams: ordered lines of work, and who waits for points on them.
 *
 * All that a stream says is two numbers: the last point that was submitted and the
 * last one that has signalled. SIGNAL moves the latter on a user stream. On a fenced
 * one every point is a node of a fence chain, which signals after all before it.
 *
 * Of the points of a fenced stream only the first one has a callback. A chain's node
 * that is waited for looks at all before it when its own fence has signalled, in an
 * interrupt: if all were waited for, one fence behind them all would cost the square
 * of their number there. The worker, that finds the first one signalled, goes on to
 * the next, and looks at each once.
 *
 * A point that is open holds the module, so that neither its callback nor what it
 * protects outlives that. Callbacks run under the locks of other drivers, and only
 * queue.
 */
#include <linux/dma-fence-chain.h>
#include <linux/dma-fence-unwrap.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/slab.h>
#include <linux/sync_file.h>
#include <linux/workqueue.h>

#include <linux/devpool.h>

#include "compat.h"
#include "stream.h"

/* Reaps what has signalled; memory may be waiting for it. */
struct workqueue_struct *devpool_reaper;

/**
 * struct devpool_point - a point of a fenced stream that has not signalled
 * @link: in &devpool_stream.points
 * @stream: the stream, with a reference
 * @number: number of the point
 * @fence: its node of the chain, with a reference
 * @callback: on @fence
 */
struct devpool_point {
	struct list_head link;
	struct devpool_stream *stream;
	u64 number;
	struct dma_fence *fence;
	struct dma_fence_cb callback;
};

static void devpool_stream_free(struct kref *ref)
{
	struct devpool_stream *stream = container_of(ref, struct devpool_stream, ref);

	kfree_rcu(stream, rcu);
}

/**
 * devpool_stream_put - one reference less on a stream
 * @stream: the stream
 *
 * Context: process, no lock of the stream held.
 */
void devpool_stream_put(struct devpool_stream *stream)
{
	kref_put(&stream->ref, devpool_stream_free);
}

static struct devpool_waiter *to_waiter(struct rb_node *node)
{
	return rb_entry_safe(node, struct devpool_waiter, by_point);
}

static bool devpool_waiter_is_before(struct rb_node *node, const struct rb_node *other)
{
	return rb_entry(node, struct devpool_waiter, by_point)->point <
	       rb_entry(other, struct devpool_waiter, by_point)->point;
}

static void *devpool_waiter_tell(struct devpool_waiter *waiter)
{
	waiter->state = DEVPOOL_WAITER_TOLD;
	return waiter->ops->tell(waiter);
}

/* The next one of those whose point has signalled, off the tree. */
static struct devpool_waiter *devpool_stream_pop(struct devpool_stream *stream)
{
	struct devpool_waiter *waiter = to_waiter(rb_first_cached(&stream->waiters));

	lockdep_assert_held(&stream->lock);
	if (!waiter || waiter->point > stream->signalled)
		return NULL;
	rb_erase_cached(&waiter->by_point, &stream->waiters);
	return waiter;
}

/* A point of a fenced stream has signalled, and with it all before. It goes. */
static void devpool_stream_retire(struct devpool_stream *stream, struct devpool_point *point)
{
	struct devpool_waiter *waiter;

	spin_lock(&stream->lock);
	list_del(&point->link);
	/* Which comes after it need not wait for it. */
	if (stream->last == point->fence)
		stream->last = NULL;
	WRITE_ONCE(stream->signalled, point->number);
	while ((waiter = devpool_stream_pop(stream)))
		waiter->ops->queue(devpool_waiter_tell(waiter));
	spin_unlock(&stream->lock);

	/* Takes the lock under which the callback may be running still. */
	dma_fence_remove_callback(point->fence, &point->callback);
	dma_fence_put(point->fence);
	devpool_stream_put(stream);
	kfree(point);
	/* This code stays: the caller has a file, or module exit waits for it. */
	module_put(THIS_MODULE);
}

/* Under the locks of others, and in an interrupt maybe. */
static void devpool_point_signalled(struct dma_fence *fence, struct dma_fence_cb *callback)
{
	struct devpool_point *point = container_of(callback, struct devpool_point, callback);

	/* The point has a reference on the stream until the work is done. */
	queue_work(devpool_reaper, &point->stream->watch);
}

/*
 * Retires the points that have signalled, and has the work queued when the first of
 * the others does. There is one at a time who does this, or that work. The caller has
 * a reference on the stream.
 */
static void devpool_stream_watch(struct devpool_stream *stream)
{
	struct devpool_point *point;

	for (;;) {
		spin_lock(&stream->lock);
		point = list_first_entry_or_null(&stream->points, struct devpool_point,
						 link);
		if (!point)
			stream->watched = false;
		spin_unlock(&stream->lock);
		if (!point)
			return;
		if (!dma_fence_add_callback(point->fence, &point->callback,
					    devpool_point_signalled))
			return;
		devpool_stream_retire(stream, point);
		cond_resched();
	}
}

static void devpool_stream_watch_work(struct work_struct *work)
{
	struct devpool_stream *stream = container_of(work, struct devpool_stream, watch);

	kref_get(&stream->ref);
	devpool_stream_retire(stream, list_first_entry(&stream->points,
						       struct devpool_point, link));
	devpool_stream_watch(stream);
	devpool_stream_put(stream);
}

/**
 * devpool_stream_signalled - how far a stream has come
 * @stream: the stream
 *
 * Whoever was being told meanwhile has been told when this returns.
 *
 * Context: process; does not sleep.
 * Return: its last point that has signalled.
 */
u64 devpool_stream_signalled(struct devpool_stream *stream)
{
	u64 signalled;

	spin_lock(&stream->lock);
	signalled = stream->signalled;
	spin_unlock(&stream->lock);
	return signalled;
}

/**
 * devpool_stream_await - asks to be told when a point has signalled
 * @stream: the stream
 * @waiter: who asks, whose calls are serialised; it is told once, of the earliest
 *	point that it has asked for since it was idle. If it has been told it must be
 *	made idle first
 * @point: the point; if that has signalled already it is told now
 *
 * Context: process; does not sleep.
 */
void devpool_stream_await(struct devpool_stream *stream, struct devpool_waiter *waiter,
			  u64 point)
{
	spin_lock(&stream->lock);
	if (waiter->state == DEVPOOL_WAITER_TOLD)
		goto unlock;
	if (waiter->state == DEVPOOL_WAITER_WAITS) {
		if (waiter->point <= point)
			goto unlock;
		rb_erase_cached(&waiter->by_point, &stream->waiters);
	}
	if (point <= stream->signalled) {
		waiter->ops->queue(devpool_waiter_tell(waiter));
		goto unlock;
	}
	waiter->point = point;
	waiter->state = DEVPOOL_WAITER_WAITS;
	rb_add_cached(&waiter->by_point, &stream->waiters, devpool_waiter_is_before);
unlock:
	spin_unlock(&stream->lock);
}

/* All points up to that one have signalled, says the owner of a user stream. */
static void devpool_stream_advance(struct devpool_stream *stream, u64 point)
{
	const struct devpool_waiter_ops *ops;
	struct devpool_waiter *waiter;
	void *told;

	for (;;) {
		spin_lock(&stream->lock);
		if (point > stream->signalled)
			WRITE_ONCE(stream->signalled, point);
		waiter = devpool_stream_pop(stream);
		if (waiter) {
			/* It may be gone as soon as the lock is free. */
			ops = waiter->ops;
			told = devpool_waiter_tell(waiter);
		}
		spin_unlock(&stream->lock);
		if (!waiter)
			return;
		ops->reap(told);
		cond_resched();
	}
}

/**
 * devpool_stream_create - a stream without a point
 * @owner: whose it is
 * @flags: bits of &enum devpool_stream_flags
 *
 * Context: may sleep.
 * Return: the stream, with a reference, or NULL if there is no memory.
 */
struct devpool_stream *devpool_stream_create(const void *owner, u32 flags)
{
	struct devpool_stream *stream;

	stream = kzalloc(sizeof(*stream), GFP_KERNEL_ACCOUNT);
	if (!stream)
		return NULL;
	kref_init(&stream->ref);
	stream->owner = owner;
	stream->fenced = flags & DEVPOOL_STREAM_FENCED;
	spin_lock_init(&stream->lock);
	stream->waiters = RB_ROOT_CACHED;
	INIT_LIST_HEAD(&stream->points);
	INIT_WORK(&stream->watch, devpool_stream_watch_work);
	INIT_LIST_HEAD(&stream->lanes);
	return stream;
}

/**
 * devpool_stream_end - nobody submits to a stream any more
 * @stream: the stream, which cannot be found any more
 *
 * A user stream is completed. The points of a fenced one go on by themselves.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_stream_end(struct devpool_stream *stream)
{
	u64 last;

	spin_lock(&stream->lock);
	WRITE_ONCE(stream->ended, true);
	last = stream->submitted;
	spin_unlock(&stream->lock);
	if (!stream->fenced)
		devpool_stream_advance(stream, last);
}

/**
 * devpool_stream_signal - STREAM_SIGNAL
 * @stream: the stream
 * @point: the point
 *
 * Context: may sleep, no lock held. Allocates nothing.
 * Return: 0, or -EINVAL if the stream is fenced or the point is not open.
 */
int devpool_stream_signal(struct devpool_stream *stream, u64 point)
{
	int err = 0;

	if (stream->fenced)
		return -EINVAL;
	spin_lock(&stream->lock);
	if (point <= stream->signalled || point > stream->submitted)
		err = -EINVAL;
	else
		WRITE_ONCE(stream->signalled, point);
	spin_unlock(&stream->lock);
	if (!err)
		devpool_stream_advance(stream, point);
	return err;
}

/*
 * How many points of a stream may be open. Whoever was given a point of a fenced one can
 * wait for it, which has the chain looked at in an interrupt, as is said above: all
 * points together may cost no more there than can be borne.
 */
static unsigned int devpool_stream_max_points(bool fenced)
{
	return fenced ? min(devpool_max_points, DEVPOOL_MAX_FENCED_POINTS) : devpool_max_points;
}

/*
 * The fence of a sync_file without containers in it, which a chain must not have.
 * Their number is bounded: what comes out of streams may come in again.
 */
static int devpool_get_flat_fence(int fd, struct dma_fence **out)
{
	struct dma_fence *fence, *part, *flat = NULL;
	struct dma_fence_unwrap cursor;
	unsigned int count = 0;
	int err = -EDQUOT;

	fence = sync_file_get_fence(fd);
	if (!fence)
		return -EBADF;
	dma_fence_unwrap_for_each(part, &cursor, fence) {
		if (count++ == devpool_stream_max_points(true)) {
			dma_fence_put(cursor.chain);
			goto put_fence;
		}
	}
	flat = dma_fence_unwrap_merge(fence);
	err = flat ? 0 : -ENOMEM;
put_fence:
	dma_fence_put(fence);
	*out = flat;
	return err;
}

static void devpool_submission_drop(struct devpool_submission *submission)
{
	if (submission->out_file)
		fput(submission->out_file->file);
	submission->out_file = NULL;
	dma_fence_put(submission->fence);
	submission->fence = NULL;
}

/**
 * devpool_submission_cancel - undoes devpool_submission_begin()
 * @submission: the submission
 *
 * Context: may sleep, no lock held.
 */
void devpool_submission_cancel(struct devpool_submission *submission)
{
	devpool_submission_drop(submission);
	if (submission->out_fd >= 0)
		put_unused_fd(submission->out_fd);
	dma_fence_put(submission->in_fence);
	kfree(submission->point);
}

/**
 * devpool_submission_begin - gets what a submission needs
 * @submission: set to it
 * @stream: the stream
 * @flags: bits of &enum devpool_submit_flags, fit for the stream
 * @in_fence: a descriptor, with %DEVPOOL_SUBMIT_FENCE_IN
 *
 * Context: may sleep, no lock held.
 * Return: 0, or -EBADF, -EDQUOT, -ENOMEM, -EMFILE.
 */
int devpool_submission_begin(struct devpool_submission *submission,
			     struct devpool_stream *stream, u32 flags, int in_fence)
{
	int err;

	*submission = (struct devpool_submission){
		.stream = stream,
		.out_fd = -1,
	};
	if (!stream->fenced)
		return 0;
	err = devpool_get_flat_fence(in_fence, &submission->in_fence);
	if (err)
		return err;
	submission->point = kmalloc(sizeof(*submission->point), GFP_KERNEL_ACCOUNT);
	if (!submission->point) {
		err = -ENOMEM;
		goto cancel;
	}
	if (flags & DEVPOOL_SUBMIT_FENCE_OUT) {
		submission->out_fd = get_unused_fd_flags(O_CLOEXEC);
		if (submission->out_fd < 0) {
			err = submission->out_fd;
			goto cancel;
		}
	}
	return 0;

cancel:
	devpool_submission_cancel(submission);
	return err;
}

/**
 * devpool_submission_prepare - works out the answer to a submission
 * @submission: the submission
 *
 * Nothing is locked until devpool_submission_commit(), so somebody else may be
 * faster; then this is done again.
 *
 * Context: may sleep, no lock held.
 * Return: 0, -ENOENT (the stream was destroyed), -EDQUOT (open points) or -ENOMEM.
 */
int devpool_submission_prepare(struct devpool_submission *submission)
{
	struct devpool_stream *stream = submission->stream;
	struct dma_fence_chain *chain;
	struct dma_fence *last;
	int err = 0;

	spin_lock(&stream->lock);
	submission->number = stream->submitted + 1;
	if (stream->ended)
		err = -ENOENT;
	else if (stream->submitted - stream->signalled >=
		 devpool_stream_max_points(stream->fenced))
		err = -EDQUOT;
	last = dma_fence_get(stream->last);
	spin_unlock(&stream->lock);
	if (err || !stream->fenced)
		goto put_last;

	err = -ENOMEM;
	/* As dma_fence_chain_alloc(), but charged to who asks. */
	chain = kmalloc(sizeof(*chain), GFP_KERNEL_ACCOUNT);
	if (!chain)
		goto put_last;
	dma_fence_chain_init(chain, last, dma_fence_get(submission->in_fence),
			     submission->number);
	/* It has become the chain's. */
	last = NULL;
	submission->fence = &chain->base;
	if (submission->out_fd >= 0) {
		submission->out_file = sync_file_create(submission->fence);
		if (!submission->out_file)
			goto put_last;
	}
	err = 0;
put_last:
	dma_fence_put(last);
	return err;
}

/**
 * devpool_submission_commit - adds the point to the stream
 * @submission: the submission, used up where the answer is true
 *
 * Context: may sleep, no lock held.
 * Return: false if somebody else was faster, and the submission is to be prepared
 * again.
 */
bool devpool_submission_commit(struct devpool_submission *submission)
{
	struct devpool_stream *stream = submission->stream;
	struct devpool_point *point = submission->point;
	bool first, watches = false;

	if (point) {
		point->stream = stream;
		point->number = submission->number;
		point->fence = submission->fence;
	}
	spin_lock(&stream->lock);
	first = !stream->ended && submission->number == stream->submitted + 1;
	if (first) {
		WRITE_ONCE(stream->submitted, submission->number);
		if (point) {
			kref_get(&stream->ref);
			__module_get(THIS_MODULE);
			list_add_tail(&point->link, &stream->points);
			/* Its point has the reference. */
			stream->last = point->fence;
			watches = !stream->watched;
			stream->watched = true;
		}
	}
	spin_unlock(&stream->lock);
	if (!first) {
		devpool_submission_drop(submission);
		return false;
	}
	if (submission->out_file)
		fd_install(submission->out_fd, submission->out_file->file);
	dma_fence_put(submission->in_fence);
	if (watches)
		devpool_stream_watch(stream);
	return true;
}

/**
 * devpool_reaper_init - at load
 *
 * Context: module load.
 * Return: 0 or -ENOMEM.
 */
int devpool_reaper_init(void)
{
	devpool_reaper = alloc_workqueue("devpool", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	return devpool_reaper ? 0 : -ENOMEM;
}

/**
 * devpool_reaper_exit - at unload
 *
 * Context: module unload; no file is open and no point either. Devices still are:
 * what has signalled goes back to them.
 */
void devpool_reaper_exit(void)
{
	destroy_workqueue(devpool_reaper);
}
