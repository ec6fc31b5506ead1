/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The kind of memory at an address, by /proc/self/maps.
 */
#ifndef TAGRV_REG_MONITOR_VMA_H
#define TAGRV_REG_MONITOR_VMA_H

#include <stdbool.h>
#include <stdint.h>

/*
 * plain   writable, private and without a file: heap, stack, anonymous mappings. The
 *         pages of such memory change only by munmap, mremap and madvise in this
 *         process, which give events
 * huge    the same in huge pages that were mapped without a file (MAP_HUGETLB). Watched
 *         in whole mappings, because the kernel takes no part of a huge page
 * other   all else. Files and shared memory can be truncated and punched by other
 *         processes, and shmdt detaches a segment, without an event
 */
enum tagrv_vma_kind {
	TAGRV_VMA_OTHER,
	TAGRV_VMA_PLAIN,
	TAGRV_VMA_HUGE,
};

struct tagrv_vma_range {
	uintptr_t from, to;
};

/*
 * The kind of all of *range, from < to; other, if it has several or is not mapped
 * everywhere. Unless it is other, *range becomes the mappings that hold it, whole.
 *
 * maps: descriptor of /proc/self/maps, opened by this process; its offset changes.
 * by_text: read the text even if the kernel has PROCMAP_QUERY. Allocates nothing.
 */
enum tagrv_vma_kind tagrv_vma_kind(int maps, struct tagrv_vma_range *range, bool by_text);

#endif
