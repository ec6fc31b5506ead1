/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FINs that share a packet with each other, or with messages. test_batch.c has packets
 * of messages alone.
 */
#include <string.h>

#include "proto/packet/ack.h"
#include "unit/proto/batch_calls.h"

/* ---- FINs ---- */

/* Handle k of packet i, a FIN; 0: the packet has fewer handles. */
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

/* A peer that takes no FINs is given up; RECALLs are caused by us. */
Test(batch, recalls_are_not_counted_among_what_the_peer_causes)
{
	enum { MOST = 65536 };

	peer_up(true);
	fake.refuse_all = true;
	for (uint32_t i = 0; i < MOST; i++)
		tagrv_ack_recall(peer(), i);
	tagrv_ack_fin(peer(), 1, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
	for (uint32_t i = 1; i < MOST; i++)
		tagrv_ack_fin(peer(), 1, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
	tagrv_ack_fin(peer(), 1, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
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

/* cnt messages that want an ack arrive and match while nothing can be sent. */
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

/* FIN k of packet i, in host order. */
static struct tagrv_item fin_at(size_t i, size_t k)
{
	const uint8_t *pos = fake.log[i].data + sizeof(struct tagrv_hdr);
	struct tagrv_item item;

	cr_assert_lt(k, sent_fins(i));
	cr_assert(tagrv_item_peek(&item, pos + 8 * k, 8));
	return item;
}

/* acks: FINs sent so far; packets: how many packets carried only FINs. */
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
	/* Nor do FINs wait for a message that cannot share a packet. */
	fake.refuse_all = true;
	cr_assert_eq(submit_send(data, 2000, 1, &ctx[0], 0), 0);
	owe_acks(71, 1);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(packet_header(2).opcode, TAGRV_PKT_EAGER);
	expect_acks(2, 2);
}

/* FINs are control packets, which have slots of their own. */
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

/* Writes a FIN; returns its bytes. */
static size_t put_fin(char *to, uint32_t op, uint32_t status)
{
	tagrv_item_pack_fin(to, op, status);
	return TAGRV_ITEM_WORD;
}

/* Appends n messages of tag 5 without payload. */
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
	/* FINs have no number: the next message has the number behind the two. */
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
		if (i == 0)	/* no message behind it */
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
