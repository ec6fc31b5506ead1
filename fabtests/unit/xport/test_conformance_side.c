/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Side links: gets and puts beside the packets of another link, and keys that are not valid:
 * see conformance.h.
 */
#include <rdma/fi_errno.h>
#include <string.h>

#include "unit/xport/conformance.h"

#define LEN	((size_t) 4096)

struct sides {
	struct tagrv_link *a, *b;
};

static struct tagrv_link *create(struct end *end, void *blob, size_t *len)
{
	struct tagrv_link *link;

	cr_assert_eq(end->xport->ops->side_create(end->xport, blob, len, &link), 0);
	cr_assert_leq(*len, TAGRV_BLOB_MAX);
	return link;
}

/* Both halves, attached; they are their own context. */
static struct sides connect_sides(struct pair *p)
{
	uint8_t a_blob[TAGRV_BLOB_MAX], b_blob[TAGRV_BLOB_MAX];
	size_t a_len, b_len;
	struct sides s = { .a = create(p->a, a_blob, &a_len) };

	s.b = create(p->b, b_blob, &b_len);
	cr_assert_eq(ops_of(p)->link_bind(s.a, b_blob, b_len), 0);
	cr_assert_eq(ops_of(p)->link_bind(s.b, a_blob, a_len), 0);
	cr_assert_eq(ops_of(p)->link_attach(s.a, s.a), 0);
	cr_assert_eq(ops_of(p)->link_attach(s.b, s.b), 0);
	return s;
}

static void close_sides(struct pair *p, struct sides *s)
{
	unsigned a_closed = p->a->closed, b_closed = p->b->closed;

	ops_of(p)->link_close(s->a);
	ops_of(p)->link_close(s->b);
	PAIR_UNTIL(p, p->a->closed > a_closed && p->b->closed > b_closed);
}

static int side_get(struct tagrv_link *link, struct region *to, struct region *from,
		    size_t len, struct op *op)
{
	return link->xport->ops->get(link, to->data, to->mem, (uintptr_t) from->data,
				     from->key, from->key_len, len, &op->done);
}

static int side_put(struct tagrv_link *link, struct region *to, const void *from,
		    struct tagrv_mem *mem, size_t len, struct op *op)
{
	return link->xport->ops->put(link, from, mem, (uintptr_t) to->data, to->key,
				     to->key_len, len, &op->done);
}

/* Packets take the other link as before. */
static void expect_packets(struct pair *p)
{
	size_t before = p->b->packet_cnt;

	for (int i = 0; i < 100; i++)
		pair_send(p, p->a, 1, 10, NULL);
	PAIR_UNTIL(p, p->b->packet_cnt == before + 100);
}

static void await(struct pair *p, struct op *op, int status)
{
	PAIR_UNTIL(p, op->calls);
	cr_assert_eq(op->status, status, "status %d", op->status);
	cr_assert_eq(op->calls, 1);
}

ON_ALL_WITH(TAGRV_XPORT_SIDE, side_link_moves_memory)
{
	struct region far, near;
	struct sides s;
	struct op op;

	pair_connect(p);
	s = connect_sides(p);
	region_open(&far, p->b, LEN, TAGRV_MEM_READ | TAGRV_MEM_WRITE);
	region_open(&near, p->a, LEN, TAGRV_MEM_STORE);
	fill_pattern(near.data, 3, LEN);
	op_init(&op);
	cr_assert_eq(side_put(s.a, &far, near.data, near.mem, LEN, &op), 0);
	await(p, &op, 0);
	memset(near.data, 0, LEN);
	op_init(&op);
	cr_assert_eq(side_get(s.a, &near, &far, LEN, &op), 0);
	await(p, &op, 0);
	cr_assert(is_pattern(near.data, 3, LEN));
	expect_packets(p);
	cr_assert_eq(p->a->errors + p->b->errors, 0);
	region_close(&far);
	region_close(&near);
	close_sides(p, &s);
}

