// SPDX-License-Identifier: GPL-2.0-only
/*
 * The arena: best fit, extension, recycling, coalescing.
 *
 * A range is an alternation of fixed blocks and gaps between them. Fixed are those
 * that are busy, and those that are cached but which one stream may still use: the
 * stream can have them, and to all others they are as good as busy. A gap is an
 * alternation of other cached and of vacant blocks. Memory comes and goes in
 * pieces, so inside a gap each border is a piece's, and only the first and the last
 * block of a gap can begin or end inside a piece that it shares with a fixed block.
 *
 * Nothing but a placement may fail for want of a block struct. What can later
 * need one without being able to allocate is the taking of pieces out of the
 * middle of a cached block: it becomes three blocks. That happens at most once in
 * each gap, since later ones find a vacant neighbour; there are at most as many
 * gaps as fixed blocks and ranges; and each such gap needs a whole resident piece
 * of its own beside a shared one. So it is enough to have
 *
 *	min(2 * (fixed + ranges), resident + 1)
 *
 * structs in the stock whenever a placement is made; freeing and detaching only
 * make later needs smaller by what they use. A placement that is in flight can
 * need two more, to be cut to size or to be undone. (A part that is taken next to
 * a vacant block is cut off before it is joined, which takes a struct for a
 * moment: the gap at the end of each range, with no fixed block behind it, has one
 * too many for that.)
 */
#include <linux/align.h>
#include <linux/bug.h>
#include <linux/limits.h>
#include <linux/math.h>
#include <linux/minmax.h>

#include "arena.h"
#include "devpool_backend.h"

/* How many candidates a search looks at before it takes what is certain. */
#define DEVPOOL_SEARCH_MAX 32

/* What &devpool_range.pieces holds for a piece that is leaving. */
#define DEVPOOL_PIECE_LEAVING xa_mk_value(0)

static struct devpool_block *by_size(struct rb_node *node)
{
	return rb_entry_safe(node, struct devpool_block, by_size);
}

static struct devpool_block *by_addr(struct rb_node *node)
{
	return rb_entry_safe(node, struct devpool_block, by_addr);
}

static struct devpool_block *prev_block(const struct devpool_block *block)
{
	return by_addr(rb_prev(&block->by_addr));
}

static struct devpool_block *next_block(const struct devpool_block *block)
{
	return by_addr(rb_next(&block->by_addr));
}

static bool is_in_state(const struct devpool_block *block,
			enum devpool_arena_state state)
{
	return block && block->state == state;
}

/* Of the same state and for the same streams, so that they can be one block. */
static bool is_like(const struct devpool_block *block, enum devpool_arena_state state,
		    const struct devpool_guards *guards)
{
	return is_in_state(block, state) && block->guards == guards;
}

/* Can a request on the stream of these guards have it? */
static bool is_usable(const struct devpool_block *block,
		      const struct devpool_guards *guards)
{
	return is_in_state(block, DEVPOOL_BLOCK_IS_CACHED) &&
	       (!block->guards || block->guards == guards);
}

/* Number of whole pieces in an extent of addresses. */
static unsigned long whole_pieces(const struct devpool_arena *arena, u64 addr,
				  u64 end)
{
	u64 first = (addr + devpool_arena_chunk(arena) - 1) >> arena->chunk_shift;
	u64 last = end >> arena->chunk_shift;

	return last > first ? last - first : 0;
}

/* Order by size, then address: would such a block come before the other one? */
static bool is_before(u64 size, u64 addr, const struct devpool_block *other)
{
	if (size != other->size)
		return size < other->size;
	return addr < other->addr;
}

static bool is_smaller(struct rb_node *node, const struct rb_node *parent)
{
	const struct devpool_block *a, *b;

	a = rb_entry(node, struct devpool_block, by_size);
	b = rb_entry(parent, struct devpool_block, by_size);
	return is_before(a->size, a->addr, b);
}

static bool is_earlier(struct rb_node *node, const struct rb_node *parent)
{
	return rb_entry(node, struct devpool_block, by_point)->point <
	       rb_entry(parent, struct devpool_block, by_point)->point;
}

