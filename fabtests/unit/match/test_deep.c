/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * posted_list.c, posted_hash.c: the rules of test_posted.c with hashed classes, and
 * the changes from list to hash and back.
 */
#include "unit/match/match_calls.h"

#define DEEP	5000
#define NOISE	1000000		/* first number of receives that never match */

/* Posts many receives of the test's kinds, so that each kind gets a class. */
static void post_noise(struct tagrv_match *match, unsigned cnt)
{
	static const uint64_t masks[] = { EXACT, 0x0f, 0xf0 };

	for (unsigned i = 0; i < cnt; i++) {
		post(match, tagged(i & 1 ? ANY : 1, 0x10000 + 0x100 * i,
				   masks[i % 3]), NOISE + i);
		post(match, untagged(100 + i), NOISE + i);
	}
}

Test(deep, same_receives_are_taken_first_in_first_out, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);

	for (uintptr_t i = 1; i <= DEEP; i++)
		post(match, tagged(1, 7, EXACT), i);
	cr_assert_eq(stats(match).posted_classes, 1);
	for (uintptr_t i = 1; i <= DEEP; i++)
		cr_assert_eq(arrival_gets(match, 1, 7), i);
	cr_assert_eq(stats(match).posted_classes, 0);
	tagrv_match_destroy(match);
}

Test(deep, order_holds_across_classes_and_the_list, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	const struct tagrv_match_want wants[] = {
		tagged(1, 0x70, 0x0f), tagged(ANY, 0x77, EXACT),
		tagged(1, 0x07, 0xf0), tagged(ANY, 0x77, 0xff00ff00ff00ff00),
		tagged(1, 0x77, EXACT), tagged(ANY, 0, ALL),
	};

	post_noise(match, 300);
	for (uintptr_t i = 1; i <= DEEP; i++)
		post(match, wants[i * 7 / 5 % 6], i);
	cr_assert_geq(stats(match).posted_classes, 7);
	for (uintptr_t i = 1; i <= DEEP; i++)
		cr_assert_eq(arrival_gets(match, 1, 0x77), i);
	tagrv_match_destroy(match);
}

Test(deep, wildcard_and_exact_are_taken_by_age_alone, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);

	post_noise(match, 300);
	for (unsigned round = 0; round < 100; round++) {
		bool first = round & 1;

		post(match, first ? tagged(ANY, 0, ALL) : tagged(1, 7, EXACT),
		     1);
		post(match, first ? tagged(1, 7, EXACT) : tagged(ANY, 0, ALL),
		     2);
		cr_assert_eq(arrival_gets(match, 1, 7), 1);
		cr_assert_eq(arrival_gets(match, 1, 7), 2);
	}
	tagrv_match_destroy(match);
}

Test(deep, cancel_takes_head_middle_and_tail_of_a_key, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	tagrv_match_id id[6];

	post_noise(match, 300);
	for (uintptr_t i = 1; i <= 5; i++)
		id[i] = post(match, tagged(1, 7, EXACT), i);
	cr_expect_eq(cancel(match, id[1]), 1);
	cr_expect_eq(cancel(match, id[3]), 3);
	cr_expect_eq(cancel(match, id[5]), 5);
	cr_expect_eq(cancel(match, id[3]), 0);
	cr_expect_eq(arrival_gets(match, 1, 7), 2);
	post(match, tagged(1, 7, EXACT), 6);
	cr_expect_eq(arrival_gets(match, 1, 7), 4);
	cr_expect_eq(arrival_gets(match, 1, 7), 6);
	tagrv_match_destroy(match);
}

/* Down to two receives and up again, many times: no receive may get lost. */
Test(deep, ids_stay_valid_when_receives_move_to_a_class_and_back, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	static tagrv_match_id id[300];

	for (unsigned round = 0; round < 50; round++) {
		for (uintptr_t i = 0; i < 300; i++)
			id[i] = post(match, tagged(1, i, EXACT), i + 1);
		cr_assert_eq(stats(match).posted_classes, 1);
		for (uintptr_t i = 1; i < 299; i++)
			cr_assert_eq(cancel(match, id[i]), i + 1);
		cr_assert_eq(stats(match).posted_classes, 0);
		cr_assert_eq(cancel(match, id[50]), 0);
		cr_assert_eq(arrival_gets(match, 1, 0), 1);
		cr_assert_eq(cancel(match, id[299]), 300);
	}
	cr_assert_eq(stats(match).promotions, 50);
	cr_assert_eq(stats(match).demotions, 50);
	tagrv_match_destroy(match);
}

