/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tagged messages to a peer whose device matches them: the bytes that leave.
 */
#include <stdlib.h>

#include "core/param.h"
#include "unit/proto/listed_calls.h"

TestSuite(listed_send, .init = listed_setup, .fini = engine_teardown, .timeout = 20);

static char buf[16384];

static uint64_t word(size_t i, size_t at)
{
	uint64_t value;

	cr_assert_leq(8 * at + 8, fake.log[i].len);
	memcpy(&value, fake.log[i].data + 8 * at, sizeof(value));
	return value;
}

/* Record i is a tagged message with these words, and len bytes behind them. */
static void expect_words(size_t i, uint32_t app, uint64_t tag)
{
	cr_assert_gt(fake.log_cnt, i);
	cr_assert_eq(le64toh(word(i, 0)) & UINT32_MAX, 3);
	cr_assert_eq(be64toh(word(i, 0)) & UINT32_MAX, app);
	cr_assert_eq(be64toh(word(i, 1)), tag);
}

static void expect_plain(size_t i, uint32_t app, uint64_t bits, const char *text)
{
	expect_words(i, app, TAG | (uint64_t) OURS << 48 | bits);
	cr_assert_eq(fake.log[i].flags & TAGRV_SEND_TAGGED, TAGRV_SEND_TAGGED);
	cr_assert_eq(fake.log[i].len, 16 + strlen(text));
	cr_assert_eq(memcmp(fake.log[i].data + 16, text, strlen(text)), 0);
}

/* And the rest of a header. */
static void expect_header(size_t i, uint32_t handle, uint16_t flags, uint32_t seq)
{
	uint64_t third = le64toh(word(i, 2));

	expect_words(i, handle, TAG | (uint64_t) OURS << 48 | UINT64_C(1) << 62);
	cr_assert_eq((uint16_t) third, flags | TAGRV_PKT_TAGGED);
	cr_assert_eq((uint32_t) (third >> 32), seq);
}

static struct tagrv_send_req request(size_t len, uint64_t flags)
{
	struct tagrv_send_req req = send_req(buf, len, TAG, &ctx[0]);

	req.flags |= flags;
	return req;
}

static void submit(const char *text, uint64_t flags, uint64_t data)
{
	struct tagrv_send_req req;

	strcpy(buf, text);
	req = request(strlen(text), flags);
	req.data = data;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
}

static uint32_t last_handle(void)
{
	return (uint32_t) be64toh(word(fake.log_cnt - 1, 0));
}

/* ---- forms ---- */

Test(listed_send, plain)
{
	uint32_t left = peer()->credit.left;

	submit("hello", 0, 0);
	expect_plain(0, 0, 0, "hello");
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	cr_assert_eq(peer()->credit.left, left - 5);
	cr_assert_eq(peer()->tx_seq, 1);
	cr_assert_eq(fx.engine->stats.eager_tx, 1);
}

Test(listed_send, plain_without_bytes)
{
	submit("", 0, 0);
	expect_plain(0, 0, 0, "");
}

Test(listed_send, plain_has_data_of_32_bits)
{
	submit("x", FI_REMOTE_CQ_DATA, 0xfedcba98);
	expect_plain(0, 0xfedcba98, UINT64_C(1) << 63, "x");
	submit("x", FI_REMOTE_CQ_DATA, UINT32_MAX);
	expect_plain(1, UINT32_MAX, UINT64_C(1) << 63, "x");
	submit("x", FI_REMOTE_CQ_DATA, 0);
	expect_plain(2, 0, UINT64_C(1) << 63, "x");
}

Test(listed_send, plain_says_nothing_of_data_that_there_is_not)
{
	submit("x", 0, UINT64_MAX);
	expect_plain(0, 0, 0, "x");
}

Test(listed_send, longer_data_need_a_header)
{
	const uint64_t data[] = { UINT64_C(1) << 32, DATA64, UINT64_MAX };

	for (size_t i = 0; i < 3; i++) {
		submit("hello", FI_REMOTE_CQ_DATA, data[i]);
		expect_header(i, 0, TAGRV_PKT_DATA, (uint32_t) i);
		cr_assert_eq(le64toh(word(i, 3)), data[i]);
		cr_assert_eq(fake.log[i].len, 32 + 5);
		cr_assert_eq(memcmp(fake.log[i].data + 32, "hello", 5), 0);
		cr_assert_eq(fake.log[i].flags, TAGRV_SEND_TAGGED);
	}
}

