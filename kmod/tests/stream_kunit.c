// SPDX-License-Identifier: GPL-2.0-only
/*
 * Streams against a model of two numbers, with waiters that count how often they
 * were told, and fences that a test signals in whatever order.
 */
#include <kunit/test.h>
#include <linux/delay.h>
#include <linux/kthread.h>

#include "../stream.c"
#include "kunit.h"

#define STREAM_WAITERS 24U
/* Open points at a time, and points of a test in all. */
#define STREAM_OPEN 16U
#define STREAM_POINTS 4096U
#define STREAM_TIMEOUT (30 * HZ)

unsigned int devpool_max_points;

/* Who waits, and what it was told. */
struct listener {
	struct devpool_waiter waiter;
	struct devpool_stream *stream;
	/* The earliest point that it has asked for, 0 if it waits for nothing. */
	u64 wants;
	atomic_t told;
	atomic_t done;
	/* It was told of a point that had not signalled. */
	atomic_t too_early;
	/* Told by a fence or of what has been, not by SIGNAL. */
	bool queued;
	/* Which telling of the stream it was. */
	unsigned int turn;
};

struct streams {
	struct kunit *test;
	struct devpool_stream *stream;
	struct listener listeners[STREAM_WAITERS];
	u64 submitted;
	u64 signalled;
	/* Fences of points, by number. */
	struct dma_fence **fences;
	/* How many tellings there have been; under the stream's lock. */
	unsigned int turns;
};

/* There is one test at a time. */
static struct streams *streams;

static void *listener_tell(struct devpool_waiter *waiter)
{
	struct listener *listener = container_of(waiter, struct listener, waiter);

	lockdep_assert_held(&listener->stream->lock);
	if (listener->stream->signalled < listener->wants)
		atomic_inc(&listener->too_early);
	listener->turn = ++streams->turns;
	atomic_inc(&listener->told);
	return listener;
}

static void listener_reap(void *told)
{
	struct listener *listener = told;

	might_sleep();
	listener->queued = false;
	atomic_inc(&listener->done);
}

static void listener_queue(void *told)
{
	struct listener *listener = told;

	lockdep_assert_held(&listener->stream->lock);
	listener->queued = true;
	atomic_inc(&listener->done);
}

static const struct devpool_waiter_ops listener_ops = {
	.tell = listener_tell,
	.reap = listener_reap,
	.queue = listener_queue,
};

static void streams_make(struct kunit *test, u32 flags)
{
	unsigned int i;

	streams->stream = devpool_stream_create(test, flags);
	KUNIT_ASSERT_NOT_NULL(test, streams->stream);
	for (i = 0; i < STREAM_WAITERS; i++) {
		streams->listeners[i].waiter.ops = &listener_ops;
		streams->listeners[i].stream = streams->stream;
	}
}

/*
 * Fences
 */

static const char *fence_name(struct dma_fence *fence)
{
	return "devpool_kunit";
}

static const struct dma_fence_ops fence_ops = {
	.get_driver_name = fence_name,
	.get_timeline_name = fence_name,
};

static DEFINE_SPINLOCK(fence_lock);

static struct dma_fence *fence_make(struct kunit *test)
{
	struct dma_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, fence);
	dma_fence_init(fence, &fence_ops, &fence_lock, dma_fence_context_alloc(1), 1);
	return fence;
}

/* What STREAM_SUBMIT does once it has the fence. */
static int stream_prepare(struct kunit *test, struct devpool_submission *submission,
			  struct dma_fence *fence)
{
	*submission = (struct devpool_submission){
		.stream = streams->stream,
		.out_fd = -1,
	};
	if (streams->stream->fenced) {
		submission->in_fence = dma_fence_get(fence);
		submission->point = kmalloc(sizeof(*submission->point), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, submission->point);
	}
	return devpool_submission_prepare(submission);
}

static int stream_submit(struct kunit *test)
{
	struct devpool_submission submission;
	struct dma_fence *fence = NULL;
	int err;

	if (streams->stream->fenced)
		fence = fence_make(test);
	err = stream_prepare(test, &submission, fence);
	if (err) {
		devpool_submission_cancel(&submission);
		dma_fence_put(fence);
		return err;
	}
	KUNIT_EXPECT_EQ(test, streams->submitted + 1, submission.number);
	KUNIT_EXPECT_TRUE(test, devpool_submission_commit(&submission));
	streams->submitted++;
	if (fence)
		streams->fences[streams->submitted] = fence;
	return 0;
}

