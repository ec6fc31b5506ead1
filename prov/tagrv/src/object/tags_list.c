/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tags: commands to the list and what it reports, and the memory of its entries. See tags.h.
 */
#include "object/tags_priv.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/log.h"
#include "core/page.h"
#include "object/lane.h"
#include "object/op.h"

/* ---- memory of entries ---- */

#define SLAB_CNT	64u	/* buffers of a slab */

struct tagrv_tags_slab {
	struct tagrv_tags_slab *next;
	struct tagrv_mem *mem;
	char	*bytes;
};

/* A buffer that no entry has begins with this. */
struct tagrv_tags_bounce {
	struct tagrv_tags_bounce *next;
	struct tagrv_mem *mem;
};

static size_t stride(const struct tagrv_tags *tags)
{
	const size_t len = TAGRV_MAX(tags->bounce_len, sizeof(struct tagrv_tags_bounce));

	return (len + TAGRV_CACHE_LINE - 1) / TAGRV_CACHE_LINE * TAGRV_CACHE_LINE;
}

static void put_bounce(struct tagrv_tags *tags, struct tagrv_mem *mem, void *bytes)
{
	struct tagrv_tags_bounce *bounce = bytes;

	bounce->mem = mem;
	bounce->next = tags->free;
	tags->free = bounce;
}

static int fill_slab(struct tagrv_tags *tags, struct tagrv_tags_slab *slab)
{
	const size_t cnt = TAGRV_MIN(SLAB_CNT, tags->max_entries);
	/* A device pins whole pages, and a child of fork() may not have them: no other memory
	 * shares them. */
	const size_t page = tagrv_page_size();
	const size_t len = tagrv_page_end(cnt * stride(tags), page);
	int ret;

	slab->bytes = aligned_alloc(page, len);
	if (!slab->bytes)
		return -FI_ENOMEM;
	ret = tagrv_dom_mem_reg(tags->engine->dom, tags->xport->dev, slab->bytes, len,
				TAGRV_MEM_STORE, &slab->mem);
	if (ret) {
		free(slab->bytes);
		return ret;
	}
	for (size_t i = cnt; i-- > 0;)
		put_bounce(tags, slab->mem, slab->bytes + i * stride(tags));
	return 0;
}

static int grow(struct tagrv_tags *tags)
{
	struct tagrv_tags_slab *slab = calloc(1, sizeof(*slab));
	int ret = slab ? fill_slab(tags, slab) : -FI_ENOMEM;

	if (!ret) {
		slab->next = tags->slabs;
		tags->slabs = slab;
		return 0;
	}
	free(slab);
	if (!tags->told_memory)
		tagrv_info("no memory for an adapter's list of receives: some are matched in "
			   "software: %s (not logged again)\n", fi_strerror(-ret));
	tags->told_memory = true;
	return ret;
}

void tagrv_tags_free_bounces(struct tagrv_tags *tags)
{
	struct tagrv_tags_slab *slab;

	while ((slab = tags->slabs)) {
		tags->slabs = slab->next;
		slab->mem->dev->ops->mem_dereg(slab->mem);
		free(slab->bytes);
		free(slab);
	}
}

static int take_bounce(struct tagrv_tags *tags, struct tagrv_listed *listed)
{
	int ret = tags->free ? 0 : grow(tags);

	if (ret)
		return ret;
	listed->bounce = tags->free;
	listed->entry.mem = tags->free->mem;
	tags->free = tags->free->next;
	return 0;
}

static void drop_bounce(struct tagrv_tags *tags, struct tagrv_listed *listed)
{
	put_bounce(tags, listed->entry.mem, listed->bounce);
	listed->bounce = NULL;
}

/* ---- commands ---- */

static struct tagrv_listed *of_recv(struct tagrv_offload_recv *recv)
{
	return tagrv_container_of(recv, struct tagrv_listed, recv);
}

/* What a command has returned. */
static int outcome(struct tagrv_tags *tags, int ret)
{
	if (ret == -FI_EAGAIN)
		tags->starved = true;
	else
		tagrv_tags_note(tags, ret);
	return ret;
}

