/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * REQs in the name of another endpoint, over real sockets.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/wireup/wireup_fixture.h"

/* Sends a REQ that names this listener; returns the reason of the refusal. */
static uint8_t try_claim(struct ep *to, uint8_t who, uint32_t epoch,
			 const struct tagrv_addr *addr)
{
	struct tagrv_wireup_rec rec;
	struct raw raw;

	raw_open(&raw, to, who);
	raw.mine.addr = *addr;
	raw.mine.src_epoch = epoch;
	raw_send(&raw);
	cr_assert_eq(raw_recv(&raw, &rec), 1);
	cr_assert_eq(rec.type, TAGRV_WIREUP_REJ);
	cr_assert_eq(raw_recv(&raw, &rec), 0);
	close(raw.fd);
	return rec.reason;
}

/* The connection of two endpoints survives requests in the name of either. */
Test(wireup_claim, strangers_end_no_connection, .timeout = 60)
{
	enum { CLAIMS = 200 };
	struct tagrv_wireup *left = create(), *right = create();
	struct ep a, b;
	int stale = 0;

	open_ep(&a, left, 10);
	open_ep(&b, right, 10);
	connect_ep(&a, &b);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	for (int i = 0; i < CLAIMS; i++) {
		uint8_t reason = try_claim(i % 2 ? &a : &b, (uint8_t) (i / 2 + 1),
					   (uint32_t) i + 1,
					   i % 2 ? &b.name : &a.name);

		/* Without a socket dialed before, questions are limited. */
		cr_assert(reason == TAGRV_WIREUP_STALE ||
			  reason == TAGRV_WIREUP_BUSY);
		stale += reason == TAGRV_WIREUP_STALE;
	}
	cr_assert_geq(stale, CLAIMS / 2);
	collect(&a);
	collect(&b);
	cr_assert_eq(a.gones + b.gones + a.faileds + b.faileds, 0);
	cr_assert_eq(a.ups + b.ups, 2);
	/* A restarted peer is believed all the same. */
	fake_free(b.up.link);
	fake_free(a.up.link);
	close_ep(&b);
	cr_assert_eq(try_open(&b, right, b.name, 10), 0);
	connect_ep(&b, &a);
	await(&b, &b.sendables, 1);
	await(&a, &a.sendables, 2);
	check_pair(&a, &b);
	free_pair(&a, &b);
	cr_assert_eq(a.fake.alive + b.fake.alive, 0);
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

/*
 * A peer is dialed at last, behind many that do not answer, but its own request
 * comes: it must not wait for those.
 */
Test(wireup_claim, wanted_peer_that_asks_is_dialed_at_once, .timeout = 60)
{
	enum { SILENT = 100 };
	struct tagrv_wireup *left = create(), *right = create();
	struct tagrv_addr addr;
	int homes[SILENT];
	struct pollfd last = { .events = POLLIN };
	struct ep a, b;

	open_ep(&a, left, 30);
	open_ep(&b, right, 30);
	for (int i = 0; i < SILENT; i++) {
		homes[i] = home_open(&addr);
		cr_assert_eq(tagrv_wireup_connect(a.wep, &addr), 0);
	}
	connect_ep(&a, &b);
	connect_ep(&b, &a);
	await(&a, &a.sendables, 1);
	await(&b, &b.sendables, 1);
	last.fd = homes[SILENT - 1];
	cr_assert_eq(poll(&last, 1, 0), 0, "the last one was not dialed yet");
	cr_assert_eq(a.faileds + a.gones + b.faileds + b.gones, 0);
	for (int i = 0; i < SILENT; i++)
		close(homes[i]);
	free_pair(&a, &b);
	tagrv_wireup_destroy(left);
	tagrv_wireup_destroy(right);
}

Test(wireup_claim, many_that_want_each_other_at_once_connect, .timeout = 60)
{
	enum { EPS = 24 };
	struct tagrv_wireup *wireups[2] = { create(), create() };
	static struct ep eps[EPS];
	struct tagrv_wireup_event event;
	int sendables;

	for (int i = 0; i < EPS; i++)
		open_ep(&eps[i], wireups[i % 2], 60);
	for (int i = 0; i < EPS; i++)
		for (int j = 0; j < EPS; j++)
			if (i != j)
				connect_ep(&eps[i], &eps[j]);
	for (int i = 0; i < EPS; i++) {
		for (sendables = 0; sendables < EPS - 1;) {
			while (!tagrv_wireup_poll(eps[i].wep, &event))
				sched_yield();
			/* Nothing may fail or begin again: no more than these. */
			cr_assert(event.type == TAGRV_WIREUP_UP ||
				  event.type == TAGRV_WIREUP_SENDABLE);
			sendables += event.type == TAGRV_WIREUP_SENDABLE ||
				     event.sendable;
			if (event.type == TAGRV_WIREUP_UP)
				fake_free(event.link);
		}
	}
	for (int i = 0; i < EPS; i++)
		close_ep(&eps[i]);
	tagrv_wireup_destroy(wireups[0]);
	tagrv_wireup_destroy(wireups[1]);
}
