/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Parting: see part.h.
 *
 *   asker                                     the other side
 *     still: PARTING --- PART(ask, nr) ---->
 *                    <-- PART(refuse, nr) -   not still, or wants to send
 *     READY
 *                    <-- PART(agree, nr) --   still: PARTING
 *     closes its end, IDLE                    its agreement has arrived: closes, IDLE
 *     connects if sends wait                  likewise
 *
 * A connection is still when nothing is under way in either direction, as far as one side
 * can know: no operation of ours that has left and has not ended, none of the peer's that we
 * serve, and no answer that is owed. A PARTING side sends nothing, and keeps what its
 * application sends on peer->pending. A link keeps the order of packets. So an ask, when it
 * arrives, is behind everything that the asker has sent; and an agreement is behind everything
 * of the other side. What one side cannot know of, because it comes meanwhile, belongs to an
 * operation of the other side that has not ended, or is an eager message that wants no answer:
 * the other side refuses, or the message has been received. Each side handles the last packet
 * of the other before it lets go of the link, and packets of the next connection come by
 * another link with numbers from 0 on. Hence messages stay in order, and none is lost or
 * comes twice.
 *
 * The answer finds no room (-FI_EAGAIN): engine->conn.parts has the lane, and the next pass
 * decides anew. Both ask at once: the ask with the smaller number counts, and the other side
 * takes its own back; of equal numbers neither counts. The answerer knows by the end of its
 * send (struct tagrv_done) that the asker's device has the agreement. The asker does not wait
 * for anything; it may close its end, and tell the wireup thread, before that: the answerer
 * has agreed, so that a failed link, a closed endpoint (GONE) or a new connection (UP) mean
 * the same as the end of its send.
 *
 * The asker's link fails, or the answerer is reported gone, while the answer may have come
 * already: state LEAVING, as for every peer that hangs up; if the agreement is found among
 * the last packets, the connection has parted, else it has failed with all that waits for it.
 * An endpoint that closes answers like others; sends that wait for the next connection keep
 * it open as all others do (close.c).
 *
 * Only peers whose wireup record has TAGRV_WIRE_PART are asked. Those who end receives with
 * their source (FI_TAGRV_PEER_ERRORS) have to notice the death of sources, so they part with
 * none; nor do connections part that have side links or views, whose windows would have to be
 * shown again.
 *
 * Which one: the connection with the oldest use. Sends and receives count no time, so each look
 * compares the numbers of messages with those of the last look (part.seen). Of those used since
 * then nobody knows which is the oldest: unless a connection waits, the next look decides.
 */
#include "engine/part.h"

#include <rdma/fi_errno.h>

#include "core/log.h"
#include "core/random.h"
#include "engine/connect.h"
#include "engine/lost.h"
#include "proto/hold.h"
#include "proto/packet/ack.h"
#include "proto/packet/packet_send.h"
#include "proto/peek.h"
#include "proto/unexp.h"

/* Looks for which a peer that has refused is not asked again. */
#define REFUSED_LOOKS	4u
/* Looks within which an answer is counted on. */
#define SILENT_LOOKS	8u

/* ---- which connections are still ---- */

static bool shows_windows(const struct tagrv_peer *peer)
{
	return peer->side || peer->side_off_due || peer->rma.views->showing_cnt ||
	       peer->show_due || peer->rma.views->asked.id;
}

/* Nothing is under way; sends that wait for a connection are not. */
static bool is_quiet(const struct tagrv_peer *peer)
{
	return tagrv_list_empty(&peer->waiting) && tagrv_list_empty(&peer->readers) &&
	       tagrv_list_empty(&peer->to_grant) && tagrv_list_empty(&peer->granted) &&
	       tagrv_list_empty(&peer->writers) && tagrv_list_empty(&peer->acks) &&
	       tagrv_list_empty(&peer->rma.answers) && tagrv_list_empty(&peer->rma.held) &&
	       !peer->rma.uses && !tagrv_peer_owes_count(peer) && !peer->sent &&
	       !peer->rma.counted && !peer->rma.asked && !peer->rma.serving &&
	       !peer->rma.op && !peer->rma.data_asked && !peer->frags &&
	       !peer->hold.stopped && !shows_windows(peer);
}

