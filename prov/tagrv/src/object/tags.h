/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tags: the tagged receives of an endpoint that an adapter's list may match.
 *
 * The matcher (match.h) has every posted receive, the ones in the list too. match/offload
 * decides which are in the list, xport/taglist.h carries that out, and this object stands
 * between both: it has the record of each receive, the memory into which the adapter puts
 * messages, and the number of each peer. It knows no protocol: what messages look like is
 * known to its owner's ops (proto/listed.h).
 *
 *   tagrv_rx_recv  -> tagrv_tags_post()      the matcher has queued the receive
 *   software match -> tagrv_tags_take()      the receive is the caller's
 *   fi_cancel      -> tagrv_tags_cancel()    the matcher has lost it
 *   adapter        -> ops->arrived()         a message is in the receive's memory
 *                  -> ops->cancelled()       a cancelled receive came back
 *
 * A receive has an op from its post on (op->rx.listed names the record); the op is POSTED
 * until a message is there. All messages come into memory of ours, 'bounce', and are copied
 * from there.
 *
 * One endpoint with a receive context of its own and one transport that has a list. Without
 * memory for a record its receive stays in software, as do those that are posted behind it.
 *
 * An error of the list is handled in the next flush, since most calls come while others use
 * lanes: until then nothing that the list reports is believed.
 *
 * lock: the domain lock is held in every call but open and close.
 */
#ifndef TAGRV_OBJECT_TAGS_H
#define TAGRV_OBJECT_TAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/list.h"
#include "core/pool.h"
#include "match/offload/offload.h"
#include "xport/taglist.h"

struct tagrv_engine;
struct tagrv_lane;
struct tagrv_link;
struct tagrv_op;
struct tagrv_peer;
struct tagrv_tags;
struct tagrv_xport;

/*
 * A receive and its place in the list. owner: tags->pool, from post until the list has no
 * use for it and the op has ended or was taken, whichever is later; or, if a message stopped
 * amid its bytes, until close.
 */
struct tagrv_listed {
	struct tagrv_pool_node node;
	struct tagrv_offload_recv recv;
	struct tagrv_taglist_entry entry;
	struct tagrv_op *op;		/* NULL: taken or ended; the list has the entry */
	void	*bounce;		/* bytes of the entry; NULL: the list has none */
	uint32_t slot;			/* while it has one */
	/* Once a message has matched: */
	struct tagrv_list matched;	/* tags->matched, until its bytes are there */
	struct tagrv_link *link;	/* it came by, if that was not attached; else NULL */
	uint64_t tag;			/* as the sender wrote it, with number and bits */
	uint32_t app;
	struct tagrv_peer *from;	/* NULL: not known, the message has failed */
	uint32_t life;			/* from->life then */
	uint32_t seq;			/* number of the envelope among those of that life */
	bool	current;		/* it came by the lane that was the peer's then */
};

/* What becomes of receives: see proto/listed.h. */
struct tagrv_tags_ops {
	/*
	 * The message that matched is in 'bytes' (status 0), behind its two words, or will
	 * never be (status: -FI_E*). The op is out of the matcher, and the callee's: it ends, or
	 * its rendezvous begins. A cancelled one has matched before.
	 */
	void	(*arrived)(struct tagrv_tags *tags, const struct tagrv_listed *listed,
			   struct tagrv_op *op, const void *bytes, size_t len, int status);
	/* No message has matched: the op is to end with op->status. */
	void	(*cancelled)(struct tagrv_tags *tags, struct tagrv_op *op);
};

struct tagrv_tags_counts {
	struct tagrv_offload_stats offload;
	uint64_t unexpected;	/* tagged messages that no entry took */
	uint64_t handled;	/* of these: matched in software, or of connections that had
				   ended; the others wait until their link is attached */
	uint32_t entries;	/* of the list at most; 0: the list is lost */
	uint32_t listed, soft;	/* receives now */
	uint32_t outside;	/* peers that come another way */
};

