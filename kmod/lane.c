// SPDX-License-Identifier: GPL-2.0-only
/*
 * Lanes: what one stream has to do with one pool.
 *
 * A lane has the pool's blocks that wait for points of its stream. Points are dealt
 * out in order, and what is freed later waits for later ones, so the lane knows at
 * any time which of its points comes next, and waits for that one alone. When that
 * has signalled it is told, and the pool is reaped: what waited for it becomes
 * cached, or idle.
 *
 * A lane that waits has a reference on its pool, so the pool stays while something
 * in it is in use, whoever is gone.
 */
#include <linux/lockdep.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/wait.h>

#include "private.h"
#include "trace.h"

/**
 * struct devpool_lane - what a stream has to do with a pool
 * @pool: the pool
 * @stream: the stream, with a reference
 * @by_stream: in &devpool_pool.lanes
 * @link: in &devpool_stream.lanes; under the stream's lock
 * @waiter: waits for the first point that something of the lane waits for
 * @told: in &devpool_pool.told when that has signalled
 * @has_pool: it waits or has been told, and has a reference on the pool
 * @nr_held: blocks that were allocated on the stream and have not become cached, and
 *	uses
 * @pending: the &struct devpool_use of pending blocks, by point
 * @guards: cached blocks that only the stream can have, in each of the arenas
 *
 * Under the pool's lock. It stays while the stream does, and while it has anything.
 */
struct devpool_lane {
	struct devpool_pool *pool;
	struct devpool_stream *stream;
	struct rb_node by_stream;
	struct list_head link;
	struct devpool_waiter waiter;
	struct llist_node told;
	bool has_pool;
	unsigned long nr_held;
	struct list_head pending;
	struct devpool_guards guards[DEVPOOL_NR_ARENAS];
};

static struct devpool_lane *to_lane(struct rb_node *node)
{
	return rb_entry_safe(node, struct devpool_lane, by_stream);
}

static int compare_stream(const void *stream, const struct rb_node *node)
{
	const struct devpool_stream *other;

	other = rb_entry(node, struct devpool_lane, by_stream)->stream;
	return (unsigned long)stream < (unsigned long)other ?
		       -1 : (unsigned long)stream > (unsigned long)other;
}

static int compare_lanes(struct rb_node *node, const struct rb_node *other)
{
	return compare_stream(to_lane(node)->stream, other);
}

static struct devpool_lane *devpool_lane_find(struct devpool_pool *pool,
					      const struct devpool_stream *stream)
{
	lockdep_assert_held(&pool->lock);
	return to_lane(rb_find(stream, &pool->lanes, compare_stream));
}

static unsigned int devpool_arena_index(const struct devpool_pool *pool,
					const struct devpool_arena *arena)
{
	return arena - pool->arenas;
}

/* The lane of the stream that a block was allocated on, or that guards it. */
static struct devpool_lane *devpool_block_lane(const struct devpool_block *block)
{
	unsigned int index = devpool_arena_index(block->range->pool, block->range->arena);

	if (!block->guards)
		return NULL;
	return container_of(block->guards - index, struct devpool_lane, guards[0]);
}

static void devpool_lane_free(struct devpool_lane *lane)
{
	spin_lock(&lane->stream->lock);
	list_del(&lane->link);
	spin_unlock(&lane->stream->lock);
	devpool_stream_put(lane->stream);
	kfree(lane);
}

/* Ends a lane that has nothing, if its stream is no more. */
static void devpool_lane_settle(struct devpool_lane *lane)
{
	lockdep_assert_held(&lane->pool->lock);
	if (lane->has_pool || lane->nr_held || !READ_ONCE(lane->stream->ended))
		return;
	rb_erase(&lane->by_stream, &lane->pool->lanes);
	if (lane->pool->recent_lane == lane)
		lane->pool->recent_lane = NULL;
	devpool_lane_free(lane);
}

