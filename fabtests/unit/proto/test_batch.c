/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Small messages that share a packet: when the engine gathers them, in which order
 * they travel, how they complete, and FI_MORE. test_batch_receive.c has the receiver,
 * test_batch_fin.c has FINs.
 */
#include <string.h>

#include "unit/proto/batch_calls.h"

TestSuite(batch, .init = engine_setup, .fini = engine_teardown, .timeout = 20);

/* ---- when ---- */

Test(batch, a_lone_message_travels_alone)
{
	peer_up(true);
	send_some(3, 8, 0);
	cr_assert_eq(fake.log_cnt, 3);
	for (size_t i = 0; i < 3; i++)
		cr_assert_eq(packet_header(i).opcode, TAGRV_PKT_EAGER);
	send_backed_up(1, 8, 0);
	cr_assert_eq(packet_header(3).opcode, TAGRV_PKT_EAGER);
}

Test(batch, what_found_no_room_travels_together)
{
	peer_up(true);
	send_some(2, 8, 0);
	send_backed_up(5, 8, 0);
	cr_assert_eq(fake.log_cnt, 3);
	cr_assert_eq(packet_header(2).seq, 2);
	cr_assert_eq(sent_items(2), 5);
	send_some(1, 8, 0);
	cr_assert_eq(packet_header(3).seq, 7);
	cr_assert_eq(fx.engine->stats.batch_tx, 1);
	cr_assert_eq(fx.engine->stats.batched_tx, 5);
	cr_assert_eq(fx.engine->stats.eager_tx, 8);
}

Test(batch, nothing_has_happened_when_there_is_no_room)
{
	uint32_t left;

	peer_up(true);
	left = peer()->credit.left;
	fake.refuse_all = true;
	send_some(4, 8, 0);
	for (int i = 0; i < 3; i++)
		tagrv_engine_progress(fx.engine);
	cr_assert_eq(peer()->credit.left, left);
	cr_assert_eq(peer()->tx_seq, 0);
	expect_empty(&fx.tx);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent_items(0), 4);
	cr_assert_eq(peer()->credit.left, left - 4 * tagrv_credit_units(8));
	cr_assert_eq(peer()->tx_seq, 4);
}

Test(batch, a_packet_is_filled_and_the_rest_goes_in_the_next)
{
	size_t len = 1000, fit = 8192 / (16 + len);

	peer_up(true);
	send_backed_up(11, len, 0);
	cr_assert_eq(sent_items(0), fit);
	cr_assert_leq(fake.log[0].len, 8192 + 32);
	cr_assert_eq(sent_items(1), 11 - fit);
	cr_assert_eq(packet_header(1).seq, fit);
}

Test(batch, packets_are_no_longer_than_the_peer_takes)
{
	fx.max_packet = 192;
	peer_up(true);
	send_backed_up(10, 8, 0);
	for (size_t i = 0; i < fake.log_cnt; i++)
		cr_assert_leq(fake.log[i].len, 192);
	cr_assert_eq(sent_items(0), 160 / 24);
}

/* A long message and a rendezvous keep their place. */
Test(batch, order_is_kept_around_those_that_do_not_join)
{
	static const size_t lens[] = { 8, 8, 1025, 8, 8, 9000, 8, 1024, 0 };
	static char big[9000];

	peer_up(true);
	fake.refuse_all = true;
	for (size_t i = 0; i < 9; i++)
		cr_assert_eq(submit_send(big, lens[i], i, &ctx[i], 0), 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 5);
	cr_assert_eq(sent_items(0), 2);
	cr_assert_eq(packet_header(1).tag, 2);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_EAGER);
	cr_assert_eq(sent_item(2, 1).item.tag, 4);
	cr_assert_eq(packet_header(3).opcode, TAGRV_PKT_RTS);
	cr_assert_eq(packet_header(3).seq, 5);
	cr_assert_eq(sent_items(4), 3);
	cr_assert_eq(sent_item(4, 1).item.len, 1024);
	cr_assert_eq(sent_item(4, 2).item.len, 0);
}

Test(batch, ends_where_credit_does)
{
	peer_up(true);
	peer()->credit.left = 3 * tagrv_credit_units(8) + 1;
	send_backed_up(5, 8, 0);
	cr_assert_eq(sent_items(0), 3);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_RTS);
	cr_assert_eq(packet_header(1).seq, 3);
	cr_assert_eq(packet_header(2).opcode, TAGRV_PKT_RTS);
	cr_assert_eq(peer()->credit.left, 1);
	arrive_fin(packet_header(1).op, 0);
	arrive_fin(packet_header(2).op, 0);
}

/* Every kind of message in one packet, as the receiver will see it. */
Test(batch, carries_tags_data_spaces_and_payload)
{
	struct tagrv_send_req req;
	struct sent_item sent;

	peer_up(true);
	fake.refuse_all = true;
	cr_assert_eq(submit_send("tagged", 6, UINT64_MAX - 1, &ctx[0], 0), 0);
	req = send_req("untagged", 8, 0, &ctx[1]);
	req.space = TAGRV_SPACE_MSG;
	req.flags |= FI_REMOTE_CQ_DATA;
	req.data = 0x0123456789abcdef;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	cr_assert_eq(submit_send("", 0, 7, &ctx[2], 0), 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	sent = sent_item(0, 0);
	cr_assert_eq(sent.item.tag, UINT64_MAX - 1);
	cr_assert_eq(sent.item.flags, TAGRV_PKT_TAGGED);
	cr_assert_arr_eq(sent.payload, "tagged\0\0", 8, "with zeros");
	sent = sent_item(0, 1);
	cr_assert_eq(sent.item.flags, TAGRV_PKT_DATA);
	cr_assert_eq(sent.item.data, 0x0123456789abcdef);
	cr_assert_arr_eq(sent.payload, "untagged", 8);
	cr_assert_eq(sent_item(0, 2).item.len, 0);
	cr_assert_eq(sent_items(0), 3);
}

Test(batch, scattered_payloads_are_gathered)
{
	char ab[] = "ab", cde[] = "cde";
	struct iovec iov[] = { { ab, 2 }, { NULL, 0 }, { cde, 3 } };
	struct tagrv_send_req req = send_req(NULL, 0, 1, &ctx[0]);

	peer_up(true);
	fake.refuse_all = true;
	req.iov = iov;
	req.iov_cnt = 3;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent_item(0, 1).item.len, 5);
	cr_assert_arr_eq(sent_item(0, 1).payload, "abcde", 5);
}

