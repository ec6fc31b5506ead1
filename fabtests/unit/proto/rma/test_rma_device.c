/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomics by the device: the view that they wait for, their order, their ends, and what the
 * target says. The side link itself is the matter of test_rma_side.c.
 */
#include "unit/proto/rma/side_calls.h"

#include "common/alloc_fail.h"
#include "engine/endpoint.h"
#include "object/side.h"
#include "object/view.h"

#define RIGHTS	((unsigned) (TAGRV_MEM_REMOTE | TAGRV_MEM_ATOMIC))

static void setup(void)
{
	side_setup(TAGRV_XPORT_ATOMIC);
	fx.dom->by_device = true;
	*(uint64_t *) (void *) mine = 5;
	memset(open_mem, 0, LEN);
}

TestSuite(rma_device, .init = setup, .fini = side_teardown, .timeout = 20);

/* ---- packets of the peer ---- */

static void arrive_show(uint64_t key, uint16_t flags)
{
	struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_SHOW, .op = htole32(1024 + 7), .tag = htobe64(key),
		.data = htole64(BASE), .flags = htole16(flags),
	};

	fake_deliver(fx.link, &hdr, sizeof(hdr));
	serve_all();
}

/* ---- steps ---- */

/* The id in the SHOW that was sent last, which must be answered. */
static uint32_t shown_id(void)
{
	struct tagrv_hdr hdr;
	size_t at;

	serve_all();
	cr_assert_gt(sent(TAGRV_PKT_SHOW), 0);
	hdr = sent_nr(TAGRV_PKT_SHOW, sent(TAGRV_PKT_SHOW) - 1, &at);
	cr_expect_eq(hdr.flags, TAGRV_RMA_MUST);
	cr_expect_eq(hdr.tag, KEY);
	return hdr.op;
}

static void submit_one(enum tagrv_rma_kind kind, uint64_t flags, void *context)
{
	struct tagrv_rma_req req = atomic_req(kind, 8, context);

	req.flags |= flags;
	cr_assert_eq(submit_req(&req), 0);
}

/* View and side link are made by a first addition, which adds 5. */
static void open_side(void)
{
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts + 100);
	arrive_view(shown_id(), RIGHTS, LEN, 0);
	cr_expect_eq(count_kind(FAKE_ATOMIC), 0, "not before the side link is open");
	arrive_side(TAGRV_RMA_READY, true);
	cr_assert_eq(count_kind(FAKE_ATOMIC), 1);
	end_moves(0);
	expect_end(contexts + 100, 0);
	cr_expect_eq(sent(TAGRV_PKT_ATOMIC), 0);
}

static uint64_t word(void)
{
	return *(uint64_t *) (void *) open_mem;
}

/* ---- operations ---- */

Test(rma_device, addition_waits_for_view_and_side_link)
{
	open_side();
	cr_expect_eq(word(), 5);
	cr_expect_eq(counted(&writes), 1);
	cr_expect_eq(fx.engine->stats.bad_packets, 0);
}

Test(rma_device, fetch_and_compare_bring_former_values)
{
	uint64_t *former = (uint64_t *) (void *) read_to;
	struct tagrv_rma_req req;

	open_side();
	submit_one(TAGRV_RMA_FETCH, 0, contexts);
	end_moves(0);
	expect_end(contexts, 0);
	cr_expect_eq(*former, 5);
	cr_expect_eq(word(), 10);
	req = atomic_req(TAGRV_RMA_COMPARE, 8, contexts + 1);
	*(uint64_t *) parts.compare.iov_base = 10;
	cr_assert_eq(submit_req(&req), 0);
	end_moves(0);
	expect_end(contexts + 1, 0);
	cr_expect_eq(*former, 10);
	cr_expect_eq(word(), 5, "swapped");
	req = atomic_req(TAGRV_RMA_FETCH, 8, contexts + 2);
	req.op = FI_ATOMIC_READ;
	req.iov_cnt = 0;
	cr_assert_eq(submit_req(&req), 0);
	end_moves(0);
	expect_end(contexts + 2, 0);
	cr_expect_eq(*former, 5);
	cr_expect_eq(word(), 5);
	cr_expect_eq(counted(&reads), 3);
}

