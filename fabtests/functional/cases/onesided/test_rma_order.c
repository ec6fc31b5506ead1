/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The orders of one-sided operations: each case asks for one, and posts operations on the
 * same bytes without waiting, of sizes that take different ways, so that the second one
 * would be done first if nothing kept it back.
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

#include <inttypes.h>
#include <string.h>

enum { BIG = 1 << 20, ROUNDS = 24, SLOTS = 8 };

/* A big and a small operation, or both alike; the second ends where the first ends. */
static const struct pair {
	size_t first, second;
} pairs[] = {
	{ BIG, 8 }, { 8, BIG }, { 70000, 64 }, { 5000, 5000 }, { BIG, BIG }, { 8, 8 }, { 64, 5000 },
	{ BIG, 5000 },
};

static const struct pair *pair_of(size_t i)
{
	return &pairs[i % (sizeof(pairs) / sizeof(pairs[0]))];
}

static void open_ordered(struct test *t, struct fx *fx, struct window *w, uint64_t order,
			 uint64_t caps)
{
	struct fx_attr attr = {
		.caps = FI_MSG | FI_TAGGED | FI_RMA | caps, .order = order | FI_ORDER_SAS,
	};

	window_open_ep(t, fx, &attr, KEYS_ANY);
	CHECK((fx->info->tx_attr->msg_order & order) == order, "msg_order is 0x%" PRIx64,
	      fx->info->tx_attr->msg_order);
	window_open(fx, w, (size_t)ROUNDS * BIG, 0);
}

/* Data are ordered up to a size only. */
static void need_size(const struct fx *fx, size_t limit)
{
	if (limit < BIG && run_sends(fx->t))
		run_skip("the order covers %zu bytes only", limit);
}

/* The operation covers the last len bytes of the round's megabyte. */
static void post(struct fx *fx, const struct window *w, enum onesided_kind kind, size_t round,
		 void *buf, size_t len, uint64_t flags, void *ctx)
{
	int peer = window_peer(fx);

	ONESIDED(fx, .kind = kind, .call = CALL_MSG, .buf = buf, .len = len, .addr = fx->peer,
		 .at = window_at(w, peer, (round + 1) * BIG - len), .key = w->key[peer], .flags = flags,
		 .ctx = ctx);
}

/* Buffers for all rounds. */
struct rounds {
	struct guard first[ROUNDS], second[ROUNDS];
	struct fi_context2 ctx[2 * ROUNDS];
};

static void rounds_open(struct rounds *r, bool fill_first, bool fill_second)
{
	for (size_t i = 0; i < ROUNDS; i++) {
		r->first[i] = guard_alloc(pair_of(i)->first);
		r->second[i] = guard_alloc(pair_of(i)->second);
		if (fill_first)
			pattern_fill(r->first[i].data, r->first[i].len, 2 * i);
		if (fill_second)
			pattern_fill(r->second[i].data, r->second[i].len, 2 * i + 1);
	}
}

static void rounds_close(struct rounds *r)
{
	for (size_t i = 0; i < ROUNDS; i++) {
		guard_free(&r->first[i]);
		guard_free(&r->second[i]);
	}
}

