/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The side link that follows one that has ended: when it is begun, and SIDEs of the two that
 * cross each other.
 */
#include "unit/proto/rma/side_calls.h"

#include "engine/endpoint.h"
#include "object/side.h"

static void setup(void)
{
	side_setup(0);
}

TestSuite(rma_side_next, .init = setup, .fini = side_teardown, .timeout = 20);

/* ---- steps ---- */

static struct tagrv_hdr last_side(size_t *at)
{
	return sent_nr(TAGRV_PKT_SIDE, sent(TAGRV_PKT_SIDE) - 1, at);
}

static void expect_last_side(uint32_t nr, unsigned flags, size_t blob_len)
{
	size_t at;
	struct tagrv_hdr hdr = last_side(&at);

	cr_expect_eq(hdr.op, nr, "number %u", hdr.op);
	cr_expect_eq(hdr.flags, flags, "flags %u", hdr.flags);
	cr_expect_eq(body_len(at), blob_len, "%zu bytes", body_len(at));
}

/* Writes 8 bytes, which go by a packet. */
static void write_by_packet(void)
{
	size_t stores = sent(TAGRV_PKT_STORE);
	size_t at;

	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	serve_all();
	cr_assert_eq(sent(TAGRV_PKT_STORE), stores + 1, "by a packet");
	arrive_fin(sent_nr(TAGRV_PKT_STORE, stores, &at).op, 0);
	expect_end(contexts, 0);
}

static void write_by_side(void)
{
	size_t puts = count_kind(FAKE_PUT);

	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	cr_assert_eq(count_kind(FAKE_PUT), puts + 1, "by the side link");
	end_moves(0);
	expect_end(contexts, 0);
}

static void expect_no_complaint(void)
{
	cr_expect_eq(fx.engine->stats.bad_packets, 0);
}

/* The first one, and a view. */
static void open_first(void)
{
	struct tagrv_hdr hdr;
	size_t at;

	write_by_packet();
	hdr = sent_nr(TAGRV_PKT_SHOW, 0, &at);
	arrive_view(hdr.op, TAGRV_MEM_REMOTE, LEN, 0);
	arrive_side(TAGRV_RMA_READY, true);
	write_by_side();
}

static void break_here(void)
{
	fake_break_link(fake.side, -FI_EACCES);
	serve_all();
	cr_assert_null(the_peer()->side);
}

/* As many operations as the pause has; the last one begins the next link. */
static void wait_out(size_t pause)
{
	size_t before = sent(TAGRV_PKT_SIDE);

	for (size_t i = 0; i < pause; i++) {
		cr_expect_eq(sent(TAGRV_PKT_SIDE), before, "begun after %zu", i);
		write_by_packet();
	}
	cr_expect_eq(sent(TAGRV_PKT_SIDE), before + 1);
}

/* ---- when ---- */

Test(rma_side_next, is_begun_after_a_pause)
{
	open_first();
	break_here();
	expect_last_side(0, TAGRV_RMA_OFF, 0);
	wait_out(TAGRV_SIDE_PAUSE_MIN);
	expect_last_side(1, 0, 4);
	arrive_side_nr(1, TAGRV_RMA_READY, true);
	expect_last_side(1, TAGRV_RMA_READY, 0);
	/* The view has stayed. */
	write_by_side();
	expect_no_complaint();
}

Test(rma_side_next, is_begun_by_reads_too)
{
	size_t at, gets;

	open_first();
	break_here();
	for (size_t i = 0; i < TAGRV_SIDE_PAUSE_MIN; i++) {
		gets = sent(TAGRV_PKT_GET);
		cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
		arrive_answer(sent_nr(TAGRV_PKT_GET, gets, &at).op, mine, 8);
		expect_end(contexts, 0);
	}
	serve_all();
	expect_last_side(1, 0, 4);
}

/* Its own operations may be none. */
Test(rma_side_next, is_made_when_the_peer_begins)
{
	open_first();
	break_here();
	arrive_side_nr(1, 0, true);
	expect_last_side(1, TAGRV_RMA_READY, 4);
	arrive_side_nr(1, TAGRV_RMA_READY, false);
	write_by_side();
}

Test(rma_side_next, pauses_grow_up_to_a_limit)
{
	uint32_t last = TAGRV_SIDE_PAUSE_MIN;

	open_first();
	for (uint32_t nr = 1; nr < 12; nr++) {
		break_here();
		cr_expect_eq(the_peer()->rma.side_pause, last);
		last = TAGRV_MIN(2 * last, TAGRV_SIDE_PAUSE_MAX);
		the_peer()->rma.side_free_at = 0;	/* some time has passed */
		arrive_side_nr(nr, TAGRV_RMA_READY, true);
		write_by_side();
	}
	cr_expect_eq(last, TAGRV_SIDE_PAUSE_MAX);
}

