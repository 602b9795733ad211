// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pools and lanes between real arenas, streams and a real supply. Their client and
 * the addresses of their device are kept by the tests, which so see what no user
 * does: that each chunk's mappings went before the chunk did, that the accounts are
 * told of every chunk, and that a pool ends once.
 */
#include <kunit/test.h>

/* The events are those of devpool.ko, which may be loaded too. */
#define NOTRACE
#include "../lane.c"
#include "../pool.c"
#include "kunit.h"

#define POOL_CHUNK_SHIFT 16U
#define POOL_CHUNK (1ULL << POOL_CHUNK_SHIFT)
/* Too few for what the random test wants at a time. */
#define POOL_CHUNKS 96ULL
/* Multiples of the chunk, so that ranges are. */
#define POOL_FIRST_ADDR (1ULL << 26)
#define POOL_STREAMS 3U
#define POOL_AREAS 256U

unsigned int devpool_max_blocks = UINT_MAX;

/* What stands in a chunk, as its owner sees it. */
struct content {
	/* Where it can be seen: the address that it is mapped behind, 0 for none. */
	u64 mapped;
};

/*
 * Memory that somebody has or had: live, or free and waiting for points of streams,
 * or neither of them and unused.
 */
struct area {
	u64 addr;
	u64 size;
	u64 requested;
	bool live;
	/* Its stream, by index and one, 0 for the host. */
	u32 stream;
	/* The streams it was recorded on. */
	bool recorded[POOL_STREAMS];
	/* Free: the points that it waits for. */
	u64 open[POOL_STREAMS];
	/* Free, waiting for any: what stands behind its pieces. */
	struct devpool_chunk *chunks[2 + 2 * DEVPOOL_SMALL_MAX / POOL_CHUNK];
};

struct pools {
	struct kunit *test;
	struct devpool_device device;
	struct devpool_client client;
	struct devpool_pool *pool;
	struct devpool_member *member;
	struct devpool_stream *streams[POOL_STREAMS];
	struct area areas[POOL_AREAS];

	/* The client's accounts. */
	u64 limit;
	u64 reserved;
	u64 resident;
	u64 spare;
	/* What is known of the pool. */
	unsigned int nr_retired;
	bool is_known;
	bool client_freed;
	/* Addresses: the next ones, and how many ranges there are. */
	u64 next_addr;
	unsigned int nr_ranges;
	/* Counts down; the take that makes it 0 fails. */
	unsigned int fail_take_in;
	/* There are no addresses. */
	bool fail_deal;
	/* Chunks with memory. */
	unsigned int nr_live;
	/* What is to be seen never. */
	unsigned int faults;
};

/* There is one test at a time. */
static struct pools *pools;

/*
 * The backend
 */

static int content_take(struct devpool_chunk *chunk, unsigned int chunk_shift)
{
	struct content *content;

	if (pools->fail_take_in && !--pools->fail_take_in)
		return -ENOMEM;
	content = kzalloc(sizeof(*content), GFP_KERNEL);
	if (!content)
		return -ENOMEM;
	chunk->memory = content;
	chunk->flags = DEVPOOL_CHUNK_CLEAN;
	pools->nr_live++;
	return 0;
}

static void content_give(struct devpool_chunk *chunk, unsigned int chunk_shift)
{
	const struct content *content = chunk->memory;

	pools->faults += !!content->mapped;
	pools->nr_live--;
	kfree(content);
}

static void content_zero(const struct devpool_chunk *chunk, unsigned int chunk_shift,
			 u64 offset, u64 len)
{
	const struct content *content = chunk->memory;

	/* Of a block that is about to be handed out, or of the stock. */
	pools->faults += content->mapped && content->mapped != chunk->addr;
}

static const struct devpool_backend content_backend = {
	.name = "kunit",
	.returns_memory = true,
	.take = content_take,
	.give = content_give,
	.zero = content_zero,
};

/*
 * The device
 */

struct devpool_range *devpool_device_deal_range(struct devpool_device *device,
						struct devpool_pool *pool,
						struct devpool_arena *arena, u64 size)
{
	struct devpool_range *range;

	lockdep_assert_not_held(&pool->lock);
	if (pools->fail_deal)
		return ERR_PTR(-ENOSPC);
	range = kmalloc(sizeof(*range), GFP_KERNEL);
	if (!range)
		return ERR_PTR(-ENOMEM);
	size = ALIGN(max(size, 2 * DEVPOOL_SMALL_MAX), POOL_CHUNK);
	devpool_range_init(range, arena, pools->next_addr, size);
	range->pool = pool;
	/* A gap, so that nothing runs from the one into the other. */
	pools->next_addr += size + POOL_CHUNK;
	pools->nr_ranges++;
	return range;
}

void devpool_device_drop_range(struct devpool_device *device, struct devpool_range *range)
{
	pools->nr_ranges--;
	kfree(range);
}

void devpool_device_zap(struct devpool_device *device, struct list_head *chunks)
{
	struct devpool_chunk *chunk;
	struct content *content;

	lockdep_assert_not_held(&pools->pool->lock);
	list_for_each_entry(chunk, chunks, link) {
		content = chunk->memory;
		pools->faults += content->mapped && content->mapped != chunk->addr;
		content->mapped = 0;
	}
}

