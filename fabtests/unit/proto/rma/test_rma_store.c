/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes of one packet, named and counted: packets byte by byte, what is sent at once and
 * what is not, COUNTs, and the ends of counted ones by every way.
 */
#include "engine/endpoint.h"
#include "unit/proto/rma/rma_calls.h"

static void setup(void)
{
	struct tagrv_peer *peer;

	window_setup();
	fake.base.attr.caps = 0;
	fake.base.attr.max_short = FRAG;
	/* As if it had been used before: the short way does not look for a peer. */
	cr_assert_eq(tagrv_peer_of(fx.engine, fx.peer_addr, &peer), 0);
}

TestSuite(rma_store, .init = setup, .fini = window_teardown, .timeout = 20);

/* ---- initiator ---- */

static bool store(size_t len)
{
	return tagrv_engine_store(fx.engine, fx.peer_addr, mine, len, BASE + 2, KEY);
}

static void arrive_count(uint32_t done, uint32_t refused, uint64_t status)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_COUNT, .op = htole32(done), .seq = htole32(refused),
		.data = htole64(status),
	};

	fake_deliver(fx.link, &hdr, sizeof(hdr));
}

static void expect_counted(uint32_t outstanding, uint64_t done, uint64_t failed)
{
	cr_expect_eq(the_peer()->rma.counted, outstanding);
	cr_expect_eq(the_peer()->sent, outstanding);
	cr_expect_eq(writes.value, done);
	cr_expect_eq(writes.err, failed);
	cr_expect_eq(fx.engine->stats.lost_injects, failed);
	expect_empty(&fx.tx);
}

Test(rma_store, counted_byte_by_byte)
{
	static const uint8_t want[] = {
		19, 0, 0, 0,  0, 0, 0, 0,
		0, 0, 0, 0, 0, 0, 0x12, 0x34,
		0, 0,  0, 0,  0, 0, 0, 0,
		2, 0, 1, 0, 0, 0, 0, 0,
	};

	cr_assert(store(5));
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(fake.log[0].len, sizeof(want) + 5);
	cr_expect_arr_eq(fake.log[0].data, want, sizeof(want));
	cr_expect_arr_eq(fake.log[0].data + sizeof(want), mine, 5);
	cr_expect_eq(fx.engine->pools.tx_ops.used, 0);
	expect_begun(TAGRV_RMA_WRITE, 1, 5);
	expect_counted(1, 0, 0);
	arrive_count(1, 0, 0);
	expect_counted(0, 1, 0);
	expect_fine();
}

Test(rma_store, one_count_ends_several)
{
	for (int i = 0; i < 7; i++)
		cr_assert(store(8));
	arrive_count(2, 0, 0);
	expect_counted(5, 2, 0);
	arrive_count(3, 1, FI_EACCES);
	expect_counted(1, 5, 1);
	arrive_count(0, 1, FI_EACCES);
	expect_counted(0, 5, 2);
	expect_fine();
}

Test(rma_store, a_write_that_is_awaited_has_a_handle)
{
	struct tagrv_hdr hdr;

	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	hdr = packet_header(0);
	cr_expect_eq(hdr.opcode, TAGRV_PKT_STORE);
	cr_assert_neq(hdr.op, 0);
	cr_expect_eq(hdr.data, BASE);
	cr_expect_eq(hdr.tag, KEY);
	cr_expect_eq(body_len(0), 8);
	arrive_fin(hdr.op, 0);
	expect_end(contexts, 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	arrive_fin(packet_header(1).op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
}

Test(rma_store, what_has_data_or_two_segments_is_a_put)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, contexts);
	const struct iovec iov[2] = { { mine, 4 }, { mine + 4, 4 } };

	req.flags |= FI_REMOTE_CQ_DATA;
	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(packet_header(0).opcode, TAGRV_PKT_PUT);
	req = req_of(TAGRV_RMA_WRITE, 8, contexts);
	req.iov = iov;
	req.iov_cnt = 2;
	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(packet_header(1).opcode, TAGRV_PKT_PUT);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 2 * FRAG, contexts), 0);
	cr_expect_eq(packet_header(2).opcode, TAGRV_PKT_PUT);
	serve_all();
	expect_begun(TAGRV_RMA_WRITE, 3, 16 + 2 * FRAG);
}

