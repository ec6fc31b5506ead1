/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * WAIT: the peer has the record, and will handle it in its turn.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/wireup/conn_calls.h"

TestSuite(conn_wait, .timeout = 30);

Test(conn_wait, request_that_waits_is_not_given_up)
{
	struct driver_chan *out;
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	out = driver_answer_dial(&d);
	for (int i = 0; i < 100; i++) {
		d.now += 5000;
		give(&d, out, TAGRV_WIREUP_WAIT, PEER, 0);
		cr_assert_gt(d.timer_at, d.now + 5000);
		cr_assert(out->open && !d.faileds);
	}
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

Test(conn_wait, peer_that_says_no_more_is_given_up)
{
	struct driver_chan *out;
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	out = driver_answer_dial(&d);
	d.now += 7000;
	give(&d, out, TAGRV_WIREUP_WAIT, PEER, 0);
	cr_assert_eq(d.timer_at, d.now + 8000);
	driver_run_timer(&d);
	cr_assert(out->hung_up);
	cr_assert_eq(d.conn.deadline, 1000u + 7000 + 30000);
	driver_fini(&d);
}

/* Only who has our REQ can tell us to wait for its answer. */
Test(conn_wait, wait_about_another_request_means_nothing)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *out;
	uint64_t deadline, at;
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	out = driver_answer_dial(&d);
	deadline = d.conn.deadline;
	at = d.timer_at;
	d.now += 1000;
	rec = driver_rec(&d, TAGRV_WIREUP_WAIT, PEER, 0);
	rec.dst_nonce[3] ^= 1;
	driver_record(&d, out, &rec);
	rec = driver_rec(&d, TAGRV_WIREUP_WAIT, PEER, 0);
	rec.dst_epoch++;
	driver_record(&d, out, &rec);
	cr_assert_eq(d.conn.deadline, deadline);
	cr_assert_eq(d.timer_at, at);
	driver_fini(&d);
}

/* The side that has answered waits for its RTU likewise. */
Test(conn_wait, answer_that_waits_is_not_given_up)
{
	struct driver_chan *in;
	struct driver d;

	driver_init(&d, US, PEER);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(d.conn.state, TAGRV_CONN_BOUND);
	for (int i = 0; i < 10; i++) {
		d.now += 20000;
		give(&d, in, TAGRV_WIREUP_WAIT, PEER, 7);
		cr_assert_eq(d.conn.deadline, d.now + 30000);
	}
	give(&d, in, TAGRV_WIREUP_RTU, PEER, 7);
	cr_assert_eq(d.conn.state, TAGRV_CONN_READY);
	cr_assert_eq(d.conn.deadline, 0);
	give(&d, in, TAGRV_WIREUP_WAIT, PEER, 7);
	cr_assert_eq(d.conn.deadline, 0);
	driver_fini(&d);
}

/* What makes devices work is told before it happens. */
Test(conn_wait, work_is_known_beforehand)
{
	struct tagrv_wireup_rec req;
	struct driver_chan *in, *out;
	struct driver d;

	driver_init(&d, US, PEER);
	in = driver_open(&d, false);
	req = driver_rec(&d, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(tagrv_conn_work_of(NULL, &in->chan, &req), TAGRV_CONN_NO_WORK, "a claim");
	in->chan.near = true;
	cr_assert_eq(tagrv_conn_work_of(NULL, &in->chan, &req), TAGRV_CONN_RESPOND);
	driver_want(&d);
	cr_assert_eq(tagrv_conn_work_of(&d.conn, &in->chan, NULL), TAGRV_CONN_OFFER);
	cr_assert_eq(tagrv_conn_work_of(&d.conn, &in->chan, &req), TAGRV_CONN_NO_WORK, "a claim");
	out = driver_answer_dial(&d);
	req = driver_rec(&d, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(tagrv_conn_work_of(&d.conn, &out->chan, &req), TAGRV_CONN_FINISH);
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(tagrv_conn_work_of(&d.conn, &out->chan, &req), TAGRV_CONN_NO_WORK);
	req.type = TAGRV_WIREUP_CLOSE;
	cr_assert_eq(tagrv_conn_work_of(&d.conn, &out->chan, &req), TAGRV_CONN_NO_WORK);
	in->open = in->fresh = false;
	driver_fini(&d);
}
