/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * When reads that find nothing yield the processor.
 */
#include <criterion/criterion.h>
#include <pthread.h>

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

static void *may_yield_elsewhere(void *result)
{
	*(bool *) result = tagrv_patience_may_yield(&patience);
	return NULL;
}

static bool another_may_yield(void)
{
	bool result = true;
	pthread_t thread;

	cr_assert(!pthread_create(&thread, NULL, may_yield_elsewhere, &result));
	pthread_join(thread, NULL);
	return result;
}

Test(patience, lasts_longer_when_nobody_else_runs)
{
	uint32_t before = run_out();

	cr_assert(before == TAGRV_PATIENCE_FIRST);
	for (int i = 0; i < 20; i++) {
		cr_assert(tagrv_patience_may_yield(&patience));
		tagrv_patience_learn(&patience, TAGRV_PATIENCE_OTHERS_NS);
	}
	cr_assert(run_out() == TAGRV_PATIENCE_MOST);
}

Test(patience, is_short_when_others_run)
{
	cr_assert(tagrv_patience_may_yield(&patience));
	tagrv_patience_learn(&patience, TAGRV_PATIENCE_OTHERS_NS + 1);
	cr_assert(run_out() == TAGRV_PATIENCE_LEAST);
	cr_assert(tagrv_patience_may_yield(&patience));
	tagrv_patience_learn(&patience, 0);
	cr_assert(run_out() == 2 * TAGRV_PATIENCE_LEAST);
}

Test(patience, is_endless_while_threads_take_turns)
{
	cr_assert(tagrv_patience_may_yield(&patience));
	for (int i = 0; i < 10; i++) {
		cr_assert(!another_may_yield());
		cr_assert(!tagrv_patience_may_yield(&patience));
	}
	cr_assert(run_out() == TAGRV_PATIENCE_MOST);
}

/* As after a program's first thread has left messages to another one. */
Test(patience, ends_again_when_one_thread_is_left)
{
	int times = 0;

	cr_assert(tagrv_patience_may_yield(&patience));
	cr_assert(!another_may_yield());
	while (!tagrv_patience_may_yield(&patience))
		times++;
	cr_assert(times == TAGRV_PATIENCE_ALONE);
	cr_assert(tagrv_patience_may_yield(&patience));
}

Test(patience, counts_anew_after_a_yield)
{
	run_out();
	cr_assert(tagrv_patience_may_yield(&patience));
	cr_assert(!patience.looks);
	tagrv_patience_yield(&patience);
	cr_assert(run_out() != TAGRV_PATIENCE_FIRST);
}
