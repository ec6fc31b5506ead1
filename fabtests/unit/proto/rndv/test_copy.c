/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by copies, the receiver: what it grants, where the bytes go, every way it
 * can end. test_copy_send.c has the sender, test_copy_refuse.c what a peer must not do.
 */
#include "unit/proto/rndv/copy_calls.h"

static void setup(void)
{
	rndv_setup(BIG);
}

TestSuite(rndv_copy, .init = setup, .fini = rndv_teardown, .timeout = 20);

Test(rndv_copy, receiver_asks_copies_and_answers)
{
	uint32_t taker;
	size_t granted;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	granted = cts_of(99, BIG, &taker);
	cr_assert_eq(granted, DEPTH * FRAG);
	for (size_t i = 0; i < CNT; i++) {
		cr_assert_lt(i * FRAG, granted);
		expect_empty(&fx.rx);
		frag(taker, i, BIG);
		if (packet_header(fake.log_cnt - 1).opcode == TAGRV_PKT_GRANT)
			granted = last(TAGRV_PKT_GRANT).data;
		cr_assert_leq(granted, (i + 1 + DEPTH) * FRAG);
	}
	cr_assert_eq(granted, BIG);
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 99);
	cr_assert_eq(last(TAGRV_PKT_FIN).data, 0);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_arr_eq(src, dst, BIG);
	cr_assert_eq(fx.engine->credit.frags, 0);
	cr_assert_eq(fx.engine->stats.moved_rx[TAGRV_PROTO_RNDV_COPY], 1);
	cr_assert_eq(fx.engine->pools.xfers.used, 0);
}

Test(rndv_copy, unregistrable_receive_is_copied)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	fake.reg_error = -FI_ENOMEM;
	arrive_rts(src, FRAG, 4, 99);
	cr_assert_eq(cts_of(99, FRAG, &taker), FRAG);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_arr_eq(src, dst, FRAG);
}

/* The first registration succeeds and is given back; it is not tried again. */
Test(rndv_copy, partly_registrable_memory_is_copied)
{
	struct tagrv_recv_req recv = recv_req(dst, FRAG, 4, ctx);
	struct tagrv_send_req send;
	struct iovec iov[2] = { { dst, 100 }, { dst + 100, FRAG - 100 } };
	uint32_t taker;

	fake.regs_max = 1;
	engine_set_rndv(TAGRV_PROTO_RNDV_WRITE);
	recv.iov = iov;
	recv.iov_cnt = 2;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &recv), 0);
	arrive_rts(src, FRAG, 4, 99);
	cr_assert_eq(cts_of(99, FRAG, &taker), FRAG);
	cr_assert_eq(fake.regs, 0);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
	/* A send tries again when there was no room for its RTS. */
	send = send_req(dst, FRAG, 4, ctx);
	send.iov = iov;
	send.iov_cnt = 2;
	fake.refuse = 2;
	cr_assert_eq(tagrv_engine_send(fx.engine, &send), 0);
	for (int i = 0; i < 3; i++)
		tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.regs, 0);
	arrive_fin(last(TAGRV_PKT_RTS).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(rndv_copy, without_remote_reads_it_is_copied)
{
	uint32_t taker;

	fake.base.attr.caps = 0;
	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	arrive_rts(src, FRAG, 4, 99);
	cts_of(99, FRAG, &taker);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
}

Test(rndv_copy, either_side_may_ask_for_it)
{
	uint32_t taker;

	engine_set_rndv(TAGRV_PROTO_RNDV_COPY);
	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	arrive_rts(src, FRAG, 4, 99);
	cts_of(99, FRAG, &taker);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
	/* A sender that is set to copy does not offer its memory. */
	cr_assert_eq(submit_send(src, BIG, 4, ctx, 0), 0);
	cr_assert_eq(fake.log[fake.log_cnt - 1].len, 32 + 16);
	cr_assert_eq(fake.log[fake.log_cnt - 1].data[32 + 10],
		     TAGRV_PROTO_RNDV_COPY);
	cr_assert_eq(fake.regs, 0);
	arrive_fin(last(TAGRV_PKT_RTS).op, 0);
}

Test(rndv_copy, scattered_receive_is_filled_in_place)
{
	struct tagrv_recv_req req = recv_req(dst, BIG, 4, ctx);
	struct iovec iov[4] = {
		{ dst, 1000 }, { dst + 1000, 0 }, { dst + 1000, FRAG },
		{ dst + 1000 + FRAG, BIG - 1000 - FRAG },
	};
	uint32_t taker;

	req.iov = iov;
	req.iov_cnt = 4;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	for (size_t i = 0; i < CNT; i++)
		frag(taker, i, BIG);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_arr_eq(src, dst, BIG);
}

Test(rndv_copy, only_what_fits_is_asked_for)
{
	struct tagrv_comp comp;
	uint32_t taker;

	arrive_rts_bare(BIG, 4, 99);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(submit_recv(dst, 1000, 4, ctx), 0);
	cr_assert_eq(cts_of(99, 1000, &taker), 1000);
	frag(taker, 0, 1000);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ETRUNC);
	cr_assert_eq(comp.olen, BIG - 1000);
	cr_assert_eq(dst[1000], 0);
	cr_assert_eq(last(TAGRV_PKT_FIN).data, 0);
}

