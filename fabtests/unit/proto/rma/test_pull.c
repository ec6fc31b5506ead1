/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Target of long writes: PULLs, which it reads by the transport.
 */
#include "unit/proto/rma/rma_calls.h"

TestSuite(rma_pull, .init = window_setup, .fini = window_teardown, .timeout = 20);

static struct tagrv_hdr header(size_t i, uint8_t opcode)
{
	struct tagrv_hdr hdr = packet_header(i);

	cr_assert_eq(hdr.opcode, opcode, "packet %zu is %u", i, hdr.opcode);
	return hdr;
}

/* A PULL with remote CQ data. */
static void pull_with_data(uint32_t op, size_t len)
{
	const struct {
		struct tagrv_hdr hdr;
		struct tagrv_rma_source pull;
		struct tagrv_rts_seg seg;
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_PULL, .op = htole32(op),
			 .tag = htobe64(KEY), .flags = htole16(TAGRV_RMA_DATA),
			 .data = htole64(DATA) },
		.pull = { .addr = htole64(BASE), .len = htole64(len), .seg_cnt = 1,
			  .key_len = 4 },
		.seg = { .addr = htole64((uintptr_t) mine), .len = htole64(len) },
	};

	fake_deliver(fx.link, &pkt, sizeof(pkt));
}

