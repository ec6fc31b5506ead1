/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * talk.c of tagrv_perf: a stranger's order has to keep to what its hello has announced.
 */
#include <criterion/criterion.h>

#include "talk.h"

TestSuite(talk, .timeout = 10);

static const struct perf_hello hello = {
	.slots = 16, .size = 64, .recvs = 100, .need = PERF_MESSAGES,
};

static const struct perf_order most = {
	.test = PERF_BW, .size = 64, .window = 16, .depth = 100, .count = PERF_COUNT_MAX,
	.blocks = PERF_BLOCKS_MAX,
};

Test(talk, an_order_up_to_the_limits_is_possible)
{
	const struct perf_order least = { .test = PERF_LAT, .window = 1, .count = 1 };

	cr_assert(order_is_possible(&hello, &most));
	cr_assert(order_is_possible(&hello, &least));
}

#define CHECK_REFUSED(field, value)				\
	do {							\
		struct perf_order order = most;			\
								\
		order.field = value;				\
		cr_assert(!order_is_possible(&hello, &order));	\
	} while (0)

Test(talk, an_order_beyond_a_limit_is_refused)
{
	CHECK_REFUSED(size, 65);
	CHECK_REFUSED(size, UINT64_MAX);
	CHECK_REFUSED(window, 17);
	CHECK_REFUSED(window, 0);
	CHECK_REFUSED(window, 1ull << 63);
	CHECK_REFUSED(depth, 101);
	CHECK_REFUSED(depth, 1ull << 50);
	CHECK_REFUSED(count, PERF_COUNT_MAX + 1);
	CHECK_REFUSED(count, UINT64_MAX);
	CHECK_REFUSED(blocks, PERF_BLOCKS_MAX + 1);
	CHECK_REFUSED(blocks, UINT64_MAX);
}

Test(talk, an_order_of_another_kind_is_refused)
{
	CHECK_REFUSED(test, PERF_TESTS);
	CHECK_REFUSED(test, UINT64_MAX);
	CHECK_REFUSED(test, PERF_DEPTH);
	CHECK_REFUSED(test, PERF_PUT);
	CHECK_REFUSED(test, PERF_ADD);
}
