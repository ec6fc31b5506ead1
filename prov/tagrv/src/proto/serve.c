/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Serving a peer: see serve.h. A peer that is served until nothing waits for it
 * leaves engine->tx.busy.
 */
#include "proto/serve.h"

#include <rdma/fi_errno.h>

#include "object/lane.h"
#include "object/op.h"
#include "proto/batch.h"
#include "proto/hold.h"
#include "proto/packet/ack.h"
#include "proto/rma/rma.h"
#include "proto/send.h"

/* Sends the first acks: FINs with messages that wait, where there are some. */
static int serve_first_acks(struct tagrv_peer *peer)
{
	const struct tagrv_ack *first = tagrv_container_of(
		tagrv_list_first(&peer->acks), struct tagrv_ack, link);
	size_t cnt;

	if (first->opcode == TAGRV_PKT_FIN &&
	    !tagrv_list_empty(&peer->pending) && !tagrv_batch_send(peer, &cnt))
		return 0;
	/* A control packet may have room where messages have none. */
	return tagrv_ack_send(peer);
}

static int send_credit(struct tagrv_peer *peer)
{
	const uint32_t places = peer->hold.places.owed;
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_CREDIT, .op = places };
	int ret = tagrv_control_send(peer, &hdr, NULL, 0);

	if (!ret)
		tagrv_hold_returned(peer, places);
	return ret;
}

/* Credit goes with what is sent anyway, else in a packet of its own, as places do. */
static int serve_acks(struct tagrv_peer *peer)
{
	while (!tagrv_list_empty(&peer->acks)) {
		int ret = serve_first_acks(peer);

		if (ret)
			return ret;
	}
	return tagrv_credit_is_due(&peer->credit) ||
	       tagrv_places_is_due(&peer->hold.places) ? send_credit(peer) : 0;
}

static void fail(struct tagrv_op *op, int status)
{
	tagrv_list_remove(&op->link);
	op->ops->fail(op, status);
}

/* 0: nothing waits any more; 1: the rest is for another call; -FI_EAGAIN: no room. */
static int serve_pending(struct tagrv_peer *peer)
{
	struct tagrv_list *node;
	size_t bytes = 0;

	while ((node = tagrv_list_first(&peer->pending))) {
		int ret;

		/* Or an operation by the side link has failed here: SIDE goes first. */
		if (bytes >= TAGRV_PEER_QUANTUM || TAGRV_UNLIKELY(peer->side_off_due))
			return 1;
		ret = tagrv_send_next(peer, &bytes);
		if (!ret)
			continue;
		if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
			return -FI_EAGAIN;
		fail(tagrv_container_of(node, struct tagrv_op, link), ret);
	}
	return 0;
}

/* move() takes an op off the list when it is through with it. */
static int serve_list(struct tagrv_list *list)
{
	struct tagrv_list *node;

	while ((node = tagrv_list_first(list))) {
		struct tagrv_op *op =
			tagrv_container_of(node, struct tagrv_op, link);

		if (op->ops->move(op))
			return -FI_EAGAIN;
	}
	return 0;
}

/* What makes the peer's memory accessible: rare. */
static TAGRV_COLD int serve_views(struct tagrv_peer *peer)
{
	const struct tagrv_peer_views *views = peer->rma.views;
	int ret = views->show.id ? tagrv_rma_serve_show(peer) : 0;

	if (!ret && views->shows.id)
		ret = tagrv_rma_serve_shows(peer);
	peer->show_due = views->show.id || views->shows.id;
	return ret ? ret : tagrv_rma_serve_side(peer);
}

/* What says that operations of the peer have ended, and credit. */
static int serve_ends(struct tagrv_peer *peer)
{
	int blocked = tagrv_peer_owes_count(peer) ? tagrv_rma_serve_count(peer) : 0;

	if (TAGRV_UNLIKELY(peer->show_due || peer->side || peer->side_off_due) && !blocked)
		blocked = serve_views(peer);
	return TAGRV_UNLIKELY(peer->state != TAGRV_PEER_READY) ? -FI_ENOTCONN :
	       blocked | serve_acks(peer);
}

/* Whether nothing else can wait for the peer. */
static bool has_only_ends(const struct tagrv_peer *peer)
{
	return tagrv_list_empty(&peer->pending) &&
	       tagrv_list_empty(&peer->rma.answers) &&
	       tagrv_list_empty(&peer->readers) &&
	       tagrv_list_empty(&peer->writers) &&
	       tagrv_list_empty(&peer->to_grant) &&
	       peer->plain_end && !peer->hold.stopped && !peer->rma.held_cnt;
}

bool tagrv_peer_serve(struct tagrv_peer *peer)
{
	int blocked, answers, pending;

	tagrv_assert_locked(peer->engine->dom);
	if (peer->state != TAGRV_PEER_READY)
		return false;
	/* The usual case, after messages and one-sided operations of the peer. */
	if (TAGRV_LIKELY(has_only_ends(peer)) && TAGRV_LIKELY(!serve_ends(peer))) {
		tagrv_list_remove(&peer->busy_node);
		return false;
	}
	if (TAGRV_UNLIKELY(peer->state != TAGRV_PEER_READY))
		return false;	/* a packet that could not be sent has failed it */
	peer->held = 0;
	if (TAGRV_UNLIKELY(peer->hold.stopped))
		tagrv_hold_look(peer);
	if (TAGRV_UNLIKELY(peer->rma.held_cnt))
		tagrv_rma_release_held(peer);
	blocked = serve_ends(peer);
	if (TAGRV_UNLIKELY(peer->side_off_due))
		return false;	/* nothing of what comes next may be in front of it */
	/* Each list is tried whatever became of the others: reads, for one, have
	 * slots of their own in the transport. */
	answers = tagrv_rma_serve_answers(peer);
	blocked |= serve_list(&peer->to_grant);
	blocked |= serve_list(&peer->readers);
	blocked |= serve_list(&peer->writers);
	pending = serve_pending(peer);
	if (!pending)
		tagrv_peer_open_plain(peer);
	/* An operation that ended meanwhile may have queued an ack without room, and one
	 * that began may have asked for a view. */
	if (!blocked && !answers && !pending && tagrv_list_empty(&peer->acks) &&
	    !peer->rma.held_cnt && !peer->show_due && !tagrv_peer_owes_count(peer) &&
	    !(TAGRV_UNLIKELY(peer->hold.stopped) && tagrv_hold_looks_again(peer)) &&
	    tagrv_list_linked(&peer->busy_node))
		tagrv_list_remove(&peer->busy_node);
	return pending > 0 || answers > 0;
}
