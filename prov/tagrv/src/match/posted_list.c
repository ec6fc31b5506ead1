/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives that no hash holds: blocks of 32, in post order, compared in bulk.
 *
 *   block:  slot  0 1 2 3 4 5 ... 31
 *           live  . . x . x x ...  .     order is position: the lowest hit wins
 *
 * Short queues live here, and so do receives of rare kinds, of which a hash
 * would be asked in vain for each arrival. Slots are compared four at a time
 * without a branch; the entry is only looked at when it is the answer.
 *
 * A removed receive leaves a hole. Holes go when the last block is full and
 * when two neighbours fit into half of one.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "match/posted.h"

/* Slots compared between two branches. */
#define GROUP		4
/* Neighbours with no more than this together become one block. */
#define MERGE_MAX	(TAGRV_BLOCK_SLOTS / 2)
/* A full block with this many holes is closed up rather than followed. */
#define HOLES_MIN	8
/* Below, a class is not worth a probe of its own. */
#define CLASS_MIN	8
/* A census looks at the youngest blocks, and knows so many kinds. */
#define CENSUS_BLOCKS	16
#define CENSUS_KINDS	128
/* Receives between two of them, at least. */
#define CENSUS_MIN	((size_t) 16)

static struct tagrv_posted_block *block_at(const struct tagrv_list *link)
{
	return tagrv_container_of(link, struct tagrv_posted_block, link);
}

static unsigned end_of(const struct tagrv_posted_block *block)
{
	return block->live ? 32 - (unsigned) __builtin_clz(block->live) : 0;
}

static struct tagrv_posted_block *
last_block(const struct tagrv_posted_list *list)
{
	return tagrv_list_empty(&list->blocks) ? NULL :
						 block_at(list->blocks.prev);
}

static struct tagrv_posted_block *
new_block(struct tagrv_posted_queue *queue, struct tagrv_list *behind)
{
	struct tagrv_posted_block *block = tagrv_pool_get(&queue->blocks);

	if (!block)
		return NULL;
	block->live = 0;
	block->cnt = 0;
	tagrv_list_insert_after(behind, &block->link);
	return block;
}

static void free_block(struct tagrv_posted_queue *queue,
		       struct tagrv_posted_block *block)
{
	tagrv_list_remove(&block->link);
	tagrv_pool_put(&queue->blocks, block);
}

static void move_slot(struct tagrv_posted_queue *queue,
		      struct tagrv_posted_block *to, unsigned t,
		      struct tagrv_posted_block *from, unsigned f)
{
	struct tagrv_posted *recv = tagrv_posted_at(queue, from->recv[f]);

	to->tag[t] = from->tag[f];
	to->care[t] = from->care[f];
	to->who[t] = from->who[f];
	to->who_care[t] = from->who_care[f];
	to->seq[t] = from->seq[f];
	to->recv[t] = from->recv[f];
	from->live &= ~(1u << f);
	from->cnt--;
	to->live |= 1u << t;
	to->cnt++;
	recv->block = to;
	recv->slot = (uint8_t) t;
}

static void close_holes(struct tagrv_posted_queue *queue,
			struct tagrv_posted_block *block)
{
	uint32_t todo = block->live;

	for (unsigned to = 0; todo; to++, todo &= todo - 1) {
		unsigned from = (unsigned) __builtin_ctz(todo);

		if (from != to)
			move_slot(queue, block, to, block, from);
	}
}

/* 'from' is behind 'to', and there is room for all. */
static void merge(struct tagrv_posted_queue *queue,
		  struct tagrv_posted_block *to,
		  struct tagrv_posted_block *from)
{
	close_holes(queue, to);
	while (from->live)
		move_slot(queue, to, to->cnt, from,
			  (unsigned) __builtin_ctz(from->live));
	free_block(queue, from);
}

