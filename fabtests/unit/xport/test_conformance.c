/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What xport.h promises, checked on every transport and on odd devices.
 *
 * TAGRV_TEST_DEVICES="rxa0,rxb0": on two real devices that reach each other.
 */
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/pair.h"

/*
 * A test that runs on an unconnected pair of every kind, one after the other:
 * a process for each would take longer than the test. --verbose tells which.
 */
#define ON_ALL(name) \
	static void name(struct pair *p); \
	Test(conformance, name, .timeout = 120) \
	{ \
		run_on_all(name); \
	} \
	static void name(struct pair *p)

static void run_on_all(void (*test)(struct pair *p))
{
	enum pair_kind kinds[PAIR_KINDS];
	size_t cnt = pair_kinds(kinds);
	struct pair *p = calloc(1, sizeof(*p));

	for (size_t i = 0; i < cnt; i++) {
		cr_log_info("on %s", pair_kind_names[kinds[i]]);
		pair_open(p, kinds[i]);
		test(p);
		pair_close(p);
	}
	free(p);
}

static const struct tagrv_xport_ops *ops_of(struct pair *p)
{
	return p->a->xport->ops;
}

static size_t max_packet(struct pair *p)
{
	return p->a->xport->attr.max_packet;
}

ON_ALL(attributes_make_sense)
{
	const struct tagrv_xport_attr *attr = &p->a->xport->attr;

	cr_assert_eq(attr->max_packet, p->a->params.eager_max + 192);
	cr_assert_leq(attr->max_inline, attr->max_packet);
	cr_assert(attr->caps & TAGRV_XPORT_GET);
	cr_assert_gt(attr->get_max, 0);
	cr_assert_gt(attr->get_depth, 0);
	cr_assert_gt(attr->latency, 0);
	cr_assert_gt(attr->bandwidth, 0);
	cr_assert_eq(p->a->xport->dev, p->a->dev);
	cr_assert_eq(p->a->xport->sink, &p->a->sink);
}

ON_ALL(packets_arrive_once_and_in_order)
{
	unsigned cnt = p->kind >= PAIR_DEVICE ? 400 : 3000;

	pair_connect(p);
	for (unsigned i = 0; i < cnt; i++)
		pair_send(p, p->a, i, (i * 37) % max_packet(p), NULL);
	PAIR_UNTIL(p, p->b->packet_cnt >= cnt);
	for (unsigned i = 0; i < cnt; i++) {
		struct packet_record *packet = &p->b->packets[i];

		cr_assert_eq(packet->ctx, p->b);
		cr_assert_eq(packet->len, (i * 37) % max_packet(p));
		cr_assert(is_pattern(packet->data, i, packet->len));
	}
	for (int i = 0; i < 100; i++)
		pair_progress(p);
	cr_assert_eq(p->b->packet_cnt, cnt);
}

ON_ALL(both_directions_at_once)
{
	unsigned cnt = 500;

	if (p->a == p->b)
		return pair_connect(p);
	pair_connect(p);
	for (unsigned i = 0; i < cnt; i++) {
		pair_send(p, p->a, i, 64, NULL);
		pair_send(p, p->b, i + 7, 500, NULL);
	}
	PAIR_UNTIL(p, p->a->packet_cnt == cnt && p->b->packet_cnt == cnt);
	for (unsigned i = 0; i < cnt; i++) {
		cr_assert(is_pattern(p->b->packets[i].data, i, 64));
		cr_assert(is_pattern(p->a->packets[i].data, i + 7, 500));
	}
}

ON_ALL(every_size_arrives)
{
	size_t inl = p->a->xport->attr.max_inline, max = max_packet(p);
	size_t sizes[] = { 0, 1, 8, inl ? inl - 1 : 0, inl,
			   TAGRV_MIN(inl + 1, max), max / 2, max - 1, max };

	pair_connect(p);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(sizes); i++) {
		pair_send(p, p->a, (unsigned) i, sizes[i], NULL);
		PAIR_UNTIL(p, p->b->packet_cnt == i + 1);
		cr_assert_eq(p->b->packets[i].len, sizes[i]);
		cr_assert(is_pattern(p->b->packets[i].data, (unsigned) i,
				     sizes[i]));
	}
	cr_assert_eq(end_send(p->a, 0, max + 1, 0, NULL), -FI_EMSGSIZE);
}

