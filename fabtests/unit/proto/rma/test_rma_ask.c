/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Initiator: packets of writes, reads and atomics, byte by byte; how they are split; what
 * waits for what; ANSWERs.
 */
#include "unit/proto/rma/rma_calls.h"

#define PUT	(FRAG - sizeof(struct tagrv_rma_put))	/* most bytes of a PUT */
#define VALUES	((size_t) 2048)		/* most bytes that one ATOMIC changes */

/* Without remote reads all goes by packets. */
static void setup(void)
{
	window_setup();
	fake.base.attr.caps = 0;
}

TestSuite(rma_ask, .init = setup, .fini = window_teardown, .timeout = 20);

/* The header of packet i, which belongs to the first operation. */
static struct tagrv_hdr header(size_t i, uint8_t opcode)
{
	struct tagrv_hdr hdr = packet_header(i);

	cr_assert_eq(hdr.opcode, opcode, "packet %zu is %u", i, hdr.opcode);
	cr_expect_eq(hdr.op, packet_header(0).op);
	return hdr;
}

/* ---- writes ---- */

Test(rma_ask, put_byte_by_byte)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 5, &contexts[0]);
	static const uint8_t want[] = {
		10, 0, 0, 0,
		0, 0, 0, 0,				/* handle, below */
		0, 0, 0, 0, 0, 0, 0x12, 0x34,
		TAGRV_RMA_DATA, 0,  0, 0,  0, 0, 0, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
		2, 0, 1, 0, 0, 0, 0, 0,
	};
	struct tagrv_hdr hdr;

	req.flags |= FI_REMOTE_CQ_DATA;
	parts.remote.addr = BASE + 2;
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(fake.log_cnt, 1);
	hdr = header(0, TAGRV_PKT_PUT);
	cr_assert_neq(hdr.op, 0);
	cr_assert_eq(fake.log[0].len, sizeof(want) + 5);
	memset(fake.log[0].data + 4, 0, 4);
	cr_assert_arr_eq(fake.log[0].data, want, sizeof(want));
	cr_assert_arr_eq(fake.log[0].data + sizeof(want), mine, 5);
	expect_empty(&fx.tx);
	arrive_fin(hdr.op, 0);
	expect_end(&contexts[0], 0);
	expect_begun(TAGRV_RMA_WRITE, 1, 5);
}

Test(rma_ask, a_put_without_data_says_so)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 1, contexts), 0);
	cr_expect_eq(header(0, TAGRV_PKT_PUT).flags, 0);
}

/* PUTs from number i on write len bytes of src to BASE. */
static void expect_puts(size_t i, size_t cnt, size_t len)
{
	size_t at = 0;

	cr_assert_eq(fake.log_cnt, i + cnt);
	for (; i < cnt; i++) {
		size_t n = TAGRV_MIN(PUT, len - at);

		cr_expect_eq(header(i, TAGRV_PKT_PUT).flags & TAGRV_RMA_MORE,
			     at + n < len);
		cr_expect_eq(word_of(i, 0), BASE + at);
		cr_assert_eq(body_len(i), 8 + n);
		cr_assert_arr_eq(body_of(i) + 8, mine + at, n);
		at += n;
	}
	cr_expect_eq(at, len);
}

Test(rma_ask, a_write_is_split_into_full_packets)
{
	size_t len = 3 * PUT;

	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, len, contexts), 0);
	expect_puts(0, 3, len);
	arrive_fin(header(0, TAGRV_PKT_PUT).op, 0);
	expect_end(contexts, 0);
}

Test(rma_ask, a_write_goes_on_where_room_ended)
{
	size_t len = 4 * PUT + 1;

	for (size_t i = 0; i <= 5; i++) {
		fake.log_max = i;
		fake.refuse_all = !i;
		if (!i)
			cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, len, contexts), 0);
		else
			tagrv_engine_progress(fx.engine);
		cr_assert_eq(fake.log_cnt, i);
	}
	expect_puts(0, 5, len);
	arrive_fin(header(0, TAGRV_PKT_PUT).op, 0);
	expect_end(contexts, 0);
}

