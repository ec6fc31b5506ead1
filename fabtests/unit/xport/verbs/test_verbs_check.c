/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Looks at links: peers that have died without a word, and requests that a device never
 * ends. Time passes by link->check.since.
 */
#include <criterion/criterion.h>
#include <endian.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/verbs_fixture.h"

TestSuite(verbs_check, .init = verbs_prepare, .timeout = 20);

static struct verbs_link *link_a(void)
{
	return verbs_link_of(pair.a->link);
}

static void check(bool awaited)
{
	pair.a->xport->ops->check(pair.a->link, awaited);
}

/* So many ms pass, and then there are a look, some passes, and another look. */
static void check_after(uint64_t ms)
{
	link_a()->check.since -= ms;
	for (int look = 0; look < 2; look++) {
		check(true);
		for (int i = 0; i < 100; i++)
			pair_progress(&pair);
	}
}

/* A send that the device never ends. */
static void lose_request(struct op *op)
{
	verbs_start_sender();
	op_init(op);
	fake_verbs_hold(true);
	cr_assert_eq(end_send(pair.a, 0, 8, 0, op), 0);
	check_after(0);
}

static void expect_failure(const struct op *op, int status)
{
	cr_assert_eq(pair.a->errors, 1);
	cr_assert_eq(pair.a->error_status, status, "%d", pair.a->error_status);
	fake_verbs_hold(false);
	end_close_link(pair.a);
	cr_assert_eq(op->calls, 1);
	pair_close(&pair);
}

Test(verbs_check, a_peer_is_probed_while_something_is_awaited)
{
	struct verbs_xport *xp = verbs_start_sender();

	check(false);
	cr_assert_eq(xp->inflight, 0);
	check(true);
	cr_assert_eq(xp->inflight, 1);
	cr_assert_eq(fake_verbs_count().completions, 1);
	PAIR_UNTIL(&pair, !xp->inflight);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	cr_assert_eq(pair.b->packet_cnt, 0, "the peer gets a packet");
	pair_close(&pair);
}

Test(verbs_check, a_dead_peer_does_not_answer)
{
	verbs_start_sender();
	fake_verbs_fail_wr(1, IBV_WC_RETRY_EXC_ERR);
	check(true);
	PAIR_UNTIL(&pair, pair.a->errors);
	cr_assert_eq(pair.a->error_status, -FI_EHOSTUNREACH);
	check(true);
	cr_assert_eq(verbs_xport_of(pair.a->xport)->inflight, 0,
		     "a link with an error is left alone");
	pair_close(&pair);
}

/* By default after twice 0.54 s for each of 7 attempts, and the time of a long read. */
Test(verbs_check, a_request_that_never_ends_fails_the_link)
{
	struct op op;

	params.qp_timeout = 17;
	params.qp_retry = 6;
	lose_request(&op);
	check_after(7000);
	cr_assert_eq(pair.a->errors, 0, "too early");
	check_after(600);
	expect_failure(&op, -FI_ETIMEDOUT);
}

Test(verbs_check, long_reads_have_more_time)
{
	struct op op;

	params.read_segment = 1 << 30;
	lose_request(&op);
	check_after(100000);
	cr_assert_eq(pair.a->errors, 0);
	check_after(15000);
	expect_failure(&op, -FI_ETIMEDOUT);
}

Test(verbs_check, the_time_can_be_given)
{
	struct op op;

	params.request_timeout = 20;
	lose_request(&op);
	check_after(19000);
	cr_assert_eq(pair.a->errors, 0);
	check_after(1500);
	expect_failure(&op, -FI_ETIMEDOUT);
}

Test(verbs_check, or_be_without_end)
{
	struct op op;

	params.request_timeout = -1;
	lose_request(&op);
	check_after(86400000);
	cr_assert_eq(pair.a->errors, 0);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, op.calls == 1);
	cr_assert_eq(op.status, 0);
	pair_close(&pair);
}

