/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous where the sender moves the bytes, the sender's half: a CTS comes and
 * decides how.
 *
 *   CTS with keys        write.c; or, where this side cannot write, copies
 *   CTS with pieces      pipe.c
 *   CTS with a grant     copy.c
 */
#include <rdma/fi_errno.h>

#include "proto/rndv/rndv_priv.h"

/* False: the CTS grants nothing that makes sense. */
static bool start(struct tagrv_op *op, uint64_t granted)
{
	struct tagrv_rndv *r = op->rndv;

	op->status = 0;
	if (r->depth)
		return !r->remote.seg_cnt && tagrv_rndv_pipe_start(op, granted);
	if (r->remote.seg_cnt ? granted != 0 :
				!tagrv_rndv_is_grant(op, granted))
		return false;
	if (!r->remote.seg_cnt || !tagrv_rndv_write_start(op))
		tagrv_rndv_copy_start(op, granted);
	return true;
}

void tagrv_rndv_cts_packet(struct tagrv_peer *peer, const struct tagrv_hdr *hdr,
			   const void *body, size_t len)
{
	struct tagrv_op *op =
		tagrv_rndv_find_send(peer, hdr->op, TAGRV_OP_ANNOUNCED);

	tagrv_assert_locked(peer->engine->dom);
	if (!op || !tagrv_rndv_parse_cts(&op->rndv->remote, &op->rndv->depth,
					 op->len, body, len)) {
		tagrv_peer_bad_packet(peer, "CTS that answers no RTS");
		return;
	}
	op->rndv->want = op->rndv->remote.len;
	if (start(op, hdr->data))
		tagrv_rndv_resume(op);
	else
		tagrv_peer_bad_packet(peer, "CTS that grants nothing");
}
