/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * One-sided operations that are refused, before the engine sees them or by the engine.
 */
#include "api/onesided_priv.h"
#include "core/log.h"

static const char *name_of(const struct tagrv_rma_req *req)
{
	static const char *const names[TAGRV_RMA_KINDS] = {
		[TAGRV_RMA_WRITE] = "write",
		[TAGRV_RMA_READ] = "read",
		[TAGRV_RMA_ATOMIC] = "atomic",
		[TAGRV_RMA_FETCH] = "fetching atomic",
		[TAGRV_RMA_COMPARE] = "comparing atomic",
	};

	return names[req->kind];
}

ssize_t tagrv_reject_rma_state(const struct tagrv_ep *ep,
			       const struct tagrv_rma_req *req)
{
	if (!ep->engine)
		return tagrv_refuse(-FI_EOPBADSTATE, "a remote %s on an endpoint "
				    "that is not enabled (fi_enable)", name_of(req));
	return tagrv_refuse(-FI_ENOSYS, "a remote %s on an endpoint without the "
			    "capability %s", name_of(req),
			    tagrv_rma_reads(req) ? "FI_READ" : "FI_WRITE");
}

ssize_t tagrv_reject_rma(const struct tagrv_rma_req *req)
{
	size_t len;

	if (req->iov_cnt > TAGRV_IOV_MAX)
		return tagrv_refuse(-FI_EINVAL, "a remote %s of %zu segments: at "
				    "most %d are possible", name_of(req),
				    req->iov_cnt, TAGRV_IOV_MAX);
	if (!req->remote || !req->remote_cnt || req->remote_cnt > TAGRV_IOV_MAX)
		return tagrv_refuse(-FI_EINVAL, "a remote %s of %zu ranges of remote "
				    "memory: 1 to %d are possible", name_of(req),
				    req->remote ? req->remote_cnt : 0, TAGRV_IOV_MAX);
	if (tagrv_iov_lacks_buffer(req->iov, req->iov_cnt))
		return tagrv_refuse(-FI_EINVAL, "a remote %s with a buffer at NULL "
				    "that has a length", name_of(req));
	len = tagrv_iov_len(req->iov, req->iov_cnt);
	if (len != tagrv_remote_len(req->remote, req->remote_cnt))
		return tagrv_refuse(-FI_EINVAL, "a remote %s whose buffers have %zu "
				    "bytes here and %zu at the peer", name_of(req),
				    len, tagrv_remote_len(req->remote,
							  req->remote_cnt));
	return tagrv_refuse(-FI_EMSGSIZE, "an injected remote %s of %zu bytes: at "
			    "most %zu are possible", name_of(req), len,
			    TAGRV_INJECT_MAX);
}

ssize_t tagrv_explain_rma(const struct tagrv_rma_req *req, ssize_t ret)
{
	if (ret == -FI_EMSGSIZE)
		tagrv_warn("a remote %s of %zu bytes: at most %zu are possible, see "
			   "max_msg_size of fi_getinfo\n", name_of(req),
			   tagrv_remote_len(req->remote, req->remote_cnt),
			   TAGRV_MAX_MSG);
	else if (ret == -FI_EINVAL)
		tagrv_warn("a remote %s at address number %llu: the address vector "
			   "has no such entry, or it was removed; or the remote "
			   "memory ends beyond the last address\n", name_of(req),
			   (unsigned long long) req->dest);
	return ret;
}
