/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Target: reads of a peer, and ANSWERs that wait for room.
 */
#include "unit/proto/rma/rma_calls.h"

static void setup(void)
{
	window_setup();
	memcpy(open_mem, mine, LEN);
}

TestSuite(rma_get, .init = setup, .fini = window_teardown, .timeout = 20);

/* Packet i is an ANSWER with len bytes of src from 'at' on. */
static void expect_answer(size_t i, uint32_t op, size_t at, size_t len)
{
	struct tagrv_hdr hdr = packet_header(i);

	cr_assert_eq(hdr.opcode, TAGRV_PKT_ANSWER, "packet %zu is %u", i, hdr.opcode);
	cr_expect_eq(hdr.op, op);
	cr_expect_eq(hdr.tag | hdr.flags | hdr.seq | hdr.data, 0);
	cr_assert_eq(body_len(i), len);
	cr_expect_arr_eq(body_of(i), mine + at, len);
}

static void expect_answers(size_t i, uint32_t op, size_t len)
{
	for (size_t at = 0; at < len; at += FRAG)
		expect_answer(i++, op, at, TAGRV_MIN(FRAG, len - at));
	cr_assert_eq(fake.log_cnt, i);
}

/* ---- at once ---- */

Test(rma_get, a_read_is_answered_with_the_bytes)
{
	arrive_get(PEER_OP, BASE + 10, 100, 0);
	cr_assert_eq(fake.log_cnt, 1);
	expect_answer(0, PEER_OP, 10, 100);
	cr_expect_eq(counted(&remote_reads), 1);
	cr_expect_eq(counted(&was_read), 1);
	cr_expect_eq(counted(&remote_writes), 0);
	expect_served(TAGRV_RMA_READ, 1, 100);
	cr_expect_eq(the_peer()->rma.serving, 0);
	cr_expect_eq(fx.engine->pools.answers.used, 0);
}

Test(rma_get, as_many_packets_as_it_takes)
{
	arrive_get(PEER_OP, BASE, 3 * FRAG + 1, 0);
	expect_answers(0, PEER_OP, 3 * FRAG + 1);
	cr_expect_eq(counted(&remote_reads), 1);
	expect_served(TAGRV_RMA_READ, 1, 3 * FRAG + 1);
}

Test(rma_get, an_empty_read_has_an_empty_answer)
{
	arrive_get(PEER_OP, BASE + LEN, 0, 0);
	cr_assert_eq(fake.log_cnt, 1);
	expect_answer(0, PEER_OP, 0, 0);
}

Test(rma_get, a_window_of_several_segments)
{
	window.iov_cnt = 3;
	window.iov[0] = (struct iovec) { open_mem, 10 };
	window.iov[1] = (struct iovec) { NULL, 0 };
	window.iov[2] = (struct iovec) { open_mem + 50, 40 };
	window.len = 50;
	arrive_get(PEER_OP, BASE + 5, 20, 0);
	cr_assert_eq(body_len(0), 20);
	cr_expect_arr_eq(body_of(0), mine + 5, 5);
	cr_expect_arr_eq(body_of(0) + 5, mine + 50, 15);
}

struct get {
	struct tagrv_hdr hdr;
	struct tagrv_rma_range ranges[TAGRV_IOV_MAX + 1];
};

static struct get get_of(uint32_t op, uint16_t flags)
{
	return (struct get) {
		.hdr.opcode = TAGRV_PKT_GET, .hdr.op = htole32(op),
		.hdr.flags = htole16(flags),
	};
}

static void set_range(struct get *get, unsigned i, uint64_t addr, uint64_t len)
{
	get->ranges[i] = (struct tagrv_rma_range) {
		htole64(addr), htole64(len), htole64(KEY),
	};
}

static void deliver(const struct get *get, size_t cnt)
{
	fake_deliver(fx.link, get, HDR + cnt * sizeof(get->ranges[0]));
}

/* An ANSWER has bytes of one range. */
Test(rma_get, ranges_are_answered_in_order)
{
	struct get get = get_of(PEER_OP, 0);

	set_range(&get, 0, BASE + 50, 0);
	set_range(&get, 1, BASE + 100, FRAG + 5);
	set_range(&get, 2, BASE + 7, 0);
	set_range(&get, 3, BASE + 1, 2);
	deliver(&get, 4);
	cr_assert_eq(fake.log_cnt, 3);
	expect_answer(0, PEER_OP, 100, FRAG);
	expect_answer(1, PEER_OP, 100 + FRAG, 5);
	expect_answer(2, PEER_OP, 1, 2);
	cr_expect_eq(counted(&remote_reads), 1);
}

