/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Commands to an adapter's list, and their completions: see offload.h.
 *
 * Commands are carried out in order, and the adapter makes new entries active only when it
 * is told as many unexpected messages as it has counted. So what software matched with
 * an entry that was not active is safe if the del comes before the count that
 * includes the message. Therefore nothing that tells a count is posted while a del waits.
 */
#include "match/offload/offload_priv.h"

#include <assert.h>
#include <rdma/fi_errno.h>

/* The adapter compares 16 bits: it is told at least so often. */
#define COUNT_LAG	(1u << 14)

/* ---- slots ---- */

static uint32_t number_of(const struct tagrv_offload *off, const struct tagrv_offload_slot *slot)
{
	return (uint32_t) (slot - off->slots);
}

static void release(struct tagrv_offload *off, struct tagrv_offload_slot *slot)
{
	if (slot->state != TAGRV_SLOT_ENDED || slot->add_due || slot->del_due)
		return;
	slot->state = TAGRV_SLOT_FREE;
	tagrv_list_push_tail(&off->free, &slot->node);
	off->again = true;
	off->ops->gone(off->arg, number_of(off, slot));
}

/* The slot has no receive any longer. Returns the one that it had. */
static struct tagrv_offload_recv *end(struct tagrv_offload *off, struct tagrv_offload_slot *slot)
{
	struct tagrv_offload_recv *recv = slot->recv;

	if (recv)
		recv->slot = TAGRV_OFFLOAD_NONE;
	slot->recv = NULL;
	tagrv_offload_known(off, slot);
	slot->state = TAGRV_SLOT_ENDED;
	release(off, slot);
	return recv;
}

/* ---- commands ---- */

/* A message was faster than the del, which was not posted; consumed() will tell of it. */
static int forestalled(struct tagrv_offload *off, struct tagrv_offload_slot *slot)
{
	if (slot->state == TAGRV_SLOT_TAKEN)
		return -FI_EIO;
	off->stats.late++;
	slot->del_due = false;
	return 0;
}

/* Returns 0, -FI_EAGAIN: a del waits; or an error. */
static int post_dels(struct tagrv_offload *off)
{
	struct tagrv_list *node;
	int ret;

	while ((node = tagrv_list_first(&off->dels))) {
		struct tagrv_offload_slot *slot = (struct tagrv_offload_slot *) node;

		/* A message was faster than the del. */
		if (slot->state == TAGRV_SLOT_CONSUMED || slot->state == TAGRV_SLOT_ENDED) {
			slot->del_due = false;
		} else {
			ret = off->ops->del(off->arg, number_of(off, slot));
			if (ret == -FI_EALREADY)
				ret = forestalled(off, slot);
			if (ret)
				return ret;
		}
		tagrv_list_remove(node);
		slot->queued = false;
		release(off, slot);
	}
	return 0;
}

void tagrv_offload_want_del(struct tagrv_offload *off, struct tagrv_offload_slot *slot)
{
	slot->del_due = true;
	slot->queued = true;
	tagrv_list_push_tail(&off->dels, &slot->node);
	(void) post_dels(off);	/* flush() tries again, and returns the error */
}

static struct tagrv_offload_entry entry_of(const struct tagrv_offload *off,
					   const struct tagrv_offload_recv *recv, uint32_t slot)
{
	const uint64_t tags = (1ull << TAGRV_OFFLOAD_TAG_BITS) - 1;
	struct tagrv_offload_entry entry = {
		.slot = slot, .count = off->handled, .mask = ~recv->ignore & tags,
	};

	entry.tag = recv->tag & entry.mask;
	if (recv->source) {
		entry.tag |= (uint64_t) recv->source->number << TAGRV_OFFLOAD_TAG_BITS;
		entry.mask |= (uint64_t) (TAGRV_OFFLOAD_SOURCES & ~TAGRV_OFFLOAD_LIFE) <<
			      TAGRV_OFFLOAD_TAG_BITS;
	}
	return entry;
}

bool tagrv_offload_try_add(struct tagrv_offload *off, struct tagrv_offload_recv *recv, bool *full)
{
	struct tagrv_offload_slot *slot =
		(struct tagrv_offload_slot *) tagrv_list_first(&off->free);
	struct tagrv_offload_entry entry;
	int ret;

	*full = true;
	if (!slot)
		return false;	/* the next one that is free starts another pass */
	if (!tagrv_list_empty(&off->dels))
		goto later;
	entry = entry_of(off, recv, number_of(off, slot));
	ret = off->ops->add(off->arg, recv, &entry);
	if (ret == -FI_EAGAIN)
		goto later;
	if (ret) {
		*full = false;
		recv->able = false;
		return false;
	}
	tagrv_list_remove(&slot->node);
	*slot = (struct tagrv_offload_slot) {
		.recv = recv, .add_no = ++off->commands, .told = off->handled,
		.state = TAGRV_SLOT_LISTED, .add_due = true,
	};
	tagrv_list_init(&slot->node);
	off->told = off->handled;
	off->last_add = slot->add_no;
	recv->slot = entry.slot;
	off->stats.added++;
	return true;

later:
	off->again = true;
	return false;
}

