/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Side links: how two peers make one, reads and writes by it, and its end; SHOW, by which
 * writes ask for a view.
 */
#include "unit/proto/rma/side_calls.h"

#include "engine/endpoint.h"
#include "object/side.h"
#include "object/view.h"

#define RIGHTS	((unsigned) TAGRV_MEM_REMOTE)

static void setup(void)
{
	side_setup(0);
}

TestSuite(rma_side, .init = setup, .fini = side_teardown, .timeout = 20);

/* ---- steps ---- */

/* The header of the last packet, which is of this kind. */
static struct tagrv_hdr last_sent(uint8_t opcode)
{
	struct tagrv_hdr hdr = packet_header(fake.log_cnt - 1);

	cr_assert_eq(hdr.opcode, opcode, "opcode %u", hdr.opcode);
	return hdr;
}

/* A write that goes by a packet, for want of a view, asks for it by a SHOW. */
static uint32_t ask_by_write(void)
{
	struct tagrv_hdr hdr;
	size_t at;

	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_end(contexts, 0);
	serve_all();
	hdr = sent_nr(TAGRV_PKT_SHOW, sent(TAGRV_PKT_SHOW) - 1, &at);
	cr_expect_eq(hdr.tag, KEY);
	cr_expect_eq(hdr.data, BASE);
	cr_expect_eq(body_len(at), 0);
	return hdr.op;
}

static void open_side(unsigned rights)
{
	arrive_view(ask_by_write(), rights, LEN, 0);
	cr_expect_eq(last_sent(TAGRV_PKT_SIDE).flags, 0);
	cr_expect_eq(body_len(fake.log_cnt - 1), 4);
	arrive_side(TAGRV_RMA_READY, true);
	cr_expect_eq(last_sent(TAGRV_PKT_SIDE).flags, TAGRV_RMA_READY);
	cr_expect_eq(body_len(fake.log_cnt - 1), 0);
	cr_assert_not_null(tagrv_side_link(the_peer()));
	cr_expect_eq(fake.links, 2);
}

/* No packet leaves for it. */
static void expect_by_side(enum fake_kind kind)
{
	const struct fake_record *last = &fake.log[fake.log_cnt - 1];

	cr_assert_eq(last->kind, kind, "kind %d", last->kind);
	cr_expect_eq(last->link, fake.side);
}

/* ---- making one ---- */

Test(rma_side, whoever_gets_a_view_begins)
{
	open_side(RIGHTS);
	cr_expect_eq(fx.engine->stats.bad_packets, 0);
}

Test(rma_side, whoever_is_asked_answers)
{
	arrive_side(0, true);
	cr_expect_eq(last_sent(TAGRV_PKT_SIDE).flags, TAGRV_RMA_READY);
	cr_expect_eq(body_len(fake.log_cnt - 1), 4);
	cr_expect_null(tagrv_side_link(the_peer()));
	arrive_side(TAGRV_RMA_READY, false);
	cr_expect_not_null(tagrv_side_link(the_peer()));
	arrive_view(ask_by_write(), RIGHTS, LEN, 0);
	cr_expect_eq(sent(TAGRV_PKT_SIDE), 1, "one is enough");
}

Test(rma_side, both_may_begin)
{
	arrive_view(ask_by_write(), RIGHTS, LEN, 0);
	arrive_side(0, true);
	cr_expect_eq(last_sent(TAGRV_PKT_SIDE).flags, TAGRV_RMA_READY);
	cr_expect_eq(body_len(fake.log_cnt - 1), 0);
	cr_expect_null(tagrv_side_link(the_peer()));
	arrive_side(TAGRV_RMA_READY, false);
	cr_expect_not_null(tagrv_side_link(the_peer()));
	cr_expect_eq(fake.links, 2);
}

