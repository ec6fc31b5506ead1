/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The send side over fake devices: inline or copied, signaled or not, and
 * what happens when something runs out.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>

#include "unit/xport/pair.h"
#include "xport/verbs/verbs_priv.h"

static struct pair pair;
static struct fake_verbs_config config;
static struct tagrv_params params;

static void prepare(void)
{
	config = fake_verbs_defaults();
	params = pair_params();
}

static struct verbs_xport *start(void)
{
	pair_open_with(&pair, PAIR_SRQ, &params, &config);
	pair_connect(&pair);
	pair_grant(&pair, pair.a->link, pair.b->link);
	pair.b->forget = true;
	return verbs_xport_of(pair.a->xport);
}

static unsigned completions(void)
{
	return fake_verbs_count().completions;
}

static void send_many(unsigned cnt, size_t len)
{
	for (unsigned i = 0; i < cnt; i++)
		cr_assert_eq(end_send(pair.a, i, len, 0, NULL), 0);
}

TestSuite(verbs_post, .init = prepare, .timeout = 20);

Test(verbs_post, small_packets_go_inline)
{
	struct verbs_xport *xp = start();

	cr_assert_eq(xp->base.attr.max_inline, 192);
	send_many(2, 192);
	cr_assert_eq(fake_verbs_count().inlined, 2);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	send_many(1, 193);
	cr_assert_eq(fake_verbs_count().inlined, 2);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total - 1);
	pair_close(&pair);
}

/* Inline data may come in no more pieces than the device takes. */
Test(verbs_post, many_small_pieces_are_copied)
{
	char text[] = "abc";
	struct iovec iov[] = { { text, 1 }, { text + 1, 1 }, { text + 2, 1 } };
	struct verbs_xport *xp;

	config.max_sge = 2;
	xp = start();
	cr_assert_eq(pair.a->xport->ops->send(pair.a->link, iov, 3, 0, NULL),
		     0);
	cr_assert_eq(fake_verbs_count().inlined, 0);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total - 1);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

Test(verbs_post, inline_size_is_found_out)
{
	config.max_inline = 60;
	cr_assert_eq(start()->base.attr.max_inline, 48, "192 / 2 / 2");
	pair_close(&pair);
}

Test(verbs_post, one_of_n_is_signaled)
{
	start();
	send_many(47, 8);
	cr_assert_eq(completions(), 2, "after 16 and 32");
	send_many(1, 8);
	cr_assert_eq(completions(), 3);
	pair_close(&pair);
}

Test(verbs_post, done_asks_for_a_completion)
{
	struct op op;

	start();
	op_init(&op);
	send_many(3, 8);
	cr_assert_eq(completions(), 0);
	cr_assert_eq(end_send(pair.a, 3, 8, 0, &op), 0);
	cr_assert_eq(completions(), 1);
	send_many(15, 8);
	cr_assert_eq(completions(), 1, "counting starts anew");
	pair_close(&pair);
}

Test(verbs_post, full_half_of_the_queue_is_signaled)
{
	struct verbs_xport *xp;

	params.signal_every = 1024;
	xp = start();
	send_many(50, 8);
	cr_assert_eq(completions(), 0);
	send_many(50, 8);
	cr_assert_gt(completions(), 0);
	cr_assert_eq(xp->inflight, 100);
	pair_close(&pair);
}

Test(verbs_post, one_completion_retires_all_older)
{
	struct verbs_xport *xp = start();

	send_many(40, 300);
	cr_assert_eq(xp->inflight, 40);
	PAIR_UNTIL(&pair, xp->inflight == 8);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total - 8);
	cr_assert_eq(xp->signaled, 0);
	pair_close(&pair);
}

Test(verbs_post, send_queue_is_never_overfilled)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	xp = start();
	fake_verbs_hold(true);
	while (!end_send(pair.a, sent, 8, 0, NULL))
		sent++;
	cr_assert_eq(sent, verbs_link_of(pair.a->link)->depth - xp->sq_reserve);
	while (!end_send(pair.a, sent, 8, TAGRV_SEND_CTRL, NULL))
		sent++;
	cr_assert_eq(sent, 126, "127, one of them for the close");
	fake_verbs_hold(false);
	pair_close(&pair);	/* checks for overflows */
}

/*
 * Fake devices are in software: few packets are in flight, so that small messages
 * gather. One of them always asks for the completion that lets it go on.
 */
Test(verbs_post, bursts_back_up_over_software)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	params.burst = 0;
	xp = start();
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

