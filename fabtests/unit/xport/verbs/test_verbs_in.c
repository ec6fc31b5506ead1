/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Links of two queue pairs: who is connected with whom, and what becomes of them when a side
 * has no second one, when something fails, and when there is no room for two.
 */
#include <criterion/criterion.h>
#include <endian.h>
#include <errno.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/verbs_fixture.h"

static const struct tagrv_xport_ops *const ops = &tagrv_verbs_ops;

static void prepare(void)
{
	verbs_prepare();
	verbs_need_srq();
	params.hw_tags = true;
}

TestSuite(verbs_in, .init = prepare, .timeout = 30);

static unsigned used(const struct end *end)
{
	return atomic_load(&end->xport->quotas[0]->used);
}

/* A packet from each end to the other. */
static void exchange(void)
{
	pair_send(&pair, pair.a, 1, 100, NULL);
	pair_send(&pair, pair.b, 2, 100, NULL);
	PAIR_UNTIL(&pair, pair.a->packet_cnt == 1 && pair.b->packet_cnt == 1);
	cr_assert(is_pattern(pair.b->packets[0].data, 1, 100));
	cr_assert(is_pattern(pair.a->packets[0].data, 2, 100));
}

/* The link is plain, and nothing of a second queue pair is left. */
static void expect_plain(const struct end *end)
{
	const struct verbs_link *link = verbs_link_of(end->link);

	cr_assert_null(link->in.qp);
	cr_assert_not(link->in_used);
	cr_assert_eq(link->counted, 1);
	cr_assert_eq(used(end), 1);
	cr_assert_eq(verbs_xport_of(end->xport)->in_map.cnt, 0);
}

Test(verbs_in, packets_come_by_the_second_queue_pair)
{
	const struct verbs_link *a, *b;

	verbs_open();
	pair_connect(&pair);
	a = verbs_link_of(pair.a->link);
	b = verbs_link_of(pair.b->link);
	cr_assert(a->in_used && b->in_used);
	cr_assert_eq(a->counted, 2);
	cr_assert_eq(used(pair.a), 2);
	exchange();
	cr_assert_eq(verbs_xport_of(pair.a->xport)->in_map.last, a);
	cr_assert_eq(verbs_xport_of(pair.b->xport)->in_map.last, b);
	end_close_link(pair.a);
	cr_assert_eq(used(pair.a), 0);
	cr_assert_eq(verbs_xport_of(pair.a->xport)->in_map.cnt, 0);
	pair_close(&pair);
}

/* The peer sends by its second queue pair, to our first one. */
Test(verbs_in, packets_by_the_first_queue_pair_are_refused)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = 40 };
	struct verbs_xport *xp;
	struct verbs_link *a;

	verbs_open();
	pair_connect(&pair);
	a = verbs_link_of(pair.a->link);
	xp = verbs_xport_of(pair.a->xport);
	wc.qp_num = a->qpn;
	for (uint32_t i = 0; i < 2; i++) {
		wc.wr_id = xp->pool.rxq.wr_ids[i];
		fake_verbs_inject_rx(a->qp, &wc);
	}
	wc.wc_flags = IBV_WC_WITH_IMM;		/* nor do their permits count */
	wc.imm_data = htobe32(100);
	wc.wr_id = xp->pool.rxq.wr_ids[2];
	fake_verbs_inject_rx(a->qp, &wc);
	tagrv_verbs_permit_poll(xp);
	cr_assert_lt(a->tx_permits, 100);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EREMOTEIO);
	cr_assert_eq(pair.a->packet_cnt, 0);
	cr_assert_eq(xp->astray, 3);
	cr_assert_lt(a->tx_permits, 100);
	pair_close(&pair);
}

/* One side's blob is from before, when it had no second queue pair. */
static void strip_two(char *blob, size_t *len)
{
	struct verbs_blob peer;

	cr_assert_eq(tagrv_verbs_blob_unpack(&peer, blob, *len), 0);
	cr_assert(peer.two);
	peer.two = false;
	*len = tagrv_verbs_blob_pack(&peer, blob);
}

Test(verbs_in, plain_peer)
{
	struct tagrv_params plain = params;

	verbs_open();
	ops->xport_close(pair.b->xport);
	plain.hw_tags = false;
	cr_assert_eq(ops->xport_open(pair.b->dev, &plain, &pair.b->sink, &pair.b->xport), 0);
	pair_connect(&pair);
	expect_plain(pair.a);
	expect_plain(pair.b);
	exchange();
	pair_close(&pair);
}

