/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Allocations that fail on purpose. A program that links alloc_fail.c has its malloc,
 * calloc, realloc, aligned_alloc and posix_memalign, which call those of the C library.
 * Strings that the C library itself allocates (strdup) are not counted.
 */
#ifndef COMMON_ALLOC_FAIL_H
#define COMMON_ALLOC_FAIL_H

#include <stdbool.h>
#include <stddef.h>

/* False: a sanitizer or valgrind has allocators of its own. */
bool alloc_fail_works(void);

/*
 * From here on allocation number 'nth', counted from 1, fails; with for_good all later
 * ones, too. 0: none fails, all are counted.
 */
void alloc_fail_arm(size_t nth, bool for_good);

/* No further one fails. Returns how many allocations were counted since arm. */
size_t alloc_fail_disarm(void);

#endif
