/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues that report matching.
 *
 * A program gets the extended completion queue of the device's library, whose
 * functions are exchanged. The device's completions go there, and events with
 * them. Each poll first takes them all ('pump'): those of queue pairs with a list
 * are turned into what a device with a list reports, the others are passed on.
 * The ring keeps them, in their order, until the program reads them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tmsim/tmsim.h"

#define BATCH		16
#define EXTRA_CQE	1024	/* for reads and FINs, which the program does not know of */
#define FIRST_RING	256

/* What the library of the device can report besides, and the layer keeps. */
#define KNOWN_FLAGS	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO)

static struct tmsim_wc *now(struct ibv_cq_ex *cq)
{
	struct tmsim_cq *mine = tmsim_find(TMSIM_CQ, cq);

	return &mine->now;
}

/* A queue that lost completions would make every test after it meaningless. */
static void grow(struct tmsim_cq *cq)
{
	size_t size = cq->size ? 2 * cq->size : FIRST_RING;
	struct tmsim_wc *ring = calloc(size, sizeof(*ring));
	size_t i;

	if (!ring) {
		fprintf(stderr, "tmsim: no memory for completions\n");
		abort();
	}
	for (i = cq->head; i != cq->tail; i++)
		ring[i & (size - 1)] = cq->ring[i & (cq->size - 1)];
	free(cq->ring);
	cq->ring = ring;
	cq->size = size;
}

void tmsim_cq_add(struct tmsim_cq *cq, const struct tmsim_wc *wc)
{
	if (cq->tail - cq->head == cq->size)
		grow(cq);
	cq->ring[cq->tail++ & (cq->size - 1)] = *wc;
}

void tmsim_cq_forget(struct tmsim_cq *cq, const struct tmsim_srq *srq)
{
	size_t from, to = cq->head;

	for (from = cq->head; from != cq->tail; from++)
		if (cq->ring[from & (cq->size - 1)].from != srq)
			cq->ring[to++ & (cq->size - 1)] = cq->ring[from & (cq->size - 1)];
	cq->tail = to;
}

static void take_one(struct tmsim_cq *cq, const struct ibv_wc *wc)
{
	struct tmsim_qp *qp = tmsim_qp_of(cq, wc->qp_num);
	struct tmsim_wc plain = { .base = *wc };

	if (!qp)
		tmsim_cq_add(cq, &plain);
	else if (tmsim_rndv_owns(wc->wr_id))
		tmsim_rndv_done(qp, wc);
	else
		tmsim_list_arrive(qp, wc);
}

void tmsim_cq_pump(struct tmsim_cq *cq)
{
	struct ibv_wc wc[BATCH];
	int n, i;

	do {
		n = cq->ctx->ops.poll_cq(ibv_cq_ex_to_cq(cq->cq), BATCH, wc);
		for (i = 0; i < n; i++)
			take_one(cq, &wc[i]);
	} while (n == BATCH);
}

/* One poll of the program: the time by which delayed commands are counted. */
static void begin_poll(struct tmsim_cq *cq)
{
	struct tmsim_srq *srq;

	for (srq = cq->first_srq; srq; srq = srq->next)
		tmsim_list_step(srq);
	tmsim_cq_pump(cq);
}

static bool take(struct tmsim_cq *cq)
{
	if (cq->head == cq->tail)
		return false;
	cq->now = cq->ring[cq->head++ & (cq->size - 1)];
	if (cq->now.from)
		tmsim_list_take(cq->now.from, &cq->now);
	cq->cq->wr_id = cq->now.base.wr_id;
	cq->cq->status = cq->now.base.status;
	return true;
}

/* ---- the functions of the extended completion queue ---- */

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct tmsim_cq *mine;

	if (attr->comp_mask)
		return EINVAL;
	tmsim_lock();
	mine = tmsim_find(TMSIM_CQ, cq);
	begin_poll(mine);
	if (take(mine))
		return 0;
	tmsim_unlock();
	return ENOENT;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	return take(tmsim_find(TMSIM_CQ, cq)) ? 0 : ENOENT;
}

/* Also after next_poll has found nothing: the program ends each poll that it could start. */
static void end_poll(struct ibv_cq_ex *cq)
{
	(void) cq;
	tmsim_unlock();
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	return now(cq)->base.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	return now(cq)->base.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	return now(cq)->base.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
	return now(cq)->base.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	return now(cq)->base.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
	return now(cq)->base.src_qp;
}

static unsigned read_wc_flags(struct ibv_cq_ex *cq)
{
	return now(cq)->base.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *cq)
{
	return now(cq)->base.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
	return now(cq)->base.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *cq)
{
	return now(cq)->base.dlid_path_bits;
}

