/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tags: opening and closing, receives, and the loss of the list. See tags.h.
 */
#include "object/tags_priv.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/log.h"
#include "object/lane.h"
#include "object/op.h"

/* ---- life ---- */

static int open_all(struct tagrv_tags *tags, struct tagrv_taglist *list)
{
	int ret = tagrv_offload_create(list->max_entries, &tagrv_tags_offload_ops, tags,
				       &tags->offload);

	if (ret)
		return ret;
	tags->slots = calloc(list->max_entries, sizeof(struct tagrv_listed *));
	return tags->slots ? 0 : -FI_ENOMEM;
}

int tagrv_tags_open(struct tagrv_engine *engine, struct tagrv_xport *xport, size_t buf_size,
		    const struct tagrv_tags_ops *ops, struct tagrv_tags **out)
{
	const size_t words = TAGRV_TAGLIST_WORDS * sizeof(uint64_t);
	struct tagrv_tags *tags = calloc(1, sizeof(*tags));
	int ret;

	assert(xport->list && buf_size > words);
	if (!tags)
		return -FI_ENOMEM;
	tags->engine = engine;
	tags->xport = xport;
	tags->ops = ops;
	tags->sink = tagrv_tags_sink;
	tags->bounce_len = buf_size - words;
	tags->max_entries = xport->list->max_entries;
	tags->stand_in.recv.slot = TAGRV_OFFLOAD_NONE;
	tagrv_pool_init(&tags->pool, sizeof(struct tagrv_listed), TAGRV_POOL_TOP);
	tagrv_list_init(&tags->matched);
	tagrv_list_init(&tags->waiting);
	ret = open_all(tags, xport->list);
	if (ret) {
		tagrv_tags_close(tags);
		return ret;
	}
	tags->list = xport->list;
	tags->list->sink = &tags->sink;
	*out = tags;
	return 0;
}

void tagrv_tags_close(struct tagrv_tags *tags)
{
	if (!tags)
		return;
	tagrv_tags_free_bounces(tags);
	tagrv_offload_destroy(tags->offload);
	tagrv_pool_fini(&tags->pool);
	free(tags->slots);
	free(tags);
}

void tagrv_tags_note(struct tagrv_tags *tags, int ret)
{
	if (!ret || tags->error)
		return;
	tags->error = ret;
	tags->due = true;
}

/* ---- receives ---- */

void tagrv_tags_put_unused(struct tagrv_tags *tags, struct tagrv_listed *listed)
{
	if (!listed->op && !listed->bounce)
		tagrv_pool_put(&tags->pool, listed);
}

/* There is no memory for a record. */
static TAGRV_COLD void stand_in(struct tagrv_tags *tags, struct tagrv_op *op)
{
	op->rx.listed = &tags->stand_in;
	if (tags->stood_for++)
		return;
	tags->stand_in.recv = (struct tagrv_offload_recv) { .able = false };
	tagrv_offload_post(tags->offload, &tags->stand_in.recv);
}

/* A receive without a record is the caller's. The list may be lost. */
static void end_stand_in(struct tagrv_tags *tags)
{
	if (--tags->stood_for || !tags->list)
		return;
	tagrv_offload_take(tags->offload, &tags->stand_in.recv);
	tags->due = true;
}

void tagrv_tags_post(struct tagrv_tags *tags, struct tagrv_op *op, struct tagrv_peer *peer,
		     uint64_t ignore)
{
	struct tagrv_listed *listed;

	tagrv_assert_locked(tags->engine->dom);
	if (!tags->list)
		return;
	listed = tagrv_pool_get(&tags->pool);
	tags->due = true;
	if (TAGRV_UNLIKELY(!listed)) {
		stand_in(tags, op);
		return;
	}
	listed->recv = (struct tagrv_offload_recv) {
		.source = peer ? &peer->listed : NULL, .tag = op->tag, .ignore = ignore,
		.able = !op->rx.multi,
	};
	listed->entry.due = 0;
	listed->op = op;
	listed->bounce = NULL;
	listed->from = NULL;
	listed->link = NULL;
	tagrv_list_init(&listed->matched);
	op->rx.listed = listed;
	tagrv_offload_post(tags->offload, &listed->recv);
}

/* The op has no record any more; the record may still be the list's. */
static void part(struct tagrv_tags *tags, struct tagrv_op *op)
{
	struct tagrv_listed *listed = op->rx.listed;

	op->rx.listed = NULL;
	listed->op = NULL;
	tagrv_tags_put_unused(tags, listed);
}

