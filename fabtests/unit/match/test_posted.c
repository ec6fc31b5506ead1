/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * posted.c: post order, masks, cancel, find, multi-recv, drain.
 */
#include "unit/match/match_calls.h"

Test(posted, same_receives_are_taken_first_in_first_out, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	for (uintptr_t i = 1; i <= 3000; i++)
		post(match, tagged(1, 7, EXACT), i);
	for (uintptr_t i = 1; i <= 3000; i++)
		cr_expect_eq(arrival_gets(match, 1, 7), i);
	tagrv_match_destroy(match);
}

Test(posted, order_holds_across_masks_and_peers, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(1, 0x70, 0x0f), 1);
	post(match, tagged(ANY, 0x77, EXACT), 2);
	post(match, tagged(1, 0x07, 0xf0), 3);
	post(match, tagged(ANY, 0, ALL), 4);
	post(match, tagged(1, 0x77, EXACT), 5);
	for (uintptr_t i = 1; i <= 5; i++)
		cr_expect_eq(arrival_gets(match, 1, 0x77), i);
	tagrv_match_destroy(match);
}

Test(posted, wildcard_posted_first_wins, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(ANY, 0, ALL), 1);
	post(match, tagged(1, 7, EXACT), 2);
	cr_expect_eq(arrival_gets(match, 1, 7), 1);
	cr_expect_eq(arrival_gets(match, 1, 7), 2);
	tagrv_match_destroy(match);
}

Test(posted, exact_posted_first_wins, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(1, 7, EXACT), 1);
	post(match, tagged(ANY, 0, ALL), 2);
	cr_expect_eq(arrival_gets(match, 1, 7), 1);
	cr_expect_eq(arrival_gets(match, 1, 7), 2);
	tagrv_match_destroy(match);
}

Test(posted, later_receive_is_taken_when_earlier_ones_do_not_match,
     .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(2, 7, EXACT), 1);
	post(match, tagged(1, 8, EXACT), 2);
	post(match, tagged(ANY, 0x100, 0xff), 3);
	post(match, tagged(ANY, 7, EXACT), 4);
	cr_expect_eq(arrival_gets(match, 1, 7), 4);
	cr_expect_eq(arrival_gets(match, 9, 0x1ab), 3);
	tagrv_match_destroy(match);
}

Test(posted, bits_under_the_mask_do_not_count_on_either_side, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(1, 0x75, 0x0f), 1);
	cr_expect_eq(arrival_gets(match, 1, 0x7a), 1);
	tagrv_match_destroy(match);
}

Test(posted, cancel_takes_head_middle_and_tail, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	tagrv_match_id id[6];

	for (uintptr_t i = 1; i <= 5; i++)
		id[i] = post(match, tagged(1, 7, EXACT), i);
	cr_expect_eq(cancel(match, id[1]), 1);
	cr_expect_eq(cancel(match, id[3]), 3);
	cr_expect_eq(cancel(match, id[5]), 5);
	cr_expect_eq(arrival_gets(match, 1, 7), 2);
	post(match, tagged(1, 7, EXACT), 6);
	cr_expect_eq(arrival_gets(match, 1, 7), 4);
	cr_expect_eq(arrival_gets(match, 1, 7), 6);
	cr_expect_eq(stats(match).posted, 0);
	tagrv_match_destroy(match);
}

Test(posted, cancel_refuses_matched_cancelled_and_unknown_ids, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	tagrv_match_id matched = post(match, tagged(1, 7, EXACT), 1);
	tagrv_match_id cancelled = post(match, tagged(1, 8, EXACT), 2);

	cr_expect_eq(arrival_gets(match, 1, 7), 1);
	cr_expect_eq(cancel(match, matched), 0);
	cr_expect_eq(cancel(match, cancelled), 2);
	cr_expect_eq(cancel(match, cancelled), 0);
	cr_expect_eq(cancel(match, 0), 0);
	cr_expect_eq(cancel(match, UINT64_MAX), 0);
	cr_expect_eq(cancel(match, UINT32_MAX), 0);
	tagrv_match_destroy(match);
}

/* One slot, reused more often than there are generations. */
Test(posted, old_id_never_names_a_new_receive, .timeout = 10)
{
	struct tagrv_match *match = engine(1, 0);
	tagrv_match_id old = post(match, tagged(1, 7, EXACT), 1);

	cr_assert_eq(arrival_gets(match, 1, 7), 1);
	for (uintptr_t i = 2; i < 20000; i++) {
		tagrv_match_id id = post(match, tagged(1, 7, EXACT), i);

		cr_assert_eq(cancel(match, old), 0, "reuse %lu",
			     (unsigned long) i);
		cr_assert_eq(cancel(match, id), i);
	}
	tagrv_match_destroy(match);
}

static bool is_five(const struct tagrv_match_recv *recv, tagrv_match_id id,
		    void *arg)
{
	(void) id;
	(void) arg;
	return number_of(recv) == 5;
}

Test(posted, one_number_posted_twice_is_found_in_post_order, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	tagrv_match_id first, second;

	first = post(match, untagged(1), 5);
	post(match, tagged(1, 7, EXACT), 6);
	second = post(match, tagged(1, 7, EXACT), 5);
	cr_expect_eq(tagrv_match_find(match, is_five, NULL), first);
	cr_expect_eq(cancel(match, first), 5);
	cr_expect_eq(tagrv_match_find(match, is_five, NULL), second);
	cr_expect_eq(cancel(match, second), 5);
	cr_expect_eq(tagrv_match_find(match, is_five, NULL), 0);
	tagrv_match_destroy(match);
}

