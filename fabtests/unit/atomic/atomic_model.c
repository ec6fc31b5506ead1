/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * See atomic_model.h. Sums and products of integers are computed bit by bit, so that they
 * are not what the compiler makes of the provider's.
 */
#include "unit/atomic/atomic_model.h"

#include <complex.h>
#include <float.h>
#include <math.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <string.h>

#include "core/compiler.h"

#ifdef __SIZEOF_INT128__
__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 wide;
#else
typedef uint64_t wide;
#endif

#define WIDE_BITS	(sizeof(wide) * 8)

/* ---- operations ---- */

static wide plus(wide a, wide b)
{
	while (b) {
		wide carry = a & b;

		a ^= b;
		b = carry << 1;
	}
	return a;
}

static wide times(wide a, wide b)
{
	wide sum = 0;

	for (unsigned i = 0; i < WIDE_BITS; i++)
		if (b >> i & 1)
			sum = plus(sum, a << i);
	return sum;
}

#define ANY(type, sum, product)							\
	case FI_SUM:		addr = (type) (sum);				break; \
	case FI_PROD:		addr = (type) (product);			break; \
	case FI_LOR:		addr = (addr || buf);				break; \
	case FI_LAND:		addr = (addr && buf);				break; \
	case FI_LXOR:		addr = ((addr && !buf) || (!addr && buf));	break; \
	case FI_ATOMIC_WRITE:	addr = buf;					break; \
	case FI_CSWAP:		if (compare == addr) addr = buf;		break; \
	case FI_CSWAP_NE:	if (compare != addr) addr = buf;		break;

#define ORDERED									\
	case FI_MIN:		if (buf < addr) addr = buf;			break; \
	case FI_MAX:		if (buf > addr) addr = buf;			break; \
	case FI_CSWAP_LE:	if (compare <= addr) addr = buf;		break; \
	case FI_CSWAP_LT:	if (compare < addr) addr = buf;			break; \
	case FI_CSWAP_GE:	if (compare >= addr) addr = buf;		break; \
	case FI_CSWAP_GT:	if (compare > addr) addr = buf;			break;

#define BITS(type)								\
	case FI_BOR:		addr = (type) (addr | buf);			break; \
	case FI_BAND:		addr = (type) (addr & buf);			break; \
	case FI_BXOR:		addr = (type) (addr ^ buf);			break; \
	case FI_MSWAP:		addr = (type) ((buf & compare) | (addr & ~compare)); break;

#define MODEL(name, type, cases)						\
static void name(unsigned op, void *to, const void *operand, const void *with)	\
{										\
	type addr, buf, compare;						\
										\
	memcpy(&addr, to, sizeof(addr));					\
	memcpy(&buf, operand, sizeof(buf));					\
	memcpy(&compare, with, sizeof(compare));				\
	switch (op) {								\
	cases									\
	}									\
	memcpy(to, &addr, sizeof(addr));					\
}

#define INTEGER(name, type) \
	MODEL(name, type, ANY(type, plus((wide) addr, (wide) buf), \
			      times((wide) addr, (wide) buf)) ORDERED BITS(type))
#define REAL(name, type) \
	MODEL(name, type, ANY(type, addr + buf, addr * buf) ORDERED)
#define COMPLEX(name, type) \
	MODEL(name, type, ANY(type, addr + buf, addr * buf))

INTEGER(model_int8, int8_t)
INTEGER(model_uint8, uint8_t)
INTEGER(model_int16, int16_t)
INTEGER(model_uint16, uint16_t)
INTEGER(model_int32, int32_t)
INTEGER(model_uint32, uint32_t)
INTEGER(model_int64, int64_t)
INTEGER(model_uint64, uint64_t)
#ifdef __SIZEOF_INT128__
INTEGER(model_int128, int128)
INTEGER(model_uint128, wide)
#endif
REAL(model_float, float)
REAL(model_double, double)
REAL(model_long_double, long double)
COMPLEX(model_float_complex, float complex)
COMPLEX(model_double_complex, double complex)
COMPLEX(model_long_double_complex, long double complex)

static const struct {
	void (*apply)(unsigned op, void *to, const void *operand, const void *with);
	size_t size;
} models[MODEL_DATATYPES] = {
	[FI_INT8] = { model_int8, 1 },
	[FI_UINT8] = { model_uint8, 1 },
	[FI_INT16] = { model_int16, 2 },
	[FI_UINT16] = { model_uint16, 2 },
	[FI_INT32] = { model_int32, 4 },
	[FI_UINT32] = { model_uint32, 4 },
	[FI_INT64] = { model_int64, 8 },
	[FI_UINT64] = { model_uint64, 8 },
#ifdef __SIZEOF_INT128__
	[FI_INT128] = { model_int128, 16 },
	[FI_UINT128] = { model_uint128, 16 },
#endif
	[FI_FLOAT] = { model_float, 4 },
	[FI_DOUBLE] = { model_double, 8 },
	[FI_LONG_DOUBLE] = { model_long_double, sizeof(long double) },
	[FI_FLOAT_COMPLEX] = { model_float_complex, 8 },
	[FI_DOUBLE_COMPLEX] = { model_double_complex, 16 },
	[FI_LONG_DOUBLE_COMPLEX] = { model_long_double_complex, 2 * sizeof(long double) },
};