/* It is refused if there are too many. Returns whether it was. */
static bool stream_submit_or_not(struct kunit *test)
{
	bool refused = streams->submitted - streams->signalled == STREAM_OPEN;

	KUNIT_EXPECT_EQ(test, refused ? -EDQUOT : 0, stream_submit(test));
	return refused;
}

/* The stream says what the model does, and who waited was told once if it was to be. */
static void streams_check(struct kunit *test)
{
	unsigned int i;

	KUNIT_EXPECT_EQ(test, streams->submitted, streams->stream->submitted);
	KUNIT_EXPECT_EQ(test, streams->signalled,
			devpool_stream_signalled(streams->stream));
	KUNIT_EXPECT_EQ(test, streams->signalled < streams->submitted ? streams->submitted : 0,
			devpool_stream_last_open(streams->stream));
	for (i = 0; i < STREAM_WAITERS; i++) {
		struct listener *listener = &streams->listeners[i];
		bool told = listener->wants && listener->wants <= streams->signalled;

		KUNIT_EXPECT_EQ(test, told, atomic_read(&listener->told));
		KUNIT_EXPECT_EQ(test, told, atomic_read(&listener->done));
		KUNIT_EXPECT_EQ(test, 0, atomic_read(&listener->too_early));
		if (told)
			KUNIT_EXPECT_EQ(test, DEVPOOL_WAITER_TOLD, listener->waiter.state);
		else if (listener->wants)
			KUNIT_EXPECT_EQ(test, listener->wants, listener->waiter.point);
		else
			KUNIT_EXPECT_EQ(test, DEVPOOL_WAITER_IDLE, listener->waiter.state);
	}
}

/* Makes it idle if it has been told, as a lane does that has been reaped. */
static void listener_rest(struct listener *listener)
{
	if (!atomic_read(&listener->told))
		return;
	listener->waiter.state = DEVPOOL_WAITER_IDLE;
	listener->wants = 0;
	atomic_set(&listener->told, 0);
	atomic_set(&listener->done, 0);
}

static void listener_await(struct kunit *test, struct listener *listener, u64 point)
{
	bool was_told = atomic_read(&listener->told);

	if (!was_told && (!listener->wants || point < listener->wants))
		listener->wants = point;
	devpool_stream_await(streams->stream, &listener->waiter, point);
	if (!was_told && point <= streams->signalled)
		KUNIT_EXPECT_TRUE(test, listener->queued);
}

/* One that is not in the model yet: any point that was submitted. */
static void listener_await_any(struct kunit *test, struct rnd_state *rnd)
{
	struct listener *listener;

	listener = &streams->listeners[devpool_kunit_below(rnd, STREAM_WAITERS)];
	if (devpool_kunit_once_in(rnd, 2))
		listener_rest(listener);
	if (streams->submitted)
		listener_await(test, listener, streams->submitted -
			       devpool_kunit_below(rnd, min(streams->submitted,
							    2ULL * STREAM_OPEN)));
}

/*
 * User streams
 */

/* SIGNAL tells whoever waits for a point up to that one, the earliest first. */
static void stream_signal(struct kunit *test, u64 point)
{
	struct listener *a, *b;
	unsigned int before = streams->turns;

	KUNIT_EXPECT_EQ(test, 0, devpool_stream_signal(streams->stream, point));
	streams->signalled = point;
	for (a = streams->listeners; a < streams->listeners + STREAM_WAITERS; a++) {
		if (a->turn <= before)
			continue;
		KUNIT_EXPECT_FALSE(test, a->queued);
		for (b = streams->listeners; b < streams->listeners + STREAM_WAITERS; b++)
			if (b->turn > a->turn)
				KUNIT_EXPECT_GE(test, b->wants, a->wants);
	}
}

