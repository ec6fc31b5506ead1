/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ends of operations: releasing, counting, reporting. See op.h.
 */
#include "object/op.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "core/log.h"
#include "object/engine.h"
#include "object/peer.h"

const struct tagrv_proto_ops tagrv_eager_ops = {
	.name = "eager",
	.fail = tagrv_op_send_end,
};

/* ---- sends ---- */

void tagrv_op_send_report(struct tagrv_engine *engine,
			  const struct tagrv_send_req *req)
{
	tagrv_assert_locked(engine->dom);
	if (engine->sinks.tx_cntr)
		tagrv_counter_add(engine->sinks.tx_cntr, 1);
	if (!(req->flags & FI_COMPLETION) || req->no_context ||
	    !engine->sinks.tx_cq)
		return;
	tagrv_compq_report(engine->sinks.tx_cq, &(struct tagrv_comp) {
		.context = req->context,
		.flags = tagrv_op_comp_flags(req->space, true),
		.src = FI_ADDR_NOTAVAIL,
	});
}

static void send_report_error(struct tagrv_op *op, int status)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_comp comp = {
		.context = op->context,
		.flags = tagrv_op_comp_flags(op->space, true),
		.tag = op->tag,
		.data = op->data,
		.src = FI_ADDR_NOTAVAIL,
		.err = -status,
	};

	if (engine->sinks.tx_cntr)
		tagrv_counter_add_err(engine->sinks.tx_cntr, 1);
	if (op->tx.no_context) {
		/* There is no context to report to, and an entry without one
		 * would be taken for that of another operation. */
		char addr[TAGRV_ADDR_STRLEN];

		if (!engine->stats.lost_injects++)
			tagrv_warn("an injected message to %s was lost: %s\n",
				   tagrv_addr_str(&op->peer->addr, addr,
						  sizeof(addr)),
				   fi_strerror(-status));
		return;
	}
	if (engine->sinks.tx_cq)
		tagrv_compq_push(engine->sinks.tx_cq, &comp);
}

/*
 * A send that had left the pending queue has ended: a fence behind it may be open
 * now. Outside of a progress pass a sleeping thread must be woken to see that.
 */
static void uncount_sent(struct tagrv_peer *peer)
{
	const struct tagrv_list *first = tagrv_list_first(&peer->pending);

	assert(peer->sent);
	if (--peer->sent || !first || peer->engine->dom->in_pass)
		return;
	if (tagrv_container_of(first, struct tagrv_op, link)->flags & FI_FENCE)
		tagrv_dom_kick(peer->engine->dom);
}

void tagrv_op_send_end(struct tagrv_op *op, int status)
{
	struct tagrv_engine *engine = op->engine;

	tagrv_assert_locked(engine->dom);
	assert(!tagrv_list_linked(&op->link));
	tagrv_trace_send_complete(op, op->peer, op->context, op->tag, op->len,
				  status);
	if (op->state != TAGRV_OP_QUEUED)
		uncount_sent(op->peer);
	tagrv_op_deregister(op);
	if (op->ops->release)
		op->ops->release(op);
	if (op->tx.bounce)
		tagrv_engine_buf_put(engine, op->tx.bounce, TAGRV_BUF_INJECT);
	if (TAGRV_UNLIKELY(status)) {
		send_report_error(op, status);
	} else {
		struct tagrv_send_req req = {
			.context = op->context,
			.flags = op->flags,
			.space = op->space,
			.no_context = op->tx.no_context,
		};

		tagrv_op_send_report(engine, &req);
	}
	tagrv_op_set_free(op);
	tagrv_pool_put(&engine->pools.tx_ops, op);
}

/* ---- receives ---- */

/* A message that came whole from a peer that the address table lacks. */
static bool is_unknown_source(const struct tagrv_op *op, int status)
{
	return !status && op->peer->fi_addr == FI_ADDR_NOTAVAIL;
}