void devpool_device_add_pool(struct devpool_device *device, struct devpool_pool *pool)
{
	lockdep_assert_held(&pool->lock);
	pools->is_known = true;
}

void devpool_device_retire_pool(struct devpool_device *device, struct devpool_pool *pool,
				const struct devpool_tally *tally)
{
	lockdep_assert_held(&pool->lock);
	pools->faults += !pools->is_known || tally->resident.now || tally->spare.now ||
			 tally->active.now;
	pools->is_known = false;
}

u64 devpool_heap_held(struct devpool_device *device)
{
	return 0;
}

u64 devpool_heap_reclaim(struct devpool_device *device, const struct devpool_pool *requester,
			 u64 nr, struct list_head *chunks)
{
	return 0;
}

s64 devpool_heap_mark(const struct devpool_device *device)
{
	return 0;
}

bool devpool_heap_is_settled(const struct devpool_device *device, s64 mark)
{
	return true;
}

int devpool_heap_settle(struct devpool_device *device, s64 mark)
{
	return 0;
}

/*
 * The client
 */

int devpool_client_reserve(struct devpool_client *client, u64 nr, u64 *over)
{
	u64 sum = pools->reserved + pools->resident + pools->spare + nr;

	if (sum > pools->limit) {
		*over = sum - pools->limit;
		return -EDQUOT;
	}
	pools->reserved += nr;
	return 0;
}

static u64 *client_account(enum devpool_account account)
{
	switch (account) {
	case DEVPOOL_ACCOUNT_RESERVED:
		return &pools->reserved;
	case DEVPOOL_ACCOUNT_RESIDENT:
		return &pools->resident;
	case DEVPOOL_ACCOUNT_SPARE:
		return &pools->spare;
	default:
		return NULL;
	}
}

void devpool_client_move(struct devpool_client *client, enum devpool_account from,
			 enum devpool_account to, u64 nr)
{
	u64 *source = client_account(from), *target = client_account(to);

	if (source) {
		pools->faults += *source < nr;
		*source -= nr;
	}
	if (target)
		*target += nr;
}

u64 devpool_client_held(struct devpool_client *client)
{
	return pools->reserved + pools->resident + pools->spare;
}

u64 devpool_client_reclaim(struct devpool_client *client,
			   const struct devpool_pool *requester, u64 nr,
			   struct list_head *chunks)
{
	return 0;
}

bool devpool_client_awaits(struct devpool_client *client)
{
	return false;
}

struct devpool_stream *devpool_client_get_stream(struct devpool_client *client, u32 number)
{
	struct devpool_stream *stream;

	if (number > POOL_STREAMS)
		return NULL;
	stream = pools->streams[number - 1];
	if (stream)
		kref_get(&stream->ref);
	return stream;
}

struct devpool_member *devpool_client_add_member(struct devpool_client *client,
						 struct devpool_member *member)
{
	lockdep_assert_held(&member->pool->lock);
	if (pools->member)
		return pools->member;
	pools->member = member;
	return NULL;
}

void devpool_client_drop_member(struct devpool_client *client, struct devpool_member *member)
{
	lockdep_assert_held(&member->pool->lock);
	pools->faults += pools->member != member;
	pools->member = NULL;
	client->recent = NULL;
}

void devpool_client_retire_pool(struct devpool_client *client, const struct devpool_pool *pool,
				const struct devpool_tally *tally)
{
	lockdep_assert_held(&pool->lock);
	pools->nr_retired++;
}

void devpool_client_free(struct kref *ref)
{
	pools->client_freed = true;
}

/*
 * The files, which no test opens
 */

void devpool_pool_read(struct devpool_pool *pool, struct devpool_tally *tally)
{
	lockdep_assert_held(&pool->lock);
	*tally = pool->tally;
}

long devpool_pool_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	return -ENOTTY;
}

void devpool_pool_show_fdinfo(struct seq_file *m, struct file *file)
{
}

/*
 * A pool with a use count of 1. With a file this is the file's, without one POOL_GET's.
 */
static void pools_make(struct kunit *test, u32 flags, bool has_file)
{
	static const struct devpool_pool_id id = { .second = 2 };
	struct devpool_member *member;
	unsigned int i;

	pools->device.dev.init_name = "devpool_kunit";
	pools->device.backend = &content_backend;
	pools->device.chunk_shift = POOL_CHUNK_SHIFT;
	devpool_supply_init(&pools->device, POOL_CHUNKS, POOL_CHUNKS / 8);
	kref_init(&pools->client.ref);
	pools->client.device = &pools->device;
	pools->limit = U64_MAX;
	pools->next_addr = POOL_FIRST_ADDR;
	for (i = 0; i < POOL_STREAMS; i++) {
		pools->streams[i] = devpool_stream_create(&pools->client, 0);
		KUNIT_ASSERT_NOT_NULL(test, pools->streams[i]);
		pools->streams[i]->number = i + 1;
	}

	member = devpool_pool_create(&pools->client, &id, flags);
	KUNIT_ASSERT_NOT_NULL(test, member);
	pools->pool = member->pool;
	/* The test looks at what is gone, too. */
	devpool_pool_get(pools->pool);
	if (has_file) {
		pools->pool->file_open = true;
	} else {
		member->gets = 1;
		member->ties++;
	}
	KUNIT_ASSERT_EQ(test, 0, devpool_pool_add(member));
	KUNIT_EXPECT_TRUE(test, pools->is_known);
	KUNIT_EXPECT_PTR_EQ(test, member, pools->member);
}

