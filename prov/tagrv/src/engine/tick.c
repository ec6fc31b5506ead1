/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an engine does from time to time: see tick.h.
 */
#include "engine/tick.h"

#include "core/clock.h"
#include "engine/lost.h"
#include "engine/stats.h"
#include "object/lane.h"

/* ms by which a TICK may be early: it is for the time that it is near to. */
#define TICK_SLACK	500

/* ---- how often ---- */

static bool has_checked_rail(const struct tagrv_engine *engine)
{
	for (size_t i = 0; i < engine->rails.xport_cnt; i++)
		if (engine->rails.xports[i]->attr.caps & TAGRV_XPORT_CHECKED)
			return true;
	return false;
}

/* Seconds between looks at connections; 0: none. */
static unsigned probe_of(const struct tagrv_engine *engine)
{
	return has_checked_rail(engine) ? (unsigned) engine->dom->params.probe : 0;
}

unsigned tagrv_engine_max_sockets(const struct tagrv_engine *engine)
{
	if (!engine->dom->params.probe)
		return 0;
	for (size_t i = 0; i < engine->rails.xport_cnt; i++)
		if (!(engine->rails.xports[i]->attr.caps & TAGRV_XPORT_CHECKED))
			return 0;
	return (unsigned) engine->dom->params.max_sockets;
}

/* The greatest common divisor; of a number and 0 it is the number. */
static unsigned divisor(unsigned a, unsigned b)
{
	while (b) {
		unsigned rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

unsigned tagrv_engine_tick_ms(const struct tagrv_engine *engine)
{
	return 1000 * divisor((unsigned) engine->dom->params.match_stats,
			      probe_of(engine));
}

/* Whether it is time. Sets *next to the time after, 'seconds' later; 0: it never is. */
static bool is_due(uint64_t *next, unsigned seconds, uint64_t now)
{
	if (!seconds || now + TICK_SLACK < *next)
		return false;
	*next = now + (uint64_t) seconds * 1000;
	return true;
}

/* ---- connections ---- */

/* Whether an operation ends only by what the peer does. */
static bool is_awaited(const struct tagrv_peer *peer)
{
	return !tagrv_list_empty(&peer->pending) ||
	       !tagrv_list_empty(&peer->waiting) || peer->rma.counted ||
	       !tagrv_list_empty(&peer->writers) ||
	       !tagrv_list_empty(&peer->to_grant) ||
	       !tagrv_list_empty(&peer->granted) ||
	       !tagrv_list_empty(&peer->readers);
}

/* Whether receives are posted that may have to end with their source. */
static bool awaits_sources(const struct tagrv_engine *engine)
{
	struct tagrv_match_stats stats;

	if (!tagrv_engine_ends_receives(engine))
		return false;
	tagrv_match_get_stats(engine->match, &stats);
	return stats.posted;
}

static void check_lane(const struct tagrv_lane *lane, bool all)
{
	const struct tagrv_xport *xport = lane->link->xport;

	if (lane->closing || !lane->peer ||
	    !(xport->attr.caps & TAGRV_XPORT_CHECKED))
		return;
	/* A peer that is not READY may not be sent to; wireup has a time-out for it. One that
	 * was asked to part could, and its answer is awaited. */
	if (lane->peer->state == TAGRV_PEER_READY)
		xport->ops->check(lane->link, !lane->side &&
				  (all || is_awaited(lane->peer)));
	else if (lane->peer->state == TAGRV_PEER_PARTING)
		xport->ops->check(lane->link, true);
}

static void check_lanes(struct tagrv_engine *engine)
{
	bool all = awaits_sources(engine);
	struct tagrv_list *node;

	tagrv_list_for_each(&engine->conn.lanes, node)
		check_lane(tagrv_container_of(node, struct tagrv_lane, node),
			   all);
}

void tagrv_engine_tick(struct tagrv_engine *engine)
{
	uint64_t now = tagrv_clock_ms();

	tagrv_assert_locked(engine->dom);
	if (is_due(&engine->conn.next_stats,
		   (unsigned) engine->dom->params.match_stats, now))
		tagrv_engine_log_match(engine);
	if (is_due(&engine->conn.next_check, probe_of(engine), now))
		check_lanes(engine);
}
