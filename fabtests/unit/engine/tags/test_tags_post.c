/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which receives a device's list gets to hear of, and which endpoints have one.
 */
#include "unit/engine/tags/tags_fixture.h"

#include <stdlib.h>
#include <string.h>

TestSuite(tags_post, .init = tags_setup, .fini = tags_teardown, .timeout = 30);

static char buf[4][64], ctx[4];

/* ---- receives ---- */

/* The receive that was posted for tag 5 is in the list, and gets a message there. */
static void expect_matched(const char *text)
{
	tags_pass(3);
	cr_assert_eq(tags_counts().listed, 1);
	tags_message(5, text, strlen(text));
	tags_pass(2);
	tags_expect(ctx, 5, strlen(text));
}

Test(tags_post, posted_receive_is_matched_by_the_device)
{
	tags_begin();
	tags_post(buf[0], sizeof(buf[0]), 5, ctx, FI_ADDR_UNSPEC);
	expect_matched("hello");
	cr_assert_arr_eq(buf[0], "hello", 5);
	cr_assert_eq(tags_counts().offload.consumed, 1);
	cr_assert_eq(tags_counts().unexpected, 1, "it was not unexpected");
	cr_assert_eq(fx.engine->rx->ops.used, 0);
}

Test(tags_post, receive_of_the_peer_is_matched_by_its_number)
{
	tags_begin();
	tags_post(buf[0], sizeof(buf[0]), 5, ctx, fx.peer_addr);
	tags_pass(3);
	cr_assert(fake_list_would_match(fake.list, 5 | (uint64_t) TAGS_NUMBER << 48));
	cr_assert(fake_list_would_match(fake.list, 5 | (uint64_t) (TAGS_NUMBER + 1) << 48),
		  "another link to the same peer");
	cr_assert_not(fake_list_would_match(fake.list,
					    5 | (uint64_t) (TAGS_NUMBER + 4) << 48));
	expect_matched("hello");
}

Test(tags_post, kept_message_is_taken_without_the_list)
{
	tags_begin();
	tags_post(buf[0], sizeof(buf[0]), 0x77, ctx, fx.peer_addr);
	tags_expect(ctx, 0x77, 5);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed + tags_counts().soft, 0);
	cr_assert_eq(fake.list->adds, 0);
}

Test(tags_post, untagged_receive_is_not_told)
{
	struct tagrv_recv_req req = recv_req(buf[0], sizeof(buf[0]), 0, ctx);

	req.space = TAGRV_SPACE_MSG;
	tags_begin();
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	tags_pass(3);
	cr_assert_eq(tags_counts().listed + tags_counts().soft, 0);
	cr_assert_eq(fake.list->adds, 0);
	cr_assert_eq(fx.engine->rx->ops.used, 0, "it needs no op, as ever");
}

Test(tags_post, several_segments_are_filled_in_turn)
{
	struct iovec iov[2] = { { buf[0], 2 }, { buf[1], 60 } };
	struct tagrv_recv_req req = recv_req(NULL, 0, 5, ctx);

	req.iov = iov;
	req.iov_cnt = 2;
	tags_begin();
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	expect_matched("hello");
	cr_assert_arr_eq(buf[0], "he", 2);
	cr_assert_arr_eq(buf[1], "llo", 3);
}

Test(tags_post, bits_that_the_device_has_not_are_not_compared)
{
	tags_begin();
	fake.list->refuse = 2;
	tags_post(buf[0], sizeof(buf[0]), 0xabcd000000000005, ctx, FI_ADDR_UNSPEC);
	tags_post(buf[1], sizeof(buf[1]), 0xabcd000000000006, ctx + 1, FI_ADDR_UNSPEC);
	/* One of them in software: the device has not heard of it yet. */
	tags_message(6, "six", 3);
	tags_pass(3);
	tags_expect(ctx + 1, 6, 3);
	tags_message(5, "five", 4);
	tags_pass(3);
	tags_expect(ctx, 5, 4);
}

