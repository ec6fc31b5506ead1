/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies of many bytes, to places of any alignment.
 */
#ifndef TAGRV_CORE_BULK_H
#define TAGRV_CORE_BULK_H

#include <stddef.h>

/*
 * memcpy of at least 64 bytes. C libraries copy from about 2 KiB on by 'rep movsb'
 * where the processor says that this is fast. Some processors that say so (AMD Zen 3)
 * need twenty times as long for it when the destination begins less than 64 bytes
 * behind the source, modulo 4096, as a buffer of malloc() does behind a page. Moves of
 * 16 bytes to aligned places do as well as the best of it, and never worse than half.
 */
void tagrv_copy_long(void *restrict to, const void *restrict from, size_t len);

#endif