/* Has the lane told when a point has signalled that something of it waits for. */
static void devpool_lane_await(struct devpool_lane *lane, u64 point)
{
	lockdep_assert_held(&lane->pool->lock);
	if (!lane->has_pool) {
		devpool_pool_get(lane->pool);
		lane->has_pool = true;
	}
	devpool_stream_await(lane->stream, &lane->waiter, point);
}

/* The first point that something of the lane waits for, %U64_MAX if nothing does. */
static u64 devpool_lane_next(struct devpool_lane *lane)
{
	const struct devpool_block *block;
	const struct devpool_use *use;
	u64 point = U64_MAX;
	unsigned int i;

	use = list_first_entry_or_null(&lane->pending, struct devpool_use, link);
	if (use)
		point = use->point;
	for (i = 0; i < ARRAY_SIZE(lane->guards); i++) {
		block = devpool_guards_first(&lane->guards[i]);
		if (block)
			point = min(point, block->point);
	}
	return point;
}

/**
 * devpool_block_add_use - a block is used by something that is no stream
 * @block: the block, live or reserved
 * @use: the use, its @lane NULL; the caller's again after devpool_block_end_use()
 *
 * Context: under the lock of its pool, but for a reserved block.
 */
void devpool_block_add_use(struct devpool_block *block, struct devpool_use *use)
{
	use->block = block;
	use->next = block->uses;
	block->uses = use;
}

/**
 * devpool_block_end_use - a use of a block is over
 * @pool: its pool
 * @use: the use; of a stream only where the block is pending
 *
 * Context: under the lock of the pool. Allocates nothing.
 * Return: true if the block was pending and is cached now.
 */
bool devpool_block_end_use(struct devpool_pool *pool, struct devpool_use *use)
{
	struct devpool_block *block = use->block;
	struct devpool_use **link;

	lockdep_assert_held(&pool->lock);
	if (block->pending) {
		if (--block->nr_uses)
			return false;
		devpool_pool_end_pending(pool, block);
		return true;
	}
	for (link = &block->uses; *link != use; link = &(*link)->next)
		;
	*link = use->next;
	return false;
}

/*
 * What waited for points that have signalled waits no more. The caller has a
 * reference on the pool.
 */
static void devpool_lane_reap(struct devpool_lane *lane)
{
	struct devpool_pool *pool = lane->pool;
	struct devpool_block *block;
	struct devpool_use *use;
	unsigned long nr = 0;
	unsigned int i;
	u64 point;

	lockdep_assert_held(&pool->lock);
	/* Nobody is telling it of this any more. */
	point = devpool_stream_signalled(lane->stream);
	lane->waiter.state = DEVPOOL_WAITER_IDLE;
	while ((use = list_first_entry_or_null(&lane->pending, struct devpool_use, link))) {
		if (use->point > point)
			break;
		list_del(&use->link);
		nr += devpool_block_end_use(pool, use);
		kfree(use);
		lane->nr_held--;
		cond_resched();
	}
	for (i = 0; i < ARRAY_SIZE(lane->guards); i++) {
		while ((block = devpool_guards_first(&lane->guards[i]))) {
			if (block->point > point)
				break;
			devpool_pool_unguard(pool, block);
			nr++;
			cond_resched();
		}
	}
	trace_devpool_reap(pool, lane->stream->number, point, nr);

	point = devpool_lane_next(lane);
	if (point == U64_MAX) {
		lane->has_pool = false;
		devpool_pool_put(pool);
		devpool_lane_settle(lane);
	} else {
		devpool_stream_await(lane->stream, &lane->waiter, point);
	}
}

/* The lane has a reference on the pool until the stream's lock is free again. */
static void *devpool_lane_tell(struct devpool_waiter *waiter)
{
	struct devpool_lane *lane = container_of(waiter, struct devpool_lane, waiter);

	devpool_pool_get(lane->pool);
	llist_add(&lane->told, &lane->pool->told);
	return lane->pool;
}

