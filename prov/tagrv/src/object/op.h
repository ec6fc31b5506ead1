/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Op: one send or receive from submit to its one completion.
 *
 *   send                                      receive
 *   QUEUED -- eager packet accepted           POSTED ---- eager arrived --> end
 *     |            |        |      \            |
 *     | RTS        v        v       v (ack)     | RTS matched
 *     |        end at     WIRE    FIN_WAIT      |--> READING -- all gets done --> end,
 *     |   INJECT level      | CQE     | FIN     |                             FIN sent
 *     v                     v         v         '--> CTS ------ all fragments --> end,
 *   ANNOUNCED -- FIN --> end                            |  here                FIN sent
 *     | CTS                                             '------- DONE ----------> end
 *     |--> OFFERING -- all pieces and the tail are sent --> FIN_WAIT
 *     |      |   one PIECE for each that the peer reads: freed by its FIN
 *     |      v   a piece cannot be registered
 *     |--> COPYING -- all sent --> FIN_WAIT
 *     '--> WRITING -- all puts done --> end, DONE sent (FIN_WAIT with a level
 *                         above INJECT, unless the FIN was here first)
 *
 * When its connection fails, an op ends with an error. Each state has one list
 * or one callback that ends its ops, so that none ends twice:
 *
 *   QUEUED     peer->pending              POSTED   the matching engine (recv.h)
 *   WIRE       op->done of the transport  READING  rndv->inflight and
 *   FIN_WAIT   peer->waiting                       peer->readers
 *   ANNOUNCED  peer->waiting              CTS      peer->to_grant: a CTS or GRANT
 *   COPYING    peer->writers: more may             has to be sent, else
 *   OFFERING   be sent, else peer->waiting         peer->granted; when the lane
 *   WRITING    rndv->inflight and                  has failed and the peer may
 *                 peer->writers                    still write: lane->exposed;
 *   PIECE      the end of its message              and pieces are being read:
 *                                                  rndv->pieces
 *
 * A one-sided operation, which proto/rma/rma.h draws, goes from QUEUED to ASKED, and a long
 * read from there to FETCHING; one by a view goes from QUEUED to WIRE, FETCHING or WRITING, an
 * atomic by the device to WIRE, perhaps twice. LENT is memory of a window that a peer
 * reads:
 *
 *   ASKED      peer->waiting; the first of peer->pending if it holds back others
 *   FETCHING   rndv->inflight and peer->readers
 *   LENT       peer->waiting
 *
 * An op whose message travels by rendezvous has a second part, struct tagrv_rndv,
 * from a pool of its own; eager messages never touch one.
 *
 * lock: the domain lock is held in every call but those that only name states.
 */
#ifndef TAGRV_OBJECT_OP_H
#define TAGRV_OBJECT_OP_H

#include <assert.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <sys/uio.h>

#include "core/list.h"
#include "core/pool.h"
#include "core/trace.h"
#include "match/match.h"
#include "object/request.h"
#include "wire/packet.h"
#include "xport/xport.h"

struct tagrv_engine;
struct tagrv_lane;
struct tagrv_listed;
struct tagrv_op;
struct tagrv_peer;
struct tagrv_rx;
struct tagrv_use;

enum tagrv_op_state {
	TAGRV_OP_FREE,		/* ended; debug builds only */
	/* sends */
	TAGRV_OP_QUEUED,	/* on peer->pending */
	TAGRV_OP_WIRE,		/* the transport will call done */
	TAGRV_OP_FIN_WAIT,	/* on peer->waiting until FIN */
	TAGRV_OP_ANNOUNCED,	/* RTS sent; on peer->waiting until FIN or CTS */
	TAGRV_OP_COPYING,	/* the message goes in fragments */
	TAGRV_OP_WRITING,	/* puts are in flight or to be posted */
	TAGRV_OP_OFFERING,	/* the message goes by pieces and a copied tail */
	/* parts of a send that is OFFERING */
	TAGRV_OP_PIECE_READY,	/* registered, not offered to the peer yet */
	TAGRV_OP_PIECE,		/* the peer reads it, until FIN */
	/* one-sided operations, besides QUEUED: proto/rma/rma.h */
	TAGRV_OP_ASKED,		/* all packets sent; awaits FIN, ANSWER or KEYS */
	TAGRV_OP_FETCHING,	/* a read by remote reads: in flight or to be posted */
	TAGRV_OP_LENT,		/* memory of ours that a peer reads, until its FIN */
	/* receives */
	TAGRV_OP_POSTED,	/* in the matching engine */
	TAGRV_OP_READING,	/* gets are in flight or to be posted */
	TAGRV_OP_CTS,		/* the sender was, or will be, asked by a CTS to
				   move the bytes */
	TAGRV_OP_STATES
};

