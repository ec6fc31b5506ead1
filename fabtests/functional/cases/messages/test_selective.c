/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Selective completion: which operations write a completion entry and which do not.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <string.h>

enum { LEN = 256, LONG_LEN = 200000 };

/* One operation of a script, and whether it must have an entry. */
struct step {
	enum msg_call call;
	uint64_t flags;
	bool seen;
};

static char zeros[LONG_LEN];
static char sink[LONG_LEN];

static void open_selective(struct test *t, struct fx *fx, uint64_t op_flags)
{
	struct fx_attr attr = {
		.tx_bind = FI_SELECTIVE_COMPLETION,
		.rx_bind = FI_SELECTIVE_COMPLETION,
		.tx_flags = op_flags,
		.rx_flags = op_flags,
	};

	fx_open(t, fx, &attr);
}

/* Operations with an entry have the contexts ctx[0], ctx[1] ..., the others none. */
static void send_script(struct fx *fx, const struct step *step, int n, size_t len)
{
	struct fi_context2 ctx[16];
	size_t seen = 0;

	for (int i = 0; i < n; i++)
		SEND(fx, .call = step[i].call, .tagged = true, .buf = zeros,
		     .len = msg_completes(step[i].call) ? len : 8, .addr = fx->peer,
		     .tag = (uint64_t)i, .flags = step[i].flags,
		     .ctx = step[i].seen ? &ctx[seen++] : NULL);
	COMP_ANY_ORDER(fx, FX_TX, ctx, seen);
}

static void recv_all(struct fx *fx, int n)
{
	struct fi_context2 ctx[16];

	for (int i = 0; i < n; i++)
		RECV(fx, .call = CALL_MSG, .tagged = true, .buf = sink, .len = LONG_LEN,
		     .addr = FI_ADDR_UNSPEC, .tag = (uint64_t)i, .flags = FI_COMPLETION,
		     .ctx = &ctx[i]);
	COMP_ANY_ORDER(fx, FX_RX, ctx, (size_t)n);
}

static void run_script(struct test *t, uint64_t op_flags, const struct step *step, int n)
{
	struct fx fx;

	open_selective(t, &fx, op_flags);
	for (int k = 0; k < 2; k++) {
		size_t len = k ? LONG_LEN : LEN;

		run_step("%zu bytes", len);
		if (run_sends(t))
			send_script(&fx, step, n, len);
		else
			recv_all(&fx, n);
		fx_barrier(&fx);
		COMP_NONE(&fx, 20);
	}
	fx_close(&fx);
}

static void send_silent(struct test *t)
{
	static const struct step script[] = {
		{ CALL_BUF, 0, false },
		{ CALL_IOV, 0, false },
		{ CALL_DATA, 0, false },
		{ CALL_INJECT, 0, false },
		{ CALL_INJECTDATA, 0, false },
		{ CALL_MSG, 0, false },
		{ CALL_MSG, FI_COMPLETION, true },
		{ CALL_BUF, 0, false },
		{ CALL_MSG, FI_DELIVERY_COMPLETE, false },
		{ CALL_MSG, FI_COMPLETION | FI_DELIVERY_COMPLETE, true },
	};

	run_script(t, 0, script, sizeof(script) / sizeof(script[0]));
}

static void send_default_seen(struct test *t)
{
	static const struct step script[] = {
		{ CALL_BUF, 0, true },
		{ CALL_IOV, 0, true },
		{ CALL_DATA, 0, true },
		{ CALL_INJECT, 0, false },
		{ CALL_INJECTDATA, 0, false },
		{ CALL_MSG, 0, false },
		{ CALL_MSG, FI_COMPLETION, true },
		{ CALL_MSG, FI_DELIVERY_COMPLETE, false },
		{ CALL_BUF, 0, true },
	};

	run_script(t, FI_COMPLETION, script, sizeof(script) / sizeof(script[0]));
}

static void send_n(struct fx *fx, int n, size_t len)
{
	for (int i = 0; i < n; i++)
		SEND(fx, .call = CALL_MSG, .tagged = true, .buf = zeros, .len = len,
		     .addr = fx->peer, .tag = (uint64_t)i, .flags = i == n - 1 ? FI_COMPLETION : 0);
	COMP_EXPECT(fx, FX_TX, .flags = SENT_TAGGED);
}

static void recv_script(struct test *t, uint64_t op_flags, const struct step *step, int n)
{
	struct fi_context2 ctx[16];
	size_t seen = 0;
	struct fx fx;

	open_selective(t, &fx, op_flags);
	if (run_sends(t)) {
		send_n(&fx, n, LEN);
	} else {
		for (int i = 0; i < n; i++)
			RECV(&fx, .call = step[i].call, .tagged = true, .buf = sink, .len = LEN,
			     .addr = FI_ADDR_UNSPEC, .tag = (uint64_t)i, .flags = step[i].flags,
			     .ctx = step[i].seen ? &ctx[seen++] : NULL);
		COMP_ANY_ORDER(&fx, FX_RX, ctx, seen);
	}
	fx_barrier(&fx);
	COMP_NONE(&fx, 20);
	fx_close(&fx);
}

