/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The plan of a run: see run.h.
 *
 *   for each need of tests (messages, receives in front, remote memory, atomics)
 *     for each number of pairs
 *       open a team for each provider
 *       for each test with this need, depth and size: a line
 *         each team warms up, and is told how many operations fit the time
 *         for each round: each team in turn
 *       close the teams
 */
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"
#include "oob.h"
#include "team.h"

/* Without --window, fewer operations are in flight if they would take more memory. */
#define MEMORY_MOST	((size_t)512 << 20)

struct plan {
	struct perf_results *res;
	const struct perf_options *opt;
	uint64_t session;
	struct team *teams;		/* one for each provider */
	/* Tests of which it was said that they end, since the team's processes have; else -1. */
	int	said[PERF_PROVIDERS_MAX];
};

/* --- lines -------------------------------------------------------------------------- */

static void fill_sizes(const struct perf_options *opt, enum perf_test test, struct perf_list *sizes)
{
	const struct perf_test_info *info = &perf_tests[test];

	if (opt->sizes_given && !info->one_size)
		*sizes = opt->sizes;
	else
		list_parse(sizes, info->sizes, "sizes", 0, PERF_SIZE_MAX);
	/* Remote memory of no bytes has no address, and no provider registers none. */
	if ((info->need >= PERF_REMOTE || test == PERF_REG) && sizes->values[0] == 0 && sizes->count > 1)
		memmove(sizes->values, sizes->values + 1, --sizes->count * sizeof(sizes->values[0]));
}

static void fill_depths(const struct perf_options *opt, enum perf_test test, struct perf_list *depths)
{
	*depths = (struct perf_list){ .count = 1 };
	if (test == PERF_DEPTH)
		*depths = opt->depths;
}

static size_t window_of(const struct perf_options *opt, enum perf_test test, size_t size)
{
	const struct perf_test_info *info = &perf_tests[test];
	size_t fits = size ? MEMORY_MOST / size : info->window;

	if (info->kind != PERF_STREAM && test != PERF_LAT)
		return info->window;
	if (opt->window)
		return opt->window;
	if (test == PERF_LAT)
		return info->window;
	return fits < 2 ? 2 : fits < info->window ? fits : info->window;
}

typedef void (*line_fn)(struct plan *plan, const struct perf_row *line, void *arg);

static struct perf_row make_line(const struct perf_options *opt, enum perf_test test, size_t pairs,
				 size_t depth, size_t size)
{
	return (struct perf_row){
		.test = test, .pairs = pairs, .depth = depth, .size = size, .rounds = opt->rounds,
		.window = window_of(opt, test, size),
	};
}

static bool is_chosen(const struct perf_options *opt, enum perf_test test, enum perf_need need)
{
	return opt->tests[test] && perf_tests[test].need == need;
}

/* All tests of a size together. */
static void each_line_by_size(struct plan *plan, enum perf_need need, size_t pairs, line_fn fn, void *arg)
{
	const struct perf_list *sizes = &plan->opt->sizes;

	for (size_t i = 0; i < sizes->count; i++) {
		for (enum perf_test test = 0; test < PERF_TESTS; test++) {
			const struct perf_row line = make_line(plan->opt, test, pairs, 0, sizes->values[i]);

			if (is_chosen(plan->opt, test, need))
				fn(plan, &line, arg);
		}
	}
}

static void each_line_of(struct plan *plan, enum perf_test test, size_t pairs, line_fn fn, void *arg)
{
	struct perf_list sizes, depths;

	fill_sizes(plan->opt, test, &sizes);
	fill_depths(plan->opt, test, &depths);
	for (size_t i = 0; i < depths.count; i++) {
		for (size_t j = 0; j < sizes.count; j++) {
			const struct perf_row line = make_line(plan->opt, test, pairs, depths.values[i],
							       sizes.values[j]);

			fn(plan, &line, arg);
		}
	}
}

/* Calls fn for each line of the tests that have this need. */
static void each_line(struct plan *plan, enum perf_need need, size_t pairs, line_fn fn, void *arg)
{
	if (plan->opt->by_size) {
		each_line_by_size(plan, need, pairs, fn, arg);
		return;
	}
	for (enum perf_test test = 0; test < PERF_TESTS; test++)
		if (is_chosen(plan->opt, test, need))
			each_line_of(plan, test, pairs, fn, arg);
}

