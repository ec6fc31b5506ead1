/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads the completions of a list of posted receives.
 *
 * A batch is read before any of it is handled: the device's library may hold a lock until
 * ibv_end_poll(). Completions that are read before progress may handle them are held, in
 * order: by arm, which has to know whether there are some, and by reap, which looks for permits.
 */
#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "xport/verbs/tm/verbs_tm.h"

int tagrv_verbs_tm_status(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_LOC_LEN_ERR:
		return -FI_ETRUNC;
	case IBV_WC_WR_FLUSH_ERR:	/* as in verbs_error.c: nobody has cancelled anything */
	case IBV_WC_TM_RNDV_INCOMPLETE:
		return -FI_ECONNRESET;
	default:
		return -FI_EIO;
	}
}

/* A completion that failed has no valid field but the first ones; mlx5 fills the others. */
static void read_one(struct ibv_cq_ex *cq, struct verbs_tm_wc *c)
{
	*c = (struct verbs_tm_wc) {
		.wr_id = cq->wr_id, .status = cq->status,
		.opcode = ibv_wc_read_opcode(cq), .flags = ibv_wc_read_wc_flags(cq),
		.len = ibv_wc_read_byte_len(cq), .qpn = ibv_wc_read_qp_num(cq),
	};
	if (c->flags & IBV_WC_WITH_IMM)
		c->imm = ibv_wc_read_imm_data(cq);
	ibv_wc_read_tm_info(cq, &c->tm);
}

/*
 * With mlx5 the entry's handle may be free as soon as the completion is read: a DEL that is
 * posted afterwards would free it twice, or delete another entry.
 */
static void note_taken(struct verbs_tm *tm, const struct verbs_tm_wc *c)
{
	struct verbs_tm_slot *slot;

	if (c->wr_id >> VERBS_TM_KIND_SHIFT != VERBS_TM_ENTRY)
		return;
	slot = tagrv_verbs_tm_find_slot(tm, c->wr_id);
	if (slot)
		slot->taken = true;
}

/* Returns the number of completions read, less than 'most': the queue is empty. */
static unsigned read_some(struct verbs_tm *tm, struct verbs_tm_wc *c, unsigned most)
{
	struct ibv_poll_cq_attr attr = { .comp_mask = 0 };
	unsigned cnt = 0;
	int ret = ibv_start_poll(tm->cq, &attr);

	if (ret == ENOENT)
		return 0;
	if (ret) {
		tagrv_verbs_tm_fail(tm, -FI_EIO);
		return 0;
	}
	do {
		read_one(tm->cq, &c[cnt]);
		note_taken(tm, &c[cnt++]);
		ret = cnt < most ? ibv_next_poll(tm->cq) : ENOENT;
	} while (!ret);
	ibv_end_poll(tm->cq);
	if (ret != ENOENT)
		tagrv_verbs_tm_fail(tm, -FI_EIO);
	return cnt;
}

unsigned tagrv_verbs_tm_next(struct verbs_tm *tm, struct verbs_tm_wc *c)
{
	uint32_t held = TAGRV_MIN(tm->held_cnt, VERBS_TM_BATCH);

	if (TAGRV_UNLIKELY(held)) {
		memcpy(c, tm->held + tm->held_pos, held * sizeof(*c));
		tm->held_cnt -= held;
		tm->held_pos = tm->held_cnt ? tm->held_pos + held : 0;
	}
	return held == VERBS_TM_BATCH ? held :
					held + read_some(tm, c + held, VERBS_TM_BATCH - held);
}

