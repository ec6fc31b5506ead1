/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Reads by a view: asking for one, reading by it, losing it, and windows that are shown.
 */
#include "unit/proto/rma/rma_calls.h"

#include "object/view.h"

/* Nobody counts reads, and gets are worth while from the first byte on. */
static void setup(void)
{
	struct tagrv_engine_sinks sinks;

	window_setup();
	sinks = fx.engine->sinks;
	sinks.remote_read_cntr = NULL;
	tagrv_engine_set_sinks(fx.engine, &sinks);
	window.read_cntr = NULL;
	fake.base.attr.get_least = 0;
}

static void teardown(void)
{
	if (fx.engine)
		tagrv_rma_recall(fx.dom, &window);
	tagrv_window_deregister(fx.dom, &window);
	window_teardown();
}

TestSuite(rma_view, .init = setup, .fini = teardown, .timeout = 20);

/* ---- initiator ---- */

struct view {
	struct tagrv_hdr hdr;
	struct tagrv_rma_source source;
	struct tagrv_rts_seg seg[5];
};

#define VIEW_LEN	(HDR + 24 + 32)

/* Of a window of the peer with LEN bytes in 'mine'. */
static struct view view_of(uint32_t id)
{
	return (struct view) {
		.hdr.opcode = TAGRV_PKT_VIEW, .hdr.op = htole32(id), .hdr.tag = htobe64(KEY),
		.hdr.seq = htole32(TAGRV_MEM_READ),
		.source = { .addr = htole64(BASE), .len = htole64(LEN), .seg_cnt = 1,
			    .key_len = 4 },
		.seg[0] = { .addr = htole64((uintptr_t) mine), .len = htole64(LEN) },
	};
}

static void arrive_view(uint32_t id)
{
	struct view view = view_of(id);

	fake_deliver(fx.link, &view, VIEW_LEN);
}

/* A read of len bytes by a GET, which is answered. Returns the id it asks for, or 0. */
static uint32_t read_by_get(size_t len)
{
	struct tagrv_hdr hdr;

	cr_assert_eq(submit_rma(TAGRV_RMA_READ, len, contexts), 0);
	hdr = packet_header(fake.log_cnt - 1);
	cr_assert_eq(hdr.opcode, TAGRV_PKT_GET);
	cr_expect_eq(!hdr.seq, !(hdr.flags & TAGRV_RMA_VIEW));
	arrive_answer(hdr.op, mine, len);
	expect_end(contexts, 0);
	return hdr.seq;
}

static void see_window(void)
{
	uint32_t id = read_by_get(8);

	cr_assert_neq(id, 0);
	arrive_view(id);
}

/* No packet leaves, and the bytes are read at once. */
static void read_by_view(size_t len)
{
	size_t packets = sent(TAGRV_PKT_GET);

	cr_assert_eq(submit_rma(TAGRV_RMA_READ, len, contexts), 0);
	cr_expect_gt(in_flight(), 0);
	end_gets(0);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to, mine, len);
	cr_expect_eq(sent(TAGRV_PKT_GET), packets);
}

Test(rma_view, reads_behind_it_ask_nobody)
{
	see_window();
	read_by_view(8);
	read_by_view(LEN);
	cr_expect_eq(counted(&reads), 3);
	expect_begun(TAGRV_RMA_READ, 3, 16 + LEN);
	cr_expect_eq(fx.engine->stats.rma_views, 2);
	cr_expect_eq(fake.regs, 0);
	expect_fine();
}

Test(rma_view, a_part_is_read_where_it_is)
{
	struct tagrv_rma_req req;

	see_window();
	req = req_of(TAGRV_RMA_READ, 10, contexts);
	parts.remote.addr += 1000;
	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(fake.log[fake.log_cnt - 1].raddr, (uintptr_t) mine + 1000);
	end_gets(0);
	expect_end(contexts, 0);
	cr_expect_arr_eq(read_to, mine + 1000, 10);
}

