/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Polls and handles completions.
 *
 *   progress:  alarms (rare), receive CQ, send CQ, closing links, room
 *   reap:      permits in the receive CQ, send CQ, room
 *
 * Receive buffers are posted again when the receive CQ is found empty, or earlier
 * when a batch of them is idle. So the reply to a single packet is not delayed, and
 * a stream of packets needs few chained posts.
 *
 * A pass that handles more than half of the receive buffers makes more be registered.
 *
 * The first error of a link decides its status. Work requests that are older than
 * the one that failed are complete: otherwise they would have failed first.
 */
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/log.h"
#include "xport/verbs/verbs_poll.h"

#define IDLE_POLLS	64	/* passes per poll of a send CQ without signaled
				   requests */
#define RQ_PASS		256u	/* packets handled per pass without SRQ */

void tagrv_verbs_queue_failed(struct verbs_xport *xp)
{
	if (xp->fatal)
		return;
	atomic_store(&xp->async_fatal, -FI_EIO);
	verbs_alarm_set(xp, VERBS_ALARM_DEVICE);
}

int tagrv_verbs_poll_held(struct verbs_xport *xp, struct verbs_cq *cq,
			  struct ibv_wc *wc)
{
	int held = (int) TAGRV_MIN(cq->held_cnt, (uint32_t) VERBS_BATCH);

	memcpy(wc, cq->held + cq->held_pos, (size_t) held * sizeof(*wc));
	cq->held_cnt -= (uint32_t) held;
	cq->held_pos = cq->held_cnt ? cq->held_pos + (uint32_t) held : 0;
	return held == VERBS_BATCH ? held :
				     verbs_poll_device(xp, cq, wc, held);
}

/* ---- receive side ---- */

/*
 * A flushed receive shows only that the queue pair broke. If one of our requests
 * broke it, the cause is in the send CQ, which is therefore polled first: the
 * flush becomes an async_error, which the next progress reports unless the link
 * has got another error by then.
 */
static TAGRV_COLD void rx_error(struct verbs_xport *xp, struct verbs_link *link,
				const struct ibv_wc *wc)
{
	bool astray = !wc->status && verbs_is_astray(link, wc);

	xp->astray += astray;
	if (link->error)
		return;
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		atomic_store(&link->async_error, -FI_ECONNRESET);
		verbs_alarm_set(xp, VERBS_ALARM_LINK);
		xp->must_poll_tx = true;
		return;
	}
	tagrv_info("verbs: %s: qp 0x%x: receive failed, status %d: %s\n",
		   xp->dev->base.name, link->qpn, wc->status,
		   astray ? "it is the queue pair by which we send" :
			    tagrv_verbs_wc_hint(wc->status));
	tagrv_verbs_link_fail(link, wc->status ?
			      tagrv_verbs_wc_status(xp->dev, wc) :
			      -FI_EREMOTEIO, false);
}

/*
 * Accounts for a packet's use of a permit, and for the permit in it. False: do not
 * deliver the packet; it is permit-only, or was not permitted.
 */
static bool account(struct verbs_xport *xp, struct verbs_link *link,
		    const struct ibv_wc *wc)
{
	bool permit_only = false;

	if (TAGRV_UNLIKELY(!tagrv_verbs_permit_used(link))) {
		tagrv_info("verbs: %s: qp 0x%x: the peer sent more packets "
			   "than it was permitted\n", xp->dev->base.name, link->qpn);
		tagrv_verbs_link_fail(link, -FI_EREMOTEIO, false);
		return false;
	}
	if (TAGRV_UNLIKELY(wc->wc_flags & IBV_WC_WITH_IMM))
		permit_only = tagrv_verbs_permit_received(xp, link, wc->imm_data);
	return !permit_only;
}

/*
 * The link is not attached, or early packets wait before this one, or it closes and its
 * owner wants all that the peer believes to have arrived.
 */
static TAGRV_COLD void deliver_late(struct verbs_xport *xp, struct verbs_link *link,
				    const void *data, size_t len)
{
	struct tagrv_sink *sink = xp->base.sink;

	if (link->state == VERBS_LINK_CLOSING && !link->stray_cnt)
		sink->packet(sink, link->base.ctx, data, len);
	else
		(void) tagrv_verbs_stray_keep(link, VERBS_STRAY_PACKET, data, len);
}

static void deliver(struct verbs_xport *xp, struct verbs_link *link,
		    const struct verbs_rxq *rxq, const struct ibv_wc *wc, uint32_t buf)
{
	const void *data = verbs_buf_addr(&rxq->bufs, buf);
	struct tagrv_sink *sink = xp->base.sink;

	if (TAGRV_UNLIKELY(wc->status || wc->byte_len > rxq->bufs.size ||
			   !verbs_is_packet(link, wc)))
		rx_error(xp, link, wc);
	else if (TAGRV_UNLIKELY(!account(xp, link, wc)))
		return;
	else if (TAGRV_LIKELY(link->direct))
		sink->packet(sink, link->base.ctx, data, wc->byte_len);
	else if (link->state != VERBS_LINK_CLOSING || link->base.delivers_last)
		deliver_late(xp, link, data, wc->byte_len);
}

