/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: queue pairs, and what moves between them.
 *
 *   post_send --> qp->sq --> move() --> peer's receive queue --> its CQ
 *                              \------> own CQ, if signaled or failed
 *
 * move() carries out what can be carried out, for all queue pairs; a send
 * without receive buffer at the peer waits for one (RNR for ever), which is
 * counted, or fails, as the test wants it.
 */
#include "common/fake_verbs_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- queue pairs ---- */

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
	       attr->cap.max_inline_data <= c->max_inline;
}

struct ibv_qp *fv_create_qp(struct ibv_pd *pd,
			    struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp = NULL;
	int err;

	LOCK();
	err = fires(&fv.create_qp);
	if (!err && !caps_fit(attr))
		err = EINVAL;
	if (!err) {
		qp = calloc(1, sizeof(*qp));
		qp->base = (struct ibv_qp) {
			.context = pd->context, .pd = pd,
			.qp_context = attr->qp_context,
			.send_cq = attr->send_cq, .recv_cq = attr->recv_cq,
			.srq = attr->srq, .qp_num = ++fv.next_qpn,
			.state = IBV_QPS_RESET, .qp_type = attr->qp_type,
		};
		qp->dev = tagrv_container_of(pd->context, struct fake_ctx,
					     base)->dev;
		qp->cap = attr->cap;
		qp->sq = calloc(attr->cap.max_send_wr, sizeof(*qp->sq));
		qp->rq.cap = attr->srq ? 0 : attr->cap.max_recv_wr;
		qp->rq.ring = calloc(qp->rq.cap + 1, sizeof(*qp->rq.ring));
		tagrv_container_of(attr->send_cq, struct fake_cq, base)->users++;
		tagrv_container_of(attr->recv_cq, struct fake_cq, base)->users++;
		tagrv_list_push_tail(&fv.qps, &qp->node);
		fv.counts.objects++;
	}
	UNLOCK();
	errno = err;
	return qp ? &qp->base : NULL;
}

static struct send_wr *sq_at(struct fake_qp *qp, uint32_t seq)
{
	return &qp->sq[seq % qp->cap.max_send_wr];
}

static void complete(struct fake_qp *qp, enum ibv_wc_status status)
{
	struct send_wr *wr = sq_at(qp, qp->executed++);
	struct ibv_wc wc = {
		.wr_id = wr->wr.wr_id, .status = status,
		.qp_num = qp->base.qp_num,
	};

	free(wr->inlined);
	wr->inlined = NULL;
	if (!status && !(wr->wr.send_flags & IBV_SEND_SIGNALED))
		return;
	fv.counts.completions++;
	fv_push_wc(qp->base.send_cq, &wc, qp->executed);
}

/* Everything outstanding is flushed, except what a shared queue holds. */
void fv_to_error(struct fake_qp *qp)
{
	struct ibv_wc wc = {
		.status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->base.qp_num,
		.opcode = IBV_WC_RECV,
	};

	qp->base.state = IBV_QPS_ERR;
	while (qp->executed != qp->posted)
		complete(qp, IBV_WC_WR_FLUSH_ERR);
	while (qp->rq.cnt) {
		wc.wr_id = fv_rq_pop(&qp->rq).wr_id;
		fv_push_wc(qp->base.recv_cq, &wc, 0);
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
		fv_to_error(qp);
	else if (!err)
		apply(qp, attr);
	UNLOCK();
	return err;
}

int fv_destroy_qp(struct ibv_qp *base)
{
	struct fake_qp *qp = tagrv_container_of(base, struct fake_qp, base);

	LOCK();
	while (qp->executed != qp->posted)
		free(sq_at(qp, qp->executed++)->inlined);
	fv.counts.lost_events += qp->unacked;
	tagrv_container_of(base->send_cq, struct fake_cq, base)->users--;
	tagrv_container_of(base->recv_cq, struct fake_cq, base)->users--;
	tagrv_list_remove(&qp->node);
	fv.counts.objects--;
	UNLOCK();
	free(qp->sq);
	free(qp->rq.ring);
	free(qp);
	return 0;
}

static void copy_wr(struct send_wr *to, const struct ibv_send_wr *wr)
{
	size_t done = 0;

	*to = (struct send_wr) { .wr = *wr };
	for (int i = 0; i < wr->num_sge; i++) {
		to->sge[i] = wr->sg_list[i];
		to->len += wr->sg_list[i].length;
	}
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return;
	fv.counts.inlined++;
	to->inlined = malloc(to->len + 1);
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to->inlined + done, (void *) (uintptr_t)
		       wr->sg_list[i].addr, wr->sg_list[i].length);
		done += wr->sg_list[i].length;
	}
}

