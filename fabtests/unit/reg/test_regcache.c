/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The cache of registrations, over a counting device and a scripted monitor (see
 * regcache_fake.h). Addresses are numbers: no memory is read or written.
 */
#include <rdma/fi_errno.h>

#include "unit/reg/regcache_calls.h"

TestSuite(regcache, .init = setup, .fini = teardown, .timeout = 60);

/* A buffer is known by its first page: of buffers sent in pieces only a part is registered. */
Test(regcache, knows_what_was_used_before)
{
	cr_expect_not(tagrv_regcache_has_start(cache, AT(1), PAGE));
	use(AT(1), 2 * PAGE);
	cr_expect(tagrv_regcache_has_start(cache, AT(1), 64 * PAGE));
	cr_expect(tagrv_regcache_has_start(cache, (char *) AT(3) - 1, PAGE));
	cr_expect_not(tagrv_regcache_has_start(cache, AT(1), 64 * PAGE + 1));
	cr_expect_not(tagrv_regcache_has_start(cache, AT(3), PAGE));
	change(1, 2);
	cr_expect_not(tagrv_regcache_has_start(cache, AT(1), PAGE));
	expect(0, 1, 0, 0);
}

Test(regcache, registers_whole_pages_once)
{
	struct tagrv_mem *mem = get((char *) AT(1) + 5, PAGE);

	cr_assert_eq(mem->addr, AT(1));
	cr_assert_eq(mem->len, 2 * PAGE);
	cr_assert_eq(get(AT(2), PAGE), mem);
	tagrv_regcache_put(mem);
	tagrv_regcache_put(mem);
	use(AT(1), 1);
	use((char *) AT(1) + 5, PAGE);
	use(AT(1), 2 * PAGE);
	cr_assert_eq(reg_device.made, 1);
	expect(4, 1, 0, 0);
}

Test(regcache, overlapping_regions_stand_side_by_side)
{
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < 8; i++)
			use((char *) AT(i) + 100, PAGE);
	cr_assert_eq(reg_device.made, 8, "a walk registers each piece once");
	expect(16, 8, 0, 0);
}

Test(regcache, a_larger_region_takes_the_place_of_those_within)
{
	struct tagrv_mem *old = get(AT(2), PAGE);

	use(AT(4), PAGE);
	use(AT(1), PAGE);
	use(AT(7), 2 * PAGE);
	use(AT(1), 7 * PAGE);
	/* One region is still in use, one is not contained. */
	cr_assert_eq(reg_device.alive, 3);
	tagrv_regcache_put(old);
	cr_assert_eq(reg_device.alive, 2);
	use(AT(2), PAGE);
	use(AT(8), PAGE);
	cr_assert_eq(reg_device.made, 5);
}

Test(regcache, least_recently_used_goes_first)
{
	for (int i = 0; i < 16; i++)
		use(AT(2 * i), PAGE);
	use(AT(0), PAGE);
	use(AT(40), PAGE);
	expect(1, 17, 1, 0);
	cr_assert_eq(reg_device.alive, 16);
	use(AT(0), PAGE);
	expect(2, 17, 1, 0);
	use(AT(2), PAGE);
	expect(2, 18, 2, 0);
}

Test(regcache, bytes_stay_within_the_cap)
{
	struct tagrv_mem *held = get(AT(0), 40 * PAGE);
	struct tagrv_mem *mem;

	use(AT(100), 20 * PAGE);
	use(AT(200), 24 * PAGE);
	cr_assert_eq(reg_device.bytes, 64 * PAGE);
	cr_assert_eq(tagrv_regcache_get(cache, AT(300), 25 * PAGE, 0, &mem),
		     -FI_EOPNOTSUPP, "what is in use is not evicted");
	cr_assert_eq(tagrv_regcache_get(cache, AT(300), 65 * PAGE, 0, &mem),
		     -FI_EOPNOTSUPP, "nor anything for what never fits");
	tagrv_regcache_put(held);
	use(AT(300), 64 * PAGE);
	cr_assert_eq(reg_device.alive, 1);
}

Test(regcache, entries_in_use_are_never_evicted)
{
	struct tagrv_mem *mem[16], *more;

	for (int i = 0; i < 16; i++)
		mem[i] = get(AT(2 * i), PAGE);
	cr_assert_eq(tagrv_regcache_get(cache, AT(50), PAGE, 0, &more),
		     -FI_EOPNOTSUPP);
	cr_assert_eq(tagrv_regcache_evict(cache), 0);
	cr_assert_eq(reg_device.alive, 16);
	for (int i = 0; i < 16; i++)
		tagrv_regcache_put(mem[i]);
	cr_assert_eq(tagrv_regcache_evict(cache), 16);
	cr_assert_eq(reg_device.alive, 0);
}

