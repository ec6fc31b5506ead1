/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unexpected messages, shared by the files unexpected*.c only.
 *
 *   lists[tagged] <-> seq 1 <-> seq 3 <-> seq 4 <-> seq 7    (link)
 *   index 0   peer 0 --> seq 1 --> seq 4 --> (seq 1)         (by[0], rings)
 *             peer 7 --> seq 3 --> seq 7 --> (seq 3)
 *   index 2   key  x --> seq 1 --> seq 3 --> (seq 1)         (by[2], rings)
 *             key  y --> seq 4     ^ mark: what came later is not in it yet
 *
 * All messages are on the list of their space. Index 0 has them by peer; it
 * comes when there are more than a few. The others have the key of one class of
 * receives each (tag bits that count, a peer or none), tagged space only; what
 * ignores the whole tag needs none of them.
 *
 * An index serves its class and every class that says more: more tag bits, or
 * a peer where the index has none. All that such a receive could take are under
 * one key of the index, in order of arrival; the first that matches is the
 * answer. So one index with few bits often does for all, and each index less is
 * a table line less to touch for every message that comes or goes.
 *
 * A class gets an index when lookups have walked as far as building one costs,
 * along the list or along keys shared with too many. It is then built by the
 * walks themselves: a lookup that runs past the mark takes along what it
 * passes, so no call ever pays for all at once, and the first hit is still the
 * earliest. Arrivals bring the mark to the end and keep it there. Room for the
 * links is in the message: an index needs memory for its table only, and
 * without that it is dropped and lookups walk. What no lookup uses goes.
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
#define TAGRV_INDEX_COST	4	/* steps of a walk, for each message */

/*
 * One unexpected message. On its list while queued, on none once handed out.
 * owner: the queue, then the caller from take to put.
 * order: 'msg.seq', the place in the endpoint's sequence of arrivals.
 * size:  a walk reads the first line only, asserted below; so does who is alone
 *        under its keys.
 */
struct tagrv_unexpected {
	struct tagrv_pool_node node;
	struct tagrv_list link;		/* list of its space */
	struct tagrv_match_msg msg;
	uint8_t	heads;			/* bit i: first of its key in index i */
	uint8_t	alone;			/* bit i: the only one; by[i] is not set */
	struct {
		uint32_t next, prev;	/* pool indexes */
	} by[TAGRV_INDEXES];
};

static_assert(offsetof(struct tagrv_unexpected, by) <= TAGRV_CACHE_LINE,
	      "a walk touches one line per unexpected message");
static_assert(sizeof(struct tagrv_unexpected) <= 2 * TAGRV_CACHE_LINE,
	      "an unexpected message costs two lines of memory");

/*
 * Messages up to 'mark' that are queued are in the index. mark_seq: the same
 * as a number; 'mark' moves back when its message goes, mark_seq does not.
 */
struct tagrv_unexpected_index {
	struct tagrv_keytab tab;
	struct tagrv_list *mark;
	uint64_t mark_seq;
	uint64_t care;
	bool	any;
	uint64_t born;		/* 'builds' when it was started */
	uint64_t used;		/* 'last_seq' at its last lookup */
	uint64_t credit;	/* steps that lookups need not walk, ageing */
};

/* A class whose lookups walk. */
struct tagrv_unexpected_walker {
	uint64_t care;
	bool	any;
	uint64_t walked;	/* steps, ageing */
};

struct tagrv_unexpected_queue {
	struct tagrv_list lists[TAGRV_SPACE_CNT];
	struct tagrv_match_level level;
	uint64_t last_seq;	/* counts arrivals, those not queued as well */
	bool	deep;		/* long enough for indexes */
	uint32_t live;		/* bit i: index i is there */
	struct tagrv_unexpected_index indexes[TAGRV_INDEXES];
	struct tagrv_unexpected_walker walkers[TAGRV_WALKERS];
	uint64_t walked;	/* by all of them */
	struct tagrv_hash_seed seed;
	uint64_t peer_walked;	/* by what knows a peer only, no index 0 */
	bool	peer_asked;	/* by such a lookup, or a drain, since it is there */
	uint64_t builds, evictions;
	struct tagrv_pool pool;
};

static inline struct tagrv_unexpected *
tagrv_unexpected_at(const struct tagrv_unexpected_queue *queue, uint32_t index)
{
	return tagrv_pool_at(&queue->pool, index);
}

