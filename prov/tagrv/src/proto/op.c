/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ends of operations: releasing, counting, reporting. See op.h.
 */
#include "proto/op.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

uint64_t tagrv_op_comp_flags(uint8_t space, bool send)
{
	return (send ? FI_SEND : FI_RECV) |
	       (space == TAGRV_SPACE_TAGGED ? FI_TAGGED : FI_MSG);
}

/* A registration of another device or of other memory is of no use. */
static bool covers(const struct tagrv_mem *mem, const struct tagrv_device *dev,
		   const void *addr, size_t len, unsigned access)
{
	return mem && mem->dev == dev && (mem->access & access) == access &&
	       tagrv_range_within((uintptr_t) addr, len, (uintptr_t) mem->addr,
				  mem->len);
}

static int register_one(struct tagrv_op *op, struct tagrv_device *dev,
			unsigned i, size_t bytes, unsigned access)
{
	int ret;

	if (covers(op->mem[i], dev, op->iov[i].iov_base, bytes, access))
		return 0;
	if (op->own_mem & (1u << i)) {
		op->mem[i]->dev->ops->mem_dereg(op->mem[i]);
		op->own_mem &= (uint8_t) ~(1u << i);
	}
	ret = dev->ops->mem_reg(dev, op->iov[i].iov_base, bytes, access,
				&op->mem[i]);
	if (ret) {
		op->mem[i] = NULL;
		return ret;
	}
	op->own_mem |= (uint8_t) (1u << i);
	return 0;
}

int tagrv_op_register(struct tagrv_op *op, struct tagrv_device *dev,
		      size_t bytes, unsigned access)
{
	for (unsigned i = 0; i < op->iov_cnt && bytes; i++) {
		size_t n = TAGRV_MIN(op->iov[i].iov_len, bytes);
		int ret;

		if (!n)
			continue;
		ret = register_one(op, dev, i, n, access);
		if (ret)
			return ret;
		bytes -= n;
	}
	return 0;
}

void tagrv_op_deregister(struct tagrv_op *op)
{
	for (unsigned i = 0; op->own_mem; i++) {
		if (!(op->own_mem & (1u << i)))
			continue;
		op->mem[i]->dev->ops->mem_dereg(op->mem[i]);
		/* It may be registered again, for another protocol. */
		op->mem[i] = NULL;
		op->own_mem &= (uint8_t) ~(1u << i);
	}
}

void tagrv_op_send_report(struct tagrv_engine *engine,
			  const struct tagrv_send_req *req)
{
	if (engine->sinks.tx_cntr)
		tagrv_counter_add(engine->sinks.tx_cntr, 1);
	if ((req->flags & FI_COMPLETION) && !req->no_context &&
	    engine->sinks.tx_cq) {
		struct tagrv_comp comp = {
			.context = req->context,
			.flags = tagrv_op_comp_flags(req->space, true),
			.src = FI_ADDR_NOTAVAIL,
		};

		tagrv_compq_push(engine->sinks.tx_cq, &comp);
	}
}

static void send_report_error(struct tagrv_op *op, int status)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_comp comp = {
		.context = op->context,
		.flags = tagrv_op_comp_flags(op->space, true),
		.tag = op->tag,
		.data = op->data,
		.src = FI_ADDR_NOTAVAIL,
		.err = -status,
	};

	if (engine->sinks.tx_cntr)
		tagrv_counter_add_err(engine->sinks.tx_cntr, 1);
	if (op->no_context) {
		/* There is no context to report to: an entry without one
		 * would be taken for somebody else's. */
		char addr[TAGRV_ADDR_STRLEN];

		if (!engine->stats.lost_injects++)
			tagrv_warn("an injected message to %s was lost: %s\n",
				   tagrv_addr_str(&op->peer->addr, addr,
						  sizeof(addr)),
				   fi_strerror(-status));
		return;
	}
	if (engine->sinks.tx_cq)
		tagrv_compq_push(engine->sinks.tx_cq, &comp);
}

void tagrv_op_send_end(struct tagrv_op *op, int status)
{
	struct tagrv_engine *engine = op->engine;

	assert(!tagrv_list_linked(&op->link));
	tagrv_op_deregister(op);
	if (op->bounce)
		tagrv_engine_buf_put(engine, op->bounce, TAGRV_BUF_CLASSES - 2);
	if (TAGRV_UNLIKELY(status)) {
		send_report_error(op, status);
	} else {
		struct tagrv_send_req req = {
			.context = op->context,
			.flags = op->flags,
			.space = op->space,
			.no_context = op->no_context,
		};

		tagrv_op_send_report(engine, &req);
	}
	tagrv_pool_put(&engine->tx_ops, op);
}

static void recv_report(struct tagrv_op *op, int status)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_op *whole = op->parent ? op->parent : op;
	bool has_data = op->pkt_flags & TAGRV_PKT_DATA;
	struct tagrv_comp *comp;
	size_t over = 0;

	if (TAGRV_UNLIKELY(!status && op->len > op->room)) {
		status = -FI_ETRUNC;
		over = op->len - op->room;
	}
	if (engine->sinks.rx_cntr) {
		if (status)
			tagrv_counter_add_err(engine->sinks.rx_cntr, 1);
		else
			tagrv_counter_add(engine->sinks.rx_cntr, 1);
	}
	if (!engine->sinks.rx_cq || !(status || (whole->flags & FI_COMPLETION)))
		return;
	comp = tagrv_compq_add(engine->sinks.rx_cq);
	comp->context = whole->context;
	comp->flags = tagrv_op_comp_flags(op->space, false) |
		      (has_data ? FI_REMOTE_CQ_DATA : 0);
	comp->len = op->len - over;
	comp->buf = op->iov_cnt ? op->iov[0].iov_base : NULL;
	comp->data = has_data ? op->data : 0;
	comp->tag = op->tag;
	comp->src = op->peer && engine->attr.source ? op->peer->fi_addr :
						      FI_ADDR_NOTAVAIL;
	comp->olen = over;
	comp->err = -status;
}

void tagrv_op_recv_end(struct tagrv_op *op, int status)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_op *parent = op->parent;

	assert(!tagrv_list_linked(&op->link));
	tagrv_op_deregister(op);
	recv_report(op, status);
	tagrv_pool_put(parent ? &engine->slices : &engine->rx_ops, op);
	if (parent) {
		parent->slices--;
		tagrv_recv_multi_check(parent);
	}
}
