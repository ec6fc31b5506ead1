/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: queue pairs, their states, and how their work requests end.
 */
#include "common/fake_verbs_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct fake_qp *fv_find_qp(uint32_t qpn)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&fv.qps, pos) {
		struct fake_qp *qp =
			tagrv_container_of(pos, struct fake_qp, node);

		if (qp->base.qp_num == qpn)
			return qp;
	}
	return NULL;
}

static bool caps_fit(const struct ibv_qp_init_attr *attr)
{
	const struct fake_verbs_config *c = &fv.config;

	return attr->cap.max_send_wr <= (uint32_t) c->max_qp_wr &&
	       attr->cap.max_recv_wr <= (uint32_t) c->max_qp_wr &&
	       attr->cap.max_send_sge <= (uint32_t) c->max_sge &&
	       attr->cap.max_inline_data <= c->max_inline && fv_tm_fits(attr);
}

static void free_memory(struct fake_qp *qp)
{
	free(qp->sq);
	free(qp->inline_mem);
	free(qp->rq.ring);
	free(qp);
}

static struct fake_qp *new_qp(struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	if (fv.config.inline_step)
		attr->cap.max_inline_data += fv.config.inline_step - 1 -
			(attr->cap.max_inline_data + fv.config.inline_step - 1) %
			fv.config.inline_step;
	qp->cap = attr->cap;
	fv_tm_own(qp, attr->srq);
	qp->sq = calloc(qp->cap.max_send_wr, sizeof(*qp->sq));
	qp->inline_mem = calloc(qp->cap.max_send_wr, qp->cap.max_inline_data + 1);
	qp->rq.cap = attr->srq ? 0 : attr->cap.max_recv_wr;
	qp->rq.ring = calloc(qp->rq.cap + 1, sizeof(*qp->rq.ring));
	if (qp->sq && qp->inline_mem && qp->rq.ring)
		return qp;
	free_memory(qp);
	return NULL;
}

/* Queue pairs of the device. */
static unsigned count_qps(struct ibv_context *ctx)
{
	unsigned dev = tagrv_container_of(ctx, struct fake_ctx, base)->dev, cnt = 0;
	struct tagrv_list *pos;

	tagrv_list_for_each(&fv.qps, pos)
		cnt += tagrv_container_of(pos, struct fake_qp, node)->dev == dev;
	return cnt;
}

/* ops: those that it accepts. */
static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, uint64_t ops)
{
	struct fake_verbs_bytes bytes = { 0 };
	struct fake_qp *qp = NULL;
	int err;

	LOCK();
	if (fv.config.qp_bytes)
		bytes = fv.config.qp_bytes(&attr->cap, ops, attr->srq != NULL);
	err = fires(&fv.create_qp);
	if (!err && !caps_fit(attr))
		err = EINVAL;
	if (!err && fv.config.max_qp && count_qps(pd->context) >= fv.config.max_qp)
		err = ENOMEM;
	if (!err && tagrv_container_of(pd, struct fake_pd, base)->td)
		err = fv.config.parent_qp_errno;
	if (!err) {
		qp = new_qp(attr);
		err = qp ? 0 : ENOMEM;
	}
	if (!err) {
		qp->base = (struct ibv_qp) {
			.context = pd->context, .pd = pd,
			.qp_context = attr->qp_context,
			.send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
			.srq = attr->srq, .qp_num = ++fv.next_qpn,
			.state = IBV_QPS_RESET, .qp_type = attr->qp_type,
		};
		qp->ops = ops;
		qp->bytes = bytes;
		fv.counts.qps.pinned += bytes.pinned;
		fv.counts.qps.library += bytes.library;
		qp->domain = tagrv_container_of(pd, struct fake_pd, base);
		qp->domain->users++;
		fv.counts.created_qps++;
		if (qp->domain->td) {
			qp->base.pd = qp->domain->under;
			fv.counts.unlocked_qps++;
		}
		qp->dev = tagrv_container_of(pd->context, struct fake_ctx,
					     base)->dev;
		tagrv_container_of(attr->send_cq, struct fake_cq, base)->users++;
		tagrv_container_of(attr->recv_cq, struct fake_cq, base)->users++;
		tagrv_list_push_tail(&fv.qps, &qp->node);
		fv.counts.objects++;
	}
	fv.counts.refused_qps += err != 0;
	UNLOCK();
	errno = err;
	return qp ? &qp->base : NULL;
}

struct ibv_qp *fv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return create(pd, attr, UINT64_MAX);
}

/* libibverbs defines both structs alike, as far as the plain one goes. */
struct ibv_qp *fv_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr plain;
	struct ibv_qp *qp;

	if (fv.config.ops_errno || !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) ||
	    ctx != attr->pd->context) {
		LOCK();
		fv.counts.refused_qps++;
		UNLOCK();
		errno = fv.config.ops_errno ? fv.config.ops_errno : EINVAL;
		return NULL;
	}
	memcpy(&plain, attr, sizeof(plain));
	qp = create(attr->pd, &plain, attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS ?
		    attr->send_ops_flags : UINT64_MAX);
	attr->cap = plain.cap;
	fv.counts.chosen_qps += qp != NULL;
	return qp;
}

static void push_send(struct fake_qp *qp, uint32_t seq, enum ibv_wc_status status)
{
	struct ibv_wc wc = {
		.wr_id = fv_sq_at(qp, seq)->wr.wr_id, .status = status,
		.qp_num = qp->base.qp_num,
	};

	fv.counts.completions++;
	fv_push_wc(qp->base.send_cq, &wc, seq + 1);
	qp->reported = seq + 1;
}

