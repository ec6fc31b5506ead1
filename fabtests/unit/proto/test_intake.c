/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages that are taken out of a link's intake: which are, what comes of them, and
 * that all others are left to the transport as they were.
 */
#include <stdatomic.h>
#include <string.h>

#include "common/engine_fixture.h"
#include "engine/drive.h"
#include "proto/intake.h"

enum {
	SLOTS = 32, SHIFT = 5, ENTRIES = 6, SOURCE = 77,
	ARENA = 10 * TAGRV_INTAKE_LINE, LONGEST = 4 * TAGRV_INTAKE_LINE,
};

static struct {
	_Alignas(TAGRV_INTAKE_STRIDE) char slots[SLOTS * TAGRV_INTAKE_STRIDE];
	struct tagrv_intake in;
	char	arena[ARENA];
	uint64_t sent;
	size_t	arena_at;		/* where the peer writes the next long payload */
	struct fi_cq_tagged_entry entries[ENTRIES];
	fi_addr_t src[ENTRIES + 1];
	char	buf[ENTRIES * 2][64];
} box;

static char ctx[ENTRIES * 2];

static struct tagrv_peer *peer(void)
{
	return tagrv_peer_get(fx.engine, &fx.addr);
}

static const _Atomic uint64_t *next_word(void)
{
	return (const _Atomic uint64_t *) (void *)
		(box.slots + box.in.cnt % SLOTS * TAGRV_INTAKE_STRIDE);
}

static void setup(void)
{
	engine_setup();
	peer_up(true);
	memset(&box, 0, sizeof(box));
	box.in = (struct tagrv_intake) {
		.slots = box.slots, .end = box.slots + sizeof(box.slots),
		.due = UINT64_MAX, .mask = SLOTS - 1, .shift = SHIFT,
		.longest = LONGEST, .arena = box.arena, .arena_size = ARENA,
		.pass_due = UINT64_MAX,
	};
	fx.link->intake = &box.in;
	peer()->fi_addr = SOURCE;
	fx.engine->plain_ends = true;	/* the fixture's counter is not looked at */
	fx.rx.window.entry_size = sizeof(box.entries[0]);
	fx.link->xport->sink->watch = &fx.dom->watch;
	tagrv_watch_remove_unlisted(&fx.dom->watch);	/* the fixture's transport */
	tagrv_watch_begin_pass(&fx.dom->watch);
	tagrv_watch_add(&fx.dom->watch, tagrv_intake_drain, fx.link,
			&fx.link->watch_at);
	tagrv_watch_move(&fx.dom->watch, fx.link->watch_at, next_word(), 0);
}

static void teardown(void)
{
	tagrv_watch_remove(&fx.dom->watch, &fx.link->watch_at);
	tagrv_watch_add_unlisted(&fx.dom->watch);
	engine_teardown();
}

TestSuite(intake, .init = setup, .fini = teardown, .timeout = 20);

static void post(size_t i, size_t len, uint64_t tag)
{
	cr_assert_eq(submit_recv(box.buf[i], len, tag, &ctx[i]), 0);
}

/* What the peer writes; mark: TAGRV_INTAKE_MARK, or another kind of entry. */
static void write_slot(uint64_t mark, uint64_t tag, uint32_t len, uint16_t credit)
{
	char *slot = box.slots + box.sent % SLOTS * TAGRV_INTAKE_STRIDE;
	uint64_t lap = ~(box.sent++ >> SHIFT) & 1;

	memcpy(slot + 8, &tag, sizeof(tag));
	memset(slot + 16, (int) ('a' + tag), TAGRV_INTAKE_BYTES);
	atomic_store((_Atomic uint64_t *) (void *) slot,
		     TAGRV_META(len, credit) | mark | lap);
}

static void arrive(uint64_t tag, uint32_t len)
{
	write_slot(TAGRV_INTAKE_MARK, tag, len, 0);
}

/* A read with room for so many entries; returns how many it got. */
static size_t look(size_t room)
{
	tagrv_compq_open_window(&fx.rx, box.entries, room, box.src);
	if (!tagrv_watch_is_idle(&fx.dom->watch))
		tagrv_watch_drain(&fx.dom->watch);
	return tagrv_compq_close_window(&fx.rx, room);
}

