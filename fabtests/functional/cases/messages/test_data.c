/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages of all sizes through all calls arrive intact.
 */
#include "cases/cases.h"
#include "framework/pattern.h"
#include "framework/transfer.h"

#include <stdlib.h>
#include <string.h>

static const struct fx_attr plain;

static const size_t all_sizes[] = {
	0,    1,    7,	  8,	31,    64,    255,     256,	     1024,
	4095, 4097, 8192, 8193, 16385, 65536, 1 << 20, (8 << 20) + 3,
};

enum { SIZE_COUNT = sizeof(all_sizes) / sizeof(all_sizes[0]) };

static void run_sizes(struct test *t, bool tagged)
{
	struct transfer tr = { .tagged = tagged };
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 2 * SIZE_COUNT; i++) {
		tr.id = (uint64_t)i;
		tr.len = all_sizes[i / 2];
		tr.unexpected = i & 1;
		transfer_run(&fx, &tr);
	}
	fx_close(&fx);
}

static void sizes_tagged(struct test *t)
{
	run_sizes(t, true);
}

static void sizes_msg(struct test *t)
{
	run_sizes(t, false);
}

static bool too_long(const struct fx *fx, const struct transfer *tr)
{
	return (!msg_completes(tr->send_call) || tr->send_flags & FI_INJECT) &&
	       tr->len > fx->info->tx_attr->inject_size;
}

static void run_calls(struct fx *fx, struct transfer *tr)
{
	for (tr->send_call = CALL_BUF; tr->send_call <= CALL_INJECTDATA; tr->send_call++)
		for (tr->recv_call = CALL_BUF; tr->recv_call <= CALL_MSG; tr->recv_call++) {
			tr->id++;
			tr->data = 0xfeedbeef00c0ffeeULL + tr->id;
			if (!too_long(fx, tr))
				transfer_run(fx, tr);
		}
}

static void calls(struct test *t)
{
	static const size_t sizes[] = { 0, 5, 200, 5000, 100000 };
	struct transfer tr = { .send_segments = 3, .recv_segments = 2 };
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 20; i++) {
		tr.len = sizes[i / 4];
		tr.tagged = i & 1;
		tr.unexpected = i & 2;
		tr.send_flags = i & 1 ? FI_REMOTE_CQ_DATA : 0;
		run_calls(&fx, &tr);
	}
	fx_close(&fx);
}

static void vectors(struct test *t)
{
	static const size_t sizes[] = { 10, 1000, 70000, (1 << 20) + 1 };
	struct transfer tr = { .id = 1000 };
	size_t limit;
	struct fx fx;

	fx_open(t, &fx, &plain);
	limit = transfer_iov_limit(&fx);
	for (size_t i = 0; i < 4 * limit; i++) {
		tr.id++;
		tr.len = sizes[i / limit];
		tr.tagged = i & 1;
		tr.unexpected = i & 2;
		tr.send_call = i & 4 ? CALL_MSG : CALL_IOV;
		tr.recv_call = i & 1 ? CALL_MSG : CALL_IOV;
		tr.send_segments = 1 + i % limit;
		tr.recv_segments = 1 + (i * 7 + 3) % limit;
		transfer_run(&fx, &tr);
	}
	fx_close(&fx);
}

/* Messages without buffer, vector and context. */
static void nothing(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 8; i++) {
		enum msg_call call = i & 1 ? CALL_MSG : CALL_BUF;
		bool tagged = i & 2;

		run_step("round %d", i);
		if (run_receives(t))
			RECV(&fx, .call = i & 4 ? CALL_MSG : CALL_BUF, .tagged = tagged,
			     .addr = FI_ADDR_UNSPEC, .tag = 1);
		fx_barrier(&fx);
		if (run_sends(t)) {
			SEND(&fx, .call = call, .tagged = tagged, .addr = fx.peer, .tag = 1);
			COMP_EXPECT(&fx, FX_TX, .flags = tagged ? SENT_TAGGED : SENT_MSG);
		}
		if (run_receives(t))
			COMP_EXPECT(&fx, FX_RX, .flags = tagged ? GOT_TAGGED : GOT_MSG, .tag = 1);
	}
	fx_close(&fx);
}

static void inject_sizes(struct test *t)
{
	struct transfer tr = { .send_call = CALL_INJECT };
	size_t max;
	struct fx fx;

	fx_open(t, &fx, &plain);
	max = fx.info->tx_attr->inject_size;
	for (size_t len = 0; len <= max; len += len < 40 || len + 20 > max ? 1 : max / 40) {
		tr.len = len;
		tr.id++;
		tr.tagged = !tr.tagged;
		tr.send_call = tr.id & 2 ? CALL_INJECT : CALL_INJECTDATA;
		transfer_run(&fx, &tr);
	}
	fx_close(&fx);
}