/* Three ranges, one of them empty, from four segments that end elsewhere. */
Test(rma_ask, each_put_is_of_one_range)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 60, contexts);
	const struct fi_rma_iov remote[3] = {
		{ 1000, 10, 5 }, { 2000, 0, 6 }, { 3000, 50, 7 },
	};
	const struct iovec iov[4] = {
		{ mine, 7 }, { NULL, 0 }, { mine + 100, 30 }, { mine + 200, 23 },
	};
	char all[60];

	req.remote = remote;
	req.remote_cnt = 3;
	req.iov = iov;
	req.iov_cnt = 4;
	memcpy(all, mine, 7);
	memcpy(all + 7, mine + 100, 30);
	memcpy(all + 37, mine + 200, 23);
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(fake.log_cnt, 2);
	cr_expect_eq(header(0, TAGRV_PKT_PUT).tag, 5);
	cr_expect_eq(header(0, TAGRV_PKT_PUT).flags, TAGRV_RMA_MORE);
	cr_expect_eq(word_of(0, 0), 1000);
	cr_assert_eq(body_len(0), 8 + 10);
	cr_expect_arr_eq(body_of(0) + 8, all, 10);
	cr_expect_eq(header(1, TAGRV_PKT_PUT).tag, 7);
	cr_expect_eq(header(1, TAGRV_PKT_PUT).flags, 0);
	cr_expect_eq(word_of(1, 0), 3000);
	cr_assert_eq(body_len(1), 8 + 50);
	cr_expect_arr_eq(body_of(1) + 8, all + 10, 50);
}

Test(rma_ask, an_empty_write_asks_for_its_answer)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 0, contexts), 0);
	cr_expect_eq(header(0, TAGRV_PKT_PUT).flags, 0);
	cr_expect_eq(body_len(0), 8);
	arrive_fin(header(0, TAGRV_PKT_PUT).op, 0);
	expect_end(contexts, 0);
}

/* Neither of a write, nor of a message, comes anything between its packets. */
Test(rma_ask, nothing_comes_between_the_packets_of_an_operation)
{
	fake.log_max = 1;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 2 * PUT, contexts), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_assert_eq(submit_send("x", 1, 4, contexts, 0), 0);
	cr_assert_eq(fake.log_cnt, 1);
	fake.log_max = 0;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 4);
	header(1, TAGRV_PKT_PUT);
	cr_expect_eq(packet_header(2).opcode, TAGRV_PKT_GET);
	cr_expect_eq(packet_header(3).opcode, TAGRV_PKT_EAGER);
	expect_end(contexts, 0);
}

/* ---- reads ---- */

Test(rma_ask, get_byte_by_byte)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_READ, 30, contexts);
	const struct fi_rma_iov remote[2] = { { 0x1122, 10, 5 }, { 0x3344, 20, KEY } };
	static const uint8_t want[] = {
		11, 0, 0, 0,  0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0,
		0, 0,  0, 0,  0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0, 0,
		0x22, 0x11, 0, 0, 0, 0, 0, 0,
		10, 0, 0, 0, 0, 0, 0, 0,
		5, 0, 0, 0, 0, 0, 0, 0,
		0x44, 0x33, 0, 0, 0, 0, 0, 0,
		20, 0, 0, 0, 0, 0, 0, 0,
		0x34, 0x12, 0, 0, 0, 0, 0, 0,
	};

	req.remote = remote;
	req.remote_cnt = 2;
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(fake.log[0].len, sizeof(want));
	cr_assert_neq(packet_header(0).op, 0);
	memset(fake.log[0].data + 4, 0, 4);
	cr_assert_arr_eq(fake.log[0].data, want, sizeof(want));
}

