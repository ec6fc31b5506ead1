/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_PEEK, FI_CLAIM and FI_DISCARD on tagged messages.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <inttypes.h>
#include <string.h>

enum { COUNT = 10, FIRST_TAG = 0x900e };

static const struct fx_attr directed = { .caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV };
static const size_t lengths[] = { 1024, 300000 };

static void peek(struct fx *fx, fi_addr_t from, uint64_t tag, uint64_t ignore, uint64_t flags,
		 void *ctx)
{
	RECV(fx, .call = CALL_MSG, .tagged = true, .addr = from, .tag = tag, .ignore = ignore,
	     .flags = FI_PEEK | flags, .ctx = ctx);
}

/* Peeks until the message has arrived, and checks it. */
static void peek_hit(struct fx *fx, uint64_t tag, size_t len, uint64_t flags, void *ctx)
{
	struct comp c;

	run_step("peek for tag 0x%" PRIx64 ", flags 0x%" PRIx64, tag, flags);
	do {
		peek(fx, FI_ADDR_UNSPEC, tag, 0, flags, ctx);
		COMP_WAIT(fx, FX_RX, &c);
		CHECK(c.ctx == ctx, "a peek completed with context %p, want %p", c.ctx, ctx);
		FX_CHECK_MOVES(fx, "the message is never found");
	} while (c.err == FI_ENOMSG);
	CHECK(!c.err, "peek: error %d (%s)", c.err, fi_strerror(c.err));
	CHECK(c.tag == tag, "peek found tag 0x%" PRIx64 ", want 0x%" PRIx64, c.tag, tag);
	CHECK(c.flags & FI_RECV && c.flags & FI_TAGGED, "peek: flags 0x%" PRIx64, c.flags);
	if (!(flags & FI_DISCARD))
		CHECK(c.len == len, "peek found %zu bytes, want %zu", c.len, len);
}

static void peek_miss(struct fx *fx, uint64_t tag, uint64_t flags)
{
	struct fi_context2 ctx;

	run_step("peek in vain for tag 0x%" PRIx64 ", flags 0x%" PRIx64, tag, flags);
	peek(fx, FI_ADDR_UNSPEC, tag, 0, flags, &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .err = FI_ENOMSG);
}

static void claim(struct fx *fx, const struct guard *g, void *ctx, uint64_t flags)
{
	RECV(fx, .call = CALL_MSG, .tagged = true, .buf = g->data, .len = g->len, .addr = 0,
	     .flags = FI_CLAIM | flags, .ctx = ctx);
}

static void receive(struct fx *fx, uint64_t tag, size_t len)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	run_step("receive tag 0x%" PRIx64, tag);
	RECV(fx, .tagged = true, .buf = g.data, .len = len, .addr = FI_ADDR_UNSPEC, .tag = tag,
	     .ctx = &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = len, .tag = tag);
	GUARD_HOLDS(&g, len, tag);
	guard_free(&g);
}

/* The sender: COUNT messages with rising tags, repeated on -FI_EAGAIN. */
static void send_all(struct fx *fx, size_t len)
{
	struct guard g[COUNT];
	struct fi_context2 ctx[COUNT];

	for (uint64_t i = 0; i < COUNT; i++) {
		g[i] = guard_alloc(len);
		pattern_fill(g[i].data, len, FIRST_TAG + i);
		SEND(fx, .tagged = true, .buf = g[i].data, .len = len, .addr = fx->peer,
		     .tag = FIRST_TAG + i, .ctx = &ctx[i]);
	}
	COMP_ANY_ORDER(fx, FX_TX, ctx, COUNT);
	for (int i = 0; i < COUNT; i++)
		guard_free(&g[i]);
}

typedef void (*play_fn)(struct fx *fx, size_t len);

static void run_play(struct test *t, play_fn play)
{
	struct fx fx;

	fx_open(t, &fx, &directed);
	for (int i = 0; i < 2; i++) {
		if (run_sends(t))
			send_all(&fx, lengths[i]);
		else
			play(&fx, lengths[i]);
		fx_barrier(&fx);
		COMP_NONE(&fx, 0);
	}
	fx_close(&fx);
}

static void receive_rest(struct fx *fx, uint64_t first, size_t len)
{
	for (uint64_t tag = FIRST_TAG + first; tag < FIRST_TAG + COUNT; tag++)
		receive(fx, tag, len);
}

/* A peek takes nothing away. */
static void play_peek(struct fx *fx, size_t len)
{
	struct fi_context2 ctx;

	peek_miss(fx, 0xbad, 0);
	for (int i = 0; i < 3; i++)
		peek_hit(fx, FIRST_TAG + 1, len, 0, &ctx);
	peek_hit(fx, FIRST_TAG + COUNT - 1, len, 0, &ctx);
	peek_miss(fx, 0xbad, 0);
	receive_rest(fx, 0, len);
	peek_miss(fx, FIRST_TAG, 0);
}

