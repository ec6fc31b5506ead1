/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_close at any moment: it returns in time, and each of the peer's operations
 * completes.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 12, OPS = 24, LARGE = 1 << 20, CLOSE_MS = 15000, KIB = 1024, MANY = 1000,
       LONG_QUEUE = 20000, SLEEP_US = 500000 };

struct traffic {
	struct fi_context2 ctx[2 * OPS];	/* of the sends, then of the receives */
	bool done[2 * OPS];
	uint8_t *out;
	uint8_t *in;			/* OPS times LARGE */
	int left;
};

static size_t len_of(uint64_t tag)
{
	static const size_t lens[] = { 0, 100, 5000, 20000, 200000, LARGE };

	return lens[pattern_next(&tag) % 6];
}

/* Posts sends and receives in turn; an error because the peer is gone is accepted. */
static void start(struct fx *fx, struct traffic *tr, uint64_t *state)
{
	static const uint64_t levels[] = { 0, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
					   FI_MATCH_COMPLETE, FI_MORE, FI_FENCE };

	memset(tr->done, 0, sizeof(tr->done));
	tr->left = 2 * OPS;
	for (uint64_t i = 0; i < OPS; i++) {
		uint64_t tag = (pattern_next(state) >> 8 << 8 | i) & fx->tag_bits;

		SEND(fx, .call = CALL_MSG, .tagged = true, .buf = tr->out, .len = len_of(tag),
		     .addr = fx->peer, .tag = tag, .flags = levels[pattern_next(state) % 6],
		     .ctx = &tr->ctx[i]);
		RECV(fx, .tagged = true, .buf = tr->in + i * LARGE, .len = LARGE,
		     .addr = FI_ADDR_UNSPEC, .ignore = ~0ULL, .ctx = &tr->ctx[OPS + i]);
	}
}

/* Reads all completions: each operation ends once, received bytes are the sent ones. */
static void take(struct fx *fx, struct traffic *tr)
{
	struct comp c;

	for (int side = 0; side < 2; side++)
		while (comp_poll(fx, side, &c)) {
			size_t i = (size_t)((struct fi_context2 *)c.ctx - tr->ctx);

			CHECK(i < 2 * OPS && !tr->done[i], "operation %zu ended twice", i);
			CHECK((i < OPS) == (side == FX_TX), "operation %zu on the wrong CQ", i);
			tr->done[i] = true;
			tr->left--;
			if (i < OPS || c.err)
				continue;
			CHECK(c.len == len_of(c.tag), "%zu bytes, want %zu", c.len, len_of(c.tag));
			CHECK(pattern_check(tr->in + (i - OPS) * LARGE, c.len, 1) == c.len,
			      "message %d is damaged", (int)(c.tag & 0xff));
		}
}

static bool sends_left(const struct traffic *tr)
{
	for (int i = 0; i < OPS; i++)
		if (!tr->done[i])
			return true;
	return false;
}

/* The other rank closes at a random moment: all sends end, then receives can be cancelled. */
static void survive(struct fx *fx, struct traffic *tr)
{
	while (sends_left(tr)) {
		take(fx, tr);
		FX_CHECK_MOVES(fx, "sends to a peer that closed do not end");
	}
	for (int i = OPS; i < 2 * OPS; i++)
		if (!tr->done[i])
			(void)fi_cancel(&fx->ep->fid, &tr->ctx[i]);
	while (tr->left) {
		take(fx, tr);
		FX_CHECK_MOVES(fx, "%d receives do not end", tr->left);
	}
	COMP_NONE(fx, 0);
}

static void one_round(struct test *t, struct traffic *tr, int round, uint64_t *state)
{
	bool closes = round % 2 == t->rank;
	int64_t begin;
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ .caps = FI_MSG | FI_TAGGED | FI_FENCE });
	start(&fx, tr, state);
	for (uint64_t i = pattern_next(state) % 200; closes && i; i--)
		take(&fx, tr);
	if (!closes)
		survive(&fx, tr);
	begin = run_now();
	fx_close_now(&fx);
	CHECK(run_now() - begin < run_slow_ms(CLOSE_MS), "fi_close took %d ms", (int)(run_now() - begin));
	/* Without progress: the rank that has closed cannot make any. */
	run_barrier(t);
}

