/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What kind of memory lies at an address, as the kernel tells in
 * /proc/self/maps.
 */
#ifndef TAGRV_REG_MONITOR_VMA_H
#define TAGRV_REG_MONITOR_VMA_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether [from, to) is wholly mapped, writable, and private memory without a
 * file: heap, stack, anonymous mappings. Only of such memory can nobody but a
 * caller of munmap, mremap and madvise in this process change the pages: a file
 * can be truncated, a segment detached by shmdt, without anything being said.
 *
 * maps: descriptor of /proc/self/maps, opened by this process. Allocates
 * nothing. by_text: does not use the call that newer kernels have.
 */
bool tagrv_vma_is_plain(int maps, uintptr_t from, uintptr_t to, bool by_text);

#endif
