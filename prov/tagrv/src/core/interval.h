/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Set of address ranges [from, to) that may overlap: an AVL tree by 'from' in
 * which every node knows the greatest 'to' below it.
 *
 *              [4,9) max 30
 *             /            \
 *      [1,30) max 30     [6,8) max 8
 *
 * Nodes are embedded; nothing is allocated. Every call is O(log n).
 */
#ifndef TAGRV_CORE_INTERVAL_H
#define TAGRV_CORE_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

struct tagrv_interval {
	uintptr_t from, to;		/* set by the caller, from < to */
	uintptr_t max;			/* greatest 'to' of the subtree */
	struct tagrv_interval *child[2];
	int	height;
};

struct tagrv_intervals {
	struct tagrv_interval *root;
};

/* The same range may be there several times. */
void tagrv_interval_insert(struct tagrv_intervals *set,
			   struct tagrv_interval *node);
/* The node is in the set. */
void tagrv_interval_remove(struct tagrv_intervals *set,
			   struct tagrv_interval *node);

/* One that covers all of [from, to), or NULL. */
struct tagrv_interval *
tagrv_interval_cover(const struct tagrv_intervals *set, uintptr_t from,
		     uintptr_t to);
/* Of those that share a byte with [from, to) the one that begins first. */
struct tagrv_interval *
tagrv_interval_overlap(const struct tagrv_intervals *set, uintptr_t from,
		       uintptr_t to);
/*
 * Of those that begin at 'from' or later the first one; equal ranges follow
 * each other in any order. NULL: none.
 */
struct tagrv_interval *
tagrv_interval_from(const struct tagrv_intervals *set, uintptr_t from);

#endif
