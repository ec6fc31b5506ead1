/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_FENCE: a fenced send waits until all earlier sends to the same peer have completed.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE = 1 << 20, SMALL = 16, FIRST = 1, FENCED, BEHIND };

static const struct fx_attr fenced = { .caps = FI_MSG | FI_TAGGED | FI_FENCE };

/* The send that the fence waits for: it completes only when it has matched. */
struct first {
	const char *name;
	size_t len;
	uint64_t flags;
};

static const struct first firsts[] = {
	{ "a large one", LARGE, 0 },
	{ "a small one with FI_MATCH_COMPLETE", SMALL, FI_MATCH_COMPLETE },
};

static void sender(struct fx *fx, const struct first *first, bool tagged)
{
	struct guard g = guard_alloc(LARGE);
	struct fi_context2 ctx[3];

	pattern_fill(g.data, g.len, FIRST);
	SEND(fx, .call = CALL_MSG, .tagged = true, .buf = g.data, .len = first->len,
	     .addr = fx->peer, .tag = FIRST, .flags = first->flags, .ctx = &ctx[0]);
	SEND(fx, .call = CALL_MSG, .tagged = tagged, .buf = g.data, .len = SMALL, .addr = fx->peer,
	     .tag = FENCED, .flags = FI_FENCE, .ctx = &ctx[1]);
	SEND(fx, .tagged = true, .buf = g.data, .len = SMALL, .addr = fx->peer, .tag = BEHIND,
	     .ctx = &ctx[2]);
	COMP_NONE(fx, 50);
	fx_barrier(fx);
	COMP_IN_ORDER(fx, FX_TX, ctx, 3);
	guard_free(&g);
}

static void receiver(struct fx *fx, const struct first *first, bool tagged)
{
	struct guard g = guard_alloc(first->len);
	struct fi_context2 ctx[3];
	char in[2][SMALL];

	RECV(fx, .tagged = tagged, .buf = in[0], .len = SMALL, .addr = FI_ADDR_UNSPEC,
	     .tag = FENCED, .ctx = &ctx[1]);
	RECV(fx, .tagged = true, .buf = in[1], .len = SMALL, .addr = FI_ADDR_UNSPEC, .tag = BEHIND,
	     .ctx = &ctx[2]);
	COMP_NONE(fx, 50);
	fx_barrier(fx);
	RECV(fx, .tagged = true, .buf = g.data, .len = g.len, .addr = FI_ADDR_UNSPEC, .tag = FIRST,
	     .ctx = &ctx[0]);
	COMP_IN_ORDER(fx, FX_RX, ctx, 3);
	GUARD_HOLDS(&g, g.len, FIRST);
	guard_free(&g);
}

static void waits(struct test *t)
{
	struct fx fx;

	fx_open_or_skip(t, &fx, &fenced, "FI_FENCE");
	for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++)
		for (int tagged = 0; tagged < 2; tagged++) {
			run_step("behind %s, %s", firsts[i].name, tagged ? "tagged" : "untagged");
			if (run_sends(t))
				sender(&fx, &firsts[i], tagged);
			else
				receiver(&fx, &firsts[i], tagged);
			fx_barrier(&fx);
		}
	fx_close(&fx);
}

/* Rank 1 leaves a message unmatched; a fenced send to rank 2 does not wait for it. */
static void other_peer(struct test *t)
{
	struct guard g = guard_alloc(LARGE);
	struct fi_context2 ctx[2];
	struct fx fx;

	fx_open_or_skip(t, &fx, &fenced, "FI_FENCE");
	if (t->rank == 0) {
		SEND(&fx, .tagged = true, .buf = g.data, .len = LARGE, .addr = fx.addr[1],
		     .tag = 1, .ctx = &ctx[0]);
		SEND(&fx, .call = CALL_MSG, .tagged = true, .buf = g.data, .len = LARGE,
		     .addr = fx.addr[2], .tag = 1, .flags = FI_FENCE, .ctx = &ctx[1]);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx[1], .flags = SENT_TAGGED);
	}
	if (t->rank == 1)
		fx_barrier(&fx);
	if (t->rank != 0) {
		RECV(&fx, .tagged = true, .buf = g.data, .len = LARGE, .addr = FI_ADDR_UNSPEC,
		     .tag = 1, .ctx = &ctx[0]);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .len = LARGE, .tag = 1);
	}
	if (t->rank != 1)
		fx_barrier(&fx);
	if (t->rank == 0)
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx[0], .flags = SENT_TAGGED);
	guard_free(&g);
	fx_close(&fx);
}

