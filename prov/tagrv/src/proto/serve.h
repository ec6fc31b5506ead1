/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Serving a peer: everything that waits to be sent to it.
 */
#ifndef TAGRV_PROTO_SERVE_H
#define TAGRV_PROTO_SERVE_H

#include "object/peer.h"

/*
 * Sends what waits for the peer: acks and grants first, then reads and writes,
 * then messages in order, these up to a quantum of bytes. True when more could be
 * sent at once: the peer stays busy, and the caller must not sleep before it has
 * served it again.
 */
bool tagrv_peer_serve(struct tagrv_peer *peer);

#endif
