/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_MULTI_RECV: one buffer takes many messages until too little of it is left.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 1024, HALF = 64 * MESSAGE, LARGE = 40000, ROUNDS = 20 };

static void open_multi(struct test *t, struct fx *fx, uint64_t rx_flags, uint64_t bind, size_t min)
{
	struct fx_attr attr = {
		.caps = FI_MSG | FI_TAGGED | FI_MULTI_RECV,
		.rx_flags = rx_flags,
		.rx_bind = bind,
		.min_multi_recv = min,
	};

	fx_open_or_skip(t, fx, &attr, "FI_MULTI_RECV");
}

typedef size_t (*length_fn)(uint64_t i);

/*
 * The receiver: two buffers that take turns. Messages are placed in the order of
 * sending, in the buffer posted first. Their completions may come in any order,
 * because announced messages are read later. A buffer is released after its last
 * message.
 */
struct landing {
	struct guard half[2];
	struct fi_context2 ctx[2];
	size_t used[2];		/* end of the farthest message */
	uint64_t posts;		/* number of posts so far */
	uint64_t post[2];	/* number of the last post of each buffer */
	uint64_t count;
	uint64_t n;
	length_fn length;
	uint64_t *place;	/* position of each message, 0: not seen */
	bool by_default;	/* FI_MULTI_RECV comes from op_flags */
};

static void post_half(struct fx *fx, struct landing *l, int i)
{
	l->used[i] = 0;
	l->post[i] = l->posts++;
	RECV(fx, .call = l->by_default ? CALL_BUF : CALL_MSG, .buf = l->half[i].data,
	     .len = l->half[i].len, .addr = FI_ADDR_UNSPEC, .flags = FI_MULTI_RECV | FI_COMPLETION,
	     .ctx = &l->ctx[i]);
}

static void landing_open(struct fx *fx, struct landing *l, size_t size)
{
	l->place = calloc(l->n, sizeof(*l->place));
	CHECK(l->place, "no memory");
	for (int i = 0; i < 2; i++) {
		l->half[i] = guard_alloc(size);
		post_half(fx, l, i);
	}
}

static uint64_t place_of(uint64_t post, size_t offset)
{
	return (post << 32 | offset) + 1;
}

static void landing_close(struct landing *l)
{
	for (uint64_t i = 1; l->place && i < l->n; i++)
		CHECK(l->place[i] > l->place[i - 1], "message %" PRIu64 " lies out of order", i);
	for (int i = 0; i < 2 && l->half[i].base; i++) {
		CHECK(!guard_damage(&l->half[i], l->half[i].len), "bytes written outside a buffer");
		guard_free(&l->half[i]);
	}
	free(l->place);
}

static size_t bytes_left(const struct landing *l, int half)
{
	return l->half[half].len - l->used[half];
}

/* Returns the number of the message, found by its content. */
static uint64_t identify(const struct landing *l, const struct comp *c)
{
	for (uint64_t i = 0; i < l->n; i++)
		if (!l->place[i] && l->length(i) == c->len &&
		    pattern_check(c->buf, c->len, i) == c->len)
			return i;
	return UINT64_MAX;
}

static void check_message(struct landing *l, int half, const struct comp *c)
{
	uint8_t *at = c->buf, *start = l->half[half].data;
	uint64_t i;

	CHECK((c->flags & ~FI_MULTI_RECV) == GOT_MSG, "flags 0x%" PRIx64, c->flags);
	CHECK(at >= start && at + c->len <= start + l->half[half].len,
	      "message %" PRIu64 " is not in the buffer of its context", l->count);
	i = identify(l, c);
	CHECK(i != UINT64_MAX, "entry %" PRIu64 " of %zu bytes is no message expected", l->count,
	      c->len);
	l->place[i] = place_of(l->post[half], (size_t)(at - start));
	if (at + c->len > start + l->used[half])
		l->used[half] = (size_t)(at - start) + c->len;
	l->count++;
}

