// SPDX-License-Identifier: GPL-2.0-only
/*
 * The supply of a device whose memory is of pages, counted, and as late, as
 * dirty and as scarce as a test wants it.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/jiffies.h>

#include "../chunk.c"
#include "kunit.h"

/* Nothing here takes a hundredth of that. */
#define SUPPLY_TIMEOUT (30 * HZ)
/* How long something has to be seen not to happen. */
#define SUPPLY_QUIET_MS 20
#define SUPPLY_THREADS 4

struct kthread_worker *devpool_scrubber;

/* The backend, which knows no device: there is one at a time. */
static struct {
	/* Chunks with memory, and calls. */
	atomic_t live;
	atomic_t takes;
	atomic_t zeroes;
	/* Counts down; the take that makes it 0 fails, with that error. */
	atomic_t fail_in;
	int error;
	/* Memory comes zeroed. */
	bool is_clean;
	/* The worker stops before it zeroes, and says so. */
	struct completion *gate;
	atomic_t at_gate;
	/* What is to be seen never. */
	atomic_t faults;
} memory;

/* Who has a chunk says so in each of its bytes. */
#define BYTE_NEW 0x5a

static int memory_take(struct devpool_chunk *chunk, unsigned int chunk_shift)
{
	atomic_inc(&memory.takes);
	if (atomic_dec_return(&memory.fail_in) == 0)
		return memory.error;
	chunk->memory = kmalloc(1UL << chunk_shift, GFP_KERNEL);
	if (!chunk->memory)
		return -ENOMEM;
	memset(chunk->memory, memory.is_clean ? 0 : BYTE_NEW, 1UL << chunk_shift);
	chunk->flags = memory.is_clean ? DEVPOOL_CHUNK_CLEAN : 0;
	atomic_inc(&memory.live);
	return 0;
}

static void memory_give(struct devpool_chunk *chunk, unsigned int chunk_shift)
{
	if (!list_empty(&chunk->link))
		atomic_inc(&memory.faults);
	kfree(chunk->memory);
	atomic_dec(&memory.live);
}

static void memory_zero(const struct devpool_chunk *chunk, unsigned int chunk_shift,
			u64 offset, u64 len)
{
	if (offset + len > 1UL << chunk_shift || !IS_ALIGNED(offset | len, 512))
		atomic_inc(&memory.faults);
	if (memory.gate && current == devpool_scrubber->task) {
		atomic_inc(&memory.at_gate);
		wait_for_completion(memory.gate);
	}
	memset(chunk->memory + offset, 0, len);
	atomic_inc(&memory.zeroes);
}

static unsigned long memory_pfn(const struct devpool_chunk *chunk, unsigned int chunk_shift,
				u64 offset, u64 *run)
{
	*run = (1UL << chunk_shift) - offset;
	return page_to_pfn(virt_to_page(chunk->memory + offset));
}

static const struct devpool_backend returning_backend = {
	.name = "kunit",
	.returns_memory = true,
	.take = memory_take,
	.give = memory_give,
	.zero = memory_zero,
	.pfn = memory_pfn,
};

static const struct devpool_backend keeping_backend = {
	.name = "kunit",
	.take = memory_take,
	.give = memory_give,
	.zero = memory_zero,
};

/* Somebody else, who asks once. */
struct requester {
	struct devpool_device *device;
	struct task_struct *task;
	struct completion done;
	u64 nr;
	/* The answer. */
	int err;
	u64 missing;
	struct list_head chunks;
};

struct supply {
	struct kunit *test;
	struct devpool_device device;
	/* What the test has taken. */
	struct list_head held;
	struct requester requesters[SUPPLY_THREADS];
	unsigned int nr_requesters;
};

static struct supply *supply_make(struct kunit *test, const struct devpool_backend *backend,
				  u64 nr_chunks, u64 clean_target)
{
	struct supply *supply = test->priv;

	supply->device.dev.init_name = "devpool_kunit";
	supply->device.backend = backend;
	supply->device.chunk_shift = PAGE_SHIFT;
	devpool_supply_init(&supply->device, nr_chunks, clean_target);
	return supply;
}

static int supply_take(struct supply *supply, u64 nr, u64 *missing)
{
	return devpool_supply_take(&supply->device, nr, &supply->held, missing);
}

/* Chunks out of those that the test holds, the last that it got first. */
static void supply_pick(struct supply *supply, u64 nr, struct list_head *chunks)
{
	while (nr--)
		list_move_tail(supply->held.prev, chunks);
}

/* The same for others: what has been announced comes. */
static void supply_bring(struct supply *supply, u64 nr)
{
	LIST_HEAD(chunks);

	supply_pick(supply, nr, &chunks);
	devpool_supply_put(&supply->device, &chunks);
	KUNIT_EXPECT_TRUE(supply->test, list_empty(&chunks));
}

