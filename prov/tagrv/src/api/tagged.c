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

static ssize_t tagged_recvmsg(struct fid_ep *fid,
			      const struct fi_msg_tagged *msg, uint64_t flags)
{
	if (TAGRV_UNLIKELY(flags & ~RECVMSG_FLAGS ||
			   (flags & SEARCH_FLAGS) == FI_DISCARD))
		return tagrv_reject_flags("fi_trecvmsg", flags);
	return tagrv_xfer_recv(fid, TAGRV_SPACE_TAGGED, msg,
			       (flags & ~FI_MORE) | tagrv_ep_of(fid)->rx_force);
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

/* ---- short ways: see engine/fast.h ---- */

static __attribute__((noinline)) ssize_t
send_general(struct fid_ep *fid, const void *buf, size_t len, void *desc,
	     fi_addr_t dest_addr, uint64_t tag, void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return tagged_sendv(fid, &iov, desc ? &desc : NULL, 1, dest_addr, tag,
			    context);
}

static __attribute__((noinline)) ssize_t
senddata_general(struct fid_ep *fid, const void *buf, size_t len, void *desc,
		 uint64_t data, fi_addr_t dest_addr, uint64_t tag, void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = desc ? &desc : NULL, .iov_count = 1,
		.addr = dest_addr, .tag = tag, .context = context, .data = data,
	};

	return tagrv_xfer_send(fid, TAGRV_SPACE_TAGGED, &msg,
			       FI_REMOTE_CQ_DATA);
}

static __attribute__((noinline)) ssize_t
inject_general(struct fid_ep *fid, const void *buf, size_t len,
	       fi_addr_t dest_addr, uint64_t tag)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = dest_addr, .tag = tag,
	};

	return tagrv_xfer_inject(fid, TAGRV_SPACE_TAGGED, &msg, 0);
}

static __attribute__((noinline)) ssize_t
injectdata_general(struct fid_ep *fid, const void *buf, size_t len,
		   uint64_t data, fi_addr_t dest_addr, uint64_t tag)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = dest_addr, .tag = tag,
		.data = data,
	};

	return tagrv_xfer_inject(fid, TAGRV_SPACE_TAGGED, &msg,
				 FI_REMOTE_CQ_DATA);
}

static __attribute__((noinline)) ssize_t
recv_general(struct fid_ep *fid, void *buf, size_t len, void *desc,
	     fi_addr_t src_addr, uint64_t tag, uint64_t ignore, void *context)
{
	const struct iovec iov = { .iov_base = buf, .iov_len = len };

	return tagged_recvv(fid, &iov, desc ? &desc : NULL, 1, src_addr, tag,
			    ignore, context);
}

/*
 * Each call that has a short way is made twice: for domains without a lock, whose
 * send ends with the call of the transport, and for those with one.
 */
#define INLINE	static inline __attribute__((always_inline))

INLINE void lock_if(const struct tagrv_ep *ep, bool locked)
{
	if (locked)
		tagrv_lock_acquire(&ep->dom->lock);
}

INLINE void unlock_if(const struct tagrv_ep *ep, bool locked)
{
	if (locked)
		tagrv_lock_release(&ep->dom->lock);
}

/* False: nothing happened. reports: a completion is written. flags: of the meta. */
INLINE bool send_short(const struct tagrv_ep *ep, struct tagrv_engine *engine,
		       bool locked, const void *buf, size_t len, uint64_t data,
		       uint64_t flags, fi_addr_t dest, uint64_t tag,
		       void *context, bool reports, ssize_t *ret)
{
	struct tagrv_peer *peer;

	if (TAGRV_UNLIKELY(!engine || (!buf && len)))
		return false;
	lock_if(ep, locked);
	peer = tagrv_fast_peer(engine, dest, len);
	if (TAGRV_LIKELY(peer)) {
		if (reports)
			tagrv_fast_report(engine, context);
		*ret = tagrv_eager_send_plain(peer, len, flags, tag, data, buf);
	}
	unlock_if(ep, locked);
	return TAGRV_LIKELY(peer);
}

INLINE ssize_t send_in(bool locked, struct fid_ep *fid, const void *buf,
		       size_t len, void *desc, fi_addr_t dest, uint64_t tag,
		       void *context)
{
	const struct tagrv_ep *ep = tagrv_ep_of(fid);
	ssize_t ret = 0;

	if (TAGRV_LIKELY(send_short(ep, ep->plain_send, locked, buf, len, 0, 0,
				    dest, tag, context,
				    ep->tx_flags & FI_COMPLETION, &ret)))
		return ret;
	return send_general(fid, buf, len, desc, dest, tag, context);
}

INLINE ssize_t senddata_in(bool locked, struct fid_ep *fid, const void *buf,
			   size_t len, void *desc, uint64_t data,
			   fi_addr_t dest, uint64_t tag, void *context)
{
	const struct tagrv_ep *ep = tagrv_ep_of(fid);
	ssize_t ret = 0;

	if (TAGRV_LIKELY(send_short(ep, ep->plain_send, locked, buf, len, data,
				    TAGRV_META_DATA, dest, tag, context,
				    ep->tx_flags & FI_COMPLETION, &ret)))
		return ret;
	return senddata_general(fid, buf, len, desc, data, dest, tag, context);
}