Test(rma_device, several_are_under_way_and_messages_pass_them)
{
	open_side();
	for (int i = 0; i < 3; i++)
		submit_one(TAGRV_RMA_FETCH, 0, contexts + i);
	cr_expect_eq(count_kind(FAKE_ATOMIC), 4);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts + 3), 0);
	cr_expect_eq(fake.log[fake.log_cnt - 1].kind, FAKE_PUT);
	fake_complete(fake.log_cnt - 1, 0);
	expect_end(contexts + 3, 0);
	end_moves(0);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(take(&fx.tx).context, contexts + i);
}

Test(rma_device, what_is_injected_is_kept_until_it_is_posted)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_ATOMIC, 8, NULL);

	req.no_context = true;
	cr_assert_eq(submit_req(&req), 0);
	*(uint64_t *) (void *) mine = 1000;
	arrive_view(shown_id(), RIGHTS, LEN, 0);
	arrive_side(TAGRV_RMA_READY, true);
	end_moves(0);
	cr_expect_eq(word(), 5);
	cr_expect_eq(counted(&writes), 1);
	expect_empty(&fx.tx);
}

Test(rma_device, without_room_it_waits)
{
	open_side();
	fake.refuse_all = true;
	submit_one(TAGRV_RMA_FETCH, 0, contexts);
	cr_expect_eq(count_kind(FAKE_ATOMIC), 1);
	fake.refuse_all = false;
	serve_all();
	cr_expect_eq(count_kind(FAKE_ATOMIC), 2);
	end_moves(0);
	expect_end(contexts, 0);
}

Test(rma_device, delivery_is_a_second_one_that_adds_nothing)
{
	open_side();
	submit_one(TAGRV_RMA_FETCH, FI_DELIVERY_COMPLETE, contexts);
	end_moves(0);
	expect_empty(&fx.tx);
	cr_assert_eq(count_kind(FAKE_ATOMIC), 3);
	cr_expect_eq(fake.log[fake.log_cnt - 1].change.operand, 0);
	cr_expect_eq(fake.log[fake.log_cnt - 1].change.swaps, false);
	cr_expect_eq(word(), 10);
	end_moves(0);
	expect_end(contexts, 0);
	expect_begun(TAGRV_RMA_ATOMIC, 2, 16);
	cr_expect_eq(*(uint64_t *) (void *) read_to, 5);
}

Test(rma_device, delivery_that_cannot_be_shown_is_an_error)
{
	open_side();
	submit_one(TAGRV_RMA_FETCH, FI_DELIVERY_COMPLETE, contexts);
	fake.hold_closed = true;
	fake_break_link(fake.side, -FI_ECONNRESET);
	fake_complete(fake.log_cnt - 1, 0);
	expect_end(contexts, FI_ECONNRESET);
	fake_close_held();
	expect_empty(&fx.tx);
}

/* ---- order ---- */

Test(rma_device, orders_that_were_asked_for_hold_back_the_rest)
{
	open_side();
	fx.engine->attr.order = FI_ORDER_SAW;
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts + 1);
	cr_assert_eq(submit_send(mine, 8, 1, contexts + 2, 0), 0);
	cr_expect_eq(count_kind(FAKE_ATOMIC), 2);
	cr_expect_eq(sent(TAGRV_PKT_EAGER), 0);
	end_moves(0);
	expect_end(contexts, 0);
	cr_expect_eq(count_kind(FAKE_ATOMIC), 3);
	cr_expect_eq(sent(TAGRV_PKT_EAGER), 0);
	end_moves(0);
	cr_expect_eq(take(&fx.tx).context, contexts + 1);
	serve_all();
	cr_expect_eq(sent(TAGRV_PKT_EAGER), 1);
}

