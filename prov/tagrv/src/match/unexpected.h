/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The queue of unexpected messages. Included by match.c and unexpected*.c only.
 *
 *   lists[tagged] <-> seq 1 <-> seq 3 <-> seq 4 <-> seq 7    (link)
 *   index 0   peer 0 --> seq 1 --> seq 4 --> (seq 1)         (ring[0])
 *             peer 7 --> seq 3 --> seq 7 --> (seq 3)
 *   index 2   key  x --> seq 1 --> seq 3 --> (seq 1)         (ring[2])
 *             key  y --> seq 4     ^ mark: later messages are not in it yet
 *
 * All messages are on the list of their space. Index 0 finds them by peer; it is
 * built when there are more than a few. Each of the other indexes finds tagged
 * messages by the key of one class of lookups: a care mask (~ignore), with peer or
 * without. Lookups that ignore the whole tag need index 0 only.
 *
 * An index serves its own class and every finer one: classes that compare more tag
 * bits, or a peer where the index has none. All messages that such a lookup
 * matches are under one key of the index, in order of arrival, and the first that
 * matches is the result. So one coarse index often serves all lookups; every
 * further index costs a line of a table for each message that comes or goes.
 *
 * "Walking" is comparing messages one by one, along the list or along the ring of
 * a key. A class gets an index when lookups have walked as many steps as building
 * it costs. The index is then built by further walks: a lookup that walks past the
 * mark adds the messages that it passes, so no call builds a whole index, and the
 * first match is still the earliest. Arrivals advance the mark, too, and keep it
 * at the end. An index that no lookup uses is dropped.
 *
 * The links of index 0 are part of the message. Those of another index are in memory
 * of its own, by the message's place in the pool, which is allocated when two messages
 * have the same key: so a kept message costs one line, and what lookups need beside
 * that is paid for by those indexes that exist. Without memory for its table or its
 * links an index is dropped, and lookups walk.
 */
#ifndef TAGRV_MATCH_UNEXPECTED_H
#define TAGRV_MATCH_UNEXPECTED_H

#include "core/list.h"
#include "core/pool.h"
#include "match/hash.h"
#include "match/keytab.h"
#include "match/match.h"
#include "match/match_priv.h"

#define TAGRV_INDEXES		8
#define TAGRV_INDEX_PEER	0
#define TAGRV_WALKERS		32
#define TAGRV_INDEX_COST	4	/* steps of a walk per message queued */

/* Neighbours on the ring of a key: pool indexes. */
struct tagrv_unexpected_ring {
	uint32_t next, prev;
};

/*
 * One unexpected message, on the list of its space while queued.
 * owner: the queue, or the caller from take to put.
 * order: 'msg.seq', the number of its arrival, counted over all spaces.
 * size:  one line, asserted below.
 * msg.heads, bit i: it is the first of its key in index i. msg.alone, bit i: it is
 * the only one, and its ring of index i is undefined.
 */
struct tagrv_unexpected {
	struct tagrv_pool_node node;
	struct tagrv_list link;		/* list of its space */
	struct tagrv_match_msg msg;
	struct tagrv_unexpected_ring by_peer;	/* of index 0 */
};

static_assert(sizeof(struct tagrv_unexpected) == TAGRV_CACHE_LINE,
	      "an unexpected message costs one line of memory");
static_assert(TAGRV_INDEXES <= 8, "'heads' and 'alone' have a bit for each");

/*
 * An index holds the queued messages of the list up to and including 'mark'.
 * mark_seq is the seq of the last message that was added. When the message at
 * 'mark' is removed, 'mark' moves to the one before; mark_seq stays.
 */
struct tagrv_unexpected_index {
	struct tagrv_keytab tab;
	struct tagrv_list *mark;
	uint64_t mark_seq;
	uint64_t care;		/* tag bits in the key */
	bool	any;		/* the key has no peer */
	uint64_t born;		/* 'builds' when it was started */
	uint64_t used;		/* 'last_seq' at its last lookup */
	uint64_t credit;	/* steps saved by its lookups; halved by age() */
	/* Not of index 0: by chunk of the pool and place in it; NULL: no message of
	 * the chunk has needed it. */
	struct tagrv_unexpected_ring **rings;
	size_t	chunks;		/* entries of 'rings' */
};

