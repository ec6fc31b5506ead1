/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Soak test: two processes send each other thousands of random messages at once.
 *
 * Each direction follows a plan (plan.h). Sends and receives are posted in the
 * order of the plan but at random moments, in moods that let one side run ahead
 * for a while, so that messages are expected as well as unexpected. Every completion
 * is compared with the plan: message, tag, length, data, content; exactly once.
 */
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/options.h"
#include "framework/pattern.h"
#include "framework/transfer.h"
#include "plan.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEND_WINDOW = 48, RECV_WINDOW = 2 * PLAN_BLOCK, MOOD_TURNS = 512 };

static uint64_t total_messages = 20000;
static uint64_t total_bytes = 1ULL << 30;
static uint64_t send_budget = 64ULL << 20;	/* bytes outstanding per sender */

/* One operation that has not ended; its context is the address of the slot. */
struct slot {
	struct fi_context2 ctx;
	bool busy;
	struct guard g;
	struct iovec iov[TRANSFER_IOV_MAX];
	size_t segments;
	struct plan_message sent;
	struct plan_receive wanted;
};

struct sender {
	struct plan plan;
	struct slot slot[SEND_WINDOW];
	struct slot *ready;	/* prepared, not yet accepted by the provider */
	uint64_t next;		/* message to send */
	uint64_t done;
	uint64_t outstanding;	/* bytes */
};

struct receiver {
	struct plan plan;
	struct slot slot[RECV_WINDOW];
	struct slot *ready;
	struct plan_receive block[PLAN_BLOCK];
	uint64_t posted;
	uint64_t done;
	uint64_t bytes;
	uint8_t *seen;
};

struct soak {
	struct fx fx;
	struct sender out;
	struct receiver in;
	uint64_t random;
	unsigned int send_mood;	/* of 8 turns, how many try to send */
	unsigned int recv_mood;
	size_t iov_limit;
	int64_t started;
	int64_t reported;
};

static struct slot *free_slot(struct slot *slot, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!slot[i].busy)
			return &slot[i];
	return NULL;
}

static size_t draw_segments(struct soak *s, enum msg_call call)
{
	if (call != CALL_IOV && call != CALL_MSG)
		return 1;
	return 1 + pattern_next(&s->random) % s->iov_limit;
}

static void prepare(struct soak *s, struct slot *slot, size_t len, enum msg_call call)
{
	slot->g = guard_alloc(len);
	slot->busy = true;
	slot->segments = draw_segments(s, call);
	transfer_cut(slot->iov, slot->segments, slot->g.data, len, s->random);
}

static void release(struct slot *slot)
{
	guard_wipe(&slot->g);
	guard_free(&slot->g);
	slot->busy = false;
}

/* Segments are in reverse order of addresses; the message is their concatenation. */
static void fill(struct slot *slot, uint64_t seed)
{
	uint8_t *flat = malloc(slot->g.len + 1);
	size_t at = 0;

	CHECK(flat, "no memory");
	pattern_fill(flat, slot->g.len, seed);
	for (size_t i = 0; i < slot->segments; i++) {
		memcpy(slot->iov[i].iov_base, flat + at, slot->iov[i].iov_len);
		at += slot->iov[i].iov_len;
	}
	free(flat);
}

static struct slot *prepare_send(struct soak *s)
{
	struct sender *out = &s->out;
	struct slot *slot = free_slot(out->slot, SEND_WINDOW);

	if (!slot || out->next == out->plan.count)
		return NULL;
	plan_message(&out->plan, out->next, &slot->sent);
	if (out->outstanding && out->outstanding + slot->sent.len > send_budget)
		return NULL;
	prepare(s, slot, slot->sent.len, slot->sent.call);
	fill(slot, plan_content(&out->plan, out->next));
	out->next++;
	return slot;
}

