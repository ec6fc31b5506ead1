/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations whose target makes no call, with manual progress: a window that was
 * used once is used without its owner, where the transport can do that. Where it is, the peer
 * may use a key that its owner has given to another window.
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

/* ---- a key that names another window ---- */

enum { KEY_AGAIN = 4711, ROUNDS = 4, BETWEEN = 150 };

static struct fid_mr *region_again(struct fx *fx, struct guard *g)
{
	struct iovec iov = { .iov_base = g->data, .iov_len = LEN };

	return region_open(fx, &(struct region){ .iov = &iov, .key = KEY_AGAIN });
}

static void one(struct fx *fx, const struct window *w, enum onesided_kind kind, size_t len, uint8_t *buf)
{
	struct fi_context2 ctx;

	if (run_sends(fx->t)) {
		post(fx, w, kind, len, buf, &ctx);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = onesided_did(kind));
	}
}

/*
 * The target makes a new window with the key of the former, and tells its peer by another way
 * than a message. So the peer uses the key before tagrv has told it that the former is closed.
 */
static void again(struct test *t, enum onesided_kind kind)
{
	const struct fx_attr attr = { .caps = FI_MSG | FI_RMA, .tx_flags = FI_DELIVERY_COMPLETE };
	struct guard buf = guard_alloc(LEN), g[2] = { guard_alloc(LEN), guard_alloc(LEN) };
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &attr, KEYS_OFFSET);
	window_publish(&fx, &w, region_again(&fx, &g[0]), 0);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		struct guard *to = &g[round % 2];

		run_step("round %u", round);
		for (int i = 0; i < BETWEEN; i++)
			one(&fx, &w, kind, 64, buf.data);
		fx_barrier(&fx);
		CHECK_OK(fi_close(&w.mr->fid));
		guard_wipe(&g[0]);
		guard_wipe(&g[1]);
		pattern_fill(kind == DO_PUT ? buf.data : to->data, LEN, round);
		w.mr = region_again(&fx, to);
		run_barrier(t);
		one(&fx, &w, kind, LEN, buf.data);
		fx_barrier(&fx);
		CHECK(!run_sends(t) || kind == DO_PUT || pattern_check(buf.data, LEN, round) == LEN,
		      "what was read is not what the new window has");
		CHECK(!run_receives(t) || run_sends(t) || pattern_check(to->data, LEN, round) == LEN,
		      "the new window lacks what was written");
		CHECK(!guard_changed(&g[!(round % 2)], 0, LEN), "the former window has changed");
	}
	CHECK_OK(fi_close(&w.mr->fid));
	guard_free(&g[0]);
	guard_free(&g[1]);
	guard_free(&buf);
	fx_close(&fx);
}

static void again_reads(struct test *t)
{
	again(t, DO_GET);
}

static void again_writes(struct test *t)
{
	again(t, DO_PUT);
}

const struct test_case rma_alone_cases[] = {
	{ "rma_target_computes", "a window that was read before is read while the target makes no call", reads,
	  .ranks = 2 },
	{ "rma_target_computes_writes", "the same for writes", writes, .ranks = 2 },
	{ "rma_target_computes_delivery", "the same for writes with FI_DELIVERY_COMPLETE", deliveries,
	  .ranks = 2 },
	{ "rma_key_again", "a key that names another window is used before its peer is told of it, to read", again_reads,
	  .ranks = 2 },
	{ "rma_key_again_writes", "the same to write", again_writes, .ranks = 2 },
	{ 0 },
};
