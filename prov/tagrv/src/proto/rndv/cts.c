/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous where the sender moves the bytes, the receiver's half: asking for
 * them by a CTS, granting fragments, and the end.
 *
 *   receiver                                  sender (answer.c)
 *   CTS, on peer->to_grant                    ANNOUNCED
 *            --- CTS(handle, want, keys) --->   WRITING, write.c
 *         or --- CTS(handle, want, n) ------>   COPYING, copy.c
 *         or --- CTS(handle, want, pieces) ->   OFFERING, pipe.c
 *   on peer->granted
 *            <-- FRAG: all are here ---------
 *   end      --- FIN ---------------------->   end
 *         or <-- DONE -----------------------  end
 *   end
 *
 * Granted fragments will fill packet buffers, which all peers of an endpoint may
 * share: one message may be granted copy_depth fragments at a time, and all
 * messages together BUDGET times as many. A peer to which nothing is granted gets
 * one fragment in any case, so that peers that sleep on their grants keep no other
 * peer waiting.
 *
 * The handle in a CTS has a pool of its own: it names a receive only as long as
 * its sender may do something to it. A packet with another handle ends the
 * connection.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "proto/packet/ack.h"
#include "proto/rndv/rndv_priv.h"

#define BUDGET	8u

struct cts_body {
	struct tagrv_cts cts;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};
static_assert(sizeof(struct cts_body) + sizeof(struct tagrv_hdr) ==
	      TAGRV_RTS_MAX, "no holes in a CTS");

/* ---- asking and granting ---- */

/* How many more fragments the sender of this message may send now. */
static uint32_t more_frags(const struct tagrv_op *op)
{
	const struct tagrv_engine *engine = op->engine;
	const struct tagrv_rndv *r = op->rndv;
	uint32_t depth = (uint32_t) engine->dom->params.copy_depth;
	size_t frag = op->peer->frag_max;
	size_t left = (r->want - r->granted + frag - 1) / frag;
	uint32_t n = 0;

	if (engine->credit.frags < depth * BUDGET)
		n = TAGRV_MIN(depth - r->inflight,
			      depth * BUDGET - engine->credit.frags);
	if (!n && !op->peer->frags)
		n = 1;
	return (uint32_t) TAGRV_MIN(left, (size_t) n);
}

static int send_cts(struct tagrv_op *op, size_t granted)
{
	struct tagrv_rndv *r = op->rndv;
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_CTS,
		.op = r->remote.op,
		.data = r->by_pieces ? r->middle : granted,
	};
	struct cts_body body;
	size_t cnt = 0;

	memset(&body, 0, sizeof(body));
	body.cts.want = htole64(r->want);
	body.cts.op = htole32(r->xfer->node.handle);
	if (r->by_write)
		cnt = tagrv_rndv_pack_segments(op, r->want, body.seg,
					       &body.cts.key_len);
	body.cts.seg_cnt = (uint8_t) cnt;
	if (r->by_pieces)
		body.cts.pieces = (uint8_t) op->engine->dom->params.read_depth;
	return tagrv_control_send(op->peer, &hdr, &body,
				  offsetof(struct cts_body, seg[cnt]));
}

static int send_grant(struct tagrv_op *op, size_t granted)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_GRANT,
		.op = op->rndv->remote.op,
		.data = granted,
	};

	return tagrv_control_send(op->peer, &hdr, NULL, 0);
}

