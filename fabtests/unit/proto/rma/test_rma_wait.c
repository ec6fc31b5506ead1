/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Initiator: ANSWERs and FINs that come, right and wrong ones; what waits for what.
 */
#include "unit/proto/rma/rma_calls.h"

#define PUT	(FRAG - sizeof(struct tagrv_rma_put))	/* most bytes of a PUT */
#define VALUES	((size_t) TAGRV_RMA_VALUES_MAX)

/* Without remote reads all goes by packets. */
static void setup(void)
{
	window_setup();
	fake.base.attr.caps = 0;
}

TestSuite(rma_wait, .init = setup, .fini = window_teardown, .timeout = 20);

/* ---- ANSWERs ---- */

/* It may be late: its operation may have failed by a FIN. */
static void ignore_answer(uint32_t op, size_t len)
{
	uint64_t refused = fx.engine->stats.bad_packets;

	arrive_answer(op, mine, len);
	cr_expect_eq(fx.engine->stats.bad_packets, refused + 1);
	cr_expect_eq(fake.links, 1);
	expect_empty(&fx.tx);
}

Test(rma_wait, an_answer_that_nobody_awaits_is_ignored)
{
	ignore_answer(12345, 8);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, &contexts[0]), 0);
	ignore_answer(packet_header(0).op, 8);
	cr_assert_eq(submit_send("x", 1, 4, &contexts[1], FI_DELIVERY_COMPLETE), 0);
	ignore_answer(packet_header(1).op, 1);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, &contexts[2]), 0);
	arrive_answer(packet_header(2).op, mine, 8);
	expect_end(&contexts[2], 0);
	ignore_answer(packet_header(2).op, 0);
	arrive_fin(packet_header(0).op, 0);
	expect_end(&contexts[0], 0);
	arrive_fin(packet_header(1).op, 0);
	expect_end(&contexts[1], 0);
}

/* Nothing of it has left. */
Test(rma_wait, an_answer_to_a_queued_operation_is_ignored)
{
	const struct tagrv_list *first;

	fake.refuse_all = true;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	first = tagrv_list_first(&the_peer()->pending);
	ignore_answer(tagrv_container_of(first, struct tagrv_op, link)->node.handle, 0);
}

Test(rma_wait, more_bytes_than_were_asked_for_are_refused)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	arrive_answer(packet_header(0).op, mine, 5);
	arrive_answer(packet_header(0).op, mine, 4);
	expect_given_up();
	expect_end(contexts, FI_EREMOTEIO);
	cr_expect_eq(read_to[5], 0);
}

/* Former values of elements that no ATOMIC has named so far. */
Test(rma_wait, an_answer_before_its_atomic_is_refused)
{
	fake.log_max = 1;
	cr_assert_eq(submit_atomic(TAGRV_RMA_FETCH, 3 * VALUES, contexts), 0);
	arrive_answer(packet_header(0).op, mine, VALUES + 1);
	expect_given_up();
	expect_end(contexts, FI_EREMOTEIO);
}