static void recv_silent(struct test *t)
{
	static const struct step script[] = {
		{ CALL_BUF, 0, false },
		{ CALL_IOV, 0, false },
		{ CALL_MSG, 0, false },
		{ CALL_MSG, FI_COMPLETION, true },
		{ CALL_BUF, 0, false },
		{ CALL_MSG, FI_COMPLETION, true },
	};

	recv_script(t, 0, script, sizeof(script) / sizeof(script[0]));
}

static void recv_default_seen(struct test *t)
{
	static const struct step script[] = {
		{ CALL_BUF, 0, true },
		{ CALL_IOV, 0, true },
		{ CALL_MSG, 0, false },
		{ CALL_MSG, FI_COMPLETION, true },
		{ CALL_BUF, 0, true },
	};

	recv_script(t, FI_COMPLETION, script, sizeof(script) / sizeof(script[0]));
}

/* Silent operations are carried out too: when a later one completes, their data is there. */
static void silent_data(struct test *t)
{
	static uint8_t out[64][LEN], in[64][LEN];
	struct fi_context2 ctx;
	struct fx fx;

	open_selective(t, &fx, 0);
	if (run_sends(t)) {
		for (uint64_t i = 0; i < 64; i++) {
			pattern_fill(out[i], LEN, i);
			SEND(&fx, .tagged = true, .buf = out[i], .len = LEN, .addr = fx.peer, .tag = i);
		}
	} else {
		for (uint64_t i = 0; i < 64; i++)
			RECV(&fx, .call = CALL_MSG, .tagged = true, .buf = in[i], .len = LEN,
			     .addr = FI_ADDR_UNSPEC, .tag = i, .flags = i == 63 ? FI_COMPLETION : 0,
			     .ctx = &ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = LEN, .tag = 63);
		for (uint64_t i = 0; i < 64; i++)
			CHECK(pattern_check(in[i], LEN, i) == LEN, "message %d is wrong", (int)i);
	}
	fx_close(&fx);
}

/* Operations that fail always have an entry. */
static void errors_seen(struct test *t)
{
	struct fi_context2 ctx;
	struct fx fx;

	open_selective(t, &fx, 0);
	if (run_sends(t)) {
		send_n(&fx, 1, LEN);
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 9, .ctx = &ctx);
		CHECK_OK(fi_cancel(&fx.ep->fid, &ctx));
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = FI_RECV, .err = FI_ECANCELED);
	} else {
		RECV(&fx, .tagged = true, .buf = sink, .len = 100, .addr = FI_ADDR_UNSPEC, .tag = 0,
		     .ctx = &ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = FI_RECV, .err = FI_ETRUNC, .len = 100,
			    .olen = LEN - 100);
	}
	fx_close(&fx);
}

/* Without FI_SELECTIVE_COMPLETION every operation has an entry. */
static void not_selective(struct test *t)
{
	struct fi_context2 ctx[2];
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ 0 });
	for (int i = 0; i < 2; i++)
		RECV(&fx, .call = CALL_MSG, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1,
		     .flags = i ? FI_COMPLETION : 0, .ctx = &ctx[i]);
	fx_barrier(&fx);
	for (int i = 0; i < 2; i++)
		SEND(&fx, .call = CALL_MSG, .tagged = true, .addr = fx.peer, .tag = 1,
		     .flags = i ? FI_COMPLETION : 0, .ctx = &ctx[i]);
	COMP_IN_ORDER(&fx, FX_RX, ctx, 2);
	COMP_ANY_ORDER(&fx, FX_TX, ctx, 2);
	fx_close(&fx);
}

const struct test_case selective_cases[] = {
	{ "selective_send_silent", "sends have no entry unless the call asks for it", send_silent, .ranks = 2 },
	{ "selective_send_default_seen", "op_flags apply to calls without flags only", send_default_seen, .ranks = 2 },
	{ "selective_recv_silent", "receives have no entry unless the call asks for it", recv_silent, .ranks = 2 },
	{ "selective_recv_default_seen", "the same for receives", recv_default_seen, .ranks = 2 },
	{ "selective_silent_data", "operations without entry are carried out in order", silent_data, .ranks = 2 },
	{ "selective_errors_seen", "truncation and cancel are always reported", errors_seen, .ranks = 2 },
	{ "selective_off", "without FI_SELECTIVE_COMPLETION every operation has an entry", not_selective, .self = true },
	{ 0 },
};