/* What the device moves by itself is no reason to gather messages. */
Test(verbs_post, writes_are_no_packets)
{
	static char to[64], from[64];
	struct tagrv_mem *remote, *local;
	const struct tagrv_xport_ops *ops;
	unsigned char key[TAGRV_KEY_MAX];
	struct verbs_xport *xp;
	uint32_t granted;
	struct op op;
	size_t len;

	params.burst = 1;
	xp = start();
	ops = xp->base.ops;
	cr_assert_eq(ops->mem_reg(pair.b->dev, to, sizeof(to), TAGRV_MEM_WRITE,
				  &remote), 0);
	cr_assert_eq(ops->mem_reg(pair.a->dev, from, sizeof(from), 0, &local),
		     0);
	len = ops->mem_key(remote, key);
	op_init(&op);
	granted = verbs_link_of(pair.a->link)->granted;
	fake_verbs_hold(true);
	cr_assert_eq(ops->put(pair.a->link, from, local, (uintptr_t) to, key,
			      len, sizeof(from), &op.done), 0);
	cr_assert_eq(verbs_link_of(pair.a->link)->granted, granted,
		     "it takes no buffer of the peer");
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), 0);
	cr_assert_eq(end_send(pair.a, 1, 8, 0, NULL), -FI_EAGAIN);
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, op.calls);
	ops->mem_dereg(local);
	ops->mem_dereg(remote);
	pair_close(&pair);
}

Test(verbs_post, a_burst_is_as_long_as_was_asked_for)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	params.burst = 1;
	xp = start();
	cr_assert_eq(xp->signal_every, 1);
	for (; sent < 20; sent++)
		PAIR_UNTIL(&pair, !end_send(pair.a, sent, 8, 0, NULL));
	cr_assert_leq(xp->inflight, 1);
	pair_close(&pair);
}

/* However many links: the completion queue holds what an error would bring. */
Test(verbs_post, completion_queue_is_never_overfilled)
{
	enum { LINKS = 8 };
	struct tagrv_link *a[LINKS], *b[LINKS];
	unsigned sent = 0;
	struct verbs_xport *xp;

	config.max_cqe = 300;
	config.max_srq_wr = 256;
	xp = start();
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &a[i], &b[i]);
		pair_grant(&pair, a[i], b[i]);
		cr_assert_eq(xp->base.ops->link_attach(a[i], NULL), 0);
		cr_assert_eq(xp->base.ops->link_attach(b[i], NULL), 0);
	}
	fake_verbs_hold(true);
	for (int i = 0; i < LINKS; i++) {
		struct end end = *pair.a;

		end.link = a[i];
		while (!end_send(&end, sent, 8, TAGRV_SEND_CTRL, NULL))
			sent++;
	}
	cr_assert_eq(sent, xp->tx_cap);
	for (int i = 0; i < LINKS; i++) {
		xp->base.ops->link_close(a[i]);
		xp->base.ops->link_close(b[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == LINKS && pair.b->closed == LINKS);
	cr_assert_eq(xp->inflight, 0);
	fake_verbs_hold(false);
	pair_close(&pair);
}

/* Links that fell silent must not keep what others need. */
static void serve_many_links(size_t len)
{
	enum { LINKS = 40 };
	struct tagrv_link *a[LINKS], *b[LINKS];
	struct end end;
	struct verbs_xport *xp;

	config.max_cqe = 128;
	config.max_srq_wr = 100;
	params.tx_bufs = 32;
	xp = start();
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &a[i], &b[i]);
		pair_grant(&pair, a[i], b[i]);
		cr_assert_eq(xp->base.ops->link_attach(a[i], NULL), 0);
		cr_assert_eq(xp->base.ops->link_attach(b[i], NULL), 0);
	}
	end = *pair.a;
	for (int round = 0; round < 5; round++)
		for (int i = 0; i < LINKS; i++) {
			end.link = a[i];
			for (unsigned k = 0; k < 7; k++)
				pair_send(&pair, &end, k, len, NULL);
		}
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 5 * LINKS * 7);
	for (int i = 0; i < LINKS; i++) {
		xp->base.ops->link_close(a[i]);
		xp->base.ops->link_close(b[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == LINKS && pair.b->closed == LINKS);
	pair_close(&pair);
}

Test(verbs_post, idle_links_leave_completions_to_others)
{
	serve_many_links(16);
}

Test(verbs_post, idle_links_leave_buffers_to_others)
{
	serve_many_links(400);
}

Test(verbs_post, copy_buffers_grow_outside_of_send)
{
	struct verbs_xport *xp;
	unsigned sent = 0;
	uint32_t before;

	params.sq_depth = 1023;
	xp = start();
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

Test(verbs_post, copy_buffers_stop_growing)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	params.sq_depth = 1023;
	params.tx_bufs = 200;
	xp = start();
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

Test(verbs_post, failed_growth_is_lived_with)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	params.sq_depth = 1023;
	xp = start();
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

/* The device says it is full: nothing has happened, and room is announced. */
Test(verbs_post, device_without_room_is_asked_again)
{
	struct verbs_xport *xp = start();

	fake_verbs_fail_post(1, ENOMEM);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, NULL), -FI_EAGAIN);
	cr_assert_eq(xp->inflight, 0);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	PAIR_UNTIL(&pair, pair.a->rooms == 1);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

Test(verbs_post, negative_errors_are_errors_too)
{
	start();
	fake_verbs_fail_post(1, -ENOMEM);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, NULL), -FI_EAGAIN);
	PAIR_UNTIL(&pair, pair.a->rooms == 1);
	pair_close(&pair);
}

