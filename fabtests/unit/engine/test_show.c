/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an endpoint shows on the board of its process, and when.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/engine_fixture.h"
#include "engine/show.h"

static char buf[100000];

static void setup_hidden(void)
{
	setenv("FI_TAGRV_TOP", "no", 1);
	engine_setup();
}

TestSuite(show, .init = engine_setup, .fini = engine_teardown, .timeout = 20);
TestSuite(show_hidden, .init = setup_hidden, .fini = engine_teardown, .timeout = 20);

static const struct tagrv_board_head *head(void)
{
	static struct tagrv_board_head copy;

	cr_assert_eq(pread(tagrv_board_fd(fx.dom->show.board), &copy, sizeof(copy), 0),
		     (ssize_t) sizeof(copy));
	return &copy;
}

/* The first slot, as it is in the memory. */
static const struct tagrv_board_slot *slot(void)
{
	static struct tagrv_board_slot copy;

	cr_assert_eq(pread(tagrv_board_fd(fx.dom->show.board), &copy, sizeof(copy),
			   sizeof(struct tagrv_board_head)), (ssize_t) sizeof(copy));
	return &copy;
}

static void ask(uint64_t value)
{
	cr_assert_eq(pwrite(tagrv_board_fd(fx.dom->show.board), &value, sizeof(value),
			    offsetof(struct tagrv_board_head, asked)),
		     (ssize_t) sizeof(value));
}

static void make_passes(unsigned cnt)
{
	tagrv_dom_lock(fx.dom);
	while (cnt--)
		tagrv_dom_progress(fx.dom);
	tagrv_lock_release(&fx.dom->lock);
}

static struct tagrv_board_record now(void)
{
	struct tagrv_board_record record;

	tagrv_dom_lock(fx.dom);
	tagrv_engine_show(fx.engine, TAGRV_SHOW_STEPS, &record);
	tagrv_lock_release(&fx.dom->lock);
	return record;
}

/* ---- when ---- */

Test(show, nothing_is_written_until_a_viewer_asks)
{
	cr_expect_eq(head()->endpoints, 1);
	make_passes(1000);
	cr_expect_eq(slot()->turn, 0);
	ask(5);
	make_passes(TAGRV_RAIL_REST);
	cr_expect_eq(slot()->turn, 2);
	cr_expect_eq(slot()->record.answers, 5);
	cr_expect_eq(slot()->record.number, 1);
	/* Once for each question. */
	make_passes(1000);
	cr_expect_eq(slot()->turn, 2);
	ask(4);
	make_passes(TAGRV_RAIL_REST);
	cr_expect_eq(slot()->record.answers, 4);
}

static void arm(void)
{
	tagrv_dom_lock(fx.dom);
	while (tagrv_dom_arm(fx.dom))
		;
	tagrv_lock_release(&fx.dom->lock);
}

Test(show, who_goes_to_sleep_shows_the_last_state)
{
	uint64_t turn;

	arm();
	cr_expect_eq(slot()->turn, 0, "nobody has asked");
	ask(1);
	arm();
	cr_expect_eq(slot()->record.answers, 1);
	cr_expect_eq(slot()->record.counters.eager_tx, 0);
	peer_up(true);
	cr_assert_eq(submit_send(buf, 8, 1, NULL, 0), 0);
	fx.dom->show.pause = 0;
	arm();
	cr_expect_eq(slot()->record.counters.eager_tx, 1);
	/* Not each time of thousands a second. */
	turn = slot()->turn;
	fx.dom->show.pause = UINT64_MAX;
	arm();
	cr_expect_eq(slot()->turn, turn);
	/* Nor when the viewer has gone. */
	fx.dom->show.pause = 0;
	fx.dom->show.until = 1;
	arm();
	cr_expect_eq(slot()->turn, turn);
	cr_expect_eq(fx.dom->show.until, 0);
}

Test(show, a_closed_endpoint_is_gone)
{
	struct tagrv_board *board = tagrv_board_join();

	ask(1);
	make_passes(TAGRV_RAIL_REST);
	cr_expect_eq(head()->live, 1);
	engine_close();
	fx.dom->show.board = board;
	cr_expect_eq(head()->live, 0);
	cr_expect_eq(head()->endpoints, 0);
	cr_expect_eq(slot()->turn, 0);
	tagrv_board_leave(board);
}

Test(show_hidden, there_is_no_board)
{
	cr_expect_null(fx.dom->show.board);
	make_passes(1000);
	arm();
	cr_expect_eq(fx.engine->show.slot, TAGRV_BOARD_NO_SLOT);
}

/* ---- what ---- */

Test(show, connections_are_counted_by_their_state)
{
	struct tagrv_board_record record = now();

	cr_expect_eq(record.levels.up + record.levels.waiting + record.levels.parting, 0);
	cr_assert_eq(submit_send(buf, 8, 1, NULL, 0), 0);
	record = now();
	cr_expect_eq(record.levels.waiting, 1);
	cr_expect_eq(record.levels.sends_queued, 1);
	cr_expect_eq(record.levels.credit_bytes, 0);
	peer_up(true);
	make_passes(1);
	record = now();
	cr_expect_eq(record.levels.up, 1);
	cr_expect_eq(record.levels.waiting, 0);
	cr_expect_eq(record.levels.sends_queued, 0);
	cr_expect_eq(record.levels.credit_bytes,
		     (TAGRV_CREDIT_FIRST - tagrv_credit_units(8)) * TAGRV_CREDIT_UNIT);
	peer_event(TAGRV_WIREUP_GONE, -FI_ECONNRESET);
	cr_expect_eq(now().levels.parting, 1);
}

