/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Senders that are held back: by places for announcements, and by their share of the
 * budget. Nobody is ended for being early, and what a receive waits for comes.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/engine_fixture.h"
#include "proto/hold.h"

enum { PLACES = 64, LONG = 100000, STEP = TAGRV_PLACES_STEP,
       STEP_UNITS = STEP * TAGRV_PLACE_UNITS };

/* Peers pay for themselves, unless a test says something else. */
static void setup(void)
{
	engine_setup();
	fx.engine->credit.places = PLACES;
	fx.engine->credit.budget = 0;
}

TestSuite(hold, .init = setup, .fini = engine_teardown, .timeout = 60);

static char ctx[8];
static char got[LONG];

static struct tagrv_peer *peer(void)
{
	return tagrv_peer_find(fx.engine, &fx.addr);
}

static struct tagrv_places *places(void)
{
	return &peer()->hold.places;
}

static void progress(void)
{
	tagrv_engine_progress(fx.engine);
}

static size_t packets(uint8_t opcode)
{
	size_t cnt = 0;

	for (size_t i = 0; i < fake.log_cnt; i++)
		cnt += packet_header(i).opcode == opcode;
	return cnt;
}

/* Places given back by the packets sent so far. */
static uint32_t given(void)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < fake.log_cnt; i++)
		if (packet_header(i).opcode == TAGRV_PKT_CREDIT)
			sum += packet_header(i).op;
	return sum;
}

static void announce(uint64_t tag)
{
	arrive_rts_bare(LONG, tag, (uint32_t) tag + 1);
}

/* The peer uses all of its places for messages with tags from 0 on. */
static void fill(void)
{
	for (uint64_t i = 0; i < PLACES; i++)
		announce(i);
	cr_assert_eq(places()->promised, 0);
	cr_assert(peer()->hold.stopped);
}

/* ---- the sender ---- */

Test(hold, a_sender_without_a_place_waits_and_keeps_its_order)
{
	peer_up(true);
	for (uint64_t i = 0; i < PLACES + 3; i++)
		cr_assert_eq(submit_send(got, LONG, i, ctx, 0), 0);
	/* Small, and there is credit, but it is behind them. */
	cr_assert_eq(submit_send(got, 8, PLACES + 3, ctx, 0), 0);
	progress();
	cr_assert_eq(packets(TAGRV_PKT_RTS), PLACES);
	cr_assert_eq(packets(TAGRV_PKT_EAGER), 0);
	arrive_control(TAGRV_PKT_CREDIT, 2, 0);
	progress();
	cr_assert_eq(packets(TAGRV_PKT_RTS), PLACES + 2);
	arrive_control(TAGRV_PKT_CREDIT, 1, 0);
	progress();
	cr_assert_eq(packets(TAGRV_PKT_RTS), PLACES + 3);
	cr_assert_eq(packets(TAGRV_PKT_EAGER), 1);
	for (size_t i = 0; i < fake.log_cnt; i++)
		cr_assert_eq(packet_header(i).tag, i);
	cr_assert_not_null(peer()->lane);
}

/* What is under way in either direction needs no place. */
Test(hold, a_sender_that_waits_still_answers)
{
	peer_up(true);
	for (uint64_t i = 0; i < PLACES + 3; i++)
		cr_assert_eq(submit_send(got, LONG, i, ctx, 0), 0);
	fake_forget();
	arrive_eager("x", 1, 5, TAGRV_PKT_ACK_DELIVERY, 77);
	progress();
	cr_assert_eq(packets(TAGRV_PKT_FIN), 1);
	cr_assert_eq(submit_recv(got, LONG, 6, ctx), 0);
	announce(6);
	progress();
	cr_assert_eq(packets(TAGRV_PKT_CTS), 1);
}

Test(hold, sends_that_wait_end_with_the_connection)
{
	peer_up(true);
	for (uint64_t i = 0; i < PLACES + 1; i++)
		cr_assert_eq(submit_send(got, LONG, i, ctx, 0), 0);
	fake_break_link(fx.link, -FI_ECONNRESET);
	for (uint64_t i = 0; i < PLACES + 1; i++)
		cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	expect_empty(&fx.tx);
	peer_up(true);
	cr_assert_eq(places()->left, PLACES);
}

