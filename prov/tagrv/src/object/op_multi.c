/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Multi-receive buffers: one posted receive for many messages.
 *
 *   parent  [ slice | slice | slice |  free ... ]
 *            0                       used        room
 *
 * The buffer stays posted while min_multi_recv bytes are free. Each message gets
 * a slice, packed behind the one before, that ends like a receive. The buffer is
 * released by one entry that carries FI_MULTI_RECV alone (or with the error
 * FI_ECANCELED), after the last slice was reported.
 *
 * The end of the last slice frees the parent: hold rx.slices up while you use it.
 */
#include "object/op.h"
#include "object/rx.h"

/* Retires a buffer that is too full to stay posted. */
static void use(struct tagrv_op *parent, size_t bytes)
{
	struct tagrv_rx *rx = parent->rx.rx;
	struct tagrv_match_recv *record;

	parent->rx.used += bytes;
	if (parent->rx.room - parent->rx.used >= rx->min_multi_recv &&
	    parent->rx.room > parent->rx.used)
		return;
	parent->rx.retired = true;
	/* While unexpected messages fill the buffer it was not queued yet. */
	if (parent->rx.match_id &&
	    tagrv_match_cancel(rx->match, parent->rx.match_id, &record))
		assert(!"a kept receive is queued until retired");
}

struct tagrv_op *tagrv_op_slice(struct tagrv_op *parent, size_t len)
{
	struct tagrv_op *op = tagrv_pool_get(&parent->rx.rx->slices);
	size_t room = TAGRV_MIN(len, parent->rx.room - parent->rx.used);

	tagrv_assert_locked(parent->rx.rx->dom);
	if (!op)
		return NULL;
	tagrv_op_start(op, TAGRV_OP_POSTED);
	op->space = parent->space;
	op->own_mem = 0;
	op->born = parent->rx.rx->dom->clock.tick;
	op->ops = parent->ops;
	op->context = parent->context;
	op->flags = parent->flags;
	op->rx.rx = parent->rx.rx;
	op->rx.multi = false;
	op->rx.listed = NULL;
	op->rx.parent = parent;
	op->rx.room = room;
	op->iov_cnt = 1;
	op->iov[0].iov_base = (char *) parent->iov[0].iov_base + parent->rx.used;
	op->iov[0].iov_len = room;
	op->mem[0] = parent->mem[0];
	tagrv_list_init(&op->link);
	tagrv_trace_op_state(op, op->node.handle, TAGRV_OP_FREE,
			     TAGRV_OP_POSTED, NULL, 0);
	parent->rx.slices++;
	use(parent, room);
	return op;
}

void tagrv_op_multi_check(struct tagrv_op *parent)
{
	struct tagrv_rx *rx = parent->rx.rx;
	struct tagrv_comp comp = {
		.context = parent->context,
		.flags = FI_MULTI_RECV,
		.src = FI_ADDR_NOTAVAIL,
		.err = -parent->status,
	};

	tagrv_assert_locked(rx->dom);
	if (!parent->rx.retired || parent->rx.slices)
		return;
	if (parent->status) {
		comp.flags |= tagrv_op_comp_flags(parent->space, false);
		comp.tag = parent->tag;
		tagrv_rx_report_error(rx, &comp);
	} else {
		tagrv_rx_report(rx, &comp);
	}
	tagrv_op_set_free(parent);
	tagrv_pool_put(&rx->ops, parent);
}
