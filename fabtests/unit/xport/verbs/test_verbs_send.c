/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets over fake devices: inline or copied, and how long they may be.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <rdma/fi_errno.h>

#include "unit/xport/verbs/verbs_fixture.h"

/* A packet of TAGRV_SHORT_HDR + len bytes. */
static int send_short(size_t len)
{
	static const uint64_t hdr[TAGRV_SHORT_WORDS] = { 1, 2, 3, 4 };
	static const char payload[16384];

	return pair.a->xport->ops->send_short(pair.a->link, hdr, payload, len);
}

TestSuite(verbs_send, .init = verbs_prepare, .timeout = 20);

Test(verbs_send, small_packets_go_inline)
{
	struct verbs_xport *xp;

	config.max_inline = 512;
	xp = verbs_start_sender();
	cr_assert_eq(xp->base.attr.max_inline, 192);
	verbs_send_many(2, 192);
	cr_assert_eq(fake_verbs_count().inlined, 2);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	verbs_send_many(1, 193);
	cr_assert_eq(fake_verbs_count().inlined, 2);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total - 1);
	pair_close(&pair);
}

/* They are one segment for the device, whatever its limit of segments is. */
Test(verbs_send, many_small_pieces_go_inline_in_one_segment)
{
	char text[] = "abc";
	struct iovec iov[] = { { text, 1 }, { text + 1, 1 }, { text + 2, 1 } };
	struct verbs_xport *xp;

	config.max_sge = 1;
	xp = verbs_start_sender();
	cr_assert_eq(pair.a->xport->ops->send(pair.a->link, iov, 3, 0, NULL),
		     0);
	cr_assert_eq(fake_verbs_count().inlined, 1);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

/* Old libraries of irdma send the first segment of inline data only. */
Test(verbs_send, inline_data_is_one_segment_of_all_pieces)
{
	unsigned char text[12];
	struct iovec iov[] = { { text, 4 }, { text + 4, 3 }, { text + 7, 5 } };

	config = fake_verbs_as("irdma_old");
	verbs_connect();
	fill_pattern(text, 3, sizeof(text));
	cr_assert_eq(pair.a->xport->ops->send(pair.a->link, iov, 3, 0, NULL), 0);
	cr_assert_eq(send_short(16), 0);
	cr_assert_eq(fake_verbs_count().inlined, 2);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 2);
	cr_assert(is_pattern(pair.b->packets[0].data, 3, sizeof(text)));
	cr_assert_eq(((uint64_t *) (void *) pair.b->packets[1].data)[3], 4);
	cr_assert_eq(fake_verbs_count().inline_pieces, 1);
	pair_close(&pair);
}

Test(verbs_send, inline_size_is_found_out)
{
	config.max_inline = 60;
	config.inline_step = 0;
	cr_assert_eq(verbs_start_sender()->base.attr.max_inline, 48, "192 / 2 / 2");
	pair_close(&pair);
}

