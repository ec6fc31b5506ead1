/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Delivery: a message goes to the receive that it matched.
 */
#ifndef TAGRV_PROTO_DELIVER_H
#define TAGRV_PROTO_DELIVER_H

#include "object/op.h"
#include "object/peer.h"
#include "object/recv.h"
#include "wire/packet.h"

/* Whether the sender of an eager message waits for its FIN. */
static inline bool tagrv_hdr_wants_fin(uint16_t pkt_flags, uint32_t handle)
{
	return handle &&
	       (pkt_flags & (TAGRV_PKT_ACK_MATCH | TAGRV_PKT_ACK_DELIVERY));
}

/*
 * An eager message: copies the payload and ends the receive. hdr: envelope, of
 * which op, tag, flags and data count.
 */
void tagrv_deliver_eager(const struct tagrv_recv *recv, struct tagrv_peer *peer,
			 const struct tagrv_hdr *hdr, const void *payload,
			 size_t len);
/* A message that an RTS announced: its rendezvous begins. */
void tagrv_deliver_rndv(const struct tagrv_recv *recv, struct tagrv_peer *peer,
			const struct tagrv_hdr *hdr,
			const struct tagrv_remote *remote);
/* A message that was lost with its connection: ends with -FI_ECONNRESET. */
void tagrv_deliver_lost(const struct tagrv_recv *recv, struct tagrv_peer *peer,
			const struct tagrv_hdr *hdr);

/* The same three for a receive that a device has matched: it was taken from its list. */
void tagrv_deliver_matched(struct tagrv_op *op, struct tagrv_peer *peer,
			   const struct tagrv_hdr *hdr, const void *payload, size_t len);
void tagrv_deliver_matched_rndv(struct tagrv_op *op, struct tagrv_peer *peer,
				const struct tagrv_hdr *hdr,
				const struct tagrv_remote *remote);
/* status: -FI_E*; only the tag of hdr is known. */
void tagrv_deliver_matched_lost(struct tagrv_op *op, struct tagrv_peer *peer,
				const struct tagrv_hdr *hdr, int status);

#endif
