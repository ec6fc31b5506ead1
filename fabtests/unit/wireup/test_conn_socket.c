/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine, scripted event by event: both sides can do without a
 * socket, and one is closed to save descriptors.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/wireup/conn_calls.h"

static struct driver d;
static struct driver_chan *chan;

static void setup(void)
{
	driver_init(&d, US, PEER);
	chan = connect_to(&d, PEER, 7);
}

static void teardown(void)
{
	driver_fini(&d);
}

TestSuite(conn_socket, .init = setup, .fini = teardown, .timeout = 10);

static void check_sound(void)
{
	cr_assert_eq(d.conn.state, TAGRV_CONN_READY);
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.gones + d.agains + d.faileds, 0);
}

static void check_socketless(void)
{
	check_sound();
	cr_assert(d.conn.sockets_closed);
	cr_assert_not(d.dial);
	cr_assert_eq(d.timer_at, 0);
}

/* The peer's REQ that names both links. */
static struct tagrv_wireup_rec resumption(void)
{
	struct tagrv_wireup_rec rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER, 7);

	memcpy(rec.dst_uuid, d.host.uuid, TAGRV_UUID_LEN);
	memcpy(rec.dst_nonce, d.conn.nonce, TAGRV_NONCE_LEN);
	rec.dst_epoch = d.conn.epoch;
	return rec;
}

static struct driver_chan *be_resumed(void)
{
	struct tagrv_wireup_rec rec = resumption();
	struct driver_chan *in = driver_open(&d, false);

	driver_record(&d, in, &rec);
	cr_assert_eq(driver_last(in)->type, TAGRV_WIREUP_REP);
	return in;
}

static void peer_closes_socket(struct driver_chan *on)
{
	give_reason(&d, on, TAGRV_WIREUP_CLOSE, PEER, 7, TAGRV_WIREUP_SOCKET_CLOSED);
}

/* Each side says so in its REQ or REP. */
Test(conn_socket, a_socket_is_spare_if_both_sides_say_so)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *in;

	cr_assert(tagrv_conn_has_spare_socket(&d.conn));
	cr_assert(d.event.features & TAGRV_WIRE_SOCKETLESS);
	driver_drop(&d);
	/* An older peer, or one whose transport shows nothing. */
	chan = ask(&d);
	rec = driver_rec(&d, TAGRV_WIREUP_REP, PEER, 8);
	rec.features = TAGRV_WIRE_PART;
	driver_record(&d, chan, &rec);
	cr_assert_eq(d.conn.state, TAGRV_CONN_READY);
	cr_assert_not(tagrv_conn_has_spare_socket(&d.conn));
	driver_drop(&d);
	/* Ours shows nothing: the peer is told. */
	d.host.features = TAGRV_WIRE_PART;
	in = be_asked(&d, PEER, 9);
	cr_assert_eq(driver_last(in)->features, TAGRV_WIRE_PART);
	cr_assert_not(d.event.features & TAGRV_WIRE_SOCKETLESS);
	give(&d, in, TAGRV_WIREUP_RTU, PEER, 9);
	cr_assert_eq(d.conn.state, TAGRV_CONN_READY);
	cr_assert_not(tagrv_conn_has_spare_socket(&d.conn));
}

Test(conn_socket, a_socket_is_not_spare_while_something_needs_it)
{
	struct tagrv_wireup_rec rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER + 1, 1);
	struct driver_chan *in = driver_open(&d, false);

	/* A claim, for which the peer is asked. */
	driver_record(&d, in, &rec);
	cr_assert(d.conn.claim);
	cr_assert_not(tagrv_conn_has_spare_socket(&d.conn));
	driver_answer(&d, false);
	cr_assert(tagrv_conn_has_spare_socket(&d.conn));
	driver_renew(&d, true, 20000);
	cr_assert_not(tagrv_conn_has_spare_socket(&d.conn));
}

Test(conn_socket, it_is_closed_with_a_word)
{
	driver_save_socket(&d);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_CLOSE);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_SOCKET_CLOSED);
	cr_assert(chan->hung_up);
	check_socketless();
	cr_assert_eq(d.host.closed_sockets, 1);
	driver_save_socket(&d);
	cr_assert_eq(d.host.closed_sockets, 1, "there was none any more");
}

Test(conn_socket, the_word_of_the_peer_closes_it)
{
	peer_closes_socket(chan);
	cr_assert(chan->hung_up, "or what we send next is lost");
	check_socketless();
	cr_assert_eq(d.host.closed_sockets, 1);
}

