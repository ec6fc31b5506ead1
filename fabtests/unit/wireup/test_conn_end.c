/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine: refusals, failures, pauses, and the end.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/wireup/conn_calls.h"

static int failed_by(uint8_t reason)
{
	struct driver_chan *out;
	struct driver d;
	int status;

	driver_init(&d, US, PEER);
	out = ask(&d);
	give_reason(&d, out, TAGRV_WIREUP_REJ, PEER, 0, reason);
	status = d.faileds ? d.event.status : 0;
	cr_assert_eq(tagrv_conn_is_idle(&d.conn), d.faileds == 1);
	driver_fini(&d);
	return status;
}

Test(conn, refusals_have_their_codes, .timeout = 10)
{
	cr_assert_eq(failed_by(TAGRV_WIREUP_VERSION), -FI_ENOPROTOOPT);
	cr_assert_eq(failed_by(TAGRV_WIREUP_TRANSPORT), -FI_EHOSTUNREACH);
	cr_assert_eq(failed_by(TAGRV_WIREUP_SELF), -FI_EINVAL);
	cr_assert_eq(failed_by(TAGRV_WIREUP_BUSY), 0);
	cr_assert_eq(failed_by(TAGRV_WIREUP_STALE), 0);
	cr_assert_eq(failed_by(200), -FI_EHOSTUNREACH);
}

Test(conn, busy_peer_is_asked_again_with_the_same_link, .timeout = 10)
{
	struct driver_chan *out;
	struct driver d;

	driver_init(&d, US, PEER);
	out = ask(&d);
	for (int i = 0; i < 5; i++) {
		give_reason(&d, out, TAGRV_WIREUP_REJ, PEER, 0,
			    TAGRV_WIREUP_BUSY);
		cr_assert(out->hung_up);
		driver_run_timer(&d);
		out = driver_answer_dial(&d);
		cr_assert_eq(driver_last(out)->src_epoch, 1);
	}
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.fake.created, 1);
	driver_fini(&d);
}

Test(conn, pauses_grow_and_end, .timeout = 10)
{
	uint64_t start, most = 0, before;
	struct driver d;
	int dials = 0;

	driver_init(&d, US, PEER);
	start = d.now;
	driver_want(&d);
	while (!d.faileds) {
		if (d.dial) {
			driver_fail_dial(&d, -FI_ECONNREFUSED);
			dials++;
		} else {
			before = d.now;
			driver_run_timer(&d);
			most = TAGRV_MAX(most, d.now - before);
			if (dials == 1)
				cr_assert_leq(d.now - before, 10);
		}
	}
	cr_assert_eq(d.event.status, -FI_ECONNREFUSED);
	cr_assert_eq(d.now - start, 30000);
	cr_assert_leq(most, 2000);
	cr_assert_gt(dials, 15);
	cr_assert_lt(dials, 60);
	driver_fini(&d);
}

Test(conn, silence_is_retried_and_times_out, .timeout = 10)
{
	uint64_t start;
	struct driver d;
	int dials = 0;

	driver_init(&d, US, PEER);
	start = d.now;
	driver_want(&d);
	while (!d.faileds) {
		if (d.dial) {
			driver_answer_dial(&d);
			dials++;
		} else {
			driver_run_timer(&d);
		}
	}
	cr_assert_eq(d.event.status, -FI_ETIMEDOUT);
	cr_assert_eq(d.now - start, 30000);
	cr_assert_gt(dials, 2);
	cr_assert_eq(d.fake.created, 1);
	driver_fini(&d);
}

Test(conn, after_a_failure_one_can_ask_again, .timeout = 10)
{
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	while (!d.faileds) {
		if (d.dial)
			driver_fail_dial(&d, -FI_ECONNREFUSED);
		else
			driver_run_timer(&d);
	}
	connect_to(&d, PEER, 7);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

Test(conn, silent_peer_is_given_up_when_bound, .timeout = 10)
{
	struct driver d;
	struct driver_chan *in;

	driver_init(&d, US, PEER);
	in = be_asked(&d, PEER, 7);
	driver_run_timer(&d);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(driver_last(in)->type, TAGRV_WIREUP_CLOSE);
	cr_assert(in->hung_up);
	driver_fini(&d);
}

Test(conn, own_failures_are_reported, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	/* As the passive side: asks the peer to try again. */
	driver_init(&d, US, PEER);
	d.fake.create_status = -FI_ENOMEM;
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REJ);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_BUSY);
	cr_assert(tagrv_conn_is_idle(&d.conn));
	d.fake.create_status = 0;
	d.prepare_status = -FI_ENOMEM;
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_BUSY);
	d.prepare_status = 0;
	/* The peer's network is unreachable: a permanent failure. */
	d.fake.bind_status = -FI_ENETUNREACH;
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_TRANSPORT);
	cr_assert_eq(d.ups + d.faileds + d.gones, 0);
	/* As the active side: failed, and the peer is told. */
	chan = ask(&d);
	give(&d, chan, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(d.faileds, 1);
	cr_assert_eq(d.event.status, -FI_EHOSTUNREACH);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_CLOSE);
	d.fake.bind_status = 0;
	d.fake.create_status = -FI_EMFILE;
	ask(&d);
	cr_assert_eq(d.faileds, 2);
	cr_assert_eq(d.event.status, -FI_EMFILE);
	d.fake.create_status = 0;
	/* Active and passive at the same time, and binding fails. */
	chan = ask(&d);
	d.fake.bind_status = -FI_ENETUNREACH;
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(d.faileds, 3);
	driver_fini(&d);
}

