/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote CQ data that nobody reads: what bounds the queue of the target, and that nothing is
 * lost.
 */
#include "unit/proto/rma/rma_calls.h"

enum { SIZE = 16, MOST = 1024 };	/* of the fixture's queue; unanswered */

/* No more entries than the application has asked for. */
static void setup(void)
{
	window_setup();
	cr_assert_eq(fx.engine->credit.unread, 65536);
	fx.engine->credit.unread = 0;
}

TestSuite(rma_data, .init = setup, .fini = window_teardown, .timeout = 60);

static const uint64_t word = 7;

static void arrive_data(uint32_t op)
{
	arrive_put(op, BASE, &word, sizeof(word), TAGRV_RMA_DATA);
}

/* FINs, also those that share a packet. */
static size_t fins(void)
{
	size_t cnt = 0;

	for (size_t i = 0; i < fake.log_cnt; i++)
		if (fake.log[i].kind == FAKE_SEND &&
		    packet_header(i).opcode == TAGRV_PKT_FIN)
			cnt += 1 + body_len(i) / sizeof(struct tagrv_fin_more);
	return cnt;
}

static void read_entries(size_t cnt)
{
	while (cnt--) {
		struct tagrv_comp comp = take(&fx.rx);

		cr_assert_eq(comp.flags & FI_REMOTE_CQ_DATA, FI_REMOTE_CQ_DATA);
		cr_assert_eq(comp.data, DATA);
	}
}

/* One entry more than the application has asked for is in the queue then. */
static void fill_queue(void)
{
	for (uint32_t i = 1; i <= SIZE; i++)
		arrive_data(i);
	cr_assert_eq(fins(), SIZE);
	arrive_data(SIZE + 1);
	cr_assert_eq(fins(), SIZE, "the queue is full");
}

Test(rma_data, writes_are_answered_when_the_queue_was_read)
{
	fill_queue();
	arrive_data(SIZE + 2);
	serve_all();
	cr_expect_eq(fins(), SIZE);
	cr_expect_eq(the_peer()->rma.held_cnt, 2);
	read_entries(SIZE - 1);
	serve_all();
	cr_expect_eq(fins(), SIZE);
	read_entries(1);
	serve_all();
	cr_expect_eq(fins(), SIZE + 2);
	cr_expect_eq(the_peer()->rma.held_cnt, 0);
	read_entries(2);
	expect_empty(&fx.rx);
	arrive_data(SIZE + 3);
	cr_expect_eq(fins(), SIZE + 3);
	expect_fine();
}

/* Others make no entry, or none that nobody reads. */
Test(rma_data, other_operations_are_answered)
{
	fill_queue();
	arrive_put(100, BASE, &word, sizeof(word), 0);
	cr_expect_eq(fins(), SIZE + 1);
	arrive_put(101, BASE + LEN, &word, sizeof(word), TAGRV_RMA_DATA);
	cr_expect_eq(fins(), SIZE + 2, "it is refused");
	arrive_get(102, BASE, 8, 0);
	cr_expect_eq(packet_header(fake.log_cnt - 1).opcode, TAGRV_PKT_ANSWER);
	arrive_atomic(103, TAGRV_RMA_ATOMIC, FI_SUM, BASE, &word, 1, 0);
	cr_expect_eq(fins(), SIZE + 3);
	expect_fine();
}

static void arrive_pull_with_data(uint32_t op, const void *from)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rma_source pull;
		struct tagrv_rts_seg seg;
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_PULL, .op = htole32(op), .tag = htobe64(KEY),
			 .flags = htole16(TAGRV_RMA_DATA), .data = htole64(DATA) },
		.pull = { .addr = htole64(BASE), .len = htole64(LEN), .seg_cnt = 1,
			  .key_len = 4 },
		.seg = { .addr = htole64((uintptr_t) from), .len = htole64(LEN) },
	};

	fake_deliver(fx.link, &pkt, sizeof(pkt));
}

Test(rma_data, long_writes_and_atomics_are_held_too)
{
	fill_queue();
	arrive_pull_with_data(200, mine);
	cr_assert_gt(end_gets(0), 0);
	cr_expect_eq(memcmp(open_mem, mine, LEN), 0);
	arrive_atomic(201, TAGRV_RMA_ATOMIC, FI_SUM, BASE, &word, 1, TAGRV_RMA_DATA);
	cr_expect_eq(fins(), SIZE);
	cr_expect_eq(the_peer()->rma.held_cnt, 3);
	cr_expect_eq(the_peer()->rma.serving, 0);
	read_entries(SIZE);
	serve_all();
	read_entries(3);
	cr_expect_eq(fins(), SIZE + 3);
}

