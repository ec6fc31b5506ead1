/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How one-sided operations count: at the initiator, at the target's endpoint, and at a
 * region (FI_RMA_EVENT).
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/window.h"

#include <inttypes.h>
#include <sched.h>

enum { LEN = 4096, COUNT = 20, LARGE = 1 << 20 };

/*
 * Waits for the value. Reading a counter of the endpoint moves everything; that of a
 * region need not.
 */
static void await_value(struct fx *fx, struct fid_cntr *cntr, uint64_t value, const char *what)
{
	bool own = false;

	for (int i = 0; i < FX_ONESIDED; i++)
		own = own || cntr == fx->onesided[i];
	while (fi_cntr_read(cntr) < value) {
		if (!own)
			fx_progress(fx);
		FX_CHECK_MOVES(fx, "%s: %" PRIu64 " of %" PRIu64 " counted, %" PRIu64 " errors", what,
			       fi_cntr_read(cntr), value, fi_cntr_readerr(cntr));
		sched_yield();
	}
	CHECK(fi_cntr_read(cntr) == value, "%s: %" PRIu64 " counted, want %" PRIu64, what,
	      fi_cntr_read(cntr), value);
}

static void expect_four(struct fx *fx, uint64_t reads, uint64_t writes, uint64_t far_reads,
			uint64_t far_writes)
{
	await_value(fx, fx->onesided[FX_READ], reads, "reads");
	await_value(fx, fx->onesided[FX_WRITE], writes, "writes");
	await_value(fx, fx->onesided[FX_REMOTE_READ], far_reads, "reads of peers");
	await_value(fx, fx->onesided[FX_REMOTE_WRITE], far_writes, "writes of peers");
	for (int i = 0; i < FX_ONESIDED; i++)
		CHECK(!fi_cntr_readerr(fx->onesided[i]), "counter %d has errors", i);
}

static void post(struct fx *fx, struct window *w, enum onesided_kind kind, enum msg_call call,
		 struct guard *g, size_t len)
{
	static struct fi_context2 ctx;

	ONESIDED(fx, .kind = kind, .call = call, .buf = g->data, .len = len, .addr = fx->peer,
		 .at = window_at(w, window_peer(fx), 0), .key = w->key[window_peer(fx)],
		 .type = FI_UINT64, .op = FI_SUM, .result = g->data + LARGE, .compare = g->data,
		 .ctx = &ctx);
}

/* 20 writes, 10 of them injected, and 20 reads, one of each large: no entry, but counts. */
static void write_and_read(struct fx *fx, struct window *w, struct guard *g)
{
	for (int i = 0; i < COUNT; i++) {
		post(fx, w, DO_PUT, i & 1 ? CALL_INJECT : CALL_BUF, g, i ? 8 : LARGE);
		post(fx, w, DO_GET, CALL_BUF, g, i ? 8 : LARGE);
	}
}

/* The initiator's counters, without FI_RMA_EVENT at the target. */
static void initiator(struct test *t)
{
	struct fx_attr attr = {
		.caps = FI_MSG | FI_RMA, .counters = true, .onesided_counters = true,
		.tx_bind = FI_SELECTIVE_COMPLETION,
	};
	struct guard g = guard_alloc(2 * LARGE);
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, LARGE, 0);
	if (run_sends(t)) {
		write_and_read(&fx, &w, &g);
		CHECK_OK(fi_cntr_wait(fx.onesided[FX_WRITE], COUNT, -1));
		CHECK_OK(fi_cntr_wait(fx.onesided[FX_READ], COUNT, -1));
		await_value(&fx, fx.onesided[FX_WRITE], COUNT, "writes");
		await_value(&fx, fx.onesided[FX_READ], COUNT, "reads");
		CHECK(!fi_cntr_read(fx.cntr[FX_TX]), "the counter of sends counts something");
	}
	COMP_NONE(&fx, 5);
	fx_barrier(&fx);
	window_close(&w);
	guard_free(&g);
	fx_close(&fx);
}

static const struct fx_attr event = {
	.caps = FI_MSG | FI_RMA | FI_RMA_EVENT, .onesided_counters = true,
	.tx_bind = FI_SELECTIVE_COMPLETION,
};

/* The target's endpoint counts each operation of a peer once, however long it is. */
static void target(struct test *t)
{
	struct guard g = guard_alloc(2 * LARGE);
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &event, KEYS_ANY);
	window_open(&fx, &w, LARGE, 0);
	if (run_sends(t))
		write_and_read(&fx, &w, &g);
	if (t->ranks == 1)
		expect_four(&fx, COUNT, COUNT, COUNT, COUNT);
	else if (run_sends(t))
		expect_four(&fx, COUNT, COUNT, 0, 0);
	else
		expect_four(&fx, 0, 0, COUNT, COUNT);
	fx_barrier(&fx);
	COMP_NONE(&fx, 0);
	window_close(&w);
	guard_free(&g);
	fx_close(&fx);
}

/* Base atomics are writes to counters, those that return something are reads. */
static void atomics(struct test *t)
{
	struct fx_attr attr = event;
	struct guard g = guard_alloc(2 * LARGE);
	struct window w;
	struct fx fx;

	attr.caps |= FI_ATOMIC;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, LARGE, 0);
	for (int i = 0; run_sends(t) && i < 4; i++) {
		post(&fx, &w, DO_ATOMIC, i & 1 ? CALL_INJECT : CALL_BUF, &g, 8);
		post(&fx, &w, DO_FETCH, CALL_BUF, &g, 8);
	}
	if (t->ranks == 1)
		expect_four(&fx, 4, 4, 4, 4);
	else if (run_sends(t))
		expect_four(&fx, 4, 4, 0, 0);
	else
		expect_four(&fx, 0, 0, 4, 4);
	fx_barrier(&fx);
	window_close(&w);
	guard_free(&g);
	fx_close(&fx);
}

