/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One send or receive from submit to its one completion.
 *
 *   send                                      receive
 *   QUEUED ----- eager packet taken           POSTED ---- eager arrived --> end
 *     |            |        |      \            |
 *     | RTS        v        v       v (ack)     | RTS matched
 *     |        end at     WIRE    FIN_WAIT      |--> READING -- all gets done --> end,
 *     |   INJECT level      | CQE     | FIN     |                             FIN sent
 *     v                     v         v         '--> TAKING --- all fragments --> end,
 *   ANNOUNCED -- FIN --> end                            |  here                FIN sent
 *     | CTS                                             '------- DONE ----------> end
 *     |--> OFFERING -- all pieces and the tail are taken --> FIN_WAIT
 *     |      |   one PIECE for each that the peer reads: freed by its FIN
 *     |      v   a piece cannot be registered
 *     |--> COPYING -- all sent --> FIN_WAIT
 *     '--> WRITING -- all puts done --> end, DONE sent (FIN_WAIT with a level
 *                         above INJECT, unless the FIN was here first)
 *
 *    end with error on link failure: each state has one list or one callback
 *    that ends it, so nothing can end twice:
 *      QUEUED     peer->pending              POSTED   the matching engine
 *      WIRE       op->done of the transport  READING  op->inflight and
 *      FIN_WAIT   peer->waiting                       peer->readers
 *      ANNOUNCED  peer->waiting              TAKING   peer->grants: something is
 *      COPYING    peer->writers: more may             to be granted, else
 *      OFFERING   be sent, else peer->waiting         peer->takers; when the lane
 *      WRITING    op->inflight and                    has failed and the peer may
 *                 peer->writers                       still write: lane->exposed;
 *      PIECE      the end of its message              and pieces are being read:
 *                                                     op->pieces
 */
#ifndef TAGRV_PROTO_OP_H
#define TAGRV_PROTO_OP_H

#include <stdbool.h>
#include <sys/uio.h>

#include "core/list.h"
#include "core/pool.h"
#include "match/match.h"
#include "proto/engine.h"
#include "wire/packet.h"
#include "xport/xport.h"

struct tagrv_lane;
struct tagrv_peer;

enum tagrv_op_state {
	TAGRV_OP_QUEUED,	/* send: on peer->pending */
	TAGRV_OP_WIRE,		/* send: the transport will call done */
	TAGRV_OP_FIN_WAIT,	/* send: on peer->waiting until FIN */
	TAGRV_OP_ANNOUNCED,	/* send: the same, until FIN or CTS */
	TAGRV_OP_COPYING,	/* send: goes in fragments */
	TAGRV_OP_WRITING,	/* send: puts in flight or to be posted */
	TAGRV_OP_OFFERING,	/* send: goes by pieces and a copied tail */
	TAGRV_OP_PIECE,		/* a piece of one: the peer reads it, until FIN */
	TAGRV_OP_POSTED,	/* receive: in the matching engine */
	TAGRV_OP_READING,	/* receive: gets in flight or to be posted */
	TAGRV_OP_TAKING,	/* receive: the sender was or will be asked */
};

/* What an RTS said, checked; for a send: a CTS. */
struct tagrv_remote {
	uint64_t len;
	uint32_t op;		/* the peer's handle */
	uint8_t	proto;		/* the sender asks for it; 0: for none */
	uint8_t	seg_cnt;	/* 0: its memory is out of reach */
	uint8_t	key_len;
	uint32_t head_len;	/* bytes of the message that came with it */
	const void *head;	/* while the receive begins */
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];	/* host byte order */
};

#define TAGRV_NO_PIECE	SIZE_MAX

/* What a peer names a receive by that it sends to. */
struct tagrv_xfer {
	struct tagrv_pool_node node;
	struct tagrv_op *op;
};

