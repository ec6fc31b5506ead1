/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Between verbs and the list itself, common/tag_list.c: commands and messages go
 * in, completions come out.
 *
 * The list keeps its completions until they are read, since a command or an entry
 * that ends counts until then. The ring of the completion queue has a place for
 * each, so that they keep their order among the others.
 */
#include <errno.h>
#include <stdlib.h>

#include "tmsim/tmsim.h"
#include "tmsim/tmsim_control.h"

_Static_assert(TMSIM_HOLD == TAG_LIST_HOLD, "delays are handed on");
_Static_assert(TAG_LIST_TMH == sizeof(struct ibv_tmh) && TAG_LIST_RVH == sizeof(struct ibv_rvh), "headers of verbs");
_Static_assert((int) TAG_LIST_OP_NO_TAG == (int) IBV_TMH_NO_TAG && (int) TAG_LIST_OP_RNDV == (int) IBV_TMH_RNDV &&
	       (int) TAG_LIST_OP_FIN == (int) IBV_TMH_FIN && (int) TAG_LIST_OP_EAGER == (int) IBV_TMH_EAGER,
	       "opcodes of verbs");

static const enum ibv_wc_opcode opcodes[] = {
	[TAG_LIST_ADD] = IBV_WC_TM_ADD,
	[TAG_LIST_DEL] = IBV_WC_TM_DEL,
	[TAG_LIST_SYNC] = IBV_WC_TM_SYNC,
	[TAG_LIST_RECV] = IBV_WC_TM_RECV,
	[TAG_LIST_NO_TAG] = IBV_WC_TM_NO_TAG,
};

/* A read that failed is a match whose completion was cancelled. mlx5 gives it the opcode of an ordinary receive. */
static const enum ibv_wc_status statuses[] = {
	[TAG_LIST_OK] = IBV_WC_SUCCESS,
	[TAG_LIST_GONE] = IBV_WC_TM_ERR,
	[TAG_LIST_INCOMPLETE] = IBV_WC_TM_RNDV_INCOMPLETE,
	[TAG_LIST_TOO_LONG] = IBV_WC_LOC_LEN_ERR,
	[TAG_LIST_LOST] = IBV_WC_TM_RNDV_INCOMPLETE,
};

int tmsim_list_open(struct tmsim_srq *srq, const struct ibv_tm_cap *cap)
{
	struct tag_list_config config = {
		.max_tags = cap->max_num_tags,
		.max_ops = cap->max_ops,
		.mtu = tmsim_limits()->mtu,
	};

	srq->lkeys = calloc(cap->max_num_tags, sizeof(*srq->lkeys));
	srq->list = tag_list_create(&config);
	if (!srq->lkeys || !srq->list)
		return ENOMEM;
	srq->delays = tmsim_limits()->delays;
	tag_list_set_delays(srq->list, &srq->delays);
	return 0;
}

void tmsim_list_close(struct tmsim_srq *srq)
{
	tag_list_destroy(srq->list);
	free(srq->lkeys);
}

/* Gives each new completion of the list its place. 'cause' has what the list does not know, such as the queue pair. */
static void place(struct tmsim_srq *srq, const struct ibv_wc *cause)
{
	struct tmsim_wc wc = { .base = *cause, .from = srq };

	for (; srq->placed < tag_list_ready(srq->list); srq->placed++)
		tmsim_cq_add(srq->cq, &wc);
}

static void place_plain(struct tmsim_srq *srq)
{
	struct ibv_wc nothing = { .wr_id = 0 };

	place(srq, &nothing);
}

/* As with mlx5, only completions that came with a packet do: not the two of a message that has two. */
static bool names_qp(const struct tag_list_record *rec)
{
	return rec->code == TAG_LIST_NO_TAG ||
	       (rec->code == TAG_LIST_RECV && rec->flags != TAG_LIST_MATCH && rec->flags != TAG_LIST_DATA);
}

void tmsim_list_take(struct tmsim_srq *srq, struct tmsim_wc *wc)
{
	struct tag_list_record rec;

	if (!tag_list_poll(srq->list, &rec))
		abort();
	srq->placed--;
	if (!names_qp(&rec)) {
		wc->base.qp_num = 0;
		wc->base.wc_flags = 0;
	}
	wc->base.wr_id = rec.wr_id;
	wc->base.status = statuses[rec.status];
	wc->base.opcode = rec.status == TAG_LIST_LOST ? IBV_WC_RECV : opcodes[rec.code];
	wc->base.byte_len = rec.length;
	wc->base.wc_flags |= (rec.flags & TAG_LIST_MATCH ? IBV_WC_TM_MATCH : 0) |
			     (rec.flags & TAG_LIST_DATA ? IBV_WC_TM_DATA_VALID : 0) |
			     (rec.flags & TAG_LIST_SYNC_REQ ? IBV_WC_TM_SYNC_REQ : 0);
	if (rec.status == TAG_LIST_LOST)
		wc->base.wc_flags |= IBV_WC_TM_MATCH;
	wc->tm = (struct ibv_wc_tm_info) { .tag = rec.tag, .priv = rec.app_ctx };
}

