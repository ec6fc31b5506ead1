/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Hash of objects by their address: a pointer in each object and half a pointer beside it,
 * since there may be an object for each of many thousand peers that are idle.
 *
 *   buckets --> node --> node --> NULL
 *
 * The objects have a node and, somewhere, the address, which does not change while they are in
 * the map. Nothing is allocated for an object that is added to a map that has room.
 */
#ifndef TAGRV_CORE_ADDRMAP_H
#define TAGRV_CORE_ADDRMAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/addr.h"

/* Member of an object that may be in a map. */
struct tagrv_addrnode {
	struct tagrv_addrnode *next;	/* in the same bucket */
};

struct tagrv_addrmap {
	struct tagrv_addrnode **buckets;	/* NULL: none was added so far */
	size_t	bucket_cnt;		/* a power of two */
	size_t	cnt;			/* nodes */
	ptrdiff_t addr_at;		/* bytes from a node to its address */
};

/* Begins an empty map of objects of this type; allocates nothing. */
#define TAGRV_ADDRMAP_INIT(type, node, addr) \
	{ .addr_at = (ptrdiff_t) offsetof(type, addr) - (ptrdiff_t) offsetof(type, node) }

/* 0; -FI_ENOMEM: the node is not in the map. No node of the map has this address yet. */
int tagrv_addrmap_add(struct tagrv_addrmap *map, struct tagrv_addrnode *node) TAGRV_WARN_UNUSED;
/* The node is in the map. */
void tagrv_addrmap_remove(struct tagrv_addrmap *map, struct tagrv_addrnode *node);
/* NULL: none has this address. */
struct tagrv_addrnode *tagrv_addrmap_find(const struct tagrv_addrmap *map,
					  const struct tagrv_addr *addr);
/* The node behind this one, in no order; node NULL: the first one. NULL: there is none. */
struct tagrv_addrnode *tagrv_addrmap_next(const struct tagrv_addrmap *map,
					  const struct tagrv_addrnode *node);
/* Frees the buckets; the objects are their owner's. The map is empty then. */
void tagrv_addrmap_fini(struct tagrv_addrmap *map);

#endif
