/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An engine with two transports: what is polled, registered, lost.
 */
#include <string.h>

#include "common/engine_fixture.h"

TestSuite(rail, .init = engine_setup, .fini = engine_teardown, .timeout = 30);

static void local_up(void)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.addr = fx.addr,
		.epoch = 1,
		.sendable = true,
		.max_packet = fx.max_packet,
	};

	fx.link = event.link = fake_local_link();
	fx.rx_seq = 0;
	tagrv_engine_wireup_event(fx.engine, &event);
}

static void pass(int cnt)
{
	while (cnt--)
		tagrv_engine_progress(fx.engine);
}

Test(rail, without_a_connection_polled_rarely)
{
	pass(1024);
	cr_assert_eq(fake.polls, 1024 / TAGRV_RAIL_REST);
	cr_assert_eq(fake.local_polls, 1024 / TAGRV_RAIL_REST);
	local_up();
	fake.polls = fake.local_polls = 0;
	pass(1024);
	cr_assert_eq(fake.polls, 1024 / TAGRV_RAIL_REST);
	cr_assert_eq(fake.local_polls, 1024);
	fake_break_link(fx.link, -FI_EIO);
	fake.local_polls = 0;
	pass(1024);
	cr_assert_eq(fake.local_polls, 1024 / TAGRV_RAIL_REST);
}

Test(rail, sleep_arms_and_looks_at_all)
{
	fake.local_polls = 0;
	cr_assert_eq(tagrv_dom_arm(fx.dom), 0);
	cr_assert_eq(fake.local_arms, 1);
	cr_assert_geq(fake.local_polls, 1);
	fake.events = 1;
	cr_assert_eq(tagrv_dom_arm(fx.dom), -FI_EAGAIN, "found at rest");
	fake.events = 0;
}

Test(rail, memory_is_registered_with_the_device_of_the_connection)
{
	static char buf[100000], in[100000];
	struct tagrv_mem *app;
	struct tagrv_recv_req req = recv_req(in, sizeof(in), 2, &req);
	const struct tagrv_op *op;

	local_up();
	cr_assert_eq(submit_send(buf, sizeof(buf), 1, buf, 0), 0);
	op = tagrv_pool_find(&fx.engine->pools.tx_ops, packet_header(0).op);
	cr_assert_eq(op->mem[0]->dev, &fake.local_dev);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).context, buf);
	/* What the application registered with the NIC does not do here. */
	cr_assert_eq(fake.dev.ops->mem_reg(&fake.dev, in, sizeof(in), true,
					   &app), 0);
	req.mem = &app;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	arrive_rts(buf, sizeof(buf), 2, 77);
	cr_assert_eq(fake.regs, 2);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.rx).context, &req);
	cr_assert_eq(fake.regs, 1);
	fake.dev.ops->mem_dereg(app);
}

static void lose(struct tagrv_xport *xport)
{
	xport->sink->fatal(xport->sink, -FI_EIO);
}

Test(rail, loss_of_one_device_leaves_the_other)
{
	char buf[8] = "message";
	int ctx;

	local_up();
	lose(&fake.base);
	cr_assert_eq(submit_send(buf, sizeof(buf), 1, &ctx, 0), 0);
	cr_assert_eq(take(&fx.tx).err, 0);
	cr_assert_eq(fake.log_cnt, 1);
	lose(&fake.local);
	fake_end_closed();
	cr_assert_eq(fake.links, 0);
	/* Nothing is left to reach anybody by. */
	cr_assert_eq(submit_send(buf, sizeof(buf), 1, &ctx, 0), 0);
	cr_assert_eq(take(&fx.tx).err, FI_EIO);
}

Test(rail, unreachable_peer_is_blamed_on_the_lost_device)
{
	char buf[8] = "message";
	int ctx;

	lose(&fake.base);
	cr_assert_eq(submit_send(buf, sizeof(buf), 1, &ctx, 0), 0);
	expect_empty(&fx.tx);
	peer_event(TAGRV_WIREUP_FAILED, -FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.tx).err, FI_EIO);
}

Test(rail, connections_are_counted)
{
	char text[128];

	local_up();
	fake_break_link(fx.link, -FI_EIO);
	local_up();
	fake_break_link(fx.link, -FI_EIO);
	peer_up(true);
	tagrv_rails_describe(&fx.engine->rails, text, sizeof(text));
	cr_assert_str_eq(text, "2 fake, 1 fake, 0 loop");
}
