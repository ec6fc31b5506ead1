/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * When a polling loop leaves the processor to a device in software; which devices
 * a domain has; which calls need the domain lock.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdlib.h>
#include <string.h>

#ifdef HAVE_VERBS
#include "common/fake_verbs.h"
#endif
#include "object/dom.h"
#include "common/aborts.h"
#include "common/engine_fixture.h"

TestSuite(dom, .init = engine_setup, .fini = engine_teardown, .timeout = 20);

#define PASSES	(2 * TAGRV_PATIENCE_FIRST)

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
	tagrv_lock_acquire(&fx.dom->lock);
	tagrv_dom_unlock(fx.dom);
	cr_assert(!fx.dom->give_way);
}

/* As with transports that all tell by words when something comes. */
Test(dom, looks_that_find_nothing_come_to_a_pass)
{
	unsigned polls;

	peer_up(true);
	fx.dom->watch.unlisted = 0;
	tagrv_dom_progress(fx.dom);
	polls = fake.polls;
	for (int i = 0; i < TAGRV_WATCH_LOOKS; i++)
		cr_assert_eq(tagrv_dom_look(fx.dom), 0);
	cr_assert_eq(fake.polls, polls);
	tagrv_dom_look(fx.dom);
	cr_assert_eq(fake.polls, polls + 1);
	fx.dom->watch.unlisted = 1;
}

/* A report of the wireup thread, say. */
Test(dom, a_kick_makes_the_next_look_a_pass)
{
	unsigned polls;

	peer_up(true);
	fx.dom->watch.unlisted = 0;
	tagrv_dom_progress(fx.dom);
	polls = fake.polls;
	tagrv_dom_look(fx.dom);
	cr_assert_eq(fake.polls, polls);
	tagrv_dom_kick(fx.dom);
	tagrv_dom_look(fx.dom);
	cr_assert_eq(fake.polls, polls + 1);
	tagrv_dom_look(fx.dom);
	cr_assert_eq(fake.polls, polls + 1);
	fx.dom->watch.unlisted = 1;
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

/* ---- the domain lock ---- */

#ifdef TAGRV_DEBUG
static void open_with_lock(void)
{
	engine_setup();
	fx.dom->lock.on = true;
}

TestSuite(dom_lock, .init = open_with_lock, .timeout = 20);

static void progress(void)
{
	tagrv_dom_progress(fx.dom);
}

static void submit(void)
{
	submit_send("x", 1, 1, NULL, 0);
}

static void arrive(void)
{
	arrive_eager("x", 1, 1, 0, 0);
}

static void sleep_locked(void)
{
	tagrv_lock_acquire(&fx.dom->lock);
	tagrv_dom_sleep(fx.dom, -1, 0);
}

Test(dom_lock, is_asserted)
{
	tagrv_lock_acquire(&fx.dom->lock);
	peer_up(true);
	tagrv_lock_release(&fx.dom->lock);
	cr_expect(aborts(progress));
	cr_expect(aborts(submit));
	cr_expect(aborts(arrive));
	cr_expect(aborts(sleep_locked));
	engine_teardown();
}

Test(dom_lock, suffices)
{
	tagrv_lock_acquire(&fx.dom->lock);
	peer_up(true);
	cr_expect_eq(submit_send("x", 1, 1, NULL, 0), 0);
	arrive_eager("x", 1, 1, 0, 0);
	tagrv_dom_progress(fx.dom);
	tagrv_lock_release(&fx.dom->lock);
	cr_expect_eq(tagrv_dom_sleep(fx.dom, -1, 0) < 0, 0);
	engine_teardown();
}
#endif

/* ---- devices ---- */

TestSuite(dom_devices, .timeout = 20);

/* The names of the transports that connections may use, best first. */
static const char *devices_of(const char *name, const char *transports)
{
	struct tagrv_dom_attr attr = { .name = name };
	static char text[64];
	struct tagrv_dom *dom;

	tagrv_param_define();
	setenv("FI_TAGRV_TRANSPORTS", transports, 1);
	text[0] = '\0';
	if (tagrv_dom_open(&attr, &dom))
		return "none";
	for (size_t i = 0; i < dom->dev_cnt; i++) {
		strcat(text, dom->devs[i]->name);
		strcat(text, " ");
	}
	/* The application registers memory with the last one, or the joined one. */
	cr_assert(!dom->dev_cnt || dom->dev == dom->devs[dom->dev_cnt - 1] ||
		  strchr(dom->dev->name, '+'));
	tagrv_dom_close(dom);
	return text;
}

Test(dom_devices, of_this_host)
{
	cr_assert_str_eq(devices_of("shm", ""), "shm ");
	cr_assert_str_eq(devices_of("shm", "verbs"), "none");
	cr_assert_str_eq(devices_of("loop", ""), "");
}

#ifdef HAVE_VERBS
Test(dom_devices, of_a_nic_and_this_host)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	fake_verbs_start(&config);
	cr_assert_str_eq(devices_of("fake0", ""), "shm fake0 ");
	cr_assert_str_eq(devices_of("fake0", "verbs"), "fake0 ");
	cr_assert_str_eq(devices_of("fake0", "shm"), "none");
	fake_verbs_stop();
}

/* As devices_of, with FI_TAGRV_RAILS. */
static const char *rails_of(const char *name, const char *rails)
{
	setenv("FI_TAGRV_RAILS", rails, 1);
	return devices_of(name, "");
}

Test(dom_devices, of_several_rails)
{
	struct fake_verbs_config config = fake_verbs_defaults();

	config.devices = 4;
	fake_verbs_start(&config);
	cr_expect_str_eq(rails_of("fake0", "1"), "shm fake0 ");
	cr_expect_str_eq(rails_of("fake0", "2"), "shm fake0+fake1 fake0 ");
	cr_expect_str_eq(rails_of("fake3", "3"), "shm fake3+fake0+fake1 fake3 ");
	cr_expect_str_eq(rails_of("fake2", "fake1,fake2"), "shm fake2+fake1 fake2 ");
	cr_expect_str_eq(rails_of("fake2", "fake1+fake3"), "shm fake2 ");
	cr_expect_str_eq(rails_of("shm", "4"), "shm ");
	setenv("MPI_LOCALNRANKS", "2", 1);
	cr_expect_str_eq(rails_of("fake0", "auto"), "shm fake0+fake1 fake0 ");
	setenv("MPI_LOCALNRANKS", "4", 1);
	cr_expect_str_eq(rails_of("fake0", "auto"), "shm fake0 ");
	cr_expect_eq(fake_verbs_count().objects, 0);
	fake_verbs_stop();
}
#endif
