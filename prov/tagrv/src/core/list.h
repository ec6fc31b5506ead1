/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Intrusive doubly linked list.
 *
 *   head <-> first <-> ... <-> last <-> (head)
 *
 * A node that is on no list points to itself: tagrv_list_remove() may be called on
 * it again, and tagrv_list_linked() tells whether it is on a list. The caller owns
 * heads and nodes; no call allocates or fails.
 */
#ifndef TAGRV_CORE_LIST_H
#define TAGRV_CORE_LIST_H

#include <stdbool.h>

#include "core/compiler.h"

struct tagrv_list {
	struct tagrv_list *next;
	struct tagrv_list *prev;
};

/* Initializes a list head as empty, or a node as on no list. */
static inline void tagrv_list_init(struct tagrv_list *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool tagrv_list_empty(const struct tagrv_list *head)
{
	return head->next == head;
}

static inline bool tagrv_list_linked(const struct tagrv_list *node)
{
	return node->next != node;
}

static inline void tagrv_list_insert_after(struct tagrv_list *pos,
					   struct tagrv_list *node)
{
	node->next = pos->next;
	node->prev = pos;
	pos->next->prev = node;
	pos->next = node;
}

static inline void tagrv_list_push_tail(struct tagrv_list *head,
					struct tagrv_list *node)
{
	tagrv_list_insert_after(head->prev, node);
}

static inline void tagrv_list_push_head(struct tagrv_list *head,
					struct tagrv_list *node)
{
	tagrv_list_insert_after(head, node);
}

static inline void tagrv_list_remove(struct tagrv_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	tagrv_list_init(node);
}

/* Returns the first node, which stays on the list; NULL: the list is empty. */
static inline struct tagrv_list *tagrv_list_first(const struct tagrv_list *head)
{
	return tagrv_list_empty(head) ? NULL : head->next;
}

/* Removes and returns the first node; NULL: the list is empty. */
static inline struct tagrv_list *tagrv_list_pop(struct tagrv_list *head)
{
	struct tagrv_list *node = tagrv_list_first(head);

	if (node)
		tagrv_list_remove(node);
	return node;
}

/* Moves all nodes of 'from' behind the last node of 'to'; leaves 'from' empty. */
static inline void tagrv_list_splice_tail(struct tagrv_list *to,
					  struct tagrv_list *from)
{
	if (tagrv_list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	tagrv_list_init(from);
}

#define tagrv_list_for_each(head, pos) \
	for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)

/* As tagrv_list_for_each; the loop body may remove 'pos'. */
#define tagrv_list_for_each_safe(head, pos, tmp) \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head); \
	     (pos) = (tmp), (tmp) = (pos)->next)

#endif
