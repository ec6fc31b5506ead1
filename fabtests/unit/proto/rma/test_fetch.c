/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Initiator of long reads: KEYS, right and wrong ones.
 */
#include "unit/proto/rma/rma_calls.h"

#define LENDER	88		/* handle by which the peer lends memory */

TestSuite(rma_fetch, .init = window_setup, .fini = window_teardown, .timeout = 20);

static struct tagrv_hdr header(size_t i, uint8_t opcode)
{
	struct tagrv_hdr hdr = packet_header(i);

	cr_assert_eq(hdr.opcode, opcode, "packet %zu is %u", i, hdr.opcode);
	return hdr;
}

static uint32_t ask(size_t len, void *context)
{
	size_t i = fake.log_cnt;

	cr_assert_eq(submit_rma(TAGRV_RMA_READ, len, context), 0);
	cr_assert_eq(fake.log_cnt, i + 1);
	cr_expect_eq(header(i, TAGRV_PKT_GET).flags, TAGRV_RMA_KEYS);
	return packet_header(i).op;
}

/* Whether a read of LEN bytes says that KEYS would do. */
static bool asks_for_keys(void)
{
	struct tagrv_hdr hdr;

	cr_assert_eq(submit_rma(TAGRV_RMA_READ, LEN, contexts), 0);
	hdr = header(fake.log_cnt - 1, TAGRV_PKT_GET);
	arrive_fin(hdr.op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	return hdr.flags & TAGRV_RMA_KEYS;
}

Test(rma_fetch, keys_are_asked_for_where_they_are_of_use)
{
	cr_expect(asks_for_keys());
	fake.base.attr.caps = TAGRV_XPORT_PUT;
	cr_expect_not(asks_for_keys());
	fake.base.attr.caps = TAGRV_XPORT_GET;
	fake.base.attr.admits = TAGRV_MEM_WRITE;
	cr_expect_not(asks_for_keys());
	fake.base.attr.admits = TAGRV_MEM_READ;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, the_peer()->packet_limit, contexts), 0);
	cr_expect_eq(header(fake.log_cnt - 1, TAGRV_PKT_GET).flags, 0);
}

/* The initiator would read at any time. */
Test(rma_fetch, keys_are_not_asked_for_where_order_matters)
{
	static const uint64_t orders[] = {
		FI_ORDER_WAR, FI_ORDER_SAR, FI_ORDER_RAR, FI_ORDER_RMA_RAR,
		FI_ORDER_RMA_WAR,
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(orders); i++) {
		fx.engine->attr.order = orders[i];
		cr_expect_not(asks_for_keys());
	}
	fx.engine->attr.order = FI_ORDER_RAW | FI_ORDER_WAW | FI_ORDER_SAW;
	cr_expect(asks_for_keys());
}

Test(rma_fetch, the_initiator_reads_what_it_has_keys_of)
{
	arrive_keys(ask(LEN, contexts), mine, LEN, LENDER);
	cr_expect_gt(in_flight(), 0);
	cr_expect_eq(fake.regs, 1);
	expect_empty(&fx.tx);
	cr_expect_gt(end_gets(0), 0);
	expect_fin(fake.log_cnt - 1, LENDER, 0);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to, mine, LEN);
	cr_expect_eq(counted(&reads), 1);
	cr_expect_eq(fake.regs, 0);
	cr_expect_eq(the_peer()->sent, 0);
	cr_expect_eq(the_peer()->rma.asked, 0);
}

Test(rma_fetch, a_fence_waits_for_a_read_by_keys)
{
	arrive_keys(ask(LEN, contexts), mine, LEN, LENDER);
	cr_assert_eq(submit_send("x", 1, 4, contexts, FI_FENCE), 0);
	tagrv_engine_progress(fx.engine);
	cr_expect_neq(packet_header(0).opcode, TAGRV_PKT_EAGER);
	expect_empty(&fx.tx);
	end_gets(0);
	cr_expect_eq(take(&fx.tx).err, 0);
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(take(&fx.tx).err, 0);
}