/* They have ended, but the application computes, or is stopped, and polls nothing. */
Test(verbs_check, a_long_time_without_progress_is_no_fault_of_the_device)
{
	struct op op;

	verbs_start_sender();
	op_init(&op);
	cr_assert_eq(end_send(pair.a, 0, 8, 0, &op), 0);
	check(true);
	for (int i = 0; i < 3; i++) {
		link_a()->check.since -= 86400000;
		check(true);
		for (int k = 0; k < 100; k++)
			pair_progress(&pair);
		cr_assert_eq(pair.a->errors, 0);
		cr_assert_eq(end_send(pair.a, 0, 8, 0, &op), 0);
		check(true);
	}
	PAIR_UNTIL(&pair, op.calls == 4);
	cr_assert_eq(op.status, 0);
	pair_close(&pair);
}

/* It has ended, but nothing told so: the look asks. */
Test(verbs_check, unsignaled_requests_are_confirmed)
{
	struct verbs_xport *xp = verbs_start_sender();

	verbs_send_many(3, 8);
	for (int i = 0; i < 100; i++)
		pair_progress(&pair);
	cr_assert_eq(xp->inflight, 3);
	check_after(0);
	cr_assert_eq(xp->inflight, 0);
	verbs_send_many(1, 8);
	check_after(100000);
	check_after(100000);
	cr_assert_eq(pair.a->errors, 0);
	pair_close(&pair);
}

Test(verbs_check, a_link_that_gets_on_is_left_alone)
{
	struct verbs_xport *xp = verbs_start_sender();

	for (int i = 0; i < 5; i++) {
		verbs_send_many(20, 8);
		check(true);
		link_a()->check.since -= 100000;
		PAIR_UNTIL(&pair, !xp->inflight);
	}
	verbs_send_many(20, 8);
	check(true);
	cr_assert_eq(pair.a->errors, 0);
	cr_assert_eq(link_a()->error, 0);
	pair_close(&pair);
}

/* ---- peers without buffers are slow, not dead ---- */

Test(verbs_check, requests_to_a_peer_without_buffers_may_take_any_time)
{
	struct op op;

	lose_request(&op);
	cr_assert_not(link_a()->thin);
	tagrv_verbs_permit_received(verbs_xport_of(pair.a->xport), link_a(),
				    htobe32(3 | VERBS_PERMIT_THIN));
	check_after(1000000);
	cr_assert_eq(pair.a->errors, 0);
	/* The next permit says that there are buffers again. */
	tagrv_verbs_permit_received(verbs_xport_of(pair.a->xport), link_a(), htobe32(3));
	cr_assert_not(link_a()->thin);
	check_after(0);
	cr_assert_eq(pair.a->errors, 0);
	check_after(1000000);
	expect_failure(&op, -FI_ETIMEDOUT);
}

/* The device repeats the packet a little later than the permit comes. */
Test(verbs_check, requests_to_a_peer_that_has_buffers_again_have_their_time)
{
	struct op op;

	lose_request(&op);
	tagrv_verbs_permit_received(verbs_xport_of(pair.a->xport), link_a(),
				    htobe32(3 | VERBS_PERMIT_THIN));
	check_after(1000000);
	cr_assert(link_a()->check.overdue);
	tagrv_verbs_permit_received(verbs_xport_of(pair.a->xport), link_a(), htobe32(3));
	check(true);
	cr_assert_eq(link_a()->error, 0);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, op.calls == 1);
	cr_assert_eq(op.status, 0);
	pair_close(&pair);
}

/* They need none of its buffers. */
Test(verbs_check, writes_to_a_peer_without_buffers_may_not)
{
	struct op op;

	verbs_start_sender();
	op_init(&op);
	link_a()->thin = true;
	fake_verbs_hold(true);
	check(true);
	cr_assert_eq(end_send(pair.a, 0, 8, 0, &op), 0);
	check_after(0);
	check_after(1000000);
	expect_failure(&op, -FI_ETIMEDOUT);
}