static bool is_still(const struct tagrv_lane *lane)
{
	const struct tagrv_peer *peer = lane->peer;

	return peer->state == TAGRV_PEER_READY && tagrv_list_empty(&peer->pending) &&
	       is_quiet(peer) && !lane->renew_since && !lane->down &&
	       !tagrv_engine_ends_receives(peer->engine) && !tagrv_peer_awaits_bytes(peer);
}

/* ---- the end ---- */

static void finish(struct tagrv_lane *lane)
{
	struct tagrv_peer *peer = lane->peer;
	struct tagrv_engine *engine = peer->engine;
	char addr[TAGRV_ADDR_STRLEN];

	if (!is_quiet(peer)) {
		tagrv_peer_bad_packet(peer, "parts amid an operation");
		return;
	}
	tagrv_info("connection to %s is closed until it is needed, to make room for others\n",
		   tagrv_addr_str(&peer->addr, addr, sizeof(addr)));
	engine->stats.parted++;
	tagrv_lane_part(lane);
	/* A peer that keeps the rules has none of the announcements that are lost by this. */
	tagrv_unexp_lose_rndv(peer);
	tagrv_peek_lose_rndv(peer);
	tagrv_hold_reset(peer);
	if (!tagrv_list_empty(&peer->pending) && engine->conn.wep)
		tagrv_peer_connect(peer);
}

bool tagrv_part_ends(struct tagrv_lane *lane)
{
	if (lane->part.state != TAGRV_PART_AGREED || !lane->peer ||
	    lane->peer->lane != lane)
		return false;
	finish(lane);
	return true;
}

bool tagrv_part_takes_error(struct tagrv_lane *lane, int status)
{
	struct tagrv_peer *peer = lane->peer;

	if (tagrv_part_ends(lane))
		return true;
	if (lane->part.state != TAGRV_PART_ASKED || !peer || peer->lane != lane)
		return false;
	if (peer->state == TAGRV_PEER_LEAVING)
		return true;
	lane->gone_status = status;
	lane->gone_untold = true;
	tagrv_peer_set_state(peer, TAGRV_PEER_LEAVING);
	tagrv_list_push_tail(&peer->engine->conn.gone, &lane->gone_node);
	peer->engine->conn.due |= TAGRV_DUE_ENDS;
	tagrv_watch_attend(&peer->engine->dom->watch);
	return true;
}

/* ---- answering ---- */

/* The asker has our agreement, or the link has failed. */
static void on_answered(struct tagrv_done *done, int status)
{
	struct tagrv_lane *lane = tagrv_container_of(done, struct tagrv_lane, part.done);

	struct tagrv_peer *peer = lane->peer;

	(void) status;
	if (tagrv_part_ends(lane))
		tagrv_peer_forget(peer);
}

static void stop_sending(struct tagrv_peer *peer, enum tagrv_part_state state)
{
	peer->lane->part.state = (uint8_t) state;
	tagrv_peer_set_state(peer, TAGRV_PEER_PARTING);
	tagrv_list_remove(&peer->busy_node);
}

/* 0; -FI_EAGAIN: later; on any other error the lane has failed. */
static int agree(struct tagrv_lane *lane, struct tagrv_hdr *hdr)
{
	struct tagrv_peer *peer = lane->peer;
	struct tagrv_xport *xport = lane->link->xport;
	uint64_t words[TAGRV_SHORT_WORDS];
	const struct iovec iov = { words, sizeof(words) };
	int ret;

	lane->part.done.fn = on_answered;
	ret = tagrv_packet_send(peer, hdr, &iov, 1, 0, TAGRV_SEND_CTRL, &lane->part.done);
	if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
		return -FI_EAGAIN;
	if (ret) {
		tagrv_lane_fail(lane, ret, true);
		return ret;
	}
	if (!tagrv_lane_is_of(lane, peer))
		return 0;
	stop_sending(peer, TAGRV_PART_AGREED);
	xport->ops->flush(xport);
	return 0;
}

