/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Initiator: one-sided operations from the request to their one end, whatever ends them;
 * completions and counters (object/op_rma.c).
 */
#include "unit/proto/rma/rma_calls.h"

#define PUT	(FRAG - sizeof(struct tagrv_rma_put))

static void setup(void)
{
	window_setup();
	fake.base.attr.caps = 0;
}

TestSuite(rma_op, .init = setup, .fini = window_teardown, .timeout = 20);

static uint64_t errors(struct tagrv_counter *cntr)
{
	return atomic_load(&cntr->err);
}

/* Ends the operation of packet i well. */
static void answer(size_t i, enum tagrv_rma_kind kind)
{
	uint32_t op = packet_header(i).op;

	if (kind == TAGRV_RMA_WRITE || kind == TAGRV_RMA_ATOMIC)
		arrive_fin(op, 0);
	else
		arrive_answer(op, mine, 8);
}

static int submit_kind(enum tagrv_rma_kind kind, void *context)
{
	return kind < TAGRV_RMA_ATOMIC ? submit_rma(kind, 8, context) :
					 submit_atomic(kind, 8, context);
}

/* ---- completions ---- */

Test(rma_op, completions_say_what_ended)
{
	static const uint64_t flags[TAGRV_RMA_KINDS] = {
		FI_RMA | FI_WRITE, FI_RMA | FI_READ, FI_ATOMIC | FI_WRITE,
		FI_ATOMIC | FI_READ, FI_ATOMIC | FI_READ,
	};

	for (unsigned kind = 0; kind < TAGRV_RMA_KINDS; kind++) {
		struct tagrv_comp comp;

		cr_assert_eq(submit_kind(kind, &contexts[kind]), 0);
		answer(kind, kind);
		comp = take(&fx.tx);
		cr_expect_eq(comp.context, &contexts[kind]);
		cr_expect_eq(comp.flags, flags[kind], "kind %u", kind);
		cr_expect_eq(comp.err, 0);
	}
	expect_empty(&fx.tx);
	cr_expect_eq(counted(&writes), 2);
	cr_expect_eq(counted(&reads), 3);
	cr_expect_eq(counted(&fx.tx_cntr), 0, "they are no sends");
}

Test(rma_op, errors_say_what_ended_and_count_as_errors)
{
	for (unsigned kind = 0; kind < TAGRV_RMA_KINDS; kind++) {
		struct tagrv_comp comp;

		cr_assert_eq(submit_kind(kind, &contexts[kind]), 0);
		arrive_fin(packet_header(kind).op, FI_EACCES);
		comp = take(&fx.tx);
		cr_expect_eq(comp.context, &contexts[kind]);
		cr_expect_eq(comp.err, FI_EACCES);
		cr_expect_eq(comp.src, fx.engine->table.peers[0]->fi_addr);
	}
	cr_expect_eq(errors(&writes), 2);
	cr_expect_eq(errors(&reads), 3);
	cr_expect_eq(counted(&writes) + counted(&reads), 0);
	expect_fine();
}

Test(rma_op, success_is_reported_where_that_is_wanted)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, contexts);

	req.flags = 0;
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(submit_req(&req), 0);
	arrive_fin(packet_header(0).op, 0);
	expect_empty(&fx.tx);
	arrive_fin(packet_header(1).op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	cr_expect_eq(counted(&writes), 1);
}

Test(rma_op, injects_have_no_completion)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, NULL);

	req.no_context = true;
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(submit_req(&req), 0);
	arrive_fin(packet_header(0).op, 0);
	arrive_fin(packet_header(1).op, FI_EACCES);
	expect_empty(&fx.tx);
	cr_expect_eq(counted(&writes), 1);
	cr_expect_eq(errors(&writes), 1);
	cr_expect_eq(fx.engine->stats.lost_injects, 1);
}

Test(rma_op, without_queue_and_counters_operations_end_all_the_same)
{
	fx.engine->sinks.tx_cq = NULL;
	fx.engine->sinks.write_cntr = NULL;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	arrive_fin(packet_header(0).op, 0);
	arrive_fin(packet_header(1).op, FI_EACCES);
	expect_empty(&fx.tx);
	cr_expect_eq(fx.engine->pools.tx_ops.used, 0);
}

/* ---- lane failure, in each state ---- */

/* The operation ends with the connection, and a late answer hits nothing. */
static void expect_lost(uint32_t op)
{
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	expect_end(contexts, FI_EHOSTUNREACH);
	cr_expect_eq(fx.engine->pools.tx_ops.used, 0);
	cr_expect_eq(fx.engine->pools.rmas.used, 0);
	cr_expect_eq(the_peer()->sent, 0);
	fake.refuse_all = false;
	peer_up(true);
	if (op) {
		arrive_fin(op, 0);
		cr_expect_eq(fx.engine->stats.bad_packets, 1);
	}
	expect_empty(&fx.tx);
}

