/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous: ends of receives and sends, which put the rendezvous part back.
 */
#include "proto/packet/ack.h"
#include "proto/rndv/rndv_priv.h"

/* ---- receiver ---- */

void tagrv_rndv_recv_end_silent(struct tagrv_op *op)
{
	int status = op->status;

	tagrv_rndv_detach(op);
	tagrv_op_recv_end(op, status);
}

void tagrv_rndv_recv_end(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	/* Registration ends before the sender may reuse its buffer. */
	tagrv_op_deregister(op);
	if (tagrv_lane_is_of(op->lane, peer))
		tagrv_ack_fin(peer, op->rndv->remote.op, op->status);
	tagrv_rndv_recv_end_silent(op);
}

/* ---- sender ---- */

void tagrv_rndv_release(struct tagrv_op *op)
{
	tagrv_rndv_detach(op);
}

void tagrv_rndv_send_fail(struct tagrv_op *op, int status)
{
	if (!op->status)
		op->status = status;
	if (!op->rndv->inflight)
		tagrv_op_send_end(op, op->status);
}

void tagrv_rndv_send_quit(struct tagrv_op *op, int status)
{
	tagrv_ack_done(op->peer, op->rndv->remote.op, 0, status);
	tagrv_op_send_end(op, status);
}
