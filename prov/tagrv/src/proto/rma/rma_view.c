/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads and writes by a view: the initiator accesses a window by itself, and the target does
 * nothing. See object/view.h, which has the picture, and rma.h.
 *
 *   QUEUED -- the window's view is here --> FETCHING -- all is moved --> end
 *      ^                                    WRITING
 *      |                                       |
 *      '---- the keys are not valid any more --'   by packets, which are answered
 *
 * They overtake packets. So a read has to wait, as a GET, behind earlier operations if an
 * order was asked for that it would break (object/order.h), and a write goes by packets.
 *
 * A write has ended when the peer's device has its bytes. For FI_DELIVERY_COMPLETE one byte of
 * them is read behind it, by the same link: that makes the device write them to memory first
 * (PCI Express base specification, ordering rules: completions push posted writes).
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
	return tagrv_peer_xport(peer)->attr.caps & TAGRV_XPORT_SIDE && !peer->side_off;
}

/*
 * Whether the transport would read as much, faster than a packet asks for it, and no order
 * forbids that.
 */
static bool is_worth(const struct tagrv_op *op)
{
	const struct tagrv_xport_attr *attr = &tagrv_peer_xport(op->peer)->attr;
	bool allowed = attr->caps & TAGRV_XPORT_SIDE ? !op->peer->side_off :
						       attr->admits & TAGRV_MEM_READ;

	return attr->caps & TAGRV_XPORT_GET && allowed &&
	       op->len >= TAGRV_MAX(attr->get_least, (size_t) 1) &&
	       op->tx.rma->remote_cnt == 1 && !op->tx.rma->by_packets &&
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
	uint32_t id;

	if (peer->rma.show.id)
		return;
	if (peer->rma.view_pause) {
		peer->rma.view_pause--;
		return;
	}
	peer->rma.view_pause = ASK_EVERY - 1;
	id = tagrv_view_ask(peer, key);
	if (!id)
		return;
	peer->rma.show.id = id;
	peer->rma.show.key = key;
	peer->rma.show.addr = addr;
	peer->rma.show.must = false;
	tagrv_peer_set_busy(peer);
}

int tagrv_rma_serve_show(struct tagrv_peer *peer)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_SHOW, .op = peer->rma.show.id,
		.tag = peer->rma.show.key, .data = peer->rma.show.addr,
		.flags = peer->rma.show.must ? TAGRV_RMA_MUST : 0,
	};
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	ret = tagrv_control_send(peer, &hdr, NULL, 0);
	if (!ret)
		peer->rma.show.id = 0;
	return ret;
}

const struct tagrv_view *tagrv_rma_view_to_write(struct tagrv_peer *peer, uint64_t addr,
						 uint64_t len, uint64_t key)
{
	const struct tagrv_view *view;

	tagrv_assert_locked(peer->engine->dom);
	if (!may_have_side(peer) || peer->engine->attr.order & TAGRV_ORDER_AFTER_WRITE)
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
	return op->rndv->side ? tagrv_lane_is_beside(op->lane, op->peer) :
				tagrv_lane_is_of(op->lane, op->peer);
}

/* All is moved, or the first failure is known. */
static void end(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	uint32_t view = op->rndv->remote.op;
	int status = op->status;
	bool again = status && is_connected(op);

	/* Whatever has failed: what is repeated must be behind the end of the link. */
	if (again && op->rndv->side)
		tagrv_lane_fail(op->lane, status, false);
	tagrv_op_deregister(op);
	tagrv_rndv_detach(op);
	if (again) {
		tagrv_view_drop(peer, view);
		op->status = 0;
		peer->engine->stats.rma_views--;
		tagrv_rma_requeue(op);
		return;
	}
	tagrv_op_rma_end(op, status);
}

/* Attaches what moving the range needs. False: there is no memory. */
static bool attach(struct tagrv_op *op, const struct tagrv_view *view)
{
	const struct fi_rma_iov *range = &op->tx.rma->remote[0];
	struct tagrv_remote *remote;

	if (!tagrv_rndv_attach(op))
		return false;
	remote = &op->rndv->remote;
	memset(remote, 0, offsetof(struct tagrv_remote, seg));
	remote->op = view->id;
	remote->len = op->len;
	remote->key_len = view->key_len;
	remote->seg_cnt = (uint8_t) tagrv_view_slice(view, range->addr, range->len,
						     remote->seg);
	op->rndv->want = op->len;
	op->rndv->side = tagrv_peer_xport(op->peer)->attr.caps & TAGRV_XPORT_SIDE;
	return true;
}

