/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unexpected messages: one list per space, in arrival order, and every message
 * a second time on the list of its peer modulo TAGRV_PEER_LISTS.
 *
 *   lists[tagged]    <-> seq 1, peer 0 <-> seq 3, peer 7 <-> seq 4, peer 64
 *   peers[tagged][0] <-> seq 1, peer 0 <-> seq 4, peer 64
 *   peers[tagged][7] <-> seq 3, peer 7
 *
 * A wildcard receive walks the list of its space, a directed one that of its
 * peer's remainder; both are in arrival order, so the first match is the
 * earliest. The remainder needs no memory that grows with peers, and a receive
 * from one peer does not pay for the flood of another.
 */
#include <rdma/fi_errno.h>

#include "match/match_priv.h"

static struct tagrv_unexpected *by_link(struct tagrv_list *link)
{
	return tagrv_container_of(link, struct tagrv_unexpected, link);
}

static struct tagrv_unexpected *by_peer_link(struct tagrv_list *link)
{
	return tagrv_container_of(link, struct tagrv_unexpected, peer_link);
}

static struct tagrv_unexpected *by_msg(struct tagrv_match_msg *msg)
{
	return tagrv_container_of(msg, struct tagrv_unexpected, msg);
}

static struct tagrv_list *peer_list(struct tagrv_unexpected_queue *queue,
				    uint8_t space, uint32_t peer)
{
	return &queue->peers[space][peer & (TAGRV_PEER_LISTS - 1)];
}

int tagrv_unexpected_init(struct tagrv_unexpected_queue *queue, size_t limit)
{
	*queue = (struct tagrv_unexpected_queue) {
		.level.limit = TAGRV_MIN(limit ? limit : SIZE_MAX,
					 (size_t) TAGRV_POOL_MAX),
	};
	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		tagrv_list_init(&queue->lists[space]);
		for (unsigned i = 0; i < TAGRV_PEER_LISTS; i++)
			tagrv_list_init(&queue->peers[space][i]);
	}
	/* Not bounded by the limit: messages handed out do not count. */
	tagrv_pool_init(&queue->pool, sizeof(struct tagrv_unexpected),
			TAGRV_POOL_MAX);
	return tagrv_pool_reserve(&queue->pool, 1);
}

void tagrv_unexpected_fini(struct tagrv_unexpected_queue *queue)
{
	tagrv_pool_fini(&queue->pool);
}

int tagrv_unexpected_add(struct tagrv_unexpected_queue *queue, uint32_t peer,
			 uint8_t space, uint64_t tag,
			 struct tagrv_match_msg **msg)
{
	struct tagrv_unexpected *entry;

	if (queue->level.cnt >= queue->level.limit)
		return -FI_EAGAIN;
	entry = tagrv_pool_get(&queue->pool);
	if (!entry)
		return -FI_ENOMEM;
	entry->msg = (struct tagrv_match_msg) {
		.tag = tag,
		.seq = queue->last_seq,
		.peer = peer,
		.space = space,
	};
	tagrv_list_push_tail(&queue->lists[space], &entry->link);
	tagrv_list_push_tail(peer_list(queue, space, peer), &entry->peer_link);
	tagrv_level_up(&queue->level);
	*msg = &entry->msg;
	return 0;
}

static struct tagrv_match_msg *
find_from_any(struct tagrv_unexpected_queue *queue, uint8_t space, uint64_t tag,
	      uint64_t care)
{
	struct tagrv_list *head = &queue->lists[space];
	struct tagrv_list *pos;
	uint64_t probes = 0;

	tagrv_list_for_each(head, pos) {
		probes++;
		if (!((by_link(pos)->msg.tag ^ tag) & care))
			break;
	}
	queue->level.probes += probes;
	return pos == head ? NULL : &by_link(pos)->msg;
}

static struct tagrv_match_msg *
find_from_peer(struct tagrv_unexpected_queue *queue, uint8_t space,
	       uint32_t peer, uint64_t tag, uint64_t care)
{
	struct tagrv_list *head = peer_list(queue, space, peer);
	struct tagrv_list *pos;
	uint64_t probes = 0;

	tagrv_list_for_each(head, pos) {
		probes++;
		if (by_peer_link(pos)->msg.peer == peer &&
		    !((by_peer_link(pos)->msg.tag ^ tag) & care))
			break;
	}
	queue->level.probes += probes;
	return pos == head ? NULL : &by_peer_link(pos)->msg;
}

struct tagrv_match_msg *
tagrv_unexpected_find(struct tagrv_unexpected_queue *queue,
		      const struct tagrv_match_want *want)
{
	uint64_t care = tagrv_want_care(want);

	if (want->peer == TAGRV_MATCH_ANY)
		return find_from_any(queue, want->space, want->tag, care);
	return find_from_peer(queue, want->space, want->peer, want->tag, care);
}

void tagrv_unexpected_take(struct tagrv_unexpected_queue *queue,
			   struct tagrv_match_msg *msg)
{
	struct tagrv_unexpected *entry = by_msg(msg);

	assert(tagrv_list_linked(&entry->link));
	tagrv_list_remove(&entry->link);
	tagrv_list_remove(&entry->peer_link);
	queue->level.cnt--;
}

void tagrv_unexpected_put(struct tagrv_unexpected_queue *queue,
			  struct tagrv_match_msg *msg)
{
	struct tagrv_unexpected *entry = by_msg(msg);

	assert(!tagrv_list_linked(&entry->link));
	tagrv_pool_put(&queue->pool, entry);
}

/*
 * Walks all spaces in arrival order: 'pos' holds the next link of each and is
 * stepped past the entry returned. NULL at the end.
 */
static struct tagrv_unexpected *
next_of_all(struct tagrv_unexpected_queue *queue,
	    struct tagrv_list *pos[TAGRV_SPACE_CNT])
{
	struct tagrv_unexpected *best = NULL;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		if (pos[space] == &queue->lists[space])
			continue;
		if (!best || by_link(pos[space])->msg.seq < best->msg.seq)
			best = by_link(pos[space]);
	}
	if (best)
		pos[best->msg.space] = best->link.next;
	return best;
}

void tagrv_unexpected_drain(struct tagrv_unexpected_queue *queue, uint32_t peer,
			    bool (*fn)(struct tagrv_match_msg *msg, void *arg),
			    void *arg)
{
	struct tagrv_list *pos[TAGRV_SPACE_CNT];
	struct tagrv_unexpected *entry;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++)
		pos[space] = queue->lists[space].next;
	while ((entry = next_of_all(queue, pos))) {
		if (peer != TAGRV_MATCH_ANY && entry->msg.peer != peer)
			continue;
		if (!fn(&entry->msg, arg))
			continue;
		tagrv_unexpected_take(queue, &entry->msg);
		tagrv_unexpected_put(queue, &entry->msg);
	}
}

uint64_t tagrv_unexpected_oldest(const struct tagrv_unexpected_queue *queue)
{
	uint64_t oldest = queue->last_seq;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		struct tagrv_list *first =
			tagrv_list_first(&queue->lists[space]);

		if (first)
			oldest = TAGRV_MIN(oldest, by_link(first)->msg.seq);
	}
	return queue->last_seq - oldest;
}
