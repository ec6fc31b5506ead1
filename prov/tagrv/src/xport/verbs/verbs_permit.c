/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Permits: each side tells the other how many packets it may send, so that no packet
 * finds the receive queue empty. (An RNR NAK would make the sender wait and send
 * that packet and all behind it again.)
 *
 *   sender                                       receiver
 *   tx_permits = p         <------ blob, p ------  rx_permits = p: buffers are posted
 *   tx_permits--           --- any packet ------>  rx_permits--; buffer posted again
 *   tx_permits 0: send returns -FI_EAGAIN
 *   tx_permits += n        <-- any packet, n ----  rx_permits += n, up to rx_window
 *                          <-- permit-only, n ---  rx_permits <= rx_window / 2
 *
 * n is sent as immediate data, which needs no byte of the packet; its bit 31 marks
 * a packet that is a permit only, bit 30 a permit for which there are no buffers, bits 29
 * and 28 what verbs_recall.c takes back.
 *
 * With SRQ the rx_permits of all links together never exceed the buffers posted. The
 * window of a link is its share of three quarters of RX_BUFS, at most
 * VERBS_PERMIT_MAX; it becomes smaller when more peers connect. A new link is
 * permitted a few packets, for which buffers are posted before its blob is sent.
 * VERBS_PERMIT_MIN packets are permitted to every link even if there are too many
 * links for that. Only then can a packet find no buffer and be repeated; that is
 * counted, and logged once.
 *
 * No deadlock: of the packets permitted, the last is kept for a permit-only packet
 * and the one before for control packets. A side that has used its last one has sent
 * a permit with it, so the other side can send, and its packets bring permits.
 *
 * Without SRQ the buffers belong to the link: all of them are permitted.
 */
#include <endian.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "xport/verbs/verbs_poll.h"

#define PERMIT_ONLY	(1u << 31)	/* in immediate data */
/* A new link is permitted at most 1 / NEWCOMERS of the buffers not permitted yet. */
#define NEWCOMERS	256u
/* Buffers not permitted to links in the map, but kept for new links. */
#define SPARE(total)	((total) / 8)

static struct verbs_rxq *queue_of(struct verbs_xport *xp,
				  struct verbs_link *link)
{
	return link->rxq ? link->rxq : &xp->rxq;
}

static void set_rx_permits(struct verbs_xport *xp, struct verbs_link *link,
			   uint32_t permits)
{
	uint32_t all = atomic_load_explicit(&xp->rx_permits,
					    memory_order_relaxed);

	atomic_store_explicit(&xp->rx_permits,
			      all - link->rx_permits + permits,
			      memory_order_relaxed);
	link->rx_permits = permits;
}

/* ---- links come and go ---- */

/* The domain lock is held. */
static void choose_window(struct verbs_xport *xp)
{
	uint32_t links = xp->map.cnt > xp->sides ? xp->map.cnt - xp->sides : 1;
	uint32_t share = xp->rxq.bufs.max / 4 * 3 / links;
	uint32_t former = xp->rx_window;

	xp->rx_window = TAGRV_MAX(TAGRV_MIN(share, VERBS_PERMIT_MAX),
				  VERBS_PERMIT_MIN);
	if (!xp->use_srq)
		xp->rx_window = xp->rq_depth;
	/* Some may have been permitted more. */
	if (xp->rx_window < former)
		xp->recall.left = UINT32_MAX;
	/* Not worth the work before a quarter of the window is owed. */
	xp->offer_at = xp->rx_window * 3 / 4;
}

/* Runs in the wireup thread. */
void tagrv_verbs_permit_first(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct verbs_inbox *inbox = &xp->inbox;
	uint32_t used = inbox->fresh_permits + atomic_load(&xp->rx_permits);

	if (link->rxq) {
		link->rx_permits = link->rxq->posted;
		return;
	}
	used = TAGRV_MIN(used, inbox->rx_max);
	link->rx_permits = used < inbox->rx_total ?
		    TAGRV_MIN(inbox->rx_total - used, VERBS_PERMIT_FIRST) : 0;
	/* Many more peers may connect. */
	link->rx_permits = TAGRV_MIN(link->rx_permits, (inbox->rx_max - used) / NEWCOMERS);
	link->rx_permits = TAGRV_MAX(link->rx_permits, VERBS_PERMIT_MIN);
	if (used + link->rx_permits > inbox->rx_total)
		xp->stats.permits_over += link->rx_permits;
	inbox->fresh_permits += link->rx_permits;
}

