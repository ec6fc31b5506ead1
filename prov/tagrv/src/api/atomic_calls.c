/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomics: fi_atomic, fi_fetch_atomic, fi_compare_atomic and their relatives, and which of
 * them there are. See onesided_priv.h.
 *
 * A call counts in elements, the engine in bytes: its segments are built here. All
 * operands of a call have as many elements as the remote memory; FI_ATOMIC_READ has
 * no operand, whatever is passed.
 */
#include <limits.h>

#include "atomic/atomic.h"

#include "api/onesided_priv.h"
#include "core/log.h"

#define LEVELS	TAGRV_LEVEL_FLAGS

static const enum tagrv_atomic_kind atomic_kinds[TAGRV_RMA_KINDS] = {
	[TAGRV_RMA_ATOMIC] = TAGRV_ATOMIC_BASE,
	[TAGRV_RMA_FETCH] = TAGRV_ATOMIC_FETCH,
	[TAGRV_RMA_COMPARE] = TAGRV_ATOMIC_COMPARE,
};

/* What a call was given; msg: the members that all calls have. */
struct call {
	enum tagrv_rma_kind kind;
	const struct fi_msg_atomic *msg;
	const struct fi_ioc *result, *compare;
	size_t	result_cnt, compare_cnt;
	uint64_t flags;
	bool	no_context;
};

/* One list of elements, as bytes. */
struct list {
	struct iovec iov[TAGRV_IOV_MAX];
	size_t	cnt;
};

/* 0 and the bytes of all; or -FI_EINVAL, -FI_EMSGSIZE. */
static int fill_list(struct list *list, const struct fi_ioc *ioc, size_t cnt,
		     size_t size, size_t *len)
{
	list->cnt = cnt;
	*len = 0;
	if (cnt > TAGRV_IOV_MAX || (cnt && !ioc))
		return -FI_EINVAL;
	for (size_t i = 0; i < cnt; i++) {
		struct iovec *iov = &list->iov[i];

		if (!ioc[i].addr && ioc[i].count)
			return -FI_EINVAL;
		iov->iov_base = ioc[i].addr;
		if (__builtin_mul_overflow(ioc[i].count, size, &iov->iov_len) ||
		    __builtin_add_overflow(*len, iov->iov_len, len))
			return -FI_EMSGSIZE;
	}
	return 0;
}

static int fill_remote(struct fi_rma_iov remote[TAGRV_IOV_MAX],
		       const struct fi_rma_ioc *ioc, size_t cnt, size_t size,
		       size_t *len)
{
	*len = 0;
	if (!cnt || cnt > TAGRV_IOV_MAX || !ioc)
		return -FI_EINVAL;
	for (size_t i = 0; i < cnt; i++) {
		remote[i].addr = ioc[i].addr;
		remote[i].key = ioc[i].key;
		if (__builtin_mul_overflow(ioc[i].count, size, &remote[i].len) ||
		    __builtin_add_overflow(*len, remote[i].len, len))
			return -FI_EMSGSIZE;
	}
	return 0;
}

/* The lists of a call in bytes, for the engine. */
struct lists {
	struct list operand, result, compare;
	struct fi_rma_iov remote[TAGRV_IOV_MAX];
	size_t	len;		/* of each */
};

static TAGRV_COLD int refuse_lists(int err)
{
	if (err == -FI_EMSGSIZE)
		return tagrv_refuse(err, "an atomic operation on more elements than "
				    "there can be (fi_atomicvalid tells how many)");
	return tagrv_refuse(err, "an atomic operation with more than %d segments, "
			    "without remote memory, with a buffer at NULL, or with "
			    "operands, results and remote memory that differ in the "
			    "number of elements", TAGRV_IOV_MAX);
}

static inline int fill_lists(const struct call *call, size_t size,
			     struct lists *lists)
{
	const struct fi_msg_atomic *msg = call->msg;
	bool has_operand = msg->op != FI_ATOMIC_READ;
	size_t operand = 0, result = 0, compare = 0;
	int ret;

