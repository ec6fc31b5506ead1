/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completions over fake devices: receive buffers, early packets, odd
 * completions and errors.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/verbs_fixture.h"

static struct verbs_xport *start(void)
{
	verbs_connect();
	return verbs_xport_of(pair.b->xport);
}

TestSuite(verbs_poll, .init = verbs_prepare, .timeout = 20);

/* ---- receive buffers ---- */

Test(verbs_poll, single_buffers_go_back_when_idle)
{
	struct verbs_xport *xp = start();
	unsigned calls = fake_verbs_count().post_calls;
	const struct verbs_rxq *rxq = verbs_queue_of(pair.b);

	cr_assert_eq(rxq->posted, xp->use_srq ? 512 : 63);
	pair_send(&pair, pair.a, 1, 8, NULL);
	cr_assert_eq(xp->base.ops->progress(&xp->base), 1);
	cr_assert_eq(fake_verbs_count().post_calls, calls, "not yet");
	xp->base.ops->progress(&xp->base);
	cr_assert_eq(fake_verbs_count().post_calls, calls + 1);
	cr_assert_eq(rxq->posted, rxq->bufs.total);
	pair_close(&pair);
}

Test(verbs_poll, streams_are_reposted_in_batches)
{
	struct verbs_xport *xp = start();
	unsigned calls = fake_verbs_count().post_calls;

	for (unsigned i = 0; i < 64; i++)
		cr_assert_eq(end_send(pair.a, i, 8, 0, NULL), 0);
	xp->base.ops->progress(&xp->base);
	cr_assert_eq(pair.b->packet_cnt, 64);
	cr_assert_eq(fake_verbs_count().post_calls, calls + 4);
	pair_close(&pair);
}

Test(verbs_poll, buffers_are_back_before_sleep)
{
	struct verbs_xport *xp = start();
	const struct verbs_rxq *rxq = verbs_queue_of(pair.b);

	pair_send(&pair, pair.a, 1, 8, NULL);
	xp->base.ops->progress(&xp->base);
	cr_assert_eq(rxq->posted, rxq->bufs.total - 1);
	cr_assert_eq(xp->base.ops->arm(&xp->base), 0);
	cr_assert_eq(rxq->posted, rxq->bufs.total);
	pair_close(&pair);
}

/* After arm has held completions back, progress also reads later ones. */
Test(verbs_poll, held_completions_are_topped_up)
{
	struct verbs_xport *xp = start();

	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), 0);
	cr_assert_eq(xp->base.ops->arm(&xp->base), -FI_EAGAIN);
	for (unsigned i = 1; i < 8; i++)
		cr_assert_eq(end_send(pair.a, i, 8, 0, NULL), 0);
	cr_assert_eq(xp->base.ops->progress(&xp->base), 8);
	for (unsigned i = 0; i < 8; i++)
		cr_assert(is_pattern(pair.b->packets[i].data, i, 8));
	pair_close(&pair);
}

/* Shared buffers grow; those of a link do not. */
static void burst(unsigned cnt)
{
	verbs_need_srq();
	params.sq_depth = 2047;
	start();
	pair.b->forget = true;
	for (unsigned i = 0; i < cnt; i++)
		while (end_send(pair.a, i, 8, 0, NULL))
			pair.a->xport->ops->reap(pair.a->xport);
	pair.b->xport->ops->progress(pair.b->xport);
}

Test(verbs_poll, half_the_buffers_in_a_pass_do_not_make_them_grow)
{
	burst(256);
	cr_assert_eq(verbs_xport_of(pair.b->xport)->pool.rxq.bufs.total, 512);
	pair_close(&pair);
}

Test(verbs_poll, more_than_half_makes_them_grow)
{
	struct verbs_xport *xp;

	burst(300);
	xp = verbs_xport_of(pair.b->xport);
	cr_assert_eq(xp->pool.rxq.bufs.total, 1024);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 300);
	pair_progress(&pair);
	cr_assert_eq(xp->pool.rxq.posted, 1024);
	pair_close(&pair);
}

Test(verbs_poll, receive_buffers_stop_growing)
{
	params.rx_bufs = 600;
	burst(400);
	cr_assert_eq(verbs_xport_of(pair.b->xport)->pool.rxq.bufs.total, 600);
	pair_close(&pair);
}

