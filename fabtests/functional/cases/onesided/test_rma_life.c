/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations and the life of connections and processes: the first operation of
 * all, many at once, targets that die.
 */
#include "cases/cases.h"
#include "framework/arithmetic.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/pending.h"
#include "framework/window.h"

#include <stdlib.h>
#include <string.h>

enum { LEN = 1 << 20, MANY = 1000, DYING = 48 };

static const struct fx_attr plain = { .caps = FI_MSG | FI_RMA | FI_ATOMIC };

/* What each kind needs to be posted; the operand of atomics is 1. */
static void post_kind(struct fx *fx, const struct window *w, int rank, enum onesided_kind kind,
		      void *buf, size_t at, size_t len, void *result, void *ctx)
{
	ONESIDED(fx, .kind = kind, .buf = buf, .len = len, .addr = fx->addr[rank],
		 .at = window_at(w, rank, at), .key = w->key[rank], .type = FI_UINT64, .op = FI_SUM,
		 .result = result, .ctx = ctx);
}

static int peer_of(const struct fx *fx)
{
	return window_peer(fx);
}

/* ---- the first operation ---- */

struct first {
	enum onesided_kind kind;
	size_t len;
	const char *name;
};

static const struct first firsts[] = {
	{ DO_PUT, 8, "a small write" },
	{ DO_PUT, LEN, "a large write" },
	{ DO_GET, 8, "a small read" },
	{ DO_GET, LEN, "a large read" },
	{ DO_ATOMIC, 8, "an atomic" },
	{ DO_FETCH, 8, "a fetching atomic" },
};

/* The operation connects the two; there was no message before. */
static void first_one(struct test *t, const struct first *f, bool both)
{
	struct guard g = guard_alloc(LEN), result = guard_alloc(8);
	struct fx_attr attr = plain;
	struct fi_context2 ctx;
	struct window w;
	struct fx fx;

	run_step("%s, by %s", f->name, both ? "both" : "one");
	attr.tx_flags = FI_DELIVERY_COMPLETE;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, LEN, 0);
	pattern_fill(w.g.data, LEN, 1);
	pattern_fill(g.data, LEN, 1);
	fx_barrier(&fx);
	if (run_sends(t) || both) {
		post_kind(&fx, &w, peer_of(&fx), f->kind, g.data, 0, f->len, result.data, &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = onesided_did(f->kind));
		CHECK(pattern_check(g.data, LEN, 1) == LEN, "wrong bytes were read");
		CHECK(f->kind != DO_FETCH || pattern_check(result.data, 8, 1) == 8, "wrong result");
	}
	fx_barrier(&fx);
	CHECK(f->kind >= DO_ATOMIC || pattern_check(w.g.data, LEN, 1) == LEN,
	      "wrong bytes were written");
	window_close(&w);
	guard_free(&g);
	guard_free(&result);
	fx_close(&fx);
}

static void first_by_one(struct test *t)
{
	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++)
		first_one(t, &firsts[i], false);
}

static void first_by_both(struct test *t)
{
	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++)
		first_one(t, &firsts[i], true);
}

/* ---- many ---- */

static size_t take_some(struct fx *fx, bool *seen, const struct fi_context2 *ctx)
{
	struct comp c;
	size_t n = 0;

	while (comp_poll(fx, FX_TX, &c)) {
		size_t i = (size_t)((struct fi_context2 *)c.ctx - ctx);

		CHECK(!c.err, "an operation fails: %d (%s)", c.err, fi_strerror(c.err));
		CHECK(i < MANY && !seen[i], "a completion of nobody's or twice");
		seen[i] = true;
		n++;
	}
	return n;
}

