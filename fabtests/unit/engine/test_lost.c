/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receives that name a source which is lost, with FI_TAGRV_PEER_ERRORS and without.
 */
#include <stdlib.h>
#include <string.h>

#include "unit/engine/rx_fixture.h"

static char buf[8][8];

static void wait_for_ever(void)
{
	engine_setup();
}

static void setup(void)
{
	setenv("FI_TAGRV_PEER_ERRORS", "yes", 1);
	engine_setup();
	peer_up(true);
}

static void setup_shared(void)
{
	setenv("FI_TAGRV_PEER_ERRORS", "yes", 1);
	rx_setup();
}

TestSuite(lost, .init = setup, .fini = engine_teardown, .timeout = 20);
TestSuite(lost_not, .init = wait_for_ever, .fini = engine_teardown, .timeout = 20);
TestSuite(lost_shared, .init = setup_shared, .fini = rx_teardown, .timeout = 20);

static ssize_t receive(int i, uint64_t tag, fi_addr_t from, uint64_t flags)
{
	struct tagrv_recv_req req = recv_req(buf[i], sizeof(buf[i]), tag, &ctx[i]);

	req.src = from;
	req.flags |= flags;
	return tagrv_rx_recv(fx.engine->rx, &req);
}

/* Passes that end what a lost connection leaves. */
static void pass(void)
{
	for (int i = 0; i < 2 * TAGRV_DRAIN_PASSES; i++)
		tagrv_engine_progress(fx.engine);
}

static void die(void)
{
	peer_event(TAGRV_WIREUP_GONE, -FI_ECONNRESET);
	pass();
}

static void expect_error(int i, uint64_t tag, int err)
{
	struct tagrv_comp comp = take(&fx.rx);

	cr_assert_eq(comp.context, &ctx[i]);
	cr_assert_eq(comp.err, err, "err %d", (int) comp.err);
	cr_assert_eq(comp.src, fx.peer_addr);
	cr_assert_eq(comp.flags, FI_RECV | FI_TAGGED);
	cr_assert_eq(comp.tag, tag);
	cr_assert_eq(comp.buf, buf[i]);
	cr_assert_eq(comp.len, 0);
}

Test(lost, receives_that_name_the_peer_end_once_and_in_order)
{
	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	cr_assert_eq(receive(1, 2, FI_ADDR_UNSPEC, 0), 0);
	cr_assert_eq(receive(2, 3, fx.peer_addr, 0), 0);
	die();
	expect_error(0, 1, FI_ECONNRESET);
	expect_error(2, 3, FI_ECONNRESET);
	expect_empty(&fx.rx);
	cr_assert_eq(atomic_load(&fx.rx_cntr.err), 2);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[0]), -FI_ENOENT);
	cr_assert_eq(tagrv_rx_cancel(fx.engine->rx, &ctx[1]), 0);
	cr_assert_eq(take(&fx.rx).err, FI_ECANCELED);
	pass();
	expect_empty(&fx.rx);
}

Test(lost, a_receive_that_comes_later_ends_at_once)
{
	die();
	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	expect_error(0, 1, FI_ECONNRESET);
	/* The short way of the API finds the source in no table. */
	cr_assert_null(fx.engine->table.by_addr[fx.peer_addr]);
	cr_assert_eq(receive(1, 1, fx.peer_addr, 0), 0);
	expect_error(1, 1, FI_ECONNRESET);
	expect_empty(&fx.rx);
	cr_assert_eq(fx.engine->rx->ops.used, 0);
}

/* It is not a send's look-up that makes a receive wait for ever. */
Test(lost, a_send_in_between_changes_nothing)
{
	int tx;

	die();
	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	expect_error(0, 1, FI_ECONNRESET);
	cr_assert_eq(submit_send("x", 1, 1, &tx, 0), 0);
	cr_assert_eq(receive(1, 1, fx.peer_addr, 0), 0);
	/* The send asks for a connection: the receive waits for that. */
	peer_event(TAGRV_WIREUP_FAILED, -FI_ECONNREFUSED);
	pass();
	cr_assert_eq(take(&fx.tx).err, FI_ECONNREFUSED);
	expect_error(1, 1, FI_ECONNREFUSED);
	expect_empty(&fx.rx);
}

Test(lost, what_the_peer_had_sent_is_received_first)
{
	struct tagrv_comp comp;

	arrive_eager("kept", 4, 1, 0, 0);
	die();
	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, 0);
	cr_assert_eq(comp.len, 4);
	cr_assert(!memcmp(buf[0], "kept", 4));
	cr_assert_eq(receive(1, 1, fx.peer_addr, 0), 0);
	expect_error(1, 1, FI_ECONNRESET);
	expect_empty(&fx.rx);
}

