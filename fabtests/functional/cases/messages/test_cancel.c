/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_cancel: the receive completes exactly once, other receives are not affected.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <string.h>

static const struct fx_attr plain;

static void cancel(struct fx *fx, void *ctx)
{
	CHECK_OK(fi_cancel(&fx->ep->fid, ctx));
}

static void expect_cancelled(struct fx *fx, void *ctx)
{
	struct fi_cq_err_entry err = { 0 };

	COMP_EXPECT(fx, FX_RX, .ctx = ctx, .flags = FI_RECV, .err = FI_ECANCELED);
	CHECK_ERR(fi_cq_readerr(fx->cq[FX_RX], &err, 0), -FI_EAGAIN);
}

static void send_two(struct fx *fx)
{
	struct fi_context2 ctx[2];
	uint32_t value[2] = { 1, 2 };

	for (int i = 0; i < 2; i++)
		SEND(fx, .tagged = true, .buf = &value[i], .len = 4, .addr = fx->peer, .tag = 0xabc,
		     .ctx = &ctx[i]);
	COMP_ANY_ORDER(fx, FX_TX, ctx, 2);
}

/* The first of two receives is cancelled; its context is used again. */
static void first_of_two(struct test *t)
{
	struct fi_context2 ctx[2];
	uint32_t value[2] = { 0 };
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 2 && run_receives(t); i++)
		RECV(&fx, .tagged = true, .buf = &value[i], .len = 4, .addr = FI_ADDR_UNSPEC,
		     .tag = 0xabc, .ctx = &ctx[i]);
	if (run_receives(t)) {
		cancel(&fx, &ctx[0]);
		expect_cancelled(&fx, &ctx[0]);
	}
	fx_barrier(&fx);
	if (run_sends(t))
		send_two(&fx);
	if (run_receives(t)) {
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[1], .flags = GOT_TAGGED, .len = 4, .tag = 0xabc);
		RECV(&fx, .tagged = true, .buf = &value[0], .len = 4, .addr = FI_ADDR_UNSPEC,
		     .tag = 0xabc, .ctx = &ctx[0]);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .len = 4, .tag = 0xabc);
		CHECK(value[1] == 1 && value[0] == 2, "got %u, %u", value[1], value[0]);
	}
	fx_close(&fx);
}

static void untagged(struct test *t)
{
	struct fi_context2 ctx[3];
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 3; i++)
		RECV(&fx, .addr = FI_ADDR_UNSPEC, .ctx = &ctx[i]);
	cancel(&fx, &ctx[1]);
	expect_cancelled(&fx, &ctx[1]);
	for (int i = 0; i < 2; i++)
		SEND(&fx, .addr = fx.addr[t->rank], .ctx = &ctx[1]);
	COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[0], .flags = GOT_MSG);
	COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[2], .flags = GOT_MSG);
	for (int i = 0; i < 2; i++)
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx[1], .flags = SENT_MSG);
	fx_close(&fx);
}

/* Every third of many receives is cancelled, in no particular order. */
static void among_many(struct test *t)
{
	enum { N = 900 };
	static struct fi_context2 ctx[N], tx;
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (uint64_t i = 0; i < N; i++)
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = i % 7,
		     .ignore = i % 2 ? 0xff00 : 0, .ctx = &ctx[i]);
	for (int i = 0; i < N / 3; i++) {
		int victim = i * 7 % (N / 3) * 3;

		cancel(&fx, &ctx[victim]);
		expect_cancelled(&fx, &ctx[victim]);
	}
	for (uint64_t i = 0; i < N; i++) {
		if (i % 3 == 0)
			continue;
		SEND(&fx, .tagged = true, .addr = fx.addr[0], .tag = i % 7, .ctx = &tx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &tx, .flags = SENT_TAGGED);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[i], .flags = GOT_TAGGED, .tag = i % 7);
	}
	fx_close(&fx);
}

/* Cancelling a receive that is not posted gives no completion. */
static void unknown(struct test *t)
{
	struct fi_context2 done, never;
	struct fx fx;

	fx_open(t, &fx, &plain);
	(void)fi_cancel(&fx.ep->fid, &never);
	RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &done);
	SEND(&fx, .tagged = true, .addr = fx.addr[0], .tag = 1, .ctx = &never);
	COMP_EXPECT(&fx, FX_RX, .ctx = &done, .flags = GOT_TAGGED, .tag = 1);
	COMP_EXPECT(&fx, FX_TX, .ctx = &never, .flags = SENT_TAGGED);
	(void)fi_cancel(&fx.ep->fid, &done);
	COMP_NONE(&fx, 50);
	fx_close(&fx);
}

/* Of several receives with the same context fi_cancel cancels one. */
static void same_context(struct test *t)
{
	struct fi_context2 ctx;
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 3; i++)
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx);
	for (int i = 0; i < 3; i++) {
		cancel(&fx, &ctx);
		expect_cancelled(&fx, &ctx);
		COMP_NONE(&fx, 10);
	}
	fx_close(&fx);
}

/*
 * Cancels a receive whose message is already moving: it ends once, cancelled or
 * not, and the send completes either way.
 */
static void under_way_one(struct fx *fx, const struct guard *g, uint64_t tag)
{
	struct fi_context2 ctx;
	struct comp c;

	if (run_receives(fx->t))
		RECV(fx, .tagged = true, .buf = g->data, .len = g->len, .addr = FI_ADDR_UNSPEC,
		     .tag = tag, .ctx = &ctx);
	fx_barrier(fx);
	if (run_sends(fx->t)) {
		pattern_fill(g->data, g->len, tag);
		SEND(fx, .tagged = true, .buf = g->data, .len = g->len, .addr = fx->peer, .tag = tag,
		     .ctx = &ctx);
		fx_barrier(fx);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
		return;
	}
	fx_barrier(fx);
	fx_idle(fx, (int)tag % 8);
	(void)fi_cancel(&fx->ep->fid, &ctx);
	COMP_WAIT(fx, FX_RX, &c);
	if (!c.err) {
		COMP_SAME(fx, &c, .ctx = &ctx, .flags = GOT_TAGGED, .len = g->len, .tag = tag);
		GUARD_HOLDS(g, g->len, tag);
		return;
	}
	COMP_SAME(fx, &c, .ctx = &ctx, .flags = FI_RECV, .err = FI_ECANCELED);
	RECV(fx, .tagged = true, .buf = g->data, .len = g->len, .addr = FI_ADDR_UNSPEC, .tag = tag,
	     .ctx = &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = g->len, .tag = tag);
}

static void under_way(struct test *t)
{
	struct guard g = guard_alloc(4 << 20);
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (uint64_t i = 0; i < 24; i++) {
		run_step("round %d", (int)i);
		guard_wipe(&g);
		under_way_one(&fx, &g, i);
		fx_barrier(&fx);
		COMP_NONE(&fx, 0);
	}
	guard_free(&g);
	fx_close(&fx);
}

const struct test_case cancel_cases[] = {
	{ "cancel_first_of_two", "the other receive and the context live on", first_of_two, .self = true },
	{ "cancel_untagged", "an untagged receive", untagged, .ranks = 1 },
	{ "cancel_among_many", "300 of 900 receives; the order of the rest stays", among_many, .ranks = 1 },
	{ "cancel_unknown", "nothing pending, nothing reported", unknown, .ranks = 1 },
	{ "cancel_same_context", "one cancel, one receive", same_context, .ranks = 1 },
	{ "cancel_under_way", "a receive in progress ends exactly once", under_way, .ranks = 2 },
	{ 0 },
};