static u32 pools_state(void)
{
	u32 state;

	mutex_lock(&pools->pool->lock);
	state = devpool_pool_state(pools->pool);
	mutex_unlock(&pools->pool->lock);
	return state;
}

static u64 pools_pending(void)
{
	u64 pending;

	devpool_pool_lock(pools->pool);
	pending = devpool_pool_pending(pools->pool);
	devpool_pool_unlock(pools->pool);
	return pending;
}

/*
 * Areas
 */

static bool area_is_used(const struct area *area)
{
	return area->size;
}

/* Waits for others than its own stream. */
static bool area_is_pending(const struct area *area)
{
	unsigned int i;

	for (i = 0; i < POOL_STREAMS; i++)
		if (i + 1 != area->stream && area->open[i] > pools->streams[i]->signalled)
			return true;
	return false;
}

static bool area_is_guarded(const struct area *area)
{
	return area->stream && area->open[area->stream - 1] >
			       pools->streams[area->stream - 1]->signalled;
}

static struct devpool_range *area_range(const struct area *area)
{
	struct devpool_range *range;
	unsigned int i;

	for (i = 0; i < DEVPOOL_NR_ARENAS; i++)
		list_for_each_entry(range, &pools->pool->arenas[i].ranges, link)
			if (area->addr - range->base < range->size)
				return range;
	return NULL;
}

static void area_visit_chunks(struct area *area,
			      void (*call)(struct area *area, unsigned int i,
					   struct devpool_chunk *chunk))
{
	struct devpool_range *range = area_range(area);
	u64 addr = ALIGN_DOWN(area->addr, POOL_CHUNK);
	unsigned int i = 0;

	for (; addr < area->addr + area->size; addr += POOL_CHUNK)
		call(area, i++, devpool_range_chunk(range, addr));
}

/* Its owner looks at it: it is there, and nobody else sees it. */
static void area_touch_chunk(struct area *area, unsigned int i, struct devpool_chunk *chunk)
{
	struct content *content;

	if (!chunk) {
		pools->faults++;
		return;
	}
	content = chunk->memory;
	pools->faults += content->mapped && content->mapped != chunk->addr;
	content->mapped = chunk->addr;
}

static void area_note_chunk(struct area *area, unsigned int i, struct devpool_chunk *chunk)
{
	area->chunks[i] = chunk;
}

static void area_check_chunk(struct area *area, unsigned int i, struct devpool_chunk *chunk)
{
	pools->faults += !chunk || area->chunks[i] != chunk;
}

static struct area *areas_find_unused(void)
{
	unsigned int i;

	for (i = 0; i < POOL_AREAS; i++)
		if (!area_is_used(&pools->areas[i]))
			return &pools->areas[i];
	return NULL;
}

static struct area *areas_find_live(u32 first)
{
	unsigned int i;

	for (i = 0; i < POOL_AREAS; i++) {
		struct area *area = &pools->areas[(first + i) % POOL_AREAS];

		if (area->live)
			return area;
	}
	return NULL;
}

/* May somebody on that stream have what is there? */
static bool areas_allow(const struct area *wanted)
{
	unsigned int i;

	for (i = 0; i < POOL_AREAS; i++) {
		const struct area *area = &pools->areas[i];

		if (area == wanted || !area_is_used(area) ||
		    area->addr >= wanted->addr + wanted->size ||
		    wanted->addr >= area->addr + area->size)
			continue;
		if (area->live || area_is_pending(area) ||
		    (area_is_guarded(area) && area->stream != wanted->stream))
			return false;
	}
	return true;
}

static void areas_forget_what_is_over(void)
{
	unsigned int i;

	for (i = 0; i < POOL_AREAS; i++) {
		struct area *area = &pools->areas[i];

		if (!area->live && area_is_used(area) && !area_is_pending(area) &&
		    !area_is_guarded(area))
			memset(area, 0, sizeof(*area));
	}
}

/*
 * Commands
 */

static int pools_alloc(struct kunit *test, u64 bytes, u64 align, u32 stream,
		       struct area **out)
{
	u64 granule = bytes > DEVPOOL_SMALL_MAX ? PAGE_SIZE : DEVPOOL_SMALL_GRANULE;
	struct devpool_request request = {
		.size = ALIGN(bytes, granule),
		.align = max(align, granule),
		.requested = bytes,
		.stream = stream,
	};
	struct area *area = areas_find_unused();
	struct devpool_block *block;
	int err;

	KUNIT_ASSERT_NOT_NULL(test, area);
	err = devpool_pool_reserve(pools->member, &request, &block);
	if (err)
		return err;
	*area = (struct area){
		.addr = block->addr,
		.size = block->size,
		.requested = bytes,
		.live = true,
		.stream = stream,
	};
	KUNIT_EXPECT_EQ(test, request.size, block->size);
	KUNIT_EXPECT_TRUE(test, IS_ALIGNED(block->addr, request.align));
	KUNIT_EXPECT_TRUE(test, areas_allow(area));
	area_visit_chunks(area, area_touch_chunk);
	devpool_pool_publish(pools->member, block);
	if (out)
		*out = area;
	return 0;
}

