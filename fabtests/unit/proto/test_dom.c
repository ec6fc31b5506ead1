/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * When a polling loop leaves the processor to a device in software.
 */
#include "proto/dom.h"
#include "unit/proto/engine_fixture.h"

TestSuite(dom, .init = engine_setup, .fini = engine_teardown, .timeout = 20);

#define PASSES	1000	/* far more than any threshold */

static void poll_idle(int passes)
{
	while (passes--)
		tagrv_dom_progress(fx.dom);
}

Test(dom, gives_way_to_a_device_in_software_after_idle_passes)
{
	fx.dom->dev->software = true;
	peer_up(true);
	poll_idle(10);
	cr_assert(!fx.dom->give_way);
	poll_idle(PASSES);
	cr_assert(fx.dom->give_way);
	tagrv_dom_unlock(fx.dom);
	cr_assert(!fx.dom->give_way);
}

Test(dom, does_not_give_way_while_messages_flow)
{
	fx.dom->dev->software = true;
	peer_up(true);
	fx.later = true;
	for (int i = 0; i < PASSES; i++) {
		arrive_eager("x", 1, 1, 0, 0);
		tagrv_dom_progress(fx.dom);
		cr_assert(!fx.dom->give_way);
	}
}

Test(dom, never_gives_way_to_an_adapter)
{
	fx.dom->dev->software = false;
	peer_up(true);
	poll_idle(PASSES);
	cr_assert(!fx.dom->give_way);
}

Test(dom, does_not_give_way_to_a_device_without_connections)
{
	fx.dom->dev->software = true;
	poll_idle(PASSES);
	cr_assert(!fx.dom->give_way);
}
