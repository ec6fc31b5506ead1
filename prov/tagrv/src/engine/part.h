/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Parting: an idle connection is closed by agreement of both sides, because the device has
 * room for so many links only (xport/quota.h). The next operation connects again, as the
 * first one did. Drawn in part.c.
 *
 * lock: the domain lock is held in every call.
 */
#ifndef TAGRV_ENGINE_PART_H
#define TAGRV_ENGINE_PART_H

#include "object/engine.h"
#include "object/lane.h"
#include "wire/packet.h"

/*
 * Asks the peers of idle connections to part where a device has too many links. urgent: a
 * connection waits for room.
 */
void tagrv_part_make_room(struct tagrv_engine *engine, bool urgent);

/* A PART packet has come. */
void tagrv_part_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const void *body, size_t len);
/* Answers that had no room are sent. Returns whether some are left. */
bool tagrv_part_serve(struct tagrv_engine *engine) TAGRV_COLD;

/*
 * The peer has closed its end, its link has failed, or it connects again. Returns whether we
 * had agreed to part: then the lane has ended, and nothing is lost.
 */
bool tagrv_part_ends(struct tagrv_lane *lane);
/*
 * The lane's link has failed. Returns whether that is settled: it has parted, or its peer has
 * perhaps agreed to part, by a packet that has come but was not handled yet. Then the lane
 * goes on to be drained.
 */
bool tagrv_part_takes_error(struct tagrv_lane *lane, int status);

#endif
