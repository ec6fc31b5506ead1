/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Permits over fake devices that fail a packet which finds no receive buffer.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/verbs_fixture.h"

static void prepare(void)
{
	verbs_prepare();
	config.rnr_fails = true;
}

static void start(void)
{
	verbs_open();
	pair_connect(&pair);
	pair.a->forget = pair.b->forget = true;
}

static struct verbs_link *link_of(const struct end *end)
{
	return verbs_link_of(end->link);
}

static struct verbs_xport *xport_of(const struct end *end)
{
	return verbs_xport_of(end->xport);
}

static unsigned send_all(struct end *end, unsigned flags)
{
	unsigned sent = 0;

	while (!end_send(end, sent, 8, flags, NULL))
		sent++;
	return sent;
}

/* The first permit of a link; without SRQ its first buffers. */
static uint32_t first_permit(void)
{
	return xport_of(pair.b)->use_srq ? VERBS_FIRST : VERBS_RQ_SLAB;
}

TestSuite(verbs_permit, .init = prepare, .timeout = 20);

/*
 * Proves that the devices of these tests report such a packet. It breaks the queue pair, so
 * some devices refuse the packet behind it, which must not hide why.
 */
Test(verbs_permit, an_unpermitted_packet_finds_no_buffer)
{
	unsigned bufs;

	config.max_srq_wr = 8;
	start();
	bufs = xport_of(pair.b)->use_srq ? 7 : VERBS_RQ_SLAB;
	cr_assert_eq(verbs_queue_of(pair.b)->posted, bufs);
	link_of(pair.a)->tx_permits = 100;
	for (unsigned i = 0; i <= bufs; i++)
		cr_assert_eq(end_send(pair.a, i, 8, 0, NULL), 0);
	cr_assert_eq(fake_verbs_count().rnr, 1);
	cr_assert_eq(end_send(pair.a, bufs + 1, 8, 0, NULL),
		     config.refuses_in_err ? -FI_ENOTCONN : 0);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EHOSTUNREACH);
	pair.permitted = true;
	pair_close(&pair);
}

Test(verbs_permit, a_sender_stops_where_the_permit_does)
{
	start();
	cr_assert_eq(link_of(pair.a)->tx_permits, first_permit());
	cr_assert_eq(send_all(pair.a, 0), first_permit() - VERBS_PERMIT_CTRL);
	cr_assert_eq(send_all(pair.a, TAGRV_SEND_CTRL),
		     VERBS_PERMIT_CTRL - VERBS_PERMIT_LAST);
	cr_assert_eq(xport_of(pair.a)->stats.sends_refused, 2);
	cr_assert_eq(pair.a->rooms, 0);
	PAIR_UNTIL(&pair, pair.a->rooms == 1);
	if (link_of(pair.a)->tx_permits <= VERBS_PERMIT_CTRL) {
		/* It was a completion that made room; the permit makes more. */
		cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), -FI_EAGAIN);
		PAIR_UNTIL(&pair, pair.a->rooms == 2);
	}
	cr_assert_eq(link_of(pair.a)->tx_permits, link_of(pair.b)->rx_window);
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), 0);
	pair_close(&pair);
}

/* Packets in the other direction carry permits. */
Test(verbs_permit, comes_with_other_packets)
{
	start();
	for (unsigned i = 0; i < 1000; i++) {
		cr_assert_eq(end_send(pair.a, i, 8, 0, NULL), 0);
		pair.b->xport->ops->progress(pair.b->xport);
		cr_assert_eq(end_send(pair.b, i, 8, 0, NULL), 0);
		pair.a->xport->ops->progress(pair.a->xport);
	}
	cr_assert_eq(pair.a->packet_cnt, 1000);
	cr_assert_leq(xport_of(pair.a)->stats.permit_only_sent, 2);
	cr_assert_leq(xport_of(pair.b)->stats.permit_only_sent, 2);
	pair_close(&pair);
}

/* Traffic in one direction: few packets permit many. */
Test(verbs_permit, costs_few_packets_by_itself)
{
	start();
	for (unsigned i = 0; i < 4096; i++)
		pair_send(&pair, pair.a, i, 8, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 4096);
	cr_assert_leq(xport_of(pair.b)->stats.permit_only_sent,
		      2 + 4096 / (xport_of(pair.b)->pool.rx_window / 2));
	cr_assert_eq(xport_of(pair.b)->pool.permits_over, 0);
	cr_assert_eq(pair.a->packet_cnt, 0, "permits are nobody's packets");
	pair_close(&pair);
}

/* Both ends have used all permits, and both can go on. */
Test(verbs_permit, two_ends_without_permits_go_on)
{
	enum { CNT = 3000 };
	unsigned a = 0, b = 0;

	config.max_srq_wr = 4;
	start();
	while (a < CNT || b < CNT) {
		unsigned before = a + b;
		double until = pair_work() + 10;

		while (a < CNT && !end_send(pair.a, a, 8, a & 1, NULL))
			a++;
		while (b < CNT && !end_send(pair.b, b, 8, b & 1, NULL))
			b++;
		while (a + b == before) {
			pair_progress(&pair);
			before -= pair.a->rooms + pair.b->rooms > 0;
			cr_assert_lt(pair_work(), until, "after %u, %u", a, b);
		}
	}
	PAIR_UNTIL(&pair, pair.a->packet_cnt == CNT &&
		   pair.b->packet_cnt == CNT);
	pair_close(&pair);
}

