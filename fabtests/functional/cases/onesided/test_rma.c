/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes and reads: sizes, alignment, vectors at both ends, calls, completion levels.
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/transfer.h"
#include "framework/window.h"

#include <inttypes.h>
#include <string.h>

static const struct fx_attr plain = { .caps = FI_MSG | FI_RMA, .tx_flags = FI_DELIVERY_COMPLETE };

static const size_t sizes[] = { 0, 1, 8, 4096, 65537, 1 << 20, 5 << 20 };

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), GAP = 64, MIDDLE = 100000 };

/* ---- sizes ---- */

static void write_one(struct fx *fx, struct window *w, size_t at, size_t len, size_t shift)
{
	struct guard g = guard_alloc(len + shift);
	struct fi_context2 ctx;

	pattern_fill(g.data + shift, len, len);
	ONESIDED(fx, .kind = DO_PUT, .buf = g.data + shift, .len = len, .addr = fx->peer,
		 .at = window_at(w, window_peer(fx), at), .key = w->key[window_peer(fx)], .ctx = &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = DID_PUT);
	guard_free(&g);
}

static void read_one(struct fx *fx, struct window *w, size_t at, size_t len, size_t shift)
{
	struct guard g = guard_alloc(len + shift);
	struct fi_context2 ctx;

	ONESIDED(fx, .kind = DO_GET, .buf = g.data + shift, .len = len, .addr = fx->peer,
		 .at = window_at(w, window_peer(fx), at), .key = w->key[window_peer(fx)], .ctx = &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = DID_GET);
	CHECK(pattern_check(g.data + shift, len, len) == len, "wrong bytes were read");
	CHECK(!guard_changed(&g, 0, shift) && !guard_damage(&g, g.len),
	      "bytes written outside the buffer");
	guard_free(&g);
}

/* The write's completion shows that its bytes are in place. */
static void both_ways(struct fx *fx, size_t len, size_t near, size_t far)
{
	struct window w;

	run_step("%zu bytes, shifted by %zu here and %zu there", len, near, far);
	window_open(fx, &w, len + 2 * GAP, 0);
	if (run_sends(fx->t))
		write_one(fx, &w, GAP + far, len, near);
	fx_barrier(fx);
	if (run_receives(fx->t))
		WINDOW_HOLDS(&w, GAP + far, len, len);
	if (run_sends(fx->t))
		read_one(fx, &w, GAP + far, len, near);
	fx_barrier(fx);
	COMP_NONE(fx, 0);
	window_close(&w);
}

static void all_sizes(struct test *t, enum window_keys keys)
{
	struct fx fx;

	window_open_ep(t, &fx, &plain, keys);
	for (size_t i = 0; i < SIZES; i++)
		both_ways(&fx, sizes[i], 0, 0);
	for (size_t i = 0; i < 9; i++)
		both_ways(&fx, i % 3 ? MIDDLE : 40, i % 3, i / 3 * 3);
	fx_close(&fx);
}

static void sizes_offset(struct test *t)
{
	all_sizes(t, KEYS_OFFSET);
}

static void sizes_address(struct test *t)
{
	all_sizes(t, KEYS_ADDRESS);
}

/* ---- vectors ---- */

struct shape {
	struct guard g;		/* local memory */
	struct iovec iov[ONESIDED_IOV_MAX];
	size_t iov_count;
	struct fi_rma_iov remote[ONESIDED_IOV_MAX];
	struct iovec there[ONESIDED_IOV_MAX];	/* the same, from the window's begin on */
	size_t remote_count;
};

/* Both ranks compute the same pieces; some are empty. */
static void shape_init(struct fx *fx, const struct window *w, struct shape *s, size_t len, size_t near,
		       size_t far)
{
	int peer = window_peer(fx);

	s->g = guard_alloc(len);
	s->iov_count = near;
	s->remote_count = far;
	transfer_cut(s->iov, near, s->g.data, len, len + near);
	transfer_cut(s->there, far, NULL, len, len + far);
	for (size_t i = 0; i < far; i++)
		s->remote[i] = (struct fi_rma_iov){
			.addr = window_at(w, peer, GAP + (uintptr_t)s->there[i].iov_base),
			.len = s->there[i].iov_len, .key = w->key[peer],
		};
}

