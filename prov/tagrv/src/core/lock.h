/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The domain lock: a mutex that is not taken when the application promised to
 * serialize its calls itself (FI_THREAD_DOMAIN and weaker).
 *
 * Lock order: the domain lock first, then a mutex of the wireup thread's queues.
 * A thread that holds a wireup queue mutex takes no other lock.
 *
 * In debug builds the lock knows its owner. Functions that need the lock assert
 * tagrv_lock_held(). Where the mutex is not taken, acquire asserts that no other
 * thread is between acquire and release, so a broken promise is noticed.
 */
#ifndef TAGRV_CORE_LOCK_H
#define TAGRV_CORE_LOCK_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tagrv_lock {
	pthread_mutex_t mutex;
	bool on;		/* false: acquire and release lock nothing */
	/* The thread between acquire and release; 0: none. Used in debug builds,
	 * present in all: programs that assert may link objects that do not. */
	_Atomic uint32_t owner;
};

/* on: whether acquire and release lock at all. Returns 0 or -errno. */
static inline int tagrv_lock_init(struct tagrv_lock *lock, bool on)
{
	lock->on = on;
#ifndef NDEBUG
	atomic_init(&lock->owner, 0);
#endif
	return -pthread_mutex_init(&lock->mutex, NULL);
}

static inline void tagrv_lock_fini(struct tagrv_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

#ifndef NDEBUG

/* A number for the calling thread, never 0. Two threads could only share one if
 * their descriptors lay a multiple of 64 GiB apart; then a check misses a fault. */
static inline uint32_t tagrv_lock_self(void)
{
	return (uint32_t) ((uintptr_t) pthread_self() >> 4) | 1;
}

static inline bool tagrv_lock_is_mine(const struct tagrv_lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) ==
	       tagrv_lock_self();
}

/*
 * Whether the calling thread may use what the lock protects: it holds the lock,
 * or the lock is off and no other thread is between acquire and release.
 */
static inline bool tagrv_lock_held(const struct tagrv_lock *lock)
{
	return tagrv_lock_is_mine(lock) ||
	       (!lock->on && !atomic_load_explicit(&lock->owner,
						   memory_order_relaxed));
}

static inline void tagrv_lock_set_owner(struct tagrv_lock *lock)
{
	uint32_t before = atomic_exchange_explicit(&lock->owner,
						   tagrv_lock_self(),
						   memory_order_relaxed);

	assert(!before && "two threads are in calls of one domain, which was "
			  "opened with FI_THREAD_DOMAIN");
}

static inline void tagrv_lock_clear_owner(struct tagrv_lock *lock)
{
	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
}

#else
#define tagrv_lock_set_owner(lock)	((void) 0)
#define tagrv_lock_clear_owner(lock)	((void) 0)
#endif

static inline void tagrv_lock_acquire(struct tagrv_lock *lock)
{
	assert(!tagrv_lock_is_mine(lock));
	if (lock->on)
		pthread_mutex_lock(&lock->mutex);
	tagrv_lock_set_owner(lock);
}

static inline void tagrv_lock_release(struct tagrv_lock *lock)
{
	assert(tagrv_lock_is_mine(lock));
	tagrv_lock_clear_owner(lock);
	if (lock->on)
		pthread_mutex_unlock(&lock->mutex);
}

#endif
