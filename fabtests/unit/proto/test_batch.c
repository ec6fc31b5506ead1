/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Small messages that travel together: when, in which order, with what levels,
 * and what a receiver makes of packets that are not as they should be.
 */
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"
#include "proto/packet/ack.h"

TestSuite(batch, .init = engine_setup, .fini = engine_teardown, .timeout = 20);

static char ctx[16];
static char data[8192];

static struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

static void send_some(size_t cnt, size_t len, uint64_t flags)
{
	for (size_t i = 0; i < cnt; i++)
		cr_assert_eq(submit_send(data, len, i, &ctx[i], flags), 0);
}

/* Queues behind a transport without room, then gives it some. */
static void send_backed_up(size_t cnt, size_t len, uint64_t flags)
{
	fake.refuse_all = true;
	send_some(cnt, len, flags);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
}

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

/* A long one and a rendezvous keep their place. */
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

/* Nothing is gained by holding a long one back. */
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

/* ---- receiving ---- */

struct packet {
	size_t	len;
	uint8_t	bytes[8192];
};

static void begin(struct packet *p)
{
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_BATCH, .seq = fx.rx_seq,
	};
	uint64_t words[TAGRV_SHORT_WORDS];

	tagrv_hdr_pack(words, &hdr);
	memcpy(p->bytes, words, sizeof(words));
	p->len = sizeof(words);
}

static void add(struct packet *p, const char *text, uint64_t tag,
		uint16_t flags, uint32_t handle)
{
	const struct tagrv_item item = {
		.op = handle, .len = (uint16_t) strlen(text), .tag = tag,
		.flags = flags, .data = 0x1122334455667788,
	};
	size_t head = tagrv_item_pack(p->bytes + p->len, &item);

	memcpy(p->bytes + p->len + head, text, item.len);
	p->len += tagrv_item_size(item.flags, item.len);
	fx.rx_seq++;
}

static void deliver(const struct packet *p)
{
	fake_deliver(fx.link, p->bytes, p->len);
}

Test(batch, is_received_as_if_each_had_come_alone)
{
	char in[3][16] = { "" };
	struct tagrv_recv_req req;
	struct tagrv_comp comp;
	struct packet p;

	peer_up(true);
	cr_assert_eq(submit_recv(in[0], 16, 1, &ctx[0]), 0);
	req = recv_req(in[1], 16, 0, &ctx[1]);
	req.space = TAGRV_SPACE_MSG;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	begin(&p);
	add(&p, "one", 1, TAGRV_PKT_TAGGED, 0);
	add(&p, "two", 0, TAGRV_PKT_DATA, 0);
	add(&p, "three is longer", 3, TAGRV_PKT_TAGGED, 0);
	deliver(&p);
	comp = take(&fx.rx);
	cr_assert_eq(comp.context, &ctx[0]);
	cr_assert_eq(comp.len, 3);
	comp = take(&fx.rx);
	cr_assert_eq(comp.context, &ctx[1]);
	cr_assert_eq(comp.data, 0x1122334455667788);
	expect_empty(&fx.rx);
	cr_assert_eq(submit_recv(in[2], 16, 3, &ctx[2]), 0);
	cr_assert_eq(take(&fx.rx).len, 15);
	cr_assert_str_eq(in[2], "three is longer");
	cr_assert_eq(peer()->rx_seq, 3);
	cr_assert_eq(fx.engine->stats.batched_rx, 3);
	cr_assert_eq(fx.engine->stats.eager_rx, 3);
	arrive_eager("x", 1, 9, 0, 0);
	cr_assert_not_null(peer()->lane, "the next number is right");
}

