/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous where the sender moves the bytes: asking for it, and its end.
 *
 *   receiver                                  sender
 *   TAKING, on peer->grants                   ANNOUNCED
 *            --- CTS(handle, want, keys) --->   WRITING, rndv_write.c
 *         or --- CTS(handle, want, n) ------>   COPYING, rndv_copy.c
 *         or --- CTS(handle, want, pieces) ->   OFFERING, rndv_pipe.c
 *   on peer->takers
 *            <-- FRAG: all are here ---------
 *   end      --- FIN ---------------------->   end
 *         or <-- DONE -----------------------  end
 *   end
 *
 * What is granted will fill packet buffers, which all peers of an endpoint may
 * share: copy_depth fragments for one message and BUDGET times as many for all.
 * A peer to which nothing is granted gets one fragment in any case: peers that
 * sleep on their grants keep nobody else waiting.
 *
 * The handle in a CTS has a pool of its own: it names a receive only as long as
 * its sender may do something to it. Whatever else comes ends the connection.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

#define BUDGET	8u

struct cts_packet {
	struct tagrv_cts cts;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};
static_assert(sizeof(struct cts_packet) + sizeof(struct tagrv_hdr) ==
	      TAGRV_RTS_MAX, "no holes in a CTS");

/* ---- receiver ---- */

/* How many more fragments the sender of this message may send now. */
static uint32_t more_frags(const struct tagrv_op *op)
{
	const struct tagrv_engine *engine = op->engine;
	uint32_t depth = (uint32_t) engine->dom->params.copy_depth;
	size_t frag = op->peer->frag_max;
	size_t left = (op->want - op->granted + frag - 1) / frag;
	uint32_t n = 0;

	if (engine->frags < depth * BUDGET)
		n = TAGRV_MIN(depth - op->inflight,
			      depth * BUDGET - engine->frags);
	if (!n && !op->peer->frags)
		n = 1;
	return (uint32_t) TAGRV_MIN(left, (size_t) n);
}

static int send_cts(struct tagrv_op *op, size_t granted)
{
	struct tagrv_hdr hdr = {
		.opcode = op->told ? TAGRV_PKT_GRANT : TAGRV_PKT_CTS,
		.op = op->remote.op,
		.data = op->piped && !op->told ? op->middle : granted,
	};
	struct cts_packet body;
	size_t cnt = 0;

	if (op->told)
		return tagrv_peer_control(op->peer, &hdr, NULL, 0);
	memset(&body, 0, sizeof(body));
	body.cts.want = htole64(op->want);
	body.cts.op = htole32(op->xfer->node.handle);
	if (op->keys)
		cnt = tagrv_rndv_fill(op, op->want, body.seg,
				      &body.cts.key_len);
	body.cts.seg_cnt = (uint8_t) cnt;
	if (op->piped)
		body.cts.pieces = (uint8_t) op->engine->dom->params.read_depth;
	return tagrv_peer_control(op->peer, &hdr, &body,
				  offsetof(struct cts_packet, seg[cnt]));
}

int tagrv_rndv_grant(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	uint32_t n = op->keys ? 0 : more_frags(op);
	bool piped = op->piped && !op->told;
	size_t granted = op->granted + n * peer->frag_max;
	int ret;

	if (!n && !op->keys && !piped)
		return -FI_EAGAIN;
	granted = TAGRV_MIN(op->want, granted);
	/* So much, but of the end. */
	if (piped)
		op->middle = op->next = op->want - (granted - op->granted);
	ret = send_cts(op, granted);
	if (ret)
		return ret;
	if (!op->granted && n && !op->piped)
		op->engine->stats.moved_rx[TAGRV_PROTO_RNDV_COPY]++;
	op->told = true;
	op->granted = piped ? op->want : granted;
	op->inflight += n;
	peer->frags += n;
	op->engine->frags += n;
	tagrv_list_remove(&op->link);
	tagrv_list_push_tail(&peer->takers, &op->link);
	return 0;
}