/* The pieces together, in their order. */
static void join(uint8_t *flat, const uint8_t *from, const struct iovec *iov, size_t count)
{
	for (size_t i = 0; i < count; flat += iov[i++].iov_len)
		memcpy(flat, from + (uintptr_t)iov[i].iov_base, iov[i].iov_len);
}

static void split(const uint8_t *flat, const struct iovec *iov, size_t count)
{
	for (size_t i = 0; i < count; flat += iov[i++].iov_len)
		memcpy(iov[i].iov_base, flat, iov[i].iov_len);
}

static void check_flat(const uint8_t *from, const struct iovec *iov, size_t count, size_t len)
{
	struct guard flat = guard_alloc(len);

	join(flat.data, from, iov, count);
	GUARD_HOLDS(&flat, len, len + 1);
	guard_free(&flat);
}

static void vector_post(struct fx *fx, struct shape *s, enum onesided_kind kind)
{
	struct fi_context2 ctx;
	bool plain_remote = s->remote_count == 1;

	ONESIDED(fx, .kind = kind, .call = plain_remote ? CALL_IOV : CALL_MSG, .iov = s->iov,
		 .iov_count = s->iov_count, .len = s->g.len, .addr = fx->peer,
		 .at = s->remote[0].addr, .key = s->remote[0].key,
		 .remote = plain_remote ? NULL : s->remote, .remote_count = s->remote_count,
		 .flags = kind == DO_PUT ? FI_DELIVERY_COMPLETE : 0, .ctx = &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = onesided_did(kind));
}

static void vector_write(struct fx *fx, struct shape *s)
{
	struct guard flat = guard_alloc(s->g.len);

	pattern_fill(flat.data, flat.len, flat.len + 1);
	split(flat.data, s->iov, s->iov_count);
	vector_post(fx, s, DO_PUT);
	guard_wipe(&s->g);
	guard_free(&flat);
}

static void vector_read(struct fx *fx, struct shape *s)
{
	vector_post(fx, s, DO_GET);
	check_flat(NULL, s->iov, s->iov_count, s->g.len);
	CHECK(!guard_damage(&s->g, s->g.len), "bytes written outside the buffer");
}

static void vector_both(struct fx *fx, size_t len, size_t near, size_t far)
{
	struct window w;
	struct shape s;

	run_step("%zu bytes from %zu pieces to %zu", len, near, far);
	window_open(fx, &w, len + 2 * GAP, 0);
	shape_init(fx, &w, &s, len, near, far);
	if (run_sends(fx->t))
		vector_write(fx, &s);
	fx_barrier(fx);
	if (run_receives(fx->t)) {
		check_flat(w.g.data + GAP, s.there, far, len);
		CHECK(!guard_changed(&w.g, 0, GAP) && !guard_changed(&w.g, GAP + len, GAP),
		      "bytes outside have changed");
	}
	if (run_sends(fx->t))
		vector_read(fx, &s);
	fx_barrier(fx);
	guard_free(&s.g);
	window_close(&w);
}

static size_t at_most(size_t n, size_t most)
{
	return n < most ? n : most;
}

static void vectors(struct test *t)
{
	static const size_t lens[] = { 30, 5000, 300000, 2 << 20 };
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	CHECK(fx.info->tx_attr->iov_limit >= 1 && fx.info->tx_attr->rma_iov_limit >= 1, "limits of 0");
	for (size_t near = 1; near <= at_most(4, fx.info->tx_attr->iov_limit); near++)
		for (size_t far = 1; far <= at_most(4, fx.info->tx_attr->rma_iov_limit); far++)
			vector_both(&fx, lens[(near + far) % 4], near, far);
	fx_close(&fx);
}

/* ---- injects and levels ---- */

/* The buffer is overwritten as soon as the call has returned. */
static void inject_one(struct fx *fx, struct window *w, size_t len, uint64_t flags)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	pattern_fill(g.data, len, len + 7);
	ONESIDED(fx, .kind = DO_PUT, .call = flags ? CALL_MSG : CALL_INJECT, .buf = g.data, .len = len,
		 .addr = fx->peer, .at = window_at(w, window_peer(fx), GAP),
		 .key = w->key[window_peer(fx)], .flags = flags, .ctx = &ctx);
	guard_wipe(&g);
	if (flags)
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = DID_PUT);
	guard_free(&g);
}

