/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Set of address ranges, see interval.h. An AVL tree of n nodes is at most
 * 1.44 log2(n) high, so the recursions below are at most about 60 frames deep.
 */
#include "core/interval.h"

#include <stdbool.h>

#include "core/compiler.h"

static int height(const struct tagrv_interval *node)
{
	return node ? node->height : 0;
}

static uintptr_t max_of(const struct tagrv_interval *node)
{
	return node ? node->max : 0;
}

static void update(struct tagrv_interval *node)
{
	uintptr_t below = TAGRV_MAX(max_of(node->child[0]),
				    max_of(node->child[1]));

	node->height = 1 + TAGRV_MAX(height(node->child[0]),
				     height(node->child[1]));
	node->max = TAGRV_MAX(node->to, below);
}

/* Makes the child at 'side' the root of this subtree and returns it. */
static struct tagrv_interval *rotate(struct tagrv_interval *node, int side)
{
	struct tagrv_interval *top = node->child[side];

	node->child[side] = top->child[!side];
	top->child[!side] = node;
	update(node);
	update(top);
	return top;
}

static struct tagrv_interval *balance(struct tagrv_interval *node)
{
	int lean = height(node->child[1]) - height(node->child[0]);
	int side = lean > 0;
	struct tagrv_interval *heavy = node->child[side];

	if (lean >= -1 && lean <= 1) {
		update(node);
		return node;
	}
	if (height(heavy->child[!side]) > height(heavy->child[side]))
		node->child[side] = rotate(heavy, !side);
	return rotate(node, side);
}

/* Total order: nodes with the same 'from' are ordered by their own address. */
static bool before(const struct tagrv_interval *a,
		   const struct tagrv_interval *b)
{
	return a->from != b->from ? a->from < b->from :
	       (uintptr_t) a < (uintptr_t) b;
}

static struct tagrv_interval *insert(struct tagrv_interval *root,
				     struct tagrv_interval *node)
{
	int side;

	if (!root)
		return node;
	side = before(root, node);
	root->child[side] = insert(root->child[side], node);
	return balance(root);
}

/* Removes the leftmost node as *first; returns the subtree's new root. */
static struct tagrv_interval *remove_first(struct tagrv_interval *root,
					   struct tagrv_interval **first)
{
	if (!root->child[0]) {
		*first = root;
		return root->child[1];
	}
	root->child[0] = remove_first(root->child[0], first);
	return balance(root);
}

/* Removes a node; returns the subtree's new root. */
static struct tagrv_interval *remove_node(struct tagrv_interval *root,
					  struct tagrv_interval *node)
{
	struct tagrv_interval *next;
	int side;

	if (root != node) {
		side = before(root, node);
		root->child[side] = remove_node(root->child[side], node);
		return balance(root);
	}
	if (!node->child[0] || !node->child[1])
		return node->child[!node->child[0]];
	node->child[1] = remove_first(node->child[1], &next);
	next->child[0] = node->child[0];
	next->child[1] = node->child[1];
	return balance(next);
}

void tagrv_interval_insert(struct tagrv_intervals *set,
			   struct tagrv_interval *node)
{
	node->child[0] = node->child[1] = NULL;
	update(node);
	set->root = insert(set->root, node);
}

void tagrv_interval_remove(struct tagrv_intervals *set,
			   struct tagrv_interval *node)
{
	set->root = remove_node(set->root, node);
}

struct tagrv_interval *
tagrv_interval_cover(const struct tagrv_intervals *set, uintptr_t from,
		     uintptr_t to)
{
	struct tagrv_interval *node = set->root;

	while (node) {
		if (node->from > from)
			node = node->child[0];
		/* This node and all on its left begin at or before 'from'. */
		else if (max_of(node->child[0]) >= to)
			node = node->child[0];
		else if (node->to >= to)
			return node;
		else
			node = node->child[1];
	}
	return NULL;
}

struct tagrv_interval *
tagrv_interval_overlap(const struct tagrv_intervals *set, uintptr_t from,
		       uintptr_t to)
{
	struct tagrv_interval *node = set->root;

	while (node) {
		/*
		 * A left node ends behind 'from'. If no left node overlaps, that
		 * node begins at or behind 'to', and so do all on its right.
		 */
		if (max_of(node->child[0]) > from)
			node = node->child[0];
		else if (node->from >= to)
			return NULL;
		else if (node->to > from)
			return node;
		else
			node = node->child[1];
	}
	return NULL;
}

struct tagrv_interval *
tagrv_interval_from(const struct tagrv_intervals *set, uintptr_t from)
{
	struct tagrv_interval *node = set->root, *found = NULL;

	while (node) {
		if (node->from >= from) {
			found = node;
			node = node->child[0];
		} else {
			node = node->child[1];
		}
	}
	return found;
}
