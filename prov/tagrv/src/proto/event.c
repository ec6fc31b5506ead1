/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections coming and going: what the wireup thread reported, and the lane
 * to ourselves.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/engine_priv.h"

static struct tagrv_lane *lane_create(struct tagrv_peer *peer,
				      struct tagrv_link *link, uint32_t epoch)
{
	struct tagrv_lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return NULL;
	lane->peer = peer;
	lane->link = link;
	lane->epoch = epoch;
	tagrv_list_init(&lane->gone_node);
	tagrv_list_init(&lane->exposed);
	tagrv_list_push_tail(&peer->engine->lanes, &lane->node);
	peer->lane = lane;
	peer->tx_seq = 0;
	peer->rx_seq = 0;
	tagrv_credit_reset(&peer->credit);
	return lane;
}

static int attach(struct tagrv_peer *peer, struct tagrv_link *link,
		  uint32_t epoch, size_t max_packet)
{
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_lane *lane = lane_create(peer, link, epoch);
	int ret;

	if (!lane)
		return -FI_ENOMEM;
	max_packet = TAGRV_MIN(max_packet, link->xport->attr.max_packet);
	peer->packet_limit = tagrv_select_eager_limit(&engine->dom->params,
						      max_packet);
	peer->select = tagrv_rail_select(tagrv_rail_of(link));
	peer->eager_limit = TAGRV_MIN(peer->packet_limit,
				      tagrv_select_all_eager(peer->select));
	peer->frag_max = max_packet - sizeof(struct tagrv_hdr);
	peer->state = TAGRV_PEER_BOUND;
	ret = link->xport->ops->link_attach(link, lane);
	if (ret) {
		peer->lane = NULL;
		peer->state = TAGRV_PEER_IDLE;
		tagrv_list_remove(&lane->node);
		free(lane);
		return ret;
	}
	tagrv_rail_add_lane(tagrv_rail_of(link));
	return 0;
}

static void set_ready(struct tagrv_peer *peer)
{
	peer->state = TAGRV_PEER_READY;
	tagrv_peer_set_busy(peer);
	tagrv_peer_serve(peer);
}

static void on_failed(struct tagrv_peer *peer, int status)
{
	if (peer->state == TAGRV_PEER_CONNECTING)
		peer->state = TAGRV_PEER_IDLE;
	if (!peer->lane)
		tagrv_peer_fail_pending(peer, tagrv_rails_blame(
			&peer->engine->rails, status));
}

/*
 * The peer was restarted. What it sent in its former life was reported to it as
 * sent, so it is taken in first.
 */
static void end_old(struct tagrv_peer *peer)
{
	struct tagrv_lane *lane = peer->lane;
	struct tagrv_xport *xport = lane->link->xport;

	for (int i = 0; i < TAGRV_DRAIN_PASSES && peer->lane == lane; i++)
		if (!xport->ops->progress(xport))
			break;
	if (peer->lane == lane)
		tagrv_lane_fail(lane, -FI_ECONNRESET, false);
}

static int take_up(struct tagrv_peer *peer,
		   const struct tagrv_wireup_event *event)
{
	char addr[TAGRV_ADDR_STRLEN];

	if (event->max_packet >= TAGRV_RTS_MAX)
		return attach(peer, event->link, event->epoch,
			      event->max_packet);
	tagrv_warn("connection to %s refused: its packets are too small; use "
		   "the same release of this provider on both hosts\n",
		   tagrv_addr_str(&peer->addr, addr, sizeof(addr)));
	return -FI_EHOSTUNREACH;
}

static void on_up(struct tagrv_engine *engine,
		  const struct tagrv_wireup_event *event)
{
	struct tagrv_peer *peer = tagrv_peer_get(engine, &event->addr);
	int ret = -FI_ENOMEM;

	if (peer && peer->lane)
		end_old(peer);
	if (peer)
		ret = take_up(peer, event);
	if (ret) {
		event->link->xport->ops->link_discard(event->link);
		tagrv_wireup_drop(engine->wep, &event->addr, event->epoch);
		if (peer)
			on_failed(peer, ret);
		return;
	}
	if (event->sendable && peer->lane && peer->state == TAGRV_PEER_BOUND)
		set_ready(peer);
}

/* Another link is on its way: what waits is kept for that one. */
static void take_back(struct tagrv_peer *peer)
{
	struct tagrv_lane *lane = peer->lane;

	peer->lane = NULL;
	peer->state = TAGRV_PEER_IDLE;
	tagrv_lane_fail(lane, -FI_ECONNRESET, false);
	if (!tagrv_list_empty(&peer->pending))
		tagrv_peer_want(peer);
}

static void on_gone(struct tagrv_engine *engine, struct tagrv_peer *peer,
		    int status)
{
	struct tagrv_lane *lane = peer->lane;

	/* Once a packet has come over it, it was in use after all. */
	if (status == -FI_EAGAIN && peer->state == TAGRV_PEER_BOUND) {
		take_back(peer);
		return;
	}
	if (!status || status == -FI_EAGAIN)
		status = -FI_ECONNRESET;
	/* What the peer sent before is taken in first: see engine.c. */
	lane->gone_status = status;
	/* A send would seem to work: the device knows of nothing yet. */
	peer->state = TAGRV_PEER_LEAVING;
	if (!tagrv_list_linked(&lane->gone_node))
		tagrv_list_push_tail(&engine->gone, &lane->gone_node);
}

void tagrv_engine_wireup_event(struct tagrv_engine *engine,
			       const struct tagrv_wireup_event *event)
{
	struct tagrv_peer *peer;

	if (event->type == TAGRV_WIREUP_UP) {
		on_up(engine, event);
		return;
	}
	if (event->type == TAGRV_WIREUP_TICK) {
		tagrv_engine_tell_match(engine);
		return;
	}
	peer = tagrv_peer_get(engine, &event->addr);
	if (!peer)
		return;
	if (event->type == TAGRV_WIREUP_FAILED) {
		on_failed(peer, event->status);
		return;
	}
	if (!peer->lane || peer->lane->epoch != event->epoch)
		return;		/* of a connection that failed before */
	if (event->type == TAGRV_WIREUP_GONE)
		on_gone(engine, peer, event->status);
	else if (peer->state == TAGRV_PEER_BOUND)
		set_ready(peer);
}

int tagrv_engine_connect_self(struct tagrv_peer *peer)
{
	struct tagrv_xport *loop = tagrv_rail_loop(&peer->engine->rails)->xport;
	struct tagrv_link *link;
	uint8_t blob[TAGRV_BLOB_MAX];
	size_t len;
	int ret;

	ret = loop->ops->link_create(loop, blob, &len, &link);
	if (ret)
		return ret;
	ret = loop->ops->link_bind(link, blob, len);
	if (!ret)
		ret = attach(peer, link, 0, loop->attr.max_packet);
	if (ret) {
		loop->ops->link_discard(link);
		return ret;
	}
	set_ready(peer);
	return 0;
}