Test(hold, places_that_add_up_to_nonsense_end_the_connection)
{
	peer_up(true);
	arrive_control(TAGRV_PKT_CREDIT, UINT32_MAX - PLACES, 0);
	cr_assert_not_null(peer()->lane);
	arrive_control(TAGRV_PKT_CREDIT, 1, 0);
	cr_assert_null(peer()->lane);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

/* ---- the receiver ---- */

Test(hold, nobody_may_announce_without_a_place)
{
	peer_up(true);
	fill();
	cr_assert_not_null(peer()->lane);
	announce(PLACES);
	cr_assert_null(peer()->lane);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	cr_assert(tagrv_list_empty(&fx.engine->rx->stopped));
}

Test(hold, places_come_back_when_a_quarter_is_owed)
{
	peer_up(true);
	for (uint64_t i = 0; i < 10 * PLACES; i++) {
		cr_assert_eq(submit_recv(got, LONG, i, ctx), 0);
		announce(i);
		progress();
		cr_assert_lt(places()->owed, PLACES / 4);
		cr_assert_eq(given(), (i + 1) / (PLACES / 4) * (PLACES / 4));
	}
	cr_assert(!peer()->hold.stopped);
}

Test(hold, a_peer_without_a_place_goes_on_when_messages_are_received)
{
	peer_up(true);
	fill();
	for (uint64_t i = 0; i < PLACES / 4; i++)
		cr_assert_eq(submit_recv(got, LONG, i, ctx), 0);
	progress();
	cr_assert_eq(given(), PLACES / 4);
	cr_assert(!peer()->hold.stopped);
	cr_assert(tagrv_list_empty(&fx.engine->rx->stopped));
}

/* Its message may be the one behind those that are kept. */
Test(hold, a_receive_that_finds_nothing_releases_what_is_owed)
{
	peer_up(true);
	fill();
	cr_assert_eq(submit_recv(got, LONG, 0, ctx), 0);
	progress();
	cr_assert_eq(given(), 0);
	cr_assert_eq(submit_recv(got, LONG, 1000, ctx), 0);
	progress();
	cr_assert_eq(given(), 1);
	cr_assert(!peer()->hold.stopped);
	/* The next one is not it; nothing is owed, nor is there a budget. */
	announce(1001);
	progress();
	cr_assert(peer()->hold.stopped);
	cr_assert_eq(given(), 1);
}

Test(hold, the_budget_pays_for_what_a_receive_waits_for)
{
	int lines = log_count("FI_TAGRV_EAGER_BUDGET");

	peer_up(true);
	fill();
	cr_assert_eq(submit_recv(got, LONG, 1000, ctx), 0);
	for (int i = 0; i < 3; i++)
		progress();
	cr_assert_eq(given(), 0);
	cr_assert_eq(log_count("FI_TAGRV_EAGER_BUDGET"), lines + 1);
	fx.engine->credit.budget = STEP_UNITS + 1;
	progress();
	cr_assert_eq(given(), STEP);
	cr_assert_eq(fx.engine->credit.budget, 1);
	cr_assert_eq(places()->window, PLACES + STEP);
	/* One is it: its place is taken back. */
	announce(1000);
	cr_assert_eq(places()->window, PLACES + STEP - 1);
	cr_assert_eq(fx.engine->credit.budget, 1 + TAGRV_PLACE_UNITS);
	/* With the connection all of it comes back. */
	fake_break_link(fx.link, -FI_ECONNRESET);
	cr_assert_eq(fx.engine->credit.budget, STEP_UNITS + 1);
}

/*
 * The last place may be that of a message which finds its receive: what is owed then is
 * less than a quarter, and the next receive waits for it all the same.
 */
Test(hold, a_peer_whose_last_message_matches_is_not_forgotten)
{
	peer_up(true);
	for (uint64_t i = 0; i < PLACES - 1; i++)
		announce(i);
	cr_assert_eq(submit_recv(got, LONG, 1000, ctx), 0);
	announce(1000);
	cr_assert_eq(places()->promised, 0);
	cr_assert_eq(submit_recv(got, LONG, 1001, ctx), 0);
	for (int i = 0; i < 3; i++)
		progress();
	cr_assert_eq(given(), 1);
	/* And so again: the one place there is goes to and fro. */
	for (uint64_t i = 1001; i < 1001 + 3 * PLACES; i++) {
		announce(i);
		cr_assert_eq(submit_recv(got, LONG, i + 1, ctx), 0);
		progress();
		cr_assert_eq(given(), i - 999);
	}
	cr_assert_eq(places()->window, PLACES);
}

/* Nor one that has used up what it got beyond its first places. */
Test(hold, places_of_the_budget_are_given_again)
{
	peer_up(true);
	fill();
	fx.engine->credit.budget = STEP_UNITS;
	for (uint64_t i = 1000; i < 1000 + 3 * STEP; i++) {
		cr_assert_eq(submit_recv(got, LONG, i, ctx), 0);
		progress();
		cr_assert_gt(places()->promised, 0);
		announce(i);
	}
	cr_assert_eq(places()->window, PLACES);
	cr_assert_eq(fx.engine->credit.budget, STEP_UNITS);
}

/* Again and again, until the message has come. */
Test(hold, a_receive_waits_for_a_message_behind_many)
{
	uint64_t i = 0;

	peer_up(true);
	fx.engine->credit.budget = 100 * STEP_UNITS;
	cr_assert_eq(submit_recv(got, LONG, 100000, ctx), 0);
	for (; i < 20 * PLACES; i++) {
		while (!places()->promised)
			progress();
		announce(i);
	}
	while (!places()->promised)
		progress();
	announce(100000);
	progress();
	cr_assert_geq(packets(TAGRV_PKT_CTS), 1);
	while (i--)
		cr_assert_eq(submit_recv(got, LONG, i, ctx), 0);
	cr_assert_eq(places()->window, PLACES);
	cr_assert_eq(fx.engine->credit.budget, 100 * STEP_UNITS);
	cr_assert_eq(peer()->hold.paid, 0);
}

Test(hold, a_peek_that_finds_nothing_releases_too)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, 1000, ctx);

	peer_up(true);
	fill();
	fx.engine->credit.budget = STEP_UNITS;
	progress();
	cr_assert_eq(given(), 0);
	req.flags |= FI_PEEK;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).err, FI_ENOMSG);
	progress();
	cr_assert_eq(given(), STEP);
}

