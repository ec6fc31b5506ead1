/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages, cancels and answers of a device's list that cross each other: each receive ends
 * exactly once, and each message is received once or kept.
 */
#include "unit/engine/tags/tags_fixture.h"

#include <stdio.h>
#include <string.h>

static void setup(void)
{
	tags_setup();
	tags_begin();
}

TestSuite(tags_cross, .init = setup, .fini = tags_teardown, .timeout = 60);

static char buf[4][64], ctx[4];

static struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

static void post(unsigned n, uint64_t tag, fi_addr_t src)
{
	tags_post(buf[n], sizeof(buf[n]), tag, &ctx[n], src);
}

/* ---- software is faster than the device ---- */

/* The device has not got the receive yet when the message comes. */
Test(tags_cross, software_takes_a_receive_that_is_going_to_the_list)
{
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	post(0, 5, FI_ADDR_UNSPEC);
	post(1, 5, fx.peer_addr);
	cr_assert_eq(tags_counts().listed, 2);
	tags_message(5, "one", 3);
	tags_pass(1);
	tags_expect(&ctx[0], 5, 3);
	cr_assert_arr_eq(buf[0], "one", 3);
	cr_assert_eq(tags_counts().offload.taken, 1);
	cr_assert_eq(tags_counts().listed, 1);
	cr_assert_eq(fx.engine->rx->ops.used, 1, "the op is free, whatever the device has");
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[0]), -FI_ENOENT);
	tags_message(5, "two", 3);
	tags_pass(1);
	tags_expect(&ctx[1], 5, 3);
	cr_assert_arr_eq(buf[1], "two", 3);
	cr_assert_eq(tags_counts().offload.taken, 2);
	while (fake_list_apply(fake.list))
		;
	tags_pass(3);
	while (fake_list_apply(fake.list))
		;
	tags_pass(3);
	cr_assert_eq(fake.list->dels, 2);
	cr_assert_eq(tags_counts().listed + tags_counts().soft, 0);
	cr_assert_eq(tags_counts().offload.consumed, 0);
	tags_expect_handled(3);
	cr_assert_eq(fx.engine->rx->ops.used, 0);
	expect_empty(&fx.rx);
}

/* Its memory is used again at once, while the entry of the old one is in the device. */
Test(tags_cross, place_of_a_taken_receive_is_not_given_away_early)
{
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	for (int i = 0; i < 3 * (int) TAGS_ENTRIES; i++) {
		post(0, 5, FI_ADDR_UNSPEC);
		tags_message(5, "x", 1);
		tags_pass(1);
		tags_expect(&ctx[0], 5, 1);
		cr_assert_leq(fake.list->adds, TAGS_ENTRIES);
		cr_assert_eq(fx.engine->rx->ops.used, 0);
	}
	cr_assert_eq(fake.list->adds, TAGS_ENTRIES);
	fake_list_delay(fake.list, 0, 0);
	while (fake_list_apply(fake.list))
		tags_pass(2);
	tags_pass(4);
	post(1, 6, FI_ADDR_UNSPEC);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 1);
	tags_message(6, "y", 1);
	tags_pass(2);
	tags_expect(&ctx[1], 6, 1);
	cr_assert_eq(tags_counts().offload.consumed, 1);
	tags_expect_handled(1 + 3 * TAGS_ENTRIES);
}

/* ---- the first sign of a peer ---- */

/* A peer sends nothing before it can receive: what waits for it goes. */
static void expect_ready_by(void (*message)(void))
{
	int dummy;

	post(0, 5, FI_ADDR_UNSPEC);
	tags_pass(3);
	fake_break_link(fx.link, -FI_ECONNRESET);
	fake.given = TAGS_NUMBER;
	peer_up(false);
	cr_assert_eq(submit_send("hello", 5, 1, &dummy, 0), 0);
	tags_pass(3);
	cr_assert_eq(peer()->state, TAGRV_PEER_BOUND);
	cr_assert_eq(fake.log_cnt, 0);
	message();
	tags_pass(1);
	cr_assert_eq(peer()->state, TAGRV_PEER_READY);
	tags_pass(1);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_EAGER);
	fake_complete_all(0);
}

/* Before its bytes are there. */
static void match_without_bytes(void)
{
	fake.list->hold_data = true;
	tags_message(5, "x", 1);
}

Test(tags_cross, match_makes_a_bound_peer_ready)
{
	expect_ready_by(match_without_bytes);
	expect_empty(&fx.rx);
	cr_assert(fake_list_data(fake.list));
	tags_pass(1);
	tags_expect(&ctx[0], 5, 1);
}

static void unexpected(void)
{
	tags_message(6, "x", 1);
}

Test(tags_cross, unexpected_message_makes_a_bound_peer_ready)
{
	expect_ready_by(unexpected);
	tags_expect_handled(2);
}

/* ---- every order ---- */

enum step { CANCEL, MESSAGE, COMMAND, ANSWER, DATA, BREAK, STEPS };
enum { ORDERS = 720 };		/* of so many steps */

/* What one run knows. */
static struct {
	bool	sent, broken;
	int	ends, err;
} run;

static void take_ends(void)
{
	while (!tagrv_compq_empty(&fx.rx)) {
		struct tagrv_comp comp = take(&fx.rx);

		cr_assert_eq(comp.context, &ctx[0]);
		run.ends++;
		run.err = (int) comp.err;
	}
}

static void take_step(enum step step)
{
	int ret;

	switch (step) {
	case CANCEL:
		ret = tagrv_rx_cancel(fx.engine->rx, &ctx[0]);
		cr_assert(!ret || ret == -FI_ENOENT);
		break;
	case MESSAGE:
		if (!run.broken)
			tags_message(5, "hello", 5);
		run.sent = !run.broken;
		break;
	case COMMAND:
	case ANSWER:
		fake_list_apply(fake.list);
		break;
	case DATA:
		fake_list_data(fake.list);
		break;
	case BREAK:
		fake_break_link(fx.link, -FI_ECONNRESET);
		run.broken = true;
		break;
	default:
		break;
	}
}

