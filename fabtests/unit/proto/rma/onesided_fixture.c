/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Fixture of the tests of one-sided operations: see onesided_fixture.h.
 */
#include "unit/proto/rma/onesided_fixture.h"

#include <inttypes.h>
#include <stdlib.h>

char rma_ctx[64];
char *mine, *open_mem;
struct tagrv_window window;
struct tagrv_counter reads, writes, remote_reads, remote_writes;

static void set_counters(void)
{
	struct tagrv_engine_sinks sinks = fx.engine->sinks;
	struct tagrv_counter *const all[] = {
		&reads, &writes, &remote_reads, &remote_writes,
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(all); i++)
		cr_assert_eq(tagrv_counter_init(all[i], false), 0);
	sinks.read_cntr = &reads;
	sinks.write_cntr = &writes;
	sinks.remote_read_cntr = &remote_reads;
	sinks.remote_write_cntr = &remote_writes;
	tagrv_engine_set_sinks(fx.engine, &sinks);
}

void onesided_setup(void)
{
	engine_setup();
	set_counters();
	fx.engine->attr.serves = FI_REMOTE_READ | FI_REMOTE_WRITE;
	mine = malloc(LONG);
	for (size_t i = 0; i < LONG; i++)
		mine[i] = (char) (i * 7 + (i >> 9) + 1);
	open_mem = calloc(1, LONG);
	window = (struct tagrv_window) {
		.key = KEY, .len = LONG, .access = FI_REMOTE_READ | FI_REMOTE_WRITE,
		.enabled = true, .iov_cnt = 1, .iov = { { open_mem, LONG } },
	};
	cr_assert_eq(tagrv_window_add(fx.dom, &window), 0);
	peer_up(true);
}

void onesided_teardown(void)
{
	engine_close();
	if (fx.dom->windows.cnt)
		tagrv_window_remove(fx.dom, &window);
	engine_teardown();
	tagrv_counter_fini(&reads);
	tagrv_counter_fini(&writes);
	tagrv_counter_fini(&remote_reads);
	tagrv_counter_fini(&remote_writes);
	free(mine);
	free(open_mem);
}

struct tagrv_peer *the_peer(void)
{
	return fx.engine->table.peers[0];
}

/* ---- requests ---- */

static struct iovec iov;
static struct fi_rma_iov remote;

struct tagrv_rma_req rma_req(enum tagrv_rma_kind kind, size_t len, void *context)
{
	iov = (struct iovec) { mine, len };
	remote = (struct fi_rma_iov) { .addr = 0, .len = len, .key = KEY };
	return (struct tagrv_rma_req) {
		.kind = (uint8_t) kind,
		.datatype = FI_UINT64,
		.op = kind == TAGRV_RMA_COMPARE ? FI_CSWAP : FI_SUM,
		.iov = &iov,
		.iov_cnt = 1,
		.result = &iov,
		.result_cnt = kind == TAGRV_RMA_FETCH || kind == TAGRV_RMA_COMPARE,
		.compare = &iov,
		.compare_cnt = kind == TAGRV_RMA_COMPARE,
		.remote = &remote,
		.remote_cnt = 1,
		.dest = fx.peer_addr,
		.context = context,
		.flags = FI_COMPLETION,
	};
}

int submit(const struct tagrv_rma_req *req)
{
	return (int) tagrv_engine_rma(fx.engine, req);
}

void post(enum tagrv_rma_kind kind, size_t len, void *context)
{
	const struct tagrv_rma_req req = rma_req(kind, len, context);

	cr_assert_eq(submit(&req), 0);
}

/* ---- packets of the peer ---- */

static struct tagrv_hdr header(uint8_t opcode, uint32_t handle, uint16_t flags)
{
	return (struct tagrv_hdr) {
		.opcode = opcode,
		.op = htole32(handle),
		.tag = htobe64(KEY),
		.flags = htole16(flags),
		.data = htole64(0x1122334455667788),
	};
}

static void arrive(const struct tagrv_hdr *hdr, const void *fixed, size_t fixed_len,
		   const void *buf, size_t len)
{
	static char packet[1 << 16];

	cr_assert_leq(sizeof(*hdr) + fixed_len + len, sizeof(packet));
	memcpy(packet, hdr, sizeof(*hdr));
	if (fixed_len)
		memcpy(packet + sizeof(*hdr), fixed, fixed_len);
	if (len)
		memcpy(packet + sizeof(*hdr) + fixed_len, buf, len);
	fake_deliver(fx.link, packet, sizeof(*hdr) + fixed_len + len);
}

