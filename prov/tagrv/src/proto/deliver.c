/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Delivery: a message goes to the receive that it matched. A receive gets its
 * endpoint with its message: until then it belongs to the receive context.
 */
#include "proto/deliver.h"

#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "object/engine.h"
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

/* The receive a message of len bytes goes to; NULL: out of memory. */
static struct tagrv_op *receiver(struct tagrv_op *op, size_t len)
{
	return op->rx.multi ? tagrv_op_slice(op, len) : op;
}

/* A multi-receive buffer cannot have the message, and stays posted. */
static void report_lost(struct tagrv_op *parent, const struct tagrv_peer *peer,
			uint64_t tag, int status)
{
	const struct tagrv_engine *engine = peer->engine;
	struct tagrv_comp comp = {
		.context = parent->context,
		.flags = tagrv_op_comp_flags(parent->space, false),
		.tag = tag,
		.src = engine->attr.source ? peer->fi_addr : FI_ADDR_NOTAVAIL,
		.err = -status,
	};

	if (engine->sinks.rx_cntr)
		tagrv_counter_add_err(engine->sinks.rx_cntr, 1);
	if (engine->sinks.rx_cq)
		tagrv_compq_push(engine->sinks.rx_cq, &comp);
}

void tagrv_deliver_eager(struct tagrv_op *target, struct tagrv_peer *peer,
			 const struct tagrv_hdr *hdr, const void *payload,
			 size_t len)
{
	struct tagrv_op *op = receiver(target, len);

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_UNLIKELY(!op)) {
		if (tagrv_hdr_wants_fin(hdr->flags, hdr->op))
			tagrv_ack_fin(peer, hdr->op, -FI_ENOMEM);
		report_lost(target, peer, hdr->tag, -FI_ENOMEM);
		return;
	}
	set_message(op, peer, hdr, len);
	tagrv_iov_scatter(op->iov, op->iov_cnt, payload,
			  TAGRV_MIN(len, op->rx.room));
	/* A FIN may leave at once, and says that the bytes are in place. */
	if (tagrv_hdr_wants_fin(hdr->flags, hdr->op))
		tagrv_ack_fin(peer, hdr->op, 0);
	tagrv_op_recv_end(op, 0);
}

void tagrv_deliver_rndv(struct tagrv_op *target, struct tagrv_peer *peer,
			const struct tagrv_hdr *hdr,
			const struct tagrv_remote *remote)
{
	struct tagrv_op *op = receiver(target, remote->len);

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_UNLIKELY(!op)) {
		tagrv_ack_fin(peer, remote->op, -FI_ENOMEM);
		report_lost(target, peer, hdr->tag, -FI_ENOMEM);
		return;
	}
	set_message(op, peer, hdr, remote->len);
	tagrv_rndv_begin(op, remote);
}

void tagrv_deliver_lost(struct tagrv_op *op, struct tagrv_peer *peer,
			const struct tagrv_hdr *hdr)
{
	tagrv_assert_locked(peer->engine->dom);
	if (op->rx.multi) {
		report_lost(op, peer, hdr->tag, -FI_ECONNRESET);
		return;
	}
	set_message(op, peer, hdr, 0);
	tagrv_op_recv_end(op, -FI_ECONNRESET);
}
