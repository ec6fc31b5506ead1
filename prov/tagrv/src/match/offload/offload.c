/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which receives may be in an adapter's list: see offload.h.
 *
 * The rule: a receive may be added only if no older receive that is in software could match
 * a message that it matches. Tags are not compared for this: receives of two sources
 * never match the same message, all others might. A receive from any source also
 * needs that every peer's messages come through the adapter.
 *
 * Two receives that could match the same message are thus added in the order of their posts,
 * and come back in the reverse order.
 */
#include "match/offload/offload_priv.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

/* Receives that one flush() looks at. */
#define WALK_MAX	64

int tagrv_offload_create(uint32_t max_tags, const struct tagrv_offload_ops *ops, void *arg,
			 struct tagrv_offload **out)
{
	struct tagrv_offload *off = calloc(1, sizeof(*off));

	assert(max_tags);
	if (!off)
		return -FI_ENOMEM;
	off->ops = ops;
	off->arg = arg;
	off->slots = calloc(max_tags, sizeof(*off->slots));
	if (!off->slots) {
		free(off);
		return -FI_ENOMEM;
	}
	off->slot_cnt = max_tags;
	tagrv_list_init(&off->free);
	tagrv_list_init(&off->dels);
	tagrv_list_init(&off->listed);
	tagrv_list_init(&off->soft);
	for (uint32_t i = 0; i < max_tags; i++)
		tagrv_list_push_tail(&off->free, &off->slots[i].node);
	*out = off;
	return 0;
}

void tagrv_offload_destroy(struct tagrv_offload *off)
{
	if (!off)
		return;
	free(off->slots);
	free(off);
}

/* ---- receives in software ---- */

/* Puts a receive behind 'pos', and counts it. */
static void soften(struct tagrv_offload *off, struct tagrv_list *pos,
		   struct tagrv_offload_recv *recv)
{
	tagrv_list_insert_after(pos, &recv->node);
	off->soft_cnt++;
	if (recv->source)
		recv->source->soft++;
	else
		off->soft_any++;
}

static void unsoften(struct tagrv_offload *off, struct tagrv_offload_recv *recv)
{
	if (off->walk == &recv->node)
		off->walk = recv->node.next;
	tagrv_list_remove(&recv->node);
	off->soft_cnt--;
	if (recv->source)
		recv->source->soft--;
	else
		off->soft_any--;
}

void tagrv_offload_harden(struct tagrv_offload *off, struct tagrv_offload_recv *recv)
{
	unsoften(off, recv);
	off->again = true;	/* younger ones may go now */
}

static void enlist(struct tagrv_offload *off, struct tagrv_offload_recv *recv)
{
	tagrv_list_push_tail(&off->listed, &recv->node);
	off->listed_cnt++;
}

/* Whether the youngest receive of all may be added. */
static bool may_list(const struct tagrv_offload *off, const struct tagrv_offload_recv *recv)
{
	if (!off->live || !recv->able)
		return false;
	if (!recv->source)
		return !off->outside && !off->soft_cnt;
	return recv->source->number && !off->soft_any && !recv->source->soft;
}

void tagrv_offload_post(struct tagrv_offload *off, struct tagrv_offload_recv *recv)
{
	bool full;

	recv->seq = ++off->seq;
	recv->slot = TAGRV_OFFLOAD_NONE;
	recv->cancelled = false;
	if (may_list(off, recv) && tagrv_offload_try_add(off, recv, &full))
		enlist(off, recv);
	else
		soften(off, off->soft.prev, recv);
}

/*
 * Whether a receive in software may be added, when the pass has looked at all older ones.
 * A receive that has a slot still comes back from the list.
 */
static bool may_promote(const struct tagrv_offload *off, const struct tagrv_offload_recv *recv)
{
	if (!recv->able || recv->slot != TAGRV_OFFLOAD_NONE)
		return false;
	if (!recv->source)
		return !off->outside && !off->left;
	return recv->source->number && recv->source->blocked != off->pass;
}

/* Adds one receive in software. Returns false if the pass is to end here. */
static bool promote_one(struct tagrv_offload *off, struct tagrv_offload_recv *recv)
{
	bool full = false;

	if (may_promote(off, recv) && tagrv_offload_try_add(off, recv, &full)) {
		unsoften(off, recv);
		enlist(off, recv);
		off->stats.promoted++;
		return true;
	}
	off->left = true;
	if (recv->source)
		recv->source->blocked = off->pass;
	return recv->source && !full;	/* behind one from any source nothing may be added */
}

void tagrv_offload_promote(struct tagrv_offload *off)
{
	if (!off->live || (!off->walk && !off->again))
		return;
	if (!off->walk) {
		off->walk = off->soft.next;
		off->pass++;
		off->left = false;
		off->again = false;
	}
	for (unsigned i = 0; off->walk != &off->soft; i++) {
		struct tagrv_offload_recv *recv = tagrv_offload_recv_of(off->walk);

		if (i == WALK_MAX)
			return;
		off->walk = recv->node.next;
		if (!promote_one(off, recv))
			break;
	}
	off->walk = NULL;
}

/* ---- receives that the caller takes back ---- */

static void unlist(struct tagrv_offload *off, struct tagrv_offload_recv *recv)
{
	tagrv_list_remove(&recv->node);
	off->listed_cnt--;
}