/* A class of lookups without an index of its own. */
struct tagrv_unexpected_walker {
	uint64_t care;
	bool	any;
	uint64_t walked;	/* steps walked; halved by age() */
};

struct tagrv_unexpected_queue {
	struct tagrv_list lists[TAGRV_SPACE_CNT];
	struct tagrv_match_level level;
	uint64_t last_seq;	/* number of arrivals, queued or not */
	bool	deep;		/* enough messages for indexes */
	uint32_t live;		/* bit i: indexes[i] exists */
	struct tagrv_unexpected_index indexes[TAGRV_INDEXES];
	struct tagrv_unexpected_walker walkers[TAGRV_WALKERS];
	uint64_t walked;	/* sum over walkers[] */
	struct tagrv_hash_seed seed;
	uint64_t peer_walked;	/* steps by lookups and drains that need index 0 */
	bool	peer_asked;	/* a lookup or drain has used index 0 */
	uint64_t builds, evictions;
	struct tagrv_pool pool;
};

static inline struct tagrv_unexpected *
tagrv_unexpected_at(const struct tagrv_unexpected_queue *queue, uint32_t index)
{
	return tagrv_pool_at(&queue->pool, index);
}

/* The ring of a message in index i. It has memory if the message is not alone. */
static inline struct tagrv_unexpected_ring *
tagrv_unexpected_ring_of(const struct tagrv_unexpected_queue *queue, unsigned i,
			 struct tagrv_unexpected *entry)
{
	uint32_t at = tagrv_pool_index_large(&entry->node);

	if (i == TAGRV_INDEX_PEER)
		return &entry->by_peer;
	return &queue->indexes[i].rings[at >> queue->pool.chunk_shift]
				       [at & (queue->pool.chunk_objs - 1)];
}

static inline struct tagrv_unexpected *
tagrv_unexpected_by_link(const struct tagrv_list *link)
{
	return tagrv_container_of(link, struct tagrv_unexpected, link);
}

/* Whether a message matches a lookup in the same space. */
static inline bool tagrv_unexpected_fits(const struct tagrv_unexpected *entry,
					 uint64_t tag, uint64_t care,
					 uint32_t peer)
{
	return !((entry->msg.tag ^ tag) & care) &&
	       (peer == TAGRV_MATCH_ANY || entry->msg.peer == peer);
}

/* unexpected.c */

/* limit: 0: none. 0 or -FI_ENOMEM; then call fini all the same. */
int tagrv_unexpected_init(struct tagrv_unexpected_queue *queue, size_t limit,
			  uint64_t seed) TAGRV_WARN_UNUSED;
void tagrv_unexpected_fini(struct tagrv_unexpected_queue *queue);

/*
 * Queues a message as the newest, with 'user' NULL. 0, -FI_EAGAIN (limit) or
 * -FI_ENOMEM.
 */
int tagrv_unexpected_add(struct tagrv_unexpected_queue *queue, uint32_t peer,
			 uint8_t space, uint64_t tag,
			 struct tagrv_match_msg **msg) TAGRV_WARN_UNUSED;

/* The earliest message that matches, which stays queued, or NULL. */
struct tagrv_match_msg *
tagrv_unexpected_find(struct tagrv_unexpected_queue *queue,
		      const struct tagrv_match_want *want);

/* take: removes a queued message, now the caller's. put: frees it. */
void tagrv_unexpected_take(struct tagrv_unexpected_queue *queue,
			   struct tagrv_match_msg *msg);
void tagrv_unexpected_put(struct tagrv_unexpected_queue *queue,
			  struct tagrv_match_msg *msg);

