/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The model of atomic operations: see arithmetic.h.
 */
#include "arithmetic.h"
#include "pattern.h"

#include <complex.h>
#include <float.h>
#include <stdint.h>
#include <string.h>

enum class { NONE, INTEGER, REAL, COMPLEX };

typedef float complex float_complex;
typedef double complex double_complex;
typedef long double long_double;
typedef long double complex long_double_complex;

/* Integers wrap around: signed ones are computed as unsigned ones, but compared as signed. */
#ifdef __SIZEOF_INT128__
typedef __int128 int128;
typedef unsigned __int128 uint128;
#define INTEGERS_128(X) X(INT128, int128, uint128) X(UINT128, uint128, uint128)
#else
#define INTEGERS_128(X)
#endif

#define INTEGERS(X)                                                                                \
	X(INT8, int8_t, uint8_t)                                                                   \
	X(UINT8, uint8_t, uint8_t)                                                                 \
	X(INT16, int16_t, uint16_t)                                                                \
	X(UINT16, uint16_t, uint16_t)                                                              \
	X(INT32, int32_t, uint32_t)                                                                \
	X(UINT32, uint32_t, uint32_t)                                                              \
	X(INT64, int64_t, uint64_t)                                                                \
	X(UINT64, uint64_t, uint64_t)                                                              \
	INTEGERS_128(X)
#define REALS(X)                                                                                   \
	X(FLOAT, float, float)                                                                     \
	X(DOUBLE, double, double)                                                                  \
	X(LONG_DOUBLE, long_double, long_double)
#define COMPLEXES(X)                                                                               \
	X(FLOAT_COMPLEX, float_complex, float_complex)                                             \
	X(DOUBLE_COMPLEX, double_complex, double_complex)                                          \
	X(LONG_DOUBLE_COMPLEX, long_double_complex, long_double_complex)

static const struct type {
	const char *name;
	size_t size;
	enum class class;
} types[ARITHMETIC_TYPES] = {
#define ROW(NAME, type, wide) [FI_##NAME] = { #NAME, sizeof(type), CLASS },
#define CLASS INTEGER
	INTEGERS(ROW)
#undef CLASS
#define CLASS REAL
	REALS(ROW)
#undef CLASS
#define CLASS COMPLEX
	COMPLEXES(ROW)
#undef CLASS
#undef ROW
};

static enum class class_of(unsigned type)
{
	return type < ARITHMETIC_TYPES ? types[type].class : NONE;
}

size_t arithmetic_size(unsigned type)
{
	return type < ARITHMETIC_TYPES ? types[type].size : 0;
}

bool arithmetic_is_integer(unsigned type)
{
	return class_of(type) == INTEGER;
}

bool arithmetic_is_update(unsigned op, unsigned type)
{
	switch (op) {
	case FI_SUM:
	case FI_PROD:
	case FI_LOR:
	case FI_LAND:
	case FI_LXOR:
	case FI_ATOMIC_WRITE:
		return class_of(type) != NONE;
	case FI_MIN:
	case FI_MAX:
		return class_of(type) == INTEGER || class_of(type) == REAL;
	case FI_BOR:
	case FI_BAND:
	case FI_BXOR:
		return class_of(type) == INTEGER;
	default:
		return false;
	}
}

bool arithmetic_is_compare(unsigned op, unsigned type)
{
	switch (op) {
	case FI_CSWAP:
	case FI_CSWAP_NE:
		return class_of(type) != NONE;
	case FI_CSWAP_LE:
	case FI_CSWAP_LT:
	case FI_CSWAP_GE:
	case FI_CSWAP_GT:
		return class_of(type) == INTEGER || class_of(type) == REAL;
	case FI_MSWAP:
		return class_of(type) == INTEGER;
	default:
		return false;
	}
}

