/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of tests that unmap it and map its address again: see apart.h.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "common/apart.h"

#include <stdint.h>
#include <sys/mman.h>

/* No sanitizer, and nothing else in a test's process, maps memory here. */
#define OURS	((uintptr_t) 0x200000000000)
/* Between two mappings, so that the end of one is not the beginning of another. */
#define GAP	((uintptr_t) 0x10000)

void *map_apart(size_t len)
{
	static uintptr_t next = OURS;
	void *p = mmap((void *) next, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	next += (len + 2 * GAP - 1) & ~(GAP - 1);
	return p == MAP_FAILED ? NULL : p;
}