/* 64 receives are posted and matched, in the order of posting or in reverse. */
static void windows(struct tagrv_match *match, unsigned cnt, bool forward)
{
	for (unsigned round = 0; round < cnt; round++) {
		for (uintptr_t i = 0; i < 64; i++)
			post(match, tagged(1, i, EXACT), i + 1);
		for (uintptr_t i = 0; i < 64; i++) {
			uintptr_t tag = forward ? i : 63 - i;

			cr_assert_eq(arrival_gets(match, 1, tag), tag + 1);
		}
	}
}

Test(deep, a_window_gets_a_hash_when_arrivals_walk, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);

	windows(match, 1000, true);
	cr_expect_eq(stats(match).promotions, 0);
	windows(match, 2, false);
	cr_expect_eq(stats(match).promotions, 1);
	/* One walk does not pay for the hash of another window. */
	windows(match, 1000, true);
	cr_expect_eq(stats(match).promotions, 1);
	windows(match, 2, false);
	cr_expect_eq(stats(match).promotions, 2);
	tagrv_match_destroy(match);
}

Test(deep, kept_receive_stays_at_its_place_in_a_class, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_want keep = tagged(1, 7, EXACT);
	tagrv_match_id id;

	post_noise(match, 300);
	post(match, tagged(1, 7, EXACT), 1);
	keep.keep = true;
	id = post(match, keep, 2);
	post(match, tagged(1, 7, EXACT), 3);
	cr_expect_eq(arrival_gets(match, 1, 7), 1);
	for (unsigned i = 0; i < 100; i++)
		cr_expect_eq(arrival_gets(match, 1, 7), 2);
	cr_expect_eq(cancel(match, id), 2);
	cr_expect_eq(arrival_gets(match, 1, 7), 3);
	tagrv_match_destroy(match);
}

static void expect_next(struct tagrv_match_recv *recv, void *arg)
{
	uintptr_t *next = arg;

	cr_assert_eq(number_of(recv), (*next)++);
}

Test(deep, drain_is_in_post_order_over_classes_and_list, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	uintptr_t next = 1;

	for (uintptr_t i = 1; i <= DEEP; i++)
		post(match, i % 3 ? tagged(i % 5 ? 1 : ANY, i, i % 7) :
				    untagged(i % 2 ? 2 : ANY), i);
	cr_assert_geq(stats(match).posted_classes, 10);
	tagrv_match_drain_posted(match, expect_next, &next);
	cr_expect_eq(next, DEEP + 1);
	cr_expect_eq(stats(match).posted, 0);
	tagrv_match_destroy(match);
}

Test(deep, oldest_is_exact_in_classes, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	static tagrv_match_id id[DEEP + 1];

	for (uintptr_t i = 1; i <= DEEP; i++)
		id[i] = post(match, tagged(1, i, i & 1), i);
	for (uintptr_t i = 1; i < DEEP; i++) {
		cr_assert_eq(stats(match).posted_oldest, DEEP - i);
		cr_assert_eq(cancel(match, id[i]), i);
	}
	tagrv_match_destroy(match);
}

/* ---- by name ---- */

static uintptr_t cancel_name(struct tagrv_match *match, uintptr_t name)
{
	tagrv_match_id id = tagrv_match_find_name(match, (void *) name);

	return id ? cancel(match, id) : 0;
}

/* Two receives have each name; NULL is a name like others. */
Test(names, earliest_of_a_name_is_found_first, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(1, 1, EXACT), 1);	/* its name is NULL */
	for (uintptr_t i = 2; i < DEEP; i++)
		post(match, i % 3 ? tagged(1, i, EXACT) : untagged(1), i);
	for (uintptr_t name = DEEP / 2 - 1; name > 0; name--) {
		cr_assert_eq(cancel_name(match, name), 2 * name);
		cr_assert_eq(cancel_name(match, name), 2 * name + 1);
		cr_assert_eq(cancel_name(match, name), 0);
	}
	cr_assert_eq(cancel_name(match, 0), 1);
	cr_assert_eq(stats(match).posted, 0);
	tagrv_match_destroy(match);
}

