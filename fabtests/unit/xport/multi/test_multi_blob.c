/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the sides of a joined link tell each other, and which rails they join.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "xport/multi/multi_priv.h"

static uint32_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t) (*state >> 16);
}

static struct multi_blob sample(unsigned cnt, const uint8_t *lens)
{
	struct multi_blob blob = { .cnt = cnt };

	for (unsigned i = 0; i < cnt; i++) {
		blob.rails[i].len = lens[i];
		memset(blob.rails[i].data, (int) (0x10 + i), lens[i]);
	}
	return blob;
}

Test(multi_blob, survives_the_wire, .timeout = 5)
{
	static const uint8_t lens[MULTI_RAILS] = { 44, 0, 1, 44 };
	uint8_t buf[TAGRV_BLOB_MAX];

	for (unsigned cnt = 1; cnt <= MULTI_RAILS; cnt++) {
		struct multi_blob in = sample(cnt, lens), out;
		size_t len = tagrv_multi_blob_pack(&in, buf);

		memset(&out, 0xff, sizeof(out));
		cr_assert_eq(tagrv_multi_blob_unpack(&out, buf, len), 0);
		cr_assert_eq(out.cnt, cnt);
		for (unsigned i = 0; i < cnt; i++) {
			cr_assert_eq(out.rails[i].len, lens[i]);
			cr_assert(!memcmp(out.rails[i].data, in.rails[i].data,
					  lens[i]));
		}
	}
}

Test(multi_blob, layout_is_fixed, .timeout = 5)
{
	static const uint8_t lens[] = { 2, 0, 3 };
	static const uint8_t expected[] = {
		1, 3, 2, 0x10, 0x10, 0, 3, 0x12, 0x12, 0x12,
	};
	struct multi_blob in = sample(3, lens);
	uint8_t buf[TAGRV_BLOB_MAX];

	cr_assert_eq(tagrv_multi_blob_pack(&in, buf), sizeof(expected));
	cr_assert_arr_eq(buf, expected, sizeof(expected));
}

/* A rail that finds no room has no path; the others are as they were. */
Test(multi_blob, is_never_too_long, .timeout = 5)
{
	static const uint8_t lens[MULTI_RAILS] = { 100, 100, 86, 1 };
	struct multi_blob in = sample(MULTI_RAILS, lens), out;
	uint8_t buf[TAGRV_BLOB_MAX + 1];
	size_t len;

	buf[TAGRV_BLOB_MAX] = 0xee;
	len = tagrv_multi_blob_pack(&in, buf);
	cr_assert_eq(len, TAGRV_BLOB_MAX);
	cr_assert_eq(buf[TAGRV_BLOB_MAX], 0xee);
	cr_assert_eq(tagrv_multi_blob_unpack(&out, buf, len), 0);
	cr_assert_eq(out.rails[0].len, 100);
	cr_assert_eq(out.rails[1].len, 0);
	cr_assert_eq(out.rails[2].len, 86);
	cr_assert_eq(out.rails[3].len, 0);
}

Test(multi_blob, other_lengths_and_versions_are_refused, .timeout = 5)
{
	static const uint8_t lens[MULTI_RAILS] = { 44, 44, 44, 44 };
	struct multi_blob in = sample(MULTI_RAILS, lens), out;
	uint8_t buf[TAGRV_BLOB_MAX + 1] = { 0 };
	size_t len = tagrv_multi_blob_pack(&in, buf);

	for (size_t i = 0; i <= sizeof(buf); i++)
		cr_assert_eq(tagrv_multi_blob_unpack(&out, buf, i),
			     i == len ? 0 : -FI_EINVAL, "%zu bytes", i);
	buf[0]++;
	cr_assert_eq(tagrv_multi_blob_unpack(&out, buf, len), -FI_EINVAL);
	buf[0]--;
	for (unsigned cnt = 0; cnt < 256; cnt++) {
		buf[1] = (uint8_t) cnt;
		cr_assert_eq(tagrv_multi_blob_unpack(&out, buf, len),
			     cnt == MULTI_RAILS ? 0 : -FI_EINVAL);
	}
}

/*
 * Each blob ends where a page ends that is followed by none, so a read beyond it
 * crashes. What is accepted packs to the same bytes.
 */
Test(multi_blob, random_bytes_do_no_harm, .timeout = 30)
{
	uint64_t state = 88172645463325252ull;
	size_t page = (size_t) sysconf(_SC_PAGESIZE);
	uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned accepted = 0;

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_eq(mprotect(pages + page, page, PROT_NONE), 0);
	for (int round = 0; round < 200000; round++) {
		size_t len = next_random(&state) % (TAGRV_BLOB_MAX + 8);
		uint8_t *in = pages + page - len, again[TAGRV_BLOB_MAX];
		struct multi_blob out;

		for (size_t i = 0; i < len; i++)
			in[i] = (uint8_t) (next_random(&state) % 8);
		if (len && round % 4)
			in[0] = 1;
		if (!tagrv_multi_blob_unpack(&out, in, len)) {
			cr_assert(out.cnt && out.cnt <= MULTI_RAILS);
			cr_assert_eq(tagrv_multi_blob_pack(&out, again), len);
			cr_assert(!memcmp(again, in, len));
			accepted++;
		}
	}
	munmap(pages, 2 * page);
	cr_assert_gt(accepted, 100);
}

/*
 * Rails of the tests have a blob of two bytes: a side and a rank. near_of_test() is
 * symmetric: each pair of (side, rank) has one place in the table.
 */