static void pools_free(struct kunit *test, struct area *area)
{
	u64 addr = area->addr;
	unsigned int i;

	area->live = false;
	for (i = 0; i < POOL_STREAMS; i++)
		if (area->recorded[i] || i + 1 == area->stream)
			area->open[i] = devpool_stream_last_open(pools->streams[i]);
	if (area_is_pending(area) || area_is_guarded(area))
		area_visit_chunks(area, area_note_chunk);
	KUNIT_EXPECT_EQ(test, 0, devpool_pool_free(area_range(area), &pools->client, addr));
}

static void pools_record(struct kunit *test, struct area *area, unsigned int i)
{
	KUNIT_EXPECT_EQ(test, 0, devpool_pool_record(area_range(area), &pools->client,
						     area->addr + area->size - 1,
						     pools->streams[i]));
	if (i + 1 != area->stream)
		area->recorded[i] = true;
}

static u64 pools_submit(struct kunit *test, unsigned int i)
{
	struct devpool_submission submission;

	KUNIT_EXPECT_EQ(test, 0, devpool_submission_begin(&submission, pools->streams[i], 0,
							  -1));
	KUNIT_EXPECT_EQ(test, 0, devpool_submission_prepare(&submission));
	KUNIT_EXPECT_TRUE(test, devpool_submission_commit(&submission));
	return submission.number;
}

static void pools_signal(struct kunit *test, unsigned int i, u64 point)
{
	KUNIT_EXPECT_EQ(test, 0, devpool_stream_signal(pools->streams[i], point));
}

static void pools_empty(struct kunit *test, u32 flags, u64 keep,
			struct devpool_emptied *emptied)
{
	*emptied = (struct devpool_emptied){};
	KUNIT_EXPECT_EQ(test, 0, devpool_pool_empty(pools->pool, flags, 0, keep, emptied));
}

/* Books and accounts, each counted on its own. */
static void pools_check(struct kunit *test)
{
	u64 allocated = 0, requested = 0, pending = 0, blocks = 0;
	struct devpool_pool *pool = pools->pool;
	struct devpool_tally *tally = &pool->tally;
	struct devpool_arena *arenas = pool->arenas;
	unsigned int i;

	/* What has been told of is reaped by that. */
	devpool_pool_lock(pool);
	for (i = 0; i < POOL_AREAS; i++) {
		struct area *area = &pools->areas[i];

		if (area->live) {
			allocated += area->size;
			requested += area->requested;
			blocks++;
		} else if (area_is_pending(area)) {
			pending += area->size;
			area_visit_chunks(area, area_check_chunk);
		} else if (area_is_guarded(area)) {
			area_visit_chunks(area, area_check_chunk);
		}
	}
	KUNIT_EXPECT_EQ(test, allocated, tally->allocated.now);
	KUNIT_EXPECT_EQ(test, requested, tally->requested.now);
	KUNIT_EXPECT_EQ(test, allocated + pending, tally->active.now);
	KUNIT_EXPECT_EQ(test, blocks, tally->blocks.now);
	KUNIT_EXPECT_LE(test, tally->active.now + arenas[0].guarded + arenas[1].guarded,
			tally->resident.now);

	KUNIT_EXPECT_EQ(test, pools->resident << POOL_CHUNK_SHIFT, tally->resident.now);
	KUNIT_EXPECT_EQ(test, pools->resident, arenas[0].nr_resident + arenas[1].nr_resident);
	KUNIT_EXPECT_EQ(test, pools->spare << POOL_CHUNK_SHIFT, tally->spare.now);
	KUNIT_EXPECT_EQ(test, pools->spare, list_count_nodes(&pool->spares));
	KUNIT_EXPECT_EQ(test, 0, pools->reserved);
	KUNIT_EXPECT_EQ(test, 0, pool->nr_reserved);
	KUNIT_EXPECT_EQ(test, 0, pool->nr_leaving);
	KUNIT_EXPECT_EQ(test, 0, arenas[0].nr_leaving + arenas[1].nr_leaving);
	devpool_pool_unlock(pool);

	KUNIT_EXPECT_EQ(test, POOL_CHUNKS, devpool_supply_free(&pools->device) +
					   pools->resident + pools->spare);
	KUNIT_EXPECT_EQ(test, 0, pools->faults);
	areas_forget_what_is_over();
}

/* Nothing and nobody is left but the test. */
static void pools_check_gone(struct kunit *test)
{
	pools_check(test);
	KUNIT_EXPECT_EQ(test, DEVPOOL_STATE_GONE, pools_state());
	KUNIT_EXPECT_EQ(test, 1, pools->nr_retired);
	KUNIT_EXPECT_FALSE(test, pools->is_known);
	KUNIT_EXPECT_NULL(test, pools->member);
	KUNIT_EXPECT_EQ(test, 0, pools->resident + pools->spare);
	KUNIT_EXPECT_EQ(test, 1, kref_read(&pools->pool->ref));
}

/*
 * The tests
 */