Test(show, queues_and_their_memory_are_counted)
{
	struct tagrv_board_record record;
	char in[64];

	peer_up(true);
	cr_assert_eq(submit_recv(in, sizeof(in), 1, in), 0);
	cr_assert_eq(submit_recv(in, sizeof(in), 2, in), 0);
	arrive_eager(buf, 1000, 77, 0, 0);
	record = now();
	cr_expect_eq(record.levels.posted, 2);
	cr_expect_eq(record.levels.posted_from_one + record.levels.posted_from_any, 2);
	cr_expect_eq(record.levels.unexpected, 1);
	cr_expect_geq(record.levels.unexpected_bytes, 1000);
	cr_expect_leq(record.levels.unexpected_bytes, 2500);
	cr_expect_eq(record.counters.eager_rx, 1);
	cr_expect_eq(record.flags & TAGRV_BOARD_CUT, 0);
	cr_expect_gt(record.rail_cnt, 0);
	cr_expect_not_null(strchr(record.name, ':'));
}

Test(show, bytes_of_rendezvous_messages_are_counted)
{
	static char in[100000];
	struct tagrv_board_record record;
	int ctx;

	peer_up(true);
	cr_assert_eq(submit_recv(in, sizeof(in), 1, &ctx), 0);
	arrive_rts(buf, 90000, 1, 5);
	make_passes(8);
	cr_assert_eq(submit_send(buf, 80000, 1, &ctx, 0), 0);
	make_passes(1);
	cr_expect_eq(now().counters.announced_tx, 1);
	arrive_fin(packet_header(fake.log_cnt - 1).op, 0);
	record = now();
	cr_expect_eq(record.counters.long_bytes_rx, 90000);
	cr_expect_eq(record.counters.read_rx, 1);
	cr_expect_eq(record.counters.long_bytes_tx, 80000);
	cr_expect_eq(record.counters.read_tx, 1);
}

Test(show, onesided_operations_and_their_bytes_are_those_of_the_engine)
{
	struct tagrv_rma_sums *tx = &fx.engine->stats.rma_tx, *rx = &fx.engine->stats.rma_rx;
	struct tagrv_board_counters c;

	for (uint64_t i = 0; i < TAGRV_RMA_SUMS; i++) {
		tx->ops[i] = 1 + i;
		tx->bytes[i] = 100 + i;
		rx->ops[i] = 11 + i;
		rx->bytes[i] = 200 + i;
	}
	fx.engine->stats.rma_views = 2;
	fx.engine->stats.rma_refused = 5;
	c = now().counters;
	cr_expect_eq(c.onesided_tx, 1 + 2 + 3);
	cr_expect_eq(c.onesided_rx, 11 + 12 + 13);
	cr_expect_eq(c.onesided_views, 2);
	cr_expect_eq(c.onesided_refused, 5);
	cr_expect_eq(c.onesided_writes_tx, 1 + TAGRV_RMA_WRITE);
	cr_expect_eq(c.onesided_write_bytes_tx, 100 + TAGRV_RMA_WRITE);
	cr_expect_eq(c.onesided_reads_tx, 1 + TAGRV_RMA_READ);
	cr_expect_eq(c.onesided_read_bytes_tx, 100 + TAGRV_RMA_READ);
	cr_expect_eq(c.onesided_atomics_tx, 1 + TAGRV_RMA_ATOMIC);
	cr_expect_eq(c.onesided_atomic_bytes_tx, 100 + TAGRV_RMA_ATOMIC);
	cr_expect_eq(c.onesided_writes_rx, 11 + TAGRV_RMA_WRITE);
	cr_expect_eq(c.onesided_write_bytes_rx, 200 + TAGRV_RMA_WRITE);
	cr_expect_eq(c.onesided_reads_rx, 11 + TAGRV_RMA_READ);
	cr_expect_eq(c.onesided_read_bytes_rx, 200 + TAGRV_RMA_READ);
	cr_expect_eq(c.onesided_atomics_rx, 11 + TAGRV_RMA_ATOMIC);
	cr_expect_eq(c.onesided_atomic_bytes_rx, 200 + TAGRV_RMA_ATOMIC);
}

/* A viewer must not hold up a process for long. */
Test(show, long_queues_are_counted_in_part)
{
	struct tagrv_board_record record;
	char in[8];

	for (uint64_t i = 0; i < 20000; i++)
		cr_assert_eq(submit_recv(in, sizeof(in), i, NULL), 0);
	record = now();
	cr_expect_eq(record.levels.posted, 20000);
	cr_expect_neq(record.flags & TAGRV_BOARD_CUT, 0);
	cr_expect_lt(record.levels.posted_from_one + record.levels.posted_from_any, 20000);
}
