/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by read: both halves, every way it can end.
 */
#include <string.h>

#include "unit/proto/rndv/rndv_fixture.h"

#define BIG	((size_t) 3 << 20)

static void setup(void)
{
	rndv_setup(BIG);
}

TestSuite(rndv, .init = setup, .fini = rndv_teardown, .timeout = 20);

/* Completes reads and serves until nothing moves; returns the reads done. */
static size_t read_all(void)
{
	size_t reads = 0, before;

	do {
		before = fake.log_cnt;
		for (size_t i = 0; i < fake.log_cnt; i++)
			if (fake.log[i].kind == FAKE_GET && !fake.log[i].ended) {
				fake_complete(i, 0);
				reads++;
			}
		tagrv_engine_progress(fx.engine);
	} while (fake.log_cnt != before);
	return reads;
}

/* The last recorded packet is a FIN with this handle. */
static void expect_fin(uint32_t handle, uint32_t status)
{
	struct tagrv_hdr hdr = packet_header(fake.log_cnt - 1);

	cr_assert_eq(hdr.opcode, TAGRV_PKT_FIN);
	cr_assert_eq(hdr.op, handle);
	cr_assert_eq(hdr.data, status);
	cr_assert(fake.log[fake.log_cnt - 1].flags & TAGRV_SEND_CTRL);
}

Test(rndv, sender_sends_rts_and_ends_at_fin)
{
	struct tagrv_hdr hdr;
	struct tagrv_rts rts;

	cr_assert_eq(submit_send(src, BIG, 4, ctx, 0), 0);
	hdr = packet_header(0);
	cr_assert_eq(hdr.opcode, TAGRV_PKT_RTS);
	memcpy(&rts, fake.log[0].data + 32, sizeof(rts));
	cr_assert_eq(le64toh(rts.len), BIG);
	cr_assert_eq(rts.seg_cnt, 1);
	cr_assert_eq(fake.log[0].len, 32 + 16 + 32);
	cr_assert_eq(fake.regs, 1);
	fake_complete_all(0);
	expect_empty(&fx.tx);
	arrive_fin(hdr.op, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
	cr_assert_eq(fake.regs, 0);
	arrive_fin(hdr.op, 0);
	expect_empty(&fx.tx);
	cr_assert_eq(fx.engine->stats.bad_packets, 1, "a second FIN is refused");
}

Test(rndv, expected_message_is_read_in_segments)
{
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	expect_empty(&fx.rx);
	cr_assert_geq(read_all(), 6);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_arr_eq(src, dst, BIG);
	expect_fin(99, 0);
	cr_assert_eq(fake.regs, 0);
}

Test(rndv, unexpected_message_is_read_when_posted)
{
	arrive_rts(src, BIG, 4, 99);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	read_all();
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_arr_eq(src, dst, BIG);
	expect_fin(99, 0);
}

Test(rndv, scattered_receive_meets_scattered_send)
{
	struct tagrv_recv_req req = recv_req(dst, BIG, 4, ctx);
	struct iovec iov[4] = {
		{ dst, 1000 }, { dst + 1000, 0 }, { dst + 1000, 70000 },
		{ dst + 71000, BIG - 71000 },
	};

	req.iov = iov;
	req.iov_cnt = 4;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	arrive_rts(src, BIG, 4, 99);
	read_all();
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_arr_eq(src, dst, BIG);
}

Test(rndv, too_long_reads_what_fits_and_frees_the_sender)
{
	struct tagrv_comp comp;

	cr_assert_eq(submit_recv(dst, 1000, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	read_all();
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ETRUNC);
	cr_assert_eq(comp.len, 1000);
	cr_assert_eq(comp.olen, BIG - 1000);
	cr_assert_arr_eq(src, dst, 1000);
	cr_assert_eq(dst[1000], 0);
	expect_fin(99, 0);
}

Test(rndv, empty_buffer_reads_nothing_and_frees_the_sender)
{
	cr_assert_eq(submit_recv(NULL, 0, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	cr_assert_eq(take(&fx.rx).err, FI_ETRUNC);
	expect_fin(99, 0);
}

/* Memory that is not there: copying to it would be no better. */
Test(rndv, receive_into_nothing_fails_and_frees_the_sender)
{
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	fake.reg_error = -FI_EFAULT;
	arrive_rts(src, BIG, 4, 99);
	cr_assert_eq(take(&fx.rx).err, FI_EFAULT);
	expect_fin(99, FI_EFAULT);
}

Test(rndv, send_from_nothing_fails_alone)
{
	fake.reg_error = -FI_EFAULT;
	cr_assert_eq(submit_send(src, BIG, 4, &ctx[0], 0), 0);
	cr_assert_eq(submit_send("x", 1, 4, &ctx[1], 0), 0);
	cr_assert_eq(take(&fx.tx).err, FI_EFAULT);
	cr_assert_eq(take(&fx.tx).context, &ctx[1]);
	cr_assert_eq(packet_header(0).seq, 0);
}

Test(rndv, link_error_while_reading_ends_the_receive_once)
{
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.rx).err, FI_EHOSTUNREACH);
	expect_empty(&fx.rx);
	cr_assert_eq(fake.regs, 0);
}

Test(rndv, link_error_before_any_read_ends_the_receive)
{
	fake.refuse_all = true;
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.rx).err, FI_EHOSTUNREACH);
}

