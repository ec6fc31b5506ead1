/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One progress pass of an engine: reports of the wireup thread, then the
 * transports, then peers with work to send. The lane of a peer that hung up is
 * failed only after a pass that found nothing, or many passes, so that what the
 * peer sent before is received first. Then receives that name the peer end, if that
 * is wanted (lost.h). A list of receives in a device gets the commands that are due.
 */
#include <rdma/fi_errno.h>

#include "engine/connect.h"
#include "engine/endpoint.h"
#include "engine/lost.h"
#include "engine/part.h"
#include "object/engine.h"
#include "object/lane.h"
#include "object/tags.h"
#include "proto/serve.h"
#include "wireup/wireup.h"

static int serve(struct tagrv_list *busy_node)
{
	return tagrv_peer_serve(
		tagrv_container_of(busy_node, struct tagrv_peer, busy_node));
}

/*
 * Serves each busy peer once, and begins with another one every time. Returns how
 * many can go on.
 */
static int serve_busy(struct tagrv_engine *engine)
{
	struct tagrv_list *node = tagrv_list_first(&engine->tx.busy);
	struct tagrv_list turn;
	int more = 0;

	if (TAGRV_LIKELY(node->next == &engine->tx.busy))
		return serve(node);
	tagrv_list_init(&turn);
	tagrv_list_splice_tail(&turn, &engine->tx.busy);
	node = tagrv_list_pop(&turn);
	tagrv_list_push_tail(&turn, node);
	while ((node = tagrv_list_pop(&turn))) {
		tagrv_list_push_tail(&engine->tx.busy, node);
		more += serve(node);
	}
	return more;
}

int tagrv_engine_serve(struct tagrv_engine *engine)
{
	int more;

	tagrv_assert_locked(engine->dom);
	if (tagrv_list_empty(&engine->tx.busy))
		return 0;
	more = serve_busy(engine);
	if (!tagrv_list_empty(&engine->tx.busy))
		tagrv_watch_attend(&engine->dom->watch);
	return more;
}

/* idle: this pass found nothing. */
static void drop_gone(struct tagrv_engine *engine, bool idle)
{
	struct tagrv_list turn, *node;

	/* The failure of one lane may fail others, which leave this list then. */
	tagrv_list_init(&turn);
	tagrv_list_splice_tail(&turn, &engine->conn.gone);
	while ((node = tagrv_list_pop(&turn))) {
		struct tagrv_lane *lane =
			tagrv_container_of(node, struct tagrv_lane, gone_node);
		struct tagrv_peer *peer = lane->peer;

		tagrv_list_push_tail(&engine->conn.gone, node);
		if (!idle && !tagrv_lane_is_drained(lane))
			continue;
		tagrv_lane_fail(lane, lane->gone_status, lane->gone_untold);
		tagrv_peer_forget(peer);
	}
}

static TAGRV_COLD void end_connections(struct tagrv_engine *engine, bool idle)
{
	bool owes = tagrv_part_serve(engine);

	tagrv_engine_connect_self(engine);
	drop_gone(engine, idle);
	tagrv_engine_end_lost(engine);
	engine->conn.due &= (uint8_t) ~TAGRV_DUE_ENDS;
	if (owes || !tagrv_list_empty(&engine->conn.gone))
		engine->conn.due |= TAGRV_DUE_ENDS;
}

/* Not inlined: most passes of most engines have nothing of this to do. */
static __attribute__((noinline)) void do_due(struct tagrv_engine *engine, int events)
{
	if (engine->conn.due & TAGRV_DUE_TAGS) {
		tagrv_tags_flush(engine->tags);
		if (tagrv_tags_is_busy(engine->tags))
			tagrv_watch_attend(&engine->dom->watch);
	}
	if (engine->conn.due & TAGRV_DUE_ENDS)
		end_connections(engine, !events);
}

/* Nothing happens: there is time to allocate. */
static void grow_ahead(struct tagrv_engine *engine)
{
	tagrv_match_grow_ahead(engine->match);
	/* Without memory, a later pass tries again. */
	if (TAGRV_UNLIKELY(engine->pools.spare_used))
		(void) !tagrv_engine_set_aside(engine);
}

int tagrv_engine_progress(struct tagrv_engine *engine)
{
	struct tagrv_wireup_event event;
	int events = 0;

	tagrv_assert_locked(engine->dom);
	while (engine->conn.wep &&
	       tagrv_wireup_has_event(engine->conn.wep_events) &&
	       tagrv_wireup_poll(engine->conn.wep, &event)) {
		tagrv_engine_wireup_event(engine, &event);
		events++;
	}
	engine->dom->in_pass = true;
	events += tagrv_rails_poll(&engine->rails,
				   tagrv_match_uses_hash(engine->match));
	engine->dom->in_pass = false;
	if (!tagrv_list_empty(&engine->tx.busy))
		events += serve_busy(engine);
	if (TAGRV_UNLIKELY(engine->conn.due))
		do_due(engine, events);
	if (!events)
		grow_ahead(engine);
	if (!tagrv_list_empty(&engine->tx.busy) || engine->conn.due & TAGRV_DUE_ENDS)
		tagrv_watch_attend(&engine->dom->watch);
	return events;
}
