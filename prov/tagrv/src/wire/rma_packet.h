/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Layouts of the packets of one-sided operations; docs/wire_protocol.md section 1.10.
 * packet.h has their opcodes and the header, in which
 *
 *   op     handle of the operation that the initiator has begun; STORE: 0 if it is counted;
 *          VIEW, RECALL, SHOW: id of the view, which the initiator has chosen; COUNT: how
 *          many have ended well
 *   tag    PUT, ATOMIC, PULL, VIEW, STORE, SHOW: key of the target's memory
 *   flags  enum tagrv_rma_flags
 *   seq    ATOMIC: enum tagrv_rma_kind, enum fi_datatype, enum fi_op, a byte each; GET:
 *          see TAGRV_RMA_VIEW; COUNT: how many have failed; VIEW: what the initiator may do,
 *          the sum of TAGRV_MEM_READ, TAGRV_MEM_WRITE and TAGRV_MEM_ATOMIC; 0: nothing
 *   data   PUT, ATOMIC, PULL: remote CQ data, if there are any; STORE: address in the
 *          target's memory, and the bytes to write are behind the header; SHOW: address in
 *          it; COUNT: FI_E* status of those that have failed, else 0; VIEW: 0, or why there
 *          is none, as the status of a FIN
 *
 * All fields are little-endian, but for the tag.
 */
#ifndef TAGRV_WIRE_RMA_PACKET_H
#define TAGRV_WIRE_RMA_PACKET_H

#include <assert.h>
#include <stdint.h>

#include "wire/packet.h"

enum tagrv_rma_flags {
	TAGRV_RMA_MORE	= 1 << 0,	/* PUT, ATOMIC: the next packet of this kind belongs
					   to the same operation */
	TAGRV_RMA_DATA	= 1 << 1,	/* hdr.data is remote CQ data */
	TAGRV_RMA_KEYS	= 1 << 2,	/* GET: the initiator may be told to read by itself */
	TAGRV_RMA_VIEW	= 1 << 3,	/* GET: the initiator wants to see the window; hdr.seq
					   is the view's id, not 0 */
	TAGRV_RMA_MUST	= 1 << 0,	/* SHOW: an atomic waits for the VIEW, which is sent
					   in any case: without rights if it is refused */
	TAGRV_RMA_READY	= 1 << 0,	/* SIDE: the sender's link is bound */
	TAGRV_RMA_OFF	= 1 << 1,	/* SIDE: the sender's link is closed */
};

/* Behind the header of a PUT; the bytes to write follow. */
struct tagrv_rma_put {
	uint64_t addr;
};
static_assert(sizeof(struct tagrv_rma_put) == 8, "fixed part of a PUT");

/*
 * Behind the header of an ATOMIC. Operands follow, none for FI_ATOMIC_READ, and as many
 * elements to compare with for a COMPARE.
 */
struct tagrv_rma_atomic {
	uint64_t addr;
	uint64_t len;		/* bytes of the target, whole elements */
};
static_assert(sizeof(struct tagrv_rma_atomic) == 16, "fixed part of an ATOMIC");

/* Behind the header of a GET: one to TAGRV_IOV_MAX of these. */
struct tagrv_rma_range {
	uint64_t addr;
	uint64_t len;
	uint64_t key;
};
static_assert(sizeof(struct tagrv_rma_range) == 24, "range of a GET");

/*
 * Behind the header of a PULL or VIEW; seg_cnt struct tagrv_rts_seg follow: where to read
 * the bytes.
 */
struct tagrv_rma_source {
	uint64_t addr;		/* PULL: where they go to; VIEW: the window's first byte */
	uint64_t len;
	uint8_t	seg_cnt;	/* 1 to TAGRV_IOV_MAX */
	uint8_t	key_len;	/* bytes used of each key */
	uint8_t	zero[6];
};
static_assert(sizeof(struct tagrv_rma_source) == 24, "fixed part of a PULL");
static_assert(sizeof(struct tagrv_hdr) + sizeof(struct tagrv_rma_source) +
	      TAGRV_IOV_MAX * sizeof(struct tagrv_rts_seg) <= TAGRV_HDR_ROOM,
	      "every link takes it");

#endif
