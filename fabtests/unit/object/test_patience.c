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

Test(patience, does_not_rest_when_others_ran_or_not_for_long)
{
	const uint64_t ns = TAGRV_PATIENCE_OWN_NS;

	for (int i = 0; i < 10; i++) {
		tagrv_patience_learn(&patience, 1, ns, ns);
		cr_assert(tagrv_patience_may_yield(&patience, 1));
		tagrv_patience_learn(&patience, 1, 100 * ns, 75 * ns);
		cr_assert(tagrv_patience_may_yield(&patience, 1));
	}
	/* Interrupted now and then. */
	for (int i = 0; i < 10; i++) {
		tagrv_patience_learn(&patience, 1, 2 * ns, 2 * ns);
		cr_assert(tagrv_patience_may_yield(&patience, 1));
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