Test(rma_ask, answers_fill_the_buffer_one_behind_the_other)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_READ, 1000, contexts);
	const struct iovec iov[3] = {
		{ read_to, 300 }, { read_to + 300, 0 }, { read_to + 400, 700 },
	};
	uint32_t op;

	req.iov = iov;
	req.iov_cnt = 3;
	cr_assert_eq(submit_req(&req), 0);
	op = packet_header(0).op;
	arrive_answer(op, mine, 299);
	arrive_answer(op, mine + 299, 2);
	arrive_answer(op, mine, 0);
	expect_empty(&fx.tx);
	arrive_answer(op, mine + 301, 699);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to, mine, 300);
	cr_expect_arr_eq(read_to + 400, mine + 300, 700);
	cr_expect_eq(read_to[300], 0);
	cr_expect_eq(read_to[1100], 0);
	expect_fine();
}

Test(rma_ask, an_empty_read_is_answered_in_either_way)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 0, &contexts[0]), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 0, &contexts[1]), 0);
	arrive_answer(packet_header(0).op, NULL, 0);
	expect_end(&contexts[0], 0);
	arrive_fin(packet_header(1).op, 0);
	expect_end(&contexts[1], 0);
	expect_fine();
}

/* An operation without room has not asked for anything. */
Test(rma_ask, a_read_without_room_is_sent_later)
{
	fake.refuse_all = true;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_expect_eq(fx.engine->table.peers[0]->rma.asked, 0);
	cr_expect_eq(fx.engine->table.peers[0]->sent, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(fx.engine->table.peers[0]->rma.asked, 1);
	arrive_answer(packet_header(0).op, mine, 8);
	expect_end(contexts, 0);
	cr_expect_eq(fx.engine->table.peers[0]->rma.asked, 0);
}

/* ---- atomics ---- */

Test(rma_ask, atomic_byte_by_byte)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_COMPARE, 16, contexts);
	static const uint8_t want[] = {
		14, 0, 0, 0,  0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0x12, 0x34,
		TAGRV_RMA_DATA, 0,  0, 0,
		TAGRV_RMA_COMPARE, FI_UINT64, FI_CSWAP, 0,
		0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
		0, 0, 1, 0, 0, 0, 0, 0,
		16, 0, 0, 0, 0, 0, 0, 0,
	};

	req.flags |= FI_REMOTE_CQ_DATA;
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(fake.log[0].len, sizeof(want) + 32);
	cr_assert_neq(packet_header(0).op, 0);
	memset(fake.log[0].data + 4, 0, 4);
	cr_assert_arr_eq(fake.log[0].data, want, sizeof(want));
	cr_assert_arr_eq(fake.log[0].data + sizeof(want), mine, 16);
	cr_assert_arr_eq(fake.log[0].data + sizeof(want) + 16, parts.compare.iov_base, 16);
	expect_begun(TAGRV_RMA_ATOMIC, 1, 16);
}

/* The numbers of kinds are on the wire. */
Test(rma_ask, kinds_keep_their_numbers)
{
	cr_expect_eq(TAGRV_RMA_ATOMIC, 2);
	cr_expect_eq(TAGRV_RMA_FETCH, 3);
	cr_expect_eq(TAGRV_RMA_COMPARE, 4);
}

Test(rma_ask, an_atomic_read_has_no_operands)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_FETCH, 24, contexts);

	req.op = FI_ATOMIC_READ;
	req.iov_cnt = 0;
	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(body_len(0), 16);
	cr_expect_eq(word_of(0, 8), 24);
	arrive_answer(packet_header(0).op, mine, 24);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to, mine, 24);
	expect_begun(TAGRV_RMA_ATOMIC, 1, 24);
	expect_begun(TAGRV_RMA_READ, 0, 0);
}

