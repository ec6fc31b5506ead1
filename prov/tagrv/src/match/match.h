/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Matching engine of one endpoint, or of those that share their receives: posted
 * receives and unexpected messages.
 *
 * Pure data structure: no I/O, no packets, no fids. The caller holds the domain
 * lock; search and insertion are one call, so no message can slip between "not
 * found" and "queued".
 *
 *   post()   -> takes the earliest unexpected message that matches, else queues
 *   arrive() -> takes the earliest posted receive that matches, else queues
 *
 * Rules: a message (space, peer, tag) matches a receive (space, peer or any,
 * tag, ignore) when the spaces agree, the peer agrees or is any, and
 * ((message.tag ^ receive.tag) & ~receive.ignore) == 0. In the FI_MSG space tag
 * and ignore are not looked at. Of several posted receives the earliest posted
 * wins; of several unexpected messages the earliest arrived.
 *
 * Peers are small integers that the caller gives out; they are never re-keyed.
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

/* What a receive, peek or claim looks for. */
struct tagrv_match_want {
	uint64_t tag;
	uint64_t ignore;
	uint32_t peer;		/* or TAGRV_MATCH_ANY */
	uint8_t	space;		/* enum tagrv_match_space */
	bool	keep;		/* stays queued when matched (multi-recv) */
};

/*
 * One unexpected message. Owned by the engine while queued; after post(), claim()
 * or take() handed it out, by the caller until tagrv_match_release().
 */
struct tagrv_match_msg {
	uint64_t tag;
	uint64_t seq;		/* arrival order, engine-wide */
	uint32_t peer;
	uint8_t	space;
	void	*user;		/* the caller's record of payload or RTS */
};

/* Names one queued receive; 0 is never a valid id. */
typedef uint64_t tagrv_match_id;

/*
 * Ages are calls: how many posts (arrivals), matched at once or not, have come
 * since the oldest entry that is still queued; 0 when nothing is queued.
 */
struct tagrv_match_stats {
	size_t posted, posted_peak;
	size_t unexpected, unexpected_peak;
	size_t posted_classes;		/* kinds of receives looked up apart */
	size_t unexpected_indexes;	/* kinds of lookups that have an index */
	uint64_t posted_oldest, unexpected_oldest;
	uint64_t probes;	/* entries compared, keys looked up, in all */
	uint64_t searches;	/* post, arrive, peek and claim calls */
	/* Changes of structure: rare beside searches, or something is wrong. */
	uint64_t promotions, demotions;		/* classes to and from a hash */
	uint64_t builds, evictions;		/* indexes */
};

/*
 * Limits are queued entries; 0: as many as a pool holds (TAGRV_POOL_MAX). More is
 * never possible; messages handed out do not count, but share that maximum.
 * 0, -FI_ENOMEM, or what getrandom() said.
 */
int tagrv_match_create(size_t max_posted, size_t max_unexpected,
		       struct tagrv_match **match) TAGRV_WARN_UNUSED;

/*
 * The same with the seed of the hashes; create takes one from the system, so
 * that no peer can know which tags collide. For tests and replays.
 */
int tagrv_match_create_seeded(size_t max_posted, size_t max_unexpected,
			      uint64_t seed, struct tagrv_match **match)
	TAGRV_WARN_UNUSED;

/*
 * Frees everything. Cookies of queued receives and users of queued messages
 * are the caller's: drain them first (see tagrv_match_drain_*).
 */
void tagrv_match_destroy(struct tagrv_match *match);

/*
 * Posts a receive. Returns
 *   1: *msg is the earliest matching unexpected message, now the caller's;
 *      the receive was not queued;
 *   0: queued, *id names it;
 *   -FI_EAGAIN: limit of posted receives reached; -FI_ENOMEM: no memory.
 *      Nothing has happened.
 * A want with 'keep' set is searched and queued like any other: the caller
 * that wants several messages for one buffer claims them first.
 */
