/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Closing an engine, in this order: progress until peers have the messages that
 * were accepted and the acks they wait for, within close_timeout; refuse new work;
 * say goodbye to peers (they see an orderly end, not a death); end links; free.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "board/board.h"
#include "core/clock.h"
#include "core/log.h"
#include "engine/drive.h"
#include "engine/dump.h"
#include "engine/endpoint.h"
#include "engine/open.h"
#include "engine/stats.h"
#include "object/lane.h"
#include "object/op.h"
#include "proto/peek.h"
#include "proto/unexp.h"
#include "wireup/wireup.h"

/* All of it is in packets, and only the answer is missing. */
static bool awaits_answer(const struct tagrv_op *op)
{
	return op->state == TAGRV_OP_FIN_WAIT || op->state == TAGRV_OP_ASKED;
}

/*
 * Whether there are sends or writes that the application was told are done, but that
 * have not left: a copy of ours that is only announced has to be kept until the peer
 * has all of it. Nothing that is injected is announced by a PULL.
 */
static bool has_injected(const struct tagrv_list *sends)
{
	const struct tagrv_list *node;

	tagrv_list_for_each(sends, node) {
		const struct tagrv_op *op =
			tagrv_container_of(node, struct tagrv_op, link);

		if ((op->tx.no_context || (op->flags & FI_INJECT)) &&
		    !awaits_answer(op))
			return true;
	}
	return false;
}

static bool owes_peer(const struct tagrv_peer *peer)
{
	if (!peer->lane)
		return has_injected(&peer->pending);
	return !tagrv_list_empty(&peer->pending) ||
	       !tagrv_list_empty(&peer->acks) ||
	       !tagrv_list_empty(&peer->rma.answers) || peer->rma.held_cnt ||
	       tagrv_peer_owes_count(peer) ||
	       has_injected(&peer->waiting) || has_injected(&peer->writers);
}

static bool is_quiet(void *arg)
{
	struct tagrv_engine *engine = arg;

	for (size_t i = 0; i < engine->table.cnt; i++)
		if (owes_peer(engine->table.peers[i]))
			return false;
	return tagrv_rails_flush(&engine->rails);
}

static bool has_no_lanes(void *arg)
{
	struct tagrv_engine *engine = arg;

	return tagrv_list_empty(&engine->conn.lanes);
}

static void end_arrived_to(struct tagrv_peer *peer)
{
	struct tagrv_list *node, *tmp;

	if (peer->rma.counted)
		tagrv_peer_end_counted(peer, peer->rma.counted, 0);
	tagrv_list_for_each_safe(&peer->waiting, node, tmp) {
		struct tagrv_op *op =
			tagrv_container_of(node, struct tagrv_op, link);

		if (!awaits_answer(op) || !op->tx.no_context)
			continue;
		tagrv_list_remove(node);
		if (op->state == TAGRV_OP_ASKED)
			tagrv_op_rma_end(op, 0);
		else
			tagrv_op_send_end(op, 0);
	}
}

/*
 * Ends injected messages and writes of which only the FIN is missing, before their
 * connection fails: with nothing outstanding, peers have every byte, so they are not to
 * be logged as lost.
 */
static void end_arrived(struct tagrv_engine *engine)
{
	if (!tagrv_rails_flush(&engine->rails))
		return;
	for (size_t i = 0; i < engine->table.cnt; i++)
		end_arrived_to(engine->table.peers[i]);
}

static void close_lanes(struct tagrv_engine *engine)
{
	struct tagrv_list *node, *tmp;

	/* From here on only a shared context is reported to. */
	tagrv_rx_leave(engine);
	engine->sinks = (struct tagrv_engine_sinks) { .rx_all = true };
	engine->plain_ends = false;
	end_arrived(engine);
	tagrv_list_for_each_safe(&engine->conn.lanes, node, tmp)
		tagrv_lane_fail(tagrv_container_of(node, struct tagrv_lane,
						   node), -FI_ECANCELED, false);
	tagrv_peek_drop_claims(engine);
	tagrv_unexp_drop(engine);
}

static void say_goodbye(struct tagrv_engine *engine)
{
	struct tagrv_wireup_ep *wep = engine->conn.wep;
	struct tagrv_dom *dom = engine->dom;

	if (!wep)
		return;
	/* Connections that came up meanwhile are dropped with the queue. */
	tagrv_dom_lock(dom);
	engine->conn.wep = NULL;
	tagrv_engine_log_sockets(engine, wep);
	tagrv_lock_release(&dom->lock);
	tagrv_wireup_unlisten(wep);
}

/* Says what is lost, and what it waited for. */
static void log_given_up(struct tagrv_engine *engine)
{
	struct tagrv_dom *dom = engine->dom;
	char addr[TAGRV_ADDR_STRLEN];

	tagrv_warn("endpoint %s closed with messages that no peer took "
		   "within FI_TAGRV_CLOSE_TIMEOUT (%d s):\n",
		   tagrv_addr_str(&engine->name, addr, sizeof(addr)),
		   dom->params.close_timeout);
	tagrv_dom_lock(dom);
	tagrv_engine_dump_log(engine);
	tagrv_lock_release(&dom->lock);
}

void tagrv_engine_close(struct tagrv_engine *engine)
{
	struct tagrv_dom *dom = engine->dom;

	tagrv_dom_lock(dom);
	engine->closing = true;
	tagrv_lock_release(&dom->lock);
	if (engine->enabled &&
	    !tagrv_dom_progress_until(dom, is_quiet, engine,
				      (uint64_t) dom->params.close_timeout * 1000))
		log_given_up(engine);
	tagrv_dom_lock(dom);
	/* Messages that came by its connections are still queued. */
	if (engine->enabled && dom->params.match_stats)
		tagrv_engine_log_match(engine);
	engine->enabled = false;
	tagrv_lock_release(&dom->lock);
	say_goodbye(engine);
	tagrv_dom_lock(dom);
	close_lanes(engine);
	tagrv_lock_release(&dom->lock);
	if (!tagrv_dom_progress_until(dom, has_no_lanes, engine, 3000))
		tagrv_warn("device %s does not complete its operations: closed "
			   "by force\n",
			   engine->rails.active[0]->xport->dev->name);
	tagrv_dom_lock(dom);
	tagrv_list_remove(&engine->dom_node);
	tagrv_board_remove(dom->show.board, engine->show.slot);
	tagrv_list_remove(&engine->table.watcher.node);
	/* Under the lock: other endpoints share the context and the caches. */
	tagrv_engine_log_stats(engine);
	tagrv_lock_release(&dom->lock);
	tagrv_engine_close_rails(engine);
	tagrv_peer_destroy_all(engine);
	tagrv_engine_fini_pools(engine);
	free(engine->tx.batch);
	free(engine);
}
