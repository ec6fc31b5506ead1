/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which operations there are on which datatypes, and their application to the elements
 * of an array. What an operation computes is in atomic_value.c.
 */
#include "atomic/atomic.h"

#include <assert.h>
#include <string.h>

#include "atomic/atomic_priv.h"
#include "core/compiler.h"

/* ---- datatypes ---- */

/*
 * The floats of 8 and 16 bits that libfabric 2 defines are missing: their arithmetic is
 * for collective operations, and C has no type for most of them.
 */
const uint8_t tagrv_atomic_sizes[TAGRV_ATOMIC_DATATYPES] = {
	[FI_INT8] = sizeof(int8_t),
	[FI_UINT8] = sizeof(uint8_t),
	[FI_INT16] = sizeof(int16_t),
	[FI_UINT16] = sizeof(uint16_t),
	[FI_INT32] = sizeof(int32_t),
	[FI_UINT32] = sizeof(uint32_t),
	[FI_INT64] = sizeof(int64_t),
	[FI_UINT64] = sizeof(uint64_t),
	[FI_FLOAT] = sizeof(float),
	[FI_DOUBLE] = sizeof(double),
	[FI_FLOAT_COMPLEX] = sizeof(float complex),
	[FI_DOUBLE_COMPLEX] = sizeof(double complex),
	[FI_LONG_DOUBLE] = sizeof(long double),
	[FI_LONG_DOUBLE_COMPLEX] = sizeof(long double complex),
#if TAGRV_ATOMIC_INT128
	[FI_INT128] = sizeof(__int128),
	[FI_UINT128] = sizeof(unsigned __int128),
#endif
};

/* ---- operations ---- */

/* Sets of datatypes. Complex numbers have no order, and floats no bits to combine. */
#define DATATYPE(d)	(1u << (d))
#define INTEGERS	(DATATYPE(FI_INT8) | DATATYPE(FI_UINT8) | \
			 DATATYPE(FI_INT16) | DATATYPE(FI_UINT16) | \
			 DATATYPE(FI_INT32) | DATATYPE(FI_UINT32) | \
			 DATATYPE(FI_INT64) | DATATYPE(FI_UINT64) | \
			 DATATYPE(FI_INT128) | DATATYPE(FI_UINT128))
#define REALS		(INTEGERS | DATATYPE(FI_FLOAT) | DATATYPE(FI_DOUBLE) | \
			 DATATYPE(FI_LONG_DOUBLE))
#define ALL		(REALS | DATATYPE(FI_FLOAT_COMPLEX) | \
			 DATATYPE(FI_DOUBLE_COMPLEX) | \
			 DATATYPE(FI_LONG_DOUBLE_COMPLEX))

/* Sets of kinds. */
#define KIND(k)		(1u << (k))
#define FETCH		KIND(TAGRV_ATOMIC_FETCH)
#define CHANGE		(KIND(TAGRV_ATOMIC_BASE) | KIND(TAGRV_ATOMIC_FETCH))
#define COMPARE		KIND(TAGRV_ATOMIC_COMPARE)

/*
 * FI_DIFF of libfabric 2 is missing: fi_atomic(3) lists it for none of the three kinds,
 * and its number is FI_ATOMIC_OP_LAST of libfabric 1, by which programs ask for an
 * operation that does not exist. They must be told so.
 */
static const struct {
	uint8_t kinds;
	uint32_t datatypes;
} operations[] = {
	[FI_MIN] = { CHANGE, REALS },
	[FI_MAX] = { CHANGE, REALS },
	[FI_SUM] = { CHANGE, ALL },
	[FI_PROD] = { CHANGE, ALL },
	[FI_LOR] = { CHANGE, ALL },
	[FI_LAND] = { CHANGE, ALL },
	[FI_BOR] = { CHANGE, INTEGERS },
	[FI_BAND] = { CHANGE, INTEGERS },
	[FI_LXOR] = { CHANGE, ALL },
	[FI_BXOR] = { CHANGE, INTEGERS },
	[FI_ATOMIC_READ] = { FETCH, ALL },
	[FI_ATOMIC_WRITE] = { CHANGE, ALL },
	[FI_CSWAP] = { COMPARE, ALL },
	[FI_CSWAP_NE] = { COMPARE, ALL },
	[FI_CSWAP_LE] = { COMPARE, REALS },
	[FI_CSWAP_LT] = { COMPARE, REALS },
	[FI_CSWAP_GE] = { COMPARE, REALS },
	[FI_CSWAP_GT] = { COMPARE, REALS },
	[FI_MSWAP] = { COMPARE, INTEGERS },
};

bool tagrv_atomic_is_valid(unsigned kind, unsigned op, unsigned datatype)
{
	return kind < TAGRV_ATOMIC_KINDS && op < TAGRV_ARRAY_SIZE(operations) &&
	       tagrv_atomic_size(datatype) && operations[op].kinds & KIND(kind) &&
	       operations[op].datatypes & DATATYPE(datatype);
}

bool tagrv_atomic_is_valid_by_device(unsigned kind, unsigned op, unsigned datatype)
{
	if (datatype != FI_INT64 && datatype != FI_UINT64)
		return false;
	return tagrv_atomic_is_valid(kind, op, datatype) &&
	       (op == FI_SUM || op == FI_ATOMIC_READ || op == FI_CSWAP);
}

/* ---- elements ---- */

static bool is_lock_free(const void *target, size_t size)
{
	/* Such sizes are powers of two. */
	return size <= sizeof(uint64_t) && !((uintptr_t) target & (size - 1));
}

void tagrv_atomic_apply(unsigned kind, unsigned op, unsigned datatype, void *target,
			const void *operand, const void *compare, void *result,
			size_t count)
{
	struct tagrv_atomic_step step = {
		.op = op,
		.datatype = datatype,
		.size = tagrv_atomic_size(datatype),
	};
	bool lock_free = is_lock_free(target, step.size);
	union tagrv_element old;

	assert(tagrv_atomic_is_valid(kind, op, datatype));
	(void) kind;
	for (size_t at = 0; at < count * step.size; at += step.size) {
		if (op != FI_ATOMIC_READ)
			memcpy(&step.operand, (const char *) operand + at, step.size);
		if (compare)
			memcpy(&step.compare, (const char *) compare + at, step.size);
		if (lock_free)
			tagrv_atomic_change_word(&step, (char *) target + at, &old);
		else
			tagrv_atomic_change_locked(&step, (char *) target + at, &old);
		if (result)
			memcpy((char *) result + at, &old, step.size);
	}
}
