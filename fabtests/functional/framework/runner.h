/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Runs one test case in fresh processes, one per rank, and judges how they end.
 *
 *                 +-- control socket -- rank 0 --+
 *   runner -------+-- control socket -- rank 1   +-- fabric under test
 *     |           +-- control socket -- rank 2 --+
 *     +---- one shared page: last step, reason of failure, permission to die
 *
 * Ranks meet over the control sockets only, never over the fabric. The first
 * rank that fails, hangs or crashes ends the case for all of them.
 */
#ifndef FUNCTIONAL_RUNNER_H
#define FUNCTIONAL_RUNNER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	RUN_RANKS_MAX = 16,
	RUN_BLOB_MAX = 512,	/* bytes one rank may contribute to an exchange */
	RUN_TEXT_MAX = 512,
};

struct run_options {
	const char *provider;
	const char *device[2];	/* FI_TAGRV_DEVICES of even and odd ranks, or NULL */
	const char *address[2];	/* source address of even and odd ranks, or NULL */
	bool self;		/* one process plays sender and receiver */
	uint64_t seed;
	int timeout_s;		/* of one case */
};

enum run_death {
	RUN_MUST_LIVE,		/* dying is a failure */
	RUN_MAY_DIE,		/* SIGKILL ends the rank without blame */
	RUN_COMES_BACK,		/* so it does, and a new process takes over the rank */
};

/* What a rank leaves behind for the runner, readable however it ends. */
struct run_rank {
	char phase[32];		/* what the fixture is doing: opening, open, closing */
	char step[RUN_TEXT_MAX];
	char why[RUN_TEXT_MAX];
	_Atomic int64_t failed_at;	/* run_now(), or 0 */
	_Atomic pid_t pid;
	_Atomic int death;
};

struct run_shared {
	struct run_rank rank[RUN_RANKS_MAX];
	char note[RUN_TEXT_MAX];	/* from one life of a rank to the next */
};

/* The view a test case has of its own process. */
struct test {
	const struct run_options *opt;
	int rank;
	int ranks;
	int life;		/* 0, or 1 in the process that took over a rank */
	int64_t deadline;	/* run_now() at which waiting for a completion is given up */
	int64_t patience;	/* the same for other ranks: later, so that their reason is told */
	uint64_t seed;		/* equal in all ranks of the case */
	int hub;
	struct run_shared *shared;
};

struct test_case {
	const char *name;
	const char *shows;
	void (*run)(struct test *t);
	int ranks;		/* 0 means 2 */
	bool self;		/* also makes sense with one process talking to itself */
	int slow;		/* multiplies the timeout; 0 means 1 */
};

enum run_outcome { RUN_PASSED, RUN_FAILED, RUN_SKIPPED };

struct run_result {
	enum run_outcome outcome;
	char why[2 * RUN_TEXT_MAX];
};

/* One contribution per rank; len is 0 for ranks that are gone. */
struct run_gathered {
	uint32_t len[RUN_RANKS_MAX];
	uint8_t data[RUN_RANKS_MAX][RUN_BLOB_MAX];
};

typedef void (*run_idle_fn)(void *arg);

/* Runner side. */
void run_case(const struct test_case *test_case, const struct run_options *opt,
	      struct run_result *result);

/* Rank side: monotonic milliseconds. */
int64_t run_now(void);

/* Notes what comes next; shown when the case fails or hangs. */
void run_step(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void run_phase(const char *phase);

/* Ends the process and the case. */
_Noreturn void run_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
_Noreturn void run_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Fails unless ret is 0; the reason names the call and the fabric error. */
void run_ok(const char *file, int line, const char *call, long ret);

/*
 * Gathers one blob of every living rank; a barrier when len is 0. 'idle' is
 * called over and over while others are late, or the rank sleeps when it is NULL.
 */
void run_exchange(struct test *t, const void *mine, size_t len, struct run_gathered *all,
		  run_idle_fn idle, void *arg);

/* Waits for all living ranks without calling the fabric at all. */
void run_barrier(struct test *t);

/* Ends a rank by SIGKILL: oneself or another. */
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