static void devpool_lane_reap_now(void *told)
{
	struct devpool_pool *pool = told;

	devpool_pool_lock(pool);
	devpool_pool_unlock(pool);
	devpool_pool_put(pool);
}

/* While the lane has its reference the one that is put is never the last. */
static void devpool_lane_queue(void *told)
{
	struct devpool_pool *pool = told;

	if (!queue_work(devpool_reaper, &pool->reap))
		devpool_pool_put(pool);
}

static const struct devpool_waiter_ops devpool_lane_ops = {
	.tell = devpool_lane_tell,
	.reap = devpool_lane_reap_now,
	.queue = devpool_lane_queue,
};

/**
 * devpool_pool_reap - what streams do not use any more is cached
 * @pool: the pool, of which the caller has a reference
 *
 * Attempt 1 of a request, and what comes first wherever a pool is looked at. Costs
 * nothing where nothing has signalled.
 *
 * Context: under the lock of the pool; may sleep. Allocates nothing.
 */
void devpool_pool_reap(struct devpool_pool *pool)
{
	struct devpool_lane *lane, *next;
	struct llist_node *told;

	lockdep_assert_held(&pool->lock);
	while ((told = llist_del_all(&pool->told)))
		llist_for_each_entry_safe(lane, next, told, told)
			devpool_lane_reap(lane);
	devpool_pool_reaped(pool);
}

/* Has a reference on the pool. */
static void devpool_pool_reap_work(struct work_struct *work)
{
	devpool_lane_reap_now(container_of(work, struct devpool_pool, reap));
}

/**
 * devpool_lanes_init - no stream has to do with a pool yet
 * @pool: the pool, that is being made
 *
 * Context: any.
 */
void devpool_lanes_init(struct devpool_pool *pool)
{
	pool->lanes = RB_ROOT;
	init_llist_head(&pool->told);
	INIT_WORK(&pool->reap, devpool_pool_reap_work);
}

/**
 * devpool_lanes_exit - no stream has to do with a pool any more
 * @pool: the pool, which nobody has any more
 *
 * Context: may sleep. Allocates nothing.
 */
void devpool_lanes_exit(struct devpool_pool *pool)
{
	struct devpool_lane *lane, *next;

	rbtree_postorder_for_each_entry_safe(lane, next, &pool->lanes, by_stream)
		devpool_lane_free(lane);
}

/**
 * devpool_pool_settle_lane - ends a lane that has nothing, if its stream is no more
 * @pool: the pool
 * @stream: the stream; they need not have a lane
 *
 * For who has made sure of a lane without putting anything there.
 *
 * Context: under the lock of the pool. Allocates nothing.
 */
void devpool_pool_settle_lane(struct devpool_pool *pool,
			      const struct devpool_stream *stream)
{
	struct devpool_lane *lane = devpool_lane_find(pool, stream);

	if (lane)
		devpool_lane_settle(lane);
}

/**
 * devpool_lanes_end - a stream has ended
 * @stream: the stream, after devpool_stream_end()
 *
 * Its lanes go that have nothing; the others go when they have nothing any more.
 *
 * Context: may sleep, no lock held. Allocates nothing.
 */
void devpool_lanes_end(struct devpool_stream *stream)
{
	struct devpool_lane *lane;
	struct devpool_pool *pool;

	for (;;) {
		spin_lock(&stream->lock);
		lane = list_first_entry_or_null(&stream->lanes, struct devpool_lane, link);
		if (lane) {
			/* Each is looked at once. */
			list_del_init(&lane->link);
			pool = lane->pool;
			if (!kref_get_unless_zero(&pool->ref))
				pool = NULL;
		}
		spin_unlock(&stream->lock);
		if (!lane)
			return;
		if (!pool)
			continue;
		mutex_lock(&pool->lock);
		devpool_pool_unpark(pool);
		devpool_pool_settle_lane(pool, stream);
		devpool_pool_unlock(pool);
		devpool_pool_put(pool);
		cond_resched();
	}
}

