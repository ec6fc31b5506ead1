/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations: what rma_calls.c and atomic_calls.c share on the way into the engine.
 *
 *   fi_read, fi_write, ...  --.
 *   fi_writemsg, ...        --+-> tagrv_ep_rma -> tagrv_engine_rma
 *   fi_atomic, ...          --'
 *
 * Each call builds a struct tagrv_rma_req on its stack. Flags of the request follow from
 * the endpoint's default flags (tagrv_ep_resolve_flags()) or from those of the call:
 *
 *   call                       completion level           FI_INJECT
 *   writes, fi_atomic          as asked for; a match,     as asked for
 *                              which there is none of,
 *                              counts as delivery
 *   fetch and compare          none: they end when the    as asked for
 *                              result is there; by the
 *                              device as writes
 *   reads                      none, likewise             ignored
 */
#ifndef TAGRV_API_ONESIDED_PRIV_H
#define TAGRV_API_ONESIDED_PRIV_H

#include "api/xfer_priv.h"

#define TAGRV_RMA_MSG_FLAGS	(TAGRV_TX_OP_FLAGS | FI_MORE | FI_FENCE)

/*
 * Each warns about a call that can never work and returns its error: the endpoint is not
 * enabled or lacks the capability; numbers and bytes of segments. The last one returns
 * ret, an error of the engine, and warns unless it is a shortage.
 */
ssize_t tagrv_reject_rma_state(const struct tagrv_ep *ep,
			       const struct tagrv_rma_req *req) TAGRV_COLD;
ssize_t tagrv_reject_rma(const struct tagrv_rma_req *req) TAGRV_COLD;
ssize_t tagrv_explain_rma(const struct tagrv_rma_req *req, ssize_t ret) TAGRV_COLD;

/* As fi_atomicvalid and its relatives: atomic_valid.c. */
int tagrv_atomic_writevalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op,
			    size_t *count);
int tagrv_atomic_readwritevalid(struct fid_ep *ep, enum fi_datatype datatype,
				enum fi_op op, size_t *count);
int tagrv_atomic_compwritevalid(struct fid_ep *ep, enum fi_datatype datatype,
				enum fi_op op, size_t *count);

/* The flags of a write, given those of the call or of the endpoint. */
static inline uint64_t tagrv_rma_write_flags(uint64_t flags)
{
	flags = tagrv_strongest_level(flags);
	if (flags & FI_MATCH_COMPLETE)
		flags ^= FI_MATCH_COMPLETE | FI_DELIVERY_COMPLETE;
	return flags;
}

/*
 * The same of an atomic that fetches. When its result is there, it is done in memory, too; but
 * a device may still be about to write it there.
 */
static inline uint64_t tagrv_rma_fetch_flags(const struct tagrv_ep *ep, uint64_t flags)
{
	if (TAGRV_UNLIKELY(ep->dom->by_device))
		return tagrv_rma_write_flags(flags);
	return flags & ~TAGRV_LEVEL_FLAGS;
}

static inline bool tagrv_rma_reads(const struct tagrv_rma_req *req)
{
	return req->kind != TAGRV_RMA_WRITE && req->kind != TAGRV_RMA_ATOMIC;
}

/* As tagrv_iov_len(). */
static inline size_t tagrv_remote_len(const struct fi_rma_iov *iov, size_t cnt)
{
	size_t len = 0;

	if (TAGRV_LIKELY(cnt == 1))
		return iov[0].len;
	for (size_t i = 0; i < cnt; i++)
		if (__builtin_add_overflow(len, iov[i].len, &len))
			return SIZE_MAX;
	return len;
}

static inline bool tagrv_rma_lacks_segments(const struct tagrv_rma_req *req)
{
	return req->iov_cnt > TAGRV_IOV_MAX || !req->remote ||
	       req->remote_cnt - 1 >= TAGRV_IOV_MAX ||
	       tagrv_iov_lacks_buffer(req->iov, req->iov_cnt);
}

static inline bool tagrv_rma_has_wrong_length(const struct tagrv_rma_req *req)
{
	size_t len = tagrv_iov_len(req->iov, req->iov_cnt);

	return len != tagrv_remote_len(req->remote, req->remote_cnt) ||
	       (req->flags & FI_INJECT && len > TAGRV_INJECT_MAX);
}

/* Passes a request, whose segments were checked, to the engine. */
static inline ssize_t tagrv_ep_rma_checked(struct tagrv_ep *ep,
					   const struct tagrv_rma_req *req)
{
	struct tagrv_engine *engine = tagrv_rma_reads(req) ? ep->reader : ep->writer;
	ssize_t ret;

	if (TAGRV_UNLIKELY(!engine))
		return tagrv_reject_rma_state(ep, req);
	tagrv_lock_acquire(&ep->dom->lock);
	ret = tagrv_engine_rma(engine, req);
	tagrv_lock_release(&ep->dom->lock);
	return TAGRV_LIKELY(!ret) ? 0 : tagrv_explain_rma(req, ret);
}

/* Checks the segments of a read or write, and passes it to the engine. */
static inline ssize_t tagrv_ep_rma(struct tagrv_ep *ep,
				   const struct tagrv_rma_req *req)
{
	if (TAGRV_UNLIKELY(tagrv_rma_lacks_segments(req) ||
			   tagrv_rma_has_wrong_length(req)))
		return tagrv_reject_rma(req);
	return tagrv_ep_rma_checked(ep, req);
}

#endif