static void release(struct fx *fx, struct landing *l, int half)
{
	CHECK(bytes_left(l, half) < fx->attr.min_multi_recv, "released with %zu bytes left",
	      bytes_left(l, half));
	post_half(fx, l, half);
}

/* Reads one entry: a message, a release, or both. Returns true for a message. */
static bool landing_take(struct fx *fx, struct landing *l)
{
	struct comp c;
	int half;

	COMP_WAIT(fx, FX_RX, &c);
	CHECK(!c.err, "receive failed with error %d", c.err);
	half = c.ctx == &l->ctx[1];
	CHECK(c.ctx == &l->ctx[half], "an entry with a foreign context");
	if (c.flags & FI_RECV)
		check_message(l, half, &c);
	else
		CHECK(c.flags == FI_MULTI_RECV, "an entry with flags 0x%" PRIx64, c.flags);
	if (c.flags & FI_MULTI_RECV)
		release(fx, l, half);
	return c.flags & FI_RECV;
}

/* The sender: the buffers of all messages stay until all sends are done. */
struct outgoing {
	uint64_t n;
	uint8_t *mem;
	struct fi_context2 *ctx;
};

static void post_n(struct fx *fx, struct outgoing *o, uint64_t n, length_fn length)
{
	size_t total = 0, at = 0;

	for (uint64_t i = 0; i < n; i++)
		total += length(i);
	o->n = n;
	o->mem = malloc(total);
	o->ctx = calloc(n, sizeof(*o->ctx));
	CHECK(o->mem && o->ctx, "no memory");
	for (uint64_t i = 0; i < n; i++) {
		pattern_fill(o->mem + at, length(i), i);
		SEND(fx, .buf = o->mem + at, .len = length(i), .addr = fx->peer, .ctx = &o->ctx[i]);
		at += length(i);
	}
}

static void finish_n(struct fx *fx, struct outgoing *o)
{
	COMP_ANY_ORDER(fx, FX_TX, o->ctx, o->n);
	free(o->mem);
	free(o->ctx);
}

static size_t fixed_length(uint64_t i)
{
	(void)i;
	return MESSAGE;
}

static size_t varying_length(uint64_t i)
{
	return 1 + i * 379 % MESSAGE;
}

static size_t large_length(uint64_t i)
{
	return i % 3 ? LARGE - i % 7 : 1 + i % 50;
}

/* A release may come as an entry of its own after the last message. */
static void drain_releases(struct fx *fx, struct landing *l)
{
	fx_barrier(fx);
	for (int i = 0; i < 2; i++)
		while (bytes_left(l, i) < fx->attr.min_multi_recv)
			CHECK(!landing_take(fx, l), "one message too many");
}

static void receive_n(struct fx *fx, struct landing *l)
{
	while (l->count < l->n)
		landing_take(fx, l);
	drain_releases(fx, l);
}

/* Messages of 1 KiB are placed without gaps: 64 of them in each buffer. */
static void receive_tight(struct fx *fx, struct landing *l)
{
	receive_n(fx, l);
	for (uint64_t i = 0; i < l->n; i++)
		CHECK(l->place[i] == place_of(i / 64, MESSAGE * (i % 64)),
		      "message %" PRIu64 " is not behind the one before", i);
}

static void tight(struct test *t)
{
	struct landing l = {
		.n = ROUNDS * 64, .length = fixed_length, .by_default = true,
	};
	struct outgoing o;
	struct fx fx;

	open_multi(t, &fx, FI_MULTI_RECV, 0, MESSAGE);
	if (run_receives(t))
		landing_open(&fx, &l, HALF);
	fx_barrier(&fx);
	if (run_sends(t)) {
		post_n(&fx, &o, ROUNDS * 64, fixed_length);
		finish_n(&fx, &o);
		fx_barrier(&fx);
	} else {
		receive_tight(&fx, &l);
	}
	fx_close_now(&fx);
	landing_close(&l);
}

