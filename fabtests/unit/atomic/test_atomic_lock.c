/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic_lock.c: no change of an element that is wide or misaligned is lost while other
 * threads change it or its neighbours.
 */
#include <complex.h>
#include <string.h>

#include "unit/atomic/atomic_threads.h"

static _Alignas(64) char memory[256];

TestSuite(atomic_lock, .timeout = 60);

/* ---- misaligned elements ---- */

#define MISALIGNED	(memory + 61)	/* of 8 bytes, in two cache lines */

static void add_to_misaligned(int thread)
{
	uint64_t one = 1;

	(void) thread;
	for (int i = 0; i < ROUNDS; i++)
		change(FI_SUM, FI_UINT64, MISALIGNED, &one);
}

static void check_misaligned(void)
{
	uint64_t total;

	memcpy(&total, MISALIGNED, sizeof(total));
	cr_expect_eq(total, THREADS * ROUNDS);
}

Test(atomic_lock, sums_in_a_misaligned_word_are_complete)
{
	in_threads(add_to_misaligned);
	check_misaligned();
}

static void count_by_swaps(int thread)
{
	uint64_t seen = 0, found, next;

	(void) thread;
	for (int i = 0; i < ROUNDS; i++)
		for (;; seen = found) {
			next = seen + 1;
			swap(FI_CSWAP, FI_UINT64, MISALIGNED, &next, &seen, &found);
			if (found == seen)
				break;
		}
}

Test(atomic_lock, counting_by_compare_and_swap_misses_nothing)
{
	in_threads(count_by_swaps);
	check_misaligned();
}

/* Elements of 4 bytes without gaps, an odd number of bytes behind the begin. */
static void add_to_neighbours(int thread)
{
	uint32_t ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

	(void) thread;
	for (int i = 0; i < ROUNDS; i++)
		tagrv_atomic_apply(TAGRV_ATOMIC_BASE, FI_SUM, FI_UINT32, memory + 3, ones, NULL,
				   NULL, 8);
}

Test(atomic_lock, neighbours_do_not_disturb_each_other)
{
	uint32_t totals[8];

	in_threads(add_to_neighbours);
	memcpy(totals, memory + 3, sizeof(totals));
	for (int i = 0; i < 8; i++)
		cr_expect_eq(totals[i], THREADS * ROUNDS);
}

/* ---- wide elements ---- */

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 uint128;

/* The sum has bits of both words, and carries from one to the other. */
#define TERM	(((uint128) 1 << 64) - 1)

static void add_to_u128(int thread)
{
	uint128 term = TERM;

	(void) thread;
	for (int i = 0; i < ROUNDS; i++)
		change(FI_SUM, FI_UINT128, memory, &term);
}

Test(atomic_lock, sums_of_128_bits_are_complete)
{
	uint128 total;

	in_threads(add_to_u128);
	memcpy(&total, memory, sizeof(total));
	cr_expect(total == TERM * THREADS * ROUNDS);
}
#endif

static void add_to_complex(int thread)
{
	long double complex term = 1 + 2 * I, found;

	(void) thread;
	for (int i = 0; i < ROUNDS; i++) {
		fetch(FI_SUM, FI_LONG_DOUBLE_COMPLEX, memory, &term, &found);
		cr_assert(cimagl(found) == 2 * creall(found));
	}
}

Test(atomic_lock, both_parts_of_a_complex_number_change_at_once)
{
	long double complex total;

	in_threads(add_to_complex);
	memcpy(&total, memory, sizeof(total));
	cr_expect(total == THREADS * ROUNDS * (1 + 2 * (long double complex) I));
}

/* One writes two equal parts again and again; nobody may read unequal ones. */
static void write_or_read(int thread)
{
	double complex mine = 0, found;

	for (int i = 0; i < ROUNDS; i++)
		if (thread) {
			fetch(FI_ATOMIC_READ, FI_DOUBLE_COMPLEX, memory, NULL, &found);
			cr_assert(creal(found) == cimag(found));
		} else {
			mine += 1 + I;
			change(FI_ATOMIC_WRITE, FI_DOUBLE_COMPLEX, memory, &mine);
		}
}

Test(atomic_lock, reads_see_whole_values)
{
	in_threads(write_or_read);
}
