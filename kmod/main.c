// SPDX-License-Identifier: GPL-2.0-only
/*
 * devpool: a device's memory as reference-counted pools behind a character
 * device. A pool is a file descriptor. When its last reference goes, by close,
 * exit or a signal, exactly that pool's cache goes back to the device.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "private.h"

static char *sysmem;
module_param(sysmem, charp, 0444);
MODULE_PARM_DESC(sysmem, "sizes of devices of system memory, as in 256M,1G; empty for none; default one of a quarter of the memory");

static char *null;
module_param(null, charp, 0444);
MODULE_PARM_DESC(null, "sizes of devices without memory, as in 64T; default none");

static char *chunk = "2M";
module_param(chunk, charp, 0444);
MODULE_PARM_DESC(chunk, "chunk size, a power of two from the page size to 1G; default 2M");

static char *clean_target;
module_param(clean_target, charp, 0444);
MODULE_PARM_DESC(clean_target, "bytes that each device keeps zeroed; default a sixteenth of the device, at most 64M");

unsigned int devpool_max_pools = 65536;
module_param_named(max_pools, devpool_max_pools, uint, 0444);
MODULE_PARM_DESC(max_pools, "most pools that a client can have created at a time; default 65536");

unsigned int devpool_max_streams = 4096;
module_param_named(max_streams, devpool_max_streams, uint, 0444);
MODULE_PARM_DESC(max_streams, "most streams that a client can have at a time; default 4096");

unsigned int devpool_max_points = 65536;
module_param_named(max_points, devpool_max_points, uint, 0444);
MODULE_PARM_DESC(max_points, "most points of a stream that have not signalled; default 65536, of a fenced stream 4096");

unsigned int devpool_max_routes = 1024;
module_param_named(max_routes, devpool_max_routes, uint, 0444);
MODULE_PARM_DESC(max_routes, "most routes that a client can have at a time; default 1024");

unsigned int devpool_max_blocks = 4194304;
module_param_named(max_blocks, devpool_max_blocks, uint, 0444);
MODULE_PARM_DESC(max_blocks, "most blocks that a client can hold at a time; default 4194304");

/* Zeroes dirty chunks of all devices when there is nothing better to do. */
struct kthread_worker *devpool_scrubber;

#define DEVPOOL_CLEAN_DEFAULT_MAX (64ULL << 20)

/* What clean_target says, if it is given. */
static u64 devpool_clean_target;

/* Like memparse(), but strict: a decimal number, a suffix or none, in 64 bits. */
static int devpool_parse_size(const char *name, const char *text, u64 *size)
{
	char number[24], unit[3] = "1";
	size_t len = strcspn(text, "KMGTPEkmgtpe");
	u64 factor;

	unit[1] = text[len];
	factor = memparse(unit, NULL);
	if (len < sizeof(number) && text[len + !!text[len]] == '\0') {
		strscpy(number, text, len + 1);
		if (!kstrtou64(number, 10, size) &&
		    !check_mul_overflow(*size, factor, size))
			return 0;
	}
	pr_err("%s: '%s' is not a size\n", name, text);
	return -EINVAL;
}

static int devpool_parse_chunk(unsigned int *chunk_shift)
{
	u64 size;
	int err;

	err = devpool_parse_size("chunk", chunk, &size);
	if (err)
		return err;
	if (!is_power_of_2(size) || size < PAGE_SIZE || size > DEVPOOL_CHUNK_MAX) {
		pr_err("chunk: '%s' is not a power of two from the page size to 1G\n",
		       chunk);
		return -EINVAL;
	}
	*chunk_shift = ilog2(size);
	return 0;
}

static int devpool_add_device(const char *name, const struct devpool_backend *backend,
			      u64 size, unsigned int chunk_shift)
{
	u64 clean = min(size / 16, DEVPOOL_CLEAN_DEFAULT_MAX);
	int err;

	if (!(size >> chunk_shift) || size > DEVPOOL_ADDR_END) {
		pr_err("%s: a device of %llu bytes %s\n", name, size,
		       size > DEVPOOL_ADDR_END ? "is larger than the address space" :
						 "has not one whole chunk");
		return -EINVAL;
	}
	if (clean_target)
		clean = devpool_clean_target;
	/* Where there is no memory there is nothing to keep. */
	if (!backend->pfn)
		clean = 0;
	err = devpool_device_make(backend, size, chunk_shift, clean);
	if (err)
		pr_err("%s: no device of %llu bytes: error %d\n", name, size, err);
	return err;
}

