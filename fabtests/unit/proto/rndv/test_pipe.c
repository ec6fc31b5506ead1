/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by pieces: both halves, which bytes go which way, every way it can
 * end, and what a peer must not do.
 */
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"

#define FRAG	(FAKE_PACKET_MAX - sizeof(struct tagrv_hdr))
#define PIECE	((size_t) 16384)
#define BIG	((size_t) 200000)
#define HEAD	((size_t) 4096)		/* of the peer's */
#define DEPTH	4
#define MIDDLE	(BIG - 8 * FRAG)	/* 8 pieces, behind whichever head */
#define NAME	((uint32_t) 700)	/* of the peer's first piece */

static char ctx[8];
static char *src, *dst;
static uint32_t bad_cnt;

static void setup(void)
{
	engine_setup();
	fx.dom->params.read_segment = PIECE;
	peer_up(true);
	bad_cnt = 0;
	src = malloc(BIG);
	dst = calloc(1, BIG + 1);
	for (size_t i = 0; i < BIG; i++)
		src[i] = (char) (i * 7 + (i >> 9) + 1);
}

static void teardown(void)
{
	engine_teardown();
	free(src);
	free(dst);
}

TestSuite(rndv_pipe, .init = setup, .fini = teardown, .timeout = 20);

static struct tagrv_hdr last(uint8_t opcode)
{
	struct tagrv_hdr hdr;

	cr_assert_gt(fake.log_cnt, 0);
	hdr = packet_header(fake.log_cnt - 1);
	cr_assert_eq(hdr.opcode, opcode, "last packet is %u", hdr.opcode);
	return hdr;
}

static struct tagrv_cts body_of(size_t i)
{
	struct tagrv_cts cts;

	cr_assert_geq(fake.log[i].len, sizeof(struct tagrv_hdr) + sizeof(cts));
	memcpy(&cts, fake.log[i].data + sizeof(struct tagrv_hdr), sizeof(cts));
	return cts;
}

static void expect_refused(void)
{
	cr_assert_eq(fx.engine->stats.bad_packets, ++bad_cnt);
	cr_assert_eq(fake.links, 0, "the connection is given up");
}

/* ---- receiver ---- */

/* The CTS at the end of the log: where the middle ends, and the receive's name. */
static size_t cts_of(size_t want, uint32_t *taker)
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

/* A matched receive of 'room' bytes that was told of BIG by a pipeline. */
static uint32_t begin(size_t room)
{
	uint32_t taker;

	memset(dst, 0, BIG + 1);
	cr_assert_eq(submit_recv(dst, room, 4, ctx), 0);
	arrive_rts_head(src, HEAD, BIG, 4, 99);
	cts_of(TAGRV_MIN(room, BIG), &taker);
	return taker;
}

static void tail(uint32_t taker, size_t from, size_t to)
{
	for (; from < to; from += FRAG)
		arrive_frag(taker, from, src + from, TAGRV_MIN(FRAG, to - from));
}

/* Piece i of the middle, behind the peer's head. */
static size_t piece(uint32_t taker, uint32_t i, size_t middle)
{
	size_t from = HEAD + i * PIECE;

	arrive_piece(taker, from, TAGRV_MIN(PIECE, middle - from), src, NAME + i);
	return from + PIECE;
}

/* The FIN at the end of the log, of piece i. */
static void expect_taken(uint32_t i, int err)
{
	cr_assert_eq(last(TAGRV_PKT_FIN).op, NAME + i);
	cr_assert_eq(last(TAGRV_PKT_FIN).data, (uint64_t) err);
}

static void expect_nothing_left(void)
{
	expect_empty(&fx.rx);
	cr_assert_eq(fake.regs, 0);
	cr_assert_eq(fx.engine->credit.frags, 0);
	cr_assert_eq(fx.engine->pools.xfers.used + fx.engine->pools.pieces.used +
		     fx.engine->rx->ops.used, 0);
}

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

/* Each is being read while the next one is registered; ends in any order. */
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
	uint32_t units = tagrv_credit_units(HEAD), budget, taker;

	budget = fx.engine->credit.budget;
	arrive_rts_head(src, HEAD, BIG, 4, 99);
	cr_assert_eq(fx.engine->credit.budget, budget - units);
	fx.engine->credit.budget = 0;
	arrive_rts_head(src, HEAD, BIG, 5, 98);
	cr_assert_eq(credit->promised + credit->owed + units, credit->window);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	cts_of(BIG, &taker);
	cr_assert_arr_eq(src, dst, HEAD);
	cr_assert_eq(fx.engine->credit.budget, units);
	/* One that fits ends at once. */
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

/* Shorter than the head, as long, within the tail's size, within the middle. */
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
	/* There is nothing to be read at once. */
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
	/* Not where less could not be registered, either. */
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