/*
 * How the message of an op travels. One table per protocol and side; an op has
 * the table from the moment its protocol is chosen. The domain lock is held in
 * every call.
 */
struct tagrv_proto_ops {
	const char *name;	/* for logs, traces and dumps */
	/*
	 * The op is QUEUED, and the first of peer->pending: sends its next packet. 0: a
	 * packet was sent, and the op may have left the list; -FI_EAGAIN: no room now;
	 * other errors: the caller fails the op. *bytes: adds what was sent. NULL: a
	 * message, for which proto/send.c chooses.
	 */
	int (*start)(struct tagrv_op *op, size_t *bytes);
	/*
	 * Moves as much of the message as there is room for. 0: the op is off
	 * the list it was on, and may have ended; -FI_EAGAIN: no room now, the
	 * op stays on its list. NULL: there is nothing to move by itself.
	 */
	int (*move)(struct tagrv_op *op);
	/*
	 * The connection is gone (status: -FI_E*) and the op was removed from
	 * its list: ends the op, or leaves that to a callback that is still due.
	 */
	void (*fail)(struct tagrv_op *op, int status);
	/* The send is about to be freed: releases what the protocol holds for
	 * it. NULL: nothing. */
	void (*release)(struct tagrv_op *op);
};

/* What an RTS said, checked; for a send: a CTS. */
struct tagrv_remote {
	uint64_t len;
	uint32_t op;		/* the peer's handle */
	uint8_t	proto;		/* proposed by the sender; 0: none */
	uint8_t	seg_cnt;	/* 0: the peer's memory is out of reach */
	uint8_t	key_len;
	uint32_t head_len;	/* bytes of the message that came with an RTS */
	const void *head;	/* those bytes; valid while the RTS is handled */
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];	/* host byte order */
};

/* The handle in a CTS: names a receive while its sender may move bytes into it. */
struct tagrv_xfer {
	struct tagrv_pool_node node;
	struct tagrv_op *op;
};

#define TAGRV_NO_PIECE	SIZE_MAX

/* The rendezvous part of an op. Byte positions count from the message's start. */
struct tagrv_rndv {
	struct tagrv_pool_node node;
	size_t	want;		/* bytes to be moved: the message, or what fits */
	size_t	next;		/* bytes asked for, sent or stored so far */
	size_t	granted;	/* bytes that may be sent in fragments */
	uint32_t inflight;	/* gets or puts whose outcome is open; fragments
				   that are granted and not here */

	/* FETCHING, WRITING of a one-sided operation */
	bool	side;		/* by the side link: op->lane is its lane */
	bool	puts;		/* the segments are written, not read; */
	bool	inlined;	/* and are so short that no memory is registered */
	/* receive that is CTS */
	bool	by_write;	/* the peer has our keys and writes into the buffer */
	bool	by_pieces;	/* protocol of rndv/pipe.c */
	bool	cts_sent;
	/* send */
	bool	done_sent;	/* WRITING: DONE is sent or queued */
	bool	early_fin;	/* WRITING: the FIN came before the end of the
				   writes; op->status is its status */
	bool	ask_grant;	/* COPYING: an empty fragment has to ask for grants */
	uint8_t	depth;		/* OFFERING: most pieces offered at a time */
	struct tagrv_xfer *xfer;	/* CTS */
	/* READING: called when all is read, or op->status is an error */
	void	(*read_end)(struct tagrv_op *op);

	/* by pieces: rndv/pipe.c */
	uint32_t pieces;	/* pieces that are offered or being read */
	size_t	offered;	/* bytes before the next piece, the head first;
				   of a piece: where it begins */
	size_t	middle;		/* bytes before the copied tail */
	size_t	missing;	/* position of the first piece that could not be
				   registered or read; TAGRV_NO_PIECE */
	struct tagrv_list parts;	/* OFFERING: its pieces */
	struct tagrv_op *ready;		/* OFFERING: the piece in PIECE_READY */
	struct tagrv_op *piece_of;	/* of a piece: its message; else NULL */

	struct tagrv_remote remote;
};

