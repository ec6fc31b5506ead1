/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Grants: packets that a peer may send before it must hear from us, so that it
 * never finds our receive queue empty (RNR: it would be told to wait, and to
 * send everything behind that packet again).
 *
 *   sender                                       receiver
 *   granted = g          <------ blob, g ------  out = g: buffers are posted
 *   granted--            --- any packet ------>  out--; posted again soon
 *   none left: -FI_EAGAIN
 *   granted += n         <-- a packet, n ------  out += n, at most 'window'
 *                        <-- empty packet, n --  half of the window is owed
 *
 * n travels as immediate data, which costs no buffer and no byte of the packet;
 * bit 31 marks one that is sent for its sake alone.
 *
 * What all peers together may send is never more than the buffers posted. The
 * window of each is its share of three quarters of RX_BUFS, VERBS_GRANT_MAX at
 * most; it shrinks when more peers connect. A new link begins with few, which
 * were there before its blob was sent. VERBS_GRANT_MIN are promised to each even
 * if there are too many peers for that: only then, said once in the log and
 * counted, can a packet find no buffer, and is repeated.
 *
 * Of what is left, the last packet is kept for a grant and the one before for
 * control packets. A side without any has sent a grant last, so the other can
 * send; what it sends gives back: nobody waits for ever.
 *
 * Buffers of a link without SRQ are its own: it may fill them all.
 */
#include <endian.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

#define BARE		(1u << 31)	/* in immediate data */
#define COUNT_MAX	0xffffu
/* A new link has this part of the buffers that nobody was promised. */
#define NEWCOMERS	256u
/* Buffers left for links that are being made meanwhile. */
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

/* ---- a new link: wireup thread, inbox.mutex is held ---- */

/* Domain lock held as well. */
static void choose_window(struct verbs_xport *xp)
{
	uint32_t links = TAGRV_MAX(xp->map.cnt, 1u);
	uint32_t share = xp->rxq.bufs.max / 4 * 3 / links;

	xp->rx_window = TAGRV_MAX(TAGRV_MIN(share, VERBS_GRANT_MAX),
				  VERBS_GRANT_MIN);
	if (!xp->use_srq)
		xp->rx_window = xp->rq_depth;
}

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
	/* Nobody knows how many peers are to come. */
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
	/* Those to come want some that are there. */
	if (atomic_load(&xp->rx_out) > xp->rxq.bufs.total / 2)
		xp->want_rx_bufs = xp->rxq.bufs.total < xp->rxq.bufs.max;
}

void tagrv_verbs_grant_forget(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	tagrv_list_remove(&link->owing_node);
	if (!link->rxq)
		set_out(xp, link, 0);
	choose_window(xp);
}

/* ---- giving: endpoint's thread ---- */

/* Buffers that nobody has been promised. */
static uint32_t unpromised(struct verbs_xport *xp, struct verbs_link *link)
{
	const struct verbs_rxq *rxq = queue_of(xp, link);
	uint32_t taken = link->out;

	if (!link->rxq)
		taken = atomic_load_explicit(&xp->rx_out,
					     memory_order_relaxed) +
			SPARE(rxq->bufs.total);
	return rxq->posted > taken ? rxq->posted - taken : 0;
}

static uint32_t owed_to(const struct verbs_xport *xp,
			const struct verbs_link *link)
{
	return xp->rx_window > link->out ? xp->rx_window - link->out : 0;
}

/* What can be given now. */
static uint32_t offer(struct verbs_xport *xp, struct verbs_link *link)
{
	uint32_t owed = TAGRV_MIN(owed_to(xp, link), COUNT_MAX);
	uint32_t has = unpromised(xp, link);

	if (has < owed)
		xp->want_rx_bufs = xp->use_srq &&
				   xp->rxq.bufs.total < xp->rxq.bufs.max;
	if (TAGRV_UNLIKELY(link->out + has < VERBS_GRANT_MIN))
		return TAGRV_MIN(owed, VERBS_GRANT_MIN - link->out);
	return TAGRV_MIN(owed, has);
}

uint32_t tagrv_verbs_grant_offer(struct verbs_xport *xp,
				 struct verbs_link *link)
{
	/* Not worth the trouble before a quarter is owed. */
	return owed_to(xp, link) * 4 >= xp->rx_window ? offer(xp, link) : 0;
}