void arrive_get(uint32_t handle, uint64_t addr, uint64_t len, uint16_t flags)
{
	const struct tagrv_hdr hdr = header(TAGRV_PKT_GET, handle, flags);
	const struct tagrv_rma_range range = {
		htole64(addr), htole64(len), htole64(KEY),
	};

	arrive(&hdr, &range, sizeof(range), NULL, 0);
}

void arrive_put(uint32_t handle, uint64_t addr, const void *buf, size_t len,
		uint16_t flags)
{
	const struct tagrv_hdr hdr = header(TAGRV_PKT_PUT, handle, flags);
	const struct tagrv_rma_put put = { htole64(addr) };

	arrive(&hdr, &put, sizeof(put), buf, len);
}

void arrive_atomic(uint32_t handle, enum tagrv_rma_kind kind, enum fi_op op,
		   uint64_t addr, const void *operands, size_t cnt, uint16_t flags)
{
	struct tagrv_hdr hdr = header(TAGRV_PKT_ATOMIC, handle, flags);
	const size_t len = cnt * sizeof(uint64_t);
	const size_t lists = !operands ? 0 : kind == TAGRV_RMA_COMPARE ? 2 : 1;
	const struct tagrv_rma_atomic atomic = { htole64(addr), htole64(len) };

	hdr.seq = htole32(kind | (uint32_t) FI_UINT64 << 8 | (uint32_t) op << 16);
	arrive(&hdr, &atomic, sizeof(atomic), operands, lists * len);
}

void arrive_pull(uint32_t handle, uint64_t addr, size_t len, const void *from)
{
	const struct tagrv_hdr hdr = header(TAGRV_PKT_PULL, handle, 0);
	const struct tagrv_rma_source pull = {
		.addr = htole64(addr), .len = htole64(len), .seg_cnt = 1, .key_len = 4,
	};
	const struct tagrv_rts_seg seg = {
		.addr = htole64((uintptr_t) from), .len = htole64(len),
	};

	arrive(&hdr, &pull, sizeof(pull), &seg, sizeof(seg));
}

void arrive_answer(uint32_t handle, const void *buf, size_t len)
{
	const struct tagrv_hdr hdr = header(TAGRV_PKT_ANSWER, handle, 0);

	arrive(&hdr, NULL, 0, buf, len);
}

void arrive_keys(uint32_t handle, const void *buf, size_t len, uint32_t lender)
{
	const struct tagrv_hdr hdr = header(TAGRV_PKT_KEYS, handle, 0);
	const struct tagrv_cts cts = {
		.want = htole64(len), .op = htole32(lender), .seg_cnt = 1, .key_len = 4,
	};
	const struct tagrv_rts_seg seg = {
		.addr = htole64((uintptr_t) buf), .len = htole64(len),
	};

	arrive(&hdr, &cts, sizeof(cts), &seg, sizeof(seg));
}

/* ---- what was sent ---- */

size_t sent(uint8_t opcode)
{
	size_t cnt = 0;

	for (size_t i = 0; i < fake.log_cnt; i++)
		cnt += fake.log[i].kind == FAKE_SEND &&
		       packet_header(i).opcode == opcode;
	return cnt;
}

struct tagrv_hdr sent_nr(uint8_t opcode, size_t nr, size_t *at)
{
	cr_assert_lt(nr, sent(opcode), "%zu packets %u were sent", sent(opcode), opcode);
	for (size_t i = 0;; i++)
		if (fake.log[i].kind == FAKE_SEND && packet_header(i).opcode == opcode &&
		    !nr--) {
			if (at)
				*at = i;
			return packet_header(i);
		}
}

size_t in_flight(void)
{
	size_t cnt = 0;

	for (size_t i = 0; i < fake.log_cnt; i++)
		cnt += fake.log[i].kind == FAKE_GET && !fake.log[i].ended;
	return cnt;
}

static void expect_sum(const struct tagrv_rma_sums *sums, enum tagrv_rma_kind kind, uint64_t ops,
		       uint64_t bytes)
{
	cr_expect_eq(sums->ops[kind], ops, "%" PRIu64 " operations", sums->ops[kind]);
	cr_expect_eq(sums->bytes[kind], bytes, "%" PRIu64 " bytes", sums->bytes[kind]);
}

void expect_begun(enum tagrv_rma_kind kind, uint64_t ops, uint64_t bytes)
{
	expect_sum(&fx.engine->stats.rma_tx, kind, ops, bytes);
}

void expect_served(enum tagrv_rma_kind kind, uint64_t ops, uint64_t bytes)
{
	expect_sum(&fx.engine->stats.rma_rx, kind, ops, bytes);
}
