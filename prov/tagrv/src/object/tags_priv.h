/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of tags.h share: tags.c has receives, tags_list.c speaks with the list,
 * tags_peers.c has the numbers of peers.
 */
#ifndef TAGRV_OBJECT_TAGS_PRIV_H
#define TAGRV_OBJECT_TAGS_PRIV_H

#include "object/tags.h"

struct tagrv_tags_slab;
struct tagrv_tags_bounce;

struct tagrv_tags {
	bool	due;		/* a flush has something to do, perhaps */
	bool	starved;	/* the list had no room, and tells when it has */
	bool	leaving;	/* numbers of peers are held until entries have come back */
	int	error;		/* -FI_E*: the list is to be given up; 0: it is well */
	struct tagrv_taglist *list;	/* NULL: lost */
	struct tagrv_offload *offload;
	const struct tagrv_tags_ops *ops;
	struct tagrv_engine *engine;
	struct tagrv_xport *xport;
	struct tagrv_taglist_sink sink;
	struct tagrv_pool pool;		/* struct tagrv_listed */
	struct tagrv_listed **slots;	/* by slot: whose entry it is */
	struct tagrv_list matched;	/* listed->matched: bytes are to come */
	struct tagrv_list waiting;	/* lane->wait_node: to enter */
	struct tagrv_tags_slab *slabs;
	struct tagrv_tags_bounce *free;
	size_t	bounce_len;
	bool	told_memory;		/* that there was none */
	/*
	 * Stands for all receives that have no record, for want of memory: it is one from
	 * any source that stays in software, so that no younger one passes them.
	 */
	struct tagrv_listed stand_in;
	uint32_t stood_for;
	uint32_t max_entries;
	uint32_t outside;
	uint32_t answers;	/* of the adapter to commands, and matches; wraps */
	uint64_t unexpected, handled;
};

/* Notes an error of the list or of match/offload, if it is one: the next flush handles it. */
void tagrv_tags_note(struct tagrv_tags *tags, int ret);
/* Puts the record back if neither the list nor an op has it. */
void tagrv_tags_put_unused(struct tagrv_tags *tags, struct tagrv_listed *listed);

/* tags_list.c */
extern const struct tagrv_offload_ops tagrv_tags_offload_ops;
extern const struct tagrv_taglist_sink tagrv_tags_sink;
void tagrv_tags_free_bounces(struct tagrv_tags *tags);

/* tags_peers.c: lanes that wait to enter do so, if they may. */
void tagrv_tags_enter_waiting(struct tagrv_tags *tags);
/* Numbers of peers that have left are given to others, if no entry has them any more. */
void tagrv_tags_let_go(struct tagrv_tags *tags);

#endif
