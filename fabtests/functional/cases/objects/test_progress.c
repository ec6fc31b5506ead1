/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which calls make progress: reads of any CQ, of any counter; with automatic
 * progress none is needed.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 4 << 20 };

static const struct fx_attr plain;

/* A large send to the other rank and a receive from it at the same time. */
struct swap {
	struct guard out;
	struct guard in;
	struct fi_context2 tx;
	struct fi_context2 rx;
};

static void swap_open(struct fx *fx, struct swap *s, size_t len)
{
	s->out = guard_alloc(len);
	s->in = guard_alloc(len);
	pattern_fill(s->out.data, len, 7);
	RECV(fx, .tagged = true, .buf = s->in.data, .len = len, .addr = FI_ADDR_UNSPEC, .tag = 1,
	     .ctx = &s->rx);
}

static void swap_send(struct fx *fx, struct swap *s)
{
	SEND(fx, .tagged = true, .buf = s->out.data, .len = s->out.len, .addr = fx->peer, .tag = 1,
	     .ctx = &s->tx);
}

static void swap_close(struct swap *s)
{
	GUARD_HOLDS(&s->in, s->in.len, 7);
	guard_free(&s->out);
	guard_free(&s->in);
}

/* Reads one CQ until its entry comes; the other CQ is not read. */
static void read_only(struct fx *fx, enum fx_side side, void *ctx, uint64_t flags)
{
	struct comp c;

	while (!comp_poll(fx, side, &c)) {
		FX_CHECK_MOVES(fx, "reading one CQ does not finish the transfer");
		sched_yield();
	}
	COMP_SAME(fx, &c, .ctx = ctx, .flags = flags, .len = LARGE, .tag = 1);
}

static void one_cq_first(struct test *t, enum fx_side first)
{
	struct swap s;
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 5; i++) {
		run_step("round %d", i);
		swap_open(&fx, &s, LARGE);
		run_barrier(t);
		swap_send(&fx, &s);
		if (first == FX_TX) {
			read_only(&fx, FX_TX, &s.tx, SENT_TAGGED);
			read_only(&fx, FX_RX, &s.rx, GOT_TAGGED);
		} else {
			read_only(&fx, FX_RX, &s.rx, GOT_TAGGED);
			read_only(&fx, FX_TX, &s.tx, SENT_TAGGED);
		}
		swap_close(&s);
		fx_barrier(&fx);
	}
	fx_close(&fx);
}

static void tx_cq_only(struct test *t)
{
	one_cq_first(t, FX_TX);
}

static void rx_cq_only(struct test *t)
{
	one_cq_first(t, FX_RX);
}

struct one_side {
	struct fx *fx;
	enum fx_side side;
};

static void poke(void *arg)
{
	struct one_side *one = arg;

	fi_cq_read(one->fx->cq[one->side], NULL, 0);
	sched_yield();
}

/* While the sender waits for the receiver it reads 0 entries of one CQ. */
static void zero_reads(struct test *t)
{
	struct fi_context2 ctx;
	struct guard g = guard_alloc(LARGE);
	struct fx fx;

	fx_open(t, &fx, &plain);
	pattern_fill(g.data, g.len, 1);
	for (int side = 0; side < 2; side++) {
		struct one_side one = { .fx = &fx, .side = side };

		run_step("reading the %s CQ", side == FX_TX ? "transmit" : "receive");
		if (run_sends(t)) {
			SEND(&fx, .tagged = true, .buf = g.data, .len = g.len, .addr = fx.peer,
			     .tag = 1, .ctx = &ctx);
			run_exchange(t, NULL, 0, NULL, poke, &one);
			COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
		} else {
			RECV(&fx, .tagged = true, .buf = g.data, .len = g.len,
			     .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx);
			COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = g.len,
				    .tag = 1);
			fx_barrier(&fx);
		}
	}
	guard_free(&g);
	fx_close(&fx);
}

static void await_counter(struct fx *fx, enum fx_side side, uint64_t value)
{
	while (fi_cntr_read(fx->cntr[side]) < value) {
		CHECK(!fi_cntr_readerr(fx->cntr[side]), "an operation failed");
		FX_CHECK_MOVES(fx, "reading one counter does not finish it");
		sched_yield();
	}
}

