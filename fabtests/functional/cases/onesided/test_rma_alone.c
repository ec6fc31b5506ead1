/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations whose target makes no call, with manual progress: a window that was
 * used once is used without its owner, where the transport can do that.
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"
#include <sched.h>
#include <time.h>

enum { LEN = 1 << 20, PATIENCE_S = 4, HELPED = 4 };

static const struct fx_attr plain = { .caps = FI_MSG | FI_RMA };

static void post(struct fx *fx, const struct window *w, enum onesided_kind kind, size_t len,
		 uint8_t *buf, void *ctx)
{
	int rank = window_peer(fx);

	ONESIDED(fx, .kind = kind, .buf = buf, .len = len, .addr = fx->addr[rank],
		 .at = window_at(w, rank, 0), .key = w->key[rank], .ctx = ctx);
}

/* Whether the operation ends although the target makes no call. */
static bool ends_alone(struct fx *fx, const struct window *w, enum onesided_kind kind, size_t len,
		       uint8_t *buf)
{
	struct fi_context2 ctx;
	time_t begin = time(NULL);
	struct comp c;

	post(fx, w, kind, len, buf, &ctx);
	while (!comp_poll(fx, FX_TX, &c)) {
		if (time(NULL) - begin > PATIENCE_S)
			return false;
		sched_yield();
	}
	COMP_SAME(fx, &c, .ctx = &ctx, .flags = onesided_did(kind));
	return true;
}

/* What was sent besides the operation arrives, such as a key of the window. */
static void make_progress(struct fx *fx)
{
	struct comp c;

	for (int i = 0; i < 1000; i++)
		CHECK(!comp_poll(fx, FX_TX, &c), "a completion that nobody asked for");
}

/* One round: what was read is checked here, what was written at the target. */
static bool round_of(struct fx *fx, const struct window *w, enum onesided_kind kind, size_t len,
		     unsigned seed, struct guard *buf)
{
	guard_wipe(buf);
	if (kind == DO_PUT)
		pattern_fill(buf->data, len, seed);
	if (!ends_alone(fx, w, kind, len, buf->data))
		return false;
	CHECK(kind == DO_PUT || pattern_check(buf->data, len, 7) == len, "wrong bytes");
	return true;
}

static void alone(struct test *t, enum onesided_kind kind, uint64_t tx_flags)
{
	static const size_t lens[] = { LEN, 70000, 16384, 8 };
	struct guard buf = guard_alloc(LEN);
	struct fx_attr attr = plain;
	bool ended = true;
	struct window w;
	struct fx fx;

	attr.tx_flags = tx_flags;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, LEN, 0);
	pattern_fill(w.g.data, LEN, 7);
	fx_barrier(&fx);
	for (int i = 0; i < HELPED; i++) {
		if (run_sends(t))
			round_of(&fx, &w, kind, LEN, 8, &buf);
		make_progress(&fx);
		fx_barrier(&fx);
	}
	/* A packet to the target and back may be faster than a short read. */
	for (unsigned i = 0; run_sends(t) && ended && i < (kind == DO_PUT ? 4 : 3); i++)
		ended = round_of(&fx, &w, kind, lens[i], 9 + i, &buf);
	run_barrier(t);
	if (!ended)
		run_skip("this provider, or its transport, needs the target for %s",
			 onesided_name(kind));
	fx_barrier(&fx);
	if (kind == DO_PUT && run_receives(t) && !run_sends(t))
		CHECK(pattern_check(w.g.data, 8, 12) == 8,
		      "the window has other bytes than were written");
	window_close(&w);
	guard_free(&buf);
	fx_close(&fx);
}

static void reads(struct test *t)
{
	alone(t, DO_GET, 0);
}

static void writes(struct test *t)
{
	alone(t, DO_PUT, 0);
}

static void deliveries(struct test *t)
{
	alone(t, DO_PUT, FI_DELIVERY_COMPLETE);
}

const struct test_case rma_alone_cases[] = {
	{ "rma_target_computes", "a window that was read before is read while the target makes no call", reads,
	  .ranks = 2 },
	{ "rma_target_computes_writes", "the same for writes", writes, .ranks = 2 },
	{ "rma_target_computes_delivery", "the same for writes with FI_DELIVERY_COMPLETE", deliveries,
	  .ranks = 2 },
	{ 0 },
};
