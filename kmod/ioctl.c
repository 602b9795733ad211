// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ABI: argument structs in, checks, answers out.
 *
 * Each command validates all of its struct before it takes anything, and copies
 * its answer out before it publishes what it made.
 */
#include <linux/anon_inodes.h>
#include <linux/build_bug.h>
#include <linux/capability.h>
#include <linux/dma-buf.h>
#include <linux/err.h>
#include <linux/fault-inject-usercopy.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "private.h"
#include "trace.h"

/* The layouts are the ABI, on 32 bit too. */
static_assert(sizeof(struct devpool_pool_id) == 16);
static_assert(sizeof(struct devpool_counter) == 32);
static_assert(sizeof(struct devpool_info) == 96);
static_assert(offsetof(struct devpool_info, out_backend) == 56);
static_assert(sizeof(struct devpool_alloc) == 80);
static_assert(offsetof(struct devpool_alloc, out_addr) == 64);
static_assert(sizeof(struct devpool_free) == 16);
static_assert(sizeof(struct devpool_batch_op) == 88);
static_assert(offsetof(struct devpool_batch_op, out_err) == 52);
static_assert(offsetof(struct devpool_batch_op, out_addr) == 72);
static_assert(sizeof(struct devpool_batch) == 32);
static_assert(offsetof(struct devpool_batch, out_done) == 24);
static_assert(sizeof(struct devpool_retain) == 16);
static_assert(sizeof(struct devpool_record) == 24);
static_assert(sizeof(struct devpool_pool_id_new) == 24);
static_assert(sizeof(struct devpool_pool_create) == 72);
static_assert(offsetof(struct devpool_pool_create, out_pool) == 48);
static_assert(sizeof(struct devpool_pool_get) == 48);
static_assert(offsetof(struct devpool_pool_get, out_use_count) == 28);
static_assert(sizeof(struct devpool_pool_put) == 32);
static_assert(sizeof(struct devpool_pool_attr) == 48);
static_assert(offsetof(struct devpool_pool_attr, out_value) == 40);
static_assert(sizeof(struct devpool_pool_stat) == 296);
static_assert(offsetof(struct devpool_pool_stat, out_allocated) == 32);
static_assert(sizeof(struct devpool_empty_cache) == 80);
static_assert(offsetof(struct devpool_empty_cache, out_freed) == 40);
static_assert(sizeof(struct devpool_route_begin) == 32);
static_assert(sizeof(struct devpool_route_end) == 32);
static_assert(sizeof(struct devpool_stream_create) == 16);
static_assert(sizeof(struct devpool_stream_destroy) == 16);
static_assert(sizeof(struct devpool_stream_submit) == 32);
static_assert(offsetof(struct devpool_stream_submit, out_point) == 16);
static_assert(sizeof(struct devpool_stream_signal) == 24);
static_assert(sizeof(struct devpool_export) == 24);
static_assert(offsetof(struct devpool_export, out_fd) == 20);
static_assert(sizeof(struct devpool_stats) == 272);
static_assert(sizeof(struct devpool_snapshot_entry) == 80);
static_assert(sizeof(struct devpool_snapshot) == 56);
static_assert(offsetof(struct devpool_snapshot, out_count) == 44);
static_assert(sizeof(struct devpool_limit) == 16);

/* A tally is what both kinds of statistics end with. */
static_assert(sizeof(struct devpool_tally) ==
	      sizeof(struct devpool_pool_stat) -
		      offsetof(struct devpool_pool_stat, out_allocated));
static_assert(sizeof(struct devpool_tally) ==
	      sizeof(struct devpool_stats) -
		      offsetof(struct devpool_stats, out_allocated));

/**
 * struct devpool_call - a command being carried out
 * @client: the client, for a command on a device file
 * @pool: the pool, for a command on a pool file
 * @device: the device
 * @mode: access mode of the file
 * @user: the caller's struct
 * @user_size: its size as the caller has it, at least that of the command's first
 *	version and at most a page
 */
struct devpool_call {
	struct devpool_client *client;
	struct devpool_pool *pool;
	struct devpool_device *device;
	fmode_t mode;
	void __user *user;
	u32 user_size;
};

/* What a BATCH can do at a time. */
#define DEVPOOL_MAX_BATCH 1024U

/* Structs up to this size, in bytes, are copied word by word: that is much cheaper. */
#define DEVPOOL_WORDS_MAX 96

/* Every struct of the ABI is made of words of 8 bytes. */
static __always_inline int devpool_read_words(u64 *to, const u64 __user *from,
					      size_t nr)
{
	size_t i;

	if (should_fail_usercopy() || !user_read_access_begin(from, nr * sizeof(*from)))
		return -EFAULT;
#pragma GCC unroll 12
	for (i = 0; i < nr; i++)
		unsafe_get_user(to[i], from + i, fault);
	user_read_access_end();
	return 0;

fault:
	user_read_access_end();
	return -EFAULT;
}

static __always_inline int devpool_write_words(u64 __user *to, const u64 *from,
					       size_t nr)
{
	size_t i;

	if (should_fail_usercopy() || !user_write_access_begin(to, nr * sizeof(*to)))
		return -EFAULT;
#pragma GCC unroll 12
	for (i = 0; i < nr; i++)
		unsafe_put_user(from[i], to + i, fault);
	user_write_access_end();
	return 0;

fault:
	user_write_access_end();
	return -EFAULT;
}

/*
 * Copies the caller's struct in; what the caller left out is zero. Inline, so
 * that the size of the common case is a constant.
 */
static __always_inline int devpool_fetch(const struct devpool_call *call, void *arg,
					 size_t size)
{
	BUILD_BUG_ON(size % sizeof(u64));
	if (unlikely(call->user_size != size))
		return copy_struct_from_user(arg, size, call->user, call->user_size);
	if (size <= DEVPOOL_WORDS_MAX)
		return devpool_read_words(arg, call->user, size / sizeof(u64));
	return copy_from_user(arg, call->user, size) ? -EFAULT : 0;
}

/*
 * Copies the answer out, from the member at @at on, as far as the caller has room
 * for it; what was in its first version every caller has room for.
 */
static __always_inline int devpool_respond(const struct devpool_call *call,
					   const void *arg, size_t at, size_t size)
{
	void __user *to = call->user + at;

	if (unlikely(call->user_size < size))
		return copy_to_user(to, arg + at, call->user_size - at) ? -EFAULT : 0;
	if (size - at <= DEVPOOL_WORDS_MAX && at % sizeof(u64) == 0)
		return devpool_write_words(to, arg + at, (size - at) / sizeof(u64));
	return copy_to_user(to, arg + at, size - at) ? -EFAULT : 0;
}

