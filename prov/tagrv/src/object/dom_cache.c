/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which devices of a domain have a cache of registrations, and when: declared
 * in dom.h. A cache and its monitor, which has a thread, are made when something
 * is registered for the first time, so that a program that sends only short
 * messages has neither.
 */
#include <rdma/fi_errno.h>
#include <strings.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memlock.h"
#include "object/dom.h"
#include "reg/regcache.h"

/*
 * Registrations that take at least so many seconds are kept. Finding one costs
 * some 0.2 us, so a registration that is a mere table entry is made anew.
 */
#define KEEP_COST	1e-6

#define COUNT_MAX	1024	/* each may split a mapping of the kernel's */

void tagrv_dom_want_cache(struct tagrv_dom *dom,
			  const struct tagrv_xport *xport)
{
	tagrv_assert_locked(dom);
	if (xport->attr.reg_overhead < KEEP_COST)
		return;
	for (size_t i = 0; i < dom->dev_cnt; i++)
		if (dom->devs[i] == xport->dev && !dom->caches[i].cache)
			dom->caches[i].wanted = true;
}

/*
 * By default half of the memory that may be locked: receive buffers and the
 * application need some, too. Without a limit, a quarter of this host's memory.
 */
static struct tagrv_regcache_limits
limits_of(const struct tagrv_params *params)
{
	struct tagrv_regcache_limits limits = { .count = COUNT_MAX };
	size_t memlock = tagrv_memlock_limit();
	long pages, page;

	limits.bytes = params->regcache_max;
	if (limits.bytes)
		return limits;
	if (memlock != SIZE_MAX) {
		limits.bytes = memlock / 2;
		return limits;
	}
	pages = sysconf(_SC_PHYS_PAGES);
	page = sysconf(_SC_PAGESIZE);
	if (pages > 0 && page > 0)
		limits.bytes = (size_t) pages / 4 * (size_t) page;
	return limits;
}

/* A user who asked for the cache ("yes") gets a warning that says why there is none. */
static void log_no_cache(const struct tagrv_dom *dom, const char *why)
{
	if (!strcasecmp(dom->params.regcache, "yes"))
		tagrv_warn("registrations are not kept, but made for each "
			   "operation: %s\n", why);
	else
		tagrv_info("registrations are not kept, but made for each "
			   "operation: %s\n", why);
}

static bool is_off(const struct tagrv_dom *dom)
{
	const char *how = dom->params.regcache;

	if (!strcasecmp(how, "no")) {
		log_no_cache(dom, "FI_TAGRV_REGCACHE is no");
		return true;
	}
	if (*how && strcasecmp(how, "auto") && strcasecmp(how, "yes"))
		tagrv_warn("FI_TAGRV_REGCACHE is '%s', which is neither auto "
			   "nor yes nor no: auto is used\n", how);
	return false;
}

/* Tries once: a failure is not repeated with each registration. */
static void open_cache(struct tagrv_dom *dom, struct tagrv_dom_cache *c,
		       struct tagrv_device *dev)
{
	struct tagrv_regcache_limits limits = limits_of(&dom->params);
	struct tagrv_monitor *monitor;
	char why[96];

	c->wanted = false;
	if (is_off(dom))
		return;
	if (tagrv_monitor_get(dom->params.regcache_monitor, &monitor, why, sizeof(why))) {
		log_no_cache(dom, why);
		return;
	}
	if (tagrv_regcache_create(dev, monitor, &limits, &c->cache)) {
		tagrv_monitor_put(monitor);
		log_no_cache(dom, "out of memory");
		return;
	}
	c->monitor = monitor;
	tagrv_info("device %s: up to %zu bytes are kept registered, changes of "
		   "memory are reported by %s\n", dev->name, limits.bytes,
		   monitor->ops->name);
}

struct tagrv_regcache *tagrv_dom_cache(struct tagrv_dom *dom,
				       const struct tagrv_device *dev)
{
	tagrv_assert_locked(dom);
	for (size_t i = 0; i < dom->dev_cnt; i++) {
		if (dom->devs[i] != dev)
			continue;
		if (TAGRV_UNLIKELY(dom->caches[i].wanted))
			open_cache(dom, &dom->caches[i], dom->devs[i]);
		return dom->caches[i].cache;
	}
	return NULL;
}

