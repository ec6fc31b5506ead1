/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receive buffers by use, not by peers: over the devices of each vendor, end b receives from
 * many links of end a. What is counted are packets, buffers and round trips, never time.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/clock.h"
#include "unit/xport/verbs/verbs_fixture.h"

enum { LINKS = 300, STEPS = 600 };

static struct tagrv_link *a[LINKS], *b[LINKS];
static unsigned seed;
static bool few;		/* buffers: little more than what is kept for all */

static unsigned draw(unsigned below)
{
	return (unsigned) rand_r(&seed) % below;
}

static struct verbs_xport *receiver(void)
{
	return verbs_xport_of(pair.b->xport);
}

static void settle(void)
{
	for (int i = 0; i < 8; i++)
		pair_progress(&pair);
}

static void open_as(const char *profile)
{
	config = fake_verbs_as(profile);
	config.rnr_fails = true;
	params = pair_params();
	if (few)
		params.rx_bufs = 1800;
	verbs_open();
	pair.a->forget = pair.b->forget = true;
}

static void link_up(int i)
{
	pair_link(&pair, &a[i], &b[i]);
	cr_assert_eq(pair.a->xport->ops->link_attach(a[i], pair.a), 0);
	cr_assert_eq(pair.b->xport->ops->link_attach(b[i], pair.b), 0);
}

static void connect_all(int cnt)
{
	for (int i = 0; i < cnt; i++) {
		link_up(i);
		pair_progress(&pair);
	}
	settle();
}

