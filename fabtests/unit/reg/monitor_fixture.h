/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The monitor over userfaultfd with a cache of registrations over it, and real
 * memory for them to watch.
 *
 * A registration stands for pages, not for addresses. So when something is
 * registered, a number that occurs only once is written into each of its pages
 * that has none. A page that is mapped later at the same address does not have
 * the number, because the kernel hands out pages empty.
 */
#ifndef FABTESTS_UNIT_REG_MONITOR_FIXTURE_H
#define FABTESTS_UNIT_REG_MONITOR_FIXTURE_H

#include "core/page.h"
#include "unit/reg/regcache_fake.h"

#define PAGE	tagrv_page_size()
#define PAGES	16u
#define BYTES	(PAGES * PAGE)

struct watch {
	struct tagrv_monitor *monitor;
	struct tagrv_regcache *cache;
	char	why[96];		/* reason of a failure */
};

extern struct watch watch;

/*
 * Opens monitor and cache; each test begins with it. Where userfaultfd is not
 * permitted the monitor must say so and give a reason: then this returns false,
 * and the test ends.
 */
bool watch_start(void);
void watch_end(void);

/*
 * Returns when the monitor's thread has handled an event and holds no lock: call it
 * before fork(). Without it the thread may still be starting. gcc 12's libasan
 * allocates memory in a thread that starts and has no fork handlers, so that the
 * child would inherit a locked allocator: its next thread or malloc would hang.
 */
void watch_settle(void);

/*
 * Takes a registration from the cache and puts it back, as an operation does;
 * it must stand for the pages that are mapped now. Returns 1 when it was in the
 * cache, 0 when it was made, -1 when this memory cannot be watched.
 */
int watch_use(void *addr, size_t len);

/* Maps anonymous memory with further flags of mmap. */
char *map_pages_at(void *addr, size_t len, int flags);
/* Maps BYTES where nothing else is mapped once they are unmapped. */
char *map_pages(void);

#endif
