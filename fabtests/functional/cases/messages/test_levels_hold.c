/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The promise of a completion level holds at the moment of the completion, by
 * every way a message can take: the sender may die (TRANSMIT), the receiver finds
 * the bytes in its buffer (DELIVERY, MATCH). Silent sends report their failure.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/ways.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>

enum { TAG_MESSAGE = 1, TAG_SECOND, STEPS = 4, MANY = 100 };

static const struct fx_attr plain;

/* A batched message is followed by an inject, which leaves no completion. */
static void send_message(struct fx *fx, const struct way *way, const struct guard *g,
			 uint64_t flags, struct fi_context2 *ctx)
{
	pattern_fill(g->data, g->len, g->len);
	SEND(fx, .call = CALL_MSG, .tagged = true, .buf = g->data, .len = g->len,
	     .addr = fx->peer, .tag = TAG_MESSAGE, .flags = way->flags | flags, .ctx = ctx);
	if (way->batched)
		SEND(fx, .call = CALL_INJECT, .tagged = true, .addr = fx->peer, .tag = TAG_SECOND);
}

static void post_receive(struct fx *fx, const struct guard *g, struct fi_context2 *ctx)
{
	RECV(fx, .tagged = true, .buf = g->data, .len = g->len, .addr = FI_ADDR_UNSPEC,
	     .tag = TAG_MESSAGE, .ctx = ctx);
}

/* ---- TRANSMIT: the sender is not needed any more ---- */

static void die_when_sent(struct fx *fx, const struct way *way)
{
	struct guard out = guard_alloc(way->len);
	struct fi_context2 ctx;

	send_message(fx, way, &out, FI_TRANSMIT_COMPLETE | FI_COMPLETION, &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	run_kill(fx->t, 0, RUN_MAY_DIE);
}

/* The receiver of an eager message makes no progress until the sender is dead. */
static void outlives(struct test *t, int number)
{
	const struct way *way = &ways[number];
	struct guard in = guard_alloc(way->len);
	struct fi_context2 ctx;
	struct fx fx;

	ways_open(t, &fx, way, &plain);
	if (run_receives(t))
		post_receive(&fx, &in, &ctx);
	fx_barrier(&fx);
	if (run_sends(t))
		die_when_sent(&fx, way);
	if (way->announced)
		fx_barrier(&fx);
	else
		run_barrier(t);
	COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = in.len,
		    .tag = TAG_MESSAGE);
	GUARD_HOLDS(&in, in.len, in.len);
	guard_free(&in);
	fx_close_now(&fx);
}

static void outlives_eager(struct test *t)
{
	outlives(t, WAY_EAGER);
}

static void outlives_batched(struct test *t)
{
	outlives(t, WAY_BATCHED);
}

static void outlives_prepared(struct test *t)
{
	outlives(t, WAY_PREPARED);
}

static void outlives_starved(struct test *t)
{
	outlives(t, WAY_STARVED);
}

static void outlives_get(struct test *t)
{
	outlives(t, WAY_GET);
}

static void outlives_put(struct test *t)
{
	outlives(t, WAY_PUT);
}

static void outlives_copy(struct test *t)
{
	outlives(t, WAY_COPY);
}

/* ---- DELIVERY, MATCH: the bytes are in the buffer ---- */

/* The sender makes a little progress; returns true in all ranks once it has the completion. */
static bool is_done(struct fx *fx, struct fi_context2 *ctx)
{
	struct run_gathered all;
	uint8_t done = 0;
	struct comp c;

	for (int i = 0; i < STEPS && !done && run_sends(fx->t); i++)
		done = comp_poll(fx, FX_TX, &c);
	if (done)
		COMP_SAME(fx, &c, .ctx = ctx, .flags = SENT_TAGGED);
	run_exchange(fx->t, &done, sizeof(done), &all, NULL, NULL);
	return all.data[0][0];
}