Test(verbs_poll, failed_growth_is_not_an_error)
{
	struct verbs_xport *xp;

	verbs_need_srq();
	params.sq_depth = 2047;
	xp = start();
	pair.b->forget = true;
	fake_verbs_fail_reg(1, ENOMEM);
	for (unsigned i = 0; i < 400; i++)
		while (end_send(pair.a, i, 8, 0, NULL))
			pair.a->xport->ops->reap(pair.a->xport);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 400);
	cr_assert_eq(xp->pool.rxq.bufs.total, 512);
	cr_assert_eq(xp->pool.rxq.bufs.max, 512, "nobody tries again");
	pair_close(&pair);
}

/* More packets than buffers: the sender waits, no packet is lost. */
Test(verbs_poll, few_buffers_only_slow_down)
{
	config.max_srq_wr = 4;
	config.rnr_fails = true;
	verbs_open();
	pair_connect(&pair);
	cr_assert_eq(verbs_queue_of(pair.b)->posted, config.max_srq ? 4 : VERBS_RQ_SLAB);
	for (unsigned i = 0; i < 500; i++)
		pair_send(&pair, pair.a, i, 40, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 500);
	for (unsigned i = 0; i < 500; i++)
		cr_assert(is_pattern(pair.b->packets[i].data, i, 40));
	pair_close(&pair);
}

/* ---- early packets ---- */

static void send_early(unsigned cnt)
{
	const struct tagrv_xport_ops *ops = &tagrv_verbs_ops;

	verbs_open();
	pair_link(&pair, &pair.a->link, &pair.b->link);
	pair_permit(&pair, pair.a->link, pair.b->link);
	cr_assert_eq(ops->link_attach(pair.a->link, pair.a), 0);
	for (unsigned i = 0; i < cnt; i++)
		pair_send(&pair, pair.a, i, 10, NULL);
	for (int i = 0; i < 10; i++)
		pair_progress(&pair);
	cr_assert_eq(pair.b->packet_cnt, 0);
}

Test(verbs_poll, early_packets_come_first)
{
	send_early(VERBS_STRAY_LINK);
	cr_assert_eq(tagrv_verbs_ops.link_attach(pair.b->link, pair.b), 0);
	pair_send(&pair, pair.a, VERBS_STRAY_LINK, 10, NULL);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == VERBS_STRAY_LINK + 1);
	for (unsigned i = 0; i <= VERBS_STRAY_LINK; i++)
		cr_assert(is_pattern(pair.b->packets[i].data, i, 10));
	cr_assert_eq(pair.b->errors, 0);
	pair_close(&pair);
}

/* However many there are, progress returns, so that the owner can attach the link. */
Test(verbs_poll, early_packets_end_the_pass)
{
	enum { CNT = 2 * VERBS_STRAY_LINK };
	const struct tagrv_xport_ops *ops = &tagrv_verbs_ops;

	params.sq_depth = 255;
	verbs_open();
	pair_link(&pair, &pair.a->link, &pair.b->link);
	pair_permit(&pair, pair.a->link, pair.b->link);
	cr_assert_eq(ops->link_attach(pair.a->link, pair.a), 0);
	for (unsigned i = 0; i < CNT; i++)
		cr_assert_eq(end_send(pair.a, i, 10, 0, NULL), 0);
	ops->progress(pair.b->xport);
	cr_assert_gt(verbs_xport_of(pair.b->xport)->stray_cnt, 0);
	cr_assert_eq(ops->link_attach(pair.b->link, pair.b), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == CNT);
	for (unsigned i = 0; i < CNT; i++)
		cr_assert(is_pattern(pair.b->packets[i].data, i, 10));
	cr_assert_eq(pair.b->errors, 0);
	pair_close(&pair);
}

/* The link whose packet ends the wait, and the one that a callback attaches then. */
static struct tagrv_link *second_a, *second_b;

static void attach_second(struct end *end, const void *data, size_t len)
{
	(void) data;
	(void) len;
	end->on_packet = NULL;
	cr_assert_eq(tagrv_verbs_ops.link_attach(second_b, &pair), 0);
}