Test(rma_fetch, a_read_that_fails_ends_with_its_error)
{
	arrive_keys(ask(LEN, contexts), mine, LEN, LENDER);
	end_gets(-FI_EFAULT);
	expect_fin(fake.log_cnt - 1, LENDER, FI_EFAULT);
	expect_end(contexts, FI_EFAULT);
}

/* The target gets its memory back, and answers by packets. */
Test(rma_fetch, keys_that_are_of_no_use_are_declined)
{
	uint32_t op = ask(LEN, contexts);

	fake.reg_error = -FI_ENOMEM;
	arrive_keys(op, mine, LEN, LENDER);
	cr_expect_eq(header(1, TAGRV_PKT_FIN).op, LENDER);
	cr_expect_eq(header(1, TAGRV_PKT_FIN).data, FI_ECANCELED);
	expect_empty(&fx.tx);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
	cr_expect_eq(header(2, TAGRV_PKT_GET).op, op);
	cr_expect_eq(header(2, TAGRV_PKT_GET).flags, 0);
	expect_begun(TAGRV_RMA_READ, 1, LEN);
	for (size_t at = 0; at < LEN; at += 5000)
		arrive_answer(op, mine + at, 5000);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to, mine, LEN);
	cr_expect_eq(the_peer()->rma.asked, 0);
	expect_fine();
}

/* The target would serve one more than it allows. */
Test(rma_fetch, a_declined_read_does_not_overtake_its_fin)
{
	uint32_t op = ask(LEN, contexts);

	fake.reg_error = -FI_ENOMEM;
	fake.refuse = 1;
	arrive_keys(op, mine, LEN, LENDER);
	for (int i = 0; i < 3; i++)
		tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
	header(1, TAGRV_PKT_FIN);
	header(2, TAGRV_PKT_GET);
}

Test(rma_fetch, answers_may_come_all_the_same)
{
	uint32_t op = ask(LEN, contexts);

	for (size_t at = 0; at < LEN; at += 5000)
		arrive_answer(op, mine + at, 5000);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to, mine, LEN);
}

Test(rma_fetch, a_read_by_keys_ends_with_the_connection)
{
	arrive_keys(ask(LEN, contexts), mine, LEN, LENDER);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	expect_end(contexts, FI_EHOSTUNREACH);
	cr_expect_eq(fake.regs, 0);
	peer_up(true);
	fake.log_max = fake.log_cnt + 1;
	arrive_keys(ask(LEN, contexts), mine, LEN, LENDER);
	cr_expect_eq(in_flight(), 0, "no room");
	fake_break_link(fx.link, -FI_EIO);
	expect_end(contexts, FI_EIO);
	cr_expect_eq(fake.regs, 0);
}

Test(rma_fetch, a_read_of_an_earlier_connection_ends_in_silence)
{
	size_t sent;

	arrive_keys(ask(LEN, contexts), mine, LEN, LENDER);
	fake.hold_closed = true;
	fake_break_link(fx.link, -FI_EIO);
	peer_up(true);
	sent = fake.log_cnt;
	fake_close_held();
	expect_end(contexts, FI_EIO);
	cr_expect_eq(fake.log_cnt, sent);
	cr_expect_eq(the_peer()->rma.asked, 0);
}

/* ---- KEYS that make no sense ---- */

struct keys {
	struct tagrv_hdr hdr;
	struct tagrv_cts cts;
	struct tagrv_rts_seg seg[5];
};

static struct keys keys_for(uint32_t op, size_t len)
{
	return (struct keys) {
		.hdr.opcode = TAGRV_PKT_KEYS, .hdr.op = htole32(op),
		.cts = { .want = htole64(len), .op = htole32(LENDER), .seg_cnt = 1,
			 .key_len = 4 },
		.seg[0] = { .addr = htole64((uintptr_t) mine), .len = htole64(len) },
	};
}

/* The packet ends the connection; nothing was read. */
static void expect_nonsense(const struct keys *keys, size_t len, const char *what)
{
	static uint64_t refused;

	fake_deliver(fx.link, keys, len);
	cr_expect_eq(fx.engine->stats.bad_packets, ++refused, "%s", what);
	cr_expect_eq(fake.links, 0, "%s", what);
	cr_expect_eq(in_flight(), 0, "%s", what);
	if (fake.links)
		fake_break_link(fx.link, -FI_EIO);
	fake_forget();
	peer_up(true);
}