Test(rma_side, nobody_waits_for_it)
{
	arrive_view(ask_by_write(), RIGHTS, LEN, 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_end(contexts, 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	arrive_answer(last_sent(TAGRV_PKT_GET).op, mine, 8);
	expect_end(contexts, 0);
}

/* That is, while the peer is served. */
Test(rma_side, a_write_that_had_to_wait_asks_too)
{
	size_t at;

	fake_break_link(fx.link, -FI_EIO);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	peer_up(true);
	tagrv_engine_progress(fx.engine);
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(sent(TAGRV_PKT_SHOW), 1);
	arrive_fin(sent_nr(TAGRV_PKT_STORE, 0, &at).op, 0);
	expect_end(contexts, 0);
}

Test(rma_side, its_packets_wait_for_room)
{
	uint32_t id = ask_by_write();

	fake.refuse_all = true;
	arrive_view(id, RIGHTS, LEN, 0);
	cr_expect_eq(sent(TAGRV_PKT_SIDE), 0);
	fake.refuse_all = false;
	serve_all();
	cr_expect_eq(sent(TAGRV_PKT_SIDE), 1);
	fake.refuse_all = true;
	arrive_side(TAGRV_RMA_READY, true);
	cr_expect_eq(sent(TAGRV_PKT_SIDE), 1);
	fake.refuse_all = false;
	serve_all();
	cr_expect_eq(sent(TAGRV_PKT_SIDE), 2);
}

Test(rma_side, what_cannot_be_made_is_not_tried_again_at_once)
{
	fake.side_error = -FI_ENOMEM;
	arrive_view(ask_by_write(), RIGHTS, LEN, 0);
	cr_expect_eq(last_sent(TAGRV_PKT_SIDE).flags, TAGRV_RMA_OFF);
	fake.side_error = 0;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_expect_eq(last_sent(TAGRV_PKT_GET).flags & TAGRV_RMA_VIEW, 0);
	arrive_answer(last_sent(TAGRV_PKT_GET).op, mine, 8);
	arrive_side(0, true);
	cr_expect_eq(sent(TAGRV_PKT_SIDE), 1);
	expect_fine();
	/* The next connection may have one. */
	fake_break_link(fx.link, -FI_EIO);
	peer_up(true);
	take(&fx.tx);
	open_side(RIGHTS);
}

Test(rma_side, nonsense_is_refused)
{
	struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_SIDE };

	fake_deliver(fx.link, &hdr, sizeof(hdr));
	expect_given_up();
	peer_up(true);
	hdr.flags = htole16(TAGRV_RMA_READY | TAGRV_RMA_OFF);
	fake_deliver(fx.link, &hdr, sizeof(hdr));
	cr_expect_eq(fx.engine->stats.bad_packets, 2);
	peer_up(true);
	arrive_side(0, true);
	cr_expect_eq(fx.engine->stats.bad_packets, 2);
	arrive_side(0, true);
	cr_expect_eq(fx.engine->stats.bad_packets, 3, "a second blob");
	cr_expect_eq(fake.links, 0);
	fake.base.attr.caps &= ~(uint32_t) TAGRV_XPORT_SIDE;
	peer_up(true);
	arrive_side(0, true);
	cr_expect_eq(fx.engine->stats.bad_packets, 4);
}

Test(rma_side, a_blob_that_cannot_be_bound_ends_only_it)
{
	const struct tagrv_hdr hdr = { .opcode = TAGRV_PKT_SIDE };
	char pkt[sizeof(hdr) + 3] = { 0 };

	memcpy(pkt, &hdr, sizeof(hdr));
	fake_deliver(fx.link, pkt, sizeof(pkt));
	serve_all();
	cr_expect_eq(last_sent(TAGRV_PKT_SIDE).flags, TAGRV_RMA_OFF);
	expect_fine();
}

/* ---- reads and writes ---- */

Test(rma_side, a_read_asks_nobody)
{
	open_side(RIGHTS);
	memcpy(open_mem, mine, LEN);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, LEN, contexts), 0);
	expect_by_side(FAKE_GET);
	end_moves(0);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to, mine, LEN);
	cr_expect_eq(counted(&reads), 1);
}

static void write_by_side(size_t len, uint64_t flags)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, len, contexts);

	req.flags |= flags;
	cr_assert_eq(submit_req(&req), 0);
	expect_by_side(FAKE_PUT);
	end_moves(0);
	if (flags & FI_DELIVERY_COMPLETE) {
		expect_empty(&fx.tx);
		expect_by_side(FAKE_GET);
		cr_expect_eq(fake.log[fake.log_cnt - 1].len, 1);
		end_moves(0);
	}
	expect_end(contexts, 0);
	cr_expect_arr_eq(open_mem, mine, len);
	memset(open_mem, 0, len);
	cr_expect_eq(the_peer()->sent, 0);
}

