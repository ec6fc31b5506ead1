/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives of hashed classes: one key table for all, a FIFO per key.
 *
 * An arrival computes its key for each group of classes and asks for all their
 * table lines, and only then compares: the misses overlap. A group whose
 * receives are all younger than the best found so far is not asked.
 *
 * A new class joins a group whose key its receives have, too: whose tag bits are
 * among its own, and that has no peer unless it has one. Where keys are shared
 * by too many, arrivals walk; when they have walked as far as the group is large
 * its largest class gets keys of its own.
 */
#include "match/posted.h"

/* A group with so few receives left goes back to the list. */
#define GROUP_FEW	6
/* Steps along shared keys, for each receive of a group, until it is split. */
#define SPLIT_COST	4

struct recv_key {
	const struct tagrv_posted_queue *queue;
	const struct tagrv_posted_group *group;
	uint64_t tag;		/* bits that do not count are 0 */
	uint32_t peer;
	uint8_t	number;		/* of the group */
};

static inline bool has_key(const void *arg, uint32_t index)
{
	const struct recv_key *key = arg;
	const struct tagrv_posted *recv = tagrv_posted_at(key->queue, index);

	return (recv->tag & key->group->care) == key->tag &&
	       (key->group->any || recv->peer == key->peer) &&
	       key->queue->classes[recv->class].group == key->number;
}

/* place: of tag and peer, where groups share lines. */
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

static inline uint32_t place_of(const struct tagrv_posted_queue *queue,
				uint32_t peer, uint64_t tag)
{
	return queue->shared ? tagrv_posted_place(queue, peer, tag) : 0;
}

/* Behind all others of its key: a ring, whose head the table knows. */
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
		/* Of another class that came here before. */
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

/* ---- groups ---- */

static void group_add(struct tagrv_posted_queue *queue, uint8_t number,
		      const struct tagrv_posted *recv)
{
	struct tagrv_posted_group *group = &queue->groups[number];

	if (!group->cnt++ || recv->seq < group->oldest)
		group->oldest = recv->seq;
	queue->probed[recv->space] |= 1ull << number;
}

static void group_remove(struct tagrv_posted_queue *queue, uint8_t number,
			 uint8_t space)
{
	if (!--queue->groups[number].cnt)
		queue->probed[space] &= ~(1ull << number);
}

static uint8_t group_new(struct tagrv_posted_queue *queue,
			 const struct tagrv_posted_class *class)
{
	uint8_t number = 0;

	/* There are as many as classes. */
	while (queue->groups[number].classes)
		number++;
	queue->groups[number] = (struct tagrv_posted_group) {
		.care = class->care,
		.any = class->any,
		.space = class->space,
		.classes = 1,
	};
	return number;
}

/* The one with most tag bits. */
uint8_t tagrv_posted_group_for(const struct tagrv_posted_queue *queue,
			       uint8_t space, uint64_t care, bool any)
{
	uint8_t best = TAGRV_NO_CLASS;

	for (uint8_t g = 0; g < TAGRV_CLASSES; g++) {
		const struct tagrv_posted_group *group = &queue->groups[g];

		if (!group->classes || group->space != space ||
		    group->care & ~care || (any && !group->any))
			continue;
		if (best == TAGRV_NO_CLASS ||
		    !(queue->groups[best].care & ~group->care))
			best = g;
	}
	return best;
}

static uint8_t join_group(struct tagrv_posted_queue *queue,
			  const struct tagrv_posted_class *class)
{
	uint8_t number = tagrv_posted_group_for(queue, class->space,
						class->care, class->any);

	if (number == TAGRV_NO_CLASS) {
		number = group_new(queue, class);
		tagrv_posted_place_join(queue, number);
		return number;
	}
	queue->groups[number].classes++;
	queue->groups[number].walked = 0;
	return number;
}

/* ---- classes ---- */

static void class_end(struct tagrv_posted_queue *queue, uint8_t c)
{
	const struct tagrv_posted_class *class = &queue->classes[c];

	assert(!class->cnt);
	if (!--queue->groups[class->group].classes)
		queue->shared &= ~(1ull << class->group);
	queue->live[class->space] &= ~(1ull << c);
	queue->demotions++;
	tagrv_posted_list_renew(queue, class->space);
}

