/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fake RDMA devices: the calls in which packets move, posting and polling.
 */
#include "common/fake_verbs_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- sends ---- */

/* As a device does, it needs no memory that was not there from the beginning. */
static void copy_wr(struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	struct send_wr *to = fv_sq_at(qp, qp->posted);
	const int inlined = fv.config.one_inline ? TAGRV_MIN(wr->num_sge, 1) : wr->num_sge;
	size_t done = 0;

	*to = (struct send_wr) { .wr = *wr };
	for (int i = 0; i < wr->num_sge; i++) {
		to->sge[i] = wr->sg_list[i];
		to->len += wr->sg_list[i].length;
	}
	if (!(wr->send_flags & IBV_SEND_INLINE))
		return;
	fv.counts.inlined++;
	fv.counts.inline_pieces = TAGRV_MAX(fv.counts.inline_pieces, (unsigned) wr->num_sge);
	to->inlined = qp->inline_mem + (size_t) (to - qp->sq) *
		      (qp->cap.max_inline_data + 1);
	for (int i = 0; i < inlined; i++) {
		memcpy(to->inlined + done, (void *) (uintptr_t)
		       wr->sg_list[i].addr, wr->sg_list[i].length);
		done += wr->sg_list[i].length;
	}
}

/* IBV_QP_EX_WITH_* of an operation. */
static uint64_t op_of(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_SEND:
		return IBV_QP_EX_WITH_SEND;
	case IBV_WR_SEND_WITH_IMM:
		return IBV_QP_EX_WITH_SEND_WITH_IMM;
	case IBV_WR_RDMA_READ:
		return IBV_QP_EX_WITH_RDMA_READ;
	case IBV_WR_RDMA_WRITE:
		return IBV_QP_EX_WITH_RDMA_WRITE;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	default:
		return 0;
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
	if (qp->base.state < IBV_QPS_RTS || qp->device_sends ||
	    (fv.config.refuses_in_err && qp->base.state == IBV_QPS_ERR) ||
	    !(qp->ops & op_of(wr->opcode)) ||
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
		copy_wr(qp, wr);
		qp->posted++;
		if (base->state == IBV_QPS_ERR && !qp->flush_polls)
			fv_complete(qp, IBV_WC_WR_FLUSH_ERR);
	}
	fv_move();
	if (!err)
		err = fires(&fv.doorbell);
	UNLOCK();
	return err;
}

/* ---- receives ---- */

static int post_recvs(struct recv_queue *rq, bool dead, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad)
{
	int err = 0;

	fv.counts.post_calls++;
	for (; wr; wr = wr->next) {
		err = dead ? 0 : fv_rq_push(rq, wr);
		if (err) {
			*bad = wr;
			break;
		}
	}
	fv_move();
	return err;
}

int fv_post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	struct fake_srq *srq = tagrv_container_of(base, struct fake_srq, base);
	int err;

	LOCK();
	err = post_recvs(&srq->rq, false, wr, bad);
	UNLOCK();
	return err;
}

int fv_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr,
		 struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = tagrv_container_of(base, struct fake_qp, base);
	int err;

	LOCK();
	err = post_recvs(&qp->rq, qp->base.state == IBV_QPS_ERR, wr, bad);
	UNLOCK();
	return err;
}

/* ---- completions ---- */

void fv_before_poll(struct fake_cq *cq)
{
	fv_move();
	fv_flush_late(&cq->base);
}

bool fv_take_entry(struct fake_cq *cq, struct cq_entry *entry)
{
	struct fake_qp *qp;

	if (!cq->cnt)
		return false;
	*entry = cq->ring[cq->head];
	qp = fv_find_qp(entry->wc.qp_num);
	if (qp && qp->base.send_cq == &cq->base)
		qp->freed = entry->slot;
	cq->head = (cq->head + 1) % cq->cap;
	cq->cnt--;
	return true;
}

int fv_poll_cq(struct ibv_cq *base, int max, struct ibv_wc *wc)
{
	struct fake_cq *cq = tagrv_container_of(base, struct fake_cq, base);
	struct cq_entry entry;
	int cnt = 0;

	if (cq->extended)
		abort();
	LOCK();
	fv_before_poll(cq);
	while (cnt < max && fv_take_entry(cq, &entry))
		wc[cnt++] = entry.wc;
	UNLOCK();
	return cnt;
}
