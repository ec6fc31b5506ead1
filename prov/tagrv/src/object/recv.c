/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ends of receives: counting, reporting. See recv.h and op.h.
 */
#include "object/recv.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "object/engine.h"
#include "object/op.h"
#include "object/peer.h"

/* What the report of an end is made of. Inlined functions take it apart. */
struct report {
	const void *who;	/* names the receive in a trace */
	const struct tagrv_engine *engine;
	const struct tagrv_rx *rx;
	const struct tagrv_peer *peer;	/* that the message came from */
	void	*context, *buf;
	uint64_t tag, data;
	size_t	len;		/* bytes of the message */
	size_t	room;		/* bytes of the buffer */
	uint16_t pkt_flags;
	uint8_t	space;
	bool	reports;	/* success, too */
};

/* A message that came whole from a peer that the address table lacks. */
static bool is_unknown_source(const struct report *r, int status)
{
	return !status && r->peer->fi_addr == FI_ADDR_NOTAVAIL;
}

/*
 * Where the end of a receive is reported; NULL: nowhere. An endpoint that is
 * being closed has no queues any more: what it leaves unfinished is reported
 * where the receive context reports.
 */
static inline void find_sinks(const struct report *r, struct tagrv_compq **cq,
			      struct tagrv_counter **cntr)
{
	const struct tagrv_engine_sinks *sinks = &r->engine->sinks;

	*cq = sinks->rx_cq;
	*cntr = sinks->rx_cntr;
	if (TAGRV_LIKELY(*cq || *cntr))
		return;
	*cq = tagrv_rx_cq(r->rx);
	*cntr = tagrv_rx_cntr(r->rx);
}

/*
 * Counts and reports the end of a receive; 'over': bytes of the message that the
 * receive had no room for. Inlined, so that both are constants where all went well.
 */
static inline __attribute__((always_inline)) void
report(const struct report *r, int status, size_t over)
{
	bool has_data = r->pkt_flags & TAGRV_PKT_DATA;
	struct tagrv_counter *cntr;
	struct tagrv_compq *cq;
	struct tagrv_comp comp;

	find_sinks(r, &cq, &cntr);
	tagrv_trace_recv_complete(r->who, r->peer, r->context, r->tag, r->len,
				  status);
	if (TAGRV_UNLIKELY(cntr != NULL)) {
		if (status)
			tagrv_counter_add_err(cntr, 1);
		else
			tagrv_counter_add(cntr, 1);
	}
	if (!cq || !(status || r->reports || r->engine->sinks.rx_all))
		return;
	comp = (struct tagrv_comp) {
		.context = r->context,
		.flags = tagrv_op_comp_flags(r->space, false) |
			 (has_data ? FI_REMOTE_CQ_DATA : 0),
		.len = r->len - over,
		.buf = r->buf,
		.data = has_data ? r->data : 0,
		.tag = r->tag,
		.src = r->engine->attr.source ? r->peer->fi_addr :
						FI_ADDR_NOTAVAIL,
		.olen = over,
		.err = -status,
	};
	if (TAGRV_LIKELY(!status)) {
		tagrv_compq_report(cq, &comp);
		return;
	}
	if (status == -TAGRV_ERR_UNKNOWN_SOURCE)
		tagrv_comp_set_unknown_source(&comp, &r->peer->addr);
	tagrv_compq_push(cq, &comp);
}

/* The end of a receive that failed, was too short, or may have no known source. */
static TAGRV_COLD void report_checked(const struct report *r, int status)
{
	size_t over = 0;

	if (!status && r->len > r->room) {
		status = -FI_ETRUNC;
		over = r->len - r->room;
	}
	if (r->engine->attr.source_err && is_unknown_source(r, status))
		status = -TAGRV_ERR_UNKNOWN_SOURCE;
	report(r, status, over);
}

