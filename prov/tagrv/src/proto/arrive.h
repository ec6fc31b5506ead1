/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Arrivals: messages and announcements that come are matched.
 *
 * Each has passed the checks of its packet's header. A message for which the peer
 * had no credit, or which cannot be kept, fails the lane.
 */
#ifndef TAGRV_PROTO_ARRIVE_H
#define TAGRV_PROTO_ARRIVE_H

#include "object/peer.h"
#include "wire/packet.h"

struct tagrv_op;

/* An EAGER packet: header, and len bytes of payload. */
void tagrv_arrive_eager(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			const void *payload, size_t len);
/*
 * A tagged message of len bytes without a header: sink->tagged. has_data: it has
 * 'data'. Its credit was counted.
 */
void tagrv_arrive_tagged(struct tagrv_peer *peer, uint64_t tag, uint64_t data,
			 bool has_data, const void *payload, size_t len);
/* The same for one message of a BATCH, its header made of the item's. */
void tagrv_arrive_item(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const void *payload, size_t len);
/* An RTS: header, and len bytes of body, which are checked here. */
void tagrv_arrive_rts(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		      const void *body, size_t len);

/*
 * The same two for a message of the connection that is up, and which a device has matched with
 * this receive. Of an EAGER the op ends, an RTS begins a rendezvous. False: the RTS was
 * refused, and the op is the caller's still.
 */
void tagrv_arrive_matched(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			  const void *payload, size_t len, struct tagrv_op *op);
bool tagrv_arrive_matched_rts(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			      const void *body, size_t len, struct tagrv_op *op)
	TAGRV_WARN_UNUSED;

#endif
