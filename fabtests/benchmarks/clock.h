/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A clock that is cheap enough to be read within a measurement.
 *
 * It is the processor's time stamp counter, if there is one. Reading the counter
 * costs a few nanoseconds; CLOCK_MONOTONIC costs a microsecond where the kernel does
 * not trust the counter, as on emulated processors. perftest and ucx_perftest read
 * the counter, too, so that their figures include the same cost.
 */
#ifndef FABTESTS_BENCHMARKS_CLOCK_H
#define FABTESTS_BENCHMARKS_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_monotonic_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return clock_monotonic_ns();
#endif
}

/* Returns seconds per tick, measured against CLOCK_MONOTONIC for 20 ms. */
static inline double clock_seconds_per_tick(void)
{
	uint64_t ns = clock_monotonic_ns(), ticks = clock_ticks(), past;

	do
		past = clock_monotonic_ns() - ns;
	while (past < 20000000);
	return (double)past * 1e-9 / (double)(clock_ticks() - ticks);
}

#endif