ON_ALL(segments_are_gathered)
{
	char text[] = "abcdefghij";
	struct iovec iov[] = { { text, 1 }, { NULL, 0 }, { text + 1, 3 },
			       { text + 4, 2 }, { text + 6, 4 } };

	pair_connect(p);
	cr_assert_eq(ops_of(p)->send(p->a->link, iov, 5, 0, NULL), 0);
	PAIR_UNTIL(p, p->b->packet_cnt == 1);
	cr_assert_eq(p->b->packets[0].len, 10);
	cr_assert_arr_eq(p->b->packets[0].data, text, 10);
}

ON_ALL(nothing_is_delivered_inside_send)
{
	pair_connect(p);
	cr_assert_eq(end_send(p->a, 1, 8, 0, NULL), 0);
	cr_assert_eq(p->b->packet_cnt, 0);
	PAIR_UNTIL(p, p->b->packet_cnt == 1);
}

ON_ALL(again_means_that_nothing_happened)
{
	unsigned sent = 0, seen;
	int ret;

	pair_connect(p);
	while (!(ret = end_send(p->a, sent, 1000, 0, NULL)) && sent < 100000)
		sent++;
	cr_assert_eq(ret, -FI_EAGAIN);
	cr_assert_gt(sent, 0);
	cr_assert_eq(p->a->rooms, 0);
	PAIR_UNTIL(p, p->a->rooms > 0);
	PAIR_UNTIL(p, p->b->packet_cnt == sent);
	seen = p->a->rooms;
	pair_send(p, p->a, sent, 1000, NULL);
	PAIR_UNTIL(p, p->b->packet_cnt == sent + 1);
	for (int i = 0; i < 50; i++)
		pair_progress(p);
	cr_assert_eq(p->a->rooms, seen, "room without anybody waiting");
	for (unsigned i = 0; i <= sent; i++)
		cr_assert(is_pattern(p->b->packets[i].data, i, 1000));
}

ON_ALL(control_packets_have_room_left)
{
	unsigned sent = 0;

	pair_connect(p);
	while (!end_send(p->a, sent, 1000, 0, NULL))
		sent++;
	cr_assert_eq(end_send(p->a, sent, 16, TAGRV_SEND_CTRL, NULL), 0);
	PAIR_UNTIL(p, p->b->packet_cnt == sent + 1);
	cr_assert(is_pattern(p->b->packets[sent].data, sent, 16));
}

/* A sender that only ever uses -FI_EAGAIN and reap gets on all the same. */
ON_ALL(reap_alone_makes_room)
{
	unsigned sent = 0, spins = 0;

	if (p->a == p->b)	/* its room comes from delivery */
		return pair_connect(p);
	pair_connect(p);
	p->b->forget = true;
	while (sent < 2000 && spins < 1000000) {
		if (!end_send(p->a, sent, 3000, 0, NULL)) {
			sent++;
			continue;
		}
		ops_of(p)->reap(p->a->xport);
		ops_of(p)->progress(p->b->xport);
		spins++;
	}
	cr_assert_eq(sent, 2000);
	cr_assert_eq(p->a->packet_cnt, 0);
	PAIR_UNTIL(p, p->b->packet_cnt == sent);
}

ON_ALL(reap_delivers_no_packet)
{
	struct op op;
	double until = pair_now() + 5;

	pair_connect(p);
	op_init(&op);
	pair_send(p, p->b, 1, 20, NULL);
	pair_send(p, p->a, 2, 20, &op);
	while (!op.calls && pair_now() < until) {
		ops_of(p)->reap(p->a->xport);
		if (p->a != p->b)
			ops_of(p)->progress(p->b->xport);
	}
	cr_assert_eq(op.calls, 1);
	cr_assert_eq(op.status, 0);
	if (p->a != p->b)
		cr_assert_eq(p->a->packet_cnt, 0);
	PAIR_UNTIL(p, p->a->packet_cnt >= 1);
}

ON_ALL(done_runs_exactly_once)
{
	enum { CNT = 400 };
	struct op *ops = calloc(CNT, sizeof(*ops));

	pair_connect(p);
	for (unsigned i = 0; i < CNT; i++) {
		op_init(&ops[i]);
		pair_send(p, p->a, i, i % 3 ? 64 : 2000,
			  i % 5 ? &ops[i] : NULL);
	}
	ops_of(p)->flush(p->a->xport);
	PAIR_UNTIL(p, p->b->packet_cnt == CNT &&
		   !ops_of(p)->outstanding(p->a->xport));
	for (unsigned i = 0; i < CNT; i++) {
		cr_assert_eq(ops[i].calls, i % 5 ? 1 : 0);
		cr_assert_eq(ops[i].status, 0);
	}
	free(ops);
}