/* All that was held back happens. */
static void let_go(void)
{
	fake.list->hold_data = false;
	fake_list_delay(fake.list, 0, 0);
	for (int i = 0; i < 4; i++) {
		while (fake_list_apply(fake.list) || fake_list_data(fake.list))
			;
		/* A device without connections is looked at in few passes. */
		tags_pass(run.broken ? TAGRV_RAIL_REST : 1);
	}
}

/* The message is where the end of the receive says: there, or kept, or lost with its link. */
static void expect_fate(const char *order)
{
	struct tagrv_tags_counts counts = tags_counts();

	cr_assert_eq(run.ends, 1, "%s: %d ends", order, run.ends);
	cr_assert(!run.err || run.err == FI_ECANCELED ||
		  (run.err == FI_ECONNRESET && run.broken && run.sent),
		  "%s: error %d", order, run.err);
	cr_assert(run.err || run.sent, "%s: a message that was not sent", order);
	cr_assert_eq(fx.engine->rx->ops.used, 0, "%s", order);
	cr_assert_eq(counts.listed + counts.soft, 0, "%s", order);
	cr_assert_eq(counts.unexpected, counts.handled, "%s", order);
	if (run.err == FI_ECANCELED && run.sent && !run.broken) {
		post(1, 5, FI_ADDR_UNSPEC);
		tags_expect(&ctx[1], 5, 5);
	}
}

/* Order number 'nr' of the steps. held: progress is made behind the last one only. */
static void run_order(unsigned nr, bool held, fi_addr_t src)
{
	enum step order[STEPS];
	char name[64] = "";

	for (unsigned i = 0, left = nr; i < STEPS; i++) {
		unsigned at = left % (i + 1);

		left /= i + 1;
		memmove(order + at + 1, order + at, (i - at) * sizeof(*order));
		order[at] = (enum step) i;
	}
	memset(&run, 0, sizeof(run));
	fake.list->hold_data = true;
	fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
	post(0, 5, src);
	for (unsigned i = 0; i < STEPS; i++) {
		name[i] = "CMcadB"[order[i]];
		take_step(order[i]);
		if (!held)
			tags_pass(1);
		take_ends();
	}
	let_go();
	take_ends();
	(void) snprintf(name + STEPS, sizeof(name) - STEPS, "%s%s", held ? ", held" : "",
			src == FI_ADDR_UNSPEC ? "" : ", directed");
	expect_fate(name);
}

/* What was kept, and not lost, of a run whose connection has ended. */
static void forget_kept(void)
{
	fi_addr_t src = FI_ADDR_UNSPEC;
	struct tagrv_comp comp;

	post(2, 5, src);
	(void) !tagrv_rx_cancel(fx.engine->rx, &ctx[2]);
	tags_pass(3);
	comp = take(&fx.rx);
	cr_assert_eq(comp.context, &ctx[2]);
	expect_empty(&fx.rx);
}

static void run_orders(bool held, fi_addr_t src)
{
	for (unsigned nr = 0; nr < ORDERS; nr++) {
		run_order(nr, held, src);
		tags_peer_up(TAGS_NUMBER);
		tags_pass(2);
		forget_kept();
	}
}

Test(tags_cross, receive_ends_once_in_every_order)
{
	run_orders(false, FI_ADDR_UNSPEC);
}

Test(tags_cross, directed_receive_ends_once_in_every_order)
{
	run_orders(false, fx.peer_addr);
}

Test(tags_cross, receive_ends_once_if_all_is_reported_together)
{
	run_orders(true, FI_ADDR_UNSPEC);
	run_orders(true, fx.peer_addr);
}

/* ---- the same with a list that fails at last ---- */

Test(tags_cross, receive_ends_once_when_the_list_is_lost_at_any_time)
{
	static const enum step orders[][3] = {
		{ CANCEL, MESSAGE, COMMAND }, { CANCEL, COMMAND, MESSAGE },
		{ MESSAGE, CANCEL, COMMAND }, { MESSAGE, COMMAND, CANCEL },
		{ COMMAND, CANCEL, MESSAGE }, { COMMAND, MESSAGE, CANCEL },
	};
	const size_t runs = TAGRV_ARRAY_SIZE(orders) * 4;

	for (size_t nr = 0; nr < runs; nr++) {
		memset(&run, 0, sizeof(run));
		fake.list->hold_data = true;
		fake_list_delay(fake.list, TAG_LIST_HOLD, 0);
		post(0, 5, FI_ADDR_UNSPEC);
		for (size_t i = 0; i < 4; i++) {
			if (i == nr % 4)
				fake_list_fail(fake.list, -FI_EIO);
			if (i < 3)
				take_step(orders[nr / 4][i]);
			tags_pass(1);
			run.broken |= i >= nr % 4;	/* and with the list its links */
			take_ends();
		}
		tags_pass(2 * TAGRV_RAIL_REST);
		take_ends();
		if (!run.ends)		/* it goes on in software */
			(void) !tagrv_rx_cancel(fx.engine->rx, &ctx[0]);
		take_ends();
		cr_assert_eq(run.ends, 1, "order %zu: %d ends", nr, run.ends);
		cr_assert(!run.err || run.err == FI_ECANCELED || run.err == FI_EIO,
			  "order %zu: error %d", nr, run.err);
		cr_assert_eq(fx.engine->rx->ops.used, 0);
		tags_teardown();
		setup();
	}
}
