/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Delivery: a message goes to the receive that it matched. A receive gets its
 * endpoint with its message: until then it belongs to the receive context.
 *
 *   eager, a receive without an op ----------> copied, reported
 *   eager, an op; a slice of a multi-receive -> copied, the op ends
 *   rendezvous -----------------------------> an op, if there is none; it begins
 *   any, of an op that a device has matched -> the same, without a look at the matcher
 */
#include "proto/deliver.h"

#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "object/engine.h"
#include "object/tags.h"
#include "proto/packet/ack.h"
#include "proto/rndv/rndv.h"

static void set_message(struct tagrv_op *op, struct tagrv_peer *peer,
			const struct tagrv_hdr *hdr, size_t len)
{
	op->engine = peer->engine;
	op->peer = peer;
	op->tag = hdr->tag;
	op->data = hdr->data;
	op->rx.pkt_flags = hdr->flags;
	op->len = len;
}

/* The op for a message of len bytes. NULL: out of memory. */
static struct tagrv_op *op_for(const struct tagrv_recv *recv,
			       struct tagrv_peer *peer, size_t len)
{
	struct tagrv_op *op = recv->op;

	if (!op)
		return tagrv_recv_op(recv, peer->engine->rx);
	if (op->rx.multi)
		return tagrv_op_slice(op, len);
	/* Software was faster than the device that has the receive in its list. */
	if (TAGRV_UNLIKELY(op->rx.listed != NULL))
		tagrv_tags_take(op->rx.rx->tags, op);
	return op;
}

/* A multi-receive buffer cannot have the message, and stays posted. */
static void report_lost(struct tagrv_op *parent, const struct tagrv_peer *peer,
			const struct tagrv_hdr *hdr, int status)
{
	bool has_data = hdr->flags & TAGRV_PKT_DATA;
	const struct tagrv_engine *engine = peer->engine;
	struct tagrv_comp comp = {
		.context = parent->context,
		.flags = tagrv_op_comp_flags(parent->space, false) |
			 (has_data ? FI_REMOTE_CQ_DATA : 0),
		.tag = hdr->tag,
		.data = has_data ? hdr->data : 0,
		.src = engine->attr.source ? peer->fi_addr : FI_ADDR_NOTAVAIL,
		.err = -status,
	};

	if (engine->sinks.rx_cntr)
		tagrv_counter_add_err(engine->sinks.rx_cntr, 1);
	if (engine->sinks.rx_cq)
		tagrv_compq_push(engine->sinks.rx_cq, &comp);
}

/* There is no memory for the op of a message: both sides are told. */
static void deliver_none(const struct tagrv_recv *recv, struct tagrv_peer *peer,
			 const struct tagrv_hdr *hdr)
{
	if (recv->op)
		report_lost(recv->op, peer, hdr, -FI_ENOMEM);
	else
		tagrv_recv_end(recv, peer, hdr, 0, -FI_ENOMEM);
}

/* Inlined: receives with an op take no step more than without this function. */
static inline __attribute__((always_inline)) void
give(struct tagrv_op *op, struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
     const void *payload, size_t len)
{
	set_message(op, peer, hdr, len);
	tagrv_iov_scatter(op->iov, op->iov_cnt, payload,
			  TAGRV_MIN(len, op->rx.room));
	/* A FIN may leave at once, and says that the bytes are in place. */
	if (tagrv_hdr_wants_fin(hdr->flags, hdr->op))
		tagrv_ack_fin(peer, hdr->op, 0);
	tagrv_op_recv_end(op, 0);
}

static void deliver_to_op(const struct tagrv_recv *recv, struct tagrv_peer *peer,
			  const struct tagrv_hdr *hdr, const void *payload,
			  size_t len)
{
	struct tagrv_op *op = op_for(recv, peer, len);

	if (TAGRV_UNLIKELY(!op)) {
		if (tagrv_hdr_wants_fin(hdr->flags, hdr->op))
			tagrv_ack_fin(peer, hdr->op, -FI_ENOMEM);
		deliver_none(recv, peer, hdr);
		return;
	}
	give(op, peer, hdr, payload, len);
}

void tagrv_deliver_eager(const struct tagrv_recv *recv, struct tagrv_peer *peer,
			 const struct tagrv_hdr *hdr, const void *payload,
			 size_t len)
{
	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_UNLIKELY(recv->op != NULL)) {
		deliver_to_op(recv, peer, hdr, payload, len);
		return;
	}
	tagrv_copy(recv->buf, payload, TAGRV_MIN(len, recv->len));
	if (tagrv_hdr_wants_fin(hdr->flags, hdr->op))
		tagrv_ack_fin(peer, hdr->op, 0);
	tagrv_recv_end(recv, peer, hdr, len, 0);
}

void tagrv_deliver_rndv(const struct tagrv_recv *recv, struct tagrv_peer *peer,
			const struct tagrv_hdr *hdr,
			const struct tagrv_remote *remote)
{
	struct tagrv_op *op = op_for(recv, peer, remote->len);

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_UNLIKELY(!op)) {
		tagrv_ack_fin(peer, remote->op, -FI_ENOMEM);
		deliver_none(recv, peer, hdr);
		return;
	}
	tagrv_deliver_matched_rndv(op, peer, hdr, remote);
}

void tagrv_deliver_lost(const struct tagrv_recv *recv, struct tagrv_peer *peer,
			const struct tagrv_hdr *hdr)
{
	struct tagrv_op *op = recv->op;

	tagrv_assert_locked(peer->engine->dom);
	if (!op) {
		tagrv_recv_end(recv, peer, hdr, 0, -FI_ECONNRESET);
	} else if (op->rx.multi) {
		report_lost(op, peer, hdr, -FI_ECONNRESET);
	} else {
		tagrv_deliver_matched_lost(op, peer, hdr, -FI_ECONNRESET);
	}
}

/* ---- receives that a device has matched ---- */

void tagrv_deliver_matched(struct tagrv_op *op, struct tagrv_peer *peer,
			   const struct tagrv_hdr *hdr, const void *payload, size_t len)
{
	tagrv_assert_locked(peer->engine->dom);
	give(op, peer, hdr, payload, len);
}

void tagrv_deliver_matched_rndv(struct tagrv_op *op, struct tagrv_peer *peer,
				const struct tagrv_hdr *hdr,
				const struct tagrv_remote *remote)
{
	tagrv_assert_locked(peer->engine->dom);
	set_message(op, peer, hdr, remote->len);
	tagrv_rndv_begin(op, remote);
}

void tagrv_deliver_matched_lost(struct tagrv_op *op, struct tagrv_peer *peer,
				const struct tagrv_hdr *hdr, int status)
{
	tagrv_assert_locked(peer->engine->dom);
	set_message(op, peer, hdr, 0);
	tagrv_op_recv_end(op, status);
}
