/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Life of a link: states in verbs_priv.h, queue pair states in verbs_conn.c.
 *
 *   wireup thread                       endpoint's thread
 *   create --> inbox.fresh  ------------> map     on attach, or when a
 *   bind                                          completion names the qp
 *                                       attach
 *   discard -> inbox.dropped -----------> closing
 *                                       close --> closing
 *                                       progress: drained, destroyed
 *
 * A peer may send as soon as both sides are bound, which may be before we
 * attach: such packets wait at the link.
 *
 * A closing link is drained when all its sends are complete and no completion of
 * a receive can come any more: with a queue of its own when all buffers came
 * back; with the SRQ when the queue was polled empty a moment after the queue
 * pair was put into error (there is no event to wait for on all devices). What
 * is in the receive CQ must be out before the queue pair is destroyed: some
 * devices then remove it, and shared buffers would be gone with it; others
 * leave it there, in the place of completions to come.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/clock.h"
#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

/* ---- create: wireup thread ---- */

/* Without SRQ every buffer of every link must fit into the receive CQ. */
static int reserve_rx_cq(struct verbs_xport *xp)
{
	struct verbs_inbox *inbox = &xp->inbox;
	uint32_t max = (uint32_t) xp->dev->attr.max_cqe;
	int ret = 0;

	pthread_mutex_lock(&inbox->mutex);
	if (inbox->rx_cq_used + xp->rq_depth > inbox->rx_cq_depth) {
		uint32_t depth = TAGRV_MIN(inbox->rx_cq_depth * 2 + 1, max);

		if (inbox->rx_cq_used + xp->rq_depth > depth)
			ret = FI_ENOSPC;
		else
			ret = xp->calls->resize_cq(xp->rx.cq, (int) depth);
		if (!ret)
			inbox->rx_cq_depth = depth;
	}
	if (!ret)
		inbox->rx_cq_used += xp->rq_depth;
	pthread_mutex_unlock(&inbox->mutex);
	if (ret)
		tagrv_warn("verbs: %s: the completion queue has no room for "
			   "the receives of another peer: %s\n",
			   xp->dev->base.name, strerror(ret));
	return -ret;
}

static void release_rx_cq(struct verbs_xport *xp)
{
	pthread_mutex_lock(&xp->inbox.mutex);
	xp->inbox.rx_cq_used -= xp->rq_depth;
	pthread_mutex_unlock(&xp->inbox.mutex);
}

/* The receive queue of one link. */
static int create_rxq(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct verbs_rxq *rxq;
	int ret = reserve_rx_cq(xp);

	if (ret)
		return ret;
	rxq = calloc(1, sizeof(*rxq));
	if (!rxq) {
		release_rx_cq(xp);
		return -FI_ENOMEM;
	}
	link->rxq = rxq;
	rxq->refill_at = TAGRV_MIN((uint32_t) VERBS_BATCH,
				   TAGRV_MAX(xp->rq_depth / 4, 1u));
	ret = tagrv_verbs_bufs_init(&rxq->bufs, xp->dev, xp->rxq.bufs.size,
				    xp->rq_depth, VERBS_RQ_DEPTH);
	return ret ? ret : tagrv_verbs_bufs_grow(&rxq->bufs);
}

static int create_qp(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	uint32_t got;
	int ret;

	ret = tagrv_verbs_qp_create(xp, link,
				    (uint32_t) xp->base.attr.max_inline,
				    &link->qp, &got);
	if (ret) {
		tagrv_warn("verbs: %s: cannot create a queue pair: %s\n",
			   xp->dev->base.name, strerror(-ret));
		return ret;
	}
	link->qpn = link->qp->qp_num;
	link->port = tagrv_verbs_port_now(xp->dev);
	ret = tagrv_verbs_qp_init(link);
	if (ret || !link->rxq)
		return ret;
	link->rxq->qp = link->qp;
	tagrv_verbs_rxq_refill(xp->calls, link->rxq);
	return link->rxq->posted ? 0 : -FI_ENOMEM;
}