Test(lost, a_peer_that_closed_is_lost_too)
{
	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	peer_event(TAGRV_WIREUP_GONE, 0);
	cr_assert_eq(receive(1, 2, fx.peer_addr, 0), 0);
	pass();
	expect_error(0, 1, FI_ECONNRESET);
	expect_error(1, 2, FI_ECONNRESET);
	expect_empty(&fx.rx);
}

Test(lost, an_error_of_the_device_tells_its_reason)
{
	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	fake_break_link(fx.link, -FI_EHOSTUNREACH);
	expect_empty(&fx.rx);
	tagrv_engine_progress(fx.engine);
	expect_error(0, 1, FI_EHOSTUNREACH);
	expect_empty(&fx.rx);
}

/* Receives of the former life end; those of the new one get its messages. */
Test(lost, a_restarted_peer_is_received_from)
{
	struct tagrv_comp comp;

	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	peer_up(true);
	expect_error(0, 1, FI_ECONNRESET);
	cr_assert_eq(receive(1, 1, fx.peer_addr, 0), 0);
	arrive_eager("new", 3, 1, 0, 0);
	comp = take(&fx.rx);
	cr_assert_eq(comp.context, &ctx[1]);
	cr_assert_eq(comp.err, 0);
	pass();
	expect_empty(&fx.rx);
}

Test(lost, the_first_receive_asks_for_a_connection)
{
	struct tagrv_addr other = local(11);
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_FAILED, .addr = other,
		.status = -FI_EHOSTUNREACH,
	};
	struct tagrv_comp comp;
	fi_addr_t from;

	cr_assert_eq(tagrv_avtab_insert(&fx.av, &other, &from), 0);
	cr_assert_eq(receive(0, 1, from, 0), 0);
	cr_assert_eq(tagrv_peer_find(fx.engine, &other)->state,
		     TAGRV_PEER_CONNECTING);
	expect_empty(&fx.rx);
	tagrv_engine_wireup_event(fx.engine, &event);
	tagrv_engine_progress(fx.engine);
	comp = take(&fx.rx);
	cr_assert_eq(comp.err, FI_EHOSTUNREACH);
	cr_assert_eq(comp.src, from);
	expect_empty(&fx.rx);
}

/* A send that was refused has looked the peer up, and has connected to nobody. */
Test(lost, a_refused_send_leaves_no_short_way)
{
	struct tagrv_addr other = local(11);
	struct tagrv_send_req req = send_req("x", 1, 1, ctx);

	cr_assert_eq(tagrv_avtab_insert(&fx.av, &other, &req.dest), 0);
	fx.engine->pools.tx_ops.max = 0;
	cr_assert_eq(tagrv_engine_send(fx.engine, &req), -FI_EAGAIN);
	cr_assert_eq(receive(0, 1, req.dest, 0), 0);
	cr_assert_eq(tagrv_peer_find(fx.engine, &other)->state,
		     TAGRV_PEER_CONNECTING);
}

/* Only the link was taken back: the receive waits for the next one. */
Test(lost, a_link_taken_back_is_no_loss)
{
	fake_break_link(fx.link, -FI_ECONNRESET);
	pass();
	peer_up(false);
	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	peer_event(TAGRV_WIREUP_GONE, -FI_EAGAIN);
	pass();
	expect_empty(&fx.rx);
	cr_assert_eq(tagrv_peer_find(fx.engine, &fx.addr)->state,
		     TAGRV_PEER_CONNECTING, "nobody would notice its death");
	peer_up(true);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).err, 0);
}

Test(lost, a_row_inserted_again_means_a_new_peer)
{
	fi_addr_t again;

	die();
	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	expect_error(0, 1, FI_ECONNRESET);
	cr_assert_eq(tagrv_avtab_remove(&fx.av, fx.peer_addr), 0);
	cr_assert_eq(tagrv_avtab_insert(&fx.av, &fx.addr, &again), 0);
	cr_assert_eq(receive(1, 1, again, 0), 0);
	expect_empty(&fx.rx);
	peer_up(true);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).context, &ctx[1]);
}