Test(rma_op, queued_ends_with_the_connection)
{
	fake.refuse_all = true;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	expect_lost(0);
}

Test(rma_op, half_sent_ends_with_the_connection)
{
	fake.log_max = 1;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 2 * PUT, contexts), 0);
	expect_lost(packet_header(0).op);
}

Test(rma_op, half_answered_ends_with_the_connection)
{
	fake.log_max = 1;
	cr_assert_eq(submit_atomic(TAGRV_RMA_FETCH, 4096, contexts), 0);
	arrive_answer(packet_header(0).op, mine, 2048);
	expect_lost(packet_header(0).op);
}

Test(rma_op, asked_ends_with_the_connection)
{
	for (unsigned kind = 0; kind < TAGRV_RMA_KINDS; kind++) {
		fx.engine->stats.bad_packets = 0;
		cr_assert_eq(submit_kind(kind, contexts), 0);
		expect_lost(packet_header(fake.log_cnt - 1).op);
	}
}

Test(rma_op, one_that_holds_others_back_ends_before_them)
{
	fx.engine->attr.order = FI_ORDER_WAR;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, &contexts[0]), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, &contexts[1]), 0);
	cr_assert_eq(fake.log_cnt, 1);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(take(&fx.tx).context, &contexts[0]);
	cr_expect_eq(take(&fx.tx).context, &contexts[1]);
	expect_empty(&fx.tx);
}

Test(rma_op, a_link_that_fails_in_a_pass_ends_the_operation_once)
{
	fake.log_max = 1;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 3 * PUT, contexts), 0);
	fake.log_max = 0;
	fake.dies = true;
	tagrv_engine_progress(fx.engine);
	fake_end_closed();
	expect_end(contexts, FI_ECONNRESET);
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(fake.log_cnt, 1);
}

Test(rma_op, closing_ends_what_is_left)
{
	fake.log_max = 2;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 3 * PUT, contexts), 0);
	engine_close();
	expect_empty(&fx.tx);
	cr_expect_eq(fake.links, 0);
}

/* A read that held back others was the last of the queue: messages go by the short way again. */
Test(rma_op, the_short_way_opens_behind_what_held_back_others)
{
	fx.engine->attr.order = FI_ORDER_WAR;
	fake.base.attr.tagged_short = 9;
	tagrv_peer_open_plain(the_peer());
	cr_assert_neq(the_peer()->plain_end, 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_assert_eq(the_peer()->plain_end, 0);
	answer(0, TAGRV_RMA_READ);
	cr_expect_neq(the_peer()->plain_end, 0);
	expect_end(contexts, 0);
}

/* ---- FI_FENCE ---- */

static struct tagrv_rma_req fenced(size_t len, void *context)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, len, context);

	req.flags |= FI_FENCE;
	return req;
}

Test(rma_op, a_fence_waits_for_all_kinds_and_for_messages)
{
	struct tagrv_rma_req req;

	for (unsigned kind = 0; kind < TAGRV_RMA_KINDS; kind++)
		cr_assert_eq(submit_kind(kind, &contexts[kind]), 0);
	cr_assert_eq(submit_send("x", 1, 4, &contexts[5], FI_DELIVERY_COMPLETE), 0);
	req = fenced(8, &contexts[6]);
	cr_assert_eq(submit_req(&req), 0);
	for (unsigned kind = 0; kind < TAGRV_RMA_KINDS; kind++) {
		answer(kind, kind);
		tagrv_engine_progress(fx.engine);
		cr_assert_eq(fake.log_cnt, 6);
	}
	arrive_fin(packet_header(5).op, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 7);
	arrive_fin(packet_header(6).op, 0);
	for (int i = 0; i < 7; i++)
		cr_expect_eq(take(&fx.tx).context, &contexts[i]);
}

Test(rma_op, a_fence_of_several_packets_waits_once)
{
	struct tagrv_rma_req req = fenced(3 * PUT, &contexts[0]);

	fake.log_max = 1;
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(fake.log_cnt, 1);
	fake.log_max = 0;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
}

Test(rma_op, a_fence_holds_back_what_follows)
{
	struct tagrv_rma_req req;

	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, &contexts[0]), 0);
	req = fenced(8, &contexts[1]);
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(submit_send("x", 1, 4, &contexts[2], 0), 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	answer(0, TAGRV_RMA_READ);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
}

/* A message with FI_FENCE waits for one-sided operations, too. */
Test(rma_op, a_fenced_message_waits_for_a_write)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, &contexts[0]), 0);
	cr_assert_eq(submit_send("x", 1, 4, &contexts[1], FI_FENCE), 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	answer(0, TAGRV_RMA_WRITE);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
}
