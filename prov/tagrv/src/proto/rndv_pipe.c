/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by pieces, a pipeline of registrations and reads: for long buffers
 * that are not registered, or cannot be at once.
 *
 *   0        head                   middle                  tail      want
 *   |-- in the RTS --|-- piece --|-- piece --| ... |-- copied in FRAGs --|
 *
 *   sender                                    receiver
 *   QUEUED    -- RTS(head) --------------->   matched: the head is in place
 *   ANNOUNCED                                 TAKING
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
 *   rest is copied, from the first one that is missing on:
 *   COPYING   -- FRAG(offset, empty) ----->   TAKING, as in rndv_copy.c
 *            <-- GRANT(n) -----------------
 *
 * A piece is registered just before it is moved, so one side registers the next
 * ones while those before are read, and no more than read_depth pieces of
 * read_segment bytes are registered at a time. The tail is on its way while both
 * sides register their first pieces.
 *
 * To the receiver a piece is a message of its own that is got (rndv_read.c), and to
 * the sender one that is announced: its FIN ends it. The sender alone decides how it
 * goes on; the receiver says of each piece whether it has it: FI_ENOMEM asks for
 * copies, any other status is the end of the send.
 *
 * The head costs credit like an eager message of its size; without credit there is
 * none. A receiver that does it in another way has no use for a head that is not
 * all it wants.
 *
 * Layouts: docs/wire_protocol.md section 1.8.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

struct piece_packet {
	uint64_t hdr[TAGRV_SHORT_WORDS];
	struct tagrv_cts cts;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};
static_assert(sizeof(struct piece_packet) == TAGRV_RTS_MAX,
	      "no holes in a PIECE");

/* ---- both sides ---- */

/* The part of the op's buffer that a piece is, with what is registered of it. */
static void cut(struct tagrv_op *piece, const struct tagrv_op *op)
{
	size_t skip = piece->offered, len = piece->want;

	piece->iov_cnt = 0;
	for (unsigned i = 0; i < op->iov_cnt && len; i++) {
		size_t n = op->iov[i].iov_len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		n = TAGRV_MIN(n - skip, len);
		piece->mem[piece->iov_cnt] = op->mem[i];
		piece->iov[piece->iov_cnt++] = (struct iovec) {
			(char *) op->iov[i].iov_base + skip, n,
		};
		skip = 0;
		len -= n;
	}
}

/* The next len bytes of the middle. NULL: there are too many operations. */
static struct tagrv_op *piece_get(struct tagrv_pool *pool,
				  const struct tagrv_op *op, size_t len)
{
	struct tagrv_op *piece = tagrv_pool_get(pool);

	if (!piece)
		return NULL;
	piece->own_mem = 0;
	piece->engine = op->engine;
	piece->peer = op->peer;
	piece->lane = op->peer->lane;
	piece->status = 0;
	piece->offered = op->offered;
	piece->want = len;
	piece->next = 0;
	piece->inflight = 0;
	tagrv_list_init(&piece->link);
	cut(piece, op);
	return piece;
}

/* Whole fragments lie before it: what is granted from there on is counted so. */
size_t tagrv_rndv_gap(const struct tagrv_op *op)
{
	size_t gap = TAGRV_MIN(op->missing, op->offered);

	return gap - gap % op->peer->frag_max;
}

/* ---- sender ---- */

size_t tagrv_rndv_head(const struct tagrv_op *op)
{
	const struct tagrv_peer *peer = op->peer;
	size_t len = TAGRV_MIN(peer->packet_limit,
			       peer->frag_max - sizeof(struct tagrv_rts));

	len = TAGRV_MIN(len, op->len);
	return tagrv_credit_units(len) <= peer->credit.left ? len : 0;
}