Test(batch, costs_the_credit_of_its_messages)
{
	struct packet p;

	peer_up(true);
	begin(&p);
	add(&p, "one", 1, TAGRV_PKT_TAGGED, 0);
	add(&p, "two", 2, TAGRV_PKT_TAGGED, 0);
	deliver(&p);
	cr_assert_eq(peer()->credit.promised,
		     TAGRV_CREDIT_FIRST - 2 * tagrv_credit_units(3));
	peer()->credit.promised = tagrv_credit_units(3);
	begin(&p);
	add(&p, "one", 3, TAGRV_PKT_TAGGED, 0);
	add(&p, "two", 4, TAGRV_PKT_TAGGED, 0);
	deliver(&p);
	cr_assert_null(peer()->lane, "the second is beyond");
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

static void expect_refused(const struct packet *p, const char *what)
{
	peer_up(true);
	deliver(p);
	cr_assert_null(peer()->lane, "%s", what);
	cr_assert_eq(fx.engine->stats.bad_packets, 1, "%s", what);
	fx.engine->stats.bad_packets = 0;
}

Test(batch, malformed_ones_are_refused)
{
	struct packet good, p;

	begin(&good);
	expect_refused(&good, "no message");
	add(&good, "12345678", 1, TAGRV_PKT_DATA, 0);
	fx.rx_seq = 0;
	for (size_t len = 33; len < good.len; len++) {
		p = good;
		p.len = len;
		expect_refused(&p, "cut short");
	}
	p = good;
	p.bytes[32 + 4]++;
	expect_refused(&p, "longer than the packet");
	p = good;
	p.bytes[32 + 5] = 0xff;
	expect_refused(&p, "far longer than the packet");
	p = good;
	p.bytes[32 + 7] = 0x80;
	expect_refused(&p, "unknown flag");
	p = good;
	p.bytes[p.len++] = 0;
	expect_refused(&p, "something behind it");
	p = good;
	p.bytes[20] = 1;
	expect_refused(&p, "out of sequence");
	p = good;
	p.bytes[32 + 6] = 0;
	expect_refused(&p, "data that no flag announces");
}

/* What came before the end of the connection counts. */
Test(batch, messages_before_a_malformed_one_count)
{
	char in[16];
	struct packet p;

	peer_up(true);
	cr_assert_eq(submit_recv(in, 16, 1, ctx), 0);
	begin(&p);
	add(&p, "one", 1, TAGRV_PKT_TAGGED, 0);
	p.len += 8;
	deliver(&p);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_null(peer()->lane);
}

/* Whoever gives the connection up in the middle ends the packet, too. */
Test(batch, nothing_is_taken_from_it_after_the_connection_has_ended)
{
	char in[16];
	struct packet p;

	peer_up(true);
	cr_assert_eq(submit_recv(in, 16, 1, &ctx[1]), 0);
	cr_assert_eq(submit_recv(in, 16, 2, &ctx[2]), 0);
	fake.ctrl_error = -FI_EIO;
	begin(&p);
	add(&p, "one", 1, TAGRV_PKT_TAGGED | TAGRV_PKT_ACK_MATCH, 5);
	add(&p, "two", 2, TAGRV_PKT_TAGGED, 0);
	deliver(&p);
	cr_assert_null(peer()->lane);
	cr_assert_eq(take(&fx.rx).context, &ctx[1]);
	expect_empty(&fx.rx);
}

/* ---- FINs ---- */

/* Handle k of the FIN packet i, 0: it has no such. */
static uint32_t fin_of(size_t i, size_t k)
{
	struct tagrv_fin_more more;
	size_t at = sizeof(struct tagrv_hdr) + (k - 1) * sizeof(more);

	cr_assert_eq(packet_header(i).opcode, TAGRV_PKT_FIN);
	if (!k)
		return packet_header(i).op;
	if (at + sizeof(more) > fake.log[i].len)
		return 0;
	memcpy(&more, fake.log[i].data + at, sizeof(more));
	return le32toh(more.op);
}

Test(batch, fins_of_one_pass_share_a_packet)
{
	struct packet p;

	peer_up(true);
	begin(&p);
	for (uint32_t i = 1; i <= 5; i++)
		add(&p, "", i, TAGRV_PKT_TAGGED | TAGRV_PKT_ACK_DELIVERY, i);
	fake_queue(fx.link, p.bytes, p.len);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	for (uint32_t i = 0; i < 5; i++)
		cr_assert_eq(fin_of(0, i), i + 1);
	cr_assert_eq(fin_of(0, 5), 0);
	cr_assert_eq(fx.engine->pools.acks.used, 0);
}

Test(batch, a_fin_outside_of_a_pass_leaves_at_once)
{
	char in[8];

	peer_up(true);
	arrive_eager("x", 1, 4, TAGRV_PKT_ACK_MATCH, 77);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(submit_recv(in, sizeof(in), 4, ctx), 0);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(fin_of(0, 0), 77);
	cr_assert_eq(fake.log[0].len, sizeof(struct tagrv_hdr));
}

Test(batch, fins_fill_packets_that_every_link_takes)
{
	size_t per = 1 + TAGRV_FIN_MORE_MAX;

	peer_up(true);
	fake.refuse_all = true;
	for (uint32_t i = 1; i <= 2 * per + 1; i++)
		arrive_eager("x", 1, i, TAGRV_PKT_ACK_DELIVERY, i);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
	cr_assert_leq(fake.log[0].len, TAGRV_HDR_ROOM);
	cr_assert_eq(fin_of(1, per - 1), 2 * per);
	cr_assert_eq(fin_of(2, 0), 2 * per + 1);
	cr_assert_eq(fin_of(2, 1), 0);
}

Test(batch, a_done_has_a_packet_of_its_own_in_its_turn)
{
	peer_up(true);
	fake.refuse_all = true;
	tagrv_ack_fin(peer(), 1, 0);
	tagrv_ack_fin(peer(), 2, 0);
	tagrv_ack_done(peer(), 3, TAGRV_PKT_ACK_DELIVERY, 0);
	tagrv_ack_done(peer(), 4, 0, -FI_EIO);
	tagrv_ack_fin(peer(), 5, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 4);
	cr_assert_eq(fin_of(0, 1), 2);
	cr_assert_eq(fin_of(0, 2), 0);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_DONE);
	cr_assert_eq(packet_header(1).op, 3);
	cr_assert_eq(packet_header(1).flags, TAGRV_PKT_ACK_DELIVERY);
	cr_assert_eq(fake.log[1].len, sizeof(struct tagrv_hdr));
	cr_assert_eq(packet_header(2).op, 4);
	cr_assert_eq(packet_header(2).data, FI_EIO);
	cr_assert_eq(fake.log[2].len, sizeof(struct tagrv_hdr));
	cr_assert_eq(fin_of(3, 0), 5);
	cr_assert_eq(fx.engine->stats.fin_tx, 3);
	cr_assert_eq(fx.engine->stats.fin_packets, 2);
}

