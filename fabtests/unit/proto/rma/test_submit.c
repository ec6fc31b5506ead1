/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Submitting one-sided operations: what is refused, what is sent in the call, what is
 * queued and what is copied for that; no memory, no operations left.
 */
#include "common/alloc_fail.h"
#include "unit/proto/rma/rma_calls.h"

static void setup(void)
{
	window_setup();
	fake.base.attr.caps = 0;
}

TestSuite(rma_submit, .init = setup, .fini = window_teardown, .timeout = 20);

static size_t bounces(void)
{
	return fx.engine->pools.bufs[TAGRV_BUF_INJECT].used;
}

/* The call has left nothing behind. */
static void expect_nothing(void)
{
	cr_expect_eq(fx.engine->pools.tx_ops.used, 0);
	cr_expect_eq(fx.engine->pools.rmas.used, 0);
	cr_expect_eq(bounces(), 0);
	cr_expect(tagrv_list_empty(&the_peer()->pending));
	expect_empty(&fx.tx);
}

static struct tagrv_rma_req inject(size_t len)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, len, NULL);

	req.no_context = true;
	return req;
}

/* ---- refused ---- */

Test(rma_submit, an_endpoint_that_is_not_enabled_refuses)
{
	fx.engine->enabled = false;
	cr_expect_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), -FI_EOPBADSTATE);
	fx.engine->enabled = true;
	expect_nothing();
}

Test(rma_submit, ranges_that_make_no_sense_are_refused)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, contexts);
	struct fi_rma_iov remote[2] = {
		{ 0, TAGRV_MAX_MSG, KEY }, { 0, 1, KEY },
	};

	parts.remote.addr = UINT64_MAX - 6;
	cr_expect_eq(submit_req(&req), -FI_EINVAL);
	parts.remote.addr = 0;
	parts.remote.len = TAGRV_MAX_MSG + 1;
	cr_expect_eq(submit_req(&req), -FI_EMSGSIZE);
	req.remote = remote;
	req.remote_cnt = 2;
	cr_expect_eq(submit_req(&req), -FI_EMSGSIZE, "together");
	expect_nothing();
	cr_expect_eq(fake.log_cnt, 0);
}

Test(rma_submit, the_last_byte_of_all_may_be_written)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, contexts);

	parts.remote.addr = UINT64_MAX - 8;
	cr_expect_eq(submit_req(&req), 0);
}

Test(rma_submit, an_address_that_is_none_is_refused)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, contexts);

	req.dest = 12345;
	cr_expect_eq(submit_req(&req), -FI_EINVAL);
	expect_nothing();
}

/* ---- at once, or queued ---- */

Test(rma_submit, without_a_connection_one_is_asked_for)
{
	fake_break_link(fx.link, -FI_EIO);
	cr_assert_eq(the_peer()->state, TAGRV_PEER_IDLE);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	cr_expect_eq(the_peer()->state, TAGRV_PEER_CONNECTING);
	cr_expect_eq(fake.log_cnt, 0);
	peer_up(true);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	cr_expect_eq(packet_header(0).opcode, TAGRV_PKT_PUT);
	arrive_fin(packet_header(0).op, 0);
	expect_end(contexts, 0);
}

Test(rma_submit, a_connection_that_cannot_be_made_fails_the_operation)
{
	fake_break_link(fx.link, -FI_EIO);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	peer_event(TAGRV_WIREUP_FAILED, -FI_ECONNREFUSED);
	expect_end(contexts, FI_ECONNREFUSED);
}

/* Messages and one-sided operations keep the order of their calls. */
Test(rma_submit, nothing_overtakes_what_is_queued)
{
	fake.refuse_all = true;
	cr_assert_eq(submit_send("a", 1, 4, contexts, 0), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	fake.refuse_all = false;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_assert_eq(submit_send("b", 1, 4, contexts, 0), 0);
	cr_assert_eq(fake.log_cnt, 0);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 4);
	cr_expect_eq(packet_header(0).opcode, TAGRV_PKT_EAGER);
	cr_expect_eq(packet_header(1).opcode, TAGRV_PKT_PUT);
	cr_expect_eq(packet_header(2).opcode, TAGRV_PKT_GET);
	cr_expect_eq(packet_header(3).opcode, TAGRV_PKT_EAGER);
}

/* Small messages share packets, but not across a one-sided operation. */
Test(rma_submit, batches_end_before_a_write)
{
	fake.refuse_all = true;
	for (int i = 0; i < 2; i++)
		cr_assert_eq(submit_send("a", 1, 4, contexts, 0), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(submit_send("b", 1, 4, contexts, 0), 0);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 3);
	cr_expect_eq(sent_items(0), 2);
	cr_expect_eq(packet_header(1).opcode, TAGRV_PKT_PUT);
	cr_expect_eq(sent_items(2), 2);
}

/* ---- injects ---- */

Test(rma_submit, what_is_injected_is_copied_only_if_it_is_not_sent)
{
	struct tagrv_rma_req req = inject(100);

	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(bounces(), 0);
	fake.refuse_all = true;
	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(bounces(), 1);
	fake.refuse_all = false;
	memset(mine, 0xee, 100);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
	cr_expect_arr_eq(body_of(1) + 8, body_of(0) + 8, 100, "not what is there now");
	arrive_fin(packet_header(1).op, 0);
	cr_expect_eq(bounces(), 0);
}