/* The members that both kinds of statistics end with, from @at on. */
static void devpool_set_tally(void *arg, size_t at, const struct devpool_tally *tally)
{
	memcpy(arg + at, tally, sizeof(*tally));
}

static int devpool_cmd_info(struct devpool_call *call)
{
	struct devpool_device *device = call->device;
	struct devpool_info info;
	int err;

	err = devpool_fetch(call, &info, sizeof(info));
	if (err)
		return err;
	if (info.flags)
		return -EOPNOTSUPP;

	info = (struct devpool_info){
		.out_bytes = devpool_device_bytes(device),
		.out_chunk = devpool_chunk_size(device),
		.out_granule_small = DEVPOOL_SMALL_GRANULE,
		.out_granule_large = PAGE_SIZE,
		.out_index = device->index,
		.out_node = NUMA_NO_NODE,
		.out_features = DEVPOOL_FEATURE_ZERO | DEVPOOL_FEATURE_EXPORTABLE |
				DEVPOOL_FEATURE_SHARE | DEVPOOL_FEATURE_ROUTES |
				DEVPOOL_FEATURE_LIMITS | DEVPOOL_FEATURE_STABLE |
				DEVPOOL_FEATURE_NO_SPLIT | DEVPOOL_FEATURE_SPARES |
				DEVPOOL_FEATURE_SNAPSHOT | DEVPOOL_FEATURE_STREAMS |
				DEVPOOL_FEATURE_FENCES | DEVPOOL_FEATURE_BATCH,
		.out_max_pools = devpool_max_pools,
		.out_max_streams = devpool_max_streams,
		.out_max_points = devpool_max_points,
		.out_max_routes = devpool_max_routes,
		.out_max_blocks = devpool_max_blocks,
		.out_max_batch = DEVPOOL_MAX_BATCH,
	};
	if (device->backend->pfn) {
		info.out_features |= DEVPOOL_FEATURE_MMAP | DEVPOOL_FEATURE_EXPORT;
		if (DEVPOOL_HUGE_MAP)
			info.out_features |= DEVPOOL_FEATURE_HUGE_MAP;
	}
	strscpy(info.out_backend, device->backend->name, sizeof(info.out_backend));
	return devpool_respond(call, &info, offsetof(struct devpool_info, out_bytes),
			       sizeof(info));
}

/* Rounds up to a multiple of a power of two. */
static int devpool_round_up(u64 bytes, u64 to, u64 *rounded)
{
	if (bytes > U64_MAX - (to - 1))
		return -EINVAL;
	*rounded = ALIGN(bytes, to);
	return 0;
}

/* Checks how a block is to be, and sets all of the request that follows from it. */
static __always_inline int devpool_validate_alloc(const struct devpool_device *device,
						  u32 flags, u64 bytes, u64 align,
						  struct devpool_request *request)
{
	u64 granule = DEVPOOL_SMALL_GRANULE;

	if (unlikely(flags & ~(DEVPOOL_ALLOC_ZERO | DEVPOOL_ALLOC_EXPORTABLE)))
		return -EOPNOTSUPP;
	if (unlikely(!bytes))
		return -EINVAL;
	if (align && (!is_power_of_2(align) || align > devpool_chunk_size(device)))
		return -EINVAL;
	if (bytes > DEVPOOL_SMALL_MAX || flags & DEVPOOL_ALLOC_EXPORTABLE)
		granule = PAGE_SIZE;
	request->align = max(align, granule);
	request->requested = bytes;
	request->zero = flags & DEVPOOL_ALLOC_ZERO;
	return devpool_round_up(bytes, granule, &request->size);
}

/* The stream that a command names, NULL for the host, with a reference. */
static int devpool_call_get_stream(struct devpool_call *call, u32 number,
				   struct devpool_stream **stream)
{
	*stream = NULL;
	if (!number)
		return 0;
	*stream = devpool_client_get_stream(call->client, number);
	return *stream ? 0 : -ENOENT;
}

static void devpool_call_put_stream(struct devpool_stream *stream)
{
	if (stream)
		devpool_stream_put(stream);
}

static bool devpool_call_has_stream(struct devpool_call *call, u32 number)
{
	struct devpool_stream *stream;
	int err;

	err = devpool_call_get_stream(call, number, &stream);
	devpool_call_put_stream(stream);
	return !err;
}

/*
 * Finds memory for a block of the pool that an ALLOC names, which goes back by
 * devpool_call_unreserve(). The member has a reference.
 */
static __always_inline int __devpool_call_reserve(struct devpool_call *call,
						  const struct devpool_pool_id *id,
						  struct devpool_request *request,
						  struct devpool_member **out,
						  struct devpool_block **block)
{
	struct devpool_client *client = call->client;
	struct devpool_block *reserved;
	struct devpool_member *member;
	u64 size = request->size;
	int err;

look_up:
	if (devpool_id_is_none(id) && unlikely(!list_empty(&client->routes)))
		member = devpool_route_find(client, request->stream);
	else
		member = devpool_client_get_member(client, id);
	if (!member)
		return -ENOENT;

	request->size = size;
	if (unlikely(member->pool->flags & DEVPOOL_POOL_NO_SPLIT)) {
		err = devpool_round_up(size, devpool_chunk_size(call->device),
				       &request->size);
		if (err)
			goto put_member;
	}
	if (request->size > devpool_device_bytes(call->device)) {
		err = devpool_pool_refuse(member->pool, request->size, -ENOSPC);
		goto put_member;
	}
	if (!atomic_add_unless(&client->nr_blocks, 1, devpool_max_blocks)) {
		err = devpool_pool_refuse(member->pool, request->size, -EDQUOT);
		goto put_member;
	}
	err = devpool_pool_reserve(member, request, &reserved);
	if (err)
		goto uncount;
	if (request->zero) {
		err = devpool_pool_zero(member->pool, reserved);
		if (err)
			goto unreserve;
	}
	*out = member;
	*block = reserved;
	return 0;

unreserve:
	devpool_pool_unreserve(member, reserved);
uncount:
	atomic_dec(&client->nr_blocks);
put_member:
	devpool_client_put_member(client, member);
	/* Either there is no such stream, or the route has ended, and its pool with it. */
	if (err == -ENOENT && devpool_id_is_none(id) && member != client->home &&
	    devpool_call_has_stream(call, request->stream))
		goto look_up;
	return err;
}

static noinline int devpool_call_reserve(struct devpool_call *call,
					 const struct devpool_pool_id *id,
					 struct devpool_request *request,
					 struct devpool_member **out,
					 struct devpool_block **block)
{
	return __devpool_call_reserve(call, id, request, out, block);
}

