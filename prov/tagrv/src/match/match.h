/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Matching engine of one endpoint, or of all endpoints of one shared receive
 * context: its posted receives and its unexpected messages.
 *
 *   post()   -> takes the earliest unexpected message that matches the receive,
 *               else queues the receive
 *   arrive() -> takes the earliest posted receive that matches the message, else
 *               queues the message
 *
 * Search and insertion are one call, so no message can slip between "not found"
 * and "queued". Pure data structure: no I/O, no packets, no fids. The caller
 * holds the domain lock in all calls.
 *
 * Rules: a message (space, peer, tag) matches a receive (space, peer or any,
 * tag, ignore) when the spaces agree, the peer agrees or is any, and
 * ((message.tag ^ receive.tag) & ~receive.ignore) == 0. In the FI_MSG space tag
 * and ignore are not read. Of several posted receives the earliest posted wins;
 * of several unexpected messages the earliest arrived.
 *
 * Peers are integers that the caller assigns; the number of a peer never changes.
 */
#ifndef TAGRV_MATCH_MATCH_H
#define TAGRV_MATCH_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#define TAGRV_MATCH_ANY	UINT32_MAX	/* peer of a wildcard receive */

struct tagrv_match;

enum tagrv_match_space {
	TAGRV_SPACE_TAGGED,
	TAGRV_SPACE_MSG,
	TAGRV_SPACE_CNT,
};

/* What a receive, peek or claim matches. */
struct tagrv_match_want {
	uint64_t tag;
	uint64_t ignore;	/* tag bits that are not compared */
	uint32_t peer;		/* or TAGRV_MATCH_ANY */
	void	*name;		/* posts: for tagrv_match_find_name() */
	uint8_t	space;		/* enum tagrv_match_space */
	bool	keep;		/* the receive stays queued when matched
				   (FI_MULTI_RECV) */
};

#define TAGRV_MATCH_ROOM	64	/* bytes */

/*
 * One posted receive. post() returns it, and the caller fills the room before its
 * next call of the engine. The receive that arrive() or cancel() returns is no longer
 * queued (but see 'keep'), and can be read until the next post.
 */
struct tagrv_match_recv {
	void	*name;		/* of the want; constant while it is queued */
	uint64_t room[TAGRV_MATCH_ROOM / sizeof(uint64_t)];	/* the caller's */
};

/* The source that a queued receive names, or TAGRV_MATCH_ANY. */
uint32_t tagrv_match_source(const struct tagrv_match_recv *recv);

/*
 * One unexpected message. The engine owns it while it is queued; from post(),
 * claim() or take() until tagrv_match_release() the caller does.
 */
struct tagrv_match_msg {
	uint64_t tag;
	uint64_t seq;		/* arrival number, counted over all spaces */
	uint32_t peer;
	uint8_t	space;
	uint8_t	heads, alone;	/* the engine's own: unexpected.h */
	void	*user;		/* the caller's record of payload or RTS */
};

/* Identifies one queued receive; 0 is never a valid id. */
typedef uint64_t tagrv_match_id;

/*
 * The age of an entry is a number of calls: posts (for a receive) or arrivals
 * (for a message) that came after it, whether they matched or were queued.
 */
struct tagrv_match_stats {
	size_t posted, posted_peak;		/* queued now, and most ever */
	size_t unexpected, unexpected_peak;
	size_t posted_classes;		/* classes of receives that have a hash */
	size_t unexpected_indexes;	/* classes of lookups that have an index */
	uint64_t posted_oldest, unexpected_oldest;	/* ages; 0: none queued */
	uint64_t probes;	/* entries compared plus keys looked up */
	uint64_t searches;	/* post, arrive, peek and claim calls */
	/* Changes of structure: they should be rare beside searches. */
	uint64_t promotions, demotions;	/* classes given a hash, deprived of it */
	uint64_t builds, evictions;	/* indexes built, replaced by another */
};

/*
 * Creates an empty engine. max_posted and max_unexpected limit queued entries;
 * 0 or more than TAGRV_POOL_MAX (of messages: TAGRV_POOL_LARGE_MAX): that many.
 * Messages that the caller owns count against TAGRV_POOL_LARGE_MAX, but not against
 * max_unexpected. Returns 0, -FI_ENOMEM, or the error of tagrv_random_fill().
 */
int tagrv_match_create(size_t max_posted, size_t max_unexpected,
		       struct tagrv_match **match) TAGRV_WARN_UNUSED;

/*
 * As tagrv_match_create(), with a given seed of the hashes, for tests that must be
 * repeatable. tagrv_match_create() takes a random seed from the system, so that
 * no peer can know which tags collide.
 */
int tagrv_match_create_seeded(size_t max_posted, size_t max_unexpected,
			      uint64_t seed, struct tagrv_match **match)
	TAGRV_WARN_UNUSED;

/*
 * Frees the engine; NULL is fine. What the room of queued receives and 'user' of queued
 * messages point to is the caller's: call tagrv_match_drain_* first to get them.
 */
void tagrv_match_destroy(struct tagrv_match *match);

/*
 * Posts a receive. Returns
 *   1: *msg is the earliest matching unexpected message, now owned by the caller;
 *      the receive was not queued;
 *   0: the receive was queued as *recv, and *id identifies it;
 *   -FI_EAGAIN: limit of posted receives reached; -FI_ENOMEM: no memory.
 *      Nothing has happened.
 * A want with 'keep' takes one message like any other: a caller that wants
 * several messages for one buffer calls tagrv_match_claim() first.
 */