Test(batch, several_fins_of_one_packet_end_their_sends)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_fin_more more[2];
	} pkt = { .hdr.opcode = TAGRV_PKT_FIN };

	peer_up(true);
	send_some(3, 8, FI_MATCH_COMPLETE);
	expect_empty(&fx.tx);
	pkt.hdr.op = htole32(packet_header(1).op);
	pkt.more[0].op = htole32(packet_header(0).op);
	pkt.more[0].status = htole32(FI_ENOMEM);
	pkt.more[1].op = htole32(packet_header(2).op);
	fake_deliver(fx.link, &pkt, sizeof(pkt));
	cr_assert_eq(take(&fx.tx).context, &ctx[1]);
	cr_assert_eq(take(&fx.tx).err, FI_ENOMEM);
	cr_assert_eq(take(&fx.tx).context, &ctx[2]);
	expect_empty(&fx.tx);
	cr_assert_not_null(peer()->lane);
	fake_deliver(fx.link, &pkt, sizeof(pkt) - 1);
	cr_assert_null(peer()->lane, "half a pair");
}

/* ---- FINs that ride along ---- */

/* As many messages that want an ack, matched while nothing can be sent. */
static void owe_acks(uint32_t first, size_t cnt)
{
	static char in[8];
	bool refuse = fake.refuse_all;

	fake.refuse_all = true;
	for (size_t i = 0; i < cnt; i++) {
		cr_assert_eq(submit_recv(in, 8, 99, &ctx[15]), 0);
		arrive_eager("x", 1, 99, TAGRV_PKT_ACK_MATCH,
			     first + (uint32_t) i);
		cr_assert_eq(take(&fx.rx).err, 0);
	}
	fake.refuse_all = refuse;
}

static struct tagrv_item fin_at(size_t i, size_t k)
{
	const uint8_t *pos = fake.log[i].data + sizeof(struct tagrv_hdr);
	struct tagrv_item item;

	cr_assert_lt(k, sent_fins(i));
	cr_assert(tagrv_item_peek(&item, pos + 8 * k, 8));
	return item;
}

static void expect_acks(uint64_t acks, uint64_t packets)
{
	cr_assert_eq(fx.engine->stats.fin_tx, acks);
	cr_assert_eq(fx.engine->stats.fin_packets, packets);
	cr_assert_eq(fx.engine->pools.acks.used, 0);
}

Test(batch, fins_cost_no_packet_where_messages_wait)
{
	peer_up(true);
	for (size_t waiting = 1; waiting < 4; waiting++) {
		size_t i = waiting - 1;

		fake.refuse_all = true;
		send_some(waiting, 8, 0);
		owe_acks(70, 2);
		fake.refuse_all = false;
		tagrv_engine_progress(fx.engine);
		cr_assert_eq(fake.log_cnt, waiting, "one packet");
		cr_assert_eq(sent_items(i), waiting);
		cr_assert_eq(sent_fins(i), 2);
		cr_assert_eq(fin_at(i, 0).op, 70);
		cr_assert_eq(fin_at(i, 1).op, 71);
		cr_assert_eq(fin_at(i, 1).len, 0);
		expect_acks(2 * waiting, 0);
	}
	cr_assert_eq(packet_header(2).seq, 1 + 2);
	cr_assert_eq(fx.engine->stats.eager_tx, 1 + 2 + 3);
	cr_assert_eq(fx.engine->stats.batched_tx, 2 + 3);
}

