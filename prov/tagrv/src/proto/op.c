/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Ends of operations: releasing, counting, reporting. See op.h.
 */
#include "proto/op.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "core/iov.h"
#include "proto/engine_priv.h"
#include "reg/regcache.h"

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

/*
 * From the cache if there is one, else for this operation: what a peer may
 * write to ends with the receive.
 */
static int acquire(struct tagrv_dom *dom, struct tagrv_device *dev, void *addr,
		   size_t len, unsigned access, struct tagrv_mem **mem)
{
	struct tagrv_regcache *cache = tagrv_dom_cache(dom, dev);
	int ret = -FI_EOPNOTSUPP;

	if (cache && !(access & TAGRV_MEM_WRITE))
		ret = tagrv_regcache_get(cache, addr, len, mem);
	/* Not kept, or the cache itself ran out of something. */
	if (ret)
		ret = dev->ops->mem_reg(dev, addr, len, access, mem);
	/* With what others held. */
	if (ret == -FI_ENOMEM && tagrv_dom_evict(dom, dev))
		ret = dev->ops->mem_reg(dev, addr, len, access, mem);
	return ret;
}

static void release(struct tagrv_op *op, unsigned i)
{
	struct tagrv_mem *mem = op->mem[i];

	op->own_mem &= (uint8_t) ~(1u << i);
	/* It may be registered again, for another protocol. */
	op->mem[i] = NULL;
	if (mem->owner)
		tagrv_regcache_put(mem);
	else
		mem->dev->ops->mem_dereg(mem);
}

static int register_one(struct tagrv_op *op, struct tagrv_device *dev,
			unsigned i, size_t bytes, unsigned access)
{
	int ret;

	if (covers(op->mem[i], dev, op->iov[i].iov_base, bytes, access))
		return 0;
	if (op->own_mem & (1u << i))
		release(op, i);
	ret = acquire(op->engine->dom, dev, op->iov[i].iov_base, bytes, access,
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
	for (unsigned i = 0; op->own_mem; i++)
		if (op->own_mem & (1u << i))
			release(op, i);
}

bool tagrv_op_was_registered(const struct tagrv_op *op,
			     const struct tagrv_device *dev)
{
	struct tagrv_regcache *cache = tagrv_dom_cache(op->engine->dom, dev);

	for (unsigned i = 0; i < op->iov_cnt; i++) {
		const struct iovec *iov = &op->iov[i];

		if (iov->iov_len &&
		    !covers(op->mem[i], dev, iov->iov_base, iov->iov_len,
			    TAGRV_MEM_READ) &&
		    !(cache && tagrv_regcache_knows(cache, iov->iov_base,
						    iov->iov_len)))
			return false;
	}
	return true;
}

void tagrv_op_send_report(struct tagrv_engine *engine,
			  const struct tagrv_send_req *req)
{
	struct tagrv_comp *comp;

	if (engine->sinks.tx_cntr)
		tagrv_counter_add(engine->sinks.tx_cntr, 1);
	if (!(req->flags & FI_COMPLETION) || req->no_context ||
	    !engine->sinks.tx_cq)
		return;
	comp = tagrv_compq_add(engine->sinks.tx_cq);
	comp->context = req->context;
	comp->flags = tagrv_op_comp_flags(req->space, true);
	comp->len = 0;
	comp->buf = NULL;
	comp->data = 0;
	comp->tag = 0;
	comp->src = FI_ADDR_NOTAVAIL;
	comp->olen = 0;
	comp->err = 0;
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

/* Who sleeps does not see what ends outside of a pass: a fence may be open. */
static void leave_sent(struct tagrv_peer *peer)
{
	const struct tagrv_list *first = tagrv_list_first(&peer->pending);

	assert(peer->sent);
	if (--peer->sent || !first || peer->engine->in_pass)
		return;
	if (tagrv_container_of(first, struct tagrv_op, link)->flags & FI_FENCE)
		tagrv_dom_kick(peer->engine->dom);
}

void tagrv_op_send_end(struct tagrv_op *op, int status)
{
	struct tagrv_engine *engine = op->engine;

	assert(!tagrv_list_linked(&op->link));
	if (op->state != TAGRV_OP_QUEUED)
		leave_sent(op->peer);
	tagrv_op_deregister(op);
	if (op->state == TAGRV_OP_OFFERING)
		tagrv_rndv_drop_pieces(op);
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

/* A message that came whole, from nobody the address table knows. */
static bool is_strange(const struct tagrv_op *op, int status)
{
	return !status && op->peer->fi_addr == FI_ADDR_NOTAVAIL;
}

/*
 * Where the end of a receive is told; NULL: nowhere. An endpoint that is being
 * closed has no queues any more: what it leaves unfinished is the context's.
 */
static inline void find_sinks(const struct tagrv_op *op,
			      struct tagrv_compq **cq,
			      struct tagrv_counter **cntr)
{
	const struct tagrv_engine_sinks *sinks = &op->engine->sinks;

	*cq = sinks->rx_cq;
	*cntr = sinks->rx_cntr;
	if (TAGRV_LIKELY(*cq || *cntr))
		return;
	*cq = tagrv_rx_cq(op->rx);
	*cntr = tagrv_rx_cntr(op->rx);
}

static void recv_report(struct tagrv_op *op, int status)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_op *whole = op->parent ? op->parent : op;
	bool has_data = op->pkt_flags & TAGRV_PKT_DATA;
	struct tagrv_counter *cntr;
	struct tagrv_compq *cq;
	struct tagrv_comp *comp;
	size_t over = 0;

	find_sinks(op, &cq, &cntr);

	if (TAGRV_UNLIKELY(!status && op->len > op->room)) {
		status = -FI_ETRUNC;
		over = op->len - op->room;
	}
	if (TAGRV_UNLIKELY(engine->attr.source_err) && is_strange(op, status))
		status = -TAGRV_ERR_STRANGER;
	if (cntr) {
		if (status)
			tagrv_counter_add_err(cntr, 1);
		else
			tagrv_counter_add(cntr, 1);
	}
	if (!cq || !(status || (whole->flags & FI_COMPLETION) ||
		     engine->sinks.rx_all))
		return;
	comp = tagrv_compq_add(cq);
	comp->context = whole->context;
	comp->flags = tagrv_op_comp_flags(op->space, false) |
		      (has_data ? FI_REMOTE_CQ_DATA : 0);
	comp->len = op->len - over;
	comp->buf = op->iov_cnt ? op->iov[0].iov_base : NULL;
	comp->data = has_data ? op->data : 0;
	comp->tag = op->tag;
	comp->src = engine->attr.source ? op->peer->fi_addr : FI_ADDR_NOTAVAIL;
	comp->olen = over;
	comp->err = -status;
	if (TAGRV_UNLIKELY(comp->err == TAGRV_ERR_STRANGER))
		tagrv_comp_set_stranger(comp, &op->peer->addr);
}

void tagrv_op_recv_end(struct tagrv_op *op, int status)
{
	struct tagrv_op *parent = op->parent;
	struct tagrv_rx *rx = op->rx;

	assert(!tagrv_list_linked(&op->link));
	tagrv_op_deregister(op);
	recv_report(op, status);
	tagrv_pool_put(parent ? &rx->slices : &rx->ops, op);
	if (parent) {
		parent->slices--;
		tagrv_recv_multi_check(parent);
	}
}