/**
 * devpool_pool_recent_guards - the guards of the stream that a request was last for
 * @pool: the pool
 * @arena: one of its arenas
 * @client: a client
 * @number: one of its streams, maybe
 *
 * Context: under the lock of the pool.
 * Return: the guards, or NULL if that was for another stream.
 */
struct devpool_guards *devpool_pool_recent_guards(struct devpool_pool *pool,
						  const struct devpool_arena *arena,
						  const struct devpool_client *client,
						  u32 number)
{
	struct devpool_lane *lane = pool->recent_lane;

	lockdep_assert_held(&pool->lock);
	if (!lane || lane->stream->number != number || lane->stream->owner != client ||
	    READ_ONCE(lane->stream->ended))
		return NULL;
	return &lane->guards[devpool_arena_index(pool, arena)];
}

/**
 * devpool_pool_find_guards - the guards of a stream, if it has any there
 * @pool: the pool
 * @arena: one of its arenas
 * @stream: the stream
 *
 * Context: under the lock of the pool.
 * Return: the guards, or NULL: see devpool_pool_add_lane().
 */
struct devpool_guards *devpool_pool_find_guards(struct devpool_pool *pool,
						const struct devpool_arena *arena,
						const struct devpool_stream *stream)
{
	struct devpool_lane *lane = devpool_lane_find(pool, stream);

	if (!lane)
		return NULL;
	pool->recent_lane = lane;
	return &lane->guards[devpool_arena_index(pool, arena)];
}

/**
 * devpool_pool_add_lane - makes sure that a pool and a stream have a lane
 * @pool: the pool, of which the caller has a reference
 * @stream: the stream
 *
 * Context: under the lock of the pool, which is let go of.
 * Return: 0 or -ENOMEM.
 */
int devpool_pool_add_lane(struct devpool_pool *pool, struct devpool_stream *stream)
{
	struct devpool_lane *made;
	unsigned int i;

	lockdep_assert_held(&pool->lock);
	if (devpool_lane_find(pool, stream))
		return 0;
	mutex_unlock(&pool->lock);
	made = kzalloc(sizeof(*made), GFP_KERNEL_ACCOUNT);
	mutex_lock(&pool->lock);
	if (!made)
		return -ENOMEM;
	made->pool = pool;
	made->stream = stream;
	made->waiter.ops = &devpool_lane_ops;
	INIT_LIST_HEAD(&made->pending);
	for (i = 0; i < ARRAY_SIZE(made->guards); i++) {
		made->guards[i].fit = RB_ROOT;
		made->guards[i].by_point = RB_ROOT_CACHED;
	}
	if (rb_find_add(&made->by_stream, &pool->lanes, compare_lanes)) {
		kfree(made);
		return 0;
	}
	kref_get(&stream->ref);
	spin_lock(&stream->lock);
	list_add(&made->link, &stream->lanes);
	spin_unlock(&stream->lock);
	return 0;
}

/**
 * devpool_block_stream - the stream of a block, as its client calls it
 * @block: the block
 *
 * Context: under the lock of its pool.
 * Return: number of the stream that it was allocated on or that alone can have it, 0
 * for the host and for any.
 */
u32 devpool_block_stream(const struct devpool_block *block)
{
	const struct devpool_lane *lane = devpool_block_lane(block);

	return lane ? lane->stream->number : 0;
}

/**
 * devpool_block_last_open - what a block that is freed now has to wait for
 * @block: the block
 *
 * Context: under the lock of its pool.
 * Return: the last point of its stream, 0 if that has signalled.
 */
u64 devpool_block_last_open(const struct devpool_block *block)
{
	const struct devpool_lane *lane = devpool_block_lane(block);

	return lane ? devpool_stream_last_open(lane->stream) : 0;
}

/**
 * devpool_block_is_open - has a point of a block's own stream not signalled yet
 * @block: the block, with guards
 * @point: the point
 *
 * Context: under the lock of its pool.
 * Return: true if so.
 */
