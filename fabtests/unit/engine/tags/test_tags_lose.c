/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers, lists and devices that are lost while peers have entered and receives come back from
 * the list; and when there is time to sleep.
 */
#include "unit/engine/tags/tags_fixture.h"

#include <string.h>

static void setup(void)
{
	tags_setup();
	tags_begin();
}

TestSuite(tags_lose, .init = setup, .fini = tags_teardown, .timeout = 30);
TestSuite(tags_arm, .init = setup, .fini = tags_teardown, .timeout = 30);

enum { OTHER = TAGS_NUMBER + 3 };	/* number of the other peer */

static char buf[4][64], ctx[4];
static fi_addr_t row;			/* of the other peer */

static struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

static void post(unsigned n, uint64_t tag, fi_addr_t src)
{
	tags_post(buf[n], sizeof(buf[n]), tag, &ctx[n], src);
}

static void carry_out_all(void)
{
	while (fake_list_apply(fake.list))
		tags_pass(1);
	tags_pass(3);
}

/*
 * Two peers have entered. Receive 0 names the first, 1 names nobody, 2 the second: the first
 * one dies, and 0 to 2 come back, of which the device has not heard.
 */
static struct tagrv_lane *recall(void)
{
	struct tagrv_lane *other;

	fake.given = OTHER;
	other = tags_other_up(fake_link(), 1, &row);
	post(0, 5, fx.peer_addr);
	post(1, 6, FI_ADDR_UNSPEC);
	post(2, 7, row);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 3);
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	fake_break_link(fx.link, -FI_ECONNRESET);
	tags_pass(2);
	cr_assert_eq(tags_counts().offload.recalled, 3);
	cr_assert_eq(tags_counts().listed, 0);
	cr_assert_eq(tags_counts().soft, 3);
	return other;
}

static void expect_other(unsigned n, const char *text)
{
	struct tagrv_comp comp = take(&fx.rx);

	cr_assert_eq(comp.err, 0);
	cr_assert_eq(comp.context, &ctx[n]);
	cr_assert_eq(comp.src, row);
	cr_assert_eq(memcmp(buf[n], text, strlen(text)), 0);
}

/* ---- a peer ---- */

Test(tags_lose, receives_come_back_from_a_peer_that_died)
{
	struct tagrv_lane *other = recall();

	fake_list_delay(fake.list, 0, 0);
	carry_out_all();
	cr_assert_eq(tags_counts().offload.late, 0);
	/* 1 could match what 0 does, and 2 what 1 does. */
	cr_assert_eq(tags_counts().listed, 0);
	cr_assert_eq(tags_counts().soft, 3);
	fake_listed(other->link, 7, 0, "two", 3);
	fake_listed(other->link, 6, 0, "one", 3);
	tags_pass(3);
	expect_other(2, "two");
	expect_other(1, "one");
	tags_peer_up(TAGS_NUMBER + 1);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 1);
	tags_message(5, "again", 5);
	tags_pass(3);
	tags_expect(&ctx[0], 5, 5);
	tags_expect_handled(3);
}

/* The device had matched it before it heard of the del. */
Test(tags_lose, receive_that_comes_back_is_matched_by_a_peer_that_lives)
{
	struct tagrv_lane *other = recall();

	fake_listed(other->link, 6, 0, "late", 4);
	tags_pass(2);
	expect_other(1, "late");
	carry_out_all();
	cr_assert_eq(tags_counts().offload.late, 1);
	expect_empty(&fx.rx);
	tags_expect_handled(1);
}

/* Both peers die before the device has answered. */
Test(tags_lose, receives_come_back_from_all_peers)
{
	struct tagrv_lane *other = recall();

	tagrv_lane_fail(other, -FI_ECONNRESET, true);
	fake_end_closed();
	tags_pass(2);
	fake_list_delay(fake.list, 0, 0);
	while (fake_list_apply(fake.list))
		;
	tags_pass(2 * TAGRV_RAIL_REST);
	cr_assert_eq(tags_counts().soft, 3);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[i]), 0);
		cr_assert_eq(take(&fx.rx).err, FI_ECANCELED, "at once");
	}
	cr_assert_eq(fx.engine->rx->ops.used, 0);
}

/* ---- the list, and the device ---- */

static void fail_list(void)
{
	fake_list_fail(fake.list, -FI_EIO);
}

static void fail_device(void)
{
	fake.base.sink->fatal(fake.base.sink, -FI_ENODEV);
	fake_list_fail(fake.list, -FI_ENODEV);
}

