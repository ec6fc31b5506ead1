/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by remote write: the sender pushes, once it was told where to.
 *
 *   sender                                    receiver
 *   ANNOUNCED                                 CTS
 *            <-- CTS(handle, want, keys) ---
 *   WRITING: writes in segments,
 *     put_depth in flight
 *            === remote writes ============>
 *   end      --- DONE(handle, status) ----->  end
 *
 *   A sender that cannot write asks for grants, and goes on as copy.c:
 *   COPYING  --- FRAG(handle, empty) ------>
 *            <-- GRANT(n) -----------------
 *
 * DONE is sent behind the last write on a transport that keeps this order, else
 * when that write is done. The sender ends with its last write, which is when its
 * buffer is free. For any level above INJECT, DONE asks for a FIN: until DONE is
 * there the receive depends on the sender's process (TRANSMIT), and written bytes
 * may still be in a ring or a device (DELIVERY, MATCH). Where DONE did not wait for
 * the writes, its FIN may come before the transport says that they are done: it is
 * kept until then.
 *
 * A receive whose keys are out ends by DONE, or when its link is gone: until then
 * the peer may write to it.
 *
 * Layouts: docs/wire_protocol.md section 1.8.
 */
#include <rdma/fi_errno.h>

#include "proto/packet/ack.h"
#include "proto/rndv/rndv_priv.h"

/* ---- receiver ---- */

static const struct tagrv_proto_ops recv_ops = {
	.name = "write",
	.move = tagrv_rndv_grant,
	.fail = tagrv_rndv_cts_fail,
};

bool tagrv_rndv_write_begin(struct tagrv_op *op)
{
	const struct tagrv_xport *xport = tagrv_peer_xport(op->peer);
	int ret;

	if (!(xport->attr.caps & TAGRV_XPORT_PUT) ||
	    !(xport->attr.admits & TAGRV_MEM_WRITE))
		return false;
	ret = tagrv_op_register(op, xport->dev, op->rndv->want,
				TAGRV_MEM_WRITE);
	if (ret) {
		tagrv_op_deregister(op);
		/* Memory that is not there is no better for other protocols. */
		if (ret == -FI_EFAULT)
			op->status = ret;
		return false;
	}
	op->rndv->by_write = true;
	tagrv_rndv_ask(op, &recv_ops, TAGRV_PROTO_RNDV_WRITE);
	return true;
}

/* ---- sender ---- */

static bool is_connected(const struct tagrv_op *op)
{
	return tagrv_lane_is_of(op->lane, op->peer);
}

static bool wants_fin(const struct tagrv_op *op)
{
	return op->flags & (FI_TRANSMIT_COMPLETE | TAGRV_ACK_LEVELS) &&
	       !op->status && !op->rndv->early_fin;
}

static void send_done(struct tagrv_op *op)
{
	bool ack = wants_fin(op);

	op->rndv->done_sent = true;
	tagrv_ack_done(op->peer, op->rndv->remote.op,
		       ack ? TAGRV_PKT_ACK_DELIVERY : 0, op->status);
}

/* All is written, or the first failure is known. */
static void end(struct tagrv_op *op)
{
	bool ack = wants_fin(op);

	if (tagrv_list_linked(&op->link))
		tagrv_list_remove(&op->link);
	if (!op->rndv->done_sent && is_connected(op))
		send_done(op);
	if (ack && is_connected(op)) {
		tagrv_op_set_state(op, TAGRV_OP_FIN_WAIT);
		tagrv_list_push_tail(&op->peer->waiting, &op->link);
		return;
	}
	tagrv_op_send_end(op, ack ? -FI_ECONNRESET : op->status);
}

static void put_done(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);

	if (tagrv_rndv_segment_done(op, status))
		end(op);
}

static int post(struct tagrv_op *op, struct tagrv_link *link,
		const struct tagrv_segment *seg)
{
	return link->xport->ops->put(link, seg->addr, seg->mem, seg->raddr,
				     seg->key, op->rndv->remote.key_len,
				     seg->len, &op->done);
}

static int write_move(struct tagrv_op *op)
{
	const struct tagrv_link *link = op->peer->lane->link;
	bool fenced = link->xport->attr.caps & TAGRV_XPORT_PUT_FENCED;

	if (tagrv_rndv_post_all(op, link->put_max, post))
		return -FI_EAGAIN;
	tagrv_list_remove(&op->link);
	/* Extra reference: send_done() may fail the lane and free the op. */
	op->rndv->inflight++;
	if (fenced && !op->status)
		send_done(op);
	if (!--op->rndv->inflight)
		end(op);
	return 0;
}

static const struct tagrv_proto_ops send_ops = {
	.name = "write",
	.move = write_move,
	.fail = tagrv_rndv_send_fail,
	.release = tagrv_rndv_release,
};

bool tagrv_rndv_write_early_fin(struct tagrv_op *op, int status)
{
	tagrv_assert_locked(op->engine->dom);
	if (!op->rndv->done_sent || !wants_fin(op))
		return false;
	op->rndv->early_fin = true;
	op->status = status;
	return true;
}

bool tagrv_rndv_write_start(struct tagrv_op *op)
{
	const struct tagrv_xport *xport = tagrv_peer_xport(op->peer);

	if (!(xport->attr.caps & TAGRV_XPORT_PUT))
		return false;
	if (tagrv_op_register(op, xport->dev, op->rndv->want, 0)) {
		tagrv_op_deregister(op);
		return false;
	}
	tagrv_op_set_state(op, TAGRV_OP_WRITING);
	op->ops = &send_ops;
	op->done.fn = put_done;
	op->lane = op->peer->lane;
	tagrv_op_count_moved_tx(op, TAGRV_PROTO_RNDV_WRITE);
	return true;
}
