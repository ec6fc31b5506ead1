/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of posted receives for transports of tests: what the device reports.
 *
 * It reports messages in the order in which they came, so that a queue of these says which
 * one a completion is about.
 */
#include "common/fake_list_priv.h"

#include <limits.h>

#include "match/offload/offload.h"

/* ---- commands ---- */

static void on_command(struct fake_list *list, const struct tag_list_record *rec)
{
	struct tagrv_taglist_sink *sink = list->base.sink;
	struct tagrv_taglist_entry *entry;
	bool gone = rec->status == TAG_LIST_GONE;

	list->freed = true;
	if (rec->code == TAG_LIST_SYNC) {
		sink->synced(sink);
		return;
	}
	entry = list->slots[rec->wr_id].entry;
	entry->due &= (uint8_t) ~(rec->code == TAG_LIST_ADD ? TAGRV_TAGLIST_ADDED :
				  TAGRV_TAGLIST_DELETED);
	if (rec->code == TAG_LIST_DEL && !gone)
		entry->due &= (uint8_t) ~(TAGRV_TAGLIST_CONSUMED | TAGRV_TAGLIST_DATA);
	fake_list_release(list, entry);
	if (rec->code == TAG_LIST_ADD)
		sink->added(sink, entry, rec->flags & TAG_LIST_SYNC_REQ);
	else
		sink->deleted(sink, entry, gone);
}

/* ---- messages ---- */

static void end_data(struct fake_list *list, struct fake_list_slot *slot, int status)
{
	struct tagrv_taglist_entry *entry = slot->entry;
	struct fake_list_message *message = slot->message;
	size_t len = status ? 0 : message->len - TAG_LIST_TMH;

	if (len)
		memcpy(entry->addr, message->data + TAG_LIST_TMH, len);
	free(message);
	slot->message = NULL;
	entry->due &= (uint8_t) ~TAGRV_TAGLIST_DATA;
	fake_list_release(list, entry);
	list->base.sink->data(list->base.sink, entry, len, status);
}

/* The message stopped: its bytes may still come, so that nobody else gets the memory. */
static void lose_data(struct fake_list *list, struct fake_list_slot *slot)
{
	free(slot->message);
	slot->message = NULL;
	list->base.sink->data(list->base.sink, slot->entry, 0, -FI_ECONNRESET);
}

static enum fake_list_way way_of(const struct fake_list *list, const struct tagrv_link *link)
{
	return link ? list->owner->way(link) : FAKE_LIST_DROP;
}

/* Each packet is in memory of exactly its size, so that sanitizers find reads beyond its end. */
static void deliver(const struct fake_list_message *message)
{
	struct tagrv_link *link = message->link;
	struct tagrv_sink *sink = link->xport->sink;
	void *copy = malloc(message->len ? message->len : 1);

	if (!copy)
		abort();
	memcpy(copy, message->data, message->len);
	if (message->plain)
		sink->packet(sink, link->ctx, copy, message->len);
	else
		sink->listed(sink, link->ctx, copy, message->len);
	free(copy);
}

/* The link of a message that has matched is attached, or gone. */
static void tell_again(struct fake_list *list, const struct fake_list_message *stray)
{
	struct fake_list_slot *slot = &list->slots[stray->slot];

	if (!stray->link || slot->message != stray->matched)
		return;		/* gone */
	slot->again = false;
	list->base.sink->consumed(list->base.sink, slot->entry, stray->link, stray->tag, stray->app,
				  0);
}

/* Hands it over or drops it; a tagged one has been counted by the device. */
static void handle(struct fake_list *list, struct fake_list_message *message,
		   enum fake_list_way way)
{
	bool plain = message->plain || message->matched;

	if (message->matched)
		tell_again(list, message);
	else if (way == FAKE_LIST_DELIVER)
		deliver(message);
	free(message);
	if (plain)
		return;
	list->handled++;
	list->base.sink->handled(list->base.sink);
}

/* Those whose link was attached, or is gone, meanwhile; of this link, or with NULL all. */
static int serve_strays(struct fake_list *list, const struct tagrv_link *link)
{
	struct fake_list_message **pos = &list->strays.first;
	int events = 0;

	while (*pos) {
		enum fake_list_way way = way_of(list, (*pos)->link);

		if (way == FAKE_LIST_KEEP || (link && (*pos)->link != link)) {
			pos = &(*pos)->next;
			continue;
		}
		handle(list, fake_list_pop(&list->strays, pos), way);
		events++;
	}
	return events;
}

static void on_packet(struct fake_list *list, struct fake_list_message *message)
{
	struct tagrv_link *link = message->link;
	enum fake_list_way way = way_of(list, link);

	if (!message->plain) {
		list->unexpected++;
		list->base.sink->unexpected(list->base.sink);
	}
	if (way == FAKE_LIST_KEEP) {
		fake_list_push(&list->strays, message);
		return;
	}
	if (link)
		serve_strays(list, link);
	handle(list, message, way);
}

static int status_of(const struct tagrv_link *link, const struct tag_list_record *rec)
{
	uint64_t number = rec->tag >> TAGRV_OFFLOAD_TAG_BITS & TAGRV_OFFLOAD_SOURCES;

	if (rec->status)
		return -FI_ETRUNC;
	return link && number == link->given ? 0 : -FI_EREMOTEIO;
}

static void keep_match(struct fake_list *list, struct fake_list_slot *slot,
		       const struct tag_list_record *rec)
{
	struct fake_list_message *stray = calloc(1, sizeof(*stray));

	if (!stray)
		abort();
	stray->link = slot->message->link;
	stray->matched = slot->message;
	stray->tag = rec->tag;
	stray->app = rec->app_ctx;
	stray->slot = (uint32_t) rec->wr_id;
	fake_list_push(&list->strays, stray);
	slot->again = true;
}

