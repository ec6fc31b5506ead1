/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomic operations of libfabric on the memory of this process: every operation on every
 * datatype for which fi_atomic(3) defines it.
 *
 * One actor: all atomics on a target's memory, its own included, are carried out by the
 * target's processor, so that they are atomic among each other; or, with
 * FI_TAGRV_ATOMICS=device, all by its device, and not by this file. Elements of 1, 2, 4 and 8
 * bytes are changed by the processor's lock-free instructions and are atomic against the
 * application's own, too. Wider elements, and elements that are not aligned to their
 * size, are changed under one of the locks of this file, which belong to the process.
 *
 * lock: none; any thread.
 */
#ifndef TAGRV_ATOMIC_ATOMIC_H
#define TAGRV_ATOMIC_ATOMIC_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The three families of calls of fi_atomic(3). */
enum tagrv_atomic_kind {
	TAGRV_ATOMIC_BASE,	/* fi_atomic: changes the target */
	TAGRV_ATOMIC_FETCH,	/* fi_fetch_atomic: returns its former value, too */
	TAGRV_ATOMIC_COMPARE,	/* fi_compare_atomic: compares before it changes */
	TAGRV_ATOMIC_KINDS
};

/* Bytes of the largest element. */
#define TAGRV_ATOMIC_SIZE_MAX	32

/* Bytes of an element, by datatype; 0: not in this build. */
#define TAGRV_ATOMIC_DATATYPES	(FI_UINT128 + 1)
extern const uint8_t tagrv_atomic_sizes[TAGRV_ATOMIC_DATATYPES];

/*
 * Bytes of an element; 0: there is no such datatype in this build (long double and
 * 128-bit integers depend on the compiler). Any value may be given.
 */
static inline size_t tagrv_atomic_size(unsigned datatype)
{
	return datatype < TAGRV_ATOMIC_DATATYPES ? tagrv_atomic_sizes[datatype] : 0;
}

/* The bytes behind the last whole element of len bytes. Sizes are powers of two, but for the
 * long double of some processors; a division costs as much as a short operation. */
static inline size_t tagrv_atomic_rest(size_t len, size_t size)
{
	return size & (size - 1) ? len % size : len & (size - 1);
}

/*
 * Whether calls of this kind take this operation on this datatype. Any values may be
 * given.
 */
bool tagrv_atomic_is_valid(unsigned kind, unsigned op, unsigned datatype);

/*
 * The same for FI_TAGRV_ATOMICS=device: the adapters of RDMA add to integers of 64 bits and
 * compare and swap them, one at a time (InfiniBand architecture specification, volume 1,
 * 9.4.5); a read adds 0.
 */
bool tagrv_atomic_is_valid_by_device(unsigned kind, unsigned op, unsigned datatype);

/*
 * Changes 'count' elements at 'target', one by one. The operation must be valid.
 *
 *   operand   'count' elements; NULL with FI_ATOMIC_READ
 *   compare   TAGRV_ATOMIC_COMPARE: 'count' elements; else NULL
 *   result    former values of the elements, 'count' of them; NULL: TAGRV_ATOMIC_BASE
 *
 * Of these three, none has to be aligned, and none overlaps the target. 'result' may be
 * the same array as 'operand' or 'compare'.
 */
void tagrv_atomic_apply(unsigned kind, unsigned op, unsigned datatype, void *target,
			const void *operand, const void *compare, void *result,
			size_t count);

#endif
