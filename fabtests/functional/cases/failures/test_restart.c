/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A peer that ends, killed or closed in order, and comes back at its address.
 */
#include "cases/cases.h"
#include "framework/completion.h"
#include "framework/message.h"
#include "framework/pending.h"
#include "framework/transfer.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 40 };

static const struct fx_attr plain;

/* Rank 1 leaves its port to the process that takes over. */
static void leave_note(const struct fx *fx)
{
	struct sockaddr_in in;

	if (!fx_is_inet(fx))
		run_skip("addresses are not IPv4 socket addresses");
	memcpy(&in, fx->name[1], sizeof(in));
	snprintf(fx->t->shared->note, sizeof(fx->t->shared->note), "%u", ntohs(in.sin_port));
}

/* Rank 0 sends once to rank 1; the send may fail over the old connection. */
static void try_reach(struct fx *fx)
{
	struct pending tx, rx;

	pending_open(&tx, 1);
	pending_open(&rx, 0);
	SEND(fx, .tagged = true, .addr = fx->addr[1], .tag = 9, .ctx = &tx.ctx[0]);
	pending_await(fx, &tx, &rx, &tx, 1, "sends to a restarted peer ended");
	pending_close(&tx);
	pending_close(&rx);
}

static uint8_t share_success(struct fx *fx, uint8_t mine)
{
	struct run_gathered all;

	fx_exchange(fx, &mine, 1, &all);
	return all.data[1][0];
}

/* Rank 0 repeats its send until rank 1 has received one. */
static void reach_again(struct fx *fx)
{
	struct fi_context2 ctx;
	uint8_t reached = 0;
	struct comp c;

	if (fx->t->rank == 1)
		RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 9, .ctx = &ctx);
	for (int i = 0; i < TRIES && !reached; i++) {
		uint8_t mine = 0;

		run_step("try %d to reach the restarted peer", i);
		if (fx->t->rank == 0)
			try_reach(fx);
		fx_idle(fx, 200);
		if (fx->t->rank == 1 && comp_poll(fx, FX_RX, &c)) {
			COMP_SAME(fx, &c, .ctx = &ctx, .flags = GOT_TAGGED, .tag = 9);
			mine = 1;
		}
		reached = share_success(fx, mine);
	}
	CHECK(reached, "the restarted peer is not reached");
}

static void reply(struct fx *fx)
{
	struct fi_context2 ctx;

	if (fx->t->rank == 0) {
		RECV(fx, .tagged = true, .addr = FI_ADDR_UNSPEC, .tag = 10, .ctx = &ctx);
		COMP_EXPECT(fx, FX_RX, .ctx = &ctx, .flags = GOT_TAGGED, .tag = 10);
	} else {
		SEND(fx, .tagged = true, .addr = fx->addr[0], .tag = 10, .ctx = &ctx);
		COMP_EXPECT(fx, FX_TX, .ctx = &ctx, .flags = SENT_TAGGED);
	}
}

/* Rank 1 opens again; rank 0 keeps its endpoint and takes part in the exchange of names. */
static void meet_again(struct test *t, struct fx *fx)
{
	struct run_gathered all;

	if (t->rank == 1) {
		fx_open(t, fx, &(struct fx_attr){ .service = t->shared->note });
		return;
	}
	run_step("the peer comes back");
	fx_exchange(fx, fx->name[0], fx->namelen, &all);
	CHECK(all.len[1] == fx->namelen && !memcmp(all.data[1], fx->name[1], fx->namelen),
	      "the restarted peer has another address");
}

static void restart(struct test *t, bool orderly, bool peer_first)
{
	struct fx fx;

	setenv("FI_TAGRV_CONNECT_TIMEOUT", "3", 1);
	if (t->life == 0) {
		fx_open(t, &fx, &plain);
		if (t->rank == 1)
			leave_note(&fx);
		transfer_several(&fx, 100);
		fx_barrier(&fx);
		if (t->rank == 1) {
			if (orderly)
				fx_close_now(&fx);
			run_kill(t, 1, RUN_COMES_BACK);
		}
	}
	meet_again(t, &fx);
	if (peer_first)
		reply(&fx);
	reach_again(&fx);
	reply(&fx);
	transfer_several(&fx, 200);
	fx_close(&fx);
}

static void restart_killed(struct test *t)
{
	restart(t, false, false);
}

static void restart_closed(struct test *t)
{
	restart(t, true, false);
}

static void restart_peer_first(struct test *t)
{
	restart(t, false, true);
}

const struct test_case restart_cases[] = {
	{ "fault_restart_killed", "a killed peer comes back at its address", restart_killed,
	  .ranks = 2, .slow = 2 },
	{ "fault_restart_closed", "a peer that closed comes back at its address", restart_closed,
	  .ranks = 2, .slow = 2 },
	{ "fault_restart_peer_first", "a killed peer comes back and sends first", restart_peer_first,
	  .ranks = 2, .slow = 2 },
	{ 0 },
};
