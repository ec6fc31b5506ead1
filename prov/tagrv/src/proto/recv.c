/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives: posting, delivery into the buffer, multi-receive buffers, cancel.
 *
 * A multi-receive buffer stays posted ('keep') while min_multi_recv bytes are
 * left. Each message becomes a slice, packed behind the one before. The buffer
 * is released by one entry that carries FI_MULTI_RECV alone (or with the error
 * FI_ECANCELED), after the last slice was reported.
 *
 * A receive gets its endpoint with its message: until then it is the context's.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <string.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

static void set_message(struct tagrv_op *op, struct tagrv_peer *peer,
			const struct tagrv_hdr *hdr, size_t len)
{
	op->engine = peer->engine;
	op->peer = peer;
	op->tag = hdr->tag;
	op->data = hdr->data;
	op->pkt_flags = hdr->flags;
	op->len = len;
}

/* Retires a buffer that is too full to stay posted. */
static void multi_use(struct tagrv_op *parent, size_t bytes)
{
	struct tagrv_rx *rx = parent->rx;
	void *cookie;

	parent->used += bytes;
	if (parent->room - parent->used >= rx->min_multi_recv &&
	    parent->room > parent->used)
		return;
	parent->retired = true;
	/* While unexpected messages fill it, it was never queued. */
	if (parent->match_id &&
	    tagrv_match_cancel(rx->match, parent->match_id, &cookie))
		assert(!"a kept receive is queued until retired");
}

void tagrv_recv_multi_check(struct tagrv_op *parent)
{
	struct tagrv_rx *rx = parent->rx;
	struct tagrv_comp comp = {
		.context = parent->context,
		.flags = FI_MULTI_RECV,
		.src = FI_ADDR_NOTAVAIL,
		.err = -parent->status,
	};

	if (!parent->retired || parent->slices)
		return;
	if (parent->status) {
		comp.flags |= tagrv_op_comp_flags(parent->space, false);
		comp.tag = parent->tag;
		tagrv_rx_report_error(rx, &comp);
	} else {
		tagrv_rx_report(rx, &comp);
	}
	tagrv_pool_put(&rx->ops, parent);
}

/* A receive of its own for one message into the parent's next free bytes. */
static struct tagrv_op *slice_get(struct tagrv_op *parent, size_t len)
{
	struct tagrv_op *op = tagrv_pool_get(&parent->rx->slices);
	size_t room = TAGRV_MIN(len, parent->room - parent->used);

	if (!op)
		return NULL;
	op->state = TAGRV_OP_POSTED;
	op->space = parent->space;
	op->multi = false;
	op->own_mem = 0;
	op->rx = parent->rx;
	op->flags = parent->flags;
	op->parent = parent;
	op->room = room;
	op->iov_cnt = 1;
	op->iov[0].iov_base = (char *) parent->iov[0].iov_base + parent->used;
	op->iov[0].iov_len = room;
	op->mem[0] = parent->mem[0];
	tagrv_list_init(&op->link);
	parent->slices++;
	return op;
}

/* The receive a message of len bytes goes to; NULL: out of memory. */
static struct tagrv_op *receiver(struct tagrv_op *op, size_t len)
{
	struct tagrv_op *slice;

	if (!op->multi)
		return op;
	slice = slice_get(op, len);
	if (slice)
		multi_use(op, slice->room);
	return slice;
}