/* Cases that types of every class have: 'a' is the target, 'b' the operand, 'c' compares. */
#define COMMON_CASES(type, wide)                                                                   \
	case FI_SUM: return (type)((wide)a + (wide)b);                                             \
	case FI_LOR: return a != 0 || b != 0;                                                      \
	case FI_LAND: return a != 0 && b != 0;                                                     \
	case FI_LXOR: return (a != 0) != (b != 0);                                                 \
	case FI_ATOMIC_WRITE: return b;                                                            \
	case FI_CSWAP: return c == a ? b : a;                                                      \
	case FI_CSWAP_NE: return c != a ? b : a;

#define ORDERED_CASES                                                                              \
	case FI_MIN: return b < a ? b : a;                                                         \
	case FI_MAX: return b > a ? b : a;                                                         \
	case FI_CSWAP_LE: return c <= a ? b : a;                                                   \
	case FI_CSWAP_LT: return c < a ? b : a;                                                    \
	case FI_CSWAP_GE: return c >= a ? b : a;                                                   \
	case FI_CSWAP_GT: return c > a ? b : a;

/* Twice 1: a product of two uint16_t would be one of int, which may overflow. */
#define INTEGER_CASES(type, wide)                                                                  \
	case FI_PROD: return (type)(1U * (wide)a * (wide)b);                                       \
	case FI_BOR: return (type)(a | b);                                                         \
	case FI_BAND: return (type)(a & b);                                                        \
	case FI_BXOR: return (type)(a ^ b);                                                        \
	case FI_MSWAP: return (type)((b & c) | (a & ~c));

#define DEFINE(NAME, type, CASES)                                                                  \
	static type compute_##NAME(unsigned op, type a, type b, type c)                            \
	{                                                                                          \
		switch (op) {                                                                      \
			CASES                                                                      \
		default:                                                                           \
			return a;                                                                  \
		}                                                                                  \
	}                                                                                          \
												   \
	static void apply_##NAME(unsigned op, char *target, const char *operand,                   \
				 const char *compare)                                              \
	{                                                                                          \
		type a, b = 0, c = 0;                                                              \
												   \
		memcpy(&a, target, sizeof(a));                                                     \
		if (operand)                                                                       \
			memcpy(&b, operand, sizeof(b));                                            \
		if (compare)                                                                       \
			memcpy(&c, compare, sizeof(c));                                            \
		a = compute_##NAME(op, a, b, c);                                                   \
		memcpy(target, &a, sizeof(a));                                                     \
	}                                                                                          \
												   \
	static bool same_##NAME(const char *left, const char *right)                               \
	{                                                                                          \
		type a, b;                                                                         \
												   \
		memcpy(&a, left, sizeof(a));                                                       \
		memcpy(&b, right, sizeof(b));                                                      \
		return a == b;                                                                     \
	}

#define DEFINE_SMALL(NAME, type, wide)                                                            \
	static bool small_##NAME(const char *from)                                                 \
	{                                                                                          \
		type a;                                                                            \
												   \
		memcpy(&a, from, sizeof(a));                                                       \
		return IS_SMALL(creal(a)) && IS_SMALL(cimag(a));                                   \
	}

/* Not for values that are no number. */
#define IS_SMALL(value) ((value) > -1e5 && (value) < 1e5)

#define DEFINE_INTEGER(NAME, type, wide)                                                           \
	DEFINE(NAME, type, COMMON_CASES(type, wide) ORDERED_CASES INTEGER_CASES(type, wide))
#define DEFINE_REAL(NAME, type, wide)                                                              \
	DEFINE(NAME, type, COMMON_CASES(type, wide) ORDERED_CASES case FI_PROD: return a * b;)
#define DEFINE_COMPLEX(NAME, type, wide)                                                           \
	DEFINE(NAME, type, COMMON_CASES(type, wide) case FI_PROD: return a * b;)

INTEGERS(DEFINE_INTEGER)
REALS(DEFINE_REAL)
COMPLEXES(DEFINE_COMPLEX)
REALS(DEFINE_SMALL)
COMPLEXES(DEFINE_SMALL)