static void fill_slot(struct tagrv_posted_block *block, unsigned slot,
		      struct tagrv_posted *recv, uint64_t care)
{
	block->tag[slot] = recv->tag;
	block->care[slot] = care;
	block->who[slot] = recv->peer;
	block->who_care[slot] = recv->peer == TAGRV_MATCH_ANY ? 0 : UINT64_MAX;
	block->seq[slot] = recv->seq;
	block->recv[slot] = tagrv_posted_index(recv);
	block->live |= 1u << slot;
	block->cnt++;
	recv->class = TAGRV_NO_CLASS;
	recv->slot = (uint8_t) slot;
	recv->block = block;
}

/* ---- which classes earn a hash ---- */

struct kind {
	uint64_t care;
	bool	any;
	uint8_t	class;
	uint16_t cnt;
};

struct census {
	struct kind kinds[CENSUS_KINDS];
};

/* NULL: too many kinds at this place, and none of them can be frequent. */
static struct kind *kind_of(struct census *census,
			    const struct tagrv_posted_block *block,
			    unsigned slot)
{
	bool any = !block->who_care[slot];
	uint64_t mix = (block->care[slot] + any) * 0x9e3779b97f4a7c15;

	for (unsigned i = 0; i < 4; i++) {
		struct kind *kind =
			&census->kinds[((mix >> 57) + i) % CENSUS_KINDS];

		if (!kind->cnt) {
			kind->care = block->care[slot];
			kind->any = any;
			kind->class = TAGRV_NO_CLASS;
			return kind;
		}
		if (kind->care == block->care[slot] && kind->any == any)
			return kind;
	}
	return NULL;
}

static void count_block(struct census *census,
			const struct tagrv_posted_block *block)
{
	for (uint32_t todo = block->live; todo; todo &= todo - 1) {
		struct kind *kind = kind_of(census, block,
					    (unsigned) __builtin_ctz(todo));

		if (kind)
			kind->cnt++;
	}
}

/*
 * The class that receives of a kind move to. None when there is none left, or
 * when it is hashed already: what is in the list all the same is older than
 * what the class holds and stays; an arrival asks both.
 */
static uint8_t class_for(struct tagrv_posted_queue *queue, struct kind *kind,
			 uint8_t space)
{
	if (kind->class != TAGRV_NO_CLASS || kind->cnt < CLASS_MIN)
		return kind->class;
	if (tagrv_posted_class_of(queue, space, kind->care, kind->any) ==
	    TAGRV_NO_CLASS)
		kind->class = tagrv_posted_class_new(queue, space, kind->care,
						     kind->any);
	if (kind->class == TAGRV_NO_CLASS)
		kind->cnt = 1;
	return kind->class;
}

/* Moves what is frequent into its class; the block may be empty then. */
static void promote_block(struct tagrv_posted_queue *queue,
			  struct tagrv_posted_list *list,
			  struct census *census,
			  struct tagrv_posted_block *block)
{
	for (uint32_t todo = block->live; todo; todo &= todo - 1) {
		unsigned slot = (unsigned) __builtin_ctz(todo);
		struct tagrv_posted *recv =
			tagrv_posted_at(queue, block->recv[slot]);
		struct kind *kind = kind_of(census, block, slot);
		uint8_t class;

		if (!kind)
			continue;
		class = class_for(queue, kind, recv->space);
		if (class == TAGRV_NO_CLASS ||
		    !tagrv_posted_hash_add(queue, recv, class))
			continue;
		block->live &= ~(1u << slot);
		block->cnt--;
		list->cnt--;
	}
}

/* Neighbours behind 'pos' become one where they are half empty. */
static void merge_behind(struct tagrv_posted_queue *queue,
			 struct tagrv_posted_list *list, struct tagrv_list *pos)
{
	while (pos->next != &list->blocks) {
		struct tagrv_list *next = pos->next;

		if (pos != &list->blocks && block_at(pos)->cnt +
		    block_at(next)->cnt <= MERGE_MAX)
			merge(queue, block_at(pos), block_at(next));
		else
			pos = next;
	}
}

