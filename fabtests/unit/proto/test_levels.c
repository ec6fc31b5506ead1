/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion levels: what a send waits for, by every protocol, over a transport
 * whose completions come late. Each way is played event by event, and each level
 * must end with one event: not before it, not after it, and once.
 *
 *   event     none, INJECT   TRANSMIT   DELIVERY   MATCH
 *   eager     TAKEN          WIRE       ACK        ACK
 *   get, copy ACK            ACK        ACK        ACK
 *   put       WIRE           ACK        ACK        ACK
 */
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"

#define BIG	((size_t) 100000)

static char ctx[4];
static char *src, *dst;

static void setup(void)
{
	engine_setup();
	peer_up(true);
	src = calloc(1, BIG);
	dst = calloc(1, BIG);
}

static void teardown(void)
{
	engine_teardown();
	free(src);
	free(dst);
}

TestSuite(levels, .init = setup, .fini = teardown, .timeout = 20);

/* In the order in which they happen to one message. */
enum event {
	TAKEN,		/* the transport has taken the packet */
	ANSWERED,	/* the peer's answer to an RTS has come, if there is one */
	WIRE,		/* the transport says that all it has is done */
	ACK,		/* the peer's FIN has come */
	EVENTS,
};

enum way { ALONE, TOGETHER, SMALL_RTS, GET, PUT, PUT_FENCED, COPY, WAYS };

static const uint64_t levels[] = {
	0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
	FI_MATCH_COMPLETE,
};

static enum event last_event(enum way way, uint64_t level)
{
	bool above = level & ~FI_INJECT_COMPLETE;

	if (way == PUT || way == PUT_FENCED)
		return above ? ACK : WIRE;
	if (way != ALONE && way != TOGETHER)
		return ACK;
	if (level == FI_TRANSMIT_COMPLETE)
		return WIRE;
	return above ? ACK : TAKEN;
}

static size_t sent_before;	/* packets, before the message */

static struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

static void submit(enum way way, uint64_t flags)
{
	struct tagrv_send_req req;

	sent_before = fake.log_cnt;
	req = send_req(src, way > SMALL_RTS ? BIG : 100, 7, &ctx[0]);
	req.flags = flags;
	fake.refuse_all = way == TOGETHER;
	if (way == SMALL_RTS)
		peer()->credit.left = 0;
	if (way == COPY)
		engine_set_rndv(TAGRV_PROTO_RNDV_COPY);
	fake.base.attr.caps &= ~(uint32_t) TAGRV_XPORT_PUT_FENCED;
	if (way == PUT_FENCED)
		fake.base.attr.caps |= TAGRV_XPORT_PUT_FENCED;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	if (way == TOGETHER) {
		req = send_req("", 0, 8, NULL);
		req.no_context = true;
		cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
		fake.refuse_all = false;
		tagrv_engine_progress(fx.engine);
		cr_assert_eq(sent_items(sent_before), 2);
	}
}

/* The handle by which the peer knows the message; 0: it was told none. */
static uint32_t handle_of(enum way way)
{
	return way == TOGETHER ? sent_item(sent_before, 0).item.op :
				 packet_header(sent_before).op;
}

static void answer(enum way way)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_cts cts;
		struct tagrv_rts_seg seg[1];
	} cts = {
		.hdr.opcode = TAGRV_PKT_CTS,
		.hdr.op = htole32(handle_of(way)),
		.cts = { .want = htole64(BIG), .op = htole32(55),
			 .seg_cnt = 1, .key_len = 4 },
		.seg[0] = { .addr = htole64((uintptr_t) dst),
			    .len = htole64(BIG) },
	};

	if (way == PUT || way == PUT_FENCED)
		fake_deliver(fx.link, &cts, sizeof(cts));
	if (way == COPY)
		arrive_cts(handle_of(way), 55, BIG, BIG);
}

/* A DONE says whether it shall be answered. */
static bool acks(enum way way)
{
	if (way != PUT && way != PUT_FENCED)
		return handle_of(way);
	return packet_header(fake.log_cnt - 1).flags & TAGRV_PKT_ACK_DELIVERY;
}

static void happen(enum way way, enum event event)
{
	if (event == ANSWERED)
		answer(way);
	if (event == WIRE)
		fake_complete_all(0);
	if (event == ACK && acks(way))
		arrive_fin(handle_of(way), 0);
	tagrv_engine_progress(fx.engine);
}

/* seen: it asked for an entry. */
static void play(enum way way, uint64_t level, bool seen)
{
	uint64_t before = atomic_load(&fx.tx_cntr.value);
	/* What the other one of two that travel together counts. */
	uint64_t extra = way == TOGETHER;

	submit(way, level | (seen ? FI_COMPLETION : 0));
	for (enum event event = TAKEN; event < EVENTS; event++) {
		uint64_t want = event >= last_event(way, level);

		happen(way, event);
		cr_assert_eq(atomic_load(&fx.tx_cntr.value) - before,
			     want + extra, "way %d, level %#llx, event %d", way,
			     (unsigned long long) level, event);
		if (event == last_event(way, level) && seen)
			cr_assert_eq(take(&fx.tx).context, &ctx[0]);
		expect_empty(&fx.tx);
	}
	cr_assert_eq(fx.engine->stats.bad_packets, 0, "nobody is acked twice");
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
}

static void start_again(void)
{
	fake_break_link(fx.link, -FI_EIO);
	fake_forget();
	engine_set_rndv(TAGRV_PROTO_EAGER);
	peer_up(true);
}

