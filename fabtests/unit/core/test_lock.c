/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * lock.h, as debug builds have it: the lock knows its owner, and notices two
 * threads in a domain without a lock.
 */
#include "common/aborts.h"
#include "core/lock.h"

static struct tagrv_lock lock;

static void open_on(void)
{
	cr_assert_eq(tagrv_lock_init(&lock, true), 0);
}

static void open_off(void)
{
	cr_assert_eq(tagrv_lock_init(&lock, false), 0);
}

static void fini(void)
{
	tagrv_lock_fini(&lock);
}

static void *ask(void *held)
{
	*(bool *) held = tagrv_lock_held(&lock);
	return NULL;
}

static void *enter(void *arg)
{
	tagrv_lock_acquire(&lock);
	tagrv_lock_release(&lock);
	return arg;
}

static void in_thread(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, fn, arg), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

/* What another thread is told. */
static bool held_by_another(void)
{
	bool held;

	in_thread(ask, &held);
	return held;
}

TestSuite(lock, .init = open_on, .fini = fini, .timeout = 20);

Test(lock, is_held_by_its_owner_alone)
{
	cr_expect_not(tagrv_lock_held(&lock));
	for (int i = 0; i < 2; i++) {
		tagrv_lock_acquire(&lock);
		cr_expect(tagrv_lock_held(&lock));
		cr_expect_not(held_by_another());
		tagrv_lock_release(&lock);
		cr_expect_not(tagrv_lock_held(&lock));
		cr_expect_not(held_by_another());
	}
}

Test(lock, passes_from_thread_to_thread)
{
	in_thread(enter, NULL);
	tagrv_lock_acquire(&lock);
	cr_expect(tagrv_lock_held(&lock));
	tagrv_lock_release(&lock);
	in_thread(enter, NULL);
}

static void acquire(void)
{
	tagrv_lock_acquire(&lock);
}

static void release(void)
{
	tagrv_lock_release(&lock);
}

Test(lock, is_taken_once_and_released_by_its_owner)
{
	cr_expect(aborts(release));
	cr_expect_not(aborts(acquire));
	acquire();
	cr_expect(aborts(acquire));
	release();
}

/* ---- bias ---- */

Test(lock, is_biased_to_its_first_thread_until_another_comes)
{
	acquire();
	release();
	if (lock.by_mutex)
		cr_skip_test("there is no membarrier");
	cr_expect_eq(lock.bias, (uintptr_t) pthread_self());
	acquire();
	cr_expect(pthread_mutex_trylock(&lock.mutex) == 0);
	pthread_mutex_unlock(&lock.mutex);
	release();
	in_thread(enter, NULL);
	cr_expect_eq(lock.bias, TAGRV_LOCK_REVOKED);
	acquire();
	cr_expect(lock.by_mutex);
	cr_expect(pthread_mutex_trylock(&lock.mutex) != 0);
	release();
}

#define THREADS	4
#define ROUNDS	20000

static struct {
	uint64_t sum;		/* protected by the lock */
	_Atomic unsigned inside;
	_Atomic unsigned overlaps;
	pthread_barrier_t start;
} shared;

static void *add(void *arg)
{
	pthread_barrier_wait(&shared.start);
	for (unsigned i = 0; i < ROUNDS; i++) {
		tagrv_lock_acquire(&lock);
		if (shared.inside++)
			shared.overlaps++;
		shared.sum++;
		shared.inside--;
		tagrv_lock_release(&lock);
	}
	return arg;
}

/* Threads come while another one has the bias, each time anew. */
Test(lock, lets_one_thread_in_at_a_time, .timeout = 300)
{
	pthread_t threads[THREADS];

	for (unsigned round = 0; round < 20; round++) {
		shared.sum = 0;
		cr_assert_eq(pthread_barrier_init(&shared.start, NULL, THREADS), 0);
		for (unsigned i = 0; i < THREADS; i++)
			cr_assert_eq(pthread_create(&threads[i], NULL, add, NULL), 0);
		for (unsigned i = 0; i < THREADS; i++)
			cr_assert_eq(pthread_join(threads[i], NULL), 0);
		pthread_barrier_destroy(&shared.start);
		cr_assert_eq(shared.sum, THREADS * ROUNDS);
		cr_assert_eq(shared.overlaps, 0);
		tagrv_lock_fini(&lock);
		cr_assert_eq(tagrv_lock_init(&lock, true), 0);
	}
}

TestSuite(lock_off, .init = open_off, .fini = fini, .timeout = 20);

Test(lock_off, counts_as_held_while_nobody_is_inside)
{
	cr_expect(tagrv_lock_held(&lock));
	cr_expect(held_by_another());
	tagrv_lock_acquire(&lock);
	cr_expect(tagrv_lock_held(&lock));
	cr_expect_not(held_by_another());
	tagrv_lock_release(&lock);
	cr_expect(held_by_another());
}

Test(lock_off, serves_one_thread_after_the_other)
{
	in_thread(enter, NULL);
	enter(NULL);
	in_thread(enter, NULL);
}

static void two_inside(void)
{
	tagrv_lock_acquire(&lock);
	in_thread(enter, NULL);
}

Test(lock_off, notices_two_threads_inside)
{
	cr_expect(aborts(two_inside));
}
