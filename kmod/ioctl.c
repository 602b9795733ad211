// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ABI: argument structs in, checks, answers out.
 *
 * Each command validates all of its struct before it takes anything, and copies
 * its answer out before it publishes what it made.
 */
#include <linux/anon_inodes.h>
#include <linux/build_bug.h>
#include <linux/err.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "compat.h"
#include "private.h"

/* The layouts are the ABI, on 32 bit too. */
static_assert(sizeof(struct devpool_pool_id) == 16);
static_assert(sizeof(struct devpool_counter) == 32);
static_assert(sizeof(struct devpool_info) == 96);
static_assert(offsetof(struct devpool_info, out_backend) == 56);
static_assert(sizeof(struct devpool_alloc) == 80);
static_assert(offsetof(struct devpool_alloc, out_addr) == 64);
static_assert(sizeof(struct devpool_free) == 16);
static_assert(sizeof(struct devpool_pool_create) == 72);
static_assert(offsetof(struct devpool_pool_create, out_pool) == 48);
static_assert(sizeof(struct devpool_pool_stat) == 296);
static_assert(offsetof(struct devpool_pool_stat, out_allocated) == 32);
static_assert(sizeof(struct devpool_empty_cache) == 80);
static_assert(offsetof(struct devpool_empty_cache, out_freed) == 40);
static_assert(sizeof(struct devpool_stats) == 272);

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
 * @user: the caller's struct
 * @user_size: its size as the caller has it, at least that of the command's first
 *	version and at most a page
 */
struct devpool_call {
	struct devpool_client *client;
	struct devpool_pool *pool;
	struct devpool_device *device;
	void __user *user;
	u32 user_size;
};

/*
 * Copies the caller's struct in; what the caller left out is zero. Inline, so
 * that the size of the common case is a constant, which costs a third less.
 */
static __always_inline int devpool_fetch(const struct devpool_call *call, void *arg,
					 size_t size)
{
	if (unlikely(call->user_size != size))
		return copy_struct_from_user(arg, size, call->user, call->user_size);
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
	return copy_to_user(to, arg + at, size - at) ? -EFAULT : 0;
}

/* The members that both kinds of statistics end with, from @at on. */
static void devpool_set_tally(void *arg, size_t at, const struct devpool_tally *tally)
{
	memcpy(arg + at, tally, sizeof(*tally));
}

static bool is_no_pool(const struct devpool_pool_id *id)
{
	return !id->first && !id->second;
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
		.out_max_pools = devpool_max_pools,
		.out_max_blocks = devpool_max_blocks,
	};
	if (device->backend->pfn) {
		info.out_features |= DEVPOOL_FEATURE_MMAP;
		if (DEVPOOL_HUGE_MAP)
			info.out_features |= DEVPOOL_FEATURE_HUGE_MAP;
	}
	strscpy(info.out_backend, device->backend->name, sizeof(info.out_backend));
	return devpool_respond(call, &info, offsetof(struct devpool_info, out_bytes),
			       sizeof(info));
}

static int devpool_validate_alloc(const struct devpool_device *device,
				  const struct devpool_alloc *alloc, u64 *size,
				  u64 *align)
{
	u64 granule = DEVPOOL_SMALL_GRANULE;

	if (alloc->flags || alloc->user_addr)
		return -EOPNOTSUPP;
	if (alloc->__reserved || !alloc->bytes)
		return -EINVAL;
	if (alloc->align && (!is_power_of_2(alloc->align) ||
			     alloc->align > devpool_chunk_size(device)))
		return -EINVAL;
	if (alloc->bytes > DEVPOOL_SMALL_MAX)
		granule = PAGE_SIZE;
	if (alloc->bytes > U64_MAX - (granule - 1))
		return -EINVAL;
	*size = ALIGN(alloc->bytes, granule);
	*align = max(alloc->align, granule);
	if (alloc->stream)
		return -ENOENT;
	return 0;
}

static int devpool_cmd_alloc(struct devpool_call *call)
{
	struct devpool_alloc __user *user = call->user;
	struct devpool_client *client = call->client;
	struct devpool_member *member;
	struct devpool_block *block;
	struct devpool_alloc alloc;
	u64 size, align;
	int err;

	err = devpool_fetch(call, &alloc, sizeof(alloc));
	if (err)
		return err;
	err = devpool_validate_alloc(call->device, &alloc, &size, &align);
	if (err)
		return err;
	member = devpool_client_get_member(client, &alloc.pool);
	if (!member)
		return -ENOENT;

	if (size > devpool_device_bytes(call->device)) {
		err = devpool_pool_refuse(member->pool, -ENOSPC);
		goto put_member;
	}
	if (!atomic_add_unless(&client->nr_blocks, 1, devpool_max_blocks)) {
		err = devpool_pool_refuse(member->pool, -EDQUOT);
		goto put_member;
	}
	err = devpool_pool_reserve(member, size, align, alloc.bytes, &block);
	if (err)
		goto uncount;

	if (put_user(block->addr, &user->out_addr) ||
	    put_user(block->size, &user->out_bytes)) {
		err = -EFAULT;
		devpool_pool_unreserve(member, block);
		goto uncount;
	}
	devpool_pool_publish(member, block);
	devpool_client_put_member(client, member);
	return 0;

uncount:
	atomic_dec(&client->nr_blocks);
put_member:
	devpool_client_put_member(client, member);
	return err;
}

static int devpool_cmd_free(struct devpool_call *call)
{
	struct devpool_free arg;
	int err;

	err = devpool_fetch(call, &arg, sizeof(arg));
	if (err)
		return err;
	if (arg.flags)
		return -EOPNOTSUPP;
	return devpool_client_free_block(call->client, arg.addr);
}

