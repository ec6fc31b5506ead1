/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by copies, the sender: it sends what is granted, and every way it can end.
 */
#include "unit/proto/rndv/copy_calls.h"

/* The packets from i on are the fragments from *next to end; sets *next to end. */
static void expect_frags(size_t i, size_t *next, size_t end)
{
	for (; *next < end; i++) {
		struct tagrv_hdr hdr = packet_header(i);
		size_t len = TAGRV_MIN(FRAG, end - *next);

		cr_assert_eq(hdr.opcode, TAGRV_PKT_FRAG);
		cr_assert_eq(hdr.op, 55);
		cr_assert_eq(hdr.data, *next);
		cr_assert_eq(fake.log[i].len, sizeof(hdr) + len);
		cr_assert_not(fake.log[i].flags & TAGRV_SEND_CTRL);
		cr_assert_arr_eq(fake.log[i].data + sizeof(hdr), src + *next,
				 len);
		*next += len;
	}
	cr_assert_eq(fake.log_cnt, i, "nothing more");
}

Test(rndv_copy, sender_sends_what_is_granted_and_ends_at_fin)
{
	uint32_t handle = announce(0);
	size_t next = 0;

	arrive_cts(handle, 55, BIG, 2 * FRAG);
	expect_frags(1, &next, 2 * FRAG);
	arrive_control(TAGRV_PKT_GRANT, handle, 3 * FRAG);
	expect_frags(3, &next, 3 * FRAG);
	arrive_control(TAGRV_PKT_GRANT, handle, BIG);
	expect_frags(4, &next, BIG);
	expect_empty(&fx.tx);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).context, ctx);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_COPY], 1);
	cr_assert_eq(fx.engine->stats.moved_tx[TAGRV_PROTO_RNDV_READ], 0);
}

Test(rndv_copy, offered_memory_is_given_back_when_copies_are_asked_for)
{
	size_t next = 0;
	uint32_t handle;

	cr_assert_eq(submit_send(src, BIG, 4, ctx, 0), 0);
	cr_assert_eq(fake.regs, 1);
	handle = last(TAGRV_PKT_RTS).op;
	arrive_cts(handle, 55, 1000, 1000);
	cr_assert_eq(fake.regs, 0);
	expect_frags(1, &next, 1000);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(rndv_copy, fragments_without_room_are_sent_later)
{
	uint32_t handle = announce(0);
	size_t next = 0;

	fake.refuse_all = true;
	arrive_cts(handle, 55, BIG, 2 * FRAG);
	cr_assert_eq(fake.log_cnt, 1);
	arrive_control(TAGRV_PKT_GRANT, handle, BIG);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	expect_frags(1, &next, BIG);
	arrive_fin(handle, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}

Test(rndv_copy, link_error_ends_the_sender_in_every_state)
{
	for (int step = 0; step < 4; step++) {
		uint32_t handle = announce(0);

		fake.refuse_all = step == 3;
		if (step)
			arrive_cts(handle, 55, step == 2 ? FRAG : BIG, FRAG);
		fake_break_link(fx.link, -FI_EHOSTUNREACH);
		cr_assert_eq(take(&fx.tx).err, FI_EHOSTUNREACH);
		expect_empty(&fx.tx);
		fake.refuse_all = false;
		peer_up(true);
		arrive_fin(handle, 0);
		expect_empty(&fx.tx);
	}
}

Test(rndv_copy, small_message_without_credit_or_memory_is_sent)
{
	tagrv_peer_find(fx.engine, &fx.addr)->credit.left = 0;
	fake.reg_error = -FI_ENOMEM;
	cr_assert_eq(submit_send("abc", 3, 4, ctx, 0), 0);
	arrive_cts(last(TAGRV_PKT_RTS).op, 55, 3, 3);
	cr_assert_eq(last(TAGRV_PKT_FRAG).op, 55);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).err, 0);
}
