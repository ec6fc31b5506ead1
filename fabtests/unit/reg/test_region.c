/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The two kinds of regions of a cache: what we alone use, and what peers may read.
 */
#include "unit/reg/regcache_calls.h"

TestSuite(region, .init = setup, .fini = teardown, .timeout = 60);

static void send_from(void *addr, size_t len)
{
	tagrv_regcache_put(get_for(TAGRV_MEM_READ, addr, len));
}

Test(region, peers_may_read_the_bytes_that_were_sent_and_no_others)
{
	struct tagrv_mem *mem = get_for(TAGRV_MEM_READ, (char *) AT(1) + 5, PAGE);
	struct tagrv_mem *longer;

	cr_assert_eq(mem->addr, (char *) AT(1) + 5);
	cr_assert_eq(mem->len, PAGE);
	cr_assert_eq(fake_monitor_watched(), 2, "whole pages, all the same");
	cr_assert_eq(reg_device.bytes, 2 * PAGE);
	send_from((char *) AT(1) + 5, PAGE);
	cr_assert_eq(reg_device.made, 1);
	longer = get_for(TAGRV_MEM_READ, (char *) AT(1) + 5, PAGE + 1);
	cr_assert_eq(longer->len, PAGE + 1);
	tagrv_regcache_put(mem);
	cr_assert_eq(reg_device.alive, 1, "the longer one took its place");
	cr_assert_eq(get_for(TAGRV_MEM_READ, (char *) AT(1) + 6, PAGE), longer);
	tagrv_regcache_put(longer);
	tagrv_regcache_put(longer);
}

Test(region, what_is_received_into_is_never_readable)
{
	for (int i = 0; i < 3; i++) {
		struct tagrv_mem *mem = get((char *) AT(i) + 7, 4 * PAGE);

		cr_assert_eq(mem->access, TAGRV_MEM_STORE);
		tagrv_regcache_put(mem);
		tagrv_regcache_put(get_for(0, AT(i), PAGE));
	}
	cr_assert_eq(reg_device.readable, 0);
}

/* Sending a part of it makes this part readable, by a registration of its own. */
Test(region, local_regions_do_not_become_readable)
{
	struct tagrv_mem *local = get(AT(1), 8 * PAGE);
	struct tagrv_mem *sent = get_for(TAGRV_MEM_READ, AT(2), PAGE);

	cr_assert_neq(sent, local);
	cr_assert_eq(sent->len, PAGE);
	cr_assert_eq(local->access, TAGRV_MEM_STORE);
	cr_assert_eq(get(AT(3), PAGE), local);
	tagrv_regcache_put(local);
	tagrv_regcache_put(local);
	tagrv_regcache_put(sent);
	for (int round = 0; round < 5; round++) {
		use(AT(1), 8 * PAGE);
		send_from(AT(2), PAGE);
	}
	cr_assert_eq(reg_device.made, 2, "both are found again");
	expect(11, 2, 0, 0);
}

/* It is readable already, as long as it is kept: nothing becomes wider. */
Test(region, buffers_that_are_sent_serve_for_receives)
{
	send_from(AT(1), 4 * PAGE);
	use(AT(2), PAGE);
	use(AT(1), 4 * PAGE);
	cr_assert_eq(reg_device.made, 1);
	use(AT(1), 4 * PAGE + 1);
	cr_assert_eq(reg_device.made, 2);
	cr_assert_eq(reg_device.readable, 1, "only what was sent");
	send_from(AT(1), 4 * PAGE);
	expect(3, 2, 0, 0);
}

Test(region, readable_regions_take_the_place_of_local_ones_within)
{
	struct tagrv_mem *held = get(AT(1), 2 * PAGE);

	use(AT(4), PAGE);
	send_from(AT(1), 6 * PAGE);
	cr_assert_eq(reg_device.alive, 2, "one is still in use");
	tagrv_regcache_put(held);
	cr_assert_eq(reg_device.alive, 1);
	use(AT(1), 6 * PAGE);
	cr_assert_eq(reg_device.made, 3);
	use(AT(0), 8 * PAGE);
	cr_assert_eq(reg_device.alive, 2, "a local one cannot stand for it");
}

/* A page is watched as long as some region has a byte of it. */
Test(region, regions_may_share_a_page)
{
	send_from(AT(1), 100);
	send_from((char *) AT(1) + 200, PAGE);
	use(AT(2), PAGE);
	cr_assert_eq(fake_monitor_watched(), 2);
	cr_assert_eq(reg_device.alive, 3);
	change(1, 2);
	tagrv_regcache_free_invalidated(cache);
	cr_assert_eq(reg_device.alive, 1);
	cr_assert_eq(fake_monitor_watched(), 1);
	cr_assert(fake_monitor.watched[2]);
	send_from((char *) AT(2) + 100, 100);
	change(2, 3);
	tagrv_regcache_free_invalidated(cache);
	cr_assert_eq(reg_device.alive, 0);
	cr_assert_eq(fake_monitor_watched(), 0);
}

/* The region that lent it to peers is closed: no key of it may live on. */
Test(region, what_is_withdrawn_is_not_kept_readable)
{
	struct tagrv_mem *busy;

	send_from(AT(1), PAGE);
	send_from((char *) AT(4) + 5, 100);
	send_from(AT(8), PAGE);
	use(AT(1), 2 * PAGE);
	busy = get_for(TAGRV_MEM_READ, AT(5), PAGE);
	cr_assert_eq(reg_device.readable, 4);
	tagrv_regcache_withdraw(cache, AT(2), 4 * PAGE);
	cr_assert_eq(reg_device.readable, 3, "what is before, behind, or in use");
	tagrv_regcache_put(busy);
	cr_assert_eq(reg_device.readable, 2);
	cr_assert_eq(reg_device.alive, 3, "what only we use is kept");
	tagrv_regcache_withdraw(cache, NULL, SIZE_MAX);
	cr_assert_eq(reg_device.readable, 0);
	tagrv_regcache_withdraw(cache, NULL, 0);
	cr_assert_eq(reg_device.alive, 1);
}
