/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Builds, updates and searches the indexes of unexpected messages. unexpected.h
 * draws the structure.
 */
#include "match/unexpected.h"

/* An index is dropped after UNUSED_MIN + UNUSED_EACH * cnt arrivals unused. */
#define UNUSED_EACH	4
#define UNUSED_MIN	1024
/* Steps of a lookup that cost less than a further index. */
#define FREE_STEPS	3
/* Messages behind the mark that an arrival adds to an incomplete index. */
#define CATCH_UP	3

struct msg_key {
	const struct tagrv_unexpected_queue *queue;
	uint64_t tag;		/* bits that are not in the key are 0 */
	uint64_t care;
	uint32_t peer;		/* or TAGRV_MATCH_ANY */
	uint8_t	space;
};

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

/* A message's key in an index. */
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

/*
 * Adds a message to index i as the newest of its key. False: no memory. Does not
 * touch the ring of a message that is alone.
 */
static bool index_link(struct tagrv_unexpected_queue *queue, unsigned i,
		       struct tagrv_unexpected *entry)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];
	struct msg_key key = key_in(queue, index, &entry->msg);
	uint32_t hash = hash_key(queue, key.tag, key.peer, key.space);
	uint8_t bit = (uint8_t) (1u << i);
	uint32_t *cell;

	cell = tagrv_keytab_find(&index->tab, hash, has_key, &key);
	if (!cell) {
		entry->msg.heads |= bit;
		entry->msg.alone |= bit;
		return tagrv_keytab_insert(&index->tab, hash,
					   tagrv_pool_index_large(&entry->node));
	}
	return tagrv_unexpected_ring_join(queue, i,
					  tagrv_unexpected_at(queue, *cell),
					  entry);
}

/* Removes a message from index i. hash: of its key, if it is the key's head. */
static void index_unlink(struct tagrv_unexpected_queue *queue, unsigned i,
			 struct tagrv_unexpected *entry, uint32_t hash)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];
	uint8_t bit = (uint8_t) (1u << i);
	struct tagrv_unexpected *next;
	uint32_t *cell = NULL;

	if (entry->msg.heads & bit)
		cell = tagrv_keytab_cell_of(&index->tab, hash,
					    tagrv_pool_index_large(&entry->node));
	if (entry->msg.alone & bit) {
		tagrv_keytab_erase(&index->tab, cell);
		return;
	}
	next = tagrv_unexpected_ring_leave(queue, i, entry);
	if (cell) {
		next->msg.heads |= bit;
		*cell = tagrv_pool_index_large(&next->node);
	}
}

/* ---- indexes ---- */

void tagrv_unexpected_index_drop(struct tagrv_unexpected_queue *queue,
				 unsigned i)
{
	queue->live &= ~(1u << i);
	tagrv_keytab_clear(&queue->indexes[i].tab);
}

bool tagrv_unexpected_index_start(struct tagrv_unexpected_queue *queue,
				  unsigned i, uint64_t care, bool any)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];

	if (!index->tab.now.buckets && tagrv_keytab_init(&index->tab, 0))
		return false;
	index->care = care;
	index->any = any;
	index->mark = &queue->lists[TAGRV_SPACE_TAGGED];
	index->mark_seq = 0;
	index->credit = 0;
	index->born = queue->builds++;
	index->used = queue->last_seq;
	queue->live |= 1u << i;
	return true;
}

/* Whether all messages that a lookup of a class matches have one key in the index. */
static inline bool serves(const struct tagrv_unexpected_index *index,
			  uint64_t care, bool any)
{
	return !(index->care & ~care) && (index->any || !any);
}

/* Whether the index holds all messages of its space. */
static bool is_complete(const struct tagrv_unexpected_queue *queue, unsigned i)
{
	return i == TAGRV_INDEX_PEER ||
	       queue->indexes[i].mark == queue->lists[TAGRV_SPACE_TAGGED].prev;
}

/* Whether the younger index 'coarse' can nearly as well do what 'fine' does. */
static bool makes_needless(const struct tagrv_unexpected_index *coarse,
			   const struct tagrv_unexpected_index *fine)
{
	return coarse->born > fine->born &&
	       serves(coarse, fine->care, fine->any) &&
	       coarse->tab.cnt >= fine->tab.cnt / 4 * 3;
}

/*
 * Index 0 is built before any lookup by peer alone, so that lookups of one peer's
 * messages need not walk past a flood of another's. Once a class index has nearly
 * as many keys, index 0 is needless unless lookups by peer alone or drains use it.
 * Such calls that come later walk, and so rebuild it.
 */
static bool makes_peer_needless(const struct tagrv_unexpected_queue *queue,
				const struct tagrv_unexpected_index *index)
{
	return !queue->peer_asked && index->tab.cnt >=
	       queue->indexes[TAGRV_INDEX_PEER].tab.cnt / 4 * 3;
}

