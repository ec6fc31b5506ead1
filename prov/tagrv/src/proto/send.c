/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Queued sends: which protocol each takes, and its first packet.
 *
 *   size and credit allow one eager packet  --> eager, without a look at a table
 *   table says eager, credit is there       --> eager, or prepared
 *   table says eager, credit is not there   --> RTS: the message stays here
 *   table says rendezvous                   --> RTS
 *
 * The table (select/select.h) is for the packets that we send; those that a peer
 * takes may be shorter.
 */
#include "proto/send.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "object/lane.h"
#include "proto/batch.h"
#include "proto/eager.h"
#include "proto/rndv/rndv.h"
#include "proto/sent.h"

static struct tagrv_send_req request_of(struct tagrv_op *op)
{
	return (struct tagrv_send_req) {
		.iov = op->iov,
		.mem = op->mem,
		.iov_cnt = op->iov_cnt,
		.tag = op->tag,
		.data = op->data,
		.flags = op->flags,
		.space = op->space,
	};
}

/* The handle that the packet carries: 0 when no FIN is wanted. */
static uint32_t fin_handle(const struct tagrv_op *op)
{
	return tagrv_op_awaits_fin(op) ? op->node.handle : 0;
}

static int send_eager(struct tagrv_op *op)
{
	struct tagrv_send_req req = request_of(op);
	int ret;

	ret = tagrv_eager_send(op->peer, &req, op->len, fin_handle(op),
			       tagrv_op_awaits_wire(op) ? &op->done : NULL);
	if (!ret)
		tagrv_sent_eager(op, op);
	return ret;
}

/* A link whose peer matches tagged messages prepares those only: xport/xport.h. */
static bool is_kept_from_prepared(const struct tagrv_op *op)
{
	return TAGRV_UNLIKELY(op->peer->number) && op->space != TAGRV_SPACE_TAGGED;
}

/* Our copy of an injected payload, or memory that cannot be registered, is
 * copied into a packet instead. */
static int send_prepared(struct tagrv_op *op)
{
	struct tagrv_send_req req = request_of(op);
	int ret;

	if (op->tx.bounce || is_kept_from_prepared(op) ||
	    tagrv_op_register(op, tagrv_peer_xport(op->peer)->dev, op->len, 0))
		return send_eager(op);
	ret = tagrv_eager_send_prepared(op->peer, &req, op->len,
					fin_handle(op), &op->done);
	if (!ret)
		tagrv_sent_prepared(op);
	return ret;
}

/* A pipeline pays where registration costs something, prepared where not. */
static bool was_registered(const struct tagrv_op *op, unsigned access)
{
	return tagrv_op_was_registered(op, tagrv_peer_xport(op->peer)->dev, access);
}

static bool is_eager(enum tagrv_proto proto)
{
	return proto == TAGRV_PROTO_EAGER || proto == TAGRV_PROTO_EAGER_PREP;
}

static enum tagrv_proto choose(const struct tagrv_op *op)
{
	const struct tagrv_peer *peer = op->peer;
	const struct tagrv_select_range *range;
	size_t len = op->len;

	if (len <= peer->eager_limit)
		return TAGRV_PROTO_EAGER;
	range = tagrv_select_find(peer->select, len);
	if (range->proto == TAGRV_PROTO_RNDV_PIPE &&
	    range->reason != TAGRV_SELECT_FORCED &&
	    !op->engine->dom->select.rndv && was_registered(op, TAGRV_MEM_READ))
		return TAGRV_PROTO_RNDV_READ;
	if (!is_eager(range->proto))
		return range->proto;
	if (len > peer->packet_limit)
		return tagrv_select_no_credit(peer->select, len);
	return range->reason != TAGRV_SELECT_FORCED &&
	       len >= peer->select->prepared && was_registered(op, 0) ?
	       TAGRV_PROTO_EAGER_PREP : range->proto;
}

static int announce(struct tagrv_op *op, enum tagrv_proto proto)
{
	int ret = tagrv_rndv_announce(op, proto);

	if (ret == TAGRV_RNDV_USE_EAGER)
		return send_eager(op);
	if (!ret)
		tagrv_sent_rts(op);
	return ret;
}

static TAGRV_COLD int send_by_table(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;
	enum tagrv_proto proto = choose(op);
	int ret;

	if (!is_eager(proto))
		return announce(op, proto);
	if (tagrv_credit_units(op->len) <= peer->credit.left)
		return proto == TAGRV_PROTO_EAGER ? send_eager(op) :
						    send_prepared(op);
	/* Without credit the message stays here until the peer asks for it. */
	ret = announce(op, tagrv_select_no_credit(peer->select, op->len));
	peer->engine->stats.no_credit += !ret;
	return ret;
}

static int send_one(struct tagrv_op *op)
{
	return tagrv_eager_fits(op->peer, op->len, op->peer->credit.left) ?
	       send_eager(op) : send_by_table(op);
}

int tagrv_send_next(struct tagrv_peer *peer, size_t *bytes)
{
	struct tagrv_op *op = tagrv_container_of(
		tagrv_list_first(&peer->pending), struct tagrv_op, link);
	size_t len = TAGRV_MIN(op->len, peer->packet_limit), cnt = 0;
	int ret;

	tagrv_assert_locked(peer->engine->dom);
	/* The pass that ends the last send in front of a fence tries again. */
	if (op->flags & FI_FENCE && peer->sent)
		return -FI_EAGAIN;
	if (op->ops->start)
		/* One that has begun holds back those behind it. */
		return op->state == TAGRV_OP_QUEUED ? op->ops->start(op, bytes) :
						      -FI_EAGAIN;
	ret = tagrv_batch_send(peer, &cnt);
	if (cnt)
		*bytes += peer->packet_limit;
	if (ret != -FI_ENOENT)
		return ret;
	*bytes += len + sizeof(struct tagrv_hdr);
	return send_one(op);
}
