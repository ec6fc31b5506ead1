/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pool of fixed-size objects with stable addresses, reachable by handle.
 *
 * Objects live in chunks that are never moved or freed before the pool is;
 * get and put are O(1) and allocate only when the free list is empty.
 *
 *   handle (32 bit) = generation (12 bit) << 20 | index (20 bit)
 *
 * The generation changes with every put, so a handle that comes back from a
 * peer late, twice or invented is told from the living object. Handle 0 is
 * never valid.
 */
#ifndef TAGRV_CORE_POOL_H
#define TAGRV_CORE_POOL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#define TAGRV_POOL_INDEX_BITS	20
#define TAGRV_POOL_GEN_ONE	(1u << TAGRV_POOL_INDEX_BITS)
#define TAGRV_POOL_MAX		((1u << TAGRV_POOL_INDEX_BITS) - 1)

/* First member of every pooled object. */
struct tagrv_pool_node {
	uint32_t handle;	/* of this life of the object */
	uint32_t used;		/* 0 or 1 */
};

/* An object that is not used: the list costs it no room. */
struct tagrv_pool_free {
	struct tagrv_pool_node node;
	struct tagrv_pool_free *next;
};

struct tagrv_pool {
	void	**chunks;
	size_t	chunk_cnt;
	size_t	chunk_objs;	/* objects in a chunk, a power of two */
	unsigned chunk_shift;
	size_t	obj_size;
	size_t	max;		/* objects, at most TAGRV_POOL_MAX */
	size_t	used;
	struct tagrv_pool_free *free_head;
};

/*
 * obj_size: bytes, with the node first; rounded up to a cache line, or to half
 * of one.
 * max: most objects ever alive at once (clamped to TAGRV_POOL_MAX).
 * Allocates nothing.
 */
void tagrv_pool_init(struct tagrv_pool *pool, size_t obj_size, size_t max);

/* Frees all memory, objects still in use included. */
void tagrv_pool_fini(struct tagrv_pool *pool);

/* Makes sure that 'count' objects exist. 0 or -FI_ENOMEM. */
int tagrv_pool_reserve(struct tagrv_pool *pool, size_t count) TAGRV_WARN_UNUSED;

/* Adds free objects. -FI_ENOMEM: no memory, or 'max' objects exist. */
int tagrv_pool_grow(struct tagrv_pool *pool) TAGRV_COLD TAGRV_WARN_UNUSED;

/* NULL when 'max' objects are in use or memory is out. Contents undefined. */
TAGRV_WARN_UNUSED
static inline void *tagrv_pool_get(struct tagrv_pool *pool)
{
	struct tagrv_pool_free *obj = pool->free_head;

	if (TAGRV_UNLIKELY(!obj)) {
		if (tagrv_pool_grow(pool))
			return NULL;
		obj = pool->free_head;
	}
	pool->free_head = obj->next;
	obj->node.used = 1;
	pool->used++;
	return obj;
}

static inline void tagrv_pool_put(struct tagrv_pool *pool, void *obj)
{
	struct tagrv_pool_free *unused = obj;

	assert(unused->node.used);
	unused->node.handle += TAGRV_POOL_GEN_ONE;
	/* Generation 0 is never used. */
	if (TAGRV_UNLIKELY(unused->node.handle < TAGRV_POOL_GEN_ONE))
		unused->node.handle += TAGRV_POOL_GEN_ONE;
	unused->node.used = 0;
	unused->next = pool->free_head;
	pool->free_head = unused;
	pool->used--;
}

/* Place of an object, 0 to TAGRV_POOL_MAX - 1: the same for all its lives. */
static inline uint32_t tagrv_pool_index(const struct tagrv_pool_node *node)
{
	return node->handle & (TAGRV_POOL_GEN_ONE - 1);
}

/* The object at a place that exists, in use or not. */
static inline void *tagrv_pool_at(const struct tagrv_pool *pool, uint32_t index)
{
	char *chunk = pool->chunks[index >> pool->chunk_shift];

	return chunk + (index & (pool->chunk_objs - 1)) * pool->obj_size;
}

/* How many objects exist, in use or not. */
static inline size_t tagrv_pool_capacity(const struct tagrv_pool *pool)
{
	return TAGRV_MIN(pool->chunk_cnt * pool->chunk_objs, pool->max);
}

/* Grows when few objects are free; for when there is time. */
static inline void tagrv_pool_grow_ahead(struct tagrv_pool *pool)
{
	size_t exist = pool->chunk_cnt * pool->chunk_objs;
	int ret = 0;

	if (TAGRV_UNLIKELY(pool->used + pool->chunk_objs / 2 > exist))
		ret = tagrv_pool_grow(pool);
	/* No memory: who needs the object will be told. */
	(void) ret;
}

/* The living object behind a handle, NULL for any other value. */
void *tagrv_pool_find(const struct tagrv_pool *pool, uint32_t handle);

#endif
