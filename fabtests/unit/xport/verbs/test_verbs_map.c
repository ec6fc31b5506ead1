/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The map from queue pair numbers to links, compared with an array.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "xport/verbs/verbs_priv.h"

#define QPNS	4096

static uint32_t rnd(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

Test(verbs_map, empty_map_finds_nothing, .timeout = 5)
{
	struct verbs_map map = { 0 };
	struct verbs_link link = { .qpn = 5 };

	cr_assert_null(verbs_map_find(&map, 5));
	tagrv_verbs_map_remove(&map, &link);
	cr_assert_null(verbs_map_find(&map, 5));
	tagrv_verbs_map_fini(&map);
}

Test(verbs_map, removing_an_unknown_link_does_nothing, .timeout = 5)
{
	struct verbs_map map = { 0 };
	struct verbs_link link = { .qpn = 5 }, other = { .qpn = 6 };

	cr_assert_eq(tagrv_verbs_map_add(&map, &link), 0);
	tagrv_verbs_map_remove(&map, &other);
	cr_assert_eq(verbs_map_find(&map, 5), &link);
	cr_assert_eq(map.cnt, 1);
	tagrv_verbs_map_fini(&map);
}

/* The device may give its number to another queue pair. */
Test(verbs_map, the_link_found_last_is_forgotten_when_it_goes, .timeout = 5)
{
	struct verbs_link link = { .qpn = 5 }, next = { .qpn = 5 };
	struct verbs_map map = { 0 };

	cr_assert_null(verbs_map_find(&map, 0));
	cr_assert_eq(tagrv_verbs_map_add(&map, &link), 0);
	cr_assert_eq(verbs_map_find(&map, 5), &link);
	cr_assert_eq(map.last, &link);
	tagrv_verbs_map_remove(&map, &link);
	cr_assert_null(verbs_map_find(&map, 5));
	cr_assert_eq(tagrv_verbs_map_add(&map, &next), 0);
	cr_assert_eq(verbs_map_find(&map, 5), &next);
	cr_assert_null(verbs_map_find(&map, 0));
	tagrv_verbs_map_fini(&map);
}

static void compare(struct verbs_map *map, struct verbs_link **model,
		    uint32_t base)
{
	for (uint32_t i = 0; i < QPNS; i++)
		cr_assert_eq(verbs_map_find(map, base + i), model[i]);
}

Test(verbs_map, agrees_with_an_array, .timeout = 20)
{
	struct verbs_link **model = calloc(QPNS, sizeof(*model));
	struct verbs_map map = { 0 };
	uint32_t state = 4711, base = 0xfff000;

	for (int round = 0; round < 100000; round++) {
		uint32_t i = rnd(&state) % QPNS;

		/* Fills up for a while, then empties. */
		if (!model[i] && (round / 8000) % 2 == 0) {
			model[i] = calloc(1, sizeof(**model));
			model[i]->qpn = base + i;
			cr_assert_eq(tagrv_verbs_map_add(&map, model[i]), 0);
		} else if (model[i] && (round / 8000) % 2) {
			tagrv_verbs_map_remove(&map, model[i]);
			free(model[i]);
			model[i] = NULL;
		}
		if (round % 1000 == 0)
			compare(&map, model, base);
	}
	compare(&map, model, base);
	for (uint32_t i = 0; i < QPNS; i++)
		free(model[i]);
	free(model);
	tagrv_verbs_map_fini(&map);
}