/* As a read of the queue; 0 if there is something, but not for such a read. */
static size_t read_at_once(struct tagrv_compq *queue, struct fi_cq_tagged_entry *out,
		   size_t count)
{
	int at = tagrv_watch_look(&fx.dom->watch);

	cr_assert_neq(at, TAGRV_WATCH_IDLE);
	return tagrv_dom_take(fx.dom, at, queue, out, count);
}

static size_t read_some(struct tagrv_compq *queue, size_t count)
{
	tagrv_watch_begin_pass(&fx.dom->watch);
	return read_at_once(queue, box.entries, count);
}

static void expect_entry_of(size_t at, size_t recv, uint64_t tag, size_t len,
			    uint64_t flags, uint64_t data)
{
	const struct fi_cq_tagged_entry *entry = &box.entries[at];

	cr_expect_eq(entry->op_context, &ctx[recv]);
	cr_expect_eq(entry->flags, FI_RECV | FI_TAGGED | flags);
	cr_expect_eq(entry->data, data);
	cr_expect_eq(entry->len, len);
	cr_expect_eq(entry->buf, box.buf[recv]);
	cr_expect_eq(entry->tag, tag);
	cr_expect_eq(box.src[at], (fi_addr_t) SOURCE);
	for (size_t i = 0; i < len; i++)
		cr_assert_eq(box.buf[recv][i], (char) ('a' + tag));
	cr_expect_eq(box.buf[recv][len], 0);
}

static void expect_entry(size_t at, size_t recv, uint64_t tag, size_t len)
{
	expect_entry_of(at, recv, tag, len, 0, 0);
}

/* A message with data, which is ~tag. */
static void arrive_with_data(uint64_t tag, uint32_t len)
{
	char *slot = box.slots + box.sent % SLOTS * TAGRV_INTAKE_STRIDE;
	uint64_t data = ~tag;

	write_slot(TAGRV_INTAKE_MARK | TAGRV_INTAKE_DATA, tag, len, 0);
	memcpy(slot + 16, &data, sizeof(data));
	memset(slot + 24, (int) ('a' + tag), TAGRV_INTAKE_BYTES - 8);
}

static void expect_entry_with_data(size_t at, size_t recv, uint64_t tag, size_t len)
{
	expect_entry_of(at, recv, tag, len, FI_REMOTE_CQ_DATA, ~tag);
}

static struct tagrv_match_stats stats(void)
{
	struct tagrv_match_stats got;

	tagrv_match_get_stats(fx.engine->match, &got);
	return got;
}

/* The message is still there, and nothing of it was counted. */
static void expect_left(void)
{
	struct tagrv_match_stats before = stats();
	uint32_t promised = peer()->credit.promised, rx_seq = peer()->rx_seq;
	uint32_t left = peer()->credit.left;
	uint64_t cnt = box.in.cnt;
	size_t posted = fx.engine->rx->ops.used;

	fake.drains = 0;
	cr_assert_eq(look(ENTRIES), 0);
	cr_assert_eq(fake.drains, 1);
	cr_assert_eq(box.in.cnt, cnt);
	cr_assert_eq(peer()->credit.promised, promised);
	cr_assert_eq(peer()->credit.left, left);
	cr_assert_eq(peer()->rx_seq, rx_seq);
	cr_assert_eq(stats().probes, before.probes);
	cr_assert_eq(stats().searches, before.searches);
	cr_assert_eq(fx.engine->rx->ops.used, posted);
}

Test(intake, tells_no_source_that_the_application_did_not_ask_for)
{
	fx.engine->attr.source = false;
	post(0, 63, 1);
	arrive(1, 8);
	cr_assert_eq(look(ENTRIES), 1);
	cr_assert_eq(box.src[0], FI_ADDR_NOTAVAIL);
}