/* The smaller buffer size of both ends is the limit. */
Test(verbs_send, peer_with_smaller_buffers_is_respected)
{
	struct tagrv_params small;

	verbs_start_sender();
	end_close_link(pair.a);
	end_close_link(pair.b);
	end_close(pair.b);
	small = params;
	small.eager_max = 1000;
	end_open(pair.b, &tagrv_verbs_ops, "fake1", &small);
	pair_connect(&pair);
	pair_permit(&pair, pair.a->link, pair.b->link);
	cr_assert_eq(end_send(pair.a, 1, 1193, 0, NULL), -FI_EMSGSIZE);
	cr_assert_eq(end_send(pair.a, 1, 1192, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

/* ---- send_short ---- */

Test(verbs_send, short_packets_go_inline_as_far_as_they_can)
{
	struct verbs_xport *xp;

	config.max_inline = 512;
	xp = verbs_start_sender();
	cr_assert_eq(xp->base.attr.max_short, 8192 + 192 - TAGRV_SHORT_HDR);
	cr_assert_eq(send_short(0), 0);
	cr_assert_eq(send_short(192 - TAGRV_SHORT_HDR), 0);
	cr_assert_eq(fake_verbs_count().inlined, 2);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	cr_assert_eq(send_short(192 - TAGRV_SHORT_HDR + 1), 0);
	cr_assert_eq(fake_verbs_count().inlined, 2);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total - 1);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 3);
	pair_close(&pair);
}

Test(verbs_send, short_packets_are_signaled_as_others)
{
	struct verbs_xport *xp = verbs_start_sender();

	for (unsigned i = 0; i < 47; i++)
		cr_assert_eq(send_short(i % 2 ? 8 : 1000), 0);
	cr_assert_eq(fake_verbs_count().completions, 2, "after 16 and 32");
	cr_assert_eq(xp->inflight, 47);
	cr_assert_eq(send_short(8), 0);
	cr_assert_eq(fake_verbs_count().completions, 3);
	PAIR_UNTIL(&pair, !xp->inflight);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	cr_assert_eq(xp->signaled, 0);
	pair_close(&pair);
}

/* Neither is it counted, nor is anybody told of room: send does both. */
Test(verbs_send, short_packets_are_refused_without_a_trace)
{
	struct verbs_xport *xp = verbs_start_sender();
	struct verbs_link *link = verbs_link_of(pair.a->link);
	unsigned sent = 0;

	link->tx_permits = VERBS_PERMIT_CTRL;
	cr_assert_eq(send_short(8), -FI_EAGAIN);
	link->tx_permits = 1000;
	fake_verbs_hold(true);
	while (!send_short(8))
		sent++;
	cr_assert_eq(sent, link->depth - xp->sq_reserve);
	cr_assert_eq(xp->inflight, sent);
	cr_assert_eq(link->tx_permits, 1000 - sent);
	cr_assert_eq(xp->stats.sends_refused, 0);
	cr_assert_not(xp->starved);
	fake_verbs_hold(false);
	pair_close(&pair);
}

Test(verbs_send, short_packets_wait_at_the_end_of_a_burst)
{
	unsigned sent = 0;

	params.burst = 5;
	verbs_start_sender();
	fake_verbs_hold(true);
	while (!send_short(8))
		sent++;
	cr_assert_eq(sent, 5);
	fake_verbs_hold(false);
	pair_close(&pair);
}

Test(verbs_send, short_packets_leave_copy_buffers_to_control_packets)
{
	struct verbs_xport *xp;
	unsigned sent = 0;

	params.sq_depth = 1023;
	config.max_inline = 512;
	xp = verbs_start_sender();
	fake_verbs_hold(true);
	while (!send_short(1000))
		sent++;
	cr_assert_eq(sent, 128 - xp->tx_buf_reserve);
	cr_assert(xp->want_tx_bufs);
	cr_assert_eq(send_short(8), 0, "inline needs no buffer");
	fake_verbs_hold(false);
	pair_close(&pair);
}

Test(verbs_send, short_packets_respect_smaller_buffers)
{
	verbs_start_sender();
	verbs_link_of(pair.a->link)->open_max = 1192;
	cr_assert_eq(send_short(1192 - TAGRV_SHORT_HDR + 1), -FI_EAGAIN);
	cr_assert_eq(send_short(1192 - TAGRV_SHORT_HDR), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

/* With permits for the peer in it, as any packet. */
Test(verbs_send, short_packets_permit_more)
{
	struct verbs_xport *a;

	verbs_need_srq();
	verbs_open();
	pair_connect(&pair);
	a = verbs_xport_of(pair.a->xport);
	/* A quarter of the window is worth it. */
	for (unsigned i = 0; i < VERBS_FIRST / 4; i++)
		cr_assert_eq(end_send(pair.b, i, 8, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.a->packet_cnt == VERBS_FIRST / 4);
	cr_assert_eq(a->stats.permits_sent, 0);
	cr_assert_eq(send_short(8), 0);
	cr_assert_eq(a->stats.permits_sent, VERBS_FIRST / 4);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	cr_assert_eq(verbs_link_of(pair.b->link)->tx_permits, VERBS_FIRST);
	pair_close(&pair);
}

Test(verbs_send, short_packets_that_the_device_has_no_room_for_are_not_sent)
{
	struct verbs_xport *xp = verbs_start_sender();

	fake_verbs_fail_post(1, ENOMEM);
	cr_assert_eq(send_short(1000), -FI_EAGAIN);
	cr_assert_eq(xp->inflight, 0);
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	cr_assert_eq(send_short(1000), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}

Test(verbs_send, short_packets_that_the_device_refuses_break_the_link)
{
	struct verbs_xport *xp = verbs_start_sender();

	fake_verbs_fail_post(1, EIO);
	cr_assert_eq(send_short(1000), -FI_EAGAIN, "send tells why");
	cr_assert_eq(xp->tx_bufs.idle_cnt, xp->tx_bufs.total);
	cr_assert_eq(send_short(8), -FI_EAGAIN);
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), -FI_ENOTCONN);
	cr_assert_eq(pair.a->errors, 0, "not inside send");
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	cr_assert_eq(pair.a->error_status, -FI_EIO);
	pair_close(&pair);
}

Test(verbs_send, nothing_is_sent_to_a_link_with_an_early_error)
{
	const struct tagrv_xport_ops *ops = &tagrv_verbs_ops;

	verbs_open();
	pair_link(&pair, &pair.a->link, &pair.b->link);
	tagrv_verbs_link_fail(verbs_link_of(pair.a->link), -FI_EIO, true);
	cr_assert_eq(send_short(8), -FI_EAGAIN);
	cr_assert_eq(ops->link_attach(pair.a->link, pair.a), 0);
	cr_assert_eq(ops->link_attach(pair.b->link, pair.b), 0);
	cr_assert_eq(send_short(8), -FI_EAGAIN);
	cr_assert_eq(end_send(pair.a, 0, 8, 0, NULL), -FI_ENOTCONN);
	PAIR_UNTIL(&pair, pair.a->errors == 1);
	pair_close(&pair);
}
