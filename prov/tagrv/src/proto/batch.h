/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Several small eager messages to one peer in one packet: the sender's half.
 */
#ifndef TAGRV_PROTO_BATCH_H
#define TAGRV_PROTO_BATCH_H

#include "object/op.h"
#include "object/peer.h"

/*
 * Sends the first of the peer's pending ops, of which there is one, and those
 * behind it that may share its packet. 0: the first *cnt ops of the queue have
 * left it. -FI_ENOENT: there is nothing to batch, send the first op by itself.
 * Others as the transport's send: nothing has happened.
 */
int tagrv_batch_send(struct tagrv_peer *peer, size_t *cnt) TAGRV_WARN_UNUSED;

/* Bytes that a message takes in such a packet; 0: it is too long for one. */
size_t tagrv_batch_room(const struct tagrv_op *op);

#endif
