/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the KUnit suites share: numbers that are random and can be had again.
 */
#ifndef DEVPOOL_KUNIT_H
#define DEVPOOL_KUNIT_H

#include <linux/prandom.h>
#include <linux/types.h>

struct kunit;

extern unsigned int devpool_kunit_steps;

void devpool_kunit_seed(struct kunit *test, struct rnd_state *rnd, u32 part);
int devpool_kunit_supply_init(void);
void devpool_kunit_supply_exit(void);

/* A number below @end, which is not 0. */
static inline u32 devpool_kunit_below(struct rnd_state *rnd, u32 end)
{
	return prandom_u32_state(rnd) % end;
}

/* True once in @nr times. */
static inline bool devpool_kunit_once_in(struct rnd_state *rnd, u32 nr)
{
	return !devpool_kunit_below(rnd, nr);
}

#endif