/* The part of an op that is a one-sided operation: proto/rma/. */
struct tagrv_rma {
	struct tagrv_pool_node node;
	uint8_t	kind;		/* enum tagrv_rma_kind */
	uint8_t	datatype, op;	/* atomics */
	uint8_t	remote_cnt, result_cnt, compare_cnt;
	bool	by_packets;	/* neither PULL nor KEYS: that has failed */
	bool	takes_keys;	/* the GET that was sent says so */
	bool	pulled;		/* a PULL was sent */
	bool	holds;		/* stays first in peer->pending while it is ASKED, so that
				   later ones do not overtake it */
	bool	brings_data;	/* counted in peer->rma.data_asked */
	uint8_t	asked;		/* of peer->rma.asked */
	void	*compare_copy;	/* our copy of what an injected COMPARE compares with */
	bool	flushing;	/* by the device: it is done, and is made visible */
	uint32_t view;		/* id of the one by which it is moved */
	size_t	sent;		/* bytes that are in packets */
	size_t	got;		/* bytes of ANSWERs */
	uint64_t former;	/* by the device: the former value */
	struct fi_rma_iov remote[TAGRV_IOV_MAX];
	struct iovec result[TAGRV_IOV_MAX], compare[TAGRV_IOV_MAX];
};

struct tagrv_op {
	struct tagrv_pool_node node;	/* handle: what peers echo in FIN */
	uint8_t	state;		/* enum tagrv_op_state: tagrv_op_set_state() */
	uint8_t	space;		/* enum tagrv_match_space */
	uint8_t	iov_cnt;
	uint8_t	own_mem;	/* bit i: mem[i] was registered for this op */
	uint32_t born;		/* dom->clock.tick at submit; slice: at match */
	struct tagrv_list link;	/* of the list of its state */
	const struct tagrv_proto_ops *ops;
	struct tagrv_engine *engine;	/* receive: of the matched message */
	struct tagrv_peer *peer;	/* receive: of the matched message */
	void	*context;
	uint64_t flags;		/* of the request */
	uint64_t tag;		/* receive: of the message once matched */
	uint64_t data;
	size_t	len;		/* bytes; receive: of the message */
	struct iovec iov[TAGRV_IOV_MAX];
	struct tagrv_mem *mem[TAGRV_IOV_MAX];
	struct tagrv_lane *lane;	/* by which the RTS came; or whose link
					   will call done */
	struct tagrv_done done;
	struct tagrv_rndv *rndv;	/* once announced; undefined before */
	int	status;		/* first error */
	union {
		struct {
			void	*bounce;	/* our copy of an injected payload */
			bool	no_context;	/* fi_inject family: no completion */
			struct tagrv_rma *rma;	/* one-sided operation; else NULL */
			struct tagrv_use *use;	/* LENT, and READING for a PULL */
			bool	early_fin;	/* WIRE: the FIN came before the
						   device's completion; status
						   is its status */
		} tx;
		struct {
			struct tagrv_rx *rx;
			size_t	room;		/* bytes of the buffer */
			tagrv_match_id match_id;	/* once posted */
			struct tagrv_listed *listed;	/* tags.h; NULL: no list
							   knows of it */
			struct tagrv_op *parent; /* multi-receive buffer that
						    this is a slice of */
			uint16_t pkt_flags;	/* of the message */
			bool	multi;		/* FI_MULTI_RECV buffer; else
						   the rest is unused */
			bool	retired;	/* no longer posted */
			uint32_t slices;	/* slices that have not ended */
			size_t	used;		/* bytes handed out */
		} rx;
	};
};

/* Memory per posted receive and per unfinished send; see docs/performance.md. */
static_assert(sizeof(struct tagrv_op) <= 4 * TAGRV_CACHE_LINE + 32,
	      "an op is four and a half cache lines");
static_assert(sizeof(struct tagrv_rndv) <= 5 * TAGRV_CACHE_LINE,
	      "a rendezvous part is five cache lines");

/* ---- states (op_state.c) ---- */

/* "QUEUED" and the like; a state that does not exist is "?". */
const char *tagrv_op_state_name(unsigned state);
/* Whether the picture above has an arrow between the two. */
bool tagrv_op_may_move(unsigned from, unsigned to);

/*
 * The first state of an op that came from a pool. The caller traces it (op_state)
 * or the piece, once the fields that the trace point names are set.
 */
static inline void tagrv_op_start(struct tagrv_op *op, enum tagrv_op_state state)
{
	assert(tagrv_op_may_move(TAGRV_OP_FREE, state));
	op->state = (uint8_t) state;
}

static inline void tagrv_op_set_state(struct tagrv_op *op,
				      enum tagrv_op_state state)
{
	assert(tagrv_op_may_move(op->state, state));
	tagrv_trace_op_state(op, op->node.handle, op->state, state, op->peer,
			     op->tag);
	op->state = (uint8_t) state;
}