static void count_line(struct plan *plan, const struct perf_row *line, void *arg)
{
	size_t *steps = arg;

	*steps += line->rounds * plan->opt->provider_cnt;
}

/* --- one line ------------------------------------------------------------------------ */

/* What a provider's rounds of one line gave. */
struct line_state {
	struct perf_order order;
	double	expected;		/* s of a round */
	double	once;			/* s of an operation, by the last step of the warm-up */
	unsigned steps;			/* of the warm-up */
	double	rates[PERF_ROUNDS_MAX], units[PERF_ROUNDS_MAX], shares[2][PERF_ROUNDS_MAX];
	double	pause;			/* s, the longest of all rounds */
	struct hist hist;
};

static void leave_out(struct plan *plan, size_t provider, enum perf_test test, size_t pairs, const char *why)
{
	struct perf_left_out left = { .test = test, .provider = provider, .pairs = pairs };

	snprintf(left.why, sizeof(left.why), "%s", why);
	results_leave_out(plan->res, &left);
}

static bool do_round(struct plan *plan, size_t provider, const struct perf_row *line,
		     struct line_state *state, struct team_result *result)
{
	struct team *team = &plan->teams[provider];

	if (!team_round(team, &state->order, state->expected, result, &state->hist))
		return true;
	leave_out(plan, provider, line->test, line->pairs, team->why);
	plan->said[provider] = (int)line->test;
	plan->res->failures++;
	return false;
}

/* Of a team whose processes have ended: says once for each test that it is left out. */
static void tell_left_out(struct plan *plan, size_t provider, const struct perf_row *line)
{
	if (plan->said[provider] < 0 || plan->said[provider] == (int)line->test)
		return;
	plan->said[provider] = (int)line->test;
	leave_out(plan, provider, line->test, line->pairs, "an earlier test has ended its processes");
}

/*
 * A warm-up begins with few operations, because how long it may take is not known yet, and each
 * step has so many times the operations of the one before: fewer than a round may take longer
 * than expected. What finds out how many operations fit the time needs no more than COUNT_MOST.
 */
enum { FIRST_STEP = 4, GROWTH = 16, COUNT_MOST = 1 << 20 };

static bool warm_step(struct plan *plan, size_t provider, const struct perf_row *line,
		      struct line_state *state, double *seconds)
{
	const double count = (double)state->order.count;
	struct team_result result;

	if (!do_round(plan, provider, line, state, &result))
		return false;
	*seconds = result.seconds;
	state->once = fmax(result.seconds / count, 1e-9);
	state->steps++;
	return true;
}

/* All operations of --warmup. The first ones make the connection. */
static bool warm(struct plan *plan, size_t provider, const struct perf_row *line,
		 struct line_state *state, double *seconds)
{
	uint64_t left = plan->opt->warmup, step = FIRST_STEP;

	if (plan->opt->windows && perf_tests[line->test].kind == PERF_STREAM)
		left = line->window;
	while (left) {
		state->order.count = left < step ? left : step;
		state->expected = state->once * (double)state->order.count;
		if (!warm_step(plan, provider, line, state, seconds))
			return false;
		left -= state->order.count;
		step *= GROWTH;
	}
	return true;
}

/* More operations, until their time is long enough to tell how many fit a round's. */
static bool calibrate(struct plan *plan, size_t provider, const struct perf_row *line,
		      struct line_state *state, double seconds)
{
	const unsigned blocks = plan->opt->blocks ? plan->opt->blocks : 1;
	const double round = plan->opt->seconds / plan->opt->rounds, enough = round / 8;

	/* What made the connection says nothing about the time of others. */
	while (state->steps < 2 || (seconds < enough && state->order.count < COUNT_MOST)) {
		state->order.count *= state->steps < 2 ? 1 : 4;
		state->expected = state->once * (double)state->order.count;
		if (!warm_step(plan, provider, line, state, &seconds))
			return false;
	}
	state->order.count = (uint64_t)(round / blocks / state->once);
	return true;
}

