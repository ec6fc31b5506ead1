/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers to which no TCP socket is kept (FI_TAGRV_MAX_SOCKETS): one that dies is noticed
 * all the same, as soon as something is awaited of it.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/pending.h"

#include <stdlib.h>

enum { ALL = 4, ROUNDS = 3, BULK = 1 << 20 };

/* Both send a message of so many bytes, and get the other's. */
static void exchange(struct fx *fx, int other, size_t len)
{
	struct guard out = guard_alloc(len), in = guard_alloc(len);
	struct fi_context2 tx, rx;

	run_step("%zu bytes with rank %d", len, other);
	pattern_fill(out.data, out.len, 9);
	RECV(fx, .tagged = true, .buf = in.data, .len = len, .addr = FI_ADDR_UNSPEC,
	     .tag = (uint64_t)other, .ctx = &rx);
	SEND(fx, .tagged = true, .buf = out.data, .len = len, .addr = fx->addr[other],
	     .tag = (uint64_t)fx->t->rank, .ctx = &tx);
	COMP_EXPECT(fx, FX_RX, .ctx = &rx, .flags = GOT_TAGGED, .len = len,
		    .tag = (uint64_t)other);
	COMP_EXPECT(fx, FX_TX, .ctx = &tx, .flags = SENT_TAGGED);
	GUARD_HOLDS(&in, in.len, 9);
	guard_free(&out);
	guard_free(&in);
}

/* The ranks a and b talk to each other, while others wait: one connection after the other. */
static void let_talk(struct fx *fx, int a, int b, size_t len)
{
	if (fx->t->rank == a)
		exchange(fx, b, len);
	if (fx->t->rank == b)
		exchange(fx, a, len);
	fx_barrier(fx);
}

static void open_with(struct test *t, struct fx *fx, const char *errors)
{
	setenv("FI_TAGRV_MAX_SOCKETS", "1", 1);
	setenv("FI_TAGRV_PROBE", "1", 1);
	setenv("FI_TAGRV_PEER_ERRORS", errors, 1);
	fx_open(t, fx, &(struct fx_attr){ .caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV });
}

static void all_talk(struct test *t)
{
	struct fx fx;

	open_with(t, &fx, "no");
	for (int round = 0; round < ROUNDS; round++)
		for (int a = 0; a < ALL; a++)
			for (int b = 0; b < a; b++)
				let_talk(&fx, a, b, round % 2 ? BULK : 8);
	fx_close(&fx);
}

/* A send that no receive matches, and if 'named' a receive that names the dead. */
static void outlive(struct fx *fx, bool named)
{
	struct guard out = guard_alloc(BULK);
	struct pending tx, rx;

	pending_open(&tx, 1);
	pending_open(&rx, named);
	SEND(fx, .tagged = true, .buf = out.data, .len = out.len, .addr = fx->addr[1], .tag = 5,
	     .ctx = &tx.ctx[0]);
	if (named)
		RECV(fx, .tagged = true, .addr = fx->addr[1], .tag = 6, .ctx = &rx.ctx[0]);
	/* Nothing is in flight any more, but the answer of the peer. */
	pending_settle(fx, &tx, &rx, 200);
	run_kill(fx->t, 1, RUN_MAY_DIE);
	run_step("a send to the dead");
	pending_await(fx, &tx, &rx, &tx, 1, "a send to a dead peer ended");
	run_step("a receive from the dead");
	pending_await(fx, &tx, &rx, &rx, named, "a receive from a dead peer ended");
	CHECK(tx.result[0] == FI_ECONNRESET || tx.result[0] == FI_EHOSTUNREACH,
	      "the send ends with %d", tx.result[0]);
	if (named)
		CHECK(rx.result[0] == FI_ECONNRESET || rx.result[0] == FI_EHOSTUNREACH,
		      "the receive ends with %d", rx.result[0]);
	pending_close(&tx);
	pending_close(&rx);
	guard_free(&out);
}

/*
 * Rank 0 connects to rank 1, then to others, so that it keeps no socket to rank 1.
 */
static void killed(struct test *t, bool named)
{
	struct fx fx;

	open_with(t, &fx, named ? "yes" : "no");
	let_talk(&fx, 0, 1, 8);
	let_talk(&fx, 0, 2, 8);
	if (t->rank == 1)
		for (;;)
			fx_idle(&fx, 1000);
	if (t->rank == 0)
		outlive(&fx, named);
	fx_barrier(&fx);
	let_talk(&fx, 0, 2, BULK);
	fx_close_now(&fx);
}

static void peer_killed(struct test *t)
{
	killed(t, false);
}

static void named_peer_killed(struct test *t)
{
	killed(t, true);
}

const struct test_case socketless_cases[] = {
	{ "socketless_all_talk", "many peers, and one socket: all messages arrive", all_talk,
	  .ranks = ALL },
	{ "socketless_peer_killed", "a peer without a socket is killed: the send that awaits it ends",
	  peer_killed, .ranks = 3 },
	{ "socketless_named_peer_killed", "and the receive that names it", named_peer_killed,
	  .ranks = 3 },
	{ 0 },
};