Test(names, index_follows_posts_matches_and_cancels, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t before;

	for (uintptr_t i = 2; i < 1000; i++)
		post(match, tagged(1, i, EXACT), i);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(cancel_name(match, 5000), 0);
	before = stats(match).probes;
	for (uintptr_t i = 1000; i < 1998; i++) {
		post(match, tagged(1, i, EXACT), i);
		cr_assert_eq(arrival_gets(match, 1, i), i);
		cr_assert_eq(cancel_name(match, i / 2), 0);
		cr_assert_eq(cancel_name(match, (i - 998) / 2), i - 998);
	}
	cr_assert_leq(stats(match).probes - before, 1000 * 4);
	tagrv_match_destroy(match);
}

Test(names, index_is_dropped_when_there_are_no_cancels, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t before;

	for (uintptr_t i = 2; i < 200; i++)
		post(match, tagged(1, i, EXACT), i);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(cancel_name(match, 5000), 0);
	before = stats(match).probes;
	cr_assert_eq(cancel_name(match, 5000), 0);
	cr_assert_eq(stats(match).probes - before, 1, "there is no index");
	for (uintptr_t i = 0; i < 10000; i++) {
		post(match, tagged(2, i, EXACT), 9000 + i);
		cr_assert_eq(arrival_gets(match, 2, i), 9000 + i);
	}
	before = stats(match).probes;
	cr_assert_eq(cancel_name(match, 50), 100);
	cr_assert_gt(stats(match).probes - before, 1, "it was not dropped");
	tagrv_match_destroy(match);
}

/* ---- classes that share keys ---- */

/* Ignores so many bits above the lowest eight. */
static uint64_t nested(uint64_t bits)
{
	return ((1ull << bits) - 1) << 8;
}

/* Receives of 20 masks. All receives of a key match, so the earliest must win. */
static void share(uint64_t keys)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t cnt = 4000;

	for (uintptr_t i = 0; i < cnt; i++)
		post(match, tagged(i % 3 ? ANY : 1, i % keys, nested(i % 20)),
		     i + 1);
	cr_assert_geq(stats(match).posted_classes, 20);
	for (uint64_t i = 0; i < cnt; i++)
		cr_assert_eq(arrival_gets(match, 1, i % keys), i + 1);
	cr_expect_eq(stats(match).posted, 0);
	tagrv_match_destroy(match);
}

Test(deep, classes_that_share_keys_are_matched_by_age, .timeout = 20)
{
	share(100);
	share(4);
}

/* One probe for all classes, where each key has one receive. */
Test(deep, classes_that_share_keys_cost_one_probe, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t before;

	for (uintptr_t i = 0; i < 2000; i++)
		post(match, tagged(i & 1 ? 1 : ANY, i << 32,
				   nested(i % 40 / 2)), i + 1);
	before = stats(match).probes;
	for (uintptr_t i = 0; i < 100; i++)
		cr_assert_eq(arrival_gets(match, 1, i * 20 << 32), i * 20 + 1);
	cr_expect_leq(stats(match).probes - before, 2 * 100);
	tagrv_match_destroy(match);
}

/* The coarse class is separated when thousands of receives share its key. */
Test(deep, classes_are_parted_where_keys_are_shared_by_too_many, .timeout = 20)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t cnt = 4000, before;

	for (uintptr_t i = 0; i < 40; i++)
		post(match, tagged(ANY, 1ull << 40, ~(1ull << 40)), i + 1);
	for (uintptr_t i = 0; i < cnt; i++)
		post(match, tagged(ANY, i, EXACT), 100 + i);
	for (uint64_t i = 0; i < 40; i++)
		cr_assert_eq(arrival_gets(match, 1, cnt - 1 - i),
			     100 + cnt - 1 - i);
	before = stats(match).probes;
	for (uint64_t i = 40; i < 1040; i++)
		cr_assert_eq(arrival_gets(match, 1, cnt - 1 - i),
			     100 + cnt - 1 - i);
	cr_expect_leq(stats(match).probes - before, 3 * 1000);
	tagrv_match_destroy(match);
}
