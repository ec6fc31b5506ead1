/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Pool of fixed-size objects, see pool.h.
 */
#include "core/pool.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>

#define INDEX_MASK	(TAGRV_POOL_GEN_ONE - 1)

/* Rounds up to half a cache line, so that two small objects share one. */
static size_t round_up(size_t size)
{
	size_t unit = size <= TAGRV_CACHE_LINE / 2 ? TAGRV_CACHE_LINE / 2 :
						     TAGRV_CACHE_LINE;

	return (size + unit - 1) & ~(unit - 1);
}

/* Chunks of about 64 KiB, but never fewer than 16 objects. */
static void choose_chunk(struct tagrv_pool *pool)
{
	pool->chunk_shift = 4;
	while (pool->chunk_shift < 10 &&
	       (pool->obj_size << (pool->chunk_shift + 1)) <= 64 * 1024)
		pool->chunk_shift++;
	pool->chunk_objs = (size_t) 1 << pool->chunk_shift;
}

void tagrv_pool_init(struct tagrv_pool *pool, size_t obj_size, size_t max)
{
	*pool = (struct tagrv_pool) {
		.obj_size = round_up(obj_size),
		.max = TAGRV_MIN(max, (size_t) TAGRV_POOL_TOP),
	};
	choose_chunk(pool);
}

void tagrv_pool_init_large(struct tagrv_pool *pool, size_t obj_size, size_t max)
{
	*pool = (struct tagrv_pool) {
		.obj_size = (obj_size + 7) & ~(size_t) 7,
		.max = TAGRV_MIN(max, (size_t) TAGRV_POOL_LARGE_MAX),
		.large = true,
	};
	choose_chunk(pool);
}

void tagrv_pool_fini(struct tagrv_pool *pool)
{
	for (size_t i = 0; i < pool->chunk_cnt; i++)
		free(pool->chunks[i]);
	free(pool->chunks);
	pool->chunks = NULL;
	pool->chunk_cnt = 0;
	pool->used = 0;
	pool->free_head = NULL;
}

/* Adds a chunk, whose objects are put before those of the list. */
static int add_chunk(struct tagrv_pool *pool, struct tagrv_pool_free **list)
{
	size_t first = pool->chunk_cnt * pool->chunk_objs;
	size_t bytes = pool->chunk_objs * pool->obj_size;
	void **chunks;
	char *chunk;

	if (first >= pool->max)
		return -FI_ENOMEM;
	/* The array doubles: 16, 32, 64, ... entries. */
	if (!(pool->chunk_cnt & (pool->chunk_cnt - 1)) &&
	    (!pool->chunk_cnt || pool->chunk_cnt >= 16)) {
		chunks = realloc(pool->chunks, sizeof(*chunks) *
				 TAGRV_MAX(pool->chunk_cnt * 2, (size_t) 16));
		if (!chunks)
			return -FI_ENOMEM;
		pool->chunks = chunks;
	}
	chunk = aligned_alloc(TAGRV_CACHE_LINE, bytes);
	if (!chunk)
		return -FI_ENOMEM;
	pool->chunks[pool->chunk_cnt++] = chunk;
	for (size_t i = pool->chunk_objs; i-- > 0;) {
		struct tagrv_pool_free *obj =
			(void *) (chunk + i * pool->obj_size);
		uint32_t index = (uint32_t) (first + i);

		if (index >= pool->max)
			continue;
		obj->node.handle = pool->large ? index :
						 TAGRV_POOL_GEN_ONE | index;
		obj->node.used = 0;
		obj->next = *list;
		*list = obj;
	}
	return 0;
}

int tagrv_pool_grow(struct tagrv_pool *pool)
{
	return add_chunk(pool, &pool->free_head);
}

int tagrv_pool_set_aside(struct tagrv_pool *pool)
{
	return pool->spare ? 0 : add_chunk(pool, &pool->spare);
}

void *tagrv_pool_get_spare(struct tagrv_pool *pool)
{
	if (!pool->free_head) {
		pool->free_head = pool->spare;
		pool->spare = NULL;
	}
	return pool->free_head ? tagrv_pool_get(pool) : NULL;
}

int tagrv_pool_reserve(struct tagrv_pool *pool, size_t count)
{
	if (count > pool->max)
		count = pool->max;
	while (pool->chunk_cnt * pool->chunk_objs < count) {
		int ret = tagrv_pool_grow(pool);

		if (ret)
			return ret;
	}
	return 0;
}

void *tagrv_pool_find(const struct tagrv_pool *pool, uint32_t handle)
{
	uint32_t index = handle & INDEX_MASK;
	struct tagrv_pool_node *node;

	assert(!pool->large);
	if (index >= pool->max || (index >> pool->chunk_shift) >= pool->chunk_cnt)
		return NULL;
	node = tagrv_pool_at(pool, index);
	return node->handle == handle && node->used ? node : NULL;
}
