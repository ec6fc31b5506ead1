/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by pieces, the receiver's half: each PIECE is registered, read and
 * acknowledged by itself. pipe.c draws the whole.
 */
#include <rdma/fi_errno.h>

#include "proto/packet/ack.h"
#include "proto/rndv/rndv_priv.h"

static const struct tagrv_proto_ops recv_ops = {
	.name = "pipeline",
	.move = tagrv_rndv_grant,
	.fail = tagrv_rndv_cts_fail,
};

bool tagrv_rndv_piece_begin(struct tagrv_op *op)
{
	if (!(tagrv_peer_xport(op->peer)->attr.caps & TAGRV_XPORT_GET))
		return false;
	tagrv_op_count_moved_rx(op, TAGRV_PROTO_RNDV_PIPE);
	op->rndv->by_pieces = true;
	tagrv_rndv_ask(op, &recv_ops, TAGRV_PROTO_RNDV_PIPE);
	return true;
}

static void piece_end(struct tagrv_op *piece)
{
	struct tagrv_op *op = piece->rndv->piece_of;
	struct tagrv_rndv *r = op->rndv;
	uint32_t handle = piece->rndv->remote.op;
	int status = piece->status;

	if (status)
		r->missing = TAGRV_MIN(r->missing, piece->rndv->offered);
	/* Deregisters, too, before the sender may reuse its part of the memory. */
	tagrv_rndv_piece_put(&op->engine->pools.pieces, piece);
	/* The piece is counted until now: the FIN may fail the lane, but while a
	 * piece is out that does not end the op. */
	if (tagrv_lane_is_of(op->lane, op->peer))
		tagrv_ack_fin(op->peer, handle, status);
	r->pieces--;
	tagrv_rndv_check_end(op);
}

static void piece_start(struct tagrv_op *op, const struct tagrv_remote *remote)
{
	struct tagrv_rndv *r = op->rndv;
	struct tagrv_op *piece = tagrv_rndv_piece_get(&op->engine->pools.pieces,
						      op, remote->len);
	int ret;

	if (!piece) {
		r->missing = TAGRV_MIN(r->missing, r->offered);
		r->offered += remote->len;
		tagrv_ack_fin(op->peer, remote->op, -FI_ENOMEM);
		return;
	}
	r->offered += remote->len;
	r->pieces++;
	piece->rndv->remote = *remote;
	tagrv_trace_piece(piece, op, op->peer, remote->op,
			  piece->rndv->offered, remote->len);
	tagrv_op_start(piece, TAGRV_OP_READING);
	ret = tagrv_op_register(piece, tagrv_peer_xport(op->peer)->dev,
				remote->len, TAGRV_MEM_STORE);
	if (!ret) {
		tagrv_rndv_read_start(piece, piece_end);
		return;
	}
	piece->status = ret == -FI_EFAULT ? ret : -FI_ENOMEM;
	piece_end(piece);
}

void tagrv_rndv_piece_packet(struct tagrv_peer *peer,
			     const struct tagrv_hdr *hdr, const void *body,
			     size_t len)
{
	struct tagrv_op *op = tagrv_rndv_find_recv(peer, hdr->op);
	struct tagrv_remote remote;
	uint8_t none;

	tagrv_assert_locked(peer->engine->dom);
	if (!op || !op->rndv->by_pieces || hdr->data != op->rndv->offered ||
	    op->rndv->pieces >= op->engine->dom->params.read_depth ||
	    !tagrv_rndv_parse_cts(&remote, &none,
				  op->rndv->middle - op->rndv->offered, body,
				  len) ||
	    !remote.seg_cnt) {
		tagrv_peer_bad_packet(peer, "piece that was not asked for");
		return;
	}
	piece_start(op, &remote);
}
