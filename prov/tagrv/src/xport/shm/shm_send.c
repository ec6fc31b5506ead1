/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends packets, runs done callbacks, and announces room.
 *
 * A send writes its packet into the peer's ring and is complete with that. Its done
 * record is queued only because a callback must not run inside the call.
 *
 *   send: -FI_EAGAIN --> link is in xp->starved, prod.starved is set
 *   consumer publishes its head, sees prod.starved --> rings our bell
 *   progress, reap: the link has room --> sink->room
 *
 * The producer sets prod.starved and then reads head once more; the consumer
 * publishes head and then reads prod.starved. With a full barrier in between on
 * both sides, one of the two sees the other.
 */
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "xport/shm/shm_priv.h"

/* ---- room ---- */

bool tagrv_shm_tx_free(struct shm_link *link, uint32_t cost, uint32_t reserve)
{
	struct shm_tx *tx = &link->tx;
	uint64_t need = tx->tail + cost + 1 + reserve;

	if (need > tx->freed && !shm_tx_refresh(tx)) {
		tagrv_shm_link_corrupt(link, "head");
		return false;
	}
	return need <= tx->freed;
}

bool tagrv_shm_tx_room(struct shm_link *link, uint32_t cost, uint32_t reserve)
{
	if (!tagrv_shm_tx_free(link, cost, reserve))
		return false;
	shm_tx_clear(&link->tx, link->tx.tail + cost + 1 + reserve);
	return true;
}

void tagrv_shm_starve(struct shm_link *link, enum shm_wait why, uint32_t need)
{
	struct shm_xport *xp = shm_xport_of_link(link);

	if (why == SHM_WAIT_SEND) {
		if (!tagrv_list_linked(&link->starved_node)) {
			tagrv_list_push_tail(&xp->starved, &link->starved_node);
			link->need = need;
		}
		link->need = TAGRV_MIN(link->need, need);
		xp->slow = true;
		/* Progress reads head again. */
		tagrv_shm_wake_if_armed(xp);
	}
	if (link->waits & why ||
	    !atomic_load_explicit(&link->tx_ready, memory_order_acquire))
		return;
	link->waits |= why;
	atomic_store(&link->tx.hdr->prod.starved, 1);
	/* A consumer that does not poll the ring may have an unpublished head. */
	tagrv_shm_notify(link);
}

void tagrv_shm_unstarve(struct shm_link *link, enum shm_wait why)
{
	link->waits &= ~(unsigned) why;
	if (!link->waits && atomic_load_explicit(&link->tx_ready,
						 memory_order_acquire))
		atomic_store_explicit(&link->tx.hdr->prod.starved, 0,
				      memory_order_relaxed);
}

bool tagrv_shm_has_room(struct shm_link *link)
{
	if (!link->tx_open && !tagrv_shm_tx_open(link))
		return link->status != 0;
	return tagrv_shm_tx_room(link, link->need, 0);
}

void tagrv_shm_look_for_room(struct shm_xport *xp)
{
	struct tagrv_list *pos, *tmp;

	tagrv_list_for_each_safe(&xp->starved, pos, tmp) {
		struct shm_link *link =
			tagrv_container_of(pos, struct shm_link, starved_node);

		if (!tagrv_shm_check_peer(link) && !tagrv_shm_has_room(link))
			continue;
		tagrv_list_remove(&link->starved_node);
		tagrv_shm_unstarve(link, SHM_WAIT_SEND);
		xp->room_due |= !link->status && !link->closing;
	}
}

/* ---- send ---- */

bool tagrv_shm_tx_open(struct shm_link *link)
{
	if (link->status || link->closing || !link->bound)
		return false;
	if (!atomic_load_explicit(&link->tx_ready, memory_order_acquire))
		tagrv_shm_pull(shm_device_of(link->base.xport->dev));
	link->tx_open = atomic_load_explicit(&link->tx_ready,
					     memory_order_acquire);
	return link->tx_open;
}

/* Why a send must fail now: -FI_ENOTCONN, or -FI_EAGAIN and the link starves. */
static TAGRV_COLD int no_room(struct shm_link *link, uint32_t need)
{
	if (link->status || link->closing || !link->bound ||
	    tagrv_shm_check_peer(link))
		return -FI_ENOTCONN;
	tagrv_shm_starve(link, SHM_WAIT_SEND, need);
	return -FI_EAGAIN;
}

TAGRV_COLD void tagrv_shm_tx_check_state(struct shm_link *link, uint32_t state)
{
	if (state & SHM_CLOSED)
		tagrv_shm_link_fail(link, -FI_ECONNRESET);
	if (!(state & (SHM_POLLED | SHM_CLOSED)))
		tagrv_shm_ring_bell(link);
}

static inline bool dones_full(struct shm_xport *xp)
{
	if (TAGRV_LIKELY(xp->done_tail - xp->done_head < SHM_DONES))
		return false;
	xp->dones_full = true;
	return true;
}

static inline void push_done(struct shm_xport *xp, struct shm_link *link,
			     struct tagrv_done *done)
{
	xp->dones[xp->done_tail++ % SHM_DONES] = (struct shm_done) {
		.done = done, .link = link, .status = link->status,
	};
	link->queued++;
	tagrv_shm_wake_if_armed(xp);
}

