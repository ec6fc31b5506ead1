/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tagged messages that a device's list has left to software.
 */
#include "unit/proto/listed_calls.h"

TestSuite(listed_packet, .init = listed_setup, .fini = engine_teardown, .timeout = 20);

static struct message msg;
static char buf[64];

/* Bytes of a packet: opcode, three zero bytes, app and tag big-endian, the rest. */
struct packet {
	size_t	len;
	uint8_t	bytes[16 + sizeof(msg.bytes)];
};

static struct packet packet_of(const struct message *m)
{
	struct packet p = { .len = 16 + m->len, .bytes = { 3 } };
	uint32_t app = htobe32(m->app);
	uint64_t tag = htobe64(m->tag);

	memcpy(p.bytes + 4, &app, sizeof(app));
	memcpy(p.bytes + 8, &tag, sizeof(tag));
	memcpy(p.bytes + 16, m->bytes, m->len);
	return p;
}

static void arrive_packet(const struct packet *p)
{
	/* Of exactly these bytes, so that a read behind them is found. */
	void *copy = malloc(p->len);

	memcpy(copy, p->bytes, p->len);
	tagrv_listed_packet(peer(), copy, p->len);
	free(copy);
	fake_end_closed();
}

static void arrive(void)
{
	const struct packet p = packet_of(&msg);

	arrive_packet(&p);
}

Test(listed_packet, plain_finds_its_receive)
{
	struct tagrv_comp comp;

	cr_assert_eq(submit_recv(buf, sizeof(buf), TAG, &ctx[1]), 0);
	plain(&msg, "hello");
	arrive();
	comp = take(&fx.rx);
	cr_assert_eq(comp.context, &ctx[1]);
	cr_assert_eq(comp.len, 5);
	cr_assert_eq(comp.tag, TAG);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED);
	cr_assert_eq(memcmp(buf, "hello", 5), 0);
	cr_assert_eq(fx.engine->stats.eager_rx, 1);
}

Test(listed_packet, plain_is_kept_with_its_data)
{
	struct tagrv_comp comp;

	plain(&msg, "hello");
	msg.tag |= UINT64_C(1) << 63;
	msg.app = 0xfedcba98;
	arrive();
	expect_empty(&fx.rx);
	cr_assert_eq(submit_recv(buf, sizeof(buf), TAG, &ctx[1]), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.data, 0xfedcba98);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
	cr_assert_eq(comp.tag, TAG);
	cr_assert_eq(memcmp(buf, "hello", 5), 0);
}

Test(listed_packet, plain_without_bytes)
{
	cr_assert_eq(submit_recv(NULL, 0, TAG, &ctx[1]), 0);
	plain(&msg, "");
	arrive();
	cr_assert_eq(take(&fx.rx).len, 0);
}

/* It has no number, so whoever receives it counts. */
Test(listed_packet, all_forms_and_other_packets_share_the_sequence)
{
	plain(&msg, "a");
	arrive();
	header(&msg, 0, 0, 1, 0);
	arrive();
	fx.rx_seq = 2;
	arrive_eager("c", 1, 9, 0, 0);
	plain(&msg, "d");
	arrive();
	announce_head(&msg, "e", 1, 5, 4);
	arrive();
	cr_assert_eq(peer()->rx_seq, 5);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
	cr_assert_eq(fx.engine->stats.eager_rx, 4);
	cr_assert_eq(fx.engine->stats.rndv_rx, 1);
}

