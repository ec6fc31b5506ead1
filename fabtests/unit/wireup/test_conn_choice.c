/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine with two transports: which one is chosen, and what
 * happens when one side cannot use it. "local" is preferred to "device".
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/wireup/conn_driver.h"

#define US	10
#define PEER	20

static void init(struct driver *d)
{
	driver_init(d, US, PEER);
	driver_add_local(d);
}

/* A record of a peer that has both transports, or only these. */
static struct tagrv_wireup_rec record(const struct driver *d,
				      enum tagrv_wireup_rec_type type,
				      uint32_t epoch, bool local, bool device)
{
	struct tagrv_wireup_rec rec = driver_rec(d, type, PEER, epoch);

	rec.link_cnt = 0;
	rec.max_packet = 1500;
	if (device)
		rec.links[rec.link_cnt++] = (struct tagrv_wireup_blob) {
			.wire_id = FAKE_WIRE_ID, .len = 8, .max_packet = 4000,
			.data = { PEER, (uint8_t) epoch },
		};
	if (local)
		rec.links[rec.link_cnt++] = (struct tagrv_wireup_blob) {
			.wire_id = FAKE_LOCAL_ID, .len = 8, .max_packet = 1500,
			.data = { PEER, (uint8_t) epoch, 1 },
		};
	return rec;
}

static void give(struct driver *d, struct driver_chan *chan,
		 enum tagrv_wireup_rec_type type, uint32_t epoch, bool local,
		 bool device)
{
	struct tagrv_wireup_rec rec = record(d, type, epoch, local, device);

	driver_record(d, chan, &rec);
	if (type == TAGRV_WIREUP_REQ && d->conn.claim)
		driver_answer(d, true);
}

static struct driver_chan *ask(struct driver *d)
{
	driver_want(d);
	return driver_answer_dial(d);
}

static bool offers(const struct driver_chan *chan, bool local, bool device)
{
	const struct tagrv_wireup_rec *rec = driver_last(chan);
	bool has_local = false, has_device = false;

	for (size_t i = 0; i < rec->link_cnt; i++) {
		has_local |= rec->links[i].wire_id == FAKE_LOCAL_ID;
		has_device |= rec->links[i].wire_id == FAKE_WIRE_ID;
	}
	return has_local == local && has_device == device;
}

Test(conn_choice, active_side_offers_all_and_uses_the_answer, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	chan = ask(&d);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	cr_assert(offers(chan, true, true));
	cr_assert_eq(driver_last(chan)->max_packet, 2048, "of the smaller");
	cr_assert_eq(driver_last(chan)->links[0].max_packet, 2048);
	cr_assert_eq(driver_last(chan)->links[1].max_packet, 4096);
	give(&d, chan, TAGRV_WIREUP_REP, 7, false, true);
	cr_assert(d.sendable);
	cr_assert(!driver_is_local(&d));
	cr_assert_eq(d.event.max_packet, 4000, "of the link");
	cr_assert_eq(d.local.discarded, 1);
	driver_fini(&d);
}

Test(conn_choice, passive_side_chooses_the_best_and_makes_no_other, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, 7, true, true);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REP);
	cr_assert(offers(chan, true, false));
	cr_assert(driver_is_local(&d));
	cr_assert_eq(d.event.max_packet, 1500);
	cr_assert_eq(d.fake.created, 0);
	give(&d, chan, TAGRV_WIREUP_REQ, 7, true, true);
	cr_assert(!memcmp(&chan->sent[0], &chan->sent[1],
			  sizeof(chan->sent[0])));
	driver_fini(&d);
}

Test(conn_choice, links_that_cannot_be_bound_are_passed_over, .timeout = 10)
{
	/* Another host; or a copy of this host, without a socket of that name. */
	static const int reasons[] = { -FI_EHOSTUNREACH, -FI_ECONNREFUSED };
	struct driver_chan *chan;
	struct driver d;

	for (int i = 0; i < 2; i++) {
		init(&d);
		d.local.bind_status = reasons[i];
		chan = driver_open(&d, false);
		give(&d, chan, TAGRV_WIREUP_REQ, 7, true, true);
		cr_assert(offers(chan, false, true));
		cr_assert(!driver_is_local(&d));
		cr_assert_eq(d.local.discarded, 1);
		cr_assert_eq(d.ups, 1);
		driver_fini(&d);
	}
	/* The same when the link cannot be created. */
	init(&d);
	d.local.create_status = -FI_EMFILE;
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, 7, true, true);
	cr_assert(!driver_is_local(&d));
	driver_fini(&d);
	init(&d);
	d.local.create_status = -FI_EMFILE;
	chan = ask(&d);
	cr_assert(offers(chan, false, true));
	driver_fini(&d);
}