/* Index i has become complete: drops indexes that are needless now, or i itself. */
static TAGRV_COLD void drop_needless(struct tagrv_unexpected_queue *queue,
				     unsigned i)
{
	for (uint32_t todo = queue->live & ~(1u << i); todo; todo &= todo - 1) {
		unsigned j = (unsigned) __builtin_ctz(todo);

		if (!is_complete(queue, j))
			continue;
		if (makes_needless(&queue->indexes[i], &queue->indexes[j]) ||
		    (j == TAGRV_INDEX_PEER &&
		     makes_peer_needless(queue, &queue->indexes[i]))) {
			tagrv_unexpected_index_drop(queue, j);
		} else if (makes_needless(&queue->indexes[j],
					  &queue->indexes[i])) {
			tagrv_unexpected_index_drop(queue, i);
			return;
		}
	}
}

/* Whether a queued message is in the index: of its space, and before the mark. */
static bool contains(const struct tagrv_unexpected_queue *queue, unsigned i,
		     const struct tagrv_match_msg *msg)
{
	return i == TAGRV_INDEX_PEER ||
	       (msg->space == TAGRV_SPACE_TAGGED &&
		msg->seq <= queue->indexes[i].mark_seq);
}

/*
 * Adds up to 'steps' messages behind the mark. False: no memory, the index was
 * dropped.
 */
static bool catch_up(struct tagrv_unexpected_queue *queue, unsigned i,
		     unsigned steps)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];
	struct tagrv_list *head = &queue->lists[TAGRV_SPACE_TAGGED];

	while (steps-- && index->mark->next != head) {
		struct tagrv_unexpected *entry =
			tagrv_unexpected_by_link(index->mark->next);

		if (!index_link(queue, i, entry)) {
			tagrv_unexpected_index_drop(queue, i);
			return false;
		}
		index->mark = &entry->link;
		index->mark_seq = entry->msg.seq;
	}
	return true;
}

static void add_to(struct tagrv_unexpected_queue *queue, unsigned i,
		   struct tagrv_unexpected *entry, struct tagrv_list *before)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];

	if (TAGRV_UNLIKELY(queue->last_seq - index->used > UNUSED_MIN +
			   UNUSED_EACH * (uint64_t) queue->level.cnt)) {
		tagrv_unexpected_index_drop(queue, i);
	} else if (i == TAGRV_INDEX_PEER) {
		if (!index_link(queue, i, entry))
			tagrv_unexpected_index_drop(queue, i);
	} else if (entry->msg.space != TAGRV_SPACE_TAGGED) {
		return;
	} else if (TAGRV_LIKELY(index->mark == before)) {
		(void) catch_up(queue, i, 1);
	} else if (index->mark != &queue->lists[TAGRV_SPACE_TAGGED] &&
		   catch_up(queue, i, CATCH_UP) && is_complete(queue, i)) {
		drop_needless(queue, i);
	}
}

void tagrv_unexpected_index_add(struct tagrv_unexpected_queue *queue,
				struct tagrv_unexpected *entry,
				struct tagrv_list *before)
{
	/* add_to() may drop this index and others. */
	for (uint32_t todo = queue->live; todo & queue->live; todo &= todo - 1)
		if (queue->live & todo & -todo)
			add_to(queue, (unsigned) __builtin_ctz(todo), entry,
			       before);
}

/* Prefetches the lines of all tables first, so that the cache misses overlap. */
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
		if (!(entry->msg.heads & 1u << i))
			continue;
		key = key_in(queue, index, &entry->msg);
		hash[i] = hash_key(queue, key.tag, key.peer, key.space);
		tagrv_keytab_prefetch(&index->tab, hash[i]);
	}
	for (; in; in &= in - 1) {
		unsigned i = (unsigned) __builtin_ctz(in);

		index_unlink(queue, i, entry,
			     entry->msg.heads & 1u << i ? hash[i] : 0);
	}
}

/*
 * Prefers the class's own index, which exists because lookups with others walked
 * too far, else the index with most keys, under which the fewest messages share
 * a key.
 */
struct tagrv_unexpected_index *
tagrv_unexpected_index_for(struct tagrv_unexpected_queue *queue, uint64_t care,
			   bool any)
{
	struct tagrv_unexpected_index *best = NULL;

	for (uint32_t todo = queue->live; todo; todo &= todo - 1) {
		struct tagrv_unexpected_index *index =
			&queue->indexes[__builtin_ctz(todo)];

		if (!serves(index, care, any))
			continue;
		if (index->care == care && index->any == any)
			return index;
		if (!best || index->tab.cnt > best->tab.cnt)
			best = index;
	}
	return best;
}

struct wanted {
	uint64_t tag, care;
	uint32_t peer;
};

static inline bool fits(const struct tagrv_unexpected *entry,
			const struct wanted *want)
{
	return tagrv_unexpected_fits(entry, want->tag, want->care, want->peer);
}

/* The first message of a key that fits, or NULL. */
static inline struct tagrv_unexpected *
walk_key(const struct tagrv_unexpected_queue *queue, unsigned i,
	 struct tagrv_unexpected *head, const struct wanted *want,
	 uint64_t *steps)
{
	struct tagrv_unexpected *entry = head;

	do {
		++*steps;
		if (fits(entry, want))
			return entry;
		if (entry->msg.alone & 1u << i)
			break;
		entry = tagrv_unexpected_at(queue,
			tagrv_unexpected_ring_of(queue, i, entry)->next);
	} while (entry != head);
	return NULL;
}

