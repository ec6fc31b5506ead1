/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine, scripted event by event: how a connection comes up,
 * and which records belong to a new one.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/wireup/conn_calls.h"
#include "xport/taglist.h"

Test(conn, active_side_asks_binds_and_confirms, .timeout = 10)
{
	const struct tagrv_wireup_rec *rec;
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	cr_assert_eq(d.fake.created, 0, "no link before somebody answers");
	driver_want(&d);
	chan = driver_answer_dial(&d);
	rec = driver_last(chan);
	cr_assert_eq(rec->type, TAGRV_WIREUP_REQ);
	cr_assert_eq(rec->src_epoch, 1);
	cr_assert_eq(rec->dst_epoch, 0);
	cr_assert_eq(rec->max_packet, 4096);
	cr_assert_eq(rec->link_cnt, 1);
	cr_assert_eq(d.fake.created, 1);
	cr_assert_eq(d.ups, 0);
	give(&d, chan, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(d.ups, 1);
	cr_assert(d.event.sendable);
	cr_assert_eq(d.event.max_packet, 2048);
	cr_assert_eq(d.event.epoch, 1);
	cr_assert_eq(d.event.uuid[0], PEER);
	rec = driver_last(chan);
	cr_assert_eq(rec->type, TAGRV_WIREUP_RTU);
	cr_assert_eq(rec->dst_epoch, 7);
	cr_assert_eq(d.timer_at, 0);
	driver_fini(&d);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_CLOSE);
}

Test(conn, passive_side_is_up_before_it_answers, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = be_asked(&d, PEER, 7);
	cr_assert_eq(d.ups, 1);
	cr_assert(!d.event.sendable);
	cr_assert_eq(driver_last(chan)->dst_epoch, 7);
	give(&d, chan, TAGRV_WIREUP_RTU, PEER, 7);
	cr_assert_eq(d.sendables, 1);
	cr_assert_eq(d.timer_at, 0);
	/* A second RTU has no effect. */
	give(&d, chan, TAGRV_WIREUP_RTU, PEER, 7);
	cr_assert_eq(d.sendables, 1);
	driver_fini(&d);
}

Test(conn, duplicate_request_gets_the_same_answer, .timeout = 10)
{
	struct driver_chan *chan, *again;
	struct driver d;

	driver_init(&d, US, PEER);
	chan = be_asked(&d, PEER, 7);
	give(&d, chan, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(chan->sent_cnt, 2);
	cr_assert(!memcmp(&chan->sent[0], &chan->sent[1],
			  sizeof(chan->sent[0])));
	again = driver_open(&d, false);
	give(&d, again, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert(!memcmp(&chan->sent[0], driver_last(again),
			  sizeof(chan->sent[0])));
	cr_assert(chan->hung_up, "the newer socket replaces the older");
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.gones, 0);
	cr_assert_eq(d.fake.created, 1);
	driver_fini(&d);
}

Test(conn, crossing_requests_share_one_link, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	driver_init(&d, US, PEER);
	out = ask(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(d.fake.created, 1);
	cr_assert(!memcmp(driver_last(in)->links, driver_last(out)->links,
			  sizeof(driver_last(in)->links)));
	cr_assert_eq(d.ups, 1);
	cr_assert(!d.sendable);
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert(d.sendable);
	cr_assert_eq(driver_last(out)->type, TAGRV_WIREUP_RTU);
	/* The own uuid is smaller: the dialed socket stays. */
	cr_assert(in->hung_up);
	cr_assert(out->open);
	driver_fini(&d);
}

Test(conn, larger_uuid_keeps_the_accepted_socket, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	driver_init(&d, US, LESS);
	out = ask(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, LESS, 7);
	give(&d, in, TAGRV_WIREUP_RTU, LESS, 7);
	cr_assert(d.sendable);
	cr_assert(out->hung_up);
	cr_assert(in->open);
	cr_assert_eq(d.gones, 0);
	driver_fini(&d);
}

Test(conn, socket_closed_by_the_choice_of_the_peer_is_not_the_end, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	driver_init(&d, US, PEER);
	out = ask(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, PEER, 7);
	/* The peer is ready and closes the socket it dialed; its RTU is on the way. */
	driver_close(&d, in);
	cr_assert_eq(d.gones, 0);
	cr_assert(!d.dial);
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert(d.sendable);
	/* This is no end, either, unless nobody listens at its address any more. */
	driver_close(&d, out);
	cr_assert_eq(d.gones, 0);
	driver_fail_dial(&d, -FI_ECONNREFUSED);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.event.status, -FI_ECONNRESET);
	driver_fini(&d);
}

Test(conn, request_makes_a_queued_dial_needless, .timeout = 10)
{
	struct driver_chan *in;
	struct driver d;

	driver_init(&d, US, PEER);
	driver_want(&d);
	cr_assert(d.dial);
	in = be_asked(&d, PEER, 7);
	cr_assert(!d.dial);
	give(&d, in, TAGRV_WIREUP_RTU, PEER, 7);
	cr_assert(d.sendable);
	driver_fini(&d);
}

Test(conn, lost_rtu_is_replaced_by_dialing, .timeout = 10)
{
	const struct tagrv_wireup_rec *rec;
	struct driver_chan *in, *out;
	uint32_t epoch;
	struct driver d;

	driver_init(&d, US, PEER);
	in = be_asked(&d, PEER, 7);
	epoch = d.conn.epoch;
	driver_close(&d, in);
	cr_assert_eq(d.gones, 0);
	driver_run_timer(&d);
	out = driver_answer_dial(&d);
	rec = driver_last(out);
	cr_assert_eq(rec->type, TAGRV_WIREUP_REQ);
	cr_assert_eq(rec->src_epoch, epoch);
	cr_assert_eq(rec->dst_epoch, 7);
	cr_assert_eq(rec->dst_uuid[0], PEER);
	cr_assert(!memcmp(rec->links, in->sent[0].links, sizeof(rec->links)));
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert(d.sendable);
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.fake.created, 1);
	driver_fini(&d);
}