Test(rma_pull, the_target_pulls_the_bytes)
{
	struct tagrv_comp comp;

	pull_with_data(PEER_OP, LEN);
	cr_expect_gt(in_flight(), 0);
	cr_expect_eq(fake.regs, 1);
	cr_expect_eq(the_peer()->rma.serving, 1);
	expect_empty(&fx.rx);
	cr_expect_gt(end_gets(0), 0);
	expect_fin(fake.log_cnt - 1, PEER_OP, 0);
	cr_expect_arr_eq(open_mem, mine, LEN);
	comp = take(&fx.rx);
	cr_expect_eq(comp.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	cr_expect_eq(comp.len, LEN);
	cr_expect_eq(comp.data, DATA);
	cr_expect_eq(comp.src, fx.peer_addr);
	cr_expect_eq(counted(&remote_writes), 1);
	cr_expect_eq(counted(&was_written), 1);
	cr_expect_eq(the_peer()->rma.serving, 0);
	cr_expect_eq(fake.regs, 0);
}

Test(rma_pull, bytes_are_pulled_into_the_segments_of_a_window)
{
	window.iov_cnt = 2;
	window.iov[0] = (struct iovec) { open_mem, 30000 };
	window.iov[1] = (struct iovec) { open_mem + 40000, 20000 };
	window.len = 50000;
	arrive_pull(PEER_OP, BASE + 10000, 30000, mine);
	end_gets(0);
	expect_fin(fake.log_cnt - 1, PEER_OP, 0);
	cr_expect_arr_eq(open_mem + 10000, mine, 20000);
	cr_expect_arr_eq(open_mem + 40000, mine + 20000, 10000);
	cr_expect_eq(open_mem[30000], 0);
	cr_expect_eq(open_mem[50000], 0);
	expect_served(TAGRV_RMA_WRITE, 1, 30000);
}

Test(rma_pull, a_wrong_pull_is_refused)
{
	arrive_pull(1, BASE + 1, LEN, mine);
	expect_fin(0, 1, FI_EACCES);
	window.access = FI_REMOTE_READ;
	arrive_pull(2, BASE, LEN, mine);
	expect_fin(1, 2, FI_EACCES);
	window.access = FI_REMOTE_WRITE;
	fx.engine->attr.serves = FI_REMOTE_READ;
	arrive_pull(3, BASE, LEN, mine);
	expect_fin(2, 3, FI_EACCES);
	cr_expect_eq(fx.engine->stats.rma_refused, 3);
	cr_expect_eq(fake.regs_made, 0);
	expect_fine();
}

Test(rma_pull, a_target_that_cannot_read_asks_for_packets)
{
	fake.reg_error = -FI_ENOMEM;
	arrive_pull(1, BASE, LEN, mine);
	expect_fin(0, 1, FI_EAGAIN);
	fake.reg_error = 0;
	fake.base.attr.caps = TAGRV_XPORT_PUT;
	arrive_pull(2, BASE, LEN, mine);
	expect_fin(1, 2, FI_EAGAIN);
	cr_expect_eq(the_peer()->rma.serving, 0);
	cr_expect_eq(fx.engine->stats.rma_refused, 0);
	expect_fine();
}

/* A read that fails is no reason to try again. */
Test(rma_pull, a_pull_that_fails_is_answered_with_its_error)
{
	pull_with_data(1, LEN);
	end_gets(-FI_EAGAIN);
	expect_fin(fake.log_cnt - 1, 1, FI_EIO);
	pull_with_data(2, LEN);
	end_gets(-FI_EFAULT);
	expect_fin(fake.log_cnt - 1, 2, FI_EFAULT);
	expect_empty(&fx.rx);
	cr_expect_eq(counted(&remote_writes), 0);
	cr_expect_eq(the_peer()->rma.serving, 0);
}

Test(rma_pull, a_pull_without_room_for_reads_goes_on_later)
{
	fake.refuse_all = true;
	arrive_pull(PEER_OP, BASE, LEN, mine);
	cr_expect_eq(fake.log_cnt, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_expect_gt(in_flight(), 0);
	end_gets(0);
	expect_fin(fake.log_cnt - 1, PEER_OP, 0);
	cr_expect_arr_eq(open_mem, mine, LEN);
}

Test(rma_pull, a_pull_ends_with_the_connection)
{
	pull_with_data(1, LEN);
	cr_expect_gt(in_flight(), 0);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(fx.engine->pools.pieces.used, 0);
	cr_expect_eq(fake.regs, 0);
	peer_up(true);
	fake.refuse_all = true;
	pull_with_data(2, LEN);
	cr_expect_eq(fx.engine->pools.pieces.used, 1);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(fx.engine->pools.pieces.used, 0);
	cr_expect_eq(fake.regs, 0);
	expect_empty(&fx.rx);
}

/* What ends late is not counted, nor answered, by the next connection. */
Test(rma_pull, a_pull_of_an_earlier_connection_ends_in_silence)
{
	fake.hold_closed = true;
	arrive_pull(1, BASE, LEN, mine);
	fake_break_link(fx.link, -FI_EIO);
	peer_up(true);
	arrive_get(2, BASE, 8, 0);
	cr_expect_eq(the_peer()->rma.serving, 0);
	fake_close_held();
	cr_expect_eq(the_peer()->rma.serving, 0);
	cr_expect_eq(header(fake.log_cnt - 1, TAGRV_PKT_ANSWER).op, 2);
	cr_expect_eq(fx.engine->pools.pieces.used, 0);
}

struct pull {
	struct tagrv_hdr hdr;
	struct tagrv_rma_source pull;
	struct tagrv_rts_seg seg[5];
};

Test(rma_pull, malformed_pulls_are_refused)
{
	struct pull pkt = {
		.hdr.opcode = TAGRV_PKT_PULL, .hdr.op = htole32(1),
		.hdr.tag = htobe64(KEY),
		.pull = { htole64(BASE), htole64(100), 1, 4, { 0 } },
		.seg[0] = { .len = htole64(100) },
	};
	const size_t whole = HDR + 24 + 32;
	uint64_t cnt = 0;

#define REFUSED(field, bad, good, len) do { \
		pkt.field = bad; \
		fake_deliver(fx.link, &pkt, len); \
		cr_expect_eq(fx.engine->stats.bad_packets, ++cnt, #field); \
		cr_expect_eq(fake.links, 0, #field); \
		cr_expect_eq(fake.log_cnt, 0, #field); \
		if (!fake.links) \
			peer_up(true); \
		pkt.field = good; \
	} while (0)
	REFUSED(hdr.op, 0, htole32(1), whole);
	REFUSED(hdr.flags, htole16(TAGRV_RMA_MORE), 0, whole);
	REFUSED(hdr.flags, htole16(TAGRV_RMA_KEYS), 0, whole);
	REFUSED(pull.addr, htole64(BASE), htole64(BASE), HDR + 23);
	REFUSED(pull.addr, htole64(BASE), htole64(BASE), whole - 1);
	REFUSED(pull.addr, htole64(BASE), htole64(BASE), whole + 1);
	REFUSED(pull.len, 0, htole64(100), whole);
	REFUSED(pull.len, htole64(99), htole64(100), whole);
	REFUSED(pull.len, htole64(101), htole64(100), whole);
	REFUSED(pull.len, htole64(TAGRV_MAX_MSG + 1), htole64(100), whole);
	REFUSED(pull.len, htole64(UINT64_MAX), htole64(100), whole);
	REFUSED(pull.seg_cnt, 0, 1, HDR + 24);
	REFUSED(pull.seg_cnt, 5, 1, HDR + 24 + 5 * 32);
	REFUSED(pull.key_len, TAGRV_KEY_MAX + 1, 4, whole);
	REFUSED(seg[0].len, 0, htole64(100), whole);
	REFUSED(seg[0].len, htole64(UINT64_MAX), htole64(100), whole);
#undef REFUSED
}

Test(rma_pull, a_peer_with_more_than_64_pulls_is_given_up)
{
	fake.refuse_all = true;
	for (uint32_t i = 1; i <= 64; i++)
		arrive_pull(i, BASE, LEN, mine);
	expect_fine();
	arrive_pull(65, BASE, LEN, mine);
	expect_given_up();
}
