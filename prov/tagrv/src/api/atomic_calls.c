/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomics: fi_atomic, fi_fetch_atomic, fi_compare_atomic and their relatives. See
 * onesided_priv.h; atomic_valid.c says which there are.
 *
 * A call counts in elements, the engine in bytes: its segments are built here. All
 * operands of a call have as many elements as the remote memory; FI_ATOMIC_READ has
 * no operand, whatever is passed.
 */
#include "atomic/atomic.h"

#include "api/onesided_priv.h"
#include "core/log.h"

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

/* Whether FI_TAGRV_ATOMICS=device can do this: one element, and nobody is told. */
static bool fits_device(const struct tagrv_rma_req *req)
{
	return req->remote_cnt == 1 && req->remote[0].len == sizeof(uint64_t) &&
	       !(req->flags & FI_REMOTE_CQ_DATA) &&
	       tagrv_atomic_is_valid_by_device(atomic_kinds[req->kind], req->op,
					       req->datatype);
}

static TAGRV_COLD ssize_t refuse_by_device(void)
{
	return tagrv_refuse(-FI_EOPNOTSUPP, "with FI_TAGRV_ATOMICS=device there are FI_SUM, "
			    "FI_CSWAP and FI_ATOMIC_READ of one FI_INT64 or FI_UINT64, "
			    "without remote CQ data (fi_atomicvalid and its relatives tell)");
}

static inline ssize_t take(struct fid_ep *fid, const struct tagrv_rma_req *req)
{
	struct tagrv_ep *ep = tagrv_ep_of(fid);

	if (TAGRV_UNLIKELY(ep->dom->by_device) && !fits_device(req))
		return refuse_by_device();
	return tagrv_ep_rma_checked(ep, req);
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

	/* FI_ATOMIC_READ has nothing that is injected. */
	if (TAGRV_UNLIKELY(call->flags & FI_INJECT && lists.operand.cnt &&
			   lists.len > TAGRV_INJECT_MAX))
		return tagrv_reject_rma(&req);
	return take(fid, &req);
}

/* A call with one segment in each list. */
struct short_call {
	enum tagrv_rma_kind kind;
	const void *operand, *compare;
	void	*result, **desc, *context;
	size_t	count;
	fi_addr_t dest;
	uint64_t addr, key, flags;
	enum fi_datatype datatype;
	enum fi_op op;
	bool	no_context;
};

static TAGRV_COLD ssize_t submit_closely(struct fid_ep *fid, const struct short_call call)
{
	const struct fi_ioc operand = { (void *) (uintptr_t) call.operand, call.count };
	const struct fi_ioc compare = { (void *) (uintptr_t) call.compare, call.count };
	const struct fi_ioc result = { call.result, call.count };
	const struct fi_rma_ioc remote = { call.addr, call.count, call.key };
	const struct fi_msg_atomic msg = {
		.msg_iov = &operand, .desc = call.desc, .iov_count = 1,
		.addr = call.dest, .rma_iov = &remote, .rma_iov_count = 1,
		.datatype = call.datatype, .op = call.op, .context = call.context,
	};

	return submit(fid, &(struct call) {
		.kind = call.kind, .msg = &msg, .flags = call.flags,
		.no_context = call.no_context,
		.result = &result, .result_cnt = call.kind != TAGRV_RMA_ATOMIC,
		.compare = &compare, .compare_cnt = call.kind == TAGRV_RMA_COMPARE,
	});
}

