/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of the tests of rendezvous by pieces: test_pipe*.c.
 */
#ifndef FABTESTS_UNIT_PROTO_RNDV_PIPE_CALLS_H
#define FABTESTS_UNIT_PROTO_RNDV_PIPE_CALLS_H

#include <string.h>

#include "unit/proto/rndv/rndv_fixture.h"

#define FRAG	(FAKE_PACKET_MAX - sizeof(struct tagrv_hdr))	/* bytes of a fragment */
#define PIECE	((size_t) 16384)	/* bytes of a piece */
#define BIG	((size_t) 200000)	/* bytes of a message */
#define HEAD	((size_t) 4096)		/* of them in the peer's announcement */
#define OWN_HEAD	((size_t) 8192)	/* of them in our announcement */
#define DEPTH	4			/* pieces that the receiver reads side by side */
#define MIDDLE	(BIG - 8 * FRAG)	/* the tail begins here; 8 pieces, behind either head */
#define NAME	((uint32_t) 700)	/* handle of the peer's first piece */
#define TAKER	55			/* handle of the peer's receive */

/* The body of recorded packet i, a CTS or a PIECE. */
static inline struct tagrv_cts body_of(size_t i)
{
	struct tagrv_cts cts;

	cr_assert_geq(fake.log[i].len, sizeof(struct tagrv_hdr) + sizeof(cts));
	memcpy(&cts, fake.log[i].data + sizeof(struct tagrv_hdr), sizeof(cts));
	return cts;
}

/* ---- a receive, and the packets of its sender ---- */

/* The last packet is a CTS: returns where the tail begins, and in *taker the receive's handle. */
static inline size_t cts_of(size_t want, uint32_t *taker)
{
	struct tagrv_hdr hdr = last(TAGRV_PKT_CTS);
	struct tagrv_cts cts = body_of(fake.log_cnt - 1);

	cr_assert_eq(hdr.op, 99);
	cr_assert_eq(le64toh(cts.want), want);
	cr_assert_eq(cts.pieces, DEPTH);
	cr_assert_eq(cts.seg_cnt, 0);
	*taker = le32toh(cts.op);
	return hdr.data;
}

/* Posts a receive of 'room' bytes, which an announced message of BIG matches; its handle. */
static inline uint32_t begin(size_t room)
{
	uint32_t taker;

	memset(dst, 0, BIG + 1);
	cr_assert_eq(submit_recv(dst, room, 4, ctx), 0);
	arrive_rts_head(src, HEAD, BIG, 4, 99);
	cts_of(TAGRV_MIN(room, BIG), &taker);
	return taker;
}

/* The fragments of the tail from 'from' to 'to' arrive. */
static inline void tail(uint32_t taker, size_t from, size_t to)
{
	for (; from < to; from += FRAG)
		arrive_frag(taker, from, src + from, TAGRV_MIN(FRAG, to - from));
}

/* Piece i of the middle arrives; returns where the next one begins. */
static inline size_t piece(uint32_t taker, uint32_t i, size_t middle)
{
	size_t from = HEAD + i * PIECE;

	arrive_piece(taker, from, TAGRV_MIN(PIECE, middle - from), src, NAME + i);
	return from + PIECE;
}

/* The last packet is the FIN of piece i. */
static inline void expect_taken(uint32_t i, int err)
{
	cr_assert_eq(last(TAGRV_PKT_FIN).op, NAME + i);
	cr_assert_eq(last(TAGRV_PKT_FIN).data, (uint64_t) err);
}

static inline void expect_nothing_left(void)
{
	expect_empty(&fx.rx);
	cr_assert_eq(fake.regs, 0);
	cr_assert_eq(fx.engine->credit.frags, 0);
	cr_assert_eq(fx.engine->pools.xfers.used + fx.engine->pools.pieces.used +
		     fx.engine->rx->ops.used, 0);
}

/* ---- a send, and the packets of its receiver ---- */

/* The peer asks for 'want' bytes, from 'middle' on by copies, and for 'pieces' at a time. */
static inline void ask(uint32_t handle, size_t want, size_t middle, uint8_t pieces)
{
	const struct tagrv_cts cts = {
		.want = htole64(want), .op = htole32(TAKER), .pieces = pieces,
	};

	arrive_wish(TAGRV_PKT_CTS, handle, middle, &cts);
}

/* Sends BIG bytes by pieces; returns the handle. */
static inline uint32_t announce(uint64_t flags)
{
	engine_set_rndv(TAGRV_PROTO_RNDV_PIPE);
	cr_assert_eq(submit_send(src, BIG, 4, ctx, flags), 0);
	return last(TAGRV_PKT_RTS).op;
}

/* Packet i offers the piece at 'from'; returns its handle. */
static inline uint32_t expect_piece(size_t i, size_t from, size_t len)
{
	struct tagrv_hdr hdr = packet_header(i);
	struct tagrv_cts cts = body_of(i);
	struct tagrv_rts_seg seg;

	cr_assert_eq(hdr.opcode, TAGRV_PKT_PIECE);
	cr_assert_eq(hdr.op, TAKER);
	cr_assert_eq(hdr.data, from);
	cr_assert_eq(le64toh(cts.want), len);
	cr_assert_eq(cts.seg_cnt, 1);
	memcpy(&seg, fake.log[i].data + 32 + sizeof(cts), sizeof(seg));
	cr_assert_eq(le64toh(seg.addr), (uintptr_t) src + from);
	cr_assert_eq(le64toh(seg.len), len);
	return le32toh(cts.op);
}

#endif
