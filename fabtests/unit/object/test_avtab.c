/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * avtab.h: rows, reuse, growth, memory, the same address twice; random inserts and
 * removals against a plain array.
 *
 * TAGRV_TEST_SEED=<seed> plays the same random operations again.
 */
#include <criterion/criterion.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/alloc_fail.h"
#include "object/avtab.h"

static struct tagrv_avtab tab;

static struct tagrv_addr address(uint32_t host)
{
	struct tagrv_addr addr;

	memset(&addr, 0, sizeof(addr));
	addr.in.sin_family = AF_INET;
	addr.in.sin_port = htons(5000);
	addr.in.sin_addr.s_addr = htonl(0x0a000000 + host);
	return addr;
}

static fi_addr_t insert(uint32_t host)
{
	struct tagrv_addr addr = address(host);
	fi_addr_t row = FI_ADDR_NOTAVAIL;

	cr_assert_eq(tagrv_avtab_insert(&tab, &addr, &row), 0);
	return row;
}

static fi_addr_t find(uint32_t host)
{
	struct tagrv_addr addr = address(host);

	return tagrv_avtab_find(&tab, &addr);
}

static void expect_row(fi_addr_t row, uint32_t host)
{
	const struct tagrv_addr *got = tagrv_avtab_lookup(&tab, row);
	struct tagrv_addr want = address(host);

	cr_assert_not_null(got, "row %llu", (unsigned long long) row);
	cr_expect(tagrv_addr_equal(got, &want));
}

static void set_up(void)
{
	cr_assert_eq(tagrv_avtab_init(&tab, 4), 0);
}

static void tear_down(void)
{
	tagrv_avtab_fini(&tab);
}

TestSuite(avtab, .init = set_up, .fini = tear_down, .timeout = 20);

Test(avtab, rows_count_up_from_zero)
{
	for (uint32_t i = 0; i < 10; i++)
		cr_expect_eq(insert(i), i);
	for (uint32_t i = 0; i < 10; i++) {
		expect_row(i, i);
		cr_expect_eq(find(i), i);
	}
}

Test(avtab, grows_beyond_the_count_it_was_opened_with)
{
	for (uint32_t i = 0; i < 5000; i++)
		cr_assert_eq(insert(i), i);
	for (uint32_t i = 0; i < 5000; i++)
		cr_assert_eq(find(i), i);
}

Test(avtab, a_huge_count_allocates_nothing_huge)
{
	tagrv_avtab_fini(&tab);
	cr_assert_eq(tagrv_avtab_init(&tab, SIZE_MAX), 0);
	cr_expect_eq(insert(1), 0);
}

/*
 * The endpoint's table of 8 bytes for each row grows by a quarter, too: 10 bytes at most are
 * left for it, of 64 that an address may cost.
 */
#define BYTES_MAX	54

Test(avtab, an_address_takes_few_bytes_at_any_time)
{
	if (!alloc_fail_works())
		cr_skip_test("the allocator is not ours");
	tagrv_avtab_fini(&tab);
	alloc_bytes_begin();
	cr_assert_eq(tagrv_avtab_init(&tab, 0), 0);
	for (uint32_t i = 0; i < 20000; i++) {
		ptrdiff_t bytes;

		cr_assert_eq(insert(i), i);
		bytes = alloc_bytes();
		cr_assert(i < 1000 || bytes <= (ptrdiff_t) (i + 1) * BYTES_MAX,
			  "%td bytes for %u addresses", bytes, i + 1);
	}
	tagrv_avtab_fini(&tab);
	cr_assert_eq(alloc_bytes_end(), 0);
}

/* If a call looked at all rows, this would take 10^10 steps, and its time be over. */
Test(avtab, no_call_looks_at_all_rows, .timeout = 5)
{
	enum { CNT = 100000 };

	for (uint32_t i = 0; i < CNT; i++)
		cr_assert_eq(insert(i), i);
	for (uint32_t i = 0; i < CNT; i++) {
		cr_assert_eq(tagrv_avtab_remove(&tab, 0), 0);
		cr_assert_eq(insert(CNT + i), 0);
		cr_assert_eq(insert(2 * CNT + i), CNT);
		cr_assert_eq(tagrv_avtab_remove(&tab, CNT), 0);
	}
	for (uint32_t i = 1; i < CNT; i++) {
		cr_assert_eq(find(i), i);
		cr_assert_eq(tagrv_avtab_remove(&tab, i), 0);
		cr_assert_eq(find(i), FI_ADDR_NOTAVAIL);
	}
	cr_assert_eq(find(2 * CNT - 1), 0);
	for (uint32_t i = 1; i < CNT; i++)
		cr_assert_eq(insert(i), i);
	for (uint32_t i = 1; i < CNT; i++)
		cr_assert_eq(find(i), i);
}

