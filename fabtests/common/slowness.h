/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * How slow this machine is, for the limits of tests: those are written for a
 * quiet machine of today and multiplied by slowness().
 */
#ifndef COMMON_SLOWNESS_H
#define COMMON_SLOWNESS_H

/*
 * From 1 (a quiet machine) to 4 (an emulated one, a sanitizer, a busy one).
 * Measured in some 15 ms (more on a slow machine) at the first call, and handed down to programs and
 * processes started later in FABTESTS_SLOWNESS; that variable, if it is set to
 * a number, is believed. The first call is not thread-safe.
 */
double slowness(void);

/* ms * slowness(): what takes ms at most on a quiet machine. */
unsigned slow_ms(unsigned ms);

#endif
