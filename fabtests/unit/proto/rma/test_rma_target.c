/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Target: writes and atomics of a peer; what is allowed, what is refused, and what the
 * application is told.
 */
#include "unit/proto/rma/rma_calls.h"

TestSuite(target, .init = window_setup, .fini = window_teardown, .timeout = 20);

static const char zeros[64];

/* The window is as it was, and the peer knows that its operation failed. */
static void expect_refused_op(uint32_t op)
{
	expect_fin(fake.log_cnt - 1, op, FI_EACCES);
	for (size_t i = 0; i < LEN; i++)
		cr_assert_eq(open_mem[i], 0, "byte %zu", i);
	cr_expect_eq(counted(&remote_writes), 0);
	cr_expect_eq(counted(&was_written), 0);
	expect_fine();
}

/* ---- writes ---- */

Test(target, a_write_is_copied_and_answered)
{
	arrive_put(PEER_OP, BASE + 10, mine, 100, 0);
	expect_fin(0, PEER_OP, 0);
	cr_expect_arr_eq(open_mem + 10, mine, 100);
	cr_expect_eq(open_mem[9], 0);
	cr_expect_eq(open_mem[110], 0);
	cr_expect_eq(counted(&remote_writes), 1);
	cr_expect_eq(counted(&was_written), 1);
	cr_expect_eq(counted(&remote_reads), 0);
	expect_served(TAGRV_RMA_WRITE, 1, 100);
	expect_empty(&fx.rx);
}

Test(target, only_the_last_packet_is_answered_and_counted)
{
	arrive_put(PEER_OP, BASE, mine, 100, TAGRV_RMA_MORE);
	arrive_put(PEER_OP, BASE + 100, mine + 100, 100, TAGRV_RMA_MORE);
	cr_expect_eq(fake.log_cnt, 0);
	cr_expect_eq(counted(&remote_writes), 0);
	arrive_put(PEER_OP, BASE + 200, mine + 200, 100, 0);
	expect_fin(0, PEER_OP, 0);
	cr_expect_arr_eq(open_mem, mine, 300);
	cr_expect_eq(counted(&remote_writes), 1);
	expect_served(TAGRV_RMA_WRITE, 1, 300);
}

Test(target, bytes_of_a_window_of_several_segments)
{
	window.iov_cnt = 3;
	window.iov[0] = (struct iovec) { open_mem, 10 };
	window.iov[1] = (struct iovec) { NULL, 0 };
	window.iov[2] = (struct iovec) { open_mem + 50, 40 };
	window.len = 50;
	arrive_put(PEER_OP, BASE + 5, mine, 20, 0);
	expect_fin(0, PEER_OP, 0);
	cr_expect_arr_eq(open_mem + 5, mine, 5);
	cr_expect_arr_eq(open_mem + 50, mine + 5, 15);
	cr_expect_arr_eq(open_mem + 10, zeros, 40);
}

Test(target, a_write_to_the_end_and_an_empty_one_behind_it)
{
	arrive_put(1, BASE + LEN - 8, mine, 8, 0);
	expect_fin(0, 1, 0);
	arrive_put(2, BASE + LEN, mine, 0, 0);
	expect_fin(1, 2, 0);
	cr_expect_arr_eq(open_mem + LEN - 8, mine, 8);
}

/* In a progress pass FINs wait for each other. */
Test(target, fins_share_a_packet)
{
	struct {
		struct tagrv_hdr hdr;
		uint64_t addr;
	} pkt = { .hdr.opcode = TAGRV_PKT_PUT, .hdr.tag = htobe64(KEY) };

	pkt.addr = htole64(BASE);
	for (uint32_t i = 1; i <= 3; i++) {
		pkt.hdr.op = htole32(i);
		fake_queue(fx.link, &pkt, sizeof(pkt));
	}
	for (int i = 0; i < 3; i++)
		tagrv_engine_progress(fx.engine);
	cr_expect_eq(fx.engine->stats.fin_tx, 3);
}

