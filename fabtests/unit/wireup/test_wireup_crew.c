/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Workers: who has the floor, how many there are, their end.
 */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "wireup/wireup_crew.h"

TestSuite(wireup_crew, .timeout = 60);

enum { MAX = 3, STEPS = 50 };

static struct tagrv_wireup_crew crew;
static sem_t kicked, may_end;
static int counter;		/* of who has the floor: no atomic, so TSan would see a race */
static int begun, ended;

static void kick(void *arg)
{
	cr_assert_eq(arg, &kicked);
	sem_post(&kicked);
}

static void begin(unsigned max)
{
	sem_init(&kicked, 0, 0);
	sem_init(&may_end, 0, 0);
	counter = begun = ended = 0;
	tagrv_wireup_crew_init(&crew, max, kick, &kicked);
}

static void wait_for(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

static void command(struct tagrv_wireup_worker *worker, void *arg)
{
	(void) arg;
	begun++;
	tagrv_wireup_crew_leave(worker);
	wait_for(&may_end);
	tagrv_wireup_crew_enter(worker);
	ended++;
}

Test(wireup_crew, owner_goes_on_while_commands_run_and_chooses_when_they_end)
{
	begin(MAX);
	for (int i = 0; i < MAX; i++) {
		cr_assert(tagrv_wireup_crew_has_room(&crew));
		cr_assert(tagrv_wireup_crew_run(&crew, command, NULL));
		cr_assert_eq(begun, i + 1);
	}
	cr_assert_not(tagrv_wireup_crew_has_room(&crew));
	cr_assert_not(tagrv_wireup_crew_run(&crew, command, NULL), "there are no more");
	cr_assert_eq(begun, MAX);
	tagrv_wireup_crew_resume(&crew);
	cr_assert_eq(ended, 0);
	sem_post(&may_end);
	wait_for(&kicked);
	cr_assert_eq(ended, 0, "it waits for the floor");
	tagrv_wireup_crew_resume(&crew);
	cr_assert_eq(ended, 1);
	cr_assert_eq(tagrv_wireup_crew_busy(&crew), MAX - 1u);
	cr_assert(tagrv_wireup_crew_run(&crew, command, NULL), "one is idle");
	cr_assert_eq(crew.cnt, MAX);
	for (int i = 0; i < MAX; i++)
		sem_post(&may_end);
	while (ended < MAX + 1) {
		wait_for(&kicked);
		tagrv_wireup_crew_resume(&crew);
	}
	cr_assert_eq(tagrv_wireup_crew_busy(&crew), 0);
	tagrv_wireup_crew_fini(&crew);
}

static void count(struct tagrv_wireup_worker *worker, void *arg)
{
	(void) arg;
	for (int i = 0; i < STEPS; i++) {
		int seen = counter;

		counter = seen + 1;
		tagrv_wireup_crew_leave(worker);
		tagrv_wireup_crew_enter(worker);
	}
	ended++;
}

/* Whoever has the floor is alone with what belongs to the owner. */
Test(wireup_crew, floor_is_one_thread_s)
{
	int owns = 0;

	begin(MAX);
	for (int i = 0; i < MAX; i++)
		cr_assert(tagrv_wireup_crew_run(&crew, count, NULL));
	while (ended < MAX) {
		counter++;
		owns++;
		wait_for(&kicked);
		tagrv_wireup_crew_resume(&crew);
	}
	cr_assert_eq(counter, MAX * STEPS + owns);
	tagrv_wireup_crew_fini(&crew);
}

static void at_once(struct tagrv_wireup_worker *worker, void *arg)
{
	(void) worker;
	++*(int *) arg;
}

Test(wireup_crew, threads_are_started_when_they_are_needed)
{
	int ran = 0;

	begin(MAX);
	cr_assert_eq(crew.cnt, 0);
	for (int i = 0; i < STEPS; i++)
		cr_assert(tagrv_wireup_crew_run(&crew, at_once, &ran));
	cr_assert_eq(ran, STEPS);
	cr_assert_eq(crew.cnt, 1);
	tagrv_wireup_crew_fini(&crew);
	begin(0);
	cr_assert_not(tagrv_wireup_crew_run(&crew, at_once, &ran));
	tagrv_wireup_crew_fini(&crew);
}
