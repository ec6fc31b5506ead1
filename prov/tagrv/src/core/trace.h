/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Trace points: events that bpftrace, gdb, perf or systemtap can follow in a
 * running program.
 *
 * A point is one nop in the code and one note in the plug-in's section
 * .note.stapsdt, which names the point and tells in which register or at which
 * address each argument is (<sys/sdt.h>, known as USDT). Nothing is computed,
 * stored or called until a tool puts a breakpoint in place of the nop. Without
 * <sys/sdt.h> (configure --without-sdt) the macros compile to nothing.
 *
 * Rules for callers:
 *   - An argument is a value that is in a register or in memory anyway: a call or
 *     arithmetic would be executed even while nobody looks.
 *   - The event has happened: a packet is traced when the transport has taken it,
 *     a state when it has changed.
 *   - Peers, operations and kept messages are named by their addresses. An
 *     address means another object from the next event on that begins one:
 *     op_state from the state FREE, posted, unexpected.
 *   - At most six arguments: bpftrace reads no more. A single byte is passed as
 *     uint32_t: gdb does not know r8 to r15 by their byte names.
 *
 * docs/tracing.md tells how to record the points and what their arguments are;
 * util/timeline shows what became of one message. tagrv_trace() of core/log.h is
 * not related: it is a level of the log.
 */
#ifndef TAGRV_CORE_TRACE_H
#define TAGRV_CORE_TRACE_H

#include <stdint.h>

#include "config.h"

#ifdef HAVE_SDT
#include <sys/sdt.h>
/*
 * As STAP_PROBEn() of sys/sdt.h, but 'inline': gcc would count each of the note's
 * lines as an instruction, and no longer inline the function around it.
 * cnt: arguments after the name.
 */