Test(listed_send, levels_need_a_header)
{
	submit("a", FI_DELIVERY_COMPLETE, 0);
	expect_header(0, last_handle(), TAGRV_PKT_ACK_DELIVERY, 0);
	cr_assert_neq(last_handle(), 0);
	fake_complete_all(0);
	expect_empty(&fx.tx);
	arrive_fin(last_handle(), 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	submit("b", FI_MATCH_COMPLETE, 0);
	expect_header(1, last_handle(), TAGRV_PKT_ACK_MATCH, 1);
	arrive_fin(last_handle(), 0);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
}

Test(listed_send, transmit_is_plain)
{
	submit("a", FI_TRANSMIT_COMPLETE, 0);
	expect_plain(0, 0, 0, "a");
	expect_empty(&fx.tx);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
}

Test(listed_send, tags_have_48_bits)
{
	struct tagrv_send_req req = request(0, 0);

	req.tag |= UINT64_C(0xabcd) << 48;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	expect_plain(0, 0, 0, "");
}

Test(listed_send, four_segments)
{
	struct iovec iov[4] = { { buf, 1 }, { buf + 1, 2 }, { buf + 3, 3 }, { buf + 6, 4 } };
	struct tagrv_send_req req = request(0, 0);

	memcpy(buf, "abcdefghij", 10);
	req.iov = iov;
	req.iov_cnt = 4;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	expect_plain(0, 0, 0, "abcdefghij");
}

Test(listed_send, untagged_ones_are_as_ever)
{
	struct tagrv_send_req req = request(5, 0);

	req.space = TAGRV_SPACE_MSG;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_EAGER);
	cr_assert_eq(packet_header(0).flags, 0);
	cr_assert_eq(fake.log[0].flags, 0);
	cr_assert_eq(fake.log[0].len, 32 + 5);
}

/* ---- credit ---- */

Test(listed_send, only_a_header_returns_credit)
{
	uint32_t owed;

	arrive_eager("x", 1, 9, 0, 0);
	owed = peer()->credit.owed;
	cr_assert_neq(owed, 0);
	submit("a", 0, 0);
	cr_assert_eq(peer()->credit.owed, owed);
	submit("b", FI_MATCH_COMPLETE, 0);
	cr_assert_eq(peer()->credit.owed, 0);
	cr_assert_eq((uint16_t) (le64toh(word(1, 2)) >> 16), owed);
}

/* Both sides send tagged messages only, and none of them returns any. */
Test(listed_send, credit_goes_by_itself)
{
	static char in[64];
	uint64_t returned = 0;

	for (int i = 0; i < 800; i++) {
		cr_assert_eq(submit_recv(in, sizeof(in), 9, &ctx[1]), 0);
		arrive_eager("x", 1, 9, 0, 0);
		peer()->credit.left = TAGRV_CREDIT_FIRST;
		submit("a", 0, 0);
		take(&fx.tx);
		take(&fx.rx);
		tagrv_engine_progress(fx.engine);
	}
	for (size_t i = 0; i < fake.log_cnt; i++)
		if (packet_header(i).opcode == TAGRV_PKT_CREDIT)
			returned += packet_header(i).credit;
	cr_assert_geq(returned, TAGRV_CREDIT_FIRST / 4);
	cr_assert_lt(peer()->credit.owed, peer()->credit.window / 4);
}

