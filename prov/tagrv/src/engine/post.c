/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posting receives, and taking them back.
 *
 *   one segment              --> the matching engine's record: recv.h
 *   several, multi-receive   --> an op, which the record names
 *   a device matches (tags)  --> an op, too, which the device's list may have: tags.h
 *
 * A receive belongs to the receive context until a message matches it. A
 * multi-receive buffer stays posted ('keep') while it has room: object/op_multi.c.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "core/log.h"
#include "core/trace.h"
#include "engine/endpoint.h"
#include "engine/lost.h"
#include "object/engine.h"
#include "object/op.h"
#include "object/peer.h"
#include "object/recv.h"
#include "object/tags.h"
#include "proto/hold.h"
#include "proto/peek.h"
#include "proto/unexp.h"

/* Of a tag, where a device matches. */
#define DEVICE_BITS	((UINT64_C(1) << TAGRV_OFFLOAD_TAG_BITS) - 1)

/*
 * Why a receive is refused. -FI_EAGAIN: the limit of receives is reached. A message for
 * one of them ends that, and the caller's progress takes messages in; but none can come
 * before there is an endpoint.
 */
static TAGRV_COLD int refuse(struct tagrv_rx *rx, int why)
{
	if (why == -FI_ENOMEM)
		tagrv_dom_no_memory(rx->dom, "receive");
	if (why != -FI_EAGAIN)
		return why;
	if (!rx->was_full)
		tagrv_warn("%zu receives wait for messages, as many as may be: "
			   "the next is taken when one of them has its message "
			   "(see FI_TAGRV_MAX_RECVS)\n", rx->max_recvs);
	rx->was_full = true;
	return rx->first ? -FI_EAGAIN : -FI_ENOMEM;
}

/* ---- receives of one segment ---- */

static inline void fill_recv(struct tagrv_recv *recv, const struct tagrv_rx *rx,
			     const struct tagrv_recv_req *req)
{
	recv->op = NULL;
	recv->context = req->context;
	recv->buf = req->iov->iov_base;
	recv->len = req->iov->iov_len;
	recv->mem = req->mem ? *req->mem : NULL;
	recv->tag = req->tag;
	recv->born = rx->dom->clock.tick;
	recv->space = req->space;
	recv->reports = req->flags & FI_COMPLETION;
	recv->plain_end = recv->reports ? recv->len + 1 : 0;
}

/* A stopped peer may have a message for the receive, or be looked at more often now. */
static inline void tell_stopped(struct tagrv_rx *rx)
{
	if (TAGRV_UNLIKELY(!tagrv_list_empty(&rx->stopped)))
		tagrv_hold_posted(rx);
}

/* A kept message is there for the receive. */
static __attribute__((noinline)) void
take_kept(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
	  struct tagrv_match_msg *msg)
{
	struct tagrv_recv recv;

	fill_recv(&recv, rx, req);
	tagrv_trace_posted(&recv, req->context, req->tag);
	tagrv_unexp_deliver(msg->user, &recv);
}

static ssize_t post_with_op(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
			    const struct tagrv_match_want *want);

static inline ssize_t post_record(struct tagrv_rx *rx,
				  const struct tagrv_recv_req *req,
				  const struct tagrv_match_want *want)
{
	struct tagrv_match_recv *record;
	struct tagrv_match_msg *msg = NULL;
	tagrv_match_id id;
	int ret = tagrv_match_post(rx->match, want, &record, &id, &msg);

	if (TAGRV_LIKELY(!ret)) {
		fill_recv(tagrv_recv_of(record), rx, req);
		tagrv_trace_posted(tagrv_recv_of(record), req->context,
				   req->tag);
		tell_stopped(rx);
		return 0;
	}
	if (ret != 1)
		return refuse(rx, ret);
	take_kept(rx, req, msg);
	return 0;
}

/*
 * There may be no more receives, or rx->plain_recvs is 0: tagged ones have an op, and others are
 * as ever.
 */
static __attribute__((noinline)) ssize_t post_no_plain(struct tagrv_rx *rx,
						       const struct tagrv_recv_req *req,
						       const struct tagrv_match_want *want)
{
	if (rx->tags && req->space == TAGRV_SPACE_TAGGED)
		return post_with_op(rx, req, want);
	if (!rx->tags || rx->ops.used >= rx->max_recvs)
		return refuse(rx, -FI_EAGAIN);
	return post_record(rx, req, want);
}

static inline ssize_t post_plain(struct tagrv_rx *rx,
				 const struct tagrv_recv_req *req,
				 const struct tagrv_match_want *want)
{
	/* So many receives may wait, and so many have messages under way. */
	if (TAGRV_UNLIKELY(rx->ops.used >= rx->plain_recvs))
		return post_no_plain(rx, req, want);
	return post_record(rx, req, want);
}

/* ---- receives with an op ---- */

/* 0 and *out; or refuse(): the limit of receives is reached, or no memory. */
static int new_op(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
		  struct tagrv_op **out)
{
	struct tagrv_op *op;

