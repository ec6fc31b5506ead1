/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Queued sends: the choice of a protocol, and the first packet.
 */
#ifndef TAGRV_PROTO_SEND_H
#define TAGRV_PROTO_SEND_H

#include "object/peer.h"

/*
 * Sends the first of the peer's pending ops, of which there is one, and others
 * with it where they may share its packet. Adds to *bytes what they put on the
 * link. 0: they have left the queue. On errors the queue is as it was; -FI_EAGAIN:
 * there is no room, or the first op is behind a fence.
 */
int tagrv_send_next(struct tagrv_peer *peer, size_t *bytes) TAGRV_WARN_UNUSED;

#endif
