/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of the tests of rendezvous by copies: test_copy*.c.
 */
#ifndef FABTESTS_UNIT_PROTO_RNDV_COPY_CALLS_H
#define FABTESTS_UNIT_PROTO_RNDV_COPY_CALLS_H

#include <string.h>

#include "unit/proto/rndv/rndv_fixture.h"

#define FRAG	(FAKE_PACKET_MAX - sizeof(struct tagrv_hdr))	/* bytes of a fragment */
#define CNT	20			/* fragments of a message, the last one is shorter */
#define BIG	(CNT * FRAG - 100)	/* bytes of a message */
#define DEPTH	8			/* fragments that may be granted ahead */

/* The last packet is a CTS: returns the bytes granted, and in *taker the receive's handle. */
static inline size_t cts_of(uint32_t handle, size_t want, uint32_t *taker)
{
	struct tagrv_hdr hdr = last(TAGRV_PKT_CTS);
	struct tagrv_cts cts;

	cr_assert_eq(fake.log[fake.log_cnt - 1].len, sizeof(hdr) + sizeof(cts));
	cr_assert(fake.log[fake.log_cnt - 1].flags & TAGRV_SEND_CTRL);
	memcpy(&cts, fake.log[fake.log_cnt - 1].data + sizeof(hdr), sizeof(cts));
	cr_assert_eq(hdr.op, handle);
	cr_assert_eq(le64toh(cts.want), want);
	*taker = le32toh(cts.op);
	return hdr.data;
}

/* Fragment i of a message of 'want' bytes arrives. */
static inline void frag(uint32_t taker, size_t i, size_t want)
{
	arrive_frag(taker, i * FRAG, src + i * FRAG,
		    TAGRV_MIN(FRAG, want - i * FRAG));
}

/* Sends BIG bytes that cannot be registered; returns the handle. */
static inline uint32_t announce(uint64_t flags)
{
	struct tagrv_hdr hdr;

	fake.reg_error = -FI_ENOMEM;
	cr_assert_eq(submit_send(src, BIG, 4, ctx, flags), 0);
	fake.reg_error = 0;
	hdr = last(TAGRV_PKT_RTS);
	cr_assert_eq(fake.log[fake.log_cnt - 1].len, 32 + 16);
	return hdr.op;
}

#endif
