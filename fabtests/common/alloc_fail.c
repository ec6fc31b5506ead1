/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Allocations that fail on purpose, see alloc_fail.h. The names that begin with
 * __libc are those by which glibc lets its allocator be replaced.
 */
#include "common/alloc_fail.h"

#include <errno.h>
#include <malloc.h>
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
static atomic_bool counts;
static _Atomic ptrdiff_t bytes;

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

void alloc_bytes_begin(void)
{
	atomic_store(&bytes, 0);
	atomic_store(&counts, true);
}

ptrdiff_t alloc_bytes(void)
{
	return atomic_load(&bytes);
}

ptrdiff_t alloc_bytes_end(void)
{
	atomic_store(&counts, false);
	return alloc_bytes();
}

#ifndef OTHER_ALLOCATOR

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t cnt, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *memory);

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

#define BLOCK_HEAD	sizeof(size_t)	/* of glibc, in front of a block */

static void *came(void *memory)
{
	if (atomic_load_explicit(&counts, memory_order_relaxed) && memory)
		atomic_fetch_add(&bytes, (ptrdiff_t) (malloc_usable_size(memory) + BLOCK_HEAD));
	return memory;
}

static void goes(void *memory)
{
	if (atomic_load_explicit(&counts, memory_order_relaxed) && memory)
		atomic_fetch_sub(&bytes, (ptrdiff_t) (malloc_usable_size(memory) + BLOCK_HEAD));
}

void *malloc(size_t size)
{
	return fails() ? NULL : came(__libc_malloc(size));
}

void *calloc(size_t cnt, size_t size)
{
	return fails() ? NULL : came(__libc_calloc(cnt, size));
}

void *realloc(void *old, size_t size)
{
	void *memory;

	if (fails())
		return NULL;
	goes(old);
	memory = __libc_realloc(old, size);
	came(memory || !size ? memory : old);
	return memory;
}

void *aligned_alloc(size_t align, size_t size)
{
	return fails() ? NULL : came(__libc_memalign(align, size));
}

int posix_memalign(void **out, size_t align, size_t size)
{
	void *memory = fails() ? NULL : came(__libc_memalign(align, size));

	if (!memory)
		return ENOMEM;
	*out = memory;
	return 0;
}

void free(void *memory)
{
	goes(memory);
	__libc_free(memory);
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