/* Pieces 0 and 2 are there, 1 cannot be had: all from it on is copied. */
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
	/* No room for the read, then none for its FIN. */
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

/* Nothing said, tail only, reads to be posted, in flight, copies instead. */
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

/* The FIN of a piece is the end of the lane. */
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

/* It names no memory. */
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
	case 5:		/* nobody's */
		arrive_piece(taker, next, PIECE, src, 0);
		break;
	case 6:
		arrive_piece(taker ^ 1u << 25, next, PIECE, src, NAME);
		break;
	case 7:
		arrive_piece(taker, SIZE_MAX, 2, src, NAME);
		break;
	case 8:		/* there is a tail to come, and pieces */
		arrive_control(TAGRV_PKT_DONE, taker, 0);
		break;
	case 9:		/* pieces are out */
		arrive_control(TAGRV_PKT_DONE, taker, FI_EIO);
		break;
	case 10:
		tail(taker, MIDDLE, BIG);
		arrive_frag(taker, (HEAD + PIECE) / FRAG * FRAG, src, 0);
		break;
	case 11:	/* copies of the middle */
		arrive_frag(taker, next, src, FRAG);
		break;
	case 12:	/* more than were asked for */
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

/* Nothing is missing; the wrong place; without the tail; a piece after it. */
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

/* It was asked for something else. */
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

/* ---- sender ---- */

#define OWN_HEAD	((size_t) 8192)
#define TAKER		55

/* The peer wants 'want' bytes, the ones from 'middle' on copied. */
static void ask(uint32_t handle, size_t want, size_t middle, uint8_t pieces)
{
	const struct tagrv_cts cts = {
		.want = htole64(want), .op = htole32(TAKER), .pieces = pieces,
	};

	arrive_wish(TAGRV_PKT_CTS, handle, middle, &cts);
}

static uint32_t announce(uint64_t flags)
{
	engine_set_rndv(TAGRV_PROTO_RNDV_PIPE);
	cr_assert_eq(submit_send(src, BIG, 4, ctx, flags), 0);
	return last(TAGRV_PKT_RTS).op;
}

/* Packet i offers the piece at 'from'; returns its handle. */
static uint32_t expect_piece(size_t i, size_t from, size_t len)
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

Test(rndv_pipe, head_goes_with_the_announcement)
{
	struct tagrv_peer *peer = tagrv_peer_find(fx.engine, &fx.addr);
	uint32_t left = peer->credit.left, handle = announce(0);

	cr_assert_eq(fake.log[0].len, 32 + 16 + OWN_HEAD);
	cr_assert_eq(fake.log[0].data[32 + 10], TAGRV_PROTO_RNDV_PIPE);
	cr_assert_arr_eq(fake.log[0].data + 48, src, OWN_HEAD);
	cr_assert_eq(peer->credit.left, left - tagrv_credit_units(OWN_HEAD));
	cr_assert_eq(fake.regs_made, 0);
	/* It was all that fitted. */
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_PIPE], 1);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_READ], 0);
	/* None without credit, and the credit of a refused one is kept. */
	peer->credit.left = tagrv_credit_units(OWN_HEAD) - 1;
	handle = announce(0);
	cr_assert_eq(fake.log[1].len, 32 + 16);
	ask(handle, BIG, MIDDLE, 1);
	expect_piece(fake.log_cnt - 1, 0, PIECE);
	peer->credit.left = 1000;
	fake.refuse_all = true;
	cr_assert_eq(submit_send(src, BIG, 4, ctx, 0), 0);
	cr_assert_eq(peer->credit.left, 1000);
}

Test(rndv_pipe, tail_goes_first_then_pieces_one_by_one)
{
	uint32_t handle = announce(0), names[16];
	size_t next = OWN_HEAD, done = 0, i = 1, at = MIDDLE;

	ask(handle, BIG, MIDDLE, 2);
	for (; at < BIG; at += FRAG, i++) {
		cr_assert_eq(packet_header(i).opcode, TAGRV_PKT_FRAG);
		cr_assert_eq(packet_header(i).data, at);
		cr_assert_arr_eq(fake.log[i].data + 32, src + at,
				 TAGRV_MIN(FRAG, BIG - at));
	}
	for (size_t n = 0; next < MIDDLE; n++, i++) {
		size_t len = TAGRV_MIN(PIECE, MIDDLE - next);

		names[n] = expect_piece(i, next, len);
		next += len;
		cr_assert_leq(fake.regs, 2);
		cr_assert_eq(fake.log_cnt, i + (n == 0 && next < MIDDLE) + 1);
		if (n)
			arrive_fin(names[done++], 0);
	}
	cr_assert_eq(fake.regs, 1);
	arrive_fin(names[done], 0);
	cr_assert_eq(fake.regs, 0);
	cr_assert_eq(fake.regs_made, done + 1);
	expect_empty(&fx.tx);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_PIPE], 1);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
}

