// SPDX-License-Identifier: GPL-2.0-only
/*
 * What sysmem does to a chunk's memory, beside a model: a chunk of units that lie
 * here and there in a run of pages. Between them lies what is not the chunk's.
 */
#include <kunit/test.h>
#include <linux/random.h>

#include "../backend/sysmem.c"
#include "kunit.h"

#define CHUNK_SHIFT (PAGE_SHIFT + 3)
#define CHUNK_SIZE (1UL << CHUNK_SHIFT)
#define REGION_SIZE (4 * CHUNK_SIZE)
#define MAX_UNITS (CHUNK_SIZE >> PAGE_SHIFT)

/**
 * struct sysmem_model - a chunk, and what is to be where
 * @chunk: the chunk
 * @start: what is there, in whole pages
 * @region: first of the pages
 * @expected: what is to be there
 * @buffer: for a copy
 * @slot: which part of the region each of the chunk's units is
 * @units: the same, for the chunk
 */
struct sysmem_model {
	struct devpool_chunk chunk;
	u8 *start;
	struct page *region;
	u8 *expected;
	u8 *buffer;
	unsigned int slot[MAX_UNITS];
	struct page *units[MAX_UNITS];
};

/* Where in the region a byte of the chunk is */
static unsigned long sysmem_place(const struct sysmem_model *model, u64 offset)
{
	unsigned int shift = model->chunk.shift;

	return ((unsigned long)model->slot[offset >> shift] << shift) +
	       (offset & ((1UL << shift) - 1));
}

/* Deals units of a size out, each another part of the region. */
static void sysmem_deal(struct sysmem_model *model, struct rnd_state *rnd,
			unsigned int shift)
{
	unsigned int nr = CHUNK_SIZE >> shift, slots = REGION_SIZE >> shift, i, j;

	model->chunk.shift = shift;
	model->chunk.memory = model->units;
	for (i = 0; i < nr; i++) {
		do {
			model->slot[i] = devpool_kunit_below(rnd, slots);
			for (j = 0; j < i && model->slot[j] != model->slot[i]; j++)
				;
		} while (j < i);
		model->units[i] = model->region + (model->slot[i] << (shift - PAGE_SHIFT));
	}
	if (nr == 1)
		model->chunk.memory = model->units[0];
	prandom_bytes_state(rnd, model->start, REGION_SIZE);
	memcpy(model->expected, model->start, REGION_SIZE);
}

static void sysmem_step(struct kunit *test, struct sysmem_model *model,
			struct rnd_state *rnd)
{
	u64 offset = devpool_kunit_below(rnd, CHUNK_SIZE / 512) * 512;
	u64 len = (1 + devpool_kunit_below(rnd, (CHUNK_SIZE - offset) / 512)) * 512;
	u64 i, run;

	switch (devpool_kunit_below(rnd, 4)) {
	case 0:
		devpool_sysmem_zero(&model->chunk, CHUNK_SHIFT, offset, len);
		for (i = 0; i < len; i++)
			model->expected[sysmem_place(model, offset + i)] = 0;
		break;
	case 1:
		prandom_bytes_state(rnd, model->buffer, len);
		devpool_sysmem_copy(&model->chunk, CHUNK_SHIFT, offset, model->buffer,
				    len, true);
		for (i = 0; i < len; i++)
			model->expected[sysmem_place(model, offset + i)] = model->buffer[i];
		break;
	case 2:
		devpool_sysmem_copy(&model->chunk, CHUNK_SHIFT, offset, model->buffer,
				    len, false);
		for (i = 0; i < len; i++)
			if (model->expected[sysmem_place(model, offset + i)] !=
			    model->buffer[i])
				break;
		KUNIT_EXPECT_EQ(test, i, len);
		break;
	default:
		offset = ALIGN_DOWN(offset, PAGE_SIZE);
		KUNIT_EXPECT_EQ(test,
				devpool_sysmem_pfn(&model->chunk, CHUNK_SHIFT, offset, &run),
				page_to_pfn(model->region) +
				(sysmem_place(model, offset) >> PAGE_SHIFT));
		KUNIT_EXPECT_EQ(test, run, (1ULL << model->chunk.shift) -
				(offset & ((1ULL << model->chunk.shift) - 1)));
		break;
	}
	KUNIT_ASSERT_EQ(test, memcmp(model->start, model->expected, REGION_SIZE), 0);
}

/* Units of every size, a chunk of one among them */
static void sysmem_random(struct kunit *test)
{
	unsigned int shift, step;
	struct sysmem_model *model;
	struct rnd_state rnd;

	model = kunit_kzalloc(test, sizeof(*model), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, model);
	model->expected = kunit_kmalloc(test, REGION_SIZE, GFP_KERNEL);
	model->buffer = kunit_kmalloc(test, CHUNK_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, model->expected);
	KUNIT_ASSERT_NOT_NULL(test, model->buffer);
	model->start = kunit_kmalloc(test, REGION_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, model->start);
	model->region = virt_to_page(model->start);

	devpool_kunit_seed(test, &rnd, 0);
	for (shift = PAGE_SHIFT; shift <= CHUNK_SHIFT; shift++) {
		for (step = 0; step < devpool_kunit_steps / 10; step++) {
			if (step % 16 == 0)
				sysmem_deal(model, &rnd, shift);
			sysmem_step(test, model, &rnd);
			cond_resched();
		}
	}
}

static struct kunit_case sysmem_kunit_cases[] = {
	KUNIT_CASE(sysmem_random),
	{}
};

static struct kunit_suite sysmem_kunit_suite = {
	.name = "devpool_sysmem",
	.test_cases = sysmem_kunit_cases,
};

kunit_test_suite(sysmem_kunit_suite);
