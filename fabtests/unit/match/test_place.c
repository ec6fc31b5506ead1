/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * posted_place.c: groups share the cache lines of their keys while that is cheaper,
 * and separate when it is not; the results are the same.
 */
#include "match/posted.h"
#include "unit/match/match_calls.h"

#define CNT	3000

static struct tagrv_posted_queue queue;

static void begin(void)
{
	cr_assert_eq(tagrv_posted_init(&queue, 0, 1), 0);
}

static void end(void)
{
	tagrv_posted_fini(&queue);
}

/* Posts receives first, first + 1, ... with tags i * step; the masks take turns. */
static void post_kinds(const uint64_t *masks, unsigned kinds, uint32_t peer,
		       uint64_t step, uintptr_t first, unsigned cnt)
{
	for (uintptr_t i = first; i < first + cnt; i++) {
		struct tagrv_match_want want =
			tagged(peer, i * step, masks[i % kinds]);
		struct tagrv_match_recv *recv;
		tagrv_match_id id;

		queue.last_seq++;
		cr_assert_eq(tagrv_posted_add(&queue, &want, &recv, &id), 0);
		recv->room[0] = i;
	}
}

static void expect_match(uint32_t peer, uint64_t tag, uintptr_t number)
{
	const struct tagrv_match_recv *recv =
		tagrv_posted_match(&queue, peer, TAGRV_SPACE_TAGGED, tag);

	cr_assert(recv, "%lu: none found", (unsigned long) number);
	cr_assert_eq(recv->room[0], number);
}

/* Matches all of them, the later half first. */
static void take(uint64_t step, uintptr_t first, unsigned cnt)
{
	for (unsigned n = 0; n < cnt; n++) {
		uintptr_t i = first + (n + cnt / 2) % cnt;

		expect_match(1, i * step, i);
	}
}

/* Returns by how many lines a key is displaced at most. */
static size_t longest_way(void)
{
	const struct tagrv_key_array *now = &queue.tab.now;
	size_t longest = 0;

	for (size_t b = 0; b <= now->mask; b++)
		for (unsigned i = 0; i < TAGRV_KEYTAB_CELLS; i++)
			if (now->buckets[b].hash[i])
				longest = TAGRV_MAX(longest,
					(b - now->buckets[b].hash[i]) &
					now->mask);
	return longest;
}

static unsigned groups_together(void)
{
	return (unsigned) __builtin_popcountll(queue.shared);
}

static unsigned groups_in_all(void)
{
	return (unsigned) __builtin_popcountll(
		queue.live_groups[TAGRV_SPACE_TAGGED]);
}

static bool same_line(struct tagrv_posted *recv, void *arg)
{
	uint32_t place = tagrv_posted_place(&queue, recv->peer, recv->tag);
	unsigned *cnt = arg;

	*cnt += recv->class != TAGRV_NO_CLASS &&
		!((recv->hash ^ place) & TAGRV_PLACE_MASK);
	return false;
}

static const uint64_t three[] = { 0xffull << 32, 0xffull << 40, 0xffull << 48 };

Test(place, groups_with_enough_in_common_share_lines, .timeout = 20)
{
	unsigned same = 0;

	begin();
	post_kinds(three, 3, ANY, 1, 1, CNT);
	cr_assert_eq(groups_in_all(), 3);
	cr_expect_eq(groups_together(), 3);
	cr_expect_eq(queue.common.care, ~(0xffffffull << 32));
	tagrv_posted_each(&queue, same_line, &same);
	cr_expect_eq(same, queue.level.cnt - queue.lists[0].cnt);
	cr_expect_leq(longest_way(), TAGRV_KEYTAB_CROWD);
	take(1, 1, CNT);
	cr_expect_eq(queue.shared, 0);
	end();
}

Test(place, peer_counts_where_all_groups_have_one, .timeout = 20)
{
	begin();
	post_kinds(three, 2, 1, 1, 1, CNT);
	cr_expect_eq(groups_together(), 2);
	cr_expect_not(queue.common.any);
	post_kinds(three + 2, 1, ANY, 1, CNT + 1, CNT);
	cr_expect_eq(groups_together(), 3);
	cr_expect(queue.common.any);
	take(1, 1, 2 * CNT);
	end();
}

Test(place, groups_without_common_bits_are_separate, .timeout = 20)
{
	static const uint64_t masks[] = { ~0xffffull, ~0xffff0000ull };

	begin();
	post_kinds(masks, 2, ANY, 0x10001, 1, CNT);
	cr_assert_eq(groups_in_all(), 2);
	cr_expect_eq(groups_together(), 0);
	take(0x10001, 1, CNT);
	end();
}

