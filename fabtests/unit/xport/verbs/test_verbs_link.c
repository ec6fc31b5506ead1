/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Links over fake devices: negotiated values, closing in all circumstances, and a
 * wireup thread that works meanwhile.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/slowness.h"
#include "unit/xport/verbs/verbs_fixture.h"

static const struct tagrv_xport_ops *const ops = &tagrv_verbs_ops;

TestSuite(verbs_link, .init = verbs_prepare, .timeout = 30);

Test(verbs_link, reads_are_limited_by_the_weaker_side)
{
	char blob[TAGRV_BLOB_MAX];
	struct verbs_blob peer;
	struct tagrv_link *a, *b;
	size_t len;

	params.read_depth = 8;
	verbs_open();
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a), 0);
	cr_assert_eq(ops->link_create(pair.b->xport, blob, &len, &b), 0);
	cr_assert_eq(tagrv_verbs_blob_unpack(&peer, blob, len), 0);
	cr_assert_eq(peer.rd_in, 16);
	cr_assert_eq(peer.mtu, IBV_MTU_1024);
	peer.rd_in = 2;
	len = tagrv_verbs_blob_pack(&peer, blob);
	cr_assert_eq(ops->link_bind(a, blob, len), 0);
	cr_assert_eq(verbs_link_of(a)->gets.cnt_max, 2);
	cr_assert_eq(pair.a->xport->attr.get_depth, 16);
	ops->link_discard(a);
	ops->link_discard(b);
	pair_close(&pair);
}

Test(verbs_link, the_peers_model_is_known_when_it_tells)
{
	char blob[2][TAGRV_BLOB_MAX];
	struct tagrv_link *a, *b;
	struct verbs_blob old;
	size_t len[2];
	uint64_t own;

	verbs_open();
	own = pair.b->xport->dev->model;
	cr_assert_eq(own >> 24, (uint64_t) config.vendor_id << 16 | 7, "vendor and product");
	cr_assert_eq(ops->link_create(pair.a->xport, blob[0], &len[0], &a), 0);
	cr_assert_eq(ops->link_create(pair.b->xport, blob[1], &len[1], &b), 0);
	cr_assert_eq(ops->link_bind(a, blob[1], len[1]), 0);
	cr_assert_eq(a->peer_key, tagrv_model_key(own));
	/* An older release tells nothing. */
	cr_assert_eq(tagrv_verbs_blob_unpack(&old, blob[0], len[0]), 0);
	old.model = 0;
	len[0] = tagrv_verbs_blob_pack(&old, blob[0]);
	cr_assert_eq(ops->link_bind(b, blob[0], len[0]), 0);
	cr_assert_eq(b->peer_key, 0);
	ops->link_discard(a);
	ops->link_discard(b);
	pair_close(&pair);
}

Test(verbs_link, other_networks_are_refused)
{
	char blob[TAGRV_BLOB_MAX];
	struct verbs_blob peer;
	struct tagrv_link *a;
	size_t len;

	verbs_open();
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a), 0);
	cr_assert_eq(tagrv_verbs_blob_unpack(&peer, blob, len), 0);
	peer.net = VERBS_NET_ROCE_V1;
	tagrv_verbs_blob_pack(&peer, blob);
	cr_assert_eq(ops->link_bind(a, blob, len), -FI_EHOSTUNREACH);
	peer.net = VERBS_NET_ROCE_V2;
	peer.rd_in = 0;
	tagrv_verbs_blob_pack(&peer, blob);
	cr_assert_eq(ops->link_bind(a, blob, len), -FI_EINVAL);
	ops->link_discard(a);
	pair_close(&pair);
}

/* In some networks ports are identified by their GIDs even in one subnet. */
Test(verbs_link, infiniband_may_require_gids)
{
	config.infiniband = true;
	config.grh_required = true;
	verbs_open();
	pair_connect(&pair);
	pair_send(&pair, pair.a, 1, 8, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	cr_assert_eq(pair.a->errors, 0);
	pair_close(&pair);
}

Test(verbs_link, binds_once_only)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *a;
	size_t len;

	verbs_open();
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a), 0);
	cr_assert_eq(ops->link_bind(a, blob, len), 0);
	cr_assert_eq(ops->link_bind(a, blob, len), -FI_EINVAL);
	ops->link_discard(a);
	pair_close(&pair);
}

