/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opens and closes an endpoint's queues; the transport's table. verbs_size.c
 * chooses the sizes of queues.
 *
 *   receive CQ  one entry for every receive buffer that there can be
 *   send CQ     tx_cap entries, the most requests in flight
 *   SRQ         or, if the device has none, a receive queue per link
 *   channel     events of both CQs, for threads that sleep
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "xport/stubs.h"
#include "xport/verbs/verbs_in.h"

#define BUF_RESERVE_MAX	16u	/* most copy buffers for control packets */

/* ---- queues ---- */

/*
 * Sleeping threads are woken by interrupts of the CQs. Those of an endpoint share one vector,
 * and endpoints, of this process and of others on the host, have different ones as far as the
 * device has them: the vector goes by the processor that opens the endpoint, which usually
 * handles the interrupt of that number, and by the endpoints before it.
 */
static int choose_vector(const struct verbs_xport *xp)
{
	static atomic_uint opened;
	int cnt = TAGRV_MAX(xp->dev->ctx->num_comp_vectors, 1);
	int cpu = TAGRV_MAX(sched_getcpu(), 0);

	return (int) (((unsigned) cpu + atomic_fetch_add(&opened, 1)) % (unsigned) cnt);
}

static int open_cq(struct verbs_xport *xp, struct verbs_cq *cq, uint32_t depth)
{
	errno = 0;
	cq->cq = xp->calls->create_cq(xp->dev->ctx, (int) depth, xp,
				      xp->channel, xp->vector);
	if (!cq->cq)
		return verbs_status_of_errno();
	cq->held_cap = VERBS_BATCH;
	if (!cq->held)
		cq->held = calloc(cq->held_cap, sizeof(*cq->held));
	return cq->held ? 0 : -FI_ENOMEM;
}

/* Clears use_srq on failure: a device may claim SRQs and refuse to create one. */
static void open_srq(struct verbs_xport *xp, uint32_t depth)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = xp,
		.attr = { .max_wr = depth, .max_sge = 1 },
	};

	errno = 0;
	xp->pool.rxq.srq = xp->calls->create_srq(xp->dev->pd, &attr);
	if (xp->pool.rxq.srq)
		return;
	tagrv_info("verbs: %s: no shared receive queue: %s\n",
		   xp->dev->base.name, strerror(errno));
	xp->use_srq = false;
}

/*
 * Opens the receive CQ without SRQ, which grows with the number of links. If the
 * device cannot resize it, it gets its largest size here. Sets *depth.
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
	uint32_t depth = tagrv_verbs_rx_max(xp);
	int ret;

	if (xp->use_srq)
		open_srq(xp, depth);
	ret = xp->use_srq ? open_cq(xp, &xp->rx, depth) :
			    open_growing_cq(xp, &depth);
	xp->inbox.rx_cq_depth = depth;
	/* Without SRQ, links use it for their own receive queues. */
	xp->pool.rxq.bufs.size = tagrv_verbs_buf_size(xp);
	if (ret || !xp->use_srq)
		return ret;
	return tagrv_verbs_pool_fill(&xp->pool, tagrv_verbs_buf_size(xp), depth, VERBS_RX_SLAB);
}

static int open_tx(struct verbs_xport *xp)
{
	int ret = open_cq(xp, &xp->tx, xp->tx_cap);

	if (!ret)
		ret = tagrv_verbs_bufs_init(&xp->tx_bufs, xp->dev,
					    tagrv_verbs_buf_size(xp),
					    (uint32_t) xp->params.tx_bufs,
					    VERBS_TX_SLAB);
	if (!ret)
		ret = tagrv_verbs_bufs_grow(&xp->tx_bufs);
	xp->tx_buf_reserve = verbs_clamp(xp->tx_bufs.total / 8, 1,
					 BUF_RESERVE_MAX);
	return ret;
}

/*
 * Queue pairs in a thread domain have no locks, and a doorbell register that no other
 * xport uses. That is right, since whoever posts holds the domain lock; the wireup
 * thread posts receives only to a queue pair that nobody else knows yet. Devices
 * without thread domains work as well.
 */
static void open_thread_domain(struct verbs_xport *xp)
{
	const struct tagrv_verbs_calls *calls = xp->calls;

	xp->qp_pd = xp->dev->pd;
	xp->td = calls->alloc_td(xp->dev->ctx);
	if (!xp->td)
		return;
	xp->qp_pd = calls->alloc_parent_domain(xp->dev->pd, xp->td);
	if (xp->qp_pd)
		return;
	xp->qp_pd = xp->dev->pd;
	calls->dealloc_td(xp->td);
	xp->td = NULL;
}

