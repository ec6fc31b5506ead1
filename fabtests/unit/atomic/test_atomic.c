/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * atomic.c: which operations there are, and how they are applied to arrays at any address.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "atomic/atomic.h"
#include "core/compiler.h"
#include "unit/atomic/atomic_model.h"

TestSuite(atomic, .timeout = 20);

/* ---- what there is ---- */

#ifdef __SIZEOF_INT128__
#define INT128_BYTES	16
#define INT128_COLUMNS	"xx"
#else
#define INT128_BYTES	0
#define INT128_COLUMNS	".."
#endif

Test(atomic, sizes_are_those_of_the_types)
{
	static const size_t sizes[MODEL_DATATYPES] = {
		1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, sizeof(long double),
		2 * sizeof(long double), INT128_BYTES, INT128_BYTES,
	};

	for (unsigned d = 0; d < 400; d++)
		cr_expect_eq(tagrv_atomic_size(d), d < MODEL_DATATYPES ? sizes[d] : 0,
			     "datatype %u", d);
	cr_expect_eq(tagrv_atomic_size(FI_VOID), 0);
	cr_expect_eq(tagrv_atomic_size(UINT32_MAX), 0);
}

/* Datatypes in the order of their numbers: 8 integers, float, double, the complex ones of
 * both, long double, its complex one, 2 integers of 128 bits. */
#define REALS		"xxxxxxxxxx..x." INT128_COLUMNS
#define INTEGERS	"xxxxxxxx......" INT128_COLUMNS
#define ALL		"xxxxxxxxxxxxxx" INT128_COLUMNS

static const struct {
	unsigned op;
	bool kinds[TAGRV_ATOMIC_KINDS];	/* base, fetch, compare */
	const char *datatypes;
} table[MODEL_OPS] = {
	{ FI_MIN, { true, true, false }, REALS },
	{ FI_MAX, { true, true, false }, REALS },
	{ FI_SUM, { true, true, false }, ALL },
	{ FI_PROD, { true, true, false }, ALL },
	{ FI_LOR, { true, true, false }, ALL },
	{ FI_LAND, { true, true, false }, ALL },
	{ FI_BOR, { true, true, false }, INTEGERS },
	{ FI_BAND, { true, true, false }, INTEGERS },
	{ FI_LXOR, { true, true, false }, ALL },
	{ FI_BXOR, { true, true, false }, INTEGERS },
	{ FI_ATOMIC_READ, { false, true, false }, ALL },
	{ FI_ATOMIC_WRITE, { true, true, false }, ALL },
	{ FI_CSWAP, { false, false, true }, ALL },
	{ FI_CSWAP_NE, { false, false, true }, ALL },
	{ FI_CSWAP_LE, { false, false, true }, REALS },
	{ FI_CSWAP_LT, { false, false, true }, REALS },
	{ FI_CSWAP_GE, { false, false, true }, REALS },
	{ FI_CSWAP_GT, { false, false, true }, REALS },
	{ FI_MSWAP, { false, false, true }, INTEGERS },
};

static bool is_in_table(unsigned kind, unsigned op, unsigned datatype)
{
	for (unsigned i = 0; i < MODEL_OPS; i++)
		if (table[i].op == op)
			return kind < TAGRV_ATOMIC_KINDS && table[i].kinds[kind] &&
			       datatype < MODEL_DATATYPES &&
			       table[i].datatypes[datatype] == 'x';
	return false;
}

/* The numbers beyond the table include FI_DIFF, FI_NOOP, and the floats of 8 and 16 bits. */
Test(atomic, valid_are_the_cells_of_the_table_alone)
{
	for (unsigned kind = 0; kind < 6; kind++)
		for (unsigned op = 0; op < 300; op++)
			for (unsigned datatype = 0; datatype < 300; datatype++)
				if (tagrv_atomic_is_valid(kind, op, datatype) !=
				    is_in_table(kind, op, datatype))
					cr_assert_fail("kind %u, op %u, datatype %u", kind, op,
						       datatype);
}

Test(atomic, any_number_may_be_asked_for)
{
	static const unsigned odd[] = { 32, 64, 256, 1u << 31, UINT32_MAX };

	for (unsigned i = 0; i < TAGRV_ARRAY_SIZE(odd); i++) {
		cr_expect_not(tagrv_atomic_is_valid(odd[i], FI_SUM, FI_UINT64));
		cr_expect_not(tagrv_atomic_is_valid(TAGRV_ATOMIC_BASE, odd[i], FI_UINT64));
		cr_expect_not(tagrv_atomic_is_valid(TAGRV_ATOMIC_BASE, FI_SUM, odd[i]));
	}
}

/* ---- arrays ---- */

#define COUNT	7
#define ROOM	64	/* untouched bytes before and behind each array */

/* An array with room for elements of any size at any alignment. */
struct array {
	_Alignas(64) char bytes[ROOM + COUNT * MODEL_BYTES + ROOM];
};

static struct array target, operand, compare, result, before;

static void *at(struct array *array, size_t shift)
{
	return array->bytes + ROOM + shift;
}

