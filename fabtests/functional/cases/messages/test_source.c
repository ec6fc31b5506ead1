/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_SOURCE_ERR: messages of senders that are not in the AV.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <string.h>

enum { LARGE = 300000 };

static const struct fx_attr plain = {
	.caps = FI_MSG | FI_TAGGED | FI_SOURCE | FI_SOURCE_ERR | FI_DIRECTED_RECV,
	.stranger = true,
};

static const size_t lens[] = { 0, 100, LARGE };
enum { LEN_COUNT = sizeof(lens) / sizeof(lens[0]) };

/* One message of each length, tagged and not. */
static void send_all(struct fx *fx, int to)
{
	struct guard g = guard_alloc(LARGE);
	struct fi_context2 ctx;

	pattern_fill(g.data, g.len, 7);
	for (size_t i = 0; i < 2 * LEN_COUNT; i++) {
		SEND(fx, .call = CALL_DATA, .tagged = i & 1, .buf = g.data, .len = lens[i / 2],
		     .addr = fx->addr[to], .tag = i, .data = i, .ctx = &ctx);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = i & 1 ? SENT_TAGGED : SENT_MSG);
	}
	guard_free(&g);
}

static void wait_eavail(struct fx *fx)
{
	struct fi_cq_tagged_entry e;
	fi_addr_t src;
	ssize_t n;

	while ((n = fi_cq_readfrom(fx->cq[FX_RX], &e, 1, &src)) == -FI_EAGAIN)
		FX_CHECK_MOVES(fx, "no completion");
	CHECK(n == -FI_EAVAIL, "fi_cq_readfrom: %zd, want -FI_EAVAIL", n);
}

/* Takes the error entry; its address goes to 'name'. */
static void read_stranger(struct fx *fx, size_t i, void *ctx, uint8_t *name, bool own_room)
{
	struct fi_cq_err_entry e;

	memset(&e, 0, sizeof(e));
	if (own_room) {
		e.err_data = name;
		e.err_data_size = FX_NAME_MAX;
	}
	wait_eavail(fx);
	CHECK(fi_cq_readerr(fx->cq[FX_RX], &e, 0) == 1, "no error entry");
	CHECK(e.err == FI_EADDRNOTAVAIL, "err %d, want FI_EADDRNOTAVAIL", e.err);
	CHECK(e.op_context == ctx && e.len == lens[i / 2], "context %p, len %zu", e.op_context, e.len);
	CHECK(e.flags == ((i & 1 ? GOT_TAGGED : GOT_MSG) | FI_REMOTE_CQ_DATA) && e.data == i,
	      "flags 0x%llx, data %llu", (unsigned long long)e.flags, (unsigned long long)e.data);
	CHECK(!(i & 1) || e.tag == i, "tag %llu", (unsigned long long)e.tag);
	CHECK(e.err_data_size == fx->namelen, "%zu bytes of error data", e.err_data_size);
	if (!own_room)
		memcpy(name, e.err_data, e.err_data_size);
}

/* The bytes have arrived, and the error entry has the sender's address. */
static void recv_strange(struct fx *fx, size_t i, int from)
{
	uint8_t name[FX_NAME_MAX] = { 0 };
	struct guard g = guard_alloc(LARGE);
	struct fi_context2 ctx;

	run_step("%zu bytes, %s", lens[i / 2], i & 1 ? "tagged" : "untagged");
	RECV(fx, .tagged = i & 1, .buf = g.data, .len = LARGE, .addr = FI_ADDR_UNSPEC, .tag = i,
	     .ctx = &ctx);
	read_stranger(fx, i, &ctx, name, i & 2);
	GUARD_HOLDS(&g, lens[i / 2], 7);
	CHECK(!memcmp(name, fx->name[from], fx->namelen), "the address is not that of rank %d", from);
	guard_free(&g);
}

/* Messages of an inserted sender have ordinary completions. */
static void recv_known(struct fx *fx, size_t i, int from)
{
	static char buf[LARGE];
	struct fi_context2 ctx;
	struct comp c;

	RECV(fx, .tagged = i & 1, .buf = buf, .len = LARGE, .addr = fx->addr[from], .tag = i,
	     .ctx = &ctx);
	COMP_WAIT(fx, FX_RX, &c);
	CHECK(!c.err && c.ctx == &ctx && c.src == fx->addr[from], "err %d, source %llu", c.err,
	      (unsigned long long)c.src);
}

static void stranger(struct test *t)
{
	struct fx fx;

	fx_open_or_skip(t, &fx, &plain, "FI_SOURCE_ERR");
	if (t->rank == 1) {
		fx_insert(&fx, 0);
		send_all(&fx, 0);
	} else {
		for (size_t i = 0; i < 2 * LEN_COUNT; i++)
			recv_strange(&fx, i, 1);
		fx_insert(&fx, 1);
	}
	fx_barrier(&fx);
	if (t->rank == 1)
		send_all(&fx, 0);
	else
		for (size_t i = 0; i < 2 * LEN_COUNT; i++)
			recv_known(&fx, i, 1);
	fx_close(&fx);
}

/* A message arrives before its sender is inserted and is received after it. */
static void bound_later(struct test *t)
{
	struct fx fx;

	fx_open_or_skip(t, &fx, &plain, "FI_SOURCE_ERR");
	if (t->rank == 1) {
		fx_insert(&fx, 0);
		SEND(&fx, .call = CALL_INJECT, .tagged = true, .addr = fx.addr[0], .tag = 1);
	}
	fx_barrier(&fx);
	fx_idle(&fx, 50);
	if (t->rank == 0) {
		fx_insert(&fx, 1);
		recv_known(&fx, 1, 1);
	}
	fx_close(&fx);
}

/* Answers to the address in the error entry. */
static void answer(struct test *t)
{
	uint8_t name[FX_NAME_MAX] = { 0 };
	struct fi_context2 ctx;
	fi_addr_t addr;
	struct fx fx;
	size_t i = 1;

	fx_open_or_skip(t, &fx, &plain, "FI_SOURCE_ERR");
	if (t->rank == 0) {
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = i, .ctx = &ctx);
		read_stranger(&fx, i, &ctx, name, true);
		CHECK(fi_av_insert(fx.av, name, 1, &addr, 0, NULL) == 1, "not inserted");
		SEND(&fx, .call = CALL_INJECT, .tagged = true, .addr = addr, .tag = 2);
	} else {
		fx_insert(&fx, 0);
		SEND(&fx, .call = CALL_INJECTDATA, .tagged = true, .addr = fx.addr[0], .tag = i,
		     .data = i);
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 2, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .tag = 2);
	}
	fx_close(&fx);
}

const struct test_case source_cases[] = {
	{ "source_stranger", "FI_EADDRNOTAVAIL, with the message and the sender's address", stranger, .ranks = 2 },
	{ "source_bound_later", "a sender inserted before the receive is known", bound_later, .ranks = 2 },
	{ "source_answer", "the address of the error entry can be inserted and answered", answer, .ranks = 2 },
	{ 0 },
};