/* The first block of at least this size. */
static struct devpool_block *at_least(const struct rb_root *root, u64 size)
{
	struct devpool_block *best = NULL;
	struct rb_node *node = root->rb_node;

	while (node) {
		struct devpool_block *block = by_size(node);

		if (block->size >= size) {
			best = block;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return best;
}

/* Makes a free block findable by its size. */
static void index_block(struct devpool_arena *arena, struct devpool_block *block)
{
	if (block->state == DEVPOOL_BLOCK_IS_VACANT) {
		if (!block->leaving)
			rb_add(&block->by_size, &arena->gaps, is_smaller);
		return;
	}
	if (block->guards) {
		rb_add(&block->by_size, &block->guards->fit, is_smaller);
		rb_add_cached(&block->by_point, &block->guards->by_point, is_earlier);
		block->whole = 0;
		arena->nr_guarded++;
		arena->guarded += block->size;
		return;
	}

	rb_add(&block->by_size, &arena->fit, is_smaller);
	block->whole = whole_pieces(arena, block->addr, devpool_block_end(block));
	if (block->whole) {
		list_add_tail(&block->link, &arena->returnable);
		arena->nr_returnable += block->whole;
	}
}

static void unindex_block(struct devpool_arena *arena, struct devpool_block *block)
{
	if (block->state == DEVPOOL_BLOCK_IS_VACANT) {
		if (!block->leaving)
			rb_erase(&block->by_size, &arena->gaps);
		return;
	}
	if (block->guards) {
		rb_erase(&block->by_size, &block->guards->fit);
		rb_erase_cached(&block->by_point, &block->guards->by_point);
		arena->nr_guarded--;
		arena->guarded -= block->size;
		return;
	}

	rb_erase(&block->by_size, &arena->fit);
	if (block->whole) {
		list_del(&block->link);
		arena->nr_returnable -= block->whole;
	}
	block->leaving = 0;
}

/*
 * Changes the extent of an indexed block. Where it grows or shrinks a little it
 * mostly stays where it is among the others, and a cached one always keeps its
 * turn to be returned.
 */
static void resize_block(struct devpool_arena *arena, struct devpool_block *block,
			 u64 addr, u64 size)
{
	unsigned long before, after;
	struct devpool_block *other;
	bool moves;

	if (block->state == DEVPOOL_BLOCK_IS_VACANT || block->guards) {
		unindex_block(arena, block);
		block->addr = addr;
		block->size = size;
		index_block(arena, block);
		return;
	}

	before = block->whole;
	after = whole_pieces(arena, addr, addr + size);
	if (size > block->size) {
		other = by_size(rb_next(&block->by_size));
		moves = other && !is_before(size, addr, other);
	} else {
		other = by_size(rb_prev(&block->by_size));
		moves = other && is_before(size, addr, other);
	}
	if (moves)
		rb_erase(&block->by_size, &arena->fit);
	block->addr = addr;
	block->size = size;
	if (moves)
		rb_add(&block->by_size, &arena->fit, is_smaller);

	if (before && !after)
		list_del(&block->link);
	else if (after && !before)
		list_add_tail(&block->link, &arena->returnable);
	block->whole = after;
	arena->nr_returnable += after - before;
}

static struct devpool_block *stock_pop(struct devpool_arena *arena)
{
	struct devpool_block *block;

	block = hlist_entry(arena->stock.first, struct devpool_block, node);
	hlist_del(&block->node);
	arena->nr_stock--;
	return block;
}

/*
 * Adds a block right before or after another one, in the same state and not
 * indexed. Takes a struct from the stock, which by the count above is there.
 */
static struct devpool_block *add_block(struct devpool_arena *arena,
				       struct devpool_block *beside, bool after,
				       u64 addr, u64 size)
{
	struct rb_node *parent = &beside->by_addr;
	struct rb_node **link;
	struct devpool_block *block;

	block = stock_pop(arena);

	block->addr = addr;
	block->size = size;
	block->range = beside->range;
	block->state = beside->state;
	block->zero = beside->zero;
	block->pending = false;
	block->guards = beside->guards;
	block->point = beside->point;
	block->leaving = 0;

	/* The neighbour in order: the child, or the extreme below the child. */
	link = after ? &parent->rb_right : &parent->rb_left;
	while (*link) {
		parent = *link;
		link = after ? &parent->rb_left : &parent->rb_right;
	}
	rb_link_node(&block->by_addr, parent, link);
	rb_insert_color(&block->by_addr, &block->range->blocks);
	return block;
}

/* A block that is not indexed is a part of a neighbour from now on. */
static void remove_block(struct devpool_arena *arena, struct devpool_block *block)
{
	rb_erase(&block->by_addr, &block->range->blocks);
	devpool_arena_donate(arena, block);
}

static void make_busy(struct devpool_block *block, struct devpool_guards *guards)
{
	block->state = DEVPOOL_BLOCK_IS_BUSY;
	block->guards = guards;
	block->member = NULL;
	block->requested = 0;
	block->holds = NULL;
	block->uses = NULL;
}

/* Cuts a busy block in two and returns the upper part. */
static struct devpool_block *split_block(struct devpool_arena *arena,
					 struct devpool_block *block, u64 addr)
{
	u64 end = devpool_block_end(block);
	struct devpool_block *upper;

	block->size = addr - block->addr;
	upper = add_block(arena, block, true, addr, end - addr);
	make_busy(upper, block->guards);
	return upper;
}

/*
 * Takes [addr, end) out of a free block. What is below and above stays free; what
 * is returned is not indexed.
 */
static struct devpool_block *carve_block(struct devpool_arena *arena,
					 struct devpool_block *block, u64 addr,
					 u64 end)
{
	u64 block_end = devpool_block_end(block);

	if (block->addr == addr && block_end == end) {
		unindex_block(arena, block);
		return block;
	}
	if (block->addr == addr) {
		resize_block(arena, block, end, block_end - end);
		return add_block(arena, block, false, addr, end - addr);
	}
	resize_block(arena, block, block->addr, addr - block->addr);
	if (block_end > end)
		index_block(arena, add_block(arena, block, true, end, block_end - end));
	return add_block(arena, block, true, addr, end - addr);
}

/*
 * Gives a block that is not indexed a free state, joined with its neighbours. With a
 * point it stays with its guards until that has passed.
 */
static void free_block(struct devpool_arena *arena, struct devpool_block *block,
		       enum devpool_arena_state state, u64 point)
{
	struct devpool_guards *guards = point ? block->guards : NULL;
	struct devpool_block *prev = prev_block(block);
	struct devpool_block *next = next_block(block);
	u64 addr = block->addr, end = devpool_block_end(block);
	bool vacant = state == DEVPOOL_BLOCK_IS_VACANT;
	unsigned long leaving = vacant ? block->leaving : 0;
	bool zero = block->zero;

	if ((arena->no_split && !vacant) ||
	    (!is_like(prev, state, guards) && !is_like(next, state, guards))) {
		block->state = state;
		block->pending = false;
		block->guards = guards;
		block->point = point;
		index_block(arena, block);
		return;
	}
	remove_block(arena, block);
	block = next;
	if (is_like(prev, state, guards)) {
		if (is_like(next, state, guards)) {
			end = devpool_block_end(next);
			zero = zero && next->zero;
			point = max(point, next->point);
			leaving += vacant ? next->leaving : 0;
			unindex_block(arena, next);
			remove_block(arena, next);
		}
		block = prev;
		addr = prev->addr;
	} else {
		end = devpool_block_end(next);
	}
	block->zero = block->zero && zero;
	/* The later one protects both. Its tree is not looked at until it is in again. */
	block->point = max(block->point, point);
	if (leaving) {
		/* Vacant, and in no tree until the last of its pieces has left. */
		unindex_block(arena, block);
		block->leaving += leaving;
		block->addr = addr;
		block->size = end - addr;
	} else {
		resize_block(arena, block, addr, end - addr);
	}
}

/*
 * Makes one busy block out of [addr, end), which lies inside free
 * neighbours of which @block is the first. Its point is the latest of theirs.
 */
static struct devpool_block *claim_blocks(struct devpool_arena *arena,
					  struct devpool_block *block,
					  struct devpool_guards *guards, u64 addr,
					  u64 end)
{
	struct devpool_block *claimed, *part;

	claimed = carve_block(arena, block, addr, min(end, devpool_block_end(block)));
	while (devpool_block_end(claimed) < end) {
		block = next_block(claimed);
		part = carve_block(arena, block, block->addr,
				   min(end, devpool_block_end(block)));
		claimed->size += part->size;
		claimed->zero = claimed->zero && part->zero;
		claimed->point = max(claimed->point, part->point);
		remove_block(arena, part);
	}
	make_busy(claimed, guards);
	arena->nr_busy++;
	return claimed;
}

/**
 * devpool_arena_init - an arena without addresses
 * @arena: the arena
 * @chunk_shift: log2 of the chunk size
 * @no_split: see &devpool_arena.no_split
 * @keeps_memory: see &devpool_arena.keeps_memory
 */
void devpool_arena_init(struct devpool_arena *arena, unsigned int chunk_shift,
			bool no_split, bool keeps_memory)
{
	*arena = (struct devpool_arena){
		.chunk_shift = chunk_shift,
		.no_split = no_split,
		.keeps_memory = keeps_memory,
		.fit = RB_ROOT,
		.gaps = RB_ROOT,
	};
	INIT_LIST_HEAD(&arena->returnable);
	INIT_LIST_HEAD(&arena->ranges);
	INIT_HLIST_HEAD(&arena->stock);
}

/**
 * devpool_range_init - a range that is not in an arena yet
 * @range: the range
 * @arena: the arena that it is going to be in
 * @base: first address, a multiple of the chunk size
 * @size: bytes, a multiple of the chunk size
 */
void devpool_range_init(struct devpool_range *range, struct devpool_arena *arena,
			u64 base, u64 size)
{
	range->arena = arena;
	range->base = base;
	range->size = size;
	range->blocks = RB_ROOT;
	xa_init(&range->pieces);
	INIT_LIST_HEAD(&range->link);
}

/**
 * devpool_arena_add_range - more addresses
 * @arena: the arena
 * @range: the range; stays the caller's, who takes it out again
 * @block: a block struct for it, the arena's from now on
 */
void devpool_arena_add_range(struct devpool_arena *arena,
			     struct devpool_range *range,
			     struct devpool_block *block)
{
	block->addr = range->base;
	block->size = range->size;
	block->range = range;
	block->state = DEVPOOL_BLOCK_IS_VACANT;
	block->zero = true;
	block->pending = false;
	block->guards = NULL;
	block->point = 0;
	block->leaving = 0;
	rb_link_node(&block->by_addr, NULL, &range->blocks.rb_node);
	rb_insert_color(&block->by_addr, &range->blocks);
	index_block(arena, block);
	list_add_tail(&range->link, &arena->ranges);
	if (!arena->nr_ranges++) {
		/* Complete when it is found: devpool_client_get_range() */
		smp_store_release(&arena->first, range);
	}
}

/**
 * devpool_arena_remove_range - takes out a range that is all vacant
 * @arena: the arena
 * @range: the range
 *
 * Return: the struct of its one block, the caller's from now on.
 */
struct devpool_block *devpool_arena_remove_range(struct devpool_arena *arena,
						 struct devpool_range *range)
{
	struct devpool_block *block = by_addr(rb_first(&range->blocks));

	WARN_ON(block->size != range->size || block->leaving ||
		block->state != DEVPOOL_BLOCK_IS_VACANT);
	unindex_block(arena, block);
	range->blocks = RB_ROOT;
	xa_destroy(&range->pieces);
	list_del(&range->link);
	arena->nr_ranges--;
	return block;
}

/* Block structs that the arena may need before it is asked for a placement. */
static unsigned long stock_needed(unsigned long fixed, unsigned long reserved,
				  unsigned long resident)
{
	return min(2 * fixed, resident + 1) + 2 * reserved;
}

static unsigned long nr_fixed(const struct devpool_arena *arena)
{
	return arena->nr_busy + arena->nr_guarded + arena->nr_ranges;
}

/**
 * devpool_arena_wants - how many block structs a request lacks
 * @arena: the arena
 * @size: bytes of the request
 *
 * Return: how many structs have to be donated before devpool_arena_fit() or
 * devpool_arena_place() may be called for one block of this size.
 */
unsigned long devpool_arena_wants(const struct devpool_arena *arena, u64 size)
{
	unsigned long resident = arena->nr_resident + arena->nr_planned +
				 (size >> arena->chunk_shift) + 2;
	unsigned long needed;

	/* A claim cuts at both ends: two more. */
	needed = 2 + stock_needed(nr_fixed(arena) + 2, arena->nr_reserved + 1, resident);
	return needed > arena->nr_stock ? needed - arena->nr_stock : 0;
}

/**
 * devpool_arena_donate - one block struct for the stock
 * @arena: the arena
 * @block: the struct, the arena's from now on
 */
void devpool_arena_donate(struct devpool_arena *arena, struct devpool_block *block)
{
	hlist_add_head(&block->node, &arena->stock);
	arena->nr_stock++;
}

/**
 * devpool_arena_take_surplus - what devpool_arena_surplus() does where there may be one
 * @arena: the arena
 *
 * Return: a struct, the caller's from now on, or NULL.
 */
struct devpool_block *devpool_arena_take_surplus(struct devpool_arena *arena)
{
	unsigned long needed;

	needed = stock_needed(nr_fixed(arena), arena->nr_reserved,
			      arena->nr_resident + arena->nr_planned);
	if (arena->nr_stock <= needed + DEVPOOL_STOCK_KEPT)
		return NULL;
	return stock_pop(arena);
}

/*
 * The smallest block that fits, the lowest of equals. Where the alignment is larger
 * than what blocks have anyway, the search for the smallest is bounded if there is
 * one that fits whatever its address.
 */
static struct devpool_block *best_fit(const struct rb_root *root, u64 size, u64 align)
{
	struct devpool_block *block = at_least(root, size);
	unsigned int tries = 0;

	while (block && ALIGN(block->addr, align) + size > devpool_block_end(block)) {
		block = by_size(rb_next(&block->by_size));
		if (++tries == DEVPOOL_SEARCH_MAX) {
			struct devpool_block *sure = at_least(root, size + align);

			block = sure ?: block;
		}
	}
	return block;
}

/**
 * devpool_arena_fit - takes a block out of what is resident
 * @arena: the arena, with nothing in want (devpool_arena_wants())
 * @guards: those of the stream that the block is for, NULL for none
 * @size: bytes, a multiple of the arena's granule
 * @align: alignment of the address, a power of two
 *
 * Best fit of what is in the stream's guards and in nobody's; in an arena of whole
 * blocks all of it, which can be more than asked for.
 *
 * Return: a busy block, or NULL if nothing resident fits.
 */
struct devpool_block *devpool_arena_fit(struct devpool_arena *arena,
					struct devpool_guards *guards, u64 size,
					u64 align)
{
	struct devpool_block *block = best_fit(&arena->fit, size, align);
	u64 addr;

	if (guards) {
		struct devpool_block *own = best_fit(&guards->fit, size, align);

		if (own && (!block || is_before(own->size, own->addr, block)))
			block = own;
	}
	if (!block)
		return NULL;
	addr = ALIGN(block->addr, align);
	if (arena->no_split)
		size = block->size;
	return claim_blocks(arena, block, guards, addr, addr + size);
}

/* A place that is being considered. */
struct devpool_candidate {
	struct devpool_block *first;
	u64 addr;
	unsigned long cost;
	unsigned long holes;
};

/**
 * struct devpool_run - free blocks that a place can be made of
 * @first: the first of them
 * @gap: the one without memory
 * @start: where they begin
 * @end: where they end
 * @lower: the first whole piece that is a hole or whose chunk could be moved
 * @upper: end of the last one
 */
struct devpool_run {
	struct devpool_block *first;
	struct devpool_block *gap;
	u64 start;
	u64 end;
	u64 lower;
	u64 upper;
};

/*
 * Considers one address in a run. The cost is the number of pieces that have to come
 * from somewhere: all but those that are shared with fixed blocks, or that only the
 * stream can have, and so are resident whatever is done. Other whole pieces that are
 * resident count as much as holes, since they could stand behind any other address
 * just as well: unless memory stays where it is. Of places that cost the same, the
 * one with the fewest holes moves the least.
 */
static void consider(const struct devpool_arena *arena, const struct devpool_run *run,
		     u64 addr, u64 size, struct devpool_candidate *best)
{
	u64 chunk = devpool_arena_chunk(arena);
	u64 gap_addr = run->gap->addr;
	u64 gap_end = devpool_block_end(run->gap);
	unsigned long cost, holes;
	u64 lower, upper;

	if (addr < run->start || addr > run->end || run->end - addr < size ||
	    addr >= gap_end || addr + size <= gap_addr)
		return;

	lower = ALIGN_DOWN(addr, chunk);
	upper = ALIGN(addr + size, chunk);
	cost = (min(upper, run->upper) - max(lower, run->lower)) >> arena->chunk_shift;
	holes = (min(upper, gap_end) - max(lower, gap_addr)) >> arena->chunk_shift;
	if (arena->keeps_memory)
		cost = holes;

	if (cost < best->cost || (cost == best->cost && holes < best->holes)) {
		best->first = addr < gap_addr ? run->first : run->gap;
		best->addr = addr;
		best->cost = cost;
		best->holes = holes;
	}
}

static void consider_gap(const struct devpool_arena *arena,
			 const struct devpool_guards *guards, struct devpool_block *gap,
			 u64 size, u64 align, struct devpool_candidate *best)
{
	struct devpool_block *prev = prev_block(gap);
	struct devpool_block *next = next_block(gap);
	struct devpool_run run = {
		.first = gap,
		.gap = gap,
		.start = gap->addr,
		.end = devpool_block_end(gap),
		.lower = gap->addr,
		.upper = devpool_block_end(gap),
	};

	if (!arena->no_split && is_usable(prev, guards)) {
		run.first = prev;
		run.start = prev->addr;
		if (!prev->guards)
			run.lower = ALIGN(run.start, devpool_arena_chunk(arena));
	}
	if (!arena->no_split && is_usable(next, guards)) {
		run.end = devpool_block_end(next);
		if (!next->guards)
			run.upper = ALIGN_DOWN(run.end, devpool_arena_chunk(arena));
	}

	/* From the start on, so that what is over stays one run; or to the end. */
	consider(arena, &run, ALIGN(run.start, align), size, best);
	if (run.end > devpool_block_end(gap))
		consider(arena, &run, ALIGN_DOWN(run.end - size, align), size, best);
}

/**
 * devpool_arena_place - finds the place that needs the fewest new chunks
 * @arena: the arena, with nothing in want (devpool_arena_wants())
 * @guards: those of the stream that the block is for, NULL for none
 * @size: bytes, a multiple of the arena's granule
 * @align: alignment of the address, a power of two of at least the granule
 * @place: set to what was found
 *
 * To be called when nothing resident fits. The search looks at the gaps whose
 * size is nearest to what is needed and at the largest one.
 *
 * Return: true if there is a place. It is reserved; the caller puts chunks
 * behind its holes and commits it, or undoes it.
 */
bool devpool_arena_place(struct devpool_arena *arena, struct devpool_guards *guards,
			 u64 size, u64 align, struct devpool_placement *place)
{
	u64 chunk = devpool_arena_chunk(arena);
	struct devpool_candidate best = { .cost = ULONG_MAX, .holes = ULONG_MAX };
	u64 lower, upper, gap_addr, gap_end;
	struct devpool_block *gap, *below;
	unsigned int tries;

	/*
	 * Up from where a gap is sure to do with what two shared pieces have,
	 * then down: smaller ones may have cached neighbours to extend.
	 */
	gap = at_least(&arena->gaps, size > 2 * chunk ? size - 2 * chunk : chunk);
	below = gap ? by_size(rb_prev(&gap->by_size)) : by_size(rb_last(&arena->gaps));
	for (tries = 0; gap && tries < DEVPOOL_SEARCH_MAX; tries++) {
		consider_gap(arena, guards, gap, size, align, &best);
		gap = by_size(rb_next(&gap->by_size));
	}
	if (gap)
		consider_gap(arena, guards, by_size(rb_last(&arena->gaps)), size, align,
			     &best);
	for (tries = 0; below && tries < DEVPOOL_SEARCH_MAX; tries++) {
		consider_gap(arena, guards, below, size, align, &best);
		below = by_size(rb_prev(&below->by_size));
	}
	if (!best.first)
		return false;

	gap = best.first;
	if (gap->state != DEVPOOL_BLOCK_IS_VACANT)
		gap = next_block(gap);
	gap_addr = gap->addr;
	gap_end = devpool_block_end(gap);

	/* What begins or ends inside a hole needs that whole piece. */
	lower = best.addr;
	upper = best.addr + size;
	if (lower >= gap_addr)
		lower = ALIGN_DOWN(lower, chunk);
	if (upper <= gap_end)
		upper = ALIGN(upper, chunk);

	*place = (struct devpool_placement){
		.addr = best.addr,
		.size = size,
		.hole = max(ALIGN_DOWN(lower, chunk), gap_addr),
		.nr_holes = best.holes,
	};
	if (lower < gap_addr)
		place->point_below = best.first->point;
	if (upper > gap_end)
		place->point_above = next_block(gap)->point;
	place->block = claim_blocks(arena, best.first, guards, lower, upper);
	arena->nr_reserved++;
	arena->nr_planned += best.holes;
	return true;
}

/**
 * devpool_arena_fill - puts a chunk behind a hole of a placement
 * @range: the range
 * @addr: address of the piece, whose slot has been reserved (xa_reserve())
 * @chunk: the chunk
 */
void devpool_arena_fill(struct devpool_range *range, u64 addr,
			struct devpool_chunk *chunk)
{
	void *old;

	chunk->range = range;
	chunk->addr = addr;
	old = xa_store(&range->pieces, devpool_range_piece(range, addr), chunk, 0);
	WARN_ON(old);
	range->arena->nr_resident++;
}

static void end_placement(struct devpool_arena *arena,
			  struct devpool_placement *place)
{
	arena->nr_reserved--;
	arena->nr_planned -= place->nr_holes;
}

/**
 * devpool_arena_commit - cuts a placement to size, its holes being filled
 * @arena: the arena
 * @place: the placement
 *
 * Return: the busy block of the size and at the address asked for. What the
 * first and the last piece have beyond it is cached; these are new, so that no
 * stream uses them.
 */
struct devpool_block *devpool_arena_commit(struct devpool_arena *arena,
					   struct devpool_placement *place)
{
	struct devpool_block *block = place->block;
	u64 end = place->addr + place->size;

	end_placement(arena, place);
	if (devpool_block_end(block) > end)
		free_block(arena, split_block(arena, block, end),
			   DEVPOOL_BLOCK_IS_CACHED, 0);
	if (block->addr < place->addr) {
		struct devpool_block *lower = block;

		block = split_block(arena, block, place->addr);
		free_block(arena, lower, DEVPOOL_BLOCK_IS_CACHED, 0);
	}
	return block;
}

/**
 * devpool_arena_undo - gives up a placement, its holes being holes
 * @arena: the arena
 * @place: the placement
 */
void devpool_arena_undo(struct devpool_arena *arena,
			struct devpool_placement *place)
{
	u64 hole_end = place->hole + ((u64)place->nr_holes << arena->chunk_shift);
	struct devpool_block *block = place->block;
	struct devpool_block *part;

	end_placement(arena, place);
	arena->nr_busy--;
	if (devpool_block_end(block) > hole_end) {
		part = split_block(arena, block, hole_end);
		free_block(arena, part, DEVPOOL_BLOCK_IS_CACHED, place->point_above);
	}
	if (block->addr < place->hole) {
		part = block;
		block = split_block(arena, block, place->hole);
		free_block(arena, part, DEVPOOL_BLOCK_IS_CACHED, place->point_below);
	}
	block->zero = true;
	free_block(arena, block, DEVPOOL_BLOCK_IS_VACANT, 0);
}

/**
 * devpool_arena_free - a busy block becomes cached
 * @arena: the arena
 * @block: the block, in no member's list, its @zero up to date; not the caller's
 *	any more
 * @point: the point until which only the stream of its guards can have it, 0 if
 *	anybody can
 */
void devpool_arena_free(struct devpool_arena *arena, struct devpool_block *block,
			u64 point)
{
	arena->nr_busy--;
	free_block(arena, block, DEVPOOL_BLOCK_IS_CACHED, point);
}

/**
 * devpool_arena_unguard - anybody can have a cached block from now on
 * @arena: the arena
 * @block: the block, in guards; not the caller's any more
 */
void devpool_arena_unguard(struct devpool_arena *arena, struct devpool_block *block)
{
	unindex_block(arena, block);
	free_block(arena, block, DEVPOOL_BLOCK_IS_CACHED, 0);
}

/**
 * devpool_arena_detach - takes chunks that no busy block needs
 * @arena: the arena
 * @max: how many at the most
 * @chunks: list to which they are added, those of neighbouring pieces in the
 *	order of their addresses
 *
 * Those go first that have been cached longest. Their pieces are leaving until
 * the caller, having taken care of all mappings, says so with
 * devpool_arena_detached().
 *
 * Return: how many were taken.
 */
unsigned long devpool_arena_detach(struct devpool_arena *arena, unsigned long max,
				   struct list_head *chunks)
{
	u64 chunk_size = devpool_arena_chunk(arena);
	unsigned long taken = 0;

	while (taken < max && !list_empty(&arena->returnable)) {
		struct devpool_block *block;
		struct devpool_chunk *chunk;
		unsigned long pieces, i;
		struct xarray *xa;
		u64 addr, end;

		block = list_first_entry(&arena->returnable, struct devpool_block,
					 link);
		addr = ALIGN(block->addr, chunk_size);
		end = ALIGN_DOWN(devpool_block_end(block), chunk_size);
		pieces = (end - addr) >> arena->chunk_shift;

		/* A part of it: next to what is vacant, so that holes stay together. */
		if (pieces > max - taken) {
			pieces = max - taken;
			if (is_in_state(prev_block(block), DEVPOOL_BLOCK_IS_VACANT))
				end = addr + ((u64)pieces << arena->chunk_shift);
			else
				addr = end - ((u64)pieces << arena->chunk_shift);
		}

		block = carve_block(arena, block, addr, end);
		xa = &block->range->pieces;
		for (i = devpool_range_piece(block->range, addr); addr < end;
		     i++, addr += chunk_size) {
			chunk = xa_store(xa, i, DEVPOOL_PIECE_LEAVING, 0);
			if (block->zero && arena->keeps_zero)
				chunk->flags |= DEVPOOL_CHUNK_CLEAN;
			list_add_tail(&chunk->link, chunks);
		}
		block->leaving = pieces;
		block->zero = true;
		free_block(arena, block, DEVPOOL_BLOCK_IS_VACANT, 0);
		taken += pieces;
	}
	arena->nr_resident -= taken;
	arena->nr_leaving += taken;
	return taken;
}

/**
 * devpool_arena_detached - no mapping shows these chunks any more
 * @arena: the arena
 * @chunks: list of chunks that devpool_arena_detach() took; each that is of this
 *	arena is now behind no address
 */
void devpool_arena_detached(struct devpool_arena *arena, struct list_head *chunks)
{
	struct devpool_block *block = NULL;
	struct devpool_chunk *chunk;

	list_for_each_entry(chunk, chunks, link) {
		struct devpool_range *range = chunk->range;

		if (range->arena != arena)
			continue;
		if (!block || block->range != range || chunk->addr < block->addr ||
		    chunk->addr >= devpool_block_end(block))
			block = devpool_range_find(range, chunk->addr);
		xa_erase(&range->pieces, devpool_range_piece(range, chunk->addr));
		arena->nr_leaving--;
		if (!--block->leaving)
			index_block(arena, block);
	}
}

/**
 * devpool_range_next - the block of a range that comes next
 * @block: a block
 *
 * Return: the block that begins where this one ends, or NULL at the range's end.
 */
struct devpool_block *devpool_range_next(const struct devpool_block *block)
{
	return next_block(block);
}

/**
 * devpool_range_chunk - the chunk behind an address
 * @range: the range
 * @addr: an address in it
 *
 * Return: the chunk, or NULL for a hole and for a piece that is leaving.
 */
struct devpool_chunk *devpool_range_chunk(struct devpool_range *range, u64 addr)
{
	void *entry = xa_load(&range->pieces, devpool_range_piece(range, addr));

	return xa_is_value(entry) ? NULL : entry;
}
