/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Windows: how many packets a peer may be permitted at a time (verbs_permit.c). Receive
 * buffers are there by use, not by peers: most peers send little, and all at the same time
 * never.
 *
 *   window   at first what the blob permits
 *            times GROWTH when the peer has used half of it, within GROWTH_PASSES calls of
 *            progress or GROWTH_MS: who needs longer has no more packets on the way than
 *            it is permitted. The time counts for paths so long that a side which polls
 *            makes more calls per round trip; the clock is read only then
 *            at most pool->rx_window
 *            VERBS_PERMIT_MIN again if others lack permits and the peer is idle
 *                                                                   (verbs_recall.c)
 *
 * So a peer that sends without a pause has its largest window after a few round trips.
 *
 * With SRQ the windows beyond VERBS_PERMIT_MIN share three quarters of RX_BUFS, without what
 * is kept for all peers: pool->rx_window, at most VERBS_PERMIT_MAX. It gets smaller when more
 * peers have such windows, and larger when they fall idle, which is looked for when a peer has
 * used all of its share. Without SRQ a link has buffers of
 * its own. More of them are registered with its window, in progress: not by the packet that
 * offers it.
 */
#include "core/clock.h"
#include "xport/verbs/verbs_priv.h"

#define GROWTH		4u
#define GROWTH_PASSES	4096u
#define GROWTH_MS	20u

static uint32_t most_of(const struct verbs_link *link)
{
	return link->rxq ? link->rxq->bufs.max : link->pool->rx_window;
}

void tagrv_verbs_window_share(struct verbs_pool *pool)
{
	uint32_t all = (pool->rxq.bufs.max - pool->least) / 4 * 3;
	uint32_t kept = VERBS_PERMIT_MIN * pool->links;
	uint32_t share = kept < all ? (all - kept) / TAGRV_MAX(pool->grown, 1u) : 0;
	uint32_t former = pool->rx_window;

	pool->rx_window = TAGRV_MIN(VERBS_PERMIT_MIN + share, VERBS_PERMIT_MAX);
	if (!pool->xp->use_srq)
		pool->rx_window = pool->xp->rq_depth;
	/* Some may have been permitted more. */
	if (pool->rx_window < former)
		pool->recall.left = UINT32_MAX;
}

void tagrv_verbs_window_set(struct verbs_link *link, uint32_t window)
{
	bool was = link->rx_window > VERBS_PERMIT_MIN, is = window > VERBS_PERMIT_MIN;

	/* What the peer used of a larger one does not count for this one. */
	if (window < link->rx_window)
		link->rx_from = link->rx_permits;
	link->rx_window = (uint16_t) window;
	/* Not worth the work before a quarter of the window is owed. */
	link->offer_at = (uint16_t) (window * 3 / 4);
	link->owe_at = (uint16_t) TAGRV_MAX(window / 2, VERBS_PERMIT_MIN - 1);
	if (was == is)
		return;
	link->pool->grown += is ? 1 : -1u;
	tagrv_verbs_window_share(link->pool);
}

static bool is_quick(struct verbs_link *link)
{
	uint16_t before = link->rx_ms;

	if ((uint32_t) link->pool->xp->pass - link->rx_pass <= GROWTH_PASSES)
		return true;
	link->rx_ms = (uint16_t) tagrv_clock_ms();
	return (uint16_t) (link->rx_ms - before) <= GROWTH_MS;
}

void tagrv_verbs_window_look(struct verbs_link *link)
{
	uint32_t most = most_of(link);
	bool quick = is_quick(link);

	link->rx_from = link->rx_permits;
	link->rx_pass = (uint32_t) link->pool->xp->pass;
	if (quick && link->rx_window < most)
		tagrv_verbs_window_set(link, TAGRV_MIN(link->rx_window * GROWTH, most));
	else if (TAGRV_UNLIKELY(quick && !link->rxq && most < VERBS_PERMIT_MAX))
		link->pool->cramped = true;
}

/* Without memory the window stays as large as the queue. */
void tagrv_verbs_window_own(struct verbs_link *link)
{
	struct verbs_rxq *rxq = link->rxq;

	/* A broken queue pair may never return buffers. */
	if (!verbs_window_is_used(link) || atomic_load(&link->async_error))
		return;
	tagrv_verbs_window_look(link);
	while (rxq->bufs.total < link->rx_window)
		if (tagrv_verbs_rxq_grow(rxq))
			tagrv_verbs_window_set(link, rxq->bufs.total);
	tagrv_verbs_rxq_refill(link->pool->xp->calls, rxq);
}
