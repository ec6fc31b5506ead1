/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a target has to keep for one initiator is bounded, and both count the same: an
 * initiator that asks for more loses its connection, so none may do it by mistake.
 */
#include "unit/proto/rma/onesided_fixture.h"

TestSuite(rma_asked, .init = onesided_setup, .fini = onesided_teardown, .timeout = 20);

/* More operations would cost the connection, if the target finds no room for their FINs. */
Test(rma_asked, operations_wait_while_too_many_are_not_answered)
{
	struct tagrv_peer *peer = the_peer();
	const size_t most = TAGRV_RMA_UNANSWERED_MAX - 1;

	peer->sent += most;
	post(TAGRV_RMA_WRITE, 8, rma_ctx);
	post(TAGRV_RMA_WRITE, 8, rma_ctx + 1);
	post(TAGRV_RMA_ATOMIC, 8, rma_ctx + 2);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	arrive_fin(packet_header(0).op, 0);
	cr_expect_eq(take(&fx.tx).context, rma_ctx);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
	arrive_fin(packet_header(1).op, 0);
	cr_expect_eq(take(&fx.tx).context, rma_ctx + 1);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
	cr_expect_eq(packet_header(2).opcode, TAGRV_PKT_ATOMIC);
	/* What fetches has its own limit. */
	post(TAGRV_RMA_FETCH, 8, rma_ctx + 3);
	cr_expect_eq(fake.log_cnt, 4);
	peer->sent -= most;
}

/* Whoever is to receive them may be waiting for the write. */
Test(rma_asked, no_operation_waits_for_messages)
{
	struct tagrv_peer *peer = the_peer();
	const uint32_t most = 2 * TAGRV_RMA_UNANSWERED_MAX;

	peer->sent += most;
	peer->sent_msgs += most;
	post(TAGRV_RMA_WRITE, 8, rma_ctx);
	cr_expect_eq(fake.log_cnt, 1);
	peer->sent -= most;
	peer->sent_msgs -= most;
}

static char far_mem[1 << 22];		/* memory of the peer */

/* Completes the gets in flight and serves, until the read with this FIN has ended. */
static void finish_one_read(void)
{
	size_t fins = sent(TAGRV_PKT_FIN);

	while (sent(TAGRV_PKT_FIN) == fins) {
		size_t end = fake.log_cnt;

		for (size_t i = 0; i < end && sent(TAGRV_PKT_FIN) == fins; i++)
			if (fake.log[i].kind == FAKE_GET)
				fake_complete(i, 0);
		if (sent(TAGRV_PKT_FIN) == fins)
			tagrv_engine_progress(fx.engine);
	}
}

Test(rma_asked, what_was_lent_counts_until_it_is_returned)
{
	for (size_t i = 0; i < TAGRV_RMA_ASKED_MAX + 2; i++)
		post(TAGRV_RMA_READ, LONG, rma_ctx);
	cr_assert_eq(sent(TAGRV_PKT_GET), TAGRV_RMA_ASKED_MAX);
	for (size_t i = 0; i < TAGRV_RMA_ASKED_MAX; i++)
		arrive_keys(sent_nr(TAGRV_PKT_GET, i, NULL).op, far_mem, LONG, 7);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent(TAGRV_PKT_GET), TAGRV_RMA_ASKED_MAX,
		     "the target has all of it lent");
	finish_one_read();
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent(TAGRV_PKT_GET), TAGRV_RMA_ASKED_MAX + 1);
}

Test(rma_asked, no_request_overtakes_the_return_of_memory)
{
	for (size_t i = 0; i < TAGRV_RMA_ASKED_MAX; i++)
		post(TAGRV_RMA_READ, LONG, rma_ctx);
	arrive_keys(sent_nr(TAGRV_PKT_GET, 0, NULL).op, far_mem, LONG, 7);
	while (in_flight()) {
		/* The FIN finds no room. */
		fake.ctrl_error = -FI_EAGAIN;
		for (size_t i = 0; i < fake.log_cnt; i++)
			if (fake.log[i].kind == FAKE_GET)
				fake_complete(i, 0);
		tagrv_engine_progress(fx.engine);
	}
	cr_assert_eq(take(&fx.tx).err, 0);
	post(TAGRV_RMA_READ, LONG, rma_ctx);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent(TAGRV_PKT_GET), TAGRV_RMA_ASKED_MAX);
	fake.ctrl_error = 0;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent(TAGRV_PKT_FIN), 1);
	cr_assert_eq(sent(TAGRV_PKT_GET), TAGRV_RMA_ASKED_MAX + 1);
}

Test(rma_asked, each_packet_of_a_fetch_counts)
{
	const size_t packets = 3 * TAGRV_RMA_ASKED_MAX;
	uint64_t values[TAGRV_RMA_VALUES_MAX / 8] = { 0 };
	uint32_t handle;

	post(TAGRV_RMA_FETCH, packets * TAGRV_RMA_VALUES_MAX, rma_ctx);
	handle = sent_nr(TAGRV_PKT_ATOMIC, 0, NULL).op;
	for (size_t i = 0; i < packets; i++) {
		tagrv_engine_progress(fx.engine);
		cr_assert_eq(sent(TAGRV_PKT_ATOMIC),
			     TAGRV_MIN(packets, i + TAGRV_RMA_ASKED_MAX));
		expect_empty(&fx.tx);
		arrive_answer(handle, values, sizeof(values));
	}
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(the_peer()->rma.asked, 0);
}

Test(rma_asked, a_failed_operation_is_not_counted_any_more)
{
	post(TAGRV_RMA_FETCH, 8, rma_ctx);
	post(TAGRV_RMA_READ, 8, rma_ctx);
	post(TAGRV_RMA_READ, LONG, rma_ctx);
	post(TAGRV_RMA_WRITE, LONG, rma_ctx);
	cr_assert_eq(the_peer()->rma.asked, 4);
	arrive_fin(sent_nr(TAGRV_PKT_ATOMIC, 0, NULL).op, FI_EACCES);
	arrive_fin(sent_nr(TAGRV_PKT_GET, 0, NULL).op, FI_EACCES);
	arrive_fin(sent_nr(TAGRV_PKT_GET, 1, NULL).op, FI_EACCES);
	arrive_fin(sent_nr(TAGRV_PKT_PULL, 0, NULL).op, FI_EACCES);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(take(&fx.tx).err, FI_EACCES);
	cr_assert_eq(the_peer()->rma.asked, 0);
}

Test(rma_asked, an_answer_that_comes_late_is_ignored)
{
	uint64_t value = 1;

	post(TAGRV_RMA_FETCH, 8, rma_ctx);
	arrive_fin(sent_nr(TAGRV_PKT_ATOMIC, 0, NULL).op, FI_EACCES);
	arrive_answer(sent_nr(TAGRV_PKT_ATOMIC, 0, NULL).op, &value, sizeof(value));
	cr_assert_eq(fake.links, 1);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

Test(rma_asked, a_second_answer_to_one_packet_ends_the_connection)
{
	post(TAGRV_RMA_FETCH, 2 * (size_t) TAGRV_RMA_VALUES_MAX, rma_ctx);
	fake.refuse_all = true;
	for (int i = 0; i < 3; i++)
		arrive_answer(sent_nr(TAGRV_PKT_ATOMIC, 0, NULL).op, NULL, 0);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
}
