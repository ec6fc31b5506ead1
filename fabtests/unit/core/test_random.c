/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * random.c: the bytes differ, any length is filled, and a kernel or a sandbox without
 * getrandom(2) is an error.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "core/random.h"
#include "unit/core/core_seccomp.h"

Test(random, bytes_differ)
{
	static const uint8_t zeros[16];
	uint8_t a[16] = { 0 }, b[16] = { 0 };

	cr_assert_eq(tagrv_random_fill(a, sizeof(a)), 0);
	cr_assert_eq(tagrv_random_fill(b, sizeof(b)), 0);
	cr_expect_arr_neq(a, zeros, sizeof(a));
	cr_expect_arr_neq(a, b, sizeof(a));
}

/* Each of 64 parts has a byte that is not 0, and nothing is written behind the end. */
Test(random, any_length_is_filled)
{
	enum { PART = 16384, PARTS = 64 };
	static const uint8_t zeros[PART];
	uint8_t *data = calloc(PARTS + 1, PART);

	cr_assert(data);
	cr_assert_eq(tagrv_random_fill(data, 0), 0);
	cr_expect_arr_eq(data, zeros, PART);
	cr_assert_eq(tagrv_random_fill(data, PART * PARTS), 0);
	for (int i = 0; i < PARTS; i++)
		cr_expect(memcmp(data + i * PART, zeros, PART), "part %d", i);
	cr_expect_arr_eq(data + PART * PARTS, zeros, PART);
	free(data);
}

/* The filter ends with the process of this test. */
Test(random, forbidden_call_is_an_error)
{
	uint8_t a[16];

	if (seccomp_forbid(SYS_getrandom, EPERM))
		cr_skip_test("the kernel takes no filter of system calls");
	cr_expect_eq(tagrv_random_fill(a, sizeof(a)), -EPERM);
}

Test(random, missing_call_is_an_error)
{
	uint8_t a[16];

	if (seccomp_forbid(SYS_getrandom, ENOSYS))
		cr_skip_test("the kernel takes no filter of system calls");
	cr_expect_eq(tagrv_random_fill(a, sizeof(a)), -ENOSYS);
}
