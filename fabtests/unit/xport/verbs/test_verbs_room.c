/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Resources of the send side that run out, over fake devices: the send queue, the
 * completion queue, copy buffers; and many links that share them.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>

#include "common/alloc_fail.h"
#include "unit/xport/verbs/verbs_fixture.h"

/* Further links between the two ends, with packets permitted. */
struct links {
	struct tagrv_link *a[40], *b[40];
	unsigned cnt;
};

static void links_open(struct links *l, unsigned cnt)
{
	const struct tagrv_xport_ops *ops = pair.a->xport->ops;

	cr_assert_leq(cnt, TAGRV_ARRAY_SIZE(l->a));
	l->cnt = cnt;
	for (unsigned i = 0; i < cnt; i++) {
		pair_link(&pair, &l->a[i], &l->b[i]);
		pair_permit(&pair, l->a[i], l->b[i]);
		cr_assert_eq(ops->link_attach(l->a[i], NULL), 0);
		cr_assert_eq(ops->link_attach(l->b[i], NULL), 0);
	}
}

static void links_close(struct links *l)
{
	const struct tagrv_xport_ops *ops = pair.a->xport->ops;

	for (unsigned i = 0; i < l->cnt; i++) {
		ops->link_close(l->a[i]);
		ops->link_close(l->b[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == l->cnt &&
			  pair.b->closed == l->cnt);
}

TestSuite(verbs_room, .init = verbs_prepare, .timeout = 20);

Test(verbs_room, send_queue_is_never_overfilled)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	xp = verbs_start_sender();
	fake_verbs_hold(true);
	while (!end_send(pair.a, sent, 8, 0, NULL))
		sent++;
	cr_assert_eq(sent, 126 - xp->sq_reserve);
	while (!end_send(pair.a, sent, 8, TAGRV_SEND_CTRL, NULL))
		sent++;
	cr_assert_eq(sent, 126, "127, one of them for the close");
	fake_verbs_hold(false);
	pair_close(&pair);	/* checks for overflows */
}

/*
 * Fake devices count as software: few packets are in flight, so that small messages
 * gather. One of the packets is always signaled, so that sending can go on.
 */
Test(verbs_room, bursts_back_up_over_software)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	params.burst = 0;
	xp = verbs_start_sender();
	cr_assert_eq(xp->base.attr.burst, VERBS_SOFT_BURST);
	fake_verbs_hold(true);
	while (!end_send(pair.a, sent, 8, 0, NULL))
		sent++;
	cr_assert_eq(sent, VERBS_SOFT_BURST);
	cr_assert_eq(end_send(pair.a, sent, 8, TAGRV_SEND_CTRL, NULL), 0,
		     "control packets may pass");
	fake_verbs_hold(false);
	for (unsigned more = 0; more < 100; more++)
		PAIR_UNTIL(&pair, !end_send(pair.a, sent, 8, 0, NULL));
	pair_close(&pair);
}

/* Writes, which the device does by itself, do not count as packets in flight. */
Test(verbs_room, writes_do_not_count_as_packets)
{
	static char to[64], from[64];
	struct tagrv_mem *remote, *local;
	const struct tagrv_xport_ops *ops;
	unsigned char key[TAGRV_KEY_MAX];
	struct verbs_xport *xp;
	uint32_t permitted;
	struct op op;
	size_t len;

	params.burst = 1;
	xp = verbs_start_sender();
	ops = xp->base.ops;
	cr_assert_eq(ops->mem_reg(pair.b->dev, to, sizeof(to), TAGRV_MEM_WRITE,
				  &remote), 0);
	cr_assert_eq(ops->mem_reg(pair.a->dev, from, sizeof(from), 0, &local),
		     0);
	len = ops->mem_key(remote, key);
	op_init(&op);
	permitted = verbs_link_of(pair.a->link)->tx_permits;
	fake_verbs_hold(true);
	cr_assert_eq(ops->put(pair.a->link, from, local, (uintptr_t) to, key,
			      len, sizeof(from), &op.done), 0);
	cr_assert_eq(verbs_link_of(pair.a->link)->tx_permits, permitted,
		     "it takes no buffer of the peer");
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), 0);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), -FI_EAGAIN);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, op.calls);
	ops->mem_dereg(local);
	ops->mem_dereg(remote);
	pair_close(&pair);
}