Test(rndv_pipe, scattered_pieces_have_a_key_for_each_part)
{
	struct iovec iov[3] = {
		{ src, OWN_HEAD + 10 }, { src + OWN_HEAD + 10, 20 },
		{ src + OWN_HEAD + 30, BIG - OWN_HEAD - 30 },
	};
	struct tagrv_send_req req;
	struct tagrv_rts_seg seg[3];

	engine_set_rndv(TAGRV_PROTO_RNDV_PIPE);
	req = send_req(src, BIG, 4, ctx);
	req.iov = iov;
	req.iov_cnt = 3;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	ask(last(TAGRV_PKT_RTS).op, BIG, MIDDLE, 1);
	last(TAGRV_PKT_PIECE);
	cr_assert_eq(body_of(fake.log_cnt - 1).seg_cnt, 3);
	memcpy(seg, fake.log[fake.log_cnt - 1].data + 48, sizeof(seg));
	cr_assert_eq(le64toh(seg[0].addr), (uintptr_t) src + OWN_HEAD);
	cr_assert_eq(le64toh(seg[0].len), 10);
	cr_assert_eq(le64toh(seg[1].len), 20);
	cr_assert_eq(le64toh(seg[2].len), PIECE - 30);
	cr_assert_eq(fake.regs, 3);
}

Test(rndv_pipe, sender_without_room_registers_nothing_twice)
{
	uint32_t handle = announce(0), name;

	fake.refuse = 1;
	ask(handle, BIG, BIG - FRAG, 1);
	cr_assert_eq(fake.log_cnt, 1);
	tagrv_engine_progress(fx.engine);
	name = expect_piece(2, OWN_HEAD, PIECE);
	cr_assert_eq(fake.log_cnt, 3);
	fake.refuse_all = true;
	arrive_fin(name, 0);
	for (int i = 0; i < 3; i++)
		tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.regs_made, 2);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	expect_piece(3, OWN_HEAD + PIECE, PIECE);
	cr_assert_eq(fake.regs_made, 2);
}

/* The answer to all comes with that to the last piece. */
Test(rndv_pipe, sender_that_is_through_waits_for_no_other)
{
	uint32_t handle = announce(0), other = announce(0), name;

	ask(handle, OWN_HEAD + PIECE + FRAG, OWN_HEAD + PIECE, 1);
	name = expect_piece(fake.log_cnt - 1, OWN_HEAD, PIECE);
	fake.refuse_all = true;
	ask(other, BIG, MIDDLE, 1);
	arrive_fin(name, 0);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
}

/* Less at a time is registered than was asked for. */
Test(rndv_pipe, sender_short_of_memory_waits_for_its_own)
{
	uint32_t name;

	fake.regs_max = 1;
	ask(announce(0), BIG, BIG, DEPTH);
	for (size_t i = 1, next = OWN_HEAD; next < BIG; i++, next += PIECE) {
		cr_assert_eq(fake.log_cnt, i + 1);
		name = expect_piece(i, next, TAGRV_MIN(PIECE, BIG - next));
		arrive_fin(name, 0);
	}
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_COPY], 0);
}

static void expect_copies(uint32_t handle, size_t gap)
{
	cr_assert_eq(last(TAGRV_PKT_FRAG).data, gap);
	cr_assert_eq(fake.log[fake.log_cnt - 1].len, 32);
	cr_assert_eq(fake.regs, 0);
	arrive_control(TAGRV_PKT_GRANT, handle, BIG);
	for (size_t i = fake.log_cnt, at = BIG; at > gap;) {
		at = packet_header(--i).data;
		cr_assert_arr_eq(fake.log[i].data + 32, src + at,
				 fake.log[i].len - 32);
		cr_assert_eq((at - gap) % FRAG, 0);
	}
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_COPY], 0);
}

Test(rndv_pipe, sender_that_cannot_register_copies)
{
	uint32_t handle = announce(0);

	fake.reg_error = -FI_ENOMEM;
	ask(handle, BIG, MIDDLE, DEPTH);
	expect_copies(handle, 0);
}

Test(rndv_pipe, sender_that_cannot_go_on_registering_copies_the_rest)
{
	uint32_t handle = announce(0), name;

	ask(handle, BIG, MIDDLE, 1);
	name = expect_piece(fake.log_cnt - 1, OWN_HEAD, PIECE);
	fake.reg_error = -FI_ENOMEM;
	arrive_fin(name, 0);
	expect_copies(handle, (OWN_HEAD + PIECE) / FRAG * FRAG);
}