/* As many as the provider takes; it says -FI_EAGAIN until the queue was read. */
static void post_many(struct fx *fx, struct window *w, enum onesided_kind kind, uint64_t *buf,
		      uint64_t *result)
{
	static struct fi_context2 ctx[MANY];
	static bool seen[MANY];
	size_t done = 0;
	int peer = peer_of(fx);

	memset(seen, 0, sizeof(seen));
	for (size_t i = 0; i < MANY; i++) {
		size_t at = kind == DO_FETCH ? 0 : 8 * i;
		ssize_t ret;

		while ((ret = TRY_ONESIDED(fx, .kind = kind, .buf = &buf[i], .len = 8,
					   .addr = fx->peer, .at = window_at(w, peer, at),
					   .key = w->key[peer], .type = FI_UINT64, .op = FI_SUM,
					   .result = &result[i], .ctx = &ctx[i])) == -FI_EAGAIN) {
			done += take_some(fx, seen, ctx);
			FX_CHECK_MOVES(fx, "operation %zu: -FI_EAGAIN without end", i);
			sched_yield();
		}
		CHECK(!ret, "operation %zu: %zd (%s)", i, ret, fi_strerror((int)-ret));
	}
	while (done < MANY) {
		done += take_some(fx, seen, ctx);
		FX_CHECK_MOVES(fx, "%zu of %d operations have ended", done, MANY);
		sched_yield();
	}
}

static int compare_words(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void many_initiator(struct fx *fx, struct window *w)
{
	static uint64_t out[MANY], in[MANY], one[MANY], got[MANY];

	for (size_t i = 0; i < MANY; i++)
		out[i] = 1000 * i + 7, one[i] = 1;
	run_step("writes");
	post_many(fx, w, DO_PUT, out, got);
	run_step("reads");
	post_many(fx, w, DO_GET, in, got);
	CHECK(!memcmp(in, out, sizeof(in)), "other words were read than were written");
	run_step("fetching atomics");
	post_many(fx, w, DO_FETCH, one, got);
	qsort(got, MANY, sizeof(got[0]), compare_words);
	for (size_t i = 0; i < MANY; i++)
		CHECK(got[i] == out[0] + i, "sum %zu in order is %llu", i, (unsigned long long)got[i]);
}

static void many(struct test *t)
{
	struct fx_attr attr = plain;
	struct window w;
	struct fx fx;

	attr.tx_flags = FI_DELIVERY_COMPLETE;
	attr.cq_size = 64;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, 8 * MANY, 0);
	if (run_sends(t))
		many_initiator(&fx, &w);
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

/* ---- a target that makes no call ---- */

static void automatic(struct test *t)
{
	struct fx_attr attr = plain;
	struct guard g = guard_alloc(LEN), in = guard_alloc(LEN);
	struct fi_context2 ctx;
	uint64_t result[8];
	struct window w;
	struct fx fx;

	attr.progress = FI_PROGRESS_AUTO;
	attr.threading = FI_THREAD_SAFE;
	attr.tx_flags = FI_DELIVERY_COMPLETE;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, LEN, 0);
	pattern_fill(g.data, LEN, 7);
	run_barrier(t);
	for (int i = 0; run_sends(t) && i < 8; i++) {
		size_t len = i & 1 ? LEN : 8;
		enum onesided_kind kind = (enum onesided_kind)(i / 2);

		run_step("%zu bytes, %s", len, onesided_name(kind));
		if (kind >= DO_ATOMIC)
			len = i & 1 ? 8 : 64;
		post_kind(&fx, &w, peer_of(&fx), kind, kind == DO_GET ? in.data : g.data, 0, len, result,
			  &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = onesided_did(kind));
		CHECK(kind != DO_GET || pattern_check(in.data, len, 7) == len, "wrong bytes");
	}
	run_barrier(t);
	if (run_receives(t))
		CHECK(pattern_check(w.g.data + 64, LEN - 64, 7) != LEN, "nothing was written");
	window_close(&w);
	guard_free(&g);
	guard_free(&in);
	fx_close(&fx);
}

/* ---- a target that dies ---- */

static void post_to_dying(struct fx *fx, struct window *w, struct pending *tx, struct guard *g,
			  struct guard *in)
{
	static const enum onesided_kind kinds[] = { DO_PUT, DO_GET, DO_FETCH, DO_ATOMIC };

