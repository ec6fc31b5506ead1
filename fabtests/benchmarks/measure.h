/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Helpers of benchmarks: medians, processors, and the machine's own limit for
 * messages between two of its processes.
 */
#ifndef FABTESTS_BENCHMARKS_MEASURE_H
#define FABTESTS_BENCHMARKS_MEASURE_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline int measure_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the median. Sorts the values: the first one is the least. */
static inline double measure_median(double *values, size_t cnt)
{
	qsort(values, cnt, sizeof(*values), measure_compare);
	return cnt % 2 ? values[cnt / 2] : (values[cnt / 2 - 1] + values[cnt / 2]) / 2;
}

/* Pins the process to processor number 'who' of those it may use; false: there is none. */
static inline bool measure_pin(int who)
{
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all))
		return false;
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all) || who--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		return !sched_setaffinity(0, sizeof(one), &one);
	}
	return false;
}

/* A cache line that two processes share; alone in two, because a prefetcher may fetch two. */
struct measure_line {
	_Alignas(128) _Atomic uint64_t turn;
};

/*
 * Waits for turn 'first' of 'in' and writes the next turn to 'out', repeatedly. Two
 * processes that begin with 0 and 1 take turns; 'in' and 'out' may be the same line.
 */
static inline void measure_take_turns(struct measure_line *in, struct measure_line *out,
				      uint64_t first, uint64_t count)
{
	for (uint64_t t = first; t < first + 2 * count; t += 2) {
		while (atomic_load_explicit(&in->turn, memory_order_acquire) != t)
			;
		atomic_store_explicit(&out->turn, t + 1, memory_order_release);
	}
}

#endif
