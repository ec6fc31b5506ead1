/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives that name a source which is lost: its process has died, its endpoint was
 * closed, or it cannot be reached.
 *
 *   FI_TAGRV_PEER_ERRORS=no   they wait, since the peer may be restarted
 *   FI_TAGRV_PEER_ERRORS=yes  they end with the reason:
 *
 *     posted before   lane fails --> conn.lost --> end of the pass: error entries
 *     posted after    table.by_addr has no peer for the fi_addr, as before its first
 *                     use, while the peer is IDLE; so the receive leaves the short
 *                     way, takes a message that is kept, or else ends at once
 *     from a peer that was never connected: a connection is asked for, so that the
 *     end of the peer is noticed
 *
 * Lanes fail inside calls of transports, where a receive that matched may still be in
 * use: so receives end only between such calls.
 *
 * Of endpoints that share receives, one may have lost a peer that another still
 * reaches: receives end when none does.
 *
 * lock: the domain lock is held in every call.
 */
#ifndef TAGRV_ENGINE_LOST_H
#define TAGRV_ENGINE_LOST_H

#include "object/peer.h"

struct tagrv_op;
struct tagrv_recv;
struct tagrv_tags;

/* The peer has no connection any more, or cannot get one (status: -FI_E*). */
void tagrv_peer_lose(struct tagrv_peer *peer, int status) TAGRV_COLD;
/* Ends the receives that name one of engine->conn.lost. Outside of matching only. */
void tagrv_engine_end_lost(struct tagrv_engine *engine);

/* Whether such receives are to end. */
static inline bool tagrv_engine_ends_receives(const struct tagrv_engine *engine)
{
	return engine->dom->params.peer_errors && engine->rx->directed &&
	       engine->enabled;
}

/*
 * The match_id of a source that table.by_addr has not: of one used for the first time,
 * or lost. 0; -FI_EINVAL: no such source; -FI_ENOMEM. *lost: -FI_E*, if a receive from
 * it is to end because of that, else 0.
 */
int tagrv_rx_look_at_source(struct tagrv_rx *rx, fi_addr_t src,
			    uint32_t *match_id, int *lost)
	TAGRV_COLD TAGRV_WARN_UNUSED;

/*
 * Ends a receive that is not posted any more, and that no message has matched. status:
 * -FI_E*. src: of the entry.
 */
void tagrv_rx_end_posted(struct tagrv_rx *rx, const struct tagrv_recv *recv,
			 fi_addr_t src, int status);
/*
 * The same for one that a device's list may still have: it ends when the device has said that
 * no message was faster, else as if this had not been called. peer: its source, or NULL.
 */
void tagrv_rx_withdraw(struct tagrv_rx *rx, const struct tagrv_recv *recv,
		       struct tagrv_peer *peer, int status);
/* tagrv_tags_ops::cancelled. */
void tagrv_rx_withdrawn(struct tagrv_tags *tags, struct tagrv_op *op);

#endif