ON_ALL_WITH(TAGRV_XPORT_SIDE, side_link_writes_what_is_not_registered)
{
	const size_t most = p->a->xport->attr.max_inline;
	unsigned char bytes[8192];
	struct region far;
	struct sides s;
	struct op op;

	cr_assert_lt(most, sizeof(bytes));
	pair_connect(p);
	s = connect_sides(p);
	region_open(&far, p->b, LEN, TAGRV_MEM_WRITE);
	fill_pattern(bytes, 5, most);
	op_init(&op);
	cr_assert_eq(side_put(s.a, &far, bytes, NULL, most, &op), 0);
	memset(bytes, 0, most);
	await(p, &op, 0);
	cr_assert(is_pattern(far.data, 5, most), "%zu bytes", most);
	cr_assert_eq(side_put(s.a, &far, bytes, NULL, most + 1, &op), -FI_EINVAL);
	region_close(&far);
	close_sides(p, &s);
}

ON_ALL_WITH(TAGRV_XPORT_SIDE, side_link_takes_no_packets)
{
	const uint64_t word = 0;
	struct iovec iov = { (void *) (uintptr_t) &word, sizeof(word) };
	struct sides s;

	pair_connect(p);
	s = connect_sides(p);
	cr_assert_lt(ops_of(p)->send(s.a, &iov, 1, 0, NULL), 0);
	cr_assert_eq(p->b->packet_cnt, 0);
	close_sides(p, &s);
}

ON_ALL_WITH(TAGRV_XPORT_SIDE, side_link_ends_alone_over_a_stale_key)
{
	struct region far, near, other;
	struct sides s;
	struct op stale, good;
	int ret;

	pair_connect(p);
	s = connect_sides(p);
	region_open(&far, p->b, LEN, TAGRV_MEM_READ);
	region_open(&other, p->b, LEN, TAGRV_MEM_READ);
	region_open(&near, p->a, LEN, TAGRV_MEM_STORE);
	p->b->dev->ops->mem_dereg(far.mem);
	op_init(&stale);
	op_init(&good);
	cr_assert_eq(side_get(s.a, &near, &far, LEN, &stale), 0);
	ret = side_get(s.a, &near, &other, LEN, &good);
	/* Some have one in flight only, some know at once that the queue pair broke. */
	cr_assert(!ret || ret == (p->kind == PAIR_BNXT_RE || p->kind == PAIR_TWO_BNXT_RE ? -FI_ENOTCONN : -FI_EAGAIN));
	PAIR_UNTIL(p, stale.calls && (ret || good.calls));
	cr_assert_eq(stale.status, -FI_EACCES);
	cr_assert(ret || good.status == -FI_EACCES, "it ends with the first one");
	cr_assert_eq(p->a->errors, 1);
	cr_assert_eq(p->a->error_ctx, s.a);
	cr_assert_eq(p->a->error_status, -FI_EACCES);
	cr_assert_eq(side_get(s.a, &near, &other, LEN, &good), -FI_ENOTCONN);
	expect_packets(p);
	cr_assert_leq(p->b->errors, 1);
	if (p->b->errors)
		cr_assert_eq(p->b->error_ctx, s.b);
	close_sides(p, &s);
	p->b->dev->ops->mem_reg(p->b->dev, far.data, LEN, TAGRV_MEM_READ, &far.mem);
	region_close(&far);
	region_close(&other);
	region_close(&near);
}

static int side_atomic(struct tagrv_link *link, struct region *to, uint64_t at, bool swaps,
		       uint64_t operand, uint64_t compare, uint64_t *former, struct op *op)
{
	struct tagrv_xport_change change = { swaps, operand, compare };

	op_init(op);
	return link->xport->ops->atomic(link, &change, (uintptr_t) to->data + at, to->key,
					to->key_len, former, &op->done);
}

