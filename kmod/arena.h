/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * An arena: the addresses of a pool, and what stands behind them.
 */
#ifndef DEVPOOL_ARENA_H
#define DEVPOOL_ARENA_H

#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/rcupdate.h>
#include <linux/types.h>
#include <linux/xarray.h>

struct devpool_arena;
struct devpool_chunk;
struct devpool_hold;
struct devpool_member;
struct devpool_pool;
struct devpool_use;

/**
 * struct devpool_guards - cached blocks that one stream may still use
 * @fit: these blocks by size, then address
 * @by_point: these blocks by the point of the stream that has to pass first
 *
 * What stream that is the owner of the arena knows, who has one of these for each
 * stream and arena that needs it.
 */
struct devpool_guards {
	struct rb_root fit;
	struct rb_root_cached by_point;
};

/**
 * enum devpool_arena_state - what a run of addresses is
 * @DEVPOOL_BLOCK_IS_VACANT: free, whole pieces without memory, or with memory
 *	that is being taken away
 * @DEVPOOL_BLOCK_IS_CACHED: free, with memory behind each byte
 * @DEVPOOL_BLOCK_IS_BUSY: an ALLOC is filling it, a client has it, or it is pending
 */
enum devpool_arena_state {
	DEVPOOL_BLOCK_IS_VACANT,
	DEVPOOL_BLOCK_IS_CACHED,
	DEVPOOL_BLOCK_IS_BUSY,
};

/**
 * struct devpool_block - a run of addresses in one state
 * @by_addr: in &devpool_range.blocks
 * @addr: first address
 * @size: bytes
 * @range: the range that it is a part of
 * @state: one of &enum devpool_arena_state
 * @zero: no byte of it was handed out since the chunks came, which were zero; of
 *	what is vacant always true, so that it counts for nothing where blocks join
 * @pending: busy: nobody has it any more, but it has @nr_uses uses
 * @guards: busy: those of the stream that it was allocated on; cached: those that it
 *	is in; NULL for none
 * @point: cached in @guards, or pending: the point of the stream until which only the
 *	stream can have it; busy otherwise: that of the memory when it was claimed; 0
 *	for none
 * @leaving: vacant: number of its pieces whose mappings are not all gone yet
 * @whole: cached: number of its whole pieces
 * @by_size: cached: in &devpool_arena.fit or &devpool_guards.fit; vacant with nothing
 *	leaving: in &devpool_arena.gaps
 * @member: busy: the member that owns it, NULL while an ALLOC is filling it and when
 *	it is pending
 * @requested: busy: bytes that were asked for, 0 as long as its memory is not all
 *	there
 * @holds: busy: references of other members, see &struct devpool_hold
 * @uses: busy: the streams and the dma-buf that use it, see &struct devpool_use
 * @nr_uses: pending: how many there are
 * @link: cached, not in @guards, with a whole piece: in &devpool_arena.returnable
 * @by_point: cached in @guards: in &devpool_guards.by_point
 * @node: busy: in &devpool_member.blocks; unused: in &devpool_arena.stock
 *
 * The blocks of a range cover it without a hole and without overlap. Two
 * neighbours are never both vacant, and never both cached with the same guards or
 * without any, but in an arena of whole blocks. Protected by what protects the arena.
 */
struct devpool_block {
	struct rb_node by_addr;
	u64 addr;
	u64 size;
	struct devpool_range *range;
	u16 state;
	bool zero;
	bool pending;
	struct devpool_guards *guards;
	u64 point;
	union {
		unsigned long leaving;
		unsigned long whole;
	};
	union {
		struct rb_node by_size;
		struct {
			struct devpool_member *member;
			u64 requested;
			union {
				struct devpool_hold *holds;
				unsigned long nr_uses;
			};
		};
	};
	union {
		struct list_head link;
		struct rb_node by_point;
		struct {
			struct hlist_node node;
			struct devpool_use *uses;
		};
	};
};

/**
 * struct devpool_range - addresses without a gap
 * @arena: whose they are
 * @pool: for the owner of the arena, which alone looks at it
 * @base: first address, a multiple of the chunk size
 * @size: bytes, a multiple of the chunk size
 * @blocks: the blocks of the range, by address
 * @pieces: the &struct devpool_chunk behind piece (addr - base) / chunk size;
 *	nothing for a hole, a value entry for a piece that is leaving
 * @link: in &devpool_arena.ranges
 * @rcu: readers of the device's address table may hold on to a range
 */
struct devpool_range {
	struct devpool_arena *arena;
	struct devpool_pool *pool;
	u64 base;
	u64 size;
	struct rb_root blocks;
	struct xarray pieces;
	struct list_head link;
	struct rcu_head rcu;
};

/**
 * struct devpool_arena - addresses and residency of one half of a pool
 * @chunk_shift: log2 of the chunk size
 * @no_split: sizes are whole chunks, cached blocks are taken whole and not joined
 * @keeps_memory: memory stays where it is, so that a place is the better the fewer
 *	holes it has, whatever is resident beside them
 * @keeps_zero: nobody can write to what is cached, so that chunks are clean which are
 *	taken out of a block that is zero
 * @fit: cached blocks that any stream can have, by size, then address
 * @gaps: vacant blocks with nothing leaving by size, then address
 * @returnable: those of @fit that contain a whole piece, longest cached first
 * @ranges: all ranges
 * @first: the first of them, which stays; may be read without the caller's lock
 * @stock: unused block structs, set aside so that nothing but ALLOC allocates
 * @nr_stock: number of these
 * @nr_ranges: number of ranges
 * @nr_busy: busy blocks
 * @nr_guarded: cached blocks in guards
 * @nr_reserved: placements that are not committed or undone yet
 * @nr_planned: holes in these placements
 * @nr_resident: pieces with a chunk
 * @nr_returnable: pieces of @nr_resident without a busy or guarded byte
 * @nr_leaving: pieces that are leaving
 * @guarded: bytes of the cached blocks in guards
 *
 * A pure data structure: it knows no device, allocates nothing and takes no
 * lock but the pieces' own; the caller serialises all calls.
 */