/* A number that is free, or that of a class that holds nothing. */
static uint8_t free_class(struct tagrv_posted_queue *queue)
{
	uint64_t live = 0;

	for (unsigned i = 0; i < TAGRV_SPACE_CNT; i++)
		live |= queue->live[i];
	if (~live)
		return (uint8_t) __builtin_ctzll(~live);
	for (uint8_t c = 0; c < TAGRV_CLASSES; c++) {
		if (queue->classes[c].cnt || queue->fresh & 1ull << c)
			continue;
		class_end(queue, c);
		return c;
	}
	return TAGRV_NO_CLASS;
}

uint8_t tagrv_posted_class_new(struct tagrv_posted_queue *queue, uint8_t space,
			       uint64_t care, bool any)
{
	uint8_t c = free_class(queue);

	if (c == TAGRV_NO_CLASS)
		return c;
	queue->classes[c] = (struct tagrv_posted_class) {
		.care = care,
		.any = any,
		.space = space,
		.first = TAGRV_NO_RECV,
		.last = TAGRV_NO_RECV,
	};
	queue->classes[c].group = join_group(queue, &queue->classes[c]);
	queue->live[space] |= 1ull << c;
	queue->fresh |= 1ull << c;
	queue->promotions++;
	tagrv_posted_hints_renew(queue);
	tagrv_posted_list_renew(queue, space);
	return c;
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

/* cell: the one that names it, or NULL: it is not known. */
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

static void take_out(struct tagrv_posted_queue *queue,
		     struct tagrv_posted *recv, uint32_t *cell)
{
	unlink_key(queue, recv, cell);
	unlink_class(queue, recv);
}

/* Back to the list, as far as there are blocks: this must not allocate. */
static void demote_class(struct tagrv_posted_queue *queue, uint8_t c)
{
	struct tagrv_posted_class *class = &queue->classes[c];

	while (class->cnt && queue->blocks.free_head) {
		struct tagrv_posted *recv =
			tagrv_posted_at(queue, class->first);

		take_out(queue, recv, NULL);
		if (tagrv_posted_list_insert(queue, recv, class->care))
			assert(!"a free block is enough");
	}
	if (!class->cnt)
		class_end(queue, c);
}

static TAGRV_COLD void demote(struct tagrv_posted_queue *queue, uint8_t space,
			      uint8_t number)
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

	take_out(queue, recv, cell);
	if (TAGRV_UNLIKELY(queue->groups[number].cnt <= GROUP_FEW))
		demote(queue, recv->space, number);
}

void tagrv_posted_hash_settle(struct tagrv_posted_queue *queue, uint8_t space)
{
	queue->fresh = 0;
	for (uint8_t g = 0; g < TAGRV_CLASSES; g++)
		if (queue->groups[g].classes && queue->groups[g].space == space &&
		    queue->groups[g].cnt <= GROUP_FEW)
			demote(queue, space, g);
}

/* ---- search ---- */

struct probe {
	struct recv_key key;
	uint32_t hash;
};

/* Keys of the groups that may hold something older; fetches their lines. */
static unsigned make_probes(const struct tagrv_posted_queue *queue,
			    uint32_t peer, uint8_t space, uint64_t tag,
			    uint64_t before, struct probe *probes)
{
	uint32_t place = place_of(queue, peer, tag);
	unsigned cnt = 0;

	for (uint64_t todo = queue->probed[space]; todo; todo &= todo - 1) {
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

void tagrv_posted_ahead(const struct tagrv_posted_queue *queue, uint32_t peer,
			uint8_t space, uint64_t tag)
{
	struct probe probes[TAGRV_CLASSES];

	make_probes(queue, peer, space, tag, UINT64_MAX, probes);
}

/* What one branch tells: with or without a peer is guessed wrong too often. */
static inline bool fits(const struct tagrv_posted_queue *queue,
			const struct tagrv_posted *recv, uint32_t peer,
			uint64_t tag)
{
	const struct tagrv_posted_class *class = &queue->classes[recv->class];
	uint32_t named = (uint32_t) class->any - 1;

	return !(((recv->tag ^ tag) & class->care) |
		 ((recv->peer ^ peer) & named));
}

/* The first under a key that fits and is older than 'before', or NULL. */
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

/* The largest class with a finer key than its group's, or TAGRV_NO_CLASS. */
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

/* Gives a class keys of its own. Without memory it stays where it is. */
static TAGRV_COLD void split(struct tagrv_posted_queue *queue, uint8_t space,
			     uint8_t number)
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
	to = group_new(queue, class);
	queue->groups[to].apart = true;
	queue->groups[number].classes--;
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
			split(queue, space, number);
			*cell = NULL;
		}
	}
	return best;
}
