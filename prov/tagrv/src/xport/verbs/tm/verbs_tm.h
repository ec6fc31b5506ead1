/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A list of posted receives in an RDMA device: a shared receive queue of type IBV_SRQT_TM,
 * with an extended completion queue of its own. The contract is xport/taglist.h.
 *
 *   queue pairs -- packets --> TM SRQ --+--> entry's memory     matched
 *                                       \--> receive buffer     all else: 'receive'
 *
 * The queue pairs are the owner's, but the device sends by them: READ and FIN of a rendezvous.
 *
 * wr_id tells of what a completion is, because nothing else is valid in one that failed.
 */
#ifndef TAGRV_XPORT_VERBS_TM_VERBS_TM_H
#define TAGRV_XPORT_VERBS_TM_VERBS_TM_H

#include "xport/verbs/verbs_list.h"

#define VERBS_TM_BATCH		16u	/* completions read before they are handled */
/* Unexpected messages that are not handled, early packets among them, must be fewer than
 * 2^16: the device compares so many bits of their count. */
#define VERBS_TM_BUFS_MOST	(1u << 15)

/* Upper three bits of a wr_id. A buffer's is that of its queue (verbs_buf.c). */
enum verbs_tm_kind {
	VERBS_TM_BUF,
	VERBS_TM_ENTRY,		/* a message, then its data */
	VERBS_TM_ADD,		/* commands */
	VERBS_TM_DEL,
	VERBS_TM_SYNC,
};

#define VERBS_TM_KIND_SHIFT	61
#define VERBS_TM_TURN_MASK	0x1fffffffu	/* the 29 bits below */

/* What an entry's number, the lower half of a wr_id, stands for. */
struct verbs_tm_slot {
	struct tagrv_taglist_entry *entry;	/* NULL: free */
	uint32_t turn;		/* counts its entries: the bits above the number */
	uint32_t next;		/* the next free one */
	bool	taken;		/* a completion of a message was read, if not handled */
	/* of a message, from consumed until its data */
	struct tagrv_link *link;	/* NULL: not known */
	int	status;			/* -FI_E*: the data are of no use when they come */
	bool	kept;			/* the link is not attached yet */
	bool	lost;			/* the data never come, and the slot is not used again */
	bool	has_data;		/* kept, and the data have come: */
	uint32_t len;
	uint32_t app;
	uint64_t tag;
};

/* A completion, as read: if it failed, wr_id and status alone are valid. */
struct verbs_tm_wc {
	uint64_t wr_id;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	unsigned flags;
	uint32_t len, qpn, imm;
	struct ibv_wc_tm_info tm;
};

struct verbs_tm {
	struct tagrv_taglist base;
	const struct tagrv_verbs_calls *calls;
	struct verbs_dev *dev;
	struct ibv_cq_ex *cq;
	struct verbs_rxq *rxq;		/* rxq->srq has the list */
	verbs_list_receive_fn receive;
	verbs_list_permit_fn permit;
	verbs_list_match_fn match;
	verbs_list_keep_fn keep;
	void	*owner;			/* for all */
	unsigned unacked;		/* events to acknowledge */
	struct verbs_tm_wc *held;	/* held_cnt completions that were read, from held_pos on */
	uint32_t held_pos, held_cnt, held_cap;
	struct verbs_tm_slot *slots;	/* base.max_entries */
	uint32_t first_free;		/* base.max_entries: none */
	uint32_t ops, max_ops;		/* commands in flight */
	bool	starved;		/* a call returned -FI_EAGAIN: room is due */
	bool	freed;			/* an entry or command has ended since */
	int	fatal;			/* -FI_E*, 0: alive */
	bool	told_fatal;
	uint32_t lost;			/* slots that are not used again */
	uint64_t stale;			/* completions of which nothing is known */
};

static inline struct verbs_tm *verbs_tm_of(struct tagrv_taglist *list)
{
	return tagrv_container_of(list, struct verbs_tm, base);
}

/* verbs_tm.c: as in struct verbs_list_ops */
int tagrv_verbs_tm_open(struct verbs_dev *dev, const struct verbs_list_attr *attr,
			struct tagrv_taglist **out) TAGRV_WARN_UNUSED;
/* All queue pairs are destroyed. */
void tagrv_verbs_tm_close(struct tagrv_taglist *list);
int tagrv_verbs_tm_qp_create(struct tagrv_taglist *list, void *ctx, struct ibv_qp **qp)
	TAGRV_WARN_UNUSED;
/* The list has failed: the next progress says so. */
void tagrv_verbs_tm_fail(struct verbs_tm *tm, int status);

/* verbs_tm_command.c: as in taglist.h */
int tagrv_verbs_tm_add(struct tagrv_taglist *list, struct tagrv_taglist_entry *entry,
		       uint32_t count);
int tagrv_verbs_tm_del(struct tagrv_taglist *list, struct tagrv_taglist_entry *entry);
int tagrv_verbs_tm_sync(struct tagrv_taglist *list, uint32_t count);
/* Gives back an entry's slot if nothing of it is due any more. */
void tagrv_verbs_tm_release(struct verbs_tm *tm, struct tagrv_taglist_entry *entry);

/* verbs_tm_poll.c */
int tagrv_verbs_tm_progress(struct tagrv_taglist *list);
/* Handles one completion. */
void tagrv_verbs_tm_handle(struct verbs_tm *tm, const struct verbs_tm_wc *c);

/* verbs_tm_match.c: messages that entries took */
void tagrv_verbs_tm_on_entry(struct verbs_tm *tm, struct tagrv_taglist_entry *entry,
			     const struct verbs_tm_wc *c);
/* The slot that a wr_id names, and its entry. NULL: none has it any more. */
struct verbs_tm_slot *tagrv_verbs_tm_find_slot(const struct verbs_tm *tm, uint64_t wr_id);
struct tagrv_taglist_entry *tagrv_verbs_tm_find(const struct verbs_tm *tm, uint64_t wr_id);
/* As in struct verbs_list_ops: */
void tagrv_verbs_tm_deliver(struct tagrv_taglist *list, uint64_t key);
void tagrv_verbs_tm_end(struct tagrv_taglist *list, const struct tagrv_link *link);

/* verbs_tm_read.c: completions, some of which are read before progress handles them. */
/* 0 or -FI_E*. */
int tagrv_verbs_tm_status(enum ibv_wc_status status);
/* Reads up to VERBS_TM_BATCH, those held first; fewer: there are no more. */
unsigned tagrv_verbs_tm_next(struct verbs_tm *tm, struct verbs_tm_wc *c);
/* The packet of a completion of a receive buffer. */
struct verbs_list_packet tagrv_verbs_tm_packet(const struct verbs_tm *tm,
					       const struct verbs_tm_wc *c);
/* Posts receive buffers that are idle. */
void tagrv_verbs_tm_refill(struct verbs_tm *tm);
/* As in struct verbs_list_ops: */
void tagrv_verbs_tm_reap(struct tagrv_taglist *list);
bool tagrv_verbs_tm_event(struct tagrv_taglist *list, const struct ibv_cq *cq);
int tagrv_verbs_tm_arm(struct tagrv_taglist *list) TAGRV_WARN_UNUSED;

#endif
