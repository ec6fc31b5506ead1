/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages of a device's list that no receive gets, and those that come before their
 * connection does: each unexpected one is counted once, or no later entry becomes active.
 */
#include "unit/engine/tags/tags_fixture.h"

#include <string.h>

#include "wire/packet.h"

static void setup(void)
{
	tags_setup();
	tags_begin();
}

TestSuite(tags_drop, .init = setup, .fini = tags_teardown, .timeout = 30);

enum { FORGED = TAGS_NUMBER + 1 };

static char buf[4][64], ctx[4];

static struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

static void post(unsigned n, uint64_t tag, fi_addr_t src)
{
	tags_post(buf[n], sizeof(buf[n]), tag, &ctx[n], src);
	tags_pass(3);
}

/* A message that the device cannot tell from one of this peer's; 'tag' has its number. */
static void forge(uint64_t tag, const void *bytes, size_t len)
{
	fake_list_message(fake.list, fx.link, tag, 0, bytes, len);
}

static uint64_t numbered(uint64_t tag, uint64_t number)
{
	return tag | number << TAGRV_OFFLOAD_TAG_BITS;
}

/* What follows the words in the header form. */
static void write_tail(uint8_t to[16], uint16_t flags, uint32_t seq)
{
	memset(to, 0, 16);
	flags = htole16(flags);
	seq = htole32(seq);
	memcpy(to, &flags, sizeof(flags));
	memcpy(to + 4, &seq, sizeof(seq));
}

/* The list goes on: a receive that is posted now gets the next message there. */
static void expect_list_works(void)
{
	uint64_t consumed = tags_counts().offload.consumed;

	if (!peer()->lane)
		tags_peer_up(TAGS_NUMBER);
	post(3, 9, fx.peer_addr);
	tags_message(9, "works", 5);
	tags_pass(3);
	tags_expect(&ctx[3], 9, 5);
	cr_assert_eq(tags_counts().offload.consumed, consumed + 1);
	expect_empty(&fx.rx);
}

/* ---- each way in which an unexpected message is dropped ---- */

/* Its connection has been given up, but the device has it still. */
static void expect_bad_packet(void)
{
	tags_pass(2);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
}

static void drop_of_closed(void)
{
	fake.hold_closed = true;
	tagrv_lane_fail(peer()->lane, -FI_ECONNRESET, true);
	tags_message(5, "x", 1);
	tags_pass(2);
	cr_assert_eq(tags_counts().handled, 2, "it was not kept until the link ends");
	fake.hold_closed = false;
	fake_close_held();
}

/* The same, and it is reported by the end of the link only. */
static void drop_at_end(void)
{
	tags_message(5, "x", 1);
	tagrv_lane_fail(peer()->lane, -FI_ECONNRESET, true);
	fake_end_closed();
}

/* The transport delivers what came before; the engine takes it no more. */
static void drop_of_last(void)
{
	fx.link->delivers_last = true;
	drop_at_end();
}

static void drop_of_number(void)
{
	forge(numbered(5, FORGED), "x", 1);
	expect_bad_packet();
}

static void drop_of_number_in_header(void)
{
	uint8_t tail[16];

	write_tail(tail, TAGRV_PKT_TAGGED, 1);
	forge(numbered(5, FORGED) | TAGRV_OFFLOAD_HAS_HEADER, tail, sizeof(tail));
	expect_bad_packet();
}

static void drop_of_no_number(void)
{
	uint8_t tail[16];

	write_tail(tail, TAGRV_PKT_TAGGED, 1);
	forge(5 | TAGRV_OFFLOAD_HAS_HEADER, tail, sizeof(tail));
	expect_bad_packet();
}

static void drop_of_flags(void)
{
	uint8_t tail[16];

	write_tail(tail, TAGRV_PKT_TAGGED | 1 << 5, 1);
	tags_message(5 | TAGRV_OFFLOAD_HAS_HEADER, tail, sizeof(tail));
	expect_bad_packet();
}

static void drop_of_sequence(void)
{
	uint8_t tail[16];

	write_tail(tail, TAGRV_PKT_TAGGED, 7);
	tags_message(5 | TAGRV_OFFLOAD_HAS_HEADER, tail, sizeof(tail));
	expect_bad_packet();
}

