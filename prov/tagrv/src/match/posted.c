/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Adds, matches and cancels posted receives, in the list or in a class; ids,
 * limits, and the walk over all receives in post order. posted.h draws the
 * structure.
 *
 *   id = low half of 'seq' << 32 | pool handle (generation and index)
 *
 * The handle finds the entry. The sequence number detects a stale id even after
 * the handle's generation has wrapped.
 *
 * Functions *_deep serve a space with several blocks or with hashed classes; they
 * are not inlined, to keep the path of a short list small.
 */
#include <rdma/fi_errno.h>

#include "match/posted.h"

#define SOURCED_MAX	256	/* receives that one walk notes */

int tagrv_posted_init(struct tagrv_posted_queue *queue, size_t limit,
		      uint64_t seed)
{
	*queue = (struct tagrv_posted_queue) {
		.level.limit = TAGRV_MIN(limit ? limit : SIZE_MAX,
					 (size_t) TAGRV_POOL_MAX),
		.seed = tagrv_hash_make_seed(seed),
	};
	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++)
		tagrv_list_init(&queue->lists[space].blocks);
	tagrv_pool_init(&queue->pool, sizeof(struct tagrv_posted),
			queue->level.limit);
	tagrv_pool_init(&queue->blocks, sizeof(struct tagrv_posted_block),
			TAGRV_POOL_MAX);
	if (tagrv_keytab_init(&queue->tab, 0) ||
	    tagrv_pool_reserve(&queue->blocks, 1))
		return -FI_ENOMEM;
	return tagrv_pool_reserve(&queue->pool, 1);
}

void tagrv_posted_fini(struct tagrv_posted_queue *queue)
{
	tagrv_posted_names_drop(queue);
	tagrv_keytab_fini(&queue->tab);
	tagrv_pool_fini(&queue->blocks);
	tagrv_pool_fini(&queue->pool);
}

/* Adds a receive to its class if that is hashed, else to the list. */
static __attribute__((noinline)) int
enqueue_deep(struct tagrv_posted_queue *queue, struct tagrv_posted *recv,
	     uint64_t care)
{
	uint8_t class;

	if (!queue->live[recv->space])
		return tagrv_posted_list_add(queue, recv, care);
	class = tagrv_posted_class_of(queue, recv->space, care,
				      recv->peer == TAGRV_MATCH_ANY);
	if (class != TAGRV_NO_CLASS && tagrv_posted_hash_add(queue, recv, class))
		return 0;
	return tagrv_posted_list_add(queue, recv, care);
}

static inline int enqueue(struct tagrv_posted_queue *queue,
			  struct tagrv_posted *recv, uint64_t care)
{
	struct tagrv_posted_list *list = &queue->lists[recv->space];
	struct tagrv_posted_block *block = list->only_block;

	if (TAGRV_UNLIKELY(!block || list->cnt >= TAGRV_LIST_SHORT ||
			   block->live >> (TAGRV_BLOCK_SLOTS - 1)))
		return enqueue_deep(queue, recv, care);
	tagrv_block_fill(block, tagrv_block_end(block), recv, recv->tag, care,
			 tagrv_slot_peer(recv->peer));
	list->cnt++;
	return 0;
}

int tagrv_posted_add(struct tagrv_posted_queue *queue,
		     const struct tagrv_match_want *want,
		     struct tagrv_match_recv **pub, tagrv_match_id *id)
{
	uint64_t care = tagrv_want_care(want);
	struct tagrv_posted *recv;

	if (queue->level.cnt >= queue->level.limit)
		return -FI_EAGAIN;
	recv = tagrv_pool_get(&queue->pool);
	if (!recv)
		return -FI_ENOMEM;
	recv->tag = want->tag & care;
	recv->peer = want->peer;
	recv->space = want->space;
	recv->keep = want->keep;
	recv->seq = queue->last_seq;
	recv->pub.name = want->name;
	if (TAGRV_UNLIKELY(enqueue(queue, recv, care))) {
		tagrv_pool_put(&queue->pool, recv);
		return -FI_ENOMEM;
	}
	if (TAGRV_UNLIKELY(queue->names.on))
		tagrv_posted_names_add(queue, recv);
	tagrv_level_up(&queue->level);
	*pub = &recv->pub;
	*id = tagrv_posted_id(recv);
	return 0;
}

static __attribute__((noinline)) void
dequeue_deep(struct tagrv_posted_queue *queue, struct tagrv_posted *recv,
	     uint32_t *cell)
{
	if (recv->class == TAGRV_NO_CLASS)
		tagrv_posted_list_remove(queue, recv);
	else
		tagrv_posted_hash_remove(queue, recv, cell);
	if (queue->names.on)
		tagrv_posted_names_remove(queue, recv);
}

/*
 * Removes and frees a receive, which can be read until the next one is added.
 * cell: the receive's cell in the key table, or NULL: not known, or it has none.
 */
