// SPDX-License-Identifier: GPL-2.0-only
/*
 * The arena beside a naive model of it.
 *
 * All that the model knows of a range is which granules are busy, which are some
 * stream's until a point, with which of them a block begins that is not joined with
 * what is before it, which count as written to, and what is behind each piece. The
 * blocks, the trees, the counters,
 * the best fit and the cheapest place follow from that by counting; nothing that
 * the arena keeps in order to be quick is used for it.
 */
#include <kunit/test.h>
#include <linux/bitmap.h>
#include <linux/log2.h>
#include <linux/sizes.h>
#include <linux/slab.h>

#include "../arena.c"
#include "kunit.h"

#define MODEL_ARENAS 2
#define MODEL_FLUSHES 4
#define MODEL_BUSY 160
#define MODEL_EXTENTS 256
#define MODEL_STREAMS 2
#define MODEL_POINTS 100

/* Structs below those that the arena counts: it is not to get that far down. */
#define MODEL_RESERVE 4

struct geometry {
	const char *name;
	unsigned int chunk_shift;
	unsigned int granule_shift[MODEL_ARENAS];
	/* The most pieces of a request, and of a range that no request made. */
	unsigned int pieces;
};

/* The arenas of a pool have granules of their own and are flushed together. */
static const struct geometry geometries[] = {
	{ "4K chunks, granules 512 and 4K", 12, { 9, 12 }, 10 },
	{ "16K chunks, granules 512 and 4K", 14, { 9, 12 }, 8 },
	{ "2M chunks, granules 512 and 4K", 21, { 9, 12 }, 6 },
	{ "1G chunks, granules 128M and 1G", 30, { 27, 30 }, 12 },
};

KUNIT_ARRAY_PARAM_DESC(geometry, geometries, name);

enum model_piece {
	PIECE_IS_HOLE,
	PIECE_IS_RESIDENT,
	PIECE_IS_LEAVING,
};

struct model_range {
	struct devpool_range range;
	struct list_head link;
	struct model_arena *owner;
	u64 end;
	unsigned long nr_granules;
	unsigned long nr_pieces;
	/*
	 * Granules that are busy; those that begin a busy block, or a cached one
	 * of an arena that does not split; those that may not be zero; those that
	 * are a stream's, and those of them that a point is known of.
	 */
	unsigned long *busy;
	unsigned long *first;
	unsigned long *dirty;
	unsigned long *guarded[MODEL_STREAMS];
	unsigned long *has_point;
	u64 *points;
	u8 *pieces;
	struct devpool_chunk **chunks;
};

/* Each block struct that there is, busy or not. */
struct model_block {
	struct devpool_block block;
	struct list_head link;
	/* Busy: where it is; placed: and not committed or undone yet. */
	struct model_range *range;
	u64 addr;
	u64 end;
	bool placed;
	struct devpool_placement place;
	/* Busy: whose it is, and the latest point of what it was made of. */
	struct devpool_guards *guards;
	u64 point;
};

struct model_chunk {
	struct devpool_chunk chunk;
	struct list_head link;
};

struct model_arena {
	struct devpool_arena arena;
	unsigned int granule_shift;
	/* Sizes are multiples of it: coarse ones make equal blocks likely. */
	u64 unit;
	struct list_head ranges;
	struct devpool_range *first;
	struct model_block *reserve[MODEL_RESERVE];
	struct devpool_guards guards[MODEL_STREAMS];
};

/* What a block has to be, as the model sees it. */
struct extent {
	struct model_range *range;
	u64 addr;
	u64 end;
	enum devpool_arena_state state;
	bool zero;
	/* Cached: those that it is in, and until when. */
	struct devpool_guards *guards;
	u64 point;
	unsigned long leaving;
	unsigned long whole;
	/* For who looks on while pieces are taken out of it. */
	unsigned long taken;
};

struct model {
	struct kunit *test;
	const struct geometry *geometry;
	struct rnd_state rnd;
	u64 chunk;
	u64 next_base;
	/* The kind of pool. */
	bool no_split;
	bool keeps_memory;
	struct model_arena arenas[MODEL_ARENAS];
	struct list_head structs;
	unsigned long nr_structs;
	struct list_head chunks;
	struct model_block *busy[MODEL_BUSY];
	unsigned int nr_busy;
	unsigned int target;
	struct list_head flushes[MODEL_FLUSHES];
	/* For model_detach(). */
	struct extent extents[MODEL_EXTENTS];
	/* For messages. */
	unsigned int round;
	unsigned int step;
	const char *act;
};

static noinline void model_fail(struct model *model, const char *what, int line)
{
	KUNIT_FAIL_AND_ABORT(model->test, "line %d: not so: %s (%s%s%s; round %u, step %u; %s)",
			     line, what, model->geometry->name,
			     model->no_split ? "; no_split" : "",
			     model->keeps_memory ? "; keeps_memory" : "",
			     model->round, model->step, model->act);
}

