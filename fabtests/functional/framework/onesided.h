/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Describes one read, write or atomic operation, and posts it by any of libfabric's calls.
 */
#ifndef FUNCTIONAL_ONESIDED_H
#define FUNCTIONAL_ONESIDED_H

#include "completion.h"
#include "message.h"

enum onesided_kind { DO_PUT, DO_GET, DO_ATOMIC, DO_FETCH, DO_COMPARE };

enum { ONESIDED_IOV_MAX = 8 };

/*
 * Lengths are bytes, those of atomics, too. With CALL_BUF, CALL_DATA and both injects the
 * one local segment is 'buf' and the one remote segment begins at 'at'.
 */
struct onesided {
	enum onesided_kind kind;
	enum msg_call call;
	void *buf;		/* used when iov is NULL; operand of an atomic, which
				   FI_ATOMIC_READ ignores and may lack */
	size_t len;
	const struct iovec *iov;
	size_t iov_count;
	fi_addr_t addr;
	uint64_t at;		/* used when remote is NULL */
	uint64_t key;
	const struct fi_rma_iov *remote;	/* CALL_MSG only, as the flags */
	size_t remote_count;
	uint64_t data;
	uint64_t flags;
	void *ctx;
	/* atomics */
	enum fi_datatype type;
	enum fi_op op;
	void *result;		/* DO_FETCH and DO_COMPARE: as long as the operand */
	const struct iovec *result_iov;	/* used instead, if not NULL */
	size_t result_count;
	const void *compare;	/* DO_COMPARE */
	const struct iovec *compare_iov;
	size_t compare_count;
};

/* One attempt; returns the value of the call. */
ssize_t onesided_try(struct fid_ep *ep, const struct onesided *o);

/* Repeats on -FI_EAGAIN, with progress; another error fails the case. */
void onesided_post(struct fx *fx, const struct onesided *o);

#define ONESIDED(fx, ...) onesided_post((fx), &(struct onesided){ __VA_ARGS__ })
#define TRY_ONESIDED(fx, ...) onesided_try((fx)->ep, &(struct onesided){ __VA_ARGS__ })

/* Flags of the completion of an operation of this kind. */
uint64_t onesided_did(enum onesided_kind kind);

const char *onesided_name(enum onesided_kind kind);

#endif
