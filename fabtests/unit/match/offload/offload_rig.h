/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint with an adapter's list, as far as matching goes: the matcher, the object that
 * decides about the list (match/offload/offload.h), an adapter (common/tag_list.h), and the naive
 * matcher that judges them.
 *
 *   rig_post(), rig_cancel() --> matcher, offload --> commands --> adapter
 *   rig_send()  from a peer behind the adapter ----> adapter --> completions
 *   rig_poll()  one completion --> offload, matcher    <------------+
 *   rig_send()  from another peer --> waits until settled --> matcher
 *   rig_keep()  what the adapter reports of a peer is handled later
 *
 * The naive matcher sees each post when it is made, and each message when software handles it
 * or hears of its match. It must choose the same receive. A receive whose cancel is under
 * way is in limbo: messages may pass it, but if one has that it would have matched it must
 * end as cancelled.
 */
#ifndef FABTESTS_UNIT_MATCH_OFFLOAD_OFFLOAD_RIG_H
#define FABTESTS_UNIT_MATCH_OFFLOAD_OFFLOAD_RIG_H

#include "common/match_model.h"
#include "common/tag_list.h"
#include "match/offload/offload_priv.h"

#define RIG_PEERS	8
#define RIG_TAGS	16	/* most entries of the list */
#define RIG_READS	RIG_TAGS
#define RIG_MTU		16
#define RIG_AHEAD	32	/* completions read before they are handled */

enum rig_state {
	RIG_POSTED, RIG_LIMBO, RIG_MATCHED, RIG_DONE, RIG_CANCELLED,
};

struct rig_recv {
	struct tagrv_offload_recv off;	/* first */
	struct tagrv_match_want want;
	tagrv_match_id id;
	uint64_t number, msg;
	enum rig_state state;
	bool	passed;		/* in limbo: a message went by */
};

struct rig_msg {
	uint64_t tag;
	uint32_t peer;
	uint64_t got_by;	/* number of a receive; 0: not yet */
	bool	handled;
};

/* What a send is like. */
enum rig_kind { RIG_SHORT, RIG_LONG, RIG_RNDV, RIG_RNDV_BIG };

struct rig {
	struct tagrv_match *match;
	struct tagrv_offload *off;
	struct tag_list *list;
	struct match_model model;
	struct tagrv_offload_source source[RIG_PEERS + 1];
	bool	outside[RIG_PEERS + 1];
	uint16_t number[RIG_PEERS + 1];	/* in messages of the peer, each of which may have
					   another TAGRV_OFFLOAD_LIFE; 0: it was never there */
	struct rig_recv *recvs;		/* number n is at n - 1 */
	struct rig_msg *msgs;
	uint64_t recv_cnt, msg_cnt, recv_max, msg_max;
	uint64_t limbo[RIG_TAGS];	/* numbers of receives */
	unsigned limbo_cnt;
	uint64_t *waiting;		/* messages of outside peers */
	uint64_t wait_first, wait_cnt;
	bool	keep[RIG_PEERS + 1];
	uint64_t *kept;			/* unexpected messages of such peers */
	uint64_t kept_cnt;
	uint8_t	buf[RIG_TAGS][64];	/* of entries */
	uint64_t in_buf[RIG_TAGS];	/* message that matched; 0: none */
	bool	in_use[RIG_TAGS];
	uint32_t handle[RIG_TAGS];	/* the adapter's */
	struct tag_list_read reads[RIG_READS];
	uint64_t read_msg[RIG_READS];
	unsigned read_cnt;
	struct tag_list_record ahead[RIG_AHEAD];	/* ahead_cnt of them, the oldest first */
	unsigned ahead_cnt;
	unsigned refuse;		/* the next so many commands find no room */
	const char *name;		/* of the run, for messages */
	uint64_t seed, step;
};

/* All memory is taken here. Peers are 1 to RIG_PEERS; none has entered. */
void rig_init(struct rig *rig, uint32_t max_tags, uint32_t max_ops, uint64_t recv_max,
	      uint64_t msg_max);
void rig_fini(struct rig *rig);

/* Fails the test. */
void rig_fail(const struct rig *rig, const char *what);

static inline void rig_check(const struct rig *rig, bool ok, const char *what)
{
	if (__builtin_expect(!ok, 0))
		rig_fail(rig, what);
}

/* A receive. Returns its number. peer 0: from any. */
uint64_t rig_post(struct rig *rig, uint32_t peer, uint64_t tag, uint64_t ignore, bool able);

/* Cancels it if it is posted still. */
void rig_cancel(struct rig *rig, uint64_t number);

/* A message leaves the peer, and arrives at the adapter or waits for the software. Returns
 * its number. */
uint64_t rig_send(struct rig *rig, uint32_t peer, uint64_t tag, enum rig_kind kind);

/* From now on unexpected messages of the peer are kept; or they are handled, those first that
 * were kept. */
void rig_keep(struct rig *rig, uint32_t peer, bool keep);

/* The peer comes through the adapter, or no longer. */
void rig_enter(struct rig *rig, uint32_t peer);
void rig_leave(struct rig *rig, uint32_t peer);
/* Software hears that its connection has ended. It enters again when it may, but its messages
 * come meanwhile, as they have come by the new connection before. */
void rig_part(struct rig *rig, uint32_t peer);

/* Reads completions, which are handled later: their matches forestall dels. */
void rig_read_ahead(struct rig *rig);

/* Handles one completion, or all, and flushes then. Returns false: there was none. */
bool rig_poll(struct rig *rig);
void rig_poll_all(struct rig *rig);
void rig_flush(struct rig *rig);

/* Handles what waits from outside, if it may be. */
void rig_serve(struct rig *rig);

/* The adapter ends the oldest read. */
void rig_read_done(struct rig *rig);

/* Until nothing happens any more; then everything must be where it can be. */
void rig_settle(struct rig *rig);

/* The rule of offload.c, by its definition, with tags. */
void rig_check_rule(struct rig *rig);

static inline struct rig_recv *rig_recv(struct rig *rig, uint64_t number)
{
	return &rig->recvs[number - 1];
}

/* What became of receive and message, as tests ask. */
static inline uint64_t rig_got(struct rig *rig, uint64_t number)
{
	return rig_recv(rig, number)->state == RIG_DONE ? rig_recv(rig, number)->msg : 0;
}

static inline bool rig_is_listed(struct rig *rig, uint64_t number)
{
	uint32_t slot = rig_recv(rig, number)->off.slot;

	return slot != TAGRV_OFFLOAD_NONE && rig->off->slots[slot].state == TAGRV_SLOT_LISTED;
}

struct tagrv_offload_stats rig_stats(const struct rig *rig);

#endif
