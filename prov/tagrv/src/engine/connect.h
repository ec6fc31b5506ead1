/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections of an engine coming and going.
 */
#ifndef TAGRV_ENGINE_CONNECT_H
#define TAGRV_ENGINE_CONNECT_H

#include "object/lane.h"
#include "object/peer.h"
#include "wireup/wireup.h"

/*
 * Progress passes without a message of a peer that ended its connection, after
 * which its link counts as empty; one idle pass is enough, too.
 */
#define TAGRV_DRAIN_PASSES	64

/*
 * A pass has been made. Whether so many brought nothing of a peer that ended its
 * connection that its link can be taken to be empty. One is not enough: a transport may
 * hand over far less in a pass than the peer has left there, and other peers' messages
 * make each pass look busy.
 */
bool tagrv_lane_is_drained(struct tagrv_lane *lane);

/* Handles a report of the wireup thread. */
void tagrv_engine_wireup_event(struct tagrv_engine *engine,
			       const struct tagrv_wireup_event *event);

/* The lane's link needs new paths; down: it has none that works. */
void tagrv_lane_renew(struct tagrv_lane *lane, bool down);

/*
 * Asks for a connection if the peer has none and none is on its way. Where none
 * can be had, its pending sends end with the reason.
 */
void tagrv_peer_connect(struct tagrv_peer *peer);

/*
 * Connects ourselves, if engine->conn.self is set. Between passes only: with a list of
 * receives in a device, they may have to come back from there first.
 */
void tagrv_engine_connect_self(struct tagrv_engine *engine);

#endif