Test(verbs_link, errors_of_the_device_are_passed_on)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *a;
	size_t len;

	verbs_open();
	fake_verbs_fail_create_qp(1, EPERM);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a),
		     -FI_EPERM);
	fake_verbs_fail_modify_qp(1, EINVAL);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a),
		     -FI_EINVAL);
	for (unsigned nth = 1; nth <= 2; nth++) {
		cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a), 0);
		fake_verbs_fail_modify_qp(nth, ENETUNREACH);
		cr_assert_eq(ops->link_bind(a, blob, len), -FI_ENETUNREACH);
		ops->link_discard(a);
		pair_progress(&pair);
	}
	pair_close(&pair);
}

/* Others may make room, also before somebody asks the quota whether there is some. */
Test(verbs_link, device_that_is_full_says_so)
{
	static const int lacks[] = { ENOMEM, ENOSPC, EAGAIN };
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *a;
	size_t len;

	verbs_open();
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(lacks); i++) {
		fake_verbs_fail_create_qp(1, lacks[i]);
		cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a), -FI_ENOSPC);
	}
	pair_close(&pair);
}

/* Without SRQ, memory and CQ entries are taken for each link. */
Test(verbs_link, failed_receive_queue_leaves_nothing)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *a;
	struct fake_verbs_counts before, after;
	size_t len;

	config.max_srq = 0;
	verbs_open();
	before = fake_verbs_count();
	fake_verbs_fail_reg(1, ENOMEM);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a),
		     -FI_ENOMEM);
	after = fake_verbs_count();
	cr_assert_eq(before.objects, after.objects);
	cr_assert_eq(before.registered, after.registered);
	cr_assert_eq(verbs_xport_of(pair.a->xport)->inbox.rx_cq_used, 0);
	pair_close(&pair);
}

Test(verbs_link, receive_cq_grows_with_links)
{
	enum { LINKS = 12 };
	struct tagrv_link *a[LINKS], *b[LINKS];
	struct verbs_xport *xp;

	config.max_srq = 0;
	config.max_cqe = 16383 + 1000;
	config.no_resize = false;
	verbs_open();
	xp = verbs_xport_of(pair.b->xport);
	xp->inbox.rx_cq_depth = 200;	/* as if it had been opened so small */
	cr_assert_eq(xp->calls->resize_cq(xp->rx.cq, 200), 0);
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &a[i], &b[i]);
		cr_assert_eq(ops->link_attach(a[i], NULL), 0);
		cr_assert_eq(ops->link_attach(b[i], NULL), 0);
	}
	cr_assert_geq(xp->inbox.rx_cq_depth, LINKS * 63);
	/* All receives flushed at once must fit; pair_close() checks it. */
	for (int i = 0; i < LINKS; i++) {
		ops->link_close(a[i]);
		ops->link_close(b[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == LINKS && pair.b->closed == LINKS);
	cr_assert_eq(xp->inbox.rx_cq_used, 0);
	pair_close(&pair);
}

Test(verbs_link, full_receive_cq_refuses_links)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *a[4];
	size_t len;

	config.max_srq = 0;
	config.max_cqe = 130;
	config.no_resize = true;
	verbs_open();
	for (int i = 0; i < 2; i++)
		cr_assert_eq(ops->link_create(pair.a->xport, blob, &len,
					      &a[i]), 0);
	cr_assert_lt(ops->link_create(pair.a->xport, blob, &len, &a[2]), 0);
	ops->link_discard(a[0]);
	PAIR_UNTIL(&pair, verbs_xport_of(pair.a->xport)->inbox.rx_cq_used ==
		   63);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &a[2]), 0);
	ops->link_discard(a[1]);
	ops->link_discard(a[2]);
	pair_close(&pair);
}

/* ---- close ---- */

Test(verbs_link, close_confirms_what_was_sent)
{
	unsigned i;

	verbs_open();
	pair_connect(&pair);
	for (i = 0; i < 5; i++)
		cr_assert_eq(end_send(pair.a, i, 500, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 5);
	cr_assert_eq(ops->outstanding(pair.a->xport), 5);
	end_close_link(pair.a);
	cr_assert_eq(ops->outstanding(pair.a->xport), 0);
	pair_close(&pair);
}

/*
 * The receive CQ must have no completion of the queue pair when it is destroyed: of a packet,
 * or of one of its own buffers.
 */
static void close_with_unread(unsigned cnt, bool sleeps)
{
	struct verbs_xport *xp;
	unsigned all;

	params.sq_depth = 2047;
	verbs_open();
	pair_connect(&pair);
	pair_permit(&pair, pair.a->link, pair.b->link);
	xp = verbs_xport_of(pair.b->xport);
	all = xp->use_srq ? cnt : verbs_queue_of(pair.b)->bufs.total;
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), 0);
	if (sleeps)
		cr_assert_eq(ops->arm(pair.b->xport), -FI_EAGAIN);
	for (unsigned i = 1; i < cnt; i++)
		while (end_send(pair.a, i, 8, 0, NULL))
			ops->reap(pair.a->xport);
	ops->link_close(pair.b->link);
	pair.b->link = NULL;
	while (!pair.b->closed) {
		usleep(10000);	/* time alone must not end the link */
		ops->progress(pair.b->xport);
	}
	cr_assert_eq(xp->rx_polled, all);
	ops->progress(pair.b->xport);
	cr_assert_eq(xp->stale, 0, "%llu left", (unsigned long long) xp->stale);
	pair_close(&pair);
}