static void receive_in_turn(struct fx *fx, uint64_t *in, int n)
{
	static struct fi_context2 ctx[2000];

	for (int i = 0; i < n; i++)
		RECV(fx, .tagged = true, .buf = &in[i], .len = sizeof(*in), .addr = FI_ADDR_UNSPEC,
		     .tag = 5, .ctx = &ctx[i]);
	COMP_ANY_ORDER(fx, FX_RX, ctx, (size_t)n);
	for (int i = 0; i < n; i++)
		CHECK(in[i] == (uint64_t)i, "message %d holds %llu", i, (unsigned long long)in[i]);
}

/* All messages are sent from one variable: the call must copy it. */
static void inject_burst(struct test *t)
{
	static uint64_t in[2000];
	volatile uint64_t value;
	struct fx fx;

	fx_open(t, &fx, &plain);
	if (run_sends(t)) {
		for (value = 0; value < 2000; value++)
			SEND(&fx, .call = CALL_INJECT, .tagged = true,
			     .buf = (void *)(uintptr_t)&value, .len = sizeof(value),
			     .addr = fx.peer, .tag = 5);
		value = UINT64_MAX;
	}
	if (run_receives(t))
		receive_in_turn(&fx, in, 2000);
	fx_close(&fx);
}

/* CQ data given without FI_REMOTE_CQ_DATA is not sent. */
static void data_without_flag(struct test *t)
{
	struct transfer tr = { .len = 100, .send_call = CALL_MSG, .data = 0x1234 };
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 4; i++) {
		tr.id++;
		tr.tagged = i & 1;
		tr.len = i & 2 ? 100000 : 100;
		transfer_run(&fx, &tr);
	}
	fx_close(&fx);
}

static void short_message_one(struct fx *fx, size_t len, bool unexpected)
{
	struct guard out = guard_alloc(len), in = guard_alloc(2 * len + 100);
	struct fi_context2 tx, rx;

	pattern_fill(out.data, len, len);
	if (run_sends(fx->t))
		SEND(fx, .tagged = true, .buf = out.data, .len = len, .addr = fx->peer, .tag = len,
		     .ctx = &tx);
	if (unexpected)
		fx_barrier(fx);
	if (run_receives(fx->t)) {
		RECV(fx, .tagged = true, .buf = in.data, .len = in.len, .addr = FI_ADDR_UNSPEC,
		     .tag = len, .ctx = &rx);
		COMP_EXPECT(fx, FX_RX, .ctx = &rx, .flags = GOT_TAGGED, .len = len, .tag = len);
		GUARD_HOLDS(&in, len, len);
	}
	if (run_sends(fx->t))
		COMP_EXPECT(fx, FX_TX, .ctx = &tx, .flags = SENT_TAGGED);
	guard_free(&out);
	guard_free(&in);
}

static void short_message(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 2 * SIZE_COUNT; i++) {
		run_step("%zu bytes", all_sizes[i / 2]);
		short_message_one(&fx, all_sizes[i / 2], i & 1);
	}
	fx_close(&fx);
}

/* Both ranks send and receive messages of several sizes at the same time. */
static void both_directions(struct test *t)
{
	struct guard out[SIZE_COUNT], in[SIZE_COUNT];
	struct fi_context2 tx[SIZE_COUNT], rx[SIZE_COUNT];
	uint64_t mine = 100U * (uint64_t)t->rank, other = t->ranks == 1 ? mine : 100 - mine;
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (size_t i = 0; i < SIZE_COUNT; i++) {
		out[i] = guard_alloc(all_sizes[i]);
		in[i] = guard_alloc(all_sizes[i]);
		pattern_fill(out[i].data, out[i].len, mine + i);
		RECV(&fx, .tagged = true, .buf = in[i].data, .len = in[i].len,
		     .addr = FI_ADDR_UNSPEC, .tag = i, .ctx = &rx[i]);
	}
	for (size_t i = 0; i < SIZE_COUNT; i++)
		SEND(&fx, .tagged = true, .buf = out[i].data, .len = out[i].len, .addr = fx.peer,
		     .tag = i, .ctx = &tx[i]);
	COMP_ANY_ORDER(&fx, FX_RX, rx, SIZE_COUNT);
	COMP_ANY_ORDER(&fx, FX_TX, tx, SIZE_COUNT);
	for (size_t i = 0; i < SIZE_COUNT; i++) {
		GUARD_HOLDS(&in[i], in[i].len, other + i);
		guard_free(&out[i]);
		guard_free(&in[i]);
	}
	fx_close(&fx);
}

