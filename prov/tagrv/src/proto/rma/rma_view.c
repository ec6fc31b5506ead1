/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads and writes by a view: the initiator accesses a window by itself, and the target does
 * nothing. See object/view.h, which has the picture, and rma.h.
 *
 *   QUEUED -- the window's view is here --> WIRE      -- all is moved --> end
 *      ^                                    FETCHING
 *      |                                    WRITING
 *      |                                       |
 *      '---- the keys are not valid any more --'   by packets, which are answered
 *
 * WIRE: one request of the transport moves all. FETCHING, WRITING: several do, or there is no
 * room now, or a byte is to be read back.
 *
 * They overtake packets. So a read has to wait, as a GET, behind earlier operations if an
 * order was asked for that it would break (object/order.h), and a write goes by packets. What
 * is fenced and has a level says that earlier messages have that level, too, even those that
 * nobody awaits an answer to (fi_cq(3)): the packets of these are in front of its own only.
 *
 * A write has ended when the peer's device has its bytes. For FI_DELIVERY_COMPLETE one byte of
 * them is read behind it, by the same link: that makes the device write them to memory first
 * (PCI Express base specification, ordering rules: completions push posted writes). If the
 * link ends before that, an empty write by a packet takes its place.
 */
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "object/engine.h"
#include "object/order.h"
#include "object/side.h"
#include "object/view.h"
#include "proto/packet/ack.h"
#include "proto/rma/rma_priv.h"
#include "proto/rndv/rndv.h"

/* ---- initiator: which view ---- */

/* Writes to windows that are not shown, of which one asks for a view. */
#define ASK_EVERY	64u

/* The link by which this peer's windows may be accessed; NULL: none, or not yet. */
static struct tagrv_link *link_of(const struct tagrv_peer *peer)
{
	return tagrv_peer_xport(peer)->attr.caps & TAGRV_XPORT_SIDE ?
	       tagrv_side_link(peer) : peer->lane->link;
}

/* Whether a side link is there, or may come. */
static bool may_have_side(const struct tagrv_peer *peer)
{
	return tagrv_peer_xport(peer)->attr.caps & TAGRV_XPORT_SIDE && tagrv_side_may_be(peer);
}

/*
 * Whether the transport would read as much, faster than a packet asks for it, and no order
 * forbids that.
 */
static bool is_worth(const struct tagrv_op *op)
{
	const struct tagrv_xport_attr *attr = &tagrv_peer_xport(op->peer)->attr;
	bool allowed = attr->caps & TAGRV_XPORT_SIDE ? tagrv_side_may_be(op->peer) :
						       attr->admits & TAGRV_MEM_READ;

	return attr->caps & TAGRV_XPORT_GET && allowed &&
	       op->len >= TAGRV_MAX(attr->get_least, (size_t) 1) &&
	       op->tx.rma->remote_cnt == 1 && !op->tx.rma->by_packets &&
	       !(op->flags & FI_FENCE) &&
	       !tagrv_order_holds_read(op->engine->attr.order);
}

uint32_t tagrv_rma_ask_view(const struct tagrv_op *op)
{
	tagrv_assert_locked(op->engine->dom);
	return is_worth(op) ?
	       tagrv_view_ask(op->peer, op->tx.rma->remote[0].key) : 0;
}

/* Asks for a view of the window, now and then: when the peer is served. */
static void ask_to_show(struct tagrv_peer *peer, uint64_t addr, uint64_t key)
{
	struct tagrv_peer_views *views = tagrv_peer_begin_views(peer);
	uint32_t id;

	if (!views || views->show.id)
		return;
	if (views->pause) {
		views->pause--;
		return;
	}
	views->pause = ASK_EVERY - 1;
	id = tagrv_view_ask(peer, key);
	if (!id)
		return;
	views->show.id = id;
	views->show.key = key;
	views->show.addr = addr;
	views->show.must = false;
	peer->show_due = true;
	tagrv_peer_set_busy(peer);
}

int tagrv_rma_serve_show(struct tagrv_peer *peer)
{
	struct tagrv_peer_views *views = peer->rma.views;
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_SHOW, .op = views->show.id,
		.tag = views->show.key, .data = views->show.addr,
		.flags = views->show.must ? TAGRV_RMA_MUST : 0,
	};
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	ret = tagrv_control_send(peer, &hdr, NULL, 0);
	if (!ret)
		views->show.id = 0;
	return ret;
}

