/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared receive contexts: operations of the context itself, endpoints that open and
 * close, readers that sleep.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/team.h"

#include <inttypes.h>
#include <pthread.h>

enum { COUNT = 12, LARGE = 300000 };

static const size_t lengths[] = { 8, LARGE };

/* ---- operations of the context itself ---- */

static void cancel_one(struct team *team)
{
	struct fi_context2 ctx[2];
	struct fid *fid = &team->fx[0].srx->fid;

	RECV(&team->fx[0], .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx[0]);
	RECV(&team->fx[0], .addr = FI_ADDR_UNSPEC, .ctx = &ctx[1]);
	for (int i = 0; i < TEAM_EPS; i++)
		CHECK_ERR(fi_cancel(&team->fx[i].ep->fid, &ctx[0]), -FI_ENOENT);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(fi_cancel(fid, &ctx[i]));
		COMP_EXPECT(&team->about, FX_RX, .ctx = &ctx[i], .flags = FI_RECV,
			    .err = FI_ECANCELED);
		CHECK_ERR(fi_cancel(fid, &ctx[i]), -FI_ENOENT);
	}
}

static void cancelled(struct test *t)
{
	static struct team team;

	for (int queue = 0; queue < 2; queue++) {
		team_open(t, &team, &(struct fx_attr){ .srx_queue = queue });
		cancel_one(&team);
		team_close(&team);
	}
}

/* Peeks at the context until the message has arrived. */
static void search(struct team *team, uint64_t tag, size_t len, uint64_t flags, void *ctx)
{
	struct comp c;

	run_step("peek for tag 0x%" PRIx64, tag);
	do {
		RECV(&team->fx[0], .call = CALL_MSG, .tagged = true, .addr = FI_ADDR_UNSPEC,
		     .tag = tag, .flags = FI_PEEK | flags, .ctx = ctx);
		COMP_WAIT(&team->about, FX_RX, &c);
		FX_CHECK_MOVES(&team->fx[0], "the message is never found");
	} while (c.err == FI_ENOMSG);
	COMP_SAME(&team->fx[0], &c, .ctx = ctx, .flags = GOT_TAGGED, .len = len, .tag = tag);
}

static void find_claimed(struct team *team, size_t len)
{
	struct guard g = guard_alloc(len);
	struct fi_context2 ctx[TEAM_EPS];

	for (int i = 0; i < TEAM_EPS; i++) {
		search(team, (uint64_t)i, len, 0, &ctx[i]);
		search(team, (uint64_t)i, len, FI_CLAIM, &ctx[i]);
	}
	for (int i = TEAM_EPS - 1; i > 0; i--) {
		guard_wipe(&g);
		RECV(&team->fx[0], .call = CALL_MSG, .tagged = true, .buf = g.data, .len = len,
		     .flags = FI_CLAIM, .ctx = &ctx[i]);
		COMP_EXPECT(&team->fx[i], FX_RX, .ctx = &ctx[i], .flags = GOT_TAGGED, .len = len,
			    .tag = (uint64_t)i);
		GUARD_HOLDS(&g, len, (uint64_t)i);
	}
	RECV(&team->fx[0], .call = CALL_MSG, .tagged = true, .flags = FI_CLAIM | FI_DISCARD,
	     .ctx = &ctx[0]);
	COMP_EXPECT(&team->about, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED, .len = len);
	guard_free(&g);
}

/* Each message is claimed; all but the first are received by their endpoints. */
static void play_claims(struct team *team, size_t len)
{
	struct guard out[TEAM_EPS];
	struct fi_context2 ctx[TEAM_EPS];

	for (int i = 0; i < TEAM_EPS && run_sends(team->t); i++) {
		out[i] = guard_alloc(len);
		pattern_fill(out[i].data, len, (uint64_t)i);
		SEND(&team->fx[i], .tagged = true, .buf = out[i].data, .len = len,
		     .addr = team->fx[i].peer, .tag = (uint64_t)i, .ctx = &ctx[i]);
	}
	if (run_receives(team->t))
		find_claimed(team, len);
	for (int i = 0; i < TEAM_EPS && run_sends(team->t); i++) {
		COMP_EXPECT(&team->fx[i], FX_TX, .ctx = &ctx[i], .flags = SENT_TAGGED);
		guard_free(&out[i]);
	}
	fx_barrier(&team->fx[0]);
}

static void claims(struct test *t)
{
	static struct team team;

	for (int queue = 0; queue < 2; queue++) {
		team_open(t, &team, &(struct fx_attr){ .srx_queue = queue });
		for (int i = 0; i < 2; i++)
			play_claims(&team, lengths[i]);
		team_close(&team);
	}
}

static size_t part_length(int i)
{
	return i % 3 ? 1000 : 40000;
}