	ret = fill_remote(lists->remote, msg->rma_iov, msg->rma_iov_count, size,
			  &lists->len);
	lists->operand.cnt = 0;
	if (!ret && has_operand)
		ret = fill_list(&lists->operand, msg->msg_iov, msg->iov_count, size,
				&operand);
	if (!ret)
		ret = fill_list(&lists->result, call->result, call->result_cnt, size,
				&result);
	if (!ret)
		ret = fill_list(&lists->compare, call->compare, call->compare_cnt,
				size, &compare);
	if (ret)
		return ret;
	if ((has_operand && operand != lists->len) ||
	    (call->kind != TAGRV_RMA_ATOMIC && result != lists->len) ||
	    (call->kind == TAGRV_RMA_COMPARE && compare != lists->len))
		return -FI_EINVAL;
	return 0;
}

static TAGRV_COLD ssize_t refuse_op(unsigned op, unsigned datatype)
{
	return tagrv_refuse(-FI_EOPNOTSUPP, "there is no such atomic operation as %u "
			    "on datatype %u in this family of calls (fi_atomicvalid "
			    "and its relatives tell)", op, datatype);
}

static inline ssize_t submit(struct fid_ep *fid, const struct call *call)
{
	const struct fi_msg_atomic *msg = call->msg;
	struct lists lists;
	int ret;

	if (TAGRV_UNLIKELY(!tagrv_atomic_is_valid(atomic_kinds[call->kind], msg->op,
						  msg->datatype)))
		return refuse_op(msg->op, msg->datatype);
	ret = fill_lists(call, tagrv_atomic_size(msg->datatype), &lists);
	if (TAGRV_UNLIKELY(ret))
		return refuse_lists(ret);

	const struct tagrv_rma_req req = {
		.kind = (uint8_t) call->kind,
		.datatype = (uint8_t) msg->datatype,
		.op = (uint8_t) msg->op,
		.no_context = call->no_context,
		.iov = lists.operand.iov,
		.iov_cnt = lists.operand.cnt,
		.mem = (struct tagrv_mem **) msg->desc,
		.result = lists.result.iov,
		.result_cnt = lists.result.cnt,
		.compare = lists.compare.iov,
		.compare_cnt = lists.compare.cnt,
		.remote = lists.remote,
		.remote_cnt = msg->rma_iov_count,
		.dest = msg->addr,
		.context = msg->context,
		.flags = call->flags,
	};

	if (TAGRV_UNLIKELY(call->flags & FI_INJECT && lists.len > TAGRV_INJECT_MAX))
		return tagrv_reject_rma(&req);
	return tagrv_ep_rma_checked(tagrv_ep_of(fid), &req);
}

/* The elements of all segments; what is wrong with them fill_lists() says. */
static inline size_t elements_of(const struct fi_ioc *ioc, size_t cnt)
{
	size_t count = 0;

	if (cnt > TAGRV_IOV_MAX || !ioc)
		return 0;
	for (size_t i = 0; i < cnt; i++)
		if (__builtin_add_overflow(count, ioc[i].count, &count))
			return SIZE_MAX;
	return count;
}

/* ---- fi_atomic ---- */

