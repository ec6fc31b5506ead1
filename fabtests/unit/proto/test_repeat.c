/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Injects that lack room or credit are repeated by their caller instead of being queued;
 * and what is queued all the same.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <string.h>
#include <unistd.h>

#include "common/engine_fixture.h"

enum { LEN = 8, LONG = 100 };

static struct {
	struct tagrv_xport_ops ops;
	struct tagrv_gate gate;
	unsigned sent;			/* by send_tagged */
	bool	full;
} ring;

static char buf[LONG];

static ssize_t ring_send_tagged(struct tagrv_link *link, uint64_t meta,
				uint64_t tag, uint64_t data, const void *payload)
{
	(void) link, (void) meta, (void) tag, (void) data, (void) payload;
	if (ring.full)
		return -FI_EAGAIN;
	ring.sent++;
	return 0;
}

static struct tagrv_peer *peer(void)
{
	return fx.engine->table.peers[0];
}

/* A transport with a gate, as far as sends look at it. */
static void setup(void)
{
	engine_setup();
	peer_up(true);
	memset(&ring, 0, sizeof(ring));
	ring.ops = *fx.link->xport->ops;
	ring.ops.send_tagged = ring_send_tagged;
	ring.gate.end = 10;
	fx.link->gate = &ring.gate;
	fx.link->xport->ops = &ring.ops;
	fx.link->xport->attr.tagged_short = LEN + 1;
	fx.link->xport->attr.tagged_end = 200;
	tagrv_peer_open_plain(peer());
	/* No time counts, but where a test says so. */
	fx.engine->tx.refuse_ns = UINT64_MAX;
}

TestSuite(repeat, .init = setup, .fini = engine_teardown, .timeout = 20);

static ssize_t inject(size_t len)
{
	struct tagrv_send_req req = send_req(buf, len, 1, NULL);

	req.no_context = true;
	req.flags = 0;
	return tagrv_engine_send(fx.engine, &req);
}

static void fill_ring(void)
{
	ring.full = true;
	ring.gate.cnt = ring.gate.end;
}

static void empty_ring(void)
{
	ring.full = false;
	ring.gate.cnt = 0;
}

static bool is_queued(void)
{
	return !tagrv_list_empty(&peer()->pending);
}

Test(repeat, without_room)
{
	uint32_t left = peer()->credit.left;

	fill_ring();
	for (int i = 0; i < 5000; i++) {
		cr_assert_eq(inject(LEN), -FI_EAGAIN);
		cr_assert_eq(inject(LONG), -FI_EAGAIN);
	}
	cr_assert_not(is_queued());
	cr_assert_eq(peer()->credit.left, left);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 0);
	empty_ring();
	cr_assert_eq(inject(LEN), 0);
	cr_assert_eq(inject(LONG), 0);
	cr_assert_eq(ring.sent, 2);
	cr_assert_eq(peer()->credit.left, left - tagrv_credit_units(LEN) -
		     tagrv_credit_units(LONG));
}

/* Nothing but progress of this domain may be able to make room. */
Test(repeat, makes_progress_now_and_then)
{
	unsigned passes = fake.polls;

	fill_ring();
	for (int i = 0; i < 50000; i++)
		cr_assert_eq(inject(LEN), -FI_EAGAIN);
	cr_assert_gt(fake.polls, passes + 2);
}

Test(repeat, what_goes_is_counted_once)
{
	uint64_t before = atomic_load(&fx.tx_cntr.value);

	fill_ring();
	cr_assert_eq(inject(LEN), -FI_EAGAIN);
	cr_assert_eq(atomic_load(&fx.tx_cntr.value), before);
	empty_ring();
	cr_assert_eq(inject(LEN), 0);
	cr_assert_eq(atomic_load(&fx.tx_cntr.value), before + 1);
	expect_empty(&fx.tx);
}

