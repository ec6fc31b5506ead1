/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * keytab.c: keys are found before, during and after growth.
 */
#include <criterion/criterion.h>

#include "match/hash.h"
#include "match/keytab.h"

#define KEYS	20000

/* Some keys have the same hash and must be told apart by comparison. */
static uint32_t hash_of(uint32_t i)
{
	uint64_t state = i / 3;

	return (uint32_t) tagrv_hash_word(&state);
}

static bool is_index(const void *key, uint32_t index)
{
	return *(const uint32_t *) key == index;
}

static bool has(const struct tagrv_keytab *tab, uint32_t i)
{
	uint32_t *cell = tagrv_keytab_find(tab, hash_of(i), is_index, &i);

	cr_assert(!cell || *cell == i);
	return cell;
}

/* With vector instructions and without; the field 'passed' is not a cell. */
Test(keytab, cells_are_compared_and_set_one_by_one)
{
	struct tagrv_key_bucket bucket = { .hash = { 0 } };
	uint64_t random = 3;

	for (unsigned n = 0; n < 10000; n++) {
		unsigned cell = (unsigned) tagrv_hash_word(&random) %
				TAGRV_KEYTAB_CELLS;
		uint32_t word = (uint32_t) tagrv_hash_word(&random) % 4;
		struct tagrv_key_bucket before = bucket;

		bucket.passed = before.passed = word;
		tagrv_keytab_set(bucket.hash, cell, word);
		before.hash[cell] = word;
		cr_assert_arr_eq(&bucket, &before, sizeof(bucket));
		for (word = 0; word < 4; word++)
			cr_assert_eq(tagrv_keytab_equal(bucket.hash, word),
				     tagrv_keytab_equal_loop(bucket.hash, word));
	}
}

Test(keytab, keys_are_there_at_every_size, .timeout = 30)
{
	struct tagrv_keytab tab;

	cr_assert_eq(tagrv_keytab_init(&tab, 0), 0);
	for (uint32_t i = 0; i < KEYS; i++) {
		cr_assert(!has(&tab, i));
		cr_assert(tagrv_keytab_insert(&tab, hash_of(i), i));
		for (uint32_t j = 0; j <= i; j += 1 + i / 16)
			cr_assert(has(&tab, j), "%u of %u", j, i);
	}
	cr_expect_eq(tab.cnt, KEYS);
	cr_expect_leq(tab.cnt, tagrv_keytab_room(&tab));
	tagrv_keytab_fini(&tab);
}

/* Keys are erased from the new table and, if not moved yet, from the old one. */
Test(keytab, erasing_leaves_all_others, .timeout = 30)
{
	static bool there[KEYS];
	struct tagrv_keytab tab;
	uint64_t random = 7;
	size_t cnt = 0;

	cr_assert_eq(tagrv_keytab_init(&tab, 0), 0);
	for (unsigned n = 0; n < 20 * KEYS; n++) {
		uint32_t range = n < 10 * KEYS ? n / 10 + 1 : KEYS;
		uint32_t i = (uint32_t) (tagrv_hash_word(&random) % range);

		cr_assert_eq(has(&tab, i), there[i]);
		if (there[i]) {
			tagrv_keytab_erase(&tab, tagrv_keytab_cell_of(&tab,
							hash_of(i), i));
			cnt--;
		} else {
			cr_assert(tagrv_keytab_insert(&tab, hash_of(i), i));
			cnt++;
		}
		there[i] = !there[i];
		cr_assert_eq(tab.cnt, cnt);
	}
	for (uint32_t i = 0; i < KEYS; i++)
		cr_assert_eq(has(&tab, i), there[i]);
	tagrv_keytab_fini(&tab);
}

Test(keytab, growing_ahead_loses_nothing, .timeout = 30)
{
	struct tagrv_keytab tab;
	unsigned grown = 0;

	cr_assert_eq(tagrv_keytab_init(&tab, 0), 0);
	for (uint32_t i = 0; i < KEYS; i++) {
		cr_assert(tagrv_keytab_insert(&tab, hash_of(i), i));
		grown += tagrv_keytab_grow_ahead(&tab);
	}
	cr_expect_geq(grown, 8);
	for (uint32_t i = 0; i < KEYS; i++)
		cr_assert(has(&tab, i));
	tagrv_keytab_fini(&tab);
}

Test(keytab, cleared_table_is_empty_and_usable, .timeout = 30)
{
	struct tagrv_keytab tab;

	cr_assert_eq(tagrv_keytab_init(&tab, 0), 0);
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert(tagrv_keytab_insert(&tab, hash_of(i), i));
	tagrv_keytab_clear(&tab);
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert(!has(&tab, i));
	cr_assert(tagrv_keytab_insert(&tab, hash_of(5), 5));
	cr_assert(has(&tab, 5));
	tagrv_keytab_fini(&tab);
}
