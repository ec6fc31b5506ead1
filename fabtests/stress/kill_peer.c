/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The victim, and the partner that kills it.
 */
#include "kill.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

enum { DELAY_MAX = 3000 };	/* us */

void kill_open(struct test *t, struct fx *fx)
{
	size_t len = FX_NAME_MAX;

	fx_open(t, fx, &(struct fx_attr){ .disabled = true });
	CHECK_OK(fi_enable(fx->ep));
	CHECK_OK(fi_getname(&fx->ep->fid, board->name[t->rank], &len));
	if (t->rank == VICTIM)
		CHECK(left_sock_name(board->sock, &board->sock_len),
		      "no socket for shared memory: which transport is this?");
	atomic_store(&board->opened[t->rank], t->life + 1);
	run_phase("open");
}

bool kill_meet(struct fx *fx, int rank, int life)
{
	if (atomic_load(&board->opened[rank]) <= life)
		return false;
	memcpy(fx->name[rank], board->name[rank], FX_NAME_MAX);
	fx_insert(fx, rank);
	return true;
}

static void await_rank(struct fx *fx, int rank)
{
	while (!kill_meet(fx, rank, 0)) {
		FX_CHECK_MOVES(fx, "rank %d does not come", rank);
		fx_progress(fx);
		usleep(1000);
	}
}

/* The victim sends in odd rounds and receives in even ones. */
void kill_be_victim(struct test *t)
{
	static struct flow flow;
	struct fx fx;

	kill_open(t, &fx);
	await_rank(&fx, SURVIVOR);
	while (atomic_load(&board->begun) <= t->life) {
		if (atomic_load(&board->over)) {
			fx_close_now(&fx);
			return;
		}
		CHECK_MOVES("round %d does not begin", t->life);
		usleep(500);
	}
	flow_open(&flow, &fx, FLOW_DATA, t->life, t->life & 1, fx.addr[SURVIVOR]);
	for (;;) {
		flow_post(&flow);
		if (!flow_poll(&flow, 1))
			sched_yield();
		CHECK_MOVES("nobody kills the victim");
	}
}

struct killer {
	struct test *t;
	uint64_t random;
	int round;		/* next round to kill in */
	int64_t at;		/* us, time of the kill; 0: not chosen yet */
};

static void maybe_kill(struct killer *k)
{
	if (atomic_load(&board->flowing) <= k->round)
		return;
	if (!k->at)
		k->at = kill_now() + (int64_t)(pattern_next(&k->random) % DELAY_MAX);
	if (kill_now() < k->at)
		return;
	atomic_store(&board->killed_at, kill_now());
	run_kill(k->t, VICTIM, RUN_COMES_BACK);
	k->at = 0;
	atomic_store(&board->killed, ++k->round);
}

void kill_be_partner(struct test *t)
{
	struct killer killer = { .t = t, .random = t->seed };
	static struct flow flow[2];
	struct fx fx;

	kill_open(t, &fx);
	await_rank(&fx, SURVIVOR);
	flow_open(&flow[0], &fx, FLOW_BACK, 0, true, fx.addr[SURVIVOR]);
	flow_open(&flow[1], &fx, FLOW_OUT, 0, false, FI_ADDR_UNSPEC);
	while (!atomic_load(&board->over)) {
		flow_post(&flow[0]);
		flow_post(&flow[1]);
		if (!flow_poll(flow, 2))
			sched_yield();
		maybe_kill(&killer);
		CHECK_MOVES("the survivor does not come to an end");
	}
	flow_cancel(&flow[1]);
	fx_close_now(&fx);
}
