/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages longer than their receive: only this receive fails.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/transfer.h"

#include <string.h>

struct cut {
	size_t message;
	size_t buffer;
};

static const struct cut cuts[] = {
	{ 8, 0 },	 { 8, 7 },	    { 100, 40 },	     { 4096, 1 },
	{ 9000, 8999 },	 { 50000, 4096 },   { 1 << 20, 0 },	     { 1 << 20, 1000 },
	{ 1 << 20, (1 << 20) - 1 }, { (4 << 20) + 1, 3 << 20 },
};

enum { CUT_COUNT = sizeof(cuts) / sizeof(cuts[0]) };

static const struct fx_attr plain;

static void check_truncated(struct fx *fx, const struct cut *cut, const struct guard *g, void *ctx,
			    uint64_t tag, bool tagged)
{
	COMP_EXPECT(fx, FX_RX, .ctx = ctx, .flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG),
		    .err = FI_ETRUNC, .len = cut->buffer, .olen = cut->message - cut->buffer,
		    .tag = tag);
	GUARD_HOLDS(g, cut->buffer, tag);
}

/* Sends the message that is truncated, then one that fits. */
static void send_cut(struct fx *fx, const struct cut *cut, uint64_t tag, bool tagged,
		     struct guard *g, struct fi_context2 *ctx)
{
	*g = guard_alloc(cut->message);
	pattern_fill(g->data, g->len, tag);
	SEND(fx, .tagged = tagged, .buf = g->data, .len = g->len, .addr = fx->peer, .tag = tag,
	     .ctx = ctx);
}

static void run_cut(struct fx *fx, const struct cut *cut, uint64_t tag, bool tagged, bool unexpected)
{
	struct fi_context2 tx, rx;
	struct guard out, in = guard_alloc(cut->buffer);

	run_step("%zu bytes into %zu, %s, %s", cut->message, cut->buffer,
		 tagged ? "tagged" : "untagged", unexpected ? "unexpected" : "expected");
	if (unexpected && run_sends(fx->t))
		send_cut(fx, cut, tag, tagged, &out, &tx);
	if (unexpected) {
		fx_barrier(fx);
		fx_idle(fx, 2);
	}
	if (run_receives(fx->t))
		RECV(fx, .tagged = tagged, .buf = in.data, .len = in.len, .addr = FI_ADDR_UNSPEC,
		     .tag = tag, .ctx = &rx);
	fx_barrier(fx);
	if (!unexpected && run_sends(fx->t))
		send_cut(fx, cut, tag, tagged, &out, &tx);
	if (run_receives(fx->t))
		check_truncated(fx, cut, &in, &rx, tag, tagged);
	if (run_sends(fx->t)) {
		COMP_EXPECT(fx, FX_TX, .ctx = &tx, .flags = tagged ? SENT_TAGGED : SENT_MSG);
		guard_free(&out);
	}
	guard_free(&in);
}

static void run_cuts(struct test *t, bool unexpected)
{
	struct transfer after = { .len = 100000 };
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (uint64_t i = 0; i < 2 * CUT_COUNT; i++) {
		run_cut(&fx, &cuts[i / 2], i, i & 1, unexpected);
		after.id = 1000 + i;
		after.tagged = i & 1;
		after.len = i & 2 ? 100 : 100000;
		transfer_run(&fx, &after);
	}
	fx_close(&fx);
}

static void expected(struct test *t)
{
	run_cuts(t, false);
}

static void unexpected(struct test *t)
{
	run_cuts(t, true);
}

/* The receive has several segments, one of them empty. */
static void segments(struct test *t)
{
	struct guard out = guard_alloc(200000), in[3];
	struct iovec iov[3];
	static const size_t room[3] = { 1000, 0, 50000 };
	struct fi_context2 tx, rx;
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 3; i++) {
		in[i] = guard_alloc(room[i]);
		iov[i] = (struct iovec){ .iov_base = in[i].data, .iov_len = room[i] };
	}
	if (run_receives(t))
		RECV(&fx, .call = CALL_IOV, .tagged = true, .iov = iov, .iov_count = 3,
		     .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &rx);
	fx_barrier(&fx);
	pattern_fill(out.data, out.len, 1);
	if (run_sends(t))
		SEND(&fx, .tagged = true, .buf = out.data, .len = out.len, .addr = fx.peer, .tag = 1,
		     .ctx = &tx);
	if (run_receives(t)) {
		COMP_EXPECT(&fx, FX_RX, .ctx = &rx, .flags = GOT_TAGGED, .err = FI_ETRUNC,
			    .len = 51000, .olen = 149000, .tag = 1);
		CHECK(!memcmp(in[0].data, out.data, 1000), "wrong content in segment 0");
		CHECK(!memcmp(in[2].data, out.data + 1000, 50000), "wrong content in segment 2");
	}
	for (int i = 0; i < 3; i++) {
		CHECK(!guard_damage(&in[i], room[i]), "segment %d is overrun", i);
		guard_free(&in[i]);
	}
	if (run_sends(t))
		COMP_EXPECT(&fx, FX_TX, .ctx = &tx, .flags = SENT_TAGGED);
	guard_free(&out);
	fx_close(&fx);
}

/* A truncated message counts as delivered and matched at the sender. */
static void levels(struct test *t)
{
	struct cut cut = { .message = 300000, .buffer = 10 };
	struct fi_info *info;
	struct fx fx;

	for (int i = 0; i < 2; i++) {
		struct fx_attr attr = {
			.tx_flags = i ? FI_MATCH_COMPLETE : FI_DELIVERY_COMPLETE,
		};

		if (fx_try_info(t, &attr, &info))
			run_skip("the provider refuses op_flags 0x%llx",
				 (unsigned long long)attr.tx_flags);
		fi_freeinfo(info);
		fx_open(t, &fx, &attr);
		run_cut(&fx, &cut, 1, true, false);
		cut.message = 50;
		run_cut(&fx, &cut, 2, true, false);
		fx_close(&fx);
	}
}

/* CQ data and tag of a truncated message are reported: MPI finds the source there. */
static void with_data(struct test *t)
{
	static char out[100000];
	struct fi_context2 ctx;
	struct comp c;
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 2; i++) {
		if (run_receives(t))
			RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 0, .ignore = ~0ULL,
			     .ctx = &ctx);
		fx_barrier(&fx);
		if (run_sends(t)) {
			SEND(&fx, .call = CALL_DATA, .tagged = true, .buf = out,
			     .len = i ? sizeof(out) : 8, .addr = fx.peer, .tag = 77,
			     .data = 0x1234, .ctx = &ctx);
			COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
		} else {
			COMP_WAIT(&fx, FX_RX, &c);
			COMP_SAME(&fx, &c, .ctx = &ctx, .flags = GOT_TAGGED | FI_REMOTE_CQ_DATA,
				  .err = FI_ETRUNC, .len = 0, .olen = i ? sizeof(out) : 8, .tag = 77);
			CHECK(c.data == 0x1234, "data 0x%llx", (unsigned long long)c.data);
		}
	}
	fx_close(&fx);
}

const struct test_case truncate_cases[] = {
	{ "truncate_expected", "error, lengths, guard bytes; send and later messages succeed", expected, .self = true },
	{ "truncate_unexpected", "the same with unexpected messages", unexpected, .self = true },
	{ "truncate_segments", "a scattered receive is filled and not overrun", segments, .self = true },
	{ "truncate_levels", "delivery and match complete of a truncated message", levels, .self = true },
	{ "truncate_with_data", "tag and CQ data of a truncated message", with_data, .ranks = 2 },
	{ 0 },
};