Test(intake, messages_go_to_their_receives_and_to_the_reader)
{
	uint32_t left = peer()->credit.left;

	for (uint64_t i = 0; i < 4; i++)
		post(i, 63, i);
	arrive(2, 8);
	arrive(0, 0);
	write_slot(TAGRV_INTAKE_MARK, 3, TAGRV_INTAKE_BYTES, 700);
	box.src[3] = 1;
	cr_assert_eq(look(ENTRIES), 3);
	cr_assert_eq(box.src[3], 1);
	expect_entry(0, 2, 2, 8);
	expect_entry(1, 0, 0, 0);
	expect_entry(2, 3, 3, TAGRV_INTAKE_BYTES);
	cr_assert_eq(peer()->credit.left, left + 700);
	cr_assert_eq(peer()->credit.owed, tagrv_credit_units(8) +
		     tagrv_credit_units(0) +
		     tagrv_credit_units(TAGRV_INTAKE_BYTES));
	cr_assert_eq(peer()->credit.promised + peer()->credit.owed,
		     peer()->credit.window);
	cr_assert_eq(peer()->rx_seq, 3);
	cr_assert_eq(fx.engine->stats.eager_rx, 3);
	cr_assert_eq(stats().posted, 1);
	cr_assert_eq(stats().searches, 4 + 3);
	cr_assert_not(tagrv_watch_is_set(&fx.dom->watch,
					 (uint32_t) fx.link->watch_at));
	arrive(1, 1);
	cr_assert_eq(look(ENTRIES), 1);
	expect_entry(0, 1, 1, 1);
	expect_empty(&fx.rx);
}

Test(intake, a_receive_takes_one_message)
{
	post(0, 63, 5);
	post(1, 63, 5);
	for (int i = 0; i < 3; i++)
		arrive(5, 8);
	fake.drains = 0;
	cr_assert_eq(look(ENTRIES), 2);
	expect_entry(0, 0, 5, 8);
	expect_entry(1, 1, 5, 8);
	cr_assert_eq(fake.drains, 1);
	cr_assert_eq(box.in.cnt, 2);
}

Test(intake, messages_with_data)
{
	const uint32_t len[] = { 0, 8, TAGRV_INTAKE_BYTES - 8 };

	for (uint64_t i = 0; i < 3; i++) {
		post(i, 63, i);
		arrive_with_data(i, len[i]);
	}
	cr_assert_eq(look(ENTRIES), 3);
	for (uint64_t i = 0; i < 3; i++)
		expect_entry_with_data(i, i, i, len[i]);
	cr_assert_eq(fake.drains, 0);
	cr_assert_eq(peer()->rx_seq, 3);
	cr_assert_eq(fx.engine->stats.eager_rx, 3);
}

static void arrive_mixed(uint64_t cnt)
{
	for (uint64_t i = 0; i < cnt; i++) {
		post(i, 63, i);
		if (i / 2 % 2)
			arrive_with_data(i, 8);
		else
			arrive(i, 8);
	}
}

static void expect_mixed(size_t at, uint64_t i)
{
	if (i / 2 % 2)
		expect_entry_with_data(at, i, i, 8);
	else
		expect_entry(at, i, i, 8);
}

Test(intake, messages_with_and_without_data_keep_their_order)
{
	uint64_t done = 0;

	arrive_mixed(ENTRIES);
	while (done < ENTRIES) {
		size_t cnt = look(ENTRIES - done);

		for (size_t i = 0; i < cnt; i++)
			expect_mixed(i, done + i);
		done += cnt;
		cr_assert(cnt || box.in.cnt == done);
	}
	cr_assert_eq(peer()->rx_seq, ENTRIES);
}

/* Each lap has its own mark; the transport hears when it is due. */
Test(intake, goes_round_and_round)
{
	box.in.due = 5;
	for (uint64_t i = 0; i < 5 * SLOTS; i++) {
		memset(box.buf, 0, sizeof(box.buf));
		post(0, 63, i);
		arrive(i, 3);
		cr_assert_eq(look(ENTRIES), 1, "%zu", (size_t) i);
		expect_entry(0, 0, i, 3);
		cr_assert_eq(fake.publishes, i < 4 ? 0 : i - 3);
	}
	cr_assert_eq(fake.drains, 0);
}