/* Nothing has happened, and the general way takes it. */
Test(rma_store, what_is_not_sent_at_once_is_not_counted)
{
	cr_expect_not(tagrv_engine_store(fx.engine, 1000, mine, 8, BASE, KEY), "no peer");
	cr_expect_not(tagrv_engine_store(fx.engine, fx.peer_addr, mine, 8, UINT64_MAX - 3,
					 KEY), "wraps");
	cr_expect_not(store(FRAG + 1), "too long");
	fake.refuse_all = true;
	cr_expect_not(store(8), "no room");
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	fake.refuse_all = false;
	cr_expect_not(store(8), "another is queued");
	expect_counted(0, 0, 0);
	expect_begun(TAGRV_RMA_WRITE, 0, 0);
	serve_all();
	cr_assert_eq(fake.log_cnt, 1);
	cr_expect(store(8));
	arrive_count(1, 0, 0);
	arrive_fin(packet_header(0).op, 0);
	expect_end(contexts, 0);
}

Test(rma_store, a_fence_waits_for_counted_ones)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, contexts);

	cr_assert(store(8));
	cr_assert(store(8));
	req.flags |= FI_FENCE;
	cr_assert_eq(submit_req(&req), 0);
	arrive_count(1, 0, 0);
	serve_all();
	cr_assert_eq(fake.log_cnt, 2);
	arrive_count(1, 0, 0);
	serve_all();
	cr_assert_eq(fake.log_cnt, 3);
	arrive_fin(packet_header(2).op, 0);
	expect_end(contexts, 0);
}

Test(rma_store, counted_ones_fail_with_their_connection)
{
	for (int i = 0; i < 3; i++)
		cr_assert(store(8));
	arrive_count(1, 0, 0);
	fake_break_link(fx.link, -FI_ECONNRESET);
	tagrv_engine_progress(fx.engine);
	expect_counted(0, 1, 2);
}

static void expect_refused_count(uint32_t done, uint32_t refused, uint64_t status)
{
	cr_assert(store(8));
	cr_assert(store(8));
	arrive_count(done, refused, status);
	expect_given_up();
	expect_counted(0, 0, 2);
}

Test(rma_store, a_count_of_more_than_there_are)
{
	expect_refused_count(3, 0, 0);
}

Test(rma_store, a_count_of_more_failures_than_there_are)
{
	expect_refused_count(1, 2, FI_EACCES);
}

Test(rma_store, a_count_whose_sum_wraps)
{
	expect_refused_count(2, UINT32_MAX, FI_EACCES);
}

Test(rma_store, a_count_of_failures_without_a_status)
{
	expect_refused_count(0, 1, 0);
}

Test(rma_store, a_count_with_a_status_without_failures)
{
	expect_refused_count(1, 0, FI_EACCES);
}

/* ---- target ---- */

static void arrive_store(uint32_t op, uint64_t key, uint64_t addr, size_t len, uint16_t flags)
{
	struct {
		struct tagrv_hdr hdr;
		char bytes[64];
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_STORE, .op = htole32(op), .tag = htobe64(key),
			 .flags = htole16(flags), .data = htole64(addr) },
	};

	cr_assert_leq(len, sizeof(pkt.bytes));
	memcpy(pkt.bytes, mine, len);
	fake_deliver(fx.link, &pkt, HDR + len);
}

/* Recorded packet i, the last one, is a COUNT. */
static void expect_count(size_t i, uint32_t done, uint32_t refused)
{
	struct tagrv_hdr hdr;

	cr_assert_eq(fake.log_cnt, i + 1);
	hdr = packet_header(i);
	cr_expect_eq(hdr.opcode, TAGRV_PKT_COUNT);
	cr_expect_eq(hdr.op, done);
	cr_expect_eq(hdr.seq, refused);
	cr_expect_eq(hdr.data, refused ? FI_EACCES : 0);
	cr_expect_eq(body_len(i), 0);
}

