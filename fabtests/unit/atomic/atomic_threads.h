/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Threads that change the same memory at the same time.
 */
#ifndef TAGRV_UNIT_ATOMIC_THREADS_H
#define TAGRV_UNIT_ATOMIC_THREADS_H

#include <criterion/criterion.h>
#include <pthread.h>

#include "atomic/atomic.h"

#define THREADS	4
#define ROUNDS	200000	/* so many that the threads run at the same time for a while */

struct worker {
	pthread_t thread;
	pthread_barrier_t *start;
	void (*body)(int thread);
	int number;
};

static void *run_worker(void *arg)
{
	struct worker *worker = arg;

	pthread_barrier_wait(worker->start);
	worker->body(worker->number);
	return NULL;
}

/* Runs body(0) to body(THREADS - 1), each in a thread, until all have returned. */
static inline void in_threads(void (*body)(int thread))
{
	struct worker workers[THREADS];
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker) { .start = &start, .body = body, .number = i };
		cr_assert_eq(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	pthread_barrier_destroy(&start);
}

/* One element, without a result. */
static inline void change(unsigned op, unsigned datatype, void *target, const void *operand)
{
	tagrv_atomic_apply(TAGRV_ATOMIC_BASE, op, datatype, target, operand, NULL, NULL, 1);
}

/* One element, with its former value. */
static inline void fetch(unsigned op, unsigned datatype, void *target, const void *operand,
			 void *result)
{
	tagrv_atomic_apply(TAGRV_ATOMIC_FETCH, op, datatype, target, operand, NULL, result, 1);
}

static inline void swap(unsigned op, unsigned datatype, void *target, const void *operand,
			const void *compare, void *result)
{
	tagrv_atomic_apply(TAGRV_ATOMIC_COMPARE, op, datatype, target, operand, compare, result,
			   1);
}

#endif
