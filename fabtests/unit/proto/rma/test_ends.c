/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ends of connections: each operation of this side ends once, and what a peer did before it
 * hung up is done.
 */
#include "unit/proto/rma/onesided_fixture.h"

TestSuite(rma_ends, .init = onesided_setup, .fini = onesided_teardown, .timeout = 20);

static void expect_one_failure(void)
{
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	expect_empty(&fx.tx);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
	cr_assert_eq(fx.engine->pools.rmas.used, 0);
	cr_assert_eq(fake.regs, 0);
	cr_assert_eq(the_peer()->sent, 0);
}

/* The call that posts the operation finds that the connection has failed. */
Test(rma_ends, operation_that_finds_its_connection_failed_ends_once)
{
	for (int kind = 0; kind < TAGRV_RMA_KINDS; kind++) {
		fake.dies = true;
		post(kind, 8, rma_ctx);
		fake_end_closed();
		expect_one_failure();
		peer_up(true);
	}
	fake.dies = true;
	post(TAGRV_RMA_WRITE, LONG, rma_ctx);
	fake_end_closed();
	expect_one_failure();
}

Test(rma_ends, injected_write_that_finds_its_connection_failed_is_accepted)
{
	struct tagrv_rma_req req = rma_req(TAGRV_RMA_WRITE, 8, NULL);

	req.no_context = true;
	req.flags = FI_INJECT;
	fake.dies = true;
	cr_assert_eq(submit(&req), 0);
	fake_end_closed();
	expect_empty(&fx.tx);
	cr_assert_eq(writes.err, 1);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
}

/* Of all states: queued, asked, being read. */
Test(rma_ends, each_operation_ends_once_with_its_connection)
{
	static char far_mem[LONG];

	post(TAGRV_RMA_READ, LONG, rma_ctx);
	arrive_keys(sent_nr(TAGRV_PKT_GET, 0, NULL).op, far_mem, LONG, 7);
	cr_assert_gt(in_flight(), 0);
	post(TAGRV_RMA_WRITE, 8, rma_ctx);
	post(TAGRV_RMA_FETCH, 8, rma_ctx);
	post(TAGRV_RMA_WRITE, LONG, rma_ctx);
	fake.refuse_all = true;
	post(TAGRV_RMA_COMPARE, 8, rma_ctx);
	fake.refuse_all = false;
	tagrv_lane_fail(the_peer()->lane, -FI_ECONNRESET, false);
	fake_end_closed();
	for (int i = 0; i < 4; i++)
		cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	expect_one_failure();
}

/* Reads of the former connection end when another one has taken its place. */
Test(rma_ends, late_reads_are_not_counted_at_the_next_connection)
{
	static char far_mem[LONG];

	post(TAGRV_RMA_READ, LONG, rma_ctx);
	arrive_keys(sent_nr(TAGRV_PKT_GET, 0, NULL).op, far_mem, LONG, 7);
	arrive_pull(1, 0, LONG, far_mem);
	fake.hold_closed = true;
	tagrv_lane_fail(the_peer()->lane, -FI_ECONNRESET, false);
	peer_up(true);
	post(TAGRV_RMA_READ, 8, &rma_ctx[1]);
	cr_assert_eq(the_peer()->rma.asked, 1);
	fake_close_held();
	cr_assert_eq(the_peer()->rma.asked, 1);
	cr_assert_eq(the_peer()->rma.serving, 0);
	cr_assert_eq(the_peer()->rma.uses, 0);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	arrive_answer(sent_nr(TAGRV_PKT_GET, 1, NULL).op, mine, 8);
	cr_assert_eq(take(&fx.tx).context, &rma_ctx[1]);
	cr_assert_eq(sent(TAGRV_PKT_FIN), 0);
}

Test(rma_ends, what_a_peer_wrote_before_it_hung_up_is_written)
{
	peer_event(TAGRV_WIREUP_GONE, 0);
	for (uint64_t i = 1; i < 4 * TAGRV_DRAIN_PASSES; i++) {
		uint64_t value;

		arrive_put(1, 0, &i, sizeof(i), 0);
		memcpy(&value, open_mem, sizeof(value));
		cr_assert_eq(value, i);
		fake.events = 1;
		tagrv_engine_progress(fx.engine);
	}
	fake.events = 0;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.links, 1, "ends with the next pass");
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.links, 0);
}

/* Its connection ends, not those of others for want of memory. */
Test(rma_ends, peer_that_takes_no_fins_is_given_up)
{
	const uint64_t value = 1;
	size_t cnt = 0;

	fake.refuse_all = true;
	while (fake.links) {
		cr_assert_lt(cnt++, TAGRV_POOL_MAX / 2);
		arrive_put(1, 0, &value, sizeof(value), 0);
	}
	cr_assert_eq(the_peer()->ack_cnt, 0);
	cr_assert_eq(fx.engine->pools.acks.used, 0);
}
