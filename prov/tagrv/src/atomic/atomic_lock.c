/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Elements that no instruction changes at once: those of 16 or 32 bytes, and those that
 * are not aligned to their size. Each is changed under one of a few locks, which its
 * address chooses: all who change the element take the same one. Two elements that share
 * a lock only wait for each other.
 *
 * The locks belong to the process and not to a domain, because domains may register the
 * same memory.
 */
#include <pthread.h>
#include <string.h>

#include "atomic/atomic_priv.h"
#include "core/compiler.h"

#define LOCKS	64

static struct {
	_Alignas(TAGRV_CACHE_LINE) pthread_mutex_t mutex;
} locks[LOCKS] = {
	[0 ... LOCKS - 1] = { PTHREAD_MUTEX_INITIALIZER }
};

/* Neighbours of 16 bytes get different locks. Higher bits are mixed in, or elements at
 * equal places of structs of 1 KiB would share one. */
static pthread_mutex_t *lock_of(const void *target)
{
	uintptr_t at = (uintptr_t) target / 16;

	return &locks[(at ^ at / LOCKS ^ at / LOCKS / LOCKS) % LOCKS].mutex;
}

void tagrv_atomic_change_locked(const struct tagrv_atomic_step *step, void *target,
				union tagrv_element *old)
{
	pthread_mutex_t *mutex = lock_of(target);
	union tagrv_element next;

	pthread_mutex_lock(mutex);
	memcpy(old, target, step->size);
	if (step->op != FI_ATOMIC_READ) {
		next = *old;
		tagrv_atomic_compute(step, &next);
		memcpy(target, &next, step->size);
	}
	pthread_mutex_unlock(mutex);
}
