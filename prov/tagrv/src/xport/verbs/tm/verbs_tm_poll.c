/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The completions of a list of posted receives.
 *
 * A batch is read before any callback runs: the device's library may hold a lock until
 * ibv_end_poll(). Of an entry come, if all goes well,
 *
 *   MATCH and DATA_VALID in one       a message of one packet
 *   MATCH, later DATA_VALID           a longer one, or the device reads a rendezvous
 *
 * with the status TM_RNDV_INCOMPLETE at the match, if software has to go on with the
 * rendezvous: then its headers are in the entry's memory, maybe after a second completion.
 * The same status after the match means that the read failed. With mlx5 that completion
 * says MATCH again, and has the opcode of an ordinary receive.
 */
#include <rdma/fi_errno.h>

#include "core/log.h"
#include "xport/verbs/tm/verbs_tm.h"

struct completion {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	unsigned flags;
	uint32_t len, qpn, imm;
	struct ibv_wc_tm_info tm;
};

static int status_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_LOC_LEN_ERR:
		return -FI_ETRUNC;
	case IBV_WC_WR_FLUSH_ERR:
	case IBV_WC_TM_RNDV_INCOMPLETE:
		return -FI_ECANCELED;
	default:
		return -FI_EIO;
	}
}

/* ---- commands ---- */

/* False: the list does not survive it. */
static bool command_ended(struct verbs_tm *tm, const struct completion *c, bool may_be_late)
{
	tm->ops--;
	tm->freed = true;
	if (!c->status || (may_be_late && c->status == IBV_WC_TM_ERR))
		return true;
	tagrv_info("verbs: %s: a command of the list of receives failed, status %d\n",
		   tm->dev->base.name, c->status);
	tagrv_verbs_tm_fail(tm, status_of(c->status));
	return false;
}

static void on_add(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
		   const struct completion *c)
{
	if (!command_ended(tm, c, false))
		return;
	entry->due &= (uint8_t) ~TAGRV_TAGLIST_ADDED;
	tagrv_verbs_tm_release(tm, entry);
	tm->base.sink->added(tm->base.sink, entry, c->flags & IBV_WC_TM_SYNC_REQ);
}

static void on_del(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
		   const struct completion *c)
{
	bool gone = c->status == IBV_WC_TM_ERR;

	if (!command_ended(tm, c, true))
		return;
	entry->due &= (uint8_t) ~TAGRV_TAGLIST_DELETED;
	if (!gone)
		entry->due &= (uint8_t) ~(TAGRV_TAGLIST_CONSUMED | TAGRV_TAGLIST_DATA);
	tagrv_verbs_tm_release(tm, entry);
	tm->base.sink->deleted(tm->base.sink, entry, gone);
}

static void on_sync(struct verbs_tm *tm, const struct completion *c)
{
	if (command_ended(tm, c, false))
		tm->base.sink->synced(tm->base.sink);
}

/* ---- messages that entries took ---- */

static void end_data(struct verbs_tm *tm, struct tagrv_taglist_entry *entry, size_t len,
		     int status)
{
	entry->due &= (uint8_t) ~TAGRV_TAGLIST_DATA;
	tagrv_verbs_tm_release(tm, entry);
	tm->base.sink->data(tm->base.sink, entry, len, status);
}

static void on_match(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
		     const struct completion *c)
{
	bool failed = c->status && c->status != IBV_WC_TM_RNDV_INCOMPLETE;

	entry->headers = c->status == IBV_WC_TM_RNDV_INCOMPLETE;
	entry->due &= (uint8_t) ~TAGRV_TAGLIST_CONSUMED;
	tm->base.sink->consumed(tm->base.sink, entry, NULL, c->tm.tag, c->tm.priv,
				failed ? status_of(c->status) : 0);
	if (failed)
		end_data(tm, entry, 0, status_of(c->status));
	else if (c->flags & IBV_WC_TM_DATA_VALID)
		end_data(tm, entry, c->len, entry->headers ? TAGRV_TAGLIST_HEADERS : 0);
}

static void on_entry(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
		     const struct completion *c)
{
	if (entry->due & TAGRV_TAGLIST_CONSUMED)
		on_match(tm, entry, c);
	else if (!(entry->due & TAGRV_TAGLIST_DATA))
		tm->stale++;
	else if (c->status)
		end_data(tm, entry, 0, status_of(c->status));
	else
		end_data(tm, entry, c->len, entry->headers ? TAGRV_TAGLIST_HEADERS : 0);
}

/* ---- packets in receive buffers ---- */

