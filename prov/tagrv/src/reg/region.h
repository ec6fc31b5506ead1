/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The regions of one cache, by address: what the monitor's thread shares with the
 * cache. Every field named here is under the monitor's lock, which the functions
 * take; monitor.h says what must not be done under it.
 *
 * There are two kinds of regions, each with a tree of its own:
 *
 *   local      for what we alone do: whole pages, which cost no more than parts
 *   readable   what peers may read: the bytes that were asked for and no others of
 *              their pages. Serves for all that a local one does
 *
 * A region's life:
 *
 *   live, in a tree ------------> on regions->removed ----------> popped
 *              invalidated, evicted, or              pop_removed
 *              covered by a new region
 */
#ifndef TAGRV_REG_REGION_H
#define TAGRV_REG_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"
#include "core/list.h"
#include "reg/monitor.h"
#include "xport/xport.h"

struct tagrv_regcache;

enum tagrv_region_kind {
	TAGRV_REGION_LOCAL,
	TAGRV_REGION_READABLE,
	TAGRV_REGION_KINDS,
};

struct tagrv_region {
	struct tagrv_interval range;
	struct tagrv_regcache *cache;
	struct tagrv_mem *mem;
	enum tagrv_region_kind kind;
	unsigned access;		/* enum tagrv_mem_access */
	struct tagrv_list idle;		/* while not in use */
	unsigned users;
	bool	free_on_put;		/* the last put frees it */

	/* monitor's lock */
	struct tagrv_list removed;	/* on regions->removed */
	bool	live;			/* in the tree of its kind */
	bool	invalidated;		/* removed by the monitor or after a fork */
};

/* The regions of one kind. */
struct tagrv_region_tree {
	struct tagrv_regions *regions;
	struct tagrv_watcher watcher;
	struct tagrv_intervals ranges;
};

struct tagrv_regions {
	struct tagrv_monitor *monitor;
	size_t	page;			/* bytes */
	struct tagrv_region_tree trees[TAGRV_REGION_KINDS];
	struct tagrv_list removed;	/* regions taken out of their tree */
	atomic_bool any_removed;	/* removed is not empty; read without lock */
};

/* The monitor stays the caller's and outlives the regions. */
void tagrv_regions_init(struct tagrv_regions *regions,
			struct tagrv_monitor *monitor);
/* There are no regions any more. */
void tagrv_regions_fini(struct tagrv_regions *regions);

/*
 * Returns a region for [from, to) with this access, in no tree: for peers' reads
 * exactly these bytes, else whole pages. NULL: no memory. To be freed by free().
 */
struct tagrv_region *tagrv_region_create(const struct tagrv_regions *regions,
					 uintptr_t from, uintptr_t to,
					 unsigned access) TAGRV_WARN_UNUSED;
/* Bytes of the pages that have a byte of [from, to). */
size_t tagrv_regions_page_bytes(const struct tagrv_regions *regions, uintptr_t from,
				uintptr_t to);

/*
 * Inserts the region and watches its pages. Removes regions within it that it can
 * stand for. 0, or the error of the monitor: then it was not inserted.
 */
int tagrv_regions_insert(struct tagrv_regions *regions, struct tagrv_region *region)
	TAGRV_WARN_UNUSED;
/* Undoes the insertion, even if the monitor has removed the region meanwhile. */
void tagrv_regions_undo(struct tagrv_regions *regions, struct tagrv_region *region);

/* A region that covers [from, to) and allows the access, or NULL. */
struct tagrv_region *tagrv_regions_search(struct tagrv_regions *regions,
					  uintptr_t from, uintptr_t to,
					  unsigned access, unsigned *generation);

/* Removes one region, unless the monitor has done so; or all of them. */
void tagrv_regions_remove(struct tagrv_regions *regions, struct tagrv_region *region);
void tagrv_regions_remove_all(struct tagrv_regions *regions);
/* Removes the readable ones that have a byte of [from, to). */
void tagrv_regions_remove_readable(struct tagrv_regions *regions, uintptr_t from,
				   uintptr_t to);
/* Takes a removed region off the list, and unwatches it; NULL: there is none. */
struct tagrv_region *tagrv_regions_pop_removed(struct tagrv_regions *regions);

#endif