struct devpool_arena {
	unsigned int chunk_shift;
	bool no_split;
	bool keeps_memory;
	bool keeps_zero;
	struct rb_root fit;
	struct rb_root gaps;
	struct list_head returnable;
	struct list_head ranges;
	struct devpool_range *first;
	struct hlist_head stock;
	unsigned long nr_stock;
	unsigned long nr_ranges;
	unsigned long nr_busy;
	unsigned long nr_guarded;
	unsigned long nr_reserved;
	unsigned long nr_planned;
	unsigned long nr_resident;
	unsigned long nr_returnable;
	unsigned long nr_leaving;
	u64 guarded;
};

/**
 * struct devpool_placement - where a block goes that needs more memory
 * @block: the busy block; it begins and ends with the block that is wanted
 *	or, where that begins or ends inside a hole, with that piece
 * @addr: address of the block that is wanted
 * @size: its size in bytes
 * @hole: first address of the holes, which are one run
 * @nr_holes: number of holes
 * @point_below: &devpool_block.point of what was cached below the holes
 * @point_above: that of what was cached above them
 */
struct devpool_placement {
	struct devpool_block *block;
	u64 addr;
	u64 size;
	u64 hole;
	unsigned long nr_holes;
	u64 point_below;
	u64 point_above;
};

static inline u64 devpool_block_end(const struct devpool_block *block)
{
	return block->addr + block->size;
}

/* The block whose guards pass first, NULL if there is none. */
static inline struct devpool_block *
devpool_guards_first(const struct devpool_guards *guards)
{
	return rb_entry_safe(rb_first_cached(&guards->by_point), struct devpool_block,
			     by_point);
}

static inline u64 devpool_arena_chunk(const struct devpool_arena *arena)
{
	return 1ULL << arena->chunk_shift;
}

static inline unsigned long devpool_range_piece(const struct devpool_range *range,
						u64 addr)
{
	return (addr - range->base) >> range->arena->chunk_shift;
}

void devpool_arena_init(struct devpool_arena *arena, unsigned int chunk_shift,
			bool no_split, bool keeps_memory);
void devpool_range_init(struct devpool_range *range, struct devpool_arena *arena,
			u64 base, u64 size);
void devpool_arena_add_range(struct devpool_arena *arena,
			     struct devpool_range *range,
			     struct devpool_block *block);
struct devpool_block *devpool_arena_remove_range(struct devpool_arena *arena,
						 struct devpool_range *range);

unsigned long devpool_arena_wants(const struct devpool_arena *arena, u64 size);
void devpool_arena_donate(struct devpool_arena *arena, struct devpool_block *block);
struct devpool_block *devpool_arena_take_surplus(struct devpool_arena *arena);

struct devpool_block *devpool_arena_fit(struct devpool_arena *arena,
					struct devpool_guards *guards, u64 size,
					u64 align);
bool devpool_arena_place(struct devpool_arena *arena, struct devpool_guards *guards,
			 u64 size, u64 align, struct devpool_placement *place);
void devpool_arena_fill(struct devpool_range *range, u64 addr,
			struct devpool_chunk *chunk);
struct devpool_block *devpool_arena_commit(struct devpool_arena *arena,
					   struct devpool_placement *place);
void devpool_arena_undo(struct devpool_arena *arena,
			struct devpool_placement *place);
void devpool_arena_free(struct devpool_arena *arena, struct devpool_block *block,
			u64 point);
void devpool_arena_unguard(struct devpool_arena *arena, struct devpool_block *block);

unsigned long devpool_arena_detach(struct devpool_arena *arena, unsigned long max,
				   struct list_head *chunks);
void devpool_arena_detached(struct devpool_arena *arena, struct list_head *chunks);

struct devpool_block *devpool_range_next(const struct devpool_block *block);
struct devpool_chunk *devpool_range_chunk(struct devpool_range *range, u64 addr);

/* Block structs kept beyond those that may be needed. */
#define DEVPOOL_STOCK_KEPT 64

/**
 * devpool_arena_surplus - a block struct that the arena can do without
 * @arena: the arena
 *
 * Some are kept for requests to come, so that a block that is allocated and
 * freed over and over costs no allocation of its struct.
 *
 * Return: a struct, the caller's from now on, or NULL.
 */
static inline struct devpool_block *devpool_arena_surplus(struct devpool_arena *arena)
{
	if (likely(arena->nr_stock <= DEVPOOL_STOCK_KEPT))
		return NULL;
	return devpool_arena_take_surplus(arena);
}

/**
 * devpool_range_find - the block that an address is in
 * @range: the range
 * @addr: an address in it
 *
 * Return: the block.
 */
static inline struct devpool_block *devpool_range_find(struct devpool_range *range, u64 addr)
{
	struct rb_node *node = range->blocks.rb_node;

	while (node) {
		struct devpool_block *block = rb_entry(node, struct devpool_block, by_addr);

		if (addr < block->addr)
			node = node->rb_left;
		else if (addr >= devpool_block_end(block))
			node = node->rb_right;
		else
			return block;
	}
	return NULL;
}

#endif
