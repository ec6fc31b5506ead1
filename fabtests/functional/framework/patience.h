/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Runner side: gives up a case that has stalled or is too slow, and reports which
 * of the two. runner.h says what counts as a move.
 */
#ifndef FUNCTIONAL_PATIENCE_H
#define FUNCTIONAL_PATIENCE_H

#include "runner.h"

enum { PATIENCE_LOOK_MS = 200 };	/* between two looks */

struct patience {
	const char *name;	/* of the case */
	struct run_shared *shared;
	int ranks;
	int64_t stall_ms, limit_ms;
	int64_t started, looked_at, moved_at, told_at;	/* run_now() */
	int64_t given_up_at;	/* run_now(), or 0 */
	uint64_t moves;
	bool stalled;
	int64_t worked[RUN_RANKS_MAX];	/* ms of processor time of each rank since moved_at */
	int64_t worked_before[RUN_RANKS_MAX];
};

/* Begins to watch a case that starts now. The name is not copied. */
void patience_start(struct patience *p, const char *name, struct run_shared *shared, int ranks,
		    int64_t stall_ms, int64_t limit_ms);

/*
 * To be called every PATIENCE_LOOK_MS, or more often. Says on standard output, once
 * a minute, that the case still runs. Returns true when the case was given up and
 * its ranks had time to fail: those that still run are to be killed.
 */
bool patience_is_over(struct patience *p);

/*
 * Writes why the case was given up, and for each rank its step, the text of its
 * CHECK_MOVES(), the processor time it used since the last move of any rank, and its
 * provider's statistics.
 */
void patience_report(const struct patience *p, char *text, size_t size);

#endif
