/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion levels: when a send completes, and that the sender may reuse its buffer.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <inttypes.h>
#include <string.h>

enum how { BY_OPERATION, BY_DEFAULT };

static const size_t sizes[] = { 0, 64, 1024, 9000, 100000, 1 << 20 };

enum { SIZE_COUNT = sizeof(sizes) / sizeof(sizes[0]) };

static void open_level(struct test *t, struct fx *fx, uint64_t level, enum how how)
{
	struct fx_attr wanted = { .tx_flags = level };
	struct fx_attr attr = { .tx_flags = how == BY_DEFAULT ? level : 0 };
	struct fi_info *info;

	if (fx_try_info(t, &wanted, &info))
		run_skip("the provider refuses op_flags 0x%" PRIx64, level);
	fi_freeinfo(info);
	fx_open(t, fx, &attr);
}

static void send_at(struct fx *fx, const struct guard *g, uint64_t tag, uint64_t level, enum how how,
		    struct fi_context2 *ctx)
{
	pattern_fill(g->data, g->len, tag);
	SEND(fx, .call = how == BY_DEFAULT ? CALL_BUF : CALL_MSG, .tagged = true, .buf = g->data,
	     .len = g->len, .addr = fx->peer, .tag = tag, .flags = level, .ctx = ctx);
}

/*
 * The sender overwrites its buffer as soon as it may: after the call for
 * FI_INJECT, after the completion otherwise.
 */
static void reuse_send(struct fx *fx, size_t len, uint64_t tag, uint64_t level, enum how how)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	send_at(fx, &g, tag, level, how, &ctx);
	if (level & FI_INJECT)
		guard_wipe(&g);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	guard_wipe(&g);
	guard_free(&g);
}

static void reuse_recv(struct fx *fx, size_t len, uint64_t tag, int delay)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	fx_idle(fx, delay);
	RECV(fx, .tagged = true, .buf = g.data, .len = len, .addr = FI_ADDR_UNSPEC, .tag = tag,
	     .ctx = &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = len, .tag = tag);
	GUARD_HOLDS(&g, len, tag);
	guard_free(&g);
}

static void reuse_sizes(struct fx *fx, uint64_t level, enum how how)
{
	for (uint64_t i = 0; i < 2 * SIZE_COUNT; i++) {
		size_t len = sizes[i / 2];

		run_step("level 0x%" PRIx64 ", %s, %zu bytes", level,
			 how == BY_DEFAULT ? "default" : "per operation", len);
		if (level & FI_INJECT && len > fx->info->tx_attr->inject_size)
			continue;
		fx_barrier(fx);
		if (run_sends(fx->t))
			reuse_send(fx, len, i, level, how);
		else
			reuse_recv(fx, len, i, i & 1 ? 5 : 0);
	}
}

static void reuse(struct test *t, uint64_t level)
{
	struct fx fx;

	open_level(t, &fx, level, BY_DEFAULT);
	reuse_sizes(&fx, level, BY_DEFAULT);
	fx_close(&fx);
	open_level(t, &fx, level, BY_OPERATION);
	reuse_sizes(&fx, level, BY_OPERATION);
	fx_close(&fx);
}

static void inject(struct test *t)
{
	reuse(t, FI_INJECT);
}

static void inject_complete(struct test *t)
{
	reuse(t, FI_INJECT_COMPLETE);
}

static void transmit_complete(struct test *t)
{
	reuse(t, FI_TRANSMIT_COMPLETE);
}

static void delivery_complete(struct test *t)
{
	reuse(t, FI_DELIVERY_COMPLETE);
}

static void match_complete(struct test *t)
{
	reuse(t, FI_MATCH_COMPLETE);
}

/* The receiver checks its buffer before it reads any completion. */
static void placed_one(struct fx *fx, size_t len, uint64_t tag, uint64_t level, enum how how)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	if (!run_sends(fx->t))
		RECV(fx, .tagged = true, .buf = g.data, .len = len, .addr = FI_ADDR_UNSPEC,
		     .tag = tag, .ctx = &ctx);
	fx_barrier(fx);
	if (run_sends(fx->t)) {
		send_at(fx, &g, tag, level, how, &ctx);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	}
	fx_barrier(fx);
	if (!run_sends(fx->t)) {
		GUARD_HOLDS(&g, len, tag);
		COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = len, .tag = tag);
	}
	guard_free(&g);
}

