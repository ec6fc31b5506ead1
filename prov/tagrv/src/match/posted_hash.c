/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives of hashed classes: one key table for all, a FIFO per key.
 *
 * An arrival computes its key for each live class, asks for all their table
 * lines, then for the entries found there, and only then compares: the misses
 * overlap. A class whose oldest receive is younger than the best found so far
 * is not asked.
 */
#include "match/posted.h"

/* A class with so few receives left goes back to the list. */
#define CLASS_FEW	6

struct recv_key {
	const struct tagrv_posted_queue *queue;
	uint64_t tag;		/* bits that do not count are 0 */
	uint32_t peer;
	uint8_t	class;
};

static inline bool has_key(const void *arg, uint32_t index)
{
	const struct recv_key *key = arg;
	const struct tagrv_posted *recv = tagrv_posted_at(key->queue, index);

	return recv->tag == key->tag && recv->peer == key->peer &&
	       recv->class == key->class;
}

uint8_t tagrv_posted_class_of(const struct tagrv_posted_queue *queue,
			      uint8_t space, uint64_t care, bool any)
{
	for (uint64_t todo = queue->live[space]; todo; todo &= todo - 1) {
		unsigned c = (unsigned) __builtin_ctzll(todo);
		const struct tagrv_posted_class *class = &queue->classes[c];

		if (class->care == care && class->any == any)
			return (uint8_t) c;
	}
	return TAGRV_NO_CLASS;
}

uint8_t tagrv_posted_class_new(struct tagrv_posted_queue *queue, uint8_t space,
			       uint64_t care, bool any)
{
	uint64_t live = 0;
	unsigned c;

	for (unsigned i = 0; i < TAGRV_SPACE_CNT; i++)
		live |= queue->live[i];
	if (!~live)
		return TAGRV_NO_CLASS;
	c = (unsigned) __builtin_ctzll(~live);
	queue->classes[c] = (struct tagrv_posted_class) {
		.care = care,
		.any = any,
		.space = space,
		.first = TAGRV_NO_RECV,
		.last = TAGRV_NO_RECV,
	};
	queue->promotions++;
	return (uint8_t) c;
}

/* Behind all others of its key: a ring, whose head the table knows. */
static bool link_key(struct tagrv_posted_queue *queue,
		     struct tagrv_posted *recv, uint8_t class)
{
	struct recv_key key = { queue, recv->tag, recv->peer, class };
	uint32_t hash = tagrv_hash(&queue->seed, recv->tag, recv->peer, class);
	uint32_t index = tagrv_posted_index(recv);
	struct tagrv_posted *head;
	uint64_t *slot;

	slot = tagrv_keytab_find(&queue->tab, hash, has_key, &key);
	if (!slot) {
		if (!tagrv_keytab_insert(&queue->tab, hash, index))
			return false;
		recv->prev = index;
		recv->next = index;
	} else {
		head = tagrv_posted_at(queue, tagrv_keytab_index(slot));
		recv->prev = head->prev;
		recv->next = tagrv_keytab_index(slot);
		tagrv_posted_at(queue, head->prev)->next = index;
		head->prev = index;
	}
	recv->head = !slot;
	recv->hash = hash;
	recv->class = class;
	return true;
}

bool tagrv_posted_hash_add(struct tagrv_posted_queue *queue,
			   struct tagrv_posted *recv, uint8_t c)
{
	struct tagrv_posted_class *class = &queue->classes[c];

	if (!link_key(queue, recv, c))
		return false;
	recv->newer = TAGRV_NO_RECV;
	recv->older = class->last;
	if (class->cnt++) {
		tagrv_posted_at(queue, class->last)->newer =
			tagrv_posted_index(recv);
	} else {
		class->first = tagrv_posted_index(recv);
		class->oldest = recv->seq;
		queue->live[class->space] |= 1ull << c;
		tagrv_posted_list_renew(queue, class->space);
	}
	class->last = tagrv_posted_index(recv);
	return true;
}

static void unlink_key(struct tagrv_posted_queue *queue,
		       struct tagrv_posted *recv)
{
	uint32_t index = tagrv_posted_index(recv);
	uint64_t *slot = NULL;

