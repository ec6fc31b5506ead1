/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Side link of a peer: by it each of the two accesses windows of the other that it was
 * shown (object/view.h), over a transport that ends a connection over a key which is not
 * valid any more (TAGRV_XPORT_SIDE). The connection of packets goes on then.
 *
 *   this side                                 the peer
 *   begins: a link, not bound
 *            --- SIDE(blob) ---------------->  begins, binds its link: it is attached
 *            <-- SIDE(blob, ready) ----------
 *   binds its link: attached
 *            --- SIDE(ready) --------------->
 *   open when attached and the peer is ready, on both sides
 *
 * Both may begin at once: then each has the other's blob, binds, and says that it is ready.
 *
 *   it fails here, e.g. because a key was not valid
 *            --- SIDE(off) ----------------->  closes its end
 *   what was under way by it, on both sides, goes by packets
 *   a pause of some operations, then either side begins another one
 *
 * The packets of such an operation are behind SIDE(off): when the peer handles them, its end
 * is closed, and no write that was lost on the way can arrive behind them.
 *
 *   it cannot be made or bound here
 *            --- SIDE(off) ----------------->  there will be none before another pause
 *
 * The side links of a connection are numbered, and each SIDE has the number of the link that
 * it is about: a SIDE(off) that crosses the beginning of the next link does not end that one.
 *
 * Reads and writes do not wait for a side link: until it is open they go by packets. Atomics
 * by the device do (proto/rma/rma_device.c).
 *
 * lock: the domain lock is held in every call.
 */
#ifndef TAGRV_OBJECT_SIDE_H
#define TAGRV_OBJECT_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "object/peer.h"
#include "xport/xport.h"

/* One per peer, made when it is wanted first. */
struct tagrv_side {
	struct tagrv_link *link;
	struct tagrv_lane *lane;	/* NULL: the link is not attached */
	struct tagrv_lane *back;	/* to oneself: lane of the other end; else NULL */
	bool	peer_ready;		/* the peer's link is bound */
	bool	offer_due, ready_due;	/* to be sent: the blob; that ours is bound */
	uint8_t	blob_len;
	uint8_t	blob[TAGRV_BLOB_MAX];
};

/*
 * Operations that go by packets after the end of a side link, before another one is begun: at
 * first, and at most. Making one takes some hundred microseconds.
 */
#define TAGRV_SIDE_PAUSE_MIN	64u
#define TAGRV_SIDE_PAUSE_MAX	4096u

/* The side link, if it is open; else NULL. */
static inline struct tagrv_link *tagrv_side_link(const struct tagrv_peer *peer)
{
	const struct tagrv_side *side = peer->side;

	return side && side->lane && side->peer_ready ? side->link : NULL;
}

/* Whether a side link is there, or is begun as soon as it is wanted. */
static inline bool tagrv_side_may_be(const struct tagrv_peer *peer)
{
	return peer->side || !peer->rma.side_pause;
}

/* Makes an unbound link to this connected peer. 0, -FI_ENOMEM, or the transport's error. */
int tagrv_side_begin(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;
/* Binds and attaches it. On an error the side link is gone: see tagrv_side_count_end(). */
int tagrv_side_bind(struct tagrv_peer *peer, const void *blob, size_t len)
	TAGRV_WARN_UNUSED;
/*
 * Makes an open side link to oneself over this transport: both ends are here. 0 or as
 * tagrv_side_begin().
 */
int tagrv_side_begin_self(struct tagrv_peer *peer, struct tagrv_xport *xport)
	TAGRV_WARN_UNUSED;
/* Ends the side link, if there is one: it, or the connection, has ended with 'status'. */
void tagrv_side_end(struct tagrv_peer *peer, int status);
/* Side link 'nr' has ended, or could not be made: another one has the next number. */
void tagrv_side_count_end(struct tagrv_peer *peer, uint32_t nr, bool unable);

#endif