Test(rma_device, orders_that_were_asked_for_wait_for_what_is_under_way)
{
	struct tagrv_hdr hdr;
	size_t at;

	open_side();
	fx.engine->attr.order = FI_ORDER_WAW;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	hdr = sent_nr(TAGRV_PKT_STORE, 0, &at);
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts + 1);
	serve_all();
	cr_expect_eq(count_kind(FAKE_ATOMIC), 1);
	arrive_fin(hdr.op, 0);
	expect_end(contexts, 0);
	serve_all();
	cr_expect_eq(count_kind(FAKE_ATOMIC), 2);
	end_moves(0);
	expect_end(contexts + 1, 0);
}

Test(rma_device, one_that_holds_back_others_ends_with_its_connection)
{
	open_side();
	fx.engine->attr.order = FI_ORDER_SAW;
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts + 1);
	fake_break_link(fx.link, -FI_EIO);
	for (int i = 0; i < 2; i++)
		cr_expect_eq(take(&fx.tx).err, FI_EIO);
	expect_empty(&fx.tx);
}

/* ---- what cannot be done ---- */

Test(rma_device, refused_view_ends_it)
{
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts + 1);
	arrive_view(shown_id(), 0, 0, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	/* The next one asks again: the region may be there by now. */
	arrive_view(shown_id(), RIGHTS, LEN, 0);
	arrive_side(TAGRV_RMA_READY, true);
	end_moves(0);
	expect_end(contexts + 1, 0);
	cr_expect_eq(sent(TAGRV_PKT_SHOW), 2);
	cr_expect_eq(sent(TAGRV_PKT_ATOMIC), 0);
	cr_expect_eq(fx.engine->stats.bad_packets, 0);
}

Test(rma_device, view_that_is_too_short_ends_it)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_ATOMIC, 8, contexts);

	parts.remote.addr = BASE + 96;
	cr_assert_eq(submit_req(&req), 0);
	arrive_view(shown_id(), RIGHTS, 100, 0);
	expect_end(contexts, FI_EACCES);
}

Test(rma_device, rights_that_are_missing_end_it)
{
	submit_one(TAGRV_RMA_FETCH, 0, contexts);
	arrive_view(shown_id(), TAGRV_MEM_ATOMIC | TAGRV_MEM_WRITE, LEN, 0);
	expect_end(contexts, FI_EACCES);
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
	arrive_side(TAGRV_RMA_READY, true);
	end_moves(0);
	expect_end(contexts, 0);
}

Test(rma_device, address_has_to_be_aligned)
{
	struct tagrv_rma_req req;

	open_side();
	req = atomic_req(TAGRV_RMA_ATOMIC, 8, contexts);
	parts.remote.addr = BASE + 4;
	cr_assert_eq(submit_req(&req), 0);
	serve_all();
	expect_end(contexts, FI_EINVAL);
}

Test(rma_device, side_link_that_cannot_be_made_ends_it)
{
	fake.side_error = -FI_ENOMEM;
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
	arrive_view(shown_id(), RIGHTS, LEN, 0);
	expect_end(contexts, FI_EOPNOTSUPP);
	expect_fine();
}

Test(rma_device, peer_that_has_no_side_link_says_so)
{
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
	arrive_view(shown_id(), RIGHTS, LEN, 0);
	expect_empty(&fx.tx);
	arrive_side(TAGRV_RMA_OFF, false);
	expect_end(contexts, FI_EOPNOTSUPP);
}

/* Nobody can tell whether they were carried out, so they are not tried again. */
Test(rma_device, end_of_the_side_link_ends_what_is_under_way)
{
	open_side();
	submit_one(TAGRV_RMA_FETCH, 0, contexts);
	submit_one(TAGRV_RMA_FETCH, 0, contexts + 1);
	fake_break_link(fake.side, -FI_EACCES);
	serve_all();
	for (int i = 0; i < 2; i++)
		cr_expect_eq(take(&fx.tx).err, FI_EACCES);
	cr_assert_eq(submit_send(mine, 8, 1, contexts + 2, 0), 0);
	expect_fine();
	take(&fx.tx);
	/* The next one waits for another side link. */
	submit_one(TAGRV_RMA_FETCH, 0, contexts + 3);
	serve_all();
	expect_empty(&fx.tx);
	arrive_side_nr(1, TAGRV_RMA_READY, true);
	end_moves(0);
	expect_end(contexts + 3, 0);
}