Test(rndv_copy, grants_of_all_messages_are_bounded)
{
	uint32_t taker[10];
	size_t granted = 0, log;

	for (int i = 0; i < 10; i++) {
		cr_assert_eq(submit_recv(dst, BIG, (uint64_t) i, &ctx[i]), 0);
		log = fake.log_cnt;
		arrive_rts_bare(BIG, (uint64_t) i, 100 + (uint32_t) i);
		if (fake.log_cnt > log)
			granted += cts_of(100 + (uint32_t) i, BIG, &taker[i]);
	}
	cr_assert_eq(granted, DEPTH * DEPTH * FRAG);
	cr_assert_eq(fx.engine->credit.frags, DEPTH * DEPTH);
	/* The room of each fragment that arrives is granted to a receive that waits. */
	log = fake.log_cnt;
	frag(taker[0], 0, BIG);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, log + 1);
	cr_assert_eq(cts_of(108, BIG, &taker[8]), FRAG);
}

Test(rndv_copy, cts_without_room_is_sent_later)
{
	uint32_t taker;

	fake.refuse_all = true;
	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	arrive_rts_bare(FRAG, 4, 99);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(fx.engine->credit.frags, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cts_of(99, FRAG, &taker);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
}

Test(rndv_copy, cts_that_cannot_be_sent_ends_the_receive_once)
{
	fake.ctrl_error = -FI_EMSGSIZE;
	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	arrive_rts_bare(FRAG, 4, 99);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(take(&fx.rx).err, FI_EMSGSIZE);
	expect_empty(&fx.rx);
}

Test(rndv_copy, link_error_ends_receives_wherever_they_are)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, &ctx[0]), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	frag(taker, 0, BIG);
	fake.refuse_all = true;
	cr_assert_eq(submit_recv(dst, BIG, 5, &ctx[1]), 0);
	arrive_rts_bare(BIG, 5, 98);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.rx).err, FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.rx).err, FI_EHOSTUNREACH);
	expect_empty(&fx.rx);
	cr_assert_eq(fx.engine->credit.frags, 0);
	cr_assert_eq(fx.engine->pools.xfers.used, 0);
	/* The receive's old handle means nothing on the next connection. */
	fake.refuse_all = false;
	peer_up(true);
	frag(taker, 1, BIG);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	cr_assert_eq(dst[FRAG], 0);
}

Test(rndv_copy, sender_gives_up)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	arrive_control(TAGRV_PKT_DONE, taker, FI_EIO);
	cr_assert_eq(take(&fx.rx).err, FI_EIO);
	cr_assert_eq(fx.engine->credit.frags, 0);
	last(TAGRV_PKT_CTS);	/* no FIN for a send that has ended */
}

/* ---- peeks, and the end of the endpoint ---- */

Test(rndv_copy, discard_frees_the_sender_without_copying)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, 4, ctx);

	arrive_rts_bare(BIG, 4, 99);
	req.flags = FI_PEEK | FI_DISCARD;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 99);
}

Test(rndv_copy, claimed_message_is_copied)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, 4, ctx);
	uint32_t taker;

	arrive_rts_bare(FRAG, 4, 99);
	req.flags = FI_PEEK | FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	take(&fx.rx);
	req = recv_req(dst, FRAG, 4, ctx);
	req.flags |= FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cts_of(99, FRAG, &taker);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).len, FRAG);
}

/* engine_teardown() checks that nothing is left behind. */
Test(rndv_copy, endpoint_closes_in_the_middle)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	frag(taker, 0, BIG);
	arrive_cts(announce(0), 55, BIG, 2 * FRAG);
}
