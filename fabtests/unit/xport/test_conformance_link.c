/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Links begin, end and fail: see conformance.h.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/xport/conformance.h"

/* ---- end of a link ---- */

ON_ALL(close_ends_what_is_outstanding)
{
	enum { CNT = 4 };
	struct op ops[CNT], get_op;
	struct region to, from;
	unsigned sent = 0;

	pair_connect(p);
	region_open(&to, p->a, 4096, false);
	region_open(&from, p->b, 4096, true);
	if (p->kind >= PAIR_SRQ && p->kind < PAIR_DEVICE)
		fake_verbs_hold(true);
	for (unsigned i = 0; i < CNT; i++) {
		op_init(&ops[i]);
		if (!end_send(p->a, i, 300, 0, &ops[i]))
			sent++;
	}
	op_init(&get_op);
	if (!has_caps(p, TAGRV_XPORT_GET) ||
	    get(p->a, &to, &from, 0, 4096, &get_op))
		get_op.calls = 1;	/* there is none, or no room for it */
	cr_assert_gt(ops_of(p)->outstanding(p->a->xport), 0);
	end_close_link(p->a);
	cr_assert_eq(ops_of(p)->outstanding(p->a->xport), 0);
	for (unsigned i = 0; i < sent; i++) {
		cr_assert_eq(ops[i].calls, 1);
		cr_assert(!ops[i].status || ops[i].status == -FI_ECANCELED);
	}
	cr_assert_eq(get_op.calls, 1);
	cr_assert_eq(p->a->errors, 0, "close is no error");
	p->b->link = p->a == p->b ? NULL : p->b->link;
	region_close(&to);
	region_close(&from);
}

/* Looks at a sound link, also while a packet is in flight: the peer gets all of them, and nothing else. */
ON_ALL(looks_change_nothing)
{
	enum { CNT = 6 };

	pair_connect(p);
	for (unsigned i = 0; i < CNT; i++) {
		ops_of(p)->check(p->a->link, true);
		pair_send(p, p->a, i, 100, NULL);
		ops_of(p)->check(p->a->link, i & 1);
		PAIR_UNTIL(p, p->b->packet_cnt == i + 1);
	}
	cr_assert_eq(p->a->errors + p->b->errors, 0);
	for (unsigned i = 0; i < CNT; i++)
		cr_assert(is_pattern(p->b->packets[i].data, i, 100));
}

ON_ALL(closed_links_take_nothing)
{
	struct region to, from;
	struct op op;

	pair_connect(p);
	region_open(&to, p->a, 64, false);
	region_open(&from, p->b, 64, true);
	op_init(&op);
	ops_of(p)->link_close(p->a->link);
	ops_of(p)->link_close(p->a->link);	/* no effect */
	cr_assert_eq(end_send(p->a, 1, 8, 0, &op), -FI_ENOTCONN);
	if (has_caps(p, TAGRV_XPORT_GET))
		cr_assert_eq(get(p->a, &to, &from, 0, 8, &op), -FI_ENOTCONN);
	p->a->link = NULL;
	PAIR_UNTIL(p, p->a->closed == 1);
	cr_assert_eq(op.calls, 0);
	region_close(&to);
	region_close(&from);
}

ON_ALL(links_can_be_replaced)
{
	for (unsigned i = 0; i < 20; i++) {
		pair_connect(p);
		pair_send(p, p->a, i, 100, NULL);
		PAIR_UNTIL(p, p->b->packet_cnt == i + 1);
		cr_assert(is_pattern(p->b->packets[i].data, i, 100));
		end_close_link(p->a);
		p->b->link = p->a == p->b ? NULL : p->b->link;
		end_close_link(p->b);
	}
	cr_assert_eq(p->a->errors, 0);
}

ON_ALL(several_links_are_independent)
{
	enum { LINKS = 3, CNT = 60 };
	struct tagrv_link *a[LINKS], *b[LINKS];
	size_t next[LINKS] = { 0 };
	unsigned links = p->kind == PAIR_TINY_RQ ? 2 : LINKS;
	unsigned closed = 0;

	for (uintptr_t i = 0; i < links; i++) {
		pair_link(p, &a[i], &b[i]);
		cr_assert_eq(ops_of(p)->link_attach(a[i], (void *) i), 0);
		if (a[i] != b[i])
			cr_assert_eq(ops_of(p)->link_attach(b[i], (void *) i),
				     0);
	}
	for (unsigned i = 0; i < CNT; i++) {
		p->a->link = a[i % links];
		pair_send(p, p->a, i / links, 50, NULL);
	}
	PAIR_UNTIL(p, p->b->packet_cnt == CNT);
	for (unsigned i = 0; i < CNT; i++) {
		size_t nr = (uintptr_t) p->b->packets[i].ctx;

		cr_assert_lt(nr, links);
		cr_assert(is_pattern(p->b->packets[i].data,
				     (unsigned) next[nr]++, 50));
	}
	p->a->link = NULL;
	for (unsigned i = 0; i < links; i++) {
		ops_of(p)->link_close(a[i]);
		closed++;
		if (a[i] != b[i])
			ops_of(p)->link_close(b[i]);
	}
	PAIR_UNTIL(p, p->a->closed == closed && p->b->closed == closed);
}

/* ---- before a link is attached ---- */

