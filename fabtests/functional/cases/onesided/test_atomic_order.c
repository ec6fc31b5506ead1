/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The orders of atomics among each other, and with writes, reads and messages: pairs on
 * the same cell that are posted without waiting.
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

#include <inttypes.h>
#include <string.h>

enum { BIG = 1 << 20, ROUNDS = 24, CELL = 8, OLD = 1000, NEW = 77 };

/*
 * One operation of a pair. It changes or reads the last cell of the round's megabyte;
 * reads and writes, and vectors of atomics, also what is before it.
 */
struct step {
	enum onesided_kind kind;
	enum fi_op op;
	size_t len[2];		/* in even and odd rounds */
};

/* The cell contains OLD at first. Operands and what is written are NEW and NEW + 1. */
struct pair {
	const char *name;
	uint64_t order;		/* each of these alone is enough */
	struct step first, second;
	uint64_t first_returns, second_returns, end;	/* 0: nothing is returned */
};

#define PUT	{ DO_PUT, FI_ATOMIC_WRITE, { BIG, CELL } }
#define GET	{ DO_GET, FI_ATOMIC_READ, { BIG, CELL } }
#define LOAD	{ DO_FETCH, FI_ATOMIC_READ, { CELL, 64 } }
#define STORE	{ DO_ATOMIC, FI_ATOMIC_WRITE, { 64, CELL } }
#define ADD	{ DO_ATOMIC, FI_SUM, { CELL, 64 } }
#define FADD	{ DO_FETCH, FI_SUM, { CELL, 64 } }

static const struct pair among[] = {
	{ "two fetches", FI_ORDER_ATOMIC_RAR, FADD, FADD, OLD, OLD + NEW, OLD + 2 * NEW + 1 },
	{ "a fetch after an update", FI_ORDER_ATOMIC_RAW, ADD, LOAD, 0, OLD + NEW, OLD + NEW },
	{ "a fetching sum after a store", FI_ORDER_ATOMIC_RAW, STORE, FADD, 0, NEW, 2 * NEW + 1 },
	{ "an update after a fetch", FI_ORDER_ATOMIC_WAR, LOAD, STORE, OLD, 0, NEW + 1 },
	{ "two stores", FI_ORDER_ATOMIC_WAW, STORE, STORE, 0, 0, NEW + 1 },
	{ "a sum after a store", FI_ORDER_ATOMIC_WAW, STORE, ADD, 0, 0, 2 * NEW + 1 },
};

static const struct pair mixed[] = {
	{ "a fetch after a write", FI_ORDER_RAW, PUT, LOAD, 0, NEW, NEW },
	{ "a read after an atomic", FI_ORDER_RAW, ADD, GET, 0, OLD + NEW, OLD + NEW },
	{ "an atomic after a write", FI_ORDER_WAW, PUT, ADD, 0, 0, 2 * NEW + 1 },
	{ "a write after an atomic", FI_ORDER_WAW, ADD, PUT, 0, 0, NEW + 1 },
	{ "a write after a fetch", FI_ORDER_WAR, FADD, PUT, OLD, 0, NEW + 1 },
	{ "an atomic after a read", FI_ORDER_WAR, GET, STORE, OLD, 0, NEW + 1 },
	{ "a fetch after a read", FI_ORDER_RAR, GET, FADD, OLD, OLD, OLD + NEW + 1 },
};

struct buffers {
	struct guard out, in;	/* of one operation */
};

static uint64_t last_cell(const uint8_t *base, size_t len)
{
	uint64_t value;

	memcpy(&value, base + len - CELL, CELL);
	return value;
}

static void set_cells(uint8_t *base, size_t len, uint64_t value)
{
	for (size_t at = 0; at < len; at += CELL)
		memcpy(base + at, &value, CELL);
}

static void post(struct fx *fx, const struct window *w, const struct step *s, size_t round,
		 struct buffers *b, uint64_t value, uint64_t flags, void *ctx)
{
	size_t len = s->len[round & 1];
	int peer = window_peer(fx);