/* Not each of them tries to make one. */
Test(rma_device, side_link_that_cannot_be_made_is_tried_again_after_a_pause)
{
	size_t refused = 0;

	fake.side_error = -FI_ENOMEM;
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
	arrive_view(shown_id(), RIGHTS, LEN, 0);
	expect_end(contexts, FI_EOPNOTSUPP);
	cr_expect_eq(sent(TAGRV_PKT_SIDE), 1, "that there is none");
	fake.side_error = 0;
	submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
	serve_all();
	while (sent(TAGRV_PKT_SIDE) == 1) {
		refused++;
		expect_end(contexts, FI_EOPNOTSUPP);
		submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
		serve_all();
	}
	/* Some are tried twice: when they are submitted, and when the peer is served. */
	cr_expect_geq(refused, TAGRV_SIDE_PAUSE_MIN / 4);
	cr_expect_leq(refused, TAGRV_SIDE_PAUSE_MIN);
	arrive_side_nr(1, TAGRV_RMA_READY, true);
	end_moves(0);
	expect_end(contexts, 0);
}

Test(rma_device, fin_for_one_that_is_under_way_is_refused)
{
	const struct tagrv_op *op;

	open_side();
	submit_one(TAGRV_RMA_FETCH, FI_DELIVERY_COMPLETE, contexts);
	op = tagrv_container_of(fake.log[fake.log_cnt - 1].done, struct tagrv_op, done);
	arrive_fin(op->node.handle, FI_EIO);
	expect_empty(&fx.tx);
	cr_expect_eq(fx.engine->stats.bad_packets, 1);
	end_moves(0);
	end_moves(0);
	expect_end(contexts, 0);
}

Test(rma_device, view_of_another_window_ends_no_wait)
{
	uint32_t id;

	submit_one(TAGRV_RMA_ATOMIC, 0, contexts);
	id = shown_id();
	arrive_view(id + 1024, 0, 0, FI_EACCES);
	expect_empty(&fx.tx);
	arrive_view(id, 0, 0, FI_EOPNOTSUPP);
	expect_end(contexts, FI_EOPNOTSUPP);
}

/* ---- oneself ---- */

/* The window is this endpoint's own, and no packet leaves but for the message. */
Test(rma_device, own_memory_is_changed_by_the_device_too)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_FETCH, 8, contexts);
	struct tagrv_addr name = fx.engine->name;
	size_t links = fake.links;
	fi_addr_t self;

	cr_assert_eq(tagrv_avtab_insert(&fx.av, &name, &self), 0);
	req.dest = self;
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(submit_req(&req), 0);
		tagrv_dom_progress(fx.dom);
		serve_all();
		cr_assert_eq(count_kind(FAKE_ATOMIC), 1 + (size_t) i);
		end_moves(0);
		expect_end(contexts, 0);
		cr_expect_eq(*(uint64_t *) (void *) read_to, 5 * (uint64_t) i);
	}
	cr_expect_eq(word(), 10);
	cr_expect_eq(fake.links, links + 2, "both ends are here");
	parts.remote.key = KEY + 1;
	cr_assert_eq(submit_req(&req), 0);
	tagrv_dom_progress(fx.dom);
	expect_end(contexts, FI_EACCES);
	window.access = FI_REMOTE_READ;
	parts.remote.key = KEY;
	cr_assert_eq(submit_req(&req), 0);
	tagrv_dom_progress(fx.dom);
	expect_end(contexts, FI_EACCES);
}

/* The device may lack memory only now: each atomic has it try again. */
Test(rma_device, own_memory_that_could_not_be_registered_is_tried_again)
{
	struct tagrv_rma_req req = atomic_req(TAGRV_RMA_ATOMIC, 8, contexts);
	struct tagrv_addr name = fx.engine->name;

	cr_assert_eq(tagrv_avtab_insert(&fx.av, &name, &req.dest), 0);
	fake.reg_error_once = -FI_ENOMEM;
	cr_assert_eq(submit_req(&req), 0);
	tagrv_dom_progress(fx.dom);
	expect_end(contexts, FI_EOPNOTSUPP);
	cr_assert_eq(submit_req(&req), 0);
	tagrv_dom_progress(fx.dom);
	serve_all();
	end_moves(0);
	expect_end(contexts, 0);
	cr_expect_eq(word(), 5);
}