	for (size_t i = 0; i < DYING; i++) {
		enum onesided_kind kind = kinds[i % 4];
		size_t len = kind >= DO_ATOMIC ? 8 : i / 4 % 2 ? LEN : 100;

		post_kind(fx, w, 1, kind, kind == DO_GET ? in->data : g->data, 0, len, in->data + LEN,
			  &tx->ctx[i]);
		if (i == DYING / 2)
			run_kill(fx->t, 1, RUN_MAY_DIE);
	}
}

/* A write, a read and an atomic between the ranks that live. */
static void with_third(struct fx *fx, struct window *w)
{
	static const enum onesided_kind kinds[] = { DO_PUT, DO_GET, DO_ATOMIC, DO_FETCH };
	struct guard g = guard_alloc(LEN), result = guard_alloc(8);
	int other = fx->t->rank ? 0 : 2;

	for (size_t i = 0; i < 4; i++) {
		struct fi_context2 ctx;

		run_step("%s between the survivors", onesided_name(kinds[i]));
		post_kind(fx, w, other, kinds[i], g.data, 0, kinds[i] >= DO_ATOMIC ? 8 : LEN, result.data,
			  &ctx);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = onesided_did(kinds[i]));
	}
	guard_free(&g);
	guard_free(&result);
}

static void check_dead(struct fx *fx, struct window *w)
{
	struct guard g = guard_alloc(64), in = guard_alloc(64);
	struct pending tx, rx;

	run_step("operations to the dead");
	pending_open(&tx, 4);
	pending_open(&rx, 0);
	for (size_t i = 0; i < 4; i++)
		post_kind(fx, w, 1, i == 0 ? DO_PUT : i == 1 ? DO_GET : i == 2 ? DO_ATOMIC : DO_FETCH,
			  g.data, 0, 8, in.data, &tx.ctx[i]);
	pending_await(fx, &tx, &rx, &tx, 4, "operations to a dead peer ended");
	for (size_t i = 0; i < 4; i++)
		CHECK(tx.result[i] > 0, "operation %zu to a dead peer succeeded", i);
	pending_close(&tx);
	pending_close(&rx);
	guard_free(&g);
	guard_free(&in);
}

/* Each operation ends once, and at least those that were posted after the death fail. */
static void target_dies(struct test *t)
{
	struct guard g = guard_alloc(LEN), in = guard_alloc(LEN + 8);
	struct pending tx, rx;
	struct window w;
	struct fx fx;

	setenv("FI_TAGRV_CONNECT_TIMEOUT", "3", 1);
	window_open_ep(t, &fx, &plain, KEYS_ANY);
	window_open(&fx, &w, LEN, 0);
	if (t->rank == 1)
		for (;;)
			fx_idle(&fx, 1000);
	if (t->rank == 0) {
		pending_open(&tx, DYING);
		pending_open(&rx, 0);
		post_to_dying(&fx, &w, &tx, &g, &in);
		pending_await(&fx, &tx, &rx, &tx, DYING, "operations to a dying peer ended");
		CHECK(tx.result[DYING - 1] > 0, "an operation that was posted after the death succeeded");
		pending_close(&tx);
		pending_close(&rx);
	}
	fx_barrier(&fx);
	with_third(&fx, &w);
	if (t->rank == 0)
		check_dead(&fx, &w);
	fx_barrier(&fx);
	with_third(&fx, &w);
	fx_barrier(&fx);
	COMP_NONE(&fx, 5);
	window_close(&w);
	guard_free(&g);
	guard_free(&in);
	fx_close_now(&fx);
}

/* The target closes its endpoint amid operations, and lives on. */
static void target_closes(struct test *t)
{
	struct guard g = guard_alloc(LEN), in = guard_alloc(LEN + 8);
	struct pending tx, rx;
	struct window w;
	struct fx fx;

	setenv("FI_TAGRV_CONNECT_TIMEOUT", "3", 1);
	window_open_ep(t, &fx, &plain, KEYS_ANY);
	window_open(&fx, &w, LEN, 0);
	if (run_receives(t)) {
		fx_idle(&fx, 3);
		window_close(&w);
		fx_close_now(&fx);
		run_barrier(t);
		guard_free(&g);
		guard_free(&in);
		return;
	}
	pending_open(&tx, DYING);
	pending_open(&rx, 0);
	for (size_t i = 0; i < DYING; i++)
		post_kind(&fx, &w, 1, i % 3 == 0 ? DO_PUT : i % 3 == 1 ? DO_GET : DO_FETCH,
			  i % 3 == 1 ? in.data : g.data, 0, i % 3 == 2 ? 8 : LEN, in.data + LEN,
			  &tx.ctx[i]);
	pending_await(&fx, &tx, &rx, &tx, DYING, "operations to a closed endpoint ended");
	run_barrier(t);
	pending_close(&tx);
	pending_close(&rx);
	window_close(&w);
	guard_free(&g);
	guard_free(&in);
	fx_close_now(&fx);
}