/* The endpoint's thread has the link in its map before bind says what becomes of it. */
Test(verbs_in, unused_one_is_in_the_map_until_attached)
{
	char blob_a[TAGRV_BLOB_MAX], blob_b[TAGRV_BLOB_MAX];
	size_t len_a, len_b;
	struct verbs_xport *xp;

	verbs_open();
	xp = verbs_xport_of(pair.a->xport);
	cr_assert_eq(ops->link_create(pair.a->xport, blob_a, &len_a, &pair.a->link), 0);
	cr_assert_eq(ops->link_create(pair.b->xport, blob_b, &len_b, &pair.b->link), 0);
	cr_assert(tagrv_verbs_links_adopt(xp));
	cr_assert_eq(xp->in_map.cnt, 1);
	strip_two(blob_b, &len_b);
	cr_assert_eq(ops->link_bind(pair.a->link, blob_b, len_b), 0);
	cr_assert_not(verbs_link_of(pair.a->link)->in_used);
	cr_assert_eq(xp->in_map.cnt, 1);
	cr_assert_eq(ops->link_attach(pair.a->link, pair.a), 0);
	expect_plain(pair.a);
	ops->link_discard(pair.b->link);
	pair.b->link = NULL;
	pair_close(&pair);
}

/* Each of the four calls that connect two queue pairs fails once. */
Test(verbs_in, bind_that_fails_leaves_nothing)
{
	char blob_a[TAGRV_BLOB_MAX], blob_b[TAGRV_BLOB_MAX];
	struct tagrv_link *a, *b;
	size_t len_a, len_b;

	verbs_open();
	for (unsigned nth = 1; nth <= 4; nth++) {
		cr_assert_eq(ops->link_create(pair.a->xport, blob_a, &len_a, &a), 0);
		cr_assert_eq(ops->link_create(pair.b->xport, blob_b, &len_b, &b), 0);
		fake_verbs_fail_modify_qp(nth, ENETUNREACH);
		cr_assert_eq(ops->link_bind(a, blob_b, len_b), -FI_ENETUNREACH);
		ops->link_discard(a);
		ops->link_discard(b);
		PAIR_UNTIL(&pair, !used(pair.a) && !used(pair.b));
	}
	pair_close(&pair);
}

/* The second one cannot be made, or not be initialized: so the first one goes, too. */
Test(verbs_in, create_that_fails_leaves_nothing)
{
	char blob[TAGRV_BLOB_MAX];
	struct fake_verbs_counts before, after;
	struct tagrv_link *a;
	size_t len;

	verbs_open();
	before = fake_verbs_count();
	fake_verbs_fail_create_qp(2, ENOMEM);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a), -FI_ENOSPC);
	fake_verbs_fail_modify_qp(2, EINVAL);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a), -FI_EINVAL);
	after = fake_verbs_count();
	cr_assert_eq(before.objects, after.objects);
	cr_assert_eq(used(pair.a), 0);
	pair_close(&pair);
}

/* An event of either queue pair is an error of the link, which is reported once. */
static void fail_one(bool in)
{
	struct verbs_link *a;

	prepare();
	verbs_open();
	pair_connect(&pair);
	a = verbs_link_of(pair.a->link);
	fake_verbs_event(0, IBV_EVENT_QP_FATAL, in ? a->in.qp : a->qp);
	ops->dev_event(pair.a->dev);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EIO);
	fake_verbs_event(0, IBV_EVENT_QP_FATAL, in ? a->qp : a->in.qp);
	ops->dev_event(pair.a->dev);
	end_close_link(pair.a);
	cr_assert_eq(pair.a->errors, 1);
	cr_assert_eq(used(pair.a), 0);
	pair_close(&pair);
}

Test(verbs_in, either_may_fail)
{
	fail_one(false);
	fail_one(true);
}

/* A link has both or none. */
Test(verbs_in, quota_is_taken_for_two)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *links[2], *more;
	size_t len;

	params.max_qps = 5;
	verbs_open();
	for (int i = 0; i < 2; i++)
		cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &links[i]), 0);
	cr_assert_eq(used(pair.a), 4);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &more), -FI_ENOSPC);
	cr_assert_eq(used(pair.a), 4);
	for (int i = 0; i < 2; i++)
		ops->link_discard(links[i]);
	PAIR_UNTIL(&pair, !used(pair.a));
	pair_close(&pair);
}
