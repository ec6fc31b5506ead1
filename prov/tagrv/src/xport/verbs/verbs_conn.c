/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Creates queue pairs and changes their state.
 *
 *   create, init --> INIT        receives may be posted, no packet arrives yet
 *   connect ----> RTR -> RTS     the peer's blob is known
 *   fail -------> ERR            each request in flight gets a completion;
 *                                unsignaled requests that completed before do not
 *
 * A queue pair that was used is destroyed from ERR only, after it was drained: if it
 * were destroyed in RTS, a shared receive buffer that holds half a message would be
 * lost. It is not used again after ERR, because not all devices allow that.
 *
 * A queue pair is created for the operations that are posted to it, and no others. Some
 * libraries (mlx5) give each request as much room as the longest operation takes: with the
 * binding of memory windows, which nobody uses, the send queue is four times as long.
 * Requests are posted by ibv_post_send() all the same: it may be mixed with the calls that
 * such a queue pair has beside it (man ibv_wr_post).
 *
 * retry_cnt 7 means without end on some devices, so the parameter's maximum is 6.
 * rnr_retry 7 means without end on all devices and is wanted: a peer without
 * buffers is slow, not dead. The RNR timer (0.64 ms) is far below the ack time-out;
 * otherwise waiting for buffers would use up the retries.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/log.h"
#include "xport/verbs/verbs_priv.h"

#define MIN_RNR_TIMER	12
#define RNR_RETRY	7
#define HOP_LIMIT	64

#define PACKET_OPS	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | \
			 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE)
#define ATOMIC_OPS	(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
			 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/* What verbs_send.c, verbs_rdma.c and verbs_post.c post to a queue pair. */
static uint64_t ops_of(const struct verbs_xport *xp, bool side)
{
	return side && xp->dev->base.atomics ? PACKET_OPS | ATOMIC_OPS : PACKET_OPS;
}

/* Whether the error may mean that the device knows no such choice; some set none. */
static bool may_lack_choice(int err)
{
	return !err || err == EOPNOTSUPP || err == ENOSYS || err == EINVAL;
}

/* A queue pair for these operations only, or NULL. */
static struct ibv_qp *create_chosen(struct verbs_xport *xp, uint64_t ops,
				    struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = xp->qp_pd,
		.send_ops_flags = ops,
	};
	struct ibv_qp *qp = xp->calls->create_qp_ex(xp->dev->ctx, &ex);

	if (qp)
		attr->cap = ex.cap;
	return qp;
}

/*
 * A device may refuse for want of the choice, or for other reasons; only the first make it
 * accept a queue pair without it. That is remembered: each attempt is a device command.
 */
static struct ibv_qp *create(struct verbs_xport *xp, uint64_t ops,
			     struct ibv_qp_init_attr *attr)
{
	struct verbs_dev *dev = xp->dev;
	bool plain = atomic_load(&dev->plain_qps);
	struct ibv_qp *qp = plain ? NULL : create_chosen(xp, ops, attr);

	if (qp || (!plain && !may_lack_choice(errno)))
		return qp;
	errno = 0;
	qp = xp->calls->create_qp(xp->qp_pd, attr);
	if (qp && !atomic_exchange(&dev->plain_qps, true))
		tagrv_info("verbs: %s: queue pairs are for all operations\n", dev->base.name);
	return qp;
}

int tagrv_verbs_qp_create(struct verbs_xport *xp, struct verbs_link *link,
			  uint32_t max_inline, struct ibv_qp **qp,
			  uint32_t *got_inline)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = link,
		.send_cq = xp->tx.cq,
		.recv_cq = xp->rx.cq,
		.srq = xp->pool.rxq.srq,
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = xp->sq_depth,
			.max_recv_wr = xp->use_srq ? 0 : xp->rq_depth,
			.max_send_sge = xp->qp_sge,
			.max_recv_sge = xp->use_srq ? 0 : 1,
			.max_inline_data = max_inline,
		},
	};

	errno = 0;
	*qp = create(xp, ops_of(xp, link && link->side), &attr);
	if (!*qp)
		return errno ? -errno : -FI_EIO;
	*got_inline = attr.cap.max_inline_data;
	return 0;
}

/* Nothing is posted to it, but no queue has no room. */
int tagrv_verbs_qp_create_in(struct verbs_xport *xp, struct verbs_link *link,
			     struct ibv_qp **qp)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = link,
		.send_cq = xp->tx.cq,
		.recv_cq = xp->rx.cq,
		.srq = link->pool->rxq.srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
	};

	errno = 0;
	*qp = create(xp, ops_of(xp, false), &attr);
	return *qp ? 0 : verbs_status_of_errno();
}

/*
 * Peers may do what the protocols of this endpoint need, and only to memory that is
 * registered for it. Empty writes, which probe this endpoint, touch no memory, but need
 * the right to write. Side links are for windows, whose registrations say what is allowed.
 */
