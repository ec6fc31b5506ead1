/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations of this side: their ops, from the request to the end. See rma.h.
 */
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "proto/rma/rma_priv.h"

/* ---- failure ---- */

static void fail(struct tagrv_op *op, int status)
{
	if (op->state == TAGRV_OP_WIRE)
		return;		/* its callback is due */
	if (op->state == TAGRV_OP_ASKED)
		tagrv_rma_take(op);
	/* Some of its packets may have left. */
	tagrv_rma_unask(op);
	tagrv_op_rma_end(op, status);
}

/* rma_ask.c sends the packets. */
static const struct tagrv_proto_ops *ops_of(uint8_t kind)
{
	static const struct tagrv_proto_ops tables[TAGRV_RMA_KINDS] = {
		[TAGRV_RMA_WRITE]   = { .name = "write", .start = tagrv_rma_put,
					.fail = fail },
		[TAGRV_RMA_READ]    = { .name = "read", .start = tagrv_rma_get,
					.fail = fail },
		[TAGRV_RMA_ATOMIC]  = { .name = "atomic", .start = tagrv_rma_change,
					.fail = fail },
		[TAGRV_RMA_FETCH]   = { .name = "fetch", .start = tagrv_rma_change,
					.fail = fail },
		[TAGRV_RMA_COMPARE] = { .name = "compare", .start = tagrv_rma_change,
					.fail = fail },
	};

	return &tables[kind];
}

/* ---- from a request ---- */

static size_t remote_len(const struct tagrv_rma_req *req)
{
	size_t len = 0;

	for (size_t i = 0; i < req->remote_cnt; i++)
		len += req->remote[i].len;
	return len;
}

/* Word by word: the call has written them a moment ago (tagrv_word_load()). */
static void copy_segment(struct iovec *to, const struct iovec *from)
{
	tagrv_word_copy(&to->iov_base, &from->iov_base);
	tagrv_word_copy(&to->iov_len, &from->iov_len);
}

static void copy_range(struct fi_rma_iov *to, const struct fi_rma_iov *from)
{
	tagrv_word_copy(&to->addr, &from->addr);
	tagrv_word_copy(&to->len, &from->len);
	tagrv_word_copy(&to->key, &from->key);
}

static void fill_rma(struct tagrv_rma *r, const struct tagrv_rma_req *req)
{
	r->kind = req->kind;
	r->datatype = req->datatype;
	r->op = req->op;
	r->remote_cnt = (uint8_t) req->remote_cnt;
	r->result_cnt = (uint8_t) req->result_cnt;
	r->compare_cnt = (uint8_t) req->compare_cnt;
	r->by_packets = false;
	r->takes_keys = false;
	r->pulled = false;
	r->holds = false;
	r->brings_data = false;
	r->flushing = false;
	r->asked = 0;
	r->compare_copy = NULL;
	r->sent = 0;
	r->got = 0;
	for (size_t i = 0; i < req->remote_cnt; i++)
		copy_range(&r->remote[i], &req->remote[i]);
	for (size_t i = 0; i < req->result_cnt; i++)
		copy_segment(&r->result[i], &req->result[i]);
	for (size_t i = 0; i < req->compare_cnt; i++)
		copy_segment(&r->compare[i], &req->compare[i]);
}

static void fill_op(struct tagrv_op *op, struct tagrv_engine *engine,
		    struct tagrv_peer *peer, const struct tagrv_rma_req *req)
{
	tagrv_op_start(op, TAGRV_OP_QUEUED);
	op->space = TAGRV_SPACE_MSG;
	op->iov_cnt = (uint8_t) req->iov_cnt;
	op->own_mem = 0;
	op->born = engine->dom->clock.tick;
	op->ops = ops_of(req->kind);
	op->engine = engine;
	op->peer = peer;
	op->lane = NULL;
	op->context = req->context;
	op->flags = req->flags;
	op->tag = req->remote_cnt ? req->remote[0].key : 0;
	op->data = req->data;
	op->status = 0;
	op->rndv = NULL;
	op->tx.bounce = NULL;
	op->tx.no_context = req->no_context;
	op->len = remote_len(req);
	for (size_t i = 0; i < req->iov_cnt; i++) {
		copy_segment(&op->iov[i], &req->iov[i]);
		op->mem[i] = req->mem ? req->mem[i] : NULL;
	}
	tagrv_list_init(&op->link);
	tagrv_trace_op_state(op, op->node.handle, TAGRV_OP_FREE, TAGRV_OP_QUEUED,
			     peer, op->tag);
}