ON_ALL(flush_confirms_all)
{
	pair_connect(p);
	for (unsigned i = 0; i < 7; i++)
		pair_send(p, p->a, i, 30, NULL);
	PAIR_UNTIL(p, p->b->packet_cnt == 7);
	ops_of(p)->flush(p->a->xport);
	PAIR_UNTIL(p, !ops_of(p)->outstanding(p->a->xport));
	ops_of(p)->flush(p->a->xport);	/* nothing to do */
	cr_assert_eq(ops_of(p)->outstanding(p->a->xport), 0);
	cr_assert_eq(p->a->errors + p->b->errors, 0);
	cr_assert_eq(p->b->packet_cnt, 7, "flush must not send packets");
}

/* ---- gets ---- */

struct region {
	unsigned char *data;
	size_t	len;
	struct tagrv_mem *mem;
	char	key[TAGRV_KEY_MAX];
	size_t	key_len;
};

static void region_open(struct region *r, struct end *end, size_t len,
			bool remote)
{
	r->data = calloc(1, len);
	r->len = len;
	cr_assert_eq(end->xport->ops->mem_reg(end->dev, r->data, len, remote,
					      &r->mem), 0);
	cr_assert_eq(r->mem->dev, end->dev);
	cr_assert_eq(r->mem->addr, r->data);
	cr_assert_eq(r->mem->len, len);
	r->key_len = end->xport->ops->mem_key(r->mem, r->key);
	cr_assert_leq(r->key_len, TAGRV_KEY_MAX);
}

static void region_close(struct region *r)
{
	r->mem->dev->ops->mem_dereg(r->mem);
	free(r->data);
}

static int get(struct end *end, struct region *to, struct region *from,
	       size_t offset, size_t len, struct op *op)
{
	int ret;

	op->in_call = true;
	ret = end->xport->ops->get(end->link, to->data + offset, to->mem,
				   (uintptr_t) from->data + offset, from->key,
				   from->key_len, len, &op->done);
	op->in_call = false;
	return ret;
}

ON_ALL(get_reads_remote_memory)
{
	size_t sizes[] = { 1, 100, 4096, 10001, 0 }, len;
	struct region to, from;
	struct op op;

	pair_connect(p);
	cr_assert_leq(p->a->link->get_max, p->a->xport->attr.get_max);
	len = TAGRV_MIN((size_t) 1 << 20, p->a->link->get_max);
	sizes[4] = len;
	region_open(&to, p->a, len, false);
	region_open(&from, p->b, len, true);
	fill_pattern(from.data, 3, len);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(sizes); i++) {
		memset(to.data, 0, len);
		op_init(&op);
		cr_assert_eq(get(p->a, &to, &from, 0, sizes[i], &op), 0);
		cr_assert_gt(ops_of(p)->outstanding(p->a->xport), 0);
		PAIR_UNTIL(p, op.calls);
		cr_assert_eq(op.status, 0);
		cr_assert(is_pattern(to.data, 3, sizes[i]));
		cr_assert(sizes[i] == len || !to.data[sizes[i]]);
	}
	cr_assert_eq(op.calls, 1);
	region_close(&to);
	region_close(&from);
}

ON_ALL(gets_in_flight_are_limited)
{
	size_t depth = p->a->xport->attr.get_depth, started = 0, next;
	struct region to, from;
	struct op *ops = calloc(64, sizeof(*ops));

	pair_connect(p);
	region_open(&to, p->a, 64 * 512, false);
	region_open(&from, p->b, 64 * 512, true);
	fill_pattern(from.data, 9, from.len);
	for (size_t i = 0; i < 64; i++)
		op_init(&ops[i]);
	if (p->kind >= PAIR_SRQ && p->kind < PAIR_DEVICE)
		fake_verbs_hold(true);
	while (!get(p->a, &to, &from, started * 512, 512, &ops[started]))
		started++;
	cr_assert_leq(started, depth);
	cr_assert_gt(started, 0);
	if (p->kind >= PAIR_SRQ && p->kind < PAIR_DEVICE)
		fake_verbs_hold(false);
	PAIR_UNTIL(p, p->a->rooms);
	for (next = started; next < 64;)
		if (!get(p->a, &to, &from, next * 512, 512, &ops[next]))
			next++;
		else
			pair_progress(p);
	PAIR_UNTIL(p, !ops_of(p)->outstanding(p->a->xport));
	for (size_t i = 0; i < 64; i++)
		cr_assert(ops[i].calls == 1 && !ops[i].status);
	cr_assert(is_pattern(to.data, 9, to.len));
	region_close(&to);
	region_close(&from);
	free(ops);
}