/* Only one counter at a time is read, and no CQ. */
static void counters_only(struct test *t)
{
	struct fx_attr attr = {
		.counters = true,
		.tx_bind = FI_SELECTIVE_COMPLETION,
		.rx_bind = FI_SELECTIVE_COMPLETION,
	};
	struct swap s;
	struct fx fx;

	fx_open(t, &fx, &attr);
	for (uint64_t i = 1; i <= 6; i++) {
		run_step("round %d", (int)i);
		swap_open(&fx, &s, LARGE);
		run_barrier(t);
		swap_send(&fx, &s);
		await_counter(&fx, i & 1, i);
		await_counter(&fx, !(i & 1), i);
		swap_close(&s);
		fx_barrier(&fx);
	}
	fx_close(&fx);
}

/* All that the receiver of the first message does is to read its counter. */
static void counter_alone(struct test *t)
{
	struct fx_attr attr = {
		.counters = true,
		.tx_bind = FI_SELECTIVE_COMPLETION,
		.rx_bind = FI_SELECTIVE_COMPLETION,
	};
	struct fi_context2 ctx;
	struct guard g = guard_alloc(64);
	struct fx fx;

	fx_open(t, &fx, &attr);
	if (!run_sends(t))
		RECV(&fx, .tagged = true, .buf = g.data, .len = g.len, .addr = FI_ADDR_UNSPEC,
		     .tag = 1, .ctx = &ctx);
	run_barrier(t);
	if (run_sends(t)) {
		/* The receiver has read its counter in vain for a while. */
		usleep(10000);
		pattern_fill(g.data, g.len, 1);
		SEND(&fx, .tagged = true, .buf = g.data, .len = g.len, .addr = fx.peer, .tag = 1,
		     .ctx = &ctx);
		await_counter(&fx, FX_TX, 1);
	} else {
		await_counter(&fx, FX_RX, 1);
		GUARD_HOLDS(&g, g.len, 1);
	}
	fx_barrier(&fx);
	guard_free(&g);
	fx_close(&fx);
}

/* The receiver does not call the provider while the message arrives. */
static void automatic(struct test *t)
{
	struct fx_attr attr = {
		.progress = FI_PROGRESS_AUTO,
		.threading = FI_THREAD_SAFE,
		.tx_flags = FI_DELIVERY_COMPLETE,
	};
	struct fi_context2 ctx;
	struct guard g = guard_alloc(LARGE);
	struct fx fx;

	fx_open_or_skip(t, &fx, &attr, "automatic progress");
	if (run_sends(t))
		pattern_fill(g.data, g.len, 1);
	else
		RECV(&fx, .tagged = true, .buf = g.data, .len = g.len, .addr = FI_ADDR_UNSPEC,
		     .tag = 1, .ctx = &ctx);
	run_barrier(t);
	if (run_sends(t)) {
		SEND(&fx, .tagged = true, .buf = g.data, .len = g.len, .addr = fx.peer, .tag = 1,
		     .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	}
	run_barrier(t);
	/*
	 * The sender's completion shows that the bytes are placed. The own completion makes
	 * the writes of the provider's thread visible here.
	 */
	if (!run_sends(t)) {
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = g.len, .tag = 1);
		GUARD_HOLDS(&g, g.len, 1);
	}
	guard_free(&g);
	fx_close(&fx);
}

const struct test_case progress_cases[] = {
	{ "progress_tx_cq_only", "mutual large sends while only transmit CQs are read", tx_cq_only, .ranks = 2 },
	{ "progress_rx_cq_only", "mutual large sends while only receive CQs are read", rx_cq_only, .ranks = 2 },
	{ "progress_zero_reads", "reading 0 entries of either CQ moves a send", zero_reads, .ranks = 2 },
	{ "progress_counters_only", "reading one counter moves everything", counters_only, .ranks = 2 },
	{ "progress_counter_alone", "reading one counter lets the first peer in", counter_alone,
	  .ranks = 2 },
	{ "progress_automatic", "with automatic progress no call is needed", automatic, .ranks = 2 },
	{ 0 },
};
