/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connecting and closing: first messages that cross, closing right after the last one.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/transfer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct fx_attr plain;

/* Every rank sends to every other rank at the same moment, as its first operation. */
static void cross(struct test *t, size_t len)
{
	struct fi_context2 tx[RUN_RANKS_MAX], rx[RUN_RANKS_MAX];
	struct guard out = guard_alloc(len), in[RUN_RANKS_MAX];
	struct fx fx;

	fx_open(t, &fx, &plain);
	pattern_fill(out.data, len, (uint64_t)t->rank);
	for (int i = 0; i < t->ranks; i++) {
		in[i] = guard_alloc(len);
		RECV(&fx, .tagged = true, .buf = in[i].data, .len = len, .addr = FI_ADDR_UNSPEC,
		     .tag = (uint64_t)i, .ctx = &rx[i]);
	}
	run_barrier(t);
	for (int i = 0; i < t->ranks; i++)
		SEND(&fx, .tagged = true, .buf = out.data, .len = len, .addr = fx.addr[i],
		     .tag = (uint64_t)t->rank, .ctx = &tx[i]);
	COMP_ANY_ORDER(&fx, FX_TX, tx, (size_t)t->ranks);
	COMP_ANY_ORDER(&fx, FX_RX, rx, (size_t)t->ranks);
	for (int i = 0; i < t->ranks; i++) {
		GUARD_HOLDS(&in[i], len, (uint64_t)i);
		guard_free(&in[i]);
	}
	guard_free(&out);
	fx_close(&fx);
}

static void crossing(struct test *t)
{
	for (int i = 0; i < 20; i++) {
		run_step("round %d", i);
		cross(t, 64);
	}
}

static void crossing_large(struct test *t)
{
	for (int i = 0; i < 20; i++) {
		run_step("round %d", i);
		cross(t, 300000);
	}
}

/* Messages that a sender sends right before it closes. */
struct farewell {
	size_t len;
	int count;
	enum msg_call call;
};

static const struct farewell farewells[] = {
	{ 64, 50, CALL_INJECT },
	{ 1024, 50, CALL_BUF },
	{ 20000, 20, CALL_BUF },
	{ 1 << 20, 4, CALL_BUF },
};

enum { FAREWELLS = sizeof(farewells) / sizeof(farewells[0]) };

static void say_farewell(struct fx *fx, const struct farewell *f)
{
	struct fi_context2 *ctx = calloc((size_t)f->count, sizeof(*ctx));
	struct guard g = guard_alloc(f->len);

	CHECK(ctx, "no memory");
	pattern_fill(g.data, g.len, f->len);
	for (int i = 0; i < f->count; i++)
		SEND(fx, .call = f->call, .tagged = true, .buf = g.data, .len = g.len,
		     .addr = fx->peer, .tag = f->len, .ctx = &ctx[i]);
	if (msg_completes(f->call))
		COMP_ANY_ORDER(fx, FX_TX, ctx, (size_t)f->count);
	guard_free(&g);
	free(ctx);
}

static void hear_farewell(struct fx *fx, const struct farewell *f)
{
	struct guard g = guard_alloc(f->len);
	struct fi_context2 ctx;

	for (int i = 0; i < f->count; i++) {
		guard_wipe(&g);
		run_step("message %d of %d, %zu bytes", i, f->count, f->len);
		RECV(fx, .tagged = true, .buf = g.data, .len = g.len, .addr = FI_ADDR_UNSPEC,
		     .tag = f->len, .ctx = &ctx);
		COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = g.len, .tag = f->len);
		GUARD_HOLDS(&g, g.len, f->len);
	}
	guard_free(&g);
}

/* The sender's process ends; all its messages must be received all the same. */
static void close_drains(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &plain);
	for (int i = 0; i < FAREWELLS; i++) {
		if (run_sends(t))
			say_farewell(&fx, &farewells[i]);
		else
			hear_farewell(&fx, &farewells[i]);
	}
	COMP_NONE(&fx, 0);
	fx_close_now(&fx);
}

/* The receiver makes no progress before the sender is closing. */
static void close_drains_injects(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &plain);
	if (run_sends(t)) {
		say_farewell(&fx, &farewells[0]);
	} else {
		usleep(300000);
		hear_farewell(&fx, &farewells[0]);
	}
	COMP_NONE(&fx, 0);
	fx_close_now(&fx);
}

/* The first message is also the last. */
static void close_after_first(struct test *t)
{
	static const struct farewell one = { .len = 8, .count = 1, .call = CALL_INJECT };
	struct fx fx;

	for (int i = 0; i < 10; i++) {
		fx_open(t, &fx, &plain);
		if (run_sends(t))
			say_farewell(&fx, &one);
		else
			hear_farewell(&fx, &one);
		COMP_NONE(&fx, 0);
		fx_close_now(&fx);
	}
}

