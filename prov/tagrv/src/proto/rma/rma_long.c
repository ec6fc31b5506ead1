/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Long writes and reads: one side registers its memory and tells the other one the keys,
 * which reads by the transport, as the receiver of a rendezvous does. See rma.h.
 *
 *   write   the initiator sends a PULL, the target reads into the window
 *   read    the target sends KEYS of the window's memory, the initiator reads
 *
 * Only bytes of the operation are registered, and only until the FIN; a cache may keep the
 * registration (FI_TAGRV_EXPOSE).
 */
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/iov.h"
#include "core/limits.h"
#include "object/order.h"
#include "proto/packet/ack.h"
#include "proto/packet/packet_send.h"
#include "proto/rma/rma_priv.h"
#include "proto/rndv/rndv.h"

bool tagrv_rma_is_long(const struct tagrv_peer *peer, size_t len)
{
	const struct tagrv_xport_attr *attr = &tagrv_peer_xport(peer)->attr;
	enum tagrv_proto proto;

	if (len <= peer->packet_limit || !(attr->caps & TAGRV_XPORT_GET) ||
	    !(attr->admits & TAGRV_MEM_READ))
		return false;
	proto = tagrv_select_find(peer->select, len)->proto;
	return proto == TAGRV_PROTO_RNDV_READ || proto == TAGRV_PROTO_RNDV_PIPE;
}

/* ---- initiator: write ---- */

struct pull_packet {
	uint64_t words[TAGRV_SHORT_WORDS];
	struct tagrv_rma_source pull;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};

static int send_pull(struct tagrv_op *op)
{
	const struct fi_rma_iov *remote = &op->tx.rma->remote[0];
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_PULL, .op = op->node.handle, .tag = remote->key,
		.flags = op->flags & FI_REMOTE_CQ_DATA ? TAGRV_RMA_DATA : 0,
		.data = op->data,
	};
	struct pull_packet pkt;
	struct iovec iov;

	memset(&pkt, 0, sizeof(pkt));
	pkt.pull.addr = htole64(remote->addr);
	pkt.pull.len = htole64(op->len);
	pkt.pull.seg_cnt = (uint8_t) tagrv_rndv_pack_segments(op, op->len, pkt.seg,
							     &pkt.pull.key_len);
	iov = (struct iovec) { &pkt, offsetof(struct pull_packet,
					      seg[pkt.pull.seg_cnt]) };
	return tagrv_packet_send(op->peer, &hdr, &iov, 1, iov.iov_len - sizeof(hdr),
				 0, NULL);
}

int tagrv_rma_pull(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	struct tagrv_rma *r = op->tx.rma;
	int ret;

	if (r->remote_cnt != 1)
		return -FI_EOPNOTSUPP;
	if (!tagrv_rma_may_ask(peer))
		return -FI_EAGAIN;
	if (tagrv_op_register(op, tagrv_peer_xport(peer)->dev, op->len,
			      TAGRV_MEM_READ)) {
		tagrv_op_deregister(op);
		return -FI_EOPNOTSUPP;
	}
	ret = send_pull(op);
	if (ret)
		return ret;
	r->sent = op->len;
	r->pulled = true;
	r->holds = tagrv_order_holds_pull(op->engine->attr.order);
	tagrv_rma_ask(op);
	tagrv_rma_bring_data(op);
	tagrv_rma_sum_add(&op->engine->stats.rma_tx, TAGRV_RMA_WRITE, op->len);
	tagrv_rma_asked(op);
	return 0;
}

/* ---- target: ops for a use of a window ---- */

/* The members that all have in common; the memory is still to be added. */
static void init_op(struct tagrv_op *op, struct tagrv_peer *peer, struct tagrv_use *use,
		    uint64_t key)
{
	op->space = TAGRV_SPACE_MSG;
	op->iov_cnt = 0;
	op->own_mem = 0;
	op->born = peer->engine->dom->clock.tick;
	op->engine = peer->engine;
	op->peer = peer;
	op->lane = peer->lane;
	op->context = NULL;
	op->flags = 0;
	op->tag = key;
	op->data = 0;
	op->len = 0;
	op->status = 0;
	op->rndv = NULL;
	op->tx.bounce = NULL;
	op->tx.no_context = false;
	op->tx.rma = NULL;
	op->tx.use = use;
	memset(op->mem, 0, sizeof(op->mem));
	tagrv_list_init(&op->link);
}