/* Two ranges: the second packet finds no room. */
static struct tagrv_rma_req halves(const struct fi_rma_iov remote[2])
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 100, contexts);

	req.flags |= FI_INJECT;
	req.remote = remote;
	req.remote_cnt = 2;
	return req;
}

static const struct fi_rma_iov two_ranges[2] = { { 0, 60, KEY }, { 500, 40, KEY } };

Test(rma_submit, what_is_sent_in_part_is_copied_as_a_whole)
{
	struct tagrv_rma_req req = halves(two_ranges);
	char want[100];

	memcpy(want, mine, sizeof(want));
	fake.log_max = 1;
	cr_assert_eq(submit_req(&req), 0);
	cr_assert_eq(fake.log_cnt, 1);
	cr_expect_eq(bounces(), 1);
	fake.log_max = 0;
	memset(mine, 0xee, 100);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 2);
	cr_expect_arr_eq(body_of(1) + 8, want + 60, 40);
	arrive_fin(packet_header(1).op, 0);
	expect_end(contexts, 0);
}

Test(rma_submit, an_injected_atomic_is_copied)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_ATOMIC, 64, NULL);
	char want[64];

	memcpy(want, mine, sizeof(want));
	req.no_context = true;
	fake.refuse_all = true;
	cr_assert_eq(submit_req(&req), 0);
	fake.refuse_all = false;
	memset(mine, 0xee, 64);
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(fake.log_cnt, 1);
	cr_expect_arr_eq(body_of(0) + 16, want, 64);
}

Test(rma_submit, an_empty_inject_needs_no_copy)
{
	struct tagrv_rma_req req = inject(0);

	fake.refuse_all = true;
	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(bounces(), 0);
}

/* ---- lack ---- */

Test(rma_submit, as_many_operations_as_there_may_be)
{
	struct tagrv_pool *ops = &fx.engine->pools.tx_ops;

	ops->max = 3;
	for (int i = 0; i < 3; i++)
		cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, &contexts[i]), 0);
	cr_expect_eq(submit_rma(TAGRV_RMA_WRITE, 8, &contexts[3]), -FI_EAGAIN);
	cr_expect_eq(fake.log_cnt, 3);
	cr_expect_eq(fx.engine->pools.rmas.used, 3);
	arrive_fin(packet_header(0).op, 0);
	cr_expect_eq(submit_rma(TAGRV_RMA_WRITE, 8, &contexts[3]), 0);
}

/* A caller that does nothing but repeat the call sees its operations end. */
Test(rma_submit, refused_calls_look_at_the_transports)
{
	unsigned polls;

	fx.engine->pools.tx_ops.max = 1;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	polls = fake.polls;
	for (int i = 0; i < 64; i++)
		cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), -FI_EAGAIN);
	cr_expect_gt(fake.polls, polls);
}

/* No free object is left, so that the next get has to allocate. */
static void use_up(struct tagrv_pool *pool)
{
	while (pool->free_head)
		pool->free_head = pool->free_head->next;
}

/* The scripted transport allocates, too: once for each packet. */
static int without_memory(const struct tagrv_rma_req *req, size_t packets)
{
	int ret;

	alloc_fail_arm(1 + packets, true);
	ret = submit_req(req);
	alloc_fail_disarm();
	return ret;
}

/* An operation has come and gone, and each pool is used up. */
static void prepare(void)
{
	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	arrive_fin(packet_header(0).op, 0);
	expect_end(contexts, 0);
}

Test(rma_submit, without_memory_for_an_op_nothing_happens)
{
	struct tagrv_rma_req req;

	prepare();
	req = req_of(TAGRV_RMA_WRITE, 8, contexts);
	use_up(&fx.engine->pools.tx_ops);
	cr_expect_eq(without_memory(&req, 0), -FI_ENOMEM);
	expect_nothing();
	use_up(&fx.engine->pools.rmas);
	cr_assert_eq(tagrv_pool_grow(&fx.engine->pools.tx_ops), 0);
	cr_expect_eq(without_memory(&req, 0), -FI_ENOMEM);
	expect_nothing();
	cr_expect_eq(fake.log_cnt, 1);
	cr_expect_eq(submit_req(&req), 0);
}

Test(rma_submit, without_memory_for_a_copy_nothing_happens)
{
	struct tagrv_rma_req req;

	prepare();
	req = inject(8);
	fake.refuse_all = true;
	cr_expect_eq(without_memory(&req, 0), -FI_ENOMEM);
	expect_nothing();
	fake.refuse_all = false;
	cr_expect_eq(without_memory(&req, 1), 0, "it is sent at once");
}

/* The target has a part of it. */
Test(rma_submit, half_sent_without_memory_for_a_copy_fails)
{
	struct tagrv_rma_req req;

	prepare();
	req = halves(two_ranges);
	fake.log_max = 2;
	cr_expect_eq(without_memory(&req, 1), 0);
	expect_end(contexts, FI_ENOMEM);
	expect_nothing();
	cr_expect_eq(fake.log_cnt, 2);
	expect_fine();
}