/* Many peers share the buffers, and more buffers are registered for them. */
Test(verbs_permit, many_peers_share_the_buffers)
{
	enum { LINKS = 200, ROUNDS = 50 };
	static struct tagrv_link *a[LINKS], *b[LINKS];
	unsigned sent[LINKS] = { 0 }, total = 0;
	struct verbs_xport *xp;

	verbs_need_srq();
	params.rx_bufs = 1024;
	start();
	xp = xport_of(pair.b);
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &a[i], &b[i]);
		cr_assert_eq(pair.a->xport->ops->link_attach(a[i], pair.a), 0);
		cr_assert_eq(pair.b->xport->ops->link_attach(b[i], pair.b), 0);
		pair_progress(&pair);
	}
	cr_assert_eq(xp->pool.rx_window, VERBS_PERMIT_MIN);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < LINKS; i++) {
			struct end end = *pair.a;

			end.link = a[i];
			while (sent[i] < ROUNDS &&
			       !end_send(&end, total, 8, 0, NULL)) {
				sent[i]++;
				total++;
			}
		}
		cr_assert_leq(atomic_load(&xp->pool.rx_permits), xp->pool.rxq.bufs.total);
		for (int i = 0; i < 20; i++)
			pair_progress(&pair);
	}
	PAIR_UNTIL(&pair, pair.b->packet_cnt == total);
	cr_assert_eq(total, LINKS * ROUNDS);
	cr_assert_eq(fake_verbs_count().rnr, 0);
	cr_assert_eq(xp->pool.permits_over, 0);
	for (int i = 0; i < LINKS; i++) {
		pair.a->xport->ops->link_close(a[i]);
		pair.b->xport->ops->link_close(b[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == LINKS && pair.b->closed == LINKS);
	cr_assert_eq(atomic_load(&xp->pool.rx_permits), link_of(pair.b)->rx_permits);
	pair.a->closed = pair.b->closed = 0;
	pair_close(&pair);
}

/* Beyond the limit each peer still gets the permit that it needs to go on; this is counted. */
Test(verbs_permit, too_many_peers_are_counted)
{
	enum { LINKS = 40 };
	struct tagrv_link *a[LINKS], *b[LINKS];
	struct verbs_xport *xp;

	verbs_need_srq();
	params.rx_bufs = 64;
	start();
	xp = xport_of(pair.b);
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &a[i], &b[i]);
		cr_assert_geq(verbs_link_of(a[i])->tx_permits, VERBS_PERMIT_MIN);
	}
	cr_assert_gt(xp->pool.permits_over, 0);
	for (int i = 0; i < LINKS; i++) {
		pair.a->xport->ops->link_discard(a[i]);
		pair.b->xport->ops->link_discard(b[i]);
	}
	PAIR_UNTIL(&pair, tagrv_list_empty(&xp->closing) &&
		   !atomic_load(&xp->alarm) && !xp->pool.fresh_permits);
	PAIR_UNTIL(&pair, atomic_load(&xp->pool.rx_permits) == link_of(pair.b)->rx_permits);
	pair_close(&pair);
}

Test(verbs_permit, a_peer_that_exceeds_its_permit_is_given_up)
{
	start();
	link_of(pair.b)->rx_permits = 1;
	atomic_store(&xport_of(pair.b)->pool.rx_permits, 1);
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), 0);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	cr_assert_eq(pair.b->error_status, -FI_EREMOTEIO);
	cr_assert_eq(pair.b->packet_cnt, 1);
	pair_close(&pair);
}

/* The answer may permit nothing; then it leaves the last permit for a packet that does. */
Test(verbs_permit, a_peer_that_is_asked_sends_a_packet)
{
	struct verbs_xport *xp;

	start();
	xp = xport_of(pair.b);
	link_of(pair.b)->tx_permits = VERBS_PERMIT_LAST;
	xp->pool.rx_window = link_of(pair.b)->rx_permits - 1;
	xport_of(pair.a)->pool.rx_window = link_of(pair.a)->rx_permits - 1;
	cr_assert_eq(tagrv_verbs_recall_none(link_of(pair.a)), 0);
	PAIR_UNTIL(&pair, link_of(pair.b)->return_due);
	pair_progress(&pair);
	cr_assert_eq(xp->stats.permit_only_sent, 0);
	link_of(pair.b)->tx_permits++;
	PAIR_UNTIL(&pair, !link_of(pair.b)->return_due);
	cr_assert_eq(xp->stats.permit_only_sent, 1);
	cr_assert_eq(xp->stats.permits_sent, 0);
	cr_assert(tagrv_list_empty(&xp->owed));
	PAIR_UNTIL(&pair, link_of(pair.a)->rx_last != 0);
	pair_close(&pair);
}

/* Unused permits end with their link; the next link starts anew. */
Test(verbs_permit, begins_anew_with_each_link)
{
	start();
	send_all(pair.a, 0);
	end_close_link(pair.a);
	end_close_link(pair.b);
	cr_assert_eq(atomic_load(&xport_of(pair.b)->pool.rx_permits), 0);
	pair.a->closed = pair.b->closed = 0;
	pair_connect(&pair);
	cr_assert_eq(link_of(pair.a)->tx_permits, first_permit());
	cr_assert_eq(send_all(pair.a, 0), first_permit() - VERBS_PERMIT_CTRL);
	pair_close(&pair);
}
