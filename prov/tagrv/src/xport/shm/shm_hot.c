/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Decides which rings are hot, that is polled in every pass; and sleeping.
 *
 *   cold -- its bit in the bell is set, and a place is free
 *           or its ring was idle for SHM_HOT_IDLE passes ---> hot
 *   hot  -- another ring took its place, or it was idle for SHM_COOL
 *           passes and more than SHM_HOT_KEEP rings are hot -> cold
 *
 * So the cost of a pass depends on the number of rings in use, not on the number
 * of peers, and senders to a hot ring need not ring the bell.
 */
#include <rdma/fi_errno.h>

#include "xport/shm/shm_priv.h"

static void set_state(struct shm_link *link, uint32_t state)
{
	if (!link->closing)
		atomic_store_explicit(&link->rx.hdr->cons.state, state,
				      memory_order_relaxed);
}

/* Removes a link from the hot rings, without telling the sender. */
static void remove_hot(struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);
	struct shm_link *last = xp->hot[--xp->hot_cnt];

	xp->hot[link->hot_at] = last;
	last->hot_at = link->hot_at;
	link->hot_at = -1;
	tagrv_watch_remove(xp->base.sink->watch, &link->base.watch_at);
}

void tagrv_shm_cool(struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	if (link->hot_at < 0)
		return;
	remove_hot(link);
	set_state(link, 0);
	if (!shm_rx_is_published(&link->rx))
		tagrv_shm_publish_head(link);
	tagrv_shm_barrier(shm_device_of(xp->base.dev));
	/* An entry published before the sender could see the new state. */
	if (link->rx_open && shm_rx_has(&link->rx))
		tagrv_shm_ring_own_bell(link);
}

/* Messages that were taken between passes count, too. */
static void learn_of_use(const struct shm_xport *xp, struct shm_link *link)
{
	if (link->seen == link->rx.in.cnt)
		return;
	link->seen = link->rx.in.cnt;
	link->last_pass = xp->pass;
}

/* The hot link that was idle for longest, if for so many passes, else NULL. */
static struct shm_link *longest_idle(struct shm_xport *xp, uint64_t passes)
{
	struct shm_link *idle = xp->hot[0];

	for (unsigned i = 0; i < xp->hot_cnt; i++) {
		learn_of_use(xp, xp->hot[i]);
		if (xp->hot[i]->last_pass < idle->last_pass)
			idle = xp->hot[i];
	}
	return xp->pass - idle->last_pass >= passes ? idle : NULL;
}

/*
 * Polling an idle ring delays the others by 2 ns. One ring per call, because making
 * it cold takes a barrier on all processors.
 */
void tagrv_shm_cool_idle(struct shm_xport *xp)
{
	struct shm_link *idle = NULL;

	if (xp->hot_cnt > SHM_HOT_KEEP)
		idle = longest_idle(xp, SHM_COOL);
	if (idle)
		tagrv_shm_cool(idle);
}

/* Makes a ring hot, if there is a place for it. */
static void warm(struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	if (xp->hot_cnt == SHM_HOT) {
		struct shm_link *idle = longest_idle(xp, SHM_HOT_IDLE);

		if (!idle)
			return;
		tagrv_shm_cool(idle);
	}
	link->hot_at = (int) xp->hot_cnt;
	link->last_pass = xp->pass;
	xp->hot[xp->hot_cnt++] = link;
	tagrv_watch_add(xp->base.sink->watch, xp->base.sink->drain ?
			xp->base.sink->drain : tagrv_shm_drain_hot, link,
			&link->base.watch_at);
	tagrv_shm_watch_next(link);
	set_state(link, SHM_POLLED);
}

/* A link's bit was set: for an entry, for room, or because the peer is gone. */
static unsigned visit(struct shm_link *link)
{
	unsigned events = 0;

	if (link->rx_open && shm_rx_has(&link->rx)) {
		if (link->hot_at < 0)
			warm(link);
		events = tagrv_shm_drain(link);
	}
	/*
	 * Even if rx.in.cnt was published before: the peer's bell, which must be
	 * rung then, may have been mapped only now.
	 */
	if (link->rx_open)
		tagrv_shm_publish_wanted(link);
	if (link->rx_open && link->hot_at < 0 && shm_rx_has(&link->rx))
		tagrv_shm_ring_own_bell(link);
	if (!link->closing)
		tagrv_shm_check_peer(link);
	return events;
}

