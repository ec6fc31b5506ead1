/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Transfers that are not supported: one function per slot of the ops tables.
 */
#include "api/nosys/nosys.h"

#define UNUSED __attribute__((unused))

static ssize_t msg_recv(UNUSED struct fid_ep *ep, UNUSED void *buf,
			UNUSED size_t len, UNUSED void *desc,
			UNUSED fi_addr_t src_addr, UNUSED void *context)
{
	return tagrv_nosys("fi_recv");
}

static ssize_t msg_recvv(UNUSED struct fid_ep *ep,
			 UNUSED const struct iovec *iov, UNUSED void **desc,
			 UNUSED size_t count, UNUSED fi_addr_t src_addr,
			 UNUSED void *context)
{
	return tagrv_nosys("fi_recvv, fi_sendv");
}

static ssize_t msg_recvmsg(UNUSED struct fid_ep *ep,
			   UNUSED const struct fi_msg *msg,
			   UNUSED uint64_t flags)
{
	return tagrv_nosys("fi_recvmsg, fi_sendmsg");
}

static ssize_t msg_send(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			UNUSED size_t len, UNUSED void *desc,
			UNUSED fi_addr_t dest_addr, UNUSED void *context)
{
	return tagrv_nosys("fi_send");
}

static ssize_t msg_inject(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			  UNUSED size_t len, UNUSED fi_addr_t dest_addr)
{
	return tagrv_nosys("fi_inject");
}

static ssize_t msg_senddata(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			    UNUSED size_t len, UNUSED void *desc,
			    UNUSED uint64_t data, UNUSED fi_addr_t dest_addr,
			    UNUSED void *context)
{
	return tagrv_nosys("fi_senddata");
}

static ssize_t msg_injectdata(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			      UNUSED size_t len, UNUSED uint64_t data,
			      UNUSED fi_addr_t dest_addr)
{
	return tagrv_nosys("fi_injectdata");
}

struct fi_ops_msg tagrv_nosys_msg = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_recvv,
	.sendmsg = msg_recvmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

static ssize_t tagged_recv(UNUSED struct fid_ep *ep, UNUSED void *buf,
			   UNUSED size_t len, UNUSED void *desc,
			   UNUSED fi_addr_t src_addr, UNUSED uint64_t tag,
			   UNUSED uint64_t ignore, UNUSED void *context)
{
	return tagrv_nosys("fi_trecv");
}

static ssize_t tagged_recvv(UNUSED struct fid_ep *ep,
			    UNUSED const struct iovec *iov, UNUSED void **desc,
			    UNUSED size_t count, UNUSED fi_addr_t src_addr,
			    UNUSED uint64_t tag, UNUSED uint64_t ignore,
			    UNUSED void *context)
{
	return tagrv_nosys("fi_trecvv");
}

static ssize_t tagged_recvmsg(UNUSED struct fid_ep *ep,
			      UNUSED const struct fi_msg_tagged *msg,
			      UNUSED uint64_t flags)
{
	return tagrv_nosys("fi_trecvmsg, fi_tsendmsg");
}

static ssize_t tagged_send(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			   UNUSED size_t len, UNUSED void *desc,
			   UNUSED fi_addr_t dest_addr, UNUSED uint64_t tag,
			   UNUSED void *context)
{
	return tagrv_nosys("fi_tsend");
}

static ssize_t tagged_sendv(UNUSED struct fid_ep *ep,
			    UNUSED const struct iovec *iov, UNUSED void **desc,
			    UNUSED size_t count, UNUSED fi_addr_t dest_addr,
			    UNUSED uint64_t tag, UNUSED void *context)
{
	return tagrv_nosys("fi_tsendv");
}

static ssize_t tagged_inject(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			     UNUSED size_t len, UNUSED fi_addr_t dest_addr,
			     UNUSED uint64_t tag)
{
	return tagrv_nosys("fi_tinject");
}

static ssize_t tagged_senddata(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			       UNUSED size_t len, UNUSED void *desc,
			       UNUSED uint64_t data, UNUSED fi_addr_t dest_addr,
			       UNUSED uint64_t tag, UNUSED void *context)
{
	return tagrv_nosys("fi_tsenddata");
}

