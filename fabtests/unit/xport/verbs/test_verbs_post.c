/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests over fake devices: signaled or not, refused, and retired. test_verbs_room.c
 * has what runs out.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/verbs_fixture.h"

static unsigned completions(void)
{
	return fake_verbs_count().completions;
}

TestSuite(verbs_post, .init = verbs_prepare, .timeout = 20);

Test(verbs_post, one_of_n_is_signaled)
{
	verbs_start_sender();
	verbs_send_many(47, 8);
	cr_assert_eq(completions(), 2, "after 16 and 32");
	verbs_send_many(1, 8);
	cr_assert_eq(completions(), 3);
	pair_close(&pair);
}

Test(verbs_post, done_asks_for_a_completion)
{
	struct op op;

	verbs_start_sender();
	op_init(&op);
	verbs_send_many(3, 8);
	cr_assert_eq(completions(), 0);
	cr_assert_eq(end_send(pair.a, 3, 8, 0, &op), 0);
	cr_assert_eq(completions(), 1);
	verbs_send_many(15, 8);
	cr_assert_eq(completions(), 1, "counting starts anew");
	pair_close(&pair);
}

Test(verbs_post, full_half_of_the_queue_is_signaled)
{
	struct verbs_xport *xp;

	params.signal_every = 1024;
	xp = verbs_start_sender();
	verbs_send_many(50, 8);
	cr_assert_eq(completions(), 0);
	verbs_send_many(50, 8);
	cr_assert_gt(completions(), 0);
	cr_assert_eq(xp->inflight, 100);
	pair_close(&pair);
}

Test(verbs_post, one_completion_retires_all_older)
{
	struct verbs_xport *xp = verbs_start_sender();

	verbs_send_many(40, 300);
	cr_assert_eq(xp->inflight, 40);
	PAIR_UNTIL(&pair, xp->inflight == 8);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total - 8);
	cr_assert_eq(xp->signaled, 0);
	pair_close(&pair);
}

Test(verbs_post, negative_errors_are_errors_too)
{
	verbs_start_sender();
	fake_verbs_fail_post(1, -ENOMEM);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, NULL), -FI_EAGAIN);
	PAIR_UNTIL(&pair, pair.a->rooms == 1);
	pair_close(&pair);
}

/* An error without a refused request: the device may still read the buffer. */
Test(verbs_post, requests_queued_in_spite_of_an_error_count)
{
	struct verbs_xport *xp = verbs_start_sender();
	struct op op;

	op_init(&op);
	fake_verbs_hold(true);
	fake_verbs_fail_doorbell(1, ENOMEM);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, &op), 0);
	cr_assert_eq(xp->inflight, 1);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total - 1);
	cr_assert_eq(pair.a->errors, 0, "not inside send");
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EIO);
	cr_assert_eq(op.calls, 0);
	fake_verbs_hold(false);
	pair_close(&pair);
	cr_assert_eq(op.calls, 1);
}

Test(verbs_post, device_that_refuses_breaks_the_link)
{
	struct verbs_xport *xp = verbs_start_sender();

	fake_verbs_fail_post(1, EIO);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, NULL), -FI_ENOTCONN);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	cr_assert_eq(pair.a->errors, 0, "not inside send");
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EIO);
	pair_close(&pair);
}

Test(verbs_post, sequence_numbers_wrap)
{
	struct verbs_link *link;
	struct op op;

	verbs_start_sender();
	link = verbs_link_of(pair.a->link);
	link->head = link->tail = UINT32_MAX - 20;
	for (unsigned i = 0; i < 200; i++)
		pair_send(&pair, pair.a, i, 64, NULL);
	op_init(&op);
	pair_send(&pair, pair.a, 1, 64, &op);
	PAIR_UNTIL(&pair, op.calls == 1 && pair.b->packet_cnt == 201);
	cr_assert_eq(op.status, 0);
	pair_close(&pair);
}

/* A device may refuse the empty write of flush; then the link breaks. */
Test(verbs_post, refused_flush_is_an_error_of_the_link)
{
	config.no_write = true;
	verbs_start_sender();
	verbs_send_many(1, 8);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair.a->xport->ops->flush(pair.a->xport);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EACCES);
	pair_close(&pair);
}

/* A peer may admit no writes: then flush sends a packet that brings nothing. */
Test(verbs_post, flush_needs_no_right_to_write)
{
	struct verbs_xport *xp;

	config.no_write = true;
	xp = verbs_start_sender();
	verbs_link_of(pair.a->link)->may_write = false;
	verbs_send_many(3, 8);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 3);
	cr_assert_eq(xp->inflight, 3);
	xp->base.ops->flush(&xp->base);
	PAIR_UNTIL(&pair, !xp->inflight);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	cr_assert_eq(pair.b->packet_cnt, 3);
	pair_close(&pair);
}

/* The last packet that the peer permits is for permits: flush waits for another one. */
Test(verbs_post, flush_leaves_the_last_permit)
{
	struct verbs_xport *xp = verbs_start_sender();
	struct verbs_link *link = verbs_link_of(pair.a->link);
	uint32_t permits;

	link->may_write = false;
	verbs_send_many(1, 8);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	permits = link->tx_permits;
	link->tx_permits = VERBS_PERMIT_LAST;
	xp->base.ops->flush(&xp->base);
	for (int i = 0; i < 10; i++)
		xp->base.ops->progress(&xp->base);
	cr_assert_eq(xp->inflight, 1);
	cr_assert_eq(link->tx_permits, VERBS_PERMIT_LAST);
	link->tx_permits = permits;
	PAIR_UNTIL(&pair, !xp->inflight);
	pair_close(&pair);
}
