/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers that are killed or never existed: each operation with them ends with an
 * error in time, and traffic between the other ranks goes on.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pattern.h"
#include "framework/pending.h"
#include "framework/transfer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct fx_attr plain;

static void set_short_timeout(void)
{
	setenv("FI_TAGRV_CONNECT_TIMEOUT", "3", 1);
}

/* Ranks 0 and 2 exchange a small and a large message; rank 1 takes no part. */
static void talk_with_third(struct fx *fx)
{
	int other = fx->t->rank ? 0 : 2;
	static const size_t sizes[] = { 8, 1 << 20 };

	for (int i = 0; i < 2; i++) {
		struct guard out = guard_alloc(sizes[i]), in = guard_alloc(sizes[i]);
		struct fi_context2 tx, rx;

		run_step("%zu bytes between the survivors", sizes[i]);
		pattern_fill(out.data, out.len, 3);
		RECV(fx, .tagged = true, .buf = in.data, .len = in.len, .addr = FI_ADDR_UNSPEC,
		     .tag = 77, .ctx = &rx);
		SEND(fx, .tagged = true, .buf = out.data, .len = out.len, .addr = fx->addr[other],
		     .tag = 77, .ctx = &tx);
		COMP_EXPECT(fx, FX_RX, .ctx = &rx, .flags = GOT_TAGGED, .len = in.len, .tag = 77);
		COMP_EXPECT(fx, FX_TX, .ctx = &tx, .flags = SENT_TAGGED);
		GUARD_HOLDS(&in, in.len, 3);
		guard_free(&out);
		guard_free(&in);
	}
}

enum { SENDS = 16, RECEIVES = 16, BULK = 4 << 20 };

/* Rank 1: 16 large sends, then progress until it is killed. */
static _Noreturn void be_victim(struct fx *fx)
{
	static struct fi_context2 ctx[RECEIVES];
	struct guard g = guard_alloc(BULK);

	pattern_fill(g.data, g.len, 1);
	for (int i = 0; i < RECEIVES; i++)
		SEND(fx, .tagged = true, .buf = g.data, .len = g.len, .addr = fx->addr[0],
		     .tag = 1, .ctx = &ctx[i]);
	for (;;)
		fx_idle(fx, 1000);
}

static void post_to_victim(struct fx *fx, struct pending *tx, const struct guard *g)
{
	for (int i = 0; i < SENDS; i++)
		SEND(fx, .tagged = true, .buf = g->data, .len = i & 1 ? g->len : 64,
		     .addr = fx->addr[1], .tag = 5, .ctx = &tx->ctx[i]);
}

static void check_results(const struct pending *tx, const struct pending *rx, struct guard *in)
{
	int failed = 0;

	for (int i = 0; i < SENDS; i++)
		failed += tx->result[i] > 0;
	CHECK(failed, "all sends to a dead peer that received nothing succeeded");
	for (int i = 0; i < RECEIVES; i++)
		if (!rx->result[i])
			GUARD_HOLDS(&in[i], BULK, 1);
}

static void cancel_rest(struct fx *fx, const struct pending *rx)
{
	for (size_t i = 0; i < rx->n; i++)
		if (rx->result[i] < 0)
			(void)fi_cancel(&fx->ep->fid, &rx->ctx[i]);
}

/*
 * Rank 0: when rank 1 dies, all sends are unmatched and only the first receive is
 * certainly done. Sends and matched receives must end by themselves; receives that
 * did not match are cancelled.
 */
static void survive(struct fx *fx)
{
	struct guard in[RECEIVES], out = guard_alloc(1 << 20);
	struct pending tx, rx;

	pending_open(&tx, SENDS);
	pending_open(&rx, RECEIVES);
	for (int i = 0; i < RECEIVES; i++) {
		in[i] = guard_alloc(BULK);
		RECV(fx, .tagged = true, .buf = in[i].data, .len = BULK, .addr = FI_ADDR_UNSPEC,
		     .tag = 1, .ctx = &rx.ctx[i]);
	}
	post_to_victim(fx, &tx, &out);
	run_step("first receive from the victim");
	pending_await(fx, &tx, &rx, &rx, 1, "messages from the victim");
	run_kill(fx->t, 1, RUN_MAY_DIE);
	run_step("sends to the dead peer");
	pending_await(fx, &tx, &rx, &tx, SENDS, "sends to a dead peer ended");
	pending_settle(fx, &tx, &rx, 1000);
	cancel_rest(fx, &rx);
	run_step("receives from the dead peer");
	pending_await(fx, &tx, &rx, &rx, RECEIVES, "receives from a dead peer ended");
	check_results(&tx, &rx, in);
	for (int i = 0; i < RECEIVES; i++)
		guard_free(&in[i]);
	guard_free(&out);
	pending_close(&tx);
	pending_close(&rx);
}