static void post_pairs(struct fx *fx, struct window *w, struct rounds *r, enum onesided_kind first,
		       enum onesided_kind second, uint64_t flags)
{
	for (size_t i = 0; i < ROUNDS; i++) {
		post(fx, w, first, i, r->first[i].data, r->first[i].len, 0, &r->ctx[2 * i]);
		post(fx, w, second, i, r->second[i].data, r->second[i].len, flags, &r->ctx[2 * i + 1]);
	}
	COMP_ANY_ORDER(fx, FX_TX, r->ctx, 2 * ROUNDS);
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- read after write ---- */

/* The last bytes that both operations have are those of the write. */
static void check_read(const struct rounds *r)
{
	for (size_t i = 0; i < ROUNDS; i++) {
		const struct guard *put = &r->first[i], *got = &r->second[i];
		size_t len = least(put->len, got->len);

		CHECK(!memcmp(put->data + put->len - len, got->data + got->len - len, len),
		      "round %zu: a read of %zu bytes overtook a write of %zu", i, got->len, put->len);
	}
}

static void read_after_write(struct test *t, uint64_t order, uint64_t caps, uint64_t flags)
{
	static struct rounds r;
	struct window w;
	struct fx fx;

	open_ordered(t, &fx, &w, order, caps);
	if (!flags)
		need_size(&fx, fx.info->ep_attr->max_order_raw_size);
	for (int again = 0; run_sends(t) && again < 2; again++) {
		rounds_open(&r, true, false);
		post_pairs(&fx, &w, &r, DO_PUT, DO_GET, flags);
		check_read(&r);
		rounds_close(&r);
	}
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

static void raw(struct test *t)
{
	read_after_write(t, FI_ORDER_RAW, 0, 0);
}

static void rma_raw(struct test *t)
{
	read_after_write(t, FI_ORDER_RMA_RAW, 0, 0);
}

static void raw_fence(struct test *t)
{
	read_after_write(t, 0, FI_FENCE, FI_FENCE);
}

/* ---- write after write ---- */

static void check_written(const struct window *w)
{
	for (size_t i = 0; i < ROUNDS; i++) {
		size_t first = pair_of(i)->first, second = pair_of(i)->second;
		const uint8_t *end = w->g.data + (i + 1) * BIG;
		struct guard want = guard_alloc(BIG);

		pattern_fill(want.data + BIG - first, first, 2 * i);
		pattern_fill(want.data + BIG - second, second, 2 * i + 1);
		CHECK(!memcmp(end - BIG, want.data, BIG),
		      "round %zu: a write of %zu bytes overtook one of %zu", i, second, first);
		guard_free(&want);
	}
}

static void write_after_write(struct test *t, uint64_t order, uint64_t caps, uint64_t flags)
{
	static struct rounds r;
	struct window w;
	struct fx fx;

	open_ordered(t, &fx, &w, order, caps);
	if (!flags)
		need_size(&fx, fx.info->ep_attr->max_order_waw_size);
	if (run_sends(t)) {
		rounds_open(&r, true, true);
		post_pairs(&fx, &w, &r, DO_PUT, DO_PUT, flags | FI_DELIVERY_COMPLETE);
		rounds_close(&r);
	}
	fx_barrier(&fx);
	if (run_receives(t))
		check_written(&w);
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

static void waw(struct test *t)
{
	write_after_write(t, FI_ORDER_WAW, 0, 0);
}

static void rma_waw(struct test *t)
{
	write_after_write(t, FI_ORDER_RMA_WAW, 0, 0);
}

static void waw_fence(struct test *t)
{
	write_after_write(t, 0, FI_FENCE, FI_FENCE);
}

/* ---- write after read ---- */

static void check_old(const struct rounds *r)
{
	for (size_t i = 0; i < ROUNDS; i++)
		CHECK(!guard_changed(&r->first[i], 0, r->first[i].len),
		      "round %zu: a write of %zu bytes overtook a read of %zu", i, r->second[i].len,
		      r->first[i].len);
}

/* What is read is the constant with which the window was filled; so are the buffers. */
static void write_after_read(struct test *t, uint64_t order, uint64_t caps, uint64_t flags)
{
	static struct rounds r;
	struct window w;
	struct fx fx;

	open_ordered(t, &fx, &w, order, caps);
	if (!flags)
		need_size(&fx, fx.info->ep_attr->max_order_war_size);
	if (run_sends(t)) {
		rounds_open(&r, true, true);
		post_pairs(&fx, &w, &r, DO_GET, DO_PUT, flags);
		check_old(&r);
		rounds_close(&r);
	}
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

static void war(struct test *t)
{
	write_after_read(t, FI_ORDER_WAR, 0, 0);
}

static void rma_war(struct test *t)
{
	write_after_read(t, FI_ORDER_RMA_WAR, 0, 0);
}

static void war_fence(struct test *t)
{
	write_after_read(t, 0, FI_FENCE, FI_FENCE);
}

/* ---- send after write ---- */

/* Write i fills part i % SLOTS; the message behind it says so. Every third message is long. */
static size_t message_len(uint64_t i)
{
	return i % 3 == 2 ? BIG : 8;
}

static void write_and_tell(struct fx *fx, struct window *w, uint64_t flags)
{
	static struct fi_context2 ctx[2 * SLOTS];
	struct guard g[SLOTS], text[SLOTS];
	uint64_t n = 3 * SLOTS;

	for (uint64_t i = 0; i < SLOTS; i++) {
		g[i] = guard_alloc(BIG);
		text[i] = guard_alloc(BIG);
	}
	for (uint64_t i = 0; i < n; i++) {
		uint64_t k = i % SLOTS;

		pattern_fill(g[k].data, pair_of(i)->first, i);
		memcpy(text[k].data, &i, 8);
		post(fx, w, DO_PUT, k, g[k].data, pair_of(i)->first, 0, &ctx[2 * k]);
		SEND(fx, .call = CALL_MSG, .tagged = i & 1, .buf = text[k].data, .len = message_len(i),
		     .addr = fx->peer, .tag = i, .flags = flags, .ctx = &ctx[2 * k + 1]);
		if (k == SLOTS - 1) {
			COMP_ANY_ORDER(fx, FX_TX, ctx, 2 * SLOTS);
			fx_barrier(fx);
		}
	}
	for (uint64_t i = 0; i < SLOTS; i++) {
		guard_free(&g[i]);
		guard_free(&text[i]);
	}
}

static void post_receives(struct fx *fx, struct guard *in, struct fi_context2 *ctx, uint64_t from)
{
	for (uint64_t k = 0; k < SLOTS; k++)
		RECV(fx, .tagged = (from + k) & 1, .buf = in[k].data, .len = BIG, .addr = FI_ADDR_UNSPEC,
		     .tag = from + k, .ctx = &ctx[k]);
}

static void take_and_look(struct fx *fx, struct window *w)
{
	static struct fi_context2 ctx[SLOTS];
	struct guard in[SLOTS];

	for (uint64_t k = 0; k < SLOTS; k++)
		in[k] = guard_alloc(BIG);
	post_receives(fx, in, ctx, 0);
	fx_barrier(fx);
	for (uint64_t i = 0; i < 3 * SLOTS; i++) {
		uint64_t number;
		struct comp c;

		COMP_WAIT(fx, FX_RX, &c);
		CHECK(!c.err, "a receive fails: %d", c.err);
		memcpy(&number, in[(struct fi_context2 *)c.ctx - ctx].data, 8);
		CHECK(number / SLOTS == i / SLOTS, "message %" PRIu64 " comes now", number);
		CHECK(pattern_check(w->g.data + (number % SLOTS + 1) * BIG - pair_of(number)->first,
				    pair_of(number)->first, number) == pair_of(number)->first,
		      "message %" PRIu64 " overtook a write of %zu bytes", number,
		      pair_of(number)->first);
		if (i % SLOTS < SLOTS - 1)
			continue;
		if (i + 1 < 3 * SLOTS)
			post_receives(fx, in, ctx, i + 1);
		fx_barrier(fx);
	}
	for (uint64_t k = 0; k < SLOTS; k++)
		guard_free(&in[k]);
}

static void send_after_write(struct test *t, uint64_t order, uint64_t caps, uint64_t flags)
{
	struct window w;
	struct fx fx;

	open_ordered(t, &fx, &w, order, caps);
	if (run_sends(t)) {
		fx_barrier(&fx);
		write_and_tell(&fx, &w, flags);
	} else {
		take_and_look(&fx, &w);
	}
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

static void saw(struct test *t)
{
	send_after_write(t, FI_ORDER_SAW, 0, 0);
}

static void saw_fence(struct test *t)
{
	send_after_write(t, 0, FI_FENCE, FI_FENCE);
}

/* ---- send after read ---- */

/* The target overwrites what is read as soon as the message behind the read has come. */
static void send_after_read(struct test *t, uint64_t order, uint64_t caps, uint64_t flags)
{
	struct guard g = guard_alloc(BIG);
	struct fi_context2 ctx[2];
	uint64_t number = 0;
	struct window w;
	struct fx fx;

	open_ordered(t, &fx, &w, order, caps);
	for (size_t i = 0; i < ROUNDS; i++) {
		if (run_receives(t))
			RECV(&fx, .buf = &number, .len = 8, .addr = FI_ADDR_UNSPEC, .ctx = &ctx[0]);
		fx_barrier(&fx);
		if (run_sends(t)) {
			pattern_fill(g.data, BIG, 1);
			post(&fx, &w, DO_GET, i, g.data, BIG, 0, &ctx[0]);
			SEND(&fx, .call = CALL_MSG, .buf = &number, .len = 8, .addr = fx.peer,
			     .flags = flags, .ctx = &ctx[1]);
			COMP_ANY_ORDER(&fx, FX_TX, ctx, 2);
			CHECK(!guard_changed(&g, 0, BIG), "round %zu: the message overtook a read", i);
		} else {
			COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[0], .flags = GOT_MSG, .len = 8);
			memset(w.g.data + i * BIG, 0, BIG);
		}
	}
	fx_barrier(&fx);
	window_close(&w);
	guard_free(&g);
	fx_close(&fx);
}

static void sar(struct test *t)
{
	send_after_read(t, FI_ORDER_SAR, 0, 0);
}

static void sar_fence(struct test *t)
{
	send_after_read(t, 0, FI_FENCE, FI_FENCE);
}

const struct test_case rma_order_cases[] = {
	{ "rma_order_raw", "FI_ORDER_RAW: a read sees the writes before it", raw, .self = true },
	{ "rma_order_rma_raw", "FI_ORDER_RMA_RAW: the same", rma_raw, .self = true },
	{ "rma_order_waw", "FI_ORDER_WAW: the last write wins", waw, .self = true },
	{ "rma_order_rma_waw", "FI_ORDER_RMA_WAW: the same", rma_waw, .self = true },
	{ "rma_order_war", "FI_ORDER_WAR: a read does not see later writes", war, .self = true },
	{ "rma_order_rma_war", "FI_ORDER_RMA_WAR: the same", rma_war, .self = true },
	{ "rma_order_saw", "FI_ORDER_SAW: a message comes behind the writes before it", saw, .ranks = 2 },
	{ "rma_order_sar", "FI_ORDER_SAR: a message comes behind the reads before it", sar, .ranks = 2 },
	{ "rma_fence_raw", "a fenced read sees the writes before it", raw_fence, .self = true },
	{ "rma_fence_waw", "a fenced write is the last", waw_fence, .self = true },
	{ "rma_fence_war", "a fenced write is not seen by reads before it", war_fence, .self = true },
	{ "rma_fence_saw", "a fenced message comes behind the writes before it", saw_fence, .ranks = 2 },
	{ "rma_fence_sar", "a fenced message comes behind the reads before it", sar_fence, .ranks = 2 },
	{ 0 },
};
