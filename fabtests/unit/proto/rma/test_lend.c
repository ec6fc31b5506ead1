/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Target of long reads: KEYS, by which the initiator reads; or ANSWERs after all.
 */
#include "unit/proto/rma/rma_calls.h"

TestSuite(rma_lend, .init = window_setup, .fini = window_teardown, .timeout = 20);

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

Test(rma_lend, keys_byte_by_byte)
{
	struct tagrv_cts cts;
	struct tagrv_rts_seg seg;
	struct tagrv_hdr hdr;

	arrive_get(PEER_OP, BASE + 100, LEN - 200, TAGRV_RMA_KEYS);
	hdr = only(TAGRV_PKT_KEYS);
	cr_expect_eq(hdr.opcode, 13);
	cr_expect_eq(hdr.op, PEER_OP);
	cr_expect_eq(hdr.tag | hdr.flags | hdr.seq | hdr.data, 0);
	cr_assert_eq(body_len(0), 16 + 32);
	memcpy(&cts, body_of(0), sizeof(cts));
	memcpy(&seg, body_of(0) + sizeof(cts), sizeof(seg));
	cr_expect_eq(le64toh(cts.want), LEN - 200);
	cr_expect_neq(cts.op, 0);
	cr_expect_eq(cts.seg_cnt, 1);
	cr_expect_eq(cts.key_len, 4);
	cr_expect_eq(cts.pieces, 0);
	cr_expect_eq(le64toh(seg.addr), (uintptr_t) open_mem + 100);
	cr_expect_eq(le64toh(seg.len), LEN - 200);
	cr_expect_eq(fake.regs, 1);
	cr_expect_eq(fx.engine->lent, 1);
	cr_expect_eq(the_peer()->rma.serving, 1);
	cr_expect_eq(counted(&remote_reads), 0);
	arrive_fin(le32toh(cts.op), 0);
	cr_expect_eq(fake.regs, 0);
	cr_expect_eq(fx.engine->lent, 0);
	cr_expect_eq(the_peer()->rma.serving, 0);
	cr_expect_eq(counted(&remote_reads), 1);
	cr_expect_eq(counted(&was_read), 1);
	expect_served(TAGRV_RMA_READ, 1, LEN - 200);
	expect_empty(&fx.tx);
	expect_fine();
}

/* The handle by which memory is lent in recorded packet i. */
static uint32_t lender_of(size_t i)
{
	struct tagrv_cts cts;

	header(i, TAGRV_PKT_KEYS);
	memcpy(&cts, body_of(i), sizeof(cts));
	return le32toh(cts.op);
}

Test(rma_lend, a_read_that_failed_is_no_read)
{
	arrive_get(PEER_OP, BASE, LEN, TAGRV_RMA_KEYS);
	arrive_fin(lender_of(0), FI_EIO);
	cr_expect_eq(fx.engine->lent, 0);
	cr_expect_eq(the_peer()->rma.serving, 0);
	cr_expect_eq(counted(&remote_reads), 0);
	expect_served(TAGRV_RMA_READ, 0, 0);
	arrive_fin(lender_of(0), 0);
	cr_expect_eq(fx.engine->stats.bad_packets, 1, "it was returned before");
	cr_expect_eq(fake.links, 1);
}

/* Windows and ranges may have 16 segments together, packets 4. */
Test(rma_lend, too_many_segments_are_answered_in_packets)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rma_range ranges[2];
	} get = {
		.hdr.opcode = TAGRV_PKT_GET, .hdr.op = htole32(PEER_OP),
		.hdr.flags = htole16(TAGRV_RMA_KEYS),
	};

	window.iov_cnt = 3;
	for (unsigned i = 0; i < 3; i++)
		window.iov[i] = (struct iovec) { open_mem + 100 * i, 10 };
	window.len = 30;
	for (unsigned i = 0; i < 2; i++)
		get.ranges[i] = (struct tagrv_rma_range) {
			htole64(BASE), htole64(i ? 15 : 30), htole64(KEY),
		};
	fake_deliver(fx.link, &get, sizeof(get));
	header(0, TAGRV_PKT_ANSWER);
	cr_expect_eq(fx.engine->lent, 0);
	get.ranges[1].len = htole64(10);
	fake_deliver(fx.link, &get, sizeof(get));
	cr_expect_eq(fx.engine->lent, 1);
	header(fake.log_cnt - 1, TAGRV_PKT_KEYS);
	cr_expect_eq(body_len(fake.log_cnt - 1), 16 + 4 * 32);
}