Test(regcache, unmapped_regions_are_registered_anew)
{
	use(AT(1), 4 * PAGE);
	use(AT(9), PAGE);
	change(4, 5);
	cr_assert_eq(reg_device.alive, 2, "not in the monitor's call");
	tagrv_regcache_free_invalidated(cache);
	cr_assert_eq(reg_device.alive, 1);
	use(AT(1), PAGE);
	use(AT(9), PAGE);
	expect(1, 3, 0, 1);
}

Test(regcache, unmapped_regions_in_use_end_with_their_last_user)
{
	struct tagrv_mem *a = get(AT(1), PAGE), *b = get(AT(1), PAGE), *c;

	cr_assert_eq(a, b);
	change(1, 2);
	c = get(AT(1), PAGE);
	cr_assert_neq(a, c, "it is handed out to nobody");
	cr_assert_eq(reg_device.alive, 2);
	tagrv_regcache_put(a);
	cr_assert_eq(reg_device.alive, 2);
	tagrv_regcache_put(b);
	cr_assert_eq(reg_device.alive, 1);
	cr_assert_eq(get(AT(1), PAGE), c);
	tagrv_regcache_put(c);
	tagrv_regcache_put(c);
}

Test(regcache, unmapped_idle_regions_are_reaped_by_a_put)
{
	struct tagrv_mem *mem = get(AT(9), PAGE);

	use(AT(1), PAGE);
	change(1, 2);
	tagrv_regcache_put(mem);
	cr_assert_eq(reg_device.alive, 1);
}

static void lose_page_1(void)
{
	reg_device.meanwhile = NULL;
	change(1, 2);
}

Test(regcache, memory_that_goes_while_it_is_registered)
{
	struct tagrv_mem *mem;

	reg_device.meanwhile = lose_page_1;
	mem = get(AT(0), 3 * PAGE);
	cr_assert_neq(get(AT(0), PAGE), mem, "for its first user only");
	tagrv_regcache_put(mem);
	tagrv_regcache_free_invalidated(cache);
	cr_assert_eq(reg_device.alive, 1);
	use(AT(0), PAGE);
	expect(1, 2, 0, 1);
	mem = get(AT(0), PAGE);
	tagrv_regcache_put(mem);
	tagrv_regcache_put(mem);
}

Test(regcache, nothing_is_used_while_memory_is_changing)
{
	struct tagrv_mem *mem;

	use(AT(1), PAGE);
	fake_monitor.changing = true;
	cr_assert_eq(tagrv_regcache_get(cache, AT(1), PAGE, 0, &mem),
		     -FI_EOPNOTSUPP);
	fake_monitor.changing = false;
	use(AT(1), PAGE);
	expect(1, 1, 0, 0);
}

Test(regcache, memory_that_cannot_be_watched_is_not_kept)
{
	struct tagrv_mem *mem;

	fake_monitor.refuse = -FI_EOPNOTSUPP;
	cr_assert_eq(tagrv_regcache_get(cache, AT(1), PAGE, 0, &mem),
		     -FI_EOPNOTSUPP);
	cr_assert_eq(reg_device.made, 0);
	cr_assert_eq(tagrv_regcache_get(cache, (void *) (UINTPTR_MAX - 100),
					50, 0, &mem), -FI_EOPNOTSUPP);
}

Test(regcache, failed_registrations_leave_nothing)
{
	struct tagrv_mem *mem;

	reg_device.fail = -FI_ENOMEM;
	cr_assert_eq(tagrv_regcache_get(cache, AT(1), PAGE, 0, &mem), -FI_ENOMEM);
	reg_device.fail = -FI_EFAULT;
	cr_assert_eq(tagrv_regcache_get(cache, AT(1), PAGE, 0, &mem),
		     -FI_EOPNOTSUPP, "without the pages around it may do");
	reg_device.fail = 0;
	use(AT(1), PAGE);
	cr_assert_eq(reg_device.made, 1);
}

Test(regcache, cap_shrinks_to_what_the_device_accepted)
{
	use(AT(1), 10 * PAGE);
	use(AT(20), 10 * PAGE);
	cr_assert_eq(tagrv_regcache_evict(cache), 2);
	use(AT(1), 10 * PAGE);
	use(AT(20), 10 * PAGE);
	use(AT(40), 1);
	cr_assert_leq(reg_device.bytes, 20 * PAGE);
	expect(0, 5, 3, 0);
}

/* Registrable memory ran out once and is available again: the cap grows again. */
Test(regcache, cap_grows_again)
{
	struct tagrv_mem *mem;
	int tries = 1;

	use(AT(1), 1);
	cr_assert_eq(tagrv_regcache_evict(cache), 1);
	while (tagrv_regcache_get(cache, AT(1), 32 * PAGE, 0, &mem))
		cr_assert_lt(++tries, 65, "as many parts as make the whole");
	cr_assert_gt(tries, 32, "or memory runs out each time");
	tagrv_regcache_put(mem);
	for (int i = 0; i < 100; i++) {
		use(AT(100), 32 * PAGE);
		use(AT(200), 32 * PAGE);
	}
	cr_assert_eq(reg_device.bytes, 64 * PAGE, "both fit in the end");
	cr_assert_lt(reg_device.made, 80);
	cr_assert_neq(tagrv_regcache_get(cache, AT(1), 65 * PAGE, 0, &mem), 0);
}

