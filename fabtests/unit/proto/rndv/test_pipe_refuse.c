/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by pieces: what a sender and a receiver must not do.
 */
#include "unit/proto/rndv/pipe_calls.h"

/* ---- what a sender must not do ---- */

Test(rndv_pipe, heads_that_make_no_sense_are_refused)
{
	struct tagrv_peer *peer = tagrv_peer_find(fx.engine, &fx.addr);

	arrive_rts_head(src, 101, 100, 4, 99);
	expect_refused();
	peer_up(true);
	peer->credit.promised = tagrv_credit_units(HEAD) - 1;
	arrive_rts_head(src, HEAD, BIG, 4, 99);
	expect_refused();
	cr_assert_eq(fx.engine->pools.umsgs.used, 0);
}

/* A piece that names no memory. */
static void arrive_nothing(uint32_t taker, size_t offset)
{
	const struct tagrv_cts cts = {
		.want = htole64(PIECE), .op = htole32(NAME),
	};

	arrive_wish(TAGRV_PKT_PIECE, taker, offset, &cts);
}

static void bad_piece(int what, uint32_t taker)
{
	size_t next = HEAD + PIECE;

	switch (what) {
	case 0:		/* twice */
		arrive_piece(taker, HEAD, PIECE, src, NAME);
		break;
	case 1:		/* one left out */
		arrive_piece(taker, next + PIECE, PIECE, src, NAME);
		break;
	case 2:		/* overlaps the one before */
		arrive_piece(taker, next - 1, PIECE, src, NAME);
		break;
	case 3:		/* into the tail */
		arrive_piece(taker, next, MIDDLE - next + 1, src, NAME);
		break;
	case 4:
		arrive_piece(taker, next, 0, src, NAME);
		break;
	case 5:		/* without a handle for its FIN */
		arrive_piece(taker, next, PIECE, src, 0);
		break;
	case 6:
		arrive_piece(taker ^ 1u << 25, next, PIECE, src, NAME);
		break;
	case 7:
		arrive_piece(taker, SIZE_MAX, 2, src, NAME);
		break;
	case 8:		/* tail and pieces are still due */
		arrive_control(TAGRV_PKT_DONE, taker, 0);
		break;
	case 9:		/* a piece is being read */
		arrive_control(TAGRV_PKT_DONE, taker, FI_EIO);
		break;
	case 10:
		tail(taker, MIDDLE, BIG);
		arrive_frag(taker, (HEAD + PIECE) / FRAG * FRAG, src, 0);
		break;
	case 11:	/* a copy of the middle */
		arrive_frag(taker, next, src, FRAG);
		break;
	case 12:	/* more pieces than were asked for */
		for (uint32_t i = 1; i <= DEPTH; i++)
			piece(taker, i, MIDDLE);
		break;
	case 13:	/* a header only */
		arrive_control(TAGRV_PKT_PIECE, taker, next);
		break;
	case 14:
		arrive_nothing(taker, next);
		break;
	}
}

Test(rndv_pipe, what_is_not_agreed_is_refused)
{
	for (int what = 0; what < 15; what++) {
		uint32_t taker = begin(BIG);

		piece(taker, 0, MIDDLE);
		bad_piece(what, taker);
		expect_refused();
		cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
		expect_nothing_left();
		for (size_t b = HEAD; b < MIDDLE; b++)
			cr_assert_eq(dst[b], 0);
		peer_up(true);
	}
}

/* Nothing is missing; from a wrong place; before the tail; a piece after the wish. */
Test(rndv_pipe, senseless_wishes_for_copies_are_refused)
{
	for (int i = 0; i < 4; i++) {
		uint32_t taker = begin(BIG), n = 0;

		if (i != 2)
			tail(taker, MIDDLE, BIG);
		for (; i == 0 && HEAD + (n + 1) * PIECE < MIDDLE; n++) {
			piece(taker, n, MIDDLE);
			fake_complete_all(0);
		}
		if (i == 1)
			arrive_frag(taker, FRAG, src, 0);
		if (i == 2)
			arrive_frag(taker, 0, src, 0);
		if (i == 0)
			arrive_frag(taker, HEAD + n * PIECE, src, 0);
		if (i == 3) {
			arrive_frag(taker, 0, src, 0);
			last(TAGRV_PKT_GRANT);
			piece(taker, 0, MIDDLE);
		}
		expect_refused();
		cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
		expect_nothing_left();
		peer_up(true);
	}
}

/* The sender was asked to write or to copy, but offers a piece. */
Test(rndv_pipe, pieces_of_other_messages_are_refused)
{
	for (int p = TAGRV_PROTO_RNDV_WRITE; p <= TAGRV_PROTO_RNDV_COPY; p++) {
		engine_set_rndv(p);
		cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
		arrive_rts_bare(BIG, 4, 99);
		arrive_piece(le32toh(body_of(fake.log_cnt - 1).op), 0, PIECE,
			     src, NAME);
		expect_refused();
		cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
		peer_up(true);
	}
}

/* ---- what a receiver must not do ---- */

Test(rndv_pipe, fins_before_the_end_are_ignored)
{
	uint32_t handle = announce(0), name;

	ask(handle, BIG, MIDDLE, 1);
	name = expect_piece(fake.log_cnt - 1, OWN_HEAD, PIECE);
	arrive_fin(handle, 0);
	arrive_fin(handle, FI_EIO);
	expect_empty(&fx.tx);
	cr_assert_eq(fx.engine->stats.bad_packets, 2);
	fake.refuse_all = true;
	arrive_fin(name, 0);
	arrive_fin(name, 0);	/* the next piece reuses the place, with another handle */
	cr_assert_eq(fx.engine->stats.bad_packets, 3);
	cr_assert_eq(fake.regs, 1);
	arrive_fin(name + TAGRV_POOL_GEN_ONE, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 4, "not offered yet");
}

Test(rndv_pipe, senseless_wishes_are_refused)
{
	for (int i = 0; i < 6; i++) {
		uint32_t handle = announce(0);

		if (i == 0)
			ask(handle, BIG, OWN_HEAD - 1, 2);
		if (i == 1)
			ask(handle, BIG, BIG + 1, 2);
		if (i == 2)
			ask(handle, OWN_HEAD - 1, OWN_HEAD, 2);
		if (i > 2)
			ask(handle, BIG, MIDDLE, 1);
		if (i == 3)
			ask(handle, BIG, MIDDLE, 1);
		if (i == 4)
			arrive_control(TAGRV_PKT_GRANT, handle, BIG);
		if (i == 5)
			ask(body_of(fake.log_cnt - 1).op, PIECE, PIECE, 1);
		expect_refused();
		cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
		expect_empty(&fx.tx);
		cr_assert_eq(fx.engine->pools.tx_ops.used + fake.regs, 0);
		peer_up(true);
	}
}
