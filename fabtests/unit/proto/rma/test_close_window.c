/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Closing a window (fi_close of a region) while transports move bytes from or to it: they
 * have ended when it returns.
 */
#include "unit/proto/rma/onesided_fixture.h"

static struct tagrv_window other;
static char other_mem[1 << 16];

static void setup(void)
{
	onesided_setup();
	memset(other_mem, 0, sizeof(other_mem));
	other = (struct tagrv_window) {
		.key = KEY + 1, .len = sizeof(other_mem), .enabled = true,
		.access = FI_REMOTE_READ | FI_REMOTE_WRITE,
		.iov_cnt = 1, .iov = { { other_mem, sizeof(other_mem) } },
	};
	cr_assert_eq(tagrv_window_add(fx.dom, &other), 0);
}

/* The fixture's window is closed by each case. */
static void teardown(void)
{
	cr_assert(tagrv_list_empty(&window.uses));
	tagrv_window_remove(fx.dom, &other);
	cr_assert_eq(tagrv_window_add(fx.dom, &window), 0);
	onesided_teardown();
}

TestSuite(close_window, .init = setup, .fini = teardown, .timeout = 20);

Test(close_window, waits_for_nobody_when_nothing_is_under_way)
{
	const uint64_t value = 1;

	arrive_put(1, 0, &value, sizeof(value), 0);
	arrive_get(2, 0, 8, 0);
	tagrv_dom_close_window(fx.dom, &window);
	cr_assert_eq(fake.links, 1);
	arrive_put(3, 0, &value, sizeof(value), 0);
	cr_assert_eq(sent_nr(TAGRV_PKT_FIN, 1, NULL).data, FI_EACCES);
}

Test(close_window, waits_until_what_was_lent_is_returned)
{
	struct tagrv_hdr fin = { .opcode = TAGRV_PKT_FIN };

	fx.dom->params.close_timeout = 10;
	arrive_get(1, 0, LONG, TAGRV_RMA_KEYS);
	sent_nr(TAGRV_PKT_KEYS, 0, NULL);
	cr_assert_eq(fx.engine->lent, 1);
	memcpy(&fin.op, fake.log[fake.log_cnt - 1].data + sizeof(fin) +
			offsetof(struct tagrv_cts, op), sizeof(fin.op));
	fake_queue(fx.link, &fin, sizeof(fin));
	tagrv_dom_close_window(fx.dom, &window);
	cr_assert_eq(fx.engine->lent, 0);
	cr_assert_eq(fake.links, 1);
	cr_assert_eq(remote_reads.value, 1);
}

Test(close_window, gives_up_a_connection_that_goes_on_reading)
{
	fx.dom->params.close_timeout = 0;
	arrive_get(1, 0, LONG, TAGRV_RMA_KEYS);
	tagrv_dom_close_window(fx.dom, &window);
	cr_assert_eq(fx.engine->lent, 0);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(fake.regs, 0);
}

Test(close_window, nothing_writes_to_it_afterwards)
{
	static char from[LONG];

	memset(from, 1, sizeof(from));
	fx.dom->params.close_timeout = 0;
	arrive_pull(1, 0, LONG, from);
	cr_assert_gt(in_flight(), 0);
	tagrv_dom_close_window(fx.dom, &window);
	cr_assert_eq(in_flight(), 0);
	cr_assert_eq(fake.links, 0);
	cr_assert_eq(remote_writes.value, 0);
	fake_complete_all(0);
	cr_assert_eq(open_mem[0], 0);
}

Test(close_window, other_windows_need_not_wait)
{
	arrive_get(1, 0, LONG, TAGRV_RMA_KEYS);
	tagrv_dom_close_window(fx.dom, &other);
	cr_assert_eq(fake.links, 1);
	cr_assert_eq(fx.engine->lent, 1);
	cr_assert_eq(tagrv_window_add(fx.dom, &other), 0);
	tagrv_dom_close_window(fx.dom, &window);
}

