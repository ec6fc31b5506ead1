/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints with a shared receive context: receives posted to the context take
 * messages of all its endpoints, and complete at the endpoint of the message.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/team.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 12, LARGE = 300000 };

static const size_t lengths[] = { 8, LARGE };

static uint64_t got(bool tagged)
{
	return tagged ? GOT_TAGGED : GOT_MSG;
}

static uint64_t sent(bool tagged)
{
	return tagged ? SENT_TAGGED : SENT_MSG;
}

/* ---- matching ---- */

struct landing {
	struct guard g[COUNT];
	struct fi_context2 ctx[COUNT];
};

static void post_all(struct team *team, struct landing *l, bool tagged, size_t len)
{
	for (int i = 0; i < COUNT; i++) {
		l->g[i] = guard_alloc(len);
		RECV(&team->fx[0], .tagged = tagged, .buf = l->g[i].data, .len = len,
		     .addr = FI_ADDR_UNSPEC, .tag = 7, .ctx = &l->ctx[i]);
	}
}

/* One message at a time: the receives are taken in the order of posting. */
static void play_posted(struct team *team, bool tagged, size_t len)
{
	struct test *t = team->t;
	struct guard out = guard_alloc(len);
	struct fi_context2 ctx;
	struct landing l;

	if (run_receives(t))
		post_all(team, &l, tagged, len);
	fx_barrier(&team->fx[0]);
	for (int i = 0; i < COUNT; i++) {
		struct fx *fx = &team->fx[team_way(i)];

		run_step("message %d of %zu bytes%s", i, len, tagged ? ", tagged" : "");
		pattern_fill(out.data, len, (uint64_t)i);
		if (run_sends(t))
			SEND(fx, .tagged = tagged, .buf = out.data, .len = len, .addr = fx->peer,
			     .tag = 7, .ctx = &ctx);
		if (run_receives(t)) {
			COMP_EXPECT(fx, FX_RX, .ctx = &l.ctx[i], .flags = got(tagged), .len = len,
				    .tag = 7);
			GUARD_HOLDS(&l.g[i], len, (uint64_t)i);
			guard_free(&l.g[i]);
		}
		if (run_sends(t))
			COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = sent(tagged));
		fx_barrier(&team->fx[0]);
	}
	guard_free(&out);
}

static void posted(struct test *t)
{
	static struct team team;

	team_open(t, &team, &(struct fx_attr){ 0 });
	for (int tagged = 0; tagged < 2; tagged++)
		for (int i = 0; i < 2; i++)
			play_posted(&team, tagged, lengths[i]);
	team_close(&team);
}

/* Waits for each send to complete, so that the messages arrive in this order. */
static void send_kept(struct team *team, bool tagged)
{
	struct fi_context2 ctx;

	for (uint32_t i = 0; i < COUNT; i++) {
		struct fx *fx = &team->fx[team_way((int)i)];

		SEND(fx, .tagged = tagged, .buf = &i, .len = 4, .addr = fx->peer, .tag = 7,
		     .ctx = &ctx);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = sent(tagged));
	}
}

static void unexpected(struct test *t)
{
	static struct team team;

	team_open(t, &team, &(struct fx_attr){ .tx_flags = FI_DELIVERY_COMPLETE });
	for (int tagged = 0; tagged < 2; tagged++) {
		if (run_sends(t))
			send_kept(&team, tagged);
		fx_barrier(&team.fx[0]);
		for (int i = 0; i < COUNT && run_receives(t); i++) {
			struct fi_context2 ctx;
			uint32_t in;

			RECV(&team.fx[0], .tagged = tagged, .buf = &in, .len = 4,
			     .addr = FI_ADDR_UNSPEC, .tag = 7, .ctx = &ctx);
			COMP_EXPECT(&team.fx[team_way(i)], FX_RX, .ctx = &ctx, .flags = got(tagged),
				    .len = 4, .tag = 7);
			CHECK((int)in == i, "message %u came as number %d", in, i);
		}
		fx_barrier(&team.fx[0]);
	}
	team_close(&team);
}

/* From endpoint 'from' of rank 0 to endpoint 'to' of rank 1. */
static void cross(struct team *team, int from, int to, uint32_t value)
{
	struct fx *fx = &team->fx[from];
	struct fi_context2 ctx;

	SEND(fx, .tagged = true, .buf = &value, .len = 4, .addr = team->fx[to].addr[1], .tag = 3,
	     .ctx = &ctx);
	COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
}

/* Messages of one source use another endpoint each time. */
static void send_crossed(struct team *team)
{
	for (int i = 0; i < TEAM_EPS * TEAM_EPS; i++)
		cross(team, i % TEAM_EPS, (i + i / TEAM_EPS) % TEAM_EPS, (uint32_t)i);
}

