/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends: from the request to a packet, at once where possible.
 *
 * Fast path: connected, nothing queued before it, fits one packet, and no
 * later event has to be awaited: one transport send, no op. Everything else
 * gets an op on the peer's pending queue, which keeps the order of submits.
 * What waits there may travel together: batch.c.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <string.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

/* What is awaited, or held back: both need an op. */
#define NEEDS_OP	(TAGRV_ACK_LEVELS | FI_TRANSMIT_COMPLETE | FI_MORE | \
			 FI_FENCE)

/* Others of the same packet are behind its leader in a ring without head. */
static void wire_done(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);
	struct tagrv_list others, *node;

	status = tagrv_lane_reason(op->lane, status);
	tagrv_list_init(&others);
	tagrv_list_splice_tail(&others, &op->link);
	tagrv_op_send_end(op, status);
	while ((node = tagrv_list_pop(&others)))
		tagrv_op_send_end(tagrv_container_of(node, struct tagrv_op,
						     link), status);
}

/* It was sent and something is awaited: a fence counts it until it ends. */
static void leave_pending(struct tagrv_op *op, enum tagrv_op_state state)
{
	tagrv_list_remove(&op->link);
	op->state = state;
	op->peer->sent++;
}

void tagrv_send_taken(struct tagrv_op *op, struct tagrv_op *leader)
{
	struct tagrv_peer *peer = op->peer;

	if (tagrv_op_awaits_fin(op)) {
		leave_pending(op, TAGRV_OP_FIN_WAIT);
		tagrv_list_push_tail(&peer->waiting, &op->link);
	} else if (tagrv_op_awaits_wire(op)) {
		leave_pending(op, TAGRV_OP_WIRE);
		op->lane = peer->lane;
		if (op != leader)
			tagrv_list_push_tail(&leader->link, &op->link);
	} else {
		tagrv_list_remove(&op->link);
		tagrv_op_send_end(op, 0);
	}
}

static struct tagrv_send_req request_of(struct tagrv_op *op)
{
	return (struct tagrv_send_req) {
		.iov = op->iov,
		.mem = op->mem,
		.iov_cnt = op->iov_cnt,
		.tag = op->tag,
		.data = op->data,
		.flags = op->flags,
		.space = op->space,
	};
}

static int send_eager_op(struct tagrv_op *op)
{
	struct tagrv_send_req req = request_of(op);
	int ret;

	ret = tagrv_eager_send(op->peer, &req, op->len,
			       tagrv_op_awaits_fin(op) ? op->node.handle : 0,
			       tagrv_op_awaits_wire(op) ? &op->done : NULL);
	if (!ret)
		tagrv_send_taken(op, op);
	return ret;
}

/* The device has it. A FIN that is due may have been faster. */
static void prepared_done(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);
	struct tagrv_peer *peer = op->peer;

	if (op->acked || !tagrv_op_awaits_fin(op) || status) {
		tagrv_op_send_end(op, op->acked ? op->status :
				  tagrv_lane_reason(op->lane, status));
	} else if (peer->lane == op->lane) {
		op->state = TAGRV_OP_FIN_WAIT;
		tagrv_list_push_tail(&peer->waiting, &op->link);
	} else {
		tagrv_op_send_end(op, -FI_ECONNRESET);
	}
}

bool tagrv_send_prepared_acked(struct tagrv_op *op, int status)
{
	if (op->state != TAGRV_OP_WIRE || op->done.fn != prepared_done ||
	    !tagrv_op_awaits_fin(op) || op->acked)
		return false;
	op->acked = true;
	op->status = status;
	return true;
}

/* From where it lies. What is a copy of ours, or cannot be registered, is copied. */
static int send_prepared_op(struct tagrv_op *op)
{
	struct tagrv_send_req req = request_of(op);
	struct tagrv_peer *peer = op->peer;
	int ret;

	if (op->bounce ||
	    tagrv_op_register(op, peer->lane->link->xport->dev, op->len, 0))
		return send_eager_op(op);
	ret = tagrv_eager_send_prepared(peer, &req, op->len,
					tagrv_op_awaits_fin(op) ?
					op->node.handle : 0, &op->done);
	if (ret)
		return ret;
	leave_pending(op, TAGRV_OP_WIRE);
	op->done.fn = prepared_done;
	op->acked = false;
	op->lane = peer->lane;
	return 0;
}

