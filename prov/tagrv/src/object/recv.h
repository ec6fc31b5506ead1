/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Posted receives, and the ends of all receives.
 *
 *   fi_trecv -> posted, in the matching engine's record ---- eager message --> end
 *                            |
 *                            '- rendezvous: tagrv_recv_op() -> op (op.h) ----> end
 *
 * A receive of one segment has no op while it is posted, and never has one if its
 * message is eager. Receives of several segments, and multi-receive buffers, have
 * one from the beginning.
 *
 * lock: the domain lock is held in every call.
 */
#ifndef TAGRV_OBJECT_RECV_H
#define TAGRV_OBJECT_RECV_H

#include <assert.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "match/match.h"
#include "object/engine.h"
#include "object/peer.h"
#include "wire/packet.h"

struct tagrv_mem;
struct tagrv_op;
struct tagrv_peer;
struct tagrv_rx;

/*
 * A posted receive. owner: the matching engine, whose record it is, with the context
 * as its name; or the stack, if it was not queued.
 */
struct tagrv_recv {
	void	*context;
	struct tagrv_op *op;	/* not NULL: the rest is unused */
	void	*buf;
	size_t	len;		/* bytes of buf */
	struct tagrv_mem *mem;	/* registration of buf, or NULL */
	uint64_t tag;
	/* One more than the longest message whose end needs nothing but a
	 * completion; 0 with an op, and without FI_COMPLETION. */
	size_t	plain_end;
	uint32_t born;		/* dom->clock.tick at submit */
	uint8_t	space;		/* enum tagrv_match_space */
	bool	reports;	/* FI_COMPLETION */
};

static_assert(sizeof(struct tagrv_recv) <= sizeof(struct tagrv_match_recv),
	      "a posted receive needs no memory but the matching engine's");
static_assert(offsetof(struct tagrv_recv, context) ==
	      offsetof(struct tagrv_match_recv, name), "the name is the context");

/* The receive that a record of the matching engine is. */
static inline struct tagrv_recv *tagrv_recv_of(struct tagrv_match_recv *record)
{
	return (struct tagrv_recv *) (void *) record;
}

static inline const struct tagrv_recv *
tagrv_recv_of_const(const struct tagrv_match_recv *record)
{
	return (const struct tagrv_recv *) (const void *) record;
}

/*
 * An op for a receive without one, whose message needs it; it is POSTED and stands
 * for the receive from here on. NULL: out of memory.
 */
struct tagrv_op *tagrv_recv_op(const struct tagrv_recv *recv, struct tagrv_rx *rx);

/*
 * Ends a receive without an op, whose message came from the peer: counts and reports
 * it. hdr: tag, flags and data count. len: bytes of the message. status: 0 or -FI_E*;
 * a message longer than the buffer ends with -FI_ETRUNC.
 */
void tagrv_recv_end(const struct tagrv_recv *recv, struct tagrv_peer *peer,
		    const struct tagrv_hdr *hdr, size_t len, int status);

#endif
