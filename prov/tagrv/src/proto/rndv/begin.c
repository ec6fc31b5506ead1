/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous, receiver: the choice of a protocol for a message that was matched.
 *
 * The protocol that we want (FI_TAGRV_RNDV), or else the sender's proposal, is
 * tried first; then get; then put, if it was proposed; then pieces or, without remote
 * reads, put; then copies, which always work: they need no keys and no registration.
 */
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "proto/packet/ack.h"
#include "proto/rndv/rndv_priv.h"

/* The protocols, by their numbers on the wire. */
static bool (*const begins[TAGRV_PROTO_RNDV_END])(struct tagrv_op *op) = {
	[TAGRV_PROTO_RNDV_READ]		= tagrv_rndv_read_begin,
	[TAGRV_PROTO_RNDV_WRITE]	= tagrv_rndv_write_begin,
	[TAGRV_PROTO_RNDV_COPY]		= tagrv_rndv_copy_begin,
	[TAGRV_PROTO_RNDV_PIPE]		= tagrv_rndv_piece_begin,
};

/* Stores what came with the RTS. True: that is all that is wanted. */
static bool store_head(struct tagrv_op *op)
{
	struct tagrv_rndv *r = op->rndv;

	r->offered = TAGRV_MIN((size_t) r->remote.head_len, r->want);
	if (!r->offered)
		return !r->want;
	tagrv_iov_scatter(op->iov, op->iov_cnt, r->remote.head, r->offered);
	if (r->offered < r->want)
		return false;
	tagrv_op_count_moved_rx(op, TAGRV_PROTO_RNDV_PIPE);
	return true;
}

/*
 * Where get was not possible. A sender that offers no keys for reads has none, or
 * none so far, unless it wants copies.
 */
static enum tagrv_proto instead_of_get(const struct tagrv_op *op)
{
	enum tagrv_proto proposed = op->rndv->remote.proto;

	if (!(tagrv_peer_xport(op->peer)->attr.caps & TAGRV_XPORT_GET))
		return TAGRV_PROTO_RNDV_WRITE;
	return proposed == TAGRV_PROTO_RNDV_PIPE ||
	       (proposed != TAGRV_PROTO_RNDV_COPY &&
		tagrv_rndv_is_long(op, op->rndv->want)) ?
	       TAGRV_PROTO_RNDV_PIPE : TAGRV_PROTO_RNDV_COPY;
}

static void choose(struct tagrv_op *op)
{
	enum tagrv_proto wanted = op->engine->dom->select.rndv;
	enum tagrv_proto proposed = op->rndv->remote.proto;
	enum tagrv_proto instead = instead_of_get(op);
	const enum tagrv_proto protos[] = {
		wanted ? wanted : proposed,
		TAGRV_PROTO_RNDV_READ,
		proposed == TAGRV_PROTO_RNDV_WRITE ? proposed : instead,
		instead,
		TAGRV_PROTO_RNDV_COPY,
	};

	for (size_t i = 0; !op->status; i++)
		if (begins[protos[i]] && begins[protos[i]](op))
			return;
	tagrv_rndv_recv_end(op);
}

void tagrv_rndv_begin(struct tagrv_op *op, const struct tagrv_remote *remote)
{
	tagrv_assert_locked(op->engine->dom);
	op->lane = op->peer->lane;
	op->status = 0;
	if (!tagrv_rndv_attach(op)) {
		tagrv_ack_fin(op->peer, remote->op, -FI_ENOMEM);
		tagrv_op_recv_end(op, -FI_ENOMEM);
		return;
	}
	op->rndv->remote = *remote;
	op->rndv->want = TAGRV_MIN(remote->len, op->rx.room);
	if (store_head(op))
		tagrv_rndv_recv_end(op);
	else
		choose(op);
}
