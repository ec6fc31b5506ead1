/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an engine does from time to time: looks at connections.
 */
#include <stdlib.h>

#include "common/engine_fixture.h"
#include "engine/tick.h"

static char buf[100000];

static void setup(void)
{
	engine_setup();
	fake.base.attr.caps |= TAGRV_XPORT_CHECKED;
	fx.engine->rails.xports[1]->attr.caps |= TAGRV_XPORT_CHECKED;
}

static void setup_errors(void)
{
	setenv("FI_TAGRV_PEER_ERRORS", "yes", 1);
	setup();
}

TestSuite(tick, .init = setup, .fini = engine_teardown, .timeout = 20);
TestSuite(tick_lost, .init = setup_errors, .fini = engine_teardown, .timeout = 20);

/* So many ms after the last look at connections. */
static void tick_after(unsigned ms)
{
	struct tagrv_wireup_event event = { .type = TAGRV_WIREUP_TICK };

	if (fx.engine->conn.next_check)
		fx.engine->conn.next_check -= ms;
	tagrv_engine_wireup_event(fx.engine, &event);
}

static void expect(unsigned checks, unsigned awaited)
{
	cr_assert_eq(fake.checks, checks, "%u looks", fake.checks);
	cr_assert_eq(fake.awaited, awaited, "%u awaited", fake.awaited);
	fake.checks = fake.awaited = 0;
}

Test(tick, a_connection_is_looked_at_now_and_then)
{
	tick_after(0);
	expect(0, 0);
	peer_up(true);
	tick_after(5000);
	expect(1, 0);
	tick_after(4000);
	expect(0, 0);
	tick_after(1000);
	expect(1, 0);
}

/* A peer that may not be sent to cannot be probed. */
Test(tick, connections_that_begin_or_end_are_left_alone)
{
	peer_up(false);
	tick_after(5000);
	expect(0, 0);
	peer_sendable();
	tick_after(5000);
	expect(1, 0);
	peer_event(TAGRV_WIREUP_GONE, -FI_ECONNRESET);
	tick_after(5000);
	expect(0, 0);
}

Test(tick, sends_that_wait_for_the_peer_await_it)
{
	int ctx[2];

	peer_up(true);
	cr_assert_eq(submit_send(buf, 8, 1, &ctx[0], FI_DELIVERY_COMPLETE), 0);
	tick_after(5000);
	expect(1, 1);
	arrive_fin(packet_header(0).op, 0);
	cr_assert_eq(take(&fx.tx).context, &ctx[0]);
	tick_after(5000);
	expect(1, 0);
	cr_assert_eq(submit_send(buf, sizeof(buf), 2, &ctx[1], 0), 0);
	tick_after(5000);
	expect(1, 1);
}

Test(tick, a_receive_that_the_peer_fills_awaits_it)
{
	int ctx;

	peer_up(true);
	cr_assert_eq(submit_recv(buf, sizeof(buf), 1, &ctx), 0);
	tick_after(5000);
	expect(1, 0);
	arrive_rts_bare(sizeof(buf), 1, 99);
	tick_after(5000);
	expect(1, 1);
}

Test(tick_lost, so_do_receives_that_may_end_with_an_error)
{
	int ctx;

	peer_up(true);
	tick_after(5000);
	expect(1, 0);
	cr_assert_eq(submit_recv(buf, sizeof(buf), 1, &ctx), 0);
	tick_after(5000);
	expect(1, 1);
}

Test(tick, how_often_depends_on_both_parameters)
{
	struct tagrv_params *params = &fx.dom->params;

	cr_assert_eq(tagrv_engine_tick_ms(fx.engine), 5000);
	params->match_stats = 10;
	cr_assert_eq(tagrv_engine_tick_ms(fx.engine), 5000);
	params->match_stats = 3;
	cr_assert_eq(tagrv_engine_tick_ms(fx.engine), 1000);
	params->probe = 0;
	cr_assert_eq(tagrv_engine_tick_ms(fx.engine), 3000);
	params->match_stats = 0;
	cr_assert_eq(tagrv_engine_tick_ms(fx.engine), 0);
	params->probe = 5;
	fx.engine->rails.xports[1]->attr.caps = 0;
	cr_assert_eq(tagrv_engine_tick_ms(fx.engine), 0,
		     "nothing to look at, but threads are woken");
}

/* ---- sockets that peers need not keep ---- */

Test(tick, sockets_are_spare_where_links_are_looked_at)
{
	struct tagrv_rails *rails = &fx.engine->rails;

	for (size_t i = 0; i < rails->xport_cnt; i++)
		rails->xports[i]->attr.caps |= TAGRV_XPORT_CHECKED;
	cr_assert_eq(tagrv_engine_max_sockets(fx.engine), 64);
	fx.engine->dom->params.max_sockets = 0;
	cr_assert_eq(tagrv_engine_max_sockets(fx.engine), 0, "all are kept");
	fx.engine->dom->params.max_sockets = 3;
	cr_assert_eq(tagrv_engine_max_sockets(fx.engine), 3);
	fx.engine->dom->params.probe = 0;
	cr_assert_eq(tagrv_engine_max_sockets(fx.engine), 0, "nobody looks");
	fx.engine->dom->params.probe = 5;
	rails->xports[0]->attr.caps &= ~(unsigned) TAGRV_XPORT_CHECKED;
	cr_assert_eq(tagrv_engine_max_sockets(fx.engine), 0, "one shows nothing");
}