/* Other receives and peeks do not see a claimed message. */
static void play_claim(struct fx *fx, size_t len)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx;

	peek_miss(fx, 0xbad, FI_CLAIM);
	peek_hit(fx, FIRST_TAG, len, FI_CLAIM, &ctx);
	peek_miss(fx, FIRST_TAG, 0);
	peek_miss(fx, FIRST_TAG, FI_CLAIM);
	receive(fx, FIRST_TAG + 1, len);
	claim(fx, &g, &ctx, 0);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = len, .tag = FIRST_TAG);
	GUARD_HOLDS(&g, len, FIRST_TAG);
	receive_rest(fx, 2, len);
	guard_free(&g);
}

/* Several claims at once, received in another order. */
static void play_claims(struct fx *fx, size_t len)
{
	static const int order[] = { 2, 0, 3, 1 };
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx[4];

	for (uint64_t i = 0; i < 4; i++)
		peek_hit(fx, FIRST_TAG + i, len, FI_CLAIM, &ctx[i]);
	for (int k = 0; k < 4; k++) {
		uint64_t tag = FIRST_TAG + (uint64_t)order[k];

		run_step("fetch claimed tag 0x%" PRIx64, tag);
		claim(fx, &g, &ctx[order[k]], 0);
		COMP_EXPECT(fx, FX_RX, .ctx = &ctx[order[k]], .flags = GOT_TAGGED, .len = len,
			    .tag = tag);
		GUARD_HOLDS(&g, len, tag);
	}
	receive_rest(fx, 4, len);
	guard_free(&g);
}

static void play_discard(struct fx *fx, size_t len)
{
	struct guard none = guard_alloc(0);
	struct fi_context2 ctx;
	struct comp c;

	peek_miss(fx, 0xbad, FI_DISCARD);
	peek_hit(fx, FIRST_TAG, len, FI_DISCARD, &ctx);
	peek_miss(fx, FIRST_TAG, 0);
	peek_hit(fx, FIRST_TAG + 1, len, FI_CLAIM, &ctx);
	claim(fx, &none, &ctx, FI_DISCARD);
	COMP_WAIT(fx, FX_RX, &c);
	CHECK(!c.err && c.ctx == &ctx && c.tag == FIRST_TAG + 1,
	      "claim and discard: err %d tag 0x%" PRIx64, c.err, c.tag);
	peek_miss(fx, FIRST_TAG + 1, 0);
	receive_rest(fx, 2, len);
	guard_free(&none);
}

static void play_reverse(struct fx *fx, size_t len)
{
	struct fi_context2 ctx;

	peek_hit(fx, FIRST_TAG + COUNT - 1, len, 0, &ctx);
	for (uint64_t tag = FIRST_TAG + COUNT; tag-- > FIRST_TAG;)
		receive(fx, tag, len);
}

/* A wildcard peek shows the first message, and a wildcard receive takes it. */
static void play_any(struct fx *fx, size_t len)
{
	struct fi_context2 ctx;

	peek_hit(fx, FIRST_TAG + COUNT - 1, len, 0, &ctx);
	for (uint64_t i = 0; i < COUNT; i++) {
		peek(fx, FI_ADDR_UNSPEC, 0, ~0ULL, 0, &ctx);
		COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = len,
			    .tag = FIRST_TAG + i);
		receive(fx, FIRST_TAG + i, len);
	}
}

static void plain_peek(struct test *t)
{
	run_play(t, play_peek);
}

static void claim_one(struct test *t)
{
	run_play(t, play_claim);
}

static void claim_many(struct test *t)
{
	run_play(t, play_claims);
}

static void discard(struct test *t)
{
	run_play(t, play_discard);
}

static void reverse(struct test *t)
{
	run_play(t, play_reverse);
}

static void any(struct test *t)
{
	run_play(t, play_any);
}

/* Posted receives match first: a peek does not see their messages. */
static void posted_first(struct test *t)
{
	struct fi_context2 ctx;
	struct fx fx;
	char byte;

	fx_open(t, &fx, &directed);
	if (!run_sends(t))
		RECV(&fx, .tagged = true, .buf = &byte, .len = 1, .addr = FI_ADDR_UNSPEC, .tag = 1,
		     .ctx = &ctx);
	fx_barrier(&fx);
	if (run_sends(t)) {
		SEND(&fx, .tagged = true, .buf = &byte, .len = 1, .addr = fx.peer, .tag = 1,
		     .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	} else {
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = 1, .tag = 1);
		peek_miss(&fx, 1, 0);
	}
	fx_close(&fx);
}