int tagrv_rndv_grant(struct tagrv_op *op)
{
	struct tagrv_rndv *r = op->rndv;
	struct tagrv_peer *peer = op->peer;
	uint32_t n = r->by_write ? 0 : more_frags(op);
	bool pieces_cts = r->by_pieces && !r->cts_sent;
	size_t granted = TAGRV_MIN(r->want, r->granted + n * peer->frag_max);
	int ret;

	if (!n && !r->by_write && !pieces_cts)
		return -FI_EAGAIN;
	/* By pieces, the granted bytes are the message's tail. */
	if (pieces_cts)
		r->middle = r->next = r->want - (granted - r->granted);
	ret = r->cts_sent ? send_grant(op, granted) : send_cts(op, granted);
	if (ret)
		return ret;
	if (!r->granted && n && !r->by_pieces)
		tagrv_op_count_moved_rx(op, TAGRV_PROTO_RNDV_COPY);
	r->cts_sent = true;
	r->granted = pieces_cts ? r->want : granted;
	r->inflight += n;
	peer->frags += n;
	op->engine->credit.frags += n;
	tagrv_list_remove(&op->link);
	tagrv_list_push_tail(&peer->granted, &op->link);
	return 0;
}

static void want_grant(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	tagrv_list_remove(&op->link);
	tagrv_list_push_tail(&peer->to_grant, &op->link);
	if (peer->state != TAGRV_PEER_READY ||
	    op->link.prev != &peer->to_grant ||
	    tagrv_rndv_grant(op) == -FI_EAGAIN)
		tagrv_peer_set_busy(peer);
}

void tagrv_rndv_ask(struct tagrv_op *op, const struct tagrv_proto_ops *ops,
		    enum tagrv_proto proto)
{
	struct tagrv_xfer *xfer = tagrv_pool_get(&op->engine->pools.xfers);
	struct tagrv_rndv *r = op->rndv;

	if (!xfer) {
		op->status = -FI_ENOMEM;
		tagrv_rndv_recv_end(op);
		return;
	}
	xfer->op = op;
	tagrv_trace_rndv_start(op, op->peer, r->remote.op, xfer->node.handle,
			       proto, r->want);
	tagrv_op_set_state(op, TAGRV_OP_CTS);
	op->ops = ops;
	r->xfer = xfer;
	r->middle = r->want;
	r->granted = r->by_pieces ? r->offered : 0;
	want_grant(op);
}

/* ---- the end ---- */

/* So many of the granted fragments are here, or will never be. */
static void return_frags(struct tagrv_op *op, uint32_t n)
{
	op->rndv->inflight -= n;
	op->peer->frags -= n;
	op->engine->credit.frags -= n;
}

/* The sender may do no more to the receive, which is on no list from here on. */
static void close_xfer(struct tagrv_op *op)
{
	tagrv_list_remove(&op->link);
	return_frags(op, op->rndv->inflight);
	tagrv_pool_put(&op->engine->pools.xfers, op->rndv->xfer);
}

void tagrv_rndv_recv_abort(struct tagrv_op *op, int status)
{
	tagrv_assert_locked(op->engine->dom);
	op->status = status;
	close_xfer(op);
	tagrv_rndv_recv_end_silent(op);
}

static bool has_all(const struct tagrv_op *op)
{
	const struct tagrv_rndv *r = op->rndv;

	return r->next == r->want &&
	       (!r->by_pieces || (r->offered == r->middle && !r->pieces &&
				  r->missing == TAGRV_NO_PIECE));
}

void tagrv_rndv_check_end(struct tagrv_op *op)
{
	if (tagrv_lane_is_of(op->lane, op->peer)) {
		if (!has_all(op))
			return;
		close_xfer(op);
		tagrv_rndv_recv_end(op);
	} else if (!op->rndv->pieces && !tagrv_list_linked(&op->link)) {
		tagrv_rndv_recv_abort(op, op->status);
	}
}

/*
 * Where the peer may still write, the end of the link ends the receive; where
 * pieces of it are being read, the end of the last one does.
 */
void tagrv_rndv_cts_fail(struct tagrv_op *op, int status)
{
	const struct tagrv_rndv *r = op->rndv;

	if (r->by_write && r->cts_sent)
		tagrv_list_push_tail(&op->lane->exposed, &op->link);
	else if (r->pieces)
		op->status = status;
	else
		tagrv_rndv_recv_abort(op, status);
}