static inline void dequeue(struct tagrv_posted_queue *queue,
			   struct tagrv_posted *recv, uint32_t *cell)
{
	struct tagrv_posted_list *list = &queue->lists[recv->space];

	if (TAGRV_LIKELY(list->only_block)) {
		tagrv_block_clear(list->only_block, recv->slot);
		list->cnt--;
	} else {
		dequeue_deep(queue, recv, cell);
	}
	tagrv_pool_put(&queue->pool, recv);
	queue->level.cnt--;
}

static __attribute__((noinline)) struct tagrv_posted *
match_deep(struct tagrv_posted_queue *queue, uint32_t peer, uint8_t space,
	   uint64_t tag, uint32_t **cell)
{
	struct tagrv_posted *recv;

	recv = tagrv_posted_list_match(queue, peer, space, tag);
	if (queue->live[space])
		recv = tagrv_posted_hash_match(queue, peer, space, tag, recv,
					       cell);
	return recv;
}

struct tagrv_match_recv *tagrv_posted_match(struct tagrv_posted_queue *queue,
					    uint32_t peer, uint8_t space,
					    uint64_t tag)
{
	struct tagrv_posted_block *block = queue->lists[space].only_block;
	struct tagrv_posted *recv;
	uint32_t *cell = NULL;

	if (TAGRV_LIKELY(block))
		recv = tagrv_block_match(block, peer, tag,
					 &queue->level.probes);
	else
		recv = match_deep(queue, peer, space, tag, &cell);
	if (!recv)
		return NULL;
	if (TAGRV_LIKELY(!recv->keep))
		dequeue(queue, recv, cell);
	return &recv->pub;
}

int tagrv_posted_cancel(struct tagrv_posted_queue *queue, tagrv_match_id id,
			struct tagrv_match_recv **pub)
{
	struct tagrv_posted *recv = tagrv_pool_find(&queue->pool, (uint32_t) id);

	if (!recv || tagrv_posted_id(recv) != id)
		return -FI_ENOENT;
	dequeue(queue, recv, NULL);
	*pub = &recv->pub;
	return 0;
}

/* ---- walk over all receives in post order ---- */

/* Merges the lists and classes: the next receive of each. */
struct walk {
	struct tagrv_posted *list[TAGRV_SPACE_CNT];	/* NULL: at its end */
	struct tagrv_posted *class[TAGRV_CLASSES];
	uint64_t live;		/* bit c: class[c] is not at its end */
};

static void walk_begin(const struct tagrv_posted_queue *queue,
		       struct walk *walk)
{
	walk->live = 0;
	for (unsigned i = 0; i < TAGRV_SPACE_CNT; i++) {
		walk->list[i] = tagrv_posted_list_next(&queue->lists[i], NULL);
		walk->live |= queue->live[i];
	}
	for (uint64_t todo = walk->live; todo; todo &= todo - 1) {
		unsigned c = (unsigned) __builtin_ctzll(todo);

		if (queue->classes[c].cnt)
			walk->class[c] = tagrv_posted_at(queue,
				queue->classes[c].first);
		else
			walk->live &= ~(1ull << c);
	}
}

static void advance_class(const struct tagrv_posted_queue *queue,
			  struct walk *walk, unsigned c)
{
	uint32_t newer = walk->class[c]->newer;

	if (newer == TAGRV_NO_RECV)
		walk->live &= ~(1ull << c);
	else
		walk->class[c] = tagrv_posted_at(queue, newer);
}

/* Returns the next receive, or NULL at the end. */
static struct tagrv_posted *
walk_next(const struct tagrv_posted_queue *queue, struct walk *walk)
{
	struct tagrv_posted *best = NULL;

	for (unsigned i = 0; i < TAGRV_SPACE_CNT; i++)
		if (walk->list[i] && (!best || walk->list[i]->seq < best->seq))
			best = walk->list[i];
	for (uint64_t todo = walk->live; todo; todo &= todo - 1) {
		struct tagrv_posted *first =
			walk->class[__builtin_ctzll(todo)];

		if (!best || first->seq < best->seq)
			best = first;
	}
	if (!best)
		return NULL;
	if (best->class == TAGRV_NO_CLASS)
		walk->list[best->space] = tagrv_posted_list_next(
			&queue->lists[best->space], best);
	else
		advance_class(queue, walk, best->class);
	return best;
}

struct tagrv_posted *
tagrv_posted_each(const struct tagrv_posted_queue *queue,
		  bool (*fn)(struct tagrv_posted *recv, void *arg), void *arg)
{
	struct tagrv_posted *recv;
	struct walk walk;

	walk_begin(queue, &walk);
	while ((recv = walk_next(queue, &walk)))
		if (fn(recv, arg))
			break;
	return recv;
}

struct search {
	tagrv_match_recv_fn fn;
	void	*arg;
};

static bool is_found(struct tagrv_posted *recv, void *arg)
{
	const struct search *search = arg;

	return search->fn(&recv->pub, tagrv_posted_id(recv), search->arg);
}

