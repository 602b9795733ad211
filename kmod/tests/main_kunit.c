// SPDX-License-Identifier: GPL-2.0-only
/*
 * devpool_kunit.ko: tests of the parts of devpool that need no device node.
 *
 * Each suite includes the source that it tests. So devpool.ko has no code and
 * exports no symbol for tests, and either module can be loaded without the
 * other.
 */
#include <kunit/test.h>
#include <linux/hash.h>
#include <linux/module.h>
#include <linux/random.h>

#include "kunit.h"

static unsigned int seed;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "where random numbers begin, as printed by an earlier run; default any");

unsigned int devpool_kunit_steps = 1000;
module_param_named(steps, devpool_kunit_steps, uint, 0444);
MODULE_PARM_DESC(steps, "operations of a random test; default 1000");

/**
 * devpool_kunit_seed - begins a series of random numbers
 * @test: the test, which says what the seed is
 * @rnd: the series
 * @part: tells series of the same seed apart
 *
 * Context: may sleep.
 */
void devpool_kunit_seed(struct kunit *test, struct rnd_state *rnd, u32 part)
{
	while (!seed)
		seed = get_random_u32();
	kunit_info(test, "seed=%u steps=%u", seed, devpool_kunit_steps);
	prandom_seed_state(rnd, hash_64((u64)seed << 32 | part, 64));
}

MODULE_DESCRIPTION("KUnit tests of devpool");
MODULE_LICENSE("GPL");