Test(verbs_link, close_waits_for_completions_left_by_a_pass)
{
	close_with_unread(400, false);
}

Test(verbs_link, close_waits_for_more_than_the_held_completions)
{
	close_with_unread(8, true);
}

/*
 * Others keep the CQ full, so that it is never seen empty. It is much smaller than it could be.
 * (A queue pair with buffers of its own waits for these.)
 */
Test(verbs_link, close_waits_for_as_many_completions_as_the_queue_holds)
{
	struct tagrv_link *a, *b;
	struct verbs_xport *xp;
	uint64_t before;

	verbs_need_srq();
	params.sq_depth = 2047;
	verbs_open();
	pair.b->forget = true;
	pair_connect(&pair);
	pair_permit(&pair, pair.a->link, pair.b->link);
	pair_link(&pair, &a, &b);
	cr_assert_eq(ops->link_attach(b, NULL), 0);
	xp = verbs_xport_of(pair.b->xport);
	cr_assert_lt(xp->inbox.rx_cq_depth, (unsigned) config.max_cqe / 2);
	ops->link_close(b);
	ops->link_discard(a);
	usleep(10000);
	before = xp->rx_polled;
	while (!pair.b->closed) {
		/* More than are handled in one pass. */
		for (unsigned i = 0; i < xp->pool.rxq.bufs.total / 2 + 40; i++)
			while (end_send(pair.a, 0, 8, 0, NULL))
				ops->reap(pair.a->xport);
		ops->progress(pair.b->xport);
		pair.b->packet_cnt = 0;
		cr_assert_leq(xp->rx_polled - before, 2 * xp->inbox.rx_cq_depth);
	}
	cr_assert_geq(xp->rx_polled - before, xp->inbox.rx_cq_depth);
	pair_close(&pair);
}

/* Destroying is slow: other links must not wait for hundreds of them. */
Test(verbs_link, few_links_end_in_one_pass)
{
	enum { LINKS = 40 };
	struct tagrv_link *a[LINKS], *b[LINKS];
	unsigned before = 0;

	verbs_open();
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &a[i], &b[i]);
		ops->link_discard(b[i]);
		cr_assert_eq(ops->link_attach(a[i], NULL), 0);
		ops->link_close(a[i]);
	}
	usleep(10000);
	while (pair.a->closed < LINKS) {
		ops->progress(pair.a->xport);
		cr_assert_leq(pair.a->closed - before, 16);
		before = pair.a->closed;
	}
	pair_close(&pair);
}

/* xport_close waits for links that were closed or discarded just before. */
Test(verbs_link, xport_close_finishes_links)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *extra;
	struct op op;
	size_t len;

	verbs_open();
	pair_connect(&pair);
	op_init(&op);
	fake_verbs_hold(true);
	cr_assert_eq(end_send(pair.a, 1, 500, 0, &op), 0);
	cr_assert_eq(ops->link_create(pair.a->xport, blob, &len, &extra), 0);
	ops->link_discard(extra);
	ops->link_close(pair.a->link);
	end_close(pair.a);
	cr_assert_eq(op.calls, 1);
	cr_assert_eq(op.status, -FI_ECANCELED);
	cr_assert_eq(pair.a->closed, 1);
	fake_verbs_hold(false);
	end_close_link(pair.b);
	end_close(pair.b);
	cr_assert_eq(fake_verbs_count().objects, 0);
}

/* If the device cannot stop a queue pair, it is destroyed after 1 s. */
Test(verbs_link, close_is_bounded)
{
	double start;
	struct op op;

	verbs_open();
	pair_connect(&pair);
	op_init(&op);
	fake_verbs_hold(true);
	cr_assert_eq(end_send(pair.a, 1, 500, 0, &op), 0);
	fake_verbs_fail_modify_qp(1, EIO);
	ops->link_close(pair.a->link);
	pair.a->link = NULL;
	start = pair_now();
	PAIR_UNTIL(&pair, pair.a->closed == 1);
	cr_assert_gt(pair_now() - start, 0.9);
	cr_assert_lt(pair_now() - start, slow_ms(5000) * 1e-3);
	cr_assert_eq(op.calls, 1);
	cr_assert_eq(op.status, -FI_ECANCELED);
	cr_assert_eq(ops->outstanding(pair.a->xport), 0);
	fake_verbs_hold(false);
	pair_close(&pair);
}

