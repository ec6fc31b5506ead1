/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rendezvous by copies: what a peer must not do.
 */
#include "unit/proto/rndv/copy_calls.h"

/* Each row is a fragment that arrives where fragment 1 of 20 is due. */
Test(rndv_copy, fragments_nobody_asked_for_are_refused)
{
	static const struct {
		size_t offset, len;
		int wrong;
	} bad[] = {
		{ 0, FRAG, 0 },			/* twice */
		{ 2 * FRAG, FRAG, 0 },		/* one left out */
		{ FRAG + 1, FRAG, 0 },
		{ SIZE_MAX, FRAG, 0 },
		{ FRAG, FRAG - 1, 0 },		/* not full */
		{ FRAG, 0, 0 },
		{ FRAG, FRAG, 1 },		/* another handle */
	};
	uint32_t taker;

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(bad); i++) {
		memset(dst, 0, BIG);
		cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
		arrive_rts_bare(BIG, 4, 99);
		cts_of(99, BIG, &taker);
		frag(taker, 0, BIG);
		arrive_frag(taker ^ (bad[i].wrong ? 1u << 25 : 0),
			    bad[i].offset, src, bad[i].len);
		expect_refused();
		cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
		for (size_t b = FRAG; b < BIG; b++)
			cr_assert_eq(dst[b], 0);
		peer_up(true);
	}
}

Test(rndv_copy, more_than_was_granted_or_asked_for_is_refused)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	fake.refuse_all = true;		/* no grant goes out */
	for (size_t i = 0; i < DEPTH; i++)
		frag(taker, i, BIG);
	frag(taker, DEPTH, BIG);
	expect_refused();
	cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
	cr_assert_eq(dst[DEPTH * FRAG], 0);
	fake.refuse_all = false;
	peer_up(true);
	/* The last fragment must have the length that is left. */
	cr_assert_eq(submit_recv(dst, 100, 4, ctx), 0);
	arrive_rts_bare(100, 4, 99);
	cts_of(99, 100, &taker);
	arrive_frag(taker, 0, src, 101);
	expect_refused();
	cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
	peer_up(true);
	/* No fragment may follow the last one. */
	cr_assert_eq(submit_recv(dst, 100, 4, ctx), 0);
	arrive_rts_bare(100, 4, 99);
	cts_of(99, 100, &taker);
	arrive_frag(taker, 0, src, 100);
	cr_assert_eq(take(&fx.rx).err, 0);
	arrive_frag(taker, 0, src, 100);
	expect_refused();
}

Test(rndv_copy, success_before_the_last_fragment_is_refused)
{
	uint32_t taker;

	cr_assert_eq(submit_recv(dst, BIG, 4, ctx), 0);
	arrive_rts_bare(BIG, 4, 99);
	cts_of(99, BIG, &taker);
	arrive_control(TAGRV_PKT_DONE, taker, 0);
	expect_refused();
	cr_assert_eq(take(&fx.rx).err, FI_EREMOTEIO);
}

Test(rndv_copy, senseless_grants_are_refused)
{
	static const struct {
		size_t want, granted;
		uint32_t taker, handle;
	} bad[] = {
		{ BIG + 1, FRAG, 55, 0 },
		{ SIZE_MAX, FRAG, 55, 0 },
		{ 0, 0, 55, 0 },
		{ BIG, 0, 55, 0 },
		{ BIG, FRAG + 1, 55, 0 },
		{ FRAG, 2 * FRAG, 55, 0 },
		{ BIG, FRAG, 0, 0 },
		{ BIG, FRAG, 55, 1 },
	};
	uint32_t handle;

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(bad); i++) {
		handle = announce(0);
		arrive_cts(handle ^ bad[i].handle, bad[i].taker, bad[i].want,
			   bad[i].granted);
		expect_refused();
		cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
		peer_up(true);
	}
	/* A second CTS; a grant of less than before, of more than all, to an unknown send. */
	for (int i = 0; i < 4; i++) {
		handle = announce(0);
		arrive_cts(handle, 55, BIG, 2 * FRAG);
		if (!i)
			arrive_cts(handle, 55, BIG, 3 * FRAG);
		else
			arrive_control(TAGRV_PKT_GRANT,
				       i == 3 ? handle ^ 1 : handle,
				       i == 1 ? FRAG : (CNT + 1) * FRAG);
		expect_refused();
		cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
		peer_up(true);
	}
}

/* An eager send that waits for its ack was never announced. */
Test(rndv_copy, eager_send_cannot_be_asked_for)
{
	cr_assert_eq(submit_send("abc", 3, 4, ctx, FI_MATCH_COMPLETE), 0);
	arrive_cts(last(TAGRV_PKT_EAGER).op, 55, 3, 3);
	expect_refused();
	cr_assert_eq(take(&fx.tx).err, FI_EREMOTEIO);
}