/* NULL: no memory, or all ops of the pool are in use. */
static struct tagrv_op *op_get(struct tagrv_pool *pool, struct tagrv_peer *peer,
			       struct tagrv_window *window)
{
	struct tagrv_use *use = tagrv_use_begin(peer, window);
	struct tagrv_op *op;

	if (!use)
		return NULL;
	op = tagrv_pool_get(pool);
	if (op)
		init_op(op, peer, use, window->key);
	else
		tagrv_use_end(use);
	return op;
}

/* Puts back an op of which nothing is under way. */
static void op_put(struct tagrv_pool *pool, struct tagrv_op *op)
{
	tagrv_op_deregister(op);
	tagrv_use_end(op->tx.use);
	if (op->rndv)
		tagrv_rndv_detach(op);
	tagrv_pool_put(pool, op);
}

/* ---- target: write ---- */

/* All is read, or the first failure is known. */
static void end_pull(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	bool connected = tagrv_lane_is_of(op->lane, peer);
	uint32_t handle = op->rndv->remote.op;
	const struct tagrv_hdr hdr = {
		.flags = (uint16_t) op->flags, .data = op->data,
	};
	int status = op->status;

	tagrv_op_deregister(op);
	if (!status)
		tagrv_rma_written(peer, &hdr, op->tx.use->window, op->len);
	tagrv_op_set_free(op);
	op_put(&op->engine->pools.pieces, op);
	if (!connected)
		return;
	tagrv_rma_served(peer);
	/* FI_EAGAIN would ask for the bytes in packets. */
	tagrv_rma_ack_write(peer, hdr.flags, handle,
			    status == -FI_EAGAIN ? -FI_EIO : status);
}

bool tagrv_rma_parse_source(struct tagrv_rma_source *source, struct tagrv_remote *remote,
			    const void *body, size_t len)
{
	if (len < sizeof(*source))
		return false;
	tagrv_copy_once(source, body, sizeof(*source));
	source->addr = le64toh(source->addr);
	source->len = le64toh(source->len);
	remote->len = source->len;
	remote->op = 0;
	remote->proto = 0;
	remote->head_len = 0;
	remote->seg_cnt = source->seg_cnt;
	remote->key_len = source->key_len;
	return source->len && source->seg_cnt &&
	       tagrv_rndv_parse_segments(remote, (const char *) body + sizeof(*source),
					 len - sizeof(*source), source->len);
}

static bool parse_pull(struct tagrv_rma_source *pull, struct tagrv_remote *remote,
		       const struct tagrv_hdr *hdr, const void *body, size_t len)
{
	if (!hdr->op || hdr->flags & ~TAGRV_RMA_DATA ||
	    !tagrv_rma_parse_source(pull, remote, body, len))
		return false;
	remote->op = hdr->op;
	return pull->len <= TAGRV_MAX_MSG;
}

/* An op that reads into [offset, offset + len) of the window; NULL: no memory. */
static struct tagrv_op *reader_get(struct tagrv_peer *peer,
				   struct tagrv_window *window, size_t offset,
				   const struct tagrv_remote *remote)
{
	struct tagrv_pool *pool = &peer->engine->pools.pieces;
	struct tagrv_op *op = op_get(pool, peer, window);

	if (!op)
		return NULL;
	if (!tagrv_rndv_attach(op)) {
		op_put(pool, op);
		return NULL;
	}
	op->len = remote->len;
	op->rndv->remote = *remote;
	op->rndv->want = remote->len;
	op->iov_cnt = (uint8_t) tagrv_window_slice(window, offset, remote->len,
						   op->iov, TAGRV_IOV_MAX);
	return op;
}

