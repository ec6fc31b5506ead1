/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Accesses that the target does not permit: each ends with one error entry, and
 * everything else on the same connection goes on.
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LEN = 300000, SMALL = 64 };

/* The windows of a rank: all rights, one right each, and one that is closed again. */
struct windows {
	struct window all, reads, writes, closed;
};

enum where { WRONG_KEY, BEHIND, BEFORE, WRAPS, FAR_AWAY, NO_RIGHT, CLOSED, WHERES };

static const char *const where_name[WHERES] = {
	"a wrong key", "one byte too many", "one byte before the begin", "a range that wraps around",
	"an address far away", "no right to this", "a closed region",
};

static const struct fx_attr plain = { .caps = FI_MSG | FI_RMA, .tx_flags = FI_DELIVERY_COMPLETE };
static const struct fx_attr with_atomics = {
	.caps = FI_MSG | FI_RMA | FI_ATOMIC, .tx_flags = FI_DELIVERY_COMPLETE,
};

static void windows_open(struct fx *fx, struct windows *ws)
{
	window_open(fx, &ws->all, LEN, 0);
	window_open(fx, &ws->reads, LEN, FI_REMOTE_READ);
	window_open(fx, &ws->writes, LEN, FI_REMOTE_WRITE);
	window_open(fx, &ws->closed, LEN, 0);
	CHECK_OK(fi_close(&ws->closed.mr->fid));
	ws->closed.mr = NULL;
	fx_barrier(fx);
}

/* Nothing was written anywhere. */
static void windows_close(struct windows *ws)
{
	struct window *w[] = { &ws->all, &ws->reads, &ws->writes, &ws->closed };

	for (int i = 0; i < 4; i++) {
		CHECK(!guard_changed(&w[i]->g, 0, LEN), "a refused operation changed window %d", i);
		window_close(w[i]);
	}
}

static void place(struct fx *fx, const struct windows *ws, struct onesided *o, enum where where)
{
	const struct window *w = where == CLOSED ? &ws->closed : where != NO_RIGHT ? &ws->all :
				 o->kind == DO_GET ? &ws->writes : &ws->reads;
	int peer = window_peer(fx);
	uint64_t at[WHERES] = {
		[BEHIND] = LEN + 1 - o->len, [BEFORE] = UINT64_MAX, [WRAPS] = -o->len / 2,
		[FAR_AWAY] = 1ULL << 50,
	};

	o->key = w->key[peer] + (where == WRONG_KEY ? 0x5a5a5a : 0);
	o->at = window_at(w, peer, at[where]);
	/* Elements are aligned. */
	if (o->kind >= DO_ATOMIC && where != NO_RIGHT)
		o->at &= ~7ULL;
	if (o->kind >= DO_ATOMIC && where == BEHIND)
		o->at += 8;
	/* The range wraps around at the end of all addresses. */
	if (where == WRAPS)
		o->at = UINT64_MAX - o->len / 2;
}

static void expect_refusal(struct fx *fx, const void *ctx, const char *what)
{
	struct comp c;

	COMP_WAIT(fx, FX_TX, &c);
	CHECK(c.err, "%s was permitted", what);
	CHECK(c.ctx == ctx, "the error of %s has context %p, want %p", what, c.ctx, ctx);
	CHECK(c.err == FI_EACCES || c.err == FI_EKEYREJECTED || c.err == FI_EINVAL ||
	      c.err == FI_ENOKEY || c.err == FI_EPERM || c.err == FI_EREMOTEIO || c.err == FI_EIO ||
	      c.err == FI_EFAULT, "%s ends with %d (%s)", what, c.err, fi_strerror(c.err));
}

/* A message, a write and a read on the same connection. */
static void still_works(struct fx *fx, struct windows *ws, uint64_t seed)
{
	struct guard g = guard_alloc(SMALL);
	struct fi_context2 ctx[3];
	int peer = window_peer(fx);

	if (run_receives(fx->t))
		RECV(fx, .buf = g.data, .len = SMALL, .addr = FI_ADDR_UNSPEC, .ctx = &ctx[2]);
	fx_barrier(fx);
	if (run_sends(fx->t)) {
		struct guard out = guard_alloc(SMALL);

		pattern_fill(out.data, SMALL, seed);
		SEND(fx, .buf = out.data, .len = SMALL, .addr = fx->peer, .ctx = &ctx[0]);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx[0], .flags = SENT_MSG);
		ONESIDED(fx, .kind = DO_PUT, .buf = out.data, .len = SMALL, .addr = fx->peer,
			 .at = window_at(&ws->all, peer, 100), .key = ws->all.key[peer], .ctx = &ctx[0]);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx[0], .flags = DID_PUT);
		guard_wipe(&out);
		ONESIDED(fx, .kind = DO_GET, .buf = out.data, .len = SMALL, .addr = fx->peer,
			 .at = window_at(&ws->all, peer, 100), .key = ws->all.key[peer], .ctx = &ctx[1]);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx[1], .flags = DID_GET);
		GUARD_HOLDS(&out, SMALL, seed);
		guard_free(&out);
	}
	fx_barrier(fx);
	if (run_receives(fx->t)) {
		COMP_EXPECT(fx, FX_RX, .ctx = &ctx[2], .flags = GOT_MSG, .len = SMALL);
		GUARD_HOLDS(&g, SMALL, seed);
		WINDOW_HOLDS(&ws->all, 100, SMALL, seed);
		guard_wipe(&ws->all.g);
	}
	fx_barrier(fx);
	guard_free(&g);
}