Test(target, a_fin_without_room_is_sent_later)
{
	fake.refuse_all = true;
	arrive_put(PEER_OP, BASE, mine, 8, 0);
	cr_expect_eq(fake.log_cnt, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	expect_fin(0, PEER_OP, 0);
}

/* ---- remote CQ data ---- */

Test(target, data_are_reported_with_the_length_of_the_whole)
{
	struct tagrv_comp comp;

	arrive_put(PEER_OP, BASE, mine, 100, TAGRV_RMA_MORE | TAGRV_RMA_DATA);
	expect_empty(&fx.rx);
	arrive_put(PEER_OP, BASE + 100, mine, 50, TAGRV_RMA_DATA);
	comp = take(&fx.rx);
	cr_expect_eq(comp.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	cr_expect_eq(comp.len, 150);
	cr_expect_eq(comp.data, DATA);
	cr_expect_eq(comp.src, fx.peer_addr);
	cr_expect_null(comp.context);
	cr_expect_eq(comp.err, 0);
	expect_empty(&fx.rx);
	arrive_put(PEER_OP, BASE, mine, 7, TAGRV_RMA_DATA);
	cr_expect_eq(take(&fx.rx).len, 7, "it does not count on");
}

Test(target, data_of_an_atomic)
{
	struct tagrv_comp comp;

	arrive_atomic(PEER_OP, TAGRV_RMA_ATOMIC, FI_SUM, BASE, mine, 2, TAGRV_RMA_DATA);
	comp = take(&fx.rx);
	cr_expect_eq(comp.flags, FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	cr_expect_eq(comp.len, 16);
	cr_expect_eq(comp.data, DATA);
}

Test(target, an_endpoint_that_asked_for_no_sources_reports_none)
{
	fx.engine->attr.source = false;
	arrive_put(PEER_OP, BASE, mine, 7, TAGRV_RMA_DATA);
	cr_expect_eq(take(&fx.rx).src, FI_ADDR_NOTAVAIL);
}

Test(target, without_a_queue_data_are_dropped)
{
	fx.engine->sinks.rx_cq = NULL;
	arrive_put(PEER_OP, BASE, mine, 7, TAGRV_RMA_DATA);
	expect_fin(0, PEER_OP, 0);
	expect_empty(&fx.rx);
	cr_expect_eq(counted(&remote_writes), 1);
}

Test(target, without_counters_operations_end_all_the_same)
{
	fx.engine->sinks.remote_write_cntr = NULL;
	window.write_cntr = NULL;
	arrive_put(PEER_OP, BASE, mine, 7, 0);
	expect_fin(0, PEER_OP, 0);
}

Test(target, data_of_a_refused_write_are_not_reported)
{
	arrive_put(PEER_OP, BASE + LEN, mine, 1, TAGRV_RMA_DATA);
	expect_refused_op(PEER_OP);
	expect_empty(&fx.rx);
}

/* ---- refused ---- */

Test(target, no_byte_is_written_beyond_the_bounds)
{
	static const struct { uint64_t addr; size_t len; } wrong[] = {
		{ BASE + LEN - 7, 8 }, { BASE + LEN, 1 }, { BASE - 1, 2 },
		{ 0, 8 }, { UINT64_MAX, 8 }, { UINT64_MAX - 7, 8 },
		{ BASE + LEN + 1, 0 },
	};

	for (uint32_t i = 0; i < TAGRV_ARRAY_SIZE(wrong); i++) {
		arrive_put(i + 1, wrong[i].addr, mine, wrong[i].len, 0);
		expect_refused_op(i + 1);
	}
	cr_expect_eq(fx.engine->stats.rma_refused, TAGRV_ARRAY_SIZE(wrong));
}

Test(target, a_wrong_key_is_refused)
{
	window.key++;
	arrive_put(PEER_OP, BASE, mine, 8, 0);
	expect_refused_op(PEER_OP);
	window.key--;
}

Test(target, a_window_without_the_right_is_refused)
{
	window.access = FI_REMOTE_READ;
	arrive_put(1, BASE, mine, 8, 0);
	expect_refused_op(1);
	arrive_atomic(2, TAGRV_RMA_ATOMIC, FI_SUM, BASE, mine, 1, 0);
	expect_refused_op(2);
	arrive_atomic(3, TAGRV_RMA_FETCH, FI_SUM, BASE, mine, 1, 0);
	expect_refused_op(3);
	arrive_atomic(4, TAGRV_RMA_FETCH, FI_ATOMIC_READ, BASE, NULL, 1, 0);
	cr_expect_eq(packet_header(fake.log_cnt - 1).opcode, TAGRV_PKT_ANSWER);
}

/* What is fetched is read. */
Test(target, a_window_that_cannot_be_read_fetches_nothing)
{
	window.access = FI_REMOTE_WRITE;
	arrive_atomic(1, TAGRV_RMA_FETCH, FI_SUM, BASE, mine, 1, 0);
	expect_refused_op(1);
	arrive_atomic(2, TAGRV_RMA_COMPARE, FI_CSWAP, BASE, zeros, 1, 0);
	expect_refused_op(2);
	arrive_atomic(3, TAGRV_RMA_FETCH, FI_ATOMIC_READ, BASE, NULL, 1, 0);
	expect_refused_op(3);
	arrive_atomic(4, TAGRV_RMA_ATOMIC, FI_SUM, BASE, mine, 1, 0);
	expect_fin(fake.log_cnt - 1, 4, 0);
}

Test(target, an_endpoint_that_serves_no_peers_refuses)
{
	fx.engine->attr.serves = FI_REMOTE_READ;
	arrive_put(1, BASE, mine, 8, 0);
	expect_refused_op(1);
	fx.engine->attr.serves = 0;
	arrive_atomic(2, TAGRV_RMA_ATOMIC, FI_SUM, BASE, mine, 1, 0);
	expect_refused_op(2);
}

Test(target, a_window_of_another_endpoint_is_refused)
{
	window.engine = (const struct tagrv_engine *) &read_to;
	arrive_put(1, BASE, mine, 8, 0);
	expect_refused_op(1);
	window.engine = fx.engine;
	arrive_put(2, BASE, mine, 8, 0);
	expect_fin(1, 2, 0);
}

Test(target, a_window_that_is_not_enabled_is_refused)
{
	window.enabled = false;
	arrive_put(PEER_OP, BASE, mine, 8, 0);
	expect_refused_op(PEER_OP);
}

/* ---- several packets ---- */

Test(target, the_first_error_of_an_operation_is_its_end)
{
	arrive_put(PEER_OP, BASE + LEN, mine, 8, TAGRV_RMA_MORE);
	cr_expect_eq(fake.log_cnt, 0);
	arrive_put(PEER_OP, BASE, mine, 8, TAGRV_RMA_MORE);
	arrive_put(PEER_OP, BASE + 8, mine, 8, 0);
	expect_refused_op(PEER_OP);
	cr_expect_eq(fx.engine->stats.rma_refused, 1);
	expect_served(TAGRV_RMA_WRITE, 0, 0);
}

Test(target, an_error_is_forgotten_with_its_operation)
{
	arrive_put(1, BASE + LEN, mine, 8, TAGRV_RMA_MORE);
	arrive_put(1, BASE, mine, 8, 0);
	expect_fin(0, 1, FI_EACCES);
	arrive_put(1, BASE, mine, 8, TAGRV_RMA_MORE);
	arrive_put(1, BASE + 8, mine, 8, 0);
	expect_fin(1, 1, 0);
}

/* Its initiator gave it up. */
Test(target, an_operation_without_last_packet_ends_with_the_next_one)
{
	arrive_put(1, BASE + LEN, mine, 8, TAGRV_RMA_MORE);
	arrive_put(2, BASE, mine, 8, TAGRV_RMA_DATA);
	expect_fin(0, 2, 0);
	cr_expect_eq(take(&fx.rx).len, 8);
}

Test(target, an_operation_does_not_go_on_by_the_next_connection)
{
	arrive_put(1, BASE + LEN, mine, 8, TAGRV_RMA_MORE);
	fake_break_link(fx.link, -FI_EIO);
	peer_up(true);
	arrive_put(1, BASE, mine, 8, 0);
	expect_fin(0, 1, 0);
}

/* ---- atomics ---- */

static uint64_t value(size_t i)
{
	uint64_t value;

	memcpy(&value, open_mem + 8 * i, sizeof(value));
	return value;
}

static void set_value(size_t i, uint64_t value)
{
	memcpy(open_mem + 8 * i, &value, sizeof(value));
}

Test(target, an_atomic_changes_each_element)
{
	const uint64_t operands[2] = { 5, 7 };

	set_value(1, 100);
	set_value(2, 200);
	set_value(3, 300);
	arrive_atomic(PEER_OP, TAGRV_RMA_ATOMIC, FI_SUM, BASE + 8, operands, 2, 0);
	expect_fin(0, PEER_OP, 0);
	cr_expect_eq(value(0), 0);
	cr_expect_eq(value(1), 105);
	cr_expect_eq(value(2), 207);
	cr_expect_eq(value(3), 300);
	cr_expect_eq(counted(&remote_writes), 1);
	cr_expect_eq(counted(&was_written), 1);
	cr_expect_eq(counted(&remote_reads), 0);
	expect_served(TAGRV_RMA_ATOMIC, 1, 16);
	expect_served(TAGRV_RMA_WRITE, 0, 0);
}

/* Packet i is an ANSWER of the peer's operation with one value. */
static void expect_value(size_t i, uint64_t value)
{
	struct tagrv_hdr hdr = packet_header(i);

	cr_assert_eq(hdr.opcode, TAGRV_PKT_ANSWER);
	cr_expect_eq(hdr.op, PEER_OP);
	cr_expect_eq(hdr.tag, 0);
	cr_expect_eq(hdr.flags, 0);
	cr_assert_eq(body_len(i), 8);
	cr_expect_eq(word_of(i, 0), value);
}

Test(target, a_fetch_answers_with_the_former_value)
{
	const uint64_t operand = 5;

	set_value(0, 100);
	arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_SUM, BASE, &operand, 1, 0);
	cr_assert_eq(fake.log_cnt, 1);
	expect_value(0, 100);
	cr_expect_eq(value(0), 105);
	cr_expect_eq(counted(&remote_reads), 1, "it returned something");
}

Test(target, a_compare_changes_what_is_equal)
{
	const uint64_t words[4] = { 5, 7, 100, 100 };

	set_value(0, 100);
	set_value(1, 200);
	arrive_atomic(PEER_OP, TAGRV_RMA_COMPARE, FI_CSWAP, BASE, words, 2, 0);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(body_len(0), 16);
	cr_expect_eq(word_of(0, 0), 100);
	cr_expect_eq(word_of(0, 8), 200);
	cr_expect_eq(value(0), 5);
	cr_expect_eq(value(1), 200);
	expect_served(TAGRV_RMA_ATOMIC, 1, 16);
	expect_served(TAGRV_RMA_READ, 0, 0);
}

Test(target, an_atomic_read_counts_as_a_read)
{
	set_value(0, 100);
	arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_ATOMIC_READ, BASE, NULL, 1, 0);
	expect_value(0, 100);
	cr_expect_eq(counted(&remote_reads), 1);
	cr_expect_eq(counted(&was_read), 1);
	cr_expect_eq(counted(&remote_writes), 0);
}

/* Elements that lie in two or more segments, between others that do not. */
Test(target, elements_may_lie_in_several_segments)
{
	const uint64_t operands[4] = { 1, 2, 3, 4 };
	const uint64_t before[4] = { 0x0807060504030201, 20, 30, 40 };
	static const size_t ends[4] = { 11, 13, 26, 32 };
	char bytes[32];
	size_t at = 0;

	for (unsigned i = 0; i < 4; i++) {
		window.iov[i] = (struct iovec) {
			open_mem + 100 * i, ends[i] - at,
		};
		memcpy(open_mem + 100 * i, (const char *) before + at, ends[i] - at);
		at = ends[i];
	}
	window.iov_cnt = 4;
	window.len = 32;
	arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_SUM, BASE, operands, 4, 0);
	cr_assert_eq(body_len(0), 32);
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(word_of(0, 8 * i), before[i]);
	at = 0;
	for (unsigned i = 0; i < 4; i++) {
		memcpy(bytes + at, open_mem + 100 * i, ends[i] - at);
		at = ends[i];
	}
	for (size_t i = 0; i < 4; i++) {
		uint64_t now;

		memcpy(&now, bytes + 8 * i, 8);
		cr_expect_eq(now, before[i] + operands[i], "element %zu", i);
	}
}

