/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What each operation computes. tagrv_atomic_compute() says it once for all datatypes, by
 * six things that are known of each datatype: which of two values is less, whether a
 * value is true, the value of true and false, sum, product, and bits. PROD of FI_UINT16,
 * for example, is the case FI_UINT16 of multiply().
 *
 * Integers wrap around. The signed ones are computed as the unsigned ones of their size,
 * which gives the same bits, because C leaves overflow of signed numbers undefined.
 */
#include <assert.h>

#include "atomic/atomic_priv.h"

/* ---- order ---- */

enum relation {
	LESS,
	EQUAL,
	GREATER,
	UNORDERED,	/* one is not a number; complex numbers that differ */
};

#define RELATION(a, b) \
	((a) < (b) ? LESS : (a) > (b) ? GREATER : (a) == (b) ? EQUAL : UNORDERED)

static enum relation relate_signed(unsigned datatype, const union tagrv_element *a,
				   const union tagrv_element *b)
{
	switch (datatype) {
	case FI_INT8:
		return RELATION(a->i8, b->i8);
	case FI_INT16:
		return RELATION(a->i16, b->i16);
	case FI_INT32:
		return RELATION(a->i32, b->i32);
	case FI_INT64:
		return RELATION(a->i64, b->i64);
#if TAGRV_ATOMIC_INT128
	case FI_INT128:
		return RELATION(a->i128, b->i128);
#endif
	default:
		assert(false);
		return UNORDERED;
	}
}

static enum relation relate_unsigned(unsigned datatype, const union tagrv_element *a,
				     const union tagrv_element *b)
{
	switch (datatype) {
	case FI_UINT8:
		return RELATION(a->u8, b->u8);
	case FI_UINT16:
		return RELATION(a->u16, b->u16);
	case FI_UINT32:
		return RELATION(a->u32, b->u32);
	case FI_UINT64:
		return RELATION(a->u64, b->u64);
#if TAGRV_ATOMIC_INT128
	case FI_UINT128:
		return RELATION(a->u128, b->u128);
#endif
	default:
		return relate_signed(datatype, a, b);
	}
}

/* What 'a' is in comparison with 'b'. */
static enum relation relate(unsigned datatype, const union tagrv_element *a,
			    const union tagrv_element *b)
{
	switch (datatype) {
	case FI_FLOAT:
		return RELATION(a->f, b->f);
	case FI_DOUBLE:
		return RELATION(a->d, b->d);
	case FI_LONG_DOUBLE:
		return RELATION(a->ld, b->ld);
	case FI_FLOAT_COMPLEX:
		return a->fc == b->fc ? EQUAL : UNORDERED;
	case FI_DOUBLE_COMPLEX:
		return a->dc == b->dc ? EQUAL : UNORDERED;
	case FI_LONG_DOUBLE_COMPLEX:
		return a->ldc == b->ldc ? EQUAL : UNORDERED;
	default:
		return relate_unsigned(datatype, a, b);
	}
}

/* Whether an operation of the FI_CSWAP family swaps if 'compare' has this relation to the
 * value of the target. As in C, a value that is not a number differs from every other. */
static bool swaps(unsigned op, enum relation compare)
{
	switch (op) {
	case FI_CSWAP:
		return compare == EQUAL;
	case FI_CSWAP_NE:
		return compare != EQUAL;
	case FI_CSWAP_LE:
		return compare == LESS || compare == EQUAL;
	case FI_CSWAP_LT:
		return compare == LESS;
	case FI_CSWAP_GE:
		return compare == GREATER || compare == EQUAL;
	case FI_CSWAP_GT:
		return compare == GREATER;
	default:
		assert(false);
		return false;
	}
}

/* ---- truth ---- */

static bool is_true(unsigned datatype, const union tagrv_element *a)
{
	switch (datatype) {
	case FI_INT8:
	case FI_UINT8:
		return a->u8;
	case FI_INT16:
	case FI_UINT16:
		return a->u16;
	case FI_INT32:
	case FI_UINT32:
		return a->u32;
	case FI_INT64:
	case FI_UINT64:
		return a->u64;
#if TAGRV_ATOMIC_INT128
	case FI_INT128:
	case FI_UINT128:
		return a->u128;
#endif
	case FI_FLOAT:
		return a->f != 0;
	case FI_DOUBLE:
		return a->d != 0;
	case FI_LONG_DOUBLE:
		return a->ld != 0;
	case FI_FLOAT_COMPLEX:
		return a->fc != 0;
	case FI_DOUBLE_COMPLEX:
		return a->dc != 0;
	case FI_LONG_DOUBLE_COMPLEX:
		return a->ldc != 0;
	default:
		assert(false);
		return false;
	}
}

/* Sets 'a' to one or zero. */
static void set_truth(unsigned datatype, union tagrv_element *a, bool truth)
{
	switch (datatype) {
	case FI_INT8:
	case FI_UINT8:
		a->u8 = truth;
		break;
	case FI_INT16:
	case FI_UINT16:
		a->u16 = truth;
		break;
	case FI_INT32:
	case FI_UINT32:
		a->u32 = truth;
		break;
	case FI_INT64:
	case FI_UINT64:
		a->u64 = truth;
		break;
#if TAGRV_ATOMIC_INT128
	case FI_INT128:
	case FI_UINT128:
		a->u128 = truth;
		break;
#endif
	case FI_FLOAT:
		a->f = truth;
		break;
	case FI_DOUBLE:
		a->d = truth;
		break;
	case FI_LONG_DOUBLE:
		a->ld = truth;
		break;
	case FI_FLOAT_COMPLEX:
		a->fc = truth;
		break;
	case FI_DOUBLE_COMPLEX:
		a->dc = truth;
		break;
	case FI_LONG_DOUBLE_COMPLEX:
		a->ldc = truth;
		break;
	default:
		assert(false);
	}
}

