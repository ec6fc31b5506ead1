/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FINs that come: what each means depends on the state of the send that its
 * handle names.
 */
#include "proto/acked.h"

#include "core/iov.h"
#include "core/trace.h"
#include "object/lane.h"
#include "object/op.h"
#include "proto/rma/rma.h"
#include "proto/rndv/rndv.h"
#include "proto/sent.h"

/*
 * The send was announced and the peer never asked for anything: the peer has read
 * the message, or the head in the RTS was all of it.
 */
static void end_announced(struct tagrv_op *op, int status)
{
	bool piped = op->rndv->remote.proto == TAGRV_PROTO_RNDV_PIPE;

	if (op->len && !status)
		tagrv_op_count_moved_tx(op, piped ? TAGRV_PROTO_RNDV_PIPE :
						    TAGRV_PROTO_RNDV_READ);
	tagrv_list_remove(&op->link);
	tagrv_op_send_end(op, status);
}

/* False: the op awaits no FIN. */
static bool end_by_fin(struct tagrv_op *op, int status)
{
	switch (op->state) {
	case TAGRV_OP_FIN_WAIT:
	case TAGRV_OP_COPYING:
		tagrv_list_remove(&op->link);
		tagrv_op_send_end(op, status);
		return true;
	case TAGRV_OP_ANNOUNCED:
		end_announced(op, status);
		return true;
	case TAGRV_OP_PIECE:
		tagrv_rndv_piece_fin(op, status);
		return true;
	case TAGRV_OP_ASKED:
		return tagrv_rma_fin(op, status);
	case TAGRV_OP_LENT:
		tagrv_rma_returned(op, status);
		return true;
	case TAGRV_OP_WIRE:
		return tagrv_sent_early_fin(op, status);
	case TAGRV_OP_WRITING:
		return tagrv_rndv_write_early_fin(op, status);
	default:
		return false;
	}
}

void tagrv_acked_fin(struct tagrv_peer *peer, uint32_t handle, uint64_t status)
{
	struct tagrv_op *op = tagrv_pool_find(&peer->engine->pools.tx_ops,
					      handle);

	tagrv_assert_locked(peer->engine->dom);
	tagrv_trace_fin_in(peer, handle, status);
	if (!op || op->peer != peer ||
	    !end_by_fin(op, tagrv_status_unpack(status)))
		tagrv_peer_count_bad(peer,
				     "FIN for an operation that awaits none");
}

void tagrv_acked_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			const void *body, size_t len)
{
	struct tagrv_fin_more more;

	tagrv_assert_locked(peer->engine->dom);
	if (len % sizeof(more)) {
		tagrv_peer_bad_packet(peer, "malformed FIN");
		return;
	}
	tagrv_acked_fin(peer, hdr->op, hdr->data);
	for (size_t i = 0; i < len; i += sizeof(more)) {
		/* A copy is checked: the peer may write to the packet meanwhile. */
		tagrv_copy_once(&more, (const char *) body + i, sizeof(more));
		tagrv_acked_fin(peer, le32toh(more.op), le32toh(more.status));
	}
}