/* Times that who sleeps was woken. */
static uint64_t kicks(void)
{
	uint64_t cnt = 0;

	return read(fx.dom->kick_fd, &cnt, sizeof(cnt)) == sizeof(cnt) ? cnt : 0;
}

/* Nor the processor of others, nor a system call of each post. */
Test(hold, a_peer_that_nobody_waits_for_costs_no_pass)
{
	peer_up(true);
	fill();
	progress();
	cr_assert(peer()->hold.stopped);
	cr_assert(!tagrv_list_linked(&peer()->busy_node));
	(void) kicks();
	for (uint64_t i = 0; i < 10; i++)
		cr_assert_eq(submit_recv(got, LONG, 1000 + i, ctx), 0);
	cr_assert_eq(kicks(), 1);
	progress();
	/* There is no budget: it is asked in each pass. */
	cr_assert(tagrv_list_linked(&peer()->busy_node));
	cr_assert_eq(submit_recv(got, LONG, 2000, ctx), 0);
	cr_assert_eq(kicks(), 1);
	fx.engine->credit.budget = STEP_UNITS;
	progress();
	cr_assert_eq(given(), STEP);
	cr_assert(!tagrv_list_linked(&peer()->busy_node));
}

/* When all that is kept is claimed, receives are posted the short way. */
Test(hold, a_peer_whose_messages_are_claimed_is_looked_at)
{
	static char contexts[PLACES];

	peer_up(true);
	fill();
	progress();
	for (uint64_t i = 0; i < PLACES; i++) {
		struct tagrv_recv_req req = recv_req(NULL, 0, i, &contexts[i]);

		req.flags |= FI_PEEK | FI_CLAIM;
		cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
		take(&fx.rx);
	}
	for (int i = 0; i < 3; i++)
		progress();
	cr_assert(tagrv_list_linked(&peer()->busy_node));
}