static void start(struct tagrv_op *op, enum tagrv_op_state state,
		  void (*ended)(struct tagrv_op *op))
{
	struct tagrv_peer *peer = op->peer;

	op->tx.rma->sent = op->len;
	op->lane = op->rndv->side ? peer->side->lane : peer->lane;
	peer->sent++;
	peer->engine->stats.rma_tx++;
	peer->engine->stats.rma_views++;
	tagrv_list_remove(&op->link);
	tagrv_op_set_state(op, state);
	tagrv_rndv_read_start(op, ended);
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

	tagrv_assert_locked(op->engine->dom);
	if (!is_worth(op) || (op->engine->attr.order & TAGRV_ORDER_AFTER_WRITE &&
			      peer->sent) || !link_of(peer))
		return false;
	view = tagrv_view_find(peer, range->key, range->addr, range->len);
	if (!view || !(view->rights & TAGRV_MEM_READ) ||
	    !register_buffer(op, TAGRV_MEM_STORE))
		return false;
	if (!attach(op, view)) {
		tagrv_op_deregister(op);
		return false;
	}
	start(op, TAGRV_OP_FETCHING, end);
	return true;
}

/* ---- initiator: writes ---- */

/* The byte behind the write was read, or not: the op has its own buffer again. */
static void flushed(struct tagrv_op *op)
{
	const struct tagrv_rma *r = op->tx.rma;

	op->iov[0] = r->result[0];
	op->iov_cnt = r->result_cnt;
	op->mem[0] = NULL;
	end(op);
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
	if (flushes && op->lane->closing)
		op->status = op->lane->status;
	if (flushes && !op->status)
		flush(op, tagrv_rail_of(op->lane->link)->dump_mem);
	else
		end(op);
}

/* Whether the level that was asked for can be had by this view. */
static bool can_deliver(const struct tagrv_op *op, const struct tagrv_view *view)
{
	return !(op->flags & FI_DELIVERY_COMPLETE) ||
	       (view->rights & TAGRV_MEM_READ &&
		tagrv_rail_dump(tagrv_rail_of(op->peer->side->link)));
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
	if (!attach(op, view)) {
		tagrv_op_deregister(op);
		return false;
	}
	op->rndv->puts = true;
	op->rndv->inlined = inlined;
	start(op, TAGRV_OP_WRITING, written);
	return true;
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
	peer->rma.view_pause = 0;
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

/* ---- target ---- */

struct view_packet {
	uint64_t words[TAGRV_SHORT_WORDS];
	struct tagrv_rma_source source;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};

static int send_view(struct tagrv_peer *peer, const struct tagrv_window *window,
		     struct tagrv_mem *const *mem, unsigned rights, uint32_t id)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_VIEW, .op = id, .tag = window->key, .seq = rights,
	};
	struct view_packet pkt;
	size_t cnt = 0;

	memset(&pkt, 0, sizeof(pkt));
	pkt.source.addr = htole64(window->base);
	pkt.source.len = htole64(window->len);
	for (size_t i = 0; i < window->iov_cnt; i++) {
		if (!window->iov[i].iov_len)
			continue;
		pkt.seg[cnt].addr = htole64((uintptr_t) window->iov[i].iov_base);
		pkt.seg[cnt].len = htole64(window->iov[i].iov_len);
		pkt.source.key_len = (uint8_t) mem[i]->dev->ops->mem_key(
			mem[i], pkt.seg[cnt].key);
		cnt++;
	}
	pkt.source.seg_cnt = (uint8_t) cnt;
	return tagrv_control_send(peer, &hdr, &pkt.source,
				  offsetof(struct view_packet, seg[cnt]) -
				  offsetof(struct view_packet, source));
}

