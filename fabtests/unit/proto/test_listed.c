/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages that an entry of a device's list took: how their receives end.
 */
#include "unit/proto/listed_calls.h"

TestSuite(listed, .init = listed_setup, .fini = engine_teardown, .timeout = 20);

static struct message msg;
static char buf[64];

/* A receive whose entry a message took: out of the matcher, and of the list. */
static struct tagrv_op *receive(size_t len)
{
	const struct tagrv_recv recv = {
		.context = &ctx[0], .buf = buf, .len = len, .tag = TAG,
		.space = TAGRV_SPACE_TAGGED, .reports = true,
	};
	struct tagrv_op *op = tagrv_recv_op(&recv, fx.engine->rx);

	cr_assert_not_null(op);
	return op;
}

/* The device has told of the message that is in 'msg'. */
static struct tagrv_listed consumed(void)
{
	return (struct tagrv_listed) {
		.tag = msg.tag, .app = msg.app, .from = peer(), .life = peer()->life,
		.seq = peer()->rx_seq++, .current = true,
	};
}

/* And now, of the bytes. */
static void arrive_at(const struct tagrv_listed *listed, struct tagrv_op *op, int status)
{
	tagrv_listed_arrived(NULL, listed, op, msg.bytes, status ? 0 : msg.len, status);
	fake_end_closed();
}

static struct tagrv_comp arrive(size_t room)
{
	const struct tagrv_listed listed = consumed();
	struct tagrv_comp comp;

	arrive_at(&listed, receive(room), 0);
	comp = take(&fx.rx);
	expect_empty(&fx.rx);
	return comp;
}

/* ---- plain form ---- */

Test(listed, plain_is_copied_and_ends)
{
	struct tagrv_comp comp;

	plain(&msg, "hello");
	comp = arrive(sizeof(buf));
	cr_assert_eq(comp.err, 0);
	cr_assert_eq(comp.context, &ctx[0]);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED);
	cr_assert_eq(comp.tag, TAG);
	cr_assert_eq(comp.len, 5);
	cr_assert_eq(comp.buf, buf);
	cr_assert_eq(comp.src, fx.peer_addr);
	cr_assert_eq(memcmp(buf, "hello", 5), 0);
	cr_assert_eq(fx.engine->stats.eager_rx, 1);
	cr_assert_eq(fake.log_cnt, 0);
}

Test(listed, plain_uses_credit_and_owes_it)
{
	struct tagrv_credit before = peer()->credit;

	plain(&msg, "hello");
	arrive(sizeof(buf));
	cr_assert_eq(peer()->credit.promised, before.promised - 5);
	cr_assert_geq(peer()->credit.owed, before.owed + 5);
}

Test(listed, plain_with_data)
{
	struct tagrv_comp comp;

	plain(&msg, "x");
	msg.tag |= UINT64_C(1) << 63;
	msg.app = 0xdeadbeef;
	comp = arrive(sizeof(buf));
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
	cr_assert_eq(comp.data, 0xdeadbeef);
	cr_assert_eq(comp.tag, TAG);
}

Test(listed, plain_without_bytes)
{
	struct tagrv_comp comp;

	plain(&msg, "");
	comp = arrive(0);
	cr_assert_eq(comp.err, 0);
	cr_assert_eq(comp.len, 0);
}

Test(listed, a_message_may_be_too_long_for_its_receive)
{
	struct tagrv_comp comp;

	memset(buf, '.', sizeof(buf));
	plain(&msg, "hello, world");
	comp = arrive(5);
	cr_assert_eq(comp.err, FI_ETRUNC);
	cr_assert_eq(comp.len, 5);
	cr_assert_eq(comp.olen, 7);
	cr_assert_eq(memcmp(buf, "hello.", 6), 0);
}

Test(listed, a_receive_may_have_four_segments)
{
	const struct tagrv_listed listed = (plain(&msg, "abcdefghij"), consumed());
	struct tagrv_op *op = receive(sizeof(buf));

	memset(buf, '.', sizeof(buf));
	op->iov_cnt = 4;
	op->rx.room = 0;
	for (size_t i = 0; i < 4; i++) {
		op->iov[i] = (struct iovec) { buf + 8 * i, i + 1 };
		op->mem[i] = NULL;
		op->rx.room += i + 1;
	}
	arrive_at(&listed, op, 0);
	cr_assert_eq(take(&fx.rx).len, 10);
	cr_assert_eq(memcmp(buf, "a.......bc......def.....ghij....", 32), 0);
}