static void placed(struct test *t)
{
	struct fx fx;

	for (int how = 0; how < 2; how++) {
		open_level(t, &fx, FI_DELIVERY_COMPLETE, how);
		for (uint64_t i = 0; i < SIZE_COUNT; i++) {
			run_step("%zu bytes", sizes[i]);
			placed_one(&fx, sizes[i], i, FI_DELIVERY_COMPLETE, how);
		}
		fx_close(&fx);
	}
}

static void match_waits_one(struct fx *fx, size_t len, uint64_t tag, enum how how)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	if (run_sends(fx->t))
		send_at(fx, &g, tag, FI_MATCH_COMPLETE, how, &ctx);
	COMP_NONE(fx, 150);
	fx_barrier(fx);
	COMP_NONE(fx, 0);
	fx_barrier(fx);
	if (run_sends(fx->t))
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	else
		reuse_recv(fx, len, tag, 0);
	guard_free(&g);
}

/* The send does not complete while no receive is posted. */
static void match_waits(struct test *t)
{
	struct fx fx;

	for (int how = 0; how < 2; how++) {
		open_level(t, &fx, FI_MATCH_COMPLETE, how);
		for (uint64_t i = 0; i < SIZE_COUNT; i++) {
			run_step("%zu bytes", sizes[i]);
			match_waits_one(&fx, sizes[i], i, how);
		}
		fx_close(&fx);
	}
}