/* ---- packets of the sender ---- */

struct tagrv_op *tagrv_rndv_find_recv(struct tagrv_peer *peer, uint32_t handle)
{
	struct tagrv_xfer *xfer = tagrv_pool_find(&peer->engine->pools.xfers,
						  handle);

	return xfer && xfer->op->peer == peer && xfer->op->rndv->cts_sent ?
	       xfer->op : NULL;
}

/* An empty fragment says where the sender cannot go on by writes or pieces. All
 * that it has begun has ended then. */
static bool is_gap(const struct tagrv_op *op, uint64_t offset)
{
	const struct tagrv_rndv *r = op->rndv;

	if (!r->by_pieces)
		return r->by_write && !offset;
	return !r->pieces && r->next == r->want &&
	       TAGRV_MIN(r->missing, r->offered) < r->middle &&
	       offset == tagrv_rndv_gap(op);
}

/* The sender will use the keys no more and offer no more pieces. */
static void switch_to_copies(struct tagrv_op *op, size_t from)
{
	struct tagrv_rndv *r = op->rndv;

	r->by_write = false;
	tagrv_op_deregister(op);
	r->next = r->granted = from;
	r->offered = r->middle;
	r->missing = TAGRV_NO_PIECE;
	want_grant(op);
}

/*
 * A link is in order, so a fragment begins where the one before it ended, and it
 * is full unless it is the last.
 */
static bool is_next(const struct tagrv_op *op, uint64_t offset, size_t len)
{
	const struct tagrv_rndv *r = op->rndv;

	return !r->by_write && offset == r->next && r->next < r->granted &&
	       len == TAGRV_MIN(op->peer->frag_max, r->want - r->next);
}

static void store_frag(struct tagrv_op *op, const void *payload, size_t len)
{
	struct iovec iov[TAGRV_IOV_MAX];
	size_t cnt = tagrv_iov_slice(iov, op->iov, op->iov_cnt,
				     op->rndv->next, len);

	tagrv_iov_scatter(iov, cnt, payload, len);
	op->rndv->next += len;
}

void tagrv_rndv_frag_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr, const void *payload,
			    size_t len)
{
	struct tagrv_op *op = tagrv_rndv_find_recv(peer, hdr->op);
	uint32_t depth = (uint32_t) peer->engine->dom->params.copy_depth;

	tagrv_assert_locked(peer->engine->dom);
	if (op && !len && is_gap(op, hdr->data)) {
		switch_to_copies(op, hdr->data);
		return;
	}
	if (!op || !is_next(op, hdr->data, len)) {
		tagrv_peer_bad_packet(peer, "fragment that was not asked for");
		return;
	}
	store_frag(op, payload, len);
	return_frags(op, 1);
	if (has_all(op)) {
		close_xfer(op);
		tagrv_rndv_recv_end(op);
	} else if (op->rndv->granted < op->rndv->want &&
		   op->rndv->inflight <= depth / 2) {
		want_grant(op);
	}
}

void tagrv_rndv_done_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr, const void *body,
			    size_t len)
{
	struct tagrv_op *op = tagrv_rndv_find_recv(peer, hdr->op);

	tagrv_assert_locked(peer->engine->dom);
	(void) body;
	(void) len;
	if (!op || op->rndv->pieces || (!hdr->data && !op->rndv->by_write)) {
		tagrv_peer_bad_packet(peer, "end of what did not begin");
		return;
	}
	if (!hdr->data)
		tagrv_op_count_moved_rx(op, TAGRV_PROTO_RNDV_WRITE);
	op->status = tagrv_status_unpack(hdr->data);
	close_xfer(op);
	if (hdr->flags & TAGRV_PKT_ACK_DELIVERY)
		tagrv_rndv_recv_end(op);
	else
		tagrv_rndv_recv_end_silent(op);
}
