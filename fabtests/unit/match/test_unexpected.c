/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * unexpected.c: arrival order, peek and claim, messages handed out, drain.
 */
#include "unit/match/match_calls.h"

Test(unexpected, same_messages_are_taken_first_in_first_out, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	for (uintptr_t i = 1; i <= 3000; i++)
		arrive(match, 1, 7, i);
	for (uintptr_t i = 1; i <= 3000; i++)
		cr_expect_eq(post_gets(match, tagged(i & 1 ? 1 : ANY, 7,
						     EXACT)), i);
	tagrv_match_destroy(match);
}

/* MPI does not demand this order. It keeps a busy source from starving others. */
Test(unexpected, wildcard_takes_the_earliest_of_all_peers, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	static const uint32_t peers[] = { 3, 200, 3, 67, 1, 3, 67 };

	for (uintptr_t i = 0; i < 7; i++)
		arrive(match, peers[i], 7, i + 1);
	for (uintptr_t i = 0; i < 7; i++)
		cr_expect_eq(post_gets(match, tagged(ANY, 0, ALL)), i + 1);
	tagrv_match_destroy(match);
}

/* Peers 3, 67 and 131 are kept on one list. */
Test(unexpected, directed_takes_only_its_peer, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	arrive(match, 67, 7, 1);
	arrive(match, 3, 7, 2);
	arrive(match, 131, 7, 3);
	arrive(match, 67, 7, 4);
	cr_expect_eq(post_gets(match, tagged(3, 0, ALL)), 2);
	cr_expect_eq(peek(match, tagged(3, 0, ALL)), 0);
	cr_expect_eq(post_gets(match, tagged(131, 7, EXACT)), 3);
	cr_expect_eq(post_gets(match, tagged(67, 7, EXACT)), 1);
	cr_expect_eq(post_gets(match, tagged(67, 7, EXACT)), 4);
	tagrv_match_destroy(match);
}

Test(unexpected, directed_and_wildcard_take_from_one_queue, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	arrive(match, 1, 7, 1);
	arrive(match, 2, 7, 2);
	arrive(match, 1, 7, 3);
	cr_expect_eq(post_gets(match, tagged(ANY, 7, EXACT)), 1);
	cr_expect_eq(post_gets(match, tagged(1, 7, EXACT)), 3);
	cr_expect_eq(post_gets(match, tagged(ANY, 7, EXACT)), 2);
	cr_expect_eq(peek(match, tagged(ANY, 0, ALL)), 0);
	tagrv_match_destroy(match);
}

Test(unexpected, later_message_is_taken_when_earlier_ones_do_not_match,
     .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);

	arrive(match, 1, 0x17, 1);
	arrive(match, 1, 0x27, 2);
	arrive(match, 1, 0x28, 3);
	cr_expect_eq(post_gets(match, tagged(1, 0x2f, 0x07)), 3);
	cr_expect_eq(post_gets(match, tagged(1, 0x20, 0x0f)), 2);
	cr_expect_eq(post_gets(match, tagged(1, 0xf7, 0xf0)), 1);
	tagrv_match_destroy(match);
}

Test(unexpected, message_has_peer_tag_and_space_of_the_arrival, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_msg *a = arrive(match, 5, 0x77, 1);
	struct tagrv_match_msg *b = arrive_in(match, TAGRV_SPACE_MSG, 6, 0, 2);

	cr_expect(a->peer == 5 && a->tag == 0x77);
	cr_expect_eq(a->space, TAGRV_SPACE_TAGGED);
	cr_expect(b->peer == 6 && b->space == TAGRV_SPACE_MSG);
	cr_expect(a->seq < b->seq);
	tagrv_match_destroy(match);
}

Test(unexpected, user_of_a_new_message_is_null, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_msg *msg = NULL;
	struct tagrv_match_recv *recv;

	arrive(match, 1, 1, 9);
	cr_assert_eq(post_gets(match, tagged(1, 1, EXACT)), 9);
	cr_assert_eq(tagrv_match_arrive(match, 1, TAGRV_SPACE_TAGGED, 1,
					&recv, &msg), 0);
	cr_expect_null(msg->user);
	tagrv_match_destroy(match);
}

Test(unexpected, peek_leaves_and_claim_takes, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_want want = tagged(1, 7, EXACT);
	struct tagrv_match_msg *claimed;

	arrive(match, 1, 7, 1);
	arrive(match, 1, 7, 2);
	cr_expect_eq(peek(match, want), 1);
	cr_expect_eq(peek(match, want), 1);
	claimed = tagrv_match_claim(match, &want);
	cr_assert_not_null(claimed);
	cr_expect_eq((uintptr_t) claimed->user, 1);
	cr_expect_eq(peek(match, want), 2);
	cr_expect_eq(peek(match, tagged(ANY, 0, ALL)), 2);
	cr_expect_eq(stats(match).unexpected, 1);
	tagrv_match_release(match, claimed);
	cr_expect_eq(peek(match, want), 2);
	tagrv_match_destroy(match);
}