Test(rma_store, what_comes_is_written_and_counted)
{
	for (unsigned i = 0; i < 3; i++)
		arrive_store(0, KEY, BASE + 10 * i, 8, 0);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_arr_eq(open_mem + 10 * i, mine, 8);
	cr_expect_eq(open_mem[8], 0);
	cr_expect_eq(counted(&remote_writes), 3);
	cr_expect_eq(counted(&was_written), 3);
	expect_served(TAGRV_RMA_WRITE, 3, 24);
	tagrv_engine_progress(fx.engine);
	expect_count(0, 3, 0);
	cr_expect(tagrv_peer_is_idle(the_peer()));
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(fake.log_cnt, 1);
	expect_fine();
}

Test(rma_store, one_with_a_handle_is_answered_by_a_fin)
{
	arrive_store(PEER_OP, KEY, BASE + 1, 64, 0);
	expect_fin(0, PEER_OP, 0);
	cr_expect_arr_eq(open_mem + 1, mine, 64);
	arrive_store(PEER_OP, KEY + 1, BASE, 8, 0);
	expect_fin(1, PEER_OP, FI_EACCES);
	expect_served(TAGRV_RMA_WRITE, 1, 64);
	expect_fine();
}

Test(rma_store, into_a_window_of_several_segments)
{
	window.iov_cnt = 2;
	window.iov[0] = (struct iovec) { open_mem, 10 };
	window.iov[1] = (struct iovec) { open_mem + 50, 40 };
	window.len = 50;
	arrive_store(0, KEY, BASE + 5, 20, 0);
	tagrv_engine_progress(fx.engine);
	expect_count(0, 1, 0);
	cr_expect_arr_eq(open_mem + 5, mine, 5);
	cr_expect_arr_eq(open_mem + 50, mine + 5, 15);
	cr_expect_eq(open_mem[10], 0);
}

Test(rma_store, what_no_window_allows_is_refused_alone)
{
	arrive_store(0, KEY + 1, BASE, 8, 0);
	arrive_store(0, KEY, BASE + LEN - 7, 8, 0);
	arrive_store(0, KEY, UINT64_MAX, 8, 0);
	window.access = FI_REMOTE_READ;
	arrive_store(0, KEY, BASE, 8, 0);
	window.access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	arrive_store(0, KEY, BASE + 20, 1, 0);
	for (size_t i = 0; i < LEN; i++)
		cr_assert_eq(open_mem[i], i == 20 ? mine[0] : 0, "byte %zu", i);
	tagrv_engine_progress(fx.engine);
	expect_count(0, 1, 4);
	cr_expect_eq(counted(&remote_writes), 1);
	cr_expect_eq(fx.engine->stats.rma_refused, 4);
	expect_fine();
}

Test(rma_store, a_count_without_room_is_sent_later)
{
	fake.refuse_all = true;
	arrive_store(0, KEY, BASE, 8, 0);
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(fake.log_cnt, 0);
	cr_expect_not(tagrv_peer_is_idle(the_peer()));
	arrive_store(0, KEY, BASE, 8, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	expect_count(0, 2, 0);
}

Test(rma_store, nothing_is_owed_behind_a_connection)
{
	fake.refuse_all = true;
	arrive_store(0, KEY, BASE, 8, 0);
	fake_break_link(fx.link, -FI_ECONNRESET);
	cr_expect(tagrv_peer_is_idle(the_peer()));
}

Test(rma_store, flags_are_refused)
{
	arrive_store(0, KEY, BASE, 8, TAGRV_RMA_DATA);
	expect_given_up();
	cr_expect_eq(open_mem[0], 0);
}

/* A PUT that goes on behind it begins a new operation. */
Test(rma_store, a_put_of_several_packets_ends_with_it)
{
	arrive_put(PEER_OP, BASE + LEN, mine, 8, TAGRV_RMA_MORE);
	arrive_store(0, KEY, BASE, 8, 0);
	arrive_put(PEER_OP, BASE + 8, mine, 8, 0);
	cr_expect_eq(packet_header(fake.log_cnt - 1).data, 0);
}