ON_ALL(discarded_links_are_never_heard_of)
{
	char blob[TAGRV_BLOB_MAX];
	struct tagrv_link *link, *other;
	size_t len;

	cr_assert_eq(ops_of(p)->link_create(p->a->xport, blob, &len, &link), 0);
	cr_assert_leq(len, TAGRV_BLOB_MAX);
	ops_of(p)->link_discard(link);
	pair_progress(p);
	pair_link(p, &link, &other);
	ops_of(p)->link_discard(link);
	if (link != other)
		ops_of(p)->link_discard(other);
	for (int i = 0; i < 20; i++)
		pair_progress(p);
	cr_assert_eq(p->a->closed + p->a->errors, 0);
	cr_assert_eq(ops_of(p)->outstanding(p->a->xport), 0);
}

ON_ALL(blobs_are_validated)
{
	char blob[TAGRV_BLOB_MAX] = "", zero[TAGRV_BLOB_MAX] = "";
	struct tagrv_link *link;
	size_t len;

	cr_assert_eq(ops_of(p)->link_create(p->a->xport, blob, &len, &link), 0);
	cr_assert_eq(ops_of(p)->link_bind(link, zero, len), -FI_EINVAL);
	cr_assert_eq(ops_of(p)->link_bind(link, blob, len - 1), -FI_EINVAL);
	cr_assert_eq(ops_of(p)->link_bind(link, blob, 0), -FI_EINVAL);
	cr_assert_eq(ops_of(p)->link_attach(link, p), -FI_ENOTCONN);
	ops_of(p)->link_discard(link);
}

/* The peer may attach and send before this end has attached. */
ON_ALL(packets_before_attach_are_kept)
{
	enum { CNT = 30 };
	int ret;

	if (p->a == p->b)
		return pair_connect(p);
	pair_link(p, &p->a->link, &p->b->link);
	cr_assert_eq(ops_of(p)->link_attach(p->a->link, p->a), 0);
	for (unsigned i = 0; i < CNT; i++)
		pair_send(p, p->a, i, 100 + i, NULL);
	for (int i = 0; i < 200; i++)
		pair_progress(p);
	cr_assert_eq(p->b->packet_cnt, 0);
	ret = ops_of(p)->link_attach(p->b->link, p->b);
	cr_assert_eq(ret, 0);
	for (unsigned i = CNT; i < 2 * CNT; i++)
		pair_send(p, p->a, i, 100 + i, NULL);
	PAIR_UNTIL(p, p->b->packet_cnt == 2 * CNT);
	for (unsigned i = 0; i < 2 * CNT; i++)
		cr_assert(is_pattern(p->b->packets[i].data, i, 100 + i));
}

/* ---- errors ---- */

/* Over a network the end of a process looks like the end of its host. */
static int status_of_dead(const struct pair *p)
{
	return p->kind < PAIR_SRQ ? -FI_ECONNRESET : -FI_EHOSTUNREACH;
}

ON_ALL(dead_peer_is_reported_once)
{
	enum { CNT = 4 };
	struct op ops[CNT];
	unsigned sent = 0;

	if (p->a == p->b)
		return pair_connect(p);
	pair_connect(p);
	pair_send(p, p->a, 1, 8, NULL);
	PAIR_UNTIL(p, p->b->packet_cnt == 1);
	end_close_link(p->b);
	for (unsigned i = 0; i < CNT; i++) {
		op_init(&ops[i]);
		if (!end_send(p->a, i, 64, 0, &ops[i]))
			sent++;
	}
	PAIR_UNTIL(p, p->a->errors);
	cr_assert_eq(p->a->error_status, status_of_dead(p));
	cr_assert_eq(p->a->error_ctx, p->a);
	cr_assert_eq(end_send(p->a, 1, 8, 0, NULL), -FI_ENOTCONN);
	cr_assert_eq(end_send(p->a, 1, 8, TAGRV_SEND_CTRL, NULL), -FI_ENOTCONN);
	for (int i = 0; i < 20; i++)
		pair_progress(p);
	end_close_link(p->a);
	for (unsigned i = 0; i < sent; i++) {
		cr_assert_eq(ops[i].calls, 1);
		cr_assert_eq(ops[i].status, status_of_dead(p));
	}
	cr_assert_eq(p->a->errors, 1);
	cr_assert_eq(p->a->fatals, 0);
}

/* An error is noticed although no operation has a done callback. */
ON_ALL(dead_peer_is_noticed_without_done)
{
	if (p->a == p->b)
		return pair_connect(p);
	pair_connect(p);
	end_close_link(p->b);
	cr_assert_eq(end_send(p->a, 1, 64, 0, NULL), 0);
	PAIR_UNTIL(p, p->a->errors);
}

static void close_on_error(struct end *end)
{
	end->xport->ops->link_close(end->link);
	end->link = NULL;
}

ON_ALL(error_callback_may_close)
{
	struct op op;

	if (p->a == p->b)
		return pair_connect(p);
	pair_connect(p);
	end_close_link(p->b);
	p->a->on_error = close_on_error;
	op_init(&op);
	cr_assert_eq(end_send(p->a, 1, 64, 0, &op), 0);
	PAIR_UNTIL(p, p->a->closed == 1);
	cr_assert_eq(op.calls, 1);
	cr_assert_eq(op.status, status_of_dead(p));
	cr_assert_eq(p->a->errors, 1);
}
