/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion levels by every way a message can take: sends complete neither too
 * early nor too late.
 *
 * That a send has not completed is proven by order, not by waiting. Packets between
 * two endpoints, also acknowledgements, arrive in the order in which they were sent:
 *
 *   sender                                receiver
 *   message, no receive is posted  -----> kept as unexpected
 *   fence                          -----> received: so the message has arrived, and
 *                                         its acknowledgement, if any, was sent
 *   is there a completion?         <----- answer
 *   go on                          -----> posts the receive
 *   completion                     <----- matched
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/ways.h"

#include <inttypes.h>
#include <sched.h>
#include <string.h>

enum { TAG_MESSAGE = 1, TAG_FENCE, TAG_ANSWER, TAG_GO, TAG_SECOND };

static const uint64_t levels[] = { 0, FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE,
				   FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE };

enum { LEVEL_COUNT = sizeof(levels) / sizeof(levels[0]), SETTLED = 16 };

/* One message, at its sender. */
struct probe {
	const struct way *way;
	uint64_t level;
	bool by_default;	/* the level is among the endpoint's default flags */
	bool silent;		/* no completion entry: only the counter counts */
	struct guard g;
	struct fi_context2 ctx;
	uint64_t counted;	/* value of the counter before the send */
	uint64_t others;	/* other sends since */
};

/* Sends an empty message without level, for hear() at the other rank. */
static void say(struct fx *fx, struct probe *p, uint64_t tag)
{
	SEND(fx, .call = CALL_MSG, .tagged = true, .addr = fx->peer, .tag = tag, .ctx = p);
	p->others++;
}

static void hear(struct fx *fx, uint64_t tag)
{
	struct fi_context2 ctx;

	RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = tag, .ctx = &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .tag = tag);
}

static void set_default(struct fx *fx, uint64_t level)
{
	uint64_t flags = FI_TRANSMIT | level;

	CHECK_OK(fi_control(&fx->ep->fid, FI_SETOPSFLAG, &flags));
}

/* With by_default the level comes from the default flags and the call has none. */
static void send_message(struct fx *fx, struct probe *p)
{
	bool inject = p->way->flags & FI_INJECT;
	enum msg_call call = CALL_MSG;

	pattern_fill(p->g.data, p->g.len, p->level);
	if (p->by_default) {
		set_default(fx, p->level);
		call = inject ? CALL_INJECT : CALL_BUF;
	}
	SEND(fx, .call = call, .tagged = true, .buf = p->g.data, .len = p->g.len,
	     .addr = fx->peer, .tag = TAG_MESSAGE,
	     .flags = p->way->flags | p->level | (p->silent ? 0 : FI_COMPLETION),
	     .ctx = &p->ctx);
	if (inject)
		guard_wipe(&p->g);
	if (p->way->batched)
		say(fx, p, TAG_SECOND);
}

/* Whether the send completes before its match. 1: yes, 0: no, -1: both are allowed. */
static int comes_early(const struct probe *p)
{
	if (!p->way->announced)
		return p->level != FI_MATCH_COMPLETE;
	if (p->way->flags & FI_INJECT && !(p->level & ~FI_INJECT_COMPLETE))
		return -1;
	return 0;
}

/* Reads completions until the probe's own; false if it has not come yet. */
static bool poll_own(struct fx *fx, struct probe *p)
{
	struct comp c;

	while (comp_poll(fx, FX_TX, &c)) {
		CHECK(!p->silent, "a silent send has an entry");
		CHECK(!c.err, "a send fails: err %d", c.err);
		if (c.ctx == &p->ctx)
			return true;
		CHECK(c.ctx == p, "an entry with foreign context");
	}
	return false;
}

static uint64_t count_own(struct fx *fx, const struct probe *p)
{
	uint64_t now = fi_cntr_read(fx->cntr[FX_TX]) - p->counted;

	return now > p->others ? now - p->others : 0;
}

/* Whether the send has a completion entry: fi_inject has none. */
static bool has_entry(const struct probe *p)
{
	return !p->silent && !(p->by_default && p->way->flags & FI_INJECT);
}

static void await(struct fx *fx, struct probe *p)
{
	while (has_entry(p) && !poll_own(fx, p)) {
		fx_progress(fx);
		FX_CHECK_MOVES(fx, "no completion");
		sched_yield();
	}
	while (count_own(fx, p) < 1) {
		FX_CHECK_MOVES(fx, "the counter has not moved");
		sched_yield();
	}
}

/* At the sender, after the answer. */
static void check_before_match(struct fx *fx, struct probe *p)
{
	/* With --self, acknowledgements may arrive after the answer. */
	for (int i = 0; i < SETTLED; i++)
		fx_progress(fx);
	if (comes_early(p) == 1) {
		await(fx, p);
	} else if (!comes_early(p)) {
		CHECK(!poll_own(fx, p), "completed before it matched");
		CHECK(!count_own(fx, p), "counted before it matched");
	}
}