/* Receives that were coming back go on in software, and one that was cancelled ends. */
static void expect_software_goes_on(void (*fail)(void))
{
	recall();
	post(3, 8, row);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[1]), 0);
	expect_empty(&fx.rx);
	fail();
	tags_pass(2 * TAGRV_RAIL_REST);
	fake_end_closed();
	cr_assert_eq(fake.links, 0, "the lane that had entered has ended");
	cr_assert_null(fake.base.list);
	cr_assert_eq(tags_counts().entries, 0);
	cr_assert_eq(take(&fx.rx).err, FI_ECANCELED);
	expect_empty(&fx.rx);
	cr_assert_eq(fx.engine->rx->ops.used, 3);
	for (unsigned i = 0; i < 4; i++)
		if (i != 1)
			cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[i]), 0);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(take(&fx.rx).err, FI_ECANCELED, "at once");
	cr_assert_eq(fx.engine->rx->ops.used, 0);
}

Test(tags_lose, list_is_lost_while_receives_come_back)
{
	expect_software_goes_on(fail_list);
	tags_peer_up(0);
	post(0, 5, fx.peer_addr);
	arrive_eager("hello", 5, 5, 0, 0);
	tags_expect(&ctx[0], 5, 5);
}

Test(tags_lose, device_is_lost_while_receives_come_back)
{
	expect_software_goes_on(fail_device);
}

/* A peer that waits to enter, because its old link is there still, has not entered. */
Test(tags_lose, list_is_lost_while_a_peer_waits_to_enter)
{
	struct tagrv_peer *p = peer();

	fake.hold_closed = true;
	tagrv_lane_fail(p->lane, -FI_ECONNRESET, true);
	tags_peer_up(TAGS_NUMBER + 1);
	tags_pass(2);
	cr_assert_eq(p->listed.number, 0, "the old link is there");
	fake_list_fail(fake.list, -FI_EIO);
	tags_pass(2);
	cr_assert_null(p->lane);
	fake.hold_closed = false;
	fake_close_held();
	cr_assert_eq(p->listed_lanes, 0);
	cr_assert_eq(fake.links, 0);
}

/* ---- sleeping ---- */

static int arm(void)
{
	return tagrv_dom_arm(fx.dom);
}

/* One pass looks at so many receives; those of an unknown peer cannot be in the list. */
Test(tags_arm, no_sleep_before_all_receives_were_looked_at)
{
	enum { CNT = 150 };
	static char bufs[CNT][8], names[CNT];
	unsigned arms = 0;

	tags_pass(3);
	cr_assert_eq(arm(), 0);
	fake_break_link(fx.link, -FI_ECONNRESET);
	tags_pass(2 * TAGRV_RAIL_REST);
	cr_assert_eq(arm(), 0);
	for (int i = 0; i < CNT; i++)
		tags_post(bufs[i], sizeof(bufs[i]), 5, &names[i], fx.peer_addr);
	cr_assert_eq(arm(), 0, "posts alone change nothing");
	/* Another one enters: all are looked at again, in three passes. */
	fake.given = OTHER;
	tags_other_up(fake_link(), 1, &row);
	while (arm()) {
		cr_assert(tagrv_tags_is_busy(fx.engine->tags));
		cr_assert_lt(++arms, 10);
	}
	cr_assert_eq(arms, 2);
	cr_assert_not(tagrv_tags_is_busy(fx.engine->tags));
	for (int i = 0; i < CNT; i++) {
		cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &names[i]), 0);
		take(&fx.rx);
	}
}

/* The device tells when it has room, which wakes the sleeper. */
Test(tags_arm, sleep_while_the_list_has_no_room)
{
	tags_pass(3);
	for (unsigned i = 0; i < 3; i++)
		post(i, i, fx.peer_addr);
	tags_pass(3);
	cr_assert_eq(arm(), 0);
	fake.list->refuse = 1000;
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[i]), 0);
	cr_assert_eq(arm(), 0);
	cr_assert_eq(fake.list->dels, 0);
	fake.list->refuse = 0;
	tags_pass(3);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(take(&fx.rx).err, FI_ECANCELED);
	cr_assert_eq(arm(), 0);
}

/* A list that is to be given up needs a pass, and nothing will wake anybody for it. */
Test(tags_arm, no_sleep_before_a_list_is_given_up)
{
	tags_pass(3);
	fake.list->error = -FI_EIO;
	post(0, 5, FI_ADDR_UNSPEC);
	cr_assert(tagrv_tags_is_busy(fx.engine->tags));
	cr_assert_neq(arm(), 0);
	tags_pass(3);
	cr_assert_null(fake.base.list);
	cr_assert_not(tagrv_tags_is_busy(fx.engine->tags));
	fake_end_closed();
	tags_pass(2 * TAGRV_RAIL_REST);
	cr_assert_eq(arm(), 0);
}
