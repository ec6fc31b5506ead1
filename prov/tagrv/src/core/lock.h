/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The lock of one domain: a mutex that is not taken when the application
 * promised to serialize its calls itself (FI_THREAD_DOMAIN and weaker).
 *
 * Rank: the domain lock comes first, the mutexes of the wireup thread's queues
 * after it. Nothing may be locked while a wireup queue mutex is held.
 */
#ifndef TAGRV_CORE_LOCK_H
#define TAGRV_CORE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

struct tagrv_lock {
	pthread_mutex_t mutex;
	bool on;
};

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
