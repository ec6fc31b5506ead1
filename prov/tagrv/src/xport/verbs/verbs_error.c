/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a completion means. The status of a work request becomes the status of its link:
 *
 *   retries or RNR retries exceeded,
 *   response time-out                   -FI_EHOSTUNREACH  the peer, or the path
 *                                       to it, is dead
 *   flushed                             -FI_ECONNRESET    the queue pair broke
 *                                       for a reason that no completion shows
 *   remote invalid request, remote
 *   operation, remote abort,
 *   bad response                        -FI_EREMOTEIO     the peer's device
 *                                       refused: protocol error, or its queue
 *                                       pair is broken
 *   remote access                       -FI_EACCES        the peer's memory is
 *                                       not registered (any more)
 *   local protection, access, bind      -FI_EFAULT        local memory is not
 *                                       registered
 *   local length                        -FI_EMSGSIZE      a packet exceeds the
 *                                       receive buffer
 *   local queue pair operation          -FI_ENETDOWN      the local port is not
 *                                       active (seen with rxe), else -FI_EIO
 *   all others                          -FI_EIO
 *
 * Only the first error of a link counts: requests that are flushed after it end
 * with its status.
 *
 * And the receive of a packet may be named as that of something else.
 */
#include <rdma/fi_errno.h>

#include "xport/verbs/verbs_poll.h"

bool tagrv_verbs_is_misnamed(const struct verbs_link *link, const struct ibv_wc *wc)
{
	const struct verbs_xport *xp = (const struct verbs_xport *) link->base.xport;

	return wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM && link->rxq &&
	       verbs_misnames(&xp->dev->attr);
}

static int local_error(const struct verbs_dev *dev)
{
	struct ibv_port_attr port = { 0 };

	if (!dev->calls->query_port(dev->ctx, dev->port_num, &port) &&
	    port.state != IBV_PORT_ACTIVE)
		return -FI_ENETDOWN;
	return -FI_EIO;
}

int tagrv_verbs_wc_status(const struct verbs_dev *dev, const struct ibv_wc *wc)
{
	switch (wc->status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return -FI_EHOSTUNREACH;
	case IBV_WC_WR_FLUSH_ERR:
		return -FI_ECONNRESET;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_ABORT_ERR:
	case IBV_WC_BAD_RESP_ERR:
		return -FI_EREMOTEIO;
	case IBV_WC_REM_ACCESS_ERR:
		return -FI_EACCES;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
	case IBV_WC_MW_BIND_ERR:
		return -FI_EFAULT;
	case IBV_WC_LOC_LEN_ERR:
		return -FI_EMSGSIZE;
	case IBV_WC_LOC_QP_OP_ERR:
		return local_error(dev);
	default:
		return -FI_EIO;
	}
}

const char *tagrv_verbs_wc_hint(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return "the peer does not answer";
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return "the peer has no receive buffers";
	case IBV_WC_WR_FLUSH_ERR:
		return "the queue pair broke";
	case IBV_WC_REM_ACCESS_ERR:
		return "the peer's memory is not registered";
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return "local memory is not registered";
	case IBV_WC_LOC_QP_OP_ERR:
		return "the local port or its address may be down";
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return "the peer's device refused the request";
	default:
		return "see the device's log";
	}
}
