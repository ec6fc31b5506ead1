/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends whose packet has left: what each waits for then, and its end.
 */
#ifndef TAGRV_PROTO_SENT_H
#define TAGRV_PROTO_SENT_H

#include "object/op.h"

/*
 * The transport accepted the packet of a queued eager op: the op ends, or waits
 * for what its completion level asks for. leader: the op whose done record the
 * packet has; the op itself when it is alone in its packet.
 */
void tagrv_sent_eager(struct tagrv_op *op, struct tagrv_op *leader);

/* The RTS of the op has left: it waits for FIN or CTS. */
void tagrv_sent_rts(struct tagrv_op *op);

/* The transport accepted the prepared packet of the op, and will gather it. */
void tagrv_sent_prepared(struct tagrv_op *op);
/* A FIN for an op in state WIRE. False: the op awaits none. */
bool tagrv_sent_early_fin(struct tagrv_op *op, int status);

/* tagrv_done::fn of a queued send that waits for its packet's completion. */
void tagrv_sent_done(struct tagrv_done *done, int status);

#endif
