/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Adds, finds, takes and drains unexpected messages. unexpected.h draws the
 * structure. A lookup searches:
 *
 *   whole tag ignored, any peer    first message of the list
 *   whole tag ignored, one peer    first message of the peer in index 0
 *   class that an index serves     one key of the index, until a message matches
 *   else                           the list, until a message matches
 *
 * All of these are in arrival order, so the first match is the earliest.
 */
#include <rdma/fi_errno.h>

#include "match/unexpected.h"

/*
 * Messages queued from which on indexes are used, and down to which they are kept.
 * Between the two a walk costs about as much as updating a few indexes.
 */
#define INDEX_FROM	32
#define INDEX_UP_TO	16

static struct tagrv_unexpected *by_msg(struct tagrv_match_msg *msg)
{
	return tagrv_container_of(msg, struct tagrv_unexpected, msg);
}

int tagrv_unexpected_init(struct tagrv_unexpected_queue *queue, size_t limit,
			  uint64_t seed)
{
	*queue = (struct tagrv_unexpected_queue) {
		.level.limit = TAGRV_MIN(limit ? limit : SIZE_MAX,
					 (size_t) TAGRV_POOL_LARGE_MAX),
		.seed = tagrv_hash_make_seed(seed),
	};
	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++)
		tagrv_list_init(&queue->lists[space]);
	/* Not bounded by the limit: messages handed out do not count. */
	tagrv_pool_init_large(&queue->pool, sizeof(struct tagrv_unexpected),
			      TAGRV_POOL_LARGE_MAX);
	return tagrv_pool_reserve(&queue->pool, 1) ||
	       tagrv_pool_set_aside(&queue->pool) ? -FI_ENOMEM : 0;
}

void tagrv_unexpected_fini(struct tagrv_unexpected_queue *queue)
{
	tagrv_unexpected_index_fini(queue);
	tagrv_pool_fini(&queue->pool);
}

static TAGRV_COLD void begin_indexes(struct tagrv_unexpected_queue *queue)
{
	queue->deep = true;
	tagrv_unexpected_peer_build(queue);
	queue->peer_asked = false;
}

int tagrv_unexpected_add(struct tagrv_unexpected_queue *queue, uint32_t peer,
			 uint8_t space, uint64_t tag,
			 struct tagrv_match_msg **msg)
{
	struct tagrv_unexpected *entry;
	struct tagrv_list *before;

	if (queue->level.cnt >= queue->level.limit)
		return -FI_EAGAIN;
	entry = tagrv_pool_get(&queue->pool);
	/* Its sender may have been told that it is done. */
	if (TAGRV_UNLIKELY(!entry))
		entry = tagrv_pool_get_spare(&queue->pool);
	if (!entry)
		return -FI_ENOMEM;
	entry->msg = (struct tagrv_match_msg) {
		.tag = tag,
		.seq = queue->last_seq,
		.peer = peer,
		.space = space,		/* heads, alone: 0 */
	};
	before = queue->lists[space].prev;
	tagrv_list_push_tail(&queue->lists[space], &entry->link);
	tagrv_level_up(&queue->level);
	if (queue->deep)
		tagrv_unexpected_index_add(queue, entry, before);
	else if (TAGRV_UNLIKELY(queue->level.cnt >= INDEX_FROM))
		begin_indexes(queue);
	*msg = &entry->msg;
	return 0;
}

/* Searches the list of the space and accounts for the steps. */
static struct tagrv_unexpected *
walk(struct tagrv_unexpected_queue *queue, const struct tagrv_match_want *want,
     uint64_t care)
{
	struct tagrv_list *head = &queue->lists[want->space], *pos;
	struct tagrv_unexpected *found = NULL;
	uint64_t steps = 0;

	tagrv_list_for_each(head, pos) {
		steps++;
		if (!tagrv_unexpected_fits(tagrv_unexpected_by_link(pos),
					   want->tag, care, want->peer))
			continue;
		found = tagrv_unexpected_by_link(pos);
		break;
	}
	queue->level.probes += steps;
	if (!queue->deep)
		return found;
	if (care)
		tagrv_unexpected_walked(queue, care,
					want->peer == TAGRV_MATCH_ANY, steps);
	else if (want->peer != TAGRV_MATCH_ANY)
		tagrv_unexpected_peer_walked(queue, steps);
	return found;
}

static struct tagrv_unexpected *
find(struct tagrv_unexpected_queue *queue, const struct tagrv_match_want *want)
{
	uint64_t care = tagrv_want_care(want);
	bool any = want->peer == TAGRV_MATCH_ANY;
	struct tagrv_unexpected_index *index;

	if (!queue->live)
		return walk(queue, want, care);
	if (!care && !any && (queue->live & 1u << TAGRV_INDEX_PEER)) {
		queue->level.probes++;
		queue->indexes[TAGRV_INDEX_PEER].used = queue->last_seq;
		queue->peer_asked = true;
		return tagrv_unexpected_peer_first(queue, want->space,
						   want->peer);
	}
	index = care ? tagrv_unexpected_index_for(queue, care, any) : NULL;
	if (!index)
		return walk(queue, want, care);
	return tagrv_unexpected_index_find(queue, index, want, care);
}