int tagrv_rma_op_get(struct tagrv_engine *engine, struct tagrv_peer *peer,
		     const struct tagrv_rma_req *req, struct tagrv_op **out)
{
	struct tagrv_op *op = tagrv_pool_get(&engine->pools.tx_ops);
	struct tagrv_rma *r;

	tagrv_assert_locked(engine->dom);
	if (!op)
		return tagrv_pool_why(&engine->pools.tx_ops);
	r = tagrv_pool_get(&engine->pools.rmas);
	if (!r) {
		tagrv_pool_put(&engine->pools.tx_ops, op);
		return tagrv_pool_why(&engine->pools.rmas);
	}
	fill_rma(r, req);
	fill_op(op, engine, peer, req);
	op->tx.rma = r;
	*out = op;
	return 0;
}

int tagrv_rma_op_keep(struct tagrv_op *op)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_rma *r = op->tx.rma;
	int ret;

	tagrv_assert_locked(engine->dom);
	ret = tagrv_engine_copy_injected(engine, r->compare, &r->compare_cnt,
					 &r->compare_copy);
	if (!ret)
		ret = tagrv_engine_copy_injected(engine, op->iov, &op->iov_cnt,
						 &op->tx.bounce);
	if (op->tx.bounce)
		op->mem[0] = NULL;
	return ret;
}

/* ---- waiting for the answer ---- */

void tagrv_rma_ask(struct tagrv_op *op)
{
	op->tx.rma->asked++;
	op->peer->rma.asked++;
}

void tagrv_rma_unask(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	assert(peer->rma.asked >= op->tx.rma->asked);
	peer->rma.asked -= op->tx.rma->asked;
	op->tx.rma->asked = 0;
	tagrv_rma_brought_data(op);
	/* What it held back, or lacked its place, can go on; it may be messages to come. */
	if (TAGRV_LIKELY(tagrv_list_empty(&peer->pending))) {
		if (TAGRV_UNLIKELY(!peer->plain_end))
			tagrv_peer_open_plain(peer);
	} else if (peer->state == TAGRV_PEER_READY) {
		tagrv_peer_set_busy(peer);
	}
}

void tagrv_rma_asked(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	op->lane = peer->lane;
	peer->sent++;
	tagrv_op_set_state(op, TAGRV_OP_ASKED);
	/* One that holds back others stays in front of them. */
	if (op->tx.rma->holds)
		return;
	tagrv_list_remove(&op->link);
	tagrv_list_push_tail(&peer->waiting, &op->link);
}

void tagrv_rma_take(struct tagrv_op *op)
{
	tagrv_list_remove(&op->link);
	tagrv_rma_unask(op);
}

/*
 * An op that is QUEUED again comes before all that have sent nothing. Behind one of which
 * packets were sent: the target knows by the next packet's operation where one ends.
 */
void tagrv_rma_queue_first(struct tagrv_peer *peer, struct tagrv_op *op)
{
	struct tagrv_list *first = tagrv_list_first(&peer->pending);
	const struct tagrv_op *begun = first ?
		tagrv_container_of(first, struct tagrv_op, link) : NULL;

	if (begun && begun->ops->start && begun->tx.rma->sent)
		tagrv_list_insert_after(first, &op->link);
	else
		tagrv_list_push_head(&peer->pending, &op->link);
	tagrv_peer_shut_plain(peer);
	if (peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
}

void tagrv_rma_requeue(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	tagrv_rma_take(op);
	tagrv_op_deregister(op);
	/* A read by the transport has others. */
	op->ops = ops_of(op->tx.rma->kind);
	op->tx.rma->by_packets = true;
	op->tx.rma->pulled = false;
	/* Packets keep the order without it. */
	op->tx.rma->holds = false;
	op->tx.rma->sent = 0;
	op->tx.rma->got = 0;
	tagrv_rma_sum_take_back(&peer->engine->stats.rma_tx, tagrv_rma_sum_of(op), op->len);
	tagrv_peer_uncount_sent(peer, 1);
	tagrv_op_set_state(op, TAGRV_OP_QUEUED);
	tagrv_rma_queue_first(peer, op);
}

bool tagrv_rma_fin(struct tagrv_op *op, int status)
{
	const struct tagrv_rma *r = op->tx.rma;

	tagrv_assert_locked(op->engine->dom);
	/* Bytes that were asked for come by ANSWERs. */
	if (!status && tagrv_rma_wants_answer(r) && op->len)
		return false;
	if (r->pulled && status == -FI_EAGAIN) {
		tagrv_rma_requeue(op);
		return true;
	}
	tagrv_rma_take(op);
	tagrv_op_rma_end(op, status);
	return true;
}