bool tagrv_rndv_pipe_start(struct tagrv_op *op, uint64_t middle)
{
	if (middle < op->offered || middle > op->want)
		return false;
	/* Nobody will read it at once. */
	tagrv_op_deregister(op);
	op->state = TAGRV_OP_OFFERING;
	op->middle = op->next = middle;
	op->pieces = 0;
	op->missing = TAGRV_NO_PIECE;
	op->ready = NULL;
	tagrv_list_init(&op->parts);
	op->engine->stats.moved_tx[TAGRV_PROTO_RNDV_PIPE]++;
	return true;
}

static void piece_free(struct tagrv_op *piece)
{
	tagrv_list_remove(&piece->link);
	tagrv_op_deregister(piece);
	tagrv_pool_put(&piece->engine->tx_ops, piece);
}

void tagrv_rndv_drop_pieces(struct tagrv_op *op)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_first(&op->parts)))
		piece_free(tagrv_container_of(node, struct tagrv_op, link));
	op->ready = NULL;
	op->pieces = 0;
}

static int make_ready(struct tagrv_op *op)
{
	size_t len = TAGRV_MIN(op->middle - op->offered,
			       op->engine->dom->params.read_segment);
	struct tagrv_op *piece = piece_get(&op->engine->tx_ops, op, len);
	int ret;

	if (!piece)
		return -FI_ENOMEM;
	piece->state = TAGRV_OP_QUEUED;
	piece->piece_of = op;
	tagrv_list_push_tail(&op->parts, &piece->link);
	ret = tagrv_op_register(piece, op->peer->lane->link->xport->dev, len,
				TAGRV_MEM_READ);
	if (ret)
		piece_free(piece);
	else
		op->ready = piece;
	return ret;
}

static int send_ready(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	struct tagrv_link *link = peer->lane->link;
	struct tagrv_op *piece = op->ready;
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_PIECE,
		.op = op->remote.op,
		.credit = tagrv_credit_offer(&peer->credit),
		.data = piece->offered,
	};
	struct piece_packet pkt;
	struct iovec iov = { &pkt, 0 };
	int ret;

	memset(&pkt, 0, sizeof(pkt));
	tagrv_hdr_pack(pkt.hdr, &hdr);
	pkt.cts.want = htole64(piece->want);
	pkt.cts.op = htole32(piece->node.handle);
	pkt.cts.seg_cnt = (uint8_t) tagrv_rndv_fill(piece, piece->want, pkt.seg,
						    &pkt.cts.key_len);
	iov.iov_len = offsetof(struct piece_packet, seg[pkt.cts.seg_cnt]);
	ret = link->xport->ops->send(link, &iov, 1, 0, NULL);
	if (ret)
		return ret;
	tagrv_credit_gave(&peer->credit, hdr.credit);
	piece->state = TAGRV_OP_PIECE;
	op->offered += piece->want;
	op->pieces++;
	op->ready = NULL;
	return 0;
}

/* 1: not before others have ended, or not at all. */
static int offer(struct tagrv_op *op)
{
	int ret = op->ready ? 0 : make_ready(op);

	if (!ret)
		return send_ready(op);
	if (ret == -FI_EFAULT)
		return ret;
	/* Those that are out give back what they hold. */
	if (!op->pieces)
		op->missing = op->offered;
	return 1;
}

static bool may_offer(const struct tagrv_op *op)
{
	return op->offered < op->middle && op->pieces < op->depth &&
	       op->missing == TAGRV_NO_PIECE && !op->status;
}

static int send_all(struct tagrv_op *op)
{
	size_t max = op->peer->frag_max;
	int ret = 0;

	while (!ret && op->next < op->want)
		ret = tagrv_rndv_send_frag(op, TAGRV_MIN(max,
							 op->want - op->next));
	while (!ret && may_offer(op))
		ret = offer(op);
	return ret;
}

static int copy_rest(struct tagrv_op *op)
{
	op->next = op->granted = tagrv_rndv_gap(op);
	op->asks = true;
	tagrv_rndv_drop_pieces(op);
	op->state = TAGRV_OP_COPYING;
	return tagrv_rndv_copy(op);
}

