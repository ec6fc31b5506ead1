/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by copies: a pipeline of fragments through the packet buffers of
 * both sides, for memory that cannot be registered or reached.
 *
 *   sender                                    receiver
 *   ANNOUNCED                                 TAKING
 *            <-- CTS(handle, want, n) ------
 *   COPYING  --- FRAG(handle, offset) ----->   copied into place
 *            --- ... n bytes in all ------->
 *            <-- GRANT(n) -----------------    when half of them are here
 *   FIN_WAIT --- FRAG --------------------->
 *   end      <-- FIN(status) --------------   end
 *
 *   A sender that cannot go on says so:
 *   end      --- DONE(handle, status) ----->  end
 *
 * A link is in order, so a fragment always begins where the one before ended,
 * and it is full unless it is the last: nothing else is accepted, and nothing
 * is written outside of what was asked for.
 *
 * What is granted will fill packet buffers, which all peers of an endpoint may
 * share: copy_depth fragments for one message and BUDGET times as many for all.
 * A peer to which nothing is granted gets one fragment in any case: peers that
 * sleep on their grants keep nobody else waiting.
 *
 * Layouts: docs/wire_protocol.md section 1.6.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

#define BUDGET	8u

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

static int send_grant(struct tagrv_op *op, size_t granted)
{
	struct tagrv_hdr hdr = {
		.opcode = op->granted ? TAGRV_PKT_GRANT : TAGRV_PKT_CTS,
		.op = op->remote.op,
		.data = granted,
	};
	const struct tagrv_cts cts = {
		.want = htole64(op->want),
		.op = htole32(op->xfer->node.handle),
	};

	return tagrv_peer_control(op->peer, &hdr, &cts,
				  op->granted ? 0 : sizeof(cts));
}

int tagrv_rndv_grant(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	uint32_t n = more_frags(op);
	size_t granted;
	int ret;

	if (!n)
		return -FI_EAGAIN;
	granted = TAGRV_MIN(op->want, op->granted + n * peer->frag_max);
	ret = send_grant(op, granted);
	if (ret)
		return ret;
	op->granted = granted;
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

void tagrv_rndv_copy_start(struct tagrv_op *op)
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
	op->granted = 0;
	op->engine->stats.moved_rx[TAGRV_PROTO_RNDV_COPY]++;
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

/* The receive that a peer names, NULL if it may not. */
static struct tagrv_op *find_taker(struct tagrv_peer *peer, uint32_t handle)
{
	struct tagrv_xfer *xfer = tagrv_pool_find(&peer->engine->xfers, handle);

	return xfer && xfer->op->peer == peer ? xfer->op : NULL;
}

static void put_in_place(const struct tagrv_op *op, const void *payload,
			 size_t len)
{
	struct iovec iov[TAGRV_IOV_MAX];
	size_t cnt = tagrv_iov_slice(iov, op->iov, op->iov_cnt, op->next, len);

	tagrv_iov_scatter(iov, cnt, payload, len);
}

void tagrv_rndv_frag_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr, const void *payload,
			    size_t len)
{
	struct tagrv_op *op = find_taker(peer, hdr->op);
	uint32_t depth = (uint32_t) peer->engine->dom->params.copy_depth;

	if (!op || hdr->data != op->next || op->next == op->granted ||
	    len != TAGRV_MIN(peer->frag_max, op->want - op->next)) {
		tagrv_engine_bad_packet(peer, "fragment nobody asked for");
		return;
	}
	put_in_place(op, payload, len);
	op->next += len;
	frags_back(op, 1);
	if (op->next == op->want) {
		take_over(op);
		tagrv_rndv_recv_end(op);
	} else if (op->granted < op->want && op->inflight <= depth / 2) {
		want_grant(op);
	}
}

void tagrv_rndv_done_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr)
{
	struct tagrv_op *op = find_taker(peer, hdr->op);
	int status = tagrv_rndv_status(hdr);

	if (!op || !status) {
		tagrv_engine_bad_packet(peer, "end of what did not begin");
		return;
	}
	tagrv_rndv_take_end(op, status);
}

/* ---- sender ---- */

