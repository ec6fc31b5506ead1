/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An endpoint with a device's list is closed, loses the list, and tells about it.
 */
#include "unit/engine/tags/tags_fixture.h"

#include <stdio.h>
#include <string.h>

#include "engine/dump.h"

static void setup(void)
{
	tags_setup();
	tags_begin();
}

TestSuite(tags_close, .init = setup, .fini = tags_teardown, .timeout = 30);

static char buf[4][64], ctx[4];

static void post(unsigned n, uint64_t tag)
{
	tags_post(buf[n], sizeof(buf[n]), tag, &ctx[n], FI_ADDR_UNSPEC);
	tags_pass(3);
}

/* The teardown looks for registrations that are left. */
Test(tags_close, listed_receives_vanish_without_a_report)
{
	for (unsigned i = 0; i < 4; i++)
		post(i, i);
	cr_assert_eq(tags_counts().listed, 4);
	engine_close();
	expect_empty(&fx.rx);
}

Test(tags_close, cancelled_receive_without_an_answer_vanishes)
{
	post(0, 5);
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[0]), 0);
	engine_close();
	expect_empty(&fx.rx);
}

/* Its bytes will never come: the connection ends, and the receive with it. */
Test(tags_close, message_under_way_ends_with_its_connection)
{
	post(0, 5);
	fake.list->hold_data = true;
	tags_message(5, "hello", 5);
	tags_pass(2);
	fake_break_link(fx.link, -FI_ECONNRESET);
	tags_pass(3);
	cr_assert_eq(take(&fx.rx).err, FI_ECONNRESET);
	cr_assert_eq(fx.engine->rx->ops.used, 0);
}

/* ---- the list is lost ---- */

Test(tags_close, receives_go_on_in_software_when_the_list_is_lost)
{
	post(0, 5);
	fake_list_fail(fake.list, -FI_EIO);
	tags_pass(3);
	fake_end_closed();
	cr_assert_null(fx.engine->table.peers[0]->lane, "connections of the device fail");
	tags_peer_up(0);
	arrive_eager("hello", 5, 5, 0, 0);
	tags_expect(&ctx[0], 5, 5);
	tags_post(buf[1], sizeof(buf[1]), 6, &ctx[1], fx.peer_addr);
	arrive_eager("hello", 5, 6, 0, 0);
	tags_expect(&ctx[1], 6, 5);
	cr_assert_eq(tags_counts().entries, 0);
}

/* A match before it was not believed: the message is not the first one of its peer. */
Test(tags_close, message_behind_the_loss_of_the_list_is_dropped)
{
	struct tagrv_taglist_sink *sink = fake.list->base.sink;

	sink->fatal(sink, -FI_EIO);
	tags_message(5, "hello", 5);
	fake.base.ops->progress(&fake.base);
	post(0, 5);
	fake_end_closed();
	cr_assert_null(fx.engine->table.peers[0]->lane);
	expect_empty(&fx.rx);
}

Test(tags_close, link_that_was_made_for_the_lost_list_is_refused)
{
	fake_list_fail(fake.list, -FI_EIO);
	tags_pass(3);
	fake_end_closed();
	tags_peer_up(TAGS_NUMBER);
	cr_assert_null(fx.engine->table.peers[0]->lane);
	cr_assert_eq(fake.links, 0);
}

/* ---- what it tells ---- */

static void expect_dump(const char *want)
{
	static char text[1 << 16];
	FILE *out = fmemopen(text, sizeof(text), "w");

	tagrv_engine_dump(fx.engine, out);
	fclose(out);
	cr_assert_not_null(strstr(text, want), "no '%s' in %s", want, text);
}

Test(tags_close, dump_has_the_list)
{
	post(0, 5);
	expect_dump("\n  list: 1 of 8 entries, 0 receives in software; 1 messages "
		    "unexpected, 1 handled; 0 peers outside\n");
	expect_dump("waits for a message that matches, in the adapter's list");
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[0]), 0);
	expect_dump("waits for the adapter to give it back: it is cancelled");
}

static char stats_line[1024];

static void keep_line(const char *line)
{
	if (strstr(line, "the adapter's list"))
		snprintf(stats_line, sizeof(stats_line), "%s", line);
}

Test(tags_close, log_has_a_line_of_the_list)
{
	post(0, 5);
	tags_message(5, "hello", 5);
	tags_pass(3);
	tags_expect(&ctx[0], 5, 5);
	log_hook = keep_line;
	engine_close();
	log_hook = NULL;
	cr_assert_not_null(strstr(stats_line, "the adapter's list got 1 receives, 0 of them "
				  "late, and matched 1;"), "%s", stats_line);
}