static void drop_without_credit(void)
{
	peer()->credit.promised = 0;
	tags_message(5, "x", 1);
	expect_bad_packet();
}

/* Its link is never attached: nobody knows it. */
static void drop_of_discarded(void)
{
	struct tagrv_link *link = fake_link();

	fake_listed(link, 5, 0, "x", 1);
	tags_pass(2);
	cr_assert_eq(tags_counts().unexpected, 2);
	cr_assert_eq(tags_counts().handled, 1, "it waits");
	fake.base.ops->link_discard(link);
	tags_pass(2);
}

/* Nor was it reported before. */
static void drop_of_gone(void)
{
	struct tagrv_link *link = fake_link();

	fake_listed(link, 5, 0, "x", 1);
	fake.base.ops->link_discard(link);
	tags_pass(2);
}

static const struct {
	const char *what;
	void (*drop)(void);
} ways[] = {
	{ "of a link that closes", drop_of_closed },
	{ "at the end of a link", drop_at_end },
	{ "that the link delivers at its end", drop_of_last },
	{ "with another's number", drop_of_number },
	{ "with another's number, header form", drop_of_number_in_header },
	{ "without a number, header form", drop_of_no_number },
	{ "with an undefined flag", drop_of_flags },
	{ "out of sequence", drop_of_sequence },
	{ "without credit", drop_without_credit },
	{ "of a link that is discarded", drop_of_discarded },
	{ "reported when its link is gone", drop_of_gone },
};

Test(tags_drop, each_way_counts_a_message_once)
{
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(ways); i++) {
		if (i) {
			tags_teardown();
			setup();
		}
		ways[i].drop();
		tags_pass(2);
		cr_assert_eq(tags_counts().unexpected, 2, "a message %s", ways[i].what);
		cr_assert_eq(tags_counts().handled, 2, "a message %s", ways[i].what);
		tags_expect_handled(2);
		expect_empty(&fx.rx);
		expect_list_works();
		post(0, 5, FI_ADDR_UNSPEC);
		expect_empty(&fx.rx);
	}
}

/* The first one ends the connection for which the others have waited. */
Test(tags_drop, messages_behind_one_that_is_refused_are_counted)
{
	fake_break_link(fx.link, -FI_ECONNRESET);
	fx.link = fake_link();
	forge(numbered(5, FORGED), "x", 1);
	for (int i = 0; i < 3; i++)
		tags_message(5, "y", 1);
	tags_pass(2 * TAGRV_RAIL_REST);
	cr_assert_eq(tags_counts().unexpected, 5);
	cr_assert_eq(tags_counts().handled, 1);
	{
		struct tagrv_wireup_event event = {
			.type = TAGRV_WIREUP_UP, .addr = fx.addr, .epoch = 2,
			.sendable = true, .max_packet = fx.max_packet, .link = fx.link,
		};

		tagrv_engine_wireup_event(fx.engine, &event);
	}
	tags_pass(3);
	cr_assert_null(peer()->lane);
	tags_expect_handled(5);
	expect_list_works();
}

/* ---- messages that come before their connection does ---- */

/* By a link that the engine is yet to hear of. */
static struct tagrv_link *early(void)
{
	fake_break_link(fx.link, -FI_ECONNRESET);
	fx.link = fake_link();
	return fx.link;
}

static void attach(struct tagrv_link *link)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP, .addr = fx.addr, .epoch = 3,
		.sendable = true, .max_packet = fx.max_packet, .link = link,
	};

	tagrv_engine_wireup_event(fx.engine, &event);
}

Test(tags_drop, stray_that_an_entry_took_is_received_when_its_link_is_attached)
{
	struct tagrv_link *link;

	post(0, 5, FI_ADDR_UNSPEC);
	link = early();
	tags_message(5, "hello", 5);
	tags_pass(2 * TAGRV_RAIL_REST);
	cr_assert_eq(tags_counts().offload.consumed, 1);
	cr_assert_eq(tags_counts().listed, 0, "no other message gets it");
	expect_empty(&fx.rx);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[0]), -FI_ENOENT);
	attach(link);
	tags_pass(3);
	tags_expect(&ctx[0], 5, 5);
	cr_assert_arr_eq(buf[0], "hello", 5);
	cr_assert_eq(peer()->rx_seq, 1);
	tags_expect_handled(1);
}

