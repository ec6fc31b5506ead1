/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Uses that would be too slow with a list or a simple hash. Costs are probes
 * (compared entries, looked-up keys), not times.
 */
#include "match/hash.h"
#include "match/keytab.h"
#include "unit/match/match_calls.h"

#define MASKS	4000
#define FLOOD	1000000

/* Returns mask i of thousands, outside the bits in which the tags differ. */
static uint64_t mask(uint64_t i)
{
	return i << 40;
}

/*
 * Receives are matched in random order and posted again at once. A linear list
 * would pass all earlier receives: 'order' is that list.
 */
static void play_masks(uint64_t masks, uint64_t each)
{
	uint64_t cnt = masks * each, random = 1, linear = 0, before;
	struct tagrv_match *match = engine(0, 0);
	uint64_t *age = calloc(cnt, sizeof(*age));

	cr_assert_not_null(age);
	for (uint64_t i = 0; i < cnt; i++)
		post(match, tagged(i & 1 ? 1 : ANY, i, mask(i % masks)), i + 1);
	before = stats(match).probes;
	for (uint64_t n = 0; n < 2000; n++) {
		uint64_t i = tagrv_hash_word(&random) % cnt;

		linear++;
		for (uint64_t j = 0; j < cnt; j++)
			linear += age[j] < age[i] || (age[j] == age[i] && j < i);
		cr_assert_eq(arrival_gets(match, 1, i), i + 1);
		post(match, tagged(i & 1 ? 1 : ANY, i, mask(i % masks)), i + 1);
		age[i] = n + 1;
	}
	cr_expect_leq(stats(match).probes - before, 2 * linear);
	free(age);
	tagrv_match_destroy(match);
}

Test(adversary, thousands_of_masks_cost_no_more_than_a_list, .timeout = 60)
{
	play_masks(MASKS, 1);
}

Test(adversary, hundreds_of_masks_with_a_few_receives_each, .timeout = 60)
{
	play_masks(400, 10);
}

/* More classes than can have a hash. */
Test(adversary, masks_beyond_those_that_can_be_hashed, .timeout = 60)
{
	play_masks(100, 40);
}

Test(adversary, ten_thousand_equal_receives_cost_no_more_probes, .timeout = 60)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t before;

	for (uintptr_t i = 1; i <= 10000; i++)
		post(match, tagged(1, 7, EXACT), i);
	post(match, tagged(1, 8, EXACT), 10001);
	before = stats(match).probes;
	cr_assert_eq(arrival_gets(match, 1, 8), 10001);
	cr_assert_leq(stats(match).probes - before, 2);
	before = stats(match).probes;
	for (uintptr_t i = 1; i <= 5000; i++)
		cr_assert_eq(arrival_gets(match, 1, 7), i);
	cr_assert_leq(stats(match).probes - before, 2 * 5000);
	tagrv_match_destroy(match);
}

/* ---- floods of unexpected messages ---- */

/* Lookups of one class without result, so that each has passed the whole queue. */
static void look_in_vain(struct tagrv_match *match,
			 struct tagrv_match_want want)
{
	for (unsigned i = 0; i < 8; i++)
		cr_assert_eq(peek(match, want), 0);
}

static void expect_probes(struct tagrv_match *match, uint64_t before,
			  uint64_t most)
{
	uint64_t probes = stats(match).probes - before;

	cr_expect_leq(probes, most, "%llu probes, at most %llu expected",
		      (unsigned long long) probes, (unsigned long long) most);
}

Test(adversary, million_messages_of_one_peer, .timeout = 120)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t random = 1, before;

	for (uintptr_t i = 1; i <= FLOOD; i++)
		arrive(match, 1, i, i);
	before = stats(match).probes;
	look_in_vain(match, tagged(1, 0, EXACT));
	look_in_vain(match, tagged(ANY, 0, EXACT));
	/* Four walks before the index, one that builds it. */
	expect_probes(match, before, 2 * 6ull * FLOOD);
	before = stats(match).probes;
	for (unsigned n = 0; n < 10000; n++) {
		uintptr_t i = 1 + tagrv_hash_word(&random) % FLOOD;
		uint32_t peer = n & 1 ? 1 : ANY;

		cr_assert_eq(post_gets(match, tagged(peer, i, EXACT)), i);
		arrive(match, 1, i, i);
		cr_assert_eq(peek(match, tagged(1, 0, EXACT)), 0);
	}
	expect_probes(match, before, 2 * 10000);
	tagrv_match_destroy(match);
}