Test(lost, receives_of_several_segments_and_of_several_messages_end_too)
{
	struct iovec iov[2] = { { buf[0], 4 }, { buf[1], 4 } };
	struct tagrv_recv_req req = recv_req(NULL, 0, 1, &ctx[0]);
	struct tagrv_comp comp;

	tagrv_rx_set_min_multi_recv(fx.engine->rx, 1);
	for (int later = 0; later < 2; later++) {
		req.iov = iov;
		req.iov_cnt = 2;
		req.src = fx.peer_addr;
		cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
		cr_assert_eq(receive(2, 3, fx.peer_addr, FI_MULTI_RECV), 0);
		if (!later)
			die();
		comp = take(&fx.rx);
		cr_assert_eq(comp.context, &ctx[0]);
		cr_assert_eq(comp.err, FI_ECONNRESET);
		cr_assert_eq(comp.buf, buf[0]);
		comp = take(&fx.rx);
		cr_assert_eq(comp.context, &ctx[2]);
		cr_assert_eq(comp.err, FI_ECONNRESET);
		cr_assert(comp.flags & FI_MULTI_RECV);
		expect_empty(&fx.rx);
		cr_assert_eq(fx.engine->rx->ops.used, 0);
	}
}

Test(lost, a_peek_tells_that_no_message_will_come)
{
	struct tagrv_recv_req req = recv_req(NULL, 0, 1, ctx);

	req.iov_cnt = 0;
	req.src = fx.peer_addr;
	req.flags |= FI_PEEK;
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).err, FI_ENOMSG);
	die();
	cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	cr_assert_eq(take(&fx.rx).err, FI_ECONNRESET);
}

/* A long queue, part of it in a hash, of two sources. */
Test(lost, thousands_end_and_those_of_others_stay)
{
	struct tagrv_addr other = local(11);
	struct tagrv_match_stats stats;
	fi_addr_t from[2] = { fx.peer_addr };
	static char names[4000];

	cr_assert_eq(tagrv_avtab_insert(&fx.av, &other, &from[1]), 0);
	for (size_t i = 0; i < 4000; i++) {
		struct tagrv_recv_req req = recv_req(buf, 8, i % 50, &names[i]);

		req.src = from[i & 1];
		req.ignore = i % 3;
		cr_assert_eq(tagrv_rx_recv(fx.engine->rx, &req), 0);
	}
	die();
	for (size_t i = 0; i < 4000; i += 2)
		cr_assert_eq(take(&fx.rx).context, &names[i], "not in order");
	expect_empty(&fx.rx);
	tagrv_rx_match_stats(fx.engine->rx, &stats);
	cr_assert_eq(stats.posted, 2000);
}

Test(lost_not, by_default_receives_wait_for_a_restart)
{
	peer_up(true);
	cr_assert_eq(receive(0, 1, fx.peer_addr, 0), 0);
	die();
	cr_assert_eq(receive(1, 2, fx.peer_addr, 0), 0);
	expect_empty(&fx.rx);
	peer_up(true);
	arrive_eager("x", 1, 2, 0, 0);
	cr_assert_eq(take(&fx.rx).context, &ctx[1]);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(take(&fx.rx).context, &ctx[0]);
}

/* ---- endpoints that share receives ---- */

static void post_from_peer(void *context)
{
	cr_assert_eq(post_flags(dst, 8, 1, context, fx.peer_addr, 0), 0);
}

static void break_user(int i)
{
	fake_break_link(users[i].link, -FI_ECONNRESET);
	tagrv_engine_progress(users[i].engine);
}

Test(lost_shared, a_peer_that_another_endpoint_reaches_is_not_lost)
{
	struct tagrv_comp comp;

	post_from_peer(&ctx[0]);
	break_user(0);
	post_from_peer(&ctx[1]);
	break_user(2);
	expect_all_empty();
	break_user(1);
	for (int i = 0; i < 2; i++) {
		comp = take(&users[0].rx);
		cr_assert_eq(comp.context, &ctx[i]);
		cr_assert_eq(comp.err, FI_ECONNRESET);
		cr_assert_eq(comp.src, fx.peer_addr);
	}
	expect_all_empty();
	post_from_peer(&ctx[2]);
	cr_assert_eq(take(&users[0].rx).err, FI_ECONNRESET);
	expect_all_empty();
}

Test(lost_shared, a_connection_of_one_endpoint_serves_the_receives_of_all)
{
	for (int i = 0; i < ENGINES; i++)
		break_user(i);
	connect_user(&users[2], &fx.addr);
	post_from_peer(ctx);
	expect_all_empty();
	use(2);
	arrive_eager("x", 1, 1, 0, 0);
	cr_assert_eq(take(&users[2].rx).context, ctx);
}
