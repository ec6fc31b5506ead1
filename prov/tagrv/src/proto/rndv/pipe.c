/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by pieces, a pipeline of registrations and reads: for long buffers
 * that are not registered, or cannot be at once. This is the sender's half.
 *
 *   0        head                   middle                  tail      want
 *   |-- in the RTS --|-- piece --|-- piece --| ... |-- copied in FRAGs --|
 *
 *   sender                                    receiver (piece.c)
 *   QUEUED    -- RTS(head) --------------->   matched: the head is in place
 *   ANNOUNCED                                 CTS
 *            <-- CTS(handle, want, middle, n)   n pieces at a time
 *   OFFERING  -- FRAG(tail) -------------->     copied into place
 *     register
 *             -- PIECE(offset, keys) ----->     register
 *     register                                  READING, for each piece
 *             -- PIECE(offset, keys) ----->     register
 *            <=== remote reads ============
 *            <-- FIN(piece, status) -------     deregister
 *     deregister; register the next one
 *   FIN_WAIT
 *   end      <-- FIN(status) --------------   end
 *
 *   One side cannot register a piece: when all pieces that are out have ended, the
 *   rest is copied, from the first piece that is missing on:
 *   COPYING   -- FRAG(offset, empty) ----->   CTS, as in copy.c
 *            <-- GRANT(n) -----------------
 *
 * A piece is registered just before it is moved, so one side registers the next
 * ones while those before are read, and no more than read_depth pieces of
 * read_segment bytes are registered at a time. The tail is on its way while both
 * sides register their first pieces.
 *
 * To the receiver a piece is a message of its own that is read (read.c), and
 * to the sender one that is announced: its FIN ends it. The sender alone decides
 * how the message goes on; the receiver says of each piece whether it has it:
 * FI_ENOMEM asks for copies, any other status is the end of the send.
 *
 * The head costs credit like an eager message of its size; without credit there is
 * none. A receiver that chooses another protocol has no use for a head that is not
 * all it wants.
 *
 * Layouts: docs/wire_protocol.md section 1.8.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "proto/packet/packet_send.h"
#include "proto/rndv/rndv_priv.h"

struct piece_packet {
	uint64_t words[TAGRV_SHORT_WORDS];
	struct tagrv_cts cts;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};
static_assert(sizeof(struct piece_packet) == TAGRV_RTS_MAX,
	      "no holes in a PIECE");

size_t tagrv_rndv_head(const struct tagrv_op *op)
{
	const struct tagrv_peer *peer = op->peer;
	size_t len = TAGRV_MIN(peer->packet_limit,
			       peer->frag_max - sizeof(struct tagrv_rts));

	len = TAGRV_MIN(len, op->len);
	return tagrv_credit_units(len) <= peer->credit.left ? len : 0;
}

static void piece_free(struct tagrv_op *piece)
{
	tagrv_list_remove(&piece->link);
	tagrv_rndv_piece_put(&piece->engine->pools.tx_ops, piece);
}

static void drop_pieces(struct tagrv_op *op)
{
	struct tagrv_rndv *r = op->rndv;
	struct tagrv_list *node;

	while ((node = tagrv_list_first(&r->parts)))
		piece_free(tagrv_container_of(node, struct tagrv_op, link));
	r->ready = NULL;
	r->pieces = 0;
}

/* ---- offering pieces ---- */

/* Registers the next piece. A receiver may want pieces that peers here cannot read. */
static int make_ready(struct tagrv_op *op)
{
	const struct tagrv_xport *xport = tagrv_peer_xport(op->peer);
	struct tagrv_rndv *r = op->rndv;
	size_t len = TAGRV_MIN(r->middle - r->offered,
			       op->engine->dom->params.read_segment);
	struct tagrv_op *piece;
	int ret;

	if (!(xport->attr.admits & TAGRV_MEM_READ))
		return -FI_EOPNOTSUPP;
	piece = tagrv_rndv_piece_get(&op->engine->pools.tx_ops, op, len);
	if (!piece)
		return -FI_ENOMEM;
	tagrv_op_start(piece, TAGRV_OP_PIECE_READY);
	tagrv_trace_piece(piece, op, op->peer, piece->node.handle, r->offered,
			  len);
	tagrv_list_push_tail(&r->parts, &piece->link);
	ret = tagrv_op_register(piece, xport->dev, len, TAGRV_MEM_READ);
	if (ret)
		piece_free(piece);
	else
		r->ready = piece;
	return ret;
}