static void any_moment(struct test *t)
{
	struct traffic *tr = calloc(1, sizeof(*tr));
	uint64_t state = t->seed + (uint64_t)t->rank;

	CHECK(tr, "no memory");
	/* So long sends try to reach a peer that closed before it was connected. */
	setenv("FI_TAGRV_CONNECT_TIMEOUT", "2", 1);
	tr->out = malloc(LARGE);
	tr->in = calloc(OPS, LARGE);
	CHECK(tr->out && tr->in, "no memory");
	pattern_fill(tr->out, LARGE, 1);
	for (int round = 0; round < ROUNDS; round++) {
		run_step("round %d, rank %d closes", round, round % 2);
		one_round(t, tr, round, &state);
	}
	free(tr->out);
	free(tr->in);
	free(tr);
}

/* Rank 0 starts when rank 1 is in fi_close, or has returned from it: all messages arrive. */
static void receive_all(struct fx *fx, uint64_t n, size_t len)
{
	struct fi_context2 ctx;
	uint8_t in[KIB];

	for (uint64_t i = 0; i < n; i++) {
		RECV(fx, .tagged = true, .buf = in, .len = len, .addr = FI_ADDR_UNSPEC, .tag = i,
		     .ctx = &ctx);
		COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = len, .buf = in,
			    .tag = i);
		CHECK(pattern_check(in, len, i) == len, "message %d is damaged", (int)i);
	}
}

static void inject_all(struct fx *fx, uint64_t n, size_t len)
{
	uint8_t out[KIB];

	for (uint64_t i = 0; i < n; i++) {
		pattern_fill(out, len, i);
		SEND(fx, .call = CALL_INJECT, .tagged = true, .buf = out, .len = len,
		     .addr = fx->peer, .tag = i);
	}
}

/* fi_close must not lose messages for want of time: the runner tells when nothing moves. */
static void wait_long_in_close(void)
{
	setenv("FI_TAGRV_CLOSE_TIMEOUT", "3600", 1);
}

/* Most of the injects are only announced: the sender keeps their bytes. */
static void injected(struct test *t)
{
	struct fx fx;

	wait_long_in_close();
	setenv("FI_TAGRV_EAGER_BUDGET", "1", 1);
	setenv("FI_TAGRV_EAGER_CREDIT", "16384", 1);
	fx_open(t, &fx, &(struct fx_attr){ 0 });
	if (t->rank) {
		inject_all(&fx, MANY, KIB);
	} else {
		usleep(SLEEP_US);
		receive_all(&fx, MANY, KIB);
	}
	fx_close_now(&fx);
	run_barrier(t);
}

/* More messages than one poll of a ring takes. */
static void long_queue(struct test *t)
{
	struct fx fx;

	wait_long_in_close();
	setenv("FI_TAGRV_EAGER_CREDIT", "268435456", 1);
	setenv("FI_TAGRV_SHM_RING", "4194304", 1);
	fx_open(t, &fx, &(struct fx_attr){ 0 });
	for (int round = 0; round < 2; round++) {
		if (t->rank) {
			inject_all(&fx, LONG_QUEUE, 0);
		} else {
			usleep(round * SLEEP_US);
			receive_all(&fx, LONG_QUEUE, 0);
		}
		/* The first round makes the peer grant more credit. */
		if (!round)
			fx_barrier(&fx);
	}
	fx_close_now(&fx);
	run_barrier(t);
}

const struct test_case close_cases[] = {
	{ "close_any_moment", "an endpoint closes amid transfers; each of the peer's operations ends once",
	  any_moment, .ranks = 2, .slow = 3 },
	{ "close_injected", "injected messages arrive although the sender closes first", injected,
	  .ranks = 2 },
	{ "close_long_queue", "many messages not polled yet arrive although the sender closes",
	  long_queue, .ranks = 2 },
	{ 0 },
};
