/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Transfers that are refused, before the engine sees them or by the engine.
 */
#include "api/xfer_priv.h"

#include "core/log.h"

static ssize_t reject_state(void)
{
	return tagrv_refuse(-FI_EOPBADSTATE, "a send or receive on an endpoint "
			    "that is not enabled (fi_enable)");
}

ssize_t tagrv_reject_send_state(const struct tagrv_ep *ep)
{
	if (ep->ep.fid.fclass != FI_CLASS_SRX_CTX)
		return reject_state();
	return tagrv_refuse(-FI_ENOSYS, "a send on a shared receive context");
}

ssize_t tagrv_reject_recv_state(const struct tagrv_ep *ep)
{
	if (!ep->engine)
		return reject_state();
	return tagrv_refuse(-FI_ENOSYS, "a receive on an endpoint that shares "
			    "its receives: they are posted to the shared "
			    "context");
}

ssize_t tagrv_reject_flags(const char *call, uint64_t flags)
{
	tagrv_warn("%s: flags 0x%llx are not supported\n", call,
		   (unsigned long long) flags);
	return -FI_EBADFLAGS;
}

static ssize_t reject_null(const char *what)
{
	tagrv_warn("a %s of a buffer at NULL that has a length\n", what);
	return -FI_EINVAL;
}

ssize_t tagrv_reject_send(const struct tagrv_send_req *req)
{
	if (req->iov_cnt > TAGRV_IOV_MAX) {
		tagrv_warn("a send of %zu segments: at most %d are possible\n",
			   req->iov_cnt, TAGRV_IOV_MAX);
		return -FI_EINVAL;
	}
	if (tagrv_iov_lacks_buffer(req->iov, req->iov_cnt))
		return reject_null("send");
	tagrv_warn("an injected send of %zu bytes: at most %zu are possible\n",
		   tagrv_iov_len(req->iov, req->iov_cnt), TAGRV_INJECT_MAX);
	return -FI_EMSGSIZE;
}

ssize_t tagrv_reject_recv(const struct tagrv_recv_req *req)
{
	if (req->iov_cnt > TAGRV_IOV_MAX) {
		tagrv_warn("a receive of %zu segments: at most %d are "
			   "possible\n", req->iov_cnt, TAGRV_IOV_MAX);
		return -FI_EINVAL;
	}
	if (tagrv_iov_lacks_buffer(req->iov, req->iov_cnt))
		return reject_null("receive");
	if (tagrv_iov_len(req->iov, req->iov_cnt) == SIZE_MAX) {
		tagrv_warn("a receive whose segments have more bytes together "
			   "than there are addresses\n");
		return -FI_EMSGSIZE;
	}
	tagrv_warn("a multi-receive buffer has one segment, not %zu\n",
		   req->iov_cnt);
	return -FI_EINVAL;
}

ssize_t tagrv_explain_send(const struct tagrv_send_req *req, ssize_t ret)
{
	if (ret == -FI_EMSGSIZE)
		tagrv_warn("a message of %zu bytes: at most %zu are possible, "
			   "see max_msg_size of fi_getinfo\n",
			   tagrv_iov_len(req->iov, req->iov_cnt),
			   TAGRV_MAX_MSG);
	else if (ret == -FI_EINVAL)
		tagrv_warn("a send to address number %llu: the address vector "
			   "has no such entry, or it was removed\n",
			   (unsigned long long) req->dest);
	return ret;
}

ssize_t tagrv_explain_recv(const struct tagrv_recv_req *req, ssize_t ret)
{
	if (ret == -FI_EINVAL)
		tagrv_warn("a receive from address number %llu: the address "
			   "vector has no such entry, or it was removed\n",
			   (unsigned long long) req->src);
	return ret;
}
