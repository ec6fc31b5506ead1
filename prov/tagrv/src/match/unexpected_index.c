/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Indexes over unexpected messages: building, keeping, choosing. Drawn in
 * unexpected.h.
 *
 * Choosing: a class rents (walks) until it has walked BUILD_COST steps for each
 * message queued, then it buys. While all places are taken, the index that has
 * saved least is exchanged when the walker has walked twice that; if not, all
 * accounts are halved. So an index that went out of use goes soon, and classes
 * that are used alike never push each other out.
 */
#include "match/unexpected.h"

/* What indexing a message costs, in steps of a walk. */
#define BUILD_COST	4
/* Arrivals that index 0 is kept for unused, for each message and in any case. */
#define UNUSED_EACH	4
#define UNUSED_MIN	1024

struct msg_key {
	const struct tagrv_unexpected_queue *queue;
	uint64_t tag;		/* bits that do not count are 0 */
	uint64_t care;
	uint32_t peer;		/* or TAGRV_MATCH_ANY */
	uint8_t	space;
};

/* A message of any peer, or of this one. */
static inline bool has_key(const void *arg, uint32_t index)
{
	const struct msg_key *key = arg;
	const struct tagrv_match_msg *msg =
		&tagrv_unexpected_at(key->queue, index)->msg;

	return (msg->tag & key->care) == key->tag && msg->space == key->space &&
	       (key->peer == TAGRV_MATCH_ANY || msg->peer == key->peer);
}

static inline uint32_t hash_key(const struct tagrv_unexpected_queue *queue,
				uint64_t tag, uint32_t peer, uint8_t space)
{
	return tagrv_hash(&queue->seed, tag, peer, space);
}

/* What a message is filed under. */
static inline struct msg_key key_in(const struct tagrv_unexpected_queue *queue,
				    const struct tagrv_unexpected_index *index,
				    const struct tagrv_match_msg *msg)
{
	return (struct msg_key) {
		.queue = queue,
		.tag = msg->tag & index->care,
		.care = index->care,
		.peer = index->any ? TAGRV_MATCH_ANY : msg->peer,
		.space = msg->space,
	};
}

static unsigned number_of(const struct tagrv_unexpected_queue *queue,
			  const struct tagrv_unexpected_index *index)
{
	return (unsigned) (index - queue->indexes);
}

/* ---- one message in one index ---- */

static bool file(struct tagrv_unexpected_queue *queue, unsigned i,
		 struct tagrv_unexpected *entry)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];
	struct msg_key key = key_in(queue, index, &entry->msg);
	uint32_t hash = hash_key(queue, key.tag, key.peer, key.space);
	uint32_t self = tagrv_pool_index(&entry->node);
	struct tagrv_unexpected *head;
	uint64_t *slot;

	slot = tagrv_keytab_find(&index->tab, hash, has_key, &key);
	if (!slot) {
		entry->by[i].next = self;
		entry->by[i].prev = self;
		entry->heads |= (uint8_t) (1u << i);
		return tagrv_keytab_insert(&index->tab, hash, self);
	}
	head = tagrv_unexpected_at(queue, tagrv_keytab_index(slot));
	entry->by[i].next = tagrv_keytab_index(slot);
	entry->by[i].prev = head->by[i].prev;
	entry->heads &= (uint8_t) ~(1u << i);
	tagrv_unexpected_at(queue, head->by[i].prev)->by[i].next = self;
	head->by[i].prev = self;
	return true;
}

static void unfile(struct tagrv_unexpected_queue *queue, unsigned i,
		   struct tagrv_unexpected *entry, uint32_t hash)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];
	uint32_t self = tagrv_pool_index(&entry->node);
	uint32_t next = entry->by[i].next, prev = entry->by[i].prev;
	uint64_t *slot = NULL;

	if (entry->heads & 1u << i)
		slot = tagrv_keytab_slot_of(&index->tab, hash, self);
	if (next == self) {
		tagrv_keytab_erase(&index->tab, slot);
		return;
	}
	tagrv_unexpected_at(queue, prev)->by[i].next = next;
	tagrv_unexpected_at(queue, next)->by[i].prev = prev;
	if (slot) {
		tagrv_unexpected_at(queue, next)->heads |= (uint8_t) (1u << i);
		tagrv_keytab_replace(slot, next);
	}
}

/* ---- indexes ---- */

static void drop(struct tagrv_unexpected_queue *queue, unsigned i)
{
	queue->live &= ~(1u << i);
	tagrv_keytab_clear(&queue->indexes[i].tab);
}

static bool start(struct tagrv_unexpected_queue *queue, unsigned i,
		  uint64_t care, bool any)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];

	if (!index->tab.slots && tagrv_keytab_init(&index->tab, 0))
		return false;
	index->care = care;
	index->any = any;
	index->mark = &queue->lists[TAGRV_SPACE_TAGGED];
	index->mark_seq = 0;
	index->credit = 0;
	queue->live |= 1u << i;
	queue->builds++;
	return true;
}

