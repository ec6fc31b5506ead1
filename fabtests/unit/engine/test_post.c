/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peek, claim, discard, cancel, multi-receive and directed receives.
 */
#include <stdlib.h>
#include <string.h>

#include "common/engine_fixture.h"

static char ctx[8];

static void setup(void)
{
	engine_setup();
	peer_up(true);
}

TestSuite(recv, .init = setup, .fini = engine_teardown, .timeout = 20);

static int peek(uint64_t tag, void *context, uint64_t flags)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, tag, context);

	req.iov_cnt = 0;
	req.flags = FI_COMPLETION | flags;
	return (int) tagrv_rx_recv(fx.engine->rx, &req);
}

Test(recv, peek_finds_and_leaves_or_says_no_message)
{
	char buf[4];

	cr_assert_eq(peek(1, ctx, FI_PEEK), 0);
	cr_assert_eq(take(&fx.rx).err, FI_ENOMSG);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(peek(1, ctx, FI_PEEK), 0);
	cr_assert_eq(take(&fx.rx).len, 1);
	cr_assert_eq(submit_recv(buf, 4, 1, ctx), 0);
	cr_assert_eq(take(&fx.rx).len, 1);
}

Test(recv, claim_takes_out_and_is_keyed_by_context)
{
	struct tagrv_recv_req req;
	char buf[4] = "";

	arrive_eager("x", 1, 1, 0, 0);
	arrive_eager("y", 1, 1, 0, 0);
	cr_assert_eq(peek(1, &ctx[0], FI_PEEK | FI_CLAIM), 0);
	cr_assert_eq(take(&fx.rx).err, 0);
	cr_assert_eq(submit_recv(buf, 4, 1, &ctx[1]), 0);
	cr_assert_eq(buf[0], 'y', "the claimed one is out of reach");
	take(&fx.rx);
	req = recv_req(buf, 4, 999, &ctx[0]);
	req.src = 0;
	req.flags |= FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(buf[0], 'x');
	cr_assert_eq(take(&fx.rx).tag, 1);
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).err, FI_ENOMSG, "a claim is used once");
}

Test(recv, discard_after_peek_and_after_claim_report_the_tag_once)
{
	arrive_eager("x", 1, 1, 0, 0);
	arrive_eager("y", 1, 2, 0, 0);
	cr_assert_eq(peek(1, ctx, FI_PEEK | FI_DISCARD), 0);
	cr_assert_eq(take(&fx.rx).tag, 1);
	cr_assert_eq(peek(1, ctx, FI_PEEK), 0);
	cr_assert_eq(take(&fx.rx).err, FI_ENOMSG);
	cr_assert_eq(peek(2, ctx, FI_PEEK | FI_CLAIM), 0);
	cr_assert_eq(take(&fx.rx).tag, 2);
	cr_assert_eq(peek(2, ctx, FI_CLAIM | FI_DISCARD), 0);
	cr_assert_eq(take(&fx.rx).tag, 2);
	expect_empty(&fx.rx);
}

Test(recv, claimed_but_never_received_is_freed_at_close)
{
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(peek(1, ctx, FI_PEEK | FI_CLAIM), 0);
}

Test(recv, cancel_gives_a_definite_answer)
{
	struct tagrv_comp comp;
	char buf[4];

	cr_assert_eq(submit_recv(buf, 4, 1, &ctx[0]), 0);
	cr_assert_eq(submit_recv(buf, 4, 1, &ctx[1]), 0);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[0]), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ECANCELED);
	cr_assert_eq(comp.context, &ctx[0]);
	cr_assert(comp.flags & FI_RECV);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[0]), -FI_ENOENT);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).context, &ctx[1]);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[1]), -FI_ENOENT);
	expect_empty(&fx.rx);
}

static void post_multi(char *buf, size_t len, void *context)
{
	struct tagrv_recv_req req = recv_req(buf, len, 1, context);

	req.flags |= FI_MULTI_RECV;
	tagrv_rx_set_min_multi_recv(fx.engine->rx, 16);
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
}

