/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The size of a page of memory, which is not the same everywhere: 4 KiB on x86, 4, 16 or
 * 64 KiB on ARM, as the kernel was built. Everything that is watched, pinned or protected
 * as a whole page takes its size from here.
 */
#ifndef TAGRV_CORE_PAGE_H
#define TAGRV_CORE_PAGE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a page, a power of two. Any thread. */
size_t tagrv_page_size(void);

/*
 * For tests: from now on pages have so many bytes, a power of two and no fewer than they
 * have; 0: as many as they have. What was allocated or watched before is not told.
 */
void tagrv_page_size_pretend(size_t bytes);

/* The first byte of the page that 'addr' lies in. */
static inline uintptr_t tagrv_page_start(uintptr_t addr, size_t page)
{
	return addr & ~((uintptr_t) page - 1);
}

/* The end of the page that the byte before 'addr' lies in. */
static inline uintptr_t tagrv_page_end(uintptr_t addr, size_t page)
{
	return tagrv_page_start(addr + page - 1, page);
}

#endif