const struct tagrv_view *tagrv_rma_view_to_write(struct tagrv_peer *peer, uint64_t addr,
						 uint64_t len, uint64_t key)
{
	const struct tagrv_view *view;

	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_UNLIKELY(peer->rma.side_pause))
		tagrv_rma_side_miss(peer);
	/* By packets it stays behind fetching atomics, which hold back nobody. */
	if (!may_have_side(peer) || peer->engine->attr.order & TAGRV_ORDER_AFTER_WRITE ||
	    (peer->engine->attr.order & TAGRV_ORDER_AFTER_READ && peer->sent))
		return NULL;
	view = tagrv_view_find(peer, key, addr, len);
	if (!view) {
		ask_to_show(peer, addr, key);
		return NULL;
	}
	return view->rights & TAGRV_MEM_WRITE && tagrv_side_link(peer) ? view : NULL;
}

/* ---- initiator: operations ---- */

/* The connection is the one by which the operation began. */
static bool is_connected(const struct tagrv_op *op)
{
	return op->lane->side ? tagrv_lane_is_beside(op->lane, op->peer) :
				tagrv_lane_is_of(op->lane, op->peer);
}

/* All is moved, or the first failure is known. It has no rendezvous part any more. */
static void end(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	int status = op->status;
	bool again = status && is_connected(op);

	/* Whatever has failed: what is repeated must be behind the end of the link. */
	if (again && op->lane->side)
		tagrv_lane_fail(op->lane, status, false);
	tagrv_op_deregister(op);
	if (again) {
		tagrv_view_drop(peer, op->tx.rma->view);
		op->status = 0;
		peer->engine->stats.rma_views--;
		tagrv_rma_requeue(op);
		return;
	}
	tagrv_op_rma_end(op, status);
}

/* The same of one that has a rendezvous part. */
static void end_pieces(struct tagrv_op *op)
{
	tagrv_rndv_detach(op);
	end(op);
}

/* The one request of an op has ended. */
static void end_one(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);

	tagrv_assert_locked(op->engine->dom);
	op->status = tagrv_lane_reason(op->lane, status);
	end(op);
}

/* Takes the op off peer->pending; it is under way then. */
static void start(struct tagrv_op *op, enum tagrv_op_state state,
		  const struct tagrv_view *view, bool side)
{
	struct tagrv_peer *peer = op->peer;

	op->tx.rma->sent = op->len;
	op->tx.rma->view = view->id;
	op->lane = side ? peer->side->lane : peer->lane;
	peer->sent++;
	tagrv_rma_sum_add(&peer->engine->stats.rma_tx, tagrv_rma_sum_of(op), op->len);
	peer->engine->stats.rma_views++;
	tagrv_list_remove(&op->link);
	tagrv_op_set_state(op, state);
}

/* A range of a window, by a view. */
struct span {
	const struct tagrv_view *view;
	struct tagrv_link *link;
	bool	side;		/* it is a side link */
	size_t	cnt;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};

static void fill_span(struct span *span, const struct tagrv_op *op,
		      const struct tagrv_view *view)
{
	const struct fi_rma_iov *range = &op->tx.rma->remote[0];

	span->view = view;
	span->side = tagrv_peer_xport(op->peer)->attr.caps & TAGRV_XPORT_SIDE;
	span->link = link_of(op->peer);
	span->cnt = tagrv_view_slice(view, range->addr, range->len, span->seg);
}

/* Moves all by pieces, which wait for room. False: there is no memory. */
static bool move_pieces(struct tagrv_op *op, const struct span *span, bool puts,
			bool inlined, void (*ended)(struct tagrv_op *op))
{
	struct tagrv_remote *remote;

	if (!tagrv_rndv_attach(op))
		return false;
	remote = &op->rndv->remote;
	memset(remote, 0, offsetof(struct tagrv_remote, seg));
	remote->len = op->len;
	remote->key_len = span->view->key_len;
	remote->seg_cnt = (uint8_t) span->cnt;
	memcpy(remote->seg, span->seg, span->cnt * sizeof(span->seg[0]));
	op->rndv->want = op->len;
	op->rndv->side = span->side;
	op->rndv->puts = puts;
	op->rndv->inlined = inlined;
	start(op, puts ? TAGRV_OP_WRITING : TAGRV_OP_FETCHING, span->view, span->side);
	tagrv_rndv_read_start(op, ended);
	return true;
}

