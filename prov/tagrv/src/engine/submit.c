/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Submitting sends.
 *
 * The shortest way is in fast.h. The next one: the peer is connected, nothing is queued before the message, it fits
 * one packet, and no later event has to be awaited: one transport send, no op.
 * A tagged inject that lacks only room in a transport with a gate, or credit, is not
 * taken: its caller repeats it. Queued, it would make all later ones wait behind it, and
 * a sender that is faster than its receiver would queue thousands, which the receiver
 * would have to keep. If credit does not come, it is queued, and announced.
 * Every other send gets an op on the peer's pending queue, which keeps the order of
 * submits. Messages that wait there may share a packet: proto/batch.c.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "core/iov.h"
#include "core/limits.h"
#include "core/trace.h"
#include "engine/connect.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "engine/fast.h"
#include "object/lane.h"
#include "object/op.h"
#include "proto/batch.h"
#include "proto/eager.h"
#include "proto/sent.h"
#include "proto/serve.h"

static void fill_op(struct tagrv_op *op, struct tagrv_engine *engine,
		    struct tagrv_peer *peer, const struct tagrv_send_req *req)
{
	tagrv_op_start(op, TAGRV_OP_QUEUED);
	op->space = req->space;
	op->iov_cnt = (uint8_t) req->iov_cnt;
	op->own_mem = 0;
	op->born = engine->dom->clock.tick;
	op->ops = &tagrv_eager_ops;
	op->done.fn = tagrv_sent_done;
	op->engine = engine;
	op->peer = peer;
	op->context = req->context;
	op->flags = req->flags;
	op->tag = req->tag;
	op->data = req->data;
	op->status = 0;
	op->tx.bounce = NULL;
	op->tx.no_context = req->no_context;
	op->tx.rma = NULL;
	op->len = 0;
	for (size_t i = 0; i < req->iov_cnt; i++) {
		op->iov[i] = req->iov[i];
		op->mem[i] = req->mem ? req->mem[i] : NULL;
		op->len += req->iov[i].iov_len;
	}
	tagrv_list_init(&op->link);
	tagrv_trace_op_state(op, op->node.handle, TAGRV_OP_FREE,
			     TAGRV_OP_QUEUED, peer, req->tag);
}

/*
 * FI_MORE: whether the message, the last of the queue, may wait for the next one.
 * A message that is held back is sent with the next send to the peer without the
 * flag, when a packet is full, or by progress. first: none was queued before it.
 */
static bool hold_back(struct tagrv_peer *peer, const struct tagrv_op *op,
		      bool first)
{
	size_t room = tagrv_batch_room(op);

	if (first)
		peer->held = 0;
	if (!(op->flags & FI_MORE) || !room || !(first || peer->held))
		return false;
	peer->held += room;
	/* The progress thread may sleep. */
	if (first && peer->engine->dom->auto_progress)
		tagrv_dom_kick(peer->engine->dom);
	return peer->held < peer->packet_limit;
}

/* Sends the op queued last now, or leaves it to progress behind earlier ones. */
static void submit_queued(struct tagrv_peer *peer, const struct tagrv_op *op)
{
	bool first = op->link.prev == &peer->pending;

	if (peer->state != TAGRV_PEER_READY) {
		tagrv_peer_connect(peer);
		return;
	}
	tagrv_peer_set_busy(peer);
	if (!hold_back(peer, op, first) && (first || peer->held))
		tagrv_peer_serve(peer);
}

static ssize_t send_queued(struct tagrv_engine *engine, struct tagrv_peer *peer,
			   const struct tagrv_send_req *req)
{
	struct tagrv_op *op = tagrv_pool_get(&engine->pools.tx_ops);
	int ret;

	if (TAGRV_UNLIKELY(!op))
		return tagrv_pool_why(&engine->pools.tx_ops);
	fill_op(op, engine, peer, req);
	if (req->no_context || (req->flags & FI_INJECT)) {
		ret = tagrv_engine_copy_injected(engine, op->iov, &op->iov_cnt,
						 &op->tx.bounce);
		if (ret) {
			tagrv_op_set_free(op);
			tagrv_pool_put(&engine->pools.tx_ops, op);
			return ret;
		}
	}
	tagrv_list_push_tail(&peer->pending, &op->link);
	tagrv_peer_shut_plain(peer);
	submit_queued(peer, op);
	return 0;
}

