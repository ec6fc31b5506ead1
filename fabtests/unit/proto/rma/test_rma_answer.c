/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Answers of a target: which are sent, kept and dropped, and when others have their turn.
 */
#include "unit/proto/rma/onesided_fixture.h"

TestSuite(rma_answer, .init = onesided_setup, .fini = onesided_teardown, .timeout = 20);

static const uint64_t one = 1;

static size_t answered(void)
{
	size_t bytes = 0;

	for (size_t i = 0; i < fake.log_cnt; i++)
		if (fake.log[i].kind == FAKE_SEND &&
		    packet_header(i).opcode == TAGRV_PKT_ANSWER)
			bytes += fake.log[i].len - sizeof(struct tagrv_hdr);
	return bytes;
}

Test(rma_answer, none_comes_behind_the_fin_of_a_failed_operation)
{
	fake.refuse_all = true;
	arrive_atomic(1, TAGRV_RMA_FETCH, FI_SUM, 0, &one, 1, TAGRV_RMA_MORE);
	arrive_atomic(1, TAGRV_RMA_FETCH, FI_SUM, LONG, &one, 1, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent(TAGRV_PKT_ANSWER), 0);
	cr_assert_eq(sent_nr(TAGRV_PKT_FIN, 0, NULL).data, FI_EACCES);
	cr_assert_eq(the_peer()->rma.serving, 0);
	cr_assert_eq(fx.engine->pools.answers.used, 0);
}

Test(rma_answer, those_of_others_stay)
{
	fake.refuse_all = true;
	arrive_atomic(1, TAGRV_RMA_FETCH, FI_SUM, 0, &one, 1, 0);
	arrive_atomic(2, TAGRV_RMA_FETCH, FI_SUM, 0, &one, 1, TAGRV_RMA_MORE);
	arrive_atomic(2, TAGRV_RMA_FETCH, FI_SUM, LONG, &one, 1, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent(TAGRV_PKT_ANSWER), 1);
	cr_assert_eq(sent_nr(TAGRV_PKT_ANSWER, 0, NULL).op, 1);
}

Test(rma_answer, is_not_sent_to_a_peer_that_has_hung_up)
{
	peer_event(TAGRV_WIREUP_GONE, 0);
	arrive_put(1, 0, &one, 8, 0);
	arrive_get(2, 0, 8, 0);
	arrive_get(3, 0, LONG, TAGRV_RMA_KEYS);
	arrive_atomic(4, TAGRV_RMA_FETCH, FI_SUM, 0, &one, 1, 0);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(*(uint64_t *) (void *) open_mem, 2, "what it wrote is received");
	cr_assert_eq(the_peer()->rma.serving, 0);
}

/* The peer is asked whether the connection may be closed; returns the question's number. */
static uint64_t ask_to_part(void)
{
	static struct tagrv_quota quota;
	struct tagrv_wireup_event event = { .type = TAGRV_WIREUP_CROWDED };

	memset(&quota, 0, sizeof(quota));
	tagrv_quota_init(&quota, 1000, 100);
	fake.base.quotas[0] = &quota;
	the_peer()->lane->part.known = true;
	tagrv_engine_wireup_event(fx.engine, &event);
	cr_assert_eq(the_peer()->state, TAGRV_PEER_PARTING);
	return sent_nr(TAGRV_PKT_PART, 0, NULL).data;
}

/* Or the peer, which refuses because of them, would wait for ever. */
Test(rma_answer, requests_that_cross_the_question_whether_to_part_are_answered)
{
	uint64_t nr = ask_to_part();
	size_t packets = fake.log_cnt;

	arrive_get(1, 0, 8, 0);
	arrive_get(2, 0, LONG, TAGRV_RMA_KEYS);
	arrive_atomic(3, TAGRV_RMA_FETCH, FI_SUM, 0, &one, 1, 0);
	arrive_atomic(4, TAGRV_RMA_FETCH, FI_SUM, LONG, &one, 1, 0);
	arrive_put(5, 0, &one, 8, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, packets, "nothing may be behind the question");
	arrive_control(TAGRV_PKT_PART, TAGRV_PKT_PART_REFUSE, nr);
	for (size_t before = 0; answered() < 8 + LONG + 8; before = answered()) {
		tagrv_engine_progress(fx.engine);
		cr_assert_gt(answered(), before);
	}
	cr_assert_eq(sent_nr(TAGRV_PKT_ANSWER, 0, NULL).op, 1);
	cr_assert_eq(sent_nr(TAGRV_PKT_ANSWER, sent(TAGRV_PKT_ANSWER) - 1, NULL).op, 3);
	cr_assert_eq(sent_nr(TAGRV_PKT_FIN, 0, NULL).op, 4);
	cr_assert_eq(the_peer()->rma.serving, 0);
}

Test(rma_answer, longer_than_a_packet_of_the_peer_ends_the_connection)
{
	the_peer()->frag_max = 1024;
	arrive_atomic(1, TAGRV_RMA_FETCH, FI_ATOMIC_READ, 0, NULL, 128, 0);
	cr_assert_eq(sent(TAGRV_PKT_ANSWER), 1);
	arrive_atomic(2, TAGRV_RMA_FETCH, FI_ATOMIC_READ, 0, NULL, 129, 0);
	cr_assert_eq(fake.links, 0);
}

Test(rma_answer, a_long_one_lets_others_have_their_turn)
{
	const size_t turn = TAGRV_PEER_QUANTUM + the_peer()->frag_max;
	size_t before;

	arrive_get(1, 0, LONG, 0);
	cr_assert_leq(answered(), turn);
	while (answered() < LONG) {
		int events;

		before = answered();
		events = tagrv_engine_progress(fx.engine);
		cr_assert(events || answered() == LONG,
			  "nobody may sleep while there is more to send");
		cr_assert_gt(answered(), before);
		cr_assert_leq(answered() - before, turn);
	}
	cr_assert_eq(the_peer()->rma.serving, 0);
	cr_assert_eq(remote_reads.value, 1);
}

/* Each sends something in the call, which finds that the connection has failed. */
static void expect_nothing_is_kept(void)
{
	fake_end_closed();
	cr_assert_eq(fake.links, 0);
	cr_assert(tagrv_list_empty(&the_peer()->rma.answers));
	cr_assert_eq(fx.engine->pools.answers.used, 0);
	cr_assert_eq(fx.engine->pools.uses.used, 0);
	peer_up(true);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(the_peer()->rma.serving, 0);
}

Test(rma_answer, bytes_do_not_go_to_the_next_connection)
{
	fake.dies = true;
	arrive_get(1, 0, 8, 0);
	expect_nothing_is_kept();
}

Test(rma_answer, keys_do_not_go_to_the_next_connection)
{
	fake.dies = true;
	arrive_get(1, 0, LONG, TAGRV_RMA_KEYS);
	expect_nothing_is_kept();
}

Test(rma_answer, former_values_do_not_go_to_the_next_connection)
{
	fake.dies = true;
	arrive_atomic(1, TAGRV_RMA_FETCH, FI_SUM, 0, &one, 1, 0);
	expect_nothing_is_kept();
}

Test(rma_answer, what_waits_does_not_go_to_the_next_connection)
{
	fake.refuse_all = true;
	arrive_get(1, 0, 8, 0);
	arrive_atomic(2, TAGRV_RMA_FETCH, FI_SUM, 0, &one, 1, 0);
	fake.refuse_all = false;
	fake.dies = true;
	tagrv_engine_progress(fx.engine);
	expect_nothing_is_kept();
}
