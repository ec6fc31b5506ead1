/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The domain lock: a mutex that is not taken when the application promised to
 * serialize its calls itself (FI_THREAD_DOMAIN and weaker).
 *
 * Lock order: the domain lock first, then a mutex of the wireup thread's queues.
 * A thread that holds a wireup queue mutex takes no other lock.
 */
#ifndef TAGRV_CORE_LOCK_H
#define TAGRV_CORE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct tagrv_lock {
	pthread_mutex_t mutex;
	bool on;		/* false: acquire and release do nothing */
};

/* on: whether acquire and release lock at all. Returns 0 or -errno. */
static inline int tagrv_lock_init(struct tagrv_lock *lock, bool on)
{
	lock->on = on;
	return -pthread_mutex_init(&lock->mutex, NULL);
}

static inline void tagrv_lock_fini(struct tagrv_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static inline void tagrv_lock_acquire(struct tagrv_lock *lock)
{
	if (lock->on)
		pthread_mutex_lock(&lock->mutex);
}

static inline void tagrv_lock_release(struct tagrv_lock *lock)
{
	if (lock->on)
		pthread_mutex_unlock(&lock->mutex);
}

#endif