size_t tagrv_dom_evict(struct tagrv_dom *dom, const struct tagrv_device *dev)
{
	tagrv_assert_locked(dom);
	for (size_t i = 0; i < dom->dev_cnt; i++)
		if (dom->devs[i] == dev && dom->caches[i].cache)
			return tagrv_regcache_evict(dom->caches[i].cache);
	return 0;
}

int tagrv_dom_mem_reg(struct tagrv_dom *dom, struct tagrv_device *dev, void *addr, size_t len,
		      unsigned access, struct tagrv_mem **mem)
{
	int ret = dev->ops->mem_reg(dev, addr, len, access, mem);

	if (ret == -FI_ENOMEM && tagrv_dom_evict(dom, dev))
		ret = dev->ops->mem_reg(dev, addr, len, access, mem);
	return ret;
}

/* Once for a domain: peers ask for each access. */
static void tell_too_many(struct tagrv_dom_shown *shown, size_t bytes)
{
	if (shown->told)
		return;
	shown->told = true;
	tagrv_warn("a region of %zu bytes that a peer accesses does not fit into the %zu bytes "
		   "that devices may access, with other such regions: this process carries out "
		   "reads and writes of it, and atomics by the device "
		   "(FI_TAGRV_ATOMICS=device) fail; raise FI_TAGRV_REGCACHE_MAX\n",
		   bytes, shown->max);
}

bool tagrv_dom_count_shown(struct tagrv_dom *dom, size_t bytes)
{
	struct tagrv_dom_shown *shown = &dom->shown;

	tagrv_assert_locked(dom);
	if (!shown->max_known)
		shown->max = limits_of(&dom->params).bytes;
	shown->max_known = true;
	/* Others take away at most, meanwhile. */
	if (bytes > shown->max || atomic_load(&shown->bytes) > shown->max - bytes) {
		tell_too_many(shown, bytes);
		return false;
	}
	atomic_fetch_add(&shown->bytes, bytes);
	return true;
}

void tagrv_dom_uncount_shown(struct tagrv_dom *dom, size_t bytes)
{
	atomic_fetch_sub(&dom->shown.bytes, bytes);
}

void tagrv_dom_free_invalidated(struct tagrv_dom *dom)
{
	tagrv_assert_locked(dom);
	for (size_t i = 0; i < dom->dev_cnt; i++)
		if (dom->caches[i].cache)
			tagrv_regcache_free_invalidated(dom->caches[i].cache);
}

void tagrv_dom_withdraw(struct tagrv_dom *dom, const struct iovec *iov, size_t cnt)
{
	tagrv_assert_locked(dom);
	for (size_t i = 0; i < dom->dev_cnt; i++)
		for (size_t k = 0; dom->caches[i].cache && k < cnt; k++)
			tagrv_regcache_withdraw(dom->caches[i].cache, iov[k].iov_base,
						iov[k].iov_len);
}

void tagrv_dom_cache_stats(const struct tagrv_dom *dom,
			   struct tagrv_regcache_stats *sum)
{
	tagrv_assert_locked(dom);
	*sum = (struct tagrv_regcache_stats) { 0 };
	for (size_t i = 0; i < dom->dev_cnt; i++) {
		struct tagrv_regcache_stats stats;

		if (!dom->caches[i].cache)
			continue;
		tagrv_regcache_get_stats(dom->caches[i].cache, &stats);
		sum->hits += stats.hits;
		sum->misses += stats.misses;
		sum->evictions += stats.evictions;
		sum->invalidations += stats.invalidations;
		sum->bypasses += stats.bypasses;
	}
}

void tagrv_dom_close_caches(struct tagrv_dom *dom)
{
	for (size_t i = 0; i < dom->dev_cnt; i++) {
		struct tagrv_dom_cache *c = &dom->caches[i];

		if (!c->cache)
			continue;
		tagrv_regcache_destroy(c->cache);
		tagrv_monitor_put(c->monitor);
		*c = (struct tagrv_dom_cache) { 0 };
	}
}
