/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pool of fixed-size objects with stable addresses, reachable by handle.
 *
 * Objects live in chunks that are neither moved nor freed before the pool is
 * finished. get and put are O(1); get allocates only when the free list is empty.
 *
 *   handle (32 bit) = generation (11 bit) << 21 | index (21 bit)
 *
 * The generation changes with every put, so tagrv_pool_find() rejects a handle
 * that a peer returns late, returns twice or invents. Handle 0 is never valid.
 *
 * A large pool holds more objects than such a handle can name, and packs them
 * closer: its objects have an index and no handle. It has calls of its own for
 * that, *_large(); all others serve both kinds. The caller locks.
 */
#ifndef TAGRV_CORE_POOL_H
#define TAGRV_CORE_POOL_H

#include <assert.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/compiler.h"

#define TAGRV_POOL_INDEX_BITS	21
#define TAGRV_POOL_GEN_ONE	(1u << TAGRV_POOL_INDEX_BITS)
#define TAGRV_POOL_TOP		((1u << TAGRV_POOL_INDEX_BITS) - 1)
/*
 * The limit of pools that nothing else limits. Half of what handles can name, so
 * that a pool of TAGRV_POOL_TOP has room for two such crowds at once.
 */
#define TAGRV_POOL_MAX		((1u << (TAGRV_POOL_INDEX_BITS - 1)) - 1)
#define TAGRV_POOL_LARGE_MAX	(1u << 30)

/* First member of every pooled object. */
struct tagrv_pool_node {
	uint32_t handle;	/* constant from get to put; large pool: index */
	uint32_t used;		/* 1 from get to put, else 0 */
};

/* An object on the free list, whose link lies in the object's own memory. */
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
	size_t	max;		/* objects, at most TAGRV_POOL_TOP or _LARGE_MAX */
	size_t	used;		/* objects between get and put */
	bool	large;
	struct tagrv_pool_free *free_head;
	struct tagrv_pool_free *spare;	/* a chunk of free objects set aside */
};

/*
 * Initializes an empty pool; allocates nothing.
 * obj_size: bytes of an object, its node included; rounded up to half a cache
 * line or to whole ones.
 * max: most objects in use at once, cut to TAGRV_POOL_TOP.
 */
void tagrv_pool_init(struct tagrv_pool *pool, size_t obj_size, size_t max);

/*
 * The same for a large pool. Bytes of an object are rounded up to a multiple of 8
 * only, so that an object may lie in one line more than it fills.
 * max: cut to TAGRV_POOL_LARGE_MAX.
 */
void tagrv_pool_init_large(struct tagrv_pool *pool, size_t obj_size, size_t max);

/* Frees all memory, objects still in use included. */
void tagrv_pool_fini(struct tagrv_pool *pool);

/*
 * Allocates until 'count' objects exist, in use or free, or 'max' of them. 0 or
 * -FI_ENOMEM.
 */
int tagrv_pool_reserve(struct tagrv_pool *pool, size_t count) TAGRV_WARN_UNUSED;

/* Adds one chunk of free objects. -FI_ENOMEM: no memory, or 'max' exist. */
int tagrv_pool_grow(struct tagrv_pool *pool) TAGRV_COLD TAGRV_WARN_UNUSED;

/*
 * Sets a chunk of objects aside for what must not fail, if none is: get does not return
 * them, even without memory. 0 or -FI_ENOMEM.
 */
int tagrv_pool_set_aside(struct tagrv_pool *pool) TAGRV_COLD TAGRV_WARN_UNUSED;
/* As get, behind one that failed, from the objects set aside as well: they become free. */
void *tagrv_pool_get_spare(struct tagrv_pool *pool) TAGRV_COLD TAGRV_WARN_UNUSED;

/*
 * Takes an object, which is the caller's until put; its members behind the node
 * are undefined. NULL: 'max' objects are in use, or there is no memory.
 */
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

/*
 * Why get returned NULL. -FI_EAGAIN: 'max' objects are in use, and a put makes room;
 * -FI_ENOMEM: there is no memory for another one.
 */
static inline int tagrv_pool_why(const struct tagrv_pool *pool)
{
	return pool->used >= pool->max ? -FI_EAGAIN : -FI_ENOMEM;
}

/* Frees an object that get returned; its handle becomes invalid. */
static inline void tagrv_pool_put(struct tagrv_pool *pool, void *obj)
{
	struct tagrv_pool_free *unused = obj;

	assert(unused->node.used && !pool->large);
	unused->node.handle += TAGRV_POOL_GEN_ONE;
	/* Generation 0 is never used. */
	if (TAGRV_UNLIKELY(unused->node.handle < TAGRV_POOL_GEN_ONE))
		unused->node.handle += TAGRV_POOL_GEN_ONE;
	unused->node.used = 0;
	unused->next = pool->free_head;
	pool->free_head = unused;
	pool->used--;
}

/* Frees an object of a large pool. */
static inline void tagrv_pool_put_large(struct tagrv_pool *pool, void *obj)
{
	struct tagrv_pool_free *unused = obj;

	assert(unused->node.used && pool->large);
	unused->node.used = 0;
	unused->next = pool->free_head;
	pool->free_head = unused;
	pool->used--;
}

/* The index of an object of a large pool; it never changes. */
static inline uint32_t tagrv_pool_index_large(const struct tagrv_pool_node *node)
{
	return node->handle;
}

/* Index of an object, 0 to TAGRV_POOL_TOP - 1; it never changes. */
static inline uint32_t tagrv_pool_index(const struct tagrv_pool_node *node)
{
	return node->handle & (TAGRV_POOL_GEN_ONE - 1);
}

/* The object with an index below tagrv_pool_capacity(), in use or free. */
static inline void *tagrv_pool_at(const struct tagrv_pool *pool, uint32_t index)
{
	char *chunk = pool->chunks[index >> pool->chunk_shift];

	return chunk + (index & (pool->chunk_objs - 1)) * pool->obj_size;
}

/* Number of objects that exist, in use or free. */
static inline size_t tagrv_pool_capacity(const struct tagrv_pool *pool)
{
	return TAGRV_MIN(pool->chunk_cnt * pool->chunk_objs, pool->max);
}

/*
 * Adds a chunk when less than half a chunk is free. Called when time is not
 * critical, so that get seldom has to allocate.
 */
static inline void tagrv_pool_grow_ahead(struct tagrv_pool *pool)
{
	size_t exist = (pool->chunk_cnt - (pool->spare != NULL)) *
		       pool->chunk_objs;
	int ret = 0;

	if (TAGRV_UNLIKELY(pool->used + pool->chunk_objs / 2 > exist))
		ret = tagrv_pool_grow(pool);
	/* No memory is no error here: the get that needs it will fail. */
	(void) ret;
}

/* The object in use that has this handle; NULL: no object has it. Not of a large
 * pool. */
void *tagrv_pool_find(const struct tagrv_pool *pool, uint32_t handle);

#endif