/* A pipeline is for buffers whose registration costs something, prepared not. */
static bool is_known(const struct tagrv_op *op)
{
	return tagrv_op_was_registered(op, op->peer->lane->link->xport->dev);
}

static bool is_eager(enum tagrv_proto proto)
{
	return proto == TAGRV_PROTO_EAGER || proto == TAGRV_PROTO_EAGER_PREP;
}

/* By the table, which is for our own packets: those of a peer may be shorter. */
static enum tagrv_proto by_size(const struct tagrv_op *op)
{
	const struct tagrv_peer *peer = op->peer;
	const struct tagrv_select_range *range;
	size_t len = op->len;

	if (len <= peer->eager_limit)
		return TAGRV_PROTO_EAGER;
	range = tagrv_select_find(peer->select, len);
	if (range->proto == TAGRV_PROTO_RNDV_PIPE &&
	    range->reason != TAGRV_SELECT_FORCED &&
	    !op->engine->dom->select.rndv && is_known(op))
		return TAGRV_PROTO_RNDV_READ;
	if (!is_eager(range->proto))
		return range->proto;
	if (len > peer->packet_limit)
		return tagrv_select_instead(peer->select, len);
	return range->reason != TAGRV_SELECT_FORCED &&
	       len >= peer->select->prepared && is_known(op) ?
	       TAGRV_PROTO_EAGER_PREP : range->proto;
}

static bool has_credit(const struct tagrv_peer *peer, size_t len)
{
	return tagrv_credit_units(len) <= peer->credit.left;
}

/* Small messages are what counts: no table for them. */
static inline bool goes_eager(const struct tagrv_peer *peer, size_t len)
{
	return tagrv_send_goes_eager(peer, len, peer->credit.left);
}

static int send_announced(struct tagrv_op *op, enum tagrv_proto proto)
{
	struct tagrv_peer *peer = op->peer;
	int ret = tagrv_rndv_send(op, proto);

	if (ret == -FI_ENOMEM)
		return send_eager_op(op);
	if (ret)
		return ret;
	leave_pending(op, TAGRV_OP_ANNOUNCED);
	tagrv_list_push_tail(&peer->waiting, &op->link);
	peer->engine->stats.buffered += op->bounce != NULL;
	return 0;
}

/* Of a peer that is connected. What it has no room for is announced only. */
static TAGRV_COLD int send_by_table(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	enum tagrv_proto proto = by_size(op);
	int ret;

	if (!is_eager(proto))
		return send_announced(op, proto);
	if (has_credit(peer, op->len))
		return proto == TAGRV_PROTO_EAGER ? send_eager_op(op) :
						    send_prepared_op(op);
	ret = send_announced(op, tagrv_select_instead(peer->select, op->len));
	peer->engine->stats.no_credit += !ret;
	return ret;
}

static int send_op(struct tagrv_op *op)
{
	return goes_eager(op->peer, op->len) ? send_eager_op(op) :
					       send_by_table(op);
}

int tagrv_send_next(struct tagrv_peer *peer, size_t *bytes)
{
	struct tagrv_op *op = tagrv_container_of(
		tagrv_list_first(&peer->pending), struct tagrv_op, link);
	size_t len = TAGRV_MIN(op->len, peer->packet_limit), cnt = 0;
	int ret;

	/* The pass that ends the last of those before it comes here again. */
	if (tagrv_send_is_fenced(op))
		return -FI_EAGAIN;
	ret = tagrv_batch_send(peer, &cnt);
	if (cnt)
		*bytes += peer->packet_limit;
	if (ret != -FI_ENOENT)
		return ret;
	*bytes += len + sizeof(struct tagrv_hdr);
	return send_op(op);
}

/* A buffer that the caller may reuse on return is copied now. */
static int copy_injected(struct tagrv_op *op, const struct tagrv_send_req *req)
{
	uint8_t class = TAGRV_BUF_CLASSES - 2;
	struct tagrv_buf *buf;

	if (!op->len)
		return 0;
	buf = tagrv_engine_buf_get(op->engine, TAGRV_INJECT_MAX, &class);
	if (!buf)
		return -FI_EAGAIN;
	tagrv_iov_gather(buf->bytes, req->iov, req->iov_cnt);
	op->bounce = buf->bytes;
	op->iov[0] = (struct iovec) { buf->bytes, op->len };
	op->iov_cnt = 1;
	return 0;
}

