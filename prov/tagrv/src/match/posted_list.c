/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The list of receives that are in no hashed class: blocks of 64 slots in post
 * order, compared slot by slot.
 *
 *   block:  slot  0 1 2 3 4 5 ... 63
 *           live  . . x . x x ...  .     the lowest slot that matches wins
 *
 * Short queues are here, and receives of rare classes, for which each arrival
 * would probe the key table in vain. A block holds all that a compare reads; only
 * the receive that matches is read itself. Slots are not compared by vector
 * loads: a slot just filled cannot be loaded together with its neighbour before
 * both stores have left the store buffer, and in a short queue the slot that
 * matches was often just filled. Searching a list of one block without hashed
 * classes is inlined from posted.h and posted.c.
 *
 * A removed receive leaves a hole. Holes are closed when the last block is full,
 * and when two neighbouring blocks together would fill half a block.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "match/posted.h"

/* Neighbouring blocks with at most so many receives together are merged. */
#define MERGE_MAX	(TAGRV_BLOCK_SLOTS / 2)
/* A last block with at least so many holes is compacted, else a new one added. */
#define HOLES_MIN	16
/* Receives that a group needs for its classes to become hashed. */
#define GROUP_MIN	24
/* A census counts so many of the youngest blocks, and so many kinds. */
#define CENSUS_BLOCKS	32
#define CENSUS_KINDS	128
/* Least number of additions between two censuses. */
#define CENSUS_MIN	((size_t) 32)
/* Slots compared, per receive, that cost as much as moving it to a hash. */
#define CENSUS_WALK	8

static struct tagrv_posted_block *block_at(const struct tagrv_list *link)
{
	return tagrv_container_of(link, struct tagrv_posted_block, link);
}

/* Slots in use. */
static unsigned cnt_of(const struct tagrv_posted_block *block)
{
	return (unsigned) __builtin_popcountll(block->live);
}

static struct tagrv_posted_block *
last_block(const struct tagrv_posted_list *list)
{
	return tagrv_list_empty(&list->blocks) ? NULL :
						 block_at(list->blocks.prev);
}

void tagrv_posted_list_set_only(struct tagrv_posted_queue *queue, uint8_t space)
{
	struct tagrv_posted_list *list = &queue->lists[space];
	struct tagrv_posted_block *last = last_block(list);

	list->only_block = last && last->link.prev == &list->blocks &&
			   !queue->live[space] && !queue->names.on ?
			   last : NULL;
}

static void set_only(struct tagrv_posted_queue *queue,
		     const struct tagrv_posted_list *list)
{
	tagrv_posted_list_set_only(queue, (uint8_t) (list - queue->lists));
}

static struct tagrv_posted_block *
new_block(struct tagrv_posted_queue *queue, struct tagrv_posted_list *list,
	  struct tagrv_list *behind)
{
	struct tagrv_posted_block *block = tagrv_pool_get(&queue->blocks);

	if (!block)
		return NULL;
	block->live = 0;
	tagrv_list_insert_after(behind, &block->link);
	set_only(queue, list);
	return block;
}

static void free_block(struct tagrv_posted_queue *queue,
		       struct tagrv_posted_list *list,
		       struct tagrv_posted_block *block)
{
	tagrv_list_remove(&block->link);
	tagrv_pool_put(&queue->blocks, block);
	set_only(queue, list);
}

static void move_slot(struct tagrv_posted_block *to, unsigned t,
		      struct tagrv_posted_block *from, unsigned f)
{
	struct tagrv_posted *recv = from->recv[f];

	tagrv_block_clear(from, f);
	tagrv_block_fill(to, t, recv, from->tag[f], from->care[f],
			 from->mask_peer[f]);
}

/* Moves all receives of a block to its lowest slots. */
static void close_holes(struct tagrv_posted_block *block)
{
	uint64_t todo = block->live;

	for (unsigned to = 0; todo; to++, todo &= todo - 1) {
		unsigned from = (unsigned) __builtin_ctzll(todo);

		if (from != to)
			move_slot(block, to, block, from);
	}
}