/* The link of a second queue pair, or of one created since the last adoption, or NULL. */
static TAGRV_COLD struct verbs_link *find_other(struct verbs_xport *xp, uint32_t qpn)
{
	struct verbs_link *link = verbs_map_find_in(&xp->in_map, qpn);

	if (TAGRV_LIKELY(link != NULL) || !tagrv_verbs_links_adopt(xp))
		return link;
	link = verbs_map_find(&xp->map, qpn);
	return link ? link : verbs_map_find_in(&xp->in_map, qpn);
}

/* Returns the buffer of a handled completion to the idle stack. */
static void free_rx_buf(struct verbs_xport *xp, struct verbs_link *link,
			struct verbs_rxq *rxq, uint32_t buf)
{
	rxq->bufs.idle[rxq->bufs.idle_cnt++] = buf;
	if (TAGRV_UNLIKELY(rxq->qp != NULL)) {
		/* A broken queue pair may never return buffers. */
		if (link->error || atomic_load(&link->async_error))
			return;
		if (!tagrv_list_linked(&link->refill_node))
			tagrv_list_push_tail(&xp->refill, &link->refill_node);
	}
	if (rxq->bufs.idle_cnt >= rxq->refill_at)
		tagrv_verbs_rxq_refill(xp->calls, rxq);
}

static inline void on_rx(struct verbs_xport *xp, const struct ibv_wc *wc)
{
	struct verbs_link *link = verbs_map_find(&xp->map, wc->qp_num);
	struct verbs_rxq *rxq = &xp->pool.rxq;
	uint32_t buf;

	if (TAGRV_UNLIKELY(!link))
		link = find_other(xp, wc->qp_num);
	if (TAGRV_UNLIKELY(!xp->use_srq))
		rxq = link ? link->rxq : NULL;
	if (TAGRV_UNLIKELY(!rxq || rxq->wr_ids[wc->wr_id & rxq->slot_mask] != wc->wr_id)) {
		tagrv_verbs_lost_came(&xp->pool, link, wc);
		return;
	}
	buf = (uint32_t) (wc->wr_id & rxq->slot_mask);
	rxq->wr_ids[buf] = verbs_not_posted(buf);
	rxq->posted--;
	if (TAGRV_LIKELY(link != NULL)) {
		link->rx_last = wc->wr_id;
		deliver(xp, link, rxq, wc, buf);
	} else {
		xp->stale++;
	}
	free_rx_buf(xp, link, rxq, buf);
}

/* Not inlined: then there is one copy only, and everything is inlined in it. */
__attribute__((noinline))
void tagrv_verbs_on_rx(struct verbs_xport *xp, const struct ibv_wc *wc, int cnt)
{
	for (int i = 0; i < cnt; i++)
		on_rx(xp, &wc[i]);
}

void tagrv_verbs_refill_idle(struct verbs_xport *xp)
{
	struct tagrv_list *node;

	if (xp->pool.rxq.bufs.idle_cnt)
		tagrv_verbs_rxq_refill(xp->calls, &xp->pool.rxq);
	while (TAGRV_UNLIKELY((node = tagrv_list_pop(&xp->refill)) != NULL)) {
		struct verbs_link *link =
			tagrv_container_of(node, struct verbs_link, refill_node);

		if (!link->error && !atomic_load(&link->async_error))
			tagrv_verbs_rxq_refill(xp->calls, link->rxq);
	}
}

/* Permits packets to links whose rx_permits are at most half of the window. */
static __attribute__((noinline)) void permit_more(struct verbs_xport *xp)
{
	tagrv_verbs_pool_serve(&xp->pool);
	if (tagrv_list_empty(&xp->owed))
		return;
	tagrv_verbs_refill_idle(xp);
	tagrv_verbs_permit_send_owed(xp);
}

static bool has_idle_buffers(const struct verbs_xport *xp)
{
	return xp->pool.rxq.bufs.idle_cnt || !tagrv_list_empty(&xp->refill);
}

/* Packets that are handled in one pass, after which other work is due. */
static uint32_t pass_limit(const struct verbs_xport *xp)
{
	return xp->use_srq ? xp->pool.rxq.bufs.total / 2 + 1 : RQ_PASS;
}

/*
 * Polls the receive CQ again, of which a whole batch was handled, until it is empty
 * or so many packets were handled that other work is due. An early packet ends the
 * pass, too: the caller attaches the packet's link after it, which a peer that goes on
 * sending must not delay until too many packets are kept. Returns the number of all.
 */