static void supply_give_back(struct supply *supply, u64 nr)
{
	devpool_supply_announce(&supply->device, nr);
	supply_bring(supply, nr);
}

/* As an owner does who has written to a chunk. */
static void supply_soil(struct devpool_device *device, struct list_head *chunks, u8 byte)
{
	struct devpool_chunk *chunk;

	list_for_each_entry(chunk, chunks, link) {
		memset(chunk->memory, byte, devpool_chunk_size(device));
		chunk->flags &= ~DEVPOOL_CHUNK_CLEAN;
	}
}

static bool supply_is_all(struct devpool_device *device, struct list_head *chunks, u8 byte)
{
	struct devpool_chunk *chunk;

	list_for_each_entry(chunk, chunks, link)
		if (memchr_inv(chunk->memory, byte, devpool_chunk_size(device)))
			return false;
	return true;
}

static u64 supply_count(const struct list_head *chunks)
{
	const struct list_head *link;
	u64 nr = 0;

	list_for_each(link, chunks)
		nr++;
	return nr;
}

/* The books, when nothing is under way and others hold that many chunks. */
static void supply_check(struct supply *supply, u64 others)
{
	struct devpool_supply *books = &supply->device.supply;
	struct kunit *test = supply->test;
	struct devpool_chunk *chunk;
	u64 out = supply_count(&supply->held) + others;

	kthread_flush_worker(devpool_scrubber);
	KUNIT_EXPECT_EQ(test, books->nr_chunks - out, devpool_supply_free(&supply->device));
	KUNIT_EXPECT_EQ(test, supply_count(&books->clean), books->nr_clean);
	KUNIT_EXPECT_EQ(test, supply_count(&books->dirty), books->nr_dirty);
	KUNIT_EXPECT_EQ(test, out + books->nr_clean + books->nr_dirty, books->nr_made);
	KUNIT_EXPECT_EQ(test, atomic_read(&memory.live), books->nr_made);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&memory.faults));
	/* Nobody comes or goes. */
	KUNIT_EXPECT_FALSE(test, waitqueue_active(&books->arrived));
	if (supply->device.backend->returns_memory)
		KUNIT_EXPECT_LE(test, books->nr_clean + books->nr_dirty, books->clean_target);

	/* The worker has been through. */
	KUNIT_EXPECT_EQ(test, 0, books->nr_dirty);
	list_for_each_entry(chunk, &books->clean, link)
		KUNIT_EXPECT_TRUE(test, chunk->flags & DEVPOOL_CHUNK_CLEAN);
	KUNIT_EXPECT_TRUE(test, supply_is_all(&supply->device, &books->clean, 0));
}

/* The test holds nothing any more: all is there, and then nothing is. */
static void supply_end(struct supply *supply)
{
	struct kunit *test = supply->test;

	KUNIT_ASSERT_TRUE(test, list_empty(&supply->held));
	supply_check(supply, 0);
	KUNIT_ASSERT_EQ(test, supply->device.supply.nr_chunks,
			supply->device.supply.nr_free);
	KUNIT_ASSERT_EQ(test, atomic_read(&memory.live), supply->device.supply.nr_made);
	devpool_supply_exit(&supply->device);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&memory.live));
	KUNIT_EXPECT_EQ(test, 0, supply->device.supply.nr_made);
}

/*
 * Others
 */

static int requester_run(void *data)
{
	struct requester *requester = data;

	allow_signal(SIGKILL);
	requester->err = devpool_supply_take(requester->device, requester->nr,
					     &requester->chunks, &requester->missing);
	kthread_complete_and_exit(&requester->done, 0);
}

static struct requester *requester_start(struct supply *supply, u64 nr)
{
	struct requester *requester = &supply->requesters[supply->nr_requesters];
	struct task_struct *task;

	requester->device = &supply->device;
	requester->nr = nr;
	requester->missing = U64_MAX;
	INIT_LIST_HEAD(&requester->chunks);
	init_completion(&requester->done);
	task = kthread_create(requester_run, requester, "devpool_kunit");
	KUNIT_ASSERT_NOT_ERR_OR_NULL(supply->test, task);
	requester->task = get_task_struct(task);
	supply->nr_requesters++;
	wake_up_process(task);
	return requester;
}

/* It waits, and goes on waiting. */
static void requester_check_waits(struct supply *supply, struct requester *requester)
{
	unsigned long end = jiffies + SUPPLY_TIMEOUT;

	/* Asked again and again: no order is needed. */
	while (!waitqueue_active(&supply->device.supply.arrived)) {
		KUNIT_ASSERT_FALSE(supply->test, time_after(jiffies, end));
		usleep_range(500, 1000);
	}
	msleep(SUPPLY_QUIET_MS);
	KUNIT_ASSERT_FALSE(supply->test, completion_done(&requester->done));
}

