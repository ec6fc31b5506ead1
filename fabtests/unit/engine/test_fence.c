/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_FENCE: what waits for what, whatever ends it, and that it goes on then.
 */
#include <poll.h>
#include <unistd.h>

#include "common/engine_fixture.h"

TestSuite(fence, .init = engine_setup, .fini = engine_teardown, .timeout = 20);

static char ctx[16];
static char data[100000];

static void send_one(size_t len, uint64_t tag, uint64_t flags)
{
	cr_assert_eq(submit_send(data, len, tag, &ctx[tag], flags), 0);
}

/* Whether the next packets, from number i on, are eager ones with these tags. */
static void expect_eager(size_t i, uint64_t first, uint64_t last)
{
	cr_assert_eq(fake.log_cnt, i + last - first + 1);
	for (; first <= last; first++, i++) {
		cr_assert_eq(packet_header(i).opcode, TAGRV_PKT_EAGER);
		cr_assert_eq(packet_header(i).tag, first);
	}
}

static bool is_kicked(void)
{
	struct pollfd pfd = { .fd = fx.dom->kick_fd, .events = POLLIN };

	return poll(&pfd, 1, 0) == 1;
}

Test(fence, waits_for_nobody_when_all_has_ended)
{
	peer_up(true);
	send_one(8, 0, 0);
	send_one(8, 1, FI_FENCE);
	expect_eager(0, 0, 1);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	cr_assert_eq(take(&fx.tx).context, &ctx[1]);
}

Test(fence, waits_for_acks_and_holds_back_what_follows)
{
	peer_up(true);
	send_one(8, 0, FI_DELIVERY_COMPLETE);
	send_one(8, 1, FI_MATCH_COMPLETE);
	send_one(2000, 2, FI_FENCE);
	send_one(2000, 3, 0);
	for (int i = 0; i < 3; i++)
		tagrv_engine_progress(fx.engine);
	expect_eager(0, 0, 1);
	arrive_fin(packet_header(0).op, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2, "one of two has not ended");
	arrive_fin(packet_header(1).op, 0);
	tagrv_engine_progress(fx.engine);
	expect_eager(2, 2, 3);
	for (int i = 0; i < 4; i++)
		cr_assert_eq(take(&fx.tx).context, &ctx[i]);
}

Test(fence, waits_for_the_device)
{
	peer_up(true);
	send_one(8, 0, FI_TRANSMIT_COMPLETE);
	send_one(8, 1, FI_FENCE);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	fake_complete_all(0);
	tagrv_engine_progress(fx.engine);
	expect_eager(1, 1, 1);
}

Test(fence, waits_for_a_rendezvous_and_may_be_one)
{
	peer_up(true);
	send_one(sizeof(data), 0, 0);
	send_one(sizeof(data), 1, FI_FENCE);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_RTS);
	arrive_fin(packet_header(0).op, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_RTS);
	cr_assert_eq(packet_header(1).tag, 1);
	arrive_fin(packet_header(1).op, 0);
}

/* Those in front and those behind do not share a packet across it. */
Test(fence, a_packet_of_several_ends_before_it_and_may_begin_with_it)
{
	peer_up(true);
	fake.refuse_all = true;
	send_one(8, 0, 0);
	send_one(8, 1, FI_DELIVERY_COMPLETE);
	send_one(8, 2, FI_FENCE);
	send_one(8, 3, 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	cr_assert_eq(sent_items(0), 2);
	arrive_fin(sent_item(0, 1).item.op, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
	cr_assert_eq(sent_items(1), 2);
	cr_assert_eq(sent_item(1, 0).item.tag, 2);
}

Test(fence, each_waits_for_the_one_before)
{
	peer_up(true);
	for (uint64_t i = 0; i < 3; i++)
		send_one(8, i, FI_FENCE | FI_DELIVERY_COMPLETE);
	for (size_t i = 0; i < 3; i++) {
		tagrv_engine_progress(fx.engine);
		cr_assert_eq(fake.log_cnt, i + 1);
		arrive_fin(packet_header(i).op, 0);
	}
	for (int i = 0; i < 3; i++)
		cr_assert_eq(take(&fx.tx).context, &ctx[i]);
}

Test(fence, an_error_ends_what_it_waits_for)
{
	peer_up(true);
	send_one(8, 0, FI_DELIVERY_COMPLETE);
	send_one(8, 1, FI_FENCE);
	arrive_fin(packet_header(0).op, FI_ENOMEM);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.tx).err, FI_ENOMEM);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(fence, ends_with_the_connection_and_holds_for_the_next)
{
	peer_up(true);
	send_one(8, 0, FI_DELIVERY_COMPLETE);
	send_one(sizeof(data), 1, 0);
	send_one(8, 2, FI_FENCE);
	fake_break_link(fx.link, -FI_EIO);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(take(&fx.tx).err, FI_EIO);
	cr_assert_eq(fx.engine->table.peers[0]->sent, 0);
	peer_up(true);
	send_one(8, 3, FI_FENCE);
	cr_assert_eq(take(&fx.tx).context, &ctx[3]);
}

/* No pass follows by itself: whoever sleeps has to make one. */
Test(fence, what_ends_between_passes_wakes_who_sleeps)
{
	uint64_t kicks;

	peer_up(true);
	while (is_kicked())
		cr_assert_eq(read(fx.dom->kick_fd, &kicks, sizeof(kicks)),
			     sizeof(kicks));
	send_one(8, 0, FI_TRANSMIT_COMPLETE);
	send_one(8, 1, 0);
	fake_complete_all(0);
	cr_assert(!is_kicked(), "nobody waits for it");
	send_one(8, 2, FI_TRANSMIT_COMPLETE);
	send_one(8, 3, FI_FENCE);
	fake_complete_all(0);
	cr_assert(is_kicked());
}