static __attribute__((noinline))
unsigned poll_more_rx(struct verbs_xport *xp, struct ibv_wc *wc, unsigned strays)
{
	uint32_t handled = VERBS_BATCH, limit = pass_limit(xp);
	int cnt = VERBS_BATCH;

	while (cnt == VERBS_BATCH && handled < limit &&
	       xp->stray_cnt <= strays) {
		cnt = verbs_poll_cq(xp, &xp->rx, wc);
		tagrv_verbs_on_rx(xp, wc, cnt);
		handled += (uint32_t) cnt;
	}
	if (cnt < VERBS_BATCH && !xp->rx.held_cnt)
		xp->rx_empty_pass = xp->pass;
	return handled;
}

static unsigned poll_rx(struct verbs_xport *xp)
{
	struct ibv_wc wc[VERBS_BATCH];
	unsigned strays = xp->stray_cnt, handled;
	int cnt = verbs_poll_cq(xp, &xp->rx, wc);

	if (!cnt) {
		xp->rx_empty_pass = xp->pass;
		if (has_idle_buffers(xp))
			tagrv_verbs_refill_idle(xp);
		return 0;
	}
	tagrv_verbs_on_rx(xp, wc, cnt);
	handled = (unsigned) cnt;
	if (cnt == VERBS_BATCH)
		handled = poll_more_rx(xp, wc, strays);
	else if (TAGRV_LIKELY(!xp->rx.held_cnt))
		xp->rx_empty_pass = xp->pass;
	xp->rx_polled += handled;
	if (TAGRV_UNLIKELY(handled >= pass_limit(xp)))
		tagrv_verbs_pool_grow(&xp->pool);
	return handled;
}

/* ---- send side ---- */

static TAGRV_COLD void tx_error(struct verbs_xport *xp, struct verbs_link *link,
				const struct ibv_wc *wc, uint32_t seq)
{
	int status = 0;

	tagrv_verbs_retire(link, seq, 0);
	if (!link->error) {
		status = tagrv_verbs_wc_status(xp->dev, wc);
		tagrv_info("verbs: %s: qp 0x%x: request failed, status %d, "
			   "vendor 0x%x: %s\n", xp->dev->base.name, link->qpn,
			   wc->status, wc->vendor_err,
			   tagrv_verbs_wc_hint(wc->status));
	}
	tagrv_verbs_link_fail(link, status, false);
	tagrv_verbs_retire(link, seq + 1, link->error);
}

/* Ignores completions of links that are gone, and of requests retired before. */
static void on_tx(struct verbs_xport *xp, const struct ibv_wc *wc)
{
	struct verbs_link *link = verbs_map_find(&xp->map, wc->qp_num);
	uint32_t seq = (uint32_t) wc->wr_id;

	if (TAGRV_UNLIKELY(!link || link->serial != wc->wr_id >> 32 ||
			   seq - link->tail >= link->head - link->tail))
		xp->stale++;
	else if (TAGRV_LIKELY(wc->status == IBV_WC_SUCCESS))
		tagrv_verbs_retire(link, seq + 1, 0);
	else
		tx_error(xp, link, wc, seq);
}

/*
 * Whether the send CQ may have completions. Unsignaled requests have one only if
 * they fail, which is checked in every IDLE_POLLS-th pass.
 */
static inline bool may_have_tx(struct verbs_xport *xp)
{
	if (xp->signaled || xp->tx.held_cnt || xp->must_poll_tx)
		return true;
	return xp->inflight && (++xp->idle_polls % IDLE_POLLS == 0 ||
				!tagrv_list_empty(&xp->closing));
}

static unsigned poll_tx(struct verbs_xport *xp)
{
	struct ibv_wc wc[VERBS_BATCH];
	uint32_t handled = 0, limit;
	int cnt;

	if (xp->polling_tx)
		return 0;
	xp->polling_tx = true;
	xp->must_poll_tx = false;
	limit = xp->inflight;
	do {
		cnt = verbs_poll_cq(xp, &xp->tx, wc);
		for (int i = 0; i < cnt; i++)
			on_tx(xp, &wc[i]);
		handled += (uint32_t) cnt;
	} while (cnt == VERBS_BATCH && handled < limit);
	xp->polling_tx = false;
	return handled;
}

static TAGRV_COLD void grow_tx(struct verbs_xport *xp)
{
	xp->want_tx_bufs = false;
	if (tagrv_verbs_bufs_grow(&xp->tx_bufs))
		tagrv_warn("verbs: %s: cannot register more than %u copy "
			   "buffers\n", xp->dev->base.name, xp->tx_bufs.total);
	else
		xp->freed = true;
}

