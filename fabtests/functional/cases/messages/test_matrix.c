/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Every way a message can take x contiguous or scattered x expected or not x
 * whole, truncated, empty or after a cancelled receive. Each message arrives as it
 * should, and the provider's counters on both sides show that it took this way and
 * no other.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/transfer.h"
#include "framework/ways.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_MESSAGE = 1, TAG_SECOND, SEGMENTS = 4 };

enum shape { WHOLE, CUT, EMPTY, CANCELLED, SHAPES };

struct kind {
	const struct way *way;
	size_t sent;		/* the sender's counter: see ways_sent() */
	bool scattered;
	bool unexpected;
	enum shape shape;
	size_t len, room;
};

/* One side's buffer. */
struct side {
	struct guard g;
	struct iovec iov[SEGMENTS];
	size_t count;
	struct fi_context2 ctx;
};

static const char *const shape_names[SHAPES] = { "whole", "cut", "empty", "cancelled before" };

static void side_init(struct side *s, const struct kind *k, size_t len, uint64_t seed)
{
	s->g = guard_alloc(len);
	s->count = k->scattered ? SEGMENTS : 1;
	transfer_cut(s->iov, s->count, s->g.data, len, seed);
}

/* ---- sender ---- */

static void scatter_pattern(const struct side *s, size_t len)
{
	uint8_t *flat = malloc(len + 1);
	size_t at = 0;

	CHECK(flat, "no memory");
	pattern_fill(flat, len, len);
	for (size_t i = 0; i < s->count; i++) {
		memcpy(s->iov[i].iov_base, flat + at, s->iov[i].iov_len);
		at += s->iov[i].iov_len;
	}
	free(flat);
}

/* The buffer of an inject is overwritten at once. */
static void send_message(struct fx *fx, const struct kind *k, struct side *s)
{
	side_init(s, k, k->len, 5);
	scatter_pattern(s, k->len);
	SEND(fx, .call = CALL_MSG, .tagged = true, .iov = s->iov, .iov_count = s->count,
	     .addr = fx->peer, .tag = TAG_MESSAGE, .flags = k->way->flags, .ctx = &s->ctx);
	if (k->way->flags & FI_INJECT)
		guard_wipe(&s->g);
	if (k->way->batched)
		SEND(fx, .call = CALL_INJECT, .tagged = true, .addr = fx->peer, .tag = TAG_SECOND);
}

/* ---- receiver ---- */

static void post(struct fx *fx, const struct kind *k, struct side *s)
{
	side_init(s, k, k->room, 9);
	RECV(fx, .call = CALL_IOV, .tagged = true, .iov = s->iov, .iov_count = s->count,
	     .addr = FI_ADDR_UNSPEC, .tag = TAG_MESSAGE, .ctx = &s->ctx);
}

static void post_and_cancel(struct fx *fx, const struct kind *k)
{
	struct side s;

	post(fx, k, &s);
	CHECK_OK(fi_cancel(&fx->ep->fid, &s.ctx));
	COMP_EXPECT(fx, FX_RX, .ctx = &s.ctx, .flags = FI_RECV, .err = FI_ECANCELED);
	CHECK(!guard_damage(&s.g, 0), "a cancelled receive was written to");
	guard_free(&s.g);
}

static uint64_t unexpected_now(struct fx *fx)
{
	struct fi_tagrv_ops_match *ops;
	struct fi_tagrv_match_stats now;
	size_t len = sizeof(now);
	void *found = NULL;

	CHECK_OK(fi_open_ops(&fx->ep->fid, TAGRV_EP_MATCH_OPS, 0, &found, NULL));
	ops = found;
	CHECK_OK(ops->get_stats(fx->ep, &now, &len));
	return now.unexpected;
}

static void wait_unexpected(struct fx *fx, uint64_t want)
{
	while (unexpected_now(fx) < want) {
		fx_progress(fx);
		FX_CHECK_MOVES(fx, "the message does not come");
	}
}

