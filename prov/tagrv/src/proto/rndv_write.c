/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by remote write: the sender pushes, once it was told where to.
 *
 *   sender                                    receiver
 *   ANNOUNCED                                 TAKING
 *            <-- CTS(handle, want, keys) ---
 *   WRITING: writes in segments,
 *     put_depth in flight
 *            === remote writes ============>
 *   end      --- DONE(handle, status) ----->  end
 *
 *   A sender that cannot write asks for grants, and goes on as rndv_copy.c:
 *   COPYING  --- FRAG(handle, empty) ------>
 *            <-- GRANT(n) -----------------
 *
 * DONE goes behind the last write, on a transport that keeps this order, else
 * when that one is done. The sender ends with its last write, which is when its
 * buffer is free. For any level above INJECT, DONE asks for a FIN: until DONE is
 * there the receive depends on the sender's process (TRANSMIT), and what is
 * written may still be in a ring or a device (DELIVERY, MATCH). Where DONE did not
 * wait for the writes, its FIN may be here before the transport says that they are
 * done: it is kept until then.
 *
 * A receive whose keys are out ends by DONE, or when its link is gone: until then
 * the peer may write to it.
 *
 * Layouts: docs/wire_protocol.md section 1.8.
 */
#include <rdma/fi_errno.h>

#include "proto/engine_priv.h"

static bool is_alive(const struct tagrv_op *op)
{
	return op->peer->lane && op->peer->lane == op->lane;
}

static bool wants_fin(const struct tagrv_op *op)
{
	return op->flags & (FI_TRANSMIT_COMPLETE | TAGRV_ACK_LEVELS) &&
	       !op->status && !op->acked;
}

static void say_done(struct tagrv_op *op)
{
	bool ack = wants_fin(op);

	op->told = true;
	tagrv_peer_done(op->peer, op->remote.op,
			ack ? TAGRV_PKT_ACK_DELIVERY : 0, op->status);
}

/* All is written, or the first failure is known. */
static void write_end(struct tagrv_op *op)
{
	bool ack = wants_fin(op);

	if (tagrv_list_linked(&op->link))
		tagrv_list_remove(&op->link);
	if (!op->told && is_alive(op))
		say_done(op);
	if (ack && is_alive(op)) {
		op->state = TAGRV_OP_FIN_WAIT;
		tagrv_list_push_tail(&op->peer->waiting, &op->link);
		return;
	}
	tagrv_op_send_end(op, ack ? -FI_ECONNRESET : op->status);
}

static void put_done(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);

	op->inflight--;
	if (status && !op->status)
		op->status = tagrv_lane_reason(op->lane, status);
	if (op->inflight)
		return;
	if (op->status || op->next == op->want)
		write_end(op);
}

static int put_next(struct tagrv_op *op)
{
	struct tagrv_link *link = op->peer->lane->link;
	struct tagrv_piece piece;
	int ret;

	tagrv_rndv_next(op, link->put_max, &piece);
	ret = link->xport->ops->put(link, piece.addr, piece.mem, piece.raddr,
				    piece.key, op->remote.key_len, piece.len,
				    &op->done);
	if (ret)
		return ret;
	op->next += piece.len;
	op->inflight++;
	return 0;
}

int tagrv_rndv_write(struct tagrv_op *op)
{
	uint32_t caps = op->peer->lane->link->xport->attr.caps;

	while (op->next < op->want && !op->status) {
		int ret = put_next(op);

		if (!ret)
			continue;
		if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
			return -FI_EAGAIN;
		op->status = ret;
	}
	tagrv_list_remove(&op->link);
	/* Held up: the lane may die of it, and with it what is in flight. */
	op->inflight++;
	if (caps & TAGRV_XPORT_PUT_FENCED && !op->status)
		say_done(op);
	if (!--op->inflight)
		write_end(op);
	return 0;
}

bool tagrv_rndv_write_acked(struct tagrv_op *op, int status)
{
	if (op->state != TAGRV_OP_WRITING || !op->told || !wants_fin(op))
		return false;
	op->acked = true;
	op->status = status;
	return true;
}

bool tagrv_rndv_write_start(struct tagrv_op *op)
{
	const struct tagrv_xport *xport = op->peer->lane->link->xport;

	if (!(xport->attr.caps & TAGRV_XPORT_PUT))
		return false;
	if (tagrv_op_register(op, xport->dev, op->want, 0)) {
		tagrv_op_deregister(op);
		return false;
	}
	op->state = TAGRV_OP_WRITING;
	op->done.fn = put_done;
	op->lane = op->peer->lane;
	op->acked = false;
	op->engine->stats.moved_tx[TAGRV_PROTO_RNDV_WRITE]++;
	return true;
}
