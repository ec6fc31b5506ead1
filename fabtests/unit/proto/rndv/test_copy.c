/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by copies: both halves, what is granted, every way it can end, and
 * what a peer must not do.
 */
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"

#define FRAG	(FAKE_PACKET_MAX - sizeof(struct tagrv_hdr))
#define CNT	20
#define BIG	(CNT * FRAG - 100)
#define DEPTH	8

static char ctx[64];
static char *src, *dst;
static uint32_t bad_cnt;

static void setup(void)
{
	engine_setup();
	peer_up(true);
	bad_cnt = 0;
	src = malloc(BIG);
	dst = calloc(1, BIG + 1);
	for (size_t i = 0; i < BIG; i++)
		src[i] = (char) (i * 7 + (i >> 9));
}

static void teardown(void)
{
	engine_teardown();
	free(src);
	free(dst);
}

TestSuite(rndv_copy, .init = setup, .fini = teardown, .timeout = 20);

static struct tagrv_hdr last(uint8_t opcode)
{
	struct tagrv_hdr hdr = packet_header(fake.log_cnt - 1);

	cr_assert_eq(hdr.opcode, opcode, "last packet is %u", hdr.opcode);
	return hdr;
}

/* The CTS at the end of the log: what it grants, and the receive it names. */
static size_t cts_of(uint32_t handle, size_t want, uint32_t *taker)
{
	struct tagrv_hdr hdr = last(TAGRV_PKT_CTS);
	struct tagrv_cts cts;

	cr_assert_eq(fake.log[fake.log_cnt - 1].len, sizeof(hdr) + sizeof(cts));
	cr_assert(fake.log[fake.log_cnt - 1].flags & TAGRV_SEND_CTRL);
	memcpy(&cts, fake.log[fake.log_cnt - 1].data + sizeof(hdr), sizeof(cts));
	cr_assert_eq(hdr.op, handle);
	cr_assert_eq(le64toh(cts.want), want);
	*taker = le32toh(cts.op);
	return hdr.data;
}

static void frag(uint32_t taker, size_t i, size_t want)
{
	arrive_frag(taker, i * FRAG, src + i * FRAG,
		    TAGRV_MIN(FRAG, want - i * FRAG));
}

/* ---- receiver ---- */

Test(rndv_copy, receiver_asks_copies_and_answers)
{
	uint32_t taker;
	size_t granted;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	granted = cts_of(99, BIG, &taker);
	cr_assert_eq(granted, DEPTH * FRAG);
	for (size_t i = 0; i < CNT; i++) {
		cr_assert_lt(i * FRAG, granted);
		expect_empty(&fx.rx);
		frag(taker, i, BIG);
		if (packet_header(fake.log_cnt - 1).opcode == TAGRV_PKT_GRANT)
			granted = last(TAGRV_PKT_GRANT).data;
		cr_assert_leq(granted, (i + 1 + DEPTH) * FRAG);
	}
	cr_assert_eq(granted, BIG);
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 99);
	cr_assert_eq(last(TAGRV_PKT_FIN).data, 0);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_arr_eq(src, dst, BIG);
	cr_assert_eq(fx.engine->credit.frags, 0);
	cr_assert_eq(fx.engine->stats.moved_rx[TAGRV_PROTO_RNDV_COPY], 1);
	cr_assert_eq(fx.engine->pools.xfers.used, 0);
}

Test(rndv_copy, unregistrable_receive_is_copied)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	fake.reg_error = -FI_ENOMEM;
	arrive_rts(src, FRAG, 4, 99);
	cr_assert_eq(cts_of(99, FRAG, &taker), FRAG);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_arr_eq(src, dst, FRAG);
}

