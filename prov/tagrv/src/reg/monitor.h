/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Learns that memory is unmapped, moved or emptied, so that registrations of
 * it are not used for what comes to lie at the same address.
 *
 *   watcher (a cache) --> watch, unwatch     ranges it holds
 *                     --> changing           may what it holds be used?
 *   back end          --> invalidate         to every watcher, under the lock
 *
 * The lock of a monitor is the innermost of all. Who holds it allocates and
 * frees nothing, registers nothing and logs nothing: a thread that frees memory
 * may hold the allocator's lock and wait until the back end has taken in what
 * happened, for which the back end needs this lock.
 *
 * Why nothing stale is used, and what is not covered: docs/registration.md.
 */
#ifndef TAGRV_REG_MONITOR_H
#define TAGRV_REG_MONITOR_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/compiler.h"
#include "core/interval.h"
#include "core/list.h"

struct tagrv_monitor;

struct tagrv_monitor_ops {
	const char *name;
	/*
	 * Tells of changes of [from, to) from here on. Lock held; whole pages.
	 * -FI_EOPNOTSUPP: not of this kind of memory, or somebody else does;
	 * -FI_ENOMEM.
	 */
	int (*watch)(struct tagrv_monitor *monitor, uintptr_t from,
		     uintptr_t to);
	/* Lock held; parts that are not watched, or not there, do no harm. */
	void (*unwatch)(struct tagrv_monitor *monitor, uintptr_t from,
			uintptr_t to);
	/*
	 * Whether a change is under way of which watchers have not been told
	 * yet, of any range that is watched. Any thread, lock not needed.
	 */
	bool (*changing)(struct tagrv_monitor *monitor);
};

struct tagrv_monitor {
	const struct tagrv_monitor_ops *ops;
	pthread_mutex_t mutex;
	struct tagrv_list watchers;	/* under the mutex */
	/* Goes up before watchers are told of a change. */
	atomic_uint generation;
	atomic_uint forks;		/* of this process since the start */
	/* We are a child of the process whose memory it watches. */
	atomic_bool foreign;
};

/* Who wants to be told. Set by its owner, but for node. */
struct tagrv_watcher {
	struct tagrv_list node;
	const struct tagrv_intervals *ranges;	/* under the monitor's lock */
	/* What lies in [from, to) is gone or will be. Lock held. */
	void (*invalidate)(struct tagrv_watcher *watcher, uintptr_t from,
			   uintptr_t to);
};

/* For back ends; ops stay the caller's. */
int tagrv_monitor_init(struct tagrv_monitor *monitor,
		       const struct tagrv_monitor_ops *ops) TAGRV_WARN_UNUSED;
/* No watcher is left. */
void tagrv_monitor_fini(struct tagrv_monitor *monitor);

static inline void tagrv_monitor_lock(struct tagrv_monitor *monitor)
{
	pthread_mutex_lock(&monitor->mutex);
}

static inline void tagrv_monitor_unlock(struct tagrv_monitor *monitor)
{
	pthread_mutex_unlock(&monitor->mutex);
}

/* Lock not held. */
void tagrv_monitor_add(struct tagrv_monitor *monitor,
		       struct tagrv_watcher *watcher);
void tagrv_monitor_remove(struct tagrv_monitor *monitor,
			  struct tagrv_watcher *watcher);

/* Tells every watcher; lock held. For back ends. */
void tagrv_monitor_invalidate(struct tagrv_monitor *monitor, uintptr_t from,
			      uintptr_t to);
/* Ends watching of what of [from, to) no watcher's range meets; lock held. */
void tagrv_monitor_release(struct tagrv_monitor *monitor, uintptr_t from,
			   uintptr_t to);

/*
 * The process's monitor over userfaultfd(2): one for all domains, since a range
 * can have only one. Started with the first user, with a thread; ended with the
 * last one. -FI_ENOSYS or -FI_EPERM with the reason in why; -FI_ENOMEM.
 */
int tagrv_monitor_uffd_get(struct tagrv_monitor **monitor, char *why,
			   size_t why_len) TAGRV_WARN_UNUSED;
void tagrv_monitor_uffd_put(struct tagrv_monitor *monitor);

#endif
