/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * run.c of tagrv_perf and tagrv_pingpong against teams that only pretend: an operation takes a given time, and a
 * round that takes longer than the coordinator waits is a hang.
 */
#include <criterion/criterion.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "run.h"
#include "team.h"

TestSuite(plan, .timeout = 10);

/* What the real coordinator waits for, without its grace (team.c). */
#define PATIENCE	20

static struct {
	double	operation;		/* s */
	double	connection;		/* s, in the first round of a team */
	uint64_t rounds, operations, largest;
	double	seconds;
	unsigned hangs;
	struct perf_row last;
	char	lines[256];		/* the tests and sizes of all lines */
} seen;

int team_open(struct team *team, const struct perf_options *opt, const struct perf_hello *hello, size_t pairs)
{
	*team = (struct team){ .hello = *hello, .pairs = pairs, .timeout = opt->timeout, .open = true };
	return 0;
}

int team_round(struct team *team, const struct perf_order *order, double expected,
	       struct team_result *result, struct hist *hist)
{
	const uint64_t count = order_operations(order);
	const double seconds = (double)count * seen.operation + (seen.rounds ? 0 : seen.connection);

	cr_assert(order_is_possible(&team->hello, order));
	seen.rounds++;
	seen.operations += count;
	seen.largest = count > seen.largest ? count : seen.largest;
	seen.seconds += seconds;
	*result = (struct team_result){
		.seconds = seconds, .per_second = (double)count / seconds,
		/* The rounds of a line differ, and so do their pauses. */
		.unit = seen.operation * (double)(seen.rounds % 3 + 1), .pause = (double)seen.rounds,
	};
	hist_add(hist, (uint64_t)(seen.operation * 1e10));
	/* One that is slow, which few percentiles see. */
	if (order->blocks && hist->total == 1)
		hist_add(hist, (uint64_t)(seen.operation * 4e10));
	if (seconds <= team->timeout + PATIENCE * expected)
		return 0;
	seen.hangs++;
	strcpy(team->why, "hangs");
	team_close(team);
	return -1;
}

void team_close(struct team *team)
{
	team->open = false;
}

void results_add(struct perf_results *res, const struct perf_row *row)
{
	const size_t at = strlen(seen.lines);

	res->row_cnt++;
	seen.last = *row;
	snprintf(seen.lines + at, sizeof(seen.lines) - at, " %s %zu", perf_tests[row->test].name, row->size);
}

void results_leave_out(struct perf_results *res, const struct perf_left_out *left_out)
{
	(void)left_out;
	res->left_out_cnt++;
}

void results_about(struct perf_results *res, size_t provider, const struct perf_about *about)
{
	(void)res;
	(void)provider;
	(void)about;
}

void progress_start(size_t steps, bool quiet)
{
	(void)steps;
	(void)quiet;
}

void progress_step(const char *provider, const struct perf_row *row)
{
	(void)provider;
	(void)row;
}

void progress_clear(void)
{
}

typedef void (*parse_fn)(struct perf_options *opt, int argc, char **argv);

/* Runs a program with these words as arguments; an operation takes so many seconds. */
static struct perf_results run_as(parse_fn parse, double operation, double connection, const char *words)
{
	char *copy = strdup(words), *state = NULL, name[] = "program", *argv[32] = { name };
	struct perf_options opt;
	struct perf_results res = { .opt = &opt };
	int argc = 1;

	for (char *s = strtok_r(copy, " ", &state); s; s = strtok_r(NULL, " ", &state))
		argv[argc++] = s;
	memset(&seen, 0, sizeof(seen));
	seen.operation = operation;
	seen.connection = connection;
	optind = 0;
	parse(&opt, argc, argv);
	run_all(&res, 0);
	free(copy);
	res.opt = NULL;
	return res;
}

static struct perf_results run(double operation, double connection, const char *words)
{
	return run_as(options_parse, operation, connection, words);
}

static struct perf_results run_pingpong(double operation, const char *words)
{
	return run_as(pingpong_parse, operation, 0, words);
}

Test(plan, a_warm_up_beyond_the_timeout_is_no_hang)
{
	/* 10000 operations of 0.1 s are a quarter of an hour. */
	const struct perf_results res = run(0.1, 0, "-t lat -s 8 -r 1 -n 3 -W 10000 --timeout 2");

	cr_assert_eq(seen.hangs, 0);
	cr_assert_eq(res.row_cnt, 1);
	cr_assert_eq(res.left_out_cnt, 0);
	cr_assert_eq(seen.operations, 10003);
	cr_assert_eq(seen.last.count, 3);
}

