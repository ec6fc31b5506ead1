/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connections that come and go under operations.
 */
#include "common/engine_fixture.h"

TestSuite(event, .init = engine_setup, .fini = engine_teardown, .timeout = 30);

Test(event, link_taken_back_keeps_what_waits)
{
	char buf[8] = "message";
	int ctx[2];

	cr_assert_eq(submit_send(buf, sizeof(buf), 1, &ctx[0], 0), 0);
	peer_up(false);
	cr_assert_eq(submit_send(buf, sizeof(buf), 2, &ctx[1], 0), 0);
	cr_assert_eq(fake.log_cnt, 0, "the peer cannot receive yet");
	peer_event(TAGRV_WIREUP_GONE, -FI_EAGAIN);
	expect_empty(&fx.tx);
	cr_assert_eq(fake.links, 0);
	peer_up(true);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	cr_assert_eq(take(&fx.tx).context, &ctx[1]);
	cr_assert_eq(packet_header(0).seq, 0);
	cr_assert_eq(sent_item(0, 0).item.tag, 1);
	cr_assert_eq(sent_item(0, 1).item.tag, 2);
}

Test(event, link_taken_back_after_use_is_a_loss)
{
	char buf[8] = "message", in[8];
	int tx, rx;

	cr_assert_eq(submit_recv(in, sizeof(in), 5, &rx), 0);
	peer_up(false);
	arrive_eager(buf, sizeof(buf), 5, 0, 0);
	cr_assert_eq(take(&fx.rx).context, &rx);
	fake.refuse_all = true;
	cr_assert_eq(submit_send(buf, sizeof(buf), 1, &tx, 0), 0);
	peer_event(TAGRV_WIREUP_GONE, -FI_EAGAIN);
	for (int i = 0; i < 2 * TAGRV_DRAIN_PASSES; i++)
		tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
}

Test(event, failure_ends_what_was_kept)
{
	char buf[8] = "message";
	int ctx;

	cr_assert_eq(submit_send(buf, sizeof(buf), 1, &ctx, 0), 0);
	peer_up(false);
	peer_event(TAGRV_WIREUP_GONE, -FI_EAGAIN);
	peer_event(TAGRV_WIREUP_FAILED, -FI_EHOSTUNREACH);
	cr_assert_eq(take(&fx.tx).err, FI_EHOSTUNREACH);
	expect_empty(&fx.tx);
}

/* What a transport cuts off it calls cancelled; nobody has cancelled anything. */
Test(event, what_is_cut_off_tells_why)
{
	static char in[100000];
	int tx, rx;

	peer_up(true);
	cr_assert_eq(submit_recv(in, sizeof(in), 4, &rx), 0);
	arrive_rts(in, sizeof(in), 4, 99);
	cr_assert_eq(submit_send("x", 1, 1, &tx, FI_TRANSMIT_COMPLETE), 0);
	expect_empty(&fx.tx);
	fake_break_link(fx.link, -FI_ECONNRESET);
	cr_assert_eq(take(&fx.rx).err, FI_ECONNRESET);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
}

/* ---- strangers ---- */

static void stranger_event(uint16_t port, enum tagrv_wireup_event_type type)
{
	struct tagrv_wireup_event event = {
		.type = type,
		.addr = fx.addr,
		.epoch = port,
		.status = -FI_ECONNRESET,
		.sendable = port & 1,
		.max_packet = fx.max_packet,
	};

	tagrv_addr_set_port(&event.addr, port);
	if (type == TAGRV_WIREUP_UP)
		event.link = fake_link();
	tagrv_engine_wireup_event(fx.engine, &event);
}

static void drain(void)
{
	for (int i = 0; i < 2 * TAGRV_DRAIN_PASSES; i++)
		tagrv_engine_progress(fx.engine);
}

/* Addresses that were invented leave nothing when their connections end. */
Test(event, strangers_are_forgotten)
{
	size_t before;

	peer_up(true);
	before = fx.engine->table.cnt;
	for (uint16_t i = 0; i < 1000; i++) {
		stranger_event((uint16_t) (20000 + i), TAGRV_WIREUP_UP);
		if (i % 3 == 0)
			stranger_event((uint16_t) (40000 + i), TAGRV_WIREUP_UP);
		stranger_event((uint16_t) (20000 + i), TAGRV_WIREUP_GONE);
		if (i % 3 == 0)
			stranger_event((uint16_t) (40000 + i), TAGRV_WIREUP_GONE);
		drain();
		/* Events that come late are about nobody. */
		stranger_event((uint16_t) (20000 + i), TAGRV_WIREUP_GONE);
	}
	cr_assert_leq(fx.engine->table.cnt, before + 2);
	cr_assert_eq(fake.links, 1);
}

/* Those that have sent something, or were named, keep their numbers. */
Test(event, peers_that_were_met_are_kept)
{
	char buf[8] = "message", in[8];
	struct tagrv_peer *peer;
	int rx;

	peer_up(true);
	peer = tagrv_peer_find(fx.engine, &fx.addr);
	arrive_eager(buf, sizeof(buf), 5, 0, 0);
	peer_event(TAGRV_WIREUP_GONE, -FI_ECONNRESET);
	drain();
	stranger_event(20000, TAGRV_WIREUP_UP);
	stranger_event(20000, TAGRV_WIREUP_GONE);
	drain();
	stranger_event(20001, TAGRV_WIREUP_UP);
	cr_assert_eq(tagrv_peer_find(fx.engine, &fx.addr), peer);
	cr_assert_eq(submit_recv(in, sizeof(in), 5, &rx), 0);
	cr_assert_eq(take(&fx.rx).context, &rx);
	stranger_event(20001, TAGRV_WIREUP_GONE);
	drain();
}
