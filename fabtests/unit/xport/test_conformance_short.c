/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets by send_short: see conformance.h. A transport without it has max_short 0.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/conformance.h"

/* Sends what end_send() does for TAGRV_SHORT_HDR + len bytes, by send_short. */
static int send_short(struct pair *p, unsigned seed, size_t len)
{
	unsigned char *bytes = malloc(TAGRV_SHORT_HDR + len);
	uint64_t hdr[TAGRV_SHORT_WORDS];
	int ret;

	fill_pattern(bytes, seed, TAGRV_SHORT_HDR + len);
	memcpy(hdr, bytes, sizeof(hdr));
	ret = ops_of(p)->send_short(p->a->link, hdr, bytes + sizeof(hdr), len);
	free(bytes);	/* free on return, as the header is */
	return ret;
}

/* The way of proto/eager.c: send is asked when send_short refuses. */
static int send_as_eager(struct pair *p, unsigned seed, size_t len)
{
	int ret = -FI_EAGAIN;

	if (len <= p->a->xport->attr.max_short)
		ret = send_short(p, seed, len);
	cr_assert(!ret || ret == -FI_EAGAIN);
	return ret ? end_send(p->a, seed, TAGRV_SHORT_HDR + len, 0, NULL) : 0;
}

ON_ALL(short_packets_arrive_as_others_do)
{
	size_t most = p->a->xport->attr.max_short, step = most / 300 + 1, at = 0;
	unsigned cnt = 0;

	cr_assert_leq(most + TAGRV_SHORT_HDR * (most > 0), p->a->xport->attr.max_packet);
	most = TAGRV_MIN(most, max_packet(p) - TAGRV_SHORT_HDR);
	pair_connect(p);
	for (size_t len = 0; len <= most; len += len < 260 ? 1 : step) {
		while (send_as_eager(p, cnt, len))
			pair_progress(p);
		cnt++;
	}
	PAIR_UNTIL(p, p->b->packet_cnt == cnt);
	for (size_t len = 0; len <= most; len += len < 260 ? 1 : step, at++) {
		cr_assert_eq(p->b->packets[at].len, TAGRV_SHORT_HDR + len);
		cr_assert(is_pattern(p->b->packets[at].data, (unsigned) at,
				     TAGRV_SHORT_HDR + len));
	}
}

ON_ALL(short_packets_keep_the_order_of_all)
{
	unsigned cnt = 0;

	pair_connect(p);
	for (; cnt < 600; cnt++) {
		size_t len = cnt * 13 % 300;

		if (cnt % 3 == 2)
			pair_send(p, p->a, cnt, TAGRV_SHORT_HDR + len, NULL);
		else
			while (send_as_eager(p, cnt, len))
				pair_progress(p);
	}
	PAIR_UNTIL(p, p->b->packet_cnt == cnt);
	for (unsigned i = 0; i < cnt; i++)
		cr_assert(is_pattern(p->b->packets[i].data, i,
				     TAGRV_SHORT_HDR + i * 13 % 300));
}

/* As soon as send_short refuses, send either does it or announces room later. */
ON_ALL(short_packets_that_are_refused_have_not_been_sent)
{
	unsigned sent = 0;
	int ret;

	pair_connect(p);
	while (!(ret = send_as_eager(p, sent, 8)) && sent < 100000)
		sent++;
	cr_assert_eq(ret, -FI_EAGAIN);
	if (p->a->xport->attr.max_short)
		cr_assert_eq(send_short(p, sent, 8), -FI_EAGAIN);
	PAIR_UNTIL(p, p->a->rooms > 0);
	PAIR_UNTIL(p, p->b->packet_cnt == sent);
	while (send_as_eager(p, sent, 8))
		pair_progress(p);
	PAIR_UNTIL(p, p->b->packet_cnt == sent + 1);
	for (unsigned i = 0; i <= sent; i++)
		cr_assert(is_pattern(p->b->packets[i].data, i,
				     TAGRV_SHORT_HDR + 8));
}

/* The link is closed but not gone: send tells why. */
ON_ALL(short_packets_are_refused_after_close)
{
	struct tagrv_link *link;

	pair_connect(p);
	if (!p->a->xport->attr.max_short)
		return;
	link = p->a->link;
	ops_of(p)->link_close(link);
	cr_assert_eq(send_short(p, 1, 8), -FI_EAGAIN);
	cr_assert_eq(end_send(p->a, 1, 8, 0, NULL), -FI_ENOTCONN);
	p->a->link = NULL;
	if (p->a == p->b)
		p->b->link = NULL;
	PAIR_UNTIL(p, p->a->closed == 1);
	cr_assert_eq(p->b->packet_cnt, 0);
}
