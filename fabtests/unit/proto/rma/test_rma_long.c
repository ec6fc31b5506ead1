/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Initiator of long writes: PULL, and how it becomes packets where that is not possible.
 */
#include "unit/proto/rma/rma_calls.h"

TestSuite(rma_long, .init = window_setup, .fini = window_teardown, .timeout = 20);

static struct tagrv_hdr header(size_t i, uint8_t opcode)
{
	struct tagrv_hdr hdr = packet_header(i);

	cr_assert_eq(hdr.opcode, opcode, "packet %zu is %u", i, hdr.opcode);
	return hdr;
}

/* The one packet so far. */
static struct tagrv_hdr only(uint8_t opcode)
{
	cr_assert_eq(fake.log_cnt, 1);
	return header(0, opcode);
}

Test(rma_long, pull_byte_by_byte)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, LEN, contexts);
	const struct iovec iov[3] = {
		{ mine, 1000 }, { NULL, 0 }, { mine + 1000, LEN - 1000 },
	};
	struct tagrv_rma_source pull;
	struct tagrv_rts_seg seg[2];
	struct tagrv_hdr hdr;

	req.iov = iov;
	req.iov_cnt = 3;
	req.flags |= FI_REMOTE_CQ_DATA;
	cr_assert_eq(submit_req(&req), 0);
	hdr = only(TAGRV_PKT_PULL);
	cr_expect_eq(hdr.opcode, 15);
	cr_expect_neq(hdr.op, 0);
	cr_expect_eq(hdr.tag, KEY);
	cr_expect_eq(hdr.flags, TAGRV_RMA_DATA);
	cr_expect_eq(hdr.data, DATA);
	cr_assert_eq(body_len(0), 24 + 2 * 32);
	memcpy(&pull, body_of(0), sizeof(pull));
	cr_expect_eq(word_of(0, 0), BASE);
	cr_expect_eq(word_of(0, 8), LEN);
	cr_expect_eq(pull.seg_cnt, 2);
	cr_expect_eq(pull.key_len, 4);
	memcpy(seg, body_of(0) + 24, sizeof(seg));
	cr_expect_eq(le64toh(seg[0].addr), (uintptr_t) mine);
	cr_expect_eq(le64toh(seg[0].len), 1000);
	cr_expect_eq(le64toh(seg[1].addr), (uintptr_t) mine + 1000);
	cr_expect_eq(le64toh(seg[1].len), LEN - 1000);
	cr_expect_eq(fake.regs, 2);
	cr_expect_eq(the_peer()->rma.asked, 1);
	expect_empty(&fx.tx);
	arrive_fin(hdr.op, 0);
	expect_end(contexts, 0);
	cr_expect_eq(fake.regs, 0);
	cr_expect_eq(the_peer()->rma.asked, 0);
}

/* What fits a packet as a message does, and what the transport cannot read. */
Test(rma_long, a_write_that_is_not_long_goes_by_packets)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, the_peer()->packet_limit, contexts), 0);
	header(0, TAGRV_PKT_PUT);
	cr_expect_eq(fake.regs_made, 0);
	fake.base.attr.admits = TAGRV_MEM_WRITE;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 2 * FRAG, contexts), 0);
	header(fake.log_cnt - 1, TAGRV_PKT_PUT);
	fake.base.attr.admits = TAGRV_MEM_READ;
	fake.base.attr.caps = TAGRV_XPORT_PUT;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 2 * FRAG, contexts), 0);
	header(fake.log_cnt - 1, TAGRV_PKT_PUT);
	cr_expect_eq(fake.regs_made, 0);
}

Test(rma_long, a_write_to_several_ranges_goes_by_packets)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, LEN, contexts);
	const struct fi_rma_iov remote[2] = {
		{ BASE, LEN / 2, KEY }, { BASE, LEN / 2, KEY },
	};

	req.remote = remote;
	req.remote_cnt = 2;
	cr_assert_eq(submit_req(&req), 0);
	header(0, TAGRV_PKT_PUT);
	cr_expect_eq(fake.regs_made, 0);
}

static void expect_puts(size_t i)
{
	size_t at = 0;

	for (; at < LEN; i++) {
		header(i, TAGRV_PKT_PUT);
		cr_expect_eq(word_of(i, 0), BASE + at);
		cr_assert_arr_eq(body_of(i) + 8, mine + at, body_len(i) - 8);
		at += body_len(i) - 8;
	}
	cr_expect_eq(fake.log_cnt, i);
}