/* Small messages complete 128 posted receives in the order of posting. */
static void many_posted(struct test *t)
{
	static struct fi_context2 tx[128], rx[128];
	static uint8_t in[128][512], out[128][512];
	struct fx fx;

	fx_open(t, &fx, &plain);
	if (run_receives(t))
		for (int i = 0; i < 128; i++)
			RECV(&fx, .buf = in[i], .len = 512, .addr = FI_ADDR_UNSPEC, .ctx = &rx[i]);
	fx_barrier(&fx);
	if (run_sends(t)) {
		for (uint64_t i = 0; i < 128; i++) {
			pattern_fill(out[i], 512, i);
			SEND(&fx, .buf = out[i], .len = 512, .addr = fx.peer, .ctx = &tx[i]);
		}
	}
	if (run_receives(t)) {
		COMP_IN_ORDER(&fx, FX_RX, rx, 128);
		for (uint64_t i = 0; i < 128; i++)
			CHECK(pattern_check(in[i], 512, i) == 512, "message %d is wrong", (int)i);
	}
	if (run_sends(t))
		COMP_ANY_ORDER(&fx, FX_TX, tx, 128);
	fx_close(&fx);
}

static size_t random_size(uint64_t *state)
{
	unsigned int bits = pattern_next(state) % 21;

	return pattern_next(state) % ((1ULL << bits) + 1);
}

static void random_transfers(struct test *t)
{
	uint64_t state = t->seed;
	size_t limit;
	struct fx fx;

	fx_open(t, &fx, &plain);
	limit = transfer_iov_limit(&fx);
	for (uint64_t i = 0; i < 300; i++) {
		uint64_t r = pattern_next(&state);
		struct transfer tr = {
			.id = i,
			.len = random_size(&state),
			.send_call = r % 6,
			.recv_call = r / 8 % 3,
			.send_segments = 1 + r / 32 % limit,
			.recv_segments = 1 + r / 1024 % limit,
			.send_flags = r >> 20 & 1 ? FI_REMOTE_CQ_DATA : 0,
			.data = r,
			.tagged = r >> 21 & 1,
			.unexpected = r >> 22 & 1,
		};

		if (!too_long(&fx, &tr))
			transfer_run(&fx, &tr);
	}
	fx_close(&fx);
}

/* Sizes around the longest packet of the smaller side, and of messages without a header. */
static void run_mixed(struct test *t, bool of_receiver, const char *name, const char *value)
{
	struct transfer tr = { .tagged = true };
	struct fx fx;

	if (run_sends(t) != of_receiver)
		setenv(name, value, 1);
	fx_open(t, &fx, &plain);
	for (tr.len = 0; tr.len < 8600; tr.len += tr.len < 4400 ? 37 : 511) {
		for (int i = 0; i < 2; i++) {
			tr.unexpected = i;
			tr.id++;
			transfer_run(&fx, &tr);
		}
	}
	fx_close(&fx);
}

static void receiver_has_less(struct test *t)
{
	run_mixed(t, true, "FI_TAGRV_EAGER_MAX", "4096");
}

static void sender_has_less(struct test *t)
{
	run_mixed(t, false, "FI_TAGRV_EAGER_MAX", "4096");
}

static void receiver_has_small_ring(struct test *t)
{
	run_mixed(t, true, "FI_TAGRV_SHM_RING", "16384");
}

static void receiver_is_general(struct test *t)
{
	run_mixed(t, true, "FI_TAGRV_FAST", "no");
}

static void sender_is_general(struct test *t)
{
	run_mixed(t, false, "FI_TAGRV_FAST", "no");
}

const struct test_case data_cases[] = {
	{ "data_sizes_tagged", "tagged messages, 0 B to 8 MiB, expected and not", sizes_tagged, .self = true },
	{ "data_sizes_msg", "untagged messages, 0 B to 8 MiB, expected and not", sizes_msg, .self = true },
	{ "data_calls", "each send call meets each receive call", calls, .self = true },
	{ "data_vectors", "uneven and empty segments up to iov_limit on both sides", vectors, .self = true },
	{ "data_nothing", "no buffer, no vector, no context", nothing, .self = true },
	{ "data_inject_sizes", "injects up to inject_size; the buffer is free at once", inject_sizes, .self = true },
	{ "data_inject_burst", "2000 injects from one variable", inject_burst, .ranks = 2 },
	{ "data_without_flag", "CQ data travels only when asked for", data_without_flag, .self = true },
	{ "data_short_message", "a message shorter than its buffer leaves the rest alone", short_message, .self = true },
	{ "data_both_directions", "all sizes at once in both directions", both_directions, .self = true },
	{ "data_many_posted", "128 posted receives complete in order", many_posted, .self = true },
	{ "data_receiver_has_less", "only the receiver has short eager messages", receiver_has_less, .ranks = 2 },
	{ "data_sender_has_less", "only the sender has short eager messages", sender_has_less, .ranks = 2 },
	{ "data_receiver_has_small_ring", "only the receiver has a small ring", receiver_has_small_ring, .ranks = 2 },
	{ "data_receiver_is_general", "only the receiver has FI_TAGRV_FAST=no", receiver_is_general, .ranks = 2 },
	{ "data_sender_is_general", "only the sender has FI_TAGRV_FAST=no", sender_is_general, .ranks = 2 },
	{ "data_random", "300 random combinations", random_transfers, .self = true },
	{ 0 },
};