/* The receiver makes progress step by step, and none once the sender is done. */
static void placed_one(struct fx *fx, const struct way *way, uint64_t level, bool unexpected)
{
	struct guard out = guard_alloc(way->len), in = guard_alloc(way->len);
	bool receives = run_receives(fx->t);
	struct fi_context2 tx, rx, second;

	run_step("%s, level 0x%" PRIx64 "%s", way->name, level, unexpected ? ", unexpected" : "");
	if (receives && !unexpected)
		post_receive(fx, &in, &rx);
	fx_barrier(fx);
	if (run_sends(fx->t))
		send_message(fx, way, &out, level | FI_COMPLETION, &tx);
	if (unexpected)
		fx_barrier(fx);
	if (receives && unexpected)
		post_receive(fx, &in, &rx);
	while (!is_done(fx, &tx)) {
		FX_CHECK_MOVES(fx, "no completion");
		if (receives)
			fi_cq_read(fx->cq[FX_RX], NULL, 0);
	}
	if (receives) {
		GUARD_HOLDS(&in, in.len, in.len);
		COMP_EXPECT(fx, FX_RX, .ctx = &rx, .flags = GOT_TAGGED, .len = in.len,
			    .tag = TAG_MESSAGE);
	}
	if (receives && way->batched) {
		RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = TAG_SECOND, .ctx = &second);
		COMP_EXPECT(fx, FX_RX, .ctx = &second, .flags = GOT_TAGGED, .tag = TAG_SECOND);
	}
	fx_barrier(fx);
	guard_free(&out);
	guard_free(&in);
}

static void placed(struct test *t)
{
	for (int i = 0; i < WAY_COUNT; i++) {
		struct fx fx;

		ways_open(t, &fx, &ways[i], &plain);
		placed_one(&fx, &ways[i], FI_DELIVERY_COMPLETE, false);
		placed_one(&fx, &ways[i], FI_MATCH_COMPLETE, false);
		placed_one(&fx, &ways[i], FI_MATCH_COMPLETE, true);
		ways_close(&fx, &ways[i]);
	}
}

/* ---- errors ---- */

/* The receiver closes without a receive: the silent send must report an error. */
static void fails_one(struct test *t, const struct way *way)
{
	struct fx_attr attr = { .counters = true, .tx_bind = FI_SELECTIVE_COMPLETION };
	struct guard out = guard_alloc(way->len);
	struct fi_context2 ctx;
	struct comp c;
	struct fx fx;

	run_step("%s", way->name);
	ways_open(t, &fx, way, &attr);
	if (run_sends(t))
		send_message(&fx, way, &out, FI_MATCH_COMPLETE, &ctx);
	fx_barrier(&fx);
	if (!run_sends(t))
		fx_close_now(&fx);
	run_barrier(t);
	if (run_sends(t)) {
		do {
			COMP_WAIT(&fx, FX_TX, &c);
			CHECK(c.err, "an entry without error");
		} while (c.ctx != &ctx);
		CHECK(fi_cntr_readerr(fx.cntr[FX_TX]) > 0, "the counter has no error");
		fx_close_now(&fx);
	}
	guard_free(&out);
}

static void fails(struct test *t)
{
	for (int i = 0; i < WAY_COUNT; i++)
		fails_one(t, &ways[i]);
}

/* ---- cost: one acknowledgement for each message, and often less ---- */

static void expect_cost(struct fx *fx, const struct fi_tagrv_proto_stats *before, uint64_t sent,
			uint64_t acked)
{
	struct fi_tagrv_proto_stats now = ways_stats(fx);
	uint64_t acks = now.acks_tx - before->acks_tx;
	uint64_t packets = now.ack_packets_tx - before->ack_packets_tx;

	CHECK(now.eager_tx - before->eager_tx == sent, "%" PRIu64 " messages, not %" PRIu64,
	      now.eager_tx - before->eager_tx, sent);
	CHECK(now.announced_tx == before->announced_tx, "a small message was announced");
	CHECK(acks == acked, "%" PRIu64 " acknowledgements for %" PRIu64 " messages", acks, acked);
	CHECK(packets <= acked, "%" PRIu64 " packets for %" PRIu64 " messages", packets, acked);
}

