/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Progress: polls the hot rings, then rings whose bit is set in the bell, then
 * continues operations that wait.
 *
 * A pass without work reads one line per hot ring and one of the bell; all of them
 * stay in this processor's cache until a peer writes to them.
 */
#include <rdma/fi_errno.h>

#include "xport/shm/shm_priv.h"

/* ---- one ring ---- */

/* Maps the peer's bell if nothing was sent so far, and rings it. */
static TAGRV_COLD void notify_starved(struct shm_link *link)
{
	if (!atomic_load_explicit(&link->tx_ready, memory_order_acquire))
		tagrv_shm_pull(shm_device_of(link->base.xport->dev));
	tagrv_shm_notify(link);
}

void tagrv_shm_publish_head(struct shm_link *link)
{
	shm_rx_publish(&link->rx);
	shm_fence();
	if (TAGRV_UNLIKELY(atomic_load_explicit(&link->rx.hdr->prod.starved,
						memory_order_relaxed)))
		notify_starved(link);
}

static bool on_control(struct shm_link *link, uint64_t word)
{
	const char *body = shm_rx_body(&link->rx);
	uint32_t len = (uint32_t) word;

	switch (shm_kind_of(word)) {
	case SHM_PAD:
		return link->rx.pos + shm_lines_of(len) == link->rx.lines;
	case SHM_GET_REQ:
		return tagrv_shm_on_get_req(link, body, len);
	case SHM_GET_DATA:
		return tagrv_shm_on_get_data(link, body, len);
	case SHM_GET_FAIL:
		return tagrv_shm_on_get_fail(link, body, len);
	case SHM_PUT:
		return tagrv_shm_on_put(link, body, len);
	default:
		return false;
	}
}

/*
 * Passes the packet behind an entry of n lines to sink->next_packet, if it has come. Its
 * first line holds TAGRV_SHORT_HDR bytes, whatever length the peer claims. Reading
 * its head word also starts the transfer of that line from the peer's cache.
 */
static inline void announce_next(const struct shm_link *link, uint32_t n)
{
	struct tagrv_sink *sink = link->base.xport->sink;
	const struct shm_rx *rx = &link->rx;
	uint32_t line = shm_rx_behind(rx, n);
	uint64_t word = atomic_load_explicit(shm_head_at(rx->data, line),
					     memory_order_acquire);

	if (word && shm_kind_of(word) == SHM_PACKET && sink->next_packet)
		sink->next_packet(sink, link->base.ctx, shm_rx_body_at(rx, line),
			    (uint32_t) word);
}

static inline bool consume(struct shm_link *link, uint64_t word)
{
	struct tagrv_xport *xport = link->base.xport;
	struct shm_rx *rx = &link->rx;
	uint32_t n = shm_rx_check(rx, word);

	if (TAGRV_LIKELY(n && shm_kind_of(word) == SHM_PACKET &&
			 (uint32_t) word <= xport->attr.max_packet)) {
		announce_next(link, n);
		xport->sink->packet(xport->sink, link->base.ctx,
				    shm_rx_body(rx), (uint32_t) word);
	} else if (!n || !on_control(link, word)) {
		tagrv_shm_link_corrupt(link, "entry");
		return false;
	}
	shm_rx_advance(rx, n);
	if (TAGRV_UNLIKELY(rx->head - rx->published >= rx->lines / 4))
		tagrv_shm_publish_head(link);
	return true;
}

unsigned tagrv_shm_drain(struct shm_link *link)
{
	unsigned cnt = 0;
	uint64_t word;

	while (cnt < SHM_BATCH && link->rx_open &&
	       (word = shm_rx_peek(&link->rx)) && consume(link, word))
		cnt++;
	return cnt;
}

/* ---- the peer ---- */

bool tagrv_shm_check_peer(struct shm_link *link)
{
	bool ready = atomic_load_explicit(&link->tx_ready,
					  memory_order_acquire);
	bool closed = ready && atomic_load(&link->tx.hdr->cons.state) &
		SHM_CLOSED;
	bool waits = link->waits & SHM_WAIT_SEND || link->get_cnt ||
		link->put_cnt;

	if (link->status || link->closing)
		return link->status != 0;
	/* If nothing waits for the peer, the next send finds that it closed. */
	if ((closed && waits) || (!closed && atomic_load(&link->peer_dead)))
		tagrv_shm_link_fail(link, -FI_ECONNRESET);
	return link->status != 0;
}

/* ---- a pass ---- */

static unsigned poll_hot(struct shm_xport *xp)
{
	unsigned events = 0;

	for (unsigned i = 0; i < xp->hot_cnt; i++) {
		struct shm_link *link = xp->hot[i];

		if (shm_rx_peek(&link->rx)) {
			link->last_pass = xp->pass;
			events += tagrv_shm_drain(link);
		} else if (link->rx.head != link->rx.published) {
			tagrv_shm_publish_wanted(link);
		}
	}
	xp->polls += xp->hot_cnt;
	return events;
}

static void check_waiting(struct shm_xport *xp)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&xp->waiting, pos)
		tagrv_shm_check_peer(tagrv_container_of(pos, struct shm_link,
							wait_node));
}

/* Work on the lists of links and gets. */
static TAGRV_COLD unsigned work_on_lists(struct shm_xport *xp)
{
	unsigned events = 0;

	events += tagrv_shm_cma_pass(xp);
	events += tagrv_shm_request_pass(xp);
	events += tagrv_shm_serve_pass(xp);
	events += tagrv_shm_put_pass(xp);
	check_waiting(xp);
	tagrv_shm_look_for_room(xp);
	events += tagrv_shm_report(xp, true);
	events += tagrv_shm_links_finish(xp);
	xp->slow = !tagrv_list_empty(&xp->cma_gets) ||
		!tagrv_list_empty(&xp->queued_gets) ||
		!tagrv_list_empty(&xp->serving) ||
		!tagrv_list_empty(&xp->putting) ||
		!tagrv_list_empty(&xp->waiting) ||
		!tagrv_list_empty(&xp->starved) ||
		!tagrv_list_empty(&xp->failed) ||
		!tagrv_list_empty(&xp->closing);
	return events;
}

/* Work that need not be done in every pass. */
static TAGRV_COLD void rare_work(struct shm_xport *xp)
{
	struct shm_device *dev = shm_device_of(xp->base.dev);

	if (atomic_load(&dev->unpushed_cnt))
		tagrv_shm_pull(dev);
	tagrv_shm_cool_idle(xp);
}

int tagrv_shm_progress(struct tagrv_xport *xport)
{
	struct shm_xport *xp = shm_xport_of(xport);
	unsigned events = 0;

	if (TAGRV_UNLIKELY(xp->armed)) {
		if (!tagrv_shm_disarm_if_work(xp))
			return 0;
		events++;	/* else the caller would sleep again */
	}
	xp->pass++;
	if (xp->done_head != xp->done_tail)
		events += tagrv_shm_run_dones(xp);
	events += poll_hot(xp);
	if (TAGRV_UNLIKELY(atomic_load_explicit(&xp->bell->summary,
						memory_order_relaxed)))
		events += tagrv_shm_visit_bits(xp);
	if (TAGRV_UNLIKELY(xp->slow))
		events += work_on_lists(xp);
	if (TAGRV_UNLIKELY(xp->room_due)) {
		xp->room_due = false;
		xport->sink->room(xport->sink);
		events++;
	}
	if (TAGRV_UNLIKELY(xp->pass % SHM_RARE_PASSES == 0))
		rare_work(xp);
	return (int) events;
}
