/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which receive takes which message: order, masks, wildcards, sizes mixed.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { BIG = 1 << 20 };

static const struct fx_attr plain;

/* A script numbers receives in the order of posting and sends in the order of sending. */
struct post {
	uint64_t tag;
	uint64_t ignore;
};

struct sent {
	uint64_t tag;
	int receive;		/* number of the receive that must take it */
	size_t len;
};

struct script {
	const struct post *post;
	int posts;
	const struct sent *sent;
	int sents;
	bool untagged;
};

enum { SCRIPT_MAX = 64 };

static void post_all(struct fx *fx, const struct script *s, struct guard *in,
		     struct fi_context2 *ctx)
{
	for (int i = 0; i < s->posts; i++) {
		in[i] = guard_alloc(BIG);
		RECV(fx, .tagged = !s->untagged, .buf = in[i].data, .len = BIG,
		     .addr = FI_ADDR_UNSPEC, .tag = s->post[i].tag, .ignore = s->post[i].ignore,
		     .ctx = &ctx[i]);
	}
}

static void send_all(struct fx *fx, const struct script *s, struct guard *out,
		     struct fi_context2 *ctx)
{
	for (int i = 0; i < s->sents; i++) {
		out[i] = guard_alloc(s->sent[i].len);
		pattern_fill(out[i].data, out[i].len, (uint64_t)i);
		SEND(fx, .tagged = !s->untagged, .buf = out[i].data, .len = out[i].len,
		     .addr = fx->peer, .tag = s->sent[i].tag, .ctx = &ctx[i]);
	}
}

/* Each message must be in exactly the buffer that the script names. */
static void check_all(struct fx *fx, const struct script *s, struct guard *in,
		      struct fi_context2 *ctx)
{
	struct comp got[SCRIPT_MAX];

	for (int i = 0; i < s->sents; i++)
		COMP_WAIT(fx, FX_RX, &got[i]);
	for (int i = 0; i < s->sents; i++) {
		const struct sent *m = &s->sent[i];
		int k = 0;

		while (k < s->sents && got[k].ctx != &ctx[m->receive])
			k++;
		CHECK(k < s->sents, "receive %d did not complete", m->receive);
		COMP_SAME(fx, &got[k], .ctx = &ctx[m->receive], .len = m->len, .tag = m->tag,
			  .flags = s->untagged ? GOT_MSG : GOT_TAGGED);
		run_step("message %d in receive %d", i, m->receive);
		GUARD_HOLDS(&in[m->receive], m->len, (uint64_t)i);
	}
	for (int i = 0; i < s->posts; i++)
		guard_free(&in[i]);
}

static void play(struct fx *fx, const struct script *s, bool unexpected)
{
	struct guard in[SCRIPT_MAX], out[SCRIPT_MAX];
	struct fi_context2 rx[SCRIPT_MAX], tx[SCRIPT_MAX];

	if (run_receives(fx->t) && !unexpected)
		post_all(fx, s, in, rx);
	fx_barrier(fx);
	if (run_sends(fx->t))
		send_all(fx, s, out, tx);
	if (unexpected) {
		fx_barrier(fx);
		fx_idle(fx, 20);
	}
	if (run_receives(fx->t) && unexpected)
		post_all(fx, s, in, rx);
	if (run_receives(fx->t))
		check_all(fx, s, in, rx);
	if (run_sends(fx->t))
		COMP_ANY_ORDER(fx, FX_TX, tx, (size_t)s->sents);
	for (int i = 0; run_sends(fx->t) && i < s->sents; i++)
		guard_free(&out[i]);
	fx_barrier(fx);
	COMP_NONE(fx, 0);
}

static void play_posted(struct test *t, const struct script *s)
{
	struct fx fx;

	fx_open(t, &fx, &plain);
	play(&fx, s, false);
	fx_close(&fx);
}

static void play_unexpected(struct test *t, const struct script *s)
{
	struct fx fx;

	fx_open(t, &fx, &plain);
	play(&fx, s, true);
	fx_close(&fx);
}

#define SCRIPT(p, m)                                                                               \
	&(const struct script)                                                                     \
	{                                                                                          \
		.post = (p), .posts = sizeof(p) / sizeof((p)[0]), .sent = (m),                     \
		.sents = sizeof(m) / sizeof((m)[0])                                                \
	}

/* The first receive that matches wins, however it matches. */
static void masks(struct test *t)
{
	static const struct post posts[] = {
		{ 0x10, 0 },	  { 0x10, 0x0f },	      { 0x00, ~0ULL },	  { 0x15, 0 },
		{ 0x20, 0xff00 }, { 0xff00000000000000, ~0xff00000000000000ULL }, { 0, ~0ULL },
	};
	static const struct sent sent[] = {
		{ 0x15, 1, 10 },
		{ 0x15, 2, 10 },
		{ 0x15, 3, 10 },
		{ 0x10, 0, 10 },
		{ 0x1220, 4, 10 },
		{ 0xff00000000000001, 5, 10 },
		{ 0x77, 6, 10 },
	};

	play_posted(t, SCRIPT(posts, sent));
}