/* The pool's number among those that a client may have at a time. */
static int devpool_count_pool(struct devpool_client *client, int n)
{
	int err = 0;

	spin_lock(&client->lock);
	if (n > 0 && client->nr_pools >= devpool_max_pools)
		err = -EDQUOT;
	else
		client->nr_pools += n;
	spin_unlock(&client->lock);
	return err;
}

/*
 * Reserves first what can fail: the number, the place in the client's table, the
 * descriptor, the file, the answer. Then the pool is put where it can be found.
 */
static int devpool_cmd_pool_create(struct devpool_call *call)
{
	struct devpool_client *client = call->client;
	struct devpool_pool_create create;
	struct devpool_member *member;
	struct devpool_pool_id id;
	struct file *file;
	int fd, err;

	err = devpool_fetch(call, &create, sizeof(create));
	if (err)
		return err;
	if (create.flags || create.limit || create.reserve ||
	    create.release_threshold)
		return -EOPNOTSUPP;
	if (create.__reserved)
		return -EINVAL;

	err = devpool_count_pool(client, 1);
	if (err)
		return err;
	id = create.pool;
	if (is_no_pool(&id))
		err = devpool_client_mint(client, &id);
	else
		err = devpool_client_check_minted(client, &id);
	if (err)
		goto uncount;

	/* Holds the number's place, so that the id is created only once. */
	err = xa_insert(&client->members, devpool_id_count(&id), NULL,
			GFP_KERNEL_ACCOUNT);
	if (err)
		goto uncount;
	member = devpool_pool_create(client, &id);
	if (!member) {
		err = -ENOMEM;
		goto release_place;
	}
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
	/* The use count of 1 is the file's, and a reference on the struct. */
	devpool_pool_get(member->pool);
	member->pool->file_open = true;
	atomic_inc(&call->device->nr_pools);

	create.out_pool = id;
	create.out_fd = fd;
	err = devpool_respond(call, &create,
			      offsetof(struct devpool_pool_create, out_pool),
			      sizeof(create));
	if (err) {
		/* Its last close takes all of it back, the place included. */
		fput(file);
		put_unused_fd(fd);
		return err;
	}
	xa_store(&client->members, devpool_id_count(&id), member, 0);
	fd_install(fd, file);
	return 0;

put_fd:
	put_unused_fd(fd);
put_member:
	kref_put(&member->ref, devpool_member_release);
release_place:
	xa_release(&client->members, devpool_id_count(&id));
uncount:
	devpool_count_pool(client, -1);
	return err;
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
		return is_no_pool(id) ? 0 : -EINVAL;

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
	int err;

	err = devpool_fetch(call, &stat, sizeof(stat));
	if (err)
		return err;
	if (stat.flags)
		return -EOPNOTSUPP;
	err = devpool_call_get_pool(call, &stat.pool, &member, &pool);
	if (err)
		return err;
	devpool_pool_tally(pool, &tally, &stat.out_use_count, &stat.out_state);
	devpool_call_put_pool(call, member);
	if (stat.out_state == DEVPOOL_STATE_GONE)
		return -ENOENT;
	devpool_set_tally(&stat, offsetof(struct devpool_pool_stat, out_allocated),
			  &tally);
	return devpool_respond(call, &stat,
			       offsetof(struct devpool_pool_stat, out_use_count),
			       sizeof(stat));
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
	if (empty.flags & ~(DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_RELEASE))
		return -EOPNOTSUPP;
	if (empty.__reserved)
		return -EINVAL;
	if (empty.flags & DEVPOOL_EMPTY_RELEASE && !call->pool)
		return -EINVAL;
	err = devpool_call_get_pool(call, &empty.pool, &member, &pool);
	if (err)
		return err;

	if (call->client && is_no_pool(&empty.pool))
		devpool_client_empty(call->client, empty.keep, &emptied);
	else
		err = devpool_pool_empty(pool, empty.flags, empty.keep, &emptied);
	devpool_call_put_pool(call, member);
	if (err)
		return err;

	empty.out_freed = emptied.freed;
	empty.out_kept = emptied.kept;
	/* Nothing is pending where there are no streams. */
	empty.out_pending = 0;
	empty.out_live = emptied.live;
	empty.out_state = emptied.state;
	return devpool_respond(call, &empty,
			       offsetof(struct devpool_empty_cache, out_freed),
			       sizeof(empty));
}

static int devpool_cmd_stats(struct devpool_call *call)
{
	struct devpool_stats stats;
	struct devpool_tally tally;
	int err;

	err = devpool_fetch(call, &stats, sizeof(stats));
	if (err)
		return err;
	if (stats.flags)
		return -EOPNOTSUPP;
	devpool_client_tally(call->client, &tally);
	devpool_set_tally(&stats, offsetof(struct devpool_stats, out_allocated), &tally);
	return devpool_respond(call, &stats,
			       offsetof(struct devpool_stats, out_allocated),
			       sizeof(stats));
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
	DEVPOOL_COMMAND(DEVPOOL_CMD_POOL_CREATE, devpool_cmd_pool_create,
			devpool_pool_create, __reserved, true, false),
	DEVPOOL_COMMAND(DEVPOOL_CMD_POOL_STAT, devpool_cmd_pool_stat,
			devpool_pool_stat, out_zeroed_bytes, true, true),
	DEVPOOL_COMMAND(DEVPOOL_CMD_EMPTY_CACHE, devpool_cmd_empty_cache,
			devpool_empty_cache, __reserved, true, true),
	DEVPOOL_COMMAND(DEVPOOL_CMD_STATS, devpool_cmd_stats, devpool_stats,
			out_zeroed_bytes, true, false),
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
		.user = (void __user *)arg,
	};

	return devpool_ioctl(&call, cmd);
}