/* What could be registered is given back, and not looked at again. */
Test(rndv_copy, partly_registrable_memory_is_copied)
{
	struct tagrv_recv_req recv = recv_req(dst, FRAG, 4, ctx);
	struct tagrv_send_req send;
	struct iovec iov[2] = { { dst, 100 }, { dst + 100, FRAG - 100 } };
	uint32_t taker;

	fake.regs_max = 1;
	engine_set_rndv(TAGRV_PROTO_RNDV_WRITE);
	recv.iov = iov;
	recv.iov_cnt = 2;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &recv), 0);
	arrive_rts(src, FRAG, 4, 99);
	cr_assert_eq(cts_of(99, FRAG, &taker), FRAG);
	cr_assert_eq(fake.regs, 0);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
	/* A send tries again when there was no room for its RTS. */
	send = send_req(dst, FRAG, 4, ctx);
	send.iov = iov;
	send.iov_cnt = 2;
	fake.refuse = 2;
	cr_assert_eq(tagrv_engine_send(fx.engine, &send), 0);
	for (int i = 0; i < 3; i++)
		tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.regs, 0);
	arrive_fin(last(TAGRV_PKT_RTS).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(rndv_copy, without_remote_reads_it_is_copied)
{
	uint32_t taker;

	fake.base.attr.caps = 0;
	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	arrive_rts(src, FRAG, 4, 99);
	cts_of(99, FRAG, &taker);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
}

Test(rndv_copy, either_side_may_ask_for_it)
{
	uint32_t taker;

	engine_set_rndv(TAGRV_PROTO_RNDV_COPY);
	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	arrive_rts(src, FRAG, 4, 99);
	cts_of(99, FRAG, &taker);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
	/* And who was told to copy does not offer its memory. */
	cr_assert_eq(submit_send(src, BIG, 4, ctx, 0), 0);
	cr_assert_eq(fake.log[fake.log_cnt - 1].len, 32 + 16);
	cr_assert_eq(fake.log[fake.log_cnt - 1].data[32 + 10],
		     TAGRV_PROTO_RNDV_COPY);
	cr_assert_eq(fake.regs, 0);
	arrive_fin(last(TAGRV_PKT_RTS).op, 0);
}

Test(rndv_copy, scattered_receive_is_filled_in_place)
{
	struct tagrv_recv_req req = recv_req(dst, BIG, 4, ctx);
	struct iovec iov[4] = {
		{ dst, 1000 }, { dst + 1000, 0 }, { dst + 1000, FRAG },
		{ dst + 1000 + FRAG, BIG - 1000 - FRAG },
	};
	uint32_t taker;

	req.iov = iov;
	req.iov_cnt = 4;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	for (size_t i = 0; i < CNT; i++)
		frag(taker, i, BIG);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_arr_eq(src, dst, BIG);
}

Test(rndv_copy, only_what_fits_is_asked_for)
{
	struct tagrv_comp comp;
	uint32_t taker;

	arrive_rts_bare(BIG, 4, 99);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(submit_recv(dst, 1000, 4, ctx), 0);
	cr_assert_eq(cts_of(99, 1000, &taker), 1000);
	frag(taker, 0, 1000);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ETRUNC);
	cr_assert_eq(comp.olen, BIG - 1000);
	cr_assert_eq(dst[1000], 0);
	cr_assert_eq(last(TAGRV_PKT_FIN).data, 0);
}

Test(rndv_copy, grants_of_all_messages_are_bounded)
{
	uint32_t taker[10];
	size_t granted = 0, log;

	for (int i = 0; i < 10; i++) {
		cr_assert_eq(submit_recv(dst, BIG, (uint64_t) i, &ctx[i]), 0);
		log = fake.log_cnt;
		arrive_rts_bare(BIG, (uint64_t) i, 100 + (uint32_t) i);
		if (fake.log_cnt > log)
			granted += cts_of(100 + (uint32_t) i, BIG, &taker[i]);
	}
	cr_assert_eq(granted, DEPTH * DEPTH * FRAG);
	cr_assert_eq(fx.engine->credit.frags, DEPTH * DEPTH);
	/* What comes in is granted to those that wait. */
	log = fake.log_cnt;
	frag(taker[0], 0, BIG);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, log + 1);
	cr_assert_eq(cts_of(108, BIG, &taker[8]), FRAG);
}

