/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives of hashed classes: one key table for all classes, a FIFO per key.
 *
 * An arrival computes its key in each group and prefetches all their lines of the
 * table before it compares, so that the cache misses overlap. Groups whose
 * receives are all younger than the best match so far are not probed.
 *
 * Where classes of a group share keys, arrivals must pass receives of other classes.
 * When they have passed SPLIT_COST receives for each in the group, the largest class
 * that compares more than the key gets a group of its own.
 */
#include "match/posted.h"

/* A group with at most so many receives returns to the list. */
#define GROUP_FEW	6
/* Receives passed, per receive of the group, until the group is split. */
#define SPLIT_COST	4

struct recv_key {
	const struct tagrv_posted_queue *queue;
	const struct tagrv_posted_group *group;
	uint64_t tag;		/* bits that are not in the key are 0 */
	uint32_t peer;
	uint8_t	number;		/* index of the group */
};

static inline bool has_key(const void *arg, uint32_t index)
{
	const struct recv_key *key = arg;
	const struct tagrv_posted *recv = tagrv_posted_at(key->queue, index);

	return (recv->tag & key->group->care) == key->tag &&
	       (key->group->any || recv->peer == key->peer) &&
	       key->queue->classes[recv->class].group == key->number;
}

/* Fills *key and returns its hash. place: see place_of(). */
static inline uint32_t make_key(const struct tagrv_posted_queue *queue,
				uint8_t number, uint32_t peer, uint64_t tag,
				uint32_t place, struct recv_key *key)
{
	uint32_t hash;

	key->queue = queue;
	key->group = &queue->groups[number];
	key->tag = tag & key->group->care;
	key->peer = key->group->any ? TAGRV_MATCH_ANY : peer;
	key->number = number;
	hash = tagrv_hash(&queue->seed, key->tag, key->peer, number);
	return queue->shared & 1ull << number ?
	       tagrv_posted_at_place(hash, place) : hash;
}

/* tagrv_posted_place(), if any group needs it. */
static inline uint32_t place_of(const struct tagrv_posted_queue *queue,
				uint32_t peer, uint64_t tag)
{
	return queue->shared ? tagrv_posted_place(queue, peer, tag) : 0;
}

/*
 * Adds a receive as the newest of its key. False: no memory, or the key has a
 * newer receive.
 */
static bool link_key(struct tagrv_posted_queue *queue,
		     struct tagrv_posted *recv, uint8_t number)
{
	struct recv_key key;
	uint32_t place = place_of(queue, recv->peer, recv->tag);
	uint32_t hash = make_key(queue, number, recv->peer, recv->tag, place,
				 &key);
	uint32_t index = tagrv_posted_index(recv);
	struct tagrv_posted *head, *tail;
	uint32_t *cell;

	cell = tagrv_keytab_find(&queue->tab, hash, has_key, &key);
	if (!cell) {
		if (!tagrv_keytab_insert(&queue->tab, hash, index))
			return false;
		recv->prev = index;
		recv->next = index;
	} else {
		head = tagrv_posted_at(queue, *cell);
		tail = tagrv_posted_at(queue, head->prev);
		/* 'tail' is of another class of the group. */
		if (TAGRV_UNLIKELY(tail->seq > recv->seq))
			return false;
		recv->prev = head->prev;
		recv->next = *cell;
		tail->next = index;
		head->prev = index;
	}
	recv->head = !cell;
	recv->hash = hash;
	return true;
}

/* ---- groups and classes ---- */

static void group_add(struct tagrv_posted_queue *queue, uint8_t number,
		      const struct tagrv_posted *recv)
{
	struct tagrv_posted_group *group = &queue->groups[number];

	if (!group->cnt++ || recv->seq < group->oldest)
		group->oldest = recv->seq;
	queue->live_groups[recv->space] |= 1ull << number;
}

static void group_remove(struct tagrv_posted_queue *queue, uint8_t number,
			 uint8_t space)
{
	if (!--queue->groups[number].cnt)
		queue->live_groups[space] &= ~(1ull << number);
}

bool tagrv_posted_hash_add(struct tagrv_posted_queue *queue,
			   struct tagrv_posted *recv, uint8_t c)
{
	struct tagrv_posted_class *class = &queue->classes[c];

	recv->class = c;
	if (!link_key(queue, recv, class->group)) {
		recv->class = TAGRV_NO_CLASS;
		return false;
	}
	group_add(queue, class->group, recv);
	recv->newer = TAGRV_NO_RECV;
	recv->older = class->last;
	if (class->cnt++) {
		tagrv_posted_at(queue, class->last)->newer =
			tagrv_posted_index(recv);
	} else {
		class->first = tagrv_posted_index(recv);
		class->oldest = recv->seq;
	}
	class->last = tagrv_posted_index(recv);
	if (TAGRV_UNLIKELY(queue->tab.crowded))
		tagrv_posted_place_part(queue);
	return true;
}