static void devpool_call_unreserve(struct devpool_call *call, struct devpool_member *member,
				   struct devpool_block *block)
{
	devpool_pool_unreserve(member, block);
	atomic_dec(&call->client->nr_blocks);
}

static int devpool_cmd_alloc(struct devpool_call *call)
{
	struct devpool_request request __uninitialized;
	struct devpool_alloc alloc __uninitialized;
	struct devpool_member *member;
	struct devpool_block *block;
	int err;

	err = devpool_fetch(call, &alloc, sizeof(alloc));
	if (err)
		return err;
	if (alloc.user_addr)
		return -EOPNOTSUPP;
	if (alloc.__reserved)
		return -EINVAL;
	request.stream = alloc.stream;
	request.timeout = alloc.timeout;
	err = devpool_validate_alloc(call->device, alloc.flags, alloc.bytes, alloc.align,
				     &request);
	if (err)
		return err;
	err = __devpool_call_reserve(call, &alloc.pool, &request, &member, &block);
	if (err)
		return err;

	alloc.out_addr = block->addr;
	alloc.out_bytes = block->size;
	err = devpool_respond(call, &alloc, offsetof(struct devpool_alloc, out_addr),
			      sizeof(alloc));
	if (err) {
		devpool_call_unreserve(call, member, block);
	} else {
		trace_devpool_alloc(member->pool, block);
		devpool_pool_publish(member, block);
	}
	devpool_client_put_member(call->client, member);
	return err;
}

static int devpool_cmd_free(struct devpool_call *call)
{
	struct devpool_free arg __uninitialized;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags)
		return -EOPNOTSUPP;
	return devpool_client_free_block(call->client, arg.addr);
}

static int devpool_cmd_retain(struct devpool_call *call)
{
	struct devpool_retain arg;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags)
		return -EOPNOTSUPP;
	return devpool_client_retain_block(call->client, arg.addr);
}

static int devpool_call_record(struct devpool_call *call, u64 addr, u32 number)
{
	struct devpool_stream *stream;
	int err;

	err = devpool_call_get_stream(call, number, &stream);
	if (err)
		return err;
	err = devpool_client_record_use(call->client, addr, stream);
	devpool_call_put_stream(stream);
	return err;
}

static int devpool_cmd_record(struct devpool_call *call)
{
	struct devpool_record arg;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags)
		return -EOPNOTSUPP;
	if (arg.__reserved)
		return -EINVAL;
	return devpool_call_record(call, arg.addr, arg.stream);
}

/* Operations that are read, run and answered at a time. */
#define DEVPOOL_BATCH_GROUP 8U

/**
 * struct devpool_batch_run - a BATCH being carried out
 * @call: the call
 * @member: the client's share that an ALLOC was last for, with a reference, or NULL
 * @range: the range that a FREE was last in, its pool with a reference, or NULL
 * @locked: the pool of one of these, locked, or NULL
 * @ops: a group of operations
 * @blocks: the block that each of them has reserved, or NULL
 * @members: whose share each of these is in. It stays, for it has the block
 *
 * The pool's lock is kept from one operation to the next in a group, and let go of
 * before the group is answered.
 */
struct devpool_batch_run {
	struct devpool_call *call;
	struct devpool_member *member;
	struct devpool_range *range;
	struct devpool_pool *locked;
	struct devpool_batch_op ops[DEVPOOL_BATCH_GROUP];
	struct devpool_block *blocks[DEVPOOL_BATCH_GROUP];
	struct devpool_member *members[DEVPOOL_BATCH_GROUP];
};

static void devpool_batch_unlock(struct devpool_batch_run *run)
{
	if (run->locked)
		devpool_pool_unlock(run->locked);
	run->locked = NULL;
}

static void devpool_batch_lock(struct devpool_batch_run *run, struct devpool_pool *pool)
{
	if (likely(run->locked == pool))
		return;
	devpool_batch_unlock(run);
	devpool_pool_lock(pool);
	run->locked = pool;
}

static void devpool_batch_put_member(struct devpool_batch_run *run)
{
	devpool_batch_unlock(run);
	if (run->member)
		devpool_client_put_member(run->call->client, run->member);
	run->member = NULL;
}

static void devpool_batch_put_range(struct devpool_batch_run *run)
{
	devpool_batch_unlock(run);
	if (run->range)
		devpool_pool_put(run->range->pool);
	run->range = NULL;
}

/* The client's share that a request is for, where that is easily told. */
static struct devpool_member *devpool_batch_member(struct devpool_batch_run *run,
						   const struct devpool_pool_id *id)
{
	struct devpool_client *client = run->call->client;

	if (devpool_id_is_none(id))
		return list_empty(&client->routes) ? client->home : NULL;
	if (likely(run->member && devpool_id_is_same(&run->member->pool->id, id)))
		return run->member;
	devpool_batch_put_member(run);
	run->member = devpool_client_get_member(client, id);
	return run->member;
}

/* What is cached is got under the lock that there is, all else as by ALLOC alone. */
static int devpool_batch_alloc(struct devpool_batch_run *run,
			       const struct devpool_batch_op *op,
			       struct devpool_member **out, struct devpool_block **block)
{
	struct devpool_request request __uninitialized;
	struct devpool_call *call = run->call;
	struct devpool_member *member;
	int err;

	if (op->user_addr)
		return -EOPNOTSUPP;
	if (op->addr)
		return -EINVAL;
	request.stream = op->stream;
	request.timeout = op->timeout;
	err = devpool_validate_alloc(call->device, op->flags, op->bytes, op->align, &request);
	if (err)
		return err;

	member = devpool_batch_member(run, &op->pool);
	if (likely(member && !request.zero &&
		   !(member->pool->flags & DEVPOOL_POOL_NO_SPLIT) &&
		   atomic_add_unless(&call->client->nr_blocks, 1, devpool_max_blocks))) {
		devpool_batch_lock(run, member->pool);
		*block = devpool_pool_serve(member, &request);
		if (likely(*block)) {
			*out = member;
			return 0;
		}
		atomic_dec(&call->client->nr_blocks);
	}
	devpool_batch_unlock(run);
	err = devpool_call_reserve(call, &op->pool, &request, out, block);
	if (err)
		return err;
	devpool_client_put_member(call->client, *out);
	return 0;
}

/* Is anything set that is an ALLOC's alone? */
static bool devpool_batch_op_asks(const struct devpool_batch_op *op)
{
	return op->bytes | op->align | op->pool.first | op->pool.second | op->timeout |
	       op->user_addr;
}

