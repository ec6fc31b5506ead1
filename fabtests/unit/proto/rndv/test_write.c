/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by write: both halves, every way it can end, and what a peer must
 * not do.
 */
#include <string.h>

#include "unit/proto/rndv/rndv_fixture.h"

#define BIG	((size_t) 3 << 20)

static void setup(void)
{
	rndv_setup(BIG);
}

TestSuite(rndv_write, .init = setup, .fini = rndv_teardown, .timeout = 20);

/* ---- receiver ---- */

struct told {
	struct tagrv_hdr hdr;
	struct tagrv_cts cts;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};

/* A matched receive that asks to be written to; what it told the sender. */
static struct told ask(size_t room)
{
	struct told told;

	engine_set_rndv(TAGRV_PROTO_RNDV_WRITE);
	cr_assert_eq(submit_recv(dst, room, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	cr_assert_eq(last(TAGRV_PKT_CTS).op, 99);
	cr_assert_eq(last(TAGRV_PKT_CTS).data, 0);
	memcpy(&told, fake.log[fake.log_cnt - 1].data,
	       fake.log[fake.log_cnt - 1].len);
	return told;
}

Test(rndv_write, receiver_tells_where_to_and_ends_by_done)
{
	struct told told = ask(BIG);

	cr_assert_eq(le64toh(told.cts.want), BIG);
	cr_assert_eq(told.cts.seg_cnt, 1);
	cr_assert_eq(le64toh(told.seg[0].addr), (uintptr_t) dst);
	cr_assert_eq(le64toh(told.seg[0].len), BIG);
	cr_assert_eq(fake.regs, 1);
	memcpy(dst, src, BIG);
	expect_empty(&fx.rx);
	arrive_control(TAGRV_PKT_DONE, le32toh(told.cts.op), 0);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_eq(fake.regs, 0);
	last(TAGRV_PKT_CTS);	/* nobody waits for a FIN */
	cr_assert_eq(fx.engine->stats.moved_rx[TAGRV_PROTO_RNDV_WRITE], 1);
}

Test(rndv_write, only_what_fits_is_offered)
{
	struct told told = ask(1000);
	struct tagrv_comp comp;

	cr_assert_eq(le64toh(told.cts.want), 1000);
	cr_assert_eq(le64toh(told.seg[0].len), 1000);
	arrive_control(TAGRV_PKT_DONE, le32toh(told.cts.op), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ETRUNC);
	cr_assert_eq(comp.olen, BIG - 1000);
}

Test(rndv_write, scattered_receive_is_offered_in_segments)
{
	struct tagrv_recv_req req = recv_req(dst, BIG, 4, ctx);
	struct iovec iov[4] = {
		{ dst, 1000 }, { dst + 1000, 0 }, { dst + 5000, 70000 },
		{ dst + 100000, BIG - 100000 },
	};
	struct told told;

	engine_set_rndv(TAGRV_PROTO_RNDV_WRITE);
	req.iov = iov;
	req.iov_cnt = 4;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	arrive_rts(src, 72000, 4, 99);
	last(TAGRV_PKT_CTS);
	memcpy(&told, fake.log[fake.log_cnt - 1].data,
	       fake.log[fake.log_cnt - 1].len);
	cr_assert_eq(told.cts.seg_cnt, 3);
	cr_assert_eq(le64toh(told.seg[1].addr), (uintptr_t) dst + 5000);
	cr_assert_eq(le64toh(told.seg[2].len), 1000);
	arrive_control(TAGRV_PKT_DONE, le32toh(told.cts.op), FI_EIO);
	cr_assert_eq(take(&fx.rx).err, FI_EIO);
}

Test(rndv_write, without_remote_reads_it_is_written)
{
	fake.base.attr.caps = TAGRV_XPORT_PUT;
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	last(TAGRV_PKT_CTS);
	cr_assert_eq(fake.regs, 1);
	/* What the other side asks for counts, too, as far as it can be done. */
	fake.reg_error = -FI_ENOMEM;
	cr_assert_eq(submit_recv(dst, 1000, 5, ctx), 0);
	arrive_rts_bare(BIG, 5, 98);
	cr_assert_eq(last(TAGRV_PKT_CTS).data, 1000, "in copies");
}

Test(rndv_write, delivery_is_answered)
{
	struct told told = ask(BIG);
	struct tagrv_hdr done = {
		.opcode = TAGRV_PKT_DONE,
		.op = told.cts.op,
		.flags = htole16(TAGRV_PKT_ACK_DELIVERY),
	};

	fake_deliver(fx.link, &done, sizeof(done));
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 99);
	cr_assert_eq(take(&fx.rx).err, 0);
}

Test(rndv_write, sender_that_cannot_write_gets_grants)
{
	size_t frag = FAKE_PACKET_MAX - sizeof(struct tagrv_hdr);
	struct told told = ask(2 * frag);
	uint32_t taker = le32toh(told.cts.op);

	arrive_frag(taker, 0, src, 0);
	cr_assert_eq(fake.regs, 0);
	cr_assert_eq(last(TAGRV_PKT_GRANT).op, 99);
	cr_assert_eq(last(TAGRV_PKT_GRANT).data, 2 * frag);
	arrive_frag(taker, 0, src, frag);
	arrive_frag(taker, frag, src + frag, frag);
	cr_assert_eq(take(&fx.rx).err, FI_ETRUNC);
	cr_assert_arr_eq(src, dst, 2 * frag);
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 99);
}