/* Accepts a half-built link. The queue pair is drained or was never used. */
static void destroy_link(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	if (link->qp && xp->calls->destroy_qp(link->qp))
		tagrv_warn("verbs: %s: cannot destroy qp 0x%x\n",
			   xp->dev->base.name, link->qpn);
	if (link->rxq) {
		tagrv_list_remove(&link->dirty_node);
		tagrv_verbs_bufs_fini(&link->rxq->bufs);
		release_rx_cq(xp);
		free(link->rxq);
	}
	free(link->ring);
	free(link);
}

static struct verbs_link *new_link(struct verbs_xport *xp)
{
	struct verbs_link *link = calloc(1, sizeof(*link));
	uint32_t slots = 1;

	if (!link)
		return NULL;
	while (slots < xp->sq_depth)
		slots *= 2;
	link->base.xport = &xp->base;
	link->ring = calloc(slots, sizeof(*link->ring));
	link->ring_mask = slots - 1;
	link->depth = xp->sq_depth - 1;
	link->reserve = xp->sq_reserve;
	tagrv_list_init(&link->strays);
	tagrv_list_init(&link->dirty_node);
	tagrv_list_init(&link->todo_node);
	tagrv_list_init(&link->inbox_node);
	tagrv_list_init(&link->drop_node);
	tagrv_list_init(&link->close_node);
	tagrv_list_init(&link->owing_node);
	if (!link->ring ||
	    getrandom(&link->psn, sizeof(link->psn), 0) != sizeof(link->psn)) {
		destroy_link(link);
		return NULL;
	}
	link->psn &= 0xffffff;
	return link;
}

static struct verbs_blob own_blob(const struct verbs_link *link)
{
	const struct verbs_xport *xp =
		(const struct verbs_xport *) link->base.xport;

	return (struct verbs_blob) {
		.qpn = link->qpn,
		.psn = link->psn,
		.max_packet = (uint32_t) xp->base.attr.max_packet,
		.lid = link->port.attr.lid,
		.mtu = (uint8_t) link->port.attr.active_mtu,
		.rd_in = xp->rd_in,
		.rd_out = xp->rd_out,
		.net = link->port.net,
		.grant = (uint16_t) link->out,
		.gid = link->port.gid,
	};
}

/* From here on completions of the link can be told from others. */
static struct verbs_blob publish(struct verbs_link *link)
{
	struct verbs_inbox *inbox =
		&verbs_xport_of(link->base.xport)->inbox;
	struct verbs_blob own;

	pthread_mutex_lock(&inbox->mutex);
	link->serial = ++inbox->next_serial;
	tagrv_verbs_grant_first(link);
	own = own_blob(link);
	tagrv_list_push_tail(&inbox->fresh, &link->inbox_node);
	pthread_mutex_unlock(&inbox->mutex);
	return own;
}

int tagrv_verbs_link_create(struct tagrv_xport *xport, void *blob, size_t *len,
			    struct tagrv_link **out)
{
	struct verbs_xport *xp = verbs_xport_of(xport);
	struct verbs_link *link;
	struct verbs_blob own;
	int ret;

	if (atomic_load(&xp->dev->fatal))
		return -FI_ENODEV;
	ret = atomic_load(&xp->async_fatal);
	if (ret)
		return ret;
	link = new_link(xp);
	if (!link)
		return -FI_ENOMEM;
	if (!xp->use_srq)
		ret = create_rxq(link);
	if (!ret)
		ret = create_qp(link);
	if (ret) {
		destroy_link(link);
		return ret;
	}
	/* Once published it may be taken up: its grant is what it was then. */
	own = publish(link);
	*len = tagrv_verbs_blob_pack(&own, blob);
	*out = &link->base;
	return 0;
}

/*
 * rxe has at most 128 packets unacknowledged. Where the responses to the reads
 * in flight are more than that, acks of later requests overtake them, it takes
 * the responses for lost and asks again; asked twice for one read, it asks for
 * the wrong bytes. So all reads of a link in flight stay below that number.
 * Packets are those of the path: the smaller of the two ports' sizes.
 */
#define SOFT_READ_PACKETS	127u