/* Calls sink->room if a call returned -FI_EAGAIN and something was freed since. */
static inline void announce_room(struct verbs_xport *xp)
{
	if (TAGRV_UNLIKELY(xp->want_tx_bufs))
		grow_tx(xp);
	if (TAGRV_UNLIKELY(xp->starved)) {
		if (!xp->freed)
			return;
		xp->starved = false;
		xp->base.sink->room(xp->base.sink);
	}
	xp->freed = false;
}

/* ---- alarms ---- */

/*
 * The channel of a removed device stays readable: it is taken out of wait_fd, so
 * that it does not wake sleepers without end.
 */
static unsigned on_fatal(struct verbs_xport *xp)
{
	struct tagrv_sink *sink = xp->base.sink;

	if (xp->fatal)
		return 0;
	xp->fatal = atomic_load(&xp->async_fatal);
	epoll_ctl(xp->wait_fd, EPOLL_CTL_DEL, xp->channel->fd, NULL);
	sink->fatal(sink, xp->fatal);
	if (xp->list.taglist)
		tagrv_verbs_list_fail(xp, xp->fatal);
	for (uint32_t i = 0; xp->map.slots && i <= xp->map.mask; i++)
		if (xp->map.slots[i])
			tagrv_verbs_link_fail(xp->map.slots[i], xp->fatal,
					      false);
	return 1;
}

static unsigned on_link_alarm(struct verbs_xport *xp)
{
	unsigned events = 0;

	if (xp->must_poll_tx)
		events += poll_tx(xp);
	tagrv_verbs_links_adopt(xp);
	for (uint32_t i = 0; xp->map.slots && i <= xp->map.mask; i++) {
		struct verbs_link *link = xp->map.slots[i];
		int status = link ? atomic_exchange(&link->async_error, 0) : 0;

		if (!status)
			continue;
		tagrv_verbs_link_fail(link, status, false);
		events++;
	}
	return events;
}

static unsigned report_failed(struct verbs_xport *xp)
{
	struct tagrv_list *node;
	unsigned events = 0;

	while ((node = tagrv_list_pop(&xp->failed))) {
		struct verbs_link *link =
			tagrv_container_of(node, struct verbs_link, todo_node);

		tagrv_verbs_link_fail(link, link->error, false);
		events++;
	}
	return events;
}

/*
 * Returns the number of events. Flush and room do not count: they set their alarm
 * again until they are done, and as events would keep the caller from sleeping.
 */
static TAGRV_COLD unsigned handle_alarms(struct verbs_xport *xp)
{
	uint32_t bits = atomic_exchange(&xp->alarm, 0);
	unsigned events = 0;

	if (bits & VERBS_ALARM_DEVICE)
		events += on_fatal(xp);
	if (bits & VERBS_ALARM_LINK)
		events += on_link_alarm(xp);
	if (bits & VERBS_ALARM_PORT && xp->base.sink->port_back)
		xp->base.sink->port_back(xp->base.sink);
	if (bits & VERBS_ALARM_DISCARDED)
		tagrv_verbs_links_close_discarded(xp);
	if (bits & VERBS_ALARM_READY)
		events += tagrv_verbs_strays_deliver(xp);
	if (bits & VERBS_ALARM_FAILED)
		events += report_failed(xp);
	if (bits & VERBS_ALARM_FLUSH)
		tagrv_verbs_flush(&xp->base);
	if (bits & VERBS_ALARM_ROOM)
		xp->freed = true;
	return events;
}

/* ---- entries of the table ---- */

int tagrv_verbs_progress(struct tagrv_xport *xport)
{
	struct verbs_xport *xp = verbs_xport_of(xport);
	unsigned events = 0;

	xp->pass++;
	if (TAGRV_UNLIKELY(atomic_load_explicit(&xp->alarm,
						memory_order_relaxed)))
		events += handle_alarms(xp);
	events += poll_rx(xp);
	if (TAGRV_UNLIKELY(xp->pool.want_rx_bufs || xp->pool.searching ||
			   !tagrv_list_empty(&xp->owed)))
		permit_more(xp);
	if (may_have_tx(xp))
		events += poll_tx(xp);
	if (TAGRV_UNLIKELY(!tagrv_list_empty(&xp->closing)))
		events += tagrv_verbs_links_finish(xp);
	announce_room(xp);
	return (int) events;
}

int tagrv_verbs_reap(struct tagrv_xport *xport)
{
	struct verbs_xport *xp = verbs_xport_of(xport);
	unsigned events = 0;

	if (xp->polling_tx)
		return 0;
	if (xp->lacks_permit)
		tagrv_verbs_permit_poll(xp);
	if (may_have_tx(xp))
		events = poll_tx(xp);
	announce_room(xp);
	return (int) events;
}