static void close_thread_domain(struct verbs_xport *xp)
{
	if (!xp->td)
		return;
	if (xp->calls->dealloc_pd(xp->qp_pd) || xp->calls->dealloc_td(xp->td))
		tagrv_warn("verbs: %s: cannot free a thread domain\n",
			   xp->dev->base.name);
	xp->td = NULL;
	xp->qp_pd = xp->dev->pd;
}

static struct verbs_probed wanted(const struct verbs_xport *xp)
{
	return (struct verbs_probed) {
		.known = true, .td = xp->td != NULL, .use_srq = xp->use_srq,
		.inline_max = (uint32_t) xp->params.inline_max,
		.sq_depth = xp->sq_depth, .rq_depth = xp->rq_depth,
	};
}

static void note_probed(struct verbs_xport *xp, uint32_t max_inline)
{
	pthread_mutex_lock(&xp->dev->mutex);
	xp->dev->probed = wanted(xp);
	xp->dev->probed.max_inline = max_inline;
	pthread_mutex_unlock(&xp->dev->mutex);
}

/*
 * The device is full: what the endpoint before this one has found out is true of this one, too.
 * Links of that one may be idle, and make room when this one needs it, but not now.
 */
static int recall_probed(struct verbs_xport *xp, int status, uint32_t *max_inline)
{
	struct verbs_probed want = wanted(xp), had;

	if (status != -ENOMEM && status != -ENOSPC && status != -EAGAIN)
		return status;
	pthread_mutex_lock(&xp->dev->mutex);
	had = xp->dev->probed;
	pthread_mutex_unlock(&xp->dev->mutex);
	if (!had.known || had.td != want.td || had.use_srq != want.use_srq ||
	    had.inline_max != want.inline_max || had.sq_depth != want.sq_depth ||
	    had.rq_depth != want.rq_depth)
		return status;
	tagrv_info("verbs: %s: no queue pair is left, until connections are closed\n",
		   xp->dev->base.name);
	*max_inline = had.max_inline;
	return 0;
}

/*
 * Finds out how many inline bytes a queue pair can have: devices refuse too many,
 * but do not report their limit.
 */
static int probe_qp(struct verbs_xport *xp, uint32_t *max_inline)
{
	uint32_t want = (uint32_t) xp->params.inline_max;
	struct ibv_qp *qp;
	int ret;

	while ((ret = tagrv_verbs_qp_create(xp, NULL, want, &qp, max_inline))) {
		if (!want)
			return recall_probed(xp, ret, max_inline);
		want /= 2;
	}
	xp->calls->destroy_qp(qp);
	*max_inline = TAGRV_MIN(*max_inline, (uint32_t) xp->params.inline_max);
	note_probed(xp, *max_inline);
	return 0;
}

static int open_all(struct verbs_xport *xp)
{
	uint32_t max_inline = 0;
	const char *what = "completion channel";
	int ret = tagrv_verbs_channel_open(xp);

	xp->vector = choose_vector(xp);
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
		open_thread_domain(xp);
		ret = probe_qp(xp, &max_inline);
	}
	if (ret && xp->td) {	/* a device may have no queue pairs for it */
		close_thread_domain(xp);
		ret = probe_qp(xp, &max_inline);
	}
	if (!ret) {
		tagrv_verbs_attr_fill(xp, max_inline);
		tagrv_verbs_list_open(xp);
	} else if (ret != -FI_ENOMEM || !atomic_load(&xp->dev->memlock_warned)) {
		tagrv_warn("verbs: %s: cannot create a %s: %s\n",
			   xp->dev->base.name, what, strerror(-ret));
	}
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
	xp->base.quotas[0] = &dev->quota;
	xp->calls = dev->calls;
	xp->dev = dev;
	xp->params = *params;
	xp->wake_fd = xp->wait_fd = -1;
	tagrv_verbs_pool_init(&xp->pool, xp, 0);
	tagrv_list_init(&xp->refill);
	tagrv_list_init(&xp->ready);
	tagrv_list_init(&xp->failed);
	tagrv_list_init(&xp->closing);
	tagrv_list_init(&xp->owed);
	tagrv_list_init(&xp->dev_node);
	tagrv_list_init(&xp->inbox.fresh);
	tagrv_list_init(&xp->inbox.discarded);
	pthread_mutex_init(&xp->inbox.mutex, NULL);
	tagrv_verbs_ender_open(&xp->ender);
	xp->in_map.in = true;
	xp->packet.wr.sg_list = &xp->packet.sge;
	tagrv_verbs_port_init(xp, sink->local);
	tagrv_verbs_sizes_choose(xp);
	ret = open_all(xp);
	if (ret) {
		tagrv_verbs_xport_close(&xp->base);
		return ret;
	}
	tagrv_verbs_sizes_warn(xp, params->eager_max);
	if (verbs_in_wanted(xp, false))
		tagrv_quota_double(&dev->quota);
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