static void close_links(int cnt)
{
	for (int i = 0; i < cnt; i++) {
		pair.a->xport->ops->link_close(a[i]);
		pair.b->xport->ops->link_close(b[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == (unsigned) cnt && pair.b->closed == (unsigned) cnt);
	pair.a->closed = pair.b->closed = 0;
	cr_assert_eq(atomic_load(&receiver()->pool.rx_permits), 0);
	cr_assert_eq(atomic_load(&receiver()->pool.rx_kept), 0);
	cr_assert_eq(receiver()->pool.grown, 0);
}

static void finish(int cnt)
{
	cr_expect_eq(fake_verbs_count().rnr, 0);
	cr_expect_eq(receiver()->pool.permits_over, 0);
	close_links(cnt);
	pair.permitted = true;
	pair_connect(&pair);
	pair_close(&pair);
}

/* The rule of verbs_permit.c, and whether the sums are those of the links. */
static void check_books(int cnt)
{
	struct verbs_xport *xp = receiver();
	uint32_t permits = 0, kept = 0, grown = 0;

	for (int i = 0; i < cnt; i++) {
		const struct verbs_link *link = verbs_link_of(b[i]);

		cr_assert_not(verbs_link_of(a[i])->thin);
		cr_assert_leq(verbs_link_of(a[i])->tx_permits, link->rx_permits);
		if (link->rxq) {
			cr_assert_leq(link->rx_permits, link->rxq->posted);
			cr_assert_leq(link->rxq->bufs.total,
				      TAGRV_MAX((uint32_t) link->rx_window, VERBS_RQ_SLAB));
			continue;
		}
		permits += link->rx_permits;
		kept += verbs_kept(link->rx_permits);
		grown += link->rx_window > VERBS_PERMIT_MIN;
	}
	if (!xp->use_srq)
		return;
	cr_assert_eq(atomic_load(&xp->pool.rx_permits), permits);
	cr_assert_eq(atomic_load(&xp->pool.rx_kept), kept);
	cr_assert_eq(xp->pool.grown, grown);
	cr_assert_leq(permits + verbs_lost_maybe(&xp->pool), xp->pool.rxq.posted);
	cr_assert_leq(permits + kept + verbs_lost_maybe(&xp->pool), xp->pool.rxq.bufs.total);
}

/* Runs the case as each profile. */
static void with_each(void (*run)(void))
{
	const char *name;

	for (unsigned i = 0; (name = fake_verbs_profile(i)); i++) {
		open_as(name);
		run();
	}
}

TestSuite(verbs_window, .timeout = 120);

static void connect_only(void)
{
	struct verbs_xport *xp = receiver();
	size_t before = fake_verbs_count().registered, per_link;

	connect_all(150);
	cr_expect_leq(xp->pool.rxq.bufs.total, 1024);
	per_link = (fake_verbs_count().registered - before) / 150 / 2 / tagrv_verbs_buf_size(xp);
	cr_expect_leq(per_link, xp->use_srq ? VERBS_PERMIT_MIN : VERBS_RQ_SLAB, "%zu", per_link);
	for (int i = 0; i < 150; i++)
		cr_expect_eq(verbs_link_of(b[i])->error, 0);
	check_books(150);
	finish(150);
}

Test(verbs_window, connecting_registers_few_buffers)
{
	with_each(connect_only);
}

/* One packet to each peer, and an answer, grows nothing. */
static void greet(void)
{
	uint32_t total;

	connect_all(100);
	total = receiver()->pool.rxq.bufs.total;
	for (int i = 0; i < 100; i++)
		cr_assert_eq(verbs_send_some(a[i], 1), 1);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 100);
	settle();
	cr_expect_eq(receiver()->pool.rxq.bufs.total, total);
	cr_expect_eq(receiver()->stats.permits_sent, 0);
	check_books(100);
	finish(100);
}

Test(verbs_window, a_packet_of_each_peer_grows_nothing)
{
	with_each(greet);
}

/* Packets of each round trip, among many peers that are idle. */
static void stream(void)
{
	const struct verbs_link *link;
	uint32_t full;
	unsigned rounds = 0;

	connect_all(100);
	link = verbs_link_of(b[99]);
	full = receiver()->use_srq ? VERBS_PERMIT_MAX : VERBS_RQ_DEPTH;
	cr_assert_leq(link->rx_permits, VERBS_RQ_SLAB);
	while (link->rx_window < full) {
		cr_assert_lt(++rounds, 6);
		verbs_send_some(a[99], UINT32_MAX);
		settle();
		check_books(100);
	}
	settle();
	/* From now on, as many as ever: but the last two are kept for other packets. */
	for (int i = 0; i < 3; i++) {
		uint32_t permitted = verbs_link_of(a[99])->tx_permits;

		cr_expect_geq(permitted, full / 2);
		verbs_send_some(a[99], permitted);
		settle();
	}
	finish(100);
}

Test(verbs_window, a_busy_peer_has_all_after_few_round_trips)
{
	with_each(stream);
}

/* A peer that sends now and then is never short of what it was permitted at first. */
/* So many calls of progress, which take time. */
static void wait_long(struct verbs_link *link)
{
	receiver()->pass += 5000;
	link->rx_ms = (uint16_t) (link->rx_ms - 100);
}

static void drip(void)
{
	struct verbs_link *link;
	uint32_t first;

	connect_all(1);
	link = verbs_link_of(b[0]);
	first = link->rx_permits;
	wait_long(link);
	for (int i = 0; i < 200; i++) {
		cr_assert_eq(verbs_send_some(a[0], 1), 1);
		settle();
		wait_long(link);
		check_books(1);
	}
	cr_expect_eq(link->rx_window, first);
	finish(1);
}

Test(verbs_window, a_peer_that_sends_now_and_then_keeps_its_first)
{
	with_each(drip);
}

/* A long path: many calls of progress, in little time. */
Test(verbs_window, a_peer_far_away_has_all_it_needs)
{
	struct verbs_link *link;

	open_as("mlx5");
	connect_all(1);
	link = verbs_link_of(b[0]);
	for (int i = 0; i < 200 && link->rx_window < VERBS_PERMIT_MAX; i++) {
		cr_assert_eq(verbs_send_some(a[0], 1), 1);
		settle();
		receiver()->pass += 5000;
		link->rx_ms = (uint16_t) (tagrv_clock_ms() - 1);
	}
	cr_assert_eq(link->rx_window, VERBS_PERMIT_MAX);
	finish(1);
}

/*
 * The wireup thread makes more links than there are buffers for before progress can register
 * some: their peers are told, and told later that there are enough.
 */
Test(verbs_window, peers_that_connect_at_once_learn_of_the_buffers)
{
	unsigned thin = 0;

	open_as("mlx5");
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &a[i], &b[i]);
		thin += verbs_link_of(a[i])->thin;
	}
	cr_assert_gt(thin, 0);
	cr_assert_gt(receiver()->pool.permits_over, 0);
	for (int i = 0; i < LINKS; i++) {
		cr_assert_eq(pair.a->xport->ops->link_attach(a[i], pair.a), 0);
		cr_assert_eq(pair.b->xport->ops->link_attach(b[i], pair.b), 0);
	}
	settle();
	cr_expect_leq(receiver()->pool.rxq.bufs.total, 2048);
	check_books(LINKS);
	close_links(LINKS);
	pair.permitted = true;
	pair_connect(&pair);
	pair_close(&pair);
}

