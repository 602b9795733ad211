// SPDX-License-Identifier: GPL-2.0-only
/*
 * What helps to understand a device from inside: nothing that programs should rely
 * on. Failures are of no consequence.
 */
#include <linux/debugfs.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/seq_file.h>

#include "private.h"

static struct dentry *devpool_debugfs;

static void devpool_debugfs_pool(struct seq_file *m, struct devpool_pool *pool)
{
	unsigned int i;

	mutex_lock(&pool->lock);
	devpool_pool_unpark(pool);
	devpool_counter_update(&pool->tally.resident);
	seq_printf(m, "%llu:%llu client=%llu pid=%d comm=", pool->id.first, pool->id.second,
		   pool->creator->serial, pid_vnr(pool->creator->opener));
	seq_escape(m, pool->creator->comm, "\n\t\\ ");
	seq_printf(m, " state=%s use_count=%u flags=0x%x file=%d",
		   devpool_state_name(devpool_pool_state(pool)), pool->use_count,
		   pool->flags, pool->file_open);
	seq_printf(m, " blocks=%llu allocated=%llu resident=%llu peak_resident=%llu spare=%llu",
		   pool->tally.blocks.now, pool->tally.allocated.now,
		   pool->tally.resident.now, pool->tally.resident.peak,
		   pool->tally.spare.now);
	for (i = 0; i < ARRAY_SIZE(pool->arenas); i++) {
		const struct devpool_arena *arena = &pool->arenas[i];

		seq_printf(m, " %s: ranges=%lu resident=%lu returnable=%lu leaving=%lu stock=%lu",
			   i ? "large" : "small", arena->nr_ranges, arena->nr_resident,
			   arena->nr_returnable, arena->nr_leaving, arena->nr_stock);
	}
	seq_putc(m, '\n');
	mutex_unlock(&pool->lock);
}

/* A line for each pool; sizes in bytes, those of arenas in chunks. */
static int pools_show(struct seq_file *m, void *unused)
{
	struct devpool_device *device = m->private;
	struct devpool_pool *pool;
	u64 number = 0;

	while ((pool = devpool_device_next_pool(device, &number, 0))) {
		devpool_debugfs_pool(m, pool);
		devpool_pool_put(pool);
		cond_resched();
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(pools);

/**
 * devpool_debugfs_add - a device's directory
 * @device: the device, which has its name
 *
 * Context: may sleep.
 */
void devpool_debugfs_add(struct devpool_device *device)
{
	device->debugfs = debugfs_create_dir(dev_name(&device->dev), devpool_debugfs);
	debugfs_create_file("pools", 0400, device->debugfs, device, &pools_fops);
}

/**
 * devpool_debugfs_remove - undoes devpool_debugfs_add()
 * @device: the device
 *
 * Context: may sleep; waits for who is reading.
 */
void devpool_debugfs_remove(struct devpool_device *device)
{
	debugfs_remove(device->debugfs);
}

/**
 * devpool_debugfs_init - the module's directory
 *
 * Context: module load.
 */
void devpool_debugfs_init(void)
{
	devpool_debugfs = debugfs_create_dir("devpool", NULL);
}

/**
 * devpool_debugfs_exit - undoes devpool_debugfs_init()
 *
 * Context: module unload, all devices are gone.
 */
void devpool_debugfs_exit(void)
{
	debugfs_remove(devpool_debugfs);
}