bool devpool_block_is_open(const struct devpool_block *block, u64 point)
{
	return point > READ_ONCE(devpool_block_lane(block)->stream->signalled);
}

/**
 * devpool_block_hold - a block is busy
 * @block: the block, which was just claimed
 * @guards: those of the stream that it is for, NULL for none
 *
 * Context: under the lock of its pool.
 */
void devpool_block_hold(struct devpool_block *block, struct devpool_guards *guards)
{
	struct devpool_lane *lane;

	block->guards = guards;
	lane = devpool_block_lane(block);
	if (!lane)
		return;
	lane->nr_held++;
	/* Nobody waits for the stream any more to give this back. */
	if (block->point && waitqueue_active(&lane->pool->flushed))
		wake_up_all(&lane->pool->flushed);
}

/**
 * devpool_block_unhold - a block is not busy any more
 * @block: the block, which is about to be cached
 * @point: the point that it is guarded by from then on, 0 for none
 *
 * Context: under the lock of its pool.
 */
void devpool_block_unhold(const struct devpool_block *block, u64 point)
{
	struct devpool_lane *lane = devpool_block_lane(block);

	if (!lane)
		return;
	lane->nr_held--;
	if (point)
		devpool_lane_await(lane, point);
	else
		devpool_lane_settle(lane);
}

/**
 * devpool_block_record - RECORD
 * @pool: the pool of the block, of which the caller has a reference
 * @block: the block, live
 * @stream: the stream
 * @spare: a struct for the use, taken if need be
 *
 * Context: under the lock of the pool.
 * Return: 0, or -EAGAIN if the pool and the stream have no lane yet.
 */
int devpool_block_record(struct devpool_pool *pool, struct devpool_block *block,
			 const struct devpool_stream *stream, struct devpool_use **spare)
{
	struct devpool_lane *lane = devpool_lane_find(pool, stream);
	struct devpool_use *use;

	lockdep_assert_held(&pool->lock);
	if (!lane)
		return -EAGAIN;
	if (lane == devpool_block_lane(block))
		return 0;
	for (use = block->uses; use; use = use->next)
		if (use->lane == lane)
			return 0;
	use = *spare;
	*spare = NULL;
	use->lane = lane;
	use->block = block;
	use->next = block->uses;
	block->uses = use;
	lane->nr_held++;
	return 0;
}

/**
 * devpool_use_alloc - a struct for a use
 *
 * Context: may sleep.
 * Return: the struct, to be given to devpool_block_record() or to kfree(); NULL if
 * there is no memory.
 */
struct devpool_use *devpool_use_alloc(void)
{
	return kmalloc(sizeof(struct devpool_use), GFP_KERNEL_ACCOUNT);
}

/**
 * devpool_block_pend - the last reference on a block is gone
 * @pool: its pool, of which the caller has a reference
 * @block: the block, in no member's list, with a use
 * @point: the last open point of its own stream, 0 if there is none
 *
 * Context: under the lock of the pool.
 * Return: false if nobody uses it any more.
 */
bool devpool_block_pend(struct devpool_pool *pool, struct devpool_block *block, u64 point)
{
	struct devpool_use *use = block->uses, *next;

	lockdep_assert_held(&pool->lock);
	block->uses = NULL;
	block->nr_uses = 0;
	for (; use; use = next) {
		struct devpool_lane *lane = use->lane;

		next = use->next;
		if (!lane) {
			block->nr_uses++;
			continue;
		}
		use->point = devpool_stream_last_open(lane->stream);
		if (use->point) {
			block->nr_uses++;
			list_add_tail(&use->link, &lane->pending);
			devpool_lane_await(lane, use->point);
		} else {
			kfree(use);
			lane->nr_held--;
			devpool_lane_settle(lane);
		}
	}
	if (!block->nr_uses)
		return false;
	block->pending = true;
	block->member = NULL;
	block->point = point;
	return true;
}
