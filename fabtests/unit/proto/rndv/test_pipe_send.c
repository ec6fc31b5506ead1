/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by pieces, the sender: which bytes go which way, every way it can end.
 */
#include "unit/proto/rndv/pipe_calls.h"

Test(rndv_pipe, head_goes_with_the_announcement)
{
	struct tagrv_peer *peer = tagrv_peer_find(fx.engine, &fx.addr);
	uint32_t left = peer->credit.left, handle = announce(0);

	cr_assert_eq(fake.log[0].len, 32 + 16 + OWN_HEAD);
	cr_assert_eq(fake.log[0].data[32 + 10], TAGRV_PROTO_RNDV_PIPE);
	cr_assert_arr_eq(fake.log[0].data + 48, src, OWN_HEAD);
	cr_assert_eq(peer->credit.left, left - tagrv_credit_units(OWN_HEAD));
	cr_assert_eq(fake.regs_made, 0);
	/* The receive has room for the head only, and ends the send. */
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_PIPE], 1);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_READ], 0);
	/* No head without credit; an RTS that finds no room costs none. */
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

/* The FIN of the message arrives right behind the FIN of the last piece. */
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

/* Only one piece at a time can be registered, though more were asked for. */
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

/* The first FIN of the packet closes the link: the rest of the packet is dropped. */
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

		ask(handle, BIG, OWN_HEAD, 1);	/* the tail begins behind the head */
		cr_assert_eq(last(TAGRV_PKT_FRAG).op, TAKER);
		expect_empty(&fx.tx);
		arrive_fin(handle, 0);
		cr_assert_eq(take(&fx.tx).err, 0);
	}
}

/* Steps: announced; tail not sent; piece not offered; pieces offered; all pieces read. */
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
