/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by remote read: the receiver pulls, the sender only waits.
 *
 *   sender                                    receiver
 *   ANNOUNCED                                 READING: reads in segments,
 *            <=== remote reads ============     get_depth in flight
 *   end      <-- FIN(status) --------------   end
 */
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "proto/engine_priv.h"

/* All that was to be read is read, or the first failure is known. */
static void read_end(struct tagrv_op *op)
{
	if (tagrv_list_linked(&op->link))
		tagrv_list_remove(&op->link);
	if (op->piece_of)
		tagrv_rndv_piece_end(op);
	else
		tagrv_rndv_recv_end(op);
}

static void get_done(struct tagrv_done *done, int status)
{
	struct tagrv_op *op = tagrv_container_of(done, struct tagrv_op, done);

	op->inflight--;
	if (status && !op->status)
		op->status = tagrv_lane_reason(op->lane, status);
	if (op->inflight)
		return;
	if (op->status || op->next == op->want)
		read_end(op);
}

static int get_next(struct tagrv_op *op)
{
	struct tagrv_link *link = op->peer->lane->link;
	struct tagrv_piece piece;
	int ret;

	tagrv_rndv_next(op, link->get_max, &piece);
	ret = link->xport->ops->get(link, piece.addr, piece.mem, piece.raddr,
				    piece.key, op->remote.key_len, piece.len,
				    &op->done);
	if (ret)
		return ret;
	op->next += piece.len;
	op->inflight++;
	return 0;
}

int tagrv_rndv_read(struct tagrv_op *op)
{
	while (op->next < op->want && !op->status) {
		int ret = get_next(op);

		if (!ret)
			continue;
		if (ret == -FI_EAGAIN || ret == -FI_ENOTCONN)
			return -FI_EAGAIN;
		op->status = ret;
	}
	tagrv_list_remove(&op->link);
	if (!op->inflight)
		read_end(op);
	return 0;
}

void tagrv_rndv_read_start(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	op->state = TAGRV_OP_READING;
	op->done.fn = get_done;
	op->engine->stats.moved_rx[TAGRV_PROTO_RNDV_READ] += !op->piece_of;
	tagrv_list_push_tail(&peer->readers, &op->link);
	/* Reads keep the order in which receives matched. */
	if (op->link.prev != &peer->readers || tagrv_rndv_read(op))
		tagrv_peer_set_busy(peer);
}