/* Queued after so many repetitions, since the peer may never receive. */
Test(repeat, without_credit_for_a_while)
{
	unsigned repeats = 0;

	peer()->credit.left = tagrv_credit_units(LEN) - 1;
	while (inject(LEN) == -FI_EAGAIN)
		cr_assert_lt(repeats++, 100000);
	cr_assert_gt(repeats, 100);
	cr_assert_eq(fx.engine->stats.rndv_tx, 1, "announced");
	/* The next one does not wait again. */
	cr_assert_eq(inject(LEN), 0);
	cr_assert_eq(fx.engine->stats.rndv_tx, 2);
	cr_assert_eq(ring.sent, 0);
}

/* The peer need not return credit, so the application would sleep for ever. */
Test(repeat, nobody_sleeps_for_want_of_credit)
{
	peer()->credit.left = 0;
	cr_assert_eq(inject(LEN), -FI_EAGAIN);
	cr_assert_eq(tagrv_dom_arm(fx.dom), -FI_EAGAIN);
	cr_assert_eq(inject(LEN), 0);
	cr_assert_eq(fx.engine->stats.rndv_tx, 1, "announced");
	cr_assert_eq(tagrv_dom_arm(fx.dom), 0);
	cr_assert_eq(inject(LEN), 0, "still without credit");
	cr_assert_eq(fx.engine->stats.rndv_tx, 2);
}

/* An application may repeat once in a while only. */
Test(repeat, without_credit_for_some_time)
{
	peer()->credit.left = 0;
	cr_assert_eq(inject(LEN), -FI_EAGAIN);
	fx.engine->tx.refuse_ns = 1000;
	usleep(2);
	cr_assert_eq(inject(LEN), 0);
	cr_assert_eq(fx.engine->stats.rndv_tx, 1, "announced");
}

/* By whichever way it is used up. */
Test(repeat, each_want_of_credit_counts_for_itself)
{
	peer()->credit.left = 0;
	for (int i = 0; i < 900; i++)
		cr_assert_eq(inject(LEN), -FI_EAGAIN);
	peer()->credit.left = tagrv_credit_units(LEN) - 1;
	for (int i = 0; i < 900; i++)
		cr_assert_eq(inject(LEN), -FI_EAGAIN);
}

Test(repeat, credit_that_comes_begins_anew)
{
	unsigned repeats = 0;

	peer()->credit.left = 0;
	for (int i = 0; i < 600; i++)
		cr_assert_eq(inject(LEN), -FI_EAGAIN);
	peer()->credit.left = tagrv_credit_units(LEN);
	cr_assert_eq(inject(LEN), 0);
	cr_assert_eq(ring.sent, 1);
	while (inject(LEN) == -FI_EAGAIN)
		cr_assert_lt(repeats++, 100000);
	cr_assert_gt(repeats, 600);
}

Test(repeat, others_are_queued)
{
	struct tagrv_send_req req = send_req(buf, LEN, 1, buf);

	fill_ring();
	fake.refuse = 100;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	cr_assert(is_queued());
	/* Behind it, injects are queued as well: nothing overtakes. */
	cr_assert_eq(inject(LEN), 0);
	cr_assert_eq(fx.engine->pools.tx_ops.used, 2);
	fake.refuse = 0;
}

/* A gate that is shut does not open by itself. */
Test(repeat, nothing_is_repeated_at_a_shut_gate)
{
	ring.gate.end = 0;
	ring.full = true;
	fake.refuse = 100;
	cr_assert_eq(inject(LEN), 0);
	cr_assert(is_queued());
	fake.refuse = 0;
}

/* Credit may have come that nobody has looked for. */
Test(repeat, a_send_looks_for_credit_before_it_is_announced)
{
	struct tagrv_send_req req = send_req(buf, LEN, 1, buf);
	unsigned passes = fake.polls;

	peer()->credit.left = 0;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	cr_assert_gt(fake.polls, passes);
}
