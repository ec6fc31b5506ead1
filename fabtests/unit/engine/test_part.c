/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An idle connection is closed by agreement, and made again when it is needed.
 */
#include "unit/engine/part_calls.h"

TestSuite(part, .init = part_setup, .fini = engine_teardown, .timeout = 30);

/* ---- the asker ---- */

Test(part, idle_connection_is_closed_until_it_is_needed)
{
	uint64_t nr = ask();
	size_t packets = fake.log_cnt;
	int ctx[2];

	cr_assert_eq(send_one(&ctx[0]), 0);
	cr_assert_eq(send_one(&ctx[1]), 0);
	pass(10);
	cr_assert_eq(fake.log_cnt, packets, "nothing may be behind the question");
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(peer()->state, TAGRV_PEER_CONNECTING);
	expect_empty(&fx.tx);
	up();
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[1]);
	cr_assert_eq(packet_header(packets).seq, 0, "another connection");
	cr_assert_eq(fx.engine->stats.rejoined, 1);
}

Test(part, without_a_send_nothing_connects)
{
	uint64_t nr = ask();

	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	cr_assert_eq(peer()->state, TAGRV_PEER_IDLE);
	gone(0);
	pass(100);
	expect_empty(&fx.tx);
}

Test(part, peer_that_refuses_is_sent_what_waits)
{
	uint64_t nr = ask();
	size_t packets;
	int ctx;

	cr_assert_eq(send_one(&ctx), 0);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_REFUSE, nr);
	pass(1);
	cr_assert_eq(take(&fx.tx).context, &ctx);
	cr_assert_eq(packet_header(fake.log_cnt - 1).seq, 1, "the same connection");
	packets = fake.log_cnt;
	crowded();
	cr_assert_eq(fake.log_cnt, packets, "it is not asked again at once");
	for (int i = 0; i < 4; i++)
		crowded();
	asked();
}

/* What comes after the question is received, and answered if the peer refuses. */
Test(part, messages_cross_the_question)
{
	uint64_t nr = ask();
	size_t packets = fake.log_cnt;
	char in[8];
	int ctx;

	cr_assert_eq(submit_recv(in, sizeof(in), 1, &ctx), 0);
	arrive_eager(message, sizeof(message), 1, TAGRV_PKT_ACK_DELIVERY, 5);
	cr_assert_eq(take(&fx.rx).context, &ctx);
	pass(2);
	cr_assert_eq(fake.log_cnt, packets);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_REFUSE, nr);
	pass(1);
	cr_assert_eq(packet_header(packets).opcode, TAGRV_PKT_FIN);
}

Test(part, whoever_has_work_is_not_asked)
{
	static char large[100000];
	int ctx;

	up();
	cr_assert_eq(submit_send(message, 8, 1, &ctx, FI_DELIVERY_COMPLETE), 0);
	crowded();
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(submit_send(message, 8, 1, &ctx, FI_TRANSMIT_COMPLETE), 0);
	crowded();
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(submit_send(large, sizeof(large), 1, &ctx, 0), 0);
	crowded();
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	arrive_fin(packet_header(fake.log_cnt - 1).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	crowded();
	asked();
}

Test(part, old_peer_is_not_asked)
{
	up_with(&fx.addr, 0);
	crowded();
	cr_assert_eq(fake.log_cnt, 0);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 1);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

/* ---- the peer goes away meanwhile ---- */

Test(part, agreement_is_among_the_last_packets)
{
	uint64_t nr = ask();
	int ctx;

	cr_assert_eq(send_one(&ctx), 0);
	gone(0);
	cr_assert_eq(peer()->state, TAGRV_PEER_LEAVING);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	pass(100);
	expect_empty(&fx.tx);
	up();
	cr_assert_eq(take(&fx.tx).context, &ctx);
}

Test(part, peer_that_dies_instead_of_answering_is_lost)
{
	int ctx;

	ask();
	cr_assert_eq(send_one(&ctx), 0);
	gone(-FI_ECONNRESET);
	pass(100);
	expect_lost(&ctx, FI_ECONNRESET);
	cr_assert_eq(fake.links, 0);
}

/* The answerer has closed its end, and a packet of the transport found nobody. */
Test(part, failed_link_may_have_brought_the_agreement)
{
	uint64_t nr = ask();
	int ctx;

	cr_assert_eq(send_one(&ctx), 0);
	fake_break_link(fx.link, -FI_ETIMEDOUT);
	expect_empty(&fx.tx);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	up();
	cr_assert_eq(take(&fx.tx).context, &ctx);
	/* Or it has not. */
	crowded();
	cr_assert_eq(send_one(&ctx), 0);
	fake_break_link(fx.link, -FI_ETIMEDOUT);
	pass(100);
	expect_lost(&ctx, FI_ETIMEDOUT);
}

/* ---- the other side ---- */

Test(part, agreement_is_confirmed_before_the_link_closes)
{
	int ctx;

	up();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 77);
	expect_answer(TAGRV_PKT_PART_AGREE, 77);
	cr_assert_eq(peer()->state, TAGRV_PEER_PARTING);
	cr_assert_eq(send_one(&ctx), 0);
	pass(100);
	cr_assert_eq(fake.links, 1);
	fake_complete_all(0);
	cr_assert_eq(closed(), 1);
	cr_assert_eq(fake.links, 0);
	expect_empty(&fx.tx);
	up();
	cr_assert_eq(take(&fx.tx).context, &ctx);
}

