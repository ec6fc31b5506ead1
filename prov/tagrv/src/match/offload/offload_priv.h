/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of the adapter's list share: offload.c decides about receives,
 * offload_list.c speaks with the adapter.
 */
#ifndef TAGRV_MATCH_OFFLOAD_OFFLOAD_PRIV_H
#define TAGRV_MATCH_OFFLOAD_OFFLOAD_PRIV_H

#include "match/offload/offload.h"

/* States of a slot; drawn in offload.h. */
enum tagrv_offload_state {
	TAGRV_SLOT_FREE,
	TAGRV_SLOT_LISTED,	/* add posted; no del wanted */
	TAGRV_SLOT_RECALLED,	/* del wanted; the receive is among those in software */
	TAGRV_SLOT_CANCELLED,	/* del wanted; the matcher has not got the receive */
	TAGRV_SLOT_TAKEN,	/* del wanted; no receive */
	TAGRV_SLOT_CONSUMED,	/* a message matched; data is due */
	TAGRV_SLOT_ENDED,	/* no receive; completions of commands may be due */
};

struct tagrv_offload_slot {
	struct tagrv_list node;	/* of free slots, or of those whose del is to be posted */
	struct tagrv_offload_recv *recv;
	uint64_t add_no;	/* number of its add among adds and syncs */
	uint32_t told;		/* with its add */
	uint8_t	state;
	bool	add_due, del_due;	/* completions that are to come */
	bool	queued;		/* on the list of dels to be posted */
	bool	awaited;	/* messages from outside wait for it */
};

/*
 * 'listed' has the receives of slots LISTED in the order of their adds. 'soft' has all
 * others that the matcher keeps, in the order of posts.
 */
struct tagrv_offload {
	const struct tagrv_offload_ops *ops;
	void	*arg;
	struct tagrv_offload_slot *slots;
	uint32_t slot_cnt;
	struct tagrv_list free, dels;
	struct tagrv_list listed, soft;
	uint32_t listed_cnt, soft_cnt;
	uint32_t soft_any;	/* of them without a source */
	uint32_t outside;	/* peers that do not come through the adapter */
	uint32_t awaited;	/* slots */
	uint64_t seq;		/* posts */
	bool	live;		/* an unexpected message has come */

	/* Counts of unexpected messages, which wrap. */
	uint32_t seen;		/* reported by the adapter */
	uint32_t handled;	/* of them, by software */
	uint32_t told;		/* to the adapter, last */
	/* Adds and syncs, numbered. */
	uint64_t commands;
	uint64_t last_add;
	uint64_t sure;		/* entries up to this one are active */
	uint64_t sync_no;	/* outstanding sync; 0: none */
	uint32_t sync_count;

	/* The pass over receives in software, which may take several calls. */
	struct tagrv_list *walk;	/* next one; NULL: no pass goes on */
	uint32_t pass;
	bool	left;		/* the pass has left a receive in software */
	bool	again;		/* something has changed: another pass is due */

	struct tagrv_offload_stats stats;
};

static inline struct tagrv_offload_recv *tagrv_offload_recv_of(struct tagrv_list *node)
{
	return (struct tagrv_offload_recv *) node;	/* its first field */
}

/* Posts an add. Returns false: it stays in software; *full: and so would others. Does not
 * touch the lists of receives. */
bool tagrv_offload_try_add(struct tagrv_offload *off, struct tagrv_offload_recv *recv,
			   bool *full);

/* Wants the entry out of the list: posts a del now or in flush(). */
void tagrv_offload_want_del(struct tagrv_offload *off, struct tagrv_offload_slot *slot);

/* The receive is no longer among those in software; younger ones may go to the list now. */
void tagrv_offload_harden(struct tagrv_offload *off, struct tagrv_offload_recv *recv);

/* Messages from outside need not wait for this slot any longer. */
static inline void tagrv_offload_known(struct tagrv_offload *off,
				       struct tagrv_offload_slot *slot)
{
	off->awaited -= slot->awaited;
	slot->awaited = false;
}

/* Adds receives in software to the list, as far as the rules allow. */
void tagrv_offload_promote(struct tagrv_offload *off);

#endif
