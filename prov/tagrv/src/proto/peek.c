/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_PEEK, FI_CLAIM and FI_DISCARD: see peek.h. A claimed message is on no queue:
 * rx->claims has it until its context receives or discards it.
 */
#include "proto/peek.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdlib.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "object/op.h"
#include "proto/unexp.h"

/* A message that FI_PEEK | FI_CLAIM set aside for the owner of a context. */
struct tagrv_claim {
	void	*context;
	struct tagrv_umsg *umsg;
	UT_hash_handle hh;
};

/* Reports the message that a peek, claim or discard found; NULL and err: none. */
static void report(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
		   const struct tagrv_umsg *umsg, int err)
{
	struct tagrv_comp comp = {
		.context = req->context,
		.flags = tagrv_op_comp_flags(req->space, false),
		.tag = req->tag,
		.src = FI_ADDR_NOTAVAIL,
		.err = err,
	};

	if (umsg) {
		comp.len = tagrv_unexp_len(umsg);
		comp.tag = umsg->msg->tag;
		if (umsg->pkt_flags & TAGRV_PKT_DATA) {
			comp.flags |= FI_REMOTE_CQ_DATA;
			comp.data = tagrv_unexp_data(umsg);
		}
		if (umsg->peer->engine->attr.source)
			comp.src = umsg->peer->fi_addr;
	}
	tagrv_rx_report(rx, &comp);
}

static int set_aside(struct tagrv_rx *rx, void *context,
		     struct tagrv_umsg *umsg)
{
	struct tagrv_claim *claim, *old;

	HASH_FIND_PTR(rx->claims, &context, old);
	if (old)
		return -FI_EBUSY;
	claim = calloc(1, sizeof(*claim));
	if (!claim)
		return -FI_ENOMEM;
	claim->context = context;
	claim->umsg = umsg;
	HASH_ADD_PTR(rx->claims, context, claim);
	if (!claim->hh.tbl) {
		free(claim);
		return -FI_ENOMEM;
	}
	return 0;
}

ssize_t tagrv_peek(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
		   uint32_t match_id)
{
	const struct tagrv_match_want want = {
		.tag = req->tag,
		.ignore = req->ignore,
		.peer = match_id,
		.space = req->space,
	};
	struct tagrv_match_msg *msg = tagrv_match_peek(rx->match, &want);
	int ret;

	tagrv_assert_locked(rx->dom);
	if (!msg)
		return -FI_ENOMSG;
	if (req->flags & FI_CLAIM) {
		ret = set_aside(rx, req->context, msg->user);
		if (ret)
			return ret;
		tagrv_match_take(rx->match, msg);
	}
	report(rx, req, msg->user, 0);
	if ((req->flags & (FI_DISCARD | FI_CLAIM)) == FI_DISCARD) {
		tagrv_match_take(rx->match, msg);
		tagrv_unexp_discard(msg->user);
	}
	return 0;
}

void tagrv_peek_report_none(struct tagrv_rx *rx,
			    const struct tagrv_recv_req *req, int err)
{
	tagrv_assert_locked(rx->dom);
	report(rx, req, NULL, err);
}

struct tagrv_umsg *tagrv_peek_claimed(struct tagrv_rx *rx,
				      const struct tagrv_recv_req *req)
{
	void *context = req->context;
	struct tagrv_claim *claim;
	struct tagrv_umsg *umsg;

	tagrv_assert_locked(rx->dom);
	HASH_FIND_PTR(rx->claims, &context, claim);
	if (!claim) {
		tagrv_peek_report_none(rx, req, FI_ENOMSG);
		return NULL;
	}
	umsg = claim->umsg;
	HASH_DEL(rx->claims, claim);
	free(claim);
	if (!(req->flags & FI_DISCARD))
		return umsg;
	report(rx, req, umsg, 0);
	tagrv_unexp_discard(umsg);
	return NULL;
}

void tagrv_peek_lose_rndv(struct tagrv_peer *peer)
{
	struct tagrv_claim *claim;

	tagrv_assert_locked(peer->engine->dom);
	for (claim = peer->engine->rx->claims; claim; claim = claim->hh.next)
		if (claim->umsg->peer == peer)
			tagrv_unexp_lose(claim->umsg);
}

void tagrv_peek_drop_claims(struct tagrv_engine *engine)
{
	struct tagrv_rx *rx = engine->rx;
	struct tagrv_claim *claim, *tmp;

	tagrv_assert_locked(engine->dom);
	HASH_ITER(hh, rx->claims, claim, tmp) {
		if (claim->umsg->peer->engine != engine)
			continue;
		HASH_DEL(rx->claims, claim);
		tagrv_unexp_free(claim->umsg);
		free(claim);
	}
}