/*
 * Tells the count if an entry may be inactive without it. One sync is outstanding at most,
 * whatever the rate of unexpected messages.
 */
static bool is_sync_due(const struct tagrv_offload *off)
{
	uint32_t lag = off->handled - off->told;

	return lag && !off->sync_no && (off->last_add > off->sure || lag >= COUNT_LAG);
}

static int post_sync(struct tagrv_offload *off)
{
	int ret;

	if (!is_sync_due(off))
		return 0;
	ret = off->ops->sync(off->arg, off->handled);
	if (ret)
		return ret;
	off->told = off->handled;
	off->sync_no = ++off->commands;
	off->sync_count = off->handled;
	off->stats.syncs++;
	return 0;
}

int tagrv_offload_flush(struct tagrv_offload *off)
{
	int ret = post_dels(off);

	if (!ret) {
		tagrv_offload_promote(off);
		ret = post_sync(off);
	}
	return ret == -FI_EAGAIN ? 0 : ret;
}

bool tagrv_offload_is_idle(const struct tagrv_offload *off)
{
	return tagrv_list_empty(&off->dels) && !is_sync_due(off) &&
	       !(off->live && (off->walk || off->again));
}

void tagrv_offload_seen(struct tagrv_offload *off)
{
	off->seen++;
}

void tagrv_offload_unexpected(struct tagrv_offload *off)
{
	assert(off->handled != off->seen);
	off->handled++;
	if (!off->live) {
		off->live = true;
		off->again = true;
	}
}

/* ---- completions ---- */

static struct tagrv_offload_slot *slot_of(struct tagrv_offload *off, uint32_t number)
{
	return number < off->slot_cnt ? &off->slots[number] : NULL;
}

int tagrv_offload_added(struct tagrv_offload *off, uint32_t number, bool sync_req)
{
	struct tagrv_offload_slot *slot = slot_of(off, number);

	if (!slot || !slot->add_due)
		return -FI_EIO;
	slot->add_due = false;
	/* The adapter has counted no more than it was told: this and older ones are active. */
	if (!sync_req && slot->told == off->seen && slot->add_no > off->sure)
		off->sure = slot->add_no;
	release(off, slot);
	return 0;
}

int tagrv_offload_synced(struct tagrv_offload *off)
{
	if (!off->sync_no)
		return -FI_EIO;
	if (off->sync_count == off->seen && off->sync_no > off->sure)
		off->sure = off->sync_no;
	off->sync_no = 0;
	return 0;
}

/* The entry is out of the list, and no message has matched it. */
static int really_deleted(struct tagrv_offload *off, struct tagrv_offload_slot *slot,
			  struct tagrv_offload_recv **recv)
{
	switch (slot->state) {
	case TAGRV_SLOT_RECALLED:
		end(off, slot);	/* it is among those in software already */
		off->again = true;
		return 0;
	case TAGRV_SLOT_CANCELLED:
		*recv = end(off, slot);
		return 0;
	case TAGRV_SLOT_TAKEN:
		end(off, slot);
		return 0;
	default:
		return -FI_EIO;
	}
}

int tagrv_offload_deleted(struct tagrv_offload *off, uint32_t number, bool ok,
			  struct tagrv_offload_recv **recv)
{
	struct tagrv_offload_slot *slot = slot_of(off, number);

	*recv = NULL;
	if (!slot || !slot->del_due || slot->queued)
		return -FI_EIO;
	slot->del_due = false;
	if (ok)
		return really_deleted(off, slot, recv);
	/* A message has matched the entry, which consumed() has told or will tell. */
	off->stats.late++;
	if (slot->state == TAGRV_SLOT_TAKEN)
		return -FI_EIO;
	release(off, slot);
	return 0;
}

int tagrv_offload_consumed(struct tagrv_offload *off, uint32_t number,
			   struct tagrv_offload_recv **recv)
{
	struct tagrv_offload_slot *slot = slot_of(off, number);

	*recv = NULL;
	if (!slot)
		return -FI_EIO;
	switch (slot->state) {
	case TAGRV_SLOT_LISTED:
		tagrv_list_remove(&slot->recv->node);
		off->listed_cnt--;
		break;
	case TAGRV_SLOT_RECALLED:
		tagrv_offload_harden(off, slot->recv);
		break;
	case TAGRV_SLOT_CANCELLED:
		break;
	default:
		return -FI_EIO;
	}
	tagrv_offload_known(off, slot);
	slot->state = TAGRV_SLOT_CONSUMED;
	off->stats.consumed++;
	*recv = slot->recv;
	return 0;
}

int tagrv_offload_data(struct tagrv_offload *off, uint32_t number,
		       struct tagrv_offload_recv **recv)
{
	struct tagrv_offload_slot *slot = slot_of(off, number);

	*recv = NULL;
	if (!slot || slot->state != TAGRV_SLOT_CONSUMED)
		return -FI_EIO;
	*recv = end(off, slot);
	return 0;
}