Test(intake, a_full_reader_finds_the_rest_with_its_next_look)
{
	for (uint64_t i = 0; i < 5; i++) {
		post(i, 63, i);
		arrive(i, 1);
	}
	cr_assert_eq(look(2), 2);
	expect_entry(1, 1, 1, 1);
	/* Other links come first in the next look. */
	cr_assert_eq(fx.dom->watch.first, (uint32_t) fx.link->watch_at + 1);
	cr_assert_eq(look(2), 2);
	expect_entry(0, 2, 2, 1);
	cr_assert_eq(look(2), 1);
	expect_entry(0, 4, 4, 1);
	cr_assert_eq(look(2), 0);
	cr_assert_eq(fake.drains, 0);
}

Test(intake, leaves_what_finds_no_receive)
{
	post(0, 63, 1);
	arrive(2, 1);
	expect_left();
}

Test(intake, leaves_all_where_receives_are_in_several_blocks)
{
	for (uint64_t i = 0; i < 65; i++)
		cr_assert_eq(submit_recv(box.buf[0], 63, 100 + i, &ctx[0]), 0);
	arrive(100, 1);
	expect_left();
}

Test(intake, leaves_what_does_not_fit)
{
	post(0, 7, 1);
	arrive(1, 8);
	expect_left();
}

Test(intake, leaves_receives_of_several_segments)
{
	const struct iovec iov[2] = {
		{ box.buf[0], 4 }, { box.buf[1], 40 },
	};
	struct tagrv_recv_req req = recv_req(NULL, 0, 1, ctx);

	req.iov = iov;
	req.iov_cnt = 2;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	arrive(1, 8);
	expect_left();
}

Test(intake, leaves_receives_without_a_completion)
{
	struct tagrv_recv_req req = recv_req(box.buf[0], 63, 1, ctx);

	req.flags &= ~FI_COMPLETION;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	arrive(1, 8);
	expect_left();
}

Test(intake, leaves_other_entries)
{
	post(0, 63, 1);
	/* Tagged messages have the numbers 2 and 3. */
	write_slot(TAGRV_INTAKE_MARK + 4, 1, 8, 0);
	expect_left();
}

/* What no peer that follows the rules sends. */
Test(intake, leaves_what_breaks_the_rules)
{
	post(0, 63, 1);
	write_slot(TAGRV_INTAKE_MARK, 1, LONGEST + 1, 0);
	expect_left();
	box.sent = 0;
	write_slot(TAGRV_INTAKE_MARK, 1, UINT32_MAX, 0);
	expect_left();
	box.sent = 0;
	arrive(1, 8);
	peer()->credit.promised = 0;
	expect_left();
}

Test(intake, leaves_all_where_credit_is_near_its_limits)
{
	uint32_t units = tagrv_credit_units(8);
	uint32_t most = UINT32_MAX - 2 * TAGRV_INTAKE_BATCH * UINT16_MAX;

	post(0, 63, 1);
	arrive(1, 8);
	peer()->credit.promised = units - 1;
	expect_left();
	peer()->credit.promised = units;
	peer()->credit.left = most + 1;
	expect_left();
	peer()->credit.left = most;
	cr_assert_eq(look(1), 1);
}

/* What one batch uses is added up. */
Test(intake, takes_no_more_than_there_is_credit_for)
{
	uint32_t units = tagrv_credit_units(8);

	for (uint64_t i = 0; i < 4; i++) {
		post(i, 63, i);
		arrive(i, 8);
	}
	peer()->credit.promised = 3 * units - 1;
	cr_assert_eq(read_some(&fx.rx, ENTRIES), 2);
	peer()->credit.promised = units;
	cr_assert_eq(look(ENTRIES), 1);
	cr_assert_eq(box.in.cnt, 3);
}

Test(intake, takes_more_than_a_batch)
{
	static struct fi_cq_tagged_entry many[SLOTS];
	const size_t cnt = TAGRV_INTAKE_BATCH + 4;

	for (uint64_t i = 0; i < cnt; i++) {
		post(i % 12, 63, i);
		arrive(i, 1);
	}
	tagrv_compq_open_window(&fx.rx, many, SLOTS, NULL);
	cr_assert_not(tagrv_watch_is_idle(&fx.dom->watch));
	tagrv_watch_drain(&fx.dom->watch);
	cr_assert_eq(tagrv_compq_close_window(&fx.rx, SLOTS), cnt);
	for (uint64_t i = 0; i < cnt; i++)
		cr_assert_eq(many[i].tag, i);
	cr_assert_eq(peer()->rx_seq, cnt);
	cr_assert_eq(fake.drains, 0);
}