ON_ALL(get_checks_its_arguments)
{
	struct region to, from;
	struct op op;

	pair_connect(p);
	region_open(&to, p->a, 4096, false);
	region_open(&from, p->b, 8192, true);
	op_init(&op);
	cr_assert_eq(get(p->a, &to, &from, 0, 4097, &op), -FI_EINVAL);
	cr_assert_eq(get(p->a, &to, &from, 4095, 2, &op), -FI_EINVAL);
	cr_assert_eq(get(p->a, &to, &from, 4097, 0, &op), -FI_EINVAL);
	cr_assert_eq(get(p->a, &to, &from, (size_t) -1, 1, &op), -FI_EINVAL);
	from.key_len--;
	cr_assert_eq(get(p->a, &to, &from, 0, 10, &op), -FI_EINVAL);
	cr_assert_eq(op.calls, 0);
	cr_assert_eq(ops_of(p)->outstanding(p->a->xport), 0);
	region_close(&to);
	region_close(&from);
}

ON_ALL(get_with_a_stale_key_fails)
{
	struct region to, from;
	struct op op;

	pair_connect(p);
	region_open(&to, p->a, 4096, false);
	region_open(&from, p->b, 4096, true);
	from.mem->dev->ops->mem_dereg(from.mem);
	op_init(&op);
	cr_assert_eq(get(p->a, &to, &from, 0, 4096, &op), 0);
	PAIR_UNTIL(p, op.calls);
	cr_assert_eq(op.status, -FI_EACCES);
	region_close(&to);
	free(from.data);
}

/* Memory registered for local use is not readable by the peer. */
ON_ALL(get_of_local_memory_fails)
{
	struct region to, from;
	struct op op;

	pair_connect(p);
	region_open(&to, p->a, 4096, false);
	region_open(&from, p->b, 4096, false);
	op_init(&op);
	cr_assert_eq(get(p->a, &to, &from, 0, 4096, &op), 0);
	PAIR_UNTIL(p, op.calls);
	cr_assert_eq(op.status, -FI_EACCES);
	region_close(&to);
	region_close(&from);
}

/* ---- callbacks ---- */

static void answer(struct end *end, const void *data, size_t len)
{
	unsigned *left = end->arg;
	struct iovec iov = { (void *) (uintptr_t) data, len };

	if (*left && --*left)
		cr_assert_eq(end->xport->ops->send(end->link, &iov, 1, 0,
						   NULL), 0);
}

ON_ALL(packet_callback_may_send)
{
	unsigned left = 1000;

	pair_connect(p);
	p->a->arg = p->b->arg = &left;
	p->a->on_packet = p->b->on_packet = answer;
	cr_assert_eq(end_send(p->a, 1, 24, 0, NULL), 0);
	PAIR_UNTIL(p, !left);
	cr_assert_eq(p->a->errors + p->b->errors, 0);
}

static void close_it(struct end *end, const void *data, size_t len)
{
	(void) data;
	(void) len;
	end->xport->ops->link_close(end->link);
	end->link = NULL;
	end->on_packet = NULL;
}

ON_ALL(packet_callback_may_close)
{
	pair_connect(p);
	p->b->on_packet = close_it;
	for (unsigned i = 0; i < 4; i++)
		pair_send(p, p->a, i, 24, NULL);
	PAIR_UNTIL(p, p->b->closed == 1);
	cr_assert_eq(p->b->packet_cnt, 1, "no packet after link_close");
	cr_assert_null(p->b->link);
	p->a->link = p->a == p->b ? NULL : p->a->link;
}

static void send_again(struct end *end)
{
	while (!end_send(end, 1, 1000, 0, NULL))
		++*(unsigned *) end->arg;
}

ON_ALL(room_callback_may_send)
{
	unsigned sent = 0;

	pair_connect(p);
	p->b->forget = true;
	p->a->arg = &sent;
	p->a->on_room = send_again;
	send_again(p->a);
	PAIR_UNTIL(p, sent > 2000);
	p->a->on_room = NULL;
	PAIR_UNTIL(p, p->b->packet_cnt == sent);
}

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
	if (get(p->a, &to, &from, 0, 4096, &get_op))
		get_op.calls = 1;	/* no room for it */
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

