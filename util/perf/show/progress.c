/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A line on the terminal: a bar, what is measured now, and how long it may still take.
 */
#include "results.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

enum { BAR = 24, PAUSE_MS = 100 };

static struct {
	bool	on, shown;
	size_t	steps, done;
	uint64_t start, last;		/* ns */
} progress;

void progress_start(size_t steps, bool quiet)
{
	progress.on = !quiet && isatty(STDERR_FILENO);
	progress.steps = steps;
	progress.start = clock_monotonic_ns();
}

static void draw(const char *provider, const struct perf_row *row, double left)
{
	const size_t full = progress.done * BAR / (progress.steps ? progress.steps : 1);
	char bar[BAR + 1];

	memset(bar, '.', BAR);
	memset(bar, '#', full < BAR ? full : BAR);
	bar[BAR] = 0;
	fprintf(stderr, "\r[%s] %s %s, %zu bytes, %.0f s left\033[K", bar, provider,
		perf_tests[row->test].name, row->size, left);
	fflush(stderr);
	progress.shown = true;
}

void progress_step(const char *provider, const struct perf_row *row)
{
	const uint64_t now = clock_monotonic_ns();
	const double past = (double)(now - progress.start) * 1e-9;

	progress.done++;
	if (!progress.on || now - progress.last < PAUSE_MS * 1000000ull)
		return;
	progress.last = now;
	draw(provider, row, past / (double)progress.done * (double)(progress.steps - progress.done));
}

void progress_skip(size_t steps)
{
	progress.done += steps;
}

void progress_clear(void)
{
	if (!progress.shown)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	progress.shown = false;
}