/* False: the target cannot read. */
static bool start_reading(struct tagrv_op *op)
{
	const struct tagrv_xport *xport = tagrv_peer_xport(op->peer);

	if (!(xport->attr.caps & TAGRV_XPORT_GET) ||
	    tagrv_op_register(op, xport->dev, op->len, TAGRV_MEM_STORE)) {
		op_put(&op->engine->pools.pieces, op);
		return false;
	}
	tagrv_op_start(op, TAGRV_OP_READING);
	tagrv_rndv_read_start(op, end_pull);
	return true;
}

void tagrv_rma_pull_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	struct tagrv_window *window;
	struct tagrv_remote remote;
	struct tagrv_rma_source pull;
	struct tagrv_op *op = NULL;
	size_t offset;

	tagrv_assert_locked(peer->engine->dom);
	if (!parse_pull(&pull, &remote, hdr, body, len)) {
		tagrv_peer_bad_packet(peer, "malformed PULL");
		return;
	}
	window = tagrv_rma_window(peer, hdr->tag, pull.addr, pull.len,
				  FI_REMOTE_WRITE, &offset);
	if (!window) {
		tagrv_rma_refuse(peer, hdr->op);
		return;
	}
	if (!tagrv_rma_serve(peer))
		return;
	op = reader_get(peer, window, offset, &remote);
	if (op) {
		op->flags = hdr->flags;
		op->data = hdr->data;
	}
	if (op && start_reading(op))
		return;
	tagrv_rma_served(peer);
	tagrv_ack_fin(peer, hdr->op, -FI_EAGAIN);
}

/* ---- target: read ---- */

static void return_lent(struct tagrv_op *op, int status)
{
	struct tagrv_peer *peer = op->peer;

	if (tagrv_lane_is_of(op->lane, peer)) {
		tagrv_rma_served(peer);
		if (!status)
			tagrv_rma_was_read(peer, op->tx.use->window, op->len);
	}
	op->engine->lent--;
	tagrv_op_set_free(op);
	op_put(&op->engine->pools.tx_ops, op);
}

static const struct tagrv_proto_ops lent_ops = {
	.name = "lent",
	.fail = return_lent,
};

void tagrv_rma_returned(struct tagrv_op *op, int status)
{
	tagrv_assert_locked(op->engine->dom);
	tagrv_list_remove(&op->link);
	return_lent(op, status);
}

/* Adds the memory of a range. False: it has too many segments, or is another window's. */
static bool add_range(struct tagrv_op *op, const struct fi_rma_iov *range)
{
	const struct tagrv_window *window;
	size_t offset, cnt, room = (size_t) TAGRV_IOV_MAX - op->iov_cnt;

	window = tagrv_rma_window(op->peer, range->key, range->addr, range->len,
				  FI_REMOTE_READ, &offset);
	if (!window || window != op->tx.use->window)
		return false;
	cnt = tagrv_window_slice(window, offset, range->len, op->iov + op->iov_cnt,
				 room);
	op->iov_cnt = (uint8_t) (op->iov_cnt + TAGRV_MIN(cnt, room));
	op->len += range->len;
	return cnt <= room;
}

/* NULL: ours have to begin, there is no memory, or the ranges are not of one window, or
 * have too many segments. */
static struct tagrv_op *lender_get(struct tagrv_peer *peer,
				   const struct fi_rma_iov *ranges, size_t cnt)
{
	struct tagrv_engine *engine = peer->engine;
	struct tagrv_window *window;
	struct tagrv_op *op;
	size_t offset;

	if (engine->lent >= TAGRV_RMA_LENT_MAX)
		return NULL;
	window = tagrv_rma_window(peer, ranges->key, ranges->addr, ranges->len,
				  FI_REMOTE_READ, &offset);
	op = window ? op_get(&engine->pools.tx_ops, peer, window) : NULL;
	if (!op)
		return NULL;
	op->ops = &lent_ops;
	for (size_t i = 0; i < cnt; i++)
		if (!add_range(op, &ranges[i])) {
			op_put(&engine->pools.tx_ops, op);
			return NULL;
		}
	return op;
}

