/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * interval.c: sets of ranges, compared with a list that is searched completely.
 */
#include <criterion/criterion.h>
#include <stdbool.h>

#include "core/compiler.h"
#include "core/interval.h"

#define RANGES	200
#define STEPS	40000

static struct tagrv_intervals set;
static struct tagrv_interval node[RANGES];
static bool in[RANGES];
static uint64_t state;

static uint32_t rnd(uint32_t below)
{
	state = state * 6364136223846793005 + 1442695040888963407;
	return (uint32_t) (state >> 33) % below;
}

/* Checks order, balance and 'max' of every node; returns the number of nodes. */
static size_t check(const struct tagrv_interval *n)
{
	uintptr_t max;
	size_t cnt = 1;
	int h[2] = { 0, 0 };

	if (!n)
		return 0;
	max = n->to;
	for (int i = 0; i < 2; i++) {
		const struct tagrv_interval *c = n->child[i];

		if (!c)
			continue;
		cnt += check(c);
		h[i] = c->height;
		max = TAGRV_MAX(max, c->max);
		cr_assert(i ? c->from >= n->from : c->from <= n->from);
	}
	cr_assert_eq(n->max, max);
	cr_assert_eq(n->height, 1 + TAGRV_MAX(h[0], h[1]));
	cr_assert(h[0] - h[1] <= 1 && h[1] - h[0] <= 1);
	return cnt;
}

static void compare(uintptr_t from, uintptr_t to)
{
	const struct tagrv_interval *got, *first = NULL, *later = NULL;
	bool covered = false;

	for (int i = 0; i < RANGES; i++) {
		const struct tagrv_interval *n = &node[i];

		if (!in[i])
			continue;
		covered |= n->from <= from && n->to >= to;
		if (n->from < to && n->to > from &&
		    (!first || n->from < first->from))
			first = n;
		if (n->from >= from && (!later || n->from < later->from))
			later = n;
	}
	got = tagrv_interval_cover(&set, from, to);
	cr_assert_eq(got != NULL, covered);
	cr_assert(!got || (got->from <= from && got->to >= to));
	got = tagrv_interval_overlap(&set, from, to);
	cr_assert_eq(got != NULL, first != NULL);
	cr_assert(!got || (got->from == first->from && got->to > from));
	got = tagrv_interval_from(&set, from);
	cr_assert_eq(got != NULL, later != NULL);
	cr_assert(!got || got->from == later->from);
}

static void play(uint64_t seed, uint32_t space, uint32_t longest)
{
	size_t cnt = 0;

	state = seed;
	set = (struct tagrv_intervals) { 0 };
	for (int i = 0; i < RANGES; i++)
		in[i] = false;
	for (int step = 0; step < STEPS; step++) {
		uint32_t i = rnd(RANGES);
		uintptr_t from = rnd(space);

		if (in[i]) {
			tagrv_interval_remove(&set, &node[i]);
			cnt--;
		} else {
			node[i].from = from;
			node[i].to = from + 1 + rnd(longest);
			tagrv_interval_insert(&set, &node[i]);
			cnt++;
		}
		in[i] = !in[i];
		compare(rnd(space), space + 1);
		from = rnd(space);
		compare(from, from + 1 + rnd(longest));
		if (step % 100 == 0)
			cr_assert_eq(check(set.root), cnt);
	}
}

Test(interval, agrees_with_a_list, .timeout = 60)
{
	play(1, 1000, 20);
	play(2, 1000, 900);
	play(3, 5, 3);
}

Test(interval, stays_flat_when_filled_in_order, .timeout = 60)
{
	for (uintptr_t i = 0; i < RANGES; i++) {
		node[i].from = i;
		node[i].to = i + 1;
		tagrv_interval_insert(&set, &node[i]);
	}
	cr_assert_eq(check(set.root), RANGES);
	cr_assert_leq(set.root->height, 11);
	for (uintptr_t i = 0; i < RANGES; i++) {
		tagrv_interval_remove(&set, &node[i]);
		cr_assert_eq(check(set.root), RANGES - i - 1);
	}
}