Test(adversary, million_messages_of_ten_thousand_peers, .timeout = 120)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t random = 1, before;

	for (uintptr_t i = 1; i <= FLOOD; i++)
		arrive(match, (uint32_t) (i % 10000), i / 10000, i);
	before = stats(match).probes;
	look_in_vain(match, tagged(1, 5000, EXACT));
	look_in_vain(match, tagged(ANY, 5000, 0xf));
	expect_probes(match, before, 6ull * FLOOD);
	before = stats(match).probes;
	/* By peer and tag, then the first message of a peer. */
	for (unsigned n = 0; n < 10000; n++) {
		uintptr_t i = 1 + tagrv_hash_word(&random) % FLOOD;
		uint32_t peer = (uint32_t) (i % 10000);

		cr_assert_eq(peek(match, tagged(peer, i / 10000, EXACT)), i);
		cr_assert_eq(peek(match, tagged(peer, 0, ALL)),
			     peer ? peer : 10000);
	}
	expect_probes(match, before, 10000 * (1 + 1) + 10 * FLOOD);
	tagrv_match_destroy(match);
}

/* Thousands of classes used once must not replace those in frequent use. */
Test(adversary, lookups_with_thousands_of_masks, .timeout = 60)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t cnt = 2000, before;

	for (uintptr_t i = 1; i <= cnt; i++)
		arrive(match, 1, i, i);
	look_in_vain(match, tagged(ANY, 0, EXACT));
	before = stats(match).probes;
	for (uint64_t i = 1; i < MASKS; i++) {
		cr_assert_eq(peek(match, tagged(ANY, 0, mask(i))), 0);
		for (uint64_t n = 0; n < 20; n++)
			cr_assert_eq(peek(match, tagged(ANY, 5 + i % 1000,
							EXACT)), 5 + i % 1000);
	}
	expect_probes(match, before, MASKS * (cnt + 20));
	tagrv_match_destroy(match);
}

/* ---- collisions ---- */

#define KEYS	1000

/* Counts the buckets that the lookups of all keys pass under a seed. */
static uint64_t buckets_passed(uint64_t from, const uint64_t *tags)
{
	struct tagrv_hash_seed seed = tagrv_hash_make_seed(from);
	struct tagrv_keytab tab;
	uint64_t passed = 0;

	cr_assert_eq(tagrv_keytab_init(&tab, KEYS), 0);
	for (uint32_t i = 0; i < KEYS; i++)
		cr_assert(tagrv_keytab_insert(&tab,
			tagrv_hash(&seed, tags[i], 1, 0), i));
	for (uint32_t i = 0; i < KEYS; i++) {
		uint32_t hash = tagrv_hash(&seed, tags[i], 1, 0);
		uint32_t *cell = tagrv_keytab_cell_of(&tab, hash, i);
		size_t at = (size_t) ((char *) cell -
				      (char *) tab.now.buckets) /
			    sizeof(*tab.now.buckets);

		passed += 1 + ((at - hash) & tab.now.mask);
	}
	tagrv_keytab_fini(&tab);
	return passed;
}

/* Tags that all collide under seed 1. */
Test(adversary, tags_chosen_against_one_seed_are_harmless_with_another,
     .timeout = 60)
{
	struct tagrv_hash_seed known = tagrv_hash_make_seed(1);
	static uint64_t tags[KEYS];
	uint64_t tag = 0;

	for (unsigned i = 0; i < KEYS; i++) {
		while ((tagrv_hash(&known, tag, 1, 0) & 0x7ff) != 5)
			tag++;
		tags[i] = tag++;
	}
	cr_assert_geq(buckets_passed(1, tags), KEYS * KEYS / 20,
		      "the tags do not collide: what follows shows nothing");
	for (uint64_t seed = 2; seed < 50; seed++)
		cr_expect_leq(buckets_passed(seed, tags), 2 * KEYS);
}

/* Tags of usual applications: counters, fields, single bits, strides. */
Test(adversary, regular_tags_do_not_collide, .timeout = 60)
{
	static const uint64_t strides[] = {
		1, 2, 64, 4096, 1ull << 20, 1ull << 32, 1ull << 48, 1ull << 54,
		0x100000001, 0x9e3779b97f4a7c15,
	};
	static uint64_t tags[KEYS];

	for (unsigned s = 0; s < TAGRV_ARRAY_SIZE(strides); s++) {
		for (uint64_t i = 0; i < KEYS; i++)
			tags[i] = i * strides[s];
		for (uint64_t seed = 0; seed < 20; seed++)
			cr_expect_leq(buckets_passed(seed, tags), 2 * KEYS,
				      "stride %llx, seed %llu",
				      (unsigned long long) strides[s],
				      (unsigned long long) seed);
	}
}