static void want_grant(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	tagrv_list_remove(&op->link);
	tagrv_list_push_tail(&peer->grants, &op->link);
	if (peer->state != TAGRV_PEER_READY ||
	    op->link.prev != &peer->grants || tagrv_rndv_grant(op) == -FI_EAGAIN)
		tagrv_peer_set_busy(peer);
}

void tagrv_rndv_ask(struct tagrv_op *op, enum tagrv_proto way)
{
	struct tagrv_xfer *xfer = tagrv_pool_get(&op->engine->xfers);

	if (!xfer) {
		op->status = -FI_ENOMEM;
		tagrv_rndv_recv_end(op);
		return;
	}
	xfer->op = op;
	op->xfer = xfer;
	op->state = TAGRV_OP_TAKING;
	op->keys = way == TAGRV_PROTO_RNDV_WRITE;
	op->piped = way == TAGRV_PROTO_RNDV_PIPE;
	op->told = false;
	op->pieces = 0;
	op->middle = op->want;
	op->missing = TAGRV_NO_PIECE;
	op->granted = op->piped ? op->offered : 0;
	want_grant(op);
}

/* So many of its fragments are here, or will never be. */
static void frags_back(struct tagrv_op *op, uint32_t n)
{
	op->inflight -= n;
	op->peer->frags -= n;
	op->engine->frags -= n;
}

/* Takes it off its list; what it could get is free for others. */
static void take_over(struct tagrv_op *op)
{
	tagrv_list_remove(&op->link);
	frags_back(op, op->inflight);
	tagrv_pool_put(&op->engine->xfers, op->xfer);
}

void tagrv_rndv_take_end(struct tagrv_op *op, int status)
{
	take_over(op);
	tagrv_op_recv_end(op, status);
}

static bool has_all(const struct tagrv_op *op)
{
	return op->next == op->want &&
	       (!op->piped || (op->offered == op->middle && !op->pieces &&
			       op->missing == TAGRV_NO_PIECE));
}

void tagrv_rndv_taken(struct tagrv_op *op)
{
	if (op->peer->lane && op->peer->lane == op->lane) {
		if (!has_all(op))
			return;
		take_over(op);
		tagrv_rndv_recv_end(op);
	} else if (!op->pieces && !tagrv_list_linked(&op->link)) {
		tagrv_rndv_take_end(op, op->status);
	}
}

struct tagrv_op *tagrv_rndv_find_taker(struct tagrv_peer *peer, uint32_t handle)
{
	struct tagrv_xfer *xfer = tagrv_pool_find(&peer->engine->xfers, handle);

	return xfer && xfer->op->peer == peer && xfer->op->told ? xfer->op :
								  NULL;
}

/* The sender says where it cannot go on. Nothing is under way then. */
static bool is_gap(const struct tagrv_op *op, uint64_t offset)
{
	if (!op->piped)
		return op->keys && !offset;
	return !op->pieces && op->next == op->want &&
	       TAGRV_MIN(op->missing, op->offered) < op->middle &&
	       offset == tagrv_rndv_gap(op);
}

/* Nobody will use the keys, and no more pieces will come. */
static void take_copies(struct tagrv_op *op, size_t from)
{
	op->keys = false;
	tagrv_op_deregister(op);
	op->next = op->granted = from;
	op->offered = op->middle;
	op->missing = TAGRV_NO_PIECE;
	want_grant(op);
}

static bool is_next(const struct tagrv_op *op, uint64_t offset, size_t len)
{
	return !op->keys && offset == op->next && op->next < op->granted &&
	       len == TAGRV_MIN(op->peer->frag_max, op->want - op->next);
}

void tagrv_rndv_frag_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr, const void *payload,
			    size_t len)
{
	struct tagrv_op *op = tagrv_rndv_find_taker(peer, hdr->op);
	uint32_t depth = (uint32_t) peer->engine->dom->params.copy_depth;

	if (op && !len && is_gap(op, hdr->data)) {
		take_copies(op, hdr->data);
		return;
	}
	if (!op || !is_next(op, hdr->data, len)) {
		tagrv_engine_bad_packet(peer, "fragment nobody asked for");
		return;
	}
	tagrv_rndv_take_frag(op, payload, len);
	frags_back(op, 1);
	if (has_all(op)) {
		take_over(op);
		tagrv_rndv_recv_end(op);
	} else if (op->granted < op->want && op->inflight <= depth / 2) {
		want_grant(op);
	}
}

