/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Grants: each side tells the other how many packets it may send, so that no packet
 * finds the receive queue empty. (An RNR NAK would make the sender wait and send
 * that packet and all behind it again.)
 *
 *   sender                                       receiver
 *   granted = g          <------ blob, g ------  out = g: buffers are posted
 *   granted--            --- any packet ------>  out--; buffer is posted again
 *   granted 0: send returns -FI_EAGAIN
 *   granted += n         <-- any packet, n ----  out += n, up to rx_window
 *                        <-- grant-only, n ----  out <= rx_window / 2
 *
 * n is sent as immediate data, which needs no byte of the packet; its bit 31 marks
 * a grant-only ("bare") packet.
 *
 * With SRQ the 'out' of all links together never exceeds the buffers posted. The
 * window of a link is its share of three quarters of RX_BUFS, at most
 * VERBS_GRANT_MAX; it becomes smaller when more peers connect. A new link is
 * granted a few packets, for which buffers are posted before its blob is sent.
 * VERBS_GRANT_MIN packets are granted to every link even if there are too many
 * links for that. Only then can a packet find no buffer and be repeated; that is
 * counted, and logged once.
 *
 * No deadlock: of the packets granted, the last is kept for a grant-only packet and
 * the one before for control packets. A side that has used its last one has sent a
 * grant with it, so the other side can send, and its packets bring grants.
 *
 * Without SRQ the buffers belong to the link: all of them are granted.
 */
#include <endian.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

#define BARE		(1u << 31)	/* in immediate data: grant-only */
#define COUNT_MAX	0xffffu
/* A new link is granted at most 1 / NEWCOMERS of the buffers not granted yet. */
#define NEWCOMERS	256u
/* Buffers not granted to links in the map, but kept for new links. */
#define SPARE(total)	((total) / 8)

static struct verbs_rxq *queue_of(struct verbs_xport *xp,
				  struct verbs_link *link)
{
	return link->rxq ? link->rxq : &xp->rxq;
}

static void set_out(struct verbs_xport *xp, struct verbs_link *link,
		    uint32_t out)
{
	uint32_t all = atomic_load_explicit(&xp->rx_out, memory_order_relaxed);

	atomic_store_explicit(&xp->rx_out, all - link->out + out,
			      memory_order_relaxed);
	link->out = out;
}

/* ---- links come and go ---- */

/* The domain lock is held. */
static void choose_window(struct verbs_xport *xp)
{
	uint32_t links = TAGRV_MAX(xp->map.cnt, 1u);
	uint32_t share = xp->rxq.bufs.max / 4 * 3 / links;

	xp->rx_window = TAGRV_MAX(TAGRV_MIN(share, VERBS_GRANT_MAX),
				  VERBS_GRANT_MIN);
	if (!xp->use_srq)
		xp->rx_window = xp->rq_depth;
}

/* Runs in the wireup thread. */
void tagrv_verbs_grant_first(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct verbs_inbox *inbox = &xp->inbox;
	uint32_t used = inbox->rx_first + atomic_load(&xp->rx_out);

	if (link->rxq) {
		link->out = link->rxq->posted;
		return;
	}
	used = TAGRV_MIN(used, inbox->rx_max);
	link->out = used < inbox->rx_total ?
		    TAGRV_MIN(inbox->rx_total - used, VERBS_GRANT_FIRST) : 0;
	/* Many more peers may connect. */
	link->out = TAGRV_MIN(link->out, (inbox->rx_max - used) / NEWCOMERS);
	link->out = TAGRV_MAX(link->out, VERBS_GRANT_MIN);
	if (used + link->out > inbox->rx_total)
		xp->stats.over += link->out;
	inbox->rx_first += link->out;
}

void tagrv_verbs_grant_adopt(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	uint32_t out = link->out;

	choose_window(xp);
	if (link->rxq)
		return;
	xp->inbox.rx_first -= out;
	link->out = 0;
	set_out(xp, link, out);
	/* Register more buffers early: new links need some that are posted. */
	if (atomic_load(&xp->rx_out) > xp->rxq.bufs.total / 2)
		xp->want_rx_bufs = xp->rxq.bufs.total < xp->rxq.bufs.max;
}

void tagrv_verbs_grant_forget(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	tagrv_list_remove(&link->owed_node);
	if (!link->rxq)
		set_out(xp, link, 0);
	choose_window(xp);
}

/* ---- granting: endpoint's thread ---- */

/* Posted buffers that can be granted to a link. */
static uint32_t grantable(struct verbs_xport *xp, struct verbs_link *link)
{
	const struct verbs_rxq *rxq = queue_of(xp, link);
	uint32_t taken = link->out;

	if (!link->rxq)
		taken = atomic_load_explicit(&xp->rx_out,
					     memory_order_relaxed) +
			SPARE(rxq->bufs.total);
	return rxq->posted > taken ? rxq->posted - taken : 0;
}

/* Packets by which a link's 'out' is below the window. */
static uint32_t owed_to(const struct verbs_xport *xp,
			const struct verbs_link *link)
{
	return xp->rx_window > link->out ? xp->rx_window - link->out : 0;
}

