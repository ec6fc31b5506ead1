/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes to a peer's memory: see conformance.h.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/conformance.h"

ON_ALL_WITH(TAGRV_XPORT_PUT, put_writes_remote_memory)
{
	size_t sizes[] = { 0, 1, 100, 4096, 10001, 0 }, len;
	struct region to, from;
	struct op op;

	pair_connect(p);
	cr_assert_leq(p->a->link->put_max, p->a->xport->attr.put_max);
	len = TAGRV_MIN((size_t) 1 << 20, p->a->link->put_max);
	sizes[5] = len;
	region_open(&to, p->b, len, TAGRV_MEM_WRITE);
	region_open(&from, p->a, len, 0);
	fill_pattern(from.data, 3, len);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(sizes); i++) {
		size_t packets = p->b->packet_cnt;

		memset(to.data, 0, len);
		op_init(&op);
		cr_assert_eq(put(p->a, &to, &from, 0, sizes[i], &op), 0);
		cr_assert_gt(ops_of(p)->outstanding(p->a->xport), 0);
		PAIR_UNTIL(p, op.calls);
		cr_assert_eq(op.status, 0);
		/* Packets sent from now on arrive after the bytes of the put. */
		pair_send(p, p->a, 1, 10, NULL);
		PAIR_UNTIL(p, p->b->packet_cnt > packets);
		cr_assert(is_pattern(to.data, 3, sizes[i]));
		cr_assert(sizes[i] == len || !to.data[sizes[i]]);
		cr_assert_eq(op.calls, 1);
	}
	region_close(&to);
	region_close(&from);
}

/* With TAGRV_XPORT_PUT_FENCED, packets sent after a put arrive after it. */
ON_ALL_WITH(TAGRV_XPORT_PUT | TAGRV_XPORT_PUT_FENCED, fenced_put_is_not_overtaken)
{
	struct region to, from;
	struct op op;

	pair_connect(p);
	region_open(&to, p->b, 4096, TAGRV_MEM_WRITE);
	region_open(&from, p->a, 4096, 0);
	fill_pattern(from.data, 3, 4096);
	op_init(&op);
	cr_assert_eq(put(p->a, &to, &from, 0, 4096, &op), 0);
	cr_assert_eq(end_send(p->a, 1, 10, 0, NULL), 0);
	PAIR_UNTIL(p, p->b->packet_cnt);
	cr_assert(is_pattern(to.data, 3, 4096));
	PAIR_UNTIL(p, op.calls);
	region_close(&to);
	region_close(&from);
}

ON_ALL_WITH(TAGRV_XPORT_PUT, puts_in_flight_are_limited)
{
	size_t depth = p->a->xport->attr.put_depth, started = 0, next;
	bool held = p->kind >= PAIR_SRQ && p->kind < PAIR_DEVICE;
	struct region to, from;
	struct op *ops = calloc(64, sizeof(*ops));

	pair_connect(p);
	region_open(&to, p->b, 64 * 512, TAGRV_MEM_WRITE);
	region_open(&from, p->a, 64 * 512, 0);
	fill_pattern(from.data, 9, from.len);
	for (size_t i = 0; i < 64; i++)
		op_init(&ops[i]);
	if (held)
		fake_verbs_hold(true);
	while (!put(p->a, &to, &from, started * 512, 512, &ops[started]))
		started++;
	cr_assert_leq(started, depth);
	cr_assert_gt(started, 0);
	if (held)
		fake_verbs_hold(false);
	PAIR_UNTIL(p, p->a->rooms);
	for (next = started; next < 64;)
		if (!put(p->a, &to, &from, next * 512, 512, &ops[next]))
			next++;
		else
			pair_progress(p);
	PAIR_UNTIL(p, !ops_of(p)->outstanding(p->a->xport));
	pair_send(p, p->a, 1, 10, NULL);
	PAIR_UNTIL(p, p->b->packet_cnt);
	for (size_t i = 0; i < 64; i++)
		cr_assert(ops[i].calls == 1 && !ops[i].status);
	cr_assert(is_pattern(to.data, 9, to.len));
	region_close(&to);
	region_close(&from);
	free(ops);
}

ON_ALL_WITH(TAGRV_XPORT_PUT, put_checks_its_arguments)
{
	struct region to, from;
	struct op op;

	pair_connect(p);
	region_open(&to, p->b, 8192, TAGRV_MEM_WRITE);
	region_open(&from, p->a, 4096, 0);
	op_init(&op);
	cr_assert_eq(put(p->a, &to, &from, 0, 4097, &op), -FI_EINVAL);
	cr_assert_eq(put(p->a, &to, &from, 4095, 2, &op), -FI_EINVAL);
	cr_assert_eq(put(p->a, &to, &from, 4097, 0, &op), -FI_EINVAL);
	cr_assert_eq(put(p->a, &to, &from, (size_t) -1, 1, &op), -FI_EINVAL);
	to.key_len--;
	cr_assert_eq(put(p->a, &to, &from, 0, 10, &op), -FI_EINVAL);
	cr_assert_eq(op.calls, 0);
	cr_assert_eq(ops_of(p)->outstanding(p->a->xport), 0);
	region_close(&to);
	region_close(&from);
}

/* The put or the link fails, and no byte is written. */
static void expect_refused(struct pair *p, struct region *to)
{
	struct region from;
	struct op op;

	region_open(&from, p->a, 4096, 0);
	fill_pattern(from.data, 3, 4096);
	op_init(&op);
	cr_assert_eq(put(p->a, to, &from, 0, 4096, &op), 0);
	PAIR_UNTIL(p, op.calls && (op.status || p->b->errors));
	cr_assert_eq(op.calls, 1);
	for (size_t i = 0; i < 4096; i++)
		cr_assert_eq(to->data[i], 0);
	region_close(&from);
}

ON_ALL_WITH(TAGRV_XPORT_PUT, put_with_a_stale_key_fails)
{
	struct region to;

	pair_connect(p);
	region_open(&to, p->b, 4096, TAGRV_MEM_WRITE);
	to.mem->dev->ops->mem_dereg(to.mem);
	expect_refused(p, &to);
	free(to.data);
}

/* Memory registered for reading by peers is not writable for them. */
ON_ALL_WITH(TAGRV_XPORT_PUT, put_to_readable_memory_fails)
{
	struct region to;

	pair_connect(p);
	region_open(&to, p->b, 4096, TAGRV_MEM_READ);
	expect_refused(p, &to);
	region_close(&to);
}

ON_ALL_WITH(TAGRV_XPORT_PUT, put_ends_when_the_link_is_closed)
{
	struct region to, from;
	struct op op;

	pair_connect(p);
	region_open(&to, p->b, 1 << 20, TAGRV_MEM_WRITE);
	region_open(&from, p->a, 1 << 20, 0);
	op_init(&op);
	cr_assert_eq(put(p->a, &to, &from, 0, TAGRV_MIN((size_t) 1 << 20,
			 p->a->link->put_max), &op), 0);
	op.in_call = true;
	ops_of(p)->link_close(p->a->link);
	op.in_call = false;
	PAIR_UNTIL(p, p->a->closed);
	cr_assert_eq(op.calls, 1);
	p->a->link = NULL;
	region_close(&to);
	region_close(&from);
}
