/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Large messages by every protocol, with the same setting on both sides or not.
 */
#include "cases/cases.h"
#include "framework/pattern.h"
#include "framework/transfer.h"

#include <stdlib.h>

static const size_t lens[] = { 8193, 20000, 100000, (1 << 20) + 1, 5 << 20 };
static const uint64_t levels[] = { 0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
				   FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE };

enum {
	LEN_COUNT = sizeof(lens) / sizeof(lens[0]),
	LEVEL_COUNT = sizeof(levels) / sizeof(levels[0]),
};

static const struct fx_attr plain;

/* A receive of half the message's length, then a message that fits. */
static void run_cut(struct fx *fx, size_t len, uint64_t tag)
{
	struct guard out = guard_alloc(len), in = guard_alloc(len / 2);
	struct fi_context2 tx, rx;

	run_step("%zu bytes into a receive of half the length", len);
	pattern_fill(out.data, len, tag);
	if (run_receives(fx->t))
		RECV(fx, .tagged = true, .buf = in.data, .len = in.len, .addr = FI_ADDR_UNSPEC,
		     .tag = tag, .ctx = &rx);
	if (run_sends(fx->t))
		SEND(fx, .tagged = true, .buf = out.data, .len = len, .addr = fx->peer, .tag = tag,
		     .ctx = &tx);
	if (run_receives(fx->t)) {
		COMP_EXPECT(fx, FX_RX, .ctx = &rx, .flags = GOT_TAGGED, .err = FI_ETRUNC,
			    .len = in.len, .olen = len - in.len, .tag = tag);
		GUARD_HOLDS(&in, in.len, tag);
	}
	if (run_sends(fx->t))
		COMP_EXPECT(fx, FX_TX, .ctx = &tx, .flags = SENT_TAGGED);
	guard_free(&out);
	guard_free(&in);
}

/*
 * Transfers of the first 'cnt' lengths: each expected and unexpected, with each
 * level. The longest message takes seconds over a software device; it is sent twice
 * only, expected with the first level and unexpected with the last.
 */
static void run_lens(struct fx *fx, unsigned cnt)
{
	const unsigned combinations = LEVEL_COUNT * 2;
	size_t limit = transfer_iov_limit(fx);

	for (unsigned i = 0; i < cnt * combinations; i++) {
		struct transfer tr = {
			.id = i + 1,
			.len = lens[i % cnt],
			.send_call = CALL_MSG,
			.recv_call = CALL_IOV,
			.send_segments = 1 + i % limit,
			.recv_segments = 1 + i / 2 % limit,
			.send_flags = FI_COMPLETION | levels[i / cnt % LEVEL_COUNT],
			.tagged = true,
			.unexpected = i / cnt / LEVEL_COUNT,
		};

		if (i % cnt < LEN_COUNT - 1 || i / cnt % (combinations - 1) == 0)
			transfer_run(fx, &tr);
	}
	for (unsigned i = 0; i < cnt; i++)
		run_cut(fx, lens[i], 1000 + i);
}

/* Sets the parameter before the domain is opened, which reads it. */
static void run_some(struct test *t, const char *sender, const char *receiver, unsigned cnt)
{
	struct fx fx;

	setenv("FI_TAGRV_RNDV", run_sends(t) ? sender : receiver, 1);
	fx_open(t, &fx, &plain);
	run_lens(&fx, cnt);
	fx_close(&fx);
}

static void run_asking(struct test *t, const char *sender, const char *receiver)
{
	run_some(t, sender, receiver, LEN_COUNT);
}

static void get(struct test *t)
{
	run_asking(t, "get", "get");
}

static void put(struct test *t)
{
	run_asking(t, "put", "put");
}

static void copy(struct test *t)
{
	run_asking(t, "copy", "copy");
}

static void pipeline(struct test *t)
{
	run_asking(t, "pipeline", "pipeline");
}

/*
 * Many pieces in flight, and a long tail. 257 pieces are four times as many as may
 * be in flight. The 1280 pieces of the longest message would show nothing more, and
 * take too long over a software device of a busy host.
 */
static void pipeline_of_small_pieces(struct test *t)
{
	setenv("FI_TAGRV_READ_SEGMENT", "4096", 1);
	setenv("FI_TAGRV_READ_DEPTH", "64", 1);
	setenv("FI_TAGRV_COPY_DEPTH", "1", 1);
	run_some(t, "pipeline", "pipeline", LEN_COUNT - 1);
}

static void pipeline_instead(struct test *t)
{
	run_asking(t, "get", "pipeline");
}

static void pipeline_of_copies(struct test *t)
{
	run_asking(t, "copy", "pipeline");
}

static void get_of_pieces(struct test *t)
{
	run_asking(t, "pipeline", "get");
}

static void put_for_pieces(struct test *t)
{
	run_asking(t, "pipeline", "put");
}

static void copies_for_pieces(struct test *t)
{
	run_asking(t, "pipeline", "copy");
}

static void get_of_nothing(struct test *t)
{
	run_asking(t, "copy", "get");
}

static void put_instead(struct test *t)
{
	run_asking(t, "copy", "put");
}

static void copy_instead(struct test *t)
{
	run_asking(t, "put", "copy");
}

static void sender_decides(struct test *t)
{
	run_asking(t, "put", "auto");
}

const struct test_case rndv_cases[] = {
	{ .name = "rndv_get", .run = get, .self = true,
	  .shows = "large messages are read by the receiver" },
	{ .name = "rndv_put", .run = put, .self = true,
	  .shows = "large messages are written by the sender" },
	{ .name = "rndv_copy", .run = copy, .self = true,
	  .shows = "large messages are copied" },
	{ .name = "rndv_pipeline", .run = pipeline, .self = true,
	  .shows = "large messages are read in pieces" },
	{ .name = "rndv_pipeline_small", .run = pipeline_of_small_pieces, .self = true, .slow = 2,
	  .shows = "many small pieces, a tail of one packet" },
	{ .name = "rndv_pipeline_instead", .run = pipeline_instead,
	  .shows = "the receiver wants pieces, the sender offers all at once" },
	{ .name = "rndv_pipeline_of_copies", .run = pipeline_of_copies,
	  .shows = "the receiver wants pieces, the sender copies" },
	{ .name = "rndv_get_of_pieces", .run = get_of_pieces,
	  .shows = "the receiver wants to read all, the sender offers pieces" },
	{ .name = "rndv_put_for_pieces", .run = put_for_pieces,
	  .shows = "the receiver wants writes, the sender offers pieces" },
	{ .name = "rndv_copies_for_pieces", .run = copies_for_pieces,
	  .shows = "the receiver wants copies, the sender offers pieces" },
	{ .name = "rndv_get_of_nothing", .run = get_of_nothing,
	  .shows = "the receiver wants to read, the sender offers nothing" },
	{ .name = "rndv_put_instead", .run = put_instead,
	  .shows = "the receiver wants writes, the sender copies" },
	{ .name = "rndv_copy_instead", .run = copy_instead,
	  .shows = "the receiver wants copies, the sender writes" },
	{ .name = "rndv_sender_decides", .run = sender_decides,
	  .shows = "the sender wants writes, the receiver anything" },
	{ .name = NULL },
};
