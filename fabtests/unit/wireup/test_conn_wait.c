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

/* What a dial waits for a turn is not held against the peer. */
Test(conn_wait, dial_that_is_queued_is_not_given_up)
{
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	driver_answer_dial(&d);
	cr_assert_eq(d.conn.deadline, 1000u + 30000);
	driver_run_timer(&d);
	cr_assert_eq(d.now, 1000u + 8000);
	driver_run_timer(&d);
	cr_assert(d.dial && d.conn.fails == 1);
	cr_assert_eq(d.timer_at, 0);
	d.now += 100000;
	tagrv_conn_timer(&d.conn);
	cr_assert(d.dial && !d.faileds);
	driver_answer_dial(&d);
	cr_assert_eq(d.conn.deadline, 1000u + 30000 + 100000);
	while (!d.faileds && d.now < 300000) {
		driver_run_timer(&d);
		if (d.dial)
			driver_answer_dial(&d);
	}
	cr_assert_eq(d.now, 1000u + 30000 + 100000);
	cr_assert_eq(d.faileds, 1);
	driver_fini(&d);
}

/* The peer's own socket makes the dial needless: the deadline for its RTU runs as ever. */
Test(conn_wait, deadline_goes_on_when_a_queued_dial_is_needless)
{
	struct driver_chan *in;
	struct driver d;

	driver_init(&d, US, PEER);
	in = be_asked(&d, PEER, 7);
	cr_assert_eq(d.ups, 1);
	driver_close(&d, in);
	driver_run_timer(&d);
	cr_assert(d.dial && !d.timer_at);
	d.now += 100000;
	be_asked(&d, PEER, 7);
	cr_assert_not(d.dial);
	cr_assert_eq(d.timer_at, d.conn.deadline);
	cr_assert_gt(d.timer_at, d.now);
	cr_assert_leq(d.timer_at, d.now + 30000);
	driver_run_timer(&d);
	cr_assert_eq(d.gones, 1);
	driver_fini(&d);
}

static struct driver *slow;	/* whose device takes so long to make a link */
static unsigned slow_ms;

static int create_slowly(struct tagrv_xport *xport, void *blob, size_t *len,
			 struct tagrv_link **link)
{
	slow->now += slow_ms;
	return fake_create(xport, blob, len, link);
}

/* The driver calls the timer when the command has ended, if its time has come meanwhile. */
static struct driver_chan *ask_slowly(struct driver *d, unsigned ms)
{
	struct driver_chan *out;

	driver_init(d, US, PEER);
	slow = d;
	slow_ms = ms;
	d->fake.ops.link_create = create_slowly;
	out = ask(d);
	tagrv_conn_timer(&d->conn);
	return out;
}

