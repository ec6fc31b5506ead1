/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Eager sends and receives, queueing, order and completion levels.
 */
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"

TestSuite(eager, .init = engine_setup, .fini = engine_teardown, .timeout = 20);

static char ctx[8];

Test(eager, queued_until_the_peer_can_receive_then_sent_in_order)
{
	cr_assert_eq(submit_send("a", 1, 1, &ctx[0], 0), 0);
	cr_assert_eq(submit_send("b", 1, 2, &ctx[1], 0), 0);
	peer_up(false);
	cr_assert_eq(submit_send("c", 1, 3, &ctx[2], 0), 0);
	cr_assert_eq(fake.log_cnt, 0);
	peer_sendable();
	cr_assert_eq(fake.log_cnt, 1, "what waits travels together");
	for (size_t i = 0; i < 3; i++) {
		struct sent_item sent = sent_item(0, i);

		cr_assert_eq(sent.item.tag, i + 1);
		cr_assert_eq(sent.payload[0], "abc"[i]);
		cr_assert_eq(take(&fx.tx).context, &ctx[i]);
	}
	expect_empty(&fx.tx);
}

Test(eager, a_packet_from_the_peer_means_it_can_receive)
{
	peer_up(false);
	cr_assert_eq(submit_send("a", 1, 1, ctx, 0), 0);
	arrive_eager("x", 1, 9, 0, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
}

Test(eager, no_room_keeps_order_and_loses_nothing)
{
	peer_up(true);
	fake.refuse_all = true;
	for (uint64_t i = 0; i < 5; i++)
		cr_assert_eq(submit_send("x", 1, i, ctx, 0), 0);
	fake.refuse_all = false;
	cr_assert_eq(submit_send("x", 1, 5, ctx, 0), 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	for (size_t i = 0; i < 6; i++)
		cr_assert_eq(sent_item(0, i).item.tag, i);
}

Test(eager, a_long_queue_is_sent_in_parts)
{
	static char big[8000];
	int passes = 0;

	for (uint64_t i = 0; i < 40; i++)
		cr_assert_eq(submit_send(big, sizeof(big), i, ctx, 0), 0);
	peer_up(true);
	cr_assert_lt(fake.log_cnt, 12, "64 KiB, then others have their turn");
	while (tagrv_engine_progress(fx.engine))
		passes++;
	cr_assert_gt(passes, 2, "a pass that could go on is no idle one");
	cr_assert_eq(fake.log_cnt, 40);
	for (size_t i = 0; i < 40; i++)
		cr_assert_eq(packet_header(i).tag, i);
}

Test(eager, busy_peers_take_turns_to_be_first)
{
	struct tagrv_addr other = fx.addr;
	struct tagrv_peer *a, *b;
	fi_addr_t to_other;

	peer_up(true);
	cr_assert_eq(submit_send("x", 1, 1, ctx, 0), 0);
	tagrv_addr_set_port(&other, 10);
	cr_assert_eq(tagrv_avtab_insert(&fx.av, &other, &to_other), 0);
	fx.addr = other;
	peer_up(true);
	a = fx.engine->table.peers[0];
	b = fx.engine->table.peers[1];
	fake.refuse_all = true;
	cr_assert_eq(submit_send("x", 1, 1, ctx, 0), 0);
	fx.peer_addr = to_other;
	cr_assert_eq(submit_send("x", 1, 1, ctx, 0), 0);
	cr_assert_eq(tagrv_list_first(&fx.engine->tx.busy), &a->busy_node);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(tagrv_list_first(&fx.engine->tx.busy), &b->busy_node);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(tagrv_list_first(&fx.engine->tx.busy), &a->busy_node);
}

Test(eager, injected_buffer_is_free_at_once_even_when_queued)
{
	char buf[16] = "before";
	struct tagrv_send_req req = send_req(buf, 7, 1, NULL);

	req.no_context = true;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	strcpy(buf, "after!");
	peer_up(true);
	cr_assert_str_eq((char *) fake.log[0].data + 32, "before");
	expect_empty(&fx.tx);
	cr_assert_eq(atomic_load(&fx.tx_cntr.value), 1);
}

Test(eager, transmit_complete_waits_for_the_device)
{
	peer_up(true);
	cr_assert_eq(submit_send("x", 1, 1, ctx, FI_TRANSMIT_COMPLETE), 0);
	expect_empty(&fx.tx);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(eager, delivery_complete_waits_for_fin)
{
	peer_up(true);
	cr_assert_eq(submit_send("x", 1, 1, ctx, FI_DELIVERY_COMPLETE), 0);
	fake_complete_all(0);
	expect_empty(&fx.tx);
	cr_assert(packet_header(0).flags & TAGRV_PKT_ACK_DELIVERY);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
	expect_empty(&fx.tx);
}

Test(eager, delivery_is_acked_on_arrival_and_match_when_matched)
{
	char buf[4];

	peer_up(true);
	arrive_eager("d", 1, 1, TAGRV_PKT_ACK_DELIVERY, 77);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_FIN);
	cr_assert_eq(packet_header(0).op, 77);
	arrive_eager("m", 1, 2, TAGRV_PKT_ACK_MATCH, 78);
	cr_assert_eq(fake.log_cnt, 1, "not matched yet");
	cr_assert_eq(submit_recv(buf, 4, 2, ctx), 0);
	cr_assert_eq(fake.log_cnt, 2);
	cr_assert_eq(packet_header(1).op, 78);
	cr_assert_eq(submit_recv(buf, 4, 1, ctx), 0);
	cr_assert_eq(fake.log_cnt, 2, "one ack per message");
}

Test(eager, expected_and_unexpected_fill_every_field)
{
	char a[8] = "", b[8] = "";
	struct tagrv_comp comp;

	peer_up(true);
	cr_assert_eq(submit_recv(a, 8, 5, &ctx[0]), 0);
	arrive_eager("hello", 5, 5, TAGRV_PKT_DATA, 0);
	arrive_eager("later", 5, 6, 0, 0);
	cr_assert_eq(submit_recv(b, 8, 6, &ctx[1]), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.context, &ctx[0]);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
	cr_assert_eq(comp.data, 0x1122334455667788);
	cr_assert_eq(comp.len, 5);
	cr_assert_eq(comp.tag, 5);
	cr_assert_eq(comp.src, fx.peer_addr);
	cr_assert_str_eq(a, "hello");
	comp = take(&fx.rx);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED);
	cr_assert_eq(comp.tag, 6);
	cr_assert_str_eq(b, "later");
}

Test(eager, a_sender_with_a_larger_eager_max_may_fill_our_packets)
{
	size_t len = FAKE_PACKET_MAX - sizeof(struct tagrv_hdr);
	char *big = malloc(len), *buf = calloc(1, len);

	cr_assert_gt(len, fx.dom->params.eager_max);
	memset(big, 7, len);
	peer_up(true);
	arrive_eager(big, len, 5, 0, 0);
	cr_assert_eq(submit_recv(buf, len, 5, ctx), 0);
	cr_assert_eq(take(&fx.rx).len, len);
	cr_assert_arr_eq(big, buf, len);
	free(big);
	free(buf);
}

Test(eager, too_long_is_cut_and_says_by_how_much)
{
	char buf[8] = "....###";
	struct tagrv_comp comp;

	peer_up(true);
	cr_assert_eq(submit_recv(buf, 4, 5, ctx), 0);
	arrive_eager("abcdefg", 7, 5, 0, 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ETRUNC);
	cr_assert_eq(comp.len, 4);
	cr_assert_eq(comp.olen, 3);
	cr_assert_str_eq(buf, "abcd###");
	cr_assert_eq(atomic_load(&fx.rx_cntr.err), 1);
}

Test(eager, link_error_ends_each_operation_once)
{
	char buf[8];

	peer_up(true);
	cr_assert_eq(submit_send("w", 1, 1, &ctx[0], FI_TRANSMIT_COMPLETE), 0);
	cr_assert_eq(submit_send("f", 1, 2, &ctx[1], FI_DELIVERY_COMPLETE), 0);
	fake.refuse_all = true;
	cr_assert_eq(submit_send("q", 1, 3, &ctx[2], 0), 0);
	cr_assert_eq(submit_recv(buf, 8, 1, &ctx[3]), 0);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	for (int i = 0; i < 3; i++)
		cr_assert_neq(take(&fx.tx).err, 0);
	expect_empty(&fx.tx);
	expect_empty(&fx.rx);
	cr_assert_eq(atomic_load(&fx.tx_cntr.err), 3);
}

Test(eager, after_a_failed_link_the_next_one_works)
{
	char buf[8];

	peer_up(true);
	arrive_eager("1", 1, 1, 0, 0);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	fake_forget();
	peer_up(true);
	cr_assert_eq(submit_send("x", 1, 1, ctx, 0), 0);
	cr_assert_eq(packet_header(0).seq, 0);
	arrive_eager("2", 1, 1, 0, 0);
	cr_assert_eq(submit_recv(buf, 8, 1, &ctx[1]), 0);
	cr_assert_eq(buf[0], '1', "what came before the failure stays");
	cr_assert_eq(submit_recv(buf, 8, 1, &ctx[2]), 0);
	cr_assert_eq(buf[0], '2');
}

Test(eager, connection_that_fails_ends_what_waits)
{
	struct tagrv_comp comp;

	cr_assert_eq(submit_send("x", 1, 1, ctx, 0), 0);
	peer_event(TAGRV_WIREUP_FAILED, -FI_ECONNREFUSED);
	comp = take(&fx.tx);
	cr_assert_eq(comp.err, FI_ECONNREFUSED);
	cr_expect_eq(comp.src, fx.engine->table.peers[0]->fi_addr, "says which peer failed");
	expect_empty(&fx.tx);
}

Test(eager, connection_that_is_of_no_use_ends_what_waits)
{
	cr_assert_eq(submit_send("x", 1, 1, &ctx[0], 0), 0);
	fx.max_packet = 100;
	peer_up(true);
	cr_assert_eq(take(&fx.tx).err, FI_EHOSTUNREACH);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(fx.engine->table.peers[0]->state, TAGRV_PEER_IDLE);
	fx.max_packet = FAKE_PACKET_MAX;
	cr_assert_eq(submit_send("x", 1, 1, &ctx[1], 0), 0);
	cr_assert_eq(fx.engine->table.peers[0]->state, TAGRV_PEER_CONNECTING,
		     "asks for a connection again");
	peer_up(true);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(eager, peer_that_hangs_up_ends_what_needs_it)
{
	peer_up(true);
	cr_assert_eq(submit_send("x", 1, 1, ctx, FI_MATCH_COMPLETE), 0);
	peer_event(TAGRV_WIREUP_GONE, 0);
	expect_empty(&fx.tx);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
}

Test(eager, peer_that_hangs_up_is_dropped_although_others_keep_us_busy)
{
	int passes = 0;

	peer_up(true);
	cr_assert_eq(submit_send("x", 1, 1, ctx, FI_MATCH_COMPLETE), 0);
	fake.events = 1;
	peer_event(TAGRV_WIREUP_GONE, 0);
	for (; tagrv_compq_empty(&fx.tx) && passes < 1000; passes++)
		tagrv_engine_progress(fx.engine);
	cr_assert_eq(passes, 64);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
}

/* However many passes that takes. */
Test(eager, what_a_peer_sent_before_it_hung_up_is_taken_in)
{
	enum { LEFT = 3 * TAGRV_DRAIN_PASSES };
	char buf[8];

	peer_up(true);
	fake.events = 1;
	peer_event(TAGRV_WIREUP_GONE, 0);
	fx.later = true;
	for (int i = 0; i < LEFT; i++) {
		arrive_eager("last", 5, 1, 0, 0);
		tagrv_engine_progress(fx.engine);
		cr_assert_eq(submit_recv(buf, 8, 1, ctx), 0);
		cr_assert_eq(take(&fx.rx).len, 5);
	}
	cr_assert_not_null(fx.engine->table.peers[0]->lane);
	for (int i = 0; i < TAGRV_DRAIN_PASSES; i++)
		tagrv_engine_progress(fx.engine);
	cr_assert_null(fx.engine->table.peers[0]->lane);
}

Test(eager, peer_that_hung_up_gets_nothing_more)
{
	peer_up(true);
	peer_event(TAGRV_WIREUP_GONE, 0);
	arrive_eager("last", 5, 1, 0, 0);
	cr_assert_eq(submit_send("x", 1, 1, ctx, 0), 0);
	cr_assert_eq(fake.log_cnt, 0);
	expect_empty(&fx.tx);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
}

Test(eager, what_a_restarted_peer_sent_before_is_taken_in)
{
	char buf[8];

	peer_up(true);
	fx.later = true;
	for (int i = 0; i < 4; i++)
		arrive_eager("old", 4, 1, 0, 0);
	fx.later = false;
	peer_up(true);
	arrive_eager("new", 4, 1, 0, 0);
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(submit_recv(buf, 8, 1, ctx), 0);
		cr_assert_eq(take(&fx.rx).len, 4);
		cr_assert_str_eq(buf, i < 4 ? "old" : "new");
	}
}

enum { OLD = 5 * TAGRV_DRAIN_PASSES };

static struct tagrv_link *old_link;
static uint32_t old_sent;

/* One message a pass; other peers keep the pass busy as well. */
static int bring_old(struct tagrv_xport *xport)
{
	struct tagrv_link *link = fx.link;
	uint32_t seq = fx.rx_seq;

	(void) xport;
	if (old_sent == OLD)
		return 1;
	fx.link = old_link;
	fx.rx_seq = old_sent++;
	arrive_eager("old", 4, 1, 0, 0);
	fx.link = link;
	fx.rx_seq = seq;
	return 1;
}

/* However many passes that takes. */
Test(eager, all_that_a_restarted_peer_sent_is_taken_in)
{
	static struct tagrv_xport_ops ops;
	char buf[8];

	peer_up(true);
	old_link = fx.link;
	ops = *old_link->xport->ops;
	ops.progress = bring_old;
	old_link->xport->ops = &ops;
	peer_up(true);
	cr_assert_eq(old_sent, OLD);
	for (int i = 0; i < OLD; i++) {
		cr_assert_eq(submit_recv(buf, 8, 1, ctx), 0);
		cr_assert_eq(take(&fx.rx).len, 4);
	}
}

/* Other peers may keep all passes busy. */
Test(eager, restarted_peer_that_sent_nothing_more_ends)
{
	peer_up(true);
	fake.events = 1;
	fake.polls = 0;
	peer_up(true);
	cr_assert_leq(fake.polls, TAGRV_DRAIN_PASSES + 2);
}

Test(eager, bad_arguments_are_refused_before_anything_happens)
{
	struct tagrv_send_req req = send_req("x", 1, 1, ctx);
	struct tagrv_recv_req rreq;
	char buf[4];

	req.dest = 17;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), -FI_EINVAL);
	req.dest = FI_ADDR_UNSPEC;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), -FI_EINVAL);
	cr_assert_eq(submit_send("x", TAGRV_MAX_MSG + 1, 1, ctx, 0),
		     -FI_EMSGSIZE);
	cr_assert_eq(tagrv_avtab_remove(&fx.av, fx.peer_addr), 0);
	rreq = recv_req(buf, 4, 1, ctx);
	rreq.src = fx.peer_addr;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &rreq), -FI_EINVAL);
	expect_empty(&fx.tx);
	expect_empty(&fx.rx);
}

