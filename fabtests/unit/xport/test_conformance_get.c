/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads of a peer's memory: see conformance.h.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/conformance.h"

ON_ALL_WITH(TAGRV_XPORT_GET, get_reads_remote_memory)
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

ON_ALL_WITH(TAGRV_XPORT_GET, gets_in_flight_are_limited)
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

ON_ALL_WITH(TAGRV_XPORT_GET, get_checks_its_arguments)
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

ON_ALL_WITH(TAGRV_XPORT_GET, get_with_a_stale_key_fails)
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
ON_ALL_WITH(TAGRV_XPORT_GET, get_of_local_memory_fails)
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

/* A transport says by its capabilities and by the call that it has no get or put. */
ON_ALL(get_and_put_are_refused_without_the_capability)
{
	struct region a, b;
	struct op op;

	pair_connect(p);
	region_open(&a, p->a, 64, 0);
	region_open(&b, p->b, 64, TAGRV_MEM_READ | TAGRV_MEM_WRITE);
	op_init(&op);
	if (!has_caps(p, TAGRV_XPORT_GET))
		cr_assert_eq(get(p->a, &a, &b, 0, 64, &op), -FI_EOPNOTSUPP);
	if (!has_caps(p, TAGRV_XPORT_PUT))
		cr_assert_eq(put(p->a, &b, &a, 0, 64, &op), -FI_EOPNOTSUPP);
	pair_progress(p);
	cr_assert_eq(op.calls, 0);
	region_close(&a);
	region_close(&b);
}
