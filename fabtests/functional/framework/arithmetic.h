/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What fi_atomic(3) says that atomic operations compute, in plain C and one after the
 * other: the model that providers are compared with.
 */
#ifndef FUNCTIONAL_ARITHMETIC_H
#define FUNCTIONAL_ARITHMETIC_H

#include <rdma/fi_atomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ARITHMETIC_TYPES = FI_UINT128 + 1,
	ARITHMETIC_OPS = FI_MSWAP + 1,
	ARITHMETIC_SIZE_MAX = 32,
};

/* Bytes of an element; 0: this build has no such type. */
size_t arithmetic_size(unsigned type);

bool arithmetic_is_integer(unsigned type);

/* The rest is for types that this build has. */

/* Whether the manual defines this operation: one of fi_atomic and of fi_fetch_atomic, ... */
bool arithmetic_is_update(unsigned op, unsigned type);
/* ... or of fi_compare_atomic. FI_ATOMIC_READ is neither. */
bool arithmetic_is_compare(unsigned op, unsigned type);

/* 'operand' and 'compare' as the operation needs them; nothing has to be aligned. */
void arithmetic_apply(unsigned op, unsigned type, void *target, const void *operand,
		      const void *compare, size_t count);

/* Compares values: bytes of long double that mean nothing may differ. */
bool arithmetic_same(unsigned type, const void *a, const void *b, size_t count);

/* Whether floating-point numbers are so small that sums and products with what
 * arithmetic_fill() writes are exact. True for integers. */
bool arithmetic_is_small(unsigned type, const void *buf, size_t count);

/* Elements of small whole numbers other than zero, each a function of seed and index. */
void arithmetic_fill(unsigned type, void *buf, size_t count, uint64_t seed);

const char *arithmetic_type_name(unsigned type);
const char *arithmetic_op_name(unsigned op);

#endif