/* It says so with the permit, and counts the packets only. */
Test(verbs_check, a_peer_tells_that_it_has_no_buffers)
{
	struct verbs_link *b;
	struct verbs_xport *xp;
	uint32_t before;

	verbs_need_srq();
	verbs_open();
	pair_connect(&pair);
	b = verbs_link_of(pair.b->link);
	xp = verbs_xport_of(pair.b->xport);
	atomic_store(&xp->pool.rx_permits, 1000000);
	b->rx_permits = 1;
	cr_assert_eq(tagrv_verbs_permit_offer(b),
		     (VERBS_PERMIT_MIN - 1) | VERBS_PERMIT_THIN);
	before = link_a()->tx_permits;
	cr_assert_not(link_a()->thin);
	cr_assert_eq(end_send(pair.b, 0, 8, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.a->packet_cnt == 1);
	cr_assert(link_a()->thin);
	/* It may have used one to permit packets itself. */
	cr_assert_gt(link_a()->tx_permits, before);
	cr_assert_lt(link_a()->tx_permits, before + VERBS_PERMIT_MIN);
	cr_assert_leq(b->rx_permits, VERBS_PERMIT_MIN);
	pair.permitted = true;
	pair_close(&pair);
}

/* What reap has read of a packet holds until the next permit, not until the packet is handled. */
Test(verbs_check, a_peer_without_buffers_is_noticed_by_reap)
{
	struct verbs_xport *xp;

	verbs_need_srq();
	verbs_open();
	pair_connect(&pair);
	atomic_store(&verbs_xport_of(pair.b->xport)->pool.rx_permits, 1000000);
	verbs_link_of(pair.b->link)->rx_permits = 1;
	cr_assert_eq(end_send(pair.b, 0, 8, 0, NULL), 0);
	xp = verbs_xport_of(pair.a->xport);
	xp->lacks_permit = true;
	xp->base.ops->reap(&xp->base);
	cr_assert(link_a()->thin);
	cr_assert_eq(pair.a->packet_cnt, 0);
	xp->base.ops->progress(&xp->base);
	cr_assert_eq(pair.a->packet_cnt, 1);
	cr_assert(link_a()->thin);
	pair.permitted = true;
	pair_close(&pair);
}

/* Few packets alone do not mean that it has no buffers for them. */
Test(verbs_check, so_does_one_that_has_too_many_peers_from_the_beginning)
{
	enum { FITTING = (VERBS_RX_LEAST - 1) / VERBS_PERMIT_MIN };
	struct tagrv_link *a[FITTING], *b[FITTING];

	verbs_need_srq();
	config.max_srq_wr = VERBS_RX_LEAST;
	verbs_open();
	for (int i = 0; i < FITTING; i++) {
		pair_link(&pair, &a[i], &b[i]);
		cr_assert_eq(verbs_link_of(a[i])->tx_permits, VERBS_PERMIT_MIN);
		cr_assert_not(verbs_link_of(a[i])->thin);
	}
	pair_connect(&pair);
	cr_assert(link_a()->thin);
	/* One is closed: there is room for the last. */
	pair.a->xport->ops->link_discard(a[0]);
	pair.b->xport->ops->link_discard(b[0]);
	PAIR_UNTIL(&pair, !link_a()->thin);
	for (int i = 1; i < FITTING; i++) {
		pair.a->xport->ops->link_discard(a[i]);
		pair.b->xport->ops->link_discard(b[i]);
	}
	pair_close(&pair);
}

/* ---- a side that only receives ---- */

Test(verbs_check, packets_that_have_come_are_followed_by_a_probe)
{
	struct verbs_xport *xp;

	verbs_start_sender();
	xp = verbs_xport_of(pair.b->xport);
	verbs_send_many(1, 8);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	cr_assert_eq(xp->inflight, 0);
	xp->base.ops->check(pair.b->link, false);
	cr_assert_eq(xp->stats.probes, 1);
	PAIR_UNTIL(&pair, !xp->inflight);
	xp->base.ops->check(pair.b->link, false);
	cr_assert_eq(xp->stats.probes, 1, "nothing has come since");
	pair_close(&pair);
}

Test(verbs_check, a_side_that_only_receives_notices_a_broken_path)
{
	verbs_start_sender();
	verbs_send_many(1, 8);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	fake_verbs_break_qp(verbs_link_of(pair.a->link)->qp);
	pair.b->xport->ops->check(pair.b->link, false);
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	pair_close(&pair);
}
