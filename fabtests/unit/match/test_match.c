/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * match.c: the order between the two queues, spaces, limits, statistics.
 */
#include "unit/match/match_calls.h"

Test(match, destroy_takes_null, .timeout = 10)
{
	tagrv_match_destroy(NULL);
}

Test(match, destroy_frees_what_is_still_queued, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(1, 7, EXACT), 1);
	arrive(match, 2, 7, 1);
	tagrv_match_destroy(match);
}

Test(match, receive_then_message, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(1, 7, EXACT), 5);
	cr_assert_eq(arrival_gets(match, 1, 7), 5);
	arrive(match, 1, 7, 9);
	tagrv_match_destroy(match);
}

Test(match, message_then_receive, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	arrive(match, 1, 7, 9);
	cr_assert_eq(post_gets(match, tagged(1, 7, EXACT)), 9);
	post(match, tagged(1, 7, EXACT), 5);
	tagrv_match_destroy(match);
}

Test(match, neither_queue_is_touched_by_the_other_one_s_mismatch, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	arrive(match, 1, 7, 9);
	post(match, tagged(1, 8, EXACT), 5);
	post(match, tagged(2, 7, EXACT), 6);
	cr_assert_eq(stats(match).posted, 2);
	cr_assert_eq(stats(match).unexpected, 1);
	tagrv_match_destroy(match);
}

Test(match, spaces_do_not_see_each_other, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(ANY, 0, ALL), 1);
	arrive_in(match, TAGRV_SPACE_MSG, 3, 0, 2);
	cr_assert_eq(peek(match, tagged(ANY, 0, ALL)), 0);
	cr_assert_eq(post_gets(match, untagged(ANY)), 2);
	post(match, untagged(ANY), 3);
	cr_assert_eq(arrival_gets(match, 3, 0), 1);
	cr_assert_eq(arrival_in_gets(match, TAGRV_SPACE_MSG, 3, 0), 3);
	tagrv_match_destroy(match);
}

Test(match, untagged_space_looks_at_no_tag, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_want want = untagged(4);

	want.tag = 0x1234;
	post(match, want, 1);
	cr_assert_eq(arrival_in_gets(match, TAGRV_SPACE_MSG, 4, 99), 1);
	arrive_in(match, TAGRV_SPACE_MSG, 4, 99, 2);
	cr_assert_eq(post_gets(match, want), 2);
	tagrv_match_destroy(match);
}

Test(match, untagged_space_is_in_order_and_knows_peers, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, untagged(1), 1);
	post(match, untagged(ANY), 2);
	post(match, untagged(1), 3);
	cr_assert_eq(arrival_in_gets(match, TAGRV_SPACE_MSG, 2, 0), 2);
	cr_assert_eq(arrival_in_gets(match, TAGRV_SPACE_MSG, 1, 0), 1);
	cr_assert_eq(arrival_in_gets(match, TAGRV_SPACE_MSG, 1, 0), 3);
	tagrv_match_destroy(match);
}

/* The largest peer must differ from the reserved value above it. */
Test(match, every_peer_number_is_only_itself, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(ANY - 1, 7, EXACT), 1);
	arrive(match, 0, 7, 1);
	arrive(match, ANY / 2, 7, 2);
	cr_assert_eq(arrival_gets(match, ANY - 1, 7), 1);
	cr_assert_eq(peek(match, tagged(ANY - 1, 7, EXACT)), 0);
	tagrv_match_destroy(match);
}

/* All 2^64 masks are legal, whatever the tag format is. */
Test(match, every_single_bit_can_be_ignored, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	for (unsigned bit = 0; bit < 64; bit++) {
		uint64_t flip = 1ull << bit;

		post(match, tagged(1, 0xa5, flip), 1);
		cr_assert_eq(arrival_gets(match, 1, 0xa5 ^ flip), 1);
		post(match, tagged(1, 0xa5, ~flip), 2);
		arrive(match, 1, 0xa5 ^ flip, 3);
		cr_assert_eq(arrival_gets(match, 1, ~0xa5ull ^ flip), 2);
		cr_assert_eq(post_gets(match, tagged(1, 0xa5, flip)), 3);
	}
	tagrv_match_destroy(match);
}

