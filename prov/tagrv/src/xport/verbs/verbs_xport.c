/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint's queues: sizes, opening, closing, and the transport's table.
 *
 *   receive CQ  one entry for every receive buffer there can be
 *   send CQ     tx_cap entries; not more requests are in flight at a time
 *   SRQ         or, where the device has none, a receive queue per link
 *   channel     both CQs raise their events here, for who wants to sleep
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/log.h"
#include "xport/stubs.h"
#include "xport/verbs/verbs_priv.h"

#define RD_ATOMIC_MAX	16
#define TX_RESERVE_MAX	64u
#define SQ_RESERVE_MAX	16u
#define BUF_RESERVE_MAX	16u

static uint32_t clamp(uint32_t value, uint32_t min, uint32_t max)
{
	return TAGRV_MAX(min, TAGRV_MIN(value, max));
}

static int status_of_errno(void)
{
	return errno ? -errno : -FI_EIO;
}

/* ---- sizes ---- */

static size_t buf_size(const struct verbs_xport *xp)
{
	return (xp->params.eager_max + TAGRV_HDR_ROOM + 63) & ~(size_t) 63;
}

/*
 * Packet buffers may take half of what can be locked, two thirds of it to
 * receive; the rest is for messages. Fewer buffers first; where not even the
 * least number of them fits, smaller ones. A message that finds nothing to lock
 * goes in copies, through these.
 */
static void fit_locked(struct verbs_xport *xp)
{
	size_t limit = xp->calls->memlock_limit(), room = limit / 2;
	size_t fits = room / (VERBS_RX_LEAST + VERBS_TX_LEAST) & ~(size_t) 63;
	struct tagrv_params *params = &xp->params;
	size_t bufs;

	if (limit == SIZE_MAX)
		return;
	if (fits < buf_size(xp)) {
		fits -= TAGRV_MIN(fits, (size_t) TAGRV_HDR_ROOM);
		params->eager_max = TAGRV_MIN(params->eager_max,
			TAGRV_MAX(fits, (size_t) VERBS_EAGER_LEAST));
	}
	bufs = room / buf_size(xp);
	params->rx_bufs = TAGRV_MIN(params->rx_bufs,
		TAGRV_MAX(bufs / 3 * 2, (size_t) VERBS_RX_LEAST));
	params->tx_bufs = TAGRV_MIN(params->tx_bufs,
		TAGRV_MAX(bufs / 3, (size_t) VERBS_TX_LEAST));
	/* Without SRQ: some peers must have a queue each. */
	xp->rq_depth = TAGRV_MIN(xp->rq_depth,
		TAGRV_MAX((uint32_t) params->rx_bufs / 4, VERBS_RQ_LEAST));
	tagrv_info("verbs: %s: up to %zu receive and %zu send buffers of %zu "
		   "bytes: %zu bytes may be locked\n", xp->dev->base.name,
		   params->rx_bufs, params->tx_bufs, buf_size(xp), limit);
}

/* Slower than the user may think, but it works. */
static void tell_locked(const struct verbs_xport *xp, size_t wanted)
{
	if (xp->params.eager_max == wanted ||
	    atomic_exchange(&xp->dev->memlock_told, true))
		return;
	tagrv_warn("verbs: %s: packets have %zu bytes instead of %zu, and large "
		   "messages are copied: this process may lock only %zu bytes; "
		   "raise that with 'ulimit -l unlimited' or in limits.conf, "
		   "for a container with '--ulimit memlock=-1'\n",
		   xp->dev->base.name, xp->params.eager_max, wanted,
		   xp->calls->memlock_limit());
}

