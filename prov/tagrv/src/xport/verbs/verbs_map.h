/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finds links by queue pair number.
 */
#ifndef TAGRV_XPORT_VERBS_VERBS_MAP_H
#define TAGRV_XPORT_VERBS_VERBS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

struct verbs_link;

/*
 * Links by queue pair number: open addressing, at most half full. The link found last
 * is looked at first. Each link has one number in a map: that of its first queue pair or, in
 * a map that says 'in', that of its second one.
 */
struct verbs_map {
	struct verbs_link **slots;
	uint32_t mask;		/* number of slots - 1; 0: no slots yet */
	unsigned shift;
	uint32_t cnt;
	uint32_t last_qpn;	/* its number; 0, which no link has: none */
	struct verbs_link *last;
	bool	in;
};

/* The slot where the search for a queue pair number begins. */
static inline uint32_t verbs_map_home(const struct verbs_map *map, uint32_t qpn)
{
	return (qpn * 2654435769u) >> map->shift;
}

/* As verbs_map_find(), by a search. */
struct verbs_link *tagrv_verbs_map_search(struct verbs_map *map, uint32_t qpn);

/* The same in a map with 'in'. */
struct verbs_link *tagrv_verbs_map_search_in(struct verbs_map *map, uint32_t qpn);

/* The link of a queue pair, or NULL. */
static inline struct verbs_link *verbs_map_find(struct verbs_map *map,
						uint32_t qpn)
{
	return TAGRV_LIKELY(qpn == map->last_qpn) ?
	       map->last : tagrv_verbs_map_search(map, qpn);
}

/* The same in a map with 'in'. */
static inline struct verbs_link *verbs_map_find_in(struct verbs_map *map, uint32_t qpn)
{
	return TAGRV_LIKELY(qpn == map->last_qpn) ?
	       map->last : tagrv_verbs_map_search_in(map, qpn);
}

/* 0 or -FI_ENOMEM. */
int tagrv_verbs_map_add(struct verbs_map *map, struct verbs_link *link)
	TAGRV_WARN_UNUSED;
/* A link that is not in the map is ignored. */
void tagrv_verbs_map_remove(struct verbs_map *map, struct verbs_link *link);
void tagrv_verbs_map_fini(struct verbs_map *map);

#endif
