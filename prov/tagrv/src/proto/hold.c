/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Holding back senders: see hold.h, which draws the states.
 */
#include "proto/hold.h"

#include "core/log.h"
#include "match/quick.h"
#include "object/rx.h"

/* A peer's share of the budget, as a multiple of what is left of it. */
#define HOLD_SHARE	8u

/* ---- who pays ---- */

bool tagrv_hold_pay(struct tagrv_peer *peer, uint32_t units)
{
	uint32_t *budget = &peer->engine->credit.budget;

	tagrv_assert_locked(peer->engine->dom);
	if (units > *budget || (uint64_t) peer->hold.paid + units >
	    (uint64_t) HOLD_SHARE * (*budget - units))
		return false;
	*budget -= units;
	peer->hold.paid += units;
	return true;
}

void tagrv_hold_repay(struct tagrv_peer *peer, uint32_t units)
{
	tagrv_assert_locked(peer->engine->dom);
	assert(peer->hold.paid >= units);
	peer->engine->credit.budget += units;
	peer->hold.paid -= units;
}

/* ---- stopping, and going on ---- */

static void stop(struct tagrv_peer *peer)
{
	peer->hold.stopped = true;
	peer->hold.wanted = false;
	peer->hold.seen = 0;
	tagrv_list_push_tail(&peer->engine->rx->stopped, &peer->hold.node);
	if (peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
}

/* Stops a peer that has no place left and none on its way. */
static void stop_without_place(struct tagrv_peer *peer)
{
	const struct tagrv_places *places = &peer->hold.places;

	if (TAGRV_UNLIKELY(!places->promised) && !tagrv_places_is_due(places) &&
	    !peer->hold.stopped)
		stop(peer);
}

static void go_on(struct tagrv_peer *peer)
{
	if (!peer->hold.stopped)
		return;
	peer->hold.stopped = false;
	tagrv_list_remove(&peer->hold.node);
}

bool tagrv_hold_use_place(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	return tagrv_places_use(&peer->hold.places);
}

void tagrv_hold_release_place(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	if (tagrv_places_release(&peer->hold.places))
		peer->engine->credit.budget += TAGRV_PLACE_UNITS;
	if (tagrv_places_is_due(&peer->hold.places) &&
	    peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
	/* It was the last one, and too few are owed for a packet. */
	stop_without_place(peer);
}

void tagrv_hold_kept(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	stop_without_place(peer);
}

void tagrv_hold_returned(struct tagrv_peer *peer, uint32_t cnt)
{
	tagrv_assert_locked(peer->engine->dom);
	tagrv_places_returned(&peer->hold.places, cnt);
	if (cnt)
		go_on(peer);
}

void tagrv_hold_reset(struct tagrv_peer *peer)
{
	struct tagrv_places *places = &peer->hold.places;

	tagrv_assert_locked(peer->engine->dom);
	peer->engine->credit.budget += (places->window - places->first) *
				       TAGRV_PLACE_UNITS;
	tagrv_places_reset(places, peer->engine->credit.places);
	go_on(peer);
}

/* ---- stopped peers that are wanted ---- */

static bool is_wanted(struct tagrv_peer *peer)
{
	/* Also of one for which there was no budget so far. */
	peer->hold.wanted = peer->hold.wanted ||
			    tagrv_match_awaits(peer->engine->match,
					       peer->match_id,
					       &peer->hold.seen);
	return peer->hold.wanted;
}

/* False: the budget is used up. */
static bool extend(struct tagrv_peer *peer)
{
	const uint32_t units = TAGRV_PLACES_STEP * TAGRV_PLACE_UNITS;
	struct tagrv_engine *engine = peer->engine;

	if (engine->credit.budget < units) {
		if (!engine->credit.reported)
			tagrv_warn("a receive may wait for a message behind "
				   "more unexpected ones than are kept: raise "
				   "FI_TAGRV_EAGER_BUDGET, or receive them "
				   "earlier (not logged again)\n");
		engine->credit.reported = true;
		return false;
	}
	engine->credit.budget -= units;
	tagrv_places_extend(&peer->hold.places, TAGRV_PLACES_STEP);
	return true;
}

void tagrv_hold_look(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	peer->engine->rx->roused = false;
	if (!is_wanted(peer))
		return;
	if (peer->hold.places.owed || extend(peer))
		peer->hold.places.urgent = true;
}

bool tagrv_hold_looks_again(const struct tagrv_peer *peer)
{
	/* While all that is kept was claimed, receives are posted the short way
	 * (engine/fast.h), which does not call tagrv_hold_posted(). */
	return peer->hold.wanted || !peer->engine->match->unexpected.level.cnt;
}

static struct tagrv_peer *peer_of(struct tagrv_list *node)
{
	return tagrv_container_of(node, struct tagrv_peer, hold.node);
}

/* One that is not READY becomes busy with that. */
static void rouse(struct tagrv_peer *peer)
{
	if (peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
}

void tagrv_hold_posted(struct tagrv_rx *rx)
{
	struct tagrv_list *node;

	tagrv_assert_locked(rx->dom);
	if (rx->roused)
		return;
	rx->roused = true;
	tagrv_list_for_each(&rx->stopped, node)
		rouse(peer_of(node));
	tagrv_dom_kick(rx->dom);
}

void tagrv_hold_peeked(struct tagrv_rx *rx, uint32_t match_id)
{
	struct tagrv_list *node;

	tagrv_assert_locked(rx->dom);
	tagrv_list_for_each(&rx->stopped, node) {
		struct tagrv_peer *peer = peer_of(node);

		if (match_id != TAGRV_MATCH_ANY && match_id != peer->match_id)
			continue;
		peer->hold.wanted = true;
		rouse(peer);
	}
}