Test(rndv_copy, cts_without_room_is_sent_later)
{
	uint32_t taker;

	fake.refuse_all = true;
	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	arrive_rts_bare(FRAG, 4, 99);
	cr_assert_eq(fake.log_cnt, 0);
	cr_assert_eq(fx.engine->credit.frags, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cts_of(99, FRAG, &taker);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).err, 0);
}

Test(rndv_copy, cts_that_cannot_be_sent_ends_the_receive_once)
{
	fake.ctrl_error = -FI_EMSGSIZE;
	cr_assert_eq(submit_recv(dst, FRAG, 4, ctx), 0);
	arrive_rts_bare(FRAG, 4, 99);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(take(&fx.rx).err, FI_EMSGSIZE);
	expect_empty(&fx.rx);
}

Test(rndv_copy, link_error_ends_receives_wherever_they_are)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, &ctx[0]), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	frag(taker, 0, BIG);
	fake.refuse_all = true;
	cr_assert_eq(submit_recv(dst, BIG, 5, &ctx[1]), 0);
	arrive_rts_bare(BIG, 5, 98);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.rx).err, FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.rx).err, FI_EHOSTUNREACH);
	expect_empty(&fx.rx);
	cr_assert_eq(fx.engine->credit.frags, 0);
	cr_assert_eq(fx.engine->pools.xfers.used, 0);
	/* Its old name means nothing to the next connection. */
	fake.refuse_all = false;
	peer_up(true);
	frag(taker, 1, BIG);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	cr_assert_eq(dst[FRAG], 0);
}

Test(rndv_copy, sender_gives_up)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	arrive_control(TAGRV_PKT_DONE, taker, FI_EIO);
	cr_assert_eq(take(&fx.rx).err, FI_EIO);
	cr_assert_eq(fx.engine->credit.frags, 0);
	last(TAGRV_PKT_CTS);	/* no FIN for a send that has ended */
}

/* ---- sender ---- */

/* Sends BIG bytes that cannot be registered; returns the handle. */
static uint32_t announce(uint64_t flags)
{
	struct tagrv_hdr hdr;

	fake.reg_error = -FI_ENOMEM;
	cr_assert_eq(submit_send(src, BIG, 4, ctx, flags), 0);
	fake.reg_error = 0;
	hdr = last(TAGRV_PKT_RTS);
	cr_assert_eq(fake.log[fake.log_cnt - 1].len, 32 + 16);
	return hdr.op;
}

/* Recorded packets from i on are the fragments from *next to end. */
static void expect_frags(size_t i, size_t *next, size_t end)
{
	for (; *next < end; i++) {
		struct tagrv_hdr hdr = packet_header(i);
		size_t len = TAGRV_MIN(FRAG, end - *next);

		cr_assert_eq(hdr.opcode, TAGRV_PKT_FRAG);
		cr_assert_eq(hdr.op, 55);
		cr_assert_eq(hdr.data, *next);
		cr_assert_eq(fake.log[i].len, sizeof(hdr) + len);
		cr_assert_not(fake.log[i].flags & TAGRV_SEND_CTRL);
		cr_assert_arr_eq(fake.log[i].data + sizeof(hdr), src + *next,
				 len);
		*next += len;
	}
	cr_assert_eq(fake.log_cnt, i, "nothing more");
}

Test(rndv_copy, sender_sends_what_is_granted_and_ends_at_fin)
{
	uint32_t handle = announce(0);
	size_t next = 0;

	arrive_cts(handle, 55, BIG, 2 * FRAG);
	expect_frags(1, &next, 2 * FRAG);
	arrive_control(TAGRV_PKT_GRANT, handle, 3 * FRAG);
	expect_frags(3, &next, 3 * FRAG);
	arrive_control(TAGRV_PKT_GRANT, handle, BIG);
	expect_frags(4, &next, BIG);
	expect_empty(&fx.tx);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_COPY], 1);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_READ], 0);
}

