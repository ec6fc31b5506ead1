/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lane: one life of the connection to a peer.
 *
 *   UP --> lane of the peer --> lane_fail --> closing --> link_closed: freed
 *
 * A lane outlives the peer's interest in it until the transport reports the link
 * closed, so a new lane can come up while the old one drains.
 *
 * A side link (object/side.h) has a lane of its own, which is never the peer's lane.
 *
 * A lane may fail inside any call into a transport that can reap completions:
 * look at peer->lane and peer->state again after such a call.
 *
 * lock: the domain lock is held in every call.
 */
#ifndef TAGRV_OBJECT_LANE_H
#define TAGRV_OBJECT_LANE_H

#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/list.h"
#include "object/peer.h"
#include "xport/xport.h"

/* engine/part.c: an idle connection is closed by agreement. */
enum tagrv_part_state {
	TAGRV_PART_NONE,
	TAGRV_PART_ASKED,	/* we asked the peer, and wait for its answer */
	TAGRV_PART_AGREED,	/* the peer asked, and our agreement is on its way */
};

struct tagrv_part {
	uint8_t	state;		/* enum tagrv_part_state */
	bool	known;		/* the peer understands PART */
	bool	refused;	/* its last answer to us */
	uint32_t asked_at;	/* look at which it was asked last */
	uint32_t used_at;	/* look that found a use of the connection; 0: none so far */
	uint32_t seen;		/* uses of it at the last look */
	uint64_t nr;		/* of our question */
	uint64_t asked_nr;	/* of the peer's */
	struct tagrv_list node;	/* engine->conn.parts: it is to be answered */
	struct tagrv_done done;	/* the agreement has arrived */
};

struct tagrv_lane {
	struct tagrv_list node;		/* engine->conn.lanes */
	struct tagrv_list gone_node;	/* engine->conn.gone */
	struct tagrv_list exposed;	/* receives that the peer may write to
					   until the link is closed */
	struct tagrv_peer *peer;	/* NULL once replaced or failed */
	struct tagrv_link *link;
	uint32_t life;			/* side, listed: peer->life, while it is the same */
	uint32_t epoch;
	uint64_t renew_since;		/* ms, clock; the link waits for new paths;
					   0: it does not */
	struct tagrv_part part;
	int	gone_status;		/* why the peer hung up: 0 or -FI_E* */
	unsigned gone_passes;		/* progress passes without a message of
					   the peer since it ended its connection */
	uint32_t gone_seq;		/* what had come at the last of them */
	int	status;			/* why it failed, once closing */
	bool	side;			/* of a side link */
	bool	down;			/* it waits for new paths, and has no other */
	bool	gone_untold;		/* the wireup thread does not know that the peer hung up */
	bool	closing;		/* link_close was called */
	bool	listed;			/* tagged messages come by the list of tags.h */
	bool	outside;		/* they come another way, though there is a list */
	struct tagrv_peer *entered;	/* listed: 'peer', until the link is gone */
	struct tagrv_list wait_node;	/* listed: tags->waiting */
};

/* The transport that a connected peer's packets take. */
static inline struct tagrv_xport *tagrv_peer_xport(const struct tagrv_peer *peer)
{
	return peer->lane->link->xport;
}

/* Whether the peer is connected by this lane, which may have been freed; NULL: it is not. */
static inline bool tagrv_lane_is_of(const struct tagrv_lane *lane,
				    const struct tagrv_peer *peer)
{
	return peer->lane && peer->lane == lane;
}

/* Whether the peer is still connected as it was when this lane of a side link was made. */
static inline bool tagrv_lane_is_beside(const struct tagrv_lane *lane,
					const struct tagrv_peer *peer)
{
	return peer->lane && peer->life == lane->life;
}

/*
 * The status of an operation that was under way: when the end of the lane cut it
 * off, the reason why the lane failed.
 */
static inline int tagrv_lane_reason(const struct tagrv_lane *lane, int status)
{
	return status == -FI_ECANCELED && lane->closing ? lane->status : status;
}

/* NULL: out of memory. The lane replaces none: peer->lane is NULL. */
struct tagrv_lane *tagrv_lane_create(struct tagrv_peer *peer,
				     struct tagrv_link *link, uint32_t epoch)
	TAGRV_WARN_UNUSED;
/* The same for a side link, beside the peer's lane. */
struct tagrv_lane *tagrv_lane_create_side(struct tagrv_peer *peer,
					  struct tagrv_link *link) TAGRV_WARN_UNUSED;
/*
 * The lane is the peer's no longer, or never will be: what the peer sends by it is not matched
 * any more. Its number, if it has one, is in use until tagrv_tags_link_gone().
 */
void tagrv_lane_leave_tags(struct tagrv_lane *lane);
/* A lane whose link was never attached. */
void tagrv_lane_discard(struct tagrv_lane *lane);
/* Closes a side link, which is the peer's no longer, because the connection has ended. */
void tagrv_lane_end_side(struct tagrv_lane *lane, int status);

/*
 * The lane is of no use: ends everything that depends on it with 'status' and
 * closes the link. notify_wireup: the wireup thread does not know of the failure.
 * Of a side link: what depends on it goes by packets.
 */
void tagrv_lane_fail(struct tagrv_lane *lane, int status, bool notify_wireup);
/*
 * Both sides have agreed to close the link, over which nothing is under way: the peer is
 * IDLE without a failure, and what is pending waits for the next connection.
 */
void tagrv_lane_part(struct tagrv_lane *lane);
/* Ends sends that wait for a connection which will not come. */
void tagrv_peer_fail_pending(struct tagrv_peer *peer, int status);

/* Counts, and logs once per engine, a malformed or unexpected packet of a peer. */
void tagrv_peer_count_bad(struct tagrv_peer *peer, const char *why) TAGRV_COLD;
/*
 * The same, and fails the lane: otherwise the operation that the packet was about
 * would never end, on either side.
 */
void tagrv_peer_bad_packet(struct tagrv_peer *peer, const char *why) TAGRV_COLD;

#endif