Test(rma_data, nothing_is_held_without_a_queue)
{
	struct tagrv_engine_sinks sinks = fx.engine->sinks;

	sinks.rx_cq = NULL;
	tagrv_engine_set_sinks(fx.engine, &sinks);
	for (uint32_t i = 1; i <= 2 * SIZE; i++)
		arrive_data(i);
	cr_expect_eq(fins(), 2 * SIZE);
}

/* A peer that has so many writes unanswered breaks the protocol. */
Test(rma_data, more_than_1024_held_are_refused)
{
	fill_queue();
	for (uint32_t i = 1; i < MOST; i++)
		arrive_data(SIZE + 1 + i);
	cr_expect_eq(the_peer()->rma.held_cnt, MOST);
	cr_expect_eq(fx.rx.over_cnt, MOST);
	expect_fine();
	arrive_data(5000);
	expect_given_up();
	cr_expect_eq(the_peer()->rma.held_cnt, 0);
	cr_expect_eq(fx.engine->pools.acks.used, 0);
	peer_up(true);
	arrive_data(5001);
	cr_expect_eq(fake.links, 0, "nor does it help to come again");
	read_entries(SIZE + MOST + 2);
	expect_empty(&fx.rx);
	peer_up(true);
	arrive_data(5002);
	cr_expect_eq(fake.links, 1);
	read_entries(1);
}

Test(rma_data, an_endpoint_that_closes_holds_nothing)
{
	fill_queue();
	fx.dom->params.close_timeout = 10;
	engine_close();
	cr_expect_eq(fins(), SIZE + 1);
	read_entries(SIZE + 1);
}

Test(rma_data, the_next_connection_begins_anew)
{
	fill_queue();
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(fx.engine->pools.acks.used, 0);
	peer_up(true);
	read_entries(SIZE);
	serve_all();
	cr_expect_eq(fins(), SIZE);
	arrive_data(300);
	cr_expect_eq(fins(), SIZE + 1);
	read_entries(2);
}

/* ---- initiator ---- */

static void write_with_data(void *context)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, context);

	req.flags |= FI_REMOTE_CQ_DATA;
	cr_assert_eq(submit_req(&req), 0);
}

Test(rma_data, at_most_1024_writes_are_unanswered)
{
	for (size_t i = 0; i < MOST; i++)
		write_with_data(contexts);
	cr_assert_eq(sent(TAGRV_PKT_PUT), MOST);
	write_with_data(contexts + 1);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts + 2), 0);
	serve_all();
	cr_assert_eq(sent(TAGRV_PKT_PUT), MOST, "the order is kept");
	arrive_fin(packet_header(MOST - 1).op, 0);
	expect_end(contexts, 0);
	serve_all();
	cr_assert_eq(sent(TAGRV_PKT_PUT), MOST + 2);
	cr_expect_eq(the_peer()->rma.data_asked, MOST);
	arrive_fin(packet_header(0).op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	cr_expect_eq(the_peer()->rma.data_asked, MOST - 1);
}

/* Of several packets, all belong to one operation. */
Test(rma_data, an_operation_counts_once)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, LEN, contexts);

	fake.base.attr.caps = 0;
	req.flags |= FI_REMOTE_CQ_DATA;
	cr_assert_eq(submit_req(&req), 0);
	serve_all();
	cr_expect_gt(sent(TAGRV_PKT_PUT), 2);
	cr_expect_eq(the_peer()->rma.data_asked, 1);
	arrive_fin(packet_header(0).op, 0);
	expect_end(contexts, 0);
	cr_expect_eq(the_peer()->rma.data_asked, 0);
	fake.base.attr.caps = TAGRV_XPORT_GET;
	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(sent(TAGRV_PKT_PULL), 1);
	cr_expect_eq(the_peer()->rma.data_asked, 1);
	arrive_fin(packet_header(fake.log_cnt - 1).op, FI_EAGAIN);
	serve_all();
	cr_expect_eq(the_peer()->rma.data_asked, 1);
}
