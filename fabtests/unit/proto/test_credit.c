/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Eager credit: what is kept for a peer is bounded, and nothing waits for it.
 */
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"

/* Peers pay for themselves, unless a test says something else. */
static void setup(void)
{
	engine_setup();
	fx.engine->credit.budget = 0;
}

TestSuite(credit, .init = setup, .fini = engine_teardown, .timeout = 20);

enum { KIB = 1024, COST = 4 + KIB / 64, FIRST = TAGRV_CREDIT_FIRST };

/* Units of the budget that a kept message of a KiB takes: records and buffer. */
enum { MEMORY = (128 + KIB + 8 + 63) / 64 };

static char ctx[8];
static char data[8 * KIB], got[8 * KIB];

static struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

static void arrive_credit(uint16_t units)
{
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_CREDIT, .credit = units };
	uint64_t words[TAGRV_SHORT_WORDS];

	tagrv_hdr_pack(words, &hdr);
	fake_deliver(fx.link, words, sizeof(words));
}

/* Units given back by the packets sent so far. */
static uint64_t given(void)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < fake.log_cnt; i++)
		sum += packet_header(i).credit;
	return sum;
}

static size_t packets(uint8_t opcode)
{
	size_t cnt = 0;

	for (size_t i = 0; i < fake.log_cnt; i++)
		cnt += packet_header(i).opcode == opcode;
	return cnt;
}

/* ---- sending ---- */

Test(credit, envelopes_go_on_without_it)
{
	size_t eager = FIRST / COST;

	peer_up(true);
	for (size_t i = 0; i < eager + 10; i++)
		cr_assert_eq(submit_send(data, KIB, i, ctx, 0), 0);
	cr_assert_eq(packets(TAGRV_PKT_EAGER), eager);
	cr_assert_eq(packets(TAGRV_PKT_RTS), 10);
	for (size_t i = 0; i < eager + 10; i++) {
		cr_assert_eq(packet_header(i).tag, i);
		cr_assert_eq(packet_header(i).seq, i);
	}
	cr_assert_eq(fx.engine->stats.no_credit, 10);
}

Test(credit, small_ones_pass_where_large_ones_do_not)
{
	peer_up(true);
	peer()->credit.left = COST - 1;
	cr_assert_eq(submit_send(data, KIB, 1, ctx, 0), 0);
	cr_assert_eq(submit_send(data, 8, 2, ctx, 0), 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_RTS);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_EAGER);
	cr_assert_eq(peer()->credit.left, COST - 1 - 5);
}

Test(credit, comes_back_with_any_packet)
{
	peer_up(true);
	peer()->credit.left = 0;
	cr_assert_eq(submit_send(data, 8, 1, ctx, 0), 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_RTS);
	arrive_credit(5);
	cr_assert_eq(submit_send(data, 8, 2, ctx, 0), 0);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_EAGER);
	cr_assert_eq(peer()->credit.left, 0);
}

Test(credit, empty_and_injected_messages_need_it_too)
{
	char buf[8] = "before";
	struct tagrv_send_req req;

	peer_up(true);
	peer()->credit.left = 0;
	cr_assert_eq(submit_send(NULL, 0, 1, ctx, 0), 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_RTS);
	expect_empty(&fx.tx);
	req = send_req(buf, sizeof(buf), 2, NULL);
	req.flags = FI_INJECT;
	req.no_context = true;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	memset(buf, 'x', sizeof(buf));
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_RTS);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
	arrive_fin(packet_header(1).op, 0);
	expect_empty(&fx.tx);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
}

Test(credit, that_adds_up_to_nonsense_ends_the_connection)
{
	peer_up(true);
	peer()->credit.left = UINT32_MAX - 5;
	arrive_credit(5);
	cr_assert_not_null(peer()->lane);
	arrive_credit(1);
	cr_assert_null(peer()->lane);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

/* ---- receiving ---- */

Test(credit, is_given_back_when_a_quarter_is_owed)
{
	size_t i = 0;

	peer_up(true);
	while (!fake.log_cnt) {
		cr_assert_eq(submit_recv(got, KIB, i, ctx), 0);
		arrive_eager(data, KIB, i++, 0, 0);
		tagrv_engine_progress(fx.engine);
		take(&fx.rx);
	}
	cr_assert_eq(i, (FIRST / 4 + COST - 1) / COST);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_CREDIT);
	cr_assert_eq(packet_header(0).credit, i * COST);
	cr_assert_eq(peer()->credit.owed, 0);
	cr_assert_eq(peer()->credit.promised, FIRST);
}

Test(credit, goes_with_what_is_sent_anyway)
{
	peer_up(true);
	cr_assert_eq(submit_recv(got, KIB, 1, ctx), 0);
	arrive_eager(data, KIB, 1, 0, 0);
	cr_assert_eq(submit_send(data, 8, 1, ctx, 0), 0);
	cr_assert_eq(packet_header(0).credit, COST);
	cr_assert_eq(submit_send(data, 8, 1, ctx, 0), 0);
	cr_assert_eq(packet_header(1).credit, 0);
}