Test(tags_post, more_receives_than_entries_are_matched_in_order)
{
	enum { CNT = 3 * TAGS_ENTRIES };
	static char bufs[CNT][8], names[CNT];

	tags_begin();
	for (uint64_t i = 0; i < CNT; i++)
		tags_post(bufs[i], sizeof(bufs[i]), 5, &names[i], fx.peer_addr);
	tags_pass(5);
	cr_assert_eq(tags_counts().listed, TAGS_ENTRIES);
	cr_assert_eq(tags_counts().soft, CNT - TAGS_ENTRIES);
	for (uint64_t i = 0; i < CNT; i++) {
		tags_message(5, &i, sizeof(i));
		if (i % 3 == 2)
			tags_pass(1);
	}
	tags_pass(5);
	for (uint64_t i = 0; i < CNT; i++) {
		tags_expect(&names[i], 5, sizeof(i));
		cr_assert_arr_eq(bufs[i], &i, sizeof(i));
	}
	expect_empty(&fx.rx);
}

/* A search for kept messages, which the next completion answers. */
static struct tagrv_comp search(uint64_t tag, uint64_t flags, fi_addr_t src)
{
	struct tagrv_recv_req req = recv_req(buf[0], sizeof(buf[0]), tag, ctx);

	req.flags |= flags;
	req.src = src;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	return take(&fx.rx);
}

Test(tags_post, bits_that_the_device_has_not_are_not_searched_for)
{
	const uint64_t tag = 0xabcd000000000077;

	tags_begin();
	cr_assert_eq(search(tag, FI_PEEK, FI_ADDR_UNSPEC).err, 0);
	cr_assert_eq(search(tag, FI_PEEK | FI_CLAIM, fx.peer_addr).err, 0);
	cr_assert_eq(search(tag, FI_CLAIM, fx.peer_addr).len, 5);
	cr_assert_eq(search(tag, FI_PEEK, fx.peer_addr).err, FI_ENOMSG);
}

Test(tags_post, limit_of_receives_holds)
{
	int ret = 0, cnt = 0;

	fx.engine->rx->max_recvs = 3;
	while (!ret && ++cnt < 10)
		ret = submit_recv(buf[0], 8, (uint64_t) cnt, ctx);
	cr_assert_eq(ret, -FI_EAGAIN);
	cr_assert_eq(cnt, 4);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, ctx), 0);
}

/* ---- endpoints without a list ---- */

static struct tagrv_engine *open_engine(const struct tagrv_engine_attr *attr)
{
	struct tagrv_engine *engine;

	cr_assert_eq(tagrv_engine_open(fx.dom, attr, &engine), 0);
	return engine;
}

static void restart(void)
{
	struct tagrv_engine_attr attr = fx.engine->attr;

	engine_close();
	fx.engine = open_engine(&attr);
}

static void expect_none(struct tagrv_engine *engine)
{
	cr_expect_null(engine->tags);
	cr_expect_null(engine->rx->tags);
	cr_expect_null(fake.base.list);
	cr_expect_eq(engine->rx->plain_recvs, engine->rx->max_recvs);
	cr_expect_eq(engine->conn.due, 0);
}

Test(tags_post, list_is_asked_for_by_the_setting_only)
{
	fx.dom->params.hw_tags = false;
	restart();
	expect_none(fx.engine);
	fx.dom->params.hw_tags = true;
	restart();
	cr_expect_not_null(fx.engine->tags);
	cr_expect_eq(fx.engine->rx->plain_recvs, 0);
}

Test(tags_post, device_without_a_list_is_no_error)
{
	fake_list_max = 0;
	restart();
	expect_none(fx.engine);
}

Test(tags_post, endpoint_without_tagged_receives_has_no_list)
{
	struct tagrv_engine_attr attr = fx.engine->attr;

	engine_close();
	attr.untagged = true;
	fx.engine = open_engine(&attr);
	expect_none(fx.engine);
}

Test(tags_post, several_adapters_have_no_list)
{
	fx.dom->joined = true;
	restart();
	expect_none(fx.engine);
}

Test(tags_post, shared_context_has_no_list)
{
	struct tagrv_engine_attr attr = fx.engine->attr;
	struct tagrv_engine *engine;
	struct tagrv_rx *shared;

	engine_close();
	cr_assert_eq(tagrv_rx_open(fx.dom, true, &shared), 0);
	attr.rx = shared;
	engine = open_engine(&attr);
	expect_none(engine);
	tagrv_engine_close(engine);
	tagrv_rx_close(shared);
}