/* ---- target ---- */

Test(rma_device, target_shows_what_may_be_changed)
{
	struct tagrv_hdr hdr;
	size_t at;

	arrive_show(KEY, TAGRV_RMA_MUST);
	hdr = sent_nr(TAGRV_PKT_VIEW, 0, &at);
	cr_expect_eq(hdr.seq, RIGHTS);
	cr_expect_eq(hdr.op, 1024 + 7);
	/* The same place again: it is one view, not two. */
	arrive_show(KEY, TAGRV_RMA_MUST);
	cr_expect_eq(the_peer()->rma.views->showing_cnt, 1);
}

Test(rma_device, target_always_answers)
{
	struct tagrv_hdr hdr;
	size_t at;

	fake.refuse_all = true;
	arrive_show(KEY + 1, TAGRV_RMA_MUST);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 0);
	fake.refuse_all = false;
	serve_all();
	hdr = sent_nr(TAGRV_PKT_VIEW, 0, &at);
	cr_expect_eq(hdr.seq, 0);
	cr_expect_eq(hdr.data, FI_EACCES);
	cr_expect_eq(body_len(at), 0);
	arrive_show(KEY + 1, 0);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 1, "nobody waits for it");
	window.write_cntr = &was_written;
	arrive_show(KEY, TAGRV_RMA_MUST);
	hdr = sent_nr(TAGRV_PKT_VIEW, 1, &at);
	cr_expect_eq(hdr.data, FI_EOPNOTSUPP, "somebody counts");
	expect_fine();
}

/* Without a view an atomic fails, so each one has the device try again; reads do not. */
Test(rma_device, target_tries_again_what_could_not_be_registered)
{
	struct tagrv_hdr hdr;

	fake.reg_error_once = -FI_EFAULT;
	arrive_show(KEY, TAGRV_RMA_MUST);
	hdr = sent_nr(TAGRV_PKT_VIEW, 0, NULL);
	cr_expect_eq(hdr.seq, 0);
	cr_expect_eq(hdr.data, FI_EOPNOTSUPP);
	arrive_show(KEY, 0);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 1);
	arrive_show(KEY, TAGRV_RMA_MUST);
	cr_expect_eq(sent_nr(TAGRV_PKT_VIEW, 1, NULL).seq, RIGHTS);
	expect_fine();
}

/* The peer's atomics would wait for ever. */
Test(rma_device, target_without_memory_ends_the_connection)
{
	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	cr_expect_eq(the_peer()->rma.views, &tagrv_no_views);
	alloc_fail_arm(1, true);
	arrive_show(KEY, TAGRV_RMA_MUST);
	alloc_fail_disarm();
	cr_expect_eq(the_peer()->state, TAGRV_PEER_IDLE);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 0);
	cr_expect_eq(the_peer()->rma.views, &tagrv_no_views);
}

Test(rma_device, target_with_its_processor_refuses)
{
	struct tagrv_hdr hdr;
	size_t at;

	fx.dom->by_device = false;
	arrive_show(KEY, TAGRV_RMA_MUST);
	hdr = sent_nr(TAGRV_PKT_VIEW, 0, &at);
	cr_expect_eq(hdr.seq, 0);
	cr_expect_eq(hdr.data, FI_EOPNOTSUPP);
}

Test(rma_device, packets_of_atomics_are_refused)
{
	const uint64_t operand = 3;

	arrive_atomic(PEER_OP, TAGRV_RMA_ATOMIC, FI_SUM, BASE, &operand, 1, 0);
	serve_all();
	expect_fin(fake.log_cnt - 1, PEER_OP, FI_EOPNOTSUPP);
	cr_expect_eq(word(), 0);
}
