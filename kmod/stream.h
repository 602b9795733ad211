/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Streams, as what waits for points sees them.
 */
#ifndef DEVPOOL_STREAM_H
#define DEVPOOL_STREAM_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct devpool_point;
struct dma_fence;
struct sync_file;

/**
 * enum devpool_waiter_state - where a waiter is
 * @DEVPOOL_WAITER_IDLE: it waits for nothing
 * @DEVPOOL_WAITER_WAITS: it is in &devpool_stream.waiters
 * @DEVPOOL_WAITER_TOLD: its point has signalled and it has been told
 */
enum devpool_waiter_state {
	DEVPOOL_WAITER_IDLE,
	DEVPOOL_WAITER_WAITS,
	DEVPOOL_WAITER_TOLD,
};

struct devpool_waiter;

/**
 * struct devpool_waiter_ops - what is done when a point has signalled
 * @tell: says so to the waiter, under the stream's lock.
 *	Returns something with a reference for one of the others
 * @reap: does at once what is to be done: may sleep, no lock held
 * @queue: has it done soon, under the stream's lock
 */
struct devpool_waiter_ops {
	void *(*tell)(struct devpool_waiter *waiter);
	void (*reap)(void *told);
	void (*queue)(void *told);
};

/**
 * struct devpool_waiter - who is to be told when a point of a stream has signalled
 * @by_point: waits: in &devpool_stream.waiters
 * @point: waits: the point
 * @state: one of &enum devpool_waiter_state. From waiting to told it goes under the
 *	stream's lock, all else is the waiter's business
 * @ops: what is done then
 */
struct devpool_waiter {
	struct rb_node by_point;
	u64 point;
	enum devpool_waiter_state state;
	const struct devpool_waiter_ops *ops;
};

/**
 * struct devpool_stream - an ordered line of work
 * @ref: its client has one, each of its points, of its lanes and of its routes too
 * @owner: its client; nothing but a name, which is good until the stream has ended
 * @number: what its client calls it; 0 until it can be found
 * @fenced: fences complete its points
 * @lock: protects all below
 * @ended: nobody submits to it any more
 * @submitted: the last point; may be read without the lock, as may
 * @signalled: the last point that has signalled, at most @submitted
 * @waiters: who is to be told, by point
 * @points: fenced: the &struct devpool_point that may be open, in order
 * @last: fenced: the last of these
 * @watched: fenced: somebody looks after the first of these, or @watch will
 * @watch: fenced: goes on when the first of these has signalled
 * @lanes: the &struct devpool_lane of pools that it has to do with
 * @rcu: look-ups by RCU readers
 */
struct devpool_stream {
	struct kref ref;
	const void *owner;
	u32 number;
	bool fenced;

	spinlock_t lock;
	bool ended;
	u64 submitted;
	u64 signalled;
	struct rb_root_cached waiters;
	struct list_head points;
	struct dma_fence *last;
	bool watched;
	struct work_struct watch;
	struct list_head lanes;
	struct rcu_head rcu;
};

/**
 * struct devpool_submission - a point that is being submitted
 * @stream: the stream
 * @number: what number it is going to have
 * @point: fenced: the point
 * @in_fence: fenced: the fence that came with it, flat, with a reference
 * @fence: fenced: the point's node of the chain, with a reference
 * @out_fd: a descriptor for its sync_file, -1 for none
 * @out_file: its sync_file
 */
struct devpool_submission {
	struct devpool_stream *stream;
	u64 number;
	struct devpool_point *point;
	struct dma_fence *in_fence;
	struct dma_fence *fence;
	int out_fd;
	struct sync_file *out_file;
};

/* See "a callback on each" in Documentation/driver-api/devpool.rst. */
#define DEVPOOL_MAX_FENCED_POINTS 4096U

extern unsigned int devpool_max_points;
extern struct workqueue_struct *devpool_reaper;

/*
 * The last point that was submitted, if it has not signalled; 0 if nothing is
 * outstanding.
 */
static inline u64 devpool_stream_last_open(const struct devpool_stream *stream)
{
	u64 submitted = READ_ONCE(stream->submitted);

	return submitted > READ_ONCE(stream->signalled) ? submitted : 0;
}

struct devpool_stream *devpool_stream_create(const void *owner, u32 flags);
void devpool_stream_put(struct devpool_stream *stream);
void devpool_stream_end(struct devpool_stream *stream);
u64 devpool_stream_signalled(struct devpool_stream *stream);
void devpool_stream_await(struct devpool_stream *stream, struct devpool_waiter *waiter,
			  u64 point);
int devpool_stream_signal(struct devpool_stream *stream, u64 point);
int devpool_submission_begin(struct devpool_submission *submission,
			     struct devpool_stream *stream, u32 flags, int in_fence);
int devpool_submission_prepare(struct devpool_submission *submission);
bool devpool_submission_commit(struct devpool_submission *submission);
void devpool_submission_cancel(struct devpool_submission *submission);
int devpool_reaper_init(void);
void devpool_reaper_exit(void);

#endif
