/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Directed receives; and sources that are not in the AV yet, or any more.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"

#include <string.h>

static const struct fx_attr directed = { .caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV };

static void send_value(struct fx *fx, int to, uint64_t tag, bool tagged, uint32_t value)
{
	struct fi_context2 ctx;

	SEND(fx, .tagged = tagged, .buf = &value, .len = 4, .addr = fx->addr[to], .tag = tag,
	     .ctx = &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = tagged ? SENT_TAGGED : SENT_MSG);
}

static uint32_t recv_value(struct fx *fx, fi_addr_t from, uint64_t tag, bool tagged)
{
	struct fi_context2 ctx;
	uint32_t value = ~0U;

	RECV(fx, .tagged = tagged, .buf = &value, .len = 4, .addr = from, .tag = tag, .ctx = &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = tagged ? GOT_TAGGED : GOT_MSG, .len = 4,
		    .tag = tag);
	return value;
}

/* Receives for rank 2 are posted first; rank 1 sends first. */
static void posted_receiver(struct fx *fx, bool tagged)
{
	struct fi_context2 ctx[4];
	uint32_t in[4];

	for (int i = 0; i < 4; i++)
		RECV(fx, .tagged = tagged, .buf = &in[i], .len = 4, .addr = fx->addr[i < 2 ? 2 : 1],
		     .tag = 1, .ctx = &ctx[i]);
	fx_barrier(fx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx[2], .flags = tagged ? GOT_TAGGED : GOT_MSG, .len = 4,
		    .tag = 1);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx[3], .flags = tagged ? GOT_TAGGED : GOT_MSG, .len = 4,
		    .tag = 1);
	COMP_NONE(fx, 20);
	fx_barrier(fx);
	COMP_IN_ORDER(fx, FX_RX, ctx, 2);
	for (uint32_t i = 0; i < 4; i++)
		CHECK(in[i] == (i < 2 ? 200 + i : 100 + i - 2), "receive %u holds %u", i, in[i]);
}

static void posted_sender(struct fx *fx, bool tagged)
{
	uint32_t rank = (uint32_t)fx->t->rank;

	fx_barrier(fx);
	if (rank == 2)
		fx_barrier(fx);
	send_value(fx, 0, 1, tagged, 100 * rank);
	send_value(fx, 0, 1, tagged, 100 * rank + 1);
	if (rank == 1)
		fx_barrier(fx);
}

static void posted(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &directed);
	for (int tagged = 0; tagged < 2; tagged++) {
		run_step("%s", tagged ? "tagged" : "untagged");
		if (t->rank == 0)
			posted_receiver(&fx, tagged);
		else
			posted_sender(&fx, tagged);
	}
	fx_close(&fx);
}

/* All messages are unexpected; those of rank 2 are received first. */
static void unexpected(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &directed);
	for (uint32_t i = 0; i < 4 && t->rank; i++)
		send_value(&fx, 0, 1, i & 1, 100 * (uint32_t)t->rank + i);
	fx_barrier(&fx);
	for (int from = 2; from > 0 && !t->rank; from--) {
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t got = recv_value(&fx, fx.addr[from], 1, i & 1);

			CHECK(got == 100 * (uint32_t)from + i, "from rank %d: %u, want message %u",
			      from, got, i);
		}
	}
	fx_close(&fx);
}

/* A wildcard between two directed receives matches in its place of the order. */
static void with_wildcard(struct test *t)
{
	struct fi_context2 ctx[3];
	uint32_t in[3];
	struct fx fx;

	fx_open(t, &fx, &directed);
	if (t->rank == 0) {
		RECV(&fx, .tagged = true, .buf = &in[0], .len = 4, .addr = fx.addr[2], .ctx = &ctx[0]);
		RECV(&fx, .tagged = true, .buf = &in[1], .len = 4, .addr = FI_ADDR_UNSPEC,
		     .ignore = ~0ULL, .ctx = &ctx[1]);
		RECV(&fx, .tagged = true, .buf = &in[2], .len = 4, .addr = fx.addr[1], .ctx = &ctx[2]);
	}
	fx_barrier(&fx);
	if (t->rank == 1) {
		send_value(&fx, 0, 0, true, 10);
		send_value(&fx, 0, 0, true, 11);
	}
	if (t->rank == 0) {
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[1], .flags = GOT_TAGGED, .len = 4);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[2], .flags = GOT_TAGGED, .len = 4);
	}
	fx_barrier(&fx);
	if (t->rank == 2)
		send_value(&fx, 0, 0, true, 20);
	if (t->rank == 0) {
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .len = 4);
		CHECK(in[0] == 20 && in[1] == 10 && in[2] == 11, "got %u, %u, %u", in[0], in[1], in[2]);
	}
	fx_close(&fx);
}

