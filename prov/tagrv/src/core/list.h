/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Intrusive doubly linked list.
 *
 *   head <-> first <-> ... <-> last <-> (head)
 *
 * A node that is on no list points to itself, so tagrv_list_remove() may be
 * called on it again and tagrv_list_linked() tells whether it is queued.
 */
#ifndef TAGRV_CORE_LIST_H
#define TAGRV_CORE_LIST_H

#include <stdbool.h>

#include "core/compiler.h"

struct tagrv_list {
	struct tagrv_list *next;
	struct tagrv_list *prev;
};

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

static inline void tagrv_list_remove(struct tagrv_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	tagrv_list_init(node);
}

/* First node without removing it, NULL when the list is empty. */
static inline struct tagrv_list *tagrv_list_first(const struct tagrv_list *head)
{
	return tagrv_list_empty(head) ? NULL : head->next;
}

static inline struct tagrv_list *tagrv_list_pop(struct tagrv_list *head)
{
	struct tagrv_list *node = tagrv_list_first(head);

	if (node)
		tagrv_list_remove(node);
	return node;
}

/* Moves all of 'from' behind the last node of 'to'; 'from' is empty after. */
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

/* 'pos' may be removed inside the loop. */
#define tagrv_list_for_each_safe(head, pos, tmp) \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head); \
	     (pos) = (tmp), (tmp) = (pos)->next)

#endif
