/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives of a device's list that are cancelled, or whose source is lost.
 */
#include "unit/engine/tags/tags_fixture.h"

#include <stdlib.h>
#include <string.h>

static void setup(void)
{
	tags_setup();
	tags_begin();
}

static void setup_with_errors(void)
{
	setenv("FI_TAGRV_PEER_ERRORS", "yes", 1);
	setup();
}

TestSuite(tags_cancel, .init = setup, .fini = tags_teardown, .timeout = 30);
TestSuite(tags_lost, .init = setup_with_errors, .fini = tags_teardown, .timeout = 30);

static char buf[4][64], ctx[4];

static void post_listed(unsigned n, uint64_t tag, fi_addr_t src)
{
	tags_post(buf[n], sizeof(buf[n]), tag, &ctx[n], src);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, n + 1);
}

static int cancel(unsigned n)
{
	return tagrv_rx_cancel(fx.engine->rx, &ctx[n]);
}

static void expect_cancelled(unsigned n)
{
	struct tagrv_comp comp = take(&fx.rx);

	cr_assert_eq(comp.context, &ctx[n]);
	cr_assert_eq(comp.err, FI_ECANCELED);
	cr_assert_eq(comp.src, FI_ADDR_NOTAVAIL);
	cr_assert_eq(comp.buf, buf[n]);
}

/* ---- cancel ---- */

Test(tags_cancel, receive_in_software_ends_at_once)
{
	fake.list->refuse = 1;
	tags_post(buf[0], sizeof(buf[0]), 5, &ctx[0], FI_ADDR_UNSPEC);
	cr_assert_eq(tags_counts().soft, 1);
	cr_assert_eq(cancel(0), 0);
	expect_cancelled(0);
	cr_assert_eq(fx.engine->rx->ops.used, 0);
}

Test(tags_cancel, listed_receive_ends_when_the_device_has_answered)
{
	post_listed(0, 5, FI_ADDR_UNSPEC);
	cr_assert_eq(cancel(0), 0);
	expect_empty(&fx.rx);
	cr_assert_eq(cancel(0), -FI_ENOENT, "it is not posted any more");
	tags_pass(3);
	expect_cancelled(0);
	cr_assert_eq(fx.engine->rx->ops.used, 0);
	tags_message(5, "late", 4);
	tags_pass(3);
	expect_empty(&fx.rx);
	cr_assert_eq(tags_counts().unexpected, 2);
}

Test(tags_cancel, message_that_was_faster_is_received)
{
	post_listed(0, 5, FI_ADDR_UNSPEC);
	tags_message(5, "hello", 5);
	cr_assert_eq(cancel(0), 0);
	tags_pass(3);
	tags_expect(&ctx[0], 5, 5);
	cr_assert_arr_eq(buf[0], "hello", 5);
	expect_empty(&fx.rx);
	cr_assert_eq(fx.engine->rx->ops.used, 0);
}

Test(tags_cancel, younger_receive_gets_the_next_message)
{
	post_listed(0, 5, FI_ADDR_UNSPEC);
	post_listed(1, 5, FI_ADDR_UNSPEC);
	cr_assert_eq(cancel(0), 0);
	tags_pass(3);
	tags_message(5, "hello", 5);
	tags_pass(3);
	expect_cancelled(0);
	tags_expect(&ctx[1], 5, 5);
}

/* Matched, but its bytes are not there: it is not posted any more. */
Test(tags_cancel, receive_with_a_message_under_way_is_not_found)
{
	post_listed(0, 5, FI_ADDR_UNSPEC);
	fake.list->hold_data = true;
	tags_message(5, "hello", 5);
	tags_pass(2);
	cr_assert_eq(cancel(0), -FI_ENOENT);
	cr_assert(fake_list_data(fake.list));
	tags_pass(2);
	tags_expect(&ctx[0], 5, 5);
}

/* ---- sources that are lost ---- */

static void expect_lost(unsigned n, int err)
{
	struct tagrv_comp comp = take(&fx.rx);

	cr_assert_eq(comp.context, &ctx[n]);
	cr_assert_eq(comp.err, (uint64_t) err);
	cr_assert_eq(comp.src, fx.peer_addr);
}

Test(tags_lost, listed_receives_of_a_peer_that_died_end)
{
	post_listed(0, 5, fx.peer_addr);
	tags_post(buf[1], sizeof(buf[1]), 5, &ctx[1], FI_ADDR_UNSPEC);
	tags_pass(3);
	fake_break_link(fx.link, -FI_ECONNRESET);
	tags_pass(5);
	expect_lost(0, FI_ECONNRESET);
	expect_empty(&fx.rx);
	cr_assert_eq(cancel(1), 0);
	/* A device without connections is looked at in few passes. */
	tags_pass(2 * TAGRV_RAIL_REST);
	expect_cancelled(1);
}

Test(tags_lost, what_it_had_sent_before_is_received)
{
	post_listed(0, 5, fx.peer_addr);
	post_listed(1, 6, fx.peer_addr);
	tags_message(6, "hello", 5);
	fake_break_link(fx.link, -FI_ECONNRESET);
	tags_pass(5);
	tags_expect(&ctx[1], 6, 5);
	expect_lost(0, FI_ECONNRESET);
}
