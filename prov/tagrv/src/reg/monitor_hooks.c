/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The monitor over libtagrv-hooks.so, for processes that may not use userfaultfd(2):
 * the library stands in front of munmap and its like, and calls changed() below.
 *
 *   munmap, any thread        the library              caches
 *                             changing++
 *                             the system call
 *                             changed() -------------> generation++, regions removed
 *   goes on <---------------- changing--
 *
 * As with userfaultfd the memory is gone first and the regions are removed next. In
 * between 'changing' is not 0. A region that is made in between is removed, or was
 * registered after the system call.
 *
 * Only memory is watched of which the library knows that it cannot go away by other
 * calls: prov/tagrv/hooks/hooks.c.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <rdma/fi_errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "core/page.h"
#include "reg/hooks.h"
#include "reg/monitor.h"

struct hooks_monitor {
	struct tagrv_monitor base;
	struct tagrv_hooks *hooks;
	unsigned users;		/* the_mutex held */
};

/* The one of the process, as of userfaultfd. */
static pthread_mutex_t the_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct hooks_monitor *the_monitor;

static struct hooks_monitor *hooks_of(struct tagrv_monitor *base)
{
	return tagrv_container_of(base, struct hooks_monitor, base);
}

/* Called by the library, in any thread. The monitor lives until stop() has waited. */
static void changed(uintptr_t from, uintptr_t to)
{
	struct tagrv_monitor *base = &the_monitor->base;

	tagrv_monitor_lock(base);
	atomic_fetch_add(&base->generation, 1);
	tagrv_monitor_invalidate(base, from, to);
	tagrv_monitor_unlock(base);
}

static int hooks_watch(struct tagrv_monitor *base, uintptr_t from, uintptr_t to)
{
	return hooks_of(base)->hooks->is_known(from, to) ? 0 : -FI_EOPNOTSUPP;
}

static void hooks_unwatch(struct tagrv_monitor *base, uintptr_t from, uintptr_t to)
{
	(void) base;
	(void) from;
	(void) to;
}

static bool hooks_changing(struct tagrv_monitor *base)
{
	return atomic_load(&hooks_of(base)->hooks->changing) != 0;
}

static const struct tagrv_monitor_ops hooks_ops = {
	.name = "libtagrv-hooks.so",
	.watch = hooks_watch,
	.unwatch = hooks_unwatch,
	.changing = hooks_changing,
	.put = tagrv_monitor_hooks_put,
};

/* ---- fork ---- */

static void before_fork(void)
{
	pthread_mutex_lock(&the_mutex);
}

/* As in monitor_uffd.c. */
static void after_fork_parent(void)
{
	if (the_monitor)
		atomic_fetch_add(&the_monitor->base.forks, 1);
	pthread_mutex_unlock(&the_mutex);
}

/* The library has forgotten changed() in the child by itself. */
static void after_fork_child(void)
{
	pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	if (the_monitor)
		atomic_store(&the_monitor->base.foreign, true);
	the_monitor = NULL;
	the_mutex = fresh;
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

/* ---- start and end ---- */

/* Whether calls of this plug-in come to the library: it must be the first to have them. */
static bool is_in_front(const struct tagrv_hooks *hooks)
{
	size_t len = tagrv_page_size();
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t at = (uintptr_t) p;
	bool was_known;

	if (p == MAP_FAILED)
		return false;
	was_known = hooks->is_known(at, at + len);
	munmap(p, len);
	return was_known && !hooks->is_known(at, at + len);
}

static int start(struct hooks_monitor **out, char *why, size_t why_len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct tagrv_hooks *hooks = dlsym(RTLD_DEFAULT, TAGRV_HOOKS_NAME);
	struct hooks_monitor *monitor;
	int ret;

	if (!hooks || !is_in_front(hooks)) {
		snprintf(why, why_len, "libtagrv-hooks.so is not %s",
			 hooks ? "the first in LD_PRELOAD" : "loaded: see LD_PRELOAD");
		return -FI_ENOSYS;
	}
	monitor = calloc(1, sizeof(*monitor));
	if (!monitor)
		return -FI_ENOMEM;
	monitor->hooks = hooks;
	ret = tagrv_monitor_init(&monitor->base, &hooks_ops);
	if (ret) {
		free(monitor);
		return ret;
	}
	pthread_once(&once, watch_forks);
	*out = monitor;
	atomic_store(&hooks->changed, changed);
	return 0;
}

int tagrv_monitor_hooks_get(struct tagrv_monitor **monitor, char *why, size_t why_len)
{
	int ret = 0;

	snprintf(why, why_len, "out of memory");
	pthread_mutex_lock(&the_mutex);
	if (!the_monitor)
		ret = start(&the_monitor, why, why_len);
	if (!ret) {
		the_monitor->users++;
		*monitor = &the_monitor->base;
	}
	pthread_mutex_unlock(&the_mutex);
	return ret;
}

/* Calls that found changed() may still be on their way: waits for them. */
static void stop(struct hooks_monitor *monitor)
{
	atomic_store(&monitor->hooks->changed, NULL);
	while (atomic_load(&monitor->hooks->changing))
		sched_yield();
	tagrv_monitor_fini(&monitor->base);
	free(monitor);
}

void tagrv_monitor_hooks_put(struct tagrv_monitor *base)
{
	struct hooks_monitor *monitor = hooks_of(base);

	if (atomic_load(&base->foreign))
		return;
	pthread_mutex_lock(&the_mutex);
	if (!--monitor->users) {
		stop(monitor);
		the_monitor = NULL;
	}
	pthread_mutex_unlock(&the_mutex);
}
