/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A shared receive context when a connection or an endpoint goes: what is lost, what is
 * told, and what the others go on with.
 */
#include "unit/engine/rx_fixture.h"

static void hang_up(struct user *user)
{
	fake_break_link(user->link, -FI_ECONNRESET);
}

Test(rx, a_connection_that_ends_loses_only_its_own_messages)
{
	for (int i = 0; i < 2; i++) {
		use(i);
		arrive_rts(src, LONG, 1, 77);
	}
	hang_up(&users[0]);
	post(dst, LONG, 1, &ctx[0]);
	cr_assert_eq(take(&users[0].rx).err, FI_ECONNRESET);
	post(dst, LONG, 1, &ctx[1]);
	fake_complete_all(0);
	expect(&users[1].rx, &ctx[1], 1);
	expect_all_empty();
}

Test(rx, a_closed_endpoint_takes_its_messages_along)
{
	char buf[4] = "";

	use(0);
	arrive_eager("a", 1, 1, 0, 0);
	arrive_eager("A", 1, 2, 0, 0);
	use(1);
	arrive_eager("b", 1, 1, 0, 0);
	arrive_eager("B", 1, 2, 0, 0);
	cr_assert_eq(peek(2, &ctx[0], FI_PEEK | FI_CLAIM), 0);
	cr_assert_eq(peek(2, &ctx[1], FI_PEEK | FI_CLAIM), 0);
	close_user(&users[0]);
	post(buf, 4, 1, &ctx[2]);
	cr_assert_eq(buf[0], 'b');
	expect(&users[1].rx, &ctx[2], 1);
	cr_assert_eq(peek(2, &ctx[0], FI_CLAIM), 0);
	cr_assert_eq(take(&users[1].rx).err, FI_ENOMSG);
	cr_assert_eq(peek(2, &ctx[1], FI_CLAIM | FI_DISCARD), 0);
	expect(&users[1].rx, &ctx[1], 2);
}

Test(rx, what_a_closed_endpoint_leaves_unfinished_is_told)
{
	struct tagrv_comp comp;

	post(dst, LONG, 1, &ctx[0]);
	use(0);
	arrive_rts(src, LONG, 1, 77);
	cr_assert_eq(fake.log[0].kind, FAKE_GET);
	close_user(&users[0]);
	comp = take(&users[1].rx);
	cr_assert_eq(comp.err, FI_ECANCELED);
	cr_assert_eq(comp.context, &ctx[0]);
	expect_all_empty();
	cr_assert_eq(rx->ops.used, 0);
}

Test(rx, a_multi_buffer_survives_an_endpoint)
{
	struct tagrv_comp comp;
	char buf[64];

	tagrv_rx_set_cq(rx, &own);
	tagrv_rx_set_min_multi_recv(rx, 16);
	cr_assert_eq(post_flags(buf, 64, 1, ctx, FI_ADDR_UNSPEC,
				FI_MULTI_RECV), 0);
	use(0);
	arrive_rts(src, 40, 1, 77);
	close_user(&users[0]);
	comp = take(&own);
	cr_assert_eq(comp.err, FI_ECANCELED);
	cr_assert_eq(comp.context, ctx);
	expect_all_empty();
	use(1);
	arrive_eager("0123456789abcdef", 16, 1, 0, 0);
	comp = take(&users[1].rx);
	cr_assert_eq(comp.buf, buf + 40);
	cr_assert_eq(take(&own).flags, FI_MULTI_RECV);
	cr_assert_eq(rx->ops.used + rx->slices.used, 0);
}

Test(rx, receives_stay_when_endpoints_come_and_go)
{
	char buf[4] = "";

	post(buf, 4, 1, ctx);
	for (int i = 0; i < ENGINES; i++)
		close_user(&users[i]);
	expect_all_empty();
	open_user(&users[0]);
	connect_user(&users[0], &fx.addr);
	fx.link = NULL;
	use(0);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(buf[0], 'x');
	expect(&users[0].rx, ctx, 1);
}

Test(rx, closed_with_receives_posted)
{
	char buf[48];

	post(buf, 4, 1, ctx);
	cr_assert_eq(post_flags(buf, 48, 2, ctx, FI_ADDR_UNSPEC,
				FI_MULTI_RECV), 0);
}

Test(rx, budgets_stay_with_the_endpoints)
{
	uint32_t before = users[0].engine->credit.budget;
	char buf[4];

	use(0);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_lt(users[0].engine->credit.budget, before);
	cr_assert_eq(users[1].engine->credit.budget, before);
	post(buf, 4, 1, ctx);
	cr_assert_eq(users[0].engine->credit.budget, before);
	expect(&users[0].rx, ctx, 1);
}