int tagrv_rndv_pipe(struct tagrv_op *op)
{
	int ret = send_all(op);

	if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
		return -FI_EAGAIN;
	if (ret < 0 && !op->status)
		op->status = ret;
	if (!op->pieces && !op->status && op->missing != TAGRV_NO_PIECE)
		return copy_rest(op);
	tagrv_list_remove(&op->link);
	if (!op->pieces && op->status) {
		/* The receiver waits for the rest. */
		tagrv_peer_done(op->peer, op->remote.op, 0, op->status);
		tagrv_op_send_end(op, op->status);
		return 0;
	}
	if (!op->pieces)
		op->state = TAGRV_OP_FIN_WAIT;
	tagrv_list_push_tail(&op->peer->waiting, &op->link);
	return 0;
}

/* The receiver has or had all of it: its FIN may be right behind. */
static bool is_all_out(const struct tagrv_op *op)
{
	return !op->pieces && !op->status && op->next == op->want &&
	       op->offered == op->middle && op->missing == TAGRV_NO_PIECE;
}

void tagrv_rndv_piece_fin(struct tagrv_op *piece, int status)
{
	struct tagrv_op *op = piece->piece_of;

	if (status == -FI_ENOMEM)
		op->missing = TAGRV_MIN(op->missing, piece->offered);
	else if (status && !op->status)
		op->status = status;
	piece_free(piece);
	op->pieces--;
	/* With nothing left to send it does not wait for those who have. */
	if (is_all_out(op))
		tagrv_rndv_pipe(op);
	else
		tagrv_rndv_go_on(op);
}

/* ---- receiver ---- */

void tagrv_rndv_piece_end(struct tagrv_op *piece)
{
	struct tagrv_op *op = piece->piece_of;
	uint32_t handle = piece->remote.op;
	int status = piece->status;

	if (status)
		op->missing = TAGRV_MIN(op->missing, piece->offered);
	/* Before the sender may reuse its part of the memory. */
	tagrv_op_deregister(piece);
	tagrv_pool_put(&op->engine->pieces, piece);
	/* Counted until then: the lane may die of the FIN, but not the op. */
	if (op->peer->lane && op->peer->lane == op->lane)
		tagrv_peer_fin(op->peer, handle, status);
	op->pieces--;
	tagrv_rndv_taken(op);
}

static void piece_start(struct tagrv_op *op, const struct tagrv_remote *remote)
{
	struct tagrv_op *piece = piece_get(&op->engine->pieces, op, remote->len);
	int ret;

	if (!piece) {
		op->missing = TAGRV_MIN(op->missing, op->offered);
		op->offered += remote->len;
		tagrv_peer_fin(op->peer, remote->op, -FI_ENOMEM);
		return;
	}
	op->offered += remote->len;
	op->pieces++;
	piece->piece_of = op;
	piece->remote = *remote;
	ret = tagrv_op_register(piece, op->peer->lane->link->xport->dev,
				remote->len, 0);
	if (!ret) {
		tagrv_rndv_read_start(piece);
		return;
	}
	piece->status = ret == -FI_EFAULT ? ret : -FI_ENOMEM;
	tagrv_rndv_piece_end(piece);
}

void tagrv_rndv_piece_packet(struct tagrv_peer *peer,
			     const struct tagrv_hdr *hdr, const void *body,
			     size_t len)
{
	struct tagrv_op *op = tagrv_rndv_find_taker(peer, hdr->op);
	struct tagrv_remote remote;
	uint8_t none;

	if (!op || !op->piped || hdr->data != op->offered ||
	    op->pieces >= op->engine->dom->params.read_depth ||
	    !tagrv_rndv_parse_cts(&remote, &none, op->middle - op->offered,
				  body, len) ||
	    !remote.seg_cnt) {
		tagrv_engine_bad_packet(peer, "piece nobody asked for");
		return;
	}
	piece_start(op, &remote);
}