/* Those that came first are told, too: others may fill the buffers that they count on. */
Test(verbs_window, early_peers_learn_that_buffers_lack)
{
	enum { FIRST = 14, ALL = 24 };

	open_as("mlx5");
	pair_close(&pair);
	config.rnr_fails = false;
	params.rx_bufs = 64;
	verbs_open();
	connect_all(FIRST);
	for (int i = 0; i < FIRST; i++)
		cr_assert_not(verbs_link_of(a[i])->thin);
	for (int i = FIRST; i < ALL; i++)
		link_up(i);
	settle();
	for (int i = 0; i < ALL; i++) {
		cr_expect(verbs_link_of(a[i])->thin, "link %d", i);
		cr_expect(verbs_link_of(b[i])->thin_told, "link %d", i);
	}
	cr_expect(tagrv_list_empty(&receiver()->owed));
	for (int i = FIRST; i < ALL; i++) {
		pair.a->xport->ops->link_close(a[i]);
		pair.b->xport->ops->link_close(b[i]);
	}
	PAIR_UNTIL(&pair, pair.b->closed == ALL - FIRST && pair.a->closed == ALL - FIRST);
	pair.a->closed = pair.b->closed = 0;
	settle();
	for (int i = 0; i < FIRST; i++)
		cr_expect_not(verbs_link_of(a[i])->thin, "link %d", i);
	close_links(FIRST);
	pair.permitted = true;
	pair_connect(&pair);
	pair_close(&pair);
}

/* Peers that have used what they were permitted find buffers, whatever another could use. */
Test(verbs_window, what_is_kept_for_peers_is_given_to_nobody)
{
	enum { FEW = 10 };
	struct verbs_link *link;
	struct verbs_xport *xp;

	open_as("mlx5");
	pair_close(&pair);
	params.rx_bufs = 64;
	verbs_open();
	connect_all(FEW);
	xp = receiver();
	for (int i = 1; i < FEW; i++)
		tagrv_verbs_permit_take(verbs_link_of(b[i]), VERBS_PERMIT_MIN);
	cr_assert_eq(atomic_load(&xp->pool.rx_kept), (FEW - 1) * VERBS_PERMIT_MIN);
	link = verbs_link_of(b[0]);
	tagrv_verbs_window_set(link, VERBS_PERMIT_MAX);
	xp->pool.rx_window = VERBS_PERMIT_MAX;
	cr_expect_gt(tagrv_verbs_permit_offer(link), 0);
	cr_expect_leq(tagrv_verbs_permit_offer(link) + link->rx_permits,
		      xp->pool.rxq.posted - (FEW - 1) * VERBS_PERMIT_MIN);
	close_links(FEW);
	pair_connect(&pair);
	pair_close(&pair);
}

/* ---- random traffic ---- */

static unsigned to_send[LINKS];

/* A few links have much to send at a time; which they are changes all the time. */
static void step(unsigned n)
{
	int i = (int) draw(LINKS);

	if (n % (STEPS / 50) == 0)
		to_send[i] += 50 + draw(400);
	if (draw(4) == 0)
		to_send[draw(LINKS)] += 1 + draw(3);
	for (int k = 0; k < LINKS; k++)
		if (to_send[k])
			to_send[k] -= verbs_send_some(a[k], 1 + draw(to_send[k]));
	for (unsigned k = draw(4); k; k--) {
		struct end *end = &pair.ends[draw(2)];

		end->xport->ops->progress(end->xport);
	}
}

static bool all_sent(void)
{
	bool all = true;

	for (int k = 0; k < LINKS; k++) {
		if (to_send[k])
			to_send[k] -= verbs_send_some(a[k], to_send[k]);
		all &= !to_send[k];
	}
	return all;
}

/* Nothing starves: whatever is to be sent is sent as long as both ends make progress. */
static void mix(void)
{
	seed = 1;
	connect_all(LINKS);
	for (unsigned n = 0; n < STEPS; n++) {
		step(n);
		check_books(LINKS);
	}
	PAIR_UNTIL(&pair, all_sent());
	settle();
	check_books(LINKS);
	finish(LINKS);
}

/* With so few buffers that windows have to be taken back from peers that have fallen idle. */
Test(verbs_window, nobody_starves_among_many)
{
	few = true;
	with_each(mix);
}
