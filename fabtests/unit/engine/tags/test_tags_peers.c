/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers that come by a device's list, and peers that do not.
 */
#include "unit/engine/tags/tags_fixture.h"

#include <string.h>

#include "unit/engine/part_calls.h"

static void setup(void)
{
	tags_setup();
	memset(&quota, 0, sizeof(quota));
	tagrv_quota_init(&quota, 1000, 100);
	fake.base.quotas[0] = &quota;
}

TestSuite(tags_peers, .init = setup, .fini = tags_teardown, .timeout = 30);

static char buf[4][64], ctx[4];

static void begin(void)
{
	fake.given = TAGS_NUMBER;
	up();
	tags_message(0x77, "first", 5);
	tags_pass(2);
	cr_assert_eq(tags_counts().unexpected, 1);
}

static void post(unsigned n, uint64_t tag, fi_addr_t src)
{
	tags_post(buf[n], sizeof(buf[n]), tag, &ctx[n], src);
}

/* ---- by the list ---- */

Test(tags_peers, peer_has_the_number_that_its_device_wants)
{
	fake.number = 1234;
	begin();
	cr_assert_eq(peer()->number, 1234);
	cr_assert(peer()->lane->listed);
	cr_assert_not(peer()->lane->outside);
	cr_assert_eq(tags_counts().outside, 0);
}

Test(tags_peers, receives_of_a_peer_come_back_with_its_connection)
{
	begin();
	post(0, 5, fx.peer_addr);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 1);
	fake_break_link(fx.link, -FI_ECONNRESET);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 0);
	cr_assert_eq(tags_counts().soft, 1);
	fake.given = TAGS_NUMBER + 1;
	up();
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 1);
	tags_message(5, "hello", 5);
	tags_pass(3);
	tags_expect(&ctx[0], 5, 5);
}

/*
 * The peer has another link, by which it sends before we know that the former one is of no use. The
 * device must not pass the older receive, which is the peer's alone.
 */
Test(tags_peers, peer_that_comes_back_is_the_source_that_it_was)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_GONE, .addr = fx.addr, .status = -FI_ECONNRESET,
	};

	begin();
	post(0, 5, fx.peer_addr);
	post(1, 5, FI_ADDR_UNSPEC);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 2);
	fake.given = TAGS_NUMBER + 1;
	event.link = fake_link();
	fake_listed(event.link, 5, 0, "one", 3);
	event.epoch = epoch;
	tagrv_engine_wireup_event(fx.engine, &event);
	event.type = TAGRV_WIREUP_UP;
	event.epoch = ++epoch;
	event.max_packet = fx.max_packet;
	event.sendable = true;
	tagrv_engine_wireup_event(fx.engine, &event);
	fx.link = event.link;
	fake_end_closed();
	tags_message(5, "other", 5);
	tags_pass(4);
	tags_expect(&ctx[0], 5, 3);
	tags_expect(&ctx[1], 5, 5);
	cr_assert_arr_eq(buf[0], "one", 3);
	cr_assert_arr_eq(buf[1], "other", 5);
}

Test(tags_peers, message_of_a_connection_that_was_given_up_is_dropped)
{
	begin();
	fake.hold_closed = true;
	tagrv_lane_fail(peer()->lane, -FI_ECONNRESET, true);
	tags_message(5, "hello", 5);
	tags_pass(3);
	post(0, 5, FI_ADDR_UNSPEC);
	tags_pass(3);
	expect_empty(&fx.rx);
	cr_assert_eq(fake.list->handled, 2);
	fake.hold_closed = false;
	fake_close_held();
}

Test(tags_peers, list_that_is_not_ours_fails_the_connection)
{
	fake.given = 0;
	up();
	fake.base.sink->listed(fake.base.sink, fx.link->ctx, buf[0], 16);
	fake_end_closed();
	cr_assert_null(peer()->lane);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

/* ---- tagged messages that do not come by the list ---- */

static void begin_with_receive(void)
{
	begin();
	post(0, 5, FI_ADDR_UNSPEC);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 1);
	fx.rx_seq = 1;
}

/* The device has not compared the message with the receive, and may give it another one. */
static void expect_refused(void)
{
	fake_end_closed();
	cr_assert_null(peer()->lane);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	expect_empty(&fx.rx);
	cr_assert_eq(tags_counts().listed + tags_counts().soft, 1);
}

Test(tags_peers, eager_message_that_passes_the_list_is_refused)
{
	begin_with_receive();
	arrive_eager("hello", 5, 5, 0, 0);
	expect_refused();
}

Test(tags_peers, announced_message_that_passes_the_list_is_refused)
{
	begin_with_receive();
	arrive_rts(buf[3], sizeof(buf[3]), 5, 77);
	expect_refused();
}

/* Two messages of 8 bytes in one packet; flags: of the second. */
static void deliver_batch(uint16_t flags)
{
	const struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_BATCH, .seq = fx.rx_seq };
	uint64_t words[TAGRV_SHORT_WORDS + 6];
	struct tagrv_item item = { .len = 8, .tag = 5 };

	memset(words, 0, sizeof(words));
	tagrv_hdr_pack(words, &hdr);
	tagrv_item_pack(words + TAGRV_SHORT_WORDS, &item);
	item.flags = flags;
	tagrv_item_pack(words + TAGRV_SHORT_WORDS + 3, &item);
	fake_deliver(fx.link, words, sizeof(words));
}

Test(tags_peers, batched_message_that_passes_the_list_is_refused)
{
	begin_with_receive();
	deliver_batch(TAGRV_PKT_TAGGED);
	expect_refused();
}

