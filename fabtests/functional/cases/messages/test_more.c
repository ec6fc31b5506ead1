/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_MORE: messages leave even when no further message follows.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { LEN = 64, COUNT = 300, LARGE = 100000 };

static char zeros[LARGE];

/* One message with FI_MORE and no other after it; then only one CQ or counter is read. */
static void send_alone(struct fx *fx, int how)
{
	struct fi_context2 ctx;

	SEND(fx, .call = CALL_MSG, .tagged = true, .buf = zeros, .len = LEN, .addr = fx->peer,
	     .tag = 1, .flags = FI_MORE | FI_DELIVERY_COMPLETE, .ctx = &ctx);
	while (fi_cntr_read(fx->cntr[FX_TX]) < (uint64_t)how && how == 3)
		FX_CHECK_MOVES(fx, "the counter does not move it");
	if (how == 2)
		while (fi_cq_read(fx->cq[FX_RX], NULL, 0) == -FI_EAGAIN &&
		       fi_cntr_read(fx->cntr[FX_TX]) < 2)
			FX_CHECK_MOVES(fx, "the receive CQ does not move it");
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
}

static void alone(struct test *t)
{
	struct fi_context2 ctx;
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ .counters = true });
	for (int how = 1; how <= 3; how++) {
		run_step("moved by %s", how == 1 ? "the transmit CQ" : how == 2 ? "the receive CQ" :
								       "a counter");
		if (run_sends(t))
			send_alone(&fx, how);
		if (run_receives(t)) {
			RECV(&fx, .call = CALL_MSG, .tagged = true, .buf = zeros, .len = LEN,
			     .addr = FI_ADDR_UNSPEC, .tag = 1, .flags = FI_MORE, .ctx = &ctx);
			COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = LEN,
				    .tag = 1);
		}
		fx_barrier(&fx);
	}
	fx_close(&fx);
}

/* With automatic progress no further call is needed. */
static void alone_automatic(struct test *t)
{
	struct fx_attr attr = { .progress = FI_PROGRESS_AUTO, .threading = FI_THREAD_SAFE };
	struct fi_context2 ctx;
	struct fx fx;

	fx_open_or_skip(t, &fx, &attr, "automatic progress");
	for (int i = 0; i < 3; i++) {
		run_step("message %d", i);
		if (run_sends(t))
			SEND(&fx, .call = CALL_MSG, .tagged = true, .buf = zeros, .len = LEN,
			     .addr = fx.peer, .tag = 1, .flags = FI_MORE, .ctx = &ctx);
		if (run_receives(t)) {
			RECV(&fx, .tagged = true, .buf = zeros, .len = LEN, .addr = FI_ADDR_UNSPEC,
			     .tag = 1, .ctx = &ctx);
			COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = LEN,
				    .tag = 1);
		}
		run_barrier(t);
		if (run_sends(t))
			COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	}
	fx_close(&fx);
}

/* Messages of all kinds, with FI_MORE or without; the tag is the number. */
static void send_mixed(struct fx *fx, struct fi_context2 *ctx)
{
	uint64_t state = fx->t->seed;

	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t r = pattern_next(&state);
		size_t len = r % 8 ? r % LEN : r % LARGE;

		if (r >> 8 & 3)
			SEND(fx, .call = CALL_MSG, .tagged = true, .buf = zeros, .len = len,
			     .addr = fx->peer, .tag = i, .flags = r >> 10 & 1 ? FI_MORE : 0,
			     .ctx = &ctx[i]);
		else
			SEND(fx, .tagged = true, .buf = zeros, .len = len, .addr = fx->peer, .tag = i,
			     .ctx = &ctx[i]);
	}
}

static void order(struct test *t)
{
	static struct fi_context2 ctx[COUNT];
	static bool seen[COUNT];
	struct comp c;
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ 0 });
	if (run_sends(t)) {
		send_mixed(&fx, ctx);
		COMP_ANY_ORDER(&fx, FX_TX, ctx, COUNT);
	}
	for (int i = 0; i < COUNT && run_receives(t); i++)
		RECV(&fx, .tagged = true, .buf = zeros, .len = LARGE, .addr = FI_ADDR_UNSPEC,
		     .ignore = ~0ULL, .ctx = &ctx[i]);
	for (int i = 0; i < COUNT && run_receives(t); i++) {
		COMP_WAIT(&fx, FX_RX, &c);
		CHECK(!c.err && c.tag < COUNT && !seen[c.tag], "err %d, tag %d", c.err, (int)c.tag);
		seen[c.tag] = true;
		CHECK(c.ctx == &ctx[c.tag], "message %d came to another receive", (int)c.tag);
	}
	fx_close(&fx);
}

const struct test_case more_cases[] = {
	{ "more_alone", "a message that no other follows leaves with the next read of a CQ", alone, .ranks = 2 },
	{ "more_alone_automatic", "with automatic progress it leaves without a read", alone_automatic, .ranks = 2 },
	{ "more_order", "messages match in order, with FI_MORE or without", order, .ranks = 2 },
	{ 0 },
};
