/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote CQ data: each makes an entry in the target's queue for which nobody has posted a
 * receive, so that only a peer's restraint bounds the queue.
 *
 *   initiator   at most TAGRV_RMA_DATA_MAX operations with data to one peer are unanswered;
 *               the next one waits, and what is behind it
 *   target      while its queue has TAGRV_UNREAD_MAX more entries than the application has
 *               asked for, it does not answer operations with data: their FINs are held
 *               until enough of the queue has been read, or the endpoint is closed
 *
 * So such entries have at most this number and TAGRV_RMA_DATA_MAX for each peer beyond the
 * size of the queue. Nothing is lost.
 */
#include <rdma/fi_domain.h>

#include "object/comp.h"
#include "proto/packet/ack.h"
#include "proto/rma/rma_priv.h"

/* ---- initiator ---- */

bool tagrv_rma_may_bring_data(const struct tagrv_op *op)
{
	return !(op->flags & FI_REMOTE_CQ_DATA) || op->tx.rma->brings_data ||
	       op->peer->rma.data_asked < TAGRV_RMA_DATA_MAX;
}

void tagrv_rma_bring_data(struct tagrv_op *op)
{
	struct tagrv_rma *r = op->tx.rma;

	if (!(op->flags & FI_REMOTE_CQ_DATA) || r->brings_data)
		return;
	r->brings_data = true;
	op->peer->rma.data_asked++;
}

void tagrv_rma_brought_data(struct tagrv_op *op)
{
	struct tagrv_rma *r = op->tx.rma;

	if (!r->brings_data)
		return;
	r->brings_data = false;
	assert(op->peer->rma.data_asked);
	op->peer->rma.data_asked--;
}

/* ---- target ---- */

static bool has_room(const struct tagrv_engine *engine)
{
	const struct tagrv_compq *queue = engine->sinks.rx_cq;

	return !queue || queue->over_cnt <= engine->credit.unread || engine->closing;
}

static void hold(struct tagrv_peer *peer, uint32_t op)
{
	/* Whoever comes again and again must not fill the queue. */
	if (peer->rma.held_cnt + peer->rma.held_before >= TAGRV_RMA_DATA_MAX) {
		tagrv_peer_bad_packet(peer, "too many writes with remote CQ data");
		return;
	}
	tagrv_ack_hold(peer, op);
	if (peer->state == TAGRV_PEER_READY)
		tagrv_peer_set_busy(peer);
}

void tagrv_rma_ack_write(struct tagrv_peer *peer, uint16_t flags, uint32_t op,
			 int status)
{
	tagrv_assert_locked(peer->engine->dom);
	if (TAGRV_LIKELY(!(flags & TAGRV_RMA_DATA) || status)) {
		tagrv_ack_fin(peer, op, status);
	} else if (TAGRV_LIKELY(has_room(peer->engine))) {
		peer->rma.held_before = 0;
		tagrv_ack_fin(peer, op, 0);
	} else {
		hold(peer, op);
	}
}

void tagrv_rma_release_held(struct tagrv_peer *peer)
{
	tagrv_assert_locked(peer->engine->dom);
	if (has_room(peer->engine))
		tagrv_ack_release(peer);
}
