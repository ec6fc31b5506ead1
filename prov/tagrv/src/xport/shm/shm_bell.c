/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The bell: how a ring that is not looked at in every pass gets attention.
 *
 *   sender                             receiver
 *   bits[i] |= link                    armed = n (it goes to sleep)
 *   summary |= i                       looks at summary
 *   armed is n, not 0?                 sleeps on the eventfd
 *      write to the eventfd
 *      armed still n? then 0
 *
 * All of these are full barriers, so one of the two always sees the other. The
 * bits are set again each time, even if they are set: who found them set could
 * not tell whether the receiver has looked already, nor whether the one who
 * set them lived to do the rest. For the same reason the eventfd comes before
 * armed: a sender killed in between has woken the receiver, and its number
 * keeps one that was only slow from undoing the next sleep's.
 *
 * Bits are hints. A wrong one costs the receiver a look at an empty ring.
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

void tagrv_shm_ring_own(struct shm_link *link)
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