static void stream_user_random(struct kunit *test)
{
	unsigned int refused = 0, i;
	struct rnd_state rnd;

	devpool_kunit_seed(test, &rnd, 100);
	streams_make(test, 0);
	for (i = 0; i < devpool_kunit_steps; i++) {
		u64 open = streams->submitted - streams->signalled;

		switch (devpool_kunit_below(&rnd, 8)) {
		case 0 ... 2:
			refused += stream_submit_or_not(test);
			break;
		case 3:
			if (open && devpool_kunit_once_in(&rnd, 4))
				stream_signal(test, streams->submitted -
					      devpool_kunit_below(&rnd, open));
			break;
		case 4:
			/* What is not open cannot be signalled. */
			KUNIT_EXPECT_EQ(test, -EINVAL,
					devpool_stream_signal(streams->stream,
							      streams->submitted + 1));
			KUNIT_EXPECT_EQ(test, -EINVAL,
					devpool_stream_signal(streams->stream,
							      streams->signalled));
			KUNIT_EXPECT_EQ(test, -EINVAL,
					devpool_stream_signal(streams->stream, U64_MAX));
			break;
		default:
			listener_await_any(test, &rnd);
		}
		streams_check(test);
	}
	KUNIT_EXPECT_GT(test, refused, 0);
	KUNIT_EXPECT_GT(test, streams->turns, 0);
}

/* Its end completes it, and nobody submits any more. */
static void stream_user_end(struct kunit *test)
{
	struct listener *listener = streams->listeners;
	unsigned int i;

	streams_make(test, 0);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 0, stream_submit(test));
	listener_await(test, listener, 3);
	listener_await(test, listener + 1, 1);
	streams_check(test);
	devpool_stream_end(streams->stream);
	streams->signalled = 3;
	streams_check(test);
	KUNIT_EXPECT_LT(test, listener[1].turn, listener[0].turn);
	KUNIT_EXPECT_EQ(test, -ENOENT, stream_submit(test));
	streams_check(test);
}

/* Who is slower is told so, and changes nothing. */
static void stream_user_two_submit(struct kunit *test)
{
	struct devpool_submission first, second;

	streams_make(test, 0);
	KUNIT_EXPECT_EQ(test, 0, stream_prepare(test, &first, NULL));
	KUNIT_EXPECT_EQ(test, 0, stream_prepare(test, &second, NULL));
	KUNIT_EXPECT_EQ(test, 1, first.number);
	KUNIT_EXPECT_EQ(test, 1, second.number);
	KUNIT_EXPECT_TRUE(test, devpool_submission_commit(&second));
	streams->submitted = 1;
	KUNIT_EXPECT_FALSE(test, devpool_submission_commit(&first));
	streams_check(test);
	KUNIT_EXPECT_EQ(test, 0, devpool_submission_prepare(&first));
	KUNIT_EXPECT_EQ(test, 2, first.number);
	devpool_stream_end(streams->stream);
	streams->signalled = 1;
	KUNIT_EXPECT_FALSE(test, devpool_submission_commit(&first));
	KUNIT_EXPECT_EQ(test, -ENOENT, devpool_submission_prepare(&first));
	devpool_submission_cancel(&first);
	streams_check(test);
}

/*
 * Fenced streams
 */

/* How far the stream has come if each fence counts only after those before it. */
static void streams_catch_up(void)
{
	flush_workqueue(devpool_reaper);
	while (streams->signalled < streams->submitted &&
	       dma_fence_is_signaled(streams->fences[streams->signalled + 1]))
		streams->signalled++;
}

/* A point of a fenced stream signals with its fence, but after all before it. */
static void stream_fenced_random(struct kunit *test)
{
	unsigned int refused = 0, out_of_order = 0, i;
	struct rnd_state rnd;

	devpool_kunit_seed(test, &rnd, 101);
	streams_make(test, DEVPOOL_STREAM_FENCED);
	for (i = 0; i < devpool_kunit_steps; i++) {
		u64 open = streams->submitted - streams->signalled;
		u64 point;

		switch (devpool_kunit_below(&rnd, 8)) {
		case 0 ... 2:
			refused += stream_submit_or_not(test);
			break;
		case 3 ... 4:
			if (!open)
				break;
			point = streams->submitted - devpool_kunit_below(&rnd, open);
			dma_fence_signal(streams->fences[point]);
			out_of_order += point > streams->signalled + 1;
			break;
		case 5:
			if (open)
				dma_fence_signal(streams->fences[streams->signalled + 1]);
			/* Its owner says nothing. */
			KUNIT_EXPECT_EQ(test, -EINVAL,
					devpool_stream_signal(streams->stream,
							      streams->submitted));
			break;
		default:
			listener_await_any(test, &rnd);
		}
		streams_catch_up();
		streams_check(test);
	}
	KUNIT_EXPECT_GT(test, refused, 0);
	KUNIT_EXPECT_GT(test, out_of_order, 0);
	KUNIT_EXPECT_GT(test, streams->turns, 0);
}