Test(unexpected, claim_of_nothing_is_null, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_want want = tagged(ANY, 0, ALL);

	cr_expect_null(tagrv_match_peek(match, &want));
	cr_expect_null(tagrv_match_claim(match, &want));
	tagrv_match_destroy(match);
}

Test(unexpected, take_removes_head_middle_and_tail, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_msg *msg[6];

	for (uintptr_t i = 1; i <= 5; i++)
		msg[i] = arrive(match, 1, 7, i);
	for (unsigned i = 1; i <= 5; i += 2) {
		tagrv_match_take(match, msg[i]);
		tagrv_match_release(match, msg[i]);
	}
	cr_expect_eq(post_gets(match, tagged(ANY, 7, EXACT)), 2);
	arrive(match, 1, 7, 6);
	cr_expect_eq(post_gets(match, tagged(1, 7, EXACT)), 4);
	cr_expect_eq(post_gets(match, tagged(1, 7, EXACT)), 6);
	cr_expect_eq(stats(match).unexpected, 0);
	tagrv_match_destroy(match);
}

/* The queue grows and empties while messages are with the caller. */
Test(unexpected, claimed_messages_do_not_move_or_change, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct tagrv_match_want want = tagged(1, 7, EXACT);
	struct tagrv_match_msg *claimed[20];

	for (uintptr_t i = 0; i < 20; i++)
		arrive(match, 1, 7, i + 1);
	for (unsigned i = 0; i < 20; i++)
		claimed[i] = tagrv_match_claim(match, &want);
	for (uintptr_t i = 0; i < 50000; i++)
		arrive(match, 2, 8, i + 100);
	for (uintptr_t i = 0; i < 50000; i++)
		cr_assert_eq(post_gets(match, tagged(2, 8, EXACT)), i + 100);
	for (uintptr_t i = 0; i < 20; i++) {
		cr_expect_eq((uintptr_t) claimed[i]->user, i + 1);
		cr_expect(claimed[i]->peer == 1 && claimed[i]->tag == 7);
		tagrv_match_release(match, claimed[i]);
	}
	tagrv_match_destroy(match);
}

Test(unexpected, claimed_messages_do_not_count_against_the_limit, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 1);
	struct tagrv_match_want want = tagged(1, 7, EXACT);

	for (uintptr_t i = 1; i <= 10; i++) {
		arrive(match, 1, 7, i);
		cr_assert_not_null(tagrv_match_claim(match, &want));
	}
	arrive(match, 1, 7, 11);
	cr_expect_eq(stats(match).unexpected_peak, 1);
	tagrv_match_destroy(match);
}

struct drained {
	uintptr_t seen[8];
	unsigned cnt;
	uintptr_t stays;	/* this message is not taken */
};

static bool on_message(struct tagrv_match_msg *msg, void *arg)
{
	struct drained *drained = arg;

	cr_assert_lt(drained->cnt, 8);
	drained->seen[drained->cnt++] = (uintptr_t) msg->user;
	return (uintptr_t) msg->user != drained->stays;
}

Test(unexpected, drain_of_a_peer_leaves_the_others_in_order, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct drained drained = { .cnt = 0 };

	arrive(match, 1, 7, 1);
	arrive(match, 65, 7, 2);
	arrive_in(match, TAGRV_SPACE_MSG, 1, 0, 3);
	arrive(match, 2, 7, 4);
	arrive(match, 1, 8, 5);
	tagrv_match_drain_unexpected(match, 1, on_message, &drained);
	cr_assert_eq(drained.cnt, 3);
	cr_expect(drained.seen[0] == 1 && drained.seen[1] == 3 &&
		  drained.seen[2] == 5);
	cr_expect_eq(post_gets(match, tagged(ANY, 7, EXACT)), 2);
	cr_expect_eq(post_gets(match, tagged(2, 7, EXACT)), 4);
	cr_expect_eq(stats(match).unexpected, 0);
	tagrv_match_destroy(match);
}

Test(unexpected, drain_leaves_what_its_callback_refuses, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct drained drained = { .stays = 2 };

	for (uintptr_t i = 1; i <= 3; i++)
		arrive(match, (uint32_t) i, 7, i);
	tagrv_match_drain_unexpected(match, ANY, on_message, &drained);
	cr_expect_eq(drained.cnt, 3);
	cr_expect_eq(stats(match).unexpected, 1);
	cr_expect_eq(post_gets(match, tagged(2, 7, EXACT)), 2);
	tagrv_match_destroy(match);
}