static void choose_sizes(struct verbs_xport *xp)
{
	const struct ibv_device_attr *dev = &xp->dev->attr;
	uint32_t max_cqe = (uint32_t) TAGRV_MAX(dev->max_cqe, 2);
	uint32_t max_wr = (uint32_t) TAGRV_MAX(dev->max_qp_wr, 3);

	xp->tx_cap = TAGRV_MIN(VERBS_TX_CQ_DEPTH, max_cqe);
	xp->tx_reserve = clamp(xp->tx_cap / 16, 1, TX_RESERVE_MAX);
	xp->sq_depth = verbs_ring_size(TAGRV_MIN((uint32_t)
						 xp->params.sq_depth, max_wr));
	xp->sq_reserve = clamp(xp->sq_depth / 8, 1, SQ_RESERVE_MAX);
	xp->rq_depth = TAGRV_MIN(VERBS_RQ_DEPTH, TAGRV_MIN(max_wr, max_cqe));
	xp->qp_sge = clamp((uint32_t) dev->max_sge, 1, VERBS_SGE_MAX);
	xp->rd_in = (uint8_t) TAGRV_MIN(dev->max_qp_rd_atom, RD_ATOMIC_MAX);
	xp->rd_out = (uint8_t) TAGRV_MIN(dev->max_qp_init_rd_atom,
					 RD_ATOMIC_MAX);
	xp->use_srq = xp->params.srq && dev->max_srq > 0 && dev->max_srq_wr > 1;
	fit_locked(xp);
}

static uint32_t max_rx_bufs(const struct verbs_xport *xp)
{
	const struct ibv_device_attr *dev = &xp->dev->attr;
	uint32_t max = (uint32_t) TAGRV_MIN(dev->max_srq_wr, dev->max_cqe);

	return verbs_ring_size(TAGRV_MIN((uint32_t) xp->params.rx_bufs, max));
}

/* Bytes per second of memcpy, what is copied being in some cache. */
#define COPY_RATE	8e9

/* Packets in flight per link; all that there is room for counts as no bound. */
static uint32_t choose_burst(const struct verbs_xport *xp)
{
	uint32_t burst = (uint32_t) xp->params.burst;

	if (!burst)
		burst = xp->dev->base.software ? VERBS_SOFT_BURST : UINT32_MAX;
	return TAGRV_MIN(burst, xp->sq_depth);
}

/* Measured figures differ; these rank software and hardware correctly. */
static void fill_attr(struct verbs_xport *xp, uint32_t max_inline)
{
	bool hw = !xp->dev->base.software;
	size_t max_packet = xp->params.eager_max + TAGRV_HDR_ROOM;
	size_t depth = TAGRV_MIN(xp->params.read_depth, (size_t) xp->rd_out);
	struct verbs_port port = tagrv_verbs_port_now(xp->dev);
	double rate = (double) tagrv_verbs_port_speed(&port.attr) / 8;

	xp->base.attr = (struct tagrv_xport_attr) {
		.caps = TAGRV_XPORT_GET | TAGRV_XPORT_PUT |
			TAGRV_XPORT_PUT_FENCED |
			(xp->qp_sge == VERBS_SGE_MAX ? TAGRV_XPORT_PREPARED : 0),
		.max_inline = TAGRV_MIN(max_inline, max_packet),
		.max_packet = max_packet,
		.get_max = xp->dev->base.max_msg,
		.get_depth = depth,
		.put_max = xp->dev->base.max_msg,
		.put_depth = xp->params.read_depth,
		.burst = choose_burst(xp),
		.latency = hw ? 1.0e-6 : 20e-6,
		.bandwidth = rate,
		/* The wire, and a copy before and after it. */
		.copy_bandwidth = rate > 0 ? 1 / (1 / rate + 2 / COPY_RATE) : 0,
		.overhead = hw ? 0.1e-6 : 5e-6,
		/* A completion of its own, in software the peer's time, too. */
		.prep_overhead = hw ? 0.3e-6 : 10e-6,
		.reg_overhead = hw ? 2e-6 : 20e-6,
		.reg_growth = 0.06e-9,
		.reg_piece = xp->params.read_segment,
		.source = "declared",
	};
	/* Before a burst ends, one of its packets must ask for a completion. */
	xp->signal_every = clamp((uint32_t) xp->base.attr.burst / 2, 1,
				 (uint32_t) xp->params.signal_every);
}

/* ---- queues ---- */