static inline ssize_t base(struct fid_ep *fid, const struct fi_ioc *ioc, void **desc,
			   size_t cnt, fi_addr_t dest, uint64_t addr, uint64_t key,
			   enum fi_datatype datatype, enum fi_op op, void *context,
			   uint64_t flags, bool no_context)
{
	const struct fi_rma_ioc remote = { addr, elements_of(ioc, cnt), key };
	const struct fi_msg_atomic msg = {
		.msg_iov = ioc, .desc = desc, .iov_count = cnt, .addr = dest,
		.rma_iov = &remote, .rma_iov_count = 1, .datatype = datatype,
		.op = op, .context = context,
	};

	return submit(fid, &(struct call) {
		.kind = TAGRV_RMA_ATOMIC, .msg = &msg, .flags = flags,
		.no_context = no_context,
	});
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			     size_t count, fi_addr_t dest_addr, uint64_t addr,
			     uint64_t key, enum fi_datatype datatype, enum fi_op op,
			     void *context)
{
	return base(fid, iov, desc, count, dest_addr, addr, key, datatype, op,
		    context, tagrv_ep_of(fid)->rma_flags, false);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count,
			    void *desc, fi_addr_t dest_addr, uint64_t addr,
			    uint64_t key, enum fi_datatype datatype, enum fi_op op,
			    void *context)
{
	const struct fi_ioc ioc = { (void *) buf, count };

	return atomic_writev(fid, &ioc, desc ? &desc : NULL, 1, dest_addr, addr, key,
			     datatype, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
			       uint64_t flags)
{
	if (TAGRV_UNLIKELY(flags & ~TAGRV_RMA_MSG_FLAGS))
		return tagrv_reject_flags("fi_atomicmsg",
					  flags & ~TAGRV_RMA_MSG_FLAGS);
	return submit(fid, &(struct call) {
		.kind = TAGRV_RMA_ATOMIC, .msg = msg,
		.flags = tagrv_rma_write_flags(flags) | tagrv_ep_of(fid)->tx_force,
	});
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count,
			     fi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op)
{
	const struct fi_ioc ioc = { (void *) buf, count };

	return base(fid, &ioc, NULL, 1, dest_addr, addr, key, datatype, op, NULL,
		    tagrv_ep_of(fid)->rma_inject_flags, true);
}

/* ---- fi_fetch_atomic ---- */

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov,
				 void **desc, size_t count, struct fi_ioc *resultv,
				 void **result_desc, size_t result_count,
				 fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				 enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	const struct fi_rma_ioc remote = {
		addr, elements_of(resultv, result_count), key
	};
	const struct fi_msg_atomic msg = {
		.msg_iov = iov, .desc = desc, .iov_count = count, .addr = dest_addr,
		.rma_iov = &remote, .rma_iov_count = 1, .datatype = datatype,
		.op = op, .context = context,
	};

	(void) result_desc;
	return submit(fid, &(struct call) {
		.kind = TAGRV_RMA_FETCH, .msg = &msg, .result = resultv,
		.result_cnt = result_count,
		.flags = tagrv_ep_of(fid)->rma_flags & ~LEVELS,
	});
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count,
				void *desc, void *result, void *result_desc,
				fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	const struct fi_ioc ioc = { (void *) buf, count };
	struct fi_ioc to = { result, count };

	return atomic_readwritev(fid, &ioc, desc ? &desc : NULL, 1, &to,
				 &result_desc, 1, dest_addr, addr, key, datatype, op,
				 context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid,
				   const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	(void) result_desc;
	if (TAGRV_UNLIKELY(flags & ~TAGRV_RMA_MSG_FLAGS))
		return tagrv_reject_flags("fi_fetch_atomicmsg",
					  flags & ~TAGRV_RMA_MSG_FLAGS);
	return submit(fid, &(struct call) {
		.kind = TAGRV_RMA_FETCH, .msg = msg, .result = resultv,
		.result_cnt = result_count,
		.flags = (flags & ~LEVELS) | tagrv_ep_of(fid)->tx_force,
	});
}

/* ---- fi_compare_atomic ---- */

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov,
				 void **desc, size_t count,
				 const struct fi_ioc *comparev, void **compare_desc,
				 size_t compare_count, struct fi_ioc *resultv,
				 void **result_desc, size_t result_count,
				 fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				 enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	const struct fi_rma_ioc remote = {
		addr, elements_of(resultv, result_count), key
	};
	const struct fi_msg_atomic msg = {
		.msg_iov = iov, .desc = desc, .iov_count = count, .addr = dest_addr,
		.rma_iov = &remote, .rma_iov_count = 1, .datatype = datatype,
		.op = op, .context = context,
	};

	(void) compare_desc;
	(void) result_desc;
	return submit(fid, &(struct call) {
		.kind = TAGRV_RMA_COMPARE, .msg = &msg, .result = resultv,
		.result_cnt = result_count, .compare = comparev,
		.compare_cnt = compare_count,
		.flags = tagrv_ep_of(fid)->rma_flags & ~LEVELS,
	});
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count,
				void *desc, const void *compare, void *compare_desc,
				void *result, void *result_desc, fi_addr_t dest_addr,
				uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	const struct fi_ioc ioc = { (void *) buf, count };
	const struct fi_ioc with = { (void *) compare, count };
	struct fi_ioc to = { result, count };

	return atomic_compwritev(fid, &ioc, desc ? &desc : NULL, 1, &with,
				 &compare_desc, 1, &to, &result_desc, 1, dest_addr,
				 addr, key, datatype, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid,
				   const struct fi_msg_atomic *msg,
				   const struct fi_ioc *comparev, void **compare_desc,
				   size_t compare_count, struct fi_ioc *resultv,
				   void **result_desc, size_t result_count,
				   uint64_t flags)
{
	(void) compare_desc;
	(void) result_desc;
	if (TAGRV_UNLIKELY(flags & ~TAGRV_RMA_MSG_FLAGS))
		return tagrv_reject_flags("fi_compare_atomicmsg",
					  flags & ~TAGRV_RMA_MSG_FLAGS);
	return submit(fid, &(struct call) {
		.kind = TAGRV_RMA_COMPARE, .msg = msg, .result = resultv,
		.result_cnt = result_count, .compare = comparev,
		.compare_cnt = compare_count,
		.flags = (flags & ~LEVELS) | tagrv_ep_of(fid)->tx_force,
	});
}

/* ---- which there are ---- */

/*
 * No line in the log: programs ask for all, and do without what is missing. The count is
 * one that they can keep in an int, as OpenSHMEM does, though more elements are possible.
 */
static int valid(enum tagrv_atomic_kind kind, enum fi_datatype datatype,
		 enum fi_op op, size_t *count)
{
	if (!tagrv_atomic_is_valid(kind, op, datatype))
		return -FI_EOPNOTSUPP;
	*count = TAGRV_MIN(TAGRV_MAX_MSG / tagrv_atomic_size(datatype),
			   (size_t) INT_MAX);
	return 0;
}

static int atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype,
			     enum fi_op op, size_t *count)
{
	(void) ep;
	return valid(TAGRV_ATOMIC_BASE, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype,
				 enum fi_op op, size_t *count)
{
	(void) ep;
	return valid(TAGRV_ATOMIC_FETCH, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype,
				 enum fi_op op, size_t *count)
{
	(void) ep;
	return valid(TAGRV_ATOMIC_COMPARE, datatype, op, count);
}

int tagrv_query_atomic(struct fid_domain *domain, enum fi_datatype datatype,
		       enum fi_op op, struct fi_atomic_attr *attr, uint64_t flags)
{
	enum tagrv_atomic_kind kind = flags & FI_FETCH_ATOMIC ? TAGRV_ATOMIC_FETCH :
				      flags & FI_COMPARE_ATOMIC ?
				      TAGRV_ATOMIC_COMPARE : TAGRV_ATOMIC_BASE;
	size_t count;
	int ret;

	(void) domain;
	if (flags & FI_TAGGED)		/* no atomics on tagged receives */
		return -FI_EOPNOTSUPP;
	if (flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC))
		return tagrv_refuse(-FI_EBADFLAGS, "fi_query_atomic: flags 0x%llx are "
				    "not supported", (unsigned long long) flags);
	if ((flags & FI_FETCH_ATOMIC) && (flags & FI_COMPARE_ATOMIC))
		return tagrv_refuse(-FI_EINVAL, "fi_query_atomic: an operation "
				    "fetches or compares, not both");
	ret = valid(kind, datatype, op, &count);
	if (ret)
		return ret;
	attr->count = count;
	attr->size = tagrv_atomic_size(datatype);
	return 0;
}

struct fi_ops_atomic tagrv_atomic_ops = {
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
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};
