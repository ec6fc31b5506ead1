/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * When reads that find nothing yield the processor.
 */
#include <criterion/criterion.h>

#include "object/patience.h"

static struct tagrv_patience patience;

static void begin(void)
{
	tagrv_patience_init(&patience);
}

TestSuite(patience, .init = begin, .timeout = 20);

/* Looks until the patience is out. */
static uint32_t run_out(void)
{
	uint32_t looks = 1;

	while (!tagrv_patience_is_out(&patience, 1))
		looks++;
	return looks;
}

Test(patience, lasts_longer_when_nobody_else_runs)
{
	uint32_t before = run_out();

	cr_assert(before == TAGRV_PATIENCE_FIRST);
	for (int i = 0; i < 20; i++) {
		cr_assert(tagrv_patience_may_yield(&patience, 0));
		tagrv_patience_learn(&patience, 0, TAGRV_PATIENCE_OTHERS_NS, 0);
	}
	cr_assert(run_out() == TAGRV_PATIENCE_MOST);
}

Test(patience, is_short_when_others_run)
{
	cr_assert(tagrv_patience_may_yield(&patience, 0));
	tagrv_patience_learn(&patience, 0, TAGRV_PATIENCE_OTHERS_NS + 1, 0);
	cr_assert(run_out() == TAGRV_PATIENCE_LEAST);
	cr_assert(tagrv_patience_may_yield(&patience, 0));
	tagrv_patience_learn(&patience, 0, 0, 0);
	cr_assert(run_out() == 2 * TAGRV_PATIENCE_LEAST);
}

/* They wait for a lock that the caller holds: the yield helped nobody. */
Test(patience, rests_after_only_its_own_threads_ran)
{
	const uint64_t ns = TAGRV_PATIENCE_OWN_NS + 1, now = 77;
	const uint64_t end = now + ns * TAGRV_PATIENCE_REST;

	for (int i = 0; i < TAGRV_PATIENCE_VAIN; i++) {
		cr_assert(tagrv_patience_may_yield(&patience, now));
		tagrv_patience_learn(&patience, now, ns, ns);
	}
	cr_assert(!tagrv_patience_may_yield(&patience, now));
	cr_assert(!tagrv_patience_may_yield(&patience, end - 1));
	cr_assert(tagrv_patience_may_yield(&patience, end));
}

/* A long look may come first; it is shorter than a rest. */
static bool yields_at_last(uint64_t now)
{
	cr_assert(TAGRV_PATIENCE_LONG_NS < TAGRV_PATIENCE_OWN_NS * TAGRV_PATIENCE_REST);
	return tagrv_patience_may_yield(&patience, now) ||
	       (tagrv_patience_is_out(&patience, 2 * TAGRV_PATIENCE_LEAST) &&
		tagrv_patience_may_yield(&patience, now + TAGRV_PATIENCE_LONG_NS));
}

Test(patience, does_not_rest_when_others_ran_or_not_for_long)
{
	const uint64_t ns = TAGRV_PATIENCE_OWN_NS;

	for (int i = 0; i < 10; i++) {
		tagrv_patience_learn(&patience, 1, ns, ns);
		cr_assert(yields_at_last(1));
		tagrv_patience_learn(&patience, 1, 100 * ns, 75 * ns);
		cr_assert(yields_at_last(1));
	}
	/* Interrupted now and then. */
	for (int i = 0; i < 10; i++) {
		tagrv_patience_learn(&patience, 1, 2 * ns, 2 * ns);
		cr_assert(yields_at_last(1));
		tagrv_patience_learn(&patience, 1, 1, 1);
	}
}

Test(patience, is_crowded_for_a_while)
{
	uint32_t passes = 0;

	cr_assert(!tagrv_patience_is_crowded(&patience));
	tagrv_patience_learn(&patience, 0, TAGRV_PATIENCE_WORK_NS + 1, 0);
	for (; tagrv_patience_is_crowded(&patience); passes++)
		tagrv_patience_pass(&patience);
	cr_assert(passes == TAGRV_PATIENCE_CROWD);
	tagrv_patience_pass(&patience);
	cr_assert(!tagrv_patience_is_crowded(&patience));
}

Test(patience, is_not_crowded_after_yields_that_returned_at_once)
{
	int yields = 0;

	tagrv_patience_learn(&patience, 0, TAGRV_PATIENCE_WORK_NS + 1, 0);
	for (; tagrv_patience_is_crowded(&patience); yields++)
		tagrv_patience_learn(&patience, 0, 0, 0);
	cr_assert(yields > 4 && yields < 16, "%d", yields);
}

Test(patience, counts_anew_after_a_yield)
{
	run_out();
	cr_assert(tagrv_patience_may_yield(&patience, 0));
	cr_assert(!patience.looks);
	tagrv_patience_yield(&patience);
	cr_assert(run_out() != TAGRV_PATIENCE_FIRST);
}

/* ---- long looks ---- */

#define LATER	(2 * (uint64_t) TAGRV_PATIENCE_TRY_NS)

/* Ends a yield that let others work, at 'now'. */
static void others_worked(uint64_t now)
{
	tagrv_patience_learn(&patience, now, TAGRV_PATIENCE_WORK_NS + 1, 0);
}

/* How many ns a look lasts that begins at 'now' and finds nothing. */
static uint64_t lasts(uint64_t now)
{
	const uint64_t begin = now;

	patience.looks = 0;
	run_out();
	for (; !tagrv_patience_may_yield(&patience, now); now += 100)
		cr_assert(tagrv_patience_is_out(&patience, TAGRV_PATIENCE_LEAST));
	return now - begin;
}

static bool is_long(uint64_t now)
{
	uint64_t ns = lasts(now);

	cr_assert(!ns || (ns >= TAGRV_PATIENCE_LONG_NS && ns < 2 * TAGRV_PATIENCE_LONG_NS));
	return ns;
}

Test(patience, tries_a_long_look_among_others_once_in_a_while)
{
	uint64_t now = LATER;

	cr_expect(!is_long(now));
	others_worked(now);
	cr_expect(is_long(now));
	now += TAGRV_PATIENCE_USE_NS / 2;
	others_worked(now);
	cr_expect(!is_long(now), "the long one found nothing");
	others_worked(now + TAGRV_PATIENCE_TRY_NS - 1);
	cr_expect(!is_long(now));
	others_worked(now + TAGRV_PATIENCE_TRY_NS);
	cr_expect(is_long(now));
}

Test(patience, keeps_to_long_looks_that_are_of_use)
{
	uint64_t now = LATER;

	for (int i = 0; i < 5; i++, now += TAGRV_PATIENCE_USE_NS + TAGRV_PATIENCE_WORK_NS + 1) {
		others_worked(now);
		cr_expect(is_long(now), "time %d", i);
	}
}

Test(patience, a_long_look_begins_anew_with_each_find)
{
	others_worked(LATER);
	for (int i = 0; i < 5; i++)
		cr_expect(is_long(LATER + (uint64_t) i * TAGRV_PATIENCE_LONG_NS / 2));
}

Test(patience, looks_no_longer_among_others_that_only_yield)
{
	tagrv_patience_learn(&patience, LATER, TAGRV_PATIENCE_WORK_NS, 0);
	cr_expect(!is_long(LATER));
	others_worked(LATER);
	cr_expect(is_long(LATER));
	tagrv_patience_learn(&patience, LATER, TAGRV_PATIENCE_WORK_NS, 0);
	cr_expect(!is_long(LATER));
}
