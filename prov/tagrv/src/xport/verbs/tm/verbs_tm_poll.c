/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The completions of a list of posted receives: of commands, and of packets in
 * receive buffers. Those of messages that entries took are in verbs_tm_match.c.
 */
#include "core/log.h"
#include "xport/verbs/tm/verbs_tm.h"

/* ---- commands ---- */

/* False: the list does not survive it. */
static bool command_ended(struct verbs_tm *tm, const struct verbs_tm_wc *c, bool may_be_late)
{
	tm->ops--;
	tm->freed = true;
	if (!c->status || (may_be_late && c->status == IBV_WC_TM_ERR))
		return true;
	tagrv_info("verbs: %s: a command of the list of receives failed, status %d\n",
		   tm->dev->base.name, c->status);
	tagrv_verbs_tm_fail(tm, tagrv_verbs_tm_status(c->status));
	return false;
}

static void on_add(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
		   const struct verbs_tm_wc *c)
{
	if (!command_ended(tm, c, false))
		return;
	entry->due &= (uint8_t) ~TAGRV_TAGLIST_ADDED;
	tagrv_verbs_tm_release(tm, entry);
	tm->base.sink->added(tm->base.sink, entry, c->flags & IBV_WC_TM_SYNC_REQ);
}

static void on_del(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
		   const struct verbs_tm_wc *c)
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

static void on_sync(struct verbs_tm *tm, const struct verbs_tm_wc *c)
{
	if (command_ended(tm, c, false))
		tm->base.sink->synced(tm->base.sink);
}

/* ---- packets in receive buffers ---- */

/*
 * A tagged one is counted even if nothing is known of its buffer, since the device has counted it:
 * it is dropped then. Of a list that has failed no packet is right.
 */
static void on_buf(struct verbs_tm *tm, const struct verbs_tm_wc *c)
{
	struct verbs_rxq *rxq = tm->rxq;
	uint32_t buf = (uint32_t) (c->wr_id & rxq->slot_mask);
	bool counted = !c->status && c->opcode == IBV_WC_TM_RECV && !tm->fatal;
	bool known = rxq->wr_ids[buf] == c->wr_id, handled = true;
	struct verbs_list_packet packet;

	if (counted)
		tm->base.sink->unexpected(tm->base.sink);
	if (known) {
		rxq->wr_ids[buf] = verbs_not_posted(buf);
		rxq->posted--;
	}
	if (known)
		packet = tagrv_verbs_tm_packet(tm, c);
	else
		packet = (struct verbs_list_packet) {
			.qpn = c->qpn, .status = tagrv_verbs_tm_status(c->status),
			.lost = true, .wr_id = c->wr_id,
		};
	if (!tm->fatal)
		handled = tm->receive(tm->owner, &packet);
	if (counted && handled)
		tm->base.sink->handled(tm->base.sink);
	tm->stale += !known;
	if (!known)
		return;
	rxq->bufs.idle[rxq->bufs.idle_cnt++] = buf;
	if (rxq->bufs.idle_cnt >= rxq->refill_at)
		tagrv_verbs_rxq_refill(tm->calls, rxq);
}

/* ---- progress ---- */

void tagrv_verbs_tm_handle(struct verbs_tm *tm, const struct verbs_tm_wc *c)
{
	enum verbs_tm_kind kind = (enum verbs_tm_kind) (c->wr_id >> VERBS_TM_KIND_SHIFT);
	struct tagrv_taglist_entry *entry;

	if (kind == VERBS_TM_BUF) {
		on_buf(tm, c);
		return;
	}
	if (tm->fatal)
		return;
	entry = kind == VERBS_TM_SYNC ? NULL : tagrv_verbs_tm_find(tm, c->wr_id);
	if (kind == VERBS_TM_SYNC)
		on_sync(tm, c);
	else if (!entry)
		tm->stale++;
	else if (kind == VERBS_TM_ADD)
		on_add(tm, entry, c);
	else if (kind == VERBS_TM_DEL)
		on_del(tm, entry, c);
	else
		tagrv_verbs_tm_on_entry(tm, entry, c);
}

static void tell(struct verbs_tm *tm)
{
	struct tagrv_taglist_sink *sink = tm->base.sink;

	if (!sink)	/* nobody uses the list yet */
		return;
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
	struct verbs_tm_wc c[VERBS_TM_BATCH];
	unsigned handled = 0, cnt;

	do {
		cnt = tagrv_verbs_tm_next(tm, c);
		for (unsigned i = 0; i < cnt; i++)
			tagrv_verbs_tm_handle(tm, &c[i]);
		handled += cnt;
	} while (cnt == VERBS_TM_BATCH && handled < VERBS_LIST_PASS);
	if (cnt < VERBS_TM_BATCH)
		tagrv_verbs_tm_refill(tm);
	tell(tm);
	return (int) handled;
}
