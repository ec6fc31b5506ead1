/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion entries of each CQ format, and the source address of a message.
 */
#include "cases/cases.h"
#include "framework/transfer.h"

#include <stdlib.h>
#include <string.h>

static void run_format(struct test *t, enum fi_cq_format format)
{
	struct fx_attr attr = { .format = format };
	struct transfer tr = { .data = 0x0123456789abcdefULL };
	struct fx fx;

	fx_open(t, &fx, &attr);
	for (int i = 0; i < 32; i++) {
		tr.id = 1 + ((uint64_t)i << 56);
		tr.tagged = i & 1;
		tr.unexpected = i & 2;
		tr.send_call = i & 4 ? CALL_DATA : CALL_BUF;
		tr.len = i & 8 ? 300000 : 33;
		if (i & 16) {
			tr.send_call = CALL_MSG;
			tr.send_flags = i & 4 ? FI_REMOTE_CQ_DATA : 0;
		}
		transfer_run(&fx, &tr);
	}
	fx_close(&fx);
}

static void context(struct test *t)
{
	run_format(t, FI_CQ_FORMAT_CONTEXT);
}

static void msg(struct test *t)
{
	run_format(t, FI_CQ_FORMAT_MSG);
}

static void data(struct test *t)
{
	run_format(t, FI_CQ_FORMAT_DATA);
}

static void tagged(struct test *t)
{
	run_format(t, FI_CQ_FORMAT_TAGGED);
}

/* The completion has the sender's tag, also in bits that the receive ignores. */
static void tag_of_sender(struct test *t)
{
	static const uint64_t tags[] = { 0, 1, 0x80000000ULL, 0x8000000000000000ULL, ~0ULL };
	struct fi_context2 tx, rx;
	struct fx fx;

	fx_open(t, &fx, &(struct fx_attr){ 0 });
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		run_step("tag 0x%llx", (unsigned long long)tags[i]);
		if (run_receives(t))
			RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = ~tags[i],
			     .ignore = ~0ULL, .ctx = &rx);
		fx_barrier(&fx);
		if (run_sends(t)) {
			SEND(&fx, .tagged = true, .addr = fx.peer, .tag = tags[i], .ctx = &tx);
			COMP_EXPECT(&fx, FX_TX, .ctx = &tx, .flags = SENT_TAGGED);
		}
		if (run_receives(t))
			COMP_EXPECT(&fx, FX_RX, .ctx = &rx, .flags = GOT_TAGGED, .tag = tags[i]);
	}
	fx_close(&fx);
}

static void send_three(struct fx *fx)
{
	struct fi_context2 ctx;

	for (int i = 0; i < 3; i++) {
		SEND(fx, .tagged = i & 1, .buf = (char[1]){ 0 }, .len = 1, .addr = fx->addr[0],
		     .tag = 1, .ctx = &ctx);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = i & 1 ? SENT_TAGGED : SENT_MSG);
	}
}

static void receive_from(struct fx *fx, fi_addr_t from)
{
	struct comp c;
	char byte;

	for (int i = 0; i < 3; i++) {
		RECV(fx, .tagged = i & 1, .buf = &byte, .len = 1, .addr = FI_ADDR_UNSPEC, .tag = 1);
		COMP_WAIT(fx, FX_RX, &c);
		CHECK(!c.err, "completion with error %d", c.err);
		CHECK(c.src == from, "source %llu, want %llu", (unsigned long long)c.src,
		      (unsigned long long)from);
	}
}

/* Ranks 1 and 2 send in turn; fi_cq_readfrom tells rank 0 the sender. */
static void source(struct test *t)
{
	struct fx_attr attr = { .caps = FI_MSG | FI_TAGGED | FI_SOURCE };
	struct fx fx;

	fx_open_or_skip(t, &fx, &attr, "FI_SOURCE");
	for (int from = 1; from <= 2; from++) {
		run_step("rank %d sends", from);
		fx_barrier(&fx);
		if (t->rank == from)
			send_three(&fx);
		if (t->rank == 0)
			receive_from(&fx, fx.addr[from]);
	}
	fx_close(&fx);
}

static void source_unknown(struct test *t)
{
	struct fx_attr attr = { .caps = FI_MSG | FI_TAGGED | FI_SOURCE, .stranger = true };
	struct fx fx;

	fx_open_or_skip(t, &fx, &attr, "FI_SOURCE");
	if (t->rank == 1) {
		fx_insert(&fx, 0);
		send_three(&fx);
	} else {
		receive_from(&fx, FI_ADDR_NOTAVAIL);
		fx_insert(&fx, 1);
	}
	fx_barrier(&fx);
	if (t->rank == 1)
		send_three(&fx);
	else
		receive_from(&fx, fx.addr[1]);
	fx_close(&fx);
}

const struct test_case format_cases[] = {
	{ "format_context", "entries of FI_CQ_FORMAT_CONTEXT", context, .self = true },
	{ "format_msg", "entries of FI_CQ_FORMAT_MSG", msg, .self = true },
	{ "format_data", "entries of FI_CQ_FORMAT_DATA", data, .self = true },
	{ "format_tagged", "entries of FI_CQ_FORMAT_TAGGED", tagged, .self = true },
	{ "format_tag_of_sender", "all 64 tag bits are reported as sent", tag_of_sender, .self = true },
	{ "format_source", "fi_cq_readfrom names the sender", source, .ranks = 3 },
	{ "format_source_unknown", "a sender not in the AV is FI_ADDR_NOTAVAIL until inserted",
	  source_unknown, .ranks = 2 },
	{ 0 },
};