static int devpool_batch_free(struct devpool_batch_run *run,
			      const struct devpool_batch_op *op)
{
	struct devpool_client *client = run->call->client;
	struct devpool_range *range = run->range;
	int err;

	if (op->flags)
		return -EOPNOTSUPP;
	if (devpool_batch_op_asks(op) || op->stream)
		return -EINVAL;
	if (unlikely(!range || op->addr - range->base >= range->size)) {
		devpool_batch_put_range(run);
		range = devpool_client_get_range(client, op->addr);
		if (!range)
			return -ENOENT;
		run->range = range;
	}
	devpool_batch_lock(run, range->pool);
	err = devpool_pool_free_locked(range, client, op->addr);
	if (!err)
		atomic_dec(&client->nr_blocks);
	return err;
}

static int devpool_batch_record(struct devpool_batch_run *run,
				const struct devpool_batch_op *op)
{
	if (op->flags)
		return -EOPNOTSUPP;
	if (devpool_batch_op_asks(op))
		return -EINVAL;
	devpool_batch_unlock(run);
	return devpool_call_record(run->call, op->addr, op->stream);
}

static int devpool_batch_run_op(struct devpool_batch_run *run, u32 i)
{
	const struct devpool_batch_op *op = &run->ops[i];

	switch (op->command) {
	case DEVPOOL_CMD_ALLOC:
		return devpool_batch_alloc(run, op, &run->members[i], &run->blocks[i]);
	case DEVPOOL_CMD_FREE:
		return devpool_batch_free(run, op);
	case DEVPOOL_CMD_RECORD:
		return devpool_batch_record(run, op);
	default:
		return -EOPNOTSUPP;
	}
}

/* Reads a group. Returns how many operations could be read, or why the first could not. */
static int devpool_batch_read(struct devpool_batch_run *run, const void __user *from,
			      u32 op_size, u32 nr)
{
	const size_t size = sizeof(run->ops[0]);
	u32 i;
	int err;

	if (likely(op_size == size)) {
		i = nr - DIV_ROUND_UP(copy_from_user(run->ops, from, nr * size), size);
		return i ?: -EFAULT;
	}
	for (i = 0; i < nr; i++) {
		err = copy_struct_from_user(&run->ops[i], size, from + (size_t)i * op_size,
					    op_size);
		if (err)
			return i ?: err;
	}
	return nr;
}

/*
 * Writes the answers of a group, before it is run: that all went well, or after that:
 * what came of it. Returns how many could be written.
 */
static u32 devpool_batch_answer(const struct devpool_batch_run *run, void __user *to,
				u32 op_size, u32 nr, bool done)
{
	/* Not by index: no check of bounds may be called while user memory is open. */
	struct devpool_block *const *block = run->blocks;
	const struct devpool_batch_op *from = run->ops;
	u32 i = 0;

	if (should_fail_usercopy() || !user_write_access_begin(to, (size_t)nr * op_size))
		return 0;
	for (; i < nr; i++, block++, from++) {
		struct devpool_batch_op __user *op = to + (size_t)i * op_size;

		if (!done || from->out_err)
			unsafe_put_user(done ? from->out_err : 0, &op->out_err, fault);
		if (done && *block) {
			unsafe_put_user((*block)->addr, &op->out_addr, fault);
			unsafe_put_user((*block)->size, &op->out_bytes, fault);
		}
	}
fault:
	user_write_access_end();
	return i;
}

/*
 * Runs a group of operations. All that can be known before is: whether they can be
 * read and answered. Returns how many ran, or why the first could not.
 */
static int devpool_batch_group(struct devpool_batch_run *run, void __user *user,
			       u32 op_size, u32 nr)
{
	u32 i, told;
	int ret;

	ret = devpool_batch_read(run, user, op_size, nr);
	if (ret < 0)
		return ret;
	nr = devpool_batch_answer(run, user, op_size, ret, false);
	for (i = 0; i < nr; i++) {
		run->blocks[i] = NULL;
		run->ops[i].out_err = devpool_batch_run_op(run, i);
	}
	devpool_batch_unlock(run);
	told = devpool_batch_answer(run, user, op_size, nr, true);
	for (i = 0; i < nr; i++) {
		struct devpool_member *member = run->members[i];

		if (!run->blocks[i])
			continue;
		if (likely(i < told)) {
			trace_devpool_alloc(member->pool, run->blocks[i]);
			devpool_pool_publish(member, run->blocks[i]);
			continue;
		}
		kref_get(&member->ref);
		devpool_call_unreserve(run->call, member, run->blocks[i]);
		kref_put(&member->ref, devpool_member_release);
	}
	return told ?: -EFAULT;
}

static int devpool_validate_batch(const struct devpool_batch *batch)
{
	if (batch->flags)
		return -EOPNOTSUPP;
	if (batch->__reserved || !batch->count || batch->count > DEVPOOL_MAX_BATCH ||
	    batch->op_size < offsetofend(struct devpool_batch_op, out_bytes))
		return -EINVAL;
	return batch->op_size > PAGE_SIZE ? -E2BIG : 0;
}

static int devpool_cmd_batch(struct devpool_call *call)
{
	struct devpool_batch_run run __uninitialized;
	struct devpool_batch batch;
	u32 nr;
	int ret;

	ret = devpool_fetch(call, &batch, sizeof(batch));
	if (ret)
		return ret;
	ret = devpool_validate_batch(&batch);
	if (ret)
		return ret;
	/* That it can be is to be known before anything is done. */
	batch.out_done = 0;
	ret = devpool_respond(call, &batch, offsetof(struct devpool_batch, out_done),
			      sizeof(batch));
	if (ret)
		return ret;

	run.call = call;
	run.member = NULL;
	run.range = NULL;
	run.locked = NULL;
	while (batch.out_done < batch.count) {
		if (signal_pending(current)) {
			ret = -EINTR;
			break;
		}
		nr = min(batch.count - batch.out_done, DEVPOOL_BATCH_GROUP);
		ret = devpool_batch_group(&run, u64_to_user_ptr(batch.ops) +
					  (size_t)batch.out_done * batch.op_size,
					  batch.op_size, nr);
		if (ret < 0)
			break;
		batch.out_done += ret;
		if (ret < nr)
			break;
		cond_resched();
	}
	devpool_batch_put_member(&run);
	devpool_batch_put_range(&run);
	if (!batch.out_done)
		return ret;
	return devpool_respond(call, &batch, offsetof(struct devpool_batch, out_done),
			       sizeof(batch));
}