static ssize_t tagged_injectdata(UNUSED struct fid_ep *ep,
				 UNUSED const void *buf, UNUSED size_t len,
				 UNUSED uint64_t data,
				 UNUSED fi_addr_t dest_addr,
				 UNUSED uint64_t tag)
{
	return tagrv_nosys("fi_tinjectdata");
}

struct fi_ops_tagged tagrv_nosys_tagged = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = tagged_recv,
	.recvv = tagged_recvv,
	.recvmsg = tagged_recvmsg,
	.send = tagged_send,
	.sendv = tagged_sendv,
	.sendmsg = tagged_recvmsg,
	.inject = tagged_inject,
	.senddata = tagged_senddata,
	.injectdata = tagged_injectdata,
};

static ssize_t rma_read(UNUSED struct fid_ep *ep, UNUSED void *buf,
			UNUSED size_t len, UNUSED void *desc,
			UNUSED fi_addr_t src_addr, UNUSED uint64_t addr,
			UNUSED uint64_t key, UNUSED void *context)
{
	return tagrv_nosys("fi_read");
}

static ssize_t rma_readv(UNUSED struct fid_ep *ep,
			 UNUSED const struct iovec *iov, UNUSED void **desc,
			 UNUSED size_t count, UNUSED fi_addr_t src_addr,
			 UNUSED uint64_t addr, UNUSED uint64_t key,
			 UNUSED void *context)
{
	return tagrv_nosys("fi_readv, fi_writev");
}

static ssize_t rma_readmsg(UNUSED struct fid_ep *ep,
			   UNUSED const struct fi_msg_rma *msg,
			   UNUSED uint64_t flags)
{
	return tagrv_nosys("fi_readmsg, fi_writemsg");
}

static ssize_t rma_write(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			 UNUSED size_t len, UNUSED void *desc,
			 UNUSED fi_addr_t dest_addr, UNUSED uint64_t addr,
			 UNUSED uint64_t key, UNUSED void *context)
{
	return tagrv_nosys("fi_write");
}

static ssize_t rma_inject(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			  UNUSED size_t len, UNUSED fi_addr_t dest_addr,
			  UNUSED uint64_t addr, UNUSED uint64_t key)
{
	return tagrv_nosys("fi_inject_write");
}

static ssize_t rma_writedata(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			     UNUSED size_t len, UNUSED void *desc,
			     UNUSED uint64_t data, UNUSED fi_addr_t dest_addr,
			     UNUSED uint64_t addr, UNUSED uint64_t key,
			     UNUSED void *context)
{
	return tagrv_nosys("fi_writedata");
}

static ssize_t rma_injectdata(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			      UNUSED size_t len, UNUSED uint64_t data,
			      UNUSED fi_addr_t dest_addr, UNUSED uint64_t addr,
			      UNUSED uint64_t key)
{
	return tagrv_nosys("fi_inject_writedata");
}

struct fi_ops_rma tagrv_nosys_rma = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_readv,
	.writemsg = rma_readmsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};

static ssize_t atomic_write(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			    UNUSED size_t count, UNUSED void *desc,
			    UNUSED fi_addr_t dest_addr, UNUSED uint64_t addr,
			    UNUSED uint64_t key,
			    UNUSED enum fi_datatype datatype,
			    UNUSED enum fi_op op, UNUSED void *context)
{
	return tagrv_nosys("fi_atomic");
}

static ssize_t atomic_writev(UNUSED struct fid_ep *ep,
			     UNUSED const struct fi_ioc *iov,
			     UNUSED void **desc, UNUSED size_t count,
			     UNUSED fi_addr_t dest_addr, UNUSED uint64_t addr,
			     UNUSED uint64_t key,
			     UNUSED enum fi_datatype datatype,
			     UNUSED enum fi_op op, UNUSED void *context)
{
	return tagrv_nosys("fi_atomicv");
}

