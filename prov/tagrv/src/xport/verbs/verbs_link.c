/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Life of a link. States are drawn in verbs_priv.h, those of its queue pair in
 * verbs_conn.c.
 *
 *   wireup thread                       endpoint's thread
 *   create --> inbox.fresh  ------------> map     on attach, or when a
 *   bind                                          completion names the qp
 *                                       attach
 *   discard -> inbox.discarded ---------> closing
 *                                       close --> closing: verbs_close.c
 *
 * A peer may send as soon as both sides are bound, which may be before the link is
 * attached: its early packets are kept (verbs_stray.c).
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/random.h"
#include "xport/verbs/verbs_in.h"

void tagrv_verbs_link_set_state(struct verbs_link *link,
				enum verbs_link_state state)
{
	static const char *const names[] = {
		[VERBS_LINK_NEW] = "new",
		[VERBS_LINK_BOUND] = "bound",
		[VERBS_LINK_OPEN] = "open",
		[VERBS_LINK_CLOSING] = "closing",
	};

	assert(verbs_link_may_become(link->state, state));
	tagrv_trace("verbs: qp 0x%x: %s -> %s\n", link->qpn,
		    names[link->state], names[state]);
	link->state = state;
}

/* ---- create: wireup thread ---- */

/*
 * Reserves entries of the receive CQ for a link's receive queue, without SRQ; grows
 * the CQ if necessary.
 */
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

/* Its first buffers only: the link may stay idle. */
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
	ret = tagrv_verbs_rxq_init(rxq, xp->dev, xp->pool.rxq.bufs.size, xp->rq_depth,
				   VERBS_RQ_SLAB);
	return ret ? ret : tagrv_verbs_rxq_grow(rxq);
}

/*
 * Queue pairs of ours that are idle, or those of other processes, may make room for one
 * that the device refuses now: it is tried again for so long that one line has to do. That
 * is so without any of ours, too. Returns the status: by the time when the caller looks at the
 * quota there may be room again, and the refusal must not be taken for another error.
 */
static int say_refused(struct verbs_dev *dev, unsigned counted, int err)
{
	bool lack = err == -ENOMEM || err == -ENOSPC || err == -EAGAIN;
	const char *hint = "";

	if (lack)
		hint = tagrv_quota_refused_some(&dev->quota, counted) ?
		       "; FI_TAGRV_MAX_QPS closes idle connections earlier" :
		       "; other processes may have them all";
	if (!lack || !atomic_exchange(&dev->quota_warned, true))
		tagrv_warn("verbs: %s: cannot create a queue pair, beside %u that there "
			   "are: %s%s\n", dev->base.name,
			   atomic_load(&dev->quota.used) - counted, strerror(-err), hint);
	return lack ? -FI_ENOSPC : err;
}

/* Counts the queue pairs that are to be made: both or none. */
static int take_quota(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct verbs_dev *dev = xp->dev;
	uint8_t cnt = verbs_in_wanted(xp, link->side) ? 2 : 1;

	if (tagrv_quota_take_some(&dev->quota, cnt)) {
		link->counted = cnt;
		return 0;
	}
	if (!atomic_exchange(&dev->quota_warned, true))
		tagrv_warn("verbs: %s: all %u queue pairs that FI_TAGRV_MAX_QPS allows are in "
			   "use: further connections wait until others are idle\n",
			   dev->base.name, tagrv_quota_most(&dev->quota));
	return -FI_ENOSPC;
}

static int create_qp(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	uint32_t got;
	int ret;

	ret = tagrv_verbs_qp_create(xp, link,
				    (uint32_t) xp->base.attr.max_inline,
				    &link->qp, &got);
	if (ret)
		return say_refused(xp->dev, link->counted, ret);
	link->qpn = link->qp->qp_num;
	*link->port = tagrv_verbs_port_now(xp);
	ret = tagrv_verbs_qp_init(link, link->qp);
	if (ret || !link->rxq)
		return ret;
	link->rxq->qp = link->qp;
	tagrv_verbs_rxq_refill(xp->calls, link->rxq);
	return link->rxq->posted ? 0 : -FI_ENOMEM;
}

static int create_in(struct verbs_link *link, const struct tagrv_addr *peer)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	bool single;
	int ret;

	if (!verbs_in_wanted(xp, link->side))
		return 0;
	ret = tagrv_verbs_number_take(link, peer, &single);
	if (ret)
		return ret;
	if (single) {
		link->counted--;
		tagrv_quota_give(&xp->dev->quota);
		return 0;
	}
	if (link->in_number)
		link->pool = &xp->list.pool;
	ret = tagrv_verbs_in_create(link);
	return ret && !link->in.qp ? say_refused(xp->dev, link->counted, ret) : ret;
}