static void read_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
	*info = now(cq)->tm;
}

static void exchange(struct ibv_cq_ex *cq, uint64_t flags)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_vendor_err = read_vendor_err;
	cq->read_wc_flags = read_wc_flags;
	cq->read_byte_len = flags & IBV_WC_EX_WITH_BYTE_LEN ? read_byte_len : NULL;
	cq->read_imm_data = flags & IBV_WC_EX_WITH_IMM ? read_imm_data : NULL;
	cq->read_qp_num = flags & IBV_WC_EX_WITH_QP_NUM ? read_qp_num : NULL;
	cq->read_src_qp = flags & IBV_WC_EX_WITH_SRC_QP ? read_src_qp : NULL;
	cq->read_slid = flags & IBV_WC_EX_WITH_SLID ? read_slid : NULL;
	cq->read_sl = flags & IBV_WC_EX_WITH_SL ? read_sl : NULL;
	cq->read_dlid_path_bits = flags & IBV_WC_EX_WITH_DLID_PATH_BITS ? read_dlid_path_bits : NULL;
	cq->read_tm_info = read_tm_info;
}

/* So many entries below for so many that the program asks for. */
static uint32_t entries(struct ibv_context *ctx, uint32_t cqe)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(ctx, &attr) || cqe > (uint32_t) attr.max_cqe)
		return cqe;
	return (uint32_t) attr.max_cqe - cqe < EXTRA_CQE ? (uint32_t) attr.max_cqe : cqe + EXTRA_CQE;
}

struct ibv_cq_ex *tmsim_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	struct tmsim_ctx *owner = tmsim_ctx_of(ctx);
	struct ibv_cq_init_attr_ex plain = *attr;
	struct tmsim_cq *mine;

	if (!(attr->wc_flags & IBV_WC_EX_WITH_TM_INFO))
		return owner->create_cq_ex(ctx, attr);
	if (attr->wc_flags & ~(uint64_t) KNOWN_FLAGS) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	mine = calloc(1, sizeof(*mine));
	if (!mine)
		return NULL;
	plain.wc_flags &= ~(uint64_t) IBV_WC_EX_WITH_TM_INFO;
	plain.cqe = entries(ctx, attr->cqe);
	mine->ctx = owner;
	mine->cq = owner->create_cq_ex(ctx, &plain);
	if (!mine->cq) {
		free(mine);
		return NULL;
	}
	exchange(mine->cq, attr->wc_flags);
	tmsim_lock();
	tmsim_put(&mine->node, TMSIM_CQ, mine->cq);
	tmsim_unlock();
	return mine->cq;
}

TMSIM_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct tmsim_cq *mine;
	int ret = EBUSY;

	tmsim_lock();
	mine = tmsim_find(TMSIM_CQ, cq);
	if (!mine || !mine->srqs)
		ret = TMSIM_REAL(ibv_destroy_cq)(cq);
	if (mine && !ret) {
		tmsim_drop(&mine->node);
		free(mine->ring);
		free(mine);
	}
	tmsim_unlock();
	return ret;
}

/* ---- the verbs of all completion queues ---- */

TMSIM_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	int ret;

	tmsim_lock();
	if (cqe > 0 && tmsim_find(TMSIM_CQ, cq))
		cqe = (int) entries(cq->context, (uint32_t) cqe);
	ret = TMSIM_REAL(ibv_resize_cq)(cq, cqe);
	tmsim_unlock();
	return ret;
}

int tmsim_poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	struct tmsim_cq *mine;
	int n = 0;

	tmsim_lock();
	mine = tmsim_find(TMSIM_CQ, cq);
	if (!mine) {
		tmsim_unlock();
		return tmsim_ctx_of(cq->context)->ops.poll_cq(cq, most, wc);
	}
	begin_poll(mine);
	while (n < most && take(mine))
		wc[n++] = mine->now.base;
	tmsim_unlock();
	return n;
}

/*
 * A delayed command raises no event, because only polls count the time. A program
 * polls once more before it sleeps, and that poll must find what it waits for.
 */
int tmsim_req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct tmsim_cq *mine;
	struct tmsim_srq *srq;

	tmsim_lock();
	mine = tmsim_find(TMSIM_CQ, cq);
	for (srq = mine ? mine->first_srq : NULL; srq; srq = srq->next)
		tmsim_list_settle(srq);
	tmsim_unlock();
	return tmsim_ctx_of(cq->context)->ops.req_notify_cq(cq, solicited_only);
}