/* Walks the list behind the mark, adding the messages it passes to index i. */
static struct tagrv_unexpected *
walk_behind_mark(struct tagrv_unexpected_queue *queue, unsigned i,
	const struct wanted *want)
{
	struct tagrv_unexpected_index *index = &queue->indexes[i];
	struct tagrv_list *head = &queue->lists[TAGRV_SPACE_TAGGED], *pos;
	bool building = true;

	for (pos = index->mark->next; pos != head; pos = pos->next) {
		struct tagrv_unexpected *entry = tagrv_unexpected_by_link(pos);

		/* Without memory the index is dropped, and the walk goes on. */
		building = building && catch_up(queue, i, 1);
		queue->level.probes++;
		if (fits(entry, want))
			return entry;
	}
	if (building)
		drop_needless(queue, i);
	return NULL;
}

struct tagrv_unexpected *
tagrv_unexpected_index_find(struct tagrv_unexpected_queue *queue,
			    struct tagrv_unexpected_index *index,
			    const struct tagrv_match_want *lookup,
			    uint64_t care)
{
	const struct wanted want = { lookup->tag & care, care, lookup->peer };
	struct msg_key key = {
		queue, lookup->tag & index->care, index->care,
		index->any ? TAGRV_MATCH_ANY : lookup->peer, lookup->space,
	};
	unsigned i = number_of(queue, index);
	struct tagrv_unexpected *found = NULL;
	uint64_t steps = 0;
	uint32_t *cell;

	cell = tagrv_keytab_find(&index->tab, hash_key(queue, key.tag, key.peer,
						       key.space),
				 has_key, &key);
	/* Without the index: half the list on average, all of it in vain. */
	index->credit += cell ? queue->level.cnt / 2 : queue->level.cnt;
	index->used = queue->last_seq;
	if (cell)
		found = walk_key(queue, i, tagrv_unexpected_at(queue,
				 *cell), &want, &steps);
	queue->level.probes += cell ? steps : 1;
	if (!found && !is_complete(queue, i))
		found = walk_behind_mark(queue, i, &want);
	if (TAGRV_UNLIKELY(steps > FREE_STEPS))
		tagrv_unexpected_walked(queue, care,
					lookup->peer == TAGRV_MATCH_ANY,
					steps - FREE_STEPS);
	return found;
}

/* ---- index 0, by peer ---- */

struct tagrv_unexpected *
tagrv_unexpected_peer_first(const struct tagrv_unexpected_queue *queue,
			    uint8_t space, uint32_t peer)
{
	const struct tagrv_unexpected_index *index =
		&queue->indexes[TAGRV_INDEX_PEER];
	struct msg_key key = { queue, 0, 0, peer, space };
	uint32_t *cell;

	cell = tagrv_keytab_find(&index->tab,
				 hash_key(queue, 0, peer, space), has_key,
				 &key);
	return cell ? tagrv_unexpected_at(queue, *cell) : NULL;
}

void tagrv_unexpected_peer_build(struct tagrv_unexpected_queue *queue)
{
	struct tagrv_list *pos;

	queue->peer_walked = 0;
	if (!tagrv_unexpected_index_start(queue, TAGRV_INDEX_PEER, 0, false))
		return;
	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++) {
		tagrv_list_for_each(&queue->lists[space], pos) {
			if (index_link(queue, TAGRV_INDEX_PEER,
				 tagrv_unexpected_by_link(pos)))
				continue;
			tagrv_unexpected_index_drop(queue, TAGRV_INDEX_PEER);
			return;
		}
	}
}

void tagrv_unexpected_peer_walked(struct tagrv_unexpected_queue *queue,
				  uint64_t steps)
{
	if (steps <= FREE_STEPS)
		return;
	queue->peer_walked += steps - FREE_STEPS;
	if (queue->peer_walked < TAGRV_INDEX_COST * (uint64_t) queue->level.cnt)
		return;
	queue->peer_asked = true;
	tagrv_unexpected_peer_build(queue);
}

/* ---- all indexes ---- */

/*
 * Removes the few messages that are left first: tagrv_keytab_clear() then need not
 * clear the tables, which may be large.
 */
void tagrv_unexpected_index_drop_all(struct tagrv_unexpected_queue *queue)
{
	struct tagrv_list *pos;

	for (unsigned space = 0; space < TAGRV_SPACE_CNT; space++)
		tagrv_list_for_each(&queue->lists[space], pos)
			tagrv_unexpected_index_remove(queue,
				tagrv_unexpected_by_link(pos));
	for (uint32_t todo = queue->live; todo; todo &= todo - 1)
		tagrv_unexpected_index_drop(queue, (unsigned) __builtin_ctz(todo));
}

void tagrv_unexpected_index_fini(struct tagrv_unexpected_queue *queue)
{
	for (unsigned i = 0; i < TAGRV_INDEXES; i++) {
		tagrv_keytab_fini(&queue->indexes[i].tab);
		tagrv_unexpected_ring_fini(&queue->indexes[i]);
	}
}