Test(rma_side, a_write_asks_nobody)
{
	struct tagrv_rma_sums before;

	open_side(RIGHTS);
	before = fx.engine->stats.rma_tx;
	write_by_side(8, 0);
	cr_expect_eq(fake.regs, 0, "short ones need no registered memory");
	write_by_side(128, 0);
	write_by_side(LEN, 0);
	cr_expect_eq(counted(&writes), 4);
	expect_begun(TAGRV_RMA_WRITE, before.ops[TAGRV_RMA_WRITE] + 3,
		     before.bytes[TAGRV_RMA_WRITE] + 8 + 128 + LEN);
}

Test(rma_side, what_is_delivered_was_read_back)
{
	open_side(RIGHTS);
	write_by_side(8, FI_DELIVERY_COMPLETE);
	write_by_side(LEN, FI_DELIVERY_COMPLETE);
	cr_expect_eq(count_kind(FAKE_GET), 2);
}

Test(rma_side, what_may_not_be_read_is_delivered_by_packets)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, contexts);

	open_side(TAGRV_MEM_WRITE);
	write_by_side(8, 0);
	req.flags |= FI_DELIVERY_COMPLETE;
	cr_assert_eq(submit_req(&req), 0);
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_end(contexts, 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	arrive_fin(last_sent(TAGRV_PKT_GET).op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
}

Test(rma_side, what_may_not_be_written_goes_by_packets)
{
	open_side(TAGRV_MEM_READ);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
}

Test(rma_side, what_is_injected_is_kept_until_it_is_there)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, NULL);
	char buf[8];

	open_side(RIGHTS);
	cr_expect(!tagrv_engine_store(fx.engine, fx.peer_addr, mine, 8, BASE, KEY));
	memcpy(buf, mine, 8);
	parts.iov.iov_base = buf;
	req.no_context = true;
	req.flags = 0;
	cr_assert_eq(submit_req(&req), 0);
	memset(buf, 0, 8);
	/* A key of another operation was not valid. */
	end_moves(-FI_EACCES);
	cr_expect_arr_eq(body_of(fake.log_cnt - 1), mine, 8);
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_empty(&fx.tx);
	cr_expect_eq(counted(&writes), 2);
	cr_expect_eq(fx.engine->stats.lost_injects, 0);
}

Test(rma_side, writes_stay_behind_fetches_if_that_was_asked_for)
{
	open_side(RIGHTS);
	fx.engine->attr.order = FI_ORDER_WAR;
	cr_assert_eq(submit_atomic(TAGRV_RMA_FETCH, 8, contexts), 0);
	arrive_answer(last_sent(TAGRV_PKT_ATOMIC).op, mine, 8);
	expect_end(contexts, 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	expect_by_side(FAKE_PUT);
	end_moves(0);
	expect_end(contexts, 0);
	cr_assert_eq(submit_atomic(TAGRV_RMA_FETCH, 8, contexts), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts + 1), 0);
	cr_expect_eq(count_kind(FAKE_PUT), 1, "it overtakes nothing");
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_end(contexts + 1, 0);
	arrive_answer(packet_header(fake.log_cnt - 2).op, mine, 8);
	expect_end(contexts, 0);
}

Test(rma_side, data_and_orders_need_packets)
{
	struct tagrv_rma_req req;

	open_side(RIGHTS);
	req = req_of(TAGRV_RMA_WRITE, 8, contexts);
	req.flags |= FI_REMOTE_CQ_DATA;
	cr_assert_eq(submit_req(&req), 0);
	arrive_fin(last_sent(TAGRV_PKT_PUT).op, 0);
	expect_end(contexts, 0);
	fx.engine->attr.order = FI_ORDER_WAW;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_end(contexts, 0);
	fx.engine->attr.order = 0;
	write_by_side(8, 0);
}

