/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Long operations that have to go by packets after all: their place among others.
 */
#include "unit/proto/rma/onesided_fixture.h"

TestSuite(rma_again, .init = onesided_setup, .fini = onesided_teardown, .timeout = 20);

/* A write of several packets, of which the first one is sent, then the transport is full. */
static uint32_t begin_a_write(void)
{
	struct fi_rma_iov remote[3] = { { 0, 8, KEY }, { 64, 8, KEY }, { 128, 8, KEY } };
	struct tagrv_rma_req req = rma_req(TAGRV_RMA_WRITE, 24, &rma_ctx[1]);
	size_t before = sent(TAGRV_PKT_PUT);

	req.remote = remote;
	req.remote_cnt = 3;
	fake.refuse_all = true;
	cr_assert_eq(submit(&req), 0);
	fake.refuse_all = false;
	fake.refuse = 0;
	/* One packet leaves with this pass. */
	while (sent(TAGRV_PKT_PUT) == before) {
		struct tagrv_op *op = tagrv_container_of(
			tagrv_list_first(&the_peer()->pending), struct tagrv_op, link);
		size_t bytes = 0;

		cr_assert_eq(op->ops->start(op, &bytes), 0);
	}
	return sent_nr(TAGRV_PKT_PUT, before, NULL).op;
}

Test(rma_again, does_not_come_between_packets_of_another)
{
	uint32_t pulled, begun;

	post(TAGRV_RMA_WRITE, LONG, rma_ctx);
	pulled = sent_nr(TAGRV_PKT_PULL, 0, NULL).op;
	begun = begin_a_write();
	arrive_fin(pulled, FI_EAGAIN);
	for (int i = 0; i < 200; i++)
		tagrv_engine_progress(fx.engine);
	for (size_t i = 0; i < 3; i++)
		cr_assert_eq(sent_nr(TAGRV_PKT_PUT, i, NULL).op, begun);
	for (size_t i = 3; i < sent(TAGRV_PKT_PUT); i++)
		cr_assert_eq(sent_nr(TAGRV_PKT_PUT, i, NULL).op, pulled);
	arrive_fin(begun, 0);
	arrive_fin(pulled, 0);
	cr_assert_eq(take(&fx.tx).context, &rma_ctx[1]);
	cr_assert_eq(take(&fx.tx).context, rma_ctx);
}

Test(rma_again, comes_before_what_was_posted_later)
{
	uint32_t pulled;

	post(TAGRV_RMA_WRITE, LONG, rma_ctx);
	pulled = sent_nr(TAGRV_PKT_PULL, 0, NULL).op;
	fake.refuse_all = true;
	post(TAGRV_RMA_WRITE, 8, &rma_ctx[1]);
	arrive_fin(pulled, FI_EAGAIN);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent_nr(TAGRV_PKT_PUT, 0, NULL).op, pulled);
}

Test(rma_again, lets_later_ones_follow_although_it_was_to_hold_them)
{
	uint32_t pulled;

	fx.engine->attr.order = FI_ORDER_WAW;
	post(TAGRV_RMA_WRITE, LONG, rma_ctx);
	pulled = sent_nr(TAGRV_PKT_PULL, 0, NULL).op;
	post(TAGRV_RMA_WRITE, 8, &rma_ctx[1]);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent(TAGRV_PKT_PUT), 0);
	arrive_fin(pulled, FI_EAGAIN);
	for (int i = 0; i < 200; i++)
		tagrv_engine_progress(fx.engine);
	cr_assert_eq(sent_nr(TAGRV_PKT_PUT, 0, NULL).op, pulled);
	cr_assert_neq(sent_nr(TAGRV_PKT_PUT, sent(TAGRV_PKT_PUT) - 1, NULL).op, pulled);
}
