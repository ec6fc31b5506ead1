/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Opening an endpoint's queues: sizes within the device's limits, and no objects left
 * when it fails half-way.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>
#include <sched.h>

#include "unit/xport/verbs/verbs_fixture.h"

static struct tagrv_device *dev;
static struct tagrv_sink sink;
static const struct tagrv_xport_ops *const ops = &tagrv_verbs_ops;

static struct verbs_xport *open_one(void)
{
	struct tagrv_xport *xport;

	fake_verbs_start(&config);
	cr_assert_eq(ops->dev_open("fake0", &params, &dev), 0);
	cr_assert_eq(ops->xport_open(dev, &params, &sink, &xport), 0);
	return verbs_xport_of(xport);
}

static void close_one(struct verbs_xport *xp)
{
	ops->xport_close(&xp->base);
	ops->dev_close(dev);
	cr_assert_eq(fake_verbs_count().objects, 0);
	cr_assert_eq(fake_verbs_count().registered, 0);
}

TestSuite(verbs_xport, .init = verbs_prepare, .timeout = 20);

Test(verbs_xport, buffers_are_up_on_return)
{
	struct verbs_xport *xp;

	verbs_need_srq();
	xp = open_one();
	cr_assert(xp->use_srq);
	cr_assert_eq(xp->pool.rxq.posted, 512);
	cr_assert_eq(xp->pool.rxq.bufs.size, 8384);
	cr_assert_eq(xp->pool.rxq.bufs.max, 4095, "one less than a power of two");
	cr_assert_eq(xp->tx_bufs.total, 128);
	close_one(xp);
}

Test(verbs_xport, packet_size_is_rounded_up)
{
	struct verbs_xport *xp;

	params.eager_max = 1000;
	config.max_inline = 512;
	xp = open_one();
	cr_assert_eq(xp->base.attr.max_packet, 1192);
	cr_assert_eq(xp->pool.rxq.bufs.size, 1216);
	cr_assert_eq(xp->base.attr.max_inline, 192);
	close_one(xp);
}

Test(verbs_xport, limits_of_the_device_are_kept)
{
	struct verbs_xport *xp;

	config.max_cqe = 100;
	config.max_srq_wr = 50;
	config.max_qp_wr = 20;
	config.rd_atom = 2;
	xp = open_one();
	cr_assert_eq(xp->pool.rxq.posted, xp->use_srq ? 50 : 0);
	cr_assert_eq(xp->rq_depth, 20);
	cr_assert_eq(xp->tx_cap, 100);
	cr_assert_eq(xp->sq_depth, 20);
	cr_assert_eq(xp->base.attr.get_depth, 2);
	close_one(xp);
}

/* Half of the limit is for packet buffers: first there are fewer, then smaller ones. */
Test(verbs_xport, limit_of_locked_memory_is_kept)
{
	struct verbs_xport *xp;

	verbs_need_srq();
	config.memlock = 8 << 20;
	xp = open_one();
	cr_assert_eq(xp->base.attr.max_packet, 8192 + TAGRV_HDR_ROOM);
	cr_assert_eq(xp->params.rx_bufs, 332);
	cr_assert_eq(xp->params.tx_bufs, 166);
	cr_assert_leq(xp->pool.rxq.bufs.max * xp->pool.rxq.bufs.size +
		      xp->tx_bufs.max * xp->tx_bufs.size, 4 << 20);
	close_one(xp);
	config.memlock = 65536;
	xp = open_one();
	cr_assert_eq(xp->base.attr.max_packet, 1344);
	cr_assert_eq(xp->pool.rxq.bufs.max, 15);
	cr_assert_eq(xp->tx_bufs.max, 8);
	cr_assert_leq(fake_verbs_count().registered, 32768 + 4096);
	close_one(xp);
	/* The parameter is not exceeded. */
	params.eager_max = 512;
	params.rx_bufs = 17;
	xp = open_one();
	cr_assert_eq(xp->base.attr.max_packet, 512 + TAGRV_HDR_ROOM);
	cr_assert_eq(xp->pool.rxq.bufs.max, 17);
	close_one(xp);
	/* The limit is below the smallest sizes. */
	config.memlock = 4096;
	fake_verbs_start(&config);
	cr_assert_eq(ops->dev_open("fake0", &params, &dev), 0);
	cr_assert_eq(ops->xport_open(dev, &params, &sink,
				     &(struct tagrv_xport *) { NULL }),
		     -FI_ENOMEM);
	ops->dev_close(dev);
}