Test(regcache, all_is_registered_anew_after_a_fork)
{
	struct tagrv_mem *held = get(AT(5), PAGE), *mem;

	use(AT(1), PAGE);
	atomic_fetch_add(&fake_monitor.base.forks, 1);
	use(AT(1), PAGE);
	mem = get(AT(5), PAGE);
	cr_assert_neq(mem, held);
	tagrv_regcache_put(held);
	tagrv_regcache_put(mem);
	cr_assert_eq(reg_device.alive, 2);
	cr_assert_eq(reg_device.made, 4);
}

/* Two caches of one monitor: pages that one cache releases may be used by the other. */
Test(regcache, watching_goes_on_for_the_other_cache)
{
	struct tagrv_regcache_limits limits = { 64 * PAGE, 16 };
	struct tagrv_regcache *mine = cache, *other;

	cr_assert_eq(tagrv_regcache_create(&reg_device.dev, &fake_monitor.base,
					   &limits, &other), 0);
	use(AT(0), 10 * PAGE);
	cache = other;
	use(AT(3), 2 * PAGE);
	use(AT(8), 4 * PAGE);
	cache = mine;
	tagrv_regcache_evict(cache);
	cr_assert_eq(fake_monitor_watched(), 6);
	cr_assert(fake_monitor.watched[3] && fake_monitor.watched[4]);
	cr_assert(fake_monitor.watched[8] && fake_monitor.watched[11]);
	tagrv_regcache_destroy(other);
}

/* ---- against a list ---- */

#define SPAN	48u	/* pages */
#define HELD	12u

/* The version of each page; the device records it at registration. */
static uint64_t version[SPAN + 8];

static uint64_t version_of(uintptr_t page)
{
	return version[(page - BASE) / PAGE];
}

struct held {
	struct tagrv_mem *mem;
	unsigned first, cnt;
};

static uint64_t state = 7;

static unsigned rnd(unsigned below)
{
	state = state * 6364136223846793005 + 1442695040888963407;
	return (unsigned) (state >> 33) % below;
}

/* Every message begins and ends somewhere in a page. */
static void get_random(struct held *h)
{
	unsigned access = rnd(2) ? TAGRV_MEM_READ : TAGRV_MEM_STORE;
	size_t made = reg_device.made, skip = 8 * rnd(3), len;
	int ret;

	h->first = rnd(SPAN);
	h->cnt = 1 + rnd(8);
	len = h->cnt * PAGE - skip - 8 * rnd(3);
	ret = tagrv_regcache_get(cache, (char *) AT(h->first) + skip, len, access,
				 &h->mem);
	if (ret) {
		cr_assert_eq(ret, -FI_EOPNOTSUPP);
		h->mem = NULL;
		return;
	}
	cr_assert_eq(h->mem->access & access, access);
	if (reg_device.made != made && access & TAGRV_MEM_READ)
		cr_assert(h->mem->addr == (char *) AT(h->first) + skip &&
			  h->mem->len == len);
	else if (reg_device.made != made)
		cr_assert_eq(h->mem->access, TAGRV_MEM_STORE);
	cr_assert(reg_device_is_true(h->mem), "page %u is stale", h->first);
	for (unsigned i = h->first; i < h->first + h->cnt; i++)
		cr_assert(fake_monitor.watched[i], "page %u", i);
}

Test(regcache, never_returns_registrations_of_changed_memory)
{
	struct held held[HELD] = { { 0 } };

	reg_device.identity = version_of;
	for (int step = 0; step < 200000; step++) {
		struct held *h = &held[rnd(HELD)];
		unsigned first = rnd(SPAN), cnt = 1 + rnd(4);

		if (h->mem) {
			tagrv_regcache_put(h->mem);
			h->mem = NULL;
		} else {
			get_random(h);
		}
		if (!rnd(5)) {
			change(first, first + cnt);
			for (unsigned i = first; i < first + cnt; i++)
				version[i]++;
		}
		if (!rnd(1000))
			tagrv_regcache_evict(cache);
		cr_assert_leq(reg_device.bytes, 64 * PAGE);
		cr_assert_leq(reg_device.alive, 16);
	}
	for (unsigned i = 0; i < HELD; i++)
		if (held[i].mem)
			tagrv_regcache_put(held[i].mem);
	tagrv_regcache_get_stats(cache, &stats);
	cr_assert_gt(stats.hits, 1000);
	cr_assert_gt(stats.invalidations, 1000);
	cr_assert_gt(stats.evictions, 100);
}
