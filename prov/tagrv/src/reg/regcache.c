/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Cache of registrations: see regcache.h; reasons in docs/registration.md.
 *
 *   in tree ---- monitor, evicted, absorbed ----> in gone --- reap ---> lost
 *   (live)                                                  |  in use     |
 *                                                  not used |             |
 *                                                           v             |
 *                                                         freed <---------'
 *                                                               last user
 */
#include "reg/regcache.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/list.h"

#define FRONT_SLOTS	16u	/* a power of two */
#define REGAIN		64u	/* see make_room */

struct region {
	struct tagrv_interval range;
	struct tagrv_regcache *cache;
	struct tagrv_mem *mem;
	struct tagrv_list idle;		/* while not in use */
	unsigned users;
	bool	lost;			/* was in gone: goes with the last user */

	/* monitor's lock */
	struct tagrv_list gone;
	bool	live;			/* in the tree */
	bool	told;			/* the monitor took it out */
};

struct front {
	struct region *region;
	unsigned generation;		/* the monitor's, when it was right */
};

struct tagrv_regcache {
	struct tagrv_device *dev;
	struct tagrv_monitor *monitor;
	struct tagrv_regcache_limits limits;
	size_t	room;			/* bytes: what fitted, within limits */
	struct front front[FRONT_SLOTS];
	struct tagrv_list idle;		/* least recently used first */
	size_t	bytes, count;		/* registered here, lost ones too */
	size_t	page;
	unsigned forks;			/* the monitor's, when last looked */
	struct tagrv_regcache_stats stats;

	/* monitor's lock */
	struct tagrv_watcher watcher;
	struct tagrv_intervals tree;
	struct tagrv_list gone;
	atomic_bool any_gone;
};

/* ---- what the monitor says ---- */

/* Lock held; see monitor.h for what must not be done here. */
static void let_go(struct tagrv_regcache *cache, struct region *region,
		   bool told)
{
	tagrv_interval_remove(&cache->tree, &region->range);
	region->live = false;
	region->told = told;
	tagrv_list_push_tail(&cache->gone, &region->gone);
	atomic_store_explicit(&cache->any_gone, true, memory_order_release);
}

static void invalidate(struct tagrv_watcher *watcher, uintptr_t from,
		       uintptr_t to)
{
	struct tagrv_regcache *cache =
		tagrv_container_of(watcher, struct tagrv_regcache, watcher);
	struct tagrv_interval *range;

	while ((range = tagrv_interval_overlap(&cache->tree, from, to)))
		let_go(cache, tagrv_container_of(range, struct region, range),
		       true);
}

/* ---- ends of regions ---- */

/* Outside of the lock: deregistration frees memory. */
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

/* The next one that was taken out of the tree, or NULL. */
static struct region *take_gone(struct tagrv_regcache *cache)
{
	struct region *region = NULL;
	struct tagrv_list *node;

	tagrv_monitor_lock(cache->monitor);
	node = tagrv_list_pop(&cache->gone);
	if (node) {
		region = tagrv_container_of(node, struct region, gone);
		region->lost = true;
		/* Parts of it may still be there, and watched. */
		tagrv_monitor_release(cache->monitor, region->range.from,
				      region->range.to);
	} else {
		atomic_store(&cache->any_gone, false);
	}
	tagrv_monitor_unlock(cache->monitor);
	return region;
}

static void forget_front(struct tagrv_regcache *cache,
			 const struct region *region)
{
	for (size_t i = 0; i < FRONT_SLOTS; i++)
		if (cache->front[i].region == region)
			cache->front[i].region = NULL;
}