/*
 * dom lock not held. Begins to use the list of the transport, which has no links yet. -FI_ENOMEM.
 * buf_size: bytes of the longest packet behind which a tagged message can be.
 */
int tagrv_tags_open(struct tagrv_engine *engine, struct tagrv_xport *xport, size_t buf_size,
		    const struct tagrv_tags_ops *ops, struct tagrv_tags **tags) TAGRV_WARN_UNUSED;
/* dom lock not held. The transport and its list are closed, the device is not. Receives that
 * were cancelled and not answered vanish without a report. NULL: nothing to do. */
void tagrv_tags_close(struct tagrv_tags *tags);

/* ---- receives ---- */

/* The matcher has queued the tagged receive, which has an op. peer: its source, or NULL. */
void tagrv_tags_post(struct tagrv_tags *tags, struct tagrv_op *op, struct tagrv_peer *peer,
		     uint64_t ignore);
/* Software has matched it (op->rx.listed is not NULL): it is the caller's at once. */
void tagrv_tags_take(struct tagrv_tags *tags, struct tagrv_op *op);
/*
 * The receive (op->rx.listed is not NULL) shall end with 'status' (-FI_E*), and is out of the
 * matcher. 0: it is the caller's, who ends it; -FI_EINPROGRESS: ops->cancelled() or
 * ops->arrived() follows.
 */
int tagrv_tags_cancel(struct tagrv_tags *tags, struct tagrv_op *op, int status)
	TAGRV_WARN_UNUSED;

/* ---- peers ---- */

/*
 * The lane is the peer's now, and link->given is its number: tagged messages come through the
 * list. Takes effect at once, or in a pass, when receives that came back with an older lane of
 * the peer have done so, and that lane is freed. Before link_attach.
 */
void tagrv_tags_enter(struct tagrv_tags *tags, struct tagrv_lane *lane);
/* The lane, which had entered, is the peer's no longer. */
void tagrv_tags_leave(struct tagrv_tags *tags, struct tagrv_lane *lane);
/* The link of a lane that had entered is gone: its number names nobody. */
void tagrv_tags_link_gone(struct tagrv_tags *tags, struct tagrv_lane *lane);
/* One more peer, or one less, whose tagged messages come another way. Nothing of a new one
 * may be matched before tagrv_tags_settle() was called. */
void tagrv_tags_outside(struct tagrv_tags *tags, bool more);
/*
 * Drives the list, by its own progress, until all receives that have to come back are back.
 * An adapter that does not answer for a second has lost its list: tagrv_tags_lose(). What
 * has matched meanwhile is handed over, and lanes may fail. Not within a call or
 * callback of the transport.
 */
void tagrv_tags_settle(struct tagrv_tags *tags);

/* ---- the rest ---- */

/* End of a progress pass: commands that are due. One load, if there are none. */
void tagrv_tags_flush(struct tagrv_tags *tags);
/* Whether a flush has something to do without an event of the adapter: no time to sleep. */
bool tagrv_tags_is_busy(const struct tagrv_tags *tags);
/* Whether nothing that the list says, or brings, is believed any more: it is lost, or will be. */
bool tagrv_tags_is_deaf(const struct tagrv_tags *tags);
/* Whether a message of the peer has matched whose bytes are not there yet. */
bool tagrv_tags_awaits(const struct tagrv_tags *tags, const struct tagrv_peer *peer);
/*
 * The list is of no use any more: every lane of the transport fails with the status, receives
 * go on in software, cancelled ones end, and so do those whose message has matched and is not
 * there yet. The transport makes links without a list from now on. Not within a call or
 * callback of the transport.
 */
void tagrv_tags_lose(struct tagrv_tags *tags, int status) TAGRV_COLD;
void tagrv_tags_get_counts(const struct tagrv_tags *tags, struct tagrv_tags_counts *counts);

#endif