static void fill_op(struct tagrv_op *op, struct tagrv_engine *engine,
		    struct tagrv_peer *peer, const struct tagrv_send_req *req)
{
	op->state = TAGRV_OP_QUEUED;
	op->space = req->space;
	op->iov_cnt = (uint8_t) req->iov_cnt;
	op->own_mem = 0;
	op->no_context = req->no_context;
	op->done.fn = wire_done;
	op->engine = engine;
	op->peer = peer;
	op->context = req->context;
	op->flags = req->flags;
	op->tag = req->tag;
	op->data = req->data;
	op->bounce = NULL;
	op->len = 0;
	for (size_t i = 0; i < req->iov_cnt; i++) {
		op->iov[i] = req->iov[i];
		op->mem[i] = req->mem ? req->mem[i] : NULL;
		op->len += req->iov[i].iov_len;
	}
	tagrv_list_init(&op->link);
}

/*
 * FI_MORE: whether the message, the last of the queue, may wait for the one to
 * come. Who holds back is served by the next send to the peer without the flag,
 * when a packet is full, or by progress. first: none was queued before it.
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
	if (first && peer->engine->dom->auto_progress)
		tagrv_dom_kick(peer->engine->dom);	/* who may sleep */
	return peer->held < peer->packet_limit;
}

/* What was queued last: now, or in progress behind what found no room before. */
static void submit_queued(struct tagrv_peer *peer, const struct tagrv_op *op)
{
	bool first = op->link.prev == &peer->pending;

	if (peer->state != TAGRV_PEER_READY) {
		tagrv_peer_want(peer);
		return;
	}
	tagrv_peer_set_busy(peer);
	if (!hold_back(peer, op, first) && (first || peer->held))
		tagrv_peer_serve(peer);
}

static ssize_t send_queued(struct tagrv_engine *engine, struct tagrv_peer *peer,
			   const struct tagrv_send_req *req)
{
	struct tagrv_op *op = tagrv_pool_get(&engine->tx_ops);
	int ret;

	if (TAGRV_UNLIKELY(!op))
		return -FI_EAGAIN;
	fill_op(op, engine, peer, req);
	if (req->no_context || (req->flags & FI_INJECT)) {
		ret = copy_injected(op, req);
		if (ret) {
			tagrv_pool_put(&engine->tx_ops, op);
			return ret;
		}
	}
	tagrv_list_push_tail(&peer->pending, &op->link);
	submit_queued(peer, op);
	return 0;
}

/*
 * No room: finished sends are reaped here, because a caller may repeat this
 * call for ever without reading a queue.
 */
static void reap(struct tagrv_engine *engine, struct tagrv_peer *peer)
{
	if (peer->lane)
		peer->lane->link->xport->ops->reap(peer->lane->link->xport);
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

ssize_t tagrv_engine_send(struct tagrv_engine *engine,
			  const struct tagrv_send_req *req)
{
	size_t len = tagrv_iov_len(req->iov, req->iov_cnt);
	struct tagrv_peer *peer;
	ssize_t ret;

	if (TAGRV_UNLIKELY(!engine->enabled))
		return -FI_EOPBADSTATE;
	if (TAGRV_UNLIKELY(len > TAGRV_MAX_MSG))
		return -FI_EMSGSIZE;
	ret = tagrv_peer_of(engine, req->dest, &peer);
	if (TAGRV_UNLIKELY(ret))
		return ret;
	if (TAGRV_LIKELY(goes_eager(peer, len) &&
			 !(req->flags & NEEDS_OP))) {
		ret = try_fast(engine, peer, req, len);
		if (TAGRV_LIKELY(!ret))
			return 0;
		if (ret != -FI_EAGAIN && ret != -FI_ENOTCONN)
			return ret;
	}
	ret = send_queued(engine, peer, req);
	if (ret == -FI_EAGAIN) {
		reap(engine, peer);
		/* What was queued before goes first. */
		while (tagrv_list_linked(&peer->busy_node) &&
		       tagrv_peer_serve(peer))
			;
		ret = send_queued(engine, peer, req);
	}
	return ret;
}
