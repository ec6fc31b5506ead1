/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_PEEK, FI_CLAIM and FI_DISCARD: looking at unexpected messages, setting them
 * aside, dropping them.
 */
#ifndef TAGRV_PROTO_PEEK_H
#define TAGRV_PROTO_PEEK_H

#include <sys/types.h>

#include "object/peer.h"
#include "object/request.h"

/*
 * FI_PEEK: looks for the message that the request describes, sets it aside
 * (FI_CLAIM) or drops it (FI_DISCARD), and reports it. match_id: of the source,
 * or TAGRV_MATCH_ANY. 0; -FI_ENOMSG: there is none, nothing was reported;
 * -FI_EBUSY: the context has claimed one before; -FI_ENOMEM.
 */
ssize_t tagrv_peek(struct tagrv_rx *rx, const struct tagrv_recv_req *req,
		   uint32_t match_id) TAGRV_WARN_UNUSED;
/* Reports that there is no such message. err: FI_ENOMSG, or why none will come. */
void tagrv_peek_report_none(struct tagrv_rx *rx,
			    const struct tagrv_recv_req *req, int err);

/*
 * FI_CLAIM without FI_PEEK: the message that this context has claimed, now the
 * caller's. NULL: none was claimed, or it was to be discarded; that is reported.
 */
struct tagrv_umsg *tagrv_peek_claimed(struct tagrv_rx *rx,
				      const struct tagrv_recv_req *req);

/* The peer's connection is gone: claimed requests of it cannot be served. */
void tagrv_peek_lose_rndv(struct tagrv_peer *peer);
/* Frees claimed messages that came by this engine. */
void tagrv_peek_drop_claims(struct tagrv_engine *engine);

#endif