/* An error with nothing refused: the device may read the buffer yet. */
Test(verbs_post, requests_queued_in_spite_of_an_error_count)
{
	struct verbs_xport *xp = start();
	struct op op;

	op_init(&op);
	fake_verbs_hold(true);
	fake_verbs_fail_doorbell(1, ENOMEM);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, &op), 0);
	cr_assert_eq(xp->inflight, 1);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total - 1);
	cr_assert_eq(pair.a->errors, 0, "not inside send");
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EIO);
	cr_assert_eq(op.calls, 0);
	fake_verbs_hold(false);
	pair_close(&pair);
	cr_assert_eq(op.calls, 1);
}

Test(verbs_post, device_that_refuses_breaks_the_link)
{
	struct verbs_xport *xp = start();

	fake_verbs_fail_post(1, EIO);
	cr_assert_eq(end_send(pair.a, 0, 1000, 0, NULL), -FI_ENOTCONN);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	cr_assert_eq(pair.a->errors, 0, "not inside send");
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EIO);
	pair_close(&pair);
}

Test(verbs_post, sequence_numbers_wrap)
{
	struct verbs_link *link;
	struct op op;

	start();
	link = verbs_link_of(pair.a->link);
	link->head = link->tail = UINT32_MAX - 20;
	for (unsigned i = 0; i < 200; i++)
		pair_send(&pair, pair.a, i, 64, NULL);
	op_init(&op);
	pair_send(&pair, pair.a, 1, 64, &op);
	PAIR_UNTIL(&pair, op.calls == 1 && pair.b->packet_cnt == 201);
	cr_assert_eq(op.status, 0);
	pair_close(&pair);
}

/* The smaller of the two ends' buffers counts. */
Test(verbs_post, peer_with_smaller_buffers_is_respected)
{
	struct tagrv_params small;

	start();
	end_close_link(pair.a);
	end_close_link(pair.b);
	end_close(pair.b);
	small = params;
	small.eager_max = 1000;
	end_open(pair.b, &tagrv_verbs_ops, "fake1", &small);
	pair_connect(&pair);
	pair_grant(&pair, pair.a->link, pair.b->link);
	cr_assert_eq(end_send(pair.a, 1, 1193, 0, NULL), -FI_EMSGSIZE);
	cr_assert_eq(end_send(pair.a, 1, 1192, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

/* A device may refuse the empty write of flush: the link then is broken. */
Test(verbs_post, refused_flush_is_an_error_of_the_link)
{
	config.no_write = true;
	start();
	send_many(1, 8);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair.a->xport->ops->flush(pair.a->xport);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EACCES);
	pair_close(&pair);
}

/* Flush of more links than the completion queue has room for. */
Test(verbs_post, flush_goes_on_until_all_is_confirmed)
{
	enum { LINKS = 20 };
	struct tagrv_link *a[LINKS], *b[LINKS];
	struct verbs_xport *xp;
	struct end end;

	config.max_cqe = 64;
	config.max_srq_wr = 64;
	params.signal_every = 1024;
	xp = start();
	for (int i = 0; i < LINKS; i++) {
		pair_link(&pair, &a[i], &b[i]);
		pair_grant(&pair, a[i], b[i]);
		cr_assert_eq(xp->base.ops->link_attach(a[i], NULL), 0);
		cr_assert_eq(xp->base.ops->link_attach(b[i], NULL), 0);
	}
	end = *pair.a;
	fake_verbs_hold(true);
	for (int i = 0; i < LINKS; i++) {
		end.link = a[i];
		for (unsigned k = 0; k < 3; k++)
			end_send(&end, k, 16, TAGRV_SEND_CTRL, NULL);
	}
	xp->base.ops->flush(&xp->base);
	cr_assert_eq(xp->inflight, xp->tx_cap, "too little room");
	xp->base.ops->progress(&xp->base);
	cr_assert_eq(xp->base.ops->progress(&xp->base), 0, "nothing happens");
	cr_assert_eq(xp->base.ops->arm(&xp->base), 0, "so sleep is safe");
	fake_verbs_hold(false);
	PAIR_UNTIL(&pair, !xp->base.ops->outstanding(&xp->base));
	for (int i = 0; i < LINKS; i++) {
		xp->base.ops->link_close(a[i]);
		xp->base.ops->link_close(b[i]);
	}
	PAIR_UNTIL(&pair, pair.a->closed == LINKS && pair.b->closed == LINKS);
	pair_close(&pair);
}