/* In the same batch of completions: the link is open, but its first packet waits. */
Test(verbs_poll, early_packets_come_first_if_a_callback_attaches)
{
	struct end second;

	start();
	pair_link(&pair, &second_a, &second_b);
	pair_permit(&pair, second_a, second_b);
	cr_assert_eq(tagrv_verbs_ops.link_attach(second_a, pair.a), 0);
	second = *pair.a;
	second.link = second_a;
	cr_assert_eq(end_send(&second, 0, 10, 0, NULL), 0);
	pair_progress(&pair);
	cr_assert_eq(pair.b->packet_cnt, 0);
	pair.b->on_packet = attach_second;
	cr_assert_eq(end_send(pair.a, 9, 10, 0, NULL), 0);
	cr_assert_eq(end_send(&second, 1, 10, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 3);
	cr_assert(is_pattern(pair.b->packets[0].data, 9, 10));
	for (unsigned i = 0; i < 2; i++) {
		cr_assert_eq(pair.b->packets[1 + i].ctx, &pair);
		cr_assert(is_pattern(pair.b->packets[1 + i].data, i, 10));
	}
	tagrv_verbs_ops.link_close(second_a);
	tagrv_verbs_ops.link_close(second_b);
	PAIR_UNTIL(&pair, pair.a->closed == 1 && pair.b->closed == 1);
	pair_close(&pair);
}

/* When there is no room to keep an early packet, the link breaks. */
Test(verbs_poll, too_many_early_packets_break_the_link)
{
	struct verbs_xport *xp;

	send_early(VERBS_STRAY_LINK + 1);
	xp = verbs_xport_of(pair.b->xport);
	cr_assert_eq(xp->stray_lost, 1);
	cr_assert_eq(pair.b->errors, 0, "nobody is attached");
	cr_assert_eq(tagrv_verbs_ops.link_attach(pair.b->link, pair.b), 0);
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	cr_assert_eq(pair.b->error_status, -FI_ENOBUFS);
	cr_assert_eq(pair.b->packet_cnt, VERBS_STRAY_LINK);
	pair_close(&pair);
	cr_assert_eq(pair.b->errors, 1);
}

Test(verbs_poll, early_packets_go_with_their_link)
{
	struct verbs_xport *xp;

	send_early(5);
	xp = verbs_xport_of(pair.b->xport);
	cr_assert_eq(xp->stray_cnt, 5);
	tagrv_verbs_ops.link_discard(pair.b->link);
	pair.b->link = NULL;
	PAIR_UNTIL(&pair, !xp->stray_cnt && tagrv_list_empty(&xp->closing) &&
		   !atomic_load(&xp->alarm));
	cr_assert_eq(pair.b->packet_cnt + pair.b->closed, 0);
	pair_close(&pair);
}

static void close_it(struct end *end, const void *data, size_t len)
{
	(void) data;
	(void) len;
	end->xport->ops->link_close(end->link);
	end->link = NULL;
}

Test(verbs_poll, early_packets_stop_at_close)
{
	send_early(5);
	pair.b->on_packet = close_it;
	cr_assert_eq(tagrv_verbs_ops.link_attach(pair.b->link, pair.b), 0);
	PAIR_UNTIL(&pair, pair.b->closed == 1);
	cr_assert_eq(pair.b->packet_cnt, 1);
	cr_assert_eq(verbs_xport_of(pair.b->xport)->stray_cnt, 0);
	pair_close(&pair);
}

/* An error in the pass in which the link was attached. */
Test(verbs_poll, early_packets_come_before_an_error)
{
	send_early(5);
	cr_assert_eq(tagrv_verbs_ops.link_attach(pair.b->link, pair.b), 0);
	tagrv_verbs_link_fail(verbs_link_of(pair.b->link), -FI_EIO, false);
	cr_assert_eq(pair.b->errors, 0);
	PAIR_UNTIL(&pair, pair.b->errors);
	cr_assert_eq(pair.b->packet_cnt, 5);
	pair_close(&pair);
}

/* The peer's device believes that they arrived; the owner may want them. */
Test(verbs_poll, last_packets_come_after_close_if_they_are_wanted)
{
	for (int wanted = 0; wanted < 2; wanted++) {
		verbs_prepare();
		start();
		for (unsigned i = 0; i < 5; i++)
			cr_assert_eq(end_send(pair.a, i, 10, 0, NULL), 0);
		pair.a->xport->ops->progress(pair.a->xport);
		pair.b->link->delivers_last = wanted;
		end_close_link(pair.b);
		cr_assert_eq(pair.b->packet_cnt, wanted ? 5 : 0);
		pair_close(&pair);
	}
}

/* ---- odd completions ---- */

Test(verbs_poll, completions_of_unknown_queue_pairs_are_ignored)
{
	struct verbs_xport *xp = start();
	struct ibv_qp *qp = fake_verbs_last_qp(1);
	struct ibv_wc wc = {
		.wr_id = 0, .qp_num = qp->qp_num + 1000,
		.opcode = IBV_WC_RECV, .byte_len = 8,
	};

	fake_verbs_inject_rx(qp, &wc);
	wc.qp_num = qp->qp_num;
	wc.wr_id = 1u << 30;
	fake_verbs_inject_rx(qp, &wc);
	wc.wr_id = UINT64_MAX;
	fake_verbs_inject_rx(qp, &wc);
	for (int i = 0; i < 4; i++)
		pair_progress(&pair);
	cr_assert_eq(xp->stale, 3);
	cr_assert_eq(pair.b->packet_cnt, 0);
	cr_assert_eq(pair.b->errors, 0);
	pair_close(&pair);
}

/* Injects a packet longer than its buffer, or a completion that is no packet. */
static void inject(enum ibv_wc_opcode opcode, uint32_t len)
{
	struct ibv_wc wc = { .opcode = opcode, .byte_len = len };
	struct ibv_qp *qp;

	start();
	qp = fake_verbs_last_qp(1);
	wc.wr_id = verbs_queue_of(pair.b)->wr_ids[3];
	wc.qp_num = qp->qp_num;
	fake_verbs_inject_rx(qp, &wc);
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	cr_assert_eq(pair.b->error_status, -FI_EREMOTEIO);
	cr_assert_eq(pair.b->packet_cnt, 0);
	pair_close(&pair);
}

Test(verbs_poll, lengths_are_not_trusted)
{
	inject(IBV_WC_RECV, 1u << 20);
}

/* Exceptions: test_verbs_error.c. */
Test(verbs_poll, writes_with_data_are_refused)
{
	config.vendor_id = 0x1234;
	inject(IBV_WC_RECV_RDMA_WITH_IMM, 8);
}

/* ---- errors ---- */

static void fails_with(enum ibv_wc_status status, int expected)
{
	struct op ops[3];

	verbs_prepare();
	start();
	fake_verbs_hold(true);
	for (int i = 0; i < 3; i++) {
		op_init(&ops[i]);
		cr_assert_eq(end_send(pair.a, 1, 8, 0, &ops[i]), 0);
	}
	fake_verbs_fail_wr(2, status);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, ops[2].calls);
	cr_assert_eq(ops[0].status, 0, "older ones are complete");
	cr_assert_eq(ops[1].status, expected, "status %d: %d", status,
		     ops[1].status);
	cr_assert_eq(ops[2].status, expected, "flushed: the first error");
	cr_assert_eq(pair.a->errors, 1);
	cr_assert_eq(pair.a->error_status, expected);
	pair_close(&pair);
	cr_assert_eq(pair.a->errors, 1);
}