Test(rma_view, what_it_does_not_cover_is_asked_for)
{
	struct tagrv_rma_req req;

	see_window();
	req = req_of(TAGRV_RMA_READ, 10, contexts);
	parts.remote.addr += LEN - 9;
	cr_assert_eq(submit_req(&req), 0);
	cr_expect_eq(packet_header(fake.log_cnt - 1).opcode, TAGRV_PKT_GET);
	arrive_fin(packet_header(fake.log_cnt - 1).op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
}

Test(rma_view, it_is_asked_for_where_it_is_of_use)
{
	cr_expect_neq(read_by_get(8), 0);
	fake.base.attr.get_least = 9;
	cr_expect_eq(read_by_get(8), 0);
	cr_expect_neq(read_by_get(9), 0);
	fake.base.attr.caps = TAGRV_XPORT_PUT;
	cr_expect_eq(read_by_get(9), 0);
	fake.base.attr.caps = TAGRV_XPORT_GET;
	fake.base.attr.admits = TAGRV_MEM_WRITE;
	cr_expect_eq(read_by_get(9), 0);
}

/* It would overtake what has to be in front of it, or be overtaken. */
Test(rma_view, orders_are_kept)
{
	static const uint64_t holding[] = { FI_ORDER_WAR, FI_ORDER_SAR, FI_ORDER_RAR };

	see_window();
	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(holding); i++) {
		fx.engine->attr.order = holding[i];
		cr_expect_eq(read_by_get(8), 0);
	}
	fx.engine->attr.order = FI_ORDER_RAW;
	read_by_view(8);
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts + 1), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_expect_eq(packet_header(fake.log_cnt - 1).opcode, TAGRV_PKT_GET);
	arrive_fin(packet_header(fake.log_cnt - 2).op, 0);
	expect_end(contexts + 1, 0);
	arrive_answer(packet_header(fake.log_cnt - 1).op, mine, 8);
	expect_end(contexts, 0);
	read_by_view(8);
}

Test(rma_view, a_fence_waits_for_a_read_by_it)
{
	see_window();
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, 8, contexts), 0);
	cr_assert_eq(submit_send("x", 1, 4, contexts + 1, FI_FENCE), 0);
	tagrv_engine_progress(fx.engine);
	expect_empty(&fx.tx);
	end_gets(0);
	cr_expect_eq(take(&fx.tx).context, contexts);
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(take(&fx.tx).context, contexts + 1);
}

Test(rma_view, it_ends_by_a_recall_or_with_the_connection)
{
	uint32_t id = read_by_get(8);

	arrive_view(id);
	arrive_control(TAGRV_PKT_RECALL, id + 1, 0);
	read_by_view(8);
	arrive_control(TAGRV_PKT_RECALL, id, 0);
	id = read_by_get(8);
	cr_assert_neq(id, 0);
	arrive_view(id);
	read_by_view(8);
	fake_break_link(fx.link, -FI_EIO);
	peer_up(true);
	read_by_get(8);
	expect_fine();
}

/* The target says why, and the bytes may have been found otherwise. */
Test(rma_view, a_read_that_fails_is_asked_for)
{
	uint32_t op;

	see_window();
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, LEN, contexts), 0);
	end_gets(-FI_EACCES);
	cr_assert_eq(sent(TAGRV_PKT_GET), 2);
	op = packet_header(fake.log_cnt - 1).op;
	cr_assert_eq(packet_header(fake.log_cnt - 1).opcode, TAGRV_PKT_GET);
	cr_expect_eq(packet_header(fake.log_cnt - 1).flags & TAGRV_RMA_KEYS, 0);
	expect_begun(TAGRV_RMA_READ, 2, 8 + LEN);
	cr_expect_eq(fake.regs, 0);
	expect_empty(&fx.tx);
	arrive_fin(op, FI_EACCES);
	expect_end(contexts, FI_EACCES);
	cr_expect_eq(the_peer()->sent, 0);
	cr_expect_eq(the_peer()->rma.asked, 0);
	cr_expect_neq(read_by_get(8), 0, "the view is forgotten");
}

