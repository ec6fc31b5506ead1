/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Numbers of links whose tagged messages a device matches, and of their peers.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "xport/numbers.h"

#define LIVES	(TAGRV_NUMBERS_LIFE + 1)
#define PEERS	((TAGRV_NUMBERS_MAX + 1) / LIVES - 1)

static struct tagrv_numbers *numbers;
static bool any_is_left;	/* a peer has none: its former links have to end */

static void setup(void)
{
	numbers = tagrv_numbers_create();
	cr_assert_not_null(numbers);
	any_is_left = true;
}

static void teardown(void)
{
	tagrv_numbers_destroy(numbers);
}

TestSuite(numbers, .init = setup, .fini = teardown, .timeout = 30);

static uint16_t take_any(void)
{
	uint16_t number;

	cr_assert_eq(tagrv_numbers_take(numbers, NULL, &number), 0);
	return number;
}

static uint16_t take(uint32_t peer)
{
	uint16_t number;
	struct tagrv_addr addr = { .in = {
		.sin_family = AF_INET, .sin_port = htons(77),
		.sin_addr.s_addr = htonl(0x0a000000 + peer) } };

	cr_assert_eq(tagrv_numbers_take(numbers, &addr, &number),
		     number || !any_is_left ? 0 : -FI_ENOSPC);
	return number;
}

static void expect(unsigned links, unsigned peers)
{
	unsigned has_links, has_peers;

	tagrv_numbers_count(numbers, &has_links, &has_peers);
	cr_expect_eq(has_links, links, "%u links", has_links);
	cr_expect_eq(has_peers, peers, "%u peers", has_peers);
}

Test(numbers, links_of_a_peer_differ_in_their_lives_only)
{
	uint16_t of[LIVES], other = take(2);
	unsigned lives = 0;

	for (unsigned i = 0; i < LIVES; i++) {
		of[i] = take(1);
		cr_assert_gt(of[i], TAGRV_NUMBERS_LIFE);
		cr_expect_eq(of[i] / LIVES, of[0] / LIVES);
		lives |= 1u << of[i] % LIVES;
	}
	cr_expect_eq(lives, (1u << LIVES) - 1);
	cr_expect_neq(other / LIVES, of[0] / LIVES);
	expect(LIVES + 1, 2);
	cr_expect_eq(take(1), 0, "no life is left");
	tagrv_numbers_give(numbers, of[1]);
	cr_expect_eq(take(1), of[1]);
}

Test(numbers, links_of_peers_without_an_address_are_of_several)
{
	uint16_t one = take_any(), two = take_any();

	cr_assert(one && two);
	cr_expect_neq(one / LIVES, two / LIVES);
	tagrv_numbers_give(numbers, one);
	tagrv_numbers_give(numbers, two);
	expect(0, 0);
}

/* The last one is found wherever the search begins. */
Test(numbers, there_are_so_many_peers)
{
	uint16_t of[3];

	for (uint32_t i = 0; i < PEERS; i++) {
		uint16_t number = take(i);

		cr_assert_neq(number, 0);
		if (i < 3)
			of[i] = number;
	}
	expect(PEERS, PEERS);
	any_is_left = false;
	cr_expect_eq(take(PEERS), 0);
	cr_expect_eq(take(1) / LIVES, of[1] / LIVES, "a second link of the same peer");
	tagrv_numbers_give(numbers, of[2]);
	cr_expect_eq(take(PEERS) / LIVES, of[2] / LIVES);
}

/* Entries of the list may name the peer still, though it has no link. */
Test(numbers, held_number_is_the_peers)
{
	uint16_t number[2], filler;

	for (unsigned i = 0; i < 2; i++) {
		number[i] = take(i);
		tagrv_numbers_hold(numbers, number[i]);
		tagrv_numbers_leave(numbers, number[i]);
		tagrv_numbers_give(numbers, number[i]);
	}
	expect(0, 2);
	do
		filler = take_any();
	while (filler);
	expect(PEERS - 2, PEERS);
	any_is_left = false;
	cr_expect_eq(take(0) / LIVES, number[0] / LIVES, "it comes back");
	tagrv_numbers_settled(numbers);
	expect(PEERS - 1, PEERS - 1);
	cr_expect_eq(take(7) / LIVES, number[1] / LIVES, "another one may have it");
	cr_expect_eq(take(8), 0);
}

/* A peer that comes back before its entries have done so is held again, and stays so. */
Test(numbers, peer_that_is_held_again_does_not_settle)
{
	uint16_t number = take(1);

	tagrv_numbers_hold(numbers, number);
	tagrv_numbers_leave(numbers, number);
	tagrv_numbers_hold(numbers, number);
	tagrv_numbers_settled(numbers);
	tagrv_numbers_give(numbers, number);
	expect(0, 1);
	tagrv_numbers_settled(numbers);
	expect(0, 1);
}