/* As tagrv_match_drain_unexpected(). */
void tagrv_unexpected_drain(struct tagrv_unexpected_queue *queue, uint32_t peer,
			    bool (*fn)(struct tagrv_match_msg *msg, void *arg),
			    void *arg);

/* Arrivals since the oldest queued message arrived; 0: none is queued. */
uint64_t tagrv_unexpected_oldest(const struct tagrv_unexpected_queue *queue);

/* Enlarges the pool and the indexes' tables if they are nearly full. */
void tagrv_unexpected_grow_ahead(struct tagrv_unexpected_queue *queue);

/* unexpected_index.c */

/*
 * add: a message was added to its list behind 'before'. remove: a message is about
 * to be removed from its list.
 */
void tagrv_unexpected_index_add(struct tagrv_unexpected_queue *queue,
				struct tagrv_unexpected *entry,
				struct tagrv_list *before);
void tagrv_unexpected_index_remove(struct tagrv_unexpected_queue *queue,
				   struct tagrv_unexpected *entry);

/* The best index that serves a class of lookups, or NULL. */
struct tagrv_unexpected_index *
tagrv_unexpected_index_for(struct tagrv_unexpected_queue *queue, uint64_t care,
			   bool any);

/*
 * The earliest message that matches 'want', or NULL. index: serves its class;
 * care: tagrv_want_care(want). May drop indexes, this one too.
 */
struct tagrv_unexpected *
tagrv_unexpected_index_find(struct tagrv_unexpected_queue *queue,
			    struct tagrv_unexpected_index *index,
			    const struct tagrv_match_want *want, uint64_t care);

/* The earliest queued message of a peer in a space, or NULL. Needs index 0. */
struct tagrv_unexpected *
tagrv_unexpected_peer_first(const struct tagrv_unexpected_queue *queue,
			    uint8_t space, uint32_t peer);

/* Builds index 0 of all queued messages; without memory it does not exist. */
void tagrv_unexpected_peer_build(struct tagrv_unexpected_queue *queue);

/*
 * A lookup by peer alone, or a drain of a peer, walked because index 0 does not
 * exist. Builds it once such calls have walked enough.
 */
void tagrv_unexpected_peer_walked(struct tagrv_unexpected_queue *queue,
				  uint64_t steps);

/* Makes indexes[i], which does not exist, an empty index. False: no memory. */
bool tagrv_unexpected_index_start(struct tagrv_unexpected_queue *queue,
				  unsigned i, uint64_t care, bool any)
	TAGRV_WARN_UNUSED;
/* Drop one index, or all of them; keep the memory of their tables. */
void tagrv_unexpected_index_drop(struct tagrv_unexpected_queue *queue,
				 unsigned i);
void tagrv_unexpected_index_drop_all(struct tagrv_unexpected_queue *queue);
/* Frees the memory of all tables. */
void tagrv_unexpected_index_fini(struct tagrv_unexpected_queue *queue);

/* unexpected_ring.c */

/*
 * Makes a message the last one of the ring of index i that begins with 'head', which
 * may have been alone. False: no memory, nothing has happened.
 */
bool tagrv_unexpected_ring_join(struct tagrv_unexpected_queue *queue, unsigned i,
				struct tagrv_unexpected *head,
				struct tagrv_unexpected *entry)
	TAGRV_WARN_UNUSED;
/* Takes a message that is not alone off its ring; returns the next one. */
struct tagrv_unexpected *
tagrv_unexpected_ring_leave(struct tagrv_unexpected_queue *queue, unsigned i,
			    struct tagrv_unexpected *entry);
/* Frees the memory of the rings of an index. */
void tagrv_unexpected_ring_fini(struct tagrv_unexpected_index *index);

/* unexpected_choose.c */

/*
 * A lookup of a class walked so many steps. May start an index for a class, in an
 * unused place or in that of another index.
 */
void tagrv_unexpected_walked(struct tagrv_unexpected_queue *queue,
			     uint64_t care, bool any, uint64_t steps);

#endif