/* cell: the receive's cell if it is a head, or NULL: not known. */
static void unlink_key(struct tagrv_posted_queue *queue,
		       struct tagrv_posted *recv, uint32_t *cell)
{
	uint32_t index = tagrv_posted_index(recv);

	if (recv->head && !cell)
		cell = tagrv_keytab_cell_of(&queue->tab, recv->hash, index);
	if (recv->next == index) {
		tagrv_keytab_erase(&queue->tab, cell);
		return;
	}
	tagrv_posted_at(queue, recv->prev)->next = recv->next;
	tagrv_posted_at(queue, recv->next)->prev = recv->prev;
	if (cell) {
		tagrv_posted_at(queue, recv->next)->head = true;
		*cell = recv->next;
	}
}

static void unlink_class(struct tagrv_posted_queue *queue,
			 struct tagrv_posted *recv)
{
	struct tagrv_posted_class *class = &queue->classes[recv->class];
	struct tagrv_posted_group *group = &queue->groups[class->group];
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
		if (newer && group->classes == 1)
			group->oldest = newer->seq;
	}
	group_remove(queue, class->group, class->space);
	class->cnt--;
}

static void unlink_recv(struct tagrv_posted_queue *queue,
			struct tagrv_posted *recv, uint32_t *cell)
{
	unlink_key(queue, recv, cell);
	unlink_class(queue, recv);
}

/*
 * Moves receives to the list while there are free blocks, for this must not
 * allocate; frees the class if none is left.
 */
static void demote_class(struct tagrv_posted_queue *queue, uint8_t c)
{
	struct tagrv_posted_class *class = &queue->classes[c];

	while (class->cnt && queue->blocks.free_head) {
		struct tagrv_posted *recv =
			tagrv_posted_at(queue, class->first);

		unlink_recv(queue, recv, NULL);
		if (tagrv_posted_list_insert(queue, recv, class->care))
			assert(!"a free block is enough");
	}
	if (!class->cnt)
		tagrv_posted_class_free(queue, c);
}

static TAGRV_COLD void demote_group(struct tagrv_posted_queue *queue,
				    uint8_t space, uint8_t number)
{
	for (uint64_t todo = queue->live[space]; todo; todo &= todo - 1) {
		uint8_t c = (uint8_t) __builtin_ctzll(todo);

		if (queue->classes[c].group == number)
			demote_class(queue, c);
	}
}

void tagrv_posted_hash_remove(struct tagrv_posted_queue *queue,
			      struct tagrv_posted *recv, uint32_t *cell)
{
	uint8_t number = queue->classes[recv->class].group;

	unlink_recv(queue, recv, cell);
	if (TAGRV_UNLIKELY(queue->groups[number].cnt <= GROUP_FEW))
		demote_group(queue, recv->space, number);
}

void tagrv_posted_hash_settle(struct tagrv_posted_queue *queue, uint8_t space)
{
	queue->fresh = 0;
	for (uint8_t g = 0; g < TAGRV_CLASSES; g++)
		if (queue->groups[g].classes && queue->groups[g].space == space &&
		    queue->groups[g].cnt <= GROUP_FEW)
			demote_group(queue, space, g);
}

/* ---- search ---- */

struct probe {
	struct recv_key key;
	uint32_t hash;
};

/*
 * Computes and prefetches the keys of groups that may hold a receive older than
 * seq 'before'; returns their number.
 */
static unsigned make_probes(const struct tagrv_posted_queue *queue,
			    uint32_t peer, uint8_t space, uint64_t tag,
			    uint64_t before, struct probe *probes)
{
	uint32_t place = place_of(queue, peer, tag);
	unsigned cnt = 0;

	for (uint64_t todo = queue->live_groups[space]; todo; todo &= todo - 1) {
		uint8_t g = (uint8_t) __builtin_ctzll(todo);
		struct probe *probe = &probes[cnt];

		if (queue->groups[g].oldest > before)
			continue;
		probe->hash = make_key(queue, g, peer, tag, place, &probe->key);
		tagrv_keytab_prefetch(&queue->tab, probe->hash);
		cnt++;
	}
	return cnt;
}

void tagrv_posted_prefetch(const struct tagrv_posted_queue *queue,
			   uint32_t peer, uint8_t space, uint64_t tag)
{
	struct probe probes[TAGRV_CLASSES];

	make_probes(queue, peer, space, tag, UINT64_MAX, probes);
}