Test(rndv, link_error_ends_the_waiting_sender_and_its_late_fin_is_refused)
{
	uint32_t handle;

	cr_assert_eq(submit_send(src, BIG, 4, ctx, 0), 0);
	handle = packet_header(0).op;
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.tx).err, FI_EHOSTUNREACH);
	peer_up(true);
	arrive_fin(handle, 0);
	expect_empty(&fx.tx);
	cr_assert_eq(fake.regs, 0);
}

/* The receive whose message is lost with its connection. */
static struct tagrv_comp take_reset(void *context)
{
	struct tagrv_comp comp = take(&fx.rx);

	cr_assert_eq(comp.err, FI_ECONNRESET);
	cr_assert_eq(comp.context, context);
	cr_assert_eq(comp.src, fx.peer_addr);
	return comp;
}

/* In its turn, and only the receive that it would have matched. */
/* Else a peer that reads it would take the refusal for an error of its own. */
Test(rndv, memory_stays_readable_until_the_link_is_closed)
{
	cr_assert_eq(submit_send(src, BIG, 4, ctx, 0), 0);
	cr_assert_eq(fake.regs, 1);
	fake_break_link(fx.link, -FI_EIO);
	cr_assert_eq(take(&fx.tx).err, FI_EIO);
	cr_assert_eq(fake.regs, 0);
	cr_assert_eq(fake.regs_at_close, 1);
}

Test(rndv, requests_of_a_dead_connection_fail_their_receive)
{
	struct tagrv_comp comp;

	arrive_eager("old", 3, 4, 0, 0);
	arrive_rts(src, BIG, 4, 99);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	expect_empty(&fx.rx);
	peer_up(true);
	arrive_eager("new", 3, 4, 0, 0);
	cr_assert_eq(submit_recv(dst, BIG, 4, &ctx[0]), 0);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_eq(submit_recv(dst, BIG, 4, &ctx[1]), 0);
	comp = take_reset(&ctx[1]);
	cr_assert_eq(comp.tag, 4);
	cr_assert_eq(comp.len, 0);
	cr_assert_eq(atomic_load(&fx.rx_cntr.err), 1);
	cr_assert_eq(submit_recv(dst, BIG, 4, &ctx[2]), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, 0);
	cr_assert_arr_eq(dst, "new", 3);
	cr_assert_eq(fake.log_cnt, 0, "nobody is told");
	cr_assert_eq(fx.engine->pools.umsgs.used, 0);
}

/* The buffer is none the poorer for it. */
Test(rndv, requests_of_a_dead_connection_leave_a_multi_receive_buffer)
{
	struct tagrv_recv_req req;
	struct tagrv_comp comp;

	arrive_rts(src, BIG, 4, 99);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	req = recv_req(dst, 100, 4, ctx);
	req.flags |= FI_MULTI_RECV;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	comp = take_reset(ctx);
	cr_assert_eq(comp.flags & FI_MULTI_RECV, 0);
	peer_up(true);
	arrive_eager("new", 3, 4, 0, 0);
	cr_assert_eq(take(&fx.rx).buf, dst);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, ctx), 0);
	take(&fx.rx);
}