Test(verbs_xport, shared_queue_can_be_declined)
{
	struct verbs_xport *xp;

	params.srq = false;
	xp = open_one();
	cr_assert(!xp->use_srq);
	cr_assert_null(xp->pool.rxq.srq);
	cr_assert_eq(xp->rq_depth, 63);
	close_one(xp);
}

/* The receive CQ grows with the peers; where it cannot be resized, it is large at once. */
Test(verbs_xport, receive_cq_that_cannot_grow_is_large)
{
	struct verbs_xport *xp;

	config.max_srq = 0;
	config.max_cqe = 100000;
	config.no_resize = false;
	xp = open_one();
	cr_assert_eq(xp->inbox.rx_cq_depth, 16383);
	close_one(xp);
	config.no_resize = true;
	xp = open_one();
	cr_assert_eq(xp->inbox.rx_cq_depth, 65535);
	cr_assert_eq(xp->rx.cq->cqe, 65535);
	close_one(xp);
}

/* Sleeping threads of different endpoints are woken by different interrupts. */
Test(verbs_xport, endpoints_spread_over_completion_vectors)
{
	/* A receive CQ that must be large at once is opened twice. */
	const unsigned cqs = config.max_srq || !config.no_resize ? 2 : 3;
	struct fake_verbs_counts counts = { 0 };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t) sched_getcpu(), &set);
	cr_assert_eq(sched_setaffinity(0, sizeof(set), &set), 0);
	fake_verbs_start(&config);
	cr_assert_eq(ops->dev_open("fake0", &params, &dev), 0);
	for (int i = 0; i < FAKE_VERBS_VECTORS; i++) {
		struct tagrv_xport *xp;

		cr_assert_eq(ops->xport_open(dev, &params, &sink, &xp), 0);
		ops->xport_close(xp);
	}
	counts = fake_verbs_count();
	for (int i = 0; i < FAKE_VERBS_VECTORS; i++)
		cr_expect_eq(counts.cqs_by_vector[i], cqs, "both of one endpoint");
	ops->dev_close(dev);
}

/* Each registration and queue pair fails in turn: no object may be left. */
Test(verbs_xport, failure_leaves_nothing)
{
	struct tagrv_xport *xport = NULL;
	struct fake_verbs_counts counts;
	bool opened = false;
	unsigned nth;

	fake_verbs_start(&config);
	cr_assert_eq(ops->dev_open("fake0", &params, &dev), 0);
	for (nth = 1; !opened; nth++) {
		fake_verbs_fail_reg(nth, ENOMEM);
		opened = !ops->xport_open(dev, &params, &sink, &xport);
		counts = fake_verbs_count();
		if (!opened)
			cr_assert_eq(counts.objects, 2, "context and domain");
	}
	/* Copy buffers, and the receive buffers that are not of a link. */
	cr_assert_eq(nth - 2, config.max_srq ? 2 : 1, "registrations that can fail");
	ops->xport_close(xport);
	fake_verbs_fail_reg(0, 0);
	ops->dev_close(dev);
	cr_assert_eq(fake_verbs_count().objects, 0);
}

Test(verbs_xport, out_of_locked_memory_is_enomem)
{
	struct tagrv_xport *xport = NULL;

	fake_verbs_start(&config);
	cr_assert_eq(ops->dev_open("fake0", &params, &dev), 0);
	fake_verbs_fail_reg(1, ENOMEM);
	cr_assert_eq(ops->xport_open(dev, &params, &sink, &xport), -FI_ENOMEM);
	cr_assert_null(xport);
	ops->dev_close(dev);
}

Test(verbs_xport, several_endpoints_share_a_device)
{
	struct verbs_xport *xp = open_one();
	struct tagrv_xport *second;

	cr_assert_eq(ops->xport_open(dev, &params, &sink, &second), 0);
	ops->xport_close(second);
	close_one(xp);
}

/* ---- thread domain ---- */

static void connects(unsigned unlocked)
{
	verbs_open();
	cr_assert_eq(!!verbs_xport_of(pair.a->xport)->td, unlocked > 0);
	pair_connect(&pair);
	cr_assert_eq(fake_verbs_count().unlocked_qps, unlocked);
	for (unsigned i = 0; i < 50; i++)
		pair_send(&pair, pair.a, i, 20 * i, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 50);
	pair_close(&pair);	/* nothing is left */
}

Test(verbs_xport, queue_pairs_are_in_a_thread_domain)
{
	connects(4);	/* two that find out the inline size, two that connect */
}

Test(verbs_xport, devices_may_have_no_thread_domains)
{
	config.td_errno = EOPNOTSUPP;
	connects(0);
}

Test(verbs_xport, devices_may_have_no_parent_domains)
{
	config.parent_errno = ENOMEM;
	connects(0);
}