/* The answer; what it got is the test's from now on. */
static int requester_wait(struct supply *supply, struct requester *requester)
{
	KUNIT_ASSERT_TRUE(supply->test,
			  wait_for_completion_timeout(&requester->done, SUPPLY_TIMEOUT));
	/* For the exit, which waits for it, too. */
	complete_all(&requester->done);
	KUNIT_EXPECT_EQ(supply->test, requester->err ? 0 : requester->nr,
			supply_count(&requester->chunks));
	list_splice_tail_init(&requester->chunks, &supply->held);
	return requester->err;
}

/*
 * The tests
 */

/* A request gets all that it asks for, or nothing, and takes nothing. */
static void chunk_all_or_nothing(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 8, 8);
	u64 missing = 77;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 0, &missing));
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 5, &missing));
	KUNIT_EXPECT_EQ(test, 77, missing);
	KUNIT_EXPECT_EQ(test, 5, supply_count(&supply->held));
	supply_check(supply, 0);

	KUNIT_EXPECT_EQ(test, -ENOSPC, supply_take(supply, 4, &missing));
	KUNIT_EXPECT_EQ(test, 1, missing);
	KUNIT_EXPECT_EQ(test, -ENOSPC, supply_take(supply, U64_MAX, &missing));
	KUNIT_EXPECT_EQ(test, U64_MAX - 3, missing);
	KUNIT_EXPECT_EQ(test, 5, supply_count(&supply->held));
	KUNIT_EXPECT_EQ(test, 5, atomic_read(&memory.takes));
	supply_check(supply, 0);

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 3, &missing));
	KUNIT_EXPECT_EQ(test, 0, devpool_supply_free(&supply->device));
	KUNIT_EXPECT_EQ(test, -ENOSPC, supply_take(supply, 1, &missing));
	KUNIT_EXPECT_EQ(test, 1, missing);
	supply_check(supply, 0);

	supply_give_back(supply, 8);
	supply_end(supply);
}

/* Memory is made when it is asked for, and used again before more is made. */
static void chunk_uses_the_stock(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 8, 8);
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, atomic_read(&memory.takes));
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 3, &missing));
	supply_give_back(supply, 3);
	supply_check(supply, 0);
	KUNIT_EXPECT_EQ(test, 3, supply->device.supply.nr_clean);

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 4, &missing));
	KUNIT_EXPECT_EQ(test, 4, atomic_read(&memory.takes));
	KUNIT_EXPECT_EQ(test, 0, supply->device.supply.nr_clean);
	supply_give_back(supply, 4);
	supply_end(supply);
}

/* What is announced is free before it is there. */
static void chunk_announce(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 4, 4);
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 4, &missing));
	devpool_supply_announce(&supply->device, 3);
	KUNIT_EXPECT_EQ(test, 3, devpool_supply_free(&supply->device));
	KUNIT_EXPECT_EQ(test, -ENOSPC, supply_take(supply, 4, &missing));
	KUNIT_EXPECT_EQ(test, 1, missing);
	supply_bring(supply, 3);
	KUNIT_EXPECT_EQ(test, 3, devpool_supply_free(&supply->device));
	supply_check(supply, 0);
	supply_give_back(supply, 1);
	supply_end(supply);
}

/* Whatever was in a chunk, the next owner finds zero, and it is zeroed once. */
static void chunk_comes_zero(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 4, 4);
	struct devpool_device *device = &supply->device;
	u64 missing;

	/* As new: the caller zeroes it. */
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 2, &missing));
	KUNIT_EXPECT_EQ(test, 2 * PAGE_SIZE, devpool_chunks_clean(device, &supply->held));
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&memory.zeroes));
	KUNIT_EXPECT_TRUE(test, supply_is_all(device, &supply->held, 0));
	KUNIT_EXPECT_EQ(test, 0, devpool_chunks_clean(device, &supply->held));
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&memory.zeroes));

	/* Written to, back and taken again: the worker has done it. */
	supply_soil(device, &supply->held, 0xff);
	supply_give_back(supply, 2);
	supply_check(supply, 0);
	KUNIT_EXPECT_EQ(test, 4, atomic_read(&memory.zeroes));
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 2, &missing));
	KUNIT_EXPECT_EQ(test, 0, devpool_chunks_clean(device, &supply->held));
	KUNIT_EXPECT_TRUE(test, supply_is_all(device, &supply->held, 0));

	/* Back as it came: there is nothing to do. */
	supply_give_back(supply, 2);
	supply_check(supply, 0);
	KUNIT_EXPECT_EQ(test, 4, atomic_read(&memory.zeroes));

	/* Memory that comes zeroed is not zeroed. */
	memory.is_clean = true;
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 4, &missing));
	KUNIT_EXPECT_EQ(test, 0, devpool_chunks_clean(device, &supply->held));
	KUNIT_EXPECT_TRUE(test, supply_is_all(device, &supply->held, 0));
	supply_give_back(supply, 4);
	supply_end(supply);
}

