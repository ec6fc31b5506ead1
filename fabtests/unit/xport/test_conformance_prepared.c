/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Packets that the device gathers from registered memory: see conformance.h.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit/xport/conformance.h"

/* Its first byte is the one of a tagged message: a peer with a list gets no others. */
static const char head[32] = { TAGRV_TAGLIST_EAGER, 'a', ' ', 'h', 'e', 'a', 'd', 'e', 'r' };

/* Sends a packet of consecutive segments of a region, with these lengths. */
static int send_segments(struct pair *p, struct region *from,
			 const size_t *lens, size_t cnt, struct op *op)
{
	struct tagrv_mem *mem[TAGRV_IOV_MAX];
	struct iovec iov[TAGRV_IOV_MAX];
	size_t at = 0;
	int ret;

	for (size_t i = 0; i < cnt; i++) {
		iov[i] = (struct iovec) { (char *) from->data + at, lens[i] };
		mem[i] = lens[i] ? from->mem : NULL;
		at += lens[i];
	}
	op->in_call = true;
	ret = ops_of(p)->send_prepared(p->a->link, head, sizeof(head), iov,
				       mem, cnt, &op->done);
	op->in_call = false;
	return ret;
}

static bool can(const struct pair *p)
{
	return p->a->xport->attr.caps & TAGRV_XPORT_PREPARED;
}

ON_ALL(prepared_packets_come_whole)
{
	static const size_t lens[][TAGRV_IOV_MAX] = {
		{ 1 }, { 4000 }, { 100, 0, 200, 300 }, { 0, 0, 7 }, { 0 },
	};
	struct region from;

	pair_connect(p);
	region_open(&from, p->a, 8192, 0);
	fill_pattern(from.data, 5, 8192);
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(lens); i++) {
		const struct packet_record *got;
		size_t len = 0;
		struct op op;
		int ret;

		for (size_t k = 0; k < TAGRV_IOV_MAX; k++)
			len += lens[i][k];
		op_init(&op);
		ret = send_segments(p, &from, lens[i], TAGRV_IOV_MAX, &op);
		if (!can(p)) {
			cr_assert_eq(ret, -FI_EOPNOTSUPP);
			break;
		}
		cr_assert_eq(ret, 0);
		PAIR_UNTIL(p, op.calls && p->b->packet_cnt == i + 1);
		cr_assert_eq(op.calls, 1);
		cr_assert_eq(op.status, 0);
		got = &p->b->packets[i];
		cr_assert_eq(got->len, sizeof(head) + len);
		cr_assert_arr_eq(got->data, head, sizeof(head));
		cr_assert(is_pattern(got->data + sizeof(head), 5, len));
	}
	region_close(&from);
}

ON_ALL(prepared_packets_have_limits)
{
	size_t max, lens[1];
	struct region from;
	struct op op;

	if (!can(p))
		return;
	pair_connect(p);
	max = max_packet(p);
	region_open(&from, p->a, max, 0);
	op_init(&op);
	lens[0] = max - sizeof(head) + 1;
	cr_assert_eq(send_segments(p, &from, lens, 1, &op), -FI_EMSGSIZE);
	lens[0]--;
	cr_assert_eq(send_segments(p, &from, lens, 1, &op), 0);
	PAIR_UNTIL(p, op.calls);
	/* Memory that is not registered. */
	op_init(&op);
	lens[0] = 8;
	from.data = (void *) ((char *) from.data + max - 7);
	cr_assert_eq(send_segments(p, &from, lens, 1, &op), -FI_EINVAL);
	from.data = (void *) ((char *) from.data - max + 7);
	cr_assert_eq(op.calls, 0);
	region_close(&from);
}

/* Packets cut off by a close end once; then the memory may be deregistered. */
ON_ALL(prepared_packets_end_with_their_link)
{
	const size_t lens[] = { 1000 };
	struct region from;
	struct op op;

	if (!can(p))
		return;
	pair_connect(p);
	region_open(&from, p->a, 1000, 0);
	op_init(&op);
	cr_assert_eq(send_segments(p, &from, lens, 1, &op), 0);
	ops_of(p)->link_close(p->a->link);
	p->a->link = NULL;
	PAIR_UNTIL(p, op.calls && p->a->closed);
	cr_assert_eq(op.calls, 1);
	region_close(&from);
}