static ssize_t start_send(struct soak *s, struct slot *slot)
{
	const struct plan_message *m = &slot->sent;
	bool vector = m->call == CALL_IOV || m->call == CALL_MSG;

	return TRY_SEND(&s->fx, .call = m->call, .tagged = m->tagged, .buf = slot->g.data,
			.len = m->len, .iov = vector ? slot->iov : NULL,
			.iov_count = slot->segments, .addr = s->fx.peer, .tag = m->tag,
			.data = m->data, .flags = m->flags, .ctx = slot);
}

/* The provider has accepted the send; injects end with that. */
static void account_send(struct sender *out, struct slot *slot)
{
	if (!msg_completes(slot->sent.call)) {
		out->done++;
		release(slot);
		return;
	}
	out->outstanding += slot->sent.len;
	if (slot->sent.call == CALL_MSG && slot->sent.flags & FI_INJECT)
		guard_wipe(&slot->g);
}

static void try_send(struct soak *s)
{
	struct sender *out = &s->out;
	ssize_t ret;

	if (!out->ready)
		out->ready = prepare_send(s);
	if (!out->ready)
		return;
	ret = start_send(s, out->ready);
	if (ret == -FI_EAGAIN)
		return;
	CHECK(!ret, "send of %zu bytes (%s): %zd (%s)", out->ready->sent.len,
	      msg_call_name(out->ready->sent.call), ret, fi_strerror((int)-ret));
	account_send(out, out->ready);
	out->ready = NULL;
}

static void finish_send(struct soak *s, const struct comp *c)
{
	struct sender *out = &s->out;
	struct slot *slot = c->ctx;

	CHECK(slot >= out->slot && slot < out->slot + SEND_WINDOW && slot->busy,
	      "a send completed that is not under way");
	COMP_SAME(&s->fx, c, .ctx = slot, .flags = slot->sent.tagged ? SENT_TAGGED : SENT_MSG);
	out->outstanding -= slot->sent.len;
	out->done++;
	release(slot);
}

/* The buffer is exact for vectors, and a little longer than needed otherwise. */
static struct slot *prepare_recv(struct soak *s)
{
	struct receiver *in = &s->in;
	struct slot *slot = free_slot(in->slot, RECV_WINDOW);
	size_t room;

	if (!slot || in->posted == in->plan.count)
		return NULL;
	if (in->posted % PLAN_BLOCK == 0)
		plan_receives(&in->plan, in->posted / PLAN_BLOCK, in->block);
	slot->wanted = in->block[in->posted % PLAN_BLOCK];
	room = slot->wanted.message.len;
	if (slot->wanted.call == CALL_BUF)
		room += pattern_next(&s->random) % 64;
	prepare(s, slot, room, slot->wanted.call);
	in->posted++;
	return slot;
}

static void try_recv(struct soak *s)
{
	struct receiver *in = &s->in;
	const struct plan_receive *r;
	ssize_t ret;

	if (!in->ready)
		in->ready = prepare_recv(s);
	if (!in->ready)
		return;
	r = &in->ready->wanted;
	ret = TRY_RECV(&s->fx, .call = r->call, .tagged = r->tagged, .buf = in->ready->g.data,
		       .len = in->ready->g.len, .iov = r->call == CALL_BUF ? NULL : in->ready->iov,
		       .iov_count = in->ready->segments, .addr = FI_ADDR_UNSPEC, .tag = r->tag,
		       .ignore = r->ignore, .ctx = in->ready);
	if (ret == -FI_EAGAIN)
		return;
	CHECK(!ret, "receive of %zu bytes: %zd (%s)", in->ready->g.len, ret,
	      fi_strerror((int)-ret));
	in->ready = NULL;
}