struct verbs_list_packet tagrv_verbs_tm_packet(const struct verbs_tm *tm,
					       const struct verbs_tm_wc *c)
{
	const struct verbs_bufs *bufs = &tm->rxq->bufs;
	struct verbs_list_packet packet = {
		.qpn = c->qpn, .status = tagrv_verbs_tm_status(c->status), .len = c->len,
		.wr_id = c->wr_id,
		.tagged = c->opcode == IBV_WC_TM_RECV,
		.has_imm = c->flags & IBV_WC_WITH_IMM, .imm = c->imm,
		.data = verbs_buf_addr(bufs, (uint32_t) (c->wr_id & tm->rxq->slot_mask)),
	};

	/* A write with immediate data takes a buffer, but does not fill it. */
	if (!packet.status &&
	    (packet.len > bufs->size || c->opcode == IBV_WC_RECV_RDMA_WITH_IMM))
		packet.status = -FI_EIO;
	return packet;
}

void tagrv_verbs_tm_refill(struct verbs_tm *tm)
{
	if (tm->rxq->bufs.idle_cnt)
		tagrv_verbs_rxq_refill(tm->calls, tm->rxq);
}

/* ---- reap ---- */

/* Makes room for another batch behind the completions held. False: no memory. */
static bool reserve_held(struct verbs_tm *tm)
{
	struct verbs_tm_wc *held = tagrv_verbs_held_fit(tm->held, sizeof(*held), tm->held_pos,
							tm->held_cnt, VERBS_TM_BATCH,
							&tm->held_cap);

	tm->held_pos = 0;
	tm->held = held ? held : tm->held;
	return held;
}

/* Takes a packet's permit before the packet is handled. True: handle it at once. */
static bool read_permit(struct verbs_tm *tm, struct verbs_tm_wc *c)
{
	const struct verbs_rxq *rxq = tm->rxq;
	struct verbs_list_packet packet;

	if (c->wr_id >> VERBS_TM_KIND_SHIFT != VERBS_TM_BUF || tm->fatal ||
	    rxq->wr_ids[c->wr_id & rxq->slot_mask] != c->wr_id)
		return false;
	packet = tagrv_verbs_tm_packet(tm, c);
	if (packet.status || packet.tagged || !packet.has_imm)
		return false;
	if (tm->permit(tm->owner, &packet))
		return true;
	c->flags &= ~(unsigned) IBV_WC_WITH_IMM;
	return false;
}

void tagrv_verbs_tm_reap(struct tagrv_taglist *list)
{
	struct verbs_tm *tm = verbs_tm_of(list);
	struct verbs_tm_wc c[VERBS_TM_BATCH];
	unsigned cnt = VERBS_TM_BATCH;

	while (cnt == VERBS_TM_BATCH && reserve_held(tm)) {
		cnt = read_some(tm, c, VERBS_TM_BATCH);
		for (unsigned i = 0; i < cnt; i++) {
			if (read_permit(tm, &c[i]))
				tagrv_verbs_tm_handle(tm, &c[i]);
			else
				tm->held[tm->held_cnt++] = c[i];
		}
	}
	tagrv_verbs_tm_refill(tm);
}

/* ---- sleep ---- */

bool tagrv_verbs_tm_event(struct tagrv_taglist *list, const struct ibv_cq *cq)
{
	struct verbs_tm *tm = verbs_tm_of(list);

	if (cq != ibv_cq_ex_to_cq(tm->cq))
		return false;
	verbs_note_event(tm->calls, ibv_cq_ex_to_cq(tm->cq), &tm->unacked);
	return true;
}

/*
 * A completion that came between the last progress and the request is found here, and held. If
 * there is no memory for it progress has to look.
 */
int tagrv_verbs_tm_arm(struct tagrv_taglist *list)
{
	struct verbs_tm *tm = verbs_tm_of(list);

	if (tm->calls->req_notify_cq(ibv_cq_ex_to_cq(tm->cq), 0))
		tagrv_verbs_tm_fail(tm, -FI_EIO);
	tagrv_verbs_tm_refill(tm);
	if (!reserve_held(tm))
		return -FI_EAGAIN;
	if (!tm->held_cnt)
		tm->held_cnt = read_some(tm, tm->held, VERBS_TM_BATCH);
	if (tm->held_cnt || (tm->fatal && !tm->told_fatal) || (tm->starved && tm->freed))
		return -FI_EAGAIN;
	return 0;
}
