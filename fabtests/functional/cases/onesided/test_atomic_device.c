/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomics that the target's device carries out, for peers and for the target itself: with
 * FI_TAGRV_ATOMICS=device, which is nothing to other providers.
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 256, ROUNDS = 300, DEPTH = 24, PATIENCE_S = 4 };

static const struct fx_attr plain = { .caps = FI_MSG | FI_RMA | FI_ATOMIC };

static void open_all(struct test *t, struct fx *fx, struct window *w, const struct fx_attr *attr)
{
	setenv("FI_TAGRV_ATOMICS", "device", 1);
	window_open_ep(t, fx, attr, KEYS_ANY);
	window_open(fx, w, SIZE, 0);
	memset(w->g.data, 0, SIZE);
	fx_barrier(fx);
}

/* One operation on a cell of a rank's window; its former value goes to *former. */
struct cell {
	enum onesided_kind kind;
	enum fi_op op;
	int rank;
	size_t at;
	uint64_t operand, compare, former;
	uint64_t flags;
	struct fi_context2 ctx;
};

static void post(struct fx *fx, const struct window *w, struct cell *c)
{
	ONESIDED(fx, .kind = c->kind, .call = c->flags ? CALL_MSG : CALL_BUF, .buf = &c->operand,
		 .len = 8, .addr = fx->addr[c->rank], .at = window_at(w, c->rank, c->at),
		 .key = w->key[c->rank], .type = FI_UINT64, .op = c->op, .result = &c->former,
		 .compare = &c->compare, .flags = c->flags, .ctx = &c->ctx);
}

static uint64_t change(struct fx *fx, const struct window *w, struct cell c)
{
	post(fx, w, &c);
	COMP_EXPECT(fx, FX_TX, .ctx = &c.ctx, .flags = onesided_did(c.kind));
	return c.former;
}

static uint64_t value_at(struct fx *fx, const struct window *w, int rank, size_t at)
{
	return change(fx, w, (struct cell){ .kind = DO_FETCH, .op = FI_ATOMIC_READ, .rank = rank,
					    .at = at });
}