Test(rma_long, memory_that_cannot_be_registered_goes_by_packets)
{
	fake.reg_error = -FI_ENOMEM;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, LEN, contexts), 0);
	expect_puts(0);
	arrive_fin(packet_header(0).op, 0);
	expect_end(contexts, 0);
}

Test(rma_long, a_half_registered_write_goes_by_packets)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, LEN, contexts);
	const struct iovec iov[2] = {
		{ mine, 1000 }, { mine + 1000, LEN - 1000 },
	};

	req.iov = iov;
	req.iov_cnt = 2;
	fake.regs_max = 1;
	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(fake.regs_made, 1);
	cr_expect_eq(fake.regs, 0);
	expect_puts(0);
}

Test(rma_long, a_pull_without_room_is_sent_later)
{
	fake.refuse_all = true;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, LEN, contexts), 0);
	cr_expect_eq(the_peer()->rma.asked, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	only(TAGRV_PKT_PULL);
	cr_expect_eq(fake.regs_made, 1, "registered once");
}

Test(rma_long, a_pull_without_room_ends_with_the_connection)
{
	fake.refuse_all = true;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, LEN, contexts), 0);
	fake_break_link(fx.link, -FI_EIO);
	expect_end(contexts, FI_EIO);
	cr_expect_eq(fake.regs, 0);
}

/* FI_EAGAIN: the target cannot read. */
Test(rma_long, a_pull_that_is_declined_goes_by_packets)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, LEN, contexts), 0);
	arrive_fin(only(TAGRV_PKT_PULL).op, FI_EAGAIN);
	cr_expect_eq(fake.regs, 0);
	expect_empty(&fx.tx);
	serve_all();
	expect_puts(1);
	cr_expect_eq(packet_header(1).op, packet_header(0).op);
	expect_begun(TAGRV_RMA_WRITE, 1, LEN);
	arrive_fin(packet_header(1).op, 0);
	expect_end(contexts, 0);
	cr_expect_eq(the_peer()->rma.asked, 0);
}

Test(rma_long, packets_may_be_declined_once)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, LEN, contexts), 0);
	arrive_fin(only(TAGRV_PKT_PULL).op, FI_EAGAIN);
	serve_all();
	arrive_fin(packet_header(1).op, FI_EAGAIN);
	expect_end(contexts, FI_EAGAIN);
}

Test(rma_long, other_errors_end_a_pull)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, LEN, contexts), 0);
	arrive_fin(only(TAGRV_PKT_PULL).op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	cr_expect_eq(fake.regs, 0);
}

/* A PULL holds back what must find its bytes, where that was asked for. */
static void expect_pulls_hold(uint64_t order, bool hold)
{
	fx.engine->attr.order = order;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, LEN, &contexts[0]), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, &contexts[1]), 0);
	cr_assert_eq(submit_send("x", 1, 4, &contexts[2], 0), 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, hold ? 1 : 3);
	arrive_fin(packet_header(0).op, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
	header(1, TAGRV_PKT_PUT);
	header(2, TAGRV_PKT_EAGER);
	arrive_fin(packet_header(1).op, 0);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(take(&fx.tx).err, 0);
}

Test(rma_long, reads_wait_for_a_pull_if_that_was_asked_for)
{
	expect_pulls_hold(FI_ORDER_RAW, true);
}

Test(rma_long, writes_wait_for_a_pull_if_that_was_asked_for)
{
	expect_pulls_hold(FI_ORDER_RMA_WAW, true);
}

Test(rma_long, sends_wait_for_a_pull_if_that_was_asked_for)
{
	expect_pulls_hold(FI_ORDER_SAW, true);
}

Test(rma_long, nothing_waits_for_a_pull_otherwise)
{
	expect_pulls_hold(FI_ORDER_SAS | FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RAR,
			  false);
}

Test(rma_long, a_pull_that_holds_others_ends_before_them)
{
	fx.engine->attr.order = FI_ORDER_RAW;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, LEN, &contexts[0]), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, &contexts[1]), 0);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(take(&fx.tx).context, &contexts[0]);
	cr_expect_eq(take(&fx.tx).context, &contexts[1]);
	cr_expect_eq(fake.regs, 0);
}

Test(rma_long, a_pull_counts_among_those_that_ask)
{
	for (int i = 0; i < 65; i++)
		cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, LEN, &contexts[i]), 0);
	cr_assert_eq(fake.log_cnt, 64);
	cr_expect_eq(the_peer()->rma.asked, 64);
	arrive_fin(packet_header(0).op, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 65);
	header(64, TAGRV_PKT_PULL);
}