static ssize_t atomic_writemsg(UNUSED struct fid_ep *ep,
			       UNUSED const struct fi_msg_atomic *msg,
			       UNUSED uint64_t flags)
{
	return tagrv_nosys("fi_atomicmsg");
}

static ssize_t atomic_inject(UNUSED struct fid_ep *ep, UNUSED const void *buf,
			     UNUSED size_t count, UNUSED fi_addr_t dest_addr,
			     UNUSED uint64_t addr, UNUSED uint64_t key,
			     UNUSED enum fi_datatype datatype,
			     UNUSED enum fi_op op)
{
	return tagrv_nosys("fi_inject_atomic");
}

static ssize_t atomic_readwrite(UNUSED struct fid_ep *ep,
				UNUSED const void *buf, UNUSED size_t count,
				UNUSED void *desc, UNUSED void *result,
				UNUSED void *result_desc,
				UNUSED fi_addr_t dest_addr,
				UNUSED uint64_t addr, UNUSED uint64_t key,
				UNUSED enum fi_datatype datatype,
				UNUSED enum fi_op op, UNUSED void *context)
{
	return tagrv_nosys("fi_fetch_atomic");
}

static ssize_t atomic_readwritev(UNUSED struct fid_ep *ep,
				 UNUSED const struct fi_ioc *iov,
				 UNUSED void **desc, UNUSED size_t count,
				 UNUSED struct fi_ioc *resultv,
				 UNUSED void **result_desc,
				 UNUSED size_t result_count,
				 UNUSED fi_addr_t dest_addr,
				 UNUSED uint64_t addr, UNUSED uint64_t key,
				 UNUSED enum fi_datatype datatype,
				 UNUSED enum fi_op op, UNUSED void *context)
{
	return tagrv_nosys("fi_fetch_atomicv");
}

static ssize_t atomic_readwritemsg(UNUSED struct fid_ep *ep,
				   UNUSED const struct fi_msg_atomic *msg,
				   UNUSED struct fi_ioc *resultv,
				   UNUSED void **result_desc,
				   UNUSED size_t result_count,
				   UNUSED uint64_t flags)
{
	return tagrv_nosys("fi_fetch_atomicmsg");
}

static ssize_t atomic_compwrite(UNUSED struct fid_ep *ep,
				UNUSED const void *buf, UNUSED size_t count,
				UNUSED void *desc, UNUSED const void *compare,
				UNUSED void *compare_desc, UNUSED void *result,
				UNUSED void *result_desc,
				UNUSED fi_addr_t dest_addr,
				UNUSED uint64_t addr, UNUSED uint64_t key,
				UNUSED enum fi_datatype datatype,
				UNUSED enum fi_op op, UNUSED void *context)
{
	return tagrv_nosys("fi_compare_atomic");
}

static ssize_t atomic_compwritev(UNUSED struct fid_ep *ep,
				 UNUSED const struct fi_ioc *iov,
				 UNUSED void **desc, UNUSED size_t count,
				 UNUSED const struct fi_ioc *comparev,
				 UNUSED void **compare_desc,
				 UNUSED size_t compare_count,
				 UNUSED struct fi_ioc *resultv,
				 UNUSED void **result_desc,
				 UNUSED size_t result_count,
				 UNUSED fi_addr_t dest_addr,
				 UNUSED uint64_t addr, UNUSED uint64_t key,
				 UNUSED enum fi_datatype datatype,
				 UNUSED enum fi_op op, UNUSED void *context)
{
	return tagrv_nosys("fi_compare_atomicv");
}

static ssize_t atomic_compwritemsg(UNUSED struct fid_ep *ep,
				   UNUSED const struct fi_msg_atomic *msg,
				   UNUSED const struct fi_ioc *comparev,
				   UNUSED void **compare_desc,
				   UNUSED size_t compare_count,
				   UNUSED struct fi_ioc *resultv,
				   UNUSED void **result_desc,
				   UNUSED size_t result_count,
				   UNUSED uint64_t flags)
{
	return tagrv_nosys("fi_compare_atomicmsg");
}