/* ---- arithmetic ---- */

static void add(unsigned datatype, union tagrv_element *a, const union tagrv_element *b)
{
	switch (datatype) {
	case FI_INT8:
	case FI_UINT8:
		a->u8 = (uint8_t) (a->u8 + b->u8);
		break;
	case FI_INT16:
	case FI_UINT16:
		a->u16 = (uint16_t) (a->u16 + b->u16);
		break;
	case FI_INT32:
	case FI_UINT32:
		a->u32 += b->u32;
		break;
	case FI_INT64:
	case FI_UINT64:
		a->u64 += b->u64;
		break;
#if TAGRV_ATOMIC_INT128
	case FI_INT128:
	case FI_UINT128:
		a->u128 += b->u128;
		break;
#endif
	case FI_FLOAT:
		a->f += b->f;
		break;
	case FI_DOUBLE:
		a->d += b->d;
		break;
	case FI_LONG_DOUBLE:
		a->ld += b->ld;
		break;
	case FI_FLOAT_COMPLEX:
		a->fc += b->fc;
		break;
	case FI_DOUBLE_COMPLEX:
		a->dc += b->dc;
		break;
	case FI_LONG_DOUBLE_COMPLEX:
		a->ldc += b->ldc;
		break;
	default:
		assert(false);
	}
}

static void multiply(unsigned datatype, union tagrv_element *a,
		     const union tagrv_element *b)
{
	switch (datatype) {
	case FI_INT8:
	case FI_UINT8:
		a->u8 = (uint8_t) (a->u8 * b->u8);
		break;
	case FI_INT16:
	case FI_UINT16:
		/* Without the cast these would be signed, and overflow. */
		a->u16 = (uint16_t) ((uint32_t) a->u16 * b->u16);
		break;
	case FI_INT32:
	case FI_UINT32:
		a->u32 *= b->u32;
		break;
	case FI_INT64:
	case FI_UINT64:
		a->u64 *= b->u64;
		break;
#if TAGRV_ATOMIC_INT128
	case FI_INT128:
	case FI_UINT128:
		a->u128 *= b->u128;
		break;
#endif
	case FI_FLOAT:
		a->f *= b->f;
		break;
	case FI_DOUBLE:
		a->d *= b->d;
		break;
	case FI_LONG_DOUBLE:
		a->ld *= b->ld;
		break;
	case FI_FLOAT_COMPLEX:
		a->fc *= b->fc;
		break;
	case FI_DOUBLE_COMPLEX:
		a->dc *= b->dc;
		break;
	case FI_LONG_DOUBLE_COMPLEX:
		a->ldc *= b->ldc;
		break;
	default:
		assert(false);
	}
}

/* ---- bits ---- */

/* Where 'mask' has a bit, 'a' gets that of 'b'. Integers have at most two words; the bits
 * behind a shorter one mean nothing. */
static void mix(union tagrv_element *a, const union tagrv_element *b,
		const union tagrv_element *mask)
{
	for (int i = 0; i < 2; i++)
		a->words[i] = (b->words[i] & mask->words[i]) |
			      (a->words[i] & ~mask->words[i]);
}

static void combine_bits(unsigned op, union tagrv_element *a,
			 const union tagrv_element *b)
{
	for (int i = 0; i < 2; i++)
		if (op == FI_BOR)
			a->words[i] |= b->words[i];
		else if (op == FI_BAND)
			a->words[i] &= b->words[i];
		else
			a->words[i] ^= b->words[i];
}

/* ---- operations ---- */

static void combine_truth(const struct tagrv_atomic_step *step, union tagrv_element *a)
{
	bool x = is_true(step->datatype, a);
	bool y = is_true(step->datatype, &step->operand);

	set_truth(step->datatype, a, step->op == FI_LOR ? x || y :
				     step->op == FI_LAND ? x && y : x != y);
}

void tagrv_atomic_compute(const struct tagrv_atomic_step *step, union tagrv_element *a)
{
	switch (step->op) {
	case FI_MIN:
		if (relate(step->datatype, &step->operand, a) == LESS)
			*a = step->operand;
		break;
	case FI_MAX:
		if (relate(step->datatype, &step->operand, a) == GREATER)
			*a = step->operand;
		break;
	case FI_SUM:
		add(step->datatype, a, &step->operand);
		break;
	case FI_PROD:
		multiply(step->datatype, a, &step->operand);
		break;
	case FI_LOR:
	case FI_LAND:
	case FI_LXOR:
		combine_truth(step, a);
		break;
	case FI_BOR:
	case FI_BAND:
	case FI_BXOR:
		combine_bits(step->op, a, &step->operand);
		break;
	case FI_ATOMIC_READ:
		break;
	case FI_ATOMIC_WRITE:
		*a = step->operand;
		break;
	case FI_MSWAP:
		mix(a, &step->operand, &step->compare);
		break;
	default:
		if (swaps(step->op, relate(step->datatype, &step->compare, a)))
			*a = step->operand;
	}
}
