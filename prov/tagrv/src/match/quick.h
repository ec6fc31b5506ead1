/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The matching engine itself, and the shortest post and arrival, inlined.
 *
 *   no unexpected message, few receives in one block --> the next slot of the block
 *   else                                             --> NULL: tagrv_match_post()
 *
 *   receives are in one block --> the first slot that matches, or none does
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

/* The block whose next slot a receive may take; NULL: look closer. */
static inline struct tagrv_posted_block *
tagrv_match_quick_block(const struct tagrv_match *match, uint8_t space)
{
	const struct tagrv_posted_queue *queue = &match->posted;
	struct tagrv_posted_block *block = queue->lists[space].only_block;

	if (TAGRV_LIKELY(block) &&
	    TAGRV_LIKELY(queue->lists[space].cnt < TAGRV_LIST_SHORT) &&
	    TAGRV_LIKELY(!(block->live >> (TAGRV_BLOCK_SLOTS - 1))) &&
	    TAGRV_LIKELY(tagrv_list_empty(&match->unexpected.lists[space])) &&
	    TAGRV_LIKELY(queue->pool.free_head) &&
	    TAGRV_LIKELY(queue->level.cnt < queue->level.limit))
		return block;
	return NULL;
}

/*
 * Queues a tagged receive: as tagrv_match_post() where that returns 0. mask_peer:
 * tagrv_slot_peer(). NULL: nothing has happened; call that.
 */
static inline struct tagrv_match_recv *
tagrv_match_post_quick(struct tagrv_match *match, uint64_t tag, uint64_t ignore,
		       uint64_t mask_peer, void *name)
{
	struct tagrv_posted_queue *queue = &match->posted;
	struct tagrv_posted_block *block =
		tagrv_match_quick_block(match, TAGRV_SPACE_TAGGED);
	struct tagrv_posted *recv;

	if (TAGRV_UNLIKELY(!block))
		return NULL;
	recv = tagrv_pool_get(&queue->pool);
	recv->seq = ++queue->last_seq;
	recv->pub.name = name;
	recv->space = TAGRV_SPACE_TAGGED;
	recv->keep = false;
	tagrv_block_fill(block, tagrv_block_end(block), recv, tag, ~ignore,
			 mask_peer);
	queue->lists[TAGRV_SPACE_TAGGED].cnt++;
	tagrv_level_up(&queue->level);
	return &recv->pub;
}

/*
 * Takes the receive of a tagged message: as tagrv_match_arrive() where that returns 1.
 * NULL: nothing has happened. *missed: no posted receive matches, and the message is
 * for tagrv_match_keep(); else look by tagrv_match_arrive().
 */
static inline struct tagrv_match_recv *
tagrv_match_arrive_quick(struct tagrv_match *match, uint32_t peer, uint64_t tag,
			 bool *missed)
{
	struct tagrv_posted_queue *queue = &match->posted;
	struct tagrv_posted_list *list = &queue->lists[TAGRV_SPACE_TAGGED];
	struct tagrv_posted_block *block = list->only_block;
	struct tagrv_posted *recv;

	*missed = false;
	if (TAGRV_UNLIKELY(!block))
		return NULL;
	recv = tagrv_block_match(block, peer, tag, &queue->level.probes);
	*missed = !recv;
	if (TAGRV_UNLIKELY(!recv || recv->keep))
		return NULL;
	match->unexpected.last_seq++;
	tagrv_block_clear(block, recv->slot);
	list->cnt--;
	queue->level.cnt--;
	tagrv_pool_put(&queue->pool, recv);
	return &recv->pub;
}

#endif