Test(verbs_room, a_burst_is_as_long_as_the_parameter)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	params.burst = 1;
	xp = verbs_start_sender();
	cr_assert_eq(xp->signal_every, 1);
	for (; sent < 20; sent++)
		PAIR_UNTIL(&pair, !end_send(pair.a, sent, 8, 0, NULL));
	cr_assert_leq(xp->inflight, 1);
	pair_close(&pair);
}

/* With any number of links the completion queue has room for all flushed requests. */
Test(verbs_room, completion_queue_is_never_overfilled)
{
	struct links l;
	unsigned sent = 0;
	struct verbs_xport *xp;

	config.max_cqe = 300;
	config.max_srq_wr = 256;
	xp = verbs_start_sender();
	/* Without SRQ there must be room for the receives of each link. */
	links_open(&l, xp->use_srq ? 8 : 300 / VERBS_RQ_DEPTH - 1);
	fake_verbs_hold(true);
	for (unsigned i = 0; i < l.cnt; i++) {
		struct end end = *pair.a;

		end.link = l.a[i];
		while (!end_send(&end, sent, 8, TAGRV_SEND_CTRL, NULL))
			sent++;
	}
	cr_assert_eq(sent, xp->tx_cap);
	links_close(&l);
	cr_assert_eq(xp->inflight, 0);
	fake_verbs_hold(false);
	pair_close(&pair);
}

/*
 * Idle links must not keep completions or buffers that other links need. So many links have
 * such a small receive CQ only with SRQ.
 */
static void serve_many_links(size_t len)
{
	enum { LINKS = 40 };
	struct links l;
	struct end end;

	verbs_need_srq();
	config.max_cqe = 128;
	config.max_srq_wr = 100;
	params.tx_bufs = 32;
	verbs_start_sender();
	links_open(&l, LINKS);
	end = *pair.a;
	for (int round = 0; round < 5; round++)
		for (int i = 0; i < LINKS; i++) {
			end.link = l.a[i];
			for (unsigned k = 0; k < 7; k++)
				pair_send(&pair, &end, k, len, NULL);
		}
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 5 * LINKS * 7);
	links_close(&l);
	pair_close(&pair);
}

Test(verbs_room, idle_links_leave_completions_to_others)
{
	serve_many_links(16);
}

Test(verbs_room, idle_links_leave_buffers_to_others)
{
	serve_many_links(400);
}

Test(verbs_room, copy_buffers_grow_outside_of_send)
{
	struct verbs_xport *xp;
	unsigned sent = 0;
	uint32_t before;

	params.sq_depth = 1023;
	xp = verbs_start_sender();
	before = xp->tx_bufs.total;
	cr_assert_eq(before, 128);
	fake_verbs_hold(true);
	while (!end_send(pair.a, sent, 1000, 0, NULL))
		sent++;
	cr_assert_eq(sent, 128 - xp->tx_buf_reserve);
	cr_assert_eq(xp->tx_bufs.total, before, "not in send");
	xp->base.ops->reap(&xp->base);
	cr_assert_eq(xp->tx_bufs.total, 256);
	cr_assert_eq(pair.a->rooms, 1);
	while (!end_send(pair.a, sent, 1000, 0, NULL))
		sent++;
	cr_assert_eq(sent, 256 - xp->tx_buf_reserve);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == sent);
	pair_close(&pair);
}

