/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lanes: creation and failure. See lane.h.
 */
#include "object/lane.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/log.h"
#include "object/op.h"
#include "object/side.h"
#include "object/tags.h"
#include "wireup/wireup.h"

static struct tagrv_lane *new_lane(struct tagrv_peer *peer, struct tagrv_link *link)
{
	struct tagrv_lane *lane = calloc(1, sizeof(*lane));

	tagrv_assert_locked(peer->engine->dom);
	if (!lane)
		return NULL;
	lane->peer = peer;
	lane->link = link;
	tagrv_list_init(&lane->gone_node);
	tagrv_list_init(&lane->part.node);
	tagrv_list_init(&lane->wait_node);
	tagrv_list_init(&lane->exposed);
	tagrv_list_push_tail(&peer->engine->conn.lanes, &lane->node);
	return lane;
}

struct tagrv_lane *tagrv_lane_create_side(struct tagrv_peer *peer,
					  struct tagrv_link *link)
{
	struct tagrv_lane *lane = new_lane(peer, link);

	if (!lane)
		return NULL;
	lane->side = true;
	lane->life = peer->life;
	return lane;
}

struct tagrv_lane *tagrv_lane_create(struct tagrv_peer *peer,
				     struct tagrv_link *link, uint32_t epoch)
{
	struct tagrv_lane *lane = new_lane(peer, link);

	if (!lane)
		return NULL;
	lane->epoch = epoch;
	peer->lane = lane;
	peer->life++;
	peer->side_unable = false;
	peer->side_off_due = false;
	peer->rma.side_nr = 0;
	peer->rma.side_pause = peer->rma.side_pause_last = 0;
	peer->tx_seq = 0;
	peer->rx_seq = 0;
	tagrv_credit_reset(&peer->credit);
	peer->rma.asked = 0;
	peer->rma.serving = 0;
	peer->rma.data_asked = 0;
	peer->rma.op = 0;
	peer->rma.done = 0;
	peer->rma.refused = 0;
	tagrv_peer_reset_views(peer);
	return lane;
}

void tagrv_lane_leave_tags(struct tagrv_lane *lane)
{
	struct tagrv_tags *tags = lane->peer->engine->tags;

	if (lane->listed)
		tagrv_tags_leave(tags, lane);
	if (lane->outside)
		tagrv_tags_outside(tags, false);
	lane->outside = false;
}

void tagrv_lane_discard(struct tagrv_lane *lane)
{
	tagrv_assert_locked(lane->peer->engine->dom);
	if (!lane->side)
		lane->peer->lane = NULL;
	tagrv_list_remove(&lane->node);
	free(lane);
}

/* ---- failure ---- */

static void fail_ops(struct tagrv_list *list, int status)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(list))) {
		struct tagrv_op *op =
			tagrv_container_of(node, struct tagrv_op, link);

		op->ops->fail(op, status);
	}
}

void tagrv_peer_fail_pending(struct tagrv_peer *peer, int status)
{
	tagrv_assert_locked(peer->engine->dom);
	fail_ops(&peer->pending, status);
}

static void drop_acks(struct tagrv_peer *peer)
{
	struct tagrv_list *node;

	tagrv_list_splice_tail(&peer->acks, &peer->rma.held);
	peer->rma.held_before = (uint16_t) (peer->rma.held_before + peer->rma.held_cnt);
	peer->rma.held_cnt = 0;
	while ((node = tagrv_list_pop(&peer->acks)))
		tagrv_pool_put(&peer->engine->pools.acks,
			       tagrv_container_of(node, struct tagrv_ack, link));
	peer->ack_cnt = 0;
}

static void drop_answers(struct tagrv_peer *peer)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_pop(&peer->rma.answers)))
		tagrv_answer_free(peer, tagrv_container_of(
			node, struct tagrv_answer, link));
}

/* Nothing goes to the peer by this lane any more. */
static void detach(struct tagrv_peer *peer)
{
	tagrv_lane_leave_tags(peer->lane);
	peer->lane = NULL;
	tagrv_peer_set_state(peer, TAGRV_PEER_IDLE);
	peer->met = peer->met || peer->rx_seq;
	peer->tx_seq = 0;
	peer->rx_seq = 0;
	tagrv_list_remove(&peer->busy_node);
}

/*
 * The next progress frees the lane, or a later one: when everything outstanding has ended.
 */
static void close_lane(struct tagrv_lane *lane, int status)
{
	lane->closing = true;
	lane->status = status;
	tagrv_list_remove(&lane->gone_node);
	tagrv_list_remove(&lane->part.node);
	lane->peer = NULL;
	lane->link->xport->ops->link_close(lane->link);
}