/* The message is the concatenation of the segments. */
static void check_content(const struct kind *k, const struct side *s)
{
	size_t got = k->len < k->room ? k->len : k->room, at = 0;
	uint8_t *want = malloc(k->len + 1);

	CHECK(want, "no memory");
	pattern_fill(want, k->len, k->len);
	for (size_t i = 0; i < s->count && at < got; i++) {
		size_t n = s->iov[i].iov_len;

		n = n < got - at ? n : got - at;
		CHECK(!memcmp(s->iov[i].iov_base, want + at, n), "wrong bytes in segment %zu", i);
		at += n;
	}
	CHECK(at == got, "%zu bytes, want %zu", at, got);
	CHECK(!guard_damage(&s->g, s->g.len), "bytes written outside the buffer");
	free(want);
}

static void finish_receive(struct fx *fx, const struct kind *k, struct side *s)
{
	bool cut = k->len > k->room;
	struct fi_context2 second;

	COMP_EXPECT(fx, FX_RX, .ctx = &s->ctx, .flags = GOT_TAGGED, .err = cut ? FI_ETRUNC : 0,
		    .len = cut ? k->room : k->len, .olen = cut ? k->len - k->room : 0,
		    .tag = TAG_MESSAGE);
	check_content(k, s);
	guard_free(&s->g);
	if (!k->way->batched)
		return;
	RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = TAG_SECOND, .ctx = &second);
	COMP_EXPECT(fx, FX_RX, .ctx = &second, .flags = GOT_TAGGED, .tag = TAG_SECOND);
}

/* ---- counters ---- */

#define AT(member) offsetof(struct fi_tagrv_proto_stats, member)

/* By how much a message of this kind increments a counter. */
static uint64_t due(const struct kind *k, size_t member)
{
	const struct way *way = k->way;
	bool mine = member == k->sent || member == way->got;
	uint64_t messages = way->batched ? 2 : 1;

	if (member == AT(eager_tx) || member == AT(eager_rx))
		return !way->announced || (!k->len && !way->starved) ? messages : 0;
	if (member == AT(announced_tx) || member == AT(announced_rx))
		return way->announced && (k->len || way->starved);
	if (member == AT(no_credit_tx))
		return way->starved;
	/* Empty messages are not copied and have no bytes to move. */
	if (way->announced)
		return mine && k->len;
	if (member == AT(prepared_tx))
		return mine && k->len;
	return mine ? messages : 0;
}

static void check_member(const struct fi_tagrv_proto_stats *before,
			 const struct fi_tagrv_proto_stats *now, const struct kind *k,
			 size_t member, const char *name)
{
	uint64_t by = ways_count(now, member) - ways_count(before, member);

	CHECK(by == due(k, member), "%s grows by %llu, not by %llu", name, (unsigned long long)by,
	      (unsigned long long)due(k, member));
}

#define CHECK_MEMBER(member) check_member(before, &now, k, AT(member), #member)

/* Messages announced for want of room may be moved by any protocol. */
static void check_moved(const struct fi_tagrv_proto_stats *before,
			const struct fi_tagrv_proto_stats *now, const struct kind *k, bool sends)
{
	static const size_t tx[] = { AT(get_tx), AT(put_tx), AT(copy_tx),
				     AT(pipeline_tx) };
	static const size_t rx[] = { AT(get_rx), AT(put_rx), AT(copy_rx),
				     AT(pipeline_rx) };
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(tx) / sizeof(tx[0]); i++) {
		size_t member = sends ? tx[i] : rx[i];

		sum += ways_count(now, member) - ways_count(before, member);
		if (!k->way->starved)
			check_member(before, now, k, member, "another protocol's counter");
	}
	CHECK(sum == (k->way->announced && k->len), "moved %llu times", (unsigned long long)sum);
}

static void check_counters(struct fx *fx, const struct fi_tagrv_proto_stats *before,
			   const struct kind *k)
{
	struct fi_tagrv_proto_stats now = ways_stats(fx);

	if (run_sends(fx->t)) {
		CHECK_MEMBER(eager_tx);
		CHECK_MEMBER(batched_tx);
		CHECK_MEMBER(prepared_tx);
		CHECK_MEMBER(announced_tx);
		CHECK_MEMBER(no_credit_tx);
		CHECK_MEMBER(buffered_tx);
		check_moved(before, &now, k, true);
	}
	if (run_receives(fx->t)) {
		CHECK_MEMBER(eager_rx);
		CHECK_MEMBER(batched_rx);
		CHECK_MEMBER(announced_rx);
		check_moved(before, &now, k, false);
	}
}