Test(rma_side, a_fence_waits_for_it)
{
	struct tagrv_rma_req req;

	open_side(RIGHTS);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	req = req_of(TAGRV_RMA_WRITE, 8, contexts + 1);
	req.flags |= FI_FENCE;
	cr_assert_eq(submit_req(&req), 0);
	serve_all();
	cr_expect_eq(count_kind(FAKE_PUT), 1);
	end_moves(0);
	cr_expect_eq(count_kind(FAKE_PUT), 2);
	end_moves(0);
	cr_expect_eq(take(&fx.tx).context, contexts);
	cr_expect_eq(take(&fx.tx).context, contexts + 1);
}

/* Its level is that of messages, too, which nobody awaits: they are in front of packets only. */
static void expect_fenced_by_packets(enum tagrv_rma_kind kind, uint64_t level)
{
	struct tagrv_rma_req req;
	size_t moves = count_kind(FAKE_GET) + count_kind(FAKE_PUT);

	cr_assert_eq(submit_send("x", 1, 4, contexts + 1, 0), 0);
	cr_expect_eq(take(&fx.tx).context, contexts + 1);
	req = req_of(kind, 8, contexts);
	req.flags |= FI_FENCE | level;
	cr_assert_eq(submit_req(&req), 0);
	serve_all();
	cr_expect_eq(count_kind(FAKE_GET) + count_kind(FAKE_PUT), moves);
	if (kind == TAGRV_RMA_READ)
		arrive_answer(last_sent(TAGRV_PKT_GET).op, mine, 8);
	else
		arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_end(contexts, 0);
}

Test(rma_side, a_fence_with_a_level_is_behind_messages_without)
{
	open_side(RIGHTS);
	expect_fenced_by_packets(TAGRV_RMA_WRITE, FI_DELIVERY_COMPLETE);
	expect_fenced_by_packets(TAGRV_RMA_WRITE, FI_TRANSMIT_COMPLETE);
	expect_fenced_by_packets(TAGRV_RMA_READ, 0);
	write_by_side(8, FI_FENCE);
	write_by_side(8, FI_TRANSMIT_COMPLETE);
	write_by_side(8, FI_DELIVERY_COMPLETE);
}

/* ---- its end ---- */

/* One read and one write in flight, and a read that has no room. */
static void begin_three(void)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts + 1), 0);
	fake.refuse_all = true;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, LEN, contexts + 2), 0);
	fake.refuse_all = false;
	cr_assert_eq(count_kind(FAKE_GET), 1);
	cr_assert_eq(count_kind(FAKE_PUT), 1);
}

Test(rma_side, a_key_that_is_not_valid_ends_only_it)
{
	open_side(RIGHTS);
	begin_three();
	fake_break_link(fake.side, -FI_EACCES);
	serve_all();
	cr_expect_eq(sent(TAGRV_PKT_GET), 2);
	cr_expect_eq(sent(TAGRV_PKT_STORE), 2);
	expect_empty(&fx.tx);
	expect_fine();
	for (size_t i = 0; i < fake.log_cnt; i++) {
		struct tagrv_hdr hdr;

		if (fake.log[i].kind != FAKE_SEND || fake.log[i].link != fx.link)
			continue;
		hdr = packet_header(i);
		if (hdr.opcode == TAGRV_PKT_STORE && i > 2)
			arrive_fin(hdr.op, 0);
		if (hdr.opcode == TAGRV_PKT_GET)
			arrive_fin(hdr.op, FI_EACCES);
	}
	for (int i = 0; i < 3; i++)
		take(&fx.tx);
	expect_empty(&fx.tx);
	cr_expect_eq(the_peer()->sent, 0);
	/* All later ones go by packets, and nobody asks. */
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_expect_eq(last_sent(TAGRV_PKT_GET).flags & TAGRV_RMA_VIEW, 0);
	arrive_answer(last_sent(TAGRV_PKT_GET).op, mine, 8);
	expect_end(contexts, 0);
}