/* A send to a dead peer fails, at once or by its completion. */
static void send_to_dead(struct fx *fx, fi_addr_t dead, size_t len)
{
	struct guard g = guard_alloc(len);
	struct pending tx, rx;
	ssize_t ret;

	run_step("%zu bytes to nobody", len);
	pending_open(&tx, 1);
	pending_open(&rx, 0);
	while ((ret = TRY_SEND(fx, .tagged = true, .buf = g.data, .len = len, .addr = dead, .tag = 1,
			       .ctx = &tx.ctx[0])) == -FI_EAGAIN) {
		fx_idle(fx, 1);
		FX_CHECK_MOVES(fx, "a send to nobody: -FI_EAGAIN without end");
	}
	CHECK(ret <= 0, "send to nobody: %zd", ret);
	if (!ret) {
		pending_await(fx, &tx, &rx, &tx, 1, "sends to nobody ended");
		CHECK(tx.result[0] > 0, "a send to nobody succeeded");
	}
	pending_close(&tx);
	pending_close(&rx);
	guard_free(&g);
}

static void peer_killed(struct test *t)
{
	struct fx fx;

	set_short_timeout();
	fx_open(t, &fx, &plain);
	if (t->rank == 1)
		be_victim(&fx);
	if (t->rank == 0)
		survive(&fx);
	fx_barrier(&fx);
	talk_with_third(&fx);
	if (t->rank == 0)
		send_to_dead(&fx, fx.addr[1], 1 << 20);
	fx_barrier(&fx);
	talk_with_third(&fx);
	fx_close(&fx);
}

static void killed_with_put(struct test *t)
{
	setenv("FI_TAGRV_RNDV", "put", 1);
	peer_killed(t);
}

static void killed_with_copy(struct test *t)
{
	setenv("FI_TAGRV_RNDV", "copy", 1);
	peer_killed(t);
}

static void killed_with_pipeline(struct test *t)
{
	setenv("FI_TAGRV_RNDV", "pipeline", 1);
	setenv("FI_TAGRV_READ_SEGMENT", "16384", 1);
	peer_killed(t);
}