int tagrv_match_post(struct tagrv_match *match,
		     const struct tagrv_match_want *want, void *cookie,
		     tagrv_match_id *id, struct tagrv_match_msg **msg)
	TAGRV_WARN_UNUSED;

/*
 * A message has arrived. Returns
 *   1: *cookie is that of the earliest matching receive, which is no longer
 *      queued unless it was posted with 'keep';
 *   0: queued as unexpected; the caller sets (*msg)->user before it does
 *      anything else with the engine;
 *   -FI_EAGAIN: limit of unexpected messages; -FI_ENOMEM. Nothing happened.
 */
int tagrv_match_arrive(struct tagrv_match *match, uint32_t peer, uint8_t space,
		       uint64_t tag, void **cookie,
		       struct tagrv_match_msg **msg) TAGRV_WARN_UNUSED;

/*
 * Takes a posted receive out. 0 and its cookie, or -FI_ENOENT when the id is
 * not (or no longer) queued: it was matched, cancelled, or never existed.
 */
int tagrv_match_cancel(struct tagrv_match *match, tagrv_match_id id,
		       void **cookie) TAGRV_WARN_UNUSED;

/*
 * The id of a receive queued with this cookie, or 0. Earliest posted first.
 * For fi_cancel, which names operations by context. 'is' must not call the
 * engine.
 */
tagrv_match_id tagrv_match_find(struct tagrv_match *match,
				bool (*is)(void *cookie, void *arg), void *arg);

/*
 * The same for a name that each cookie bears: fi_cancel's context. O(1) when it
 * is called often; one walk now and then when it is not. name_of must give the
 * same answer while the receive is queued, must not call the engine, and is
 * the same function in all calls. Several receives may bear one name.
 */
typedef void *(*tagrv_match_name_fn)(void *cookie);
tagrv_match_id tagrv_match_find_name(struct tagrv_match *match,
				     tagrv_match_name_fn name_of, void *name);

/* Earliest matching unexpected message, still queued; NULL when there is none. */
struct tagrv_match_msg *tagrv_match_peek(struct tagrv_match *match,
					 const struct tagrv_match_want *want);

/* The same, taken out of the queue: the caller's until released. */
struct tagrv_match_msg *tagrv_match_claim(struct tagrv_match *match,
					  const struct tagrv_match_want *want);

/* Takes a message found by peek out: the caller's until released. */
void tagrv_match_take(struct tagrv_match *match, struct tagrv_match_msg *msg);

/* Frees a message that was handed out. Its 'user' is not touched. */
void tagrv_match_release(struct tagrv_match *match, struct tagrv_match_msg *msg);

/*
 * Calls fn for queued messages of one peer (or of all: TAGRV_MATCH_ANY), in
 * arrival order; where it returns true the message is taken out and released,
 * else it stays. fn must not call the engine.
 */
void tagrv_match_drain_unexpected(struct tagrv_match *match, uint32_t peer,
				  bool (*fn)(struct tagrv_match_msg *msg,
					     void *arg), void *arg);

/* Takes every posted receive out, in post order; fn must not call the engine. */
void tagrv_match_drain_posted(struct tagrv_match *match,
			      void (*fn)(void *cookie, void *arg), void *arg);

/* Whether arrivals look at memory that is likely to be far away. */
bool tagrv_match_is_far(const struct tagrv_match *match);

/* Such a message will arrive soon: asks for that memory. Changes nothing. */
void tagrv_match_ahead(const struct tagrv_match *match, uint32_t peer,
		       uint8_t space, uint64_t tag);

/*
 * Allocates what posts and arrivals are likely to need next. To be called now
 * and then where time is not critical, so that they seldom have to themselves.
 */
void tagrv_match_tend(struct tagrv_match *match);

void tagrv_match_get_stats(const struct tagrv_match *match,
			   struct tagrv_match_stats *stats);

#endif