Test(conn_choice, peer_of_an_older_release_offers_one_link, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, 7, false, true);
	cr_assert(offers(chan, false, true));
	cr_assert_eq(d.local.created, 0);
	driver_fini(&d);
	init(&d);
	chan = ask(&d);
	give(&d, chan, TAGRV_WIREUP_REP, 7, false, true);
	cr_assert(d.sendable);
	driver_fini(&d);
}

Test(conn_choice, request_without_a_usable_link_is_refused, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	d.local.bind_status = -FI_EHOSTUNREACH;
	d.fake.bind_status = -FI_ENETUNREACH;
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, 7, true, true);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REJ);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_TRANSPORT);
	cr_assert(tagrv_conn_is_idle(&d.conn));
	/* Temporary failures are tried again. */
	d.local.bind_status = -FI_ENOMEM;
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, 7, true, true);
	cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_BUSY);
	cr_assert_eq(d.ups + d.gones + d.faileds, 0);
	driver_fini(&d);
}

Test(conn_choice, answer_that_cannot_be_bound_is_asked_for_again, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	d.local.bind_status = -FI_EHOSTUNREACH;
	chan = ask(&d);
	give(&d, chan, TAGRV_WIREUP_REP, 7, true, false);
	cr_assert_eq(d.ups + d.faileds, 0);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	cr_assert_eq(driver_last(chan)->src_epoch, 2, "other links");
	cr_assert(offers(chan, false, true));
	cr_assert(d.timer_at, "it does not wait for ever");
	give(&d, chan, TAGRV_WIREUP_REP, 8, false, true);
	cr_assert(d.sendable);
	cr_assert(!driver_is_local(&d));
	driver_fini(&d);
	/* No transport is left: it fails, and the peer is told. */
	init(&d);
	d.local.bind_status = -FI_EHOSTUNREACH;
	d.fake.bind_status = -FI_ENETUNREACH;
	chan = ask(&d);
	give(&d, chan, TAGRV_WIREUP_REP, 7, true, false);
	give(&d, chan, TAGRV_WIREUP_REP, 8, false, true);
	cr_assert_eq(d.faileds, 1);
	cr_assert_eq(d.event.status, -FI_EHOSTUNREACH);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_CLOSE);
	driver_fini(&d);
}

Test(conn_choice, answer_by_what_was_not_offered_fails, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	d.local.create_status = -FI_EMFILE;
	chan = ask(&d);
	give(&d, chan, TAGRV_WIREUP_REP, 7, true, false);
	cr_assert_eq(d.faileds, 1);
	cr_assert_eq(d.event.status, -FI_EHOSTUNREACH);
	driver_fini(&d);
}

Test(conn_choice, request_for_another_link_takes_the_first_one_back, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	chan = driver_open(&d, false);
	give(&d, chan, TAGRV_WIREUP_REQ, 7, true, true);
	cr_assert(driver_is_local(&d));
	give(&d, chan, TAGRV_WIREUP_REQ, 8, false, true);
	cr_assert_eq(d.agains, 1, "what waits goes over the next one");
	cr_assert_eq(d.gones, 0);
	cr_assert_eq(d.ups, 2);
	cr_assert(!driver_is_local(&d));
	cr_assert(offers(chan, false, true));
	give(&d, chan, TAGRV_WIREUP_RTU, 8, false, false);
	cr_assert(d.sendable);
	driver_fini(&d);
}

/* -- crossing requests that end in different choices -- */

Test(conn_choice, a_lesser_choice_shows_what_the_peer_lacks, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	init(&d);
	out = ask(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, 7, true, true);
	cr_assert(driver_is_local(&d));
	give(&d, out, TAGRV_WIREUP_REP, 7, false, true);
	cr_assert_eq(d.agains, 1);
	cr_assert_eq(d.gones + d.faileds, 0);
	cr_assert_eq(driver_last(out)->type, TAGRV_WIREUP_REQ);
	cr_assert(offers(out, false, true));
	/* The peer begins again as well, and its request arrives first. */
	give(&d, in, TAGRV_WIREUP_REQ, 8, false, true);
	cr_assert(!driver_is_local(&d));
	give(&d, out, TAGRV_WIREUP_REP, 8, false, true);
	cr_assert(d.sendable);
	cr_assert_eq(d.ups, 2);
	driver_fini(&d);
}

/* The socket of the new REQ breaks; the peer's own one is still there. */
Test(conn_choice, new_request_is_sent_again_if_its_socket_breaks, .timeout = 10)
{
	struct driver_chan *chan, *accepted;
	struct driver d;

	init(&d);
	chan = ask(&d);
	accepted = driver_open(&d, false);
	give(&d, accepted, TAGRV_WIREUP_REQ, 7, true, true);
	give(&d, chan, TAGRV_WIREUP_REP, 7, false, true);
	cr_assert_eq(d.conn.state, TAGRV_CONN_WANTED);
	cr_assert(accepted->open);
	driver_close(&d, chan);
	driver_run_timer(&d);
	cr_assert(d.dial, "long before the deadline");
	chan = driver_answer_dial(&d);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	give(&d, chan, TAGRV_WIREUP_REP, 8, false, true);
	cr_assert(d.sendable);
	driver_fini(&d);
}