void model_apply(unsigned op, unsigned datatype, void *addr, const void *buf,
		 const void *compare)
{
	models[datatype].apply(op, addr, buf, compare);
}

/* ---- values of floats ---- */

/* One float, or one part of a complex number. */
static void store_part(unsigned datatype, long double from, void *to)
{
	float f = (float) from;
	double d = (double) from;

	if (datatype == FI_FLOAT || datatype == FI_FLOAT_COMPLEX)
		memcpy(to, &f, sizeof(f));
	else if (datatype == FI_DOUBLE || datatype == FI_DOUBLE_COMPLEX)
		memcpy(to, &d, sizeof(d));
	else
		memcpy(to, &from, sizeof(from));
}

static long double load_part(unsigned datatype, const void *from)
{
	float f;
	double d;
	long double ld;

	if (datatype == FI_FLOAT || datatype == FI_FLOAT_COMPLEX)
		return memcpy(&f, from, sizeof(f)), f;
	if (datatype == FI_DOUBLE || datatype == FI_DOUBLE_COMPLEX)
		return memcpy(&d, from, sizeof(d)), d;
	return memcpy(&ld, from, sizeof(ld)), ld;
}

static bool is_complex(unsigned datatype)
{
	return datatype == FI_FLOAT_COMPLEX || datatype == FI_DOUBLE_COMPLEX ||
	       datatype == FI_LONG_DOUBLE_COMPLEX;
}

static bool is_float(unsigned datatype)
{
	return is_complex(datatype) || datatype == FI_FLOAT || datatype == FI_DOUBLE ||
	       datatype == FI_LONG_DOUBLE;
}

static bool same_number(long double a, long double b)
{
	return (isnan(a) && isnan(b)) || (a == b && !signbit(a) == !signbit(b));
}

bool model_same(unsigned datatype, const void *a, const void *b)
{
	size_t size = models[datatype].size;
	size_t part = is_complex(datatype) ? size / 2 : size;

	if (!is_float(datatype))
		return !memcmp(a, b, size);
	for (size_t at = 0; at < size; at += part)
		if (!same_number(load_part(datatype, (const char *) a + at),
				 load_part(datatype, (const char *) b + at)))
			return false;
	return true;
}

/* ---- values to try ---- */

static uint64_t random_word(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

static long double float_value(unsigned index, uint64_t *state)
{
	static const long double edges[] = {
		0, -0.0L, 1, -1, 0.5L, 3, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX,
		DBL_MAX, FLT_MIN / 2, DBL_MIN / 2, FLT_EPSILON, LDBL_EPSILON,
	};
	uint64_t bits = random_word(state);

	if (index < TAGRV_ARRAY_SIZE(edges))
		return edges[index];
	return ldexpl((long double) (int64_t) bits, (int) (bits % 80) - 80);
}

/* Edges of all integers of 'bits' bits: the ends of the signed and unsigned ones. */
static wide integer_value(unsigned index, unsigned bits, uint64_t *state)
{
	wide top = (wide) 1 << (bits - 1);
	wide edges[] = {
		0, 1, 2, 3, (wide) -1, (wide) -2, top, top - 1, top + 1, top - 2,
		((wide) 1 << bits / 2) - 1, (wide) 1 << bits / 2, (wide) -1 / 3,
		((wide) -1 / 3) << 1,
	};
	wide bytes = random_word(state);

	if (index < TAGRV_ARRAY_SIZE(edges))
		return edges[index];
	for (unsigned i = 64; i < WIDE_BITS; i += 64)
		bytes = bytes << 32 << 32 | random_word(state);
	return bytes >> random_word(state) % bits;
}

void model_value(unsigned datatype, unsigned index, uint64_t seed, void *out)
{
	uint64_t state = seed * MODEL_VALUES + index;
	size_t size = models[datatype].size;
	size_t part = is_complex(datatype) ? size / 2 : size;
	wide integer;

	memset(out, 0, size);
	if (is_float(datatype)) {
		store_part(datatype, float_value(index, &state), out);
		/* The other part is of another place in the list. */
		if (is_complex(datatype))
			store_part(datatype, float_value(index * 5 % MODEL_VALUES, &state),
				   (char *) out + part);
		return;
	}
	integer = integer_value(index, (unsigned) size * 8, &state);
	for (size_t i = 0; i < size; i++)
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
		((uint8_t *) out)[i] = (uint8_t) (integer >> 8 * i);
#else
		((uint8_t *) out)[size - 1 - i] = (uint8_t) (integer >> 8 * i);
#endif
}