static int atomic_writevalid(UNUSED struct fid_ep *ep,
			     UNUSED enum fi_datatype datatype,
			     UNUSED enum fi_op op, UNUSED size_t *count)
{
	return tagrv_nosys("fi_atomicvalid");
}

struct fi_ops_atomic tagrv_nosys_atomic = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_writevalid,
	.compwritevalid = atomic_writevalid,
};

static ssize_t collective_barrier(UNUSED struct fid_ep *ep,
				  UNUSED fi_addr_t coll_addr,
				  UNUSED void *context)
{
	return tagrv_nosys("fi_barrier");
}

static ssize_t collective_broadcast(UNUSED struct fid_ep *ep, UNUSED void *buf,
				    UNUSED size_t count, UNUSED void *desc,
				    UNUSED fi_addr_t coll_addr,
				    UNUSED fi_addr_t root_addr,
				    UNUSED enum fi_datatype datatype,
				    UNUSED uint64_t flags, UNUSED void *context)
{
	return tagrv_nosys("fi_broadcast");
}

static ssize_t collective_alltoall(UNUSED struct fid_ep *ep,
				   UNUSED const void *buf, UNUSED size_t count,
				   UNUSED void *desc, UNUSED void *result,
				   UNUSED void *result_desc,
				   UNUSED fi_addr_t coll_addr,
				   UNUSED enum fi_datatype datatype,
				   UNUSED uint64_t flags, UNUSED void *context)
{
	return tagrv_nosys("fi_alltoall, fi_allgather");
}

static ssize_t collective_allreduce(UNUSED struct fid_ep *ep,
				    UNUSED const void *buf, UNUSED size_t count,
				    UNUSED void *desc, UNUSED void *result,
				    UNUSED void *result_desc,
				    UNUSED fi_addr_t coll_addr,
				    UNUSED enum fi_datatype datatype,
				    UNUSED enum fi_op op, UNUSED uint64_t flags,
				    UNUSED void *context)
{
	return tagrv_nosys("fi_allreduce");
}

static ssize_t collective_reduce(UNUSED struct fid_ep *ep,
				 UNUSED const void *buf, UNUSED size_t count,
				 UNUSED void *desc, UNUSED void *result,
				 UNUSED void *result_desc,
				 UNUSED fi_addr_t coll_addr,
				 UNUSED fi_addr_t root_addr,
				 UNUSED enum fi_datatype datatype,
				 UNUSED enum fi_op op, UNUSED uint64_t flags,
				 UNUSED void *context)
{
	return tagrv_nosys("fi_reduce");
}

static ssize_t collective_scatter(UNUSED struct fid_ep *ep,
				  UNUSED const void *buf, UNUSED size_t count,
				  UNUSED void *desc, UNUSED void *result,
				  UNUSED void *result_desc,
				  UNUSED fi_addr_t coll_addr,
				  UNUSED fi_addr_t root_addr,
				  UNUSED enum fi_datatype datatype,
				  UNUSED uint64_t flags, UNUSED void *context)
{
	return tagrv_nosys("fi_scatter, fi_gather");
}

static ssize_t collective_msg(UNUSED struct fid_ep *ep,
			      UNUSED const struct fi_msg_collective *msg,
			      UNUSED struct fi_ioc *resultv,
			      UNUSED void **result_desc,
			      UNUSED size_t result_count, UNUSED uint64_t flags)
{
	return tagrv_nosys("collective operations");
}

static ssize_t collective_barrier2(UNUSED struct fid_ep *ep,
				   UNUSED fi_addr_t coll_addr,
				   UNUSED uint64_t flags, UNUSED void *context)
{
	return tagrv_nosys("fi_barrier2");
}

struct fi_ops_collective tagrv_nosys_collective = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = collective_barrier,
	.broadcast = collective_broadcast,
	.alltoall = collective_alltoall,
	.allreduce = collective_allreduce,
	.allgather = collective_alltoall,
	.reduce_scatter = collective_allreduce,
	.reduce = collective_reduce,
	.scatter = collective_scatter,
	.gather = collective_scatter,
	.msg = collective_msg,
	.barrier2 = collective_barrier2,
};
