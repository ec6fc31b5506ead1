/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Runs one test case in new processes, one per rank, and judges how they end.
 *
 *                 +-- control socket -- rank 0 --+
 *   runner -------+-- control socket -- rank 1   +-- fabric under test
 *     |           +-- control socket -- rank 2 --+
 *     +---- one shared page: last step, reason of failure, permission to die
 *
 * Ranks meet over the control sockets only, never over the fabric. The first
 * rank that fails or crashes ends the case for all of them.
 *
 * No wait has a deadline of its own. Each rank counts its moves in the shared
 * page: steps, completions, meetings, and changes of the provider's statistics.
 * Several times a second the runner adds the counts up (patience.h). When the sum
 * stood still for stall_s seconds, the case has stalled; when the sum still grows
 * after timeout_s seconds, the case is too slow. In both cases CHECK_MOVES() then
 * fails in every rank that waits, and the report shows what each waited for.
 */
#ifndef FUNCTIONAL_RUNNER_H
#define FUNCTIONAL_RUNNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	RUN_RANKS_MAX = 24,
	RUN_BLOB_MAX = 512,	/* bytes one rank may contribute to an exchange */
	RUN_TEXT_MAX = 512,
	RUN_REPORT_MAX = 16384,
};

struct test;

/* How all ranks of a case run as threads of one process, whose devices are in its memory. */
struct run_together {
	void (*begin)(int ranks);
	/* Runs the case of this name in the calling thread, with variables of its own. */
	void (*rank)(const char *name, struct test *t);
	/* Returns what is wrong after all ranks have passed, or NULL. */
	const char *(*end)(void);
};

struct run_options {
	const char *provider;
	const struct run_together *together;	/* NULL: each rank is a process */
	const char *device[2];	/* FI_TAGRV_DEVICES of even and odd ranks, or NULL */
	const char *address[2];	/* source address of even and odd ranks, or NULL */
	bool self;		/* one process plays sender and receiver */
	uint64_t seed;
	int stall_s;		/* a case fails when no rank moves for so long */
	int timeout_s;		/* a case fails after so long even if ranks move */
};

enum run_death {
	RUN_MUST_LIVE,		/* dying is a failure */
	RUN_MAY_DIE,		/* SIGKILL ends the rank without blame */
	RUN_COMES_BACK,		/* as RUN_MAY_DIE; then a new process takes over the rank */
};

/* Written by a rank in shared memory, so that the runner can read it however the rank ends. */
struct run_rank {
	char phase[32];		/* what the fixture is doing: opening, open, closing */
	char step[RUN_TEXT_MAX];
	char why[RUN_TEXT_MAX];
	char stats[RUN_TEXT_MAX];	/* what the provider told last */
	_Atomic uint64_t moves;
	_Atomic int64_t failed_at;	/* run_now(), or 0 */
	_Atomic pid_t pid;
	_Atomic int death;
};

struct run_shared {
	struct run_rank rank[RUN_RANKS_MAX];
	_Atomic unsigned looks;		/* the runner's looks at the moves so far */
	atomic_bool given_up;		/* by the runner: CHECK_MOVES() fails */
	char note[RUN_TEXT_MAX];	/* left by a rank for the process that takes over */
};

/* What a test case knows about its own process. */
struct test {
	const struct run_options *opt;
	int rank;
	int ranks;
	int life;		/* 0, or 1 in the process that took over a rank */
	uint64_t seed;		/* equal in all ranks of the case */
	int hub;
	struct run_shared *shared;
};

struct test_case {
	const char *name;
	const char *shows;
	void (*run)(struct test *t);
	int ranks;		/* 0 means 2 */
	bool self;		/* the case also runs with one process (--self) */
	bool rdma;		/* the case is about RDMA devices: not run where only others are
				   named */
	int slow;		/* multiplies timeout_s; 0 means 1 */
};

enum run_outcome { RUN_PASSED, RUN_FAILED, RUN_SKIPPED };

struct run_result {
	enum run_outcome outcome;
	char why[RUN_REPORT_MAX];
};

/* The contributions of all ranks; len is 0 for ranks that are gone. */
struct run_gathered {
	uint32_t len[RUN_RANKS_MAX];
	uint8_t data[RUN_RANKS_MAX][RUN_BLOB_MAX];
};

typedef void (*run_idle_fn)(void *arg);

/* For the program: runs a case and returns its result. */
void run_case(const struct test_case *test_case, const struct run_options *opt,
	      struct run_result *result);

struct run_tally {
	int passed;
	int failed;
	int skipped;
};

/* Likewise; prints the result as one line and counts it. */
void run_counted(const struct test_case *test_case, const struct run_options *opt,
		 struct run_tally *tally);
/* The last line of a program. */
void run_print_tally(const struct run_tally *tally);

/* Monotonic milliseconds. All calls from here on are for ranks. */
int64_t run_now(void);

/* ms of a quiet machine, multiplied on a slow one: for limits of what must be fast. */
int64_t run_slow_ms(int ms);

/* Notes the next step of the case, to be shown when it fails or hangs. */
void run_step(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void run_phase(const char *phase);

/* Counts a move: something happened that the case waits for. */
void run_moved(void);

/* Publishes the provider's statistics for the report; 'moved': they have changed. */
void run_tell(const char *stats, bool moved);

/*
 * For every loop that waits: returns as long as the case moves, afterwards fails
 * with the text, which says what is missing. See FX_CHECK_MOVES() in fixture.h.
 */
#define CHECK_MOVES(...) run_check_moves(__FILE__, __LINE__, __VA_ARGS__)
bool run_is_given_up(void);
void run_check_moves(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Ends the process and the case. Use CHECK() and the like. */
_Noreturn void run_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
_Noreturn void run_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Skips the case if all ranks are one process: stops, ends or measures processes. */
void run_need_processes(const struct test *t);

/* Fails unless ret is 0, and reports the call and the fabric error. */
void run_ok(const char *file, int line, const char *call, long ret);

/*
 * Gathers one blob from every living rank; with len 0 it is a barrier. While
 * other ranks are late, 'idle' is called repeatedly; if it is NULL, the rank sleeps.
 */
void run_exchange(struct test *t, const void *mine, size_t len, struct run_gathered *all,
		  run_idle_fn idle, void *arg);

/* Waits for all living ranks, without progress. */
void run_barrier(struct test *t);

/* Ends a rank, also the calling one, by SIGKILL. */
void run_kill(struct test *t, int rank, enum run_death death);

static inline bool run_sends(const struct test *t)
{
	return t->rank == 0;
}

static inline bool run_receives(const struct test *t)
{
	return t->ranks == 1 || t->rank == 1;
}

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond))                                                                       \
			run_fail(__FILE__, __LINE__, __VA_ARGS__);                                 \
	} while (0)

#define CHECK_OK(call) run_ok(__FILE__, __LINE__, #call, (call))

/* The call must fail with exactly this (negative) fabric error. */
#define CHECK_ERR(call, want) run_error(__FILE__, __LINE__, #call, (call), (want))
void run_error(const char *file, int line, const char *call, long ret, long want);

#endif