Test(batch, fins_wait_for_no_message)
{
	peer_up(true);
	owe_acks(70, 1);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_FIN);
	expect_acks(1, 1);
	/* Nor for one that cannot share a packet. */
	fake.refuse_all = true;
	cr_assert_eq(submit_send(data, 2000, 1, &ctx[0], 0), 0);
	owe_acks(71, 1);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(packet_header(2).opcode, TAGRV_PKT_EAGER);
	expect_acks(2, 2);
}

/* Those have slots of their own. */
Test(batch, fins_pass_messages_for_which_there_is_no_room)
{
	peer_up(true);
	fake.refuse_all = true;
	send_some(2, 8, 0);
	owe_acks(70, 3);
	fake.refuse_all = false;
	fake.refuse = 1;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(fake.log[0].len, 32 + 2 * 8);
	expect_acks(3, 1);
	cr_assert_eq(sent_items(1), 2);
	cr_assert_eq(sent_fins(1), 0);
}

Test(batch, many_fins_leave_room_for_messages)
{
	peer_up(true);
	fake.refuse_all = true;
	send_some(2, 1024, 0);
	owe_acks(70, 20);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent_fins(0), 8);
	cr_assert_eq(sent_items(0), 2);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(fake.log_cnt, 2);
	expect_acks(20, 1);
}

static size_t put_fin(char *to, uint32_t op, uint32_t status)
{
	tagrv_item_pack_fin(to, op, status);
	return TAGRV_ITEM_WORD;
}

/* With n messages of tag 5 and without payload behind the FINs. */
static size_t put_empty(char *to, size_t n)
{
	const struct tagrv_item item = { .flags = TAGRV_PKT_TAGGED, .tag = 5 };
	size_t len = 0;

	while (n--)
		len += tagrv_item_pack(to + len, &item);
	return len;
}

static void arrive_batch(const char *body, size_t len, uint32_t seq)
{
	const struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_BATCH, .seq = seq };
	uint64_t words[TAGRV_SHORT_WORDS];
	char packet[512];

	tagrv_hdr_pack(words, &hdr);
	memcpy(packet, words, sizeof(words));
	memcpy(packet + sizeof(words), body, len);
	fake_deliver(fx.link, packet, sizeof(words) + len);
}

Test(batch, fins_in_front_end_what_they_name)
{
	uint32_t handle[2];
	char body[256];
	size_t len;

	peer_up(true);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(submit_send("x", 1, 1, &ctx[i],
					 FI_MATCH_COMPLETE), 0);
		handle[i] = packet_header(i).op;
	}
	cr_assert_eq(submit_recv(NULL, 0, 5, &ctx[2]), 0);
	len = put_fin(body, handle[1], FI_ENOMEM);
	len += put_fin(body + len, handle[0], 0);
	len += put_empty(body + len, 2);
	arrive_batch(body, len, 0);
	cr_assert_eq(take(&fx.tx).err, FI_ENOMEM);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	cr_assert_eq(take(&fx.rx).context, &ctx[2]);
	cr_assert_eq(fx.engine->stats.eager_rx, 2);
	cr_assert_eq(fx.engine->stats.batched_rx, 2);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
	/* The next one follows the two messages. */
	fx.rx_seq = 2;
	arrive_eager("x", 1, 6, 0, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
}

Test(batch, fins_out_of_place_are_refused)
{
	for (int i = 0; i < 4; i++) {
		char body[256];
		size_t len = 0;

		peer_up(true);
		cr_assert_eq(submit_send("x", 1, 1, ctx, FI_MATCH_COMPLETE), 0);
		if (i == 0)	/* no message */
			len = put_fin(body, 1, 0);
		if (i == 1) {	/* behind a message */
			len = put_empty(body, 1);
			len += put_fin(body + len, 1, 0);
		}
		if (i == 2) {	/* with another flag */
			len = put_fin(body, 1, 0);
			body[6] |= TAGRV_PKT_TAGGED;
			len += put_empty(body + len, 1);
		}
		if (i == 3)	/* half of one */
			len = put_fin(body, 1, 0) - 4;
		arrive_batch(body, len, 0);
		cr_assert_eq(fake.links, 0, "case %d", i);
		cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
	}
}