static void post_directed(struct team *team, uint32_t *in, struct fi_context2 *ctx)
{
	for (int i = 0; i < TEAM_EPS * TEAM_EPS; i++)
		RECV(&team->fx[0], .tagged = true, .buf = &in[i], .len = 4,
		     .addr = team->fx[i / TEAM_EPS].addr[0], .tag = 3, .ctx = &ctx[i]);
}

/* Receives from i * TEAM_EPS on are directed at source i and have its messages. */
static void check_directed(struct team *team, const uint32_t *in, struct fi_context2 *ctx)
{
	uint32_t seen = 0;

	for (int done = 0; done < TEAM_EPS * TEAM_EPS;) {
		struct comp c;

		for (int e = 0; e < TEAM_EPS; e++) {
			if (!comp_poll(&team->fx[e], FX_RX, &c))
				continue;
			CHECK(!c.err, "receive failed with error %d", c.err);
			seen |= 1u << ((struct fi_context2 *)c.ctx - ctx);
			done++;
		}
		FX_CHECK_MOVES(&team->fx[0], "%d of %d messages came", done, TEAM_EPS * TEAM_EPS);
	}
	CHECK(seen == (1u << TEAM_EPS * TEAM_EPS) - 1, "receives 0x%x completed", seen);
	for (int i = 0; i < TEAM_EPS * TEAM_EPS; i++)
		CHECK(in[i] % TEAM_EPS == (uint32_t)i / TEAM_EPS, "receive %d of source %d has message %u", i,
		      i / TEAM_EPS, in[i]);
}

static void directed(struct test *t)
{
	static struct fi_context2 ctx[TEAM_EPS * TEAM_EPS];
	static uint32_t in[TEAM_EPS * TEAM_EPS];
	static struct team team;

	team_open(t, &team, &(struct fx_attr){ .caps = FI_MSG | FI_TAGGED | FI_DIRECTED_RECV });
	for (int early = 0; early < 2; early++) {
		run_step("%s", early ? "unexpected" : "posted");
		if (t->rank == 1 && !early)
			post_directed(&team, in, ctx);
		fx_barrier(&team.fx[0]);
		if (t->rank == 0)
			send_crossed(&team);
		fx_barrier(&team.fx[0]);
		if (t->rank == 1 && early)
			post_directed(&team, in, ctx);
		if (t->rank == 1)
			check_directed(&team, in, ctx);
		fx_barrier(&team.fx[0]);
	}
	team_close(&team);
}

static void truncated(struct test *t)
{
	struct guard in = guard_alloc(100), out = guard_alloc(LARGE);
	static const size_t sizes[] = { 1000, LARGE };
	static struct team team;
	struct fi_context2 ctx[2];

	team_open(t, &team, &(struct fx_attr){ 0 });
	for (int i = 0; i < 2 * TEAM_EPS; i++) {
		struct fx *fx = &team.fx[team_way(i)];
		size_t len = sizes[i % 2];

		pattern_fill(out.data, len, 1);
		guard_wipe(&in);
		if (run_receives(t))
			RECV(fx, .tagged = true, .buf = in.data, .len = 100, .addr = FI_ADDR_UNSPEC,
			     .tag = 1, .ctx = &ctx[0]);
		fx_barrier(fx);
		if (run_sends(t))
			SEND(fx, .tagged = true, .buf = out.data, .len = len, .addr = fx->peer,
			     .tag = 1, .ctx = &ctx[1]);
		if (run_receives(t)) {
			COMP_EXPECT(fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .len = 100,
				    .olen = len - 100, .tag = 1, .err = FI_ETRUNC);
			GUARD_HOLDS(&in, 100, 1);
		}
		if (run_sends(t))
			COMP_EXPECT(fx, FX_TX, .ctx = &ctx[1], .flags = SENT_TAGGED);
		fx_barrier(fx);
	}
	guard_free(&in);
	guard_free(&out);
	team_close(&team);
}

/* ---- random messages ---- */

enum { MESSAGES = 400, TAGS = 4 };

struct plan {
	int e;
	bool tagged;
	uint64_t tag;
	size_t len;		/* at least room for the number of the message */
};

static void make_plan(const struct test *t, struct plan *plan)
{
	uint64_t state = t->seed;

	for (int i = 0; i < MESSAGES; i++) {
		uint64_t r = pattern_next(&state);

		plan[i].e = (int)(r % TEAM_EPS);
		plan[i].tagged = r >> 8 & 3;
		plan[i].tag = plan[i].tagged ? r >> 16 & (TAGS - 1) : 0;
		plan[i].len = 8 + (r >> 20 & 15 ? r >> 24 & 1023 : r >> 24 & 0xffff);
	}
}