/* Message i is placed at 'at', by its endpoint. */
static void play_part(struct team *team, int i, const uint8_t *at, void *buffer)
{
	struct fx *fx = &team->fx[team_way(i)];
	size_t len = part_length(i);
	struct guard out = guard_alloc(len);
	struct fi_context2 ctx;
	struct comp c;

	pattern_fill(out.data, len, (uint64_t)i);
	if (run_sends(team->t))
		SEND(fx, .buf = out.data, .len = len, .addr = fx->peer, .ctx = &ctx);
	if (run_receives(team->t)) {
		COMP_WAIT(fx, FX_RX, &c);
		COMP_SAME(fx, &c, .ctx = buffer, .flags = GOT_MSG, .len = len);
		CHECK(c.buf == at, "message %d is not behind the one before", i);
		CHECK(pattern_check(c.buf, len, (uint64_t)i) == len, "wrong content");
	}
	if (run_sends(team->t))
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_MSG);
	fx_barrier(fx);
	guard_free(&out);
}

/* Messages are placed one after the other, whichever endpoint they use. */
static void multi_recv(struct test *t)
{
	struct fx_attr attr = {
		.caps = FI_MSG | FI_TAGGED | FI_MULTI_RECV, .min_multi_recv = 64, .srx_queue = true,
	};
	size_t total = 0, at = 0;
	static struct team team;
	struct fi_context2 ctx;
	struct guard in;
	struct comp c;

	for (int i = 0; i < COUNT; i++)
		total += part_length(i);
	in = guard_alloc(total);
	team_open(t, &team, &attr);
	if (run_receives(t))
		RECV(&team.fx[0], .call = CALL_MSG, .buf = in.data, .len = total,
		     .addr = FI_ADDR_UNSPEC, .flags = FI_MULTI_RECV, .ctx = &ctx);
	fx_barrier(&team.fx[0]);
	for (int i = 0; i < COUNT; at += part_length(i++))
		play_part(&team, i, in.data + at, &ctx);
	if (run_receives(t)) {
		COMP_WAIT(&team.about, FX_RX, &c);
		CHECK(!c.err && c.flags == FI_MULTI_RECV && c.ctx == &ctx, "no release");
		CHECK(!guard_damage(&in, total), "bytes written outside the buffer");
	}
	guard_free(&in);
	team_close(&team);
}

/* FI_SELECTIVE_COMPLETION of an endpoint holds for messages of this endpoint. */
static void selective(struct test *t)
{
	struct fx_attr attr = { .rx_bind = FI_SELECTIVE_COMPLETION, .counters = true };
	static struct team team;
	struct fi_context2 ctx[2];

	team_open(t, &team, &attr);
	for (int i = 0; i < 2 * TEAM_EPS; i++) {
		struct fx *fx = &team.fx[team_way(i)];

		if (run_receives(t))
			RECV(fx, .call = CALL_MSG, .tagged = true, .addr = FI_ADDR_UNSPEC,
			     .flags = i % 2 ? FI_COMPLETION : 0, .ctx = &ctx[0]);
		fx_barrier(fx);
		if (run_sends(t)) {
			SEND(fx, .tagged = true, .addr = fx->peer, .ctx = &ctx[1]);
			COMP_EXPECT(fx, FX_TX, .ctx = &ctx[1], .flags = SENT_TAGGED);
		}
		if (run_receives(t))
			CHECK_OK(fi_cntr_wait(fx->cntr[FX_RX], 1 + (uint64_t)i / TEAM_EPS, 10000));
		if (run_receives(t) && i % 2)
			COMP_EXPECT(fx, FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED);
		fx_barrier(fx);
	}
	team_close(&team);
}

/* ---- endpoints open and close ---- */

static void by(struct team *team, int e, uint64_t tag, bool at_once)
{
	struct fx *fx = &team->fx[e];

	SEND(fx, .call = CALL_INJECT, .tagged = true, .buf = &tag, .len = sizeof(tag),
	     .addr = fx->peer, .tag = tag);
	if (!at_once)
		fx_idle(fx, 50);
}

/*
 * An unexpected message is lost with the endpoint that closes. The receives stay for
 * messages of the other endpoints, and of the endpoint that is opened in its place.
 */