Test(levels, every_level_ends_with_its_event_by_every_protocol)
{
	for (unsigned i = 0; i < WAYS * TAGRV_ARRAY_SIZE(levels) * 2; i++) {
		play(i / 2 % WAYS, levels[i / 2 / WAYS], i & 1);
		start_again();
	}
}

/* Silent ones, too: nobody learns of it otherwise. */
Test(levels, what_fails_is_told_whether_it_is_seen_or_not)
{
	uint64_t failed = 0;

	for (unsigned i = 0; i < WAYS * TAGRV_ARRAY_SIZE(levels) * 2; i++) {
		enum way way = i / 2 % WAYS;
		uint64_t level = levels[i / 2 / WAYS];

		if (last_event(way, level) == TAKEN)
			continue;
		submit(way, level | (i & 1 ? FI_COMPLETION : 0));
		start_again();
		cr_assert_eq(take(&fx.tx).context, &ctx[0]);
		expect_empty(&fx.tx);
		cr_assert_eq(atomic_load(&fx.tx_cntr.err), ++failed);
	}
}

/* An inject call has no entry, but it counts, at the level asked for. */
Test(levels, injects_count_at_their_level_and_are_not_seen)
{
	for (unsigned i = 0; i < 2 * TAGRV_ARRAY_SIZE(levels); i++) {
		enum way way = i & 1 ? SMALL_RTS : ALONE;
		uint64_t level = levels[i / 2];
		uint64_t before = atomic_load(&fx.tx_cntr.value);
		struct tagrv_send_req req;

		sent_before = fake.log_cnt;
		if (way == SMALL_RTS)
			peer()->credit.left = 0;
		memset(src, 1, 100);
		req = send_req(src, 100, 7, NULL);
		req.flags = FI_INJECT | level;
		req.no_context = true;
		cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
		memset(src, 2, 100);
		for (enum event event = TAKEN; event < EVENTS; event++) {
			happen(way, event);
			cr_assert_eq(atomic_load(&fx.tx_cntr.value) - before,
				     event >= last_event(way, level));
		}
		expect_empty(&fx.tx);
		start_again();
	}
}

/* ---- receiver: an ack is the last thing ---- */

static uint8_t last_opcode(void)
{
	return packet_header(fake.log_cnt - 1).opcode;
}

static void expect_ack_behind_data(size_t cnt)
{
	cr_assert_eq(fake.log_cnt, cnt);
	cr_assert_eq(last_opcode(), TAGRV_PKT_FIN);
	cr_assert_eq(fake.log[cnt - 1].watched, 'x', "the bytes come first");
	cr_assert_eq(take(&fx.rx).err, 0);
}

Test(levels, ack_of_an_eager_message_leaves_behind_its_bytes)
{
	fake.watch = dst;
	arrive_eager("x", 1, 1, TAGRV_PKT_ACK_MATCH, 77);
	cr_assert_eq(fake.log_cnt, 0, "it matched nothing");
	cr_assert_eq(submit_recv(dst, 1, 1, ctx), 0);
	expect_ack_behind_data(1);
	for (int match = 0; match < 2; match++) {
		dst[0] = 0;
		cr_assert_eq(submit_recv(dst, 1, 1, ctx), 0);
		arrive_eager("x", 1, 1, match ? TAGRV_PKT_ACK_MATCH :
						TAGRV_PKT_ACK_DELIVERY, 78);
		expect_ack_behind_data(2 + (size_t) match);
	}
}

Test(levels, ack_of_a_read_leaves_behind_its_bytes)
{
	memset(src, 'x', BIG);
	fake.watch = dst + BIG - 1;
	cr_assert_eq(submit_recv(dst, BIG, 1, ctx), 0);
	arrive_rts(src, BIG, 1, 77);
	cr_assert_eq(fake.log_cnt, 2);
	fake_complete(1, 0);
	cr_assert_eq(fake.log_cnt, 2, "half of it is here");
	fake_complete(0, 0);
	expect_ack_behind_data(3);
}

Test(levels, ack_of_copies_leaves_behind_their_bytes)
{
	size_t len = FAKE_PACKET_MAX - sizeof(struct tagrv_hdr);
	struct tagrv_cts cts;

	memset(src, 'x', BIG);
	fake.watch = dst + 2 * len - 1;
	cr_assert_eq(submit_recv(dst, BIG, 1, ctx), 0);
	arrive_rts_bare(2 * len, 1, 77);
	memcpy(&cts, fake.log[0].data + sizeof(struct tagrv_hdr), sizeof(cts));
	arrive_frag(le32toh(cts.op), 0, src, len);
	cr_assert_eq(fake.log_cnt, 1);
	arrive_frag(le32toh(cts.op), len, src, len);
	expect_ack_behind_data(2);
}

/* Nobody but the sender of DONE knows that the bytes are there. */
Test(levels, ack_of_writes_is_the_answer_to_done)
{
	struct tagrv_hdr done = {
		.opcode = TAGRV_PKT_DONE,
		.flags = htole16(TAGRV_PKT_ACK_DELIVERY),
	};
	struct tagrv_cts cts;

	fake.watch = dst;
	engine_set_rndv(TAGRV_PROTO_RNDV_WRITE);
	cr_assert_eq(submit_recv(dst, BIG, 1, ctx), 0);
	arrive_rts(src, BIG, 1, 77);
	memcpy(&cts, fake.log[0].data + sizeof(struct tagrv_hdr), sizeof(cts));
	dst[0] = 'x';
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	done.op = cts.op;
	fake_deliver(fx.link, &done, sizeof(done));
	expect_ack_behind_data(2);
}