/* The first tags differ in the common bits, all later tags have the same common bits. */
Test(place, groups_separate_when_lines_are_crowded, .timeout = 20)
{
	static const uint64_t masks[] = { 0xffffull, 0xffff0000ull };
	const uint64_t step = 0x10001, rich = step | 1ull << 40;

	begin();
	post_kinds(masks, 2, ANY, rich, 1, CNT);
	cr_assert_eq(groups_together(), 2);
	post_kinds(masks, 2, ANY, step, 1 + CNT, CNT);
	cr_expect_eq(groups_together(), 0);
	cr_expect_leq(longest_way(), TAGRV_KEYTAB_CROWD);
	take(rich, 1, CNT);
	take(step, 1 + CNT, CNT);
	end();
}

Test(place, a_group_narrows_the_common_bits_when_posts_have_paid_for_it, .timeout = 20)
{
	static const uint64_t fourth[] = { 0xffull << 56 };

	begin();
	post_kinds(three, 2, ANY, 1, 1, CNT);
	cr_assert_eq(groups_together(), 2);
	post_kinds(three + 2, 1, ANY, 1, CNT + 1, 400);
	cr_expect_eq(groups_together(), 3);
	post_kinds(fourth, 1, ANY, 1, CNT + 401, 400);
	cr_assert_eq(groups_in_all(), 4);
	cr_expect_eq(groups_together(), 3, "moved %u receives after 400 posts",
		     CNT);
	take(1, 1, CNT + 800);
	end();
}

/* The set of common bits stays narrow, so that no receive has to be moved. */
Test(place, groups_come_and_go, .timeout = 20)
{
	begin();
	post_kinds(three, 2, ANY, 1, 1, CNT);
	for (unsigned round = 0; round < 10; round++) {
		post_kinds(three + 2, 1, ANY, 1, CNT + 1, 400);
		cr_assert_eq(groups_together(), 3);
		take(1, CNT + 1, 400);
		cr_assert_eq(groups_together(), 2);
		cr_assert_eq(queue.common.care, ~(0xffffffull << 32));
	}
	take(1, 1, CNT);
	cr_expect_eq(queue.shared, 0);
	end();
}

Test(place, earliest_wins_among_groups_in_one_line, .timeout = 20)
{
	begin();
	post_kinds(three, 3, ANY, 1, 1, CNT);
	for (unsigned round = 0; round < 3; round++)
		post_kinds(&three[round], 1, ANY, 0, CNT + 1 + round, 1);
	cr_assert_eq(groups_together(), 3);
	for (unsigned round = 0; round < 3; round++)
		expect_match(7, 0, CNT + 1 + round);
	end();
}

/*
 * A group whose first class is gone, and whose last class gets a group of its own, is
 * unused. The next class that gets its number has few bits in common with the others.
 */
Test(place, group_that_its_last_class_left_shares_no_lines, .timeout = 20)
{
	const uint64_t coarse = 0xffffull << 48 | 0xff, other = 0xffffull << 32 | 0xff;
	const uint64_t fine[] = { ~(coarse | 0xff00) }, last[] = { ~0xffff00ull };
	const uint8_t space = TAGRV_SPACE_TAGGED;
	uint8_t first, number;

	begin();
	first = tagrv_posted_class_new(&queue, space, coarse, false);
	tagrv_posted_class_new(&queue, space, other, false);
	tagrv_posted_class_new(&queue, space, ~fine[0], false);
	number = queue.classes[first].group;
	cr_assert_eq(queue.groups[number].classes, 2);
	cr_assert(queue.shared & 1ull << number);
	tagrv_posted_class_free(&queue, first);
	post_kinds(fine, 1, 1, 0x100, 1, 60);
	for (uintptr_t i = 60; i > 40; i--)
		expect_match(1, i * 0x100, i);
	cr_assert_eq(queue.groups[number].classes, 0, "no class has moved");
	cr_expect_not(queue.shared & 1ull << number);
	first = tagrv_posted_class_new(&queue, space, ~last[0], false);
	cr_assert_eq(queue.classes[first].group, number);
	post_kinds(last, 1, 1, 0x10000, 100, 30);
	for (uintptr_t i = 100; i < 130; i++)
		expect_match(1, i * 0x10000 | 0x55, i);
	end();
}