static int send_frag(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	struct tagrv_link *link = peer->lane->link;
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_FRAG,
		.op = op->remote.op,
		.credit = tagrv_credit_offer(&peer->credit),
		.data = op->next,
	};
	size_t len = TAGRV_MIN(peer->frag_max, op->want - op->next);
	uint64_t words[TAGRV_SHORT_WORDS];
	struct iovec iov[TAGRV_IOV_MAX + 1] = { { words, sizeof(words) } };
	size_t cnt;
	int ret;

	tagrv_hdr_pack(words, &hdr);
	cnt = tagrv_iov_slice(iov + 1, op->iov, op->iov_cnt, op->next, len);
	ret = link->xport->ops->send(link, iov, cnt + 1, 0, NULL);
	if (ret)
		return ret;
	tagrv_credit_gave(&peer->credit, hdr.credit);
	op->next += len;
	return 0;
}

int tagrv_rndv_write(struct tagrv_op *op)
{
	while (op->next < op->granted) {
		int ret = send_frag(op);

		if (!ret)
			continue;
		if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
			return -FI_EAGAIN;
		/* The receiver waits for the rest. */
		tagrv_list_remove(&op->link);
		tagrv_peer_done(op->peer, op->remote.op, ret);
		tagrv_op_send_end(op, ret);
		return 0;
	}
	if (op->next == op->want)
		op->state = TAGRV_OP_FIN_WAIT;
	tagrv_list_remove(&op->link);
	tagrv_list_push_tail(&op->peer->waiting, &op->link);
	return 0;
}

/* More may be sent than before. */
static void go_on(struct tagrv_op *op, size_t granted)
{
	struct tagrv_peer *peer = op->peer;

	op->granted = granted;
	tagrv_list_remove(&op->link);
	tagrv_list_push_tail(&peer->writers, &op->link);
	if (peer->state != TAGRV_PEER_READY ||
	    op->link.prev != &peer->writers || tagrv_rndv_write(op))
		tagrv_peer_set_busy(peer);
}

/* The send that a peer names, NULL if it is not in this state. */
static struct tagrv_op *find_send(struct tagrv_peer *peer, uint32_t handle,
				  enum tagrv_op_state state)
{
	struct tagrv_op *op = tagrv_pool_find(&peer->engine->tx_ops, handle);

	return op && op->state == state && op->peer == peer ? op : NULL;
}

/*
 * A grant is checked against what it adds to: whole fragments, or all the rest,
 * or the receiver would count other fragments than we do.
 */
static bool is_grant(const struct tagrv_op *op, uint64_t granted)
{
	return granted > op->granted && granted <= op->want &&
	       (granted == op->want || !(granted % op->peer->frag_max));
}

void tagrv_rndv_cts_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	struct tagrv_op *op = find_send(peer, hdr->op, TAGRV_OP_ANNOUNCED);
	struct tagrv_cts cts = { 0 };

	if (len == sizeof(cts))
		tagrv_copy_once(&cts, body, sizeof(cts));
	if (!op || !cts.op || !cts.want || le64toh(cts.want) > op->len) {
		tagrv_engine_bad_packet(peer, "CTS that answers no RTS");
		return;
	}
	op->want = le64toh(cts.want);
	op->next = 0;
	op->granted = 0;
	op->remote.op = le32toh(cts.op);
	if (!is_grant(op, hdr->data)) {
		tagrv_engine_bad_packet(peer, "CTS that grants nothing");
		return;
	}
	/* Nobody will read it. */
	tagrv_op_deregister(op);
	op->state = TAGRV_OP_COPYING;
	op->engine->stats.moved_tx[TAGRV_PROTO_RNDV_COPY]++;
	go_on(op, hdr->data);
}

void tagrv_rndv_grant_packet(struct tagrv_peer *peer,
			     const struct tagrv_hdr *hdr)
{
	struct tagrv_op *op = find_send(peer, hdr->op, TAGRV_OP_COPYING);

	if (!op || !is_grant(op, hdr->data)) {
		tagrv_engine_bad_packet(peer, "grant for nothing");
		return;
	}
	go_on(op, hdr->data);
}
