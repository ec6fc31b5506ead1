/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Regions of a cache, by address: see region.h.
 */
#include "reg/region.h"

#include <stdlib.h>

#include "core/page.h"

/* ---- pages ---- */

static uintptr_t page_start(const struct tagrv_regions *regions, uintptr_t addr)
{
	return tagrv_page_start(addr, regions->page);
}

static uintptr_t page_end(const struct tagrv_regions *regions, uintptr_t addr)
{
	return tagrv_page_end(addr, regions->page);
}

size_t tagrv_regions_page_bytes(const struct tagrv_regions *regions, uintptr_t from,
				uintptr_t to)
{
	return page_end(regions, to) - page_start(regions, from);
}

/* Monitor's lock held. Parts of the range may still be mapped and watched. */
static void unwatch(struct tagrv_regions *regions, const struct tagrv_region *region)
{
	tagrv_monitor_unwatch_unused(regions->monitor,
				     page_start(regions, region->range.from),
				     page_end(regions, region->range.to));
}

struct tagrv_region *tagrv_region_create(const struct tagrv_regions *regions,
					 uintptr_t from, uintptr_t to,
					 unsigned access)
{
	struct tagrv_region *region = calloc(1, sizeof(*region));
	bool readable = access & TAGRV_MEM_READ;

	if (!region)
		return NULL;
	region->kind = readable ? TAGRV_REGION_READABLE : TAGRV_REGION_LOCAL;
	/* What was sent may be received into later, and is then found here. */
	region->access = access | TAGRV_MEM_STORE;
	region->range.from = readable ? from : page_start(regions, from);
	region->range.to = readable ? to : page_end(regions, to);
	tagrv_list_init(&region->idle);
	tagrv_list_init(&region->removed);
	return region;
}

/* ---- removal ---- */

static struct tagrv_region *region_of(struct tagrv_interval *range)
{
	return tagrv_container_of(range, struct tagrv_region, range);
}

static struct tagrv_intervals *ranges_of(struct tagrv_regions *regions,
					 const struct tagrv_region *region)
{
	return &regions->trees[region->kind].ranges;
}

/* Monitor's lock held; monitor.h says what must not be done then. */
static void remove_from_tree(struct tagrv_regions *regions,
			     struct tagrv_region *region, bool invalidated)
{
	tagrv_interval_remove(ranges_of(regions, region), &region->range);
	region->live = false;
	region->invalidated = invalidated;
	tagrv_list_push_tail(&regions->removed, &region->removed);
	atomic_store_explicit(&regions->any_removed, true, memory_order_release);
}

static void invalidate(struct tagrv_watcher *watcher, uintptr_t from,
		       uintptr_t to)
{
	struct tagrv_region_tree *tree =
		tagrv_container_of(watcher, struct tagrv_region_tree, watcher);
	struct tagrv_interval *range;

	while ((range = tagrv_interval_overlap(&tree->ranges, from, to)))
		remove_from_tree(tree->regions, region_of(range), true);
}

void tagrv_regions_remove(struct tagrv_regions *regions, struct tagrv_region *region)
{
	tagrv_monitor_lock(regions->monitor);
	if (region->live)
		remove_from_tree(regions, region, false);
	tagrv_monitor_unlock(regions->monitor);
}

void tagrv_regions_remove_all(struct tagrv_regions *regions)
{
	tagrv_monitor_lock(regions->monitor);
	for (size_t i = 0; i < TAGRV_REGION_KINDS; i++)
		invalidate(&regions->trees[i].watcher, 0, UINTPTR_MAX);
	tagrv_monitor_unlock(regions->monitor);
}

void tagrv_regions_remove_readable(struct tagrv_regions *regions, uintptr_t from,
				   uintptr_t to)
{
	struct tagrv_region_tree *tree = &regions->trees[TAGRV_REGION_READABLE];
	struct tagrv_interval *range;

	tagrv_monitor_lock(regions->monitor);
	while ((range = tagrv_interval_overlap(&tree->ranges, from, to)))
		remove_from_tree(regions, region_of(range), false);
	tagrv_monitor_unlock(regions->monitor);
}