/* All messages are unexpected; each receive takes the first one that matches. */
static void masks_unexpected(struct test *t)
{
	static const struct post posts[] = {
		{ 0x30, 0 }, { 0x10, 0x0f }, { 0, ~0ULL }, { 0x10, 0x0f }, { 0, ~0ULL },
	};
	static const struct sent sent[] = {
		{ 0x20, 2, 10 },     { 0x11, 1, 100 }, { 0x30, 0, BIG },
		{ 0x12, 3, 100000 }, { 0x13, 4, 10 },
	};

	play_unexpected(t, SCRIPT(posts, sent));
}

/* Exact and wildcard receives posted in turn match in the order of posting. */
static void wildcard_order(struct test *t)
{
	static const struct post posts[] = {
		{ 1, 0 }, { 0, ~0ULL }, { 1, 0 }, { 0, ~0ULL }, { 1, 1 }, { 1, 0 },
	};
	static const struct sent sent[] = {
		{ 1, 0, 10 }, { 1, 1, 10 }, { 1, 2, 10 }, { 1, 3, 10 }, { 1, 4, 10 }, { 1, 5, 10 },
	};

	play_posted(t, SCRIPT(posts, sent));
}

/* 40 receives, each with a mask of its own. */
static void many_masks(struct test *t)
{
	struct post posts[40];
	struct sent sent[40];
	struct script s = { .post = posts, .posts = 40, .sent = sent, .sents = 40 };

	for (int i = 0; i < 40; i++) {
		uint64_t bit = 1ULL << i;

		posts[i] = (struct post){ .tag = 1ULL << 63 | (uint64_t)i << 48, .ignore = bit };
		sent[39 - i] = (struct sent){ .tag = posts[i].tag | bit, .receive = i, .len = 8 };
	}
	play_posted(t, &s);
}

/* One tag, sizes on both sides of every change of protocol: the order is that of sending. */
static void mixed_script(struct script *s, struct post *posts, struct sent *sent, int n)
{
	static const size_t sizes[] = { BIG, 8, 0, 5000, 200000, 64, 16384, 1, 70000, 300 };

	for (int i = 0; i < n; i++) {
		posts[i] = (struct post){ .tag = 7 };
		sent[i] = (struct sent){ .tag = 7, .receive = i, .len = sizes[i % 10] };
	}
	*s = (struct script){ .post = posts, .posts = n, .sent = sent, .sents = n };
}

static void mixed(struct test *t, bool unexpected, bool untagged)
{
	struct post posts[SCRIPT_MAX];
	struct sent sent[SCRIPT_MAX];
	struct script s;

	mixed_script(&s, posts, sent, 40);
	s.untagged = untagged;
	if (unexpected)
		play_unexpected(t, &s);
	else
		play_posted(t, &s);
}

static void mixed_posted(struct test *t)
{
	mixed(t, false, false);
}

static void mixed_unexpected(struct test *t)
{
	mixed(t, true, false);
}

static void mixed_msg(struct test *t)
{
	mixed(t, false, true);
}

static void mixed_msg_unexpected(struct test *t)
{
	mixed(t, true, true);
}

/* Receives in the reverse order of tags. */
static void reverse_tags(struct test *t)
{
	struct post posts[SCRIPT_MAX];
	struct sent sent[SCRIPT_MAX];
	struct script s = { .post = posts, .posts = 40, .sent = sent, .sents = 40 };

	for (int i = 0; i < 40; i++) {
		posts[i] = (struct post){ .tag = (uint64_t)(39 - i) };
		sent[i] = (struct sent){
			.tag = (uint64_t)i, .receive = 39 - i, .len = i % 3 ? 64 : 50000,
		};
	}
	play_unexpected(t, &s);
}

/* Tagged receives take no untagged message, and the reverse, not even with wildcards. */
static void separate_spaces(struct test *t)
{
	struct fi_context2 tx[4], rx[4];
	uint32_t in[4] = { 0 }, out[4] = { 0, 1, 2, 3 };
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < 4 && run_receives(t); i++)
		RECV(&fx, .tagged = i < 2, .buf = &in[i], .len = 4, .addr = FI_ADDR_UNSPEC,
		     .ignore = ~0ULL, .ctx = &rx[i]);
	fx_barrier(&fx);
	for (int i = 0; i < 4 && run_sends(t); i++)
		SEND(&fx, .tagged = i & 1, .buf = &out[i], .len = 4, .addr = fx.peer, .tag = 0,
		     .ctx = &tx[i]);
	if (run_receives(t)) {
		COMP_ANY_ORDER(&fx, FX_RX, rx, 4);
		CHECK(in[0] == 1 && in[1] == 3, "tagged receives hold %u, %u", in[0], in[1]);
		CHECK(in[2] == 0 && in[3] == 2, "untagged receives hold %u, %u", in[2], in[3]);
	}
	if (run_sends(t))
		COMP_ANY_ORDER(&fx, FX_TX, tx, 4);
	fx_close(&fx);
}

