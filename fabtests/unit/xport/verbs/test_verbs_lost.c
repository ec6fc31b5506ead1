/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shared receive buffers that are lost when links fail, over fake devices with few of them:
 * those of the ordinary queue, and those of a list of receives.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/verbs_fixture.h"

enum { BUFS = 63, FAILURES = 200, LIST_FAILURES = 100 };

/* Of end b: where its packets come. */
static struct verbs_pool *pool;

static struct verbs_xport *open_like(const char *profile)
{
	verbs_prepare();
	config = fake_verbs_as(profile);
	params.rx_bufs = BUFS;
	verbs_open();
	pair.a->forget = pair.b->forget = true;
	pool = &verbs_xport_of(pair.b->xport)->pool;
	return pool->xp;
}

/* The same, and end b has a list with as many buffers as it must have. */
static struct verbs_xport *open_list_like(const char *profile)
{
	verbs_prepare();
	config = fake_verbs_as(profile);
	config.tm = fake_verbs_as("mlx5").tm;
	config.tm_least = VERBS_LIST_BUFS_IDLE + 1;
	params.rx_bufs = 2 * VERBS_LIST_BUFS_LEAST;
	params.hw_tags = true;
	pair_open_with(&pair, PAIR_LIST_ONE, &params, &config);
	pair.a->forget = pair.b->forget = true;
	pool = &verbs_xport_of(pair.b->xport)->list.pool;
	return pool->xp;
}

static void close_links(void)
{
	end_close_link(pair.a);
	end_close_link(pair.b);
	pair.a->closed = pair.b->closed = 0;
}

/* A link that breaks at end b while packets are in flight; 'late': some have arrived unseen. */
static void fail_link(unsigned seen, bool late)
{
	size_t before = pair.b->packet_cnt;
	struct ibv_qp *qp;

	pair_connect(&pair);
	qp = fake_verbs_last_qp(1);
	for (unsigned i = 0; i < seen; i++)
		pair_send(&pair, pair.a, i, 8, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == before + seen);
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), 0);
	if (late)
		fake_verbs_lose_rx(qp);
	fake_verbs_hold(true);
	cr_assert_eq(end_send(pair.a, 0, 8, TAGRV_SEND_CTRL, NULL), 0);
	fake_verbs_break_qp(qp);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, pair.a->errors);
	pair.a->errors = pair.b->errors = 0;
	close_links();
}

static void send_many(unsigned cnt)
{
	size_t before = pair.b->packet_cnt;

	for (unsigned i = 0; i < cnt; i++)
		pair_send(&pair, pair.a, i, 8, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == before + cnt);
}

/* Whether each buffer is where the books say, and none is in two places. */
static void check_books(const struct verbs_rxq *rxq)
{
	bool idle[BUFS + 1] = { false };
	uint32_t posted = 0;

	cr_assert_leq(rxq->bufs.total, BUFS + 1);
	for (uint32_t i = 0; i < rxq->bufs.idle_cnt; i++) {
		cr_assert_not(idle[rxq->bufs.idle[i]]);
		idle[rxq->bufs.idle[i]] = true;
	}
	for (uint32_t i = 0; i < rxq->bufs.total; i++) {
		bool is_posted = rxq->wr_ids[i] != verbs_not_posted(i);

		cr_assert_neq(is_posted, idle[i]);
		posted += is_posted;
	}
	cr_assert_eq(posted, rxq->posted);
	cr_assert_eq(rxq->posted + rxq->bufs.idle_cnt, rxq->bufs.total);
}

/*
 * More buffers are lost than there are. Returns how many were lost. 'doubts': links that
 * failed of which it may stay unknown.
 */
static unsigned fail_often(unsigned failures, bool late, uint32_t doubts)
{
	cr_assert_leq(pool->rxq.bufs.max, BUFS + 1);
	for (unsigned i = 0; i < failures; i++) {
		fail_link(6, late);
		check_books(&pool->rxq);
	}
	pair_connect(&pair);
	send_many(1000);
	PAIR_UNTIL(&pair, verbs_lost_maybe(pool) <= doubts);
	check_books(&pool->rxq);
	cr_assert_eq(fake_verbs_count().rnr, 0);
	cr_assert_eq(pool->permits_over, 0);
	cr_assert_not(pool->lost.off);
	return fake_verbs_count().lost_buffers;
}