static int devpool_cmd_pool_id(struct devpool_call *call)
{
	struct devpool_pool_id_new arg;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags & ~DEVPOOL_POOL_ID_CAPTURE)
		return -EOPNOTSUPP;
	err = devpool_client_mint(call->client, arg.flags & DEVPOOL_POOL_ID_CAPTURE,
				  &arg.out_pool);
	if (err)
		return err;
	return devpool_respond(call, &arg, offsetof(struct devpool_pool_id_new, out_pool),
			       sizeof(arg));
}

static int devpool_validate_pool_create(const struct devpool_device *device,
					const struct devpool_pool_create *create,
					u64 *limit)
{
	if (create->flags & ~(DEVPOOL_POOL_STABLE | DEVPOOL_POOL_NO_SPLIT |
			      DEVPOOL_POOL_THRESHOLD) || create->reserve)
		return -EOPNOTSUPP;
	if (create->__reserved)
		return -EINVAL;
	if (create->release_threshold && !(create->flags & DEVPOOL_POOL_THRESHOLD))
		return -EINVAL;
	if (create->flags & DEVPOOL_POOL_THRESHOLD && create->flags & DEVPOOL_POOL_STABLE)
		return -EINVAL;
	return devpool_round_up(create->limit, devpool_chunk_size(device), limit);
}

/*
 * Gets first what can fail: the number, the descriptor, the file, and copies the
 * answer out. Then the pool is put where it can be found.
 */
static int devpool_cmd_pool_create(struct devpool_call *call)
{
	struct devpool_client *client = call->client;
	struct devpool_pool_create create;
	struct devpool_member *member;
	struct devpool_pool_id id;
	struct file *file;
	int fd, err;
	u64 limit;

	err = devpool_fetch(call, &create, sizeof(create));
	if (err)
		return err;
	err = devpool_validate_pool_create(call->device, &create, &limit);
	if (err)
		return err;

	err = devpool_client_count_pool(client);
	if (err)
		return err;
	id = create.pool;
	if (devpool_id_is_none(&id))
		err = devpool_client_mint(client, false, &id);
	else
		err = devpool_client_check_minted(client, &id);
	if (err)
		goto uncount;
	member = devpool_client_get_member(client, &id);
	if (member) {
		devpool_client_put_member(client, member);
		err = -EBUSY;
		goto uncount;
	}

	err = -ENOMEM;
	member = devpool_pool_create(client, &id, create.flags);
	if (!member)
		goto uncount;
	/* The use count of 1 is the file's. */
	member->pool->file_open = true;
	devpool_pool_set_attr(member->pool, DEVPOOL_ATTR_LIMIT, limit);
	if (create.flags & DEVPOOL_POOL_THRESHOLD)
		devpool_pool_set_attr(member->pool, DEVPOOL_ATTR_RELEASE_THRESHOLD,
				      create.release_threshold);
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0) {
		err = fd;
		goto put_member;
	}
	file = anon_inode_getfile("[devpool]", &devpool_pool_fops, member->pool,
				  O_RDWR);
	if (IS_ERR(file)) {
		err = PTR_ERR(file);
		goto put_fd;
	}
	/* So is a reference on the struct. */
	devpool_pool_get(member->pool);

	create.out_pool = id;
	create.out_fd = fd;
	err = devpool_respond(call, &create,
			      offsetof(struct devpool_pool_create, out_pool),
			      sizeof(create));
	if (!err)
		err = devpool_pool_add(member);
	if (err)
		goto put_file;
	fd_install(fd, file);
	return 0;

put_file:
	/* Its close must find nothing to do: the pool was never there. */
	member->pool->file_open = false;
	fput(file);
put_fd:
	put_unused_fd(fd);
put_member:
	kref_put(&member->ref, devpool_member_release);
uncount:
	devpool_client_uncount_pool(client);
	return err;
}

/* The pool of a pool file, with a reference. */
static int devpool_get_pool_of_file(const struct devpool_device *device, int fd,
				    struct devpool_pool **pool)
{
	struct file *file = fget(fd);
	int err = 0;

	if (!file)
		return -EBADF;
	*pool = file->private_data;
	if (file->f_op != &devpool_pool_fops)
		err = -EBADF;
	else if ((*pool)->device != device)
		err = -EINVAL;
	else
		devpool_pool_get(*pool);
	fput(file);
	return err;
}

static int devpool_cmd_pool_get(struct devpool_call *call)
{
	struct devpool_client *client = call->client;
	struct devpool_member *member;
	struct devpool_pool_get get;
	struct devpool_pool *pool;
	u32 use_count;
	int err;

	err = devpool_fetch(call, &get, sizeof(get));
	if (err)
		return err;
	if (get.flags & ~DEVPOOL_POOL_GET_FD)
		return -EOPNOTSUPP;
	if (get.flags & DEVPOOL_POOL_GET_FD) {
		if (!devpool_id_is_none(&get.pool))
			return -EINVAL;
		err = devpool_get_pool_of_file(call->device, get.fd, &pool);
		if (err)
			return err;
		err = devpool_client_attach(client, pool, &member, &use_count);
		devpool_pool_put(pool);
	} else {
		if (devpool_id_is_none(&get.pool) || get.fd)
			return -EINVAL;
		err = devpool_client_get_pool(client, &get.pool, &member, &use_count);
	}
	if (err)
		return err;

	get.out_use_count = use_count;
	get.out_pool = member->pool->id;
	err = devpool_respond(call, &get, offsetof(struct devpool_pool_get, out_use_count),
			      sizeof(get));
	if (err)
		devpool_member_put(member, &use_count);
	devpool_client_put_member(client, member);
	return err;
}

static int devpool_cmd_pool_put(struct devpool_call *call)
{
	struct devpool_member *member;
	struct devpool_pool_put put;
	int err;

	err = devpool_fetch(call, &put, sizeof(put));
	if (err)
		return err;
	if (put.flags)
		return -EOPNOTSUPP;
	if (put.__reserved || devpool_id_is_none(&put.pool))
		return -EINVAL;
	devpool_routes_reap(call->client);
	member = devpool_client_get_member(call->client, &put.pool);
	if (!member)
		return -ENOENT;
	err = devpool_member_put(member, &put.out_use_count);
	devpool_client_put_member(call->client, member);
	if (err)
		return err;
	return devpool_respond(call, &put, offsetof(struct devpool_pool_put, out_use_count),
			       sizeof(put));
}

/* The pool that a command on either kind of file names. */
static int devpool_call_get_pool(struct devpool_call *call,
				 const struct devpool_pool_id *id,
				 struct devpool_member **member,
				 struct devpool_pool **pool)
{
	*member = NULL;
	*pool = call->pool;
	if (call->pool)
		return devpool_id_is_none(id) ? 0 : -EINVAL;