struct tagrv_match_msg *
tagrv_unexpected_find(struct tagrv_unexpected_queue *queue,
		      const struct tagrv_match_want *want)
{
	struct tagrv_unexpected *entry;

	if (TAGRV_LIKELY(tagrv_list_empty(&queue->lists[want->space])))
		return NULL;
	entry = find(queue, want);
	return entry ? &entry->msg : NULL;
}

static void dequeue(struct tagrv_unexpected_queue *queue,
		    struct tagrv_unexpected *entry)
{
	assert(tagrv_list_linked(&entry->link));
	if (queue->live)
		tagrv_unexpected_index_remove(queue, entry);
	tagrv_list_remove(&entry->link);
	queue->level.cnt--;
}

static void end_indexes_if_few(struct tagrv_unexpected_queue *queue)
{
	if (TAGRV_LIKELY(!queue->deep || queue->level.cnt > INDEX_UP_TO))
		return;
	queue->deep = false;
	tagrv_unexpected_index_drop_all(queue);
}

void tagrv_unexpected_take(struct tagrv_unexpected_queue *queue,
			   struct tagrv_match_msg *msg)
{
	dequeue(queue, by_msg(msg));
	end_indexes_if_few(queue);
}

void tagrv_unexpected_put(struct tagrv_unexpected_queue *queue,
			  struct tagrv_match_msg *msg)
{
	struct tagrv_unexpected *entry = by_msg(msg);

	assert(!tagrv_list_linked(&entry->link));
	tagrv_pool_put_large(&queue->pool, entry);
}

/* ---- drain ---- */

/* The next message of each space, along the lists or one peer's rings. */
struct cursor {
	struct tagrv_unexpected *next[TAGRV_SPACE_CNT];
	bool	ring;		/* rings of index 0 */
};

static void begin(const struct tagrv_unexpected_queue *queue, uint32_t peer,
		  struct cursor *cursor)
{
	cursor->ring = peer != TAGRV_MATCH_ANY &&
		       (queue->live & 1u << TAGRV_INDEX_PEER);
	for (uint8_t space = 0; space < TAGRV_SPACE_CNT; space++) {
		const struct tagrv_list *head = &queue->lists[space];

		if (cursor->ring)
			cursor->next[space] = tagrv_unexpected_peer_first(
				queue, space, peer);
		else
			cursor->next[space] = tagrv_list_empty(head) ? NULL :
				tagrv_unexpected_by_link(head->next);
	}
}

static struct tagrv_unexpected *
after(const struct tagrv_unexpected_queue *queue, bool ring,
      const struct tagrv_unexpected *entry)
{
	struct tagrv_unexpected *next;

	if (ring) {
		if (entry->msg.alone & 1u << TAGRV_INDEX_PEER)
			return NULL;
		next = tagrv_unexpected_at(queue, entry->by_peer.next);
		return next->msg.seq > entry->msg.seq ? next : NULL;
	}
	if (entry->link.next == &queue->lists[entry->msg.space])
		return NULL;
	return tagrv_unexpected_by_link(entry->link.next);
}

/* Returns the earliest message and advances past it; NULL at the end. */
static struct tagrv_unexpected *
advance(const struct tagrv_unexpected_queue *queue, struct cursor *cursor)
{
	struct tagrv_unexpected *best = NULL;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		struct tagrv_unexpected *next = cursor->next[space];

		if (next && (!best || next->msg.seq < best->msg.seq))
			best = next;
	}
	if (best)
		cursor->next[best->msg.space] = after(queue, cursor->ring,
						      best);
	return best;
}

/* Indexes are dropped only at the end, because the cursor may use index 0. */
void tagrv_unexpected_drain(struct tagrv_unexpected_queue *queue, uint32_t peer,
			    bool (*fn)(struct tagrv_match_msg *msg, void *arg),
			    void *arg)
{
	struct tagrv_unexpected *entry;
	struct cursor cursor;
	uint64_t steps = 0;

	begin(queue, peer, &cursor);
	while ((entry = advance(queue, &cursor))) {
		steps++;
		if (peer != TAGRV_MATCH_ANY && entry->msg.peer != peer)
			continue;
		if (!fn(&entry->msg, arg))
			continue;
		dequeue(queue, entry);
		tagrv_unexpected_put(queue, &entry->msg);
	}
	end_indexes_if_few(queue);
	if (cursor.ring)
		queue->peer_asked = true;
	else if (queue->deep && peer != TAGRV_MATCH_ANY)
		tagrv_unexpected_peer_walked(queue, steps);
}

uint64_t tagrv_unexpected_oldest(const struct tagrv_unexpected_queue *queue)
{
	struct cursor cursor;
	const struct tagrv_unexpected *first;

	begin(queue, TAGRV_MATCH_ANY, &cursor);
	first = advance(queue, &cursor);
	return first ? queue->last_seq - first->msg.seq : 0;
}

void tagrv_unexpected_grow_ahead(struct tagrv_unexpected_queue *queue)
{
	tagrv_pool_grow_ahead(&queue->pool);
	if (TAGRV_UNLIKELY(!queue->pool.spare))
		/* Without memory, a later call tries again. */
		(void) !tagrv_pool_set_aside(&queue->pool);
	for (uint32_t todo = queue->live; todo; todo &= todo - 1)
		tagrv_keytab_grow_ahead(
			&queue->indexes[__builtin_ctz(todo)].tab);
}