/* All ranks, the target among them, change the same cell: nothing is lost. */
static void contended(struct test *t)
{
	struct cell cells[DEPTH] = { 0 };
	uint64_t last = 0, swapped = 0, sum;
	struct window w;
	struct fx fx;

	open_all(t, &fx, &w, &plain);
	for (int round = 0; round < ROUNDS / DEPTH; round++) {
		for (size_t i = 0; i < DEPTH; i++) {
			cells[i] = (struct cell){ .kind = DO_FETCH, .op = FI_SUM, .operand = 1 };
			post(&fx, &w, &cells[i]);
		}
		for (size_t i = 0; i < DEPTH; i++)
			COMP_EXPECT(&fx, FX_TX, .ctx = &cells[i].ctx, .flags = DID_FETCH);
		for (size_t i = 0; i < DEPTH; i++) {
			CHECK((!round && !i) || cells[i].former > last,
			      "%" PRIu64 " comes behind %" PRIu64, cells[i].former, last);
			last = cells[i].former;
		}
	}
	for (int n = 0; n < ROUNDS / DEPTH; n++) {
		uint64_t seen = swapped;

		for (;;) {
			swapped = change(&fx, &w, (struct cell){
				.kind = DO_COMPARE, .op = FI_CSWAP, .at = 8, .operand = seen + 1,
				.compare = seen });
			if (swapped == seen)
				break;
			seen = swapped;
			FX_CHECK_MOVES(&fx, "the cell stays at %" PRIu64, seen);
		}
	}
	fx_barrier(&fx);
	sum = value_at(&fx, &w, 0, 0);
	CHECK(sum == (uint64_t)t->ranks * (ROUNDS / DEPTH) * DEPTH, "the sum is %" PRIu64, sum);
	sum = value_at(&fx, &w, 0, 8);
	CHECK(sum == (uint64_t)t->ranks * (ROUNDS / DEPTH), "%" PRIu64 " swaps", sum);
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

/* The first operations make the connections; then the target makes no call. */
static void target_computes(struct test *t)
{
	struct cell c = { .kind = DO_FETCH, .op = FI_SUM, .operand = 3 };
	time_t begin;
	struct window w;
	struct comp done;
	bool ended = true;
	struct fx fx;

	open_all(t, &fx, &w, &plain);
	c.rank = window_peer(&fx);
	if (run_sends(t))
		(void)change(&fx, &w, c);
	fx_barrier(&fx);
	if (run_sends(t)) {
		post(&fx, &w, &c);
		begin = time(NULL);
		while (ended && !comp_poll(&fx, FX_TX, &done)) {
			ended = time(NULL) - begin <= PATIENCE_S;
			sched_yield();
		}
		CHECK(!ended || c.former == 3, "the former value is %" PRIu64, c.former);
	}
	run_barrier(t);
	if (!ended)
		run_skip("this provider, or its transport, needs the target for atomics");
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

/* The bytes are in the target's memory before the completion. */
static void delivered(struct test *t)
{
	volatile uint64_t *word;
	struct window w;
	struct fx fx;

	open_all(t, &fx, &w, &plain);
	word = (void *)w.g.data;
	for (uint64_t i = 1; i <= 20; i++) {
		if (run_sends(t))
			(void)change(&fx, &w, (struct cell){ .kind = DO_ATOMIC, .op = FI_SUM,
							     .rank = window_peer(&fx), .operand = 1,
							     .flags = FI_DELIVERY_COMPLETE });
		fx_barrier(&fx);
		CHECK(!run_receives(t) || *word == i, "%" PRIu64 " instead of %" PRIu64, *word, i);
		fx_barrier(&fx);
	}
	window_close(&w);
	fx_close(&fx);
}

/* What fi_query_atomic and its relatives offer works, and all else is refused. */
static void offered(struct test *t)
{
	size_t none, count, cnt = 0;
	struct window w;
	struct fx fx;

	open_all(t, &fx, &w, &plain);
	for (unsigned op = 0; op < FI_CSWAP; op++) {
		struct cell c = { .kind = DO_FETCH, .op = (enum fi_op)op, .at = 64 + 8 * op,
				  .rank = window_peer(&fx), .operand = 6 };
		int ret = fi_fetch_atomicvalid(fx.ep, FI_UINT64, (enum fi_op)op, &count);

		if (!ret) {
			CHECK(count >= 1, "no element");
			cnt++;
			if (run_sends(t))
				(void)change(&fx, &w, c);
			continue;
		}
		CHECK(TRY_ONESIDED(&fx, .kind = DO_FETCH, .buf = &c.operand, .len = 8,
				   .addr = fx.addr[c.rank], .at = window_at(&w, c.rank, c.at),
				   .key = w.key[c.rank], .type = FI_UINT64, .op = (enum fi_op)op,
				   .result = &c.former, .ctx = &c.ctx) == -FI_EOPNOTSUPP,
		      "operation %u is not offered, and not refused", op);
	}
	CHECK(cnt >= 2, "a sum and a read are the least");
	CHECK(!fi_compare_atomicvalid(fx.ep, FI_UINT64, FI_CSWAP, &none), "no swap");
	fx_barrier(&fx);
	COMP_NONE(&fx, 5);
	window_close(&w);
	fx_close(&fx);
}

/* A region without the right, one that is closed: errors, and messages go on. */
static void forbidden(struct test *t)
{
	struct fi_context2 ctx;
	struct guard g = guard_alloc(SIZE);
	struct window w;
	struct comp c;
	struct fx fx;

	setenv("FI_TAGRV_ATOMICS", "device", 1);
	window_open_ep(t, &fx, &plain, KEYS_ANY);
	window_open(&fx, &w, SIZE, FI_REMOTE_READ);
	for (int i = 0; run_sends(t) && i < 3; i++) {
		uint64_t one = 1, key = w.key[window_peer(&fx)] + (i == 1);

		ONESIDED(&fx, .kind = DO_ATOMIC, .buf = &one, .len = 8, .addr = fx.peer,
			 .at = window_at(&w, window_peer(&fx), 0), .key = key, .type = FI_UINT64,
			 .op = FI_SUM, .ctx = &ctx);
		COMP_WAIT(&fx, FX_TX, &c);
		CHECK(c.err > 0, "it was carried out");
	}
	fx_barrier(&fx);
	CHECK(!guard_changed(&w.g, 0, SIZE), "something was written");
	fx_barrier(&fx);
	window_close(&w);
	guard_free(&g);
	fx_close(&fx);
}

const struct test_case atomic_device_cases[] = {
	{ "atomic_device_contended", "by the device: two ranks and the target itself, one cell, nothing lost",
	  contended, .ranks = 2, .rdma = true },
	{ "atomic_device_contended_3", "the same with three ranks", contended, .ranks = 3, .rdma = true },
	{ "atomic_device_computes", "atomics by the device while the target makes no call", target_computes,
	  .ranks = 2, .rdma = true },
	{ "atomic_device_delivery", "FI_DELIVERY_COMPLETE of atomics by the device is true", delivered,
	  .ranks = 2, .rdma = true },
	{ "atomic_device_offered", "what is offered by the device works, the rest is refused", offered,
	  .ranks = 2, .rdma = true },
	{ "atomic_device_forbidden", "an atomic by the device without the right ends with an error", forbidden,
	  .ranks = 2, .rdma = true },
	{ 0 },
};