unsigned tagrv_shm_visit_bits(struct shm_xport *xp)
{
	uint64_t summary = atomic_exchange(&xp->bell->summary, 0);
	unsigned events = 0;

	for (; summary; summary &= summary - 1) {
		unsigned word = (unsigned) __builtin_ctzll(summary);
		uint64_t bits = atomic_exchange(&xp->bell->bits[word], 0);

		for (; bits; bits &= bits - 1) {
			unsigned bit = (unsigned) __builtin_ctzll(bits);
			struct shm_link *link = xp->links[word * 64 + bit];

			xp->polls++;
			if (link)
				events += visit(link);
		}
	}
	return events;
}

/* ---- sleeping ---- */

static void set_polled(struct shm_xport *xp, uint32_t state)
{
	for (unsigned i = 0; i < xp->hot_cnt; i++)
		set_state(xp->hot[i], state);
}

/* Whether there is work for which no peer rings the bell. */
static bool has_own_work(struct shm_xport *xp)
{
	return xp->done_head != xp->done_tail || xp->room_due ||
	       !tagrv_list_empty(&xp->failed) ||
	       !tagrv_list_empty(&xp->closing) ||
	       !tagrv_list_empty(&xp->cma_gets) ||
	       !tagrv_list_empty(&xp->queued_gets) ||
	       !tagrv_list_empty(&xp->helping) ||
	       atomic_load(&shm_device_of(xp->base.dev)->unpushed_cnt);
}

/* Whether something that waits for a peer can continue, or must fail. */
static bool can_continue(struct shm_xport *xp)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&xp->starved, pos) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, starved_node);

		if (tagrv_shm_check_peer(link) || tagrv_shm_has_room(link))
			return true;
	}
	tagrv_list_for_each(&xp->serving, pos)
		if (tagrv_shm_can_serve(tagrv_container_of(pos,
					struct shm_link, serve_node)))
			return true;
	tagrv_list_for_each(&xp->putting, pos) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, put_node);

		if (tagrv_shm_check_peer(link) || tagrv_shm_can_put(link))
			return true;
	}
	tagrv_list_for_each(&xp->waiting, pos)
		if (tagrv_shm_check_peer(tagrv_container_of(pos,
					 struct shm_link, wait_node)))
			return true;
	return false;
}

static bool has_entries(struct shm_xport *xp)
{
	if (atomic_load(&xp->bell->summary))
		return true;
	for (unsigned i = 0; i < xp->hot_cnt; i++)
		if (shm_rx_has(&xp->hot[i]->rx))
			return true;
	return false;
}

static bool has_work(struct shm_xport *xp)
{
	return has_entries(xp) || can_continue(xp) || has_own_work(xp);
}

static void disarm(struct shm_xport *xp)
{
	xp->armed = false;
	/* Wakes our other sleepers: no sender does once 'armed' is 0. */
	tagrv_shm_wake_own(xp);
	atomic_store(&xp->bell->armed, 0);
	set_polled(xp, SHM_POLLED);
}

bool tagrv_shm_disarm_if_work(struct shm_xport *xp)
{
	if (atomic_load(&xp->bell->armed) && !has_work(xp))
		return false;
	disarm(xp);
	return true;
}

int tagrv_shm_arm(struct tagrv_xport *xport)
{
	struct shm_xport *xp = shm_xport_of(xport);

	tagrv_shm_starve_refused(xp);
	if (has_own_work(xp))
		return -FI_EAGAIN;
	/*
	 * Cleared only here, before has_work(): a signal that comes later costs at
	 * most one useless pass, and none is ever missed.
	 */
	tagrv_shm_wake_clear(xp);
	for (unsigned i = 0; i < xp->hot_cnt; i++)
		if (!shm_rx_is_published(&xp->hot[i]->rx))
			tagrv_shm_publish_head(xp->hot[i]);
	xp->armed = true;
	set_polled(xp, 0);
	xp->arm_nr += xp->arm_nr == UINT32_MAX ? 2 : 1;
	atomic_store(&xp->bell->armed, xp->arm_nr);
	tagrv_shm_barrier(shm_device_of(xport->dev));
	if (!has_work(xp))
		return 0;
	disarm(xp);
	return -FI_EAGAIN;
}