Test(eager, too_many_unexpected_messages_have_an_error_of_their_own)
{
	char buf[4];

	engine_limit_queues(0, 1);
	peer_up(true);
	cr_assert_eq(submit_send("x", 1, 1, ctx, FI_DELIVERY_COMPLETE), 0);
	arrive_eager("one", 4, 1, 0, 0);
	expect_empty(&fx.tx);
	arrive_eager("two", 4, 1, 0, 0);
	cr_assert_eq(take(&fx.tx).err, FI_ENOBUFS);
	cr_assert_eq(submit_recv(buf, 4, 1, ctx), 0);
	cr_assert_str_eq(buf, "one");
}

Test(eager, packet_that_makes_no_sense_ends_the_connection)
{
	char buf[4];

	peer_up(true);
	cr_assert_eq(submit_send("x", 1, 1, ctx, FI_DELIVERY_COMPLETE), 0);
	fx.rx_seq = 1;
	arrive_eager("lost one before", 4, 1, 0, 0);
	cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	peer_up(true);
	arrive_eager("new", 4, 1, 0, 0);
	cr_assert_eq(submit_recv(buf, 4, 1, ctx), 0);
	cr_assert_str_eq(buf, "new");
}

Test(eager, random_packets_are_counted_and_refused)
{
	uint8_t packet[256];
	char buf[64];

	srand(1);
	for (int i = 0; i < 50000; i++) {
		size_t len = (size_t) rand() % sizeof(packet);

		for (size_t k = 0; k < len; k++)
			packet[k] = (uint8_t) rand();
		if (len > 4 && i % 2) {
			packet[0] = (uint8_t) (i % 5);
			memset(packet + 1, 0, 3);
		}
		if (!fake.links)
			peer_up(true);
		fake_deliver(fx.link, packet, len);
	}
	cr_assert_gt(fx.engine->stats.bad_packets, 25000);
	if (fake.links)
		fake_break_link(fx.link, -FI_EHOSTUNREACH);
	peer_up(true);
	cr_assert_eq(submit_recv(buf, 64, 0xabcdef, ctx), 0);
	arrive_eager("good", 4, 0xabcdef, 0, 0);
	cr_assert_eq(take(&fx.rx).len, 4);
}