/* Beyond the target memory goes back, dirty or clean; below it, it stays. */
static void chunk_clean_target(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 8, 3);
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 6, &missing));
	supply_soil(&supply->device, &supply->held, 0xff);
	supply_give_back(supply, 2);
	supply_check(supply, 0);
	KUNIT_EXPECT_EQ(test, 2, supply->device.supply.nr_clean);
	KUNIT_EXPECT_EQ(test, 6, atomic_read(&memory.live));
	supply_give_back(supply, 4);
	supply_check(supply, 0);
	KUNIT_EXPECT_EQ(test, 3, supply->device.supply.nr_clean);
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&memory.live));
	/* What went at once was not zeroed before. */
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&memory.zeroes));

	memory.is_clean = true;
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 8, &missing));
	KUNIT_EXPECT_EQ(test, 8, atomic_read(&memory.live));
	supply_give_back(supply, 8);
	supply_check(supply, 0);
	KUNIT_EXPECT_EQ(test, 3, supply->device.supply.nr_clean);
	supply_end(supply);
}

/* Where memory cannot go back all of it stays, and is zeroed, whatever the target. */
static void chunk_keeps_memory(struct kunit *test)
{
	struct supply *supply = supply_make(test, &keeping_backend, 6, 1);
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 6, &missing));
	supply_soil(&supply->device, &supply->held, 0xff);
	supply_give_back(supply, 6);
	supply_check(supply, 0);
	KUNIT_EXPECT_EQ(test, 6, supply->device.supply.nr_clean);
	KUNIT_EXPECT_EQ(test, 6, atomic_read(&memory.live));
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 6, &missing));
	KUNIT_EXPECT_EQ(test, 6, atomic_read(&memory.takes));
	supply_give_back(supply, 6);
	supply_end(supply);
	KUNIT_EXPECT_EQ(test, 0, atomic_read(&memory.live));
}

/* A trim leaves what it is told to, and where memory cannot go back, all. */
static void chunk_trim(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 8, 8);
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 6, &missing));
	supply_give_back(supply, 5);
	supply_check(supply, 0);
	devpool_supply_trim(&supply->device, 5);
	KUNIT_EXPECT_EQ(test, 5, supply->device.supply.nr_clean);
	devpool_supply_trim(&supply->device, 2);
	KUNIT_EXPECT_EQ(test, 2, supply->device.supply.nr_clean);
	supply_check(supply, 0);
	devpool_supply_trim(&supply->device, 0);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&memory.live));
	supply_check(supply, 0);
	supply_give_back(supply, 1);
	supply_end(supply);

	supply_make(test, &keeping_backend, 8, 0);
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 6, &missing));
	supply_give_back(supply, 6);
	devpool_supply_trim(&supply->device, 0);
	KUNIT_EXPECT_EQ(test, 6, atomic_read(&memory.live));
	supply_end(supply);
}

/* Stops the worker with the first chunk that it is going to zero. */
static void gate_close(struct completion *gate)
{
	init_completion(gate);
	atomic_set(&memory.at_gate, 0);
	memory.gate = gate;
}

static void gate_wait(struct supply *supply, int nr)
{
	unsigned long end = jiffies + SUPPLY_TIMEOUT;

	while (atomic_read(&memory.at_gate) < nr) {
		KUNIT_ASSERT_FALSE(supply->test, time_after(jiffies, end));
		usleep_range(500, 1000);
	}
}

static void gate_open(struct completion *gate)
{
	complete_all(gate);
	kthread_flush_worker(devpool_scrubber);
	memory.gate = NULL;
}

/* Clean ones go out first, then dirty ones, then the one that is being zeroed. */
static void chunk_clean_first(struct kunit *test)
{
	struct supply *supply = supply_make(test, &keeping_backend, 3, 3);
	struct devpool_supply *books = &supply->device.supply;
	struct devpool_chunk *clean, *dirty;
	struct requester *requester;
	struct completion gate;
	LIST_HEAD(chunks);
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 3, &missing));
	clean = list_first_entry(&supply->held, struct devpool_chunk, link);
	list_move(&clean->link, &chunks);
	devpool_chunks_clean(&supply->device, &chunks);
	list_splice_init(&chunks, &supply->held);

	gate_close(&gate);
	supply_give_back(supply, 1);
	gate_wait(supply, 1);
	supply_give_back(supply, 2);
	KUNIT_EXPECT_EQ(test, 1, books->nr_clean);
	KUNIT_EXPECT_EQ(test, 1, books->nr_dirty);
	dirty = list_first_entry(&books->dirty, struct devpool_chunk, link);
	KUNIT_EXPECT_EQ(test, 3, devpool_supply_free(&supply->device));

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 1, &missing));
	KUNIT_EXPECT_PTR_EQ(test, &clean->link, supply->held.prev);
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 1, &missing));
	KUNIT_EXPECT_PTR_EQ(test, &dirty->link, supply->held.prev);
	requester = requester_start(supply, 1);
	requester_check_waits(supply, requester);
	gate_open(&gate);
	KUNIT_EXPECT_EQ(test, 0, requester_wait(supply, requester));
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&memory.takes));
	supply_give_back(supply, 3);
	supply_end(supply);
}

