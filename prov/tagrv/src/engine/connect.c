/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections coming and going: what the wireup thread reported, asking for a
 * connection, and the one to ourselves.
 */
#include "engine/connect.h"

#include <rdma/fi_errno.h>

#include "core/clock.h"
#include "core/log.h"
#include "engine/lost.h"
#include "engine/part.h"
#include "engine/tick.h"
#include "object/lane.h"
#include "object/tags.h"
#include "proto/serve.h"
#include "wire/packet.h"

/* Bytes of one packet. The limits of both sides do not know what the link itself adds. */
static size_t longest_packet(const struct tagrv_link *link, size_t of_peer)
{
	size_t max = TAGRV_MIN(of_peer, link->xport->attr.max_packet);

	return link->max_packet ? TAGRV_MIN(max, link->max_packet) : max;
}

/*
 * A new lane. With a list of receives in a device: the device matches tagged messages of the
 * peer, or all receives that may match one of them come back first, before the lane exists:
 * a list that is lost then fails the lanes of its transport. Those of a former lane of the peer may
 * still come back if the device matches: its number is the same. Not within a call of a transport.
 */
static int new_lane(struct tagrv_peer *peer, struct tagrv_link *link, uint32_t epoch,
		    struct tagrv_lane **lane)
{
	struct tagrv_tags *tags = peer->engine->tags;
	bool outside = tags && !link->given;

	if (outside) {
		tagrv_tags_outside(tags, true);
		tagrv_tags_settle(tags);
	}
	/* The link leads to a list that was lost since it was made. */
	if (link->given && !link->xport->list)
		return -FI_ECONNRESET;
	*lane = tagrv_lane_create(peer, link, epoch);
	if (!*lane) {
		if (outside)
			tagrv_tags_outside(tags, false);
		return -FI_ENOMEM;
	}
	(*lane)->outside = outside;
	(*lane)->listed = link->given;
	if (link->given)
		tagrv_tags_enter(tags, *lane);
	return 0;
}

static void discard(struct tagrv_lane *lane)
{
	tagrv_lane_leave_tags(lane);
	if (lane->listed)
		tagrv_tags_link_gone(lane->peer->engine->tags, lane);
	tagrv_lane_discard(lane);
}

static int attach(struct tagrv_peer *peer, struct tagrv_link *link,
		  uint32_t epoch, size_t max_packet)
{
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_lane *lane;
	int ret = new_lane(peer, link, epoch, &lane);

	if (ret)
		return ret;
	max_packet = longest_packet(link, max_packet);
	peer->packet_limit = tagrv_select_eager_limit(&engine->dom->params,
						      max_packet);
	peer->select = tagrv_rail_select_for(tagrv_rail_of(link), link);
	peer->eager_limit = TAGRV_MIN(peer->packet_limit,
				      tagrv_select_all_eager(peer->select));
	peer->frag_max = max_packet - sizeof(struct tagrv_hdr);
	peer->number = link->number;
	tagrv_peer_set_state(peer, TAGRV_PEER_BOUND);
	ret = link->xport->ops->link_attach(link, lane);
	if (ret) {
		tagrv_peer_set_state(peer, TAGRV_PEER_IDLE);
		discard(lane);
		return ret;
	}
	tagrv_rail_add_lane(tagrv_rail_of(link));
	return 0;
}

static void set_ready(struct tagrv_peer *peer)
{
	tagrv_peer_set_state(peer, TAGRV_PEER_READY);
	tagrv_peer_set_busy(peer);
	tagrv_peer_serve(peer);
}

/* ---- asking for one ---- */

/* A lane to ourselves, over the loop transport. */
static int connect_self(struct tagrv_peer *peer)
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

/* In a pass, if receives have to come back first. */
static int connect_self_soon(struct tagrv_peer *peer)
{
	struct tagrv_engine *engine = peer->engine;

	if (!engine->tags)
		return connect_self(peer);
	tagrv_peer_set_state(peer, TAGRV_PEER_CONNECTING);
	engine->conn.self = peer;
	engine->conn.due |= TAGRV_DUE_ENDS;
	tagrv_watch_attend(&engine->dom->watch);
	return 0;
}

/* There is no connection, and none is on its way. */
static void cannot_connect(struct tagrv_peer *peer, int status)
{
	tagrv_peer_fail_pending(peer, status);
	tagrv_peer_lose(peer, status);
}

void tagrv_peer_connect(struct tagrv_peer *peer)
{
	struct tagrv_engine *engine = peer->engine;
	int ret;

	tagrv_assert_locked(engine->dom);
	if (peer->state != TAGRV_PEER_IDLE)
		return;
	peer->self = tagrv_addr_equal(&peer->addr, &engine->name);
	if (peer->self) {
		ret = connect_self_soon(peer);
	} else {
		ret = tagrv_rails_lost(&engine->rails);
		if (!ret)
			ret = tagrv_wireup_connect(engine->conn.wep,
						   &peer->addr);
		if (!ret)
			tagrv_peer_set_state(peer, TAGRV_PEER_CONNECTING);
	}
	if (ret)
		cannot_connect(peer, ret);
}

