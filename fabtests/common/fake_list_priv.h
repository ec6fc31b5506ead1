/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of fake_list.h share.
 */
#ifndef FABTESTS_COMMON_FAKE_LIST_PRIV_H
#define FABTESTS_COMMON_FAKE_LIST_PRIV_H

#include "common/fake_list.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#define FAKE_LIST_NO_SLOT	UINT32_MAX

struct fake_list_message {
	struct fake_list_message *next;
	struct tagrv_link *link;	/* NULL: gone */
	bool	plain;			/* no tagged message */
	/* Stands for one that has matched, whose link was not attached; else NULL */
	const struct fake_list_message *matched;
	uint64_t tag;			/* with matched: what consumed has told */
	uint32_t app, slot;
	size_t	len;
	uint8_t	data[];
};

struct fake_list_slot {
	struct tagrv_taglist_entry *entry;	/* NULL: free */
	struct fake_list_message *message;	/* consumed; its data was not told */
	uint64_t order, due;			/* consumed as number, told at */
	bool	again;				/* consumed is to be told once more */
	uint32_t next;				/* free ones */
};

static inline struct fake_list *fake_list_of(struct tagrv_taglist *base)
{
	return tagrv_container_of(base, struct fake_list, base);
}

static inline void fake_list_push(struct fake_list_queue *queue,
				  struct fake_list_message *message)
{
	message->next = NULL;
	*queue->end = message;
	queue->end = &message->next;
}

/* Takes out the message to which pos points. */
static inline struct fake_list_message *fake_list_pop(struct fake_list_queue *queue,
						      struct fake_list_message **pos)
{
	struct fake_list_message *message = *pos;

	*pos = message->next;
	if (queue->end == &message->next)
		queue->end = pos;
	return message;
}

/* Gives back the entry's slot if nothing of it is due any more. */
static inline void fake_list_release(struct fake_list *list, struct tagrv_taglist_entry *entry)
{
	struct fake_list_slot *slot = &list->slots[entry->slot];

	if (entry->due)
		return;
	slot->entry = NULL;
	slot->next = list->first_free;
	list->first_free = entry->slot;
	list->freed = true;
}

/* fake_list_poll.c */
int fake_list_progress(struct tagrv_taglist *base);

#endif