Test(verbs_room, copy_buffers_stop_growing)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	params.sq_depth = 1023;
	params.tx_bufs = 200;
	xp = verbs_start_sender();
	fake_verbs_hold(true);
	for (int i = 0; i < 4; i++) {
		while (!end_send(pair.a, sent, 1000, 0, NULL))
			sent++;
		pair_progress(&pair);
	}
	cr_assert_eq(xp->tx_bufs.total, 200);
	cr_assert_eq(sent, 200 - xp->tx_buf_reserve);
	cr_assert_eq(end_send(pair.a, sent, 1000, TAGRV_SEND_CTRL, NULL), 0);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == sent + 1);
	pair_close(&pair);
}

Test(verbs_room, failed_growth_is_not_an_error)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	params.sq_depth = 1023;
	xp = verbs_start_sender();
	fake_verbs_fail_reg(1, ENOMEM);
	fake_verbs_hold(true);
	while (!end_send(pair.a, sent, 1000, 0, NULL))
		sent++;
	pair_progress(&pair);
	cr_assert_eq(xp->tx_bufs.total, 128);
	fake_verbs_hold(false);
	while (sent < 500)
		pair_send(&pair, pair.a, sent++, 1000, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == sent);
	pair_close(&pair);
}

/* The device is full: the send has no effect, and room is announced later. */
Test(verbs_room, device_without_room_is_asked_again)
{
	struct verbs_xport *xp = verbs_start_sender();

	fake_verbs_fail_post(1, ENOMEM);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, NULL), -FI_EAGAIN);
	cr_assert_eq(xp->inflight, 0);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	PAIR_UNTIL(&pair, pair.a->rooms == 1);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

/* Flushes more links than the completion queue has room for. */
Test(verbs_room, flush_goes_on_until_all_is_confirmed)
{
	enum { LINKS = 28 };
	struct links l;
	struct verbs_xport *xp;
	struct end end;

	verbs_need_srq();
	config.max_cqe = 64;
	config.max_srq_wr = 64;
	params.signal_every = 1024;
	xp = verbs_start_sender();
	links_open(&l, LINKS);
	end = *pair.a;
	fake_verbs_hold(true);
	for (int i = 0; i < LINKS; i++) {
		end.link = l.a[i];
		for (unsigned k = 0; k < 2; k++)
			end_send(&end, k, 16, TAGRV_SEND_CTRL, NULL);
	}
	xp->base.ops->flush(&xp->base);
	cr_assert_eq(xp->inflight, xp->tx_cap, "too little room");
	xp->base.ops->progress(&xp->base);
	cr_assert_eq(xp->base.ops->progress(&xp->base), 0, "nothing happens");
	cr_assert_eq(xp->base.ops->arm(&xp->base), 0, "so sleep is safe");
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, !xp->base.ops->outstanding(&xp->base));
	links_close(&l);
	pair_close(&pair);
}

/* ---- the ring of requests ---- */

/* An application sends more at a time than the short ring holds: nothing waits. */
Test(verbs_room, the_ring_grows_with_the_requests_in_flight)
{
	struct verbs_xport *xp;
	struct verbs_link *link;
	unsigned sent = 0;

	params.sq_depth = 63;
	xp = verbs_start_sender();
	link = verbs_link_of(pair.a->link);
	cr_assert_eq(link->depth, VERBS_RING_FIRST - 1);
	for (unsigned i = 0; i < 221; i++) {	/* one at a time, to the ring's middle */
		cr_assert_eq(link->ring == link->first, i < 3, "packet %u", i);
		pair_send(&pair, pair.a, i, 8, NULL);
		pair_progress(&pair);
	}
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 221);
	cr_assert_eq(link->depth, VERBS_RING_USED - 1);
	pair.b->forget = false;
	pair.b->packet_cnt = 0;
	fake_verbs_hold(true);
	while (!end_send(pair.a, sent, sent % 2 ? 300 : 8, 0, NULL))
		sent++;
	cr_assert_eq(link->depth, xp->sq_depth - 1);
	cr_assert_eq(link->head - link->tail, link->depth - link->reserve);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == sent && !xp->inflight);
	for (unsigned i = 0; i < sent; i++)
		cr_assert(is_pattern(pair.b->packets[i].data, i, i % 2 ? 300 : 8));
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total, "each buffer comes back");
	cr_assert_eq(fake_verbs_count().sq_overflows, 0);
	pair_close(&pair);
}