/* ATOMICs of whole elements of 'size' bytes, at most 'max' bytes of the target each. */
static void expect_atomics(size_t size, size_t max, size_t len, bool compare)
{
	const size_t cnt = (len + max - 1) / max;
	size_t at = 0;

	cr_assert_eq(fake.log_cnt, cnt);
	for (size_t i = 0; i < cnt; i++) {
		size_t n = TAGRV_MIN(max, len - at);

		cr_expect_eq(header(i, TAGRV_PKT_ATOMIC).flags,
			     at + n < len ? TAGRV_RMA_MORE : 0);
		cr_expect_eq(word_of(i, 0), BASE + at);
		cr_expect_eq(word_of(i, 8), n);
		cr_expect_eq(n % size, 0);
		cr_assert_eq(body_len(i), 16 + n * (1 + compare));
		cr_expect_arr_eq(body_of(i) + 16, mine + at, n);
		if (compare)
			cr_expect_arr_eq(body_of(i) + 16 + n,
					 (char *) parts.compare.iov_base + at, n);
		at += n;
	}
}

Test(rma_ask, atomics_are_split_between_elements)
{
	cr_assert_eq(submit_atomic(TAGRV_RMA_ATOMIC, 2 * VALUES + 8, contexts), 0);
	expect_atomics(8, VALUES, 2 * VALUES + 8, false);
	arrive_fin(packet_header(0).op, 0);
	expect_end(contexts, 0);
	expect_begun(TAGRV_RMA_ATOMIC, 1, 2 * VALUES + 8);
}

Test(rma_ask, what_is_compared_halves_a_packet)
{
	cr_assert_eq(submit_atomic(TAGRV_RMA_COMPARE, VALUES, contexts), 0);
	expect_atomics(8, VALUES / 2, VALUES, true);
}

/* A peer that takes shorter packets: 100 bytes have 3 elements of 32. */
Test(rma_ask, short_packets_have_whole_elements)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_ATOMIC, 320, contexts);

	if (sizeof(long double) != 16)
		cr_skip_test("elements have other sizes here");
	fx.engine->table.peers[0]->frag_max = 100 + sizeof(struct tagrv_rma_atomic);
	req.datatype = FI_LONG_DOUBLE_COMPLEX;
	cr_assert_eq(submit_req(&req), 0);
	expect_atomics(32, 96, 320, false);
}

Test(rma_ask, atomics_of_several_ranges_and_segments)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_ATOMIC, 32, contexts);
	const struct fi_rma_iov remote[2] = { { 100, 8, 5 }, { 200, 24, 6 } };
	const struct iovec iov[2] = { { mine, 24 }, { mine + 100, 8 } };

	req.remote = remote;
	req.remote_cnt = 2;
	req.iov = iov;
	req.iov_cnt = 2;
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(fake.log_cnt, 2);
	cr_expect_eq(packet_header(0).tag, 5);
	cr_expect_eq(packet_header(1).tag, 6);
	cr_expect_eq(word_of(1, 0), 200);
	cr_expect_arr_eq(body_of(0) + 16, mine, 8);
	cr_expect_arr_eq(body_of(1) + 16, mine + 8, 16);
	cr_expect_arr_eq(body_of(1) + 32, mine + 100, 8);
}

Test(rma_ask, former_values_go_to_the_result)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_FETCH, 32, contexts);
	const struct iovec result[2] = { { read_to + 50, 24 }, { read_to, 8 } };

	req.result = result;
	req.result_cnt = 2;
	cr_assert_eq(submit_req(&req), 0);
	arrive_answer(packet_header(0).op, mine, 32);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to + 50, mine, 24);
	cr_expect_arr_eq(read_to, mine + 24, 8);
}

/* The target answers each ATOMIC; the next one may find no room. */
Test(rma_ask, answers_come_before_the_last_atomic)
{
	uint32_t op;

	fake.log_max = 1;
	cr_assert_eq(submit_atomic(TAGRV_RMA_FETCH, 3 * VALUES, contexts), 0);
	op = packet_header(0).op;
	arrive_answer(op, mine, VALUES);
	fake.log_max = 2;
	tagrv_engine_progress(fx.engine);
	arrive_answer(op, mine + VALUES, VALUES);
	expect_empty(&fx.tx);
	fake.log_max = 0;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
	arrive_answer(op, mine + 2 * VALUES, VALUES);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to, mine, 3 * VALUES);
	expect_fine();
}