Test(conn, peer_that_died_while_connecting_is_gone, .timeout = 10)
{
	struct driver_chan *in, *out;
	struct driver d;

	/* Its port refuses, ... */
	driver_init(&d, US, PEER);
	in = be_asked(&d, PEER, 7);
	driver_close(&d, in);
	driver_run_timer(&d);
	driver_fail_dial(&d, -FI_ECONNREFUSED);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.event.status, -FI_ECONNRESET);
	cr_assert(tagrv_conn_is_idle(&d.conn));
	/* ... another process answers, ... */
	in = be_asked(&d, PEER, 8);
	driver_close(&d, in);
	driver_run_timer(&d);
	out = driver_answer_dial(&d);
	give_reason(&d, out, TAGRV_WIREUP_REJ, PEER + 1, 1,
		    TAGRV_WIREUP_STALE);
	cr_assert_eq(d.gones, 2);
	cr_assert(tagrv_conn_is_idle(&d.conn));
	/* ... or none answers for a long time. */
	in = be_asked(&d, PEER, 9);
	driver_close(&d, in);
	while (!tagrv_conn_is_idle(&d.conn)) {
		if (d.dial)
			driver_fail_dial(&d, -FI_EHOSTUNREACH);
		else
			driver_run_timer(&d);
	}
	cr_assert_eq(d.gones, 3);
	cr_assert_eq(d.faileds, 0);
	driver_fini(&d);
}

Test(conn, older_epoch_is_ignored, .timeout = 10)
{
	struct driver_chan *in, *late;
	struct driver d;

	driver_init(&d, US, PEER);
	in = be_asked(&d, PEER, 7);
	late = driver_open(&d, false);
	give(&d, late, TAGRV_WIREUP_REQ, PEER, 6);
	cr_assert(late->hung_up);
	cr_assert_eq(late->sent_cnt, 0);
	cr_assert(in->open);
	cr_assert_eq(d.gones, 0);
	give(&d, in, TAGRV_WIREUP_RTU, PEER, 6);
	cr_assert_eq(d.sendables, 0);
	/* Epochs wrap: UINT32_MAX is just before 1. */
	driver_fini(&d);
	driver_init(&d, US, PEER);
	in = be_asked(&d, PEER, 1);
	late = driver_open(&d, false);
	give(&d, late, TAGRV_WIREUP_REQ, PEER, UINT32_MAX);
	cr_assert_eq(d.gones, 0);
	driver_fini(&d);
}

Test(conn, newer_epoch_is_a_new_connection, .timeout = 10)
{
	struct driver_chan *in, *next;
	struct driver d;
	uint32_t epoch;

	driver_init(&d, US, PEER);
	in = connect_to(&d, PEER, 7);
	epoch = d.event.epoch;
	next = driver_open(&d, false);
	give(&d, next, TAGRV_WIREUP_REQ, PEER, 8);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.ups, 2);
	cr_assert_neq(d.event.epoch, epoch);
	cr_assert_eq(d.fake.created, 2);
	cr_assert(in->hung_up);
	/* On the same socket, too; over the previous link nothing was sent. */
	give(&d, next, TAGRV_WIREUP_REQ, PEER, 9);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.agains, 1);
	cr_assert_eq(d.ups, 3);
	cr_assert(next->open);
	driver_fini(&d);
}