Test(rma_view, a_buffer_that_cannot_be_registered_goes_by_a_get)
{
	see_window();
	fake.reg_error = -FI_ENOMEM;
	read_by_get(8);
	fake.reg_error = 0;
	read_by_view(8);
}

Test(rma_view, a_read_by_it_ends_with_the_connection)
{
	see_window();
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, LEN, contexts), 0);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	expect_end(contexts, FI_EHOSTUNREACH);
	cr_expect_eq(fake.regs, 0);
	cr_expect_eq(the_peer()->sent, 0);
	peer_up(true);
	see_window();
	fake.log_max = fake.log_cnt;
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, LEN, contexts), 0);
	cr_expect_eq(in_flight(), 0, "no room");
	fake_break_link(fx.link, -FI_EIO);
	expect_end(contexts, FI_EIO);
}

static void expect_nonsense(const struct view *view, size_t len, const char *what)
{
	static uint64_t refused;

	fake_deliver(fx.link, view, len);
	cr_expect_eq(fx.engine->stats.bad_packets, ++refused, "%s", what);
	cr_expect_eq(fake.links, 0, "%s", what);
	if (fake.links)
		fake_break_link(fx.link, -FI_EIO);
	fake_forget();
	peer_up(true);
}

Test(rma_view, malformed_ones_are_refused)
{
#define REFUSED(field, value, len) do { \
		struct view view = view_of(read_by_get(8)); \
		view.field = value; \
		expect_nonsense(&view, len, #field); \
	} while (0)
	REFUSED(hdr.op, 0, VIEW_LEN);
	REFUSED(hdr.tag, htobe64(KEY + 1), VIEW_LEN);
	REFUSED(hdr.flags, htole16(1), VIEW_LEN);
	REFUSED(hdr.seq, 0, VIEW_LEN);
	REFUSED(hdr.seq, htole32(TAGRV_MEM_STORE), VIEW_LEN);
	REFUSED(source.len, 0, VIEW_LEN);
	REFUSED(source.len, htole64(LEN + 1), VIEW_LEN);
	REFUSED(source.seg_cnt, 0, HDR + 24);
	REFUSED(source.seg_cnt, 5, HDR + 24 + 5 * 32);
	REFUSED(source.key_len, TAGRV_KEY_MAX + 1, VIEW_LEN);
	REFUSED(source.addr, 0, HDR + 23);
	REFUSED(source.addr, 0, VIEW_LEN - 1);
#undef REFUSED
}

/* ---- target ---- */

static void arrive_get_view(uint32_t id, uint64_t len)
{
	const struct {
		struct tagrv_hdr hdr;
		struct tagrv_rma_range range;
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_GET, .op = htole32(PEER_OP),
			 .flags = htole16(TAGRV_RMA_VIEW), .seq = htole32(id) },
		.range = { htole64(BASE), htole64(len), htole64(KEY) },
	};

	fake_deliver(fx.link, &pkt, sizeof(pkt));
}

Test(rma_view, a_window_is_shown_as_a_whole)
{
	struct tagrv_hdr hdr;
	size_t at;

	arrive_get_view(5, 8);
	cr_expect_eq(sent(TAGRV_PKT_ANSWER), 1);
	hdr = sent_nr(TAGRV_PKT_VIEW, 0, &at);
	cr_expect_eq(hdr.op, 5);
	cr_expect_eq(hdr.tag, KEY);
	cr_expect_eq(word_of(at, 0), BASE);
	cr_expect_eq(word_of(at, 8), LEN);
	cr_expect_eq(body_of(at)[16], 1);
	cr_expect_eq(word_of(at, 24), (uintptr_t) open_mem);
	cr_expect_eq(word_of(at, 32), LEN);
	cr_expect_eq(fake.regs, 1);
	arrive_get_view(6, 8);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 2);
	cr_expect_eq(fake.regs, 1, "it is registered once");
}

