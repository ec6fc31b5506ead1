/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Queue pairs whose receive queue has a list. Their send queue belongs to the
 * device, which reads rendezvous and sends FINs by it: programs ask for none and
 * may post nothing. The queue pair below does have one, and both of its completion
 * queues are that of the list.
 */
#include <errno.h>
#include <stdlib.h>

#include "tmsim/tmsim.h"

#define INLINE		64	/* a FIN has 32 bytes */

struct tmsim_qp *tmsim_qp_of(struct tmsim_cq *cq, uint32_t qp_num)
{
	struct tmsim_qp *qp = cq->first_qp;

	while (qp && qp->num != qp_num)
		qp = qp->next;
	return qp;
}

static void join(struct tmsim_qp *mine)
{
	struct tmsim_cq *cq = mine->srq->cq;

	mine->next = cq->first_qp;
	cq->first_qp = mine;
	tmsim_put(&mine->node, TMSIM_QP, mine->qp);
}

static void leave(struct tmsim_qp *mine)
{
	struct tmsim_qp **at = &mine->srq->cq->first_qp;

	while (*at != mine)
		at = &(*at)->next;
	*at = mine->next;
	tmsim_drop(&mine->node);
}

static struct ibv_qp *create(struct tmsim_srq *srq, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_cq *cq = ibv_cq_ex_to_cq(srq->cq->cq);
	struct ibv_qp_init_attr below = *attr;
	struct tmsim_qp *mine;

	if (attr->qp_type != IBV_QPT_RC || attr->cap.max_send_wr) {
		errno = EINVAL;
		return NULL;
	}
	mine = calloc(1, sizeof(*mine));
	if (!mine)
		return NULL;
	mine->srq = srq;
	below.send_cq = below.recv_cq = cq;
	below.cap.max_send_wr = TMSIM_SEND_DEPTH;
	below.cap.max_send_sge = 1;
	below.cap.max_inline_data = INLINE;
	below.sq_sig_all = 0;
	mine->qp = TMSIM_REAL(ibv_create_qp)(pd, &below);
	if (!mine->qp) {
		free(mine);
		return NULL;
	}
	mine->num = mine->qp->qp_num;
	attr->cap.max_inline_data = 0;
	join(mine);
	return mine->qp;
}

TMSIM_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct tmsim_srq *srq;
	struct ibv_qp *qp;

	tmsim_lock();
	srq = attr->srq ? tmsim_find(TMSIM_SRQ, attr->srq) : NULL;
	qp = srq ? create(srq, pd, attr) : TMSIM_REAL(ibv_create_qp)(pd, attr);
	tmsim_unlock();
	return qp;
}

/* The further attributes are of the send queue, or of queue pairs that are not RC. */
struct ibv_qp *tmsim_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	bool listed;

	tmsim_lock();
	listed = attr->srq && tmsim_find(TMSIM_SRQ, attr->srq);
	tmsim_unlock();
	if (!listed)
		return tmsim_ctx_of(ctx)->create_qp_ex(ctx, attr);
	errno = EINVAL;
	return NULL;
}

/*
 * What has arrived by the end is reported: a completion later could not be told
 * from one of another queue pair with the same number.
 */
static int destroy(struct tmsim_qp *mine)
{
	int ret;

	mine->gone = true;
	ret = TMSIM_REAL(ibv_destroy_qp)(mine->qp);
	if (ret) {
		mine->gone = false;
		return ret;
	}
	tmsim_cq_pump(mine->srq->cq);
	tmsim_rndv_end(mine);
	leave(mine);
	free(mine);
	return 0;
}

TMSIM_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct tmsim_qp *mine;
	int ret;

	tmsim_lock();
	mine = tmsim_find(TMSIM_QP, qp);
	ret = mine ? destroy(mine) : TMSIM_REAL(ibv_destroy_qp)(qp);
	tmsim_unlock();
	return ret;
}

int tmsim_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	bool listed;

	tmsim_lock();
	listed = tmsim_find(TMSIM_QP, qp);
	tmsim_unlock();
	if (!listed)
		return tmsim_ctx_of(qp->context)->ops.post_send(qp, wr, bad);
	*bad = wr;
	return ENOMEM;
}