static const struct functions {
	void (*apply)(unsigned op, char *target, const char *operand, const char *compare);
	bool (*same)(const char *left, const char *right);
	bool (*small)(const char *from);	/* NULL: always */
} functions[ARITHMETIC_TYPES] = {
#define ROW(NAME, type, wide) [FI_##NAME] = { apply_##NAME, same_##NAME, NULL },
	INTEGERS(ROW)
#undef ROW
#define ROW(NAME, type, wide) [FI_##NAME] = { apply_##NAME, same_##NAME, small_##NAME },
	REALS(ROW)
	COMPLEXES(ROW)
#undef ROW
};

void arithmetic_apply(unsigned op, unsigned type, void *target, const void *operand,
		      const void *compare, size_t count)
{
	size_t size = types[type].size;

	for (size_t at = 0; at < count * size; at += size)
		functions[type].apply(op, (char *)target + at,
				      operand ? (const char *)operand + at : NULL,
				      compare ? (const char *)compare + at : NULL);
}

bool arithmetic_same(unsigned type, const void *a, const void *b, size_t count)
{
	size_t size = types[type].size;

	for (size_t at = 0; at < count * size; at += size)
		if (!functions[type].same((const char *)a + at, (const char *)b + at))
			return false;
	return true;
}

bool arithmetic_is_small(unsigned type, const void *buf, size_t count)
{
	size_t size = types[type].size;

	for (size_t at = 0; functions[type].small && at < count * size; at += size)
		if (!functions[type].small((const char *)buf + at))
			return false;
	return true;
}

static void fill_one(unsigned type, void *to, int re, int im)
{
	switch (type) {
#define FILL(NAME, type, wide)                                                                     \
	case FI_##NAME:                                                                            \
		memcpy(to, &(type){ (type)re }, sizeof(type));                                     \
		break;
#define FILL_COMPLEX(NAME, type, wide)                                                             \
	case FI_##NAME:                                                                            \
		memcpy(to, &(type){ re + im * (type)I }, sizeof(type));                            \
		break;
		INTEGERS(FILL)
		REALS(FILL)
		COMPLEXES(FILL_COMPLEX)
#undef FILL
#undef FILL_COMPLEX
	}
}

void arithmetic_fill(unsigned type, void *buf, size_t count, uint64_t seed)
{
	size_t size = types[type].size;

	memset(buf, 0, count * size);
	for (size_t i = 0; i < count; i++) {
		uint64_t r = pattern_next(&seed);
		int re = 1 + (int)(r % 60), im = 1 + (int)(r >> 8 & 31);

		fill_one(type, (char *)buf + i * size, r >> 16 & 1 ? re : -re,
			 r >> 17 & 1 ? im : -im);
	}
}

const char *arithmetic_type_name(unsigned type)
{
	return class_of(type) == NONE ? "?" : types[type].name;
}

const char *arithmetic_op_name(unsigned op)
{
	static const char *const name[ARITHMETIC_OPS] = {
		[FI_MIN] = "MIN", [FI_MAX] = "MAX", [FI_SUM] = "SUM", [FI_PROD] = "PROD",
		[FI_LOR] = "LOR", [FI_LAND] = "LAND", [FI_BOR] = "BOR", [FI_BAND] = "BAND",
		[FI_LXOR] = "LXOR", [FI_BXOR] = "BXOR", [FI_ATOMIC_READ] = "READ",
		[FI_ATOMIC_WRITE] = "WRITE", [FI_CSWAP] = "CSWAP", [FI_CSWAP_NE] = "CSWAP_NE",
		[FI_CSWAP_LE] = "CSWAP_LE", [FI_CSWAP_LT] = "CSWAP_LT", [FI_CSWAP_GE] = "CSWAP_GE",
		[FI_CSWAP_GT] = "CSWAP_GT", [FI_MSWAP] = "MSWAP",
	};

	return op < ARITHMETIC_OPS ? name[op] : "?";
}