/* A receive from another peer leaves the flooder where it is. */
Test(hold, only_receives_that_could_match_release)
{
	struct tagrv_addr flooder = fx.addr;
	struct tagrv_recv_req req;
	fi_addr_t other;

	peer_up(true);
	fill();
	fx.engine->credit.budget = STEP_UNITS;
	tagrv_addr_set_port(&fx.addr, 10);
	cr_assert_eq(tagrv_avtab_insert(&fx.av, &fx.addr, &other), 0);
	req = recv_req(got, LONG, 1000, ctx);
	req.src = other;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	progress();
	cr_assert_eq(given(), 0);
	fx.addr = flooder;
	req.src = fx.peer_addr;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	progress();
	cr_assert_eq(given(), STEP);
}

Test(hold, places_wait_for_room_like_everything)
{
	peer_up(true);
	fill();
	fx.engine->credit.budget = 3 * STEP_UNITS;
	cr_assert_eq(submit_recv(got, LONG, 1000, ctx), 0);
	fake.refuse_all = true;
	for (int i = 0; i < 5; i++)
		progress();
	cr_assert_eq(places()->window, PLACES + STEP, "one step only");
	fake.refuse_all = false;
	progress();
	cr_assert_eq(given(), STEP);
	progress();
	cr_assert_eq(given(), STEP);
}

/* ---- shares of the budget ---- */

Test(hold, the_budget_gives_places_back_at_once)
{
	peer_up(true);
	fx.engine->credit.budget = 100 * PLACES * TAGRV_PLACE_UNITS;
	for (uint64_t i = 0; i < 10 * PLACES; i++) {
		announce(i);
		progress();
	}
	cr_assert(!peer()->hold.stopped);
	cr_assert_eq(places()->window, PLACES);
	cr_assert_gt(peer()->hold.paid, 0);
	for (uint64_t i = 0; i < 10 * PLACES; i++)
		cr_assert_eq(submit_recv(got, LONG, i, ctx), 0);
	cr_assert_eq(peer()->hold.paid, 0);
	cr_assert_eq(fx.engine->credit.budget, 100 * PLACES * TAGRV_PLACE_UNITS);
}

/* As many short messages as the peer may send. */
static uint32_t flood(uint32_t *sent)
{
	while (tagrv_credit_units(8) <= peer()->credit.promised) {
		arrive_eager("flooding", 8, (*sent)++, 0, 0);
		if (!(*sent % 128))
			progress();
		fake_forget();
	}
	return *sent;
}

Test(hold, a_flooder_leaves_a_ninth_of_the_budget_to_others)
{
	const uint32_t budget = 90000;
	uint32_t sent = 0, others = 0;

	peer_up(true);
	fx.engine->credit.budget = budget;
	flood(&sent);
	cr_assert_eq(fx.engine->credit.budget, budget / 9);
	/* A quarter of its window may be owed. */
	cr_assert_geq(sent, budget / 9 * 8 / 2 + TAGRV_CREDIT_FIRST * 3 / 4 / 5);
	cr_assert_leq(sent, budget / 9 * 8 / 2 + TAGRV_CREDIT_FIRST / 5);
	tagrv_addr_set_port(&fx.addr, 10);
	peer_up(true);
	flood(&others);
	cr_assert_geq(others, budget / 9 * 8 / 9 / 2);
	cr_assert_gt(fx.engine->credit.budget, 0);
	/* And one more finds the reserve of its own at the least. */
	others = 0;
	fx.engine->credit.budget = 0;
	tagrv_addr_set_port(&fx.addr, 11);
	peer_up(true);
	cr_assert_eq(flood(&others), TAGRV_CREDIT_FIRST / 5);
}

/* ---- connections that end ---- */

enum { LOST = 1024, MANY = 3000, ENOUGH = 100 * MANY };

static void announce_many(void)
{
	for (uint64_t i = 0; i < MANY; i++) {
		announce(i);
		progress();
		fake_forget();
	}
}

