/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Engines that share a receive context: which endpoint is given a message, and where the
 * receive completes. test_rx_context.c has what belongs to no endpoint, test_rx_close.c
 * what is left when an endpoint or a peer goes.
 */
#include "unit/engine/rx_fixture.h"

TestSuite(rx, .init = rx_setup, .fini = rx_teardown, .timeout = 20);

Test(rx, the_earliest_receive_takes_a_message_of_any_endpoint)
{
	char buf[4][4] = { "" };

	for (int i = 0; i < 3; i++)
		post(buf[i], 4, 1, &ctx[i]);
	use(2);
	arrive_eager("c", 1, 1, 0, 0);
	use(0);
	arrive_eager("a", 1, 1, 0, 0);
	use(1);
	arrive_eager("b", 1, 1, 0, 0);
	cr_assert(buf[0][0] == 'c' && buf[1][0] == 'a' && buf[2][0] == 'b');
	expect(&users[2].rx, &ctx[0], 1);
	expect(&users[0].rx, &ctx[1], 1);
	expect(&users[1].rx, &ctx[2], 1);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(atomic_load(&users[i].cntr.value), 1);
	expect_all_empty();
}

Test(rx, the_earliest_message_of_any_endpoint_is_found)
{
	char buf[4] = "";

	use(1);
	arrive_eager("b", 1, 1, 0, 0);
	use(0);
	arrive_eager("a", 1, 1, 0, 0);
	post(buf, 4, 1, &ctx[0]);
	cr_assert_eq(buf[0], 'b');
	expect(&users[1].rx, &ctx[0], 1);
	post(buf, 4, 1, &ctx[1]);
	cr_assert_eq(buf[0], 'a');
	expect(&users[0].rx, &ctx[1], 1);
	expect_all_empty();
}

Test(rx, an_endpoint_of_its_own_is_left_alone)
{
	char buf[2][4] = { "" };

	post(buf[0], 4, 1, &ctx[0]);
	cr_assert_eq(submit_recv(buf[1], 4, 1, &ctx[1]), 0);
	fx.link = NULL;
	peer_up(true);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).context, &ctx[1]);
	expect_all_empty();
}

/* users[2] is connected to another peer instead; returns the number of that peer. */
static fi_addr_t meet_other(void)
{
	struct tagrv_addr other = local(10);
	fi_addr_t other_addr;

	cr_assert_eq(tagrv_avtab_insert(&fx.av, &other, &other_addr), 0);
	close_user(&users[2]);
	open_user(&users[2]);
	connect_user(&users[2], &other);
	return other_addr;
}

Test(rx, a_source_is_the_same_peer_by_every_endpoint)
{
	fi_addr_t other = meet_other();
	char buf[4][4] = { "" };

	cr_assert_eq(post_flags(buf[0], 4, 1, &ctx[0], fx.peer_addr, 0), 0);
	cr_assert_eq(post_flags(buf[1], 4, 1, &ctx[1], other, 0), 0);
	cr_assert_eq(post_flags(buf[2], 4, 1, &ctx[2], fx.peer_addr, 0), 0);
	cr_assert_eq(post_flags(buf[3], 4, 1, &ctx[3], fx.peer_addr, 0), 0);
	use(2);
	arrive_eager("o", 1, 1, 0, 0);
	cr_assert_eq(take(&users[2].rx).context, &ctx[1]);
	cr_assert_eq(buf[1][0], 'o');
	connect_user(&users[2], &fx.addr);
	fx.link = NULL;
	for (int i = 0; i < ENGINES; i++) {
		use(i);
		arrive_eager("p", 1, 1, 0, 0);
		expect(&users[i].rx, &ctx[i ? i + 1 : 0], 1);
	}
	cr_assert_eq(post_flags(buf[0], 4, 1, ctx, 99, 0), -FI_EINVAL);
	expect_all_empty();
}

Test(rx, a_directed_receive_finds_what_came_early)
{
	fi_addr_t other = meet_other();
	char buf[4] = "";

	use(2);
	arrive_eager("o", 1, 1, 0, 0);
	use(0);
	arrive_eager("p", 1, 1, 0, 0);
	cr_assert_eq(post_flags(buf, 4, 1, ctx, fx.peer_addr, 0), 0);
	cr_assert_eq(buf[0], 'p');
	expect(&users[0].rx, ctx, 1);
	cr_assert_eq(post_flags(buf, 4, 1, ctx, other, 0), 0);
	cr_assert_eq(take(&users[2].rx).src, other);
	expect_all_empty();
}

Test(rx, without_endpoints_nobody_is_known)
{
	char buf[4];

	for (int i = 0; i < ENGINES; i++)
		close_user(&users[i]);
	cr_assert_eq(post_flags(buf, 4, 1, ctx, fx.peer_addr, 0), -FI_EINVAL);
	post(buf, 4, 1, ctx);
	open_user(&users[1]);
	connect_user(&users[1], &fx.addr);
	fx.link = NULL;
	use(1);
	arrive_eager("x", 1, 1, 0, 0);
	expect(&users[1].rx, ctx, 1);
}

Test(rx, its_endpoints_have_one_address_table)
{
	const struct tagrv_engine_attr attr = { .src = local(0), .rx = rx };
	struct tagrv_engine *engine;
	struct tagrv_avtab av;

	cr_assert_eq(tagrv_avtab_init(&av, 1), 0);
	cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &engine), 0);
	cr_assert_eq(tagrv_engine_set_av(engine, &av), -FI_EINVAL);
	tagrv_engine_close(engine);
	for (int i = 0; i < ENGINES; i++)
		close_user(&users[i]);
	cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &engine), 0);
	cr_assert_eq(tagrv_engine_set_av(engine, &av), 0);
	tagrv_engine_close(engine);
	tagrv_avtab_fini(&av);
}

Test(rx, rendezvous_goes_by_the_endpoint_of_its_message)
{
	post(dst, LONG, 1, &ctx[0]);
	use(1);
	arrive_rts(src, LONG, 1, 77);
	cr_assert_eq(fake.log[0].kind, FAKE_GET);
	cr_assert_eq(fake.log[0].link, users[1].link);
	expect_all_empty();
	fake_complete_all(0);
	expect(&users[1].rx, &ctx[0], 1);
	cr_assert_arr_eq(src, dst, LONG);
	expect_all_empty();
	cr_assert_eq(rx->ops.used, 0);
}

Test(rx, flags_of_the_receive_or_of_the_endpoint_ask_for_an_entry)
{
	struct tagrv_engine_sinks sinks = users[1].engine->sinks;
	char buf[4];

	sinks.rx_all = false;
	tagrv_engine_set_sinks(users[1].engine, &sinks);
	use(1);
	post(buf, 4, 1, &ctx[0]);
	arrive_eager("x", 1, 1, 0, 0);
	expect_all_empty();
	cr_assert_eq(atomic_load(&users[1].cntr.value), 1);
	cr_assert_eq(post_flags(buf, 4, 1, &ctx[1], FI_ADDR_UNSPEC,
				FI_COMPLETION), 0);
	arrive_eager("x", 1, 1, 0, 0);
	expect(&users[1].rx, &ctx[1], 1);
}