static void on_buf(struct verbs_tm *tm, const struct completion *c)
{
	struct verbs_rxq *rxq = &tm->rxq;
	uint32_t buf = (uint32_t) (c->wr_id & rxq->slot_mask);
	struct verbs_tm_packet packet = {
		.qpn = c->qpn, .status = status_of(c->status), .len = c->len,
		.tagged = c->opcode == IBV_WC_TM_RECV,
		.has_imm = c->flags & IBV_WC_WITH_IMM, .imm = c->imm,
	};

	if (rxq->wr_ids[buf] != c->wr_id) {
		tm->stale++;
		return;
	}
	rxq->wr_ids[buf] = verbs_not_posted(buf);
	rxq->posted--;
	packet.data = verbs_buf_addr(&rxq->bufs, buf);
	if (!packet.status && packet.len > rxq->bufs.size)
		packet.status = -FI_EIO;
	tm->receive(tm, &packet);
	rxq->bufs.idle[rxq->bufs.idle_cnt++] = buf;
	if (rxq->bufs.idle_cnt >= rxq->refill_at)
		tagrv_verbs_rxq_refill(tm->calls, rxq);
}

/* ---- progress ---- */

/* The entry that a wr_id names, NULL: none has it any more. */
static struct tagrv_taglist_entry *find(const struct verbs_tm *tm, uint64_t wr_id)
{
	uint32_t i = (uint32_t) wr_id;
	uint32_t turn = (uint32_t) (wr_id >> 32) & VERBS_TM_TURN_MASK;

	if (i >= tm->base.max_entries || (tm->slots[i].turn & VERBS_TM_TURN_MASK) != turn)
		return NULL;
	return tm->slots[i].entry;
}

static void handle(struct verbs_tm *tm, const struct completion *c)
{
	enum verbs_tm_kind kind = (enum verbs_tm_kind) (c->wr_id >> VERBS_TM_KIND_SHIFT);
	struct tagrv_taglist_entry *entry;

	if (kind == VERBS_TM_BUF) {
		on_buf(tm, c);
		return;
	}
	if (tm->fatal)
		return;
	entry = kind == VERBS_TM_SYNC ? NULL : find(tm, c->wr_id);
	if (kind == VERBS_TM_SYNC)
		on_sync(tm, c);
	else if (!entry)
		tm->stale++;
	else if (kind == VERBS_TM_ADD)
		on_add(tm, entry, c);
	else if (kind == VERBS_TM_DEL)
		on_del(tm, entry, c);
	else
		on_entry(tm, entry, c);
}

/* A completion that failed has no valid field but the first ones; mlx5 fills the others. */
static void read_one(struct ibv_cq_ex *cq, struct completion *c)
{
	*c = (struct completion) {
		.wr_id = cq->wr_id, .status = cq->status,
		.opcode = ibv_wc_read_opcode(cq), .flags = ibv_wc_read_wc_flags(cq),
		.len = ibv_wc_read_byte_len(cq), .qpn = ibv_wc_read_qp_num(cq),
	};
	if (c->flags & IBV_WC_WITH_IMM)
		c->imm = ibv_wc_read_imm_data(cq);
	ibv_wc_read_tm_info(cq, &c->tm);
}

/* Returns the number of completions read, less than VERBS_TM_BATCH: the queue is empty. */
static unsigned read_batch(struct verbs_tm *tm, struct completion *c)
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
		read_one(tm->cq, &c[cnt++]);
		ret = cnt < VERBS_TM_BATCH ? ibv_next_poll(tm->cq) : ENOENT;
	} while (!ret);
	ibv_end_poll(tm->cq);
	if (ret != ENOENT)
		tagrv_verbs_tm_fail(tm, -FI_EIO);
	return cnt;
}

static void tell(struct verbs_tm *tm)
{
	struct tagrv_taglist_sink *sink = tm->base.sink;

	if (tm->fatal && !tm->told_fatal) {
		tm->told_fatal = true;
		sink->fatal(sink, tm->fatal);
	}
	if (tm->fatal)
		return;
	if (tm->starved && tm->freed) {
		tm->starved = false;
		sink->room(sink);
	}
	tm->freed = false;
}

int tagrv_verbs_tm_progress(struct tagrv_taglist *list)
{
	struct verbs_tm *tm = verbs_tm_of(list);
	struct completion c[VERBS_TM_BATCH];
	unsigned handled = 0, cnt;

	do {
		cnt = read_batch(tm, c);
		for (unsigned i = 0; i < cnt; i++)
			handle(tm, &c[i]);
		handled += cnt;
	} while (cnt == VERBS_TM_BATCH && handled < VERBS_TM_PASS);
	if (cnt < VERBS_TM_BATCH && tm->rxq.bufs.idle_cnt)
		tagrv_verbs_rxq_refill(tm->calls, &tm->rxq);
	tell(tm);
	return (int) handled;
}