	if (rx->ops.used >= rx->max_recvs)
		return refuse(rx, -FI_EAGAIN);
	op = tagrv_pool_get(&rx->ops);
	if (!op)
		return refuse(rx, tagrv_pool_why(&rx->ops));
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
	op->rx.listed = NULL;
	op->rx.parent = NULL;
	op->rx.multi = req->flags & FI_MULTI_RECV && req->iov_cnt == 1;
	op->rx.match_id = 0;
	op->rx.used = 0;
	op->rx.slices = 0;
	op->rx.retired = false;
	for (size_t i = 0; i < req->iov_cnt; i++) {
		op->iov[i] = req->iov[i];
		op->mem[i] = req->mem ? req->mem[i] : NULL;
		op->rx.room += req->iov[i].iov_len;
	}
	tagrv_list_init(&op->link);
	tagrv_trace_op_state(op, op->node.handle, TAGRV_OP_FREE,
			     TAGRV_OP_POSTED, NULL, 0);
	*out = op;
	return 0;
}

/* The receive that the op is. */
static struct tagrv_recv recv_of_op(struct tagrv_op *op)
{
	return (struct tagrv_recv) { .op = op, .context = op->context };
}

static void deliver(struct tagrv_umsg *umsg, struct tagrv_op *op)
{
	const struct tagrv_recv recv = recv_of_op(op);

	tagrv_trace_recv_op(&recv, op, op->node.handle);
	tagrv_unexp_deliver(umsg, &recv);
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
		deliver(msg->user, op);
	op->rx.slices--;
	return cnt;
}

/* The device's list may have the receive from now on. */
static void tell_tags(struct tagrv_op *op, const struct tagrv_match_want *want)
{
	const struct tagrv_rx *rx = op->rx.rx;

	if (!rx->tags || op->space != TAGRV_SPACE_TAGGED)
		return;
	tagrv_tags_post(rx->tags, op, want->peer == TAGRV_MATCH_ANY ? NULL :
				      rx->first->table.peers[want->peer], want->ignore);
}

/* As tagrv_match_post(); a message that was kept is delivered. */
static int queue(struct tagrv_op *op, const struct tagrv_match_want *want)
{
	struct tagrv_match_recv *record;
	struct tagrv_match_msg *msg = NULL;
	int ret = tagrv_match_post(op->rx.rx->match, want, &record,
				   &op->rx.match_id, &msg);

	if (ret == 1) {
		deliver(msg->user, op);
	} else if (!ret) {
		*tagrv_recv_of(record) = recv_of_op(op);
		tagrv_trace_recv_op(tagrv_recv_of(record), op,
				    op->node.handle);
		tell_tags(op, want);
		tell_stopped(op->rx.rx);
	}
	return ret < 0 ? refuse(op->rx.rx, ret) : 0;
}

static int post_multi(struct tagrv_op *op, const struct tagrv_match_want *want)
{
	size_t filled = fill_multi(op, want);
	int ret = 0;

	if (!op->rx.retired)
		ret = queue(op, want);
	/* A buffer that has messages was accepted: it ends as if it were full. */
	if (ret && filled)
		op->rx.retired = true;
	if (!op->rx.retired)
		return ret;
	tagrv_op_multi_check(op);
	return 0;
}

/* Messages that come by the device have no other bits in their tags. */
static uint64_t tag_to_match(const struct tagrv_rx *rx, const struct tagrv_recv_req *req)
{
	return rx->tags && req->space == TAGRV_SPACE_TAGGED ? req->tag & DEVICE_BITS : req->tag;
}

static ssize_t post_with_op(struct tagrv_rx *rx,
			    const struct tagrv_recv_req *req,
			    const struct tagrv_match_want *want)
{
	struct tagrv_match_want own = *want;
	struct tagrv_op *op;
	int ret = new_op(rx, req, &op);

	if (TAGRV_UNLIKELY(ret))
		return ret;
	own.keep = op->rx.multi;
	own.tag = tag_to_match(rx, req);
	ret = op->rx.multi ? post_multi(op, &own) : queue(op, &own);
	if (TAGRV_UNLIKELY(ret)) {
		tagrv_op_set_free(op);
		tagrv_pool_put(&rx->ops, op);
	}
	return ret;
}

/* ---- peeks and claims ---- */

/* FI_CLAIM: receives the message that a peek with this context set aside. */
static ssize_t receive_claimed(struct tagrv_rx *rx,
			       const struct tagrv_recv_req *req)
{
	struct tagrv_recv_req plain = *req;
	struct tagrv_umsg *umsg;
	struct tagrv_op *op;
	int ret;

	plain.flags &= ~FI_MULTI_RECV;
	ret = new_op(rx, &plain, &op);
	if (ret)
		return ret;
	umsg = tagrv_peek_claimed(rx, req);
	if (umsg) {
		deliver(umsg, op);
		return 0;
	}
	tagrv_op_set_free(op);
	tagrv_pool_put(&rx->ops, op);
	return 0;
}