/* Put by whoever got it, it keeps its cache, and is the same when it is got again. */
static void pool_keeps_its_cache(struct kunit *test)
{
	struct devpool_emptied emptied;
	struct area *area;
	u32 use_count;
	u64 addr;

	pools_make(test, 0, false);
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, 3000, 1, 0, &area));
	addr = area->addr;
	pools_free(test, area);
	pools_check(test);
	KUNIT_EXPECT_EQ(test, 0, devpool_member_put(pools->member, &use_count));
	KUNIT_EXPECT_EQ(test, 0, use_count);
	KUNIT_EXPECT_EQ(test, DEVPOOL_STATE_FREEABLE, pools_state());
	KUNIT_EXPECT_EQ(test, 1, pools->resident);
	KUNIT_EXPECT_EQ(test, -ENOENT, devpool_member_put(pools->member, &use_count));
	KUNIT_EXPECT_EQ(test, -ENOENT, pools_alloc(test, 512, 1, 0, NULL));
	pools_check(test);

	KUNIT_EXPECT_EQ(test, 0, devpool_member_get(pools->member, &use_count));
	KUNIT_EXPECT_EQ(test, 1, use_count);
	KUNIT_EXPECT_EQ(test, DEVPOOL_STATE_LIVE, pools_state());
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, 3000, 1, 0, &area));
	KUNIT_EXPECT_EQ(test, addr, area->addr);
	KUNIT_EXPECT_EQ(test, 1, pools->pool->tally.grows);

	/* Live, it is not emptied but when that is said. */
	pools_free(test, area);
	pools_empty(test, 0, 0, &emptied);
	KUNIT_EXPECT_EQ(test, 0, emptied.freed);
	KUNIT_EXPECT_EQ(test, 1, pools->resident);
	KUNIT_EXPECT_EQ(test, 0, devpool_member_put(pools->member, &use_count));
	pools_empty(test, 0, 0, &emptied);
	KUNIT_EXPECT_EQ(test, POOL_CHUNK, emptied.freed);
	KUNIT_EXPECT_EQ(test, DEVPOOL_STATE_GONE, emptied.state);
	pools_check_gone(test);
}

/* With the last reference its cache goes, and what is live when that is freed. */
static void pool_file_flushes(struct kunit *test)
{
	struct area *small, *large, *cached;
	struct devpool_emptied emptied;
	u32 use_count;

	pools_make(test, 0, true);
	KUNIT_EXPECT_EQ(test, 0, devpool_member_get(pools->member, &use_count));
	KUNIT_EXPECT_EQ(test, 2, use_count);
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, 512, 1, 0, &small));
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, DEVPOOL_SMALL_MAX + 1, 1, 0, &large));
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, 2 * DEVPOOL_SMALL_MAX, 1, 0, &cached));
	pools_free(test, cached);
	pools_check(test);

	pools_empty(test, DEVPOOL_EMPTY_RELEASE, 0, &emptied);
	KUNIT_EXPECT_EQ(test, 0, emptied.freed);
	KUNIT_EXPECT_EQ(test, DEVPOOL_STATE_LIVE, emptied.state);
	KUNIT_EXPECT_EQ(test, -ENOENT, devpool_pool_empty(pools->pool, DEVPOOL_EMPTY_RELEASE,
							  0, 0, &emptied));
	pools_check(test);

	/* Whichever goes last. */
	KUNIT_EXPECT_EQ(test, 0, devpool_member_put(pools->member, &use_count));
	KUNIT_EXPECT_EQ(test, DEVPOOL_STATE_FREEABLE, pools_state());
	pools_check(test);
	KUNIT_EXPECT_EQ(test, 1 + DEVPOOL_SMALL_MAX / POOL_CHUNK + 1, pools->resident);
	pools_free(test, large);
	pools_check(test);
	KUNIT_EXPECT_EQ(test, 1, pools->resident);
	KUNIT_EXPECT_EQ(test, DEVPOOL_STATE_FREEABLE, pools_state());
	pools_free(test, small);
	pools_check_gone(test);
}

/* Its client ends: all blocks go, and the pool with the last of its references. */
static void pool_client_closes(struct kunit *test)
{
	struct devpool_member *member;
	unsigned int i;

	pools_make(test, 0, false);
	for (i = 0; i < 20; i++)
		KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, (i + 1) << 12, 1, 0, NULL));
	pools_check(test);
	/* Its table's reference. */
	member = pools->member;
	kref_get(&member->ref);
	devpool_member_close(member);
	kref_put(&member->ref, devpool_member_release);
	memset(pools->areas, 0, sizeof(pools->areas));
	pools_check_gone(test);
}