/* Events must be acknowledged before their CQ can be destroyed. */
static void close_queues(struct verbs_xport *xp)
{
	tagrv_verbs_channel_empty(xp);
	tagrv_verbs_list_close(xp);
	if (xp->pool.rxq.srq && xp->calls->destroy_srq(xp->pool.rxq.srq))
		tagrv_warn("verbs: %s: cannot destroy the receive queue\n",
			   xp->dev->base.name);
	close_cq(xp, &xp->rx);
	close_cq(xp, &xp->tx);
	tagrv_verbs_channel_close(xp);
}

/* Waits for closing links to drain, at most VERBS_CLOSE_MS. */
static void finish_links(struct verbs_xport *xp)
{
	while (!tagrv_list_empty(&xp->closing) ||
	       atomic_load(&xp->alarm) & VERBS_ALARM_DISCARDED)
		xp->base.ops->progress(&xp->base);
}

/* Closes a half-built xport, too. */
void tagrv_verbs_xport_close(struct tagrv_xport *base)
{
	struct verbs_xport *xp = verbs_xport_of(base);

	finish_links(xp);
	leave_device(xp);
	if (xp->stale || xp->stray_lost || xp->astray)
		tagrv_info("verbs: %s: %llu stale completions, %llu early "
			   "packets lost, %llu refused by the wrong queue pair\n",
			   base->dev->name, (unsigned long long) xp->stale,
			   (unsigned long long) xp->stray_lost,
			   (unsigned long long) xp->astray);
	if (xp->stats.packets_sent || xp->stats.permits_sent)
		tagrv_info("verbs: %s: sent %llu packets, refused %llu sends "
			   "that the peer had not permitted yet; permitted "
			   "peers %llu packets, %llu of them without a receive "
			   "buffer, and recalled %llu; %llu packets were "
			   "permits only\n",
			   base->dev->name,
			   (unsigned long long) xp->stats.packets_sent,
			   (unsigned long long) xp->stats.sends_refused,
			   (unsigned long long) xp->stats.permits_sent,
			   (unsigned long long) xp->pool.permits_over,
			   (unsigned long long) xp->stats.permits_recalled,
			   (unsigned long long) xp->stats.permit_only_sent);
	close_queues(xp);
	close_thread_domain(xp);
	if (xp->use_srq)
		tagrv_verbs_rxq_fini(&xp->pool.rxq);
	tagrv_verbs_bufs_fini(&xp->tx_bufs);
	tagrv_verbs_map_fini(&xp->map);
	tagrv_verbs_map_fini(&xp->in_map);
	tagrv_numbers_destroy(xp->list.numbers);
	pthread_mutex_destroy(&xp->inbox.mutex);
	tagrv_verbs_ender_close(&xp->ender);
	free(xp);
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
	.side_create = tagrv_verbs_side_create,
	.link_attach = tagrv_verbs_link_attach,
	.link_close = tagrv_verbs_link_close,
	.link_resume = tagrv_stub_link_resume,
	.link_unrenewed = tagrv_stub_link_unrenewed,
	.blobs_near = tagrv_verbs_blobs_near,
	.send = tagrv_verbs_send,
	.send_short = tagrv_verbs_send_short,
	.send_tagged = tagrv_stub_send_tagged,
	.drain = tagrv_stub_drain,
	.publish = tagrv_stub_publish,
	.send_prepared = tagrv_verbs_send_prepared,
	.get = tagrv_verbs_get,
	.put = tagrv_verbs_put,
	.atomic = tagrv_verbs_atomic,
	.progress = tagrv_verbs_progress,
	.reap = tagrv_verbs_reap,
	.flush = tagrv_verbs_flush,
	.check = tagrv_verbs_check,
	.outstanding = tagrv_verbs_outstanding,
	.wait_fd = tagrv_verbs_wait_fd,
	.arm = tagrv_verbs_arm,
};
