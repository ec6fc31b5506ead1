/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of this folder use of each other.
 *
 *   announce.c   sender: the announcement
 *   begin.c      receiver: the choice of a protocol
 *   read.c       the receiver reads
 *   cts.c        the receiver asks the sender, which moves the bytes ...
 *   write.c        ... by writes
 *   copy.c         ... by fragments
 *   pipe.c         ... by pieces, the sender's half
 *   piece.c        ... by pieces, the receiver's half
 *   answer.c     sender: a CTS comes
 *   common.c     sender: shared by write.c, copy.c and pipe.c
 *   end.c        ends of receives and sends
 *   mem.c        rendezvous parts of ops, segments of memory
 *   segments.c   reads and writes of a message in segments
 *
 * A new protocol is one file with a table of struct tagrv_proto_ops for each side
 * that has something to do, and one entry in begin.c.
 */
#ifndef TAGRV_PROTO_RNDV_RNDV_PRIV_H
#define TAGRV_PROTO_RNDV_RNDV_PRIV_H

#include "object/lane.h"
#include "object/op.h"
#include "object/peer.h"
#include "proto/rndv/rndv.h"

/* ---- mem.c ---- */

/* The next bytes to be moved: contiguous on both sides. */
struct tagrv_segment {
	char	*addr;
	struct tagrv_mem *mem;
	uint64_t raddr;
	const uint8_t *key;
	size_t	len;		/* at most 'max' and FI_TAGRV_READ_SEGMENT */
};
void tagrv_rndv_next_segment(const struct tagrv_op *op, size_t max,
			     struct tagrv_segment *segment);

/* By pieces: where copies begin that replace the pieces that are missing. */
size_t tagrv_rndv_gap(const struct tagrv_op *op);
/* Whether len bytes are more than one read, so that pieces can be read instead. */
bool tagrv_rndv_is_long(const struct tagrv_op *op, size_t len);
/*
 * By pieces, on both sides: an op from this pool for the next len bytes of op's
 * middle, with a rendezvous part. NULL: out of memory.
 */
struct tagrv_op *tagrv_rndv_piece_get(struct tagrv_pool *pool,
				      struct tagrv_op *op, size_t len);
/* Deregisters a piece and puts it back. */
void tagrv_rndv_piece_put(struct tagrv_pool *pool, struct tagrv_op *piece);

/* ---- segments.c ---- */

/* The link by which the op's segments go. */
static inline struct tagrv_link *tagrv_rndv_link(const struct tagrv_op *op)
{
	return op->rndv->side ? op->lane->link : op->peer->lane->link;
}

/* Posts one segment. As tagrv_xport_ops::get. */
typedef int (*tagrv_rndv_post_fn)(struct tagrv_op *op, struct tagrv_link *link,
				  const struct tagrv_segment *segment);
/*
 * Posts segments of at most 'max' bytes until all are posted or the op has
 * failed (op->status). 0, or -FI_EAGAIN: no room now.
 */
int tagrv_rndv_post_all(struct tagrv_op *op, size_t max,
			tagrv_rndv_post_fn post) TAGRV_WARN_UNUSED;
/* One segment has ended. True: it was the last, or the last of a failed op. */
bool tagrv_rndv_segment_done(struct tagrv_op *op, int status);

/* ---- receiver ---- */

/* end.c. Frees the sender by a FIN, then ends the receive, with op->status. On no list. */
void tagrv_rndv_recv_end(struct tagrv_op *op);
/* Ends the receive with op->status; the sender needs no word. */
void tagrv_rndv_recv_end_silent(struct tagrv_op *op);

/*
 * Begins one protocol. False: it cannot be used for this message, nothing has
 * happened; op->status is set when no other protocol can, either.
 */
bool tagrv_rndv_read_begin(struct tagrv_op *op);
bool tagrv_rndv_write_begin(struct tagrv_op *op);
bool tagrv_rndv_copy_begin(struct tagrv_op *op);
bool tagrv_rndv_piece_begin(struct tagrv_op *op);

/* cts.c: sends a CTS, now or when the peer is served. */
void tagrv_rndv_ask(struct tagrv_op *op, const struct tagrv_proto_ops *ops,
		    enum tagrv_proto proto);
/* tagrv_proto_ops of receives that are CTS: sends a CTS or GRANT; its failure. */
int tagrv_rndv_grant(struct tagrv_op *op);
void tagrv_rndv_cts_fail(struct tagrv_op *op, int status);
/* Ends the receive if it has all its bytes, or if its lane and pieces are gone. */
void tagrv_rndv_check_end(struct tagrv_op *op);
/* The receive a packet is for; NULL: none that was granted anything. */
struct tagrv_op *tagrv_rndv_find_recv(struct tagrv_peer *peer, uint32_t handle);

/* ---- sender ---- */

/* tagrv_proto_ops of sends: puts the rendezvous part back. */
void tagrv_rndv_release(struct tagrv_op *op);
/* tagrv_proto_ops of sends: ends the op unless something is in flight. */
void tagrv_rndv_send_fail(struct tagrv_op *op, int status);

/* The send of this peer by its handle; NULL: it is not in this state. */
struct tagrv_op *tagrv_rndv_find_send(struct tagrv_peer *peer, uint32_t handle,
				      enum tagrv_op_state state);
/* Moves the op now, or when the peer is served. */
void tagrv_rndv_resume(struct tagrv_op *op);

/* write.c. False: this side cannot write, or register. */
bool tagrv_rndv_write_start(struct tagrv_op *op);

/* copy.c: the op sends fragments; granted: bytes; 0: it has to ask. */
void tagrv_rndv_copy_start(struct tagrv_op *op, size_t granted);
/* The op sends the bytes from here on in fragments, and has to ask for grants. */
void tagrv_rndv_copy_rest(struct tagrv_op *op, size_t from);
/* Sends what was granted. 0 or -FI_EAGAIN, as tagrv_proto_ops::move. */
int tagrv_rndv_copy(struct tagrv_op *op);
/* Sends the next len bytes in one packet; an empty one asks for grants. */
int tagrv_rndv_send_frag(struct tagrv_op *op, size_t len) TAGRV_WARN_UNUSED;
/* Whether this is what a GRANT or CTS may grant next. */
bool tagrv_rndv_is_grant(const struct tagrv_op *op, uint64_t granted);
/* The op cannot go on: tells the receiver, which waits for the rest, and ends. */
void tagrv_rndv_send_quit(struct tagrv_op *op, int status);

/* pipe.c: bytes of the message that may travel with its RTS. */
size_t tagrv_rndv_head(const struct tagrv_op *op);
/* False: the CTS makes no sense. middle: bytes before the copied tail. */
bool tagrv_rndv_pipe_start(struct tagrv_op *op, uint64_t middle);

#endif