	*member = devpool_client_get_member(call->client, id);
	if (!*member)
		return -ENOENT;
	*pool = (*member)->pool;
	return 0;
}

static void devpool_call_put_pool(struct devpool_call *call,
				  struct devpool_member *member)
{
	if (member)
		devpool_client_put_member(call->client, member);
}

static int devpool_cmd_pool_stat(struct devpool_call *call)
{
	struct devpool_member *member;
	struct devpool_pool_stat stat;
	struct devpool_tally tally;
	struct devpool_pool *pool;
	u64 pending;
	int err;

	err = devpool_fetch(call, &stat, sizeof(stat));
	if (err)
		return err;
	if (stat.flags)
		return -EOPNOTSUPP;
	err = devpool_call_get_pool(call, &stat.pool, &member, &pool);
	if (err)
		return err;
	devpool_pool_tally(pool, &tally, &pending, &stat.out_use_count, &stat.out_state);
	devpool_call_put_pool(call, member);
	if (stat.out_state == DEVPOOL_STATE_GONE)
		return -ENOENT;
	devpool_set_tally(&stat, offsetof(struct devpool_pool_stat, out_allocated),
			  &tally);
	return devpool_respond(call, &stat,
			       offsetof(struct devpool_pool_stat, out_use_count),
			       sizeof(stat));
}

static int devpool_validate_pool_attr(const struct devpool_device *device,
				      struct devpool_pool_attr *attr)
{
	if (attr->flags & ~DEVPOOL_POOL_ATTR_SET)
		return -EOPNOTSUPP;
	if (attr->attr != DEVPOOL_ATTR_LIMIT &&
	    attr->attr != DEVPOOL_ATTR_RELEASE_THRESHOLD)
		return -EOPNOTSUPP;
	if (attr->__reserved)
		return -EINVAL;
	if (!(attr->flags & DEVPOOL_POOL_ATTR_SET))
		return attr->value ? -EINVAL : 0;
	if (attr->attr == DEVPOOL_ATTR_LIMIT)
		return devpool_round_up(attr->value, devpool_chunk_size(device),
					&attr->value);
	return 0;
}

static int devpool_cmd_pool_attr(struct devpool_call *call)
{
	struct devpool_member *member;
	struct devpool_pool_attr attr;
	struct devpool_pool *pool;
	bool set;
	int err;

	err = devpool_fetch(call, &attr, sizeof(attr));
	if (err)
		return err;
	err = devpool_validate_pool_attr(call->device, &attr);
	if (err)
		return err;
	err = devpool_call_get_pool(call, &attr.pool, &member, &pool);
	if (err)
		return err;
	set = attr.flags & DEVPOOL_POOL_ATTR_SET;
	if (set && attr.attr == DEVPOOL_ATTR_RELEASE_THRESHOLD &&
	    pool->flags & DEVPOOL_POOL_STABLE) {
		err = -EINVAL;
		goto put_pool;
	}

	attr.out_value = set ? attr.value : devpool_pool_get_attr(pool, attr.attr);
	err = devpool_respond(call, &attr, offsetof(struct devpool_pool_attr, out_value),
			      sizeof(attr));
	if (!err && set)
		devpool_pool_set_attr(pool, attr.attr, attr.value);

put_pool:
	devpool_call_put_pool(call, member);
	return err;
}

static int devpool_cmd_empty_cache(struct devpool_call *call)
{
	struct devpool_emptied emptied = {};
	struct devpool_empty_cache empty;
	struct devpool_member *member;
	struct devpool_pool *pool;
	int err;

	err = devpool_fetch(call, &empty, sizeof(empty));
	if (err)
		return err;
	if (empty.flags & ~(DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL |
			    DEVPOOL_EMPTY_RELEASE))
		return -EOPNOTSUPP;
	if (empty.__reserved)
		return -EINVAL;
	if (empty.flags & DEVPOOL_EMPTY_RELEASE && !call->pool)
		return -EINVAL;
	err = devpool_call_get_pool(call, &empty.pool, &member, &pool);
	if (err)
		return err;

	if (call->client && devpool_id_is_none(&empty.pool))
		devpool_client_empty(call->client,
				     empty.flags & DEVPOOL_EMPTY_KEEP_PHYSICAL,
				     empty.timeout, empty.keep, &emptied);
	else
		err = devpool_pool_empty(pool, empty.flags, empty.timeout, empty.keep,
					 &emptied);
	devpool_call_put_pool(call, member);
	if (err)
		return err;

	empty.out_freed = emptied.freed;
	empty.out_kept = emptied.kept;
	empty.out_pending = emptied.pending;
	empty.out_live = emptied.live;
	empty.out_state = emptied.state;
	return devpool_respond(call, &empty,
			       offsetof(struct devpool_empty_cache, out_freed),
			       sizeof(empty));
}

static int devpool_validate_route(const struct devpool_pool_id *id, u32 flags, u32 scope,
				  u32 stream)
{
	if (flags || scope > DEVPOOL_SCOPE_ALL)
		return -EOPNOTSUPP;
	if (devpool_id_is_none(id) || (stream && scope != DEVPOOL_SCOPE_STREAM))
		return -EINVAL;
	return 0;
}

static int devpool_cmd_route_begin(struct devpool_call *call)
{
	struct devpool_route_begin arg;
	struct devpool_stream *stream;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	err = devpool_validate_route(&arg.pool, arg.flags, arg.scope, arg.stream);
	if (err)
		return err;
	err = devpool_call_get_stream(call, arg.stream, &stream);
	if (err)
		return err;
	err = devpool_route_begin(call->client, &arg.pool, arg.scope, stream);
	devpool_call_put_stream(stream);
	return err;
}

static int devpool_cmd_route_end(struct devpool_call *call)
{
	struct devpool_stream *stream;
	struct devpool_route_end arg;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	err = devpool_validate_route(&arg.pool, arg.flags, arg.scope, arg.stream);
	if (err)
		return err;
	err = devpool_call_get_stream(call, arg.stream, &stream);
	if (err)
		return err;
	err = devpool_route_end(call->client, &arg.pool, arg.scope, stream);
	devpool_call_put_stream(stream);
	return err;
}

static int devpool_cmd_stream_create(struct devpool_call *call)
{
	struct devpool_client *client = call->client;
	struct devpool_stream_create arg;
	struct devpool_stream *stream;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags & ~DEVPOOL_STREAM_FENCED)
		return -EOPNOTSUPP;
	if (arg.__reserved)
		return -EINVAL;
	stream = devpool_stream_create(client, arg.flags);
	if (!stream)
		return -ENOMEM;
	err = devpool_client_count_stream(client, &arg.out_stream);
	if (err)
		goto put_stream;
	err = devpool_respond(call, &arg,
			      offsetof(struct devpool_stream_create, out_stream),
			      sizeof(arg));
	if (err)
		goto uncount;
	devpool_client_add_stream(client, arg.out_stream, stream);
	return 0;