/* Adds a device for each size in a list, which may be empty. */
static int devpool_add_devices(const char *name, const char *list,
			       const struct devpool_backend *backend,
			       unsigned int chunk_shift, u64 available)
{
	char *copy, *rest, *text;
	u64 size, sum = 0;
	int err = 0;

	copy = kstrdup(list, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	rest = strim(copy);
	if (!*rest)
		rest = NULL;
	while (!err && (text = strsep(&rest, ","))) {
		err = devpool_parse_size(name, text, &size);
		if (err)
			break;
		if (size > available - sum) {
			pr_err("%s: '%s' is more than the machine's %llu bytes\n",
			       name, list, available);
			err = -EINVAL;
			break;
		}
		sum += size;
		err = devpool_add_device(name, backend, size, chunk_shift);
	}
	kfree(copy);
	return err;
}

static int devpool_add_all(void)
{
	u64 machine = (u64)totalram_pages() << PAGE_SHIFT;
	unsigned int chunk_shift;
	int err;

	if (devpool_max_blocks > INT_MAX) {
		pr_err("max_blocks: %u is more than %d\n", devpool_max_blocks, INT_MAX);
		return -EINVAL;
	}
	if (devpool_max_streams > INT_MAX) {
		pr_err("max_streams: %u is more than %d\n", devpool_max_streams, INT_MAX);
		return -EINVAL;
	}
	err = devpool_parse_chunk(&chunk_shift);
	if (err)
		return err;
	if (clean_target) {
		err = devpool_parse_size("clean_target", clean_target,
					 &devpool_clean_target);
		if (err)
			return err;
	}
	if (sysmem)
		err = devpool_add_devices("sysmem", sysmem, &devpool_sysmem_backend,
					  chunk_shift, machine);
	else
		err = devpool_add_device("sysmem", &devpool_sysmem_backend,
					 machine / 4, chunk_shift);
	if (!err && null)
		err = devpool_add_devices("null", null, &devpool_null_backend,
					  chunk_shift, U64_MAX);
	return err;
}

static int __init devpool_init(void)
{
	int err;

	err = devpool_chunk_cache_init();
	if (err)
		return err;
	err = devpool_pool_cache_init();
	if (err)
		goto chunk_cache_exit;
	err = devpool_reaper_init();
	if (err)
		goto pool_cache_exit;
	devpool_scrubber = kthread_create_worker(0, "devpool_scrub");
	if (IS_ERR(devpool_scrubber)) {
		err = PTR_ERR(devpool_scrubber);
		goto reaper_exit;
	}
	set_user_nice(devpool_scrubber->task, MAX_NICE);
	err = devpool_class_init();
	if (err)
		goto destroy_scrubber;
	devpool_debugfs_init();
	err = devpool_add_all();
	if (!err)
		err = devpool_devices_publish();
	if (err)
		goto remove_devices;
	return 0;

remove_devices:
	devpool_devices_remove();
	devpool_debugfs_exit();
	devpool_class_exit();
destroy_scrubber:
	kthread_destroy_worker(devpool_scrubber);
reaper_exit:
	devpool_reaper_exit();
pool_cache_exit:
	devpool_pool_cache_exit();
chunk_cache_exit:
	devpool_chunk_cache_exit();
	return err;
}

static void __exit devpool_exit(void)
{
	devpool_reaper_exit();
	devpool_devices_remove();
	devpool_debugfs_exit();
	devpool_class_exit();
	kthread_destroy_worker(devpool_scrubber);
	/* Structs that were freed after a grace period may use these caches. */
	rcu_barrier();
	devpool_pool_cache_exit();
	devpool_chunk_cache_exit();
}

module_init(devpool_init);
module_exit(devpool_exit);

MODULE_AUTHOR("devpool developers");
MODULE_DESCRIPTION("A device's memory as reference-counted pools");
MODULE_LICENSE("GPL");
MODULE_VERSION(DEVPOOL_VERSION);
