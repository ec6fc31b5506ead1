/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * bulk.h: every length and alignment of source and destination, and nothing beside it.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/bulk.h"

enum { LONGEST = 400, AROUND = 64 };

static char from[LONGEST + 2 * AROUND], to[LONGEST + 2 * AROUND];

static void check(size_t src, size_t dst, size_t len)
{
	memset(to, '-', sizeof(to));
	tagrv_copy_long(to + AROUND + dst, from + AROUND + src, len);
	cr_assert_arr_eq(to + AROUND + dst, from + AROUND + src, len,
			 "%zu bytes from %zu to %zu", len, src, dst);
	for (size_t i = 0; i < AROUND + dst; i++)
		cr_assert_eq(to[i], '-');
	for (size_t i = AROUND + dst + len; i < sizeof(to); i++)
		cr_assert_eq(to[i], '-');
}

Test(bulk, lengths_and_alignments, .timeout = 60)
{
	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char) (i * 7 + (i >> 8));
	for (size_t len = 64; len <= LONGEST - 17; len++)
		for (size_t dst = 0; dst < 17; dst++)
			check(len % 16, dst, len);
	for (size_t src = 0; src < 17; src++)
		for (size_t dst = 0; dst < 17; dst++)
			check(src, dst, 64 + src * 16 + dst);
}
