/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets of several messages at their receiver: what is delivered, what it costs, and
 * which packets are refused. test_batch.c has the sender.
 */
#include "unit/proto/batch_calls.h"

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

/* Messages in front of the malformed one are delivered before the connection ends. */
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

/* The ack of the first message fails and ends the connection: the second is dropped. */
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