Test(rma_view, its_close_is_told_to_all_who_see_it)
{
	arrive_get_view(5, 8);
	arrive_get_view(6, 8);
	tagrv_dom_close_window(fx.dom, &window);
	cr_expect_eq(sent_nr(TAGRV_PKT_RECALL, 0, NULL).op, 5);
	cr_expect_eq(sent_nr(TAGRV_PKT_RECALL, 1, NULL).op, 6);
	cr_expect_eq(fake.regs, 0);
	cr_expect_eq(the_peer()->rma.views->showing_cnt, 0);
	cr_assert_eq(tagrv_window_add(fx.dom, &window), 0);
	tagrv_dom_recall_window(fx.dom, &window);
	cr_expect_eq(sent(TAGRV_PKT_RECALL), 2);
}

Test(rma_view, a_recall_without_room_is_sent_later)
{
	arrive_get_view(5, 8);
	fake.log_max = fake.log_cnt;
	tagrv_dom_recall_window(fx.dom, &window);
	cr_expect_eq(sent(TAGRV_PKT_RECALL), 0);
	fake.log_max = 0;
	serve_all();
	cr_expect_eq(sent_nr(TAGRV_PKT_RECALL, 0, NULL).op, 5);
}

Test(rma_view, without_room_it_is_not_shown)
{
	fake.log_max = 1;
	arrive_get_view(5, 8);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 0);
	cr_expect_eq(the_peer()->rma.views->showing_cnt, 0);
	fake.log_max = 0;
	serve_all();
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 0);
}

Test(rma_view, the_newest_of_a_place_is_recalled_alone)
{
	arrive_get_view(5, 8);
	fake.log_max = fake.log_cnt + 1;
	arrive_get_view(5 + TAGRV_VIEWS, 8);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 1);
	cr_expect_eq(the_peer()->rma.views->showing_cnt, 1);
	fake.log_max = 0;
	arrive_get_view(5 + 2 * TAGRV_VIEWS, 8);
	cr_expect_eq(the_peer()->rma.views->showing_cnt, 1);
	tagrv_dom_refresh_window(fx.dom, &window);
	cr_expect_eq(sent(TAGRV_PKT_RECALL), 1);
	cr_expect_eq(sent_nr(TAGRV_PKT_RECALL, 0, NULL).op, 5 + 2 * TAGRV_VIEWS);
}

/* The peer still has the older one. */
Test(rma_view, the_older_one_is_recalled_if_the_newer_one_found_no_room)
{
	arrive_get_view(5, 8);
	fake.log_max = fake.log_cnt + 1;
	arrive_get_view(5 + TAGRV_VIEWS, 8);
	fake.log_max = 0;
	tagrv_dom_refresh_window(fx.dom, &window);
	cr_expect_eq(sent_nr(TAGRV_PKT_RECALL, 0, NULL).op, 5);
}

Test(rma_view, a_refreshed_window_is_registered_anew)
{
	arrive_get_view(5, 8);
	cr_expect_eq(fake.regs, 1);
	tagrv_dom_refresh_window(fx.dom, &window);
	cr_expect_eq(sent_nr(TAGRV_PKT_RECALL, 0, NULL).op, 5);
	cr_expect_eq(fake.regs, 0);
	arrive_get_view(6, 8);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 2);
	cr_expect_eq(fake.regs, 1);
}

Test(rma_view, a_connection_that_ends_sees_nothing)
{
	arrive_get_view(5, 8);
	cr_expect_eq(the_peer()->rma.views->showing_cnt, 1);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(the_peer()->rma.views->showing_cnt, 0);
	cr_expect(tagrv_list_empty(&window.showings));
	peer_up(true);
	tagrv_dom_recall_window(fx.dom, &window);
	cr_expect_eq(sent(TAGRV_PKT_RECALL), 0);
}

static void expect_hidden(const char *what)
{
	arrive_get_view(5, 8);
	cr_expect_eq(sent(TAGRV_PKT_VIEW), 0, "%s", what);
	cr_expect_eq(the_peer()->rma.views->showing_cnt, 0, "%s", what);
}

