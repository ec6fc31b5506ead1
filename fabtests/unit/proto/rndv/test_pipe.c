/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by pieces, the receiver: which bytes go which way, every way it can end.
 * test_pipe_send.c has the sender, test_pipe_refuse.c what a peer must not do.
 */
#include "unit/proto/rndv/pipe_calls.h"

static void setup(void)
{
	rndv_setup(BIG);
	fx.dom->params.read_segment = PIECE;
}

TestSuite(rndv_pipe, .init = setup, .fini = rndv_teardown, .timeout = 20);

Test(rndv_pipe, head_tail_and_pieces_make_a_message)
{
	uint32_t taker, i = 0;
	size_t middle;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_head(src, HEAD, BIG, 4, 99);
	cr_assert_arr_eq(src, dst, HEAD);
	middle = cts_of(BIG, &taker);
	cr_assert_eq(middle, MIDDLE);
	tail(taker, middle, BIG);
	cr_assert_arr_eq(src + middle, dst + middle, BIG - middle);
	cr_assert_eq(fake.regs, 0);
	while (piece(taker, i, middle) < middle) {
		cr_assert_eq(fake.log[fake.log_cnt - 1].kind, FAKE_GET);
		cr_assert_eq(fake.regs, 1);
		fake_complete(fake.log_cnt - 1, 0);
		expect_taken(i++, 0);
		cr_assert_eq(fake.regs, 0);
		expect_empty(&fx.rx);
	}
	fake_complete(fake.log_cnt - 1, 0);
	cr_assert_eq(packet_header(fake.log_cnt - 2).op, NAME + i);
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 99);
	cr_assert_eq(last(TAGRV_PKT_FIN).data, 0);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_arr_eq(src, dst, BIG);
	cr_assert_eq(fx.engine->stats.moved_rx[TAGRV_PROTO_RNDV_PIPE], 1);
	cr_assert_eq(fx.engine->stats.moved_rx[TAGRV_PROTO_RNDV_READ], 0);
	cr_assert_eq(fx.engine->stats.moved_rx[TAGRV_PROTO_RNDV_COPY], 0);
	expect_nothing_left();
}

/* Pieces are read while the next ones are registered, and end in any order. */
Test(rndv_pipe, pieces_are_read_side_by_side)
{
	uint32_t taker = begin(BIG);
	size_t first = fake.log_cnt;

	for (uint32_t i = 0; i < DEPTH; i++)
		piece(taker, i, MIDDLE);
	cr_assert_eq(fake.regs, DEPTH);
	for (uint32_t i = DEPTH; i--;)
		fake_complete(first + i, 0);
	cr_assert_eq(fake.regs, 0);
	cr_assert_arr_eq(src + HEAD, dst + HEAD, DEPTH * PIECE);
	/* The tail may come last, too. */
	for (uint32_t i = DEPTH; HEAD + i * PIECE < MIDDLE; i++) {
		piece(taker, i, MIDDLE);
		fake_complete_all(0);
	}
	expect_empty(&fx.rx);
	tail(taker, MIDDLE, BIG);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_arr_eq(src, dst, BIG);
	expect_nothing_left();
}

Test(rndv_pipe, unexpected_head_is_kept_and_paid_for)
{
	struct tagrv_credit *credit =
		&tagrv_peer_find(fx.engine, &fx.addr)->credit;
	uint32_t units = tagrv_credit_units(HEAD), budget, paid, taker;

	budget = fx.engine->credit.budget;
	arrive_rts_head(src, HEAD, BIG, 4, 99);
	paid = budget - fx.engine->credit.budget;
	cr_assert_geq(paid, HEAD / TAGRV_CREDIT_UNIT);
	fx.engine->credit.budget = 0;
	arrive_rts_head(src, HEAD, BIG, 5, 98);
	cr_assert_eq(credit->promised + credit->owed + units, credit->window);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	cts_of(BIG, &taker);
	cr_assert_arr_eq(src, dst, HEAD);
	cr_assert_eq(fx.engine->credit.budget, paid);
	/* The head fills the whole receive, which ends at once. */
	cr_assert_eq(submit_recv(dst, HEAD, 5, &ctx[1]), 0);
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 98);
	cr_assert_eq(take(&fx.rx).err, FI_ETRUNC);
	cr_assert_eq(credit->promised + credit->owed, credit->window);
}

Test(rndv_pipe, discarded_and_claimed_like_others)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, 4, ctx);
	uint32_t taker;

	arrive_rts_head(src, HEAD, BIG, 4, 98);
	req.flags = FI_PEEK | FI_DISCARD;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 98);
	arrive_rts_head(src, HEAD, BIG, 4, 99);
	req.flags = FI_PEEK | FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	take(&fx.rx);
	req = recv_req(dst, BIG, 4, ctx);
	req.flags |= FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cts_of(BIG, &taker);
	cr_assert_arr_eq(src, dst, HEAD);
}