/* The worker gives back what the stock does not need any more when it is clean. */
static void chunk_worker_gives_back(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 4, 1);
	struct completion gate;
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 2, &missing));
	gate_close(&gate);
	supply_give_back(supply, 1);
	gate_wait(supply, 1);
	/* The stock is empty: this one is kept. */
	supply_give_back(supply, 1);
	KUNIT_EXPECT_EQ(test, 1, supply->device.supply.nr_dirty);
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&memory.live));
	gate_open(&gate);
	supply_check(supply, 0);
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&memory.live));
	KUNIT_EXPECT_EQ(test, 1, supply->device.supply.nr_clean);
	supply_end(supply);
}

/* Where the machine is short of memory the stock is what it may have. */
static void chunk_shrinks(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 8, 8);
	struct devpool_supply *books = &supply->device.supply;
	struct shrink_control sc = { .gfp_mask = GFP_KERNEL };
	struct shrinker *shrinker;
	struct completion gate;
	u64 missing;

	KUNIT_ASSERT_EQ(test, 0, devpool_supply_make_shrinkable(&supply->device));
	shrinker = books->shrinker.shrinker;
	KUNIT_ASSERT_NOT_NULL(test, shrinker);

	KUNIT_EXPECT_EQ(test, SHRINK_EMPTY, devpool_shrinker_count(shrinker, &sc));
	sc.nr_to_scan = 4;
	KUNIT_EXPECT_EQ(test, SHRINK_STOP, devpool_shrinker_scan(shrinker, &sc));

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 6, &missing));
	gate_close(&gate);
	supply_give_back(supply, 1);
	gate_wait(supply, 1);
	supply_give_back(supply, 4);
	KUNIT_EXPECT_EQ(test, 4, books->nr_dirty);
	KUNIT_EXPECT_EQ(test, 4, devpool_shrinker_count(shrinker, &sc));

	sc.nr_to_scan = 3;
	KUNIT_EXPECT_EQ(test, 3, devpool_shrinker_scan(shrinker, &sc));
	KUNIT_EXPECT_EQ(test, 3, sc.nr_scanned);
	KUNIT_EXPECT_EQ(test, 1, books->nr_dirty);
	KUNIT_EXPECT_EQ(test, 3, books->nr_made);
	KUNIT_EXPECT_EQ(test, 3, atomic_read(&memory.live));
	gate_open(&gate);
	supply_check(supply, 0);

	/* It does not wait for who has the lock. */
	spin_lock(&books->lock);
	KUNIT_EXPECT_EQ(test, SHRINK_STOP, devpool_shrinker_scan(shrinker, &sc));
	spin_unlock(&books->lock);
	sc.nr_to_scan = 100;
	KUNIT_EXPECT_EQ(test, 2, devpool_shrinker_scan(shrinker, &sc));
	KUNIT_EXPECT_EQ(test, 1, atomic_read(&memory.live));
	supply_give_back(supply, 1);
	supply_end(supply);

	/* What is no memory of the machine's, or cannot go back, it gets no hold of. */
	supply_make(test, &keeping_backend, 8, 8);
	KUNIT_EXPECT_EQ(test, 0, devpool_supply_make_shrinkable(&supply->device));
	KUNIT_EXPECT_NULL(test, books->shrinker.shrinker);
	supply_end(supply);
}

/* Whatever ails a backend, it is want of memory to who asks; the log has it once. */
static void chunk_backend_fault(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 4, 4);
	u64 missing;

	atomic_set(&memory.fail_in, 2);
	KUNIT_EXPECT_EQ(test, -ENOMEM, supply_take(supply, 2, &missing));
	KUNIT_EXPECT_EQ(test, 0, supply->device.supply.faults);
	supply_check(supply, 0);

	memory.error = -EIO;
	atomic_set(&memory.fail_in, 1);
	KUNIT_EXPECT_EQ(test, -ENOMEM, supply_take(supply, 2, &missing));
	KUNIT_EXPECT_EQ(test, BIT(DEVPOOL_FAULT_TAKE), supply->device.supply.faults);
	supply_check(supply, 0);
	atomic_set(&memory.fail_in, 0);
	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 2, &missing));
	supply_give_back(supply, 2);
	supply_end(supply);
}