static void inject(struct test *t)
{
	size_t most, lens[5];
	struct fx fx;

	window_open_ep(t, &fx, &(struct fx_attr){ .caps = FI_MSG | FI_RMA }, KEYS_ANY);
	most = fx.info->tx_attr->inject_size;
	memcpy(lens, (size_t[]){ 0, 1, 8, most / 2, most }, sizeof(lens));
	for (size_t i = 0; i < 10; i++) {
		size_t len = lens[i / 2];
		struct window w;

		run_step("%zu bytes, %s", len, i & 1 ? "FI_INJECT" : "fi_inject_write");
		window_open(&fx, &w, len + 2 * GAP, 0);
		if (run_sends(t))
			inject_one(&fx, &w, len, i & 1 ? FI_INJECT : 0);
		if (run_receives(t)) {
			window_await(&w, GAP, len, len + 7);
			WINDOW_HOLDS(&w, GAP, len, len + 7);
		}
		fx_barrier(&fx);
		window_close(&w);
	}
	fx_close(&fx);
}

/* After the completion the buffer may be overwritten; with delivery the bytes are in place. */
static void level_one(struct fx *fx, struct window *w, size_t len, uint64_t level)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	if (run_sends(fx->t)) {
		pattern_fill(g.data, len, level);
		ONESIDED(fx, .kind = DO_PUT, .call = CALL_MSG, .buf = g.data, .len = len,
			 .addr = fx->peer, .at = window_at(w, window_peer(fx), 0),
			 .key = w->key[window_peer(fx)], .flags = level, .ctx = &ctx);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = DID_PUT);
		guard_wipe(&g);
	}
	if (level & FI_DELIVERY_COMPLETE)
		fx_barrier(fx);
	else if (run_receives(fx->t))
		window_await(w, 0, len, level);
	if (run_receives(fx->t))
		WINDOW_HOLDS(w, 0, len, level);
	guard_free(&g);
}

static void levels(struct test *t)
{
	static const uint64_t level[] = {
		0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
	};
	struct fx fx;

	window_open_ep(t, &fx, &(struct fx_attr){ .caps = FI_MSG | FI_RMA }, KEYS_ANY);
	for (size_t i = 0; i < 4; i++)
		for (size_t k = 1; k < SIZES - 1; k++) {
			struct window w;

			run_step("%zu bytes, level 0x%" PRIx64, sizes[k], level[i]);
			window_open(&fx, &w, sizes[k], 0);
			level_one(&fx, &w, sizes[k], level[i]);
			fx_barrier(&fx);
			window_close(&w);
		}
	fx_close(&fx);
}

/* ---- selective completion ---- */

/* Writes and reads without FI_COMPLETION have no entry, failed ones excepted. */
static void selective(struct test *t)
{
	struct fx_attr attr = { .caps = FI_MSG | FI_RMA, .tx_bind = FI_SELECTIVE_COMPLETION };
	struct fi_context2 ctx[2];
	struct guard g = guard_alloc(64);
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, 64, 0);
	for (int i = 0; run_sends(t) && i < 4; i++) {
		enum onesided_kind kind = i & 1 ? DO_GET : DO_PUT;

		ONESIDED(&fx, .kind = kind, .call = CALL_MSG, .buf = g.data, .len = 64,
			 .addr = fx.peer, .at = window_at(&w, window_peer(&fx), 0),
			 .key = w.key[window_peer(&fx)], .flags = i < 2 ? 0 : FI_COMPLETION,
			 .ctx = &ctx[i & 1]);
		if (i >= 2)
			COMP_EXPECT(&fx, FX_TX, .ctx = &ctx[i & 1], .flags = onesided_did(kind));
	}
	COMP_NONE(&fx, 20);
	fx_barrier(&fx);
	COMP_NONE(&fx, 0);
	window_close(&w);
	guard_free(&g);
	fx_close(&fx);
}

const struct test_case rma_cases[] = {
	{ "rma_sizes_offset", "writes and reads of all sizes, misaligned; the application's keys", sizes_offset, .self = true },
	{ "rma_sizes_address", "the same with the provider's keys", sizes_address, .self = true },
	{ "rma_vectors", "one to four pieces at either end", vectors, .self = true },
	{ "rma_inject", "an injected write leaves its buffer at once", inject, .self = true },
	{ "rma_levels", "a write's completion frees the buffer; delivery means in place", levels, .self = true },
	{ "rma_selective", "writes and reads have an entry only if they ask for one", selective, .self = true },
	{ 0 },
};
