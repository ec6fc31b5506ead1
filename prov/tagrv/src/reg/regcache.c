/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Cache of registrations: see regcache.h; reasons in docs/registration.md.
 *
 * A region's life:
 *
 *   in a tree -----------------> removed ------------------> free_on_put
 *            (region.h draws this)  |     free_removed(),  |
 *                                   |     in use           |
 *                                   | free_removed(),      | last put
 *                                   v not in use           |
 *                                 freed <------------------'
 */
#include "reg/regcache.h"

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "core/list.h"
#include "reg/region.h"

#define FRONT_SLOTS	16u	/* a power of two */
#define ROOM_REGAIN	64u	/* see make_room */
/* No memory of a process lies above. Rounding up to a page would wrap there. */
#define LAST_PAGE	(UINTPTR_MAX - 0xfffff)

/* A slot of recently found regions, read without the monitor's lock. */
struct front {
	struct tagrv_region *region;
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
	unsigned forks;			/* monitor->forks when last read */
	struct tagrv_regcache_stats stats;
	struct tagrv_regions regions;
};

/* ---- removal of regions ---- */

/* Bytes of the pages that a region keeps. */
static size_t bytes_of(const struct tagrv_region *region)
{
	return tagrv_regions_page_bytes(&region->cache->regions,
					region->range.from, region->range.to);
}

/* Monitor's lock not held: deregistration frees memory. */
static void region_free(struct tagrv_region *region)
{
	struct tagrv_regcache *cache = region->cache;

	if (tagrv_list_linked(&region->idle))
		tagrv_list_remove(&region->idle);
	cache->bytes -= bytes_of(region);
	cache->count--;
	region->mem->dev->ops->mem_dereg(region->mem);
	free(region);
}

static void clear_front(struct tagrv_regcache *cache,
			const struct tagrv_region *region)
{
	for (size_t i = 0; i < FRONT_SLOTS; i++)
		if (cache->front[i].region == region)
			cache->front[i].region = NULL;
}

static TAGRV_COLD void free_removed(struct tagrv_regcache *cache)
{
	struct tagrv_region *region;

	while ((region = tagrv_regions_pop_removed(&cache->regions))) {
		region->free_on_put = true;
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
	if (TAGRV_UNLIKELY(atomic_load_explicit(&cache->regions.any_removed,
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
	struct tagrv_region *region;

	if (!node)
		return false;
	region = tagrv_container_of(node, struct tagrv_region, idle);
	tagrv_regions_remove(&cache->regions, region);
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
	tagrv_regions_remove_all(&cache->regions);
	free_removed(cache);
}

void tagrv_regcache_withdraw(struct tagrv_regcache *cache, const void *addr, size_t len)
{
	uintptr_t from = (uintptr_t) addr;

	if (is_foreign(cache))
		return;
	tagrv_regions_remove_readable(&cache->regions, from, from + len);
	free_removed(cache);
}

/* ---- hits ---- */

static bool region_suits(const struct tagrv_region *region, uintptr_t from,
			 uintptr_t to, unsigned access)
{
	return region->range.from <= from && region->range.to >= to &&
	       !(access & ~region->access);
}

/* What is sent from a buffer and what is received into it have slots of their own. */
static struct front *front_of(struct tagrv_regcache *cache, uintptr_t from,
			      unsigned access)
{
	uint64_t place = (from >> 12) + (access & TAGRV_MEM_READ);

	return &cache->front[(place * 0x9e3779b97f4a7c15u >> 32) %
			     FRONT_SLOTS];
}

static struct tagrv_region *find(struct tagrv_regcache *cache, uintptr_t from,
			   uintptr_t to, unsigned access)
{
	unsigned generation = atomic_load_explicit(&cache->monitor->generation,
						   memory_order_acquire);
	struct front *front = front_of(cache, from, access);
	struct tagrv_region *region;

	if (front->region && front->generation == generation &&
	    region_suits(front->region, from, to, access))
		return front->region;
	region = tagrv_regions_search(&cache->regions, from, to, access, &generation);
	if (!region)
		return NULL;
	front->region = region;
	front->generation = generation;
	return region;
}

static struct tagrv_mem *start_use(struct tagrv_region *region)
{
	if (!region->users++ && tagrv_list_linked(&region->idle))
		tagrv_list_remove(&region->idle);
	return region->mem;
}

/* ---- misses ---- */

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

/*
 * The range is watched before it is registered. If it is invalidated in between,
 * the region serves this caller's operation only.
 */
static int register_region(struct tagrv_regcache *cache, uintptr_t from, uintptr_t to,
			   unsigned access, struct tagrv_region **out)
{
	struct tagrv_region *region;
	int ret;

	if (!make_room(cache, tagrv_regions_page_bytes(&cache->regions, from, to)))
		return -FI_EOPNOTSUPP;
	region = tagrv_region_create(&cache->regions, from, to, access);
	if (!region)
		return -FI_ENOMEM;
	region->cache = cache;
	region->users = 1;
	ret = tagrv_regions_insert(&cache->regions, region);
	free_removed(cache);
	if (!ret) {
		ret = cache->dev->ops->mem_reg(cache->dev,
					       (void *) region->range.from,
					       region->range.to - region->range.from,
					       region->access, &region->mem);
		if (ret)
			tagrv_regions_undo(&cache->regions, region);
	}
	if (ret) {
		free(region);
		return ret == -FI_ENOMEM ? ret : -FI_EOPNOTSUPP;
	}
	region->mem->owner = region;
	cache->bytes += bytes_of(region);
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
		       size_t len, unsigned access, struct tagrv_mem **mem)
{
	uintptr_t from = (uintptr_t) addr, to = from + len;
	struct tagrv_region *region;
	int ret;

	assert(!(access & TAGRV_MEM_WRITE));
	tagrv_regcache_free_invalidated(cache);
	if (!may_use(cache) || to <= from || to > LAST_PAGE) {
		cache->stats.bypasses++;
		return -FI_EOPNOTSUPP;
	}
	region = find(cache, from, to, access);
	if (TAGRV_LIKELY(region)) {
		cache->stats.hits++;
		*mem = start_use(region);
		return 0;
	}
	ret = register_region(cache, from, to, access, &region);
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
	       find(cache, from, from + 1, 0);
}

void tagrv_regcache_put(struct tagrv_mem *mem)
{
	struct tagrv_region *region = mem->owner;
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
	cache->forks = atomic_load(&monitor->forks);
	tagrv_list_init(&cache->idle);
	tagrv_regions_init(&cache->regions, monitor);
	*out = cache;
	return 0;
}

void tagrv_regcache_destroy(struct tagrv_regcache *cache)
{
	if (!is_foreign(cache)) {
		drop_all(cache);
		assert(!cache->count);
		tagrv_regions_fini(&cache->regions);
	}
	free(cache);
}
