/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Multiplies the time limits of unit tests before the first one runs.
 *
 * The limits in the tests are for a quiet machine. They only end a test that
 * hangs, so that they may be generous costs nothing: SPARE times as long, and
 * longer on a slow machine.
 */
#include <criterion/criterion.h>
#include <criterion/hooks.h>

#include "common/slowness.h"

#define SPARE	3

ReportHook(PRE_ALL)(struct criterion_test_set *set)
{
	double factor = SPARE * slowness();

	FOREACH_SET(struct criterion_suite_set *suite, set->suites) {
		if (suite->suite.data)
			suite->suite.data->timeout *= factor;
		FOREACH_SET(struct criterion_test *test, suite->tests)
			test->data->timeout *= factor;
	}
}
