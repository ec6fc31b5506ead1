/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Histogram of times. Steps are as fine as 1/64 of the value, so that a percentile is off by
 * less than 0.8 %; the least and the greatest value are exact. Histograms of several
 * processes can be added.
 */
#ifndef PERF_HIST_H
#define PERF_HIST_H

#include <stddef.h>
#include <stdint.h>

enum { HIST_FINE = 64, HIST_BUCKETS = 59 * HIST_FINE };

struct hist {
	uint64_t total, sum, min, max;
	uint64_t counts[HIST_BUCKETS];
};

/* Part of a histogram that travels between processes. */
struct hist_entry {
	uint64_t bucket, count;
};

void hist_clear(struct hist *h);
void hist_add(struct hist *h, uint64_t value);

/* Adds what another process counted; an entry that cannot be is left out. */
void hist_merge_head(struct hist *h, uint64_t sum, uint64_t min, uint64_t max);
void hist_merge(struct hist *h, const struct hist_entry *entries, size_t count);

/* Fills at most HIST_BUCKETS entries; returns how many. */
size_t hist_entries(const struct hist *h, struct hist_entry *entries);

/* The value that part (0 to 1) of all values do not exceed; 0 if there are none. */
double hist_percentile(const struct hist *h, double part);
double hist_mean(const struct hist *h);

#endif