Test(target, elements_need_not_be_aligned)
{
	const uint64_t operand = 1;

	arrive_atomic(PEER_OP, TAGRV_RMA_ATOMIC, FI_SUM, BASE + 3, &operand, 1, 0);
	expect_fin(0, PEER_OP, 0);
	cr_expect_eq(open_mem[3], 1);
}

Test(target, an_empty_atomic_is_answered)
{
	arrive_atomic(1, TAGRV_RMA_ATOMIC, FI_SUM, BASE, NULL, 0, 0);
	expect_fin(0, 1, 0);
	arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_SUM, BASE, NULL, 0, 0);
	cr_expect_eq(packet_header(1).opcode, TAGRV_PKT_ANSWER);
	cr_expect_eq(body_len(1), 0);
}

/* The initiator has only so many packets unanswered, and none may be lost for it. */
Test(target, behind_an_error_answers_are_empty)
{
	const uint64_t operand = 5;

	for (unsigned i = 0; i < 3; i++)
		arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_SUM, i == 1 ? BASE + LEN : BASE,
			      &operand, 1, TAGRV_RMA_MORE);
	cr_assert_eq(fake.log_cnt, 3);
	expect_value(0, 0);
	for (size_t i = 1; i < 3; i++) {
		cr_expect_eq(packet_header(i).opcode, TAGRV_PKT_ANSWER);
		cr_expect_eq(body_len(i), 0);
	}
	arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_SUM, BASE, &operand, 1, 0);
	expect_fin(3, PEER_OP, FI_EACCES);
	cr_expect_eq(value(0), 5);
	cr_expect_eq(counted(&remote_reads), 0);
}