static void on_match(struct fake_list *list, struct fake_list_message *message,
		     const struct tag_list_record *rec)
{
	struct fake_list_slot *slot = &list->slots[rec->wr_id];
	struct tagrv_link *link = message->link;
	int status = status_of(link, rec);

	slot->message = message;
	slot->again = false;
	slot->order = list->matches++;
	slot->due = list->hold_data ? UINT64_MAX : list->now + list->data_delay;
	slot->entry->due &= (uint8_t) ~TAGRV_TAGLIST_CONSUMED;
	list->base.sink->consumed(list->base.sink, slot->entry, message->link,
				  status ? 0 : rec->tag, status ? 0 : rec->app_ctx, status);
	if (!slot->message)
		return;
	/* Behind its message, as xport/verbs/verbs_list_rx.c does: the end of a link deletes entries. */
	if (status == -FI_EREMOTEIO && link)
		list->owner->forged(link);
	if (!slot->message)
		return;
	if (status)
		end_data(list, slot, status);
	else if (way_of(list, message->link) == FAKE_LIST_KEEP)
		keep_match(list, slot, rec);
	else if (slot->due <= list->now)
		end_data(list, slot, 0);
}

static bool next_report(struct fake_list *list, struct tag_list_record *rec)
{
	if (!list->ahead_cnt)
		return tag_list_poll(list->device, rec);
	*rec = list->ahead[0];
	memmove(&list->ahead[0], &list->ahead[1], --list->ahead_cnt * sizeof(*rec));
	return true;
}

/* What the device has reported, so much of it at most. */
static int read_reports(struct fake_list *list, unsigned most)
{
	struct tag_list_record rec;
	int events = 0;

	while (most-- && !list->fatal && next_report(list, &rec)) {
		events++;
		if (rec.code != TAG_LIST_RECV && rec.code != TAG_LIST_NO_TAG)
			on_command(list, &rec);
		else if (rec.flags & TAG_LIST_MATCH)
			on_match(list, fake_list_pop(&list->arrived, &list->arrived.first), &rec);
		else
			on_packet(list, fake_list_pop(&list->arrived, &list->arrived.first));
	}
	return events;
}

static int serve_data(struct fake_list *list)
{
	int events = 0;

	for (uint32_t i = 0; i < list->base.max_entries && !list->fatal; i++) {
		struct fake_list_slot *slot = &list->slots[i];

		if (!slot->message)
			continue;
		if (!slot->message->link && slot->due > list->now)
			lose_data(list, slot);
		else if (!slot->message->link)
			end_data(list, slot, -FI_ECONNRESET);
		else if (slot->due <= list->now && !slot->again)
			end_data(list, slot, 0);
		else
			continue;
		events++;
	}
	return events;
}

static void tell(struct fake_list *list)
{
	struct tagrv_taglist_sink *sink = list->base.sink;

	if (list->fatal && !list->told_fatal) {
		list->told_fatal = true;
		sink->fatal(sink, list->fatal);
	}
	if (!list->fatal && list->starved && list->freed) {
		list->starved = false;
		sink->room(sink);
	}
	list->freed = false;
}

static void begin(struct fake_list *list)
{
	if (list->busy || !list->base.sink)
		abort();	/* progress within a callback, or nobody to tell */
	list->busy = true;
}

int fake_list_progress(struct tagrv_taglist *base)
{
	struct fake_list *list = fake_list_of(base);
	int events = 0;

	begin(list);
	list->now++;
	tag_list_tick(list->device);
	if (!list->fatal) {
		events += serve_strays(list, NULL);
		events += serve_data(list);
		events += read_reports(list, list->reports ? list->reports : UINT_MAX);
	}
	tell(list);
	list->busy = false;
	return events;
}

/* ---- ends of links ---- */

static void forget(struct fake_list_queue *queue, const struct tagrv_link *link)
{
	for (struct fake_list_message *message = queue->first; message; message = message->next)
		if (message->link == link)
			message->link = NULL;
}

static unsigned count(const struct fake_list_queue *queue, const struct tagrv_link *link)
{
	unsigned cnt = 0;

	for (struct fake_list_message *message = queue->first; message; message = message->next)
		cnt += message->link == link;
	return cnt;
}

void fake_list_end_link(struct fake_list *list, struct tagrv_link *link)
{
	begin(list);
	read_reports(list, UINT_MAX);
	forget(&list->strays, link);
	for (uint32_t i = 0; i < list->base.max_entries; i++)
		if (list->slots[i].message && list->slots[i].message->link == link)
			list->slots[i].message->link = NULL;
	if (!list->fatal) {
		serve_strays(list, NULL);
		serve_data(list);
	}
	list->busy = false;
	fake_list_forget_link(list, link);
}

void fake_list_forget_link(struct fake_list *list, const struct tagrv_link *link)
{
	forget(&list->arrived, link);
	forget(&list->strays, link);
	for (uint32_t i = 0; i < list->base.max_entries; i++)
		if (list->slots[i].message && list->slots[i].message->link == link)
			list->slots[i].message->link = NULL;
}

unsigned fake_list_pending(const struct fake_list *list, const struct tagrv_link *link)
{
	unsigned cnt = count(&list->arrived, link) + count(&list->strays, link);

	for (uint32_t i = 0; i < list->base.max_entries; i++)
		cnt += list->slots[i].message && list->slots[i].message->link == link;
	return cnt;
}