Test(rndv_pipe, sender_copies_from_the_first_piece_that_was_not_taken)
{
	uint32_t handle = announce(0), names[3];
	size_t i;

	ask(handle, BIG, MIDDLE, 3);
	i = fake.log_cnt - 3;
	for (size_t n = 0; n < 3; n++)
		names[n] = expect_piece(i + n, OWN_HEAD + n * PIECE, PIECE);
	arrive_fin(names[2], FI_ENOMEM);
	arrive_fin(names[1], FI_ENOMEM);
	cr_assert_eq(fake.log_cnt, i + 3, "not while one is out");
	arrive_fin(names[0], 0);
	expect_copies(handle, (OWN_HEAD + PIECE) / FRAG * FRAG);
}

Test(rndv_pipe, failed_piece_is_the_end_of_the_sender)
{
	for (int i = 0; i < 2; i++) {
		uint32_t handle = announce(0), names[2];

		ask(handle, BIG, MIDDLE, 2);
		for (size_t n = 0; n < 2; n++)
			names[n] = expect_piece(fake.log_cnt - 2 + n,
						OWN_HEAD + n * PIECE, PIECE);
		if (i)
			fake.reg_error = -FI_EFAULT;
		arrive_fin(names[0], i ? 0 : FI_EIO);
		expect_empty(&fx.tx);
		last(TAGRV_PKT_PIECE);
		arrive_fin(names[1], 0);
		cr_assert_eq(take(&fx.tx).err, i ? FI_EFAULT : FI_EIO);
		expect_empty(&fx.tx);
		cr_assert_eq(last(TAGRV_PKT_DONE).op, TAKER);
		cr_assert_eq(last(TAGRV_PKT_DONE).data,
			     (uint64_t) (i ? FI_EFAULT : FI_EIO));
		cr_assert_eq(fx.engine->pools.tx_ops.used + fake.regs, 0);
	}
}

/* What stands behind it in the packet came from a peer that is gone. */
Test(rndv_pipe, link_that_dies_of_a_fin_brings_nothing_more)
{
	const struct tagrv_item item = { .flags = TAGRV_PKT_TAGGED, .tag = 9 };
	const struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_BATCH };
	uint32_t handle = announce(0), names[2];
	uint64_t words[16];
	char *packet = (char *) words;
	size_t len = TAGRV_SHORT_WORDS * sizeof(uint64_t);

	ask(handle, BIG, MIDDLE, 2);
	tagrv_hdr_pack(words, &hdr);
	for (size_t n = 0; n < 2; n++) {
		names[n] = expect_piece(fake.log_cnt - 2 + n,
					OWN_HEAD + n * PIECE, PIECE);
		tagrv_item_pack_fin(packet + len, names[n], FI_EIO);
		len += TAGRV_ITEM_WORD;
	}
	len += tagrv_item_pack(packet + len, &item);
	cr_assert_eq(submit_recv(dst, BIG, 9, &ctx[1]), 0);
	fake.ctrl_error = -FI_EMSGSIZE;
	fake_deliver(fx.link, packet, len);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
	expect_empty(&fx.tx);
	expect_empty(&fx.rx);
	cr_assert_eq(fx.engine->stats.eager_rx, 0);
}

Test(rndv_pipe, levels_end_with_the_fin)
{
	const uint64_t levels[] = { FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
				    FI_MATCH_COMPLETE };

	for (size_t l = 0; l < TAGRV_ARRAY_SIZE(levels); l++) {
		uint32_t handle = announce(levels[l]);

		ask(handle, BIG, OWN_HEAD, 1);	/* all that is left is tail */
		cr_assert_eq(last(TAGRV_PKT_FRAG).op, TAKER);
		expect_empty(&fx.tx);
		arrive_fin(handle, 0);
		cr_assert_eq(take(&fx.tx).err, 0);
	}
}

/* Announced, tail to be sent, a piece to be offered, pieces out, all taken. */
Test(rndv_pipe, link_error_ends_the_sender_in_every_state)
{
	for (int step = 0; step < 5; step++) {
		uint32_t handle = announce(0);

		fake.refuse_all = step == 1;
		if (step == 2)
			fake.refuse = 1;
		if (step)
			ask(handle, step == 4 ? OWN_HEAD + PIECE : BIG,
			    step == 1 ? MIDDLE : OWN_HEAD + PIECE, 2);
		if (step == 4)
			arrive_fin(expect_piece(fake.log_cnt - 1, OWN_HEAD,
						PIECE), 0);
		fake_break_link(fx.link, -FI_EHOSTUNREACH);
		cr_assert_eq(take(&fx.tx).err, FI_EHOSTUNREACH);
		expect_empty(&fx.tx);
		cr_assert_eq(fx.engine->pools.tx_ops.used + fake.regs, 0);
		fake.refuse_all = false;
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
	arrive_fin(name, 0);	/* the next one has its place, but no name */
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

/* The fixture's close finds what is left behind. */
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