/* The ask is answered, or there is no connection any more. Else it waits for room. */
static void answer(struct tagrv_lane *lane)
{
	struct tagrv_peer *peer = lane->peer;
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_PART, .data = lane->part.asked_nr };
	int ret;

	if (is_still(lane)) {
		hdr.op = TAGRV_PKT_PART_AGREE;
		ret = agree(lane, &hdr);
	} else {
		hdr.op = TAGRV_PKT_PART_REFUSE;
		ret = tagrv_control_send(peer, &hdr, NULL, 0);
	}
	if (ret == -FI_EAGAIN) {
		tagrv_list_push_tail(&engine->conn.parts, &lane->part.node);
		engine->conn.due |= TAGRV_DUE_ENDS;
		tagrv_watch_attend(&engine->dom->watch);
	}
}

bool tagrv_part_serve(struct tagrv_engine *engine)
{
	struct tagrv_list turn, *node;

	tagrv_assert_locked(engine->dom);
	/* The failure of one lane may fail others, which leave this list then. */
	tagrv_list_init(&turn);
	tagrv_list_splice_tail(&turn, &engine->conn.parts);
	while ((node = tagrv_list_pop(&turn))) {
		struct tagrv_lane *lane =
			tagrv_container_of(node, struct tagrv_lane, part.node);

		if (lane->peer->state == TAGRV_PEER_READY)
			answer(lane);
	}
	return !tagrv_list_empty(&engine->conn.parts);
}

/* ---- packets ---- */

static void go_on(struct tagrv_peer *peer)
{
	peer->lane->part.state = TAGRV_PART_NONE;
	if (peer->state != TAGRV_PEER_PARTING)
		return;
	tagrv_peer_set_state(peer, TAGRV_PEER_READY);
	tagrv_peer_set_busy(peer);
}

static void on_ask(struct tagrv_peer *peer, uint64_t nr)
{
	struct tagrv_lane *lane = peer->lane;

	if (lane->part.state == TAGRV_PART_AGREED ||
	    tagrv_list_linked(&lane->part.node)) {
		tagrv_peer_bad_packet(peer, "asks twice to part");
		return;
	}
	if (lane->part.state == TAGRV_PART_ASKED) {
		if (lane->part.nr < nr)
			return;		/* ours counts: it will be answered */
		go_on(peer);
		if (lane->part.nr == nr)
			return;
	}
	if (peer->state != TAGRV_PEER_READY)
		return;		/* LEAVING: nothing can be sent */
	lane->part.asked_nr = nr;
	answer(lane);
}

static void on_answer(struct tagrv_peer *peer, const struct tagrv_hdr *hdr)
{
	struct tagrv_lane *lane = peer->lane;

	if (lane->part.state != TAGRV_PART_ASKED || hdr->data != lane->part.nr) {
		tagrv_peer_bad_packet(peer, "answers a question that nobody asked");
		return;
	}
	if (hdr->op == TAGRV_PKT_PART_AGREE) {
		finish(lane);
		tagrv_peer_forget(peer);
		return;
	}
	peer->engine->stats.part_refused++;
	lane->part.refused = true;
	go_on(peer);
}

void tagrv_part_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const void *body, size_t len)
{
	tagrv_assert_locked(peer->engine->dom);
	(void) body;
	if (len || hdr->flags || !peer->lane->part.known ||
	    hdr->op > TAGRV_PKT_PART_REFUSE)
		tagrv_peer_bad_packet(peer, "malformed PART");
	else if (hdr->op == TAGRV_PKT_PART_ASK)
		on_ask(peer, hdr->data);
	else
		on_answer(peer, hdr);
}

/* ---- asking ---- */

static struct tagrv_engine *engine_of(struct tagrv_list *dom_node)
{
	return tagrv_container_of(dom_node, struct tagrv_engine, dom_node);
}

