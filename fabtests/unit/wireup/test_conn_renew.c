/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine, scripted event by event: renewals, and a peer that asks
 * for too many of them.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "common/alloc_fail.h"
#include "unit/wireup/conn_calls.h"

#define FLOOD	1000	/* renewals that a peer tries in one moment */
#define MANY	8	/* of them that may succeed */

static struct driver d;
static struct driver_chan *chan;

static void setup(void)
{
	driver_init(&d, LESS, PEER);
	chan = connect_to(&d, PEER, 7);
}

static void teardown(void)
{
	cr_assert_eq(d.gones + d.agains + d.faileds, 0);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

TestSuite(conn_renew, .init = setup, .fini = teardown, .timeout = 20);

/* The peer's REQ for a renewal; returns the type of the answer. */
static enum tagrv_wireup_rec_type be_asked_to_renew(uint32_t epoch)
{
	struct tagrv_wireup_rec rec = driver_rec(&d, TAGRV_WIREUP_REQ, PEER, epoch);

	rec.reason = TAGRV_WIREUP_RENEWAL;
	memcpy(rec.dst_uuid, d.host.uuid, TAGRV_UUID_LEN);
	memcpy(rec.dst_nonce, d.conn.nonce, TAGRV_NONCE_LEN);
	rec.dst_epoch = d.conn.epoch;
	chan->sent_cnt = 0;
	driver_record(&d, chan, &rec);
	return driver_last(chan)->type;
}

/* The peer's RTU or REP that names our new link. */
static void name_new(enum tagrv_wireup_rec_type type, uint32_t epoch)
{
	struct tagrv_wireup_rec rec = driver_rec(&d, type, PEER, epoch);

	rec.reason = type == TAGRV_WIREUP_REP ? TAGRV_WIREUP_RENEWAL : TAGRV_WIREUP_OK;
	memcpy(rec.dst_nonce, d.conn.renew->nonce, TAGRV_NONCE_LEN);
	rec.dst_epoch = d.conn.renew->epoch;
	chan->sent_cnt = 0;
	driver_record(&d, chan, &rec);
}

/* A peer's offers that it takes back by the next one. */
Test(conn_renew, offers_of_a_flood_make_few_links)
{
	uint32_t epoch = 8;
	int reps = 0;

	for (int i = 0; i < FLOOD; i++) {
		enum tagrv_wireup_rec_type type = be_asked_to_renew(epoch++);

		reps += type == TAGRV_WIREUP_REP;
		if (type == TAGRV_WIREUP_REP)
			continue;
		cr_assert_eq(type, TAGRV_WIREUP_REJ);
		cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_BUSY);
	}
	cr_assert_leq(reps, MANY);
	cr_assert_leq(d.fake.created, 1 + MANY);
	cr_assert_leq(d.fake.alive, 2);
	cr_assert(chan->open);
	/* An honest one gets its link soon, all the same. */
	d.now += 1000;
	cr_assert_eq(be_asked_to_renew(epoch), TAGRV_WIREUP_REP);
	name_new(TAGRV_WIREUP_RTU, epoch);
	cr_assert_eq(d.renewals, 1);
}

Test(conn_renew, renewals_of_a_flood_are_few)
{
	uint32_t epoch = 8;

	for (int i = 0; i < FLOOD; i++) {
		if (be_asked_to_renew(epoch) == TAGRV_WIREUP_REP)
			name_new(TAGRV_WIREUP_RTU, epoch);
		epoch++;
	}
	cr_assert_geq(d.renewals, 1);
	cr_assert_leq(d.renewals, MANY);
	cr_assert_leq(d.fake.created, 1 + MANY);
}

/* A peer that breaks each new path has us ask, which costs the same. */
Test(conn_renew, we_ask_not_more_often_for_its_sake)
{
	uint32_t epoch = 8;
	uint64_t start = d.now;

	while (d.renewals < 3 * MANY) {
		driver_renew(&d, true, 60000);
		if (d.conn.renew->state == TAGRV_CONN_OFFERED)
			name_new(TAGRV_WIREUP_REP, epoch++);
		else
			driver_run_timer(&d);
	}
	cr_assert_geq(d.now - start, (2 * MANY - 1) * 1000u);
	cr_assert_leq(d.now - start, 4 * MANY * 1000u, "but as often as that");
}

/* Adapters that fail and come back now and then are not held up. */
Test(conn_renew, a_few_renewals_are_made_at_once)
{
	for (uint32_t i = 0; i < 100; i++) {
		uint64_t start = d.now;

		driver_renew(&d, true, 60000);
		name_new(TAGRV_WIREUP_REP, 8 + i);
		cr_assert_eq(d.renewals, 1 + (int) i);
		cr_assert_eq(d.now, start);
		d.now += i % 4 ? 10 : 5000;
	}
}