static int add(void *arg, struct tagrv_offload_recv *recv,
	       const struct tagrv_offload_entry *entry)
{
	struct tagrv_tags *tags = arg;
	struct tagrv_listed *listed = of_recv(recv);
	int ret;

	assert(!listed->bounce && !listed->entry.due);
	if (tagrv_tags_is_deaf(tags))
		return -FI_EIO;
	ret = take_bounce(tags, listed);
	if (ret)
		return -FI_ENOMEM;
	listed->entry.tag = entry->tag;
	listed->entry.mask = entry->mask;
	listed->entry.addr = listed->bounce;
	listed->entry.len = tags->bounce_len;
	ret = tags->list->ops->add(tags->list, &listed->entry, entry->count);
	if (ret) {
		drop_bounce(tags, listed);
		return outcome(tags, ret);
	}
	listed->slot = entry->slot;
	tags->slots[entry->slot] = listed;
	return 0;
}

static int del(void *arg, uint32_t slot)
{
	struct tagrv_tags *tags = arg;
	int ret;

	if (tagrv_tags_is_deaf(tags))
		return -FI_EIO;
	ret = tags->list->ops->del(tags->list, &tags->slots[slot]->entry);
	return ret == -FI_EALREADY ? ret : outcome(tags, ret);
}

static int tell_count(void *arg, uint32_t count)
{
	struct tagrv_tags *tags = arg;

	if (tagrv_tags_is_deaf(tags))
		return -FI_EIO;
	return outcome(tags, tags->list->ops->sync(tags->list, count));
}

static void gone(void *arg, uint32_t slot)
{
	struct tagrv_tags *tags = arg;
	struct tagrv_listed *listed = tags->slots[slot];

	tags->slots[slot] = NULL;
	if (TAGRV_UNLIKELY(listed->entry.due))
		return;		/* bytes may still be written: record and memory wait for close */
	drop_bounce(tags, listed);
	tagrv_tags_put_unused(tags, listed);
}

const struct tagrv_offload_ops tagrv_tags_offload_ops = {
	.add = add, .del = del, .sync = tell_count, .gone = gone,
};

/* ---- who has sent a message ---- */

static void find_sender(struct tagrv_listed *listed, struct tagrv_link *link)
{
	const struct tagrv_lane *lane = link ? link->ctx : NULL;
	struct tagrv_peer *peer = lane ? lane->entered : NULL;

	listed->link = lane ? NULL : link;
	if (!peer)
		return;
	listed->from = peer;
	listed->life = lane->life;
	listed->current = peer->lane == lane;
	if (!listed->current)
		return;
	tagrv_peer_note_message(peer);
	listed->seq = peer->rx_seq++;
}

/* ---- reports ---- */

static struct tagrv_tags *of_sink(struct tagrv_taglist_sink *sink)
{
	return tagrv_container_of(sink, struct tagrv_tags, sink);
}

static struct tagrv_listed *of_entry(struct tagrv_taglist_entry *entry)
{
	return tagrv_container_of(entry, struct tagrv_listed, entry);
}

/* Whether the report counts. */
static bool hear(struct tagrv_tags *tags)
{
	tagrv_assert_locked(tags->engine->dom);
	tags->due = true;
	tags->answers++;
	return !tagrv_tags_is_deaf(tags);
}

static void on_added(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		     bool sync_req)
{
	struct tagrv_tags *tags = of_sink(sink);

	if (hear(tags))
		tagrv_tags_note(tags, tagrv_offload_added(tags->offload, of_entry(entry)->slot,
							  sync_req));
}

static void end_cancelled(struct tagrv_tags *tags, struct tagrv_listed *listed)
{
	struct tagrv_op *op = listed->op;

	op->rx.listed = NULL;
	listed->op = NULL;
	tagrv_tags_put_unused(tags, listed);
	tags->ops->cancelled(tags, op);
}

static void on_deleted(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		       bool was_gone)
{
	struct tagrv_tags *tags = of_sink(sink);
	struct tagrv_offload_recv *recv;

	if (!hear(tags))
		return;
	tagrv_tags_note(tags, tagrv_offload_deleted(tags->offload, of_entry(entry)->slot,
						    !was_gone, &recv));
	if (recv)
		end_cancelled(tags, of_recv(recv));
}