void tagrv_tags_take(struct tagrv_tags *tags, struct tagrv_op *op)
{
	tagrv_assert_locked(tags->engine->dom);
	if (TAGRV_UNLIKELY(op->rx.listed == &tags->stand_in)) {
		op->rx.listed = NULL;
		end_stand_in(tags);
		return;
	}
	tagrv_offload_take(tags->offload, &op->rx.listed->recv);
	tags->due = true;
	part(tags, op);
}

int tagrv_tags_cancel(struct tagrv_tags *tags, struct tagrv_op *op, int status)
{
	int ret;

	tagrv_assert_locked(tags->engine->dom);
	op->status = status;
	if (TAGRV_UNLIKELY(op->rx.listed == &tags->stand_in)) {
		op->rx.listed = NULL;
		end_stand_in(tags);
		return 0;
	}
	ret = tagrv_offload_cancel(tags->offload, &op->rx.listed->recv);
	tags->due = true;
	if (!ret)
		part(tags, op);
	return ret;
}

/* ---- loss ---- */

/* The list has no receive any more, whatever it says. Its records stay until close. */
static void end_receive(struct tagrv_tags *tags, struct tagrv_listed *listed, int status)
{
	struct tagrv_op *op = listed->op;

	if (!op)
		return;
	listed->op = NULL;
	op->rx.listed = NULL;
	if (tagrv_list_linked(&listed->matched)) {
		tagrv_list_remove(&listed->matched);
		op->status = 0;
		tags->ops->arrived(tags, listed, op, NULL, 0, status);
	} else if (listed->recv.cancelled) {
		tags->ops->cancelled(tags, op);
	}
}

static void fail_lanes(struct tagrv_tags *tags, int status)
{
	struct tagrv_list *node, *tmp;

	tagrv_list_for_each_safe(&tags->engine->conn.lanes, node, tmp) {
		struct tagrv_lane *lane = tagrv_container_of(node, struct tagrv_lane, node);

		if (lane->link->xport == tags->xport)
			tagrv_lane_fail(lane, status, true);
	}
}

void tagrv_tags_lose(struct tagrv_tags *tags, int status)
{
	tagrv_assert_locked(tags->engine->dom);
	if (!tags->list)
		return;
	tagrv_warn("an adapter's list of receives is lost: %s; its connections end, and tagged "
		   "messages of an endpoint are matched in software from now on\n",
		   fi_strerror(-status));
	tags->error = status;
	tags->list = NULL;
	/* The wireup thread looks at it, too. */
	__atomic_store_n(&tags->xport->list, NULL, __ATOMIC_RELEASE);
	while (tagrv_list_pop(&tags->waiting))
		;
	for (size_t i = 0; i < tagrv_pool_capacity(&tags->pool); i++) {
		struct tagrv_listed *listed = tagrv_pool_at(&tags->pool, (uint32_t) i);

		if (listed->node.used)
			end_receive(tags, listed, status);
	}
	fail_lanes(tags, status);
}

/* ---- the rest ---- */

static void flush(struct tagrv_tags *tags)
{
	tags->due = false;
	if (!tags->list)
		return;
	tags->starved = false;
	if (!tags->error) {
		tagrv_tags_let_go(tags);
		tagrv_tags_enter_waiting(tags);
		tagrv_tags_note(tags, tagrv_offload_flush(tags->offload));
	}
	if (tags->error)
		tagrv_tags_lose(tags, tags->error);
	else
		tags->due = !tagrv_offload_is_idle(tags->offload);
}

void tagrv_tags_flush(struct tagrv_tags *tags)
{
	tagrv_assert_locked(tags->engine->dom);
	if (tags->due)
		flush(tags);
}

bool tagrv_tags_is_busy(const struct tagrv_tags *tags)
{
	return tags->due && (tags->error || !tags->starved);
}

bool tagrv_tags_is_deaf(const struct tagrv_tags *tags)
{
	return tags->error || !tags->list;
}

bool tagrv_tags_awaits(const struct tagrv_tags *tags, const struct tagrv_peer *peer)
{
	struct tagrv_list *node;

	tagrv_list_for_each(&tags->matched, node)
		if (tagrv_container_of(node, struct tagrv_listed, matched)->from == peer)
			return true;
	return false;
}

void tagrv_tags_get_counts(const struct tagrv_tags *tags, struct tagrv_tags_counts *counts)
{
	*counts = (struct tagrv_tags_counts) {
		.unexpected = tags->unexpected, .handled = tags->handled,
		.outside = tags->outside,
	};
	tagrv_offload_get_stats(tags->offload, &counts->offload);
	if (!tags->list)
		return;
	counts->entries = tags->max_entries;
	counts->listed = tagrv_offload_listed(tags->offload);
	counts->soft = tagrv_offload_soft(tags->offload) + tags->stood_for - !!tags->stood_for;
}