Test(credit, is_not_lost_with_a_packet_that_found_no_room)
{
	peer_up(true);
	cr_assert_eq(submit_recv(got, KIB, 1, ctx), 0);
	arrive_eager(data, KIB, 1, 0, 0);
	fake.refuse_all = true;
	cr_assert_eq(submit_send(data, 8, 1, ctx, 0), 0);
	cr_assert_eq(submit_send(data, sizeof(data) + 1, 2, ctx, 0), 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(given(), COST);
}

Test(credit, is_held_by_what_is_kept)
{
	size_t most = FIRST / COST;

	peer_up(true);
	for (size_t i = 0; i < most; i++)
		arrive_eager(data, KIB, i, 0, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(given(), 0);
	cr_assert_lt(peer()->credit.promised, COST);
	for (size_t i = 0; i < most; i++) {
		cr_assert_eq(submit_recv(got, KIB, i, ctx), 0);
		take(&fx.rx);
		tagrv_engine_progress(fx.engine);
	}
	cr_assert_eq(peer()->credit.promised + peer()->credit.owed, FIRST);
	cr_assert_geq(given(), FIRST / 2);
}

Test(credit, comes_back_at_once_while_the_endpoint_pays)
{
	size_t most = FIRST / COST;
	/* A peer may have eight times what is left. */
	const uint32_t rest = (uint32_t) (most + 1) * MEMORY / 8;

	peer_up(true);
	fx.engine->credit.budget = (uint32_t) most * MEMORY + rest;
	for (size_t i = 0; i < most; i++)
		arrive_eager(data, KIB, i, 0, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fx.engine->credit.budget, rest);
	cr_assert_eq(peer()->credit.promised + peer()->credit.owed, FIRST);
	arrive_eager(data, KIB, most, 0, 0);
	cr_assert_eq(fx.engine->credit.budget, rest);
	cr_assert_eq(peer()->credit.promised + peer()->credit.owed,
		     FIRST - COST);
	for (size_t i = 0; i <= most; i++) {
		cr_assert_eq(submit_recv(got, KIB, i, ctx), 0);
		take(&fx.rx);
	}
	cr_assert_eq(fx.engine->credit.budget, most * MEMORY + rest);
	cr_assert_eq(peer()->credit.promised + peer()->credit.owed, FIRST);
}

/* The budget is the endpoint's: it outlives the connection. */
Test(credit, of_the_endpoint_is_free_after_a_reconnect)
{
	peer_up(true);
	fx.engine->credit.budget = 2 * MEMORY;
	arrive_eager(data, KIB, 1, 0, 0);
	peer_up(true);
	cr_assert_eq(fx.engine->credit.budget, MEMORY);
	cr_assert_eq(submit_recv(got, KIB, 1, ctx), 0);
	cr_assert_eq(take(&fx.rx).len, KIB);
	cr_assert_eq(fx.engine->credit.budget, 2 * MEMORY);
	cr_assert_eq(peer()->credit.promised, FIRST);
}

Test(credit, nobody_may_send_beyond_it)
{
	peer_up(true);
	for (size_t i = 0; i < FIRST / COST; i++)
		arrive_eager(data, KIB, i, 0, 0);
	cr_assert_not_null(peer()->lane);
	arrive_eager(data, KIB, 1, 0, 0);
	cr_assert_null(peer()->lane);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

static void check_window(uint32_t target, size_t len)
{
	peer_up(true);
	fx.engine->credit.target = target;
	for (uint32_t i = 0; i < 4 * TAGRV_MAX(target, (uint32_t) FIRST); i++) {
		cr_assert_eq(submit_recv(got, len, i, ctx), 0);
		arrive_eager(data, len, i, 0, 0);
		tagrv_engine_progress(fx.engine);
		take(&fx.rx);
		if (peer()->credit.window == target)
			break;
	}
	cr_assert_eq(peer()->credit.window, target);
	cr_assert_eq(peer()->credit.promised + peer()->credit.owed, target);
}

Test(credit, grows_to_the_window_that_is_wanted)
{
	check_window(4 * FIRST, 8 * KIB);
}

Test(credit, shrinks_to_the_window_that_is_wanted)
{
	check_window(256, 8);
}

/* What was kept of an old connection gives nothing to the new one. */
Test(credit, begins_anew_with_each_connection)
{
	peer_up(true);
	for (size_t i = 0; i < 50; i++)
		arrive_eager(data, KIB, i, 0, 0);
	peer()->credit.left = 7;
	peer_up(true);
	cr_assert_eq(peer()->credit.left, FIRST);
	cr_assert_eq(peer()->credit.promised, FIRST);
	for (size_t i = 0; i < 50; i++) {
		cr_assert_eq(submit_recv(got, KIB, i, ctx), 0);
		cr_assert_eq(take(&fx.rx).len, KIB);
	}
	cr_assert_eq(peer()->credit.owed, 0);
}

/* Peeked and dropped, claimed and dropped: all of it is given back. */
Test(credit, is_free_when_a_message_is_dropped)
{
	struct tagrv_recv_req req;

	peer_up(true);
	arrive_eager(data, KIB, 1, 0, 0);
	arrive_eager(data, KIB, 2, 0, 0);
	req = recv_req(NULL, 0, 1, &ctx[0]);
	req.flags |= FI_PEEK | FI_DISCARD;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(peer()->credit.owed, COST);
	req = recv_req(NULL, 0, 2, &ctx[1]);
	req.flags |= FI_PEEK | FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(peer()->credit.owed, COST);
	req.flags = FI_CLAIM | FI_DISCARD | FI_COMPLETION;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(peer()->credit.owed, 2 * COST);
}

/* An empty message without credit has no segment to read. */
Test(credit, an_empty_rts_is_received)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rts rts;
	} pkt = {
		.hdr.opcode = TAGRV_PKT_RTS,
		.hdr.op = htole32(77),
		.hdr.tag = htobe64(5),
		.hdr.flags = htole16(TAGRV_PKT_TAGGED),
	};

	peer_up(true);
	cr_assert_eq(submit_recv(got, KIB, 5, ctx), 0);
	fake_deliver(fx.link, &pkt, sizeof(pkt));
	cr_assert_eq(take(&fx.rx).len, 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(packet_header(0).op, 77);
}