/* A receive that fails is one, claimed or not: it counts. */
Test(rndv, requests_of_a_dead_connection_fail_their_claim)
{
	struct tagrv_recv_req req;
	struct tagrv_comp comp;

	arrive_rts(src, BIG, 4, 99);
	req = recv_req(NULL, 0, 4, ctx);
	req.flags |= FI_PEEK | FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).err, 0);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	req = recv_req(dst, BIG, 4, ctx);
	req.flags |= FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	comp = take_reset(ctx);
	cr_assert_eq(comp.len, 0);
	cr_assert_eq(atomic_load(&fx.rx_cntr.err), 1);
	cr_assert_eq(fx.engine->pools.umsgs.used, 0);
	cr_assert_eq(fx.engine->rx->ops.used, 0);
}

/* It can be looked at and dropped as any other. */
Test(rndv, requests_of_a_dead_connection_can_be_discarded)
{
	struct tagrv_recv_req req;

	arrive_rts(src, BIG, 4, 99);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	req = recv_req(NULL, 0, 4, ctx);
	req.flags |= FI_PEEK;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).len, BIG);
	req.flags |= FI_DISCARD;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_eq(fx.engine->pools.umsgs.used, 0);
}

Test(rndv, fin_without_room_is_sent_later)
{
	cr_assert_eq(submit_recv(NULL, 0, 4, ctx), 0);
	fake.refuse_all = true;
	arrive_rts(src, BIG, 4, 99);
	cr_assert_eq(fake.log_cnt, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	expect_fin(99, 0);
}

Test(rndv, fin_that_cannot_be_sent_ends_the_connection)
{
	fake.ctrl_error = -FI_EMSGSIZE;
	cr_assert_eq(submit_recv(NULL, 0, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	cr_assert_eq(fake.links, 0);
	fake.ctrl_error = 0;
	peer_up(true);
	cr_assert_eq(submit_recv(NULL, 0, 4, ctx), 0);
	fake.refuse_all = true;
	arrive_rts(src, BIG, 4, 99);
	cr_assert_eq(fake.links, 1);
	fake.refuse_all = false;
	fake.ctrl_error = -FI_EMSGSIZE;
	tagrv_engine_progress(fx.engine);
	fake_end_closed();
	cr_assert_eq(fake.links, 0);
}

Test(rndv, discard_frees_the_sender_without_reading)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, 4, ctx);

	arrive_rts(src, BIG, 4, 99);
	req.flags = FI_PEEK | FI_DISCARD;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).len, BIG);
	expect_fin(99, 0);
}

Test(rndv, malformed_requests_are_refused)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rts rts;
		struct tagrv_rts_seg seg;
	} pkt = {
		.hdr.opcode = TAGRV_PKT_RTS,
		.hdr.op = 5,
		.rts = { .len = htole64(100), .seg_cnt = 1, .key_len = 4 },
		.seg.len = htole64(100),
	};
	uint32_t cnt = 0;

#define REFUSED(field, bad, good) do { \
		pkt.field = bad; \
		fake_deliver(fx.link, &pkt, sizeof(pkt)); \
		cr_assert_eq(fx.engine->stats.bad_packets, ++cnt, #field); \
		cr_assert_eq(fake.links, 0, #field " ends the connection"); \
		peer_up(true); \
		pkt.field = good; \
	} while (0)
	REFUSED(rts.seg_cnt, 200, 1);
	REFUSED(rts.seg_cnt, 2, 1);
	REFUSED(rts.key_len, 17, 4);
	REFUSED(rts.len, htole64(UINT64_MAX), htole64(100));
	REFUSED(rts.len, htole64(99), htole64(100));
	REFUSED(seg.len, htole64(UINT64_MAX), htole64(100));
	REFUSED(seg.len, 0, htole64(100));
	REFUSED(hdr.op, 0, 5);
#undef REFUSED
}