/* When a count is seen, the bytes are there: nothing else tells the target. */
static void follows_data(struct test *t)
{
	struct guard g = guard_alloc(LARGE);
	static struct fi_context2 ctx;
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &event, KEYS_ANY);
	window_open(&fx, &w, LARGE, 0);
	for (uint64_t i = 1; i <= COUNT; i++) {
		size_t len = i % 3 ? 8 * i : LARGE;

		if (run_sends(t)) {
			pattern_fill(g.data, len, i);
			ONESIDED(&fx, .kind = DO_PUT, .buf = g.data, .len = len, .addr = fx.peer,
				 .at = window_at(&w, window_peer(&fx), 0),
				 .key = w.key[window_peer(&fx)], .ctx = &ctx);
			CHECK_OK(fi_cntr_wait(fx.onesided[FX_WRITE], i, -1));
		}
		if (run_receives(t)) {
			await_value(&fx, fx.onesided[FX_REMOTE_WRITE], i, "writes of peers");
			CHECK(pattern_check(w.g.data, len, i) == len, "count %" PRIu64
			      " came before the bytes", i);
		}
		fx_barrier(&fx);
	}
	window_close(&w);
	guard_free(&g);
	fx_close(&fx);
}

static struct fid_cntr *open_counter(struct fx *fx)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC };
	struct fid_cntr *cntr;

	CHECK_OK(fi_cntr_open(fx->domain, &attr, &cntr, NULL));
	return cntr;
}

/* Two regions, each with its own counter of writes: each counts what touches it. */
static void regions(struct test *t, int mr_mode)
{
	struct fx_attr attr = event;
	struct fid_cntr *cntr[2];
	struct guard g = guard_alloc(LARGE);
	struct window w[2];
	struct fx fx;

	attr.mr_mode = mr_mode;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	for (int i = 0; i < 2; i++) {
		struct iovec iov;

		cntr[i] = open_counter(&fx);
		w[i].g = guard_alloc(LEN);
		iov = (struct iovec){ .iov_base = w[i].g.data, .iov_len = LEN };
		window_publish(&fx, &w[i], region_open(&fx, &(struct region){ .iov = &iov,
			       .cntr = cntr[i], .events = FI_REMOTE_WRITE }), region_base(&fx, &iov));
	}
	for (int i = 0; run_sends(t) && i < COUNT; i++) {
		post(&fx, &w[i % 4 == 3], DO_PUT, CALL_BUF, &g, LEN);
		post(&fx, &w[0], DO_GET, CALL_BUF, &g, LEN);
	}
	if (run_receives(t)) {
		await_value(&fx, cntr[0], COUNT / 4 * 3, "writes to the first region");
		await_value(&fx, cntr[1], COUNT / 4, "writes to the second region");
	}
	if (run_sends(t)) {
		await_value(&fx, fx.onesided[FX_WRITE], COUNT, "writes");
		await_value(&fx, fx.onesided[FX_READ], COUNT, "reads");
	}
	fx_barrier(&fx);
	for (int i = 0; i < 2; i++) {
		window_close(&w[i]);
		CHECK_OK(fi_close(&cntr[i]->fid));
	}
	guard_free(&g);
	fx_close(&fx);
}

static void regions_plain(struct test *t)
{
	regions(t, 0);
}

static void regions_enabled(struct test *t)
{
	regions(t, FI_MR_RMA_EVENT);
}

/* What fetches also changes the region: its owner, who waits for any change, must see it. */
static void region_fetches(struct test *t)
{
	struct fx_attr attr = event;
	struct guard g = guard_alloc(2 * LARGE);
	struct fid_cntr *cntr;
	struct window w;
	struct fx fx;

	attr.caps |= FI_ATOMIC;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, LEN, 0);
	cntr = open_counter(&fx);
	CHECK_OK(fi_mr_bind(w.mr, &cntr->fid, FI_REMOTE_WRITE));
	fx_barrier(&fx);
	for (uint64_t i = 1; i <= COUNT; i++) {
		if (run_sends(t))
			post(&fx, &w, i % 2 ? DO_FETCH : DO_ATOMIC, CALL_BUF, &g, 8);
		if (run_receives(t))
			await_value(&fx, cntr, i, "changes of the region");
		fx_barrier(&fx);
	}
	if (run_sends(t)) {
		await_value(&fx, fx.onesided[FX_READ], COUNT / 2, "fetching atomics");
		await_value(&fx, fx.onesided[FX_WRITE], COUNT / 2, "atomics");
	}
	fx_barrier(&fx);
	window_close(&w);
	CHECK_OK(fi_close(&cntr->fid));
	guard_free(&g);
	fx_close(&fx);
}

const struct test_case rma_counter_cases[] = {
	{ "rma_counter_initiator", "writes and reads are counted, injected ones too", initiator, .self = true },
	{ "rma_counter_target", "the target counts each operation of its peers", target, .self = true },
	{ "rma_counter_atomics", "atomics count as writes, fetching ones as reads", atomics, .self = true },
	{ "rma_counter_follows_data", "what was counted at the target is in place", follows_data, .self = true },
	{ "rma_counter_regions", "a region's counter counts writes to this region", regions_plain, .self = true },
	{ "rma_counter_regions_enabled", "the same with FI_MR_RMA_EVENT", regions_enabled, .self = true },
	{ "rma_counter_region_fetches", "a region's counter of writes counts fetching atomics, too", region_fetches, .self = true },
	{ 0 },
};
