/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Eager messages that the device takes from registered memory.
 */
#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/param.h"
#include "common/engine_fixture.h"

TestSuite(prepared, .fini = engine_teardown, .timeout = 20);

static char buf[16384], ctx[4];

/* A transport that can, and gains by it: 0.3 us at 8 GB/s are 2400 bytes. */
static void start(const char *force)
{
	struct tagrv_xport_attr *attr = &fake.base.attr;

	if (force)
		setenv("FI_TAGRV_PROTO", force, 1);
	tagrv_param_define();
	engine_setup();
	attr->caps |= TAGRV_XPORT_PREPARED;
	attr->latency = 1e-6;
	attr->bandwidth = 12e9;
	attr->copy_bandwidth = 1 / (1 / 12e9 + 2 / 8e9);
	attr->prep_overhead = 0.3e-6;
	attr->reg_overhead = 20e-6;
	engine_set_rndv(fx.dom->select.rndv);
	peer_up(true);
}

/* Sends from memory that the application has registered. */
static void send_registered(size_t len, uint64_t flags)
{
	struct tagrv_mem mem = {
		.dev = &fake.dev, .addr = buf, .len = sizeof(buf),
		.access = TAGRV_MEM_READ,
	};
	struct tagrv_mem *mems[] = { &mem };
	struct tagrv_send_req req = send_req(buf, len, 7, &ctx[0]);

	req.mem = mems;
	req.flags |= flags;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
}

static enum fake_kind last(void)
{
	cr_assert_gt(fake.log_cnt, 0);
	return fake.log[fake.log_cnt - 1].kind;
}

Test(prepared, ends_when_the_device_has_it)
{
	start(NULL);
	memset(buf, 'x', 4000);
	send_registered(4000, 0);
	cr_assert_eq(last(), FAKE_PREPARED);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_EAGER);
	cr_assert_eq(packet_header(0).op, 0, "no FIN is asked for");
	cr_assert_eq(fake.log[0].len, 4000 + sizeof(struct tagrv_hdr));
	expect_empty(&fx.tx);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	cr_assert_eq(fx.engine->stats.eager_tx, 1);
	cr_assert_eq(fx.engine->stats.prepared_tx, 1);
	cr_assert_eq(fake.regs, 0);
}

Test(prepared, from_the_size_on_that_pays)
{
	size_t first;

	start(NULL);
	first = fx.engine->table.peers[0]->select->prepared;
	cr_assert(first >= 2399 && first <= 2401, "%zu", first);
	send_registered(first - 1, 0);
	cr_assert_eq(last(), FAKE_SEND);
	send_registered(first, 0);
	cr_assert_eq(last(), FAKE_PREPARED);
	send_registered(8192, 0);
	cr_assert_eq(last(), FAKE_PREPARED);
}

Test(prepared, not_from_memory_that_is_not_registered)
{
	start(NULL);
	cr_assert_eq(submit_send(buf, 4000, 1, ctx, 0), 0);
	cr_assert_eq(last(), FAKE_SEND);
	cr_assert_eq(fake.regs_made, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
}

Test(prepared, what_is_acknowledged_ends_with_the_fin)
{
	start(NULL);
	send_registered(4000, FI_DELIVERY_COMPLETE);
	cr_assert_eq(last(), FAKE_PREPARED);
	cr_assert(packet_header(0).flags & TAGRV_PKT_ACK_DELIVERY);
	fake_complete_all(0);
	expect_empty(&fx.tx);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	expect_empty(&fx.tx);
}

/* The memory is the device's until that says so. */
Test(prepared, a_fin_may_be_faster_than_the_device)
{
	uint32_t op;

	start("prepared:0-");
	cr_assert_eq(submit_send(buf, 64, 1, ctx, FI_MATCH_COMPLETE), 0);
	op = packet_header(0).op;
	arrive_fin(op, 0);
	expect_empty(&fx.tx);
	cr_assert_eq(fake.regs, 1);
	arrive_fin(op, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 1, "a second one");
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).err, 0);
	expect_empty(&fx.tx);
	cr_assert_eq(fake.regs, 0);
}

/* The peer has it, whatever becomes of the connection. */
Test(prepared, acknowledged_is_acknowledged)
{
	start("prepared:0-");
	cr_assert_eq(submit_send(buf, 64, 1, ctx, FI_MATCH_COMPLETE), 0);
	arrive_fin(packet_header(0).op, 0);
	fake_break_link(fake.log[0].link, -FI_ECONNRESET);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.tx).err, 0);
	expect_empty(&fx.tx);
}

