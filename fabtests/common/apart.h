/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory of tests that unmap it and map its address again.
 */
#ifndef COMMON_APART_H
#define COMMON_APART_H

#include <stddef.h>

/*
 * Maps 'len' bytes of anonymous memory far below all other memory of the process,
 * so that the address stays free once the caller unmaps it: the kernel gives a
 * mapping without an address the highest room that fits. Elsewhere a thread of a
 * sanitizer, of Criterion or of the provider may map memory there in between.
 *
 * Each call takes another address. Returns NULL when there is no memory. Where
 * the address is not to be had (a small address space) the memory lies anywhere.
 * The caller unmaps it with munmap().
 */
void *map_apart(size_t len);

#endif
