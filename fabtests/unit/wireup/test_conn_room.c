/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The connection state machine over a device that has room for few links.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/wireup/conn_calls.h"

TestSuite(conn_room, .timeout = 30);

static struct tagrv_quota quota;

static void start(struct driver *d, unsigned most, unsigned used)
{
	memset(&quota, 0, sizeof(quota));
	tagrv_quota_init(&quota, 1000, most);
	atomic_store(&quota.used, used);
	driver_init(d, US, PEER);
	d->fake.base.quotas[0] = &quota;
}

/* The attempt has ended, and another one will follow. */
static void expect_waits(const struct driver *d, const struct driver_chan *out)
{
	cr_assert(out->hung_up);
	cr_assert_eq(d->faileds, 0);
}

/* There is room: the next attempt succeeds. */
static void expect_up(struct driver *d)
{
	struct driver_chan *out;

	driver_run_timer(d);
	out = driver_answer_dial(d);
	give(d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(d->ups, 1);
}

Test(conn_room, wanted_connection_waits_without_a_socket)
{
	struct driver_chan *out;
	struct driver d;
	int timers = 0;

	start(&d, 3, 2);
	driver_want(&d);
	for (; d.now < 20000; timers++) {
		cr_assert_not(d.dial);
		cr_assert_eq(d.faileds, 0);
		driver_run_timer(&d);
	}
	cr_assert_geq(timers, 19000 / 160, "long pauses");
	cr_assert_eq(d.crowded, timers + 1, "each time it is said");
	tagrv_quota_give(&quota);
	driver_run_timer(&d);
	out = driver_answer_dial(&d);
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(d.ups, 1);
	cr_assert_eq(d.fake.created, 1);
	driver_fini(&d);
}

Test(conn_room, wait_ends_with_the_time_to_connect)
{
	uint64_t begin;
	struct driver d;

	start(&d, 2, 2);
	begin = d.now;
	driver_want(&d);
	while (!d.faileds)
		driver_run_timer(&d);
	cr_assert_eq(d.event.status, -FI_ENOSPC);
	cr_assert_eq(d.now - begin, 30000);
	driver_fini(&d);
}

/* Room that was there is gone when the socket is connected. */
Test(conn_room, link_that_cannot_be_made_is_waited_for)
{
	struct driver_chan *out;
	struct driver d;

	start(&d, 3, 0);
	driver_want(&d);
	atomic_store(&quota.used, 2);
	out = driver_answer_dial(&d);
	expect_waits(&d, out);
	atomic_store(&quota.used, 0);
	driver_run_timer(&d);
	atomic_store(&quota.used, 1);
	/* The device has less than it says. */
	d.fake.create_status = -FI_ENOMEM;
	atomic_store(&quota.lack, 1);
	atomic_store(&quota.lack_until, UINT64_MAX);
	out = driver_answer_dial(&d);
	expect_waits(&d, out);
	d.fake.create_status = 0;
	atomic_store(&quota.lack, 0);
	expect_up(&d);
	driver_fini(&d);
}

/*
 * Endpoints share a device: the room that a link of ours did not find may be there again when
 * we look.
 */
Test(conn_room, room_that_was_taken_for_a_moment_fails_no_dial)
{
	struct driver_chan *out;
	struct driver d;

	start(&d, 3, 0);
	driver_want(&d);
	d.fake.create_status = -FI_ENOSPC;
	out = driver_answer_dial(&d);
	expect_waits(&d, out);
	cr_assert_eq(d.crowded, 1);
	d.fake.create_status = 0;
	expect_up(&d);
	driver_fini(&d);
}

Test(conn_room, room_that_was_taken_for_a_moment_fails_no_answer)
{
	struct driver_chan *in;
	struct driver d;

	start(&d, 3, 2);	/* the last place is for answers */
	driver_want(&d);
	d.crowded = 0;
	d.fake.create_status = -FI_ENOSPC;
	in = driver_open(&d, false);
	give(&d, in, TAGRV_WIREUP_REQ, PEER, 7);
	cr_assert_eq(driver_last(in)->reason, TAGRV_WIREUP_BUSY);
	cr_assert_eq(d.faileds, 0);
	cr_assert_geq(d.crowded, 1);
	d.fake.create_status = 0;
	(void) be_asked(&d, PEER, 8);
	driver_fini(&d);
}

/* A device that is full of other processes' queue pairs: there is no link that could end. */
static struct driver_chan *refuse_first(struct driver *d)
{
	start(d, 0, 1);
	cr_assert_not(tagrv_quota_refused(&quota));
	atomic_store(&quota.lack_until, 0);
	tagrv_quota_give(&quota);
	d->fake.create_status = -FI_ENOMEM;
	driver_want(d);
	atomic_store(&quota.lack_until, UINT64_MAX);
	return driver_answer_dial(d);
}

Test(conn_room, first_link_waits_for_other_processes)
{
	struct driver_chan *out;
	struct driver d;

	out = refuse_first(&d);
	expect_waits(&d, out);
	d.fake.create_status = 0;
	atomic_store(&quota.lack_until, 0);
	expect_up(&d);
	driver_fini(&d);
}

Test(conn_room, first_link_waits_no_longer_than_others)
{
	struct driver d;
	uint64_t begin;

	refuse_first(&d);
	begin = d.now;
	while (!d.faileds)
		driver_run_timer(&d);
	cr_assert_eq(d.event.status, -FI_ENOSPC);
	cr_assert_eq(d.now - begin, 30000);
	driver_fini(&d);
}

/* Endpoints that have no room would wait for each other with links that nobody uses. */
Test(conn_room, link_is_given_back_while_a_busy_peer_is_awaited)
{
	struct driver_chan *out;
	struct driver d;

	start(&d, 3, 0);
	out = ask(&d);
	cr_assert_eq(d.fake.alive, 1);
	atomic_store(&quota.used, 3);
	give_reason(&d, out, TAGRV_WIREUP_REJ, PEER, 0, TAGRV_WIREUP_BUSY);
	cr_assert_eq(d.fake.alive, 0);
	atomic_store(&quota.used, 1);
	driver_run_timer(&d);
	out = driver_answer_dial(&d);
	cr_assert_eq(driver_last(out)->src_epoch, 2, "another link has another number");
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}

Test(conn_room, last_place_is_for_answers)
{
	struct driver d;

	start(&d, 2, 1);
	driver_want(&d);
	cr_assert_not(d.dial);
	(void) be_asked(&d, PEER, 7);
	driver_fini(&d);
}

static void refuse_requests(unsigned most, int status)
{
	struct driver_chan *in;
	struct driver d;

	start(&d, most, 2);
	d.fake.create_status = status;
	atomic_store(&quota.lack, 2);
	atomic_store(&quota.lack_until, UINT64_MAX);
	for (int wanted = 0; wanted < 2; wanted++) {
		if (wanted)
			driver_want(&d);
		d.crowded = 0;
		in = driver_open(&d, false);
		give(&d, in, TAGRV_WIREUP_REQ, PEER, (uint32_t) (7 + wanted));
		cr_assert_eq(driver_last(in)->reason, TAGRV_WIREUP_BUSY);
		cr_assert(in->hung_up);
		cr_assert_geq(d.crowded, 1);
		cr_assert_eq(d.faileds, 0);
	}
	d.fake.create_status = 0;
	atomic_store(&quota.used, 0);
	(void) be_asked(&d, PEER, 9);
	driver_fini(&d);
}

/* By the limit of the user, or of the device. */
Test(conn_room, without_room_a_request_is_to_come_again)
{
	refuse_requests(2, -FI_ENOSPC);
	refuse_requests(0, -FI_ENOMEM);
}

/* The device is full, but a process of this host needs none of it. */
Test(conn_room, local_peer_waits_for_no_device)
{
	struct driver_chan *out;
	struct driver d;

	start(&d, 2, 2);
	driver_add_local(&d);
	d.fake.base.quotas[0] = &quota;
	d.fake.create_status = -FI_ENOSPC;
	out = ask(&d);
	cr_assert_eq(driver_last(out)->link_cnt, 1);
	cr_assert_eq(driver_last(out)->links[0].wire_id, FAKE_LOCAL_ID);
	driver_fini(&d);
}

/* The peer cannot use the local link: the device, which has no room, is waited for. */
Test(conn_room, refused_local_link_waits_for_the_device)
{
	struct driver_chan *out;
	struct driver d;

	start(&d, 3, 2);
	driver_add_local(&d);
	d.fake.base.quotas[0] = &quota;
	d.here = true;
	out = ask(&d);
	cr_assert_eq(driver_last(out)->reason, TAGRV_WIREUP_LOCAL);
	cr_assert_eq(d.crowded, 0);
	give_reason(&d, out, TAGRV_WIREUP_REJ, PEER, 0, TAGRV_WIREUP_TRANSPORT);
	out = driver_answer_dial(&d);
	expect_waits(&d, out);
	cr_assert_eq(d.crowded, 1);
	tagrv_quota_give(&quota);
	while (!d.dial)
		driver_run_timer(&d);
	out = driver_answer_dial(&d);
	cr_assert_eq(driver_last(out)->reason, TAGRV_WIREUP_OK);
	cr_assert_eq(driver_last(out)->link_cnt, 1);
	cr_assert_eq(driver_last(out)->links[0].wire_id, FAKE_WIRE_ID);
	give(&d, out, TAGRV_WIREUP_REP, PEER, 7);
	cr_assert_eq(d.ups, 1);
	driver_fini(&d);
}
