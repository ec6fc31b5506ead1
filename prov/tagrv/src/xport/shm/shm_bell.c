/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The bell: tells a receiver that a ring which it does not poll has an entry, and
 * wakes the receiver if it sleeps.
 *
 *   sender                             receiver
 *   bits[i] |= bit of the link         armed = n (it is about to sleep)
 *   summary |= bit of word i           summary is 0?
 *   armed is n, not 0?                    sleeps on the eventfd
 *      signals the eventfd
 *      if armed is still n: armed = 0
 *
 * All accesses are full barriers, so either the sender sees 'armed' or the receiver
 * sees the summary. A sender sets both bits even if they are set already: it cannot
 * know whether the receiver has read them since, nor whether the sender that set
 * them was killed before it signalled the eventfd. For the same reason the eventfd is
 * signalled before 'armed' is cleared. A sleep has a number, so that a slow sender
 * does not clear the 'armed' of a later sleep.
 *
 * Bits are hints: a wrong one makes the receiver read an empty ring.
 */
#include "core/eventfd.h"
#include "xport/shm/shm_priv.h"

static void wake(struct shm_bell *bell, int event_fd)
{
	uint32_t armed = atomic_load(&bell->armed);

	if (armed && !tagrv_eventfd_signal(event_fd))
		atomic_compare_exchange_strong(&bell->armed, &armed, 0);
}

static void ring(struct shm_bell *bell, uint32_t bit, int event_fd)
{
	atomic_fetch_or(&bell->bits[bit / 64], 1ull << bit % 64);
	atomic_fetch_or(&bell->summary, 1ull << bit / 64);
	wake(bell, event_fd);
}

void tagrv_shm_ring_bell(struct shm_link *link)
{
	ring(link->peer_bell, link->peer_bit, link->peer_event_fd);
}

void tagrv_shm_ring_own_bell(struct shm_link *link)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	ring(xp->bell, link->own_bit, xp->event_fd);
}

TAGRV_COLD void tagrv_shm_wake_own(struct shm_xport *xp)
{
	wake(xp->bell, xp->event_fd);
}

void tagrv_shm_notify(struct shm_link *link)
{
	if (!atomic_load_explicit(&link->tx_ready, memory_order_acquire))
		return;
	shm_fence();
	if (!(atomic_load(&link->tx.hdr->cons.state) & SHM_POLLED))
		tagrv_shm_ring_bell(link);
}