/* A message has matched: the receive leaves the matcher. */
static void match(struct tagrv_tags *tags, struct tagrv_listed *listed)
{
	const struct tagrv_op *op;
	struct tagrv_match_recv *record;
	struct tagrv_offload_recv *recv;

	tagrv_tags_note(tags, tagrv_offload_consumed(tags->offload, listed->slot, &recv));
	if (!recv)
		return;
	op = listed->op;
	if (!recv->cancelled)
		tagrv_tags_note(tags, tagrv_match_cancel(op->rx.rx->match, op->rx.match_id,
							 &record));
	tagrv_list_push_tail(&tags->matched, &listed->matched);
}

static void on_consumed(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
			struct tagrv_link *link, uint64_t tag, uint32_t app, int status)
{
	struct tagrv_tags *tags = of_sink(sink);
	struct tagrv_listed *listed = of_entry(entry);

	if (!hear(tags))
		return;
	if (listed->link) {		/* it is attached now */
		find_sender(listed, link);
		return;
	}
	match(tags, listed);
	listed->tag = tag;
	listed->app = app;
	if (!status && !tags->error)
		find_sender(listed, link);
}

/* Why there is no message (-FI_E*), or 0. */
static int status_of(const struct tagrv_listed *listed, int status)
{
	if (status > 0)
		return -FI_EREMOTEIO;	/* a rendezvous of the device: no peer makes one */
	return status || listed->from ? status : -FI_EREMOTEIO;
}

static void on_data(struct tagrv_taglist_sink *sink, struct tagrv_taglist_entry *entry,
		    size_t len, int status)
{
	struct tagrv_tags *tags = of_sink(sink);
	struct tagrv_listed *listed = of_entry(entry);
	struct tagrv_offload_recv *recv;
	struct tagrv_op *op = listed->op;

	if (!hear(tags))
		return;
	if (!tagrv_list_linked(&listed->matched)) {
		tagrv_tags_note(tags, -FI_EIO);
		return;
	}
	if (listed->link && !status)
		find_sender(listed, listed->link);
	status = status_of(listed, status);
	tagrv_list_remove(&listed->matched);
	op->rx.listed = NULL;
	op->status = 0;
	tags->ops->arrived(tags, listed, op, status ? NULL : listed->bounce,
			   status ? 0 : len, status);
	/* Not before: the bytes are free then. */
	tagrv_tags_note(tags, tagrv_offload_data(tags->offload, listed->slot, &recv));
	listed->op = NULL;
	tagrv_tags_put_unused(tags, listed);
}

static void on_synced(struct tagrv_taglist_sink *sink)
{
	struct tagrv_tags *tags = of_sink(sink);

	if (hear(tags))
		tagrv_tags_note(tags, tagrv_offload_synced(tags->offload));
}

static void on_unexpected(struct tagrv_taglist_sink *sink)
{
	struct tagrv_tags *tags = of_sink(sink);

	tags->unexpected++;
	if (!tagrv_tags_is_deaf(tags))
		tagrv_offload_seen(tags->offload);
}

static void on_handled(struct tagrv_taglist_sink *sink)
{
	struct tagrv_tags *tags = of_sink(sink);

	tags->handled++;
	tags->due = true;
	if (!tagrv_tags_is_deaf(tags))
		tagrv_offload_unexpected(tags->offload);
}

static void on_room(struct tagrv_taglist_sink *sink)
{
	struct tagrv_tags *tags = of_sink(sink);

	tags->starved = false;
	tags->due = true;
}

static void on_fatal(struct tagrv_taglist_sink *sink, int status)
{
	tagrv_tags_note(of_sink(sink), status);
}

const struct tagrv_taglist_sink tagrv_tags_sink = {
	.added = on_added, .deleted = on_deleted, .consumed = on_consumed, .data = on_data,
	.synced = on_synced, .unexpected = on_unexpected, .handled = on_handled,
	.room = on_room, .fatal = on_fatal,
};