/* Whether the index has this message: built that far, and of its space. */
static bool contains(const struct tagrv_unexpected_queue *queue, unsigned i,
		     const struct tagrv_match_msg *msg)
{
	return i == TAGRV_INDEX_PEER ||
	       (msg->space == TAGRV_SPACE_TAGGED &&
		msg->seq <= queue->indexes[i].mark_seq);
}

void tagrv_unexpected_index_add(struct tagrv_unexpected_queue *queue,
				struct tagrv_unexpected *entry,
				struct tagrv_list *before)
{
	if (TAGRV_UNLIKELY(queue->peer_unused++ > UNUSED_MIN +
			   UNUSED_EACH * (uint64_t) queue->level.cnt) &&
	    (queue->live & 1u << TAGRV_INDEX_PEER))
		drop(queue, TAGRV_INDEX_PEER);
	for (uint32_t todo = queue->live; todo; todo &= todo - 1) {
		unsigned i = (unsigned) __builtin_ctz(todo);
		struct tagrv_unexpected_index *index = &queue->indexes[i];

		if (i != TAGRV_INDEX_PEER) {
			if (entry->msg.space != TAGRV_SPACE_TAGGED ||
			    index->mark != before)
				continue;
			index->mark = &entry->link;
			index->mark_seq = entry->msg.seq;
		}
		if (!file(queue, i, entry))
			drop(queue, i);
	}
}

/* All table lines are asked for first: the misses overlap. */
void tagrv_unexpected_index_remove(struct tagrv_unexpected_queue *queue,
				   struct tagrv_unexpected *entry)
{
	uint32_t hash[TAGRV_INDEXES];
	uint32_t in = 0;

	for (uint32_t todo = queue->live; todo; todo &= todo - 1) {
		unsigned i = (unsigned) __builtin_ctz(todo);
		struct tagrv_unexpected_index *index = &queue->indexes[i];
		struct msg_key key;

		if (!contains(queue, i, &entry->msg))
			continue;
		in |= 1u << i;
		if (index->mark == &entry->link)
			index->mark = entry->link.prev;
		if (!(entry->heads & 1u << i))
			continue;
		key = key_in(queue, index, &entry->msg);
		hash[i] = hash_key(queue, key.tag, key.peer, key.space);
		tagrv_keytab_prefetch(&index->tab, hash[i]);
	}
	for (; in; in &= in - 1) {
		unsigned i = (unsigned) __builtin_ctz(in);

		unfile(queue, i, entry, entry->heads & 1u << i ? hash[i] : 0);
	}
}

struct tagrv_unexpected_index *
tagrv_unexpected_index_of(struct tagrv_unexpected_queue *queue, uint64_t care,
			  bool any)
{
	uint32_t todo = queue->live & ~(1u << TAGRV_INDEX_PEER);

	for (; todo; todo &= todo - 1) {
		struct tagrv_unexpected_index *index =
			&queue->indexes[__builtin_ctz(todo)];

		if (index->care == care && index->any == any)
			return index;
	}
	return NULL;
}

/* From the mark on, taking along what is passed. */
static struct tagrv_unexpected *
walk_on(struct tagrv_unexpected_queue *queue,
	struct tagrv_unexpected_index *index, const struct msg_key *key)
{
	struct tagrv_list *head = &queue->lists[TAGRV_SPACE_TAGGED];
	unsigned i = number_of(queue, index);
	struct tagrv_unexpected *entry;

	while (index->mark->next != head) {
		entry = tagrv_unexpected_by_link(index->mark->next);
		index->mark = &entry->link;
		index->mark_seq = entry->msg.seq;
		queue->level.probes++;
		if (!file(queue, i, entry)) {
			/* The walk goes on without it. */
			drop(queue, i);
			index->mark = entry->link.prev;
			break;
		}
		if (has_key(key, tagrv_pool_index(&entry->node)))
			return entry;
	}
	for (struct tagrv_list *pos = index->mark->next; pos != head;
	     pos = pos->next) {
		entry = tagrv_unexpected_by_link(pos);
		queue->level.probes++;
		if (has_key(key, tagrv_pool_index(&entry->node)))
			return entry;
	}
	return NULL;
}