static void fill(struct array *array, unsigned datatype, size_t shift, unsigned first)
{
	size_t size = tagrv_atomic_size(datatype);

	memset(array->bytes, 0x5a, sizeof(array->bytes));
	for (unsigned i = 0; i < COUNT; i++)
		model_value(datatype, (first + i * 5) % MODEL_VALUES, 1,
			    (char *) at(array, shift) + i * size);
}

static void check_untouched(struct array *array, size_t size, size_t shift)
{
	char *begin = at(array, shift), *end = begin + COUNT * size;

	for (char *byte = array->bytes; byte < array->bytes + sizeof(array->bytes); byte++)
		if ((byte < begin || byte >= end) && *byte != 0x5a)
			cr_assert_fail("a byte beside the array was changed");
}

/* Elements of the target must be what the model makes of them. */
static void check_elements(unsigned op, unsigned datatype, size_t shift)
{
	size_t size = tagrv_atomic_size(datatype);

	for (size_t i = 0; i < COUNT; i++) {
		char *was = (char *) at(&before, shift) + i * size;

		if (result.bytes[0])
			cr_expect_arr_eq((char *) at(&result, 1) + i * size, was, size);
		model_apply(op, datatype, was, (char *) at(&operand, 3) + i * size,
			    (char *) at(&compare, 5) + i * size);
		cr_expect(model_same(datatype, (char *) at(&target, shift) + i * size, was),
			  "op %u, datatype %u, element %zu, shift %zu", op, datatype, i, shift);
	}
}

static void try_array(unsigned kind, unsigned op, unsigned datatype, size_t shift)
{
	size_t size = tagrv_atomic_size(datatype);
	bool fetches = kind != TAGRV_ATOMIC_BASE;

	fill(&target, datatype, shift, 0);
	fill(&operand, datatype, 3, 7);
	fill(&compare, datatype, 5, 10);
	memcpy(&before, &target, sizeof(target));
	memset(&result, fetches ? 0x5a : 0, sizeof(result));
	tagrv_atomic_apply(kind, op, datatype, at(&target, shift),
			   op == FI_ATOMIC_READ ? NULL : at(&operand, 3),
			   kind == TAGRV_ATOMIC_COMPARE ? at(&compare, 5) : NULL,
			   fetches ? at(&result, 1) : NULL, COUNT);
	check_untouched(&target, size, shift);
	if (fetches)
		check_untouched(&result, size, 1);
	check_elements(op, datatype, shift);
}

Test(atomic, each_element_has_its_operand_and_result_at_any_alignment)
{
	for (unsigned kind = 0; kind < TAGRV_ATOMIC_KINDS; kind++)
		for (unsigned op = 0; op < MODEL_OPS; op++)
			for (unsigned datatype = 0; datatype < MODEL_DATATYPES; datatype++)
				for (size_t shift = 0; shift < 17; shift++)
					if (tagrv_atomic_is_valid(kind, op, datatype))
						try_array(kind, op, datatype, shift);
}

Test(atomic, result_may_take_the_place_of_the_operand)
{
	uint32_t sums[] = { 1, 2, 3 }, both[] = { 10, 20, 30 };
	uint64_t swap[] = { 1, 2 }, with[] = { 8, 9 }, if_equal[] = { 1, 1 };

	tagrv_atomic_apply(TAGRV_ATOMIC_FETCH, FI_SUM, FI_UINT32, sums, both, NULL, both, 3);
	cr_expect_arr_eq(sums, ((uint32_t []) { 11, 22, 33 }), sizeof(sums));
	cr_expect_arr_eq(both, ((uint32_t []) { 1, 2, 3 }), sizeof(both));
	tagrv_atomic_apply(TAGRV_ATOMIC_COMPARE, FI_CSWAP, FI_UINT64, swap, with, if_equal,
			   if_equal, 2);
	cr_expect_arr_eq(swap, ((uint64_t []) { 8, 2 }), sizeof(swap));
	cr_expect_arr_eq(if_equal, ((uint64_t []) { 1, 2 }), sizeof(if_equal));
}

Test(atomic, no_element_is_nothing)
{
	tagrv_atomic_apply(TAGRV_ATOMIC_FETCH, FI_SUM, FI_UINT64, NULL, NULL, NULL, NULL, 0);
}

/* A window that peers may only read may be memory that nobody may write. */
Test(atomic, reads_write_nothing)
{
	long page = sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, (size_t) page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char got[MODEL_BYTES], zero[MODEL_BYTES] = { 0 };

	cr_assert(memory != MAP_FAILED);
	for (unsigned datatype = 0; datatype < MODEL_DATATYPES; datatype++)
		for (int shift = 0; shift < 2; shift++) {
			if (!tagrv_atomic_size(datatype))
				continue;
			memset(got, 1, sizeof(got));
			tagrv_atomic_apply(TAGRV_ATOMIC_FETCH, FI_ATOMIC_READ, datatype,
					   memory + shift, NULL, NULL, got, 1);
			cr_expect_arr_eq(got, zero, tagrv_atomic_size(datatype));
		}
	munmap(memory, (size_t) page);
}
