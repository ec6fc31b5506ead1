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
 *   tx_permits += n        <-- any packet, n ----  rx_permits += n, up to its rx_window
 *                          <-- permit-only, n ---  rx_permits <= rx_window / 2
 *
 * n is sent as immediate data, which needs no byte of the packet; its bit 31 marks
 * a packet that is a permit only, bit 30 a permit for which there are no buffers, bits 29
 * and 28 what verbs_recall.c takes back.
 *
 * With SRQ the rx_permits of all links of a pool never exceed its buffers posted. A new
 * link is permitted a few packets, for which buffers are posted before its blob is sent,
 * and no more until its peer uses them (verbs_window.c). While a peer has used some of
 * VERBS_PERMIT_MIN packets, the buffers for them are kept for it:
 *
 *   packets permitted + those kept + buffers that may be lost <= buffers (- pool->least)
 *
 * Buffers are registered when this leaves too few. VERBS_PERMIT_MIN packets are permitted
 * to every link even if there are too many links for that, or if more links are made
 * before progress registers buffers for them. Only then can a packet find no buffer and be
 * repeated; that is counted, logged once, and the peer is told (VERBS_PERMIT_THIN), since
 * such a packet may take any time. If no more buffers can be registered, all peers are told:
 * a packet that was permitted before may find its buffer taken as well. As soon as the rule
 * above holds again, those who were told are told so.
 *
 * No deadlock: of the packets permitted, the last is kept for a permit-only packet
 * and the one before for control packets. A side that has used its last one has sent
 * a permit with it, so the other side can send, and its packets bring permits.
 *
 * Without SRQ the buffers belong to the link: as many as its window has.
 */
#include <endian.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "xport/verbs/verbs_poll.h"

#define PERMIT_ONLY	(1u << 31)	/* in immediate data */
/* Of so many buffers new links are permitted more than VERBS_PERMIT_MIN: each of them at most
 * 1 / NEWCOMERS of those not permitted yet. */
#define FIRST_BUFS	(VERBS_RX_SLAB / 2)
#define NEWCOMERS	16u
/* Buffers not permitted to links in the map, but kept for new links. */
#define SPARE(total)	((total) / 8)

static struct verbs_rxq *queue_of(struct verbs_link *link)
{
	return link->rxq ? link->rxq : &link->pool->rxq;
}

static void set_rx_permits(struct verbs_link *link, uint32_t permits)
{
	struct verbs_pool *pool = link->pool;
	uint32_t all = atomic_load_explicit(&pool->rx_permits, memory_order_relaxed);
	uint32_t kept = atomic_load_explicit(&pool->rx_kept, memory_order_relaxed);

	atomic_store_explicit(&pool->rx_permits,
			      all - link->rx_permits + permits,
			      memory_order_relaxed);
	atomic_store_explicit(&pool->rx_kept,
			      kept - verbs_kept(link->rx_permits) + verbs_kept(permits),
			      memory_order_relaxed);
	link->rx_permits = permits;
}

static void push_owed(struct verbs_link *link)
{
	if (!tagrv_list_linked(&link->owed_node))
		tagrv_list_push_tail(&link->pool->xp->owed, &link->owed_node);
}

/*
 * Packets that peers may send and, of VERBS_PERMIT_MIN each, those that they may not yet;
 * and the pool's least.
 */
static uint32_t pledged(const struct verbs_pool *pool)
{
	return atomic_load_explicit(&pool->rx_permits, memory_order_relaxed) +
	       atomic_load_explicit(&pool->rx_kept, memory_order_relaxed);
}

static uint32_t fresh_permits(const struct verbs_pool *pool)
{
	return atomic_load_explicit(&pool->fresh_permits, memory_order_relaxed);
}

static bool is_thin(const struct verbs_pool *pool)
{
	return pledged(pool) + fresh_permits(pool) + verbs_lost_maybe(pool) >
	       pool->rxq.bufs.total;
}

/* ---- links come and go ---- */