	b->out = guard_alloc(len);
	b->in = guard_alloc(len);
	set_cells(b->out.data, len, value);
	ONESIDED(fx, .kind = s->kind, .call = CALL_MSG, .buf = s->kind == DO_GET ? b->in.data :
		 b->out.data, .len = len, .addr = fx->peer,
		 .at = window_at(w, peer, (round + 1) * BIG - len), .key = w->key[peer],
		 .type = FI_UINT64, .op = s->op, .result = b->in.data, .flags = flags, .ctx = ctx);
}

static void check_returned(const struct pair *p, int which, size_t round, struct buffers *b)
{
	const struct step *s = which ? &p->second : &p->first;
	uint64_t want = which ? p->second_returns : p->first_returns;
	size_t len = s->len[round & 1];

	CHECK(!want || last_cell(b->in.data, len) == want,
	      "round %zu: the %s returns %" PRIu64 ", want %" PRIu64, round,
	      which ? "second" : "first", last_cell(b->in.data, len), want);
	guard_free(&b->out);
	guard_free(&b->in);
}

static void initiate(struct fx *fx, const struct window *w, const struct pair *p, uint64_t flags)
{
	static struct fi_context2 ctx[2 * ROUNDS];
	static struct buffers b[2 * ROUNDS];

	for (size_t i = 0; i < ROUNDS; i++) {
		post(fx, w, &p->first, i, &b[2 * i], NEW, 0, &ctx[2 * i]);
		post(fx, w, &p->second, i, &b[2 * i + 1], NEW + 1, flags, &ctx[2 * i + 1]);
	}
	COMP_ANY_ORDER(fx, FX_TX, ctx, 2 * ROUNDS);
	for (size_t i = 0; i < 2 * ROUNDS; i++)
		check_returned(p, i & 1, i / 2, &b[i]);
}

/* A flush by reading would be an order of its own, so the second one has to be delivered. */
static uint64_t level_of(const struct step *s)
{
	return s->kind == DO_PUT || s->kind == DO_ATOMIC ? FI_DELIVERY_COMPLETE : 0;
}

static void play(struct fx *fx, struct window *w, const struct pair *p, uint64_t flags)
{
	run_step("%s", p->name);
	set_cells(w->g.data, w->g.len, OLD);
	fx_barrier(fx);
	if (run_sends(fx->t))
		initiate(fx, w, p, flags | level_of(&p->second));
	fx_barrier(fx);
	for (size_t i = 0; run_receives(fx->t) && i < ROUNDS; i++)
		CHECK(last_cell(w->g.data + i * BIG, BIG) == p->end,
		      "round %zu ends with %" PRIu64 ", want %" PRIu64, i,
		      last_cell(w->g.data + i * BIG, BIG), p->end);
	fx_barrier(fx);
}

static bool limits_allow(const struct fx *fx, uint64_t order)
{
	const struct fi_ep_attr *ep = fx->info->ep_attr;

	return !(order & FI_ORDER_RAW && ep->max_order_raw_size < BIG) &&
	       !(order & FI_ORDER_WAW && ep->max_order_waw_size < BIG) &&
	       !(order & FI_ORDER_WAR && ep->max_order_war_size < BIG);
}

/* One endpoint for each order, so that no other order helps. */
static size_t play_order(struct test *t, const struct pair *p, size_t n, uint64_t order)
{
	struct fx_attr attr = {
		.caps = FI_MSG | FI_RMA | FI_ATOMIC, .order = order | FI_ORDER_SAS,
		.mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
	};
	struct fi_info *info;
	struct window w;
	struct fx fx;
	size_t played = 0;

	if (fx_try_info(t, &attr, &info))
		return 0;
	fi_freeinfo(info);
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, (size_t)ROUNDS * BIG, 0);
	for (size_t i = 0; i < n; i++) {
		if (p[i].order != order || !limits_allow(&fx, order))
			continue;
		play(&fx, &w, &p[i], 0);
		played++;
	}
	window_close(&w);
	fx_close(&fx);
	return played;
}