/* ---- reads of messages of one link ---- */

Test(intake, a_read_takes_messages_of_one_link)
{
	for (uint64_t i = 0; i < 5; i++) {
		post(i, 63, i);
		arrive(i, 8);
		box.src[i] = SOURCE;
	}
	fx.dom->patience.looks = 9;
	cr_assert_eq(read_some(&fx.rx, 2), 2);
	cr_assert_eq(fx.dom->patience.looks, 0);
	cr_assert_eq(read_some(&fx.rx, 2), 2);
	expect_entry(0, 2, 2, 8);
	expect_entry(1, 3, 3, 8);
	cr_assert_eq(read_some(&fx.rx, ENTRIES), 1);
	expect_entry(0, 4, 4, 8);
	tagrv_watch_begin_pass(&fx.dom->watch);
	cr_assert(tagrv_watch_is_idle(&fx.dom->watch));
	cr_assert_eq(peer()->rx_seq, 5);
	cr_assert_eq(fake.drains, 0);
}

Test(intake, a_read_takes_messages_with_and_without_data)
{
	uint64_t done = 0;

	arrive_mixed(ENTRIES);
	for (uint64_t i = 0; i < ENTRIES; i++)
		box.src[i] = SOURCE;
	while (done < ENTRIES) {
		size_t cnt = read_some(&fx.rx, done ? ENTRIES : 3);

		cr_assert_gt(cnt, 0);
		for (size_t i = 0; i < cnt; i++)
			expect_mixed(i, done + i);
		done += cnt;
	}
	tagrv_watch_begin_pass(&fx.dom->watch);
	cr_assert(tagrv_watch_is_idle(&fx.dom->watch));
	cr_assert_eq(peer()->rx_seq, ENTRIES);
	cr_assert_eq(fake.drains, 0);
}

Test(intake, a_read_takes_one_and_a_batch_at_most)
{
	static struct fi_cq_tagged_entry many[SLOTS];

	for (uint64_t i = 0; i < TAGRV_INTAKE_BATCH + 4; i++) {
		post(i % 12, 63, i);
		arrive(i, 1);
	}
	tagrv_watch_begin_pass(&fx.dom->watch);
	cr_assert_eq(read_at_once(&fx.rx, many, SLOTS), TAGRV_INTAKE_BATCH + 1);
	cr_assert_eq(read_at_once(&fx.rx, many, SLOTS), 3);
	cr_assert_eq(many[2].tag, TAGRV_INTAKE_BATCH + 3);
}

Test(intake, a_read_leaves_what_is_not_its_own)
{
	post(0, 63, 1);
	arrive(1, 8);
	cr_assert_eq(read_some(&fx.tx, ENTRIES), 0, "another queue");
	cr_assert_eq(read_some(&fx.rx, 0), 0, "no room");
	fx.dom->watch.first = 1;
	cr_assert_eq(read_some(&fx.rx, ENTRIES), 0, "another one's turn");
	fx.dom->watch.first = 0;
	tagrv_watch_attend(&fx.dom->watch);
	cr_assert_eq(read_at_once(&fx.rx, box.entries, ENTRIES), 0, "a pass is due");
	post(1, 63, 7);
	peer()->state = TAGRV_PEER_LEAVING;
	cr_assert_eq(read_some(&fx.rx, ENTRIES), 0, "a peer that leaves");
	peer()->state = TAGRV_PEER_READY;
	cr_assert_eq(read_some(&fx.rx, ENTRIES), 1);
	arrive(2, 8);
	cr_assert_eq(read_some(&fx.rx, ENTRIES), 0, "unexpected");
	cr_assert_eq(box.in.cnt, 1);
	cr_assert_eq(fake.drains, 0);
}