/* ---- refused ---- */

static void expect_refused_op(uint32_t op)
{
	expect_fin(fake.log_cnt - 1, op, FI_EACCES);
	cr_expect_eq(fake.log_cnt, op, "one FIN for each");
	cr_expect_eq(fx.engine->stats.rma_refused, op);
	cr_expect_eq(counted(&remote_reads), 0);
	cr_expect_eq(the_peer()->rma.serving, 0);
	expect_fine();
}

Test(rma_get, a_wrong_read_is_refused)
{
	arrive_get(1, BASE + LEN - 7, 8, 0);
	expect_refused_op(1);
	arrive_get(2, BASE - 1, 1, 0);
	expect_refused_op(2);
	window.access = FI_REMOTE_WRITE;
	arrive_get(3, BASE, 8, 0);
	expect_refused_op(3);
	window.access = FI_REMOTE_READ;
	fx.engine->attr.serves = FI_REMOTE_WRITE;
	arrive_get(4, BASE, 8, TAGRV_RMA_KEYS);
	expect_refused_op(4);
	fx.engine->attr.serves = FI_REMOTE_READ;
	window.key++;
	arrive_get(5, BASE, 8, 0);
	window.key--;
	expect_refused_op(5);
	arrive_get(6, BASE, 8, 0);
	expect_answer(5, 6, 0, 8);
}

/* Before anything is answered. */
Test(rma_get, one_wrong_range_refuses_all)
{
	struct get get = get_of(1, 0);

	set_range(&get, 0, BASE, 8);
	set_range(&get, 1, BASE + LEN, 1);
	deliver(&get, 2);
	expect_refused_op(1);
}

Test(rma_get, malformed_gets_are_refused)
{
	struct get good = get_of(1, 0), get;
	uint64_t refused = 0;

	set_range(&good, 0, BASE, 8);
#define REFUSED(len) do { \
		fake_deliver(fx.link, &get, len); \
		cr_expect_eq(fx.engine->stats.bad_packets, ++refused); \
		cr_expect_eq(fake.links, 0); \
		cr_expect_eq(fake.log_cnt, 0); \
		peer_up(true); \
		get = good; \
	} while (0)
	get = good;
	REFUSED(HDR);
	REFUSED(HDR + 23);
	REFUSED(HDR + 25);
	REFUSED(HDR + 5 * 24);
	get.hdr.op = 0;
	REFUSED(HDR + 24);
	get.hdr.flags = htole16(TAGRV_RMA_MORE);
	REFUSED(HDR + 24);
	get.hdr.flags = htole16(TAGRV_RMA_DATA);
	REFUSED(HDR + 24);
	set_range(&get, 0, BASE, TAGRV_MAX_MSG + 1);
	REFUSED(HDR + 24);
	set_range(&get, 1, BASE, UINT64_MAX);
	REFUSED(HDR + 48);
#undef REFUSED
}

/* ---- without room ---- */

Test(rma_get, an_answer_goes_on_where_room_ended)
{
	const size_t len = 3 * FRAG + 1;

	fake.refuse_all = true;
	arrive_get(PEER_OP, BASE, len, 0);
	cr_expect_eq(fake.log_cnt, 0);
	cr_expect_eq(the_peer()->rma.serving, 1);
	fake.refuse_all = false;
	for (size_t i = 1; i <= 4; i++) {
		cr_expect_eq(counted(&remote_reads), 0);
		fake.log_max = i;
		tagrv_engine_progress(fx.engine);
		cr_assert_eq(fake.log_cnt, i);
	}
	expect_answers(0, PEER_OP, len);
	cr_expect_eq(counted(&remote_reads), 1);
	cr_expect_eq(the_peer()->rma.serving, 0);
	cr_expect_eq(fx.engine->pools.answers.used, 0);
}

