/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pools of receive buffers: what the device wants for itself is permitted to nobody, and
 * nothing that is done for one pool concerns links of another.
 */
#include <criterion/criterion.h>

#include "unit/xport/verbs/verbs_fixture.h"

enum { LINKS = 4, BUFS = 63, LEAST = 32 };

static struct tagrv_link *a[LINKS], *b[LINKS];
static uint32_t bufs = BUFS;

static struct verbs_pool *receiver(void)
{
	return &verbs_xport_of(pair.b->xport)->pool;
}

static void start(uint32_t least)
{
	config = fake_verbs_as("mlx5");
	config.rnr_fails = true;
	params = pair_params();
	params.rx_bufs = bufs;
	verbs_open();
	pair.a->forget = pair.b->forget = true;
	tagrv_verbs_pool_init(receiver(), verbs_xport_of(pair.b->xport), least);
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &a[i], &b[i]);
		cr_assert_eq(pair.a->xport->ops->link_attach(a[i], pair.a), 0);
		cr_assert_eq(pair.b->xport->ops->link_attach(b[i], pair.b), 0);
		pair_progress(&pair);
	}
}

static void finish(uint32_t least)
{
	for (int i = 0; i < LINKS; i++) {
		pair.a->xport->ops->link_close(a[i]);
		pair.b->xport->ops->link_close(b[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == LINKS && pair.b->closed == LINKS);
	cr_expect_eq(receiver()->links, 0);
	cr_expect_eq(atomic_load(&receiver()->rx_kept), least);
	tagrv_verbs_pool_init(receiver(), verbs_xport_of(pair.b->xport), 0);
	pair.a->closed = pair.b->closed = 0;
	pair.permitted = true;
	pair_connect(&pair);
	pair_close(&pair);
}

TestSuite(verbs_pool, .timeout = 60);

/* All links send as much as they may, and for long enough that their windows would grow. */
Test(verbs_pool, what_the_device_wants_is_permitted_to_nobody)
{
	unsigned sent = 0;

	start(LEAST);
	cr_assert_eq(receiver()->rxq.bufs.total, BUFS);
	for (int i = 0; i < 200; i++) {
		sent += verbs_send_some(a[i % LINKS], BUFS);
		pair_progress(&pair);
		cr_assert_leq(atomic_load(&receiver()->rx_permits), BUFS - LEAST, "%d", i);
		cr_assert_not(verbs_link_of(a[i % LINKS])->thin);
	}
	PAIR_UNTIL(&pair, pair.b->packet_cnt == sent);
	cr_expect_gt(sent, 400);
	cr_expect_eq(receiver()->permits_over, 0);
	cr_expect_eq(fake_verbs_count().rnr, 0);
	finish(LEAST);
}

Test(verbs_pool, links_of_another_pool_are_left_alone)
{
	struct verbs_pool *pool, other = { .links = 0 };
	struct verbs_link *mine, *foreign;

	start(0);
	pool = receiver();
	mine = verbs_link_of(b[0]);
	foreign = verbs_link_of(b[1]);
	tagrv_verbs_pool_init(&other, pool->xp, 0);
	mine->thin_told = foreign->thin_told = pool->thin_due = true;
	foreign->pool = &other;
	tagrv_verbs_permit_thin_look(pool);
	cr_expect(tagrv_list_linked(&mine->owed_node));
	cr_expect_not(tagrv_list_linked(&foreign->owed_node));
	tagrv_list_remove(&mine->owed_node);
	mine->thin_told = foreign->thin_told = false;
	/* A search has to wait for no link but those of its pool. */
	pool->lost.before = mine->rx_last = pool->rxq.next;
	for (int i = 2; i < LINKS; i++)
		verbs_link_of(b[i])->rx_last = pool->rxq.next;
	foreign->rx_last = 0;
	tagrv_verbs_lost_search(pool);
	cr_expect_eq(pool->lost.before, 0);
	foreign->pool = pool;
	finish(0);
}

/* ---- buffers lack, and there are enough again ---- */

/* So many buffers are lost that one lacks for the packets permitted. */
static void make_thin(struct verbs_pool *pool)
{
	pool->lost.links = pool->rxq.bufs.total - atomic_load(&pool->rx_permits) -
			   atomic_load(&pool->rx_kept) + 1;
}

/* The wireup thread, which permits the first packets, knows nothing of buffers that are lost. */
Test(verbs_pool, peers_are_told_of_buffers_that_are_lost)
{
	struct tagrv_link *late_a, *late_b;
	struct verbs_pool *pool;

	start(0);
	pool = receiver();
	make_thin(pool);
	pool->lost.links -= 2;
	pair_link(&pair, &late_a, &late_b);
	cr_assert_not(verbs_link_of(late_b)->thin_told);
	cr_assert_eq(pair.a->xport->ops->link_attach(late_a, pair.a), 0);
	cr_assert_eq(pair.b->xport->ops->link_attach(late_b, pair.b), 0);
	pair_progress(&pair);
	pair_progress(&pair);
	cr_expect(verbs_link_of(late_a)->thin);
	cr_expect(verbs_link_of(a[0])->thin);
	pair.a->xport->ops->link_close(late_a);
	pair.b->xport->ops->link_close(late_b);
	PAIR_UNTIL(&pair, pair.a->closed == 1 && pair.b->closed == 1);
	pair.a->closed = pair.b->closed = 0;
	PAIR_UNTIL(&pair, !verbs_link_of(a[0])->thin);
	finish(0);
}

/* By whatever way enough have become free. */
Test(verbs_pool, peers_are_told_that_there_are_enough)
{
	struct verbs_pool *pool;
	struct verbs_link *mine;

	bufs = 2000;
	start(0);
	pool = receiver();
	mine = verbs_link_of(b[0]);
	cr_assert_lt(pool->rxq.bufs.total, pool->rxq.bufs.max);
	/* More were registered. */
	make_thin(pool);
	mine->thin_told = pool->thin_due = true;
	tagrv_verbs_pool_grow(pool);
	cr_expect(tagrv_list_linked(&mine->owed_node));
	cr_expect_not(pool->thin_due);
	tagrv_list_remove(&mine->owed_node);
	/* Permits came back. */
	tagrv_verbs_permit_sent(verbs_link_of(b[1]), 8);
	make_thin(pool);
	mine->thin_told = pool->thin_due = true;
	tagrv_verbs_permit_take(verbs_link_of(b[1]), 8);
	cr_expect(tagrv_list_linked(&mine->owed_node));
	cr_expect_not(pool->thin_due);
	tagrv_list_remove(&mine->owed_node);
	mine->thin_told = false;
	pool->lost.links = 0;
	finish(0);
}

/* The share of each peer is one of the buffers that there can be. */
Test(verbs_pool, windows_share_what_can_be_registered)
{
	struct verbs_pool *pool;

	bufs = 2000;
	start(0);
	pool = receiver();
	for (int i = 0; i < LINKS; i++)
		tagrv_verbs_window_set(verbs_link_of(b[i]), VERBS_PERMIT_MAX);
	cr_assert_eq(pool->rx_window, VERBS_PERMIT_MAX);
	fake_verbs_fail_reg(1, ENOMEM);
	tagrv_verbs_pool_grow(pool);
	cr_assert_eq(pool->rxq.bufs.total, pool->rxq.bufs.max);
	cr_expect_leq((pool->rx_window - VERBS_PERMIT_MIN) * LINKS, pool->rxq.bufs.max / 4 * 3);
	finish(0);
}

/* ---- the warning ---- */

/* More links than buffers for a while, because nobody made progress that registers some. */
Test(verbs_pool, a_burst_of_peers_is_no_reason_to_warn)
{
	struct verbs_pool *pool;

	bufs = 2000;
	start(0);
	pool = receiver();
	pool->permits_over = 4;
	cr_expect_eq(tagrv_verbs_recall_none(verbs_link_of(a[0])), 0);
	for (int i = 0; i < 8; i++)
		pair_progress(&pair);
	cr_expect_not(pool->warned_over);
	pool->permits_over = 0;
	finish(0);
}