static int open_channel(struct verbs_xport *xp)
{
	struct epoll_event event = { .events = EPOLLIN };
	int flags;

	errno = 0;
	xp->channel = xp->calls->create_comp_channel(xp->dev->ctx);
	if (!xp->channel)
		return status_of_errno();
	flags = fcntl(xp->channel->fd, F_GETFL);
	xp->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	xp->wait_fd = epoll_create1(EPOLL_CLOEXEC);
	if (flags < 0 || xp->wake_fd < 0 || xp->wait_fd < 0 ||
	    fcntl(xp->channel->fd, F_SETFL, flags | O_NONBLOCK) ||
	    epoll_ctl(xp->wait_fd, EPOLL_CTL_ADD, xp->channel->fd, &event) ||
	    epoll_ctl(xp->wait_fd, EPOLL_CTL_ADD, xp->wake_fd, &event))
		return status_of_errno();
	return 0;
}

static int open_cq(struct verbs_xport *xp, struct verbs_cq *cq, uint32_t depth)
{
	errno = 0;
	cq->cq = xp->calls->create_cq(xp->dev->ctx, (int) depth, xp,
				      xp->channel);
	if (!cq->cq)
		return status_of_errno();
	cq->held_cap = VERBS_BATCH;
	if (!cq->held)
		cq->held = calloc(cq->held_cap, sizeof(*cq->held));
	return cq->held ? 0 : -FI_ENOMEM;
}

/* A device may claim to have SRQs and refuse to make one. */
static void open_srq(struct verbs_xport *xp, uint32_t depth)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = xp,
		.attr = { .max_wr = depth, .max_sge = 1 },
	};

	errno = 0;
	xp->rxq.srq = xp->calls->create_srq(xp->dev->pd, &attr);
	if (xp->rxq.srq)
		return;
	tagrv_info("verbs: %s: no shared receive queue: %s\n",
		   xp->dev->base.name, strerror(errno));
	xp->use_srq = false;
}

/*
 * Without SRQ the queue grows with the number of peers. Where it cannot, it
 * has its largest size from the start. Sets the depth.
 */
static int open_growing_cq(struct verbs_xport *xp, uint32_t *depth)
{
	uint32_t max = (uint32_t) TAGRV_MAX(xp->dev->attr.max_cqe, 2);
	int ret;

	*depth = TAGRV_MIN(VERBS_RX_CQ_DEPTH, max);
	ret = open_cq(xp, &xp->rx, *depth);
	if (ret || *depth == max ||
	    !xp->calls->resize_cq(xp->rx.cq, (int) *depth))
		return ret;
	max = TAGRV_MIN(VERBS_RX_CQ_MAX, max);
	xp->calls->destroy_cq(xp->rx.cq);
	ret = open_cq(xp, &xp->rx, max);
	if (ret)
		return open_cq(xp, &xp->rx, *depth);
	*depth = max;
	return 0;
}

static int open_rx(struct verbs_xport *xp)
{
	uint32_t depth = max_rx_bufs(xp);
	int ret;

	if (xp->use_srq)
		open_srq(xp, depth);
	ret = xp->use_srq ? open_cq(xp, &xp->rx, depth) :
			    open_growing_cq(xp, &depth);
	xp->inbox.rx_cq_depth = depth;
	xp->rxq.bufs.size = buf_size(xp);	/* links without SRQ read it */
	if (ret || !xp->use_srq)
		return ret;
	ret = tagrv_verbs_bufs_init(&xp->rxq.bufs, xp->dev, buf_size(xp),
				    depth, VERBS_RX_SLAB);
	if (!ret)
		ret = tagrv_verbs_bufs_grow(&xp->rxq.bufs);
	if (ret)
		return ret;
	xp->rxq.refill_at = clamp(xp->rxq.bufs.total / 4, 1, VERBS_BATCH);
	tagrv_verbs_rxq_refill(xp->calls, &xp->rxq);
	xp->inbox.rx_total = xp->rxq.posted;
	xp->inbox.rx_max = xp->rxq.bufs.max;
	return xp->rxq.posted ? 0 : -FI_ENOMEM;
}

static int open_tx(struct verbs_xport *xp)
{
	int ret = open_cq(xp, &xp->tx, xp->tx_cap);

	if (!ret)
		ret = tagrv_verbs_bufs_init(&xp->tx_bufs, xp->dev, buf_size(xp),
					    (uint32_t) xp->params.tx_bufs,
					    VERBS_TX_SLAB);
	if (!ret)
		ret = tagrv_verbs_bufs_grow(&xp->tx_bufs);
	xp->tx_buf_reserve = clamp(xp->tx_bufs.total / 8, 1, BUF_RESERVE_MAX);
	return ret;
}

