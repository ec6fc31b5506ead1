/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A window is closed (fi_close of a region) while operations of a peer are in each state
 * that they can have: the call returns, no byte of the window changes afterwards, none of it
 * leaves, and the peer has one answer for each operation or no connection any more.
 */
#include "common/slowness.h"
#include "core/clock.h"
#include "unit/proto/rma/rma_calls.h"

static char snapshot[LEN];
static bool closed;

static void setup(void)
{
	window_setup();
	closed = false;
	/* Nothing below is to wait for it. */
	fx.dom->params.close_timeout = 60;
	for (size_t i = 0; i < LEN; i++)
		open_mem[i] = (char) (i * 3 + (i >> 8));
}

/* The window is in the domain again, as the fixture left it. */
static void teardown(void)
{
	cr_assert(closed);
	cr_expect_eq(memcmp(open_mem, snapshot, LEN), 0, "nothing has changed");
	if (fake.links)
		fake_break_link(fx.link, -FI_ECONNRESET);
	cr_expect_eq(memcmp(open_mem, snapshot, LEN), 0, "nor with the connection's end");
	cr_assert(tagrv_list_empty(&window.uses));
	cr_assert_eq(tagrv_window_add(fx.dom, &window), 0);
	window_teardown();
}

TestSuite(rma_close, .init = setup, .fini = teardown, .timeout = 60);

static void close_window(void)
{
	uint64_t begin = tagrv_clock_ms();

	tagrv_dom_close_window(fx.dom, &window);
	closed = true;
	cr_assert_lt(tagrv_clock_ms() - begin, slow_ms(8000));
	cr_assert(tagrv_list_empty(&window.uses));
	cr_assert_eq(in_flight(), 0);
	cr_assert_eq(fx.engine->lent, 0);
	memcpy(snapshot, open_mem, LEN);
}

/* What the device and the peer still do comes too late. */
static void go_on(void)
{
	fake_complete_all(0);
	serve_all();
	fake_complete_all(0);
}

static size_t fins_of(uint32_t op, uint32_t status)
{
	size_t cnt = 0;

	for (size_t i = 0; i < fake.log_cnt; i++) {
		struct tagrv_hdr hdr;

		if (fake.log[i].kind != FAKE_SEND)
			continue;
		hdr = packet_header(i);
		cnt += hdr.opcode == TAGRV_PKT_FIN && hdr.op == op && hdr.data == status;
		for (size_t at = 0; hdr.opcode == TAGRV_PKT_FIN && at < body_len(i); at += 8) {
			uint64_t more = word_of(i, at);

			cnt += (uint32_t) more == op && more >> 32 == status;
		}
	}
	return cnt;
}

/* For the next pass of progress: the peer says this while the window is being closed. */
static void queue_fin(uint32_t op, uint32_t status)
{
	const struct tagrv_hdr hdr = {
		.opcode = TAGRV_PKT_FIN, .op = htole32(op), .data = htole64(status),
	};

	fake_queue(fx.link, &hdr, sizeof(hdr));
}

/* A packet that is none: to the engine the connection fails. */
static void queue_death(void)
{
	fake_queue(fx.link, "", 1);
}

static uint32_t lender_of(size_t nr)
{
	struct tagrv_cts cts;
	size_t at;

	sent_nr(TAGRV_PKT_KEYS, nr, &at);
	memcpy(&cts, body_of(at), sizeof(cts));
	return le32toh(cts.op);
}

/* ---- by packets ---- */

Test(rma_close, a_write_of_several_packets)
{
	const uint64_t word = 1;

	arrive_put(PEER_OP, BASE, &word, sizeof(word), TAGRV_RMA_MORE);
	close_window();
	arrive_put(PEER_OP, BASE + 8, &word, sizeof(word), TAGRV_RMA_MORE);
	cr_expect_eq(sent(TAGRV_PKT_FIN), 0);
	arrive_put(PEER_OP, BASE + 16, &word, sizeof(word), 0);
	cr_expect_eq(fins_of(PEER_OP, FI_EACCES), 1);
	cr_expect_eq(counted(&was_written), 0);
	expect_fine();
}

Test(rma_close, a_fetching_atomic_whose_answer_waits)
{
	const uint64_t one = 1;
	uint64_t former;

	memcpy(&former, open_mem, sizeof(former));
	fake.refuse_all = true;
	arrive_atomic(PEER_OP, TAGRV_RMA_FETCH, FI_SUM, BASE, &one, 1, 0);
	close_window();
	fake.refuse_all = false;
	serve_all();
	cr_assert_eq(sent(TAGRV_PKT_ANSWER), 1, "it was carried out before");
	cr_expect_eq(word_of(0, 0), le64toh(former));
	expect_fine();
}