/* lost: -FI_E*, if none of the source will come any more; else 0. */
static ssize_t peek(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
		    uint32_t match_id, int lost)
{
	struct tagrv_recv_req own = *req;
	struct tagrv_list *node;
	ssize_t ret;

	own.tag = tag_to_match(rx, req);
	ret = tagrv_peek(rx, &own, match_id);
	if (!ret && req->flags & FI_CLAIM)
		tell_stopped(rx);
	if (ret != -FI_ENOMSG)
		return ret;
	/* The message may be in a queue of a device: look once. */
	tagrv_list_for_each(&rx->engines, node)
		tagrv_engine_progress(tagrv_container_of(
			node, struct tagrv_engine, rx_node));
	ret = tagrv_peek(rx, &own, match_id);
	if (ret != -FI_ENOMSG)
		return ret;
	/* Or it is held back. */
	tagrv_hold_peeked(rx, match_id);
	tagrv_peek_report_none(rx, req, lost ? -lost : FI_ENOMSG);
	return 0;
}

/*
 * All engines of a context know a peer by the same number, which *match_id becomes.
 * False: look closer.
 */
static inline bool find_source(const struct tagrv_rx *rx, fi_addr_t src,
			       uint32_t *match_id)
{
	const struct tagrv_engine *engine = rx->first;
	const struct tagrv_peer *peer;

	if (TAGRV_UNLIKELY(!engine || src >= engine->table.by_addr_cnt))
		return false;
	peer = engine->table.by_addr[src];
	if (TAGRV_UNLIKELY(!peer))
		return false;
	*match_id = peer->match_id;
	return true;
}

/* A search of kept messages. */
static TAGRV_COLD ssize_t search(struct tagrv_rx *rx,
				 const struct tagrv_recv_req *req)
{
	uint32_t match_id = TAGRV_MATCH_ANY;
	int ret = 0, lost = 0;

	if (!(req->flags & FI_PEEK))
		return receive_claimed(rx, req);
	if (rx->directed && req->src != FI_ADDR_UNSPEC &&
	    !find_source(rx, req->src, &match_id))
		ret = tagrv_rx_look_at_source(rx, req->src, &match_id, &lost);
	return ret ? ret : peek(rx, req, match_id, lost);
}

/* A receive from nobody: takes a message that was kept, or ends. */
static TAGRV_COLD ssize_t receive_from_lost(struct tagrv_rx *rx,
					    const struct tagrv_recv_req *req,
					    struct tagrv_match_want *want,
					    int status)
{
	struct tagrv_match_msg *msg;
	struct tagrv_recv recv;
	struct tagrv_op *op;
	int ret = new_op(rx, req, &op);

	if (ret)
		return ret;
	want->tag = tag_to_match(rx, req);
	if (op->rx.multi) {
		(void) fill_multi(op, want);
		if (!op->rx.retired)
			op->status = status;
		op->rx.retired = true;
		tagrv_op_multi_check(op);
		return 0;
	}
	msg = tagrv_match_claim(rx->match, want);
	recv = recv_of_op(op);
	if (msg)
		deliver(msg->user, op);
	else
		tagrv_rx_end_posted(rx, &recv, req->src, status);
	return 0;
}

/* A source that is used for the first time, or lost. */
static TAGRV_COLD ssize_t receive_from(struct tagrv_rx *rx,
				       const struct tagrv_recv_req *req,
				       struct tagrv_match_want *want)
{
	int lost;
	int ret = tagrv_rx_look_at_source(rx, req->src, &want->peer, &lost);

	if (ret)
		return ret;
	if (lost)
		return receive_from_lost(rx, req, want, lost);
	return req->iov_cnt != 1 || req->flags & FI_MULTI_RECV ?
	       post_with_op(rx, req, want) : post_plain(rx, req, want);
}

ssize_t tagrv_rx_recv(struct tagrv_rx *rx, const struct tagrv_recv_req *req)
{
	struct tagrv_match_want want = {
		.tag = req->tag,
		.ignore = req->ignore,
		.peer = TAGRV_MATCH_ANY,
		.name = req->context,
		.space = req->space,
	};

	tagrv_assert_locked(rx->dom);
	if (TAGRV_UNLIKELY(req->flags & (FI_PEEK | FI_CLAIM)))
		return search(rx, req);
	if (rx->directed && req->src != FI_ADDR_UNSPEC &&
	    TAGRV_UNLIKELY(!find_source(rx, req->src, &want.peer)))
		return receive_from(rx, req, &want);
	if (TAGRV_UNLIKELY(req->iov_cnt != 1 || req->flags & FI_MULTI_RECV))
		return post_with_op(rx, req, &want);
	return post_plain(rx, req, &want);
}

/* ---- cancel ---- */

int tagrv_rx_cancel(struct tagrv_rx *rx, void *context)
{
	tagrv_match_id id = tagrv_match_find_name(rx->match, context);
	struct tagrv_match_recv *record;

	tagrv_assert_locked(rx->dom);
	if (!id || tagrv_match_cancel(rx->match, id, &record))
		return -FI_ENOENT;
	tagrv_rx_withdraw(rx, tagrv_recv_of(record), NULL, -FI_ECANCELED);
	return 0;
}
