/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Takes back shared receive buffers that are lost. A queue pair that breaks amid a packet
 * has taken a buffer, whose completion some libraries swallow (bnxt_re); others remove the
 * completions of a queue pair that is destroyed (mlx5), which verbs_close.c polls before,
 * but a device may be late. The device does not say which buffers it still has.
 *
 *                 post              a queue pair takes it          completion
 *   idle ----------------> in the SRQ ---------------> taken ------------------> idle
 *    ^                                                   | that queue pair is
 *    |     no living queue pair can have it any more     v destroyed
 *    +-------------------------------------------------- lost
 *
 * Posted, taken and lost look alike. Two orders tell them apart:
 *
 *   - an SRQ gives its buffers away in the order in which they were posted,
 *   - a queue pair completes its receives in the order in which it took them.
 *
 * The search begins when a queue pair was destroyed: 'before' divides all postings, from
 * now on, into old and new ones.
 *
 *   postings   old old old old | new new new new        rx_last of a link: the posting
 *                            before        ^            that it completed last
 *                                        rx_last
 *
 * A link that has completed a new one shows that no old one is in the SRQ any more, and
 * that it holds no old one itself. When every link has, the old ones that are outstanding
 * are lost: nobody writes to them, and they are posted again. A link that is idle must show
 * it, too, since it may hold half a packet: its peer is asked for a packet, but only once
 * many links have failed. A link that is made after the first one has shown it need not: it
 * finds new buffers only. Side links take no buffers.
 *
 * Each link that failed counts as a lost buffer until the search has ended, so that no more
 * packets are permitted than there are buffers in the SRQ.
 *
 * If a device gives buffers away in another order, a packet comes for a posting that was
 * taken back. Its link fails, and no buffer is taken back any more.
 */
#include <rdma/fi_errno.h>

#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

/* Peers are asked when 1 / ASK_PART of the buffers may be lost. */
#define ASK_PART	8u
/* A look at all links costs no more than this many per buffer posted meanwhile. */
#define LOOK_LINKS	16u
/* Looks that found nothing are rarer and rarer, down to one per 1 / RARE_PART of the buffers. */
#define RARE_PART	4u

static void begin(struct verbs_xport *xp)
{
	struct verbs_lost *lost = &xp->lost;

	lost->before = xp->rxq.next;
	xp->searching = true;
	lost->looked = 0;
	lost->pause = 0;
	lost->links = lost->links_later;
	lost->links_later = 0;
	lost->again = lost->passed = false;
}

void tagrv_verbs_lost_suspect(const struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	bool failed = link->error != -FI_ECANCELED;

	if (link->rxq || link->side || xp->lost.off)
		return;
	xp->lost.links_later += failed;
	if (xp->lost.before)
		xp->lost.again = true;
	else
		begin(xp);
}

/* Without room or permit the peer is asked at a later look. */
static void ask(struct verbs_xport *xp, struct verbs_link *link)
{
	if (link->state != VERBS_LINK_OPEN || link->error ||
	    link->asked_for == xp->lost.before)
		return;
	if (tagrv_verbs_recall_none(link) != -FI_EAGAIN)
		link->asked_for = xp->lost.before;
}

/* Closing links for which the map never had memory. */
static uint32_t count_unmapped(struct verbs_xport *xp)
{
	struct tagrv_list *pos;
	uint32_t cnt = 0;

	tagrv_list_for_each(&xp->closing, pos) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, close_node);

		cnt += verbs_map_find(&xp->map, link->qpn) != link;
	}
	return cnt;
}

/* Links that hold no old buffer. *all: links that may take any. */
static uint32_t count_cleared(struct verbs_xport *xp, uint32_t *all)
{
	uint32_t cleared = 0;

	*all = count_unmapped(xp);
	for (uint32_t i = 0; xp->map.slots && i <= xp->map.mask; i++) {
		const struct verbs_link *link = xp->map.slots[i];

		if (!link || link->side)
			continue;
		++*all;
		cleared += link->rx_last >= xp->lost.before;
	}
	return cleared;
}

static void ask_others(struct verbs_xport *xp)
{
	for (uint32_t i = 0; xp->map.slots && i <= xp->map.mask; i++) {
		struct verbs_link *link = xp->map.slots[i];

		if (link && !link->side && link->rx_last < xp->lost.before)
			ask(xp, link);
	}
}

static void take_back(struct verbs_xport *xp)
{
	struct verbs_rxq *rxq = &xp->rxq;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < rxq->bufs.total; i++) {
		if (rxq->wr_ids[i] >= xp->lost.before)
			continue;
		rxq->wr_ids[i] = verbs_not_posted(i);
		rxq->bufs.idle[rxq->bufs.idle_cnt++] = i;
		rxq->posted--;
		cnt++;
	}
	xp->lost.taken = xp->lost.before;
	if (cnt)
		tagrv_info("verbs: %s: %u receive buffers, lost by %u links that failed, "
			   "are posted again\n", xp->dev->base.name, cnt, xp->lost.links);
	tagrv_verbs_rxq_refill(xp->calls, rxq);
}

/* Whether nothing is hidden: held completions, or a link that is not in the map yet. */
static bool sees_all(struct verbs_xport *xp)
{
	bool all;

	if (xp->rx.held_cnt)
		return false;
	tagrv_verbs_links_adopt(xp);
	pthread_mutex_lock(&xp->inbox.mutex);
	all = tagrv_list_empty(&xp->inbox.fresh);
	pthread_mutex_unlock(&xp->inbox.mutex);
	return all;
}

/* Whether enough buffers were posted since the last look. */
static bool look_is_due(struct verbs_xport *xp)
{
	uint64_t least = TAGRV_MAX(xp->map.cnt / LOOK_LINKS, xp->lost.pause) + 1;

	if (xp->rxq.next - xp->lost.looked < least * (xp->rxq.slot_mask + 1))
		return false;
	xp->lost.looked = xp->rxq.next;
	return true;
}

void tagrv_verbs_lost_search(struct verbs_xport *xp)
{
	struct verbs_lost *lost = &xp->lost;
	uint32_t cleared, all;

	if (!lost->before || lost->off || !look_is_due(xp) || !sees_all(xp))
		return;
	cleared = count_cleared(xp, &all);
	lost->pause = TAGRV_MIN(2 * lost->pause + 1, xp->rxq.bufs.total / RARE_PART);
	lost->passed |= cleared != 0;
	if (lost->passed && cleared == all) {
		take_back(xp);
		lost->links = lost->before = 0;
		xp->searching = false;
		if (lost->again)
			begin(xp);
	} else if (lost->passed && verbs_lost_maybe(xp) >= xp->rxq.bufs.total / ASK_PART) {
		ask_others(xp);
	}
}

void tagrv_verbs_lost_came(struct verbs_xport *xp, struct verbs_link *link,
			   const struct ibv_wc *wc)
{
	xp->stale++;
	if (!link || wc->status || wc->wr_id >= xp->lost.taken)
		return;
	if (!xp->lost.off)
		tagrv_warn("verbs: %s: the device does not use receive buffers in order: "
			   "those that are lost stay lost\n", xp->dev->base.name);
	xp->lost.off = true;
	tagrv_verbs_link_fail(link, -FI_EIO, false);
}