/* A reused peer number has no messages; its receives are kept. */
Test(unexpected, drained_peer_can_come_back, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	struct drained drained = { .cnt = 0 };

	post(match, tagged(1, 9, EXACT), 1);
	arrive(match, 1, 7, 1);
	tagrv_match_drain_unexpected(match, 1, on_message, &drained);
	cr_expect_eq(peek(match, tagged(1, 0, ALL)), 0);
	arrive(match, 1, 7, 2);
	cr_expect_eq(post_gets(match, tagged(1, 7, EXACT)), 2);
	cr_expect_eq(arrival_gets(match, 1, 9), 1);
	tagrv_match_destroy(match);
}

/* A receive from one peer passes no messages of another. */
Test(unexpected, flood_of_one_peer_costs_no_probe_of_another, .timeout = 10)
{
	struct tagrv_match *match = engine(0, 0);
	uint64_t before;

	for (uintptr_t i = 1; i <= 1000; i++)
		arrive(match, 1, 7, i);
	arrive(match, 2, 7, 1001);
	before = stats(match).probes;
	cr_expect_eq(post_gets(match, tagged(2, 7, EXACT)), 1001);
	cr_expect_eq(stats(match).probes, before + 1);
	tagrv_match_destroy(match);
}

#define PEERS	10
#define FAR	1000

/* Queues messages of some peers, and has an index made that separates them all. */
static struct tagrv_match *deep_queue(bool asked)
{
	struct tagrv_match *match = engine(0, 0);

	for (uintptr_t i = 1; i <= FAR; i++)
		arrive(match, (uint32_t) (i % PEERS), i, i);
	cr_assert_eq(stats(match).unexpected_indexes, 1);
	if (asked)
		cr_assert_eq(peek(match, tagged(3, 0, ALL)), 3);
	for (unsigned i = 0; i < 8; i++)
		cr_assert_eq(peek(match, tagged(ANY, 0, EXACT)), 0);
	return match;
}

/* Without lookups by peer alone the index by peer is dropped. */
Test(unexpected, index_by_peer_goes_and_comes_back, .timeout = 10)
{
	struct tagrv_match *match = deep_queue(false);
	uint64_t before;

	cr_assert_eq(stats(match).unexpected_indexes, 1);
	for (unsigned i = 0; i < 8; i++)
		cr_assert_eq(peek(match, tagged(PEERS, 0, ALL)), 0);
	cr_assert_eq(stats(match).unexpected_indexes, 2);
	before = stats(match).probes;
	for (uint32_t peer = 1; peer < PEERS; peer++)
		cr_assert_eq(peek(match, tagged(peer, 0, ALL)), peer);
	cr_expect_leq(stats(match).probes - before, PEERS);
	tagrv_match_destroy(match);
}

Test(unexpected, index_by_peer_stays_while_it_is_used, .timeout = 10)
{
	struct tagrv_match *match = deep_queue(true);

	cr_expect_eq(stats(match).unexpected_indexes, 2);
	tagrv_match_destroy(match);
}

static bool count_it(struct tagrv_match_msg *msg, void *arg)
{
	unsigned *cnt = arg;

	(void) msg;
	++*cnt;
	return true;
}

/* When many peers leave, each drain does not pass all messages. */
Test(unexpected, drains_bring_the_index_by_peer_back, .timeout = 10)
{
	struct tagrv_match *match = deep_queue(false);
	unsigned cnt = 0;

	for (unsigned i = 0; i < 8; i++)
		tagrv_match_drain_unexpected(match, PEERS + i, count_it, &cnt);
	cr_expect_eq(cnt, 0);
	cr_assert_eq(stats(match).unexpected_indexes, 2);
	tagrv_match_drain_unexpected(match, 3, count_it, &cnt);
	cr_expect_eq(cnt, FAR / PEERS);
	cr_expect_eq(peek(match, tagged(3, 0, ALL)), 0);
	cr_expect_eq(peek(match, tagged(4, 0, ALL)), 4);
	tagrv_match_destroy(match);
}

/* More of them than a handle of a pool can name; a pair of messages has each tag. */
Test(unexpected, there_may_be_more_than_a_million, .timeout = 120)
{
	const uintptr_t pairs = ((uintptr_t) 1 << 19) + 2500;
	struct tagrv_match *match = engine(0, 0);

	for (uintptr_t i = 0; i < 2 * pairs; i++)
		arrive(match, 0, i / 2, i + 1);
	cr_expect_eq(stats(match).unexpected, 2 * pairs);
	for (uintptr_t i = pairs; i-- > pairs - 2000;) {
		cr_assert_eq(post_gets(match, tagged(0, i, EXACT)), 2 * i + 1);
		cr_assert_eq(post_gets(match, tagged(ANY, i, EXACT)), 2 * i + 2);
	}
	cr_expect_gt(stats(match).unexpected_indexes, 1);
	tagrv_match_destroy(match);
}