/* Moves all by one request, for which there is room. False: nothing has happened. */
static bool move_one(struct tagrv_op *op, const struct span *span, bool puts, bool inlined)
{
	const struct tagrv_xport_ops *ops = span->link->xport->ops;
	const struct tagrv_rts_seg *seg = &span->seg[0];
	void *buf = op->iov[0].iov_base;
	int ret;

	if (op->iov_cnt != 1 || span->cnt != 1 ||
	    op->len > (puts ? span->link->put_max : span->link->get_max))
		return false;
	op->done.fn = end_one;
	ret = puts ? ops->put(span->link, buf, inlined ? NULL : op->mem[0], seg->addr,
			      seg->key, span->view->key_len, op->len, &op->done) :
		     ops->get(span->link, buf, op->mem[0], seg->addr, seg->key,
			      span->view->key_len, op->len, &op->done);
	if (ret)
		return false;
	start(op, TAGRV_OP_WIRE, span->view, span->side);
	return true;
}

/* With a device, registering a short buffer for one operation takes longer than a packet. */
static bool register_buffer(struct tagrv_op *op, unsigned access)
{
	const struct tagrv_xport *xport = tagrv_peer_xport(op->peer);
	struct tagrv_device *dev = xport->dev;

	if (xport->attr.caps & TAGRV_XPORT_SIDE && xport->attr.reg_overhead > 0 &&
	    !tagrv_rma_is_long(op->peer, op->len) &&
	    !tagrv_dom_cache(op->engine->dom, dev) &&
	    !tagrv_op_was_registered(op, dev, access))
		return false;
	if (!tagrv_op_register(op, dev, op->len, access))
		return true;
	tagrv_op_deregister(op);
	return false;
}

bool tagrv_rma_read_view(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	const struct fi_rma_iov *range = &op->tx.rma->remote[0];
	const struct tagrv_view *view;
	struct span span;

	tagrv_assert_locked(op->engine->dom);
	if (TAGRV_UNLIKELY(peer->rma.side_pause))
		tagrv_rma_side_miss(peer);
	if (!is_worth(op) || (op->engine->attr.order & TAGRV_ORDER_AFTER_WRITE &&
			      peer->sent) || !link_of(peer))
		return false;
	view = tagrv_view_find(peer, range->key, range->addr, range->len);
	if (!view || !(view->rights & TAGRV_MEM_READ) ||
	    !register_buffer(op, TAGRV_MEM_STORE))
		return false;
	fill_span(&span, op, view);
	if (move_one(op, &span, false, false) ||
	    move_pieces(op, &span, false, false, end_pieces))
		return true;
	tagrv_op_deregister(op);
	return false;
}

/* ---- initiator: writes ---- */

/*
 * The bytes are there, but not read back. An empty write by a packet, behind the end of the
 * link, says the same: to write them once more would undo what the peer has made of them.
 */
static void prove_by_packet(struct tagrv_op *op)
{
	tagrv_op_deregister(op);
	op->iov_cnt = 0;
	op->len = 0;
	op->tx.rma->remote[0].len = 0;
}

/* The byte behind the write was read, or not. */
static void flushed(struct tagrv_op *op)
{
	const struct tagrv_rma *r = op->tx.rma;

	/* The op has its own buffer again. */
	op->iov[0] = r->result[0];
	op->iov_cnt = r->result_cnt;
	op->mem[0] = NULL;
	if (op->status)
		prove_by_packet(op);
	end_pieces(op);
}

/* Reads one byte of what was written. */
static void flush(struct tagrv_op *op, struct tagrv_mem *dump)
{
	struct tagrv_rma *r = op->tx.rma;

	tagrv_op_deregister(op);
	r->result[0] = op->iov[0];
	r->result_cnt = op->iov_cnt;
	op->iov[0] = (struct iovec) { dump->addr, 1 };
	op->iov_cnt = 1;
	op->mem[0] = dump;
	op->rndv->puts = op->rndv->inlined = false;
	op->rndv->next = 0;
	op->rndv->want = 1;
	tagrv_rndv_read_start(op, flushed);
}