#define TAGRV_POINT(cnt, name, ...) \
	do { \
		__asm__ inline volatile ( \
			_SDT_ASM_BODY(tagrv, name, _SDT_ASM_ARGS, (cnt)) \
			_SDT_ASM_BASE \
			: : _SDT_ASM_OPERANDS_##cnt(__VA_ARGS__)); \
	} while (0)
#else
/* The arguments are checked and count as used; none is evaluated. */
#define TAGRV_POINT(cnt, name, ...) \
	do { \
		if (0) \
			tagrv_trace_nothing(0, __VA_ARGS__); \
	} while (0)

static inline void tagrv_trace_nothing(int zero, ...)
{
	(void) zero;
}
#endif

/* A word of a packet's header where it lies: 8 bytes at any address. */
typedef uint64_t __attribute__((may_alias, aligned(1))) tagrv_trace_word;

#define TAGRV_TRACE_WORD(header, i) \
	(((const tagrv_trace_word *) (const void *) (header))[i])

/* ---- packets ---- */

/*
 * A packet: the transport has taken it; it has come in with a valid header.
 * header: its first 32 bytes as they travel (wire/packet.h), traced as four
 * words: opcode and operation, tag, flags, credit and sequence number, data.
 * len: bytes behind the header.
 */
#define tagrv_trace_packet_out(peer, header, len) \
	TAGRV_POINT(6, packet_out, peer, TAGRV_TRACE_WORD(header, 0), \
		    TAGRV_TRACE_WORD(header, 1), TAGRV_TRACE_WORD(header, 2), \
		    TAGRV_TRACE_WORD(header, 3), len)
#define tagrv_trace_packet_in(peer, header, len) \
	TAGRV_POINT(6, packet_in, peer, TAGRV_TRACE_WORD(header, 0), \
		    TAGRV_TRACE_WORD(header, 1), TAGRV_TRACE_WORD(header, 2), \
		    TAGRV_TRACE_WORD(header, 3), len)

/*
 * A tagged message in the form without a header (send_tagged of xport/xport.h),
 * which stands for an EAGER packet. seq: its sequence number. meta: TAGRV_META.
 */
#define tagrv_trace_tagged_out(peer, seq, meta, tag, data) \
	TAGRV_POINT(5, tagged_out, peer, seq, meta, tag, data)
#define tagrv_trace_tagged_in(peer, seq, meta, tag, data) \
	TAGRV_POINT(5, tagged_in, peer, seq, meta, tag, data)

/*
 * A message of a BATCH, in the order of the packet: after packet_out of the
 * packet; after packet_in, before the message is matched. op: the send. handle:
 * the sender's, in the FIN that it waits for, or 0.
 */
#define tagrv_trace_item_out(peer, op, tag, len) \
	TAGRV_POINT(4, item_out, peer, op, tag, len)
#define tagrv_trace_item_in(peer, handle, tag, len) \
	TAGRV_POINT(4, item_in, peer, handle, tag, len)

/*
 * A FIN or DONE: it is due; it has left, alone or with others; a FIN has come,
 * one event for each where several share a packet (a DONE has a packet of its own).
 * handle: the operation of the receiving side that it ends. status: FI_E* or 0.
 */
#define tagrv_trace_fin_queued(peer, opcode, handle, status) \
	TAGRV_POINT(4, fin_queued, peer, (uint32_t) (opcode), handle, status)
#define tagrv_trace_fin_out(peer, opcode, handle, status) \
	TAGRV_POINT(4, fin_out, peer, (uint32_t) (opcode), handle, status)
#define tagrv_trace_fin_in(peer, handle, status) \
	TAGRV_POINT(3, fin_in, peer, handle, status)

/* ---- states ---- */

/*
 * An operation has changed its state (enum tagrv_op_state); a new one comes from
 * FREE. handle: op->node.handle. peer, tag: of the message; NULL and 0 for a receive
 * that has none so far.
 */
#define tagrv_trace_op_state(op, handle, old, now, peer, tag) \
	TAGRV_POINT(6, op_state, op, handle, (uint32_t) (old), now, peer, tag)

/*
 * A peer has changed its state (enum tagrv_peer_state). own_port, peer_port: of the
 * endpoint's and the peer's address, in network byte order.
 */
#define tagrv_trace_peer_state(peer, id, old, now, own_port, peer_port) \
	TAGRV_POINT(6, peer_state, peer, id, (uint32_t) (old), now, own_port, \
		    peer_port)

/* ---- matching ---- */

/*
 * A receive was posted. recv: names it until it ends or has an op. One that was
 * posted with an op had the event op_state before.
 */
#define tagrv_trace_posted(recv, context, tag) \
	TAGRV_POINT(3, posted, recv, context, tag)
/* A posted receive has an op, which stands for it from here on. */
#define tagrv_trace_recv_op(recv, op, handle) \
	TAGRV_POINT(3, recv_op, recv, op, handle)

/* No receive waits for a message: it is kept as 'msg'. handle: the sender's, or 0. */
#define tagrv_trace_unexpected(msg, peer, handle, tag, len) \
	TAGRV_POINT(5, unexpected, msg, peer, handle, tag, len)

/*
 * A message and a receive have found each other. msg: the kept message; NULL where
 * the receive was posted first. A multi-receive buffer goes on with an op of its own
 * for the message.
 */
#define tagrv_trace_match(recv, peer, msg, handle, tag, len) \
	TAGRV_POINT(6, match, recv, peer, msg, handle, tag, len)

/* ---- rendezvous ---- */

/*
 * The receiver has chosen who moves the bytes. handle: the sender's, of the RTS.
 * xfer: the receiver's, for packets to it; 0 where it reads by itself. proto: enum
 * tagrv_proto. want: bytes to be moved.
 */
#define tagrv_trace_rndv_start(op, peer, handle, xfer, proto, want) \
	TAGRV_POINT(6, rndv_start, op, peer, handle, xfer, proto, want)

/* A read or write was posted: len bytes of op from offset on. */
#define tagrv_trace_segment_posted(op, peer, offset, len) \
	TAGRV_POINT(4, segment_posted, op, peer, offset, len)
/* One has ended. inflight: of the op, how many are left. */
#define tagrv_trace_segment_done(op, peer, status, inflight) \
	TAGRV_POINT(4, segment_done, op, peer, status, inflight)

/*
 * Pipeline: 'piece' is the op of len bytes of op's message from offset on. handle:
 * the sender's, of the piece.
 */
#define tagrv_trace_piece(piece, op, peer, handle, offset, len) \
	TAGRV_POINT(6, piece, piece, op, peer, handle, offset, len)

/* ---- completions ---- */

/*
 * A send or receive has ended, with or without an entry in a completion queue.
 * context: the application's. len: bytes of the message, also where the buffer has
 * room for fewer. status: 0 or -FI_E*. op: of a receive without one, the receive.
 *
 * A send that needs no op has ended with its packet: tagged_out, or packet_out of an
 * EAGER, while no op of the peer is QUEUED. The fast path has no point but that.
 */
#define tagrv_trace_send_complete(op, peer, context, tag, len, status) \
	TAGRV_POINT(6, send_complete, op, peer, context, tag, len, status)
#define tagrv_trace_recv_complete(op, peer, context, tag, len, status) \
	TAGRV_POINT(6, recv_complete, op, peer, context, tag, len, status)

#endif