/* One branch for tag, peer and wildcard: a branch on 'any' is often mispredicted. */
static inline bool fits(const struct tagrv_posted_queue *queue,
			const struct tagrv_posted *recv, uint32_t peer,
			uint64_t tag)
{
	const struct tagrv_posted_class *class = &queue->classes[recv->class];
	uint32_t peer_mask = (uint32_t) class->any - 1;

	return !(((recv->tag ^ tag) & class->care) |
		 ((recv->peer ^ peer) & peer_mask));
}

/* The first receive under a key that fits and is older than 'before', or NULL. */
static inline struct tagrv_posted *
walk_key(struct tagrv_posted_queue *queue, struct tagrv_posted_group *group,
	 struct tagrv_posted *head, uint32_t peer, uint64_t tag,
	 uint64_t before)
{
	struct tagrv_posted *recv = head;
	uint64_t passed = 0;

	while (recv->seq < before && !fits(queue, recv, peer, tag)) {
		passed++;
		recv = tagrv_posted_at(queue, recv->next);
		if (recv == head) {
			recv = NULL;
			break;
		}
	}
	group->walked += passed;
	queue->level.probes += passed;
	return recv && recv->seq < before ? recv : NULL;
}

/* The largest class that compares more than its group's key, or TAGRV_NO_CLASS. */
static uint8_t class_to_split(const struct tagrv_posted_queue *queue,
			      uint8_t space, uint8_t number)
{
	const struct tagrv_posted_group *group = &queue->groups[number];
	uint8_t best = TAGRV_NO_CLASS;

	for (uint64_t todo = queue->live[space]; todo; todo &= todo - 1) {
		uint8_t c = (uint8_t) __builtin_ctzll(todo);
		const struct tagrv_posted_class *class = &queue->classes[c];

		if (class->group != number || !class->cnt ||
		    (class->care == group->care && class->any == group->any))
			continue;
		if (best == TAGRV_NO_CLASS ||
		    class->cnt > queue->classes[best].cnt)
			best = c;
	}
	return best;
}

/* Moves a group's largest finer class to a new group. Without memory: nothing. */
static TAGRV_COLD void split_group(struct tagrv_posted_queue *queue,
				   uint8_t space, uint8_t number)
{
	uint8_t c = class_to_split(queue, space, number), to;
	struct tagrv_posted_class *class;
	struct tagrv_posted *recv;
	uint32_t i;

	queue->groups[number].walked = 0;
	if (c == TAGRV_NO_CLASS)
		return;
	class = &queue->classes[c];
	if (!tagrv_keytab_reserve(&queue->tab, class->cnt))
		return;
	for (i = class->first; i != TAGRV_NO_RECV; i = recv->newer) {
		recv = tagrv_posted_at(queue, i);
		unlink_key(queue, recv, NULL);
		group_remove(queue, number, space);
	}
	to = tagrv_posted_group_new(queue, class);
	queue->groups[to].apart = true;
	tagrv_posted_group_leave(queue, number);
	class->group = to;
	for (i = class->first; i != TAGRV_NO_RECV; i = recv->newer) {
		recv = tagrv_posted_at(queue, i);
		if (!link_key(queue, recv, to))
			assert(!"there was room");
		group_add(queue, to, recv);
	}
}

struct tagrv_posted *tagrv_posted_hash_match(struct tagrv_posted_queue *queue,
					     uint32_t peer, uint8_t space,
					     uint64_t tag,
					     struct tagrv_posted *best,
					     uint32_t **cell)
{
	uint64_t before = best ? best->seq : UINT64_MAX;
	struct probe probes[TAGRV_CLASSES];
	unsigned cnt = make_probes(queue, peer, space, tag, before, probes);

	queue->level.probes += cnt;
	for (unsigned i = 0; i < cnt; i++) {
		uint8_t number = probes[i].key.number;
		struct tagrv_posted_group *group = &queue->groups[number];
		struct tagrv_posted *recv;
		uint32_t *found;

		if (group->oldest > before)
			continue;
		found = tagrv_keytab_find(&queue->tab, probes[i].hash, has_key,
					  &probes[i].key);
		if (!found)
			continue;
		recv = walk_key(queue, group, tagrv_posted_at(queue,
				*found), peer, tag, before);
		if (recv) {
			before = recv->seq;
			best = recv;
			*cell = recv->head ? found : NULL;
		}
		if (TAGRV_UNLIKELY(group->walked >
				   SPLIT_COST * (uint64_t) group->cnt)) {
			split_group(queue, space, number);
			*cell = NULL;
		}
	}
	return best;
}
