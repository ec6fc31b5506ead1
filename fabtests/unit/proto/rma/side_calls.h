/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the tests of side links and of atomics by the device share, on top of rma_calls.h: a
 * transport with side links, and the packets by which a peer shows a window and makes one.
 */
#ifndef FABTESTS_UNIT_PROTO_RMA_SIDE_CALLS_H
#define FABTESTS_UNIT_PROTO_RMA_SIDE_CALLS_H

#include "unit/proto/rma/rma_calls.h"

/* caps: further enum tagrv_xport_caps. Nobody counts accesses. */
void side_setup(uint32_t caps);
void side_teardown(void);

/* A SIDE with these flags, and with a blob or without, about the first side link. */
void arrive_side(uint16_t flags, bool blob);
/* The same about this one, from 0 on. */
void arrive_side_nr(uint32_t nr, uint16_t flags, bool blob);
/*
 * A VIEW of a window of the peer, which begins at BASE and has len bytes in open_mem. rights
 * 0: there is none, because of err, FI_E*.
 */
void arrive_view(uint32_t id, unsigned rights, size_t len, int err);

/* How many requests of this kind were given to the transport. */
size_t count_kind(enum fake_kind kind);
/* Ends what is in flight by the side link, but not what begins meanwhile. */
void end_moves(int status);

#endif