/* Anybody may say so who knows only the address. */
Test(conn_socket, a_word_about_another_link_closes_nothing)
{
	struct tagrv_wireup_rec rec = driver_rec(&d, TAGRV_WIREUP_CLOSE, PEER, 7);

	give_reason(&d, chan, TAGRV_WIREUP_CLOSE, PEER, 6, TAGRV_WIREUP_SOCKET_CLOSED);
	rec.reason = TAGRV_WIREUP_SOCKET_CLOSED;
	rec.dst_nonce[3]++;
	driver_record(&d, chan, &rec);
	cr_assert(chan->open);
	cr_assert_not(d.conn.sockets_closed);
	driver_close(&d, chan);
	cr_assert(d.dial, "a broken socket without a word is a doubt");
}

/* The record is lost, or crossed by a break: the peer resumes. */
Test(conn_socket, peer_that_doubts_gets_a_socket_again)
{
	struct driver_chan *in;

	driver_save_socket(&d);
	in = be_resumed();
	check_sound();
	cr_assert(in->open);
	cr_assert_eq(d.host.reopened_sockets, 1);
	cr_assert(tagrv_conn_has_spare_socket(&d.conn));
	/* This one is a sign of life as the first one was. */
	driver_close(&d, in);
	cr_assert(d.dial);
	driver_fail_dial(&d, -FI_ECONNREFUSED);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.event.status, -FI_ECONNRESET);
}

Test(conn_socket, it_is_closed_again)
{
	for (unsigned i = 1; i < 5; i++) {
		driver_save_socket(&d);
		check_socketless();
		cr_assert_eq(d.host.closed_sockets, i);
		be_resumed();
		cr_assert_eq(d.host.reopened_sockets, i);
	}
}

/* Both have dialed, and the peer closes the socket that is not to stay. */
Test(conn_socket, another_socket_stays)
{
	struct driver_chan *in;

	driver_drop(&d);
	d.ups = 0;
	chan = ask(&d);
	in = be_asked(&d, PEER, 8);
	give(&d, in, TAGRV_WIREUP_RTU, PEER, 8);
	check_sound();
	cr_assert(chan->open && in->open);
	give_reason(&d, in, TAGRV_WIREUP_CLOSE, PEER, 8, TAGRV_WIREUP_SOCKET_CLOSED);
	cr_assert(in->hung_up && chan->open);
	cr_assert_not(d.conn.sockets_closed);
	give(&d, chan, TAGRV_WIREUP_REP, PEER, 8);
	give_reason(&d, chan, TAGRV_WIREUP_CLOSE, PEER, 8, TAGRV_WIREUP_SOCKET_CLOSED);
	check_socketless();
}

Test(conn_socket, restarted_peer_is_noticed_by_its_request)
{
	struct driver_chan *in;

	driver_save_socket(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, PEER + 1, 1);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.ups, 2);
	give(&d, in, TAGRV_WIREUP_RTU, PEER + 1, 1);
	cr_assert_eq(d.conn.state, TAGRV_CONN_READY);
	cr_assert_not(d.conn.sockets_closed);
}

/* But not by one that is not proven. */
Test(conn_socket, stranger_does_not_end_it)
{
	struct tagrv_wireup_rec rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER + 1, 1);
	struct driver_chan *in = driver_open(&d, false);

	driver_save_socket(&d);
	driver_record(&d, in, &rec);
	driver_answer(&d, false);
	cr_assert(in->hung_up);
	check_socketless();
}

Test(conn_socket, renewal_opens_one)
{
	struct driver_chan *out;

	driver_save_socket(&d);
	driver_renew(&d, true, 20000);
	out = driver_answer_dial(&d);
	cr_assert_eq(driver_last(out)->reason, TAGRV_WIREUP_RENEWAL);
	cr_assert_eq(driver_last(out)->dst_epoch, 7);
}

/* Our REQ and the word of the peer cross: what we sent was not read. */
Test(conn_socket, renewal_that_crosses_the_word_is_repeated)
{
	struct driver_chan *out;

	driver_renew(&d, true, 20000);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	peer_closes_socket(chan);
	cr_assert(chan->hung_up);
	cr_assert(d.dial);
	out = driver_answer_dial(&d);
	cr_assert_eq(driver_last(out)->reason, TAGRV_WIREUP_RENEWAL);
	check_sound();
	cr_assert_eq(d.fake.created, 2, "of the same link");
}

/* Nobody listens there any more, but nothing is awaited. */
Test(conn_socket, death_is_not_looked_for)
{
	driver_save_socket(&d);
	check_socketless();
	/* The engine learns of it by the link. */
	driver_drop(&d);
	cr_assert(tagrv_conn_is_idle(&d.conn));
	cr_assert_not(d.dial);
}
