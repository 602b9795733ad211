/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What differs between the supported kernels, 6.1 to 6.12.
 */
#ifndef DEVPOOL_COMPAT_H
#define DEVPOOL_COMPAT_H

#include <linux/device.h>
#include <linux/mm.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "devpool needs Linux 6.1 or newer"
#endif

/* Caches of our own, so that slabinfo tells what is whose; from 6.5 on. */
#ifdef SLAB_NO_MERGE
#define DEVPOOL_SLAB_FLAGS SLAB_NO_MERGE
#else
#define DEVPOOL_SLAB_FLAGS 0
#endif

/*
 * For a struct that is filled at once and which the compiler is not to zero before,
 * from 6.12 on. Those who have a use for it are on the path of a hit.
 */
#ifndef __uninitialized
#if __has_attribute(__uninitialized__)
#define __uninitialized __attribute__((__uninitialized__))
#else
#define __uninitialized
#endif
#endif

/* Shrinkers are allocated, and have their owner's data, from 6.7 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 7, 0)
struct devpool_shrinker {
	struct shrinker shrinker;
	void *data;
};

static inline void *devpool_shrinker_data(struct shrinker *shrinker)
{
	return container_of(shrinker, struct devpool_shrinker, shrinker)->data;
}

static inline int devpool_shrinker_register(struct devpool_shrinker *shrinker,
					    const struct shrinker *from,
					    const char *name, void *data)
{
	shrinker->shrinker = *from;
	shrinker->data = data;
	return register_shrinker(&shrinker->shrinker, "%s", name);
}

static inline void devpool_shrinker_unregister(struct devpool_shrinker *shrinker)
{
	if (shrinker->data)
		unregister_shrinker(&shrinker->shrinker);
	shrinker->data = NULL;
}
#else
struct devpool_shrinker {
	struct shrinker *shrinker;
};

static inline void *devpool_shrinker_data(struct shrinker *shrinker)
{
	return shrinker->private_data;
}

static inline int devpool_shrinker_register(struct devpool_shrinker *shrinker,
					    const struct shrinker *from,
					    const char *name, void *data)
{
	shrinker->shrinker = shrinker_alloc(0, "%s", name);
	if (!shrinker->shrinker)
		return -ENOMEM;
	shrinker->shrinker->count_objects = from->count_objects;
	shrinker->shrinker->scan_objects = from->scan_objects;
	shrinker->shrinker->seeks = from->seeks;
	shrinker->shrinker->private_data = data;
	shrinker_register(shrinker->shrinker);
	return 0;
}

static inline void devpool_shrinker_unregister(struct devpool_shrinker *shrinker)
{
	/* Takes NULL. */
	shrinker_free(shrinker->shrinker);
	shrinker->shrinker = NULL;
}
#endif

/* Reclaim is told of pages by this function from 6.4 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
static inline void mm_account_reclaimed_pages(unsigned long pages)
{
	if (current->reclaim_state)
		current->reclaim_state->reclaimed_slab += pages;
}
#endif

/* vm_flags became read-only in 6.3. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_mod(struct vm_area_struct *vma, vm_flags_t set,
				vm_flags_t clear)
{
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
}
#endif

/* class_create() lost its module, and devnode() took a const, in 6.4 and 6.2. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0)
#define devpool_class_create(name) class_create(THIS_MODULE, name)
#else
#define devpool_class_create(name) class_create(name)
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define devpool_devnode_device struct device
#else
#define devpool_devnode_device const struct device
#endif

/*
 * Huge entries of page frames are safe where get_user_pages_fast() knows them
 * for what they are, which came with this symbol.
 */
#if defined(CONFIG_ARCH_SUPPORTS_HUGE_PFNMAP) && \
	defined(CONFIG_TRANSPARENT_HUGEPAGE)
#define DEVPOOL_HUGE_MAP 1
#include <linux/pfn_t.h>
#else
#define DEVPOOL_HUGE_MAP 0
#endif

#endif
