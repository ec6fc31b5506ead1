/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One round of tagrv_fault: traffic with a victim, a fault, and what must hold then.
 *
 *   sends                              end by themselves, once, with a documented code
 *   receives that name the victim      so, with FI_TAGRV_PEER_ERRORS
 *   receives of any source, or without can be cancelled, unless a message has matched
 *   the endpoint                       can be closed
 *
 * A victim that was stopped for a moment is alive: everything succeeds.
 *
 * Waiting has no limit of its own but a generous one without any completion, at which the
 * provider's dump is printed.
 */
#include "common/slowness.h"
#include "fault.h"
#include "framework/pattern.h"

#include <rdma/fi_ext_tagrv.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STALL_MS = 30000, FLOW_US = 500000, STOP_MAX = 20000, QUIET = 50 };

struct survivor {
	struct end end;
	struct ops ops;
	const struct plan *plan;
	int64_t fault_at, moved_at;
};

/* ---- turns ---- */

static _Noreturn void stall(struct survivor *s, const char *what)
{
	struct fi_tagrv_ops_dump *dump;

	fprintf(stderr, "%s does not come to an end:\n", what);
	ops_list(&s->ops);
	if (!fi_open_ops(&s->end.ep->fid, TAGRV_EP_DUMP_OPS, 0, (void **)&dump, NULL))
		dump->dump(s->end.ep, STDERR_FILENO);
	fault_fail("stalled: %s", what);
}

/* Takes one completion, or lets others run. 'what' is what is waited for. */
static bool turn(struct survivor *s, const char *what)
{
	int64_t now;

	MUST(!atomic_load(&board->failed), "the victim: %s", board->why);
	if (ops_poll(&s->ops)) {
		s->moved_at = fault_now();
		return true;
	}
	now = fault_now();
	if (now - s->moved_at > (int64_t)slow_ms(STALL_MS) * 1000)
		stall(s, what);
	sched_yield();
	return false;
}

static void run_for(struct survivor *s, int64_t us)
{
	int64_t end = fault_now() + us;

	do {
		ops_post(&s->ops, !s->plan->passive, true);
		turn(s, "a turn");
	} while (fault_now() < end);
}

static bool has_begun(const struct survivor *s)
{
	switch (s->plan->phase) {
	case PHASE_OPEN:
		return true;
	case PHASE_POSTED:
		return s->ops.counts.posted;
	default:
		return atomic_load(&board->flowing);
	}
}

/* A victim to which nothing is sent that it has a receive for gets nothing: not for ever. */
static void reach_phase(struct survivor *s)
{
	int64_t end = fault_now() + FLOW_US;

	while (!has_begun(s) && fault_now() < end)
		run_for(s, 0);
}

/*
 * The victim closes its endpoint. The state LEAVING lasts from the pass that hears of it
 * for some passes, and a turn makes one, unless the plan sleeps or has threads: then the
 * fault may find that the connection has ended.
 */
static void reach_leaving(struct survivor *s)
{
	enum state state;

	s->ops.mortal = true;
	atomic_store(&board->leave, LEAVE_STAY);
	do {
		turn(s, "the end of a connection that the victim has closed");
		state = fault_state(&s->end, board->victim);
	} while (state != STATE_LEAVING && (!atomic_load(&board->closed) ||
					    state == STATE_BOUND || state == STATE_READY));
}

static bool is_survived(const struct plan *plan)
{
	return plan->fault == FAULT_STOP && plan->phase != PHASE_LEAVING;
}

/* ---- faults ---- */

static void commit(struct survivor *s)
{
	pid_t victim = atomic_load(&board->pid);

	s->fault_at = s->moved_at = fault_now();
	s->ops.mortal = !is_survived(s->plan);
	switch (s->plan->fault) {
	case FAULT_KILL:
		kill(victim, SIGKILL);
		break;
	case FAULT_STOP:
	case FAULT_STOP_KILL:
		kill(victim, SIGSTOP);
		run_for(s, (int64_t)(s->plan->seed >> 20) % STOP_MAX);
		kill(victim, s->plan->fault == FAULT_STOP ? SIGCONT : SIGKILL);
		break;
	default:
		atomic_store(&board->leave, s->plan->fault + 1);
	}
}

/* ---- afterwards ---- */

/* The peer is alive: sends end because it receives them, and it has all that it sent. */
static void finish_with_living(struct survivor *s)
{
	run_for(s, 2000);
	ops_cancel(&s->ops);
	atomic_store(&board->finish, true);
	while (ops_busy_out(&s->ops) || !atomic_load(&board->done)) {
		ops_receive_any(&s->ops);
		turn(s, "traffic with a peer that was stopped for a moment");
	}
}

static void outlive(struct survivor *s)
{
	for (unsigned i = 0; i < s->plan->later; i++) {
		ops_post(&s->ops, true, true);
		turn(s, "a turn after the fault");
	}
	while (ops_busy_out(&s->ops))
		turn(s, "a send to a dead peer");
	while (ops_busy_in(&s->ops, false))
		turn(s, "a receive that names a dead peer");
}

static void take_back(struct survivor *s)
{
	ops_cancel(&s->ops);
	while (ops_busy_in(&s->ops, true))
		turn(s, "a receive that was cancelled, or matched");
	for (int i = 0; i < QUIET; i++)
		turn(s, "nothing");
}

static void judge(const struct survivor *s)
{
	const struct counts *c = &s->ops.counts;

	MUST(c->posted == c->ok + c->failed + c->cancelled,
	     "%llu operations, but %llu completions", (unsigned long long)c->posted,
	     (unsigned long long)(c->ok + c->failed + c->cancelled));
}

/* ---- a round ---- */

static void meet_victim(struct survivor *s, int round)
{
	size_t len;

	fault_open(&s->end, s->plan, board->survivor, &len);
	ops_open(&s->ops, &s->end, s->plan->seed);
	s->ops.errors = s->plan->errors;
	s->moved_at = fault_now();
	atomic_store(&board->flowing, false);
	atomic_store(&board->finish, false);
	atomic_store(&board->done, false);
	atomic_store(&board->leave, 0);
	atomic_store(&board->closed, false);
	atomic_store(&board->born, round);
	while (atomic_load(&board->opened) < round) {
		MUST(!atomic_load(&board->failed), "the victim: %s", board->why);
		turn(s, "the birth of a victim");
	}
	end_set_peer(&s->end, board->victim);
}

void fault_round(int round, struct outcome *outcome)
{
	struct survivor s = { .plan = &board->plan };

	meet_victim(&s, round);
	reach_phase(&s);
	run_for(&s, s.plan->delay);
	if (s.plan->phase == PHASE_LEAVING)
		reach_leaving(&s);
	outcome->state = fault_state(&s.end, board->victim);
	commit(&s);
	if (is_survived(s.plan))
		finish_with_living(&s);
	else
		outlive(&s);
	outcome->worst = s.moved_at - s.fault_at;
	s.ops.mortal = true;
	atomic_store(&board->over, round);
	while (atomic_load(&board->reaped) < round)
		turn(&s, "the burial");
	take_back(&s);
	judge(&s);
	outcome->counts = s.ops.counts;
	end_close(&s.end);
	ops_close(&s.ops);
}