static void send_plan(struct team *team, const struct plan *plan)
{
	static struct fi_context2 ctx[MESSAGES];
	static uint8_t *out[MESSAGES];

	for (uint64_t i = 0; i < MESSAGES; i++) {
		struct fx *fx = &team->fx[plan[i].e];

		out[i] = malloc(plan[i].len);
		CHECK(out[i], "no memory");
		pattern_fill(out[i], plan[i].len, i);
		memcpy(out[i], &i, sizeof(i));
		SEND(fx, .tagged = plan[i].tagged, .buf = out[i], .len = plan[i].len,
		     .addr = fx->peer, .tag = plan[i].tag, .ctx = &ctx[i]);
	}
	for (int i = 0; i < MESSAGES; i++) {
		struct comp c;

		COMP_WAIT(&team->fx[plan[i].e], FX_TX, &c);
		CHECK(!c.err, "send failed with error %d", c.err);
	}
	for (int i = 0; i < MESSAGES; i++)
		free(out[i]);
}

struct take {
	struct fi_context2 ctx;	/* first, so that a context leads to it */
	uint8_t *in;
	uint64_t id;		/* number of the received message */
};

static void take_one(const struct plan *plan, struct take *takes, int e, const struct comp *c)
{
	struct take *take = c->ctx;
	ptrdiff_t n = take - takes;
	const struct plan *of;

	CHECK(!c->err && n >= 0 && n < MESSAGES, "error %d, receive %td", c->err, n);
	memcpy(&take->id, take->in, sizeof(take->id));
	CHECK(take->id < MESSAGES, "receive %td has no message", n);
	of = &plan[take->id];
	CHECK(of->e == e, "message %" PRIu64 " came by endpoint %d", take->id, e);
	CHECK(of->len == c->len && of->tagged == plan[n].tagged && of->tag == plan[n].tag,
	      "receive %td of %zu bytes has message %" PRIu64, n, c->len, take->id);
	pattern_fill(take->in, sizeof(take->id), take->id);
	CHECK(pattern_check(take->in, c->len, take->id) == c->len, "wrong content");
}

/* Messages of one endpoint and tag are received in the order of sending. */
static void check_order(const struct plan *plan, const struct take *takes)
{
	int64_t last[TEAM_EPS][2][TAGS];

	memset(last, -1, sizeof(last));
	for (int i = 0; i < MESSAGES; i++) {
		const struct plan *of = &plan[takes[i].id];
		int64_t *before = &last[of->e][of->tagged][of->tag];

		CHECK((int64_t)takes[i].id > *before, "message %" PRIu64 " came behind %" PRId64,
		      takes[i].id, *before);
		*before = (int64_t)takes[i].id;
	}
}

static void receive_plan(struct team *team, const struct plan *plan)
{
	static struct take takes[MESSAGES];
	struct comp c;

	for (int posts = 0, done = 0; done < MESSAGES;) {
		if (posts < MESSAGES) {
			takes[posts].in = calloc(1, 8 + 0x10000);
			CHECK(takes[posts].in, "no memory");
			RECV(&team->fx[0], .tagged = plan[posts].tagged, .buf = takes[posts].in,
			     .len = 8 + 0x10000, .addr = FI_ADDR_UNSPEC, .tag = plan[posts].tag,
			     .ctx = &takes[posts].ctx);
			posts++;
		}
		for (int e = 0; e < TEAM_EPS; e++)
			if (comp_poll(&team->fx[e], FX_RX, &c)) {
				take_one(plan, takes, e, &c);
				done++;
			}
		FX_CHECK_MOVES(&team->fx[0], "%d of %d messages came", done, MESSAGES);
	}
	check_order(plan, takes);
	for (int i = 0; i < MESSAGES; i++)
		free(takes[i].in);
}

static void at_random(struct test *t)
{
	static struct plan plan[MESSAGES];
	static struct team team;

	team_open(t, &team, &(struct fx_attr){ 0 });
	make_plan(t, plan);
	if (run_sends(t))
		send_plan(&team, plan);
	else
		receive_plan(&team, plan);
	team_close(&team);
}

const struct test_case srx_cases[] = {
	{ "srx_posted", "the earliest receive takes a message, whichever endpoint it comes by", posted, .ranks = 2, .self = true },
	{ "srx_unexpected", "the earliest message is found, whichever endpoint it came by", unexpected, .ranks = 2, .self = true },
	{ "srx_directed", "a source is the same by every endpoint", directed, .ranks = 2 },
	{ "srx_truncated", "a receive that is too short for a message", truncated, .ranks = 2, .self = true },
	{ "srx_random", "messages of all sizes by all endpoints", at_random, .ranks = 2, .slow = 2 },
	{ 0 },
};