static void take_census(struct tagrv_posted_queue *queue,
			struct tagrv_posted_list *list)
{
	struct tagrv_list *before = &list->blocks, *pos, *next;
	struct census census;
	unsigned blocks = 0;

	memset(&census, 0, sizeof(census));
	do {
		before = before->prev;
		if (before == &list->blocks)
			break;
		count_block(&census, block_at(before));
	} while (++blocks < CENSUS_BLOCKS);
	if (before != &list->blocks)
		before = before->prev;
	for (pos = before->next; pos != &list->blocks; pos = next) {
		next = pos->next;
		promote_block(queue, list, &census, block_at(pos));
		if (!block_at(pos)->live)
			free_block(queue, block_at(pos));
	}
	merge_behind(queue, list, before);
}

/* ---- in and out ---- */

/* The block whose end the next receive goes to. */
static struct tagrv_posted_block *
tail_block(struct tagrv_posted_queue *queue, struct tagrv_posted_list *list)
{
	struct tagrv_posted_block *block = last_block(list);

	if (TAGRV_UNLIKELY(!block))
		return new_block(queue, &list->blocks);
	if (TAGRV_LIKELY(end_of(block) < TAGRV_BLOCK_SLOTS))
		return block;
	if (block->cnt > TAGRV_BLOCK_SLOTS - HOLES_MIN)
		return new_block(queue, &block->link);
	close_holes(queue, block);
	return block;
}

int tagrv_posted_list_add(struct tagrv_posted_queue *queue,
			  struct tagrv_posted *recv, uint64_t care)
{
	struct tagrv_posted_list *list = &queue->lists[recv->space];
	struct tagrv_posted_block *block = tail_block(queue, list);

	if (TAGRV_UNLIKELY(!block))
		return -FI_ENOMEM;
	fill_slot(block, end_of(block), recv, care);
	list->cnt++;
	if (TAGRV_LIKELY(list->cnt <= TAGRV_BLOCK_SLOTS))
		return 0;
	if (list->census_in-- > 0)
		return 0;
	take_census(queue, list);
	/* So the census costs a receive no more than an arrival does. */
	list->census_in = (uint32_t) TAGRV_MAX(CENSUS_MIN,
		TAGRV_MIN(list->cnt, (size_t) CENSUS_BLOCKS *
			  TAGRV_BLOCK_SLOTS) / 2);
	return 0;
}

/* Halves a full block: the younger half goes to a new one behind it. */
static bool split(struct tagrv_posted_queue *queue,
		  struct tagrv_posted_block *block)
{
	struct tagrv_posted_block *half = new_block(queue, &block->link);

	if (!half)
		return false;
	for (unsigned i = TAGRV_BLOCK_SLOTS / 2; i < TAGRV_BLOCK_SLOTS; i++)
		move_slot(queue, half, half->cnt, block, i);
	return true;
}

/* The last block that begins before seq, else the first one, else NULL. */
static struct tagrv_posted_block *
block_of_seq(const struct tagrv_posted_list *list, uint64_t seq)
{
	struct tagrv_posted_block *block = last_block(list);

	while (block && block->link.prev != &list->blocks &&
	       block->seq[__builtin_ctz(block->live)] > seq)
		block = block_at(block->link.prev);
	return block;
}

int tagrv_posted_list_insert(struct tagrv_posted_queue *queue,
			     struct tagrv_posted *recv, uint64_t care)
{
	struct tagrv_posted_list *list = &queue->lists[recv->space];
	struct tagrv_posted_block *block = block_of_seq(list, recv->seq);
	unsigned slot;

	if (!block)
		block = new_block(queue, &list->blocks);
	if (!block)
		return -FI_ENOMEM;
	if (block->cnt == TAGRV_BLOCK_SLOTS) {
		if (!split(queue, block))
			return -FI_ENOMEM;
		block = block_of_seq(list, recv->seq);
	}
	close_holes(queue, block);
	for (slot = block->cnt; slot && block->seq[slot - 1] > recv->seq; slot--)
		move_slot(queue, block, slot, block, slot - 1);
	fill_slot(block, slot, recv, care);
	list->cnt++;
	return 0;
}