Test(tags_peers, untagged_messages_need_no_list)
{
	struct tagrv_recv_req req = recv_req(buf[1], sizeof(buf[1]), 0, &ctx[1]);

	begin_with_receive();
	deliver_batch(0);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
	req.space = TAGRV_SPACE_MSG;
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
		cr_assert_eq(take(&fx.rx).len, 8);
	}
}

/* The device adds bytes of its own to each packet. */
Test(tags_peers, link_bounds_its_packets)
{
	static char text[FAKE_PACKET_MAX];
	size_t before;
	int dummy;

	fake.given = TAGS_NUMBER;
	up();
	before = peer()->packet_limit;
	tagrv_lane_fail(peer()->lane, -FI_ECONNRESET, true);
	fake_end_closed();
	fx.link = fake_link();
	fx.link->max_packet = FAKE_PACKET_MAX - 1000;
	{
		struct tagrv_wireup_event event = {
			.type = TAGRV_WIREUP_UP, .addr = fx.addr, .epoch = 7,
			.sendable = true, .max_packet = fx.max_packet, .link = fx.link,
		};

		tagrv_engine_wireup_event(fx.engine, &event);
	}
	cr_assert_lt(peer()->packet_limit, before);
	cr_assert_eq(peer()->frag_max, FAKE_PACKET_MAX - 1000 - sizeof(struct tagrv_hdr));
	cr_assert_eq(submit_send(text, before, 1, &dummy, 0), 0);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_leq(fake.log[0].len, (size_t) FAKE_PACKET_MAX - 1000);
}

Test(tags_peers, link_with_too_small_packets_is_refused)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP, .addr = fx.addr, .epoch = 1,
		.sendable = true, .max_packet = fx.max_packet, .link = fake_link(),
	};

	event.link->max_packet = TAGRV_RTS_MAX - 1;
	tagrv_engine_wireup_event(fx.engine, &event);
	cr_assert_null(peer()->lane);
	cr_assert_eq(fake.links, 0);
}

/* ---- by another way ---- */

Test(tags_peers, receives_of_any_source_come_back_before_a_local_peer_is_there)
{
	struct tagrv_lane *local;
	fi_addr_t row;

	begin();
	post(0, 5, FI_ADDR_UNSPEC);
	post(1, 5, fx.peer_addr);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 2);
	fake_list_delay(fake.list, 3, 0);
	local = tags_other_up(fake_local_link(), 1, &row);
	cr_assert(local->outside);
	cr_assert_eq(tags_counts().outside, 1);
	cr_assert_not(fake_list_would_match(fake.list, 5 | (uint64_t) TAGS_NUMBER << 48),
		      "the older one is not in the list, so neither is the younger one");
	tagrv_lane_fail(local, -FI_ECONNRESET, true);
	fake_end_closed();
	cr_assert_eq(tags_counts().outside, 0);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 2);
}

/* A message that was on its way when the local peer came is received first. */
Test(tags_peers, match_that_crosses_the_settling_counts)
{
	fi_addr_t row;

	begin();
	post(0, 5, FI_ADDR_UNSPEC);
	tags_pass(3);
	tags_message(5, "hello", 5);
	tags_other_up(fake_local_link(), 1, &row);
	tags_pass(1);
	tags_expect(&ctx[0], 5, 5);
	cr_assert_eq(tags_counts().offload.late, 1);
}

Test(tags_peers, peer_without_a_number_is_outside)
{
	fi_addr_t row;

	begin();
	fake.given = 0;
	tags_other_up(fake_link(), 1, &row);
	cr_assert_eq(tags_counts().outside, 1);
	post(0, 5, FI_ADDR_UNSPEC);
	post(1, 6, row);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 0);
	cr_assert_eq(tags_counts().soft, 2);
}

Test(tags_peers, connection_that_cannot_be_made_is_not_outside)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP, .addr = fx.addr, .epoch = 1,
		.sendable = true, .max_packet = TAGRV_RTS_MAX - 1,
		.link = fake_local_link(),
	};

	tagrv_engine_wireup_event(fx.engine, &event);
	cr_assert_eq(tags_counts().outside, 0);
}

/* The list may have receives that our own message matches: they come back in a pass. */
Test(tags_peers, ourselves_are_connected_by_a_pass)
{
	struct tagrv_send_req req;
	fi_addr_t self;

	begin();
	post(0, 5, FI_ADDR_UNSPEC);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 1);
	cr_assert_eq(tagrv_avtab_insert(&fx.av, &fx.engine->name, &self), 0);
	req = send_req("own", 3, 5, &ctx[3]);
	req.dest = self;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	cr_assert_eq(tagrv_peer_find(fx.engine, &fx.engine->name)->state,
		     TAGRV_PEER_CONNECTING);
	cr_assert_eq(tagrv_dom_arm(fx.dom), -FI_EAGAIN);
	tags_pass(4);
	cr_assert_eq(take(&fx.tx).context, &ctx[3]);
	cr_assert_eq(tags_counts().outside, 1);
	cr_assert_eq(take(&fx.rx).context, &ctx[0]);
	cr_assert_arr_eq(buf[0], "own", 3);
}

/* ---- parting ---- */

Test(tags_peers, connection_whose_message_is_awaited_does_not_part)
{
	begin();
	post(0, 5, FI_ADDR_UNSPEC);
	tags_pass(3);
	fake.list->hold_data = true;
	tags_message(5, "hello", 5);
	tags_pass(2);
	crowded();
	cr_assert_eq(peer()->state, TAGRV_PEER_READY, "it was not asked");
	cr_assert_not(tagrv_peer_is_idle(peer()));
	cr_assert(fake_list_data(fake.list));
	tags_pass(2);
	tags_expect(&ctx[0], 5, 5);
	crowded();
	asked();
}