/* Runs in the wireup thread. */
void tagrv_verbs_permit_first(struct verbs_link *link)
{
	struct verbs_pool *pool = link->pool;
	uint32_t used = fresh_permits(pool) + pledged(pool);
	uint32_t spare = TAGRV_MIN(pool->rx_total / 2, FIRST_BUFS);

	if (link->rxq) {
		link->rx_permits = link->rxq->posted;
		return;
	}
	spare = used < spare ? (spare - used) / NEWCOMERS : 0;
	link->rx_permits = verbs_clamp(spare, VERBS_PERMIT_MIN, VERBS_PERMIT_FIRST);
	link->thin_told = used + link->rx_permits > pool->rx_total;
	if (link->thin_told)
		pool->permits_over += link->rx_permits;
	atomic_fetch_add(&pool->fresh_permits, link->rx_permits);
}

bool tagrv_verbs_permit_lacks_bufs(const struct verbs_pool *pool)
{
	return pool->thin_due && is_thin(pool) && pool->rxq.bufs.total < pool->rxq.bufs.max;
}

void tagrv_verbs_permit_adopt(struct verbs_link *link)
{
	struct verbs_pool *pool = link->pool;
	const struct verbs_bufs *bufs = &pool->rxq.bufs;
	uint32_t first = link->rx_permits;

	pool->links += !link->side;
	link->rx_from = first;
	pool->thin_due |= link->thin_told;
	tagrv_verbs_window_share(pool);
	if (link->side)
		return;
	tagrv_verbs_window_set(link, first);
	if (link->rxq)
		return;
	atomic_fetch_sub(&pool->fresh_permits, first);
	atomic_fetch_add(&pool->rx_permits, first);
	/* Register more buffers early: new links need some that are posted. */
	if (pledged(pool) + fresh_permits(pool) > bufs->total - 2 * SPARE(bufs->total))
		pool->want_rx_bufs = bufs->total < bufs->max;
}

/*
 * It is told of later buffers only while it is open: until now it may have been in no state.
 * The wireup thread may have permitted its packets without knowing that buffers lack for them.
 */
void tagrv_verbs_permit_attach(struct verbs_link *link)
{
	struct verbs_pool *pool = link->pool;

	pool->thin_due |= link->thin_told || is_thin(pool);
	tagrv_verbs_permit_thin_look(pool);
	if (pool->thin_all && !link->thin_told && !link->side)
		push_owed(link);
}

void tagrv_verbs_permit_forget(struct verbs_link *link)
{
	struct verbs_pool *pool = link->pool;

	tagrv_list_remove(&link->owed_node);
	pool->links -= !link->side;
	if (!link->side) {
		tagrv_verbs_window_set(link, 0);
		if (!link->rxq) {
			set_rx_permits(link, 0);
			atomic_fetch_sub(&pool->rx_kept, verbs_kept(0));
		}
	}
	tagrv_verbs_window_share(pool);
	tagrv_verbs_permit_thin_look(pool);
}

/* It is counted in the other pool as it was in this one. */
void tagrv_verbs_permit_move(struct verbs_link *link, struct verbs_pool *pool)
{
	uint32_t permits = link->rx_permits, window = link->rx_window;
	bool owed = tagrv_list_linked(&link->owed_node);

	tagrv_verbs_permit_forget(link);
	link->pool = pool;
	pool->links++;
	atomic_fetch_add(&pool->rx_kept, verbs_kept(0));
	set_rx_permits(link, permits);
	tagrv_verbs_window_share(pool);
	tagrv_verbs_window_set(link, window);
	if (owed)
		push_owed(link);
}

/* Open links whose peers believe, or do not believe, that buffers lack. */
static void push_told(struct verbs_pool *pool, bool told)
{
	const struct verbs_map *map = &pool->xp->map;

	for (uint32_t i = 0; map->slots && i <= map->mask; i++) {
		struct verbs_link *link = map->slots[i];

		if (link && link->pool == pool && link->thin_told == told && !link->side &&
		    link->state == VERBS_LINK_OPEN)
			push_owed(link);
	}
}

void tagrv_verbs_permit_thin_look(struct verbs_pool *pool)
{
	const struct verbs_bufs *bufs = &pool->rxq.bufs;

	if (TAGRV_LIKELY(!pool->thin_due))
		return;
	if (!is_thin(pool)) {
		pool->thin_due = pool->thin_all = false;
		push_told(pool, true);
	} else if (!pool->thin_all && bufs->total == bufs->max) {
		pool->thin_all = true;
		push_told(pool, false);
	}
}

