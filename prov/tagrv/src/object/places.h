/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Places: how many messages a peer may announce before we have to keep the
 * announcement, and we to it. Credit (credit.h) bounds what is kept of payloads;
 * places bound what is kept of envelopes.
 *
 *   sender                                   receiver
 *   left    --- RTS, costs a place ------->  promised -= 1
 *   no more: the send waits, and all that    matched, or paid for by the budget, or
 *   are behind it                            delivered later: owed += 1
 *   left += n  <-- CREDIT, n -------------   promised += n, owed -= n, when a quarter
 *                                            is owed, or at once if it is urgent
 *
 * Both sides of a connection begin with TAGRV_PLACES_FIRST. A receiver may promise more
 * of them for a while: 'window' is what there are, wherever they are. When there are
 * more than at first, a place that is free again is taken back instead of owed.
 * proto/hold.h says when which of these happens.
 *
 * docs/wire_protocol.md section 1.5. lock: the domain's.
 */
#ifndef TAGRV_OBJECT_PLACES_H
#define TAGRV_OBJECT_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#define TAGRV_PLACES_FIRST	1024u
#define TAGRV_PLACES_STEP	64u	/* promised beyond these at a time */

struct tagrv_places {
	uint32_t left;		/* announcements the peer takes from us */
	uint32_t promised;	/* announcements we take from the peer */
	uint32_t owed;		/* places to be given back */
	uint32_t window;	/* promised + owed + held by kept messages */
	uint32_t first;		/* places that both sides begin with */
	bool	urgent;		/* what is owed must not wait for more */
};

/* For a new connection. first: TAGRV_PLACES_FIRST, but in tests. */
static inline void tagrv_places_reset(struct tagrv_places *places, uint32_t first)
{
	*places = (struct tagrv_places) {
		.left = first,
		.promised = first,
		.window = first,
		.first = first,
	};
}

/* A CREDIT packet gave places to us. False: more than there can be. */
static inline bool tagrv_places_received(struct tagrv_places *places, uint32_t cnt)
{
	places->left += cnt;
	return places->left >= cnt;
}

/* An announcement has come. False: the peer had no place for it. */
static inline bool tagrv_places_use(struct tagrv_places *places)
{
	if (!places->promised)
		return false;
	places->promised--;
	return true;
}

/* A place is free again. True: it was one of those beyond the first. */
static inline bool tagrv_places_release(struct tagrv_places *places)
{
	bool extra = places->window > places->first;

	if (extra)
		places->window--;
	else
		places->owed++;
	return extra;
}

/* The peer gets more places than at first. */
static inline void tagrv_places_extend(struct tagrv_places *places, uint32_t cnt)
{
	places->window += cnt;
	places->owed += cnt;
}

/* Whether a packet should return what is owed. */
static inline bool tagrv_places_is_due(const struct tagrv_places *places)
{
	return places->owed &&
	       (places->urgent || places->owed >= places->first / 4);
}

/* A packet that returns so many was sent. */
static inline void tagrv_places_returned(struct tagrv_places *places, uint32_t cnt)
{
	places->owed -= cnt;
	places->promised += cnt;
	places->urgent = false;
}

#endif