Test(verbs_xport, queue_pairs_may_be_refused_in_a_thread_domain)
{
	config.parent_qp_errno = EOPNOTSUPP;
	connects(0);
}

/* ---- operations of queue pairs ---- */

/* Sends by all ways; returns the number of queue pairs that were refused. */
static unsigned works_with_chosen(unsigned chosen)
{
	const unsigned cnt = 40;

	verbs_open();
	pair_connect(&pair);
	cr_assert_eq(fake_verbs_count().chosen_qps, chosen);
	for (unsigned i = 0; i < cnt; i++)
		pair_send(&pair, pair.a, i, 20 * i, NULL);
	pair.a->xport->ops->flush(pair.a->xport);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == cnt && !pair.a->xport->ops->outstanding(pair.a->xport));
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	pair_close(&pair);
	return fake_verbs_count().refused_qps;
}

/* A queue pair of these devices refuses an operation that was not chosen. */
Test(verbs_xport, queue_pairs_are_for_what_is_posted)
{
	config.ops_errno = 0;
	works_with_chosen(4);	/* two that find out the inline size, two that connect */
}

/* Each device is asked once: by the first queue pair, which finds out the inline size. */
static void is_asked_once(int err)
{
	config.ops_errno = err;
	config.max_inline = 512;
	cr_assert_eq(works_with_chosen(0), 2);
}

Test(verbs_xport, a_device_may_have_no_choice_of_operations)
{
	is_asked_once(EOPNOTSUPP);
}

Test(verbs_xport, a_device_may_not_know_of_a_choice)
{
	is_asked_once(ENOSYS);
}

Test(verbs_xport, a_device_may_take_the_choice_for_a_mistake)
{
	is_asked_once(EINVAL);
}

/* Nor does it seem so: inline data is refused with the same error. */
Test(verbs_xport, a_refused_size_is_not_a_refused_choice)
{
	struct verbs_xport *xp;

	config.ops_errno = 0;
	config.max_inline = 20;
	xp = open_one();
	cr_assert_gt(fake_verbs_count().refused_qps, 0);
	cr_assert_not(atomic_load(&xp->dev->plain_qps));
	close_one(xp);
}

/* Out of queue pairs is no lack of the choice. */
Test(verbs_xport, a_full_device_is_not_asked_twice)
{
	struct tagrv_xport *xport;

	config.ops_errno = 0;
	config.max_inline = 512;
	config.max_qp = 1;
	config.td_errno = EOPNOTSUPP;
	fake_verbs_start(&config);
	cr_assert_eq(ops->dev_open("fake0", &params, &dev), 0);
	fake_verbs_fail_create_qp(1, ENOMEM);
	cr_assert_eq(ops->xport_open(dev, &params, &sink, &xport), 0);
	cr_assert_eq(fake_verbs_count().refused_qps, 1);
	cr_assert_not(atomic_load(&verbs_dev_of(dev)->plain_qps));
	close_one(verbs_xport_of(xport));
}

/* An endpoint of each kind of queue pair is there already. Its idle links may make room later. */
static void open_on_full_device(int parent_qp_errno)
{
	struct tagrv_xport *first, *second, *other;
	struct tagrv_params others = params;
	struct tagrv_link *link, *more;
	char blob[TAGRV_BLOB_MAX];
	size_t len;

	config.max_inline = 192;
	config.max_qp = 1;
	config.parent_qp_errno = parent_qp_errno;
	fake_verbs_start(&config);
	cr_assert_eq(ops->dev_open("fake0", &params, &dev), 0);
	cr_assert_eq(ops->xport_open(dev, &params, &sink, &first), 0);
	cr_assert_eq(ops->link_create(first, blob, &len, &link), 0);
	others.sq_depth /= 2;
	cr_assert_eq(ops->xport_open(dev, &others, &sink, &other), -FI_ENOMEM);
	cr_assert_eq(ops->xport_open(dev, &params, &sink, &second), 0);
	cr_assert_eq(second->attr.max_inline, first->attr.max_inline);
	cr_assert_eq(!verbs_xport_of(second)->td, !verbs_xport_of(first)->td);
	cr_assert_eq(ops->link_create(second, blob, &len, &more), -FI_ENOSPC);
	ops->link_discard(link);
	ops->xport_close(first);
	cr_assert_eq(ops->link_create(second, blob, &len, &link), 0);
	ops->link_discard(link);
	close_one(verbs_xport_of(second));
}

Test(verbs_xport, endpoint_opens_on_a_full_device)
{
	open_on_full_device(0);
}

Test(verbs_xport, endpoint_without_thread_domain_opens_on_a_full_device)
{
	open_on_full_device(EOPNOTSUPP);
}
