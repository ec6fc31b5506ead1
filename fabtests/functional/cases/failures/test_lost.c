/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives that name a peer which dies, with FI_TAGRV_PEER_ERRORS; and a peer that is
 * stopped, which is alive.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/pending.h"

#include <signal.h>
#include <stdlib.h>

enum { RECEIVES = 40, BULK = 1 << 20 };

static void set_parameters(const char *errors)
{
	setenv("FI_TAGRV_PEER_ERRORS", errors, 1);
	setenv("FI_TAGRV_CONNECT_TIMEOUT", "3", 1);
}

/* ---- death ---- */

static void post(struct fx *fx, struct pending *rx, size_t i, fi_addr_t from, uint64_t tag)
{
	RECV(fx, .tagged = true, .addr = from, .tag = tag, .ctx = &rx->ctx[i]);
}

static bool is_of_dead(size_t i)
{
	return i % 4 != 3;
}

/* Three of four name the victim; the others the third rank or none. All have tags of their own. */
static void post_all(struct fx *fx, struct pending *rx)
{
	for (size_t i = 0; i < RECEIVES; i++)
		post(fx, rx, i, is_of_dead(i) ? fx->addr[1] :
		     i % 8 == 3 ? fx->addr[2] : FI_ADDR_UNSPEC, i);
}

static void expect_errors(const struct pending *rx)
{
	for (size_t i = 0; i < RECEIVES; i++)
		if (is_of_dead(i))
			CHECK(rx->result[i] == FI_ECONNRESET || rx->result[i] == FI_EHOSTUNREACH,
			      "receive %zu from a dead peer ends with %d", i, rx->result[i]);
		else
			CHECK(rx->result[i] < 0, "receive %zu has ended with %d", i, rx->result[i]);
}

/* A receive from the dead that is posted now ends at once, without any event. */
static void post_late(struct fx *fx)
{
	struct fi_context2 ctx;
	struct comp c;

	RECV(fx, .tagged = true, .addr = fx->addr[1], .tag = 7, .ctx = &ctx);
	CHECK(comp_poll(fx, FX_RX, &c), "a late receive from a dead peer waits");
	CHECK(c.ctx == &ctx && c.err, "err %d of context %p", c.err, c.ctx);
}

/* The message that the victim sent before its death is received, not lost. */
static void receive_last(struct fx *fx)
{
	struct fi_context2 ctx;
	uint32_t value = 0;

	RECV(fx, .tagged = true, .buf = &value, .len = 4, .addr = fx->addr[1], .tag = 1000,
	     .ctx = &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = 4, .tag = 1000);
	CHECK(value == 77, "the last message is %u", value);
}

static void outlive(struct fx *fx)
{
	struct pending tx, rx;

	pending_open(&tx, 0);
	pending_open(&rx, RECEIVES);
	post_all(fx, &rx);
	fx_barrier(fx);
	run_kill(fx->t, 1, RUN_MAY_DIE);
	run_step("receives from the dead");
	pending_await(fx, &tx, &rx, &rx, RECEIVES / 4 * 3, "receives from a dead peer ended");
	pending_settle(fx, &tx, &rx, 200);
	expect_errors(&rx);
	CHECK(fi_cntr_readerr(fx->cntr[FX_RX]) == RECEIVES / 4 * 3, "%llu errors counted",
	      (unsigned long long)fi_cntr_readerr(fx->cntr[FX_RX]));
	receive_last(fx);
	post_late(fx);
	fx_barrier(fx);
	run_step("receives from the living");
	pending_await(fx, &tx, &rx, &rx, RECEIVES, "receives ended");
	for (size_t i = 0; i < RECEIVES; i++)
		CHECK(is_of_dead(i) || !rx.result[i], "receive %zu ends with %d", i, rx.result[i]);
	pending_close(&tx);
	pending_close(&rx);
}