void tagrv_rndv_done_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr)
{
	struct tagrv_op *op = tagrv_rndv_find_taker(peer, hdr->op);

	if (!op || op->pieces || (!hdr->data && !op->keys)) {
		tagrv_engine_bad_packet(peer, "end of what did not begin");
		return;
	}
	if (!hdr->data)
		op->engine->stats.moved_rx[TAGRV_PROTO_RNDV_WRITE]++;
	op->status = tagrv_rndv_status(hdr);
	take_over(op);
	if (hdr->flags & TAGRV_PKT_ACK_DELIVERY)
		tagrv_rndv_recv_end(op);
	else
		tagrv_op_recv_end(op, op->status);
}

/* ---- sender ---- */

struct tagrv_op *tagrv_rndv_find_send(struct tagrv_peer *peer, uint32_t handle,
				      enum tagrv_op_state state)
{
	struct tagrv_op *op = tagrv_pool_find(&peer->engine->tx_ops, handle);

	return op && op->state == state && op->peer == peer ? op : NULL;
}

int tagrv_rndv_move(struct tagrv_op *op)
{
	if (op->state == TAGRV_OP_WRITING)
		return tagrv_rndv_write(op);
	return op->state == TAGRV_OP_OFFERING ? tagrv_rndv_pipe(op) :
						tagrv_rndv_copy(op);
}

void tagrv_rndv_go_on(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	tagrv_list_remove(&op->link);
	tagrv_list_push_tail(&peer->writers, &op->link);
	if (peer->state != TAGRV_PEER_READY ||
	    op->link.prev != &peer->writers || tagrv_rndv_move(op))
		tagrv_peer_set_busy(peer);
}

bool tagrv_rndv_parse_cts(struct tagrv_remote *remote, uint8_t *pieces,
			  uint64_t limit, const void *body, size_t len)
{
	struct tagrv_cts cts;

	if (len < sizeof(cts))
		return false;
	tagrv_copy_once(&cts, body, sizeof(cts));
	remote->op = le32toh(cts.op);
	remote->len = le64toh(cts.want);
	remote->seg_cnt = cts.seg_cnt;
	remote->key_len = cts.key_len;
	*pieces = cts.pieces;
	return cts.op && remote->len && remote->len <= limit &&
	       tagrv_rndv_segments(remote, (const char *) body + sizeof(cts),
				   len - sizeof(cts), remote->len);
}

/* It was asked for copies, or cannot write. */
static void copy_start(struct tagrv_op *op, size_t granted)
{
	/* Nobody will read it. */
	tagrv_op_deregister(op);
	op->state = TAGRV_OP_COPYING;
	op->granted = granted;
	op->asks = !granted;
	op->engine->stats.moved_tx[TAGRV_PROTO_RNDV_COPY]++;
}

/* False: what it grants makes no sense. */
static bool start(struct tagrv_op *op, uint64_t granted)
{
	op->status = 0;
	op->next = 0;
	op->granted = 0;
	op->inflight = 0;
	op->told = false;
	if (op->depth)
		return !op->remote.seg_cnt && tagrv_rndv_pipe_start(op, granted);
	if (op->remote.seg_cnt ? granted != 0 :
				 !tagrv_rndv_is_grant(op, granted))
		return false;
	if (!op->remote.seg_cnt || !tagrv_rndv_write_start(op))
		copy_start(op, granted);
	return true;
}

void tagrv_rndv_cts_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	struct tagrv_op *op =
		tagrv_rndv_find_send(peer, hdr->op, TAGRV_OP_ANNOUNCED);

	if (!op || !tagrv_rndv_parse_cts(&op->remote, &op->depth, op->len, body,
					 len)) {
		tagrv_engine_bad_packet(peer, "CTS that answers no RTS");
		return;
	}
	op->want = op->remote.len;
	if (start(op, hdr->data))
		tagrv_rndv_go_on(op);
	else
		tagrv_engine_bad_packet(peer, "CTS that grants nothing");
}