/* large: no head words are zeroed, see shm_tx_clear_behind(). */
static inline bool make_room(struct shm_link *link, bool large, uint32_t cost,
			     uint32_t reserve)
{
	if (large)
		return tagrv_shm_tx_free(link, cost, reserve);
	return TAGRV_LIKELY(shm_tx_fits(&link->tx, cost, reserve)) ||
	       tagrv_shm_tx_room(link, cost, reserve);
}

int tagrv_shm_send(struct tagrv_link *base, const struct iovec *iov, size_t cnt,
		   unsigned flags, struct tagrv_done *done)
{
	struct shm_link *link = shm_link_of(base);
	struct shm_xport *xp = shm_xport_of_link(link);
	struct shm_tx *tx = &link->tx;
	uint32_t reserve = flags & TAGRV_SEND_CTRL ? 0 : SHM_RESERVE;
	size_t len = tagrv_iov_len(iov, cnt);
	uint32_t n, cost, state;
	bool large;
	char *body;

	if (TAGRV_UNLIKELY(!link->tx_open) && !tagrv_shm_tx_open(link))
		return no_room(link, 0);
	if (TAGRV_UNLIKELY(len > tx->max_packet))
		return -FI_EMSGSIZE;
	n = shm_lines_of(len);
	cost = shm_tx_cost(tx, n);
	large = n >= SHM_LARGE;
	if (TAGRV_UNLIKELY(!make_room(link, large, cost, reserve)))
		return no_room(link, cost + reserve);
	if (TAGRV_UNLIKELY(done && dones_full(xp)))
		return -FI_EAGAIN;
	body = shm_tx_body(tx, n);
	for (size_t i = 0; i < cnt; i++) {
		tagrv_copy(body, iov[i].iov_base, iov[i].iov_len);
		body += iov[i].iov_len;
	}
	if (large)
		shm_tx_clear_behind(tx, cost);
	shm_tx_publish(tx, n, cost, shm_word(SHM_PACKET, (uint32_t) len));
	state = shm_tx_state(tx);
	if (TAGRV_UNLIKELY(state != SHM_POLLED))
		tagrv_shm_tx_check_state(link, state);
	if (TAGRV_UNLIKELY(!large && !shm_tx_clear_ahead(tx)))
		tagrv_shm_link_corrupt(link, "head");
	if (done)
		push_done(xp, link, done);
	return 0;
}

/* Only the easy case: no pad, enough zeroed lines, no done record. */
int tagrv_shm_send_short(struct tagrv_link *base,
			 const uint64_t hdr[TAGRV_SHORT_WORDS],
			 const void *payload, size_t len)
{
	struct shm_link *link = shm_link_of(base);
	uint32_t n = shm_lines_of(TAGRV_SHORT_HDR + len), state;
	struct shm_tx *tx = &link->tx;
	char *body;

	if (TAGRV_UNLIKELY(!link->tx_open || n > tx->lines - tx->pos ||
			   TAGRV_SHORT_HDR + len > tx->max_packet ||
			   !shm_tx_fits(tx, n, SHM_RESERVE)))
		return -FI_EAGAIN;
	body = shm_tx_line(tx, tx->pos) + SHM_HEAD_WORD;
#pragma GCC unroll 4
	for (int i = 0; i < TAGRV_SHORT_WORDS; i++)
		tagrv_word_copy(body + (size_t) i * sizeof(*hdr), &hdr[i]);
	tagrv_copy(body + TAGRV_SHORT_HDR, payload, len);
	shm_tx_publish(tx, n, n, shm_word(SHM_PACKET, (uint32_t) (
			       TAGRV_SHORT_HDR + len)));
	state = shm_tx_state(tx);
	if (TAGRV_UNLIKELY(state != SHM_POLLED))
		tagrv_shm_tx_check_state(link, state);
	if (TAGRV_UNLIKELY(!shm_tx_clear_ahead(tx)))
		tagrv_shm_link_corrupt(link, "head");
	return 0;
}

/* ---- done ---- */

/* A failed record runs after link_error, which may have to wait for progress. */
static bool must_wait(const struct shm_done *d)
{
	return d->status && !d->link->reported && !d->link->closing;
}

/* Records that a callback adds wait for the next call. */
unsigned tagrv_shm_run_dones(struct shm_xport *xp)
{
	uint32_t end = xp->done_tail;
	unsigned events = 0;

	if (xp->running_dones)
		return 0;
	xp->running_dones = true;
	while (xp->done_head != end) {
		struct shm_done d = xp->dones[xp->done_head % SHM_DONES];

		if (must_wait(&d))
			break;
		xp->done_head++;
		d.link->queued--;
		d.done->fn(d.done, d.status);
		events++;
	}
	xp->running_dones = false;
	if (TAGRV_UNLIKELY(xp->dones_full && events)) {
		xp->dones_full = false;
		xp->room_due = true;
	}
	return events;
}

int tagrv_shm_reap(struct tagrv_xport *xport)
{
	struct shm_xport *xp = shm_xport_of(xport);
	unsigned events = 0;

	if (TAGRV_UNLIKELY(!tagrv_list_empty(&xp->failed)))
		events += tagrv_shm_report(xp, false);
	events += tagrv_shm_run_dones(xp);
	if (TAGRV_UNLIKELY(!tagrv_list_empty(&xp->starved)))
		tagrv_shm_look_for_room(xp);
	if (TAGRV_UNLIKELY(xp->room_due)) {
		xp->room_due = false;
		xport->sink->room(xport->sink);
		events++;
	}
	return (int) events;
}
