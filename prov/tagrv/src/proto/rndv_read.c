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

/* Local position of byte 'pos': the iovec and the offset in it. */
static unsigned find_local(const struct tagrv_op *op, size_t *pos)
{
	unsigned i = 0;

	while (i < op->iov_cnt - 1u && *pos >= op->iov[i].iov_len)
		*pos -= op->iov[i++].iov_len;
	return i;
}

static unsigned find_remote(const struct tagrv_remote *remote, size_t *pos)
{
	unsigned i = 0;

	while (i < remote->seg_cnt - 1u && *pos >= remote->seg[i].len)
		*pos -= remote->seg[i++].len;
	return i;
}

static int get_next(struct tagrv_op *op)
{
	struct tagrv_engine *engine = op->engine;
	struct tagrv_link *link = op->peer->lane->link;
	size_t loff = op->next, roff = op->next;
	unsigned l = find_local(op, &loff);
	unsigned r = find_remote(&op->remote, &roff);
	const struct tagrv_rts_seg *seg = &op->remote.seg[r];
	size_t len = op->want - op->next;
	int ret;

	len = TAGRV_MIN(len, engine->dom->params.read_segment);
	len = TAGRV_MIN(len, link->get_max);
	len = TAGRV_MIN(len, op->iov[l].iov_len - loff);
	len = TAGRV_MIN(len, seg->len - roff);
	ret = link->xport->ops->get(link, (char *) op->iov[l].iov_base + loff,
				    op->mem[l], seg->addr + roff, seg->key,
				    op->remote.key_len, len, &op->done);
	if (ret)
		return ret;
	op->next += len;
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
	op->engine->stats.moved_rx[TAGRV_PROTO_RNDV_READ]++;
	tagrv_list_push_tail(&peer->readers, &op->link);
	/* Reads keep the order in which receives matched. */
	if (op->link.prev != &peer->readers || tagrv_rndv_read(op))
		tagrv_peer_set_busy(peer);
}
