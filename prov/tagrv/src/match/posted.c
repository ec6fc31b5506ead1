/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posted receives: one list per space, in post order.
 *
 *   lists[tagged] <-> seq 1 <-> seq 4 <-> seq 5
 *   lists[msg]    <-> seq 2 <-> seq 3
 *
 * An arrival walks the list of its space and takes the first entry that
 * matches. Cancel goes from the id straight to the entry:
 *
 *   id = low half of 'seq' << 32 | pool handle (generation and index)
 *
 * The handle finds the entry, the sequence tells its lives apart long after the
 * generation alone would have come round.
 */
#include <rdma/fi_errno.h>

#include "match/match_priv.h"

static struct tagrv_posted *posted_at(struct tagrv_list *link)
{
	return tagrv_container_of(link, struct tagrv_posted, link);
}

static tagrv_match_id posted_id(const struct tagrv_posted *recv)
{
	return recv->seq << 32 | recv->node.handle;
}

int tagrv_posted_init(struct tagrv_posted_queue *queue, size_t limit)
{
	*queue = (struct tagrv_posted_queue) {
		.level.limit = TAGRV_MIN(limit ? limit : SIZE_MAX,
					 (size_t) TAGRV_POOL_MAX),
	};
	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++)
		tagrv_list_init(&queue->lists[space]);
	tagrv_pool_init(&queue->pool, sizeof(struct tagrv_posted),
			queue->level.limit);
	return tagrv_pool_reserve(&queue->pool, 1);
}

void tagrv_posted_fini(struct tagrv_posted_queue *queue)
{
	tagrv_pool_fini(&queue->pool);
}

int tagrv_posted_add(struct tagrv_posted_queue *queue,
		     const struct tagrv_match_want *want, void *cookie,
		     tagrv_match_id *id)
{
	struct tagrv_posted *recv;

	if (queue->level.cnt >= queue->level.limit)
		return -FI_EAGAIN;
	recv = tagrv_pool_get(&queue->pool);
	if (!recv)
		return -FI_ENOMEM;
	recv->tag = want->tag;
	recv->care = tagrv_want_care(want);
	recv->peer = want->peer;
	recv->space = want->space;
	recv->keep = want->keep;
	recv->seq = queue->last_seq;
	recv->cookie = cookie;
	tagrv_list_push_tail(&queue->lists[want->space], &recv->link);
	tagrv_level_up(&queue->level);
	*id = posted_id(recv);
	return 0;
}

/* Takes a receive out for good and returns its cookie. */
static void *unqueue(struct tagrv_posted_queue *queue,
		     struct tagrv_posted *recv)
{
	void *cookie = recv->cookie;

	tagrv_list_remove(&recv->link);
	tagrv_pool_put(&queue->pool, recv);
	queue->level.cnt--;
	return cookie;
}

static bool matches(const struct tagrv_posted *recv, uint32_t peer,
		    uint64_t tag)
{
	return !((recv->tag ^ tag) & recv->care) &&
	       (recv->peer == peer || recv->peer == TAGRV_MATCH_ANY);
}

bool tagrv_posted_match(struct tagrv_posted_queue *queue, uint32_t peer,
			uint8_t space, uint64_t tag, void **cookie)
{
	struct tagrv_list *head = &queue->lists[space];
	struct tagrv_list *pos;
	uint64_t probes = 0;

	tagrv_list_for_each(head, pos) {
		probes++;
		if (matches(posted_at(pos), peer, tag))
			break;
	}
	queue->level.probes += probes;
	if (pos == head)
		return false;
	if (posted_at(pos)->keep)
		*cookie = posted_at(pos)->cookie;
	else
		*cookie = unqueue(queue, posted_at(pos));
	return true;
}

int tagrv_posted_cancel(struct tagrv_posted_queue *queue, tagrv_match_id id,
			void **cookie)
{
	struct tagrv_posted *recv = tagrv_pool_find(&queue->pool, (uint32_t) id);

	if (!recv || posted_id(recv) != id)
		return -FI_ENOENT;
	*cookie = unqueue(queue, recv);
	return 0;
}

/*
 * Walks all spaces in post order: 'pos' holds the next link of each, starts at
 * the first ones, and is stepped past the entry returned. NULL at the end.
 */
static struct tagrv_posted *next_of_all(struct tagrv_posted_queue *queue,
					struct tagrv_list *pos[TAGRV_SPACE_CNT])
{
	struct tagrv_posted *best = NULL;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		if (pos[space] == &queue->lists[space])
			continue;
		if (!best || posted_at(pos[space])->seq < best->seq)
			best = posted_at(pos[space]);
	}
	if (best)
		pos[best->space] = best->link.next;
	return best;
}

static void first_of_all(struct tagrv_posted_queue *queue,
			 struct tagrv_list *pos[TAGRV_SPACE_CNT])
{
	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++)
		pos[space] = queue->lists[space].next;
}

tagrv_match_id tagrv_posted_find(struct tagrv_posted_queue *queue,
				 bool (*is)(void *cookie, void *arg), void *arg)
{
	struct tagrv_list *pos[TAGRV_SPACE_CNT];
	struct tagrv_posted *recv;

	first_of_all(queue, pos);
	while ((recv = next_of_all(queue, pos)))
		if (is(recv->cookie, arg))
			return posted_id(recv);
	return 0;
}

void tagrv_posted_drain(struct tagrv_posted_queue *queue,
			void (*fn)(void *cookie, void *arg), void *arg)
{
	struct tagrv_list *pos[TAGRV_SPACE_CNT];
	struct tagrv_posted *recv;

	first_of_all(queue, pos);
	while ((recv = next_of_all(queue, pos)))
		fn(unqueue(queue, recv), arg);
}

uint64_t tagrv_posted_oldest(const struct tagrv_posted_queue *queue)
{
	uint64_t oldest = queue->last_seq;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		struct tagrv_list *first =
			tagrv_list_first(&queue->lists[space]);

		if (first)
			oldest = TAGRV_MIN(oldest, posted_at(first)->seq);
	}
	return queue->last_seq - oldest;
}