/* Closing posts one more request, once, even if the device refuses it. */
Test(verbs_link, refused_last_request_is_not_repeated)
{
	struct op op;

	verbs_open();
	pair_connect(&pair);
	op_init(&op);
	fake_verbs_hold(true);
	cr_assert_eq(end_send(pair.a, 1, 500, 0, &op), 0);
	fake_verbs_fail_modify_qp(1, EIO);	/* otherwise nothing stays in flight */
	fake_verbs_fail_post(1, EINVAL);
	ops->link_close(pair.a->link);
	cr_assert(verbs_link_of(pair.a->link)->draining);
	pair.a->link = NULL;
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, pair.a->closed == 1);
	cr_assert_eq(op.calls, 1);
	pair_close(&pair);
}

/* Completions of a destroyed queue pair are ignored. */
Test(verbs_link, late_completions_are_ignored)
{
	struct verbs_xport *xp;
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .byte_len = 8 };
	struct ibv_qp *qp;

	config.max_srq = 0;
	verbs_open();
	pair_connect(&pair);
	xp = verbs_xport_of(pair.b->xport);
	qp = fake_verbs_last_qp(1);
	wc.qp_num = qp->qp_num;
	end_close_link(pair.b);
	end_close_link(pair.a);
	pair_link(&pair, &pair.a->link, &pair.b->link);
	fake_verbs_inject_rx(fake_verbs_last_qp(1), &wc);
	pair_progress(&pair);
	cr_assert_eq(xp->stale, 1);
	cr_assert_eq(pair.b->packet_cnt, 0);
	ops->link_discard(pair.b->link);
	ops->link_discard(pair.a->link);
	pair.a->link = pair.b->link = NULL;
	pair_close(&pair);
}

/* ---- threads ---- */

struct worker {
	pthread_t thread;
	atomic_bool stop;
	struct tagrv_link *_Atomic handed;	/* bound, for the main thread */
	unsigned made;
};

/* Works as a wireup thread: makes links, gives some of them up. */
static void *make_links(void *arg)
{
	struct worker *w = arg;
	char blob_a[TAGRV_BLOB_MAX], blob_b[TAGRV_BLOB_MAX];
	struct tagrv_link *a, *b;
	size_t len_a, len_b;

	while (!atomic_load(&w->stop)) {
		cr_assert_eq(ops->link_create(pair.a->xport, blob_a, &len_a,
					      &a), 0);
		cr_assert_eq(ops->link_create(pair.b->xport, blob_b, &len_b,
					      &b), 0);
		cr_assert_eq(ops->link_bind(a, blob_b, len_b), 0);
		cr_assert_eq(ops->link_bind(b, blob_a, len_a), 0);
		ops->link_discard(b);
		while (atomic_load(&w->handed) && !atomic_load(&w->stop))
			;
		if (w->made++ % 2 || atomic_load(&w->stop))
			ops->link_discard(a);
		else
			atomic_store(&w->handed, a);
	}
	return NULL;
}

static void run_with_worker(void)
{
	struct worker *w = calloc(1, sizeof(*w));
	struct tagrv_link *link;
	unsigned attached = 0, sent = 0;

	verbs_open();
	pair_connect(&pair);
	pair.b->forget = true;
	pthread_create(&w->thread, NULL, make_links, w);
	while (attached < 50) {
		sent += !end_send(pair.a, 1, 100, 0, NULL);
		pair_progress(&pair);
		link = atomic_exchange(&w->handed, NULL);
		if (!link)
			continue;
		cr_assert_eq(ops->link_attach(link, NULL), 0);
		ops->link_close(link);
		attached++;
	}
	atomic_store(&w->stop, true);
	pthread_join(w->thread, NULL);
	link = atomic_exchange(&w->handed, NULL);
	if (link)
		ops->link_discard(link);
	PAIR_UNTIL(&pair, pair.a->closed == attached);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == sent);
	cr_assert_eq(pair.a->errors + pair.b->errors, 0);
	pair_close(&pair);
	free(w);
}

Test(verbs_link, wireup_thread_works_beside_progress)
{
	run_with_worker();
}

Test(verbs_link, wireup_thread_works_beside_progress_without_srq)
{
	config.max_srq = 0;
	run_with_worker();
}