static bool is_short(const struct verbs_link *link)
{
	return link->ring == link->first && link->depth == VERBS_RING_FIRST - 1 &&
	       link->depth > link->reserve && link->reserve;
}

/* It takes the memory of its ring back when it is used again. */
Test(verbs_room, an_idle_link_has_the_short_ring_again)
{
	struct verbs_xport *xp;
	struct verbs_link *link;

	params.sq_depth = 63;
	xp = verbs_start_sender();
	link = verbs_link_of(pair.a->link);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 40; i++)
			PAIR_UNTIL(&pair, !end_send(pair.a, i, 8, 0, NULL));
		xp->base.ops->flush(&xp->base);
		PAIR_UNTIL(&pair, !xp->inflight && pair.b->packet_cnt == 40 * (round + 1));
		xp->base.ops->check(pair.a->link, false);
		cr_assert_not(is_short(link), "it was used since the look before");
		xp->base.ops->check(pair.a->link, false);
		cr_assert(is_short(link));
	}
	pair_close(&pair);
}

/* The control packets that may take its last slots are signaled, so that they come back. */
Test(verbs_room, a_short_ring_full_of_control_packets_has_room_again)
{
	struct verbs_xport *xp;
	struct verbs_link *link;

	if (!alloc_fail_works())
		cr_skip_test("another allocator");
	params.sq_depth = 63;
	params.signal_every = 1024;
	xp = verbs_start_sender();
	link = verbs_link_of(pair.a->link);
	for (unsigned i = 0; i < VERBS_RING_FIRST - 1; i++)
		cr_assert_eq(end_send(pair.a, i, 8, TAGRV_SEND_CTRL, NULL), 0);
	alloc_fail_arm(2, false);	/* the first is of end_send */
	cr_assert_eq(end_send(pair.a, 3, 8, TAGRV_SEND_CTRL, NULL), -FI_EAGAIN);
	cr_assert_eq(alloc_fail_disarm(), 2);
	cr_assert(is_short(link));
	PAIR_UNTIL(&pair, pair.a->rooms == 1 && !xp->inflight);
	cr_assert_eq(end_send(pair.a, 3, 8, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == VERBS_RING_FIRST);
	pair_close(&pair);
}

/* Nothing in flight need be signaled then, so a signaled request follows. */
Test(verbs_room, without_memory_the_ring_stays_short)
{
	struct verbs_xport *xp;
	struct verbs_link *link;
	unsigned sent = 0;

	if (!alloc_fail_works())
		cr_skip_test("another allocator");
	params.sq_depth = 63;
	params.signal_every = 1024;
	xp = verbs_start_sender();
	link = verbs_link_of(pair.a->link);
	while (link->head - link->tail + link->reserve < link->depth)
		cr_assert_eq(end_send(pair.a, sent++, 8, 0, NULL), 0);
	cr_assert_eq(xp->signaled, 0);
	alloc_fail_arm(2, false);	/* the first is of end_send */
	cr_assert_eq(end_send(pair.a, sent, 8, 0, NULL), -FI_EAGAIN);
	cr_assert_eq(alloc_fail_disarm(), 2);
	cr_assert_eq(link->depth, VERBS_RING_FIRST - 1);
	cr_assert_eq(xp->signaled, 1);
	PAIR_UNTIL(&pair, pair.a->rooms == 1 && !xp->inflight);
	cr_assert_eq(end_send(pair.a, sent++, 8, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == sent);
	pair_close(&pair);
}