void tagrv_verbs_permit_adopt(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	uint32_t first = link->rx_permits;

	xp->sides += link->side;
	choose_window(xp);
	if (link->rxq)
		return;
	xp->inbox.fresh_permits -= first;
	link->rx_permits = 0;
	set_rx_permits(xp, link, first);
	/* Register more buffers early: new links need some that are posted. */
	if (atomic_load(&xp->rx_permits) > xp->rxq.bufs.total / 2)
		xp->want_rx_bufs = xp->rxq.bufs.total < xp->rxq.bufs.max;
}

void tagrv_verbs_permit_forget(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	tagrv_list_remove(&link->owed_node);
	if (!link->rxq)
		set_rx_permits(xp, link, 0);
	xp->sides -= link->side;
	choose_window(xp);
}

/* ---- permitting: endpoint's thread ---- */

/* Posted buffers that can be permitted to a link. */
static uint32_t permittable(struct verbs_xport *xp, struct verbs_link *link)
{
	const struct verbs_rxq *rxq = queue_of(xp, link);
	uint32_t taken = link->rx_permits;

	if (!link->rxq)
		taken = atomic_load_explicit(&xp->rx_permits,
					     memory_order_relaxed) +
			SPARE(rxq->bufs.total) + verbs_lost_maybe(xp);
	return rxq->posted > taken ? rxq->posted - taken : 0;
}

/* Packets by which a link's rx_permits are below the window. */
static uint32_t owed_to(const struct verbs_xport *xp,
			const struct verbs_link *link)
{
	return xp->rx_window > link->rx_permits ? xp->rx_window - link->rx_permits : 0;
}

uint32_t tagrv_verbs_permit_offer(struct verbs_xport *xp,
				  struct verbs_link *link)
{
	uint32_t owed = TAGRV_MIN(owed_to(xp, link), VERBS_PERMIT_COUNT);
	uint32_t avail = permittable(xp, link);

	if (avail < owed)
		xp->want_rx_bufs = xp->use_srq &&
				   xp->rxq.bufs.total < xp->rxq.bufs.max;
	if (TAGRV_UNLIKELY(link->rx_permits + avail < VERBS_PERMIT_MIN))
		return TAGRV_MIN(owed, VERBS_PERMIT_MIN - link->rx_permits) |
		       VERBS_PERMIT_THIN;
	return TAGRV_MIN(owed, avail);
}

void tagrv_verbs_permit_sent(struct verbs_xport *xp, struct verbs_link *link,
			     uint32_t cnt)
{
	cnt &= VERBS_PERMIT_COUNT;
	if (cnt > permittable(xp, link) + SPARE(queue_of(xp, link)->bufs.total))
		xp->stats.permits_over += cnt;
	if (link->rxq)
		link->rx_permits += cnt;
	else
		set_rx_permits(xp, link, link->rx_permits + cnt);
	xp->stats.permits_sent += cnt;
}

uint32_t tagrv_verbs_permit_imm(uint32_t cnt, bool permit_only)
{
	return htobe32(cnt | (permit_only ? PERMIT_ONLY : 0));
}

static void warn_over(struct verbs_xport *xp)
{
	if (!xp->stats.permits_over || xp->warned_over)
		return;
	xp->warned_over = true;
	tagrv_warn("verbs: %s: %u peers are too many for %u receive buffers: "
		   "packets may have to be repeated; raise "
		   "FI_TAGRV_RX_BUFS\n", xp->dev->base.name, xp->map.cnt,
		   xp->rxq.bufs.max);
}

/* Packets that may be permitted to a link that keeps them as early packets. */
static uint32_t stray_room(const struct verbs_link *link)
{
	uint32_t used = link->stray_cnt + link->rx_permits;

	return used < VERBS_STRAY_LINK ? VERBS_STRAY_LINK - used : 0;
}

/* Sends what a link is owed. False: later, for want of buffers or of room. */
static bool serve_owed(struct verbs_xport *xp, struct verbs_link *link)
{
	bool answered = tagrv_verbs_recall_answer(link) != -FI_EAGAIN;
	uint32_t cnt = tagrv_verbs_permit_offer(xp, link);
	uint32_t thin = cnt & VERBS_PERMIT_THIN;

	cnt -= thin;
	if (link->state == VERBS_LINK_BOUND)
		cnt = TAGRV_MIN(cnt, stray_room(link));
	if (cnt && tagrv_verbs_send_permit(link, cnt | thin) == -FI_EAGAIN)
		return false;
	return answered && (cnt || !owed_to(xp, link));
}

void tagrv_verbs_permit_send_owed(struct verbs_xport *xp)
{
	struct tagrv_list *pos, *tmp;
	bool lacking = false;

	warn_over(xp);
	tagrv_list_for_each_safe(&xp->owed, pos, tmp) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, owed_node);

		if (link->error || serve_owed(xp, link))
			tagrv_list_remove(pos);
		lacking |= !link->error && owed_to(xp, link);
	}
	if (TAGRV_UNLIKELY(lacking && xp->recall.left) && xp->use_srq &&
	    xp->rxq.bufs.total == xp->rxq.bufs.max)
		tagrv_verbs_recall_surplus(xp);
}

