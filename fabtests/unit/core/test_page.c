/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * page.h: the size of a page, and rounding to it.
 */
#include <criterion/criterion.h>
#include <unistd.h>

#include "core/page.h"

TestSuite(page, .timeout = 10);

Test(page, is_what_the_kernel_says_unless_a_test_pretends)
{
	const size_t real = (size_t) sysconf(_SC_PAGESIZE);

	cr_assert_eq(tagrv_page_size(), real);
	tagrv_page_size_pretend(65536);
	cr_assert_eq(tagrv_page_size(), 65536);
	tagrv_page_size_pretend(0);
	cr_assert_eq(tagrv_page_size(), real);
}

Test(page, addresses_are_rounded_down_and_up)
{
	for (size_t page = 4096; page <= 65536; page *= 4) {
		const uintptr_t at = 7 * page;

		cr_expect_eq(tagrv_page_start(at, page), at);
		cr_expect_eq(tagrv_page_start(at + 1, page), at);
		cr_expect_eq(tagrv_page_start(at + page - 1, page), at);
		cr_expect_eq(tagrv_page_end(at, page), at);
		cr_expect_eq(tagrv_page_end(at + 1, page), at + page);
		cr_expect_eq(tagrv_page_end(at + page, page), at + page);
	}
}

/* An address above 4 GiB keeps its upper half. */
Test(page, whole_addresses_are_rounded)
{
	const uintptr_t at = (uintptr_t) 0x123456789abcdefull;

	cr_expect_eq(tagrv_page_start(at, 65536), (uintptr_t) 0x123456789ab0000ull);
	cr_expect_eq(tagrv_page_end(at, 65536), (uintptr_t) 0x123456789ac0000ull);
}