Test(verbs_poll, statuses_have_meanings)
{
	fails_with(IBV_WC_RETRY_EXC_ERR, -FI_EHOSTUNREACH);
	fails_with(IBV_WC_RNR_RETRY_EXC_ERR, -FI_EHOSTUNREACH);
	fails_with(IBV_WC_RESP_TIMEOUT_ERR, -FI_EHOSTUNREACH);
	fails_with(IBV_WC_WR_FLUSH_ERR, -FI_ECONNRESET);
	fails_with(IBV_WC_REM_INV_REQ_ERR, -FI_EREMOTEIO);
	fails_with(IBV_WC_REM_OP_ERR, -FI_EREMOTEIO);
	fails_with(IBV_WC_REM_ABORT_ERR, -FI_EREMOTEIO);
	fails_with(IBV_WC_REM_ACCESS_ERR, -FI_EACCES);
	fails_with(IBV_WC_LOC_PROT_ERR, -FI_EFAULT);
	fails_with(IBV_WC_LOC_LEN_ERR, -FI_EMSGSIZE);
	fails_with(IBV_WC_LOC_QP_OP_ERR, -FI_EIO);
	fails_with(IBV_WC_FATAL_ERR, -FI_EIO);
	fails_with(IBV_WC_GENERAL_ERR, -FI_EIO);
}