int tagrv_match_post(struct tagrv_match *match,
		     const struct tagrv_match_want *want,
		     struct tagrv_match_recv **recv, tagrv_match_id *id,
		     struct tagrv_match_msg **msg) TAGRV_WARN_UNUSED;

/*
 * Matches a message that has arrived. Returns
 *   1: *recv is the earliest matching receive, which is no longer queued unless it
 *      was posted with 'keep';
 *   0: the message was queued as unexpected; the caller must set (*msg)->user
 *      before its next call of the engine;
 *   -FI_EAGAIN: limit of unexpected messages reached; -FI_ENOMEM: no memory.
 *      Nothing has happened.
 */
int tagrv_match_arrive(struct tagrv_match *match, uint32_t peer, uint8_t space,
		       uint64_t tag, struct tagrv_match_recv **recv,
		       struct tagrv_match_msg **msg) TAGRV_WARN_UNUSED;

/* As tagrv_match_arrive() for a message that no posted receive matches, as the caller
 * knows: queues it as unexpected. */
int tagrv_match_keep(struct tagrv_match *match, uint32_t peer, uint8_t space,
		     uint64_t tag, struct tagrv_match_msg **msg) TAGRV_WARN_UNUSED;

/*
 * Removes a posted receive, and returns 0 and the receive; or -FI_ENOENT: no queued
 * receive has this id; it was matched or cancelled, or never existed.
 */
int tagrv_match_cancel(struct tagrv_match *match, tagrv_match_id id,
		       struct tagrv_match_recv **recv) TAGRV_WARN_UNUSED;

/*
 * Calls fn for posted receives in post order, until it returns true. Returns the id
 * of that receive, or 0. fn must not call the engine.
 */
typedef bool (*tagrv_match_recv_fn)(const struct tagrv_match_recv *recv,
				    tagrv_match_id id, void *arg);
tagrv_match_id tagrv_match_find(const struct tagrv_match *match,
				tagrv_match_recv_fn fn, void *arg);

/*
 * Whether a receive that was posted after the first *seen posts could match a message
 * of the peer, whatever its tag. Sets *seen to the number of posts so far. Takes time
 * that grows with the receives posted since then.
 */
bool tagrv_match_awaits(const struct tagrv_match *match, uint32_t peer,
			uint64_t *seen);

/*
 * Returns the id of the earliest posted receive with a given name, or 0; fi_cancel
 * uses the operation's context. Several receives may have the same name. O(1) on
 * average if it is called often; rare calls compare one by one.
 */
tagrv_match_id tagrv_match_find_name(struct tagrv_match *match, void *name);

/* Returns the earliest matching unexpected message, which stays queued, or NULL. */
struct tagrv_match_msg *tagrv_match_peek(struct tagrv_match *match,
					 const struct tagrv_match_want *want);

/* As peek, but removes the message: the caller owns it until release. */
struct tagrv_match_msg *tagrv_match_claim(struct tagrv_match *match,
					  const struct tagrv_match_want *want);

/* Removes a message that peek returned: the caller owns it until release. */
void tagrv_match_take(struct tagrv_match *match, struct tagrv_match_msg *msg);

/* Frees a message that the caller owns. Its 'user' is not freed. */
void tagrv_match_release(struct tagrv_match *match, struct tagrv_match_msg *msg);

/*
 * Calls fn for each queued message of one peer (or of all: TAGRV_MATCH_ANY), in
 * arrival order. A message for which fn returns true is removed and freed; others
 * stay queued. fn must not call the engine.
 */
void tagrv_match_drain_unexpected(struct tagrv_match *match, uint32_t peer,
				  bool (*fn)(struct tagrv_match_msg *msg,
					     void *arg), void *arg);

/* Removes every posted receive in post order, and calls fn, which must not call the
 * engine. */
void tagrv_match_drain_posted(struct tagrv_match *match,
			      void (*fn)(struct tagrv_match_recv *recv, void *arg),
			      void *arg);

/*
 * Removes every posted receive that names this peer as its source, in post order, and
 * calls fn, which must not call the engine.
 */
void tagrv_match_drain_source(struct tagrv_match *match, uint32_t peer,
			      void (*fn)(struct tagrv_match_recv *recv, void *arg),
			      void *arg);

/*
 * Whether some posted receives are in the key table, a hash: tagrv_match_arrive()
 * then reads lines of it that are probably not in the processor's cache.
 */
bool tagrv_match_uses_hash(const struct tagrv_match *match);

/*
 * Prefetches the lines of the key table which tagrv_match_arrive() will read for a
 * message that is about to arrive. Changes nothing.
 */
void tagrv_match_prefetch(const struct tagrv_match *match, uint32_t peer,
			  uint8_t space, uint64_t tag);

/*
 * Enlarges pools and tables that are nearly full, so that posts and arrivals
 * seldom have to. The caller calls it when time is not critical. Never fails.
 */
void tagrv_match_grow_ahead(struct tagrv_match *match);

/* Fills *stats. Finding the ages takes time that grows with the classes. */
void tagrv_match_get_stats(const struct tagrv_match *match,
			   struct tagrv_match_stats *stats);

#endif