/* ---- completion levels ---- */

Test(batch, each_message_ends_at_its_own_level)
{
	static const uint64_t levels[] = {
		0, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
		FI_INJECT_COMPLETE, FI_MATCH_COMPLETE, FI_TRANSMIT_COMPLETE,
		FI_TRANSMIT_COMPLETE,
	};

	peer_up(true);
	fake.refuse_all = true;
	for (size_t i = 0; i < 7; i++)
		cr_assert_eq(submit_send(data, 8, i, &ctx[i], levels[i]), 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent_items(0), 7);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	cr_assert_eq(take(&fx.tx).context, &ctx[3]);
	expect_empty(&fx.tx);
	cr_assert_eq(sent_item(0, 1).item.op, 0);
	cr_assert_eq(sent_item(0, 2).item.flags,
		     TAGRV_PKT_TAGGED | TAGRV_PKT_ACK_DELIVERY);
	cr_assert_eq(sent_item(0, 4).item.flags,
		     TAGRV_PKT_TAGGED | TAGRV_PKT_ACK_MATCH);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).context, &ctx[1]);
	cr_assert_eq(take(&fx.tx).context, &ctx[5]);
	cr_assert_eq(take(&fx.tx).context, &ctx[6]);
	expect_empty(&fx.tx);
	arrive_fin(sent_item(0, 4).item.op, 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[4]);
	arrive_fin(sent_item(0, 2).item.op, 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[2]);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
}

Test(batch, a_broken_link_ends_all_that_wait)
{
	peer_up(true);
	fake.refuse_all = true;
	send_some(3, 8, FI_TRANSMIT_COMPLETE);
	send_some(3, 8, FI_MATCH_COMPLETE);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent_items(0), 6);
	fake_break_link(fx.link, -FI_ECONNRESET);
	for (int i = 0; i < 6; i++)
		cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	expect_empty(&fx.tx);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
}

Test(batch, an_injected_buffer_is_free_while_it_waits)
{
	char buf[8] = "before";
	struct tagrv_send_req req;

	peer_up(true);
	fake.refuse_all = true;
	for (int i = 0; i < 2; i++) {
		req = send_req(buf, sizeof(buf), 2, NULL);
		req.flags = FI_INJECT;
		req.no_context = true;
		cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	}
	memset(buf, 'x', sizeof(buf));
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_str_eq((const char *) sent_item(0, 1).payload, "before");
	expect_empty(&fx.tx);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
}

/* ---- FI_MORE ---- */

Test(batch, more_holds_back_until_a_send_without_it)
{
	peer_up(true);
	send_some(3, 8, FI_MORE);
	cr_assert_eq(fake.log_cnt, 0);
	expect_empty(&fx.tx);
	cr_assert_eq(submit_send(data, 8, 3, &ctx[3], 0), 0);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(sent_items(0), 4);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(take(&fx.tx).context, &ctx[i]);
}

Test(batch, more_holds_back_until_progress)
{
	peer_up(true);
	send_some(2, 8, FI_MORE);
	cr_assert_eq(fake.log_cnt, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent_items(0), 2);
	send_some(1, 8, FI_MORE);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_EAGER);
}

Test(batch, more_holds_back_until_a_packet_is_full)
{
	size_t cnt = 0;

	peer_up(true);
	while (!fake.log_cnt) {
		cr_assert_lt(cnt, 9);
		cr_assert_eq(submit_send(data, 1024, cnt++, ctx, FI_MORE), 0);
	}
	cr_assert_eq(cnt, 8);
	cr_assert_eq(submit_send(data, 8, 9, ctx, 0), 0);
	while (take(&fx.tx).context && !tagrv_compq_empty(&fx.tx))
		;
}

/* Holding a long message back gains nothing: it cannot share a packet. */
Test(batch, more_does_not_hold_back_a_long_message)
{
	peer_up(true);
	cr_assert_eq(submit_send(data, 2000, 1, ctx, FI_MORE), 0);
	cr_assert_eq(fake.log_cnt, 1);
	send_some(2, 8, FI_MORE);
	cr_assert_eq(submit_send(data, 2000, 1, ctx, FI_MORE), 0);
	cr_assert_eq(fake.log_cnt, 3);
}

Test(batch, more_behind_what_found_no_room_waits_its_turn)
{
	peer_up(true);
	fake.refuse_all = true;
	send_some(1, 8, 0);
	fake.refuse_all = false;
	send_some(2, 8, FI_MORE);
	cr_assert_eq(fake.log_cnt, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent_items(0), 3);
}

Test(batch, what_is_held_back_ends_with_the_connection)
{
	peer_up(true);
	send_some(2, 8, FI_MORE);
	fake_break_link(fx.link, -FI_ECONNRESET);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	expect_empty(&fx.tx);
	peer_up(true);
	send_some(1, 8, FI_MORE);
	cr_assert_eq(fake.log_cnt, 0);
	send_some(1, 8, 0);
	cr_assert_eq(sent_items(0), 2);
}