/* Warms up, and finds out how many operations a round has. */
static bool warm_up(struct plan *plan, size_t provider, const struct perf_row *line, struct line_state *state)
{
	const uint64_t iterations = plan->opt->iterations;
	const bool stream = perf_tests[line->test].kind == PERF_STREAM;
	double seconds = 0;

	memset(state, 0, sizeof(*state));
	state->order = (struct perf_order){
		.test = line->test, .size = line->size, .window = line->window, .depth = line->depth,
	};
	if (!warm(plan, provider, line, state, &seconds) ||
	    (!iterations && !calibrate(plan, provider, line, state, seconds)))
		return false;
	if (stream && state->order.count < line->window)
		state->order.count = line->window;
	if (iterations)
		state->order.count = iterations * (stream && plan->opt->windows ? line->window : 1);
	if (!state->order.count)
		state->order.count = 1;
	state->order.blocks = plan->opt->blocks;
	state->expected = state->once * (double)order_operations(&state->order);
	hist_clear(&state->hist);
	return true;
}

/* The histogram's percentiles are less exact than the median of blocks, and stay above it. */
static void fill_median(struct perf_row *row, double median)
{
	row->times[PERF_P50] = fmin(fmax(median, row->times[PERF_MIN]), row->times[PERF_MAX]);
	for (int i = PERF_P90; i <= PERF_P999; i++)
		row->times[i] = fmax(row->times[i], row->times[PERF_P50]);
}

static void fill_times(struct perf_row *row, const struct hist *hist)
{
	static const double parts[PERF_MOMENTS] = {
		[PERF_P50] = 0.5, [PERF_P90] = 0.9, [PERF_P99] = 0.99, [PERF_P999] = 0.999,
	};

	for (int i = 0; i < PERF_MOMENTS; i++)
		row->times[i] = hist->total ? hist_percentile(hist, parts[i]) * 1e-10 : NAN;
	if (!hist->total)
		return;
	row->times[PERF_MIN] = (double)hist->min * 1e-10;
	row->times[PERF_MAX] = (double)hist->max * 1e-10;
	row->times[PERF_MEAN] = hist_mean(hist) * 1e-10;
}

/* What --compare compares: of times the median, of streams the median rate. */
static double value_of(const struct perf_row *row)
{
	return perf_tests[row->test].kind == PERF_TIMES ? row->times[PERF_P50] : row->per_second;
}

static struct perf_row make_row(const struct perf_row *line, size_t provider, struct line_state *state)
{
	const enum perf_kind kind = perf_tests[line->test].kind;
	struct perf_row row = *line;

	row.provider = provider;
	row.count = order_operations(&state->order);
	row.ratio = row.per_second = row.pause = row.shares[0] = row.shares[1] = NAN;
	fill_times(&row, &state->hist);
	if (kind == PERF_TIMES && state->order.blocks)
		fill_median(&row, measure_median(state->units, line->rounds));
	if (state->pause > 0)
		row.pause = state->pause;
	if (kind == PERF_STREAM)
		row.per_second = measure_median(state->rates, line->rounds);
	for (int i = 0; i < 2 && kind == PERF_SHARES; i++)
		row.shares[i] = measure_median(state->shares[i], line->rounds);
	return row;
}

static bool is_open(const struct plan *plan, size_t provider)
{
	return plan->teams[provider].open;
}

static void one_turn(struct plan *plan, const struct perf_row *line, struct line_state *states, size_t round)
{
	for (size_t p = 0; p < plan->opt->provider_cnt; p++) {
		struct team_result result;

		if (is_open(plan, p) && do_round(plan, p, line, &states[p], &result)) {
			states[p].rates[round] = result.per_second;
			states[p].units[round] = result.unit;
			states[p].pause = fmax(states[p].pause, result.pause);
			states[p].shares[0][round] = result.shares[0];
			states[p].shares[1][round] = result.shares[1];
		}
		progress_step(plan->opt->providers[p], line);
	}
}

static void measure_line(struct plan *plan, const struct perf_row *line, void *arg)
{
	static struct line_state states[PERF_PROVIDERS_MAX];
	double first = NAN;

	(void)arg;
	for (size_t p = 0; p < plan->opt->provider_cnt; p++)
		if (is_open(plan, p))
			warm_up(plan, p, line, &states[p]);
		else
			tell_left_out(plan, p, line);
	for (size_t round = 0; round < line->rounds; round++)
		one_turn(plan, line, states, round);
	for (size_t p = 0; p < plan->opt->provider_cnt; p++) {
		struct perf_row row;

		if (!is_open(plan, p))
			continue;
		row = make_row(line, p, &states[p]);
		if (p == 0)
			first = value_of(&row);
		if (plan->opt->provider_cnt > 1)
			row.ratio = value_of(&row) / first;
		results_add(plan->res, &row);
	}
}