static size_t longest_get(const struct verbs_link *link, uint8_t peer_mtu)
{
	const struct verbs_xport *xp =
		(const struct verbs_xport *) link->base.xport;
	enum ibv_mtu mtu = TAGRV_MIN((enum ibv_mtu) peer_mtu,
				     link->port.attr.active_mtu);
	size_t max = xp->base.attr.get_max;
	uint32_t packets;

	if (!xp->dev->base.software)
		return max;
	packets = TAGRV_MAX(SOFT_READ_PACKETS / TAGRV_MAX(link->max_gets, 1u),
			    1u);
	return TAGRV_MIN(max, packets * tagrv_verbs_mtu_bytes(mtu));
}

int tagrv_verbs_link_bind(struct tagrv_link *base, const void *blob, size_t len)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);
	struct verbs_blob peer;
	int ret;

	if (link->state != VERBS_LINK_NEW)
		return -FI_EINVAL;
	ret = tagrv_verbs_blob_unpack(&peer, blob, len);
	if (ret)
		return ret;
	if (peer.net != link->port.net)
		return -FI_EINVAL;
	ret = tagrv_verbs_qp_connect(link, &peer);
	if (ret)
		return ret;
	link->max_packet = TAGRV_MIN((size_t) peer.max_packet,
				     xp->base.attr.max_packet);
	link->max_gets = TAGRV_MIN((uint32_t) xp->base.attr.get_depth,
				   peer.rd_in);
	base->get_max = longest_get(link, peer.mtu);
	base->put_max = xp->base.attr.put_max;
	link->granted = peer.grant;
	link->state = VERBS_LINK_BOUND;
	return 0;
}

void tagrv_verbs_link_discard(struct tagrv_link *base)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);

	pthread_mutex_lock(&xp->inbox.mutex);
	tagrv_list_push_tail(&xp->inbox.dropped, &link->drop_node);
	pthread_mutex_unlock(&xp->inbox.mutex);
	tagrv_verbs_alarm_wake(xp, VERBS_ALARM_DROPPED);
}

/* ---- attach and close: endpoint's thread ---- */

bool tagrv_verbs_links_adopt(struct verbs_xport *xp)
{
	struct tagrv_list *pos, *tmp;
	bool any = false;

	pthread_mutex_lock(&xp->inbox.mutex);
	tagrv_list_for_each_safe(&xp->inbox.fresh, pos, tmp) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, inbox_node);

		if (tagrv_verbs_map_add(&xp->map, link))
			break;	/* stays fresh: next time */
		tagrv_list_remove(pos);
		tagrv_verbs_grant_adopt(link);
		any = true;
	}
	pthread_mutex_unlock(&xp->inbox.mutex);
	return any;
}

int tagrv_verbs_link_attach(struct tagrv_link *base, void *ctx)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);

	if (link->state != VERBS_LINK_BOUND)
		return -FI_ENOTCONN;
	if (verbs_map_find(&xp->map, link->qpn) != link) {
		tagrv_verbs_links_adopt(xp);
		if (verbs_map_find(&xp->map, link->qpn) != link)
			return -FI_ENOMEM;
	}
	if (xp->fatal && !link->error)
		link->error = xp->fatal;
	base->ctx = ctx;
	link->state = VERBS_LINK_OPEN;
	if (link->stray_cnt) {
		tagrv_list_push_tail(&xp->ready, &link->todo_node);
		verbs_alarm_set(xp, VERBS_ALARM_READY);
	} else if (link->error) {
		tagrv_list_push_tail(&xp->failed, &link->todo_node);
		verbs_alarm_set(xp, VERBS_ALARM_FAILED);
	}
	return 0;
}

void tagrv_verbs_link_fail(struct verbs_link *link, int status, bool later)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct tagrv_sink *sink = xp->base.sink;

	if (!link->error)
		link->error = status;
	if (link->state != VERBS_LINK_OPEN || link->reported)
		return;
	if (!later) {
		tagrv_list_remove(&link->todo_node);
		link->reported = true;
		sink->link_error(sink, link->base.ctx, link->error);
	} else if (!tagrv_list_linked(&link->todo_node)) {
		tagrv_list_push_tail(&xp->failed, &link->todo_node);
		verbs_alarm_set(xp, VERBS_ALARM_FAILED);
	}
}