	if (recv->head)
		slot = tagrv_keytab_slot_of(&queue->tab, recv->hash, index);
	if (recv->next == index) {
		tagrv_keytab_erase(&queue->tab, slot);
		return;
	}
	tagrv_posted_at(queue, recv->prev)->next = recv->next;
	tagrv_posted_at(queue, recv->next)->prev = recv->prev;
	if (slot) {
		tagrv_posted_at(queue, recv->next)->head = true;
		tagrv_keytab_replace(slot, recv->next);
	}
}

static void unlink_class(struct tagrv_posted_queue *queue,
			 struct tagrv_posted *recv)
{
	struct tagrv_posted_class *class = &queue->classes[recv->class];
	struct tagrv_posted *newer = NULL;

	if (recv->newer != TAGRV_NO_RECV) {
		newer = tagrv_posted_at(queue, recv->newer);
		newer->older = recv->older;
	} else {
		class->last = recv->older;
	}
	if (recv->older != TAGRV_NO_RECV) {
		tagrv_posted_at(queue, recv->older)->newer = recv->newer;
	} else {
		class->first = recv->newer;
		if (newer)
			class->oldest = newer->seq;
	}
	if (!--class->cnt) {
		queue->live[class->space] &= ~(1ull << recv->class);
		tagrv_posted_list_renew(queue, class->space);
	}
}

static void take_out(struct tagrv_posted_queue *queue,
		     struct tagrv_posted *recv)
{
	unlink_key(queue, recv);
	unlink_class(queue, recv);
}

/* Back to the list, as far as there are blocks: this must not allocate. */
static void demote(struct tagrv_posted_queue *queue,
		   struct tagrv_posted_class *class)
{
	queue->demotions++;
	while (class->cnt && queue->blocks.free_head) {
		struct tagrv_posted *recv =
			tagrv_posted_at(queue, class->first);

		take_out(queue, recv);
		if (tagrv_posted_list_insert(queue, recv, class->care))
			assert(!"a free block is enough");
	}
}

void tagrv_posted_hash_remove(struct tagrv_posted_queue *queue,
			      struct tagrv_posted *recv)
{
	struct tagrv_posted_class *class = &queue->classes[recv->class];

	take_out(queue, recv);
	if (TAGRV_UNLIKELY(class->cnt <= CLASS_FEW))
		demote(queue, class);
}

/* ---- search ---- */

struct probe {
	struct recv_key key;
	uint32_t hash;
};

/* Keys of the classes that may hold something older; fetches their lines. */
static unsigned make_probes(const struct tagrv_posted_queue *queue,
			    uint32_t peer, uint8_t space, uint64_t tag,
			    uint64_t before, struct probe *probes)
{
	unsigned cnt = 0;

	for (uint64_t todo = queue->live[space]; todo; todo &= todo - 1) {
		unsigned c = (unsigned) __builtin_ctzll(todo);
		const struct tagrv_posted_class *class = &queue->classes[c];
		struct probe *probe = &probes[cnt];

		if (class->oldest > before)
			continue;
		probe->key.queue = queue;
		probe->key.tag = tag & class->care;
		probe->key.peer = class->any ? TAGRV_MATCH_ANY : peer;
		probe->key.class = (uint8_t) c;
		probe->hash = tagrv_hash(&queue->seed, probe->key.tag,
					 probe->key.peer, c);
		tagrv_keytab_prefetch(&queue->tab, probe->hash);
		cnt++;
	}
	return cnt;
}

struct tagrv_posted *tagrv_posted_hash_match(struct tagrv_posted_queue *queue,
					     uint32_t peer, uint8_t space,
					     uint64_t tag,
					     struct tagrv_posted *best)
{
	uint64_t before = best ? best->seq : UINT64_MAX;
	struct probe probes[TAGRV_CLASSES];
	unsigned cnt = make_probes(queue, peer, space, tag, before, probes);

	queue->level.probes += cnt;
	for (unsigned i = 0; i < cnt; i++) {
		const struct tagrv_posted_class *class =
			&queue->classes[probes[i].key.class];
		struct tagrv_posted *recv;
		uint64_t *slot;

		if (class->oldest > before)
			continue;
		slot = tagrv_keytab_find(&queue->tab, probes[i].hash, has_key,
					 &probes[i].key);
		if (!slot)
			continue;
		recv = tagrv_posted_at(queue, tagrv_keytab_index(slot));
		if (recv->seq < before) {
			before = recv->seq;
			best = recv;
		}
	}
	return best;
}
