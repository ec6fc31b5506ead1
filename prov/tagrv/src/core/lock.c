/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The domain lock: binding it to its first thread, and revoking that. See lock.h.
 */
#include "core/lock.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define YIELDS		100u
#define REST_NS		50000
#define SETTLE_NS	10000000

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

static void rest(long nsec)
{
	nanosleep(&(struct timespec) { .tv_nsec = nsec }, NULL);
}

/*
 * Waits until the thread that has the bias is out of the lock. A thread of real-time
 * priority must sleep, or the other one may not get its processor.
 */
static void await_release(struct tagrv_lock *lock)
{
	for (unsigned i = 0;
	     atomic_load_explicit(&lock->held, memory_order_acquire); i++)
		if (i < YIELDS)
			sched_yield();
		else
			rest(REST_NS);
}

/* Mutex held. The thread that has the bias may be between acquire and release. */
static void revoke_bias(struct tagrv_lock *lock)
{
	atomic_store(&lock->bias, TAGRV_LOCK_REVOKED);
	/* It may fail for want of memory, or where a filter of system calls was
	 * installed later: stores of the other thread become visible by themselves,
	 * long before the end of this rest. */
	if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))
		rest(SETTLE_NS);
	await_release(lock);
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
