/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections of an engine coming and going.
 */
#ifndef TAGRV_ENGINE_CONNECT_H
#define TAGRV_ENGINE_CONNECT_H

#include "object/peer.h"
#include "wireup/wireup.h"

/*
 * Progress passes without a message of a peer that ended its connection, after
 * which its link counts as empty; one idle pass is enough, too.
 */
#define TAGRV_DRAIN_PASSES	64

/* Handles a report of the wireup thread. */
void tagrv_engine_wireup_event(struct tagrv_engine *engine,
			       const struct tagrv_wireup_event *event);

/*
 * Asks for a connection if the peer has none and none is on its way. Where none
 * can be had, its pending sends end with the reason.
 */
void tagrv_peer_connect(struct tagrv_peer *peer);

#endif
