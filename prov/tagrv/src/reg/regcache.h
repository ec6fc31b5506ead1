/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Registrations that outlive the operation: the cache of one device of one
 * domain.
 *
 *   get --> front (direct-mapped, recent) --> tree (by range) --> register
 *   put --> idle, least recently used first --> deregistered when the cache is
 *           full, memory runs out, or the monitor said that the memory went
 *
 * An entry in use is never deregistered. One whose memory went is handed out
 * to nobody any more, and goes with its last user.
 *
 * lock: the domain's, except where a function says not. What the monitor's
 * thread touches is under the monitor's lock: see monitor.h.
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
	uint64_t hits, misses;
	uint64_t evictions;	/* for want of room or of memory */
	uint64_t invalidations;	/* because their memory went */
	uint64_t bypasses;	/* get said no */
};

struct tagrv_regcache_limits {
	size_t	bytes;		/* registered and cached, together */
	size_t	count;		/* entries */
};

/* The monitor stays the caller's and outlives the cache. -FI_ENOMEM. */
int tagrv_regcache_create(struct tagrv_device *dev,
			  struct tagrv_monitor *monitor,
			  const struct tagrv_regcache_limits *limits,
			  struct tagrv_regcache **cache) TAGRV_WARN_UNUSED;
/* Nothing is in use any more. */
void tagrv_regcache_destroy(struct tagrv_regcache *cache);

/*
 * Memory that covers [addr, addr + len) and may be read by peers, held until
 * put. len > 0. -FI_EOPNOTSUPP: this memory cannot be cached, or not now: the
 * caller registers it for itself. -FI_ENOMEM: as mem_reg.
 */
int tagrv_regcache_get(struct tagrv_regcache *cache, const void *addr,
		       size_t len, struct tagrv_mem **mem) TAGRV_WARN_UNUSED;
/*
 * Whether memory at addr is kept, so that this buffer was in use before, and all
 * of its len bytes could be: a hint, without a look at what became of it since.
 */
bool tagrv_regcache_knows(struct tagrv_regcache *cache, const void *addr,
			  size_t len);
/* mem->owner is set for what get returned, and for nothing else. */
void tagrv_regcache_put(struct tagrv_mem *mem);

/*
 * Deregisters all that is not in use, and keeps to what fitted, which grows
 * again by and by: for when a registration got -FI_ENOMEM. Returns how many
 * there were.
 */
size_t tagrv_regcache_evict(struct tagrv_regcache *cache);

/*
 * Deregisters what lost its memory. get and put do so as well: this is for
 * those who have neither to do.
 */
void tagrv_regcache_reap(struct tagrv_regcache *cache);

void tagrv_regcache_get_stats(struct tagrv_regcache *cache,
			      struct tagrv_regcache_stats *stats);

#endif