/* As submit(), which looks at what is wrong, or is a lot. */
static inline __attribute__((always_inline)) ssize_t
submit_short(struct fid_ep *fid, const struct short_call call)
{
	bool has_operand = call.op != FI_ATOMIC_READ;
	size_t len;

	if (TAGRV_UNLIKELY(!tagrv_atomic_is_valid(atomic_kinds[call.kind], call.op,
						  call.datatype) ||
			   !call.count || call.count > TAGRV_INJECT_MAX) ||
	    TAGRV_UNLIKELY((has_operand && !call.operand) ||
			   (call.kind != TAGRV_RMA_ATOMIC && !call.result) ||
			   (call.kind == TAGRV_RMA_COMPARE && !call.compare)))
		return submit_closely(fid, call);
	len = call.count * tagrv_atomic_size(call.datatype);
	if (TAGRV_UNLIKELY(len > TAGRV_INJECT_MAX))
		return submit_closely(fid, call);

	const struct iovec operand = { (void *) (uintptr_t) call.operand, len };
	const struct iovec compare = { (void *) (uintptr_t) call.compare, len };
	const struct iovec result = { call.result, len };
	const struct fi_rma_iov remote = { call.addr, len, call.key };
	const struct tagrv_rma_req req = {
		.kind = (uint8_t) call.kind,
		.datatype = (uint8_t) call.datatype,
		.op = (uint8_t) call.op,
		.no_context = call.no_context,
		.iov = &operand, .iov_cnt = has_operand,
		.mem = (struct tagrv_mem **) call.desc,
		.result = &result, .result_cnt = call.kind != TAGRV_RMA_ATOMIC,
		.compare = &compare, .compare_cnt = call.kind == TAGRV_RMA_COMPARE,
		.remote = &remote, .remote_cnt = 1,
		.dest = call.dest,
		.context = call.context,
		.flags = call.flags,
	};

	return take(fid, &req);
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

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			     size_t count, fi_addr_t dest_addr, uint64_t addr,
			     uint64_t key, enum fi_datatype datatype, enum fi_op op,
			     void *context)
{
	const struct fi_rma_ioc remote = { addr, elements_of(iov, count), key };
	const struct fi_msg_atomic msg = {
		.msg_iov = iov, .desc = desc, .iov_count = count, .addr = dest_addr,
		.rma_iov = &remote, .rma_iov_count = 1, .datatype = datatype,
		.op = op, .context = context,
	};

	return submit(fid, &(struct call) {
		.kind = TAGRV_RMA_ATOMIC, .msg = &msg,
		.flags = tagrv_ep_of(fid)->rma_flags,
	});
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count,
			    void *desc, fi_addr_t dest_addr, uint64_t addr,
			    uint64_t key, enum fi_datatype datatype, enum fi_op op,
			    void *context)
{
	return submit_short(fid, (struct short_call) {
		.kind = TAGRV_RMA_ATOMIC, .operand = buf, .count = count,
		.desc = desc ? &desc : NULL, .dest = dest_addr, .addr = addr, .key = key,
		.datatype = datatype, .op = op, .context = context,
		.flags = tagrv_ep_of(fid)->rma_flags,
	});
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
	return submit_short(fid, (struct short_call) {
		.kind = TAGRV_RMA_ATOMIC, .operand = buf, .count = count,
		.dest = dest_addr, .addr = addr, .key = key,
		.datatype = datatype, .op = op, .no_context = true,
		.flags = tagrv_ep_of(fid)->rma_inject_flags,
	});
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
		.flags = tagrv_ep_of(fid)->fetch_flags,
	});
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count,
				void *desc, void *result, void *result_desc,
				fi_addr_t dest_addr, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	(void) result_desc;
	return submit_short(fid, (struct short_call) {
		.kind = TAGRV_RMA_FETCH, .operand = buf, .result = result,
		.count = count, .desc = desc ? &desc : NULL,
		.dest = dest_addr, .addr = addr, .key = key,
		.datatype = datatype, .op = op, .context = context,
		.flags = tagrv_ep_of(fid)->fetch_flags,
	});
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
		.flags = tagrv_rma_fetch_flags(tagrv_ep_of(fid), flags) |
			 tagrv_ep_of(fid)->tx_force,
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
		.flags = tagrv_ep_of(fid)->fetch_flags,
	});
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count,
				void *desc, const void *compare, void *compare_desc,
				void *result, void *result_desc, fi_addr_t dest_addr,
				uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	(void) compare_desc;
	(void) result_desc;
	return submit_short(fid, (struct short_call) {
		.kind = TAGRV_RMA_COMPARE, .operand = buf, .compare = compare,
		.result = result, .count = count, .desc = desc ? &desc : NULL,
		.dest = dest_addr, .addr = addr, .key = key,
		.datatype = datatype, .op = op, .context = context,
		.flags = tagrv_ep_of(fid)->fetch_flags,
	});
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
		.flags = tagrv_rma_fetch_flags(tagrv_ep_of(fid), flags) |
			 tagrv_ep_of(fid)->tx_force,
	});
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
	.writevalid = tagrv_atomic_writevalid,
	.readwritevalid = tagrv_atomic_readwritevalid,
	.compwritevalid = tagrv_atomic_compwritevalid,
};