static void send_matched(struct fx *fx, struct fi_context2 *ctx)
{
	SEND(fx, .call = CALL_MSG, .tagged = true, .addr = fx->peer, .tag = TAG_MESSAGE,
	     .flags = FI_MATCH_COMPLETE | FI_COMPLETION, .ctx = ctx);
}

static void post_empty(struct fx *fx, struct fi_context2 *ctx)
{
	RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = TAG_MESSAGE, .ctx = ctx);
}

static void cost_of_many(struct fx *fx)
{
	struct fi_tagrv_proto_stats before = ways_stats(fx);
	static struct fi_context2 ctx[MANY];
	bool sends = run_sends(fx->t);

	run_step("%d messages", MANY);
	for (int i = 0; i < MANY && !sends; i++)
		post_empty(fx, &ctx[i]);
	fx_barrier(fx);
	for (int i = 0; i < MANY && sends; i++)
		send_matched(fx, &ctx[i]);
	COMP_ANY_ORDER(fx, sends ? FX_TX : FX_RX, ctx, MANY);
	fx_barrier(fx);
	expect_cost(fx, &before, sends ? MANY : 0, sends ? 0 : MANY);
}

/* Each side answers the message it received, and waits until its own send has matched. */
static void cost_of_ping_pong(struct fx *fx)
{
	struct fi_tagrv_proto_stats before = ways_stats(fx);
	struct fi_context2 tx, rx;

	run_step("%d round trips", MANY);
	post_empty(fx, &rx);
	fx_barrier(fx);
	for (int i = 0; i < 2 * MANY; i++) {
		if (i % 2 == fx->t->rank) {
			send_matched(fx, &tx);
			COMP_EXPECT(fx, FX_TX, .ctx = &tx, .flags = SENT_TAGGED);
			continue;
		}
		COMP_EXPECT(fx, FX_RX, .ctx = &rx, .flags = GOT_TAGGED, .tag = TAG_MESSAGE);
		if (i + 2 < 2 * MANY)
			post_empty(fx, &rx);
	}
	fx_barrier(fx);
	expect_cost(fx, &before, MANY, MANY);
}

static void cost(struct test *t)
{
	struct fx fx;

	ways_open(t, &fx, &ways[WAY_EAGER], &plain);
	cost_of_many(&fx);
	cost_of_ping_pong(&fx);
	ways_close(&fx, &ways[WAY_EAGER]);
}

const struct test_case levels_hold_cases[] = {
	{ .name = "levels_outlives_eager", .run = outlives_eager,
	  .shows = "transmit complete: an eager message arrives although the sender dies" },
	{ .name = "levels_outlives_batched", .run = outlives_batched,
	  .shows = "the same of one that shares a packet" },
	{ .name = "levels_outlives_prepared", .run = outlives_prepared,
	  .shows = "the same of one that the device takes from where it lies" },
	{ .name = "levels_outlives_starved", .run = outlives_starved,
	  .shows = "the same of one that the peer had no room for" },
	{ .name = "levels_outlives_get", .run = outlives_get,
	  .shows = "the same of one that the receiver reads" },
	{ .name = "levels_outlives_put", .run = outlives_put,
	  .shows = "the same of one that the sender writes" },
	{ .name = "levels_outlives_copy", .run = outlives_copy,
	  .shows = "the same of one that is copied" },
	{ .name = "levels_placed", .run = placed, .self = true,
	  .shows = "delivery and match complete: the bytes are there without another call" },
	{ .name = "levels_fails", .run = fails,
	  .shows = "silent sends that never match tell of their failure" },
	{ .name = "levels_cost", .run = cost,
	  .shows = "match complete costs one acknowledgement for each message" },
	{ .name = NULL },
};