/* ---- one message, all messages ---- */

static void run_kind(struct fx *fx, const struct kind *k)
{
	bool sends = run_sends(fx->t), receives = run_receives(fx->t);
	struct fi_tagrv_proto_stats before = ways_stats(fx);
	uint64_t waiting = unexpected_now(fx);
	struct side out, in;

	run_step("%s, %s, %s, %s", k->way->name, k->scattered ? "scattered" : "contiguous",
		 k->unexpected ? "unexpected" : "expected", shape_names[k->shape]);
	if (receives && k->shape == CANCELLED)
		post_and_cancel(fx, k);
	if (receives && !k->unexpected)
		post(fx, k, &in);
	fx_barrier(fx);
	if (sends)
		send_message(fx, k, &out);
	if (receives && k->unexpected) {
		wait_unexpected(fx, waiting + (k->way->batched ? 2 : 1));
		post(fx, k, &in);
	}
	if (receives)
		finish_receive(fx, k, &in);
	if (sends) {
		COMP_EXPECT(fx, FX_TX, .ctx = &out.ctx, .flags = SENT_TAGGED);
		guard_free(&out.g);
	}
	check_counters(fx, &before, k);
	fx_barrier(fx);
}

static struct kind kind_of(const struct way *way, unsigned i)
{
	struct kind k = {
		.way = way,
		.scattered = i & 1,
		.unexpected = i & 2,
		.shape = i / 4,
		.len = i & 1 ? way->len : way->most,
	};

	if (k.shape == EMPTY)
		k.len = 0;
	k.room = k.shape == CUT ? k.len / 2 : k.len + 1;
	return k;
}

static void run_way(struct test *t, int number)
{
	static const struct fx_attr plain;
	struct fx fx;

	ways_open(t, &fx, &ways[number], &plain);
	for (unsigned i = 0; i < 4 * SHAPES; i++) {
		struct kind k = kind_of(&ways[number], i);

		k.sent = ways_sent(&fx, k.way);
		run_kind(&fx, &k);
	}
	ways_close(&fx, &ways[number]);
}

static void eager(struct test *t)
{
	run_way(t, WAY_EAGER);
}

static void batched(struct test *t)
{
	if (fx_devices_match())
		run_skip("with FI_TAGRV_HW_TAGS tagged messages do not share packets");
	run_way(t, WAY_BATCHED);
}

static void prepared(struct test *t)
{
	run_way(t, WAY_PREPARED);
}

static void starved(struct test *t)
{
	run_way(t, WAY_STARVED);
}

static void injected(struct test *t)
{
	run_way(t, WAY_INJECTED);
}

static void get(struct test *t)
{
	run_way(t, WAY_GET);
}

static void put(struct test *t)
{
	run_way(t, WAY_PUT);
}

static void copy(struct test *t)
{
	run_way(t, WAY_COPY);
}

static void pipeline(struct test *t)
{
	run_way(t, WAY_PIPELINE);
}

const struct test_case matrix_cases[] = {
	{ .name = "matrix_eager", .run = eager, .self = true,
	  .shows = "eager messages, whole, cut, empty, behind a cancel, scattered, unexpected" },
	{ .name = "matrix_batched", .run = batched, .self = true,
	  .shows = "the same of messages that share a packet" },
	{ .name = "matrix_prepared", .run = prepared, .self = true,
	  .shows = "the same of messages that the device takes from where they lie" },
	{ .name = "matrix_starved", .run = starved, .self = true,
	  .shows = "the same of small ones that the peer has no room for" },
	{ .name = "matrix_injected", .run = injected, .self = true,
	  .shows = "the same of injected ones that the peer has no room for" },
	{ .name = "matrix_get", .run = get, .self = true,
	  .shows = "the same of messages that the receiver reads" },
	{ .name = "matrix_put", .run = put, .self = true,
	  .shows = "the same of messages that the sender writes" },
	{ .name = "matrix_copy", .run = copy, .self = true,
	  .shows = "the same of messages that are copied" },
	{ .name = "matrix_pipeline", .run = pipeline, .self = true,
	  .shows = "the same of messages that are read in pieces" },
	{ .name = NULL },
};
