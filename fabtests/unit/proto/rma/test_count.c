/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What counters of an endpoint and of a window count of the operations of peers:
 * FI_REMOTE_READ and FI_REMOTE_WRITE of fi_endpoint(3).
 */
#include "unit/proto/rma/onesided_fixture.h"

TestSuite(rma_count, .init = onesided_setup, .fini = onesided_teardown, .timeout = 20);

static void expect_counts(uint64_t read, uint64_t written)
{
	cr_expect_eq(remote_reads.value, read);
	cr_expect_eq(remote_writes.value, written);
}

Test(rma_count, what_returns_something_is_a_read)
{
	const uint64_t operands[2] = { 1, 2 };

	arrive_put(1, 0, operands, 8, 0);
	expect_counts(0, 1);
	arrive_get(2, 0, 8, 0);
	expect_counts(1, 1);
	arrive_atomic(3, TAGRV_RMA_ATOMIC, FI_SUM, 0, operands, 1, 0);
	expect_counts(1, 2);
	arrive_atomic(4, TAGRV_RMA_FETCH, FI_SUM, 0, operands, 1, 0);
	expect_counts(2, 2);
	arrive_atomic(5, TAGRV_RMA_FETCH, FI_ATOMIC_READ, 0, NULL, 1, 0);
	expect_counts(3, 2);
}

/* Programs wait by this counter for any change of the region. */
Test(rma_count, what_changes_a_region_is_a_write_to_it)
{
	const uint64_t operands[2] = { 1, 2 };
	struct tagrv_counter read, written;

	cr_assert_eq(tagrv_counter_init(&read, false), 0);
	cr_assert_eq(tagrv_counter_init(&written, false), 0);
	window.read_cntr = &read;
	window.write_cntr = &written;
	arrive_atomic(1, TAGRV_RMA_ATOMIC, FI_SUM, 0, operands, 1, 0);
	cr_expect_eq(written.value, 1);
	arrive_atomic(2, TAGRV_RMA_FETCH, FI_SUM, 0, operands, 1, 0);
	cr_expect_eq(written.value, 2);
	arrive_atomic(3, TAGRV_RMA_COMPARE, FI_CSWAP, 0, operands, 1, 0);
	cr_expect_eq(written.value, 3);
	arrive_atomic(4, TAGRV_RMA_FETCH, FI_ATOMIC_READ, 0, NULL, 1, 0);
	cr_expect_eq(written.value, 3);
	cr_expect_eq(read.value, 3);
	expect_counts(3, 1);
	window.read_cntr = window.write_cntr = NULL;
	tagrv_counter_fini(&read);
	tagrv_counter_fini(&written);
}

Test(rma_count, refused_ones_are_not_counted)
{
	const uint64_t operand = 1;

	window.access = FI_REMOTE_READ;
	arrive_put(1, 0, &operand, 8, 0);
	arrive_atomic(2, TAGRV_RMA_FETCH, FI_SUM, 0, &operand, 1, 0);
	arrive_get(3, LONG, 8, 0);
	expect_counts(0, 0);
	cr_expect_eq(fx.engine->stats.rma_refused, 3);
}
