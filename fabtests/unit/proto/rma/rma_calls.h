/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of the tests that look at packets byte by byte, on top of onesided_fixture.h. Here
 * each test ends with its connection, and nothing of it may be left then.
 */
#ifndef FABTESTS_UNIT_PROTO_RMA_RMA_CALLS_H
#define FABTESTS_UNIT_PROTO_RMA_RMA_CALLS_H

#include "unit/proto/rma/onesided_fixture.h"

#define BASE	UINT64_C(0x10000)	/* address of the window's first byte */
#define LEN	((size_t) 100000)	/* bytes of the window */
#define HDR	sizeof(struct tagrv_hdr)
#define FRAG	(FAKE_PACKET_MAX - HDR)	/* most bytes behind a header */
#define DATA	UINT64_C(0x1122334455667788)	/* remote CQ data, of both sides */
#define PEER_OP	77			/* handle of the peer's operation */

extern char *read_to;			/* LEN zeros, and one more byte */
extern char contexts[128];		/* of operations */
extern struct tagrv_counter was_read, was_written;	/* of the window */
/* What the last request of req_of() or atomic_of() consists of. */
extern struct parts {
	struct fi_rma_iov remote;
	struct iovec iov, result, compare;
} parts;

void window_setup(void);
void window_teardown(void);

/* ---- requests ---- */

/* Reads to read_to, and writes from 'mine'; edit, then submit. */
struct tagrv_rma_req req_of(enum tagrv_rma_kind kind, size_t len, void *context);
/* FI_SUM or FI_CSWAP on uint64_t, as many as len bytes have; former values go to read_to. */
struct tagrv_rma_req atomic_req(enum tagrv_rma_kind kind, size_t len, void *context);
int submit_req(const struct tagrv_rma_req *req);
int submit_rma(enum tagrv_rma_kind kind, size_t len, void *context);
int submit_atomic(enum tagrv_rma_kind kind, size_t len, void *context);

/* ---- what was sent ---- */

/* Body of recorded packet i, its length, and a word of it in host order. */
const uint8_t *body_of(size_t i);
size_t body_len(size_t i);
uint64_t word_of(size_t i, size_t offset);
/* Recorded packet i is a FIN with this handle and FI_E* status, and the last one. */
void expect_fin(size_t i, uint32_t op, uint32_t status);
/* Ends gets until no further one is posted; returns how many. */
size_t end_gets(int status);
/* Serves until nothing more is sent. */
void serve_all(void);

/* One packet was refused, and the connection with it. */
void expect_given_up(void);
/* Nothing has been refused so far, and the connection lives. */
void expect_fine(void);
/* The one completion that is there: of this operation, with this FI_E*. */
void expect_end(void *context, int err);
uint64_t counted(struct tagrv_counter *cntr);

#endif