struct kind {
	enum onesided_kind kind;
	size_t len;
	const char *name;
};

/* A range that wraps around may be refused by the call. */
static bool refuse_at_once(struct fx *fx, const struct onesided *o, const char *what)
{
	if (o->at + o->len >= o->at) {
		onesided_post(fx, o);
		return false;
	}
	for (;;) {
		ssize_t ret = onesided_try(fx->ep, o);

		if (ret != -FI_EAGAIN) {
			CHECK(!ret || ret == -FI_EINVAL, "%s: %zd (%s)", what, ret,
			      fi_strerror((int)-ret));
			return ret;
		}
		fx_progress(fx);
		FX_CHECK_MOVES(fx, "%s: -FI_EAGAIN without end", what);
	}
}

static void refuse(struct fx *fx, struct windows *ws, const struct kind *k, enum where where)
{
	struct guard g = guard_alloc(k->len), result = guard_alloc(k->len);
	struct fi_context2 ctx;
	struct onesided o = {
		.kind = k->kind, .buf = g.data, .len = k->len, .addr = fx->peer, .ctx = &ctx,
		.type = FI_UINT64, .op = FI_SUM, .result = result.data, .compare = result.data,
	};
	char what[100];

	snprintf(what, sizeof(what), "%s with %s", k->name, where_name[where]);
	run_step("%s", what);
	if (run_sends(fx->t)) {
		place(fx, ws, &o, where);
		if (!refuse_at_once(fx, &o, what))
			expect_refusal(fx, &ctx, what);
		COMP_NONE(fx, 0);
		CHECK(!guard_changed(&result, 0, k->len), "%s returned something", what);
	}
	guard_free(&g);
	guard_free(&result);
}

static void all_refusals(struct test *t, const struct fx_attr *attr, enum window_keys keys,
			 const struct kind *kinds, size_t n)
{
	struct windows ws;
	struct fx fx;

	window_open_ep(t, &fx, attr, keys);
	windows_open(&fx, &ws);
	for (size_t i = 0; i < n; i++) {
		for (enum where where = 0; where < WHERES; where++) {
			/* Before the begin of offsets there is nothing but a wrap. */
			if (where == BEFORE && keys == KEYS_OFFSET && kinds[i].kind >= DO_ATOMIC)
				continue;
			refuse(&fx, &ws, &kinds[i], where);
		}
		fx_barrier(&fx);
		still_works(&fx, &ws, i);
	}
	fx_barrier(&fx);
	COMP_NONE(&fx, 0);
	windows_close(&ws);
	fx_close(&fx);
}

static const struct kind rma_kinds[] = {
	{ DO_PUT, SMALL, "a small write" },
	{ DO_GET, SMALL, "a small read" },
	{ DO_PUT, LEN, "a large write" },
	{ DO_GET, LEN, "a large read" },
};

static const struct kind atomic_kinds[] = {
	{ DO_ATOMIC, 8, "an atomic" },
	{ DO_FETCH, SMALL, "a fetching atomic" },
};

static void rma_offset(struct test *t)
{
	all_refusals(t, &plain, KEYS_OFFSET, rma_kinds, 4);
}

static void rma_address(struct test *t)
{
	all_refusals(t, &plain, KEYS_ADDRESS, rma_kinds, 4);
}

static void atomics_offset(struct test *t)
{
	all_refusals(t, &with_atomics, KEYS_OFFSET, atomic_kinds, 2);
}

static void atomics_address(struct test *t)
{
	all_refusals(t, &with_atomics, KEYS_ADDRESS, atomic_kinds, 2);
}

/* ---- amid good ones ---- */

enum { COUNT = 100 };