struct tagrv_region *tagrv_regions_pop_removed(struct tagrv_regions *regions)
{
	struct tagrv_region *region = NULL;
	struct tagrv_list *node;

	tagrv_monitor_lock(regions->monitor);
	node = tagrv_list_pop(&regions->removed);
	if (node) {
		region = tagrv_container_of(node, struct tagrv_region, removed);
		unwatch(regions, region);
	} else {
		atomic_store(&regions->any_removed, false);
	}
	tagrv_monitor_unlock(regions->monitor);
	return region;
}

/* ---- search ---- */

struct tagrv_region *tagrv_regions_search(struct tagrv_regions *regions,
					  uintptr_t from, uintptr_t to,
					  unsigned access, unsigned *generation)
{
	struct tagrv_interval *range = NULL;

	tagrv_monitor_lock(regions->monitor);
	if (!(access & TAGRV_MEM_READ))
		range = tagrv_interval_cover(
			&regions->trees[TAGRV_REGION_LOCAL].ranges, from, to);
	if (!range)
		range = tagrv_interval_cover(
			&regions->trees[TAGRV_REGION_READABLE].ranges, from, to);
	*generation = atomic_load(&regions->monitor->generation);
	tagrv_monitor_unlock(regions->monitor);
	return range ? region_of(range) : NULL;
}

/* ---- insertion ---- */

/* Regions that only overlap the new one stay: docs/registration.md, "Structure". */
static void remove_covered(struct tagrv_regions *regions,
			   struct tagrv_region_tree *tree,
			   const struct tagrv_region *region)
{
	struct tagrv_interval *range;

	while ((range = tagrv_interval_from(&tree->ranges, region->range.from)) &&
	       range->to <= region->range.to)
		remove_from_tree(regions, region_of(range), false);
}

int tagrv_regions_insert(struct tagrv_regions *regions, struct tagrv_region *region)
{
	struct tagrv_monitor *monitor = regions->monitor;
	int ret;

	tagrv_monitor_lock(monitor);
	remove_covered(regions, &regions->trees[TAGRV_REGION_LOCAL], region);
	if (region->kind == TAGRV_REGION_READABLE)
		remove_covered(regions, &regions->trees[region->kind], region);
	tagrv_interval_insert(ranges_of(regions, region), &region->range);
	region->live = true;
	ret = monitor->ops->watch(monitor, page_start(regions, region->range.from),
				  page_end(regions, region->range.to));
	if (ret)
		tagrv_interval_remove(ranges_of(regions, region), &region->range);
	tagrv_monitor_unlock(monitor);
	return ret;
}

void tagrv_regions_undo(struct tagrv_regions *regions, struct tagrv_region *region)
{
	tagrv_monitor_lock(regions->monitor);
	if (region->live)
		tagrv_interval_remove(ranges_of(regions, region), &region->range);
	else
		tagrv_list_remove(&region->removed);
	unwatch(regions, region);
	tagrv_monitor_unlock(regions->monitor);
}

/* ---- begin and end ---- */

void tagrv_regions_init(struct tagrv_regions *regions,
			struct tagrv_monitor *monitor)
{
	regions->monitor = monitor;
	regions->page = tagrv_page_size();
	tagrv_list_init(&regions->removed);
	for (size_t i = 0; i < TAGRV_REGION_KINDS; i++) {
		struct tagrv_region_tree *tree = &regions->trees[i];

		tree->regions = regions;
		tree->watcher.ranges = &tree->ranges;
		tree->watcher.invalidate = invalidate;
		tagrv_monitor_add(monitor, &tree->watcher);
	}
}

void tagrv_regions_fini(struct tagrv_regions *regions)
{
	for (size_t i = 0; i < TAGRV_REGION_KINDS; i++)
		tagrv_monitor_remove(regions->monitor,
				     &regions->trees[i].watcher);
}
