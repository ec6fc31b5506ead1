/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Cache of registrations: see regcache.h; reasons in docs/registration.md.
 *
 * A region's life:
 *
 *   live, in tree -----------------> on cache->removed --------> free_on_put
 *            invalidated, evicted, or       |     free_removed(),  |
 *            covered by a new region        |     in use           |
 *                                           | free_removed(),      | last put
 *                                           v not in use           |
 *                                         freed <------------------'
 */
#include "reg/regcache.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/list.h"

#define FRONT_SLOTS	16u	/* a power of two */
#define ROOM_REGAIN	64u	/* see make_room */

struct region {
	struct tagrv_interval range;
	struct tagrv_regcache *cache;
	struct tagrv_mem *mem;
	struct tagrv_list idle;		/* while not in use */
	unsigned users;
	bool	free_on_put;		/* the last put frees it */

	/* monitor's lock */
	struct tagrv_list removed;	/* on cache->removed */
	bool	live;			/* in cache->tree */
	bool	invalidated;		/* removed by the monitor or after a fork */
};

/* A slot of recently found regions, read without the monitor's lock. */
struct front {
	struct region *region;
	unsigned generation;		/* valid while it is the monitor's */
};

struct tagrv_regcache {
	struct tagrv_device *dev;
	struct tagrv_monitor *monitor;
	struct tagrv_regcache_limits limits;
	size_t	room;			/* bytes to keep now; <= limits.bytes */
	struct front front[FRONT_SLOTS];
	struct tagrv_list idle;		/* unused regions, least recent first */
	size_t	bytes, count;		/* of all regions, removed ones that are in use too */
	size_t	page;			/* bytes */
	unsigned forks;			/* monitor->forks when last read */
	struct tagrv_regcache_stats stats;

	/* monitor's lock */
	struct tagrv_watcher watcher;
	struct tagrv_intervals tree;
	struct tagrv_list removed;	/* regions taken out of the tree */
	atomic_bool any_removed;	/* removed is not empty; read without lock */
};

/* ---- invalidation ---- */

/* Monitor's lock held; monitor.h says what must not be done then. */
static void remove_from_tree(struct tagrv_regcache *cache,
			     struct region *region, bool invalidated)
{
	tagrv_interval_remove(&cache->tree, &region->range);
	region->live = false;
	region->invalidated = invalidated;
	tagrv_list_push_tail(&cache->removed, &region->removed);
	atomic_store_explicit(&cache->any_removed, true, memory_order_release);
}

static void invalidate(struct tagrv_watcher *watcher, uintptr_t from,
		       uintptr_t to)
{
	struct tagrv_regcache *cache =
		tagrv_container_of(watcher, struct tagrv_regcache, watcher);
	struct tagrv_interval *range;

	while ((range = tagrv_interval_overlap(&cache->tree, from, to)))
		remove_from_tree(cache, tagrv_container_of(range, struct region, range),
				 true);
}

/* ---- removal of regions ---- */

/* Monitor's lock not held: deregistration frees memory. */
static void region_free(struct region *region)
{
	struct tagrv_regcache *cache = region->cache;

	if (tagrv_list_linked(&region->idle))
		tagrv_list_remove(&region->idle);
	cache->bytes -= region->range.to - region->range.from;
	cache->count--;
	region->mem->dev->ops->mem_dereg(region->mem);
	free(region);
}

/* Returns the next region that was removed from the tree, or NULL. */
static struct region *pop_removed(struct tagrv_regcache *cache)
{
	struct region *region = NULL;
	struct tagrv_list *node;

	tagrv_monitor_lock(cache->monitor);
	node = tagrv_list_pop(&cache->removed);
	if (node) {
		region = tagrv_container_of(node, struct region, removed);
		region->free_on_put = true;
		/* Parts of the range may still be mapped and watched. */
		tagrv_monitor_unwatch_unused(cache->monitor, region->range.from,
					     region->range.to);
	} else {
		atomic_store(&cache->any_removed, false);
	}
	tagrv_monitor_unlock(cache->monitor);
	return region;
}

static void clear_front(struct tagrv_regcache *cache,
			const struct region *region)
{
	for (size_t i = 0; i < FRONT_SLOTS; i++)
		if (cache->front[i].region == region)
			cache->front[i].region = NULL;
}

static TAGRV_COLD void free_removed(struct tagrv_regcache *cache)
{
	struct region *region;

	while ((region = pop_removed(cache))) {
		clear_front(cache, region);
		if (region->invalidated)
			cache->stats.invalidations++;
		else
			cache->stats.evictions++;
		if (!region->users)
			region_free(region);
	}
}

static bool is_foreign(const struct tagrv_regcache *cache)
{
	return atomic_load_explicit(&cache->monitor->foreign,
				    memory_order_relaxed);
}

void tagrv_regcache_free_invalidated(struct tagrv_regcache *cache)
{
	if (TAGRV_UNLIKELY(atomic_load_explicit(&cache->any_removed,
						memory_order_acquire)) &&
	    !is_foreign(cache))
		free_removed(cache);
}