/* ---- permitting: endpoint's thread ---- */

/* Posted buffers that can be permitted to a link, beyond those kept for it. */
static uint32_t permittable(struct verbs_link *link)
{
	const struct verbs_rxq *rxq = queue_of(link);
	uint32_t taken = link->rx_permits;

	if (!link->rxq)
		taken = pledged(link->pool) + verbs_lost_maybe(link->pool) +
			TAGRV_MAX(SPARE(rxq->bufs.total), fresh_permits(link->pool));
	return rxq->posted > taken ? rxq->posted - taken : 0;
}

/* Posted buffers that nobody may fill, but are kept for peers. */
static uint32_t unpermitted(const struct verbs_pool *pool)
{
	uint32_t taken = atomic_load_explicit(&pool->rx_permits, memory_order_relaxed) +
			 verbs_lost_maybe(pool) + pool->least;

	return pool->rxq.posted > taken ? pool->rxq.posted - taken : 0;
}

/* Packets by which a link's rx_permits are below the window. */
static uint32_t owed_to(const struct verbs_link *link)
{
	uint32_t window = TAGRV_MIN(link->pool->rx_window, link->rx_window);

	return window > link->rx_permits ? window - link->rx_permits : 0;
}

static bool is_half_used(const struct verbs_link *link)
{
	return link->rx_permits * 2 <= TAGRV_MIN(link->rx_window, link->pool->rx_window);
}

/* Without SRQ. The next progress makes the window larger. */
static uint32_t offer_own(struct verbs_link *link)
{
	if (verbs_window_is_used(link) && link->rx_window < link->rxq->bufs.max)
		push_owed(link);
	return TAGRV_MIN(owed_to(link), permittable(link));
}

uint32_t tagrv_verbs_permit_offer(struct verbs_link *link)
{
	struct verbs_pool *pool = link->pool;
	uint32_t owed, kept, avail;

	if (TAGRV_UNLIKELY(link->rxq != NULL))
		return offer_own(link);
	if (verbs_window_is_used(link))
		tagrv_verbs_window_look(link);
	owed = owed_to(link);
	kept = TAGRV_MIN(verbs_kept(link->rx_permits), owed);
	if (TAGRV_UNLIKELY((kept || link->thin_told || pool->thin_all) && is_thin(pool)))
		return kept | VERBS_PERMIT_THIN;
	avail = permittable(link) + kept;
	if (avail < owed)
		pool->want_rx_bufs = pool->rxq.bufs.total < pool->rxq.bufs.max;
	/* Buffers may be in the hands of their packets' receiver, and are posted soon. */
	if (TAGRV_UNLIKELY(kept))
		avail = TAGRV_MIN(avail, unpermitted(pool));
	return TAGRV_MIN(owed, avail);
}

void tagrv_verbs_permit_sent(struct verbs_link *link, uint32_t cnt)
{
	struct verbs_pool *pool = link->pool;
	bool thin = cnt & VERBS_PERMIT_THIN;

	cnt &= VERBS_PERMIT_COUNT;
	pool->permits_over += thin ? cnt : 0;
	pool->thin_due |= thin;
	link->thin_told = thin;
	link->rx_from += cnt;
	if (link->rxq)
		link->rx_permits += cnt;
	else
		set_rx_permits(link, link->rx_permits + cnt);
	pool->xp->stats.permits_sent += cnt;
}

uint32_t tagrv_verbs_permit_imm(uint32_t cnt, bool permit_only)
{
	return htobe32(cnt | (permit_only ? PERMIT_ONLY : 0));
}

/* Not of peers that have come before progress could register buffers for them. */
static void warn_over(struct verbs_pool *pool)
{
	if (!pool->permits_over || pool->warned_over ||
	    pool->links * VERBS_PERMIT_MIN + pool->least <= pool->rxq.bufs.max)
		return;
	pool->warned_over = true;
	tagrv_warn("verbs: %s: %u peers are too many for %u receive buffers: "
		   "packets may have to be repeated; raise "
		   "FI_TAGRV_RX_BUFS\n", pool->xp->dev->base.name, pool->links,
		   pool->rxq.bufs.max);
}

