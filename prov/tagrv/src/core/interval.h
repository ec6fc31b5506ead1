/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Set of address ranges [from, to) that may overlap: an AVL tree ordered by
 * 'from', in which every node knows the greatest 'to' of its subtree.
 *
 *              [4,9) max 30
 *             /            \
 *      [1,30) max 30     [6,8) max 8
 *
 * The caller embeds the nodes and owns them; no call allocates or fails. Every
 * call is O(log n). An empty set is a zeroed struct. The caller locks.
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

/* Adds a node, from < to. A set may hold several nodes with the same range. */
void tagrv_interval_insert(struct tagrv_intervals *set,
			   struct tagrv_interval *node);
/* Removes a node, which must be in the set. */
void tagrv_interval_remove(struct tagrv_intervals *set,
			   struct tagrv_interval *node);

/* Any node that covers all of [from, to), or NULL. */
struct tagrv_interval *
tagrv_interval_cover(const struct tagrv_intervals *set, uintptr_t from,
		     uintptr_t to);
/* The node with the lowest 'from' that shares a byte with [from, to), or NULL. */
struct tagrv_interval *
tagrv_interval_overlap(const struct tagrv_intervals *set, uintptr_t from,
		       uintptr_t to);
/*
 * The node with the lowest 'from' among those that begin at 'from' or later, or
 * NULL. Of several nodes that begin at the same address it is any one.
 */
struct tagrv_interval *
tagrv_interval_from(const struct tagrv_intervals *set, uintptr_t from);

#endif