Test(rma_view, what_is_counted_is_not_shown)
{
	struct tagrv_engine_sinks sinks = fx.engine->sinks;

	window.read_cntr = &was_read;
	expect_hidden("a window with a counter");
	window.read_cntr = NULL;
	sinks.remote_read_cntr = &remote_reads;
	tagrv_engine_set_sinks(fx.engine, &sinks);
	expect_hidden("an endpoint with a counter");
	cr_expect_eq(counted(&was_read), 1);
	cr_expect_eq(counted(&remote_reads), 1);
}

/* Another endpoint of the domain may serve what this one does not. */
Test(rma_view, what_the_endpoint_does_not_serve_is_not_shown)
{
	uint64_t serves = fx.engine->attr.serves;

	window.access = FI_REMOTE_READ | FI_REMOTE_WRITE;
	cr_expect_eq(tagrv_window_rights(fx.engine, &window) & TAGRV_MEM_REMOTE,
		     TAGRV_MEM_READ | (window.write_cntr ? 0 : TAGRV_MEM_WRITE));
	fx.engine->attr.serves = FI_REMOTE_READ;
	cr_expect_eq(tagrv_window_rights(fx.engine, &window), TAGRV_MEM_READ);
	fx.engine->attr.serves = FI_REMOTE_WRITE;
	cr_expect_eq(tagrv_window_rights(fx.engine, &window) & TAGRV_MEM_READ, 0);
	fx.engine->attr.serves = serves;
}

/* Of two endpoints one counts writes: each shows what is left. */
Test(rma_view, a_window_is_registered_for_each_set_of_rights)
{
	struct tagrv_device *dev = fake.base.dev;
	struct tagrv_mem **both, **one;

	both = tagrv_window_register(fx.dom, &window, dev, TAGRV_MEM_REMOTE);
	one = tagrv_window_register(fx.dom, &window, dev, TAGRV_MEM_READ);
	cr_assert_not_null(both);
	cr_assert_not_null(one);
	cr_expect_neq(both[0], one[0]);
	cr_expect_eq(one[0]->access & TAGRV_MEM_REMOTE, TAGRV_MEM_READ);
	cr_expect(one[0]->access & TAGRV_MEM_ORDERED);
	cr_expect_eq(tagrv_window_register(fx.dom, &window, dev, TAGRV_MEM_READ), one);
	cr_expect_eq(fake.regs, 2);
}

Test(rma_view, what_peers_may_not_read_for_long_is_not_shown)
{
	fx.dom->lasting = TAGRV_MEM_STORE;
	expect_hidden("FI_TAGRV_EXPOSE=message");
	fx.dom->lasting |= TAGRV_MEM_READ;
	fake.base.attr.admits = TAGRV_MEM_WRITE;
	expect_hidden("a transport without remote reads");
	fake.base.attr.admits = TAGRV_MEM_READ;
	fake.base.attr.get_least = SIZE_MAX;
	expect_hidden("a connection that ends over a key that is not valid any more");
	fake.base.attr.get_least = 0;
	fake.reg_error = -FI_ENOMEM;
	expect_hidden("memory that cannot be registered");
	fake.reg_error = 0;
	expect_hidden("what could not be registered once");
}

Test(rma_view, a_refused_read_shows_nothing)
{
	arrive_get_view(5, LEN + 1);
	expect_fin(0, PEER_OP, FI_EACCES);
	expect_fine();
}

/* A peer that asks again and again gets no more memory of ours. */
Test(rma_view, what_is_shown_to_one_peer_is_bounded)
{
	for (uint32_t i = 1; i <= TAGRV_SHOWINGS_MAX + 10; i++) {
		arrive_get_view(i, 8);
		fake_forget();
	}
	cr_expect_eq(the_peer()->rma.views->showing_cnt, TAGRV_SHOWINGS_MAX);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(fx.engine->pools.showings.used, 0);
}

Test(rma_view, a_get_that_names_no_view_is_refused)
{
	arrive_get_view(0, 8);
	expect_given_up();
}
