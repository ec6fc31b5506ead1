/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A link asks for new paths while operations wait for it.
 */
#include "common/engine_fixture.h"

TestSuite(renew, .init = engine_setup, .fini = engine_teardown, .timeout = 30);

static char message[8] = "message";

/* A connection without any path that works, and a send that waits. */
static void go_down(int *ctx)
{
	peer_up(true);
	fake.refuse_all = true;
	cr_assert_eq(submit_send(message, sizeof(message), 1, ctx, 0), 0);
	fake_ask_renewal(fx.link, true);
}

static void renewed(uint32_t resumes, uint32_t epoch)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_UP,
		.addr = fx.addr,
		.epoch = epoch,
		.resumes = resumes,
		.sendable = true,
		.max_packet = fx.max_packet,
		.link = fake_link(),
	};

	tagrv_engine_wireup_event(fx.engine, &event);
}

static void gone(uint32_t epoch, int status)
{
	struct tagrv_wireup_event event = {
		.type = TAGRV_WIREUP_GONE,
		.addr = fx.addr,
		.epoch = epoch,
		.status = status,
	};

	tagrv_engine_wireup_event(fx.engine, &event);
	for (int i = 0; i < 200; i++)
		tagrv_engine_progress(fx.engine);
}

Test(renew, operations_go_on_over_the_new_link)
{
	int ctx[2];

	go_down(&ctx[0]);
	renewed(1, 2);
	cr_assert_eq(fake.resumes, 1);
	cr_assert_eq(fake.links, 1);
	fake.refuse_all = false;
	tagrv_engine_progress(fx.engine);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	cr_assert_eq(packet_header(0).seq, 0, "the same connection goes on");
	gone(1, -FI_ECONNRESET);
	cr_assert_eq(submit_send(message, sizeof(message), 1, &ctx[1], 0), 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[1], "a late event ends nothing");
	cr_assert_eq(packet_header(1).seq, 1);
	renewed(2, 5);
	cr_assert_eq(fake.resumes, 2);
	gone(5, -FI_ECONNRESET);
	cr_assert_eq(fake.links, 0);
	expect_empty(&fx.tx);
}

/* Or the peer died: the status is what the wireup thread found. */
Test(renew, no_path_in_time_ends_each_operation_once)
{
	static const int status[] = { FI_EHOSTUNREACH, FI_ECONNRESET };
	int ctx;

	for (int i = 0; i < 2; i++) {
		go_down(&ctx);
		gone(1, -status[i]);
		cr_assert_eq(take(&fx.tx).err, status[i]);
		expect_empty(&fx.tx);
		cr_assert_eq(fake.links, 0);
		fake.refuse_all = false;
	}
}

Test(renew, link_that_cannot_go_on_ends)
{
	int ctx;

	go_down(&ctx);
	fake.resume_error = -FI_ENOTCONN;
	renewed(1, 2);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	expect_empty(&fx.tx);
	fake_end_closed();
	cr_assert_eq(fake.links, 0, "the new link, too");
}

Test(renew, new_link_of_an_ended_connection_is_not_kept)
{
	int ctx;

	go_down(&ctx);
	fake_break_link(fx.link, -FI_ECONNRESET);
	cr_assert_eq(take(&fx.tx).err, FI_ECONNRESET);
	renewed(1, 2);
	cr_assert_eq(fake.links, 0);
	peer_up(true);
	renewed(7, 8);
	cr_assert_eq(fake.links, 1, "nor one that goes on from another");
	cr_assert_eq(fake.resumes, 0);
}

Test(renew, connection_with_a_path_goes_on_without_another)
{
	int ctx;

	peer_up(true);
	fake_ask_renewal(fx.link, false);
	peer_event(TAGRV_WIREUP_RENEW_FAILED, 0);
	cr_assert_eq(fake.unrenewed, 1);
	cr_assert_eq(submit_send(message, sizeof(message), 1, &ctx, 0), 0);
	cr_assert_eq(take(&fx.tx).context, &ctx);
}

/* The peer's word about a rail is heard by progress alone, which nobody else makes. */
Test(renew, caller_that_only_repeats_a_send_makes_progress)
{
	unsigned passes, sends = 0;
	int ctx;

	go_down(&ctx);
	while (!submit_send(message, sizeof(message), 1, &ctx, 0))
		cr_assert_lt(sends++, 1000000u);
	passes = fake.polls;
	for (int i = 0; i < 2000; i++)
		cr_assert_eq(submit_send(message, sizeof(message), 1, &ctx, 0),
			     -FI_EAGAIN);
	cr_assert_gt(fake.polls, passes + 2);
	fx.dom->params.close_timeout = 0;
}

Test(renew, endpoint_closes_meanwhile)
{
	int ctx;

	fx.dom->params.close_timeout = 0;
	go_down(&ctx);
	engine_close();
	cr_assert_eq(fake.links, 0);
}