/*
 * Frees the least recently used region. The monitor's thread may have removed this
 * region already. False: all regions are in use.
 */
static bool evict_one(struct tagrv_regcache *cache)
{
	struct tagrv_list *node = tagrv_list_first(&cache->idle);
	struct region *region;

	if (!node)
		return false;
	region = tagrv_container_of(node, struct region, idle);
	tagrv_monitor_lock(cache->monitor);
	if (region->live)
		remove_from_tree(cache, region, false);
	tagrv_monitor_unlock(cache->monitor);
	free_removed(cache);
	return true;
}

size_t tagrv_regcache_evict(struct tagrv_regcache *cache)
{
	size_t fitted = cache->bytes, cnt = 0;

	while (!is_foreign(cache) && evict_one(cache))
		cnt++;
	if (cnt)
		cache->room = TAGRV_MIN(cache->room, fitted);
	return cnt;
}

/* Removes all regions: after a fork, and at the end. */
static TAGRV_COLD void drop_all(struct tagrv_regcache *cache)
{
	tagrv_monitor_lock(cache->monitor);
	invalidate(&cache->watcher, 0, UINTPTR_MAX);
	tagrv_monitor_unlock(cache->monitor);
	free_removed(cache);
}

/* ---- hits ---- */

static bool region_covers(const struct region *region, uintptr_t from,
			  uintptr_t to)
{
	return region->range.from <= from && region->range.to >= to;
}

static struct front *front_of(struct tagrv_regcache *cache, uintptr_t from)
{
	uint64_t page = from / cache->page;

	return &cache->front[(page * 0x9e3779b97f4a7c15u >> 32) %
			     FRONT_SLOTS];
}

static struct region *find(struct tagrv_regcache *cache, uintptr_t from,
			   uintptr_t to)
{
	unsigned generation = atomic_load_explicit(&cache->monitor->generation,
						   memory_order_acquire);
	struct front *front = front_of(cache, from);
	struct tagrv_interval *range;

	if (front->region && front->generation == generation &&
	    region_covers(front->region, from, to))
		return front->region;
	tagrv_monitor_lock(cache->monitor);
	range = tagrv_interval_cover(&cache->tree, from, to);
	generation = atomic_load(&cache->monitor->generation);
	tagrv_monitor_unlock(cache->monitor);
	if (!range)
		return NULL;
	front->region = tagrv_container_of(range, struct region, range);
	front->generation = generation;
	return front->region;
}

static struct tagrv_mem *start_use(struct region *region)
{
	if (!region->users++ && tagrv_list_linked(&region->idle))
		tagrv_list_remove(&region->idle);
	return region->mem;
}

/* ---- misses ---- */

/*
 * Removes regions that lie within the new one. Regions that only overlap it stay:
 * docs/registration.md, "Structure".
 */
static void remove_covered(struct tagrv_regcache *cache, struct region *region)
{
	uintptr_t from = region->range.from, to = region->range.to;
	struct tagrv_interval *range;

	while ((range = tagrv_interval_from(&cache->tree, from)) &&
	       range->to <= to)
		remove_from_tree(cache, tagrv_container_of(range, struct region, range),
				 false);
}

static int insert_and_watch(struct tagrv_regcache *cache, struct region *region)
{
	int ret;

	tagrv_monitor_lock(cache->monitor);
	remove_covered(cache, region);
	tagrv_interval_insert(&cache->tree, &region->range);
	region->live = true;
	ret = cache->monitor->ops->watch(cache->monitor, region->range.from,
					 region->range.to);
	if (ret)
		tagrv_interval_remove(&cache->tree, &region->range);
	tagrv_monitor_unlock(cache->monitor);
	free_removed(cache);
	return ret;
}

/* Undoes insert_and_watch, even if the monitor has removed the region meanwhile. */
static void undo_insert(struct tagrv_regcache *cache, struct region *region)
{
	tagrv_monitor_lock(cache->monitor);
	if (region->live)
		tagrv_interval_remove(&cache->tree, &region->range);
	else
		tagrv_list_remove(&region->removed);
	tagrv_monitor_unwatch_unused(cache->monitor, region->range.from,
				     region->range.to);
	tagrv_monitor_unlock(cache->monitor);
}

/*
 * Evicts regions until len bytes fit. cache->room shrinks when a registration fails
 * for want of memory, but memory may be free again later: so each region that
 * exceeds the room raises it by 1/64 of its length. If memory is still short, at
 * most one in 64 such regions costs a failed registration. False: no room.
 */
static bool make_room(struct tagrv_regcache *cache, size_t len)
{
	if (len > cache->limits.bytes)
		return false;
	if (cache->bytes + len > cache->room)
		cache->room = TAGRV_MIN(cache->limits.bytes,
					cache->room + len / ROOM_REGAIN);
	if (len > cache->room)
		return false;
	while (cache->bytes > cache->room - len ||
	       cache->count >= cache->limits.count)
		if (!evict_one(cache))
			return false;
	return true;
}