void fv_complete(struct fake_qp *qp, enum ibv_wc_status status)
{
	uint32_t seq = qp->executed++;

	if (qp->device_sends) {
		fv_tm_sent(qp, seq, status);
		return;
	}
	if (status && fv.config.names_oldest)
		for (; qp->reported != seq; status = IBV_WC_WR_FLUSH_ERR)
			push_send(qp, qp->reported, status);
	if (status || fv_sq_at(qp, seq)->wr.send_flags & IBV_SEND_SIGNALED)
		push_send(qp, seq, status);
}

static void flush_recv(struct fake_qp *qp, struct recv_wr wr)
{
	struct ibv_wc wc = {
		.wr_id = wr.wr_id, .status = IBV_WC_WR_FLUSH_ERR,
		.qp_num = qp->base.qp_num, .opcode = IBV_WC_RECV,
	};

	fv_push_wc(qp->base.recv_cq, &wc, 0);
}

/* The queue pair had taken a shared receive buffer, for a packet that did not come whole. */
static void drop_buffer(struct fake_qp *qp)
{
	struct fake_srq *srq = tagrv_container_of(qp->base.srq, struct fake_srq, base);
	struct recv_wr wr;

	if (!qp->base.srq || !srq->rq.cnt)
		return;
	wr = fv_rq_pop(&srq->rq);
	if (fv.config.loses_buffers)
		fv.counts.lost_buffers++;
	else
		flush_recv(qp, wr);
}

static void flush(struct fake_qp *qp)
{
	qp->flush_polls = 0;
	while (fv.config.names_oldest && !qp->device_sends && qp->reported != qp->executed)
		push_send(qp, qp->reported, IBV_WC_WR_FLUSH_ERR);
	while (qp->executed != qp->posted)
		fv_complete(qp, IBV_WC_WR_FLUSH_ERR);
	while (qp->rq.cnt)
		flush_recv(qp, fv_rq_pop(&qp->rq));
}

/*
 * Flushes all work requests, except the receives of a shared receive queue: at once if the
 * queue pair breaks, later if it is put into error.
 */
void fv_to_error(struct fake_qp *qp, bool breaks)
{
	if (qp->base.state >= IBV_QPS_RTR && qp->base.state != IBV_QPS_ERR && breaks &&
	    (fv.config.loses_buffers || fv.config.flushes_buffers))
		drop_buffer(qp);
	qp->base.state = IBV_QPS_ERR;
	if (breaks || !fv.config.flush_delay)
		flush(qp);
	else if (!qp->flush_polls)
		qp->flush_polls = fv.config.flush_delay;
}

void fv_flush_late(const struct ibv_cq *cq)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&fv.qps, pos) {
		struct fake_qp *qp = tagrv_container_of(pos, struct fake_qp, node);

		if ((qp->base.send_cq == cq || qp->base.recv_cq == cq) && qp->flush_polls &&
		    !--qp->flush_polls)
			flush(qp);
	}
}

static bool may_become(enum ibv_qp_state from, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return from == IBV_QPS_RESET;
	case IBV_QPS_RTR:
		return from == IBV_QPS_INIT;
	case IBV_QPS_RTS:
		return from == IBV_QPS_RTR;
	default:
		return to == IBV_QPS_ERR;
	}
}

static int required_mask(enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
		       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
		       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	default:
		return IBV_QP_STATE;
	}
}

static void apply(struct fake_qp *qp, const struct ibv_qp_attr *attr)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		qp->attr.qp_access_flags = attr->qp_access_flags;
		fv.counts.qp_access |= attr->qp_access_flags;
		qp->attr.port_num = attr->port_num;
		break;
	case IBV_QPS_RTR:
		qp->attr.ah_attr = attr->ah_attr;
		qp->attr.dest_qp_num = attr->dest_qp_num;
		qp->attr.rq_psn = attr->rq_psn;
		qp->attr.path_mtu = attr->path_mtu;
		break;
	case IBV_QPS_RTS:
		qp->attr.sq_psn = attr->sq_psn;
		qp->attr.retry_cnt = attr->retry_cnt;
		break;
	default:
		break;
	}
	qp->base.state = attr->qp_state;
}

int fv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = tagrv_container_of(base, struct fake_qp, base);
	int err;

	LOCK();
	err = fires(&fv.modify_qp);
	if (!err && (mask != required_mask(attr->qp_state) ||
		     !may_become(base->state, attr->qp_state)))
		err = EINVAL;
	if (!err && attr->qp_state == IBV_QPS_ERR)
		fv_to_error(qp, false);
	else if (!err)
		apply(qp, attr);
	UNLOCK();
	return err;
}

int fv_destroy_qp(struct ibv_qp *base)
{
	struct fake_qp *qp = tagrv_container_of(base, struct fake_qp, base);

	LOCK();
	while (qp->device_sends && qp->executed != qp->posted)
		fv_complete(qp, IBV_WC_WR_FLUSH_ERR);
	while (qp->executed != qp->posted)
		qp->executed++;
	if (fv.config.purges_cq) {
		fv_cq_purge(base->send_cq, base->qp_num);
		fv_cq_purge(base->recv_cq, base->qp_num);
	}
	fv.counts.lost_events += qp->unacked;
	fv.counts.qps.pinned -= qp->bytes.pinned;
	fv.counts.qps.library -= qp->bytes.library;
	qp->domain->users--;
	tagrv_container_of(base->send_cq, struct fake_cq, base)->users--;
	tagrv_container_of(base->recv_cq, struct fake_cq, base)->users--;
	tagrv_list_remove(&qp->node);
	fv.counts.objects--;
	UNLOCK();
	free_memory(qp);
	return 0;
}