/* Short of memory at the n-th chunk: all is as it was, but for a fuller stock. */
static void chunk_enomem(struct kunit *test)
{
	static const u64 targets[] = { 0, 8 };
	struct supply *supply;
	unsigned int i, nth;
	u64 missing, stock;
	int err;

	for (i = 0; i < ARRAY_SIZE(targets); i++) {
		for (nth = 1; ; nth++) {
			supply = supply_make(test, &returning_backend, 8, targets[i]);
			KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 3, &missing));
			supply_give_back(supply, 2);
			kthread_flush_worker(devpool_scrubber);
			stock = supply->device.supply.nr_clean;
			missing = 0;

			atomic_set(&memory.fail_in, nth);
			err = supply_take(supply, 6, &missing);
			atomic_set(&memory.fail_in, 0);
			if (!err)
				break;
			KUNIT_EXPECT_EQ(test, -ENOMEM, err);
			KUNIT_EXPECT_EQ(test, 6, missing);
			KUNIT_EXPECT_EQ(test, 1, supply_count(&supply->held));
			supply_check(supply, 0);
			KUNIT_EXPECT_EQ(test, min(targets[i], stock + nth - 1),
					supply->device.supply.nr_clean);
			supply_give_back(supply, 1);
			supply_end(supply);
		}
		/* As many as had to be made. */
		KUNIT_EXPECT_EQ(test, 6 - stock, nth - 1);
		supply_give_back(supply, 7);
		supply_end(supply);
	}
}

/* Who was promised chunks that are on their way waits for them, however they come. */
static void chunk_waits_for_announced(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 4, 4);
	struct requester *requester;
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 4, &missing));
	devpool_supply_announce(&supply->device, 3);
	requester = requester_start(supply, 2);
	requester_check_waits(supply, requester);
	/* The promise is kept: there is one more, and not two. */
	KUNIT_EXPECT_EQ(test, 1, devpool_supply_free(&supply->device));
	KUNIT_EXPECT_EQ(test, -ENOSPC, supply_take(supply, 2, &missing));
	KUNIT_EXPECT_EQ(test, 1, missing);

	supply_bring(supply, 1);
	requester_check_waits(supply, requester);
	supply_bring(supply, 2);
	KUNIT_EXPECT_EQ(test, 0, requester_wait(supply, requester));
	KUNIT_EXPECT_EQ(test, 3, supply_count(&supply->held));
	supply_check(supply, 0);
	supply_give_back(supply, 3);
	supply_end(supply);
}

/* What comes back may go on to the backend: then the one who waits makes its own. */
static void chunk_waits_for_room(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 2, 0);
	struct requester *requester;
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 2, &missing));
	devpool_supply_announce(&supply->device, 2);
	requester = requester_start(supply, 2);
	requester_check_waits(supply, requester);
	supply_bring(supply, 2);
	KUNIT_EXPECT_EQ(test, 0, requester_wait(supply, requester));
	KUNIT_EXPECT_EQ(test, 4, atomic_read(&memory.takes));
	KUNIT_EXPECT_EQ(test, 2, atomic_read(&memory.live));
	supply_give_back(supply, 2);
	supply_end(supply);
}

/* Nobody is left with half of what was promised: each gets all, one after another. */
static void chunk_waiters_all_get_theirs(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 8, 8);
	unsigned int i;
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 8, &missing));
	devpool_supply_announce(&supply->device, 8);
	for (i = 0; i < SUPPLY_THREADS; i++)
		requester_start(supply, 2);
	requester_check_waits(supply, &supply->requesters[0]);
	for (i = 0; i < 8; i++) {
		supply_bring(supply, 1);
		usleep_range(500, 1000);
	}
	for (i = 0; i < SUPPLY_THREADS; i++)
		KUNIT_EXPECT_EQ(test, 0, requester_wait(supply, &supply->requesters[i]));
	KUNIT_EXPECT_EQ(test, 8, supply_count(&supply->held));
	supply_check(supply, 0);
	supply_give_back(supply, 8);
	supply_end(supply);
}

/* A kill ends the wait, and what the request had goes back. */
static void chunk_wait_is_killable(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 4, 4);
	struct requester *requester;
	u64 missing;

	KUNIT_EXPECT_EQ(test, 0, supply_take(supply, 4, &missing));
	devpool_supply_announce(&supply->device, 3);
	supply_bring(supply, 1);
	requester = requester_start(supply, 3);
	requester_check_waits(supply, requester);
	KUNIT_EXPECT_EQ(test, 0, devpool_supply_free(&supply->device));
	send_sig(SIGKILL, requester->task, 1);
	KUNIT_EXPECT_EQ(test, -EINTR, requester_wait(supply, requester));
	KUNIT_EXPECT_EQ(test, 3, requester->missing);
	KUNIT_EXPECT_EQ(test, 3, devpool_supply_free(&supply->device));

	supply_bring(supply, 2);
	supply_check(supply, 0);
	supply_give_back(supply, 1);
	supply_end(supply);
}

