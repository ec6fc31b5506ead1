/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Histogram of times: see hist.h.
 *
 * Values below 64 have a bucket each. From there on, each power of two is divided into 64
 * buckets: the bucket is the power's number followed by the six bits after the leading one.
 */
#include "hist.h"

#include <math.h>
#include <string.h>

enum { FINE_BITS = 6 };

static size_t bucket_of(uint64_t value)
{
	int shift;

	if (value < HIST_FINE)
		return (size_t)value;
	shift = 63 - __builtin_clzll(value) - FINE_BITS;
	return (size_t)(shift * HIST_FINE) + (size_t)(value >> shift);
}

/* The middle of a bucket. */
static double value_of(size_t bucket)
{
	size_t shift;

	if (bucket < 2 * HIST_FINE)
		return (double)bucket;
	shift = bucket / HIST_FINE - 1;
	return ldexp((double)(bucket - shift * HIST_FINE) + 0.5, (int)shift);
}

void hist_clear(struct hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

void hist_add(struct hist *h, uint64_t value)
{
	h->counts[bucket_of(value)]++;
	h->total++;
	h->sum += value;
	if (value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
}

void hist_merge_head(struct hist *h, uint64_t sum, uint64_t min, uint64_t max)
{
	h->sum += sum;
	if (min < h->min)
		h->min = min;
	if (max > h->max)
		h->max = max;
}

void hist_merge(struct hist *h, const struct hist_entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (entries[i].bucket >= HIST_BUCKETS)
			continue;
		h->counts[entries[i].bucket] += entries[i].count;
		h->total += entries[i].count;
	}
}

size_t hist_entries(const struct hist *h, struct hist_entry *entries)
{
	size_t count = 0;

	for (size_t i = 0; i < HIST_BUCKETS; i++)
		if (h->counts[i])
			entries[count++] = (struct hist_entry){ i, h->counts[i] };
	return count;
}

double hist_percentile(const struct hist *h, double part)
{
	uint64_t rank = (uint64_t)ceil(part * (double)h->total), below = 0;
	double value = 0;

	if (!h->total)
		return 0;
	if (rank >= h->total)
		return (double)h->max;
	for (size_t i = 0; i < HIST_BUCKETS && below < (rank ? rank : 1); i++) {
		below += h->counts[i];
		value = value_of(i);
	}
	/* The middle of the outermost buckets may lie outside of all values. */
	return fmin(fmax(value, (double)h->min), (double)h->max);
}

double hist_mean(const struct hist *h)
{
	return h->total ? (double)h->sum / (double)h->total : 0;
}