Test(conn, no_transport_in_common, .timeout = 10)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, PEER);
	rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER, 7);
	rec.links[0].wire_id++;
	chan = driver_open(&d, false);
	driver_record(&d, chan, &rec);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_TRANSPORT);
	/* The own transport is the second of two. */
	rec.links[1] = rec.links[0];
	rec.links[1].wire_id = FAKE_WIRE_ID;
	rec.link_cnt = 2;
	chan = driver_open(&d, false);
	driver_record(&d, chan, &rec);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

Test(conn, orderly_close_has_status_zero, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = connect_to(&d, PEER, 7);
	/* A CLOSE of an earlier connection has no effect. */
	give_reason(&d, chan, TAGRV_WIREUP_CLOSE, PEER, 6, TAGRV_WIREUP_OK);
	cr_assert_eq(d.gones, 0);
	give_reason(&d, chan, TAGRV_WIREUP_CLOSE, PEER, 7, TAGRV_WIREUP_OK);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.event.status, 0);
	cr_assert(tagrv_conn_is_idle(&d.conn));
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_RTU);
	driver_fini(&d);
}

Test(conn, close_instead_of_an_answer_is_retried, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = ask(&d);
	give_reason(&d, chan, TAGRV_WIREUP_CLOSE, PEER, 0, TAGRV_WIREUP_OK);
	cr_assert(chan->hung_up);
	cr_assert_eq(d.faileds, 0);
	driver_run_timer(&d);
	chan = driver_answer_dial(&d);
	give(&d, chan, TAGRV_WIREUP_REP, PEER + 1, 1);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

Test(conn, drop_tells_the_peer_and_forgets, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = connect_to(&d, PEER, 7);
	tagrv_conn_drop(&d.conn, d.event.epoch + 1);
	cr_assert_eq(d.conn.state, TAGRV_CONN_READY);
	driver_drop(&d);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_CLOSE);
	cr_assert_eq(driver_last(chan)->dst_epoch, 7);
	cr_assert(chan->hung_up);
	cr_assert_eq(d.gones, 0);
	/* The next connection has another epoch. */
	connect_to(&d, PEER, 8);
	cr_assert_eq(d.event.epoch, 2);
	driver_fini(&d);
}

Test(conn, closing_sockets_on_purpose_is_not_the_end, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = connect_to(&d, PEER, 7);
	tagrv_conn_close_sockets(&d.conn);
	driver_check(&d);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_CLOSE);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_SOCKET_CLOSED);
	cr_assert(chan->hung_up);
	cr_assert_eq(d.gones, 0);
	/* The restarted peer is recognized by its REQ. */
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, PEER, 8);
	cr_assert_eq(d.gones, 1);
	give(&d, chan, TAGRV_WIREUP_RTU, PEER, 8);
	/* The reverse: the peer does not keep the socket. */
	give_reason(&d, chan, TAGRV_WIREUP_CLOSE, PEER, 8,
		    TAGRV_WIREUP_SOCKET_CLOSED);
	driver_close(&d, chan);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.conn.state, TAGRV_CONN_READY);
	driver_fini(&d);
}

Test(conn, without_transport_nothing_is_dialed, .timeout = 10)
{
	struct driver d;

	driver_init(&d, US, PEER);
	d.host.xport_cnt = 0;
	tagrv_conn_want(&d.conn);
	cr_assert_eq(d.faileds, 1);
	cr_assert_eq(d.event.status, -FI_EHOSTUNREACH);
	cr_assert(!d.dial);
}

Test(conn, epoch_zero_is_never_used, .timeout = 10)
{
	struct driver d;

	driver_init(&d, US, PEER);
	d.host.epoch = UINT32_MAX;
	connect_to(&d, PEER, 7);
	cr_assert_eq(d.event.epoch, 1);
	driver_fini(&d);
}