Test(recv, multi_buffer_is_packed_tightly_and_released_once)
{
	struct tagrv_comp comp;
	char buf[64];

	post_multi(buf, 48, ctx);
	for (int i = 0; i < 3; i++)
		arrive_eager("0123456789abcdef", 16, 1, 0, 0);
	for (int i = 0; i < 3; i++) {
		comp = take(&fx.rx);
		cr_assert_eq(comp.buf, buf + 16 * i);
		cr_assert_eq(comp.len, 16);
		cr_assert_eq(comp.context, ctx);
		cr_assert(!(comp.flags & FI_MULTI_RECV));
	}
	comp = take(&fx.rx);
	cr_assert_eq(comp.flags, FI_MULTI_RECV);
	cr_assert_eq(comp.context, ctx);
	expect_empty(&fx.rx);
	arrive_eager("next", 4, 1, 0, 0);
	expect_empty(&fx.rx);
}

Test(recv, multi_buffer_takes_what_came_before_it)
{
	char buf[64];

	for (int i = 0; i < 4; i++)
		arrive_eager("0123456789abcdef", 16, 1, 0, 0);
	post_multi(buf, 40, ctx);
	cr_assert_eq(take(&fx.rx).len, 16);
	cr_assert_eq(take(&fx.rx).len, 16);
	cr_assert_eq(take(&fx.rx).flags, FI_MULTI_RECV);
	expect_empty(&fx.rx);
	post_multi(buf, 64, ctx);
	cr_assert_eq(take(&fx.rx).len, 16);
	cr_assert_eq(take(&fx.rx).len, 16);
	expect_empty(&fx.rx);
}

Test(recv, multi_buffer_with_reads_going_on_is_released_after_them)
{
	static char src[20000], buf[40000];

	memset(src, 7, sizeof(src));
	post_multi(buf, 20010, ctx);
	arrive_rts(src, sizeof(src), 1, 5);
	expect_empty(&fx.rx);
	fake_complete_all(0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.rx).len, sizeof(src));
	cr_assert_eq(take(&fx.rx).flags, FI_MULTI_RECV);
	cr_assert_eq(buf[19999], 7);
}

/* From here on n more of them are possible. */
static void leave_objects(struct tagrv_pool *pool, size_t n)
{
	pool->max = pool->used + n;
}

Test(recv, posted_receives_leave_room_for_sends)
{
	static char big[20000];
	char buf[4];

	engine_limit_queues(1, 0);
	cr_assert_eq(submit_recv(buf, 4, 1, ctx), 0);
	cr_assert_eq(submit_recv(buf, 4, 1, ctx), -FI_EAGAIN);
	cr_assert_eq(submit_send(big, sizeof(big), 1, ctx, 0), 0);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(recv, multi_buffer_that_cannot_take_a_message_tells_both_sides)
{
	struct tagrv_comp comp;
	char buf[64];

	post_multi(buf, 64, ctx);
	leave_objects(&fx.engine->rx->slices, 0);
	arrive_eager("x", 1, 1, TAGRV_PKT_ACK_DELIVERY, 7);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_ENOMEM);
	cr_assert_eq(comp.context, ctx);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(packet_header(0).op, 7);
	cr_assert_eq(packet_header(0).data, FI_ENOMEM);
	leave_objects(&fx.engine->rx->slices, 1);
	arrive_eager("y", 1, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).len, 1);
}

Test(recv, multi_buffer_that_took_messages_but_cannot_be_queued_is_released)
{
	char buf[64], small[4];

	engine_limit_queues(1, 0);
	cr_assert_eq(submit_recv(small, 4, 9, &ctx[1]), 0);
	arrive_eager("x", 1, 1, 0, 0);
	post_multi(buf, 64, ctx);
	cr_assert_eq(take(&fx.rx).len, 1);
	cr_assert_eq(take(&fx.rx).flags, FI_MULTI_RECV);
	expect_empty(&fx.rx);
}

static void expect_cancelled_multi(void)
{
	struct tagrv_comp comp = take(&fx.rx);

	cr_assert_eq(comp.err, FI_ECANCELED);
	cr_assert_eq(comp.context, ctx);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED | FI_MULTI_RECV);
	expect_empty(&fx.rx);
}