/* Longer than the time to connect. */
Test(conn_wait, time_of_our_own_device_does_not_count)
{
	struct driver_chan *out;
	struct driver d;

	out = ask_slowly(&d, 40000);
	cr_assert_eq(driver_last(out)->type, TAGRV_WIREUP_REQ);
	cr_assert(out->open && !d.faileds);
	cr_assert_eq(d.timer_at, d.now + 8000 - 40000 / 16);
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

/* Else a device that gets slower and slower would keep a connection from ever failing. */
Test(conn_wait, time_of_our_own_device_counts_a_little)
{
	struct driver_chan *out;
	struct driver d;

	out = ask_slowly(&d, 16 * 8001);
	cr_assert(out->hung_up);
	cr_assert_eq(d.faileds, 0);
	driver_fini(&d);
	ask_slowly(&d, 16 * 30001);
	cr_assert_eq(d.faileds, 1);
	cr_assert_eq(d.event.status, -FI_ETIMEDOUT);
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
	in = be_asked(&d, PEER, 7);
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

/* -- renewals ---------------------------------------------------------------- */

static struct driver_chan *be_connected(struct driver *d)
{
	driver_init(d, US, PEER);
	return connect_to(d, PEER, 7);
}

/* A record of the peer that names our new link. */
static void name_new(struct driver *d, struct driver_chan *chan,
		     enum tagrv_wireup_rec_type type, uint32_t epoch, uint8_t reason)
{
	struct tagrv_wireup_rec rec = driver_rec(d, type, PEER, epoch);

	rec.reason = reason;
	memcpy(rec.dst_uuid, d->host.uuid, TAGRV_UUID_LEN);
	memcpy(rec.dst_nonce, d->conn.renew->nonce, TAGRV_NONCE_LEN);
	rec.dst_epoch = d->conn.renew->epoch;
	driver_record(d, chan, &rec);
}

/* The peer asks for a renewal, and we answer. */
static void answer_renewal(struct driver *d, struct driver_chan *chan, uint32_t epoch)
{
	struct tagrv_wireup_rec rec = driver_rec(d, TAGRV_WIREUP_REQ, PEER, epoch);

	rec.reason = TAGRV_WIREUP_RENEWAL;
	memcpy(rec.dst_uuid, d->host.uuid, TAGRV_UUID_LEN);
	memcpy(rec.dst_nonce, d->conn.nonce, TAGRV_NONCE_LEN);
	rec.dst_epoch = d->conn.epoch;
	driver_record(d, chan, &rec);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REP);
	cr_assert_eq(d->conn.renew->state, TAGRV_CONN_ANSWERED);
}

/* The asker has our REP, but its link is not bound yet. */
Test(conn_wait, answer_to_a_renewal_that_waits_is_not_agreed_yet)
{
	struct driver_chan *chan;
	struct driver d;

	chan = be_connected(&d);
	answer_renewal(&d, chan, 8);
	name_new(&d, chan, TAGRV_WIREUP_WAIT, 8, TAGRV_WIREUP_OK);
	cr_assert_eq(d.renewals, 0, "the peer cannot receive by this link");
	cr_assert_eq(d.conn.renew->state, TAGRV_CONN_ANSWERED);
	name_new(&d, chan, TAGRV_WIREUP_RTU, 8, TAGRV_WIREUP_OK);
	cr_assert_eq(d.renewals, 1);
	driver_fini(&d);
}

/* We lost the socket, and ask back on a new one, where too many wait already. */
Test(conn_wait, answer_to_a_renewal_that_is_put_off_is_taken_back)
{
	struct driver_chan *chan;
	struct driver d;

	chan = be_connected(&d);
	answer_renewal(&d, chan, 8);
	driver_close(&d, chan);
	chan = driver_answer_dial(&d);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	name_new(&d, chan, TAGRV_WIREUP_WAIT, 8, TAGRV_WIREUP_OK);
	name_new(&d, chan, TAGRV_WIREUP_REJ, 8, TAGRV_WIREUP_BUSY);
	cr_assert_eq(d.renewals + d.gones, 0);
	cr_assert_eq(d.conn.state, TAGRV_CONN_READY);
	cr_assert_eq(d.conn.renew->state, TAGRV_CONN_REST);
	driver_fini(&d);
}

/* Likewise, and our REQ waits there for long; our REP is repeated meanwhile. */
Test(conn_wait, socket_dialed_to_answer_a_renewal_is_not_given_up)
{
	struct driver_chan *chan;
	struct driver d;

	chan = be_connected(&d);
	answer_renewal(&d, chan, 8);
	driver_close(&d, chan);
	chan = driver_answer_dial(&d);
	for (int i = 0; i < 20; i++) {
		uint64_t until = d.now + 5000;

		name_new(&d, chan, TAGRV_WIREUP_WAIT, 8, TAGRV_WIREUP_OK);
		chan->sent_cnt = 0;
		while (d.timer_at && d.timer_at < until)
			driver_run_timer(&d);
		d.now = until;
		cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REP);
		cr_assert(chan->open, "round %d", i);
		cr_assert_eq(d.conn.renew->state, TAGRV_CONN_ANSWERED);
	}
	name_new(&d, chan, TAGRV_WIREUP_REP, 8, TAGRV_WIREUP_OK);
	cr_assert_eq(d.renewals, 1);
	driver_fini(&d);
}

Test(conn_wait, renewal_that_waits_on_a_new_socket_is_not_given_up)
{
	struct driver_chan *chan;
	struct driver d;

	chan = be_connected(&d);
	driver_close(&d, chan);
	driver_renew(&d, true, 10000000);
	chan = driver_answer_dial(&d);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_RENEWAL);
	for (int i = 0; i < 100; i++) {
		d.now += 5000;
		name_new(&d, chan, TAGRV_WIREUP_WAIT, 0, TAGRV_WIREUP_OK);
		cr_assert_gt(d.timer_at, d.now + 5000);
		cr_assert(chan->open);
	}
	/* But a WAIT about something else gives no more time. */
	give(&d, chan, TAGRV_WIREUP_WAIT, PEER, 0);
	cr_assert_eq(d.timer_at, d.now + 8000);
	name_new(&d, chan, TAGRV_WIREUP_REP, 8, TAGRV_WIREUP_RENEWAL);
	cr_assert_eq(d.renewals, 1);
	driver_fini(&d);
}
