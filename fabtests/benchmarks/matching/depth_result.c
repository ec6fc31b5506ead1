/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Results of match_depth: as CSV, and compared with the targets of the engine.
 */
#include "depth.h"

#include <stdlib.h>

struct result {
	struct depth_point point;
	enum depth_cache cache;
	struct depth_cost cost;
};

/* By subject, side, classes, cache; lengths in order. */
static struct result *results;
static size_t result_cnt, result_cap;

static struct result *find(const struct depth_point *point,
			   enum depth_cache cache)
{
	for (size_t i = 0; i < result_cnt; i++) {
		const struct depth_point *p = &results[i].point;

		if (p->subject == point->subject && p->side == point->side &&
		    p->classes == point->classes &&
		    p->length == point->length && results[i].cache == cache)
			return &results[i];
	}
	return NULL;
}

void depth_result_add(const struct depth_point *point, enum depth_cache cache,
		      const struct depth_cost *cost)
{
	struct result *known = find(point, cache);

	if (known) {
		if (cost->ns < known->cost.ns)
			known->cost = *cost;
		return;
	}
	if (result_cnt == result_cap) {
		result_cap = result_cap ? 2 * result_cap : 1024;
		results = realloc(results, result_cap * sizeof(*results));
		if (!results)
			depth_die("out of memory");
	}
	results[result_cnt++] = (struct result) { *point, cache, *cost };
}

static void print_cell(FILE *out, double value, char end)
{
	if (value < 0)
		fprintf(out, "n/a%c", end);
	else
		fprintf(out, "%.1f%c", value, end);
}

void depth_result_csv(FILE *out)
{
	fprintf(out, "side,structure,classes,length,cache,ns,instructions,"
		"lines\n");
	for (size_t i = 0; i < result_cnt; i++) {
		const struct result *r = &results[i];

		fprintf(out, "%s,%s,%u,%u,%s,",
			depth_side_names[r->point.side],
			r->point.subject->name, r->point.classes,
			r->point.length, depth_cache_names[r->cache]);
		print_cell(out, r->cost.ns, ',');
		print_cell(out, r->cost.instructions, ',');
		print_cell(out, r->cost.lines, '\n');
	}
}

/* ---- targets ---- */

/* Negative: not measured. */
static double ns(size_t subject, enum depth_side side, unsigned classes,
		 uint32_t length)
{
	const struct depth_point point = {
		.subject = depth_subjects[subject],
		.side = side,
		.classes = classes,
		.length = length,
	};
	const struct result *r = find(&point, DEPTH_WARM);

	return r ? r->cost.ns : -1;
}

static bool judge(FILE *out, const char *text, double value, double limit,
		  const char *unit)
{
	bool met = value >= 0 && value <= limit;

	if (value < 0)
		fprintf(out, "  %-62s        -  not measured\n", text);
	else
		fprintf(out, "  %-62s %8.2f%-3s %s\n", text, value, unit,
			met ? "met" : "missed");
	return met;
}

static double ratio(double a, double b)
{
	return a < 0 || b <= 0 ? -1 : a / b;
}

struct step {
	double	worst;
	const struct result *at, *before;
};

/*
 * Finds the steepest step between two lengths, both at least 'from', of which one is
 * at most twice the other.
 */
static void find_step(enum depth_side side, uint32_t from, struct step *step)
{
	const struct result *before = NULL;

	for (size_t i = 0; i < result_cnt; i++) {
		const struct result *r = &results[i];

		if (r->point.subject != depth_subjects[0] ||
		    r->point.side != side || r->cache != DEPTH_WARM ||
		    r->point.length < from)
			continue;
		if (before && before->point.classes == r->point.classes &&
		    r->point.length <= 2 * before->point.length) {
			double up = r->cost.ns / before->cost.ns;
			double steep = up < 1 ? 1 / up : up;

			if (steep > step->worst)
				*step = (struct step) { steep, r, before };
		}
		before = r;
	}
}

static bool judge_steps(FILE *out, enum depth_side side, uint32_t from)
{
	struct step step = { .worst = -1 };
	char text[128];

	find_step(side, from, &step);
	if (!step.at)
		return judge(out, "no point more than 1.5 x its neighbours", -1,
			     0, "");
	snprintf(text, sizeof(text), "%s: no point over 1.5 x its neighbours "
		 "(K=%u %u-%u)", depth_side_names[side], step.at->point.classes,
		 step.before->point.length, step.at->point.length);
	return judge(out, text, step.worst, 1.5, "");
}

/*
 * The step from one entry to two is judged apart: from two entries on there is a
 * branch that the processor mispredicts half of the time in any structure.
 */
static bool judge_all_steps(FILE *out, enum depth_side side)
{
	double one = ns(1, side, 1, 1), two = ns(1, side, 1, 2);
	bool met = judge_steps(out, side, 1);

	met &= judge_steps(out, side, 2);
	if (one > 0 && two > 0)
		fprintf(out, "    the linear list has %.2f from 1 to 2\n",
			two / one);
	return met;
}

bool depth_result_judge(FILE *out)
{
	const enum depth_side p = DEPTH_POSTED, u = DEPTH_UNEXPECTED;
	double one = ns(0, p, 1, 1), list = ns(1, p, 1, 1);
	bool met = true;

	fprintf(out, "targets (warm)\n");
	met &= judge(out, "posted, K=4: 100000 at most 3 x 16",
		     ratio(ns(0, p, 4, 100000), ns(0, p, 4, 16)), 3, "");
	met &= judge(out, "posted, K=4: 100000 at most 200 ns",
		     ns(0, p, 4, 100000), 200, " ns");
	met &= judge(out, "posted, K=1: 1 at most 10 ns over the linear list",
		     one < 0 || list < 0 ? -1 :
		     one > list ? one - list : 0, 10, " ns");
	met &= judge(out, "unexpected, K=4: 100000 at most 5 x 16",
		     ratio(ns(0, u, 4, 100000), ns(0, u, 4, 16)), 5, "");
	for (int side = 0; side < DEPTH_SIDES; side++)
		met &= judge_all_steps(out, side);
	if (ns(1, p, 4, 100000) >= 0 && ns(1, u, 4, 100000) >= 0)
		fprintf(out, "for contrast, the linear list at 100000, K=4: "
			"posted %.0f ns, unexpected %.0f ns\n",
			ns(1, p, 4, 100000), ns(1, u, 4, 100000));
	return met;
}
