/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The timer heap, compared with a search of all timers, which are set, moved and
 * cleared at random.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "wireup/wireup_timer.h"

#define TIMERS	200

static struct tagrv_wireup_timers timers;
static struct tagrv_wireup_timer timer[TIMERS];
static uint64_t want[TIMERS];	/* expected time of each timer; 0: not set */
static uint64_t now, latest;

static void on_timer(struct tagrv_wireup_timer *fired)
{
	size_t i = (size_t) (fired - timer);

	cr_assert_neq(want[i], 0);
	cr_assert_leq(want[i], now);
	cr_assert_geq(want[i], latest, "out of order");
	latest = want[i];
	want[i] = 0;
}

static void check(void)
{
	uint64_t first = 0;

	for (size_t i = 0; i < TIMERS; i++) {
		cr_assert_eq(timer[i].at, want[i]);
		if (want[i] && (!first || want[i] < first))
			first = want[i];
	}
	cr_assert_eq(tagrv_wireup_timer_wait(&timers, now),
		     first ? first > now ? (int) (first - now) : 0 : -1);
}

Test(wireup_timer, fires_in_order_and_once, .timeout = 30)
{
	now = 1000;
	for (size_t i = 0; i < TIMERS; i++) {
		timer[i].fn = on_timer;
		cr_assert_eq(tagrv_wireup_timer_reserve(&timers), 0);
	}
	srand(7);
	for (int step = 0; step < 20000; step++) {
		size_t i = (size_t) rand() % TIMERS;

		if (rand() % 10) {
			want[i] = rand() % 4 ? now + 1 +
					       (uint64_t) rand() % 500 : 0;
			tagrv_wireup_timer_set(&timers, &timer[i], want[i]);
		} else {
			now += (uint64_t) rand() % 50;
			latest = 0;
			tagrv_wireup_timer_run(&timers, now);
			for (size_t n = 0; n < TIMERS; n++)
				cr_assert(!want[n] || want[n] > now);
		}
		check();
	}
	for (size_t i = 0; i < TIMERS; i++)
		tagrv_wireup_timer_release(&timers, &timer[i]);
	tagrv_wireup_timer_fini(&timers);
}

Test(wireup_timer, may_be_set_again_after_it_fired, .timeout = 10)
{
	cr_assert_eq(tagrv_wireup_timer_reserve(&timers), 0);
	timer[0].fn = on_timer;
	for (now = 1; now < 10; now++) {
		want[0] = now;
		latest = 0;
		tagrv_wireup_timer_set(&timers, &timer[0], now);
		tagrv_wireup_timer_run(&timers, now);
		cr_assert_eq(want[0], 0);
		cr_assert_eq(tagrv_wireup_timer_wait(&timers, now), -1);
	}
	tagrv_wireup_timer_release(&timers, &timer[0]);
	tagrv_wireup_timer_fini(&timers);
}