Test(rndv_write, what_is_not_agreed_is_refused)
{
	for (int i = 0; i < 4; i++) {
		struct told told = ask(BIG);
		uint32_t taker = le32toh(told.cts.op);

		if (i == 0)
			arrive_frag(taker, 0, src, 100);
		if (i == 1)
			arrive_control(TAGRV_PKT_DONE, taker ^ 1u << 25, 0);
		if (i == 2)
			arrive_frag(taker, 1, src, 0);
		if (i == 3) {
			arrive_frag(taker, 0, src, 0);
			arrive_frag(taker, 0, src, 0);
		}
		expect_refused();
		cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
		expect_empty(&fx.rx);
		cr_assert_eq(fx.engine->pools.xfers.used, 0);
		cr_assert_eq(dst[0], 0);
		peer_up(true);
	}
}

/* The link's end, not its failure: the peer may be writing until then. */
Test(rndv_write, exposed_receive_ends_with_its_link)
{
	ask(BIG);
	fake.hold_closed = true;
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	expect_empty(&fx.rx);
	cr_assert_eq(fake.regs, 1);
	fake_close_held();
	cr_assert_eq(take(&fx.rx).err, FI_EHOSTUNREACH);
	expect_empty(&fx.rx);
	cr_assert_eq(fake.regs, 0);
}

Test(rndv_write, receive_that_told_nobody_ends_at_once)
{
	engine_set_rndv(TAGRV_PROTO_RNDV_WRITE);
	fake.refuse_all = true;
	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts(src, BIG, 4, 99);
	cr_assert_eq(fake.log_cnt, 0);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.rx).err, FI_EHOSTUNREACH);
}

/* ---- sender ---- */

static bool no_room;	/* for what is to be written, so far */

/* Sends BIG bytes and is told to write 'want' of them to dst, in two pieces. */
static uint32_t write_to(uint64_t flags, size_t want)
{
	struct told told = {
		.hdr.opcode = TAGRV_PKT_CTS,
		.cts = { .want = htole64(want), .op = htole32(55),
			 .seg_cnt = 2, .key_len = 4 },
		.seg = {
			{ .addr = htole64((uintptr_t) dst),
			  .len = htole64(want / 3) },
			{ .addr = htole64((uintptr_t) dst + want / 3),
			  .len = htole64(want - want / 3) },
		},
	};
	uint32_t handle;

	cr_assert_eq(submit_send(src, BIG, 4, ctx, flags), 0);
	handle = last(TAGRV_PKT_RTS).op;
	told.hdr.op = htole32(handle);
	fake.refuse_all = no_room;
	fake_deliver(fx.link, &told, offsetof(struct told, seg[2]));
	return handle;
}

/* Completes writes until there are no more. */
static void write_all(int status)
{
	size_t before;

	do {
		before = fake.log_cnt;
		for (size_t i = 0; i < fake.log_cnt; i++)
			if (fake.log[i].kind == FAKE_PUT)
				fake_complete(i, status);
		tagrv_engine_progress(fx.engine);
	} while (fake.log_cnt != before);
}

Test(rndv_write, sender_writes_says_done_and_ends)
{
	write_to(0, BIG);
	cr_assert_eq(fake.log[1].kind, FAKE_PUT);
	expect_empty(&fx.tx);
	write_all(0);
	cr_assert_eq(take(&fx.tx).context, ctx);
	cr_assert_arr_eq(src, dst, BIG);
	cr_assert_eq(last(TAGRV_PKT_DONE).op, 55);
	cr_assert_eq(last(TAGRV_PKT_DONE).data, 0);
	cr_assert_eq(last(TAGRV_PKT_DONE).flags, 0);
	cr_assert_eq(fake.regs, 0);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_WRITE], 1);
}

Test(rndv_write, done_follows_at_once_where_order_is_kept)
{
	fake.base.attr.caps |= TAGRV_XPORT_PUT_FENCED;
	write_to(0, 3000);
	cr_assert_eq(last(TAGRV_PKT_DONE).op, 55);
	expect_empty(&fx.tx);
	write_all(0);
	cr_assert_eq(take(&fx.tx).err, 0);
	last(TAGRV_PKT_DONE);
	cr_assert_eq(fake.log_cnt, 4, "RTS, two writes, one DONE");
}

