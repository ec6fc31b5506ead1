/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An engine with a connected peer, a window that the peer may access, requests of this
 * side, and packets as the peer would send them.
 */
#ifndef FABTESTS_UNIT_PROTO_RMA_ONESIDED_FIXTURE_H
#define FABTESTS_UNIT_PROTO_RMA_ONESIDED_FIXTURE_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <string.h>

#include "common/engine_fixture.h"
#include "object/mrtab.h"
#include "proto/rma/rma_priv.h"

#define KEY	UINT64_C(0x1234)	/* of the window; its addresses begin at 0 */
#define LONG	((size_t) 3 << 20)	/* bytes that one side reads by itself */

extern char rma_ctx[64];			/* contexts of operations */
extern char *mine;			/* LONG bytes of this side, no two pages are alike */
extern char *open_mem;			/* LONG bytes, the memory of the window */
extern struct tagrv_window window;
/* Counters of the endpoint. */
extern struct tagrv_counter reads, writes, remote_reads, remote_writes;

void onesided_setup(void);
void onesided_teardown(void);

/* The only peer. */
struct tagrv_peer *the_peer(void);

/* A request on [0, len) of a window of the peer, from or to 'mine'; edit, then submit. */
struct tagrv_rma_req rma_req(enum tagrv_rma_kind kind, size_t len, void *context);
int submit(const struct tagrv_rma_req *req);
/* The same at once, which must be accepted. */
void post(enum tagrv_rma_kind kind, size_t len, void *context);

/* Packets of the peer. */
void arrive_get(uint32_t handle, uint64_t addr, uint64_t len, uint16_t flags);
void arrive_put(uint32_t handle, uint64_t addr, const void *buf, size_t len,
		uint16_t flags);
/* On FI_UINT64. What a COMPARE compares with stands behind its operands. */
void arrive_atomic(uint32_t handle, enum tagrv_rma_kind kind, enum fi_op op,
		   uint64_t addr, const void *operands, size_t cnt, uint16_t flags);
void arrive_pull(uint32_t handle, uint64_t addr, size_t len, const void *from);
void arrive_answer(uint32_t handle, const void *buf, size_t len);
/* Keys of len bytes at buf. */
void arrive_keys(uint32_t handle, const void *buf, size_t len, uint32_t lender);

/* How many packets with this opcode were sent. */
size_t sent(uint8_t opcode);
/* The header of the one with this number among them; the number in the log to *at. */
struct tagrv_hdr sent_nr(uint8_t opcode, size_t nr, size_t *at);
/* Counts of tagrv_engine::stats: of operations, and of all their bytes. */
void expect_begun(enum tagrv_rma_kind kind, uint64_t ops, uint64_t bytes);
void expect_served(enum tagrv_rma_kind kind, uint64_t ops, uint64_t bytes);

/* How many gets of the transport were posted that have not ended. */
size_t in_flight(void);

#endif