/* A discarded message counts as matched. */
static void match_discard(struct test *t)
{
	struct guard g = guard_alloc(1000);
	struct fi_context2 ctx;
	struct comp c;
	struct fx fx;

	open_level(t, &fx, FI_MATCH_COMPLETE, BY_DEFAULT);
	if (run_sends(t)) {
		send_at(&fx, &g, 1, 0, BY_DEFAULT, &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	} else {
		do {
			RECV(&fx, .call = CALL_MSG, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1,
			     .flags = FI_PEEK | FI_DISCARD, .ctx = &ctx);
			COMP_WAIT(&fx, FX_RX, &c);
			FX_CHECK_MOVES(&fx, "the message is never found");
		} while (c.err == FI_ENOMSG);
		CHECK(!c.err, "peek: error %d", c.err);
	}
	guard_free(&g);
	fx_close(&fx);
}

/* FI_DELIVERY_COMPLETE needs no receive: a buffered message counts as delivered. */
static void delivery_unmatched(struct test *t)
{
	struct fi_context2 ctx;
	struct fx fx;

	open_level(t, &fx, FI_DELIVERY_COMPLETE, BY_DEFAULT);
	if (run_sends(t)) {
		SEND(&fx, .tagged = true, .addr = fx.peer, .tag = 1, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	}
	fx_barrier(&fx);
	if (!run_sends(t))
		reuse_recv(&fx, 0, 1, 0);
	fx_close(&fx);
}

enum { MIXED = 300, MIXED_LEN = 256 };

static uint64_t mixed_flags(int i)
{
	static const uint64_t level[] = {
		0, FI_INJECT, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
		FI_MATCH_COMPLETE,
	};

	return level[i % 6] | (i % 4 ? FI_MORE : 0) | (i % 5 ? FI_COMPLETION : 0);
}

static size_t mixed_len(const struct fx *fx, int i)
{
	size_t len = (size_t)i * 7 % MIXED_LEN;
	size_t most = fx->info->tx_attr->inject_size;

	return mixed_flags(i) & FI_INJECT && len > most ? most : len;
}

/* Every send ends once and is counted; sends with FI_COMPLETION have an entry. */
static void mixed_send(struct fx *fx, struct guard *out)
{
	struct fi_context2 ctx[MIXED];
	size_t seen = 0;

	for (int i = 0; i < MIXED; i++) {
		uint64_t flags = mixed_flags(i);

		out[i] = guard_alloc(mixed_len(fx, i));
		pattern_fill(out[i].data, out[i].len, (uint64_t)i);
		SEND(fx, .call = CALL_MSG, .tagged = i & 1, .buf = out[i].data, .len = out[i].len,
		     .addr = fx->peer, .tag = 7, .flags = flags,
		     .ctx = flags & FI_COMPLETION ? &ctx[seen++] : NULL);
	}
	CHECK_OK(fi_cntr_wait(fx->cntr[FX_TX], MIXED, -1));
	COMP_ANY_ORDER(fx, FX_TX, ctx, seen);
	for (int i = 0; i < MIXED; i++)
		guard_free(&out[i]);
}

static void mixed_post(struct fx *fx, struct guard *in, struct fi_context2 *ctx)
{
	for (int i = 0; i < MIXED; i++) {
		in[i] = guard_alloc(MIXED_LEN);
		RECV(fx, .tagged = i & 1, .buf = in[i].data, .len = MIXED_LEN,
		     .addr = FI_ADDR_UNSPEC, .tag = 7, .ctx = &ctx[i]);
	}
}

/* Receives match in order, tagged and untagged ones apart: receive i gets message i of its kind. */
static void mixed_recv(struct fx *fx, struct guard *in, struct fi_context2 *ctx)
{
	COMP_ANY_ORDER(fx, FX_RX, ctx, MIXED);
	for (int i = 0; i < MIXED; i++) {
		GUARD_HOLDS(&in[i], mixed_len(fx, i), (uint64_t)i);
		guard_free(&in[i]);
	}
}

static void mixed(struct test *t)
{
	struct fx_attr wanted = { .tx_flags = FI_MATCH_COMPLETE };
	struct fx_attr attr = { .counters = true, .tx_bind = FI_SELECTIVE_COMPLETION };
	struct fi_context2 ctx[MIXED];
	struct guard buf[MIXED];
	struct fi_info *info;
	struct fx fx;

	if (fx_try_info(t, &wanted, &info))
		run_skip("the provider refuses FI_MATCH_COMPLETE");
	fi_freeinfo(info);
	for (int late = 0; late < 2; late++) {
		run_step(late ? "receives posted late" : "receives posted before");
		fx_open(t, &fx, &attr);
		if (run_receives(t) && !late)
			mixed_post(&fx, buf, ctx);
		fx_barrier(&fx);
		if (run_sends(t))
			mixed_send(&fx, buf);
		if (run_receives(t) && late) {
			fx_idle(&fx, 50);
			mixed_post(&fx, buf, ctx);
		}
		if (run_receives(t))
			mixed_recv(&fx, buf, ctx);
		fx_barrier(&fx);
		COMP_NONE(&fx, 20);
		fx_close(&fx);
	}
}

const struct test_case level_cases[] = {
	{ "level_inject", "FI_INJECT frees the buffer at once and completes", inject, .ranks = 2 },
	{ "level_inject_complete", "FI_INJECT_COMPLETE frees the buffer at any size", inject_complete, .ranks = 2 },
	{ "level_transmit_complete", "FI_TRANSMIT_COMPLETE frees the buffer", transmit_complete, .ranks = 2 },
	{ "level_delivery_complete", "FI_DELIVERY_COMPLETE frees the buffer", delivery_complete, .ranks = 2 },
	{ "level_match_complete", "FI_MATCH_COMPLETE frees the buffer", match_complete, .ranks = 2 },
	{ "level_delivery_placed", "delivery complete: the posted buffer holds the data", placed, .ranks = 2 },
	{ "level_delivery_unmatched", "delivery complete does not wait for a receive", delivery_unmatched, .ranks = 2 },
	{ "level_match_waits", "match complete does not come before the receive", match_waits, .ranks = 2 },
	{ "level_mixed", "all levels in one burst, silent or seen, with FI_MORE or not", mixed, .ranks = 2 },
	{ "level_match_discard", "match complete comes when the message is discarded", match_discard, .ranks = 2 },
	{ 0 },
};