/* An error that the receiver reports. */
Test(prepared, the_fin_tells_the_status)
{
	start("prepared:0-");
	cr_assert_eq(submit_send(buf, 64, 1, ctx, FI_MATCH_COMPLETE), 0);
	arrive_fin(packet_header(0).op, FI_ECANCELED);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).err, FI_ECANCELED);
}

Test(prepared, a_connection_that_breaks_before_the_fin_is_an_error)
{
	start("prepared:0-");
	cr_assert_eq(submit_send(buf, 64, 1, ctx, FI_MATCH_COMPLETE), 0);
	fake_complete_all(0);
	fake_break_link(fake.log[0].link, -FI_ECONNRESET);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	expect_empty(&fx.tx);
}

/* A FIN for what asked for none is the peer's fault. */
Test(prepared, without_a_level_no_fin_is_taken)
{
	start("prepared:0-");
	cr_assert_eq(submit_send(buf, 64, 1, ctx, 0), 0);
	arrive_fin(tagrv_container_of(fake.log[0].done, struct tagrv_op,
				      done)->node.handle, 0);
	cr_assert_eq(fx.engine->stats.bad_packets, 1);
	expect_empty(&fx.tx);
	fake_complete_all(0);
	cr_assert_eq(take(&fx.tx).context, ctx);
}

Test(prepared, what_is_injected_is_copied)
{
	start("prepared:0-");
	fake.refuse_all = true;
	send_registered(64, FI_INJECT);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(last(), FAKE_SEND);
}

/* A send that finds no room stays where it is, and its registration, too. */
Test(prepared, waits_for_room)
{
	start(NULL);
	fake.refuse_all = true;
	send_registered(4000, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 0);
	fake.refuse_all = false;
}

Test(prepared, forced_it_registers_what_is_not)
{
	start("prepared:0-");
	cr_assert_eq(submit_send(buf, 64, 1, ctx, 0), 0);
	cr_assert_eq(last(), FAKE_PREPARED);
	cr_assert_eq(fake.regs, 1);
	fake_complete_all(0);
	cr_assert_eq(fake.regs, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
	cr_assert_eq(submit_send(buf, 8193, 1, ctx, 0), 0);
	cr_assert_eq(fx.engine->stats.rndv_tx, 1, "longer than a packet");
}

Test(prepared, what_cannot_be_registered_is_copied)
{
	start("prepared:0-");
	fake.reg_error = -FI_ENOMEM;
	cr_assert_eq(submit_send(buf, 4000, 1, ctx, 0), 0);
	cr_assert_eq(last(), FAKE_SEND);
	cr_assert_eq(take(&fx.tx).context, ctx);
}

Test(prepared, an_empty_message_is_eager)
{
	start("prepared:0-");
	cr_assert_eq(submit_send(buf, 0, 1, ctx, 0), 0);
	cr_assert_eq(last(), FAKE_SEND);
}

Test(prepared, where_the_transport_cannot_it_is_not_chosen)
{
	setenv("FI_TAGRV_PROTO", "prepared:0-", 1);
	tagrv_param_define();
	engine_setup();
	peer_up(true);
	cr_assert_eq(submit_send(buf, 4000, 1, ctx, 0), 0);
	cr_assert_eq(last(), FAKE_SEND);
	cr_assert_eq(fx.engine->table.peers[0]->select->prepared, SIZE_MAX);
}

Test(prepared, a_connection_that_breaks_ends_it_once)
{
	start("prepared:0-");
	cr_assert_eq(submit_send(buf, 4000, 1, ctx, 0), 0);
	fake_break_link(fake.log[0].link, -FI_ECONNRESET);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	expect_empty(&fx.tx);
	cr_assert_eq(fake.regs, 0);
}

Test(prepared, without_credit_it_is_announced)
{
	start("prepared:0-");
	fx.engine->table.peers[0]->credit.left = 0;
	cr_assert_eq(submit_send(buf, 4000, 1, ctx, 0), 0);
	cr_assert_eq(fx.engine->stats.rndv_tx, 1);
}

Test(prepared, a_fence_waits_for_the_device)
{
	start("prepared:0-");
	cr_assert_eq(submit_send(buf, 64, 1, ctx, 0), 0);
	cr_assert_eq(submit_send(buf, 64, 2, ctx, FI_FENCE), 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	fake_complete(0, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
}