Test(rma_side, what_goes_by_packets_again_is_behind_its_end)
{
	open_side(RIGHTS);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	fake.refuse_all = true;
	fake_break_link(fake.side, -FI_EHOSTUNREACH);
	serve_all();
	/* Room for packets, but not for control packets. */
	fake.refuse_all = false;
	fake.base.attr.max_short = 0;
	fake.ctrl_error = -FI_EAGAIN;
	serve_all();
	cr_expect_eq(sent(TAGRV_PKT_PUT) + sent(TAGRV_PKT_STORE), 1, "SIDE has to be first");
	fake.ctrl_error = 0;
	serve_all();
	cr_expect_eq(sent_nr(TAGRV_PKT_SIDE, 2, NULL).flags, TAGRV_RMA_OFF);
	arrive_fin(last_sent(TAGRV_PKT_PUT).op, 0);
	expect_end(contexts, 0);
	expect_fine();
}

/* The transport refuses the peer's key when a read that has waited begins. */
Test(rma_side, a_read_that_cannot_begin_is_behind_its_end)
{
	size_t at = 0;

	open_side(RIGHTS);
	fake.refuse_all = true;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	fake.refuse_all = false;
	fake.get_error = -FI_EINVAL;
	serve_all();
	fake.get_error = 0;
	serve_all();
	cr_expect_eq(sent_nr(TAGRV_PKT_SIDE, 2, &at).flags, TAGRV_RMA_OFF);
	cr_assert_eq(sent(TAGRV_PKT_GET), 1);
	cr_expect_eq(packet_header(fake.log_cnt - 1).opcode, TAGRV_PKT_GET);
	cr_expect_lt(at, fake.log_cnt - 1);
	cr_expect_not(the_peer()->side_off_due);
	arrive_answer(last_sent(TAGRV_PKT_GET).op, mine, 8);
	expect_end(contexts, 0);
}

/* The last packet is an empty STORE behind SIDE(off), which writes nothing once more. */
static void expect_proof(void)
{
	size_t off, store = fake.log_cnt - 1;
	struct tagrv_hdr hdr = last_sent(TAGRV_PKT_STORE);

	cr_expect_eq(sent_nr(TAGRV_PKT_SIDE, 2, &off).flags, TAGRV_RMA_OFF);
	cr_expect_lt(off, store);
	cr_expect_eq(hdr.tag, KEY);
	cr_expect_eq(hdr.data, BASE);
	cr_expect_eq(body_len(store), 0);
}

/* Its bytes are there, but not read back. */
Test(rma_side, what_is_to_be_delivered_goes_by_packets_if_the_link_ends)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, 8, contexts);
	size_t put;

	open_side(RIGHTS);
	req.flags |= FI_DELIVERY_COMPLETE;
	cr_assert_eq(submit_req(&req), 0);
	put = fake.log_cnt - 1;
	fake.hold_closed = true;
	fake_break_link(fake.side, -FI_EACCES);
	fake_complete(put, 0);
	serve_all();
	expect_proof();
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_end(contexts, 0);
	fake_close_held();
	expect_fine();
}

/* Ends the link while the byte behind a write of len bytes, which took effect, is read. */
static void break_proof(size_t len, uint64_t flags, void *context)
{
	struct tagrv_rma_req req = req_of(TAGRV_RMA_WRITE, len, context);

	req.flags = flags | FI_DELIVERY_COMPLETE;
	req.no_context = !context;
	cr_assert_eq(submit_req(&req), 0);
	fake_complete(fake.log_cnt - 1, 0);
	cr_expect_arr_eq(open_mem, mine, len);
	expect_by_side(FAKE_GET);
	fake_break_link(fake.side, -FI_EACCES);
	serve_all();
	expect_empty(&fx.tx);
	expect_proof();
}

/* The peer may have changed the bytes since. */
Test(rma_side, what_was_written_is_not_written_again)
{
	open_side(RIGHTS);
	break_proof(LEN, FI_COMPLETION, contexts);
	cr_expect_eq(fake.regs, 1, "where the byte is read to");
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_end(contexts, 0);
	cr_expect_eq(counted(&writes), 2);
	cr_expect_eq(the_peer()->sent, 0);
	expect_fine();
}

Test(rma_side, what_was_injected_is_not_written_again)
{
	open_side(RIGHTS);
	break_proof(8, FI_INJECT, NULL);
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
	expect_empty(&fx.tx);
	cr_expect_eq(counted(&writes), 2);
	expect_fine();
}