/* Who is dying already takes nothing, though there is enough. */
static void chunk_dying_gets_nothing(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 4, 4);
	LIST_HEAD(chunks);
	u64 missing = 0;
	int err;

	allow_signal(SIGKILL);
	send_sig(SIGKILL, current, 1);
	err = devpool_supply_take(&supply->device, 3, &chunks, &missing);
	flush_signals(current);
	disallow_signal(SIGKILL);
	KUNIT_EXPECT_EQ(test, -EINTR, err);
	KUNIT_EXPECT_EQ(test, 3, missing);
	KUNIT_EXPECT_TRUE(test, list_empty(&chunks));
	supply_check(supply, 0);
	supply_end(supply);
}

/*
 * Many at once, with too few chunks for all, a backend that fails at times, and
 * owners who write to what they have and look whether it stays.
 */
struct owner {
	struct supply *supply;
	struct task_struct *task;
	struct completion done;
	struct rnd_state rnd;
	u8 byte;
	unsigned int steps;
	unsigned int got;
	unsigned int refused;
};

static void owner_take(struct owner *owner, struct list_head *held)
{
	struct devpool_device *device = &owner->supply->device;
	u64 missing = 0, nr = 1 + devpool_kunit_below(&owner->rnd, 3);
	LIST_HEAD(chunks);
	int err;

	if (devpool_kunit_once_in(&owner->rnd, 16))
		atomic_set(&memory.fail_in, 1);
	err = devpool_supply_take(device, nr, &chunks, &missing);
	if (err) {
		owner->refused++;
		if ((err != -ENOSPC && err != -ENOMEM) || !missing || missing > nr ||
		    !list_empty(&chunks))
			atomic_inc(&memory.faults);
		return;
	}
	owner->got++;
	devpool_chunks_clean(device, &chunks);
	if (supply_count(&chunks) != nr || !supply_is_all(device, &chunks, 0))
		atomic_inc(&memory.faults);
	supply_soil(device, &chunks, owner->byte);
	list_splice_tail(&chunks, held);
}

static void owner_give(struct owner *owner, struct list_head *held, u64 nr)
{
	struct devpool_device *device = &owner->supply->device;
	LIST_HEAD(chunks);
	u64 i;

	for (i = 0; i < nr && !list_empty(held); i++)
		list_move(held->next, &chunks);
	if (!supply_is_all(device, &chunks, owner->byte))
		atomic_inc(&memory.faults);
	devpool_supply_announce(device, i);
	if (devpool_kunit_once_in(&owner->rnd, 4))
		usleep_range(1, 100);
	devpool_supply_put(device, &chunks);
}

static int owner_run(void *data)
{
	struct owner *owner = data;
	LIST_HEAD(held);

	allow_signal(SIGKILL);
	while (owner->steps && !fatal_signal_pending(current)) {
		owner->steps--;
		if (devpool_kunit_once_in(&owner->rnd, 2))
			owner_take(owner, &held);
		else
			owner_give(owner, &held, devpool_kunit_below(&owner->rnd, 5));
		cond_resched();
	}
	owner_give(owner, &held, U64_MAX);
	kthread_complete_and_exit(&owner->done, 0);
}

static void chunk_random(struct kunit *test)
{
	struct supply *supply = supply_make(test, &returning_backend, 6, 3);
	unsigned int i, got = 0, refused = 0;
	struct task_struct *task;
	struct rnd_state rnd;
	bool in_time = true;
	struct owner *owners;

	devpool_kunit_seed(test, &rnd, 0);
	owners = kunit_kcalloc(test, SUPPLY_THREADS, sizeof(*owners), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, owners);
	for (i = 0; i < SUPPLY_THREADS; i++) {
		struct owner *owner = &owners[i];

		owner->supply = supply;
		owner->byte = i + 1;
		owner->steps = devpool_kunit_steps;
		prandom_seed_state(&owner->rnd, prandom_u32_state(&rnd));
		init_completion(&owner->done);
		task = kthread_create(owner_run, owner, "devpool_kunit");
		if (IS_ERR(task))
			break;
		owner->task = get_task_struct(task);
		wake_up_process(task);
	}
	KUNIT_EXPECT_EQ(test, SUPPLY_THREADS, i);
	while (i--) {
		/* A wake-up that was lost is no reason to stay here for ever. */
		if (!wait_for_completion_timeout(&owners[i].done, SUPPLY_TIMEOUT)) {
			in_time = false;
			send_sig(SIGKILL, owners[i].task, 1);
			wait_for_completion(&owners[i].done);
		}
		put_task_struct(owners[i].task);
		got += owners[i].got;
		refused += owners[i].refused;
	}
	KUNIT_EXPECT_TRUE(test, in_time);
	KUNIT_EXPECT_GT(test, got, 0);
	KUNIT_EXPECT_GT(test, refused, 0);
	atomic_set(&memory.fail_in, 0);
	supply_end(supply);
}