/* Packets that are owed and can be granted now. */
static uint32_t offer(struct verbs_xport *xp, struct verbs_link *link)
{
	uint32_t owed = TAGRV_MIN(owed_to(xp, link), COUNT_MAX);
	uint32_t avail = grantable(xp, link);

	if (avail < owed)
		xp->want_rx_bufs = xp->use_srq &&
				   xp->rxq.bufs.total < xp->rxq.bufs.max;
	if (TAGRV_UNLIKELY(link->out + avail < VERBS_GRANT_MIN))
		return TAGRV_MIN(owed, VERBS_GRANT_MIN - link->out);
	return TAGRV_MIN(owed, avail);
}

uint32_t tagrv_verbs_grant_offer(struct verbs_xport *xp,
				 struct verbs_link *link)
{
	/* Not worth the work before a quarter of the window is owed. */
	return owed_to(xp, link) * 4 >= xp->rx_window ? offer(xp, link) : 0;
}

void tagrv_verbs_grant_sent(struct verbs_xport *xp, struct verbs_link *link,
			    uint32_t cnt)
{
	if (cnt > grantable(xp, link) + SPARE(queue_of(xp, link)->bufs.total))
		xp->stats.over += cnt;
	if (link->rxq)
		link->out += cnt;
	else
		set_out(xp, link, link->out + cnt);
	xp->stats.given += cnt;
}

uint32_t tagrv_verbs_grant_imm(uint32_t cnt, bool bare)
{
	return htobe32(cnt | (bare ? BARE : 0));
}

static void warn_over(struct verbs_xport *xp)
{
	if (!xp->stats.over || xp->over_warned)
		return;
	xp->over_warned = true;
	tagrv_warn("verbs: %s: %u peers are too many for %u receive buffers: "
		   "packets may have to be repeated; raise "
		   "FI_TAGRV_RX_BUFS\n", xp->dev->base.name, xp->map.cnt,
		   xp->rxq.bufs.max);
}

/* Packets that may be granted to a link that keeps them as early packets. */
static uint32_t stray_room(const struct verbs_link *link)
{
	uint32_t used = link->stray_cnt + link->out;

	return used < VERBS_STRAY_LINK ? VERBS_STRAY_LINK - used : 0;
}

void tagrv_verbs_grant_send_owed(struct verbs_xport *xp)
{
	struct tagrv_list *pos, *tmp;

	warn_over(xp);
	tagrv_list_for_each_safe(&xp->owed, pos, tmp) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, owed_node);
		uint32_t cnt;

		cnt = link->error ? 0 : offer(xp, link);
		if (link->state == VERBS_LINK_BOUND)
			cnt = TAGRV_MIN(cnt, stray_room(link));
		if (cnt && tagrv_verbs_send_grant(link, cnt) == -FI_EAGAIN)
			continue;
		if (cnt || link->error)
			tagrv_list_remove(pos);
	}
}

/* ---- packets received ---- */

bool tagrv_verbs_grant_used(struct verbs_xport *xp, struct verbs_link *link)
{
	if (TAGRV_UNLIKELY(!link->out))
		return false;
	if (link->rxq)
		link->out--;
	else
		set_out(xp, link, link->out - 1);
	if (link->out * 2 <= xp->rx_window &&
	    !tagrv_list_linked(&link->owed_node))
		tagrv_list_push_tail(&xp->owed, &link->owed_node);
	return true;
}

/*
 * A malicious peer may grant any number: that harms only itself, because the
 * sends wait at its empty receive queue.
 */
bool tagrv_verbs_grant_received(struct verbs_xport *xp,
				struct verbs_link *link, uint32_t imm)
{
	uint32_t bits = be32toh(imm);

	link->granted = TAGRV_MIN(link->granted + (bits & COUNT_MAX),
				  UINT32_MAX / 2);
	xp->freed = true;
	xp->ungranted = false;
	return bits & BARE;
}

/*
 * Adds a packet's grant before the packet is handled, and clears the immediate data
 * so that it is not added again. True: the packet is grant-only; nothing was added,
 * and it may be handled before packets that came earlier. Links that are not in the
 * map yet cannot have sends waiting, so their grants need not be read.
 */
static bool read_grant(struct verbs_xport *xp, struct ibv_wc *wc)
{
	struct verbs_link *link = verbs_map_find(&xp->map, wc->qp_num);

	if (!link || wc->status || wc->opcode != IBV_WC_RECV ||
	    !(wc->wc_flags & IBV_WC_WITH_IMM))
		return false;
	if (be32toh(wc->imm_data) & BARE)
		return true;
	(void) tagrv_verbs_grant_received(xp, link, wc->imm_data);
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
 * grant that lets the send succeed. Packets wait in order for the next progress;
 * grant-only packets are handled here, so that their buffers are posted again.
 */
TAGRV_COLD void tagrv_verbs_grant_poll(struct verbs_xport *xp)
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
			if (read_grant(xp, &wc[i]))
				tagrv_verbs_on_rx(xp, &wc[i]);
			else
				cq->held[cq->held_cnt++] = wc[i];
		}
	}
	if (xp->rxq.bufs.idle_cnt)
		tagrv_verbs_rxq_refill(xp->calls, &xp->rxq);
}
