/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Untagged transfers: fi_send, fi_recv and their relatives.
 *
 * Calls with a flags argument use these flags instead of the endpoint's.
 */
#include "api/xfer_priv.h"

#define RECVMSG_FLAGS (TAGRV_RX_OP_FLAGS | FI_MORE)

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov,
			 void **desc, size_t count, fi_addr_t src_addr,
			 void *context)
{
	struct tagrv_ep *ep = tagrv_ep_of(fid);
	const struct tagrv_recv_req req = {
		.iov = iov,
		.iov_cnt = count,
		.mem = (struct tagrv_mem **) desc,
		.src = src_addr,
		.context = context,
		.flags = ep->rx_flags,
		.space = TAGRV_SPACE_MSG,
	};

	return tagrv_ep_recv(ep, &req);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc,
			fi_addr_t src_addr, void *context)
{
	const struct iovec iov = { .iov_base = buf, .iov_len = len };

	return msg_recvv(fid, &iov, desc ? &desc : NULL, 1, src_addr, context);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg,
			   uint64_t flags)
{
	struct tagrv_ep *ep = tagrv_ep_of(fid);
	const struct tagrv_recv_req req = {
		.iov = msg->msg_iov,
		.iov_cnt = msg->iov_count,
		.mem = (struct tagrv_mem **) msg->desc,
		.src = msg->addr,
		.context = msg->context,
		.flags = (flags & ~FI_MORE) | ep->rx_force,
		.space = TAGRV_SPACE_MSG,
	};

	if (TAGRV_UNLIKELY(flags & ~RECVMSG_FLAGS))
		return tagrv_reject_flags("fi_recvmsg", flags & ~RECVMSG_FLAGS);
	return tagrv_ep_recv(ep, &req);
}

/* All sends that take the endpoint's flags. */
static inline ssize_t send_plain(struct fid_ep *fid, const struct iovec *iov,
				 void **desc, size_t count, uint64_t data,
				 uint64_t flags, fi_addr_t dest_addr,
				 void *context)
{
	struct tagrv_ep *ep = tagrv_ep_of(fid);
	const struct tagrv_send_req req = {
		.iov = iov,
		.iov_cnt = count,
		.mem = (struct tagrv_mem **) desc,
		.dest = dest_addr,
		.data = data,
		.context = context,
		.flags = ep->tx_flags | flags,
		.space = TAGRV_SPACE_MSG,
	};

	return tagrv_ep_send(ep, &req);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov,
			 void **desc, size_t count, fi_addr_t dest_addr,
			 void *context)
{
	return send_plain(fid, iov, desc, count, 0, 0, dest_addr, context);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len,
			void *desc, fi_addr_t dest_addr, void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return send_plain(fid, &iov, desc ? &desc : NULL, 1, 0, 0, dest_addr,
			  context);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len,
			    void *desc, uint64_t data, fi_addr_t dest_addr,
			    void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return send_plain(fid, &iov, desc ? &desc : NULL, 1, data,
			  FI_REMOTE_CQ_DATA, dest_addr, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg,
			   uint64_t flags)
{
	struct tagrv_ep *ep = tagrv_ep_of(fid);
	const struct tagrv_send_req req = {
		.iov = msg->msg_iov,
		.iov_cnt = msg->iov_count,
		.mem = (struct tagrv_mem **) msg->desc,
		.dest = msg->addr,
		.data = msg->data,
		.context = msg->context,
		.flags = tagrv_strongest_level(flags) | ep->tx_force,
		.space = TAGRV_SPACE_MSG,
	};

	if (TAGRV_UNLIKELY(flags & ~TAGRV_SENDMSG_FLAGS))
		return tagrv_reject_flags("fi_sendmsg",
					  flags & ~TAGRV_SENDMSG_FLAGS);
	return tagrv_ep_send(ep, &req);
}

static inline ssize_t inject(struct fid_ep *fid, const void *buf, size_t len,
			     uint64_t data, uint64_t flags, fi_addr_t dest_addr)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct tagrv_send_req req = {
		.iov = &iov,
		.iov_cnt = 1,
		.dest = dest_addr,
		.data = data,
		.flags = tagrv_ep_of(fid)->inject_flags | flags,
		.space = TAGRV_SPACE_MSG,
		.no_context = true,
	};

	return tagrv_ep_send(tagrv_ep_of(fid), &req);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len,
			  fi_addr_t dest_addr)
{
	return inject(fid, buf, len, 0, 0, dest_addr);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len,
			      uint64_t data, fi_addr_t dest_addr)
{
	return inject(fid, buf, len, data, FI_REMOTE_CQ_DATA, dest_addr);
}

struct fi_ops_msg tagrv_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};