void tagrv_verbs_permit_take(struct verbs_xport *xp, struct verbs_link *link,
			     uint32_t cnt)
{
	if (link->rxq)
		link->rx_permits -= cnt;
	else
		set_rx_permits(xp, link, link->rx_permits - cnt);
}

/* ---- packets received ---- */

bool tagrv_verbs_permit_used(struct verbs_xport *xp, struct verbs_link *link)
{
	if (TAGRV_UNLIKELY(!link->rx_permits))
		return false;
	if (TAGRV_UNLIKELY(link->rxq != NULL))
		link->rx_permits--;
	else
		set_rx_permits(xp, link, link->rx_permits - 1);
	if (TAGRV_UNLIKELY(link->rx_permits * 2 <= xp->rx_window) &&
	    !tagrv_list_linked(&link->owed_node))
		tagrv_list_push_tail(&xp->owed, &link->owed_node);
	return true;
}

/*
 * A malicious peer may permit any number: that harms only itself, because the
 * sends wait at its empty receive queue.
 */
bool tagrv_verbs_permit_received(struct verbs_xport *xp,
				 struct verbs_link *link, uint32_t imm)
{
	uint32_t bits = be32toh(imm);

	if (TAGRV_UNLIKELY(bits & PERMIT_ONLY &&
			   bits & (VERBS_PERMIT_RECALL | VERBS_PERMIT_RETURN))) {
		tagrv_verbs_recall_received(xp, link, bits);
		return true;
	}
	link->tx_permits = TAGRV_MIN(link->tx_permits + (bits & VERBS_PERMIT_COUNT),
				  UINT32_MAX / 2);
	link->thin |= (bits & VERBS_PERMIT_THIN) != 0;
	xp->freed = true;
	xp->lacks_permit = false;
	return bits & PERMIT_ONLY;
}

/*
 * Adds a packet's permit before the packet is handled, and clears the immediate data
 * so that it is not added again. True: the packet is permit-only; nothing was added,
 * and it may be handled before packets that came earlier. Links that are not in the
 * map yet cannot have sends waiting, so their permits need not be read.
 */
static bool read_permit(struct verbs_xport *xp, struct ibv_wc *wc)
{
	struct verbs_link *link = verbs_map_find(&xp->map, wc->qp_num);

	if (!link || wc->status || !verbs_is_packet(link, wc) ||
	    !(wc->wc_flags & IBV_WC_WITH_IMM))
		return false;
	if (be32toh(wc->imm_data) & PERMIT_ONLY)
		return true;
	(void) tagrv_verbs_permit_received(xp, link, wc->imm_data);
	wc->imm_data = 0;
	return false;
}

/* Makes room for another batch behind the completions held. False: no memory. */
static bool reserve_held(struct verbs_cq *cq)
{
	uint32_t cap = cq->held_cap * 2;
	struct ibv_wc *held;

	if (cq->held_pos)
		memmove(cq->held, cq->held + cq->held_pos,
			cq->held_cnt * sizeof(*held));
	cq->held_pos = 0;
	if (cq->held_cnt + VERBS_BATCH <= cq->held_cap)
		return true;
	held = realloc(cq->held, cap * sizeof(*held));
	if (!held)
		return false;
	cq->held = held;
	cq->held_cap = cap;
	return true;
}

/*
 * An application that repeats a send without reading a queue must not miss the
 * permit that lets the send succeed. Packets wait in order for the next progress;
 * permit-only packets are handled here, so that their buffers are posted again.
 */
TAGRV_COLD void tagrv_verbs_permit_poll(struct verbs_xport *xp)
{
	struct verbs_cq *cq = &xp->rx;
	int cnt = VERBS_BATCH;

	while (cnt == VERBS_BATCH && reserve_held(cq)) {
		struct ibv_wc wc[VERBS_BATCH];

		cnt = xp->calls->poll_cq(cq->cq, VERBS_BATCH, wc);
		if (cnt < 0) {
			tagrv_verbs_queue_failed(xp);
			return;
		}
		for (int i = 0; i < cnt; i++) {
			if (read_permit(xp, &wc[i]))
				tagrv_verbs_on_rx(xp, &wc[i], 1);
			else
				cq->held[cq->held_cnt++] = wc[i];
		}
	}
	if (xp->rxq.bufs.idle_cnt)
		tagrv_verbs_rxq_refill(xp->calls, &xp->rxq);
}
