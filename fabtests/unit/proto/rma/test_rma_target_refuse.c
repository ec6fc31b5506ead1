/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Target: PUTs and ATOMICs that make no sense end the connection, and change nothing.
 */
#include "unit/proto/rma/rma_calls.h"

TestSuite(target_refuse, .init = window_setup, .fini = window_teardown, .timeout = 20);

struct raw {
	struct tagrv_hdr hdr;
	uint64_t addr, len;
	uint64_t operands[600];
};

/* The packet of 'len' bytes ends the connection, and nothing is written. */
static void expect_nonsense(const struct raw *raw, size_t len, const char *what)
{
	static uint64_t refused;

	fake_deliver(fx.link, raw, len);
	cr_expect_eq(fx.engine->stats.bad_packets, ++refused, "%s", what);
	cr_expect_eq(fake.links, 0, "%s", what);
	cr_expect_eq(fake.log_cnt, 0, "%s", what);
	for (size_t i = 0; i < 8192; i++)
		cr_assert_eq(open_mem[i], 0, "%s", what);
	if (!fake.links)
		peer_up(true);
}

Test(target_refuse, malformed_puts_are_refused)
{
	struct raw raw = {
		.hdr.opcode = TAGRV_PKT_PUT, .hdr.op = htole32(1),
		.hdr.tag = htobe64(KEY), .addr = htole64(BASE), .len = ~UINT64_C(0),
	};
	const size_t whole = HDR + 16;

	expect_nonsense(&raw, HDR, "no address");
	expect_nonsense(&raw, HDR + 7, "half an address");
	raw.hdr.op = 0;
	expect_nonsense(&raw, whole, "no handle");
	raw.hdr.op = htole32(1);
	raw.hdr.flags = htole16(TAGRV_RMA_KEYS);
	expect_nonsense(&raw, whole, "a flag of others");
	raw.hdr.flags = htole16(1 << 4);
	expect_nonsense(&raw, whole, "an unknown flag");
}

Test(target_refuse, malformed_atomics_are_refused)
{
	struct raw raw = {
		.hdr.opcode = TAGRV_PKT_ATOMIC, .hdr.op = htole32(1),
		.hdr.tag = htobe64(KEY), .addr = htole64(BASE), .len = htole64(8),
		.operands = { 1, 1, 1 },
	};
	const size_t whole = HDR + 16 + 8;

#define SEQ(kind, type, op) htole32((kind) | (uint32_t) (type) << 8 | \
				    (uint32_t) (op) << 16)
#define WITH(field, value, len_, what) do { \
		struct raw with = raw; \
		with.hdr.seq = SEQ(TAGRV_RMA_ATOMIC, FI_UINT64, FI_SUM); \
		with.field = value; \
		expect_nonsense(&with, len_, what); \
	} while (0)
	WITH(hdr.op, 0, whole, "no handle");
	WITH(hdr.flags, htole16(TAGRV_RMA_KEYS), whole, "a flag of others");
	WITH(addr, htole64(BASE), HDR + 15, "no length");
	WITH(hdr.seq, SEQ(TAGRV_RMA_READ, FI_UINT64, FI_SUM), whole, "a read");
	WITH(hdr.seq, SEQ(TAGRV_RMA_KINDS, FI_UINT64, FI_SUM), whole, "no kind");
	WITH(hdr.seq, SEQ(255, FI_UINT64, FI_SUM), whole, "no kind");
	WITH(hdr.seq, SEQ(TAGRV_RMA_ATOMIC, 255, FI_SUM), whole, "no datatype");
	WITH(hdr.seq, SEQ(TAGRV_RMA_ATOMIC, FI_UINT64, 255), whole, "no operation");
	WITH(hdr.seq, SEQ(TAGRV_RMA_ATOMIC, FI_DOUBLE, FI_BXOR), whole,
	     "no operation of this datatype");
	WITH(hdr.seq, SEQ(TAGRV_RMA_ATOMIC, FI_UINT64, FI_CSWAP), whole,
	     "no operation of this kind");
	WITH(len, htole64(7), HDR + 16 + 7, "a part of an element");
	WITH(len, htole64(16), whole, "too few operands");
	WITH(len, 0, whole, "too many operands");
	WITH(len, htole64(4096), HDR + 16 + 4096, "too many elements");
	WITH(len, htole64(UINT64_MAX - 7), whole, "far too many elements");
	WITH(hdr.seq, SEQ(TAGRV_RMA_COMPARE, FI_UINT64, FI_CSWAP), whole,
	     "nothing to compare with");
	WITH(hdr.seq, SEQ(TAGRV_RMA_FETCH, FI_UINT64, FI_ATOMIC_READ), whole,
	     "operands of a read");
#undef WITH
}
