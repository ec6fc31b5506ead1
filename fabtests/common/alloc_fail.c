/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Allocations that fail on purpose, see alloc_fail.h. The names that begin with
 * __libc are those by which glibc lets its allocator be replaced.
 */
#include "common/alloc_fail.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OTHER_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OTHER_ALLOCATOR 1
#endif
#endif

static atomic_bool armed;
static atomic_size_t count;
static size_t first, last;	/* numbers of the allocations that fail */

void alloc_fail_arm(size_t nth, bool for_good)
{
	first = nth ? nth : SIZE_MAX;
	last = for_good ? SIZE_MAX - 1 : nth;
	atomic_store(&count, 0);
	atomic_store(&armed, true);
}

size_t alloc_fail_disarm(void)
{
	atomic_store(&armed, false);
	return atomic_load(&count);
}

#ifndef OTHER_ALLOCATOR

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t cnt, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);

/* Whether the allocation that is asked for shall fail. */
static bool fails(void)
{
	size_t number;

	if (!atomic_load_explicit(&armed, memory_order_relaxed))
		return false;
	number = atomic_fetch_add(&count, 1) + 1;
	if (number < first || number > last)
		return false;
	errno = ENOMEM;
	return true;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t cnt, size_t size)
{
	return fails() ? NULL : __libc_calloc(cnt, size);
}

void *realloc(void *old, size_t size)
{
	return fails() ? NULL : __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	void *memory = fails() ? NULL : __libc_memalign(align, size);

	if (!memory)
		return ENOMEM;
	*out = memory;
	return 0;
}

#endif

/* Asks by trying: valgrind takes the place of the functions above as well. */
bool alloc_fail_works(void)
{
	void *volatile memory;

	alloc_fail_arm(1, false);
	memory = malloc(1);
	alloc_fail_disarm();
	free(memory);
	return !memory;
}