static void one_goes(struct test *t)
{
	struct fi_context2 ctx[2];
	static struct team team;
	uint64_t in[2];

	team_open(t, &team, &(struct fx_attr){ 0 });
	if (run_sends(t))
		by(&team, 1, 5, false);
	fx_barrier(&team.fx[0]);
	fx_idle(&team.fx[0], 50);
	fx_close_now(&team.fx[1]);
	fx_barrier(&team.fx[0]);
	for (int i = 0; i < 2 && run_receives(t); i++)
		RECV(&team.fx[0], .tagged = true, .buf = &in[i], .len = sizeof(in[i]),
		     .addr = FI_ADDR_UNSPEC, .tag = 5, .ctx = &ctx[i]);
	fx_barrier(&team.fx[0]);
	if (run_sends(t))
		by(&team, 2, 5, true);
	if (run_receives(t))
		COMP_EXPECT(&team.fx[2], FX_RX, .ctx = &ctx[0], .flags = GOT_TAGGED,
			    .len = sizeof(in[0]), .tag = 5);
	fx_barrier(&team.fx[0]);
	team_open_member(&team, 1, (struct fx_attr){ 0 });
	if (run_sends(t))
		by(&team, 1, 5, true);
	if (run_receives(t))
		COMP_EXPECT(&team.fx[1], FX_RX, .ctx = &ctx[1], .flags = GOT_TAGGED,
			    .len = sizeof(in[1]), .tag = 5);
	team_close(&team);
}

static void life(struct test *t)
{
	static struct team team;
	struct fi_context2 ctx;
	struct fi_info *info;
	struct fi_info *hints;
	uint64_t byte = 0;

	team_open(t, &team, &(struct fx_attr){ 0 });
	CHECK_ERR(fi_recv(team.fx[0].ep, &byte, 1, NULL, FI_ADDR_UNSPEC, &ctx), -FI_ENOSYS);
	CHECK_ERR(fi_trecv(team.fx[1].ep, &byte, 1, NULL, FI_ADDR_UNSPEC, 0, 0, &ctx), -FI_ENOSYS);
	CHECK_ERR(fi_inject(team.fx[0].srx, &byte, 1, team.fx[0].peer), -FI_ENOSYS);
	CHECK_ERR(fi_close(&team.fx[0].srx->fid), -FI_EBUSY);
	hints = fx_hints(t, &team.fx[0].attr);
	hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	CHECK_ERR(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
	/* The receives end with the context, which is closed last. */
	for (int i = 0; i < COUNT; i++)
		RECV(&team.fx[0], .tagged = i % 2, .buf = &byte, .len = 1, .addr = FI_ADDR_UNSPEC,
		     .ctx = &ctx);
	team_close(&team);
}

/* ---- sleeping ---- */

enum { WAKES = 100 };

static void *read_all(void *arg)
{
	struct fx *fx = arg;
	struct fi_cq_tagged_entry entry;

	for (int i = 0; i < WAKES; i++) {
		ssize_t n;

		do {
			n = fi_cq_sread(fx->cq[FX_RX], &entry, 1, NULL, 1000);
			FX_CHECK_MOVES(fx, "a blocked reader sees nothing");
		} while (n == -FI_EAGAIN || n == -FI_EINTR);
		CHECK(n == 1, "fi_cq_sread: %zd", n);
	}
	return NULL;
}

/* A receive posted to the context wakes a thread that sleeps at an endpoint's CQ. */
static void wake(struct test *t, enum fi_progress progress)
{
	struct fx_attr attr = {
		.threading = FI_THREAD_SAFE, .cq_wait = FI_WAIT_UNSPEC, .progress = progress,
	};
	static struct team team;
	struct fi_context2 ctx;
	pthread_t reader;
	uint64_t in;

	team_open(t, &team, &attr);
	CHECK(!pthread_create(&reader, NULL, read_all, &team.fx[1]), "no thread");
	for (uint64_t i = 0; i < WAKES; i++) {
		bool early = i % 2;

		if (early)
			by(&team, 1, i, true);
		RECV(&team.fx[0], .tagged = true, .buf = &in, .len = sizeof(in),
		     .addr = FI_ADDR_UNSPEC, .tag = i, .ctx = &ctx);
		if (!early)
			by(&team, 1, i, true);
	}
	pthread_join(reader, NULL);
	team_close(&team);
}

static void wake_manual(struct test *t)
{
	wake(t, FI_PROGRESS_MANUAL);
}

static void wake_auto(struct test *t)
{
	wake(t, FI_PROGRESS_AUTO);
}

const struct test_case srx_life_cases[] = {
	{ "srx_cancelled", "receives of the context are cancelled", cancelled, .ranks = 1, .self = true },
	{ "srx_claims", "peek, claim and discard", claims, .ranks = 2, .self = true },
	{ "srx_multi_recv", "one buffer for messages of all endpoints", multi_recv, .ranks = 2, .self = true },
	{ "srx_selective", "each endpoint's selective completion", selective, .ranks = 2, .self = true },
	{ "srx_one_goes", "an endpoint is closed, and another opened, while others go on", one_goes, .ranks = 2, .self = true },
	{ "srx_life", "refused calls, and receives left in a context", life, .ranks = 1, .self = true },
	{ "srx_wake", "a receive posted to the context wakes an endpoint's reader", wake_manual, .ranks = 1, .self = true },
	{ "srx_wake_automatic", "the same with automatic progress", wake_auto, .ranks = 1, .self = true },
	{ 0 },
};