/* Of reads and former values together. */
Test(rma_get, answers_keep_the_order_of_the_requests)
{
	const uint64_t operand = 0;

	fake.refuse = 1;
	arrive_get(1, BASE, 8, 0);
	arrive_atomic(2, TAGRV_RMA_FETCH, FI_SUM, BASE + 8, &operand, 1, 0);
	arrive_get(3, BASE + 16, 8, 0);
	cr_assert_eq(fake.log_cnt, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
	for (uint32_t i = 0; i < 3; i++)
		expect_answer(i, i + 1, 8 * i, 8);
	cr_expect_eq(the_peer()->rma.serving, 0);
}

/* Those of the moment of the atomic, whatever comes later. */
Test(rma_get, former_values_are_kept)
{
	const uint64_t operand = 1;

	fake.refuse_all = true;
	for (int i = 0; i < 3; i++)
		arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_SUM, BASE, &operand, 1, 0);
	memset(open_mem, 0, 8);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
	for (size_t i = 0; i < 3; i++) {
		uint64_t first;

		memcpy(&first, mine, 8);
		cr_expect_eq(word_of(i, 0), first + i);
	}
}

Test(rma_get, an_empty_answer_may_wait)
{
	fake.refuse_all = true;
	arrive_get(1, BASE, 0, 0);
	arrive_atomic(2, TAGRV_RMA_FETCH, FI_SUM, BASE, NULL, 0, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
	expect_answer(0, 1, 0, 0);
	expect_answer(1, 2, 0, 0);
}

/* What is read by then is not what the application wanted to show. */
Test(rma_get, a_window_that_is_closed_meanwhile_is_not_read)
{
	fake.log_max = 1;
	arrive_get(1, BASE, 2 * FRAG, 0);
	arrive_get(2, BASE, 8, 0);
	cr_assert_eq(fake.log_cnt, 1);
	tagrv_window_remove(fx.dom, &window);
	fake.log_max = 0;
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(fx.engine->stats.rma_refused, 2);
	for (size_t i = 1; i < fake.log_cnt; i++)
		cr_expect_eq(packet_header(i).opcode, TAGRV_PKT_FIN);
	cr_expect_eq(fx.engine->stats.fin_tx, 2);
	cr_expect_eq(packet_header(1).op, 1);
	cr_expect_eq(packet_header(1).data, FI_EACCES);
	cr_expect_eq(the_peer()->rma.serving, 0);
	cr_expect_eq(counted(&remote_reads), 0);
	expect_fine();
}

/* Former values are not of the window any more. */
Test(rma_get, former_values_survive_their_window)
{
	const uint64_t operand = 1;

	fake.refuse_all = true;
	arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_SUM, BASE, &operand, 1, 0);
	tagrv_window_remove(fx.dom, &window);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	expect_answer(0, PEER_OP, 0, 8);
}

/* ---- limits, failures ---- */

Test(rma_get, at_most_64_are_served)
{
	fake.refuse_all = true;
	for (uint32_t i = 1; i <= 64; i++)
		arrive_get(i, BASE, 8, 0);
	cr_expect_eq(the_peer()->rma.serving, 64);
	expect_fine();
	arrive_get(65, BASE, 8, 0);
	expect_given_up();
	cr_expect_eq(fx.engine->pools.answers.used, 0);
}

Test(rma_get, what_is_answered_counts_no_longer)
{
	for (uint32_t i = 1; i <= 200; i++) {
		fake.refuse = i % 2;
		arrive_get(i, BASE, 8, 0);
		tagrv_engine_progress(fx.engine);
	}
	cr_expect_eq(fake.log_cnt, 200);
	cr_expect_eq(the_peer()->rma.serving, 0);
	expect_fine();
}

Test(rma_get, refused_reads_do_not_count)
{
	fake.refuse_all = true;
	for (uint32_t i = 1; i <= 100; i++)
		arrive_get(i, BASE + LEN, 8, 0);
	expect_fine();
	cr_expect_eq(the_peer()->rma.serving, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(fx.engine->stats.fin_tx, 100);
}

Test(rma_get, answers_end_with_the_connection)
{
	const uint64_t operand = 1;

	fake.log_max = 1;
	arrive_get(1, BASE, 2 * FRAG, 0);
	arrive_atomic(2, TAGRV_RMA_FETCH, FI_SUM, BASE, &operand, 1, 0);
	cr_expect_eq(fx.engine->pools.answers.used, 2);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(fx.engine->pools.answers.used, 0);
	fake.log_max = 0;
	peer_up(true);
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(fake.log_cnt, 1, "nothing goes by the next one");
	cr_expect_eq(the_peer()->rma.serving, 0);
}
