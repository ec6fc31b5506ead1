/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic_word.c: no change of an aligned element is lost while other threads, and the
 * application by its own instructions, change it, too.
 */
#include <stdlib.h>

#include "core/compiler.h"
#include "unit/atomic/atomic_threads.h"

union word {
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	double d;
};

static union word word;
/* What the threads use, of those below. */
static unsigned datatype;

static const unsigned datatypes[] = { FI_UINT8, FI_UINT16, FI_UINT32, FI_UINT64 };

/* A number as an element of the datatype. */
static union word element(uint64_t number)
{
	switch (datatype) {
	case FI_UINT8:
		return (union word) { .u8 = (uint8_t) number };
	case FI_UINT16:
		return (union word) { .u16 = (uint16_t) number };
	case FI_UINT32:
		return (union word) { .u32 = (uint32_t) number };
	default:
		return (union word) { .u64 = number };
	}
}

/* Runs a body for each datatype; the word is 0 when it begins, and must be 'end' then. */
static void with_each_datatype(void (*body)(int thread), uint64_t end)
{
	for (unsigned i = 0; i < TAGRV_ARRAY_SIZE(datatypes); i++) {
		datatype = datatypes[i];
		word.u64 = 0;
		in_threads(body);
		cr_expect_eq(word.u64, element(end).u64, "datatype %u", datatype);
	}
}

TestSuite(atomic_word, .timeout = 60);

/* ---- sums ---- */

static void add_ones(int thread)
{
	union word one = element(1);

	(void) thread;
	for (int i = 0; i < ROUNDS; i++)
		change(FI_SUM, datatype, &word, &one);
}

Test(atomic_word, sums_of_threads_are_complete)
{
	with_each_datatype(add_ones, THREADS * ROUNDS);
}

static void add_in_two_ways(int thread)
{
	for (int i = 0; i < ROUNDS; i++)
		if (thread % 2)
			__atomic_fetch_add(&word.u64, 1, __ATOMIC_RELAXED);
		else
			change(FI_SUM, FI_INT64, &word, &(int64_t) { 1 });
}

Test(atomic_word, the_application_may_change_it_too)
{
	in_threads(add_in_two_ways);
	cr_expect_eq(word.u64, THREADS * ROUNDS);
}

static void add_to_double(int thread)
{
	double one = 1;

	(void) thread;
	for (int i = 0; i < ROUNDS; i++)
		change(FI_SUM, FI_DOUBLE, &word, &one);
}

Test(atomic_word, sums_of_floats_are_complete)
{
	in_threads(add_to_double);
	cr_expect_eq(word.d, THREADS * ROUNDS);
}

/* 3 is odd, so that no factor is lost in the bits that a product drops. */
static void multiply_u16(int thread)
{
	uint16_t three = 3;

	(void) thread;
	for (int i = 0; i < ROUNDS; i++)
		change(FI_PROD, FI_UINT16, &word, &three);
}

Test(atomic_word, products_are_complete)
{
	uint16_t wanted = 1;

	for (int i = 0; i < THREADS * ROUNDS; i++)
		wanted = (uint16_t) (wanted * 3u);
	word.u16 = 1;
	in_threads(multiply_u16);
	cr_expect_eq(word.u16, wanted);
}

/* ---- results ---- */

static uint32_t tickets[THREADS * ROUNDS];

static void draw_tickets(int thread)
{
	uint32_t one = 1;

	for (int i = 0; i < ROUNDS; i++)
		fetch(FI_SUM, FI_UINT32, &word, &one, &tickets[thread * ROUNDS + i]);
}

static int compare_tickets(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *) a, y = *(const uint32_t *) b;

	return x < y ? -1 : x > y;
}

Test(atomic_word, each_former_value_is_seen_once)
{
	in_threads(draw_tickets);
	qsort(tickets, THREADS * ROUNDS, sizeof(tickets[0]), compare_tickets);
	for (uint32_t i = 0; i < THREADS * ROUNDS; i++)
		cr_assert_eq(tickets[i], i);
}

static void count_by_swaps(int thread)
{
	uint64_t seen = 0, found, next;

	(void) thread;
	for (int i = 0; i < ROUNDS; i++)
		for (;; seen = found) {
			next = seen + 1;
			swap(FI_CSWAP, FI_UINT64, &word, &next, &seen, &found);
			if (found == seen)
				break;
		}
}

Test(atomic_word, counting_by_compare_and_swap_misses_nothing)
{
	in_threads(count_by_swaps);
	cr_expect_eq(word.u64, THREADS * ROUNDS);
}

/* ---- bits ---- */

/* Each thread has one byte of the word, and must find there what it left. */
static void keep_a_byte(int thread)
{
	uint32_t mask = 0xffu << 8 * thread, left = 0, found, next;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		next = i * 0x01010101u;
		swap(FI_MSWAP, FI_UINT32, &word, &next, &mask, &found);
		cr_assert_eq(found & mask, left & mask);
		left = next;
	}
}

Test(atomic_word, masked_swaps_leave_the_other_bits)
{
	in_threads(keep_a_byte);
}

static void flip(unsigned op, union word with, union word bit, bool was_set)
{
	union word found = { .u64 = 0 };

	fetch(op, datatype, &word, &with, &found);
	cr_assert_eq((found.u64 & bit.u64) != 0, was_set);
}

/* Each thread sets and clears one bit, and must find it as it left it. */
static void flip_a_bit(int thread)
{
	union word bit = element(1u << thread), others = element(~(1ull << thread));

	for (int i = 0; i < ROUNDS; i++) {
		flip(FI_BOR, bit, bit, false);
		flip(FI_BAND, others, bit, true);
		flip(FI_BXOR, bit, bit, false);
		flip(FI_BXOR, bit, bit, true);
	}
}

Test(atomic_word, bits_of_threads_do_not_mix)
{
	with_each_datatype(flip_a_bit, 0);
}