Test(conn, other_uuid_is_a_new_incarnation, .timeout = 10)
{
	struct driver_chan *next;
	struct driver d;

	driver_init(&d, US, PEER);
	connect_to(&d, PEER, 7);
	next = driver_open(&d, false);
	give(&d, next, TAGRV_WIREUP_REQ, PEER + 1, 1);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.ups, 2);
	cr_assert_eq(d.event.uuid[0], PEER + 1);
	driver_fini(&d);
}

Test(conn, answer_of_another_incarnation_ends_the_connection, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	driver_init(&d, US, PEER);
	out = ask(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, PEER, 7);
	give(&d, out, TAGRV_WIREUP_REP, PEER + 1, 1);
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.event.status, -FI_ECONNRESET);
	cr_assert(tagrv_conn_is_idle(&d.conn));
	cr_assert_eq(driver_last(out)->type, TAGRV_WIREUP_CLOSE);
	cr_assert_eq(driver_last(out)->dst_uuid[0], PEER + 1);
	cr_assert_eq(driver_last(out)->dst_epoch, 1);
	driver_fini(&d);
}

Test(conn, answer_to_an_earlier_epoch_is_ignored, .timeout = 10)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *out;
	struct driver d;

	driver_init(&d, US, PEER);
	d.host.epoch = 5;
	out = ask(&d);
	rec = driver_rec(&d, TAGRV_WIREUP_REP, PEER, 7);
	rec.dst_epoch = 5;
	driver_record(&d, out, &rec);
	cr_assert_eq(d.ups, 0);
	cr_assert_eq(d.conn.state, TAGRV_CONN_WANTED);
	driver_fini(&d);
}

Test(conn, records_for_other_endpoints_are_refused, .timeout = 10)
{
	struct tagrv_wireup_rec rec;
	struct driver d;

	driver_init(&d, US, PEER);
	rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(tagrv_conn_screen(&d.host, &rec), TAGRV_WIREUP_OK);
	rec.dst_uuid[0] = US + 1;
	cr_assert_eq(tagrv_conn_screen(&d.host, &rec), TAGRV_WIREUP_STALE);
	rec.type = TAGRV_WIREUP_REP;
	cr_assert_eq(tagrv_conn_screen(&d.host, &rec), -FI_EINVAL);
	rec = driver_rec(&d, TAGRV_WIREUP_REQ, US, 7);
	cr_assert_eq(tagrv_conn_screen(&d.host, &rec), TAGRV_WIREUP_SELF);
	d.host.xport_cnt = 0;
	rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(tagrv_conn_screen(&d.host, &rec), TAGRV_WIREUP_TRANSPORT);
}

static struct tagrv_addr listed_for;
static unsigned listed_cnt;

static int create_listed(struct tagrv_xport *xport, const struct tagrv_addr *peer, void *blob,
			 size_t *len, struct tagrv_link **link)
{
	listed_for = *peer;
	listed_cnt++;
	return xport->ops->link_create(xport, blob, len, link);
}

/* A list has to know whose messages come by a link, whichever side asks. */
Test(conn, link_to_a_list_is_made_for_its_peer, .timeout = 10)
{
	struct tagrv_taglist list = { .link_create = create_listed };
	struct driver_chan *chan;
	struct driver d;

	driver_init(&d, US, PEER);
	d.fake.base.list = &list;
	be_asked(&d, PEER, 7);
	cr_assert_eq(listed_cnt, 1);
	cr_assert(tagrv_addr_equal(&listed_for, &d.conn.addr));
	driver_drop(&d);
	listed_for = (struct tagrv_addr) { 0 };
	driver_want(&d);
	chan = driver_answer_dial(&d);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	cr_assert_eq(listed_cnt, 2);
	cr_assert(tagrv_addr_equal(&listed_for, &d.conn.addr));
	d.fake.base.list = NULL;	/* it was lost */
	give(&d, chan, TAGRV_WIREUP_REP, PEER, 8);
	driver_drop(&d);
	driver_want(&d);
	driver_answer_dial(&d);
	cr_assert_eq(d.fake.created, 3);
	cr_assert_eq(listed_cnt, 2);
	driver_fini(&d);
}
