/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine, scripted event by event: the socket that is kept as
 * a sign of life breaks, though the peer may live.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/wireup/conn_calls.h"

/* A READY connection that has lost its socket; the driver was asked to dial. */
static void doubt(struct driver *d)
{
	struct driver_chan *chan;

	driver_init(d, US, PEER);
	chan = connect_to(d, PEER, 7);
	driver_close(d, chan);
	cr_assert_eq(d->gones, 0);
	cr_assert(d->dial, "at once");
	cr_assert(d->sendable);
}

static void check_sound(const struct driver *d)
{
	cr_assert_eq(d->conn.state, TAGRV_CONN_READY);
	cr_assert_eq(d->ups, 1);
	cr_assert_eq(d->gones + d->agains + d->faileds, 0);
}

Test(conn_doubt, connection_is_resumed_on_a_new_socket, .timeout = 10)
{
	const struct tagrv_wireup_rec *rec;
	struct driver_chan *chan;
	struct driver d;

	doubt(&d);
	for (int i = 0; i < 3; i++) {
		chan = driver_answer_dial(&d);
		rec = driver_last(chan);
		cr_assert_eq(rec->type, TAGRV_WIREUP_REQ);
		cr_assert_eq(rec->src_epoch, 1, "the same link");
		cr_assert_eq(rec->dst_epoch, 7);
		cr_assert_eq(rec->link_cnt, 1);
		give(&d, chan, TAGRV_WIREUP_REP, PEER, 7);
		cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_RTU);
		check_sound(&d);
		cr_assert_eq(d.timer_at, 0);
		cr_assert(chan->open);
		driver_close(&d, chan);
	}
	driver_fini(&d);
}

/* The peer has noticed it first. */
Test(conn_doubt, peer_resumes_it, .timeout = 10)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *in;
	struct driver d;

	for (int dialed = 0; dialed < 2; dialed++) {
		doubt(&d);
		if (dialed)
			driver_answer_dial(&d);
		in = driver_open(&d, false);
		rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER, 7);
		memcpy(rec.dst_uuid, d.host.uuid, TAGRV_UUID_LEN);
		memcpy(rec.dst_nonce, d.conn.nonce, TAGRV_NONCE_LEN);
		rec.dst_epoch = d.conn.epoch;
		driver_record(&d, in, &rec);
		cr_assert_eq(driver_last(in)->type, TAGRV_WIREUP_REP);
		cr_assert_not(d.dial);
		check_sound(&d);
		cr_assert_eq(d.timer_at, 0);
		driver_fini(&d);
	}
}

Test(conn_doubt, dead_peer_is_gone, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	/* Nobody listens there. */
	doubt(&d);
	driver_fail_dial(&d, -FI_ECONNREFUSED);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.event.status, -FI_ECONNRESET);
	cr_assert_not(d.dial);
	driver_fini(&d);
	/* Another process does, and knows nothing of us. */
	doubt(&d);
	chan = driver_answer_dial(&d);
	give_reason(&d, chan, TAGRV_WIREUP_REJ, PEER + 1, 0, TAGRV_WIREUP_STALE);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.event.status, -FI_ECONNRESET);
	driver_fini(&d);
	/* Or a process of another job. */
	doubt(&d);
	driver_fail_dial(&d, -FI_EACCES);
	cr_assert_eq(d.gones, 1);
	driver_fini(&d);
}

/* Nobody answers for so many ms, then the peer does, on the socket returned. */
static struct driver_chan *be_silent(struct driver *d, uint64_t ms)
{
	uint64_t start = d->now;
	struct driver_chan *chan;

	while (d->now < start + ms) {
		if (d->dial)
			driver_fail_dial(d, -FI_ETIMEDOUT);
		driver_run_timer(d);
		check_sound(d);
	}
	while (!d->dial)
		driver_run_timer(d);
	chan = driver_answer_dial(d);
	give(d, chan, TAGRV_WIREUP_REP, PEER, 7);
	check_sound(d);
	return chan;
}

/* Every dial fails so until the connection is gone; returns the ms that it took. */
static uint64_t fail_till_gone(struct driver *d, int status)
{
	uint64_t start = d->now;

	while (!d->gones) {
		if (d->dial)
			driver_fail_dial(d, status);
		if (!d->gones)
			driver_run_timer(d);
	}
	cr_assert_eq(d->event.status, -FI_EHOSTUNREACH);
	return d->now - start;
}

Test(conn_doubt, silent_network_gets_its_time, .timeout = 10)
{
	struct driver d;

	doubt(&d);
	/* But not for ever. */
	driver_close(&d, be_silent(&d, 20000));
	cr_assert_geq(fail_till_gone(&d, -FI_EHOSTUNREACH), 30000);
	driver_fini(&d);
}

/* Its sockets may use the one network of several that is lost: its links know better. */
Test(conn_doubt, link_that_can_be_renewed_gets_any_time, .timeout = 10)
{
	struct driver d;

	doubt(&d);
	d.fake.base.attr.caps |= TAGRV_XPORT_RENEWED;
	be_silent(&d, 600000);
	driver_fini(&d);
}

/* The last path fails while one that is lost is asked for. */
Test(conn_doubt, renewal_gets_urgent, .timeout = 10)
{
	struct driver d;

	doubt(&d);
	d.fake.base.attr.caps |= TAGRV_XPORT_RENEWED;
	driver_renew(&d, false, 20000);
	d.down = true;
	d.prepared++;
	tagrv_conn_renew(&d.conn, d.event.epoch, true, 50000);
	cr_assert_geq(fail_till_gone(&d, -FI_ETIMEDOUT), 50000);
	cr_assert_eq(d.unrenewed, 0);
	driver_fini(&d);
}

Test(conn_doubt, busy_peer_is_asked_again, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	doubt(&d);
	chan = driver_answer_dial(&d);
	give_reason(&d, chan, TAGRV_WIREUP_REJ, PEER, 0, TAGRV_WIREUP_BUSY);
	check_sound(&d);
	driver_run_timer(&d);
	cr_assert(d.dial);
	driver_fini(&d);
}

/* Sockets are given up while one is dialed: the doubt ends with them. */
Test(conn_doubt, scarce_descriptors_end_it, .timeout = 10)
{
	struct driver d;

	doubt(&d);
	tagrv_conn_close_sockets(&d.conn);
	cr_assert_not(d.dial);
	cr_assert_eq(d.timer_at, 0);
	check_sound(&d);
	driver_fini(&d);
}

Test(conn_doubt, restarted_peer_replaces_it, .timeout = 10)
{
	struct driver_chan *in;
	struct driver d;

	doubt(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, PEER + 1, 1);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.ups, 2);
	driver_fini(&d);
}