/* What a stream uses stays where it is until it does not, whoever is gone. */
static void pool_waits_for_streams(struct kunit *test)
{
	struct area *recorded, *own, *both;
	struct devpool_emptied emptied;
	u64 points[2][2];
	unsigned int i;

	pools_make(test, 0, true);
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, POOL_CHUNK, POOL_CHUNK, 0, &recorded));
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, POOL_CHUNK, POOL_CHUNK, 1, &own));
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, POOL_CHUNK, POOL_CHUNK, 1, &both));
	pools_record(test, recorded, 1);
	pools_record(test, both, 1);
	for (i = 0; i < 2; i++) {
		points[i][0] = pools_submit(test, i);
		points[i][1] = pools_submit(test, i);
	}
	pools_free(test, recorded);
	pools_free(test, own);
	pools_free(test, both);
	/* Work that came later has nothing to do with it. */
	pools_submit(test, 0);
	pools_submit(test, 1);
	pools_check(test);

	pools_empty(test, DEVPOOL_EMPTY_RELEASE, 0, &emptied);
	KUNIT_EXPECT_EQ(test, 0, emptied.freed);
	KUNIT_EXPECT_EQ(test, 3 * POOL_CHUNK, emptied.pending);
	KUNIT_EXPECT_EQ(test, 3 * POOL_CHUNK, emptied.kept);
	KUNIT_EXPECT_EQ(test, DEVPOOL_STATE_FREEABLE, emptied.state);

	pools_signal(test, 1, points[1][0]);
	pools_check(test);
	KUNIT_EXPECT_EQ(test, 3, pools->resident);
	pools_signal(test, 1, points[1][1]);
	pools_check(test);
	KUNIT_EXPECT_EQ(test, 2, pools->resident);
	pools_signal(test, 0, points[0][0]);
	pools_check(test);
	KUNIT_EXPECT_EQ(test, 2, pools->resident);
	pools_signal(test, 0, points[0][1]);
	pools_check_gone(test);
}

/* A stream that ends has done with everything, and is nobody's any more. */
static void pool_stream_ends(struct kunit *test)
{
	struct devpool_stream *stream;
	struct area *area;

	pools_make(test, 0, true);
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, POOL_CHUNK, 1, 1, &area));
	pools_submit(test, 0);
	pools_free(test, area);
	pools_check(test);
	KUNIT_EXPECT_EQ(test, POOL_CHUNK, pools_pending());
	stream = pools->streams[0];
	devpool_stream_end(stream);
	devpool_lanes_end(stream);
	pools_check(test);
	KUNIT_EXPECT_EQ(test, 0, pools_pending());
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&pools->pool->lanes));
	KUNIT_EXPECT_EQ(test, 1, kref_read(&stream->ref));
}

/* A request that fails has nothing and changes nothing. */
static void pool_fails_cleanly(struct kunit *test)
{
	struct devpool_tally before;
	unsigned int i;

	pools_make(test, 0, true);
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, 512, 1, 0, NULL));
	before = pools->pool->tally;

	/* At each of the chunks that it needs. */
	for (i = 1; i <= 1 + DEVPOOL_SMALL_MAX / POOL_CHUNK; i++) {
		pools->fail_take_in = i;
		KUNIT_EXPECT_EQ(test, -ENOMEM,
				pools_alloc(test, DEVPOOL_SMALL_MAX + 1, 1, 0, NULL));
		KUNIT_EXPECT_EQ(test, 0, pools->fail_take_in);
		pools_check(test);
		/* So that what it took is not there the next time. */
		devpool_supply_trim(&pools->device, 0);
	}
	pools->fail_deal = true;
	KUNIT_EXPECT_EQ(test, -ENOSPC, pools_alloc(test, 4 * DEVPOOL_SMALL_MAX, 1, 0, NULL));
	pools->fail_deal = false;
	pools_check(test);
	KUNIT_EXPECT_EQ(test, -ENOSPC,
			pools_alloc(test, POOL_CHUNKS << POOL_CHUNK_SHIFT, 1, 0, NULL));
	pools_check(test);

	/* The client's limit, and then the pool's own. */
	pools->limit = 17;
	KUNIT_EXPECT_EQ(test, -EDQUOT,
			pools_alloc(test, DEVPOOL_SMALL_MAX + 1, 1, 0, NULL));
	pools_check(test);
	pools->limit = U64_MAX;
	devpool_pool_set_attr(pools->pool, DEVPOOL_ATTR_LIMIT, 17 * POOL_CHUNK);
	KUNIT_EXPECT_EQ(test, -EDQUOT,
			pools_alloc(test, DEVPOOL_SMALL_MAX + 1, 1, 0, NULL));
	pools_check(test);

	KUNIT_EXPECT_EQ(test, before.allocated.now, pools->pool->tally.allocated.now);
	KUNIT_EXPECT_EQ(test, before.resident.now, pools->pool->tally.resident.now);
	KUNIT_EXPECT_EQ(test, before.resident.out, pools->pool->tally.resident.out);
	KUNIT_EXPECT_EQ(test, before.grows, pools->pool->tally.grows);
	KUNIT_EXPECT_EQ(test, 21, pools->pool->tally.ooms);

	/* Exactly the limit is within it. */
	devpool_pool_set_attr(pools->pool, DEVPOOL_ATTR_LIMIT, 18 * POOL_CHUNK);
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, DEVPOOL_SMALL_MAX + 1, 1, 0, NULL));
	pools_check(test);
}