Test(plan, a_round_beyond_the_timeout_is_no_hang)
{
	const struct perf_results res = run(0.1, 0, "-t bw -s 8 -r 2 -n 5000 --timeout 1");

	cr_assert_eq(seen.hangs, 0);
	cr_assert_eq(res.row_cnt, 1);
	cr_assert_eq(seen.operations, 20 + 2 * 5000);
}

Test(plan, what_takes_too_long_is_left_out)
{
	const struct perf_results res = run(10, 0, "-t lat,bw -s 8 -r 1 -n 3 --timeout 2");

	cr_assert_eq(seen.hangs, 1);
	cr_assert_eq(res.failures, 1);
	cr_assert_eq(res.row_cnt, 0);
	cr_assert_eq(res.left_out_cnt, 2);
}

/* Not those of the connection, which would let rounds have too few. */
Test(plan, rounds_have_as_many_operations_as_fit_the_time)
{
	static const char *const warm_ups[] = {
		"-t lat -s 8 -r 10 -T 1 -W 1", "-t lat -s 8 -r 10 -T 1 -W 20", "-t lat -s 8 -r 10 -T 1 -W 300",
	};

	for (size_t i = 0; i < sizeof(warm_ups) / sizeof(warm_ups[0]); i++) {
		const struct perf_results res = run(1e-5, 0.5, warm_ups[i]);

		cr_assert_eq(res.row_cnt, 1);
		cr_assert_leq(llabs((long long)seen.last.count - 10000), 1, "%s: %llu", warm_ups[i],
			      (unsigned long long)seen.last.count);
		cr_assert_lt(seen.seconds, 0.5 + 1.5);
	}
}

/* --- blocks ------------------------------------------------------------------------- */

Test(plan, blocks_share_the_time_of_a_round)
{
	const struct perf_results res = run(1e-5, 0, "-t lat -s 8 -r 10 -b 5 -T 1");

	cr_assert_eq(res.row_cnt, 1);
	cr_assert_leq(llabs((long long)seen.last.count - 10000), 5, "%llu", (unsigned long long)seen.last.count);
}

Test(plan, a_time_is_the_median_of_blocks)
{
	/* The fake's rounds are 1, 2 and 3 times as slow; its histogram knows of 1 and 4 only. */
	run(1e-6, 0, "-t lat -s 8 -r 12 -b 5 -n 10 -W 1");
	cr_assert_float_eq(seen.last.times[PERF_P50], 2e-6, 1e-12);
	cr_assert_eq(seen.last.count, 50);
	cr_assert_eq(seen.rounds, 1 + 12);
	cr_assert_float_eq(seen.last.pause, 13, 1e-12);
	for (int i = PERF_MIN; i < PERF_MAX; i++)
		cr_assert_leq(seen.last.times[i], seen.last.times[i + 1]);
}

Test(plan, a_window_for_latency_is_its_buffers)
{
	run(1e-6, 0, "-t lat -s 8 -n 1");
	cr_assert_eq(seen.last.window, 2);
	run(1e-6, 0, "-t lat -s 8 -n 1 -w 7");
	cr_assert_eq(seen.last.window, 7);
	run(1e-6, 0, "-t depth -s 8 -n 1 -w 7");
	cr_assert_eq(seen.last.window, 2);
}

/* --- tagrv_pingpong ----------------------------------------------------------------- */

Test(plan, pingpong_measures_size_by_size_as_listed)
{
	const struct perf_results res = run_pingpong(1e-6, "-S 1M,8,8 -n 1");

	cr_assert_eq(res.row_cnt, 6);
	cr_assert_str_eq(seen.lines, " lat 1048576 bw 1048576 lat 8 bw 8 lat 8 bw 8");
}

Test(plan, pingpong_warms_up_shortly_and_counts_windows)
{
	/* 4 and 1 round trips, then all blocks at once. */
	run_pingpong(1e-6, "-m lat -S 8 -n 1 -b 1000");
	cr_assert_eq(seen.operations, 5 + 1000);
	cr_assert_eq(seen.rounds, 3);
	/* A window to warm up: 4 messages, and the others. */
	run_pingpong(1e-6, "-m bw -S 8 -n 3 -b 2 -w 10");
	cr_assert_eq(seen.operations, 10 + 2 * 3 * 10);
	cr_assert_eq(seen.rounds, 3);
	cr_assert_eq(seen.last.count, 60);
}

Test(plan, pingpong_divides_the_time_by_the_blocks)
{
	run_pingpong(1e-6, "-m lat -S 8 -b 10 -t 2");
	cr_assert_leq(llabs((long long)seen.last.count - 2000000), 10, "%llu",
		      (unsigned long long)seen.last.count);
}