Test(match, limit_of_receives_stops_queueing_only, .timeout = 10)
{
	struct tagrv_match *match = engine(2, 0);
	struct tagrv_match_want want = tagged(1, 7, EXACT);
	struct tagrv_match_msg *msg = NULL;
	tagrv_match_id id = 0, first;

	first = post(match, want, 1);
	post(match, untagged(1), 2);
	cr_assert_eq(tagrv_match_post(match, &want, NULL, &id, &msg),
		     -FI_EAGAIN);
	cr_assert(!id && !msg);
	arrive(match, 2, 5, 9);
	cr_assert_eq(post_gets(match, tagged(2, 5, EXACT)), 9);
	cr_assert_eq(cancel(match, first), 1);
	post(match, want, 3);
	cr_assert_eq(stats(match).posted_peak, 2);
	tagrv_match_destroy(match);
}

Test(match, limit_of_messages_stops_queueing_only, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 1);
	struct tagrv_match_msg *msg = NULL;
	struct tagrv_match_recv *recv = NULL;

	arrive(match, 1, 7, 1);
	cr_assert_eq(tagrv_match_arrive(match, 1, TAGRV_SPACE_MSG, 7, &recv,
					&msg), -FI_EAGAIN);
	cr_assert(!recv && !msg);
	post(match, tagged(1, 8, EXACT), 5);
	cr_assert_eq(arrival_gets(match, 1, 8), 5);
	cr_assert_eq(post_gets(match, tagged(1, 7, EXACT)), 1);
	arrive(match, 1, 7, 2);
	tagrv_match_destroy(match);
}

Test(match, statistics_count_calls_depths_and_probes, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	post(match, tagged(1, 1, EXACT), 1);
	post(match, tagged(1, 2, EXACT), 2);
	cr_assert_eq(stats(match).searches, 2);
	cr_assert_eq(stats(match).probes, 0);
	cr_assert_eq(arrival_gets(match, 1, 2), 2);
	cr_assert_eq(stats(match).probes, 2);
	arrive(match, 1, 3, 3);
	peek(match, tagged(ANY, 3, EXACT));
	cr_assert_eq(stats(match).searches, 5);
	cr_assert_eq(stats(match).posted, 1);
	cr_assert_eq(stats(match).posted_peak, 2);
	cr_assert_eq(stats(match).unexpected, 1);
	cr_assert_eq(stats(match).unexpected_peak, 1);
	tagrv_match_destroy(match);
}

Test(match, ages_count_calls_since_the_oldest_entry, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	tagrv_match_id oldest;

	cr_assert_eq(stats(match).posted_oldest, 0);
	cr_assert_eq(stats(match).unexpected_oldest, 0);
	oldest = post(match, tagged(1, 1, EXACT), 1);
	cr_assert_eq(stats(match).posted_oldest, 0);
	post(match, untagged(1), 2);
	post(match, tagged(1, 3, EXACT), 3);
	cr_assert_eq(stats(match).posted_oldest, 2);
	cr_assert_eq(cancel(match, oldest), 1);
	cr_assert_eq(stats(match).posted_oldest, 1);
	arrive(match, 1, 9, 1);
	cr_assert_eq(stats(match).unexpected_oldest, 0);
	cr_assert_eq(arrival_gets(match, 1, 3), 3);
	cr_assert_eq(stats(match).unexpected_oldest, 1);
	cr_assert_eq(stats(match).posted_oldest, 1);
	cr_assert_eq(post_gets(match, tagged(1, 9, EXACT)), 1);
	cr_assert_eq(stats(match).posted_oldest, 2);
	cr_assert_eq(stats(match).unexpected_oldest, 0);
	cr_assert_eq(arrival_in_gets(match, TAGRV_SPACE_MSG, 1, 0), 2);
	cr_assert_eq(stats(match).posted_oldest, 0);
	tagrv_match_destroy(match);
}