/* Words behind that of the link have their turn after it, words before it do not. */
Test(intake, a_read_takes_turns)
{
	static _Atomic uint64_t word;
	int at = TAGRV_WATCH_OFF;

	tagrv_watch_add(&fx.dom->watch, NULL, NULL, &at);
	tagrv_watch_move(&fx.dom->watch, at, &word, 1);
	for (uint64_t i = 0; i < 3; i++) {
		post(i, 63, i);
		arrive(i, 8);
	}
	cr_assert_eq(read_some(&fx.rx, 1), 1);
	cr_assert_eq(fx.dom->watch.first, (uint32_t) at);
	cr_assert_eq(read_some(&fx.rx, 1), 0);
	tagrv_dom_handle(fx.dom);
	cr_assert_eq(fx.dom->watch.first, 0);
	atomic_store(&word, 1);
	cr_assert_eq(read_some(&fx.rx, 1), 1);
	cr_assert_eq(fx.dom->watch.first, 0);
	tagrv_watch_remove(&fx.dom->watch, &at);
}

/* ---- long payloads ---- */

static void arrive_long(uint64_t tag, uint32_t len)
{
	size_t lines = tagrv_intake_lines(len);

	if (lines > ARENA - box.arena_at)
		box.arena_at = 0;
	memset(box.arena + box.arena_at, (int) ('a' + tag), len);
	box.arena_at = (box.arena_at + lines) % ARENA;
	write_slot(TAGRV_INTAKE_MARK, tag, len, 0);
}

/* Lines are skipped at the arena's end, and the transport hears when it is due. */
Test(intake, long_payloads_go_round_the_arena)
{
	static const uint32_t sizes[] = { LONGEST, 49, 64, 65, LONGEST - 1, 8, 128 };
	char buf[LONGEST + 1];

	box.in.pass_due = ARENA / 2;
	for (uint64_t i = 0; i < 100; i++) {
		uint32_t len = sizes[i % 7];
		struct tagrv_recv_req req = recv_req(buf, LONGEST, i % 20, ctx);

		memset(buf, 0, sizeof(buf));
		cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
		if (len > TAGRV_INTAKE_BYTES)
			arrive_long(i % 20, len);
		else
			arrive(i % 20, len);
		cr_assert_eq(read_some(&fx.rx, ENTRIES), 1, "%zu", (size_t) i);
		cr_assert_eq(box.entries[0].len, len);
		for (uint32_t at = 0; at < len; at++)
			cr_assert_eq(buf[at], (char) ('a' + i % 20));
		cr_assert_eq(buf[len], 0);
		cr_assert_eq(box.in.arena_pos, box.arena_at);
		cr_assert_eq(fake.publishes > 0, box.in.passed > ARENA / 2);
	}
	cr_assert_eq(fake.drains, 0);
}

Test(intake, long_payloads_use_their_credit)
{
	static char buf[LONGEST];
	uint32_t units = tagrv_credit_units(LONGEST);
	struct tagrv_recv_req req = recv_req(buf, LONGEST, 1, ctx);

	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	arrive_long(1, LONGEST);
	peer()->credit.promised = units - 1;
	expect_left();
	peer()->credit.promised = units;
	cr_assert_eq(read_some(&fx.rx, ENTRIES), 1);
	cr_assert_eq(peer()->credit.promised, 0);
}

Test(intake, leaves_all_without_a_reader)
{
	post(0, 63, 1);
	arrive(1, 8);
	tagrv_watch_drain(&fx.dom->watch);
	cr_assert_eq(fake.drains, 1);
	cr_assert_eq(box.in.cnt, 0);
	fx.engine->plain_ends = false;
	expect_left();
}

Test(intake, leaves_all_of_a_connection_that_was_given_up)
{
	struct tagrv_lane *lane = peer()->lane;

	post(0, 63, 1);
	arrive(1, 8);
	peer()->lane = NULL;
	expect_left();
	peer()->lane = lane;
	peer()->state = TAGRV_PEER_LEAVING;
	expect_left();
	peer()->state = TAGRV_PEER_READY;
	cr_assert_eq(look(1), 1);
}
