/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Monotonic time: milliseconds for timers and time limits, seconds for
 * measurements. Neither jumps when the system's time is set.
 */
#ifndef TAGRV_CORE_CLOCK_H
#define TAGRV_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tagrv_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static inline double tagrv_clock_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

#endif
