/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Decides which posted receives are in an adapter's list of tags, and when.
 *
 * The adapter matches messages with the receives in its list, oldest first, and puts
 * what none of them matches into receive buffers: an unexpected message. The matcher
 * (match.h) keeps every posted receive, those in the list too, and searches for
 * unexpected messages and for those of peers that do not come through the adapter. Both
 * together must match as the matcher alone would. Reasons: prov/tagrv/docs/hw_tags.md.
 *
 *   caller                                  here                       adapter
 *   matcher queues a receive  -> post()   -> may it be in the list?  -> add
 *   unexpected message:
 *     matcher finds a receive -> take()   -> out of the list         -> del
 *     afterwards, always      -> unexpected()
 *   completion of a message   -> seen(), before all of this
 *   matcher loses a receive   -> cancel() -> out of the list         -> del
 *   completion of the adapter -> added(), deleted(), synced(), consumed(), data()
 *   end of a progress call    -> flush()  -> older receives, dels    -> add, del, sync
 *
 * A receive and the slot that it has while the adapter knows of it:
 *
 *            post               add                  consumed            data
 *      o ----------> SOFT ----------------> LISTED ------------> CONSUMED ----> the caller's
 *                     ^                     |  |  \
 *                     | deleted      recall |  |   \ take
 *                     +------- RECALLED <---+  |    +--> TAKEN: the receive is the caller's,
 *                                              |         the slot waits for its del
 *                              cancel          v
 *                   SOFT, RECALLED, LISTED --> CANCELLED --> deleted: the caller's
 *
 * A message that the adapter has matched before a del was carried out: consumed() comes
 * instead, from RECALLED and CANCELLED as from LISTED. That cannot happen in TAKEN, and
 * is an error there. A slot is free when every completion that belongs to it has come.
 *
 * Pure: no I/O, no clock, no memory but in create(). The caller holds the domain lock in
 * all calls. Callbacks must not call back.
 */
#ifndef TAGRV_MATCH_OFFLOAD_OFFLOAD_H
#define TAGRV_MATCH_OFFLOAD_OFFLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/compiler.h"
#include "core/list.h"

#define TAGRV_OFFLOAD_NONE	UINT32_MAX	/* no slot */

/* What tags of the adapter's headers are made of. */
#define TAGRV_OFFLOAD_TAG_BITS	48		/* the application's */
#define TAGRV_OFFLOAD_SOURCES	0x3fff		/* greatest number of a source */
#define TAGRV_OFFLOAD_LIFE	0x3		/* of a number: not compared */
/* Never compared: */
#define TAGRV_OFFLOAD_HAS_HEADER (1ull << 62)	/* a header follows the two words */
#define TAGRV_OFFLOAD_HAS_DATA	(1ull << 63)	/* app_ctx is immediate data */

struct tagrv_offload;

/*
 * One peer of the endpoint, in the caller's peer; zero at first. Every receive that names
 * this peer points to it, whether or not the peer comes through the adapter, and it must
 * live as long as one does.
 */
struct tagrv_offload_source {
	uint32_t soft;		/* receives in software that name it */
	uint32_t blocked;	/* pass of flush() that left one of them in software */
	uint16_t number;	/* in the tags of its messages, without TAGRV_OFFLOAD_LIFE; 0:
				   they do not all come through the adapter */
};

/*
 * One posted receive, in the caller's operation. The caller sets the first five before
 * post(), and leaves all alone until the receive is its own again.
 */
struct tagrv_offload_recv {
	struct tagrv_list node;	/* own: list of soft or listed receives */
	struct tagrv_offload_source *source;	/* NULL: any */
	uint64_t tag, ignore;
	bool	able;		/* the adapter can write into its buffer; false with 'keep' */
	bool	cancelled;	/* own: cancel() was called, and the adapter had it */
	uint32_t slot;		/* own: TAGRV_OFFLOAD_NONE: the adapter does not know of it */
	uint64_t seq;		/* own: order of posts */
};

/* A new entry of the adapter's list. */
struct tagrv_offload_entry {
	uint32_t slot;
	uint32_t count;		/* unexpected messages handled; must be told with it */
	uint64_t tag, mask;	/* matches if (tag of message & mask) == tag */
};

/*
 * Commands to the adapter. They must be carried out in the order of the calls, each of
 * them reports its end. -FI_EAGAIN: no room for a command now; flush() tries again.
 */
struct tagrv_offload_ops {
	/*
	 * Adds a receive; added() tells that it is in the list. Another error than
	 * -FI_EAGAIN: this receive stays in software for good.
	 */
	int	(*add)(void *arg, struct tagrv_offload_recv *recv,
		       const struct tagrv_offload_entry *entry);
	/* Deletes the entry; deleted() tells the result. Must not tell a count. -FI_EALREADY:
	 * nothing is posted, because a message has matched the entry: consumed() will tell
	 * of it. */
	int	(*del)(void *arg, uint32_t slot);
	/* Tells the count of unexpected messages handled; synced() follows. */
	int	(*sync)(void *arg, uint32_t count);
	/* The adapter has no use any longer for the buffer of this slot's entry. */
	void	(*gone)(void *arg, uint32_t slot);
};

struct tagrv_offload_stats {
	uint64_t added, consumed, taken, recalled, cancelled;
	uint64_t late;		/* dels that a message had forestalled */
	uint64_t syncs;		/* commands of their own */
	uint64_t promoted;	/* of those added: not at their post */
};