void tagrv_verbs_link_destroy(struct verbs_link *link)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	(void) tagrv_verbs_end_qps(link);
	tagrv_verbs_number_give(link);
	if (link->rxq) {
		tagrv_list_remove(&link->refill_node);
		tagrv_verbs_rxq_fini(link->rxq);
		release_rx_cq(xp);
		free(link->rxq);
	}
	if (link->counted)
		tagrv_quota_give_some(&xp->dev->quota, link->counted);
	if (link->ring != link->first)
		free(link->ring);
	free(link->port);
	free(link);
}

static struct verbs_link *new_link(struct verbs_xport *xp, bool side)
{
	struct verbs_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->base.xport = &xp->base;
	link->pool = &xp->pool;
	link->side = side;
	link->ring = link->first;
	tagrv_verbs_ring_shorten(link);
	tagrv_list_init(&link->strays);
	tagrv_list_init(&link->refill_node);
	tagrv_list_init(&link->todo_node);
	tagrv_list_init(&link->inbox_node);
	tagrv_list_init(&link->discard_node);
	tagrv_list_init(&link->close_node);
	tagrv_list_init(&link->owed_node);
	link->port = malloc(sizeof(*link->port));
	if (!link->port || tagrv_random_fill(&link->psn, sizeof(link->psn))) {
		tagrv_verbs_link_destroy(link);
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
		.lid = link->port->attr.lid,
		.mtu = (uint8_t) link->port->attr.active_mtu,
		.rd_in = xp->rd_in,
		.rd_out = xp->rd_out,
		.net = link->port->net,
		.admits = (uint8_t) tagrv_verbs_qp_rights(link),
		/* No packet comes by a side link, but no blob has less. */
		.permits = (uint16_t) (link->side ? VERBS_PERMIT_MIN :
				       link->rx_permits),
		.thin = link->thin_told,
		.two = link->in.qp != NULL,
		.in_qpn = link->in.qpn,
		.in_psn = link->in.psn,
		.list = link->in_number != 0,
		.number = link->in_number,
		.gid = link->port->gid,
		.part = link->port->part,
		.prefix = link->port->prefix,
		/* No protocol is chosen for a side link. */
		.model = link->side ? 0 : xp->dev->base.model,
	};
}

/*
 * Gives the link its serial and its first permit, and makes it visible to the
 * endpoint's thread. Returns its blob.
 */
static struct verbs_blob publish(struct verbs_link *link)
{
	struct verbs_inbox *inbox =
		&verbs_xport_of(link->base.xport)->inbox;
	struct verbs_blob own;

	pthread_mutex_lock(&inbox->mutex);
	link->serial = ++inbox->next_serial;
	if (!link->side)
		tagrv_verbs_permit_first(link);
	own = own_blob(link);
	tagrv_list_push_tail(&inbox->fresh, &link->inbox_node);
	pthread_mutex_unlock(&inbox->mutex);
	return own;
}

static int create(struct tagrv_xport *xport, bool side, const struct tagrv_addr *peer,
		  void *blob, size_t *len, struct tagrv_link **out)
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
	link = new_link(xp, side);
	if (!link)
		return -FI_ENOMEM;
	ret = take_quota(link);
	if (!ret && !xp->use_srq)
		ret = create_rxq(link);
	if (!ret)
		ret = create_qp(link);
	if (!ret)
		ret = create_in(link, peer);
	if (ret) {
		tagrv_verbs_link_destroy(link);
		return ret;
	}
	own = publish(link);
	*len = tagrv_verbs_blob_pack(&own, blob);
	*out = &link->base;
	return 0;
}

int tagrv_verbs_link_create(struct tagrv_xport *xport, void *blob, size_t *len,
			    struct tagrv_link **out)
{
	return create(xport, false, NULL, blob, len, out);
}

int tagrv_verbs_link_create_to(struct tagrv_xport *xport, const struct tagrv_addr *peer,
			       void *blob, size_t *len, struct tagrv_link **out)
{
	return create(xport, false, peer, blob, len, out);
}

/* Its queue pair takes receives from the SRQ, of which it uses none. */
int tagrv_verbs_side_create(struct tagrv_xport *xport, void *blob, size_t *len,
			    struct tagrv_link **out)
{
	if (!(xport->attr.caps & TAGRV_XPORT_SIDE))
		return -FI_EOPNOTSUPP;
	return create(xport, true, NULL, blob, len, out);
}