/* Moves all receives of 'from', which follows 'to', to 'to', and frees 'from'. */
static void merge(struct tagrv_posted_queue *queue,
		  struct tagrv_posted_list *list,
		  struct tagrv_posted_block *to,
		  struct tagrv_posted_block *from)
{
	close_holes(to);
	while (from->live)
		move_slot(to, cnt_of(to), from,
			  (unsigned) __builtin_ctzll(from->live));
	free_block(queue, list, from);
}

/* ---- census: which classes become hashed ---- */

/* All receives of the list that would be in the same class. */
struct kind {
	uint64_t care;
	bool	any;
	uint8_t	class;		/* to move them to, or TAGRV_NO_CLASS */
	uint16_t cnt;		/* 0: unused */
};

struct census {
	struct kind kinds[CENSUS_KINDS];
};

/*
 * The kind of a slot's receive, from a small hash table. NULL: the four places for
 * its kind are taken; that many kinds in one spot are unlikely to be frequent.
 */
static struct kind *kind_of(struct census *census,
			    const struct tagrv_posted_block *block,
			    unsigned slot)
{
	bool any = !block->mask_peer[slot];
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
	for (uint64_t todo = block->live; todo; todo &= todo - 1) {
		struct kind *kind = kind_of(census, block, (unsigned)
					    __builtin_ctzll(todo));

		if (kind)
			kind->cnt++;
	}
}

/* Orders kinds whose keys others can share first: no peer, few tag bits. */
static int by_coarseness(const void *a, const void *b)
{
	const struct kind *x = *(struct kind *const *) a;
	const struct kind *y = *(struct kind *const *) b;

	if (x->any != y->any)
		return x->any ? -1 : 1;
	return __builtin_popcountll(x->care) - __builtin_popcountll(y->care);
}

/* Number of receives that could share the keys of the kind 'of'. */
static unsigned count_group(struct kind *const *kinds, size_t cnt,
			    const struct kind *of)
{
	unsigned sum = 0;

	for (size_t i = 0; i < cnt; i++)
		if (!(of->care & ~kinds[i]->care) && (of->any || !kinds[i]->any))
			sum += kinds[i]->cnt;
	return sum;
}

/*
 * Creates classes for kinds that have a group or have enough receives together
 * for a new group. Kinds that are hashed already get no class: their receives in
 * the list are older than those of their class and stay in the list; arrivals
 * search both.
 */
static void find_classes(struct tagrv_posted_queue *queue,
			 struct census *census, uint8_t space)
{
	struct kind *kinds[CENSUS_KINDS], *kind;
	size_t cnt = 0;

	for (kind = census->kinds; kind < census->kinds + CENSUS_KINDS; kind++)
		if (kind->cnt && tagrv_posted_class_of(queue, space, kind->care,
				kind->any) == TAGRV_NO_CLASS)
			kinds[cnt++] = kind;
	qsort(kinds, cnt, sizeof(*kinds), by_coarseness);
	for (size_t i = 0; i < cnt; i++) {
		kind = kinds[i];
		if (tagrv_posted_group_for(queue, space, kind->care,
					   kind->any) != TAGRV_NO_CLASS ||
		    count_group(kinds + i, cnt - i, kind) >= GROUP_MIN)
			kind->class = tagrv_posted_class_new(queue, space,
							     kind->care,
							     kind->any);
	}
}