/* A read of two windows goes by packets, which look for each of them. */
Test(close_window, nothing_is_lent_of_two_at_once)
{
	struct {
		struct tagrv_hdr hdr;
		struct tagrv_rma_range range[2];
	} pkt = {
		.hdr = { .opcode = TAGRV_PKT_GET, .op = htole32(1),
			 .flags = htole16(TAGRV_RMA_KEYS) },
		.range = {
			{ 0, htole64(4096), htole64(KEY) },
			{ 0, htole64(4096), htole64(KEY + 1) },
		},
	};

	fake_deliver(fx.link, &pkt, sizeof(pkt));
	cr_assert_eq(sent(TAGRV_PKT_KEYS), 0);
	cr_assert_gt(sent(TAGRV_PKT_ANSWER), 0);
	tagrv_dom_close_window(fx.dom, &window);
	cr_assert_eq(fake.links, 1);
}

/* ---- another window with the same key ---- */

static void reuse_key(void)
{
	tagrv_dom_close_window(fx.dom, &window);
	tagrv_window_remove(fx.dom, &other);
	other.key = KEY;
	cr_assert_eq(tagrv_window_add(fx.dom, &other), 0);
}

static uint64_t last_status(void)
{
	return sent_nr(TAGRV_PKT_FIN, sent(TAGRV_PKT_FIN) - 1, NULL).data;
}

Test(close_window, no_write_goes_on_in_the_next_one_of_its_key)
{
	const char zeros[1024] = { 0 };

	arrive_put(1, 0, mine, 512, TAGRV_RMA_MORE);
	reuse_key();
	arrive_put(1, 512, mine + 512, 256, TAGRV_RMA_MORE);
	arrive_put(1, 768, mine + 768, 256, 0);
	cr_expect_eq(last_status(), FI_EACCES);
	cr_expect_arr_eq(other_mem, zeros, 1024);
	cr_expect_eq(remote_writes.value, 0);
	arrive_put(2, 0, mine, 512, TAGRV_RMA_MORE);
	arrive_put(2, 512, mine + 512, 512, 0);
	cr_expect_eq(last_status(), 0);
	cr_expect_arr_eq(other_mem, mine, 1024);
}

Test(close_window, no_atomic_goes_on_in_the_next_one_of_its_key)
{
	const uint64_t one = 1;
	uint64_t value;

	arrive_atomic(1, TAGRV_RMA_ATOMIC, FI_SUM, 0, &one, 1, TAGRV_RMA_MORE);
	reuse_key();
	arrive_atomic(1, TAGRV_RMA_ATOMIC, FI_SUM, 8, &one, 1, 0);
	cr_expect_eq(last_status(), FI_EACCES);
	memcpy(&value, other_mem + 8, sizeof(value));
	cr_expect_eq(value, 0);
	arrive_atomic(2, TAGRV_RMA_ATOMIC, FI_SUM, 0, &one, 1, TAGRV_RMA_MORE);
	arrive_atomic(2, TAGRV_RMA_ATOMIC, FI_SUM, 8, &one, 1, 0);
	cr_expect_eq(last_status(), 0);
	memcpy(&value, other_mem + 8, sizeof(value));
	cr_expect_eq(value, 1);
}

Test(close_window, no_read_goes_on_in_the_next_one_of_its_key)
{
	const uint64_t len = the_peer()->frag_max + 1;

	cr_assert_leq(len, sizeof(other_mem));
	fake.log_max = 1;
	arrive_get(1, 0, len, 0);
	reuse_key();
	fake.log_max = 0;
	tagrv_engine_progress(fx.engine);
	cr_expect_eq(sent(TAGRV_PKT_ANSWER), 1);
	cr_assert_eq(sent(TAGRV_PKT_FIN), 1);
	cr_expect_eq(last_status(), FI_EACCES);
	arrive_get(2, 0, len, 0);
	cr_expect_eq(sent(TAGRV_PKT_ANSWER), 3);
	cr_expect_eq(sent(TAGRV_PKT_FIN), 1);
}