Test(recv, cancelled_multi_buffer_is_released_with_that_error)
{
	static char src[20000], buf[40000];

	post_multi(buf, sizeof(buf), ctx);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, ctx), 0);
	expect_cancelled_multi();
	post_multi(buf, sizeof(buf), ctx);
	arrive_rts(src, sizeof(src), 1, 5);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, ctx), 0);
	expect_empty(&fx.rx);
	fake_complete_all(0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.rx).len, sizeof(src));
	expect_cancelled_multi();
}

Test(recv, directed_receive_finds_a_peer_that_spoke_before_it_was_known)
{
	struct tagrv_recv_req req;
	fi_addr_t again;
	char buf[4];

	cr_assert_eq(tagrv_avtab_remove(&fx.av, fx.peer_addr), 0);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(peek(1, ctx, FI_PEEK), 0);
	cr_assert_eq(take(&fx.rx).src, FI_ADDR_NOTAVAIL);
	cr_assert_eq(tagrv_avtab_insert(&fx.av, &fx.addr, &again), 0);
	req = recv_req(buf, 4, 1, ctx);
	req.src = again;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).src, again);
}

Test(recv, source_is_told_by_the_row_that_is_left)
{
	fi_addr_t second;

	cr_assert_eq(tagrv_avtab_insert(&fx.av, &fx.addr, &second), 0);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(tagrv_avtab_remove(&fx.av, fx.peer_addr), 0);
	cr_assert_eq(peek(1, ctx, FI_PEEK), 0);
	cr_assert_eq(take(&fx.rx).src, second);
}

/* ---- FI_SOURCE_ERR ---- */

static void expect_stranger(const char *what)
{
	struct tagrv_comp comp = take(&fx.rx);

	cr_assert_eq(comp.err, TAGRV_ERR_UNKNOWN_SOURCE, "%s: err %d", what, comp.err);
	cr_assert_not_null(comp.unknown_source);
	cr_expect(tagrv_addr_equal(comp.unknown_source, &fx.addr), "%s", what);
	free(comp.unknown_source);
}

Test(recv, a_message_of_a_stranger_comes_with_its_address)
{
	char buf[8] = "";

	fx.engine->attr.source_err = true;
	cr_assert_eq(tagrv_avtab_remove(&fx.av, fx.peer_addr), 0);
	cr_assert_eq(submit_recv(buf, 8, 1, ctx), 0);
	arrive_eager("posted", 7, 1, 0, 0);
	cr_expect_str_eq(buf, "posted");
	expect_stranger("posted");
	arrive_eager("late", 5, 2, 0, 0);
	cr_assert_eq(submit_recv(buf, 8, 2, ctx), 0);
	cr_expect_str_eq(buf, "late");
	expect_stranger("unexpected");
	cr_expect_eq(atomic_load(&fx.rx_cntr.err), 2);
	/* One that is too long is that first of all. */
	arrive_eager("too long!", 10, 3, 0, 0);
	cr_assert_eq(submit_recv(buf, 8, 3, ctx), 0);
	cr_expect_eq(take(&fx.rx).err, FI_ETRUNC);
}

Test(recv, a_stranger_that_was_inserted_is_none)
{
	fi_addr_t again;
	char buf[8];

	fx.engine->attr.source_err = true;
	cr_assert_eq(tagrv_avtab_remove(&fx.av, fx.peer_addr), 0);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(tagrv_avtab_insert(&fx.av, &fx.addr, &again), 0);
	cr_assert_eq(submit_recv(buf, 8, 1, ctx), 0);
	cr_assert_eq(take(&fx.rx).src, again);
}

Test(recv, without_that_capability_a_stranger_is_nobody)
{
	char buf[8];

	cr_assert_eq(tagrv_avtab_remove(&fx.av, fx.peer_addr), 0);
	cr_assert_eq(submit_recv(buf, 8, 1, ctx), 0);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).src, FI_ADDR_NOTAVAIL);
}

/* The leak checkers see to the rest: beyond the ring of 16, too. */
Test(recv, addresses_that_nobody_read_are_freed)
{
	static char bufs[40][8];

	fx.engine->attr.source_err = true;
	cr_assert_eq(tagrv_avtab_remove(&fx.av, fx.peer_addr), 0);
	for (int i = 0; i < 40; i++) {
		cr_assert_eq(submit_recv(bufs[i], 8, 1, ctx), 0);
		arrive_eager("x", 1, 1, 0, 0);
	}
}
