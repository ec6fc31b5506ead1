/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A shared receive context: cancels, peeks, claims and multi-receive buffers, which
 * belong to no endpoint until a message is matched.
 */
#include <string.h>

#include "common/caught_log.h"
#include "unit/engine/rx_fixture.h"

static void cancel_and_look(struct tagrv_compq *q)
{
	struct tagrv_comp comp;
	char buf[4];

	post(buf, 4, 1, &ctx[0]);
	cr_assert_eq(tagrv_rx_cancel(rx, &ctx[1]), -FI_ENOENT);
	cr_assert_eq(tagrv_rx_cancel(rx, &ctx[0]), 0);
	comp = take(q);
	cr_assert_eq(comp.err, FI_ECANCELED);
	cr_assert_eq(comp.context, &ctx[0]);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED);
	cr_assert_eq(peek(1, ctx, FI_PEEK), 0);
	cr_assert_eq(take(q).err, FI_ENOMSG);
	expect_all_empty();
}

Test(rx, it_is_told_to_the_first_endpoint_that_is_left)
{
	cancel_and_look(&users[0].rx);
	cr_assert_eq(atomic_load(&users[0].cntr.err), 1);
	close_user(&users[0]);
	cancel_and_look(&users[1].rx);
	open_user(&users[0]);
	cancel_and_look(&users[1].rx);
	cr_assert_eq(atomic_load(&users[1].cntr.err), 2);
}

Test(rx, it_is_told_to_the_queue_of_its_own)
{
	tagrv_rx_set_cq(rx, &own);
	tagrv_rx_set_cntr(rx, &own_cntr);
	cancel_and_look(&own);
	cr_assert_eq(atomic_load(&own_cntr.err), 1);
	cr_assert_eq(atomic_load(&users[0].cntr.err), 0);
}

Test(rx, without_any_queue_nothing_is_told)
{
	char buf[4];

	for (int i = 0; i < ENGINES; i++)
		close_user(&users[i]);
	post(buf, 4, 1, ctx);
	cr_assert_eq(tagrv_rx_cancel(rx, ctx), 0);
	cr_assert_eq(peek(1, ctx, FI_PEEK), 0);
	expect_all_empty();
	cr_assert_eq(rx->ops.used, 0);
}

Test(rx, a_multi_buffer_takes_messages_of_all_and_is_released_once)
{
	static const int order[] = { 1, 0, 2 };
	struct tagrv_comp comp;
	char buf[48];

	tagrv_rx_set_cq(rx, &own);
	tagrv_rx_set_min_multi_recv(rx, 16);
	use(1);
	arrive_eager("0123456789abcdef", 16, 1, 0, 0);
	cr_assert_eq(post_flags(buf, 48, 1, ctx, FI_ADDR_UNSPEC,
				FI_MULTI_RECV), 0);
	use(0);
	arrive_eager("ABCDEFGHIJKLMNOP", 16, 1, 0, 0);
	use(2);
	arrive_eager("QRSTUVWXYZ!?.,;:", 16, 1, 0, 0);
	for (int i = 0; i < 3; i++) {
		comp = take(&users[order[i]].rx);
		cr_assert_eq(comp.buf, buf + 16 * i);
		cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED);
	}
	comp = take(&own);
	cr_assert_eq(comp.flags, FI_MULTI_RECV);
	cr_assert_eq(comp.context, ctx);
	cr_assert(!memcmp(buf, "0123456789abcdefABCDEFGHIJKLMNOPQRSTUVWXYZ!?.,;:",
			  48));
	expect_all_empty();
	cr_assert_eq(rx->ops.used + rx->slices.used, 0);
}

Test(rx, a_claim_is_received_by_the_endpoint_it_came_by)
{
	struct tagrv_recv_req req;
	char buf[4] = "";

	use(2);
	arrive_eager("x", 1, 5, 0, 0);
	cr_assert_eq(peek(5, ctx, FI_PEEK | FI_CLAIM), 0);
	expect(&users[0].rx, ctx, 5);
	cr_assert_eq(peek(5, ctx, FI_PEEK), 0);
	cr_assert_eq(take(&users[0].rx).err, FI_ENOMSG);
	req = recv_req(buf, 4, 0, ctx);
	req.flags = FI_CLAIM;
	cr_assert_eq(tagrv_rx_recv(rx, &req), 0);
	cr_assert_eq(buf[0], 'x');
	expect(&users[2].rx, ctx, 5);
	expect_all_empty();
}

Test(rx, a_peek_looks_at_the_devices_of_all)
{
	use(2);
	fx.later = true;
	arrive_eager("x", 1, 5, 0, 0);
	cr_assert_eq(peek(5, ctx, FI_PEEK | FI_DISCARD), 0);
	expect(&users[0].rx, ctx, 5);
	cr_assert_eq(users[2].engine->pools.umsgs.used, 0);
}

/* ---- the limit of receives ---- */

static int post_more(uint64_t flags)
{
	static char more[100];

	return (int) post_flags(more, sizeof(more), 1, &ctx[7], FI_ADDR_UNSPEC,
				flags);
}

static void expect_full(int code)
{
	cr_assert_eq(post_more(0), code);
	cr_assert_eq(post_more(FI_MULTI_RECV), code);
	cr_assert_eq(log_count("FI_TAGRV_MAX_RECVS"), 1);
}

/* Without an endpoint no message can come, so that progress would never make room. */
Test(rx, when_it_is_full_the_answer_says_whether_progress_helps)
{
	struct tagrv_rx *usual = rx;
	char buf[2][4];

	close_user(&users[2]);
	fx.dom->params.max_recvs = 2;
	cr_assert_eq(tagrv_rx_open(fx.dom, true, &rx), 0);
	post(buf[0], 4, 1, &ctx[0]);
	post(buf[1], 4, 1, &ctx[1]);
	expect_full(-FI_ENOMEM);
	tagrv_compq_fini(&users[2].rx);
	tagrv_counter_fini(&users[2].cntr);
	open_user(&users[2]);
	connect_user(&users[2], &fx.addr);
	expect_full(-FI_EAGAIN);
	fx.link = NULL;
	use(2);
	arrive_eager("x", 1, 1, 0, 0);
	expect(&users[2].rx, &ctx[0], 1);
	cr_assert_eq(post_more(0), 0);
	expect_full(-FI_EAGAIN);
	close_user(&users[2]);
	tagrv_rx_close(rx);
	rx = usual;
}
