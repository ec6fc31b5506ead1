/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous where the sender moves the bytes: what its protocols share.
 */
#include <rdma/fi_errno.h>

#include "core/iov.h"
#include "proto/rndv/rndv_priv.h"

struct tagrv_op *tagrv_rndv_find_send(struct tagrv_peer *peer, uint32_t handle,
				      enum tagrv_op_state state)
{
	struct tagrv_op *op = tagrv_pool_find(&peer->engine->pools.tx_ops,
					      handle);

	return op && op->state == state && op->peer == peer ? op : NULL;
}

bool tagrv_rndv_parse_cts(struct tagrv_remote *remote, uint8_t *pieces,
			  uint64_t limit, const void *body, size_t len)
{
	struct tagrv_cts cts;

	if (len < sizeof(cts))
		return false;
	tagrv_copy_once(&cts, body, sizeof(cts));
	remote->op = le32toh(cts.op);
	remote->len = le64toh(cts.want);
	remote->seg_cnt = cts.seg_cnt;
	remote->key_len = cts.key_len;
	*pieces = cts.pieces;
	return cts.op && remote->len && remote->len <= limit &&
	       tagrv_rndv_parse_segments(remote,
					 (const char *) body + sizeof(cts),
					 len - sizeof(cts), remote->len);
}

void tagrv_rndv_resume(struct tagrv_op *op)
{
	struct tagrv_peer *peer = op->peer;

	tagrv_list_remove(&op->link);
	tagrv_list_push_tail(&peer->writers, &op->link);
	if (peer->state != TAGRV_PEER_READY ||
	    op->link.prev != &peer->writers || op->ops->move(op))
		tagrv_peer_set_busy(peer);
}