static void answer_in_packets(uint32_t op)
{
	arrive_get(op, BASE, LEN, TAGRV_RMA_KEYS);
	serve_all();
}

/* Whatever lacks, the peer gets its bytes. */
Test(rma_lend, what_cannot_be_lent_is_answered_in_packets)
{
	const size_t packets = (LEN + FRAG - 1) / FRAG;
	size_t sent = 0;

	fake.reg_error = -FI_ENOMEM;
	answer_in_packets(1);
	cr_expect_eq(fake.log_cnt, sent += packets);
	fake.reg_error = 0;
	fake.base.attr.admits = TAGRV_MEM_WRITE;
	answer_in_packets(2);
	cr_expect_eq(fake.log_cnt, sent += packets);
	fake.base.attr.admits = TAGRV_MEM_READ;
	fake.refuse = 1;
	answer_in_packets(3);
	cr_expect_eq(fake.log_cnt, sent += packets, "no room for KEYS");
	fx.engine->pools.tx_ops.max = fx.engine->pools.tx_ops.used;
	while (fx.engine->pools.tx_ops.free_head)
		fx.engine->pools.tx_ops.free_head =
			fx.engine->pools.tx_ops.free_head->next;
	answer_in_packets(4);
	cr_expect_eq(fake.log_cnt, sent += packets, "no operation is left");
	for (size_t i = 0; i < sent; i++)
		header(i, TAGRV_PKT_ANSWER);
	cr_expect_eq(fx.engine->lent, 0);
	cr_expect_eq(fake.regs, 0);
}

Test(rma_lend, at_most_64_are_lent)
{
	struct tagrv_peer *first = the_peer();

	for (uint32_t i = 1; i <= 64; i++)
		arrive_get(i, BASE, LEN, TAGRV_RMA_KEYS);
	cr_expect_eq(fx.engine->lent, 64);
	cr_expect_eq(fake.log_cnt, 64);
	/* As if they were lent to other peers. */
	first->rma.serving = 0;
	arrive_get(65, BASE, 8, TAGRV_RMA_KEYS);
	header(64, TAGRV_PKT_ANSWER);
	first->rma.serving = 64;
	arrive_fin(lender_of(0), 0);
	arrive_get(66, BASE, LEN, TAGRV_RMA_KEYS);
	header(65, TAGRV_PKT_KEYS);
	arrive_get(67, BASE, LEN, TAGRV_RMA_KEYS);
	expect_given_up();
	cr_expect_eq(fx.engine->lent, 0);
	cr_expect_eq(fake.regs, 0);
}

Test(rma_lend, what_is_lent_comes_back_with_the_end_of_the_connection)
{
	arrive_get(PEER_OP, BASE, LEN, TAGRV_RMA_KEYS);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(fx.engine->lent, 0);
	cr_expect_eq(fake.regs, 0);
	cr_expect_eq(fake.regs_at_close, 1, "the peer may still read");
	cr_expect_eq(counted(&remote_reads), 0);
	expect_empty(&fx.tx);
}

Test(rma_lend, an_answer_returns_nothing)
{
	arrive_get(PEER_OP, BASE, LEN, TAGRV_RMA_KEYS);
	arrive_answer(lender_of(0), NULL, 0);
	cr_expect_eq(fx.engine->stats.bad_packets, 1);
	cr_expect_eq(fx.engine->lent, 1);
}
