/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by remote read: the receiver pulls, the sender only waits. One-sided operations
 * use the same loop, for reads and for writes (rndv->puts).
 *
 *   sender                                    receiver
 *   ANNOUNCED                                 READING: reads in segments,
 *            <=== remote reads ============     get_depth in flight
 *   end      <-- FIN(status) --------------   end
 */
#include <rdma/fi_errno.h>

#include "proto/rndv/rndv_priv.h"

/* All that was to be read is read, or the first failure is known. */
static void end(struct tagrv_op *op)
{
	if (tagrv_list_linked(&op->link))
		tagrv_list_remove(&op->link);
	op->rndv->read_end(op);
}

static void get_done(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);

	if (tagrv_rndv_segment_done(op, status))
		end(op);
}

static int post_get(struct tagrv_op *op, struct tagrv_link *link,
		    const struct tagrv_segment *seg)
{
	return link->xport->ops->get(link, seg->addr, seg->mem, seg->raddr,
				     seg->key, op->rndv->remote.key_len,
				     seg->len, &op->done);
}

static int post_put(struct tagrv_op *op, struct tagrv_link *link,
		    const struct tagrv_segment *seg)
{
	struct tagrv_mem *mem = op->rndv->inlined ? NULL : seg->mem;

	return link->xport->ops->put(link, seg->addr, mem, seg->raddr, seg->key,
				     op->rndv->remote.key_len, seg->len, &op->done);
}

static int read_move(struct tagrv_op *op)
{
	const struct tagrv_link *link = tagrv_rndv_link(op);
	bool puts = op->rndv->puts;

	if (tagrv_rndv_post_all(op, puts ? link->put_max : link->get_max,
				puts ? post_put : post_get))
		return -FI_EAGAIN;
	tagrv_list_remove(&op->link);
	if (!op->rndv->inflight)
		end(op);
	return 0;
}

/* Reads in flight end by their callbacks. */
static void read_fail(struct tagrv_op *op, int status)
{
	if (!op->status)
		op->status = status;
	if (!op->rndv->inflight)
		end(op);
}

static const struct tagrv_proto_ops read_ops = {
	.name = "read",
	.move = read_move,
	.fail = read_fail,
};

void tagrv_rndv_read_start(struct tagrv_op *op,
			   void (*read_end)(struct tagrv_op *op))
{
	struct tagrv_peer *peer = op->peer;

	op->rndv->read_end = read_end;
	op->ops = &read_ops;
	op->done.fn = get_done;
	tagrv_list_push_tail(&peer->readers, &op->link);
	/* Reads keep the order in which receives matched. */
	if (op->link.prev != &peer->readers || read_move(op))
		tagrv_peer_set_busy(peer);
}

bool tagrv_rndv_read_begin(struct tagrv_op *op)
{
	const struct tagrv_xport *xport = tagrv_peer_xport(op->peer);
	int ret;

	if (!(xport->attr.caps & TAGRV_XPORT_GET) || !op->rndv->remote.seg_cnt)
		return false;
	ret = tagrv_op_register(op, xport->dev, op->rndv->want,
				TAGRV_MEM_STORE);
	if (ret) {
		tagrv_op_deregister(op);
		/* Memory that is not there is no better for other protocols. */
		if (ret == -FI_EFAULT)
			op->status = ret;
		return false;
	}
	tagrv_op_count_moved_rx(op, TAGRV_PROTO_RNDV_READ);
	tagrv_trace_rndv_start(op, op->peer, op->rndv->remote.op, 0,
			       TAGRV_PROTO_RNDV_READ, op->rndv->want);
	tagrv_op_set_state(op, TAGRV_OP_READING);
	tagrv_rndv_read_start(op, tagrv_rndv_recv_end);
	return true;
}