unsigned tagrv_verbs_qp_rights(const struct verbs_link *link)
{
	const struct verbs_xport *xp =
		(const struct verbs_xport *) link->base.xport;

	if (link->side)
		return TAGRV_MEM_REMOTE |
		       (xp->base.attr.caps & TAGRV_XPORT_ATOMIC ? TAGRV_MEM_ATOMIC : 0);
	return xp->base.attr.admits | (xp->params.probe ? TAGRV_MEM_WRITE : 0);
}

static unsigned access_of(const struct verbs_link *link)
{
	unsigned admits = tagrv_verbs_qp_rights(link), flags = 0;

	if (admits & TAGRV_MEM_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (admits & TAGRV_MEM_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (admits & TAGRV_MEM_ATOMIC)
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
	return flags;
}

int tagrv_verbs_qp_init(struct verbs_link *link, struct ibv_qp *qp)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.pkey_index = link->port->pkey_index,
		.port_num = xp->dev->port_num,
		.qp_access_flags = access_of(link),
	};

	return -xp->calls->modify_qp(qp, &attr, IBV_QP_STATE |
				     IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS);
}

/* Spreads queue pairs over paths: any function of both numbers serves. */
static uint32_t flow_label(uint32_t a, uint32_t b)
{
	uint64_t v = (uint64_t) a * b;

	v ^= v >> 20;
	v ^= v >> 40;
	return (uint32_t) v & 0xfffff;
}

/* Within one InfiniBand subnet, unless the port requires global routing headers. */
static bool lid_is_enough(const struct verbs_port *port,
			  const struct verbs_blob *peer)
{
	return peer->lid && !(port->attr.flags & IBV_QPF_GRH_REQUIRED) &&
	       port->gid.global.subnet_prefix ==
	       peer->gid.global.subnet_prefix;
}

static void fill_address(const struct verbs_link *link, const struct verbs_way *way,
			 const struct verbs_blob *peer, struct ibv_ah_attr *ah)
{
	const struct verbs_xport *xp =
		(const struct verbs_xport *) link->base.xport;
	const struct verbs_port *port = link->port;

	*ah = (struct ibv_ah_attr) {
		.dlid = peer->lid,
		.sl = (uint8_t) xp->params.service_level,
		.port_num = xp->dev->port_num,
	};
	if (port->net == VERBS_NET_IB && lid_is_enough(port, peer))
		return;
	ah->is_global = 1;
	ah->grh = (struct ibv_global_route) {
		.dgid = peer->gid,
		.flow_label = flow_label(way->qp->qp_num, way->peer_qpn),
		.sgid_index = (uint8_t) port->gid_index,
		.hop_limit = HOP_LIMIT,
		.traffic_class = xp->dev->traffic_class,
	};
}

static int to_rtr(struct verbs_link *link, const struct verbs_way *way,
		  const struct verbs_blob *peer)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	uint8_t own_mtu = (uint8_t) link->port->attr.active_mtu;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu) TAGRV_MIN(peer->mtu, own_mtu),
		.dest_qp_num = way->peer_qpn,
		.rq_psn = way->peer_psn,
		.max_dest_rd_atomic = TAGRV_MIN(xp->rd_in, peer->rd_out),
		.min_rnr_timer = MIN_RNR_TIMER,
	};

	fill_address(link, way, peer, &attr.ah_attr);
	return xp->calls->modify_qp(way->qp, &attr, IBV_QP_STATE | IBV_QP_AV |
				    IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct verbs_link *link, const struct verbs_way *way,
		  const struct verbs_blob *peer)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = way->psn,
		.timeout = (uint8_t) xp->params.qp_timeout,
		.retry_cnt = (uint8_t) xp->params.qp_retry,
		.rnr_retry = RNR_RETRY,
		.max_rd_atomic = TAGRV_MIN(xp->rd_out, peer->rd_in),
	};

	return xp->calls->modify_qp(way->qp, &attr, IBV_QP_STATE |
				    IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_MAX_QP_RD_ATOMIC);
}

int tagrv_verbs_qp_connect(struct verbs_link *link, const struct verbs_way *way,
			   const struct verbs_blob *peer)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	const char *state = "ready to receive";
	int err = to_rtr(link, way, peer);

	if (!err) {
		state = "ready to send";
		err = to_rts(link, way, peer);
	}
	if (err)
		tagrv_warn("verbs: %s: qp 0x%x cannot become %s: %s\n",
			   xp->dev->base.name, way->qp->qp_num, state, strerror(err));
	return -err;
}

void tagrv_verbs_qp_fail(struct verbs_link *link, struct ibv_qp *qp)
{
	struct verbs_xport *xp = verbs_xport_of(link->base.xport);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	int err = xp->calls->modify_qp(qp, &attr, IBV_QP_STATE);

	if (err)
		tagrv_info("verbs: %s: qp 0x%x cannot be put into error: %s\n",
			   xp->dev->base.name, qp->qp_num, strerror(err));
}