TestSuite(verbs_lost, .timeout = 60);

Test(verbs_lost, bnxt_re_loses_a_buffer_with_each_link)
{
	open_like("bnxt_re");
	cr_assert_geq(fail_often(FAILURES, false, 0), FAILURES);
	pair_close(&pair);
}

Test(verbs_lost, mlx5_removes_completions_that_are_late)
{
	open_like("mlx5");
	cr_assert_geq(fail_often(FAILURES, true, 0), FAILURES);
	pair_close(&pair);
}

Test(verbs_lost, nothing_is_taken_back_that_was_not_lost)
{
	open_like("rxe");
	cr_assert_eq(fail_often(FAILURES, false, 0), 0);
	pair_close(&pair);
}

/*
 * A link without traffic might hold a buffer: its peer is asked for a packet. For few links
 * that failed nobody is asked.
 */
Test(verbs_lost, idle_links_are_asked)
{
	struct tagrv_link *a, *b;
	size_t asked;

	open_like("bnxt_re");
	pair_connect(&pair);
	a = pair.a->link;
	b = pair.b->link;
	asked = pair.a->packet_cnt;
	fail_often(FAILURES, false, BUFS / 8);
	cr_assert_gt(verbs_link_of(b)->asked_for, 0);
	cr_assert_eq(pair.a->packet_cnt, asked, "the question is nobody's packet");
	close_links();
	pair.a->link = a;
	pair.b->link = b;
	send_many(1000);
	pair_close(&pair);
}

/* A link of which half a packet has come keeps its buffer, until it has all of it. */
Test(verbs_lost, half_a_packet_keeps_its_buffer)
{
	struct verbs_xport *xp = open_like("bnxt_re");
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = 8 };
	struct tagrv_link *a, *b;
	size_t before;

	pair_connect(&pair);
	a = pair.a->link;
	b = pair.b->link;
	wc.qp_num = verbs_link_of(b)->qpn;
	wc.wr_id = fake_verbs_take_buffer(xp->pool.rxq.srq);
	fail_link(6, false);
	pair_connect(&pair);
	send_many(1000);
	cr_assert_eq(xp->pool.rxq.wr_ids[wc.wr_id & xp->pool.rxq.slot_mask], wc.wr_id);
	cr_assert_eq(xp->pool.lost.links, 1);
	before = pair.b->packet_cnt;
	fake_verbs_inject_rx(verbs_link_of(b)->qp, &wc);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == before + 1);
	close_links();
	pair.a->link = a;
	pair.b->link = b;
	send_many(1000);
	PAIR_UNTIL(&pair, !xp->pool.lost.links);
	check_books(&xp->pool.rxq);
	pair_close(&pair);
}

/* The packet for a buffer that was taken back is in no buffer of its own: its link fails. */
Test(verbs_lost, buffers_used_in_another_order_are_noticed)
{
	struct verbs_xport *xp = open_like("bnxt_re");
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = 8 };

	wc.wr_id = fake_verbs_take_buffer(xp->pool.rxq.srq);
	fail_link(1, false);
	pair_connect(&pair);
	send_many(1000);
	PAIR_UNTIL(&pair, !xp->pool.lost.links);
	wc.qp_num = verbs_link_of(pair.b->link)->qpn;
	fake_verbs_inject_rx(fake_verbs_last_qp(1), &wc);
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	cr_assert_eq(pair.b->error_status, -FI_EIO);
	cr_assert(xp->pool.lost.off);
	close_links();
	fail_link(1, false);
	cr_assert_eq(xp->pool.lost.links + xp->pool.lost.links_later, 0, "no search begins");
	pair_close(&pair);
}

/* ---- those of a list ---- */

Test(verbs_lost, a_list_loses_a_buffer_with_each_link)
{
	struct verbs_xport *xp = open_list_like("bnxt_re");

	cr_assert_geq(fail_often(LIST_FAILURES, false, 0), LIST_FAILURES);
	cr_assert_eq(xp->pool.lost.links + xp->pool.lost.links_later, 0, "the other queue lost none");
	pair_close(&pair);
}

Test(verbs_lost, a_list_takes_nothing_back_that_was_not_lost)
{
	open_list_like("rxe");
	cr_assert_eq(fail_often(LIST_FAILURES, false, 0), 0);
	pair_close(&pair);
}
