/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * pool.c: stable addresses, limits, handles that become invalid with their object.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <string.h>

#include "core/pool.h"

#define CNT	5000	/* several chunks */

struct thing {
	struct tagrv_pool_node node;
	uint32_t value;
};

static struct tagrv_pool pool_of(size_t max)
{
	struct tagrv_pool pool;

	tagrv_pool_init(&pool, sizeof(struct thing), max);
	return pool;
}

static struct thing *get(struct tagrv_pool *pool)
{
	struct thing *thing = tagrv_pool_get(pool);

	cr_assert_not_null(thing);
	return thing;
}

Test(pool, unused_pool_has_no_memory, .timeout = 10)
{
	struct tagrv_pool pool = pool_of(10);

	cr_expect_null(pool.chunks);
	cr_expect_null(tagrv_pool_find(&pool, 1u << TAGRV_POOL_INDEX_BITS));
	tagrv_pool_fini(&pool);
	tagrv_pool_fini(&pool);
}

Test(pool, objects_are_aligned_distinct_and_do_not_move, .timeout = 10)
{
	static struct thing *things[CNT];
	struct tagrv_pool pool = pool_of(CNT);

	for (uint32_t i = 0; i < CNT; i++) {
		things[i] = get(&pool);
		things[i]->value = i;
		cr_assert_eq((uintptr_t) things[i] % 32, 0);
	}
	for (uint32_t i = 0; i < CNT; i++) {
		cr_assert_eq(things[i]->value, i);
		cr_assert_eq(tagrv_pool_find(&pool, things[i]->node.handle),
			     things[i]);
	}
	cr_expect_eq(pool.used, CNT);
	tagrv_pool_fini(&pool);
}

/* No object covers more cache lines than necessary; two small objects share one. */
Test(pool, objects_begin_lines_or_halves_of_them, .timeout = 10)
{
	static const size_t sizes[] = { 9, 32, 33, 64, 65, 200 };

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(sizes); i++) {
		size_t unit = sizes[i] <= 32 ? 32 : 64;
		struct tagrv_pool pool;

		tagrv_pool_init(&pool, sizes[i], 100);
		cr_expect_eq(pool.obj_size, (sizes[i] + unit - 1) / unit * unit);
		for (int n = 0; n < 100; n++)
			cr_assert_eq((uintptr_t) tagrv_pool_get(&pool) % unit,
				     0);
		tagrv_pool_fini(&pool);
	}
}

Test(pool, maximum_is_exact_for_any_number, .timeout = 10)
{
	static const size_t maxima[] = { 1, 15, 16, 17, 1000, 1024, 1025 };

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(maxima); i++) {
		struct tagrv_pool pool = pool_of(maxima[i]);
		struct thing *last = NULL;

		for (size_t n = 0; n < maxima[i]; n++)
			last = get(&pool);
		cr_expect_null(tagrv_pool_get(&pool));
		tagrv_pool_put(&pool, last);
		cr_expect_eq(get(&pool), last);
		cr_expect_null(tagrv_pool_get(&pool));
		tagrv_pool_fini(&pool);
	}
}

Test(pool, maximum_of_nothing_gives_nothing, .timeout = 10)
{
	struct tagrv_pool pool = pool_of(0);

	cr_expect_null(tagrv_pool_get(&pool));
	cr_expect_eq(tagrv_pool_reserve(&pool, 10), 0);
	tagrv_pool_fini(&pool);
}

Test(pool, maximum_is_what_a_handle_can_count, .timeout = 10)
{
	struct tagrv_pool pool = pool_of(SIZE_MAX);

	cr_expect_eq(pool.max, TAGRV_POOL_TOP);
	tagrv_pool_fini(&pool);
}

Test(pool, whole_index_range_can_be_used, .timeout = 60)
{
	struct tagrv_pool pool = pool_of(SIZE_MAX);
	struct thing *thing = NULL;

	for (size_t i = 0; i < TAGRV_POOL_TOP; i++)
		thing = get(&pool);
	cr_expect_null(tagrv_pool_get(&pool));
	cr_expect_eq(tagrv_pool_find(&pool, thing->node.handle), thing);
	tagrv_pool_fini(&pool);
}

Test(pool, reserved_objects_need_no_more_memory, .timeout = 10)
{
	struct tagrv_pool pool = pool_of(CNT);
	size_t chunks;

	cr_assert_eq(tagrv_pool_reserve(&pool, 3000), 0);
	chunks = pool.chunk_cnt;
	for (size_t i = 0; i < 3000; i++)
		get(&pool);
	cr_expect_eq(pool.chunk_cnt, chunks);
	cr_expect_eq(tagrv_pool_reserve(&pool, SIZE_MAX), 0);
	cr_expect_geq(pool.chunk_cnt * pool.chunk_objs, CNT);
	tagrv_pool_fini(&pool);
}

Test(pool, large_objects_have_room, .timeout = 10)
{
	struct tagrv_pool pool;
	char *a, *b;

	tagrv_pool_init(&pool, 10000, 100);
	a = tagrv_pool_get(&pool);
	b = tagrv_pool_get(&pool);
	cr_assert(a && b);
	memset(a + sizeof(struct tagrv_pool_node), 1,
	       10000 - sizeof(struct tagrv_pool_node));
	memset(b + sizeof(struct tagrv_pool_node), 2,
	       10000 - sizeof(struct tagrv_pool_node));
	cr_expect_eq(a[9999], 1);
	tagrv_pool_put(&pool, a);
	tagrv_pool_put(&pool, b);
	tagrv_pool_fini(&pool);
}