Test(conn_choice, a_lesser_choice_is_kept, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	init(&d);
	d.local.bind_status = -FI_EHOSTUNREACH;
	out = ask(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, 7, true, true);
	cr_assert(offers(in, false, true));
	give(&d, out, TAGRV_WIREUP_REP, 7, true, false);
	cr_assert_eq(d.agains, 1);
	cr_assert(offers(out, false, true));
	give(&d, out, TAGRV_WIREUP_REP, 8, false, true);
	cr_assert(d.sendable);
	cr_assert_eq(d.local.refused, 1, "what failed is not tried again");
	driver_fini(&d);
}

Test(conn_choice, answer_about_the_next_link_is_not_the_end, .timeout = 10)
{
	struct driver_chan *out, *in;
	struct driver d;

	init(&d);
	out = ask(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, 7, false, true);
	/* Between its request and this answer, the peer got a request for another link. */
	give(&d, out, TAGRV_WIREUP_REP, 8, false, true);
	cr_assert_eq(d.agains, 1);
	cr_assert_eq(d.gones, 0);
	cr_assert_eq(driver_last(out)->type, TAGRV_WIREUP_REQ);
	give(&d, out, TAGRV_WIREUP_REP, 9, false, true);
	cr_assert(d.sendable);
	driver_fini(&d);
}

/* -- resuming -- */

Test(conn_choice, resumed_handshake_names_the_link_chosen, .timeout = 10)
{
	struct driver_chan *in, *out;
	struct driver d;

	init(&d);
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, 7, true, true);
	driver_close(&d, in);
	driver_run_timer(&d);
	out = driver_answer_dial(&d);
	cr_assert_eq(driver_last(out)->dst_epoch, 7);
	cr_assert(offers(out, true, false));
	give(&d, out, TAGRV_WIREUP_REP, 7, true, false);
	cr_assert(d.sendable);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

Test(conn_choice, resuming_with_an_unusable_link_begins_again, .timeout = 10)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *in, *out;
	struct driver d;

	init(&d);
	d.local.bind_status = -FI_EHOSTUNREACH;
	out = ask(&d);
	driver_close(&d, out);
	rec = record(&d, TAGRV_WIREUP_REQ, 7, true, false);
	memcpy(rec.dst_uuid, d.host.uuid, TAGRV_UUID_LEN);
	rec.dst_epoch = d.conn.epoch;
	memcpy(rec.dst_nonce, d.conn.nonce, TAGRV_NONCE_LEN);
	in = driver_open(&d, false);
	driver_record(&d, in, &rec);
	cr_assert_eq(driver_last(in)->type, TAGRV_WIREUP_REJ);
	cr_assert_eq(driver_last(in)->reason, TAGRV_WIREUP_STALE);
	cr_assert_eq(d.faileds, 0);
	while (!d.dial)
		driver_run_timer(&d);
	out = driver_answer_dial(&d);
	cr_assert_eq(driver_last(out)->src_epoch, 2);
	cr_assert(offers(out, false, true));
	give(&d, out, TAGRV_WIREUP_REP, 8, false, true);
	cr_assert(d.sendable);
	driver_fini(&d);
}

Test(conn_choice, link_that_the_same_peer_forgot_can_be_replaced, .timeout = 10)
{
	struct tagrv_wireup_rec rec;
	struct driver_chan *in, *out;
	struct driver d;

	init(&d);
	for (int restarted = 0; restarted < 2; restarted++) {
		in = driver_open(&d, false);
		give(&d, in, TAGRV_WIREUP_REQ, 7, true, true);
		driver_close(&d, in);
		driver_run_timer(&d);
		out = driver_answer_dial(&d);
		rec = record(&d, TAGRV_WIREUP_REJ, 0, false, false);
		rec.reason = TAGRV_WIREUP_STALE;
		rec.src_uuid[1] = (uint8_t) restarted;
		driver_record(&d, out, &rec);
		cr_assert(tagrv_conn_is_idle(&d.conn));
		cr_assert_eq(d.agains, 1);
		cr_assert_eq(d.gones, restarted, "another process is none of ours");
	}
	driver_fini(&d);
}

Test(conn_choice, a_failure_is_forgotten_with_the_connection, .timeout = 10)
{
	struct driver_chan *chan;
	struct driver d;

	init(&d);
	d.local.bind_status = -FI_EMFILE;
	chan = ask(&d);
	give(&d, chan, TAGRV_WIREUP_REP, 7, true, false);
	give(&d, chan, TAGRV_WIREUP_REP, 8, false, true);
	driver_drop(&d);
	d.local.bind_status = 0;
	chan = ask(&d);
	cr_assert(offers(chan, true, true));
	give(&d, chan, TAGRV_WIREUP_REP, 9, true, false);
	cr_assert(driver_is_local(&d));
	driver_fini(&d);
}