/* The peer cannot have sent this, but the message is there, whole. */
Test(listed, without_credit_it_is_received_and_the_peer_refused)
{
	peer()->credit.promised = 4;
	plain(&msg, "hello");
	cr_assert_eq(arrive(sizeof(buf)).err, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	cr_assert_null(peer()->lane);
}

/* ---- header form ---- */

Test(listed, header_with_data_of_64_bits)
{
	struct tagrv_comp comp;

	header(&msg, TAGRV_PKT_DATA, 0, 0, 0);
	append(&msg, "hello", 5);
	comp = arrive(sizeof(buf));
	cr_assert_eq(comp.err, 0);
	cr_assert_eq(comp.len, 5);
	cr_assert_eq(comp.data, DATA64);
	cr_assert_eq(comp.tag, TAG);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
	cr_assert_eq(memcmp(buf, "hello", 5), 0);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(fx.engine->stats.eager_rx, 1);
}

Test(listed, header_asks_for_a_fin)
{
	const uint16_t levels[] = { TAGRV_PKT_ACK_DELIVERY, TAGRV_PKT_ACK_MATCH };

	for (size_t i = 0; i < 2; i++) {
		header(&msg, levels[i], 77, peer()->rx_seq, 0);
		cr_assert_eq(arrive(sizeof(buf)).err, 0);
		cr_assert_eq(fake.log_cnt, i + 1);
		cr_assert_eq(packet_header(i).opcode, TAGRV_PKT_FIN);
		cr_assert_eq(packet_header(i).op, 77);
		cr_assert_eq(packet_header(i).data, 0);
		cr_assert_neq(packet_header(i).credit, 0, "the FIN takes it along");
	}
}

Test(listed, header_returns_credit)
{
	uint32_t before = peer()->credit.left;

	header(&msg, 0, 0, 0, 300);
	arrive(sizeof(buf));
	cr_assert_eq(peer()->credit.left, before + 300);
}

/* The device reports matches in order, but a long message's bytes may be late. */
Test(listed, bytes_may_come_in_another_order)
{
	struct tagrv_listed first, second;
	struct message one;

	header(&msg, TAGRV_PKT_ACK_MATCH, 1, 0, 0);
	first = consumed();
	one = msg;
	header(&msg, TAGRV_PKT_ACK_MATCH, 2, 1, 0);
	second = consumed();
	arrive_at(&second, receive(8), 0);
	msg = one;
	arrive_at(&first, receive(8), 0);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_eq(packet_header(0).op, 2);
	cr_assert_eq(packet_header(1).op, 1);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
}

Test(listed, header_without_credit_has_no_fin)
{
	peer()->credit.promised = 3;
	header(&msg, TAGRV_PKT_ACK_MATCH, 77, 0, 0);
	cr_assert_eq(arrive(sizeof(buf)).err, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	cr_assert_eq(fake.log_cnt, 0);
}

/* ---- announcements ---- */

Test(listed, an_rts_inside_begins_a_rendezvous)
{
	static char from[5000], to[5000];
	uint32_t places = peer()->hold.places.promised;
	struct tagrv_listed listed;
	struct tagrv_op *op;
	struct tagrv_comp comp;

	memset(from, 'r', sizeof(from));
	announce(&msg, from, sizeof(from), 55, 0);
	listed = consumed();
	op = receive(0);
	op->iov[0] = (struct iovec) { to, sizeof(to) };
	op->rx.room = sizeof(to);
	arrive_at(&listed, op, 0);
	expect_empty(&fx.rx);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(fake.log[0].kind, FAKE_GET);
	cr_assert_eq(peer()->hold.places.promised + peer()->hold.places.owed, places);
	cr_assert_eq(peer()->hold.places.owed, 1);
	cr_assert_eq(fx.engine->stats.rndv_rx, 1);
	fake_complete_all(0);
	tagrv_engine_progress(fx.engine);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, 0);
	cr_assert_eq(comp.len, sizeof(to));
	cr_assert_eq(comp.tag, TAG);
	cr_assert_eq(memcmp(from, to, sizeof(to)), 0);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(packet_header(1).op, 55);
}

Test(listed, an_rts_may_have_the_message_in_it)
{
	uint32_t promised = peer()->credit.promised;
	struct tagrv_comp comp;

	announce_head(&msg, "headline", 8, 56, 0);
	comp = arrive(sizeof(buf));
	cr_assert_eq(comp.err, 0);
	cr_assert_eq(comp.len, 8);
	cr_assert_eq(memcmp(buf, "headline", 8), 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(packet_header(0).op, 56);
	cr_assert_leq(promised - 5, peer()->credit.promised);
}

Test(listed, an_announced_message_may_be_too_long)
{
	struct tagrv_comp comp;

	announce_head(&msg, "headline", 8, 56, 0);
	comp = arrive(4);
	cr_assert_eq(comp.err, FI_ETRUNC);
	cr_assert_eq(comp.olen, 4);
}

Test(listed, an_rts_without_a_place_is_refused)
{
	peer()->hold.places.promised = 0;
	announce_head(&msg, "headline", 8, 56, 0);
	cr_assert_eq(arrive(8).err, FI_EREMOTEIO);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	cr_assert_null(peer()->lane);
}

Test(listed, a_head_without_credit_is_refused)
{
	peer()->credit.promised = 4;
	announce_head(&msg, "headline", 8, 56, 0);
	cr_assert_eq(arrive(8).err, FI_EREMOTEIO);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

/* ---- messages that fail ---- */

Test(listed, a_failed_message_ends_its_receive)
{
	const struct tagrv_listed listed = (plain(&msg, "lost"), consumed());
	struct tagrv_comp comp;

	arrive_at(&listed, receive(sizeof(buf)), -FI_ECONNRESET);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ECONNRESET);
	cr_assert_eq(comp.tag, TAG, "without the number");
	cr_assert_eq(comp.len, 0);
	cr_assert_eq(comp.src, fx.peer_addr);
	expect_empty(&fx.rx);
	cr_assert_not_null(peer()->lane, "who tells that ends the connection");
}

Test(listed, a_failed_message_may_be_unknown)
{
	const struct tagrv_listed listed = { .from = NULL };
	struct tagrv_op *op = receive(sizeof(buf));
	struct tagrv_comp comp;

	arrive_at(&listed, op, -FI_EIO);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_EIO);
	cr_assert_eq(comp.context, &ctx[0]);
	cr_assert_eq(comp.buf, buf);
	cr_assert_eq(comp.src, FI_ADDR_NOTAVAIL);
	expect_empty(&fx.rx);
	cr_assert_eq(tagrv_pool_get(&fx.engine->rx->ops), op, "it was given back");
	tagrv_pool_put(&fx.engine->rx->ops, op);
}

/* ---- the connection has ended meanwhile ---- */

enum since { GONE, BACK, OLD_LANE, SINCES };

static struct tagrv_comp arrive_late(enum since since)
{
	struct tagrv_listed listed = consumed();
	struct tagrv_op *op = receive(sizeof(buf));
	struct tagrv_comp comp;

	if (since == OLD_LANE) {
		listed.current = false;
	} else {
		fake_break_link(fx.link, -FI_ECONNRESET);
		fake_end_closed();
		cr_assert_null(peer()->lane);
	}
	if (since == BACK)
		listed_up(true);
	arrive_at(&listed, op, 0);
	comp = take(&fx.rx);
	expect_empty(&fx.rx);
	cr_assert_eq(fake.log_cnt, 0, "no FIN");
	return comp;
}

Test(listed, what_is_complete_is_received)
{
	for (int since = 0; since < SINCES; since++) {
		struct tagrv_credit credit;

		if (!peer()->lane)
			listed_up(true);
		credit = peer()->credit;
		plain(&msg, "hello");
		cr_assert_eq(arrive_late(since).err, 0);
		cr_assert_eq(peer()->credit.promised, credit.promised);
		cr_assert_eq(peer()->credit.owed, 0);
		header(&msg, TAGRV_PKT_ACK_MATCH, 77, 0, 0);
		if (!peer()->lane)
			listed_up(true);
		cr_assert_eq(arrive_late(since).err, 0);
	}
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
}

Test(listed, what_is_announced_is_lost)
{
	for (int since = 0; since < SINCES; since++) {
		if (!peer()->lane)
			listed_up(true);
		announce_head(&msg, "headline", 8, 56, 0);
		cr_assert_eq(arrive_late(since).err, FI_ECONNRESET);
	}
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
}

Test(listed, what_is_malformed_does_not_end_another_connection)
{
	header(&msg, 0, 0, 0, 0);
	msg.len = 15;
	cr_assert_eq(arrive_late(BACK).err, FI_EREMOTEIO);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	cr_assert_not_null(peer()->lane);
}

/* ---- malformed ---- */

static void expect_refused(const char *what)
{
	cr_assert_eq(arrive(sizeof(buf)).err, FI_EREMOTEIO, "%s", what);
	cr_assert_eq(fx.engine->stats.bad_packets, 1, "%s", what);
	cr_assert_null(peer()->lane, "%s", what);
	fx.engine->stats.bad_packets = 0;
	listed_up(true);
}

Test(listed, malformed_ones_are_refused)
{
	const char *what;

	for (unsigned i = 0; (what = malform(&msg, i)); i++)
		expect_refused(what);
}