/* Peek shows the CQ data that came with the message. */
static void with_data(struct test *t)
{
	struct fi_context2 ctx;
	struct fx fx;
	char byte = 0;
	struct comp c;

	fx_open(t, &fx, &directed);
	if (run_sends(t)) {
		SEND(&fx, .call = CALL_DATA, .tagged = true, .buf = &byte, .len = 1, .addr = fx.peer,
		     .tag = 1, .data = 0xabcd, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	} else {
		peek_hit(&fx, 1, 1, 0, &ctx);
		peek(&fx, FI_ADDR_UNSPEC, 1, 0, FI_CLAIM, &ctx);
		COMP_WAIT(&fx, FX_RX, &c);
		COMP_SAME(&fx, &c, .ctx = &ctx, .flags = GOT_TAGGED | FI_REMOTE_CQ_DATA, .len = 1,
			  .tag = 1, .data = 0xabcd);
		RECV(&fx, .call = CALL_MSG, .tagged = true, .buf = &byte, .len = 1, .addr = 0,
		     .flags = FI_CLAIM, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED | FI_REMOTE_CQ_DATA,
			    .len = 1, .tag = 1, .data = 0xabcd);
	}
	fx_close(&fx);
}

/* The same tag from two senders: directed peek and claim keep them apart. */
static void by_source(struct test *t)
{
	struct fi_context2 ctx;
	uint32_t value = (uint32_t)t->rank;
	struct fx fx;
	struct comp c;

	fx_open(t, &fx, &directed);
	if (t->rank) {
		SEND(&fx, .tagged = true, .buf = &value, .len = 4, .addr = fx.addr[0], .tag = 1,
		     .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	}
	fx_barrier(&fx);
	for (uint32_t from = 2; from > 0 && !t->rank; from--) {
		run_step("claim from rank %u", from);
		do {
			peek(&fx, fx.addr[from], 1, 0, FI_CLAIM, &ctx);
			COMP_WAIT(&fx, FX_RX, &c);
			FX_CHECK_MOVES(&fx, "the message is never found");
		} while (c.err == FI_ENOMSG);
		CHECK(!c.err, "peek: error %d", c.err);
		RECV(&fx, .call = CALL_MSG, .tagged = true, .buf = &value, .len = 4, .addr = 0,
		     .flags = FI_CLAIM, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = 4, .tag = 1);
		CHECK(value == from, "claimed the message of rank %u, want %u", value, from);
	}
	fx_close(&fx);
}

/* Under selective completion a probe asks for its entry; misses are seen anyway. */
static void selective(struct test *t)
{
	struct fx_attr attr = {
		.tx_bind = FI_SELECTIVE_COMPLETION,
		.rx_bind = FI_SELECTIVE_COMPLETION,
		.tx_flags = FI_COMPLETION,
		.rx_flags = FI_COMPLETION,
	};
	struct guard g = guard_alloc(64);
	struct fi_context2 ctx;
	struct fx fx;

	fx_open(t, &fx, &attr);
	pattern_fill(g.data, g.len, 1);
	if (run_sends(t)) {
		SEND(&fx, .tagged = true, .buf = g.data, .len = g.len, .addr = fx.peer, .tag = 1,
		     .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	} else {
		guard_wipe(&g);
		peek_miss(&fx, 0xbad, FI_COMPLETION);
		peek_hit(&fx, 1, g.len, FI_CLAIM | FI_COMPLETION, &ctx);
		claim(&fx, &g, &ctx, FI_COMPLETION);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = g.len, .tag = 1);
		GUARD_HOLDS(&g, g.len, 1);
	}
	guard_free(&g);
	fx_close(&fx);
}

const struct test_case peek_cases[] = {
	{ "peek_plain", "a peek reports and leaves the message", plain_peek, .ranks = 2 },
	{ "peek_claim", "a claimed message is hidden until received by its context", claim_one, .ranks = 2 },
	{ "peek_claim_many", "claimed messages are received in any order", claim_many, .ranks = 2 },
	{ "peek_discard", "discard after peek or claim: one entry, message gone", discard, .ranks = 2 },
	{ "peek_reverse", "receives in reverse order after a peek", reverse, .ranks = 2 },
	{ "peek_any", "a wildcard peek shows the message a receive would take", any, .ranks = 2 },
	{ "peek_posted_first", "a peek does not see what a posted receive took", posted_first, .ranks = 2 },
	{ "peek_with_data", "peek and claim report CQ data", with_data, .ranks = 2 },
	{ "peek_by_source", "directed peek and claim with two senders", by_source, .ranks = 3 },
	{ "peek_selective", "peek and claim under selective completion", selective, .ranks = 2 },
	{ 0 },
};
