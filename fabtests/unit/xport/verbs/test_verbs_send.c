/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets over fake devices: inline or copied, and how long they may be.
 */
#include <criterion/criterion.h>
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
	pair_permit(&pair, pair.a->link, pair.b->link);
	pair.b->forget = true;
	return verbs_xport_of(pair.a->xport);
}

static void send_many(unsigned cnt, size_t len)
{
	for (unsigned i = 0; i < cnt; i++)
		cr_assert_eq(end_send(pair.a, i, len, 0, NULL), 0);
}

TestSuite(verbs_send, .init = prepare, .timeout = 20);

Test(verbs_send, small_packets_go_inline)
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

/* Inline data may have at most as many segments as the device allows. */
Test(verbs_send, many_small_pieces_are_copied)
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

Test(verbs_send, inline_size_is_found_out)
{
	config.max_inline = 60;
	cr_assert_eq(start()->base.attr.max_inline, 48, "192 / 2 / 2");
	pair_close(&pair);
}

/* The smaller buffer size of both ends is the limit. */
Test(verbs_send, peer_with_smaller_buffers_is_respected)
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
	pair_permit(&pair, pair.a->link, pair.b->link);
	cr_assert_eq(end_send(pair.a, 1, 1193, 0, NULL), -FI_EMSGSIZE);
	cr_assert_eq(end_send(pair.a, 1, 1192, 0, NULL), 0);
	PAIR_UNTIL(&pair, pair.b->packet_cnt == 1);
	pair_close(&pair);
}
