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
#include <rdma/fi_rma.h>
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

enum tagrv_rma_kind {
	TAGRV_RMA_WRITE,
	TAGRV_RMA_READ,
	TAGRV_RMA_ATOMIC,	/* fi_atomic */
	TAGRV_RMA_FETCH,	/* fi_fetch_atomic */
	TAGRV_RMA_COMPARE,	/* fi_compare_atomic */
	TAGRV_RMA_KINDS
};

/*
 * One-sided operation. All lengths are bytes, those of atomics, too, and whole elements
 * there. The caller has checked the numbers of segments, that the local and the remote
 * bytes are as many, and that the atomic operation is valid.
 */
struct tagrv_rma_req {
	uint8_t	kind;		/* enum tagrv_rma_kind */
	uint8_t	datatype, op;	/* atomics: enum fi_datatype, enum fi_op */
	bool	no_context;	/* inject family: no completion at all */
	/* Destination of a read; source of a write; operands of an atomic, none with
	 * FI_ATOMIC_READ. */
	const struct iovec *iov;
	size_t	iov_cnt;	/* <= TAGRV_IOV_MAX, as all counts here */
	struct tagrv_mem **mem;	/* registration of each iov, or NULL */
	const struct iovec *result;	/* FETCH, COMPARE: the former values */
	size_t	result_cnt;
	const struct iovec *compare;	/* COMPARE */
	size_t	compare_cnt;
	const struct fi_rma_iov *remote;
	size_t	remote_cnt;
	fi_addr_t dest;
	uint64_t data;		/* with FI_REMOTE_CQ_DATA in flags */
	void	*context;
	/* As tagrv_send_req::flags, without FI_MATCH_COMPLETE. */
	uint64_t flags;
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
