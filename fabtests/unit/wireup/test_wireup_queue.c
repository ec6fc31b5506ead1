/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The order of the work for devices.
 */
#include <criterion/criterion.h>

#include "wireup/wireup_queue.h"

#define MS	1000000u

TestSuite(wireup_queue, .timeout = 30);

static struct tagrv_wireup_queue queue;
static struct tagrv_wireup_job jobs[16];

static void begin(void)
{
	tagrv_wireup_queue_init(&queue);
	for (int i = 0; i < 16; i++)
		tagrv_wireup_job_init(&jobs[i]);
}

static void push(int i, enum tagrv_conn_work work)
{
	tagrv_wireup_queue_push(&queue, &jobs[i], work);
}

static int pop(void)
{
	struct tagrv_wireup_job *job = tagrv_wireup_queue_pop(&queue);

	return job ? (int) (job - jobs) : -1;
}

Test(wireup_queue, what_ends_a_handshake_goes_first_and_the_oldest_of_each)
{
	begin();
	push(0, TAGRV_CONN_OFFER);
	push(1, TAGRV_CONN_RESPOND);
	push(2, TAGRV_CONN_RESPOND);
	push(3, TAGRV_CONN_FINISH);
	cr_assert_eq(pop(), 3);
	cr_assert_eq(pop(), 1);
	tagrv_wireup_queue_remove(&queue, &jobs[2]);
	tagrv_wireup_queue_remove(&queue, &jobs[2]);
	cr_assert_eq(queue.cnt, 1);
	cr_assert_eq(pop(), 0);
	cr_assert_eq(pop(), -1);
}

Test(wireup_queue, offers_have_a_turn_although_answers_never_end)
{
	int offers = 0;

	begin();
	for (int turn = 0; turn < 40; turn++) {
		int i;

		if (!tagrv_wireup_job_waits(&jobs[0]))
			push(0, TAGRV_CONN_OFFER);
		for (i = 1; i < 4; i++)
			if (!tagrv_wireup_job_waits(&jobs[i]))
				push(i, TAGRV_CONN_RESPOND);
		offers += pop() == 0;
	}
	cr_assert_eq(offers, 10);
}

Test(wireup_queue, round_of_a_slow_device_has_one_job)
{
	begin();
	cr_assert(tagrv_wireup_queue_is_free(&queue));
	tagrv_wireup_queue_ran(&queue, 50 * MS);
	cr_assert_not(tagrv_wireup_queue_is_free(&queue));
	push(0, TAGRV_CONN_RESPOND);
	cr_assert_eq(pop(), -1, "this round is over");
	tagrv_wireup_queue_begin(&queue);
	cr_assert_not(tagrv_wireup_queue_is_free(&queue), "others wait already");
	cr_assert_eq(pop(), 0);
	cr_assert(tagrv_wireup_queue_is_free(&queue));
}

Test(wireup_queue, fast_work_does_not_wait)
{
	begin();
	for (int i = 0; i < 40; i++) {
		cr_assert(tagrv_wireup_queue_is_free(&queue));
		tagrv_wireup_queue_ran(&queue, MS / 5);
	}
}

Test(wireup_queue, slow_device_dials_few_at_a_time)
{
	begin();
	for (int i = 0; i < 100; i++)
		tagrv_wireup_queue_ran(&queue, MS / 5);
	cr_assert(tagrv_wireup_queue_may_dial(&queue, 63));
	for (int i = 0; i < 100; i++)
		tagrv_wireup_queue_ran(&queue, 200 * MS);
	cr_assert_not(tagrv_wireup_queue_may_dial(&queue, 6));
	cr_assert(tagrv_wireup_queue_may_dial(&queue, 2));
	for (int i = 0; i < 10; i++)
		push(i, TAGRV_CONN_RESPOND);
	cr_assert_not(tagrv_wireup_queue_may_dial(&queue, 1));
	cr_assert(tagrv_wireup_queue_may_dial(&queue, 0), "one goes on always");
}