/*
 * Finds out how much a queue pair takes inline: devices refuse what is too
 * much and do not tell how much would not be.
 */
static int probe_qp(struct verbs_xport *xp, uint32_t *max_inline)
{
	uint32_t want = (uint32_t) xp->params.inline_max;
	struct ibv_qp *qp;
	int ret;

	while ((ret = tagrv_verbs_qp_create(xp, NULL, want, &qp, max_inline))) {
		if (!want)
			return ret;
		want /= 2;
	}
	xp->calls->destroy_qp(qp);
	*max_inline = TAGRV_MIN(*max_inline, (uint32_t) xp->params.inline_max);
	return 0;
}

static int open_all(struct verbs_xport *xp)
{
	uint32_t max_inline = 0;
	const char *what = "completion channel";
	int ret = open_channel(xp);

	if (!ret) {
		what = "receive queue";
		ret = open_rx(xp);
	}
	if (!ret) {
		what = "send queue";
		ret = open_tx(xp);
	}
	if (!ret) {
		what = "queue pair";
		ret = probe_qp(xp, &max_inline);
	}
	if (!ret)
		fill_attr(xp, max_inline);
	else if (ret != -FI_ENOMEM || !atomic_load(&xp->dev->memlock_told))
		tagrv_warn("verbs: %s: cannot make a %s: %s\n",
			   xp->dev->base.name, what, strerror(-ret));
	return ret;
}

/* ---- open and close ---- */

static void join_device(struct verbs_xport *xp)
{
	struct verbs_dev *dev = xp->dev;

	pthread_mutex_lock(&dev->mutex);
	tagrv_list_push_tail(&dev->xports, &xp->dev_node);
	if (atomic_load(&dev->fatal)) {
		atomic_store(&xp->async_fatal, -FI_ENODEV);
		verbs_alarm_set(xp, VERBS_ALARM_DEVICE);
	}
	pthread_mutex_unlock(&dev->mutex);
}

static void leave_device(struct verbs_xport *xp)
{
	pthread_mutex_lock(&xp->dev->mutex);
	tagrv_list_remove(&xp->dev_node);
	pthread_mutex_unlock(&xp->dev->mutex);
}

int tagrv_verbs_xport_open(struct tagrv_device *base,
			   const struct tagrv_params *params,
			   struct tagrv_sink *sink, struct tagrv_xport **out)
{
	struct verbs_dev *dev = verbs_dev_of(base);
	struct verbs_xport *xp = calloc(1, sizeof(*xp));
	int ret;

	if (!xp)
		return -FI_ENOMEM;
	xp->base.ops = &tagrv_verbs_ops;
	xp->base.dev = base;
	xp->base.sink = sink;
	xp->calls = dev->calls;
	xp->dev = dev;
	xp->params = *params;
	xp->wake_fd = xp->wait_fd = -1;
	tagrv_list_init(&xp->dirty);
	tagrv_list_init(&xp->ready);
	tagrv_list_init(&xp->failed);
	tagrv_list_init(&xp->closing);
	tagrv_list_init(&xp->owing);
	tagrv_list_init(&xp->dev_node);
	tagrv_list_init(&xp->inbox.fresh);
	tagrv_list_init(&xp->inbox.dropped);
	pthread_mutex_init(&xp->inbox.mutex, NULL);
	choose_sizes(xp);
	ret = open_all(xp);
	if (ret) {
		tagrv_verbs_xport_close(&xp->base);
		return ret;
	}
	tell_locked(xp, params->eager_max);
	join_device(xp);
	*out = &xp->base;
	return 0;
}