static int check_post(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	size_t len = 0;
	int err = fires(&fv.post);

	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	if (err)
		return err;
	if (qp->base.state < IBV_QPS_RTS ||
	    wr->num_sge > (int) qp->cap.max_send_sge ||
	    ((wr->send_flags & IBV_SEND_INLINE) &&
	     len > qp->cap.max_inline_data))
		return EINVAL;
	if (qp->posted - qp->freed >= qp->cap.max_send_wr) {
		fv.counts.sq_overflows++;
		return ENOMEM;
	}
	return 0;
}

int fv_post_send(struct ibv_qp *base, struct ibv_send_wr *wr,
		 struct ibv_send_wr **bad)
{
	struct fake_qp *qp = tagrv_container_of(base, struct fake_qp, base);
	int err = 0;

	LOCK();
	*bad = NULL;
	for (; wr; wr = wr->next) {
		err = check_post(qp, wr);
		if (err) {
			*bad = wr;
			break;
		}
		copy_wr(sq_at(qp, qp->posted), wr);
		qp->posted++;
		if (base->state == IBV_QPS_ERR)
			complete(qp, IBV_WC_WR_FLUSH_ERR);
	}
	fv_move();
	if (!err)
		err = fires(&fv.doorbell);
	UNLOCK();
	return err;
}

/* ---- the wire ---- */

static bool reaches(const struct fake_qp *from, const struct fake_qp *to)
{
	union ibv_gid gid;

	if (to->attr.dest_qp_num != from->base.qp_num ||
	    to->attr.rq_psn != from->attr.sq_psn)
		return false;
	if (fv.config.infiniband && !fv.config.grh_required)
		return from->attr.ah_attr.dlid ==
		       100 + to->dev * 10 + to->attr.port_num;
	gid = fv_make_gid(to->dev, to->attr.port_num, !fv.config.infiniband);
	return from->attr.ah_attr.is_global &&
	       !memcmp(&gid, &from->attr.ah_attr.grh.dgid, sizeof(gid));
}

static struct fake_qp *peer_of(const struct fake_qp *qp)
{
	struct fake_qp *peer = fv_find_qp(qp->attr.dest_qp_num);

	if (!peer || (peer->base.state != IBV_QPS_RTR &&
		      peer->base.state != IBV_QPS_RTS) || !reaches(qp, peer))
		return NULL;
	return peer;
}

static bool local_ok(const struct fake_qp *qp, const struct send_wr *wr,
		     int access)
{
	if (wr->inlined)
		return true;
	for (int i = 0; i < wr->wr.num_sge; i++)
		if (!fv_covered(qp->base.pd, wr->sge[i].lkey, false,
			     wr->sge[i].addr, wr->sge[i].length, access))
			return false;
	return true;
}

/* Copies between the local segments and contiguous memory. */
static void copy_data(const struct send_wr *wr, char *buf, bool gather)
{
	if (wr->inlined) {
		memcpy(buf, wr->inlined, wr->len);
		return;
	}
	for (int i = 0; i < wr->wr.num_sge; i++) {
		char *seg = (char *) (uintptr_t) wr->sge[i].addr;

		memcpy(gather ? buf : seg, gather ? seg : buf,
		       wr->sge[i].length);
		buf += wr->sge[i].length;
	}
}