/* Rights that peers may have by a view over this transport. */
static unsigned rights_over(const struct tagrv_xport *xport)
{
	if (!(xport->attr.caps & TAGRV_XPORT_SIDE))
		return xport->attr.admits & TAGRV_MEM_READ;
	return TAGRV_MEM_REMOTE |
	       (xport->attr.caps & TAGRV_XPORT_ATOMIC ? TAGRV_MEM_ATOMIC : 0);
}

/* The window of this byte, if the peer may do anything to it. */
static struct tagrv_window *find(const struct tagrv_peer *peer, uint64_t key,
				 uint64_t addr)
{
	size_t offset;
	struct tagrv_window *window =
		tagrv_rma_window(peer, key, addr, 1, FI_REMOTE_READ, &offset);

	return window ? window :
	       tagrv_rma_window(peer, key, addr, 1, FI_REMOTE_WRITE, &offset);
}

/* Shows the window of this byte. 0; -FI_EAGAIN: no room; -FI_EACCES, -FI_EOPNOTSUPP: it is
 * not shown; else the connection has ended. */
static int show(struct tagrv_peer *peer, uint64_t key, uint64_t addr, uint32_t id,
		unsigned wanted)
{
	const struct tagrv_xport *xport = tagrv_peer_xport(peer);
	struct tagrv_window *window = find(peer, key, addr);
	struct tagrv_showing *showing;
	struct tagrv_mem **mem;
	unsigned rights;
	int ret;

	rights = window ? tagrv_window_rights(peer->engine, window) & rights_over(xport) : 0;
	if (!rights || wanted & ~rights)
		return window ? -FI_EOPNOTSUPP : -FI_EACCES;
	mem = tagrv_window_register(window, xport->dev, rights);
	showing = mem ? tagrv_showing_begin(window, peer, id) : NULL;
	if (!showing)
		return -FI_EOPNOTSUPP;
	ret = send_view(peer, window, mem, rights, id);
	/* Other errors have ended the lane, and with it all that is shown. */
	if (ret == -FI_EAGAIN)
		tagrv_showing_end(showing);
	return ret;
}

void tagrv_rma_show(struct tagrv_peer *peer, uint64_t key, uint64_t addr, uint32_t id)
{
	/* Without room now, a later operation asks again. */
	(void) show(peer, key, addr, id, 0);
}

/* Tells the peer that its atomics cannot be done by a view. */
static int send_refusal(struct tagrv_peer *peer, uint32_t id, int status)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_VIEW, .op = id, .data = (uint64_t) -status,
	};

	peer->engine->stats.rma_refused++;
	return tagrv_control_send(peer, &hdr, NULL, 0);
}

int tagrv_rma_serve_shows(struct tagrv_peer *peer)
{
	uint32_t id = peer->rma.shows.id;
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	ret = show(peer, peer->rma.shows.key, peer->rma.shows.addr, id, TAGRV_MEM_ATOMIC);
	if (ret == -FI_EACCES || ret == -FI_EOPNOTSUPP)
		ret = send_refusal(peer, id, ret);
	if (!ret)
		peer->rma.shows.id = 0;
	return ret;
}

void tagrv_rma_show_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	(void) body;
	tagrv_assert_locked(peer->engine->dom);
	if (hdr->flags & ~TAGRV_RMA_MUST || hdr->seq || !hdr->op || len) {
		tagrv_peer_bad_packet(peer, "malformed SHOW");
		return;
	}
	if (!(hdr->flags & TAGRV_RMA_MUST)) {
		tagrv_rma_show(peer, hdr->tag, hdr->data, hdr->op);
		return;
	}
	/* A peer that asks again does not wait for the answer to an earlier one. */
	peer->rma.shows.id = hdr->op;
	peer->rma.shows.key = hdr->tag;
	peer->rma.shows.addr = hdr->data;
	tagrv_peer_set_busy(peer);
}

void tagrv_rma_recall(struct tagrv_dom *dom, struct tagrv_window *window)
{
	struct tagrv_list *node;

	tagrv_assert_locked(dom);
	(void) dom;
	while ((node = tagrv_list_first(&window->showings))) {
		struct tagrv_showing *showing =
			tagrv_container_of(node, struct tagrv_showing, of_window);
		struct tagrv_peer *peer = showing->peer;
		uint32_t id = showing->id;

		tagrv_showing_end(showing);
		tagrv_ack_recall(peer, id);
	}
}
