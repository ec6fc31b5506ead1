/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Allocations that fail on purpose, or are counted. A program that links alloc_fail.c has its malloc,
 * calloc, realloc, aligned_alloc, posix_memalign and free, which call those of the C library.
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

/*
 * Bytes of the blocks that are allocated now, less those when the counting began, with what
 * the allocator adds to each. Of all threads.
 */
void alloc_bytes_begin(void);
ptrdiff_t alloc_bytes(void);
/* Ends the counting, and returns the same. */
ptrdiff_t alloc_bytes_end(void);

#endif