Test(rma_fetch, malformed_keys_are_refused)
{
	const size_t whole = HDR + 16 + 32;

#define REFUSED(field, value, len) do { \
		struct keys keys = keys_for(ask(LEN, contexts), LEN); \
		keys.field = value; \
		expect_nonsense(&keys, len, #field); \
		take(&fx.tx); \
		expect_empty(&fx.tx); \
	} while (0)
	REFUSED(hdr.op, htole32(12345), whole);
	REFUSED(hdr.op, 0, whole);
	REFUSED(cts.op, 0, whole);
	REFUSED(cts.op, htole32(LENDER), HDR + 15);
	REFUSED(cts.op, htole32(LENDER), whole - 1);
	REFUSED(cts.op, htole32(LENDER), whole + 1);
	REFUSED(cts.want, 0, whole);
	REFUSED(cts.want, htole64(LEN - 1), whole);
	REFUSED(cts.want, htole64(LEN + 1), whole);
	REFUSED(cts.seg_cnt, 0, HDR + 16);
	REFUSED(cts.seg_cnt, 5, HDR + 16 + 5 * 32);
	REFUSED(cts.key_len, TAGRV_KEY_MAX + 1, whole);
	REFUSED(seg[0].len, htole64(LEN - 1), whole);
#undef REFUSED
}

/* The transport may be unable to read. */
Test(rma_fetch, keys_that_were_not_asked_for_are_refused)
{
	struct keys keys;

	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	keys = keys_for(packet_header(0).op, 8);
	expect_nonsense(&keys, HDR + 16 + 32, "a short read");
	take(&fx.tx);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	keys = keys_for(packet_header(0).op, 8);
	expect_nonsense(&keys, HDR + 16 + 32, "a write");
	take(&fx.tx);
	cr_assert_eq(submit_atomic(TAGRV_RMA_FETCH, 8, contexts), 0);
	keys = keys_for(packet_header(0).op, 8);
	expect_nonsense(&keys, HDR + 16 + 32, "a fetch");
	take(&fx.tx);
	expect_empty(&fx.tx);
}

Test(rma_fetch, keys_behind_an_answer_are_refused)
{
	uint32_t op = ask(LEN, contexts);
	struct keys keys = keys_for(op, LEN);

	arrive_answer(op, mine, 100);
	expect_nonsense(&keys, HDR + 16 + 32, "a part is here");
	expect_end(contexts, FI_EREMOTEIO);
}

Test(rma_fetch, keys_that_come_twice_are_refused)
{
	uint32_t op = ask(LEN, contexts);

	arrive_keys(op, mine, LEN, LENDER);
	cr_expect_gt(in_flight(), 0);
	arrive_keys(op, mine, LEN, LENDER);
	expect_given_up();
	expect_end(contexts, FI_EREMOTEIO);
}

Test(rma_fetch, keys_for_a_read_that_was_declined_are_refused)
{
	uint32_t op = ask(LEN, contexts);
	struct keys keys = keys_for(op, LEN);

	fake.reg_error = -FI_ENOMEM;
	arrive_keys(op, mine, LEN, LENDER);
	fake.reg_error = 0;
	tagrv_engine_progress(fx.engine);
	expect_nonsense(&keys, HDR + 16 + 32, "by packets");
	expect_end(contexts, FI_EREMOTEIO);
}

Test(rma_fetch, a_read_by_keys_takes_no_fin_and_no_answer)
{
	uint32_t op = ask(LEN, contexts);

	arrive_keys(op, mine, LEN, LENDER);
	arrive_fin(op, 0);
	cr_expect_eq(fx.engine->stats.bad_packets, 1);
	expect_empty(&fx.tx);
	cr_expect_eq(fake.links, 1);
	arrive_answer(op, mine, 8);
	cr_expect_eq(fx.engine->stats.bad_packets, 2);
	expect_empty(&fx.tx);
	end_gets(0);
	expect_end(contexts, 0);
}
