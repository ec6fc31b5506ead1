/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends whose packet has left.
 *
 *   level              eager packet         prepared packet      RTS
 *   INJECT             end                  WIRE                 ANNOUNCED
 *   TRANSMIT           WIRE                 WIRE                 ANNOUNCED
 *   DELIVERY, MATCH    FIN_WAIT             WIRE, then FIN_WAIT  ANNOUNCED
 */
#include "proto/sent.h"

#include <rdma/fi_errno.h>

#include "object/lane.h"
#include "object/peer.h"

/* The op has left the pending queue: a fence counts it until it ends. */
static void leave_pending(struct tagrv_op *op, enum tagrv_op_state state)
{
	tagrv_list_remove(&op->link);
	tagrv_op_set_state(op, state);
	op->peer->sent++;
	op->peer->sent_msgs++;
}

/*
 * Ops batched into one packet are chained to the first of them, the leader,
 * through op->link: a ring without a head.
 */
void tagrv_sent_done(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);
	struct tagrv_list others, *node;

	tagrv_assert_locked(op->engine->dom);
	status = tagrv_lane_reason(op->lane, status);
	tagrv_list_init(&others);
	tagrv_list_splice_tail(&others, &op->link);
	tagrv_op_send_end(op, status);
	while ((node = tagrv_list_pop(&others)))
		tagrv_op_send_end(tagrv_container_of(node, struct tagrv_op,
						     link), status);
}

void tagrv_sent_eager(struct tagrv_op *op, struct tagrv_op *leader)
{
	struct tagrv_peer *peer = op->peer;

	tagrv_assert_locked(op->engine->dom);
	if (tagrv_op_awaits_fin(op)) {
		leave_pending(op, TAGRV_OP_FIN_WAIT);
		tagrv_list_push_tail(&peer->waiting, &op->link);
	} else if (tagrv_op_awaits_wire(op)) {
		leave_pending(op, TAGRV_OP_WIRE);
		op->lane = peer->lane;
		if (op != leader)
			tagrv_list_push_tail(&leader->link, &op->link);
	} else {
		tagrv_list_remove(&op->link);
		tagrv_op_send_end(op, 0);
	}
}

void tagrv_sent_rts(struct tagrv_op *op)
{
	tagrv_assert_locked(op->engine->dom);
	leave_pending(op, TAGRV_OP_ANNOUNCED);
	tagrv_list_push_tail(&op->peer->waiting, &op->link);
	op->engine->stats.buffered += op->tx.bounce != NULL;
}

/* ---- prepared ---- */

/* The device has sent the packet. Its FIN, if one is due, may have come before. */
static void prepared_done(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);
	struct tagrv_peer *peer = op->peer;

	if (op->tx.early_fin || !tagrv_op_awaits_fin(op) || status) {
		tagrv_op_send_end(op, op->tx.early_fin ? op->status :
				  tagrv_lane_reason(op->lane, status));
	} else if (peer->lane == op->lane) {
		tagrv_op_set_state(op, TAGRV_OP_FIN_WAIT);
		tagrv_list_push_tail(&peer->waiting, &op->link);
	} else {
		tagrv_op_send_end(op, -FI_ECONNRESET);
	}
}

void tagrv_sent_prepared(struct tagrv_op *op)
{
	tagrv_assert_locked(op->engine->dom);
	leave_pending(op, TAGRV_OP_WIRE);
	op->done.fn = prepared_done;
	op->tx.early_fin = false;
	op->lane = op->peer->lane;
}

bool tagrv_sent_early_fin(struct tagrv_op *op, int status)
{
	tagrv_assert_locked(op->engine->dom);
	if (op->done.fn != prepared_done || !tagrv_op_awaits_fin(op) ||
	    op->tx.early_fin)
		return false;
	op->tx.early_fin = true;
	op->status = status;
	return true;
}