#define CHECK(model, condition)						\
do {									\
	if (!(condition))						\
		model_fail(model, #condition, __LINE__);		\
} while (0)

static u32 below(struct model *model, u32 end)
{
	return devpool_kunit_below(&model->rnd, end);
}

static bool once_in(struct model *model, u32 nr)
{
	return devpool_kunit_once_in(&model->rnd, nr);
}

/*
 * Structs and chunks
 */

static struct devpool_block *model_new_struct(struct model *model)
{
	struct model_block *block = kmalloc(sizeof(*block), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(model->test, block);
	memset(&block->block, 0xa5, sizeof(block->block));
	block->range = NULL;
	list_add(&block->link, &model->structs);
	model->nr_structs++;
	return &block->block;
}

static struct model_block *model_block(struct devpool_block *block)
{
	return container_of(block, struct model_block, block);
}

static void model_drop_struct(struct model *model, struct devpool_block *block)
{
	CHECK(model, !model_block(block)->range);
	list_del(&model_block(block)->link);
	kfree(model_block(block));
	model->nr_structs--;
}

static struct devpool_chunk *model_new_chunk(struct model *model)
{
	struct model_chunk *chunk = kmalloc(sizeof(*chunk), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(model->test, chunk);
	memset(&chunk->chunk, 0xa5, sizeof(chunk->chunk));
	list_add(&chunk->link, &model->chunks);
	return &chunk->chunk;
}

static void model_drop_chunk(struct devpool_chunk *chunk)
{
	struct model_chunk *dropped = container_of(chunk, struct model_chunk, chunk);

	list_del(&dropped->link);
	kfree(dropped);
}

/* As a pool does before it asks for a block. */
static void model_stock_up(struct model *model, struct model_arena *owner, u64 size)
{
	unsigned long nr = devpool_arena_wants(&owner->arena, size);

	while (nr--)
		devpool_arena_donate(&owner->arena, model_new_struct(model));
	CHECK(model, !devpool_arena_wants(&owner->arena, size));
}

/* Leaves the arena not one struct more than it says it needs. */
static void model_drain(struct model *model, struct model_arena *owner)
{
	struct devpool_arena *arena = &owner->arena;

	while (arena->nr_stock > stock_needed(arena->nr_busy + arena->nr_guarded +
					      arena->nr_ranges, arena->nr_reserved,
					      arena->nr_resident + arena->nr_planned))
		model_drop_struct(model, stock_pop(arena));
}

/* Nothing went below what the arena counts, not for a moment either. */
static void model_check_stock(struct model *model, struct model_arena *owner)
{
	unsigned int i;

	CHECK(model, owner->arena.nr_stock <= model->nr_structs);
	for (i = 0; i < MODEL_RESERVE; i++)
		CHECK(model, !owner->reserve[i]->block.size);
}

/*
 * Ranges
 */

static struct model_range *model_range(struct devpool_range *range)
{
	return container_of(range, struct model_range, range);
}

static unsigned long granule_at(const struct model_range *range, u64 addr)
{
	return (addr - range->range.base) >> range->owner->granule_shift;
}

static unsigned long piece_at(const struct model_range *range, u64 addr)
{
	return (addr - range->range.base) >> range->owner->arena.chunk_shift;
}

static u64 piece_addr(const struct model_range *range, unsigned long piece)
{
	return range->range.base + ((u64)piece << range->owner->arena.chunk_shift);
}

static void model_free_range(struct model_range *range)
{
	unsigned int i;

	list_del(&range->link);
	for (i = 0; i < MODEL_STREAMS; i++)
		bitmap_free(range->guarded[i]);
	bitmap_free(range->has_point);
	kvfree(range->points);
	bitmap_free(range->busy);
	bitmap_free(range->first);
	bitmap_free(range->dirty);
	kfree(range->pieces);
	kfree(range->chunks);
	kfree(range);
}

static struct model_range *model_add_range(struct model *model,
					   struct model_arena *owner,
					   unsigned long pieces)
{
	unsigned int shift = owner->arena.chunk_shift;
	struct model_range *range = kzalloc(sizeof(*range), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(model->test, range);
	list_add_tail(&range->link, &owner->ranges);
	range->owner = owner;
	range->nr_pieces = pieces;
	range->nr_granules = pieces << (shift - owner->granule_shift);
	range->busy = bitmap_zalloc(range->nr_granules, GFP_KERNEL);
	range->first = bitmap_zalloc(range->nr_granules, GFP_KERNEL);
	range->dirty = bitmap_zalloc(range->nr_granules, GFP_KERNEL);
	range->has_point = bitmap_zalloc(range->nr_granules, GFP_KERNEL);
	range->points = kvcalloc(range->nr_granules, sizeof(*range->points), GFP_KERNEL);
	for (i = 0; i < MODEL_STREAMS; i++) {
		range->guarded[i] = bitmap_zalloc(range->nr_granules, GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(model->test, range->guarded[i]);
	}
	range->pieces = kcalloc(pieces, sizeof(*range->pieces), GFP_KERNEL);
	range->chunks = kcalloc(pieces, sizeof(*range->chunks), GFP_KERNEL);
	/* What is behind the end of one may be the next one's. */
	devpool_range_init(&range->range, &owner->arena,
			   model->next_base + below(model, 2) * model->chunk,
			   (u64)pieces << shift);
	range->end = range->range.base + range->range.size;
	model->next_base = range->end;
	KUNIT_ASSERT_NOT_NULL(model->test, range->busy);
	KUNIT_ASSERT_NOT_NULL(model->test, range->first);
	KUNIT_ASSERT_NOT_NULL(model->test, range->dirty);
	KUNIT_ASSERT_NOT_NULL(model->test, range->has_point);
	KUNIT_ASSERT_NOT_NULL(model->test, range->points);
	KUNIT_ASSERT_NOT_NULL(model->test, range->pieces);
	KUNIT_ASSERT_NOT_NULL(model->test, range->chunks);

	devpool_arena_add_range(&owner->arena, &range->range, model_new_struct(model));
	if (!owner->first)
		owner->first = &range->range;
	return range;
}

static void model_remove_range(struct model *model, struct model_range *range)
{
	struct devpool_arena *arena = &range->owner->arena;

	model_drop_struct(model, devpool_arena_remove_range(arena, &range->range));
	model_free_range(range);
}

/* The last of what is known of the points in [granule, end) */
static u64 model_last_point(struct model_range *range, unsigned long granule,
			    unsigned long end)
{
	u64 point = 0;

	for_each_set_bit_from(granule, range->has_point, end)
		point = max(point, range->points[granule]);
	return point;
}

/* The block that has to begin at an address. */
static struct extent extent_at(struct model_range *range, u64 addr)
{
	unsigned long granule = granule_at(range, addr), nr = range->nr_granules;
	unsigned long piece = piece_at(range, addr);
	struct extent extent = { .range = range, .addr = addr };
	bool busy = test_bit(granule, range->busy), resident;
	unsigned int i;
	u64 end;

	end = busy ? find_next_zero_bit(range->busy, nr, granule) :
		     find_next_bit(range->busy, nr, granule);
	end = find_next_bit(range->first, end, granule + 1);
	if (busy) {
		extent.state = DEVPOOL_BLOCK_IS_BUSY;
		extent.zero = find_next_bit(range->dirty, end, granule) >= end;
		extent.end = range->range.base + (end << range->owner->granule_shift);
		return extent;
	}

	for (i = 0; i < MODEL_STREAMS; i++) {
		if (test_bit(granule, range->guarded[i])) {
			extent.guards = &range->owner->guards[i];
			end = find_next_zero_bit(range->guarded[i], end, granule);
		} else {
			end = find_next_bit(range->guarded[i], end, granule);
		}
	}
	end = range->range.base + (end << range->owner->granule_shift);

	resident = range->pieces[piece] == PIECE_IS_RESIDENT;
	extent.state = resident ? DEVPOOL_BLOCK_IS_CACHED : DEVPOOL_BLOCK_IS_VACANT;
	do {
		extent.leaving += range->pieces[piece] == PIECE_IS_LEAVING;
		extent.whole += piece_addr(range, piece) >= addr &&
				piece_addr(range, piece + 1) <= end;
		piece++;
		extent.end = min(end, piece_addr(range, piece));
	} while (extent.end < end &&
		 (range->pieces[piece] == PIECE_IS_RESIDENT) == resident);
	end = granule_at(range, extent.end - 1) + 1;
	extent.zero = find_next_bit(range->dirty, end, granule) >= end;
	if (extent.guards) {
		extent.point = model_last_point(range, granule, end);
		extent.whole = 0;
	}
	return extent;
}

static void model_set(struct model_range *range, unsigned long *bits, u64 addr, u64 end)
{
	unsigned long granule = granule_at(range, addr);

	bitmap_set(bits, granule, granule_at(range, end - 1) + 1 - granule);
}

static void model_clear(struct model_range *range, unsigned long *bits, u64 addr, u64 end)
{
	unsigned long granule = granule_at(range, addr);

	bitmap_clear(bits, granule, granule_at(range, end - 1) + 1 - granule);
}

/* A piece without memory is as good as zero, and one with all others of its kind. */
static void model_vacate(struct model_range *range, unsigned long piece)
{
	u64 addr = piece_addr(range, piece), end = piece_addr(range, piece + 1);

	model_clear(range, range->dirty, addr, end);
	model_clear(range, range->first, addr, end);
}

static void model_set_point(struct model_range *range, u64 addr, u64 point)
{
	__set_bit(granule_at(range, addr), range->has_point);
	range->points[granule_at(range, addr)] = point;
}

/* Cached memory is a stream's until a point. */
static void model_guard(struct model_range *range, const struct devpool_guards *guards,
			u64 addr, u64 end, u64 point)
{
	if (addr == end || !point)
		return;
	model_set(range, range->guarded[guards - range->owner->guards], addr, end);
	model_set_point(range, addr, point);
}

/* What it is to whom counts no more. */
static void model_unguard(struct model_range *range, u64 addr, u64 end)
{
	unsigned int i;

	for (i = 0; i < MODEL_STREAMS; i++)
		model_clear(range, range->guarded[i], addr, end);
	model_clear(range, range->has_point, addr, end);
}

/*
 * What is joined with something that is not zero counts as not zero, and all of it
 * waits for the last point of any.
 */
static void model_settle(struct model_range *range)
{
	struct extent extent;
	u64 addr;

	for (addr = range->range.base; addr < range->end; addr = extent.end) {
		extent = extent_at(range, addr);
		if (!extent.zero)
			model_set(range, range->dirty, extent.addr, extent.end);
		if (extent.guards) {
			model_clear(range, range->has_point, extent.addr, extent.end);
			model_set_point(range, extent.addr, extent.point);
		}
	}
}

/* The last point of what is free in [addr, end), all of which these guards may have */
static u64 model_point(struct model *model, struct model_range *range,
		       const struct devpool_guards *guards, u64 addr, u64 end)
{
	struct extent extent;
	u64 at, point = 0;

	for (at = range->range.base; at < end; at = extent.end) {
		extent = extent_at(range, at);
		if (extent.end <= addr)
			continue;
		CHECK(model, !extent.guards || extent.guards == guards);
		point = max(point, extent.point);
	}
	return point;
}

/* Is there an address, and is it vacant? */
static bool model_is_vacant(struct model_range *range, u64 addr)
{
	return addr >= range->range.base && addr < range->end &&
	       extent_at(range, addr).state == DEVPOOL_BLOCK_IS_VACANT;
}

/*
 * Everything that can be counted
 */

static void model_check_tree(struct model *model, const struct rb_root *root,
			     enum devpool_arena_state state, unsigned long nr)
{
	struct devpool_block *block, *prev = NULL;
	struct rb_node *node;

	for (node = rb_first(root); node; node = rb_next(node)) {
		block = rb_entry(node, struct devpool_block, by_size);
		CHECK(model, nr--);
		CHECK(model, block->state == state);
		CHECK(model, devpool_range_find(block->range, block->addr) == block);
		if (prev && prev->size == block->size)
			CHECK(model, prev->addr < block->addr);
		else
			CHECK(model, !prev || prev->size < block->size);
		prev = block;
	}
	CHECK(model, !nr);
}

static void model_check_block(struct model *model, const struct extent *extent,
			      struct devpool_block *block)
{
	struct model_range *range = extent->range;
	u64 inside = extent->addr;

	CHECK(model, block);
	CHECK(model, block->addr == extent->addr);
	CHECK(model, block->size == extent->end - extent->addr);
	CHECK(model, block->range == &range->range);
	CHECK(model, block->state == extent->state);
	CHECK(model, block->zero == extent->zero);
	if (extent->state != DEVPOOL_BLOCK_IS_BUSY) {
		CHECK(model, block->guards == extent->guards);
		CHECK(model, block->point == extent->point);
	}
	inside += (u64)below(model, granule_at(range, extent->end - 1) -
			     granule_at(range, extent->addr) + 1) <<
		  range->owner->granule_shift;
	CHECK(model, devpool_range_find(&range->range, inside) == block);

	switch (extent->state) {
	case DEVPOOL_BLOCK_IS_VACANT:
		CHECK(model, block->leaving == extent->leaving && block->zero);
		/* There is no half of a piece without memory. */
		CHECK(model, IS_ALIGNED(extent->addr | extent->end, model->chunk));
		break;
	case DEVPOOL_BLOCK_IS_CACHED:
		CHECK(model, block->whole == extent->whole);
		break;
	case DEVPOOL_BLOCK_IS_BUSY:
		CHECK(model, model_block(block)->range == range);
		CHECK(model, model_block(block)->addr == extent->addr);
		CHECK(model, model_block(block)->end == extent->end);
		CHECK(model, block->guards == model_block(block)->guards);
		CHECK(model, block->point == model_block(block)->point);
		break;
	}
}

static void model_check_pieces(struct model *model, struct model_range *range)
{
	unsigned long piece;

	for (piece = 0; piece < range->nr_pieces; piece++) {
		void *entry = xa_load(&range->range.pieces, piece);
		u64 addr = piece_addr(range, piece);
		struct devpool_chunk *chunk = range->chunks[piece];

		switch (range->pieces[piece]) {
		case PIECE_IS_HOLE:
			CHECK(model, !entry);
			chunk = NULL;
			break;
		case PIECE_IS_RESIDENT:
			CHECK(model, entry == chunk);
			CHECK(model, chunk->range == &range->range && chunk->addr == addr);
			break;
		case PIECE_IS_LEAVING:
			CHECK(model, xa_is_value(entry));
			chunk = NULL;
			break;
		}
		addr += below(model, min_t(u64, model->chunk, U32_MAX));
		CHECK(model, devpool_range_chunk(&range->range, addr) == chunk);
	}
}

/* The blocks of a stream, which are so many, by size and by point */
static void model_check_guards(struct model *model, struct devpool_guards *guards,
			       unsigned long nr)
{
	struct devpool_block *block;
	struct rb_node *node;
	u64 point = 0;

	model_check_tree(model, &guards->fit, DEVPOOL_BLOCK_IS_CACHED, nr);
	CHECK(model, rb_first_cached(&guards->by_point) ==
		     rb_first(&guards->by_point.rb_root));
	for (node = rb_first_cached(&guards->by_point); node; node = rb_next(node)) {
		block = rb_entry(node, struct devpool_block, by_point);
		CHECK(model, nr--);
		CHECK(model, block->guards == guards && block->point >= point);
		CHECK(model, devpool_range_find(block->range, block->addr) == block);
		point = block->point;
	}
	CHECK(model, !nr);
}

static void model_check_arena(struct model *model, struct model_arena *owner,
			      bool with_pieces, unsigned long *structs)
{
	unsigned long fit = 0, gaps = 0, returnable = 0, returnable_blocks = 0;
	unsigned long busy = 0, resident = 0, leaving = 0, ranges = 0;
	unsigned long reserved = 0, planned = 0, stock = 0;
	unsigned long guarded[MODEL_STREAMS] = {}, nr_guarded = 0;
	u64 guarded_bytes = 0;
	struct devpool_arena *arena = &owner->arena;
	struct devpool_block *block;
	struct model_range *range;
	struct rb_node *node;
	struct extent extent;
	unsigned int i;
	u64 addr;

	list_for_each_entry(range, &owner->ranges, link) {
		ranges++;
		node = rb_first(&range->range.blocks);
		for (addr = range->range.base; addr < range->end; addr = extent.end) {
			extent = extent_at(range, addr);
			model_check_block(model, &extent, by_addr(node));
			CHECK(model, devpool_range_next(by_addr(node)) ==
				     by_addr(rb_next(node)));
			node = rb_next(node);
			++*structs;
			leaving += extent.leaving;
			switch (extent.state) {
			case DEVPOOL_BLOCK_IS_VACANT:
				gaps += !extent.leaving;
				break;
			case DEVPOOL_BLOCK_IS_CACHED:
				if (extent.guards) {
					guarded[extent.guards - owner->guards]++;
					nr_guarded++;
					guarded_bytes += extent.end - extent.addr;
					break;
				}
				fit++;
				returnable += extent.whole;
				returnable_blocks += !!extent.whole;
				break;
			case DEVPOOL_BLOCK_IS_BUSY:
				busy++;
				break;
			}
		}
		CHECK(model, !node);
		CHECK(model, !devpool_range_find(&range->range, range->end));
		CHECK(model, !devpool_range_find(&range->range, range->range.base - 1));
		if (with_pieces)
			model_check_pieces(model, range);
		for (i = 0; i < range->nr_pieces; i++)
			resident += range->pieces[i] == PIECE_IS_RESIDENT;
	}
	for (i = 0; i < model->nr_busy; i++) {
		if (model->busy[i]->range->owner != owner)
			continue;
		CHECK(model, busy--);
		if (model->busy[i]->placed) {
			reserved++;
			planned += model->busy[i]->place.nr_holes;
		}
	}
	CHECK(model, !busy);

	CHECK(model, arena->nr_ranges == ranges);
	CHECK(model, arena->first == owner->first);
	CHECK(model, arena->nr_resident == resident);
	CHECK(model, arena->nr_returnable == returnable);
	CHECK(model, arena->nr_leaving == leaving);
	CHECK(model, arena->nr_reserved == reserved);
	CHECK(model, arena->nr_planned == planned);
	CHECK(model, arena->nr_guarded == nr_guarded);
	CHECK(model, arena->guarded == guarded_bytes);

	model_check_tree(model, &arena->fit, DEVPOOL_BLOCK_IS_CACHED, fit);
	model_check_tree(model, &arena->gaps, DEVPOOL_BLOCK_IS_VACANT, gaps);
	for (i = 0; i < MODEL_STREAMS; i++)
		model_check_guards(model, &owner->guards[i], guarded[i]);
	list_for_each_entry(block, &arena->returnable, link) {
		CHECK(model, returnable_blocks--);
		CHECK(model, block->state == DEVPOOL_BLOCK_IS_CACHED);
		CHECK(model, block->whole && !block->guards);
		CHECK(model, devpool_range_find(block->range, block->addr) == block);
	}
	CHECK(model, !returnable_blocks);
	hlist_for_each_entry(block, &arena->stock, node)
		stock++;
	CHECK(model, stock == arena->nr_stock + MODEL_RESERVE);
	*structs += stock;
	model_check_stock(model, owner);
}

/* What is behind each piece takes long to look up: that is checked now and then. */
static void model_check(struct model *model, bool with_pieces)
{
	unsigned long structs = 0, busy = 0;
	unsigned int i;

	for (i = 0; i < MODEL_ARENAS; i++) {
		model_check_arena(model, &model->arenas[i], with_pieces, &structs);
		busy += model->arenas[i].arena.nr_busy;
	}
	CHECK(model, busy == model->nr_busy);
	CHECK(model, structs == model->nr_structs);
}

/*
 * Busy blocks
 */

/* From now on the arena has given this extent away. */
static void model_claim(struct model *model, struct devpool_block *block, u64 addr,
			u64 end)
{
	struct model_range *range = model_range(block->range);
	struct model_block *claimed = model_block(block);
	unsigned long first = granule_at(range, addr);
	unsigned long last = granule_at(range, end - 1);
	struct extent extent;
	u64 at;

	CHECK(model, block->addr == addr && block->size == end - addr);
	CHECK(model, block->state == DEVPOOL_BLOCK_IS_BUSY);
	CHECK(model, !block->member && !block->requested && !block->holds);
	CHECK(model, addr >= range->range.base && end <= range->end);
	CHECK(model, find_next_bit(range->busy, last + 1, first) > last);
	CHECK(model, find_next_bit(range->first, last + 1, first + 1) > last);
	claimed->guards = block->guards;
	claimed->point = model_point(model, range, block->guards, addr, end);
	/* What stays of a guarded block waits for the same point. */
	for (at = range->range.base; at < end; at = extent.end) {
		extent = extent_at(range, at);
		if (extent.guards && extent.end > end)
			model_set_point(range, end, extent.point);
	}
	model_unguard(range, addr, end);
	model_set(range, range->busy, addr, end);
	__set_bit(first, range->first);
	model_settle(range);

	CHECK(model, !claimed->range);
	claimed->range = range;
	claimed->addr = addr;
	claimed->end = end;
	claimed->placed = false;
	model->busy[model->nr_busy++] = claimed;
}

/* The same as free addresses, and what it is joined with. */
static void model_unclaim(struct model *model, struct model_block *block)
{
	struct model_range *range = block->range;
	unsigned int i;

	model_clear(range, range->busy, block->addr, block->end);
	if (!range->owner->arena.no_split)
		__clear_bit(granule_at(range, block->addr), range->first);
	block->range = NULL;
	for (i = 0; model->busy[i] != block; i++)
		;
	model->busy[i] = model->busy[--model->nr_busy];
}

/* One of the busy blocks that are, or are not, a placement in flight. */
static struct model_block *model_any_busy(struct model *model, bool placed)
{
	unsigned int i, start;

	if (!model->nr_busy)
		return NULL;
	start = below(model, model->nr_busy);
	for (i = 0; i < model->nr_busy; i++) {
		struct model_block *block = model->busy[(start + i) % model->nr_busy];

		if (block->placed == placed)
			return block;
	}
	return NULL;
}

/*
 * Requests
 */

/* Can a request on this stream, or on none, have it? */
static bool is_usable_extent(const struct extent *extent, const struct devpool_guards *guards)
{
	return extent->state == DEVPOOL_BLOCK_IS_CACHED &&
	       (!extent->guards || extent->guards == guards);
}

/* The smallest cached extent that has room, the lowest of equals. */
static bool model_best_fit(struct model_arena *owner, const struct devpool_guards *guards,
			   u64 size, u64 align, struct extent *best)
{
	struct model_range *range;
	struct extent extent;
	bool found = false;
	u64 addr, length;

	list_for_each_entry(range, &owner->ranges, link) {
		for (addr = range->range.base; addr < range->end; addr = extent.end) {
			extent = extent_at(range, addr);
			if (!is_usable_extent(&extent, guards) ||
			    ALIGN(extent.addr, align) + size > extent.end)
				continue;
			length = best->end - best->addr;
			if (found && (extent.end - extent.addr > length ||
				      (extent.end - extent.addr == length &&
				       extent.addr > best->addr)))
				continue;
			*best = extent;
			found = true;
		}
	}
	return found;
}

/* How many cached extents have the size, come before that one, and do not do. */
static unsigned int model_tries(struct model_arena *owner,
				const struct devpool_guards *guards, u64 size,
				const struct extent *best)
{
	u64 addr, length = best->end - best->addr;
	struct model_range *range;
	struct extent extent;
	unsigned int tries = 0;

	list_for_each_entry(range, &owner->ranges, link) {
		for (addr = range->range.base; addr < range->end; addr = extent.end) {
			extent = extent_at(range, addr);
			if (is_usable_extent(&extent, guards) &&
			    extent.end - extent.addr >= size)
				tries += extent.end - extent.addr < length ||
					 (extent.end - extent.addr == length &&
					  extent.addr < best->addr);
		}
	}
	return tries;
}

/* What a place costs, cheapest first: chunks, then holes to be filled. */
struct price {
	unsigned long cost;
	unsigned long holes;
};

/* Is a busy byte in these granules, or one that a stream may still use? */
static bool model_is_fixed(struct model_range *range, unsigned long granule,
			   unsigned long end)
{
	bool fixed = find_next_bit(range->busy, end, granule) < end;
	unsigned int i;

	for (i = 0; i < MODEL_STREAMS; i++)
		fixed = fixed || find_next_bit(range->guarded[i], end, granule) < end;
	return fixed;
}

/*
 * A piece that a busy or guarded block shares is resident whatever is done; each
 * other one needs a chunk, from wherever. If memory stays where it is, each hole
 * does.
 */
static struct price model_price(struct model *model, struct model_range *range,
				u64 addr, u64 size)
{
	unsigned int ratio = range->owner->arena.chunk_shift - range->owner->granule_shift;
	unsigned long piece = piece_at(range, addr);
	unsigned long last = piece_at(range, addr + size - 1);
	struct price price = {};
	unsigned long end;

	for (; piece <= last; piece++) {
		end = (piece + 1) << ratio;
		price.cost += !model_is_fixed(range, piece << ratio, end);
		price.holes += range->pieces[piece] == PIECE_IS_HOLE;
		CHECK(model, range->pieces[piece] != PIECE_IS_LEAVING);
	}
	if (range->owner->arena.keeps_memory)
		price.cost = price.holes;
	return price;
}

static bool is_cheaper(const struct price *a, const struct price *b)
{
	return a->cost < b->cost || (a->cost == b->cost && a->holes < b->holes);
}

/*
 * All places in a gap and the cached extents beside it. Where a piece has many
 * granules only the lowest place in each piece and the highest of all: what a
 * place costs depends on the pieces in which it begins and ends, and the lowest
 * of those that begin in one piece ends in the first piece that it can.
 */
static void model_search_gap(struct model *model, const struct extent *gap,
			     const struct devpool_guards *guards, u64 size, u64 align,
			     struct price *best)
{
	struct model_range *range = gap->range;
	u64 start = gap->addr, end = gap->end;
	struct extent extent;
	struct price price;
	bool all;
	u64 addr;

	for (addr = range->range.base; addr < range->end; addr = extent.end) {
		extent = extent_at(range, addr);
		if (!is_usable_extent(&extent, guards) || range->owner->arena.no_split)
			continue;
		if (extent.end == gap->addr)
			start = extent.addr;
		if (extent.addr == gap->end)
			end = extent.end;
	}
	if (end - start < size)
		return;
	all = model->chunk >> range->owner->granule_shift <= 32;
	addr = ALIGN(start, align);
	while (addr + size <= end) {
		if (addr < gap->end && addr + size > gap->addr) {
			price = model_price(model, range, addr, size);
			if (is_cheaper(&price, best))
				*best = price;
		}
		addr = all ? addr + align : ALIGN(addr + 1, model->chunk);
	}
	addr = ALIGN_DOWN(end - size, align);
	if (!all && addr >= start && addr < gap->end && addr + size > gap->addr) {
		price = model_price(model, range, addr, size);
		if (is_cheaper(&price, best))
			*best = price;
	}
}

/* The cheapest place that there is; returns the number of gaps. */
static unsigned int model_search(struct model *model, struct model_arena *owner,
				 const struct devpool_guards *guards, u64 size, u64 align,
				 struct price *best)
{
	struct model_range *range;
	struct extent extent;
	unsigned int gaps = 0;
	u64 addr;

	list_for_each_entry(range, &owner->ranges, link) {
		for (addr = range->range.base; addr < range->end; addr = extent.end) {
			extent = extent_at(range, addr);
			if (extent.state != DEVPOOL_BLOCK_IS_VACANT || extent.leaving)
				continue;
			gaps++;
			model_search_gap(model, &extent, guards, size, align, best);
		}
	}
	return gaps;
}

/* A place that the arena has found, against the best one. */
static void model_check_place(struct model *model, const struct devpool_placement *place,
			      u64 size, u64 align, const struct price *best, bool is_exact)
{
	u64 addr = place->addr, end = place->addr + size;
	struct model_range *range = model_range(place->block->range);
	struct price price = model_price(model, range, addr, size);
	unsigned long piece, holes = 0;
	u64 hole_end;

	CHECK(model, place->size == size && IS_ALIGNED(addr, align));
	CHECK(model, !is_cheaper(&price, best));
	if (is_exact)
		CHECK(model, !is_cheaper(best, &price));
	CHECK(model, place->nr_holes && place->nr_holes == price.holes);

	/* The holes are one run, and a piece of them is the block's as a whole. */
	for (piece = piece_at(range, addr); piece <= piece_at(range, end - 1); piece++) {
		if (range->pieces[piece] != PIECE_IS_HOLE)
			continue;
		CHECK(model, piece_addr(range, piece) ==
			     place->hole + ((u64)holes << range->owner->arena.chunk_shift));
		holes++;
	}
	if (range->pieces[piece_at(range, addr)] == PIECE_IS_HOLE)
		addr = ALIGN_DOWN(addr, model->chunk);
	if (range->pieces[piece_at(range, end - 1)] == PIECE_IS_HOLE)
		end = ALIGN(end, model->chunk);
	CHECK(model, place->point_below == model_point(model, range, place->block->guards,
						       addr, max(addr, place->hole)));
	hole_end = place->hole + ((u64)holes << range->owner->arena.chunk_shift);
	CHECK(model, place->point_above == model_point(model, range, place->block->guards,
						       min(end, hole_end), end));
	model_claim(model, place->block, addr, end);
}

static void model_place(struct model *model, struct model_arena *owner,
			struct devpool_guards *guards, u64 size, u64 align)
{
	struct devpool_arena *arena = &owner->arena;
	struct devpool_placement place;
	struct model_block *block;
	struct price best;
	unsigned long i;
	bool is_exact;

	for (;;) {
		best = (struct price){ ULONG_MAX, ULONG_MAX };
		is_exact = model_search(model, owner, guards, size, align, &best) <=
			   DEVPOOL_SEARCH_MAX;
		if (devpool_arena_place(arena, guards, size, align, &place))
			break;
		/* There is none; more addresses always are a place. */
		CHECK(model, best.cost == ULONG_MAX || !is_exact);
		model_add_range(model, owner, (ALIGN(size, model->chunk) >> arena->chunk_shift) +
				below(model, model->geometry->pieces));
		model_stock_up(model, owner, size);
		is_exact = true;
	}
	CHECK(model, best.cost != ULONG_MAX);
	model_check_stock(model, owner);
	CHECK(model, place.block->guards == guards);
	model_check_place(model, &place, size, align, &best, is_exact);
	block = model_block(place.block);
	block->placed = true;
	block->place = place;
	for (i = 0; i < place.nr_holes; i++)
		KUNIT_ASSERT_EQ(model->test, 0,
				xa_reserve(&block->range->range.pieces,
					   piece_at(block->range, place.hole) + i,
					   GFP_KERNEL));
}

/* A request as a pool serves it, as far as the place. */
static void model_alloc(struct model *model, struct model_arena *owner, u64 size,
			u64 align)
{
	unsigned int stream = below(model, MODEL_STREAMS + 1);
	struct devpool_guards *guards = NULL;
	struct extent best = {};
	struct devpool_block *block;
	bool fits;

	if (stream < MODEL_STREAMS)
		guards = &owner->guards[stream];
	model_stock_up(model, owner, size);
	fits = model_best_fit(owner, guards, size, align, &best);
	block = devpool_arena_fit(&owner->arena, guards, size, align);
	model_check_stock(model, owner);
	CHECK(model, !!block == fits);
	if (!block) {
		model_place(model, owner, guards, size, align);
		return;
	}
	CHECK(model, block->guards == guards);
	CHECK(model, IS_ALIGNED(block->addr, align));
	if (owner->arena.no_split)
		size = block->size;
	if (block->addr != ALIGN(best.addr, align)) {
		/* What is certain, after so many that the alignment is against. */
		CHECK(model, model_tries(owner, guards, size, &best) >= DEVPOOL_SEARCH_MAX);
		best = extent_at(model_range(block->range), block->addr);
		CHECK(model, is_usable_extent(&best, guards));
		CHECK(model, best.end >= block->addr + size);
	}
	/* An arena that does not split has given all of it. */
	if (owner->arena.no_split)
		CHECK(model, block->addr == best.addr && size == best.end - best.addr);
	model_claim(model, block, block->addr, block->addr + size);
}

/*
 * What can be done to an arena
 */

static struct model_arena *model_any_arena(struct model *model)
{
	return &model->arenas[below(model, MODEL_ARENAS)];
}

static struct model_range *model_any_range(struct model *model,
					   struct model_arena *owner)
{
	unsigned long nr = below(model, owner->arena.nr_ranges);
	struct model_range *range;

	list_for_each_entry(range, &owner->ranges, link)
		if (!nr--)
			break;
	return range;
}

static void act_free(struct model *model)
{
	struct model_block *block = model_any_busy(model, false);
	struct model_arena *owner;
	struct model_range *range;
	u64 point = 0;

	if (!block)
		return;
	range = block->range;
	owner = range->owner;
	/* With work outstanding on its stream, or without */
	if (block->guards && !once_in(model, 3))
		point = 1 + below(model, MODEL_POINTS);
	/* Most blocks were handed out, and some were not after all. */
	if (!once_in(model, 8)) {
		block->block.zero = false;
		model_set(range, range->dirty, block->addr, block->end);
	}
	model_unclaim(model, block);
	model_guard(range, block->guards, block->addr, block->end, point);
	model_settle(range);
	devpool_arena_free(&owner->arena, &block->block, point);
	model_check_stock(model, owner);
}

/* A stream has come to a point: what waited for it, and that alone, is anybody's. */
static void model_reap(struct model *model, struct model_arena *owner,
		       struct devpool_guards *guards, u64 point)
{
	struct devpool_block *block;
	struct model_range *range;
	struct extent extent;
	u64 addr;

	list_for_each_entry(range, &owner->ranges, link) {
		for (addr = range->range.base; addr < range->end; addr = extent.end) {
			extent = extent_at(range, addr);
			if (extent.guards == guards && extent.point <= point)
				model_unguard(range, extent.addr, extent.end);
		}
		model_settle(range);
	}
	while ((block = devpool_guards_first(guards)) && block->point <= point) {
		devpool_arena_unguard(&owner->arena, block);
		model_check_stock(model, owner);
	}
}

static void act_reap(struct model *model)
{
	struct model_arena *owner = model_any_arena(model);

	model_reap(model, owner, &owner->guards[below(model, MODEL_STREAMS)],
		   below(model, MODEL_POINTS + 1));
}

static void act_alloc(struct model *model)
{
	struct model_arena *owner = model_any_arena(model);
	u64 size, align, unit = owner->unit;

	if (model->nr_busy >= model->target) {
		act_free(model);
		return;
	}
	if (once_in(model, 2))
		size = unit * (1 + below(model, max(model->chunk / unit, 1ULL)));
	else
		size = unit * (1 + below(model, model->geometry->pieces * (model->chunk / unit)));
	if (once_in(model, 6))
		size = ALIGN(size, model->chunk);
	if (owner->arena.no_split)
		size = ALIGN(size, model->chunk);
	align = 1ULL << owner->granule_shift;
	if (once_in(model, 3))
		align <<= below(model, owner->arena.chunk_shift - owner->granule_shift + 1);
	model_alloc(model, owner, size, align);
}

static void act_commit(struct model *model)
{
	struct model_block *block = model_any_busy(model, true);
	struct devpool_placement place;
	struct devpool_block *committed;
	struct model_range *range;
	unsigned long i, piece;
	u64 point;

	if (!block)
		return;
	range = block->range;
	place = block->place;
	for (i = 0; i < place.nr_holes; i++) {
		piece = piece_at(range, place.hole) + i;
		range->chunks[piece] = model_new_chunk(model);
		range->pieces[piece] = PIECE_IS_RESIDENT;
		devpool_arena_fill(&range->range, piece_addr(range, piece),
				   range->chunks[piece]);
	}
	/* As a pool does whose chunks are used ones. */
	if (once_in(model, 2)) {
		block->block.zero = false;
		model_set(range, range->dirty, block->addr, block->end);
	}
	point = block->point;
	model_unclaim(model, block);
	committed = devpool_arena_commit(&range->owner->arena, &place);
	model_check_stock(model, range->owner);
	model_claim(model, committed, place.addr, place.addr + place.size);
	model_block(committed)->point = point;
}

static void act_undo(struct model *model)
{
	struct model_block *block = model_any_busy(model, true);
	struct devpool_placement place;
	struct model_range *range;
	unsigned long i, piece;
	u64 end;

	if (!block)
		return;
	range = block->range;
	place = block->place;
	for (i = 0; i < block->place.nr_holes; i++) {
		piece = piece_at(range, block->place.hole) + i;
		xa_release(&range->range.pieces, piece);
		model_vacate(range, piece);
	}
	model_unclaim(model, block);
	end = place.hole + place.nr_holes * model->chunk;
	if (block->addr < place.hole)
		model_guard(range, block->guards, block->addr, place.hole,
			    place.point_below);
	if (end < block->end)
		model_guard(range, block->guards, end, block->end, place.point_above);
	model_settle(range);
	devpool_arena_undo(&range->owner->arena, &place);
	model_check_stock(model, range->owner);
}

/*
 * The cached extents that have something to give. If there are more than the
 * array holds, their number is larger than that.
 */
static unsigned int model_returnable(struct model_arena *owner, struct extent *extents)
{
	struct model_range *range;
	struct extent extent;
	unsigned int nr = 0;
	u64 addr;

	list_for_each_entry(range, &owner->ranges, link) {
		for (addr = range->range.base; addr < range->end; addr = extent.end) {
			extent = extent_at(range, addr);
			if (extent.state == DEVPOOL_BLOCK_IS_CACHED && extent.whole &&
			    nr++ < MODEL_EXTENTS)
				extents[nr - 1] = extent;
		}
	}
	return nr;
}

/* Part of an extent was taken: beside what is vacant, if anything there is. */
static void model_check_part(struct model *model, const struct extent *extent,
			     bool was_below, bool was_above)
{
	struct model_range *range = extent->range;
	bool below, above;

	if (!was_below && !was_above)
		return;
	below = range->pieces[piece_at(range, extent->addr)] == PIECE_IS_LEAVING;
	above = range->pieces[piece_at(range, extent->end - 1)] == PIECE_IS_LEAVING;
	CHECK(model, (was_below && below) || (was_above && above));
}

static void model_detach(struct model *model, struct model_arena *owner,
			 unsigned long max, struct list_head *chunks)
{
	bool was_below = false, was_above = false;
	struct extent *extents = model->extents, *from = NULL;
	struct devpool_chunk *chunk;
	unsigned long taken, nr = 0;
	unsigned int nr_extents, i;
	LIST_HEAD(detached);
	u64 next = 0;

	nr_extents = model_returnable(owner, extents);
	CHECK(model, nr_extents <= MODEL_EXTENTS);

	taken = devpool_arena_detach(&owner->arena, max, &detached);
	model_check_stock(model, owner);

	list_for_each_entry(chunk, &detached, link) {
		struct model_range *range = model_range(chunk->range);
		unsigned long piece = piece_at(range, chunk->addr);

		/* One extent after the other, in the order of addresses. */
		if (!from || chunk->addr >= from->end || chunk->addr < from->addr) {
			CHECK(model, !from || from->taken == from->whole);
			for (i = 0; i < nr_extents; i++)
				if (chunk->addr >= extents[i].addr &&
				    chunk->addr < extents[i].end)
					break;
			CHECK(model, i < nr_extents && !extents[i].taken);
			from = &extents[i];
			was_below = model_is_vacant(range, from->addr - 1);
			was_above = model_is_vacant(range, from->end);
		} else {
			CHECK(model, chunk->addr == next);
		}
		next = chunk->addr + model->chunk;
		from->taken++;
		nr++;
		CHECK(model, from->range == range && next <= from->end);
		CHECK(model, range->pieces[piece] == PIECE_IS_RESIDENT);
		CHECK(model, range->chunks[piece] == chunk);
		range->pieces[piece] = PIECE_IS_LEAVING;
		model_vacate(range, piece);
		/* What stays of a cached block begins here, if anything does. */
		if (owner->arena.no_split && next < from->end &&
		    range->pieces[piece + 1] == PIECE_IS_RESIDENT)
			__set_bit(granule_at(range, next), range->first);
	}
	CHECK(model, taken == nr);
	if (from && from->taken < from->whole)
		model_check_part(model, from, was_below, was_above);
	for (i = 0; i < nr_extents && taken < max; i++)
		CHECK(model, extents[i].taken == extents[i].whole);
	CHECK(model, taken <= max);
	list_splice_tail(&detached, chunks);
}

static void act_detach(struct model *model)
{
	unsigned int i, first = below(model, MODEL_ARENAS);
	unsigned long max = ULONG_MAX;

	for (i = 0; !list_empty(&model->flushes[i]); i++)
		if (i == MODEL_FLUSHES - 1)
			return;
	if (!once_in(model, 3))
		max = below(model, 6);
	model_detach(model, &model->arenas[first], max, &model->flushes[i]);
	if (once_in(model, 2))
		model_detach(model, &model->arenas[!first], max, &model->flushes[i]);
}

static void model_detached(struct model *model, struct list_head *chunks)
{
	struct devpool_chunk *chunk, *next;
	unsigned int i;

	for (i = 0; i < MODEL_ARENAS; i++)
		devpool_arena_detached(&model->arenas[i].arena, chunks);
	list_for_each_entry_safe(chunk, next, chunks, link) {
		struct model_range *range = model_range(chunk->range);
		unsigned long piece = piece_at(range, chunk->addr);

		range->pieces[piece] = PIECE_IS_HOLE;
		range->chunks[piece] = NULL;
		list_del(&chunk->link);
		model_drop_chunk(chunk);
	}
}

static void act_detached(struct model *model)
{
	model_detached(model, &model->flushes[below(model, MODEL_FLUSHES)]);
}

static void act_surplus(struct model *model)
{
	struct model_arena *owner = model_any_arena(model);
	struct devpool_arena *arena = &owner->arena;
	unsigned long before = arena->nr_stock;
	struct devpool_block *block;

	while ((block = devpool_arena_surplus(arena)))
		model_drop_struct(model, block);
	CHECK(model, arena->nr_stock == before || arena->nr_stock >= DEVPOOL_STOCK_KEPT);
	/* It keeps what any of the blocks that it had asks for again. */
	CHECK(model, arena->nr_stock <= DEVPOOL_STOCK_KEPT +
				       2 * (arena->nr_busy + arena->nr_guarded +
					    arena->nr_ranges + arena->nr_reserved));
}

static void act_drain(struct model *model)
{
	model_drain(model, model_any_arena(model));
}

static void act_add_range(struct model *model)
{
	struct model_arena *owner = model_any_arena(model);

	if (owner->arena.nr_ranges < 4)
		model_add_range(model, owner, 1 + below(model, model->geometry->pieces));
}

static void act_remove_range(struct model *model)
{
	struct model_arena *owner = model_any_arena(model);
	struct model_range *range = model_any_range(model, owner);
	struct extent extent = extent_at(range, range->range.base);

	if (&range->range == owner->first || extent.end != range->end ||
	    extent.state != DEVPOOL_BLOCK_IS_VACANT || extent.leaving)
		return;
	model_remove_range(model, range);
}

static const struct act {
	const char *name;
	void (*act)(struct model *model);
	/* Of how much of it a round has, at the least and at the most. */
	unsigned int least;
	unsigned int most;
} acts[] = {
	{ "alloc", act_alloc, 2, 20 },
	{ "free", act_free, 1, 15 },
	{ "reap", act_reap, 0, 4 },
	{ "commit", act_commit, 1, 12 },
	{ "undo", act_undo, 0, 3 },
	{ "detach", act_detach, 0, 6 },
	{ "detached", act_detached, 1, 8 },
	{ "surplus", act_surplus, 0, 3 },
	{ "drain", act_drain, 0, 1 },
	{ "add_range", act_add_range, 0, 1 },
	{ "remove_range", act_remove_range, 0, 1 },
};

static void model_act(struct model *model, const struct act *act)
{
	model->act = act->name;
	act->act(model);
	model->step++;
}

static struct model *model_make(struct kunit *test, const struct geometry *geometry)
{
	struct model *model = kunit_kzalloc(test, sizeof(*model), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, model);
	model->test = test;
	model->geometry = geometry;
	model->chunk = 1ULL << geometry->chunk_shift;
	INIT_LIST_HEAD(&model->structs);
	INIT_LIST_HEAD(&model->chunks);
	for (i = 0; i < MODEL_FLUSHES; i++)
		INIT_LIST_HEAD(&model->flushes[i]);
	for (i = 0; i < MODEL_ARENAS; i++)
		INIT_LIST_HEAD(&model->arenas[i].ranges);
	test->priv = model;
	devpool_kunit_seed(test, &model->rnd, geometry->chunk_shift);
	return model;
}

/* How many blocks are to be busy for a while. */
static void model_set_target(struct model *model)
{
	model->target = 4 + below(model, once_in(model, 4) ? MODEL_BUSY - 4 : 40);
}

static void model_begin(struct model *model)
{
	const struct geometry *geometry = model->geometry;
	struct model_arena *owner;
	unsigned int i, j;

	model->act = "begin";
	model_set_target(model);
	/* The first addresses, or the last. */
	model->next_base = model->chunk;
	if (once_in(model, 4))
		model->next_base = (1ULL << 62) - (model->chunk << 10);
	model->no_split = once_in(model, 4);
	model->keeps_memory = once_in(model, 4);
	for (i = 0; i < MODEL_ARENAS; i++) {
		owner = &model->arenas[i];
		owner->granule_shift = geometry->granule_shift[i];
		owner->unit = 1ULL << owner->granule_shift;
		if (once_in(model, 2))
			owner->unit = max(owner->unit,
					  model->chunk >> (1 + below(model, 4)));
		owner->first = NULL;
		devpool_arena_init(&owner->arena, geometry->chunk_shift, model->no_split,
				   model->keeps_memory);
		for (j = 0; j < MODEL_STREAMS; j++) {
			owner->guards[j].fit = RB_ROOT;
			owner->guards[j].by_point = RB_ROOT_CACHED;
		}
		for (j = 0; j < MODEL_RESERVE; j++) {
			owner->reserve[j] = model_block(model_new_struct(model));
			owner->reserve[j]->block.size = 0;
			hlist_add_head(&owner->reserve[j]->block.node, &owner->arena.stock);
		}
		model_add_range(model, owner, 1 + below(model, 3 * geometry->pieces));
	}
}

/* Takes all apart, with nothing left over. */
static void model_end(struct model *model)
{
	struct devpool_arena *arena;
	struct model_arena *owner;
	unsigned int i, j;

	model->act = "end";
	while (model_any_busy(model, true)) {
		if (once_in(model, 2))
			act_commit(model);
		else
			act_undo(model);
	}
	while (model->nr_busy)
		act_free(model);
	model_check(model, true);
	act_detached(model);
	for (i = 0; i < MODEL_ARENAS; i++) {
		owner = &model->arenas[i];
		for (j = 0; j < MODEL_STREAMS; j++)
			model_reap(model, owner, &owner->guards[j], MODEL_POINTS);
		model_check(model, true);
		model_detach(model, &model->arenas[i], ULONG_MAX, &model->flushes[0]);
		CHECK(model, !model->arenas[i].arena.nr_resident);
	}
	for (i = 0; i < MODEL_FLUSHES; i++)
		model_detached(model, &model->flushes[i]);
	model_check(model, true);
	CHECK(model, list_empty(&model->chunks));

	for (i = 0; i < MODEL_ARENAS; i++) {
		owner = &model->arenas[i];
		arena = &owner->arena;
		while (!list_empty(&owner->ranges))
			model_remove_range(model, list_first_entry(&owner->ranges,
								   struct model_range, link));
		CHECK(model, RB_EMPTY_ROOT(&arena->fit) && RB_EMPTY_ROOT(&arena->gaps));
		CHECK(model, list_empty(&arena->ranges) && !arena->nr_ranges);
		CHECK(model, list_empty(&arena->returnable));
		while (arena->nr_stock)
			model_drop_struct(model, stock_pop(arena));
		for (j = 0; j < MODEL_RESERVE; j++) {
			hlist_del(&owner->reserve[j]->block.node);
			model_drop_struct(model, &owner->reserve[j]->block);
		}
		CHECK(model, hlist_empty(&arena->stock));
	}
	CHECK(model, !model->nr_structs);
	model->round++;
}

/* Frees what a test that failed has left. */
static void arena_kunit_exit(struct kunit *test)
{
	struct model *model = test->priv;
	struct model_range *range, *next_range;
	struct model_chunk *chunk, *next_chunk;
	struct model_block *block, *next;
	unsigned int i;

	if (!model)
		return;
	for (i = 0; i < MODEL_ARENAS; i++) {
		list_for_each_entry_safe(range, next_range, &model->arenas[i].ranges, link) {
			xa_destroy(&range->range.pieces);
			model_free_range(range);
		}
	}
	list_for_each_entry_safe(block, next, &model->structs, link)
		kfree(block);
	list_for_each_entry_safe(chunk, next_chunk, &model->chunks, link)
		kfree(chunk);
}

/*
 * The tests
 */

/* Anything in any order, everything counted after each step. */
static void arena_random(struct kunit *test)
{
	struct model *model = model_make(test, test->param_value);
	unsigned int weights[ARRAY_SIZE(acts)];
	unsigned int i, sum, steps, pick;

	while (model->step < devpool_kunit_steps) {
		model_begin(model);
		for (i = sum = 0; i < ARRAY_SIZE(acts); i++) {
			weights[i] = acts[i].least +
				     below(model, acts[i].most - acts[i].least + 1);
			sum += weights[i];
		}
		for (steps = 50 + below(model, 400); steps; steps--) {
			if (once_in(model, 100))
				model_set_target(model);
			pick = below(model, sum);
			for (i = 0; pick >= weights[i]; i++)
				pick -= weights[i];
			model_act(model, &acts[i]);
			model_check(model, once_in(model, 16));
		}
		model_end(model);
	}
}

/* Could a request be served without more addresses? */
static bool model_has_room(struct model *model, struct model_arena *owner, u64 size,
			   u64 align)
{
	struct price best = { ULONG_MAX, ULONG_MAX };
	struct extent fit = {};

	if (model_best_fit(owner, NULL, size, align, &fit))
		return true;
	model_search(model, owner, NULL, size, align, &best);
	return best.cost != ULONG_MAX;
}

static u64 stock_size(struct model *model, u64 unit)
{
	unsigned int units = model->chunk / unit;

	switch (below(model, 4)) {
	case 0:
		return model->chunk * (1 + below(model, 3)) - unit * below(model, units);
	case 1:
		return unit * (1 + below(model, 3 * units));
	default:
		return unit * (1 + below(model, 2));
	}
}

/*
 * What wants() asks for is enough, whatever comes then: full ranges, of which
 * parts become free and lose their chunks, with no struct more than what the
 * arena says it needs.
 */
static void arena_stock_suffices(struct kunit *test)
{
	struct model *model = model_make(test, &geometries[0]);
	struct model_arena *owner = &model->arenas[0];
	unsigned int i, nr, most;
	u64 size;

	while (model->step < devpool_kunit_steps) {
		model_begin(model);
		model->act = "fill";
		owner->unit = model->chunk >> (1 + below(model, 3));
		for (i = 0; i < 80 && model->nr_busy < MODEL_BUSY; i++) {
			size = stock_size(model, owner->unit);
			if (model->no_split)
				size = ALIGN(size, model->chunk);
			if (model_has_room(model, owner, size, owner->unit))
				model_alloc(model, owner, size, owner->unit);
			if (once_in(model, 8))
				act_free(model);
			if (once_in(model, 4))
				act_commit(model);
		}
		while (!once_in(model, 8) && model_any_busy(model, true))
			act_commit(model);
		model_check(model, true);

		model->act = "empty";
		most = 1 + below(model, 3);
		for (nr = below(model, model->nr_busy + 1); nr; nr--)
			act_free(model);
		for (nr = 2 + below(model, 12); nr; nr--) {
			model_drain(model, owner);
			if (once_in(model, 3))
				act_free(model);
			if (once_in(model, 6))
				act_undo(model);
			if (once_in(model, 6))
				act_commit(model);
			if (once_in(model, 3))
				act_reap(model);
			model_detach(model, owner, 1 + below(model, most),
				     &model->flushes[0]);
			if (!once_in(model, 4))
				model_detached(model, &model->flushes[0]);
			model->step++;
		}
		model_check(model, true);
		model_end(model);
	}
}

/*
 * A small arena by itself, for what is told best by example
 */

#define PLAIN_CHUNK SZ_2M
#define PLAIN_BASE (4ULL * PLAIN_CHUNK)
#define PLAIN_STRUCTS 400
#define PLAIN_CHUNKS 400

struct plain {
	struct kunit *test;
	struct devpool_arena arena;
	struct devpool_range range;
	struct devpool_block structs[PLAIN_STRUCTS];
	struct devpool_chunk chunks[PLAIN_CHUNKS];
	unsigned int nr_structs;
	unsigned int nr_chunks;
};

static void plain_exit(void *data)
{
	struct plain *plain = data;

	xa_destroy(&plain->range.pieces);
}

static struct plain *plain_make(struct kunit *test, unsigned long pieces)
{
	struct plain *plain = kunit_kzalloc(test, sizeof(*plain), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, plain);
	plain->test = test;
	devpool_arena_init(&plain->arena, ilog2(PLAIN_CHUNK), false, false);
	devpool_range_init(&plain->range, &plain->arena, PLAIN_BASE,
			   (u64)pieces * PLAIN_CHUNK);
	devpool_arena_add_range(&plain->arena, &plain->range,
				&plain->structs[plain->nr_structs++]);
	KUNIT_ASSERT_EQ(test, 0, kunit_add_action_or_reset(test, plain_exit, plain));
	return plain;
}

static void plain_stock_up(struct plain *plain, u64 size)
{
	while (devpool_arena_wants(&plain->arena, size)) {
		KUNIT_ASSERT_LT(plain->test, plain->nr_structs, PLAIN_STRUCTS);
		devpool_arena_donate(&plain->arena, &plain->structs[plain->nr_structs++]);
	}
}

static bool plain_place(struct plain *plain, u64 size, u64 align,
			struct devpool_placement *place)
{
	unsigned long i, piece;

	plain_stock_up(plain, size);
	if (!devpool_arena_place(&plain->arena, NULL, size, align, place))
		return false;
	piece = devpool_range_piece(&plain->range, place->hole);
	for (i = 0; i < place->nr_holes; i++)
		KUNIT_ASSERT_EQ(plain->test, 0,
				xa_reserve(&plain->range.pieces, piece + i, GFP_KERNEL));
	return true;
}

static struct devpool_block *plain_commit(struct plain *plain,
					  struct devpool_placement *place)
{
	unsigned long i;

	for (i = 0; i < place->nr_holes; i++) {
		KUNIT_ASSERT_LT(plain->test, plain->nr_chunks, PLAIN_CHUNKS);
		devpool_arena_fill(&plain->range, place->hole + i * PLAIN_CHUNK,
				   &plain->chunks[plain->nr_chunks++]);
	}
	return devpool_arena_commit(&plain->arena, place);
}

static struct devpool_block *plain_alloc(struct plain *plain, u64 size)
{
	struct devpool_placement place;
	struct devpool_block *block;

	plain_stock_up(plain, size);
	block = devpool_arena_fit(&plain->arena, NULL, size, SZ_4K);
	if (block)
		return block;
	KUNIT_ASSERT_TRUE(plain->test, plain_place(plain, size, SZ_4K, &place));
	return plain_commit(plain, &place);
}

/* Takes chunks out at once, and tells which was the first. */
static u64 plain_flush(struct plain *plain, unsigned long nr)
{
	struct devpool_chunk *chunk;
	LIST_HEAD(chunks);

	KUNIT_EXPECT_EQ(plain->test, nr, devpool_arena_detach(&plain->arena, nr, &chunks));
	devpool_arena_detached(&plain->arena, &chunks);
	chunk = list_first_entry_or_null(&chunks, struct devpool_chunk, link);
	return chunk ? chunk->addr : 0;
}

/* An arena without addresses has nothing, and no call minds. */
static void arena_empty(struct kunit *test)
{
	struct devpool_placement place;
	struct devpool_arena arena;
	LIST_HEAD(chunks);

	devpool_arena_init(&arena, ilog2(PLAIN_CHUNK), false, false);
	KUNIT_EXPECT_NULL(test, devpool_arena_fit(&arena, NULL, SZ_4K, SZ_4K));
	KUNIT_EXPECT_FALSE(test, devpool_arena_place(&arena, NULL, SZ_4K, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, 0, devpool_arena_detach(&arena, ULONG_MAX, &chunks));
	devpool_arena_detached(&arena, &chunks);
	KUNIT_EXPECT_NULL(test, devpool_arena_surplus(&arena));
	KUNIT_EXPECT_GT(test, devpool_arena_wants(&arena, SZ_4K), 0);
	KUNIT_EXPECT_EQ(test, 0, arena.nr_reserved);
}

/* What does not fit is refused and changes nothing. */
static void arena_refuses(struct kunit *test)
{
	static const u64 too_large[] = {
		4 * PLAIN_CHUNK + SZ_4K, 5 * PLAIN_CHUNK, 1ULL << 40, 1ULL << 62,
	};
	struct plain *plain = plain_make(test, 4);
	struct devpool_arena *arena = &plain->arena;
	struct devpool_placement place;
	struct devpool_block *block;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(too_large); i++) {
		KUNIT_EXPECT_NULL(test, devpool_arena_fit(arena, NULL, too_large[i], SZ_4K));
		KUNIT_EXPECT_FALSE(test, devpool_arena_place(arena, NULL, too_large[i], SZ_4K,
							     &place));
		KUNIT_EXPECT_FALSE(test, devpool_arena_place(arena, NULL, too_large[i],
							     PLAIN_CHUNK, &place));
	}
	KUNIT_EXPECT_EQ(test, 0, arena->nr_reserved);
	KUNIT_EXPECT_EQ(test, 0, arena->nr_busy);
	KUNIT_EXPECT_NULL(test, devpool_range_chunk(&plain->range, PLAIN_BASE));
	KUNIT_EXPECT_NULL(test, devpool_range_find(&plain->range, PLAIN_BASE - 1));
	KUNIT_EXPECT_NULL(test, devpool_range_find(&plain->range,
						   PLAIN_BASE + 4 * PLAIN_CHUNK));
	KUNIT_EXPECT_NULL(test, devpool_range_find(&plain->range, 0));
	KUNIT_EXPECT_NULL(test, devpool_range_find(&plain->range, U64_MAX));

	/* All of it, to the last byte; then nothing. */
	block = plain_alloc(plain, 4 * PLAIN_CHUNK);
	KUNIT_EXPECT_EQ(test, PLAIN_BASE, block->addr);
	KUNIT_EXPECT_EQ(test, 4, arena->nr_resident);
	KUNIT_EXPECT_NULL(test, devpool_arena_fit(arena, NULL, SZ_4K, SZ_4K));
	KUNIT_EXPECT_FALSE(test, plain_place(plain, SZ_4K, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, 0, plain_flush(plain, 0));

	devpool_arena_free(arena, block, 0);
	KUNIT_EXPECT_NULL(test, devpool_arena_fit(arena, NULL, 4 * PLAIN_CHUNK + SZ_4K, SZ_4K));
	KUNIT_EXPECT_FALSE(test, plain_place(plain, 4 * PLAIN_CHUNK + SZ_4K, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, PLAIN_BASE, plain_flush(plain, 4));
	devpool_arena_remove_range(arena, &plain->range);
	KUNIT_EXPECT_EQ(test, 0, arena->nr_ranges);
	KUNIT_EXPECT_TRUE(test, RB_EMPTY_ROOT(&arena->gaps));
}

/* Addresses that are leaving are nobody's until they have left. */
static void arena_leaving_is_not_handed_out(struct kunit *test)
{
	struct plain *plain = plain_make(test, 4);
	struct devpool_arena *arena = &plain->arena;
	struct devpool_placement place;
	LIST_HEAD(chunks);

	devpool_arena_free(arena, plain_alloc(plain, PLAIN_CHUNK), 0);
	KUNIT_EXPECT_EQ(test, 1, devpool_arena_detach(arena, 1, &chunks));
	KUNIT_EXPECT_EQ(test, 1, arena->nr_leaving);
	KUNIT_EXPECT_EQ(test, 0, arena->nr_resident);
	KUNIT_EXPECT_NULL(test, devpool_range_chunk(&plain->range, PLAIN_BASE));
	KUNIT_EXPECT_NULL(test, devpool_arena_fit(arena, NULL, SZ_4K, SZ_4K));
	KUNIT_EXPECT_FALSE(test, plain_place(plain, SZ_4K, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, 0, devpool_arena_detach(arena, ULONG_MAX, &chunks));

	devpool_arena_detached(arena, &chunks);
	KUNIT_EXPECT_EQ(test, 0, arena->nr_leaving);
	KUNIT_EXPECT_TRUE(test, plain_place(plain, 4 * PLAIN_CHUNK, SZ_4K, &place));
	devpool_arena_free(arena, plain_commit(plain, &place), 0);
}

/* A placement that is given up leaves no trace, whatever it began and ended in. */
static void arena_undo_restores(struct kunit *test)
{
	struct plain *plain = plain_make(test, 8);
	struct devpool_arena *arena = &plain->arena;
	struct devpool_block *lower, *upper, *gap;
	struct devpool_placement place;

	/* Half of the first piece, and of the last. */
	lower = plain_alloc(plain, PLAIN_CHUNK / 2);
	gap = plain_alloc(plain, 7 * PLAIN_CHUNK);
	upper = plain_alloc(plain, PLAIN_CHUNK / 2);
	devpool_arena_free(arena, gap, 0);
	plain_flush(plain, 6);
	KUNIT_ASSERT_EQ(test, 2, arena->nr_resident);

	KUNIT_ASSERT_TRUE(test, plain_place(plain, 7 * PLAIN_CHUNK, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, 6, place.nr_holes);
	KUNIT_EXPECT_EQ(test, PLAIN_BASE + PLAIN_CHUNK, place.hole);
	KUNIT_EXPECT_EQ(test, lower->addr + lower->size, place.addr);
	KUNIT_EXPECT_EQ(test, 1, arena->nr_reserved);
	KUNIT_EXPECT_EQ(test, 6, arena->nr_planned);
	KUNIT_EXPECT_EQ(test, 3, arena->nr_busy);
	devpool_arena_undo(arena, &place);
	KUNIT_EXPECT_EQ(test, 0, arena->nr_reserved);
	KUNIT_EXPECT_EQ(test, 0, arena->nr_planned);
	KUNIT_EXPECT_EQ(test, 2, arena->nr_busy);
	KUNIT_EXPECT_EQ(test, 2, arena->nr_resident);

	/* Both halves are cached again, and the gap is one. */
	gap = devpool_range_find(&plain->range, PLAIN_BASE + PLAIN_CHUNK);
	KUNIT_EXPECT_EQ(test, DEVPOOL_BLOCK_IS_VACANT, gap->state);
	KUNIT_EXPECT_EQ(test, 6 * PLAIN_CHUNK, gap->size);
	gap = devpool_arena_fit(arena, NULL, PLAIN_CHUNK / 2, SZ_4K);
	KUNIT_ASSERT_NOT_NULL(test, gap);
	KUNIT_EXPECT_EQ(test, lower->addr + lower->size, gap->addr);
	gap = devpool_arena_fit(arena, NULL, PLAIN_CHUNK / 2, SZ_4K);
	KUNIT_ASSERT_NOT_NULL(test, gap);
	KUNIT_EXPECT_EQ(test, upper->addr, gap->addr + gap->size);
}

/* The figures that the design works out: what is free is extended or moved. */
static void arena_fewest_chunks(struct kunit *test)
{
	struct plain *plain = plain_make(test, 200);
	struct devpool_arena *arena = &plain->arena;
	struct devpool_block *blocks[3];
	struct devpool_placement place;
	unsigned int i;

	/* 60 MiB, then 70: 10 more are needed. */
	devpool_arena_free(arena, plain_alloc(plain, 60 * SZ_1M), 0);
	KUNIT_ASSERT_TRUE(test, plain_place(plain, 70 * SZ_1M, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, 5, place.nr_holes);
	KUNIT_EXPECT_EQ(test, PLAIN_BASE, place.addr);
	devpool_arena_free(arena, plain_commit(plain, &place), 0);
	plain_flush(plain, 35);

	/* 20, 20, 20; without the first and third, 40: ten are moved. */
	for (i = 0; i < ARRAY_SIZE(blocks); i++)
		blocks[i] = plain_alloc(plain, 20 * SZ_1M);
	devpool_arena_free(arena, blocks[0], 0);
	devpool_arena_free(arena, blocks[2], 0);
	KUNIT_ASSERT_TRUE(test, plain_place(plain, 40 * SZ_1M, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, blocks[1]->addr + 20 * SZ_1M, place.addr);
	KUNIT_EXPECT_EQ(test, 10, place.nr_holes);
	KUNIT_EXPECT_EQ(test, 10, arena->nr_returnable);
	KUNIT_EXPECT_EQ(test, PLAIN_BASE, plain_flush(plain, 10));
	devpool_arena_free(arena, plain_commit(plain, &place), 0);
	KUNIT_EXPECT_EQ(test, 30, arena->nr_resident);
}

/*
 * Two places for two and a half pieces: two vacant pieces with half of a shared one
 * above or below them, which comes first; and one vacant piece that lies above two
 * cached ones.
 */
static struct plain *plain_two_places(struct kunit *test, bool is_above, u64 *first,
				      u64 *second)
{
	struct devpool_block *shared, *cached;
	struct plain *plain = plain_make(test, 16);
	const u64 half = PLAIN_CHUNK / 2;

	if (!is_above)
		plain_alloc(plain, half);
	shared = plain_alloc(plain, 2 * PLAIN_CHUNK + half);
	if (is_above)
		plain_alloc(plain, half);
	plain_alloc(plain, PLAIN_CHUNK);
	cached = plain_alloc(plain, 2 * PLAIN_CHUNK);
	*first = shared->addr;
	*second = cached->addr;
	devpool_arena_free(&plain->arena, shared, 0);
	KUNIT_EXPECT_EQ(test, ALIGN(*first, PLAIN_CHUNK), plain_flush(plain, 2));
	devpool_arena_free(&plain->arena, cached, 0);
	return plain;
}

/*
 * A piece that a busy block shares costs nothing, at either end of a place: two
 * chunks are less than three, though of those three only one would be a hole.
 */
static void arena_shared_pieces_are_free(struct kunit *test)
{
	struct devpool_placement place;
	unsigned int is_above;
	struct plain *plain;
	u64 first, second;

	for (is_above = 0; is_above < 2; is_above++) {
		plain = plain_two_places(test, is_above, &first, &second);
		KUNIT_ASSERT_TRUE(test, plain_place(plain, 5 * PLAIN_CHUNK / 2,
						    PLAIN_CHUNK / 2, &place));
		KUNIT_EXPECT_EQ(test, first, place.addr);
		KUNIT_EXPECT_EQ(test, 2, place.nr_holes);
		plain_commit(plain, &place);
	}
}

/* Where memory stays behind its addresses holes are all that counts. */
static void arena_fewest_holes(struct kunit *test)
{
	struct devpool_placement place;
	unsigned int is_above;
	struct plain *plain;
	u64 first, second;

	for (is_above = 0; is_above < 2; is_above++) {
		plain = plain_two_places(test, is_above, &first, &second);
		plain->arena.keeps_memory = true;
		KUNIT_ASSERT_TRUE(test, plain_place(plain, 5 * PLAIN_CHUNK / 2,
						    PLAIN_CHUNK / 2, &place));
		KUNIT_EXPECT_EQ(test, second, place.addr);
		KUNIT_EXPECT_EQ(test, 1, place.nr_holes);
		plain_commit(plain, &place);
	}
}

/* Blocks of an arena that does not split are had as they were, and never joined. */
static void arena_whole_blocks(struct kunit *test)
{
	struct plain *plain = plain_make(test, 16);
	struct devpool_block *blocks[3], *block;
	struct devpool_placement place;
	unsigned int i;

	plain->arena.no_split = true;
	for (i = 0; i < ARRAY_SIZE(blocks); i++)
		blocks[i] = plain_alloc(plain, 2 * PLAIN_CHUNK);
	for (i = 0; i < ARRAY_SIZE(blocks); i++)
		devpool_arena_free(&plain->arena, blocks[i], 0);

	/* Six pieces are cached side by side, but no block of three. */
	plain_stock_up(plain, 3 * PLAIN_CHUNK);
	KUNIT_EXPECT_NULL(test, devpool_arena_fit(&plain->arena, NULL, 3 * PLAIN_CHUNK, SZ_4K));
	KUNIT_ASSERT_TRUE(test, plain_place(plain, 3 * PLAIN_CHUNK, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, PLAIN_BASE + 6 * PLAIN_CHUNK, place.addr);
	KUNIT_EXPECT_EQ(test, 3, place.nr_holes);
	devpool_arena_undo(&plain->arena, &place);

	/* Who wants one piece gets a block of two. */
	block = plain_alloc(plain, PLAIN_CHUNK);
	KUNIT_EXPECT_EQ(test, PLAIN_BASE, block->addr);
	KUNIT_EXPECT_EQ(test, 2 * PLAIN_CHUNK, block->size);
	devpool_arena_free(&plain->arena, block, 0);

	/* Unless what is left of it is one. */
	KUNIT_EXPECT_EQ(test, PLAIN_BASE + 3 * PLAIN_CHUNK, plain_flush(plain, 1));
	block = plain_alloc(plain, PLAIN_CHUNK);
	KUNIT_EXPECT_EQ(test, PLAIN_BASE + 2 * PLAIN_CHUNK, block->addr);
	KUNIT_EXPECT_EQ(test, PLAIN_CHUNK, block->size);
}

/* Of blocks of one size the lowest, however they came to be free. */
static void arena_lowest_of_equals(struct kunit *test)
{
	static const u8 order[] = { 4, 1, 3, 0, 2 };
	struct devpool_block *block, *blocks[ARRAY_SIZE(order)];
	struct plain *plain = plain_make(test, 32);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(order); i++) {
		blocks[i] = plain_alloc(plain, 2 * PLAIN_CHUNK);
		plain_alloc(plain, PLAIN_CHUNK);
	}
	for (i = 0; i < ARRAY_SIZE(order); i++)
		devpool_arena_free(&plain->arena, blocks[order[i]], 0);
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		block = plain_alloc(plain, 2 * PLAIN_CHUNK);
		KUNIT_EXPECT_EQ(test, PLAIN_BASE + i * 3 * PLAIN_CHUNK, block->addr);
	}
	KUNIT_EXPECT_EQ(test, 15, plain->arena.nr_resident);
}

/* What has been cached longest goes first, and all of it before another. */
static void arena_longest_cached_first(struct kunit *test)
{
	static const u8 order[] = { 2, 0, 3, 1 };
	struct plain *plain = plain_make(test, 32);
	struct devpool_block *blocks[ARRAY_SIZE(order)];
	unsigned int i, j;
	u64 addr;

	for (i = 0; i < ARRAY_SIZE(order); i++) {
		blocks[i] = plain_alloc(plain, 4 * PLAIN_CHUNK);
		plain_alloc(plain, PLAIN_CHUNK);
	}
	for (i = 0; i < ARRAY_SIZE(order); i++)
		devpool_arena_free(&plain->arena, blocks[order[i]], 0);
	for (i = 0; i < ARRAY_SIZE(order); i++) {
		for (j = 0; j < 4; j++) {
			addr = plain_flush(plain, 1);
			KUNIT_EXPECT_EQ(test, order[i], (addr - PLAIN_BASE) / (5 * PLAIN_CHUNK));
		}
	}
	KUNIT_EXPECT_EQ(test, 4, plain->arena.nr_resident);
	KUNIT_EXPECT_EQ(test, 0, plain->arena.nr_returnable);
}

/* Of an arena that nobody writes to what is zero comes out clean, and nothing else. */
static void arena_zero_comes_out_clean(struct kunit *test)
{
	static const bool zero[] = { true, false, true };
	struct plain *plain = plain_make(test, 32);
	struct devpool_block *blocks[ARRAY_SIZE(zero)];
	unsigned int keeps, i;

	for (keeps = 0; keeps < 2; keeps++) {
		plain->arena.keeps_zero = keeps;
		plain->nr_chunks = 0;
		memset(plain->chunks, 0, sizeof(plain->chunks));
		for (i = 0; i < ARRAY_SIZE(zero); i++) {
			blocks[i] = plain_alloc(plain, PLAIN_CHUNK);
			plain_alloc(plain, PLAIN_CHUNK);
		}
		for (i = 0; i < ARRAY_SIZE(zero); i++) {
			blocks[i]->zero = zero[i];
			devpool_arena_free(&plain->arena, blocks[i], 0);
		}
		plain_flush(plain, ARRAY_SIZE(zero));
		for (i = 0; i < ARRAY_SIZE(zero); i++)
			KUNIT_EXPECT_EQ(test, keeps && zero[i],
					plain->chunks[2 * i].flags & DEVPOOL_CHUNK_CLEAN);
	}
}

/* Beyond what the search looks at, it takes what is certain. */
static void arena_bounded_fit(struct kunit *test)
{
	struct devpool_block *block, *halves[DEVPOOL_SEARCH_MAX + 8], *whole, *two;
	struct plain *plain = plain_make(test, PLAIN_CHUNKS);
	struct devpool_arena *arena = &plain->arena;
	const u64 half = PLAIN_CHUNK / 2;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(halves); i++) {
		plain_alloc(plain, half);
		halves[i] = plain_alloc(plain, half);
	}
	plain_alloc(plain, PLAIN_CHUNK);
	whole = plain_alloc(plain, PLAIN_CHUNK);
	plain_alloc(plain, PLAIN_CHUNK);
	two = plain_alloc(plain, 2 * PLAIN_CHUNK);
	plain_alloc(plain, PLAIN_CHUNK);

	/* The upper half of a piece never does. */
	for (i = 0; i < ARRAY_SIZE(halves); i++)
		devpool_arena_free(arena, halves[i], 0);
	plain_stock_up(plain, half);
	KUNIT_EXPECT_NULL(test, devpool_arena_fit(arena, NULL, half, PLAIN_CHUNK));

	/* The only one that does is found, though it is by luck that it does. */
	devpool_arena_free(arena, whole, 0);
	block = devpool_arena_fit(arena, NULL, half, PLAIN_CHUNK);
	KUNIT_ASSERT_NOT_NULL(test, block);
	KUNIT_EXPECT_EQ(test, devpool_range_find(&plain->range, block->addr + half)->size, half);
	devpool_arena_free(arena, block, 0);

	/* One that does wherever it begins is preferred to a long search. */
	devpool_arena_free(arena, two, 0);
	plain_stock_up(plain, half);
	block = devpool_arena_fit(arena, NULL, half, PLAIN_CHUNK);
	KUNIT_ASSERT_NOT_NULL(test, block);
	KUNIT_EXPECT_EQ(test, devpool_range_find(&plain->range, block->addr + half)->size,
			PLAIN_CHUNK + half);
}

/* The largest gap is always looked at, however many there are. */
static void arena_many_gaps(struct kunit *test)
{
	struct devpool_block *blocks[2 * DEVPOOL_SEARCH_MAX];
	struct plain *plain = plain_make(test, PLAIN_CHUNKS);
	struct devpool_placement place;
	unsigned long nr = ARRAY_SIZE(blocks);
	unsigned int i;

	/* Gaps of two pieces, a granule short of what is needed. */
	for (i = 0; i < nr; i++) {
		blocks[i] = plain_alloc(plain, 2 * PLAIN_CHUNK);
		plain_alloc(plain, PLAIN_CHUNK);
	}
	for (i = 0; i < nr; i++)
		devpool_arena_free(&plain->arena, blocks[i], 0);
	plain_flush(plain, 2 * nr);
	KUNIT_ASSERT_TRUE(test, plain_place(plain, 2 * PLAIN_CHUNK + SZ_4K, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, PLAIN_BASE + nr * 3 * PLAIN_CHUNK, place.addr);
	KUNIT_EXPECT_EQ(test, 3, place.nr_holes);
	devpool_arena_undo(&plain->arena, &place);

	/* All but one are smaller than what is searched first. */
	KUNIT_ASSERT_TRUE(test, plain_place(plain, 8 * PLAIN_CHUNK, SZ_4K, &place));
	KUNIT_EXPECT_EQ(test, PLAIN_BASE + nr * 3 * PLAIN_CHUNK, place.addr);
	devpool_arena_free(&plain->arena, plain_commit(plain, &place), 0);
}

/* Of the stock, what can become of use again is kept. */
static void arena_surplus_keeps(struct kunit *test)
{
	struct plain *plain = plain_make(test, 8);
	struct devpool_arena *arena = &plain->arena;
	struct devpool_block *block;
	unsigned int i;

	plain_stock_up(plain, SZ_4K);
	KUNIT_EXPECT_NULL(test, devpool_arena_surplus(arena));
	for (i = 0; i < 2 * DEVPOOL_STOCK_KEPT; i++)
		devpool_arena_donate(arena, &plain->structs[plain->nr_structs++]);
	for (i = 0; (block = devpool_arena_surplus(arena)); i++)
		KUNIT_EXPECT_EQ(test, 0, devpool_arena_wants(arena, SZ_4K));
	KUNIT_EXPECT_GT(test, i, 0);
	KUNIT_EXPECT_GE(test, arena->nr_stock, DEVPOOL_STOCK_KEPT);
	KUNIT_EXPECT_LE(test, arena->nr_stock, DEVPOOL_STOCK_KEPT + 2);
}

static struct kunit_case arena_kunit_cases[] = {
	KUNIT_CASE(arena_empty),
	KUNIT_CASE(arena_refuses),
	KUNIT_CASE(arena_leaving_is_not_handed_out),
	KUNIT_CASE(arena_undo_restores),
	KUNIT_CASE(arena_fewest_chunks),
	KUNIT_CASE(arena_shared_pieces_are_free),
	KUNIT_CASE(arena_fewest_holes),
	KUNIT_CASE(arena_whole_blocks),
	KUNIT_CASE(arena_lowest_of_equals),
	KUNIT_CASE(arena_longest_cached_first),
	KUNIT_CASE(arena_zero_comes_out_clean),
	KUNIT_CASE(arena_bounded_fit),
	KUNIT_CASE(arena_many_gaps),
	KUNIT_CASE(arena_surplus_keeps),
	KUNIT_CASE_SLOW(arena_stock_suffices),
	KUNIT_CASE_PARAM_ATTR(arena_random, geometry_gen_params,
			      { .speed = KUNIT_SPEED_SLOW }),
	{}
};

static struct kunit_suite arena_kunit_suite = {
	.name = "devpool_arena",
	.exit = arena_kunit_exit,
	.test_cases = arena_kunit_cases,
};

kunit_test_suite(arena_kunit_suite);
