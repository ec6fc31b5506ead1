/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Submitting one-sided operations. proto/rma/rma.h says what becomes of them.
 *
 *   nothing is queued for the peer --> its first packets are sent in this call
 *   else, or without room          --> queued on peer->pending, behind earlier operations
 *
 * What is injected is copied only if it is not sent in this call.
 */
#include <rdma/fi_errno.h>

#include "core/limits.h"
#include "engine/connect.h"
#include "engine/drive.h"
#include "engine/endpoint.h"
#include "object/lane.h"
#include "proto/rma/rma.h"

/* Whether the ranges of the target make sense. */
static int check_remote(const struct tagrv_rma_req *req)
{
	size_t len = 0;

	for (size_t i = 0; i < req->remote_cnt; i++) {
		uint64_t end;

		if (req->remote[i].len > TAGRV_MAX_MSG)
			return -FI_EMSGSIZE;
		if (__builtin_add_overflow(req->remote[i].addr, req->remote[i].len,
					   &end))
			return -FI_EINVAL;
		len += req->remote[i].len;
	}
	return len > TAGRV_MAX_MSG ? -FI_EMSGSIZE : 0;
}

/* Bytes that a call sends at most: other threads have their turn. */
#define CALL_BYTES	((size_t) 256 << 10)

/* Sends what there is room for, if no other operation is in front of the op. */
static void try_now(struct tagrv_peer *peer, struct tagrv_op *op)
{
	size_t bytes = 0;
	int ret = 0;

	if (op->link.prev != &peer->pending || peer->state != TAGRV_PEER_READY ||
	    peer->side_off_due || (op->flags & FI_FENCE && peer->sent))
		return;
	while (!ret && tagrv_list_first(&peer->pending) == &op->link &&
	       op->state == TAGRV_OP_QUEUED) {
		if (bytes >= CALL_BYTES) {
			/* No event wakes the progress thread for the rest. */
			tagrv_dom_kick(peer->engine->dom);
			return;
		}
		ret = op->ops->start(op, &bytes);
	}
}

static bool is_injected(const struct tagrv_rma_req *req)
{
	return req->no_context || req->flags & FI_INJECT;
}

/* The op was not sent at once, or not all of it. */
static int keep(struct tagrv_op *op, const struct tagrv_rma_req *req)
{
	int ret;

	if (!is_injected(req) || op->tx.bounce)
		return 0;
	ret = tagrv_rma_op_keep(op);
	if (!ret)
		return 0;
	tagrv_list_remove(&op->link);
	if (op->tx.rma->sent) {
		/* The target has a part of it: it is accepted, and fails. */
		op->ops->fail(op, ret);
		return 0;
	}
	tagrv_op_rma_free(op);
	return ret;
}

/* Operations are queued for the peer: progress goes on with them. */
static void wait_for_turn(struct tagrv_peer *peer)
{
	tagrv_peer_shut_plain(peer);
	if (peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
	else
		tagrv_peer_connect(peer);
}

/* Makes an op of the request and queues it. */
static int take(struct tagrv_engine *engine, const struct tagrv_rma_req *req,
		struct tagrv_peer **peer, struct tagrv_op **op)
{
	int ret = check_remote(req);

	if (!ret)
		ret = tagrv_peer_of(engine, req->dest, peer);
	if (!ret)
		ret = tagrv_rma_op_get(engine, *peer, req, op);
	if (ret == -FI_EAGAIN)
		tagrv_engine_note_refusal(engine);
	if (ret)
		return ret;
	(*peer)->rma.begun++;
	tagrv_list_push_tail(&(*peer)->pending, &(*op)->link);
	return 0;
}

bool tagrv_engine_store(struct tagrv_engine *engine, fi_addr_t dest, const void *buf,
			size_t len, uint64_t addr, uint64_t key)
{
	struct tagrv_peer *peer;
	uint64_t end;

	tagrv_assert_locked(engine->dom);
	if (TAGRV_UNLIKELY(dest >= engine->table.by_addr_cnt ||
			   __builtin_add_overflow(addr, len, &end)))
		return false;
	peer = engine->table.by_addr[dest];
	if (TAGRV_UNLIKELY(!peer) ||
	    TAGRV_UNLIKELY(tagrv_rma_store_counted(peer, buf, len, addr, key)))
		return false;
	peer->rma.begun++;
	return true;
}

ssize_t tagrv_engine_rma(struct tagrv_engine *engine,
			 const struct tagrv_rma_req *req)
{
	struct tagrv_peer *peer;
	struct tagrv_op *op;
	uint32_t handle;
	int ret;

	tagrv_assert_locked(engine->dom);
	if (!engine->enabled)
		return -FI_EOPBADSTATE;
	ret = take(engine, req, &peer, &op);
	if (ret)
		return ret;
	handle = op->node.handle;
	try_now(peer, op);
	/* The connection may have failed meanwhile, and the op with it. */
	if (tagrv_pool_find(&engine->pools.tx_ops, handle) != op)
		return 0;
	if (op->state == TAGRV_OP_QUEUED) {
		ret = keep(op, req);
		if (ret)
			return ret;
	}
	if (!tagrv_list_empty(&peer->pending))
		wait_for_turn(peer);
	return 0;
}