/* Its points go on when it has ended, and hold it and the module until then. */
static void stream_fenced_end(struct kunit *test)
{
	int before = module_refcount(THIS_MODULE);
	unsigned int i;

	streams_make(test, DEVPOOL_STREAM_FENCED);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, 0, stream_submit(test));
	KUNIT_EXPECT_EQ(test, 4, kref_read(&streams->stream->ref));
	KUNIT_EXPECT_EQ(test, before + 3, module_refcount(THIS_MODULE));
	listener_await(test, streams->listeners, 2);
	devpool_stream_end(streams->stream);
	streams_catch_up();
	streams_check(test);
	KUNIT_EXPECT_EQ(test, -ENOENT, stream_submit(test));

	dma_fence_signal(streams->fences[2]);
	streams_catch_up();
	streams_check(test);
	KUNIT_EXPECT_EQ(test, before + 3, module_refcount(THIS_MODULE));
	dma_fence_signal(streams->fences[1]);
	streams_catch_up();
	KUNIT_EXPECT_EQ(test, 2, streams->signalled);
	streams_check(test);
	KUNIT_EXPECT_EQ(test, before + 1, module_refcount(THIS_MODULE));
	dma_fence_signal(streams->fences[3]);
	streams_catch_up();
	streams_check(test);
	KUNIT_EXPECT_EQ(test, 1, kref_read(&streams->stream->ref));
	KUNIT_EXPECT_EQ(test, before, module_refcount(THIS_MODULE));
}

/* What has signalled before it comes makes a point that is over at once. */
static void stream_fenced_signalled(struct kunit *test)
{
	struct devpool_submission submission;
	struct dma_fence *fence = fence_make(test);

	streams_make(test, DEVPOOL_STREAM_FENCED);
	dma_fence_signal(fence);
	KUNIT_EXPECT_EQ(test, 0, stream_prepare(test, &submission, fence));
	KUNIT_EXPECT_TRUE(test, devpool_submission_commit(&submission));
	streams->submitted = 1;
	streams->signalled = 1;
	streams_check(test);
	KUNIT_EXPECT_TRUE(test, list_empty(&streams->stream->points));
	KUNIT_EXPECT_NULL(test, streams->stream->last);
	dma_fence_put(fence);
}

/* However many are allowed, a chain of fences is no longer than it can be. */
static void stream_fenced_bound(struct kunit *test)
{
	unsigned int i;

	streams_make(test, DEVPOOL_STREAM_FENCED);
	devpool_max_points = 2 * DEVPOOL_MAX_FENCED_POINTS;
	for (i = 0; i < DEVPOOL_MAX_FENCED_POINTS; i++)
		KUNIT_ASSERT_EQ(test, 0, stream_submit(test));
	KUNIT_EXPECT_EQ(test, -EDQUOT, stream_submit(test));
	dma_fence_signal(streams->fences[1]);
	streams_catch_up();
	KUNIT_EXPECT_EQ(test, 1, streams->signalled);
	streams_check(test);
}

/* Fences that signal while others wait and points come. */
struct signaller {
	struct rnd_state rnd;
	/* The last point whose fence is there. */
	u64 end;
};

static int signaller_run(void *data)
{
	struct signaller *signaller = data;
	u64 point = 0;

	while (!kthread_should_stop()) {
		/* Pairs with stream_fenced_race(). */
		if (point == smp_load_acquire(&signaller->end)) {
			usleep_range(20, 50);
			continue;
		}
		dma_fence_signal(streams->fences[++point]);
		if (devpool_kunit_once_in(&signaller->rnd, 16))
			cond_resched();
	}
	return 0;
}