/* Its record of the renewal, its link's in the driver, and its blob: whichever is missing. */
Test(conn_renew, without_memory_a_peer_is_asked_to_come_again)
{
	uint32_t epoch = 8;

	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	for (size_t nth = 1; ; nth++) {
		enum tagrv_wireup_rec_type type;

		alloc_fail_arm(nth, false);
		type = be_asked_to_renew(epoch++);
		if (alloc_fail_disarm() < nth) {
			cr_assert_eq(type, TAGRV_WIREUP_REP);
			cr_assert_gt(nth, 2);
			break;
		}
		cr_assert_eq(type, TAGRV_WIREUP_REJ);
		cr_assert_eq(driver_last(chan)->reason, TAGRV_WIREUP_BUSY);
		cr_assert_eq(d.conn.renew, &tagrv_conn_at_rest);
		d.now += 1000;
	}
	name_new(TAGRV_WIREUP_RTU, epoch - 1);
	cr_assert_eq(d.renewals, 1);
}

Test(conn_renew, without_memory_the_engine_has_its_answer_at_once)
{
	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	alloc_fail_arm(1, false);
	driver_renew(&d, false, 60000);
	alloc_fail_disarm();
	cr_assert_eq(d.unrenewed, 1);
	cr_assert_eq(d.conn.renew, &tagrv_conn_at_rest);
	driver_renew(&d, true, 60000);
	name_new(TAGRV_WIREUP_REP, 8);
	cr_assert_eq(d.renewals, 1);
}

/* The last path has failed: without a new one the connection has ended. */
Test(conn_renew_gone, without_memory_and_without_paths, .init = setup, .timeout = 20)
{
	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	alloc_fail_arm(1, false);
	driver_renew(&d, true, 60000);
	alloc_fail_disarm();
	cr_assert_eq(d.gones, 1);
	cr_assert_eq(d.event.status, -FI_EHOSTUNREACH);
	driver_fini(&d);
}

static int postponed;

static bool postpone(struct tagrv_conn *conn)
{
	cr_assert_eq(conn, &d.conn);
	postponed++;
	return true;
}

/* Devices are busy. The turn may come when the renewal has ended, or twice. */
Test(conn_renew, offer_waits_for_its_turn)
{
	static struct tagrv_conn_ops ops;

	ops = *d.host.ops;
	ops.postpone = postpone;
	d.host.ops = &ops;
	chan->sent_cnt = 0;
	driver_renew(&d, true, 60000);
	cr_assert_eq(postponed, 1);
	cr_assert_eq(chan->sent_cnt, 0);
	tagrv_conn_offer(&d.conn);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	name_new(TAGRV_WIREUP_REP, 8);
	cr_assert_eq(d.renewals, 1);
	chan->sent_cnt = 0;
	tagrv_conn_offer(&d.conn);
	tagrv_conn_miss_turn(&d.conn);
	cr_assert_eq(chan->sent_cnt, 0);
	cr_assert_eq(d.conn.renew, &tagrv_conn_at_rest);
	cr_assert_eq(postponed, 1);
}

/* Ports that come back, here and there, come one after the other. */
Test(conn_renew, one_that_is_not_urgent_waits_a_little)
{
	uint64_t start = d.now;

	chan->sent_cnt = 0;
	driver_renew(&d, false, 60000);
	cr_assert_eq(chan->sent_cnt, 0);
	driver_run_timer(&d);
	cr_assert_eq(d.now, start + 500);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	name_new(TAGRV_WIREUP_REP, 8);
	cr_assert_eq(d.renewals, 1);
	/* Unless it gets urgent meanwhile. */
	driver_renew(&d, false, 60000);
	d.down = true;
	chan->sent_cnt = 0;
	tagrv_conn_renew(&d.conn, d.event.epoch, true, 60000);
	cr_assert_eq(driver_last(chan)->type, TAGRV_WIREUP_REQ);
	name_new(TAGRV_WIREUP_REP, 9);
	cr_assert_eq(d.renewals, 2);
}

/* A port is back after many attempts have failed, whose pauses have grown. */
Test(conn_renew, hope_shortens_the_pauses)
{
	uint64_t since;

	driver_close(&d, chan);
	driver_renew(&d, true, 10000000);
	for (int i = 0; i < 30; i++) {
		if (d.dial)
			driver_fail_dial(&d, -FI_ETIMEDOUT);
		driver_run_timer(&d);
	}
	if (d.dial)
		driver_fail_dial(&d, -FI_ETIMEDOUT);
	since = d.now;
	cr_assert_gt(d.timer_at, since + 500, "pauses have grown");
	tagrv_conn_renew(&d.conn, d.event.epoch, true, 10000000);
	cr_assert_leq(d.timer_at, since + 500);
	driver_run_timer(&d);
	chan = driver_answer_dial(&d);
	name_new(TAGRV_WIREUP_REP, 8);
	cr_assert_eq(d.renewals, 1);
}

/* The messages that an idle connection keeps suffice for both events. */
Test(conn_renew, one_that_is_given_up_before_it_asked_leaves_room_for_gone)
{
	struct tagrv_wireup_rec rec = driver_rec(&d, TAGRV_WIREUP_CLOSE, PEER, 7);

	for (int i = 1; i <= 3; i++) {
		driver_renew(&d, false, 100);
		driver_run_timer(&d);
		cr_assert_eq(d.unrenewed, i);
	}
	driver_record(&d, chan, &rec);
	cr_assert_eq(d.gones, 1);
	d.gones = 0;	/* as it should be here */
}