/* Moves the receives of kinds that got a class to it; may empty the block. */
static void promote_block(struct tagrv_posted_queue *queue,
			  struct tagrv_posted_list *list,
			  struct census *census,
			  struct tagrv_posted_block *block)
{
	for (uint64_t todo = block->live; todo; todo &= todo - 1) {
		unsigned slot = (unsigned) __builtin_ctzll(todo);
		struct tagrv_posted *recv = block->recv[slot];
		struct kind *kind = kind_of(census, block, slot);

		if (!kind || kind->class == TAGRV_NO_CLASS)
			continue;
		recv->tag = block->tag[slot] & block->care[slot];
		recv->peer = kind->any ? TAGRV_MATCH_ANY :
			     (uint32_t) block->mask_peer[slot];
		if (!tagrv_posted_hash_add(queue, recv, kind->class))
			continue;
		tagrv_block_clear(block, slot);
		list->cnt--;
	}
}

/* Merges neighbouring blocks behind 'pos' that together fill half a block. */
static void merge_behind(struct tagrv_posted_queue *queue,
			 struct tagrv_posted_list *list, struct tagrv_list *pos)
{
	while (pos->next != &list->blocks) {
		struct tagrv_list *next = pos->next;

		if (pos != &list->blocks && cnt_of(block_at(pos)) +
		    cnt_of(block_at(next)) <= MERGE_MAX)
			merge(queue, list, block_at(pos), block_at(next));
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
	find_classes(queue, &census, (uint8_t) (list - queue->lists));
	for (pos = before->next; pos != &list->blocks; pos = next) {
		next = pos->next;
		promote_block(queue, list, &census, block_at(pos));
		if (!block_at(pos)->live)
			free_block(queue, list, block_at(pos));
	}
	tagrv_posted_hash_settle(queue, (uint8_t) (list - queue->lists));
	merge_behind(queue, list, before);
}

/* ---- addition and removal ---- */

/* The last block, with a free slot at its end; NULL: no memory. */
static struct tagrv_posted_block *
tail_block(struct tagrv_posted_queue *queue, struct tagrv_posted_list *list)
{
	struct tagrv_posted_block *block = last_block(list);

	if (TAGRV_UNLIKELY(!block))
		return new_block(queue, list, &list->blocks);
	if (TAGRV_LIKELY(tagrv_block_end(block) < TAGRV_BLOCK_SLOTS))
		return block;
	if (cnt_of(block) > TAGRV_BLOCK_SLOTS - HOLES_MIN)
		return new_block(queue, list, &block->link);
	close_holes(block);
	return block;
}

/*
 * Whether searches since the last census cost more than hashing would. A program
 * whose receives match in post order needs one compare for each; moving its
 * receives to a class and the last ones back would only slow it down. So only
 * compares beyond one per post count as wasted, and posts with fewer compares are
 * no credit for later searches. A list longer than TAGRV_LIST_LONG is hashed
 * before its first search.
 */
static bool is_worth_census(struct tagrv_posted_queue *queue,
			    struct tagrv_posted_list *list)
{
	uint64_t now = queue->level.probes - queue->last_seq;
	int64_t wasted = (int64_t) (now - list->census_at);

	if (wasted < 0)
		list->census_at = now;
	return list->cnt > TAGRV_LIST_LONG ||
	       wasted > (int64_t) (CENSUS_WALK * list->cnt);
}

bool tagrv_posted_list_stays(struct tagrv_posted_queue *queue,
			     struct tagrv_posted_list *list)
{
	if (TAGRV_LIKELY(list->cnt <= TAGRV_LIST_SHORT))
		return true;
	if (list->census_in > 0) {
		list->census_in--;
		return true;
	}
	return !is_worth_census(queue, list);
}

int tagrv_posted_list_add(struct tagrv_posted_queue *queue,
			  struct tagrv_posted *recv, uint64_t care)
{
	struct tagrv_posted_list *list = &queue->lists[recv->space];
	struct tagrv_posted_block *block = tail_block(queue, list);

