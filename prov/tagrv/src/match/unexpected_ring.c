/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rings of the messages that have the same key in an index. unexpected.h draws
 * them, and says where their links are.
 */
#include <stdlib.h>
#include <string.h>

#include "match/unexpected.h"

/* ---- memory ---- */

/* Makes 'rings' as long as the pool has chunks now. */
static bool lengthen(struct tagrv_unexpected_index *index, size_t chunks)
{
	struct tagrv_unexpected_ring **rings;

	/* By doubling, as the pool's own array grows. */
	chunks = TAGRV_MAX(chunks, 2 * index->chunks);
	rings = realloc(index->rings, chunks * sizeof(*rings));
	if (!rings)
		return false;
	memset(rings + index->chunks, 0,
	       (chunks - index->chunks) * sizeof(*rings));
	index->rings = rings;
	index->chunks = chunks;
	return true;
}

/* Makes sure that the ring of a message has memory. */
static bool has_memory(struct tagrv_unexpected_queue *queue, unsigned i,
		       const struct tagrv_unexpected *entry)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];
	size_t chunk = tagrv_pool_index_large(&entry->node) >>
		       queue->pool.chunk_shift;

	if (i == TAGRV_INDEX_PEER)
		return true;
	if (TAGRV_UNLIKELY(chunk >= index->chunks) &&
	    !lengthen(index, queue->pool.chunk_cnt))
		return false;
	if (TAGRV_UNLIKELY(!index->rings[chunk]))
		index->rings[chunk] = malloc(queue->pool.chunk_objs *
					     sizeof(**index->rings));
	return index->rings[chunk];
}

void tagrv_unexpected_ring_fini(struct tagrv_unexpected_index *index)
{
	for (size_t i = 0; i < index->chunks; i++)
		free(index->rings[i]);
	free(index->rings);
	index->rings = NULL;
	index->chunks = 0;
}

/* ---- joining and leaving ---- */

static struct tagrv_unexpected_ring *
ring_at(const struct tagrv_unexpected_queue *queue, unsigned i, uint32_t at)
{
	return tagrv_unexpected_ring_of(queue, i, tagrv_unexpected_at(queue, at));
}

bool tagrv_unexpected_ring_join(struct tagrv_unexpected_queue *queue, unsigned i,
				struct tagrv_unexpected *head,
				struct tagrv_unexpected *entry)
{
	uint32_t self = tagrv_pool_index_large(&entry->node);
	uint32_t front = tagrv_pool_index_large(&head->node);
	struct tagrv_unexpected_ring *first, *last;
	uint8_t bit = (uint8_t) (1u << i);

	if (!has_memory(queue, i, head) || !has_memory(queue, i, entry))
		return false;
	first = tagrv_unexpected_ring_of(queue, i, head);
	last = tagrv_unexpected_ring_of(queue, i, entry);
	if (head->msg.alone & bit) {
		head->msg.alone &= (uint8_t) ~bit;
		first->prev = front;
	}
	*last = (struct tagrv_unexpected_ring) { front, first->prev };
	ring_at(queue, i, first->prev)->next = self;
	first->prev = self;
	entry->msg.heads &= (uint8_t) ~bit;
	entry->msg.alone &= (uint8_t) ~bit;
	return true;
}

struct tagrv_unexpected *
tagrv_unexpected_ring_leave(struct tagrv_unexpected_queue *queue, unsigned i,
			    struct tagrv_unexpected *entry)
{
	const struct tagrv_unexpected_ring links =
		*tagrv_unexpected_ring_of(queue, i, entry);
	struct tagrv_unexpected *next = tagrv_unexpected_at(queue, links.next);

	ring_at(queue, i, links.prev)->next = links.next;
	ring_at(queue, i, links.next)->prev = links.prev;
	if (links.next == links.prev)
		next->msg.alone |= (uint8_t) (1u << i);
	return next;
}