Test(avtab, unknown_rows_and_addresses_are_told)
{
	insert(1);
	cr_expect_null(tagrv_avtab_lookup(&tab, 1));
	cr_expect_null(tagrv_avtab_lookup(&tab, 1000000));
	cr_expect_null(tagrv_avtab_lookup(&tab, FI_ADDR_NOTAVAIL));
	cr_expect_eq(tagrv_avtab_remove(&tab, 1), -FI_EINVAL);
	cr_expect_eq(tagrv_avtab_remove(&tab, FI_ADDR_NOTAVAIL), -FI_EINVAL);
	cr_expect_eq(find(2), FI_ADDR_NOTAVAIL);
}

Test(avtab, a_removed_row_is_unknown_until_it_is_used_again)
{
	insert(1);
	insert(2);
	cr_expect_eq(tagrv_avtab_remove(&tab, 0), 0);
	cr_expect_null(tagrv_avtab_lookup(&tab, 0));
	cr_expect_eq(tagrv_avtab_remove(&tab, 0), -FI_EINVAL);
	cr_expect_eq(find(1), FI_ADDR_NOTAVAIL);
	expect_row(1, 2);
	cr_expect_eq(insert(3), 0);
	expect_row(0, 3);
}

Test(avtab, the_lowest_free_row_is_used_first)
{
	for (uint32_t i = 0; i < 8; i++)
		insert(i);
	cr_expect_eq(tagrv_avtab_remove(&tab, 6), 0);
	cr_expect_eq(tagrv_avtab_remove(&tab, 2), 0);
	cr_expect_eq(tagrv_avtab_remove(&tab, 4), 0);
	cr_expect_eq(insert(20), 2);
	cr_expect_eq(insert(21), 4);
	cr_expect_eq(insert(22), 6);
	cr_expect_eq(insert(23), 8);
}

Test(avtab, of_equal_addresses_the_lowest_living_row_answers)
{
	insert(1);
	insert(7);
	insert(7);
	insert(7);
	cr_expect_eq(find(7), 1);
	cr_expect_eq(tagrv_avtab_remove(&tab, 2), 0);
	cr_expect_eq(find(7), 1);
	cr_expect_eq(tagrv_avtab_remove(&tab, 1), 0);
	cr_expect_eq(find(7), 3);
	cr_expect_eq(insert(7), 1);
	cr_expect_eq(find(7), 1);
	cr_expect_eq(tagrv_avtab_remove(&tab, 1), 0);
	cr_expect_eq(tagrv_avtab_remove(&tab, 3), 0);
	cr_expect_eq(find(7), FI_ADDR_NOTAVAIL);
	cr_expect_eq(find(1), 0);
}

Test(avtab, ports_and_families_tell_addresses_apart)
{
	struct tagrv_addr a = address(1), b = address(1), c;
	fi_addr_t row;

	memset(&c, 0, sizeof(c));
	c.in6.sin6_family = AF_INET6;
	c.in6.sin6_port = htons(5000);
	tagrv_addr_set_port(&b, 5001);
	cr_assert_eq(tagrv_avtab_insert(&tab, &a, &row), 0);
	cr_expect_eq(tagrv_avtab_find(&tab, &b), FI_ADDR_NOTAVAIL);
	cr_expect_eq(tagrv_avtab_find(&tab, &c), FI_ADDR_NOTAVAIL);
	cr_assert_eq(tagrv_avtab_insert(&tab, &c, &row), 0);
	cr_expect_eq(tagrv_avtab_find(&tab, &c), row);
}

/* ---- random ---- */

#define HOSTS	40
#define ROWS	200

static uint32_t model[ROWS];		/* host + 1, or 0: free */

static uint64_t model_find(uint32_t host)
{
	for (uint64_t i = 0; i < ROWS; i++)
		if (model[i] == host + 1)
			return i;
	return FI_ADDR_NOTAVAIL;
}

static uint64_t model_free(void)
{
	for (uint64_t i = 0; i < ROWS; i++)
		if (!model[i])
			return i;
	return ROWS;
}

static void step(uint64_t random)
{
	uint32_t host = (uint32_t) (random >> 8) % HOSTS;
	uint64_t row = (random >> 32) % ROWS, free_row = model_free();

	if (random % 16 < 9 && free_row < ROWS) {
		cr_assert_eq(insert(host), free_row);
		model[free_row] = host + 1;
	} else {
		cr_assert_eq(tagrv_avtab_remove(&tab, row),
			     model[row] ? 0 : -FI_EINVAL);
		model[row] = 0;
	}
	cr_assert_eq(find(host), model_find(host));
}

Test(avtab, random_inserts_and_removals_behave_like_an_array)
{
	const char *text = getenv("TAGRV_TEST_SEED");
	uint64_t random = text ? strtoull(text, NULL, 0) :
				 (uint64_t) time(NULL) | 1;

	printf("TAGRV_TEST_SEED=%llu\n", (unsigned long long) random);
	for (int i = 0; i < 50000; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		step(random);
	}
	for (uint64_t i = 0; i < ROWS; i++) {
		if (model[i])
			expect_row(i, model[i] - 1);
		else
			cr_expect_null(tagrv_avtab_lookup(&tab, i));
	}
}