/* The op goes back to its pool next. */
static inline void tagrv_op_set_free(struct tagrv_op *op)
{
#ifndef NDEBUG
	tagrv_op_set_state(op, TAGRV_OP_FREE);
#else
	(void) op;
#endif
}

/* ---- ends (op.c, recv.c) ---- */

/* Levels above INJECT that a FIN of the receiver ends. */
#define TAGRV_ACK_LEVELS	(FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE)

static inline bool tagrv_op_awaits_fin(const struct tagrv_op *op)
{
	return op->flags & TAGRV_ACK_LEVELS;
}

static inline bool tagrv_op_awaits_wire(const struct tagrv_op *op)
{
	return !tagrv_op_awaits_fin(op) && op->flags & FI_TRANSMIT_COMPLETE;
}

/* Table of sends whose protocol is not chosen yet, and of eager ones. */
extern const struct tagrv_proto_ops tagrv_eager_ops;

/* Flags of a completion: FI_SEND or FI_RECV with FI_TAGGED or FI_MSG. */
static inline uint64_t tagrv_op_comp_flags(uint8_t space, bool send)
{
	return (send ? FI_SEND : FI_RECV) |
	       (space == TAGRV_SPACE_TAGGED ? FI_TAGGED : FI_MSG);
}

/*
 * Ends a send: releases what it holds, counts, writes the completion if one is
 * due, and frees the op. status: 0 or -FI_E*. The op is on no list.
 */
void tagrv_op_send_end(struct tagrv_op *op, int status);

/*
 * Ends a matched receive, which has no rendezvous part (any more); its message
 * was op->len bytes. status: 0 or -FI_E*; a message longer than the buffer ends
 * with -FI_ETRUNC. The op is on no list.
 */
void tagrv_op_recv_end(struct tagrv_op *op, int status);
/* The same for one whose message has failed, and nobody knows which one it was. */
void tagrv_op_recv_end_unknown(struct tagrv_op *op, int status) TAGRV_COLD;

/* So many sends or one-sided operations that had left the pending queue end now. */
void tagrv_peer_uncount_sent(struct tagrv_peer *peer, size_t cnt);
/* Logs, once per engine, that injects ("message to") were lost, and counts them. */
void tagrv_peer_log_lost(const struct tagrv_peer *peer, const char *what, uint32_t cnt,
			 int status) TAGRV_COLD;
/*
 * Ends a one-sided operation, as tagrv_op_send_end(): op_rma.c. It has no rendezvous part
 * (any more).
 */
void tagrv_op_rma_end(struct tagrv_op *op, int status);
/* Releases all that one holds, and the op itself. Nothing is reported. */
void tagrv_op_rma_free(struct tagrv_op *op);

/* The protocol (enum tagrv_proto) that moves a rendezvous message is known: counts it. */
void tagrv_op_count_moved_tx(const struct tagrv_op *op, unsigned proto);
void tagrv_op_count_moved_rx(const struct tagrv_op *op, unsigned proto);

/* Writes the success completion of a send that never needed an op. */
void tagrv_op_send_report(struct tagrv_engine *engine,
			  const struct tagrv_send_req *req);

/* ---- multi-receive buffers (op_multi.c) ---- */

/*
 * A receive of its own for one message of len bytes: the parent's next free
 * bytes. Retires the parent when too few bytes are left. NULL: out of memory.
 */
struct tagrv_op *tagrv_op_slice(struct tagrv_op *parent, size_t len);
/*
 * Releases a buffer that is retired and whose slices have all ended: reports it
 * by an entry with FI_MULTI_RECV alone (or the error in op->status) and frees it.
 */
void tagrv_op_multi_check(struct tagrv_op *parent);

/* ---- memory (op_mem.c) ---- */

/*
 * Registers with the device what of the op's first 'bytes' is not registered yet
 * for 'access' (enum tagrv_mem_access). 0 or -FI_E*; tagrv_op_deregister()
 * releases what was registered, and so do the end functions. With rights that do not
 * last (tagrv_dom::lasting) exactly these bytes are registered, and the key ends with
 * the release.
 */
int tagrv_op_register(struct tagrv_op *op, struct tagrv_device *dev,
		      size_t bytes, unsigned access) TAGRV_WARN_UNUSED;
void tagrv_op_deregister(struct tagrv_op *op);
/*
 * Whether registering the whole buffer for this access is likely to be cheap: each
 * segment is registered, or its beginning is in the cache.
 */
bool tagrv_op_was_registered(const struct tagrv_op *op,
			     const struct tagrv_device *dev, unsigned access);

#endif
