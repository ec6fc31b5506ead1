/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A monitor learns from the kernel that memory is unmapped, moved or emptied, so
 * that the registration of old memory is not used for new memory at the same
 * address.
 *
 *   watcher (a cache) --> watch, unwatch     for the ranges that it keeps
 *                     --> changing           before it uses a kept range
 *   back end          --> invalidate         of every watcher, lock held
 *
 * The lock of a monitor is the innermost of all locks. While it is held, do not
 * allocate, free, register or log: a thread that frees memory may hold the
 * allocator's lock while it waits in munmap() until the back end has read the
 * event, and the back end needs the monitor's lock for that.
 *
 * docs/registration.md says why no stale registration is used, and what is not
 * covered.
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
	 * From here on changes of [from, to), whole pages, invalidate. Lock
	 * held. 0; -FI_EOPNOTSUPP: this kind of memory cannot be watched, or
	 * another userfaultfd of the process watches it; -FI_ENOMEM.
	 */
	int (*watch)(struct tagrv_monitor *monitor, uintptr_t from,
		     uintptr_t to);
	/* Ends watch. Lock held. Parts may be unwatched or unmapped already. */
	void (*unwatch)(struct tagrv_monitor *monitor, uintptr_t from,
			uintptr_t to);
	/*
	 * True: some watched memory is being changed and the watchers have not
	 * been invalidated yet. Any thread; needs no lock.
	 */
	bool (*changing)(struct tagrv_monitor *monitor);
	/* Ends one use of the monitor; see tagrv_monitor_get(). */
	void (*put)(struct tagrv_monitor *monitor);
};

struct tagrv_monitor {
	const struct tagrv_monitor_ops *ops;
	pthread_mutex_t mutex;
	struct tagrv_list watchers;	/* mutex held */
	/* Incremented before watchers are invalidated; read without the lock. */
	atomic_uint generation;
	atomic_uint forks;		/* how often this process has forked */
	/* True in a forked child: the monitor watches its parent's memory. */
	atomic_bool foreign;
};

/* A user of the monitor. Its owner sets all fields but node before add. */
struct tagrv_watcher {
	struct tagrv_list node;
	const struct tagrv_intervals *ranges;	/* watched; monitor's lock held */
	/* The memory in [from, to) is gone or will be. Monitor's lock held. */
	void (*invalidate)(struct tagrv_watcher *watcher, uintptr_t from,
			   uintptr_t to);
};

/* For back ends. ops must outlive the monitor. 0 or -FI_E*. */
int tagrv_monitor_init(struct tagrv_monitor *monitor,
		       const struct tagrv_monitor_ops *ops) TAGRV_WARN_UNUSED;
/* For back ends. All watchers were removed before. */
void tagrv_monitor_fini(struct tagrv_monitor *monitor);

static inline void tagrv_monitor_lock(struct tagrv_monitor *monitor)
{
	pthread_mutex_lock(&monitor->mutex);
}

static inline void tagrv_monitor_unlock(struct tagrv_monitor *monitor)
{
	pthread_mutex_unlock(&monitor->mutex);
}

/* Add and remove a watcher, which stays the caller's. They take the lock. */
void tagrv_monitor_add(struct tagrv_monitor *monitor,
		       struct tagrv_watcher *watcher);
void tagrv_monitor_remove(struct tagrv_monitor *monitor,
			  struct tagrv_watcher *watcher);

/* Calls invalidate of every watcher. For back ends; lock held. */
void tagrv_monitor_invalidate(struct tagrv_monitor *monitor, uintptr_t from,
			      uintptr_t to);
/* Unwatches the pages of [from, to) that no watcher has a byte of. Lock held. */
void tagrv_monitor_unwatch_unused(struct tagrv_monitor *monitor, uintptr_t from,
				  uintptr_t to);

/* Whether the release of a kernel, as of uname(), is this one or a later one. */
bool tagrv_monitor_release_is(const char *release, unsigned major, unsigned minor);

/*
 * Returns the monitor that 'how' names, of FI_TAGRV_REGCACHE_MONITOR: userfaultfd, hooks,
 * or auto or empty for the first of them that works. -FI_EINVAL: there is none of this
 * name; else as the calls below.
 */
int tagrv_monitor_get(const char *how, struct tagrv_monitor **monitor, char *why,
		      size_t why_len) TAGRV_WARN_UNUSED;
void tagrv_monitor_put(struct tagrv_monitor *monitor);

/*
 * Returns the monitor over userfaultfd(2). There is one in a process, for all
 * domains, since a range can belong to one userfaultfd only. The first get starts
 * it and its thread, the last put ends them. On -FI_ENOSYS, -FI_EPERM or
 * -FI_ENOMEM the text in 'why' (why_len bytes) says what is missing.
 */
int tagrv_monitor_uffd_get(struct tagrv_monitor **monitor, char *why,
			   size_t why_len) TAGRV_WARN_UNUSED;
void tagrv_monitor_uffd_put(struct tagrv_monitor *monitor);

/* As tagrv_monitor_uffd_get(), of the monitor over libtagrv-hooks.so. */
int tagrv_monitor_hooks_get(struct tagrv_monitor **monitor, char *why,
			    size_t why_len) TAGRV_WARN_UNUSED;
void tagrv_monitor_hooks_put(struct tagrv_monitor *monitor);

#endif