ON_ALL_WITH(TAGRV_XPORT_ATOMIC, side_link_adds_and_swaps)
{
	uint64_t former = 1, word;
	struct region far;
	struct sides s;
	struct op op;

	pair_connect(p);
	s = connect_sides(p);
	region_open(&far, p->b, LEN, TAGRV_MEM_ATOMIC);
	word = 7;
	memcpy(far.data + 8, &word, sizeof(word));
	cr_assert_eq(side_atomic(s.a, &far, 8, false, UINT64_C(1) << 63, 0, &former, &op), 0);
	await(p, &op, 0);
	cr_assert_eq(former, 7);
	former = 0;
	cr_assert_eq(side_atomic(s.a, &far, 8, true, 9, 8, &former, &op), 0);
	await(p, &op, 0);
	cr_assert_eq(former, (UINT64_C(1) << 63) + 7, "not swapped");
	cr_assert_eq(side_atomic(s.a, &far, 8, true, 9, former, &former, &op), 0);
	await(p, &op, 0);
	memcpy(&word, far.data + 8, sizeof(word));
	cr_assert_eq(word, 9);
	cr_assert_eq(side_atomic(s.a, &far, 12, false, 1, 0, &former, &op), -FI_EINVAL,
		     "not aligned");
	expect_packets(p);
	region_close(&far);
	close_sides(p, &s);
}

/* More than a device has places for; each gets its own former value, in order. */
ON_ALL_WITH(TAGRV_XPORT_ATOMIC, side_link_keeps_the_order_of_atomics)
{
	enum { CNT = 200 };
	uint64_t former[CNT];
	struct op op[CNT];
	struct region far;
	struct sides s;

	pair_connect(p);
	s = connect_sides(p);
	region_open(&far, p->b, LEN, TAGRV_MEM_ATOMIC);
	memset(far.data, 0, LEN);
	for (size_t i = 0; i < CNT; i++)
		PAIR_UNTIL(p, !side_atomic(s.a, &far, 0, false, 3, 0, &former[i], &op[i]));
	PAIR_UNTIL(p, op[CNT - 1].calls);
	for (size_t i = 0; i < CNT; i++) {
		cr_assert_eq(op[i].calls, 1);
		cr_assert_eq(former[i], 3 * i, "%zu: %llu", i,
			     (unsigned long long) former[i]);
	}
	region_close(&far);
	close_sides(p, &s);
}

ON_ALL_WITH(TAGRV_XPORT_ATOMIC, side_link_changes_only_what_it_may)
{
	uint64_t former = 5;
	struct region far;
	struct sides s;
	struct op op;

	pair_connect(p);
	s = connect_sides(p);
	region_open(&far, p->b, LEN, TAGRV_MEM_READ | TAGRV_MEM_WRITE);
	memset(far.data, 0, LEN);
	cr_assert_eq(side_atomic(s.a, &far, 0, false, 3, 0, &former, &op), 0);
	PAIR_UNTIL(p, op.calls);
	cr_assert_neq(op.status, 0);
	cr_assert_eq(former, 5);
	cr_assert_eq(far.data[0], 0);
	expect_packets(p);
	region_close(&far);
	close_sides(p, &s);
}

/* A link of packets has no atomics. */
ON_ALL_WITH(TAGRV_XPORT_ATOMIC, link_of_packets_has_no_atomics)
{
	struct region far;
	uint64_t former;
	struct op op;

	pair_connect(p);
	region_open(&far, p->b, LEN, TAGRV_MEM_ATOMIC);
	cr_assert_eq(side_atomic(p->a->link, &far, 0, false, 3, 0, &former, &op),
		     -FI_EOPNOTSUPP);
	region_close(&far);
}

/* Also one whose peer was never heard of. */
ON_ALL_WITH(TAGRV_XPORT_SIDE, side_link_may_be_discarded)
{
	uint8_t blob[TAGRV_BLOB_MAX];
	size_t len;

	pair_connect(p);
	ops_of(p)->link_discard(create(p->a, blob, &len));
	expect_packets(p);
	cr_assert_eq(p->a->closed, 0);
}

ON_ALL_WITH(0, side_link_is_there_or_not)
{
	uint8_t blob[TAGRV_BLOB_MAX];
	struct tagrv_link *link;
	size_t len;

	if (!has_caps(p, TAGRV_XPORT_SIDE))
		cr_assert_eq(ops_of(p)->side_create(p->a->xport, blob, &len, &link),
			     -FI_EOPNOTSUPP);
}