void tagrv_engine_connect_self(struct tagrv_engine *engine)
{
	struct tagrv_peer *peer = engine->conn.self;
	int ret;

	tagrv_assert_locked(engine->dom);
	engine->conn.self = NULL;
	if (!peer || !engine->enabled)
		return;
	ret = connect_self(peer);
	if (!ret)
		return;
	if (peer->state == TAGRV_PEER_CONNECTING)
		tagrv_peer_set_state(peer, TAGRV_PEER_IDLE);
	cannot_connect(peer, ret);
}

/* ---- new paths ---- */

void tagrv_lane_renew(struct tagrv_lane *lane, bool down)
{
	struct tagrv_peer *peer = lane->peer;
	struct tagrv_wireup_ep *wep;
	char addr[TAGRV_ADDR_STRLEN];
	int patience;		/* s without any path until the peer is given up */

	/* A lane that was given up, or whose peer has gone, ends anyway. */
	if (!peer || peer->lane != lane || peer->state == TAGRV_PEER_LEAVING)
		return;
	wep = peer->engine->conn.wep;
	if (!wep)
		return;
	patience = peer->engine->dom->params.peer_timeout;
	if (down && !lane->down)
		tagrv_warn("connection to %s: no path works any more; tries to "
			   "find one for %d s\n",
			   tagrv_addr_str(&peer->addr, addr, sizeof(addr)),
			   patience);
	if (!down || !lane->down)
		lane->renew_since = tagrv_clock_ms();
	lane->down = down;
	tagrv_wireup_renew(wep, &peer->addr, lane->epoch, down,
			   patience * 1000);
}

/* The peer goes over to the new paths, too: the lane cannot go on without them. */
static void on_renewed(struct tagrv_peer *peer,
		       const struct tagrv_wireup_event *event)
{
	struct tagrv_lane *lane = peer ? peer->lane : NULL;
	struct tagrv_link *fresh = event->link;
	char addr[TAGRV_ADDR_STRLEN];
	int ret;

	if (!lane || lane->epoch != event->resumes) {
		/* Its end is known to the wireup thread, or is on its way there. */
		fresh->xport->ops->link_discard(fresh);
		return;
	}
	/* Before: the link may ask for the next renewal at once. */
	lane->epoch = event->epoch;
	lane->renew_since = 0;
	lane->down = false;
	tagrv_addr_str(&peer->addr, addr, sizeof(addr));
	ret = lane->link->xport->ops->link_resume(lane->link, fresh);
	if (!ret) {
		tagrv_info("connection to %s goes on over new paths\n", addr);
		return;
	}
	fresh->xport->ops->link_discard(fresh);
	if (peer->lane != lane)
		return;
	tagrv_warn("connection to %s cannot use its new paths: %s\n", addr,
		   fi_strerror(-ret));
	tagrv_lane_fail(lane, -FI_ECONNRESET, true);
}

static void on_renew_failed(struct tagrv_lane *lane)
{
	char addr[TAGRV_ADDR_STRLEN];

	/* Its last path has failed since, and it was asked for again. */
	if (lane->down)
		return;
	tagrv_info("connection to %s got no new paths; it goes on as it is\n",
		   tagrv_addr_str(&lane->peer->addr, addr, sizeof(addr)));
	lane->renew_since = 0;
	lane->link->xport->ops->link_unrenewed(lane->link);
}

/* ---- reports of the wireup thread ---- */

static void on_failed(struct tagrv_peer *peer, int status)
{
	if (peer->state == TAGRV_PEER_CONNECTING)
		tagrv_peer_set_state(peer, TAGRV_PEER_IDLE);
	if (!peer->lane)
		cannot_connect(peer, tagrv_rails_blame(&peer->engine->rails,
						       status));
}

bool tagrv_lane_is_drained(struct tagrv_lane *lane)
{
	/* Of messages, and of what changes memory: neither is an answer to us. */
	const uint32_t seq = lane->peer->rx_seq + lane->peer->rma.changes;

	if (lane->gone_seq != seq) {
		lane->gone_seq = seq;
		lane->gone_passes = 0;
	}
	return ++lane->gone_passes >= TAGRV_DRAIN_PASSES;
}

/*
 * Passes that take in what a connection has brought before it ends: a pass may end with
 * one packet (a batch of kept messages), and no ring holds more entries.
 */
#define DRAIN_MOST	65536

/*
 * The peer was restarted. Messages of its former life were reported to it as sent,
 * so they are received first.
 */