void tagrv_posted_list_remove(struct tagrv_posted_queue *queue,
			      struct tagrv_posted *recv)
{
	struct tagrv_posted_list *list = &queue->lists[recv->space];
	struct tagrv_posted_block *block = recv->block;
	struct tagrv_list *next = block->link.next;

	block->live &= ~(1u << recv->slot);
	block->cnt--;
	list->cnt--;
	if (TAGRV_LIKELY(next == block->link.prev))
		return;		/* the only one: kept, even if empty */
	if (!block->live)
		free_block(queue, block);
	else if (next != &list->blocks &&
		 block->cnt + block_at(next)->cnt <= MERGE_MAX)
		merge(queue, block, block_at(next));
}

/* ---- search ---- */

static inline bool slot_matches(const struct tagrv_posted_block *block,
				unsigned slot, uint64_t tag, uint64_t who)
{
	return !(((block->tag[slot] ^ tag) & block->care[slot]) |
		 ((block->who[slot] ^ who) & block->who_care[slot]));
}

/*
 * Bit i: slot at + i matches. One by one, not as vectors: a slot that was just
 * filled cannot be loaded together with its neighbour before both stores have
 * left the store buffer, and with few receives it is the one that was.
 */
static inline uint32_t compare_group(const struct tagrv_posted_block *block,
				     unsigned at, uint64_t tag, uint64_t who)
{
	uint32_t hits = 0;

	for (unsigned i = 0; i < GROUP; i++)
		hits |= (uint32_t) slot_matches(block, at + i, tag, who) << i;
	return hits;
}

/* The slot of the first hit, or TAGRV_BLOCK_SLOTS. */
static inline unsigned search_block(const struct tagrv_posted_block *block,
				    uint64_t tag, uint64_t who)
{
	uint32_t live = block->live;
	unsigned at, end;

	if (!live)
		return TAGRV_BLOCK_SLOTS;
	at = (unsigned) __builtin_ctz(live);
	if (!(live & (live - 1)))
		return slot_matches(block, at, tag, who) ? at :
							   TAGRV_BLOCK_SLOTS;
	end = end_of(block);
	for (at &= ~(GROUP - 1u); at < end; at += GROUP) {
		uint32_t hits = compare_group(block, at, tag, who) &
				live >> at;

		if (hits)
			return at + (unsigned) __builtin_ctz(hits);
	}
	return TAGRV_BLOCK_SLOTS;
}

struct tagrv_posted *tagrv_posted_list_match(struct tagrv_posted_queue *queue,
					     uint32_t peer, uint8_t space,
					     uint64_t tag)
{
	struct tagrv_posted_list *list = &queue->lists[space];
	struct tagrv_list *pos;

	tagrv_list_for_each(&list->blocks, pos) {
		struct tagrv_posted_block *block = block_at(pos);
		unsigned slot = search_block(block, tag, peer);

		if (slot < TAGRV_BLOCK_SLOTS) {
			queue->level.probes += TAGRV_MIN(slot + 1, block->cnt);
			return tagrv_posted_at(queue, block->recv[slot]);
		}
		queue->level.probes += block->cnt;
	}
	return NULL;
}

struct tagrv_posted *
tagrv_posted_list_next(const struct tagrv_posted_queue *queue,
		       const struct tagrv_posted_list *list,
		       const struct tagrv_posted *prev)
{
	const struct tagrv_list *pos = prev ? &prev->block->link :
					      list->blocks.next;
	uint32_t live;

	if (pos == &list->blocks)
		return NULL;
	live = block_at(pos)->live;
	if (prev)
		live &= prev->slot == 31 ? 0 : UINT32_MAX << (prev->slot + 1);
	while (!live) {
		pos = pos->next;
		if (pos == &list->blocks)
			return NULL;
		live = block_at(pos)->live;
	}
	return tagrv_posted_at(queue,
			       block_at(pos)->recv[__builtin_ctz(live)]);
}