/*
 * Where the end of a receive is reported; NULL: nowhere. An endpoint that is
 * being closed has no queues any more: what it leaves unfinished is reported
 * where the receive context reports.
 */
static inline void find_sinks(const struct tagrv_op *op,
			      struct tagrv_compq **cq,
			      struct tagrv_counter **cntr)
{
	const struct tagrv_engine_sinks *sinks = &op->engine->sinks;

	*cq = sinks->rx_cq;
	*cntr = sinks->rx_cntr;
	if (TAGRV_LIKELY(*cq || *cntr))
		return;
	*cq = tagrv_rx_cq(op->rx.rx);
	*cntr = tagrv_rx_cntr(op->rx.rx);
}

/*
 * Counts and reports the end of a receive; 'over': bytes of the message that the
 * receive had no room for. Inlined, so that both are constants where all went well.
 */
static inline __attribute__((always_inline)) void
report_recv(struct tagrv_op *op, int status, size_t over)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_op *whole = op->rx.parent ? op->rx.parent : op;
	bool has_data = op->rx.pkt_flags & TAGRV_PKT_DATA;
	struct tagrv_counter *cntr;
	struct tagrv_compq *cq;
	struct tagrv_comp comp;

	find_sinks(op, &cq, &cntr);
	tagrv_trace_recv_complete(op, op->peer, whole->context, op->tag,
				  op->len, status);
	if (cntr) {
		if (status)
			tagrv_counter_add_err(cntr, 1);
		else
			tagrv_counter_add(cntr, 1);
	}
	if (!cq || !(status || (whole->flags & FI_COMPLETION) ||
		     engine->sinks.rx_all))
		return;
	comp = (struct tagrv_comp) {
		.context = whole->context,
		.flags = tagrv_op_comp_flags(op->space, false) |
			 (has_data ? FI_REMOTE_CQ_DATA : 0),
		.len = op->len - over,
		.buf = op->iov_cnt ? op->iov[0].iov_base : NULL,
		.data = has_data ? op->data : 0,
		.tag = op->tag,
		.src = engine->attr.source ? op->peer->fi_addr :
					     FI_ADDR_NOTAVAIL,
		.olen = over,
		.err = -status,
	};
	if (TAGRV_LIKELY(!status)) {
		tagrv_compq_report(cq, &comp);
		return;
	}
	if (status == -TAGRV_ERR_UNKNOWN_SOURCE)
		tagrv_comp_set_unknown_source(&comp, &op->peer->addr);
	tagrv_compq_push(cq, &comp);
}

/* The end of a receive that failed, was too short, or may have no known source. */
static TAGRV_COLD void report_recv_checked(struct tagrv_op *op, int status)
{
	size_t over = 0;

	if (!status && op->len > op->rx.room) {
		status = -FI_ETRUNC;
		over = op->len - op->rx.room;
	}
	if (op->engine->attr.source_err && is_unknown_source(op, status))
		status = -TAGRV_ERR_UNKNOWN_SOURCE;
	report_recv(op, status, over);
}

static inline void recv_report(struct tagrv_op *op, int status)
{
	if (TAGRV_UNLIKELY(status || op->len > op->rx.room ||
			   op->engine->attr.source_err))
		report_recv_checked(op, status);
	else
		report_recv(op, 0, 0);
}

void tagrv_op_recv_end(struct tagrv_op *op, int status)
{
	struct tagrv_op *parent = op->rx.parent;
	struct tagrv_rx *rx = op->rx.rx;

	tagrv_assert_locked(rx->dom);
	assert(!tagrv_list_linked(&op->link));
	tagrv_op_deregister(op);
	recv_report(op, status);
	tagrv_op_set_free(op);
	tagrv_pool_put(parent ? &rx->slices : &rx->ops, op);
	if (parent) {
		parent->rx.slices--;
		tagrv_op_multi_check(parent);
	}
}