Test(pool, handle_of_a_freed_object_finds_nothing, .timeout = 10)
{
	struct tagrv_pool pool = pool_of(1);
	struct thing *thing = get(&pool);
	uint32_t old = thing->node.handle;

	tagrv_pool_put(&pool, thing);
	cr_expect_null(tagrv_pool_find(&pool, old));
	cr_expect_null(tagrv_pool_find(&pool, thing->node.handle),
		       "handle of a life that has not begun");
	cr_expect_eq(get(&pool), thing);
	cr_expect_null(tagrv_pool_find(&pool, old));
	cr_expect_eq(tagrv_pool_find(&pool, thing->node.handle), thing);
	tagrv_pool_fini(&pool);
}

/* All 2047 generations differ, and 0 is skipped when they wrap. */
Test(pool, handle_repeats_after_all_generations_and_is_never_zero,
     .timeout = 10)
{
	const unsigned lives = (1u << (32 - TAGRV_POOL_INDEX_BITS)) - 1;
	struct tagrv_pool pool = pool_of(1);
	struct thing *thing = get(&pool);
	uint32_t first = thing->node.handle;

	for (unsigned i = 1; i <= lives; i++) {
		tagrv_pool_put(&pool, thing);
		thing = get(&pool);
		cr_assert_neq(thing->node.handle >> TAGRV_POOL_INDEX_BITS, 0);
		cr_assert_eq(thing->node.handle == first, i == lives);
	}
	tagrv_pool_fini(&pool);
}

Test(pool, unknown_handles_find_nothing, .timeout = 10)
{
	struct tagrv_pool pool = pool_of(20);
	uint32_t handle = get(&pool)->node.handle;
	uint32_t index = handle & TAGRV_POOL_TOP;

	cr_expect_null(tagrv_pool_find(&pool, 0));
	cr_expect_null(tagrv_pool_find(&pool, index));
	cr_expect_null(tagrv_pool_find(&pool, UINT32_MAX));
	cr_expect_null(tagrv_pool_find(&pool, handle + 1));
	cr_expect_null(tagrv_pool_find(&pool, handle - index + 20));
	cr_expect_null(tagrv_pool_find(&pool, handle - index + 1000000));
	tagrv_pool_fini(&pool);
}

Test(pool, places_name_objects_for_all_their_lives, .timeout = 10)
{
	struct tagrv_pool pool = pool_of(CNT);

	for (uint32_t i = 0; i < CNT; i++) {
		struct thing *thing = get(&pool);

		cr_assert_eq(tagrv_pool_index(&thing->node), i);
		cr_assert_eq(tagrv_pool_at(&pool, i), thing);
		tagrv_pool_put(&pool, thing);
		cr_assert_eq(get(&pool), thing);
		cr_assert_eq(tagrv_pool_index(&thing->node), i);
	}
	cr_expect_geq(tagrv_pool_capacity(&pool), CNT);
	tagrv_pool_fini(&pool);
}

Test(pool, growing_ahead_keeps_half_a_chunk_free_up_to_the_maximum,
     .timeout = 10)
{
	struct tagrv_pool pool = pool_of(CNT);

	for (uint32_t i = 0; i < CNT; i++) {
		size_t chunks;

		tagrv_pool_grow_ahead(&pool);
		chunks = pool.chunk_cnt;
		get(&pool);
		cr_assert_eq(pool.chunk_cnt, chunks);
	}
	tagrv_pool_grow_ahead(&pool);
	cr_expect_eq(tagrv_pool_capacity(&pool), CNT);
	cr_expect_null(tagrv_pool_get(&pool));
	tagrv_pool_fini(&pool);
}

/* ---- large pools ---- */

/* Objects of 24 bytes lie side by side; one of 32 would not be worth a test. */
struct small {
	struct tagrv_pool_node node;
	char	bytes[16];
};

Test(pool, a_large_one_goes_beyond_what_a_handle_can_count, .timeout = 60)
{
	const size_t cnt = (size_t) TAGRV_POOL_MAX + 5000;
	struct tagrv_pool pool;
	struct small *object;

	tagrv_pool_init_large(&pool, sizeof(*object), SIZE_MAX);
	cr_expect_eq(pool.max, TAGRV_POOL_LARGE_MAX);
	cr_expect_eq(pool.obj_size, sizeof(*object));
	for (size_t i = 0; i < cnt; i++) {
		object = tagrv_pool_get(&pool);
		cr_assert_not_null(object);
		cr_assert_eq(tagrv_pool_index_large(&object->node), i);
	}
	cr_expect_eq(pool.used, cnt);
	for (uint32_t i = 0; i < cnt; i++) {
		object = tagrv_pool_at(&pool, i);
		tagrv_pool_put_large(&pool, object);
		cr_assert_eq(tagrv_pool_index_large(&object->node), i);
	}
	cr_expect_eq(pool.used, 0);
	tagrv_pool_fini(&pool);
}

Test(pool, a_large_one_is_full_at_its_maximum, .timeout = 10)
{
	struct tagrv_pool pool;
	void *first;

	tagrv_pool_init_large(&pool, sizeof(struct small), 100);
	first = tagrv_pool_get(&pool);
	for (size_t i = 1; i < 100; i++)
		cr_assert_not_null(tagrv_pool_get(&pool));
	cr_expect_null(tagrv_pool_get(&pool));
	cr_expect_eq(tagrv_pool_why(&pool), -FI_EAGAIN);
	tagrv_pool_put_large(&pool, first);
	cr_expect_eq(tagrv_pool_get(&pool), first);
	tagrv_pool_fini(&pool);
}