/* A part of the operation fails: each packet is answered nevertheless. */
Test(rma_wait, a_long_fetch_goes_on_to_its_fin_behind_an_error)
{
	const size_t packets = 3 * TAGRV_RMA_ASKED_MAX;
	uint32_t op;

	cr_assert_eq(submit_atomic(TAGRV_RMA_FETCH, 8 * packets, contexts), 0);
	op = packet_header(0).op;
	cr_assert_eq(fake.log_cnt, 1, "one packet has room for all");
	arrive_fin(op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	the_peer()->frag_max = 8 + sizeof(struct tagrv_rma_atomic);
	cr_assert_eq(submit_atomic(TAGRV_RMA_FETCH, 8 * packets, contexts), 0);
	op = packet_header(1).op;
	cr_assert_eq(fake.log_cnt, 1 + TAGRV_RMA_ASKED_MAX);
	for (size_t i = 0; i < packets - 1; i++) {
		arrive_answer(op, mine, i ? 0 : 8);
		tagrv_engine_progress(fx.engine);
	}
	cr_assert_eq(fake.log_cnt, 1 + packets);
	expect_empty(&fx.tx);
	arrive_fin(op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	cr_expect_eq(the_peer()->rma.asked, 0);
	expect_fine();
}

/* ---- FINs ---- */

Test(rma_wait, a_fin_ends_a_read_with_its_error_only)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	arrive_fin(packet_header(0).op, 0);
	cr_expect_eq(fx.engine->stats.bad_packets, 1, "it has no bytes");
	expect_empty(&fx.tx);
	arrive_answer(packet_header(0).op, mine, 3);
	arrive_fin(packet_header(0).op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	cr_expect_eq(fake.links, 1);
}

Test(rma_wait, a_fin_before_the_last_packet_is_ignored)
{
	fake.log_max = 1;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 2 * PUT, contexts), 0);
	arrive_fin(packet_header(0).op, 0);
	cr_expect_eq(fx.engine->stats.bad_packets, 1);
	expect_empty(&fx.tx);
	fake.log_max = 0;
	tagrv_engine_progress(fx.engine);
	arrive_fin(packet_header(0).op, 0);
	expect_end(contexts, 0);
}

/* ---- order, limits ---- */

static size_t sent_after_progress(void)
{
	tagrv_engine_progress(fx.engine);
	return fake.log_cnt;
}

/* Reads hold back all that comes later, where that was asked for. */
static void expect_reads_hold(uint64_t order, bool hold)
{
	fx.engine->attr.order = order;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, &contexts[0]), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, &contexts[1]), 0);
	cr_assert_eq(submit_send("x", 1, 4, &contexts[2], 0), 0);
	cr_assert_eq(sent_after_progress(), hold ? 1 : 3);
	arrive_answer(packet_header(0).op, mine, 8);
	cr_assert_eq(sent_after_progress(), 3);
	cr_expect_eq(packet_header(1).opcode, TAGRV_PKT_PUT);
	cr_expect_eq(packet_header(2).opcode, TAGRV_PKT_EAGER);
	arrive_fin(packet_header(1).op, 0);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(take(&fx.tx).err, 0);
	expect_empty(&fx.tx);
}

Test(rma_wait, writes_wait_for_reads_if_that_was_asked_for)
{
	expect_reads_hold(FI_ORDER_WAR, true);
}

Test(rma_wait, sends_wait_for_reads_if_that_was_asked_for)
{
	expect_reads_hold(FI_ORDER_SAR, true);
}

/* A later one may be an atomic that changes what it fetches. */
Test(rma_wait, reads_wait_for_reads_if_that_was_asked_for)
{
	expect_reads_hold(FI_ORDER_RAR, true);
}

Test(rma_wait, fi_order_rma_war_is_as_good)
{
	expect_reads_hold(FI_ORDER_RMA_WAR, true);
}

Test(rma_wait, nothing_waits_for_reads_otherwise)
{
	expect_reads_hold(FI_ORDER_SAS | FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAW,
			  false);
}

/* By packets a write is in order with all that comes later. */
Test(rma_wait, writes_in_packets_hold_nothing_back)
{
	fx.engine->attr.order = FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAW;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 3 * PUT, contexts), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_assert_eq(submit_send("x", 1, 4, contexts, 0), 0);
	cr_expect_eq(fake.log_cnt, 5);
	expect_end(contexts, 0);
}

/* The target keeps nothing of these. */
Test(rma_wait, any_number_of_writes_awaits_a_fin)
{
	for (int i = 0; i < 100; i++) {
		cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, &contexts[i]), 0);
		cr_assert_eq(submit_atomic(TAGRV_RMA_ATOMIC, 8, &contexts[i]), 0);
	}
	cr_expect_eq(fake.log_cnt, 200);
	cr_expect_eq(fx.engine->table.peers[0]->rma.asked, 0);
	fake_break_link(fx.link, -FI_EIO);
	for (int i = 0; i < 200; i++)
		cr_expect_eq(take(&fx.tx).err, FI_EIO);
	expect_empty(&fx.tx);
}