static int send_ready(struct tagrv_op *op)
{
	struct tagrv_rndv *r = op->rndv;
	struct tagrv_op *piece = r->ready;
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_PIECE,
		.op = r->remote.op,
		.data = piece->rndv->offered,
	};
	struct piece_packet pkt;
	struct iovec iov = { &pkt, 0 };
	int ret;

	memset(&pkt, 0, sizeof(pkt));
	pkt.cts.want = htole64(piece->rndv->want);
	pkt.cts.op = htole32(piece->node.handle);
	pkt.cts.seg_cnt = (uint8_t) tagrv_rndv_pack_segments(
		piece, piece->rndv->want, pkt.seg, &pkt.cts.key_len);
	iov.iov_len = offsetof(struct piece_packet, seg[pkt.cts.seg_cnt]);
	ret = tagrv_packet_send(op->peer, &hdr, &iov, 1,
				iov.iov_len - sizeof(hdr), 0, NULL);
	if (ret)
		return ret;
	tagrv_op_set_state(piece, TAGRV_OP_PIECE);
	r->offered += piece->rndv->want;
	r->pieces++;
	r->ready = NULL;
	return 0;
}

/* 1: not before other pieces have ended, or not at all. */
static int offer(struct tagrv_op *op)
{
	int ret = op->rndv->ready ? 0 : make_ready(op);

	if (!ret)
		return send_ready(op);
	if (ret == -FI_EFAULT)
		return ret;
	/* The end of pieces that are out gives back what they hold. */
	if (!op->rndv->pieces)
		op->rndv->missing = op->rndv->offered;
	return 1;
}

static bool may_offer(const struct tagrv_op *op)
{
	const struct tagrv_rndv *r = op->rndv;

	return r->offered < r->middle && r->pieces < r->depth &&
	       r->missing == TAGRV_NO_PIECE && !op->status;
}

/* The tail first, then pieces. */
static int send_all(struct tagrv_op *op)
{
	struct tagrv_rndv *r = op->rndv;
	size_t max = op->peer->frag_max;
	int ret = 0;

	while (!ret && r->next < r->want)
		ret = tagrv_rndv_send_frag(op, TAGRV_MIN(max,
							 r->want - r->next));
	while (!ret && may_offer(op))
		ret = offer(op);
	return ret;
}

static int copy_rest(struct tagrv_op *op)
{
	size_t gap = tagrv_rndv_gap(op);

	drop_pieces(op);
	tagrv_rndv_copy_rest(op, gap);
	return tagrv_rndv_copy(op);
}

static int pipe_move(struct tagrv_op *op)
{
	struct tagrv_rndv *r = op->rndv;
	int ret = send_all(op);

	if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
		return -FI_EAGAIN;
	if (ret < 0 && !op->status)
		op->status = ret;
	if (!r->pieces && !op->status && r->missing != TAGRV_NO_PIECE)
		return copy_rest(op);
	tagrv_list_remove(&op->link);
	if (!r->pieces && op->status) {
		tagrv_rndv_send_quit(op, op->status);
		return 0;
	}
	if (!r->pieces)
		tagrv_op_set_state(op, TAGRV_OP_FIN_WAIT);
	tagrv_list_push_tail(&op->peer->waiting, &op->link);
	return 0;
}

static void pipe_release(struct tagrv_op *op)
{
	drop_pieces(op);
	tagrv_rndv_release(op);
}

static const struct tagrv_proto_ops send_ops = {
	.name = "pipeline",
	.move = pipe_move,
	.fail = tagrv_rndv_send_fail,
	.release = pipe_release,
};

bool tagrv_rndv_pipe_start(struct tagrv_op *op, uint64_t middle)
{
	struct tagrv_rndv *r = op->rndv;

	if (middle < r->offered || middle > r->want)
		return false;
	/* The peer will not read it at once. */
	tagrv_op_deregister(op);
	tagrv_op_set_state(op, TAGRV_OP_OFFERING);
	op->ops = &send_ops;
	r->middle = r->next = middle;
	tagrv_list_init(&r->parts);
	tagrv_op_count_moved_tx(op, TAGRV_PROTO_RNDV_PIPE);
	return true;
}

/* ---- FINs of pieces ---- */

/* The receiver has, or had, all of the message: its FIN may be right behind. */
static bool is_all_out(const struct tagrv_op *op)
{
	const struct tagrv_rndv *r = op->rndv;

	return !r->pieces && !op->status && r->next == r->want &&
	       r->offered == r->middle && r->missing == TAGRV_NO_PIECE;
}

void tagrv_rndv_piece_fin(struct tagrv_op *piece, int status)
{
	struct tagrv_op *op = piece->rndv->piece_of;
	struct tagrv_rndv *r = op->rndv;

	tagrv_assert_locked(piece->engine->dom);
	if (status == -FI_ENOMEM)
		r->missing = TAGRV_MIN(r->missing, piece->rndv->offered);
	else if (status && !op->status)
		op->status = status;
	piece_free(piece);
	r->pieces--;
	/* With nothing left to send, the op does not queue behind others. */
	if (is_all_out(op))
		pipe_move(op);
	else
		tagrv_rndv_resume(op);
}
