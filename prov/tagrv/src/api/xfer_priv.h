/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What msg.c and tagged.c share: the last checks and the way into the engine.
 *
 * A call builds its request on the stack; the request holds pointers to the
 * caller's arguments, so nothing is copied before the engine decides.
 */
#ifndef TAGRV_API_XFER_PRIV_H
#define TAGRV_API_XFER_PRIV_H

#include "api/info/info.h"
#include "api/objects_priv.h"
#include "core/iov.h"
#include "core/limits.h"

#define TAGRV_SENDMSG_FLAGS (TAGRV_TX_OP_FLAGS | FI_REMOTE_CQ_DATA | \
			     FI_MORE | FI_FENCE)

/* One log line for a call that can never work; they return the error. */
ssize_t tagrv_reject_send_state(const struct tagrv_ep *ep) TAGRV_COLD;
ssize_t tagrv_reject_recv_state(const struct tagrv_ep *ep) TAGRV_COLD;
ssize_t tagrv_reject_flags(const char *call, uint64_t flags) TAGRV_COLD;
ssize_t tagrv_reject_send(const struct tagrv_send_req *req) TAGRV_COLD;
ssize_t tagrv_reject_recv(const struct tagrv_recv_req *req) TAGRV_COLD;
/* The same for what the engine refused; nothing is logged for shortages. */
ssize_t tagrv_explain_send(const struct tagrv_send_req *req, ssize_t ret)
	TAGRV_COLD;
ssize_t tagrv_explain_recv(const struct tagrv_recv_req *req, ssize_t ret)
	TAGRV_COLD;

static inline struct tagrv_ep *tagrv_ep_of(struct fid_ep *ep)
{
	return tagrv_container_of(ep, struct tagrv_ep, ep);
}

/* Of several completion levels the strongest, which has the highest bit. */
static inline uint64_t tagrv_strongest_level(uint64_t flags)
{
	uint64_t levels = flags & TAGRV_LEVEL_FLAGS;

	while (levels & (levels - 1))
		levels &= levels - 1;
	return (flags & ~TAGRV_LEVEL_FLAGS) | levels;
}

static inline ssize_t tagrv_ep_send(struct tagrv_ep *ep,
				    const struct tagrv_send_req *req)
{
	ssize_t ret;

	if (TAGRV_UNLIKELY(!ep->engine))
		return tagrv_reject_send_state(ep);
	if (TAGRV_UNLIKELY(req->iov_cnt > TAGRV_IOV_MAX ||
			   (req->flags & FI_INJECT &&
			    tagrv_iov_len(req->iov, req->iov_cnt) >
			    TAGRV_INJECT_MAX)))
		return tagrv_reject_send(req);
	tagrv_lock_acquire(&ep->dom->lock);
	ret = tagrv_engine_send(ep->engine, req);
	tagrv_lock_release(&ep->dom->lock);
	return TAGRV_LIKELY(!ret) ? 0 : tagrv_explain_send(req, ret);
}

static inline ssize_t tagrv_ep_recv(struct tagrv_ep *ep,
				    const struct tagrv_recv_req *req)
{
	ssize_t ret;

	if (TAGRV_UNLIKELY(!ep->rx))
		return tagrv_reject_recv_state(ep);
	if (TAGRV_UNLIKELY(req->iov_cnt > TAGRV_IOV_MAX ||
			   (req->flags & FI_MULTI_RECV && req->iov_cnt != 1)))
		return tagrv_reject_recv(req);
	tagrv_lock_acquire(&ep->dom->lock);
	ret = tagrv_rx_recv(ep->rx, req);
	tagrv_lock_release(&ep->dom->lock);
	return TAGRV_LIKELY(!ret) ? 0 : tagrv_explain_recv(req, ret);
}

#endif