/* What is counted of the peer; other uses do not make a connection younger. */
static uint32_t uses_of(const struct tagrv_peer *peer)
{
	return peer->tx_seq + peer->rx_seq + peer->rma.changes + peer->rma.begun;
}

struct look {
	const struct tagrv_quota *quota;
	uint32_t now;			/* dom->part_looks */
	unsigned leaving;		/* links that end anyway */
	bool	urgent;
	struct tagrv_lane *oldest;	/* NULL: none may be asked */
};

static void look_at(struct look *look, struct tagrv_lane *lane)
{
	struct tagrv_peer *peer = lane->peer;
	uint32_t since = look->now - lane->part.asked_at;

	/* A peer that makes no progress does not answer: others are asked as well. */
	if (lane->closing || lane->part.state == TAGRV_PART_AGREED ||
	    (lane->part.state == TAGRV_PART_ASKED && since < SILENT_LOOKS)) {
		look->leaving++;
		return;
	}
	if (!peer || peer->lane != lane || !lane->part.known)
		return;
	if (lane->part.seen != uses_of(peer)) {
		lane->part.seen = uses_of(peer);
		lane->part.used_at = look->now;
	}
	if (!is_still(lane) || tagrv_list_linked(&lane->part.node) ||
	    (lane->part.refused && since < REFUSED_LOOKS) ||
	    (lane->part.used_at == look->now && !look->urgent))
		return;
	if (!look->oldest || look->now - lane->part.used_at >
			     look->now - look->oldest->part.used_at)
		look->oldest = lane;
}

static bool counts_in(const struct tagrv_xport *xport, const struct tagrv_quota *quota)
{
	tagrv_xport_for_each_quota(pos, xport)
		if (*pos == quota)
			return true;
	return false;
}

/* All engines of the domain share the device. */
static void look_around(struct look *look, struct tagrv_dom *dom)
{
	struct tagrv_list *e, *node;

	look->leaving = 0;
	look->oldest = NULL;
	tagrv_list_for_each(&dom->engines, e)
		tagrv_list_for_each(&engine_of(e)->conn.lanes, node) {
			struct tagrv_lane *lane =
				tagrv_container_of(node, struct tagrv_lane, node);

			if (counts_in(lane->link->xport, look->quota))
				look_at(look, lane);
		}
}

/* False: nothing can be sent to it now, or there is no number for the question. */
static bool ask(struct tagrv_lane *lane, uint32_t look)
{
	struct tagrv_peer *peer = lane->peer;
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_PART, .op = TAGRV_PKT_PART_ASK };

	if (tagrv_random_fill(&lane->part.nr, sizeof(lane->part.nr)))
		return false;
	hdr.data = lane->part.nr;
	if (tagrv_control_send(peer, &hdr, NULL, 0))
		return false;
	if (!tagrv_lane_is_of(lane, peer))
		return false;
	lane->part.refused = false;
	lane->part.asked_at = look;
	stop_sending(peer, TAGRV_PART_ASKED);
	return true;
}

static void make_room(struct tagrv_engine *engine, struct tagrv_quota *quota,
		      bool urgent)
{
	struct look look = { .quota = quota, .urgent = urgent };
	unsigned excess = tagrv_quota_excess(quota);
	/* So that uses are known by the time when one has to be chosen. */
	bool ahead = quota->aim && atomic_load(&quota->used) > quota->aim / 2;

	if (urgent)
		excess = TAGRV_MAX(excess, 1u);
	if (!excess && !ahead)
		return;
	look.now = ++engine->dom->part_looks;
	do
		look_around(&look, engine->dom);
	while (look.leaving < excess && look.oldest && ask(look.oldest, look.now));
}

void tagrv_part_make_room(struct tagrv_engine *engine, bool urgent)
{
	tagrv_assert_locked(engine->dom);
	for (size_t i = 0; i < engine->rails.xport_cnt; i++)
		tagrv_xport_for_each_quota(quota, engine->rails.xports[i])
			make_room(engine, *quota, urgent);
}