/* Logs why, once per device at level warn. */
static int check_reach(const struct verbs_link *link, const struct verbs_blob *peer)
{
	struct verbs_dev *dev = verbs_xport_of(link->base.xport)->dev;
	struct verbs_blob own = own_blob(link);
	const char *why;

	if (tagrv_verbs_near(&own, peer, &why))
		return 0;
	if (!atomic_exchange(&dev->reach_warned, true))
		tagrv_warn("verbs: %s cannot reach a peer: %s (logged once; later "
			   "ones at level info)\n", dev->base.name, why);
	else
		tagrv_info("verbs: %s cannot reach a peer: %s\n",
			   dev->base.name, why);
	return -FI_EHOSTUNREACH;
}

/*
 * The words in front of packets to a list take room. Both sides have the same bound whichever of
 * them has a list: they cut long messages into fragments of that size.
 */
static void bind_numbers(struct verbs_link *link, const struct verbs_blob *peer)
{
	const struct verbs_xport *xp = verbs_xport_of(link->base.xport);

	link->max_packet = TAGRV_MIN(peer->max_packet, (uint32_t) xp->base.attr.max_packet);
	if (!link->in_used)
		return;
	link->base.given = link->in_number;
	link->base.number = peer->list ? peer->number : 0;
	if (link->base.given || link->base.number)
		link->max_packet -= VERBS_LIST_WORDS;
	link->base.max_packet = link->max_packet;
}

int tagrv_verbs_link_bind(struct tagrv_link *base, const void *blob, size_t len)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_blob peer;
	int ret;

	if (link->state != VERBS_LINK_NEW)
		return -FI_EINVAL;
	ret = tagrv_verbs_blob_unpack(&peer, blob, len);
	if (ret)
		return ret;
	ret = check_reach(link, &peer);
	if (ret)
		return ret;
	ret = tagrv_verbs_in_bind(link, &peer);
	if (ret)
		return ret;
	bind_numbers(link, &peer);
	tagrv_verbs_rdma_bind(link, &peer);
	link->tx_permits = peer.permits;
	link->may_write = peer.admits & TAGRV_MEM_WRITE;
	link->thin = peer.thin;
	link->base.peer_key = tagrv_model_key(peer.model);
	free(link->port);
	link->port = NULL;
	tagrv_verbs_link_set_state(link, VERBS_LINK_BOUND);
	return 0;
}

void tagrv_verbs_link_discard(struct tagrv_link *base)
{
	struct verbs_link *link = verbs_link_of(base);
	struct verbs_xport *xp = verbs_xport_of(base->xport);

	pthread_mutex_lock(&xp->inbox.mutex);
	tagrv_list_push_tail(&xp->inbox.discarded, &link->discard_node);
	pthread_mutex_unlock(&xp->inbox.mutex);
	tagrv_verbs_alarm_wake(xp, VERBS_ALARM_DISCARDED);
}

/* ---- attach and fail: endpoint's thread ---- */

bool tagrv_verbs_links_adopt(struct verbs_xport *xp)
{
	const struct verbs_lost *lost;
	struct tagrv_list *pos, *tmp;
	bool any = false;

	pthread_mutex_lock(&xp->inbox.mutex);
	tagrv_list_for_each_safe(&xp->inbox.fresh, pos, tmp) {
		struct verbs_link *link =
			tagrv_container_of(pos, struct verbs_link, inbox_node);

		if (tagrv_verbs_map_add(&xp->map, link))
			break;	/* no memory: stays fresh, for the next call */
		if (tagrv_verbs_in_adopt(link)) {
			tagrv_verbs_map_remove(&xp->map, link);
			break;
		}
		tagrv_list_remove(pos);
		tagrv_verbs_permit_adopt(link);
		tagrv_verbs_list_adopt(link);
		lost = &link->pool->lost;
		link->rx_last = lost->passed ? lost->before : 0;
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
	tagrv_verbs_in_attach(link);
	base->ctx = ctx;
	tagrv_verbs_link_set_state(link, VERBS_LINK_OPEN);
	verbs_link_set_direct(link);
	link->open_max = link->side || link->base.number ? 0 : link->max_packet;
	tagrv_verbs_permit_attach(link);
	if (xp->fatal || link->error)
		verbs_link_set_error(link, xp->fatal);
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

	verbs_link_set_error(link, status);
	/* Early packets come first; who delivers them reports the error. */
	if (link->state != VERBS_LINK_OPEN || link->reported || link->stray_cnt)
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
