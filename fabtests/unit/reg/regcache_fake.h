/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A device that counts what is registered with it, and notes which memory that
 * was; a monitor that says what the test says.
 */
#ifndef TAGRV_REGCACHE_FAKE_H
#define TAGRV_REGCACHE_FAKE_H

#include <criterion/criterion.h>

#include "reg/regcache.h"

struct reg_device {
	struct tagrv_device dev;
	size_t	alive, made;
	int	fail;			/* what the next mem_reg answers */
	size_t	room;			/* bytes alive at most, 0: any */
	size_t	bytes;
	/*
	 * What tells a page from others that come to lie at its address;
	 * mem_reg notes it of all its pages. NULL: nothing is noted.
	 */
	uint64_t (*identity)(uintptr_t page);
	/* Runs in mem_reg, before it succeeds: what comes in between. */
	void	(*meanwhile)(void);
};

extern struct reg_device reg_device;

/* Starts afresh: nothing registered. */
struct tagrv_device *reg_device_start(void);

/* Whether the pages of a registration are those that lie there now. */
bool reg_device_is_true(const struct tagrv_mem *mem);

/* The memory it knows: nothing is there, addresses are numbers. */
#define FAKE_BASE	((uintptr_t) 1 << 32)
#define FAKE_PAGE	((uintptr_t) 4096)
#define FAKE_PAGES	1024u

struct fake_monitor {
	struct tagrv_monitor base;
	bool	changing;
	int	refuse;			/* what watch answers */
	bool	watched[FAKE_PAGES];
};

extern struct fake_monitor fake_monitor;

struct tagrv_monitor *fake_monitor_start(void);
/* Pages that it watches now. */
size_t fake_monitor_watched(void);
/* As a back end does it. */
void fake_monitor_change(uintptr_t from, uintptr_t to);

#endif