/* --- teams ------------------------------------------------------------------------------ */

/* Takes the most that a line of a team asks for into account. */
static void need_line(struct plan *plan, const struct perf_row *line, void *arg)
{
	struct perf_hello *hello = arg;
	const uint64_t memory = 2 * line->window * line->size;

	(void)plan;
	hello->slots = line->window > hello->slots ? line->window : hello->slots;
	hello->size = line->size > hello->size ? line->size : hello->size;
	hello->recvs = line->depth > hello->recvs ? line->depth : hello->recvs;
	if (hello->need < PERF_REMOTE && memory > hello->memory)
		hello->memory = memory;
}

static struct perf_hello make_hello(struct plan *plan, enum perf_need need, size_t pairs, size_t provider)
{
	const struct perf_options *opt = plan->opt;
	struct perf_hello hello = {
		.magic = PERF_MAGIC, .version = PERF_VERSION, .kind = PERF_HELLO_FOLLOW,
		.session = plan->session, .memory = 4096, .slots = 2, .need = need,
		.timeout = opt->timeout, .yield = opt->yield, .pin = opt->pin,
		.pairs = (uint32_t)pairs, .flags = opt->flags,
	};

	snprintf(hello.provider, sizeof(hello.provider), "%s", opt->providers[provider]);
	snprintf(hello.domain, sizeof(hello.domain), "%s", opt->device[1] ? opt->device[1] : "");
	snprintf(hello.address, sizeof(hello.address), "%s", opt->address[1] ? opt->address[1] : "");
	snprintf(hello.devices, sizeof(hello.devices), "%s", opt->devices[1] ? opt->devices[1] : "");
	each_line(plan, need, pairs, need_line, &hello);
	/* Room for what the test itself posts. */
	hello.recvs = hello.recvs ? hello.recvs + hello.slots : 0;
	return hello;
}

static void open_team(struct plan *plan, enum perf_need need, size_t pairs, size_t provider)
{
	const struct perf_hello hello = make_hello(plan, need, pairs, provider);
	struct team *team = &plan->teams[provider];

	plan->said[provider] = -1;
	if (!team_open(team, plan->opt, &hello, pairs)) {
		results_about(plan->res, provider, &team->about);
		return;
	}
	/* Tagged messages are what a provider must have. */
	if (need == PERF_MESSAGES)
		plan->res->failures++;
	for (enum perf_test test = 0; test < PERF_TESTS; test++)
		if (plan->opt->tests[test] && perf_tests[test].need == need)
			leave_out(plan, provider, test, pairs, team->why);
}

static void run_teams(struct plan *plan, enum perf_need need, size_t pairs)
{
	for (size_t p = 0; p < plan->opt->provider_cnt; p++)
		open_team(plan, need, pairs, p);
	each_line(plan, need, pairs, measure_line, NULL);
	for (size_t p = 0; p < plan->opt->provider_cnt; p++)
		team_close(&plan->teams[p]);
}

static bool is_needed(const struct perf_options *opt, enum perf_need need)
{
	for (enum perf_test test = 0; test < PERF_TESTS; test++)
		if (opt->tests[test] && perf_tests[test].need == need)
			return true;
	return false;
}

void run_all(struct perf_results *res, uint64_t session)
{
	const struct perf_options *opt = res->opt;
	struct plan plan = { .res = res, .opt = opt, .session = session };
	size_t steps = 0;

	plan.teams = calloc(PERF_PROVIDERS_MAX, sizeof(*plan.teams));
	if (!plan.teams)
		bench_die("out of memory");
	for (enum perf_need need = PERF_MESSAGES; need <= PERF_ATOMIC; need++)
		for (size_t i = 0; i < opt->pairs.count; i++)
			each_line(&plan, need, opt->pairs.values[i], count_line, &steps);
	progress_start(steps, opt->quiet);
	for (enum perf_need need = PERF_MESSAGES; need <= PERF_ATOMIC; need++)
		for (size_t i = 0; i < opt->pairs.count && is_needed(opt, need); i++)
			run_teams(&plan, need, opt->pairs.values[i]);
	progress_clear();
	free(plan.teams);
}