/* Rooms shorter than the head, as long, that end within the tail's size, in the middle. */
Test(rndv_pipe, only_what_fits_is_asked_for)
{
	const size_t rooms[] = { 0, 1, HEAD, HEAD + 1, HEAD + 3 * FRAG,
				 HEAD + 8 * FRAG + 1, BIG - 1 };

	for (size_t r = 0; r < TAGRV_ARRAY_SIZE(rooms); r++) {
		size_t room = rooms[r], middle;
		struct tagrv_comp comp;
		uint32_t taker;

		memset(dst, 0, BIG + 1);
		cr_assert_eq(submit_recv(dst, room, 4, ctx), 0);
		arrive_rts_head(src, HEAD, BIG, 4, 99);
		if (room > HEAD) {
			middle = cts_of(room, &taker);
			cr_assert_eq(middle, room - TAGRV_MIN(8 * FRAG,
							      room - HEAD));
			for (uint32_t i = 0; HEAD + i * PIECE < middle; i++) {
				piece(taker, i, middle);
				fake_complete_all(0);
			}
			tail(taker, middle, room);
		}
		cr_assert_eq(last(TAGRV_PKT_FIN).op, 99);
		comp = take(&fx.rx);
		cr_assert_eq(comp.err, FI_ETRUNC);
		cr_assert_eq(comp.len, room);
		cr_assert_eq(comp.olen, BIG - room);
		cr_assert(!memcmp(src, dst, room));
		cr_assert_eq(dst[room], 0);
		expect_nothing_left();
	}
	cr_assert_eq(fx.engine->stats.moved_rx[TAGRV_PROTO_RNDV_PIPE],
		     TAGRV_ARRAY_SIZE(rooms) - 1);
}

Test(rndv_pipe, receiver_that_wants_another_way_has_no_use_for_the_head)
{
	for (int p = TAGRV_PROTO_RNDV_WRITE; p <= TAGRV_PROTO_RNDV_COPY; p++) {
		engine_set_rndv(p);
		cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
		arrive_rts_head(src, HEAD, BIG, 4, 99);
		cr_assert_eq(body_of(fake.log_cnt - 1).pieces, 0);
		cr_assert_eq(last(TAGRV_PKT_CTS).data,
			     p == TAGRV_PROTO_RNDV_COPY ? 8 * FRAG : 0);
	}
	/* An announcement with a head has no key for a read of the whole. */
	engine_set_rndv(TAGRV_PROTO_RNDV_READ);
	begin(BIG);
}

Test(rndv_pipe, receiver_may_want_pieces_of_what_could_be_read)
{
	uint32_t taker;

	engine_set_rndv(TAGRV_PROTO_RNDV_PIPE);
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	cr_assert_eq(cts_of(BIG, &taker), MIDDLE);
	cr_assert_eq(fake.regs, 0);
	arrive_piece(taker, 0, PIECE, src, NAME);
	cr_assert_eq(fake.log[fake.log_cnt - 1].kind, FAKE_GET);
}

Test(rndv_pipe, long_buffer_that_cannot_be_registered_goes_by_pieces)
{
	uint32_t taker;

	fake.reg_longest = PIECE;
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	cts_of(BIG, &taker);
	arrive_piece(taker, 0, PIECE, src, NAME);
	cr_assert_eq(fake.regs, 1);
	/* If not even a piece can be registered, the message is copied. */
	cr_assert_eq(submit_recv(dst, PIECE, 5, ctx), 0);
	fake.reg_longest = 1;
	arrive_rts(src, BIG, 5, 98);
	cr_assert_eq(body_of(fake.log_cnt - 1).pieces, 0);
}

Test(rndv_pipe, pieces_and_receives_may_be_scattered)
{
	struct tagrv_recv_req req = recv_req(dst, BIG, 4, ctx);
	struct iovec iov[4] = {
		{ dst, HEAD + 100 }, { dst + HEAD + 100, 0 },
		{ dst + HEAD + 100, PIECE }, { dst + HEAD + 100 + PIECE,
					       BIG - HEAD - 100 - PIECE },
	};
	uint32_t taker;

	req.iov = iov;
	req.iov_cnt = 4;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	arrive_rts_head(src, HEAD, BIG, 4, 99);
	cts_of(BIG, &taker);
	for (uint32_t i = 0; HEAD + i * PIECE < MIDDLE; i++) {
		piece(taker, i, MIDDLE);
		if (i < 2)
			cr_assert_eq(fake.regs, 2, "on both sides of a cut");
		fake_complete_all(0);
		expect_taken(i, 0);
	}
	tail(taker, MIDDLE, BIG);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_arr_eq(src, dst, BIG);
	expect_nothing_left();
}

