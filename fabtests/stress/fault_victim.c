/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The nursery of tagrv_fault, and the life of a victim: random operations until it is
 * killed, leaves by itself, or has received all that was sent to it.
 */
#include "fault.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nobody asks for anything any more: what was sent is received. */
static void finish(struct ops *o, int round)
{
	ops_cancel(o);
	while (atomic_load(&board->over) < round) {
		ops_receive_any(o);
		if (!ops_poll(o))
			sched_yield();
		if (!ops_busy_out(o))
			atomic_store(&board->done, true);
		if (atomic_load(&board->leave))
			return;
	}
}

static void leave(struct ops *o)
{
	int how = atomic_load(&board->leave);

	if (how == FAULT_EXIT + 1)
		_exit(0);
	/* What is not received within a second is lost. */
	o->mortal = true;
	end_close_ep(o->end);
	if (how == LEAVE_STAY) {
		atomic_store(&board->closed, true);
		while (atomic_load(&board->leave) == LEAVE_STAY)
			usleep(200);
	}
	_exit(0);
}

static _Noreturn void be_victim(int round)
{
	struct end end;
	struct ops ops;
	size_t len;

	fault_open(&end, &board->plan, board->victim, &len);
	end_set_peer(&end, board->survivor);
	ops_open(&ops, &end, board->plan.seed ^ 0x5bd1e995);
	ops.errors = board->plan.errors;
	atomic_store(&board->opened, round);
	for (;;) {
		if (atomic_load(&board->finish))
			finish(&ops, round);
		if (atomic_load(&board->leave))
			leave(&ops);
		/* The survivor goes on without it: the nursery ends it. */
		while (atomic_load(&board->over) >= round)
			pause();
		ops_post(&ops, true, true);
		if (!ops_poll(&ops))
			sched_yield();
		if (ops.received)
			atomic_store(&board->flowing, true);
	}
}

static void give_birth(int round)
{
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		be_victim(round);
	}
	if (pid < 0)
		fault_fail("fork: %s", strerror(errno));
	atomic_store(&board->pid, pid);
}

/* A victim may crash only because a check of it failed; then it has said so. */
static void bury(int round)
{
	pid_t pid = atomic_load(&board->pid);
	int status;

	while (atomic_load(&board->over) < round)
		usleep(200);
	kill(pid, SIGKILL);
	MUST(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
	MUST(WIFEXITED(status) || WTERMSIG(status) == SIGKILL, "the victim died of signal %d",
	     WTERMSIG(status));
	atomic_store(&board->reaped, round);
}

void fault_nursery(pid_t survivor)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != survivor)
		_exit(1);
	for (int round = 1;; round++) {
		while (atomic_load(&board->born) < round)
			usleep(200);
		give_birth(round);
		bury(round);
	}
}
