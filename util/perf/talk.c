/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Orders that a process does not follow, whoever gives them: see talk.h.
 */
#include "talk.h"

bool order_is_possible(const struct perf_hello *hello, const struct perf_order *order)
{
	return order->test < PERF_TESTS && perf_tests[order->test].need == hello->need &&
	       order->window && order->window <= hello->slots && order->size <= hello->size &&
	       order->depth <= hello->recvs && order->count <= PERF_COUNT_MAX &&
	       order->blocks <= PERF_BLOCKS_MAX;
}
