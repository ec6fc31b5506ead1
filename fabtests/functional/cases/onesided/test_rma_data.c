/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes with remote CQ data: the entry at the target.
 */
#include "cases/cases.h"
#include "framework/onesided.h"
#include "framework/pattern.h"
#include "framework/window.h"

#include <string.h>

static const struct fx_attr plain = { .caps = FI_MSG | FI_RMA };

enum { MANY = 300 };

/* All 8 bytes matter. */
static uint64_t data_of(uint64_t i)
{
	return 0x8877665544332211ULL + i;
}

static void write_data(struct fx *fx, struct window *w, enum msg_call call, size_t len, uint64_t i)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	pattern_fill(g.data, len, i);
	ONESIDED(fx, .kind = DO_PUT, .call = call, .buf = g.data, .len = len, .addr = fx->peer,
		 .at = window_at(w, window_peer(fx), 0), .key = w->key[window_peer(fx)],
		 .data = data_of(i), .flags = FI_REMOTE_CQ_DATA, .ctx = &ctx);
	if (msg_completes(call))
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = DID_PUT);
	guard_free(&g);
}

/* When the entry is read, the bytes are there. */
static void take_data(struct fx *fx, struct window *w, size_t len, uint64_t i)
{
	COMP_EXPECT(fx, FX_RX, .flags = GOT_DATA, .len = len, .data = data_of(i));
	WINDOW_HOLDS(w, 0, len, i);
}

static void one(struct fx *fx, enum msg_call call, size_t len, uint64_t i)
{
	struct window w;

	run_step("%zu bytes, %s", len, msg_call_name(call));
	window_open(fx, &w, len + 8, 0);
	if (run_sends(fx->t))
		write_data(fx, &w, call, len, i);
	if (run_receives(fx->t))
		take_data(fx, &w, len, i);
	fx_barrier(fx);
	COMP_NONE(fx, 0);
	window_close(&w);
}

static void calls(struct test *t)
{
	static const size_t sizes[] = { 0, 1, 8, 4096, 65537, 1 << 20 };
	size_t inject[3];
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	CHECK(fx.info->domain_attr->cq_data_size == 8, "%zu bytes of remote CQ data",
	      fx.info->domain_attr->cq_data_size);
	memcpy(inject, (size_t[]){ 0, 8, fx.info->tx_attr->inject_size }, sizeof(inject));
	for (size_t i = 0; i < 6; i++) {
		one(&fx, CALL_DATA, sizes[i], i);
		one(&fx, CALL_MSG, sizes[i], i + 10);
	}
	for (size_t i = 0; i < 3; i++)
		one(&fx, CALL_INJECTDATA, inject[i], i + 20);
	fx_close(&fx);
}

/* The entry needs no receive, and takes none. */
static void beside_receives(struct test *t)
{
	struct fi_context2 ctx;
	struct window w;
	struct fx fx;
	char buf[8], text[8] = "message";

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	window_open(&fx, &w, 64, 0);
	if (run_receives(t))
		RECV(&fx, .buf = buf, .len = 8, .addr = FI_ADDR_UNSPEC, .ctx = &ctx);
	fx_barrier(&fx);
	if (run_sends(t))
		write_data(&fx, &w, CALL_DATA, 64, 1);
	if (run_receives(t)) {
		COMP_EXPECT(&fx, FX_RX, .flags = GOT_DATA, .len = 64, .data = data_of(1));
		COMP_NONE(&fx, 10);
	}
	fx_barrier(&fx);
	if (run_sends(t))
		SEND(&fx, .call = CALL_INJECT, .buf = text, .len = 8, .addr = fx.peer);
	if (run_receives(t)) {
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_MSG, .len = 8);
		CHECK(!memcmp(buf, text, 8), "the message is damaged");
	}
	fx_barrier(&fx);
	window_close(&w);
	fx_close(&fx);
}

