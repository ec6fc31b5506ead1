/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests: what the API asks an endpoint to send or to receive.
 *
 * A request lives on the caller's stack; what has to outlive the call is copied
 * into a struct tagrv_op.
 */
#ifndef TAGRV_OBJECT_REQUEST_H
#define TAGRV_OBJECT_REQUEST_H

#include <rdma/fi_endpoint.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct tagrv_mem;

struct tagrv_send_req {
	const struct iovec *iov;
	size_t	iov_cnt;	/* <= TAGRV_IOV_MAX, checked by the caller */
	struct tagrv_mem **mem;	/* registration of each iov, or NULL */
	fi_addr_t dest;
	uint64_t tag;
	uint64_t data;		/* with FI_REMOTE_CQ_DATA in flags */
	void	*context;
	/*
	 * FI_REMOTE_CQ_DATA;
	 * FI_INJECT: the buffers are free on return; the caller has checked that
	 * they are at most TAGRV_INJECT_MAX bytes;
	 * one of FI_INJECT_COMPLETE, FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE,
	 * FI_MATCH_COMPLETE;
	 * FI_COMPLETION: success is reported;
	 * FI_FENCE: the send starts when all sends to this peer that were accepted
	 * earlier have ended;
	 * FI_MORE: the send may wait for the next send to this peer that does not
	 * have the flag, at most until progress is made.
	 */
	uint64_t flags;
	uint8_t	space;		/* enum tagrv_match_space */
	bool	no_context;	/* fi_inject family: no completion at all */
};

struct tagrv_recv_req {
	const struct iovec *iov;
	size_t	iov_cnt;	/* <= TAGRV_IOV_MAX, checked by the caller */
	struct tagrv_mem **mem;	/* registration of each iov, or NULL */
	fi_addr_t src;		/* or FI_ADDR_UNSPEC */
	uint64_t tag;
	uint64_t ignore;
	void	*context;
	/* FI_PEEK, FI_CLAIM, FI_DISCARD, FI_MULTI_RECV, FI_COMPLETION */
	uint64_t flags;
	uint8_t	space;		/* enum tagrv_match_space */
};

#endif