static void close_cq(struct verbs_xport *xp, struct verbs_cq *cq)
{
	free(cq->held);
	if (!cq->cq)
		return;
	if (cq->unacked)
		xp->calls->ack_cq_events(cq->cq, cq->unacked);
	if (xp->calls->destroy_cq(cq->cq))
		tagrv_warn("verbs: %s: cannot destroy a completion queue\n",
			   xp->dev->base.name);
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* Events taken from the channel must be acknowledged before their CQ goes. */
static void close_queues(struct verbs_xport *xp)
{
	struct ibv_cq *cq;
	void *ctx;

	if (xp->channel)
		while (!xp->calls->get_cq_event(xp->channel, &cq, &ctx))
			xp->calls->ack_cq_events(cq, 1);
	if (xp->rxq.srq && xp->calls->destroy_srq(xp->rxq.srq))
		tagrv_warn("verbs: %s: cannot destroy the receive queue\n",
			   xp->dev->base.name);
	close_cq(xp, &xp->rx);
	close_cq(xp, &xp->tx);
	if (xp->channel)
		xp->calls->destroy_comp_channel(xp->channel);
	close_fd(xp->wake_fd);
	close_fd(xp->wait_fd);
}

/* Links discarded or closed a moment ago still drain: bounded by their limit. */
static void finish_links(struct verbs_xport *xp)
{
	while (!tagrv_list_empty(&xp->closing) ||
	       atomic_load(&xp->alarm) & VERBS_ALARM_DROPPED)
		tagrv_verbs_progress(&xp->base);
}

/* Accepts a half-built xport. */
void tagrv_verbs_xport_close(struct tagrv_xport *base)
{
	struct verbs_xport *xp = verbs_xport_of(base);

	finish_links(xp);
	leave_device(xp);
	if (xp->stale || xp->stray_lost)
		tagrv_info("verbs: %s: %llu stale completions, %llu early "
			   "packets lost\n", base->dev->name,
			   (unsigned long long) xp->stale,
			   (unsigned long long) xp->stray_lost);
	if (xp->stats.sent || xp->stats.given)
		tagrv_info("verbs: %s: %llu packets sent, %llu times none was "
			   "granted; granted %llu, by %llu packets of their "
			   "own, %llu beyond the buffers\n", base->dev->name,
			   (unsigned long long) xp->stats.sent,
			   (unsigned long long) xp->stats.starved,
			   (unsigned long long) xp->stats.given,
			   (unsigned long long) xp->stats.bare,
			   (unsigned long long) xp->stats.over);
	close_queues(xp);
	if (xp->use_srq)
		tagrv_verbs_bufs_fini(&xp->rxq.bufs);
	tagrv_verbs_bufs_fini(&xp->tx_bufs);
	tagrv_verbs_map_fini(&xp->map);
	pthread_mutex_destroy(&xp->inbox.mutex);
	free(xp);
}

int tagrv_verbs_wait_fd(struct tagrv_xport *xport)
{
	return verbs_xport_of(xport)->wait_fd;
}

const struct tagrv_xport_ops tagrv_verbs_ops = {
	.name = "verbs",
	.wire_id = VERBS_WIRE_ID,
	.discover = tagrv_verbs_discover,
	.dev_open = tagrv_verbs_dev_open,
	.dev_close = tagrv_verbs_dev_close,
	.dev_event_fd = tagrv_verbs_dev_event_fd,
	.dev_event = tagrv_verbs_dev_event,
	.mem_reg = tagrv_verbs_mem_reg,
	.mem_dereg = tagrv_verbs_mem_dereg,
	.mem_key = tagrv_verbs_mem_key,
	.xport_open = tagrv_verbs_xport_open,
	.xport_close = tagrv_verbs_xport_close,
	.link_create = tagrv_verbs_link_create,
	.link_bind = tagrv_verbs_link_bind,
	.link_discard = tagrv_verbs_link_discard,
	.link_attach = tagrv_verbs_link_attach,
	.link_close = tagrv_verbs_link_close,
	.send = tagrv_verbs_send,
	.send_short = tagrv_stub_send_short,
	.send_prepared = tagrv_verbs_send_prepared,
	.get = tagrv_verbs_get,
	.put = tagrv_verbs_put,
	.progress = tagrv_verbs_progress,
	.reap = tagrv_verbs_reap,
	.flush = tagrv_verbs_flush,
	.outstanding = tagrv_verbs_outstanding,
	.wait_fd = tagrv_verbs_wait_fd,
	.arm = tagrv_verbs_arm,
};