/* ---- commands ---- */

/* An entry has one piece of memory, or none. */
static int translate(const struct ibv_ops_wr *wr, struct tag_list_cmd *cmd)
{
	*cmd = (struct tag_list_cmd) {
		.signaled = wr->flags & IBV_OPS_SIGNALED,
		.sync = wr->flags & IBV_OPS_TM_SYNC,
		.wr_id = wr->wr_id,
		.count = wr->tm.unexpected_cnt,
		.handle = wr->tm.handle,
	};
	switch (wr->opcode) {
	case IBV_WR_TAG_ADD:
		cmd->code = TAG_LIST_ADD;
		cmd->recv_wr_id = wr->tm.add.recv_wr_id;
		cmd->tag = wr->tm.add.tag;
		cmd->mask = wr->tm.add.mask;
		if (wr->tm.add.num_sge < 0 || wr->tm.add.num_sge > 1)
			return EINVAL;
		if (wr->tm.add.num_sge) {
			cmd->buf = (void *) (uintptr_t) wr->tm.add.sg_list->addr;
			cmd->len = wr->tm.add.sg_list->length;
		}
		return 0;
	case IBV_WR_TAG_DEL:
		cmd->code = TAG_LIST_DEL;
		return 0;
	case IBV_WR_TAG_SYNC:
		cmd->code = TAG_LIST_SYNC;
		return 0;
	default:
		return EINVAL;
	}
}

int tmsim_list_post(struct tmsim_srq *srq, struct ibv_ops_wr *wr)
{
	struct tag_list_cmd cmd;
	int ret = translate(wr, &cmd);

	if (!ret)
		ret = -tag_list_post(srq->list, &cmd);
	if (ret)
		return ret;
	if (cmd.code == TAG_LIST_ADD) {
		wr->tm.handle = cmd.handle;
		srq->lkeys[cmd.handle] = cmd.len ? wr->tm.add.sg_list->lkey : 0;
	}
	place_plain(srq);
	return 0;
}

void tmsim_list_step(struct tmsim_srq *srq)
{
	tag_list_tick(srq->list);
	place_plain(srq);
}

void tmsim_list_settle(struct tmsim_srq *srq)
{
	uint32_t left = srq->delays.report > srq->delays.data ? srq->delays.report : srq->delays.data;

	while (tag_list_apply(srq->list))
		;
	while (left--)
		tag_list_tick(srq->list);
	place_plain(srq);
}

TMSIM_EXPORT bool tmsim_control_delays(struct ibv_srq *srq, uint32_t apply, uint32_t report, uint32_t data)
{
	struct tmsim_srq *mine;

	tmsim_lock();
	mine = tmsim_find(TMSIM_SRQ, srq);
	if (mine) {
		tmsim_list_settle(mine);
		mine->delays = (struct tag_list_delays) { .apply = apply, .report = report, .data = data };
		tag_list_set_delays(mine->list, &mine->delays);
	}
	tmsim_unlock();
	return mine;
}

TMSIM_EXPORT bool tmsim_control_apply(struct ibv_srq *srq)
{
	struct tmsim_srq *mine;
	bool did;

	tmsim_lock();
	mine = tmsim_find(TMSIM_SRQ, srq);
	did = mine && tag_list_apply(mine->list);
	if (did)
		place_plain(mine);
	tmsim_unlock();
	return did;
}

/* ---- messages ---- */

/* An error, or a write with immediate data: the list is not asked. */
static void pass_on(struct tmsim_srq *srq, const struct ibv_wc *wc)
{
	struct tmsim_wc plain = { .base = *wc };

	plain.base.wr_id = srq->slots[wc->wr_id].wr_id;
	tmsim_slot_free(srq, (uint32_t) wc->wr_id);
	tmsim_cq_add(srq->cq, &plain);
}

void tmsim_list_arrive(struct tmsim_qp *qp, const struct ibv_wc *wc)
{
	struct tmsim_srq *srq = qp->srq;
	uint32_t slot = (uint32_t) wc->wr_id;
	const void *bytes = (const void *) (uintptr_t) srq->slots[slot].sge.addr;
	enum tag_list_fate fate;
	struct tag_list_read read;

	if (wc->status || wc->opcode != IBV_WC_RECV) {
		pass_on(srq, wc);
		return;
	}
	fate = tag_list_arrive(srq->list, bytes, wc->byte_len, srq->slots[slot].wr_id, &read);
	place(srq, wc);
	if (fate == TAG_LIST_READ)
		tmsim_rndv_start(qp, &read, srq->lkeys[read.handle], bytes);
	if (fate == TAG_LIST_UNMATCHED)
		tmsim_slot_free(srq, slot);
	else
		tmsim_slot_repost(srq, slot);
}

void tmsim_list_data(struct tmsim_qp *qp, uint32_t handle, bool ok)
{
	tag_list_read_done(qp->srq->list, handle, ok);
	place_plain(qp->srq);
}