struct tagrv_unexpected *
tagrv_unexpected_index_find(struct tagrv_unexpected_queue *queue,
			    struct tagrv_unexpected_index *index,
			    uint32_t peer, uint64_t tag)
{
	struct msg_key key = {
		queue, tag, index->care, peer, TAGRV_SPACE_TAGGED,
	};
	uint64_t *slot;

	queue->level.probes++;
	slot = tagrv_keytab_find(&index->tab,
				 hash_key(queue, tag, peer, TAGRV_SPACE_TAGGED),
				 has_key, &key);
	/* A walk ends in the middle, on average, or at the end in vain. */
	index->credit += slot ? queue->level.cnt / 2 : queue->level.cnt;
	if (slot)
		return tagrv_unexpected_at(queue, tagrv_keytab_index(slot));
	return walk_on(queue, index, &key);
}

/* ---- by peer ---- */

struct tagrv_unexpected *
tagrv_unexpected_peer_first(const struct tagrv_unexpected_queue *queue,
			    uint8_t space, uint32_t peer)
{
	struct msg_key key = { queue, 0, 0, peer, space };
	uint64_t *slot;

	slot = tagrv_keytab_find(&queue->indexes[TAGRV_INDEX_PEER].tab,
				 hash_key(queue, 0, peer, space), has_key,
				 &key);
	return slot ? tagrv_unexpected_at(queue, tagrv_keytab_index(slot)) :
		      NULL;
}

void tagrv_unexpected_peer_build(struct tagrv_unexpected_queue *queue)
{
	struct tagrv_list *pos;

	queue->peer_walked = 0;
	queue->peer_unused = 0;
	if (!start(queue, TAGRV_INDEX_PEER, 0, false))
		return;
	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		tagrv_list_for_each(&queue->lists[space], pos) {
			if (file(queue, TAGRV_INDEX_PEER,
				 tagrv_unexpected_by_link(pos)))
				continue;
			drop(queue, TAGRV_INDEX_PEER);
			return;
		}
	}
}

void tagrv_unexpected_peer_walked(struct tagrv_unexpected_queue *queue,
				  uint64_t steps)
{
	queue->peer_walked += steps;
	if (queue->peer_walked >= BUILD_COST * (uint64_t) queue->level.cnt)
		tagrv_unexpected_peer_build(queue);
}

/* ---- which classes get one ---- */

static struct tagrv_unexpected_walker *
walker_of(struct tagrv_unexpected_queue *queue, uint64_t care, bool any)
{
	struct tagrv_unexpected_walker *least = &queue->walkers[0];

	for (unsigned i = 0; i < TAGRV_INDEXES; i++) {
		struct tagrv_unexpected_walker *walker = &queue->walkers[i];

		if (walker->care == care && walker->any == any)
			return walker;
		if (walker->walked < least->walked)
			least = walker;
	}
	*least = (struct tagrv_unexpected_walker) { .care = care, .any = any };
	return least;
}

static void age(struct tagrv_unexpected_queue *queue)
{
	for (unsigned i = 0; i < TAGRV_INDEXES; i++) {
		queue->indexes[i].credit /= 2;
		queue->walkers[i].walked /= 2;
	}
}

/* A free place, or the one that saves least if that is little enough. */
static unsigned place_for(struct tagrv_unexpected_queue *queue,
			  uint64_t walked)
{
	unsigned least = TAGRV_INDEX_PEER + 1;

	for (unsigned i = TAGRV_INDEX_PEER + 1; i < TAGRV_INDEXES; i++) {
		if (!(queue->live & 1u << i))
			return i;
		if (queue->indexes[i].credit < queue->indexes[least].credit)
			least = i;
	}
	if (queue->indexes[least].credit > walked / 2)
		return TAGRV_INDEXES;
	queue->evictions++;
	drop(queue, least);
	return least;
}

void tagrv_unexpected_walked(struct tagrv_unexpected_queue *queue,
			     uint64_t care, bool any, uint64_t steps)
{
	struct tagrv_unexpected_walker *walker = walker_of(queue, care, any);
	unsigned i;

	walker->walked += steps;
	if (walker->walked < BUILD_COST * (uint64_t) queue->level.cnt)
		return;
	i = place_for(queue, walker->walked);
	if (i == TAGRV_INDEXES) {
		age(queue);
		return;
	}
	if (start(queue, i, care, any))
		queue->indexes[i].credit = walker->walked;
	walker->walked = 0;
}

/* One by one: that leaves the tables clean, however large they have become. */
void tagrv_unexpected_index_drop_all(struct tagrv_unexpected_queue *queue)
{
	struct tagrv_list *pos;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++)
		tagrv_list_for_each(&queue->lists[space], pos)
			tagrv_unexpected_index_remove(queue,
				tagrv_unexpected_by_link(pos));
	for (uint32_t todo = queue->live; todo; todo &= todo - 1)
		drop(queue, (unsigned) __builtin_ctz(todo));
}

void tagrv_unexpected_index_fini(struct tagrv_unexpected_queue *queue)
{
	for (unsigned i = 0; i < TAGRV_INDEXES; i++)
		tagrv_keytab_fini(&queue->indexes[i].tab);
}
