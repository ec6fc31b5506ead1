/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls of the tests of one-sided operations: see rma_calls.h.
 */
#include "unit/proto/rma/rma_calls.h"

#include <stdlib.h>

char *read_to, contexts[128];
struct tagrv_counter was_read, was_written;
struct parts parts;

void window_setup(void)
{
	onesided_setup();
	read_to = calloc(1, LEN + 1);
	cr_assert_eq(tagrv_counter_init(&was_read, false), 0);
	cr_assert_eq(tagrv_counter_init(&was_written, false), 0);
	window.base = BASE;
	window.len = LEN;
	window.iov[0].iov_len = LEN;
	window.read_cntr = &was_read;
	window.write_cntr = &was_written;
}

static void expect_empty_pools(void)
{
	const struct tagrv_engine *engine = fx.engine;

	cr_expect_eq(engine->pools.tx_ops.used, 0);
	cr_expect_eq(engine->pools.rmas.used, 0);
	cr_expect_eq(engine->pools.rndvs.used, 0);
	cr_expect_eq(engine->pools.pieces.used, 0);
	cr_expect_eq(engine->pools.answers.used, 0);
	cr_expect_eq(engine->pools.acks.used, 0);
	cr_expect_eq(engine->pools.uses.used, 0);
	for (size_t i = 0; i < TAGRV_BUF_CLASSES; i++)
		cr_expect_eq(engine->pools.bufs[i].used, 0, "class %zu", i);
	cr_expect_eq(engine->lent, 0);
}

static void expect_idle_peers(void)
{
	for (size_t i = 0; i < fx.engine->table.cnt; i++) {
		const struct tagrv_peer *peer = fx.engine->table.peers[i];

		cr_expect_eq(peer->sent, 0);
		cr_expect_eq(peer->sent_msgs, 0);
		cr_expect(tagrv_peer_is_idle(peer));
	}
}

void window_teardown(void)
{
	if (fx.engine && fake.closing_cnt < fake.links)
		fake_break_link(fx.link, -FI_ECONNRESET);
	fake_close_held();
	if (fx.engine) {
		expect_empty_pools();
		expect_idle_peers();
	}
	cr_expect_eq(read_to[LEN], 0);
	cr_expect_eq(open_mem[LEN], 0);
	free(read_to);
	tagrv_counter_fini(&was_read);
	tagrv_counter_fini(&was_written);
	onesided_teardown();
}

/* ---- requests ---- */

struct tagrv_rma_req req_of(enum tagrv_rma_kind kind, size_t len, void *context)
{
	parts.remote = (struct fi_rma_iov) { BASE, len, KEY };
	parts.iov = (struct iovec) { kind == TAGRV_RMA_READ ? read_to : mine, len };
	return (struct tagrv_rma_req) {
		.kind = (uint8_t) kind,
		.iov = &parts.iov, .iov_cnt = 1,
		.remote = &parts.remote, .remote_cnt = 1,
		.dest = fx.peer_addr,
		.data = DATA,
		.context = context,
		.flags = FI_COMPLETION,
	};
}

struct tagrv_rma_req atomic_req(enum tagrv_rma_kind kind, size_t len, void *context)
{
	struct tagrv_rma_req req = req_of(kind, len, context);

	parts.result = (struct iovec) { read_to, len };
	parts.compare = (struct iovec) { mine + LEN - len, len };
	req.datatype = FI_UINT64;
	req.op = kind == TAGRV_RMA_COMPARE ? FI_CSWAP : FI_SUM;
	req.result = &parts.result;
	req.result_cnt = kind != TAGRV_RMA_ATOMIC;
	req.compare = &parts.compare;
	req.compare_cnt = kind == TAGRV_RMA_COMPARE;
	return req;
}

int submit_req(const struct tagrv_rma_req *req)
{
	int ret = submit(req);

	fake_end_closed();
	return ret;
}

int submit_rma(enum tagrv_rma_kind kind, size_t len, void *context)
{
	struct tagrv_rma_req req = req_of(kind, len, context);

	return submit_req(&req);
}

int submit_atomic(enum tagrv_rma_kind kind, size_t len, void *context)
{
	struct tagrv_rma_req req = atomic_req(kind, len, context);

	return submit_req(&req);
}

/* ---- what was sent ---- */

const uint8_t *body_of(size_t i)
{
	cr_assert_lt(i, fake.log_cnt, "packet %zu was sent", i);
	return fake.log[i].data + HDR;
}

size_t body_len(size_t i)
{
	cr_assert_lt(i, fake.log_cnt, "packet %zu was sent", i);
	return fake.log[i].len - HDR;
}

uint64_t word_of(size_t i, size_t offset)
{
	uint64_t word;

	cr_assert_leq(offset + sizeof(word), body_len(i));
	memcpy(&word, body_of(i) + offset, sizeof(word));
	return le64toh(word);
}

void expect_fin(size_t i, uint32_t op, uint32_t status)
{
	struct tagrv_hdr hdr = packet_header(i);

	cr_assert_eq(hdr.opcode, TAGRV_PKT_FIN, "packet %zu is %u", i, hdr.opcode);
	cr_expect_eq(hdr.op, op);
	cr_expect_eq(hdr.data, status, "status %u", (unsigned) hdr.data);
	cr_assert_eq(fake.log_cnt, i + 1);
}

size_t end_gets(int status)
{
	size_t gets = 0, before;

	do {
		before = gets;
		for (size_t i = 0; i < fake.log_cnt; i++)
			if (fake.log[i].kind == FAKE_GET && !fake.log[i].ended) {
				fake_complete(i, status);
				gets++;
			}
		tagrv_engine_progress(fx.engine);
	} while (gets != before);
	return gets;
}

void serve_all(void)
{
	size_t before;

	do {
		before = fake.log_cnt;
		tagrv_engine_progress(fx.engine);
	} while (fake.log_cnt != before);
}

void expect_given_up(void)
{
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	cr_assert_eq(fake.links, 0, "the connection is given up");
}

void expect_fine(void)
{
	cr_assert_eq(fx.engine->stats.bad_packets, 0);
	cr_assert_eq(fake.links, 1);
}

void expect_end(void *context, int err)
{
	struct tagrv_comp comp = take(&fx.tx);

	cr_expect_eq(comp.context, context);
	cr_expect_eq(comp.err, err, "status %u", (unsigned) comp.err);
	expect_empty(&fx.tx);
}

uint64_t counted(struct tagrv_counter *cntr)
{
	return atomic_load(&cntr->value);
}