/* Nothing else waits for the peer: the receiver would wait for ever. */
Test(rndv_write, done_without_room_behind_late_writes_is_sent_later)
{
	fake.base.attr.caps |= TAGRV_XPORT_PUT_FENCED;
	no_room = true;
	write_to(0, 3000);
	cr_assert_eq(fake.log_cnt, 1, "RTS");
	fake.refuse_all = false;
	fake.ctrl_error = -FI_EAGAIN;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3, "two writes");
	fake.ctrl_error = 0;
	write_all(0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(last(TAGRV_PKT_DONE).op, 55);
	cr_assert_eq(fake.log_cnt, 4);
}

Test(rndv_write, done_that_cannot_be_sent_ends_the_sender_once)
{
	fake.base.attr.caps |= TAGRV_XPORT_PUT_FENCED;
	fake.ctrl_error = -FI_EMSGSIZE;
	write_to(0, 3000);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(take(&fx.tx).err, FI_EMSGSIZE);
	expect_empty(&fx.tx);
	cr_assert_eq(fake.regs, 0);
}

Test(rndv_write, delivery_waits_for_the_answer)
{
	uint32_t handle = write_to(FI_DELIVERY_COMPLETE, 3000);

	write_all(0);
	cr_assert_eq(last(TAGRV_PKT_DONE).flags, TAGRV_PKT_ACK_DELIVERY);
	expect_empty(&fx.tx);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

/* The FIN arrives before the transport reports the end of the writes. */
Test(rndv_write, answer_may_be_faster_than_the_end_of_writes)
{
	for (int err = 0; err <= FI_EIO; err += FI_EIO) {
		uint32_t handle;

		fake.base.attr.caps |= TAGRV_XPORT_PUT_FENCED;
		handle = write_to(FI_DELIVERY_COMPLETE, 3000);
		cr_assert_eq(last(TAGRV_PKT_DONE).flags, TAGRV_PKT_ACK_DELIVERY);
		arrive_fin(handle, err);
		expect_empty(&fx.tx);
		arrive_fin(handle, 0);
		expect_ignored();
		write_all(0);
		cr_assert_eq(take(&fx.tx).err, err);
		expect_empty(&fx.tx);
		last(TAGRV_PKT_DONE);
	}
}

Test(rndv_write, failed_write_is_told_to_both)
{
	write_to(FI_DELIVERY_COMPLETE, BIG);
	write_all(-FI_EACCES);
	cr_assert_eq(take(&fx.tx).err, FI_EACCES);
	expect_empty(&fx.tx);
	cr_assert_eq(last(TAGRV_PKT_DONE).data, FI_EACCES);
	cr_assert_eq(last(TAGRV_PKT_DONE).flags, 0);
}

Test(rndv_write, fin_does_not_end_what_is_being_written)
{
	uint32_t handle = write_to(0, BIG);

	arrive_fin(handle, 0);
	expect_empty(&fx.tx);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	write_all(0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(rndv_write, link_error_ends_the_sender_once)
{
	for (int i = 0; i < 3; i++) {
		write_to(i == 2 ? FI_DELIVERY_COMPLETE : 0, i ? 3000 : BIG);
		if (i == 2)
			write_all(0);
		fake_break_link(fx.link, -FI_EHOSTUNREACH);
		cr_assert_eq(take(&fx.tx).err, FI_EHOSTUNREACH);
		expect_empty(&fx.tx);
		cr_assert_eq(fake.regs, 0);
		peer_up(true);
	}
}

Test(rndv_write, sender_that_cannot_write_asks_for_grants)
{
	uint32_t handle;

	fake.base.attr.caps = TAGRV_XPORT_GET;
	handle = write_to(0, 3000);
	cr_assert_eq(last(TAGRV_PKT_FRAG).op, 55);
	cr_assert_eq(fake.log[fake.log_cnt - 1].len, 32);
	arrive_control(TAGRV_PKT_GRANT, handle, 3000);
	cr_assert_eq(fake.log[fake.log_cnt - 1].len, 32 + 3000);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(rndv_write, senseless_segments_are_refused)
{
	for (int i = 0; i < 5; i++) {
		struct told told = {
			.hdr.opcode = TAGRV_PKT_CTS,
			.cts = { .want = htole64(100), .op = htole32(55),
				 .seg_cnt = 1, .key_len = 4 },
			.seg[0].len = htole64(100),
		};
		size_t len = offsetof(struct told, seg[1]);

		cr_assert_eq(submit_send(src, BIG, 4, ctx, 0), 0);
		told.hdr.op = htole32(last(TAGRV_PKT_RTS).op);
		if (i == 0)
			told.seg[0].len = htole64(99);
		if (i == 1)
			told.cts.seg_cnt = 5;
		if (i == 2)
			told.cts.key_len = TAGRV_KEY_MAX + 1;
		if (i == 3)
			told.hdr.data = htole64(100);	/* writes or copies */
		if (i == 4)
			len--;
		fake_deliver(fx.link, &told, len);
		expect_refused();
		cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
		peer_up(true);
	}
}

/* The fixture's close finds what is left behind. */
Test(rndv_write, endpoint_closes_in_the_middle)
{
	ask(BIG);
	write_to(0, BIG);
}