/* Asks for the last point, unless it waits for an earlier one still. */
static void listener_race(struct listener *listener)
{
	enum devpool_waiter_state state;

	/* Whoever was telling it has done so after that. */
	spin_lock(&streams->stream->lock);
	state = listener->waiter.state;
	spin_unlock(&streams->stream->lock);
	if (state == DEVPOOL_WAITER_WAITS)
		return;
	listener_rest(listener);
	listener->wants = streams->submitted;
	devpool_stream_await(streams->stream, &listener->waiter, listener->wants);
}

static void stream_fenced_race(struct kunit *test)
{
	struct signaller *signaller = kunit_kzalloc(test, sizeof(*signaller), GFP_KERNEL);
	unsigned long end = jiffies + STREAM_TIMEOUT;
	struct listener *listener = streams->listeners;
	struct task_struct *task;
	struct rnd_state rnd;

	KUNIT_ASSERT_NOT_NULL(test, signaller);
	devpool_kunit_seed(test, &rnd, 102);
	streams_make(test, DEVPOOL_STREAM_FENCED);
	prandom_seed_state(&signaller->rnd, prandom_u32_state(&rnd));
	task = kthread_run(signaller_run, signaller, "devpool_kunit");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, task);

	while (streams->submitted < STREAM_POINTS && !time_after(jiffies, end)) {
		if (stream_submit(test)) {
			usleep_range(20, 50);
			continue;
		}
		/* Pairs with signaller_run(): the fence is there. */
		smp_store_release(&signaller->end, streams->submitted);
		listener_race(listener);
		if (++listener == streams->listeners + STREAM_WAITERS)
			listener = streams->listeners;
	}
	while (devpool_stream_signalled(streams->stream) < streams->submitted &&
	       !time_after(jiffies, end))
		usleep_range(500, 1000);
	kthread_stop(task);
	streams_catch_up();
	KUNIT_EXPECT_EQ(test, STREAM_POINTS, streams->signalled);
	streams_check(test);
}

/*
 * The suite
 */

static int stream_kunit_init(struct kunit *test)
{
	devpool_max_points = STREAM_OPEN;
	streams = kunit_kzalloc(test, sizeof(*streams), GFP_KERNEL);
	if (!streams)
		return -ENOMEM;
	streams->fences = kunit_kcalloc(test, 2 * DEVPOOL_MAX_FENCED_POINTS,
					sizeof(*streams->fences), GFP_KERNEL);
	if (!streams->fences)
		return -ENOMEM;
	streams->test = test;
	return 0;
}

static void stream_kunit_exit(struct kunit *test)
{
	u64 point;

	if (!streams || !streams->stream)
		return;
	/* What a test has left open ends here. */
	for (point = 1; point <= streams->submitted; point++) {
		if (!streams->fences[point])
			continue;
		dma_fence_signal(streams->fences[point]);
		dma_fence_put(streams->fences[point]);
	}
	flush_workqueue(devpool_reaper);
	KUNIT_EXPECT_TRUE(test, list_empty(&streams->stream->points));
	KUNIT_EXPECT_FALSE(test, streams->stream->watched);
	/* Nobody has it but the test. */
	KUNIT_EXPECT_EQ(test, 1, kref_read(&streams->stream->ref));
	devpool_stream_put(streams->stream);
}

static int stream_kunit_suite_init(struct kunit_suite *suite)
{
	return devpool_reaper_init();
}

static void stream_kunit_suite_exit(struct kunit_suite *suite)
{
	devpool_reaper_exit();
	/* Streams go after a grace period. */
	rcu_barrier();
}

static struct kunit_case stream_kunit_cases[] = {
	KUNIT_CASE_SLOW(stream_user_random),
	KUNIT_CASE(stream_user_end),
	KUNIT_CASE(stream_user_two_submit),
	KUNIT_CASE_SLOW(stream_fenced_random),
	KUNIT_CASE(stream_fenced_end),
	KUNIT_CASE(stream_fenced_signalled),
	KUNIT_CASE_SLOW(stream_fenced_bound),
	KUNIT_CASE_SLOW(stream_fenced_race),
	{}
};

static struct kunit_suite stream_kunit_suite = {
	.name = "devpool_stream",
	.suite_init = stream_kunit_suite_init,
	.suite_exit = stream_kunit_suite_exit,
	.init = stream_kunit_init,
	.exit = stream_kunit_exit,
	.test_cases = stream_kunit_cases,
};

kunit_test_suite(stream_kunit_suite);