static void begin_close(struct verbs_link *link, bool quiet)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	link->state = VERBS_LINK_CLOSING;
	link->quiet = quiet;
	if (!link->error)
		link->error = -FI_ECANCELED;
	tagrv_list_remove(&link->todo_node);
	tagrv_verbs_strays_drop(link);
	tagrv_verbs_qp_fail(link);
	tagrv_verbs_drain(link);
	link->closed_at = tagrv_clock_ms();
	tagrv_list_push_tail(&xp->closing, &link->close_node);
}

void tagrv_verbs_link_close(struct tagrv_link *base)
{
	struct verbs_link *link = verbs_link_of(base);

	if (link->state != VERBS_LINK_CLOSING)
		begin_close(link, false);
}

void tagrv_verbs_links_take_dropped(struct verbs_xport *xp)
{
	struct tagrv_list dropped, *node;

	tagrv_verbs_links_adopt(xp);
	tagrv_list_init(&dropped);
	pthread_mutex_lock(&xp->inbox.mutex);
	tagrv_list_splice_tail(&dropped, &xp->inbox.dropped);
	tagrv_list_for_each(&dropped, node) {
		struct verbs_link *link =
			tagrv_container_of(node, struct verbs_link, drop_node);

		/* The map had no memory for it. */
		if (tagrv_list_linked(&link->inbox_node))
			tagrv_verbs_grant_adopt(link);
		tagrv_list_remove(&link->inbox_node);
	}
	pthread_mutex_unlock(&xp->inbox.mutex);
	while ((node = tagrv_list_pop(&dropped)))
		begin_close(tagrv_container_of(node, struct verbs_link,
					       drop_node), true);
}

/* ---- end ---- */

/*
 * True once every receive completion that was in the queue when the device had
 * its time is handled: the queue was seen empty since, or, where others keep it
 * full, as many were taken as it holds.
 */
static bool looked_through(struct verbs_xport *xp, struct verbs_link *link,
			   uint64_t now)
{
	uint64_t grace = xp->dev->base.software ? VERBS_CLOSE_SOFT_MS :
						  VERBS_CLOSE_HW_MS;

	if (now <= link->closed_at + grace)
		return false;
	if (!link->ripe_pass) {
		link->ripe_pass = xp->pass;
		link->ripe_taken = xp->rx_taken;
	}
	return xp->rx_empty_pass > link->ripe_pass ||
	       xp->rx_taken - link->ripe_taken >=
	       (uint64_t) xp->dev->attr.max_cqe;
}

static bool may_end(struct verbs_xport *xp, struct verbs_link *link,
		    uint64_t now)
{
	bool drained = link->head == link->tail &&
		       !(link->rxq && link->rxq->posted);

	if (xp->fatal || (drained && link->rxq))
		return true;
	if (!looked_through(xp, link, now))
		return false;
	if (drained)
		return true;
	if (now <= link->closed_at + VERBS_CLOSE_MS)
		return false;
	tagrv_info("verbs: %s: qp 0x%x did not drain\n", xp->dev->base.name,
		   link->qpn);
	return true;
}

/*
 * The queue pair goes first: what the device did not give back, it cannot
 * write to any more when the owners hear of it.
 */
static void end_link(struct verbs_xport *xp, struct verbs_link *link)
{
	struct tagrv_sink *sink = xp->base.sink;
	void *ctx = link->base.ctx;
	bool quiet = link->quiet;

	tagrv_list_remove(&link->close_node);
	tagrv_verbs_map_remove(&xp->map, link);
	tagrv_verbs_grant_forget(link);
	if (xp->calls->destroy_qp(link->qp))
		tagrv_warn("verbs: %s: cannot destroy qp 0x%x\n",
			   xp->dev->base.name, link->qpn);
	link->qp = NULL;
	tagrv_verbs_retire(link, link->head, link->error);
	destroy_link(link);
	if (!quiet)
		sink->link_closed(sink, ctx);
}

unsigned tagrv_verbs_links_finish(struct verbs_xport *xp)
{
	uint64_t now = tagrv_clock_ms();
	struct tagrv_list *pos, *tmp;
	unsigned ended = 0;

	tagrv_list_for_each_safe(&xp->closing, pos, tmp) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, close_node);

		if (!may_end(xp, link, now)) {
			tagrv_verbs_drain(link);
			continue;
		}
		end_link(xp, link);
		if (++ended == VERBS_CLOSE_BATCH)
			break;
	}
	return ended;
}