/* Two senders, wildcard receives: the order of each sender holds. */
static void two_streams(struct test *t)
{
	uint32_t next[3] = { 0 };
	struct fx fx;

	fx_open(t, &fx, &directed);
	for (uint32_t i = 0; i < 500 && t->rank; i++)
		send_value(&fx, 0, 1, true, (uint32_t)t->rank << 16 | i);
	for (int i = 0; i < 1000 && !t->rank; i++) {
		uint32_t got = recv_value(&fx, FI_ADDR_UNSPEC, 1, true);
		uint32_t from = got >> 16;

		CHECK(from == 1 || from == 2, "message 0x%x", got);
		CHECK((got & 0xffff) == next[from]++, "message %u of rank %u, want %u", got & 0xffff,
		      from, next[from] - 1);
	}
	fx_close(&fx);
}

/* Without FI_DIRECTED_RECV the source address of a receive is ignored. */
static void not_directed(struct test *t)
{
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ 0 });
	if (t->rank == 1)
		for (uint32_t i = 0; i < 3; i++)
			send_value(&fx, 0, 1, true, i);
	if (t->rank == 0) {
		CHECK(recv_value(&fx, fx.addr[0], 1, true) == 0, "wrong message");
		CHECK(recv_value(&fx, 12345, 1, true) == 1, "wrong message");
		CHECK(recv_value(&fx, fx.addr[1], 1, true) == 2, "wrong message");
	}
	fx_close(&fx);
}

/*
 * Rank 1 sends before its address is in rank 0's AV. A wildcard receive takes the
 * first message, a receive directed at the address inserted later the second.
 */
static void late_insert(struct test *t)
{
	struct fx_attr attr = directed;
	struct fx fx;

	attr.stranger = true;
	fx_open(t, &fx, &attr);
	if (t->rank == 1) {
		fx_insert(&fx, 0);
		for (uint32_t i = 0; i < 4; i++)
			send_value(&fx, 0, 1, i >= 2, i);
	}
	fx_barrier(&fx);
	if (t->rank == 0) {
		CHECK(recv_value(&fx, FI_ADDR_UNSPEC, 1, false) == 0, "wrong message");
		CHECK(recv_value(&fx, FI_ADDR_UNSPEC, 1, true) == 2, "wrong message");
		fx_insert(&fx, 1);
		CHECK(recv_value(&fx, fx.addr[1], 1, true) == 3, "wrong message");
		CHECK(recv_value(&fx, fx.addr[1], 1, false) == 1, "wrong message");
		send_value(&fx, 1, 2, true, 42);
	}
	if (t->rank == 1)
		CHECK(recv_value(&fx, fx.addr[0], 2, true) == 42, "wrong message");
	fx_close(&fx);
}

/* The same for a large message, of which only the announcement has arrived. */
static void late_insert_large(struct test *t)
{
	struct guard g = guard_alloc(2 << 20);
	struct fx_attr attr = directed;
	struct fi_context2 ctx;
	struct fx fx;

	attr.stranger = true;
	fx_open(t, &fx, &attr);
	if (t->rank == 1) {
		fx_insert(&fx, 0);
		pattern_fill(g.data, g.len, 1);
		SEND(&fx, .tagged = true, .buf = g.data, .len = g.len, .addr = fx.addr[0], .tag = 1,
		     .ctx = &ctx);
	}
	fx_barrier(&fx);
	fx_idle(&fx, 50);
	if (t->rank == 0) {
		fx_insert(&fx, 1);
		RECV(&fx, .tagged = true, .buf = g.data, .len = g.len, .addr = fx.addr[1], .tag = 1,
		     .ctx = &ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = g.len, .tag = 1);
		GUARD_HOLDS(&g, g.len, 1);
	} else {
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	}
	guard_free(&g);
	fx_close(&fx);
}

/* Both ranks remove and insert each other's address; traffic goes on both ways. */
static void reinsert(struct test *t)
{
	int other = !t->rank;
	struct fx fx;

	fx_open(t, &fx, &directed);
	for (uint32_t round = 0; round < 10; round++) {
		run_step("round %u", round);
		if (t->rank == 0)
			send_value(&fx, 1, 1, true, round);
		CHECK(recv_value(&fx, fx.addr[other], 1, true) == round, "wrong message");
		if (t->rank == 1)
			send_value(&fx, 0, 1, true, round);
		fx_barrier(&fx);
		CHECK_OK(fi_av_remove(fx.av, &fx.addr[other], 1, 0));
		fx_barrier(&fx);
		fx_insert(&fx, other);
	}
	fx_close(&fx);
}

const struct test_case directed_cases[] = {
	{ "directed_posted", "a posted receive takes messages of its source only", posted, .ranks = 3 },
	{ "directed_unexpected", "a late receive finds its source behind others", unexpected, .ranks = 3 },
	{ "directed_with_wildcard", "directed and wildcard receives keep their order", with_wildcard, .ranks = 3 },
	{ "directed_two_streams", "each sender's order holds under a wildcard", two_streams, .ranks = 3 },
	{ "directed_not_asked", "without FI_DIRECTED_RECV the source is ignored", not_directed, .ranks = 2 },
	{ "directed_late_insert", "a message older than the AV entry is matched to it", late_insert, .ranks = 2 },
	{ "directed_late_insert_large", "so is a large one", late_insert_large, .ranks = 2 },
	{ "directed_reinsert", "remove and insert again with traffic between", reinsert, .ranks = 2 },
	{ 0 },
};
