/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of this folder use of each other.
 *
 *   rma_op.c      initiator: ops, and their ends
 *   rma_ask.c     initiator: packets of writes, reads and atomics
 *   rma_store.c   initiator and target: writes of one packet
 *   rma_long.c    initiator and target: long writes and reads, by remote reads
 *   rma_target.c  target: PUT and ATOMIC
 *   rma_data.c    initiator and target: how much remote CQ data may be unread
 *   rma_answer.c  target: GET, and ANSWERs
 *   rma_view.c    initiator: reads and writes that the target has no part in
 *   rma_show.c    target: windows for these
 *   rma_device.c  initiator: atomics that the target's device carries out
 *   rma_side.c    both: the link for them, where they need one of their own
 */
#ifndef TAGRV_PROTO_RMA_RMA_PRIV_H
#define TAGRV_PROTO_RMA_RMA_PRIV_H

#include "object/lane.h"
#include "object/mrtab.h"
#include "proto/rma/rma.h"

/*
 * What a target keeps for one peer at most: GETs until all is sent or the peer has returned
 * what was lent, PULLs until their FIN, and for each ATOMIC that fetches its ANSWER. The
 * initiator counts the same (peer->rma.asked), and asks for no more.
 */
#define TAGRV_RMA_ASKED_MAX	64u
/* Ops of one endpoint that are LENT: its own operations need ops, too. */
#define TAGRV_RMA_LENT_MAX	64u

/*
 * Writes and atomics that one peer has not answered, at most. It keeps FINs without room for
 * little more, and gives up who causes them (WAITING_MAX in packet/ack.c): we may be sending
 * without a call that takes them.
 */
#define TAGRV_RMA_UNANSWERED_MAX	61440u

/* Operations with remote CQ data that one peer has not answered, at most: rma_data.c. */
#define TAGRV_RMA_DATA_MAX	1024u

/* Bytes of the target that one ATOMIC changes, at most. */
#define TAGRV_RMA_VALUES_MAX	2048u

/* The range with byte *skip of all, of which there is at least one; *skip: where in it. */
static inline const struct fi_rma_iov *
tagrv_rma_find_range(const struct fi_rma_iov *ranges, size_t cnt, size_t *skip)
{
	size_t i = 0;

	while (i + 1 < cnt && *skip >= ranges[i].len)
		*skip -= ranges[i++].len;
	return &ranges[i];
}

/* ---- rma_op.c ---- */

/*
 * Whether the peer may be asked for one more thing that it has to keep. Not while FINs wait
 * for room: what they return counts at the peer until they are there.
 */
static inline bool tagrv_rma_may_ask(const struct tagrv_peer *peer)
{
	return peer->rma.asked < TAGRV_RMA_ASKED_MAX && tagrv_list_empty(&peer->acks);
}

/* The peer keeps one more thing for the op. */
void tagrv_rma_ask(struct tagrv_op *op);
/* The peer keeps nothing for the op any more, which may have ended for it by this lane. */
void tagrv_rma_unask(struct tagrv_op *op);
/* As what the op counts in tagrv_engine::stats. */
static inline enum tagrv_rma_kind tagrv_rma_sum_of(const struct tagrv_op *op)
{
	return (enum tagrv_rma_kind) TAGRV_MIN(op->tx.rma->kind, (uint8_t) TAGRV_RMA_ATOMIC);
}

/* All packets have been sent: QUEUED -> ASKED. The caller counts the op. */
void tagrv_rma_asked(struct tagrv_op *op);
/* Takes an op that is ASKED off its list; its answer is here. */
void tagrv_rma_take(struct tagrv_op *op);
/* The op goes by packets after all: ASKED -> QUEUED, as one of the first. */
void tagrv_rma_requeue(struct tagrv_op *op);
/* Puts an op that is QUEUED again, and on no list, in front of all that have not begun. */
void tagrv_rma_queue_first(struct tagrv_peer *peer, struct tagrv_op *op);
/* The peer's operation is answered, by this lane: one less is served. */
void tagrv_rma_served(struct tagrv_peer *peer);
/* Counts one more. False: the peer has asked for more than it may; its lane has failed. */
bool tagrv_rma_serve(struct tagrv_peer *peer) TAGRV_WARN_UNUSED;

static inline bool tagrv_rma_wants_answer(const struct tagrv_rma *r)
{
	return r->kind == TAGRV_RMA_READ || r->kind == TAGRV_RMA_FETCH ||
	       r->kind == TAGRV_RMA_COMPARE;
}

/* ---- rma_ask.c: of struct tagrv_proto_ops ---- */

int tagrv_rma_put(struct tagrv_op *op, size_t *bytes);
int tagrv_rma_get(struct tagrv_op *op, size_t *bytes);
int tagrv_rma_change(struct tagrv_op *op, size_t *bytes);