static void check_content(const struct slot *slot, uint64_t seed)
{
	size_t len = slot->wanted.message.len, at = 0;
	uint8_t *flat;

	if (slot->wanted.call == CALL_BUF) {
		GUARD_HOLDS(&slot->g, len, seed);
		return;
	}
	flat = malloc(len + 1);
	CHECK(flat, "no memory");
	for (size_t i = 0; at < len; i++) {
		memcpy(flat + at, slot->iov[i].iov_base, slot->iov[i].iov_len);
		at += slot->iov[i].iov_len;
	}
	CHECK(pattern_check(flat, len, seed) == len, "wrong content in %zu bytes", len);
	CHECK(!guard_damage(&slot->g, slot->g.len), "bytes written outside the buffer");
	free(flat);
}

static void finish_recv(struct soak *s, const struct comp *c)
{
	struct receiver *in = &s->in;
	struct slot *slot = c->ctx;
	const struct plan_message *m;
	uint64_t flags;

	CHECK(slot >= in->slot && slot < in->slot + RECV_WINDOW && slot->busy,
	      "a receive completed that is not posted");
	m = &slot->wanted.message;
	run_step("message %" PRIu64 ", %zu bytes", m->id, m->len);
	flags = (m->tagged ? GOT_TAGGED : GOT_MSG) | (plan_has_data(m) ? FI_REMOTE_CQ_DATA : 0);
	COMP_SAME(&s->fx, c, .ctx = slot, .flags = flags, .len = m->len, .tag = m->tag,
		  .data = m->data);
	CHECK(!in->seen[m->id]++, "message %" PRIu64 " arrived twice", m->id);
	check_content(slot, plan_content(&in->plan, m->id));
	in->bytes += m->len;
	in->done++;
	release(slot);
}

static bool poll_all(struct soak *s)
{
	struct comp c;
	bool any = false;

	while (comp_poll(&s->fx, FX_TX, &c)) {
		finish_send(s, &c);
		any = true;
	}
	while (comp_poll(&s->fx, FX_RX, &c)) {
		finish_recv(s, &c);
		any = true;
	}
	return any;
}

static void report(struct soak *s)
{
	int64_t now = run_now();

	if (s->fx.t->rank || now - s->reported < 1000)
		return;
	s->reported = now;
	printf("%3d s: sent %" PRIu64 ", received %" PRIu64 " of %" PRIu64 ", %" PRIu64
	       " MiB received\n",
	       (int)((now - s->started) / 1000), s->out.done, s->in.done, s->in.plan.count,
	       s->in.bytes >> 20);
}

/* Returns the oldest message that has not ended; one function for each direction. */
static const struct plan_message *oldest_send(const struct soak *s)
{
	const struct plan_message *m = NULL;

	for (int i = 0; i < SEND_WINDOW; i++)
		if (s->out.slot[i].busy && (!m || s->out.slot[i].sent.id < m->id))
			m = &s->out.slot[i].sent;
	return m;
}

static const struct plan_message *oldest_receive(const struct soak *s)
{
	const struct plan_message *m = NULL;

	for (int i = 0; i < RECV_WINDOW; i++)
		if (s->in.slot[i].busy && (!m || s->in.slot[i].wanted.message.id < m->id))
			m = &s->in.slot[i].wanted.message;
	return m;
}

static _Noreturn void give_up(const struct soak *s)
{
	static const struct plan_message none = { .id = UINT64_MAX };
	const struct plan_message *out = oldest_send(s), *in = oldest_receive(s);

	if (!out)
		out = &none;
	if (!in)
		in = &none;
	run_fail(__FILE__, __LINE__,
		 "of %" PRIu64 " sent %" PRIu64 ", received %" PRIu64 ", posted %" PRIu64
		 "; oldest send %" PRId64 " (%zu bytes, %s, flags 0x%" PRIx64 ")%s"
		 ", oldest receive %" PRId64 " (%zu bytes, %s, flags 0x%" PRIx64 ")%s",
		 s->in.plan.count, s->out.done, s->in.done, s->in.posted, (int64_t)out->id,
		 out->len, msg_call_name(out->call), out->flags, s->out.ready ? " not taken" : "",
		 (int64_t)in->id, in->len, msg_call_name(in->call), in->flags,
		 s->in.ready ? " not taken" : "");
}