Test(listed_send, without_credit_it_is_announced)
{
	peer()->credit.left = 4;
	submit("hello", 0, 0);
	expect_header(0, last_handle(), TAGRV_PKT_RTS_INSIDE, 0);
	cr_assert_eq(peer()->credit.left, 4);
	arrive_fin(last_handle(), 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
}

/* ---- announcements ---- */

Test(listed_send, an_rts_is_inside)
{
	struct tagrv_send_req req = request(sizeof(buf), FI_REMOTE_CQ_DATA);
	struct tagrv_rts rts;

	req.data = 7;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	expect_header(0, last_handle(), TAGRV_PKT_RTS_INSIDE | TAGRV_PKT_DATA, 0);
	cr_assert_eq(le64toh(word(0, 3)), 7);
	cr_assert_eq(fake.log[0].flags, TAGRV_SEND_TAGGED);
	memcpy(&rts, fake.log[0].data + 32, sizeof(rts));
	cr_assert_eq(le64toh(rts.len), sizeof(buf));
	cr_assert_eq(fake.log[0].len, 32 + 16 + 32 * rts.seg_cnt);
	cr_assert_eq(fx.engine->stats.rndv_tx, 1);
	arrive_fin(last_handle(), 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
}

Test(listed_send, an_untagged_rts_is_as_ever)
{
	struct tagrv_send_req req = request(sizeof(buf), 0);

	req.space = TAGRV_SPACE_MSG;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_RTS);
	cr_assert_eq(fake.log[0].flags, 0);
	arrive_fin(packet_header(0).op, 0);
	take(&fx.tx);
}

/* ---- several that wait ---- */

static void submit_two(uint8_t space, uint64_t flags)
{
	for (int i = 0; i < 2; i++) {
		struct tagrv_send_req req = request(1, flags);

		req.space = space;
		cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	}
}

Test(listed_send, they_do_not_share_a_packet)
{
	fake.refuse_all = true;
	submit_two(TAGRV_SPACE_TAGGED, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
	expect_words(0, 0, TAG | (uint64_t) OURS << 48);
	expect_words(1, 0, TAG | (uint64_t) OURS << 48);
	fake.refuse_all = true;
	submit_two(TAGRV_SPACE_MSG, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3, "untagged ones do");
}

Test(listed_send, none_waits_for_more)
{
	submit_two(TAGRV_SPACE_TAGGED, FI_MORE);
	cr_assert_eq(fake.log_cnt, 2);
}

/* A FIN that waits does not travel in front of one. */
Test(listed_send, a_fin_goes_alone)
{
	static char in[8];

	cr_assert_eq(submit_recv(in, sizeof(in), 9, &ctx[1]), 0);
	fake.refuse_all = true;
	arrive_eager("x", 1, 9, TAGRV_PKT_ACK_MATCH, 33);
	submit("a", 0, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_FIN);
	expect_plain(1, 0, 0, "a");
}

/* ---- prepared ---- */

static void start_prepared(void)
{
	engine_teardown();
	setenv("FI_TAGRV_PROTO", "prepared:0-", 1);
	tagrv_param_define();
	engine_setup();
	fake.base.attr.caps |= TAGRV_XPORT_PREPARED;
	engine_set_rndv(fx.dom->select.rndv);
	listed_up(true);
}

Test(listed_send, prepared)
{
	start_prepared();
	submit("hello", 0, 0);
	cr_assert_eq(fake.log[0].kind, FAKE_PREPARED);
	expect_words(0, 0, TAG | (uint64_t) OURS << 48);
	cr_assert_eq(fake.log[0].len, 16 + 5);
	submit("hello", FI_MATCH_COMPLETE, 0);
	cr_assert_eq(fake.log[1].kind, FAKE_PREPARED);
	expect_header(1, last_handle(), TAGRV_PKT_ACK_MATCH, 1);
	cr_assert_eq(fake.log[1].len, 32 + 5);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	arrive_fin(last_handle(), 0);
	take(&fx.tx);
	cr_assert_eq(fx.engine->stats.prepared_tx, 2);
}

Test(listed_send, untagged_ones_are_not_prepared)
{
	struct tagrv_send_req req;

	start_prepared();
	req = request(5, 0);
	req.space = TAGRV_SPACE_MSG;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
	cr_assert_eq(fake.log[0].kind, FAKE_SEND);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_EAGER);
	cr_assert_eq(fake.log[0].flags, 0);
	cr_assert_eq(fake.regs_made, 0);
	take(&fx.tx);
}
