/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Permits that are taken back from peers that hold more than their share, when others lack
 * them. End b receives from many links of end a.
 */
#include <criterion/criterion.h>
#include <endian.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/verbs_fixture.h"

enum { LINKS = 12, EARLY = 3, BUFS = 512 };

static struct tagrv_link *a[LINKS], *b[LINKS];

static void prepare(void)
{
	verbs_prepare();
	config.rnr_fails = true;
	verbs_need_srq();
	config.max_srq_wr = 8192;
	params.rx_bufs = BUFS;
}

TestSuite(verbs_recall, .init = prepare, .timeout = 20);

static struct verbs_xport *receiver(void)
{
	return verbs_xport_of(pair.b->xport);
}

static uint32_t permits_of(int i)
{
	return verbs_link_of(b[i])->rx_permits;
}

static void link_up(int i)
{
	pair_link(&pair, &a[i], &b[i]);
	cr_assert_eq(pair.a->xport->ops->link_attach(a[i], pair.a), 0);
	cr_assert_eq(pair.b->xport->ops->link_attach(b[i], pair.b), 0);
	pair_progress(&pair);
}

static void settle(void)
{
	for (int i = 0; i < 50; i++)
		pair_progress(&pair);
}

/* So much that the link is permitted all of its window. */
static void use(int i)
{
	for (unsigned sent = 0; sent < 400;) {
		sent += verbs_send_some(a[i], 400 - sent);
		pair_progress(&pair);
	}
	settle();
}

/* The first links hold all that may be permitted, and fall idle. */
static void start(void)
{
	verbs_open();
	pair_connect(&pair);
	pair.a->forget = pair.b->forget = true;
	for (int i = 0; i < EARLY; i++) {
		link_up(i);
		use(i);
	}
	for (int i = 0; i < EARLY; i++)
		cr_assert_geq(permits_of(i), receiver()->pool.rx_window / 2, "%u", permits_of(i));
	cr_assert_eq(receiver()->pool.rxq.bufs.total, receiver()->pool.rxq.bufs.max);
}

static void finish(void)
{
	cr_expect_eq(fake_verbs_count().rnr, 0);
	cr_expect_eq(receiver()->pool.permits_over, 0);
	pair.permitted = true;
	pair_close(&pair);
}