ON_ALL(closed_links_take_nothing)
{
	struct region to, from;
	struct op op;

	pair_connect(p);
	region_open(&to, p->a, 64, false);
	region_open(&from, p->b, 64, true);
	op_init(&op);
	ops_of(p)->link_close(p->a->link);
	ops_of(p)->link_close(p->a->link);	/* once is enough */
	cr_assert_eq(end_send(p->a, 1, 8, 0, &op), -FI_ENOTCONN);
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

/* ---- before a link is one ---- */

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

/* The peer may be faster than we are with attaching. */
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

/* A network does not tell a process that ended from a host that did. */
static int status_of_dead(const struct end *end)
{
	return end->xport->ops == &tagrv_shm_ops ? -FI_ECONNRESET :
						   -FI_EHOSTUNREACH;
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
	cr_assert_eq(p->a->error_status, status_of_dead(p->a));
	cr_assert_eq(p->a->error_ctx, p->a);
	cr_assert_eq(end_send(p->a, 1, 8, 0, NULL), -FI_ENOTCONN);
	cr_assert_eq(end_send(p->a, 1, 8, TAGRV_SEND_CTRL, NULL), -FI_ENOTCONN);
	end_close_link(p->a);
	for (unsigned i = 0; i < sent; i++) {
		cr_assert_eq(ops[i].calls, 1);
		cr_assert_eq(ops[i].status, status_of_dead(p->a));
	}
	cr_assert_eq(p->a->errors, 1);
	cr_assert_eq(p->a->fatals, 0);
}

/* An error nobody asked a completion for is noticed, too. */
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
	cr_assert_eq(op.status, status_of_dead(p->a));
	cr_assert_eq(p->a->errors, 1);
}

/* ---- sleeping ---- */

static bool is_readable(int fd, int ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, ms) == 1;
}

static void settle(struct pair *p, struct end *end)
{
	while (ops_of(p)->arm(end->xport) == -FI_EAGAIN)
		ops_of(p)->progress(end->xport);
}

ON_ALL(sleep_is_safe_after_arm)
{
	int fd = ops_of(p)->wait_fd(p->b->xport);

	pair_connect(p);
	settle(p, p->b);
	if (fd < 0) {		/* nothing comes from outside */
		cr_assert_eq(end_send(p->a, 1, 8, 0, NULL), 0);
		cr_assert_eq(ops_of(p)->arm(p->b->xport), -FI_EAGAIN);
		PAIR_UNTIL(p, p->b->packet_cnt == 1);
		return;
	}
	cr_assert(!is_readable(fd, 10));
	for (unsigned i = 0; i < 100; i++) {
		cr_assert_eq(end_send(p->a, i, 8, 0, NULL), 0);
		cr_assert(is_readable(fd, 5000), "round %u", i);
		while (p->b->packet_cnt == i)
			ops_of(p)->progress(p->b->xport);
		ops_of(p)->progress(p->a->xport);
		settle(p, p->b);
	}
	cr_assert_eq(p->b->packet_cnt, 100);
}

/* Who looks once more before it sleeps is woken all the same. */
ON_ALL(progress_that_finds_nothing_stays_armed)
{
	int fd = ops_of(p)->wait_fd(p->b->xport);

	pair_connect(p);
	settle(p, p->b);
	for (unsigned i = 0; i < 20 && fd >= 0; i++) {
		do
			settle(p, p->b);
		while (ops_of(p)->progress(p->b->xport));
		cr_assert_eq(end_send(p->a, i, 8, 0, NULL), 0);
		cr_assert(is_readable(fd, 5000), "round %u", i);
		PAIR_UNTIL(p, p->b->packet_cnt == i + 1);
	}
}

/* What arrives between the last progress and arm must not be slept through. */
ON_ALL(arm_sees_what_came_before)
{
	double until = pair_now() + 5;
	int fd = ops_of(p)->wait_fd(p->b->xport);

	pair_connect(p);
	settle(p, p->b);
	cr_assert_eq(end_send(p->a, 1, 8, 0, NULL), 0);
	while (!ops_of(p)->arm(p->b->xport)) {
		cr_assert(fd >= 0 && pair_now() < until);
		is_readable(fd, 1000);
	}
	cr_assert_eq(p->b->packet_cnt, 0, "arm delivers nothing");
	PAIR_UNTIL(p, p->b->packet_cnt == 1);
}