/*
 * The suite
 */

static int chunk_kunit_init(struct kunit *test)
{
	struct supply *supply = kunit_kzalloc(test, sizeof(*supply), GFP_KERNEL);

	if (!supply)
		return -ENOMEM;
	memset(&memory, 0, sizeof(memory));
	memory.error = -ENOMEM;
	supply->test = test;
	INIT_LIST_HEAD(&supply->held);
	test->priv = supply;
	return 0;
}

/* Of a test that failed: memory goes without a look at the books. */
static void supply_salvage(struct list_head *chunks)
{
	struct devpool_chunk *chunk, *next;

	list_for_each_entry_safe(chunk, next, chunks, link) {
		list_del_init(&chunk->link);
		memory_give(chunk, PAGE_SHIFT);
		kmem_cache_free(devpool_chunk_cache, chunk);
	}
}

static void chunk_kunit_exit(struct kunit *test)
{
	struct supply *supply = test->priv;
	unsigned int i;

	if (!supply->device.backend)
		return;
	if (memory.gate)
		gate_open(memory.gate);
	/* Who waits still is to have what it wants, and to end. */
	atomic_set(&memory.fail_in, 0);
	supply->device.supply.nr_chunks = U64_MAX;
	wake_up_all(&supply->device.supply.arrived);
	for (i = 0; i < supply->nr_requesters; i++) {
		struct requester *requester = &supply->requesters[i];

		wait_for_completion(&requester->done);
		put_task_struct(requester->task);
		supply_salvage(&requester->chunks);
	}
	kthread_flush_worker(devpool_scrubber);
	supply_salvage(&supply->held);
	supply_salvage(&supply->device.supply.clean);
	supply_salvage(&supply->device.supply.dirty);
}

/**
 * devpool_kunit_supply_init - what supplies share
 *
 * The cache has a name of its own, for devpool.ko may be loaded beside this one.
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int devpool_kunit_supply_init(void)
{
	devpool_chunk_cache = kmem_cache_create("devpool_kunit_chunk",
						sizeof(struct devpool_chunk), 0,
						DEVPOOL_SLAB_FLAGS, NULL);
	if (!devpool_chunk_cache)
		return -ENOMEM;
	devpool_scrubber = kthread_create_worker(0, "devpool_kunit");
	if (IS_ERR(devpool_scrubber)) {
		devpool_chunk_cache_exit();
		return PTR_ERR(devpool_scrubber);
	}
	return 0;
}

/**
 * devpool_kunit_supply_exit - undoes devpool_kunit_supply_init()
 *
 * Context: may sleep; there is no supply.
 */
void devpool_kunit_supply_exit(void)
{
	kthread_destroy_worker(devpool_scrubber);
	devpool_chunk_cache_exit();
}

static int chunk_kunit_suite_init(struct kunit_suite *suite)
{
	return devpool_kunit_supply_init();
}

static void chunk_kunit_suite_exit(struct kunit_suite *suite)
{
	devpool_kunit_supply_exit();
}

static struct kunit_case chunk_kunit_cases[] = {
	KUNIT_CASE(chunk_all_or_nothing),
	KUNIT_CASE(chunk_uses_the_stock),
	KUNIT_CASE(chunk_announce),
	KUNIT_CASE(chunk_comes_zero),
	KUNIT_CASE(chunk_clean_target),
	KUNIT_CASE(chunk_keeps_memory),
	KUNIT_CASE(chunk_trim),
	KUNIT_CASE(chunk_clean_first),
	KUNIT_CASE(chunk_worker_gives_back),
	KUNIT_CASE(chunk_shrinks),
	KUNIT_CASE(chunk_backend_fault),
	KUNIT_CASE(chunk_enomem),
	KUNIT_CASE(chunk_waits_for_announced),
	KUNIT_CASE(chunk_waits_for_room),
	KUNIT_CASE(chunk_waiters_all_get_theirs),
	KUNIT_CASE(chunk_wait_is_killable),
	KUNIT_CASE(chunk_dying_gets_nothing),
	KUNIT_CASE_SLOW(chunk_random),
	{}
};

static struct kunit_suite chunk_kunit_suite = {
	.name = "devpool_chunk",
	.suite_init = chunk_kunit_suite_init,
	.suite_exit = chunk_kunit_suite_exit,
	.init = chunk_kunit_init,
	.exit = chunk_kunit_exit,
	.test_cases = chunk_kunit_cases,
};

kunit_test_suite(chunk_kunit_suite);