static void end_all(struct tagrv_peer *peer, const struct tagrv_lane *lane,
		    int status, bool notify_wireup)
{
	struct tagrv_engine *engine = peer->engine;

	if (notify_wireup && engine->conn.wep && !peer->self)
		tagrv_wireup_drop(engine->conn.wep, &peer->addr, lane->epoch);
	engine->conn.lane_lost(peer, status);
	tagrv_side_end(peer, status);
	drop_acks(peer);
	drop_answers(peer);
	tagrv_views_forget(peer);
	tagrv_showings_forget(peer);
	peer->rma.done = 0;
	peer->rma.refused = 0;
	if (peer->rma.counted)
		tagrv_peer_end_counted(peer, peer->rma.counted, status);
	fail_ops(&peer->waiting, status);
	fail_ops(&peer->readers, status);
	fail_ops(&peer->writers, status);
	fail_ops(&peer->to_grant, status);
	fail_ops(&peer->granted, status);
	tagrv_peer_fail_pending(peer, status);
}

void tagrv_lane_part(struct tagrv_lane *lane)
{
	struct tagrv_peer *peer = lane->peer;
	struct tagrv_engine *engine = peer->engine;

	tagrv_assert_locked(engine->dom);
	assert(peer->lane == lane && !peer->side && !peer->sent && !peer->sent_msgs &&
	       !peer->rma.counted);
	detach(peer);
	close_lane(lane, -FI_ECONNRESET);
	if (engine->conn.wep)
		tagrv_wireup_drop(engine->conn.wep, &peer->addr, lane->epoch);
	drop_acks(peer);
	drop_answers(peer);
	tagrv_views_forget(peer);
	tagrv_showings_forget(peer);
}

/* ---- side links ---- */

/* Operations that wait for room on the side link; those in flight end by their callbacks. */
static void fail_queued(struct tagrv_list *list, int status)
{
	struct tagrv_list ops, *node, *tmp;

	tagrv_list_init(&ops);
	tagrv_list_for_each_safe(list, node, tmp) {
		const struct tagrv_op *op =
			tagrv_container_of(node, struct tagrv_op, link);

		if (!op->rndv->side)
			continue;
		tagrv_list_remove(node);
		tagrv_list_push_tail(&ops, node);
	}
	fail_ops(&ops, status);
}

void tagrv_lane_end_side(struct tagrv_lane *lane, int status)
{
	struct tagrv_peer *peer = lane->peer;

	close_lane(lane, status);
	fail_queued(&peer->readers, status);
}

static void fail_side(struct tagrv_lane *lane, int status)
{
	struct tagrv_peer *peer = lane->peer;
	struct tagrv_lane *other = NULL;
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_info("one-sided operations on %s go by packets for now: their connection has "
		   "ended: %s\n",
		   tagrv_addr_str(&peer->addr, addr, sizeof(addr)), fi_strerror(-status));
	assert(peer->side && (peer->side->lane == lane || peer->side->back == lane));
	if (peer->self)
		other = peer->side->lane == lane ? peer->side->back : peer->side->lane;
	free(peer->side);
	peer->side = NULL;
	peer->side_off_due = !peer->self;
	tagrv_side_count_end(peer, peer->rma.side_nr, false);
	close_lane(lane, status);
	if (other)
		close_lane(other, status);
	fail_queued(&peer->readers, status);
	tagrv_peer_set_busy(peer);
}

/* ---- failure of any lane ---- */

void tagrv_lane_fail(struct tagrv_lane *lane, int status, bool notify_wireup)
{
	struct tagrv_peer *peer = lane->peer;
	bool current = peer && peer->lane == lane;

	tagrv_assert_locked(tagrv_rail_of(lane->link)->engine->dom);
	if (lane->closing)
		return;
	if (lane->side) {
		fail_side(lane, status);
		return;
	}
	if (current)
		detach(peer);
	/*
	 * First, so that a peer that still reads memory of ours learns that the
	 * connection is closed, not that the memory is not registered any more.
	 */
	close_lane(lane, status);
	if (current)
		end_all(peer, lane, status, notify_wireup);
}

/* ---- packets that are refused ---- */

void tagrv_peer_count_bad(struct tagrv_peer *peer, const char *why)
{
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_assert_locked(peer->engine->dom);
	if (!peer->engine->stats.bad_packets++)
		tagrv_warn("packet from %s refused: %s (counted, not logged "
			   "again)\n", tagrv_addr_str(&peer->addr, addr,
						      sizeof(addr)), why);
}

void tagrv_peer_bad_packet(struct tagrv_peer *peer, const char *why)
{
	tagrv_peer_count_bad(peer, why);
	tagrv_lane_fail(peer->lane, -FI_EREMOTEIO, true);
}
