/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Showing windows: the target's side of views (object/view.h), by which initiators access a
 * window without it.
 */
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "object/engine.h"
#include "object/view.h"
#include "proto/packet/ack.h"
#include "proto/rma/rma_priv.h"

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

/*
 * Rights that peers may have by a view over this transport. None, where a key that is not
 * valid any more ends the connection: a peer with side links would begin one.
 */
static unsigned rights_over(const struct tagrv_xport *xport)
{
	if (!(xport->attr.caps & TAGRV_XPORT_SIDE))
		return xport->attr.get_least == SIZE_MAX ?
		       0 : xport->attr.admits & TAGRV_MEM_READ;
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

/*
 * Shows the window of this byte. wanted: rights that the peer cannot do without. 0; -FI_EAGAIN:
 * no room; -FI_EACCES, -FI_EOPNOTSUPP: it is not shown; else the connection has ended.
 */
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
	if (wanted)
		tagrv_window_forget_failures(window);
	mem = tagrv_window_register(peer->engine->dom, window, xport->dev, rights);
	showing = mem ? tagrv_showing_begin(window, peer, id) : NULL;
	if (!showing)
		return -FI_EOPNOTSUPP;
	ret = send_view(peer, window, mem, rights, id);
	/* Other errors have ended the lane, and with it all that is shown. */
	if (ret == -FI_EAGAIN)
		tagrv_showing_end(showing);
	else if (!ret)
		tagrv_showing_settle(showing);
	return ret;
}

void tagrv_rma_show(struct tagrv_peer *peer, uint64_t key, uint64_t addr, uint32_t id)
{
	/* A peer that hangs up, or is asked whether it does, is sent nothing. */
	if (peer->state != TAGRV_PEER_READY)
		return;
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
	struct tagrv_peer_views *views = peer->rma.views;
	uint32_t id = views->shows.id;
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	ret = show(peer, views->shows.key, views->shows.addr, id, TAGRV_MEM_ATOMIC);
	if (ret == -FI_EACCES || ret == -FI_EOPNOTSUPP)
		ret = send_refusal(peer, id, ret);
	if (!ret)
		views->shows.id = 0;
	return ret;
}

void tagrv_rma_show_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	struct tagrv_peer_views *views;

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
	/* Its operations wait for the answer, which nothing else would bring. */
	views = tagrv_peer_begin_views(peer);
	if (!views) {
		tagrv_lane_fail(peer->lane, -FI_ENOMEM, true);
		return;
	}
	/* A peer that asks again does not wait for the answer to an earlier one. */
	views->shows.id = hdr->op;
	views->shows.key = hdr->tag;
	views->shows.addr = hdr->data;
	peer->show_due = true;
	tagrv_peer_set_busy(peer);
}

static void recall(struct tagrv_showing *showing)
{
	struct tagrv_peer *peer = showing->peer;
	uint32_t id = showing->id;

	tagrv_showing_end(showing);
	tagrv_ack_recall(peer, id);
}

void tagrv_rma_recall(struct tagrv_dom *dom, struct tagrv_window *window)
{
	struct tagrv_list *node;

	tagrv_assert_locked(dom);
	(void) dom;
	while ((node = tagrv_list_first(&window->showings)))
		recall(tagrv_container_of(node, struct tagrv_showing, of_window));
}

void tagrv_rma_recall_all(struct tagrv_engine *engine)
{
	tagrv_assert_locked(engine->dom);
	for (size_t i = 0; i < engine->table.cnt; i++) {
		const struct tagrv_peer_views *views = engine->table.peers[i]->rma.views;
		struct tagrv_list *node;

		while ((node = tagrv_list_first(&views->showings)))
			recall(tagrv_container_of(node, struct tagrv_showing, of_peer));
	}
}