INLINE ssize_t inject_in(bool locked, struct fid_ep *fid, const void *buf,
			 size_t len, fi_addr_t dest, uint64_t tag)
{
	const struct tagrv_ep *ep = tagrv_ep_of(fid);
	ssize_t ret = 0;

	if (TAGRV_LIKELY(send_short(ep, ep->plain_inject, locked, buf, len, 0, 0,
				    dest, tag, NULL, false, &ret)))
		return ret;
	return inject_general(fid, buf, len, dest, tag);
}

INLINE ssize_t injectdata_in(bool locked, struct fid_ep *fid, const void *buf,
			     size_t len, uint64_t data, fi_addr_t dest,
			     uint64_t tag)
{
	const struct tagrv_ep *ep = tagrv_ep_of(fid);
	ssize_t ret = 0;

	if (TAGRV_LIKELY(send_short(ep, ep->plain_inject, locked, buf, len, data,
				    TAGRV_META_DATA, dest, tag, NULL, false,
				    &ret)))
		return ret;
	return injectdata_general(fid, buf, len, data, dest, tag);
}

INLINE ssize_t recv_in(bool locked, struct fid_ep *fid, void *buf, size_t len,
		       void *desc, fi_addr_t src, uint64_t tag, uint64_t ignore,
		       void *context)
{
	const struct tagrv_ep *ep = tagrv_ep_of(fid);
	bool posted;

	if (TAGRV_UNLIKELY(!ep->plain_rx || (!buf && len)))
		return recv_general(fid, buf, len, desc, src, tag, ignore,
				    context);
	lock_if(ep, locked);
	posted = tagrv_fast_recv(ep->plain_rx, buf, len, desc, src, tag, ignore,
				 context, ep->rx_flags & FI_COMPLETION);
	unlock_if(ep, locked);
	return TAGRV_LIKELY(posted) ? 0 :
	       recv_general(fid, buf, len, desc, src, tag, ignore, context);
}

/* ---- without a lock ---- */

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len,
			   void *desc, fi_addr_t src, uint64_t tag,
			   uint64_t ignore, void *context)
{
	return recv_in(false, fid, buf, len, desc, src, tag, ignore, context);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len,
			   void *desc, fi_addr_t dest, uint64_t tag,
			   void *context)
{
	return send_in(false, fid, buf, len, desc, dest, tag, context);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len,
			       void *desc, uint64_t data, fi_addr_t dest,
			       uint64_t tag, void *context)
{
	return senddata_in(false, fid, buf, len, desc, data, dest, tag, context);
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len,
			     fi_addr_t dest, uint64_t tag)
{
	return inject_in(false, fid, buf, len, dest, tag);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf,
				 size_t len, uint64_t data, fi_addr_t dest,
				 uint64_t tag)
{
	return injectdata_in(false, fid, buf, len, data, dest, tag);
}

/* ---- with the domain's lock ---- */

static ssize_t locked_recv(struct fid_ep *fid, void *buf, size_t len,
			   void *desc, fi_addr_t src, uint64_t tag,
			   uint64_t ignore, void *context)
{
	return recv_in(true, fid, buf, len, desc, src, tag, ignore, context);
}

static ssize_t locked_send(struct fid_ep *fid, const void *buf, size_t len,
			   void *desc, fi_addr_t dest, uint64_t tag,
			   void *context)
{
	return send_in(true, fid, buf, len, desc, dest, tag, context);
}

static ssize_t locked_senddata(struct fid_ep *fid, const void *buf, size_t len,
			       void *desc, uint64_t data, fi_addr_t dest,
			       uint64_t tag, void *context)
{
	return senddata_in(true, fid, buf, len, desc, data, dest, tag, context);
}

static ssize_t locked_inject(struct fid_ep *fid, const void *buf, size_t len,
			     fi_addr_t dest, uint64_t tag)
{
	return inject_in(true, fid, buf, len, dest, tag);
}

static ssize_t locked_injectdata(struct fid_ep *fid, const void *buf,
				 size_t len, uint64_t data, fi_addr_t dest,
				 uint64_t tag)
{
	return injectdata_in(true, fid, buf, len, data, dest, tag);
}

/* ---- the rest ---- */

static ssize_t tagged_sendmsg(struct fid_ep *fid,
			      const struct fi_msg_tagged *msg, uint64_t flags)
{
	return tagrv_xfer_sendmsg(fid, TAGRV_SPACE_TAGGED, msg, flags,
				  "fi_tsendmsg");
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

struct fi_ops_tagged tagrv_tagged_locked_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = locked_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = locked_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_sendmsg,
	.inject = locked_inject,
	.senddata = locked_senddata,
	.injectdata = locked_injectdata,
};
