/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The monitor over userfaultfd and a cache over it: see monitor_fixture.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "unit/reg/monitor_fixture.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/apart.h"

struct watch watch;

static uint64_t mark_of(uintptr_t page)
{
	uint64_t *mark = (uint64_t *) page + 1;
	static uint64_t last;

	if (!*mark)
		*mark = ++last;
	return *mark;
}

bool watch_start(void)
{
	struct tagrv_regcache_limits limits = { 1 << 30, 64 };
	const char *how = getenv("FI_TAGRV_REGCACHE_MONITOR");
	int ret = tagrv_monitor_get(how ? how : "userfaultfd", &watch.monitor,
				    watch.why, sizeof(watch.why));

	if (ret) {
		cr_assert(ret == -FI_EPERM || ret == -FI_ENOSYS, "%d", ret);
		cr_assert_gt(strlen(watch.why), 10);
		cr_log_warn("memory cannot be watched here: %s", watch.why);
		return false;
	}
	cr_assert_eq(tagrv_regcache_create(reg_device_start(), watch.monitor,
					   &limits, &watch.cache), 0);
	reg_device.identity = mark_of;
	return true;
}

void watch_end(void)
{
	tagrv_regcache_destroy(watch.cache);
	cr_assert_eq(reg_device.alive, 0);
	tagrv_monitor_put(watch.monitor);
}

void watch_settle(void)
{
	size_t alive = reg_device.alive;
	char *p = map_pages();

	cr_assert_eq(watch_use(p, BYTES), 0);
	/* Returns when the thread, which holds the monitor's lock, has read the event. */
	munmap(p, BYTES);
	tagrv_monitor_lock(watch.monitor);
	tagrv_monitor_unlock(watch.monitor);
	tagrv_regcache_free_invalidated(watch.cache);
	cr_assert_eq(reg_device.alive, alive);
}

int watch_use(void *addr, size_t len)
{
	size_t made = reg_device.made;
	struct tagrv_mem *mem;
	int ret = tagrv_regcache_get(watch.cache, addr, len, 0, &mem);

	if (ret) {
		cr_assert_eq(ret, -FI_EOPNOTSUPP);
		return -1;
	}
	cr_assert(reg_device_is_true(mem), "other pages were registered");
	tagrv_regcache_put(mem);
	return reg_device.made == made;
}

char *map_pages_at(void *addr, size_t len, int flags)
{
	char *p = mmap(addr, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	cr_assert_neq(p, MAP_FAILED);
	return p;
}

char *map_pages(void)
{
	char *p = map_apart(BYTES);

	cr_assert_not_null(p);
	return p;
}
