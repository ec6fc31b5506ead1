/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Untagged transfers: fi_send, fi_recv and their relatives.
 */
#include "api/xfer_priv.h"

#define RECVMSG_FLAGS (TAGRV_RX_OP_FLAGS | FI_MORE)

/* The arguments of fi_sendmsg and fi_recvmsg in the form of tagged calls. */
static inline struct fi_msg_tagged untagged(const struct fi_msg *msg)
{
	return (struct fi_msg_tagged) {
		.msg_iov = msg->msg_iov, .desc = msg->desc,
		.iov_count = msg->iov_count, .addr = msg->addr,
		.context = msg->context, .data = msg->data,
	};
}

static inline ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov,
			 void **desc, size_t count, fi_addr_t src_addr,
			 void *context)
{
	const struct fi_msg_tagged msg = {
		.msg_iov = iov, .desc = desc, .iov_count = count,
		.addr = src_addr, .context = context,
	};

	return tagrv_xfer_recv(fid, TAGRV_SPACE_MSG, &msg,
			       tagrv_ep_of(fid)->rx_flags);
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
	const struct fi_msg_tagged tagged = untagged(msg);

	if (TAGRV_UNLIKELY(flags & ~RECVMSG_FLAGS))
		return tagrv_reject_flags("fi_recvmsg", flags & ~RECVMSG_FLAGS);
	return tagrv_xfer_recv(fid, TAGRV_SPACE_MSG, &tagged,
			       (flags & ~FI_MORE) | tagrv_ep_of(fid)->rx_force);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov,
			 void **desc, size_t count, fi_addr_t dest_addr,
			 void *context)
{
	const struct fi_msg_tagged msg = {
		.msg_iov = iov, .desc = desc, .iov_count = count,
		.addr = dest_addr, .context = context,
	};

	return tagrv_xfer_send(fid, TAGRV_SPACE_MSG, &msg, 0);
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len,
			void *desc, fi_addr_t dest_addr, void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return msg_sendv(fid, &iov, desc ? &desc : NULL, 1, dest_addr, context);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len,
			    void *desc, uint64_t data, fi_addr_t dest_addr,
			    void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = desc ? &desc : NULL, .iov_count = 1,
		.addr = dest_addr, .context = context, .data = data,
	};

	return tagrv_xfer_send(fid, TAGRV_SPACE_MSG, &msg, FI_REMOTE_CQ_DATA);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg,
			   uint64_t flags)
{
	const struct fi_msg_tagged tagged = untagged(msg);

	return tagrv_xfer_sendmsg(fid, TAGRV_SPACE_MSG, &tagged, flags,
				  "fi_sendmsg");
}

static inline ssize_t inject(struct fid_ep *fid, const void *buf, size_t len,
			     uint64_t data, uint64_t flags, fi_addr_t dest_addr)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = dest_addr,
		.data = data,
	};

	return tagrv_xfer_inject(fid, TAGRV_SPACE_MSG, &msg, flags);
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