Test(posted, kept_receive_stays_at_its_place_until_cancelled, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_want keep = tagged(ANY, 0, ALL);
	tagrv_match_id id;

	post(match, tagged(1, 7, EXACT), 1);
	keep.keep = true;
	id = post(match, keep, 2);
	post(match, tagged(1, 8, EXACT), 3);
	cr_expect_eq(arrival_gets(match, 1, 7), 1);
	for (unsigned i = 0; i < 100; i++)
		cr_expect_eq(arrival_gets(match, i, 8), 2);
	cr_expect_eq(stats(match).posted, 2);
	cr_expect_eq(cancel(match, id), 2);
	cr_expect_eq(arrival_gets(match, 1, 8), 3);
	tagrv_match_destroy(match);
}

Test(posted, kept_receive_takes_one_earlier_message_and_is_not_queued,
     .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_want keep = untagged(ANY);

	keep.keep = true;
	arrive_in(match, TAGRV_SPACE_MSG, 1, 0, 1);
	arrive_in(match, TAGRV_SPACE_MSG, 2, 0, 2);
	cr_expect_eq(post_gets(match, keep), 1);
	cr_expect_eq(post_gets(match, keep), 2);
	post(match, keep, 3);
	cr_expect_eq(arrival_in_gets(match, TAGRV_SPACE_MSG, 5, 0), 3);
	tagrv_match_destroy(match);
}

Test(posted, ids_stay_valid_when_the_queue_grows, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	tagrv_match_id first = post(match, tagged(1, 1, EXACT), 1);
	tagrv_match_id mid = 0;

	for (uintptr_t i = 2; i <= 50000; i++) {
		tagrv_match_id id = post(match, tagged(1, i, EXACT), i);

		if (i == 25000)
			mid = id;
	}
	cr_expect_eq(cancel(match, first), 1);
	cr_expect_eq(cancel(match, mid), 25000);
	cr_expect_eq(stats(match).posted, 49998);
	tagrv_match_destroy(match);
}

static void expect_next(struct tagrv_match_recv *recv, void *arg)
{
	uintptr_t *next = arg;

	cr_expect_eq(number_of(recv), (*next)++);
}

Test(posted, drain_takes_both_spaces_in_post_order, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	uintptr_t next = 1;

	post(match, tagged(1, 1, EXACT), 1);
	post(match, untagged(1), 2);
	post(match, untagged(2), 3);
	post(match, tagged(ANY, 0, ALL), 4);
	post(match, untagged(ANY), 5);
	tagrv_match_drain_posted(match, expect_next, &next);
	cr_expect_eq(next, 6);
	cr_expect_eq(stats(match).posted, 0);
	arrive(match, 1, 1, 1);
	tagrv_match_destroy(match);
}

/* ---- receives that could match a message of a peer ---- */

static bool awaits(const struct tagrv_match *match, uint32_t peer, uint64_t *seen)
{
	return tagrv_match_awaits(match, peer, seen);
}

Test(posted, of_a_peer_are_awaited_and_wildcards_of_all, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t seen = 0, none = 0;

	cr_expect(!awaits(match, 1, &seen));
	post(match, tagged(2, 7, EXACT), 1);
	post(match, untagged(3), 2);
	cr_expect(!awaits(match, 1, &seen));
	seen = 0;
	cr_expect(awaits(match, 2, &seen));
	seen = 0;
	cr_expect(awaits(match, 3, &seen));
	cr_expect_eq(seen, 2);
	/* Those that were looked at are not looked at again. */
	cr_expect(!awaits(match, 3, &seen));
	post(match, tagged(ANY, 7, EXACT), 3);
	cr_expect(awaits(match, 1, &seen));
	cr_expect(!awaits(match, 1, &seen));
	/* One that has its message awaits none. */
	cr_expect_eq(arrival_gets(match, 9, 7), 3);
	cr_expect(!awaits(match, 1, &none));
	tagrv_match_destroy(match);
}

/* In blocks of a list, and in classes that are hashed. */
Test(posted, are_awaited_however_many_there_are, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	for (uintptr_t i = 1; i <= 3000; i++) {
		uint32_t peer = (uint32_t) i;
		uint64_t seen = 0;

		post(match, tagged(peer, i, i % 3 ? EXACT : i), i);
		cr_assert(awaits(match, peer, &seen));
		cr_assert_eq(seen, i);
		seen = i - 1;
		cr_assert(awaits(match, peer, &seen));
		seen = i / 2;
		cr_assert_eq(awaits(match, peer / 2, &seen), false);
		seen = 0;
		cr_assert_eq(awaits(match, peer / 2, &seen), i > 1);
		cr_assert(!awaits(match, peer, &seen));
	}
	cr_expect_gt(stats(match).posted_classes, 0);
	tagrv_match_destroy(match);
}

Test(posted, without_a_peer_are_awaited_in_a_class_too, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t seen = 0;

	for (uintptr_t i = 1; i <= 3000; i++)
		post(match, tagged(ANY, i, EXACT), i);
	cr_assert_gt(stats(match).posted_classes, 0);
	cr_expect(awaits(match, 5, &seen));
	seen = 2999;
	cr_expect(awaits(match, 5, &seen));
	tagrv_match_destroy(match);
}