static void play(struct test *t, size_t size, size_t min, struct landing *l, bool late)
{
	struct outgoing o;
	struct fx fx;

	open_multi(t, &fx, 0, 0, min);
	if (run_receives(t) && !late)
		landing_open(&fx, l, size);
	fx_barrier(&fx);
	if (run_sends(t))
		post_n(&fx, &o, l->n, l->length);
	if (late)
		fx_barrier(&fx);
	if (run_receives(t) && late)
		landing_open(&fx, l, size);
	if (run_sends(t)) {
		finish_n(&fx, &o);
		fx_barrier(&fx);
	} else {
		receive_n(&fx, l);
	}
	fx_close_now(&fx);
	landing_close(l);
}

static void lengths(struct test *t)
{
	struct landing l = { .n = 2000, .length = varying_length };

	play(t, HALF, MESSAGE, &l, false);
}

static void rendezvous(struct test *t)
{
	struct landing l = { .n = 200, .length = large_length };

	play(t, 16 * HALF, LARGE, &l, false);
}

static void unexpected(struct test *t)
{
	struct landing l = { .n = 100, .length = varying_length };

	play(t, HALF, MESSAGE, &l, true);
}

static void unexpected_rendezvous(struct test *t)
{
	struct landing l = { .n = 40, .length = large_length };

	play(t, 16 * HALF, LARGE, &l, true);
}

/* The release has an entry even when the messages have none. */
static void silent(struct test *t)
{
	struct guard g = guard_alloc(4 * MESSAGE);
	struct fi_context2 ctx;
	struct outgoing o;
	struct comp c;
	struct fx fx;

	open_multi(t, &fx, 0, FI_SELECTIVE_COMPLETION, MESSAGE);
	if (run_receives(t))
		RECV(&fx, .call = CALL_MSG, .buf = g.data, .len = g.len, .addr = FI_ADDR_UNSPEC,
		     .flags = FI_MULTI_RECV, .ctx = &ctx);
	fx_barrier(&fx);
	if (run_sends(t)) {
		post_n(&fx, &o, 4, fixed_length);
		finish_n(&fx, &o);
	} else {
		COMP_WAIT(&fx, FX_RX, &c);
		CHECK(!c.err && c.ctx == &ctx && c.flags & FI_MULTI_RECV,
		      "entry with err %d flags 0x%" PRIx64, c.err, c.flags);
	}
	fx_close(&fx);
	guard_free(&g);
}

static void cancelled(struct test *t)
{
	struct guard g = guard_alloc(HALF);
	struct fi_context2 ctx;
	struct comp c;
	struct fx fx;

	open_multi(t, &fx, 0, 0, MESSAGE);
	RECV(&fx, .call = CALL_MSG, .buf = g.data, .len = g.len, .addr = FI_ADDR_UNSPEC,
	     .flags = FI_MULTI_RECV, .ctx = &ctx);
	CHECK_OK(fi_cancel(&fx.ep->fid, &ctx));
	COMP_WAIT(&fx, FX_RX, &c);
	CHECK(c.ctx == &ctx && c.err == FI_ECANCELED, "cancelled: err %d", c.err);
	fx_close(&fx);
	guard_free(&g);
}

const struct test_case multi_recv_cases[] = {
	{ "multi_recv_tight", "64 messages of 1 KiB fill each 64 KiB buffer", tight, .ranks = 2 },
	{ "multi_recv_lengths", "2000 messages of 0 to 3000 bytes", lengths, .ranks = 2 },
	{ "multi_recv_rendezvous", "large messages land in the buffer too", rendezvous, .ranks = 2 },
	{ "multi_recv_unexpected", "unexpected messages fill a buffer posted later", unexpected, .ranks = 2 },
	{ "multi_recv_unexpected_rendezvous", "so do large unexpected messages", unexpected_rendezvous, .ranks = 2 },
	{ "multi_recv_silent", "the release is seen under selective completion", silent, .ranks = 2 },
	{ "multi_recv_cancelled", "a buffer can be cancelled", cancelled, .ranks = 1 },
	{ 0 },
};
