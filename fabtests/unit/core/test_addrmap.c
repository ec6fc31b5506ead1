/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hash of objects by their address.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "common/alloc_fail.h"
#include "core/addrmap.h"

#define ITEMS	5000u

struct item {
	struct tagrv_addr addr;
	bool	seen;
	struct tagrv_addrnode node;
};

static struct item items[ITEMS];
static struct tagrv_addrmap map = TAGRV_ADDRMAP_INIT(struct item, node, addr);

/* As those of a cluster: many hosts, or many ports of one. */
static void set_addr(struct tagrv_addr *addr, uint32_t i)
{
	memset(addr, 0, sizeof(*addr));
	addr->in.sin_family = AF_INET;
	addr->in.sin_port = htons((uint16_t) (i % 2 ? 1000 : 1000 + i));
	addr->in.sin_addr.s_addr = htonl(0x0a000000 + (i % 2 ? i : 0));
}

static struct item *find(uint32_t i)
{
	struct tagrv_addr addr;
	struct tagrv_addrnode *node;

	set_addr(&addr, i);
	node = tagrv_addrmap_find(&map, &addr);
	return node ? tagrv_container_of(node, struct item, node) : NULL;
}

static void add(uint32_t i)
{
	set_addr(&items[i].addr, i);
	cr_assert_eq(tagrv_addrmap_add(&map, &items[i].node), 0);
}

static unsigned longest(void)
{
	unsigned most = 0;

	for (size_t i = 0; i < map.bucket_cnt; i++) {
		unsigned cnt = 0;

		for (struct tagrv_addrnode *node = map.buckets[i]; node; node = node->next)
			cnt++;
		most = TAGRV_MAX(most, cnt);
	}
	return most;
}

Test(addrmap, what_is_added_is_found_until_it_is_removed)
{
	cr_assert_null(find(0), "of an empty map");
	for (uint32_t i = 0; i < ITEMS; i++) {
		cr_assert_null(find(i));
		add(i);
		cr_assert_eq(find(i), &items[i]);
	}
	cr_assert_leq(longest(), 14, "%u in one bucket", longest());
	cr_assert_leq(map.bucket_cnt, ITEMS);
	for (uint32_t i = 0; i < ITEMS; i += 3)
		tagrv_addrmap_remove(&map, &items[i].node);
	for (uint32_t i = 0; i < ITEMS; i++)
		cr_assert_eq(find(i), i % 3 ? &items[i] : NULL);
	tagrv_addrmap_fini(&map);
	cr_assert_null(find(1));
}

Test(addrmap, each_node_comes_once)
{
	struct tagrv_addrnode *node = NULL;
	uint32_t cnt = 0;

	cr_assert_null(tagrv_addrmap_next(&map, NULL));
	for (uint32_t i = 0; i < 100; i++)
		add(i);
	while ((node = tagrv_addrmap_next(&map, node))) {
		struct item *item = tagrv_container_of(node, struct item, node);

		cr_assert_not(item->seen);
		item->seen = true;
		cnt++;
	}
	cr_assert_eq(cnt, 100);
	tagrv_addrmap_fini(&map);
}

Test(addrmap, without_memory_the_chains_get_longer)
{
	if (!alloc_fail_works())
		cr_skip_test("another allocator");
	set_addr(&items[0].addr, 0);
	alloc_fail_arm(1, true);
	cr_assert_eq(tagrv_addrmap_add(&map, &items[0].node), -FI_ENOMEM);
	alloc_fail_disarm();
	cr_assert_null(find(0));
	add(0);
	alloc_fail_arm(1, true);
	for (uint32_t i = 1; i < 100; i++)
		add(i);
	alloc_fail_disarm();
	for (uint32_t i = 0; i < 100; i++)
		cr_assert_eq(find(i), &items[i]);
	add(100);
	cr_assert_gt(map.bucket_cnt, 8);
	tagrv_addrmap_fini(&map);
}
