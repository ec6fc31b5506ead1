/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * An engine with two transports: what is polled, registered, lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- profiles ---- */

#define MODEL		(UINT64_C(1) << 40 | UINT64_C(2) << 24 | 3)	/* 1:2@3 */
#define HEAD		"tagrv-profile 1\ndevice fake fake\nlatency 1e-6\nbandwidth 1e9\n"	\
			"copy_bandwidth 5e8\noverhead 0\nget_overhead 0\nreg_overhead 0\n"	\
			"reg_growth 0\n"

static void setup_with(const char *profile)
{
	char path[] = "/tmp/tagrv-test-XXXXXX";
	int fd = mkstemp(path);

	cr_assert(fd >= 0 && write(fd, profile, strlen(profile)) == (ssize_t) strlen(profile));
	close(fd);
	tagrv_param_define();
	setenv("FI_TAGRV_PROFILE", path, 1);
	engine_setup();
	unlink(path);
	cr_assert_not_null(fx.dom->profile, "%s", fx.dom->params.profile);
}

/* The table for a link to a device of this model. */
static const struct tagrv_select *table_for(uint64_t model)
{
	struct tagrv_rail *rail;
	struct tagrv_link *link = fake_link();
	const struct tagrv_select *select;

	link->peer_key = tagrv_model_key(model);
	rail = tagrv_rail_of(link);
	tagrv_dom_lock(fx.dom);
	select = tagrv_rail_select_for(rail, link);
	tagrv_lock_release(&fx.dom->lock);
	link->xport->ops->link_discard(link);
	return select;
}

Test(rail_pair, a_peer_has_the_table_for_its_device, .timeout = 30)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP, .epoch = 1, .sendable = true,
	};
	const struct tagrv_select *other, *pair;

	setup_with(HEAD "pair fake fake 1:2@3\nlatency 2e-6\n");
	other = table_for(0);
	cr_assert_eq(table_for(MODEL + 1), other);
	pair = table_for(MODEL);
	cr_assert_neq(pair, other);
	cr_assert_eq(table_for(MODEL), pair, "it is made once");
	/* 3 latencies of 1 us, or of 2 us, at 1 ns per byte less; the get may take 1 % longer. */
	cr_assert(other->range[0].last >= 2929 && other->range[0].last <= 2932, "%zu",
		  other->range[0].last);
	cr_assert(pair->range[0].last >= 5860 && pair->range[0].last <= 5863, "%zu",
		  pair->range[0].last);
	event.addr = fx.addr;
	event.max_packet = fx.max_packet;
	event.link = fake_link();
	event.link->peer_key = tagrv_model_key(MODEL);
	tagrv_engine_wireup_event(fx.engine, &event);
	cr_assert_eq(fx.engine->table.peers[0]->select, pair);
	cr_assert_eq(fx.engine->table.peers[0]->eager_limit,
		     TAGRV_MIN(fx.engine->table.peers[0]->packet_limit, pair->range[0].last));
	engine_teardown();
}

/* What the endpoint lets peers do when it is opened. */
static unsigned admitted(const char *profile)
{
	struct tagrv_engine_attr attr = { .source = true };
	struct tagrv_engine *engine;
	unsigned admits;

	setup_with(profile);
	attr.src = fx.engine->attr.src;
	cr_assert_eq(tagrv_engine_open(fx.dom, &attr, &engine), 0);
	admits = engine->rails.all[1].xport->attr.admits;
	tagrv_engine_close(engine);
	engine_teardown();
	return admits;
}

Test(rail_pair, peers_may_do_what_its_table_needs, .timeout = 30)
{
	cr_assert_eq(admitted(HEAD "put_more 1e-6\n"), TAGRV_MEM_READ);
	cr_assert_eq(admitted(HEAD "pair fake fake 1:2@3\nput_more -5e-6\n"),
		     TAGRV_MEM_REMOTE);
}
