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

static void begin(struct verbs_pool *pool)
{
	struct verbs_lost *lost = &pool->lost;

	lost->before = pool->rxq.next;
	pool->searching = true;
	lost->looked = 0;
	lost->pause = 0;
	lost->links = lost->links_later;
	lost->links_later = 0;
	lost->again = lost->passed = false;
}

void tagrv_verbs_lost_suspect(const struct verbs_link *link)
{
	struct verbs_pool *pool = link->pool;
	bool failed = link->error != -FI_ECANCELED;

	if (link->rxq || link->side || pool->lost.off)
		return;
	pool->lost.links_later += failed;
	if (pool->lost.before)
		pool->lost.again = true;
	else
		begin(pool);
}

/* Without room or permit the peer is asked at a later look. */
static void ask(struct verbs_link *link)
{
	uint64_t before = link->pool->lost.before;

	if (link->state != VERBS_LINK_OPEN || link->error || link->asked_for == before)
		return;
	if (tagrv_verbs_recall_none(link) != -FI_EAGAIN)
		link->asked_for = before;
}

/* Closing links for which the map never had memory. */
static uint32_t count_unmapped(const struct verbs_pool *pool)
{
	struct verbs_xport *xp = pool->xp;
	struct tagrv_list *pos;
	uint32_t cnt = 0;

	tagrv_list_for_each(&xp->closing, pos) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, close_node);

		cnt += link->pool == pool && verbs_map_find(&xp->map, link->qpn) != link;
	}
	return cnt;
}

/* Links that hold no old buffer. *all: links that may take any. */
static uint32_t count_cleared(const struct verbs_pool *pool, uint32_t *all)
{
	const struct verbs_map *map = &pool->xp->map;
	uint32_t cleared = 0;

	*all = count_unmapped(pool);
	for (uint32_t i = 0; map->slots && i <= map->mask; i++) {
		const struct verbs_link *link = map->slots[i];

		if (!link || link->side || link->pool != pool)
			continue;
		++*all;
		cleared += link->rx_last >= pool->lost.before;
	}
	return cleared;
}

static void ask_others(const struct verbs_pool *pool)
{
	const struct verbs_map *map = &pool->xp->map;

	for (uint32_t i = 0; map->slots && i <= map->mask; i++) {
		struct verbs_link *link = map->slots[i];

		if (link && link->pool == pool && !link->side &&
		    link->rx_last < pool->lost.before)
			ask(link);
	}
}

static void take_back(struct verbs_pool *pool)
{
	struct verbs_rxq *rxq = &pool->rxq;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < rxq->bufs.total; i++) {
		if (rxq->wr_ids[i] >= pool->lost.before)
			continue;
		rxq->wr_ids[i] = verbs_not_posted(i);
		rxq->bufs.idle[rxq->bufs.idle_cnt++] = i;
		rxq->posted--;
		cnt++;
	}
	pool->lost.taken = pool->lost.before;
	if (cnt)
		tagrv_info("verbs: %s: %u receive buffers, lost by %u links that failed, "
			   "are posted again\n", pool->xp->dev->base.name, cnt,
			   pool->lost.links);
	tagrv_verbs_rxq_refill(pool->xp->calls, rxq);
}

/* Whether nothing is hidden: held completions, or a link that is not in the map yet. */
static bool sees_all(const struct verbs_pool *pool)
{
	struct verbs_xport *xp = pool->xp;
	bool all;

	if (pool == &xp->pool ? xp->rx.held_cnt != 0 : tagrv_verbs_list_holds(xp))
		return false;
	tagrv_verbs_links_adopt(xp);
	pthread_mutex_lock(&xp->inbox.mutex);
	all = tagrv_list_empty(&xp->inbox.fresh);
	pthread_mutex_unlock(&xp->inbox.mutex);
	return all;
}

/* Whether enough buffers were posted since the last look. */
static bool look_is_due(struct verbs_pool *pool)
{
	uint64_t least = TAGRV_MAX(pool->xp->map.cnt / LOOK_LINKS, pool->lost.pause) + 1;

	if (pool->rxq.next - pool->lost.looked < least * (pool->rxq.slot_mask + 1))
		return false;
	pool->lost.looked = pool->rxq.next;
	return true;
}

void tagrv_verbs_lost_search(struct verbs_pool *pool)
{
	struct verbs_lost *lost = &pool->lost;
	uint32_t cleared, all;

	if (!lost->before || lost->off || !look_is_due(pool) || !sees_all(pool))
		return;
	cleared = count_cleared(pool, &all);
	lost->pause = TAGRV_MIN(2 * lost->pause + 1, pool->rxq.bufs.total / RARE_PART);
	lost->passed |= cleared != 0;
	if (lost->passed && cleared == all) {
		take_back(pool);
		lost->links = lost->before = 0;
		pool->searching = false;
		if (lost->again)
			begin(pool);
	} else if (lost->passed && verbs_lost_maybe(pool) >= pool->rxq.bufs.total / ASK_PART) {
		ask_others(pool);
	}
}

void tagrv_verbs_lost_came(struct verbs_pool *pool, struct verbs_link *link,
			   const struct ibv_wc *wc)
{
	pool->xp->stale++;
	if (!link || wc->status || wc->wr_id >= pool->lost.taken)
		return;
	if (!pool->lost.off)
		tagrv_warn("verbs: %s: the device does not use receive buffers in order: "
			   "those that are lost stay lost\n", pool->xp->dev->base.name);
	pool->lost.off = true;
	tagrv_verbs_link_fail(link, -FI_EIO, false);
}
