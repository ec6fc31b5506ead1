/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote reads and writes: fi_read, fi_write and their relatives. See onesided_priv.h.
 */
#include "api/onesided_priv.h"

#define READMSG_FLAGS	TAGRV_RMA_MSG_FLAGS
#define WRITEMSG_FLAGS	(TAGRV_RMA_MSG_FLAGS | FI_REMOTE_CQ_DATA)
/* What nobody awaits of a read: its buffer is not free before its bytes are there. */
#define NOT_OF_READS	(TAGRV_LEVEL_FLAGS | FI_INJECT)

/* All calls but the *msg ones: one range of remote memory. */
static inline ssize_t transfer(struct fid_ep *fid, enum tagrv_rma_kind kind,
			       const struct iovec *iov, void **desc, size_t count,
			       fi_addr_t peer, uint64_t addr, uint64_t key,
			       void *context, uint64_t data, uint64_t flags,
			       bool no_context)
{
	const struct fi_rma_iov remote = {
		.addr = addr, .key = key,
		/* More segments than possible are refused, not looked at. */
		.len = count <= TAGRV_IOV_MAX && iov ? tagrv_iov_len(iov, count) : 0,
	};
	const struct tagrv_rma_req req = {
		.kind = (uint8_t) kind,
		.no_context = no_context,
		.iov = iov,
		.iov_cnt = count,
		.mem = (struct tagrv_mem **) desc,
		.remote = &remote,
		.remote_cnt = 1,
		.dest = peer,
		.data = data,
		.context = context,
		.flags = flags,
	};

	return tagrv_ep_rma(tagrv_ep_of(fid), &req);
}

static inline ssize_t transfer_msg(struct fid_ep *fid, enum tagrv_rma_kind kind,
				   const struct fi_msg_rma *msg, uint64_t flags)
{
	const struct tagrv_rma_req req = {
		.kind = (uint8_t) kind,
		.iov = msg->msg_iov,
		.iov_cnt = msg->iov_count,
		.mem = (struct tagrv_mem **) msg->desc,
		.remote = msg->rma_iov,
		.remote_cnt = msg->rma_iov_count,
		.dest = msg->addr,
		.data = msg->data,
		.context = msg->context,
		.flags = flags | tagrv_ep_of(fid)->tx_force,
	};

	return tagrv_ep_rma(tagrv_ep_of(fid), &req);
}

/* ---- reads ---- */

static inline ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov,
				void **desc, size_t count, fi_addr_t src_addr,
				uint64_t addr, uint64_t key, void *context)
{
	return transfer(fid, TAGRV_RMA_READ, iov, desc, count, src_addr, addr, key,
			context, 0, tagrv_ep_of(fid)->rma_flags & ~NOT_OF_READS,
			false);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc,
			fi_addr_t src_addr, uint64_t addr, uint64_t key,
			void *context)
{
	const struct iovec iov = { .iov_base = buf, .iov_len = len };

	return rma_readv(fid, &iov, desc ? &desc : NULL, 1, src_addr, addr, key,
			 context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg,
			   uint64_t flags)
{
	if (TAGRV_UNLIKELY(flags & ~READMSG_FLAGS))
		return tagrv_reject_flags("fi_readmsg", flags & ~READMSG_FLAGS);
	return transfer_msg(fid, TAGRV_RMA_READ, msg, flags & ~NOT_OF_READS);
}

/* ---- writes ---- */

static inline ssize_t write_flags(struct fid_ep *fid, const struct iovec *iov,
				  void **desc, size_t count, fi_addr_t dest,
				  uint64_t addr, uint64_t key, void *context,
				  uint64_t data, uint64_t flags)
{
	return transfer(fid, TAGRV_RMA_WRITE, iov, desc, count, dest, addr, key,
			context, data, tagrv_ep_of(fid)->rma_flags | flags, false);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc,
			  size_t count, fi_addr_t dest_addr, uint64_t addr,
			  uint64_t key, void *context)
{
	return write_flags(fid, iov, desc, count, dest_addr, addr, key, context, 0, 0);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			 void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return write_flags(fid, &iov, desc ? &desc : NULL, 1, dest_addr, addr, key,
			   context, 0, 0);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len,
			     void *desc, uint64_t data, fi_addr_t dest_addr,
			     uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return write_flags(fid, &iov, desc ? &desc : NULL, 1, dest_addr, addr, key,
			   context, data, FI_REMOTE_CQ_DATA);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg,
			    uint64_t flags)
{
	if (TAGRV_UNLIKELY(flags & ~WRITEMSG_FLAGS))
		return tagrv_reject_flags("fi_writemsg", flags & ~WRITEMSG_FLAGS);
	return transfer_msg(fid, TAGRV_RMA_WRITE, msg, tagrv_rma_write_flags(flags));
}

static inline ssize_t inject(struct fid_ep *fid, const void *buf, size_t len,
			     uint64_t data, uint64_t flags, fi_addr_t dest_addr,
			     uint64_t addr, uint64_t key)
{
	const struct iovec iov = { .iov_base = (void *) buf, .iov_len = len };

	return transfer(fid, TAGRV_RMA_WRITE, &iov, NULL, 1, dest_addr, addr, key,
			NULL, data, tagrv_ep_of(fid)->rma_inject_flags | flags,
			true);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len,
			  fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
	struct tagrv_ep *ep = tagrv_ep_of(fid);
	bool sent;

	if (TAGRV_LIKELY(ep->plain_writer && len <= TAGRV_INJECT_MAX && (buf || !len))) {
		tagrv_lock_acquire(&ep->dom->lock);
		sent = tagrv_engine_store(ep->plain_writer, dest_addr, buf, len, addr, key);
		tagrv_lock_release(&ep->dom->lock);
		if (TAGRV_LIKELY(sent))
			return 0;
	}
	return inject(fid, buf, len, 0, 0, dest_addr, addr, key);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len,
			      uint64_t data, fi_addr_t dest_addr, uint64_t addr,
			      uint64_t key)
{
	return inject(fid, buf, len, data, FI_REMOTE_CQ_DATA, dest_addr, addr, key);
}

struct fi_ops_rma tagrv_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