Test(rma_side_next, a_new_connection_begins_with_the_first)
{
	open_first();
	break_here();
	fake_break_link(fx.link, -FI_EIO);
	peer_up(true);
	arrive_side(0, true);
	expect_last_side(0, TAGRV_RMA_READY, 4);
	cr_expect_eq(the_peer()->rma.side_pause, 0);
	expect_no_complaint();
}

/* It would cost a queue pair each time. */
Test(rma_side_next, a_peer_cannot_begin_and_end_them_at_will)
{
	uint32_t nr = 0;

	for (; nr < 10000; nr++) {
		arrive_side_nr(nr, 0, true);
		if (!the_peer()->side)
			break;
		arrive_side_nr(nr, TAGRV_RMA_OFF, false);
	}
	cr_expect_geq(nr, 8, "some at once are fine");
	cr_expect_lt(nr, 10000);
	expect_last_side(nr, TAGRV_RMA_OFF, 0);
	expect_no_complaint();
}

/* ---- crossings ---- */

/* Both sides have seen it fail. */
Test(rma_side_next, lives_on_when_the_end_of_the_former_comes_late)
{
	open_first();
	break_here();
	wait_out(TAGRV_SIDE_PAUSE_MIN);
	arrive_side_nr(0, TAGRV_RMA_OFF, false);
	cr_assert_not_null(the_peer()->side);
	arrive_side_nr(1, TAGRV_RMA_READY, true);
	write_by_side();
	arrive_side_nr(0, TAGRV_RMA_OFF, false);
	write_by_side();
	expect_no_complaint();
}

Test(rma_side_next, late_blobs_of_the_former_are_ignored)
{
	size_t before;

	fake.side_error = -FI_ENOMEM;
	arrive_side(0, true);
	expect_last_side(0, TAGRV_RMA_OFF, 0);
	fake.side_error = 0;
	before = sent(TAGRV_PKT_SIDE);
	arrive_side(TAGRV_RMA_READY, true);
	arrive_side(TAGRV_RMA_READY, false);
	cr_expect_eq(sent(TAGRV_PKT_SIDE), before);
	cr_expect_null(the_peer()->side);
	arrive_side_nr(1, 0, true);
	arrive_side(0, true);
	expect_no_complaint();
	cr_expect_not_null(the_peer()->side);
}

/* What begins before it was said that the former has ended waits behind that. */
Test(rma_side_next, is_begun_behind_the_end_of_the_former)
{
	size_t end, begin;

	open_first();
	fake.refuse_all = true;
	fake_break_link(fake.side, -FI_EACCES);
	arrive_side_nr(1, 0, true);
	fake.refuse_all = false;
	serve_all();
	cr_assert_eq(sent(TAGRV_PKT_SIDE), 4);
	cr_expect_eq(sent_nr(TAGRV_PKT_SIDE, 2, &end).flags, TAGRV_RMA_OFF);
	last_side(&begin);
	cr_expect_lt(end, begin);
	expect_last_side(1, TAGRV_RMA_READY, 4);
}

/* One SIDE says it of two: the second could not be made. */
Test(rma_side_next, ends_are_told_together)
{
	open_first();
	fake.refuse_all = true;
	fake_break_link(fake.side, -FI_EACCES);
	fake.side_error = -FI_ENOMEM;
	arrive_side_nr(1, 0, true);
	fake.refuse_all = false;
	serve_all();
	expect_last_side(1, TAGRV_RMA_OFF, 0);
	cr_expect_eq(sent(TAGRV_PKT_SIDE), 3);
}

Test(rma_side_next, an_end_that_is_ahead_ends_ours)
{
	open_first();
	arrive_side_nr(3, TAGRV_RMA_OFF, false);
	cr_expect_null(the_peer()->side);
	expect_fine();
	arrive_side_nr(4, 0, true);
	expect_last_side(4, TAGRV_RMA_READY, 4);
}

Test(rma_side_next, a_beginning_that_is_ahead_is_refused)
{
	const struct {
		struct tagrv_hdr hdr;
		uint8_t	blob[4];
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_SIDE, .op = htole32(1) },
	};

	open_first();
	fake_deliver(fx.link, &pkt, sizeof(pkt));
	cr_expect_eq(fx.engine->stats.bad_packets, 1);
}