static void check_after_match(struct fx *fx, struct probe *p)
{
	if (comes_early(p) != 1)
		await(fx, p);
	for (int i = 0; i < SETTLED; i++)
		fx_progress(fx);
	CHECK(!poll_own(fx, p), "completed twice");
	CHECK(count_own(fx, p) == 1, "counted %" PRIu64 " times", count_own(fx, p));
}

static void receive_message(struct fx *fx, const struct probe *p)
{
	struct guard in = guard_alloc(p->way->len);
	struct fi_context2 ctx;

	RECV(fx, .tagged = true, .buf = in.data, .len = in.len, .addr = FI_ADDR_UNSPEC,
	     .tag = TAG_MESSAGE, .ctx = &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .len = in.len,
		    .tag = TAG_MESSAGE);
	GUARD_HOLDS(&in, in.len, p->level);
	guard_free(&in);
	if (p->way->batched)
		hear(fx, TAG_SECOND);
}

static void run_probe(struct fx *fx, struct probe *p)
{
	struct fi_tagrv_proto_stats before = ways_stats(fx), after;
	size_t sent = ways_sent(fx, p->way);
	bool sends = run_sends(fx->t), receives = run_receives(fx->t);

	run_step("%s, level 0x%" PRIx64 "%s%s", p->way->name, p->level,
		 p->by_default ? ", default" : "", p->silent ? ", silent" : "");
	p->g = guard_alloc(p->way->len);
	p->counted = fi_cntr_read(fx->cntr[FX_TX]);
	p->others = 0;
	if (sends) {
		send_message(fx, p);
		say(fx, p, TAG_FENCE);
	}
	if (receives) {
		hear(fx, TAG_FENCE);
		say(fx, p, TAG_ANSWER);
	}
	if (sends) {
		hear(fx, TAG_ANSWER);
		check_before_match(fx, p);
		say(fx, p, TAG_GO);
	}
	if (receives) {
		hear(fx, TAG_GO);
		receive_message(fx, p);
	}
	if (sends) {
		check_after_match(fx, p);
		after = ways_stats(fx);
		CHECK(ways_count(&after, sent) > ways_count(&before, sent),
		      "the message took another way");
	}
	fx_barrier(fx);
	while (poll_own(fx, p))
		;
	guard_free(&p->g);
}

/* A way with FI_MORE needs calls with flags, so it has no probe by default flags. */
static void run_way(struct test *t, const struct way *way)
{
	for (int silent = 0; silent < 2; silent++) {
		struct fx_attr attr = {
			.counters = true, .tx_bind = silent ? FI_SELECTIVE_COMPLETION : 0,
		};
		struct fx fx;

		ways_open(t, &fx, way, &attr);
		for (int i = 0; i < 2 * LEVEL_COUNT; i++) {
			struct probe p = {
				.way = way, .level = levels[i / 2],
				.by_default = i & 1, .silent = silent,
			};

			if (!p.by_default || !(way->flags & FI_MORE))
				run_probe(&fx, &p);
		}
		set_default(&fx, 0);
		ways_close(&fx, way);
	}
}

static void eager(struct test *t)
{
	run_way(t, &ways[WAY_EAGER]);
}

static void batched(struct test *t)
{
	if (fx_devices_match())
		run_skip("with FI_TAGRV_HW_TAGS tagged messages do not share packets");
	run_way(t, &ways[WAY_BATCHED]);
}

static void prepared(struct test *t)
{
	run_way(t, &ways[WAY_PREPARED]);
}

static void starved(struct test *t)
{
	run_way(t, &ways[WAY_STARVED]);
}

static void injected(struct test *t)
{
	run_way(t, &ways[WAY_INJECTED]);
}

static void get(struct test *t)
{
	run_way(t, &ways[WAY_GET]);
}

static void put(struct test *t)
{
	run_way(t, &ways[WAY_PUT]);
}

static void copy(struct test *t)
{
	run_way(t, &ways[WAY_COPY]);
}

static void pipeline(struct test *t)
{
	run_way(t, &ways[WAY_PIPELINE]);
}

const struct test_case levels_cases[] = {
	{ .name = "levels_eager", .run = eager, .self = true,
	  .shows = "each level of eager messages, with completion or counted, is neither early nor late" },
	{ .name = "levels_batched", .run = batched, .self = true,
	  .shows = "the same for messages that share a packet" },
	{ .name = "levels_prepared", .run = prepared, .self = true,
	  .shows = "the same for messages that the device gathers from user memory" },
	{ .name = "levels_starved", .run = starved, .self = true,
	  .shows = "the same for messages announced because the peer has no room" },
	{ .name = "levels_injected", .run = injected, .self = true,
	  .shows = "the same for injects that wait in a copy; fi_inject has no entry, but counts" },
	{ .name = "levels_get", .run = get, .self = true,
	  .shows = "the same for messages that the receiver reads" },
	{ .name = "levels_put", .run = put, .self = true,
	  .shows = "the same for messages that the sender writes" },
	{ .name = "levels_copy", .run = copy, .self = true,
	  .shows = "the same for messages that are sent in fragments" },
	{ .name = "levels_pipeline", .run = pipeline, .self = true,
	  .shows = "the same for messages that are read in pieces" },
	{ .name = NULL },
};