/* Chunks that stay the pool's have no address and are what is taken next. */
static void pool_spares(struct kunit *test)
{
	struct devpool_emptied emptied;
	struct area *area;

	pools_make(test, 0, true);
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, 2 * DEVPOOL_SMALL_MAX, 1, 0, &area));
	pools_free(test, area);
	pools_empty(test, DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, 4 * POOL_CHUNK,
		    &emptied);
	KUNIT_EXPECT_EQ(test, 0, emptied.freed);
	KUNIT_EXPECT_EQ(test, 4 * POOL_CHUNK, emptied.kept);
	KUNIT_EXPECT_EQ(test, 28, pools->spare);
	pools_check(test);
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, 2 * DEVPOOL_SMALL_MAX, 1, 0, &area));
	KUNIT_EXPECT_EQ(test, 0, pools->spare);
	KUNIT_EXPECT_EQ(test, 32, pools->pool->tally.grows);
	pools_check(test);
	pools_free(test, area);

	/* What is over the threshold goes at once. */
	devpool_pool_set_attr(pools->pool, DEVPOOL_ATTR_RELEASE_THRESHOLD, 5 * POOL_CHUNK);
	KUNIT_EXPECT_EQ(test, 5, pools->resident);
	pools_check(test);
	KUNIT_EXPECT_EQ(test, 0, pools_alloc(test, DEVPOOL_SMALL_MAX + 1, 1, 0, &area));
	pools_check(test);
	pools_free(test, area);
	KUNIT_EXPECT_EQ(test, 5, pools->resident);
	pools_check(test);
}

static u64 pool_random_bytes(struct rnd_state *rnd)
{
	switch (devpool_kunit_below(rnd, 8)) {
	case 0 ... 4:
		return 1 + devpool_kunit_below(rnd, POOL_CHUNK);
	case 5 ... 6:
		return 1 + devpool_kunit_below(rnd, 4 * POOL_CHUNK);
	default:
		return DEVPOOL_SMALL_MAX + 1 + devpool_kunit_below(rnd, DEVPOOL_SMALL_MAX);
	}
}

static void pool_random_alloc(struct kunit *test, struct rnd_state *rnd)
{
	u64 align = 1ULL << devpool_kunit_below(rnd, POOL_CHUNK_SHIFT + 1);
	u64 bytes = pool_random_bytes(rnd);
	u32 stream = 0;
	int err;

	if (!areas_find_unused())
		return;
	if (devpool_kunit_once_in(rnd, 2))
		stream = 1 + devpool_kunit_below(rnd, POOL_STREAMS);
	if (devpool_kunit_once_in(rnd, 32))
		pools->fail_take_in = 1 + devpool_kunit_below(rnd, 4);
	pools->fail_deal = devpool_kunit_once_in(rnd, 64);
	err = pools_alloc(test, bytes, align, stream, NULL);
	/* Out of chunks, of which streams may be to have some; or made to fail. */
	if (err && err != -ENOSPC && err != -EAGAIN && err != -ENOMEM && err != -EDQUOT)
		KUNIT_FAIL(test, "error %d", err);
	pools->fail_take_in = 0;
	pools->fail_deal = false;
}

static void pool_random_step(struct kunit *test, struct rnd_state *rnd)
{
	struct area *area = areas_find_live(devpool_kunit_below(rnd, POOL_AREAS));
	unsigned int i = devpool_kunit_below(rnd, POOL_STREAMS);
	struct devpool_stream *stream = pools->streams[i];
	u64 keep = POOL_CHUNK * devpool_kunit_below(rnd, 16);
	struct devpool_emptied emptied;
	LIST_HEAD(chunks);
	u64 nr, open;

	switch (devpool_kunit_below(rnd, 24)) {
	case 0 ... 8:
		pool_random_alloc(test, rnd);
		break;
	case 9 ... 14:
		if (area)
			pools_free(test, area);
		break;
	case 15:
		if (area)
			pools_record(test, area, i);
		break;
	case 16 ... 17:
		pools_submit(test, i);
		break;
	case 18 ... 19:
		open = stream->submitted - stream->signalled;
		if (open)
			pools_signal(test, i,
				     stream->submitted - devpool_kunit_below(rnd, open));
		break;
	case 20:
		pools_empty(test, DEVPOOL_EMPTY_TRIM, keep, &emptied);
		break;
	case 21:
		pools_empty(test, DEVPOOL_EMPTY_TRIM | DEVPOOL_EMPTY_KEEP_PHYSICAL, keep,
			    &emptied);
		break;
	case 22:
		devpool_pool_set_attr(pools->pool, DEVPOOL_ATTR_RELEASE_THRESHOLD,
				      devpool_kunit_once_in(rnd, 2) ? U64_MAX : keep);
		break;
	default:
		/* Another pool takes some, and gives them back. */
		nr = devpool_pool_reclaim(pools->pool, keep >> POOL_CHUNK_SHIFT, &chunks);
		KUNIT_EXPECT_EQ(test, nr, list_count_nodes(&chunks));
		devpool_supply_announce(&pools->device, nr);
		devpool_supply_put(&pools->device, &chunks);
	}
	if (devpool_kunit_once_in(rnd, 64))
		devpool_pool_set_attr(pools->pool, DEVPOOL_ATTR_LIMIT,
				      devpool_kunit_once_in(rnd, 2) ? 0 : 64 * POOL_CHUNK);
}