/* In their turn: the sequence of the header form shows it. */
Test(tags_drop, strays_of_both_kinds_keep_their_order)
{
	struct tagrv_link *link;
	uint8_t tail[16];

	post(0, 5, FI_ADDR_UNSPEC);
	link = early();
	tags_message(6, "first", 5);
	tags_message(5, "second", 6);
	write_tail(tail, TAGRV_PKT_TAGGED, 2);
	tags_message(6 | TAGRV_OFFLOAD_HAS_HEADER, tail, sizeof(tail));
	tags_pass(2 * TAGRV_RAIL_REST);
	cr_assert_eq(tags_counts().unexpected, 3);
	cr_assert_eq(tags_counts().handled, 1);
	attach(link);
	tags_pass(3);
	tags_expect(&ctx[0], 5, 6);
	post(1, 6, FI_ADDR_UNSPEC);
	tags_expect(&ctx[1], 6, 5);
	post(2, 6, FI_ADDR_UNSPEC);
	tags_expect(&ctx[2], 6, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
	tags_expect_handled(3);
	expect_list_works();
}

Test(tags_drop, stray_that_an_entry_took_is_lost_with_its_link)
{
	struct tagrv_comp comp;

	for (int reported = 0; reported < 2; reported++) {
		struct tagrv_link *link;

		post(0, 5, FI_ADDR_UNSPEC);
		link = early();
		tags_message(5, "hello", 5);
		if (reported)
			tags_pass(2 * TAGRV_RAIL_REST);
		fake.base.ops->link_discard(link);
		tags_pass(2 * TAGRV_RAIL_REST);
		comp = take(&fx.rx);
		cr_assert_eq(comp.context, &ctx[0]);
		cr_assert_neq(comp.err, 0);
		cr_assert_eq(comp.src, FI_ADDR_NOTAVAIL);
		expect_empty(&fx.rx);
		cr_assert_eq(fx.engine->rx->ops.used, 0);
		tags_peer_up(TAGS_NUMBER);
		tags_expect_handled(1);
		expect_list_works();
	}
}

/* ---- numbers that are not the peer's ---- */

/* Of any source: the entry does not look at the number, but the receiver does. */
Test(tags_drop, entry_that_a_forged_number_took_ends_its_receive)
{
	static const uint64_t numbers[] = { 0, FORGED, TAGRV_OFFLOAD_SOURCES };
	uint8_t tail[16];

	write_tail(tail, TAGRV_PKT_TAGGED, 1);
	for (size_t i = 0; i < 2 * TAGRV_ARRAY_SIZE(numbers); i++) {
		uint64_t tag = numbered(5, numbers[i / 2]);

		post(0, 5, FI_ADDR_UNSPEC);
		if (i & 1)
			forge(tag | TAGRV_OFFLOAD_HAS_HEADER, tail, sizeof(tail));
		else
			forge(tag, "x", 1);
		tags_pass(3);
		cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
		expect_empty(&fx.rx);
		cr_assert_eq(fx.engine->rx->ops.used, 0);
		cr_assert_null(peer()->lane, "the link has failed");
		tags_peer_up(TAGS_NUMBER);
		expect_list_works();
	}
	tags_expect_handled(1);
}

/* Of a source whose number is forged: the victim's receive ends, its connection does not. */
Test(tags_drop, forged_number_of_another_peer_ends_the_forgers_connection)
{
	struct tagrv_lane *victim;
	fi_addr_t row;

	fake.given = FORGED;
	victim = tags_other_up(fake_link(), 1, &row);
	fake.given = TAGS_NUMBER;
	post(0, 5, row);
	cr_assert(fake_list_would_match(fake.list, numbered(5, FORGED)));
	forge(numbered(5, FORGED), "x", 1);
	tags_pass(3);
	cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
	expect_empty(&fx.rx);
	cr_assert_null(peer()->lane);
	cr_assert_eq(victim->peer->lane, victim);
	post(1, 6, row);
	fake_listed(victim->link, 6, 0, "own", 3);
	tags_pass(3);
	cr_assert_eq(take(&fx.rx).context, &ctx[1]);
	cr_assert_arr_eq(buf[1], "own", 3);
}
