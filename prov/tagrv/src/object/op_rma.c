/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ends of one-sided operations: releasing, counting, reporting. See op.h; op.c has sends.
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "object/engine.h"
#include "object/op.h"
#include "object/peer.h"

/* By enum tagrv_rma_kind: flags of the completion. */
static const uint64_t comp_flags[TAGRV_RMA_KINDS] = {
	[TAGRV_RMA_WRITE]	= FI_RMA | FI_WRITE,
	[TAGRV_RMA_READ]	= FI_RMA | FI_READ,
	[TAGRV_RMA_ATOMIC]	= FI_ATOMIC | FI_WRITE,
	[TAGRV_RMA_FETCH]	= FI_ATOMIC | FI_READ,
	[TAGRV_RMA_COMPARE]	= FI_ATOMIC | FI_READ,
};

static struct tagrv_counter *counter_of(const struct tagrv_op *op, uint64_t flags)
{
	return flags & FI_READ ? op->engine->sinks.read_cntr : op->engine->sinks.write_cntr;
}

static TAGRV_COLD void report_failure(const struct tagrv_op *op, uint64_t flags, int status)
{
	struct tagrv_counter *cntr = counter_of(op, flags);

	if (cntr)
		tagrv_counter_add_err(cntr, 1);
	if (op->tx.no_context)
		tagrv_peer_log_lost(op->peer, "one-sided operation on", 1, status);
	else if (op->engine->sinks.tx_cq)
		tagrv_compq_push(op->engine->sinks.tx_cq, &(struct tagrv_comp) {
			.context = op->context,
			.flags = flags,
			.src = op->peer->fi_addr,
			.err = -status,
		});
}

static void report(const struct tagrv_op *op, uint64_t flags)
{
	struct tagrv_counter *cntr = counter_of(op, flags);
	struct tagrv_compq *cq = op->engine->sinks.tx_cq;

	if (cntr)
		tagrv_counter_add(cntr, 1);
	if (!op->tx.no_context && cq && op->flags & FI_COMPLETION)
		tagrv_compq_report(cq, &(struct tagrv_comp) {
			.context = op->context,
			.flags = flags,
			.src = FI_ADDR_NOTAVAIL,
		});
}

void tagrv_peer_end_counted(struct tagrv_peer *peer, uint32_t cnt, int status)
{
	struct tagrv_counter *cntr = peer->engine->sinks.write_cntr;

	tagrv_assert_locked(peer->engine->dom);
	assert(cnt <= peer->rma.counted);
	peer->rma.counted -= cnt;
	tagrv_peer_uncount_sent(peer, cnt);
	if (cntr && status)
		tagrv_counter_add_err(cntr, cnt);
	else if (cntr)
		tagrv_counter_add(cntr, cnt);
	if (TAGRV_UNLIKELY(status))
		tagrv_peer_log_lost(peer, "one-sided operation on", cnt, status);
	/* One behind them may have waited for their end. */
	if (TAGRV_UNLIKELY(!tagrv_list_empty(&peer->pending)) &&
	    peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
}

void tagrv_answer_free(struct tagrv_peer *peer, struct tagrv_answer *answer)
{
	tagrv_assert_locked(peer->engine->dom);
	if (answer->values)
		tagrv_engine_buf_put(peer->engine, answer->values, answer->class);
	tagrv_pool_put(&peer->engine->pools.answers, answer);
}

void tagrv_op_rma_free(struct tagrv_op *op)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_rma *r = op->tx.rma;

	tagrv_assert_locked(engine->dom);
	tagrv_op_deregister(op);
	if (op->tx.bounce)
		tagrv_engine_buf_put(engine, op->tx.bounce, TAGRV_BUF_INJECT);
	if (r->compare_copy)
		tagrv_engine_buf_put(engine, r->compare_copy, TAGRV_BUF_INJECT);
	tagrv_pool_put(&engine->pools.rmas, r);
	tagrv_op_set_free(op);
	tagrv_pool_put(&engine->pools.tx_ops, op);
}

void tagrv_op_rma_end(struct tagrv_op *op, int status)
{
	assert(!tagrv_list_linked(&op->link));
	tagrv_trace_send_complete(op, op->peer, op->context, op->tag, op->len,
				  status);
	if (op->state != TAGRV_OP_QUEUED)
		tagrv_peer_uncount_sent(op->peer, 1);
	if (TAGRV_LIKELY(!status))
		report(op, comp_flags[op->tx.rma->kind]);
	else
		report_failure(op, comp_flags[op->tx.rma->kind], status);
	tagrv_op_rma_free(op);
}