/* Packets that may be permitted to a link that keeps them as early packets. */
static uint32_t stray_room(const struct verbs_link *link)
{
	uint32_t used = link->stray_cnt + link->rx_permits;

	return used < VERBS_STRAY_LINK ? VERBS_STRAY_LINK - used : 0;
}

/*
 * Sends what a link is owed. False: later, for want of buffers or of room. Word of buffers alone
 * is signaled: it may be the last packet for long, and nobody flushes it.
 */
static bool serve_owed(struct verbs_link *link)
{
	bool answered = tagrv_verbs_recall_answer(link) != -FI_EAGAIN;
	uint32_t cnt, thin;
	int ret = 0;

	if (link->rxq)
		tagrv_verbs_window_own(link);
	cnt = tagrv_verbs_permit_offer(link);
	thin = cnt & VERBS_PERMIT_THIN;
	cnt -= thin;
	if (link->state == VERBS_LINK_BOUND)
		cnt = TAGRV_MIN(cnt, stray_room(link));
	if (cnt)
		ret = tagrv_verbs_send_permit(link, cnt | thin);
	else if (link->thin_told != (thin != 0) && link->state == VERBS_LINK_OPEN)
		ret = tagrv_verbs_send_flush(link);
	if (ret == -FI_EAGAIN)
		return false;
	return answered && (cnt || !is_half_used(link));
}

/* Links of it are owed more than there were buffers for, or their share is too small for them. */
static void end_round(struct verbs_pool *pool)
{
	bool lacks = pool->lacking && pool->rxq.bufs.total == pool->rxq.bufs.max;

	warn_over(pool);
	if (TAGRV_UNLIKELY(lacks || pool->cramped) && pool->xp->use_srq)
		tagrv_verbs_recall_surplus(pool, lacks);
	pool->lacking = pool->cramped = false;
}

void tagrv_verbs_permit_send_owed(struct verbs_xport *xp)
{
	struct tagrv_list *pos, *tmp;

	tagrv_list_for_each_safe(&xp->owed, pos, tmp) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, owed_node);

		if (link->error || serve_owed(link))
			tagrv_list_remove(pos);
		link->pool->lacking |= !link->error && owed_to(link);
	}
	end_round(&xp->pool);
	if (xp->list.taglist)
		end_round(&xp->list.pool);
}

void tagrv_verbs_permit_take(struct verbs_link *link, uint32_t cnt)
{
	link->rx_from -= cnt;
	if (link->rxq)
		link->rx_permits -= cnt;
	else
		set_rx_permits(link, link->rx_permits - cnt);
	/* It may have sent others before it returned these. */
	if (is_half_used(link))
		push_owed(link);
	tagrv_verbs_permit_thin_look(link->pool);
}

/* ---- packets received ---- */

/* The peer has used half of its window, or some of what is kept for it. */
static TAGRV_COLD void used_half(struct verbs_link *link)
{
	if (!link->rxq && link->rx_permits < VERBS_PERMIT_MIN)
		atomic_fetch_add_explicit(&link->pool->rx_kept, 1, memory_order_relaxed);
	if (is_half_used(link))
		push_owed(link);
}

bool tagrv_verbs_permit_used(struct verbs_link *link)
{
	struct verbs_pool *pool = link->pool;

	if (TAGRV_UNLIKELY(!link->rx_permits))
		return false;
	link->rx_permits--;
	if (TAGRV_LIKELY(!link->rxq))
		atomic_store_explicit(&pool->rx_permits,
				      atomic_load_explicit(&pool->rx_permits,
							   memory_order_relaxed) - 1,
				      memory_order_relaxed);
	if (TAGRV_UNLIKELY(link->rx_permits <= link->owe_at))
		used_half(link);
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
	/* From now on what waited for a buffer has as much time as any other request. */
	if (TAGRV_UNLIKELY(link->thin && !(bits & VERBS_PERMIT_THIN)))
		link->check.since = 0;
	link->thin = (bits & VERBS_PERMIT_THIN) != 0;
	xp->freed = true;
	xp->lacks_permit = false;
	return bits & PERMIT_ONLY;
}

bool tagrv_verbs_permit_read(struct verbs_xport *xp, struct verbs_link *link, uint32_t imm)
{
	if (be32toh(imm) & PERMIT_ONLY)
		return true;
	(void) tagrv_verbs_permit_received(xp, link, imm);
	return false;
}