/*
 * Makes room. Finished sends are reaped here, because a caller may repeat the
 * send for ever without reading a queue.
 */
static void reap(struct tagrv_engine *engine, struct tagrv_peer *peer)
{
	if (peer->lane)
		tagrv_peer_xport(peer)->ops->reap(tagrv_peer_xport(peer));
	else
		tagrv_rails_reap(&engine->rails);
}

static ssize_t try_fast(struct tagrv_engine *engine, struct tagrv_peer *peer,
			const struct tagrv_send_req *req, size_t len)
{
	int ret;

	if (peer->state != TAGRV_PEER_READY ||
	    !tagrv_list_empty(&peer->pending))
		return -FI_EAGAIN;
	ret = tagrv_eager_send(peer, req, len, 0, NULL);
	if (!ret)
		tagrv_op_send_report(engine, req);
	return ret;
}

/* Whether the send is such an inject. */
static bool is_repeated(const struct tagrv_peer *peer,
			const struct tagrv_send_req *req, size_t len)
{
	return tagrv_eager_is_held_up(peer, len) && req->no_context &&
	       req->space == TAGRV_SPACE_TAGGED && req->iov_cnt == 1 &&
	       !(req->flags & TAGRV_NEEDS_OP);
}

static ssize_t send_repeated(struct tagrv_engine *engine, struct tagrv_peer *peer,
			     const struct tagrv_send_req *req, size_t len)
{
	int ret = tagrv_eager_repeat(peer, req, len);

	if (!ret)
		tagrv_op_send_report(engine, req);
	else if (ret == -FI_EAGAIN)
		tagrv_engine_note_refusal(engine);
	return ret;
}

static bool lacks_credit(const struct tagrv_peer *peer, size_t len)
{
	return peer->state == TAGRV_PEER_READY && len <= peer->eager_limit &&
	       tagrv_credit_units(len) > peer->credit.left;
}

ssize_t tagrv_engine_send(struct tagrv_engine *engine,
			  const struct tagrv_send_req *req)
{
	size_t len = tagrv_iov_len(req->iov, req->iov_cnt);
	struct tagrv_peer *peer;
	ssize_t ret;

	tagrv_assert_locked(engine->dom);
	if (TAGRV_UNLIKELY(!engine->enabled))
		return -FI_EOPBADSTATE;
	if (TAGRV_UNLIKELY(len > TAGRV_MAX_MSG))
		return -FI_EMSGSIZE;
	ret = tagrv_peer_of(engine, req->dest, &peer);
	if (TAGRV_UNLIKELY(ret))
		return ret;
	if (TAGRV_UNLIKELY(is_repeated(peer, req, len))) {
		ret = send_repeated(engine, peer, req, len);
		if (ret != -FI_ENOSPC)
			return ret;
	}
	if (TAGRV_LIKELY(tagrv_eager_fits(peer, len, peer->credit.left) &&
			 !(req->flags & TAGRV_NEEDS_OP))) {
		ret = try_fast(engine, peer, req, len);
		if (TAGRV_LIKELY(!ret))
			return 0;
		if (ret != -FI_EAGAIN && ret != -FI_ENOTCONN)
			return ret;
	}
	/* Credit may have come since the application last read a queue. */
	if (TAGRV_UNLIKELY(lacks_credit(peer, len)))
		tagrv_dom_look(engine->dom);
	ret = send_queued(engine, peer, req);
	if (TAGRV_UNLIKELY(ret == -FI_EAGAIN || ret == -FI_ENOMEM)) {
		reap(engine, peer);
		/* Sends queued before go first. */
		while (tagrv_list_linked(&peer->busy_node) &&
		       tagrv_peer_serve(peer))
			;
		ret = send_queued(engine, peer, req);
		if (ret == -FI_ENOMEM)
			tagrv_dom_no_memory(engine->dom, "send");
		if (ret)
			tagrv_engine_note_refusal(engine);
	}
	return ret;
}
