/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The part that all monitors share: the list of watchers, and which parts of a
 * range are still watched for one of them.
 */
#include "reg/monitor.h"

#include <rdma/fi_errno.h>
#include <stdio.h>
#include <strings.h>

#include "core/page.h"

int tagrv_monitor_init(struct tagrv_monitor *monitor,
		       const struct tagrv_monitor_ops *ops)
{
	monitor->ops = ops;
	tagrv_list_init(&monitor->watchers);
	atomic_init(&monitor->generation, 0);
	atomic_init(&monitor->forks, 0);
	atomic_init(&monitor->foreign, false);
	return -pthread_mutex_init(&monitor->mutex, NULL);
}

void tagrv_monitor_fini(struct tagrv_monitor *monitor)
{
	pthread_mutex_destroy(&monitor->mutex);
}

void tagrv_monitor_add(struct tagrv_monitor *monitor,
		       struct tagrv_watcher *watcher)
{
	tagrv_monitor_lock(monitor);
	tagrv_list_push_tail(&monitor->watchers, &watcher->node);
	tagrv_monitor_unlock(monitor);
}

void tagrv_monitor_remove(struct tagrv_monitor *monitor,
			  struct tagrv_watcher *watcher)
{
	tagrv_monitor_lock(monitor);
	tagrv_list_remove(&watcher->node);
	tagrv_monitor_unlock(monitor);
}

void tagrv_monitor_invalidate(struct tagrv_monitor *monitor, uintptr_t from,
			      uintptr_t to)
{
	struct tagrv_list *pos;

	tagrv_list_for_each(&monitor->watchers, pos) {
		struct tagrv_watcher *watcher = tagrv_container_of(
			pos, struct tagrv_watcher, node);

		watcher->invalidate(watcher, from, to);
	}
}

/* The lowest range of any watcher that meets [from, to). */
static struct tagrv_interval *lowest_range(struct tagrv_monitor *monitor,
					   uintptr_t from, uintptr_t to)
{
	struct tagrv_interval *lowest = NULL;
	struct tagrv_list *pos;

	tagrv_list_for_each(&monitor->watchers, pos) {
		struct tagrv_interval *range = tagrv_interval_overlap(
			tagrv_container_of(pos, struct tagrv_watcher,
					   node)->ranges, from, to);

		if (range && (!lowest || range->from < lowest->from))
			lowest = range;
	}
	return lowest;
}

/* Ranges may begin and end within a page, which is watched for them. */
void tagrv_monitor_unwatch_unused(struct tagrv_monitor *monitor, uintptr_t from,
				  uintptr_t to)
{
	const size_t page = tagrv_page_size();

	while (from < to) {
		struct tagrv_interval *range = lowest_range(monitor, from, to);
		uintptr_t end = range ? tagrv_page_start(range->from, page) : to;

		if (end > from)
			monitor->ops->unwatch(monitor, from, end);
		if (!range)
			return;
		from = tagrv_page_end(range->to, page);
	}
}

bool tagrv_monitor_release_is(const char *release, unsigned major, unsigned minor)
{
	unsigned got[2];

	return sscanf(release, "%u.%u", &got[0], &got[1]) == 2 &&
	       (got[0] > major || (got[0] == major && got[1] >= minor));
}

/* ---- choice ---- */

int tagrv_monitor_get(const char *how, struct tagrv_monitor **monitor, char *why,
		      size_t why_len)
{
	bool any = !*how || !strcasecmp(how, "auto");
	char none[96];
	int ret;

	if (!strcasecmp(how, "hooks"))
		return tagrv_monitor_hooks_get(monitor, why, why_len);
	if (!any && strcasecmp(how, "userfaultfd")) {
		snprintf(why, why_len, "FI_TAGRV_REGCACHE_MONITOR is '%s'", how);
		return -FI_EINVAL;
	}
	ret = tagrv_monitor_uffd_get(monitor, why, why_len);
	/* The reason of userfaultfd is of more use: few load the hooks. */
	if (ret && any && !tagrv_monitor_hooks_get(monitor, none, sizeof(none)))
		ret = 0;
	return ret;
}

void tagrv_monitor_put(struct tagrv_monitor *monitor)
{
	monitor->ops->put(monitor);
}