void tagrv_verbs_grant_gave(struct verbs_xport *xp, struct verbs_link *link,
			    uint32_t cnt)
{
	if (cnt > unpromised(xp, link) + SPARE(queue_of(xp, link)->bufs.total))
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

static void tell_over(struct verbs_xport *xp)
{
	if (!xp->stats.over || xp->over_told)
		return;
	xp->over_told = true;
	tagrv_warn("verbs: %s: %u peers are too many for %u receive buffers: "
		   "packets may have to be repeated, raise "
		   "FI_TAGRV_RX_BUFS\n", xp->dev->base.name, xp->map.cnt,
		   xp->rxq.bufs.max);
}

static uint32_t early_room(const struct verbs_link *link)
{
	uint32_t taken = link->stray_cnt + link->out;

	return taken < VERBS_STRAY_LINK ? VERBS_STRAY_LINK - taken : 0;
}

void tagrv_verbs_grant_serve(struct verbs_xport *xp)
{
	struct tagrv_list *pos, *tmp;

	tell_over(xp);
	tagrv_list_for_each_safe(&xp->owing, pos, tmp) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, owing_node);
		uint32_t cnt;

		cnt = link->error ? 0 : offer(xp, link);
		/* What comes has nowhere to go yet: few are kept. */
		if (link->state == VERBS_LINK_BOUND)
			cnt = TAGRV_MIN(cnt, early_room(link));
		if (cnt && tagrv_verbs_send_grant(link, cnt) == -FI_EAGAIN)
			continue;
		if (cnt || link->error)
			tagrv_list_remove(pos);
	}
}

/* ---- getting ---- */

bool tagrv_verbs_grant_arrived(struct verbs_xport *xp, struct verbs_link *link)
{
	if (TAGRV_UNLIKELY(!link->out))
		return false;
	if (link->rxq)
		link->out--;
	else
		set_out(xp, link, link->out - 1);
	if (link->out * 2 <= xp->rx_window &&
	    !tagrv_list_linked(&link->owing_node))
		tagrv_list_push_tail(&xp->owing, &link->owing_node);
	return true;
}

/* More than a peer could ever mean does us no harm: it waits for itself. */
bool tagrv_verbs_grant_got(struct verbs_xport *xp, struct verbs_link *link,
			   uint32_t imm)
{
	uint32_t bits = be32toh(imm);

	link->granted = TAGRV_MIN(link->granted + (bits & COUNT_MAX),
				  UINT32_MAX / 2);
	xp->freed = true;
	xp->ungranted = false;
	return bits & BARE;
}

/*
 * Reads what a packet grants before the packet is handled, which then grants
 * nothing any more. True: it is bare, and can be handled out of turn. Of a link
 * that is not in the map yet nobody can send.
 */
static bool read_early(struct verbs_xport *xp, struct ibv_wc *wc)
{
	struct verbs_link *link = verbs_map_find(&xp->map, wc->qp_num);

	if (!link || wc->status || wc->opcode != IBV_WC_RECV ||
	    !(wc->wc_flags & IBV_WC_WITH_IMM))
		return false;
	if (be32toh(wc->imm_data) & BARE)
		return true;
	(void) tagrv_verbs_grant_got(xp, link, wc->imm_data);
	wc->imm_data = 0;
	return false;
}

/* Room for another batch behind those held. */
static bool make_held(struct verbs_cq *cq)
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
 * Who only sends does not handle what comes, but must not miss what lets it go
 * on: grants are read, and the packets that brought them wait in their place.
 * Those that bring nothing else are done with, so that they do not run out.
 */
TAGRV_COLD void tagrv_verbs_grant_look(struct verbs_xport *xp)
{
	struct verbs_cq *cq = &xp->rx;
	int cnt = VERBS_BATCH;

	while (cnt == VERBS_BATCH && make_held(cq)) {
		struct ibv_wc wc[VERBS_BATCH];

		cnt = xp->calls->poll_cq(cq->cq, VERBS_BATCH, wc);
		if (cnt < 0) {
			tagrv_verbs_queue_failed(xp);
			return;
		}
		for (int i = 0; i < cnt; i++) {
			if (read_early(xp, &wc[i]))
				tagrv_verbs_on_rx(xp, &wc[i]);
			else
				cq->held[cq->held_cnt++] = wc[i];
		}
	}
	if (xp->rxq.bufs.idle_cnt)
		tagrv_verbs_rxq_refill(xp->calls, &xp->rxq);
}
