/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * iov.h: totals and copies, also with empty segments and short buffers.
 */
#include <criterion/criterion.h>

#include "core/iov.h"

/* "ab", nothing, "cdef", nothing at NULL, "g" */
static char text[3][5];
static struct iovec iov[5];

static void set_up(void)
{
	memcpy(text[0], "ab##", 5);
	memcpy(text[1], "cdef", 5);
	memcpy(text[2], "g###", 5);
	iov[0] = (struct iovec) { text[0], 2 };
	iov[1] = (struct iovec) { text[0], 0 };
	iov[2] = (struct iovec) { text[1], 4 };
	iov[3] = (struct iovec) { NULL, 0 };
	iov[4] = (struct iovec) { text[2], 1 };
}

TestSuite(iov, .init = set_up, .timeout = 10);

Test(iov, length_is_the_sum)
{
	cr_expect_eq(tagrv_iov_len(iov, 5), 7);
	cr_expect_eq(tagrv_iov_len(iov, 2), 2);
	cr_expect_eq(tagrv_iov_len(NULL, 0), 0);
}

Test(iov, length_saturates)
{
	static const size_t lens[][4] = {
		{ SIZE_MAX - 7, 16 }, { SIZE_MAX - 7, 60008 }, { SIZE_MAX, 1 },
		{ SIZE_MAX, SIZE_MAX }, { (size_t) 1 << 63, (size_t) 1 << 63 },
		{ (size_t) 1 << 63, ((size_t) 1 << 63) - 1 },
		{ SIZE_MAX / 4 + 1, SIZE_MAX / 4 + 1, SIZE_MAX / 4 + 1,
		  SIZE_MAX / 4 + 1 },
		{ 0, 16, 0, SIZE_MAX - 7 },
	};

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(lens); i++) {
		for (size_t n = 0; n < 4; n++)
			iov[n].iov_len = lens[i][n];
		cr_expect_eq(tagrv_iov_len(iov, 4), SIZE_MAX, "row %zu", i);
	}
	iov[3].iov_len = SIZE_MAX - 17;
	cr_expect_eq(tagrv_iov_len(iov, 4), SIZE_MAX - 1);
}

Test(iov, buffer_is_missing)
{
	cr_expect_not(tagrv_iov_lacks_buffer(iov, 5), "NULL without a length");
	iov[3].iov_len = 1;
	cr_expect(tagrv_iov_lacks_buffer(iov, 5));
	cr_expect_not(tagrv_iov_lacks_buffer(iov, 3));
	cr_expect_not(tagrv_iov_lacks_buffer(NULL, 0));
	cr_expect(tagrv_iov_lacks_buffer(NULL, 1));
}

Test(iov, gather_copies_all_pieces_in_order)
{
	char buf[9] = "--------";

	cr_expect_eq(tagrv_iov_gather(buf, iov, 5), 7);
	cr_expect_str_eq(buf, "abcdefg-");
	cr_expect_eq(tagrv_iov_gather(NULL, NULL, 0), 0);
}

Test(iov, scatter_fills_pieces_in_order)
{
	cr_expect_eq(tagrv_iov_scatter(iov, 5, "1234567", 7), 7);
	cr_expect_str_eq(text[0], "12##");
	cr_expect_str_eq(text[1], "3456");
	cr_expect_str_eq(text[2], "7###");
}

Test(iov, slice_is_a_part)
{
	struct iovec part[5];
	char buf[8] = "-------";

	for (size_t skip = 0; skip <= 7; skip++)
		for (size_t len = 0; skip + len <= 7; len++) {
			size_t cnt = tagrv_iov_slice(part, iov, 5, skip, len);

			memset(buf, '-', 7);
			cr_expect_eq(tagrv_iov_gather(buf, part, cnt), len);
			cr_expect(!memcmp(buf, &"abcdefg"[skip], len));
			cr_expect_eq(buf[len], len < 7 ? '-' : 0);
		}
	cr_expect_eq(tagrv_iov_slice(part, iov, 5, 1, 2), 2);
	cr_expect_eq(part[1].iov_base, text[1]);
	cr_expect_eq(part[1].iov_len, 1);
}

Test(iov, scatter_stops_where_the_data_ends)
{
	cr_expect_eq(tagrv_iov_scatter(iov, 5, "123", 3), 3);
	cr_expect_str_eq(text[0], "12##");
	cr_expect_str_eq(text[1], "3def");
	cr_expect_str_eq(text[2], "g###");
	cr_expect_eq(tagrv_iov_scatter(iov, 5, NULL, 0), 0);
}

Test(iov, scatter_stops_where_the_room_ends)
{
	cr_expect_eq(tagrv_iov_scatter(iov, 3, "123456789", 9), 6);
	cr_expect_str_eq(text[1], "3456");
	cr_expect_str_eq(text[2], "g###");
	cr_expect_eq(tagrv_iov_scatter(NULL, 0, "1", 1), 0);
}

Test(iov, range_lies_within_another, .timeout = 5)
{
	cr_expect(tagrv_range_within(100, 10, 100, 10));
	cr_expect(tagrv_range_within(110, 0, 100, 10), "empty, at the end");
	cr_expect(!tagrv_range_within(99, 1, 100, 10));
	cr_expect(!tagrv_range_within(109, 2, 100, 10));
	cr_expect(!tagrv_range_within(111, 0, 100, 10));
	cr_expect(!tagrv_range_within(105, UINT64_MAX - 100, 100, 10));
	cr_expect(!tagrv_range_within(UINT64_MAX, 2, 100, 10));
	cr_expect(tagrv_range_within(UINT64_MAX, 0, UINT64_MAX - 4, 4));
}
