/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic_value.c: every operation on every datatype for which it exists, with values at the
 * edges of arithmetic and random ones, compared with a model; and some results that were
 * computed by hand.
 */
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "atomic/atomic.h"
#include "unit/atomic/atomic_model.h"

/* ---- all against the model ---- */

static uint64_t seed;
/* Values of the datatype that is tried. */
static char values[MODEL_VALUES][MODEL_BYTES];

struct cell {
	unsigned kind, op, datatype;
	size_t size;
};

static void complain(const struct cell *cell, const char *what, int value, int operand,
		     int compare)
{
	cr_assert_fail("kind %u, op %u, datatype %u: %s of values %d, %d, %d is wrong; "
		       "TAGRV_TEST_SEED=%llu", cell->kind, cell->op, cell->datatype, what,
		       value, operand, compare, (unsigned long long) seed);
}

/* At 'at', which is aligned or not. */
static void try_values(const struct cell *cell, void *at, int value, int operand, int compare)
{
	bool fetches = cell->kind != TAGRV_ATOMIC_BASE;
	char wanted[MODEL_BYTES], result[MODEL_BYTES];

	memcpy(wanted, values[value], cell->size);
	model_apply(cell->op, cell->datatype, wanted, values[operand], values[compare]);
	memcpy(at, values[value], cell->size);
	tagrv_atomic_apply(cell->kind, cell->op, cell->datatype, at,
			   cell->op == FI_ATOMIC_READ ? NULL : values[operand],
			   cell->kind == TAGRV_ATOMIC_COMPARE ? values[compare] : NULL,
			   fetches ? result : NULL, 1);
	if (!model_same(cell->datatype, at, wanted))
		complain(cell, "the new value", value, operand, compare);
	if (fetches && memcmp(result, values[value], cell->size))
		complain(cell, "the result", value, operand, compare);
}

static void try_cell(const struct cell *cell)
{
	int compares = cell->kind == TAGRV_ATOMIC_COMPARE ? MODEL_VALUES : 1;
	_Alignas(32) char place[MODEL_BYTES + 1];

	for (int value = 0; value < MODEL_VALUES; value++)
		for (int operand = 0; operand < MODEL_VALUES; operand++)
			for (int compare = 0; compare < compares; compare++) {
				try_values(cell, place, value, operand, compare);
				try_values(cell, place + 1, value, operand, compare);
			}
}

static void set_seed(void)
{
	const char *text = getenv("TAGRV_TEST_SEED");

	seed = text ? strtoull(text, NULL, 0) : (uint64_t) time(NULL);
	fprintf(stderr, "atomic_value: TAGRV_TEST_SEED=%llu\n", (unsigned long long) seed);
}

/* Cells of one kind; returns how many there are. */
static int try_all(unsigned kind)
{
	int cells = 0;

	set_seed();
	for (unsigned datatype = 0; datatype < MODEL_DATATYPES; datatype++) {
		struct cell cell = { kind, 0, datatype, tagrv_atomic_size(datatype) };

		if (!cell.size)
			continue;
		for (unsigned i = 0; i < MODEL_VALUES; i++)
			model_value(datatype, i, seed, values[i]);
		for (; cell.op < MODEL_OPS; cell.op++)
			if (tagrv_atomic_is_valid(kind, cell.op, datatype)) {
				try_cell(&cell);
				cells++;
			}
	}
	return cells;
}

#ifdef __SIZEOF_INT128__
#define INTEGERS	10
#else
#define INTEGERS	8
#endif
#define REALS		(INTEGERS + 3)
#define ALL		(INTEGERS + 6)
#define CHANGES		(2 * REALS + 6 * ALL + 3 * INTEGERS)

TestSuite(atomic_value, .timeout = 60);

Test(atomic_value, base_operations_are_those_of_the_manual)
{
	cr_expect_eq(try_all(TAGRV_ATOMIC_BASE), CHANGES);
}

Test(atomic_value, fetching_operations_are_those_of_the_manual)
{
	cr_expect_eq(try_all(TAGRV_ATOMIC_FETCH), CHANGES + ALL);
}

Test(atomic_value, comparing_operations_are_those_of_the_manual)
{
	cr_expect_eq(try_all(TAGRV_ATOMIC_COMPARE), 2 * ALL + 4 * REALS + INTEGERS);
}

/* ---- by hand ---- */

/* The new value of 'value', which has the type that 'datatype' names. */
#define CHANGED(op, datatype, type, value, operand) ({				\
	type a_ = (value), b_ = (operand);					\
										\
	tagrv_atomic_apply(TAGRV_ATOMIC_BASE, op, datatype, &a_, &b_, NULL, NULL, 1); \
	a_; })
#define SWAPPED(op, datatype, type, value, operand, compare) ({			\
	type a_ = (value), b_ = (operand), c_ = (compare), r_;			\
										\
	tagrv_atomic_apply(TAGRV_ATOMIC_COMPARE, op, datatype, &a_, &b_, &c_, &r_, 1); \
	a_; })