	if (TAGRV_UNLIKELY(!block))
		return -FI_ENOMEM;
	tagrv_block_fill(block, tagrv_block_end(block), recv, recv->tag, care,
			 tagrv_slot_peer(recv->peer));
	list->cnt++;
	if (tagrv_posted_list_stays(queue, list))
		return 0;
	take_census(queue, list);
	list->census_at = queue->level.probes - queue->last_seq;
	/* Per receive added, a census then costs no more than an arrival. */
	list->census_in = (uint32_t) TAGRV_MAX(CENSUS_MIN,
		TAGRV_MIN(list->cnt, (size_t) CENSUS_BLOCKS *
			  TAGRV_BLOCK_SLOTS) / 2);
	return 0;
}

/* Moves the younger half of a full block to a new block. False: no memory. */
static bool split_block(struct tagrv_posted_queue *queue,
			struct tagrv_posted_list *list,
			struct tagrv_posted_block *block)
{
	struct tagrv_posted_block *half = new_block(queue, list, &block->link);

	if (!half)
		return false;
	for (unsigned i = TAGRV_BLOCK_SLOTS / 2; i < TAGRV_BLOCK_SLOTS; i++)
		move_slot(half, cnt_of(half), block, i);
	return true;
}

/* The last block whose first seq is not above 'seq', else the first, else NULL. */
static struct tagrv_posted_block *
block_of_seq(const struct tagrv_posted_list *list, uint64_t seq)
{
	struct tagrv_posted_block *block = last_block(list);

	while (block && block->link.prev != &list->blocks &&
	       block->recv[__builtin_ctzll(block->live)]->seq > seq)
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
		block = new_block(queue, list, &list->blocks);
	if (!block)
		return -FI_ENOMEM;
	if (cnt_of(block) == TAGRV_BLOCK_SLOTS) {
		if (!split_block(queue, list, block))
			return -FI_ENOMEM;
		block = block_of_seq(list, recv->seq);
	}
	close_holes(block);
	for (slot = cnt_of(block); slot && block->recv[slot - 1]->seq > recv->seq; slot--)
		move_slot(block, slot, block, slot - 1);
	tagrv_block_fill(block, slot, recv, recv->tag, care,
			 tagrv_slot_peer(recv->peer));
	list->cnt++;
	return 0;
}

void tagrv_posted_list_remove(struct tagrv_posted_queue *queue,
			      struct tagrv_posted *recv)
{
	struct tagrv_posted_list *list = &queue->lists[recv->space];
	struct tagrv_posted_block *block = recv->block;
	struct tagrv_list *next = block->link.next;

	tagrv_block_clear(block, recv->slot);
	list->cnt--;
	if (TAGRV_LIKELY(next == block->link.prev))
		return;		/* the only block is kept, even if empty */
	if (!block->live)
		free_block(queue, list, block);
	else if (next != &list->blocks &&
		 cnt_of(block) + cnt_of(block_at(next)) <= MERGE_MAX)
		merge(queue, list, block, block_at(next));
}

/* ---- search ---- */

struct tagrv_posted *tagrv_posted_list_match(struct tagrv_posted_queue *queue,
					     uint32_t peer, uint8_t space,
					     uint64_t tag)
{
	struct tagrv_list *head = &queue->lists[space].blocks, *pos;
	struct tagrv_posted *recv;

	tagrv_list_for_each(head, pos) {
		recv = tagrv_block_match(block_at(pos), peer, tag,
					 &queue->level.probes);
		if (recv)
			return recv;
	}
	return NULL;
}

struct tagrv_posted *
tagrv_posted_list_next(const struct tagrv_posted_list *list,
		       const struct tagrv_posted *prev)
{
	const struct tagrv_list *pos = prev ? &prev->block->link :
					      list->blocks.next;
	uint64_t live;

	if (pos == &list->blocks)
		return NULL;
	live = block_at(pos)->live;
	if (prev)
		live &= ~((2ull << prev->slot) - 1);
	while (!live) {
		pos = pos->next;
		if (pos == &list->blocks)
			return NULL;
		live = block_at(pos)->live;
	}
	return block_at(pos)->recv[__builtin_ctzll(live)];
}