/* It is refused as any other write then. */
Test(rma_side, what_was_written_to_a_closed_window_ends_with_an_error)
{
	open_side(RIGHTS);
	break_proof(8, FI_COMPLETION, contexts);
	arrive_fin(last_sent(TAGRV_PKT_STORE).op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	expect_fine();
}

Test(rma_side, the_peer_ends_it)
{
	const struct tagrv_hdr off = {
		.opcode = TAGRV_PKT_SIDE, .flags = htole16(TAGRV_RMA_OFF),
	};

	open_side(RIGHTS);
	begin_three();
	fake_deliver(fx.link, &off, sizeof(off));
	fake_end_closed();
	serve_all();
	cr_expect_eq(sent(TAGRV_PKT_SIDE), 2, "it knows");
	cr_expect_eq(sent(TAGRV_PKT_GET), 2);
	cr_expect_eq(sent(TAGRV_PKT_STORE), 2);
	expect_empty(&fx.tx);
	expect_fine();
	fake_break_link(fx.link, -FI_ECONNRESET);
	for (int i = 0; i < 3; i++)
		cr_expect_eq(take(&fx.tx).err, FI_ECONNRESET);
	peer_up(true);
	fake_deliver(fx.link, &off, sizeof(off));
	cr_expect_eq(fx.engine->stats.bad_packets, 0, "there was none");
}

Test(rma_side, it_ends_with_the_connection)
{
	open_side(RIGHTS);
	begin_three();
	fake_break_link(fx.link, -FI_ECONNRESET);
	fake_end_closed();
	for (int i = 0; i < 3; i++)
		cr_expect_eq(take(&fx.tx).err, FI_ECONNRESET);
	expect_empty(&fx.tx);
	cr_expect_eq(fake.links, 0);
}

/* What it had under way ends when its link does, which may be much later. */
Test(rma_side, what_it_left_does_not_go_to_the_next_connection)
{
	open_side(RIGHTS);
	fake.hold_closed = true;
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	fake_break_link(fake.side, -FI_EACCES);
	fake_break_link(fx.link, -FI_ECONNRESET);
	peer_up(true);
	fake_close_held();
	serve_all();
	cr_expect_neq(take(&fx.tx).err, 0);
	expect_empty(&fx.tx);
	cr_expect_eq(sent(TAGRV_PKT_STORE), 1);
	expect_fine();
}

Test(rma_side, an_unbound_one_ends_with_the_connection)
{
	arrive_view(ask_by_write(), RIGHTS, LEN, 0);
	cr_expect_eq(fake.links, 2);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(fake.links, 0);
	peer_up(true);
	open_side(RIGHTS);
}

Test(rma_side, a_recall_ends_its_use_for_the_window)
{
	uint32_t id = ask_by_write();

	arrive_view(id, RIGHTS, LEN, 0);
	arrive_side(TAGRV_RMA_READY, true);
	write_by_side(8, 0);
	arrive_control(TAGRV_PKT_RECALL, id, 0);
	ask_by_write();
}

/* ---- SHOW ---- */

Test(rma_side, what_is_not_shown_is_asked_for_now_and_then)
{
	ask_by_write();
	for (int i = 0; i < 200; i++) {
		cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
		arrive_fin(last_sent(TAGRV_PKT_STORE).op, 0);
		expect_end(contexts, 0);
		serve_all();
	}
	cr_expect_eq(sent(TAGRV_PKT_SHOW), 4);
	cr_expect_eq(sent(TAGRV_PKT_STORE), 201);
}

Test(rma_side, counted_writes_ask_for_a_view)
{
	cr_expect(tagrv_engine_store(fx.engine, fx.peer_addr, mine, 8, BASE, KEY));
	serve_all();
	cr_expect_eq(sent(TAGRV_PKT_SHOW), 1);
	arrive_control(TAGRV_PKT_COUNT, 1, 0);
}

static struct tagrv_hdr show(uint32_t id, uint64_t addr)
{
	return (struct tagrv_hdr) {
		.opcode = TAGRV_PKT_SHOW, .op = htole32(id), .tag = htobe64(KEY),
		.data = htole64(addr),
	};
}

static void arrive_show(uint32_t id, uint64_t addr)
{
	const struct tagrv_hdr hdr = show(id, addr);

	fake_deliver(fx.link, &hdr, sizeof(hdr));
}

Test(rma_side, a_window_is_shown_with_its_rights)
{
	size_t at;

	arrive_show(5, BASE + LEN - 1);
	cr_expect_eq(sent_nr(TAGRV_PKT_VIEW, 0, &at).seq, RIGHTS);
	cr_expect_eq(sent_nr(TAGRV_PKT_VIEW, 0, &at).op, 5);
	cr_expect_eq(word_of(at, 0), BASE);
	cr_expect_eq(fake.regs, 1);
	arrive_show(6, BASE + LEN);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 1, "no window is there");
}