static void turn(struct soak *s, uint64_t turns)
{
	uint64_t r = pattern_next(&s->random);

	if (turns % MOOD_TURNS == 0) {
		s->send_mood = r >> 8 & 15;
		s->recv_mood = r >> 16 & 15;
	}
	if ((r & 7) < s->send_mood)
		try_send(s);
	if ((r >> 3 & 7) < s->recv_mood)
		try_recv(s);
	if (!poll_all(s))
		sched_yield();
	report(s);
	fx_look(&s->fx);
	if (run_is_given_up())
		give_up(s);
}

static bool has_match_complete(struct test *t)
{
	struct fx_attr attr = { .tx_flags = FI_MATCH_COMPLETE };
	struct fi_info *info;

	if (fx_try_info(t, &attr, &info))
		return false;
	fi_freeinfo(info);
	return true;
}

/* Messages of one direction: whole blocks, so a few more than asked for. */
static uint64_t count_messages(bool self)
{
	uint64_t n = self ? total_messages : total_messages / 2;

	return n < PLAN_BLOCK ? PLAN_BLOCK : (n + PLAN_BLOCK - 1) / PLAN_BLOCK * PLAN_BLOCK;
}

static void make_plan(struct plan *plan, const struct soak *s, int direction, bool match)
{
	bool self = s->fx.t->ranks == 1;

	plan->seed = s->fx.t->seed * 2 + (uint64_t)direction;
	plan->count = count_messages(self);
	plan->bytes = self ? total_bytes : total_bytes / 2;
	plan->inject_size = s->fx.info->tx_attr->inject_size;
	plan->deny_match = !match;
}

static void soak(struct test *t)
{
	struct soak *s = calloc(1, sizeof(*s));
	bool match = has_match_complete(t);

	CHECK(s, "no memory");
	fx_open(t, &s->fx, &(struct fx_attr){ .cq_size = 100 });
	make_plan(&s->out.plan, s, t->rank, match);
	make_plan(&s->in.plan, s, t->ranks == 1 ? t->rank : !t->rank, match);
	s->in.seen = calloc(s->in.plan.count, 1);
	CHECK(s->in.seen, "no memory");
	s->iov_limit = transfer_iov_limit(&s->fx);
	s->random = t->seed + 77 * (uint64_t)t->rank;
	s->started = s->reported = run_now();
	for (uint64_t n = 0; s->out.done < s->out.plan.count || s->in.done < s->in.plan.count; n++)
		turn(s, n);
	report(s);
	run_step("all done");
	fx_close(&s->fx);
	free(s->in.seen);
	free(s);
}

int main(int argc, char **argv)
{
	static const struct test_case test_case = {
		.name = "soak", .shows = "random traffic in both directions", .run = soak,
		.ranks = 2, .self = true,
	};
	struct option_number own[] = {
		{ "messages", "messages in all, both directions together", &total_messages },
		{ "bytes", "bytes in all, about", &total_bytes },
		{ "send-budget", "bytes outstanding per sender", &send_budget },
	};
	struct run_result result;
	struct options opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, sizeof(own) / sizeof(own[0]));
	options_default_timeout(&opt, 1800);
	printf("seed %" PRIu64 ", %" PRIu64 " messages, about %" PRIu64 " MiB\n", opt.run.seed,
	       total_messages, total_bytes >> 20);
	run_case(&test_case, &opt.run, &result);
	if (result.outcome != RUN_PASSED) {
		printf("FAIL soak: %s\n", result.why);
		return EXIT_FAILURE;
	}
	printf("%" PRIu64 " messages ok\n", count_messages(opt.run.self) * (opt.run.self ? 1 : 2));
	return EXIT_SUCCESS;
}