Test(verbs_poll, local_errors_on_a_dead_port_are_network_errors)
{
	struct verbs_dev dev;
	struct ibv_wc wc = { .status = IBV_WC_LOC_QP_OP_ERR };

	start();
	dev = *verbs_dev_of(pair.a->dev);
	cr_assert_eq(tagrv_verbs_wc_status(&dev, &wc), -FI_EIO);
	config.port_state = IBV_PORT_DOWN;
	pair_close(&pair);
	verbs_prepare();
	start();
	config.port_state = IBV_PORT_DOWN;
	fake_verbs_start(&config);	/* the same devices with port down */
	cr_assert_eq(tagrv_verbs_wc_status(verbs_dev_of(pair.a->dev), &wc),
		     -FI_ENETDOWN);
}

/* The queue pair breaks without a send: only flushed receives show it. */
Test(verbs_poll, flushed_receives_are_an_error)
{
	config.max_srq = 0;
	start();
	fake_verbs_break_qp(fake_verbs_last_qp(1));
	PAIR_UNTIL(&pair, pair.b->errors == 1);
	cr_assert_eq(pair.b->error_status, -FI_ECONNRESET);
	pair_close(&pair);
}

/* With failed sends and flushed receives at once, the status is that of the send. */
Test(verbs_poll, send_errors_explain_flushed_receives)
{
	struct op op;

	config.max_srq = 0;
	start();
	op_init(&op);
	fake_verbs_fail_wr(1, IBV_WC_RETRY_EXC_ERR);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EHOSTUNREACH);
	pair_close(&pair);
	cr_assert_eq(pair.a->errors, 1);
}

/* A packet longer than the peer's buffers. */
Test(verbs_poll, packet_too_large_breaks_both_ends)
{
	const struct tagrv_xport_ops *ops = &tagrv_verbs_ops;
	char blob_a[TAGRV_BLOB_MAX], blob_b[TAGRV_BLOB_MAX];
	struct tagrv_params small = params;
	struct verbs_blob lie;
	size_t len_a, len_b;

	small.eager_max = 1000;
	fake_verbs_start(&config);
	pair = (struct pair) { .kind = PAIR_SRQ };
	pair.a = &pair.ends[0];
	pair.b = &pair.ends[1];
	end_open(pair.a, ops, "fake0", &params);
	end_open(pair.b, ops, "fake1", &small);
	cr_assert_eq(ops->link_create(pair.a->xport, blob_a, &len_a,
				      &pair.a->link), 0);
	cr_assert_eq(ops->link_create(pair.b->xport, blob_b, &len_b,
				      &pair.b->link), 0);
	cr_assert_eq(tagrv_verbs_blob_unpack(&lie, blob_b, len_b), 0);
	lie.max_packet = 100000;
	tagrv_verbs_blob_pack(&lie, blob_b);
	cr_assert_eq(ops->link_bind(pair.a->link, blob_b, len_b), 0);
	cr_assert_eq(ops->link_bind(pair.b->link, blob_a, len_a), 0);
	cr_assert_eq(ops->link_attach(pair.a->link, pair.a), 0);
	cr_assert_eq(ops->link_attach(pair.b->link, pair.b), 0);
	cr_assert_eq(end_send(pair.a, 1, 5000, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.a->errors == 1 && pair.b->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EREMOTEIO);
	cr_assert_eq(pair.b->error_status, -FI_EMSGSIZE);
	cr_assert_eq(pair.b->packet_cnt, 0);
	pair_close(&pair);
}
