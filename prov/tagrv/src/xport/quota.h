/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How many links a device takes: each costs something of which the device has a limited
 * number, such as a queue pair. All transports over one device share its quota.
 *
 *   used:   0 ........... aim - spare ..... aim ........... most
 *             links are made | idle ones are | no link is made
 *                            | closed        |
 *
 * A device may have less than it says, because other processes use it, too: after it has
 * refused a link, there is room for no more than those that there are, for LACK_MS. That may
 * be none.
 *
 * What is counted is what a link takes of the device: one, or two of a transport that has
 * said so.
 *
 * lock: none; any thread.
 */
#ifndef TAGRV_XPORT_QUOTA_H
#define TAGRV_XPORT_QUOTA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/compiler.h"

struct tagrv_quota {
	/* constant since the first link was made */
	unsigned of_device;	/* links that the device has for all processes */
	unsigned most;		/* links at a time; 0: as many as the device takes */
	unsigned aim;		/* links that the owners keep without need; 0: all */
	atomic_uint used;
	atomic_bool twofold;	/* links may take two */
	atomic_uint lack;	/* so many were too many for the device; 0: it took all */
	_Atomic uint64_t lack_until;	/* ms by the clock */
};

/* most: what the user wants at most, 0: nothing; of_device as above. */
void tagrv_quota_init(struct tagrv_quota *quota, unsigned of_device, size_t most);
/* So many processes share the device, if the launcher says so; else 0. */
void tagrv_quota_share(struct tagrv_quota *quota, unsigned procs);

/* Links may take two each from now on; two of them fit into any 'most'. */
void tagrv_quota_double(struct tagrv_quota *quota);

/* What the links take together at most; 0: as much as the device has. */
unsigned tagrv_quota_most(struct tagrv_quota *quota);

/* Counts a link that is to be made, and takes so many. False: there is no room for it. */
bool tagrv_quota_take_some(struct tagrv_quota *quota, unsigned cnt) TAGRV_WARN_UNUSED;
/* So many of a link have ended. */
void tagrv_quota_give_some(struct tagrv_quota *quota, unsigned cnt);
/* The device refused a link, for which so many were taken. Returns whether links of ours could
 * make room. */
bool tagrv_quota_refused_some(struct tagrv_quota *quota, unsigned cnt);

/* The same of a link that takes one. */
static inline TAGRV_WARN_UNUSED bool tagrv_quota_take(struct tagrv_quota *quota)
{
	return tagrv_quota_take_some(quota, 1);
}

static inline void tagrv_quota_give(struct tagrv_quota *quota)
{
	tagrv_quota_give_some(quota, 1);
}

static inline bool tagrv_quota_refused(struct tagrv_quota *quota)
{
	return tagrv_quota_refused_some(quota, 1);
}

/* Whether a link can probably be made so that 'keep' more can be. */
bool tagrv_quota_has_room(struct tagrv_quota *quota, unsigned keep);
/* Links beyond those that leave room for the next ones; 0: there are none. */
unsigned tagrv_quota_excess(struct tagrv_quota *quota);

#endif