struct keys_packet {
	uint64_t words[TAGRV_SHORT_WORDS];
	struct tagrv_cts cts;
	struct tagrv_rts_seg seg[TAGRV_IOV_MAX];
};

static int send_keys(struct tagrv_op *op, uint32_t asker)
{
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_KEYS, .op = asker };
	struct keys_packet pkt;
	struct iovec iov;

	memset(&pkt, 0, sizeof(pkt));
	pkt.cts.want = htole64(op->len);
	pkt.cts.op = htole32(op->node.handle);
	pkt.cts.seg_cnt = (uint8_t) tagrv_rndv_pack_segments(op, op->len, pkt.seg,
							    &pkt.cts.key_len);
	iov = (struct iovec) { &pkt, offsetof(struct keys_packet,
					      seg[pkt.cts.seg_cnt]) };
	return tagrv_packet_send(op->peer, &hdr, &iov, 1, iov.iov_len - sizeof(hdr),
				 0, NULL);
}

int tagrv_rma_lend(struct tagrv_peer *peer, uint32_t asker,
		   const struct fi_rma_iov *ranges, size_t cnt)
{
	const struct tagrv_xport *xport = tagrv_peer_xport(peer);
	struct tagrv_op *op;
	int ret = -FI_EOPNOTSUPP;

	if (!(xport->attr.admits & TAGRV_MEM_READ))
		return ret;
	op = lender_get(peer, ranges, cnt);
	if (!op)
		return ret;
	ret = tagrv_op_register(op, xport->dev, op->len, TAGRV_MEM_READ);
	if (!ret)
		ret = send_keys(op, asker);
	if (ret) {
		op_put(&op->engine->pools.tx_ops, op);
		return ret;
	}
	op->engine->lent++;
	tagrv_op_start(op, TAGRV_OP_LENT);
	tagrv_list_push_tail(&peer->waiting, &op->link);
	return 0;
}

/* ---- initiator: read ---- */

static void end_read(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	int status = op->status;

	tagrv_op_deregister(op);
	if (tagrv_lane_is_of(op->lane, peer)) {
		tagrv_rma_unask(op);
		tagrv_ack_fin(peer, op->rndv->remote.op, status);
	}
	tagrv_rndv_detach(op);
	tagrv_op_rma_end(op, status);
}

/* The read goes by packets; the target gets its memory back. */
static void decline(struct tagrv_op *op, uint32_t lender)
{
	struct tagrv_peer *peer = op->peer;

	tagrv_rma_requeue(op);
	tagrv_ack_fin(peer, lender, -FI_ECANCELED);
}

void tagrv_rma_keys_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	struct tagrv_op *op = tagrv_pool_find(&peer->engine->pools.tx_ops, hdr->op);
	struct tagrv_remote remote = { .proto = 0 };
	uint8_t pieces;

	tagrv_assert_locked(peer->engine->dom);
	if (!op || op->peer != peer || op->state != TAGRV_OP_ASKED ||
	    !op->tx.rma->takes_keys || op->tx.rma->got ||
	    !tagrv_rndv_parse_cts(&remote, &pieces, op->len, body, len) ||
	    remote.len != op->len || !remote.seg_cnt) {
		tagrv_peer_bad_packet(peer, "malformed KEYS");
		return;
	}
	if (tagrv_op_register(op, tagrv_peer_xport(peer)->dev, op->len,
			      TAGRV_MEM_STORE) || !tagrv_rndv_attach(op)) {
		decline(op, remote.op);
		return;
	}
	/* It stays asked: the target keeps its memory for us until the FIN. */
	tagrv_list_remove(&op->link);
	op->rndv->remote = remote;
	op->rndv->want = op->len;
	tagrv_op_set_state(op, TAGRV_OP_FETCHING);
	tagrv_rndv_read_start(op, end_read);
}