/* The receiver closes right after its completion; the send must complete too. */
static void receiver_closes(struct test *t)
{
	static const size_t sizes[] = { 0, 1000, 100000, 1 << 20 };
	struct fi_context2 ctx;
	struct fx fx;

	for (int i = 0; i < 8; i++) {
		struct guard g = guard_alloc(sizes[i / 2]);
		struct fx_attr attr = { .tx_flags = i & 1 ? FI_DELIVERY_COMPLETE : 0 };

		run_step("%zu bytes, flags 0x%llx", g.len, (unsigned long long)attr.tx_flags);
		fx_open(t, &fx, &attr);
		if (run_sends(t)) {
			SEND(&fx, .tagged = true, .buf = g.data, .len = g.len, .addr = fx.peer,
			     .tag = 1, .ctx = &ctx);
			COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
		} else {
			RECV(&fx, .tagged = true, .buf = g.data, .len = g.len,
			     .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx);
			COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = g.len,
				    .tag = 1);
		}
		fx_close_now(&fx);
		guard_free(&g);
	}
}

/* One endpoint of rank 0 serves ten of rank 1, one after the other. */
static void serve_client(struct fx *server)
{
	struct fi_context2 ctx;
	uint8_t name[FX_NAME_MAX];
	fi_addr_t addr = FI_ADDR_NOTAVAIL;

	RECV(server, .buf = name, .len = sizeof(name), .addr = FI_ADDR_UNSPEC, .ctx = &ctx);
	COMP_EXPECT(server, FX_RX, .ctx = &ctx, .flags = GOT_MSG, .len = server->namelen);
	CHECK(fi_av_insert(server->av, name, 1, &addr, 0, NULL) == 1, "insert failed");
	SEND(server, .buf = name, .len = server->namelen, .addr = addr, .ctx = &ctx);
	COMP_EXPECT(server, FX_TX, .ctx = &ctx, .flags = SENT_MSG);
	CHECK_OK(fi_av_remove(server->av, &addr, 1, 0));
}

static void be_client(struct test *t, const uint8_t *server)
{
	struct fx_attr attr = { .disabled = true };
	fi_addr_t addr = FI_ADDR_NOTAVAIL;
	uint8_t mine[FX_NAME_MAX], echo[FX_NAME_MAX];
	size_t len = sizeof(mine);
	struct fi_context2 ctx[2];
	struct fx fx;

	fx_open(t, &fx, &attr);
	CHECK_OK(fi_enable(fx.ep));
	CHECK_OK(fi_getname(&fx.ep->fid, mine, &len));
	CHECK(fi_av_insert(fx.av, server, 1, &addr, 0, NULL) == 1, "insert failed");
	RECV(&fx, .buf = echo, .len = len, .addr = FI_ADDR_UNSPEC, .ctx = &ctx[0]);
	SEND(&fx, .buf = mine, .len = len, .addr = addr, .ctx = &ctx[1]);
	COMP_EXPECT(&fx, FX_TX, .ctx = &ctx[1], .flags = SENT_MSG);
	COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[0], .flags = GOT_MSG, .len = len);
	CHECK(!memcmp(mine, echo, len), "the echo differs");
	fx_close_now(&fx);
}

static void many_clients(struct test *t)
{
	struct fx_attr attr = { .stranger = true };
	struct fx fx;

	fx_open(t, &fx, &attr);
	for (int i = 0; i < 10; i++) {
		run_step("client %d", i);
		if (t->rank == 0)
			serve_client(&fx);
		else
			be_client(t, fx.name[0]);
	}
	fx_close(&fx);
}

/* A peer that closes while idle causes no completion at other ranks. */
static void quiet_leave(struct test *t)
{
	struct fi_context2 ctx[2];
	struct fx fx;

	fx_open(t, &fx, &plain);
	RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx[0]);
	SEND(&fx, .tagged = true, .addr = fx.peer, .tag = 1, .ctx = &ctx[1]);
	COMP_EXPECT(&fx, FX_TX, .ctx = &ctx[1], .flags = SENT_TAGGED);
	COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .tag = 1);
	fx_barrier(&fx);
	if (t->rank == 0)
		COMP_NONE(&fx, 500);
	fx_close_now(&fx);
}

/* Sending starts before the receiver's endpoint makes any progress. */
static void slow_peer(struct test *t)
{
	struct fi_context2 ctx;
	struct fx fx;

	fx_open(t, &fx, &plain);
	if (run_sends(t)) {
		SEND(&fx, .tagged = true, .addr = fx.peer, .tag = 1, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	} else {
		sleep(3);
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .tag = 1);
	}
	fx_close(&fx);
}

const struct test_case connect_cases[] = {
	{ "connect_crossing", "both send first at the same moment, 20 times", crossing, .ranks = 2 },
	{ "connect_crossing_large", "the same with large messages", crossing_large, .ranks = 2 },
	{ "connect_crossing_four", "four ranks, all to all", crossing, .ranks = 4 },
	{ "connect_close_drains", "a sender closes and exits; everything arrives", close_drains, .ranks = 2 },
	{ "connect_close_drains_injects", "injects to a receiver that makes no progress", close_drains_injects, .ranks = 2 },
	{ "connect_close_after_first", "one inject, then close", close_after_first, .ranks = 2 },
	{ "connect_receiver_closes", "a receiver closes after its completion", receiver_closes, .ranks = 2 },
	{ "connect_many_clients", "ten endpoints in turn talk to one", many_clients, .ranks = 2 },
	{ "connect_quiet_leave", "an idle peer that closes is not an error", quiet_leave, .ranks = 2 },
	{ "connect_slow_peer", "a receiver that makes no progress at first", slow_peer, .ranks = 2 },
	{ 0 },
};
