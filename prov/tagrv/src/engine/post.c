/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posting receives, and taking them back.
 *
 * A receive belongs to the receive context until a message matches it. A
 * multi-receive buffer stays posted ('keep') while it has room: object/op_multi.c.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "core/trace.h"
#include "engine/endpoint.h"
#include "object/engine.h"
#include "object/op.h"
#include "object/peer.h"
#include "proto/peek.h"
#include "proto/unexp.h"

static void fill_op(struct tagrv_op *op, struct tagrv_rx *rx,
		    const struct tagrv_recv_req *req)
{
	tagrv_op_start(op, TAGRV_OP_POSTED);
	op->space = req->space;
	op->iov_cnt = (uint8_t) req->iov_cnt;
	op->own_mem = 0;
	op->born = rx->dom->clock.tick;
	op->context = req->context;
	op->flags = req->flags;
	op->tag = req->tag;
	op->status = 0;
	op->rx.rx = rx;
	op->rx.room = 0;
	op->rx.parent = NULL;
	op->rx.multi = req->flags & FI_MULTI_RECV && req->iov_cnt == 1;
	if (TAGRV_UNLIKELY(op->rx.multi)) {
		op->rx.match_id = 0;
		op->rx.used = 0;
		op->rx.slices = 0;
		op->rx.retired = false;
	}
	for (size_t i = 0; i < req->iov_cnt; i++) {
		op->iov[i] = req->iov[i];
		op->mem[i] = req->mem ? req->mem[i] : NULL;
		op->rx.room += req->iov[i].iov_len;
	}
	tagrv_list_init(&op->link);
	tagrv_trace_op_state(op, op->node.handle, TAGRV_OP_FREE,
			     TAGRV_OP_POSTED, NULL, 0);
}

/*
 * Unexpected messages fill a multi-receive buffer before it is posted. The slice
 * count is held up, so that the last of them does not release it. Returns how
 * many there were.
 */
static size_t fill_multi(struct tagrv_op *op,
			 const struct tagrv_match_want *want)
{
	struct tagrv_match *match = op->rx.rx->match;
	struct tagrv_match_msg *msg;
	size_t cnt = 0;

	op->rx.slices++;
	for (; !op->rx.retired && (msg = tagrv_match_claim(match, want)); cnt++)
		tagrv_unexp_deliver(msg->user, op);
	op->rx.slices--;
	return cnt;
}

static int post(struct tagrv_op *op, const struct tagrv_match_want *want)
{
	struct tagrv_match_msg *msg;
	size_t filled = 0;
	int ret = 0;

	if (op->rx.multi)
		filled = fill_multi(op, want);
	if (!op->rx.multi || !op->rx.retired)
		ret = tagrv_match_post(op->rx.rx->match, want, op,
				       &op->rx.match_id, &msg);
	if (ret == 1) {
		tagrv_unexp_deliver(msg->user, op);
		return 0;
	}
	/* A buffer that has messages was accepted: it ends as if it were full. */
	if (ret && filled)
		op->rx.retired = true;
	if (!op->rx.multi || !op->rx.retired)
		return ret;
	tagrv_op_multi_check(op);
	return 0;
}

/* FI_CLAIM: receives the message that a peek with this context set aside. */
static ssize_t receive_claimed(struct tagrv_rx *rx,
			       const struct tagrv_recv_req *req)
{
	struct tagrv_umsg *umsg;
	struct tagrv_op *op;

	op = tagrv_pool_get(&rx->ops);
	if (!op)
		return -FI_EAGAIN;
	umsg = tagrv_peek_claimed(rx, req);
	if (!umsg) {
		tagrv_pool_put(&rx->ops, op);
		return 0;
	}
	fill_op(op, rx, req);
	op->rx.multi = false;
	tagrv_unexp_deliver(umsg, op);
	return 0;
}

static ssize_t peek(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
		    uint32_t match_id)
{
	struct tagrv_list *node;
	ssize_t ret = tagrv_peek(rx, req, match_id);

	if (ret != -FI_ENOMSG)
		return ret;
	/* The message may be in a queue of a device: look once. */
	tagrv_list_for_each(&rx->engines, node)
		tagrv_engine_progress(tagrv_container_of(
			node, struct tagrv_engine, rx_node));
	ret = tagrv_peek(rx, req, match_id);
	if (ret != -FI_ENOMSG)
		return ret;
	tagrv_peek_report_none(rx, req);
	return 0;
}

/* All engines of a context know a peer by the same number. */
static int find_source(struct tagrv_rx *rx, fi_addr_t src, uint32_t *match_id)
{
	struct tagrv_peer *peer;
	int ret;

	if (TAGRV_UNLIKELY(!rx->first))
		return -FI_EINVAL;
	ret = tagrv_peer_of(rx->first, src, &peer);
	if (TAGRV_LIKELY(!ret))
		*match_id = peer->match_id;
	return ret;
}

ssize_t tagrv_rx_recv(struct tagrv_rx *rx, const struct tagrv_recv_req *req)
{
	struct tagrv_match_want want = {
		.tag = req->tag,
		.ignore = req->ignore,
		.peer = TAGRV_MATCH_ANY,
		.space = req->space,
	};
	struct tagrv_op *op;
	ssize_t ret;

	tagrv_assert_locked(rx->dom);
	if (req->flags & FI_CLAIM && !(req->flags & FI_PEEK))
		return receive_claimed(rx, req);
	if (rx->directed && req->src != FI_ADDR_UNSPEC) {
		ret = find_source(rx, req->src, &want.peer);
		if (TAGRV_UNLIKELY(ret))
			return ret;
	}
	if (req->flags & FI_PEEK)
		return peek(rx, req, want.peer);
	op = tagrv_pool_get(&rx->ops);
	if (TAGRV_UNLIKELY(!op))
		return -FI_EAGAIN;
	fill_op(op, rx, req);
	want.keep = op->rx.multi;
	ret = post(op, &want);
	if (TAGRV_UNLIKELY(ret)) {
		tagrv_op_set_free(op);
		tagrv_pool_put(&rx->ops, op);
	}
	return ret;
}

/* ---- cancel ---- */

static void *context_of(void *cookie)
{
	return ((struct tagrv_op *) cookie)->context;
}

static void end_cancelled(struct tagrv_op *op)
{
	const struct tagrv_comp comp = {
		.context = op->context,
		.flags = tagrv_op_comp_flags(op->space, false),
		.buf = op->iov_cnt ? op->iov[0].iov_base : NULL,
		.tag = op->tag,
		.src = FI_ADDR_NOTAVAIL,
		.err = FI_ECANCELED,
	};
	struct tagrv_rx *rx = op->rx.rx;

	tagrv_op_set_free(op);
	tagrv_pool_put(&rx->ops, op);
	tagrv_rx_report_error(rx, &comp);
}

int tagrv_rx_cancel(struct tagrv_rx *rx, void *context)
{
	tagrv_match_id id = tagrv_match_find_name(rx->match, context_of,
						  context);
	struct tagrv_op *op;
	void *cookie;

	tagrv_assert_locked(rx->dom);
	if (!id || tagrv_match_cancel(rx->match, id, &cookie))
		return -FI_ENOENT;
	op = cookie;
	if (op->rx.multi) {
		/* Where slices of it are under way, their end releases it. */
		op->rx.retired = true;
		op->status = -FI_ECANCELED;
		tagrv_op_multi_check(op);
		return 0;
	}
	end_cancelled(op);
	return 0;
}