/* In each wave half of the messages are expected and half are unexpected. */
static void waves_send(struct fx *fx, uint32_t *out, struct fi_context2 *tx, int n)
{
	for (int i = 0; i < n; i++) {
		out[i] = (uint32_t)i;
		SEND(fx, .tagged = true, .buf = &out[i], .len = 4, .addr = fx->peer, .tag = 3,
		     .ctx = &tx[i]);
	}
	COMP_ANY_ORDER(fx, FX_TX, tx, (size_t)n);
}

static void waves_recv(struct fx *fx, uint32_t *in, struct fi_context2 *rx, int n)
{
	uint64_t state = fx->t->seed;
	int posted = 0, seen = 0;

	while (seen < n) {
		struct comp c;

		if (posted < n && pattern_next(&state) % 3 == 0) {
			RECV(fx, .tagged = true, .buf = &in[posted], .len = 4,
			     .addr = FI_ADDR_UNSPEC, .tag = 3, .ctx = &rx[posted]);
			posted++;
		}
		FX_CHECK_MOVES(fx, "message %d of %d does not come", seen, n);
		if (!comp_poll(fx, FX_RX, &c))
			continue;
		COMP_SAME(fx, &c, .ctx = c.ctx, .flags = GOT_TAGGED, .len = 4, .tag = 3);
		seen++;
	}
	for (int i = 0; i < n; i++)
		CHECK(in[i] == (uint32_t)i, "receive %d got message %u", i, in[i]);
}

static void waves(struct test *t)
{
	static struct fi_context2 ctx[3000];
	static uint32_t buf[3000];
	struct fx fx;

	fx_open(t, &fx, &plain);
	if (run_sends(t))
		waves_send(&fx, buf, ctx, 3000);
	else
		waves_recv(&fx, buf, ctx, 3000);
	fx_close(&fx);
}

/*
 * Messages behind so many others of the same sender, which nobody receives so far, that
 * there is hardly room for more of these; their receives wait for them.
 */
static void behind_kept(struct test *t)
{
	enum { EARLY = 2600, WANTED = 300, LEN = 32768 };
	struct fi_context2 *ctx = calloc(EARLY + WANTED, sizeof(*ctx));
	char *buf = calloc(1, LEN);
	struct fx fx;

	CHECK(ctx && buf, "no memory");
	/* It pays for 1820 of the announcements, which take 128 bytes without keys. Each
	 * of the others has one of 1024 places, so that fewer are left than are wanted. */
	setenv("FI_TAGRV_EAGER_BUDGET", "262144", 1);
	setenv("FI_TAGRV_RNDV", "copy", 1);
	fx_open(t, &fx, &plain);
	for (int i = 0; run_receives(t) && i < WANTED; i++)
		RECV(&fx, .tagged = true, .buf = buf, .len = LEN, .addr = FI_ADDR_UNSPEC,
		     .tag = 2, .ctx = &ctx[i]);
	fx_barrier(&fx);
	for (int i = 0; run_sends(t) && i < EARLY + WANTED; i++)
		SEND(&fx, .tagged = true, .buf = buf, .len = LEN, .addr = fx.peer,
		     .tag = i < EARLY ? 1 : 2, .ctx = &ctx[i]);
	if (run_receives(t))
		COMP_ANY_ORDER(&fx, FX_RX, ctx, WANTED);
	for (int i = 0; run_receives(t) && i < EARLY; i++) {
		RECV(&fx, .tagged = true, .buf = buf, .len = LEN, .addr = FI_ADDR_UNSPEC,
		     .tag = 1, .ctx = ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = ctx, .flags = GOT_TAGGED, .len = LEN, .tag = 1);
	}
	if (run_sends(t))
		COMP_ANY_ORDER(&fx, FX_TX, ctx, EARLY + WANTED);
	fx_close(&fx);
	free(ctx);
	free(buf);
}

const struct test_case order_cases[] = {
	{ "order_masks", "the first posted match wins, with any mask", masks, .self = true },
	{ "order_masks_unexpected", "the first sent match is taken, with any mask", masks_unexpected, .self = true },
	{ "order_wildcard", "exact and wildcard receives match in order of posting", wildcard_order, .self = true },
	{ "order_many_masks", "40 different masks at once", many_masks, .self = true },
	{ "order_mixed_posted", "small behind large, same tag, receives posted", mixed_posted, .self = true },
	{ "order_mixed_unexpected", "small behind large, same tag, receives late", mixed_unexpected, .self = true },
	{ "order_mixed_msg", "the same with untagged messages", mixed_msg, .self = true },
	{ "order_mixed_msg_unexpected", "the same with untagged messages, receives late", mixed_msg_unexpected, .self = true },
	{ "order_reverse_tags", "late receives in reverse order of tags", reverse_tags, .self = true },
	{ "order_separate_spaces", "tagged and untagged messages do not mix", separate_spaces, .self = true },
	{ "order_waves", "3000 messages, some before and some after their receive", waves, .ranks = 2 },
	{ "order_behind_kept", "messages behind 2600 that nobody receives", behind_kept, .ranks = 2 },
	{ 0 },
};
