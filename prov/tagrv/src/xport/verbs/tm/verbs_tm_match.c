/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages that entries of a list took.
 *
 * Of an entry come, if all goes well,
 *
 *   MATCH and DATA_VALID in one       a message of one packet
 *   MATCH, later DATA_VALID           a longer one, or the device reads a rendezvous
 *
 * with the status TM_RNDV_INCOMPLETE at the match, if software has to go on with the
 * rendezvous: then its headers are in the entry's memory, maybe after a second completion.
 * The same status after the match means that the read failed. With mlx5 that completion
 * says MATCH again, and has the opcode of an ordinary receive.
 *
 * The owner tells by which link a message came. If that is not attached yet the message is
 * kept, as a mark among the link's early packets and in its slot: consumed is told at once, so
 * that no other message gets the receive, and again when the link is attached. A message of no
 * link ends with a status, but not before its data: until then the device writes to the entry's
 * memory.
 */
#include <rdma/fi_errno.h>

#include "xport/verbs/tm/verbs_tm.h"

static void end_data(struct verbs_tm *tm, struct tagrv_taglist_entry *entry, size_t len,
		     int status)
{
	entry->due &= (uint8_t) ~TAGRV_TAGLIST_DATA;
	tagrv_verbs_tm_release(tm, entry);
	tm->base.sink->data(tm->base.sink, entry, len, status);
}

static void data_came(struct verbs_tm *tm, struct tagrv_taglist_entry *entry, uint32_t len)
{
	struct verbs_tm_slot *slot = &tm->slots[entry->slot];

	slot->len = len;
	slot->has_data = true;
	if (!slot->kept)
		end_data(tm, entry, slot->status ? 0 : len,
			 slot->status ? slot->status :
			 entry->headers ? TAGRV_TAGLIST_HEADERS : 0);
}

/*
 * The queue pair is named only by a completion that says all of its message. The owner may deliver
 * packets before it answers: until then the entry is as before, but cannot be deleted any more.
 */
static void consume(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
		    const struct verbs_tm_wc *c)
{
	bool whole = c->flags & IBV_WC_TM_DATA_VALID;
	struct tagrv_link *link = NULL;
	int status = tm->match(tm->owner, whole ? c->qpn : 0, c->tm.tag, &link);
	struct verbs_tm_slot *slot = &tm->slots[entry->slot];

	entry->due &= (uint8_t) ~TAGRV_TAGLIST_CONSUMED;
	slot->link = link;
	slot->status = status;
	slot->has_data = false;
	slot->tag = c->tm.tag;
	slot->app = c->tm.priv;
	slot->kept = link && !status && !link->ctx;
	if (slot->kept)
		tm->keep(tm->owner, link, c->wr_id);
	tm->base.sink->consumed(tm->base.sink, entry, status ? NULL : link, slot->tag,
				slot->app, status);
}

static void on_match(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
		     const struct verbs_tm_wc *c)
{
	int failed = c->status == IBV_WC_TM_RNDV_INCOMPLETE ? 0 :
		     tagrv_verbs_tm_status(c->status);

	entry->headers = c->status == IBV_WC_TM_RNDV_INCOMPLETE;
	if (!failed) {
		consume(tm, entry, c);
		if (c->flags & IBV_WC_TM_DATA_VALID)
			data_came(tm, entry, c->len);
		return;
	}
	entry->due &= (uint8_t) ~TAGRV_TAGLIST_CONSUMED;
	tm->base.sink->consumed(tm->base.sink, entry, NULL, 0, 0, failed);
	end_data(tm, entry, 0, failed);
}

/* The device's read failed. */
static void data_failed(struct verbs_tm *tm, struct tagrv_taglist_entry *entry, int status)
{
	struct verbs_tm_slot *slot = &tm->slots[entry->slot];

	slot->status = status;
	data_came(tm, entry, 0);
}

void tagrv_verbs_tm_on_entry(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
			     const struct verbs_tm_wc *c)
{
	if (entry->due & TAGRV_TAGLIST_CONSUMED)
		on_match(tm, entry, c);
	else if (!(entry->due & TAGRV_TAGLIST_DATA) || tm->slots[entry->slot].has_data ||
		 tm->slots[entry->slot].lost)
		tm->stale++;
	else if (c->status)
		data_failed(tm, entry, tagrv_verbs_tm_status(c->status));
	else
		data_came(tm, entry, c->len);
}

struct verbs_tm_slot *tagrv_verbs_tm_find_slot(const struct verbs_tm *tm, uint64_t wr_id)
{
	uint32_t i = (uint32_t) wr_id;
	uint32_t turn = (uint32_t) (wr_id >> 32) & VERBS_TM_TURN_MASK;

	if (i >= tm->base.max_entries || (tm->slots[i].turn & VERBS_TM_TURN_MASK) != turn)
		return NULL;
	return tm->slots[i].entry ? &tm->slots[i] : NULL;
}

struct tagrv_taglist_entry *tagrv_verbs_tm_find(const struct verbs_tm *tm, uint64_t wr_id)
{
	const struct verbs_tm_slot *slot = tagrv_verbs_tm_find_slot(tm, wr_id);

	return slot ? slot->entry : NULL;
}

/* Of a list that has failed no entry may be looked at: its owner may have freed it. */
void tagrv_verbs_tm_deliver(struct tagrv_taglist *list, uint64_t key)
{
	struct verbs_tm *tm = verbs_tm_of(list);
	struct tagrv_taglist_entry *entry = tm->fatal ? NULL : tagrv_verbs_tm_find(tm, key);
	struct verbs_tm_slot *slot;

	if (!entry || !tm->slots[entry->slot].kept)
		return;
	slot = &tm->slots[entry->slot];
	slot->kept = false;
	list->sink->consumed(list->sink, entry, slot->link, slot->tag, slot->app, 0);
	if (slot->has_data)
		data_came(tm, entry, slot->len);
}

/*
 * The message stopped amid its bytes. mlx5 has the entry for ever, and there is no room for another
 * one in its place; and the queue pair that is destroyed need not be the one that writes to the
 * entry's memory, if the number in the tag was forged. So neither is used again.
 */
static void lose_data(struct verbs_tm *tm, struct verbs_tm_slot *slot, int status)
{
	slot->lost = true;
	tm->lost++;
	tm->base.sink->data(tm->base.sink, slot->entry, 0, status);
}

static bool has_ended(const struct verbs_tm_slot *slot, const struct tagrv_link *link)
{
	return slot->entry && !slot->lost && (!slot->link || slot->link == link) &&
	       (slot->entry->due & (TAGRV_TAGLIST_CONSUMED | TAGRV_TAGLIST_DATA)) ==
	       TAGRV_TAGLIST_DATA;
}

/*
 * Messages of no link end here, too: nothing else tells that their queue pair broke amid one, and
 * it must have been that of a link.
 */
void tagrv_verbs_tm_end(struct tagrv_taglist *list, const struct tagrv_link *link)
{
	struct verbs_tm *tm = verbs_tm_of(list);

	for (uint32_t i = 0; !tm->fatal && i < list->max_entries; i++) {
		struct verbs_tm_slot *slot = &tm->slots[i];
		int status = slot->status ? slot->status : -FI_ECONNRESET;

		if (!has_ended(slot, link))
			continue;
		slot->kept = false;
		if (slot->has_data)
			end_data(tm, slot->entry, 0, status);
		else
			lose_data(tm, slot, status);
	}
}