/* ---- rma_long.c ---- */

/* Whether len bytes are long, for the transport of this peer. */
bool tagrv_rma_is_long(const struct tagrv_peer *peer, size_t len);
/* Sends a PULL. 0; -FI_EAGAIN; -FI_EOPNOTSUPP: the op has to go by packets. */
int tagrv_rma_pull(struct tagrv_op *op) TAGRV_WARN_UNUSED;
/*
 * Lends the ranges, which windows allow, and sends KEYS. 0; -FI_EAGAIN and other errors:
 * the target has to answer by packets.
 */
int tagrv_rma_lend(struct tagrv_peer *peer, uint32_t op,
		   const struct fi_rma_iov *ranges, size_t cnt)
	TAGRV_WARN_UNUSED;

/* Parses the body of a PULL or VIEW: at least a byte in segments. All but remote->seg is set. */
bool tagrv_rma_parse_source(struct tagrv_rma_source *source, struct tagrv_remote *remote,
			    const void *body, size_t len) TAGRV_WARN_UNUSED;

/* ---- rma_view.c ---- */

/* Begins to read or write by a view. False: there is none, or it may not be used now. */
bool tagrv_rma_read_view(struct tagrv_op *op) TAGRV_WARN_UNUSED;
bool tagrv_rma_write_view(struct tagrv_op *op) TAGRV_WARN_UNUSED;
/* The view by which a range may be written to now. NULL: none; it is asked for, if it may come. */
const struct tagrv_view *tagrv_rma_view_to_write(struct tagrv_peer *peer, uint64_t addr,
						 uint64_t len, uint64_t key);
/* The id of a view that the op's GET asks for; 0: none. */
uint32_t tagrv_rma_ask_view(const struct tagrv_op *op) TAGRV_WARN_UNUSED;

/* ---- rma_show.c ---- */

/* Shows the peer the window of this byte as its view 'id', if that may be. */
void tagrv_rma_show(struct tagrv_peer *peer, uint64_t key, uint64_t addr, uint32_t id);

/* ---- rma_device.c ---- */

/* As tagrv_rma_change(), where the target's device does it. */
int tagrv_rma_device_change(struct tagrv_op *op, size_t *bytes);
/* The view 'id' that was asked for is here, or not (status). */
void tagrv_rma_device_shown(struct tagrv_peer *peer, uint32_t id, int status);

/* ---- rma_side.c ---- */

/* A view is here: makes a side link for it, if the transport needs one. */
void tagrv_rma_side_begin(struct tagrv_peer *peer);
/* An operation has no side link: after so many, while there is a pause, another one is begun. */
void tagrv_rma_side_miss(struct tagrv_peer *peer);

/* ---- rma_target.c ---- */

/*
 * The window of this domain that the peer may access so, through this endpoint; else
 * NULL. As tagrv_window_find().
 */
struct tagrv_window *tagrv_rma_window(const struct tagrv_peer *peer, uint64_t key,
				      uint64_t addr, uint64_t len, uint64_t access,
				      size_t *offset);

/*
 * A write of 'len' bytes of the peer has ended well: counts it, reports its remote CQ data
 * (hdr). window: where its last bytes went.
 */
void tagrv_rma_written(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
		       const struct tagrv_window *window, size_t len);
/* Refuses an operation of the peer, by a FIN: no window allows it. */
void tagrv_rma_refuse(struct tagrv_peer *peer, uint32_t op);
/* A read of 'len' bytes of the peer has ended well: counts it. */
void tagrv_rma_was_read(struct tagrv_peer *peer, const struct tagrv_window *window,
			size_t len);

/* ---- rma_answer.c ---- */

/*
 * Sends 'len' bytes of former values of an ATOMIC, or keeps them until there is room. 0 or
 * -FI_ENOMEM.
 */
int tagrv_rma_answer_values(struct tagrv_peer *peer, uint32_t op, const void *values,
			    size_t len) TAGRV_WARN_UNUSED;
/* Former values that were kept are not sent, because a FIN says that the operation failed. */
void tagrv_rma_drop_values(struct tagrv_peer *peer, uint32_t op);

/* ---- rma_data.c ---- */

/* Initiator: whether the peer may be sent the first packet of this operation. */
bool tagrv_rma_may_bring_data(const struct tagrv_op *op);
/* A packet of the operation was sent; it is answered, or has failed. */
void tagrv_rma_bring_data(struct tagrv_op *op);
void tagrv_rma_brought_data(struct tagrv_op *op);
/*
 * Target: answers an operation that writes, by a FIN that may be held. flags: of its last
 * packet.
 */
void tagrv_rma_ack_write(struct tagrv_peer *peer, uint16_t flags, uint32_t op,
			 int status);

#endif
