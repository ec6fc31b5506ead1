/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The domain lock: binding it to its first thread, and revoking that. See lock.h.
 */
#include "core/lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_barrier;

static int membarrier(int command)
{
	return (int) syscall(SYS_membarrier, command, 0, 0);
}

/* The thread sanitizer does not know this barrier: with it, no lock is biased. */
static void register_process(void)
{
#ifndef __SANITIZE_THREAD__
	int commands = membarrier(MEMBARRIER_CMD_QUERY);

	has_barrier = commands > 0 &&
		commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED &&
		!membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
#endif
}

int tagrv_lock_init(struct tagrv_lock *lock, bool on)
{
	pthread_once(&once, register_process);
	lock->on = on;
	lock->by_mutex = !on || !has_barrier;
	atomic_init(&lock->owner, 0);
	atomic_init(&lock->held, 0);
	atomic_init(&lock->bias, lock->by_mutex ? TAGRV_LOCK_REVOKED :
						  TAGRV_LOCK_UNBOUND);
	return -pthread_mutex_init(&lock->mutex, NULL);
}

void tagrv_lock_fini(struct tagrv_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

static bool bind_to_self(struct tagrv_lock *lock)
{
	uintptr_t before = TAGRV_LOCK_UNBOUND;

	return atomic_load(&lock->bias) == before &&
	       atomic_compare_exchange_strong(&lock->bias, &before,
					      (uintptr_t) pthread_self()) &&
	       tagrv_lock_acquire_biased(lock);
}

/* Mutex held. The thread that has the bias may be between acquire and release. */
static void revoke_bias(struct tagrv_lock *lock)
{
	atomic_store(&lock->bias, TAGRV_LOCK_REVOKED);
	membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	while (atomic_load_explicit(&lock->held, memory_order_acquire))
		sched_yield();
	lock->by_mutex = true;
}

void tagrv_lock_acquire_other(struct tagrv_lock *lock)
{
	if (bind_to_self(lock))
		return;
	pthread_mutex_lock(&lock->mutex);
	if (TAGRV_UNLIKELY(atomic_load(&lock->bias) != TAGRV_LOCK_REVOKED))
		revoke_bias(lock);
}