static TAGRV_COLD void reap_gone(struct tagrv_regcache *cache)
{
	struct region *region;

	while ((region = take_gone(cache))) {
		forget_front(cache, region);
		if (region->told)
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

void tagrv_regcache_reap(struct tagrv_regcache *cache)
{
	if (TAGRV_UNLIKELY(atomic_load_explicit(&cache->any_gone,
						memory_order_acquire)) &&
	    !is_foreign(cache))
		reap_gone(cache);
}

/* By the way that the monitor takes, which may have been faster. */
static bool evict_one(struct tagrv_regcache *cache)
{
	struct tagrv_list *node = tagrv_list_first(&cache->idle);
	struct region *region;

	if (!node)
		return false;
	region = tagrv_container_of(node, struct region, idle);
	tagrv_monitor_lock(cache->monitor);
	if (region->live)
		let_go(cache, region, false);
	tagrv_monitor_unlock(cache->monitor);
	reap_gone(cache);
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

/* After a fork: all is registered anew when it is used next. */
static TAGRV_COLD void drop_all(struct tagrv_regcache *cache)
{
	tagrv_monitor_lock(cache->monitor);
	invalidate(&cache->watcher, 0, UINTPTR_MAX);
	tagrv_monitor_unlock(cache->monitor);
	reap_gone(cache);
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

static struct tagrv_mem *hold(struct region *region)
{
	if (!region->users++ && tagrv_list_linked(&region->idle))
		tagrv_list_remove(&region->idle);
	return region->mem;
}

/* ---- misses ---- */

/*
 * A smaller region within a new one has nothing that the new one has not. Those
 * that only overlap stay: to register their union would make a walk through a
 * large buffer register it again and again.
 */
static void absorb(struct tagrv_regcache *cache, struct region *region)
{
	uintptr_t from = region->range.from, to = region->range.to;
	struct tagrv_interval *range;

	while ((range = tagrv_interval_from(&cache->tree, from)) &&
	       range->to <= to)
		let_go(cache, tagrv_container_of(range, struct region, range),
		       false);
}

static int enter(struct tagrv_regcache *cache, struct region *region)
{
	int ret;

	tagrv_monitor_lock(cache->monitor);
	absorb(cache, region);
	tagrv_interval_insert(&cache->tree, &region->range);
	region->live = true;
	ret = cache->monitor->ops->watch(cache->monitor, region->range.from,
					 region->range.to);
	if (ret)
		tagrv_interval_remove(&cache->tree, &region->range);
	tagrv_monitor_unlock(cache->monitor);
	reap_gone(cache);
	return ret;
}

/* Undoes enter, whether or not the monitor has been faster. */
static void withdraw(struct tagrv_regcache *cache, struct region *region)
{
	tagrv_monitor_lock(cache->monitor);
	if (region->live)
		tagrv_interval_remove(&cache->tree, &region->range);
	else
		tagrv_list_remove(&region->gone);
	tagrv_monitor_release(cache->monitor, region->range.from,
			      region->range.to);
	tagrv_monitor_unlock(cache->monitor);
}

/*
 * What once did not fit may fit by now, for others gave memory back: each one
 * that wants more than there is room for gains a part of its length. If it was
 * in vain, 1 in 64 of these has cost a failed registration.
 */
static bool make_room(struct tagrv_regcache *cache, size_t len)
{
	if (len > cache->limits.bytes)
		return false;
	if (cache->bytes + len > cache->room)
		cache->room = TAGRV_MIN(cache->limits.bytes,
					cache->room + len / REGAIN);
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
	tagrv_list_init(&region->gone);
	return region;
}

/*
 * Watched before it is registered: what happens in between is told, and the
 * region then serves this caller only, for whom it is good.
 */
static int add(struct tagrv_regcache *cache, uintptr_t from, uintptr_t to,
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
	ret = enter(cache, region);
	if (!ret) {
		ret = cache->dev->ops->mem_reg(cache->dev, (void *) from,
					       to - from, TAGRV_MEM_READ,
					       &region->mem);
		if (ret)
			withdraw(cache, region);
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

/* Whether what we hold may be used, for this process and at this moment. */
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

	tagrv_regcache_reap(cache);
	if (!may_use(cache) || to <= from) {
		cache->stats.bypasses++;
		return -FI_EOPNOTSUPP;
	}
	region = find(cache, from, to);
	if (TAGRV_LIKELY(region)) {
		cache->stats.hits++;
		*mem = hold(region);
		return 0;
	}
	ret = add(cache, from, to, &region);
	if (ret) {
		cache->stats.bypasses++;
		return ret;
	}
	cache->stats.misses++;
	*mem = region->mem;
	return 0;
}

bool tagrv_regcache_knows(struct tagrv_regcache *cache, const void *addr,
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

	/* The registration is the parent's: not ours to end. */
	if (TAGRV_UNLIKELY(is_foreign(cache)))
		return;
	tagrv_regcache_reap(cache);
	if (--region->users)
		return;
	if (TAGRV_UNLIKELY(region->lost))
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
	tagrv_list_init(&cache->gone);
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