Test(atomic_value, integers_wrap_around)
{
	cr_expect_eq(CHANGED(FI_SUM, FI_INT8, int8_t, 127, 1), -128);
	cr_expect_eq(CHANGED(FI_SUM, FI_UINT8, uint8_t, 255, 2), 1);
	cr_expect_eq(CHANGED(FI_PROD, FI_UINT16, uint16_t, 65535, 65535), 1);
	cr_expect_eq(CHANGED(FI_PROD, FI_INT16, int16_t, -32768, -1), -32768);
	cr_expect_eq(CHANGED(FI_SUM, FI_INT32, int32_t, INT32_MAX, 1), INT32_MIN);
	cr_expect_eq(CHANGED(FI_PROD, FI_INT64, int64_t, INT64_MIN, -1), INT64_MIN);
	cr_expect_eq(CHANGED(FI_SUM, FI_UINT64, uint64_t, UINT64_MAX, 3), 2);
}

Test(atomic_value, signs_matter_in_order_alone)
{
	cr_expect_eq(CHANGED(FI_MIN, FI_INT8, int8_t, 1, -1), -1);
	cr_expect_eq(CHANGED(FI_MIN, FI_UINT8, uint8_t, 1, 255), 1);
	cr_expect_eq(CHANGED(FI_MAX, FI_INT64, int64_t, -5, -7), -5);
	cr_expect_eq(CHANGED(FI_MAX, FI_UINT32, uint32_t, 5, 0x80000000), 0x80000000);
	cr_expect_eq(SWAPPED(FI_CSWAP_LT, FI_INT16, int16_t, 0, 9, -1), 9);
	cr_expect_eq(SWAPPED(FI_CSWAP_LT, FI_UINT16, uint16_t, 0, 9, 65535), 0);
	cr_expect_eq(SWAPPED(FI_CSWAP_GE, FI_INT32, int32_t, 4, 9, 4), 9);
	cr_expect_eq(SWAPPED(FI_CSWAP_GT, FI_INT32, int32_t, 4, 9, 4), 4);
}

Test(atomic_value, truth_is_one_or_zero)
{
	cr_expect_eq(CHANGED(FI_LOR, FI_UINT16, uint16_t, 0x100, 0), 1);
	cr_expect_eq(CHANGED(FI_LAND, FI_UINT32, uint32_t, 0x10000, 2), 1);
	cr_expect_eq(CHANGED(FI_LXOR, FI_INT64, int64_t, 1LL << 40, 5), 0);
	cr_expect_eq(CHANGED(FI_LOR, FI_DOUBLE, double, -0.0, 0), 0);
	cr_expect_eq(CHANGED(FI_LAND, FI_FLOAT, float, 0.5f, NAN), 1);
	cr_expect_eq(CHANGED(FI_LXOR, FI_DOUBLE_COMPLEX, double complex, 2 * I, 0), 1);
}

Test(atomic_value, bits_are_chosen_by_the_mask)
{
	cr_expect_eq(SWAPPED(FI_MSWAP, FI_UINT32, uint32_t, 0x11223344, 0xaabbccdd, 0xff00ff),
		     0x11bb33dd);
	cr_expect_eq(CHANGED(FI_BXOR, FI_UINT8, uint8_t, 0xf0, 0xaa), 0x5a);
}

Test(atomic_value, floats_are_compared_as_numbers)
{
	cr_expect_eq(SWAPPED(FI_CSWAP, FI_DOUBLE, double, 0.0, 9, -0.0), 9);
	cr_expect(isnan(SWAPPED(FI_CSWAP, FI_FLOAT, float, NAN, 9, NAN)));
	cr_expect_eq(SWAPPED(FI_CSWAP_NE, FI_FLOAT, float, NAN, 9, NAN), 9);
	cr_expect_eq(CHANGED(FI_MIN, FI_DOUBLE, double, 3, NAN), 3);
	cr_expect(isnan(CHANGED(FI_MAX, FI_DOUBLE, double, NAN, 3)));
}

Test(atomic_value, complex_numbers_have_two_parts)
{
	cr_expect(CHANGED(FI_PROD, FI_FLOAT_COMPLEX, float complex, 1 + 2 * I, 3 + 4 * I) ==
		  -5 + 10 * I);
	cr_expect(CHANGED(FI_PROD, FI_LONG_DOUBLE_COMPLEX, long double complex, 2 * I, 2 * I) ==
		  -4);
	cr_expect(CHANGED(FI_SUM, FI_DOUBLE_COMPLEX, double complex, 1 + 2 * I, 3 + 4 * I) ==
		  4 + 6 * I);
	cr_expect(SWAPPED(FI_CSWAP, FI_DOUBLE_COMPLEX, double complex, 1 + 2 * I, 7, 1) ==
		  1 + 2 * I);
}

#ifdef __SIZEOF_INT128__
Test(atomic_value, integers_of_128_bits_are_whole)
{
	__extension__ typedef unsigned __int128 uint128;
	__extension__ typedef __int128 int128;
	uint128 high = (uint128) 1 << 64;

	cr_expect(CHANGED(FI_SUM, FI_UINT128, uint128, UINT64_MAX, 1) == high);
	cr_expect(CHANGED(FI_PROD, FI_UINT128, uint128, 1ULL << 63, 2) == high);
	cr_expect(CHANGED(FI_LAND, FI_UINT128, uint128, high, 1) == 1);
	cr_expect(CHANGED(FI_BOR, FI_INT128, int128, high, 1) == (int128) (high + 1));
	cr_expect(CHANGED(FI_MIN, FI_INT128, int128, 0, -1) == -1);
	cr_expect(CHANGED(FI_MIN, FI_UINT128, uint128, 0, (uint128) -1) == 0);
}
#endif