/* Nobody reads the target's queue meanwhile: no entry is lost, and all have their data. */
static void many(struct test *t)
{
	static struct fi_context2 ctx[MANY];
	static uint8_t seen[MANY];
	struct guard g = guard_alloc(MANY);
	struct window w;
	struct fx fx;

	window_open_ep(t, &fx, &plain, KEYS_ANY);
	window_open(&fx, &w, MANY, 0);
	pattern_fill(g.data, MANY, 3);
	for (size_t i = 0; run_sends(t) && i < MANY; i++)
		ONESIDED(&fx, .kind = DO_PUT, .call = CALL_DATA, .buf = g.data + i, .len = 1,
			 .addr = fx.peer, .at = window_at(&w, window_peer(&fx), i),
			 .key = w.key[window_peer(&fx)], .data = data_of(i), .ctx = &ctx[i]);
	if (run_sends(t))
		COMP_ANY_ORDER(&fx, FX_TX, ctx, MANY);
	fx_barrier(&fx);
	for (size_t i = 0; run_receives(t) && i < MANY; i++) {
		struct comp c;

		COMP_WAIT(&fx, FX_RX, &c);
		CHECK(c.data >= data_of(0) && c.data < data_of(MANY), "foreign data");
		CHECK(!seen[c.data - data_of(0)]++, "the same entry twice");
		COMP_SAME(&fx, &c, .flags = GOT_DATA, .len = 1, .data = c.data);
	}
	if (run_receives(t))
		WINDOW_HOLDS(&w, 0, MANY, 3);
	fx_barrier(&fx);
	window_close(&w);
	guard_free(&g);
	fx_close(&fx);
}

/* ---- a target that does not read ---- */

enum { UNREAD = 70000, QUEUE = 64, KEPT = 65536, UNANSWERED = 1024 };

static void write_unread(struct fx *fx, struct window *w)
{
	static struct fi_context2 ctx;
	static uint64_t words[UNREAD];
	size_t sent = 0, done = 0;
	struct comp c;

	while (done < UNREAD) {
		if (sent < UNREAD)
			words[sent] = sent + 1;
		if (sent < UNREAD && !TRY_ONESIDED(fx, .kind = DO_PUT, .call = CALL_DATA, .buf = &words[sent],
						   .len = 8, .addr = fx->peer, .at = window_at(w, 1, 0),
						   .key = w->key[1], .data = data_of(sent), .ctx = &ctx))
			sent++;
		while (comp_poll(fx, FX_TX, &c)) {
			CHECK(!c.err, "a write fails: %d (%s)", c.err, fi_strerror(c.err));
			done++;
		}
		FX_CHECK_MOVES(fx, "%zu of %d writes have ended", done, UNREAD);
	}
}

/* Waits until the writes have stopped; returns how many there were. */
static uint64_t await_stop(struct fx *fx, const struct window *w)
{
	uint64_t before, now = 0;

	do {
		before = now;
		fx_idle(fx, 300);
		memcpy(&now, w->g.data, sizeof(now));
	} while (now != before || !now);
	return now;
}

/*
 * fi_domain(3): with FI_RM_ENABLED a queue does not overrun, and operations that would make it
 * overrun are tried again. So writes stop until the queue is read, and none is lost.
 */
static void unread(struct test *t)
{
	struct fx_attr attr = plain;
	struct window w;
	struct fx fx;

	attr.cq_size = QUEUE;
	window_open_ep(t, &fx, &attr, KEYS_ANY);
	window_open(&fx, &w, 8, 0);
	if (run_sends(t)) {
		write_unread(&fx, &w);
	} else {
		uint64_t stop = await_stop(&fx, &w);

		run_step("%llu of %d writes came unread", (unsigned long long)stop, UNREAD);
		CHECK(strcmp(t->opt->provider, "tagrv") || (stop > KEPT && stop <= QUEUE + KEPT + UNANSWERED + 1),
		      "%llu writes were not held back", (unsigned long long)stop);
		for (uint64_t i = 0; i < UNREAD; i++)
			COMP_EXPECT(&fx, FX_RX, .flags = GOT_DATA, .len = 8, .data = data_of(i));
	}
	fx_barrier(&fx);
	COMP_NONE(&fx, 5);
	window_close(&w);
	fx_close(&fx);
}

const struct test_case rma_data_cases[] = {
	{ "rma_data_calls", "remote CQ data of each call and size, with the bytes in place", calls, .self = true },
	{ "rma_data_beside_receives", "remote CQ data take no receive", beside_receives, .self = true },
	{ "rma_data_many", "300 entries that nobody reads meanwhile", many, .self = true },
	{ "rma_data_unread", "70000 entries that nobody reads: the rest waits, none is lost", unread, .ranks = 2 },
	{ 0 },
};