uncount:
	devpool_client_uncount_stream(client, arg.out_stream);
put_stream:
	devpool_stream_put(stream);
	return err;
}

static int devpool_cmd_stream_destroy(struct devpool_call *call)
{
	struct devpool_stream_destroy arg;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags)
		return -EOPNOTSUPP;
	if (arg.__reserved)
		return -EINVAL;
	return devpool_client_end_stream(call->client, arg.stream);
}

static int devpool_validate_submit(const struct devpool_stream_submit *submit,
				   const struct devpool_stream *stream)
{
	bool has_fence = submit->flags & DEVPOOL_SUBMIT_FENCE_IN;

	/* User space makes no fences. */
	if (!stream->fenced && submit->flags & DEVPOOL_SUBMIT_FENCE_OUT)
		return -EOPNOTSUPP;
	if (has_fence != stream->fenced)
		return -EINVAL;
	return 0;
}

/*
 * The answer says which point it is before there is one, and nothing is locked
 * meanwhile: who is second does it again.
 */
static int devpool_cmd_stream_submit(struct devpool_call *call)
{
	struct devpool_submission submission;
	struct devpool_stream_submit submit;
	struct devpool_stream *stream;
	int err;

	err = devpool_fetch(call, &submit, sizeof(submit));
	if (err)
		return err;
	if (submit.flags & ~(DEVPOOL_SUBMIT_FENCE_IN | DEVPOOL_SUBMIT_FENCE_OUT))
		return -EOPNOTSUPP;
	if (submit.__reserved ||
	    (submit.in_fence && !(submit.flags & DEVPOOL_SUBMIT_FENCE_IN)))
		return -EINVAL;
	stream = devpool_client_get_stream(call->client, submit.stream);
	if (!stream)
		return -ENOENT;
	err = devpool_validate_submit(&submit, stream);
	if (err)
		goto put_stream;
	err = devpool_submission_begin(&submission, stream, submit.flags,
				       submit.in_fence);
	if (err)
		goto put_stream;
	do {
		err = devpool_submission_prepare(&submission);
		if (err)
			break;
		submit.out_point = submission.number;
		submit.out_fence = submission.out_fd;
		err = devpool_respond(call, &submit,
				      offsetof(struct devpool_stream_submit, out_point),
				      sizeof(submit));
	} while (!err && !devpool_submission_commit(&submission));
	if (err)
		devpool_submission_cancel(&submission);
put_stream:
	devpool_stream_put(stream);
	return err;
}

static int devpool_cmd_stream_signal(struct devpool_call *call)
{
	struct devpool_stream_signal arg;
	struct devpool_stream *stream;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags)
		return -EOPNOTSUPP;
	if (arg.__reserved)
		return -EINVAL;
	stream = devpool_client_get_stream(call->client, arg.stream);
	if (!stream)
		return -ENOENT;
	err = devpool_stream_signal(stream, arg.point);
	devpool_stream_put(stream);
	return err;
}

static int devpool_validate_export(const struct devpool_call *call,
				   const struct devpool_export *export)
{
	if (export->flags || export->fd_flags & ~(O_ACCMODE | O_CLOEXEC) ||
	    !call->device->backend->pfn)
		return -EOPNOTSUPP;
	if ((export->fd_flags & O_ACCMODE) == O_ACCMODE)
		return -EINVAL;
	/* A dma-buf is no way around what mmap() of the file refuses. */
	return OPEN_FMODE(export->fd_flags) & ~call->mode ? -EACCES : 0;
}

static int devpool_cmd_export(struct devpool_call *call)
{
	struct devpool_export export;
	struct dma_buf *buf;
	int fd, err;

	err = devpool_fetch(call, &export, sizeof(export));
	if (err)
		return err;
	err = devpool_validate_export(call, &export);
	if (err)
		return err;
	fd = get_unused_fd_flags(export.fd_flags & O_CLOEXEC);
	if (fd < 0)
		return fd;
	err = devpool_client_export_block(call->client, export.addr,
					  export.fd_flags & O_ACCMODE, &buf);
	if (err)
		goto put_fd;
	export.out_fd = fd;
	err = devpool_respond(call, &export, offsetof(struct devpool_export, out_fd),
			      sizeof(export));
	if (err)
		goto put_buf;
	/* The descriptor gets the reference. */
	fd_install(fd, buf->file);
	return 0;

put_buf:
	dma_buf_put(buf);
put_fd:
	put_unused_fd(fd);
	return err;
}

static int devpool_cmd_stats(struct devpool_call *call)
{
	struct devpool_stats stats;
	struct devpool_tally tally;
	u64 pending;
	int err;

	err = devpool_fetch(call, &stats, sizeof(stats));
	if (err)
		return err;
	if (stats.flags & ~DEVPOOL_STATS_DEVICE)
		return -EOPNOTSUPP;
	if (stats.flags & DEVPOOL_STATS_DEVICE) {
		if (!capable(CAP_SYS_ADMIN))
			return -EPERM;
		devpool_device_tally(call->device, &tally);
	} else {
		devpool_client_tally(call->client, &tally, &pending);
	}
	devpool_set_tally(&stats, offsetof(struct devpool_stats, out_allocated), &tally);
	return devpool_respond(call, &stats,
			       offsetof(struct devpool_stats, out_allocated),
			       sizeof(stats));
}

/* What a call can tell at a time: a bound on what it holds the pool's lock for. */
#define DEVPOOL_SNAPSHOT_MAX 16384U

static int devpool_cmd_snapshot(struct devpool_call *call)
{
	struct devpool_snapshot_entry *entries;
	struct devpool_member *member = NULL;
	struct devpool_pool *pool = NULL;
	struct devpool_snapshot arg;
	bool everybody;
	u32 nr;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags & ~DEVPOOL_SNAPSHOT_DEVICE)
		return -EOPNOTSUPP;
	everybody = arg.flags & DEVPOOL_SNAPSHOT_DEVICE;
	if (!arg.count || (everybody && !devpool_id_is_none(&arg.pool)))
		return -EINVAL;
	if (everybody && !capable(CAP_SYS_ADMIN))
		return -EPERM;
	if (!devpool_id_is_none(&arg.pool)) {
		member = devpool_client_get_member(call->client, &arg.pool);
		if (!member)
			return -ENOENT;
		pool = member->pool;
	}

	err = -ENOMEM;
	nr = min(arg.count, DEVPOOL_SNAPSHOT_MAX);
	entries = kvcalloc(nr, sizeof(*entries), GFP_KERNEL_ACCOUNT);
	if (!entries)
		goto put_member;
	err = devpool_snapshot(call->client, pool, everybody, &arg.cursor, entries, nr,
			       &arg.out_count);
	arg.out_cursor = arg.cursor;
	if (!err && copy_to_user(u64_to_user_ptr(arg.array), entries,
				 array_size(arg.out_count, sizeof(*entries))))
		err = -EFAULT;
	kvfree(entries);
	if (!err)
		err = devpool_respond(call, &arg,
				      offsetof(struct devpool_snapshot, out_count),
				      sizeof(arg));