/* Whatever is heard first: the asker has its agreement, or is dead. */
Test(part, after_the_agreement_every_end_is_a_good_one)
{
	int ctx;

	for (int way = 0; way < 3; way++) {
		size_t packets;

		up();
		arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 77);
		cr_assert_eq(send_one(&ctx), 0);
		packets = fake.log_cnt;
		if (way == 0)
			gone(0);
		else if (way == 1)
			fake_break_link(fx.link, -FI_ETIMEDOUT);
		if (way < 2)
			cr_assert_eq(closed(), (unsigned) way + 1);
		expect_empty(&fx.tx);
		up();	/* the asker was the first to connect again */
		cr_assert_eq(fx.engine->stats.parted, (uint64_t) way + 1);
		cr_assert_eq(take(&fx.tx).context, &ctx);
		cr_assert_eq(packet_header(packets).seq, 0);
		cr_assert_eq(fake.log[packets].link, fx.link);
		gone(0);
		pass(100);
		fake_end_closed();
	}
}

Test(part, side_with_work_refuses)
{
	int ctx;

	up();
	cr_assert_eq(submit_send(message, 8, 1, &ctx, FI_DELIVERY_COMPLETE), 0);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 77);
	expect_answer(TAGRV_PKT_PART_REFUSE, 77);
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 78);
	expect_answer(TAGRV_PKT_PART_AGREE, 78);
}

/* It is decided when the answer leaves. */
Test(part, answer_waits_for_room)
{
	int ctx;

	for (int busy = 0; busy < 2; busy++) {
		size_t packets = fake.log_cnt;

		up();
		fake.refuse_all = true;
		arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 5);
		pass(3);
		cr_assert_eq(fake.log_cnt, packets);
		cr_assert_eq(peer()->state, TAGRV_PEER_READY);
		if (busy)
			cr_assert_eq(submit_send(message, 8, 1, &ctx,
						 FI_DELIVERY_COMPLETE), 0);
		fake.refuse_all = false;
		pass(1);
		expect_answer(busy ? TAGRV_PKT_PART_REFUSE : TAGRV_PKT_PART_AGREE, 5);
		if (!busy)
			fake_complete_all(0);
	}
}

/* ---- both ask ---- */

Test(part, smaller_of_two_questions_counts)
{
	uint64_t nr = ask();
	size_t packets = fake.log_cnt;

	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, nr + 1);
	cr_assert_eq(fake.log_cnt, packets);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	nr = ask();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, nr - 1);
	expect_answer(TAGRV_PKT_PART_AGREE, nr - 1);
	fake_complete_all(0);
	cr_assert_eq(closed(), 2);
	nr = ask();
	packets = fake.log_cnt;
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, nr);
	cr_assert_eq(fake.log_cnt, packets);
	cr_assert_eq(peer()->state, TAGRV_PEER_READY, "of equal ones neither does");
}

/* ---- what a peer may not do ---- */

static void expect_bad(uint64_t cnt)
{
	cr_assert_eq(fx.engine->stats.bad_packets, cnt);
	cr_assert_null(peer()->lane);
	fake_end_closed();
}

Test(part, malformed_packets_end_the_connection)
{
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_PART };
	char packet[sizeof(hdr) + 1] = { 0 };
	uint64_t nr;

	up();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_REFUSE + 1, 1);
	expect_bad(1);
	up();
	memcpy(packet, &hdr, sizeof(hdr));
	fake_deliver(fx.link, packet, sizeof(packet));
	expect_bad(2);
	up();
	packet[16] = TAGRV_PKT_TAGGED;
	fake_deliver(fx.link, packet, sizeof(hdr));
	expect_bad(3);
	up();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, 0);
	expect_bad(4);
	nr = ask();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr + 1);
	expect_bad(5);
	up();
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 1);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_ASK, 1);
	expect_bad(6);
}

/* It would be read from the next connection, whose keys are others. */
Test(part, announcement_of_a_peer_that_parts_is_lost)
{
	static char in[100000];
	uint64_t nr = ask();
	int ctx[2];

	cr_assert_eq(submit_recv(in, sizeof(in), 1, &ctx[0]), 0);
	arrive_rts_bare(sizeof(in), 1, 9);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	expect_bad(1);
	cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
	nr = ask();
	arrive_rts(in, sizeof(in), 1, 9);
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_AGREE, nr);
	cr_assert_eq(closed(), 1);
	cr_assert_eq(submit_recv(in, sizeof(in), 1, &ctx[1]), 0);
	cr_assert_eq(take(&fx.rx).context, &ctx[1]);
}