static struct region *region_create(struct tagrv_regcache *cache,
				    uintptr_t from, uintptr_t to)
{
	struct region *region = calloc(1, sizeof(*region));

	if (!region)
		return NULL;
	region->cache = cache;
	region->range.from = from;
	region->range.to = to;
	tagrv_list_init(&region->idle);
	tagrv_list_init(&region->removed);
	return region;
}

/*
 * The range is watched before it is registered. If it is invalidated in between,
 * the region serves this caller's operation only.
 */
static int register_region(struct tagrv_regcache *cache, uintptr_t from, uintptr_t to,
			   struct region **out)
{
	struct region *region;
	int ret;

	if (!make_room(cache, to - from))
		return -FI_EOPNOTSUPP;
	region = region_create(cache, from, to);
	if (!region)
		return -FI_ENOMEM;
	region->users = 1;
	ret = insert_and_watch(cache, region);
	if (!ret) {
		ret = cache->dev->ops->mem_reg(cache->dev, (void *) from,
					       to - from, TAGRV_MEM_READ,
					       &region->mem);
		if (ret)
			undo_insert(cache, region);
	}
	if (ret) {
		free(region);
		return ret == -FI_ENOMEM ? ret : -FI_EOPNOTSUPP;
	}
	region->mem->owner = region;
	cache->bytes += to - from;
	cache->count++;
	*out = region;
	return 0;
}

/* ---- calls ---- */

/* True: regions may be used; this is not a forked child and no memory is changing. */
static bool may_use(struct tagrv_regcache *cache)
{
	unsigned forks;

	if (TAGRV_UNLIKELY(is_foreign(cache)))
		return false;
	forks = atomic_load_explicit(&cache->monitor->forks,
				     memory_order_relaxed);
	if (TAGRV_UNLIKELY(forks != cache->forks)) {
		cache->forks = forks;
		drop_all(cache);
	}
	return !cache->monitor->ops->changing(cache->monitor);
}

int tagrv_regcache_get(struct tagrv_regcache *cache, const void *addr,
		       size_t len, struct tagrv_mem **mem)
{
	uintptr_t from = (uintptr_t) addr & ~(cache->page - 1);
	uintptr_t to = ((uintptr_t) addr + len + cache->page - 1) &
		       ~(cache->page - 1);
	struct region *region;
	int ret;

	tagrv_regcache_free_invalidated(cache);
	if (!may_use(cache) || to <= from) {
		cache->stats.bypasses++;
		return -FI_EOPNOTSUPP;
	}
	region = find(cache, from, to);
	if (TAGRV_LIKELY(region)) {
		cache->stats.hits++;
		*mem = start_use(region);
		return 0;
	}
	ret = register_region(cache, from, to, &region);
	if (ret) {
		cache->stats.bypasses++;
		return ret;
	}
	cache->stats.misses++;
	*mem = region->mem;
	return 0;
}

bool tagrv_regcache_has_start(struct tagrv_regcache *cache, const void *addr,
			      size_t len)
{
	uintptr_t from = (uintptr_t) addr;

	return !is_foreign(cache) && len <= cache->limits.bytes &&
	       find(cache, from, from + 1);
}

void tagrv_regcache_put(struct tagrv_mem *mem)
{
	struct region *region = mem->owner;
	struct tagrv_regcache *cache = region->cache;

	/* In a forked child: the registration belongs to the parent. */
	if (TAGRV_UNLIKELY(is_foreign(cache)))
		return;
	tagrv_regcache_free_invalidated(cache);
	if (--region->users)
		return;
	if (TAGRV_UNLIKELY(region->free_on_put))
		region_free(region);
	else
		tagrv_list_push_tail(&cache->idle, &region->idle);
}

void tagrv_regcache_get_stats(struct tagrv_regcache *cache,
			      struct tagrv_regcache_stats *stats)
{
	*stats = cache->stats;
}

int tagrv_regcache_create(struct tagrv_device *dev,
			  struct tagrv_monitor *monitor,
			  const struct tagrv_regcache_limits *limits,
			  struct tagrv_regcache **out)
{
	struct tagrv_regcache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -FI_ENOMEM;
	cache->dev = dev;
	cache->monitor = monitor;
	cache->limits = *limits;
	cache->room = limits->bytes;
	cache->page = (size_t) sysconf(_SC_PAGESIZE);
	cache->forks = atomic_load(&monitor->forks);
	tagrv_list_init(&cache->idle);
	tagrv_list_init(&cache->removed);
	cache->watcher.ranges = &cache->tree;
	cache->watcher.invalidate = invalidate;
	tagrv_monitor_add(monitor, &cache->watcher);
	*out = cache;
	return 0;
}

void tagrv_regcache_destroy(struct tagrv_regcache *cache)
{
	if (!is_foreign(cache)) {
		drop_all(cache);
		assert(!cache->count);
		tagrv_monitor_remove(cache->monitor, &cache->watcher);
	}
	free(cache);
}
