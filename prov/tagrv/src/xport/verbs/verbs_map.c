/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Finds links by queue pair number: a hash table with linear probing. At most half
 * of the slots are used. A removal moves later entries of the run into the hole, so
 * that there are no tombstones and a search ends at the first empty slot.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>

#include "xport/verbs/verbs_priv.h"

#define FIRST_SLOTS	16u

static inline uint32_t number_of(const struct verbs_link *link, bool in)
{
	return in ? link->in.qpn : link->qpn;
}

static inline __attribute__((always_inline))
struct verbs_link *search(struct verbs_map *map, uint32_t qpn, bool in)
{
	uint32_t i;

	if (TAGRV_UNLIKELY(!map->mask || !qpn))
		return NULL;
	for (i = verbs_map_home(map, qpn); map->slots[i];
	     i = (i + 1) & map->mask) {
		if (number_of(map->slots[i], in) != qpn)
			continue;
		map->last = map->slots[i];
		map->last_qpn = qpn;
		return map->last;
	}
	return NULL;
}

struct verbs_link *tagrv_verbs_map_search(struct verbs_map *map, uint32_t qpn)
{
	return search(map, qpn, false);
}

struct verbs_link *tagrv_verbs_map_search_in(struct verbs_map *map, uint32_t qpn)
{
	return search(map, qpn, true);
}

static void insert(struct verbs_map *map, struct verbs_link *link)
{
	uint32_t i = verbs_map_home(map, number_of(link, map->in));

	while (map->slots[i])
		i = (i + 1) & map->mask;
	map->slots[i] = link;
}

static int resize(struct verbs_map *map, uint32_t cnt)
{
	struct verbs_map bigger = { .mask = cnt - 1, .cnt = map->cnt, .in = map->in };

	bigger.slots = calloc(cnt, sizeof(*bigger.slots));
	if (!bigger.slots)
		return -FI_ENOMEM;
	bigger.shift = 32;
	while (cnt >>= 1)
		bigger.shift--;
	for (uint32_t i = 0; map->slots && i <= map->mask; i++)
		if (map->slots[i])
			insert(&bigger, map->slots[i]);
	free(map->slots);
	bigger.last = map->last;
	bigger.last_qpn = map->last_qpn;
	*map = bigger;
	return 0;
}

int tagrv_verbs_map_add(struct verbs_map *map, struct verbs_link *link)
{
	uint32_t slots = map->slots ? map->mask + 1 : 0;
	int ret;

	if ((map->cnt + 1) * 2 > slots) {
		ret = resize(map, slots ? slots * 2 : FIRST_SLOTS);
		if (ret)
			return ret;
	}
	insert(map, link);
	map->cnt++;
	return 0;
}

void tagrv_verbs_map_remove(struct verbs_map *map, struct verbs_link *link)
{
	uint32_t i, hole;

	if (!map->mask)
		return;
	for (i = verbs_map_home(map, number_of(link, map->in)); map->slots[i] != link;
	     i = (i + 1) & map->mask)
		if (!map->slots[i])
			return;
	hole = i;
	for (i = (i + 1) & map->mask; map->slots[i]; i = (i + 1) & map->mask) {
		uint32_t home = verbs_map_home(map, number_of(map->slots[i], map->in));

		/* An entry whose home is behind the hole must not move to it. */
		if (((i - home) & map->mask) < ((i - hole) & map->mask))
			continue;
		map->slots[hole] = map->slots[i];
		hole = i;
	}
	map->slots[hole] = NULL;
	map->cnt--;
	if (map->last == link) {
		map->last = NULL;
		map->last_qpn = 0;
	}
}

void tagrv_verbs_map_fini(struct verbs_map *map)
{
	free(map->slots);
	*map = (struct verbs_map) { 0 };
}