static inline __attribute__((always_inline)) void
report_any(const struct report *r, int status)
{
	if (TAGRV_UNLIKELY(status || r->len > r->room ||
			   r->engine->attr.source_err)) {
		/* A copy: the compiler keeps *r in registers. */
		const struct report copy = *r;

		report_checked(&copy, status);
	} else {
		report(r, 0, 0);
	}
}

void tagrv_recv_end(const struct tagrv_recv *recv, struct tagrv_peer *peer,
		    const struct tagrv_hdr *hdr, size_t len, int status)
{
	const struct report r = {
		.who = recv,
		.engine = peer->engine,
		.rx = peer->engine->rx,
		.peer = peer,
		.context = recv->context,
		.buf = recv->buf,
		.tag = hdr->tag,
		.data = hdr->data,
		.len = len,
		.room = recv->len,
		.pkt_flags = hdr->flags,
		.space = recv->space,
		.reports = recv->reports,
	};

	tagrv_assert_locked(peer->engine->dom);
	assert(!recv->op);
	report_any(&r, status);
}

static void op_report(const struct tagrv_op *op, int status)
{
	const struct tagrv_op *whole = op->rx.parent ? op->rx.parent : op;
	const struct report r = {
		.who = op,
		.engine = op->engine,
		.rx = op->rx.rx,
		.peer = op->peer,
		.context = whole->context,
		.buf = op->iov_cnt ? op->iov[0].iov_base : NULL,
		.tag = op->tag,
		.data = op->data,
		.len = op->len,
		.room = op->rx.room,
		.pkt_flags = op->rx.pkt_flags,
		.space = op->space,
		.reports = whole->flags & FI_COMPLETION,
	};

	report_any(&r, status);
}

void tagrv_op_recv_end(struct tagrv_op *op, int status)
{
	struct tagrv_op *parent = op->rx.parent;
	struct tagrv_rx *rx = op->rx.rx;

	tagrv_assert_locked(rx->dom);
	assert(!tagrv_list_linked(&op->link));
	tagrv_op_deregister(op);
	op_report(op, status);
	tagrv_op_set_free(op);
	tagrv_pool_put(parent ? &rx->slices : &rx->ops, op);
	if (parent) {
		parent->rx.slices--;
		tagrv_op_multi_check(parent);
	}
}

void tagrv_op_recv_end_unknown(struct tagrv_op *op, int status)
{
	struct tagrv_rx *rx = op->rx.rx;

	tagrv_assert_locked(rx->dom);
	assert(status && !op->rx.multi && !tagrv_list_linked(&op->link));
	tagrv_rx_report_error(rx, &(struct tagrv_comp) {
		.context = op->context,
		.flags = tagrv_op_comp_flags(op->space, false),
		.buf = op->iov_cnt ? op->iov[0].iov_base : NULL,
		.tag = op->tag,
		.src = FI_ADDR_NOTAVAIL,
		.err = (uint64_t) -status,
	});
	tagrv_op_set_free(op);
	tagrv_pool_put(&rx->ops, op);
}

struct tagrv_op *tagrv_recv_op(const struct tagrv_recv *recv, struct tagrv_rx *rx)
{
	struct tagrv_op *op = tagrv_pool_get(&rx->ops);

	tagrv_assert_locked(rx->dom);
	assert(!recv->op);
	if (!op)
		return NULL;
	tagrv_op_start(op, TAGRV_OP_POSTED);
	op->space = recv->space;
	op->iov_cnt = 1;
	op->own_mem = 0;
	op->born = recv->born;
	op->context = recv->context;
	op->flags = recv->reports ? FI_COMPLETION : 0;
	op->tag = recv->tag;
	op->status = 0;
	op->iov[0] = (struct iovec) { recv->buf, recv->len };
	op->mem[0] = recv->mem;
	op->rx.rx = rx;
	op->rx.room = recv->len;
	op->rx.listed = NULL;
	op->rx.parent = NULL;
	op->rx.multi = false;
	tagrv_list_init(&op->link);
	tagrv_trace_recv_op(recv, op, op->node.handle);
	return op;
}
