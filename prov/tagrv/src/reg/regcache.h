/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The cache of registrations of one device of one domain: memory stays registered
 * after the operation that needed it.
 *
 *   get --> front (direct-mapped, recent) --> tree (by range) --> register
 *   put --> idle list, least recently used first --> deregistered when the cache
 *           is full, registration fails for want of memory, or the monitor
 *           invalidated the memory
 *
 * A region in use is never deregistered. After its memory was invalidated, get
 * does not return it any more, and its last put deregisters it.
 *
 * lock: the domain lock is held in every call. Fields that the monitor's thread
 * touches are under the monitor's lock: see monitor.h.
 */
#ifndef TAGRV_REG_REGCACHE_H
#define TAGRV_REG_REGCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"
#include "reg/monitor.h"
#include "xport/xport.h"

struct tagrv_regcache;

struct tagrv_regcache_stats {
	uint64_t hits;		/* get found a region */
	uint64_t misses;	/* get registered one and kept it */
	uint64_t evictions;	/* removed for want of room or memory, or because
				   a new region covers it */
	uint64_t invalidations;	/* removed by the monitor, or after a fork */
	uint64_t bypasses;	/* get failed; the caller registers by itself */
};

struct tagrv_regcache_limits {
	size_t	bytes;		/* of all regions together */
	size_t	count;		/* of regions */
};

/* dev and monitor stay the caller's and outlive the cache. 0 or -FI_ENOMEM. */
int tagrv_regcache_create(struct tagrv_device *dev,
			  struct tagrv_monitor *monitor,
			  const struct tagrv_regcache_limits *limits,
			  struct tagrv_regcache **cache) TAGRV_WARN_UNUSED;
/* Deregisters all regions. None is in use any more. */
void tagrv_regcache_destroy(struct tagrv_regcache *cache);

/*
 * Returns registered memory that covers [addr, addr + len) and allows this access, of
 * enum tagrv_mem_access without TAGRV_MEM_WRITE; tagrv_regcache_put() ends its use.
 * len > 0. -FI_EOPNOTSUPP: this memory cannot be cached, or not now; the caller
 * registers it for the operation. -FI_ENOMEM: no memory, of the host or to be locked.
 *
 * What is registered for ourselves never becomes readable: a get with TAGRV_MEM_READ
 * registers its bytes, and no others, once more. What is readable already serves for
 * every access.
 */
int tagrv_regcache_get(struct tagrv_regcache *cache, const void *addr, size_t len,
		       unsigned access, struct tagrv_mem **mem) TAGRV_WARN_UNUSED;
/*
 * True: the page at addr is in the cache, so this buffer was probably used before,
 * and the limits allow all of its len bytes. A hint: does not ask whether the
 * memory is changing.
 */
bool tagrv_regcache_has_start(struct tagrv_regcache *cache, const void *addr,
			      size_t len);
/*
 * Ends one use of memory that get returned. Such memory has mem->owner set; memory
 * from mem_reg has not, and must not be put.
 */
void tagrv_regcache_put(struct tagrv_mem *mem);

/*
 * After a registration failed with -FI_ENOMEM: deregisters all regions that are
 * not in use. From then on the cache keeps no more bytes than it had; this limit
 * grows again slowly (see make_room). Returns the number of regions deregistered.
 */
size_t tagrv_regcache_evict(struct tagrv_regcache *cache);

/*
 * Peers shall not read [addr, addr + len) any more: what was kept readable and has a byte
 * of it is deregistered, what is in use with its last put.
 */
void tagrv_regcache_withdraw(struct tagrv_regcache *cache, const void *addr, size_t len);

/*
 * Deregisters unused regions whose memory was invalidated. get and put do this, too;
 * progress calls it for endpoints that do neither.
 */
void tagrv_regcache_free_invalidated(struct tagrv_regcache *cache);

/* Copies the statistics since the cache was created. */
void tagrv_regcache_get_stats(struct tagrv_regcache *cache,
			      struct tagrv_regcache_stats *stats);

#endif
