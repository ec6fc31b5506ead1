/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads by a view: the initiator reads a window by itself, and the target does nothing. See
 * object/view.h, which has the picture, and rma.h.
 *
 *   QUEUED -- the window's view is here --> FETCHING -- all is read --> end
 *      ^                                       |
 *      '---- the keys are not valid any more --'   by a GET, which is answered
 *
 * A read by a view overtakes packets. So it has to wait, as a GET, behind earlier operations
 * if an order was asked for that it would break (object/order.h).
 */
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "object/order.h"
#include "object/view.h"
#include "proto/packet/ack.h"
#include "proto/rma/rma_priv.h"
#include "proto/rndv/rndv.h"

/* ---- initiator ---- */

/*
 * Whether the transport would read as much, faster than a packet asks for it, and no order
 * forbids that.
 */
static bool is_worth(const struct tagrv_op *op)
{
	const struct tagrv_xport_attr *attr = &tagrv_peer_xport(op->peer)->attr;

	return attr->caps & TAGRV_XPORT_GET && attr->admits & TAGRV_MEM_READ &&
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

/* All is read, or the first failure is known. */
static void end_read(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	uint32_t view = op->rndv->remote.op;
	int status = op->status;

	tagrv_op_deregister(op);
	tagrv_rndv_detach(op);
	if (status && tagrv_lane_is_of(op->lane, peer)) {
		tagrv_view_drop(peer, view);
		op->status = 0;
		peer->engine->stats.rma_views--;
		tagrv_rma_requeue(op);
		return;
	}
	tagrv_op_rma_end(op, status);
}

/* Registers the buffer and attaches what a read needs. False: there is no memory. */
static bool prepare(struct tagrv_op *op, const struct tagrv_view *view)
{
	const struct fi_rma_iov *range = &op->tx.rma->remote[0];
	struct tagrv_remote *remote;

	if (tagrv_op_register(op, tagrv_peer_xport(op->peer)->dev, op->len,
			      TAGRV_MEM_STORE) || !tagrv_rndv_attach(op)) {
		tagrv_op_deregister(op);
		return false;
	}
	remote = &op->rndv->remote;
	memset(remote, 0, offsetof(struct tagrv_remote, seg));
	remote->op = view->id;
	remote->len = op->len;
	remote->key_len = view->key_len;
	remote->seg_cnt = (uint8_t) tagrv_view_slice(view, range->addr, range->len,
						     remote->seg);
	op->rndv->want = op->len;
	return true;
}

bool tagrv_rma_read_view(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	const struct fi_rma_iov *range = &op->tx.rma->remote[0];
	const struct tagrv_view *view;

	tagrv_assert_locked(op->engine->dom);
	if (!is_worth(op) || (op->engine->attr.order & TAGRV_ORDER_AFTER_WRITE &&
			      peer->sent))
		return false;
	view = tagrv_view_find(peer, range->key, range->addr, range->len);
	if (!view || !prepare(op, view))
		return false;
	op->tx.rma->sent = op->len;
	op->lane = peer->lane;
	peer->sent++;
	peer->engine->stats.rma_tx++;
	peer->engine->stats.rma_views++;
	tagrv_list_remove(&op->link);
	tagrv_op_set_state(op, TAGRV_OP_FETCHING);
	tagrv_rndv_read_start(op, end_read);
	return true;
}

void tagrv_rma_view_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	struct tagrv_view view = { .id = hdr->op, .key = hdr->tag };
	struct tagrv_remote remote;
	struct tagrv_rma_source source;

	tagrv_assert_locked(peer->engine->dom);
	if (hdr->flags || !tagrv_rma_parse_source(&source, &remote, body, len)) {
		tagrv_peer_bad_packet(peer, "malformed VIEW");
		return;
	}
	view.base = source.addr;
	view.len = source.len;
	view.seg_cnt = remote.seg_cnt;
	view.key_len = remote.key_len;
	memcpy(view.seg, remote.seg, sizeof(view.seg));
	if (!tagrv_view_keep(peer, &view))
		tagrv_peer_bad_packet(peer, "VIEW with another window's id");
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
		     struct tagrv_mem *const *mem, uint32_t id)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_VIEW, .op = id, .tag = window->key,
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

void tagrv_rma_show(struct tagrv_peer *peer, const struct fi_rma_iov *range, uint32_t id)
{
	const struct tagrv_xport *xport = tagrv_peer_xport(peer);
	struct tagrv_showing *showing;
	struct tagrv_window *window;
	struct tagrv_mem **mem;
	size_t offset;

	window = tagrv_rma_window(peer, range->key, range->addr, range->len,
				  FI_REMOTE_READ, &offset);
	if (!window || !(xport->attr.admits & TAGRV_MEM_READ) ||
	    !tagrv_window_may_be_shown(peer->engine, window))
		return;
	mem = tagrv_window_register(window, xport->dev);
	showing = mem ? tagrv_showing_begin(window, peer, id) : NULL;
	/* Without room now, a later GET asks again. Other errors have ended the lane. */
	if (showing && send_view(peer, window, mem, id) == -FI_EAGAIN)
		tagrv_showing_end(showing);
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
