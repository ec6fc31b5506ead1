/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Processes are killed amid transfers through shared memory; their peer goes on.
 *
 * In every round a new victim exchanges messages with the survivor, as sender or
 * receiver, and is killed at a random moment. Then the survivor must get exactly one
 * completion for each accepted operation, must hold no resource of the victim, and
 * must still exchange correct messages with its partner, as it does all the time.
 * There is one case each for messages sent eagerly, read through the rings, and read
 * with one copy.
 */
#include "framework/options.h"
#include "kill.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

/* Errors should come within WANTED_US; on a busy machine they may take until LIMIT_US. */
enum { WANTED_US = 1000000, LIMIT_US = 10000000, SETTLE_MS = 10000, WARM_UP = 64, AFTER = 16,
       QUIET = 100 };

/* The survivor's flows. */
enum { OUT, BACK, DATA, NEVER, FLOWS };

static uint64_t rounds = 100;

struct survivor {
	struct test *t;
	struct fx fx;
	struct flow flow[FLOWS];
	struct left before;		/* before the first round */
	struct left first;		/* after the second round */
	uint8_t sock[SOCK_NAME_MAX];	/* socket name of this round's victim */
	size_t	sock_len;
	uint64_t random;
	uint64_t errors, most;		/* failed operations: all, most of one round */
	uint64_t slow;			/* rounds with an error later than WANTED_US */
	int64_t worst;			/* us until the last error */
};

static void turn(struct survivor *s)
{
	for (int i = 0; i < FLOWS; i++)
		if (s->flow[i].fx)
			flow_post(&s->flow[i]);
	if (!flow_poll(s->flow, FLOWS))
		sched_yield();
	FX_CHECK_MOVES(&s->fx, "the survivor does not get on");
}

/* ---- one round ---- */

static void begin(struct survivor *s, int round)
{
	run_step("round %d: a victim comes", round);
	while (!kill_meet(&s->fx, VICTIM, round))
		turn(s);
	memcpy(s->sock, board->sock, sizeof(s->sock));
	s->sock_len = board->sock_len;
	atomic_store(&board->killed_at, 0);
	flow_open(&s->flow[DATA], &s->fx, FLOW_DATA, round, !(round & 1), s->fx.addr[VICTIM]);
	flow_open(&s->flow[NEVER], &s->fx, FLOW_NEVER, round, true, s->fx.addr[VICTIM]);
	s->flow[DATA].mortal = s->flow[NEVER].mortal = true;
	atomic_store(&board->begun, round + 1);
}

/* Exchanges some messages, then lets the partner kill the victim. */
static void flow_freely(struct survivor *s, int round)
{
	uint64_t want = 1 + pattern_next(&s->random) % (kill_kind == KILL_EAGER ? 500 : 25);

	run_step("round %d: %" PRIu64 " messages", round, want);
	while (s->flow[DATA].done < want)
		turn(s);
	atomic_store(&board->flowing, round + 1);
	while (atomic_load(&board->killed) <= round)
		turn(s);
	s->flow[NEVER].stopped = true;
	s->flow[DATA].stopped = s->flow[DATA].sends;
}

static void turn_after(struct survivor *s)
{
	int64_t late = kill_now() - atomic_load(&board->killed_at);

	turn(s);
	CHECK(late < run_slow_ms(LIMIT_US / 1000) * 1000, "%d ms after the death: %u %s and %u unanswered sends outstanding",
	      (int)(late / 1000), s->flow[DATA].busy, s->flow[DATA].sends ? "sends" : "receives",
	      s->flow[NEVER].busy);
}

/* Messages of the victim that have arrived are received: correctly, or with an error. */
static void receive_rest(struct survivor *s)
{
	struct flow *data = &s->flow[DATA];
	uint64_t before;

	do {
		before = data->done + data->failed;
		for (int i = 0; i < QUIET; i++)
			turn_after(s);
	} while (data->done + data->failed != before);
	data->stopped = true;
}

/*
 * Sends and matched receives must end by themselves. Receives that no message has
 * matched are cancelled.
 */
static void outlive(struct survivor *s, int round)
{
	struct flow *data = &s->flow[DATA], *never = &s->flow[NEVER];

	run_step("round %d: the victim was killed", round);
	while (never->busy || (data->sends && data->busy))
		turn_after(s);
	if (!data->sends)
		receive_rest(s);
	flow_cancel(data);
	while (data->busy)
		turn_after(s);
	CHECK(never->failed == never->posted, "%" PRIu64 " of %" PRIu64 " unmatched sends "
	      "failed", never->failed, never->posted);
	for (int i = DATA; i <= NEVER; i++) {
		struct flow *f = &s->flow[i];

		CHECK(f->posted == f->done + f->failed + f->cancelled,
		      "%" PRIu64 " operations, but %" PRIu64 " completions", f->posted,
		      f->done + f->failed + f->cancelled);
	}
}

static void judge(struct survivor *s)
{
	uint64_t errors = s->flow[DATA].failed + s->flow[NEVER].failed;
	int64_t worst = s->flow[DATA].worst;

	if (s->flow[NEVER].worst > worst)
		worst = s->flow[NEVER].worst;
	s->errors += errors;
	s->slow += worst > WANTED_US;
	if (errors > s->most)
		s->most = errors;
	if (worst > s->worst)
		s->worst = worst;
}