static unsigned table[2][MULTI_RAILS][2][MULTI_RAILS];

static unsigned near_of_test(const void *a, size_t a_len, const void *b, size_t b_len)
{
	const uint8_t *x = a, *y = b;

	cr_assert(a_len == 2 && b_len == 2);
	return table[x[0]][x[1]][y[0]][y[1]];
}

static struct multi_blob side(uint8_t nr, unsigned cnt)
{
	struct multi_blob blob = { .cnt = cnt };

	for (unsigned i = 0; i < cnt; i++) {
		blob.rails[i].len = 2;
		blob.rails[i].data[0] = nr;
		blob.rails[i].data[1] = (uint8_t) i;
	}
	return blob;
}

static void set_near(unsigned i, unsigned j, unsigned near)
{
	table[0][i][1][j] = table[1][j][0][i] = near;
}

/* Pairs both sides and checks that each rail names the rail that names it. */
static unsigned pair_both(const struct multi_blob *a, const struct multi_blob *b,
			  int of_a[MULTI_RAILS])
{
	int of_b[MULTI_RAILS];
	unsigned cnt = tagrv_multi_pair(a, b, near_of_test, of_a), seen = 0;

	cr_assert_eq(tagrv_multi_pair(b, a, near_of_test, of_b), cnt);
	for (int i = 0; i < (int) MULTI_RAILS; i++) {
		if (of_a[i] >= 0) {
			cr_assert_lt((unsigned) i, a->cnt);
			cr_assert_lt((unsigned) of_a[i], b->cnt);
			cr_assert_eq(of_b[of_a[i]], i);
			seen++;
		}
		if (of_b[i] >= 0)
			cr_assert_eq(of_a[of_b[i]], i);
	}
	cr_assert_eq(seen, cnt);
	return cnt;
}

/* For all numbers of rails and many tables of distances. */
Test(multi_pair, both_sides_come_to_the_same, .timeout = 60)
{
	uint64_t state = 88172645463325252ull;
	int of_a[MULTI_RAILS];

	for (int round = 0; round < 20000; round++)
		for (unsigned n = 1; n <= MULTI_RAILS; n++)
			for (unsigned m = 1; m <= MULTI_RAILS; m++) {
				struct multi_blob a = side(0, n), b = side(1, m);

				for (unsigned i = 0; i < n; i++)
					for (unsigned j = 0; j < m; j++)
						set_near(i, j, next_random(&state) %
							 (round % 4 + 1));
				if (next_random(&state) % 4 == 0)
					a.rails[n - 1].len = 0;
				pair_both(&a, &b, of_a);
				/* No pair is left that could be joined. */
				for (unsigned i = 0; i < n; i++)
					for (unsigned j = 0; j < m; j++) {
						bool taken = of_a[i] >= 0;

						for (unsigned k = 0; k < n; k++)
							taken |= of_a[k] == (int) j;
						cr_assert(taken || !a.rails[i].len ||
							  !table[0][i][1][j]);
					}
			}
}

/* The two ends may have the same bytes: a process that joins itself. */
Test(multi_pair, equal_blobs_pair_as_mirrors, .timeout = 20)
{
	uint64_t state = 1;
	int of[MULTI_RAILS];

	for (int round = 0; round < 20000; round++) {
		struct multi_blob a = side(0, MULTI_RAILS);

		for (unsigned i = 0; i < MULTI_RAILS; i++)
			for (unsigned j = 0; j <= i; j++)
				table[0][i][0][j] = table[0][j][0][i] =
					next_random(&state) % 3;
		tagrv_multi_pair(&a, &a, near_of_test, of);
		for (int i = 0; i < (int) MULTI_RAILS; i++)
			if (of[i] >= 0)
				cr_assert_eq(of[of[i]], i);
	}
}

Test(multi_pair, equal_rails_pair_by_rank, .timeout = 5)
{
	struct multi_blob a = side(0, 4), b = side(1, 3);
	int of_a[MULTI_RAILS];

	for (unsigned i = 0; i < 4; i++)
		for (unsigned j = 0; j < 3; j++)
			set_near(i, j, 3);
	cr_assert_eq(pair_both(&a, &b, of_a), 3);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(of_a[i], i);
	cr_assert_eq(of_a[3], -1);
}

/* One host lists the adapters of two subnets the other way round. */
Test(multi_pair, the_nearest_come_first, .timeout = 5)
{
	struct multi_blob a = side(0, 2), b = side(1, 2);
	int of_a[MULTI_RAILS];

	for (unsigned i = 0; i < 2; i++)
		for (unsigned j = 0; j < 2; j++)
			set_near(i, j, i == j ? 1 : 3);
	cr_assert_eq(pair_both(&a, &b, of_a), 2);
	cr_assert_eq(of_a[0], 1);
	cr_assert_eq(of_a[1], 0);
}

Test(multi_pair, what_cannot_be_reached_has_no_pair, .timeout = 5)
{
	struct multi_blob a = side(0, 2), b = side(1, 2);
	int of_a[MULTI_RAILS];

	memset(table, 0, sizeof(table));
	cr_assert_eq(pair_both(&a, &b, of_a), 0);
	set_near(1, 0, 1);
	cr_assert_eq(pair_both(&a, &b, of_a), 1);
	cr_assert_eq(of_a[0], -1);
	cr_assert_eq(of_a[1], 0);
}
