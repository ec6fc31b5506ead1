/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tagged transfers: fi_tsend, fi_trecv and their relatives.
 */
#include "api/xfer_priv.h"
#include "engine/fast.h"

#define SEARCH_FLAGS	(FI_PEEK | FI_CLAIM | FI_DISCARD)
#define RECVMSG_FLAGS	(FI_COMPLETION | SEARCH_FLAGS | FI_MORE)

static inline ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov,
			    void **desc, size_t count, fi_addr_t src_addr,
			    uint64_t tag, uint64_t ignore, void *context)
{
	const struct fi_msg_tagged msg = {
		.msg_iov = iov, .desc = desc, .iov_count = count,
		.addr = src_addr, .tag = tag, .ignore = ignore,
		.context = context,
	};

	/* Multi-receive buffers take untagged messages only. */
	return tagrv_xfer_recv(fid, TAGRV_SPACE_TAGGED, &msg,
			       tagrv_ep_of(fid)->rx_flags & ~FI_MULTI_RECV);
}

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len,
			   void *desc, fi_addr_t src_addr, uint64_t tag,
			   uint64_t ignore, void *context)
{
	const struct iovec iov = { .iov_base = buf, .iov_len = len };

	return tagged_recvv(fid, &iov, desc ? &desc : NULL, 1, src_addr, tag,
			    ignore, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *fid,
			      const struct fi_msg_tagged *msg, uint64_t flags)
{
	if (TAGRV_UNLIKELY(flags & ~RECVMSG_FLAGS ||
			   (flags & SEARCH_FLAGS) == FI_DISCARD))
		return tagrv_reject_flags("fi_trecvmsg", flags);
	return tagrv_xfer_recv(fid, TAGRV_SPACE_TAGGED, msg,
			       (flags & ~FI_MORE) | tagrv_ep_of(fid)->rx_force);
}

/* The short way, for sends without a request. False: the general way. */
static inline bool send_plain(const struct tagrv_ep *ep,
			      struct tagrv_engine *engine, uint64_t meta,
			      uint64_t tag, uint64_t data, const void *buf,
			      fi_addr_t dest, void *context, bool reports)
{
	bool sent;

	if (TAGRV_UNLIKELY(!engine))
		return false;
	tagrv_lock_acquire(&ep->dom->lock);
	sent = tagrv_fast_send(engine, dest, meta, tag, data, buf, context,
			       reports);
	tagrv_lock_release(&ep->dom->lock);
	return sent;
}

/* A message of at most 32 bits of length, as TAGRV_META; longer ones: the longest. */
static inline uint64_t meta_of(size_t len)
{
	return TAGRV_META(TAGRV_MIN(len, (size_t) UINT32_MAX), 0);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov,
			    void **desc, size_t count, fi_addr_t dest_addr,
			    uint64_t tag, void *context)
{
	const struct fi_msg_tagged msg = {
		.msg_iov = iov, .desc = desc, .iov_count = count,
		.addr = dest_addr, .tag = tag, .context = context,
	};

	return tagrv_xfer_send(fid, TAGRV_SPACE_TAGGED, &msg, 0);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len,
			   void *desc, fi_addr_t dest_addr, uint64_t tag,
			   void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct tagrv_ep *ep = tagrv_ep_of(fid);

	if (TAGRV_LIKELY(send_plain(ep, ep->plain_send, meta_of(len), tag, 0, buf,
				    dest_addr, context,
				    ep->tx_flags & FI_COMPLETION)))
		return 0;
	return tagged_sendv(fid, &iov, desc ? &desc : NULL, 1, dest_addr, tag,
			    context);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len,
			       void *desc, uint64_t data, fi_addr_t dest_addr,
			       uint64_t tag, void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = desc ? &desc : NULL, .iov_count = 1,
		.addr = dest_addr, .tag = tag, .context = context, .data = data,
	};
	const struct tagrv_ep *ep = tagrv_ep_of(fid);

	if (TAGRV_LIKELY(send_plain(ep, ep->plain_send,
				    meta_of(len) | TAGRV_META_DATA, tag, data,
				    buf, dest_addr, context,
				    ep->tx_flags & FI_COMPLETION)))
		return 0;
	return tagrv_xfer_send(fid, TAGRV_SPACE_TAGGED, &msg,
			       FI_REMOTE_CQ_DATA);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid,
			      const struct fi_msg_tagged *msg, uint64_t flags)
{
	return tagrv_xfer_sendmsg(fid, TAGRV_SPACE_TAGGED, msg, flags,
				  "fi_tsendmsg");
}

static inline ssize_t inject(struct fid_ep *fid, const void *buf, size_t len,
			     uint64_t data, uint64_t flags, fi_addr_t dest_addr,
			     uint64_t tag)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = dest_addr, .tag = tag,
		.data = data,
	};
	const struct tagrv_ep *ep = tagrv_ep_of(fid);
	uint64_t meta = meta_of(len) |
			(flags & FI_REMOTE_CQ_DATA ? TAGRV_META_DATA : 0);

	if (TAGRV_LIKELY(len <= TAGRV_INJECT_MAX) &&
	    TAGRV_LIKELY(send_plain(ep, ep->plain_inject, meta, tag, data, buf,
				    dest_addr, NULL, false)))
		return 0;
	return tagrv_xfer_inject(fid, TAGRV_SPACE_TAGGED, &msg, flags);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len,
			     fi_addr_t dest_addr, uint64_t tag)
{
	return inject(fid, buf, len, 0, 0, dest_addr, tag);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf,
				 size_t len, uint64_t data, fi_addr_t dest_addr,
				 uint64_t tag)
{
	return inject(fid, buf, len, data, FI_REMOTE_CQ_DATA, dest_addr, tag);
}

struct fi_ops_tagged tagrv_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};