/* Waits until nothing of the victim is left: other threads close connections, too. */
static void settle(struct survivor *s, int round)
{
	int64_t end = run_now() + run_slow_ms(SETTLE_MS);
	struct left now;

	run_step("round %d: what is left", round);
	for (;;) {
		left_look(&now);
		if (left_same(&now, &s->before) && !left_sockets(s->sock, s->sock_len))
			return;
		if (run_now() >= end)
			break;
		turn(s);
	}
	left_list();
	CHECK(false, "left of the victim: %d descriptors, %d mappings, %d connections to us, %u "
	      "sockets of its own", (int)(now.fds - s->before.fds),
	      (int)(now.rings - s->before.rings), (int)(now.sockets - s->before.sockets),
	      left_sockets(s->sock, s->sock_len));
}

static void meet_partner(struct survivor *s, uint64_t more)
{
	uint64_t out = s->flow[OUT].done + more, back = s->flow[BACK].done + more;

	while (s->flow[OUT].done < out || s->flow[BACK].done < back)
		turn(s);
}

static void one_round(struct survivor *s, int round)
{
	begin(s, round);
	flow_freely(s, round);
	outlive(s, round);
	judge(s);
	flow_close(&s->flow[DATA]);
	flow_close(&s->flow[NEVER]);
	CHECK_OK(fi_av_remove(s->fx.av, &s->fx.addr[VICTIM], 1, 0));
	settle(s, round);
	run_step("round %d: messages of the partner", round);
	meet_partner(s, AFTER);
}

/* ---- all rounds ---- */

static void tell(const struct survivor *s)
{
	struct left now;

	left_look(&now);
	printf("%" PRIu64 " killed: %" PRIu64 " operations ended with an error, at most %" PRIu64
	       " of one victim, the last %.1f ms after its death (%" PRIu64
	       " rounds above 1 s); %" PRIu64 " messages of the partner meanwhile\n"
	       "    before the first and after the last: %u and %u descriptors, %u and %u rings "
	       "mapped; after the second and the last: %u and %u mappings in all, %zu and %zu KiB "
	       "resident\n",
	       rounds, s->errors, s->most, (double)s->worst / 1000, s->slow,
	       s->flow[OUT].done + s->flow[BACK].done, s->before.fds, now.fds, s->before.rings,
	       now.rings, s->first.maps, now.maps, s->first.rss, now.rss);
}

/* Skips the case where the kernel does not allow process_vm_readv. */
static void need_copy(struct test *t)
{
	int there = -1;
	struct iovec local = { &there, sizeof(there) };
	struct iovec remote = { &board->begun, sizeof(there) };
	pid_t pid = atomic_load(&t->shared->rank[PARTNER].pid);

	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) != sizeof(there))
		run_skip("process_vm_readv is not allowed here");
}

static void survive(struct test *t)
{
	struct survivor *s = calloc(1, sizeof(*s));

	CHECK(s, "no memory");
	s->t = t;
	s->random = t->seed;
	kill_open(t, &s->fx);
	while (!kill_meet(&s->fx, PARTNER, 0))
		fx_idle(&s->fx, 1);
	if (kill_kind == KILL_COPY)
		need_copy(t);
	flow_open(&s->flow[OUT], &s->fx, FLOW_OUT, 0, true, s->fx.addr[PARTNER]);
	flow_open(&s->flow[BACK], &s->fx, FLOW_BACK, 0, false, FI_ADDR_UNSPEC);
	meet_partner(s, WARM_UP);
	left_look(&s->before);
	for (int i = 0; i < (int)rounds; i++) {
		one_round(s, i);
		if (i == 1)
			left_look(&s->first);
	}
	tell(s);
	atomic_store(&board->over, true);
	fx_close_now(&s->fx);
	for (int i = 0; i < FLOWS; i++)
		if (s->flow[i].fx)
			flow_close(&s->flow[i]);
	free(s);
}

static void be(struct test *t)
{
	if (t->rank == SURVIVOR)
		survive(t);
	else if (t->rank == VICTIM)
		kill_be_victim(t);
	else
		kill_be_partner(t);
}

/* total: rounds of all cases together. */
static int run_all(const struct run_options *opt, uint64_t total)
{
	static const struct test_case cases[] = {
		{ "kill_eager", "", be, .ranks = KILL_RANKS },
		{ "kill_ring", "", be, .ranks = KILL_RANKS },
		{ "kill_copy", "", be, .ranks = KILL_RANKS },
	};
	struct run_tally tally = { 0 };

	for (int kind = KILL_EAGER; kind <= KILL_COPY; kind++) {
		memset(board, 0, sizeof(*board));
		kill_kind = (enum kill_kind)kind;
		rounds = (total + (uint64_t)kind) / 3;
		setenv("FI_TAGRV_SHM_CMA", kind == KILL_COPY ? "yes" : "no", 1);
		run_counted(&cases[kind], opt, &tally);
	}
	run_print_tally(&tally);
	return tally.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	struct option_number own[] = {
		{ "rounds", "processes to kill, all cases together", &rounds },
	};
	struct options opt;

	setvbuf(stdout, NULL, _IOLBF, 0);
	options_parse(&opt, argc, argv, own, 1);
	options_default_timeout(&opt, 600);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (board == MAP_FAILED || rounds < 3 || rounds > 1000000) {
		fputs("tagrv_kill: --rounds wants 3 or more\n", stderr);
		return 2;
	}
	setenv("FI_TAGRV_CONNECT_TIMEOUT", "3", 1);
	printf("seed %" PRIu64 ", %" PRIu64 " processes to kill\n", opt.run.seed, rounds);
	return run_all(&opt.run, rounds);
}