/* The peer of an idle connection dies: no entry, later sends fail, other ranks go on. */
static void idle_peer_killed(struct test *t)
{
	struct fi_context2 ctx;
	struct fx fx;

	set_short_timeout();
	fx_open(t, &fx, &plain);
	if (t->rank == 0) {
		RECV(&fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 1, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .tag = 1);
	}
	if (t->rank == 1) {
		SEND(&fx, .tagged = true, .addr = fx.addr[0], .tag = 1, .ctx = &ctx);
		COMP_EXPECT(&fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	}
	fx_barrier(&fx);
	if (t->rank == 1)
		run_kill(t, 1, RUN_MAY_DIE);
	COMP_NONE(&fx, 1000);
	if (t->rank == 0)
		send_to_dead(&fx, fx.addr[1], 1 << 20);
	fx_barrier(&fx);
	talk_with_third(&fx);
	fx_close(&fx);
}

/* An address that nobody listens at. Its socket keeps others from getting the port meanwhile. */
struct nobody {
	fi_addr_t addr;
	int	fd;
};

static void insert_nobody(struct fx *fx, struct nobody *nobody)
{
	struct sockaddr_in in = { .sin_family = AF_INET }, own = in;
	socklen_t len = sizeof(own);

	if (!fx_is_inet(fx))
		run_skip("addresses are not IPv4 socket addresses");
	nobody->fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(nobody->fd >= 0 && !bind(nobody->fd, (struct sockaddr *)&own, sizeof(own)) &&
		      !getsockname(nobody->fd, (struct sockaddr *)&own, &len),
	      "no free port");
	memcpy(&in, fx->name[fx->t->rank], sizeof(in));
	in.sin_port = own.sin_port;
	CHECK(fi_av_insert(fx->av, &in, 1, &nobody->addr, 0, NULL) == 1, "insert failed");
}

static void inject_to_nobody(struct fx *fx, fi_addr_t nobody)
{
	ssize_t ret;

	run_step("inject to nobody");
	ret = TRY_SEND(fx, .call = CALL_INJECT, .tagged = true, .addr = nobody, .tag = 1);
	CHECK(ret <= 0, "inject to nobody: %zd", ret);
	COMP_NONE(fx, 5000);
}

static void nobody_listens(struct test *t)
{
	static const size_t sizes[] = { 0, 1000, 1 << 20 };
	struct nobody nobody;
	struct fx fx;

	set_short_timeout();
	fx_open(t, &fx, &plain);
	insert_nobody(&fx, &nobody);
	for (int i = 0; i < 3 && t->rank == 0; i++)
		send_to_dead(&fx, nobody.addr, sizes[i]);
	if (t->rank == 0)
		inject_to_nobody(&fx, nobody.addr);
	transfer_several(&fx, 300);
	close(nobody.fd);
	fx_close(&fx);
}

/* Posts all sends to nobody that are accepted, then one to the peer, which must not wait for them. */
static void crowd_and_pass(struct fx *fx, fi_addr_t nobody, struct pending *tx)
{
	size_t n = 0;

	while (n < tx->n && !TRY_SEND(fx, .tagged = true, .addr = nobody, .tag = 1,
				      .ctx = &tx->ctx[n]))
		n++;
	tx->n = n;
	run_step("a message behind %zu to nobody", n);
	SEND(fx, .call = CALL_INJECT, .tagged = true, .addr = fx->peer, .tag = 2);
}

static void await_passing(struct fx *fx)
{
	struct fi_context2 ctx;

	RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 2, .ctx = &ctx);
	COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .tag = 2);
}

static void unreachable_delays_none(struct test *t)
{
	struct pending tx, rx;
	struct nobody nobody;
	struct fx fx;

	set_short_timeout();
	fx_open(t, &fx, &plain);
	insert_nobody(&fx, &nobody);
	pending_open(&tx, t->rank ? 0 : 50);
	pending_open(&rx, 0);
	if (t->rank == 0)
		crowd_and_pass(&fx, nobody.addr, &tx);
	else
		await_passing(&fx);
	fx_barrier(&fx);
	pending_await(&fx, &tx, &rx, &tx, tx.n, "sends ended");
	for (size_t i = 0; i < tx.n; i++)
		CHECK(tx.result[i] > 0, "send %zu to nobody succeeded", i);
	pending_close(&tx);
	pending_close(&rx);
	transfer_several(&fx, 400);
	close(nobody.fd);
	fx_close(&fx);
}

const struct test_case fault_cases[] = {
	{ "fault_peer_killed", "SIGKILL amid transfers: each operation ends once, a third rank goes on",
	  peer_killed, .ranks = 3, .slow = 3 },
	{ "fault_peer_killed_put", "the same with protocol put", killed_with_put,
	  .ranks = 3, .slow = 3 },
	{ "fault_peer_killed_copy", "the same with protocol copy", killed_with_copy,
	  .ranks = 3, .slow = 3 },
	{ "fault_peer_killed_pipeline", "the same with protocol pipeline", killed_with_pipeline,
	  .ranks = 3, .slow = 3 },
	{ "fault_idle_peer_killed", "an idle peer dies silently; later sends fail", idle_peer_killed,
	  .ranks = 3, .slow = 2 },
	{ "fault_nobody_listens", "sends to an address without an endpoint fail in time", nobody_listens,
	  .ranks = 2, .slow = 2 },
	{ "fault_unreachable_delays_none", "sends to an unreachable address delay no sends to others", unreachable_delays_none,
	  .ranks = 2, .slow = 2 },
	{ 0 },
};
