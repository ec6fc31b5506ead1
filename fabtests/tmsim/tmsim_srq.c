/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receive queues with a list: ordinary shared receive queues of the device below.
 *
 * Each receive buffer gets a slot, which remembers what the application has posted.
 * The device below fills the buffer in any case. When the list takes the message,
 * the buffer is posted again at once; its bytes have changed, which those of a
 * device with a list would not have.
 */
#include <errno.h>
#include <stdlib.h>

#include "tmsim/tmsim.h"

/* ---- slots ---- */

static int make_slots(struct tmsim_srq *mine, uint32_t max_wr)
{
	uint32_t i;

	mine->slots = calloc(max_wr, sizeof(*mine->slots));
	if (!mine->slots)
		return ENOMEM;
	for (i = 0; i < max_wr; i++)
		mine->slots[i].next = i + 1 < max_wr ? i + 1 : TMSIM_NO_SLOT;
	return 0;
}

void tmsim_slot_free(struct tmsim_srq *srq, uint32_t slot)
{
	srq->slots[slot].next = srq->free_slot;
	srq->free_slot = slot;
}

/* There are no more slots than the queue below has room for. */
void tmsim_slot_repost(struct tmsim_srq *srq, uint32_t slot)
{
	struct ibv_recv_wr *bad, wr = {
		.wr_id = slot,
		.sg_list = &srq->slots[slot].sge,
		.num_sge = 1,
	};

	if (srq->ctx->ops.post_srq_recv(srq->srq, &wr, &bad))
		abort();
}

/* All but the youngest buffers go to the queue below: those that a device would not give out are kept. */
static void keep(struct tmsim_srq *mine, uint32_t slot)
{
	if (mine->kept)
		mine->slots[mine->last_kept].next = slot;
	else
		mine->first_kept = slot;
	mine->last_kept = slot;
	if (++mine->kept < tmsim_limits()->least)
		return;
	slot = mine->first_kept;
	mine->first_kept = mine->slots[slot].next;
	mine->kept--;
	tmsim_slot_repost(mine, slot);
}

static int post_one(struct tmsim_srq *mine, const struct ibv_recv_wr *wr)
{
	uint32_t slot = mine->free_slot;

	if (wr->num_sge != 1)
		return EINVAL;
	if (slot == TMSIM_NO_SLOT)
		return ENOMEM;
	mine->free_slot = mine->slots[slot].next;
	mine->slots[slot].wr_id = wr->wr_id;
	mine->slots[slot].sge = *wr->sg_list;
	keep(mine, slot);
	return 0;
}

int tmsim_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct tmsim_srq *mine;
	int ret = 0;

	tmsim_lock();
	mine = tmsim_find(TMSIM_SRQ, srq);
	if (!mine) {
		tmsim_unlock();
		return tmsim_ctx_of(srq->context)->ops.post_srq_recv(srq, wr, bad);
	}
	for (; wr && !ret; wr = wr->next) {
		ret = post_one(mine, wr);
		if (ret)
			*bad = wr;
	}
	tmsim_unlock();
	return ret;
}

int tmsim_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	struct tmsim_srq *mine;
	int ret = 0;

	tmsim_lock();
	mine = tmsim_find(TMSIM_SRQ, srq);
	for (; wr && !ret; wr = wr->next) {
		ret = mine ? tmsim_list_post(mine, wr) : EINVAL;
		if (ret)
			*bad = wr;
	}
	tmsim_unlock();
	return ret;
}

/* ---- creation ---- */

static struct tmsim_cq *cq_of(const struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t needed = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
				IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
	const struct tmsim_limits *limits = tmsim_limits();

	if (attr->comp_mask != needed || attr->attr.max_sge > 1 ||
	    !attr->tm_cap.max_num_tags || attr->tm_cap.max_num_tags > limits->max_tags ||
	    !attr->tm_cap.max_ops || attr->tm_cap.max_ops > limits->max_ops)
		return NULL;
	return tmsim_find(TMSIM_CQ, attr->cq);
}

static int open_parts(struct tmsim_srq *mine, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr plain = { .srq_context = attr->srq_context, .attr = attr->attr };
	int ret;

	mine->srq = ibv_create_srq(attr->pd, &plain);
	if (!mine->srq)
		return errno;
	ret = make_slots(mine, plain.attr.max_wr);
	if (!ret)
		ret = tmsim_list_open(mine, &attr->tm_cap);
	if (ret)
		return ret;
	attr->attr = plain.attr;
	return 0;
}

static void close_parts(struct tmsim_srq *mine)
{
	tmsim_list_close(mine);
	free(mine->slots);
	free(mine);
}

static void join(struct tmsim_srq *mine)
{
	mine->next = mine->cq->first_srq;
	mine->cq->first_srq = mine;
	tmsim_put(&mine->node, TMSIM_SRQ, mine->srq);
}

static void leave(struct tmsim_srq *mine)
{
	struct tmsim_srq **at = &mine->cq->first_srq;

	while (*at != mine)
		at = &(*at)->next;
	*at = mine->next;
	tmsim_cq_forget(mine->cq, mine);
	tmsim_drop(&mine->node);
}

static struct ibv_srq *create(struct tmsim_cq *cq, struct ibv_srq_init_attr_ex *attr)
{
	struct tmsim_srq *mine = calloc(1, sizeof(*mine));
	int ret;

	if (!mine) {
		errno = ENOMEM;
		return NULL;
	}
	mine->cq = cq;
	mine->ctx = cq->ctx;
	ret = open_parts(mine, attr);
	if (!ret) {
		join(mine);
		return mine->srq;
	}
	if (mine->srq)
		TMSIM_REAL(ibv_destroy_srq)(mine->srq);
	close_parts(mine);
	errno = ret;
	return NULL;
}

struct ibv_srq *tmsim_create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq = NULL;
	struct tmsim_cq *cq;

	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) || attr->srq_type != IBV_SRQT_TM)
		return tmsim_ctx_of(ctx)->create_srq_ex(ctx, attr);
	tmsim_lock();
	cq = cq_of(attr);
	if (cq)
		srq = create(cq, attr);
	else
		errno = EINVAL;
	tmsim_unlock();
	return srq;
}

/* libibverbs refuses as long as queue pairs use it. */
TMSIM_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct tmsim_srq *mine;
	int ret;

	tmsim_lock();
	mine = tmsim_find(TMSIM_SRQ, srq);
	ret = TMSIM_REAL(ibv_destroy_srq)(srq);
	if (mine && !ret) {
		leave(mine);
		close_parts(mine);
	}
	tmsim_unlock();
	return ret;
}