/* ---- many at once ---- */

enum { COUNT = 400, WINDOW = 40 };

struct one {
	size_t len;
	uint64_t flags;
};

/* Both ranks draw the same messages. */
static void draw(struct one *one, uint64_t *state)
{
	static const size_t lens[] = { 0, 8, 1000, 5000, 20000, 300000 };
	static const uint64_t levels[] = {
		0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE,
	};

	one->len = lens[pattern_next(state) % 6];
	one->flags = levels[pattern_next(state) % 5];
	if (!(pattern_next(state) % 4))
		one->flags |= FI_MORE;
	if (!(pattern_next(state) % 5))
		one->flags |= FI_FENCE;
}

/* When a fenced send completes, all earlier sends have completed. */
static void check_completed(const struct one *one, bool *done, size_t first, size_t now)
{
	CHECK(!done[now], "message %zu completed twice", now);
	done[now] = true;
	for (size_t i = first; one[now].flags & FI_FENCE && i < now; i++)
		CHECK(done[i], "fenced message %zu completed before message %zu", now, i);
}

static void send_window(struct fx *fx, const struct one *one, bool *done, uint8_t *buf,
			size_t first)
{
	static struct fi_context2 ctx[COUNT];

	for (size_t i = first; i < first + WINDOW; i++)
		SEND(fx, .call = CALL_MSG, .tagged = true, .buf = buf, .len = one[i].len,
		     .addr = fx->peer, .tag = i, .flags = one[i].flags, .ctx = &ctx[i]);
	for (size_t i = 0; i < WINDOW; i++) {
		struct comp c;

		COMP_WAIT(fx, FX_TX, &c);
		CHECK(!c.err, "a send failed: err %d", c.err);
		check_completed(one, done, first,
				(size_t)((struct fi_context2 *)c.ctx - ctx));
	}
}

static void recv_window(struct fx *fx, const struct one *one, uint8_t *buf, size_t first)
{
	struct fi_context2 ctx[WINDOW];

	for (size_t i = first; i < first + WINDOW; i++)
		RECV(fx, .tagged = true, .buf = buf + (i - first) * LARGE / 2, .len = LARGE / 2,
		     .addr = FI_ADDR_UNSPEC, .ignore = ~0ULL, .ctx = &ctx[i - first]);
	COMP_ANY_ORDER(fx, FX_RX, ctx, WINDOW);
	for (size_t i = first; i < first + WINDOW; i++)
		CHECK(pattern_check(buf + (i - first) * LARGE / 2, one[i].len, 1) == one[i].len,
		      "message %zu is damaged or out of order", i);
}

static void among_many(struct test *t)
{
	uint8_t *buf = calloc(WINDOW, LARGE / 2);
	static struct one one[COUNT];
	static bool done[COUNT];
	uint64_t state = t->seed;
	struct fx fx;

	CHECK(buf, "no memory");
	for (size_t i = 0; i < COUNT; i++)
		draw(&one[i], &state);
	fx_open_or_skip(t, &fx, &fenced, "FI_FENCE");
	if (run_sends(t))
		pattern_fill(buf, LARGE / 2, 1);
	for (size_t first = 0; first < COUNT; first += WINDOW) {
		run_step("messages from %zu on", first);
		if (run_sends(t))
			send_window(&fx, one, done, buf, first);
		else
			recv_window(&fx, one, buf, first);
	}
	fx_close(&fx);
	free(buf);
}

const struct test_case fence_cases[] = {
	{ "fence_waits", "a fenced send and those after it wait for the earlier ones", waits, .ranks = 2 },
	{ "fence_other_peer", "a fenced send does not wait for sends to another peer", other_peer, .ranks = 3 },
	{ "fence_among_many", "400 random sends: no fenced one completes before an earlier one", among_many, .ranks = 2 },
	{ 0 },
};