tagrv_match_id tagrv_posted_find(const struct tagrv_posted_queue *queue,
				 tagrv_match_recv_fn fn, void *arg)
{
	struct search search = { fn, arg };
	struct tagrv_posted *recv = tagrv_posted_each(queue, is_found, &search);

	return recv ? tagrv_posted_id(recv) : 0;
}

/* ---- receives that could match a message of a peer ---- */

/* The newest slots first: a list is in post order. */
static bool list_awaits(const struct tagrv_posted_list *list, uint32_t peer,
			uint64_t since)
{
	const struct tagrv_list *pos;

	for (pos = list->blocks.prev; pos != &list->blocks; pos = pos->prev) {
		const struct tagrv_posted_block *block = tagrv_container_of(
			pos, struct tagrv_posted_block, link);

		for (uint64_t todo = block->live; todo;) {
			unsigned slot = 63 - (unsigned) __builtin_clzll(todo);
			uint64_t mask_peer = block->mask_peer[slot];

			if (block->recv[slot]->seq <= since)
				return false;
			if (!((mask_peer ^ peer) & mask_peer >> 32))
				return true;
			todo &= ~(1ull << slot);
		}
	}
	return false;
}

static bool class_awaits(const struct tagrv_posted_queue *queue,
			 const struct tagrv_posted_class *class, uint32_t peer,
			 uint64_t since)
{
	uint32_t i = class->cnt ? class->last : TAGRV_NO_RECV;

	while (i != TAGRV_NO_RECV) {
		const struct tagrv_posted *recv = tagrv_posted_at(queue, i);

		if (recv->seq <= since)
			return false;
		if (class->any || recv->peer == peer)
			return true;
		i = recv->older;
	}
	return false;
}

bool tagrv_posted_awaits(const struct tagrv_posted_queue *queue, uint32_t peer,
			 uint64_t since)
{
	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		uint64_t todo = queue->live[space];

		if (list_awaits(&queue->lists[space], peer, since))
			return true;
		for (; todo; todo &= todo - 1)
			if (class_awaits(queue, &queue->classes[
					 __builtin_ctzll(todo)], peer, since))
				return true;
	}
	return false;
}

static struct tagrv_posted *oldest_recv(const struct tagrv_posted_queue *queue)
{
	struct walk walk;

	walk_begin(queue, &walk);
	return walk_next(queue, &walk);
}

/* Removing a receive may move others from class to list: begins a new walk. */
void tagrv_posted_drain(struct tagrv_posted_queue *queue,
			void (*fn)(struct tagrv_match_recv *recv, void *arg),
			void *arg)
{
	struct tagrv_posted *recv;

	while ((recv = oldest_recv(queue))) {
		dequeue(queue, recv, NULL);
		fn(&recv->pub, arg);
	}
}

/* Some receives that name one source. */
struct sourced {
	uint32_t peer;
	size_t	cnt;
	tagrv_match_id ids[SOURCED_MAX];
};

/* For tagrv_posted_each(): true, which ends the walk, when there is no more room. */
static bool add_sourced(struct tagrv_posted *recv, void *arg)
{
	struct sourced *sourced = arg;

	if (tagrv_posted_source(recv) == sourced->peer)
		sourced->ids[sourced->cnt++] = tagrv_posted_id(recv);
	return sourced->cnt == SOURCED_MAX;
}

/*
 * As above, a removal may move others. So the receives are noted first, as many as there
 * is room for: a walk for each of them would take too long if there are thousands.
 */
void tagrv_posted_drain_source(struct tagrv_posted_queue *queue, uint32_t peer,
			       void (*fn)(struct tagrv_match_recv *recv,
					  void *arg), void *arg)
{
	struct sourced sourced = { .peer = peer };
	struct tagrv_match_recv *pub;

	do {
		sourced.cnt = 0;
		(void) tagrv_posted_each(queue, add_sourced, &sourced);
		for (size_t i = 0; i < sourced.cnt; i++)
			if (!tagrv_posted_cancel(queue, sourced.ids[i], &pub))
				fn(pub, arg);
	} while (sourced.cnt == SOURCED_MAX);
}

uint64_t tagrv_posted_oldest(const struct tagrv_posted_queue *queue)
{
	const struct tagrv_posted *oldest = oldest_recv(queue);

	return oldest ? queue->last_seq - oldest->seq : 0;
}

size_t tagrv_posted_classes(const struct tagrv_posted_queue *queue)
{
	size_t cnt = 0;

	for (unsigned i = 0; i < TAGRV_SPACE_CNT; i++)
		cnt += (size_t) __builtin_popcountll(queue->live[i]);
	return cnt;
}

void tagrv_posted_grow_ahead(struct tagrv_posted_queue *queue)
{
	tagrv_pool_grow_ahead(&queue->pool);
	tagrv_pool_grow_ahead(&queue->blocks);
	tagrv_keytab_grow_ahead(&queue->tab);
}