Test(rma_close, a_read_of_which_a_part_is_answered)
{
	arrive_get(PEER_OP, BASE, LEN, 0);
	cr_assert_gt(sent(TAGRV_PKT_ANSWER), 0);
	cr_assert_lt(sent(TAGRV_PKT_ANSWER), LEN / FRAG);
	cr_assert_eq(the_peer()->rma.serving, 1);
	fake.refuse_all = true;
	close_window();
	fake.refuse_all = false;
	fake_forget();
	serve_all();
	cr_expect_eq(sent(TAGRV_PKT_ANSWER), 0, "nothing of it leaves");
	cr_expect_eq(fins_of(PEER_OP, FI_EACCES), 1);
	cr_expect_eq(the_peer()->rma.serving, 0);
	expect_fine();
}

/* ---- PULL ---- */

Test(rma_close, a_long_write_whose_reads_end)
{
	fake.log_max = 1;
	arrive_pull(PEER_OP, BASE, LEN, mine);
	cr_assert_eq(in_flight(), 1);
	fake.log_max = 0;
	fake.ends_gets = true;
	close_window();
	fake.ends_gets = false;
	cr_expect_eq(memcmp(open_mem, mine, LEN), 0, "it was waited for");
	serve_all();
	cr_expect_eq(fins_of(PEER_OP, 0), 1);
	cr_expect_eq(counted(&was_written), 1);
	expect_fine();
}

Test(rma_close, a_long_write_whose_reads_fail)
{
	arrive_pull(PEER_OP, BASE, LEN, mine);
	queue_death();
	close_window();
	cr_expect_eq(counted(&was_written), 0);
	cr_expect_eq(fake.links, 0);
	go_on();
	cr_expect_eq(sent(TAGRV_PKT_FIN), 0);
}

Test(rma_close, a_long_write_whose_reads_never_end)
{
	fx.dom->params.close_timeout = 0;
	arrive_pull(PEER_OP, BASE, LEN, mine);
	close_window();
	cr_expect_eq(counted(&was_written), 0);
	cr_expect_eq(fake.links, 0);
	go_on();
}

/* None of its reads was posted. */
Test(rma_close, a_long_write_without_room)
{
	fx.dom->params.close_timeout = 0;
	fake.refuse_all = true;
	arrive_pull(PEER_OP, BASE, LEN, mine);
	cr_assert_eq(in_flight(), 0);
	close_window();
	fake.refuse_all = false;
	cr_expect_eq(fake.links, 0);
	go_on();
	cr_expect_eq(in_flight(), 0);
}

/* ---- KEYS ---- */

Test(rma_close, a_long_read_that_ends)
{
	arrive_get(PEER_OP, BASE, LEN, TAGRV_RMA_KEYS);
	queue_fin(lender_of(0), 0);
	close_window();
	cr_expect_eq(fake.regs, 0);
	cr_expect_eq(counted(&was_read), 1);
	expect_fine();
}

Test(rma_close, a_long_read_that_fails)
{
	arrive_get(PEER_OP, BASE, LEN, TAGRV_RMA_KEYS);
	queue_fin(lender_of(0), FI_EFAULT);
	close_window();
	cr_expect_eq(fake.regs, 0);
	cr_expect_eq(counted(&was_read), 0);
	expect_fine();
}

Test(rma_close, a_long_read_of_a_peer_that_dies)
{
	arrive_get(PEER_OP, BASE, LEN, TAGRV_RMA_KEYS);
	queue_death();
	close_window();
	cr_expect_eq(fake.links, 0);
	cr_expect_eq(fake.regs, 0);
	cr_expect_eq(fake.regs_at_close, 1, "the connection ends before the registration");
}

Test(rma_close, long_reads_of_a_peer_that_never_returns_them)
{
	fx.dom->params.close_timeout = 0;
	for (uint32_t i = 1; i <= 3; i++)
		arrive_get(i, BASE, LEN, TAGRV_RMA_KEYS);
	arrive_pull(4, BASE, LEN, mine);
	cr_assert_eq(fx.engine->lent, 3);
	close_window();
	cr_expect_eq(fake.links, 0);
	cr_expect_eq(fake.regs, 0);
	go_on();
	/* The peer may come again, and finds the window no more. */
	peer_up(true);
	fake_forget();
	arrive_get(5, BASE, LEN, TAGRV_RMA_KEYS);
	cr_expect_eq(fins_of(5, FI_EACCES), 1);
}

/* ---- others go on ---- */

Test(rma_close, operations_of_ours_end_once)
{
	cr_assert_eq(submit_rma(TAGRV_RMA_WRITE, 8, contexts), 0);
	cr_assert_eq(submit_rma(TAGRV_RMA_READ, LEN, contexts + 1), 0);
	arrive_get(PEER_OP, BASE, LEN, TAGRV_RMA_KEYS);
	queue_fin(lender_of(0), 0);
	close_window();
	expect_fine();
	expect_empty(&fx.tx);
	arrive_fin(sent_nr(TAGRV_PKT_PUT, 0, NULL).op, 0);
	expect_end(contexts, 0);
	fake_break_link(fx.link, -FI_EIO);
	cr_expect_eq(take(&fx.tx).context, contexts + 1);
	expect_empty(&fx.tx);
}
