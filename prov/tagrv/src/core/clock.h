/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Monotonic time: milliseconds for timers and time limits, seconds or nanoseconds for
 * measurements. Neither jumps when the system's time is set. Processor time: seconds
 * during which a processor worked for this thread, or for all threads of this process;
 * what others do on that processor does not count.
 */
#ifndef TAGRV_CORE_CLOCK_H
#define TAGRV_CORE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tagrv_clock_read_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

static inline uint64_t tagrv_clock_ns(void)
{
	return tagrv_clock_read_ns(CLOCK_MONOTONIC);
}

static inline uint64_t tagrv_clock_ms(void)
{
	return tagrv_clock_ns() / 1000000;
}

static inline uint64_t tagrv_clock_process_ns(void)
{
	return tagrv_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static inline double tagrv_clock_read(clockid_t clock)
{
	return (double) tagrv_clock_read_ns(clock) * 1e-9;
}

static inline double tagrv_clock_seconds(void)
{
	return tagrv_clock_read(CLOCK_MONOTONIC);
}

static inline double tagrv_clock_thread(void)
{
	return tagrv_clock_read(CLOCK_THREAD_CPUTIME_ID);
}

#endif
