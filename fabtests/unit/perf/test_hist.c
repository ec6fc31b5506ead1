/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * hist.c of tagrv_perf: percentiles are as exact as hist.h says, and histograms add up.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "hist.h"

TestSuite(hist, .timeout = 10);

static struct hist h;

static double percentile_between(uint64_t least, uint64_t value, uint64_t most)
{
	hist_clear(&h);
	hist_add(&h, least);
	hist_add(&h, value);
	hist_add(&h, most);
	return hist_percentile(&h, 0.5);
}

Test(hist, nothing_has_no_percentile)
{
	struct hist_entry entries[1];

	hist_clear(&h);
	cr_assert_eq(hist_percentile(&h, 0.5), 0);
	cr_assert_eq(hist_mean(&h), 0);
	cr_assert_eq(hist_entries(&h, entries), 0);
}

Test(hist, small_values_are_exact)
{
	hist_clear(&h);
	for (uint64_t value = 100; value; value--)
		hist_add(&h, value);
	cr_assert_eq(hist_percentile(&h, 0), 1);
	cr_assert_eq(hist_percentile(&h, 0.005), 1);
	cr_assert_eq(hist_percentile(&h, 0.5), 50);
	cr_assert_eq(hist_percentile(&h, 0.501), 51);
	cr_assert_eq(hist_percentile(&h, 0.9), 90);
	cr_assert_eq(hist_percentile(&h, 0.99), 99);
	cr_assert_eq(hist_percentile(&h, 1), 100);
	cr_assert_eq(hist_mean(&h), 50.5);
}

/* At both ends and in the middle of each power of two. */
Test(hist, each_value_is_off_by_less_than_eight_thousandths)
{
	for (int power = 1; power < 63; power++) {
		const uint64_t base = 1ull << power;
		const uint64_t values[] = { base - 1, base, base + base / 64, base + base / 3, 2 * base - 1 };

		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			const double found = percentile_between(0, values[i], UINT64_MAX);

			cr_assert_leq(fabs(found - (double)values[i]), 0.008 * (double)values[i], "%g for %llu",
				      found, (unsigned long long)values[i]);
		}
	}
}

Test(hist, percentiles_stay_between_least_and_greatest)
{
	/* The middle of the bucket of both values lies between them, or beside them. */
	for (uint64_t value = 1 << 20; value < (1 << 20) + (1 << 15); value += 4099) {
		const double found = percentile_between(value, value, value);

		cr_assert_eq(found, (double)value);
	}
}

Test(hist, the_greatest_number_has_a_bucket)
{
	hist_clear(&h);
	hist_add(&h, UINT64_MAX);
	cr_assert_eq(h.max, UINT64_MAX);
	cr_assert_eq(h.counts[HIST_BUCKETS - 1], 1);
}

static void add_merged(struct hist *to, const struct hist *from)
{
	static struct hist_entry entries[HIST_BUCKETS];
	const size_t count = hist_entries(from, entries);

	hist_merge_head(to, from->sum, from->min, from->max);
	hist_merge(to, entries, count);
}

Test(hist, halves_add_up_to_the_whole)
{
	static struct hist parts[2], sum, whole;

	hist_clear(&parts[0]);
	hist_clear(&parts[1]);
	hist_clear(&sum);
	hist_clear(&whole);
	srand(7);
	for (int i = 0; i < 1000; i++) {
		const uint64_t value = (uint64_t)rand() * (uint64_t)rand() >> rand() % 40;

		hist_add(&parts[i % 2], value);
		hist_add(&whole, value);
	}
	add_merged(&sum, &parts[0]);
	add_merged(&sum, &parts[1]);
	cr_assert_arr_eq(sum.counts, whole.counts, sizeof(sum.counts));
	cr_assert_eq(sum.total, 1000);
	cr_assert_eq(sum.sum, whole.sum);
	cr_assert_eq(sum.min, whole.min);
	cr_assert_eq(sum.max, whole.max);
	cr_assert_eq(hist_percentile(&sum, 0.9), hist_percentile(&whole, 0.9));
}

Test(hist, an_entry_that_cannot_be_is_left_out)
{
	const struct hist_entry entries[] = { { HIST_BUCKETS, 5 }, { 3, 2 }, { UINT64_MAX, 1 } };

	hist_clear(&h);
	hist_merge_head(&h, 6, 3, 3);
	hist_merge(&h, entries, 3);
	cr_assert_eq(h.total, 2);
	cr_assert_eq(h.counts[3], 2);
	cr_assert_eq(hist_percentile(&h, 0.5), 3);
}
