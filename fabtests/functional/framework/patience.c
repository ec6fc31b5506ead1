/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How long the runner waits for a case: see patience.h.
 */
#include "patience.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

/* GRACE_MS: time for ranks to notice that the case was given up and to fail. */
enum { GRACE_MS = 5000, TELL_MS = 60000 };

void patience_start(struct patience *p, const char *name, struct run_shared *shared, int ranks,
		    int64_t stall_ms, int64_t limit_ms)
{
	*p = (struct patience){
		.name = name,
		.shared = shared,
		.ranks = ranks,
		.stall_ms = stall_ms,
		.limit_ms = limit_ms,
		.started = run_now(),
		.moved_at = run_now(),
		.told_at = run_now(),
	};
}

static uint64_t count_moves(const struct patience *p)
{
	uint64_t moves = 0;

	for (int i = 0; i < p->ranks; i++)
		moves += atomic_load_explicit(&p->shared->rank[i].moves, memory_order_relaxed);
	return moves;
}

/* The line tells whoever watches the output that the program does not hang. */
static void tell(struct patience *p, int64_t now)
{
	if (now - p->told_at < TELL_MS)
		return;
	p->told_at = now;
	printf("still %s after %d s, moved %d ms ago\n", p->name, (int)((now - p->started) / 1000),
	       (int)(now - p->moved_at));
}

/* Milliseconds of processor time that the rank's process used so far. */
static int64_t work_of(const struct patience *p, int rank)
{
	pid_t pid = atomic_load(&p->shared->rank[rank].pid);
	struct timespec used;
	clockid_t clock;

	if (!pid || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return 0;
	return (int64_t)used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void note_work(struct patience *p, bool moved)
{
	for (int i = 0; i < p->ranks; i++) {
		int64_t work = work_of(p, i);

		if (moved)
			p->worked_before[i] = work;
		p->worked[i] = work - p->worked_before[i];
	}
}

static void look(struct patience *p, int64_t now)
{
	uint64_t moves = count_moves(p);

	p->looked_at = now;
	note_work(p, moves != p->moves);
	if (moves != p->moves) {
		p->moves = moves;
		p->moved_at = now;
	}
	tell(p, now);
	atomic_fetch_add(&p->shared->looks, 1);
	p->stalled = now - p->moved_at >= p->stall_ms;
	if (p->stalled || now - p->started >= p->limit_ms) {
		p->given_up_at = now;
		atomic_store(&p->shared->given_up, true);
	}
}

bool patience_is_over(struct patience *p)
{
	int64_t now = run_now();

	if (p->given_up_at)
		return now - p->given_up_at >= GRACE_MS;
	if (now - p->looked_at >= PATIENCE_LOOK_MS)
		look(p, now);
	return false;
}

/* ---- report ---- */

struct report {
	char *text;
	size_t size, used;
};

static void add(struct report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(struct report *r, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(r->text + r->used, r->size - r->used, fmt, ap);
	va_end(ap);
	if (n > 0)
		r->used += (size_t)n < r->size - r->used ? (size_t)n : r->size - r->used - 1;
}

static void add_rank(struct report *r, const struct patience *p, int rank)
{
	const struct run_rank *left = &p->shared->rank[rank];

	add(r, "\n    rank %d, %s", rank, left->phase);
	if (left->step[0])
		add(r, ", \"%s\"", left->step);
	if (atomic_load(&left->failed_at))
		add(r, ": %s", left->why);
	else
		add(r, ": ended, or stuck where it does not check for moves");
	add(r, "\n        %.1f s of processor time since then%s%s", (double)p->worked[rank] * 1e-3,
	    left->stats[0] ? "; " : "", left->stats);
}

void patience_report(const struct patience *p, char *text, size_t size)
{
	struct report r = { .text = text, .size = size };

	if (p->stalled)
		add(&r, "stalled: nothing moved for %d s", (int)(p->stall_ms / 1000));
	else
		add(&r, "slow: still moving after %d s, last moved %d ms ago",
		    (int)(p->limit_ms / 1000), (int)(p->given_up_at - p->moved_at));
	for (int i = 0; i < p->ranks; i++)
		add_rank(&r, p, i);
}