put_member:
	devpool_call_put_pool(call, member);
	return err;
}

static int devpool_cmd_limit(struct devpool_call *call)
{
	struct devpool_limit arg;
	u64 bytes;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags)
		return -EOPNOTSUPP;
	err = devpool_round_up(arg.bytes, devpool_chunk_size(call->device), &bytes);
	if (err)
		return err;
	devpool_client_set_limit(call->client,
				 bytes ? bytes >> call->device->chunk_shift : U64_MAX);
	return 0;
}

/**
 * struct devpool_command - one row of the table of commands
 * @min_size: size of the struct as it was when the command came
 * @on_device: it is a command on a device file
 * @on_pool: it is a command on a pool file
 * @run: carries it out
 */
struct devpool_command {
	unsigned int min_size;
	bool on_device;
	bool on_pool;
	int (*run)(struct devpool_call *call);
};

#define DEVPOOL_COMMAND(_cmd, _run, _struct, _last, _on_device, _on_pool)	\
	[_cmd] = {								\
		.min_size = offsetofend(struct _struct, _last),			\
		.on_device = _on_device,					\
		.on_pool = _on_pool,						\
		.run = _run,							\
	}

static const struct devpool_command devpool_commands[] = {
	DEVPOOL_COMMAND(DEVPOOL_CMD_INFO, devpool_cmd_info, devpool_info,
			out_max_batch, true, true),
	DEVPOOL_COMMAND(DEVPOOL_CMD_ALLOC, devpool_cmd_alloc, devpool_alloc,
			out_bytes, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_FREE, devpool_cmd_free, devpool_free,
			addr, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_BATCH, devpool_cmd_batch, devpool_batch,
			__reserved, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_RETAIN, devpool_cmd_retain, devpool_retain,
			addr, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_RECORD, devpool_cmd_record, devpool_record,
			__reserved, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_POOL_ID, devpool_cmd_pool_id, devpool_pool_id_new,
			out_pool, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_POOL_CREATE, devpool_cmd_pool_create,
			devpool_pool_create, __reserved, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_POOL_GET, devpool_cmd_pool_get, devpool_pool_get,
			out_pool, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_POOL_PUT, devpool_cmd_pool_put, devpool_pool_put,
			__reserved, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_POOL_ATTR, devpool_cmd_pool_attr, devpool_pool_attr,
			out_value, true, true),
	DEVPOOL_COMMAND(DEVPOOL_CMD_POOL_STAT, devpool_cmd_pool_stat,
			devpool_pool_stat, out_zeroed_bytes, true, true),
	DEVPOOL_COMMAND(DEVPOOL_CMD_EMPTY_CACHE, devpool_cmd_empty_cache,
			devpool_empty_cache, __reserved, true, true),
	DEVPOOL_COMMAND(DEVPOOL_CMD_ROUTE_BEGIN, devpool_cmd_route_begin,
			devpool_route_begin, stream, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_ROUTE_END, devpool_cmd_route_end,
			devpool_route_end, stream, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_STREAM_CREATE, devpool_cmd_stream_create,
			devpool_stream_create, __reserved, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_STREAM_DESTROY, devpool_cmd_stream_destroy,
			devpool_stream_destroy, __reserved, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_STREAM_SUBMIT, devpool_cmd_stream_submit,
			devpool_stream_submit, __reserved, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_STREAM_SIGNAL, devpool_cmd_stream_signal,
			devpool_stream_signal, point, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_EXPORT, devpool_cmd_export, devpool_export,
			out_fd, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_STATS, devpool_cmd_stats, devpool_stats,
			out_zeroed_bytes, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_SNAPSHOT, devpool_cmd_snapshot, devpool_snapshot,
			out_cursor, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_LIMIT, devpool_cmd_limit, devpool_limit,
			bytes, true, false),
};

static __always_inline long devpool_ioctl(struct devpool_call *call,
					  unsigned int cmd)
{
	unsigned int nr = cmd - _IO(DEVPOOL_TYPE, 0);
	const struct devpool_command *command;

	/* Another type, a direction or a size make this a large number. */
	if (nr >= ARRAY_SIZE(devpool_commands))
		return -ENOTTY;
	nr = array_index_nospec(nr, ARRAY_SIZE(devpool_commands));
	command = &devpool_commands[nr];
	/* A number without a command is one on no kind of file. */
	if (!(call->client ? command->on_device : command->on_pool))
		return -ENOTTY;
	if (call->pool && !READ_ONCE(call->pool->file_open))
		return -ENOENT;

	if (get_user(call->user_size, (u32 __user *)call->user))
		return -EFAULT;
	if (call->user_size > PAGE_SIZE)
		return -E2BIG;
	if (call->user_size < command->min_size)
		return -EINVAL;
	return command->run(call);
}

/**
 * devpool_client_ioctl - ioctl() on a device file
 * @file: the file
 * @cmd: DEVPOOL_IOC_*
 * @arg: the caller's struct
 *
 * Context: may sleep, no lock held.
 * Return: 0 or what uapi/linux/devpool.h says.
 */
long devpool_client_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct devpool_client *client = file->private_data;
	struct devpool_call call = {
		.client = client,
		.device = client->device,
		.mode = file->f_mode,
		.user = (void __user *)arg,
	};

	return devpool_ioctl(&call, cmd);
}

/**
 * devpool_pool_ioctl - ioctl() on a pool file
 * @file: the file
 * @cmd: DEVPOOL_IOC_*
 * @arg: the caller's struct
 *
 * Context: may sleep, no lock held.
 * Return: 0 or what uapi/linux/devpool.h says.
 */
long devpool_pool_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct devpool_pool *pool = file->private_data;
	struct devpool_call call = {
		.pool = pool,
		.device = pool->device,
		.mode = file->f_mode,
		.user = (void __user *)arg,
	};

	return devpool_ioctl(&call, cmd);
}