Test(rndv_copy, offered_memory_is_given_back_when_copies_are_asked_for)
{
	size_t next = 0;
	uint32_t handle;

	cr_assert_eq(submit_send(src, BIG, 4, ctx, 0), 0);
	cr_assert_eq(fake.regs, 1);
	handle = last(TAGRV_PKT_RTS).op;
	arrive_cts(handle, 55, 1000, 1000);
	cr_assert_eq(fake.regs, 0);
	expect_frags(1, &next, 1000);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(rndv_copy, fragments_without_room_are_sent_later)
{
	uint32_t handle = announce(0);
	size_t next = 0;

	fake.refuse_all = true;
	arrive_cts(handle, 55, BIG, 2 * FRAG);
	cr_assert_eq(fake.log_cnt, 1);
	arrive_control(TAGRV_PKT_GRANT, handle, BIG);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	expect_frags(1, &next, BIG);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(rndv_copy, link_error_ends_the_sender_in_every_state)
{
	for (int step = 0; step < 4; step++) {
		uint32_t handle = announce(0);

		fake.refuse_all = step == 3;
		if (step)
			arrive_cts(handle, 55, step == 2 ? FRAG : BIG, FRAG);
		fake_break_link(fx.link, -FI_EHOSTUNREACH);
		cr_assert_eq(take(&fx.tx).err, FI_EHOSTUNREACH);
		expect_empty(&fx.tx);
		fake.refuse_all = false;
		peer_up(true);
		arrive_fin(handle, 0);
		expect_empty(&fx.tx);
	}
}

Test(rndv_copy, small_message_without_credit_or_memory_is_sent)
{
	tagrv_peer_find(fx.engine, &fx.addr)->credit.left = 0;
	fake.reg_error = -FI_ENOMEM;
	cr_assert_eq(submit_send("abc", 3, 4, ctx, 0), 0);
	arrive_cts(last(TAGRV_PKT_RTS).op, 55, 3, 3);
	cr_assert_eq(last(TAGRV_PKT_FRAG).op, 55);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

/* ---- what a peer must not do ---- */

static void expect_refused(void)
{
	cr_assert_eq(fx.engine->stats.bad_packets, ++bad_cnt);
	cr_assert_eq(fake.links, 0, "the connection is given up");
}

/* Each: a receive that waits for fragment 1 of 20, and a packet. */
Test(rndv_copy, fragments_nobody_asked_for_are_refused)
{
	static const struct {
		size_t offset, len;
		int wrong;
	} bad[] = {
		{ 0, FRAG, 0 },			/* twice */
		{ 2 * FRAG, FRAG, 0 },		/* one left out */
		{ FRAG + 1, FRAG, 0 },
		{ SIZE_MAX, FRAG, 0 },
		{ FRAG, FRAG - 1, 0 },		/* not full */
		{ FRAG, 0, 0 },
		{ FRAG, FRAG, 1 },		/* another name */
	};
	uint32_t taker;

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(bad); i++) {
		memset(dst, 0, BIG);
		cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
		arrive_rts_bare(BIG, 4, 99);
		cts_of(99, BIG, &taker);
		frag(taker, 0, BIG);
		arrive_frag(taker ^ (bad[i].wrong ? 1u << 25 : 0),
			    bad[i].offset, src, bad[i].len);
		expect_refused();
		cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
		for (size_t b = FRAG; b < BIG; b++)
			cr_assert_eq(dst[b], 0);
		peer_up(true);
	}
}

Test(rndv_copy, more_than_was_granted_or_asked_for_is_refused)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	fake.refuse_all = true;		/* no grant goes out */
	for (size_t i = 0; i < DEPTH; i++)
		frag(taker, i, BIG);
	frag(taker, DEPTH, BIG);
	expect_refused();
	cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
	cr_assert_eq(dst[DEPTH * FRAG], 0);
	fake.refuse_all = false;
	peer_up(true);
	/* The last one is shorter than a packet: no longer one is taken. */
	cr_assert_eq(submit_recv(dst, 100, 4, ctx), 0);
	arrive_rts_bare(100, 4, 99);
	cts_of(99, 100, &taker);
	arrive_frag(taker, 0, src, 101);
	expect_refused();
	cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
	peer_up(true);
	/* And none after the end. */
	cr_assert_eq(submit_recv(dst, 100, 4, ctx), 0);
	arrive_rts_bare(100, 4, 99);
	cts_of(99, 100, &taker);
	arrive_frag(taker, 0, src, 100);
	cr_assert_eq(take(&fx.rx).err, 0);
	arrive_frag(taker, 0, src, 100);
	expect_refused();
}

Test(rndv_copy, success_before_the_last_fragment_is_refused)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	arrive_control(TAGRV_PKT_DONE, taker, 0);
	expect_refused();
	cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
}