static void send_empty(struct fx *fx, uint64_t tag, uint32_t value)
{
	struct fi_context2 ctx;

	SEND(fx, .tagged = true, .buf = &value, .len = tag == 1000 ? 4 : 0, .addr = fx->addr[0],
	     .tag = tag, .ctx = &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
}

static void named_peer_dies(struct test *t)
{
	struct fx fx;

	set_parameters("yes");
	fx_open(t, &fx, &(struct fx_attr){
		.caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV, .counters = true });
	if (t->rank == 1) {
		send_empty(&fx, 1000, 77);
		fx_barrier(&fx);
		for (;;)
			fx_idle(&fx, 1000);
	}
	if (t->rank == 0) {
		outlive(&fx);
	} else {
		fx_barrier(&fx);
		fx_barrier(&fx);
		for (size_t i = 3; i < RECEIVES; i += 4)
			send_empty(&fx, i, 0);
	}
	fx_barrier(&fx);
	fx_close_now(&fx);
}

/* ---- a stop ---- */

enum { MESSAGES = 24, STOPPED_MS = 1500 };

static size_t len_of(size_t i)
{
	return i % 3 == 2 ? BULK : i % 3 ? 4000 : 8;
}

/* Nothing ends because the peer is stopped, and everything does when it goes on. */
static void stop_and_continue(struct fx *fx, struct pending *tx, struct pending *rx)
{
	pid_t pid = atomic_load(&fx->t->shared->rank[1].pid);
	int64_t end;

	run_need_processes(fx->t);
	kill(pid, SIGSTOP);
	run_step("the peer is stopped");
	for (end = run_now() + STOPPED_MS; run_now() < end;)
		pending_settle(fx, tx, rx, 50);
	for (size_t i = 0; i < MESSAGES; i++)
		CHECK(tx->result[i] <= 0 && rx->result[i] <= 0, "%s %zu ends with %d",
		      tx->result[i] > 0 ? "send" : "receive", i,
		      tx->result[i] > 0 ? tx->result[i] : rx->result[i]);
	kill(pid, SIGCONT);
	run_step("the peer goes on");
}

static void exchange(struct fx *fx, bool stops)
{
	int other = !fx->t->rank;
	struct guard in[MESSAGES], out[MESSAGES];
	struct pending tx, rx;

	pending_open(&tx, MESSAGES);
	pending_open(&rx, MESSAGES);
	for (size_t i = 0; i < MESSAGES; i++) {
		in[i] = guard_alloc(len_of(i));
		out[i] = guard_alloc(len_of(i));
		pattern_fill(out[i].data, out[i].len, i);
		RECV(fx, .tagged = true, .buf = in[i].data, .len = in[i].len,
		     .addr = fx->addr[other], .tag = i, .ctx = &rx.ctx[i]);
		SEND(fx, .tagged = true, .buf = out[i].data, .len = out[i].len,
		     .addr = fx->addr[other], .tag = i, .ctx = &tx.ctx[i]);
		if (stops && i == MESSAGES / 2)
			stop_and_continue(fx, &tx, &rx);
	}
	pending_await(fx, &tx, &rx, &tx, MESSAGES, "sends ended");
	pending_await(fx, &tx, &rx, &rx, MESSAGES, "receives ended");
	for (size_t i = 0; i < MESSAGES; i++) {
		CHECK(!tx.result[i] && !rx.result[i], "message %zu: %d and %d", i, tx.result[i],
		      rx.result[i]);
		GUARD_HOLDS(&in[i], in[i].len, i);
		guard_free(&in[i]);
		guard_free(&out[i]);
	}
	pending_close(&tx);
	pending_close(&rx);
}

static void peer_stopped(struct test *t)
{
	struct fx fx;

	set_parameters("yes");
	fx_open(t, &fx, &(struct fx_attr){ .caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV });
	exchange(&fx, false);
	exchange(&fx, t->rank == 0);
	fx_barrier(&fx);
	fx_close(&fx);
}

const struct test_case lost_cases[] = {
	{ "lost_named_peer_dies", "receives that name a dead peer end with an error, others do not",
	  named_peer_dies, .ranks = 3 },
	{ "lost_not_peer_stopped", "SIGSTOP of a peer: nothing ends before SIGCONT, nothing is lost",
	  peer_stopped, .ranks = 2 },
	{ 0 },
};