/* Pieces 0 and 2 are read, 1 fails: everything from piece 1 on is copied. */
Test(rndv_pipe, piece_that_cannot_be_registered_is_copied)
{
	uint32_t taker = begin(BIG);
	size_t gap = (HEAD + PIECE) / FRAG * FRAG;

	tail(taker, MIDDLE, BIG);
	piece(taker, 0, MIDDLE);
	fake.reg_error_once = -FI_ENOMEM;
	piece(taker, 1, MIDDLE);
	expect_taken(1, FI_ENOMEM);
	piece(taker, 2, MIDDLE);
	fake_complete_all(0);
	arrive_frag(taker, gap, src, 0);
	for (size_t next = gap; next < BIG; next += FRAG) {
		if (packet_header(fake.log_cnt - 1).opcode == TAGRV_PKT_GRANT)
			cr_assert_gt(last(TAGRV_PKT_GRANT).data, next);
		arrive_frag(taker, next, src + next,
			    TAGRV_MIN(FRAG, BIG - next));
	}
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 99);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_arr_eq(src, dst, BIG);
	cr_assert_eq(fx.engine->stats.moved_rx[TAGRV_PROTO_RNDV_PIPE], 1);
	cr_assert_eq(fx.engine->stats.moved_rx[TAGRV_PROTO_RNDV_COPY], 0);
	expect_nothing_left();
}

Test(rndv_pipe, piece_that_finds_no_room_is_copied)
{
	uint32_t taker = begin(BIG);

	fx.engine->pools.pieces.max = 0;
	tail(taker, MIDDLE, BIG);
	piece(taker, 0, MIDDLE);
	expect_taken(0, FI_ENOMEM);
	arrive_frag(taker, 0, src, 0);
	cr_assert_eq(last(TAGRV_PKT_GRANT).data, 8 * FRAG);
}

Test(rndv_pipe, failed_piece_is_told_and_the_sender_ends_it)
{
	for (int i = 0; i < 2; i++) {
		uint32_t taker = begin(BIG);

		fake.reg_error_once = i ? -FI_EFAULT : 0;
		piece(taker, 0, MIDDLE);
		fake_complete_all(-FI_EIO);
		expect_taken(0, i ? FI_EFAULT : FI_EIO);
		expect_empty(&fx.rx);
		arrive_control(TAGRV_PKT_DONE, taker, i ? FI_EFAULT : FI_EIO);
		cr_assert_eq(take(&fx.rx).err, i ? FI_EFAULT : FI_EIO);
		expect_nothing_left();
	}
}

Test(rndv_pipe, receiver_without_room_goes_on_later)
{
	uint32_t taker;

	fake.refuse_all = true;
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_head(src, HEAD, BIG, 4, 99);
	cr_assert_eq(fake.log_cnt, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cts_of(BIG, &taker);
	/* The transport has no room for the read, then none for its FIN. */
	fake.refuse_all = true;
	piece(taker, 0, MIDDLE);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log[fake.log_cnt - 1].kind, FAKE_GET);
	fake.refuse_all = true;
	fake_complete_all(0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	expect_taken(0, 0);
}

/* Steps: no CTS yet; CTS sent; reads not posted; in flight; held by the link; copies. */
Test(rndv_pipe, link_error_ends_receives_wherever_they_are)
{
	for (int step = 0; step < 6; step++) {
		uint32_t taker = 0;

		fake.refuse_all = step == 0;
		if (step)
			taker = begin(BIG);
		else
			cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
		if (!step)
			arrive_rts_head(src, HEAD, BIG, 4, 99);
		if (step > 1)
			tail(taker, MIDDLE, BIG);
		fake.refuse_all = step == 2;
		for (uint32_t i = 0; step > 1 && i < DEPTH; i++)
			piece(taker, i, MIDDLE);
		fake.hold_closed = step == 4;
		if (step == 5) {
			fake_complete_all(-FI_ENOMEM);
			arrive_frag(taker, 0, src, 0);
			last(TAGRV_PKT_GRANT);
		}
		fake_break_link(fx.link, -FI_EHOSTUNREACH);
		if (step == 4) {
			expect_empty(&fx.rx);
			cr_assert_eq(fake.regs, DEPTH, "reads may go on");
			fake_close_held();
		}
		cr_assert_eq(take(&fx.rx).err, FI_EHOSTUNREACH);
		expect_nothing_left();
		fake.refuse_all = false;
		peer_up(true);
	}
}

/* Sending the FIN of a piece fails, which closes the lane. */
Test(rndv_pipe, fin_that_cannot_be_sent_ends_the_receive_once)
{
	uint32_t taker = begin(BIG);

	for (uint32_t i = 0; i < DEPTH; i++)
		piece(taker, i, MIDDLE);
	fake.ctrl_error = -FI_EMSGSIZE;
	fake_complete_all(0);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(take(&fx.rx).err, FI_EMSGSIZE);
	expect_nothing_left();
}

/* engine_teardown() checks that nothing is left behind. */
Test(rndv_pipe, endpoint_closes_in_the_middle)
{
	uint32_t taker = begin(BIG);

	tail(taker, MIDDLE, BIG);
	piece(taker, 0, MIDDLE);
	piece(taker, 1, MIDDLE);
	ask(announce(0), BIG, MIDDLE, 3);
	fake.refuse_all = true;
	arrive_fin(body_of(fake.log_cnt - 1).op, 0);
}