Test(rndv_copy, senseless_grants_are_refused)
{
	static const struct {
		size_t want, granted;
		uint32_t taker, handle;
	} bad[] = {
		{ BIG + 1, FRAG, 55, 0 },
		{ SIZE_MAX, FRAG, 55, 0 },
		{ 0, 0, 55, 0 },
		{ BIG, 0, 55, 0 },
		{ BIG, FRAG + 1, 55, 0 },
		{ FRAG, 2 * FRAG, 55, 0 },
		{ BIG, FRAG, 0, 0 },
		{ BIG, FRAG, 55, 1 },
	};
	uint32_t handle;

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(bad); i++) {
		handle = announce(0);
		arrive_cts(handle ^ bad[i].handle, bad[i].taker, bad[i].want,
			   bad[i].granted);
		expect_refused();
		cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
		peer_up(true);
	}
	/* A second CTS, less than before, more than all, for nobody. */
	for (int i = 0; i < 4; i++) {
		handle = announce(0);
		arrive_cts(handle, 55, BIG, 2 * FRAG);
		if (!i)
			arrive_cts(handle, 55, BIG, 3 * FRAG);
		else
			arrive_control(TAGRV_PKT_GRANT,
				       i == 3 ? handle ^ 1 : handle,
				       i == 1 ? FRAG : (CNT + 1) * FRAG);
		expect_refused();
		cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
		peer_up(true);
	}
}

/* An eager send that waits for its ack was never announced. */
Test(rndv_copy, eager_send_cannot_be_asked_for)
{
	cr_assert_eq(submit_send("abc", 3, 4, ctx, FI_MATCH_COMPLETE), 0);
	arrive_cts(last(TAGRV_PKT_EAGER).op, 55, 3, 3);
	expect_refused();
	cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
}

/* ---- peek and the rest ---- */

Test(rndv_copy, discard_frees_the_sender_without_copying)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, 4, ctx);

	arrive_rts_bare(BIG, 4, 99);
	req.flags = FI_PEEK | FI_DISCARD;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).len, BIG);
	cr_assert_eq(last(TAGRV_PKT_FIN).op, 99);
}

Test(rndv_copy, claimed_message_is_copied)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, 4, ctx);
	uint32_t taker;

	arrive_rts_bare(FRAG, 4, 99);
	req.flags = FI_PEEK | FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	take(&fx.rx);
	req = recv_req(dst, FRAG, 4, ctx);
	req.flags |= FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cts_of(99, FRAG, &taker);
	frag(taker, 0, FRAG);
	cr_assert_eq(take(&fx.rx).len, FRAG);
}

/* The fixture's close finds what is left behind. */
Test(rndv_copy, endpoint_closes_in_the_middle)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	frag(taker, 0, BIG);
	arrive_cts(announce(0), 55, BIG, 2 * FRAG);
}
