/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Recalls: the share of the shared receive buffers that each peer may fill gets smaller when
 * more peers send (verbs_window.c). A peer that was permitted more before keeps that as
 * long as it sends nothing, and later peers would starve. So the receiver takes it back when
 * it lacks buffers for others: what is beyond the share, and from peers that have fallen idle
 * all but VERBS_PERMIT_MIN. A peer is idle if for each buffer there is two packets of others
 * have come since its last one.
 *
 *   sender                                       receiver
 *                                                rx_permits > share, others lack permits
 *                          <-- RECALL, n ------  link->recalled
 *   tx_permits -= k <= n
 *                          --- RETURN, k ----->  rx_permits -= k
 *
 * Both are permit-only packets. Packets arrive in order, so those that the sender has sent
 * before are counted when RETURN comes. A sender keeps VERBS_PERMIT_MIN, and always answers,
 * if only by 0: verbs_lost.c asks for none when it wants a packet. A recall that is not
 * answered harms the other peers no more than before.
 *
 * All links are looked at once, some in each pass, when permits lack: after the share has
 * become smaller, and each time that all buffers have been used once. The same if the share is
 * too small for a link, while nobody lacks permits: then peers that have long been idle leave
 * their share to others, but keep what they were permitted.
 */
#include <rdma/fi_errno.h>

#include "xport/verbs/verbs_priv.h"

/* Slots of the map that one pass looks at. */
#define SLOTS_PER_PASS	64u
/* As often all buffers are used before a peer that sent nothing is idle. */
#define IDLE_ROUNDS	2u
#define IDLE_ROUNDS_LONG	16u	/* the same while nobody lacks permits */

static bool is_idle(const struct verbs_link *link)
{
	const struct verbs_pool *pool = link->pool;
	const struct verbs_rxq *rxq = &pool->rxq;
	uint64_t last = TAGRV_MAX(link->rx_last, link->rx_matched);
	uint64_t rounds = pool->recall.takes ? IDLE_ROUNDS : IDLE_ROUNDS_LONG;

	return (rxq->next - last) / (rxq->slot_mask + 1) > rounds * rxq->bufs.total;
}

/* -FI_EAGAIN: no packet can be sent to the peer now. */
static int recall_from(struct verbs_link *link)
{
	uint32_t keep = link->pool->rx_window, surplus;
	int ret;

	if (link->recalled || link->side || link->error || link->state != VERBS_LINK_OPEN)
		return 0;
	if (is_idle(link)) {
		keep = VERBS_PERMIT_MIN;
		tagrv_verbs_window_set(link, keep);
	}
	if (!link->pool->recall.takes || link->rx_permits < keep + VERBS_PERMIT_MIN)
		return 0;
	surplus = link->rx_permits - keep;
	ret = tagrv_verbs_send_recall(link, VERBS_PERMIT_RECALL, surplus);
	link->recalled = !ret;
	link->pool->xp->stats.permits_recalled += ret ? 0 : surplus;
	return ret;
}

int tagrv_verbs_recall_none(struct verbs_link *link)
{
	return tagrv_verbs_send_recall(link, VERBS_PERMIT_RECALL, 0);
}

void tagrv_verbs_recall_surplus(struct verbs_pool *pool, bool takes)
{
	const struct verbs_map *map = &pool->xp->map;
	const struct verbs_rxq *rxq = &pool->rxq;
	struct verbs_recall *recall = &pool->recall;
	uint64_t used = (rxq->next - recall->began) / (rxq->slot_mask + 1);

	if (!recall->left && used >= rxq->bufs.total) {
		recall->left = UINT32_MAX;
		recall->began = rxq->next;
		recall->takes = takes;
	} else if (takes && !recall->takes) {
		recall->left = UINT32_MAX;
		recall->takes = true;
	}
	recall->left = TAGRV_MIN(recall->left, map->mask + 1);
	for (uint32_t i = 0; i < SLOTS_PER_PASS && recall->left; i++) {
		struct verbs_link *link = map->slots[recall->next++ & map->mask];

		recall->left--;
		if (link && link->pool == pool && recall_from(link) == -FI_EAGAIN)
			recall->again = true;
		if (!recall->left && recall->again) {
			recall->left = map->mask + 1;
			recall->again = false;
			return;
		}
	}
}

/* The peer wants some back. What it asks for is answered when there is room. */
static void give_back(struct verbs_xport *xp, struct verbs_link *link, uint32_t cnt)
{
	uint32_t spare = link->tx_permits > VERBS_PERMIT_MIN ?
			 link->tx_permits - VERBS_PERMIT_MIN : 0;

	cnt = TAGRV_MIN(cnt, spare);
	link->tx_permits -= cnt;
	link->returning += cnt;
	link->return_due = true;
	if (!tagrv_list_linked(&link->owed_node))
		tagrv_list_push_tail(&xp->owed, &link->owed_node);
}

void tagrv_verbs_recall_received(struct verbs_xport *xp, struct verbs_link *link,
				 uint32_t bits)
{
	uint32_t cnt = bits & VERBS_PERMIT_COUNT;

	if (bits & VERBS_PERMIT_RECALL)
		give_back(xp, link, cnt);
	if (!(bits & VERBS_PERMIT_RETURN))
		return;
	/* A peer that returns more than it has cannot send any more. */
	tagrv_verbs_permit_take(link, TAGRV_MIN(cnt, link->rx_permits));
	link->recalled = false;
}

/* Without a packet for the answer the sender keeps one of what it gives back: it may have
 * used all others meanwhile, and the receiver permits no more before it has the answer. */
int tagrv_verbs_recall_answer(struct verbs_link *link)
{
	uint32_t cnt;
	int ret;

	if (TAGRV_LIKELY(!link->return_due))
		return 0;
	while (link->tx_permits <= VERBS_PERMIT_LAST && link->returning) {
		link->tx_permits++;
		link->returning--;
	}
	cnt = TAGRV_MIN(link->returning, VERBS_PERMIT_COUNT);
	ret = tagrv_verbs_send_recall(link, VERBS_PERMIT_RETURN, cnt);
	if (ret)
		return ret;
	link->returning -= cnt;
	link->return_due = link->returning != 0;
	return 0;
}