static inline struct tagrv_unexpected *
tagrv_unexpected_by_link(const struct tagrv_list *link)
{
	return tagrv_container_of(link, struct tagrv_unexpected, link);
}

/* Whether a message of the right space is one that a receive takes. */
static inline bool tagrv_unexpected_fits(const struct tagrv_unexpected *entry,
					 uint64_t tag, uint64_t care,
					 uint32_t peer)
{
	return !((entry->msg.tag ^ tag) & care) &&
	       (peer == TAGRV_MATCH_ANY || entry->msg.peer == peer);
}

/* unexpected.c */

/* 0 or -FI_ENOMEM; fini is fine on a queue whose init failed. */
int tagrv_unexpected_init(struct tagrv_unexpected_queue *queue, size_t limit,
			  uint64_t seed) TAGRV_WARN_UNUSED;
void tagrv_unexpected_fini(struct tagrv_unexpected_queue *queue);

/* Queues behind all others, 'user' NULL. 0, -FI_EAGAIN or -FI_ENOMEM. */
int tagrv_unexpected_add(struct tagrv_unexpected_queue *queue, uint32_t peer,
			 uint8_t space, uint64_t tag,
			 struct tagrv_match_msg **msg) TAGRV_WARN_UNUSED;

/* Earliest arrived match, still queued, or NULL. */
struct tagrv_match_msg *
tagrv_unexpected_find(struct tagrv_unexpected_queue *queue,
		      const struct tagrv_match_want *want);

/* From queued to the caller's; from the caller's to free. */
void tagrv_unexpected_take(struct tagrv_unexpected_queue *queue,
			   struct tagrv_match_msg *msg);
void tagrv_unexpected_put(struct tagrv_unexpected_queue *queue,
			  struct tagrv_match_msg *msg);

void tagrv_unexpected_drain(struct tagrv_unexpected_queue *queue, uint32_t peer,
			    bool (*fn)(struct tagrv_match_msg *msg, void *arg),
			    void *arg);

/* Arrivals since the oldest message still queued; 0 when there is none. */
uint64_t tagrv_unexpected_oldest(const struct tagrv_unexpected_queue *queue);

/* Allocates what will be needed soon. */
void tagrv_unexpected_tend(struct tagrv_unexpected_queue *queue);

/* unexpected_index.c */

/* A message was put on its list, behind 'before'; or will be taken off it. */
void tagrv_unexpected_index_add(struct tagrv_unexpected_queue *queue,
				struct tagrv_unexpected *entry,
				struct tagrv_list *before);
void tagrv_unexpected_index_remove(struct tagrv_unexpected_queue *queue,
				   struct tagrv_unexpected *entry);

/* The best index that serves a class, or NULL. */
struct tagrv_unexpected_index *
tagrv_unexpected_index_for(struct tagrv_unexpected_queue *queue, uint64_t care,
			   bool any);

/* Earliest match by an index that serves the want's class, or NULL. */
struct tagrv_unexpected *
tagrv_unexpected_index_find(struct tagrv_unexpected_queue *queue,
			    struct tagrv_unexpected_index *index,
			    const struct tagrv_match_want *want, uint64_t care);

/* First queued message of a peer; index 0 must be there. */
struct tagrv_unexpected *
tagrv_unexpected_peer_first(const struct tagrv_unexpected_queue *queue,
			    uint8_t space, uint32_t peer);

/* Index 0 for what is queued now. */
void tagrv_unexpected_peer_build(struct tagrv_unexpected_queue *queue);

/* A lookup by peer alone, or a drain, walked without index 0: it may come back. */
void tagrv_unexpected_peer_walked(struct tagrv_unexpected_queue *queue,
				  uint64_t steps);

/* An empty index at a free place. False: no memory. */
bool tagrv_unexpected_index_start(struct tagrv_unexpected_queue *queue,
				  unsigned i, uint64_t care, bool any)
	TAGRV_WARN_UNUSED;
void tagrv_unexpected_index_drop(struct tagrv_unexpected_queue *queue,
				 unsigned i);

/* Few messages are left: all indexes go. */
void tagrv_unexpected_index_drop_all(struct tagrv_unexpected_queue *queue);
void tagrv_unexpected_index_fini(struct tagrv_unexpected_queue *queue);

/* unexpected_choose.c */

/* A lookup of a class has walked: it may get an index, or another's. */
void tagrv_unexpected_walked(struct tagrv_unexpected_queue *queue,
			     uint64_t care, bool any, uint64_t steps);

#endif
