/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The kind of memory at an address, by /proc/self/maps.
 */
#ifndef TAGRV_REG_MONITOR_VMA_H
#define TAGRV_REG_MONITOR_VMA_H

#include <stdbool.h>
#include <stdint.h>

/*
 * True: all of [from, to) is mapped, writable, private and without a file: heap,
 * stack, anonymous mappings. The pages of such memory change only by munmap, mremap
 * and madvise in this process, which give events; files can be truncated, and
 * shmdt detaches a segment, without an event.
 *
 * maps: descriptor of /proc/self/maps, opened by this process; its offset changes.
 * by_text: read the text even if the kernel has PROCMAP_QUERY. Allocates nothing.
 */
bool tagrv_vma_is_plain(int maps, uintptr_t from, uintptr_t to, bool by_text);

#endif