Test(target, empty_answers_wait_for_room)
{
	const uint64_t operand = 5;

	fake.refuse_all = true;
	arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_SUM, BASE + LEN, &operand, 1,
		      TAGRV_RMA_MORE);
	cr_expect_eq(the_peer()->rma.serving, 1);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	cr_expect_eq(packet_header(0).opcode, TAGRV_PKT_ANSWER);
	cr_expect_eq(body_len(0), 0);
	cr_expect_eq(the_peer()->rma.serving, 0);
}

Test(target, atomics_of_several_packets)
{
	const uint64_t operand = 1;

	arrive_atomic(PEER_OP, TAGRV_RMA_ATOMIC, FI_SUM, BASE, &operand, 1, TAGRV_RMA_MORE | TAGRV_RMA_DATA);
	cr_expect_eq(fake.log_cnt, 0);
	arrive_atomic(PEER_OP, TAGRV_RMA_ATOMIC, FI_SUM, BASE + 8, &operand, 1, TAGRV_RMA_DATA);
	expect_fin(0, PEER_OP, 0);
	cr_expect_eq(value(0), 1);
	cr_expect_eq(value(1), 1);
	cr_expect_eq(take(&fx.rx).len, 16);
	cr_expect_eq(counted(&remote_writes), 1);
}
