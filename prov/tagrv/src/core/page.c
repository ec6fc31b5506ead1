/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The size of a page: see page.h.
 */
#include "core/page.h"

#include <stdatomic.h>
#include <unistd.h>

static _Atomic size_t pretended;

size_t tagrv_page_size(void)
{
	size_t bytes = atomic_load_explicit(&pretended, memory_order_relaxed);

	return bytes ? bytes : (size_t) sysconf(_SC_PAGESIZE);
}

void tagrv_page_size_pretend(size_t bytes)
{
	atomic_store_explicit(&pretended, bytes, memory_order_relaxed);
}