Test(listed_packet, header_with_fin_and_data)
{
	uint32_t left = peer()->credit.left;
	struct tagrv_comp comp;

	header(&msg, TAGRV_PKT_DATA | TAGRV_PKT_ACK_MATCH, 0x01020304, 0, 40);
	append(&msg, "hello", 5);
	arrive();
	cr_assert_eq(fake.log_cnt, 0, "not matched yet");
	cr_assert_eq(peer()->credit.left, left + 40);
	cr_assert_eq(submit_recv(buf, sizeof(buf), TAG, &ctx[1]), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.data, DATA64);
	cr_assert_eq(comp.len, 5);
	cr_assert_eq(memcmp(buf, "hello", 5), 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(packet_header(0).op, 0x01020304);
}

Test(listed_packet, an_rts_inside_is_announced)
{
	cr_assert_eq(submit_recv(buf, sizeof(buf), TAG, &ctx[1]), 0);
	announce_head(&msg, "headline", 8, 56, 0);
	arrive();
	cr_assert_eq(take(&fx.rx).len, 8);
	cr_assert_eq(memcmp(buf, "headline", 8), 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(packet_header(0).op, 56);
}

Test(listed_packet, one_way_traffic_returns_credit)
{
	size_t credits = 0;

	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(submit_recv(buf, sizeof(buf), TAG, &ctx[1]), 0);
		plain(&msg, "hello");
		arrive();
		take(&fx.rx);
		tagrv_engine_progress(fx.engine);
	}
	for (size_t i = 0; i < fake.log_cnt; i++) {
		cr_assert_eq(packet_header(i).opcode, TAGRV_PKT_CREDIT);
		cr_assert_neq(packet_header(i).credit, 0);
		credits++;
	}
	cr_assert_geq(credits, 1);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
}

/* ---- malformed ---- */

static void expect_refused(const struct packet *p, const char *what)
{
	arrive_packet(p);
	cr_assert_eq(fx.engine->stats.bad_packets, 1, "%s", what);
	cr_assert_null(peer()->lane, "%s", what);
	cr_assert_eq(fx.engine->stats.eager_rx + fx.engine->stats.rndv_rx, 0, "%s", what);
	fx.engine->stats.bad_packets = 0;
	listed_up(true);
}

static void expect_message_refused(const char *what)
{
	const struct packet p = packet_of(&msg);

	expect_refused(&p, what);
}

Test(listed_packet, words_that_no_sender_writes)
{
	struct packet p;

	plain(&msg, "x");
	p = packet_of(&msg);
	p.len = 15;
	expect_refused(&p, "too short");
	p.len = 0;
	expect_refused(&p, "empty");
	for (uint8_t opcode = 0; opcode < 8; opcode++) {
		p = packet_of(&msg);
		p.bytes[0] = opcode;
		if (opcode != 3)
			expect_refused(&p, "another opcode");
	}
	for (size_t i = 1; i < 4; i++) {
		p = packet_of(&msg);
		p.bytes[i] = 1;
		expect_refused(&p, "bytes 1 to 3");
	}
}

/* The number is checked before the header is, in both forms. */
Test(listed_packet, numbers_that_are_not_the_peers)
{
	static const uint64_t numbers[] = { 0, 1, HIS - 1, HIS + 1, OURS, 0x3fff };
	const uint64_t own = (uint64_t) HIS << 48;

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(numbers); i++) {
		plain(&msg, "x");
		msg.tag = (msg.tag & ~own) | numbers[i] << 48;
		expect_message_refused("plain form");
		header(&msg, TAGRV_PKT_ACK_MATCH, 77, 0, 0);
		msg.tag = (msg.tag & ~own) | numbers[i] << 48;
		expect_message_refused("header form");
		announce_head(&msg, "headline", 8, 56, 0);
		msg.tag = (msg.tag & ~own) | numbers[i] << 48;
		expect_message_refused("RTS inside");
	}
	cr_assert_eq(fake.log_cnt, 0, "no FIN");
}

Test(listed_packet, headers_that_no_sender_writes)
{
	const char *what;

	for (unsigned i = 0; (what = malform(&msg, i)); i++)
		expect_message_refused(what);
	peer()->credit.promised = 4;
	plain(&msg, "x");
	expect_message_refused("without credit");
}

/* RTS_INSIDE belongs to one form of one kind of packet. */
Test(listed_packet, an_rts_inside_is_not_for_other_packets)
{
	arrive_eager("x", 1, 9, 1 << 4, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}
