/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the files of this folder share: an element's value, and one function for each
 * way to change an element.
 */
#ifndef TAGRV_ATOMIC_ATOMIC_PRIV_H
#define TAGRV_ATOMIC_ATOMIC_PRIV_H

#include <complex.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __SIZEOF_INT128__
#define TAGRV_ATOMIC_INT128	1
#else
#define TAGRV_ATOMIC_INT128	0
#endif

/*
 * The value of one element. Its bytes begin at the address of the union, whatever the
 * datatype; the bytes behind them mean nothing.
 */
union tagrv_element {
	uint64_t words[4];
	int8_t i8;
	uint8_t u8;
	int16_t i16;
	uint16_t u16;
	int32_t i32;
	uint32_t u32;
	int64_t i64;
	uint64_t u64;
#if TAGRV_ATOMIC_INT128
	__extension__ __int128 i128;
	__extension__ unsigned __int128 u128;
#endif
	float f;
	double d;
	long double ld;
	float complex fc;
	double complex dc;
	long double complex ldc;
};

/* One operation on one element. */
struct tagrv_atomic_step {
	unsigned op;			/* enum fi_op */
	unsigned datatype;		/* enum fi_datatype */
	size_t size;			/* bytes of an element */
	union tagrv_element operand;	/* not used by FI_ATOMIC_READ */
	union tagrv_element compare;	/* used by FI_CSWAP... and FI_MSWAP */
};

/* Whether the datatype is one of the integers, signed or not. */
static inline bool tagrv_atomic_is_integer(unsigned datatype)
{
	return datatype <= FI_UINT64 || datatype == FI_INT128 || datatype == FI_UINT128;
}

/* Turns the value that the target has into the one that the step leaves there. */
void tagrv_atomic_compute(const struct tagrv_atomic_step *step,
			  union tagrv_element *value);

/*
 * Changes an element of 1, 2, 4 or 8 bytes, aligned to its size, by lock-free
 * instructions. Writes its former value to 'old'.
 */
void tagrv_atomic_change_word(const struct tagrv_atomic_step *step, void *target,
			      union tagrv_element *old);

/* Changes any element under a lock of this process. Writes its former value to 'old'. */
void tagrv_atomic_change_locked(const struct tagrv_atomic_step *step, void *target,
				union tagrv_element *old);

#endif