/* A message that a multi-receive buffer cannot have: it stays posted. */
static void slice_lost(struct tagrv_op *parent, const struct tagrv_peer *peer,
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

void tagrv_recv_eager(struct tagrv_op *target, struct tagrv_peer *peer,
		      const struct tagrv_hdr *hdr, const void *payload,
		      size_t len)
{
	struct tagrv_op *op = receiver(target, len);

	if (TAGRV_UNLIKELY(!op)) {
		if (tagrv_hdr_wants_fin(hdr->flags, hdr->op))
			tagrv_peer_fin(peer, hdr->op, -FI_ENOMEM);
		slice_lost(target, peer, hdr->tag, -FI_ENOMEM);
		return;
	}
	set_message(op, peer, hdr, len);
	tagrv_iov_scatter(op->iov, op->iov_cnt, payload,
			  TAGRV_MIN(len, op->room));
	/* It may leave at once, and says that the bytes are in place. */
	if (tagrv_hdr_wants_fin(hdr->flags, hdr->op))
		tagrv_peer_fin(peer, hdr->op, 0);
	tagrv_op_recv_end(op, 0);
}

void tagrv_recv_rndv(struct tagrv_op *target, struct tagrv_peer *peer,
		     const struct tagrv_hdr *hdr,
		     const struct tagrv_remote *remote)
{
	struct tagrv_op *op = receiver(target, remote->len);

	if (TAGRV_UNLIKELY(!op)) {
		tagrv_peer_fin(peer, remote->op, -FI_ENOMEM);
		slice_lost(target, peer, hdr->tag, -FI_ENOMEM);
		return;
	}
	set_message(op, peer, hdr, remote->len);
	op->remote = *remote;
	tagrv_rndv_take(op);
}

void tagrv_recv_lost(struct tagrv_op *op, struct tagrv_peer *peer,
		     const struct tagrv_hdr *hdr)
{
	if (op->multi) {
		slice_lost(op, peer, hdr->tag, -FI_ECONNRESET);
		return;
	}
	set_message(op, peer, hdr, 0);
	tagrv_op_recv_end(op, -FI_ECONNRESET);
}

static void fill_op(struct tagrv_op *op, struct tagrv_rx *rx,
		    const struct tagrv_recv_req *req)
{
	op->state = TAGRV_OP_POSTED;
	op->space = req->space;
	op->iov_cnt = (uint8_t) req->iov_cnt;
	op->own_mem = 0;
	op->no_context = false;
	op->multi = req->flags & FI_MULTI_RECV && req->iov_cnt == 1;
	op->rx = rx;
	op->context = req->context;
	op->flags = req->flags;
	op->tag = req->tag;
	op->data = 0;
	op->len = 0;
	op->pkt_flags = 0;
	op->room = 0;
	op->parent = NULL;
	op->match_id = 0;
	op->used = 0;
	op->slices = 0;
	op->retired = false;
	op->status = 0;
	for (size_t i = 0; i < req->iov_cnt; i++) {
		op->iov[i] = req->iov[i];
		op->mem[i] = req->mem ? req->mem[i] : NULL;
		op->room += req->iov[i].iov_len;
	}
	tagrv_list_init(&op->link);
}

/*
 * Messages that are here already fill a multi-receive buffer first. The slice
 * count is held up, so that the last of them does not release it. Returns how
 * many there were.
 */
static size_t fill_multi(struct tagrv_op *op,
			 const struct tagrv_match_want *want)
{
	struct tagrv_match *match = op->rx->match;
	struct tagrv_match_msg *msg;
	size_t cnt = 0;

	op->slices++;
	for (; !op->retired && (msg = tagrv_match_claim(match, want)); cnt++)
		tagrv_unexp_deliver(msg->user, op);
	op->slices--;
	return cnt;
}

static int post(struct tagrv_op *op, const struct tagrv_match_want *want)
{
	struct tagrv_match_msg *msg;
	size_t filled = 0;
	int ret = 0;

	if (op->multi)
		filled = fill_multi(op, want);
	if (!op->retired)
		ret = tagrv_match_post(op->rx->match, want, op, &op->match_id,
				       &msg);
	if (ret == 1) {
		tagrv_unexp_deliver(msg->user, op);
		return 0;
	}
	/* What took messages was accepted: it ends as if it were full. */
	if (ret && filled)
		op->retired = true;
	if (!op->retired)
		return ret;
	tagrv_recv_multi_check(op);
	return 0;
}

/* FI_CLAIM: the message that a peek with this context took aside. */
static ssize_t receive_claimed(struct tagrv_rx *rx,
			       const struct tagrv_recv_req *req)
{
	struct tagrv_umsg *umsg;
	struct tagrv_op *op;
	ssize_t ret;

	op = tagrv_pool_get(&rx->ops);
	if (!op)
		return -FI_EAGAIN;
	ret = tagrv_unexp_claimed(rx, req, &umsg);
	if (ret || !umsg) {
		tagrv_pool_put(&rx->ops, op);
		return ret;
	}
	fill_op(op, rx, req);
	op->multi = false;
	tagrv_unexp_deliver(umsg, op);
	return 0;
}

/* All engines know the peers of one table by the same numbers. */
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

	if (req->flags & FI_CLAIM && !(req->flags & FI_PEEK))
		return receive_claimed(rx, req);
	if (rx->directed && req->src != FI_ADDR_UNSPEC) {
		ret = find_source(rx, req->src, &want.peer);
		if (TAGRV_UNLIKELY(ret))
			return ret;
	}
	if (req->flags & FI_PEEK)
		return tagrv_unexp_peek(rx, req, want.peer);
	op = tagrv_pool_get(&rx->ops);
	if (TAGRV_UNLIKELY(!op))
		return -FI_EAGAIN;
	fill_op(op, rx, req);
	want.keep = op->multi;
	ret = post(op, &want);
	if (TAGRV_UNLIKELY(ret))
		tagrv_pool_put(&rx->ops, op);
	return ret;
}

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
	struct tagrv_rx *rx = op->rx;

	tagrv_pool_put(&rx->ops, op);
	tagrv_rx_report_error(rx, &comp);
}

int tagrv_rx_cancel(struct tagrv_rx *rx, void *context)
{
	tagrv_match_id id = tagrv_match_find_name(rx->match, context_of,
						  context);
	struct tagrv_op *op;
	void *cookie;

	if (!id || tagrv_match_cancel(rx->match, id, &cookie))
		return -FI_ENOENT;
	op = cookie;
	if (op->multi) {
		/* Where reads into it are under way, their end releases it. */
		op->retired = true;
		op->status = -FI_ECANCELED;
		tagrv_recv_multi_check(op);
		return 0;
	}
	end_cancelled(op);
	return 0;
}
