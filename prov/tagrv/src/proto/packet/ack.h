/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Control packets: acks, which say that an operation of the peer is finished, and
 * others that must get through when messages cannot.
 */
#ifndef TAGRV_PROTO_PACKET_ACK_H
#define TAGRV_PROTO_PACKET_ACK_H

#include "object/peer.h"
#include "wire/packet.h"

/*
 * FIN: ends the peer's send 'op' (its handle) with 'status' (0 or -FI_E*).
 * Queued when there is no room. The lane may have failed on return.
 */
void tagrv_ack_fin(struct tagrv_peer *peer, uint32_t op, int status);
/*
 * The same for an operation that has ended well, but the FIN is held on peer->rma.held
 * until tagrv_ack_release() queues all that are there.
 */
void tagrv_ack_hold(struct tagrv_peer *peer, uint32_t op);
void tagrv_ack_release(struct tagrv_peer *peer);
/*
 * DONE: the peer's receive 'op' has all of its message, or gets no more of it.
 * flags: 0, or TAGRV_PKT_ACK_DELIVERY to be answered by a FIN. Queued likewise.
 */
void tagrv_ack_done(struct tagrv_peer *peer, uint32_t op, uint16_t flags,
		    int status);

/* RECALL: the peer may not use its view 'id' (object/view.h) any more. Queued likewise. */
void tagrv_ack_recall(struct tagrv_peer *peer, uint32_t id);

/*
 * Sends the first FINs, or the first other ack, of peer->acks, which is not empty, in
 * one packet. 0; -FI_EAGAIN: later; on any other error the lane has failed.
 */
int tagrv_ack_send(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;

/*
 * Writes the first FINs of peer->acks to 'to' as items of a BATCH, at most
 * TAGRV_BATCH_FIN_MAX; returns how many. When that packet has left,
 * tagrv_ack_items_sent() takes them off the queue.
 */
size_t tagrv_ack_pack_items(const struct tagrv_peer *peer, char *to);
void tagrv_ack_items_sent(struct tagrv_peer *peer, size_t cnt);

/*
 * Sends a packet that is no ack, with len bytes of body. 0; -FI_EAGAIN: later; on
 * any other error the lane has failed, with all that depended on it.
 */
int tagrv_control_send(struct tagrv_peer *peer, struct tagrv_hdr *hdr,
		       const void *body, size_t len) TAGRV_WARN_UNUSED;

#endif