/* Whatever happens, memory is handed out to who may have it, and all comes back. */
static void pool_run_random(struct kunit *test, u32 flags, u32 part)
{
	const struct devpool_tally *tally;
	struct devpool_emptied emptied;
	struct rnd_state rnd;
	struct area *area;
	unsigned int i;

	devpool_kunit_seed(test, &rnd, part);
	pools_make(test, flags, true);
	for (i = 0; i < devpool_kunit_steps; i++) {
		pool_random_step(test, &rnd);
		pools_check(test);
	}
	tally = &pools->pool->tally;
	KUNIT_EXPECT_GT(test, tally->hits, 0);
	KUNIT_EXPECT_GT(test, tally->grows, 0);
	KUNIT_EXPECT_GT(test, tally->ooms, 0);
	KUNIT_EXPECT_EQ(test, !(flags & DEVPOOL_POOL_STABLE), !!tally->recycles);

	pools_empty(test, DEVPOOL_EMPTY_RELEASE, 0, &emptied);
	pools_check(test);
	while ((area = areas_find_live(devpool_kunit_below(&rnd, POOL_AREAS)))) {
		pools_free(test, area);
		pools_check(test);
	}
	for (i = 0; i < POOL_STREAMS; i++) {
		if (devpool_stream_last_open(pools->streams[i]))
			pools_signal(test, i, pools->streams[i]->submitted);
		pools_check(test);
	}
	pools_check_gone(test);
}

static void pool_random(struct kunit *test)
{
	pool_run_random(test, 0, 200);
}

static void pool_random_stable(struct kunit *test)
{
	pool_run_random(test, DEVPOOL_POOL_STABLE, 201);
}

/*
 * The suite
 */

static int pool_kunit_init(struct kunit *test)
{
	devpool_max_points = UINT_MAX;
	/* Too large for a frame, and gone with the test. */
	pools = kunit_kzalloc(test, sizeof(*pools), GFP_KERNEL);
	if (!pools)
		return -ENOMEM;
	pools->test = test;
	return 0;
}

/* What a test has left goes as it would where its client and its file end. */
static void pool_kunit_exit(struct kunit *test)
{
	struct devpool_member *member;
	unsigned int i;

	if (!pools || !pools->pool)
		return;
	for (i = 0; i < POOL_STREAMS; i++) {
		devpool_stream_end(pools->streams[i]);
		devpool_lanes_end(pools->streams[i]);
	}
	devpool_pool_empty(pools->pool, DEVPOOL_EMPTY_RELEASE, 0, 0, NULL);
	member = pools->member;
	if (member) {
		kref_get(&member->ref);
		devpool_member_close(member);
		kref_put(&member->ref, devpool_member_release);
	}
	flush_workqueue(devpool_reaper);
	KUNIT_EXPECT_EQ(test, 1, pools->nr_retired);
	KUNIT_EXPECT_EQ(test, 1, kref_read(&pools->pool->ref));
	devpool_pool_put(pools->pool);
	kref_put(&pools->client.ref, devpool_client_free);
	KUNIT_EXPECT_TRUE(test, pools->client_freed);
	KUNIT_EXPECT_EQ(test, 0, pools->nr_ranges);
	for (i = 0; i < POOL_STREAMS; i++) {
		KUNIT_EXPECT_EQ(test, 1, kref_read(&pools->streams[i]->ref));
		devpool_stream_put(pools->streams[i]);
	}
	KUNIT_EXPECT_EQ(test, POOL_CHUNKS, devpool_supply_free(&pools->device));
	devpool_supply_exit(&pools->device);
	KUNIT_EXPECT_EQ(test, 0, pools->nr_live);
	KUNIT_EXPECT_EQ(test, 0, pools->faults);
}

/* Its own name for the cache, for devpool.ko may be loaded beside this one. */
static int pool_kunit_suite_init(struct kunit_suite *suite)
{
	int err;

	devpool_block_cache = kmem_cache_create("devpool_kunit_block",
						sizeof(struct devpool_block), 0,
						DEVPOOL_SLAB_FLAGS, NULL);
	if (!devpool_block_cache)
		return -ENOMEM;
	err = devpool_kunit_supply_init();
	if (err)
		goto cache_exit;
	err = devpool_reaper_init();
	if (err)
		goto supply_exit;
	return 0;

supply_exit:
	devpool_kunit_supply_exit();
cache_exit:
	devpool_pool_cache_exit();
	return err;
}

static void pool_kunit_suite_exit(struct kunit_suite *suite)
{
	devpool_reaper_exit();
	devpool_kunit_supply_exit();
	/* Pools and streams go after a grace period. */
	rcu_barrier();
	devpool_pool_cache_exit();
}

static struct kunit_case pool_kunit_cases[] = {
	KUNIT_CASE(pool_keeps_its_cache),
	KUNIT_CASE(pool_file_flushes),
	KUNIT_CASE(pool_client_closes),
	KUNIT_CASE(pool_waits_for_streams),
	KUNIT_CASE(pool_stream_ends),
	KUNIT_CASE(pool_fails_cleanly),
	KUNIT_CASE(pool_spares),
	KUNIT_CASE_SLOW(pool_random),
	KUNIT_CASE_SLOW(pool_random_stable),
	{}
};

static struct kunit_suite pool_kunit_suite = {
	.name = "devpool_pool",
	.suite_init = pool_kunit_suite_init,
	.suite_exit = pool_kunit_suite_exit,
	.init = pool_kunit_init,
	.exit = pool_kunit_exit,
	.test_cases = pool_kunit_cases,
};

kunit_test_suite(pool_kunit_suite);
