/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The matching engine itself, and the shortest post and arrival, inlined.
 *
 *   no unexpected message, receives are in one block --> a record, which the caller
 *                                                        fills, and the next slot
 *                                                        of the block
 *   else                                             --> NULL: tagrv_match_post()
 *
 *   receives are in one block --> the first slot that matches
 *   else                      --> tagrv_match_arrive()
 */
#ifndef TAGRV_MATCH_QUICK_H
#define TAGRV_MATCH_QUICK_H

#include "match/posted.h"
#include "match/unexpected.h"

struct tagrv_match {
	struct tagrv_posted_queue posted;
	struct tagrv_unexpected_queue unexpected;
	uint64_t peeks;		/* peek and claim calls */
};

/*
 * The block whose next slot a tagged receive may take; NULL: look closer. The pool
 * has no more records than may be posted.
 */
static inline struct tagrv_posted_block *
tagrv_match_quick_block(struct tagrv_match *match)
{
	struct tagrv_posted_queue *queue = &match->posted;
	struct tagrv_posted_list *list = &queue->lists[TAGRV_SPACE_TAGGED];
	struct tagrv_posted_block *block = list->only_block;

	if (TAGRV_LIKELY(block) &&
	    TAGRV_LIKELY((int64_t) block->live >= 0) &&
	    TAGRV_LIKELY(!match->unexpected.level.cnt) &&
	    TAGRV_LIKELY(queue->pool.free_head) &&
	    (TAGRV_LIKELY(list->cnt < TAGRV_LIST_SHORT) ||
	     tagrv_posted_list_stays(queue, list)))
		return block;
	return NULL;
}

/* A record for a receive that tagrv_match_quick_add() will queue. */
static inline struct tagrv_match_recv *
tagrv_match_quick_take(struct tagrv_match *match)
{
	struct tagrv_posted_queue *queue = &match->posted;
	struct tagrv_posted *recv = tagrv_pool_get(&queue->pool);

	recv->seq = ++queue->last_seq;
	tagrv_level_up(&queue->level);
	queue->lists[TAGRV_SPACE_TAGGED].cnt++;
	return &recv->pub;
}

/*
 * Queues a tagged receive: with the two before as tagrv_match_post() where that
 * returns 0. mask_peer: tagrv_slot_peer().
 */
static inline void tagrv_match_quick_add(struct tagrv_posted_block *block,
					 struct tagrv_match_recv *record,
					 uint64_t tag, uint64_t ignore,
					 uint64_t mask_peer)
{
	struct tagrv_posted *recv =
		tagrv_container_of(record, struct tagrv_posted, pub);

	recv->space = TAGRV_SPACE_TAGGED;
	recv->keep = false;
	/* tagrv_block_end() of a block that is not full. */
	tagrv_block_fill(block, 63 - (unsigned) __builtin_clzll(
				 block->live << 1 | 1),
			 recv, tag, ~ignore, mask_peer);
}

/* The block that all tagged receives are in; NULL: there are others, or none. */
static inline struct tagrv_posted_block *
tagrv_match_quick_posted(const struct tagrv_match *match)
{
	return match->posted.lists[TAGRV_SPACE_TAGGED].only_block;
}

/*
 * The slot of the receive that a tagged message of the peer goes to, even if it has
 * 'keep'; -1: none in the block. *more: adds the slots that were compared beyond the
 * first. Changes nothing else.
 */
static inline int tagrv_match_quick_find(const struct tagrv_posted_block *block,
					 uint32_t peer, uint64_t tag,
					 uint64_t *more)
{
	int slot;

	if (TAGRV_UNLIKELY(!block->live))
		return -1;
	slot = __builtin_ctzll(block->live);
	if (TAGRV_UNLIKELY(!tagrv_slot_matches(block, (unsigned) slot, tag, peer)))
		slot = tagrv_block_find(block, block->live & (block->live - 1),
					peer, tag, more);
	return slot;
}

/* The record in a slot. */
static inline struct tagrv_match_recv *
tagrv_match_quick_record(const struct tagrv_posted_block *block, int slot)
{
	return &block->recv[slot]->pub;
}

/* Takes it out of the queue; the record is as it was until the next post. */
static inline void tagrv_match_quick_remove(struct tagrv_match *match,
					    struct tagrv_posted_block *block,
					    int slot)
{
	struct tagrv_posted *recv = block->recv[slot];

	tagrv_block_clear(block, (unsigned) slot);
	tagrv_pool_put(&match->posted.pool, recv);
}

/* So many were taken, by the messages of as many arrivals; more: as above. */
static inline void tagrv_match_quick_count(struct tagrv_match *match,
					   uint32_t cnt, uint64_t more)
{
	struct tagrv_posted_queue *queue = &match->posted;

	match->unexpected.last_seq += cnt;
	queue->lists[TAGRV_SPACE_TAGGED].cnt -= cnt;
	queue->level.cnt -= cnt;
	queue->level.probes += cnt + more;
}

#endif
