/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * run.c of tagrv_perf against teams that only pretend: an operation takes a given time, and a
 * round that takes longer than the coordinator waits is a hang.
 */
#include <criterion/criterion.h>
#include <getopt.h>
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
} seen;

int team_open(struct team *team, const struct perf_options *opt, const struct perf_hello *hello, size_t pairs)
{
	*team = (struct team){ .hello = *hello, .pairs = pairs, .timeout = opt->timeout, .open = true };
	return 0;
}

int team_round(struct team *team, const struct perf_order *order, double expected,
	       struct team_result *result, struct hist *hist)
{
	const double seconds = (double)order->count * seen.operation + (seen.rounds ? 0 : seen.connection);

	cr_assert(order_is_possible(&team->hello, order));
	seen.rounds++;
	seen.operations += order->count;
	seen.largest = order->count > seen.largest ? order->count : seen.largest;
	seen.seconds += seconds;
	*result = (struct team_result){ .seconds = seconds, .per_second = (double)order->count / seconds };
	hist_add(hist, (uint64_t)(seen.operation * 1e10));
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
	res->row_cnt++;
	seen.last = *row;
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

/* Runs tagrv_perf with these words as arguments; an operation takes so many seconds. */
static struct perf_results run(double operation, double connection, const char *words)
{
	char *copy = strdup(words), *state = NULL, name[] = "tagrv_perf", *argv[32] = { name };
	struct perf_options opt;
	struct perf_results res = { .opt = &opt };
	int argc = 1;

	for (char *s = strtok_r(copy, " ", &state); s; s = strtok_r(NULL, " ", &state))
		argv[argc++] = s;
	memset(&seen, 0, sizeof(seen));
	seen.operation = operation;
	seen.connection = connection;
	optind = 0;
	options_parse(&opt, argc, argv);
	run_all(&res, 0);
	free(copy);
	res.opt = NULL;
	return res;
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
