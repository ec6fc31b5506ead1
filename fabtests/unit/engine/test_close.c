/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Closing: what is waited for, what is not, and how long.
 */
#include <pthread.h>
#include <string.h>

#include "common/slowness.h"
#include "core/clock.h"
#include "common/engine_fixture.h"

static char data[1024];

static void setup(void)
{
	engine_setup();
	peer_up(true);
	fx.dom->params.close_timeout = 10;
}

TestSuite(open, .init = setup, .fini = engine_teardown, .timeout = 30);

/* So many sends end by it, or had ended before, and nobody is waited for in vain. */
static void expect_close(uint64_t ended)
{
	uint64_t begin = tagrv_clock_ms();

	engine_close();
	cr_assert_lt(tagrv_clock_ms() - begin, slow_ms(8000));
	cr_assert_eq(atomic_load(&fx.tx_cntr.value), ended);
	cr_assert_eq(atomic_load(&fx.tx_cntr.err), 0);
}

static void submit_inject(size_t len)
{
	struct tagrv_send_req req = send_req(data, len, 1, NULL);

	req.flags = FI_INJECT;
	req.no_context = true;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), 0);
}

/* The peer gives no credit any more. */
static void take_credit(void)
{
	fx.engine->table.peers[0]->credit.left = 0;
}

/* For the next pass of progress that finds no other. */
static void queue_packet(uint8_t opcode, uint32_t op)
{
	const struct tagrv_hdr hdr = { .opcode = opcode, .op = op };
	uint64_t words[TAGRV_SHORT_WORDS];

	tagrv_hdr_pack(words, &hdr);
	fake_queue(fx.link, words, sizeof(words));
}

static void answer_late(uint32_t handle)
{
	while (fake.queue_cnt < FAKE_QUEUE_MAX - 1)
		queue_packet(TAGRV_PKT_CREDIT, 0);
	queue_packet(TAGRV_PKT_FIN, handle);
}

Test(open, what_was_injected_is_waited_for)
{
	take_credit();
	submit_inject(sizeof(data));
	submit_inject(0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_RTS);
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_RTS);
	queue_packet(TAGRV_PKT_FIN, packet_header(0).op);
	answer_late(packet_header(1).op);
	expect_close(2);
}

Test(open, what_was_injected_and_has_left_is_not)
{
	uint32_t handle;

	take_credit();
	submit_inject(sizeof(data));
	handle = packet_header(0).op;
	arrive_cts(handle, 7, sizeof(data), sizeof(data));
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_FRAG);
	fx.engine->table.peers[0]->credit.left = TAGRV_CREDIT_FIRST;
	submit_inject(8);
	expect_close(1);
}

static void leave_inject_without_fin(void)
{
	take_credit();
	submit_inject(sizeof(data));
	arrive_cts(packet_header(0).op, 7, sizeof(data), sizeof(data));
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_FRAG);
}

/* The peer has all bytes: only its FIN is not here. */
Test(open, what_was_injected_and_has_left_is_not_lost)
{
	leave_inject_without_fin();
	expect_close(0);
	cr_expect_eq(log_count("an injected message"), 0);
}

/* No transport has confirmed the fragment. */
Test(open, what_was_injected_and_may_have_left_is_logged)
{
	leave_inject_without_fin();
	fx.dom->params.close_timeout = 0;
	fake.outstanding = 1;
	engine_close();
	cr_expect_eq(log_count("an injected message"), 1);
}

static void submit_write(size_t len)
{
	const struct iovec iov = { data, len };
	const struct fi_rma_iov remote = { 0, len, 1 };
	const struct tagrv_rma_req req = {
		.kind = TAGRV_RMA_WRITE, .iov = &iov, .iov_cnt = 1,
		.remote = &remote, .remote_cnt = 1, .dest = fx.peer_addr,
		.flags = FI_INJECT, .no_context = true,
	};

	cr_assert_eq(tagrv_engine_rma(fx.engine, &req), 0);
}

/* A peer that is slow, or has gone, need not say that it has the bytes. */
Test(open, writes_that_were_injected_and_have_left_are_not_waited_for)
{
	submit_write(8);
	submit_write(sizeof(data));
	cr_assert_eq(packet_header(1).opcode, TAGRV_PKT_PUT);
	expect_close(0);
	cr_expect_eq(log_count("an injected"), 0);
}

Test(open, writes_that_were_injected_and_found_no_room_are_waited_for)
{
	fx.dom->params.close_timeout = 0;
	fake.refuse_all = true;
	submit_write(8);
	engine_close();
	cr_expect_eq(log_count("an injected"), 1);
}

/* Nobody was told that it is done. */
Test(open, what_was_only_announced_is_not)
{
	take_credit();
	cr_assert_eq(submit_send(data, sizeof(data), 1, data, 0), 0);
	cr_assert_eq(packet_header(0).opcode, TAGRV_PKT_RTS);
	expect_close(0);
}

/* ---- what is told ---- */

static int lines, locked;

static void look_at(const char *line)
{
	if (!strstr(line, "unexpected at a time"))
		return;
	lines++;
	if (pthread_mutex_trylock(&fx.dom->lock.mutex))
		locked++;
	else
		pthread_mutex_unlock(&fx.dom->lock.mutex);
}

/* Of queues that other endpoints may use at the same time. */
Test(open, queues_are_looked_at_under_the_lock)
{
	fx.dom->lock.on = true;
	log_hook = look_at;
	engine_close();
	log_hook = NULL;
	cr_assert_eq(lines, 1);
	cr_assert_eq(locked, 1);
}
