/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tagged transfers: fi_tsend, fi_trecv and their relatives.
 *
 * Calls with a flags argument use these flags instead of the endpoint's.
 */
#include "api/xfer_priv.h"

#define SEARCH_FLAGS	(FI_PEEK | FI_CLAIM | FI_DISCARD)
#define RECVMSG_FLAGS	(FI_COMPLETION | SEARCH_FLAGS | FI_MORE)

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov,
			    void **desc, size_t count, fi_addr_t src_addr,
			    uint64_t tag, uint64_t ignore, void *context)
{
	struct tagrv_ep *ep = tagrv_ep_of(fid);
	const struct tagrv_recv_req req = {
		.iov = iov,
		.iov_cnt = count,
		.mem = (struct tagrv_mem **) desc,
		.src = src_addr,
		.tag = tag,
		.ignore = ignore,
		.context = context,
		/* Buffers for several messages are for untagged ones only. */
		.flags = ep->rx_flags & ~FI_MULTI_RECV,
		.space = TAGRV_SPACE_TAGGED,
	};

	return tagrv_ep_recv(ep, &req);
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
	struct tagrv_ep *ep = tagrv_ep_of(fid);
	const struct tagrv_recv_req req = {
		.iov = msg->msg_iov,
		.iov_cnt = msg->iov_count,
		.mem = (struct tagrv_mem **) msg->desc,
		.src = msg->addr,
		.tag = msg->tag,
		.ignore = msg->ignore,
		.context = msg->context,
		.flags = (flags & ~FI_MORE) | ep->rx_force,
		.space = TAGRV_SPACE_TAGGED,
	};

	if (TAGRV_UNLIKELY(flags & ~RECVMSG_FLAGS ||
			   (flags & SEARCH_FLAGS) == FI_DISCARD))
		return tagrv_reject_flags("fi_trecvmsg", flags);
	return tagrv_ep_recv(ep, &req);
}

/* All sends that take the endpoint's flags. */
static inline ssize_t send_plain(struct fid_ep *fid, const struct iovec *iov,
				 void **desc, size_t count, uint64_t data,
				 uint64_t flags, fi_addr_t dest_addr,
				 uint64_t tag, void *context)
{
	struct tagrv_ep *ep = tagrv_ep_of(fid);
	const struct tagrv_send_req req = {
		.iov = iov,
		.iov_cnt = count,
		.mem = (struct tagrv_mem **) desc,
		.dest = dest_addr,
		.tag = tag,
		.data = data,
		.context = context,
		.flags = ep->tx_flags | flags,
		.space = TAGRV_SPACE_TAGGED,
	};

	return tagrv_ep_send(ep, &req);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov,
			    void **desc, size_t count, fi_addr_t dest_addr,
			    uint64_t tag, void *context)
{
	return send_plain(fid, iov, desc, count, 0, 0, dest_addr, tag, context);
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len,
			   void *desc, fi_addr_t dest_addr, uint64_t tag,
			   void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return send_plain(fid, &iov, desc ? &desc : NULL, 1, 0, 0, dest_addr,
			  tag, context);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len,
			       void *desc, uint64_t data, fi_addr_t dest_addr,
			       uint64_t tag, void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return send_plain(fid, &iov, desc ? &desc : NULL, 1, data,
			  FI_REMOTE_CQ_DATA, dest_addr, tag, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid,
			      const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct tagrv_ep *ep = tagrv_ep_of(fid);
	const struct tagrv_send_req req = {
		.iov = msg->msg_iov,
		.iov_cnt = msg->iov_count,
		.mem = (struct tagrv_mem **) msg->desc,
		.dest = msg->addr,
		.tag = msg->tag,
		.data = msg->data,
		.context = msg->context,
		.flags = tagrv_strongest_level(flags) | ep->tx_force,
		.space = TAGRV_SPACE_TAGGED,
	};

	if (TAGRV_UNLIKELY(flags & ~TAGRV_SENDMSG_FLAGS))
		return tagrv_reject_flags("fi_tsendmsg",
					  flags & ~TAGRV_SENDMSG_FLAGS);
	return tagrv_ep_send(ep, &req);
}

static inline ssize_t inject(struct fid_ep *fid, const void *buf, size_t len,
			     uint64_t data, uint64_t flags, fi_addr_t dest_addr,
			     uint64_t tag)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct tagrv_send_req req = {
		.iov = &iov,
		.iov_cnt = 1,
		.dest = dest_addr,
		.tag = tag,
		.data = data,
		.flags = tagrv_ep_of(fid)->inject_flags | flags,
		.space = TAGRV_SPACE_TAGGED,
		.no_context = true,
	};

	return tagrv_ep_send(tagrv_ep_of(fid), &req);
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