Test(hold, the_dead_release_what_they_announced)
{
	peer_up(true);
	fx.engine->credit.budget = ENOUGH;
	for (int life = 0; life < 3; life++) {
		arrive_eager("whole", 6, MANY, 0, 0);
		announce_many();
		cr_assert_lt(fx.engine->credit.budget, ENOUGH - MANY);
		fake_break_link(fx.link, -FI_ECONNRESET);
		/* The eager messages of all lives are paid for. */
		cr_assert_eq(fx.engine->credit.budget,
			     (uint32_t) ENOUGH - 2 * (uint32_t) (life + 1));
		cr_assert_eq(fx.engine->pools.umsgs.used,
			     (size_t) LOST + (size_t) life + 1);
		for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
			cr_assert_eq(fx.engine->pools.bufs[i].used, 0);
		peer_up(true);
	}
	/* What had come whole can be received, the earliest announcements fail. */
	for (int life = 0; life < 3; life++) {
		cr_assert_eq(submit_recv(got, LONG, MANY, ctx), 0);
		cr_assert_eq(take(&fx.rx).err, 0);
		cr_assert_str_eq(got, "whole");
	}
	for (uint64_t i = 0; i < LOST; i++) {
		cr_assert_eq(submit_recv(got, LONG, i, ctx), 0);
		cr_assert_eq(take(&fx.rx).err, FI_ECONNRESET);
	}
	cr_assert_eq(submit_recv(got, LONG, LOST, ctx), 0);
	expect_empty(&fx.rx);
	cr_assert_eq(fx.engine->pools.umsgs.used, 0);
	cr_assert_eq(fx.engine->credit.lost, 0);
	cr_assert_eq(peer()->hold.lost, 0);
	cr_assert_eq(peer()->hold.paid, 0);
	cr_assert_eq(fx.engine->credit.budget, ENOUGH);
}

/* The error says all that the envelope has said. */
Test(hold, what_is_left_of_the_dead_has_its_data)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rts rts;
	} pkt = {
		.hdr.opcode = TAGRV_PKT_RTS,
		.hdr.op = htole32(5),
		.hdr.tag = htobe64(9),
		.hdr.flags = htole16(TAGRV_PKT_TAGGED | TAGRV_PKT_DATA),
		.hdr.data = htole64(0x1234567890),
		.rts.len = htole64(LONG),
	};
	struct tagrv_recv_req req = recv_req(got, LONG, 0, ctx);
	struct tagrv_comp comp;

	peer_up(true);
	fake_deliver(fx.link, &pkt, sizeof(pkt));
	fake_break_link(fx.link, -FI_ECONNRESET);
	cr_assert_eq(submit_recv(got, LONG, 9, ctx), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ECONNRESET);
	cr_assert(comp.flags & FI_REMOTE_CQ_DATA);
	cr_assert_eq(comp.data, 0x1234567890);
	/* A multi-receive buffer stays posted. */
	req.space = TAGRV_SPACE_MSG;
	req.flags |= FI_MULTI_RECV;
	pkt.hdr.flags = htole16(TAGRV_PKT_DATA);
	peer_up(true);
	fake_deliver(fx.link, &pkt, sizeof(pkt));
	fake_break_link(fx.link, -FI_ECONNRESET);
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ECONNRESET);
	cr_assert(comp.flags & FI_REMOTE_CQ_DATA);
	cr_assert_eq(comp.data, 0x1234567890);
	expect_empty(&fx.rx);
}

Test(hold, a_claimed_announcement_of_the_dead_fails_and_releases)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, 7, ctx);

	peer_up(true);
	fx.engine->credit.budget = ENOUGH;
	announce(7);
	req.flags |= FI_PEEK | FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	take(&fx.rx);
	fake_break_link(fx.link, -FI_ECONNRESET);
	cr_assert_eq(fx.engine->credit.budget, ENOUGH);
	req = recv_req(got, LONG, 7, ctx);
	req.flags |= FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).err, FI_ECONNRESET);
	cr_assert_eq(fx.engine->credit.lost, 0);
	cr_assert_eq(fx.engine->pools.umsgs.used, 0);
}
