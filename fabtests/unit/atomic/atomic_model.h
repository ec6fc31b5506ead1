/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The operations as fi_atomic(3) writes them down, with a function for each datatype: what
 * the provider's results are compared with. And values with which they are tried.
 */
#ifndef TAGRV_UNIT_ATOMIC_MODEL_H
#define TAGRV_UNIT_ATOMIC_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_OPS		19	/* FI_MIN to FI_MSWAP */
#define MODEL_DATATYPES		16	/* FI_INT8 to FI_UINT128 */
#define MODEL_BYTES		32	/* of the longest datatype */
#define MODEL_VALUES		24

/*
 * Changes the element at 'addr'. No pointer has to be aligned. The operation must exist
 * for the datatype; 'buf' and 'compare' are not NULL even where they are not used.
 */
void model_apply(unsigned op, unsigned datatype, void *addr, const void *buf,
		 const void *compare);

/*
 * Whether two elements have the same value: of integers, the same bits; of floats, the
 * same number with the same sign, or both are none.
 */
bool model_same(unsigned datatype, const void *a, const void *b);

/*
 * Writes value 'index' (below MODEL_VALUES) of a datatype: first those where arithmetic
 * has its edges, then random ones, which the same 'seed' gives again.
 */
void model_value(unsigned datatype, unsigned index, uint64_t seed, void *out);

#endif