#define BLOCKED	((enum ibv_wc_status) -1)

static enum ibv_wc_status do_send(struct fake_qp *qp, struct fake_qp *peer,
				  const struct send_wr *wr)
{
	struct recv_queue *rq = peer->base.srq ?
		&tagrv_container_of(peer->base.srq, struct fake_srq, base)->rq :
		&peer->rq;
	struct ibv_wc wc = {
		.opcode = IBV_WC_RECV, .qp_num = peer->base.qp_num,
		.byte_len = (uint32_t) wr->len, .wc_flags = IBV_WC_GRH,
		.src_qp = qp->base.qp_num,
	};
	struct recv_wr to;

	if (wr->wr.opcode == IBV_WR_SEND_WITH_IMM) {
		wc.wc_flags |= IBV_WC_WITH_IMM;
		wc.imm_data = wr->wr.imm_data;
	}

	if (!rq->cnt) {
		fv.counts.rnr += !wr->blocked;
		return BLOCKED;
	}
	to = fv_rq_pop(rq);
	wc.wr_id = to.wr_id;
	if (wr->len > to.sge.length) {
		wc.status = IBV_WC_LOC_LEN_ERR;
		fv_push_wc(peer->base.recv_cq, &wc, 0);
		fv_to_error(peer);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	assert(fv_covered(peer->base.pd, to.sge.lkey, false, to.sge.addr, wr->len,
		       IBV_ACCESS_LOCAL_WRITE));
	copy_data(wr, (char *) (uintptr_t) to.sge.addr, true);
	fv_push_wc(peer->base.recv_cq, &wc, 0);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_rdma(struct fake_qp *peer,
				  const struct send_wr *wr, bool is_read)
{
	int access = is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	char *remote = (char *) (uintptr_t) wr->wr.wr.rdma.remote_addr;

	if (!(peer->attr.qp_access_flags & access) ||
	    (!is_read && fv.config.no_write) ||
	    (wr->len && !fv_covered(peer->base.pd, wr->wr.wr.rdma.rkey, true,
				 (uintptr_t) remote, wr->len, access))) {
		fv_to_error(peer);
		return IBV_WC_REM_ACCESS_ERR;
	}
	if (wr->len)
		copy_data(wr, remote, !is_read);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status execute(struct fake_qp *qp, const struct send_wr *wr)
{
	bool is_read = wr->wr.opcode == IBV_WR_RDMA_READ;
	struct fake_qp *peer = peer_of(qp);

	if (!peer)
		return IBV_WC_RETRY_EXC_ERR;
	if (!local_ok(qp, wr, is_read ? IBV_ACCESS_LOCAL_WRITE : 0))
		return IBV_WC_LOC_PROT_ERR;
	if (wr->len > fv.config.max_msg)
		return IBV_WC_LOC_LEN_ERR;
	return wr->wr.opcode == IBV_WR_SEND ||
	       wr->wr.opcode == IBV_WR_SEND_WITH_IMM ?
	       do_send(qp, peer, wr) : do_rdma(peer, wr, is_read);
}

static bool step(struct fake_qp *qp)
{
	enum ibv_wc_status status;

	if (qp->base.state != IBV_QPS_RTS || qp->executed == qp->posted)
		return false;
	status = execute(qp, sq_at(qp, qp->executed));
	if (status == BLOCKED) {
		sq_at(qp, qp->executed)->blocked = true;
		if (!fv.config.rnr_fails)
			return false;
		status = IBV_WC_RNR_RETRY_EXC_ERR;
	}
	fv.counts.executed++;
	if (!status)
		status = (enum ibv_wc_status) fires(&fv.wr);
	complete(qp, status);
	if (status)
		fv_to_error(qp);
	return true;
}

void fv_move(void)
{
	struct tagrv_list *pos;
	bool moved = !fv.held;

	while (moved) {
		moved = false;
		tagrv_list_for_each(&fv.qps, pos)
			moved |= step(tagrv_container_of(pos, struct fake_qp,
							 node));
	}
}
