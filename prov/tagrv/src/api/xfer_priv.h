/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sends and receives: what msg.c and tagged.c share on the way into the engine.
 *
 *   fi_send, fi_tsend, ...  -> tagrv_xfer_send    --.
 *   fi_sendmsg, ...         -> tagrv_xfer_sendmsg --+-> tagrv_engine_send
 *   fi_inject, ...          -> tagrv_xfer_inject  --'
 *   fi_recv, fi_trecv, ...  -> tagrv_xfer_recv    ----> tagrv_rx_recv
 *
 * A call puts its arguments into a struct fi_msg_tagged; untagged calls leave
 * tag and ignore 0. All functions are inline and 'space' is a constant: the
 * compiler builds the engine's request directly from the call's arguments.
 */
#ifndef TAGRV_API_XFER_PRIV_H
#define TAGRV_API_XFER_PRIV_H

#include "api/info/info.h"
#include "api/objects_priv.h"
#include "core/iov.h"
#include "core/limits.h"

#define TAGRV_SENDMSG_FLAGS (TAGRV_TX_OP_FLAGS | FI_REMOTE_CQ_DATA | \
			     FI_MORE | FI_FENCE)

/*
 * Each warns about a call that can never work and returns its error: the endpoint
 * is not enabled or is of the wrong kind, flags, too many segments or bytes, no
 * address.
 */
ssize_t tagrv_reject_send_state(const struct tagrv_ep *ep) TAGRV_COLD;
ssize_t tagrv_reject_recv_state(const struct tagrv_ep *ep) TAGRV_COLD;
ssize_t tagrv_reject_flags(const char *call, uint64_t flags) TAGRV_COLD;
ssize_t tagrv_reject_send(const struct tagrv_send_req *req) TAGRV_COLD;
ssize_t tagrv_reject_recv(const struct tagrv_recv_req *req) TAGRV_COLD;
/* Returns ret, an error of the engine; warns unless it is a shortage. */
ssize_t tagrv_explain_send(const struct tagrv_send_req *req, ssize_t ret)
	TAGRV_COLD;
ssize_t tagrv_explain_recv(const struct tagrv_recv_req *req, ssize_t ret)
	TAGRV_COLD;

static inline struct tagrv_ep *tagrv_ep_of(struct fid_ep *ep)
{
	return tagrv_container_of(ep, struct tagrv_ep, ep);
}

/* Keeps the strongest of several completion levels, which has the highest bit. */
static inline uint64_t tagrv_strongest_level(uint64_t flags)
{
	uint64_t levels = flags & TAGRV_LEVEL_FLAGS;

	while (levels & (levels - 1))
		levels &= levels - 1;
	return (flags & ~TAGRV_LEVEL_FLAGS) | levels;
}

/* Checks the request and passes it to the engine under the domain lock. */
static inline ssize_t tagrv_ep_send(struct tagrv_ep *ep,
				    const struct tagrv_send_req *req)
{
	ssize_t ret;

	if (TAGRV_UNLIKELY(!ep->engine))
		return tagrv_reject_send_state(ep);
	if (TAGRV_UNLIKELY(req->iov_cnt > TAGRV_IOV_MAX ||
			   tagrv_iov_lacks_buffer(req->iov, req->iov_cnt) ||
			   (req->flags & FI_INJECT &&
			    tagrv_iov_len(req->iov, req->iov_cnt) >
			    TAGRV_INJECT_MAX)))
		return tagrv_reject_send(req);
	tagrv_lock_acquire(&ep->dom->lock);
	ret = tagrv_engine_send(ep->engine, req);
	tagrv_lock_release(&ep->dom->lock);
	return TAGRV_LIKELY(!ret) ? 0 : tagrv_explain_send(req, ret);
}

/* As tagrv_ep_send(). */
static inline ssize_t tagrv_ep_recv(struct tagrv_ep *ep,
				    const struct tagrv_recv_req *req)
{
	ssize_t ret;

	if (TAGRV_UNLIKELY(!ep->rx))
		return tagrv_reject_recv_state(ep);
	if (TAGRV_UNLIKELY(req->iov_cnt > TAGRV_IOV_MAX ||
			   tagrv_iov_lacks_buffer(req->iov, req->iov_cnt) ||
			   (req->iov_cnt > 1 &&
			    tagrv_iov_len(req->iov, req->iov_cnt) == SIZE_MAX) ||
			   (req->flags & FI_MULTI_RECV && req->iov_cnt != 1)))
		return tagrv_reject_recv(req);
	tagrv_lock_acquire(&ep->dom->lock);
	ret = tagrv_rx_recv(ep->rx, req);
	tagrv_lock_release(&ep->dom->lock);
	return TAGRV_LIKELY(!ret) ? 0 : tagrv_explain_recv(req, ret);
}

/* A send with these flags alone; injects have no context to report. */
static inline ssize_t tagrv_xfer_submit(struct fid_ep *fid,
					enum tagrv_match_space space,
					const struct fi_msg_tagged *msg,
					uint64_t flags, bool no_context)
{
	struct tagrv_send_req req = {
		.iov = msg->msg_iov,
		.iov_cnt = msg->iov_count,
		.mem = (struct tagrv_mem **) msg->desc,
		.dest = msg->addr,
		.tag = msg->tag,
		.data = msg->data,
		.context = msg->context,
		.flags = flags,
		.space = space,
	};

	if (no_context)
		req.no_context = true;
	return tagrv_ep_send(tagrv_ep_of(fid), &req);
}

/* fi_send, fi_sendv, fi_senddata: flags are added to the endpoint's. */
static inline ssize_t tagrv_xfer_send(struct fid_ep *fid,
				      enum tagrv_match_space space,
				      const struct fi_msg_tagged *msg,
				      uint64_t flags)
{
	return tagrv_xfer_submit(fid, space, msg,
				 tagrv_ep_of(fid)->tx_flags | flags, false);
}

/* fi_inject, fi_injectdata: flags are added to the endpoint's. */
static inline ssize_t tagrv_xfer_inject(struct fid_ep *fid,
					enum tagrv_match_space space,
					const struct fi_msg_tagged *msg,
					uint64_t flags)
{
	return tagrv_xfer_submit(fid, space, msg,
				 tagrv_ep_of(fid)->inject_flags | flags, true);
}

/* fi_sendmsg: flags replace the endpoint's. */
static inline ssize_t tagrv_xfer_sendmsg(struct fid_ep *fid,
					 enum tagrv_match_space space,
					 const struct fi_msg_tagged *msg,
					 uint64_t flags, const char *call)
{
	const uint64_t bad = flags & ~TAGRV_SENDMSG_FLAGS;

	if (TAGRV_UNLIKELY(bad))
		return tagrv_reject_flags(call, bad);
	return tagrv_xfer_submit(fid, space, msg, tagrv_strongest_level(flags) |
				 tagrv_ep_of(fid)->tx_force, false);
}

/* All receives: flags are those of the engine. */
static inline ssize_t tagrv_xfer_recv(struct fid_ep *fid,
				      enum tagrv_match_space space,
				      const struct fi_msg_tagged *msg,
				      uint64_t flags)
{
	const struct tagrv_recv_req req = {
		.iov = msg->msg_iov,
		.iov_cnt = msg->iov_count,
		.mem = (struct tagrv_mem **) msg->desc,
		.src = msg->addr,
		.tag = msg->tag,
		.ignore = msg->ignore,
		.context = msg->context,
		.flags = flags,
		.space = space,
	};

	return tagrv_ep_recv(tagrv_ep_of(fid), &req);
}

#endif