/* It would be behind the question whether the connection may be closed, and in its way. */
Test(rma_side, nothing_is_shown_while_the_peer_is_asked_to_part)
{
	tagrv_peer_set_state(the_peer(), TAGRV_PEER_PARTING);
	arrive_show(5, BASE);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 0);
	cr_expect_eq(the_peer()->rma.views->showing_cnt, 0);
}

static void expect_rights(unsigned rights, const char *why)
{
	size_t before = sent(TAGRV_PKT_VIEW);

	tagrv_rma_recall(fx.dom, &window);
	tagrv_window_deregister(fx.dom, &window);
	memset(window.regs, 0, sizeof(window.regs));
	arrive_show(5, BASE);
	cr_assert_eq(sent(TAGRV_PKT_VIEW), before + (rights != 0), "%s", why);
	if (rights)
		cr_expect_eq(sent_nr(TAGRV_PKT_VIEW, before, NULL).seq, rights, "%s", why);
}

Test(rma_side, what_is_counted_is_not_shown)
{
	expect_rights(RIGHTS, "nothing is counted");
	window.access = FI_REMOTE_WRITE;
	expect_rights(TAGRV_MEM_WRITE, "not to be read");
	window.access = FI_REMOTE_READ;
	expect_rights(TAGRV_MEM_READ, "not to be written");
	window.access |= FI_REMOTE_WRITE;
	window.write_cntr = &was_written;
	expect_rights(TAGRV_MEM_READ, "writes are counted");
	window.read_cntr = &was_read;
	expect_rights(0, "all is counted");
	window.read_cntr = window.write_cntr = NULL;
	fx.dom->lasting = TAGRV_MEM_STORE;
	expect_rights(0, "no key may last");
	fx.dom->lasting |= TAGRV_MEM_READ;
	fake.base.attr.caps &= ~(uint32_t) TAGRV_XPORT_SIDE;
	fake.base.attr.admits = TAGRV_MEM_REMOTE;
	expect_rights(TAGRV_MEM_READ, "without side links");
}

/* Counters may be bound to an endpoint that is enabled. */
Test(rma_side, what_is_counted_from_now_on_is_not_shown_any_more)
{
	struct tagrv_engine_sinks sinks = fx.engine->sinks;

	arrive_show(5, BASE);
	sinks.read_cntr = NULL;
	tagrv_engine_set_sinks(fx.engine, &sinks);
	cr_expect_eq(sent(TAGRV_PKT_RECALL), 0, "that counts nothing of peers");
	sinks.remote_write_cntr = &remote_writes;
	tagrv_engine_set_sinks(fx.engine, &sinks);
	cr_assert_eq(sent(TAGRV_PKT_RECALL), 1);
	cr_expect_eq(sent_nr(TAGRV_PKT_RECALL, 0, NULL).op, 5);
	arrive_show(6, BASE);
	cr_expect_eq(sent_nr(TAGRV_PKT_VIEW, 1, NULL).seq, TAGRV_MEM_READ);
	sinks.remote_read_cntr = &remote_reads;
	tagrv_engine_set_sinks(fx.engine, &sinks);
	cr_expect_eq(sent(TAGRV_PKT_RECALL), 2);
	arrive_show(7, BASE);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 2);
}

Test(rma_side, a_malformed_show_is_refused)
{
	struct tagrv_hdr hdr = show(0, BASE);

	fake_deliver(fx.link, &hdr, sizeof(hdr));
	expect_given_up();
}