/* ---- a region that is closed ---- */

/* Small and large ones, one behind the other: the close finds some in each state. */
static void post_to_closing(struct fx *fx, struct window *w, struct pending *tx, struct guard *g,
			    struct guard *in)
{
	for (size_t i = 0; i < DYING; i++) {
		enum onesided_kind kind = i % 3 == 0 ? DO_PUT : i % 3 == 1 ? DO_GET : DO_FETCH;
		size_t len = kind == DO_FETCH ? 8 : i % 2 ? LEN : 3000;

		post_kind(fx, w, 1, kind, kind == DO_GET ? in->data : g->data, 0, len, in->data + LEN,
			  &tx->ctx[i]);
	}
}

static void check_results(const struct pending *tx)
{
	size_t refused = 0;

	for (size_t i = 0; i < DYING; i++) {
		CHECK(!tx->result[i] || tx->result[i] == FI_EACCES, "operation %zu on a region that is closed: "
		      "%d (%s)", i, tx->result[i], fi_strerror(tx->result[i]));
		refused += tx->result[i] != 0;
	}
	run_step("%zu of %d refused", refused, DYING);
}

/*
 * When fi_close has returned, the memory is the owner's: no byte changes any more. Each
 * operation of the peer ends once, and the connection goes on.
 */
static void region_closes(struct test *t)
{
	struct guard g = guard_alloc(LEN), in = guard_alloc(LEN + 8);
	struct pending tx, rx;
	struct window w, next;
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	window_open(&fx, &next, 64, 0);
	for (int round = 0; round < 20; round++) {
		run_step("round %d", round);
		window_open(&fx, &w, LEN, 0);
		if (run_receives(t)) {
			fx_idle(&fx, round % 4);
			CHECK_OK(fi_close(&w.mr->fid));
			w.mr = NULL;
			guard_wipe(&w.g);
			fx_idle(&fx, 5);
		} else {
			pending_open(&tx, DYING);
			pending_open(&rx, 0);
			post_to_closing(&fx, &w, &tx, &g, &in);
			pending_await(&fx, &tx, &rx, &tx, DYING, "operations on a closed region ended");
			check_results(&tx);
			pending_close(&tx);
			pending_close(&rx);
		}
		fx_barrier(&fx);
		CHECK(!guard_changed(&w.g, 0, LEN), "a region that is closed has changed");
		window_close(&w);
	}
	if (run_sends(t)) {
		struct fi_context2 ctx;

		post_kind(&fx, &next, 1, DO_PUT, g.data, 0, 64, NULL, &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = DID_PUT);
	}
	fx_barrier(&fx);
	window_close(&next);
	guard_free(&g);
	guard_free(&in);
	fx_close(&fx);
}

const struct test_case rma_life_cases[] = {
	{ "rma_first_by_one", "the first operation between two ranks is one-sided", first_by_one, .self = true },
	{ "rma_first_by_both", "the same by both at the same time", first_by_both, .self = true },
	{ "rma_many", "1000 writes, reads, fetching atomics under way", many, .self = true },
	{ "rma_automatic", "with automatic progress the target makes no call", automatic, .ranks = 2 },
	{ "rma_target_dies", "each operation to a dying peer ends once, others go on", target_dies, .ranks = 3 },
	{ "rma_target_closes", "each operation to an endpoint that is closed ends once", target_closes, .ranks = 2 },
	{ "rma_region_closes", "a region that is closed amid operations changes no more", region_closes, .ranks = 2 },
	{ 0 },
};