static void close_links(int cnt)
{
	for (int i = 0; i < cnt; i++) {
		pair.a->xport->ops->link_close(a[i]);
		pair.b->xport->ops->link_close(b[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == (unsigned) cnt && pair.b->closed == (unsigned) cnt);
	pair.a->closed = pair.b->closed = 0;
}

/* What both sides believe about a link whose packets have all arrived. */
static void expect_agreed(int i)
{
	cr_expect_eq(verbs_link_of(a[i])->tx_permits, permits_of(i), "link %d: %u of %u", i,
		     verbs_link_of(a[i])->tx_permits, permits_of(i));
}

Test(verbs_recall, late_peers_get_their_share_of_what_early_ones_hold)
{
	start();
	for (int i = EARLY; i < LINKS; i++)
		link_up(i);
	for (int i = EARLY; i < LINKS; i++)
		use(i);
	/* And once more, since the first of them began when there were fewer. */
	for (int i = EARLY; i < LINKS; i++)
		use(i);
	for (int i = 0; i < LINKS; i++) {
		cr_expect_leq(permits_of(i), receiver()->pool.rx_window + VERBS_PERMIT_MIN);
		cr_expect_geq(permits_of(i), receiver()->pool.rx_window / 2, "link %d has %u", i,
			      permits_of(i));
		expect_agreed(i);
	}
	cr_expect_gt(receiver()->stats.permits_recalled, 0);
	close_links(LINKS);
	finish();
}

/* Others have sent much since the last packets of the early ones. */
Test(verbs_recall, idle_peers_keep_the_least)
{
	start();
	for (int i = 0; i < EARLY; i++)
		verbs_link_of(b[i])->rx_last = 0;
	receiver()->pass += 5000;	/* the answer is no beginning of more */
	for (int i = EARLY; i < LINKS; i++)
		link_up(i);
	for (int k = 0; k < 2; k++)
		for (int i = EARLY; i < LINKS; i++)
			use(i);
	cr_expect_gt(receiver()->stats.permits_recalled, 0);
	for (int i = 0; i < EARLY; i++) {
		cr_expect_lt(permits_of(i), 2 * VERBS_PERMIT_MIN, "%u", permits_of(i));
		cr_expect_eq(verbs_link_of(b[i])->rx_window, VERBS_PERMIT_MIN);
		expect_agreed(i);
	}
	close_links(LINKS);
	finish();
}

/* Early peers go on, with what they may still send. */
Test(verbs_recall, peers_that_were_asked_go_on)
{
	start();
	for (int i = EARLY; i < LINKS; i++)
		link_up(i);
	for (int i = EARLY; i < LINKS; i++)
		use(i);
	for (int i = 0; i < EARLY; i++) {
		use(i);
		expect_agreed(i);
	}
	close_links(LINKS);
	finish();
}

/* What it has sent before it is asked is on the way, and was permitted. */
Test(verbs_recall, packets_cross_it)
{
	unsigned before;

	start();
	for (int i = EARLY; i < LINKS; i++)
		link_up(i);
	before = pair.b->packet_cnt;
	for (int i = 0; i < EARLY; i++)
		verbs_send_some(a[i], 1000);
	for (int i = EARLY; i < LINKS; i++)
		use(i);
	cr_expect_gt(pair.b->packet_cnt, before);
	for (int i = 0; i < LINKS; i++)
		expect_agreed(i);
	close_links(LINKS);
	finish();
}

static void inject(struct verbs_link *link, uint32_t bits)
{
	cr_assert(tagrv_verbs_permit_received(verbs_xport_of(link->base.xport), link,
					      htobe32(bits | 1u << 31)));
}

Test(verbs_recall, a_sender_keeps_what_it_needs)
{
	struct verbs_link *link;

	start();
	link = verbs_link_of(a[0]);
	inject(link, VERBS_PERMIT_RECALL | 0xffff);
	cr_expect_eq(link->tx_permits, VERBS_PERMIT_MIN);
	/* None is left to give; it answers all the same. */
	inject(link, VERBS_PERMIT_RECALL | 10);
	cr_expect_eq(link->tx_permits, VERBS_PERMIT_MIN);
	verbs_link_of(b[0])->recalled = true;
	settle();
	cr_expect_not(link->return_due);
	cr_expect_not(verbs_link_of(b[0])->recalled);
	expect_agreed(0);
	close_links(EARLY);
	finish();
}

Test(verbs_recall, an_answer_waits_for_room)
{
	struct verbs_link *link;
	uint32_t permits;

	start();
	link = verbs_link_of(a[0]);
	permits = link->tx_permits;
	/* Its last one is kept for a permit. */
	link->tx_permits = VERBS_PERMIT_LAST;
	inject(link, VERBS_PERMIT_RECALL | 10);
	settle();
	cr_expect(link->return_due);
	/* Which may have gone meanwhile. */
	link->tx_permits += permits - VERBS_PERMIT_LAST;
	settle();
	cr_expect_not(link->return_due);
	expect_agreed(0);
	close_links(EARLY);
	finish();
}

/*
 * It goes on between the recall and its answer, with all that it has kept: by packets, and by
 * 'ctrl' control packets.
 */
static void go_on(unsigned packets, unsigned ctrl)
{
	struct verbs_link *from = verbs_link_of(b[0]), *to = verbs_link_of(a[0]);
	struct end end = *pair.a;

	use(0);
	end.link = a[0];
	tagrv_verbs_window_set(from, VERBS_PERMIT_MIN);
	cr_assert_eq(tagrv_verbs_send_recall(from, VERBS_PERMIT_RECALL,
					     from->rx_permits - VERBS_PERMIT_MIN), 0);
	from->recalled = true;
	verbs_xport_of(pair.a->xport)->lacks_permit = true;
	pair.a->xport->ops->reap(pair.a->xport);
	cr_assert(to->return_due);
	cr_assert_eq(to->tx_permits, VERBS_PERMIT_MIN);
	cr_assert_eq(verbs_send_some(a[0], packets), packets);
	for (unsigned i = 0; i < ctrl; i++)
		cr_assert_eq(end_send(&end, 0, 8, TAGRV_SEND_CTRL, NULL), 0);
	settle();
	cr_expect_not(to->return_due, "%u and %u packets", packets, ctrl);
	cr_expect_not(from->recalled);
	expect_agreed(0);
	for (unsigned i = 0; i < 10; i++) {
		cr_assert_eq(verbs_send_some(a[0], 1), 1, "behind %u and %u packets", packets, ctrl);
		settle();
	}
}

Test(verbs_recall, a_sender_may_go_on_before_it_answers)
{
	start();
	for (unsigned packets = 0; packets <= 2; packets++)
		for (unsigned ctrl = 0; ctrl <= 1; ctrl++)
			go_on(packets, ctrl);
	close_links(EARLY);
	finish();
}

/* A peer that lies about what it returns has no more than before. */
Test(verbs_recall, no_more_is_returned_than_was_permitted)
{
	struct verbs_link *link;
	uint32_t all;

	start();
	link = verbs_link_of(b[0]);
	all = atomic_load(&receiver()->pool.rx_permits) - link->rx_permits;
	inject(link, VERBS_PERMIT_RETURN | 0xffff);
	cr_expect_eq(link->rx_permits, 0);
	cr_expect_eq(atomic_load(&receiver()->pool.rx_permits), all);
	verbs_link_of(a[0])->tx_permits = 0;
	close_links(EARLY);
	finish();
}

Test(verbs_recall, a_peer_that_does_not_answer_is_asked_once)
{
	uint64_t asked;

	start();
	for (int i = EARLY; i < LINKS; i++)
		link_up(i);
	for (int i = 0; i < EARLY; i++)
		verbs_link_of(b[i])->recalled = true;
	asked = receiver()->stats.permits_recalled;
	for (int i = EARLY; i < LINKS; i++)
		cr_expect_gt(verbs_send_some(a[i], 400), 0);
	settle();
	cr_expect_eq(receiver()->stats.permits_recalled, asked);
	close_links(LINKS);
	finish();
}

/* The share of a peer that goes on is no smaller for others that have fallen idle within theirs. */
Test(verbs_recall, idle_peers_leave_their_share)
{
	start();
	for (int i = EARLY; i < LINKS; i++)
		link_up(i);
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < LINKS; i++)
			use(i);
	cr_assert_lt(receiver()->pool.rx_window, VERBS_PERMIT_MAX / 2);
	for (int i = 0; i < LINKS; i++)
		cr_assert_leq(permits_of(i), receiver()->pool.rx_window + VERBS_PERMIT_MIN);
	/* Another peer, say, has sent much since then. */
	receiver()->pool.rxq.next += 20ull * BUFS * (receiver()->pool.rxq.slot_mask + 1);
	receiver()->pass += 5000;	/* an answer is no beginning of more */
	for (int k = 0; k < 4; k++)
		use(0);
	cr_expect_eq(receiver()->pool.rx_window, VERBS_PERMIT_MAX);
	cr_expect_geq(permits_of(0), VERBS_PERMIT_MAX / 2, "%u", permits_of(0));
	for (int i = 0; i < LINKS; i++)
		expect_agreed(i);
	close_links(LINKS);
	finish();
}