static void written(struct tagrv_op *op)
{
	bool flushes = !op->status && op->flags & FI_DELIVERY_COMPLETE;

	/* Nothing is posted to a link that is being closed. */
	if (flushes && op->lane->closing) {
		op->status = op->lane->status;
		prove_by_packet(op);
	}
	if (flushes && !op->status)
		flush(op, tagrv_rail_of(op->lane->link)->dump_mem);
	else
		end_pieces(op);
}

/* Whether the level that was asked for can be had by this view. */
static bool can_deliver(const struct tagrv_op *op, const struct tagrv_view *view)
{
	if (TAGRV_LIKELY(!(op->flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE))))
		return true;
	return !(op->flags & FI_FENCE) &&
	       (!(op->flags & FI_DELIVERY_COMPLETE) ||
		(view->rights & TAGRV_MEM_READ &&
		 tagrv_rail_dump(tagrv_rail_of(op->peer->side->link))));
}

static bool is_inlined(const struct tagrv_op *op)
{
	return op->iov_cnt == 1 && op->len <= tagrv_peer_xport(op->peer)->attr.max_inline;
}

bool tagrv_rma_write_view(struct tagrv_op *op)
{
	struct tagrv_rma *r = op->tx.rma;
	const struct fi_rma_iov *range = &r->remote[0];
	const struct tagrv_view *view;
	bool inlined = is_inlined(op);
	struct span span;

	tagrv_assert_locked(op->engine->dom);
	if (r->sent || r->by_packets || r->remote_cnt != 1 || !op->len ||
	    op->flags & FI_REMOTE_CQ_DATA)
		return false;
	view = tagrv_rma_view_to_write(op->peer, range->addr, range->len, range->key);
	if (!view || !can_deliver(op, view))
		return false;
	/* It may have to go by packets after all. */
	if ((op->tx.no_context || op->flags & FI_INJECT) && !op->tx.bounce &&
	    tagrv_rma_op_keep(op))
		return false;
	if (!inlined && !register_buffer(op, 0))
		return false;
	fill_span(&span, op, view);
	/* What is read back has a second part. */
	if ((!(op->flags & FI_DELIVERY_COMPLETE) && move_one(op, &span, true, inlined)) ||
	    move_pieces(op, &span, true, inlined, written))
		return true;
	tagrv_op_deregister(op);
	return false;
}

/* ---- initiator: packets ---- */

void tagrv_rma_view_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	struct tagrv_view view = {
		.id = hdr->op, .key = hdr->tag, .rights = (uint8_t) hdr->seq,
	};
	struct tagrv_remote remote;
	struct tagrv_rma_source source;

	tagrv_assert_locked(peer->engine->dom);
	if (!hdr->flags && !hdr->seq && !len && hdr->data) {
		tagrv_rma_device_shown(peer, hdr->op, tagrv_status_unpack(hdr->data));
		return;
	}
	if (hdr->flags || !hdr->seq || hdr->seq & ~(TAGRV_MEM_REMOTE | TAGRV_MEM_ATOMIC) ||
	    !tagrv_rma_parse_source(&source, &remote, body, len)) {
		tagrv_peer_bad_packet(peer, "malformed VIEW");
		return;
	}
	view.base = source.addr;
	view.len = source.len;
	view.seg_cnt = remote.seg_cnt;
	view.key_len = remote.key_len;
	memcpy(view.seg, remote.seg, sizeof(view.seg));
	if (!tagrv_view_keep(peer, &view)) {
		tagrv_peer_bad_packet(peer, "VIEW with another window's id");
		return;
	}
	if (peer->rma.views->pause)
		peer->rma.views->pause = 0;
	tagrv_rma_side_begin(peer);
	tagrv_rma_device_shown(peer, hdr->op, 0);
}

void tagrv_rma_recall_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			     const void *body, size_t len)
{
	(void) body;
	(void) len;
	tagrv_view_drop(peer, hdr->op);
}