/* Every third of 100 operations under way is refused; the others succeed. */
static void amid_others(struct test *t)
{
	static struct fi_context2 ctx[COUNT];
	static bool seen[COUNT];
	struct guard g = guard_alloc(LEN), in = guard_alloc(LEN);
	struct windows ws;
	struct fx fx;
	int peer;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	peer = window_peer(&fx);
	windows_open(&fx, &ws);
	pattern_fill(g.data, LEN, 4);
	for (size_t i = 0; run_sends(t) && i < COUNT; i++) {
		enum onesided_kind kind = i & 1 ? DO_GET : DO_PUT;
		bool bad = i % 3 == 2;

		ONESIDED(&fx, .kind = kind, .buf = (i & 1 ? in.data : g.data) + i * 1000,
			 .len = 1000, .addr = fx.peer, .at = window_at(&ws.all, peer, i * 1000),
			 .key = bad ? ws.closed.key[peer] : ws.all.key[peer], .ctx = &ctx[i]);
	}
	for (size_t i = 0; run_sends(t) && i < COUNT; i++) {
		struct comp c;
		size_t k;

		COMP_WAIT(&fx, FX_TX, &c);
		k = (size_t)((struct fi_context2 *)c.ctx - ctx);
		CHECK(k < COUNT && !seen[k], "a completion of nobody's or twice");
		seen[k] = true;
		CHECK(!c.err == (k % 3 != 2), "operation %zu ends with %d", k, c.err);
	}
	fx_barrier(&fx);
	for (size_t i = 0; run_receives(t) && i < COUNT; i++) {
		bool there = !memcmp(ws.all.g.data + i * 1000, (uint8_t[]){ 0xa5, 0xa5, 0xa5, 0xa5 }, 4);

		CHECK(there == (i & 1 || i % 3 == 2), "bytes of operation %zu are %s", i,
		      there ? "missing" : "there");
	}
	guard_wipe(&ws.all.g);
	fx_barrier(&fx);
	windows_close(&ws);
	guard_free(&g);
	guard_free(&in);
	fx_close(&fx);
}

/* A refused write with remote CQ data leaves no entry at the target. */
static void no_entry(struct test *t)
{
	char buf[SMALL] = { 0 };
	struct fi_context2 ctx;
	struct windows ws;
	struct fx fx;
	int peer;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	peer = window_peer(&fx);
	windows_open(&fx, &ws);
	if (run_sends(t)) {
		ONESIDED(&fx, .kind = DO_PUT, .call = CALL_DATA, .buf = buf, .len = SMALL,
			 .addr = fx.peer, .at = window_at(&ws.all, peer, LEN - SMALL + 1),
			 .key = ws.all.key[peer], .data = 5, .ctx = &ctx);
		expect_refusal(&fx, &ctx, "a write with remote CQ data");
	}
	fx_barrier(&fx);
	COMP_NONE(&fx, 10);
	still_works(&fx, &ws, 1);
	windows_close(&ws);
	fx_close(&fx);
}

/* One of several remote pieces is not permitted: nothing is written or all but that; one error. */
static void one_piece(struct test *t)
{
	struct fi_rma_iov remote[2];
	char buf[2 * SMALL] = { 0 };
	struct fi_context2 ctx;
	struct windows ws;
	struct fx fx;
	int peer;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	peer = window_peer(&fx);
	if (fx.info->tx_attr->rma_iov_limit < 2)
		run_skip("one remote piece at most");
	windows_open(&fx, &ws);
	for (int bad = 0; run_sends(t) && bad < 2; bad++) {
		for (int i = 0; i < 2; i++)
			remote[i] = (struct fi_rma_iov){
				.addr = window_at(i == bad ? &ws.reads : &ws.all, peer, 0),
				.len = SMALL, .key = (i == bad ? &ws.reads : &ws.all)->key[peer],
			};
		ONESIDED(&fx, .kind = DO_PUT, .call = CALL_MSG, .buf = buf, .len = 2 * SMALL,
			 .addr = fx.peer, .remote = remote, .remote_count = 2,
			 .flags = FI_DELIVERY_COMPLETE, .ctx = &ctx);
		expect_refusal(&fx, &ctx, "a write to two pieces");
		COMP_NONE(&fx, 5);
	}
	fx_barrier(&fx);
	guard_wipe(&ws.all.g);
	still_works(&fx, &ws, 1);
	windows_close(&ws);
	fx_close(&fx);
}

const struct test_case rma_refused_cases[] = {
	{ "refused_rma_offset", "writes and reads that are not permitted, the application's keys", rma_offset, .self = true },
	{ "refused_rma_address", "the same with the provider's keys", rma_address, .self = true },
	{ "refused_atomics_offset", "atomics that are not permitted, the application's keys", atomics_offset, .self = true },
	{ "refused_atomics_address", "the same with the provider's keys", atomics_address, .self = true },
	{ "refused_amid_others", "refused operations among 100 under way", amid_others, .self = true },
	{ "refused_no_entry", "a refused write's remote CQ data do not arrive", no_entry, .self = true },
	{ "refused_one_piece", "one of several remote pieces is not permitted", one_piece, .self = true },
	{ 0 },
};