static void drain_old(struct tagrv_peer *peer)
{
	struct tagrv_lane *lane = peer->lane;
	struct tagrv_xport *xport = lane->link->xport;

	if (tagrv_part_ends(lane))
		return;
	lane->gone_passes = 0;
	for (int i = 0; i < DRAIN_MOST; i++)
		if (!xport->ops->progress(xport) || peer->lane != lane ||
		    tagrv_lane_is_drained(lane))
			break;
	if (peer->lane == lane)
		tagrv_lane_fail(lane, -FI_ECONNRESET, false);
}

static int accept_link(struct tagrv_peer *peer,
		       const struct tagrv_wireup_event *event)
{
	char addr[TAGRV_ADDR_STRLEN];

	if (longest_packet(event->link, event->max_packet) >= TAGRV_RTS_MAX)
		return attach(peer, event->link, event->epoch,
			      event->max_packet);
	tagrv_warn("connection to %s refused: its packets are too small; use "
		   "the same release of tagrv on both hosts\n",
		   tagrv_addr_str(&peer->addr, addr, sizeof(addr)));
	return -FI_EHOSTUNREACH;
}

static void note_up(struct tagrv_peer *peer, const struct tagrv_wireup_event *event)
{
	if (!peer->lane)
		return;
	peer->engine->stats.rejoined += peer->life > 1;
	/* Before: this one was not used yet. */
	tagrv_part_make_room(peer->engine, false);
	if (!peer->lane)
		return;
	peer->lane->part.used_at = peer->engine->dom->part_looks;
	peer->lane->part.known = event->features & TAGRV_WIRE_PART;
}

static void on_up(struct tagrv_engine *engine,
		  const struct tagrv_wireup_event *event)
{
	struct tagrv_peer *peer = tagrv_peer_get(engine, &event->addr);
	int ret = -FI_ENOMEM;

	if (peer && peer->lane)
		drain_old(peer);
	/* Before messages of the new connection may match such receives. */
	tagrv_engine_end_lost(engine);
	if (peer)
		ret = accept_link(peer, event);
	if (ret) {
		event->link->xport->ops->link_discard(event->link);
		tagrv_wireup_drop(engine->conn.wep, &event->addr, event->epoch);
		if (peer) {
			on_failed(peer, ret);
			tagrv_peer_forget(peer);
		}
		return;
	}
	peer->lost = 0;
	note_up(peer, event);
	if (event->sendable && peer->lane && peer->state == TAGRV_PEER_BOUND)
		set_ready(peer);
}

/* Another link is on its way: pending sends wait for that one. */
static void reconnect(struct tagrv_peer *peer)
{
	struct tagrv_lane *lane = peer->lane;

	tagrv_lane_leave_tags(lane);
	peer->lane = NULL;
	tagrv_peer_set_state(peer, TAGRV_PEER_IDLE);
	tagrv_lane_fail(lane, -FI_ECONNRESET, false);
	if (!tagrv_list_empty(&peer->pending) ||
	    tagrv_engine_ends_receives(peer->engine))
		tagrv_peer_connect(peer);
}

static void on_gone(struct tagrv_engine *engine, struct tagrv_peer *peer,
		    int status)
{
	struct tagrv_lane *lane = peer->lane;

	if (tagrv_part_ends(lane))
		return;
	/* A READY peer is connected by this link after all: a packet came by it. */
	if (status == -FI_EAGAIN && peer->state == TAGRV_PEER_BOUND) {
		reconnect(peer);
		return;
	}
	if (!status || status == -FI_EAGAIN)
		status = -FI_ECONNRESET;
	/* Messages that the peer sent before are received first: progress.c. */
	lane->gone_status = status;
	/* No more sends: they would seem to work, because the device knows of
	 * nothing yet. */
	tagrv_peer_set_state(peer, TAGRV_PEER_LEAVING);
	if (!tagrv_list_linked(&lane->gone_node))
		tagrv_list_push_tail(&engine->conn.gone, &lane->gone_node);
	engine->conn.due |= TAGRV_DUE_ENDS;
	tagrv_watch_attend(&engine->dom->watch);
}

void tagrv_engine_wireup_event(struct tagrv_engine *engine,
			       const struct tagrv_wireup_event *event)
{
	struct tagrv_peer *peer;

	tagrv_assert_locked(engine->dom);
	if (event->type == TAGRV_WIREUP_UP) {
		if (event->resumes)
			on_renewed(tagrv_peer_find(engine, &event->addr), event);
		else
			on_up(engine, event);
		return;
	}
	if (event->type == TAGRV_WIREUP_CROWDED) {
		tagrv_part_make_room(engine, true);
		return;
	}
	if (event->type == TAGRV_WIREUP_TICK) {
		tagrv_engine_tick(engine);
		return;
	}
	peer = tagrv_peer_find(engine, &event->addr);
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
	else if (event->type == TAGRV_WIREUP_RENEW_FAILED)
		on_renew_failed(peer->lane);
	else if (peer->state == TAGRV_PEER_BOUND)
		set_ready(peer);
}