/* max_tags: entries of the adapter's list, at least 1. Returns 0 or -FI_ENOMEM. */
int tagrv_offload_create(uint32_t max_tags, const struct tagrv_offload_ops *ops, void *arg,
			 struct tagrv_offload **off) TAGRV_WARN_UNUSED;

/* Frees it, whatever the adapter still has: its list must be destroyed before. */
void tagrv_offload_destroy(struct tagrv_offload *off);

/* ---- receives ---- */

/* The matcher has just queued this receive. */
void tagrv_offload_post(struct tagrv_offload *off, struct tagrv_offload_recv *recv);

/*
 * A message that the software handles has matched this receive, in the matcher, and the
 * receive is the caller's again: it may be completed at once. The memory that an
 * entry names is the adapter's until ops->gone().
 */
void tagrv_offload_take(struct tagrv_offload *off, struct tagrv_offload_recv *recv);

/*
 * The caller wants this receive back, and has removed it from the matcher: no message may
 * find it there any longer. Returns 0: it is the caller's; or -FI_EINPROGRESS: deleted()
 * or consumed() will say which of both it was.
 */
int tagrv_offload_cancel(struct tagrv_offload *off, struct tagrv_offload_recv *recv)
	TAGRV_WARN_UNUSED;

/*
 * The adapter has reported an unexpected tagged message: it has counted it. The message may be
 * kept for a while before it is handled.
 */
void tagrv_offload_seen(struct tagrv_offload *off);

/*
 * One of those is now with a receive (after take()), or among the matcher's unexpected messages,
 * or was dropped: no receive will get it. Each of them must come to one of these ends, or
 * no entry becomes active any more. Fewer than 2^16 may be unhandled.
 */
void tagrv_offload_unexpected(struct tagrv_offload *off);

/* ---- peers ---- */

/*
 * From now on all tagged messages of this peer come through the adapter, with this number
 * (above TAGRV_OFFLOAD_LIFE, to TAGRV_OFFLOAD_SOURCES) in their tags. A peer that was
 * there before and left has the same number but for TAGRV_OFFLOAD_LIFE, and tagrv_offload_settled()
 * was true since. Its messages with the new one may have come at any time.
 */
void tagrv_offload_enter(struct tagrv_offload *off, struct tagrv_offload_source *source,
			 uint16_t number);

/*
 * From now on this peer's messages may come another way. None of those may be matched
 * before tagrv_offload_settled(), nor before what the peer sent through the adapter: the
 * order of one peer's messages is the caller's affair. If they do come another way,
 * tagrv_offload_outside() is due, too. What still comes through the adapter with the peer's
 * number need not wait.
 */
void tagrv_offload_leave(struct tagrv_offload *off, struct tagrv_offload_source *source);

/*
 * One more peer, or one less, whose messages do not come through the adapter, such as a
 * peer of the same host. None of them may be matched before tagrv_offload_settled().
 */
void tagrv_offload_outside(struct tagrv_offload *off, bool more);

/* Whether all receives that had to come back from the adapter have done so. */
bool tagrv_offload_settled(const struct tagrv_offload *off);

/* ---- completions of the adapter, in the order in which it reported them ---- */

/*
 * All return 0, or -FI_EIO: the adapter broke the rules, and what it matches is wrong from
 * now on. *recv is set to a receive, or to NULL.
 */

/* sync_req: the adapter asks for a sync. It may be wrong. */
int tagrv_offload_added(struct tagrv_offload *off, uint32_t slot, bool sync_req)
	TAGRV_WARN_UNUSED;

/* ok: not forestalled by a message. *recv: it was cancelled, and is the caller's. */
int tagrv_offload_deleted(struct tagrv_offload *off, uint32_t slot, bool ok,
			  struct tagrv_offload_recv **recv) TAGRV_WARN_UNUSED;

int tagrv_offload_synced(struct tagrv_offload *off) TAGRV_WARN_UNUSED;

/*
 * A message has matched: the caller removes *recv from the matcher, unless
 * (*recv)->cancelled, and data() will follow. Call it also if both are reported at once.
 */
int tagrv_offload_consumed(struct tagrv_offload *off, uint32_t slot,
			   struct tagrv_offload_recv **recv) TAGRV_WARN_UNUSED;

/* All of the message is in the buffer, or it failed: *recv is the caller's. */
int tagrv_offload_data(struct tagrv_offload *off, uint32_t slot,
		       struct tagrv_offload_recv **recv) TAGRV_WARN_UNUSED;

/*
 * Posts what is due: dels that found no room, receives in software that may now be in the
 * list, oldest first, and a sync. Returns 0, or an error of ops->del() or ops->sync()
 * other than -FI_EAGAIN.
 */
int tagrv_offload_flush(struct tagrv_offload *off) TAGRV_WARN_UNUSED;
/* Whether flush() has nothing to post before another call here. */
bool tagrv_offload_is_idle(const struct tagrv_offload *off);

void tagrv_offload_get_stats(const struct tagrv_offload *off,
			     struct tagrv_offload_stats *stats);

/* Receives in the adapter's list as far as is known here, and those in software. */
uint32_t tagrv_offload_listed(const struct tagrv_offload *off);
uint32_t tagrv_offload_soft(const struct tagrv_offload *off);

#endif