struct tagrv_op {
	struct tagrv_pool_node node;	/* handle: what peers echo in FIN */
	uint8_t	state;		/* enum tagrv_op_state */
	uint8_t	space;
	uint8_t	iov_cnt;
	uint8_t	own_mem;	/* bit i: mem[i] was registered for this op */
	bool	no_context;	/* inject: nobody is told */
	bool	multi;		/* receive: FI_MULTI_RECV buffer */
	struct tagrv_list link;
	struct tagrv_done done;
	struct tagrv_engine *engine;	/* receives: of the message */
	struct tagrv_peer *peer;	/* the same */
	void	*context;
	uint64_t flags;		/* of the request */
	uint64_t tag;		/* receives: of the message once matched */
	uint64_t data;
	size_t	len;		/* send: bytes; receive: of the message */
	size_t	room;		/* receive: bytes of the buffer */
	int	status;		/* first error */
	struct iovec iov[TAGRV_IOV_MAX];
	struct tagrv_mem *mem[TAGRV_IOV_MAX];
	void	*bounce;	/* send: our copy of an injected payload */

	/* receives */
	struct tagrv_rx *rx;
	tagrv_match_id match_id;
	uint16_t pkt_flags;	/* of the message */
	struct tagrv_op *parent;	/* multi-recv buffer this is a slice of */
	size_t	used;		/* multi-recv: bytes handed out */
	uint32_t slices;	/* multi-recv: reads into it going on */
	bool	retired;	/* multi-recv: no longer posted */

	/* rendezvous, the side that was asked to do something */
	struct tagrv_remote remote;
	struct tagrv_lane *lane;	/* the RTS came by it, or done will */
	size_t	want;		/* bytes to move: min(len, room) */
	size_t	next;		/* bytes asked for, sent or taken so far */
	size_t	granted;	/* bytes that may be sent in fragments */
	uint32_t inflight;	/* gets or puts whose outcome is open;
				   fragments that are granted and not here */
	struct tagrv_xfer *xfer;	/* TAKING */
	bool	keys;		/* TAKING: the peer writes by itself */
	bool	told;		/* TAKING: CTS is sent; WRITING: DONE is */
	bool	acked;		/* WRITING, WIRE: its FIN was faster than the end of
				   the writes, or than the device's completion */
	bool	asks;		/* COPYING: for grants, by an empty fragment */

	/* rendezvous by pieces: rndv_pipe.c */
	bool	piped;		/* TAKING: it is one */
	uint8_t	depth;		/* OFFERING: pieces out at a time */
	uint32_t pieces;	/* out: offered, or being read */
	size_t	offered;	/* bytes before the next piece, the head first;
				   of a piece: where it begins */
	size_t	middle;		/* bytes before the copied tail */
	size_t	missing;	/* where the first piece is that could not be
				   had; TAGRV_NO_PIECE */
	struct tagrv_list parts;	/* OFFERING: its pieces */
	struct tagrv_op *ready;		/* OFFERING: registered, not offered */
	struct tagrv_op *piece_of;	/* READING: NULL for a whole message */
};

/* Flags of a completion: FI_SEND or FI_RECV with FI_TAGGED or FI_MSG. */
uint64_t tagrv_op_comp_flags(uint8_t space, bool send);

/*
 * Ends a send: releases what it holds, counts, writes the completion if one is
 * due, and frees the op. status: 0 or -FI_E*. The op is on no list.
 */
void tagrv_op_send_end(struct tagrv_op *op, int status);

/* Ends a matched receive; its message was len bytes. Finds truncation. */
void tagrv_op_recv_end(struct tagrv_op *op, int status);

/* Writes the success completion of a send that never needed an op. */
void tagrv_op_send_report(struct tagrv_engine *engine,
			  const struct tagrv_send_req *req);

/*
 * Registers what of the op's first 'bytes' is not registered yet for what peers
 * shall do with it (enum tagrv_mem_access).
 * 0 or -FI_E*; what was registered is released by the end functions.
 */
int tagrv_op_register(struct tagrv_op *op, struct tagrv_device *dev,
		      size_t bytes, unsigned access) TAGRV_WARN_UNUSED;
void tagrv_op_deregister(struct tagrv_op *op);
/*
 * Whether to register all of it for reads costs little: it is registered, or its
 * beginning is in the cache, so that it was used before.
 */
bool tagrv_op_was_registered(const struct tagrv_op *op,
			     const struct tagrv_device *dev);

#endif
