/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hash of objects by their address. See addrmap.h.
 */
#include "core/addrmap.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN	8u
#define LOAD		2u	/* nodes of a bucket, on average, at most */

static const struct tagrv_addr *addr_of(const struct tagrv_addrmap *map,
					const struct tagrv_addrnode *node)
{
	return (const struct tagrv_addr *) (const void *) ((const char *) node + map->addr_at);
}

/* Addresses differ in few bits, which may be any: each word is mixed with those before it. */
static size_t hash(const struct tagrv_addr *addr)
{
	uint32_t words[sizeof(*addr) / sizeof(uint32_t)];
	uint64_t sum = 0;

	_Static_assert(sizeof(words) == sizeof(*addr), "an address is whole words");
	memcpy(words, addr, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		sum = (sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		sum ^= sum >> 32;
	}
	return (size_t) sum;
}

static struct tagrv_addrnode **bucket_of(const struct tagrv_addrmap *map,
					 const struct tagrv_addr *addr)
{
	return &map->buckets[hash(addr) & (map->bucket_cnt - 1)];
}

static void link_node(struct tagrv_addrmap *map, struct tagrv_addrnode *node)
{
	struct tagrv_addrnode **bucket = bucket_of(map, addr_of(map, node));

	node->next = *bucket;
	*bucket = node;
}

/* Without memory the chains get longer; only the first buckets cannot be done without. */
static int grow(struct tagrv_addrmap *map)
{
	struct tagrv_addrmap old = *map;
	struct tagrv_addrnode *node, *next;
	size_t cnt = old.bucket_cnt ? 2 * old.bucket_cnt : BUCKETS_MIN;
	struct tagrv_addrnode **buckets = calloc(cnt, sizeof(struct tagrv_addrnode *));

	if (!buckets)
		return old.bucket_cnt ? 0 : -FI_ENOMEM;
	map->buckets = buckets;
	map->bucket_cnt = cnt;
	for (size_t i = 0; i < old.bucket_cnt; i++)
		for (node = old.buckets[i]; node; node = next) {
			next = node->next;
			link_node(map, node);
		}
	free(old.buckets);
	return 0;
}

int tagrv_addrmap_add(struct tagrv_addrmap *map, struct tagrv_addrnode *node)
{
	int ret = map->cnt < LOAD * map->bucket_cnt ? 0 : grow(map);

	if (ret)
		return ret;
	link_node(map, node);
	map->cnt++;
	return 0;
}

void tagrv_addrmap_remove(struct tagrv_addrmap *map, struct tagrv_addrnode *node)
{
	struct tagrv_addrnode **pos = bucket_of(map, addr_of(map, node));

	while (*pos != node)
		pos = &(*pos)->next;
	*pos = node->next;
	map->cnt--;
}

struct tagrv_addrnode *tagrv_addrmap_find(const struct tagrv_addrmap *map,
					  const struct tagrv_addr *addr)
{
	struct tagrv_addrnode *node = map->cnt ? *bucket_of(map, addr) : NULL;

	while (node && memcmp(addr_of(map, node), addr, sizeof(*addr)))
		node = node->next;
	return node;
}

struct tagrv_addrnode *tagrv_addrmap_next(const struct tagrv_addrmap *map,
					  const struct tagrv_addrnode *node)
{
	size_t i = 0;

	if (node && node->next)
		return node->next;
	if (node)
		i = (size_t) (bucket_of(map, addr_of(map, node)) - map->buckets) + 1;
	while (i < map->bucket_cnt && !map->buckets[i])
		i++;
	return i < map->bucket_cnt ? map->buckets[i] : NULL;
}

void tagrv_addrmap_fini(struct tagrv_addrmap *map)
{
	free(map->buckets);
	map->buckets = NULL;
	map->bucket_cnt = 0;
	map->cnt = 0;
}
