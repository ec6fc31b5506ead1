/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous, as the rest of proto/ and engine/ see it: announcing a message,
 * beginning to receive one, and the packets in between. announce.c draws it.
 */
#ifndef TAGRV_PROTO_RNDV_RNDV_H
#define TAGRV_PROTO_RNDV_RNDV_H

#include "object/op.h"
#include "object/peer.h"
#include "select/select.h"
#include "wire/packet.h"

/*
 * Announces the message of a queued send by an RTS that proposes this protocol.
 * 0: the RTS has left; -FI_EAGAIN: no room now; -FI_EFAULT; -FI_ENOMEM;
 * TAGRV_RNDV_USE_EAGER: the buffer cannot be registered, but fits one packet for
 * which there is credit.
 */
int tagrv_rndv_announce(struct tagrv_op *op, enum tagrv_proto proto)
	TAGRV_WARN_UNUSED;
#define TAGRV_RNDV_USE_EAGER	1

/*
 * A receive has matched an announced message: chooses the protocol and begins.
 * The op ends now or later, with op->len bytes or an error.
 */
void tagrv_rndv_begin(struct tagrv_op *op, const struct tagrv_remote *remote);

/*
 * Ends a receive in state CTS, on whatever list it is, without a word to the
 * sender, whose connection is gone.
 */
void tagrv_rndv_recv_abort(struct tagrv_op *op, int status);

/*
 * Parses segments of a packet ('bytes' bytes at 'from') into remote->seg, whose
 * seg_cnt and key_len are set; 'len': what they have to be together.
 */
bool tagrv_rndv_parse_segments(struct tagrv_remote *remote, const void *from,
			       size_t bytes, uint64_t len) TAGRV_WARN_UNUSED;

/*
 * What one-sided operations (proto/rma) use, too.
 *
 * mem.c: gives the op a rendezvous part, all zero but the remote. False: no memory.
 */
bool tagrv_rndv_attach(struct tagrv_op *op) TAGRV_WARN_UNUSED;
void tagrv_rndv_detach(struct tagrv_op *op);
/* mem.c: writes segments for the op's first 'len' bytes, which are registered, as they
 * travel; returns how many. */
size_t tagrv_rndv_pack_segments(const struct tagrv_op *op, size_t len,
				struct tagrv_rts_seg *seg, uint8_t *key_len);
/* common.c: parses the body of a CTS, PIECE or KEYS; limit: most bytes it may want. */
bool tagrv_rndv_parse_cts(struct tagrv_remote *remote, uint8_t *pieces,
			  uint64_t limit, const void *body, size_t len)
	TAGRV_WARN_UNUSED;
/*
 * read.c: reads what op describes into registered memory, then calls 'end'. With rndv->puts
 * it writes.
 */
void tagrv_rndv_read_start(struct tagrv_op *op,
			   void (*end)(struct tagrv_op *op));

/* write.c: a FIN for an op in state WRITING. False: it awaits none. */
bool tagrv_rndv_write_early_fin(struct tagrv_op *op, int status);
/* pipe.c: a FIN for a piece. */
void tagrv_rndv_piece_fin(struct tagrv_op *piece, int status);

/* Packets of a connected peer; one that makes no sense fails the lane. */
void tagrv_rndv_cts_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len);
void tagrv_rndv_grant_packet(struct tagrv_peer *peer,
			     const struct tagrv_hdr *hdr, const void *body,
			     size_t len);
void tagrv_rndv_frag_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr, const void *payload,
			    size_t len);
void tagrv_rndv_piece_packet(struct tagrv_peer *peer,
			     const struct tagrv_hdr *hdr, const void *body,
			     size_t len);
void tagrv_rndv_done_packet(struct tagrv_peer *peer,
			    const struct tagrv_hdr *hdr, const void *body,
			    size_t len);

#endif
