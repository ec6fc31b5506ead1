/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A device that counts registrations and records the registered pages; a monitor
 * that reports changes when the test calls for it.
 */
#ifndef TAGRV_REGCACHE_FAKE_H
#define TAGRV_REGCACHE_FAKE_H

#include <criterion/criterion.h>

#include "core/page.h"
#include "reg/regcache.h"

struct reg_device {
	struct tagrv_device dev;
	size_t	alive, made;
	int	fail;			/* returned by mem_reg unless 0 */
	size_t	room;			/* most registered bytes, 0: no limit */
	size_t	bytes;
	size_t	readable;		/* registrations that peers may read */
	/*
	 * Returns a number that differs from those of other pages mapped at
	 * the same address; mem_reg records it for all pages. NULL: it does not.
	 */
	uint64_t (*identity)(uintptr_t page);
	/* Called in mem_reg before it succeeds, or NULL. */
	void	(*meanwhile)(void);
};

extern struct reg_device reg_device;

/* Resets the device: nothing is registered. */
struct tagrv_device *reg_device_start(void);

/* Whether the registered pages are the pages that are mapped now. */
bool reg_device_is_true(const struct tagrv_mem *mem);

/* The memory of the fake monitor: numbers only, nothing is mapped there. */
#define FAKE_BASE	((uintptr_t) 1 << 32)
#define FAKE_PAGE	((uintptr_t) tagrv_page_size())
#define FAKE_PAGES	1024u

struct fake_monitor {
	struct tagrv_monitor base;
	bool	changing;
	int	refuse;			/* returned by watch unless 0 */
	bool	watched[FAKE_PAGES];
};

extern struct fake_monitor fake_monitor;

struct tagrv_monitor *fake_monitor_start(void);
/* Counts the pages that are watched. */
size_t fake_monitor_watched(void);
/* Reports a change to the caches, as a back end does. */
void fake_monitor_change(uintptr_t from, uintptr_t to);

#endif
