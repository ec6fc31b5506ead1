/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The domain lock. It is not taken when the application promised to serialize its
 * calls itself (FI_THREAD_DOMAIN and weaker). Else it is biased to its first thread,
 * which takes it by a store instead of an atomic operation, until another thread
 * comes:
 *
 *   UNBOUND --first acquire--> biased to thread T --acquire of another--> REVOKED
 *
 *   T: acquire                       another thread: its first acquire
 *   held = 1                         mutex
 *   (compiler barrier)               bias = REVOKED
 *   bias is still T: has the lock    membarrier: full barrier in all threads
 *   else held = 0, mutex             waits until held is 0: has the lock
 *
 * From then on the lock is a mutex for all. One of the two sees the other's store,
 * because the barrier orders T's store and load although T executes no fence.
 *
 * Lock order: the domain lock first, then a mutex of the wireup thread's queues.
 * A thread that holds a wireup queue mutex takes no other lock.
 *
 * In debug builds the lock knows its owner. Functions that need the lock assert
 * tagrv_lock_held(). Where the lock is off, acquire asserts that no other thread is
 * between acquire and release, so a broken promise is noticed.
 */
#ifndef TAGRV_CORE_LOCK_H
#define TAGRV_CORE_LOCK_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/compiler.h"

/* Values of 'bias' that are no thread. */
#define TAGRV_LOCK_REVOKED	((uintptr_t) 0)
#define TAGRV_LOCK_UNBOUND	((uintptr_t) 1)

struct tagrv_lock {
	bool on;		/* false: acquire and release lock nothing */
	bool by_mutex;		/* the mutex is taken, for good; changed by the
				   thread that has the lock */
	_Atomic uint32_t held;	/* by the thread that it is biased to */
	_Atomic uintptr_t bias;	/* pthread_self() of that thread, or see above */
	pthread_mutex_t mutex;
	/* The thread between acquire and release; 0: none. Used in debug builds,
	 * present in all: programs that assert may link objects that do not. */
	_Atomic uint32_t owner;
};

/* on: whether acquire and release lock at all. Returns 0 or -errno. */
int tagrv_lock_init(struct tagrv_lock *lock, bool on);
void tagrv_lock_fini(struct tagrv_lock *lock);
/* The rare part of acquire: binds the lock, or revokes its bias, or waits. */
void tagrv_lock_acquire_other(struct tagrv_lock *lock) TAGRV_COLD;

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

/* Takes the lock if it is biased to this thread. */
static inline bool tagrv_lock_acquire_biased(struct tagrv_lock *lock)
{
	uintptr_t self = (uintptr_t) pthread_self();

	if (TAGRV_UNLIKELY(atomic_load_explicit(&lock->bias,
						memory_order_relaxed) != self))
		return false;
	atomic_store_explicit(&lock->held, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (TAGRV_LIKELY(atomic_load_explicit(&lock->bias,
					      memory_order_relaxed) == self))
		return true;
	atomic_store_explicit(&lock->held, 0, memory_order_release);
	return false;
}

static inline void tagrv_lock_acquire(struct tagrv_lock *lock)
{
	assert(!tagrv_lock_is_mine(lock));
	if (lock->on && !tagrv_lock_acquire_biased(lock))
		tagrv_lock_acquire_other(lock);
	tagrv_lock_set_owner(lock);
}

static inline void tagrv_lock_release(struct tagrv_lock *lock)
{
	assert(tagrv_lock_is_mine(lock));
	tagrv_lock_clear_owner(lock);
	if (!lock->on)
		return;
	/* Not by 'held': a thread that has lost the bias may set it for a moment. */
	if (TAGRV_LIKELY(!lock->by_mutex))
		atomic_store_explicit(&lock->held, 0, memory_order_release);
	else
		pthread_mutex_unlock(&lock->mutex);
}

#endif