static void play_all(struct test *t, const struct pair *p, size_t n, const uint64_t *orders,
		     size_t count)
{
	size_t played = 0;

	for (size_t i = 0; i < count; i++)
		played += play_order(t, p, n, orders[i]);
	if (!played)
		run_skip("the provider offers no such order");
}

static void among_atomics(struct test *t)
{
	static const uint64_t orders[] = {
		FI_ORDER_ATOMIC_RAR, FI_ORDER_ATOMIC_RAW, FI_ORDER_ATOMIC_WAR, FI_ORDER_ATOMIC_WAW,
	};

	play_all(t, among, sizeof(among) / sizeof(among[0]), orders, 4);
}

static void with_rma(struct test *t)
{
	static const uint64_t orders[] = { FI_ORDER_RAW, FI_ORDER_WAW, FI_ORDER_WAR, FI_ORDER_RAR };

	play_all(t, mixed, sizeof(mixed) / sizeof(mixed[0]), orders, 4);
}

/* A fence puts any two operations in order, without any order that was asked for. */
static void fenced(struct test *t)
{
	struct fx_attr attr = { .caps = FI_MSG | FI_RMA | FI_ATOMIC | FI_FENCE };
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, (size_t)ROUNDS * BIG, 0);
	for (size_t i = 0; i < sizeof(among) / sizeof(among[0]); i++)
		play(&fx, &w, &among[i], FI_FENCE);
	for (size_t i = 0; i < sizeof(mixed) / sizeof(mixed[0]); i++)
		play(&fx, &w, &mixed[i], FI_FENCE);
	window_close(&w);
	fx_close(&fx);
}

/* ---- messages ---- */

/* The message behind a sum says how large the sum is. */
static void send_after_atomic(struct test *t)
{
	struct fx_attr attr = { .caps = FI_MSG | FI_RMA | FI_ATOMIC, .order = FI_ORDER_SAW | FI_ORDER_SAS };
	static struct fi_context2 ctx[2 * ROUNDS], rx[ROUNDS];
	uint64_t one = 1, number[ROUNDS];
	volatile uint64_t *sum;
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, CELL, 0);
	memset(w.g.data, 0, CELL);
	sum = (void *)w.g.data;
	for (uint64_t i = 0; run_receives(t) && i < ROUNDS; i++)
		RECV(&fx, .buf = &number[i], .len = CELL, .addr = FI_ADDR_UNSPEC, .ctx = &rx[i]);
	fx_barrier(&fx);
	for (uint64_t i = 0; run_sends(t) && i < ROUNDS; i++) {
		number[i] = i + 1;
		ONESIDED(&fx, .kind = DO_ATOMIC, .buf = &one, .len = CELL, .addr = fx.peer,
			 .at = window_at(&w, window_peer(&fx), 0), .key = w.key[window_peer(&fx)],
			 .type = FI_UINT64, .op = FI_SUM, .ctx = &ctx[2 * i]);
		SEND(&fx, .buf = &number[i], .len = CELL, .addr = fx.peer, .ctx = &ctx[2 * i + 1]);
	}
	for (uint64_t i = 0; run_receives(t) && i < ROUNDS; i++) {
		COMP_EXPECT(&fx, FX_RX, .ctx = &rx[i], .flags = GOT_MSG, .len = CELL);
		CHECK(*sum >= number[i], "the message says %" PRIu64 ", the sum is %" PRIu64, number[i],
		      *sum);
	}
	if (run_sends(t))
		COMP_ANY_ORDER(&fx, FX_TX, ctx, 2 * ROUNDS);
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

const struct test_case atomic_order_cases[] = {
	{ "atomic_order_among", "FI_ORDER_ATOMIC_*: atomics on one cell in order", among_atomics, .self = true },
	{ "atomic_order_with_rma", "atomics, writes and reads of one cell in order", with_rma, .self = true },
	{ "atomic_order_fenced", "the same by fences", fenced, .self = true },
	{ "atomic_order_saw", "FI_ORDER_SAW: a message comes behind the atomics before it", send_after_atomic, .ranks = 2 },
	{ 0 },
};
