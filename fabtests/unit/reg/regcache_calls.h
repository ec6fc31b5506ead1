/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A cache over the counting device and the scripted monitor, and short names for its
 * calls. Addresses are numbers: no memory is read or written.
 */
#ifndef TAGRV_REGCACHE_CALLS_H
#define TAGRV_REGCACHE_CALLS_H

#include <stdlib.h>

#include "unit/reg/regcache_fake.h"

#define PAGE	FAKE_PAGE
#define AT(n)	((void *) (BASE + (uintptr_t) (n) * PAGE))
#define BASE	FAKE_BASE

static struct tagrv_regcache *cache;
static struct tagrv_regcache_stats stats;

static inline void start(size_t pages, size_t count)
{
	struct tagrv_regcache_limits limits = { pages * PAGE, count };

	cr_assert_eq(tagrv_regcache_create(reg_device_start(),
					   fake_monitor_start(), &limits,
					   &cache), 0);
}

/* Pages have 4 KiB, or what UNIT_PAGE says: fabtests/scripts/pages. */
static inline void pretend_pages(void)
{
	const char *bytes = getenv("UNIT_PAGE");

	tagrv_page_size_pretend(bytes ? strtoul(bytes, NULL, 0) : 4096);
}

static inline void setup(void)
{
	pretend_pages();
	start(64, 16);
}

static inline void teardown(void)
{
	tagrv_regcache_destroy(cache);
	cr_assert_eq(reg_device.alive, 0, "%zu left", reg_device.alive);
	cr_assert_eq(fake_monitor_watched(), 0);
	tagrv_monitor_fini(&fake_monitor.base);
}

static inline struct tagrv_mem *get_for(unsigned access, void *addr, size_t len)
{
	struct tagrv_mem *mem = NULL;

	cr_assert_eq(tagrv_regcache_get(cache, addr, len, access, &mem), 0);
	cr_assert((char *) mem->addr <= (char *) addr);
	cr_assert((char *) mem->addr + mem->len >= (char *) addr + len);
	cr_assert_eq(mem->access & access, access);
	return mem;
}

static inline struct tagrv_mem *get(void *addr, size_t len)
{
	return get_for(TAGRV_MEM_STORE, addr, len);
}

static inline void use(void *addr, size_t len)
{
	tagrv_regcache_put(get(addr, len));
}

static inline void expect(uint64_t hits, uint64_t misses, uint64_t evictions,
		   uint64_t invalidations)
{
	tagrv_regcache_get_stats(cache, &stats);
	cr_assert_eq(stats.hits, hits, "%lu hits", (long) stats.hits);
	cr_assert_eq(stats.misses, misses, "%lu misses", (long) stats.misses);
	cr_assert_eq(stats.evictions, evictions, "%lu evictions",
		     (long) stats.evictions);
	cr_assert_eq(stats.invalidations, invalidations, "%lu invalidations",
		     (long) stats.invalidations);
}

static inline void change(unsigned from, unsigned to)
{
	fake_monitor_change(BASE + from * PAGE, BASE + to * PAGE);
}

#endif