void tagrv_offload_take(struct tagrv_offload *off, struct tagrv_offload_recv *recv)
{
	struct tagrv_offload_slot *slot;

	if (recv->slot == TAGRV_OFFLOAD_NONE) {
		tagrv_offload_harden(off, recv);
		return;
	}
	slot = &off->slots[recv->slot];
	assert(slot->state == TAGRV_SLOT_LISTED || slot->state == TAGRV_SLOT_RECALLED);
	recv->slot = TAGRV_OFFLOAD_NONE;
	slot->recv = NULL;
	off->stats.taken++;
	if (slot->state == TAGRV_SLOT_RECALLED) {
		tagrv_offload_harden(off, recv);
		tagrv_offload_known(off, slot);
		slot->state = TAGRV_SLOT_TAKEN;
		return;
	}
	unlist(off, recv);
	slot->state = TAGRV_SLOT_TAKEN;
	tagrv_offload_want_del(off, slot);
}

int tagrv_offload_cancel(struct tagrv_offload *off, struct tagrv_offload_recv *recv)
{
	struct tagrv_offload_slot *slot;

	if (recv->slot == TAGRV_OFFLOAD_NONE) {
		tagrv_offload_harden(off, recv);
		return 0;
	}
	slot = &off->slots[recv->slot];
	assert(slot->state == TAGRV_SLOT_LISTED || slot->state == TAGRV_SLOT_RECALLED);
	recv->cancelled = true;
	off->stats.cancelled++;
	if (slot->state == TAGRV_SLOT_RECALLED) {
		tagrv_offload_harden(off, recv);
		slot->state = TAGRV_SLOT_CANCELLED;
		return -FI_EINPROGRESS;
	}
	unlist(off, recv);
	slot->state = TAGRV_SLOT_CANCELLED;
	tagrv_offload_want_del(off, slot);
	return -FI_EINPROGRESS;
}

/* ---- peers ---- */

/* Inserts into the receives in software, in the order of posts. *pos: where the last one
 * was inserted. */
static void soften_at(struct tagrv_offload *off, struct tagrv_list **pos,
		      struct tagrv_offload_recv *recv)
{
	struct tagrv_list *at = *pos;

	while (at != &off->soft && tagrv_offload_recv_of(at)->seq > recv->seq)
		at = at->prev;
	while (at->next != &off->soft && tagrv_offload_recv_of(at->next)->seq < recv->seq)
		at = at->next;
	soften(off, at, recv);
	*pos = &recv->node;
}

static void await(struct tagrv_offload *off, struct tagrv_offload_slot *slot)
{
	off->awaited += !slot->awaited;
	slot->awaited = true;
}

/* All receives come back that were posted since 'seq', the youngest first. */
static void recall_since(struct tagrv_offload *off, uint64_t seq)
{
	struct tagrv_list *pos = off->soft.prev;
	struct tagrv_list *node = off->listed.prev;

	while (node != &off->listed) {
		struct tagrv_offload_recv *recv = tagrv_offload_recv_of(node);
		struct tagrv_offload_slot *slot = &off->slots[recv->slot];

		node = node->prev;
		if (recv->seq < seq)
			continue;
		unlist(off, recv);
		soften_at(off, &pos, recv);
		slot->state = TAGRV_SLOT_RECALLED;
		await(off, slot);
		off->stats.recalled++;
		tagrv_offload_want_del(off, slot);
	}
	off->walk = NULL;
	off->again = true;
}

/*
 * Receives from this source (NULL: from any) come back, and all younger ones. Those whose
 * cancel is under way are out already, or a message has matched them before: that must be
 * known before a message from elsewhere passes them.
 */
static void recall(struct tagrv_offload *off, const struct tagrv_offload_source *source)
{
	uint64_t oldest = UINT64_MAX;

	for (struct tagrv_list *node = off->listed.next; node != &off->listed; node = node->next) {
		const struct tagrv_offload_recv *recv = tagrv_offload_recv_of(node);

		if (recv->source == source && recv->seq < oldest)
			oldest = recv->seq;
	}
	if (oldest != UINT64_MAX)
		recall_since(off, oldest);
	for (uint32_t i = 0; i < off->slot_cnt; i++)
		if (off->slots[i].state == TAGRV_SLOT_CANCELLED &&
		    off->slots[i].recv->source == source)
			await(off, &off->slots[i]);
}

void tagrv_offload_enter(struct tagrv_offload *off, struct tagrv_offload_source *source,
			 uint16_t number)
{
	assert(number > TAGRV_OFFLOAD_LIFE && number <= TAGRV_OFFLOAD_SOURCES && !source->number);
	source->number = number & (uint16_t) ~TAGRV_OFFLOAD_LIFE;
	off->again = true;
}

void tagrv_offload_leave(struct tagrv_offload *off, struct tagrv_offload_source *source)
{
	source->number = 0;
	recall(off, source);
}

void tagrv_offload_outside(struct tagrv_offload *off, bool more)
{
	if (more) {
		off->outside++;
		recall(off, NULL);
	} else {
		assert(off->outside);
		off->outside--;
		off->again = true;
	}
}

bool tagrv_offload_settled(const struct tagrv_offload *off)
{
	return !off->awaited;
}

void tagrv_offload_get_stats(const struct tagrv_offload *off,
			     struct tagrv_offload_stats *stats)
{
	*stats = off->stats;
}

uint32_t tagrv_offload_listed(const struct tagrv_offload *off)
{
	return off->listed_cnt;
}

uint32_t tagrv_offload_soft(const struct tagrv_offload *off)
{
	return off->soft_cnt;
}
