/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ends of sends: releasing, counting, reporting. See op.h; recv.c has receives.
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

void tagrv_op_count_moved_tx(const struct tagrv_op *op, unsigned proto)
{
	op->engine->stats.moved_tx[proto]++;
	op->engine->stats.moved_bytes_tx += op->len;
}

void tagrv_op_count_moved_rx(const struct tagrv_op *op, unsigned proto)
{
	op->engine->stats.moved_rx[proto]++;
	op->engine->stats.moved_bytes_rx += op->rndv->want;
}

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

/*
 * There is no context to report to, and an entry without one would be taken for that of
 * another operation.
 */
void tagrv_peer_log_lost(const struct tagrv_peer *peer, const char *what, uint32_t cnt,
			 int status)
{
	struct tagrv_engine *engine = peer->engine;
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_assert_locked(engine->dom);
	if (!engine->stats.lost_injects)
		tagrv_warn("an injected %s %s was lost: %s\n", what,
			   tagrv_addr_str(&peer->addr, addr, sizeof(addr)),
			   fi_strerror(-status));
	engine->stats.lost_injects += cnt;
}

static void send_report_error(struct tagrv_op *op, int status)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_comp comp = {
		.context = op->context,
		.flags = tagrv_op_comp_flags(op->space, true),
		.tag = op->tag,
		.data = op->data,
		.src = op->peer->fi_addr,
		.err = -status,
	};

	if (engine->sinks.tx_cntr)
		tagrv_counter_add_err(engine->sinks.tx_cntr, 1);
	if (op->tx.no_context) {
		tagrv_peer_log_lost(op->peer, "message to", 1, status);
		return;
	}
	if (engine->sinks.tx_cq)
		tagrv_compq_push(engine->sinks.tx_cq, &comp);
}

/*
 * A send that had left the pending queue has ended: a fence behind it may be open
 * now. Outside of a progress pass a sleeping thread must be woken to see that.
 */
void tagrv_peer_uncount_sent(struct tagrv_peer *peer, size_t cnt)
{
	const struct tagrv_list *first = tagrv_list_first(&peer->pending);

	tagrv_assert_locked(peer->engine->dom);
	assert(peer->sent >= cnt);
	peer->sent -= cnt;
	if (peer->sent || !first || peer->engine->dom->in_pass)
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
	if (op->state != TAGRV_OP_QUEUED) {
		op->peer->sent_msgs--;
		tagrv_peer_uncount_sent(op->peer, 1);
	}
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
